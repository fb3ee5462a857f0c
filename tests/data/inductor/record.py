"""Record the debug folders in this folder: `python tests/data/inductor/record.py` (a minute).

Each is what Inductor of torch 2.13 wrote for a CPU, cut to the files that are read: the flags only
of `fx_graph_runnable.py`, no generated code, and no path of the machine.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch._inductor import config

HERE = Path(__file__).parent
LAYER = HERE.parents[2] / "examples/models/qwen3_layer.py"
KEPT = (
    "fx_graph_readable.py",
    "fx_graph_transformed.py",
    "ir_post_fusion.txt",
    "inductor_provenance_tracking_node_mappings.json",
    "fx_graph_runnable.py",
)
_FLAG = re.compile(r"^torch\._inductor\.config\.(?!trace).*$", re.MULTILINE)


def three(x: Tensor, r: Tensor, w: Tensor) -> Tensor:
    """Add three values: the first sum is no longer rounded."""
    return (x + r) + w


def passed_on(x: Tensor, r: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Return a sum, which is rounded, and pass it on, which is not."""
    s = x + r
    return s, s * w


def product_and_sum(x: Tensor, r: Tensor, w: Tensor) -> Tensor:
    """Add to a product: one library call."""
    return x + r @ w


def literal(x: Tensor, r: Tensor, w: Tensor) -> Tensor:
    """Add a number that bf16 does not hold."""
    return (x + 0.1) * r


def layer_norm(x: Tensor, r: Tensor, w: Tensor) -> Tensor:
    """Normalise a product, which is not rounded before the mean and the variance."""
    return torch.nn.functional.layer_norm(x * r, (64,), w[0], r[0])


def record(
    name: str, call: Callable[..., object], inputs: tuple[Tensor, ...], emulate: bool
) -> None:
    """Compile a function, and keep its debug folder under a name."""
    torch._dynamo.reset()
    with tempfile.TemporaryDirectory() as folder:
        patch = {
            "trace.enabled": True,
            "trace.debug_dir": folder,
            "trace.provenance_tracking_level": 1,
            "fx_graph_cache": False,
            "emulate_precision_casts": emulate,
        }
        with config.patch(patch), torch.no_grad():
            torch.compile(call)(*inputs)
        (made,) = {one.parent for one in Path(folder).rglob(KEPT[0])}
        target = HERE / name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for file in KEPT:
            text = (made / file).read_text()
            if file == "fx_graph_runnable.py":
                text = "\n".join(_FLAG.findall(text)) + "\n"
            text = re.sub(r"# File: \S*/", "# File: ", text)
            # A Python file would be checked as one of ours.
            name_here = f"{file}.txt" if file.endswith(".py") else file
            (target / name_here).write_text(text)


def main() -> None:
    """Record all of them."""
    torch.manual_seed(0)
    inputs = tuple(torch.randn(64, 64).bfloat16() for _ in range(3))
    for call in (three, passed_on, product_and_sum, literal, layer_norm):
        record(call.__name__, call, inputs, call is literal)
    spec = importlib.util.spec_from_file_location("qwen3_layer", LAYER)
    assert spec is not None
    assert spec.loader is not None
    layer = importlib.util.module_from_spec(spec)
    sys.modules["qwen3_layer"] = layer
    spec.loader.exec_module(layer)
    record("qwen3", layer.build(), layer.inputs(), False)
    record("qwen3_emulated", layer.build(), layer.inputs(), True)


if __name__ == "__main__":
    main()
