"""The canonical form keeps the bits of ordinary runs, and makes equal what its laws say is equal.

Each law is enumerated over formats of at most 8 bits.
"""

import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from canonical_forms import graph_of
from unlimited import Unlimited

from lastbit.formats import FORMATS, Format, decode
from lastbit.graph import Graph, Input, Round, apply, topological
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.exact import ExactDomain, exact_array
from lastbit.interpret.policy import Policy
from lastbit.rounding import Mode, Rounding, round_exact
from lastbit.text import parse_program
from lastbit.verify.canonicalise import canonical
from lastbit.verify.laws import HARMLESS, digits, power_of_two, scaled_rounding, square_part

SMALL_FLOATS = [fmt for fmt in FORMATS.values() if fmt.bits <= 8 and fmt.kind == "float"]
FACTORS = [Fraction(2), Fraction(1, 2), Fraction(-1), Fraction(-4)]


# Roundings and powers of two.


def ordinary_numbers(fmt: Format) -> Iterator[Fraction]:
    """Yield numbers of each sign: values of a format, and three between each two neighbours."""
    values = {v for v in (decode(c, fmt) for c in range(2**fmt.bits)) if isinstance(v, Fraction)}
    positive = sorted(v for v in values if v >= fmt.min_normal)
    for low, high in itertools.pairwise(positive):
        for quarter in range(4):
            yield low + (high - low) * quarter / 4
            if fmt.signed:
                yield -low - (high - low) * quarter / 4


@pytest.mark.parametrize("fmt", [*SMALL_FLOATS, FORMATS["e8m0"]], ids=str)
def test_a_power_of_two_leaves_a_rounding(fmt: Format) -> None:
    numbers = list(ordinary_numbers(fmt))[:: 1 if fmt.kind == "float" else 16]
    compared = 0
    for mode in (mode for mode in Mode if mode != Mode.STOCHASTIC):
        overflow = None if fmt.has_nan or fmt.has_inf else "saturate"
        rounding = Rounding.of(fmt, mode=mode, overflow=overflow)
        whole = {x: round_exact(x, rounding) for x in numbers}
        for factor in FACTORS:  # each +-2^k is made of the first three
            inner = scaled_rounding(rounding, factor)
            if inner is None:
                assert rounding.overflow == "saturate" or not fmt.signed
                continue
            for x, y in whole.items():
                if fmt.min_normal <= abs(factor * x) < fmt.max_finite and isinstance(y, Fraction):
                    last = y if inner == rounding else round_exact(x, inner)
                    assert round_exact(factor * x, rounding) == factor * last
                    compared += 1
    assert compared > 500 or not (fmt.has_nan or fmt.has_inf)


def test_rounding_up_becomes_rounding_down_when_a_sign_leaves_it() -> None:
    up, down = Rounding.of("bf16", mode="rup"), Rounding.of("bf16", mode="rdn")
    assert scaled_rounding(up, Fraction(-2)) == down
    assert scaled_rounding(down, Fraction(-1)) == up
    assert scaled_rounding(up, Fraction(2)) == up


@pytest.mark.parametrize(
    ("rounding", "factor"),
    [
        (Rounding.of("int8"), 2),  # its last digit does not move
        (Rounding.of("int8"), -1),  # -128 has no opposite
        (Rounding.of("bf16", mode="sr"), 2),  # draws by the value
        (Rounding.of("e4m3fn", overflow="saturate"), 2),  # 448 does not move
        (Rounding.of("e8m0"), -1),  # no negative numbers
    ],
    ids=str,
)
def test_other_roundings_keep_the_factor(rounding: Rounding, factor: int) -> None:
    assert scaled_rounding(rounding, Fraction(factor)) is None
    assert scaled_rounding(rounding, Fraction(1)) == rounding


@pytest.mark.parametrize(
    ("value", "power"),
    [("12", "4"), ("-3/4", "-1/4"), ("1/3", "1"), ("10/3", "2"), ("0", "1"), ("-1", "-1")],
)
def test_a_constant_is_a_power_of_two_times_an_odd_number(value: str, power: str) -> None:
    assert power_of_two(Fraction(value)) == Fraction(power)


@pytest.mark.parametrize("k", range(-5, 6))
def test_a_root_lets_even_powers_out(k: int) -> None:
    factor = Fraction(2) ** k
    assert factor / square_part(factor) ** 2 in (1, 2)


# Double rounding.


def digits_only(precision: int) -> Rounding:
    """Return a rounding to nearest even whose exponents no test reaches."""
    return Rounding.of(Format("wide", "wide", precision + 10, precision, -500, has_inf=True))


OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}


