"""Arithmetic of residues: the field that stands in for the real numbers.

For a prime p = 2q + 1 with q prime, a real is the pair (v mod p, v mod q). An element w of
order q turns the second into an exponential: w^(v mod q) mod p satisfies exp(a + b) =
exp(a) exp(b) by construction. Since p = 7 mod 8, -1 is no square and 2 is one, so the Legendre
symbol serves as a sign: |x| = chi(x) x, and |2 x| = 2 |x|. The primes below are chosen so that
every prime up to 31, and 127, is a square: such constants count as positive.

This extends the test of arXiv 2405.05751 (Mirage), which has no sign, no logarithm, no rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Flags = NDArray[Any]

GENERATOR = 12345**2  # a square, so its order is q in each field below

_MASK = (1 << 64) - 1
_ADD = 0x9E3779B97F4A7C15
_MUL1 = 0xBF58476D1CE4E5B9
_MUL2 = 0x94D049BB133111EB


@dataclass(frozen=True)
class Field:
    """One pair of primes.

    Attributes:
        p: the modulus of values; p = 2q + 1 and p = 7 mod 8.
        ln2: the residue modulo q with GENERATOR^ln2 = 2 modulo p.
    """

    p: int
    ln2: int

    @property
    def q(self) -> int:
        """Return the modulus of exponents."""
        return self.p // 2

    @cached_property
    def _exp_tables(self) -> list[Words]:
        tables, base = [], GENERATOR
        for _ in range(4):
            row, x = [], 1
            for _ in range(256):
                row.append(x)
                x = x * base % self.p
            tables.append(np.array(row, np.uint64))
            base = x
        return tables

    def exp(self, exponent: Words) -> Words:
        """Return GENERATOR^exponent modulo p."""
        p = np.uint64(self.p)
        out: Words = self._exp_tables[0][exponent & np.uint64(255)]
        for i in (1, 2, 3):
            digit = (exponent >> np.uint64(8 * i)) & np.uint64(255)
            out = out * self._exp_tables[i][digit] % p
        return out

    @cached_property
    def _log_table(self) -> tuple[Words, Words, Words]:
        """Return sorted powers of the generator, their exponents, and the giant steps."""
        steps = np.arange(1 << 18, dtype=np.uint64)
        powers = self.exp(steps)
        order = np.argsort(powers)
        giant = pow(GENERATOR, -len(steps), self.p)
        giants = [1]
        while len(giants) * len(steps) < self.q:
            giants.append(giants[-1] * giant % self.p)
        return powers[order], steps[order], np.array(giants, np.uint64)

    def log(self, x: Words) -> Words:
        """Return the e with GENERATOR^e = x modulo p, for squares x (baby and giant steps)."""
        powers, steps, giants = self._log_table
        out = np.zeros(x.size, np.uint64)
        for i, value in enumerate(x.reshape(-1)):
            moved = giants * value % np.uint64(self.p)
            at = np.minimum(np.searchsorted(powers, moved), len(powers) - 1)
            (hits,) = np.nonzero(powers[at] == moved)
            exponent = int(hits[0]) * len(steps) + int(steps[at[hits[0]]])
            out[i] = exponent % self.q
        return out.reshape(x.shape)

    def power(self, x: Words, exponent: int, modulus: int | None = None) -> Words:
        """Return x^exponent modulo p (or another modulus below 2^31)."""
        m = np.uint64(modulus or self.p)
        out = np.ones_like(x)
        for bit in bin(exponent)[2:]:
            out = out * out % m
            if bit == "1":
                out = out * x % m
        return out

    def inverse(self, x: Words, modulus: int | None = None) -> Words:
        """Return 1 / x, and 0 for 0."""
        m = modulus or self.p
        return self.power(x, m - 2, m)

    def sign(self, x: Words) -> Words:
        """Return the Legendre symbol as a residue: 1, p - 1 for -1, 0 for 0."""
        return self.power(x, self.q)

    def sqrt(self, x: Words) -> Words:
        """Return the root that is itself a square, for squares x."""
        return self.power(x, (self.p + 1) // 4)

    def rational(self, numerator: int, denominator: int) -> tuple[int, int] | None:
        """Return the residues of a rational, or None where a prime divides its denominator."""
        if denominator % self.p == 0 or denominator % self.q == 0:
            return None
        return (
            numerator * pow(denominator, -1, self.p) % self.p,
            numerator * pow(denominator, -1, self.q) % self.q,
        )


FIELDS = (
    Field(2146664519, 224797846),
    Field(2146180559, 268206574),
    Field(2144751839, 977929197),
    Field(2144309879, 1036890293),
    Field(2144295599, 990518012),
    Field(2143981199, 333236291),
)


def mix(x: Words, key: int) -> Words:
    """Return a keyed hash of 64 bits (splitmix64: Steele, Lea and Flood, OOPSLA 2014)."""
    x = x ^ np.uint64(key)
    x = x + np.uint64(_ADD)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_MUL1)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_MUL2)
    return x ^ (x >> np.uint64(31))


def mix_int(x: int, key: int) -> int:
    """Return `mix` of one number."""
    x = ((x ^ key) + _ADD) & _MASK
    x = ((x ^ (x >> 30)) * _MUL1) & _MASK
    x = ((x ^ (x >> 27)) * _MUL2) & _MASK
    return x ^ (x >> 31)


def key_of(*facts: object) -> int:
    """Return the key of a hash, the same in every process."""
    key = 0
    for char in repr(facts).encode():
        key = mix_int(char, key)
    return key
