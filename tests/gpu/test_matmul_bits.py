"""An NVIDIA GPU of the Hopper family gives the predicted bits, and computes them with torch too.

Operands are random bits, normal numbers and numbers of very different size. The script
`benchmarks/gpu_matmul.py` compares ten million outputs and more.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = pytest.mark.gpu
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs an NVIDIA GPU of the Hopper family", allow_module_level=True)

from gpu_matmuls import bits, on_gpu, scaled_mm, torch_mm, triton_dot  # noqa: E402
from matmuls import PROMOTED  # noqa: E402

import lastbit  # noqa: E402
from lastbit.formats import format_of  # noqa: E402
from lastbit.predicting import DRAWS, draw_codes  # noqa: E402

SIZE, K = 256, 192


def drawn(fmt: str, draw: str, k: int = K) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([20261129, DRAWS.index(draw)])
    a, b = (draw_codes(size, format_of(fmt), draw, rng) for size in ((SIZE, k), (k, SIZE)))
    return a, b


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("fmt", ["bf16", "f16", "e4m3fn", "e5m2"])
def test_triton_gives_the_chain(fmt: str, draw: str) -> None:
    a, b = drawn(fmt, draw)
    seen = bits(triton_dot(on_gpu(a, fmt), on_gpu(b, fmt)))
    predicted = lastbit.predict_matmul(a, b, "hopper", fmt)
    assert len(np.unique(seen)) > 1000
    assert seen.tobytes() == predicted.tobytes()


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("fmt", ["bf16", "f16"])
def test_torch_mm_gives_the_chain(fmt: str, draw: str) -> None:
    a, b = drawn(fmt, draw)
    seen = bits(torch_mm(on_gpu(a, fmt), on_gpu(b, fmt)))
    assert seen.tobytes() == lastbit.predict_matmul(a, b, "hopper", fmt).tobytes()


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize(("fast", "schedule"), [(True, None), (False, PROMOTED)])
def test_scaled_mm_gives_the_chain_or_its_promotion(
    fast: bool, schedule: str | None, draw: str
) -> None:
    a, b = drawn("e4m3fn", draw, 512)
    seen = bits(scaled_mm(on_gpu(a, "e4m3fn"), on_gpu(b, "e4m3fn"), fast))
    assert seen.tobytes() == lastbit.predict_matmul(a, b, "hopper", "e4m3fn", schedule).tobytes()


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize(("fmt", "schedule"), [
    ("bf16", "fused(16, hopper)"),
    ("f16", "split(3, tile=32, inner=fused(16, hopper), outer=seq)"),
    ("e4m3fn", "promote(128, f32, inner=fused(32, hopper))"),
    ("e5m2", "split(2, tile=32, deal=interleaved, inner=fused(32, hopper), outer=seq)"),
])  # fmt: skip
def test_the_gpu_computes_the_bits_of_numpy(fmt: str, schedule: str, draw: str) -> None:
    a, b = drawn(fmt, draw)
    by_numpy = lastbit.predict_matmul(a, b, "hopper", fmt, schedule)
    assert by_numpy.tobytes() == lastbit.predict_matmul(
        a, b, "hopper", fmt, schedule, device="cuda"
    ).tobytes()  # fmt: skip
