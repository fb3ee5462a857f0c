"""The chapter's worked examples agree, and every plan of theirs lints with the kind expected."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import lastbit

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PLANS = ROOT / "examples" / "chapter"
ENTRIES = json.loads((ROOT / "tests/data/chapter_oracle.json").read_text("utf-8"))["entries"]
KINDS = {
    "5_2_2_output_tile": {
        "tile-128": "bitwise",
        "c.interchange-loops": "bitwise",
        "spill-bf16": "rounding",
    },
    "5_2_4_merge_order": {
        "three-from-the-right": "reassociation",
        "last-piece-first": "reassociation",
        "in-a-tree": "reassociation",
        "atomics": "reassociation",
        "buffer": "bitwise",
    },
    "5_2_4_split_k": {
        "by-columns": "bitwise",
        "by-terms": "reassociation",
        "by-terms-as-they-come": "reassociation",
        "by-terms-sent-as-bf16": "rounding",
    },
    "5_2_4_split_rmsnorm": {
        "split-1": "bitwise",
        "split-2": "reassociation",
        "split-4": "reassociation",
        "split-8": "reassociation",
        "split-16": "reassociation",
        "split-32": "reassociation",
        "split-by-batch": "reassociation",
    },
    "5_3_1_activation": {"t.fuse-elementwise": "bitwise", "t.drop-rounding": "rounding"},
    "5_3_1_fp8": {
        "t.fuse-elementwise": "bitwise",
        "q.fuse-quantize": "bitwise",
        "one_q.fuse-quantize": "bitwise",
        "one_q.quantize-unrounded": "rounding",
    },
    "5_3_2_layout": {"t.change-layout": "bitwise"},
    "5_3_3_online_softmax": {
        "o.drop-maximum": "rounding",
        "o.lost-rescale": "math",
        "o.online-softmax": "rounding",
        "o.online-softmax-block-size": "rounding",
    },
    "5_4_2_epilogue": {
        "acc_c.fuse-loops": "bitwise",
        "acc_c.block-k": "bitwise",
        "acc_c.epilogue": "bitwise",
        "c.fuse-elementwise": "bitwise",
        "acc_c.block-partials": "reassociation",
    },
    "5_4_3_chunks": {"o.online-softmax": "rounding", "o.merge-without-statistics": "math"},
    "5_4_3_quantize": {
        "q.quantize-in-column-blocks": "bitwise",
        "q.quantize-by-prefix-maximum": "grid",
        "q.quantize-by-frozen-scale": "math",
    },
    "5_4_3_rounding": {"c.epilogue": "bitwise", "c.epilogue-before-rounding": "rounding"},
    "5_4_3_silu_partials": {
        "y.activation-on-partials": "math",
        "y.activation-on-accumulator": "math",
    },
    "5_5_3_padding": {"masked": "bitwise", "masked-scores": "bitwise", "unmasked-scores": "math"},
    "5_5_3_specialise": {"same-segments": "bitwise", "one-segment": "reassociation"},
    "exercise_5_1_block": {"c.tile-output": "bitwise", "d.tile-output": "bitwise"},
    "exercise_5_1_tile": {"c.tile-output": "bitwise"},
    "exercise_5_2": {"t.fuse-elementwise": "bitwise", "q.fuse-quantize": "bitwise"},
    "exercise_5_3": {"prefetch": "bitwise"},
    "exercise_5_4": {
        "silu-in-the-loop": "math",
        "without-rounding": "rounding",
        "quantize-in-each-column": "bitwise",
    },
}


REPORTS = ROOT / "reports" / "chapter"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "examples/chapter.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def test_every_number_agrees_and_printed_figures_follow_where_they_should() -> None:
    done = run("--json")
    assert done.returncode == 0, done.stderr
    records = {record["id"]: record for record in json.loads(done.stdout)["entries"]}
    wanted = {entry["id"] for entry in ENTRIES if "exact" in entry or entry.get("change")}
    assert records.keys() == wanted
    assert len(wanted) == 227
    follows = {entry["id"]: entry.get("follows", True) for entry in ENTRIES}
    for record in records.values():
        assert record["agrees"] is True, record
        expected = follows[record["id"]] if record["published"] else None
        assert record["published_agrees"] is expected, record
    assert records["A010"]["computed"] == "166"
    assert records["A023"]["computed"] == "7/3"
    assert records["T19"]["computed"] == "rounding"
    assert (records["B054"]["computed"], records["B166"]["computed"]) == ("3096", "4400/111")
    assert (records["T19"]["before"], records["T19"]["after"]) == ("0x3f3b26a8", "0x3f3b9d6f")


def test_the_table_tells_where_the_wording_does_not_give_the_figures() -> None:
    done = run()
    assert done.returncode == 0, done.stderr
    assert 'Footnote 3 has the row of 5.2.4 "rounded to BF16"' in done.stdout
    (line,) = (line for line in done.stdout.splitlines() if "A010  between the two" in line)
    assert line.split()[-2:] == ["166", "59"]  # cut off, and rounded to nearest
    assert "C026, FLOP per byte, 64 x 64: 4096/129 is\n31.75, rounded 31.8." in done.stdout


@pytest.mark.parametrize("path", sorted(PLANS.glob("*.toml")), ids=lambda path: path.stem)
def test_each_transform_of_a_plan_is_of_the_kind_expected(path: Path) -> None:
    result = lastbit.lint_plans([str(path)])
    assert {step.id: step.change for step in result.steps} == KINDS[path.stem]
    for step in result.steps:
        assert (step.witness is None) is (step.change == "bitwise"), step.id
        assert not any("drift not measured" in note for note in step.notes), step.notes


def test_every_plan_is_known() -> None:
    assert {path.stem for path in PLANS.glob("*.toml")} == KINDS.keys()


def test_the_drift_on_the_chapter_s_row_is_the_chapter_s() -> None:
    result = lastbit.lint_plans([str(PLANS / "5_2_4_split_rmsnorm.toml")])
    step = result.step("split-8")
    assert step is not None
    assert step.drift is not None
    assert (step.drift.max_ulp, step.drift.inputs) == (166, "row.npy")
    errors = (step.drift.before_error_ulp, step.drift.after_error_ulp)
    assert [round(error, 1) for error in errors if error is not None] == [175.2, 9.2]


@pytest.mark.parametrize("plan", sorted(name for name in KINDS if name.startswith("exercise")))
def test_the_report_of_an_exercise_is_what_its_command_prints(plan: str) -> None:
    command = [sys.executable, "-m", "lastbit", "lint", f"examples/chapter/{plan}.toml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert done.stdout == (REPORTS / f"{plan}.txt").read_text("utf-8")


def test_the_numbers_of_the_exercises_are_what_their_script_prints() -> None:
    command = [sys.executable, "examples/chapter_exercises.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert done.stdout == (REPORTS / "exercises.txt").read_text("utf-8")


def test_every_report_of_an_exercise_has_its_plan() -> None:
    plans = {name for name in KINDS if name.startswith("exercise")}
    assert {path.stem for path in REPORTS.glob("*.txt")} == {*plans, "exercises"}
