"""Scalar and array rounding agree with an enumeration of each format, at every hard point.

The oracle is the sorted list of a format's values as numpy and ml_dtypes decode them, continued by
one step at each end where results overflow. The points are every value, every midpoint, and the
binary64 neighbours of both.
"""

import functools
import itertools
import math
import random
import sys
from dataclasses import dataclass
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from lastbit.formats import FORMATS, as_exact, identical
from lastbit.round_array import round_array
from lastbit.rounding import Mode, Rounding, RoundingError, Undecided, round_exact

TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e5m2": ml_dtypes.float8_e5m2,
    "e4m3fn": ml_dtypes.float8_e4m3fn,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e8m0": ml_dtypes.float8_e8m0fnu,
    "int8": np.int8,
    "uint8": np.uint8,
    "int4": ml_dtypes.int4,
}
EIGHT_BITS = [short for short in TYPES if short not in ("f16", "bf16")]
# What each format holds, written down independently of lastbit.formats.
HOLDS_INF = {"f16", "bf16", "tf32", "e5m2"}
HOLDS_NAN = HOLDS_INF | {"e4m3fn", "e4m3fnuz", "e5m2fnuz", "e8m0"}
HOLDS_NEGATIVE_ZERO = HOLDS_INF | {"e4m3fn", "e3m2", "e2m3", "e2m1"}
DETERMINISTIC = [mode for mode in Mode if mode is not Mode.STOCHASTIC]


@dataclass(frozen=True)
class Enumeration:
    """The values of a format, with a step beyond each end that overflows, and the hard points.

    For each point: the values around it, whether it is one, and its side of their midpoint.
    """

    points: np.ndarray
    low: np.ndarray
    high: np.ndarray
    low_is_even: np.ndarray
    high_is_even: np.ndarray
    exact: np.ndarray
    side: np.ndarray
    largest: float
    lowest: float
    normal: float


@functools.cache
def enumeration(short: str) -> Enumeration:
    if short == "tf32":
        codes = np.arange(2**18, dtype=np.uint32)  # the other half is its mirror image
        decoded = (codes << np.uint32(13)).view(np.float32)
    else:
        bits = {"e3m2": 6, "e2m3": 6, "e2m1": 4, "int4": 4, "f16": 16, "bf16": 16}.get(short, 8)
        codes = np.arange(2**bits, dtype=np.uint16 if bits == 16 else np.uint8)
        decoded = codes.view(TYPES[short])
    with np.errstate(invalid="ignore"):  # signalling NaN
        decoded = decoded.astype(np.float64)
    kept = np.isfinite(decoded) & ~((decoded == 0) & np.signbit(decoded))
    order = np.argsort(decoded[kept])
    values, even = decoded[kept][order], (codes[kept] % 2 == 0)[order]
    largest, lowest = float(values[-1]), float(values[0])
    normal = float(
        ml_dtypes.finfo(np.float32 if short == "tf32" else TYPES[short]).smallest_normal
        if "int" not in short
        else 1.0
    )
    step = 1 if short == "e8m0" else 0  # its steps double
    values = np.append(values, 2 * values[-1] - values[-2] if not step else 2 * values[-1])
    even = np.append(even, ~even[-1])
    if short not in ("tf32", "e8m0"):  # these have no negative end here
        values = np.insert(values, 0, 2 * values[0] - values[1])
        even = np.insert(even, 0, ~even[0])
    if short == "e8m0":  # every significand is 1: ties go up, and to odd goes down
        even = np.arange(values.size) % 2 < 0
    middle = (values[:-1] + values[1:]) / 2
    points = np.concatenate([values, middle])
    points = np.concatenate([points, np.nextafter(points, np.inf), np.nextafter(points, -np.inf)])
    points = np.unique(points[(points >= values[0]) & (points <= values[-1])])
    at = np.minimum(np.searchsorted(values, points, side="right") - 1, values.size - 2)
    return Enumeration(
        points, values[at], values[at + 1], even[at], even[at + 1],
        exact=np.isin(points, values), side=np.sign(points - middle[at]),
        largest=largest, lowest=lowest, normal=normal,
    )  # fmt: skip


