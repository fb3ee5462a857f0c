"""Ordinary runs are found where inputs drawn freely give none, and show what was changed.

One variance below zero among many makes NaN of everything; so inputs are drawn by habits, found by
runs in the array domain. Witnesses are checked with numpy and ml_dtypes alone.
"""

from __future__ import annotations

import random
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lastbit.interpret.exact import exact_array
from lastbit.interpret.policy import Policy
from lastbit.lint import lint_plans
from lastbit.records import Witness
from lastbit.result import Step
from lastbit.text import parse_program
from lastbit.verify.agree import agree
from lastbit.verify.glance import glance
from lastbit.verify.region import Region
from lastbit.verify.runs import run
from lastbit.verify.tame import drawn, tamed

MANY = 12  # factors: of free draws, one in 500 has no negative one
EPS = "0x1.0p-20"
VARIANCES = [f"var_{i}" for i in range(MANY)]
SHORTER = " * ".join(f"rsqrt({name} + '{EPS}')" for name in VARIANCES[:8])
NORMED = " * ".join(f"rsqrt({name} + '{EPS}')" for name in VARIANCES)
INPUTS = "x: bf16[M]\nw: bf16[M]\n" + "".join(f"{name}: bf16[M]\n" for name in VARIANCES)


def judged(folder: Path, before: str, after: str) -> Step:
    text = f"""schema = 1
[graph]
name = "pair"
symbols = {{ M = 4 }}
text = '''
{before}'''
[after]
text = '''
{after}'''
"""
    path = folder / "plan.toml"
    path.write_text(text, encoding="utf-8")
    (step,) = lint_plans([str(path)], today=date(2026, 1, 1)).steps
    return step


def region(before: str, after: str) -> Region:
    return Region(*(parse_program(text).bind({"M": 1}) for text in (before, after)))


def given_by(witness: Witness) -> dict[str, Any]:
    """Return the inputs of a witness as arrays of binary64."""
    return {
        name: np.array([float.fromhex(word) for word in value.hex]).reshape(value.shape)
        for name, value in witness.inputs.items()
    }


def bf16(x: Any) -> Any:
    return np.asarray(x).astype(ml_dtypes.bfloat16).astype(np.float64)


def bits_of(x: Any) -> set[str]:
    words = np.asarray(x).astype(ml_dtypes.bfloat16).view(np.uint16)
    return {f"0x{word:04x}" for word in words.flat}


DROPPED = (
    f"{INPUTS}n: bf16 = x * {NORMED}\ny: bf16 = n * w\n",
    f"{INPUTS}y: bf16 = x * {NORMED} * w\n",
)


def test_a_rounding_dropped_behind_a_variance_has_a_witness(tmp_path: Path) -> None:
    head = "x: bf16[M]\nvar: bf16[M]\nw: bf16[M]\n"
    normed = f"x * rsqrt(var + '{EPS}')"
    before = f"{head}n: bf16 = {normed}\ny: bf16 = n * w\n"
    step = judged(tmp_path, before, f"{head}y: bf16 = {normed} * w\n")
    assert step.change == "rounding"
    assert step.witness is not None
    values = given_by(step.witness)
    n = values["x"] / np.sqrt(values["var"] + 2.0**-20)
    assert step.witness.before != step.witness.after
    assert step.witness.before[0] in bits_of(bf16(n) * values["w"])
    assert step.witness.after[0] in bits_of(n * values["w"])


def test_a_rounding_dropped_behind_a_mask_has_a_witness(tmp_path: Path) -> None:
    # 2^120 times a mask: unless it is equal for a whole row, all weights but one are lost.
    scores = "q: bf16[M, 3]\nk: bf16[M, 3]\nmask: bf16[M, 3]\ns: f32 = q * k + mask * '0x1.0p120'\n"
    before = f"{scores}p: f32 = softmax(s, axis=-1)\np16: bf16 = p\ny: bf16 = p16 * k\n"
    after = f"{scores}p: f32 = softmax(s, axis=-1)\ny: bf16 = p * k\n"
    step = judged(tmp_path, before, after)
    assert step.change == "rounding"
    assert step.witness is not None
    values = given_by(step.witness)
    s = np.float32(values["q"] * values["k"] + values["mask"] * 2.0**120).astype(np.float64)
    e = np.float32(np.exp(s - s.max(-1, keepdims=True))).astype(np.float64)
    p = np.float32(e / np.float32(e.sum(-1, keepdims=True))).astype(np.float64)
    assert step.witness.before[0] in bits_of(bf16(p) * values["k"])
    assert step.witness.after[0] in bits_of(p * values["k"])


