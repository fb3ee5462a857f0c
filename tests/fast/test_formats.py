"""Every code of every format decodes as numpy and ml_dtypes decode it, and encodes back.

The codes of the 16-bit formats are in steps of 37 here; the slow tests take all of them.
"""

import math
import subprocess
import sys
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from lastbit.formats import (
    FORMATS,
    CodeError,
    NotRepresentableError,
    UnknownFormatError,
    as_exact,
    bits_text,
    decode,
    encode,
    floor_log2,
    format_of,
    identical,
)

# The independent decoders: a numpy type, and the type of its codes.
TYPES = {
    "f64": (np.float64, np.uint64),
    "f32": (np.float32, np.uint32),
    "f16": (np.float16, np.uint16),
    "bf16": (ml_dtypes.bfloat16, np.uint16),
    "e5m2": (ml_dtypes.float8_e5m2, np.uint8),
    "e4m3fn": (ml_dtypes.float8_e4m3fn, np.uint8),
    "e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, np.uint8),
    "e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, np.uint8),
    "e3m2": (ml_dtypes.float6_e3m2fn, np.uint8),
    "e2m3": (ml_dtypes.float6_e2m3fn, np.uint8),
    "e2m1": (ml_dtypes.float4_e2m1fn, np.uint8),
    "e8m0": (ml_dtypes.float8_e8m0fnu, np.uint8),
    "int8": (np.int8, np.uint8),
    "uint8": (np.uint8, np.uint8),
    "int4": (ml_dtypes.int4, np.uint8),
    "int32": (np.int32, np.uint32),
    "int64": (np.int64, np.uint64),
}
NARROW = [short for short in TYPES if FORMATS[short].bits <= 16]
FLOATS = [short for short in TYPES if "int" not in short]
INTEGERS = [short for short in TYPES if "int" in short and short != "int4"]


@pytest.mark.parametrize("short", NARROW)
def test_every_code_has_the_value_it_has_in_numpy_and_encodes_back(short: str) -> None:
    fmt = FORMATS[short]
    kind, code_kind = TYPES[short]
    # 37 is odd: every low bit takes part.
    codes = np.arange(0, 2**fmt.bits, 37 if fmt.bits == 16 else 1, dtype=code_kind)
    with np.errstate(invalid="ignore"):  # signalling NaN
        expected = codes.view(kind).astype(np.float64)
    for code, value in zip(codes.tolist(), expected.tolist(), strict=True):
        decoded = decode(code, fmt)
        assert identical(decoded, as_exact(value)), hex(code)
        assert value != value or encode(decoded, fmt) == code


@pytest.mark.parametrize(
    ("short", "text"),
    [
        ("f64", "0x7ff8000000000000"),
        ("f32", "0x7fc00000"),
        ("tf32", "0x7fc00000"),
        ("f16", "0x7e00"),
        ("bf16", "0x7fc0"),
        ("e5m2", "0x7e"),
        ("e4m3fn", "0x7f"),
        ("e4m3fnuz", "0x80"),
        ("e5m2fnuz", "0x80"),
        ("e8m0", "0xff"),
    ],
)
def test_nan_has_one_quiet_code(short: str, text: str) -> None:
    assert bits_text(math.nan, FORMATS[short]) == text
    assert math.isnan(decode(int(text, 16), FORMATS[short]))


@pytest.mark.parametrize("short", FLOATS)
def test_the_derived_facts_of_a_float_are_those_of_finfo(short: str) -> None:
    fmt = FORMATS[short]
    info = ml_dtypes.finfo(TYPES[short][0])
    assert fmt.max_finite == Fraction(float(info.max))
    assert fmt.min_finite == Fraction(float(info.min))
    assert fmt.min_normal == Fraction(float(info.smallest_normal))
    assert fmt.min_subnormal == Fraction(float(info.smallest_subnormal))
    assert fmt.bits == info.bits
    assert fmt.unit_roundoff == Fraction(float(info.eps)) / 2


@pytest.mark.parametrize("short", INTEGERS)
def test_the_derived_facts_of_an_integer_are_those_of_iinfo(short: str) -> None:
    fmt = FORMATS[short]
    info = np.iinfo(TYPES[short][0])
    assert (fmt.min_finite, fmt.max_finite) == (int(info.min), int(info.max))
    assert (fmt.min_subnormal, fmt.min_normal, fmt.bits) == (1, 1, info.bits)


