"""Rules on special values and on sums give the numbers that numpy gives for the same programs.

Each is applied to its own graph and evaluated exactly; the expected bits come from numpy and
ml_dtypes, which round on their own.
"""

from collections.abc import Mapping
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from sites import closed, site_of, transformed, written

from lastbit.change import Change
from lastbit.examples import check_example
from lastbit.formats import F32, format_of
from lastbit.graph import Input, Map, Reduce, Round, apply
from lastbit.interpret.policy import Policy
from lastbit.registry import find_rule
from lastbit.rounding import Mode, Rounding
from lastbit.rule import Example, RejectedError, Value
from lastbit.verify.agree import agree
from lastbit.verify.canonicalise import canonical
from lastbit.verify.domain import misbehaviours
from lastbit.verify.laws import never_below, without_root_of_square
from lastbit.verify.region import Region

f32 = np.float32
bf16 = ml_dtypes.bfloat16


def bits_of(value: object) -> str:
    """Return the bits of a numpy number as results show them; NaN is the quiet one."""
    array = np.asarray(value)
    width = array.dtype.itemsize
    if np.isnan(array):
        array = np.asarray(np.nan, array.dtype)
    code = int(array.view(f"u{width}"))
    quiet = {2: 0x7FC0, 4: 0x7FC00000}[width] if array.dtype != np.float16 else 0x7E00
    return f"0x{quiet if np.isnan(array) else code:0{2 * width}x}"


def shown(code: str, parameters: Mapping[str, Value] | None = None, at: str = "", **inputs: object):
    """Return the bits of a rule's site before and after, on inputs."""
    rule = find_rule(code)
    names = (at,) if at else ()
    outcome = check_example(rule, Example("breaks", inputs, parameters or {}, at=names))
    name = names[0] if names else rule.at[0]
    name = name if name in outcome.before else next(reversed(outcome.before))
    return list(outcome.before[name]), list(outcome.after[name])


# Sums


def test_nine_losses_of_1_and_one_of_2_average_to_11_tenths_and_without_weights_to_3_halves() -> (
    None
):
    losses = (*[1] * 9, 2)
    micro = [np.array([1] * 9, f32), np.array([2], f32)]
    right = f32(np.concatenate(micro).sum() / f32(10))
    weighted = f32(f32(f32(micro[0].mean()) * f32(9) + f32(micro[1].mean())) / f32(10))
    assert right == weighted == f32(1.1)
    assert shown("RED219", {"block": 9}, x=losses) == ([bits_of(right)], [bits_of(weighted)])
    unweighted = check_example(find_rule("RED213"), Example("breaks", {"x": losses}, {"block": 9}))
    assert unweighted.before["y"] == (bits_of(f32(1.1)),)
    assert unweighted.after["y"] == (bits_of(f32(np.mean([m.mean() for m in micro]))),)
    assert unweighted.after["y"] == (bits_of(f32(1.5)),)


def test_partial_sums_of_256_and_a_half_minus_256_and_1_give_1_in_an_output_of_bf16() -> None:
    output = bf16(0)
    for own in (256.5, -256, 1):
        output = bf16(output + bf16(own))
    assert (output, bf16(1.5)) == (1, 1.5)
    found = shown("RED266", {"block": 1}, x=(256.5, -256, 1))
    assert found == ([bits_of(bf16(1.5))], [bits_of(output)])


def test_ones_added_to_an_output_of_bf16_stop_at_256() -> None:
    ones = np.ones(300, bf16)
    stalled = bits_of(np.cumsum(ones)[-1])  # numpy adds bf16 one after the other
    assert stalled == bits_of(bf16(256))
    assert shown("RED266", {"block": 1}, x=[1] * 300) == ([bits_of(bf16(300))], [stalled])


def test_two_devices_round_their_parts_before_they_are_added() -> None:
    x = np.array([1, 2**-8, -1, 2**-8], f32)
    parts = [bf16(x[:2].sum()), bf16(x[2:].sum())]
    assert shown("RED265", {"n": 2}, x=[x.tolist()], w=1) == (
        [bits_of(bf16(x.sum()))],
        [bits_of(bf16(parts[0] + parts[1]))],
    )


