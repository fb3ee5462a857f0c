"""The header of a safetensors file says where bytes lie, and each of its own mistakes is told."""

import json
import struct
from pathlib import Path

import pytest

from lastbit.comparing.elements import ELEMENTS
from lastbit.safetensors_header import TYPES, read_header


def written(path: Path, header: object, content: bytes = b"") -> str:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content)
    return str(path)


def test_bytes_lie_behind_the_header(tmp_path: Path):
    header = {
        "__metadata__": {"made": "by hand"},
        "a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
        "b": {"dtype": "BF16", "shape": [], "data_offsets": [2, 4]},
    }
    path = written(tmp_path / "x", header, b"\1\2\x80\x3f")
    found = read_header(path)
    assert list(found) == ["a", "b"]
    whole = Path(path).read_bytes()
    entry = found["b"]
    assert (entry.element(), entry.shape) == ("bf16", ())
    assert whole[entry.offset : entry.offset + 2] == b"\x80\x3f"


def test_every_type_has_the_width_of_its_elements():
    assert dict(TYPES.values()) == {name: one.bytes for name, one in ELEMENTS.items()}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (
            {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]},
            "the entry of 'w' has another form",
        ),
        ({"dtype": "F32", "shape": [1]}, "the entry of 'w' has another form"),
        ({"dtype": 1, "shape": [1], "data_offsets": [0, 4]}, "the entry of 'w' has another form"),
    ],
)
def test_an_entry_of_another_form_is_refused(tmp_path: Path, entry: object, said: str):
    path = written(tmp_path / "x", {"w": entry}, bytes(4))
    with pytest.raises(ValueError, match=said):
        read_header(path)
