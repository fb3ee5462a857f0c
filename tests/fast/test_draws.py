"""Drawn operands are what their names say; ml_dtypes reads the codes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from lastbit.formats import format_of
from lastbit.predicting import draw_codes

TYPES = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "e4m3fn": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
}


def drawn(short: str, draw: str) -> np.ndarray:
    codes = draw_codes((64, 64), format_of(short), draw, np.random.default_rng(4))
    with np.errstate(invalid="ignore"):  # signalling NaN
        return codes.view(TYPES[short]).astype(np.float64)


@pytest.mark.parametrize("short", TYPES)
def test_finite_bits_are_all_signs_and_sizes_below_2(short: str) -> None:
    values = drawn(short, "finite")
    size = np.abs(values)
    top = 1.0 if short.endswith("fnuz") else 2.0  # the bias of these formats is one more
    assert np.isfinite(values).all()
    assert top / 2 < size.max() < top
    least_normal = float(format_of(short).min_normal)
    if format_of(short).bits <= 16:  # of binary32, one number in 128 would be subnormal
        assert ((size > 0) & (size < least_normal)).any()
    assert 0.4 < (values < 0).mean() < 0.6


@pytest.mark.parametrize("short", TYPES)
def test_bits_have_nan_and_the_others_none(short: str) -> None:
    assert np.isnan(drawn(short, "bits")).any()
    for draw in ("normal", "wide"):
        assert np.isfinite(drawn(short, draw)).all()
