"""How kernels add up what a reference writes as one sum.

- `sum-by`: a sum has an accumulator and a tree;
- `sum-as`: its tree is that of a library, for any number of terms;
- `sum-exactly`: all terms are added exactly, and the sum is rounded once;
- `begin-with`: the accumulator of a sum begins with what the reference adds afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator

from lastbit.change import Change
from lastbit.definitions import Definitions
from lastbit.formats import F32, FORMATS, format_of
from lastbit.graph import (
    Input,
    Map,
    Node,
    Reduce,
    Round,
    broadcast,
    concat,
    reshape,
    topological,
)
from lastbit.inference.forms import written
from lastbit.inference.library_sums import LONGEST, ORDERS, schedule_of
from lastbit.patterns import past_views, replace, same_format, unrounded
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Parameter, Rewrite, Site, Value
from lastbit.schedule import Schedule, Seq, parse_schedule

SUMS = (
    "seq",
    "pairwise(1)",
    "pairwise(8)",
    "lanes(4)",
    "lanes(4, inner=seq, outer=pairwise(1))",
    "lanes(8)",
    "lanes(8, inner=seq, outer=pairwise(1))",
    "lanes(16, inner=seq, outer=pairwise(1))",
    "lanes(32, inner=seq, outer=pairwise(1))",
    "lanes(64, inner=seq, outer=pairwise(1))",
    "lanes(128, inner=seq, outer=pairwise(1))",
    "lanes(256, inner=seq, outer=pairwise(1))",
    "lanes(8, outer=lanes(4, outer=lanes(2)))",
    "lanes(16, outer=lanes(8, outer=lanes(4, outer=lanes(2))))",
    "lanes(32, outer=lanes(16, outer=lanes(8, outer=lanes(4, outer=lanes(2)))))",
    "split(size=128, inner=lanes(8, inner=seq, outer=pairwise(1)), outer=pairwise(1))",
    "split(2)",
    "split(4)",
    "split(8)",
)
"""Trees of sums in kernels: chains, lanes that meet by neighbours or by halves (as registers and
warps are shuffled), and pieces. The one of `size=128` is numpy's where 128 divides the length."""
NARROW = ("seq", "pairwise(1)", "lanes(4)", "lanes(8)")
"""Those that are tried with an accumulator narrower than binary32."""
WIDE = ("seq", "pairwise(1)", "lanes(4)", "lanes(8)", "lanes(8, inner=seq, outer=pairwise(1))")
"""Those that are tried in binary64."""
LONGEST_WIDE = 4096  # of a sum that is tried in binary64
NO_SUM = "the value holds a sum"

Given = dict[str, Value]


def sums_in(root: Node) -> list[Reduce]:
    """Return the sums of a definition."""
    return [n for n in topological([root]) if isinstance(n, Reduce) and n.op == "sum"]


def choices(program: Definitions, name: str, wide: list[str]) -> Iterator[tuple[Rewrite, Given]]:
    """Yield what may be done to the sums of a definition, as forms and their parameters.

    Args:
        program: the program at its true sizes.
        name: the definition.
        wide: the formats of its accumulators, by their short names.
    """
    for number, total in enumerate(sums_in(program.nodes[name])):
        where = {"where": str(number)}
        accs = [*wide, "f64"] if total.length <= LONGEST_WIDE else wide
        for acc in dict.fromkeys(accs):
            narrow = FORMATS[acc].precision < F32.precision
            trees = WIDE if acc == "f64" else NARROW if narrow else SUMS
            for tree in trees:
                yield SUM_BY, {**where, "acc": acc, "schedule": tree}
            if total.length <= LONGEST and not narrow:
                for order in ORDERS:
                    yield SUM_AS, {**where, "acc": acc, "order": order}
        for acc in ("f64", "f32") if total.length <= LONGEST_WIDE else ():
            yield SUM_EXACTLY, {**where, "format": acc}
    for number in range(len(_begun(program, name))):
        yield BEGIN_WITH, {"where": str(number)}


def _sum(site: Site) -> Reduce:
    found = sums_in(site.node)
    number = int(site.text("where"))
    if number >= len(found):
        raise MismatchError(NO_SUM)
    return found[number]


def _replaced(site: Site, new: Node) -> Edits:
    old = _sum(site)
    if new.key == old.key:
        raise MismatchError("the sum is added up in another way")
    return {site.name: same_format(site.node, replace(site.node, old, new))}