def test_hopper_keeps_13_fraction_bits_of_a_sum_of_fp8_products() -> None:
    exact = 128 * 128 + 1
    kept = exact >> 1 << 1  # 2^14 needs 15 bits; the unit keeps 14, and cuts off the rest
    row = [[128, *[0] * 31, 1, *[0] * 31]]
    for every, promoted in ((32, exact), (64, kept)):
        found = shown("RED217", {"every": every}, x=row, w=row)
        assert found == ([bits_of(f32(kept))], [bits_of(f32(promoted))])


def test_a_concatenation_along_k_adds_the_adapter_to_the_accumulator_term_by_term() -> None:
    base, one = f32(2**24), f32(1)
    apart = base + (one + one)
    together = (base + one) + one
    assert apart != together
    assert shown("RED216", x=2**24, w=1, t=1, b=1) == ([bits_of(apart)], [bits_of(together)])


def test_a_sum_with_another_accumulator_cannot_be_concatenated() -> None:
    graph = "x: bf16[K]\np: f32 = sum(x) acc f32 seq\nq: f32 = sum(x) acc bf16 seq\ny: f32 = p + q"
    with pytest.raises(RejectedError, match="in the same accumulator"):
        transformed("RED216", site_of(graph, "y", {"K": 3}))


# Softmax and attention


def test_the_logarithm_of_a_weight_of_0_is_not_minus_200() -> None:
    x = np.array([0, -200], f32)
    weights = np.exp(x - x.max())
    with np.errstate(divide="ignore"):
        of_weights = np.log(weights / weights.sum())
    shifted = x - x.max() - np.log(weights.sum())
    assert (of_weights[1], shifted[1]) == (-np.inf, -200)
    before, after = shown("RED259", x=[[0, -200]])
    assert before[1] == bits_of(of_weights[1])
    assert after[1] == bits_of(shifted[1])


def test_scores_0_and_6_to_base_2_give_one_65th_and_a_skipped_rescale_one_half() -> None:
    right = Fraction(1, 1 + 2**6)
    wrong = Fraction(1, 1 + 1)  # 1 was not rescaled, the other weight is 2^(6 - 6)
    found = shown("RED260", {"block": 1}, s=[[0, 6]], v=[[1], [0]])
    assert found == ([bits_of(f32(float(right)))], [bits_of(f32(float(wrong)))])


@pytest.mark.parametrize("step", range(1, 8))
def test_a_skipped_rescale_counts_an_earlier_block_2_to_the_step_times_too_much(step: int) -> None:
    inputs = {"s": [[0, step]], "v": [[1], [0]]}
    _, wrong = shown("RED260", {"block": 1, "threshold": step}, **inputs)
    right, rescaled = shown("RED260", {"block": 1, "threshold": step - 1}, **inputs)
    assert wrong == [bits_of(f32(0.5))]
    assert right == rescaled == [bits_of(f32(1 / (1 + 2.0**step)))]


def test_a_reference_that_is_kept_for_sums_and_weights_alike_is_the_same_function() -> None:
    sizes = {"M": 3, "K": 6, "N": 4}
    site = site_of(find_rule("RED262").graph, "o", sizes, block=2, threshold=1)
    sides = [closed(program, "o") for program in (site.program, transformed("RED262", site))]
    assert agree(*sides, Policy.REAL, draws=2).equal
    assert not agree(*sides, Policy.ROUND, draws=2).equal


def test_two_empty_states_merge_to_nan_without_a_guard_and_to_0_with_one() -> None:
    lse = np.array([-np.inf, -np.inf], f32)
    with np.errstate(invalid="ignore"):
        assert np.isnan(np.exp(lse - lse.max())).all()
    assert np.exp(lse - f32(0)).sum() == 0  # the guard: another reference
    zero, nan = bits_of(f32(0)), bits_of(f32(np.nan))
    assert shown("RED261", e=float("-inf"), v=0) == ([zero], [nan])
    full = shown("RED261", e=(float("-inf"), 1.5), v=(0, 3))
    assert full == ([bits_of(f32(3))], [bits_of(f32(3))])


# Special values


