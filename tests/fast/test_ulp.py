"""The ulp, neighbours and distances agree with an enumeration of each format, and with math."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from lastbit.formats import (
    FORMATS,
    Exact,
    Format,
    FormatError,
    NotRepresentableError,
    as_exact,
    decode,
    identical,
)
from lastbit.ulp_array import ordinal_array, ulp_distance_array
from lastbit.ulps import KINDS, UlpDistance, next_down, next_up, ordinal, ulp, ulp_distance

F32, F64, BF16, E4M3FN = (FORMATS[short] for short in ("f32", "f64", "bf16", "e4m3fn"))
NARROW = [short for short, fmt in FORMATS.items() if fmt.bits <= 8]
INF, NAN = math.inf, math.nan


def values_of(fmt: Format) -> list[Exact]:
    """Return the values in order, infinities included, -0 just before +0."""
    values = [v for v in (decode(code, fmt) for code in range(2**fmt.bits)) if v == v]
    return sorted(values, key=lambda v: (v, math.copysign(1, v) if v == 0 else 0))


@pytest.mark.parametrize("short", NARROW)
def test_neighbours_are_the_next_values_of_the_enumeration(short: str) -> None:
    fmt = FORMATS[short]
    values = values_of(fmt)
    distinct = [v for v in values if not identical(v, -0.0)]
    for low, high in itertools.pairwise(distinct):
        # Zero is reached from below as -0, and from above as +0 (IEEE 754-2019, clause 5.3.1).
        up = -0.0 if high == 0 and fmt.has_negative_zero else high
        assert identical(next_up(low, fmt), up)
        assert identical(next_down(high, fmt), low)
        if abs(low) != INF and abs(high) != INF:
            between = low + (high - low) * Fraction(1, 3)
            assert identical(next_up(between, fmt), up)
            assert identical(next_down(between, fmt), low)
    assert next_up(values[-1], fmt) == values[-1]
    assert next_down(values[0], fmt) == values[0]


@pytest.mark.parametrize("short", NARROW)
def test_distances_count_the_steps_of_the_enumeration(short: str) -> None:
    fmt = FORMATS[short]
    values = values_of(fmt)
    distinct = [v for v in values if not identical(v, -0.0)]
    place = {v: i for i, v in enumerate(distinct)}
    pairs = list(itertools.product(values, values[:: max(1, len(values) // 10)]))
    distances = []
    for a, b in pairs:
        infinite = a != b and INF in (abs(a), abs(b))
        steps = abs(place[a] - place[b])
        if identical(a, b):
            want = UlpDistance(0, "equal")
        elif infinite:
            want = UlpDistance(None, "inf")
        else:
            want = UlpDistance(steps, "distance" if steps else "signed-zero")
        assert ulp_distance(a, b, fmt) == want
        distances.append((want.ulps or 0, want.kind))
    got = ulp_distance_array(
        np.array([float(a) for a, _ in pairs]), np.array([float(b) for _, b in pairs]), fmt
    )
    kinds = [KINDS[kind] for kind in got.kinds.tolist()]
    assert list(zip(got.ulps.tolist(), kinds, strict=True)) == distances


@pytest.mark.parametrize("short", NARROW)
def test_the_ulp_is_the_gap_above_a_value(short: str) -> None:
    fmt = FORMATS[short]
    positive = [v for v in values_of(fmt) if 0 < v < INF]
    for low, high in itertools.pairwise(positive):
        for x in (low, (low + high) / 2, high - (high - low) / 10**30):
            assert ulp(x, fmt) == ulp(-x, fmt) == high - low
    assert ulp(positive[-1], fmt) == ulp(positive[-1] * 1000, fmt)


def test_binary64_agrees_with_the_math_module() -> None:
    for x in (0.0, 5e-324, 2.0**-1022, 0.1, 1.0, math.pi, 2.0**53, 1.7976931348623157e308):
        for y in (x, -x):
            exact = as_exact(y)
            assert ulp(exact, F64) == Fraction(math.ulp(y))
            assert identical(next_up(exact, F64), as_exact(math.nextafter(y, INF)))
            assert identical(next_down(exact, F64), as_exact(math.nextafter(y, -INF)))


@pytest.mark.parametrize(
    ("a", "b", "fmt", "distance"),
    [
        (Fraction(1), 1 + Fraction(1, 2**7), BF16, UlpDistance(1, "distance")),
        (Fraction(1), 1 - Fraction(1, 2**8), BF16, UlpDistance(1, "distance")),
        (Fraction(1, 2**149), Fraction(-1, 2**149), F32, UlpDistance(2, "distance")),
        (Fraction(-1), Fraction(1), F32, UlpDistance(2 * 0x3F800000, "distance")),
        (F64.min_finite, F64.max_finite, F64, UlpDistance(2 * 0x7FEFFFFFFFFFFFFF, "distance")),
        (Fraction(0), -0.0, F32, UlpDistance(0, "signed-zero")),
        (-0.0, -0.0, F32, UlpDistance(0, "equal")),
        (NAN, NAN, E4M3FN, UlpDistance(0, "equal")),
        (NAN, Fraction(1), E4M3FN, UlpDistance(None, "nan")),
        (INF, NAN, F32, UlpDistance(None, "nan")),
        (INF, -INF, F32, UlpDistance(None, "inf")),
        (F32.max_finite, INF, F32, UlpDistance(None, "inf")),
        (-INF, -INF, F32, UlpDistance(0, "equal")),
        (Fraction(-128), Fraction(127), FORMATS["int8"], UlpDistance(255, "distance")),
        (Fraction(1), 1 + Fraction(1, 2**10), FORMATS["tf32"], UlpDistance(1, "distance")),
    ],
)
def test_special_values_are_told_apart(
    a: Exact, b: Exact, fmt: Format, distance: UlpDistance
) -> None:
    assert ulp_distance(a, b, fmt) == ulp_distance(b, a, fmt) == distance
    for left, right in ((a, b), (b, a)):
        got = ulp_distance_array(np.array([float(left)]), np.array([float(right)]), fmt)
        assert got.ulps.tolist() == [distance.ulps or 0]
        assert got.of_kind(distance.kind).tolist() == [True]
        assert [KINDS[kind] for kind in got.kinds.tolist()] == [distance.kind]


def test_arrays_of_any_shape_are_compared_element_by_element() -> None:
    a = np.array([[1.0, -0.0], [math.inf, 2.0]])
    b = np.array([1.0078125, 0.0])
    got = ulp_distance_array(a, b, BF16)
    assert got.ulps.tolist() == [[1, 0], [0, 16384]]
    assert got.kinds.tolist() == [[1, 2], [3, 1]]
    scalar = ulp_distance_array(np.array(1.0), np.array(-1.0), F64)
    assert (int(scalar.ulps), int(scalar.kinds)) == (2 * 0x3FF0000000000000, 1)


@pytest.mark.parametrize("short", ["f64", "f32", "tf32", "bf16", "int32"])
def test_the_ordinals_of_arrays_are_those_of_the_exact_core(short: str) -> None:
    fmt = FORMATS[short]
    values = [fmt.min_finite, -fmt.min_normal, -fmt.min_subnormal, Fraction(0), Fraction(1)]
    values += [fmt.min_subnormal, fmt.min_normal, fmt.max_finite]
    got = ordinal_array(np.array([float(v) for v in values]), fmt)
    assert got.tolist() == [ordinal(v, fmt) for v in values]
    assert ordinal(fmt.min_subnormal, fmt) == -ordinal(-fmt.min_subnormal, fmt) == 1


def test_neighbours_of_nan_and_of_what_lies_outside() -> None:
    assert math.isnan(next_up(NAN, F32))
    assert next_up(INF, F32) == INF
    assert next_up(-INF, F32) == F32.min_finite
    assert next_down(INF, F32) == F32.max_finite
    assert next_up(Fraction(10**6), E4M3FN) == 448
    assert next_down(Fraction(10**6), E4M3FN) == 448
    assert next_up(-INF, E4M3FN) == -448
    assert next_up(Fraction(0), FORMATS["e8m0"]) == Fraction(1, 2**127)
    assert next_down(Fraction(10**40), F32) == F32.max_finite


def test_only_finite_numbers_have_an_ulp() -> None:
    with pytest.raises(FormatError) as caught:
        ulp(INF, F32)
    assert str(caught.value) == "inf has no ulp; only finite numbers have one."
    with pytest.raises(FormatError):
        ulp(NAN, F32)
    assert ulp(-0.0, F32) == ulp(Fraction(0), F32) == Fraction(1, 2**149)


def test_distances_are_between_values_of_the_format() -> None:
    with pytest.raises(NotRepresentableError):
        ulp_distance(Fraction(1), Fraction(257), BF16)
    with pytest.raises(NotRepresentableError):
        ulp_distance_array(np.array([1.0]), np.array([257.0]), BF16)
