"""The canonical form keeps what programs compute, and finds equal programs equal.

Random graphs are compared before and after, where exponents have no limits and where they do; pairs
of programs are those that the field must find equal, or must not.
"""

import random
from fractions import Fraction

import pytest
from canonical_forms import graph_of, keeps_its_values
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs, inputs_of
from unlimited import Strict

from lastbit.formats import FORMATS, identical
from lastbit.graph import Graph, Input, Map, Node, Reduce, Round, View, apply, topological
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.policy import Policy
from lastbit.rounding import Rounding
from lastbit.schedule import parse_schedule
from lastbit.verify.agree import agree
from lastbit.verify.canonicalise import canonical


def equal(before: str, after: str, policy: Policy = Policy.BITS) -> bool:
    """Return whether the field finds the canonical forms of two programs equal."""
    return agree(canonical(graph_of(before)), canonical(graph_of(after)), policy).equal


# Random graphs.


@given(st.data())
@settings(derandomize=True, deadline=None, max_examples=50)
def test_the_canonical_form_has_the_values_of_the_graph(data: st.DataObject) -> None:
    graph = data.draw(graphs())
    keeps_its_values(graph, data.draw(inputs_of(graph)))


@given(st.data())
@settings(derandomize=True, deadline=None, max_examples=30)
def test_the_canonical_form_has_the_bits_of_the_graph_on_ordinary_runs(
    data: st.DataObject,
) -> None:
    graph = data.draw(graphs())
    inputs = data.draw(inputs_of(graph))
    one, other = Strict(inputs), Strict(inputs)
    before = evaluate(graph.results, one, Policy.BITS)
    after = evaluate(canonical(graph).results, other, Policy.BITS)
    if one.ordinary and other.ordinary:
        for x, y in zip(before, after, strict=True):
            assert all(identical(u, v) for u, v in zip(x.array.flat, y.array.flat, strict=True))


@given(graphs(steps=12))
@settings(derandomize=True, deadline=None, max_examples=50)
def test_the_form_of_a_form_is_that_form(graph: Graph) -> None:
    form = canonical(graph)
    assert canonical(form).key() == form.key()
    assert form.outputs == graph.outputs
    assert [node.name for node in form.inputs] == [node.name for node in graph.inputs]
    assert [node.shape for node in form.results] == [node.shape for node in graph.results]


# Programs that the field must find equal, and others.

EQUAL = {
    "scale in front of a rounding": ("o: bf16 = f / 8", "o: real = round(f, bf16) / 8"),
    "scale of one operand": ("o: bf16 = x * 2 + y", "o: real = 2 * round(x + y / 2, bf16)"),
    "scaled queries": (
        "a: bf16 = x / 8\no: bf16 = matmul(a, w) acc f32 pairwise(2)",
        "a: f32 = matmul(x, w) acc f32 pairwise(2)\no: bf16 = a / 8",
    ),
    "scaled queries in a matrix unit": (
        "a: bf16 = x * -0.125\no: bf16 = matmul(a, w) acc f32 fused(16, hopper)",
        "a: f32 = matmul(x, w) acc f32 fused(16, hopper)\no: bf16 = a * -0.125",
    ),
    "scaled partial sums": (
        "a: bf16 = sum(4 * x) acc f32 split(2, partials=bf16)",
        "a: f32 = sum(x) acc f32 split(2, partials=bf16)\no: bf16 = a * 4",
    ),
    "a scaled row that is centred": (
        "a: bf16 = 2 * x\nm: f32 = sum(a) / 8 acc f32 seq\no: bf16 = a - m",
        "m: f32 = sum(x) acc f32 seq\nd: bf16 = x - m / 8\no: bf16 = 2 * d",
    ),
    "softmax of scaled scores": (
        "s: f32 = x / 4\nm: f32 = max(s)\no: bf16 = exp(s - m)",
        "s: f32 = x\nm: f32 = max(s)\no: bf16 = exp((s - m) / 4)",
    ),
    "a quotient": (
        "o: bf16 = (4 * x) / (y / 2)",
        "o: real = 8 * round(x / y, bf16)",
    ),
    "signs": ("o: bf16 = -f rup", "o: real = -round(f, bf16, rdn)"),
    "extremes": (
        "m: bf16 = max(x)\nn: bf16 = min(x)\no: bf16 = maximum(m, -n)",
        "o: bf16 = amax(x)",
    ),
    "an emulated addition": ("a: f32 = x + y\no: bf16 = a", "o: bf16 = x + y"),
}


