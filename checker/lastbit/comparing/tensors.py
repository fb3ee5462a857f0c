"""Tensors in files, read block by block: `.npy`, `.npz`, `.safetensors`, raw bytes, `.pt`.

The header of `.npy` is that of NEP 1; `.npz` is a zip of such files. A `.pt` file is read by torch,
weights only.
"""

from __future__ import annotations

import math
import os
import pickle
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, Protocol, cast

import numpy as np

from lastbit.comparing.elements import ELEMENTS, Codes, Element
from lastbit.errors import InputError, Place, Problem
from lastbit.safetensors_header import read_header

SUFFIXES: Final = (".npy", ".npz", ".safetensors", ".pt", ".pth")


class Source(Protocol):
    """A stream of bytes."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer from its start; return how many bytes came, 0 at the end."""

    def close(self) -> None:
        """Let go of it."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor whose elements can be read again and again.

    Attributes:
        name: in its file; empty where the file holds one tensor without a name.
        element: the type of its elements.
        shape: sizes.
        opened: opens a stream at its first element, row by row.
        swapped: whether its bytes are in big-endian order.
    """

    name: str
    element: Element
    shape: tuple[int, ...]
    opened: Callable[[], Source]
    swapped: bool = False

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    def blocks(self, size: int) -> Iterator[Codes]:
        """Yield its codes, `size` at a time and at last fewer; a block lives until the next.

        Raises:
            InputError: the file ends too early, or cannot be read any more.
        """
        kind = self.element.code_type
        buffer = np.empty(min(size, self.size), kind)
        with closing(self.opened()) as stream:
            for start in range(0, self.size, size):
                block = buffer[: min(size, self.size - start)]
                _fill(stream, memoryview(cast(Any, block)).cast("B"), self.name)
                yield block.byteswap() if self.swapped else block


def _fill(stream: Source, buffer: memoryview, name: str) -> None:
    filled = 0
    while filled < len(buffer):
        got = stream.readinto(buffer[filled:])
        if not got:
            raise ValueError(f"{name!r} is cut off")
        filled += got


def read_tensors(
    path: str, element: Element | None = None, shape: tuple[int, ...] | None = None
) -> Mapping[str, Tensor]:
    """Return the tensors of a file by name; their elements are not read yet.

    Args:
        path: the file.
        element: what its codes mean, where the file does not say: raw files, and elements that
            numpy does not know.
        shape: of a raw file.

    Raises:
        InputError: the file cannot be read, or holds what is no tensor of numbers.
    """
    suffix = Path(path).suffix
    with explained(path):
        if suffix == ".npy":
            tensors = [_npy(path)]
        elif suffix == ".npz":
            tensors = _npz(path)
        elif suffix == ".safetensors":
            tensors = _safetensors(path)
        elif suffix in (".pt", ".pth"):
            tensors = _torch(path)
        else:
            tensors = [_raw(path, element, shape)]
    found = {tensor.name: read_as(tensor, element) for tensor in tensors}
    if len(found) < len(tensors):
        raise _error(path, "holds two tensors of one name")
    return found


@contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn what reading a file raises into one error that names the file.

    Raises:
        InputError: in place of it.
    """
    try:
        yield
    except (OSError, ValueError, EOFError, KeyError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise _error(path, f"cannot be read: {reason}") from None
    except (zipfile.BadZipFile, zlib.error) as error:
        raise _error(path, f"cannot be read: it is damaged ({str(error).rstrip('.')})") from None


def read_as(tensor: Tensor, element: Element | None) -> Tensor:
    """Return a tensor of unsigned integers as codes of another type of their width."""
    if element is None or element.bytes != tensor.element.bytes:
        return tensor
    return replace(tensor, element=element) if tensor.element.sort == "unsigned" else tensor


def _raw(path: str, element: Element | None, shape: tuple[int, ...] | None) -> Tensor:
    if element is None:
        known = ", ".join(SUFFIXES)
        raise _error(path, f"says nothing of its elements; files that do end in {known}",
                     "Give --as FORMAT, and --shape if it has rows.")  # fmt: skip
    bytes_ = os.path.getsize(path)
    shape = shape if shape is not None else (bytes_ // element.bytes,)
    if math.prod(shape) * element.bytes != bytes_:
        text = f"holds {bytes_} bytes, and {element.name}{list(shape)} takes"
        raise _error(path, f"{text} {math.prod(shape) * element.bytes}")
    return Tensor("", element, shape, partial(_opened_at, path, 0))


def _opened_at(path: str, offset: int) -> Source:
    stream = Path(path).open("rb", buffering=0)  # noqa: SIM115 - whoever reads it closes it
    stream.seek(offset)
    return stream


def _npy(path: str) -> Tensor:
    with Path(path).open("rb") as stream:
        element, shape, swapped = _npy_header(stream)
        return Tensor("", element, shape, partial(_opened_at, path, stream.tell()), swapped)


def _npy_header(stream: IO[bytes]) -> tuple[Element, tuple[int, ...], bool]:
    """Read the header of `.npy`, behind which the stream then stands.

    Returns:
        the type of the elements, the sizes, and whether the bytes are in big-endian order.
    """
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, by_columns, kind = np.lib.format.read_array_header_1_0(stream)
    else:
        shape, by_columns, kind = np.lib.format.read_array_header_2_0(stream)
    if by_columns and len(shape) > 1:
        raise ValueError("its elements lie column by column; save it with numpy.ascontiguousarray")
    element, shape = _numpy_element(kind, shape)
    swapped = kind.byteorder == ">" or (kind.byteorder == "=" and sys.byteorder == "big")
    return element, shape, swapped


def _numpy_element(kind: np.dtype[Any], shape: tuple[int, ...]) -> tuple[Element, tuple[int, ...]]:
    if kind.kind == "V" and kind.names is None and kind.itemsize in (1, 2):
        return ELEMENTS[f"uint{8 * kind.itemsize}"], shape  # as numpy saves what it does not know
    if kind.kind == "c" and kind.itemsize in (8, 16):
        return ELEMENTS[f"f{4 * kind.itemsize}"], (*shape, 2)
    if kind.kind == "f" and kind.itemsize in (2, 4, 8):
        return ELEMENTS[f"f{8 * kind.itemsize}"], shape
    if kind.kind == "b":
        return ELEMENTS["bool"], shape
    if kind.kind in "iu":
        return ELEMENTS[f"{'u' if kind.kind == 'u' else ''}int{8 * kind.itemsize}"], shape
    raise ValueError(f"its elements are {kind}, no numbers")


def _npz(path: str) -> list[Tensor]:
    with zipfile.ZipFile(path) as archive:
        return [_member(archive, path, entry) for entry in archive.infolist()]


def _member(archive: zipfile.ZipFile, path: str, entry: zipfile.ZipInfo) -> Tensor:
    name = entry.filename.removesuffix(".npy")
    if entry.flag_bits & 1:
        raise ValueError(f"{name!r} is encrypted")
    with archive.open(entry) as stream:
        element, shape, swapped = _npy_header(stream)
        start = stream.tell()
    opened = partial(_opened_member, path, entry.filename, start)
    return Tensor(name, element, shape, opened, swapped)


def _opened_member(path: str, name: str, start: int) -> Source:
    archive = zipfile.ZipFile(path)
    with archive:  # the member keeps the file open until it is closed itself
        stream = archive.open(name)
    stream.read(start)
    return cast(Source, stream)


def _safetensors(path: str) -> list[Tensor]:
    return [
        Tensor(
            name, ELEMENTS[entry.element()], entry.shape, partial(_opened_at, path, entry.offset)
        )
        for name, entry in read_header(path).items()
    ]


def _torch(path: str) -> list[Tensor]:
    from lastbit.comparing.arrays import tensor_of
    from lastbit.importers.torch_calls import load_torch

    torch = load_torch()
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (pickle.UnpicklingError, AttributeError, TypeError) as error:
        raise ValueError(f"it holds more than weights ({str(error).splitlines()[0]})") from None
    return [tensor_of(value, name) for name, value in _tensors_in(found, "")]


def _tensors_in(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the tensors of nested mappings and sequences, named by their way there."""
    if isinstance(value, Mapping):
        inner: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list | tuple):
        inner = enumerate(value)
    else:
        if hasattr(value, "dtype"):
            yield name, value
        return
    for key, item in inner:
        yield from _tensors_in(item, f"{name}.{key}" if name else str(key))


def _error(path: str, message: str, remedy: str = "") -> InputError:
    return InputError([Problem(message, remedy, Place(path))])
