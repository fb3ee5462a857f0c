"""The values of the field domain: tensors of residues, and what is known beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lastbit.interpret.digits import Digits
from lastbit.interpret.residues import Flags, Words
from lastbit.rounding import Rounding

FINITE, INF, NINF, NAN, UNDEFINED = range(5)  # codes; UNDEFINED: this draw cannot say


@dataclass(frozen=True, slots=True)
class Residue:
    """A tensor of residues; its parts broadcast against each other.

    Attributes:
        p: values modulo p, or None where only the exponent is known (a logarithm).
        q: values modulo q, or None where none is known (an exponential, a root).
        special: FINITE, INF, NINF, NAN or UNDEFINED; None: all finite. What is not finite has the
            residue 0.
        digits: how the values are written, where known.
        hint: whether a keyed hash other than of a rounding took part.
        constant: the rational, for a constant.
        sum: the sum that a rounding closed here.
        members: for a maximum, the identities of its arguments, along one more axis.
    """

    p: Words | None
    q: Words | None
    special: Flags | None = None
    digits: Digits | None = None
    hint: bool = False
    constant: Fraction | None = None
    sum: Sum | None = None
    members: Words | None = None

    @property
    def identity(self) -> Words:
        """Return the residue modulo p, else modulo q."""
        if self.p is not None:
            return self.p
        assert self.q is not None
        return self.q

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the residues."""
        return self.identity.shape

    @property
    def codes(self) -> Flags:
        """Return the codes, FINITE where there are none."""
        return np.zeros((), np.uint8) if self.special is None else self.special


@dataclass(frozen=True, slots=True)
class Sum:
    """An open sum: its exact value, and the multiset of its terms as two additive hashes.

    Attributes:
        rounding: what will close it.
        value: the exact sum.
        plus: the sum of hash(term) over the nonzero terms.
        minus: the sum of hash(-term).
        count: the number of nonzero terms.
    """

    rounding: Rounding
    value: Residue
    plus: Words
    minus: Words
    count: Words


def residue(
    p: Words | None, q: Words | None, special: Flags | None, digits: Digits | None, hint: bool
) -> Residue:
    """Return a tensor whose residues are 0 where its codes are not FINITE."""
    if special is None or not np.any(special):
        return Residue(p, q, None, digits, hint)
    special = np.asarray(special, np.uint8)
    finite = special == FINITE
    p, q = (None if x is None else np.where(finite, x, np.uint64(0)) for x in (p, q))
    return Residue(p, q, special, digits, hint)


def negative(x: Words, modulus: int) -> Words:
    """Return -x modulo a prime."""
    return np.where(x == 0, x, np.uint64(modulus) - x)


def both(x: Words | None, y: Words | None, fn: Callable[[Words, Words], Words]) -> Words | None:
    """Return fn(x, y), or None where one of them is not known."""
    return None if x is None or y is None else np.asarray(fn(x, y))


def worst(*xs: Residue) -> Flags:
    """Return the greatest code of each element."""
    out: Flags = np.zeros((), np.uint8)
    for x in xs:
        out = np.maximum(out, x.codes)
    return out