def test_a_tf32_code_is_a_binary32_word_with_thirteen_zero_bits() -> None:
    fmt = FORMATS["tf32"]
    for word in range(0, 2**32, 2**13 * 37):  # 37 is odd: every low bit of the 19 takes part
        value = float(np.uint32(word).view(np.float32))
        if value == value:
            assert bits_text(as_exact(value), fmt) == f"0x{word:08x}"
            assert identical(decode(word, fmt), as_exact(value))


@pytest.mark.parametrize("word", [0x00000001, 0x3F801000, 0x7F800001])
def test_a_tf32_code_with_other_bits_is_refused(word: int) -> None:
    with pytest.raises(CodeError, match="its codes have 32 bits with the low 13 bits zero"):
        decode(word, FORMATS["tf32"])


@pytest.mark.parametrize(
    ("value", "short", "text"),
    [
        (Fraction(195, 256), "bf16", "0x3f43"),
        (Fraction(0), "bf16", "0x0000"),
        (-0.0, "f32", "0x80000000"),
        (-math.inf, "e5m2", "0xfc"),
        (Fraction(28), "e3m2", "0x1f"),
        (Fraction(-6), "e2m1", "0xf"),
        (Fraction(-8), "int4", "0x8"),
        (Fraction(-1), "int32", "0xffffffff"),
        (Fraction(1), "e8m0", "0x7f"),
    ],
)
def test_the_bits_are_as_wide_as_the_container(value: Fraction, short: str, text: str) -> None:
    assert bits_text(value, FORMATS[short]) == text


@pytest.mark.parametrize(
    ("value", "short"),
    [
        (Fraction(1, 3), "f64"),  # not dyadic
        (Fraction(257), "bf16"),  # nine digits
        (Fraction(464), "e4m3fn"),  # beyond 448
        (Fraction(1, 2**150), "f32"),  # half the smallest
        (Fraction(0), "e8m0"),
        (Fraction(-1), "uint8"),
        (Fraction(128), "int8"),
        (-0.0, "int8"),
        (-0.0, "e4m3fnuz"),
        (math.inf, "e4m3fn"),
        (math.nan, "e2m1"),
    ],
)
def test_a_value_that_the_format_does_not_hold_is_refused(value: Fraction, short: str) -> None:
    with pytest.raises(NotRepresentableError) as caught:
        encode(value, FORMATS[short])
    assert str(caught.value) == f"{value} is no value of {FORMATS[short].name}; round it first."


def test_a_code_that_is_too_wide_is_refused() -> None:
    with pytest.raises(CodeError) as caught:
        decode(64, FORMATS["e3m2"])
    assert str(caught.value) == "0x40 is no code of float6_e3m2fn; its codes have 6 bits."


def test_formats_are_found_by_either_name() -> None:
    for fmt in FORMATS.values():
        assert format_of(fmt.name) is format_of(fmt.short) is fmt
    assert len(FORMATS) == 18


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(UnknownFormatError) as caught:
        format_of("e4m3")
    assert str(caught.value) == "unknown format 'e4m3'. Did you mean 'e4m3fn'?"


def test_grids_are_integers_and_formats_of_eight_bits() -> None:
    floats = {"f64", "f32", "tf32", "f16", "bf16"}
    assert {short for short, fmt in FORMATS.items() if not fmt.is_grid} == floats


def test_signed_zeros_and_nan_have_an_identity() -> None:
    assert identical(math.nan, -math.nan)
    assert not identical(Fraction(0), -0.0)
    assert identical(0.0, Fraction(0))
    assert identical(as_exact(0.1), Fraction(0.1))
    assert as_exact(7) == Fraction(7)


@pytest.mark.parametrize("exponent", [-1075, -3, 0, 1, 53, 1024])
def test_floor_log2_is_right_on_both_sides_of_a_power_of_two(exponent: int) -> None:
    power = Fraction(2) ** exponent
    assert floor_log2(power) == exponent
    assert floor_log2(power * (1 - Fraction(1, 10**30))) == exponent - 1
    assert floor_log2(power * (1 + Fraction(1, 10**30))) == exponent


def test_the_exact_core_imports_no_numpy() -> None:
    code = (
        "import sys, lastbit.formats, lastbit.rounding, lastbit.ulps; print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
