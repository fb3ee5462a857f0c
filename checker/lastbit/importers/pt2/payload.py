"""The numbers that a `.pt2` file holds: parameters, buffers and constants, as plain bytes.

`data/weights` and `data/constants` each hold storages, one an entry of the archive, and a list that
says which part of which storage a name is. torch.export.save writes them uncompressed, so that they
are mapped, and only what is looked at is read. Pickles, which it writes for types that have no
plain bytes, are refused.

Source: torch/export/pt2_archive/_package.py and constants.py, torch 2.13.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lastbit.importers.imported import ImportedFileError
from lastbit.importers.pt2.archive import checked_names, opened
from lastbit.importers.pt2.arguments import DTYPES, MOST_AXES
from lastbit.importers.pt2.fields import Fields

MOST_CONFIG = 64 * 2**20  # bytes of a list of weights
MOST_SHARED = 2**28  # elements of a tensor that repeats those of its storage

_LISTS = ("/data/weights/model_weights_config.json", "/data/constants/model_constants_config.json")
_STRIDED = 7  # torch/_export/serde/schema.py, Layout
_BYTES = {
    "bool": 1, "u8": 1, "i8": 1, "e4m3fn": 1, "e5m2": 1, "e4m3fnuz": 1, "e5m2fnuz": 1, "e8m0": 1,
    "i16": 2, "u16": 2, "f16": 2, "bf16": 2, "i32": 4, "u32": 4, "f32": 4, "complex32": 4,
    "i64": 8, "u64": 8, "f64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip
_BITS: Mapping[int, np.dtype[Any]] = {n: np.dtype(f"<u{n}") for n in (1, 2, 4, 8)}


@dataclass(frozen=True, slots=True)
class Tensor:
    """A parameter, buffer or constant of a file.

    Attributes:
        name: in the file, `layers.3.mlp.weight`.
        dtype: its type.
        sizes: of each axis.
        strides: of each axis, in elements.
        offset: of the first element in the storage.
        member: the storage: an entry of the archive.
    """

    name: str
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    member: str

    @property
    def count(self) -> int:
        """Return the number of elements."""
        return math.prod(self.sizes)

    @property
    def type_and_shape(self) -> str:
        """Return type and shape as plans write them."""
        return f"{self.dtype}[{', '.join(map(str, self.sizes))}]"


class Payload(Fields):
    """The numbers of one file.

    Args:
        file: as the user named it.
        infos: the entries of the archive, by name.
        lists: the texts that say where each name lies, by the entry that holds them.
    """

    def __init__(
        self, file: str, infos: Mapping[str, zipfile.ZipInfo], lists: Mapping[str, bytes]
    ) -> None:
        super().__init__(file)
        self.size = os.path.getsize(file)
        self._infos = infos
        self._storages: dict[str, np.ndarray[Any, Any]] = {}
        self._verified: set[str] = set()
        self._entries = self._listed(lists)

    def tensor(self, name: str) -> Tensor:
        """Return where the file holds a tensor.

        Raises:
            ImportedFileError: it holds none of this name, or not as plain bytes.
        """
        self.where = f"the weight `{name[:100]}`"
        if name not in self._entries:
            self.fail("the file holds no numbers of it", "Save the model with its weights.")
        folder, entry = self._entries[name]
        if entry.get("use_pickle"):
            self.fail(
                "it is a pickle, which is not read: it could run any program",
                "Give the parameter a plain dense type, or compare with --no-weights.",
            )
        meta = self.member(entry, "tensor_meta", dict)
        if meta.get("layout") != _STRIDED:
            self.fail("it is not dense", "Compare with --no-weights.")
        number = self.member(meta, "dtype", int)
        if DTYPES.get(number) not in _BYTES:
            self.fail(f"it is of the type number {number}", "Compare with --no-weights.")
        sizes = self._numbers_of(meta, "sizes")
        strides = self._numbers_of(meta, "strides")
        if len(sizes) != len(strides) or len(sizes) > MOST_AXES:
            self.fail(f"it has {len(sizes)} sizes and {len(strides)} strides")
        (offset,) = self._plain_sizes([self.member(meta, "storage_offset", dict)])
        member = f"{folder}/{self.member(entry, 'path_name', str)}"
        return Tensor(name, DTYPES[number], sizes, strides, offset, member)

    def bits(self, tensor: Tensor) -> np.ndarray[Any, Any]:
        """Return the bits of a tensor, mapped: one more axis of two where an element has 16 bytes.

        Raises:
            ImportedFileError: its storage does not hold it, or cannot be mapped.
        """
        self.where = f"the weight `{tensor.name[:100]}`"
        storage = self._storage(tensor.member)
        each = _BYTES[tensor.dtype]
        pairs = zip(tensor.sizes, tensor.strides, strict=True)
        last = tensor.offset + sum((size - 1) * stride for size, stride in pairs)
        held = len(storage) // each
        if tensor.count and last >= held:
            self.fail(f"it ends at element {last} of a storage of {held}")
        if tensor.count > max(held, MOST_SHARED):
            self.fail(
                f"it has {tensor.count} elements in a storage of {held}",
                f"At most {MOST_SHARED} are read where elements repeat.",
            )
        if not tensor.count:
            return np.zeros(tensor.sizes, _BITS[min(each, 8)])
        parts = max(1, each // 8)
        flat = np.asarray(storage)[: held * each].view(_BITS[min(each, 8)])
        shape, steps = tensor.sizes, tuple(stride * each for stride in tensor.strides)
        if parts > 1:
            shape, steps = (*shape, parts), (*steps, 8)
        start = flat[tensor.offset * parts :]
        return np.lib.stride_tricks.as_strided(start, shape, steps, writeable=False)

    def verify(self, tensor: Tensor) -> None:
        """Hold the storage of a tensor against its checksum.

        Raises:
            ImportedFileError: the file is damaged.
        """
        if tensor.member in self._verified:
            return
        self.where = f"the weight `{tensor.name[:100]}`"
        storage, found = np.asarray(self._storage(tensor.member)), 0
        for at in range(0, len(storage), 2**24):
            found = zlib.crc32(storage[at : at + 2**24].tobytes(), found)
        if found != self._infos[tensor.member].CRC:
            self.fail(f"`{tensor.member}` does not have its checksum")
        self._verified.add(tensor.member)

    def _listed(self, texts: Mapping[str, bytes]) -> dict[str, tuple[str, dict[str, Any]]]:
        found = {}
        for member, text in texts.items():
            self.where = f"`{member[:100]}`"
            try:
                config = json.loads(text)
            except (ValueError, RecursionError) as error:
                self.fail(f"the list is no JSON: {str(error)[:100]}")
            folder = member.rpartition("/")[0]
            for name, entry in self.member(config, "config", dict).items():
                if name in found:
                    self.fail(f"`{name[:100]}` is given twice", "Save one model a file.")
                found[name] = (folder, entry if isinstance(entry, dict) else {})
        return found

    def _numbers_of(self, meta: Any, name: str) -> tuple[int, ...]:
        return self._plain_sizes(self.member(meta, name, list))

    def _plain_sizes(self, held: list[Any]) -> tuple[int, ...]:
        found = []
        for one in held:
            tag, value = self.union(one)
            if tag != "as_int" or type(value) is not int or not 0 <= value < 2**48:
                self.fail(f"a size or stride is {str(value)[:60]}")
            found.append(value)
        return tuple(found)

    def _storage(self, member: str) -> np.ndarray[Any, Any]:
        """Return the bytes of a storage, mapped."""
        if member in self._storages:
            return self._storages[member]
        info = self._infos.get(member)
        if info is None:
            self.fail(f"the archive holds no `{member[:100]}`")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            self.fail(
                f"`{member}` is compressed or encrypted", "torch.export.save stores it as it is."
            )
        try:
            with open(self.file, "rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(info.header_offset)
                head = stream.read(30)
            start = info.header_offset + 30
            start += int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
            if head[:4] != b"PK\x03\x04" or start + info.file_size > size:
                self.fail(f"`{member}` reaches beyond the end of the file")
            found: np.ndarray[Any, Any] = np.zeros(0, np.uint8)
            if info.file_size:
                found = np.memmap(self.file, np.uint8, "r", start, (info.file_size,))
        except OSError as error:
            self.fail(f"cannot be read: {error.strerror or error}", "")
        self._storages[member] = found
        return found


def read_payload(path: str) -> Payload:
    """Return the numbers of a file, none of which are read yet.

    Args:
        path: the file, as the user named it.

    Raises:
        ImportedFileError: it cannot be read, or its numbers are no little-endian plain bytes.
    """
    with opened(path) as archive:
        names = archive.namelist()
        checked_names(path, names)
        texts = {}
        for name in names:
            info = archive.getinfo(name)
            if name.endswith("/byteorder") and info.file_size < 100:
                order = archive.read(info).strip()
                if order != b"little":
                    text = f"its numbers are in the byte order {order[:20]!r}"
                    raise ImportedFileError(path, text, "Save it on a little-endian machine.")
            elif name.endswith(_LISTS):
                if info.file_size > MOST_CONFIG:
                    text = f"`{name[:100]}` has {info.file_size} bytes"
                    raise ImportedFileError(path, text, f"At most {MOST_CONFIG} are read.")
                with archive.open(info) as stream:
                    texts[name] = stream.read(MOST_CONFIG)
        return Payload(path, {info.filename: info for info in archive.infolist()}, texts)
