"""The kernel for NVIDIA GPUs gives the bits of numpy's engine, in tiles and sizes of all kinds."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cuda.bindings")
pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

from matmuls import KINDS, UNITS, operands, with_cancelling_sums  # noqa: E402
from small_sums import SMALL_SUMS, drawn  # noqa: E402

import lastbit  # noqa: E402
from lastbit.engine import cuda_chain  # noqa: E402
from lastbit.engine.cuda_chain import CompilerError, Tile, compiled, definitions  # noqa: E402
from lastbit.formats import format_of  # noqa: E402
from lastbit.machines import Unit, machine_of, unit_of  # noqa: E402
from lastbit.predicting import DRAWS, draw_codes  # noqa: E402

ALIGNED = [unit for unit in UNITS if unit.method == "aligned"]
SIZES = ((1, 1, 1), (3, 40, 5), (64, 64, 64), (65, 100, 63), (129, 33, 258), (7, 300, 1))
TILES = (
    Tile(16, 16, 8, 4, 1), Tile(8, 16, 8, 4, 1), Tile(16, 8, 4, 8, 1), Tile(8, 8, 4, 4, 1),
    Tile(32, 4, 2, 8, 1), Tile(4, 32, 8, 2, 1), Tile(16, 16, 1, 4, 1), Tile(2, 16, 4, 4, 1),
)  # fmt: skip
CASES = (
    ("bf16", "fused(16, hopper)"),
    ("f16", "split(3, tile=32, inner=fused(16, hopper), outer=seq)"),
    ("e4m3fn", "promote(128, f32, inner=fused(32, hopper))"),
    ("e5m2", "split(2, tile=32, deal=interleaved, inner=fused(32, hopper), outer=seq)"),
)


def assert_same(
    a: np.ndarray, b: np.ndarray, fmt: str, schedule: str, machine: str = "hopper"
) -> np.ndarray:
    by_numpy = lastbit.predict_matmul(a, b, machine, fmt, schedule)
    by_gpu = lastbit.predict_matmul(a, b, machine, fmt, schedule, device="cuda")
    assert by_gpu.tobytes() == by_numpy.tobytes(), f"{(by_gpu != by_numpy).sum()} differ"
    return by_numpy


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize(("fmt", "schedule"), CASES)
def test_schedules(fmt: str, schedule: str, draw: str) -> None:
    rng = np.random.default_rng([1, DRAWS.index(draw)])
    a, b = (draw_codes(size, format_of(fmt), draw, rng) for size in ((256, 192), (192, 256)))
    outputs = assert_same(a, b, fmt, schedule)
    assert draw == "bits" or len(np.unique(outputs)) > 1000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", ALIGNED, ids=str)
def test_every_unit(unit: Unit, kind: str) -> None:
    rng = np.random.default_rng([2, ALIGNED.index(unit), KINDS.index(kind)])
    for short in unit.inputs:
        fmt = format_of(short)
        a, b = operands(rng, fmt, (90, 100), kind), operands(rng, fmt, (100, 70), kind)
        for x, y in ((a, b), with_cancelling_sums(rng, a, b, fmt)):
            assert_same(x, y, short, f"fused({unit.width}, {unit})", unit.machine)


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_tiles_and_sizes(
    monkeypatch: pytest.MonkeyPatch, tile: Tile, size: tuple[int, int, int]
) -> None:
    monkeypatch.setitem(cuda_chain.TILES, True, tile)
    if tile != TILES[0]:  # for which binary64 would need more shared memory than there is
        monkeypatch.setitem(cuda_chain.TILES, False, tile)
    m, k, n = size
    for fmt, step in (("bf16", "fused(16, hopper)"), ("e4m3fn", "fused(32, hopper)")):
        for draw in ("normal", "finite", "bits"):
            rng = np.random.default_rng([3, *size])
            a, b = (draw_codes(shape, format_of(fmt), draw, rng) for shape in ((m, k), (k, n)))
            assert_same(a, b, fmt, step)


@pytest.mark.parametrize(("fmt", "left", "right"), SMALL_SUMS)
def test_small_sums(fmt: str, left: str, right: str) -> None:
    a, b = drawn(fmt, (left, right), (150, 192, 140))
    outputs = assert_same(a, b, fmt, f"fused({machine_of('hopper').unit(fmt).width}, hopper)")
    assert len(np.unique(outputs)) > 500


def test_sums_beyond_31_bits() -> None:
    # An accumulator of 1.9921875 and 16 products of 1.9921875 squared, as the CPU's test has them;
    # with the other sign too, and with one product that makes the sum small again.
    a = np.full((1, 32), 0x3FFF, np.uint16)
    b = np.where(np.arange(32) < 16, 0, 0x3FFF).astype(np.uint16)[:, None]
    b[0] = 0x3F80
    columns = [b, b ^ 0x8000]
    for place in (16, 31):
        for sign in (0, 0x8000):
            other = b ^ np.uint16(sign)
            other[place] ^= 0x8000
            columns.append(other)
    outputs = assert_same(a, np.hstack(columns).astype(np.uint16), "bf16", "fused(16, hopper)")
    assert outputs[0, :2].tolist() == [0x4282FC80, 0xC282FC80]


def test_no_products_and_no_outputs() -> None:
    empty = np.zeros((3, 0), np.uint16)
    assert assert_same(empty, empty.T, "bf16", "fused(16, hopper)").tolist() == [[0] * 3] * 3
    none = np.zeros((0, 4), np.uint16)
    assert assert_same(none, np.zeros((4, 2), np.uint16), "bf16", "fused(16, hopper)").size == 0


def test_what_cannot_be_compiled_is_said() -> None:
    narrow = definitions(unit_of("blackwell/32"), True, cuda_chain.TILES[True])
    with pytest.raises(CompilerError, match="a sum may have more than 32 bits and a sign"):
        compiled("sm_90", narrow)
