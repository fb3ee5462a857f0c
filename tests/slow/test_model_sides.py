"""What a report on two models says of each: places, names, symbols, and what cannot be compared."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from pt2_models import FUSED, LAYER, run

from lastbit.importers.pt2 import read_pt2
from lastbit.plan_imports import plan_of_models, sides


def test_both_sides_are_named_with_their_lines() -> None:
    plan = plan_of_models(LAYER, FUSED)
    same = next(st.name for st in plan.program.statements if st.name.startswith("silu"))
    assert sides(plan, [same]) is None
    after = {name: origin for name, origin in plan.imports[1].origins.items() if origin.place.line}
    before = plan.imports[0].origins
    name = next(
        name
        for name, origin in after.items()
        if name in before and before[name].place.line
        if (before[name].original, before[name].place) != (origin.original, origin.place)
    )
    one, other = before[name], after[name]
    assert one.module.endswith("inner_norm")
    assert sides(plan, [name]) == (
        f"before: `{one.original}` (`inner_norm`, {one.place.file}:{one.place.line}); "
        f"after: `{other.original}` (`inner_norm`, {other.place.file}:{other.place.line})"
    )


def test_a_value_of_one_side_only_is_none_of_the_other() -> None:
    plan = plan_of_models(LAYER, FUSED)
    assert plan.after is not None
    known = {st.name for st in plan.program.statements}
    new = next(st.name for st in plan.after.statements if st.name not in known)
    text = sides(plan, [new])
    assert text is not None
    assert text.startswith("before: none of them; after: `")


def test_a_line_of_code_that_torch_made_is_no_place(tmp_path: Path) -> None:
    name = "qwen3_layer/models/model.json"
    with zipfile.ZipFile(LAYER) as stored:
        model = json.loads(stored.read(name))
    node = next(n for n in model["graph_module"]["graph"]["nodes"] if "silu" in n["target"])
    node["metadata"]["stack_trace"] = (
        'File "model.py", line 7, in forward\n  x\n'
        'File "<eval_with_key>.35", line 9, in forward\n  y\n'
    )
    path = tmp_path / "made.pt2"
    with zipfile.ZipFile(path, "w") as stored:
        stored.writestr(name, json.dumps(model))
    assert str(read_pt2(str(path)).origins["silu"].place) == "model.py:7"


def test_an_unknown_symbol_says_which_there_are_and_of_what(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = read_pt2(LAYER)
    ((symbol, _),) = model.symbols.items()
    code, text = run(capsys, "check", LAYER, LAYER, "--batch", "rows")
    assert code == 2
    assert text.startswith(
        f"no size has the symbol 'rows'. Allowed: {symbol}. A .pt2 file does not"
    )
    st = next(st for st in model.program.statements if symbol in map(str, st.dims or ()))
    axis = [str(dim) for dim in st.dims or ()].index(symbol)
    assert f"`{symbol}` is axis {axis} of `{st.name}`." in text


@pytest.mark.parametrize("order", [(LAYER, "idea.py:f"), ("idea.py:f", LAYER)])
def test_a_model_and_a_function_are_not_compared(
    order: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = run(capsys, "check", *order)
    assert code == 2
    assert f"{LAYER!r} is a model, and 'idea.py:f' is none. Both must be models" in text


def test_a_folder_named_as_a_model_is_no_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for suffix in (".pt2", ".onnx"):
        folder = tmp_path / f"model{suffix}"
        folder.mkdir()
        code, text = run(capsys, "lint", str(folder))
        assert code == 2
        assert f"model{suffix}: this is a folder, no model" in text
        assert "Name a model's file, or a debug folder." in text


def test_what_is_assumed_is_said_of_each_model(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run(capsys, "check", LAYER, FUSED)
    assert code == 0
    for path in (LAYER, FUSED):
        assert any(
            line.startswith(f"{path}  FUS191") and "sums add from left to right" in line
            for line in text.splitlines()
        )
