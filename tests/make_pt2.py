"""Make the `.pt2` files in `tests/data`: real graphs of torch.export, without weights.

    python tests/make_pt2.py

Paths of the machine that exports them are cut off in front of `site-packages`, and of the archive
only the graph is kept, which is all that lastbit reads.
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

DATA = Path(__file__).parent / "data" / "pt2"
MODELS = Path(__file__).parents[1] / "examples" / "models"

_PATH = re.compile(rb'File \\"[^"]*?/(site-packages/|examples/|tests/)')


class FusedNorm(nn.Module):
    """torch's own RMS norm with the weight of another."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, x: Tensor) -> Tensor:
        """Compute the module."""
        return functional.rms_norm(x, x.shape[-1:], self.weight, 1e-6)


def write(name: str, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    """Export a module with the first axis of its first input open, and keep the graph."""
    dynamic = ({0: torch.export.Dim("batch", min=1, max=1024)}, *(None for _ in inputs[1:]))
    whole = io.BytesIO()
    with torch.no_grad():
        torch.export.save(torch.export.export(module, inputs, dynamic_shapes=dynamic), whole)
    with zipfile.ZipFile(whole) as archive:
        (model,) = (n for n in archive.namelist() if n.endswith("models/model.json"))
        text = _PATH.sub(rb'File \\"\1', archive.read(model))
    entry = zipfile.ZipInfo(f"{name}/models/model.json", (2026, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(DATA / f"{name}.pt2", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(entry, text, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    sys.path.insert(0, str(MODELS))
    import gpt2_block
    import moe_layer
    import qwen3_layer

    DATA.mkdir(parents=True, exist_ok=True)
    write("qwen3_layer", qwen3_layer.build(), qwen3_layer.inputs())
    fused = qwen3_layer.build()
    fused.inner_norm = FusedNorm(fused.inner_norm.weight)
    write("qwen3_layer_fused_norm", fused, qwen3_layer.inputs())
    write("gpt2_block", gpt2_block.build(), gpt2_block.inputs())
    write("moe_layer", moe_layer.build(), moe_layer.inputs())
