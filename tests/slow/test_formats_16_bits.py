"""Every code of the 16-bit formats decodes as numpy and ml_dtypes decode it, and encodes back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lastbit.formats import FORMATS, as_exact, decode, encode, identical

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("short", "kind"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_every_code_has_the_value_it_has_in_numpy_and_encodes_back(short: str, kind: Any) -> None:
    fmt = FORMATS[short]
    with np.errstate(invalid="ignore"):  # signalling NaN
        expected = np.arange(2**16, dtype=np.uint16).view(kind).astype(np.float64)
    for code, value in enumerate(expected.tolist()):
        decoded = decode(code, fmt)
        assert identical(decoded, as_exact(value)), hex(code)
        assert value != value or encode(decoded, fmt) == code
