"""Sizes written as numbers shrink like symbols, unless an expression mentions them too."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from lastbit.lint import lint_plans
from lastbit.plan import load_plan
from lastbit.verify.literals import with_size_symbols

PLAN = """schema = 1
[graph]
name = "literal"
symbols = { M = [1, 4096] }
batch = "M"
text = '''
x: bf16[M, 2048]
w: bf16[2048, 3072]
y: bf16 = matmul(x, w) acc f32 seq
z: bf16[M, 1024] = y[:, 0:1024]
'''
[[transform]]
rule = "split-k"
at = ["y"]
n = 4
"""


def test_a_literal_size_becomes_a_symbol_unless_it_is_mentioned(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN, encoding="utf-8")
    plan = with_size_symbols(load_plan(str(path), date(2026, 1, 1)))
    assert list(plan.symbols) == ["M", "size_2048", "size_3072"]
    graph = plan.program.nodes({"M": 2, "size_2048": 4, "size_3072": 1024}, lambda _, node: node)
    assert graph["z"].shape == (2, 1024)


def test_a_plan_of_literal_sizes_is_judged_at_small_ones(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.replace("z: bf16[M, 1024] = y[:, 0:1024]\n", ""), encoding="utf-8")
    (step,) = lint_plans([str(path)]).steps
    assert step.change == "reassociation"
    assert step.witness is not None
    assert step.witness.inputs["w"].shape[1] == 1
