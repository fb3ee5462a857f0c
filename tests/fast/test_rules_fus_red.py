"""Rules on fusion, rounding points and sums do what they say, however a site is written.

The transforms whose answers are published come out with the published bits.
"""

from fractions import Fraction

import numpy as np
import pytest
from sites import ORACLE, closed, outcome_on, site_of, transformed, written

from lastbit.change import Change
from lastbit.examples import check_example
from lastbit.formats import BF16, bits_text
from lastbit.patterns.windows import window
from lastbit.registry import find_rule
from lastbit.rule import RejectedError, Value
from lastbit.text import parse_program

# The published transforms. Each line: id, rule, graph, site, parameters, inputs, and the bits.

ROW = [Fraction(0)] * 4096
for i, code in enumerate(np.sin(np.arange(1.0, 4097.0)).astype(np.float32).view(np.uint32)):
    ROW[i] = Fraction(float(np.uint32(code & 0xFFFF0000).view(np.float32)))

TERMS = (1, "0x1p-4", "0x1p-12", "0x1p-12")  # squares 1, 2^-8, 2^-24, 2^-24
DOT = "a: bf16[M, K]\nw: bf16[K, N]\ns: f32 = matmul(a, w) acc f32 seq\ny: bf16 = silu(s)\nreturn s"
ACTIVATED = "a: bf16[M, K]\nw: bf16[K, N]\nc: {} = matmul(a, w) acc f32 seq\ny: {} = silu(c)"
SQUARES = "x: bf16[K]\ny: f32 = sum(x * x) acc f32 {}"
SWIGLU = "g: bf16[N]\nu: bf16[N]\nt: bf16 = silu(g)\nz: bf16 = t * u"
COLUMN = tuple((term,) for term in TERMS)

PUBLISHED = [
    ("T01", "FUS110", DOT, "s", {"rows": 1, "columns": 1}, {"a": (TERMS,), "w": COLUMN},
     ("0x3f808000",), ("0x3f808000",)),
    ("T03", "RED206", DOT, "s", {"block": 2}, {"a": (TERMS,), "w": COLUMN},
     ("0x3f808000",), ("0x3f808001",)),
    ("T03", "RED206", "x: bf16[K]\ny: bf16 = sum(x * x) acc f32 seq", "y", {"block": 2},
     {"x": TERMS}, ("0x3f80",), ("0x3f81",)),
    ("T05", "RED212", "x: f32[K]\ny: bf16 = sum(x) acc f32 seq", "y", {"block": 1},
     {"x": (1, "0x1p-8", "0x1p-8")}, ("0x3f81",), ("0x3f80",)),
    ("T07", "RED207", "x: f32[K]\ny: f32 = sum(x) acc f32 split(3)", "y", {},
     {"x": (1, "0x1p-24", "0x1p-24")}, ("0x3f800000",), ("0x3f800001",)),
    ("T09", "RED208", SQUARES.format("split(8)"), "y", {}, {"x": ROW},
     ("0x44fec416",), ("0x44fec416",)),
    ("T11", "FUS101", SWIGLU, "t", {}, {"g": (0.75,), "u": (1.5,)}, ("0x3f43",), ("0x3f43",)),
    ("T13", "FUS101", "x: f32[N]\nz: bf16 = x + 0\nq: e4m3fn = z / 1 saturate", "z", {},
     {"x": (float(Fraction(17, 16) + Fraction(1, 4096)),)}, ("0x38",), ("0x38",)),
    ("T15", "FUS103", ACTIVATED.format("bf16", "bf16"), "c", {},
     {"a": ((1, "0x1p-9"),), "w": ((1,), (1,))}, ("0x3f3b",), ("0x3f3b",)),
    ("T17", "FUS105", ACTIVATED.format("f32", "f32"), "y", {"block": 1},
     {"a": ((1, -1),), "w": ((1,), (1,))}, ("0x00000000",), ("0xbdee95bd",)),
    ("T19", "FUS106", ACTIVATED.format("bf16", "f32"), "c", {},
     {"a": ((1, "0x1p-9"),), "w": ((1,), (1,))}, ("0x3f3b26a8",), ("0x3f3b9d6f",)),
    ("T19", "FUS106", ACTIVATED.format("bf16", "bf16"), "c", {},
     {"a": ((1, "0x1p-9"),), "w": ((1,), (1,))}, ("0x3f3b",), ("0x3f3c",)),
    ("T37", "RED201", SQUARES.format("seq"), "y", {"n": 2}, {"x": TERMS},
     ("0x3f808000",), ("0x3f808001",)),
    ("T43", "RED201", SQUARES.format("seq"), "y", {"n": 8}, {"x": ROW},
     ("0x44fec370",), ("0x44fec416",)),
    ("T43", "RED201", SQUARES.format("split(8)"), "y", {"n": 1}, {"x": ROW},
     ("0x44fec416",), ("0x44fec416",)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "code", "graph", "at", "parameters", "inputs", "before", "after"), PUBLISHED
)
def test_a_published_transform_gives_the_published_bits(
    entry: str,
    code: str,
    graph: str,
    at: str,
    parameters: dict[str, Value],
    inputs: dict[str, object],
    before: tuple[str, ...],
    after: tuple[str, ...],
) -> None:
    outcome = outcome_on(code, graph, at, parameters, **inputs)
    (result,) = outcome.before
    assert outcome.before[result] == before
    assert outcome.after[result] == after
    want = ORACLE[entry]["change"]  # null: bitwise or reassociation, by the number of pieces
    kinds = (want,) if want else (Change.BITWISE, Change.REASSOCIATION)
    assert outcome.change in kinds
    assert outcome.change <= find_rule(code).claim
    published = f"{ORACLE[entry]['before']} {ORACLE[entry]['after']}".lower()
    said = {bits for bits in (*before, *after) if bits in published}
    assert said or entry in ("T05", "T13", "T15", "T17"), published


