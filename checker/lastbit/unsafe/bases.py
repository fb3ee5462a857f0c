"""Log-sum-exps whose base nothing states, or whose base is not that of their exponential."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from lastbit.definitions import Definitions
from lastbit.graph import Const, Input, Map, Node, Reduce, Round, View, apply, const
from lastbit.patterns import replace
from lastbit.rule import Edits, MismatchError, Site
from lastbit.unsafe import Reading, Shift, bare, shifts

NO_MERGE = "the value takes exponentials of log-sum-exps whose base is another, or is not stated"

BASE = {"exp": "e", "exp2": "2", "log": "e", "log2": "2"}
MIXED = "mixed"
LOG2E = Fraction("1.4426950408889634")


def conversion(node: Node | None) -> str | None:
    """Return the base to which a factor converts a logarithm: `2` for log2 e, `e` for ln 2."""
    match node:
        case Const(value=str(name)):
            return {"log2e": "2", "ln2": "e"}.get(name)
        case Const(value=Fraction() as value):
            for exact, base in ((LOG2E, "2"), (1 / LOG2E, "e")):
                if abs(value / exact - 1) < Fraction(1, 256):  # also as a literal of few digits
                    return base
    return None


class Bases(Reading[str | None]):
    """The base to which a value is a logarithm: `e`, `2` or `mixed`; None where nothing says."""

    def sources(self, node: Node) -> tuple[Node, ...]:
        """Return what may be a logarithm to the same base; nothing else is looked at."""
        linear = isinstance(node, Map) and node.fn in ("mul", "select", "add", "sub", "max", "min")
        reduced = isinstance(node, Reduce) and node.op in ("max", "min")
        if linear or reduced or isinstance(node, Input | Round | View):
            return super().sources(node)
        return ()

    def visit(self, node: Node, facts: list[str | None]) -> str | None:
        """Return the base of a node."""
        match node:
            case Map(fn="log" | "log2" as fn):
                return BASE[fn]
            case Map(fn="mul", xs=(x, y)):
                factor, base = (x, facts[1]) if isinstance(x, Const) else (y, facts[0])
                return conversion(factor) or (base if isinstance(factor, Const) else None)
            case Map(fn="select"):
                return _common(facts[1:])
            case Map(fn="add" | "sub" | "max" | "min") | Round() | View() | Input():
                return _common(facts)
            case Reduce(op="max" | "min"):
                return facts[0]
        return None


def _common(facts: list[str | None]) -> str | None:
    bases = {base for base in facts if base is not None}
    return bases.pop() if len(bases) == 1 else MIXED if bases else None


@dataclass(frozen=True, slots=True)
class Suspect:
    """An exponential of a difference of log-sum-exps.

    Attributes:
        shift: the exponential.
        base: of the log-sum-exps: `e`, `2` or `mixed`; None where nothing says.
        taken: the base that the exponential reads.
    """

    shift: Shift
    base: str | None
    taken: str


def suspects(program: Definitions) -> Iterator[Suspect]:
    """Yield the exponentials whose base is not that of their log-sum-exps, or is not stated.

    It is stated by a logarithm in the program, or by a factor of log2 e or ln 2. Where neither
    says it, what counts are merges: maxima of several inputs, subtracted from one of them.
    """
    bases = Bases(program)
    for shift in shifts(program):
        base = _common([bases.of(x) for x in shift.difference.xs])
        converted = conversion(shift.factor)
        taken = BASE[shift.exp.fn]
        if converted is not None:
            taken = "e" if converted == "2" else "2"  # exp2(x log2 e) = exp(x)
        if base is None:
            if converted is None and _merges_inputs(program, shift):
                yield Suspect(shift, None, taken)
        elif base != taken:
            yield Suspect(shift, base, taken)


def _merges_inputs(program: Definitions, shift: Shift) -> bool:
    """Return whether one of several inputs is subtracted from by the maximum of all."""
    state, top = (bare(program, x) for x in shift.difference.xs)
    if isinstance(top, Map) and top.fn == "select":  # a guard against -inf
        top = next((x for x in (bare(program, y) for y in top.xs[1:]) if not _is_const(x)), top)
    if not (isinstance(state, Input) and isinstance(top, Map) and top.fn == "max"):
        return False
    leaves: list[Node] = []
    stack: list[Node] = [top]
    while stack:
        node = bare(program, stack.pop())
        if isinstance(node, Map) and node.fn == "max":
            stack += node.xs
        else:
            leaves.append(node)
    return len(leaves) > 1 and any(leaf.key == state.key for leaf in leaves)


def _is_const(node: Node) -> bool:
    return isinstance(node, Const)


def with_base(site: Site) -> Edits:
    """Return the site with exponentials of the base of their log-sum-exps.

    Where nothing states the base, the exponential says it: exp(x) as exp2(x log2 e).

    Raises:
        MismatchError: the site has no such exponentials.
    """
    root = site.node
    found = [s for s in suspects(site.program) if s.shift.reader == site.name]
    if not found:
        raise MismatchError(NO_MERGE)
    for suspect in found:
        exp = suspect.shift.exp
        other = "exp2" if exp.fn == "exp" else "exp"
        x: Node = exp.xs[0]
        if suspect.base is None:
            x = apply("mul", x, const("log2e" if other == "exp2" else "ln2"))
        elif suspect.base == MIXED:
            raise MismatchError(NO_MERGE)
        root = replace(root, exp, apply(other, x))
    return {site.name: root}
