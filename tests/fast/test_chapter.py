"""The numbers of the chapter's worked examples, found without lastbit.

numpy adds in binary32, rationals give what is exact, ml_dtypes converts to 8 bits: what comes out
is what `tests/data/chapter_oracle.json` states, and what `examples/chapter.py` has to reach.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest

from lastbit.formats import BF16, F32, bits_text
from lastbit.orders import merge_orders
from lastbit.rounding import Rounding

ROOT = Path(__file__).parents[2]
PLANS = ROOT / "examples" / "chapter"
ORACLE = {
    entry["id"]: entry
    for entry in json.loads((ROOT / "tests/data/chapter_oracle.json").read_text("utf-8"))["entries"]
}
SINES = np.sin(np.arange(1.0, 4097.0)).astype(np.float32)
ROW = (SINES.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)  # low 16 bits cut off
NEAREST = SINES.astype(ml_dtypes.bfloat16).astype(np.float32)
ULP = Fraction(1, 2**13)  # of binary32 at 2038


def exact(row: np.ndarray) -> Fraction:
    """Return the sum of squares; each square is a multiple of 2^-52, and fits binary64."""
    return sum((Fraction(float(x)) ** 2 for x in row), Fraction(0))


def added(terms: np.ndarray) -> np.float32:
    """Add from the left in binary32."""
    total = np.float32(0)
    for term in terms.astype(np.float32):
        total = np.float32(total + term)
    return total


def partials(row: np.ndarray, segments: int) -> np.ndarray:
    squares = row * row
    return np.array([added(part) for part in squares.reshape(segments, -1)])


def sum_of_squares(row: np.ndarray, segments: int) -> Fraction:
    return Fraction(float(added(partials(row, segments))))


def of(value: np.float32 | float) -> int:
    """Return the place of a positive binary32 number in the order of all of them."""
    return int(np.float32(value).view(np.uint32))


def scale_of(total: Fraction) -> np.float32:
    """Return 1 / sqrt(total / 4096 + 1e-6), the argument and the result each rounded once."""
    v = nearest(total / 4096 + Fraction(1, 10**6))
    guess = np.float32(1 / math.sqrt(float(v)))
    steps = (np.nextafter(guess, np.float32(0)), guess, np.nextafter(guess, np.float32(2)))
    # The result s is the one for which 1 / v lies between the squares of its midpoints.
    for below, s, above in zip(steps, steps[1:], steps[2:], strict=False):
        low, high = ((Fraction(float(s)) + Fraction(float(x))) / 2 for x in (below, above))
        assert low**2 < 1 / v < high**2
    return guess


def nearest(x: Fraction) -> Fraction:
    """Round a number in [1/2, 1) to 24 digits, or one in [1/4, 1/2)."""
    quantum = Fraction(1, 2**24 if x >= Fraction(1, 2) else 2**25)
    assert Fraction(1, 4) <= x < 1
    return round(x / quantum) * quantum


def test_the_row_of_the_plans_is_the_row_of_the_formula() -> None:
    stored = np.load(PLANS / "row.npy")
    assert stored.dtype == np.float32
    assert stored.tobytes() == ROW.tobytes()
    assert stored.shape == (1, 4096)


def test_the_sines_of_numpy_are_correctly_rounded_here() -> None:
    spacing = np.spacing(np.abs(SINES)).tolist()
    with mpmath.workprec(120):
        for i, (sine, ulp) in enumerate(zip(SINES.tolist(), spacing, strict=True), 1):
            assert abs(mpmath.sin(i) - sine) < mpmath.mpf(ulp) / 2


def test_each_square_of_the_row_is_a_binary32_number() -> None:
    squares = ROW.astype(np.float64) ** 2
    assert (squares == (ROW * ROW)).all()
    assert len(set(squares.tolist())) > 200  # of at most 128 significands, in several binades


def test_one_segment_and_eight_are_166_ulp_apart_and_eight_is_nearer() -> None:
    total, one, eight = exact(ROW), sum_of_squares(ROW, 1), sum_of_squares(ROW, 8)
    assert total == Fraction(ORACLE["A006"]["exact"]) == Fraction(4481892648761827, 2**41)
    assert (one - total) / ULP == Fraction(ORACLE["A008"]["exact"])
    assert (total - eight) / ULP == Fraction(ORACLE["A009"]["exact"])
    assert [round(float((x - total) / ULP), 1) for x in (one, eight)] == [-175.2, -9.2]
    assert (eight - one) / ULP == 166 == int(ORACLE["A010"]["exact"])
    assert (eight - one) / one * 10**6 == Fraction(ORACLE["A011"]["exact"])
    assert bits_text(one, F32) == ORACLE["ROW.trunc.seg1.total_bits"]["exact"]
    assert bits_text(eight, F32) == ORACLE["ROW.trunc.seg8.total_bits"]["exact"]


def test_the_scales_are_59_ulp_apart_and_the_first_outputs_50() -> None:
    scales = [scale_of(sum_of_squares(ROW, n)) for n in (1, 8)]
    outputs = [np.float32(ROW[0] * scale) for scale in scales]
    assert of(scales[0]) - of(scales[1]) == 59 == int(ORACLE["A016"]["exact"])
    assert of(outputs[0]) - of(outputs[1]) == 50 == int(ORACLE["A017"]["exact"])
    for n, scale, output in zip((1, 8), scales, outputs, strict=True):
        name = f"ROW.trunc.seg{n}"
        assert f"0x{of(scale):08x}" == ORACLE[f"{name}.scale_bits.A"]["exact"]
        assert f"0x{of(output):08x}" == ORACLE[f"{name}.first_output_bits.A"]["exact"]


def test_a_rounded_square_root_in_between_gives_58_and_49() -> None:
    one, eight = (np.float32(float(nearest(sum_of_squares(ROW, n) / 4096 + Fraction(1, 10**6))))
                  for n in (1, 8))  # fmt: skip
    scales = [np.float32(1) / np.sqrt(v) for v in (one, eight)]
    outputs = [ROW[0] * scale for scale in scales]
    assert of(scales[0]) - of(scales[1]) == 58
    assert of(outputs[0]) - of(outputs[1]) == 49
    assert f"0x{of(scales[1]):08x}" == ORACLE["ROW.trunc.seg8.scale_bits.B"]["exact"]
    stored = {bits_text(Fraction(float(x.astype(ml_dtypes.bfloat16))), BF16) for x in outputs}
    assert stored == {ORACLE["ROW.trunc.seg8.first_output_bf16_bits.B"]["exact"]}


def test_the_row_rounded_to_nearest_gives_other_figures() -> None:
    total, one, eight = exact(NEAREST), sum_of_squares(NEAREST, 1), sum_of_squares(NEAREST, 8)
    twice = 2 * ULP  # its sum lies above 2048
    assert [round(float((x - total) / twice), 1) for x in (one, eight)] == [-64.1, -5.1]
    assert (eight - one) / twice == 59


def test_40320_orders_of_eight_partial_sums_give_three_results() -> None:
    orders = np.array(list(permutations(partials(ROW, 8).tolist())), np.float32)
    assert len(orders) == math.factorial(8) == int(ORACLE["A013"]["exact"])
    total = orders[:, 0]
    for i in range(1, 8):
        total = total + orders[:, i]
    found, counts = np.unique(total, return_counts=True)
    assert len(found) == 3 == int(ORACLE["A014"]["exact"])
    assert np.diff(found.view(np.uint32)).tolist() == [1, 1]
    ours = merge_orders([Fraction(float(x)) for x in partials(ROW, 8)], Rounding.of("f32"))
    assert [float(result.value) for result in ours.results] == found.tolist()
    assert [result.count for result in ours.results] == counts.tolist()


def test_the_two_orders_of_1_and_twice_2_to_the_minus_24() -> None:
    one, tiny = np.float32(1), np.float32(2**-24)
    assert (one + tiny) + tiny == 1
    assert one + (tiny + tiny) == np.nextafter(one, np.float32(2))
    assert Fraction(ORACLE["A003"]["exact"]) == 1 + Fraction(1, 2**23)


def test_online_softmax_over_0_and_ln_2_gives_7_thirds() -> None:
    r, values = Fraction(1, 2), (1, 3)  # exp(0 - ln 2)
    assert [str(x) for x in (r, r + 1, r + 3, (r + 3) / (r + 1))] == [
        ORACLE[entry]["exact"] for entry in ("A020", "A021", "A022", "A023")
    ]
    weights = (1, 2)  # proportional to exp(0) and exp(ln 2)
    whole = Fraction(sum(w * v for w, v in zip(weights, values, strict=True)), sum(weights))
    assert whole == Fraction(7, 3) == Fraction(ORACLE["A024"]["exact"])


def test_silu_of_1_and_of_minus_1_add_to_tanh_of_a_half() -> None:
    with mpmath.workdps(40):
        digits = mpmath.nstr(mpmath.tanh(mpmath.mpf(1) / 2), 36)
    assert ORACLE["A026"]["exact"] == f"{digits[:32]}..."
    assert ORACLE["A026"]["published"] == digits[:6] == "0.4621"


def test_a_row_quantized_by_its_maximum_or_by_that_of_its_first_chunk() -> None:
    def e4m3(x: Fraction) -> Fraction:
        return Fraction(float(np.float32(float(x)).astype(ml_dtypes.float8_e4m3fn)))

    codes = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    assert np.nanmax(codes) == 448 == float(ORACLE["A030"]["exact"])
    by_row, by_chunk = e4m3(Fraction(448, 10)), e4m3(Fraction(448))
    assert (by_row, by_chunk) == (44, 448)
    assert by_row * 10 / 448 == Fraction(55, 56) == Fraction(ORACLE["A034"]["exact"])
    assert by_chunk * 1 / 448 == 1 == Fraction(ORACLE["A036"]["exact"])
    assert 1 - Fraction(55, 56) == Fraction(ORACLE["A037"]["exact"])
    assert round(float(Fraction(100, 56)), 1) == 1.8


@pytest.mark.parametrize("entry", [e for e in ORACLE.values() if "exact" in e and "published" in e])
def test_a_decimal_figure_is_the_exact_value_rounded_to_its_digits(entry: dict[str, Any]) -> None:
    figure = entry["published"].removesuffix(entry.get("unit", "")).strip()
    if "." not in figure:
        return
    value = Fraction(entry["exact"].removesuffix("..."))
    decimals = len(figure.partition(".")[2])
    near = abs(value - Fraction(figure)) * 10**decimals <= Fraction(1, 2)
    assert near is entry.get("follows", True)
