"""Roundings, sums and maxima keep the laws in the field that they have, and no others."""

import numpy as np
import pytest
from in_field import HEAD, drawn, other, same

import lastbit.interpret.field_tree as field_tree
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.field import FieldDomain
from lastbit.interpret.policy import Policy
from lastbit.interpret.residues import FIELDS
from lastbit.rounding import Mode
from lastbit.text import parse_program
from lastbit.verify.agree import agree

pytestmark = pytest.mark.filterwarnings("ignore:overflow")  # hashes wrap around


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
