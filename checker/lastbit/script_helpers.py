"""The functions that scripts of `lastbit replay --script` are made of.

`lastbit.script` copies those that a script needs, with what they need in turn, as they stand here.
So each part must be plain to read by itself, and they use nothing but numpy and the standard
library. A number is a `Fraction`; inf, -inf, nan and -0.0 are floats, and what no fraction gives
is a `Real`. They follow `lastbit.reals`, `lastbit.rounding` and `lastbit.machines.step`, and tests
hold them to it.
"""

# mypy: ignore-errors
# Scripts are read by people who want to see arithmetic: no annotations here.

import functools
import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation, localcontext
from fractions import Fraction

import numpy as np


def elementwise(function):
    """Let a function of numbers take arrays, too."""
    on_arrays = np.frompyfunc(function, function.__code__.co_argcount, 1)

    def apply(*xs):
        if not any(isinstance(x, np.ndarray) for x in xs):
            return function(*xs)
        with np.errstate(invalid="ignore"):  # NaN is a value here
            return on_arrays(*xs)

    return apply


def exact(x):
    """Return a float as a fraction; inf, nan and -0.0 stay."""
    return x if not math.isfinite(x) or str(x) == "-0.0" else Fraction(x)


def numbers(shape, text):
    """Return an array of numbers, given as hexadecimal floats."""
    array = np.empty(shape, dtype=object)
    for i, word in enumerate(text.split()):
        array.flat[i] = exact(float.fromhex(word))
    return array


# Rounding.


def floor_log2(x):
    """Return the exponent e with 2^e <= x < 2^(e + 1)."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def rounded(
    x,
    precision,  # digits of the significand
    emin,  # exponent of the smallest normal number
    largest,
    lowest=None,  # if not -largest
    above=math.inf,  # what becomes of a number beyond `largest`
    below=-math.inf,
    nan=math.nan,
    keeps_inf=True,
    negative_zero=True,
    flush=False,
    to_integer=round,  # Python's round: to nearest, ties to even
):
    """Return x as the number of a format: rounded, then judged by the format's range."""
    if isinstance(x, float):  # inf, -inf, nan or -0.0
        if x != x:
            return nan
        if x == 0:
            return x if negative_zero else Fraction(0)
        return x if keeps_inf else above if x > 0 else below
    if x == 0:
        return x
    quantum = Fraction(2) ** (max(floor_log2(abs(x)), emin) - precision + 1)
    y = to_integer(x / quantum) * quantum
    if y > largest:
        return above
    if y < (-largest if lowest is None else lowest):
        return below
    if y == 0 or (flush and abs(y) < Fraction(2) ** emin):
        return -0.0 if x < 0 and negative_zero else Fraction(0)
    return y


def rounded_scale(x, emin, largest, above, below, to_integer=round):
    """Return x as a power of two; there is none for zero and below."""
    if isinstance(x, float):
        return x if x != x else above if x > 0 else below
    if x <= 0:
        return below
    x = max(x, Fraction(2) ** emin)
    quantum = Fraction(2) ** floor_log2(x)
    y = to_integer(x / quantum) * quantum
    return above if y > largest else y


def half_away(x):
    """Return the nearest integer; of two, the one away from zero."""
    return math.floor(x + Fraction(1, 2)) if x > 0 else math.ceil(x - Fraction(1, 2))


def to_odd(x):
    """Return x if it is an integer, else the odd one of its neighbours."""
    low = math.floor(x)
    return low if low == x or low % 2 else low + 1


def settled(x, precision, emin):
    """Return a real number as a fraction that rounds as it does."""
    if not isinstance(x, Real):
        return x
    return x.near(lambda y: Fraction(2) ** (max(floor_log2(abs(y)), emin) - precision))


# Bits.


def float_bits(x, precision, emin, width, special, padding=0):
    """Return sign, exponent and significand of a number as the bits of a format."""
    if isinstance(x, float):
        return special[str(x)]
    exponent = max(floor_log2(abs(x)), emin) if x else emin
    digits = abs(x) / Fraction(2) ** (exponent - precision + 1)
    if digits.denominator != 1:
        raise SystemExit(f"{x} is no number of the format that was asked for")
    code = ((exponent - emin) << (precision - 1)) + int(digits)
    code |= (x < 0) << (width - 1)
    return f"0x{code << padding:0{-(-(width + padding) // 4)}x}"


