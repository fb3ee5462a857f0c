"""The array domain gives the bits of the exact domain: on ties, specials, trees, at every size."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from arrays import INF, SEED, differing, drawn, rounded, run, run_exactly
from hypothesis import given, settings
from hypothesis import strategies as st
from sites import graph_of

from lastbit.formats import FORMATS
from lastbit.graph import Graph, Input, Round, apply
from lastbit.interpret import folded, tensors
from lastbit.interpret.array import ArrayLimitError, values_of
from lastbit.interpret.elementary import elementary
from lastbit.interpret.exact import OpaqueError
from lastbit.interpret.intervals import Interval, exactly
from lastbit.interpret.policy import Policy
from lastbit.ops import ELEMENTWISE
from lastbit.reals import Real, Undecided
from lastbit.round_array import CarrierError, round_array
from lastbit.rounding import Rounding

# Elementwise functions.

# Zeros and infinities, NaN, ends of the formats, integers, ties of bfloat16 (1 + 2^-8, 1 + 3 2^-8),
# powers of two and their neighbours.
POINTS = (
    *(0.0, INF, math.nan, 2.0**-149, 2.0**-126, 2.0**-133, 65280.0, 2.0**127, 88.5, 104.0),
    *(1.0, 2.0, 3.0, 8.0, 0.5, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 - 2.0**-24, 1 + 2.0**-23, 0.375),
    *(2.0**-10, 17.0, 0.6931472, 9.5, 2.5, 1.5),
)
UNARY = sorted(fn for fn, (arity, _) in ELEMENTWISE.items() if arity == 1)
BINARY = ("add", "sub", "mul", "div", "max", "min", "less", "less_equal", "equal")
ROUNDINGS = ("bf16", "f32", "e4m3fn", "e4m3fn saturate", "int8", "e8m0", "f16 rtz", "bf16 rup")
ROUNDINGS += ("bf16 rdn", "f32 flush", "e5m2 rto", "e2m1", "bf16 rna")


def rounding_of(text: str) -> Rounding:
    fmt, *words = text.split()
    given: dict[str, str] = {}
    for word in words:
        given["overflow" if word == "saturate" else "subnormals" if word == "flush" else "mode"] = (
            word
        )
    return Rounding.of(fmt, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("fn", UNARY)
@pytest.mark.parametrize("most", [2.0**127, 4.0], ids=["to nearest", "directed"])
def test_functions_of_one_number_round_as_the_exact_core_rounds_them(fn: str, most: float) -> None:
    """Of tanh(104) the exact core cannot say on which side of 1 it rounds to, if not to nearest."""
    points = [p for p in POINTS if not p > most or p == INF]
    directed = ("rtz", "rup", "rdn", "rto")
    texts = [t for t in ROUNDINGS if most < 100 or not t.endswith(directed)]
    x = Input("x", FORMATS["f32"], shape=(2 * len(points),))
    values = {t: Round(apply(fn, x), rounding_of(t)) for t in texts}
    graph = Graph({"x": x, **values}, tuple(values))
    both = np.array([*points, *(-p for p in points)])
    assert differing(graph, {"x": round_array(both, Rounding.of("f32"))}) == []


@pytest.mark.parametrize("fn", BINARY)
def test_functions_of_two_numbers_round_as_the_exact_core_rounds_them(fn: str) -> None:
    points = [0.0, INF, math.nan, 2.0**-149, 2.0**127, 1.0, 3.0, 1 + 2.0**-8, 2.0**-9, 1 - 2.0**-24]
    points += [-p for p in points]
    a, b = (Input(name, FORMATS["f32"], shape=(len(points) ** 2,)) for name in "ab")
    values = {t: Round(apply(fn, a, b), rounding_of(t)) for t in ROUNDINGS}
    graph = Graph({"a": a, "b": b, **values}, tuple(values))
    pairs = np.array(list(product(points, points)))
    assert differing(graph, {"a": pairs[:, 0].copy(), "b": pairs[:, 1].copy()}) == []


@pytest.mark.parametrize(
    "expression",
    [
        "select(less(x, 0), x / 0, x)",
        "clamp(x, -1.5, 1.5)",
        "select(x, 1, 2)",
        "x * (x * (x * x))",  # 96 digits: no binary64 product
        "(x + 1) - x",  # the error of the first sum decides
        "(x - x) * -1",  # an exact zero with a sign
        "exp(x) * exp(-x) - 1",  # an exact zero that enclosures cannot see
        "log2(exp2(x)) / 3",
        "x / 3 * 3",  # exact again, after a rounding that must not happen
        "sqrt(x * x)",
        "x * ln2 + log2e",
        "exp(-exp(x))",
        "sigmoid(-x * 100) * x",
        "softplus(-x * 30) - log1p(exp(-x * 30))",
        "exp(x * 20) - exp(x * 20)",  # from -1e250 to 1e250, for all that enclosures know
    ],
)
def test_what_stands_inside_a_statement_is_exact(expression: str) -> None:
    graph = graph_of(
        f"x: f32[N]\ny: f32 = {expression}\nz: bf16 = {expression}\nq: e4m3fn = {expression}",
        N=2 * 12,
    )
    points = [0.0, 1.0, 3.0, 2.0**-126, 0.7, 1 + 2.0**-8, 5.25, 2.0**-60, 2.0**30, 1.1, 9.0, 2.5]
    x = rounded([*points, *(-p for p in points)], "f32")
    assert differing(graph, {"x": x}) == []


def test_ties_are_seen_through_an_unrounded_scale() -> None:
    """With amax = 8 the int8 code of 4 is 4 / (8 / 127) = 63.5, a tie in every row."""
    text = "x: bf16[M, K]\nq: int8 = x / (amax(x, axis=-1) / 127) saturate"
    x = np.tile(np.array([8.0, 4.0, -4.0, 1.0, 0.0, -8.0, 0.5, 2.0]), (300, 1))
    (q,) = run(graph_of(text, M=300, K=8), {"x": x}).values()
    want = np.array([127.0, 64.0, -64.0, 16.0, 0.0, -127.0, 8.0, 32.0])
    assert np.array_equal(values_of(q), np.tile(want, (300, 1)))


def test_a_stochastic_rounding_draws_from_all_digits() -> None:
    x = Input("x", FORMATS["f32"], shape=(64,))
    y = Round(apply("div", x, 3), Rounding.of("bf16", "sr", seed=5))
    graph = Graph({"x": x, "y": y}, ("y",))
    assert differing(graph, {"x": rounded(np.arange(64) - 31.0, "f32")}) == []


# Programs.

FNS = ("exp", "silu", "tanh", "abs", "relu", "sqrt", "floor", "sigmoid", "neg", "rsqrt")
LEAVES = ("x", "u", "t", "x", "u", "2", "0.1", "3")
FORMS: tuple[Callable[..., str], ...] = (
    lambda a, b, fn: f"({a} + {b})",
    lambda a, b, fn: f"({a} - {b})",
    lambda a, b, fn: f"({a} * {b})",
    lambda a, b, fn: f"({a} / {b})",
    lambda a, b, fn: f"maximum({a}, {b})",
    lambda a, b, fn: f"{fn}({a})",
    lambda a, b, fn: f"select(less({a}, {b}), {b}, {a})",
    lambda a, b, fn: f"({a} - max(x + {b}, axis=1))",
    lambda a, b, fn: f"({a} / sum(x * {b}, axis=1))",
)
EXPRESSIONS = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.builds(
        lambda form, a, b, fn: form(a, b, fn),
        st.sampled_from(FORMS),
        inner,
        inner,
        st.sampled_from(FNS),
    ),
    max_leaves=4,
)
FORMATS_USED = st.sampled_from(("f32", "bf16", "f16", "e4m3fn", "int8", "tf32"))
NUMBERS = st.sampled_from(
    (0.0, -0.0, 1.0, -1.0, 3.0, -2.5, 0.375, INF, -INF, math.nan, 448.0, 2.0**-133, -(2.0**-9))
)


@settings(derandomize=True, max_examples=120, deadline=None, database=None)
@given(
    body=EXPRESSIONS,
    end=EXPRESSIONS,
    formats=st.tuples(FORMATS_USED, FORMATS_USED, FORMATS_USED),
    schedule=st.sampled_from(("", "acc f32 seq", "acc f32 split(2)", "acc bf16 pairwise(1)")),
    numbers=st.lists(NUMBERS, min_size=16, max_size=16),
    policy=st.sampled_from((Policy.BITS, Policy.ROUND)),
)
def test_programs_have_the_bits_of_the_exact_domain(
    body: str,
    end: str,
    formats: tuple[str, str, str],
    schedule: str,
    numbers: list[float],
    policy: Policy,
) -> None:
    first = body.replace("t", "x") if body == "t" else body.replace("(t", "(x").replace(" t", " u")
    text = f"""
    x: {formats[0]}[2, 4]
    u: bf16[2, 4]
    t: {formats[1]} = x + 0 * ({first}) {schedule}
    y: {formats[2]} = u + ({end}) {schedule}
    """
    graph = graph_of(text)
    inputs = {
        "x": rounded(np.reshape(numbers[:8], (2, 4)), formats[0]),
        "u": rounded(np.reshape(numbers[8:], (2, 4)), "bf16"),
    }
    try:
        found = differing(graph, inputs, policy)
    except Undecided:
        return
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "y: real = silu(x) * u",
        "y: real = softplus(x) / (1 + exp(u))",
        "y: real = softmax(x)",
        "y: real = rms_norm(x, u, 1e-6)",
        "y: real = gelu(x) + gelu_tanh(u) + erf(x) + sin(u) * cos(x)",
        "y: real = matmul(x, transpose(u, 1, 0)) * (1 / 3)",
    ],
)
@pytest.mark.usefixtures("thresholds")
def test_unrounded_results_lie_in_their_enclosures(text: str) -> None:
    graph = graph_of(f"x: f32[3, 5]\nu: bf16[3, 5]\n{text}")
    inputs = drawn(graph)
    (want,), (got,) = run_exactly(graph, inputs).values(), run(graph, inputs).values()
    with np.errstate(all="ignore"):
        whole: Interval = got.whole()
    assert whole.unknown is None
    for index in np.ndindex(*want.shape):
        value = want[index]
        low, high = value.enclose(200) if isinstance(value, Real) else (value, value)
        assert Fraction(float(whole.lo[index])) <= low
        assert high <= Fraction(float(whole.hi[index]))
        assert whole.hi[index] - whole.lo[index] <= 2.0**-38 * max(1, abs(whole.hi[index]))


@pytest.mark.parametrize("fn", ["exp", "tanh", "silu", "sigmoid", "log", "expm1", "exp2"])
def test_special_values_are_known_without_a_second_look(fn: str) -> None:
    with np.errstate(all="ignore"):
        found = elementary(fn, (exactly([0.0, -0.0, INF, -INF, math.nan]),))
    assert found.unknown is None
    assert found.known().all()


# Views.


@pytest.mark.usefixtures("thresholds")
def test_views_of_what_is_not_rounded_are_followed_to_single_elements() -> None:
    """Thirds are never decided in binary64, so every element of y is found one by one."""
    text = """
    x: bf16[2, 6]
    u: bf16[6]
    t: real = x / 3 * u
    a: f64 = concat(transpose(t, 1, 0), reshape(t, 6, 2), axis=1)
    b: f64 = broadcast(reshape(max(t, axis=1), 1, 2), 3, 2) / 7
    c: f64 = sum(reshape(t, 3, 4), axis=0)
    """
    graph = graph_of(text)
    assert differing(graph, drawn(graph)) == []


def test_binary64_works_the_slow_way() -> None:
    text = (
        "x: f64[4, 3]\na: f64 = x * x + x\nb: f64 = sum(exp(x), axis=1) acc f64 seq\nc: f64 = x / 3"
    )
    graph = graph_of(text)
    rng = np.random.default_rng(SEED)
    assert differing(graph, {"x": rng.standard_normal((4, 3))}) == []


# Refusals.


def test_a_format_of_more_digits_than_binary64_is_refused() -> None:
    graph = graph_of("x: bf16[4]\ny: int64 = x * 2")
    with pytest.raises(CarrierError) as caught:
        run(graph, drawn(graph))
    assert str(caught.value) == "float64 arrays do not carry int64. Use the exact core for it."


def test_a_function_without_meaning_is_refused() -> None:
    x = Input("x", FORMATS["f32"], shape=(2,))
    graph = Graph({"x": x, "y": Round(apply("fetch", x), Rounding.of("f32"))}, ("y",))
    with pytest.raises(OpaqueError) as caught:
        run(graph, drawn(graph))
    assert str(caught.value) == "the function 'fetch' is opaque: it has no exact value."


def test_more_undecided_elements_than_can_be_done_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lastbit.interpret.decide.MOST_EXACT", 10)
    graph = graph_of("x: f64[12]\ny: f64 = exp(x)")
    with pytest.raises(ArrayLimitError) as caught:
        run(graph, {"x": np.full(12, 0.3)})
    assert str(caught.value) == (
        "12 roundings to f64 are not decided by enclosures; "
        "the array domain does at most 10. Sample fewer outputs."
    )


def test_more_undecided_sums_than_can_be_done_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folded, "MOST_TERMS", 64)
    graph = graph_of("x: f64[9, 8]\ny: f64 = sum(x / 3, axis=1)")
    with pytest.raises(ArrayLimitError) as caught:
        run(graph, drawn(graph))
    assert str(caught.value) == (
        "9 sums of 8 terms are not decided by their enclosures; "
        "the array domain does at most 8. Sample fewer outputs."
    )


def test_a_tensor_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "LARGEST", 100)
    graph = graph_of("x: bf16[11, 10]\ny: bf16 = max(exp(x), axis=1)")
    with pytest.raises(ArrayLimitError) as caught:
        run(graph, drawn(graph))
    assert str(caught.value) == (
        "a tensor has 110 elements at once; the array domain does at most 100. "
        "Sample fewer outputs."
    )


def test_a_chain_of_a_thousand_sums_needs_no_deep_recursion() -> None:
    # What an activation on the accumulator is, unrolled: each step adds to the sum before it.
    steps = [f"s{i}: real = sum(concat(s{i - 1}, x[{i}:{i + 1}]))" for i in range(1, 1000)]
    graph = graph_of("\n".join(["x: f32[1000]", "s0: real = x[0:1]", *steps]))
    found = run(graph, {"x": np.arange(1000, dtype=np.float32)}, Policy.REAL)
    assert values_of(found["s999"]).tolist() == [499500.0]
