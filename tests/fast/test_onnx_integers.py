"""Integers of ONNX wrap around as in numpy, by which ONNX defines them: every pair of 8 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto
from onnx_models import evaluated, model, node, referenced, saved

from lastbit.checking import check_models

DTYPES = {"i8": np.int8, "u8": np.uint8}
PAIRS = ("Add(x, y)", "Sub(x, y)", "Mul(x, y)", "Neg(x)", "Abs(x)")
FLOAT = TensorProto.FLOAT


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("text", PAIRS)
def test_integers_wrap_around(tmp_path: Path, text: str, kind: str) -> None:
    every = np.arange(256).astype(DTYPES[kind])
    inputs = {"x": np.repeat(every[:, None], 256, 1), "y": np.repeat(every[None], 256, 0)}
    given = [f"{name}: {kind}[256, 256]" for name in inputs]
    path = saved(tmp_path, model([node(f"z = {text}")], given, [f"z: {kind}[256, 256]"]))
    want = referenced(path, inputs)["z"]
    assert want.any()
    assert np.array_equal(evaluated(path, inputs)["z"], want)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
def test_arithmetic_before_a_cast_is_another_function(tmp_path: Path, op: str) -> None:
    given = ["x: u8[8]", "y: u8[8]"]
    inside = [node(f"t = {op}(x, y)"), node("z = Cast(t)", to=FLOAT)]
    outside = [
        node("a = Cast(x)", to=FLOAT),
        node("b = Cast(y)", to=FLOAT),
        node(f"z = {op}(a, b)"),
    ]
    paths = [
        saved(tmp_path, model(nodes, given, ["z: f32[8]"]), f"{number}.onnx")
        for number, nodes in enumerate((inside, outside))
    ]
    changes = {step.change for step in check_models(*paths).steps}
    assert changes
    assert changes <= {"math", "unknown"}
