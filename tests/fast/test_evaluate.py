"""What each policy does at each node, and which additions it takes for one sum.

The domain of these tests writes down what it is asked for: `f32<a + b>` is a sum rounded once,
`f32(a)` a rounding of one value, `tree(x)` a sum rounded at every node of its tree.
"""
# ruff: noqa: D102  the protocol `Domain` says what its methods do

from dataclasses import dataclass
from fractions import Fraction

import pytest

from lastbit.graph import Const, Input, Node, View
from lastbit.interpret.evaluate import evaluate, results
from lastbit.interpret.exact import ExactDomain, exact_array
from lastbit.interpret.policy import Policy
from lastbit.rounding import Rounding
from lastbit.text import parse_program

HEAD = "a: bf16[1, 4]\nb: bf16[1, 4]\nc: f32[1, 4]\n"


@dataclass(frozen=True)
class Value:
    """What is written down of a value, and the terms of the sum that was closed there."""

    text: str
    terms: tuple[str, ...] = ()
    rounding: Rounding | None = None


class Written:
    """A domain that writes down what is asked of it."""

    def input(self, node: Input) -> Value:
        return Value(node.name)

    def const(self, node: Const) -> Value:
        return Value(str(node.value))

    def map(self, fn: str, xs: tuple[Value, ...]) -> Value:
        text = f"{fn}({', '.join(x.text for x in xs)})"
        if fn == "neg":
            return Value(text, tuple(f"neg({term})" for term in xs[0].terms), xs[0].rounding)
        return Value(text)

    def view(self, node: View, xs: tuple[Value, ...]) -> Value:
        if node.kind == "slice":
            start, stop, _ = node.bounds[-1]
            return Value(f"{xs[0].text}{start}" if stop == start + 1 else f"{xs[0].text}[...]")
        terms = xs[0].terms if len(xs) == 1 else ()
        return Value(f"{node.kind}({', '.join(x.text for x in xs)})", terms, xs[0].rounding)

    def round(self, x: Value, rounding: Rounding) -> Value:
        return Value(f"{rounding.format.short}({x.text})")

    def clamp(self, x: Value, rounding: Rounding) -> Value:
        return Value(f"clamp({x.text})")

    def extreme(self, op: str, x: Value, axis: int) -> Value:
        return Value(f"{op}({x.text})")

    def total(self, x: Value, axis: int) -> Value:
        return Value(f"total({x.text})")

    def tree(self, x: Value, axis: int, schedule: object, rounding: Rounding) -> Value:
        return Value(f"tree({x.text})")

    def open(self, x: Value, rounding: Rounding) -> tuple[str, ...]:
        return x.terms if x.rounding == rounding else (x.text,)

    def merge(self, sums: list[tuple[str, ...]]) -> tuple[str, ...]:
        return tuple(term for terms in sums for term in terms)

    def gather(self, x: tuple[str, ...], axis: int) -> tuple[str, ...]:
        return tuple(f"each {term}" for term in x)

    def close(self, x: tuple[str, ...], rounding: Rounding) -> Value:
        return Value(f"{rounding.format.short}<{' + '.join(x)}>", x, rounding)


def written(text: str, policy: Policy) -> str:
    """Return what is written down of `y`."""
    graph = parse_program(HEAD + text).bind({})
    (value,) = evaluate([graph.values["y"]], Written(), policy)
    return value.text


def under(text: str, **expected: str) -> None:
    """Assert what is written down of `y` under some policies."""
    found = {policy.name: written(text, policy) for policy in Policy}
    assert {name: found[name] for name in expected} == expected


# Which roundings are carried out


@pytest.mark.parametrize("fmt", ["int8", "uint8", "e4m3fn", "e5m2", "e3m2", "e2m1", "e8m0"])
def test_a_grid_is_an_integer_format_or_one_of_8_bits_at_most(fmt):
    for policy, rounds in zip(Policy, (False, True, True, True), strict=True):
        assert policy.rounds(Rounding.of(fmt)) is rounds


@pytest.mark.parametrize("fmt", ["bf16", "f16", "tf32", "f32", "f64"])
def test_another_format_is_no_grid(fmt):
    for policy, rounds in zip(Policy, (False, False, True, True), strict=True):
        assert policy.rounds(Rounding.of(fmt)) is rounds


