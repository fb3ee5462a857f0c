"""A layer like Qwen3's in torch, and its graph as a `.pt2` file.

RMSNorm with its weight outside the cast, QK-norm, rotary positions, grouped-query attention and
SwiGLU, in bf16.

    python examples/models/qwen3_layer.py layer.pt2               one small layer
    python examples/models/qwen3_layer.py model.pt2 --layers 36   as many as Qwen3-8B has
    lastbit lint layer.pt2

`build` and `inputs` are what `lastbit` calls when it is given this file with `:build`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """Sizes of the layer; those of Qwen3-8B are hidden 4096, inner 12288, 32 and 8 heads of 128."""

    hidden: int = 64
    inner: int = 128
    heads: int = 4
    shared: int = 2
    depth: int = 16
    rows: int = 8


class RMSNorm(nn.Module):
    """The norm as models on the Hugging Face hub write it: cast back, then scaled."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        """Compute the module."""
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return x with the position turned in."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


class Attention(nn.Module):
    """Grouped-query attention with norms of queries and keys."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        wide, narrow = shape.heads * shape.depth, shape.shared * shape.depth
        self.q_proj = nn.Linear(shape.hidden, wide, bias=False)
        self.k_proj = nn.Linear(shape.hidden, narrow, bias=False)
        self.v_proj = nn.Linear(shape.hidden, narrow, bias=False)
        self.o_proj = nn.Linear(wide, shape.hidden, bias=False)
        self.q_norm, self.k_norm = RMSNorm(shape.depth), RMSNorm(shape.depth)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Compute the module."""
        batch, rows, _ = x.shape
        heads = (batch, rows, -1, self.shape.depth)
        q = self.q_norm(self.q_proj(x).view(heads)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(heads)).transpose(1, 2)
        v = self.v_proj(x).view(heads).transpose(1, 2)
        mixed = functional.scaled_dot_product_attention(
            turned(q, cos, sin), turned(k, cos, sin), v, is_causal=True, enable_gqa=True
        )
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, rows, -1))


class Layer(nn.Module):
    """One layer: attention and SwiGLU, each behind a norm and added to the stream."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_norm, self.inner_norm = RMSNorm(shape.hidden), RMSNorm(shape.hidden)
        self.attention = Attention(shape)
        self.gate = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.up = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.down = nn.Linear(shape.inner, shape.hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Compute the module."""
        x = x + self.attention(self.input_norm(x), cos, sin)
        h = self.inner_norm(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


class Layers(nn.Module):
    """Several layers."""

    def __init__(self, count: int, shape: Shape) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(shape) for _ in range(count))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Compute the module."""
        for layer in self.layers:
            x = layer(x, cos, sin)
        return x


def build(layers: int = 1, shape: Shape = Shape()) -> nn.Module:
    """Return the module, with weights that a seed draws."""
    torch.manual_seed(0)
    module = Layer(shape) if layers == 1 else Layers(layers, shape)
    return module.to(torch.bfloat16).eval()


def inputs(shape: Shape = Shape(), batch: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Return the stream and the tables of positions."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch, shape.rows, shape.hidden, generator=generator)
    turns = 1e6 ** (-torch.arange(0, shape.depth, 2) / shape.depth)
    angles = torch.outer(torch.arange(shape.rows), turns).repeat(1, 2)
    return tuple(t.to(torch.bfloat16) for t in (x, angles.cos(), angles.sin()))


build.inputs = inputs

MIDDLE = Shape(hidden=1024, inner=3072, heads=16, shared=8, depth=128)  # as in Qwen3-0.6B


def middle() -> nn.Module:
    """Return a layer of the size of Qwen3-0.6B's."""
    return build(shape=MIDDLE)


middle.inputs = lambda batch=2: inputs(MIDDLE, batch)


def export(path: str, layers: int = 1, shape: Shape = Shape()) -> None:
    """Write the graph of the module, its number of sequences left open."""
    batch = torch.export.Dim("batch", min=1, max=1024)
    dynamic = ({0: batch}, None, None)
    with torch.no_grad():
        program = torch.export.export(build(layers, shape), inputs(shape), dynamic_shapes=dynamic)
    torch.export.save(program, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Export a Qwen3-like layer.")
    parser.add_argument("path", help="the .pt2 file to write")
    parser.add_argument("--layers", type=int, default=1)
    given = parser.parse_args()
    export(given.path, given.layers)
