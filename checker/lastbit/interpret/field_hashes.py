"""Keyed hashes of residues: what stands for a function that the field does not have.

Each is a function of its arguments and of the draw's seed, so agreement stays sound. Those of a
rounding keep zero and, where the rounding is symmetric, the sign.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lastbit.interpret.field_values import Residue, negative
from lastbit.interpret.residues import Field, Flags, Words, key_of, mix, mix_int
from lastbit.rounding import Mode, Rounding

SMALL = 1 << 16  # residues below are those of integers; a random one is below in 1 of 2^15 draws

_SYMMETRIC = (Mode.NEAREST_EVEN, Mode.NEAREST_AWAY, Mode.TOWARD_ZERO, Mode.TO_ODD)


class Hashes:
    """The keyed hashes of one draw.

    Args:
        field: the pair of primes.
        seed: selects the keys.
    """

    def __init__(self, field: Field, seed: int) -> None:
        self.field, self.seed = field, seed

    def key(self, *facts: object) -> int:
        """Return the key of this draw for what some facts name."""
        return key_of(*facts, self.seed)

    def read(self, x: Residue) -> Words:
        """Return what hashes read of x: its residue modulo p, else an odd hash of that modulo q.

        So a logarithm has a sign too, though not one that products keep.
        """
        if x.p is not None:
            return x.p
        q, half = x.identity, np.uint64(self.field.q // 2)
        magnitude = np.where(q > half, negative(q, self.field.q), q)
        hashed = mix(magnitude, self.key("exponent")) % np.uint64(self.field.p)
        hashed = np.where(magnitude == 0, magnitude, hashed)
        return np.where(q > half, negative(hashed, self.field.p), hashed)

    def aligned(self, *xs: Residue) -> tuple[Residue, ...]:
        """Return tensors that have a residue in common; what hashes read stands in for one.

        So an exponential, known modulo p only, and a logarithm, known modulo q only, can be added.
        """
        if all(x.p is not None for x in xs) or all(x.q is not None for x in xs):
            return xs
        return tuple(replace(x, p=self.read(x), hint=True) if x.p is None else x for x in xs)

    def rounding_key(self, rounding: Rounding) -> int:
        """Return the key of a rounding: format and mode.

        Overflow and subnormals have no part in it: on ordinary runs nothing overflows and no
        nonzero result is subnormal, so roundings that differ only there give the same value.
        """
        return self.key("round", rounding.format.name, str(rounding.mode), rounding.seed)

    def rounded(self, x: Words, key: int, rounding: Rounding) -> Words:
        """Return the hash of x that stands for its rounding; zero stays zero.

        Args:
            x: residues modulo p.
            key: the key of the rounding.
            rounding: says whether the hash is odd.
        """
        if is_odd(rounding):
            return self.odd(x, key)
        return np.where(x == 0, x, mix(x, key) % np.uint64(self.field.p))

    def rounded_number(self, x: int, key: int, rounding: Rounding) -> int:
        """Return `rounded` of one number."""
        p, sign = self.field.p, pow(x, self.field.q, self.field.p)
        if sign == 0:
            return 0
        if not is_odd(rounding):
            return mix_int(x, key) % p
        hashed = mix_int(x if sign == 1 else p - x, key) % p
        square = hashed * hashed % p
        return square if sign == 1 else p - square

    def odd(self, x: Words, key: int) -> Words:
        """Return an odd hash that keeps zero and the sign: chi(x) h(|x|)^2."""
        p = np.uint64(self.field.p)
        sign = self.field.sign(x)
        hashed = mix(x * sign % p, key) % p
        return hashed * hashed % p * sign % p

    def companion(self, p: Words) -> Words:
        """Return a residue modulo q that is an odd function of a hashed residue modulo p."""
        modulus = np.uint64(self.field.p)
        sign = self.field.sign(p)
        q = mix(p * sign % modulus, self.key("companion")) % np.uint64(self.field.q)
        q = np.where(p == 0, np.uint64(0), q)
        return np.where(sign > 1, negative(q, self.field.q), q)

    def terms(self, x: Words) -> tuple[Words, Words, Words]:
        """Return the hashes of x and of -x, and 1; all are 0 where x is.

        Sums of them name the multiset of the nonzero terms of a sum.
        """
        some = (x != 0).astype(np.uint64)
        key = self.key("term")
        return mix(x, key) * some, mix(negative(x, self.field.p), key) * some, some

    def multiset(self, total: Words, plus: Words, minus: Words, key: int, odd: bool) -> Words:
        """Return the hash of a multiset of terms.

        Args:
            total: the exact sum of the terms, modulo p.
            plus: the sum of the hashes of the terms.
            minus: the sum of the hashes of their negatives.
            key: the key of what adds them.
            odd: whether the hash is odd and keeps the sign of the sum.
        """
        p = np.uint64(self.field.p)
        forth = mix(mix(plus, key) ^ (minus << np.uint64(1)), key) % p
        if not odd:
            return forth
        sign = self.field.sign(total)
        first, second = np.where(sign > 1, minus, plus), np.where(sign > 1, plus, minus)
        hashed = mix(mix(first, key) ^ (second << np.uint64(1)), key) % p
        square = hashed * hashed % p * sign % p
        back = mix(mix(minus, key) ^ (plus << np.uint64(1)), key) % p
        return np.where(total == 0, (forth + p - back) % p, square)

    def sign_or_zero(self, x: Words) -> Words:
        """Return chi(x), and 0 also for the residues that are taken for zero in this draw.

        A random residue is never zero, but what a comparison tells apart may be.
        """
        sign = self.field.sign(x)
        return np.where(self.taken_for_zero(x * sign % np.uint64(self.field.p)), 0, sign)

    def taken_for_zero(self, magnitude: Words) -> Flags:
        """Return which magnitudes are taken for zero in this draw: a quarter of the large ones.

        What is small is a number, such as the 1 of a comparison that held.
        """
        drawn = mix(magnitude, self.key("zero")) & np.uint64(3) == 0
        return np.asarray(drawn & (magnitude >= SMALL))


def is_odd(rounding: Rounding) -> bool:
    """Return whether a rounding of -x is the negative of that of x, for every ordinary x."""
    return rounding.mode in _SYMMETRIC and rounding.format.kind == "float"
