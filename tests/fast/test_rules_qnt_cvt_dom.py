"""Rules on softmax, quantization, conversions and domains do what they say, however written.

The transforms whose answers are published come out with the published numbers.
"""

from fractions import Fraction

import pytest
from sites import ORACLE, closed, outcome_on, site_of, transformed, value_of

from lastbit.change import Change
from lastbit.interpret.policy import Policy
from lastbit.patterns.attention import TWO_BLOCKS, WHOLE_ROW, attention_at
from lastbit.patterns.quantized import ROW_SCALED
from lastbit.reals import named
from lastbit.registry import find_rule
from lastbit.rule import RejectedError, Site, Value
from lastbit.verify.agree import agree

# Published numbers of attention.

SCORES = {"s": (Fraction(0), named("ln2")), "v": (Fraction(1), Fraction(3))}
PAIR = {"M": 1, "K": 2, "N": 1}


@pytest.mark.parametrize("code", ["RED251", "RED252", "RED256", "RED257"])
def test_scores_0_and_ln2_weigh_1_and_3_to_seven_thirds_in_every_right_form(code: str) -> None:
    site = site_of(WHOLE_ROW, "o", PAIR, block=1)
    assert value_of(site.program, "o", Policy.REAL, SCORES) == [Fraction(7, 3)]
    assert value_of(transformed(code, site), "o", Policy.REAL, SCORES) == [Fraction(7, 3)]


def test_t27_an_average_of_chunks_is_2_whatever_the_weights() -> None:
    site = site_of(WHOLE_ROW, "o", PAIR, block=1)
    merged = transformed("RED255", site)
    for scores, right in (((0, "ln2"), Fraction(7, 3)), (("ln2", 0), Fraction(5, 3))):
        row = tuple(named(s) if isinstance(s, str) else Fraction(s) for s in scores)
        given = {**SCORES, "s": row}
        assert value_of(site.program, "o", Policy.REAL, given) == [right]
        assert value_of(merged, "o", Policy.REAL, given) == [2]
    assert find_rule("RED255").claim == ORACLE["T27"]["change"]


def test_a_lost_rescale_keeps_the_weights_of_the_first_maximum() -> None:
    site = site_of(WHOLE_ROW, "o", PAIR, block=1)
    lost = transformed("RED254", site)
    assert value_of(lost, "o", Policy.REAL, SCORES) == [2]  # (1 + 3) / (1 + 1)


def test_a_log_sum_exp_read_to_base_2_gives_other_shares() -> None:
    site = site_of(WHOLE_ROW, "o", {**PAIR, "K": 3}, block=2)
    given = {
        "s": (Fraction(0), Fraction(0), named("ln2")),
        "v": (Fraction(0), Fraction(0), Fraction(1)),
    }
    assert value_of(transformed("RED257", site), "o", Policy.REAL, given) == [Fraction(1, 2)]
    (wrong,) = value_of(transformed("RED258", site), "o", Policy.BITS, given)
    assert wrong == Fraction(1, 2)  # equal log-sum-exps: the base does not matter
    uneven = {**given, "s": (Fraction(0), Fraction(0), Fraction(0))}
    (wrong,) = value_of(transformed("RED258", site), "o", Policy.BITS, uneven)
    # shares 2^0 and 2^-ln2 = 0.6185 in place of 2:1
    assert abs(wrong - Fraction("0.38214")) < Fraction(1, 10**5)


def test_t25_another_block_size_gives_the_published_bits() -> None:
    sizes = {"M": 1, "K": 4, "N": 1}
    given = {"s": (0, 0, 0, 1), "v": (1, 3, 5, 7)}
    row = {name: tuple(map(Fraction, values)) for name, values in given.items()}
    one = transformed("RED251", site_of(WHOLE_ROW, "o", sizes, block=1))
    assert attention_at(Site(one, ("o",))).blocks == ((0, 1), (1, 2), (2, 3), (3, 4))
    two = transformed("RED253", Site(one, ("o",), {"block": 2}))
    assert attention_at(Site(two, ("o",))).blocks == ((0, 2), (2, 4))
    assert ORACLE["T25"]["before"] == "b=1: 0x409CD8D2"
    assert ORACLE["T25"]["after"] == "b=2: 0x409CD8D3"
    bits = {Fraction(0x9CD8D2, 1 << 21): 1, Fraction(0x9CD8D3, 1 << 21): 2}
    found = [value_of(program, "o", Policy.BITS, row)[0] for program in (one, two)]
    assert [bits[value] for value in found] == [1, 2]  # type: ignore[index]
    assert find_rule("RED253").claim == ORACLE["T25"]["change"]