def integer_bits(x, width):
    """Return an integer in two's complement."""
    if x != int(x):
        raise SystemExit(f"{x} is no integer")
    return f"0x{int(x) % 2**width:0{width // 4}x}"


def scale_bits(x, emin):
    """Return the exponent of a power of two."""
    return "0xff" if x != x else f"0x{floor_log2(x) - emin:02x}"


# Real numbers. Decimal's exp, ln and sqrt are correctly rounded.

DIGITS = (50, 250, 1250)
WIDE = Context(Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation])
FAR = Decimal("1e9999")  # beyond the numbers of every format


class Real:
    """A number that no fraction gives: enclosed, with more digits until a question is decided."""

    def __init__(self, enclose):
        self.enclose = enclose  # from a number of digits to a middle and a radius
        self.found = {}

    def ball(self, digits):
        """Return a middle and a radius, computed with so many digits."""
        if digits not in self.found:
            with localcontext(WIDE) as context:
                context.prec = digits
                middle, radius = self.enclose(digits)
                radius = radius * Decimal("1.01") + abs(middle).scaleb(1 - digits)
                self.found[digits] = middle, radius
        return self.found[digits]

    def sign(self):
        """Return -1, 0 or 1; what no number of digits tells from 0 is 0."""
        for digits in DIGITS:
            middle, radius = self.ball(digits)
            if middle.copy_abs() > radius:
                return 1 if middle > 0 else -1
        return 0

    def near(self, unit):
        """Return it as a fraction: a multiple of unit(x) where nothing tells it from one."""
        for digits in DIGITS:
            middle, radius = self.ball(digits)
            if middle.copy_abs() <= radius:
                multiple = Fraction(0)
                continue
            if not 1 / FAR < middle.copy_abs() < FAR:
                return Fraction((FAR if middle.copy_abs() > 1 else 1 / FAR).copy_sign(middle))
            x = Fraction(middle)
            multiple = round(x / unit(x)) * unit(x)
            if abs(x - multiple) > Fraction(max(radius, 1 / FAR**2)):
                return x
        return multiple

    def __add__(self, other):
        def enclose(digits):
            (a, r), (b, s) = self.ball(digits), ball_of(other, digits)
            return a + b, r + s

        return real(enclose)

    def __mul__(self, other):
        def enclose(digits):
            (a, r), (b, s) = self.ball(digits), ball_of(other, digits)
            return a * b, abs(a) * s + abs(b) * r + r * s

        return Real(enclose)

    def __rtruediv__(self, other):
        def enclose(digits):
            a, r = self.ball(digits)
            return (1 / a, r / (abs(a) * (abs(a) - r))) if abs(a) > r else (FAR, FAR)

        return Real(enclose) * other

    def __truediv__(self, other):
        return self * (1 / other)

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + -other

    def __rsub__(self, other):
        return -self + other

    def __lt__(self, other):
        if isinstance(other, float):
            return other == math.inf if other else self.sign() < 0
        difference = self - other
        return isinstance(difference, Real) and difference.sign() < 0

    def __gt__(self, other):
        return -self < -other

    __radd__ = __add__
    __rmul__ = __mul__


def real(enclose):
    """Return an enclosed number that may be 0."""
    x = Real(enclose)
    return x if x.sign() else Fraction(0)


def ball_of(x, digits):
    """Return a middle and a radius of a finite number."""
    if isinstance(x, Real):
        return x.ball(digits)
    middle = Decimal(x.numerator) / Decimal(x.denominator)
    return middle, abs(middle).scaleb(1 - digits)


# Arithmetic, with the special values of IEEE 754.


def like(x):
    """Return a float of the same sign and kind: 0, 1 and -1 stand for finite numbers."""
    return x if isinstance(x, float) else float((x > 0) - (x < 0))


@elementwise
def add(a, b):
    """Return a + b."""
    if isinstance(a, float) or isinstance(b, float):
        x = a if isinstance(a, float) else 0.0
        y = b if isinstance(b, float) else 0.0
        if x or y:
            return x + y
        return b if isinstance(a, float) else a  # one is -0.0
    return a + b


@elementwise
def neg(x):
    """Return -x."""
    if isinstance(x, float) or x == 0:
        return exact(-like(x))
    return -x


@elementwise
def sub(a, b):
    """Return a - b."""
    return add(a, neg(b))


@elementwise
def mul(a, b):
    """Return a * b."""
    if isinstance(a, float) or isinstance(b, float) or a == 0 or b == 0:
        return exact(like(a) * like(b))
    return a * b


