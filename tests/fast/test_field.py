"""The field keeps the laws of the real numbers that it claims, and no others.

What is equal for all real numbers has equal residues; what differs for some has other residues in
some draw. Constants here are powers of two or small integers, which every field knows alike.
"""

from fractions import Fraction

import numpy as np
import pytest
from in_field import drawn, other, same

from lastbit.formats import FORMATS
from lastbit.graph import Const, Input
from lastbit.interpret.digits import ZERO, Digits
from lastbit.interpret.field import FieldDomain
from lastbit.interpret.field_arithmetic import ADDED
from lastbit.interpret.field_values import FINITE, INF, NAN, NINF, UNDEFINED
from lastbit.interpret.policy import Policy
from lastbit.interpret.residues import FIELDS, GENERATOR, Field, key_of, mix, mix_int
from lastbit.reals import FUNCTIONS

pytestmark = pytest.mark.filterwarnings("ignore:overflow")  # hashes wrap around

SPECIAL = {
    FINITE: Fraction(3),
    INF: float("inf"),
    NINF: float("-inf"),
    NAN: float("nan"),
}


def is_prime(n: int) -> bool:
    """Return whether n is prime; these bases decide below 3.3e24 (Sorenson and Webster, 2015)."""
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(
        pow(base, odd, n) == 1 or any(pow(base, odd << i, n) == n - 1 for i in range(twos))
        for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
    )


# Primes


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: str(field.p))
def test_the_primes_are_what_the_field_needs(field: Field):
    assert field.p == 2 * field.q + 1
    assert is_prime(field.p)
    assert is_prime(field.q)
    assert field.p % 8 == 7  # -1 is no square, and 2 is one
    assert field.p < 2**31  # a product of two residues fits 64 bits with a bit to spare
    squares = [n for n in range(2, 32) if is_prime(n)] + [127]
    assert [n for n in squares if pow(n, field.q, field.p) != 1] == []
    assert pow(-1, field.q, field.p) == field.p - 1
    assert GENERATOR % field.p != 1
    assert pow(GENERATOR, field.q, field.p) == 1
    assert pow(GENERATOR, field.ln2, field.p) == 2
    assert 0 < field.ln2 < field.q


def test_the_fields_differ():
    assert len({field.p for field in FIELDS}) == len(FIELDS) >= 6


@pytest.mark.parametrize("field", FIELDS[:2], ids=lambda field: str(field.p))
def test_the_arithmetic_of_residues_is_that_of_integers(field: Field):
    x = np.array([0, 1, 2, 3, 255, 256, 65536, 2**24 + 1, field.q - 1, field.q, field.p - 1])
    x = x.astype(np.uint64)
    numbers = x.tolist()
    p, q = field.p, field.q
    assert field.exp(x % np.uint64(q)).tolist() == [pow(GENERATOR, n % q, p) for n in numbers]
    assert field.power(x, 5).tolist() == [pow(n, 5, p) for n in numbers]
    assert field.inverse(x).tolist() == [pow(n, p - 2, p) for n in numbers]
    assert field.inverse(x % np.uint64(q), q).tolist() == [pow(n % q, q - 2, q) for n in numbers]
    assert field.sign(x).tolist() == [pow(n, q, p) for n in numbers]
    squares = x * x % np.uint64(p)
    roots = field.sqrt(squares)
    assert (roots * roots % np.uint64(p)).tolist() == squares.tolist()
    assert set(field.sign(roots).tolist()) <= {0, 1}
    exponents = x[:-1] % np.uint64(q)
    assert field.log(field.exp(exponents)).tolist() == exponents.tolist()
    assert field.rational(3, 4) == (3 * pow(4, -1, p) % p, 3 * pow(4, -1, q) % q)
    assert field.rational(1, p) is None
    assert field.rational(1, 2 * q) is None


def test_a_hash_of_one_number_is_that_of_an_array():
    x = np.array([0, 1, 2**31, 2**64 - 1], np.uint64)
    assert mix(x, 0x9E3779B9).tolist() == [mix_int(n, 0x9E3779B9) for n in x.tolist()]
    assert key_of("round", 1) != key_of("round", 2)
    assert key_of("round", 1) == 0xF38B6FD8C686A652  # the same in every process


# Laws of exact arithmetic

