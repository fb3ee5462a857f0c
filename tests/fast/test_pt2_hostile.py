"""Damaged and hostile `.pt2` files give one clear error each, in bounded time and memory."""

from __future__ import annotations

import json
import random
import resource
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastbit.errors import InputError
from lastbit.importers.imported import ImportedFileError
from lastbit.importers.pt2 import archive, read_pt2, reader

LAYER = Path(__file__).parents[1] / "data" / "pt2" / "qwen3_layer.pt2"


def model() -> dict[str, Any]:
    with zipfile.ZipFile(LAYER) as stored:
        return json.loads(stored.read("qwen3_layer/models/model.json"))


def packed(folder: Path, text: str | bytes, name: str = "m/models/model.json") -> str:
    path = folder / "hostile.pt2"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as stored:
        stored.writestr(name, text)
    return str(path)


def refused(path: str) -> str:
    with pytest.raises(ImportedFileError) as caught:
        read_pt2(path)
    return str(caught.value)


def nodes(changed: dict[str, Any]) -> list[Any]:
    found: list[Any] = changed["graph_module"]["graph"]["nodes"]
    return found


def silu(changed: dict[str, Any]) -> Any:
    return next(node for node in nodes(changed) if "silu" in node["target"])


def undefined(changed: dict[str, Any]) -> None:
    silu(changed)["inputs"][0]["arg"]["as_tensor"]["name"] = "nowhere"


def cyclic(changed: dict[str, Any]) -> None:
    silu(changed)["inputs"][0]["arg"]["as_tensor"]["name"] = "silu"


def twice(changed: dict[str, Any]) -> None:
    nodes(changed).append(silu(changed))


def no_shape(changed: dict[str, Any]) -> None:
    del changed["graph_module"]["graph"]["tensor_values"]["silu"]


def unknown_type(changed: dict[str, Any]) -> None:
    changed["graph_module"]["graph"]["tensor_values"]["silu"]["dtype"] = 99


def negative(changed: dict[str, Any]) -> None:
    changed["graph_module"]["graph"]["tensor_values"]["silu"]["sizes"][1] = {"as_int": -1}


def code_as_size(changed: dict[str, Any]) -> None:
    size = {"as_expr": {"expr_str": "__import__('os').system('true')", "hint": None}}
    changed["graph_module"]["graph"]["tensor_values"]["silu"]["sizes"][0] = size


def no_result(changed: dict[str, Any]) -> None:
    changed["graph_module"]["signature"]["output_specs"][0] = {
        "user_output": {"arg": {"as_tensor": {"name": "nowhere"}}}
    }


def list_for_text(changed: dict[str, Any]) -> None:
    silu(changed)["target"] = []


def two_members(changed: dict[str, Any]) -> None:
    silu(changed)["inputs"][0]["arg"]["as_int"] = 1


def older(changed: dict[str, Any]) -> None:
    changed["schema_version"]["major"] = 7


def nothing(changed: dict[str, Any]) -> None:
    changed["graph_module"]["graph"]["nodes"] = []
    changed["graph_module"]["signature"]["output_specs"] = []


def outputless(changed: dict[str, Any]) -> None:
    changed["graph_module"]["graph"]["outputs"] = []


def other_shape(changed: dict[str, Any]) -> None:
    name = silu(changed)["outputs"][0]["as_tensor"]["name"]
    meta = changed["graph_module"]["graph"]["tensor_values"][name]
    meta["sizes"] = [{"as_int": 3}, {"as_int": 7}]


def other_view(changed: dict[str, Any]) -> None:
    view = next(node for node in nodes(changed) if "aten.view." in node["target"])
    for one in view["inputs"]:
        if one["name"] == "size":
            one["arg"] = {"as_ints": [7, 7, 7]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (undefined, "(torch.ops.aten.silu.default): reads `nowhere`, which no earlier node gives"),
        (cyclic, "(torch.ops.aten.silu.default): reads `silu`, which no earlier node gives"),
        (twice, "(torch.ops.aten.silu.default): `silu` is given twice"),
        (no_shape, "`silu` has no format and shape"),
        (unknown_type, "`silu` is of the type number 99"),
        (negative, "a size is -1"),
        (code_as_size, "is no size"),
        (no_result, "the outputs: the result `nowhere` is given by no node"),
        (list_for_text, "`target` is not a text"),
        (two_members, "an argument is no object with one member"),
        (older, "its graph has schema version 7. Version 8 is read (torch 2.8 to 2.13)."),
        (nothing, "the graph returns no tensor"),
        (outputless, "the outputs: the graph gives 0 results, and its signature names 1"),
        (other_shape, "the graph: `silu` is stated as [3, 7], and computed as [2, 8, "),
        (other_view, "it gives the sizes [7, 7, 7], and its result is stated as [s77, 8, "),
    ],
)
def test_a_damaged_graph_is_one_error_with_its_node(
    change: Callable[[dict[str, Any]], None], message: str, tmp_path: Path
) -> None:
    changed = model()
    change(changed)
    assert message in refused(packed(tmp_path, json.dumps(changed)))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("m/models/model.json", "{", "its graph is no JSON"),
        ("m/models/model.json", "[" * 100_000, "its graph is nested too deeply"),
        ("m/models/model.json", "[]", "its graph has no `schema_version`"),
        ("m/models/model.json", b"\xff\xfe\x00", "its graph is no JSON"),
        ("m/data.pkl", b"\x80\x04.", "this is a pickle, which is not read"),
        ("m/other", "", "the archive holds no models/*.json"),
        ("serialized_exported_program.json", "{}", "in the form of torch 2.7 and before"),
        ("../../models/model.json", "{}", "a path that leads out of it"),
        ("/etc/models/model.json", "{}", "a path that leads out of it"),
    ],
)
def test_another_archive_says_what_it_is(
    name: str, text: str | bytes, message: str, tmp_path: Path
) -> None:
    assert message in refused(packed(tmp_path, text, name))


