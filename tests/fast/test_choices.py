"""Indices of largest elements are those of numpy; what equal elements leave open is said."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from plans import steps_of
from sites import graph_of

from lastbit.change import Change
from lastbit.choices import Choice, choice_of, ranked
from lastbit.errors import InputError
from lastbit.formats import FORMATS, as_exact
from lastbit.graph import Graph, Input, Map
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import evaluate, results
from lastbit.interpret.exact import AnyOrderError, ExactDomain, exact_array
from lastbit.interpret.magnitude import scale_of
from lastbit.interpret.policy import Policy
from lastbit.printing import print_graph
from lastbit.reals import compare
from lastbit.records import Bound, Drift
from lastbit.verify.agree import agree
from lastbit.verify.bounds import bound_of
from lastbit.verify.canonicalise import canonical
from lastbit.verify.draw import STANDARD, draw
from lastbit.verify.drift import measure
from lastbit.verify.orders import in_order
from lastbit.verify.promises import deterministic_of
from lastbit.verify.region import Region

SCORES = (0.5, 0.25, 0.5, 0.5, 0.125, 0.5)
UNORDERED = "of equal elements no index is promised"


def array_run(graph: Graph, x: np.ndarray, seed: int = 0) -> np.ndarray:
    (name,) = graph.outputs
    found = values_of(results(graph, ArrayDomain({"x": x}, seed), Policy.BITS)[name])
    return np.asarray(found)


def exact_run(graph: Graph, x: np.ndarray) -> np.ndarray:
    exact = exact_array([as_exact(v) for v in x.ravel().tolist()], x.shape)
    (name,) = graph.outputs
    found = results(graph, ExactDomain({"x": exact}), Policy.BITS)[name].array
    return np.vectorize(float, otypes=[np.float64])(found)


def crowded(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Draw values of which many are equal, with infinities, NaN and both zeros among them."""
    rng = np.random.default_rng(seed)
    pool = [-math.inf, -2.0, -1.0, -0.0, 0.0, 1.0, 1.5, 2.0, math.inf, math.nan]
    return rng.choice(pool, shape)


# Against numpy, whose argsort is stable and puts NaN last.


def falling(line: list[float]) -> list[int]:
    return sorted(range(len(line)), key=lambda i: (line[i] == line[i], -line[i] if line[i] else 0))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("seed", range(4))
def test_an_order_is_that_of_a_stable_sort_with_nan_first(axis: int, seed: int) -> None:
    x = crowded(seed, (7, 6))
    lines = np.moveaxis(x, axis, -1).tolist()
    want = np.moveaxis(np.array([falling(line) for line in lines]), -1, axis)
    graph = graph_of(
        f"x: f32[7, 6]\ni: int32 = topk_indices_first(x, {x.shape[axis]}, axis={axis})"
    )
    assert array_run(graph, x).tolist() == exact_run(graph, x).tolist() == want.tolist()
    largest = np.take(want, 0, axis)
    assert largest.tolist() == np.argmax(x, axis=axis).tolist()  # numpy: the first NaN, if any


@pytest.mark.parametrize("seed", range(4))
def test_the_first_and_the_last_of_equal_elements_are_those_of_numpy(seed: int) -> None:
    x = crowded(seed, (9, 6))
    x = np.where(np.isnan(x), 0.0, x)
    first = graph_of("x: f32[9, 6]\ni: int32 = argmax_first(x)")
    last = graph_of("x: f32[9, 6]\ni: int32 = argmax_last(x)")
    for run in (array_run, exact_run):
        assert run(first, x)[:, 0].tolist() == np.argmax(x, axis=1).tolist()
        assert run(last, x)[:, 0].tolist() == (5 - np.argmax(x[:, ::-1], axis=1)).tolist()


def test_chosen_values_are_sorted_and_minus_zero_is_below_zero() -> None:
    x = np.array([[0.0, -0.0, 1.0, -1.0, -0.0, 0.0]])
    graph = graph_of("x: f32[1, 6]\nv: f32 = topk(x, 6)")
    for run in (array_run, exact_run):
        found = run(graph, x)[0]
        assert found.tolist() == [1, 0, 0, 0, 0, -1]
        if run is array_run:
            assert np.signbit(found).tolist() == [False, False, False, True, True, True]


def test_choices_are_nested_argmaxes_with_what_was_picked_masked() -> None:
    x = crowded(7, (5, 6))
    x = np.where(np.isnan(x) | np.isinf(x), 3.0, x)
    graph = graph_of("x: f32[5, 6]\ni: int32 = topk_indices_first(x, 6)")
    masked, picked = x.copy(), []
    for _ in range(6):
        picked.append(np.argmax(masked, axis=1))
        masked[np.arange(5), picked[-1]] = -math.inf
    assert array_run(graph, x).T.tolist() == [p.tolist() for p in picked]