@pytest.mark.parametrize("x", [0.0, -0.0, np.inf, -np.inf, np.nan, 3.0])
def test_x_over_x_is_1_for_ordinary_numbers_only(x: float) -> None:
    with np.errstate(invalid="ignore"):
        quotient = f32(x) / f32(x)
    assert shown("DOM508", x=x) == ([bits_of(quotient)], [bits_of(f32(1))])


@pytest.mark.parametrize("x", [2.0, 4.0, -4.0, -0.0])
def test_the_square_of_a_root_is_numpys(x: float) -> None:
    with np.errstate(invalid="ignore"):
        root = np.sqrt(f32(x))
    assert shown("DOM509", x=x) == ([bits_of(root * root)], [bits_of(f32(x))])


def test_the_root_of_the_square_is_the_magnitude_of_every_f16_whose_square_is_ordinary() -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        square = x * x
        root = np.sqrt(square)
    usual = np.isfinite(square) & (square >= np.finfo(np.float16).smallest_normal)
    assert usual.sum() == 30720  # 15 binades of 1024 numbers of either sign
    assert (root[usual] == np.abs(x[usual])).all()
    assert (root[~usual] != np.abs(x[~usual])).any()


@pytest.mark.parametrize("x", ["0x1p+100", "-0x1p-100", "0x1.000002p+0", "-0x1.fffffep+5"])
def test_a_root_of_a_square_is_numpys(x: str) -> None:
    value = f32(float.fromhex(x))
    with np.errstate(over="ignore", under="ignore"):
        root = np.sqrt(value * value)
    assert shown("DOM510", x=x) == ([bits_of(root)], [bits_of(np.abs(value))])


def test_fmax_and_fmin_drop_a_nan_and_maximum_and_minimum_keep_it() -> None:
    nan = float("nan")
    pairs = [(nan, 1.0), (1.0, nan), (nan, nan), (-3.0, 5.0), (float("-inf"), nan)]
    for x, u in pairs:
        for at, kept, dropped in (("y", np.maximum, np.fmax), ("m", np.minimum, np.fmin)):
            found = shown("DOM511", at=at, x=x, u=u)
            assert found == ([bits_of(kept(f32(x), f32(u)))], [bits_of(dropped(f32(x), f32(u)))])


@pytest.mark.parametrize("row", [[-np.inf, -np.inf], [-np.inf, -3.0], [-1.0, -2.0]])
def test_a_maximum_from_the_lowest_number_is_numpys_with_that_initial_value(row) -> None:
    values = np.array(row, f32)
    lowest = np.finfo(f32).min
    found = shown("DOM512", x=[row])
    assert found == ([bits_of(values.max())], [bits_of(values.max(initial=lowest))])


def test_the_maximum_of_nothing_is_what_it_starts_from() -> None:
    assert np.array([], f32).max(initial=-np.inf) == -np.inf
    lowest = bits_of(np.finfo(f32).min)
    assert shown("DOM512", x=[[]]) == ([bits_of(f32(-np.inf))], [lowest])


@pytest.mark.parametrize("magnitude", [10000, 50000])
def test_four_masked_keys_have_the_weight_one_quarter_or_nan(magnitude: int) -> None:
    def softmax(scores):
        with np.errstate(invalid="ignore"):
            weights = np.exp(scores - scores.max())
            return weights / weights.sum()

    for mask in ([0, 0, 0, 0], [1, 1, 0, 0]):
        one = np.where(np.array(mask) != 0, f32(1), f32(-np.inf))
        other = np.where(np.array(mask) != 0, f32(1), f32(-magnitude))
        before, after = shown("DOM513", {"magnitude": magnitude}, s=1, k=[mask])
        assert before == [bits_of(w) for w in softmax(one)]
        assert after == [bits_of(w) for w in softmax(other)]
    assert softmax(np.full(4, f32(-magnitude)))[0] == 0.25


def test_the_mean_of_2000_terms_of_60_is_inf_if_their_sum_is_stored_in_f16() -> None:
    x = np.full(2000, 60, np.float16)
    with np.errstate(over="ignore"):
        stored = np.float16(x.sum(dtype=f32))
    assert np.isinf(stored)
    right = np.float16(x.mean(dtype=f32))
    assert shown("DOM517", x=[60] * 2000) == ([bits_of(right)], [bits_of(stored)])
    assert right == 60


