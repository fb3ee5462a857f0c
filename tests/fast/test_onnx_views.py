"""Operators that move values move the same ones as ONNX Runtime, at any size of the batch.

The arithmetic that exported models do on shapes leaves no statements behind. Operators that are
written out here agree bit for bit with the function bodies that ONNX gives them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_models import evaluated, expected, model, node, normals, saved  # noqa: E402

from lastbit.importers.onnx import graph, read_onnx  # noqa: E402

INTS = {
    "zero": 0,
    "one": 1,
    "two": 2,
    "minus": -1,
    "far": 2**62,
}
LISTS = {
    "l0": [0],
    "l1": [1],
    "l2": [2],
    "l6": [6],
    "m1": [-1],
    "far1": [2**62],
    "flat": [0, -1],
    "heads": [-1, 3, 2, 4],
    "pads": [0, 1, 0, 2],
    "twice": [1, 2, 1],
    "parts": [2, 4],
    "wide": [5, 1, 1, 1],
    "a12": [1, 2],
}
WEIGHTS = {
    **{name: np.array(value) for name, value in INTS.items()},
    **{name: np.array(value) for name, value in LISTS.items()},
}


def check(tmp_path: Path, nodes: Sequence[onnx.NodeProto]) -> str:
    """Compare all elements of z with ONNX Runtime, for f16[M, 6, 4]; return the statements."""
    reads = {name for one in nodes for name in one.input}
    weights = {name: array for name, array in WEIGHTS.items() if name in reads}
    proto = model(nodes, ["x: f16[M, 6, 4]"], ["z: f16[]"], weights)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    path = saved(tmp_path, proto)
    for rows in (3, 8):
        x = normals((rows, 6, 4), np.float16, rows)
        got = evaluated(path, {"x": x}, {"M": rows})["z"]
        want = expected(path, {"x": x})["z"]
        assert got.shape == want.shape
        assert got.astype(np.float16).tobytes() == want.tobytes()
    return "\n".join(st.expr or "" for st in read_onnx(path).program.statements)


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        ("Reshape(x, flat)", {}),
        ("Reshape(x, heads)", {}),
        ("Flatten(x)", {"axis": 2}),
        ("Flatten(x)", {"axis": 0}),
        ("Transpose(x)", {"perm": [2, 0, 1]}),
        ("Transpose(x)", {}),
        ("Unsqueeze(x, a12)", {}),
        ("Slice(x, l1, m1, l1)", {}),
        ("Slice(x, l1, far1, l1, l2)", {}),
        ("Slice(x, l0, far1, l0)", {}),
        ("Slice(x, m1, far1, l0)", {}),
        ("Concat(x, x, x)", {"axis": -2}),
        ("Gather(x, one)", {"axis": 1}),
        ("Gather(x, minus)", {"axis": 2}),
        ("Gather(x, l2)", {"axis": 1}),
        ("Tile(x, twice)", {}),
        ("Expand(x, wide)", {}),
    ],
)
def test_views_move_the_same_elements(
    tmp_path: Path, text: str, attributes: dict[str, object]
) -> None:
    check(tmp_path, [node(f"z = {text}", **attributes)])


def test_pieces_are_the_same(tmp_path: Path) -> None:
    nodes = [node("a, b = Split(x, parts)", axis=1), node("c, d = Split(b)", axis=2, num_outputs=2)]
    check(tmp_path, [*nodes, node("e = Concat(d, c)", axis=2), node("z = Concat(e, a)", axis=1)])


def test_a_frame_is_the_same(tmp_path: Path) -> None:
    last = node("z = Pad(y, pads)")
    check(tmp_path, [node("y = Reshape(x, flat)"), last])


def test_axes_of_size_one_go(tmp_path: Path) -> None:
    nodes = [node("a = Unsqueeze(x, a12)"), node("b = Squeeze(a, l1)"), node("z = Squeeze(b)")]
    check(tmp_path, nodes)


def test_arithmetic_on_shapes_leaves_no_statement(tmp_path: Path) -> None:
    nodes = [
        node("s = Shape(x)"),
        node("m = Gather(s, zero)"),
        node("k = Gather(s, two)"),
        node("half = Div(k, two)"),
        node("m1d = Unsqueeze(m, l0)"),
        node("half1d = Unsqueeze(half, l0)"),
        node("shape = Concat(m1d, m1, l2, half1d)", axis=0),
        node("y = Reshape(x, shape)"),
        node("w = Cast(k)", to=10),
        node("r = Sqrt(w)"),
        node("z = Div(y, r)"),
    ]
    text = check(tmp_path, nodes)
    assert "reshape(x, M, 6, 2, 2)" in text
    assert len([line for line in text.splitlines() if line]) == 3


def test_a_constant_shape_of_zeros_and_a_clip(tmp_path: Path) -> None:
    zeros = node("c = ConstantOfShape(s)", value=onnx.helper.make_tensor("v", 10, [1], [0.5]))
    nodes = [node("s = Shape(x)"), zeros, node("y = Add(x, c)")]
    low = node("lo = Constant()", value=onnx.helper.make_tensor("v", 10, [], [-0.5]))
    check(tmp_path, [*nodes, low, node("z = Clip(y, lo)")])


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        ("RMSNormalization(x, w)", {}),
        ("LayerNormalization(x, w, b)", {}),
        ("Softmax(x)", {"axis": 1}),
        ("LogSoftmax(x)", {}),
        ("Gelu(x)", {"approximate": "tanh"}),
        ("Softplus(x)", {}),
        ("LeakyRelu(x)", {"alpha": 0.3}),
        ("Relu(x)", {}),
    ],
)
def test_what_is_written_out_is_the_function_body(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    attributes: dict[str, object],
) -> None:
    weights = {"w": normals((8,), np.float16, 1), "b": normals((8,), np.float16, 2)}
    proto = model([node(f"z = {text}", **attributes)], ["x: f16[M, 8]"], ["z: f16[M, 8]"], weights)
    path, x = saved(tmp_path, proto), {"x": normals((64, 8), np.float16, 3)}
    own = evaluated(path, x, {"M": 64})["z"]
    find, op = graph.find, text.partition("(")[0]
    monkeypatch.setattr(graph, "find", lambda d, name: None if name == op else find(d, name))
    body = evaluated(path, x, {"M": 64})["z"]
    assert own.tobytes() == body.tobytes()
