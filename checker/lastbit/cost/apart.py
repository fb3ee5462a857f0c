"""A sum that is split across blocks of threads, as what its launches compute.

The launch of the pieces stores one partial sum for each piece; another one reads them and adds
them. Where pieces are added as they come, the launch of the pieces adds each to one stored value,
which is cleared by a launch before. A split sum that is one loop is none of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from lastbit.formats import Format, format_of
from lastbit.graph import (
    Input,
    Node,
    Reduce,
    Round,
    Shape,
    View,
    concat,
    reshape,
    substitute,
    take,
    topological,
    transpose,
)
from lastbit.rounding import Rounding
from lastbit.schedule import AnyOrder, Split

PARTIALS, WHOLE_SUM = ".partials", ".sum"  # no name in a program has a dot


def is_partial(name: str) -> bool:
    """Return whether a name is that of partial sums."""
    return name.rpartition(".")[2].startswith(PARTIALS[1:])


def shown(name: str) -> str:
    """Return how a report names a value, partial sums and sums of a value included."""
    value, _, part = name.partition(".")
    if not part:
        return f"`{name}`"
    return f"the {'partial sums' if is_partial(name) else 'sum'} of `{value}`"


@dataclass(frozen=True, slots=True)
class Apart:
    """A definition whose sum is split across blocks.

    Attributes:
        new: definitions of the values that it is computed from; the partial sums come first.
        rest: the definition itself, which reads them; None where the pieces are added to the value
            itself, of which `new` then holds the definition.
        adding: the value to which pieces are added as they come; empty where they are stored.
        elementwise: whether the rest follows the sum element by element.
    """

    new: dict[str, Node]
    rest: Node | None
    adding: str
    elementwise: bool


def split_sums(root: Node) -> list[Reduce]:
    """Return the sums of a definition that have several pieces."""
    return [
        node for node in topological([root]) if isinstance(node, Reduce) and pieces_of(node) > 1
    ]


def pieces_of(node: Reduce) -> int:
    """Return the pieces of a split sum that hold a term; 1 where it is not split."""
    return sum(count for count, _ in _lengths(node))


def _lengths(node: Reduce) -> list[tuple[int, int]]:
    """Return how many pieces have how many terms, longest first."""
    schedule, terms = node.schedule, node.length
    if not isinstance(schedule, Split) or node.acc is None or not terms:
        return [(1, terms)]
    n, size, tile = schedule.n, schedule.size, schedule.tile
    if size is None:
        assert isinstance(n, int)
        assert isinstance(tile, int)
        tiles = ceil(terms / tile)
        if schedule.deal == "interleaved":
            short, longer = divmod(terms, min(n, tiles))
            found = [(longer, short + 1), (min(n, tiles) - longer, short)]
            return [(count, length) for count, length in found if count]
        size = ceil(tiles / n) * tile
    assert isinstance(size, int)
    full, left = divmod(terms, size)
    return [(count, length) for count, length in ((full, size), (1, left)) if count and length]


def apart(name: str, root: Node, total: Reduce, number: int = 0) -> Apart:
    """Return what the launches of a split sum compute.

    Args:
        name: the value that holds it.
        root: its definition.
        total: the sum.
        number: tells the split sums of one definition from each other.
    """
    schedule, acc = total.schedule, total.acc
    assert isinstance(schedule, Split)
    assert acc is not None
    label = str(number + 1) if number else ""
    partials, whole = f"{name}{PARTIALS}{label}", f"{name}{WHOLE_SUM}{label}"
    elementwise = _is_elementwise(root, total)
    shape = root.shape if elementwise else _without(total)
    pieces = _pieces(total, shape)
    if not isinstance(schedule.outer, AnyOrder):
        narrow = format_of(schedule.partials) if schedule.partials else acc.format
        stored = Input(partials, narrow, shape=pieces.shape)
        added: Node = reshape(Reduce("sum", stored, 0, schedule.outer, acc), shape)
        new: dict[str, Node] = {partials: Round(pieces, Rounding.of(narrow))}
        adding = ""
    else:
        buffer = Round(reshape(Reduce("sum", pieces, 0, AnyOrder(), acc), shape), acc)
        if elementwise and _is_only(root, total, acc.format):
            return Apart({name: buffer}, None, name, True)
        added = Input(partials, acc.format, shape=shape)
        new, adding = {partials: buffer}, partials
    if not elementwise:
        new[whole] = Round(added, acc)
        added = Input(whole, acc.format, shape=shape)
    rest = substitute([root], {total.key: reshape(added, total.shape)})[root.key]
    return Apart(new, rest, adding, elementwise)


def added_pieces(node: Node) -> Node:
    """Return the pieces that are added to a value as they come, from its definition."""
    while not isinstance(node, Reduce):
        node = node.args[0]
    return node.x


def one_piece(node: Node) -> Node:
    """Return the part of a definition of partial sums that one block computes the most of."""
    inner = node.x if isinstance(node, Round) else node
    if isinstance(inner, View) and inner.kind == "concat":
        return inner.xs[0]
    return node


def _is_elementwise(root: Node, total: Reduce) -> bool:
    """Return whether a definition goes on from its sum element by element."""
    above = {total.key}
    for node in topological([root]):
        if not above.isdisjoint(arg.key for arg in node.args):
            if isinstance(node, Reduce) or prod(node.shape) != prod(total.shape):
                return False
            above.add(node.key)
    return True


def _is_only(root: Node, total: Reduce, fmt: Format) -> bool:
    """Return whether a definition is its sum, in the accumulator's format."""
    while root.key != total.key:
        if isinstance(root, Round) and root.rounding.format == fmt:
            root = root.x
        elif isinstance(root, View) and root.kind == "reshape":
            root = root.xs[0]
        else:
            return False
    return True


def _without(total: Reduce) -> Shape:
    """Return the shape of a sum without the axis of its terms, if others are left."""
    axis, shape = total.axis, total.shape
    return shape if len(shape) < 2 else (*shape[:axis], *shape[axis + 1 :])


def _pieces(total: Reduce, shape: Shape) -> Node:
    """Return the partial sums, f[pieces, *shape], of at least three axes."""
    schedule, axis = total.schedule, total.axis
    assert isinstance(schedule, Split)
    shape = (*(1,) * (2 - len(shape)), *shape)
    parts, start = [], 0
    for count, terms in _lengths(total):
        taken = take(total.x, axis, start, start + count * terms)
        start += count * terms
        outer = taken.shape
        folded = reshape(taken, (*outer[:axis], count, terms, *outer[axis + 1 :]))
        summed = Reduce("sum", folded, axis + 1, schedule.inner, total.acc)
        first = (axis, *(i for i in range(len(summed.shape)) if i != axis))
        parts.append(reshape(transpose(summed, first), (count, *shape)))
    return concat(parts, 0)