def test_unrounded_elements_are_compared_exactly() -> None:
    """Exp grows so slowly near 2^-30 that binary64 cannot tell the exponentials apart."""
    tiny = 2.0**-60
    x = np.array([[0.0, tiny, 2 * tiny, tiny], [1.0, 1.0, 0.5, 1.0]])
    graph = graph_of("x: f32[2, 4]\ni: int32 = topk_indices_first(exp(x), 4)")
    want = [[2, 1, 3, 0], [0, 1, 3, 2]]
    assert array_run(graph, x).tolist() == want
    assert exact_run(graph, x).tolist() == want
    values = graph_of("x: f32[2, 4]\nv: bf16 = topk(exp(x), 4)")
    assert array_run(values, x).tolist() == exact_run(values, x).tolist()


# What equal elements leave open.


def test_the_exact_domain_refuses_an_index_only_where_elements_are_equal() -> None:
    graph = graph_of("x: f32[1, 6]\ni: int32 = topk_indices(x, 2)")
    with pytest.raises(AnyOrderError) as caught:
        exact_run(graph, np.array([SCORES]))
    assert str(caught.value) == "the index of one of several equal elements is one of a set."
    assert exact_run(graph, np.array([[1.0, 3.0, 0.0, 0.0, 2.0, 0.0]])).tolist() == [[1, 4]]


def test_the_array_domain_draws_one_of_equal_elements_and_says_so() -> None:
    graph = graph_of("x: f32[1, 6]\ni: int32 = topk_indices(x, 4)")
    found = set()
    for seed in range(40):
        domain = ArrayDomain({"x": np.array([SCORES])}, seed)
        (index,) = evaluate(graph.results, domain, Policy.BITS)
        chosen = values_of(index)[0].tolist()
        assert sorted(chosen) == [0, 2, 3, 5]
        assert domain.notes == {
            f"of equal elements one was chosen in an order drawn with seed {seed}"
        }
        found.add(tuple(chosen))
    assert len(found) > 10


def test_an_unordered_choice_that_reaches_a_result_is_not_deterministic() -> None:
    text = "x: bf16[1, 6]\ni: int32 = {}(x)\nv: bf16 = max(x)\nreturn {}"
    assert deterministic_of(graph_of(text.format("argmax", "i"))) == (False, UNORDERED)
    assert deterministic_of(graph_of(text.format("argmax", "v"))) == (True, None)
    assert deterministic_of(graph_of(text.format("argmax_first", "i"))) == (True, None)
    values = graph_of("x: bf16[1, 6]\nv: bf16 = topk(x, 3)")
    assert deterministic_of(values) == (True, None)


def test_equal_elements_come_last_first_on_the_side_that_promises_nothing() -> None:
    texts = ("x: f32[1, 6]\ni: int32 = topk_indices(x, 2)", "x: f32[1, 6]\ni: int32 = {}(x, 2)")
    loose, first = graph_of(texts[0]), graph_of(texts[1].format("topk_indices_first"))
    x = np.array([SCORES])
    for pair, want in (((loose, first), ([5, 3], [0, 2])), ((first, loose), ([0, 2], [5, 3]))):
        region = in_order(Region(*pair))
        sides = (region.before, region.after)
        assert tuple(exact_run(side, x)[0].tolist() for side in sides) == want
    both = in_order(Region(loose, loose))
    assert exact_run(both.before, x).tolist() == exact_run(both.after, x).tolist() == [[5, 3]]
    last = graph_of("x: f32[1, 6]\ni: int32 = argmax_last(x)")
    region = in_order(Region(graph_of("x: f32[1, 6]\ni: int32 = argmax(x)"), last))
    assert (exact_run(region.before, x).item(), exact_run(region.after, x).item()) == (0, 5)


def test_a_sum_in_any_order_that_becomes_ordered_runs_backwards_before() -> None:
    text = "x: f32[1, 3]\ny: f32 = sum(x) acc f32 {}"
    loose, seq = graph_of(text.format("any_order")), graph_of(text.format("seq"))
    x = np.array([[1.0, 2.0**-24, 2.0**-24]])
    region = in_order(Region(loose, seq))
    assert (exact_run(region.before, x).item(), exact_run(region.after, x).item()) == (
        1 + 2.0**-23,
        1,
    )
    region = in_order(Region(loose, loose))
    assert (exact_run(region.before, x).item(), exact_run(region.after, x).item()) == (
        1,
        1 + 2.0**-23,
    )


# The field.


def agreed(before: str, after: str, policy: Policy = Policy.REAL) -> tuple[bool, bool]:
    found = agree(graph_of(before), graph_of(after), policy)
    return found.equal, found.hint


