"""Arithmetic on tensors of residues: numbers, + - * /, magnitudes, roots, exponentials, logarithms.

Each holds its laws by construction: exp(a + b) = exp(a) exp(b), log(exp(a)) = a, |x y| = |x| |y|,
sqrt(x x) = |x|. Where an argument lacks the residue that a function needs, a keyed hash of function
and arguments stands for the result, with a hint.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from lastbit.interpret.digits import ZERO, Digits
from lastbit.interpret.field_extreme import Maxima
from lastbit.interpret.field_hashes import Hashes
from lastbit.interpret.field_values import (
    FINITE,
    INF,
    NAN,
    NINF,
    UNDEFINED,
    Residue,
    Sum,
    both,
    negative,
    residue,
    worst,
)
from lastbit.interpret.residues import Flags, Words, mix, mix_int

ADDED = np.array(  # the code of x + y, by those of x and y
    [
        [FINITE, INF, NINF, NAN, UNDEFINED],
        [INF, INF, NAN, NAN, UNDEFINED],
        [NINF, NAN, NINF, NAN, UNDEFINED],
        [NAN, NAN, NAN, NAN, UNDEFINED],
        [UNDEFINED] * 5,
    ],
    np.uint8,
)
NEGATED = np.array([FINITE, NINF, INF, NAN, UNDEFINED], np.uint8)


class Arithmetic:
    """The arithmetic of one draw.

    Args:
        hashes: the field and its keyed hashes.
        compares: whether the graphs compare values. Some residues are then taken for zero, by
            comparisons and as divisors alike.
    """

    def __init__(self, hashes: Hashes, compares: bool) -> None:
        self.hashes, self.field, self.compares = hashes, hashes.field, compares
        self.maxima = Maxima(hashes)

    def const(self, value: Fraction | float | str) -> Residue:
        """Return the residues of a constant; a named real is a random number."""
        if isinstance(value, Fraction):
            return self.number(value)
        if isinstance(value, float):
            zero = np.zeros((), np.uint64)
            if value == 0:
                return self.number(0)
            code = NAN if value != value else INF if value > 0 else NINF
            return Residue(zero, zero, np.array(code, np.uint8), ZERO)
        name = "ln2" if value == "log2e" else value
        square = mix_int(self.hashes.key(name), 1) % self.field.p
        p, q = square * square % self.field.p, mix_int(square, 2) % self.field.q
        if name == "ln2":
            q = self.field.ln2
        if value == "log2e":
            p, q = pow(p, -1, self.field.p), pow(q, -1, self.field.q)
        return Residue(np.array(p, np.uint64), np.array(q, np.uint64))

    def number(self, value: int | Fraction) -> Residue:
        """Return the residues of a rational."""
        value = Fraction(value)
        pair = self.field.rational(value.numerator, value.denominator)
        if pair is None:
            zero = np.zeros((), np.uint64)
            return Residue(zero, zero, np.array(UNDEFINED, np.uint8))
        p, q = (np.array(x, np.uint64) for x in pair)
        return Residue(p, q, digits=Digits.of_number(value), constant=value)

    def neg(self, x: Residue) -> Residue:
        """Return -x."""
        out = Residue(
            None if x.p is None else negative(x.p, self.field.p),
            None if x.q is None else negative(x.q, self.field.q),
            None if x.special is None else NEGATED[x.special],
            None if x.digits is None else x.digits.plain(),
            x.hint,
            None if x.constant is None else -x.constant,
        )
        if x.sum is not None and x.sum.rounding.format.kind == "float":
            value = self.neg(x.sum.value)
            flipped = Sum(x.sum.rounding, value, x.sum.minus, x.sum.plus, x.sum.count)
            return replace(out, sum=flipped)
        return out

    def add(self, x: Residue, y: Residue) -> Residue:
        """Return x + y."""
        x, y = self.hashes.aligned(x, y)
        special = None
        if x.special is not None or y.special is not None:
            special = ADDED[x.codes, y.codes]
        return residue(
            both(x.p, y.p, lambda a, b: (a + b) % np.uint64(self.field.p)),
            both(x.q, y.q, lambda a, b: (a + b) % np.uint64(self.field.q)),
            special,
            None if x.digits is None or y.digits is None else x.digits + y.digits,
            x.hint or y.hint,
        )

    def mul(self, x: Residue, y: Residue) -> Residue:
        """Return x * y; a positive constant moves into a maximum."""
        x, y = self.hashes.aligned(x, y)
        special = None
        if x.special is not None or y.special is not None:
            special = self._product_codes(x, y)
        out = residue(
            both(x.p, y.p, lambda a, b: a * b % np.uint64(self.field.p)),
            both(x.q, y.q, lambda a, b: a * b % np.uint64(self.field.q)),
            special,
            None if x.digits is None or y.digits is None else x.digits * y.digits,
            x.hint or y.hint,
        )
        factor, other = (x, y) if y.members is not None else (y, x)
        if other.members is not None and factor.constant is not None and factor.constant > 0:
            by, p = factor.identity[..., None], np.uint64(self.field.p)
            return self.maxima.mapped(other, lambda members: members * by % p, out)
        return out

    def reciprocal(self, x: Residue) -> Residue:
        """Return 1 / x; zero has none in this draw."""
        p = None if x.p is None else self.field.inverse(x.p)
        q = None if x.q is None else self.field.inverse(x.q, self.field.q)
        special = x.codes
        finite_zero = (special == FINITE) & ((p == 0) if p is not None else (q == 0))
        if p is not None and q is not None:
            finite_zero |= (special == FINITE) & (q == 0)
        if self.compares and p is not None and x.p is not None and x.constant is None:
            magnitude = x.p * self.field.sign(x.p) % np.uint64(self.field.p)
            finite_zero |= (special == FINITE) & self.hashes.taken_for_zero(magnitude)
        special = np.where(finite_zero, UNDEFINED, special)
        special = np.where((special == INF) | (special == NINF), FINITE, special).astype(np.uint8)
        constant = 1 / x.constant if x.constant else None
        digits = None if constant is None else Digits.of_number(constant)
        return replace(residue(p, q, special, digits, x.hint), constant=constant)

    def abs(self, x: Residue) -> Residue:
        """Return chi(x) x."""
        if x.p is None:
            return self.hashed("abs", x)
        sign = self.field.sign(x.p)
        p = x.p * sign % np.uint64(self.field.p)
        q = None if x.q is None else np.where(sign == 1, x.q, negative(x.q, self.field.q))
        special = None if x.special is None else np.where(x.special == NINF, INF, x.special)
        digits = None if x.digits is None else x.digits.plain()
        return residue(p, q, special, digits, x.hint)

    def sqrt(self, x: Residue) -> Residue:
        """Return the root that is a square; a non-square has none in this draw."""
        if x.p is None:
            return self.hashed("sqrt", x)
        bad = (x.codes == FINITE) & self._negative(x.p)
        special = np.where(bad, UNDEFINED, np.where(x.codes == NINF, NAN, x.codes))
        return residue(self.field.sqrt(x.p), None, special, None, x.hint)

    def exp(self, x: Residue) -> Residue:
        """Return GENERATOR^(x mod q); it has no residue modulo q."""
        hint = x.hint
        if x.q is not None:
            p = self.field.exp(x.q)
        else:
            hashed = mix(self.hashes.read(x), self.hashes.key("exp")) % np.uint64(self.field.p)
            p, hint = hashed * hashed % np.uint64(self.field.p), True
        p = np.where(x.codes == NINF, np.uint64(0), p)
        return residue(p, None, np.where(x.codes == NINF, FINITE, x.codes), None, hint)

    def log(self, x: Residue) -> Residue:
        """Return the exponent whose exponential is x; it has no residue modulo p."""
        if x.p is None:
            return self.hashed("log", x)
        finite = x.codes == FINITE
        bad, zero = finite & self._negative(x.p), finite & (x.p == 0)
        q = self.field.log(np.where(bad | zero | ~finite, np.uint64(1), x.p))
        special = np.where(bad, UNDEFINED, np.where(x.codes == NINF, NAN, x.codes))
        return residue(None, q, np.where(zero, NINF, special), None, x.hint)

    def hashed(self, fn: str, *xs: Residue) -> Residue:
        """Return a keyed hash of function and arguments; erf and sin are odd."""
        if fn in ("erf", "sin"):
            p = self.hashes.odd(self.hashes.read(xs[0]), self.hashes.key(fn))
        else:
            p = np.zeros((), np.uint64)
            for i, x in enumerate(xs):
                p = mix(np.asarray(self.hashes.read(x)), self.hashes.key(fn, i)) ^ p
            p = mix(p, self.hashes.key(fn)) % np.uint64(self.field.p)
        special = np.where(worst(*xs) == FINITE, FINITE, UNDEFINED)
        return residue(p, self.hashes.companion(p), special, None, True)

    def _negative(self, x: Words) -> Flags:
        return np.asarray(self.field.sign(x) == self.field.p - 1)

    def _product_codes(self, x: Residue, y: Residue) -> Flags:
        signs = []
        for z in (x, y):
            sign = self.field.sign(np.asarray(self.hashes.read(z)))
            finite = np.where(sign > 1, -1, sign.astype(np.int64))
            signs.append(np.where(z.codes == INF, 1, np.where(z.codes == NINF, -1, finite)))
        product = signs[0] * signs[1]
        codes = [x.codes, y.codes]
        infinite = np.logical_or(*((c == INF) | (c == NINF) for c in codes))
        signed = np.where(product > 0, INF, np.where(product < 0, NINF, NAN))
        out = np.where(infinite, signed, FINITE)
        for code in (NAN, UNDEFINED):
            out = np.where(np.logical_or(*(c == code for c in codes)), code, out)
        return out.astype(np.uint8)
