"""Exact arithmetic of real numbers in normal form, where zero has no sign and nothing is infinite.

A sum is multiplied out and its monomials are unique, so that x - x is 0, exp(a - m) * exp(m - b) is
exp(a - b) and sqrt(x)^2 is x. A divisor, and what a log or a root is taken of, first gives up its
largest factor exp(e) (the maximum of a softmax): the quotient of two sums of exp(x - m), and
log(sum exp(x - m)) + m, are then the same for every m. What comes out rational is a `Fraction`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Final

from lastbit.enclosure import ONE, UNIT, Atom, Finite, Monomial, Real, sign
from lastbit.formats import ZERO

EXPANDED: Final = 64
"""A product of two sums is multiplied out up to this number of terms."""
LARGEST_POWER: Final = 1 << 15


def combine(*parts: tuple[Finite, Fraction]) -> Finite:
    """Return the sum of x * c over the parts (x, c)."""
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    terms: dict[Monomial, Fraction] = {}
    for x, k in parts:
        for monomial, c in terms_of(x).items():
            multiple = c if k == 1 else c * k
            terms[monomial] = terms[monomial] + multiple if monomial in terms else multiple
    terms = {monomial: c for monomial, c in terms.items() if c}
    return Real(terms) if terms.keys() - {UNIT} else terms.get(UNIT, ZERO)


def terms_of(x: Finite) -> Mapping[Monomial, Fraction]:
    """Return the multiple of each monomial."""
    return x.terms if isinstance(x, Real) else {UNIT: x}


def minus(x: Finite) -> Finite:
    """Return -x."""
    return combine((x, -ONE))


def times(a: Finite, b: Finite) -> Finite:
    """Return a * b."""
    if isinstance(a, Fraction):
        return combine((b, a))
    if isinstance(b, Fraction):
        return combine((a, b))
    if min(len(a.terms), len(b.terms)) > 1 and len(a.terms) * len(b.terms) > EXPANDED:
        x, y = _packed(a), _packed(b)
    else:
        x, y = _cancelling(a, b), _cancelling(b, a)
    pairs = ((m, n, c * d) for m, c in terms_of(x).items() for n, d in terms_of(y).items())
    return combine(*((_product(m, n), c) for m, n, c in pairs))


def power(x: Finite, n: int) -> Finite:
    """Return x^n; x is not zero where n is negative."""
    if isinstance(x, Fraction):
        return x**n
    base = x if n >= 0 else inverse(x)
    result: Finite = ONE
    for bit in f"{abs(n):b}":
        result = times(result, result)
        result = times(result, base) if bit == "1" else result
    return result


@lru_cache(maxsize=1 << 10)
def inverse(x: Finite) -> Finite:
    """Return 1 / x for an x that is not zero."""
    if isinstance(x, Fraction):
        return 1 / x
    if len(x.terms) == 1:
        ((monomial, c),) = x.terms.items()
        inverted = Monomial(ZERO, frozenset((atom, -k) for atom, k in monomial.powers))
        return _scaled(1 / c, minus(monomial.exponent), _product(inverted, UNIT))
    s = Fraction(sign(x))
    c, e, core = _primitive(x)
    return _scaled(s / c, minus(e), atom("sum", combine((core, s)), -1))


def exp(x: Finite) -> Finite:
    """Return e to the x."""
    if isinstance(x, Fraction):
        return _monomial(x, ())
    result: Finite = ONE
    rest: Finite = x
    for monomial, c in terms_of(x).items():
        n = math.floor(c)
        base = _exp_of(monomial)
        if base is not None and abs(n) <= LARGEST_POWER:  # exp((n + r) log b) = b^n exp(r log b)
            half = c.denominator == 2
            result = times(times(result, power(base, n)), sqrt(base) if half else ONE)
            taken = c if half else Fraction(n)
            rest = combine((rest, ONE), (Real({monomial: ONE}), -taken))
    return times(result, _monomial(rest, ()))


def log(x: Finite) -> Finite:
    """Return the natural logarithm of a positive x."""
    if isinstance(x, Real):
        e, rest = _shifted(x)
        return combine((e, ONE), (atom("log", rest) if isinstance(rest, Real) else log(rest), ONE))
    n, d = x.numerator, x.denominator
    if n & (n - 1) or d & (d - 1):
        return atom("log", x)
    return combine((atom("log", Fraction(2)), Fraction(n.bit_length() - d.bit_length())))


def sqrt(x: Finite) -> Finite:
    """Return the square root of a positive x."""
    if isinstance(x, Real):
        e, rest = _shifted(x)
        root = atom("sqrt", rest) if isinstance(rest, Real) else sqrt(rest)
        return _scaled(ONE, combine((e, ONE / 2)), root)
    n, outside = x.numerator * x.denominator, Fraction(1, x.denominator)
    for prime in (2, 3, 5, 7):
        while n % prime**2 == 0:
            n, outside = n // prime**2, outside * prime
    root_n = math.isqrt(n)
    if root_n**2 == n:
        return outside * root_n
    return combine((atom("sqrt", Fraction(n)), outside))


def sine(x: Finite) -> Finite:
    """Return sin(x)."""
    return _circular("sin", x, (0, 1, 0, -1))


def cosine(x: Finite) -> Finite:
    """Return cos(x)."""
    return _circular("cos", x, (1, 0, -1, 0))


def _circular(fn: str, x: Finite, at_quarters: tuple[int, ...]) -> Finite:
    quarters = times(x, atom("pi", ZERO, -1))
    quarters = combine((quarters, Fraction(2)))
    if isinstance(quarters, Fraction) and quarters.denominator == 1:
        return Fraction(at_quarters[quarters.numerator % 4])
    if sign(x) < 0:
        return combine((atom(fn, minus(x)), -ONE if fn == "sin" else ONE))
    return atom(fn, x)


def erf(x: Finite) -> Finite:
    """Return the error function of x: 1 - erfc(x) where x is positive, which keeps erfc exact."""
    s = Fraction(sign(x))
    return combine((ONE, s), (atom("erfc", combine((x, s))), -s)) if s else ZERO


def atom(fn: str, x: Finite, k: int = 1) -> Finite:
    """Return the power k of a function of x that stands for itself."""
    return _monomial(ZERO, [(Atom(fn, x), k)])


def _monomial(exponent: Finite, powers: Iterable[tuple[Atom, int]]) -> Finite:
    kept = frozenset((factor, k) for factor, k in powers if k)
    return Real({Monomial(exponent, kept): ONE}) if exponent or kept else ONE


def _product(m: Monomial, n: Monomial) -> Finite:
    powers = dict(m.powers)
    for factor, k in n.powers:
        powers[factor] = powers.get(factor, 0) + k
    squares = []
    for factor, k in powers.items():
        if factor.fn == "sqrt" and k not in (0, 1):
            squares.append(power(factor.x, k // 2))
            powers[factor] = k % 2
    if m.exponent and n.exponent:
        both = exp(combine((m.exponent, ONE), (n.exponent, ONE)))
        result = times(_monomial(ZERO, powers.items()), both)
    else:
        result = _monomial(m.exponent or n.exponent, powers.items())
    return reduce(times, squares, result)


def _exp_of(monomial: Monomial) -> Finite | None:
    """Return exp(monomial) where the monomial is a logarithm, else None."""
    if monomial.exponent or len(monomial.powers) != 1:
        return None
    ((factor, k),) = monomial.powers
    return factor.x if factor.fn == "log" and k == 1 else None


def _scaled(c: Fraction, exponent: Finite, x: Finite) -> Finite:
    return combine((times(x, exp(exponent)), c))


def compare(a: Finite, b: Finite) -> int:
    """Return the sign of a - b."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return (a > b) - (a < b)
    return sign(combine((a, ONE), (b, -ONE)) if b else a)