def test_what_is_no_file_or_no_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pt2"
    assert "cannot be read: No such file or directory" in refused(str(path))
    path.write_bytes(b"no zip")
    assert "this is no sound zip archive" in refused(str(path))
    path.write_bytes(LAYER.read_bytes()[:-40])
    assert "this is no sound zip archive" in refused(str(path))
    whole = bytearray(LAYER.read_bytes())
    whole[200] ^= 0xFF
    path.write_bytes(bytes(whole))
    assert "x.pt2: " in refused(str(path))
    assert "this is no regular file" in refused(str(tmp_path))


def test_a_zip_bomb_is_refused_before_it_unfolds(tmp_path: Path) -> None:
    path = packed(tmp_path, b"[" + b" " * (archive.MOST_JSON + 1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    assert f"its graph has {archive.MOST_JSON + 2} bytes" in refused(path)
    assert time.monotonic() - start < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64_000  # KiB


def test_an_archive_that_lies_about_a_length_is_refused(tmp_path: Path) -> None:
    path = Path(packed(tmp_path, b"[" + b" " * 4_000_000))
    whole = path.read_bytes()
    real, small = (4_000_001).to_bytes(4, "little"), (100).to_bytes(4, "little")
    path.write_bytes(whole.replace(real, small))
    assert refused(str(path))


def test_a_million_nodes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST_NODES", 1000)  # the same loop, at a size that is fast
    changed = model()
    check = {"target": "torch.ops.aten._assert_scalar.default", "inputs": [], "outputs": []}
    changed["graph_module"]["graph"]["nodes"] = [check] * 1001
    assert "there are more than 1000 nodes" in refused(packed(tmp_path, json.dumps(changed)))


def test_an_operator_with_arguments_of_other_kinds_is_opaque(tmp_path: Path) -> None:
    changed = model()
    for node in nodes(changed):
        if node["target"].startswith("torch.ops.aten.transpose"):
            node["inputs"][1]["arg"] = {"as_string": "first"}
    found = read_pt2(packed(tmp_path, json.dumps(changed)))
    assert {one.operator for one in found.opaque} == {"aten.transpose"}
    call = 'aten.transpose.int(self=_, dim0=as_string "first", dim1=as_int 2)'
    assert found.opaque[0].parameters == call


JUNK = (None, True, -1, 3, 2**70, 1.5, "", "x", "silu", [], {}, [1], {"as_int": 3}, "Infinity")


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of everything in some JSON."""
    found = [path]
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in pairs:
            found += places(inner, (*path, key))
    return found


def changed_at_random(seed: int) -> dict[str, Any]:
    """Return the model with one place of its JSON replaced by junk."""
    draw = random.Random(seed)
    changed = model()
    del changed["graph_module"]["module_call_graph"]  # nothing reads it
    path = draw.choice([path for path in places(changed) if path and "metadata" not in path])
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = draw.choice(JUNK)
    return changed


def test_whatever_is_changed_is_read_or_refused(tmp_path: Path) -> None:
    whole = read_pt2(str(LAYER))
    alike, otherwise, messages = 0, 0, []
    for seed in range(60):
        path = packed(tmp_path, json.dumps(changed_at_random(seed)))
        try:
            found = read_pt2(path)
        except InputError as error:
            messages.append(str(error))
            continue
        assert found.results, seed
        alike += found.program == whole.program
        otherwise += found.program != whole.program
    assert (alike, otherwise, len(messages)) == (27, 3, 30)
    assert all(text.startswith(f"{tmp_path}/hostile.pt2: ") for text in messages)
    assert not any("\n" in text for text in messages)


def test_a_number_of_too_many_digits_is_refused_in_words_of_the_file(tmp_path: Path) -> None:
    text = json.dumps(model()).replace('"as_int": 8', f'"as_int": {"9" * 5000}', 1)
    message = refused(packed(tmp_path, text))
    assert message.endswith(
        "its graph holds a number of more digits than any size or constant has. "
        "The file is damaged; write it again."
    )
