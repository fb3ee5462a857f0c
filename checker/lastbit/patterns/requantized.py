"""Quantize a row in blocks, each with a scale of its own, and multiply each by it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lastbit.formats import F32
from lastbit.graph import Node, Reduce, Round, apply, concat, reshape, substitute, take
from lastbit.patterns import replace, same_format
from lastbit.patterns.blocks import Block, block_of, blocks_of
from lastbit.patterns.quantized import Quantized, outermost
from lastbit.patterns.scales import factors, multiplied
from lastbit.rounding import Rounding
from lastbit.rule import Edits, MismatchError


def requantized(whole: Quantized, size: int, maxima: Sequence[Node]) -> Edits:
    """Return the definitions with a scale for each block of elements.

    Each block is quantized by its own scale and multiplied by it again; the products of
    the blocks are added in the accumulator of the sum that they were part of.

    Args:
        whole: the quantization.
        size: elements of a block.
        maxima: the maximum from which each block's scale follows.

    Raises:
        MismatchError: a reader does not multiply by the scale.
    """
    blocks = blocks_of(whole.length, size)
    scales = [whole.scaled_by(maximum) for maximum in maxima]
    parts: list[Node] = [
        Round(apply("div", take(whole.numerator, whole.axis, *block), scale), whole.node.rounding)
        for block, scale in zip(blocks, scales, strict=True)
    ]
    edits: dict[str, Node] = {}
    if whole.named:
        edits |= whole.replaced(concat(parts, whole.axis))
        parts = [take(whole.codes, whole.axis, *block) for block in blocks]
    pieces = _Pieces(whole, blocks, parts, scales)
    for reader in whole.readers:
        edits |= pieces.dequantized(reader)
    return edits


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The blocks of a quantization, with which readers multiply by each block's own scale."""

    whole: Quantized
    blocks: Sequence[Block]
    parts: Sequence[Node]
    scales: Sequence[Node]

    def dequantized(self, reader: str) -> Edits:
        """Return a reader, or those of a sum that it holds, with a scale for each block."""
        site = self.whole.site
        new = self._rewritten(reader)
        if new is not None:
            return {reader: new}
        total = self.whole.product(site.definition(reader))
        edits = {}
        for user in site.program.consumers(reader) if total is not None else ():
            new = self._rewritten(user, (site.ref(reader), total))
            if new is not None:
                edits[user] = new
        if not edits:
            raise MismatchError("every reader of the quantized values multiplies by the scale")
        return edits

    def _rewritten(self, name: str, alias: tuple[Node, Reduce | None] | None = None) -> Node | None:
        root = self.whole.site.definition(name)
        for node in outermost(root):
            found = list(factors(node))
            scale = next((f for f in found if f.key == self.whole.scale.key), None)
            if scale is None:
                continue
            for factor in found:
                if alias is not None and factor.key == alias[0].key:
                    new = self._sum(factor, alias[1])
                elif factor.key == self.whole.codes.key:
                    new = self._elements()
                else:
                    new = self._sum(factor, self.whole.product(factor))
                if new is not None:
                    rest = (f for f in found if f not in (scale, factor))
                    return same_format(root, replace(root, node, multiplied((new, *rest))))
        return None

    def _elements(self) -> Node:
        pairs = zip(self.parts, self.scales, strict=True)
        return concat((apply("mul", part, scale) for part, scale in pairs), self.whole.axis)

    def _sum(self, read: Node, total: Reduce | None) -> Node | None:
        if total is None:
            return None
        axis = total.axis - len(total.x.shape)
        acc = total.acc or Rounding.of(F32)
        out: Node | None = None
        for block, part, scale in zip(self.blocks, self.parts, self.scales, strict=True):
            terms = apply("mul", *(block_of(x, axis, block) for x in total.x.args))
            cut = take(self.whole.codes, self.whole.axis, *block)
            built = substitute([terms], {cut.key: part})
            if cut.key not in built:
                raise MismatchError("the sum runs along the axis of the scale")
            piece = Reduce("sum", built[terms.key], total.axis, total.schedule, total.acc)
            scaled = apply("mul", reshape(piece, read.shape), scale)
            out = Round(scaled if out is None else apply("add", out, scaled), acc)
        return out
