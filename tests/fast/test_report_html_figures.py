"""Every figure of the page is what the result holds, or what its witness computes; no more."""

import math
from dataclasses import replace
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from pages import read

from lastbit.report.html import render
from lastbit.report.page.bits import bits_table
from lastbit.report.page.charts import cost_chart, drift_chart
from lastbit.report.page.numbers import exact_text
from lastbit.report.page.splits import split_charts, split_points
from lastbit.report.page.witness import witness_block
from lastbit.result import (
    Cost,
    Drift,
    Location,
    Program,
    Promise,
    Result,
    Step,
    Witness,
    WitnessInput,
    hex_of,
)

PLAN = Location("plan.toml", 3)
HELD = {
    name: Promise(True, True) for name in ("deterministic", "batch_invariant", "layout_invariant")
}
TERMS = (1.0, 2.0**24, 1.0, 1.0, -(2.0**24), 1.0)  # 2^24 + 1 ties to even: what is lost depends
DROPPED = Program(
    "g: bf16[1, 1]\nu: bf16[1, 1]\nt: bf16 = silu(g)\nz: bf16 = t * u\nreturn z\n",
    "g: bf16[1, 1]\nu: bf16[1, 1]\nt: real = silu(g)\nz: bf16 = t * u\nreturn z\n",
)


def summed(before: str, after: str, terms=TERMS) -> Witness:
    """Return the witness of a sum by two schedules."""
    texts = [
        f"x: f32[{len(terms)}]\ny: f32 = sum(x, axis=0) acc f32 {schedule}\nreturn y\n"
        for schedule in (before, after)
    ]
    given = WitnessInput("f32", (len(terms),), tuple(hex_of(term) for term in terms))
    bits = ("0x00000000",), ("0x00000001",)
    return Witness("reassociation", {"x": given}, *bits, "f32", Program(*texts), "BITS", "y")


def shown(witness: Witness):
    return read(witness_block(witness, "a witness", True))


# Bits


@pytest.mark.parametrize(
    ("fmt", "dtype", "sizes", "codes"),
    [
        ("bf16", ml_dtypes.bfloat16, (1, 8, 7), (0x3F43, 0x3F44)),
        ("f32", np.float32, (1, 8, 23), (0x7F7FFFFF, 0xFF800000)),
        ("e4m3fn", ml_dtypes.float8_e4m3fn, (1, 4, 3), (0x08, 0x87)),
    ],
)
def test_bits_are_those_of_the_format_and_those_that_differ_are_marked(fmt, dtype, sizes, codes):
    width = sum(sizes)
    texts = tuple(f"0x{code:0{width // 4}x}" for code in codes)
    witness = Witness("rounding", {}, texts[:1], texts[1:], fmt, output="z", index=((0, 3),))
    table = read(bits_table(witness)).one("table")
    rows = table.all("tr")
    assert rows[0].one("code").text == "z[0, 3]"
    for row, code in zip(rows, codes, strict=True):
        cell = row.all("td", class_="m")[0]
        fields = cell.text.split()
        assert tuple(map(len, fields)) == sizes
        assert int("".join(fields), 2) == code
        marked = sum(bit == "1" for mark in cell.all("b") for bit in "1" * len(mark.text))
        assert marked == (codes[0] ^ codes[1]).bit_count()
        value = float(np.array(code, f"uint{width}").view(dtype))
        expected = exact_text(Fraction(value) if math.isfinite(value) else value)
        assert row.all("td", class_="n")[0].text == expected


def test_the_distance_is_in_ulp_and_counts_across_zero():
    witness = Witness("rounding", {}, ("0x0001",), ("0x8002",), "bf16")
    assert "3 ulp apart" in read(bits_table(witness)).text


def test_bits_that_are_no_code_are_shown_as_they_are():
    witness = Witness("rounding", {}, ("zz", "0x1ffff"), ("0x3f44", "0x3f44"), "bf16")
    text = read(bits_table(witness)).text
    assert "zz" in text
    assert "0x1ffff" in text


def test_elements_beyond_a_few_are_counted():
    witness = Witness("rounding", {}, ("0x3f43",) * 7, ("0x3f44",) * 7, "bf16")
    table = read(bits_table(witness))
    assert "3 elements more" in table.one("caption").text
    assert len(table.all("tr")) == 8


# Numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(0), "0"),
        (-0.0, "\u22120"),
        (math.inf, "\u221e"),
        (-math.inf, "\u2212\u221e"),
        (math.nan, "NaN"),
        (Fraction(-3, 2), "\u22121.5"),
        (Fraction(1, 64), "0.015625"),
        (Fraction(2**24), "2\u00b2\u2074"),
        (-Fraction(1, 2**133), "\u22122\u207b\u00b9\u00b3\u00b3"),
        (Fraction(2**24 + 1), "0x1.000001p+24"),
        (Fraction(1, 3), "1/3"),
        (Fraction(2**200 + 1), "\u22481.60694e+60"),
        (Fraction(2**2000 + 1), "\u22482\u00b2\u2070\u2070\u2070"),
        (Fraction(1, 10**6), "0.000001"),
        (Fraction(1234567, 10), "123456.7"),
    ],
)
def test_a_number_is_written_exactly_or_says_that_it_is_not(value, text):
    assert exact_text(value) == text


