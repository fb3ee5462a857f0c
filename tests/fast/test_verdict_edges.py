"""Verdicts at the edges: values left unrounded, steps undone, no ordinary run, domains alone."""

from __future__ import annotations

import math
import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from meeting import DROP, GRAPH, TODAY

import lastbit
from lastbit.lint import lint_plans
from lastbit.plan import load_plan
from lastbit.replaying import replay, script
from lastbit.report.json import render as render_json
from lastbit.report.text import render
from lastbit.result import Result

UNROUNDED = """schema = 1
[graph]
name = "unrounded"
symbols = { M = 4, K = 64 }
batch = "M"
text = '''
b: f32[M, K]
c: bf16 = b * 3
s: f32 = sum(c) acc f32 seq
'''
[[transform]]
rule = "drop-rounding"
at = ["c"]
[[transform]]
id = "next"
at = ["s"]
"""


def schedule(identity: str, text: str) -> str:
    head = f'[[transform]]\nid = "{identity}"\nat = ["y"]\n'
    return f'{head}rule = "change-schedule"\nschedule = "{text}"\n'


def lint(folder: Path, text: str) -> Result:
    path = folder / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return lint_plans([str(path)], today=TODAY)


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ('"split-k"\nn = 4', "reassociation"),
        ('"change-schedule"\nschedule = "pairwise"', "reassociation"),
        ('"split-k-atomics"\nn = 4', "reassociation"),
        ('"narrow-accumulator"\nformat = "bf16"', "rounding"),
    ],
)
def test_a_step_on_a_value_that_an_earlier_one_left_unrounded(
    tmp_path: Path, rule: str, change: str
) -> None:
    result = lint(tmp_path, f"{UNROUNDED}rule = {rule}\n")
    step = result.steps[1]
    assert step.change == change
    assert step.witness is not None
    assert set(step.witness.inputs) == {"b"}  # `c` has no format to be given in
    path = tmp_path / "result.json"
    path.write_text(render_json(result), encoding="utf-8")
    assert replay(str(path), "next").agrees


def test_the_last_step_that_is_not_undone_sets_a_region(tmp_path: Path) -> None:
    steps = schedule("one", "split(4)") + schedule("two", "seq") + schedule("three", "split(8)")
    result = lint(tmp_path, f'{GRAPH}{steps}[budget]\nchange = "bitwise"\n')
    (region,) = result.regions
    assert (region.change, region.set_by) == ("reassociation", "three")
    text = render(result)
    assert "budget    allows `bitwise`: exceeded, as by its steps" in text
    assert "kept" not in text


def test_a_step_that_is_overwritten_does_not_set_a_region(tmp_path: Path) -> None:
    result = lint(tmp_path, GRAPH + schedule("one", "split(4)") + schedule("two", "split(8)"))
    assert [region.set_by for region in result.regions] == ["two"]


def test_a_region_is_held_to_its_budget_where_it_does_more_than_its_steps(tmp_path: Path) -> None:
    from lastbit.change import Change
    from lastbit.regions import regions_of
    from lastbit.verify.decide import Judged
    from lastbit.verify.wholes import Whole

    path = tmp_path / "plan.toml"
    allow = '[[allow]]\ncode = "{}"\nat = "{}"\nreason = "measured"\n'
    text = GRAPH + schedule("one", "split(4)") + DROP + '[budget]\nchange = "bitwise"\n'
    path.write_text(text + allow.format("RED209", "y") + allow.format("FUS102", "t"))
    plan = load_plan(str(path), TODAY)
    steps = [Judged("", Change.REASSOCIATION), Judged("", Change.ROUNDING)]
    worse = Whole((0, 1), Judged("", Change.MATH))
    _, findings = regions_of(plan, [worse], steps)
    assert [finding.severity for finding in findings] == ["error"]
    same = replace(worse, judged=Judged("", Change.ROUNDING))
    assert regions_of(plan, [same], steps)[1] == []


def test_an_allowed_step_does_not_keep_its_budget(tmp_path: Path) -> None:
    allow = '[budget]\nchange = "bitwise"\n[[allow]]\ncode = "FUS102"\nreason = "measured"\n'
    text = render(lint(tmp_path, GRAPH + DROP + allow))
    assert "budget    allows `bitwise`: allowed" in text


def by_two_steps(x: Any, y: Any) -> Any:
    s = (x * 4).to("bf16")
    u = (s / 2).to("bf16")
    return (u + y).to("bf16")


def by_one_step(x: Any, y: Any) -> Any:
    s = (x * 2).to("bf16")
    return (s + y).to("bf16")


def test_a_value_that_only_one_side_reads_is_no_result() -> None:
    v = lastbit.check(by_two_steps, by_one_step, x="bf16[M]", y="bf16[M]")
    assert v.change == "bitwise"


@pytest.mark.parametrize(
    "after",
    [
        lambda x: (x * math.nan).to("f32"),
        lambda x: (x * math.inf).to("f32"),
        lambda x: (x / 0).to("f32"),
        lambda x: (x / (x - x)).to("f32"),
    ],
)
@pytest.mark.parametrize("fmt", ["e5m2", "f32"])
def test_without_an_ordinary_run_nothing_is_shown(after: Callable[..., Any], fmt: str) -> None:
    v = lastbit.check(lambda x: (x * 2).to("f32"), after, x=f"{fmt}[M]", symbols={"M": (1, 8)})
    assert v.change in ("unknown", "math")
    assert v.change == "math" or "no ordinary run" in str(v)
    assert not v.ok


@pytest.mark.parametrize("fmt", ["e5m2", "f32"])
def test_an_ordinary_run_of_zeros_alone_shows_nothing(fmt: str) -> None:
    after = lambda x: (x * 1e300).to("f32")  # noqa: E731
    v = lastbit.check(lambda x: (x * 2).to("f32"), after, x=f"{fmt}[M]", symbols={"M": (1, 8)})
    assert v.change == "unknown"
    assert not v.ok


def test_zeros_of_another_sign_are_still_no_other_bits_on_ordinary_runs() -> None:
    v = lastbit.check(
        lambda x: (x * 0).to("f32"), lambda x: (x - x).to("f32"), x="e5m2[M]", symbols={"M": (1, 8)}
    )
    assert (v.change, v.domain[0].kind) == ("bitwise", "signed-zero")


def test_the_witness_of_a_domain_runs_again(tmp_path: Path, capsys: Any) -> None:
    guard = """schema = 1
[graph]
name = "guard"
symbols = { M = 4, K = 8 }
text = '''
x: bf16[M, K]
s: f32 = amax(x, axis=-1) / 448
q: e4m3fn = x / s saturate
'''
[[transform]]
id = "guard"
rule = "guard-zero-row"
at = ["s"]
"""
    result = lint(tmp_path, guard)
    (step,) = result.steps
    assert step.witness is None
    path = tmp_path / "result.json"
    path.write_text(render_json(result), encoding="utf-8")
    replayed = replay(str(path), "guard")
    assert replayed.agrees
    assert str(replayed).splitlines()[1].startswith("  nan only before: ")
    assert render(result, json_path="r.json").count("lastbit replay r.json#guard") == 1
    code = tmp_path / "shown.py"
    code.write_text(script(str(path), "guard"), encoding="utf-8")
    assert "nan only before" in " ".join(code.read_text(encoding="utf-8").split())
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(code), run_name="__main__")
    assert ended.value.code == 0
    assert "These are the bits of the witness." in capsys.readouterr().out