def test_the_published_decimals_are_those_bits() -> None:
    # T05, T13, T15 and T17 are published as decimals
    assert bits_text(Fraction("1.0078125"), BF16) == "0x3f81"
    assert bits_text(Fraction("0.73046875"), BF16) == "0x3f3b"
    assert bits_text(Fraction("0.734375"), BF16) == "0x3f3c"


def test_the_activation_of_two_partial_sums_adds_to_tanh_of_a_half() -> None:
    graph = ACTIVATED.format("f32", "f32")
    outcome = outcome_on("FUS104", graph, "y", {"block": 1}, a=((1, -1),), w=((1,), (1,)))
    assert outcome.before == {"y": ("0x00000000",)}
    # SiLU(1) + SiLU(-1) = tanh(1/2) = 0.462117157...; f32 next to it: 0.46211717
    assert outcome.after == {"y": ("0x3eec9a9f",)}
    assert outcome.change == Change.MATH


def test_t31_a_tensor_in_the_layout_of_its_reader_holds_the_same_values() -> None:
    graph = "x: bf16[M, N]\nt: bf16 = silu(x)\nz: f32 = t * 3"
    x = tuple(tuple(i * 5 + j for j in range(5)) for i in range(3))  # no two are equal
    outcome = outcome_on("FUS112", graph, "t", {}, x=x)
    assert outcome.change == ORACLE["T31"]["change"]
    assert len(set(outcome.after["z"])) == 15


def test_t35_one_index_over_16_x_192_tiles_reaches_each_tile_once() -> None:
    graph = "i: f32[16, 1]\nj: f32[1, N]\ny: f32 = i * 192 + j"
    rows, columns = tuple((i,) for i in range(16)), (tuple(range(192)),)
    outcome = outcome_on("FUS113", graph, "y", {"rows": 1, "columns": 1}, i=rows, j=columns)
    assert outcome.change == ORACLE["T35"]["change"]
    assert outcome.after["y"][3071] == "0x453ff000"  # 3071, of block (15, 191)
    assert len(set(outcome.after["y"])) == 3072


# Sites written in other ways.

SCHEDULED = [
    ("RED201", {"n": 3}, "split(3)"),
    ("RED201", {"n": 3, "tile": 2, "outer": "pairwise"}, "split(3, tile=2, outer=pairwise)"),
    ("RED201", {"n": 2, "inner": "lanes(2)"}, "split(2, inner=lanes(2), outer=seq)"),
    ("RED203", {"n": 2}, "split(2, partials=bf16)"),
    ("RED204", {"n": 2}, "split(2, inner=seq, outer=any_order)"),
    ("RED206", {"block": 2}, "split(size=2)"),
    ("RED209", {"schedule": "pairwise(2)"}, "pairwise(2)"),
]
SITES = [
    "y: f32 = matmul(a, w) acc f32 {}",
    "y: bf16 = matmul(a, w) acc f32 {}",
    "y: bf16 = matmul(a, w) * s acc f32 {}",
    "y: f32 = silu(s * matmul(a, w) + b) acc f32 {}",
    "y: f32 = sum(a * a, axis=1) acc f32 {}",
    "y: f32 = rms_norm(a, b[:, 0:1], 1 / 1000000) acc f32 {}",
    "y: bf16 = transpose(round(sum(reshape(a, 3, 2, 4), axis=-1), f16), 2, 1, 0) acc f32 {}",
    "y: f32 = 2 * mean(w * w, axis=0) acc f32 {}",
]
OPERANDS = "a: bf16[M, K]\nw: bf16[K, N]\ns: f32[M, 1]\nb: f32[1, N]\n"
SIZES = {"M": 3, "K": 8, "N": 2}


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize(("code", "parameters", "schedule"), SCHEDULED)
def test_a_schedule_is_replaced_however_the_sum_is_written(
    code: str, parameters: dict[str, Value], schedule: str, site: str
) -> None:
    new = transformed(code, site_of(OPERANDS + site.format("seq"), "y", SIZES, **parameters))
    want = written(OPERANDS + site.format(schedule), SIZES)
    assert closed(new, "y").key() == closed(want, "y").key()


