"""Many schedules of one small product: the chains that they share are computed once.

Schedules of the space (`lastbit.inference.schedules`) are made of chains over parts of K, which are
then combined. A chain over the same terms is the same whatever is done with it, and few outputs
need no threads; so a schedule costs little more than its combination.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lastbit.engine.product import Operand, matrix_product
from lastbit.engine.tape import Tape, record
from lastbit.formats import F32, Format
from lastbit.levels import Fused, Level, Promote, Schedule, Split
from lastbit.patterns import pieces_of
from lastbit.round_array import Codes, round_array
from lastbit.rounding import Rounding
from lastbit.schedule import fold
from lastbit.sum_array import rounded_sum

Single = NDArray[np.float32]

KEPT = 1 << 26  # elements of chains that are kept


class Pieces:
    """A product of few outputs, by many schedules with binary32 accumulators.

    Args:
        a: codes, `[M, K]`.
        b: codes, `[K, N]`.
        formats: their formats.
    """

    def __init__(self, a: Codes, b: Codes, formats: tuple[Format, Format]) -> None:
        self.a, self.b, self.formats = a, b, formats
        self.chains: dict[tuple[str, bytes], Single] = {}
        self.most = max(1, KEPT // max(a.shape[0] * b.shape[1], 1))

    def product(self, schedule: Schedule) -> Single | None:
        """Return the product; None where the schedule has a form that is not taken apart here."""
        with np.errstate(all="ignore"):
            return self._sum(schedule, np.arange(self.a.shape[1]))

    def _sum(self, level: Level, terms: NDArray[np.intp]) -> Single | None:
        if level.acc is not None:
            return None
        match level:
            case Fused():
                return self._chain(level, terms)
            case Promote(every=int(every), format="f32", inner=inner):
                cuts = range(0, len(terms), every)
                parts = [self._sum(inner, terms[i : i + every]) for i in cuts]
                return _added(parts, None, None)
            case Split(inner=inner, outer=outer, partials=partials):
                pieces = [np.array(p) for p in _pieces(level, len(terms))]
                parts = [self._sum(inner, terms[piece]) for piece in pieces]
                return _added(parts, outer, partials)
        return None

    def _chain(self, level: Fused, terms: NDArray[np.intp]) -> Single:
        key = str(level), terms.tobytes()
        if key not in self.chains:
            if len(self.chains) >= self.most:
                self.chains.clear()
            tape = _tape(level, len(terms))
            left = Operand(np.ascontiguousarray(self.a[:, terms]), self.formats[0])
            right = Operand(np.ascontiguousarray(self.b[terms]), self.formats[1])
            out = np.empty((self.a.shape[0], self.b.shape[1]), np.float32)
            matrix_product(left, right, tape, lambda part, _: part.astype(np.float32), out, 1)
            self.chains[key] = out
        return self.chains[key]


@lru_cache(maxsize=4096)
def _tape(level: Fused, k: int) -> Tape:
    return record(level, k, F32.short)


@lru_cache(maxsize=4096)
def _dealt(split: Split, k: int) -> list[tuple[int, ...]]:
    return pieces_of(split, k)


def _pieces(split: Split, k: int) -> list[tuple[int, ...]]:
    return _dealt(Split(split.n, split.size, split.tile, deal=split.deal), k)


def _added(
    parts: Sequence[Single | None], outer: Level | None, partials: str | None
) -> Single | None:
    """Return the sum of parts by a level, or left to right where it is None."""
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        return None
    algebra = _Parts(found)
    if partials is not None:
        algebra.parts = [algebra.convert(algebra.convert(p, partials), F32.short) for p in found]
    if outer is None:
        total = algebra.zero(F32.short)
        for part in found:
            total = algebra.add(total, part, F32.short)
        return total
    return fold(outer, len(found), F32.short, algebra)


class _Parts:
    """The algebra of a schedule over arrays in binary32."""

    def __init__(self, parts: list[Single]) -> None:
        self.parts = parts

    def zero(self, fmt: str) -> Single:
        return np.zeros((), np.float32)

    def leaf(self, i: int) -> Single:
        return self.parts[i]

    def add(self, a: Single, b: Single, fmt: str) -> Single:
        total = rounded_sum(a, b, Rounding.of(fmt))
        assert total is not None
        return total.astype(np.float32)

    def convert(self, value: Single, fmt: str) -> Single:
        return round_array(value, Rounding.of(fmt)).astype(np.float32)

    def fused(self, acc: Single, terms: list[Single], machine: str, fmt: str) -> Single:
        raise AssertionError("a matrix unit adds products, not partial sums")

    def any_order(self, values: list[Single], fmt: str) -> Single:
        raise AssertionError("parts are added in some order")
