"""A plan of two models of ONNX is judged as `check` judges them, by what the plan demands."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_models import model, node, saved, value

from lastbit.importers.onnx.reading import read_model
from lastbit.importers.onnx.running import optimised
from lastbit.lint import lint_plans
from lastbit.result import Result

DAY = date(2026, 6, 1)
HEAD = 'schema = 1\n[graph]\nimport = "before.onnx"\n[after]\nimport = "after.onnx"\n'


def linted(folder: Path, text: str = "") -> Result:
    plan = folder / "plan.toml"
    plan.write_text(HEAD + text)
    return lint_plans([str(plan)], today=DAY)


def gated(folder: Path) -> None:
    """Write x * sigmoid(x) in f16, and what ONNX Runtime makes of it."""
    nodes = [node("s = Sigmoid(x)"), node("y = Mul(x, s)")]
    before = saved(folder, model(nodes, ["x: f16[B, 4]"], ["y: f16[B, 4]"]), "before.onnx")
    optimised(read_model(before), str(folder / "after.onnx"))


def strange(folder: Path) -> None:
    """Write two models that differ in what an operator reads that nobody knows."""
    for name, first in (("before", "Add(x, x)"), ("after", "Mul(x, x)")):
        nodes: list[Any] = [node(f"t = {first}"), node("u = my::Op(t)"), node("y = Relu(u)")]
        proto = model(nodes, ["x: f32[B, 4]"], ["y: f32[B, 4]"], domains=["my"])
        proto.graph.value_info.append(value("u: f32[B, 4]"))
        saved(folder, proto, f"{name}.onnx")


def test_a_dropped_rounding_is_named_as_the_check_names_it(tmp_path: Path) -> None:
    gated(tmp_path)
    result = linted(tmp_path)
    (step,) = result.steps
    assert (step.at, step.change, result.command) == (("y",), "rounding", "lint")
    (note,) = (one.message for one in result.findings if one.code == "FUS102")
    assert note == "`s` is no longer rounded to f16: it is kept in f32"
    assert result.exit_code == 0


def test_the_budget_of_a_plan_counts_and_that_of_a_value_first(tmp_path: Path) -> None:
    gated(tmp_path)
    assert linted(tmp_path, '[budget]\nchange = "bitwise"\n').exit_code == 1
    own = '[budget.node.y]\nchange = "rounding"\n'
    assert linted(tmp_path, f'[budget]\nchange = "bitwise"\n{own}').exit_code == 0
    (step,) = linted(tmp_path, '[budget]\nchange = "bitwise"\n').steps
    assert step.budget is not None
    assert step.budget.change == "bitwise"


def test_an_allow_of_a_plan_reaches_the_region(tmp_path: Path) -> None:
    gated(tmp_path)
    demand = '[budget]\nchange = "bitwise"\n[[allow]]\ncode = "FUS100"\nreason = "reviewed"\n'
    for at in ("", 'at = "y"\n'):
        result = linted(tmp_path, demand + at)
        assert result.exit_code == 0
        assert [(step.allowed, step.allow_reason) for step in result.steps] == [(True, "reviewed")]
        assert any(one.message.endswith("; allowed: reviewed") for one in result.findings)
    assert linted(tmp_path, f'{demand}at = "s"\n').exit_code == 1
    ended = linted(tmp_path, f"{demand}until = 2026-05-31\n")
    assert ended.exit_code == 1
    assert "the [[allow]] of FUS100 ended on 2026-05-31: reviewed" in {
        one.message for one in ended.findings
    }


@pytest.mark.parametrize("name", ["u", "my.Op"])
def test_an_opaque_operator_is_allowed_by_name_with_a_reason(tmp_path: Path, name: str) -> None:
    strange(tmp_path)
    free = '[[allow]]\ncode = "FUS100"\nreason = "a"\n'
    assert linted(tmp_path, free).exit_code == 1
    both = f'{free}[[allow]]\ncode = "FUS190"\nat = "{name}"\nreason = "monotone"\n'
    result = linted(tmp_path, both)
    assert result.exit_code == 0
    (step,) = (step for step in result.steps if step.id == "opaque-1")
    assert (step.change, step.allowed, step.allow_reason) == ("unknown", True, "monotone")


def test_the_hazards_of_the_model_are_still_found(tmp_path: Path) -> None:
    nodes = [  # a variance in one pass
        node("q = Mul(x, x)"),
        node("m = ReduceMean(x)", axes=[-1]),
        node("n = ReduceMean(q)", axes=[-1]),
        node("s = Mul(m, m)"),
        node("y = Sub(n, s)"),
    ]
    for name in ("before", "after"):
        made = model(nodes, ["x: f32[B, 64]"], ["y: f32[B, 1]"], opset=17)
        saved(tmp_path, made, f"{name}.onnx")
    result = linted(tmp_path)
    alone = lint_plans([str(tmp_path / "before.onnx")], today=DAY)
    found, wanted = (
        {one.code for one in each.findings if one.severity == "warning"} for each in (result, alone)
    )
    assert not result.steps
    assert found == wanted
    assert found
