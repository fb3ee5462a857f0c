"""The kernel for NVIDIA GPUs, compiled for the host, gives the bits of numpy's engine.

So the arithmetic of the kernel is tested where there is no GPU; tests/gpu runs it on one.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from matmuls import KINDS, operands, with_cancelling_sums
from small_sums import SMALL_SUMS, drawn

import lastbit
from lastbit.engine.cuda_chain import SOURCE, Tile, definitions, is_narrow, least_exponents
from lastbit.engine.narrow import fits, unscaled
from lastbit.engine.operands import Block
from lastbit.formats import format_of
from lastbit.machines import machine_of, unit_of
from lastbit.predicting import MatmulSpec

pytestmark = [pytest.mark.slow]
if shutil.which("g++") is None:
    pytest.skip("needs g++", allow_module_level=True)

HOST = Path(__file__).parents[1] / "cuda_on_a_host.cpp"
TILES = {True: Tile(2, 4, 8, 4, 1), False: Tile(4, 2, 4, 2, 1)}
CASES = (
    ("hopper/16", "bf16", "near", True), ("hopper/16", "f16", "apart", True),
    ("hopper/16", "bf16", "far apart", False), ("hopper/16", "bf16", "subnormal", False),
    ("hopper/16", "bf16", "bits", False), ("hopper/32", "e5m2", "apart", True),
    ("hopper/32", "e4m3fn", "subnormal", True), ("hopper/32", "e4m3fn", "bits", False),
    ("hopper/8", "tf32", "near", True), ("volta/4", "f16", "subnormal", True),
    ("blackwell/32", "e4m3fn", "near", False), ("blackwell/32", "e2m1", "bits", False),
)  # fmt: skip


class Kernels:
    """The kernel for units and forms, compiled once for each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(
        self, a: np.ndarray, b: np.ndarray, unit_name: str, short: str
    ) -> tuple[np.ndarray, bool]:
        """Return the codes of the product, and whether the narrow form was used."""
        unit, fmt = unit_of(unit_name), format_of(short)
        k = a.shape[1] - a.shape[1] % unit.width
        a, b = a[:, :k], b[:k]
        blocks = (
            Block(np.ascontiguousarray(a.T), fmt, 0), Block(np.ascontiguousarray(b), fmt, 1)
        )  # fmt: skip
        schedule = f"fused({unit.width}, {unit})"
        chain = next(MatmulSpec(unit.machine, short, short, schedule).tape(1, k, 1).chains())
        narrow = is_narrow(unit) and fits(chain, *blocks)
        x, y = (block.scaled if narrow else block.singles for block in blocks)
        out = np.full((a.shape[0], b.shape[1]), np.nan, np.float32)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, y, out)]
        sizes = (*out.shape, k, *least_exponents(blocks, narrow))
        self._kernel(unit_name, narrow).run(*pointers, *sizes)
        with np.errstate(invalid="ignore"):
            values = unscaled(out, *blocks) if narrow else out
        want = lastbit.predict_matmul(a, b, unit.machine, short, schedule)
        codes = np.where(np.isnan(values), np.uint32(0x7FFFFFFF), values.view(np.uint32))
        assert codes.tolist() == want.tolist()
        return codes, narrow

    def _kernel(self, unit_name: str, narrow: bool) -> ctypes.CDLL:
        path = self.folder / f"{unit_name.replace('/', '_')}_{int(narrow)}.so"
        if not path.exists():
            constants = definitions(unit_of(unit_name), narrow, TILES[narrow])
            command = (
                "g++", "-std=c++20", "-O1", "-fwrapv", "-ffp-contract=off", "-shared", "-fPIC",
                "-pthread", "-w", *constants, f"-I{SOURCE.parent}", str(HOST), "-o", str(path),
            )  # fmt: skip
            subprocess.run(command, check=True)
        return ctypes.CDLL(str(path))


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return Kernels(tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize(("unit", "short", "kind", "narrow"), CASES)
def test_the_kernel_on_a_host(
    kernels: Kernels, unit: str, short: str, kind: str, narrow: bool
) -> None:
    rng = np.random.default_rng([5, KINDS.index(kind)])
    fmt = format_of(short)
    a, b = operands(rng, fmt, (35, 96), kind), operands(rng, fmt, (96, 37), kind)
    for x, y in ((a, b), with_cancelling_sums(rng, a, b, fmt)):
        assert kernels.run(x, y, unit, short)[1] == narrow


@pytest.mark.parametrize(("short", "left", "right"), SMALL_SUMS)
def test_small_sums(kernels: Kernels, short: str, left: str, right: str) -> None:
    a, b = drawn(short, (left, right), (35, 96, 37))
    codes, _ = kernels.run(a, b, machine_of("hopper").unit(short).name, short)
    assert len(np.unique(codes)) > 500


@pytest.mark.parametrize("sign", [0, 0x8000])
def test_sums_beyond_31_bits(kernels: Kernels, sign: int) -> None:
    # As in tests/fast/test_engine.py: an accumulator of 1.9921875, and 16 squares of it.
    a = np.full((1, 32), 0x3FFF, np.uint16)
    b = np.where(np.arange(32) < 16, 0, 0x3FFF ^ sign).astype(np.uint16)[:, None]
    b[0] = 0x3F80 ^ sign
    codes, narrow = kernels.run(a, b, "hopper/16", "bf16")
    assert narrow
    assert codes.tolist() == [[0x4282FC80 | sign << 16]]