def _shifted(x: Real) -> tuple[Finite, Finite]:
    """Return (e, x / exp(e)) with the largest exponent e."""
    exponents = (monomial.exponent for monomial in x.terms)
    e = reduce(lambda a, b: a if compare(a, b) >= 0 else b, exponents)
    return e, (times(x, exp(minus(e))) if e else x)


def _primitive(x: Real) -> tuple[Fraction, Finite, Finite]:
    """Return (c, e, x / (c exp(e))) with positive c: coprime integers times monomials remain."""
    e, core = _shifted(x)
    multiples = terms_of(core).values()
    n = math.gcd(*(c.numerator for c in multiples))
    c = Fraction(n, math.lcm(*(c.denominator for c in multiples)))
    return c, e, (core if c == 1 else combine((core, 1 / c)))


def _packed(x: Real) -> Finite:
    """Return the sum x as one term."""
    s = Fraction(sign(x))
    c, e, core = _primitive(x)
    return _scaled(c * s, e, atom("sum", combine((core, s))))


def _cancelling(a: Real, b: Real) -> Finite:
    """Return a as one term where b divides by it, else a."""
    divisors = {factor for m in b.terms for factor, k in m.powers if factor.fn == "sum" and k < 0}
    if divisors and len(a.terms) > 1:
        c, e, core = _primitive(a)
        for s in (ONE, -ONE):
            same = Atom("sum", combine((core, s)))
            if same in divisors:
                return _scaled(c * s, e, atom(*same))
    return a