def expected(short: str, mode: Mode, overflow: str, subnormals: str) -> np.ndarray:
    e = enumeration(short)
    if mode is Mode.NEAREST_EVEN:
        up = (e.side > 0) | ((e.side == 0) & ~e.low_is_even)
    elif mode is Mode.NEAREST_AWAY:
        up = (e.side > 0) | ((e.side == 0) & (e.points > 0))
    elif mode is Mode.TO_ODD:
        up = e.low_is_even & ~e.high_is_even
    else:
        up = {"rtz": e.points < 0, "rup": True, "rdn": False}[mode]
    up = np.where(e.exact, e.points == e.high, up)
    result = np.where(up, e.high, e.low)
    above, below = result > e.largest, result < e.lowest
    # IEEE 754 keeps these finite: toward zero, to odd, and directed modes that point inwards.
    keeps = {"inf": {"rtz", "rto"}, "nan": set(), "saturate": set(Mode)}[overflow]
    inward_down, inward_up = (overflow == "inf" and mode == m for m in ("rdn", "rup"))
    beyond = {"inf": np.inf, "nan": np.nan, "saturate": 0.0}[overflow]
    result = np.where(above, e.largest if mode in keeps or inward_down else beyond, result)
    result = np.where(below, e.lowest if mode in keeps or inward_up else -beyond, result)
    if subnormals == "flush":
        result = np.where(np.abs(result) < e.normal, 0.0, result)
    if short in HOLDS_NEGATIVE_ZERO:
        return np.where(result == 0, np.copysign(0.0, e.points), result)
    return result + 0.0


def roundings(short: str) -> list[Rounding]:
    overflows = ["inf"] * (short in HOLDS_INF) + ["nan"] * (short in HOLDS_NAN) + ["saturate"]
    return [
        Rounding.of(short, mode, overflow, subnormals)
        for mode, overflow, subnormals in itertools.product(
            DETERMINISTIC, overflows, ("keep", "flush")
        )
    ]


def assert_same(got: np.ndarray, want: np.ndarray, points: np.ndarray, what: object) -> None:
    same = (got.view(np.uint64) == want.view(np.uint64)) | (np.isnan(got) & np.isnan(want))
    if not same.all():
        i = int(np.argmin(same))
        raise AssertionError(f"{what}: {points[i].hex()} gives {got[i]!r}, not {want[i]!r}")


@pytest.mark.parametrize("short", TYPES)
def test_array_rounding_agrees_with_the_enumeration(short: str) -> None:
    points = enumeration(short).points
    for rounding in roundings(short):
        want = expected(short, rounding.mode, rounding.overflow, rounding.subnormals)
        assert_same(round_array(points, rounding), want, points, rounding)


def test_array_rounding_to_tf32_agrees_with_the_enumeration() -> None:
    points = enumeration("tf32").points
    for mode in DETERMINISTIC:
        rounding = Rounding.of("tf32", mode)
        assert_same(
            round_array(points, rounding), expected("tf32", mode, "inf", "keep"), points, rounding
        )


@pytest.mark.parametrize("short", EIGHT_BITS)
def test_exact_rounding_agrees_with_the_enumeration(short: str) -> None:
    points = enumeration(short).points
    rationals = [as_exact(point) for point in points.tolist()]
    for rounding in roundings(short):
        want = expected(short, rounding.mode, rounding.overflow, rounding.subnormals)
        got = np.array([float(round_exact(x, rounding)) for x in rationals])
        assert_same(got, want, points, rounding)


INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("rounding", "x", "result"),
    [
        # An infinity that the format holds stays, unless the overflow saturates.
        (Rounding.of("bf16"), INF, INF),
        (Rounding.of("bf16", "rtz"), -INF, -INF),
        (Rounding.of("f16", overflow="nan"), INF, INF),
        (Rounding.of("f16", overflow="saturate"), -INF, Fraction(-65504)),
        (Rounding.of("e5m2", "rup", "saturate"), INF, Fraction(57344)),
        (Rounding.of("f64", overflow="saturate"), INF, Fraction(sys.float_info.max)),
        (Rounding.of("e4m3fn"), INF, NAN),
        (Rounding.of("e4m3fn", "rtz"), Fraction(500), NAN),
        (Rounding.of("e4m3fn", overflow="saturate"), -INF, Fraction(-448)),
        (Rounding.of("int8"), INF, Fraction(127)),
        (Rounding.of("int8"), -INF, Fraction(-128)),
        (Rounding.of("uint8"), -INF, Fraction(0)),
        # NaN, where there is none: 0 for integers, else the largest finite number.
        (Rounding.of("bf16", overflow="saturate"), NAN, NAN),
        (Rounding.of("e8m0", overflow="saturate"), NAN, NAN),
        (Rounding.of("int8"), NAN, Fraction(0)),
        (Rounding.of("uint8"), NAN, Fraction(0)),
        (Rounding.of("e3m2"), NAN, Fraction(28)),
        (Rounding.of("e2m3"), NAN, Fraction(15, 2)),
        (Rounding.of("e2m1"), NAN, Fraction(6)),
        # The sign of zero.
        (Rounding.of("bf16"), -0.0, -0.0),
        (Rounding.of("bf16"), Fraction(0), Fraction(0)),
        (Rounding.of("e2m1"), Fraction(-1, 5), -0.0),
        (Rounding.of("e2m1", "rup"), Fraction(-1, 5), -0.0),
        (Rounding.of("e4m3fnuz"), -0.0, Fraction(0)),
        (Rounding.of("e4m3fnuz"), Fraction(-1, 10**9), Fraction(0)),
        (Rounding.of("int8"), Fraction(-1, 2), Fraction(0)),
        (Rounding.of("f32", subnormals="flush"), Fraction(-1, 2**127), -0.0),
        (Rounding.of("f32", "rup", subnormals="flush"), Fraction(1, 2**140), Fraction(0)),
        # e8m0 has neither zero nor sign, and nothing below 2^-127.
        (Rounding.of("e8m0"), Fraction(0), NAN),
        (Rounding.of("e8m0"), -0.0, NAN),
        (Rounding.of("e8m0"), Fraction(-1), NAN),
        (Rounding.of("e8m0"), INF, NAN),
        (Rounding.of("e8m0", overflow="saturate"), Fraction(0), Fraction(1, 2**127)),
        (Rounding.of("e8m0", overflow="saturate"), Fraction(-1), Fraction(1, 2**127)),
        (Rounding.of("e8m0", overflow="saturate"), -INF, Fraction(1, 2**127)),
        (Rounding.of("e8m0", overflow="saturate"), INF, Fraction(2**127)),
        (Rounding.of("e8m0", "rtz"), Fraction(1, 2**400), Fraction(1, 2**127)),
        (Rounding.of("e8m0"), Fraction(3, 2), Fraction(2)),
        (Rounding.of("e8m0"), Fraction(3), Fraction(4)),
        # Far beyond the range.
        (Rounding.of("bf16", "rtz"), Fraction(10**400), Fraction(255 * 2**120)),
        (Rounding.of("bf16", "rdn"), Fraction(-(10**400)), -INF),
        (Rounding.of("int32"), Fraction(10**400), Fraction(2**31 - 1)),
        (Rounding.of("int64"), Fraction(2**63), Fraction(2**63 - 1)),
    ],
)
def test_the_ends_of_the_range(rounding: Rounding, x: Fraction, result: Fraction) -> None:
    got = round_exact(x, rounding)
    assert identical(got, result), f"{rounding}: {x} gives {got!r}"
    carried = rounding.format.short != "int64" and (isinstance(x, float) or abs(x) < 10**308)
    if carried:
        array = round_array(np.array([float(x)]), rounding)
        assert identical(as_exact(float(array[0])), result), f"{rounding}: {x} gives {array!r}"


@pytest.mark.parametrize(
    ("short", "x", "result"),
    [
        # Through binary32 this would be a tie, and give 1.
        ("bf16", 1 + Fraction(1, 2**8) + Fraction(1, 2**40), 1 + Fraction(1, 2**7)),
        ("e4m3fn", Fraction(464), Fraction(448)),  # a tie between 448 and the code of NaN
        ("e4m3fn", 464 + Fraction(1, 2**99), NAN),
        ("e5m2", Fraction(61440), INF),
        ("e5m2", 61440 - Fraction(1, 2**99), Fraction(57344)),
        ("e4m3fnuz", Fraction(248), NAN),
        ("int8", Fraction(-257, 2), Fraction(-128)),
        ("int8", Fraction(5, 2), Fraction(2)),
    ],
)
def test_a_value_is_rounded_once(short: str, x: Fraction, result: Fraction) -> None:
    assert identical(round_exact(x, Rounding.of(short)), result)


def test_rounding_to_binary64_agrees_with_the_division_of_integers() -> None:
    rng = random.Random(0)
    for _ in range(2000):
        exponent = rng.choice([-1100, -1074, -1060, -1022, -1000, 0, 60, 900])
        x = Fraction(rng.getrandbits(80), rng.getrandbits(20) + 1) * Fraction(2) ** exponent
        assert identical(round_exact(x, Rounding.of("f64")), as_exact(x.numerator / x.denominator))


@dataclass(frozen=True)
class Root:
    """A square root, known through enclosures; `calls` records the bits that were asked for."""

    square: Fraction
    calls: list[int]

    def enclose(self, bits: int) -> tuple[Fraction, Fraction]:
        """Return the multiples of 2^-bits around the root."""
        self.calls.append(bits)
        n = math.isqrt(int(self.square * 4**bits))
        return Fraction(n, 2**bits), Fraction(n + 1, 2**bits)


def test_an_enclosed_real_is_refined_until_it_is_decided() -> None:
    easy = Root(Fraction(2), [])
    assert round_exact(easy, Rounding.of("f64")) == Fraction(math.sqrt(2))
    assert easy.calls == [64]
    # Above a midpoint of bfloat16 by about 2^-201.
    middle = 1 + Fraction(1, 2**8)
    hard = Root(middle**2 + Fraction(1, 2**200), [])
    assert round_exact(hard, Rounding.of("bf16")) == 1 + Fraction(1, 2**7)
    assert hard.calls == [64, 128, 256]