def _sum_in(site: Site, schedule: Schedule) -> Edits:
    old, fmt = _sum(site), format_of(site.text("acc"))
    return _replaced(site, Reduce("sum", old.x, old.axis, schedule, Rounding.of(fmt)))


def _sum_by(site: Site) -> Edits:
    return _sum_in(site, parse_schedule(site.text("schedule")))


def _sum_as(site: Site) -> Edits:
    return _sum_in(site, schedule_of(site.text("order"), _sum(site).length))


def _sum_exactly(site: Site) -> Edits:
    old = _sum(site)
    exact = Round(Reduce("sum", old.x, old.axis), Rounding.of(site.text("format")))
    return _replaced(site, exact)


WHERE = Parameter("where", "choice", "which sum")
ACC = Parameter("acc", "choice", "the format of the accumulator")

SUM_BY = Rewrite(
    code="",
    name="sum-by",
    claim=Change.ROUNDING,
    prose="sum-by: a sum has an accumulator and a tree.",
    graph="",
    at=("y",),
    rewrite=_sum_by,
    parameters=(
        WHERE,
        ACC,
        Parameter("schedule", "schedule", "the tree", axis=lambda site: _sum(site).length),
    ),
    title=lambda site: (
        f"the sum of `{written(_sum(site).x, 2)}` in `{site.name}` is accumulated in "
        f"{site.text('acc')} by `{site.text('schedule')}`"
    ),
)

SUM_AS = Rewrite(
    code="",
    name="sum-as",
    claim=Change.ROUNDING,
    prose="sum-as: the tree of a sum is that of a library.",
    graph="",
    at=("y",),
    rewrite=_sum_as,
    parameters=(WHERE, ACC, Parameter("order", "choice", "whose order it is")),
    title=lambda site: (
        f"the sum of `{written(_sum(site).x, 2)}` in `{site.name}` is accumulated in "
        f"{site.text('acc')} in the order {_order_said(site.text('order'))}"
    ),
)

SUM_EXACTLY = Rewrite(
    code="",
    name="sum-exactly",
    claim=Change.ROUNDING,
    prose="sum-exactly: terms are added exactly, and their sum is rounded once.",
    graph="",
    at=("y",),
    rewrite=_sum_exactly,
    parameters=(WHERE, Parameter("format", "choice", "the format of the sum")),
    title=lambda site: (
        f"the sum of `{written(_sum(site).x, 2)}` in `{site.name}` is exact, and rounded once to "
        f"{site.text('format')}"
    ),
)


def _order_said(order: str) -> str:
    return f"of {order}" if "." in order else f"from the {order}"


# The accumulator begins with a value.


def _begun(program: Definitions, name: str) -> list[tuple[Map, Node]]:
    """Return each addition to a sum, and the sum that begins with the other term."""
    found = []
    for node in topological([program.nodes[name]]):
        if isinstance(node, Map) and node.fn == "add":
            for total, first in (node.xs, node.xs[::-1]):
                begun = _begun_with(program, total, first)
                if begun is not None and begun.shape == node.shape:
                    found.append((node, begun))
    return found


def _begun_with(program: Definitions, total: Node, first: Node) -> Node | None:
    if isinstance(total, Input):
        if program.is_input(total.name):
            return None
        total = program.nodes[total.name]
    total = unrounded(total) if isinstance(total, Round) else total
    old = past_views(total)
    if not isinstance(old, Reduce) or not isinstance(old.schedule, Seq) or old.acc is None:
        return None
    if old.op != "sum" or len(first.shape) > len(total.shape):
        return None
    begin = reshape(broadcast(first, total.shape), old.shape)
    terms = concat((begin, old.x), old.axis)
    new = Reduce("sum", terms, old.axis, old.schedule, old.acc)
    return new if new.shape == total.shape else reshape(new, total.shape)


def _begin_with(site: Site) -> Edits:
    found = _begun(site.program, site.name)
    number = int(site.text("where"))
    if number >= len(found):
        raise MismatchError("the value adds something to a sum")
    old, new = found[number]
    return {site.name: same_format(site.node, replace(site.node, old, new))}


BEGIN_WITH = Rewrite(
    code="",
    name="begin-with",
    claim=Change.ROUNDING,
    prose="begin-with: the accumulator of a sum begins with what was added afterwards.",
    graph="",
    at=("y",),
    rewrite=_begin_with,
    parameters=(Parameter("where", "choice", "which addition"),),
    title=lambda site: (
        f"the accumulator of the sum in `{site.name}` begins with what is added to it"
    ),
)
