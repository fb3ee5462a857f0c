"""Operands on a device of torch are those of numpy, for every format and kind of numbers."""

from __future__ import annotations

import numpy as np
import pytest
from matmuls import KINDS, operands

pytest.importorskip("torch")

from lastbit.engine.device_block import DeviceBlock
from lastbit.engine.operands import Block
from lastbit.formats import FORMATS, Format
from lastbit.machines import UNITS

FLOATS = sorted({name for unit in UNITS for name in unit.inputs if name in FORMATS} - {"f64"})


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two arrays have the same bits; of NaN there is one."""
    nan = np.isnan(a)
    assert a.dtype == b.dtype
    return bool((nan == np.isnan(b)).all()) and a[~nan].tobytes() == b[~nan].tobytes()


@pytest.mark.parametrize("fmt", [FORMATS[name] for name in FLOATS], ids=lambda fmt: fmt.short)
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_on_a_device_are_those_of_numpy(fmt: Format, kind: str) -> None:
    codes = operands(np.random.default_rng(6), fmt, (9, 41), kind)
    with np.errstate(invalid="ignore"):  # signalling NaN
        mine = DeviceBlock.of(codes, fmt, "cpu", transposed=True)
        want = Block(np.ascontiguousarray(codes.T), fmt, 0)
        assert same(mine.singles.numpy(), want.singles)
        assert same(mine.values.numpy(), want.values)
        assert mine.fields.tolist() == want.fields.tolist()
        assert mine.exponents.tolist() == want.exponents.tolist()
        assert (mine.extent, mine.is_narrow) == (want.extent, want.is_narrow)
        if want.is_narrow:
            assert same(mine.scaled.numpy(), want.scaled)


def test_zeros_and_nothing_have_a_range() -> None:
    for shape in ((2, 3), (0, 3), (3, 0)):
        codes = np.zeros(shape, np.uint16)
        mine = DeviceBlock.of(codes, FORMATS["bf16"], "cpu", transposed=False)
        assert mine.extent == Block(codes, FORMATS["bf16"], 1).extent
        assert mine.scaled.shape == shape
