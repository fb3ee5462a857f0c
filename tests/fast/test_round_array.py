"""Array rounding and encoding equal the exact core, and other libraries where these are right."""

import math

import ml_dtypes
import numpy as np
import pytest

from lastbit.formats import (
    FORMATS,
    CodeError,
    NotRepresentableError,
    as_exact,
    decode,
    encode,
    identical,
)
from lastbit.round_array import CarrierError, code_type, decode_array, encode_array, round_array
from lastbit.rounding import Mode, Rounding, round_exact

CARRIED = [short for short in FORMATS if short != "int64"]
NARROW = [short for short in CARRIED if FORMATS[short].bits <= 16]
# Formats whose conversion from float32 is right in ml_dtypes and numpy.
FROM_FLOAT32 = {
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
}
SEED = 20240607


def same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a.view(np.uint64) == b.view(np.uint64)) | (np.isnan(a) & np.isnan(b))


def hard_doubles(short: str, count: int) -> np.ndarray:
    """Return specials, random words, and words that lie near the range of the format."""
    fmt = FORMATS[short]
    rng = np.random.default_rng(SEED)
    ends = [float(e) for e in (fmt.max_finite, fmt.min_normal, fmt.min_subnormal)]
    special = np.array([0.0, math.inf, math.nan, 5e-324, 2.0**-1022, 1.7976931348623157e308, *ends])
    with np.errstate(over="ignore"):
        beyond = special[6:] * 1.5
    special = np.concatenate([special, special * 0.5, np.nextafter(special, 0), beyond])
    words = rng.integers(0, 2**63, count, np.uint64).view(np.float64)
    exponents = rng.integers(
        max(fmt.emin - fmt.precision - 2, -1074), min(fmt.emax + 3, 1024), count
    )
    near = np.ldexp(1 + rng.random(count), exponents)
    # Few digits below the last place: ties, and values next to them.
    digits = min(fmt.precision + 2, 53)
    tied = np.ldexp(rng.integers(1, 2**digits, count), exponents - digits)
    points = np.concatenate([special, words, near, tied, np.nextafter(tied, 0)])
    return np.concatenate([points, -points])


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("short", CARRIED)
def test_every_element_equals_the_exact_core(short: str, mode: Mode) -> None:
    x = hard_doubles(short, 40)
    fmt = FORMATS[short]
    exact = [as_exact(value) for value in x.tolist()]
    overflows = ["inf"] * fmt.has_inf + ["nan"] * fmt.has_nan + ["saturate"]
    for overflow in overflows:
        for subnormals in ("keep", "flush"):
            rounding = Rounding.of(fmt, mode, overflow, subnormals, seed=3)
            want = np.array([float(round_exact(value, rounding)) for value in exact])
            same = same_bits(round_array(x, rounding), want)
            assert same.all(), (str(rounding), x[~same][0].hex())


@pytest.mark.parametrize("short", FROM_FLOAT32)
def test_nearest_even_agrees_with_ml_dtypes_from_float32(short: str) -> None:
    kind = FROM_FLOAT32[short]
    rng = np.random.default_rng(SEED)
    words = rng.integers(0, 2**32, 2**18, np.uint64).astype(np.uint32)
    words = np.concatenate([words, words & np.uint32(0xFFFF8000), words & np.uint32(0xFFF80000)])
    x = words.view(np.float32)
    if not FORMATS[short].has_nan:
        x = x[~np.isnan(x)]  # ml_dtypes makes NaN a -0 there; the PTX rule is the largest number
    if short == "e8m0":
        # ml_dtypes 0.6 rounds all of (2^-127, 2^-126), subnormal in binary32, up; on a tie 0.5
        # goes to the even code, and 0.6 up.
        x = x[(x <= 2.0**-127) | (x >= 2.0**-126)]
        x = x[np.frexp(x)[0] != 0.75]
    with np.errstate(over="ignore", invalid="ignore"):
        want = x.astype(kind).astype(np.float64)
        x64 = x.astype(np.float64)
    same = same_bits(round_array(x, Rounding.of(short)), want)
    assert same.all(), x[~same][0]
    assert same_bits(round_array(x64, Rounding.of(short)), want).all()


