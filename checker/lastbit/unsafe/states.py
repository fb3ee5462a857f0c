"""Softmax states without scores: maxima of -inf, and weights that are all 0.

A *state* is what is kept of a block of scores: its maximum, or its log-sum-exp. States are merged
by the exponentials of their differences to a common maximum; of a block without scores, or with
none that is not masked, the state is -inf.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from lastbit.definitions import Definitions
from lastbit.graph import Const, Input, Map, Node, Reduce, Round, View, apply, const
from lastbit.patterns import is_map, replace
from lastbit.rule import Edits, MismatchError, Site, Standing
from lastbit.unsafe import (
    COMPARISONS,
    Reading,
    Shift,
    bare,
    is_negative_infinity,
    nodes_of,
    shifts,
    values,
)

NO_SHIFT = "the value subtracts a maximum in an exponential, both of which may be -inf"

NEVER, GIVEN, WRITTEN = 0, 1, 2  # -inf cannot be; an input may hold it; the program writes it


class Empty(Reading[int]):
    """Whether a value may be -inf on its own, as the maximum of nothing is."""

    def __init__(self, standing: Standing) -> None:
        super().__init__(standing.program)
        self.declared = standing.ranges

    def sources(self, node: Node) -> tuple[Node, ...]:
        """Return what may hand -inf on; nothing else is looked at."""
        deaf = isinstance(node, Reduce) and node.op not in ("max", "min")
        if deaf or (isinstance(node, Map) and not _hands_on(node)):
            return ()
        return super().sources(node)

    def visit(self, node: Node, facts: list[int]) -> int:
        """Return NEVER, GIVEN or WRITTEN."""
        match node:
            case Input(name=name) if name in self.declared:
                return NEVER
            case Input(format=fmt):
                return facts[0] if facts else GIVEN if fmt.has_inf else NEVER
            case Const():
                return WRITTEN if is_negative_infinity(node) else NEVER
            case Round(rounding=rounding):
                return NEVER if rounding.overflow == "saturate" else facts[0]
            case View(kind="concat"):
                return max(facts)
            case View():
                return facts[0]
            case Reduce(op="max" | "min" as op, x=x, axis=axis):
                joined = bare(self.program, x)
                if op == "max" and isinstance(joined, View) and joined.params == (axis,):
                    return min(self.of(part) for part in joined.xs)
                return facts[0]
            case Map(fn="max"):
                return min(facts)
            case Map(fn="min" | "add"):
                return max(facts)
            case Map(fn="sub"):
                return facts[0]
            case Map(fn="mul") if facts:
                return max(facts)
            case Map(fn="select"):
                return _chosen(node, facts)
        return NEVER


def _hands_on(node: Map) -> bool:
    """Return whether a function of -inf may be -inf."""
    if node.fn == "mul":
        return any(isinstance(x, Const) for x in node.xs)
    return node.fn in ("max", "min", "add", "sub", "select")


def _chosen(node: Map, facts: list[int]) -> int:
    """Return whether a choice may be -inf; a value that is compared is guarded."""
    condition, first, second = node.xs
    if isinstance(condition, Map) and condition.fn in COMPARISONS:
        compared = {x.key for x in condition.xs}
        limited = any(isinstance(x, Const) for x in condition.xs)
        if limited and (first.key in compared or second.key in compared):
            other = facts[2] if first.key in compared else facts[1]
            return NEVER if other == NEVER else WRITTEN
    return max(facts[1:])


# Maxima that are subtracted.


def unguarded(standing: Standing) -> Iterator[Shift]:
    """Yield the exponentials of -inf less -inf that a block, or a row, without scores gives.

    What a graph writes as -inf counts everywhere. An input may hold -inf; that counts where states
    are merged and where the maximum is that of a part of a row, for there it stands for no scores.
    """
    empty = Empty(standing)
    for shift in shifts(standing.program):
        a, b = shift.difference.xs
        both = min(empty.of(a), empty.of(b))
        if both == NEVER or _is_selected(standing.program, shift):
            continue
        if both == WRITTEN or _of_a_part(standing.program, b):
            yield shift


def _of_a_part(program: Definitions, top: Node) -> bool:
    match bare(program, top):
        case Map(fn="max"):
            return True
        case Reduce(op="max", x=x):
            return isinstance(x, View) and x.kind == "slice"
    return False


def _is_selected(program: Definitions, shift: Shift) -> bool:
    """Return whether an exponential is replaced where it is NaN: select(m == -inf, 0, exp(...))."""
    root = program.nodes[shift.reader]
    for node in nodes_of(root):
        if is_map(node, "select"):
            condition, *branches = node.args
            asks = is_map(condition, *COMPARISONS) and any(
                map(is_negative_infinity, condition.args)
            )
            if asks and any(shift.exp.key in {n.key for n in nodes_of(b)} for b in branches):
                return True
    return False


def guarded_maximum(site: Site) -> Edits:
    """Subtract 0 in place of a maximum of -inf.

    Raises:
        MismatchError: nothing at the site subtracts such a maximum.
    """
    root = site.node
    differences = {
        s.difference.key: s.difference
        for s in unguarded(Standing(site.program))
        if s.holder == site.name
    }
    if not differences:
        raise MismatchError(NO_SHIFT)
    for difference in differences.values():
        a, top = difference.xs
        guard = apply("select", apply("equal", top, const(-math.inf)), 0, top)
        root = replace(root, difference, apply("sub", a, guard))
    return {site.name: root}


# Quotients by weights that are all 0.


def empty_quotients(standing: Standing) -> Iterator[tuple[str, Map]]:
    """Yield the quotients by a sum of weights that are all 0 where no state has scores.

    Those weights are exponentials whose maximum is guarded; others are NaN already.
    """
    program, empty = standing.program, Empty(standing)
    weights = {
        shift.exp.key
        for shift in shifts(program)
        if empty.of(shift.difference.xs[0]) != NEVER and empty.of(shift.difference.xs[1]) == NEVER
        if _is_guard(program, shift.difference.xs[1])
    }
    for name, root in values(program) if weights else ():
        for node in nodes_of(root):
            if is_map(node, "div") and all(
                any(bare(program, factor).key in weights for factor in _factors(program, term))
                for term in _terms(program, node.args[1])
            ):
                assert isinstance(node, Map)
                yield name, node


def _is_guard(program: Definitions, top: Node) -> bool:
    top = bare(program, top)
    return is_map(top, "select") and any(
        is_negative_infinity(x) for x in top.args[0].args if isinstance(top.args[0], Map)
    )


def _terms(program: Definitions, node: Node) -> Iterator[Node]:
    """Yield the terms of a sum, however it is nested."""
    match bare(program, node):
        case Map(fn="add", xs=xs) | View(kind="concat", xs=xs):
            for x in xs:
                yield from _terms(program, x)
        case Reduce(op="sum", x=x):
            yield from _terms(program, x)
        case term:
            yield term


def _factors(program: Definitions, node: Node) -> Iterator[Node]:
    """Yield the factors of a product, however it is nested."""
    match bare(program, node):
        case Map(fn="mul", xs=xs):
            for x in xs:
                yield from _factors(program, x)
        case factor:
            yield factor


def guarded_quotient(site: Site) -> Edits:
    """Divide by 1 where the weights sum to 0.

    Raises:
        MismatchError: the site divides by no such sum.
    """
    root = site.node
    quotients = [
        node for name, node in empty_quotients(Standing(site.program)) if name == site.name
    ]
    if not quotients:
        raise MismatchError(NO_SHIFT)
    for node in quotients:
        above, below = node.xs
        guard = apply("select", apply("equal", below, 0), 1, below)
        root = replace(root, node, apply("div", above, guard))
    return {site.name: root}


def guarded(site: Site) -> Edits:
    """Return the site with a guard where nothing has scores.

    Raises:
        MismatchError: it needs none.
    """
    try:
        return guarded_maximum(site)
    except MismatchError:
        return guarded_quotient(site)
