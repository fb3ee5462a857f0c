"""How many numbers the running sum of one element is while a block adds it up.

A split sum that is one loop has a running sum for the piece and one for the whole; lanes run side
by side; halves wait for each other.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, log2

from lastbit.explicit_tree import Tree
from lastbit.formats import format_of
from lastbit.graph import Reduce
from lastbit.schedule import Lanes, Pairwise, Promote, Schedule, Split


@lru_cache(maxsize=1 << 12)
def running_bits(schedule: Schedule | None, terms: int, fmt: str) -> int:
    """Return the bits that the running sums of one element take at most.

    Args:
        schedule: its tree, bound; None: a sum that runs from the first to the last term.
        terms: the number of terms.
        fmt: the format of the sum around it.
    """
    own = (schedule.acc if schedule else None) or fmt
    bits = format_of(own).bits
    match schedule:
        case Split(inner=inner):
            size = _piece(schedule, terms)
            piece = running_bits(inner, size, own)
            return piece if size >= terms else bits + piece
        case Promote(every=every, format=wide, inner=inner):
            return format_of(wide).bits + running_bits(inner, min(_number(every), terms), own)
        case Lanes(n=n, inner=inner):
            count = max(1, min(_number(n), terms))
            return count * running_bits(inner, ceil(terms / count), own)
        case Pairwise(leaf=leaf):
            runs = ceil(max(1, terms) / _number(leaf))
            return bits * (1 + ceil(log2(runs)))
        case Tree(leaves=leaves, merges=merges):
            return bits * _waiting(leaves, merges)
    return bits


def running_bytes(node: Reduce, elements: int) -> int:
    """Return the bytes that the running sums of some elements of a sum take."""
    assert node.acc is not None
    return ceil(elements * running_bits(node.schedule, node.length, node.acc.format.short) / 8)


def _piece(split: Split, terms: int) -> int:
    if split.size is not None:
        return _number(split.size)
    return ceil(ceil(terms / _number(split.tile)) / _number(split.n)) * _number(split.tile)


def _waiting(leaves: int, merges: tuple[tuple[int, int], ...]) -> int:
    """Return the partial sums that a tree needs at once: the longer half first (Ershov numbers)."""
    need = [0] * leaves
    for pair in merges:
        low, high = sorted(need[i] if i >= 0 else 0 for i in pair)
        need.append(max(1, high, low + 1 if low else 0))
    return max(1, need[-1]) if need else 1


def _number(value: object) -> int:
    assert isinstance(value, int)
    return max(1, value)
