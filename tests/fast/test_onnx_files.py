"""An ONNX file is data: whatever is in it, there is a model, or one clear error, and soon."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper  # noqa: E402
from onnx_models import model, node, saved, value  # noqa: E402

from lastbit.errors import InputError  # noqa: E402
from lastbit.importers.onnx import read_onnx  # noqa: E402
from lastbit.importers.onnx.reading import inside_folder, read_model  # noqa: E402
from lastbit.printing import print_program  # noqa: E402

IN, OUT = ["x: f16[M, 4]"], ["y: f16[M, 4]"]


def refusal(path: str) -> str:
    """Return the text of the error that a file raises, without the folder."""
    with pytest.raises(InputError) as caught:
        read_onnx(path)
    return str(caught.value).replace(str(Path(path).parent) + os.sep, "")


def made(tmp_path: Path, *nodes: onnx.NodeProto, **more: object) -> str:
    """Write a model of some nodes from x to y."""
    return saved(tmp_path, model(nodes, IN, OUT, **more))  # type: ignore[arg-type]


def test_a_sound_model_is_read(tmp_path: Path) -> None:
    path = made(tmp_path, node("t = Add(x, x)"), node("y = Relu(t)"))
    text = print_program(read_onnx(path).program)
    assert "t: f16 = x + x\ny: f16 = relu(t)" in text


def test_a_file_that_is_cut_off_says_where(tmp_path: Path) -> None:
    path = made(tmp_path, node("y = Relu(x)"), weights={"w": np.ones(4000, np.float32)})
    data = Path(path).read_bytes()
    for length in (1, 10, len(data) // 2, len(data) - 1):
        Path(path).write_bytes(data[:length])
        assert "model.onnx: the file is no ONNX model" in refusal(path)


@pytest.mark.parametrize(
    "content",
    [b"not a model at all", b"PK\x03\x04zip", b"\x00" * 64, b"\xff" * 64, b"\x08\x0a" * 500],
)
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    assert refusal(str(path)).startswith("model.onnx: the file ")


def test_an_empty_file_a_folder_a_pipe_and_no_file_are_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.onnx"
    empty.write_bytes(b"")
    assert refusal(str(empty)).startswith("empty.onnx: the file is empty.")
    folder = tmp_path / "folder.onnx"
    folder.mkdir()
    assert "folder.onnx: " in refusal(str(folder))
    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    assert refusal(str(pipe)) == "pipe.onnx: this is no file. Name an .onnx file."
    missing = refusal(str(tmp_path / "missing.onnx"))
    assert missing == "missing.onnx: cannot be read: No such file or directory."


def test_every_byte_changed_gives_a_model_or_an_error(tmp_path: Path) -> None:
    path = made(
        tmp_path,
        node("t = MatMul(x, w)"),
        node("y = Add(t, x)"),
        weights={"w": np.eye(4, dtype=np.float16)},
    )
    data = Path(path).read_bytes()
    sound = print_program(read_onnx(path).program)
    refused, same, other = 0, 0, 0
    unnamed: list[str] = []
    for at in range(0, len(data), 3):
        Path(path).write_bytes(data[:at] + bytes([data[at] ^ 0x5A]) + data[at + 1 :])
        try:
            text = print_program(read_onnx(path).program)
        except InputError as error:
            refused += 1
            unnamed += [str(one) for one in error.problems if "model.onnx" not in str(one)]
        else:
            same, other = same + (text == sound), other + (text != sound)
    assert not unnamed
    assert refused + same + other == len(range(0, len(data), 3))
    # Most bytes are tags, lengths, and names that must be the same in two places. Those of the
    # numbers of the weight and of the names of nodes show in no program; few others are free.
    assert refused > same > other > 0


def test_a_cycle_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path, node("t = Add(x, y)"), node("y = Relu(t)"))
    assert refusal(path).startswith(
        "model.onnx: Add `t` reads `y` before it is computed: the nodes are not in order, "
        "or form a cycle."
    )


def test_a_value_that_nothing_gives_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path, node("y = Add(x, nowhere)"))
    assert refusal(path).startswith("model.onnx: Add `y` reads `nowhere`, which nothing gives.")


def test_a_name_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path, node("y = Relu(x)"), node("y = Neg(x)"))
    assert refusal(path).startswith("model.onnx: Neg `y` gives `y`, which exists already.")
    made_twice = model([node("y = Relu(x)")], [*IN, *IN], OUT)
    assert "two inputs or weights have one name" in refusal(saved(tmp_path, made_twice))


def test_a_result_that_nothing_gives_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path, node("z = Relu(x)"))
    assert refusal(path).startswith("model.onnx: nothing gives the result `y`.")


def test_a_model_without_results_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, model([node("y = Relu(x)")], IN, []))
    assert refusal(path).startswith("model.onnx: the file holds no graph with a result.")


@pytest.mark.parametrize("where", ["../secret", "/etc/passwd", "a/../../b", "..\\b", ""])
def test_external_data_outside_of_the_folder_is_refused(tmp_path: Path, where: str) -> None:
    proto = model([node("y = Add(x, w)")], IN, OUT, {"w": np.ones(4, np.float16)})
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=where)
    text = refusal(saved(tmp_path, proto))
    assert text.startswith(f"model.onnx: the weight `w` is said to lie in {where!r}, outside the")
    assert text.endswith("Keep external data beside the model.")


def test_external_data_is_not_opened(tmp_path: Path) -> None:
    proto = model([node("y = Add(x, w)")], IN, OUT, {"w": np.ones(4, np.float16)})
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="absent.bin")
    assert read_onnx(saved(tmp_path, proto)).weights == {"w": "w"}


def test_a_link_out_of_the_folder_counts_as_outside(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "link").symlink_to(tmp_path)
    assert not inside_folder(str(tmp_path / "inner" / "m.onnx"), "link/data.bin")
    assert inside_folder(str(tmp_path / "inner" / "m.onnx"), "data.bin")


def test_a_million_nodes_are_refused_before_they_are_parsed(tmp_path: Path) -> None:
    one = node("y = Relu(x)").SerializeToString()
    field = b"\x0a" + bytes([len(one)]) + one  # GraphProto.node
    graph = field * 1_000_000
    size, head = len(graph), b"\x3a"  # ModelProto.graph
    while size > 0x7F:
        head += bytes([size & 0x7F | 0x80])
        size >>= 7
    path = tmp_path / "model.onnx"
    path.write_bytes(head + bytes([size]) + graph)
    start = time.perf_counter()
    assert "it has more than 100000 nodes" in refusal(str(path))
    assert time.perf_counter() - start < 5


def test_weights_are_not_read(tmp_path: Path) -> None:
    weights = {"w": np.ones((4, 4), np.float16), "big": np.zeros(1 << 20, np.float32)}
    path = made(tmp_path, node("y = MatMul(x, w)"), weights=weights)
    found = read_model(path)
    start, end = found.weights["big"].span or (0, 0)
    assert end - start == 4 << 20
    assert not found.weights["big"].tensor.raw_data


def test_a_subgraph_is_opaque_and_what_it_captures_is_read(tmp_path: Path) -> None:
    inner = helper.make_graph([node("r = Mul(t, t)")], "branch", [], [value("r: f16[M, 4]")])
    choice = node("y = If(c)", then_branch=inner, else_branch=inner)
    proto = model([node("t = Relu(x)"), choice], [*IN, "c: bool[]"], OUT)
    imported = read_onnx(saved(tmp_path, proto))
    assert [(one.operator, one.reads) for one in imported.opaque] == [("If", ("c", "t"))]


def test_an_operator_that_nobody_knows_is_opaque_where_its_shape_is_stated(
    tmp_path: Path,
) -> None:
    strange = node("t = my.domain::Strange(x)", level=3)
    path = made(tmp_path, strange, node("y = Relu(t)"))
    assert "is known by its name only (no function body says what it computes)" in refusal(path)
    proto = model([strange, node("y = Relu(t)")], IN, OUT, domains=["my.domain"])
    proto.graph.value_info.append(value("t: f16[M, 4]"))
    (one,) = read_onnx(saved(tmp_path, proto)).opaque
    assert (one.operator, one.reads) == ("my.domain.Strange", ("x",))
    assert one.parameters == "version=1, level=3 of (#0 f16[M, 4])"


def test_products_of_packed_weights_and_attention_with_a_cache_are_opaque(
    tmp_path: Path,
) -> None:
    weights = {"b": np.zeros((32, 1, 8), np.uint8), "s": np.ones((32,), np.float16)}
    nodes = [
        node("q = com.microsoft::MatMulNBits(x, b, s)", N=32, K=16, bits=4, block_size=16),
        node("k = com.microsoft::GroupQueryAttention(q, q, q)", num_heads=2, kv_num_heads=2),
        node("y = Add(k, q)"),
    ]
    proto = model(nodes, ["x: f16[B, S, 16]"], ["y: f16[B, S, 32]"], weights)
    imported = read_onnx(saved(tmp_path, proto))
    first, second = imported.opaque
    assert first.operator == "com.microsoft.MatMulNBits"
    operands = "(#0 f16[B, S, 16], #1 u8[32, 1, 8], #2 f16[32])"
    assert first.parameters == f"version=1, K=16, N=32, bits=4, block_size=16 of {operands}"
    assert first.reads == ("x", "b", "s")
    assert (second.operator, second.reads) == ("com.microsoft.GroupQueryAttention", ("q",))
    assert "k: f16[B, S, 32]" in print_program(imported.program)


def test_functions_that_call_themselves_are_refused(tmp_path: Path) -> None:
    body = [node("t = my::F(a)"), node("b = my::F(t)")]
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("my", 1)]
    function = helper.make_function("my", "F", ["a"], ["b"], body, opsets)
    path = made(tmp_path, node("y = my::F(x)"), functions=[function], domains=["my"])
    assert "is defined by functions that call one another 16 deep" in refusal(path)


def test_functions_of_the_model_are_written_out(tmp_path: Path) -> None:
    body = [node("t = Mul(a, a)"), node("b = Add(t, a)")]
    function = helper.make_function("my", "F", ["a"], ["b"], body, [helper.make_opsetid("", 23)])
    path = made(tmp_path, node("y = my::F(x)"), functions=[function], domains=["my"])
    assert "y__t: f16 = x * x\ny: f16 = y__t + x" in print_program(read_onnx(path).program)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("x: f16[M, 4]|type=99", "`x` has an element type that is not known"),
        ("x: f16[M, 4]|dim=-1", "an axis of `x` has the size -1"),
        ("x: f16[M, 4]|rank=40", "`x` has 42 axes"),
        ("x: f16[M, 4]|type=8", "the input `x` is of type string"),
    ],
)
def test_inputs_of_other_kinds_are_refused(tmp_path: Path, change: str, message: str) -> None:
    proto = model([node("y = Relu(x)")], IN, OUT)
    tensor = proto.graph.input[0].type.tensor_type
    what, number = change.rpartition("|")[2].split("=")
    if what == "type":
        tensor.elem_type = int(number)
    elif what == "dim":
        tensor.shape.dim[1].dim_value = int(number)
    else:
        for _ in range(int(number)):
            tensor.shape.dim.add(dim_value=1)
    assert message in refusal(saved(tmp_path, proto))


def test_shapes_that_do_not_fit_name_the_node(tmp_path: Path) -> None:
    path = made(tmp_path, node("y = MatMul(x, w)"), weights={"w": np.ones((5, 3), np.float16)})
    assert refusal(path).startswith(
        "model.onnx: MatMul `y`: matmul needs [M, K] and [K, N]; given [720, 4] and [5, 3]."
    )


def test_names_with_odd_characters_are_shown_without_them(tmp_path: Path) -> None:
    path = made(tmp_path, node("y = Relu(a\x1b[31m)"))
    assert "reads `a?[31m`, which nothing gives" in refusal(path)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = made(tmp_path, node("y = Relu(x)"))

    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("lastbit.importers.onnx.library.import_module", absent)
    assert refusal(path) == (
        "model.onnx is an ONNX model, and onnx is not installed. Run `pip install 'lastbit[onnx]'`."
    )