def test_an_enclosed_real_on_a_boundary_stays_undecided() -> None:
    middle = Root((1 + Fraction(1, 2**8)) ** 2, [])
    assert round_exact(middle, Rounding.of("bf16", "rtz")) == 1
    with pytest.raises(Undecided) as caught:
        round_exact(Root(Fraction(1), []), Rounding.of("bf16", "rto"))
    assert str(caught.value) == (
        "an enclosure of 4096 bits does not decide a rounding to bf16 rto; the value lies on a "
        "boundary, or nearer to one than that."
    )


def test_an_enclosed_real_draws_as_its_binary64_value_toward_zero() -> None:
    below = round_exact(Root(Fraction(2), []), Rounding.of("f64", "rtz"))
    draws = set()
    for seed in range(64):
        rounding = Rounding.of("e4m3fn", "sr", seed=seed)
        got = round_exact(Root(Fraction(2), []), rounding)
        assert got == round_exact(below, rounding)
        draws.add(got)
    assert draws == {Fraction(11, 8), Fraction(12, 8)}


def test_stochastic_rounding_goes_up_as_often_as_the_fraction_says() -> None:
    # 2^16 values, each 3/16 of the way from 1 + 2k/2^7 to its upper neighbour in f32, or nearly.
    x = 1 + (np.arange(2**16) + 3 / 16) * 2.0**-23
    for seed in (0, 1, 2**64 - 1):
        up = round_array(x, Rounding.of("f32", "sr", seed=seed)) > x
        # 12288 expected, standard deviation 100; the draws are fixed, so this cannot flake.
        assert abs(int(up.sum()) - 12288) < 300
        assert abs(int((up[1:] & up[:-1]).sum()) - 2304) < 150  # neighbours draw independently


# The seeds come from running the mixing function backwards.
@pytest.mark.parametrize(("seed", "result"), [(0xC9D31B38DBD6AF9D, 0), (0xAB90A5911EB68D9D, 1)])
def test_stochastic_rounding_goes_up_where_the_fraction_exceeds_the_draw(
    seed: int, result: int
) -> None:
    # For 0.5 the first seed draws 1/2 itself, the second 1/2 - 2^-53.
    rounding = Rounding.of("int8", "sr", seed=seed)
    assert round_exact(Fraction(1, 2), rounding) == result
    assert round_array(np.array([0.5]), rounding).tolist() == [result]


def test_stochastic_rounding_keeps_values_and_depends_on_the_seed_alone() -> None:
    x = np.full(1000, 1.3)
    for seed in range(8):
        assert np.unique(round_array(x, Rounding.of("bf16", "sr", seed=seed))).size == 1
    first, second = (
        round_array(np.linspace(1, 2, 1001), Rounding.of("e5m2", "sr", seed=seed))
        for seed in (1, 2)
    )
    assert (first != second).any()
    kept = Rounding.of("bf16", "sr", seed=5)
    assert round_exact(Fraction(3, 2), kept) == Fraction(3, 2)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"fmt": "e4m3fn", "overflow": "inf"},
         "float8_e4m3fn holds no inf; its overflow may be `nan` or `saturate`."),
        ({"fmt": "int8", "overflow": "nan"},
         "int8 holds no nan; its overflow may be `saturate`."),
        ({"fmt": "bf16", "mode": "rne "}, "unknown mode 'rne '. Did you mean 'rne'?"),
        ({"fmt": "bf16", "overflow": "wrap"},
         "unknown overflow 'wrap'. Allowed: inf, nan, saturate."),
        ({"fmt": "bf16", "subnormals": "drop"},
         "unknown subnormals 'drop'. Allowed: flush, keep."),
    ],
)  # fmt: skip
def test_a_rounding_that_cannot_be_is_refused(words: dict[str, str], text: str) -> None:
    with pytest.raises(RoundingError) as caught:
        Rounding.of(**words)
    assert str(caught.value) == text


def test_a_rounding_prints_what_differs_from_the_default() -> None:
    assert str(Rounding.of("bf16")) == "bf16"
    assert str(Rounding.of("e4m3fn", "rtz", "saturate", "flush")) == "e4m3fn rtz saturate flush"
    assert str(Rounding.of("e4m3fn", "sr", seed=7)) == "e4m3fn sr(7)"
    assert Rounding.of("int8").overflow == "saturate"
    assert Rounding.of("e8m0").overflow == "nan"
    assert Rounding.of("bf16") == Rounding(FORMATS["bf16"])
