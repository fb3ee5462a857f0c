"""Find softmax and attention at a site, over a whole row or blockwise (online).

The division of a weighted sum by the sum of the weights may be spread over named values, and
the weights may be rounded on the way to either sum. A blockwise form is found by what it must
look like: its blocks are read off, the form is written again from them, and both must be the
same computation. What is found writes other forms of itself (`lastbit.patterns.online_softmax`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from lastbit.definitions import reads
from lastbit.graph import Input, Map, Node, Reduce, Round, View, substitute, topological
from lastbit.patterns import is_map
from lastbit.patterns.blocks import Block, whole_of
from lastbit.patterns.online_softmax import Attention, Operand
from lastbit.rounding import Rounding
from lastbit.rule import MismatchError, Parameter, Require, Site

NEED = "the value is a softmax, or a sum that its weights weigh"

WHOLE_ROW = """
s: f32[M, K]                               # scores
v: f32[K, N]                               # values
m: f32 = max(s, axis=-1)
p: f32 = exp(s - m)
l: f32 = sum(p) acc f32 seq
u: f32 = matmul(p, v) acc f32 seq
o: f32 = u / l
"""

TWO_BLOCKS = """
s: f32[M, K]                               # scores
v: f32[K, N]                               # values
m1: f32 = max(s[:, 0:K//2], axis=-1)
p1: f32 = exp(s[:, 0:K//2] - m1)
l1: f32 = sum(p1) acc f32 seq
u1: f32 = matmul(p1, v[0:K//2, :]) acc f32 seq
m: f32 = maximum(m1, max(s[:, K//2:K], axis=-1))
r: f32 = exp(m1 - m)
p2: f32 = exp(s[:, K//2:K] - m)
l2: f32 = sum(p2) acc f32 seq
u2: f32 = matmul(p2, v[K//2:K, :]) acc f32 seq
l: f32 = round(r * l1, f32) + l2
u: f32 = round(r * u1, f32) + u2
o: f32 = u / l
w: f32 = softmax(s) acc f32 seq            # the same weights over a whole row
"""


def attention_at(site: Site) -> Attention:
    """Return the attention at a site, whole-row or online.

    Raises:
        MismatchError: there is none.
    """
    finder = _Finder(site)
    for node in reversed(list(topological([site.node]))):
        if is_map(node, "div") or isinstance(node, View | Reduce):
            found = finder.whole(node) or finder.online(node)
            if found is not None:
                return found
    raise MismatchError(NEED)


def row_length(site: Site) -> int:
    """Return the number of scores in a row of the attention at a site."""
    return attention_at(site).length


BLOCK = Parameter("block", "length", "scores in a block", axis=row_length)

SEVERAL_BLOCKS = Require(
    "1 <= block < K",
    lambda site: 1 <= site.integer("block") < row_length(site),
    lambda site: f"K={row_length(site)}, block={site.integer('block')}",
)
WEIGHTS_VALUES = Require(
    "the softmax weighs values", lambda site: attention_at(site).weighted is not None
)


class _Finder:
    """Looks for attention in the definition of a site, through the names that it reads."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.names: list[str] = [site.name]

    def resolve(self, node: Node) -> Node:
        """Return the definition behind a named value, or the node itself."""
        while isinstance(node, Input) and not self.site.program.is_input(node.name):
            if node.name not in self.names:
                self.names.append(node.name)
            node = self.site.definition(node.name)
        return node

    def peel(self, node: Node) -> tuple[Node, tuple[Rounding, ...]]:
        """Return what stands behind names and roundings, and the roundings, innermost first."""
        roundings: list[Rounding] = []
        node = self.resolve(node)
        while isinstance(node, Round):
            roundings.insert(0, node.rounding)
            node = self.resolve(node.x)
        return node, tuple(roundings)

    def exponential(self, node: Node) -> tuple[Map, tuple[Rounding, ...]] | None:
        """Return the weights `exp(s - max)` behind roundings, or None."""
        core, roundings = self.peel(node)
        if isinstance(core, Map) and core.fn in ("exp", "exp2"):
            shifted, inner = self.peel(core.xs[0])
            if not inner and isinstance(shifted, Map) and shifted.fn == "sub":
                return core, roundings
        return None

    def operand(self, node: Node) -> tuple[Map, Operand] | None:
        """Return the weights behind a sum of them, plain or of weighted values, or None."""
        total = self.resolve(node)
        out = total.shape
        if isinstance(total, View) and total.kind == "reshape":
            total = total.xs[0]
        if not (isinstance(total, Reduce) and total.op == "sum"):
            return None
        factors = total.x.args if is_map(total.x, "mul") else (total.x,)
        pairs = ((factors[0], factors[-1]), (factors[-1], factors[0]))
        for read, values in pairs[: len(factors)]:
            inner = read.xs[0] if isinstance(read, View) and read.kind == "reshape" else read
            weights = self.exponential(inner)
            if weights is not None:
                other = values if len(factors) == 2 else None
                return weights[0], Operand(total, weights[1], read.shape, other, out)
        return None

    def whole(self, node: Node) -> Attention | None:
        """Return the whole-row attention that `node` is, or None."""
        if isinstance(node, View | Reduce):
            return self._normalised_first(node)
        above, below = node.args
        total_core, total_roundings = self.peel(below)
        total = self.operand(total_core)
        above_core, above_roundings = self.peel(above)
        if total is None:
            return None
        weights, plain = total
        alone = self.exponential(above_core)
        if alone is not None and alone[0].key == weights.key:
            return self._row(node, weights, plain, None, total_roundings, above_roundings)
        weighted = self.operand(above_core)
        if weighted is None or weighted[0].key != weights.key or weighted[1].values is None:
            return None
        return self._row(node, weights, plain, weighted[1], total_roundings, above_roundings)

    def _normalised_first(self, node: Node) -> Attention | None:
        """Return attention whose weights are divided before they weigh the values."""
        out = node.shape
        inner = node.args[0] if isinstance(node, View) and node.kind == "reshape" else node
        if not (isinstance(inner, Reduce) and inner.op == "sum" and is_map(inner.x, "mul")):
            return None
        for i, read in enumerate(inner.x.args):
            view = isinstance(read, View) and read.kind == "reshape"
            core, roundings = self.peel(read.args[0] if view else read)
            if not is_map(core, "div"):
                continue
            found = self.whole(core)
            if found is not None and found.weighted is None:
                values = inner.x.args[1 - i]
                chain = found.weighted_roundings + roundings
                weighted = Operand(inner, chain, read.shape, values, out)
                return dataclasses.replace(
                    found, core=node, weighted=weighted, weighted_roundings=()
                )
        return None

    def _row(
        self,
        node: Node,
        weights: Map,
        total: Operand,
        weighted: Operand | None,
        total_roundings: tuple[Rounding, ...],
        weighted_roundings: tuple[Rounding, ...],
    ) -> Attention | None:
        shifted = self.peel(weights.xs[0])[0]
        scores, top = shifted.args
        maximum, _ = self.peel(top)
        if not (isinstance(maximum, Reduce) and maximum.op == "max"):
            return None
        if self.resolve(maximum.x).key != self.resolve(scores).key:
            return None
        return Attention(
            self.site.name,
            node,
            scores,
            maximum.axis,
            weights.fn,
            total,
            weighted,
            total_roundings,
            weighted_roundings,
            shifted,
            tuple(name for name in self.names if _holds(self.site.definition(name), shifted)),
        )

    def online(self, node: Node) -> Attention | None:
        """Return the online attention that `node` is, or None."""
        if not is_map(node, "div"):
            return None
        above, above_roundings = self.peel(node.args[0])
        below, below_roundings = self.peel(node.args[1])
        total = self.operand(below.args[1]) if is_map(below, "add") else None
        if total is None:
            return None
        weights, plain = total
        cut = self._slice(weights)
        blocks = tuple(reversed(list(self._blocks(below, plain.sum.axis))))
        if cut is None or not blocks:
            return None
        weighted = None
        if is_map(above, "add"):
            pair = self.operand(above.args[1])
            if pair is None:
                return None
            weighted = _over_row(pair[1])
            above_roundings = above_roundings[1:]
        found = Attention(
            self.site.name,
            node,
            cut.xs[0],
            plain.sum.axis,
            weights.fn,
            plain,
            weighted,
            below_roundings[1:],
            above_roundings,
            blocks=blocks,
        )
        again = found.quotient(found.run(blocks))
        return found if again.key == self._written_out(node, again).key else None

    def _written_out(self, node: Node, like: Node) -> Node:
        """Return a definition with its named values written out, except those that `like` reads."""
        keep = set(reads(like))
        while True:
            leaves = [
                leaf
                for leaf in topological([node])
                if isinstance(leaf, Input)
                and leaf.name not in keep
                and not self.site.program.is_input(leaf.name)
            ]
            if not leaves:
                return node
            new = {leaf.key: self.site.definition(leaf.name) for leaf in leaves}
            node = substitute([node], new)[node.key]

    def _slice(self, weights: Map) -> View | None:
        """Return the slice of the scores behind the weights of one block, or None."""
        cut = self.peel(weights.xs[0])[0].args[0]
        return cut if isinstance(cut, View) and cut.kind == "slice" else None

    def _blocks(self, node: Node, axis: int) -> Iterator[Block]:
        """Yield the blocks of a running sum of weights, the last one first."""
        while True:
            running = is_map(node, "add")
            found = self.operand(node.args[1] if running else node)
            cut = None if found is None else self._slice(found[0])
            if cut is None:
                return
            bounds = cut.params[axis]
            assert isinstance(bounds, tuple)
            yield bounds[0], bounds[1]
            scaled = self.peel(node.args[0])[0] if running else node
            if not is_map(scaled, "mul"):
                return
            node = self.peel(scaled.args[1])[0]


def _over_row(operand: Operand) -> Operand:
    """Return a sum over one block as it reads the values of the whole row."""
    if operand.values is None:
        return operand
    axis = operand.sum.axis - len(operand.sum.x.shape)
    return dataclasses.replace(operand, values=whole_of(operand.values, axis))


def _holds(root: Node, node: Node) -> bool:
    return any(other.key == node.key for other in topological([root]))
