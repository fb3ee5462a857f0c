"""Real numbers as sums of monomials, and enclosures of them by rationals.

A `Real` is a sum of rational multiples of monomials exp(e) * atom^k * ..., where an atom is a
function of a number: log(2), sqrt(15), pi, or a whole sum that stands as a divisor.

Sums, products, quotients and roots of intervals are rounded outward (Moore, Kearfott and Cloud,
Introduction to Interval Analysis, 2009). exp, log, sin, cos and erfc come from mpmath, which aims
at one unit in the last place and proves nothing; they are evaluated with `GUARD` more bits than are
used, and their enclosures allow an error of 2^GUARD such units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any, Final, NamedTuple, TypeAlias

from mpmath import libmp

from lastbit.errors import LastbitError
from lastbit.formats import ZERO
from lastbit.rounding import MOST_BITS, Undecided

Finite: TypeAlias = "Fraction | Real"
Ball: TypeAlias = tuple[Any, Any]
"""Two of mpmath's raw floats with the number between them."""

ONE: Final = Fraction(1)
PRECISIONS: Final = tuple(80 << i for i in range(8))
GUARD: Final = 20
WIDEST: Final = 1 << 15
POSITIVE: Final = frozenset({"erfc", "pi", "sqrt", "sum"})


class UndecidedSign(Undecided):
    """A real number that may be zero: no enclosure shows its sign.

    Attributes:
        value: the number.
        bits: the precision of the last enclosure.
    """

    def __init__(self, value: Real, bits: int = MOST_BITS) -> None:
        self.value = value
        self.bits = bits
        text = f"an enclosure of {bits} bits does not decide the sign of {value}; it may be zero."
        LastbitError.__init__(self, text)


class Atom(NamedTuple):
    """A function of a number; `sum` is the identity, on a positive sum of several terms."""

    fn: str
    x: Finite

    def __str__(self) -> str:
        return f"({self.x})" if self.fn == "sum" else "pi" if self == PI else f"{self.fn}({self.x})"


class Monomial(NamedTuple):
    """exp(exponent) times powers of atoms."""

    exponent: Finite
    powers: frozenset[tuple[Atom, int]]

    def __str__(self) -> str:
        factors = sorted(f"{atom}^{k}" if k != 1 else f"{atom}" for atom, k in self.powers)
        return "*".join(([f"exp({self.exponent})"] if self.exponent else []) + factors) or "1"


PI: Final = Atom("pi", ZERO)
UNIT: Final = Monomial(ZERO, frozenset())


class Real:
    """A sum of multiples of monomials, not known to be rational; equal in identical normal forms.

    Attributes:
        terms: the multiple of each monomial, none of them zero.
    """

    __slots__ = ("_balls", "_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, Fraction]) -> None:
        self.terms = terms
        self._hash: int | None = None
        self._balls: dict[int, Ball] = {}

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Real) and self.terms == other.terms)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __str__(self) -> str:
        return " + ".join(_term_text(m, c) for m, c in self.terms.items())

    def __repr__(self) -> str:
        return f"Real({self})"

    def enclose(self, bits: int) -> tuple[Fraction, Fraction]:
        """Return two rationals with the number between them, at most 2^-bits apart relatively.

        Enclosures of more bits lie within those of fewer. Where the number is zero, or nearer to
        it than 10,240 bits show, they are wider. Magnitudes end at 2^-32768 and 2^32768, far beyond
        every format: a number outside is given as that limit, which rounds as it does.
        """
        for precision in PRECISIONS:
            ball = self.ball(precision)
            if _is_tight(ball, bits):
                break
        return _rational(ball[0]), _rational(ball[1])

    def ball(self, precision: int) -> Ball:
        """Return an enclosure computed with so many bits, however wide it comes out."""
        if precision not in self._balls:
            balls = [_term_ball(m, c, precision) for m, c in self.terms.items()]
            self._balls[precision] = reduce(lambda a, b: libmp.mpi_add(a, b, precision), balls)
        return self._balls[precision]

    def sign(self, bits: int = MOST_BITS) -> int | None:
        """Return -1 or 1, or None where enclosures of up to so many bits hold zero."""
        if all(atom.fn in POSITIVE for m in self.terms for atom, _ in m.powers):
            signs = {c > 0 for c in self.terms.values()}
            if len(signs) == 1:
                return 1 if signs.pop() else -1
        for precision in PRECISIONS:
            low, high = self.ball(precision)
            if libmp.mpf_sign(low) > 0 or libmp.mpf_sign(high) < 0:
                return int(libmp.mpf_sign(low))
            if precision > bits:
                break
        return None


def _term_text(monomial: Monomial, c: Fraction) -> str:
    return f"{c}" if monomial == UNIT else f"{monomial}" if c == 1 else f"{c}*{monomial}"


def sign(x: Finite) -> int:
    """Return -1, 0 or 1.

    Raises:
        Undecided: enclosures of 4096 bits hold zero.
    """
    if isinstance(x, Fraction):
        return (x > 0) - (x < 0)
    found = x.sign()
    if found is None:
        raise UndecidedSign(x)
    return found


