"""A block of GPT-2 in torch, and its graph as a `.pt2` file.

LayerNorm, causal attention from one projection, and a feed-forward part with the tanh form of GELU,
all with biases, in f16.

    python examples/models/gpt2_block.py block.pt2
    lastbit lint block.pt2

`build` and `inputs` are what `lastbit` calls when it is given this file with `:build`.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional

HIDDEN, HEADS, ROWS = 64, 4, 8  # GPT-2 has 768 columns and 12 heads


class Block(nn.Module):
    """Attention and a feed-forward part, each behind a LayerNorm and added to the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.c_attn = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.c_proj = nn.Linear(HIDDEN, HIDDEN)
        self.c_fc = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.c_out = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the module."""
        batch, rows, _ = x.shape
        parts = self.c_attn(self.ln_1(x)).split(HIDDEN, dim=2)
        q, k, v = (part.view(batch, rows, HEADS, -1).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(mixed.transpose(1, 2).reshape(batch, rows, HIDDEN))
        inner = functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh")
        return x + self.c_out(inner)


def build() -> nn.Module:
    """Return the module, with weights that a seed draws."""
    torch.manual_seed(0)
    return Block().to(torch.float16).eval()


def inputs(batch: int = 2) -> tuple[Tensor]:
    """Return the stream."""
    generator = torch.Generator().manual_seed(1)
    return (torch.randn(batch, ROWS, HIDDEN, generator=generator).to(torch.float16),)


build.inputs = inputs


def export(path: str) -> None:
    """Write the graph of the block, its number of sequences left open."""
    dynamic = ({0: torch.export.Dim("batch", min=1, max=1024)},)
    with torch.no_grad():
        program = torch.export.export(build(), inputs(), dynamic_shapes=dynamic)
    torch.export.save(program, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Export a block of GPT-2.")
    parser.add_argument("path", help="the .pt2 file to write")
    export(parser.parse_args().path)