@pytest.mark.parametrize(("short", "kind"), [("f32", np.float32), ("f16", np.float16)])
def test_nearest_even_agrees_with_numpy_from_float64(short: str, kind: type) -> None:
    x = hard_doubles(short, 50_000)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        want = x.astype(kind).astype(np.float64)
    assert same_bits(round_array(x, Rounding.of(short)), want).all()
    # The general path, not the cast: a saturating rounding differs at the ends only.
    inside = np.isfinite(want) | np.isnan(want)
    general = round_array(x, Rounding.of(short, overflow="saturate"))
    assert same_bits(general, want)[inside].all()


def test_shapes_strides_and_chunks_change_nothing() -> None:
    rng = np.random.default_rng(SEED)
    x = rng.standard_normal((3, 5, 4001))  # longer than one chunk, and no multiple of it
    rounding = Rounding.of("e4m3fn", "sr", "saturate")
    whole = round_array(x, rounding)
    assert whole.shape == x.shape
    for i in range(3):
        assert same_bits(round_array(x[i, :, ::7], rounding), whole[i, :, ::7]).all()
    assert same_bits(round_array(x.T, rounding), whole.T).all()
    assert round_array(np.array(1.3), rounding).shape == ()
    assert round_array(np.zeros((0, 4)), rounding).shape == (0, 4)


def test_the_input_is_left_alone() -> None:
    x = np.array([1.3, -0.1, math.inf, math.nan])
    before = x.tobytes()
    for short in CARRIED:
        result = round_array(x, Rounding.of(short))
        assert x.tobytes() == before
        assert not np.shares_memory(x, result)


@pytest.mark.parametrize("short", NARROW)
def test_every_code_decodes_and_encodes_as_in_the_exact_core(short: str) -> None:
    fmt = FORMATS[short]
    codes = np.arange(2**fmt.bits, dtype=code_type(fmt))
    values = decode_array(codes, fmt)
    for code in range(0, codes.size, 1 if fmt.bits <= 8 else 37):
        assert identical(as_exact(float(values[code])), decode(code, fmt))
    nan = np.isnan(values)
    back = encode_array(values, fmt)
    assert back.dtype == codes.dtype
    assert (back == codes)[~nan].all()
    assert not nan.any() or (back[nan] == encode(math.nan, fmt)).all()


@pytest.mark.parametrize("short", ["f64", "f32", "tf32", "int32"])
def test_wide_codes_are_those_of_the_exact_core(short: str) -> None:
    fmt = FORMATS[short]
    values = round_array(hard_doubles(short, 200), Rounding.of(short))
    codes = encode_array(values, fmt)
    assert codes.tolist() == [encode(as_exact(value), fmt) for value in values.tolist()]
    assert same_bits(decode_array(codes, fmt), values).all()


@pytest.mark.parametrize("short", CARRIED)
def test_values_that_the_format_does_not_hold_get_no_code(short: str) -> None:
    fmt = FORMATS[short]
    x = hard_doubles(short, 40)
    for value in x.tolist():
        try:
            want = encode(as_exact(value), fmt)
        except NotRepresentableError:
            with pytest.raises(NotRepresentableError):
                encode_array(np.array([value]), fmt)
        else:
            assert encode_array(np.array([value]), fmt).tolist() == [want]


def test_the_first_value_without_a_code_is_named() -> None:
    with pytest.raises(NotRepresentableError) as caught:
        encode_array(np.array([1.0, 257.0, 259.0]), FORMATS["bf16"])
    assert str(caught.value) == "257 is no value of bfloat16; round it first."


def test_the_first_wrong_code_is_named() -> None:
    with pytest.raises(CodeError) as caught:
        decode_array(np.array([1, 99, 255], np.uint8), FORMATS["e3m2"])
    assert str(caught.value) == "0x63 is no code of float6_e3m2fn; its codes have 6 bits."
    with pytest.raises(CodeError):
        decode_array(np.array([0x3F801000], np.uint32), FORMATS["tf32"])


def test_what_float64_does_not_carry_is_refused() -> None:
    with pytest.raises(CarrierError) as caught:
        round_array(np.zeros(3), Rounding.of("int64"))
    assert str(caught.value) == "float64 arrays do not carry int64. Use the exact core for it."
    with pytest.raises(CarrierError) as caught:
        round_array(np.zeros(3, np.int64), Rounding.of("bf16"))
    assert str(caught.value) == (
        "float64 arrays do not carry elements of type int64. "
        "Decode it, or convert it to float64 where that is exact."
    )
    with pytest.raises(CarrierError):
        round_array(np.zeros(3, ml_dtypes.bfloat16), Rounding.of("f32"))
