"""What rules share: finding a form in a definition, and writing another in its place.

A helper that does not find its form raises `MismatchError` with what it needs, so a rule reads
as the straight line of what it does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from lastbit.cost.placement import Placement, Spill
from lastbit.definitions import reads
from lastbit.formats import Format, format_of
from lastbit.graph import (
    Const,
    Input,
    Map,
    Node,
    Reduce,
    Round,
    View,
    concat,
    native_rounding,
    reshape,
    substitute,
    topological,
)
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError, Parameter, Require, Site
from lastbit.schedule import (
    AnyOrder,
    Lanes,
    Nested,
    Schedule,
    Seq,
    Split,
    formats,
    parse_schedule,
    tree_of,
    tree_of_pairs,
)

N = TypeVar("N", bound=Node)
T = TypeVar("T")


# Finding and replacing.


def find(root: Node, kind: type[N], test: Callable[[N], bool] = lambda node: True) -> list[N]:
    """Return the nodes of a kind in a definition that pass a test, arguments first."""
    return [node for node in topological([root]) if isinstance(node, kind) and test(node)]


def only(found: Iterable[T], need: str) -> T:
    """Return the one that was found.

    Raises:
        MismatchError: there is none, or more than one; the text is `need`.
    """
    found = tuple(found)
    if len(found) != 1:
        raise MismatchError(need)
    return found[0]


def is_map(node: Node, *fns: str) -> bool:
    """Return whether a node is one of some elementwise functions."""
    return isinstance(node, Map) and node.fn in fns


def is_number(node: Node, value: float) -> bool:
    """Return whether a node is a constant of that value."""
    return isinstance(node, Const) and node.value == value


def replace(root: Node, old: Node, new: Node) -> Node:
    """Return a definition with one node replaced wherever it occurs.

    Raises:
        MismatchError: the new node has another shape.
    """
    if old.shape != new.shape:
        raise MismatchError(f"the shape {list(old.shape)} stays")
    return substitute([root], {old.key: new})[root.key]


def same_format(root: Node, new: Node) -> Node:
    """Return a new definition rounded as the old one is, if it is not a value of that format."""
    rounding = native_rounding(root)
    if rounding is None or native_rounding(new) == rounding:
        return new
    return Round(new, rounding)


def past_views(node: Node) -> Node:
    """Return what a node views: reshaped, transposed, sliced or broadcast, but not concatenated."""
    while isinstance(node, View) and len(node.xs) == 1:
        node = node.xs[0]
    return node


def outer_rounding(root: Node) -> Round:
    """Return the rounding in which a definition ends; views may follow it.

    Raises:
        MismatchError: it ends in none.
    """
    node = past_views(root)
    if not isinstance(node, Round):
        raise MismatchError("the value is rounded")
    return node


def unrounded(root: Node) -> Node:
    """Return a definition without the rounding in which it ends, or the definition itself."""
    node = past_views(root)
    return replace(root, node, node.x) if isinstance(node, Round) else root


# Values by name.


def inlined(site: Site, name: str, body: Node) -> Edits:
    """Return the readers of a value with `body` written in its place; the value itself stays.

    Raises:
        MismatchError: nothing reads the value.
    """
    readers = site.program.consumers(name)
    if not readers:
        raise MismatchError("another value reads it")
    leaf = site.ref(name)
    return {reader: replace(site.definition(reader), leaf, body) for reader in readers}


def some(edits: Edits, need: str) -> Edits:
    """Return edits, if there are any.

    Raises:
        MismatchError: there are none; the text is `need`.
    """
    if not edits:
        raise MismatchError(need)
    return edits


def reread(site: Site, copy: Node, need: str) -> Edits:
    """Return the readers that the site names, with another value in place of the site's first.

    Raises:
        MismatchError: the site names no readers, or others; the text is `need`.
    """
    readers = site.at[1:]
    if not readers or not set(readers) <= set(site.program.consumers(site.name)):
        raise MismatchError(need)
    leaf = site.ref(site.name)
    return {reader: replace(site.definition(reader), leaf, copy) for reader in readers}


def computed_inside(site: Site) -> Placement:
    """Return that the site's value is computed in the kernels of its readers."""
    readers = site.program.consumers(site.name)
    return Placement(inside=frozenset((site.name, reader) for reader in readers))