X = "x: f32[3, 5]\ni: int32 = {}"


@pytest.mark.parametrize(
    ("before", "after", "equal"),
    [
        ("argmax(x)", "argmax(x + 0)", True),
        ("argmax(x)", "argmax(x * 2 - x)", True),
        ("argmax(x)", "argmax_first(x)", False),
        ("argmax_first(x)", "argmax_last(x)", False),
        ("argmax(x)", "argmax(x, nth=2)", False),
        ("argmax(x)", "argmax(x[:, ::-1])", False),
        ("argmax(x)", "argmax(exp(x))", False),  # equal, which the field does not know
    ],
)
def test_an_index_is_known_by_the_sequence_of_its_elements(
    before: str, after: str, equal: bool
) -> None:
    assert agreed(X.format(before), X.format(after)) == (equal, not equal)


@pytest.mark.parametrize(
    ("before", "after", "equal"),
    [
        ("max(x, nth=2)", "max(x[:, ::-1], nth=2)", True),
        ("max(x, nth=2)", "max(x, nth=3)", False),
        ("max(concat(x, broadcast(-inf, 3, 2)), nth=2)", "max(x, nth=2)", True),
        ("max(concat(x, broadcast(inf, 3, 2)), nth=4)", "max(x, nth=2)", False),
        ("max(concat(x, broadcast(inf, 3, 2)), nth=2)", "x[:, 0:1] * 0 + inf", True),
        ("max(concat(x, broadcast(-inf, 3, 2)), nth=6)", "x[:, 0:1] * 0 - inf", True),
    ],
)
def test_a_chosen_value_is_known_by_the_elements_in_any_order(
    before: str, after: str, equal: bool
) -> None:
    text = "x: f32[3, 5]\nv: f32 = {}"
    assert agreed(text.format(before), text.format(after))[0] == equal


def test_an_index_among_nans_is_not_that_among_numbers() -> None:
    assert agreed(X.format("argmax(x)"), X.format("argmax(x + 0 * x / 0)")) == (False, True)


def test_an_index_in_a_narrow_format_is_kept_where_the_format_holds_it() -> None:
    """256 positions are integers of 8 digits; 512 of 9, which bf16 does not hold."""
    for count, equal in ((256, True), (512, False)):
        text = f"x: f32[1, {count}]\ni: {{}} = argmax_first(x)\nj: f32 = i + 0.5"
        before, after = (graph_of(text.format(fmt)) for fmt in ("bf16", "real"))
        assert agree(before, after, Policy.BITS).equal == equal


def test_a_positive_factor_changes_no_choice_and_scales_a_chosen_value() -> None:
    text = "x: f32[2, 5]\ni: int32 = argmax({})\nv: f32 = max({}, nth=2)"
    forms = [canonical(graph_of(text.format(f"{x}", x))) for x in ("x", "x * 4", "x * (-4)")]
    assert forms[0].results[0].key == forms[1].results[0].key != forms[2].results[0].key
    assert isinstance(forms[1].results[1], Map)  # 4 * max
    assert canonical(forms[2]).key() == forms[2].key()


def test_a_rounding_in_front_of_a_choice_makes_it_another() -> None:
    text = "x: f32[2, 5]\ns: {} = x\ni: int32 = argmax(s)"
    before, after = (canonical(graph_of(text.format(fmt))) for fmt in ("bf16", "f32"))
    assert not agree(before, after, Policy.ROUND).equal
    assert agree(before, after, Policy.GRID).equal


# Text.