LAWS = [
    ("(a + b) + c", "a + (b + c)"),
    ("a * (b + c)", "a * b + a * c"),
    ("(a - b) * (a + b)", "a * a - b * b"),
    ("(a / b) / c", "a / (b * c)"),
    ("a / 3 * 3", "a"),
    ("a + a", "2 * a"),
    ("a - a", "0 * b"),
    ("a * 0.1 * 10", "a"),
    ("exp(a + b)", "exp(a) * exp(b)"),
    ("exp(-a)", "1 / exp(a)"),
    ("exp(a) ** 3", "exp(3 * a)"),
    ("log(exp(a))", "a"),
    ("log(exp(a) * exp(b))", "a + b"),
    ("exp(a) + log(abs(b))", "log(abs(b)) + exp(a)"),
    ("(exp(a) + log(abs(b))) + exp(c)", "log(abs(b)) + (exp(c) + exp(a))"),
    ("exp(a) * log(abs(b))", "log(abs(b)) * exp(a)"),
    ("exp(a) - log(abs(b))", "-(log(abs(b)) - exp(a))"),
    ("exp2(a + 3)", "8 * exp2(a)"),
    ("exp2(a)", "exp(a * ln2)"),
    ("log2(exp2(a))", "a"),
    ("log2(8 * abs(a))", "3 + log2(abs(a))"),
    ("ln2 * log2e", "1 + 0 * a"),
    ("expm1(a)", "exp(a) - 1"),
    ("log1p(exp(a))", "softplus(a)"),
    ("abs(a * b)", "abs(a) * abs(b)"),
    ("abs(-a)", "abs(a)"),
    ("abs(exp(a))", "exp(a)"),
    ("abs(31 * a / 127)", "31 * abs(a) / 127"),
    ("sqrt(a * a)", "abs(a)"),
    ("sqrt(a * a * b * b)", "abs(a) * abs(b)"),
    ("sqrt(exp(a)) ** 2", "exp(a)"),
    ("sqrt(exp(a))", "exp(a / 2)"),
    ("rsqrt(a * a)", "1 / abs(a)"),
    ("sigmoid(a) + sigmoid(-a)", "1 + 0 * a"),
    ("silu(a)", "a / (1 + exp(-a))"),
    ("tanh(a)", "(exp(a) - exp(-a)) / (exp(a) + exp(-a))"),
    ("tanh(-a)", "-tanh(a)"),
    ("softplus(a) - softplus(-a)", "a"),
    ("gelu(a)", "a * (1 + erf(a / sqrt(2))) / 2"),
    ("gelu(a) - gelu(-a)", "a"),
    ("erf(-a)", "-erf(a)"),
    ("sin(-a)", "-sin(a)"),
    ("maximum(a, b)", "maximum(b, a)"),
    ("maximum(a, maximum(b, c))", "maximum(maximum(c, a), b)"),
    ("maximum(a, a)", "a"),
    ("max(concat(a, b, a))", "max(concat(b, a))"),
    ("max(a)", "maximum(max(a[:, 0:3]), max(a[:, 3:8]))"),
    ("max(max(a), axis=0)", "max(max(a, axis=0))"),
    ("3 * maximum(a, b)", "maximum(3 * a, 3 * b)"),
    ("maximum(a, b) * broadcast(3, 3, 8)", "maximum(3 * a, 3 * b)"),
    ("minimum(a, b)", "-maximum(-a, -b)"),
    ("min(a)", "-max(-a)"),
    ("relu(a)", "maximum(a, 0)"),
    ("relu(2 * a)", "2 * relu(a)"),
    ("clamp(a, -1, 1)", "minimum(maximum(a, -1), 1)"),
    ("maximum(a, -inf)", "a"),
    ("max(concat(broadcast(-inf, 3, 2), a))", "max(a)"),
    ("amax(a)", "max(abs(-a))"),
    ("maximum(max(a[:, 0:0]), max(a))", "max(a)"),
    ("sum(a[:, 0:0])", "0 * a[:, 0:1]"),
    ("a < b", "-b < -a"),
    ("a < b", "0 < b - a"),
    ("(a <= b) - (a < b)", "a == b"),
    ("sign(a)", "(0 < a) - (a < 0)"),
    ("select(a < b, c, d)", "select(b <= a, d, c)"),
    ("select(a == 0, c, d)", "select(a, d, c)"),
    ("a < inf", "1 + 0 * a"),
    ("inf < a", "0 * a"),
    ("-inf <= -inf", "1 + 0 * a"),
    ("nan <= a", "0 * a"),
    ("log(abs(a)) == log(abs(a))", "1 + 0 * a"),
    ("log(abs(a)) < log(abs(b))", "-log(abs(b)) < -log(abs(a))"),
    ("concat(exp(a), log(abs(b)))[:, 0:8]", "exp(a)"),
    ("concat(exp(a), log(exp(b)))[:, 0:8]", "exp(a)"),
    ("sum(a + b)", "sum(b) + sum(a)"),
    ("sum(sum(a), axis=0)", "sum(reshape(a, 1, 24))[:, 0:1]"),
    ("matmul(a, transpose(b))", "transpose(matmul(b, transpose(a)))"),
    ("softmax(a)", "softmax(a - max(a))"),
    ("exp(a) / sum(exp(a))", "softmax(a)"),
    ("opaque('f', a, b)", "opaque('f', a + 0, b)"),
]