def stored_between_blocks(site: Site) -> Placement:
    """Return that the site's running sum is stored in `format` after each block but the last."""
    times = -(-sum_of(site).length // site.integer("block")) - 1
    return Placement(spills={site.name: Spill(times, site.text("format"))})


def split_across_blocks(site: Site) -> Placement:
    """Return that the pieces of the site's sum are added up by blocks of their own."""
    return Placement(split=frozenset(site.at[:1]))


def fresh(site: Site, base: str) -> str:
    """Return a name that the program does not use: `base`, or `base` with a number."""
    names = site.program.nodes
    candidates = (base if i == 1 else f"{base}_{i}" for i in range(1, len(names) + 2))
    return next(name for name in candidates if name not in names)


def written_out(site: Site, node: Node) -> Node:
    """Return the definition behind a leaf, or the node itself if it is no named value."""
    node = past_views(node)
    if isinstance(node, Input) and not site.program.is_input(node.name):
        return past_views(site.definition(node.name))
    return node


# Sums.


@dataclass(frozen=True, slots=True)
class Sum:
    """The one sum with a schedule in a definition.

    Attributes:
        root: the definition.
        node: the sum in it.
        schedule: the sum's tree.
        acc: the rounding of its additions.
    """

    root: Node
    node: Reduce
    schedule: Schedule
    acc: Rounding

    @property
    def terms(self) -> Node:
        """Return what is added, along `axis`."""
        return self.node.x

    @property
    def axis(self) -> int:
        """Return the axis of the terms."""
        return self.node.axis

    @property
    def length(self) -> int:
        """Return the number of terms of an output element."""
        return self.node.length

    def over(self, terms: Node, schedule: Schedule | None = None) -> Reduce:
        """Return a sum of other terms along the same axis, in the same accumulator."""
        return Reduce("sum", terms, self.axis, schedule or self.schedule, self.acc)

    def replaced(self, new: Node) -> Node:
        """Return the definition with another node in place of the sum; its format stays."""
        return same_format(self.root, replace(self.root, self.node, new))

    def scheduled(self, schedule: Schedule, acc: Rounding | None = None) -> Node:
        """Return the definition with another tree, or another accumulator, for the sum."""
        new = Reduce("sum", self.terms, self.axis, schedule, acc or self.acc)
        return self.replaced(new)


def sum_in(root: Node) -> Sum:
    """Return the one sum of a definition, whatever stands around it.

    Raises:
        MismatchError: the definition holds no sum, several, or one that is exact.
    """
    node = only(find(root, Reduce, lambda node: node.op == "sum"), "the value holds one sum")
    if node.schedule is None or node.acc is None:
        raise MismatchError("the sum has an accumulator and a schedule")
    return Sum(root, node, node.schedule, node.acc)


def sum_of(site: Site) -> Sum:
    """Return the one sum of the site's definition.

    Raises:
        MismatchError: the definition holds no sum, several, or one that is exact.
    """
    return sum_in(site.node)


def sum_length(site: Site) -> int:
    """Return the number of terms of the sum that the site's value is made from."""
    total, _ = sum_behind(site)
    return total.length


def mean_in(root: Node) -> tuple[Sum, Map]:
    """Return the sum of a mean, and the division or multiplication by its number of terms.

    Raises:
        MismatchError: the definition is no mean.
    """
    total = sum_in(root)

    def averages(node: Map) -> bool:
        if len(node.xs) != 2 or past_views(node.xs[0]).key != total.node.key:
            return False
        factor = {"div": total.length, "mul": 1 / total.length}.get(node.fn)
        return isinstance(node.xs[1], Const) and node.xs[1].value == factor

    return total, only(find(root, Map, averages), "the value is a mean")


def add_up(parts: Iterable[Node], acc: Rounding, schedule: Schedule | None = None) -> Node:
    """Return the elementwise sum of nodes of one shape, added by a schedule (`seq`) in `acc`."""
    nodes = tuple(parts)
    shape = nodes[0].shape
    stack = concat((reshape(node, (1, *shape)) for node in nodes), 0)
    return reshape(Reduce("sum", stack, 0, schedule or Seq(), acc), shape)


def sum_behind(site: Site) -> tuple[Sum, Callable[[Node], Node]]:
    """Return the sum that the site's value is made from, and what the value makes of a sum.

    The sum stands in the definition itself or is a named value that the definition reads. The
    function gives the value for another node in place of the sum, without the last rounding.

    Raises:
        MismatchError: there is no such sum, or more than one.
    """
    body = unrounded(site.node)
    if find(body, Reduce):
        total = sum_in(site.node)
        return total, lambda new: replace(body, total.node, new)
    names = [name for name in reads(body) if not site.program.is_input(name)]
    sums = [name for name in names if find(site.definition(name), Reduce)]
    if len(sums) != 1:
        raise MismatchError("the value is made from one sum")
    name = sums[0]
    total = sum_in(site.definition(name))
    return total, lambda new: replace(body, site.ref(name), total.replaced(new))


def schedule_in(site: Site, parameter: str, default: Schedule) -> Schedule:
    """Return a parameter that is a schedule, or `default` where its text is empty."""
    text = site.text(parameter)
    return parse_schedule(text) if text else default


def pieces_of(level: Split | Lanes, length: int) -> list[tuple[int, ...]]:
    """Return which terms each piece of a split sum, or each lane, takes."""
    bare = dataclasses.replace(level, inner=AnyOrder(), outer=AnyOrder(), partials=None, acc=None)
    return [piece[1:] for piece in tree_of(bare, length)[1:]]


def one_by_one(order: Iterable[int]) -> Schedule:
    """Return the schedule that adds pieces one after another, in this order."""
    nested: Nested = ()
    for piece in order:
        nested = (nested, piece)
    return tree_of_pairs(nested)


def pieces_said(site: Site, split: Split) -> str:
    """Return how many pieces a split has, and of how many terms where that is not what it says."""
    lengths = [len(piece) for piece in pieces_of(split, sum_of(site).length)]
    if len(lengths) == split.n:
        return f"{split.n} pieces"
    return f"{len(lengths)} pieces of up to {max(lengths)} terms"


# Parameters and requirements that several rules have.

PIECES = Parameter("n", "count", "the number of pieces")
TILE = Parameter("tile", "length", "terms that stay in one piece", 1, axis=sum_length)
BLOCK = Parameter("block", "length", "terms in a block of K", axis=sum_length)

NO_GRID = Require(
    "the value is rounded to a format that is no grid",
    lambda site: not outer_rounding(site.node).rounding.format.is_grid,
    lambda site: outer_rounding(site.node).rounding.format.short,
)
NO_GRID_FORMAT = Require(
    "format is no grid",
    lambda site: not format_of(site.text("format")).is_grid,
    lambda site: f"format={site.text('format')}",
)


def wide_format(site: Site, parameter: str = "format") -> Format:
    """Return a parameter that is a format.

    Raises:
        MismatchError: it is a grid, in which no sum is kept.
    """
    fmt = format_of(site.text(parameter))
    if fmt.is_grid:
        raise MismatchError(NO_GRID_FORMAT.text)
    return fmt


def one_format(schedule: Callable[[Site], Schedule]) -> Require:
    """Return the requirement that a sum rounds to one format, with its schedule and another.

    Args:
        schedule: the other schedule.
    """

    def holds(site: Site) -> bool:
        total = sum_of(site)
        acc = total.acc.format.short
        return all(formats(s, acc) == {acc} for s in (total.schedule, schedule(site)))

    def facts(site: Site) -> str:
        found = dict.fromkeys((str(sum_of(site).schedule), str(schedule(site))))
        return " and ".join(f"`{text}`" for text in found)

    return Require("every addition is in the accumulator's format", holds, facts)


ONE_FORMAT = one_format(lambda site: sum_of(site).schedule)


NO_RESULT = Require(
    "the value is no result of the program", lambda site: site.name not in site.program.outputs
)
