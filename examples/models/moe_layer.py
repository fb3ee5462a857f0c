"""A mixture-of-experts layer in torch, and its graph as a `.pt2` file.

A router chooses 2 of 4 experts for each row by softmax and top-k. Every expert computes every row,
and what was not chosen has the weight 0, so that the graph has no sizes that depend on data.

    python examples/models/moe_layer.py moe.pt2
    lastbit lint moe.pt2

`build` and `inputs` are what `lastbit` calls when it is given this file with `:build`.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional

HIDDEN, INNER, EXPERTS, CHOSEN = 64, 32, 4, 2


class Experts(nn.Module):
    """A router and its experts."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.gate_up = nn.Parameter(torch.randn(EXPERTS, HIDDEN, 2 * INNER) / 8)
        self.down = nn.Parameter(torch.randn(EXPERTS, INNER, HIDDEN) / 8)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the module."""
        odds = functional.softmax(self.router(x), dim=-1, dtype=torch.float32)
        weights, chosen = torch.topk(odds, CHOSEN, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        spread = torch.zeros_like(odds).scatter(1, chosen, weights).to(x.dtype)
        gate, up = torch.matmul(x[None], self.gate_up).chunk(2, dim=-1)
        each = torch.bmm(functional.silu(gate) * up, self.down)
        return (each * spread.t()[:, :, None]).sum(0)


def build() -> nn.Module:
    """Return the module, with weights that a seed draws."""
    torch.manual_seed(0)
    return Experts().to(torch.bfloat16).eval()


def inputs(rows: int = 8) -> tuple[Tensor]:
    """Return the rows."""
    generator = torch.Generator().manual_seed(1)
    return (torch.randn(rows, HIDDEN, generator=generator).to(torch.bfloat16),)


build.inputs = inputs


def export(path: str) -> None:
    """Write the graph of the layer, its number of rows left open."""
    dynamic = ({0: torch.export.Dim("rows", min=2, max=1024)},)
    with torch.no_grad():
        program = torch.export.export(build(), inputs(), dynamic_shapes=dynamic)
    torch.export.save(program, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Export a mixture-of-experts layer.")
    parser.add_argument("path", help="the .pt2 file to write")
    export(parser.parse_args().path)