def test_t29_without_the_maximum_a_score_of_89_gives_nan() -> None:
    outcome = outcome_on("RED256", WHOLE_ROW, "o", {}, s=((0, 89),), v=((1,), (3,)))
    assert (outcome.before["o"], outcome.after["o"]) == (("0x40400000",), ("0x7fc00000",))
    assert not outcome.ordinary
    finite = outcome_on("RED256", WHOLE_ROW, "o", {}, s=((0, 86),), v=((1,), (3,)))
    assert finite.after["o"] == ("0x40400000",)
    assert find_rule("RED256").claim == ORACLE["T29"]["change"]


# Attention written in other ways.

WRITTEN = {
    "one statement": "o: bf16 = matmul(softmax(s), v) acc f32 seq",
    "weights in bf16": (
        "p: f32 = exp(s - max(s))\nb: bf16 = p\no: bf16 = matmul(b, v) / sum(p) acc f32 seq"
    ),
    "normalised first": (
        "p: f32 = softmax(s) acc f32 seq\nb: bf16 = p\no: f32 = matmul(b, v) acc f32 seq"
    ),
    "base 2": (
        "m: f32 = max(s, axis=1)\np: f32 = exp2(s - m)\n"
        "o: f32 = matmul(p, v) / sum(p) * 3 acc f32 lanes(2)"
    ),
    "sum of products": (
        "e: real = exp(s - max(s))\nu: f32 = sum(transpose(v) * e) acc f32 seq\n"
        "l: f32 = sum(e) acc f32 seq\no: bf16 = u / l"
    ),
    "a softmax alone": "o: f32 = softmax(s) * 2 acc f32 seq\nz: f32 = v * 1",
    "a formula for scores": ("o: bf16 = matmul(softmax(s * 2 + 1), v) acc f32 seq"),
}
FORMS = [("RED251", {}), ("RED252", {"order": "rotate"}), ("RED257", {})]


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize(("code", "parameters"), FORMS)
def test_a_blockwise_form_is_the_same_function_however_attention_is_written(
    code: str, parameters: dict[str, Value], text: str
) -> None:
    graph = "s: f32[M, K]\nv: f32[K, N]\n" + text + "\nreturn o"
    site = site_of(graph, "o", {"M": 2, "K": 5, "N": 1}, block=2, **parameters)
    if code == "RED257" and "v" not in {node.name for node in closed(site.program, "o").inputs}:
        with pytest.raises(RejectedError, match="the softmax weighs values"):
            transformed(code, site)
        return
    new = transformed(code, site)
    before, changed = closed(site.program, "o"), closed(new, "o")
    assert agree(before, changed, Policy.REAL, draws=1).equal
    assert not agree(before, changed, Policy.ROUND, draws=1).equal
    if code == "RED251":
        again = attention_at(Site(new, ("o",)))
        assert again.blocks == ((0, 2), (2, 4), (4, 5))
        same = transformed("RED253", Site(new, ("o",), {"block": 2}))
        assert same.nodes["o"].key == new.nodes["o"].key


def test_an_online_softmax_in_named_steps_is_found_too() -> None:
    found = attention_at(site_of(TWO_BLOCKS, "o", {"M": 2, "K": 6, "N": 3}))
    assert found.blocks == ((0, 3), (3, 6))
    assert found.scores.shape == (2, 6)


def test_steps_that_are_no_online_softmax_are_not_taken_for_one() -> None:
    lost = TWO_BLOCKS.replace("l: f32 = round(r * l1, f32) + l2", "l: f32 = l1 + l2")
    swapped = TWO_BLOCKS.replace("exp(m1 - m)", "exp(m - m1)")
    for graph in (lost, swapped):
        assert graph != TWO_BLOCKS
        with pytest.raises(RejectedError):
            transformed("RED253", site_of(graph, "o", {"M": 1, "K": 4, "N": 1}, block=1))


def test_the_maximum_is_dropped_where_it_stands() -> None:
    site = site_of(WHOLE_ROW, "o", PAIR)
    assert set(find_rule("RED256").apply(site)) == {"p"}
    with pytest.raises(RejectedError, match="the softmax reads a whole row"):
        find_rule("RED256").apply(site_of(TWO_BLOCKS, "o", {"M": 1, "K": 4, "N": 1}))


# Published numbers of quantization.

