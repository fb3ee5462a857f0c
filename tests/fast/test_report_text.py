"""The text report says what the result holds, no more; equal results give equal bytes."""

from dataclasses import replace
from pathlib import Path

import pytest

from lastbit.report.text import last_line, render
from lastbit.report.words import count, number, percent, plural, size_pair
from lastbit.result import Budget, Cost, Finding, Location, Result, Step, read_result

SAMPLE = read_result(str(Path(__file__).parents[1] / "data/lint_sample.json"))

EXPECTED = """\
plan.toml:58  FUS102 drop-rounding at `t` (branch)                                        rounding
    `t` = round(silu(g), bf16) no longer happens before `z`
    drift     27.4 % of elements differ, up to 1 ulp of bf16 at scale, 1 ulp of the result \
(normal(0, 1), seed 0, 2^20 of 12,582,912); nearer exact: after (0.98 -> 0.5 ulp)
    promises  deterministic, batch-invariant, layout-invariant not decided (no layout is given)
    cost      120 -> 72 MiB, 2 -> 1 launches, local 2 -> 4 KiB, peak 72 MiB, \
25.17 MFLOP (at M = 1024)
    device    h100-sxm: 8 -> 4 blocks on an SM (registers 8 -> 4, shared memory ? -> 4, \
threads 8), 100 % -> 50 % of its warps, ? -> 2.15 times the bytes under way that it needs, \
0.2 -> 0.333 of 296 FLOP per byte
    witness   g = 0x1.8p-1, u[1, 2] = [0x1.8p+0, -0x0.0p+0]: 0x3f43 -> 0x3f44 (bf16 `z`)
    note      torch rounds silu once
    budget    allows `reassociation`, 2 ulp of bf16 at scale; demands batch-invariant: error
    error     FUS102: `rounding` exceeds the budget `reassociation`

plan.toml:31:1  RED201 split-k at `g`                                                     \
reassociation + domain
    the sum over H of `g` is cut into n pieces
    domain    overflow only after: partial sums of opposite sign; \
x: f32[3, 4]: 0x7f7fffff -> 0x7f800000 (f32), which the program cannot reach
    drift     > 99.9 % of elements differ, up to 2.25 ulp of f32 at scale, \
21,504 ulp of the result, 0.21 % of codes change (x.safetensors, all 2^12)
    bound     at most 1e-06 times the sum of absolute terms (cancellation)
    promises  now deterministic, no longer batch-invariant \
(n takes 3 values over M in [1, 8192]), not layout-invariant, as before (atomics)
    allowed   reviewed, within one ulp on the captured prompts
    note      RED201: allowed until 2027-06-30

plan.toml:40  RED201 split-k at `g2`, `u2`                                                \
reassociation
    same as g.split-k

after.toml  difference                                                                    unknown
    `q` is computed by another operator
    evidence  sampled 4,096 draws at M = 2; M = 3 assuming finite, no overflow: \
no difference found on 4,096 inputs

plan.toml  region of `t`, `g`, `g2`, `u2`: 3 transforms together                          \
rounding, set by t.drop-rounding
    `t.drop-rounding`, `g.split-k`, `g2.split-k` as one change
    promises  deterministic
    note      drift not measured: the region reads more than fits
    budget    allows `rounding`: kept

after.toml:12  DOM301 warning: the scale `s` is divided by without a floor

decided 3 of 4 steps; 2 reassociation, 1 rounding, 1 unknown; 2 findings (1 error, 1 note)
"""


def test_the_whole_report():
    assert render(SAMPLE) == EXPECTED


def test_a_replay_command_is_shown_where_the_result_was_written():
    lines = render(SAMPLE, json_path="out/r.json").splitlines()
    shown = [line for line in lines if "lastbit replay" in line]
    assert [line.split("    ")[-1] for line in shown] == [
        "lastbit replay out/r.json#t.drop-rounding"
    ]


def test_colour_adds_escapes_and_nothing_else():
    colored = render(SAMPLE, color=True)
    assert "\x1b[33mrounding\x1b[0m" in colored
    assert "\x1b[31merror" in colored
    for code in ("31", "33", "35", "36"):
        colored = colored.replace(f"\x1b[{code}m", "")
    assert colored.replace("\x1b[0m", "") == EXPECTED


def _one_step(**changes):
    return Result.of("lint", [replace(STEP, **changes)], [], {})


STEP = Step("a.b", "a sentence", Location("p.toml", 1), "bitwise", at=("a",), rule="b")


def test_without_a_budget_the_last_line_says_what_fails():
    assert last_line(_one_step()) == (
        "decided 1 of 1 step; 1 bitwise; no findings; "
        "without a budget only math, unknown and new non-finite results fail"
    )


