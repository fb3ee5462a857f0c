"""A kernel that a device cannot hold is found where the plan describes it, and blamed once."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from lastbit.lint import lint_plans
from lastbit.result import Result

TODAY = date(2026, 6, 1)
PLAN = """schema = 1
[graph]
symbols = {{ M = 512, K = 4096, N = 4096 }}
text = '''
a: f16[M, K]
w: f16[K, N]
c: f16 = matmul(a, w) acc f32 seq
y: f16 = relu(c)
'''
[target]
device = "h100-sxm"
[[kernel]]
values = ["c"]
{kernel}
{more}
"""
LARGE = "rows = 256\ncolumns = 512\ndepth = 64"
EPILOGUE = '[[transform]]\nrule = "epilogue"\nat = ["c"]\n'
# 64 terms of 256 rows and 512 columns in 2 bytes, and as many running sums of 4.
LARGE_TEXT = (
    "a block of `c` holds 608 KiB (operands 96 KiB, running sums 512 KiB); "
    "h100-sxm gives one block 227 KiB"
)


def lint(folder: Path, kernel: str, *more: str, plan: str = PLAN) -> Result:
    path = folder / "p.toml"
    path.write_text(plan.format(kernel=kernel, more="\n".join(more)), encoding="utf-8")
    return lint_plans([str(path)], today=TODAY)


def cost_findings(result: Result) -> list[tuple[str, str, str | None, int | None]]:
    return [
        (f.severity, f.message, f.step, f.location.line)
        for f in result.findings
        if f.code == "COST702"
    ]


@pytest.mark.parametrize("more", [(), (EPILOGUE,)])
def test_a_kernel_without_room_is_found_with_and_without_a_transform(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    result = lint(tmp_path, LARGE, *more)
    assert cost_findings(result) == [("note", LARGE_TEXT, None, 12)]
    assert result.exit_code == 0


def test_it_fails_where_the_budget_says_so(tmp_path: Path) -> None:
    result = lint(tmp_path, LARGE, '[budget]\ncost = "error"')
    assert cost_findings(result) == [("error", LARGE_TEXT, None, 12)]
    assert result.exit_code == 1


def test_it_may_be_allowed(tmp_path: Path) -> None:
    allow = '[[allow]]\ncode = "COST702"\nat = "c"\nreason = "a sketch"'
    result = lint(tmp_path, LARGE, '[budget]\ncost = "error"', allow)
    assert cost_findings(result) == [("note", f"{LARGE_TEXT}; allowed: a sketch", None, 12)]


def test_a_transform_that_takes_the_room_is_blamed(tmp_path: Path) -> None:
    tile = '[[transform]]\nrule = "tile-output"\nat = ["c"]\nrows = 256\ncolumns = 512\n'
    small = PLAN.replace("N = 4096", "N = 512")  # two tiles
    result = lint(tmp_path, "rows = 64\ncolumns = 64\ndepth = 64", tile, plan=small)
    found = [("note", f"tile-output at `c`: {LARGE_TEXT}", "c.tile-output", 17)]
    assert cost_findings(result) == found


def test_running_sums_alone_can_be_too_much(tmp_path: Path) -> None:
    result = lint(tmp_path, "rows = 512\ncolumns = 4096", EPILOGUE)
    # One term of 512 rows and 4096 columns in 2 bytes, and 512 x 4096 running sums of 4.
    text = (
        "a block of `c` holds at least 8 MiB (operands 9 KiB, running sums 8 MiB); "
        "h100-sxm gives one block 227 KiB"
    )
    assert cost_findings(result) == [("note", text, None, 12)]


def test_what_the_tile_leaves_open_is_not_decided(tmp_path: Path) -> None:
    result = lint(tmp_path, "rows = 128\ncolumns = 128", EPILOGUE)
    assert cost_findings(result) == []
    (step,) = result.steps
    assert step.notes == (
        "not decided whether it fits on h100-sxm: a block of `y` holds at least 64.5 KiB; "
        "its tile has no `depth`",
    )


def test_a_tile_that_says_all_is_decided(tmp_path: Path) -> None:
    (step,) = lint(tmp_path, "rows = 128\ncolumns = 128\ndepth = 64", EPILOGUE).steps
    assert step.notes == ()
