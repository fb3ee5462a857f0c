"""Exact and array rounding agree at every value and midpoint of the 16-bit formats, in every mode.

The fast tests compare array rounding with an independent enumeration at the same points.
"""

import numpy as np
import pytest

from lastbit.formats import FORMATS, as_exact
from lastbit.round_array import decode_array, round_array
from lastbit.rounding import Mode, Rounding, round_exact


@pytest.mark.slow
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("short", ["f16", "bf16"])
def test_exact_rounding_agrees_with_array_rounding(short: str, mode: Mode) -> None:
    fmt = FORMATS[short]
    values = decode_array(np.arange(2**16, dtype=np.uint16), fmt)
    values = np.unique(values[np.isfinite(values)])
    step = values[-1] - values[-2]
    values = np.concatenate([[values[0] - step], values, [values[-1] + step]])
    points = np.concatenate([values, (values[:-1] + values[1:]) / 2])
    points = np.concatenate([points, np.nextafter(points, np.inf), np.nextafter(points, -np.inf)])
    if mode is Mode.STOCHASTIC:
        points = points[::3]  # each draw hashes its point, and takes as long as ten roundings
    rounding = Rounding.of(fmt, mode)
    want = np.array([float(round_exact(as_exact(point), rounding)) for point in points.tolist()])
    got = round_array(points, rounding)
    same = (got.view(np.uint64) == want.view(np.uint64)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), (str(rounding), points[~same][0].hex())
