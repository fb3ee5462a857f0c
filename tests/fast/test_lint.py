"""What a plan demands is held against the verdicts, and what it allows is said."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from lastbit.lint import lint_plans
from lastbit.result import Result

TODAY = date(2026, 11, 29)
GRAPH = """schema = 1
[graph]
name = "small"
symbols = { M = [1, 64], K = 8, N = 4 }
batch = "M"
text = '''
x: bf16[M, K]
w: bf16[K, N]
u: bf16[M, N]
g: bf16 = matmul(x, w) acc f32 seq
t: bf16 = silu(g)
z: bf16 = t * u
'''
"""
SPLIT = '[[transform]]\nrule = "split-k"\nat = ["g"]\nn = 4\n'
DROP = '[[transform]]\nrule = "drop-rounding"\nat = ["t"]\nbranch = true\n'
PARTIALS = '[[transform]]\nrule = "activation-on-partials"\nat = ["t"]\nblock = 4\nbranch = true\n'


def lint(folder: Path, rest: str, today: date = TODAY) -> Result:
    path = folder / "plan.toml"
    path.write_text(GRAPH + rest, encoding="utf-8")
    return lint_plans([str(path)], today=today)


def messages(result: Result) -> list[tuple[str, str, str]]:
    return [(f.code, f.severity, f.message) for f in result.findings]


def test_without_a_budget_only_another_function_fails(tmp_path: Path) -> None:
    result = lint(tmp_path, SPLIT + DROP + PARTIALS)
    assert [step.change for step in result.steps] == ["reassociation", "rounding", "math"]
    assert messages(result) == [
        (
            "FUS104",
            "error",
            "activation-on-partials at `t` computes another function of real numbers",
        )
    ]
    assert result.exit_code == 1


def test_a_budget_says_the_most_that_is_allowed(tmp_path: Path) -> None:
    result = lint(tmp_path, SPLIT + DROP + '[budget]\nchange = "reassociation"\n')
    assert messages(result) == [
        (
            "FUS102",
            "error",
            "drop-rounding at `t` is a change of `rounding`; the budget allows `reassociation`",
        )
    ]


def test_the_budget_of_a_value_goes_before_that_of_the_plan(tmp_path: Path) -> None:
    rest = '[budget]\nchange = "bitwise"\n[budget.node.z]\nchange = "rounding"\n'
    result = lint(tmp_path, DROP + rest)
    assert (messages(result), result.exit_code) == ([], 0)


def test_an_allowed_finding_passes_and_says_so(tmp_path: Path) -> None:
    allow = '[[allow]]\ncode = "FUS102"\nat = "t"\nreason = "reviewed"\nuntil = 2026-12-31\n'
    budget = '[budget]\nchange = "bitwise"\n'
    result = lint(tmp_path, DROP + budget + allow)
    assert messages(result) == [
        (
            "FUS102",
            "note",
            "drop-rounding at `t` is a change of `rounding`; the budget allows `bitwise`; "
            "allowed: reviewed",
        )
    ]
    assert result.exit_code == 0
    assert (result.steps[0].allowed, result.steps[0].allow_reason) == (True, "reviewed")


def test_an_allowance_that_has_ended_allows_nothing(tmp_path: Path) -> None:
    allow = '[[allow]]\ncode = "FUS102"\nat = "t"\nreason = "reviewed"\nuntil = 2026-11-28\n'
    result = lint(tmp_path, DROP + '[budget]\nchange = "bitwise"\n' + allow)
    assert [(code, severity) for code, severity, _ in messages(result)] == [
        ("FUS102", "error"),
        ("FUS102", "warning"),
    ]
    assert result.exit_code == 1


@pytest.mark.parametrize(("limit", "code"), [("1", 0), ("0.5", 1)])
def test_drift_is_held_against_a_bound_in_ulp(tmp_path: Path, limit: str, code: int) -> None:
    rest = f'[budget]\nchange = "rounding"\nmax_ulp = {{ bf16 = {limit} }}\n'
    result = lint(tmp_path, DROP + rest)
    assert result.exit_code == code
    if code:
        ((_, _, message),) = messages(result)
        assert message == "drop-rounding at `t` drifts by 1 ulp at scale of bf16; allowed: 0.5"


def test_a_promise_that_is_demanded_must_hold(tmp_path: Path) -> None:
    by_batch = SPLIT.replace("n = 4", 'n = { by = "M", table = [[1, 4], [16, 1]] }')
    result = lint(tmp_path, by_batch + '[budget]\npromises = ["batch_invariant"]\n')
    assert messages(result) == [
        (
            "RED201",
            "error",
            "split-k at `g` is not batch-invariant: n takes 2 values over M in [1, 64]",
        )
    ]


def test_a_rule_that_does_not_apply_is_an_error_and_the_rest_is_judged(tmp_path: Path) -> None:
    wrong = SPLIT.replace('["g"]', '["z"]')
    result = lint(tmp_path, wrong + DROP)
    assert [step.change for step in result.steps] == ["unknown", "rounding"]
    assert result.decided == (1, 2)
    assert messages(result) == [
        ("RED201", "error", "split-k at `z`: requirement `the value holds one sum` fails")
    ]


def test_transforms_apply_in_order_each_to_the_result_of_those_before(tmp_path: Path) -> None:
    again = '[[transform]]\nrule = "change-schedule"\nat = ["g"]\nschedule = "split(4)"\n'
    result = lint(tmp_path, SPLIT + again)
    assert [step.change for step in result.steps] == ["reassociation", "bitwise"]
    (alone,) = lint(tmp_path, again).steps
    assert alone.change == "reassociation"


def test_equal_input_gives_equal_results(tmp_path: Path) -> None:
    assert lint(tmp_path, SPLIT + DROP) == lint(tmp_path, SPLIT + DROP)


SUMS = """schema = 1
[graph]
name = "sums"
symbols = {{ M = [1, 4096], K = {K} }}
batch = "M"
text = '''
x: f32[M, K]
y: f32 = sum(x{part}, axis=1) acc f32 {schedule}
'''
[[transform]]
rule = "{rule}"
at = ["y"]
{given}
branch = true
"""


def sums(folder: Path, **facts: str) -> Result:
    given = {"K": "1024", "part": "", "schedule": "seq", "rule": "change-schedule", **facts}
    path = folder / "plan.toml"
    path.write_text(SUMS.format(**given), encoding="utf-8")
    return lint_plans([str(path)], today=TODAY)


def test_a_sum_along_a_part_of_an_axis_is_judged_at_the_true_size(tmp_path: Path) -> None:
    given = 'schedule = "pairwise"'
    (step,) = sums(tmp_path, part="[:, 0:K//2]", given=given).steps
    assert step.change == "reassociation"


def test_the_ends_of_a_range_are_judged_too(tmp_path: Path) -> None:
    facts = {"K": "{ range = [1, 8192], typical = 64 }", "given": 'schedule = "pairwise(64)"'}
    (step,) = sums(tmp_path, **facts).steps
    assert step.change == "reassociation"


def test_a_schedule_that_cannot_be_leaves_the_other_steps(tmp_path: Path) -> None:
    result = sums(tmp_path, given='schedule = "tree(((0, 1), 2))"')
    (step,) = result.steps
    assert step.change == "unknown"
    assert "it has 3 leaves, and there are 1024 elements" in step.notes[0]


def test_equal_regions_keep_their_own_promises(tmp_path: Path) -> None:
    text = SUMS.format(
        K=1024, part="", schedule="split(4)", rule="fixed-order-merge", given=""
    ).replace("'''\n[[", "z: f32 = sum(x, axis=1) acc f32 split(max(1, M // 1024))\n'''\n[[")
    path = tmp_path / "plan.toml"
    path.write_text(text + text[text.index("[[") :].replace('"y"', '"z"'), encoding="utf-8")
    one, two = lint_plans([str(path)], today=TODAY).steps
    assert one.promises["batch_invariant"].after is True
    assert two.promises["batch_invariant"].after is False
    assert two.promises["batch_invariant"].cause == (
        "split(max(1, M // 1024)) takes 4 values over M in [1, 4096]"
    )