def test_policies_are_ordered_by_what_they_round():
    assert list(Policy) == [Policy.REAL, Policy.GRID, Policy.ROUND, Policy.BITS]
    under(
        "t: bf16 = a * b\nq: e5m2 = t * 2\ny: f32 = exp(q)",
        REAL="exp(mul(mul(a, b), 2))",
        GRID="exp(e5m2(mul(mul(a, b), 2)))",
        ROUND="f32(exp(e5m2(mul(bf16(mul(a, b)), 2))))",
        BITS="f32(exp(e5m2(mul(bf16(mul(a, b)), 2))))",
    )


def test_saturation_is_a_clamp_where_nothing_is_rounded():
    under(
        "t: bf16 = a * b saturate\ny: e4m3fn = t * 2 saturate",
        REAL="clamp(mul(clamp(mul(a, b)), 2))",
        GRID="e4m3fn(mul(clamp(mul(a, b)), 2))",
        ROUND="e4m3fn(mul(bf16(mul(a, b)), 2))",
    )


def test_a_maximum_and_a_view_are_the_same_under_every_policy():
    under("y: bf16 = max(a)", REAL="max(a)", ROUND="max(a)", BITS="max(a)")
    under("y: bf16 = min(a)", REAL="min(a)", BITS="min(a)")
    under("y: bf16 = transpose(a)", REAL="transpose(a)", BITS="transpose(a)")
    under("y: real = ln2 * a", REAL="mul(ln2, a)", BITS="mul(ln2, a)")


# Sums


def test_a_scheduled_sum_is_exact_then_rounded_once_then_rounded_at_every_node():
    under(
        "y: f32 = sum(a * b) acc f32 pairwise(2)",
        REAL="total(mul(a, b))",
        GRID="total(mul(a, b))",
        ROUND="f32<each mul(a, b)>",
        BITS="tree(mul(a, b))",
    )


def test_a_sum_without_a_schedule_is_exact():
    under(
        "y: f32 = sum(a)",
        REAL="total(a)",
        GRID="total(a)",
        ROUND="f32(total(a))",
        BITS="f32(total(a))",
    )


def test_a_rounded_addition_is_a_sum_of_its_terms():
    under(
        "y: f32 = a + b",
        REAL="add(a, b)",
        GRID="add(a, b)",
        ROUND="f32<a + b>",
        BITS="f32(add(a, b))",
    )
    under("y: f32 = a - (b - c) + 1", ROUND="f32<a + neg(b) + neg(neg(c)) + 1>")
    under("y: f32 = a * (b + c)", ROUND="f32(mul(a, add(b, c)))")
    under("y: real = a + b", ROUND="add(a, b)")


def test_nested_sums_of_one_format_are_one_sum():
    under("t: f32 = a + b\ny: f32 = t + c", ROUND="f32<a + b + c>")
    under("t: f32 = a + b\ny: f32 = c - t", ROUND="f32<c + neg(a) + neg(b)>")
    under(
        "s: f32 = sum(a) acc f32 seq\nt: f32 = sum(b) acc f32 lanes(2)\ny: f32 = s + t",
        ROUND="f32<each a + each b>",
        BITS="f32(add(tree(a), tree(b)))",
    )
    under(
        "s: f32 = a + b\ny: f32 = sum(s) acc f32 seq",
        ROUND="f32<each a + each b>",
        BITS="tree(f32(add(a, b)))",
    )


def test_a_sum_of_another_format_or_rounding_stays_closed():
    under("t: bf16 = a + b\ny: f32 = t + c", ROUND="f32<bf16<a + b> + c>")
    under("t: f32 = a + b rtz\ny: f32 = t + c", ROUND="f32<f32<a + b> + c>")
    under("t: f32 = a + b\ny: f32 = t * c", ROUND="f32(mul(f32<a + b>, c))")
    under(
        "t: f32 = a + b\nu: f32 = 2 * t\ny: f32 = u + c", ROUND="f32<f32(mul(2, f32<a + b>)) + c>"
    )


def test_a_sum_on_a_grid_is_closed_where_the_rest_is_exact():
    under("y: e4m3fn = a + b", GRID="e4m3fn(add(a, b))", ROUND="e4m3fn<a + b>")


