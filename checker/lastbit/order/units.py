"""The numbers that probes are made of, fitted to a format and to what a function keeps.

M is so large that a unit beside it is lost; counts of units must stay exact. Formats of eight
exponent bits and more have room for any accumulator. In narrow ones the room is what the format
leaves above the place where a term beside M is lost, and that is measured: a sum in binary32 loses
it 2^24 below M, a step of a matrix unit with 13 fraction bits already 2^14 below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lastbit.errors import InputError, Problem
from lastbit.formats import FORMATS, Format, encode, scale2
from lastbit.order.findings import EXACT, MisfitError, NoTreeError
from lastbit.order.probe import Prober
from lastbit.round_array import Codes

WIDE_TOP, WIDE_UNIT = 120, -20
EXACT_BITS = 53  # results are compared as binary64
DIGITS = 53, 24, 11, 8  # of accumulators that are common
NARROWEST = 7  # digits that a sum in any format of eight exponent bits counts with


class Units:
    """M, the unit, and how many units a result can count.

    Args:
        prober: hands probes to the function.

    Attributes:
        top: log2 of M.
        low: log2 of the unit.

    In a wide format both are known. In a narrow one what the function loses is measured first.

    Raises:
        InputError: the function does not return the only number that is not zero.
        NoTreeError: nothing is lost beside M.
        MisfitError: what is lost fits no tree.
    """

    def __init__(self, prober: Prober) -> None:
        self.prober, self.n = prober, prober.n
        fmt = prober.format
        self.wide = fmt.emax >= WIDE_TOP + 1 and fmt.emin <= WIDE_UNIT
        self.top = WIDE_TOP if self.wide else fmt.emax
        self.low = WIDE_UNIT if self.wide else fmt.quantum(fmt.emin)
        self._codes: dict[tuple[int, bool], int] = {}
        self.lost = EXACT_BITS
        if not self.wide:
            self.check()

    def check(self) -> None:
        """Make sure that the function adds, and that something is lost beside M.

        Raises:
            InputError: the function does not return the only number that is not zero.
            NoTreeError: nothing is lost beside M.
            MisfitError: what is lost fits no tree.
        """
        self._check_unit(self.prober.format)
        if self.n > 2:
            self.lost = self._lost()

    @property
    def ratio(self) -> int:
        """The binary digits from M down to the unit."""
        return self.top - self.low

    @cached_property
    def bits(self) -> int:
        """Binary digits that a result and every accumulator on its way keep exactly.

        In wide formats those of the widest common accumulator, in narrow ones all that are kept.
        """
        pairs = {(0, 1), (0, self.n - 1), (self.n // 2, self.n - 1)}
        chosen = sorted(pair for pair in pairs if pair[0] < pair[1] < self.n)
        if not chosen:
            return EXACT_BITS

        def exact(ks: NDArray[np.int64], pairs: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
            def fill(block: Codes, start: int, stop: int) -> None:
                for row, i in enumerate(range(start, stop)):
                    block[row, pairs[i][0]] = self.code(self.low + int(ks[i]))
                    block[row, pairs[i][1]] = self.code(self.low)

            wanted = (2.0**ks + 1) * 2.0**self.low
            held: NDArray[np.bool_] = self.prober.run(len(pairs), fill) == wanted
            return held

        if not self.wide:
            most = min(self.ratio, EXACT_BITS) - 1
            return int(_last_true(lambda ks: exact(ks, chosen), len(chosen), 0, most).min()) + 1
        most = max(self.prober.format.precision, FORMATS["f32"].precision)
        common = [digits for digits in DIGITS if digits <= most]
        if self.prober.batched:
            ks = np.repeat(common, len(chosen)) - 1
            rows = exact(ks, chosen * len(common)).reshape(len(common), -1)
            held = (bool(row.all()) for row in rows)
        else:
            held = (bool(exact(np.array([digits - 1]), chosen[-1:])[0]) for digits in common)
        return next((digits for digits, good in zip(common, held, strict=False) if good), NARROWEST)

    @cached_property
    def room(self) -> int:
        """The binary digits that a count of units may have."""
        below = self.ratio - self.lost - 1
        if self.wide and self.n <= 64 and self.prober.batched:
            return min(below, NARROWEST)
        return max(0, min(self.bits, below))

    def code(self, exponent: int, negative: bool = False) -> int:
        """Return the code of a power of two."""
        key = exponent, negative
        if key not in self._codes:
            value = scale2(-1 if negative else 1, exponent)
            self._codes[key] = encode(value, self.prober.format)
        return self._codes[key]

    def counts(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return results as numbers of units.

        Raises:
            MisfitError: a result is no number of units that were given.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            counts = values * 2.0**-self.low
            wrong = ~((counts >= 0) & (counts <= 2.0**self.room) & (counts == np.floor(counts)))
        if wrong.any():
            value = float(counts[wrong][0])
            raise MisfitError(f"a sum of M, -M and ones gave {value:g}, which counts nothing")
        return counts.astype(np.int64)

    def _check_unit(self, fmt: Format) -> None:
        lows = [self.low] if self.wide else [self.low, fmt.emin]
        ends = sorted({0, self.n - 1})

        def fill(block: Codes, start: int, stop: int) -> None:
            for row, i in enumerate(range(start, stop)):
                low = lows[i // len(ends)]
                block[row, ends[i % len(ends)]] = encode(scale2(1, low), fmt)

        found = self.prober.run(len(lows) * len(ends), fill).reshape(len(lows), len(ends))
        for low, row in zip(lows, found, strict=True):
            if (row == 2.0**low).all():
                self.low = low
                return
        value = float(found[-1][found[-1] != 2.0 ** lows[-1]][0])
        label = self.prober.target.label
        problem = f"`{label}` gave {value:g} for {2.0 ** lows[-1]:g} among zeros"
        raise InputError([Problem(problem, "Name a function that returns the plain sum.")])

    def _lost(self) -> int:
        """Return how far below M a term is lost, in binary digits, the most that was seen."""
        last, middle = self.n - 1, self.n // 2
        drawn = self.prober.random.choice(self.n, 3, replace=False).tolist()
        triples = [(0, middle, last), (0, 1, last), tuple(drawn)]
        triples = [t for t in triples if len(set(t)) == 3][: 3 if self.prober.batched else 1]
        asked = [(a, b, c) for t in triples for a, b, c in (t, (t[2], t[0], t[1]), t[1:] + t[:1])]

        def kept(ks: NDArray[np.int64]) -> NDArray[np.bool_]:
            return self._kept(asked, ks)

        whole = kept(np.full(len(asked), self.ratio)).reshape(-1, 3).sum(1)
        if (whole == 3).all():
            raise self._nothing_lost()
        if (whole > 1).any():
            raise MisfitError("of three elements, two stay out of the sum of the other two")
        if self.wide:
            return EXACT_BITS
        ks = _last_true(kept, len(asked), 0, self.ratio)
        return int(ks[ks < self.ratio].max()) + 1

    @cached_property
    def sharp(self) -> int:
        """How far below M a term is lost, measured in wide formats too.

        Raises:
            NoTreeError: nothing is lost.
        """
        if not self.wide:
            return self.lost
        a, b, c = 0, self.n // 2, self.n - 1
        asked = [(a, b, c), (c, a, b), (b, c, a)]
        # Rounding to nearest loses the first, steps of matrix units the next ones.
        tried = [self.bits + 1, self.bits + 2, self.bits + 3, EXACT_BITS + 1]
        for part in [tried] if self.prober.batched else [[k] for k in tried]:
            kept = self._kept(asked * len(part), np.repeat(part, 3)).reshape(-1, 3).sum(1)
            if (kept == 1).any():
                return part[int(np.argmax(kept == 1))]
        ks = _last_true(lambda ks: self._kept(asked, ks), 3, 0, self.ratio)
        if (ks == self.ratio).all():
            raise self._nothing_lost()
        return int(ks[ks < self.ratio].max()) + 1

    def _kept(self, asked: Sequence[tuple[int, ...]], ks: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say of each a, b, c whether 2^-k M at c is in the sum when a holds M and b -M."""

        def fill(block: Codes, start: int, stop: int) -> None:
            for row, i in enumerate(range(start, stop)):
                a, b, c = asked[i]
                block[row, a] = self.code(self.top)
                block[row, b] = self.code(self.top, negative=True)
                block[row, c] = self.code(self.top - int(ks[i]))

        found = self.prober.run(len(asked), fill)
        wanted = 2.0 ** (self.top - ks)
        # Beside M it may be rounded, to twice itself where a unit cuts its results off.
        wrong = ~((found >= 0) & (found <= 2 * wanted))
        wrong |= (ks == self.ratio) & (found != 0) & (found != wanted)
        if wrong.any():
            value, unit = float(found[wrong][0]), float(wanted[wrong][0])
            raise MisfitError(f"M, -M and {unit:g} gave {value:g}, not {unit:g} or 0")
        return found > 0

    def _nothing_lost(self) -> NoTreeError:
        label, fmt = self.prober.target.label, self.prober.format
        if self.wide:
            reason = (
                "no term is lost beside M, wherever it stands: the sum is exact, or compensated, "
                "and its order cannot matter here"
            )
            return NoTreeError(label, EXACT, reason)
        reason = (
            f"no term is lost beside M, and {fmt} reaches only 2^{self.ratio} apart: the sum is "
            "exact or compensated, or its accumulator has more digits; try a wider format"
        )
        return NoTreeError(label, EXACT, reason)


def _last_true(
    ask: Callable[[NDArray[np.int64]], NDArray[np.bool_]], count: int, low: int, high: int
) -> NDArray[np.int64]:
    """Return for each question the last number from low to high that it holds for, by bisection.

    It is taken to hold for `low`, and for all numbers up to the last.
    """
    lows, highs = np.full(count, low), np.full(count, high)
    while (lows < highs).any():
        middle = (lows + highs + 1) // 2
        held = ask(middle)
        lows = np.where(held, middle, lows)
        highs = np.where(held, highs, middle - 1)
    return lows
