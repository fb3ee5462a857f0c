"""`check --weights` compares the numbers of two `.pt2` files, and nothing else reads them.

The files are written here byte by byte: a graph that adds two weights to its input, and storages
whose contents the tests choose, so that names, offsets, strides and bits are known.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lastbit import cli
from lastbit.importers.imported import ImportedFileError
from lastbit.importers.pt2 import payload, weights
from lastbit.importers.pt2.weights import Difference, differences, weight_names

F32, F16, BF16, I64, C128 = 7, 6, 13, 5, 11
NOTE = "2 weights are not compared; --weights compares them"


def meta(dtype: int, sizes: list[int], strides: list[int] | None = None, offset: int = 0) -> Any:
    if strides is None:
        strides = [int(np.prod(sizes[axis + 1 :])) for axis in range(len(sizes))]
    return {
        "dtype": dtype,
        "sizes": [{"as_int": size} for size in sizes],
        "strides": [{"as_int": stride} for stride in strides],
        "storage_offset": {"as_int": offset},
        "layout": 7,
        "device": {"type": "cpu", "index": None},
        "requires_grad": False,
    }


def entry(member: str, tensor: Any) -> dict[str, Any]:
    return {"path_name": member, "is_param": True, "use_pickle": False, "tensor_meta": tensor}


def graph(shapes: dict[str, Any]) -> dict[str, Any]:
    """Return the graph `x + l.weight + b`."""
    tensors = {"x": shapes["w"], "p_w": shapes["w"], "b_b": shapes["b"]}
    results = {"add": shapes["w"], "add_1": shapes["w"]}

    def added(name: str, left: str, right: str) -> dict[str, Any]:
        given = [("self", left), ("other", right)]
        return {
            "target": "torch.ops.aten.add.Tensor",
            "inputs": [
                {"name": key, "arg": {"as_tensor": {"name": value}}, "kind": 1}
                for key, value in given
            ],
            "outputs": [{"as_tensor": {"name": name}}],
            "metadata": {},
        }

    specs = [
        {"parameter": {"arg": {"name": "p_w"}, "parameter_name": "l.weight"}},
        {"buffer": {"arg": {"name": "b_b"}, "buffer_name": "b", "persistent": True}},
        {"user_input": {"arg": {"as_tensor": {"name": "x"}}}},
    ]
    return {
        "schema_version": {"major": 8, "minor": 1},
        "torch_version": "2.13.0",
        "range_constraints": {},
        "graph_module": {
            "graph": {
                "inputs": [],
                "outputs": [{"as_tensor": {"name": "add_1"}}],
                "nodes": [added("add", "x", "p_w"), added("add_1", "add", "b_b")],
                "tensor_values": {**tensors, **results},
                "sym_int_values": {},
            },
            "signature": {
                "input_specs": specs,
                "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "add_1"}}}}],
            },
        },
    }


def written(
    path: Path,
    w: tuple[Any, bytes],
    b: tuple[Any, bytes],
    change: Callable[[dict[str, Any]], None] | None = None,
    order: bytes = b"little",
    compression: int = zipfile.ZIP_STORED,
) -> str:
    """Write a file with a parameter `l.weight` and a buffer `b`."""
    listed = {"l.weight": entry("weight_0", w[0]), "b": entry("weight_1", b[0])}
    listed = json.loads(json.dumps(listed))  # a copy, for `change`
    if change is not None:
        change(listed)
    logical = {name: {**one, "strides": []} for name, one in (("w", w[0]), ("b", b[0]))}
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("m/models/model.json", json.dumps(graph(logical)))
        archive.writestr("m/byteorder", order)
        text = json.dumps({"config": listed})
        archive.writestr("m/data/weights/model_weights_config.json", text)
        archive.writestr("m/data/weights/weight_0", w[1])
        archive.writestr("m/data/weights/weight_1", b[1])
    return str(path)


def floats(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


SIX = floats(1, 2, 3, 4, 5, 6)
ROWS = meta(F32, [2, 3])


def pair(folder: Path, w: tuple[Any, bytes], b: tuple[Any, bytes] = (ROWS, SIX)) -> tuple[str, str]:
    """Write a file with six numbers in each weight, and one with others."""
    before = written(folder / "a.pt2", (ROWS, SIX), (ROWS, SIX))
    return before, written(folder / "b.pt2", w, b)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = cli.run(["check", *arguments])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def test_a_report_says_that_weights_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = run(capsys, *pair(tmp_path, (ROWS, floats(1, 2, 3, 4, 5, 7))))
    assert code == 0
    assert text.count("FUS191 note: " + NOTE) == 1


def test_a_weight_that_differs_is_named_with_its_first_element(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = pair(tmp_path, (ROWS, floats(1, 2, 3, 4, -5, 7)))
    code, text = run(capsys, *files, "--weights")
    assert code == 1
    wanted = (
        "`l.weight` differs in 2 of 6 elements, first at [1, 1]: 0x40a00000 -> 0xc0a00000"  # 5, -5
    )
    assert text.count(f"    {wanted}\n") == 1
    assert f"FUS100: the weight {wanted}" in text
    assert "decided 1 of 1 step; 1 math;" in text
    assert run(capsys, *files, "--weights", "--max-change", "math")[0] == 0
    assert run(capsys, *files, "--weights", "--max-change", "rounding")[0] == 1


def test_equal_weights_are_said_to_be_equal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = run(capsys, *pair(tmp_path, (ROWS, SIX)), "--weights", "--max-change", "bitwise")
    assert code == 0
    assert "FUS191 note: 2 weights are compared: the same bits" in text
    assert "not compared" not in text


def test_signs_of_zero_and_bits_of_nan_count(tmp_path: Path) -> None:
    nan, other = struct.pack("<I", 0x7FC00000), struct.pack("<I", 0x7FC00001)
    before = written(tmp_path / "a.pt2", (ROWS, SIX[:16] + nan + nan), (ROWS, floats(*[0.0] * 6)))
    after = written(
        tmp_path / "b.pt2", (ROWS, SIX[:16] + nan + other), (ROWS, floats(*[0.0] * 5, -0.0))
    )
    assert [str(one) for one in differences(before, after)] == [
        "`l.weight` differs in 1 of 6 elements, first at [1, 2]: 0x7fc00000 -> 0x7fc00001",
        "`b` differs in 1 of 6 elements, first at [1, 2]: 0x00000000 -> 0x80000000",
    ]


def test_offsets_and_strides_are_followed(tmp_path: Path) -> None:
    columns = meta(F32, [2, 3], [1, 2], offset=1)  # the same six numbers, transposed, after one
    files = pair(tmp_path, (columns, floats(9, 1, 4, 2, 5, 3, 6)))
    assert list(differences(*files)) == []
    files = pair(tmp_path, (columns, floats(8, 1, 4, 2, 5, 3, 7)))
    assert [one.text for one in differences(*files)] == [
        "differs in 1 of 6 elements, first at [1, 2]: 0x40c00000 -> 0x40e00000"
    ]


def test_numbers_that_repeat_equal_those_that_are_written_out(tmp_path: Path) -> None:
    repeated = meta(F32, [2, 3], [0, 1])
    before = written(tmp_path / "a.pt2", (repeated, SIX), (ROWS, SIX))
    after = written(tmp_path / "b.pt2", (ROWS, floats(1, 2, 3, 1, 2, 3)), (ROWS, SIX))
    assert list(differences(before, after)) == []


def test_another_type_or_shape_is_a_difference(tmp_path: Path) -> None:
    halves = meta(F16, [2, 3]), bytes(12)
    (found,) = differences(*pair(tmp_path, halves))
    assert found == Difference("p_w", "l.weight", "is f32[2, 3] before and f16[2, 3] after")


@pytest.mark.parametrize(
    ("dtype", "held", "other", "bits"),
    [
        (BF16, b"\x80\x3f", b"\x81\x3f", "0x3f80 -> 0x3f81"),
        (I64, struct.pack("<q", -1), struct.pack("<q", 2), f"0x{'f' * 16} -> 0x{2:016x}"),
        (C128, struct.pack("<2d", 1, 0), struct.pack("<2d", 1, 2),
         "0x00000000000000003ff0000000000000 -> 0x40000000000000003ff0000000000000"),
    ],
)  # fmt: skip
def test_elements_of_every_width_are_compared(
    dtype: int, held: bytes, other: bytes, bits: str, tmp_path: Path
) -> None:
    shape = meta(dtype, [3])
    before = written(tmp_path / "a.pt2", (shape, held * 3), (ROWS, SIX))
    after = written(tmp_path / "b.pt2", (shape, held * 2 + other), (ROWS, SIX))
    assert [one.text for one in differences(before, after)] == [
        f"differs in 1 of 3 elements, first at [2]: {bits}"
    ]


def test_long_weights_are_compared_block_by_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "CHUNK", 4)
    numbers = np.arange(105, dtype="<f4").reshape(3, 5, 7)
    others = numbers.copy()
    others[1, 2, 3] = others[2, 4, 6] = -1
    shape = meta(F32, [3, 5, 7])
    before = written(tmp_path / "a.pt2", (shape, numbers.tobytes()), (ROWS, SIX))
    after = written(tmp_path / "b.pt2", (shape, others.tobytes()), (ROWS, SIX))
    (found,) = differences(before, after)
    assert found.text == (  # 52 = 35 + 14 + 3
        "differs in 2 of 105 elements, first at [1, 2, 3]: 0x42500000 -> 0xbf800000"
    )


def test_only_constants_outside_of_the_graph_are_weights(tmp_path: Path) -> None:
    path, _ = pair(tmp_path, (ROWS, SIX))
    assert weight_names(path) == {"p_w": "l.weight", "b_b": "b"}


def lacking(listed: dict[str, Any]) -> None:
    del listed["l.weight"]


def pickled(listed: dict[str, Any]) -> None:
    listed["l.weight"]["use_pickle"] = True


def sparse(listed: dict[str, Any]) -> None:
    listed["l.weight"]["tensor_meta"]["layout"] = 1


def unknown_type(listed: dict[str, Any]) -> None:
    listed["l.weight"]["tensor_meta"]["dtype"] = 99


def too_long(listed: dict[str, Any]) -> None:
    listed["l.weight"]["tensor_meta"]["storage_offset"] = {"as_int": 1}


def huge(listed: dict[str, Any]) -> None:
    tensor = listed["l.weight"]["tensor_meta"]
    tensor["sizes"], tensor["strides"] = [{"as_int": 2**40}, {"as_int": 3}], [{"as_int": 0}] * 2


def negative(listed: dict[str, Any]) -> None:
    listed["l.weight"]["tensor_meta"]["strides"][0] = {"as_int": -3}


def no_stride(listed: dict[str, Any]) -> None:
    listed["l.weight"]["tensor_meta"]["strides"].pop()


def elsewhere(listed: dict[str, Any]) -> None:
    listed["l.weight"]["path_name"] = "../../../etc/passwd"


def no_object(listed: dict[str, Any]) -> None:
    listed["l.weight"] = []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lacking, "the file holds no numbers of it. Save the model with its weights."),
        (pickled, "it is a pickle, which is not read: it could run any program. "
         "Give the parameter a plain dense type, or compare with --no-weights."),
        (sparse, "it is not dense. Compare with --no-weights."),
        (unknown_type, "it is of the type number 99. Compare with --no-weights."),
        (too_long, "it ends at element 6 of a storage of 6"),
        (negative, "a size or stride is -3"),
        (no_stride, "it has 2 sizes and 1 strides"),
        (elsewhere, "the archive holds no `m/data/weights/../../../etc/passwd`"),
        (no_object, "`tensor_meta` is not an object"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_error(
    change: Callable[[dict[str, Any]], None], message: str, tmp_path: Path
) -> None:
    before = written(tmp_path / "a.pt2", (ROWS, SIX), (ROWS, SIX))
    after = written(tmp_path / "b.pt2", (ROWS, SIX), (ROWS, SIX), change)
    with pytest.raises(ImportedFileError) as caught:
        list(differences(before, after))
    assert f"b.pt2: the weight `l.weight`: {message}" in str(caught.value)


def test_a_size_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.pt2", (ROWS, SIX), (ROWS, SIX), huge)
    monkeypatch.setattr(weights, "MOST_TIMES", 2**50)
    assert refused(path, path).endswith(
        f"the weight `l.weight`: it has {3 * 2**40} elements in a storage of 6. "
        f"At most {payload.MOST_SHARED} are read where elements repeat."
    )


def refused(before: str, after: str) -> str:
    with pytest.raises(ImportedFileError) as caught:
        list(differences(before, after))
    return str(caught.value)


def test_an_archive_of_another_form_is_refused(tmp_path: Path) -> None:
    before = written(tmp_path / "a.pt2", (ROWS, SIX), (ROWS, SIX))
    path = tmp_path / "b.pt2"
    written(path, (ROWS, SIX), (ROWS, SIX), compression=zipfile.ZIP_DEFLATED)
    message = "`m/data/weights/weight_0` is compressed or encrypted. torch.export.save stores it"
    assert message in refused(before, str(path))
    written(path, (ROWS, SIX), (ROWS, SIX), order=b"big")
    assert "its numbers are in the byte order b'big'" in refused(before, str(path))


def test_lists_that_are_damaged_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = written(tmp_path / "a.pt2", (ROWS, SIX), (ROWS, SIX))
    after = written(tmp_path / "b.pt2", (ROWS, SIX), (ROWS, SIX))
    with zipfile.ZipFile(after, "a") as archive:
        archive.writestr("m/data/constants/model_constants_config.json", "[")
    assert "the list is no JSON" in refused(before, after)
    after = written(tmp_path / "b.pt2", (ROWS, SIX), (ROWS, SIX))
    with zipfile.ZipFile(after, "a") as archive:
        listed = json.dumps({"config": {"b": {}}})
        archive.writestr("m/data/constants/model_constants_config.json", listed)
    assert "`b` is given twice. Save one model a file." in refused(before, after)
    monkeypatch.setattr(payload, "MOST_CONFIG", 10)
    assert "At most 10 are read." in refused(before, before)


def test_a_damaged_storage_is_no_difference(tmp_path: Path) -> None:
    before, after = pair(tmp_path, (ROWS, SIX))
    whole = bytearray(Path(after).read_bytes())
    whole[whole.index(SIX)] ^= 1
    Path(after).write_bytes(whole)
    assert "`m/data/weights/weight_0` does not have its checksum" in refused(before, after)


def test_storages_that_are_shared_too_often_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "MOST_TIMES", 0)
    text = refused(*pair(tmp_path, (ROWS, SIX)))
    assert "its weights share storages so often that they are not compared" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a.onnx", "b.onnx"), "--weights is for .pt2 files; those of ONNX always count."),
        (("f.py:f", "--compile"), "Leave out --weights: both sides of --compile share them."),
    ],
)
def test_weights_of_others_are_not_asked_for(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "f.py").write_text("def f(x): return x\n")
    monkeypatch.chdir(tmp_path)
    code, text = run(capsys, *arguments, "--weights")
    assert code == 2
    assert message in " ".join(text.split())