@elementwise
def div(a, b):
    """Return a / b."""
    if isinstance(a, float) or isinstance(b, float) or a == 0 or b == 0:
        y = like(b)
        return exact(like(a) * (1 / y if y else math.copysign(math.inf, y)))
    return a / b


@elementwise
def absolute(x):
    """Return |x|."""
    return exact(abs(x)) if isinstance(x, float) else -x if x < 0 else x


@elementwise
def maximum(a, b):
    """Return the larger; NaN if one is, and 0 of the two zeros."""
    if a != a or b != b:
        return math.nan
    return b if a < b or (not b < a and isinstance(a, float)) else a


@elementwise
def minimum(a, b):
    """Return the smaller; NaN if one is, and -0.0 of the two zeros."""
    if a != a or b != b:
        return math.nan
    return b if b < a or (not a < b and not isinstance(a, float)) else a


@elementwise
def clamp(x, low, high):
    """Return x, limited to [low, high]."""
    return minimum(maximum(x, low), high)


@elementwise
def relu(x):
    """Return max(x, 0)."""
    return maximum(x, Fraction(0))


@elementwise
def less(a, b):
    """Return 1 where a < b, else 0."""
    return Fraction(bool(a < b))


@elementwise
def less_equal(a, b):
    """Return 1 where a <= b, else 0."""
    return Fraction(a == a and b == b and not b < a)


@elementwise
def equal(a, b):
    """Return 1 where a = b, else 0."""
    return Fraction(a == a and b == b and not a < b and not b < a)


@elementwise
def select(condition, a, b):
    """Return a where the condition is not 0, else b."""
    return a if condition else b


@elementwise
def sign(x):
    """Return -1, 0 or 1."""
    return x if x != x else Fraction((x > 0) - (x < 0))


@elementwise
def floor(x):
    """Return the largest integer that is not above x."""
    if isinstance(x, float):
        return x
    return Fraction(math.floor(x if isinstance(x, Fraction) else x.near(lambda y: 1)))


@elementwise
def ceil(x):
    """Return the smallest integer that is not below x."""
    return neg(floor(neg(x)))


# Elementary functions.


def at(x, low, zero, high):
    """Return the value at -inf, -0.0 or inf; NaN stays."""
    return x if x != x else zero if x == 0 else high if x > 0 else low


@elementwise
def exp(x):
    """Return e to the x."""
    if isinstance(x, float):
        return at(x, Fraction(0), Fraction(1), math.inf)
    if x == 0:
        return Fraction(1)

    def enclose(digits):
        a, r = ball_of(x, digits)
        most = Decimal(10**17)  # beyond it, every format has ended long ago
        y = max(-most, min(most, a)).exp()
        return (y, 2 * r * y) if r < 1 else (FAR, FAR)

    return Real(enclose)


@elementwise
def log(x):
    """Return the natural logarithm."""
    if isinstance(x, float):
        return at(x, math.nan, -math.inf, math.inf)
    if x == 0:
        return -math.inf
    if x < 0:
        return math.nan

    def enclose(digits):
        a, r = ball_of(x, digits)
        if a.adjusted() > 10**16:
            raise SystemExit(f"a logarithm is taken of a number of {a.adjusted()} digits")
        return (a.ln(), r / (a - r)) if a > r else (FAR, FAR)

    return real(enclose)


@elementwise
def exp2(x):
    """Return 2 to the x."""
    return exp(mul(x, LN2))


@elementwise
def log2(x):
    """Return the logarithm to base 2."""
    return mul(log(x), LOG2E)


@elementwise
def expm1(x):
    """Return exp(x) - 1."""
    return at(x, Fraction(-1), x, x) if isinstance(x, float) else sub(exp(x), Fraction(1))


@elementwise
def log1p(x):
    """Return log(1 + x)."""
    return at(x, math.nan, x, x) if isinstance(x, float) else log(add(Fraction(1), x))


@elementwise
def sqrt(x):
    """Return the square root."""
    if isinstance(x, float):
        return at(x, math.nan, x, x)
    if x < 0:
        return math.nan
    if isinstance(x, Fraction):
        root = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
        if root * root == x:
            return root

    def enclose(digits):
        a, r = ball_of(x, digits)
        return (a.sqrt(), r / (a - r).sqrt()) if a > r else (FAR, FAR)

    return Real(enclose)


