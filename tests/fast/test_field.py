"""The field keeps the laws of the real numbers that it claims, and no others.

What is equal for all real numbers has equal residues; what differs for some has other residues in
some draw. Constants here are powers of two or small integers, which every field knows alike.
"""

from fractions import Fraction

import numpy as np
import pytest

import lastbit.interpret.field_tree as field_tree
from lastbit.formats import FORMATS
from lastbit.graph import Const, Graph, Input
from lastbit.interpret.digits import ZERO, Digits
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.field import FieldDomain
from lastbit.interpret.field_arithmetic import ADDED
from lastbit.interpret.field_values import FINITE, INF, NAN, NINF, UNDEFINED, Residue
from lastbit.interpret.policy import Policy
from lastbit.interpret.residues import FIELDS, GENERATOR, Field, key_of, mix, mix_int
from lastbit.reals import FUNCTIONS
from lastbit.rounding import Mode
from lastbit.text import parse_program
from lastbit.verify.agree import agree

HEAD = "a: f32[3, 8]\nb: f32[3, 8]\nc: bf16[3, 8]\nd: bf16[3, 8]\nu: uint8[3, 8]\n"
SPECIAL = {
    FINITE: Fraction(3),
    INF: float("inf"),
    NINF: float("-inf"),
    NAN: float("nan"),
}


@pytest.fixture(autouse=True)
def _hashes_wrap_around():
    with np.errstate(over="ignore"):
        yield


def graph(*lines: str) -> Graph:
    """Return a graph that reads a to d and u; the last line is `y`, or an expression of it."""
    *before, last = lines
    text = last if last.startswith("y:") else f"y: real = {last}"
    return parse_program(HEAD + "\n".join([*before, text, "return y"])).bind({})


def said(left: str | tuple[str, ...], right: str | tuple[str, ...], policy: Policy) -> bool:
    """Return whether two expressions, or two texts, agree in the field."""
    pair = [graph(*((text,) if isinstance(text, str) else text)) for text in (left, right)]
    found = agree(*pair, policy)
    assert found.elements > 0 or not found.equal
    return found.equal


def same(left, right, policy=Policy.REAL):
    """Assert that two expressions, or two texts, agree."""
    assert said(left, right, policy), (left, right)


def other(left, right, policy=Policy.REAL):
    """Assert that two expressions, or two texts, do not agree."""
    assert not said(left, right, policy), (left, right)


def drawn(text: str, draw: int = 0, policy: Policy = Policy.REAL) -> Residue:
    """Return the value of an expression in one draw."""
    domain = FieldDomain(FIELDS[draw % len(FIELDS)], draw, compares=True)
    return evaluate(graph(text).results, domain, policy)[0]


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


# Rounding


def test_a_rounding_is_one_function_of_its_argument():
    same(("t: bf16 = a * b", "y: bf16 = t * 1"), "y: bf16 = b * a", Policy.ROUND)
    other("y: bf16 = a * b", "y: f16 = a * b", Policy.ROUND)
    other("y: bf16 = a * b", "y: bf16 = a * b rtz", Policy.ROUND)
    other("y: bf16 = a * b", "y: real = a * b", Policy.ROUND)
    same("y: bf16 = a * b", "y: bf16 = a * b saturate flush", Policy.ROUND)  # on ordinary runs
    same("y: bf16 = exp(a)", ("t: bf16 = exp(a)", "y: bf16 = round(t, bf16)"), Policy.ROUND)
    same("y: bf16 = log(abs(a)) + log(abs(b))", "y: bf16 = log(abs(b)) + log(abs(a))", Policy.ROUND)


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode != Mode.STOCHASTIC])
def test_rounding_is_odd_where_the_mode_is_symmetric(mode):
    odd = mode not in (Mode.UP, Mode.DOWN)
    for inner in ("a * b", "exp(a)", "log(abs(a))"):
        left, right = f"y: bf16 = -({inner}) {mode}", (f"t: bf16 = {inner} {mode}", "-t")
        (same if odd else other)(left, right, Policy.ROUND)


