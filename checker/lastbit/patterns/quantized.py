"""Find a quantization at a site, and write it with other scales.

A quantization divides by a scale and rounds to a grid: an integer format or one of at most
8 bits. Its readers multiply by the scale again, elementwise or after a sum. The scale usually
comes from the largest magnitude of a row; scale and maximum may be named values or stand inside
the definitions that need them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lastbit.cost.placement import Placement
from lastbit.definitions import reads
from lastbit.graph import (
    Input,
    Node,
    Reduce,
    Round,
    View,
    broadcast,
    substitute,
    topological,
)
from lastbit.patterns import find, is_map, past_views, replace, same_format
from lastbit.patterns.blocks import block_of, blocks_of
from lastbit.rule import Edits, MismatchError, Parameter, Require, Site

ROW_SCALED = """
t: bf16[M, K]
w: bf16[K, N]
s: f32 = amax(t, axis=-1) / 448            # 448 is the largest e4m3fn
q: e4m3fn = t / s saturate
y: bf16 = matmul(q, w) * s acc f32 seq
"""
NO_GRID = "a value is rounded to a grid: an integer format, or one of at most 8 bits"
NO_SCALE = "a value is divided by a scale and rounded to a grid"
NO_MAXIMUM = "the scale comes from a maximum"
MOST_NAMES = 8  # definitions written out in search of a maximum


@dataclass(frozen=True, slots=True)
class Grid:
    """A value that is rounded to a grid.

    Attributes:
        site: the site.
        name: the definition that holds the rounding.
        node: the rounding.
    """

    site: Site
    name: str
    node: Round

    @property
    def named(self) -> bool:
        """Return whether the rounded value has a name of its own."""
        return past_views(self.site.definition(self.name)).key == self.node.key

    @property
    def codes(self) -> Node:
        """Return how its readers read it: by name, or written out in the definition."""
        return self.site.ref(self.name) if self.named else self.node

    @property
    def readers(self) -> tuple[str, ...]:
        """Return the definitions that read it."""
        return self.site.program.consumers(self.name) if self.named else (self.name,)

    @property
    def numerator(self) -> Node:
        """Return what is quantized: divided by a scale, or rounded as it is."""
        return self.node.x.args[0] if is_map(self.node.x, "div") else self.node.x

    def replaced(self, new: Node) -> Edits:
        """Return the definition with another node in place of the rounding."""
        return {self.name: replace(self.site.definition(self.name), self.node, new)}

    def product_in(self, name: str) -> Reduce:
        """Return the sum over quantized values in a definition.

        Raises:
            MismatchError: there is none.
        """
        for node in outermost(self.site.definition(name)):
            total = self.product(node)
            if total is not None:
                return total
        raise MismatchError("every reader of the quantized values sums them")

    def operands(self, total: Reduce) -> tuple[Node, Node]:
        """Return the factors of a sum over quantized values: those, and the others."""
        first, second = total.x.args
        mine = past_views(first).key == self.codes.key
        return (first, second) if mine else (second, first)

    def column_axis(self, total: Reduce) -> int:
        """Return the axis of a sum over quantized values that only the other operand has.

        Raises:
            MismatchError: there is none.
        """
        codes, other = self.operands(total)
        rank = len(total.shape)
        axes = [a for a in range(-rank, 0) if a + rank != total.axis and codes.shape[a] == 1]
        if not axes or len(other.shape) < rank:
            raise MismatchError("the product has columns")
        return max(axes, key=lambda axis: other.shape[axis])

    def product(self, node: Node) -> Reduce | None:
        """Return the sum of quantized values times others behind a view, or None."""
        if isinstance(node, View) and node.kind == "reshape":
            node = node.xs[0]
        if not (isinstance(node, Reduce) and node.op == "sum" and is_map(node.x, "mul")):
            return None
        operands = (past_views(x).key for x in node.x.args)
        return node if self.codes.key in operands else None


@dataclass(frozen=True, slots=True)
class Quantized(Grid):
    """A quantization by a scale that comes from a maximum.

    Attributes:
        scale: the scale, as definitions read it.
        formula: the definition of the scale, the maximum included.
        amax: the maximum.
    """

    scale: Node
    formula: Node
    amax: Reduce

    @property
    def axis(self) -> int:
        """Return the axis of the maximum, counted from the last one."""
        return self.amax.axis - len(self.amax.x.shape)

    @property
    def length(self) -> int:
        """Return the number of elements that share a scale."""
        return self.amax.length

    def scaled_by(self, amax: Node) -> Node:
        """Return the scale that follows from another maximum."""
        return replace(self.formula, self.amax, amax)

    def rescaled(self, scale: Node) -> Edits:
        """Return the definitions with another formula for the scale.

        What quantizes by the scale or multiplies by it again is among them even where it only
        reads the scale by name: a scale is judged with what it is for.
        """
        site, names = self.site, (self.name, *self.readers)
        if not isinstance(self.scale, Input):
            return {name: replace(site.definition(name), self.scale, scale) for name in names}
        root = site.definition(self.scale.name)
        names += site.program.consumers(self.scale.name)
        edits = {name: site.definition(name) for name in names}
        return {self.scale.name: same_format(root, scale), **edits}

    def block_maxima(self, size: int) -> list[Reduce]:
        """Return the maximum of each block of `size` elements."""
        return [
            Reduce("max", block_of(self.amax.x, self.axis, block), self.amax.axis)
            for block in blocks_of(self.length, size)
        ]


def grid_at(site: Site) -> Grid:
    """Return the rounding to a grid at a site: there, in what it reads, or in its readers.

    Raises:
        MismatchError: there is none.
    """
    for name in _near(site):
        for node in outermost(site.definition(name)):
            if isinstance(node, Round) and _is_codes(node):
                return Grid(site, name, node)
    raise MismatchError(NO_GRID)


def scaled_at(site: Site) -> tuple[Grid, Node, Node]:
    """Return the quantization at a site, what is quantized, and the scale.

    Raises:
        MismatchError: nothing is divided by a scale and rounded to a grid there.
    """
    for name in _near(site):
        for node in outermost(site.definition(name)):
            if isinstance(node, Round) and _is_codes(node) and is_map(node.x, "div"):
                return Grid(site, name, node), node.x.args[0], node.x.args[1]
    raise MismatchError(NO_SCALE)


def quantized_at(site: Site) -> Quantized:
    """Return the quantization at a site whose scale comes from a maximum.

    Raises:
        MismatchError: there is none.
    """
    grid, _, scale = scaled_at(site)
    formula = site.definition(scale.name) if isinstance(scale, Input) else scale
    for _ in range(MOST_NAMES):
        maxima = find(formula, Reduce, lambda node: node.op == "max")
        if maxima:
            return Quantized(site, grid.name, grid.node, scale, formula, maxima[-1])
        names = [
            leaf
            for leaf in topological([formula])
            if isinstance(leaf, Input) and not site.program.is_input(leaf.name)
        ]
        if not names:
            break
        new = {leaf.key: site.definition(leaf.name) for leaf in names}
        formula = substitute([formula], new)[formula.key]
    raise MismatchError(NO_MAXIMUM)


def row_length(site: Site) -> int:
    """Return the number of elements that share a scale at a site."""
    return quantized_at(site).length


def over_tensor(maxima: Node) -> Node:
    """Return the largest of all values of a node, in the node's shape."""
    largest = maxima
    for axis in range(len(maxima.shape)):
        largest = Reduce("max", largest, axis)
    return broadcast(largest, maxima.shape)


