"""A plan that names two graphs: each region that differs is one step."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastbit.errors import InputError
from lastbit.lint import lint_plans

HEAD = """schema = 1
[graph]
name = "two"
symbols = { M = [1, 512], K = 64, N = 16 }
batch = "M"
text = '''
x: bf16[M, K]
w: bf16[K, N]
r: bf16[M, N]
"""
BEFORE = """g: bf16 = matmul(x, w) acc f32 seq
t: bf16 = silu(g)
y: bf16 = t + r
z: bf16 = r * r
return y, z
'''
[after]
text = '''
x: bf16[M, K]
w: bf16[K, N]
r: bf16[M, N]
"""


def plan(folder: Path, after: str, rest: str = "") -> str:
    path = folder / "plan.toml"
    path.write_text(HEAD + BEFORE + after + "'''\n" + rest, encoding="utf-8")
    return str(path)


def test_each_region_that_differs_is_one_step(tmp_path: Path) -> None:
    after = (
        "g: bf16 = matmul(x, w) acc f32 split(4)\nt: bf16 = silu(g)\n"
        "y: bf16 = t + r\nz: bf16 = r * r + 0 * r\nreturn y, z\n"
    )
    result = lint_plans([plan(tmp_path, after)])
    found = [(step.id, step.at, step.change) for step in result.steps]
    assert found == [
        ("difference", ("g",), "reassociation"),
        ("difference-2", ("z",), "bitwise"),
    ]
    assert [step.rule for step in result.steps] == [None, None]
    assert result.steps[0].location.line == 21


def test_a_value_written_into_its_reader_is_found(tmp_path: Path) -> None:
    after = (
        "g: bf16 = matmul(x, w) acc f32 seq\ny: bf16 = silu(g) + r\nz: bf16 = r * r\nreturn y, z\n"
    )
    result = lint_plans([plan(tmp_path, after, '[budget]\nchange = "bitwise"\n')])
    (step,) = result.steps
    assert (step.change, step.at) == ("rounding", ("y",))
    assert [finding.code for finding in result.findings] == ["FUS100"]


def test_equal_graphs_make_no_step(tmp_path: Path) -> None:
    after = BEFORE.split("'''")[0]
    result = lint_plans([plan(tmp_path, after)])
    assert result.steps == ()


def test_a_missing_result_is_an_error(tmp_path: Path) -> None:
    after = "g: bf16 = matmul(x, w) acc f32 seq\nt: bf16 = silu(g)\ny: bf16 = t + r\nreturn y\n"
    with pytest.raises(InputError) as caught:
        lint_plans([plan(tmp_path, after)])
    assert "the graph does not give `z`, a result of [graph]." in str(caught.value)


def test_the_worst_tree_over_the_range_of_a_size_counts(tmp_path: Path) -> None:
    # At the typical size, 512 rows, the split has one piece: the same tree as before.
    after = (
        "g: bf16 = matmul(x, w) acc f32 split(max(1, 4 // ceil(M / 128)))\nt: bf16 = silu(g)\n"
        "y: bf16 = t + r\nz: bf16 = r * r\nreturn y, z\n"
    )
    (step,) = lint_plans([plan(tmp_path, after)]).steps
    assert step.change == "reassociation"
    assert step.notes == ("this is the verdict on the schedules at M = 1",)
    assert step.promises["batch_invariant"].after is False


def test_a_result_without_a_format_is_an_error(tmp_path: Path) -> None:
    after = (
        "g: bf16 = matmul(x, w) acc f32 seq\nt: bf16 = silu(g)\n"
        "y: real = t + r\nz: bf16 = r * r\nreturn y, z\n"
    )
    with pytest.raises(InputError) as caught:
        lint_plans([plan(tmp_path, after)])
    message = "the result `y` is not rounded, so it has no bits. Give it a format in place of"
    assert message in str(caught.value)
