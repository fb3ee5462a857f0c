"""Rounding: the only place where a real number becomes a value of a format.

`round_exact` is the definition. The order of events: round as if the exponent had no upper limit,
decide overflow on that result, then flush subnormals, then settle the sign of zero.

Sources: IEEE 754-2019, clauses 4.3 and 7.4; OCP OFP8 1.0, section 5 (saturation); Boldo and
Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd"
(IEEE Trans. Comput. 57(4), 2008).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, Protocol, TypeAlias, get_args

from lastbit.errors import LastbitError, did_you_mean
from lastbit.formats import (
    F64,
    NEGATIVE_ZERO,
    ZERO,
    Exact,
    Format,
    as_exact,
    encode,
    format_of,
    identical,
    ratio_log2,
    scale2,
)


class Mode(StrEnum):
    """How a value between two neighbours is rounded.

    Nearest even takes, where no significand is even (e8m0), the neighbour larger in magnitude
    (IEEE 754-2019, clause 4.3.1). Stochastic rounding draws one number per value from the seed, so
    it is a function: equal values round alike, and another seed gives another draw.
    """

    NEAREST_EVEN = "rne"
    NEAREST_AWAY = "rna"
    TOWARD_ZERO = "rtz"
    UP = "rup"
    DOWN = "rdn"
    TO_ODD = "rto"
    STOCHASTIC = "sr"


Overflow: TypeAlias = Literal["inf", "nan", "saturate"]
Subnormals: TypeAlias = Literal["keep", "flush"]


class RoundingError(LastbitError, ValueError):
    """A rounding that cannot be."""


class Undecided(LastbitError):  # noqa: N818  what happened is no mistake of the caller's
    """An enclosure that stays on both sides of a rounding boundary.

    Attributes:
        rounding: the rounding that was asked for.
        bits: the precision of the last enclosure.
    """

    def __init__(self, rounding: Rounding, bits: int) -> None:
        self.rounding = rounding
        self.bits = bits
        super().__init__(
            f"an enclosure of {bits} bits does not decide a rounding to {rounding}; the value lies "
            "on a boundary, or nearer to one than that."
        )


class Enclosed(Protocol):
    """A real number that is known through enclosures."""

    def enclose(self, bits: int, /) -> tuple[Fraction, Fraction]:
        """Return two rationals, the real number between them, about 2^-bits apart relatively."""


Number: TypeAlias = Fraction | float | Enclosed
"""What can be rounded: an exact value (ints and finite floats included), or an enclosed real."""


def _check(what: str, given: str, allowed: Iterable[str]) -> None:
    names = [str(name) for name in allowed]
    if given not in names:
        raise RoundingError(f"unknown {what} {given!r}. {did_you_mean(given, names)}")


@dataclass(frozen=True, slots=True)
class Rounding:
    """A rounding: to which format, how, and what happens at the ends of its range.

    Attributes:
        format: the format of the result.
        mode: how a value between two neighbours is rounded.
        overflow: what a result beyond the largest finite number becomes. `inf` follows IEEE 754,
            clause 7.4: directed modes and to odd may give the largest finite number. `nan` gives
            NaN in every mode. `saturate` clamps, infinities too. An infinity that the format holds
            is kept by `inf` and `nan`. For e8m0, zero and negative values count as overflow.
        subnormals: `flush` turns a result below the smallest normal number into a zero of its sign.
        seed: selects the draws of stochastic rounding.

    Raises:
        RoundingError: the format does not hold what `overflow` asks for.
    """

    format: Format
    mode: Mode = Mode.NEAREST_EVEN
    overflow: Overflow = "inf"
    subnormals: Subnormals = "keep"
    seed: int = 0

    def __post_init__(self) -> None:
        _check("mode", self.mode, Mode)
        _check("overflow", self.overflow, get_args(Overflow))
        _check("subnormals", self.subnormals, get_args(Subnormals))
        held = {"inf": self.format.has_inf, "nan": self.format.has_nan, "saturate": True}
        if not held[self.overflow]:
            allowed = " or ".join(f"`{name}`" for name, holds in held.items() if holds)
            raise RoundingError(
                f"{self.format.name} holds no {self.overflow}; its overflow may be {allowed}."
            )

    @classmethod
    def of(
        cls,
        fmt: Format | str,
        mode: Mode | str = Mode.NEAREST_EVEN,
        overflow: Overflow | None = None,
        subnormals: Subnormals = "keep",
        seed: int = 0,
    ) -> Rounding:
        """Return a rounding, from names where given; overflow becomes inf, NaN or saturates.

        The default overflow is the first of `inf`, `nan` and `saturate` that the format can do.
        """
        return _rounding(fmt, mode, overflow, subnormals, seed)

    def __str__(self) -> str:
        return _text(self)


@lru_cache(maxsize=1024)
def _rounding(
    fmt: Format | str,
    mode: Mode | str,
    overflow: Overflow | None,
    subnormals: Subnormals,
    seed: int,
) -> Rounding:
    fmt = format_of(fmt) if isinstance(fmt, str) else fmt
    if overflow is None:
        overflow = "inf" if fmt.has_inf else "nan" if fmt.has_nan else "saturate"
    _check("mode", mode, Mode)
    return Rounding(fmt, Mode(mode), overflow, subnormals, seed)


@lru_cache(maxsize=1024)
def _text(rounding: Rounding) -> str:
    default = Rounding.of(rounding.format)
    words = [rounding.format.short]
    if rounding.mode is not default.mode:
        seeded = rounding.mode is Mode.STOCHASTIC and rounding.seed
        words.append(f"sr({rounding.seed})" if seeded else str(rounding.mode))
    if rounding.overflow != default.overflow:
        words.append(rounding.overflow)
    if rounding.subnormals != default.subnormals:
        words.append(rounding.subnormals)
    return " ".join(words)


def round_exact(x: Number, rounding: Rounding) -> Exact:
    """Return the value of the format that the rounding gives for x.

    NaN becomes `rounding.format.nan`. A negative value that rounds to zero gives -0 where the
    format holds it. An enclosed real is refined until both ends of its enclosure round alike (Ziv,
    "Fast evaluation of elementary mathematical functions with correctly rounded last bit", ACM
    Trans. Math. Softw. 17(3), 1991).

    Raises:
        Undecided: an enclosure of 4096 bits does not decide.
    """
    if isinstance(x, (Fraction, float, int)):
        value = as_exact(x)
        return _round(value, rounding, _draw(value, rounding))
    if rounding.mode is not Mode.STOCHASTIC:
        return _settle(x, rounding, 0)
    return _settle(x, rounding, _draw(_settle(x, _KEY, 0), rounding))


LEAST_BITS: Final = 64
MOST_BITS: Final = 4096
DRAW_BITS: Final = 53
_KEY: Final = Rounding(F64, Mode.TOWARD_ZERO)


def _settle(x: Enclosed, rounding: Rounding, draw: int) -> Exact:
    bits = LEAST_BITS
    while bits <= MOST_BITS:
        low, high = x.enclose(bits)
        result = _round(low, rounding, draw)
        if low == high or identical(result, _round(high, rounding, draw)):
            return result
        bits *= 2
    raise Undecided(rounding, MOST_BITS)


def _draw(x: Exact, rounding: Rounding) -> int:
    """Return the number in [0, 2^53) that stochastic rounding draws for x, else 0.

    It mixes the seed with the binary64 code of x (toward zero where binary64 does not hold x).
    """
    if rounding.mode is not Mode.STOCHASTIC:
        return 0
    key = encode(_round(x, _KEY, 0), F64)
    return _mix(key ^ _mix(rounding.seed & _WORD)) >> (64 - DRAW_BITS)


_WORD: Final = (1 << 64) - 1


def _mix(z: int) -> int:
    """Mix a word of 64 bits (splitmix64: Steele, Lea and Flood, OOPSLA 2014)."""
    z = (z + 0x9E3779B97F4A7C15) & _WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
    return z ^ (z >> 31)


def _round(x: Exact, rounding: Rounding, draw: int) -> Exact:
    fmt = rounding.format
    if isinstance(x, float):
        return _round_special(x, rounding)
    negative = x.numerator < 0
    if fmt.kind == "scale":
        if x <= 0:
            return overflow_value(True, rounding)
        x = max(x, fmt.min_finite)  # below the smallest power there is no zero to round to
    n, d = abs(x.numerator), x.denominator
    if n == 0:
        return ZERO
    quantum = fmt.quantum(ratio_log2(n, d))
    if quantum >= 0:
        d <<= quantum
    else:
        n <<= -quantum
    n = _round_to_integer(n, d, negative, rounding.mode, draw)
    value = scale2(-n if negative else n, quantum)
    inside = n.bit_length() + quantum <= fmt.emax and (fmt.signed or not negative)
    if not inside and not fmt.min_finite <= value <= fmt.max_finite:
        return overflow_value(negative, rounding)
    if n == 0 or (rounding.subnormals == "flush" and abs(value) < fmt.min_normal):
        return NEGATIVE_ZERO if negative and fmt.has_negative_zero else ZERO
    return value


def _round_to_integer(n: int, d: int, negative: bool, mode: Mode, draw: int) -> int:
    """Return the integer that n / d, the magnitude of a number, rounds to."""
    below, rest = divmod(n, d)
    if rest == 0:
        return below
    match mode:
        case Mode.NEAREST_EVEN:
            above = 2 * rest > d or (2 * rest == d and below % 2 == 1)
        case Mode.NEAREST_AWAY:
            above = 2 * rest >= d
        case Mode.TOWARD_ZERO:
            above = False
        case Mode.UP:
            above = not negative
        case Mode.DOWN:
            above = negative
        case Mode.TO_ODD:
            above = below % 2 == 0
        case Mode.STOCHASTIC:
            above = rest << DRAW_BITS > draw * d
    return below + above


def _round_special(x: float, rounding: Rounding) -> Exact:
    fmt = rounding.format
    if math.isnan(x):
        return fmt.nan
    if x == 0:
        if not fmt.has_zero:
            return overflow_value(True, rounding)
        return NEGATIVE_ZERO if fmt.has_negative_zero else ZERO
    if fmt.has_inf and rounding.overflow != "saturate":
        return x
    return overflow_value(x < 0, rounding)


def overflow_value(negative: bool, rounding: Rounding) -> Exact:
    """Return what a result outside the finite numbers of the format becomes."""
    fmt = rounding.format
    if rounding.overflow == "nan":
        return math.nan
    away = Mode.DOWN if negative else Mode.UP
    inward = rounding.mode in (Mode.TOWARD_ZERO, Mode.TO_ODD, Mode.UP, Mode.DOWN)
    if rounding.overflow == "saturate" or (inward and rounding.mode is not away):
        return fmt.min_finite if negative else fmt.max_finite
    return -math.inf if negative else math.inf