@elementwise
def rsqrt(x):
    """Return 1 / sqrt(x)."""
    return div(Fraction(1), sqrt(x))


@elementwise
def sigmoid(x):
    """Return 1 / (1 + exp(-x))."""
    return div(Fraction(1), add(Fraction(1), exp(neg(x))))


@elementwise
def silu(x):
    """Return x * sigmoid(x)."""
    return mul(x, sigmoid(x))


@elementwise
def tanh(x):
    """Return the hyperbolic tangent, 2 sigmoid(2 x) - 1."""
    if isinstance(x, float):
        return at(x, Fraction(-1), x, Fraction(1))
    return sub(mul(Fraction(2), sigmoid(mul(Fraction(2), x))), Fraction(1))


@elementwise
def softplus(x):
    """Return log(1 + exp(x)), as max(x, 0) + log(1 + exp(-|x|))."""
    return add(maximum(x, Fraction(0)), log(add(Fraction(1), exp(neg(absolute(x))))))


@elementwise
def erf(x):
    """Return the error function, by its series of positive terms (DLMF 7.6.2)."""
    if isinstance(x, float):
        return at(x, Fraction(-1), x, Fraction(1))
    if x == 0:
        return x

    def enclose(digits):
        a, r = ball_of(x, digits)
        square = min(2 * a * a, Decimal(5 * digits))  # beyond this, all digits are those of 1
        term = total = Decimal(1)
        n = 1
        while term > total.scaleb(-digits):
            n += 2
            term = term * square / n
            total += term
        root = (2 * square / circle(digits)).sqrt().copy_sign(a)
        return root * (-square / 2).exp() * total, 2 * r

    return Real(enclose)


@elementwise
def gelu(x):
    """Return x * (1 + erf(x / sqrt(2))) / 2."""
    half = Fraction(1, 2)
    return mul(mul(x, half), add(Fraction(1), erf(mul(x, sqrt(half)))))


@elementwise
def gelu_tanh(x):
    """Return x * (1 + tanh(y)) / 2 = x sigmoid(2 y), y = sqrt(2 / pi) (x + 0.044715 x^3)."""
    inner = add(x, mul(Fraction("0.044715"), mul(x, mul(x, x))))
    return mul(x, sigmoid(mul(mul(Fraction(2), sqrt(div(Fraction(2), PI))), inner)))


def circle(digits):
    """Return pi to so many digits (Brent and Salamin)."""
    with localcontext(WIDE) as context:
        context.prec = digits + 10
        a, b, t = Decimal(1), 1 / Decimal(2).sqrt(), Decimal("0.25")
        for i in range(digits.bit_length() + 1):
            a, b, t = (a + b) / 2, (a * b).sqrt(), t - 2**i * ((a - b) / 2) ** 2
        return (a + b) ** 2 / (4 * t)


def turned(x, quarters):
    """Return sin(x + quarters * pi / 2), by the Taylor series."""

    def enclose(digits):
        a, r = ball_of(x, digits)
        more = max(0, a.adjusted()) + 10
        if more > 1000 or r > 1:
            return Decimal(0), Decimal(1)
        with localcontext() as context:
            context.prec += more
            angle = a.remainder_near(2 * circle(context.prec))
            term = angle if quarters == 0 else Decimal(1)
            total, n = term, 1 - quarters
            while abs(term).scaleb(digits) > abs(total):
                n += 2
                term = -term * angle * angle / (n * (n - 1))
                total += term
        return total, r + Decimal(1).scaleb(-digits)

    return Real(enclose)


@elementwise
def sin(x):
    """Return the sine."""
    if isinstance(x, float):
        return at(x, math.nan, x, math.nan)
    return x if x == 0 else turned(x, 0)


@elementwise
def cos(x):
    """Return the cosine."""
    if isinstance(x, float):
        return at(x, math.nan, Fraction(1), math.nan)
    return Fraction(1) if x == 0 else turned(x, 1)


PI = Real(lambda digits: (circle(digits), Decimal(0)))
LN2 = log(Fraction(2))
LOG2E = 1 / LN2


# Reductions. An array is a list of slabs along its axis; a result keeps the axis.


def along(x, axis):
    """Return the slabs of x along an axis."""
    return [x.take([k], axis) for k in range(x.shape[axis])]


def products(a, b):
    """Return a[:, k] * b[k, :] for each k; their sum is the matrix product."""
    return [mul(a[:, [k]], b[[k], :]) for k in range(len(b))]