ROW = {"t": tuple(Fraction({0: 1, 128: 10}.get(i, 0)) for i in range(256))}
FIRST = {"w": tuple(Fraction(i == 0) for i in range(256))}
SECOND = {"w": tuple(Fraction(i == 128) for i in range(256))}
SIZES = {"M": 1, "K": 256, "N": 1}


def test_the_row_of_256_gives_55_of_56_whole_and_1_by_the_prefix() -> None:
    site = site_of(ROW_SCALED, "q", SIZES, chunk=128)
    given = {**ROW, **FIRST}
    assert value_of(site.program, "y", Policy.GRID, given) == [Fraction(55, 56)]
    assert value_of(transformed("QNT301", site), "y", Policy.GRID, given) == [1]
    assert value_of(transformed("QNT301", site), "y", Policy.REAL, given) == [1]
    assert value_of(site.program, "y", Policy.REAL, given) == [1]


def test_t21_a_frozen_scale_clips_10_to_1() -> None:
    site = site_of(ROW_SCALED, "q", SIZES, chunk=128)
    given = {**ROW, **SECOND}
    for policy in (Policy.REAL, Policy.GRID, Policy.BITS):
        assert value_of(site.program, "y", policy, given) == [10]
        assert value_of(transformed("QNT302", site), "y", policy, given) == [1]
    assert find_rule("QNT302").claim == ORACLE["T21"]["change"]


def test_t13_and_t14_17_sixteenths_and_a_bit_keeps_or_loses_its_rounding() -> None:
    x = float(Fraction(17, 16) + Fraction(1, 4096))
    kept = outcome_on("QNT306", find_rule("QNT306").graph, "q", {}, x=(x,), u=(1,))
    assert kept.before["q"] == kept.after["q"] == ("0x38",)  # 1.0
    assert find_rule("QNT306").claim == ORACLE["T13"]["change"]
    lost = outcome_on("QNT307", find_rule("QNT306").graph, "q", {}, x=(x,), u=(1,))
    assert (lost.before["q"], lost.after["q"]) == (("0x38",), ("0x39",))  # 1.0, 1.125


def test_t23_a_row_of_zeros_is_nan_without_a_guard_and_0_with_one() -> None:
    outcome = outcome_on("QNT309", ROW_SCALED, "q", {}, t=((0, 0),), w=((1,), (1,)))
    assert (outcome.before["y"], outcome.after["y"]) == (("0x7fc0",), ("0x0000",))
    assert not outcome.ordinary


# Quantization written in other ways.

QUANTIZED = {
    "named": "s: f32 = amax(t) / 448\nq: e4m3fn = t / s saturate\n"
    "y: f32 = matmul(q, w) * s acc f32 seq",
    "inside one statement": (
        "y: f32 = matmul(round(t / (amax(t) / 448), e4m3fn, saturate), w) * (amax(t) / 448) "
        "acc f32 seq"
    ),
    "a product of its own": (
        "a: f32 = amax(t)\ns: f32 = a / 448\nq: e4m3fn = t / s saturate\n"
        "p: f32 = matmul(q, w) acc f32 seq\ny: f32 = p * s"
    ),
    "restored before": (
        "s: real = amax(t) / 448\nq: e4m3fn = t / s saturate\nd: f32 = s * q\n"
        "y: f32 = matmul(d, w) acc f32 seq"
    ),
    "scaled weights": (
        "s: f32 = amax(t) / 448\nq: e4m3fn = t / s saturate\n"
        "y: f32 = matmul(q, w) * (w[0:1] * s) + 1 acc f32 seq"
    ),
    "int8": "s: f32 = amax(t) / 127\nq: int8 = t / s saturate\n"
    "y: f32 = sum(q * reshape(w, 1, 6)) * s acc f32 seq",
}
T = (1, 3, -5, 2, 7, 4)
W = (5, -3, 2, 1, 7, 11)


@pytest.mark.parametrize("text", QUANTIZED.values(), ids=QUANTIZED)
@pytest.mark.parametrize(
    ("code", "parameters"), [("QNT301", {"chunk": 4}), ("QNT304", {"block": 4}), ("QNT303", {})]
)
def test_other_scales_are_the_same_function_however_they_are_written(
    code: str, parameters: dict[str, Value], text: str
) -> None:
    graph = "t: bf16[M, K]\nw: bf16[K, N]\n" + text
    at = "q" if "\nq:" in text else "y"
    site = site_of(graph, at, {"M": 2, "K": 6, "N": 1}, **parameters)
    new = transformed(code, site)
    given = {"t": (*map(Fraction, T), *(Fraction(13 * x) for x in T)), "w": tuple(map(Fraction, W))}
    want = value_of(site.program, "y", Policy.REAL, given)
    assert value_of(new, "y", Policy.REAL, given) == want
    assert value_of(new, "y", Policy.GRID, given) != value_of(site.program, "y", Policy.GRID, given)


