"""Models as exporters and ONNX Runtime write them: nothing is refused, and nothing guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_models import (  # noqa: E402
    evaluated,
    expected,
    model,
    node,
    normals,
    saved,
    value,
    whole_numbers,
)

from lastbit.importers.onnx import read_onnx  # noqa: E402
from lastbit.importers.onnx.blocked import orders  # noqa: E402
from lastbit.importers.onnx.checking import check_onnx  # noqa: E402
from lastbit.importers.onnx.reading import read_model  # noqa: E402
from lastbit.importers.onnx.running import optimised  # noqa: E402
from lastbit.result import Result  # noqa: E402


def rewritten(folder: Path, made: Any, **more: Any) -> Result:
    """Return the verdict on a model and what ONNX Runtime makes of it."""
    before, after = saved(folder, made, "before.onnx"), str(folder / "after.onnx")
    optimised(read_model(before), after)
    return check_onnx(before, after, **more)


def pair(folder: Path, first: Any, second: Any) -> Result:
    return check_onnx(saved(folder, first, "before.onnx"), saved(folder, second, "after.onnx"))


def same_bits(folder: Path, made: Any, inputs: dict[str, Any], **sizes: int) -> None:
    """Hold what lastbit computes against ONNX Runtime, bit for bit."""
    path = saved(folder, made)
    theirs = expected(path, inputs)
    ours = evaluated(path, inputs, sizes)
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        assert array.size
        assert ours[name].astype(array.dtype).tobytes() == array.tobytes(), name


def test_a_weight_under_a_second_name_is_read(tmp_path: Path) -> None:
    nodes = [node("w2 = Identity(w)"), node("t = Add(x, w)"), node("y = Mul(t, w2)")]
    weights = {"w": whole_numbers((4,), np.float32)}
    made = model(nodes, ["x: f32[B, 4]"], ["y: f32[B, 4]"], weights)
    imported = read_onnx(saved(tmp_path, made))
    assert not imported.opaque
    assert list(imported.weights) == ["w"]
    same_bits(tmp_path, made, {"x": whole_numbers((3, 4), np.float32)}, B=3)


def test_the_frame_that_exporters_compute_is_not_turned_round(tmp_path: Path) -> None:
    # [1, 2, 3, 4] of torch's pad(x, (1, 2, 3, 4)) counts from the last axis, in pairs.
    nodes = [
        node("p = Concat(pads, none)", axis=0),
        node("r = Reshape(p, two)"),
        node("s = Slice(r, last, first, zero, back)"),
        node("t = Transpose(s)", perm=[1, 0]),
        node("l = Reshape(t, flat)"),
        node("c = Cast(l)", to=7),
        node("y = Pad(x, c)"),
    ]
    whole = {
        "pads": [1, 2, 3, 4],
        "none": [0, 0],
        "two": [-1, 2],
        "last": [-1],
        "first": [-(2**63) + 1],
        "zero": [0],
        "back": [-1],
        "flat": [-1],
    }
    weights = {name: np.array(numbers, np.int64) for name, numbers in whole.items()}
    made = model(nodes, ["x: f32[2, 3, 5]"], ["y: f32[2, 10, 8]"], weights)
    assert not read_onnx(saved(tmp_path, made)).opaque
    same_bits(tmp_path, made, {"x": whole_numbers((2, 3, 5), np.float32)})


def test_a_shape_with_sizes_that_stay_is_worked_out(tmp_path: Path) -> None:
    # torch's cls.expand(x.shape[0], -1, -1)
    nodes = [
        node("n = Shape(x)", end=1),
        node("wanted = Concat(n, keep, keep)", axis=0),
        node("ones = ConstantOfShape(three)", value=onnx.helper.make_tensor("v", 7, [1], [1])),
        node("minus = Mul(ones, keep)"),
        node("open = Equal(wanted, minus)"),
        node("dims = Where(open, ones, wanted)"),
        node("cls = Expand(w, dims)"),
        node("y = Concat(cls, x)", axis=1),
    ]
    weights = {
        "w": whole_numbers((1, 1, 4), np.float32),
        "keep": np.array([-1], np.int64),
        "three": np.array([3], np.int64),
    }
    made = model(nodes, ["x: f32[B, 2, 4]"], ["y: f32[B, 3, 4]"], weights)
    assert not read_onnx(saved(tmp_path, made)).opaque
    same_bits(tmp_path, made, {"x": whole_numbers((3, 2, 4), np.float32)}, B=3)


def test_an_opaque_operator_has_the_sizes_of_what_it_reads(tmp_path: Path) -> None:
    nodes = [node("s = ScatterElements(x, i, u)", axis=1), node("y = Add(s, x)")]
    made = model(nodes, ["x: f32[B, 4]", "i: i64[B, 2]", "u: f32[B, 2]"], ["y: f32[B, 4]"])
    made.graph.value_info.append(value("s: f32[unk_0, unk_1]"))  # as torch's exporter writes it
    imported = read_onnx(saved(tmp_path, made))
    assert imported.shapes["s"] == ("B", "4")
    assert [one.operator for one in imported.opaque] == ["ScatterElements"]


@pytest.mark.parametrize(
    "text",
    [
        "t = com.microsoft::DynamicQuantizeMatMul(x, w, s)",
        "t = com.microsoft::MatMulIntegerToFloat(q, w, s, s)",
    ],
)
def test_products_of_integers_have_the_sizes_of_products(tmp_path: Path, text: str) -> None:
    nodes = [node(text), node("y = Neg(t)")]
    weights = {"w": np.ones((4, 5), np.int8), "s": np.ones((), np.float32)}
    made = model(nodes, ["x: f32[B, 4]", "q: u8[B, 4]"], ["y: f32[B, 5]"], weights)
    made.graph.value_info.append(value("t: f32[unk_0, unk_1]"))
    imported = read_onnx(saved(tmp_path, made))
    assert imported.shapes["t"] == ("B", "5")
    assert [one.gives for one in imported.opaque] == [("t",)]


@pytest.mark.parametrize(
    ("text", "more", "dims"),
    [
        ("t = com.microsoft::QLinearAdd(q, s, z, p, s, z, s, z)", {}, ("B", "2", "6", "6")),
        ("t = com.microsoft::QLinearSigmoid(q, s, z, s, z)", {}, ("B", "2", "6", "6")),
        ("t = com.microsoft::QLinearConv(q, s, z, w, s, z, s, z)", {}, ("B", "3", "4", "4")),
        (
            "t = com.microsoft::QLinearConv(q, s, z, w, s, z, s, z)",
            {"channels_last": 1},
            ("B", "0", "4", "3"),
        ),
        ("t = QLinearConv(q, s, z, w, s, z, s, z)", {}, ("B", "3", "4", "4")),
    ],
)
def test_operators_of_integers_have_sizes_that_no_file_states(
    tmp_path: Path, text: str, more: dict[str, Any], dims: tuple[str, ...]
) -> None:
    weights = {
        "w": np.ones((3, 6 if more else 2, 3, 3), np.uint8),
        "s": np.ones((), np.float32),
        "z": np.zeros((), np.uint8),
    }
    ends = ["q: u8[B, 2, 6, 6]", "p: u8[1, 6]"], ["y: u8[B, 2]"]
    made = model([node(text, **more), node("y = my::End(t)")], *ends, weights, domains=["my"])
    made.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    imported = read_onnx(saved(tmp_path, made))
    assert imported.shapes["t"] == dims


def test_what_is_computed_twice_and_merged_is_no_other_function(tmp_path: Path) -> None:
    def made(reads: str) -> Any:
        nodes = [
            node("a = Exp(x)"),
            node("b = Neg(a)"),
            node("c = Exp(x)"),
            node("z = Neg(c)"),
            node(f"y = Tanh({reads})"),
        ]
        nodes = nodes if reads == "b" else nodes[2:]
        return model(nodes, ["x: f32[B, 4]"], ["y: f32[B, 4]", "z: f32[B, 4]"])

    result = pair(tmp_path, made("b"), made("z"))
    assert {step.change for step in result.steps} == {"bitwise"}
    assert result.exit_code == 0
    result = pair(tmp_path, made("b"), made("c"))  # tanh(exp(x)) in place of tanh(-exp(x))
    assert [step.change for step in result.steps] == ["math"]


def test_names_that_look_alike_match_by_the_names_of_the_file(tmp_path: Path) -> None:
    ends = ["x: f32[B, 4]"], ["y: f32[B, 4]"]
    first = model([node("a.b = Neg(x)"), node("a_b = Exp(x)"), node("y = Add(a.b, a_b)")], *ends)
    second = model([node("a_b = Exp(x)"), node("a.b = Neg(x)"), node("y = Add(a.b, a_b)")], *ends)
    result = pair(tmp_path, first, second)
    assert (result.decided, result.exit_code) == ((0, 0), 0)
    other = model([node("a_b = Neg(x)"), node("a.b = Exp(x)"), node("y = Sub(a.b, a_b)")], *ends)
    assert "math" in {step.change for step in pair(tmp_path, first, other).steps}


def test_a_result_that_an_opaque_operator_gives_is_matched_by_its_name(tmp_path: Path) -> None:
    def made(*nodes: Any) -> Any:
        proto = model(nodes, ["x: f16[B, 4]"], ["7: f16[B, 4]"], domains=["my"])
        proto.graph.value_info.append(value("t: f16[B, 4]"))
        return proto

    first = made(node("7 = my::Strange(x)"))
    second = made(node("t = my::Strange(x)"), node("7 = Neg(t)"))
    result = pair(tmp_path, first, second)
    assert {step.change for step in result.steps} == {"unknown"}
    assert {f.code for f in result.findings if f.severity == "error"} == {"FUS190"}


def test_equal_weights_are_one_weight_and_another_shape_is_named(tmp_path: Path) -> None:
    w = normals((4,), np.float32)

    def made(name: str, weights: dict[str, Any]) -> Any:
        nodes = [node("t = Add(x, w)"), node(f"y = Mul(t, {name})")]
        return model(nodes, ["x: f32[B, 4]"], ["y: f32[B, 4]"], weights)

    result = pair(tmp_path, made("v", {"w": w, "v": w}), made("w", {"w": w}))
    assert [step.change for step in result.steps] == ["unknown"]  # two weights are two inputs
    result = pair(tmp_path, made("v", {"w": w, "v": w * 2}), made("u", {"w": w, "u": w * 2}))
    assert (result.decided, result.exit_code) == ((0, 0), 0)
    # What held the numbers of w is w, and another weight has its name now.
    swapped = made("u", {"w": w * 2, "u": w})
    swapped.graph.node[0].input[1], swapped.graph.node[1].input[1] = "u", "w"
    result = pair(tmp_path, made("v", {"w": w, "v": w * 2}), swapped)
    assert (result.decided, result.exit_code) == ((0, 0), 0)
    folded = made("v", {"w": w, "v": (w * 2)[None]})
    (step,) = pair(tmp_path, made("v", {"w": w, "v": w * 2}), folded).steps
    assert (step.change, step.notes) == ("unknown", ("`v` holds other numbers in the two models",))


def test_a_constant_that_was_worked_out_is_named(tmp_path: Path) -> None:
    w = whole_numbers((4,), np.float32) + 9
    nodes = [node("v = Neg(w)"), node("y = Add(x, v)")]
    made = model(nodes, ["x: f32[B, 4]"], ["y: f32[B, 4]"], {"w": w})
    (step,) = rewritten(tmp_path, made).steps
    why = "`v` is computed in the first model, and a constant of the second"
    assert (step.change, step.notes) == ("unknown", (why,))


def test_a_value_that_nothing_reads_may_go(tmp_path: Path) -> None:
    made = model([node("t = Neg(x)"), node("y = Exp(x)")], ["x: f32[B, 4]"], ["y: f32[B, 4]"])
    result = rewritten(tmp_path, made)
    assert (result.decided, result.exit_code) == ((0, 0), 0)


@pytest.mark.parametrize("sides", ["A", "B", "AB"])
def test_products_with_turned_batch_axes_are_those_of_onnx_runtime(
    tmp_path: Path, sides: str
) -> None:
    given = {f"transBatch{side}": 1 for side in sides}
    shapes = [(3, 2, 4) if "A" in sides else (2, 3, 4), (4, 2, 5) if "B" in sides else (2, 4, 5)]
    made = model(
        [node("y = com.microsoft::FusedMatMul(a, b)", alpha=0.5, **given)],
        [f"{n}: f32[{', '.join(map(str, s))}]" for n, s in zip("ab", shapes, strict=True)],
        ["y: f32[2, 3, 5]"],
    )
    inputs = {
        n: whole_numbers(s, np.float32, i)
        for i, (n, s) in enumerate(zip("ab", shapes, strict=True))
    }
    same_bits(tmp_path, made, inputs)


@pytest.mark.parametrize(
    ("name", "numbers"),
    [("Clip", [-2.0, 3.0]), ("LeakyRelu", [0.25]), ("HardSigmoid", [0.125, 0.5]), ("Relu", [])],
)
def test_a_convolution_with_its_activation_is_that_of_onnx_runtime(
    tmp_path: Path, name: str, numbers: list[float]
) -> None:
    more = {"activation_params": numbers} if numbers else {}
    made = model(
        [node("y = com.microsoft::FusedConv(x, w, b)", activation=name, **more)],
        ["x: f32[1, 2, 4, 4]"],
        ["y: f32[1, 3, 2, 2]"],
        {"w": whole_numbers((3, 2, 3, 3), np.float32, 1), "b": whole_numbers((3,), np.float32, 2)},
    )
    assert not read_onnx(saved(tmp_path, made)).opaque
    same_bits(tmp_path, made, {"x": whole_numbers((1, 2, 4, 4), np.float32)})


def test_an_activation_that_is_not_known_leaves_an_opaque_convolution(tmp_path: Path) -> None:
    made = model(
        [node("t = com.microsoft::FusedConv(x, w)", activation="HardSwish"), node("y = Neg(t)")],
        ["x: f32[B, 2, 4, 4]"],
        ["y: f32[B, 3, 2, 2]"],
        {"w": whole_numbers((3, 2, 3, 3), np.float32, 1)},
    )
    imported = read_onnx(saved(tmp_path, made))
    assert [one.operator for one in imported.opaque] == ["com.microsoft.FusedConv"]
    assert imported.shapes["t"] == ("B", "3", "2", "2")


def blocked(channels: int) -> Any:
    """Return two convolutions over some channels, of which ONNX Runtime makes blocks."""
    nodes = [
        node("t = Conv(x, a)"),
        node("u = Relu(t)"),
        node("v = Conv(u, b)", pads=[1, 1, 1, 1]),
    ]
    weights = {
        "a": normals((channels, 16, 1, 1), np.float32, 1),
        "b": normals((16, channels, 1, 1), np.float32, 2),
    }
    return model(nodes, ["x: f32[1, 16, 4, 4]"], ["v: f32[1, 16, 6, 6]"], weights)


def test_kernels_whose_channels_are_moved_into_blocks_are_the_same_kernels(
    tmp_path: Path,
) -> None:
    result = rewritten(tmp_path, blocked(16))
    after = read_model(str(tmp_path / "after.onnx"))
    assert "com.microsoft.nchwc" in {one.domain for one in after.nodes}
    assert {step.change for step in result.steps} == {"bitwise"}
    kernels = onnx.load(str(tmp_path / "after.onnx"))
    for tensor in kernels.graph.initializer:
        if tensor.name.startswith("reorder"):
            tensor.raw_data = tensor.raw_data[4:] + tensor.raw_data[:4]
    second = saved(tmp_path, kernels, "other.onnx")
    found = check_onnx(str(tmp_path / "before.onnx"), second)
    assert {step.change for step in found.steps} == {"unknown"}


@pytest.mark.parametrize("block", [8, 16])
@pytest.mark.parametrize("narrow", [False, True])
def test_both_orders_of_blocks_are_undone(block: int, narrow: bool) -> None:
    outs, ins = 32, 3 if narrow else 16
    kernel = np.arange(outs * ins * 6, dtype=np.float32).reshape(outs, ins, 2, 3)
    moved = np.zeros(kernel.size, np.float32)
    at = 0
    inner = 1 if narrow else block
    for o in range(0, outs, block):  # the loops of reorder.cpp
        for i in range(0, ins, inner):
            for h in range(2):
                for w in range(3):
                    for bi in range(inner):
                        for bo in range(block):
                            moved[at] = kernel[o + bo, i + bi, h, w]
                            at += 1
    found = [one.tobytes() for one in orders(moved.reshape(kernel.shape))]
    assert kernel.tobytes() in found


@pytest.mark.parametrize("channels", [8, 20])
def test_blocks_that_are_filled_up_are_read(tmp_path: Path, channels: int) -> None:
    result = rewritten(tmp_path, blocked(channels))
    assert result.steps
    assert all(step.change in ("bitwise", "unknown") for step in result.steps)


def test_a_rounding_of_a_number_that_is_dropped_is_a_rounding(tmp_path: Path) -> None:
    # 0.01 is no number of f16: LeakyRelu rounds it there, and ONNX Runtime keeps it in f32.
    ends = ["x: f16[B, 4]"], ["y: f16[B, 4]"]
    made = model([node("y = LeakyRelu(x)", alpha=0.01)], *ends)
    result = rewritten(tmp_path, made)
    assert "math" not in {step.change for step in result.steps}


def test_a_value_that_one_run_keeps_wider_is_compared_in_the_wider_format(tmp_path: Path) -> None:
    nodes = [node("t = Mul(x, x)"), node("n = InstanceNormalization(t, s, b)"), node("y = Neg(n)")]
    weights = {"s": np.full((2,), 0.75, np.float16), "b": np.zeros((2,), np.float16)}
    ends = ["x: f16[1, 2, 8]"], ["y: f16[1, 2, 8]"]
    result = rewritten(tmp_path, model(nodes, *ends, weights), run=True)
    runs = [note for step in result.steps for note in step.notes if note.startswith("run: `t`")]
    assert runs
    assert all(note.startswith("run: `t` (f32): node by node: all 16 elements") for note in runs)
