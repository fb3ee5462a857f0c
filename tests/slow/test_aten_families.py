"""The tables of sums, norms, products, pooling and views, against torch on the CPU.

Sums of small integers are exact in every order, so those results are equal to the bit. Elsewhere
the order that the table assumes is not torch's, and the distance in ulp is stated.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from exported import difference, imported, interpreted, user_inputs  # noqa: E402  needs torch

pytestmark = pytest.mark.slow

F = torch.nn.functional
SEED = 20261130
DTYPES = [torch.bfloat16, torch.float32]


def drawn(dtype: Any, *shape: int, offset: int = 0) -> Any:
    generator = torch.Generator().manual_seed(SEED + offset)
    return torch.randn(*shape, generator=generator).to(dtype)


def whole(dtype: Any, *shape: int, offset: int = 0) -> Any:
    """Return small integers, whose sums of products are exact in float32 in any order."""
    generator = torch.Generator().manual_seed(SEED + offset)
    return torch.randint(-4, 5, shape, generator=generator).to(dtype)


VIEWS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: (-x).reshape(8, -1),
    "flatten": lambda x: x.flatten(1),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(-1, 0),
    "slices": lambda x: (x[1:, :, 2:7], x[:, -3:], x[:, :, ::2], x[..., -1]),
    "select": lambda x: (x[1], x[:, -2]),
    "split": lambda x: torch.split(x, 3, dim=1),
    "split by sizes": lambda x: x.split([1, 4, 3], dim=2),
    "chunk": lambda x: x.chunk(2, -1),
    "unbind": lambda x: x.unbind(0),
    "cat": lambda x: torch.cat([x, -x], -1),
    "stack": lambda x: torch.stack([x, -x], 1),
    "expand": lambda x: x[:, None].expand(4, 3, 6, 8),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "interleave": lambda x: x.repeat_interleave(3, dim=1),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "flip": lambda x: x.flip(0, 2),
    "pad": lambda x: F.pad(x, (1, 2, 0, 3), value=1.5),
    "half turn": lambda x: torch.cat((-x[..., 4:], x[..., :4]), dim=-1),
    "ones": lambda x: x.new_ones(3, 2) + torch.zeros(2),
}
SUMS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(),
    "sum of axes": lambda x: x.sum((0, 2)),
    "sum kept": lambda x: x.sum(-1, keepdim=True),
    "mean": lambda x: x.mean(-1),
    "mean of axes": lambda x: x.mean((1, 2), keepdim=True),
    "amax": lambda x: x.amax((0, 1)),
    "amin": lambda x: x.amin(1, keepdim=True),
    "any": lambda x: (x > 3).any(1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_move_the_same_values(name: str, tmp_path: Path) -> None:
    assert difference(tmp_path, VIEWS[name], (drawn(torch.bfloat16, 4, 6, 8),)) == 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", SUMS)
def test_sums_of_integers_are_equal(name: str, dtype: Any, tmp_path: Path) -> None:
    assert difference(tmp_path, SUMS[name], (whole(dtype, 4, 6, 8),)) == 0


@pytest.mark.parametrize("name", ["sum", "sum of axes", "mean"])
def test_sums_of_bf16_round_once_at_the_end(name: str, tmp_path: Path) -> None:
    # bf16 hides the order of float32 sums but for rare ties; a rounding at each step would show.
    x = drawn(torch.bfloat16, 4, 64, 32).abs()
    assert difference(tmp_path, SUMS[name], (x,)) == 0


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_casts_to_8_bits_saturate_as_torch_does(dtype: Any, tmp_path: Path) -> None:
    x = drawn(torch.float32, 5000) * 300  # beyond 448, the largest of e4m3fn
    assert difference(tmp_path, lambda x: x.to(dtype).to(torch.float32), (x,)) == 0


def test_choices_give_torchs_values_and_indices(tmp_path: Path) -> None:
    x = torch.randperm(4 * 64, generator=torch.Generator().manual_seed(SEED))
    x = x.reshape(4, 64).to(torch.float32)  # all different, so that no tie is left open
    assert difference(tmp_path, lambda x: tuple(torch.topk(x, 5)), (x,)) == 0
    assert difference(tmp_path, lambda x: (x.argmax(-1), x.argmax()), (x,)) == 0
    assert difference(tmp_path, lambda x: tuple(x.max(1)), (x,)) == 0
    assert difference(tmp_path, lambda x: tuple(x.min(1)), (x,)) == 0


PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "mm": (torch.mm, ((6, 16), (16, 5))),
    "matmul": (torch.matmul, ((2, 3, 6, 16), (3, 16, 5))),
    "matmul by a matrix": (torch.matmul, ((2, 3, 16), (16, 5))),
    "matrix by vector": (torch.matmul, ((6, 16), (16,))),
    "vector by matrix": (torch.matmul, ((16,), (16, 6))),
    "dot": (torch.matmul, ((16,), (16,))),
    "bmm": (torch.bmm, ((3, 6, 16), (3, 16, 5))),
    "linear": (F.linear, ((2, 6, 16), (5, 16), (5,))),
    "linear without bias": (F.linear, ((6, 16), (5, 16))),
    "addmm": (torch.addmm, ((5,), (6, 16), (16, 5))),
    "addmm scaled": (
        lambda x, a, b: torch.addmm(x, a, b, beta=2, alpha=0.5),
        ((6, 5), (6, 16), (16, 5)),
    ),
    "baddbmm": (torch.baddbmm, ((3, 6, 5), (3, 6, 16), (3, 16, 5))),
    "conv": (lambda x, w, b: F.conv2d(x, w, b, padding=1), ((2, 3, 7, 6), (4, 3, 3, 3), (4,))),
    "strided conv": (lambda x, w: F.conv2d(x, w, stride=2), ((2, 3, 9, 8), (4, 3, 2, 3))),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_integers_are_equal(name: str, dtype: Any, tmp_path: Path) -> None:
    function, shapes = PRODUCTS[name]
    inputs = tuple(whole(dtype, *shape, offset=i) for i, shape in enumerate(shapes))
    assert difference(tmp_path, function, inputs) == 0


def test_a_bias_is_added_before_the_one_rounding(tmp_path: Path) -> None:
    # 256 + 1 ties to even in bf16: rounded before a bias of 1 it gives 257 -> 256, inside 258.
    x, w, b = torch.ones(1, 1), torch.full((1, 1), 257.0), torch.ones(1)
    inputs = (x.bfloat16(), torch.cat([w - 1, torch.ones(1, 1)], 1).bfloat16(), b.bfloat16())
    x2 = torch.ones(1, 2).bfloat16()
    assert difference(tmp_path, F.linear, (x2, inputs[1], inputs[2])) == 0


def test_autocast_rounds_the_arguments_of_products(tmp_path: Path) -> None:
    class Cast(torch.nn.Module):
        def forward(self, x: Any, w: Any) -> Any:
            """Compute the module."""
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return torch.nn.functional.linear(x, w).float() * 3

    # 257 is no value of bf16: rounded first it gives 256, and rounded last 256 + 257 gives 512.
    x, w = torch.tensor([[257.0, 1.0]]), torch.tensor([[1.0, 257.0]])
    assert difference(tmp_path, Cast(), (x, w)) == 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_images_are_pooled_alike(dtype: Any, tmp_path: Path) -> None:
    x = whole(dtype, 2, 3, 8, 8)
    assert difference(tmp_path, lambda x: F.max_pool2d(x, 3, 2, 1), (x,)) == 0
    assert difference(tmp_path, lambda x: F.adaptive_avg_pool2d(x, 1), (x,)) == 0


# The greatest distance in ulp, from bf16 and from f32: another order of the float32 sums moves a
# bf16 result by 1 at most, and f32 results by more where terms cancel.
NORMS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "rms_norm": (lambda x, w, b: F.rms_norm(x, (64,), w, 1e-6), 1, 8),
    "rms_norm plain": (lambda x, w, b: F.rms_norm(x, (64,)), 1, 8),
    "softmax": (lambda x, w, b: F.softmax(x, -1), 1, 16),
    "softmax in f32": (lambda x, w, b: F.softmax(x, 1, dtype=torch.float32), 16, 16),
    "log_softmax": (lambda x, w, b: F.log_softmax(x, -1), 1, 16),
    "group_norm": (lambda x, w, b: F.group_norm(x.transpose(1, 2), 8, w.abs()), 1, 4000),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (64,), w), 1, 4000),
    "batch_norm": (
        lambda x, w, b: F.batch_norm(x.transpose(1, 2), b, b.abs() + 1, w, None),
        2,
        4000,
    ),
    "var": (lambda x, w, b: x.var(-1), 1, 8),
    "var_mean": (lambda x, w, b: torch.var_mean(x, (1, 2), correction=0)[0], 1, 8),
    "logsumexp": (lambda x, w, b: torch.logsumexp(x, -1), 1, 8),
    "vector norm": (lambda x, w, b: torch.linalg.vector_norm(x, dim=-1), 1, 8),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_norms_round_where_torch_does(name: str, dtype: Any, tmp_path: Path) -> None:
    function, narrow, wide = NORMS[name]
    shapes = ((4, 7, 64), (64,), (64,))
    inputs = tuple(drawn(dtype, *shape, offset=i) for i, shape in enumerate(shapes))
    allowed = narrow if dtype == torch.bfloat16 else wide
    assert difference(tmp_path, function, inputs) <= allowed


def test_attention_is_computed_as_by_the_fused_kernel(tmp_path: Path) -> None:
    q, k, v = (drawn(torch.bfloat16, 2, 4, 16, 32, offset=i) for i in range(3))
    plain = F.scaled_dot_product_attention
    assert _share(tmp_path, plain, (q, k, v)) < 0.06
    k, v = k[:, :2].contiguous(), v[:, :2].contiguous()
    grouped = lambda q, k, v: plain(q, k, v, enable_gqa=True)  # noqa: E731
    assert _share(tmp_path, grouped, (q, k, v)) < 0.06
    causal = lambda q, k, v: plain(q, k, v, is_causal=True, enable_gqa=True)  # noqa: E731
    mask = np.tril(np.ones((16, 16)))
    assert _share(tmp_path, causal, (q, k, v), causal_mask_16_16=mask) < 0.06


def _share(folder: Path, function: Any, inputs: tuple[Any, ...], **given: Any) -> float:
    """Return the share of elements that differ from torch's."""
    model = imported(folder, function, inputs)
    named = {n: x.double().numpy() for n, x in zip(user_inputs(model), inputs, strict=True)}
    (ours,) = interpreted(model, named | given)
    return float((ours != function(*inputs).double().numpy()).mean())


def test_what_no_row_covers_is_opaque(tmp_path: Path) -> None:
    x, i = drawn(torch.float32, 5, 4), torch.tensor([1, 3])
    model = imported(tmp_path, lambda x, i: (torch.cumsum(x * 2, 0), x[i]), (x, i))
    assert [one.operator for one in model.opaque] == ["aten.cumsum", "aten.index"]
    assert model.opaque[0].reads == ("mul",)
    assert model.program.outputs == ("cumsum_result", "index_result", "mul")