def test_a_narrow_accumulator_keeps_the_format_of_the_value() -> None:
    for site in ("y: f32 = matmul(a, w) acc {} seq", "y: f16 = matmul(a, w) * s acc {} seq"):
        wide = site_of(OPERANDS + site.format("f32"), "y", SIZES, format="bf16")
        narrow = written(OPERANDS + site.format("bf16"), SIZES)
        assert closed(transformed("RED210", wide), "y").key() == closed(narrow, "y").key()


# Odd significands of 8 bits at exponents that jump by up to 12: products of 16 bits that a sum of
# 24 bits has to round, so another order of additions shows in the bits.
A = tuple(
    tuple(
        float((-1) ** (i + k) * (129 + (38 * i + 54 * k) % 126) * 2.0 ** (-5 * k % 13 - 8))
        for k in range(8)
    )
    for i in range(3)
)
W = tuple(
    tuple(float((131 + (74 * k + 22 * j) % 124) * 2.0 ** (-7 * k % 11 - 8)) for j in range(2))
    for k in range(8)
)
GIVEN = {"a": A, "w": W, "s": ((3,), (5,), (7,)), "b": ((0.1015625, 2),)}
BITWISE = [
    ("FUS110", {"rows": 2, "columns": 1}),
    ("FUS111", {}),
    ("RED205", {"block": 3}),
    ("RED208", {}),
]


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize(("code", "parameters"), BITWISE)
def test_a_bitwise_rule_keeps_the_bits_however_the_site_is_written(
    code: str, parameters: dict[str, Value], site: str
) -> None:
    schedule = "split(3)" if code == "RED208" else "seq"
    graph = OPERANDS + site.format(schedule) + "\nr: f32 = a[:, 0:1] * w[0:1] * s * b"
    outcome = outcome_on(code, graph, "y", parameters, **GIVEN)
    assert outcome.change == Change.BITWISE
    assert outcome.before == outcome.after


@pytest.mark.parametrize("site", [site for site in SITES if "f32 =" in site])
def test_the_inputs_of_these_sites_tell_orders_apart(site: str) -> None:
    graph = OPERANDS + site.format("seq") + "\nr: f32 = a[:, 0:1] * w[0:1] * s * b"
    outcome = outcome_on("RED209", graph, "y", {"schedule": "lanes(2)"}, **GIVEN)
    assert outcome.change == Change.REASSOCIATION


def test_block_k_takes_whole_steps_of_a_matrix_unit() -> None:
    site = "y: f32 = matmul(a, w) acc f32 fused(4, hopper/16)"
    sizes = {"M": 2, "K": 16, "N": 2}
    whole = site_of(OPERANDS + site, "y", sizes, block=8)
    assert transformed("RED205", whole).nodes["y"].key == whole.node.key
    with pytest.raises(RejectedError, match="one accumulator runs through the sum"):
        transformed("RED205", site_of(OPERANDS + site, "y", sizes, block=6))


def test_a_value_with_several_readers_is_written_into_each() -> None:
    graph = "x: bf16[N]\nt: bf16 = silu(x)\ny: bf16 = t * 3\nz: f32 = t + t\nreturn y, z, t"
    site = site_of(graph, "t", {"N": 2})
    new = transformed("FUS101", site)
    assert new.consumers("t") == ()
    assert new.nodes["t"].key == site.node.key
    outcome = outcome_on("FUS101", graph, "t", {}, x=(0.75, -3))
    assert outcome.change == Change.BITWISE


def test_an_epilogue_before_rounding_leaves_a_stored_sum_as_it_is() -> None:
    graph = ACTIVATED.format("bf16", "bf16") + "\nreturn c, y"
    outcome = outcome_on("FUS106", graph, "c", {}, a=((1, "0x1p-9"),), w=((1,), (1,)))
    assert outcome.after == {"c": ("0x3f80",), "y": ("0x3f3c",)}


