"""What two files give one name to is held against one another: weights, axes, shapes, operators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx_models import expected, model, node, normals, referenced, saved, value  # noqa: E402

from lastbit.errors import InputError  # noqa: E402
from lastbit.importers.onnx.checking import check_onnx  # noqa: E402
from lastbit.importers.onnx.contents import tensor_content  # noqa: E402
from lastbit.importers.onnx.reading import read_model  # noqa: E402
from lastbit.result import Result  # noqa: E402

IN, OUT = ["x: f32[4, 4]"], ["y: f32[4, 4]"]
X = {"x": normals((4, 4), np.float32)}
Made = Any


def pair(folder: Path, first: Made, second: Made, **more: Any) -> Result:
    """Return the verdict on two models."""
    before = saved(folder, first, "before.onnx")
    return check_onnx(before, saved(folder, second, "after.onnx"), **more)


def undecided(result: Result) -> str:
    """Return the note of the one step, which is unknown and fails."""
    (step,) = result.steps
    assert step.change == "unknown"
    assert result.exit_code == 1
    return " ".join(step.notes)


def differ(folder: Path) -> bool:
    """Return whether ONNX's own definition gives the two models other bits."""
    first, second = (referenced(str(folder / f"{n}.onnx"), X)["y"] for n in ("before", "after"))
    return bool(first.tobytes() != second.tobytes())


def made(weights: dict[str, Any], *nodes: Any, **more: Any) -> Made:
    """Return a model of some nodes from x to y."""
    return model(nodes, IN, OUT, weights, **more)


def weighted(w: Any) -> Made:
    """Return x @ w + 1."""
    return made({"w": w}, node("t = MatMul(x, w)"), node("y = Relu(t)"))


@pytest.mark.parametrize("rows", [4, 2000])
def test_another_weight_of_one_name_is_another_value(tmp_path: Path, rows: int) -> None:
    first = normals(
        (rows, 4), np.float32
    )  # 2000 rows: their data is left out when the file is read
    second = first.copy()
    second[-1, -1] = np.nextafter(second[-1, -1], np.float32(9))
    inputs = [f"x: f32[4, {rows}]"]
    models = [model([node("y = MatMul(x, w)")], inputs, OUT, {"w": w}) for w in (first, second)]
    assert undecided(pair(tmp_path, *models)) == "`w` holds other numbers in the two models"
    assert not pair(tmp_path, models[0], models[0]).steps


def test_minus_zero_is_another_weight(tmp_path: Path) -> None:
    zeros = np.zeros((4, 4), np.float32)
    assert "other numbers" in undecided(pair(tmp_path, weighted(zeros), weighted(-zeros)))


def test_how_a_weight_is_written_does_not_matter(tmp_path: Path) -> None:
    for rows in (4, 2000):
        w = normals((rows, 4), np.float32)
        inputs = [f"x: f32[4, {rows}]"]
        raw, listed = (model([node("y = MatMul(x, w)")], inputs, OUT, {"w": w}) for _ in range(2))
        tensor = listed.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.float_data.extend(w.ravel())
        same = pair(tmp_path, raw, listed)
        assert not same.steps if rows == 4 else same.exit_code == 1  # a large list is not read
        assert not pair(tmp_path, listed, listed).steps
        tensor.float_data[0] += 1
        assert "other numbers" in undecided(pair(tmp_path, raw, listed))


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64", "i8", "i64", "u32", "bool"])
def test_typed_fields_hold_what_raw_data_holds(kind: str) -> None:
    types = {"f16": 10, "bf16": 16, "f32": 1, "f64": 11, "i8": 3, "i64": 7, "u32": 12, "bool": 9}
    numbers = [0, 1] if kind in ("bool", "u32") else [-1, 2]
    typed = helper.make_tensor("w", types[kind], [2], numbers)
    raw = numpy_helper.from_array(numpy_helper.to_array(typed), "w")
    assert raw.raw_data
    assert not typed.raw_data
    assert tensor_content("m.onnx", typed) == tensor_content("m.onnx", raw)


def cumulated(axis: int, **attributes: int) -> Made:
    """Return the running sum of x along an axis."""
    sums = node("c = CumSum(x, axis)", **attributes)
    return made({"axis": np.int64(axis)}, sums, node("y = Relu(c)"))