@pytest.mark.parametrize(("left", "right"), LAWS)
def test_a_law_of_the_reals_holds_in_the_field(left, right):
    same(left, right)


NO_LAWS = [
    ("a", "b"),
    ("a", "-a"),
    ("a - b", "b - a"),
    ("exp(a * b)", "exp(a) * exp(b)"),
    ("exp(exp(a))", "exp(a)"),
    ("log(a * a)", "log(abs(a))"),
    ("exp(a) + log(abs(b))", "exp(a) - log(abs(b))"),
    ("abs(a + b)", "abs(a) + abs(b)"),
    ("sqrt(a * a)", "a"),
    ("maximum(a, b)", "a"),
    ("maximum(a, b)", "minimum(a, b)"),
    ("maximum(a, b) * c", "maximum(a * c, b * c)"),
    ("-3 * maximum(a, b)", "maximum(-3 * a, -3 * b)"),
    ("max(a)", "max(a[:, 1:8])"),
    ("relu(a)", "abs(a)"),
    ("a < b", "a <= b"),
    ("a < b", "a == b"),
    ("a < b", "b < a"),
    ("log(abs(a)) < log(abs(b))", "log(abs(a)) == log(abs(b))"),
    ("log(abs(a)) < log(abs(b))", "log(abs(a)) <= log(abs(b))"),
    ("select(a < b, c, d)", "c + 0 * d"),
    ("select(log(abs(a)) < log(abs(b)), c, d)", "c + 0 * d"),
    ("select(a, c, d)", "c + 0 * d"),  # a may be zero
    ("select(floor(a), c, d)", "c + 0 * d"),
    ("select(sign(a), c, d)", "c + 0 * d"),
    ("a / b * b", "select(b, a, 0)"),
    ("erf(a)", "tanh(a)"),
    ("floor(a)", "ceil(a)"),
    ("floor(-a)", "-floor(a)"),
    ("cos(a)", "sin(a)"),
    ("opaque('f', a, b)", "opaque('g', a, b)"),
    ("opaque('f', a, b)", "opaque('f', b, a)"),
    ("sum(a)", "sum(a[:, 1:8])"),
    ("sum(a, axis=0)[:, 0:1]", "sum(a)[0:1]"),
    ("a < inf", "inf + 0 * a"),
]


@pytest.mark.parametrize(("left", "right"), NO_LAWS)
def test_what_differs_for_some_numbers_differs_in_the_field(left, right):
    other(left, right)


def test_a_named_real_is_no_rational():
    for name in ("pi", "ln2", "log2e"):
        other(f"{name} * a", "3 * a")
    other("pi * a", "ln2 * a")


# Leaves


def test_inputs_are_not_zero_and_known_as_values_of_their_format():
    domain = FieldDomain(FIELDS[0], 3)
    x = domain.input(Input("x", FORMATS["bf16"], shape=(100,)))
    assert x.p is not None
    assert x.p.all()
    assert x.digits == Digits.of_format(FORMATS["bf16"])
    again = FieldDomain(FIELDS[0], 3).input(Input("x", FORMATS["f32"], shape=(100,)))
    assert np.array_equal(again.p, x.p)  # a value is drawn by its name
    assert not np.array_equal(
        FieldDomain(FIELDS[0], 4).input(Input("x", FORMATS["bf16"], shape=(100,))).p, x.p
    )
    signs = FIELDS[0].sign(x.p)
    assert set(signs.tolist()) == {1, FIELDS[0].p - 1}
    unsigned = domain.input(Input("u", FORMATS["uint8"], shape=(100,)))
    assert set(FIELDS[0].sign(unsigned.p).tolist()) == {1}
    same("abs(u)", "u")


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: str(field.p))
def test_a_constant_is_its_residue(field: Field):
    domain = FieldDomain(field, 1)
    for value in (Fraction(0), Fraction(-3), Fraction(1, 10), Fraction(2**100, 7)):
        x = domain.const(Const(value))
        for plane, modulus in ((x.p, field.p), (x.q, field.q)):
            assert int(plane) == value.numerator * pow(value.denominator, -1, modulus) % modulus
        assert x.special is None
        assert x.constant == value
    undefined = domain.const(Const(Fraction(1, field.p)))
    assert undefined.special == UNDEFINED
    assert domain.const(Const(-0.0)).p == 0
    for code, number in ((INF, float("inf")), (NINF, float("-inf")), (NAN, float("nan"))):
        assert domain.const(Const(number)).special == code
    ln2, log2e = domain.const(Const("ln2")), domain.const(Const("log2e"))
    assert int(ln2.p) * int(log2e.p) % field.p == 1
    assert int(ln2.q) * int(log2e.q) % field.q == 1
    assert ln2.q == field.ln2


# Special values


