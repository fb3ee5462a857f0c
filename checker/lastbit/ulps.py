"""Units in the last place: the ulp at a value, its neighbours, and distances, exactly.

Source for the ulp: Muller et al., Handbook of Floating-Point Arithmetic, 2nd ed., section 2.3.2
(Goldberg's definition, extended to all real numbers); for neighbours: IEEE 754-2019, clause 5.3.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, TypeAlias, get_args

from lastbit.formats import (
    Exact,
    Format,
    FormatError,
    as_exact,
    encode,
    floor_log2,
    identical,
    scale2,
)
from lastbit.rounding import Mode, Rounding, round_exact

DistanceKind: TypeAlias = Literal["equal", "distance", "signed-zero", "inf", "nan"]
KINDS: Final[tuple[DistanceKind, ...]] = get_args(DistanceKind)


def ulp(x: Exact, fmt: Format) -> Fraction:
    """Return the spacing of the format's values at x, any real number.

    For 2^e <= |x| < 2^(e + 1) it is 2^(max(e, emin) - p + 1); beyond the largest finite number it
    stays what it is there. For integers it is 1.

    Raises:
        FormatError: x is infinite or NaN.
    """
    x = as_exact(x)
    if isinstance(x, float) and x != 0:
        raise FormatError(f"{x} has no ulp; only finite numbers have one.")
    x = abs(Fraction(x))
    exponent = floor_log2(x) if x else fmt.emin
    return scale2(1, fmt.quantum(min(exponent, fmt.emax)))


def next_up(x: Exact, fmt: Format) -> Exact:
    """Return the least value of the format above x, any exact value.

    Above the largest value there is none, so it is its own neighbour; so is NaN. Above the negative
    number of least magnitude comes -0 where the format holds it (IEEE 754-2019, clause 5.3.1).
    """
    return _neighbour(as_exact(x), Rounding.of(fmt, Mode.UP))


def next_down(x: Exact, fmt: Format) -> Exact:
    """Return the greatest value of the format below x; the mirror image of `next_up`."""
    return _neighbour(as_exact(x), Rounding.of(fmt, Mode.DOWN))


def _neighbour(x: Exact, rounding: Rounding) -> Exact:
    fmt = rounding.format
    if x != x:
        return x
    highest: Exact = math.inf if fmt.has_inf else fmt.max_finite
    lowest: Exact = -math.inf if fmt.has_inf else fmt.min_finite
    if rounding.mode is Mode.UP:
        ahead, behind, edge, step = highest, lowest, fmt.min_finite, fmt.min_subnormal / 2
        past, before = x >= highest, x < lowest
    else:
        ahead, behind, edge, step = lowest, highest, fmt.max_finite, -fmt.min_subnormal / 2
        past, before = x <= lowest, x > highest
    if past or before:
        return ahead if past else behind
    if x == behind and fmt.has_inf:
        return edge
    result = round_exact(x, rounding)
    return result if result != x else round_exact(Fraction(x) + step, rounding)


@dataclass(frozen=True, slots=True)
class UlpDistance:
    """How far apart two values of a format are.

    Attributes:
        ulps: the number of steps from one to the other, across zero where they differ in sign (-0
            and +0 are one place); null where a step count means nothing.
        kind: `equal`: the same value; `distance`: different finite values; `signed-zero`: -0 and
            +0; `inf`: an infinity on one side only, or two of different sign; `nan`: a NaN on one
            side only.
    """

    ulps: int | None
    kind: DistanceKind


def ordinal(x: Exact, fmt: Format) -> int:
    """Return the place of a value among the values of its format, counted from zero.

    Negative values count down; -0 and +0 share the place 0; the infinities follow the largest
    finite numbers.

    Raises:
        NotRepresentableError: the format does not hold x.
    """
    code = encode(x, fmt) >> fmt.padding
    sign = 1 << (fmt.bits - 1)
    if not fmt.signed or code < sign:
        return code
    return code - 2 * sign if fmt.kind == "integer" else sign - code


def ulp_distance(a: Exact, b: Exact, fmt: Format) -> UlpDistance:
    """Return how far apart two values of a format are, in ulp of the format.

    Raises:
        NotRepresentableError: the format does not hold a or b.
    """
    places = ordinal(a, fmt), ordinal(b, fmt)
    if identical(a, b):
        return UlpDistance(0, "equal")
    if a != a or b != b:
        return UlpDistance(None, "nan")
    if math.inf in (abs(a), abs(b)):
        return UlpDistance(None, "inf")
    ulps = abs(places[0] - places[1])
    return UlpDistance(ulps, "distance" if ulps else "signed-zero")