def test_rounding_to_an_integer_is_not_odd():
    other("y: int8 = -(a * b)", ("t: int8 = a * b", "-t"), Policy.GRID)  # -128 has no negative


def test_rounding_keeps_zero_and_the_sign():
    same("y: bf16 = a - a", "0 * a", Policy.ROUND)
    same("y: bf16 = a - a rup", "0 * a", Policy.ROUND)
    for mode in ("rne", "rtz"):
        rounding = (f"t: bf16 = a * b {mode}", "abs(t)")
        same(rounding, f"y: bf16 = abs(a) * abs(b) {mode}", Policy.ROUND)
    same(("t: bf16 = exp(a)", "abs(t)"), "y: bf16 = exp(a)", Policy.ROUND)


KEPT = [
    ("c", "f32"),  # a value of bf16 is one of f32
    ("c", "bf16"),
    ("c", "bf16, rup"),
    ("c * d", "f32"),  # 8 + 8 digits
    ("c * 3", "f32"),  # 8 + 2 digits
    ("c * 4", "bf16"),
    ("c / 4", "bf16"),
    ("-c", "bf16"),
    ("abs(c)", "bf16"),
    ("maximum(c, d)", "bf16"),
    ("max(c)", "bf16"),
    ("select(a < b, c, d)", "bf16"),
    ("sqrt(c * c)", "bf16"),  # by its residue
    ("concat(c, d)[:, 4:12]", "bf16"),
    ("a < b", "e4m3fn"),
    ("2 * u", "f32"),
    ("u * u", "f32"),  # at most 65025
    ("448 + 0 * c", "e4m3fn"),
]


@pytest.mark.parametrize(("text", "fmt"), KEPT)
def test_a_rounding_keeps_what_is_known_to_be_a_value_of_its_format(text, fmt):
    same(f"round({text}, {fmt})", text, Policy.ROUND)


CHANGED = [
    ("a", "bf16"),
    ("c * d", "bf16"),
    ("c * 3", "bf16"),
    ("c / 3", "f32"),
    ("(c + d) * 1", "f32"),  # exponents may lie far apart
    ("0.1 + 0 * c", "f32"),
    ("u * u", "e4m3fn"),
    ("449 + 0 * c", "e4m3fn"),
    ("c", "e8m0"),
]


@pytest.mark.parametrize(("text", "fmt"), CHANGED)
def test_a_rounding_changes_what_may_be_no_value_of_its_format(text, fmt):
    other(f"round({text}, {fmt})", text, Policy.ROUND)


def test_a_rounding_moves_into_a_maximum():
    same("y: bf16 = maximum(a, b)", ("s: bf16 = a", "t: bf16 = b", "maximum(s, t)"), Policy.ROUND)
    same("y: bf16 = amax(a)", ("s: bf16 = abs(a)", "max(s)"), Policy.ROUND)
    same("y: bf16 = relu(a)", ("s: bf16 = a", "relu(s)"), Policy.ROUND)
    same("y: int8 = max(a)", ("s: int8 = a", "max(s)"), Policy.GRID)


def test_saturation_is_a_clamp_where_nothing_is_rounded():
    same("y: e4m3fn = a saturate", "clamp(a, -448, 448)")
    same("y: e4m3fn = a", "a")
    same("y: f32 = c saturate", "c")  # the largest bf16 is below that of f32
    same("y: int8 = a * 3 saturate", "clamp(3 * a, -128, 127)")


# Sums

SUMS = [  # all are one rounded sum
    "y: f32 = sum(a) acc f32 seq",
    "y: f32 = sum(a) acc f32 pairwise(2)",
    "y: f32 = sum(a[:, ::-1]) acc f32 split(3)",
]