@pytest.mark.parametrize("fn", ["add", "sub", "mul", "max", "min", "less", "less_equal", "equal"])
def test_two_arguments_give_the_special_value_that_numbers_give(fn):
    domain = FieldDomain(FIELDS[0], 0)
    for x in SPECIAL.values():
        for y in SPECIAL.values():
            found = domain.map(fn, tuple(domain.const(Const(value)) for value in (x, y)))
            expected = domain.const(Const(FUNCTIONS[fn](x, y)))
            assert int(found.codes) == int(expected.codes), (fn, x, y)
            if fn not in ("max", "min") and expected.codes == FINITE:
                assert found.p == expected.p, (fn, x, y)


@pytest.mark.parametrize("fn", ["neg", "abs", "sign", "exp", "sqrt", "log", "relu"])
def test_one_argument_gives_the_special_value_that_numbers_give(fn):
    domain = FieldDomain(FIELDS[0], 0)
    for x in (float("inf"), float("-inf"), float("nan")):
        found = domain.map(fn, (domain.const(Const(x)),))
        expected = FUNCTIONS[fn](x)
        assert int(found.codes) == int(domain.const(Const(expected)).codes), (fn, x)
    zero = domain.map("log", (domain.const(Const(Fraction(0))),))
    assert zero.special == NINF


def test_zero_times_infinity_is_nan_and_one_over_infinity_is_zero():
    domain = FieldDomain(FIELDS[0], 0)
    zero, inf = (domain.const(Const(value)) for value in (Fraction(0), float("inf")))
    assert domain.map("mul", (zero, inf)).special == NAN
    one = domain.map("div", (domain.const(Const(Fraction(1))), inf))
    assert one.special is None
    assert one.p == 0


def test_what_a_draw_cannot_say_stays_so():
    assert ADDED[UNDEFINED].tolist() == ADDED[:, UNDEFINED].tolist() == [UNDEFINED] * 5
    assert ADDED.tolist() == ADDED.T.tolist()
    undefined = drawn("a / (b - b)")
    assert (undefined.codes == UNDEFINED).all()
    roots = drawn("sqrt(a)")  # half of the residues have none
    assert set(np.unique(roots.codes)) == {FINITE, UNDEFINED}
    hashed = drawn("floor(inf + a)")
    assert (hashed.codes == UNDEFINED).all()
    assert drawn("select(nan, 1, 2) * a").special is None


def test_sums_and_maxima_carry_special_values():
    assert drawn("sum(concat(a, broadcast(inf, 3, 1)))").codes.tolist() == [[INF]] * 3
    assert (
        drawn("sum(concat(broadcast(-inf, 3, 1), broadcast(inf, 3, 1)))").codes.tolist()
        == [[NAN]] * 3
    )
    assert drawn("max(concat(a, broadcast(nan, 3, 1)))").codes.tolist() == [[NAN]] * 3
    assert drawn("max(broadcast(-inf, 3, 4))").codes.tolist() == [[NINF]] * 3
    assert drawn("max(a[:, 0:0])").codes.tolist() == [[NINF]] * 3
    assert drawn("min(a[:, 0:0])").codes.tolist() == [[INF]] * 3
    assert drawn("exp(broadcast(-inf, 3, 1))").p.tolist() == [[0]] * 3


def test_what_is_zero_stays_known_as_zero():
    for text in ("sum(broadcast(0, 3, 1000))", "sum(0 * a)", "0 * a + 0 * b", "sum(a[:, 0:0])"):
        assert drawn(text).digits == ZERO


# Hints


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a * b + exp(a)", False),
        ("log(abs(a))", False),
        ("maximum(a, b)", True),
        ("erf(a)", True),
        ("a < b", True),
        ("select(a, b, c)", True),
        ("exp(exp(a))", True),
        ("abs(log(abs(a)))", True),
        ("sqrt(log(abs(a)))", True),
        ("log(log(abs(a)))", True),
        ("exp(a) + log(abs(b))", True),
        ("sign(a)", True),
        ("opaque('f', a)", True),
    ],
)
def test_a_hash_that_knows_too_few_laws_leaves_a_hint(text, hint):
    assert drawn(text).hint is hint
    assert drawn(f"transpose({text}) * 2").hint is hint


def test_a_rounding_leaves_no_hint():
    assert drawn("y: bf16 = a * b", policy=Policy.ROUND).hint is False
    assert drawn("y: bf16 = sum(a) acc f32 seq", policy=Policy.BITS).hint is False


def test_every_function_is_evaluated():
    from lastbit.ops import ELEMENTWISE, FUNCTION

    domain = FieldDomain(FIELDS[0], 0)
    x = domain.input(Input("x", FORMATS["f32"], shape=(4,)))
    for name, (count, _) in ELEMENTWISE.items():
        y = domain.map(FUNCTION.get(name, name), (x,) * count)
        assert y.shape == (4,), name