# Trees


def running(terms):
    """Return the sum of terms one by one in binary32, and how many additions lose something."""
    total, lost = np.float32(0), 0
    for term in terms:
        exact = Fraction(float(total)) + Fraction(float(term))
        total = np.float32(total + np.float32(term))
        lost += Fraction(float(total)) != exact
    return total, lost


def test_both_trees_end_in_the_sums_of_the_witness_and_mark_the_additions_that_lose():
    trees = shown(summed("seq", "split(size=3)")).all("svg", class_="tree")
    in_order = running(TERMS)
    parts = [running(TERMS[:3]), running(TERMS[3:])]
    joined, lost = running([part for part, _ in parts])
    in_parts = joined, lost + sum(n for _, n in parts)
    assert in_order[0] != in_parts[0]
    for tree, (total, losses) in zip(trees, (in_order, in_parts), strict=True):
        assert tree.one("text", class_="v").text == exact_text(Fraction(float(total)))
        assert len(tree.all("circle", class_="l")) == losses
        assert len(tree.all("circle")) == len(TERMS) - 1
        assert [t.text for t in tree.all("text", class_="k")] == list("012345")


def test_terms_stand_in_the_order_in_which_the_tree_reads_them():
    after = shown(summed("seq", "lanes(2)")).all("svg", class_="tree")[1]
    assert [t.text for t in after.all("text", class_="k")] == list("024135")
    plain = [t.text for t in after.all("text") if "class" not in t.attributes]
    values = [exact_text(Fraction(TERMS[i])) for i in (0, 2, 4, 1, 3, 5)]
    assert plain == values


def test_a_value_of_an_addition_is_told():
    tree = shown(summed("pairwise(1)", "seq", (1.0, 2.0, 4.0))).all("svg", class_="tree")[0]
    assert [title.text for title in tree.all("title")] == ["f32: 3", "f32: 7"]


def test_of_a_matrix_unit_and_of_any_order_only_the_tree_is_drawn():
    for schedule in ("fused(4, hopper)", "any_order"):
        after = shown(summed("seq", schedule)).all("svg", class_="tree")[1]
        assert after.attributes["aria-label"] == "Tree after: 6 terms, result not computed"
        assert after.all("circle", class_="l") == []


def test_equal_orders_and_long_sums_have_no_tree():
    assert shown(summed("seq", "seq")).all("svg", class_="tree") == []
    assert shown(summed("seq", "pairwise(1)", (1.0,) * 25)).all("svg", class_="tree") == []


def test_inputs_that_do_not_suit_the_program_have_no_tree():
    witness = summed("seq", "pairwise(1)")
    inputs = {"y": witness.inputs["x"]}
    assert shown(replace(witness, inputs=inputs)).all("svg", class_="tree") == []


# Programs


def test_a_rounding_that_is_dropped_is_a_ring_in_another_colour():
    witness = Witness("rounding", {}, ("0x3f43",), ("0x3f44",), "bf16", DROPPED)
    before, after = shown(witness).all("svg", class_="arcs")
    kinds = [[c.attributes["class"] for c in side.all("circle")] for side in (before, after)]
    assert kinds == [["i", "i", "r d", "r"], ["i", "i", "e d", "r"]]
    assert [t.text for t in after.all("text")] == [
        "g: bf16[1, 1]",
        "u: bf16[1, 1]",
        "t: real = silu(g)",
        "z: bf16 = t * u",
    ]
    # g to t, t to z, u to z
    assert after.one("path", class_="a").attributes["d"].count("M") == 3
    assert after.one("path", class_="t").attributes["d"].count("M") == 1


def test_unnamed_values_are_compared_without_their_numbers():
    texts = (
        "x: f32[2]\nv1: f32 = x * x\ny: f32 = v1 + x\nreturn y\n",
        "x: f32[2]\nv1: f32 = x + x\nv2: f32 = x * x\ny: f32 = v2 + x\nreturn y\n",
    )
    witness = Witness("math", {}, ("0x0",), ("0x1",), "f32", Program(*texts))
    labels = [s.attributes["aria-label"] for s in shown(witness).all("svg", class_="arcs")]
    assert labels == [
        "Program before: 3 values, 0 not the same on the other side",
        "Program after: 4 values, 1 not the same on the other side",
    ]


def test_a_long_program_is_text():
    lines = ["v0: f32[2]"] + [f"v{i}: f32 = v{i - 1} + 1" for i in range(1, 50)]
    text = "\n".join([*lines, "return v49\n"])
    witness = Witness("math", {}, ("0x0",), ("0x1",), "f32", Program(text, text))
    page = shown(witness)
    assert page.all("svg") == []
    assert len(page.all("pre")) == 2