@pytest.mark.parametrize("x", [-0.0, 0.0, -3.0, 3.0, np.nan])
def test_a_comparison_keeps_minus_0_and_a_maximum_does_not(x: float) -> None:
    value = f32(x)
    selected = f32(0) if value < 0 else value
    found = shown("DOM518", x=x)
    assert found[0] == [bits_of(selected)]
    zero = x == 0
    assert found[1] == [bits_of(f32(0) if zero else np.maximum(value, f32(0)))]


# The laws behind the verdicts

X = Input("x", F32, shape=(4,))


def root(square: str, last: str, mode: Mode = Mode.NEAREST_EVEN) -> tuple[Map, Rounding]:
    """Return the root of a rounded square of f32 values, and the rounding of the root."""
    stored = Round(apply("mul", X, X), Rounding.of(square, mode=mode))
    return apply("sqrt", stored), Rounding.of(last)


def test_a_root_takes_back_the_rounding_of_a_square_with_as_many_digits() -> None:
    for square, last in (("f32", "f32"), ("f64", "f32"), ("f64", "f64")):
        found = without_root_of_square(*root(square, last), {})
        assert found.key == apply("abs", X).key


def test_a_root_does_not_take_back_a_coarser_or_a_directed_rounding_of_a_square() -> None:
    # bf16 keeps 8 digits of the square; directed rounding is off by up to twice as much
    cases = [root("bf16", "f32"), root("f32", "f32", Mode.TOWARD_ZERO), root("f32", "bf16")]
    cases.append((apply("sqrt", apply("mul", X, X)), Rounding.of("f32")))  # nothing was rounded
    for node, last in cases:
        assert without_root_of_square(node, last, {}).key == node.key


def test_a_maximum_with_the_lowest_number_of_its_format_does_nothing() -> None:
    lowest = F32.min_finite
    assert isinstance(lowest, Fraction)
    rows = Reduce("max", X, 0)
    for node in (X, rows, Round(X, Rounding.of("f16"))):
        assert never_below(node, lowest)
    assert not never_below(rows, format_of("f16").min_finite)  # f32 goes further down
    assert not never_below(apply("mul", X, 2), lowest)  # a real number of any size
    assert not never_below(Reduce("max", Input("e", F32, shape=(0,)), 0), lowest)


@pytest.mark.parametrize(
    ("graph", "equal"),
    [
        ("y: f32 = sqrt(x) * sqrt(x)\nz: f32 = x * 1", True),
        ("y: f32 = sqrt(x) * sqrt(u)\nz: f32 = x * 1", False),
    ],
)
def test_the_square_of_one_root_is_simplified(graph: str, equal: bool) -> None:
    program = written(f"x: f32[N]\nu: f32[N]\n{graph}\nreturn y, z", {"N": 1})
    y, z = canonical(closed(program)).results
    assert (y.key == z.key) == equal


@pytest.mark.parametrize(
    ("quotient", "one", "equal"),
    [
        ("x / x", "1", True),
        ("(2 * x) / x", "2", True),
        ("x / u", "1", False),
        ("x / x", "3", False),
    ],
)
def test_the_field_knows_that_x_over_x_is_1(quotient: str, one: str, equal: bool) -> None:
    inputs = "x: f32[N]\nu: f32[N]\n"
    sides = [
        canonical(closed(written(f"{inputs}y: bf16 = {formula}\nreturn y", {"N": 3})))
        for formula in (quotient, f"broadcast({one}, N)")
    ]
    assert agree(*sides, Policy.BITS).equal == equal


def test_a_special_input_counts_even_where_nothing_is_rounded() -> None:
    before = closed(written("x: f32[N]\ny: f32 = max(x)\nreturn y", {"N": 2}))
    after = closed(written("x: f32[N]\ny: f32 = maximum(max(x), -1e38)\nreturn y", {"N": 2}))
    found = misbehaviours([Region(before, after)], Change.BITWISE)
    assert [(m.kind, m.side, m.inputs) for m in found if m.kind == "inf"] == [
        ("inf", "before", "-inf in `x`")
    ]
