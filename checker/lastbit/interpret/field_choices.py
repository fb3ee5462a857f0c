"""Choices in the field: an index is known by the sequence of the elements along its axis.

Equal sequences have equal indices, whatever the rule for equal elements; the other way round a
hash knows nothing, so a difference is a hint. The second largest element, and those after it, are
known by the multiset of the elements and their place.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from lastbit.choices import Choice
from lastbit.interpret.digits import Digits
from lastbit.interpret.field_hashes import Hashes
from lastbit.interpret.field_values import (
    FINITE,
    INF,
    NAN,
    NINF,
    UNDEFINED,
    Residue,
    residue,
)
from lastbit.interpret.residues import Flags, Words, mix

FALLING = (NAN, INF, FINITE, NINF)


def chosen(hashes: Hashes, choice: Choice, x: Residue, axis: int) -> Residue:
    """Return the choice along an axis, which stays with size 1."""
    shape = x.shape
    codes = np.broadcast_to(x.codes, shape)
    values = np.broadcast_to(hashes.read(x), shape)
    hashed = mix(values, hashes.key("element")) ^ mix(codes.astype(np.uint64), hashes.key("code"))
    unclear = (codes == UNDEFINED).any(axis=axis, keepdims=True)
    if choice.ties is None:
        hashed = np.where(codes == FINITE, hashed, np.uint64(0))
        special = np.where(unclear, UNDEFINED, _code(codes, axis, choice.nth))
        digits = x.digits
    else:
        places = np.arange(shape[axis], dtype=np.uint64)
        places = places.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        hashed = mix(hashed + mix(places, hashes.key("place")), hashes.key("placed"))
        special = np.where(unclear, UNDEFINED, FINITE)
        digits = Digits(max(shape[axis] - 1, 1).bit_length(), 0, Fraction(max(shape[axis] - 1, 1)))
    total = hashed.sum(axis=axis, keepdims=True, dtype=np.uint64)
    value: Words = mix(total, hashes.key("chosen", choice.op)) % np.uint64(hashes.field.p)
    return residue(value, hashes.companion(value), special.astype(np.uint8), digits, True)


def _code(codes: Flags, axis: int, nth: int) -> Flags:
    """Return the code of the nth largest of values with some codes."""
    out = np.full((*codes.shape[:axis], 1, *codes.shape[axis + 1 :]), UNDEFINED, np.uint8)
    above = np.zeros(out.shape, np.int64)
    for code in FALLING:
        count = above + (codes == code).sum(axis=axis, keepdims=True)
        out = np.where((above < nth) & (nth <= count), np.uint8(code), out)
        above = count
    return out
