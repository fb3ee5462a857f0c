"""Build a Qwen3-like layer as ONNX in float16, and let ONNX Runtime rewrite it.

    python examples/models/onnx_layer.py build/onnx
    lastbit check build/onnx/before.onnx build/onnx/after.onnx

The layer has RMSNorm, QK-norm, rotary positions, grouped-query attention and SwiGLU, with the
operators that `torch.onnx.export` writes for it. `after.onnx` is what ONNX Runtime made of it for
the CPU (`SessionOptions.optimized_model_filepath`). Needs `pip install 'lastbit[onnx]'`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROWS, HIDDEN, HEADS, KV_HEADS, HEAD, INNER = 16, 64, 4, 2, 16, 128
EPSILON = 1e-6
LEVELS = {
    "disabled": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "layout": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_LAYOUT,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}

FLOATS = {
    "f16": (TensorProto.FLOAT16, np.float16),
    "f32": (TensorProto.FLOAT, np.float32),
}


class Builder:
    """Collects the nodes and the weights of a graph."""

    def __init__(self, kind: str) -> None:
        self.type, self.dtype = FLOATS[kind]
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(0)

    def node(self, kind: str, reads: list[str], name: str, **attributes: object) -> str:
        """Add a node with one result, and return the name of that."""
        made = helper.make_node(kind, reads, [name], name=f"node_{name}", **attributes)
        self.nodes.append(made)
        return name

    def weight(self, name: str, *shape: int) -> str:
        """Add a weight drawn from normal(0, 1 / sqrt(rows)), and return its name."""
        drawn = self.random.normal(0, shape[0] ** -0.5, shape)
        return self.constant(name, drawn.astype(self.dtype))

    def constant(self, name: str, array: np.ndarray) -> str:
        """Add a constant, and return its name."""
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def norm(self, x: str, weight: str, name: str) -> str:
        """Add an RMSNorm over the last axis."""
        return self.node("RMSNormalization", [x, weight], name, axis=-1, epsilon=EPSILON)

    def heads(self, x: str, name: str, count: int) -> str:
        """Split the last axis into heads."""
        shape = self.constant(f"{name}_shape", np.array([1, ROWS, count, HEAD], np.int64))
        return self.node("Reshape", [x, shape], name, allowzero=1)

    def rotated(self, x: str, number: str) -> str:
        """Add the rotary positions: x * cos + rotate_half(x) * sin."""
        half = [self.constant(f"{x}_{end}", np.array([end], np.int64)) for end in (0, HEAD // 2)]
        end = self.constant(f"{x}_end", np.array([2**31], np.int64))
        axis = self.constant(f"{x}_axis", np.array([3], np.int64))
        by_cos = self.node("Mul", [x, "cos"], f"by_cos_{number}")
        first = self.node("Slice", [x, half[0], half[1], axis], f"first_{number}")
        second = self.node("Slice", [x, half[1], end, axis], f"second_{number}")
        turned = self.node("Neg", [second], f"neg_{number}")
        joined = self.node("Concat", [turned, first], f"cat_{number}", axis=-1)
        by_sin = self.node("Mul", [joined, "sin"], f"by_sin_{number}")
        return self.node("Add", [by_cos, by_sin], f"rope_{number}")


def layer(kind: str = "f16") -> onnx.ModelProto:
    """Return the layer, `x: [1, ROWS, HIDDEN]` to `y` of the same shape.

    Args:
        kind: the format of every value, "f16" or "f32".
    """
    b = Builder(kind)
    ones = np.ones(HEAD, b.dtype)
    angles = np.outer(np.arange(ROWS), 10000.0 ** (-np.arange(HEAD // 2) / (HEAD // 2)))
    angles = np.concatenate([angles, angles], axis=1)
    b.constant("cos", np.cos(angles).astype(b.dtype))
    b.constant("sin", np.sin(angles).astype(b.dtype))
    norm = b.constant("norm_weight", np.ones(HIDDEN, b.dtype))
    wide, narrow = HEADS * HEAD, KV_HEADS * HEAD

    h = b.norm("x", norm, "normed")
    q = b.heads(b.node("MatMul", [h, b.weight("w_q", HIDDEN, wide)], "q"), "q_heads", HEADS)
    q = b.norm(q, b.constant("q_norm", ones), "q_normed")
    q = b.node("Transpose", [q], "q_rows", perm=[0, 2, 1, 3])
    k = b.heads(b.node("MatMul", [h, b.weight("w_k", HIDDEN, narrow)], "k"), "k_heads", KV_HEADS)
    k = b.norm(k, b.constant("k_norm", ones), "k_normed")
    k = b.node("Transpose", [k], "k_rows", perm=[0, 2, 1, 3])
    v = b.heads(b.node("MatMul", [h, b.weight("w_v", HIDDEN, narrow)], "v"), "v_heads", KV_HEADS)
    v = b.node("Transpose", [v], "v_rows", perm=[0, 2, 1, 3])
    q, k = b.rotated(q, "q"), b.rotated(k, "k")
    out = b.node("Attention", [q, k, v], "attention", is_causal=1)
    out = b.node("Transpose", [out], "attention_rows", perm=[0, 2, 1, 3])
    flat = b.constant("flat_shape", np.array([1, ROWS, wide], np.int64))
    out = b.node("Reshape", [out, flat], "attention_flat", allowzero=1)
    out = b.node("MatMul", [out, b.weight("w_o", wide, HIDDEN)], "projected")
    residual = b.node("Add", ["x", out], "residual")
    h = b.norm(residual, norm, "normed_2")
    gate = b.node("MatMul", [h, b.weight("w_gate", HIDDEN, INNER)], "gate")
    silu = b.node("Mul", [gate, b.node("Sigmoid", [gate], "sigmoid")], "silu")
    up = b.node("MatMul", [h, b.weight("w_up", HIDDEN, INNER)], "up")
    down = b.node("Mul", [silu, up], "gated")
    down = b.node("MatMul", [down, b.weight("w_down", INNER, HIDDEN)], "down")
    b.node("Add", [residual, down], "y")

    shape = [1, ROWS, HIDDEN]
    graph = helper.make_graph(
        b.nodes,
        "qwen3_like_layer",
        [helper.make_tensor_value_info("x", b.type, shape)],
        [helper.make_tensor_value_info("y", b.type, shape)],
        b.weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    return model


def optimise(before: Path, after: Path, level: str = "all") -> None:
    """Write what ONNX Runtime makes of a model for the CPU, at an optimisation level."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.optimized_model_filepath = str(after)
    options.log_severity_level = 3  # it warns that the result is for this machine
    onnxruntime.InferenceSession(str(before), options, providers=["CPUExecutionProvider"])


def main() -> None:
    """Write before.onnx and after.onnx."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--format", choices=FLOATS, default="f16")
    parser.add_argument("--level", choices=LEVELS, default="all")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    before, after = given.folder / "before.onnx", given.folder / "after.onnx"
    onnx.save(layer(given.format), before)
    optimise(before, after, given.level)
    print(f"lastbit check {before} {after}")


if __name__ == "__main__":
    main()