@pytest.mark.parametrize("at", ["s", "q", "y"])
def test_a_quantization_is_found_from_its_scale_its_codes_or_its_reader(at: str) -> None:
    site = site_of(ROW_SCALED, at, {"M": 2, "K": 8, "N": 2}, chunk=4)
    want = site_of(ROW_SCALED, "q", {"M": 2, "K": 8, "N": 2}, chunk=4)
    for code in ("QNT301", "QNT302", "QNT307", "QNT309", "QNT310", "QNT311", "QNT312", "QNT313"):
        try:
            expected = transformed(code, want)
        except RejectedError:
            assert code == "QNT307"  # t is an input
            continue
        found = transformed(code, site)
        assert {k: v.key for k, v in found.nodes.items()} == {
            k: v.key for k, v in expected.nodes.items()
        }


def test_a_reader_without_the_scale_is_refused() -> None:
    graph = ROW_SCALED + "\nz: f32 = q * 2"
    with pytest.raises(RejectedError) as error:
        transformed("QNT301", site_of(graph, "q", {"M": 1, "K": 4, "N": 1}, chunk=2))
    assert str(error.value) == (
        "QNT301 quantize-by-prefix-maximum at `q`: requirement `every reader of the quantized "
        "values multiplies by the scale` fails."
    )


def test_a_sum_across_rows_cannot_take_a_scale_for_each_chunk_of_a_row() -> None:
    graph = (
        "t: bf16[M, K]\nw: bf16[M, 1]\ns: f32[M, 1]\nr: f32 = amax(t) / 448\n"
        "q: e4m3fn = t / r saturate\ny: f32 = sum(q * w, axis=0) * r acc f32 seq"
    )
    with pytest.raises(RejectedError, match="the sum runs along the axis of the scale"):
        transformed("QNT301", site_of(graph, "q", {"M": 2, "K": 4}, chunk=2))


def test_a_product_without_columns_has_no_column_blocks() -> None:
    graph = (
        "t: bf16[M, K]\nw: bf16[K]\ns: f32 = amax(t) / 448\nq: e4m3fn = t / s saturate\n"
        "y: f32 = sum(q * w) * s acc f32 seq"
    )
    with pytest.raises(RejectedError, match="the product has columns"):
        transformed("QNT305", site_of(graph, "q", {"M": 2, "K": 4}, block=2))
    elementwise = "t: bf16[K]\nq: e4m3fn = t / 2 saturate\ny: f32 = q * 2"
    with pytest.raises(RejectedError, match="every reader of the quantized values sums them"):
        transformed("QNT305", site_of(elementwise, "q", {"K": 4}, block=2))


# Padding.


@pytest.mark.parametrize(
    ("schedule", "kept"),
    [
        ("seq", True),
        ("split(size=2)", True),
        ("lanes(3)", True),
        ("promote(2, f64)", True),
        ("split(2)", False),
        ("pairwise", False),
        ("lanes(3, inner=pairwise)", False),
        ("fused(4, hopper/16)", False),
    ],
)
def test_masked_padding_keeps_trees_whose_pieces_do_not_move(schedule: str, kept: bool) -> None:
    # 2^24 and ones: another tree shows in the bits
    graph = f"x: f32[K]\ny: f32 = sum(x) acc f32 {schedule}"
    row = {"x": ("0x1p+24", 1, 1, 1, 1, 1, 1)}
    outcome = outcome_on("DOM501", graph, "y", {"pad": 5}, **row)
    if kept:
        assert outcome.change == Change.BITWISE
    else:
        assert outcome.message == (
            "DOM501 pad-with-mask at `y`: requirement `zeros at the end do not change the sum's "
            "tree` fails."
        )


def test_padding_without_a_mask_reaches_through_named_weights() -> None:
    graph = find_rule("DOM502").graph
    outcome = outcome_on("DOM502", graph, "l", {"pad": 3}, s=((0, 0),))
    assert (outcome.before["l"], outcome.after["l"]) == (("0x40000000",), ("0x40a00000",))  # 2, 5