def test_the_axis_of_an_operator_that_is_known_by_its_name_only_counts(tmp_path: Path) -> None:
    text = undecided(pair(tmp_path, cumulated(0), cumulated(1)))
    assert text.startswith(
        "`c`, in the first model, is given by CumSum, which is known by its name"
    )
    assert differ(tmp_path)
    undecided(pair(tmp_path, cumulated(0), cumulated(0, exclusive=1)))
    assert differ(tmp_path)
    assert not pair(tmp_path, cumulated(0), cumulated(0)).steps


def direct(axis: int) -> Made:
    """Return a model whose result is that of an operator known by its name only."""
    return made({"axis": np.int64(axis)}, node("y = CumSum(x, axis)"))


def chained(axis: int) -> Made:
    """Return a model in which another such operator reads the first one's result."""
    sums = node("c = CumSum(x, axis)"), node("y = CumSum(c, zero)")
    return made({"axis": np.int64(axis), "zero": np.int64(0)}, *sums)


def constant(axis: int) -> Made:
    """Return a model whose axis is a node, not an initializer."""
    held = numpy_helper.from_array(np.array(axis), "axis")
    return made({}, node("axis = Constant()", value=held), node("y = CumSum(x, axis)"))


def permuted(axis: int) -> Made:
    """Return a model whose rows are gathered by a list of integers in a node."""
    held = numpy_helper.from_array(np.array([axis, 0, 1, 2]), "rows")
    return made({}, node("rows = Constant()", value=held), node("y = Gather(x, rows)", axis=0))


def table(axis: int) -> Made:
    """Return x plus a table of numbers in a node."""
    held = numpy_helper.from_array(np.full((4, 4), axis, np.float32), "t")
    return made({}, node("t = Constant()", value=held), node("y = Add(x, t)"))


def sparse(axis: int) -> Made:
    """Return x plus a table that holds one number, at another place."""
    out = made({}, node("y = Add(x, t)"))
    values = numpy_helper.from_array(np.array([1], np.float32), "t")
    indices = numpy_helper.from_array(np.array([axis]), "")
    out.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4, 4]))
    return out


def swapped(axis: int) -> Made:
    """Return an operator that reads one of two values twice."""
    names = "a, b, a" if axis else "a, b, b"
    out = made({}, node("a = Relu(x)"), node("b = Neg(x)"), node(f"t = my.domain::Op({names})"))
    out.graph.node.append(node("y = Relu(t)"))
    out.graph.value_info.append(value("t: f32[4, 4]"))
    return out


def second_result(axis: int) -> Made:
    """Return the first or the second result of an operator."""
    gives = "t, u" if axis else "u, t"
    out = made({}, node(f"{gives} = my.domain::Op(x)"), node("y = Relu(t)"))
    out.graph.value_info.extend([value("t: f32[4, 4]"), value("u: f32[4, 4]")])
    return out


def named(axis: int) -> Made:
    """Return an operator with a long text as an attribute."""
    out = made({}, node("t = my.domain::Op(x)", label="a" * 200 + str(axis)), node("y = Relu(t)"))
    out.graph.value_info.append(value("t: f32[4, 4]"))
    return out


def branched(axis: int) -> Made:
    """Return a choice whose branches read a constant from outside."""
    inner = [
        helper.make_graph([node(f"r = {op}(t, k)")], op, [], [value("r: f32[4, 4]")])
        for op in ("Mul", "Add")
    ]
    choice = node("y = If(c)", then_branch=inner[0], else_branch=inner[1])
    weights = {"k": np.float32(axis)}
    return model([node("t = Relu(x)"), choice], [*IN, "c: bool[]"], OUT, weights)


@pytest.mark.parametrize(
    "build",
    [
        direct,
        chained,
        constant,
        permuted,
        table,
        sparse,
        swapped,
        second_result,
        named,
        branched,
    ],
)
def test_what_tells_two_models_apart_is_seen(tmp_path: Path, build: Callable[[int], Made]) -> None:
    assert pair(tmp_path, build(0), build(1)).exit_code == 1
    assert not pair(tmp_path, build(1), build(1)).steps