def test_a_rounded_sum_is_that_of_a_multiset_of_terms():
    for text in SUMS[1:]:
        same(SUMS[0], text, Policy.ROUND)
    parts = ("s: f32 = sum(a[:, 0:3]) acc f32 seq", "t: f32 = sum(a[:, 3:8]) acc f32 seq")
    same(SUMS[0], (*parts, "y: f32 = s + t"), Policy.ROUND)
    same(SUMS[0], (*parts, "y: f32 = t - -s"), Policy.ROUND)
    other(SUMS[0], (*parts, "y: real = s + t"), Policy.ROUND)
    same("y: f32 = a + b + c", ("t: f32 = b + c", "y: f32 = t + a"), Policy.ROUND)
    same("y: f32 = a - (b - c)", ("t: f32 = b - c", "y: f32 = a - t"), Policy.ROUND)


def test_a_term_counts_as_often_as_it_stands_in_a_sum():
    other("y: f32 = a + b", "y: f32 = a + b + b", Policy.ROUND)
    other("y: f32 = a + a + b", "y: f32 = a + b + b", Policy.ROUND)
    other("y: f32 = a + a + b", "y: f32 = 2 * a + b", Policy.ROUND)  # 2 * a is one term
    same("y: f32 = a + 0 * b + b", "y: f32 = a + b", Policy.ROUND)  # a zero is none


def test_a_sum_of_one_term_is_its_rounding():
    same("y: bf16 = sum(a[:, 0:1])", "y: bf16 = a[:, 0:1]", Policy.ROUND)
    same("y: f32 = sum(c[:, 0:1]) acc f32 seq", "c[:, 0:1]", Policy.ROUND)
    same("y: bf16 = a + 0", "y: bf16 = a", Policy.ROUND)
    for policy in (Policy.ROUND, Policy.BITS):
        same("y: bf16 = sum(a[:, 0:1]) acc bf16 seq", "y: bf16 = a[:, 0:1]", policy)
        same("y: bf16 = sum(a[:, 0:0]) acc bf16 seq", "y: bf16 = 0 * a[:, 0:1]", policy)


def test_a_rounded_sum_is_odd_and_zero_where_the_exact_one_is():
    same(("t: f32 = a + b + c", "-t"), "y: f32 = -a - c - b", Policy.ROUND)
    same("y: f32 = a + b - a - b", "0 * a", Policy.ROUND)
    other(("t: f32 = a + b rup", "-t"), "y: f32 = -a - b rup", Policy.ROUND)


def test_views_and_signs_keep_a_sum_open():
    parts = ("s: f32 = sum(a) acc f32 seq", "t: f32 = -reshape(s, 1, 3)")
    merged = "y: f32 = sum(concat(b[:, 0:1], -a)) acc f32 seq"
    same((*parts, "y: f32 = transpose(t) + b[:, 0:1]"), merged, Policy.ROUND)
    scaled = ("s: f32 = sum(a) acc f32 seq", "y: f32 = 3 * s + b[:, 0:1]")
    other(scaled, "y: f32 = sum(concat(b[:, 0:1], 3 * a)) acc f32 seq", Policy.ROUND)


# Trees

TREES = (
    "seq",
    "pairwise(1)",
    "pairwise(3)",
    "lanes(3)",
    "split(2)",
    "split(8, partials=bf16)",
    "split(3, partials=bf16, inner=pairwise(1))",
    "lanes(2, inner=seq(acc=f16), outer=seq)",
    "promote(2, f32, inner=seq(acc=bf16))",
    "tree(((0, (7, 1)), ((2, 3), ((4, 5), 6))))",
)


def tree_value(monkeypatch, limit, terms, schedule, acc="f32"):
    """Return a sum under BITS, folded on integers or on arrays."""
    monkeypatch.setattr(field_tree, "SCALAR_LIMIT", limit)
    text = f"{terms}y: {acc} = sum(t) acc {acc} {schedule}"
    domain = FieldDomain(FIELDS[1], 5)
    program = parse_program(HEAD + text).bind({})
    (y,) = evaluate([program.values["y"]], domain, Policy.BITS)
    return y


