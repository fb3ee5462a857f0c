"""Tensors in files: numpy's `.npy` and `.npz`, safetensors, and raw bytes, row by row.

Formats that numpy lacks are kept as their codes: bfloat16 as unsigned integers of 16 bits.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from lastbit.errors import InputError, Place, Problem, did_you_mean
from lastbit.files import require_folder, write_bytes_atomically
from lastbit.formats import FORMATS, Format
from lastbit.inference.arrays import NATIVE, NUMPY, codes_of, numpy_type
from lastbit.round_array import Codes, code_type
from lastbit.safetensors_header import Entry, read_header

Found = Mapping[str, tuple[NDArray[Any], Format | None]]

NPY: Final = b"\x93NUMPY"  # how the files begin
ZIP: Final = b"PK\x03\x04"
EMPTY_ZIP: Final = b"PK\x05\x06"
UNREADABLE: Final = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    SyntaxError,  # a header of .npy
    RuntimeError,  # a member that is encrypted, or compressed in a way that Python lacks
)


def read_tensors(path: str) -> Found | NDArray[Any]:
    """Return the tensors of a file by name, or the one tensor of a file that names none.

    Each comes with the format of its codes, or None for numbers and raw words. Raw bytes come as
    an array of bytes.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        suffix = Path(path).suffix
        if suffix == ".npy":
            return {"": (_npy(Path(path)), None)}
        if suffix == ".npz":
            return _npz(Path(path))
        if suffix == ".safetensors":
            return _safetensors(Path(path))
        return np.fromfile(path, np.uint8)
    except UNREADABLE as error:
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise _error(path, f"cannot be read: {reason}") from None
    except MemoryError:
        raise _error(path, "cannot be read: it needs more memory than there is") from None


def _npy(path: Path) -> NDArray[Any]:
    with path.open("rb") as stream:
        if stream.read(len(NPY)) != NPY:
            raise ValueError("it is no .npy file")
        stream.seek(0)
        return _checked(path.name, _loaded(lambda: np.load(stream, allow_pickle=False)))


def _npz(path: Path) -> Found:
    with path.open("rb") as stream:
        if stream.read(len(ZIP)) not in (ZIP, EMPTY_ZIP):
            raise ValueError("it is no .npz file")
        stream.seek(0)
        try:
            with np.load(stream, allow_pickle=False) as found:
                return {
                    name: (_checked(name, _loaded(partial(found.__getitem__, name))), None)
                    for name in found.files
                }
        except (BadZipFile, zlib.error, struct.error, EOFError) as error:
            raise ValueError(f"it is cut off or damaged ({str(error).rstrip('.')})") from None


def _loaded(load: Callable[[], Any]) -> Any:
    try:
        return load()
    except ValueError as error:
        if "allow_pickle" in str(error):  # which is no way out here: files are data
            raise ValueError("its elements are objects, no numbers") from None
        raise


def _checked(name: str, array: Any) -> NDArray[Any]:
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name!r} is no array")
    if array.dtype.kind == "V" and array.dtype.itemsize in (1, 2):  # what ml_dtypes saves as
        return array.view(np.dtype(f"u{array.dtype.itemsize}"))
    if array.dtype.kind not in "fiu":
        raise ValueError(f"its elements are {array.dtype}, no numbers")
    return array


def _safetensors(path: Path) -> Found:
    entries = read_header(path)
    with path.open("rb") as stream:
        return {name: _tensor(stream, entry) for name, entry in entries.items()}


def _tensor(stream: BinaryIO, entry: Entry) -> tuple[NDArray[Any], Format | None]:
    kind = entry.element()
    fmt = FORMATS.get(kind)
    codes = fmt is not None and NUMPY.get(kind, NATIVE[0]) not in NATIVE
    element = code_type(fmt) if fmt and codes else np.dtype(NUMPY.get(kind, kind))
    stream.seek(entry.offset)
    content = stream.read(entry.end - entry.start)
    return np.frombuffer(content, element).reshape(entry.shape), fmt if codes else None


def tensor_in(
    path: str, name: str, fmt: Format, shape: Sequence[int], of: str, *, choose: bool = False
) -> Codes:
    """Return one tensor of a file as codes.

    Args:
        path: the file.
        name: of the tensor; a file with one tensor may call it anything.
        fmt: the format wanted.
        shape: the shape wanted; one with the same sizes besides those of 1 will do.
        of: what the tensor is, for messages.
        choose: whether `path` may name the tensor itself, as FILE:NAME.

    Raises:
        InputError: the file does not hold it.
    """
    named = choose and not Path(path).exists() and ":" in path
    if named:
        path, _, name = path.rpartition(":")
    found = read_tensors(path)
    if isinstance(found, np.ndarray):
        kind = code_type(fmt)
        wanted = math.prod(shape) * kind.itemsize
        if found.nbytes != wanted:
            raise _error(
                path,
                f"holds {found.nbytes} bytes, and {of} takes {wanted} ({fmt.short}{list(shape)})",
                "Raw files hold the codes, row by row.",
            )
        found = {"": (found.view(kind).reshape(tuple(shape)), None)}
    elif not found:
        raise _error(path, "holds no tensors")
    if name not in found and (named or len(found) != 1):
        remedy = did_you_mean(name, found)
        if choose and not named:
            remedy += f" Write {path}:NAME."
        raise _error(path, f"has no tensor {name!r}", remedy)
    array, held = found[name] if name in found else next(iter(found.values()))
    if _long(array.shape) != _long(shape):
        raise _error(path, f"{of} has the shape {list(array.shape)}, not {list(shape)}")
    codes = codes_of(array, held, fmt)
    if isinstance(codes, str):
        raise _error(path, f"{of} holds {codes}", f"Give values or codes of {fmt.short}.")
    return np.ascontiguousarray(codes.reshape(tuple(shape)))


def _long(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]


def require_writable(path: str) -> None:
    """Refuse, before long work, a file to which tensors could not be written after it.

    Raises:
        InputError: the name is of another kind, or there is no such folder.
    """
    if Path(path).suffix != ".npz":
        raise _error(path, "is no .npz file", "Write --write-inputs inputs.npz.")
    require_folder(path)


def write_tensors(path: str, tensors: Mapping[str, tuple[Codes, Format]]) -> None:
    """Write tensors to a `.npz` file: numbers where numpy has the format, else codes.

    Raises:
        InputError: the name is of another kind, or the file cannot be written.
    """
    require_writable(path)
    arrays = {
        name: codes.view(numpy_type(fmt)) if NUMPY.get(fmt.short) in NATIVE else codes
        for name, (codes, fmt) in tensors.items()
    }
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    write_bytes_atomically(path, content.getbuffer())


def _error(path: str, message: str, remedy: str = "") -> InputError:
    return InputError([Problem(message, remedy, Place(path))])