CHUNK = Parameter("chunk", "length", "elements in a chunk of a row", axis=row_length)


def shorter_than_row(parameter: str) -> Require:
    """Return the requirement that a parameter is a length shorter than a row."""
    return Require(
        f"1 <= {parameter} < K",
        lambda site: 1 <= site.integer(parameter) < row_length(site),
        lambda site: f"K={row_length(site)}, {parameter}={site.integer(parameter)}",
    )


def rounded_input(site: Site, node: Node) -> Input:
    """Return the value that a node reads and that the program rounds.

    Raises:
        MismatchError: there is none.
    """
    for leaf in topological([node]):
        if not isinstance(leaf, Input) or site.program.is_input(leaf.name):
            continue
        if isinstance(past_views(site.definition(leaf.name)), Round):
            return leaf
    raise MismatchError("what is quantized is a value that the program rounds")


def operand_inside(site: Site) -> Placement:
    """Return that what is quantized at a site is computed where it is quantized."""
    grid = grid_at(site)
    return Placement(inside=frozenset({(rounded_input(site, grid.numerator).name, grid.name)}))


def _near(site: Site) -> list[str]:
    """Return the names of the site, what they read, what that reads, and what reads them."""
    names = dict.fromkeys(site.at)
    for _ in range(2):
        for name in tuple(names):
            for read in reads(site.definition(name)):
                if not site.program.is_input(read):
                    names.setdefault(read)
    for name in site.at:
        names |= dict.fromkeys(site.program.consumers(name))
    return list(names)


def _is_codes(node: Round) -> bool:
    return node.rounding.format.is_grid and node.rounding.format.kind != "scale"


def outermost(root: Node) -> Iterator[Node]:
    """Yield the nodes of a definition, each before what it reads."""
    yield from reversed(list(topological([root])))