@pytest.mark.parametrize("schedule", TREES)
@pytest.mark.parametrize(
    "terms",
    [
        "t: real = a\n",
        "t: real = c\n",
        "t: real = c * d\n",
        "t: real = log(abs(a))\n",
        "t: real = concat(c[:, 0:5], broadcast(0, 3, 3))\n",
        "t: real = concat(broadcast(0, 3, 1), a[:, 0:7])\n",
        "t: real = concat(a[:, 0:4], -a[:, 0:4])\n",
    ],
)
def test_a_tree_is_the_same_on_integers_and_on_arrays(monkeypatch, schedule, terms):
    on_integers = tree_value(monkeypatch, 100, terms, schedule)
    on_arrays = tree_value(monkeypatch, 0, terms, schedule)
    assert np.array_equal(on_integers.p, on_arrays.p)
    assert np.array_equal(on_integers.q, on_arrays.q)
    assert on_integers.p.any() == on_arrays.p.any()


@pytest.mark.parametrize("acc", ["f32", "bf16", "int8"])
def test_trees_tell_their_order_and_no_more(monkeypatch, acc):
    for limit in (0, 100):
        values = {
            schedule: tree_value(monkeypatch, limit, "t: real = a\n", schedule, acc).p.tobytes()
            for schedule in (
                "seq",
                "pairwise(1)",
                "lanes(3)",
                "split(2)",
                "pairwise(8)",
                "split(1)",
            )
        }
        assert values["seq"] == values["pairwise(8)"] == values["split(1)"]
        assert len(set(values.values())) == 4
        swapped = "t: real = a[:, ::-1]\n"
        for schedule in ("seq", "pairwise(1)"):
            found = tree_value(monkeypatch, limit, swapped, schedule, acc).p.tobytes()
            assert (found == values[schedule]) == (schedule == "pairwise(1)")


def test_a_step_of_a_matrix_unit_is_one_of_a_multiset():
    wide = "concat(c * d, d * d, c * c)"
    left = f"y: f32 = sum({wide}) acc f32"
    step = f"{left} fused(16, hopper)"  # one of 16 terms, one of 8
    moved = "concat((c * d)[:, ::-1], d[:, ::-1] * d[:, ::-1], c * c)"
    same(step, f"y: f32 = sum({moved}) acc f32 fused(16, hopper)", Policy.BITS)
    other(step, f"y: f32 = sum({wide}[:, ::-1]) acc f32 fused(16, hopper)", Policy.BITS)
    other(step, f"{left} fused(32, hopper)", Policy.BITS)
    other(step, f"{left} seq", Policy.BITS)
    other(step, f"{left} any_order", Policy.BITS)
    same(step, f"{left} fused(32, hopper)", Policy.ROUND)
    same(
        "y: f32 = sum(a) acc f32 any_order",
        "y: f32 = sum(a[:, ::-1]) acc f32 any_order",
        Policy.BITS,
    )


def test_a_sum_does_not_depend_on_the_number_of_its_outputs():
    wide = "x: bf16[{}, 4]\ny: f32 = sum(x) acc f32 {}"
    for rows in (2, 40):  # folded on integers, and on arrays
        texts = [wide.format(rows, tree) for tree in ("split(4, partials=bf16)", "seq")]
        before, after = (parse_program(text).bind({}) for text in texts)
        assert agree(before, after, Policy.BITS).equal


# Maxima


def test_a_maximum_knows_its_members():
    both = drawn("maximum(a, maximum(b, a))")
    assert both.members.shape == (3, 8, 2)
    for name in ("a", "b"):
        assert (both.members == drawn(name).p[..., None]).any(axis=-1).all()
    along = drawn("max(a)")
    assert along.members.shape == (3, 1, 8)
    assert np.array_equal(np.sort(along.members[:, 0]), np.sort(drawn("a").p))
    turned = drawn("transpose(max(a))")
    assert turned.members.shape == (1, 3, 8)
    masked = drawn("max(concat(a, broadcast(-inf, 3, 2)))")
    assert np.array_equal(masked.members, along.members)


def test_a_maximum_of_negative_numbers_is_negative():
    for draw in range(3):
        field = FIELDS[draw]
        assert set(field.sign(drawn("max(-exp(a))", draw).p).ravel().tolist()) == {field.p - 1}
        assert set(field.sign(drawn("max(a)", draw).p).ravel().tolist()) == {1}


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
