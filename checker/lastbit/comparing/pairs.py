"""Compare two tensors, or two sets of them by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import prod
from typing import Final

import numpy as np

from lastbit.comparing.elements import Codes, Element
from lastbit.comparing.ranks import percentile
from lastbit.comparing.records import Compared, Comparison, Places, Worst
from lastbit.comparing.scales import Scale, at_scale
from lastbit.comparing.tally import Counts, Far, Tally
from lastbit.comparing.tensors import Tensor
from lastbit.errors import InputError, Problem
from lastbit.round_array import decode_array

READ: Final = 1 << 20  # elements that are read at a time
MOST_SHOWN: Final = 4  # rows, and columns, that are named
SHARES: Final = (Fraction(1, 2), Fraction(99, 100), Fraction(999, 1000))


def compare_sets(
    sides: tuple[str, str],
    before: Mapping[str, Tensor],
    after: Mapping[str, Tensor],
    allowed: Mapping[str, float] | None = None,
    scale: Scale | None = None,
) -> Comparison:
    """Compare two sets of tensors by name; where each holds one, whatever the names.

    Args:
        sides: what to call them.
        before: the first.
        after: the second.
        allowed: the greatest distance that passes, by format; in ulp at the scale if there is one.
        scale: at which to measure as well.

    Raises:
        InputError: there is nothing to compare, or a file cannot be read to its end.
    """
    if not before or not after:
        side = sides[0] if not before else sides[1]
        raise InputError([Problem(f"{side} holds no tensors, so nothing was compared")])
    if len(before) == len(after) == 1:
        (name, left), (other, right) = *before.items(), *after.items()
        label = name if name == other else " / ".join(part for part in (name, other) if part)
        pairs: Mapping[str, tuple[Tensor | None, Tensor | None]] = {label: (left, right)}
    else:
        names = sorted(before.keys() | after.keys())
        pairs = {name: (before.get(name), after.get(name)) for name in names}
    found = (_compared(name, *pair, allowed or {}, scale) for name, pair in pairs.items())
    return Comparison(sides, dict(allowed or {}), tuple(found))


def _compared(
    name: str,
    a: Tensor | None,
    b: Tensor | None,
    allowed: Mapping[str, float],
    scale: Scale | None,
) -> Compared:
    shapes = (a.shape if a else None, b.shape if b else None)
    if a is None or b is None:
        side = "first" if a is None else "second"
        return Compared(name, "missing", None, shapes, message=f"not on the {side} side")
    if a.element != b.element:
        message = f"{a.element.name} against {b.element.name}"
        return Compared(name, "other-type", None, shapes, message=message)
    if a.shape != b.shape:
        message = f"{list(a.shape)} against {list(b.shape)}"
        return Compared(name, "other-shape", a.element.name, shapes, message=message)
    return compare_pair(name, a, b, allowed.get(a.element.name), scale)


def compare_pair(
    name: str, a: Tensor, b: Tensor, allowed: float | None = None, scale: Scale | None = None
) -> Compared:
    """Compare two tensors of one type and shape, in one pass but for distances from 65,536 ulp.

    Args:
        name: what to call them.
        a: the first.
        b: the second.
        allowed: the greatest distance that passes; null: only equal bits do.
        scale: at which to measure as well, and to hold `allowed` against.

    Raises:
        InputError: a file cannot be read to its end.
    """
    columns = a.shape[-1] if a.shape else 1
    tally = Tally(a.element, max(columns, 1), prod(a.shape[:-1]))
    for left, right in _blocks(a, b):
        tally.add(left, right)
    p50, p99, p999 = (percentile(tally, share, lambda: _distances(a, b)) for share in SHARES)
    scaled = at_scale(a, b, tally, scale) if scale and tally.apart else None
    farthest = tally.worst[0].ulps if tally.worst else 0 if tally.numbers else None
    judged = scaled.max if scaled else farthest
    return Compared(
        name,
        _relation(tally, judged, allowed),
        a.element.name,
        (a.shape, b.shape),
        elements=tally.elements,
        other_bits=tally.other_bits,
        signed_zeros=tally.zeros,
        nan_payloads=tally.nans,
        nan_only=tally.nan_only,
        infinite=tally.infinite,
        apart=tally.apart,
        max_ulp=farthest,
        p50=p50,
        p99=p99,
        p999=p999,
        histogram=tally.histogram,
        worst=tuple(_worst(far, a) for far in tally.worst),
        first=None if tally.first is None else index_of(tally.first, a.shape),
        rows=_places(tally.by_row, tally.columns),
        columns=_places(tally.by_column, tally.rows),
        at_scale=scaled,
    )


def _relation(tally: Tally, farthest: float | None, allowed: float | None) -> str:
    if not tally.other_bits:
        return "bitwise"
    special = sum(tally.nan_only) + tally.infinite
    if allowed is not None and not special and (farthest or 0) <= allowed:
        return "within"
    return "differs" if special or tally.apart else "equal"


def _blocks(a: Tensor, b: Tensor) -> Iterator[tuple[Codes, Codes]]:
    return zip(a.blocks(READ), b.blocks(READ), strict=True)


def _distances(a: Tensor, b: Tensor) -> Iterator[Codes]:
    """Yield the distances of finite numbers that differ."""
    for left, right in _blocks(a, b):
        left, right = apart(a.element, left, right)
        yield a.element.distances(left, right)


def apart(element: Element, a: Codes, b: Codes) -> tuple[Codes, Codes]:
    """Return the pairs of different finite numbers."""
    at = np.flatnonzero(np.not_equal(a, b))
    a, b = a[at], b[at]
    special = element.nan(a) | element.nan(b) | element.infinite(a) | element.infinite(b)
    ordinary = ~special & (element.distances(a, b) > 0)
    return a[ordinary], b[ordinary]


def index_of(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return one number for each axis of an element counted row by row."""
    return tuple(int(n) for n in np.unravel_index(flat, shape)) if shape else ()


def _worst(far: Far, tensor: Tensor) -> Worst:
    element = tensor.element
    codes = np.array([far.a, far.b], element.code_type)
    digits = 2 * element.bytes
    return Worst(
        index_of(far.index, tensor.shape),
        f"0x{far.a:0{digits}x}",
        f"0x{far.b:0{digits}x}",
        (number_of(element, codes[:1]), number_of(element, codes[1:])),
        far.ulps,
    )


def number_of(element: Element, code: Codes) -> float:
    """Return the number that one code stands for."""
    if element.format is not None:
        return float(decode_array(code, element.format)[0])
    return float(code.view(f"<i{element.bytes}" if element.sort == "signed" else code.dtype)[0])


def _places(counts: Counts | None, size: int) -> Places | None:
    if counts is None or len(counts) < 2 or not counts.any():
        return None
    order = np.argsort(-counts, kind="stable")[:MOST_SHOWN]
    most = tuple((int(at), int(counts[at])) for at in order if counts[at])
    return Places(int(np.count_nonzero(counts)), len(counts), most, size)
