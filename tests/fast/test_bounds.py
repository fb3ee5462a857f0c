"""No difference exceeds its bound; where none is derived, the reason is given."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from drifts import SUM, U16, U32, drift_of, spec
from hypothesis import given, settings
from hypothesis import strategies as st
from sites import graph_of

from lastbit.formats import FORMATS
from lastbit.interpret.array import ArrayDomain, Tensor, values_of
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.policy import Policy
from lastbit.records import Bound
from lastbit.verify.bounds import bound_of
from lastbit.verify.draw import draw
from lastbit.verify.drift import measure

POSITIVE = {"x": (Fraction(0), Fraction(8))}


def bound(text: str, output: str = "y", **ranges: tuple[Fraction, Fraction]) -> Bound:
    node = graph_of(text).values[output]
    fmt = FORMATS[text.split(f"{output}: ")[1].split()[0]]
    return bound_of(node, node, fmt, ranges)


@pytest.mark.parametrize(
    ("text", "roundings"),
    [
        ("y: f32 = x * 2", 1 * U32),
        ("t: bf16 = x * x\ny: bf16 = t * t", 3 * U16),
        ("y: f32 = sum(x, axis=1) acc f32 seq", 64 * U32),  # Round(0 + leaf) is one
        ("y: f32 = sum(x, axis=1) acc f32 pairwise(1)", 7 * U32),
        ("y: f32 = sum(x, axis=1) acc f32 split(4)", (16 + 4) * U32),
        ("y: bf16 = sum(x, axis=1) acc f32 lanes(8)", (8 + 8) * U32 + U16),
        ("y: f32 = sum(x, axis=1) acc f32 promote(16, f32)", (16 + 4) * U32),
        ("y: f32 = sum(x, axis=1) acc f32 any_order", 64 * U32),
        ("y: f32 = sum(x * x, axis=1) acc f32 fused(16, hopper)", 4 * (17 * 2.0**-25 + 2.0**-23)),
        ("y: f32 = sum(x, axis=1) acc f32 seq rtz", (64 + 2) * U32),  # less than one ulp, not half
        ("y: f32 = silu(x)", U32),
        ("y: f32 = sum(x, axis=1)", U32),
    ],
)
def test_a_bound_counts_the_roundings_of_the_longest_way(text: str, roundings: float) -> None:
    found = bound(f"x: f32[2, 64]\n{text}").times_sum_abs
    each = roundings / (1 - roundings)
    assert found is not None
    assert 2 * each <= found <= 2 * each * 1.0001


def test_a_bound_in_ulp_needs_terms_of_one_sign() -> None:
    text = "x: f32[2, 64]\ny: f32 = sum(x, axis=1) acc f32 seq"
    assert bound(text) == Bound(bound(text).times_sum_abs, None, "cancellation")
    found = bound(text, **POSITIVE)
    assert found.why == "all terms have one sign"
    assert found.ulp is not None
    assert 128 <= found.ulp <= 128.01
    squares = bound("x: f32[2, 64]\ny: f32 = sum(x * x, axis=1) acc f32 seq")
    assert squares.ulp == found.ulp
    root = bound("x: f32[2, 64]\ny: f32 = x * rsqrt(mean(x * x, axis=1) + 1) acc f32 seq")
    assert root.why == "all terms have one sign"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("t: f32 = x * 3\ny: f32 = exp(t)", "none is derived through `exp` of a rounded value"),
        (
            "t: f32 = x * 3\ny: f32 = 1 / (t - 1)",
            "none is derived through `div` of a rounded value",
        ),
        (
            "t: f32 = x * 3\ny: f32 = clamp(x, t, 1)",
            "none is derived through `clamp` to rounded limits",
        ),
        ("q: int8 = x * 3\ny: f32 = q * 2", "a quantization to int8 has no relative bound"),
        ("y: bf16 = sum(x, axis=1) acc bf16 seq", "so many roundings may lose every digit"),
    ],
)
def test_where_no_bound_is_derived_the_reason_is_given(text: str, why: str) -> None:
    assert bound(f"x: f32[2, 200]\n{text}") == Bound(None, None, why)


def test_two_real_functions_have_no_bound() -> None:
    drift = drift_of("x: f32[9]\ny: f32 = x + 1", "x: f32[9]\ny: f32 = x + 1.001")
    assert drift.bound == Bound(None, None, "the two sides are not known to be one real function")


def test_other_terms_have_no_bound() -> None:
    """(x + u) (x - u) = x^2 - u^2, whose terms are smaller than (|x| + |u|)^2."""
    x = "x: f32[9]\nu: f32[9]\n"
    drift = drift_of(x + "y: f32 = x * x - u * u", x + "y: f32 = (x - u) * (x + u)")
    assert drift.bound == Bound(None, None, "the two sides add different terms")


@settings(derandomize=True, max_examples=40, deadline=None, database=None)
@given(
    schedules=st.lists(
        st.sampled_from(("seq", "pairwise(2)", "lanes(4)", "split(3)", "seq(acc=f16)")),
        min_size=2,
        max_size=2,
    ),
    store=st.sampled_from(("f32", "bf16")),
    seed=st.integers(0, 1000),
)
def test_no_difference_exceeds_its_bound(schedules: list[str], store: str, seed: int) -> None:
    graphs = [graph_of(SUM.format(store, s), M=2, N=3, K=40) for s in schedules]
    found = measure(graphs[0], graphs[1], {}, seed, 6)
    assert found is not None
    assert found.bound is not None
    assert found.bound.times_sum_abs is not None
    arrays = {node.name: draw(node, spec("normal", "0", "1"), seed) for node in graphs[0].inputs}
    known: dict[bytes, Tensor] = {}
    a, b = (evaluate(g.results, ArrayDomain(arrays), Policy.BITS, known)[0] for g in graphs)
    scales = np.abs(arrays["x"]) @ np.abs(arrays["w"])
    differences = np.abs(values_of(a) - values_of(b))
    assert (differences <= found.bound.times_sum_abs * scales).all()
    assert np.array_equal(differences.astype(bool).mean(), found.share)