def pairs(q: int) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield all pairs of q-digit numbers, up to sign and scale: exponents differ by up to 3q."""
    significands = range(1 << (q - 1), 1 << q)
    for a, b, k in itertools.product(significands, significands, range(3 * q + 1)):
        yield Fraction(a), Fraction(b, 1 << k)


def harm(fn: str, q: int, p: int) -> int:
    """Count the pairs for which rounding to p digits first changes the result."""
    first, last = digits_only(p), digits_only(q)
    results = {OPERATIONS[fn](a, b) for a, b in pairs(q)}
    return sum(
        round_exact(round_exact(x, first), last) != round_exact(x, last) for x in results if x
    )


@pytest.mark.parametrize("q", [2, 3, 4])
@pytest.mark.parametrize("fn", sorted(OPERATIONS))
def test_rounding_twice_is_harmless_with_enough_digits(fn: str, q: int) -> None:
    assert harm(fn, q, HARMLESS[fn](q)) == 0
    assert harm(fn, q, HARMLESS[fn](q) + 1) == 0
    assert harm(fn, q, q + 1) > 0 or (fn == "mul" and q < 4)  # the pairs can tell


@pytest.mark.parametrize("q", range(2, 9))
def test_rounding_a_root_twice_is_harmless_with_enough_digits(q: int) -> None:
    def root(square: Fraction, rounding: Rounding) -> Any:
        domain = ExactDomain({"a": exact_array([square], ())})
        a = Input("a", FORMATS["f64"])
        (out,) = evaluate([Round(apply("sqrt", a), rounding)], domain, Policy.BITS)
        return out.array[()]

    last = digits_only(q)
    for p, harmless in ((HARMLESS["sqrt"](q), True), (q + 1, False)):
        first = digits_only(p)
        differ = 0
        for m in range(1 << (q - 1), 1 << (q + 1)):  # all q-digit numbers of two binades
            square = Fraction(m) if m < 1 << q else Fraction(m & ~1)
            differ += round_exact(root(square, first), last) != root(square, last)
        assert (differ == 0) == harmless


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("o: bf16 = round(x + y, f32)", True),
        ("o: bf16 = round(x / y, f32)", True),
        ("o: bf16 = round(sqrt(abs(x)), f32)", True),
        ("o: bf16 = 2 * reshape(round(x - y / 4, f32), 12)", True),  # views and powers of two
        ("o: f32 = round(f * f, f64)", True),
        ("o: bf16 = round(x * y + z, f32)", False),  # fused multiply-add
        ("o: bf16 = round(x + y + z, f32)", False),
        ("o: bf16 = round(f / f, f32)", False),  # operands of 24 digits
        ("o: bf16 = round(x / y, f32, rtz)", False),
        ("o: bf16 = round(x / y, f32) rup", False),
        ("o: bf16 = round(x / y, f16)", False),  # 11 digits are fewer than 16
        ("o: f16 = round(round(x, e4m3fn) / round(y, e4m3fn), bf16)", False),  # 8 are fewer than 22
        ("o: e4m3fn = round(round(x, e4m3fn) / round(y, e4m3fn), bf16)", True),
        ("o: e4m3fn = round(round(x, e4m3fn) + round(y, e4m3fn), bf16)", False),  # needs 9
        ("o: e4m3fn = round(round(x, e4m3fn) + round(y, e4m3fn), f16)", True),
        ("o: bf16 = round(x / y, f32, saturate)", False),  # a limit of its own
        ("o: bf16 = round(exp(x), f32)", False),
    ],
)
def test_a_harmless_rounding_disappears_and_no_other(text: str, harmless: bool) -> None:
    graph = graph_of(text)
    before, after = (
        sum(isinstance(node, Round) for node in topological(g.results))
        for g in (graph, canonical(graph))
    )
    assert after == before - harmless


def test_a_fused_multiply_add_rounded_twice_differs() -> None:
    # (17/16)^2 = 1 + 2^-3 + 2^-8 is a midpoint of bf16; 2^-60 decides, and binary32 loses it.
    exact = Fraction(17, 16) ** 2 + Fraction(1, 2**60)
    direct = round_exact(exact, Rounding.of("bf16"))
    assert direct != round_exact(round_exact(exact, Rounding.of("f32")), Rounding.of("bf16"))


def test_digits_of_a_power_of_two_do_not_count() -> None:
    x = Input("x", FORMATS["bf16"])
    known: dict[bytes, int | None] = {}
    assert digits(apply("mul", x, 4), known) == 8
    assert digits(apply("mul", x, 3), known) == 10
    assert digits(apply("mul", x, x), known) == 16
    assert digits(apply("max", x, 5), known) == 8
    assert digits(apply("add", x, x), known) is None
    assert digits(apply("exp", x), known) is None


# Other laws.


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("o: real = maximum(x, -x)", "o: real = abs(x)"),
        ("o: real = maximum(-x, x)", "o: real = abs(x)"),
        ("o: real = -minimum(x, -x)", "o: real = abs(x)"),
        ("o: real = minimum(-2 * x, x * 2)", "o: real = -2 * abs(x)"),
        ("o: real = maximum(maximum(x, y), -minimum(x, y))", "o: real = maximum(abs(x), abs(y))"),
        ("o: real = maximum(max(x), -min(x))", "o: real = amax(x)"),
        ("o: real = abs(abs(-x))", "o: real = abs(x)"),
        ("o: real = -(-x)", "o: real = x"),
        ("o: real = 4 * (x / 4)", "o: real = x"),
        ("o: real = relu(x)", "o: real = maximum(x, 0)"),
        ("o: real = select(0 < x, x, 0)", "o: real = maximum(0, x)"),
        ("o: real = select(x <= 0, 0, x)", "o: real = maximum(x, 0)"),
        ("o: real = select(-x < 0, 2 * x, 0)", "o: real = 2 * maximum(0, x)"),
        ("o: real = select(x < y, x, y)", "o: real = minimum(x, y)"),
        ("o: real = select(x < 0, -x, x)", "o: real = abs(x)"),
        ("o: real = select(0 <= x, x, -x)", "o: real = abs(x)"),
        ("o: real = select(0 < x, -x, x)", "o: real = -abs(x)"),
        ("o: real = select(x < y, z, z)", "o: real = z"),
        ("o: real = clamp(2 * x, -8, 6)", "o: real = 2 * minimum(maximum(x, -4), 3)"),
        ("o: real = exp(log(x))", "o: real = x"),
        ("o: real = log(exp(x / 2))", "o: real = x / 2"),
        ("o: real = log2(exp2(x)) + expm1(log1p(y))", "o: real = x + y"),
        ("o: real = sqrt(x * 8)", "o: real = 2 * sqrt(2 * x)"),
        ("o: real = rsqrt(x / 4)", "o: real = 2 * rsqrt(x)"),
        ("o: real = reshape(reshape(x, 12), 3, 4)", "o: real = reshape(x, 3, 4)"),
        ("o: real = transpose(transpose(x))", "o: real = x"),
        ("o: real = concat(x, y, axis=0)[2:4, 1:5]", "o: real = y[0:2, 1:5]"),
        ("o: real = concat(x, y, axis=1)[0:2, 7:10:2]", "o: real = y[0:2, 1:4:2]"),
        ("o: real = concat(2 * x, 2 * y, axis=0)", "o: real = 2 * concat(x, y, axis=0)"),
        ("o: real = concat(x, x / 2, axis=0)[2:4, 0:6]", "o: real = x / 2"),
    ],
)
def test_a_law_gives_the_form(text: str, form: str) -> None:
    found = canonical(graph_of(text)).key()
    assert found == canonical(graph_of(form)).key()
    assert found != graph_of(text).key() or text == form


@pytest.mark.parametrize(
    "text",
    [
        "o: real = select(x < y, y, x) + maximum(-x, x)",
        "o: real = select(x <= 0, 0, x) + select(y < 0, -y, y)",
        "o: real = minimum(maximum(x, y), -minimum(x, y)) - clamp(x, y, 2)",
        "o: e3m2 = x * 2 - y / 2 saturate",
        "o: e2m3 = round(2 * x + y, e5m2) - relu(-x)",
        "o: e5m2 = round(x / 2 - y, f16) * round(-2 * x * y, e4m3fn)",
    ],
)
def test_all_pairs_of_small_numbers_keep_their_values(text: str) -> None:
    count = 64  # the codes of e3m2
    inputs = f"x: e3m2[{count}, 1]\ny: e3m2[1, {count}]\n"
    graph = parse_program(inputs + text).bind({})
    codes = [decode(code, FORMATS["e3m2"]) for code in range(count)]
    given_ = [code if isinstance(code, Fraction) else Fraction(0) for code in codes]
    values = {"x": exact_array(given_, (count, 1)), "y": exact_array(given_, (1, count))}
    before, after = (_values(g, values) for g in (graph, canonical(graph)))
    assert len(before) == count * count
    assert before == after


def _values(graph: Graph, inputs: Mapping[str, Any]) -> list[Any]:
    """Return all results, where exponents have no limits."""
    out = evaluate(graph.results, Unlimited(inputs), Policy.BITS)
    shapes = (node.shape for node in graph.results)
    return [
        v
        for value, shape in zip(out, shapes, strict=True)
        for v in np.broadcast_to(value.array, shape).flat
    ]
