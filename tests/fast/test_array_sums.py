"""Sums in the array domain have the bits of their trees, whatever their terms."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import pytest
from arrays import INF, differing, drawn, run, words
from sites import graph_of

from lastbit.formats import FORMATS
from lastbit.graph import Graph, Input, Reduce, apply
from lastbit.interpret.array import ArrayDomain, ArrayLimitError, values_of
from lastbit.interpret.evaluate import results
from lastbit.interpret.exact import OpaqueError
from lastbit.interpret.policy import Policy
from lastbit.predicting import predict_matmul
from lastbit.rounding import Rounding
from lastbit.schedule import parse_schedule

SCHEDULES = (
    "seq",
    "pairwise(1)",
    "pairwise(4)",
    "lanes(4)",
    "split(3)",
    "split(size=5, inner=pairwise(2), outer=pairwise(1))",
    "split(2, inner=seq(acc=bf16), outer=seq)",
    "lanes(3, inner=seq, outer=seq, partials=bf16)",
    "promote(4, f32, inner=seq)",
    "seq(acc=f16)",
    "tree(((0, 5), ((1, 4), ((2, 3), ((6, 7), (8, (9, (10, 11))))))))",
)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("acc", ["f32", "bf16", "f16 rtz", "e5m2 saturate"])
@pytest.mark.usefixtures("thresholds")
def test_sums_have_the_bits_of_their_tree(schedule: str, acc: str) -> None:
    fmt, *mode = acc.split()
    text = f"""
    x: bf16[M, K]
    w: bf16[K, N]
    b: f32[1, K]
    s: f32[1, 7, 1]
    y: f32 = matmul(x, w) acc {fmt} {schedule} {" ".join(mode)}
    z: f32 = sum(x * b, axis=1) acc {fmt} {schedule} {" ".join(mode)}
    t: f32 = sum(exp(x), axis=1) acc {fmt} {schedule} {" ".join(mode)}
    v: f32 = matmul(exp(x), w) acc {fmt} {schedule}
    u: f32 = sum(reshape(x, 2, 1, 12) + reshape(b, 1, 1, 12) * s, axis=2) acc {fmt} {schedule}
    """
    graph = graph_of(text, M=2, N=2, K=12)
    assert differing(graph, drawn(graph)) == []


@pytest.mark.usefixtures("thresholds")
@pytest.mark.parametrize("policy", [Policy.ROUND, Policy.BITS])
def test_sums_of_special_values_follow_the_exact_core(policy: Policy) -> None:
    text = """
    x: bf16[M, K]
    w: bf16[K, N]
    y: f32 = matmul(x, w) acc f32 seq
    s: bf16 = sum(x, axis=1) acc bf16 split(2)
    e: f32 = sum(x, axis=1)
    p: f32 = sum(x * transpose(w, 1, 0), axis=1)
    h: f32 = max(x, axis=1)
    l: f32 = min(x, axis=0)
    """
    graph = graph_of(text, M=8, N=1, K=4)
    x = [
        [0.0, -0.0, 0.0, -0.0],
        [-0.0, -0.0, -0.0, -0.0],
        [INF, 1.0, 2.0, 3.0],
        [INF, -INF, 0.0, 1.0],
        [math.nan, 1.0, 1.0, 1.0],
        [1.0, -1.0, 2.0**-133, -(2.0**-133)],
        [2.0**100, 1.0, -(2.0**100), 2.0**-100],
        [2.0**127, 2.0**127, -(2.0**127), -(2.0**127)],
    ]
    for w in ([1.0, 1.0, 1.0, 1.0], [-0.0, -1.0, 0.0, 2.0], [INF, 1.0, 0.0, -1.0]):
        inputs = {"x": np.array(x), "w": np.array(w).reshape(4, 1)}
        assert differing(graph, inputs, policy) == []


@pytest.mark.parametrize("mode", ["rne", "rna", "rtz", "rup", "rdn", "rto", "sr"])
@pytest.mark.parametrize("fmt", ["f32", "bf16", "f16", "int8", "f64"])
def test_additions_round_as_the_accumulator_says(fmt: str, mode: str) -> None:
    x, w = (Input(name, FORMATS["f32"], shape=(3, 9)) for name in "xw")
    values = {}
    for overflow, subnormals in (("saturate", "keep"), (None, "flush")):
        acc = Rounding.of(fmt, mode, overflow, subnormals)  # type: ignore[arg-type]
        y = Reduce("sum", apply("mul", x, w), 1, parse_schedule("split(2)"), acc)
        values[f"y_{overflow}"] = y
    graph = Graph({"x": x, "w": w, **values}, tuple(values))
    assert differing(graph, drawn(graph)) == []


def test_a_sequential_sum_is_the_loop_over_binary32() -> None:
    """With K = 600, rows of products that are exact in binary32: acc += x[i, k] * w[k, j]."""
    text = "x: bf16[M, K]\nw: bf16[K, N]\ny: f32 = matmul(x, w) acc f32 seq"
    graph = graph_of(text, M=40, N=40, K=600)  # 960,000 products: they are not stored
    inputs = drawn(graph)
    x, w = inputs["x"].astype(np.float32), inputs["w"].astype(np.float32)
    want = reduce(
        lambda acc, k: acc + x[:, k, None] * w[k], range(600), np.zeros((40, 40), np.float32)
    )
    (y,) = run(graph, inputs).values()
    assert np.array_equal(words(values_of(y)), words(want.astype(np.float64)))


@pytest.mark.usefixtures("thresholds")
def test_products_too_small_for_binary32_are_not_lost() -> None:
    """2^-149 + 2^-150 is a tie that goes up; 2^-150 as a binary32 number would be 0."""
    text = "x: bf16[M, K]\nw: bf16[K, N]\ny: f32 = matmul(x, w) acc f32 seq"
    graph = graph_of(text, M=4, N=4, K=2)
    w = np.tile([[2.0**-49], [2.0**-50]], (1, 4))
    inputs = {"x": np.full((4, 2), 2.0**-100), "w": w}
    assert differing(graph, inputs) == []
    assert values_of(run(graph, inputs)["y"]).tolist() == [[2.0**-148] * 4] * 4


@pytest.mark.parametrize(("fmt", "digits"), [("f32", 24), ("f16", 11), ("bf16", 8)])
@pytest.mark.usefixtures("thresholds")
def test_a_sum_next_to_a_tie_is_rounded_once(fmt: str, digits: int) -> None:
    """1 + ulp + (ulp / 2) (1 - 2^-46) lies below a tie, on which binary64 would put it."""
    text = f"x: f32[M, K]\nw: f32[K, N]\ny: f32 = matmul(x, w) acc {fmt} seq"
    graph = graph_of(text, M=4, N=4, K=2)
    ulp = 2.0 ** (1 - digits)
    x = np.tile([[1 + ulp, ulp / 2 * (1 + 2.0**-23)]], (4, 1))
    inputs = {"x": x, "w": np.tile([[1.0], [1 - 2.0**-23]], (1, 4))}
    assert values_of(run(graph, inputs)["y"]).tolist() == [[1 + ulp] * 4] * 4
    assert differing(graph, inputs) == []


@pytest.mark.usefixtures("thresholds")
def test_exact_sums_are_decided_where_enclosures_are_not() -> None:
    """1 + 2^-8 is a tie of bf16; terms of 2^-70 or a cancelling 2^60 decide it."""
    text = "x: bf16[M, K]\nw: bf16[M, K]\ny: bf16 = sum(x * w, axis=1)"
    x = [
        [1.0, 2.0**-8, 2.0**-70, 0.0],
        [1.0, 2.0**-8, -(2.0**-70), 0.0],
        [1.0, 2.0**-8, 2.0**60, -(2.0**60)],
        [1.0, 2.0**-8, 0.0, 0.0],
        [2.0**60, 2.0**-60, -(2.0**60), 0.0],
    ]
    graph = graph_of(text, M=5, K=4)
    assert differing(graph, {"x": np.array(x), "w": np.ones((5, 4))}) == []
    assert differing(graph, {"x": np.array(x), "w": np.full((5, 4), 1 + 2.0**-7)}) == []


@pytest.mark.parametrize(
    "text",
    [
        "x: bf16[2, 40]\nw: bf16[40, 3]\ny: f32 = matmul(x, w) acc f32 fused(16, hopper)",
        "x: bf16[2, 40]\nw: bf16[2, 40]\ny: f32 = sum(x * w, axis=1) acc f32 fused(16, hopper)",
        "x: bf16[40, 3]\nw: bf16[40, 1]\ny: f32 = sum(x * w, axis=0) acc f32 fused(16, hopper)",
        "x: bf16[40]\nw: bf16[3, 40, 2]\n"
        "y: f32 = sum(w * reshape(x, 40, 1), axis=1) acc f32 fused(16, hopper)",
        "x: e4m3fn[2, 40]\nw: e5m2[40, 3]\n"
        "y: f32 = matmul(x, w) acc f32 split(2, tile=4, inner=fused(32, hopper), outer=seq)",
        "x: f16[2, 40]\nw: f16[40, 3]\ny: f16 = matmul(x, w) acc f16 fused(8, ampere)",
        "x: f64[2, 6]\nw: f64[6, 3]\ny: f32 = matmul(x, w) acc f32 fused(1, ieee)",
    ],
)
def test_a_step_of_a_matrix_unit_is_that_of_the_exact_domain(text: str) -> None:
    graph = graph_of(text)
    inputs = drawn(graph)
    (y,) = run(graph, inputs).values()
    assert len(np.unique(values_of(y))) > 1
    assert differing(graph, inputs) == []


def test_a_product_at_its_true_size_is_that_of_the_engine() -> None:
    text = "x: bf16[M, K]\nw: bf16[K, N]\ny: f32 = matmul(x, w) acc f32 fused(16, hopper)"
    graph = graph_of(text, M=64, N=96, K=1024)
    inputs = drawn(graph)
    (y,) = run(graph, inputs).values()
    predicted = predict_matmul(inputs["x"], inputs["w"], "hopper", "bf16")
    assert values_of(y).astype(np.float32).tobytes() == predicted.tobytes()


def test_too_many_steps_of_a_matrix_unit_are_refused() -> None:
    text = "x: f64[M, K]\nw: f64[K, N]\ny: f32 = matmul(x, w) acc f32 fused(16, hopper)"
    graph = graph_of(text, M=64, N=64, K=160)
    with pytest.raises(ArrayLimitError) as caught:
        run(graph, drawn(graph))
    assert str(caught.value) == (
        "`fused(16, hopper)` takes 40960 steps of a matrix unit; "
        "the array domain does at most 20000. Sample fewer outputs."
    )


def test_a_matrix_unit_adds_products_only() -> None:
    graph = graph_of("x: bf16[4, 16]\ny: f32 = sum(x, axis=1) acc f32 fused(16, hopper)")
    with pytest.raises(OpaqueError) as caught:
        run(graph, drawn(graph))
    assert str(caught.value) == "a step of a matrix unit adds products of two values of formats."


def test_a_sum_in_any_order_takes_one_order_and_says_so() -> None:
    graph = graph_of("x: f32[1, 9]\ny: f32 = sum(x, axis=1) acc f32 any_order")
    inputs = drawn(graph)
    domain = ArrayDomain(inputs, seed=3)
    (y,) = results(graph, domain, Policy.BITS).values()
    order = np.random.Generator(np.random.PCG64(3)).permutation(9)
    x = inputs["x"][0].astype(np.float32)
    want = reduce(lambda acc, i: acc + x[i], order, np.float32(0))
    assert values_of(y).item() == want
    assert domain.notes == {"a sum in any order was run in one order, drawn with seed 3"}