@pytest.mark.parametrize("name", EQUAL)
def test_the_field_finds_equal_programs_equal(name: str) -> None:
    before, after = EQUAL[name]
    assert equal(before, after)
    assert not agree(graph_of(before), graph_of(after), Policy.BITS).equal


OTHER = {
    "a fused multiply-add": ("o: bf16 = round(x * y + z, f32)", "o: bf16 = x * y + z"),
    "an integer format": ("o: int8 = 2 * f", "o: real = 2 * round(f, int8)"),
    "no power of two": ("o: bf16 = 3 * x", "o: real = 3 * round(x, bf16)"),
    "another sum": ("o: bf16 = x + y * 2", "o: real = 2 * round(x + y, bf16)"),
    "stochastic rounding": ("o: bf16 = f / 2 sr", "o: real = round(f, bf16, sr) / 2"),
    "another mode": ("o: bf16 = -f rup", "o: real = -round(f, bf16, rup)"),
    "a matrix unit that rounds down": (
        "o: f32 = matmul(x, -w) acc f32 fused(8, cdna3)",
        "a: f32 = matmul(x, w) acc f32 fused(8, cdna3)\no: real = -a",
    ),
    "a half relu": ("o: real = select(0 < x, y, 0)", "o: real = relu(x)"),
    "another order": (
        "o: bf16 = round(2 * x + y, bf16) + z",
        "o: bf16 = 2 * x + round(y + z, bf16)",
    ),
}


@pytest.mark.parametrize("name", OTHER)
def test_the_field_does_not_find_other_programs_equal(name: str) -> None:
    assert not equal(*OTHER[name])


def test_a_saturating_rounding_keeps_its_limit() -> None:
    assert not equal("o: e4m3fn = 2 * x saturate", "o: real = 2 * round(x, e4m3fn, saturate)")
    assert equal("o: e4m3fn = 2 * x", "o: real = 2 * round(x, e4m3fn)")


@pytest.mark.parametrize("seed", range(12))
def test_orders_of_a_sum_of_scaled_terms_agree_but_for_order(seed: int) -> None:
    rng = random.Random(seed)
    rounding = Rounding.of("bf16")
    xs = [Input(f"x{i}", FORMATS["bf16"], shape=(2, 3)) for i in range(4)]
    factors = [Fraction(rng.choice((-4, -1, 1, 2)), rng.choice((1, 8))) for _ in xs]
    terms = [apply("mul", x, factor) for x, factor in zip(xs, factors, strict=True)]

    def tree(leaves: list[Map]) -> Node:
        if len(leaves) == 1:
            return leaves[0]
        leaves = rng.sample(leaves, len(leaves))
        cut = rng.randrange(1, len(leaves))
        out: Node = Round(apply("add", tree(leaves[:cut]), tree(leaves[cut:])), rounding)
        return View("reshape", (View("reshape", (out,), (6,)),), (2, 3))

    forms = [
        canonical(Graph({**{x.name: x for x in xs}, "y": tree(terms)}, ("y",))) for _ in range(2)
    ]
    assert agree(*forms, Policy.ROUND).equal
    assert [canonical(form).key() for form in forms] == [form.key() for form in forms]


def test_a_long_chain_is_no_recursion() -> None:
    x = Input("x", FORMATS["bf16"], shape=(4,))
    y = Input("y", FORMATS["bf16"], shape=(4,))
    rounding = Rounding.of("bf16")
    total: Node = x
    high: Node = x
    low: Node = x
    for i in range(1200):
        total = Round(apply("add", total, apply("mul", y, 1 if i < 1199 else 2)), rounding)
        high = apply("max", high, Round(apply("mul", y, i + 1), rounding))
        low = apply("min", low, Round(apply("mul", y, i + 1), rounding))
    end = apply("max", high, apply("neg", low))
    graph = Graph({"x": x, "y": y, "total": total, "end": end}, ("total", "end"))
    form = canonical(graph)
    assert not any(isinstance(node, Map) and node.fn == "neg" for node in topological(form.results))
    assert sum(1 for _ in topological(form.results)) < 10_000


def test_a_maximum_starts_at_minus_infinity_under_any_factor() -> None:
    before = "o: bf16 = maximum(broadcast(-inf, 2, 6), x / 8)"
    assert equal(before, "o: real = round(maximum(-inf, x), bf16) / 8")


def test_a_reduction_keeps_its_schedule() -> None:
    graph = graph_of("o: f32 = sum(2 * f) acc f32 split(3)")
    (found,) = (node for node in topological(canonical(graph).results) if isinstance(node, Reduce))
    assert found.schedule == parse_schedule("split(3)")
    assert found.acc == Rounding.of("f32")
