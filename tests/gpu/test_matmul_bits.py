"""An NVIDIA GPU of the Hopper family gives the predicted bits.

Operands are normal numbers, numbers of very different size, and random bits, with NaN and
infinities or without. `benchmarks/gpu_matmul.py` compares ten million outputs and more.
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


def assert_same(seen: np.ndarray, predicted: np.ndarray, draw: str) -> None:
    """Compare all bits, of outputs that tell schedules apart.

    With random bits nearly every sum has a NaN or an infinity among its terms: of the operands in
    binary16, 31 of 32 are finite, and 384 are with a probability of 5e-6. What is compared then is
    where NaN and infinities are.
    """
    assert seen.tobytes() == predicted.tobytes()
    if draw == "bits":
        assert np.isnan(seen.view(np.float32)).sum() > SIZE
    else:
        assert len(np.unique(seen)) > 1000


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("fmt", ["bf16", "f16", "e4m3fn", "e5m2"])
def test_triton_gives_the_chain(fmt: str, draw: str) -> None:
    a, b = drawn(fmt, draw)
    seen = bits(triton_dot(on_gpu(a, fmt), on_gpu(b, fmt)))
    assert_same(seen, lastbit.predict_matmul(a, b, "hopper", fmt), draw)


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("fmt", ["bf16", "f16"])
def test_torch_mm_gives_the_chain(fmt: str, draw: str) -> None:
    a, b = drawn(fmt, draw)
    seen = bits(torch_mm(on_gpu(a, fmt), on_gpu(b, fmt)))
    assert_same(seen, lastbit.predict_matmul(a, b, "hopper", fmt), draw)


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize(("fast", "schedule"), [(True, None), (False, PROMOTED)])
def test_scaled_mm_gives_the_chain_or_its_promotion(
    fast: bool, schedule: str | None, draw: str
) -> None:
    a, b = drawn("e4m3fn", draw, 512)
    seen = bits(scaled_mm(on_gpu(a, "e4m3fn"), on_gpu(b, "e4m3fn"), fast))
    predicted = lastbit.predict_matmul(a, b, "hopper", "e4m3fn", schedule)
    assert_same(seen, predicted, draw)
