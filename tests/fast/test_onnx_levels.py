"""Where ONNX Runtime's levels can be told apart, the first one that changes a verdict is named."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_models import model, node, saved

from lastbit.change import Change
from lastbit.importers.onnx import read_onnx, running
from lastbit.importers.onnx.checking import check_onnx
from lastbit.importers.onnx.levels import NOT_HERE, Level, history, levels_of
from lastbit.importers.onnx.reading import read_model
from lastbit.importers.onnx.running import LEVELS, known_levels, optimised


def silu(folder: Path, kind: str = "f32") -> str:
    """Write x * sigmoid(x), of which ONNX Runtime makes a QuickGelu."""
    nodes = [node("s = Sigmoid(x)"), node("y = Mul(x, s)")]
    return saved(folder, model(nodes, [f"x: {kind}[B, 64]"], [f"y: {kind}[B, 64]"]))


def test_a_fusion_is_named_with_the_level_that_makes_it(tmp_path: Path) -> None:
    before, after = silu(tmp_path), str(tmp_path / "after.onnx")
    optimised(read_model(before), after)
    result = check_onnx(before, after, run=True)
    (step,) = result.steps
    assert f"first changed by ONNX Runtime's level `extended` ({step.change})" in step.notes
    (text,) = (finding.message for finding in result.findings if finding.step)
    assert text == (
        "`s` is no value any more: it went into com.microsoft.QuickGelu of `y` by "
        "QuickGeluFusion; first at level `extended`"
    )


def test_dropped_roundings_appear_at_the_lowest_level(tmp_path: Path) -> None:
    before, after = silu(tmp_path, "f16"), str(tmp_path / "after.onnx")
    optimised(read_model(before), after)
    (step,) = check_onnx(before, after, run=True).steps
    (text,) = (note for note in step.notes if note.startswith("first changed"))
    assert text.startswith("first changed by ONNX Runtime's level `disabled` (rounding)")


def test_every_level_that_is_known_writes_a_model_that_is_compared(tmp_path: Path) -> None:
    before = read_onnx(silu(tmp_path))
    found = levels_of(before, lambda region: Change.ROUNDING)
    assert [level.name for level in found] == known_levels()
    assert not any(level.why for level in found)
    changed = [level.name for level in found if level.changes]
    assert changed == [name for name in known_levels() if name in ("extended", "layout", "all")]
    assert found[-1].dropped == {"s"}
    assert not found[0].dropped


def test_what_no_level_changes_was_made_by_something_else(tmp_path: Path) -> None:
    ends = ["x: f32[B, 4]"], ["y: f32[B, 4]"]
    before = saved(tmp_path, model([node("y = Mul(x, x)")], *ends), "before.onnx")
    after = saved(tmp_path, model([node("y = Add(x, x)")], *ends), "after.onnx")
    (step,) = check_onnx(before, after, run=True).steps
    assert step.change == "math"
    assert NOT_HERE in step.notes


def test_the_history_names_each_level_at_which_the_verdict_changes() -> None:
    found = [
        Level("disabled", {}),
        Level("basic", {"y": Change.ROUNDING, "z": Change.MATH}),
        Level("extended", {}, why="it cannot be run"),
        Level("layout", {"y": Change.ROUNDING}),
        Level("all", {"y": Change.REASSOCIATION}),
    ]
    text = history(found, ("t", "y"))
    assert text == (
        "first changed by ONNX Runtime's level `basic` (rounding), then at `all` (reassociation)"
    )
    assert history(found, ("z",)).endswith("`basic` (math), then at `layout` (as before)")
    assert history(found, ("t",)) == NOT_HERE


def test_a_level_that_writes_no_model_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = silu(tmp_path)
    read = read_onnx(before)
    Path(before).write_bytes(
        model(
            [node("y = my::No(x)")], ["x: f32[B, 64]"], ["y: f32[B, 64]"], domains=["my"]
        ).SerializeToString()
    )
    found = levels_of(read, lambda region: Change.ROUNDING)
    assert all("cannot be run" in level.why for level in found)
    assert not any(level.changes for level in found)


def test_a_runtime_without_a_level_is_asked_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        class GraphOptimizationLevel:
            ORT_DISABLE_ALL = ORT_ENABLE_BASIC = ORT_ENABLE_EXTENDED = ORT_ENABLE_ALL = 0

    monkeypatch.setattr(running, "load_runtime", lambda: Old)
    assert known_levels() == [name for name in LEVELS if name != "layout"]
