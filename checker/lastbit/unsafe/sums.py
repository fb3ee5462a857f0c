"""Sums that are unsafe: overflowing means, cancelling variances, narrow partial sums."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from lastbit.definitions import Definitions, reads
from lastbit.formats import F32, F64, Format, format_of
from lastbit.graph import Const, Input, Map, Node, Reduce, Round, View, apply, reshape
from lastbit.patterns import is_map, past_views, replace, same_format, unrounded
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Site, Standing
from lastbit.schedule import Lanes, Schedule, Split, levels
from lastbit.unsafe import bare, behind, definition_of, functions_of, nodes_of
from lastbit.unsafe.ranges import Bounds, ranges_of

NO_MEAN = "the value divides a sum by its number of terms"
NO_VARIANCE = "the value is a rounded mean square less a squared mean"
NO_PARTIALS = "the value adds partial sums that are narrower than their accumulator"


# Means.


@dataclass(frozen=True, slots=True)
class Mean:
    """A sum that is divided by a constant, and where it is rounded on the way.

    Attributes:
        node: the division, or the multiplication by 1 / n.
        read: the sum as the division reads it.
        total: the sum.
        formats: those of its accumulators and of its roundings before the division.
    """

    node: Map
    read: Node
    total: Reduce
    formats: tuple[Format, ...]


def mean_at(program: Definitions, node: Node) -> Mean | None:
    """Return the mean that a node is, or None; the sum may be a named value."""
    if not (isinstance(node, Map) and node.fn in ("mul", "div")):
        return None
    read, by = node.xs
    if node.fn == "mul" and isinstance(read, Const):
        read, by = by, read
    if not (isinstance(by, Const) and isinstance(by.value, Fraction)):
        return None
    formats = []
    inner = behind(program, read)
    while isinstance(inner, Round):
        formats.append(inner.rounding.format)
        inner = behind(program, inner.x)
    if not (isinstance(inner, Reduce) and inner.op == "sum"):
        return None
    count = Fraction(inner.length)
    if by.value != (count if node.fn == "div" else 1 / count):
        return None
    return Mean(node, read, inner, (*_accumulators(inner), *formats))


def means(program: Definitions, name: str) -> Iterator[Mean]:
    """Yield the means in a definition."""
    root = program.nodes[name]
    for node in nodes_of(root) if functions_of(root) & {"mul", "div"} else ():
        found = mean_at(program, node)
        if found is not None:
            yield found


def _accumulators(total: Reduce) -> list[Format]:
    if total.acc is None:
        return []
    inner = () if total.schedule is None else levels(total.schedule)
    named = [format_of(level.acc) for level in inner if level.acc]
    return [total.acc.format, *named]


def overflowing(standing: Standing, mean: Mean) -> tuple[Format, Bounds] | None:
    """Return the format that a sum overflows on the way to its mean, and the bounds of the sum.

    Terms without a declared range are taken for any number of their format, and that counts for
    formats that end as early as f16 only.
    """
    if not mean.formats:
        return None
    narrow = min(mean.formats, key=lambda fmt: fmt.max_finite)
    wide = narrow.max_finite >= F32.max_finite / 2**10
    if wide and not standing.ranges:
        return None
    bounds = ranges_of(standing).of(mean.total)
    if wide and not bounds.declared:
        return None
    return (narrow, bounds) if bounds.size > narrow.max_finite else None


def widened(site: Site) -> Edits:
    """Return the site with its sums in a wide accumulator, and unrounded up to the division.

    Raises:
        MismatchError: the site divides no sum by its number of terms.
    """
    root = site.node
    found = list(means(site.program, site.name))
    if not found:
        raise MismatchError(NO_MEAN)
    for mean in found:
        narrow = min(mean.formats, key=lambda fmt: fmt.max_finite, default=F32)
        wide = Rounding.of(F64 if narrow.max_finite >= F32.max_finite / 2**10 else F32)
        old = mean.total
        total = Reduce("sum", old.x, old.axis, _without_formats(old.schedule), wide)
        new = Map(mean.node.fn, tuple(_put(x, mean.read, total) for x in mean.node.xs))
        root = replace(root, mean.node, new)
    return {site.name: root}


def _put(x: Node, old: Node, new: Node) -> Node:
    return reshape(new, old.shape) if x is old else x


def _without_formats(schedule: Schedule | None) -> Schedule | None:
    """Return a schedule whose levels all take the format of the sum."""
    if schedule is None:
        return None
    changes: dict[str, object] = {"acc": None}
    for name in ("inner", "outer"):
        if hasattr(schedule, name):
            changes[name] = _without_formats(getattr(schedule, name))
    if hasattr(schedule, "partials"):
        changes["partials"] = None
    return dataclasses.replace(schedule, **changes)  # type: ignore[arg-type]


# Variances.


@dataclass(frozen=True, slots=True)
class OnePass:
    """A mean square less a squared mean.

    Attributes:
        node: the difference.
        x: what is averaged.
        mean: its mean, as the difference reads it.
        squares: the mean of its squares.
    """

    node: Map
    x: Node
    mean: Node
    squares: Mean


def one_pass(program: Definitions, name: str) -> OnePass | None:
    """Return the variance by one pass in a definition, if something is rounded before it."""
    root = program.nodes[name]
    for node in nodes_of(root) if "sub" in functions_of(root) else ():
        if isinstance(node, Map) and node.fn == "sub":
            found = _one_pass(program, node)
            if found is not None:
                return found
    return None


def _one_pass(program: Definitions, node: Map) -> OnePass | None:
    square = bare(program, node.xs[1])
    squares = mean_at(program, bare(program, node.xs[0]))
    if squares is None or not _is_square(square):
        return None
    terms, read = bare(program, squares.total.x), square.args[0]
    mean = mean_at(program, bare(program, read))
    if mean is None or not _is_square(terms):
        return None
    x = terms.args[0]
    if behind(program, mean.total.x).key != behind(program, x).key:
        return None
    ends = (node.xs[0], node.xs[1], read)
    rounded = any(isinstance(behind(program, end), Round) for end in ends)
    if not (rounded or squares.formats or mean.formats):
        return None
    return OnePass(node, x, read, squares)


def _is_square(node: Node) -> bool:
    return is_map(node, "mul") and node.args[0].key == node.args[1].key


def two_passes(site: Site) -> Edits:
    """Return the variance as the mean of the squared deviations.

    Raises:
        MismatchError: the site holds no variance by one pass.
    """
    found = one_pass(site.program, site.name)
    if found is None:
        raise MismatchError(NO_VARIANCE)
    old = found.squares.total
    deviation: Node = apply("sub", found.x, found.mean)
    if deviation.shape != old.x.shape:
        raise MismatchError(NO_VARIANCE)
    deviation = deviation if old.acc is None else Round(deviation, old.acc)
    squares = apply("mul", deviation, deviation)
    total = Reduce("sum", squares, old.axis, old.schedule, old.acc)
    count = old.length
    new = apply("div", reshape(total, found.node.shape), count)
    return {site.name: same_format(site.node, replace(site.node, found.node, new))}


# Partial sums.


def narrow_partials(program: Definitions, name: str) -> tuple[str, str] | None:
    """Return the formats of narrow partial sums of a definition, and of their accumulator."""
    for node in nodes_of(program.nodes[name]):
        if isinstance(node, Reduce) and node.acc is not None and node.schedule is not None:
            for level in levels(node.schedule):
                narrow = level.partials if isinstance(level, Split | Lanes) else None
                wide = format_of(level.acc) if level.acc else node.acc.format
                if narrow and format_of(narrow).precision < wide.precision:
                    return narrow, wide.short
    parts = narrow_parts(program, name)
    if parts:
        first = parts[0]
        total = bare(program, first)
        assert isinstance(total, Reduce)
        assert isinstance(first, Input)
        assert total.acc is not None
        return first.format.short, total.acc.format.short
    return None


def narrow_parts(program: Definitions, name: str) -> list[Node]:
    """Return the rounded sums over parts of an axis that a definition adds."""
    terms = [term for term in _addends(program.nodes[name]) if isinstance(term, Input)]
    if len(terms) < 2:
        return []
    parts: list[Node] = []
    origins: set[tuple[str, ...]] = set()
    for term in terms:
        node = definition_of(program, term)
        total = bare(program, term)
        if node is None or not (isinstance(total, Reduce) and total.op == "sum" and total.acc):
            continue
        cut = any(isinstance(n, View) and n.kind == "slice" for n in nodes_of(total.x))
        if cut and term.format.precision < total.acc.format.precision:
            parts.append(term)
            origins.add(tuple(sorted(reads(total.x))))
    return parts if len(parts) > 1 and len(origins) == 1 else []


def _addends(root: Node) -> Iterator[Node]:
    """Yield what a definition adds in the end: the terms of nested additions, or of a sum."""
    stack = [root]
    while stack:
        node = past_views(stack.pop())
        match node:
            case Round(x=x):
                stack.append(x)
            case Map(fn="add", xs=xs) | View(kind="concat", xs=xs):
                stack += reversed(xs)
            case Reduce(op="sum", x=x):
                stack.append(x)
            case _:
                yield node


def wide_partials(site: Site) -> Edits:
    """Return the site with partial sums in the format of their accumulator.

    Raises:
        MismatchError: it adds no narrow partial sums.
    """
    if narrow_partials(site.program, site.name) is None:
        raise MismatchError(NO_PARTIALS)
    root = site.node
    for node in nodes_of(root):
        if isinstance(node, Reduce) and node.schedule is not None:
            wide = _without_partials(node.schedule)
            new = Reduce(node.op, node.x, node.axis, wide, node.acc)
            root = replace(root, node, new) if str(wide) != str(node.schedule) else root
    for part in narrow_parts(site.program, site.name):
        total = bare(site.program, part)
        assert isinstance(part, Input)
        assert isinstance(total, Reduce)
        root = replace(root, part, unrounded(site.program.nodes[part.name]))
    return {site.name: same_format(site.node, root)}


def _without_partials(schedule: Schedule) -> Schedule:
    changes: dict[str, object] = {
        name: _without_partials(getattr(schedule, name))
        for name in ("inner", "outer")
        if hasattr(schedule, name)
    }
    if isinstance(schedule, Split | Lanes):
        changes["partials"] = None
    return dataclasses.replace(schedule, **changes)  # type: ignore[arg-type]