def _is_tight(ball: Ball, bits: int) -> bool:
    low, high = ball
    width = libmp.mpf_sub(high, low, 10, "u")
    if width == libmp.fzero:
        return True
    if libmp.mpf_sign(low) * libmp.mpf_sign(high) <= 0 or width == libmp.finf:
        return False
    least = min(low[2] + low[3], high[2] + high[3])  # a raw float is (sign, man, exp, bits of man)
    return bool(width[2] + width[3] - least + 1 <= -bits)


def _rational(x: Any) -> Fraction:
    negative, man, exp, count = x
    if x == libmp.fzero:
        return ZERO
    if not man or exp + count > WIDEST:
        return Fraction(2) ** WIDEST * (-1 if libmp.mpf_sign(x) < 0 else 1)
    if exp + count < -WIDEST:
        return Fraction(2) ** -WIDEST * (-1 if negative else 1)
    n, d = libmp.to_rational(x)
    return Fraction(int(n), int(d))


def _ball(x: Finite, precision: int) -> Ball:
    if isinstance(x, Real):
        return x.ball(precision)
    n, d = x.numerator, x.denominator
    low = libmp.from_rational(n, d, precision, "f")
    return low, libmp.from_rational(n, d, precision, "c")


def _term_ball(monomial: Monomial, c: Fraction, precision: int) -> Ball:
    ball = _ball(c, precision)
    if monomial.exponent:
        factor = _exp_ball(monomial.exponent, precision)
        ball = factor if c == 1 else libmp.mpi_mul(ball, factor, precision)
    for atom, k in monomial.powers:
        turn = libmp.mpi_mul if k > 0 else libmp.mpi_div
        factor = _atom_ball(atom, precision)
        for _ in range(abs(k)):
            ball = turn(ball, factor, precision)
    return ball


@lru_cache(maxsize=1 << 12)
def _exp_ball(x: Finite, precision: int) -> Ball:
    extra = 16
    if isinstance(x, Fraction):  # the absolute error of x becomes the relative one of exp(x)
        extra = max(0, x.numerator.bit_length() - x.denominator.bit_length() + 1)
    low, high = _ball(x, precision + extra)
    least, most = libmp.mpf_neg(_FAR), _FAR
    ends = tuple(most if libmp.mpf_gt(end, most) else _at_least(least, end) for end in (low, high))
    ball = _increasing(libmp.mpf_exp, ends, precision)
    return (
        libmp.fzero if libmp.mpf_lt(low, least) else ball[0],
        libmp.finf if libmp.mpf_gt(high, most) else ball[1],
    )


@lru_cache(maxsize=1 << 12)
def _atom_ball(atom: Atom, precision: int) -> Ball:
    low, high = ball = _ball(atom.x, precision)
    match atom.fn:
        case "pi":
            ball = libmp.mpf_pi(precision, "f"), libmp.mpf_pi(precision, "c")
        case "sqrt":
            ball = libmp.mpi_sqrt((_at_least(libmp.fzero, low), high), precision)
        case "log":
            ball = _log_ball(atom.x, precision)
        case "erfc":
            ball = _increasing(libmp.mpf_erfc, (high, low), precision)
        case "sin" | "cos":
            ball = _circular_ball(atom.fn == "sin", ball, precision)
    return ball


def _log_ball(x: Finite, precision: int) -> Ball:
    if isinstance(x, Real):
        ball = Real({**x.terms, UNIT: x.terms.get(UNIT, ZERO) - 1}).ball(precision)
    else:
        ball = _ball(x - 1, precision)
    low, high = (libmp.mpf_abs(end) for end in ball)
    far = high if libmp.mpf_lt(low, high) else low
    bits = 0 if far == libmp.finf else -(far[2] + far[3])  # |x - 1| < 2^-bits
    if bits > precision:  # |log(1 + q) - q| <= q^2 for |q| <= 1/2: less than the widening
        return _widened(ball, precision)
    low, high = _ball(x, precision + max(0, bits))
    return _increasing(libmp.mpf_log, (_at_least(libmp.fzero, low), high), precision)


def _circular_ball(sine: bool, ball: Ball, precision: int) -> Ball:
    low, high = ball
    width = libmp.mpf_sub(high, low, precision, "u")
    if libmp.mpf_gt(width, libmp.fone) or libmp.mpf_gt(libmp.mpf_abs(low), _FAR):
        return libmp.fnone, libmp.fone
    point = libmp.mpf_cos_sin(low, precision + GUARD)[sine]
    error = (libmp.mpf_neg(width), width)  # neither function grows faster than its argument
    wide: Ball = libmp.mpi_add(_widened((point, point), precision), error, precision)
    return wide


_FAR: Final = libmp.mpf_shift(libmp.fone, 1100)  # beyond the arguments that binary64 holds


def _at_least(least: Any, x: Any) -> Any:
    return least if libmp.mpf_lt(x, least) else x


def _increasing(point: Callable[..., Any], ends: Ball, precision: int) -> Ball:
    low = point(ends[0], precision + GUARD)
    high = low if ends[0] == ends[1] else point(ends[1], precision + GUARD)
    return _widened((low, high), precision)


@lru_cache(maxsize=1 << 6)
def _about_one(precision: int) -> Ball:
    error = libmp.mpf_shift(libmp.fone, -precision)
    return libmp.mpf_sub(libmp.fone, error), libmp.mpf_add(libmp.fone, error)


def _widened(ball: Ball, precision: int) -> Ball:
    wide: Ball = libmp.mpi_mul(ball, _about_one(precision), precision)
    return wide
