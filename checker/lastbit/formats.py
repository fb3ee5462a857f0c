"""Number formats: each declares about ten facts, the rest is derived; exact decoding and encoding.

Sources: IEEE 754-2019, clause 3; OCP 8-bit Floating Point Specification (OFP8) 1.0 for e5m2 and
e4m3fn; arXiv 2206.02915 for the fnuz formats; OCP Microscaling Formats (MX) 1.0 for e3m2, e2m3,
e2m1 and e8m0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from lastbit.errors import LastbitError, did_you_mean

Exact: TypeAlias = Fraction | float
"""An exact value: a rational, or a float that is one of inf, -inf, nan and -0.0.

`+0` is `Fraction(0)`. Beware: `Fraction(0) == -0.0`; `identical` tells them apart.
"""

ZERO: Final = Fraction(0)
NEGATIVE_ZERO: Final = -0.0


class FormatError(LastbitError, ValueError):
    """A number format, a code or a value that cannot be used as asked."""


class UnknownFormatError(FormatError):
    """A name that is no number format.

    Attributes:
        name: the name that was given.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        names = {n for fmt in FORMATS.values() for n in (fmt.name, fmt.short)}
        super().__init__(f"unknown format {name!r}. {did_you_mean(name, names)}")


class NotRepresentableError(FormatError):
    """A value that the format does not hold.

    Attributes:
        value: the value that was given.
        format: the format.
    """

    def __init__(self, value: Exact, fmt: Format) -> None:
        self.value = value
        self.format = fmt
        super().__init__(f"{value} is no value of {fmt.name}; round it first.")


class CodeError(FormatError):
    """A code that the format does not use.

    Attributes:
        code: the code that was given.
        format: the format.
    """

    def __init__(self, code: int, fmt: Format) -> None:
        self.code = code
        self.format = fmt
        low = f" with the low {fmt.padding} bits zero" if fmt.padding else ""
        super().__init__(
            f"{code:#x} is no code of {fmt.name}; its codes have {fmt.container} bits{low}."
        )


@dataclass(frozen=True, slots=True)
class Format:
    """A number format.

    Attributes:
        name: the full name, `bfloat16`.
        short: the name in plans, `bf16`.
        bits: the bits that carry information.
        precision: digits of the significand, the hidden one included; of an integer, its
            magnitude bits.
        emin: the exponent of the smallest normal number; 0 for integers.
        kind: `float`, `integer` (two's complement when signed) or `scale` (powers of two, no zero).
        signed: whether it holds negative numbers.
        has_inf: whether it holds infinities.
        has_nan: whether it holds NaN.
        has_negative_zero: whether it holds -0.
        padding: zero bits below the information in its container.
        emax: the exponent of the largest finite number.
        max_finite: the largest finite number.
        min_finite: the lowest finite number (2^-127 for e8m0).
        min_normal: the smallest positive normal number; 1 for integers.
        min_subnormal: the smallest positive number.
        nan: what a NaN becomes in this format. Formats without NaN follow the PTX instruction
            `cvt`: 0 for integers, the largest finite number for e3m2, e2m3 and e2m1.
    """

    name: str
    short: str
    bits: int
    precision: int
    emin: int
    kind: Literal["float", "integer", "scale"] = "float"
    signed: bool = True
    has_inf: bool = False
    has_nan: bool = True
    has_negative_zero: bool = True
    padding: int = 0
    emax: int = field(init=False, compare=False, repr=False)
    max_finite: Fraction = field(init=False, compare=False, repr=False)
    min_finite: Fraction = field(init=False, compare=False, repr=False)
    min_normal: Fraction = field(init=False, compare=False, repr=False)
    min_subnormal: Fraction = field(init=False, compare=False, repr=False)
    nan: Exact = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind == "integer":
            emax, top = self.precision - 1, 2**self.precision - 1
            low = Fraction(-top - 1 if self.signed else 0)
            high = Fraction(top)
        elif self.kind == "scale":
            emax = 2**self.bits - 2 + self.emin
            high, low = Fraction(2) ** emax, Fraction(2) ** self.emin
        else:
            exponents = 2 ** (self.bits - self.precision)
            emax = exponents - 2 + self.emin - self.has_inf
            # e4m3fn gives the code of all ones to NaN; fnuz formats give the code of -0 to it.
            nan_on_top = self.has_nan and not self.has_inf and self.has_negative_zero
            top = 2**self.precision - 1 - nan_on_top
            high = top * Fraction(2) ** (emax - self.precision + 1)
            low = -high
        normal = Fraction(2) ** self.emin
        least = normal if self.kind != "float" else normal / 2 ** (self.precision - 1)
        nan: Exact = math.nan if self.has_nan else ZERO if self.kind == "integer" else high
        for name, value in {
            "emax": emax,
            "max_finite": high,
            "min_finite": low,
            "min_normal": normal,
            "min_subnormal": least,
            "nan": nan,
        }.items():
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.short

    @property
    def container(self) -> int:
        """The bits of a code, its padding included."""
        return self.bits + self.padding

    @property
    def has_zero(self) -> bool:
        """Whether the format holds zero."""
        return self.kind != "scale"

    @property
    def is_grid(self) -> bool:
        """Whether a rounding to this format is a grid point: an integer, or at most 8 bits."""
        return self.kind == "integer" or self.bits <= 8

    @property
    def unit_roundoff(self) -> Fraction:
        """The unit roundoff u = 2^-p."""
        return Fraction(1, 2**self.precision)

    def quantum(self, exponent: int) -> int:
        """Return log2 of the spacing of values in [2^exponent, 2^(exponent + 1)).

        Above the largest finite number it goes on as if the exponent had no upper limit.
        """
        if self.kind == "integer":
            return 0
        return (exponent if exponent > self.emin else self.emin) - self.precision + 1


