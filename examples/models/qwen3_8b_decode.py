"""One step of decoding with a layer of Qwen3-8B's size: a token of each sequence, and its cache.

    lastbit audit examples/models/qwen3_8b_decode.py:build --device cuda --batch sweep

It wants a GPU: the weights take 0.4 GiB, the caches of 4096 sequences 4 GiB.
"""

from __future__ import annotations

import torch
from qwen3_layer import Layer, Shape, turned
from torch import Tensor, nn
from torch.nn import functional

SHAPE = Shape(hidden=4096, inner=12288, heads=32, shared=8, depth=128, rows=1)
KEYS = 256


class Step(nn.Module):
    """The layer on one new token of each sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Layer(SHAPE)

    def forward(self, x: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Compute the step: x[B, H], and the keys and values before it [B, heads, KEYS, depth]."""
        layer, heads = self.layer, (x.shape[0], -1, 1, SHAPE.depth)
        h = layer.input_norm(x)
        attention = layer.attention
        query = turned(attention.q_norm(attention.q_proj(h).view(heads)), cos, sin)
        key = turned(attention.k_norm(attention.k_proj(h).view(heads)), cos, sin)
        value = attention.v_proj(h).view(heads)
        mixed = functional.scaled_dot_product_attention(
            query, torch.cat((k, key), dim=2), torch.cat((v, value), dim=2), enable_gqa=True
        )
        x = x + attention.o_proj(mixed.reshape(x.shape[0], -1))
        h = layer.inner_norm(x)
        return x + layer.down(functional.silu(layer.gate(h)) * layer.up(h))


def build() -> nn.Module:
    """Return the module, with weights that a seed draws."""
    torch.manual_seed(0)
    return Step().to(torch.bfloat16).eval()


def inputs(batch: int = 2) -> tuple[Tensor, ...]:
    """Return one token of each sequence, its cache, and the tables of its position."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch, SHAPE.hidden, generator=generator)
    shape = (batch, SHAPE.shared, KEYS, SHAPE.depth)
    k, v = (torch.randn(shape, generator=generator) for _ in range(2))
    turns = 1e6 ** (-torch.arange(0, SHAPE.depth, 2) / SHAPE.depth)
    angles = (KEYS * turns).repeat(2)
    return tuple(t.to(torch.bfloat16) for t in (x, k, v, angles.cos(), angles.sin()))


build.inputs = inputs