def test_free_draws_meet_a_negative_variance_and_habits_do_not() -> None:
    both = region(*DROPPED)
    free = [glance(both, drawn(both, {}, random.Random(seed))) for seed in range(20)]
    assert all(seen is not None and seen.stopped is not None for seen in free)
    habits = tamed(both, 0, 200)
    assert habits is not None
    assert all(habits[name].positive for name in VARIANCES)
    for seed in range(20):
        inputs = drawn(both, habits, random.Random(seed))
        seen = glance(both, inputs)
        exact = run(both, inputs, Policy.BITS)
        assert seen is not None
        assert (seen.stopped is None) == exact.ordinary
        differs = any(
            list(a.flat) != list(b.flat) for a, b in zip(exact.before, exact.after, strict=True)
        )
        assert seen.differs == differs


def test_no_habits_are_found_where_no_run_is_ordinary() -> None:
    never = region(
        "x: bf16[M]\ny: bf16 = sqrt(-1 - x * x)\n", "x: bf16[M]\ny: bf16 = sqrt(-2 - x * x)\n"
    )
    assert tamed(never, 0, 200) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("y: bf16 = x * 2\n", Fraction(2) ** 127),  # overflows
        ("y: bf16 = x / 4\n", Fraction(2) ** -125),  # a subnormal number
        ("y: bf16 = x * 0\n", Fraction(-1)),  # a negative zero
        ("y: bf16 = sqrt(x)\n", Fraction(-1)),  # NaN
    ],
)
def test_a_glance_stops_at_what_is_not_ordinary(text: str, value: Fraction) -> None:
    both = region(f"x: bf16[M]\n{text}", f"x: bf16[M]\n{text}")
    inputs = {"x": exact_array([value], (1,))}
    seen = glance(both, inputs)
    assert seen is not None
    assert seen.stopped is not None
    assert not run(both, inputs, Policy.BITS).ordinary


def test_a_wary_glance_stops_where_a_number_becomes_zero() -> None:
    text = "x: bf16[M]\ny: bf16 = exp(x)\n"
    inputs = {"x": exact_array([Fraction(-1000)], (1,))}
    seen = glance(region(text, text), inputs, wary=True)
    assert seen is not None
    assert seen.stopped is not None


@pytest.mark.parametrize("frame", ["0", "-inf"])
def test_a_frame_that_agrees_says_nothing_of_the_image_in_it(frame: str) -> None:
    # The field defines a root of one number in four: of 8 factors it sees none.
    edge = f"broadcast({frame}, 40)"
    texts = [f"{INPUTS}y: bf16 = concat({edge}, x * {SHORTER} * {n}, axis=0)\n" for n in (1, 3)]
    both = region(*texts)
    assert not agree(both.before, both.after, Policy.BITS).equal


E4M3 = [x for x in range(256) if x & 0x7F != 0x7F]


def test_double_rounding_around_a_relu_is_harmless_for_every_sum_of_e4m3(tmp_path: Path) -> None:
    # binary16 has 11 digits, and 2 * 4 + 2 = 10 are enough.
    fp8 = ml_dtypes.float8_e4m3fn
    values = np.array(E4M3, np.uint8).view(fp8).astype(np.float64)
    sums = values[:, None] + values[None, :]
    sums = sums[np.abs(sums) <= 448]  # on ordinary runs nothing overflows
    once = np.maximum(sums.astype(np.float32).astype(fp8).astype(np.float64), 0)
    twice = np.maximum(sums.astype(np.float16), 0).astype(fp8).astype(np.float64)
    assert once.tobytes() == (twice + 0.0).tobytes()
    head = "a: e4m3fn[M, 8]\nb: e4m3fn[M, 8]\n"
    before = f"{head}s: e4m3fn = a + b\ny: e4m3fn = relu(s)\n"
    after = f"{head}s: f16 = a + b\nt: f16 = relu(s)\ny: e4m3fn = t\n"
    assert judged(tmp_path, before, after).change == "bitwise"


def test_double_rounding_around_a_relu_is_found_where_it_harms(tmp_path: Path) -> None:
    # binary16 has 11 digits, of the 18 that sums of bfloat16 need.
    head = "a: bf16[M, 8]\nb: bf16[M, 8]\n"
    before = f"{head}s: bf16 = a + b\ny: bf16 = relu(s)\n"
    after = f"{head}s: f16 = a + b\nt: f16 = relu(s)\ny: bf16 = t\n"
    assert judged(tmp_path, before, after).change == "rounding"