@pytest.mark.parametrize(
    ("severities", "text"),
    [
        ("", "no findings"),
        ("note note note note", "no findings (4 notes)"),
        ("note", "no findings (1 note)"),
        ("warning", "1 finding (no errors)"),
        ("warning note", "1 finding (no errors, 1 note)"),
        ("error warning note note", "2 findings (1 error, 2 notes)"),
    ],
)
def test_notes_are_no_findings_in_the_last_line(severities: str, text: str):
    findings = [Finding("C1", one, "so", Location("p.toml", 1)) for one in severities.split()]
    result = Result.of("check", [], findings, {})
    assert f"; {text}; without a budget" in last_line(result)
    assert result.summary.findings == len(findings)  # in JSON all of them count


def test_a_budget_that_is_kept_says_so():
    result = _one_step(budget=Budget("rounding", {"bf16": 0.5}, elementwise=True))
    assert render(result).splitlines()[2:] == [
        "    budget    allows `rounding`, 0.5 ulp of bf16 of the result: kept",
        "",
        "decided 1 of 1 step; 1 bitwise; no findings",
    ]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("COST701", "demands no finding of COST"),
        ("RED203", "no math, unknown or new non-finite result, as without any demand"),
    ],
)
def test_a_step_that_fails_without_a_demand_says_by_what(code: str, said: str):
    step = replace(STEP, budget=Budget())
    finding = Finding(code, "error", "it is so", Location("p.toml", 1), step="a.b")
    assert f"    budget    {said}: error" in render(Result.of("lint", [step], [finding], {}))


def test_a_finding_on_another_line_than_its_step_says_where():
    step = Step("a.b", "it changes", Location("model.py", 46), "rounding")
    rounding = Finding("FUS102", "warning", "gone", Location("model.py", 50), step="a.b")
    same_line = replace(rounding, location=Location("model.py", 46, 9))
    report = render(Result.of("check", [step], [rounding, same_line], {}))
    assert "    warning   FUS102 at model.py:50: gone\n" in report
    assert "    warning   FUS102: gone\n" in report


def test_operations_and_their_share_are_shown_without_a_device():
    cost = Cost((2**20, 2**21), (None, None), (1, 1), (2**20, 2**20), flops=(2**22, 2**22))
    assert render(_one_step(cost=cost)).splitlines()[2] == (
        "    cost      1 -> 2 MiB, 1 launch, peak 1 MiB, 4.194 MFLOP, 4 -> 2 FLOP per byte"
    )


def test_a_run_over_nothing_says_that_nothing_was_decided():
    assert render(Result.of("lint", [], [], {})).startswith("decided 0 of no steps; no findings")


def test_no_drift_is_said_in_words():
    drift = replace(SAMPLE.steps[0].drift, share=0.0, before_error_ulp=None, seed=None)
    assert "drift     no element differs (normal(0, 1), 2^20 of 12,582,912)\n" in render(
        _one_step(drift=drift)
    )


def test_a_finding_about_a_step_that_is_not_there_is_still_shown():
    lost = Finding("RED201", "error", "a sentence", Location("p.toml", 3), step="gone")
    report = render(Result.of("lint", [STEP], [lost], {}))
    assert "p.toml:3  RED201 error: a sentence" in report


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.0, "3"),
        (21504, "21,504"),
        (2.25, "2.25"),
        (1234.56, "1,235"),
        (1e-6, "1e-06"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_figures_are_whole_or_have_three_digits(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0.274, "27.4 %"), (1.0, "100 %"), (0.99999, "> 99.9 %"), (2e-5, "0.002 %")]
)
def test_a_share_short_of_all_never_reads_as_all(share, text):
    assert percent(share) == text


@pytest.mark.parametrize(("total", "text"), [(512, "512"), (4096, "2^12"), (12288, "12,288")])
def test_large_powers_of_two_read_as_such(total, text):
    assert count(total) == text


@pytest.mark.parametrize(
    ("total", "text"), [(0, "no findings"), (1, "1 finding"), (2, "2 findings")]
)
def test_counts_agree_with_their_noun(total, text):
    assert plural(total, "finding") == text


@pytest.mark.parametrize(
    ("pair", "text"),
    [
        ((0, 0), "0 bytes"),
        ((None, 2048), "? -> 2 KiB"),
        ((3096 * 2**20, 1560 * 2**20), "3096 -> 1560 MiB"),
        ((9 * 2**30, 10 * 2**30), "9 -> 10 GiB"),
        ((1023, 512), "1023 -> 512 bytes"),
        ((1024, 0), "1 -> 0 KiB"),
        ((120 * 2**20, 72 * 2**20), "120 -> 72 MiB"),
        ((2**50, 2**51), "1024 -> 2048 TiB"),
    ],
)
def test_sizes_share_the_unit_of_the_greater(pair, text):
    assert size_pair(pair) == text