# Charts


def drifting(identity: str, **given) -> tuple[str, Step]:
    facts = {"share": 0.5, "max_ulp": 8.0, "max_ulp_at_scale": 1.0, "p99_ulp": 0.0, "mean_ulp": 0.5}
    drift = Drift("bf16", **(facts | given), sampled=(4, 4), inputs="ones")
    step = Step(identity, "`g`", PLAN, "rounding", at=("g",), rule="x", drift=drift, promises=HELD)
    return identity, step


def test_drift_stands_on_a_logarithmic_scale_with_zero_apart():
    steps = [drifting("a"), drifting("b", max_ulp=64.0, max_ulp_at_scale=0.25, p99_ulp=2.0)]
    root = read(drift_chart(steps))
    chart = root.all("svg")[-1]
    at_scale = [float(c.attributes["cx"][:-1]) for c in chart.all("circle", class_="s")]
    of_result = [float(c.attributes["cx"][:-1]) for c in chart.all("circle", class_="o")]
    rank = [float(m.attributes["x1"][:-1]) for m in chart.all("line", class_="p")]
    step = (98 - 8) / 8  # of a power of two, from 2^-2 to 2^6
    assert at_scale == [round(8 + 2 * step, 2), 8.0]
    assert of_result == [round(8 + 5 * step, 2), 98.0]
    assert rank == [2.0, round(8 + 3 * step, 2)]
    texts = [item.text for item in root.all("li")]
    assert texts[0] == "x at g :3 50 % differ, 1 ulp of bf16 at scale"


def test_a_drift_without_bound_is_no_dot():
    steps = [drifting("a"), drifting("b", max_ulp=math.inf, max_ulp_at_scale=math.nan)]
    chart = read(drift_chart(steps)).all("svg")[-1]
    assert len(chart.all("circle")) == 2
    assert not any("nan" in str(e.attributes) or "inf" in str(e.attributes) for e in chart.all())


def test_no_drift_has_no_chart():
    assert drift_chart([drifting("a", max_ulp=0.0, max_ulp_at_scale=0.0, share=0.0)]) == ""
    assert drift_chart([("a", Step("a", "`g`", PLAN, "bitwise"))]) == ""
    assert cost_chart([("a", Step("a", "`g`", PLAN, "bitwise"))]) == ""


def test_bars_are_as_long_as_the_bytes_are_many():
    cost = Cost((300, 150), (None, None), (2, 1), (4, 4))
    step = Step("a", "`g`", PLAN, "bitwise", at=("g",), rule="x", cost=cost)
    more = replace(step, cost=replace(cost, bytes=(600, 0)))
    chart = read(cost_chart([("a", step), ("b", more)])).one("svg")
    assert [bar.attributes["width"] for bar in chart.all("rect")] == ["50%", "25%", "100%", "0%"]


def split(pieces: int, at_scale: float, promises=HELD) -> tuple[str, Step]:
    name, step = drifting(f"s{pieces}", max_ulp_at_scale=at_scale)
    witness = summed("seq", f"split({pieces})")
    return name, replace(step, rule="split-k", witness=witness, promises=promises)


def test_drift_against_the_number_of_pieces_is_drawn_where_a_result_holds_several():
    steps = [split(8, 2.0), split(2, 1.0), split(4, 1.5)]
    (points,) = split_points(steps).values()
    assert [(p.pieces, p.drift.max_ulp_at_scale) for p in points] == [(2, 1.0), (4, 1.5), (8, 2.0)]
    chart = read(split_charts(steps)).one("svg")
    assert chart.attributes["aria-label"] == (
        "2 pieces 1 ulp, 50 %; 4 pieces 1.5 ulp, 50 %; 8 pieces 2 ulp, 50 %"
    )
    assert [c.attributes["cx"] for c in chart.all("circle")] == ["5%", "50%", "95%"]
    heights = [114 - float(c.attributes["cy"]) for c in chart.all("circle")]
    assert heights == [45.0, 67.5, 90.0]


def test_a_number_of_pieces_that_depends_on_the_batch_is_not_drawn():
    broken = HELD | {"batch_invariant": Promise(True, False, "n takes 3 values")}
    assert split_charts([split(2, 1.0), split(4, 2.0, broken)]) == ""


def test_one_number_of_pieces_is_no_chart():
    assert split_charts([split(4, 1.0), split(4, 2.0)]) == ""


def test_the_page_holds_the_figures_of_its_steps():
    steps = [step for _, step in (split(2, 1.0), split(4, 2.0))]
    root = read(render(Result.of("lint", steps, [], {})))
    assert len(root.all("svg", class_="tree")) == 4
    assert len(root.all("figure", class_="chart")) == 2
