"""Types of elements as files and libraries hold them, and distances between their codes.

A code is an unsigned integer with the bits of one element. The place of a value is its number when
all values of its type are counted in order from zero, so the distance of two places is the distance
in ulp (in steps of 1 for integers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from lastbit.formats import FORMATS, Format

Codes = NDArray[np.unsignedinteger[Any]]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Element:
    """A type of elements.

    Attributes:
        name: short name, as `f32` or `int64`.
        bytes: of one element.
        sort: how its codes are ordered: sign and magnitude, two's complement, or as they are.
        format: the number format; null for integers and booleans that have none here.
    """

    name: str
    bytes: int
    sort: Literal["sign", "signed", "unsigned"]
    format: Format | None = None

    @property
    def code_type(self) -> np.dtype[Any]:
        """The unsigned integers that hold the codes, little-endian."""
        return np.dtype(f"<u{self.bytes}")

    def nan(self, codes: Codes) -> Mask:
        """Return where codes are NaN."""
        fmt = self.format
        if fmt is None or not fmt.has_nan:
            return np.zeros(codes.shape, np.bool_)
        if not fmt.has_negative_zero and fmt.signed:  # its one NaN lies where -0 would
            return np.asarray(codes == codes.dtype.type(1 << (fmt.bits - 1)))
        magnitudes = codes & codes.dtype.type(_magnitudes(fmt))
        return np.asarray(magnitudes > codes.dtype.type(_last_number(fmt)))

    def infinite(self, codes: Codes) -> Mask:
        """Return where codes are infinities."""
        fmt = self.format
        if fmt is None or not fmt.has_inf:
            return np.zeros(codes.shape, np.bool_)
        magnitudes = codes & codes.dtype.type(_magnitudes(fmt))
        return np.asarray(magnitudes == codes.dtype.type(_last_number(fmt)))

    def special(self, codes: Codes) -> bool:
        """Return whether any code is NaN or an infinity."""
        fmt = self.format
        if fmt is None or not (fmt.has_nan or fmt.has_inf) or not len(codes):
            return False
        if not fmt.has_negative_zero:
            return bool(self.nan(codes).any())
        most = (codes & codes.dtype.type(_magnitudes(fmt))).max()
        return bool(most >= _last_number(fmt) + (not fmt.has_inf))

    def distances(self, a: Codes, b: Codes) -> Codes:
        """Return how many places lie between two arrays of codes; NaN and infinity mean nothing."""
        left, right = self._places(a), self._places(b)
        with np.errstate(over="ignore"):  # the distance of the far ends takes all bits
            high, low = np.maximum(left, right), np.minimum(left, right)
            return np.asarray(high.view(self.code_type) - low.view(self.code_type))

    def _places(self, codes: Codes) -> NDArray[np.integer[Any]]:
        """Return the places; of sign and magnitude, minus the magnitude where the sign is set."""
        if self.sort == "unsigned":
            return codes
        places = codes.view(np.dtype(f"<i{self.bytes}"))
        if self.sort == "signed":
            return places
        minus = places >> places.dtype.type(8 * self.bytes - 1)  # -1 where the sign is set, else 0
        flipped = places ^ (minus & places.dtype.type((1 << (8 * self.bytes - 1)) - 1))
        flipped -= minus
        return np.asarray(flipped)


def _magnitudes(fmt: Format) -> int:
    return (1 << (fmt.bits - fmt.signed)) - 1


def _last_number(fmt: Format) -> int:
    """Return the greatest magnitude of a code that is no NaN."""
    if fmt.has_inf:
        return ((1 << (fmt.bits - fmt.precision)) - 1) << (fmt.precision - 1)
    return _magnitudes(fmt) - 1


def _elements() -> Mapping[str, Element]:
    floats = ["f64", "f32", "f16", "bf16", "e5m2", "e4m3fn", "e4m3fnuz", "e5m2fnuz"]
    found = {name: Element(name, FORMATS[name].bits // 8, "sign", FORMATS[name]) for name in floats}
    found["e8m0"] = Element("e8m0", 1, "unsigned", FORMATS["e8m0"])
    for width in (1, 2, 4, 8):
        found[f"int{8 * width}"] = Element(f"int{8 * width}", width, "signed")
        found[f"uint{8 * width}"] = Element(f"uint{8 * width}", width, "unsigned")
    found["bool"] = Element("bool", 1, "unsigned")
    return MappingProxyType(found)


ELEMENTS: Final = _elements()
"""Every type of elements by its short name."""