@pytest.mark.parametrize("build", [direct, chained, constant, permuted, table])
def test_these_models_do_differ(tmp_path: Path, build: Callable[[int], Made]) -> None:
    pair(tmp_path, build(0), build(1))
    assert differ(tmp_path)


def test_another_version_of_an_operator_is_another_one(tmp_path: Path) -> None:
    nodes = [node("t = Hardmax(x)"), node("y = Relu(t)")]  # of all behind axis 1, then of the last
    first, second = (model(nodes, IN, OUT, opset=version) for version in (11, 13))
    undecided(pair(tmp_path, first, second))


def test_a_weight_in_one_model_and_an_input_in_the_other_are_two_values(tmp_path: Path) -> None:
    given = model([node("y = MatMul(x, w)")], [*IN, "w: f32[4, 4]"], OUT)
    held = model([node("y = MatMul(x, w)")], IN, OUT, {"w": np.eye(4, dtype=np.float32)})
    text = undecided(pair(tmp_path, given, held))
    assert text == "`w` is a constant in one model and an input in the other"


def outside(location: str, offset: str = "0", length: str = "64") -> Made:
    """Return a model whose weight lies in another file."""
    out = weighted(np.ones((4, 4), np.float32))
    tensor = out.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=text)
    return out


def test_weights_in_other_files_are_equal_where_file_and_part_are(tmp_path: Path) -> None:
    one = outside("a.bin")
    assert not pair(tmp_path, one, one).steps
    why = "`w` may hold other numbers: it lies in another file, not opened here"
    for other in (
        outside("b.bin"),
        outside("a.bin", "64"),
        outside("a.bin", length="32"),
        weighted(np.ones((4, 4), np.float32)),
    ):
        assert undecided(pair(tmp_path, one, other)) == why
    (tmp_path / "other").mkdir()
    before = saved(tmp_path, one, "before.onnx")
    elsewhere = saved(tmp_path / "other", one, "after.onnx")
    assert undecided(check_onnx(before, elsewhere)) == why


def test_nothing_that_differs_and_other_bits_in_a_run_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    first, second = (weighted(normals((4, 4), np.float32, seed)) for seed in (0, 1))
    monkeypatch.setattr("lastbit.importers.onnx.comparing.other_weights", lambda *_: [])
    result = pair(tmp_path, first, second, run=True)  # as if the comparison had missed it
    assert not result.steps
    assert result.exit_code == 1
    (found,) = [one for one in result.findings if one.severity == "error"]
    assert "gives other bits for `y` than this file, and nothing that was compared differs" in (
        found.message
    )
    one, other = (expected(str(tmp_path / f"{n}.onnx"), X)["y"] for n in ("before", "after"))
    assert one.tobytes() != other.tobytes()
    assert pair(tmp_path, first, first, run=True).exit_code == 0


def test_a_result_that_is_computed_alike_is_not_said_to_be_unread(tmp_path: Path) -> None:
    ends = ["x: f32[8, 60]"], ["y: f32[8, 1]"]
    weights = {"axes": np.array([-1]), "n": np.float32(60)}
    mean = model([node("y = ReduceMean(x, axes)")], *ends, {"axes": np.array([-1])})
    total = model([node("s = ReduceSum(x, axes)"), node("y = Div(s, n)")], *ends, weights)
    (step,) = pair(tmp_path, mean, total).steps
    assert step.change == "bitwise"
    assert step.notes == (
        "what the program returns is computed as before; only values on the way to it differ",
    )


def test_large_data_is_read_only_when_it_is_compared(tmp_path: Path) -> None:
    path = saved(tmp_path, weighted(np.ones((64, 64), np.float32)))
    assert read_model(path).weights["w"].span is not None


def test_an_input_of_another_type_is_refused(tmp_path: Path) -> None:
    cast = node("y = Cast(x)", to=TensorProto.FLOAT)
    first, second = (model([cast], [f"x: {kind}[4, 4]"], OUT) for kind in ("f32", "f16"))
    with pytest.raises(InputError, match="has no input `x` of this type and shape"):
        pair(tmp_path, first, second)
