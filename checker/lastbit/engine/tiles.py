"""The instructions of a tape on one tile of outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lastbit.engine import narrow, wide
from lastbit.engine.operands import Block, Ranged
from lastbit.engine.tape import Add, Chain, Convert, Leaf, Register, Tape, Value, Zero
from lastbit.engine.wide import Array, added, carrier, rounded
from lastbit.formats import F32, format_of
from lastbit.rounding import Rounding


@dataclass(frozen=True, slots=True)
class Ways:
    """How the instructions of a tape are computed over two blocks.

    Attributes:
        parts: for each chain by its register, in how many parts each step is added in binary32;
            None for a chain that needs binary64.
        is_light: whether binary32 holds every product.
    """

    parts: Mapping[int, list[int] | None]
    is_light: bool

    @classmethod
    def over(cls, tape: Tape, left: Block, right: Block) -> Ways:
        """Return how the instructions are computed."""
        parts = {
            chain.out: narrow.parts_of(chain, left) if narrow.fits(chain, left, right) else None
            for chain in tape.chains()
        }
        return cls(parts, hold_products(left, right))


def hold_products(left: Ranged, right: Ranged) -> bool:
    """Return whether binary32 holds every product of two blocks."""
    a, b = left.extent, right.extent
    digits = left.format.precision + right.format.precision
    least, most = a.least + b.least - (digits - 2), a.most + b.most + 2
    return digits <= F32.precision and least >= F32.quantum(F32.emin) and most <= F32.emax


@dataclass
class Tile:
    """Some rows of a block and all columns of another.

    Attributes:
        tape: the instructions.
        ways: how each chain is computed.
        left: the block of the rows.
        right: the block of the columns.
        rows: which rows of the block.
        scratch: the buffers of the thread.
    """

    tape: Tape
    ways: Ways
    left: Block
    right: Block
    rows: slice
    scratch: narrow.Scratch
    registers: dict[int, Array] = field(default_factory=dict)

    def run(self) -> Array:
        """Return the result of each output, a value of the tape's format."""
        for instruction in self.tape.instructions:
            match instruction:
                case Add(out=out, a=a, b=b, format=fmt):
                    value = added(self._read(a), self._read(b), Rounding.of(fmt))
                case Convert(out=out, a=a, format=fmt):
                    value = rounded(self._read(a), Rounding.of(fmt))
                case Chain(out=out):
                    value = self._chain(instruction)
            self.registers[out] = value
        shape = (self.rows.stop - self.rows.start, self.right.codes.shape[1])
        kind = carrier(format_of(self.tape.format))
        return np.array(np.broadcast_to(self._read(self.tape.result), shape), kind)

    def _read(self, value: Value) -> Array:
        match value:
            case Zero():
                return np.zeros((), np.float32)
            case Register(number=number):
                return self.registers.pop(number)
            case Leaf(place=place):
                return self._product(place)

    def _product(self, place: int) -> Array:
        """Return exact products; in float32 where it holds them."""
        left, right = self.left, self.right
        a, b = (left.singles, right.singles) if self.ways.is_light else (left.values, right.values)
        return a[place, self.rows, None] * b[place, None, :]

    def _chain(self, chain: Chain) -> Array:
        parts = self.ways.parts[chain.out]
        left, right = self.left, self.right
        if parts is not None:
            a = left.scaled[:, self.rows], left.bytes[:, self.rows]
            acc = narrow.run(chain, parts, a, (right.scaled, right.bytes), self.scratch)
            return narrow.unscaled(acc, left, right)
        flushes = chain.unit.method == "flushed"
        x, y = (left.flushed, right.flushed) if flushes else (left.values, right.values)
        rows = self.rows
        acc = np.zeros((rows.stop - rows.start, y.shape[1]), carrier(format_of(chain.format)))
        for piece in chain.pieces:
            products = x[piece, rows][:, :, None] * y[piece][:, None, :]
            exponents = left.exponents[piece, rows][:, :, None] + right.exponents[piece][:, None, :]
            acc = wide.step(chain.unit, acc, products, exponents, chain.format)
        return acc