def running(terms, to):
    """Add the terms one after the other, rounding each sum."""
    total = Fraction(0)
    for term in terms:
        total = to(add(total, term))
    return total


def exact_sum(terms):
    """Add the terms without rounding."""
    return functools.reduce(add, terms)


def greatest(terms):
    """Return the maximum of the terms."""
    return functools.reduce(maximum, terms)


def least(terms):
    """Return the minimum of the terms."""
    return functools.reduce(minimum, terms)


def order(values, last=False):
    """Return the places of values from the largest down; NaN first, of equal ones the first."""

    def compare(i, j):
        a, b = values[i], values[j]
        if a != a or b != b:
            return bool(b != b) - bool(a != a)
        return bool(a < b) - bool(b < a)

    places = range(len(values))
    return sorted(places[::-1] if last else places, key=functools.cmp_to_key(compare))


def chosen(terms, pick):
    """Return what a function picks from the list of terms at each place."""
    out = np.empty(terms[0].shape, dtype=object)
    for place in np.ndindex(*out.shape):
        out[place] = pick([term[place] for term in terms])
    return out


def index_of_largest(terms, nth, last=False):
    """Return the index of the nth largest term; of equal ones the first, or the last, is larger."""
    return chosen(terms, lambda values: Fraction(order(values, last)[nth - 1]))


def largest(terms, nth):
    """Return the nth largest term; -0.0 is below 0."""

    def pick(values):
        values = sorted(values, key=lambda x: isinstance(x, float) and x == 0)
        return values[order(values)[nth - 1]]

    return chosen(terms, pick)


# Matrix units.


def exponent_of(x, emin):
    """Return the exponent of a number whose format begins at emin."""
    return 0 if isinstance(x, float) else max(floor_log2(abs(x)), emin) if x else emin


def factors(a, b, emin_a, emin_b):
    """Return pairs: each product, and the sum of the exponents of its factors."""

    def pair(x, y):
        return mul(x, y), exponent_of(x, emin_a) + exponent_of(y, emin_b)

    return [elementwise(pair)(x, y) for x, y in zip(a, b, strict=True)]


def matrix_step(total, terms, step):
    """Return the accumulators after one step of a matrix unit, in every element."""
    total = np.broadcast_to(np.asarray(total, dtype=object), terms[0].shape)
    out = np.empty(terms[0].shape, dtype=object)
    for i in np.ndindex(out.shape):
        out[i] = step(total[i], [term[i] for term in terms])
    return out


def aligned_sum(total, terms, emin, zero, fraction_bits, finish):
    """Add products and an accumulator as a matrix unit does.

    Every term is cut toward zero to a multiple of 2^(E - fraction_bits), where E is the largest
    exponent and `zero` at least; the sum is exact.
    """
    special = {str(x): x for x in (total, *(x for x, _ in terms)) if like(x) not in (-1, 0, 1)}
    if special:
        return special.popitem()[1] if len(special) == 1 else math.nan
    terms = [(x, e) for x, e in [*terms, (total, exponent_of(total, emin))] if x]
    quantum = Fraction(2) ** (max([zero, *(e for _, e in terms)]) - fraction_bits)
    result = sum(math.trunc(x / quantum) for x, _ in terms) * quantum
    return finish(result) or Fraction(0)


def late_sum(total, terms, emin, fraction_bits, finish):
    """Add products and then an accumulator as a matrix unit does that rounds down.

    Products are cut toward zero at their own largest exponent. Their sum is rounded down with 8
    bits more than the accumulator, the whole to 31 fraction bits.
    """

    def down(x, exponent, bits):
        quantum = Fraction(2) ** (exponent - bits)
        return math.floor(x / quantum) * quantum

    beyond = Fraction(2) ** 128
    values = [x if like(x) not in (-1, 0, 1) or abs(x) < beyond else x * math.inf for x, _ in terms]
    special = {str(x): x for x in (total, *values) if like(x) not in (-1, 0, 1)}
    if special:
        return special.popitem()[1] if len(special) == 1 else math.nan
    largest = max((e for x, e in terms if x), default=-1000)
    quantum = Fraction(2) ** (largest - fraction_bits)
    dot = sum(math.trunc(x / quantum) for x, _ in terms) * quantum
    largest = max(largest, exponent_of(total, emin))
    result = down(dot, largest, fraction_bits + 8) + down(total, largest, fraction_bits)
    return finish(down(result, exponent_of(result, emin), 31)) if result else Fraction(0)