def test_contraction_of_products_of_short_values_keeps_the_bits() -> None:
    graph = "a: bf16[N]\nb: bf16[N]\nc: f32[N]\np: f32 = a * b\nz: f32 = p - c"
    outcome = outcome_on(
        "FUS107", graph, "p", {}, a=("0x1.fep0",), b=("0x1.02p-9",), c=("0x1.23456p-8",)
    )
    assert outcome.change == Change.BITWISE
    assert outcome.ordinary


def test_a_variance_in_one_pass_may_be_negative() -> None:
    rule = find_rule("RED214")
    example = next(example for example in rule.examples if example.kind == "breaks")
    outcome = check_example(rule, example)
    assert (outcome.before["v"], outcome.after["v"]) == (("0x3e800000",), ("0xbe800000",))


@pytest.mark.parametrize(
    "text",
    [
        "mu: f32 = mean(x, axis=1) acc f32 seq\nv: f32 = mean((x - mu) ** 2, axis=1) acc f32 seq",
        "v: f32 = mean((x - mu) * (x - mu), axis=1) acc f32 seq\n"
        "mu: bf16 = mean(x, axis=1) acc f32 pairwise",
        "mu: f32 = mean(x, axis=1) acc f32 seq\nd: bf16 = x - mu\n"
        "v: bf16 = mean(d * d, axis=1) acc f32 seq",
    ],
)
def test_a_two_pass_variance_is_found_however_it_is_written(text: str) -> None:
    outcome = outcome_on("RED214", "x: bf16[M, K]\n" + text, "v", {}, x=((1, 3), (8, 4)))
    assert outcome.before == outcome.after  # small integers: exact both ways


# Windows.


@pytest.mark.parametrize(
    "text",
    [
        "y: real = silu(a * s) + b[:, 0:1]",
        "y: real = transpose(matmul(transpose(w), transpose(a)))",
        "y: real = concat(a, a * 2, axis=1)",
        "y: real = reshape(a, 2, 12)",
        "y: real = broadcast(s, 3, 4) + a[:, 0:4]",
        "y: real = reshape(amax(reshape(a, 3, 2, 4), axis=1), 3, 4)",
        "y: real = a[:, 1:8:2]",
    ],
)
def test_a_window_of_a_value_holds_the_same_elements(text: str) -> None:
    graph = OPERANDS + text + "\nr: f32 = a[:, 0:1] * w[0:1] * s * b\nz: f32 = y + 0"
    for rows, columns in ((1, 1), (2, 3)):
        outcome = outcome_on("FUS110", graph, "y", {"rows": rows, "columns": columns}, **GIVEN)
        assert outcome.change == Change.BITWISE
        assert len(set(outcome.after["z"])) > 2


def test_a_window_reads_only_the_rows_and_columns_that_it_needs() -> None:
    program = parse_program(OPERANDS + "y: f32 = matmul(a, w) * s + b acc f32 seq")
    (y,) = program.bind(SIZES).results
    part = parse_program(
        OPERANDS + "y: f32 = matmul(a[1:2], w[:, 0:1]) * s[1:2] + b[:, 0:1] acc f32 seq"
    )
    assert window(y, ((1, 2), (0, 1))).shape == part.bind(SIZES).results[0].shape == (1, 1)


# Titles.


def test_the_title_of_split_k_shows_the_schedule() -> None:
    graph = "x: f32[192]\ng: f32 = sum(x) acc f32 seq"
    site = site_of(graph, "g", n=3, tile=64, inner="", outer="")
    title = find_rule("RED201").title
    assert title is not None
    assert title(site) == (
        "`g` is summed in 3 pieces (`split(3, tile=64)`) that are added afterwards"
    )


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("RED201", "`g` is summed in 911 pieces of up to 9 terms (`split(1000)`) that are added"),
        ("RED203", "the partial sums of `g`, of 911 pieces of up to 9 terms, are stored in bf16"),
        ("RED204", "the partial sums of `g`, of 911 pieces of up to 9 terms, are added in the"),
    ],
)
def test_a_title_counts_the_pieces_that_hold_a_term(rule: str, said: str) -> None:
    graph = "x: f32[8192]\ng: f32 = sum(x) acc f32 seq"  # 8192 / 1000 is above 8: 9 terms each
    site = site_of(graph, "g", n=1000, tile=1, inner="", outer="", format="bf16")
    title = find_rule(rule).title
    assert title is not None
    assert title(site).startswith(said)
