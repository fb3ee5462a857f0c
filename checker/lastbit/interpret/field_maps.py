"""The elementwise functions of the field, by name."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from lastbit.interpret.digits import Digits, join
from lastbit.interpret.field_arithmetic import Arithmetic
from lastbit.interpret.field_hashes import Hashes
from lastbit.interpret.field_values import (
    FINITE,
    INF,
    NAN,
    NINF,
    UNDEFINED,
    Residue,
    both,
    residue,
    worst,
)
from lastbit.interpret.residues import Flags, Words

BIT = Digits.of_number(Fraction(1))


class Maps(Arithmetic):
    """The elementwise functions of one draw.

    What can be written with exponentials is; a function without a law of its own (erf, sin, cos,
    floor, an opaque one) is a keyed hash.
    """

    def __init__(self, hashes: Hashes, compares: bool) -> None:
        super().__init__(hashes, compares)
        self._known: dict[str, Callable[..., Residue]] = {
            "neg": self.neg,
            "add": self.add,
            "sub": lambda x, y: self.add(x, self.neg(y)),
            "mul": self.mul,
            "div": lambda x, y: self.mul(x, self.reciprocal(y)),
            "abs": self.abs,
            "max": self.maxima.of,
            "min": lambda x, y: self.neg(self.maxima.of(self.neg(x), self.neg(y))),
            "relu": lambda x: self.maxima.of(x, self.number(0)),
            "clamp": self.clamp,
            "sqrt": self.sqrt,
            "rsqrt": lambda x: self.reciprocal(self.sqrt(x)),
            "exp": self.exp,
            "exp2": lambda x: self.exp(self.mul(x, self.const("ln2"))),
            "expm1": lambda x: self.add(self.exp(x), self.number(-1)),
            "log": self.log,
            "log2": lambda x: self.mul(self.log(x), self.const("log2e")),
            "log1p": lambda x: self.log(self.add(x, self.number(1))),
            "sigmoid": self._sigmoid,
            "silu": lambda x: self.mul(x, self._sigmoid(x)),
            "tanh": self._tanh,
            "softplus": lambda x: self.log(self.add(self.exp(x), self.number(1))),
            "gelu": self._gelu,
            "gelu_tanh": self._gelu_tanh,
            "sign": self._sign,
            "less": lambda x, y: self._compare(x, y, lambda sign: sign == 1),
            "less_equal": lambda x, y: self._compare(x, y, lambda sign: sign <= 1),
            "equal": lambda x, y: self._compare(x, y, lambda sign: sign == 0),
            "select": self._select,
        }

    def map(self, fn: str, xs: tuple[Residue, ...]) -> Residue:
        """Return an elementwise function by its name."""
        known = self._known.get(fn)
        return known(*xs) if known else self.hashed(fn, *xs)

    def clamp(self, x: Residue, low: Residue, high: Residue) -> Residue:
        """Return x limited to [low, high]."""
        above = self.maxima.of(x, low)
        return self.neg(self.maxima.of(self.neg(above), self.neg(high)))

    def _sigmoid(self, x: Residue) -> Residue:
        return self.reciprocal(self.add(self.exp(self.neg(x)), self.number(1)))

    def _tanh(self, x: Residue) -> Residue:
        twice = self._sigmoid(self.add(x, x))
        return self.add(self.add(twice, twice), self.number(-1))

    def _gelu(self, x: Residue) -> Residue:
        inner = self.hashed("erf", self.mul(x, self.reciprocal(self.sqrt(self.number(2)))))
        return self.mul(self.mul(x, self.number(Fraction(1, 2))), self.add(inner, self.number(1)))

    def _gelu_tanh(self, x: Residue) -> Residue:
        cube = self.mul(self.mul(x, x), x)
        inner = self.add(x, self.mul(cube, self.number(Fraction(44715, 1000000))))
        root = self.sqrt(self.mul(self.number(2), self.reciprocal(self.const("pi"))))
        tanh = self._tanh(self.mul(root, inner))
        return self.mul(self.mul(x, self.number(Fraction(1, 2))), self.add(tanh, self.number(1)))

    def _sign(self, x: Residue) -> Residue:
        sign = self._sign_or_zero(x)
        q = np.where(sign > 1, np.uint64(self.field.q - 1), sign)
        codes = np.where((x.codes == INF) | (x.codes == NINF), FINITE, x.codes)
        return residue(sign, q, codes, BIT, True)

    def _compare(self, x: Residue, y: Residue, test: Callable[[Words], Flags]) -> Residue:
        """Return 1 where the sign of y - x passes a test, else 0; NaN compares false."""
        sign = self._sign_or_zero(self.add(y, self.neg(x)))
        same = (x.codes == y.codes) & ((x.codes == INF) | (x.codes == NINF))
        nan = (x.codes == NAN) | (y.codes == NAN)
        bit = (test(np.where(same, np.uint64(0), sign)) & ~nan).astype(np.uint64)
        codes = np.where(worst(x, y) == UNDEFINED, UNDEFINED, FINITE)
        return residue(bit, bit, codes, BIT, True)

    def _sign_or_zero(self, x: Residue) -> Words:
        """Return the sign of x in this draw as a residue: 1, p - 1 for -1, or 0."""
        sign = self.hashes.sign_or_zero(self.hashes.read(x))
        sign = np.where(x.codes == INF, np.uint64(1), sign)
        return np.where(x.codes == NINF, np.uint64(self.field.p - 1), sign)

    def _select(self, condition: Residue, x: Residue, y: Residue) -> Residue:
        """Return x where the condition is not 0, else y; inf and NaN are not 0."""
        x, y = self.hashes.aligned(x, y)
        chosen = (self._sign_or_zero(condition) != 0) | (condition.codes == NAN)
        special = np.where(chosen, x.codes, y.codes)
        special = np.where(condition.codes == UNDEFINED, UNDEFINED, special)

        def pick(a: Words, b: Words) -> Words:
            return np.where(chosen, a, b)

        p, q = both(x.p, y.p, pick), both(x.q, y.q, pick)
        return residue(p, q, special, join(x.digits, y.digits), True)
