"""The values of constants in a `.pt2` file: plain bytes, which are read within bounds.

Constants of one element are numbers of the graph. Of larger ones a digest says which are equal.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from typing import Any

from lastbit.importers.imported import is_float
from lastbit.plan_model import Distribution

MOST_BYTES = 256 * 2**20  # of all constants of a file
MOST_CONFIG = 16 * 2**20  # bytes of their list

_CONFIG = "/data/constants/model_constants_config.json"
_CODES = {
    1: "<B", 2: "<b", 3: "<h", 4: "<i", 5: "<q", 6: "<e", 7: "<f", 8: "<d", 12: "<?",
}  # fmt: skip
_BF16 = 13


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of a file.

    Attributes:
        digest: of its type, sizes and bytes.
        number: its value, where it has one element.
    """

    digest: str
    number: int | float | bool | None


def read_constants(path: str) -> Mapping[str, Constant]:
    """Return the constants of a file that can be read, by their names there.

    Args:
        path: the file, as the user named it; its graph was read.
    """
    found: dict[str, Constant] = {}
    left = MOST_BYTES
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(_CONFIG)]
            if len(names) != 1 or archive.getinfo(names[0]).file_size > MOST_CONFIG:
                return found
            with archive.open(names[0]) as stream:
                config = json.loads(stream.read(MOST_CONFIG))
            folder = names[0].rpartition("/")[0]
            for name, entry in config.get("config", {}).items():
                member = f"{folder}/{entry['path_name']}"
                size = archive.getinfo(member).file_size
                if size > left:
                    continue
                left -= size
                with archive.open(member) as stream:
                    found[name] = _constant(entry, stream.read(size))
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, RecursionError,
            KeyError, TypeError, AttributeError, NotImplementedError, RuntimeError):  # fmt: skip
        pass  # what cannot be read stays an input of its name
    return found


def drawn_for(dtype: str) -> Distribution:
    """Return how a constant's values are drawn where they are not written out."""
    if is_float(dtype):
        return Distribution("normal", (Fraction(0), Fraction(1)))
    return Distribution("integers", (Fraction(0), Fraction(1)))


def _constant(entry: Mapping[str, Any], held: bytes) -> Constant:
    meta = entry["tensor_meta"]
    facts = [meta.get(key) for key in ("dtype", "sizes", "strides", "storage_offset")]
    text = json.dumps([*facts, entry.get("use_pickle")], sort_keys=True).encode()
    digest = blake2b(text + b"\0" + held, digest_size=8).hexdigest()
    single = all(size == {"as_int": 1} for size in meta["sizes"]) and not entry.get("use_pickle")
    return Constant(digest, _number(meta["dtype"], held) if single else None)


def _number(dtype: int, held: bytes) -> int | float | bool | None:
    if dtype == _BF16 and len(held) == 2:
        code, held = "<f", b"\0\0" + held
    else:
        code = _CODES.get(dtype, "")
    if not code or struct.calcsize(code) != len(held):
        return None
    value: int | float | bool = struct.unpack(code, held)[0]
    return value
