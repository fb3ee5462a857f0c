"""Numbers of a file are read exactly, and a rounding of a named real shows that real."""

from __future__ import annotations

import struct
from fractions import Fraction

import pytest

onnx = pytest.importorskip("onnx")

from lastbit.importers.onnx.constants import cast, literal, numbers  # noqa: E402

TENSOR = onnx.TensorProto


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.5, "0.5"),  # short: meant as it stands
        (-0.125, "(-0.125)"),
        (struct.unpack("<f", struct.pack("<f", 2**0.5))[0], "round(sqrt(2), f32)"),
        (0.7978515625, "round(sqrt(2 / pi), f16)"),  # bfloat16 does not hold it
        (struct.unpack("<f", struct.pack("<f", 80**-0.5))[0], "round(rsqrt(80), f32)"),
        (-3.140625, "(-round(pi, bf16))"),  # pi in binary16 too: the narrower format names it
    ],
)
def test_a_rounded_real_is_recognised_in_its_narrowest_format(number: float, text: str) -> None:
    assert literal(Fraction(number)) == text


def test_numbers_are_read_from_both_kinds_of_fields() -> None:
    raw = TENSOR(dims=[2], data_type=TENSOR.BFLOAT16, raw_data=b"\x81\x3f\x00\xc0")
    assert numbers(raw, "bf16") == (Fraction(129, 128), Fraction(-2))
    listed = TENSOR(dims=[2], data_type=TENSOR.FLOAT16, int32_data=[0x3C01, 0xFC00])
    assert numbers(listed, "f16") == (1 + Fraction(1, 1024), float("-inf"))
    wide = TENSOR(dims=[1], data_type=TENSOR.INT64, int64_data=[2**62 + 1])
    assert numbers(wide, "i64") == (Fraction(2**62 + 1),)


def test_numbers_that_do_not_fit_the_shape_are_an_error() -> None:
    short = TENSOR(dims=[3], data_type=TENSOR.FLOAT, raw_data=b"\x00" * 8)
    with pytest.raises(ValueError, match="holds 2 numbers for 3 elements"):
        numbers(short, "f32")
    odd = TENSOR(dims=[1], data_type=TENSOR.FLOAT, raw_data=b"\x00" * 3)
    with pytest.raises(ValueError, match="holds 3 bytes, which are no f32 numbers"):
        numbers(odd, "f32")


def test_what_is_not_in_the_file_is_not_known() -> None:
    assert numbers(TENSOR(dims=[2], data_type=TENSOR.FLOAT), "f32") is None
    assert numbers(TENSOR(dims=[2000], data_type=TENSOR.FLOAT, raw_data=b"\x00" * 8000), "f32") is (
        None
    )


def test_casts_round_floats_and_cut_off_integers() -> None:
    assert cast(Fraction(1) + Fraction(1, 2**12), "f16") == 1
    assert cast(Fraction(-7, 2), "i64") == -3
    assert cast(Fraction(1, 2), "bool") == 1
