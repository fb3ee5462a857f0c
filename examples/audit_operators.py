"""Single operators of torch to audit, at the sizes of an 8-billion-parameter model.

    lastbit audit examples/audit_operators.py:product_wide --device cuda --batch sweep
    lastbit audit examples/audit_operators.py:index_add --device cuda

Each function takes a batch of rows first. What torch does with one on an H200, for every function
here, is in `reports/h200/audit_operators.json`; `benchmarks/gpu_audit.py` wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

HIDDEN, INNER = 4096, 12288
LONG = 65536
HEADS, DEPTH, KEYS = 8, 128, 4096
BINS = 64

OPERATORS: dict[str, Callable[..., Any]] = {}


def operator(name: str, make: Callable[[int, torch.Generator], tuple[Any, ...]]) -> Any:
    """Return what names a function, gives it inputs and adds it to `OPERATORS`."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        @lru_cache(maxsize=1)  # large ones take seconds to draw
        def inputs(batch: int = 2) -> tuple[Any, ...]:
            return make(batch, torch.Generator().manual_seed(0))

        function.inputs = inputs
        OPERATORS[name] = function
        globals()[name] = function
        return function

    return add


def _rows(columns: int, kind: torch.dtype = torch.float32) -> Any:
    return lambda batch, g: (torch.randn(batch, columns, generator=g).to(kind),)


def _product(inner: int, columns: int, kind: torch.dtype) -> Any:
    def make(batch: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
        weight = torch.randn(inner, columns, generator=g).to(kind)
        return torch.randn(batch, inner, generator=g).to(kind), weight

    return make


def _products() -> None:
    kinds = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
    for short, kind in kinds.items():
        operator(f"product_up_{short}", _product(HIDDEN, INNER, kind))(lambda x, w: x @ w)
        operator(f"product_down_{short}", _product(INNER, HIDDEN, kind))(lambda x, w: x @ w)
        operator(f"cumsum_{short}", _rows(HIDDEN, kind))(lambda x: x.cumsum(-1))


def _scaled(batch: int, g: torch.Generator) -> tuple[Tensor, ...]:
    x = torch.randn(batch, HIDDEN, generator=g).to(torch.float8_e4m3fn)
    weight = torch.randn(INNER, HIDDEN, generator=g).to(torch.float8_e4m3fn)
    return x, weight, torch.tensor(0.5), torch.tensor(0.25)


def _attention(batch: int, g: torch.Generator) -> tuple[Tensor, ...]:
    q = torch.randn(batch, HEADS, 1, DEPTH, generator=g)
    k, v = (torch.randn(batch, HEADS, KEYS, DEPTH, generator=g) for _ in range(2))
    return tuple(t.to(torch.bfloat16) for t in (q, k, v))


def _attentions() -> None:
    for backend in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"):

        def attend(q: Tensor, k: Tensor, v: Tensor, chosen: str = backend) -> Tensor:
            with sdpa_kernel(getattr(SDPBackend, chosen)):
                return scaled_dot_product_attention(q, k, v)

        operator(backend.lower(), _attention)(attend)


def _added(batch: int, g: torch.Generator) -> tuple[Tensor, Tensor]:
    where = torch.randint(0, BINS, (batch * HIDDEN,), generator=g)
    return torch.randn(batch * HIDDEN, generator=g), where


def _scaled_fast(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    kind = torch.bfloat16
    return torch._scaled_mm(x, w.t(), a, b, out_dtype=kind, use_fast_accum=True)


def _scaled_slow(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    kind = torch.bfloat16
    return torch._scaled_mm(x, w.t(), a, b, out_dtype=kind, use_fast_accum=False)


_products()
_attentions()
operator("scaled_mm_fast", _scaled)(_scaled_fast)
operator("scaled_mm_slow", _scaled)(_scaled_slow)
operator("sum_rows", _rows(HIDDEN))(lambda x: x.sum(-1))
operator("mean_rows", _rows(LONG))(lambda x: x.mean(-1))
operator("rms_norm", _rows(HIDDEN))(lambda x: torch.rms_norm(x, (HIDDEN,)))
operator("layer_norm", _rows(HIDDEN))(lambda x: torch.layer_norm(x, (HIDDEN,)))
operator("softmax", _rows(HIDDEN))(lambda x: x.softmax(-1))
operator("log_softmax", _rows(HIDDEN))(lambda x: x.log_softmax(-1))
operator("index_add", _added)(lambda x, at: x.new_zeros(BINS).index_add(0, at, x))
operator("scatter_add", _added)(lambda x, at: x.new_zeros(BINS).scatter_add(0, at, x))
operator("bincount", _added)(lambda x, at: at.bincount(x, BINS))
operator("index_put", _added)(lambda x, at: x.new_zeros(BINS).index_put((at,), x, accumulate=True))
operator("sum_all", _added)(lambda x, at: x.sum())
operator("cumsum_long", _added)(lambda x, at: x.cumsum(0))