def _integer(bits: int, *, signed: bool = True) -> Format:
    name = f"{'' if signed else 'u'}int{bits}"
    return Format(
        name,
        name,
        bits,
        precision=bits - signed,
        emin=0,
        kind="integer",
        signed=signed,
        has_nan=False,
        has_negative_zero=False,
    )


F64: Final = Format("binary64", "f64", 64, 53, -1022, has_inf=True)
F32: Final = Format("binary32", "f32", 32, 24, -126, has_inf=True)
TF32: Final = Format("tf32", "tf32", 19, 11, -126, has_inf=True, padding=13)
F16: Final = Format("binary16", "f16", 16, 11, -14, has_inf=True)
BF16: Final = Format("bfloat16", "bf16", 16, 8, -126, has_inf=True)
E5M2: Final = Format("float8_e5m2", "e5m2", 8, 3, -14, has_inf=True)
E4M3FN: Final = Format("float8_e4m3fn", "e4m3fn", 8, 4, -6)
E4M3FNUZ: Final = Format("float8_e4m3fnuz", "e4m3fnuz", 8, 4, -7, has_negative_zero=False)
E5M2FNUZ: Final = Format("float8_e5m2fnuz", "e5m2fnuz", 8, 3, -15, has_negative_zero=False)
E3M2: Final = Format("float6_e3m2fn", "e3m2", 6, 3, -2, has_nan=False)
E2M3: Final = Format("float6_e2m3fn", "e2m3", 6, 4, 0, has_nan=False)
E2M1: Final = Format("float4_e2m1fn", "e2m1", 4, 2, 0, has_nan=False)
E8M0: Final = Format(
    "float8_e8m0fnu", "e8m0", 8, 1, -127, "scale", signed=False, has_negative_zero=False
)
INT8: Final = _integer(8)
UINT8: Final = _integer(8, signed=False)
INT4: Final = _integer(4)
INT32: Final = _integer(32)
INT64: Final = _integer(64)

FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        fmt.short: fmt
        for fmt in (
            *(F64, F32, TF32, F16, BF16),
            *(E5M2, E4M3FN, E4M3FNUZ, E5M2FNUZ, E3M2, E2M3, E2M1, E8M0),
            *(INT8, UINT8, INT4, INT32, INT64),
        )
    }
)
"""Every format by its short name."""

_BY_NAME = {**FORMATS, **{fmt.name: fmt for fmt in FORMATS.values()}}


def format_of(name: str) -> Format:
    """Return the format of a name, full or short.

    Raises:
        UnknownFormatError: no format has this name.
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        raise UnknownFormatError(name) from None


def as_exact(value: Fraction | float) -> Exact:
    """Return the value as an `Exact`: finite floats and integers become rationals, -0.0 stays."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, float):
        if not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0):
            return value
        return Fraction(value)
    return Fraction(value)