# Schedules of several formats


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("seq", "f32<each a>"),
        ("split(2)", "f32<each a>"),
        ("split(2, inner=seq(acc=f32))", "f32<each a>"),
        ("promote(2, f32)", "f32<each a>"),
        ("split(2, partials=bf16)", "f32<bf16<f32<a0 + a1>> + bf16<f32<a2 + a3>>>"),
        ("split(2, inner=seq(acc=f16))", "f32<f16<a0 + a1> + f16<a2 + a3>>"),
        (
            "split(2, inner=seq(acc=f16), partials=bf16)",
            "f32<bf16<f32<f16<a0 + a1>>> + bf16<f32<f16<a2 + a3>>>>",
        ),
        ("lanes(2, inner=seq(acc=f16))", "f32<f16<a0 + a2> + f16<a1 + a3>>"),
        ("promote(3, f32, inner=seq(acc=bf16))", "f32<bf16<a0 + a1 + a2> + bf16<a3>>"),
        ("fused(16, hopper, acc=f16)", "f32<f16<a0 + a1 + a2 + a3>>"),
        ("split(2, inner=any_order(acc=f16))", "f32<f16<a0 + a1> + f16<a2 + a3>>"),
        ("pairwise(1, acc=f16)", "f32<f16<a0 + a1 + a2 + a3>>"),
    ],
)
def test_each_level_of_another_format_rounds_once(schedule, expected):
    text = f"y: f32 = sum(a) acc f32 {schedule}"
    under(text, REAL="total(a)", GRID="total(a)", ROUND=expected, BITS="tree(a)")


def test_an_empty_sum_of_several_formats_is_the_exact_one():
    text = "y: f32 = sum(a[:, 0:0]) acc f32 split(2, partials=bf16)"
    under(text, ROUND="total(a[...])", BITS="tree(a[...])")


# The same, in numbers


def numbers(text: str, policy: Policy) -> list[Fraction]:
    """Return `y` for x = 2^24, 1, 1, 2, which binary32 cannot add in any order."""
    graph = parse_program(f"x: f32[1, 4]\n{text}").bind({})
    x = exact_array([Fraction(n) for n in (2**24, 1, 1, 2)], (1, 4))
    return list(results(graph, ExactDomain({"x": x}), policy)["y"].array.flat)


@pytest.mark.parametrize(
    ("text", "real", "rounded", "bits"),
    [
        ("y: f32 = sum(x) acc f32 seq", 4, 4, 2),  # 2^24 + 1 ties to even, twice
        ("y: f32 = sum(x) acc f32 pairwise(1)", 4, 4, 4),  # 2^24 + 1 again, then + 3 to even
        ("y: f32 = sum(x[:, 0:3]) acc f32 seq", 2, 2, 0),
        ("y: f32 = sum(x) acc f32 split(2, partials=bf16)", 4, 4, 4),
        ("y: f32 = sum(x) acc f32 split(4, inner=seq(acc=bf16))", 4, 4, 2),
        ("t: f32 = x[:, 0:1] + x[:, 1:2]\ny: f32 = t + x[:, 2:3]", 2, 2, 0),
        ("t: f32 = x[:, 0:1] + x[:, 1:2] rtz\ny: f32 = t + x[:, 2:3]", 2, 0, 0),
    ],
)
def test_the_exact_domain_follows_the_policies(text, real, rounded, bits):
    expected = {"REAL": real, "GRID": real, "ROUND": rounded, "BITS": bits}
    found = {policy.name: numbers(text, policy) for policy in Policy}
    assert found == {name: [Fraction(2**24 + n)] for name, n in expected.items()}


# How it is called


def test_values_that_are_known_are_not_computed_again():
    graph = parse_program(HEAD + "t: f32 = a + b\ny: f32 = t * c").bind({})
    y, t = graph.values["y"], graph.values["t"]
    known = {t.key: Value("known")}
    ticks = []
    (value,) = evaluate([y], Written(), Policy.BITS, known, lambda: ticks.append(1))
    assert value.text == "f32(mul(known, c))"
    assert known[y.key] == value
    assert len(known) - 1 == len(ticks)
    assert evaluate([y, t], Written(), Policy.BITS, known) == [value, Value("known")]


def test_a_tick_may_stop_it():
    def stop() -> None:
        raise TimeoutError

    graph = parse_program(HEAD + "y: f32 = a + b").bind({})
    with pytest.raises(TimeoutError):
        evaluate(graph.results, Written(), Policy.REAL, tick=stop)


def test_results_have_names():
    graph = parse_program(HEAD + "y: f32 = a + b\nz: bf16 = a\nreturn z, y").bind({})
    found = results(graph, Written(), Policy.REAL)
    assert {name: value.text for name, value in found.items()} == {"z": "a", "y": "add(a, b)"}
    assert list(found) == ["z", "y"]


def test_what_is_no_node_is_refused():
    with pytest.raises(TypeError) as caught:
        evaluate([Node()], Written(), Policy.REAL)
    assert str(caught.value) == "Node is no node of a graph"