def test_choices_print_as_text_that_parses_back() -> None:
    graph = graph_of(
        "x: f32[2, 5]\ni: int32 = topk_indices(x, 3)\nv: f32 = topk(x, 2)\n"
        "j: int32 = argmax_last(x)"
    )
    printed = print_graph(graph)
    assert "concat(argmax(x, axis=1), argmax(x, nth=2, axis=1), argmax(x, nth=3, axis=1)" in printed
    assert "max(x, nth=2, axis=1)" in printed
    assert graph_of(printed).key() == graph.key()


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("argmax(x, nth=6)", "of 5 elements along an axis none is in place 6."),
        ("argmax(x, nth=0)", "of 5 elements along an axis none is in place 0."),
        ("topk(x, 7)", "of 5 elements along an axis none is in place 6."),
        ("topk_indices(x)", "the number of choices is missing: topk(x, 8)."),
        ("topk(x, 1, 2)", "the number of choices is missing: topk(x, 8)."),
        ("sum(x, nth=2)", "sum has no argument 'nth'"),
        ("argmax(x, axis=2)", "axis 2 does not exist in [2, 5]"),
    ],
)
def test_what_cannot_be_chosen_is_refused(expression: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        graph_of(f"x: f32[2, 5]\ni: int32 = {expression}")
    assert message in str(caught.value)


def test_an_op_and_its_choice_say_the_same() -> None:
    for op in ("argmax", "argmax 2", "argmax_first", "argmax_last 7", "max 3"):
        choice = choice_of(op)
        assert choice is not None
        assert choice.op == op
    assert [choice_of(op) for op in ("max", "min", "sum")] == [None] * 3
    assert choice_of("argmax_first 3") == Choice("first", 3)
    assert ranked([Fraction(1), math.nan, Fraction(1)], compare, "last") == [1, 2, 0]


# Drift, scale and bounds.


def drift_of(before: str, after: str) -> Drift:
    found = measure(graph_of(before), graph_of(after), {}, 0, 1 << 20)
    assert found is not None
    return found


def test_drift_of_indices_is_the_share_of_rows_in_which_the_choice_changes() -> None:
    """Of six scores, each 0 or 1, the largest is alone in 6 of 64 rows."""
    text = "x: f32[2048, 6]\ns: f32 = less(0, x)\ni: int32 = {}(s)"
    drift = drift_of(text.format("argmax_last"), text.format("argmax_first"))
    scores = (draw(Input("x", FORMATS["f32"], shape=(2048, 6)), STANDARD, 0) > 0).sum(axis=1)
    assert drift.share == drift.codes_changed == np.mean(scores != 1)
    assert 0.88 < drift.share < 0.93
    assert (drift.max_ulp, drift.max_ulp_at_scale, drift.p99_ulp, drift.mean_ulp) == (None,) * 4
    assert drift.bound == Bound(None, None, "indices have no distance")
    assert drift.worst_index == (int(np.argmax(scores != 1)), 0)
    assert (drift.format, drift.nearer) == ("int32", None)


def test_the_scale_of_an_index_is_the_index_and_it_has_no_bound() -> None:
    graph = graph_of("x: f32[1, 4]\ny: f32 = x - 3\ni: int32 = argmax_first(y)")
    known: dict[bytes, object] = {}
    x = np.array([[1.0, 2.0, 3.0, 2.5]])
    evaluate(graph.results, ArrayDomain({"x": x}), Policy.BITS, known)  # type: ignore[arg-type]
    assert scale_of(graph.results[0], known).tolist() == [[2.0]]  # type: ignore[arg-type]
    text = "x: bf16[1, 4]\ny: {} = x * x\ni: f32 = argmax_first(y)"
    nodes = [graph_of(text.format(fmt)).results[0] for fmt in ("bf16", "f32")]
    found = bound_of(nodes[0], nodes[1], FORMATS["f32"], {})
    assert found == Bound(None, None, "none is derived for an index of a rounded value")
    plain = graph_of("x: bf16[1, 4]\ni: f32 = argmax_first(x) / 3").results[0]
    assert bound_of(plain, plain, FORMATS["f32"], {}).why == "all terms have one sign"


# The whole way.


SYMBOLS = "M = [1, 64], E = 16"


def test_a_rounding_in_front_of_a_router_changes_its_choices(tmp_path: Path) -> None:
    """Between the policies that the field decides, no sample may hide that a rounding is gone."""
    graph = (
        "s: bf16[M, E]\np: bf16 = softmax(s)\ni: int32 = topk_indices(p, 2)\nv: bf16 = topk(p, 2)"
    )
    (step,) = steps_of(tmp_path, graph, SYMBOLS, 'rule = "drop-rounding"\nat = ["p"]')
    assert step.change == Change.ROUNDING
    assert step.promises["deterministic"].before is False
    assert step.promises["deterministic"].cause == UNORDERED
    assert step.witness is not None


def test_a_named_rule_in_place_of_none_is_another_function_with_the_same_values(
    tmp_path: Path,
) -> None:
    text = "x: bf16[M, E]\ni: int32 = topk_indices(x, 2)\nv: bf16 = topk(x, 2)"
    (step,) = steps_of(tmp_path, text, SYMBOLS, 'rule = "ties-without-rule"\nat = ["i"]')
    assert step.change == Change.MATH
    assert step.domain == ()
    assert (step.promises["deterministic"].before, step.promises["deterministic"].after) == (
        False,
        True,
    )
    assert step.drift is not None
    assert step.drift.codes_changed is not None
    assert 0 < step.drift.codes_changed < 0.05  # bf16 scores of normal(0, 1) that tie at the top
    assert step.witness is not None
    assert step.witness.output == "i"
    assert step.witness.program is not None
    assert "argmax_last(" in step.witness.program.before
    assert "argmax_first(" in step.witness.program.after