def identical(a: Exact, b: Exact) -> bool:
    """Say whether two exact values are the same: NaN is NaN, and -0 is not +0."""
    a, b = as_exact(a), as_exact(b)
    return (a == b and type(a) is type(b)) or (a != a and b != b)


def floor_log2(x: Fraction) -> int:
    """Return the exponent e with 2^e <= x < 2^(e + 1), for x > 0."""
    return ratio_log2(x.numerator, x.denominator)


def ratio_log2(n: int, d: int) -> int:
    """Return the exponent e with 2^e <= n / d < 2^(e + 1), for n, d > 0."""
    e = n.bit_length() - d.bit_length()
    return e if (n >> e if e >= 0 else n << -e) >= d else e - 1


def scale2(n: int, exponent: int) -> Fraction:
    """Return n * 2^exponent."""
    if exponent >= 0:
        return Fraction(n << exponent)
    return Fraction(n, 1 << -exponent)


def decode(code: int, fmt: Format) -> Exact:
    """Return the value of a code.

    Raises:
        CodeError: the code has too many bits, or bits in the padding.
    """
    if not 0 <= code < 1 << fmt.container or code & ((1 << fmt.padding) - 1):
        raise CodeError(code, fmt)
    code >>= fmt.padding
    if fmt.kind == "integer":
        return Fraction(code - (1 << fmt.bits) if code > fmt.max_finite else code)
    if fmt.kind == "scale":
        return math.nan if code == (1 << fmt.bits) - 1 else scale2(1, code + fmt.emin)
    sign = code >> (fmt.bits - 1)
    magnitude = code & ((1 << (fmt.bits - 1)) - 1)
    if magnitude == 0 and sign:
        return NEGATIVE_ZERO if fmt.has_negative_zero else math.nan
    hidden = 1 << (fmt.precision - 1)
    biased, significand = divmod(magnitude, hidden)
    if biased:
        significand += hidden
        biased -= 1
    value = scale2(significand, biased + fmt.emin - fmt.precision + 1)
    if value > fmt.max_finite:
        infinite = fmt.has_inf and significand == hidden
        return (-math.inf if sign else math.inf) if infinite else math.nan
    return -value if sign else value


def encode(value: Exact, fmt: Format) -> int:
    """Return the code of a value that the format holds; a NaN gets its quiet, positive code.

    Raises:
        NotRepresentableError: the format does not hold the value.
    """
    value = as_exact(value)
    code = _encode_special(value, fmt) if isinstance(value, float) else _encode_finite(value, fmt)
    return code << fmt.padding


def _encode_special(value: float, fmt: Format) -> int:
    sign = 1 << (fmt.bits - 1)
    all_ones = (1 << (fmt.bits - fmt.signed)) - 1
    hidden = 1 << (fmt.precision - 1)
    if value == 0 and fmt.has_negative_zero:
        return sign
    if math.isinf(value) and fmt.has_inf:
        return (all_ones + 1 - hidden) | (sign if value < 0 else 0)
    if math.isnan(value) and fmt.has_nan:
        if fmt.has_inf:
            return all_ones + 1 - hidden // 2
        return all_ones if fmt.has_negative_zero or not fmt.signed else sign
    raise NotRepresentableError(value, fmt)


def _encode_finite(value: Fraction, fmt: Format) -> int:
    if not fmt.min_finite <= value <= fmt.max_finite:
        raise NotRepresentableError(value, fmt)
    if value == 0:
        return 0
    exponent = floor_log2(abs(value))
    quantum = fmt.quantum(exponent)
    significand = value * scale2(1, -quantum)
    if significand.denominator != 1:
        raise NotRepresentableError(value, fmt)
    n = significand.numerator
    if fmt.kind == "integer":
        return n & ((1 << fmt.bits) - 1)
    if fmt.kind == "scale":
        return exponent - fmt.emin
    # A subnormal has no hidden digit and the exponent field 0, so that the sum suits both.
    biased = max(exponent, fmt.emin) - fmt.emin
    magnitude = (biased << (fmt.precision - 1)) + abs(n)
    return magnitude | (1 << (fmt.bits - 1) if n < 0 else 0)


def bits_text(value: Exact, fmt: Format) -> str:
    """Return the code of a value in lower-case hex, as wide as its container: `0x3f43`.

    Raises:
        NotRepresentableError: the format does not hold the value.
    """
    return f"0x{encode(value, fmt):0{-(-fmt.container // 4)}x}"
