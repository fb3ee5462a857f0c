"""The blockwise forms of softmax and attention, written from what was found at a site.

The recurrence is that of Milakov and Gimelshein, "Online normalizer calculation for softmax"
(arXiv 1805.02867), with the weighted sum of FlashAttention (arXiv 2205.14135, algorithm 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lastbit.formats import F32
from lastbit.graph import Node, Reduce, Round, apply, native_rounding, reshape, take
from lastbit.patterns import replace, same_format
from lastbit.patterns.blocks import Block, block_of, blocks_of
from lastbit.rounding import Rounding
from lastbit.rule import Edits, Site

Follow = Callable[[Node, Node], tuple[Node, Node]]


@dataclass(frozen=True, slots=True)
class State:
    """What a kernel keeps of the blocks it has read: running maximum, sum and weighted sum."""

    top: Node
    total: Node
    weighted: Node | None


@dataclass(frozen=True, slots=True)
class Operand:
    """How a sum reads the weights.

    Attributes:
        sum: the sum over a whole row or over one block.
        roundings: those of the weights, from the exponential outwards.
        shape: the shape in which the sum reads the weights.
        values: what the weights are multiplied by, or None for the plain sum.
        out: the shape of the result.
    """

    sum: Reduce
    roundings: tuple[Rounding, ...]
    shape: tuple[int, ...]
    values: Node | None
    out: tuple[int, ...]

    def of(self, weights: Node, axis: int, block: Block, state: Rounding) -> Node:
        """Return this sum over the weights of one block along `axis` of the scores.

        Weights that the whole-row form leaves exact are rounded to `state`, as a kernel does.
        """
        shape = list(self.shape)
        own = self.sum.axis - len(self.sum.x.shape)
        shape[own] = weights.shape[axis]
        x = reshape(rounded(weights, self.roundings or (state,)), tuple(shape))
        if self.values is not None:
            x = apply("mul", x, block_of(self.values, own, block))
        return reshape(Reduce("sum", x, self.sum.axis, self.sum.schedule, self.sum.acc), self.out)


@dataclass(frozen=True, slots=True)
class Attention:
    """A softmax, or attention, found at a site.

    Attributes:
        name: the definition that holds it.
        core: its outermost node there: what a rewrite replaces.
        scores: what the weights are exponentials of.
        axis: the axis of the scores along which they are normalised.
        fn: `exp` or `exp2`.
        total: the sum of the weights.
        weighted: the sum of weighted values, or None for a softmax alone.
        total_roundings: what the sum of the weights is rounded to before the division.
        weighted_roundings: the same for the weighted sum.
        shifted: the difference to the maximum, by which a whole-row form is changed in place.
        places: the definitions that hold `shifted`.
        blocks: the blocks of an online form, in the order in which they are read.
    """

    name: str
    core: Node
    scores: Node
    axis: int
    fn: str
    total: Operand
    weighted: Operand | None
    total_roundings: tuple[Rounding, ...] = ()
    weighted_roundings: tuple[Rounding, ...] = ()
    shifted: Node | None = None
    places: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()

    @property
    def length(self) -> int:
        """Return the number of scores in a row."""
        return self.scores.shape[self.axis]

    @property
    def log(self) -> str:
        """Return the logarithm that undoes the exponential."""
        return "log" if self.fn == "exp" else "log2"

    @property
    def state(self) -> Rounding:
        """Return the rounding of the running sums: that of the accumulator, or binary32."""
        acc = (self.weighted or self.total).sum.acc
        return acc or Rounding.of(F32)

    @property
    def format(self) -> tuple[Rounding, ...]:
        """Return the rounding whose values the scores are, if they have one."""
        own = native_rounding(self.scores)
        return () if own is None else (own,)

    def cut(self, block: int) -> tuple[Block, ...]:
        """Return contiguous blocks of `block` scores, the last one shorter."""
        return blocks_of(self.length, block)

    def part(self, block: Block, top: Node | None = None) -> State:
        """Return the state after one block alone, relative to `top` or to its own maximum."""
        scores = take(self.scores, self.axis, *block)
        top = Reduce("max", scores, self.axis) if top is None else top
        weights = apply(self.fn, apply("sub", scores, top))
        total = self.total.of(weights, self.axis, block, self.state)
        if self.weighted is None:
            return State(top, total, None)
        return State(top, total, self.weighted.of(weights, self.axis, block, self.state))

    def run(
        self, blocks: Iterable[Block], rescale: bool = True, follow: Follow | None = None
    ) -> State:
        """Return the state after several blocks, each sum rounded as a kernel rounds it.

        Args:
            blocks: the blocks in the order in which they are read.
            rescale: whether the sums follow the running maximum when it grows.
            follow: to what a block's weights are relative, and the exact factor of the sums before
                it, from the old reference and the new maximum; by default the new maximum, and the
                exponential of how far it is above the old.
        """
        first, *rest = blocks
        state = self.part(first)
        for block in rest:
            own = Reduce("max", take(self.scores, self.axis, *block), self.axis)
            top = rounded(apply("max", state.top, own), self.format)
            top, exact = (follow or self.followed)(state.top, top)
            factor = self.round(exact)
            new = self.part(block, top)
            old = [state.total, state.weighted]
            if rescale:
                old = [None if x is None else self.round(apply("mul", factor, x)) for x in old]
            total, weighted = (
                None if x is None or y is None else self.round(apply("add", x, y))
                for x, y in zip(old, (new.total, new.weighted), strict=True)
            )
            assert total is not None
            state = State(top, total, weighted)
        return state

    def followed(self, old: Node, top: Node) -> tuple[Node, Node]:
        """Return a new maximum, and the factor of sums that were relative to an older reference."""
        return top, apply(self.fn, apply("sub", old, top))

    def merged(self, blocks: Iterable[Block], log: str, exp: str) -> Node:
        """Return the results of blocks on their own, merged by their log-sum-exps.

        Args:
            blocks: the blocks.
            log: the logarithm of the sum of weights, `log` or `log2`.
            exp: the exponential that turns a log-sum-exp into a share, `exp` or `exp2`.
        """
        parts = [self.part(block) for block in blocks]
        sizes = [self.round(apply("add", x.top, apply(log, x.total))) for x in parts]
        top = sizes[0]
        for size in sizes[1:]:
            top = apply("max", top, size)
        shares = [self.round(apply(exp, apply("sub", size, top))) for size in sizes]
        results = [self.round(self.quotient(x)) for x in parts]
        total, above = shares[0], self.round(apply("mul", shares[0], results[0]))
        for share, result in zip(shares[1:], results[1:], strict=True):
            total = self.round(apply("add", total, share))
            above = self.round(apply("add", above, self.round(apply("mul", share, result))))
        return apply("div", above, total)

    def round(self, x: Node) -> Node:
        """Return a value of the running state."""
        return rounded(x, (self.state,))

    def quotient(self, state: State) -> Node:
        """Return the result of a state: the weighted sum over the sum, or all the weights."""
        total = rounded(state.total, self.total_roundings)
        if state.weighted is None:
            weights = apply(self.fn, apply("sub", self.scores, state.top))
            return apply("div", rounded(weights, self.weighted_roundings), total)
        return apply("div", rounded(state.weighted, self.weighted_roundings), total)

    def replaced(self, site: Site, new: Node) -> Edits:
        """Return the definition with another node in place of the attention."""
        root = site.definition(self.name)
        return {self.name: same_format(root, replace(root, self.core, new))}


def rounded(x: Node, roundings: Iterable[Rounding]) -> Node:
    """Return `x` rounded by each of some roundings that it is not yet a value of."""
    for rounding in roundings:
        x = x if native_rounding(x) == rounding else Round(x, rounding)
    return x
