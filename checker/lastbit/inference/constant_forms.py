"""What kernels do to the constants of a reference: leave a guard out, or take another.

- `drop-constant`: a constant that is added, or that a value is compared with, is left out;
- `other-constant`: it is another that is usual in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from lastbit.change import Change
from lastbit.definitions import Definitions
from lastbit.graph import Const, Map, Node, apply, topological
from lastbit.inference.forms import written
from lastbit.patterns import replace, same_format
from lastbit.rule import Edits, MismatchError, Parameter, Rewrite, Site

GUARDS = ("1e-5", "1e-6", "1e-8", "1e-10", "1e-12")
"""What is usually added below a root, or bounds a maximum from below."""
LARGEST_GUARD = Fraction(1, 100)
COMPARED = ("add", "sub", "max", "min")


def guards_in(root: Node) -> list[tuple[Map, Node, Const]]:
    """Return each addition of a constant or comparison with one: it, the value, the constant."""
    found = []
    for node in topological([root]):
        if not isinstance(node, Map) or node.fn not in COMPARED or len(node.xs) != 2:
            continue
        for x, other in (node.xs, node.xs[::-1]):
            alone = not isinstance(x, Const) and x.shape == node.shape
            if isinstance(other, Const) and alone and (node.fn != "sub" or other is node.xs[1]):
                found.append((node, x, other))
    return found


def magnitudes(program: Definitions) -> tuple[float, ...]:
    """Return the sizes of the constants that are added or compared, each once.

    Where one may be a guard, there are those that it may be mistaken for.
    """
    found = set()
    for node in program.nodes.values():
        for _, _, constant in guards_in(node):
            if isinstance(constant.value, Fraction | float) and constant.value:
                found.add(abs(float(constant.value)))
    if any(value <= LARGEST_GUARD for value in found):
        found |= {float(guard) for guard in GUARDS}
    return tuple(sorted(value for value in found if value < float("inf")))


def choices(program: Definitions, name: str) -> Iterator[tuple[Rewrite, dict[str, str]]]:
    """Yield what may be done to the constants of a definition, as forms and their parameters."""
    for number, (_, _, constant) in enumerate(guards_in(program.nodes[name])):
        where = {"where": str(number)}
        yield DROP_CONSTANT, where
        value = constant.value
        if isinstance(value, Fraction) and 0 < value <= LARGEST_GUARD:
            for guard in GUARDS:
                yield OTHER_CONSTANT, {**where, "value": guard}


def _guard(site: Site) -> tuple[Map, Node, Const]:
    found = guards_in(site.node)
    number = int(site.text("where"))
    if number >= len(found):
        raise MismatchError("the value adds a constant, or compares with one")
    return found[number]


def _drop_constant(site: Site) -> Edits:
    old, x, _ = _guard(site)
    return {site.name: same_format(site.node, replace(site.node, old, x))}


def _other_constant(site: Site) -> Edits:
    old, x, constant = _guard(site)
    value = Fraction(site.text("value"))
    if float(value) == constant.value or value == constant.value:
        raise MismatchError("the constant is another")
    return {site.name: replace(site.node, old, apply(old.fn, x, value))}


WHERE = Parameter("where", "choice", "which constant, counted from the innermost")

DROP_CONSTANT = Rewrite(
    code="",
    name="drop-constant",
    claim=Change.MATH,
    prose="drop-constant: a constant that is added or compared with is left out.",
    graph="",
    at=("y",),
    rewrite=_drop_constant,
    parameters=(WHERE,),
    title=lambda site: (
        f"`{written(_guard(site)[0], 2)}` inside `{site.name}` is left at "
        f"`{written(_guard(site)[1], 1)}`"
    ),
)

OTHER_CONSTANT = Rewrite(
    code="",
    name="other-constant",
    claim=Change.MATH,
    prose="other-constant: a constant that is added or compared with is another.",
    graph="",
    at=("y",),
    rewrite=_other_constant,
    parameters=(WHERE, Parameter("value", "choice", "the constant")),
    title=lambda site: (
        f"`{written(_guard(site)[0], 2)}` inside `{site.name}` has {site.text('value')} in place "
        f"of {written(_guard(site)[2], 1)}"
    ),
)
