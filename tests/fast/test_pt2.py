"""Graphs of torch.export are read without torch: values, places, sizes, verdicts.

The files in `tests/data/pt2` are those that `tests/make_pt2.py` made with torch 2.13.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pt2_models import DATA, FUSED, LAYER, run

from lastbit.importers.pt2 import read_pt2
from lastbit.importers.pt2.sizes import SizeError, size_text
from lastbit.plan_imports import plan_of_model
from lastbit.plan_sizes import with_shrinking_sizes
from lastbit.printing import print_program


def test_a_node_becomes_a_statement_with_torchs_roundings() -> None:
    text = print_program(read_pt2(LAYER).program)
    assert "p_gate_weight: bf16[128, 64]\n" in text
    assert "mean_3: f32 = sum(pow_4, axis=2) / size(64) acc f32 seq\n" in text
    assert "to_7: bf16 = mul_10\n" in text
    assert "silu: bf16 = round(silu(linear_4), f32)\n" in text
    assert text.endswith("return add_7\n")


def test_values_keep_their_line_and_their_module() -> None:
    model = read_pt2(LAYER)
    origin = model.origins["linear_4"]
    assert (origin.operator, origin.module) == ("aten.linear", "gate")
    assert str(origin.place) == "examples/models/qwen3_layer.py:96"
    assert model.program.place("linear_4") == origin.place


def test_open_sizes_are_symbols_with_their_ranges() -> None:
    model = read_pt2(LAYER)
    ((name, span),) = model.symbols.items()
    assert (span.low, span.high, span.typical) == (1, 1024, 2)
    assert model.batch == name
    assert model.weights["p_gate_weight"] == "gate.weight"


def test_sizes_that_hang_together_shrink_together() -> None:
    plan = with_shrinking_sizes(plan_of_model(LAYER))
    text = print_program(plan.program)
    assert "p_gate_weight: bf16[size_128, 4 * size_16]" in text.replace("(2 * size_8)", "size_16")
    assert set(plan.symbols) == {*read_pt2(LAYER).symbols, "size_8", "size_128"}


def test_a_fused_norm_drops_a_rounding(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run(capsys, "check", LAYER, FUSED)
    assert code == 0
    assert "tests/make_pt2.py:36  difference at `mul_11`" in text
    assert "decided 1 of 1 step; 1 rounding;" in text


def test_a_model_equals_itself(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run(capsys, "check", LAYER, LAYER, "--max-change", "bitwise")
    assert code == 0
    assert "no steps" in text


def test_a_budget_is_held_against_models(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run(capsys, "check", LAYER, FUSED, "--max-change", "reassociation")
    assert code == 1
    assert "is a change of `rounding`; the budget allows `reassociation`" in text


def test_a_plan_transforms_an_imported_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(LAYER, tmp_path / "layer.pt2")
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'schema = 1\n[graph]\nimport = "layer.pt2"\n'
        '[[transform]]\nrule = "drop-rounding"\nat = ["silu"]\n'
    )
    code, text = run(capsys, "lint", str(plan))
    assert code == 0
    assert "FUS102 drop-rounding at `silu`" in text
    assert "decided 1 of 1 step; 1 rounding;" in text


def test_a_plan_compares_two_imported_graphs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(LAYER, tmp_path / "a.pt2")
    shutil.copy(FUSED, tmp_path / "b.pt2")
    plan = tmp_path / "plan.toml"
    plan.write_text('schema = 1\n[graph]\nimport = "a.pt2"\n[after]\nimport = "b.pt2"\n')
    code, text = run(capsys, "lint", str(plan))
    assert code == 0
    assert "difference at `mul_11`" in text


@pytest.mark.parametrize(
    ("graph", "wrong"),
    [
        ('import = "../layer.pt2"', "'../layer.pt2' lies outside of the plan's folder"),
        ('import = "layer.bin"', "'layer.bin' is no model file"),
        ('import = "absent.pt2"', "cannot be read: No such file or directory"),
        ('import = "a.pt2"\ntext = "x: f32[2]"', "a graph has a `text` or an `import`, not both"),
    ],
)
def test_an_import_that_cannot_be_is_refused(
    graph: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(LAYER, tmp_path / "a.pt2")
    plan = tmp_path / "plan.toml"
    plan.write_text(f"schema = 1\n[graph]\n{graph}\n")
    code, text = run(capsys, "lint", str(plan))
    assert code == 2
    assert wrong in text


def test_an_opaque_operator_is_named_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run(capsys, "lint", str(DATA / "moe_layer.pt2"))
    assert code == 0
    line = "examples/models/moe_layer.py:37  FUS190 note: aten.scatter is known by its name only"
    assert line in text
    assert "20 of 21 values are read" in text


def test_what_an_opaque_operator_makes_of_a_difference_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(DATA / "moe_layer.pt2", tmp_path / "moe.pt2")
    plan = tmp_path / "plan.toml"
    text = (
        'schema = 1\n[graph]\nimport = "moe.pt2"\n'
        '[[transform]]\nrule = "drop-rounding"\nat = ["linear"]\n'
    )
    plan.write_text(text)
    code, shown = run(capsys, "lint", str(plan))
    assert code == 1
    assert "FUS190: aten.scatter reads" in shown
    plan.write_text(
        text + '[[allow]]\ncode = "FUS190"\nat = "scatter"\nreason = "it copies what it is given"\n'
    )
    code, shown = run(capsys, "lint", str(plan))
    assert code == 0
    assert "allowed: it copies what it is given" in shown


def test_lint_of_a_model_imports_no_torch() -> None:
    code = (
        "import sys; from lastbit import cli; code = cli.run(['lint', sys.argv[1]]); "
        "assert 'torch' not in sys.modules; sys.exit(code)"
    )
    subprocess.run([sys.executable, "-c", code, LAYER], check=True, capture_output=True)


def test_reading_a_model_imports_no_numpy() -> None:
    code = (
        "import sys; from lastbit.importers.pt2 import read_pt2; read_pt2(sys.argv[1]); "
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, LAYER], check=True)


def test_ops_lists_contracts(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run(capsys, "ops", "silu", "--format", "json")
    assert code == 0
    families = json.loads(text)["families"]
    contract = "x * sigmoid(x); computed in f32, rounded once"
    assert families["torch pointwise"] == {"aten.silu": contract}


def test_ops_says_in_one_line_that_an_operator_is_not_covered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, text = run(capsys, "ops", "cumsum")
    line = "'cumsum' is not covered: in a model it is opaque, equal on equal inputs\n"
    assert (code, text) == (1, line)
    code, text = run(capsys, "ops", "cumsum", "--format", "json")
    assert (code, set(map(len, json.loads(text)["families"].values()))) == (1, {0})


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("Symbol('s77', positive=True, integer=True)", "s77"),
        ("Mul(Integer(2), Symbol('s0'))", "2 * s0"),
        ("Add(Symbol('s0'), Integer(-1))", "s0 + -1"),
        ("FloorDiv(Symbol('s0'), Integer(2))", "s0 // 2"),
        ("Max(Integer(1), Symbol('u0'))", "max(1, u0)"),
        ("Integer(7)", "7"),
    ],
)
def test_sizes_are_read_as_sympy_writes_them(given: str, read: str) -> None:
    assert size_text(given) == read


@pytest.mark.parametrize(
    "given",
    ["__import__('os')", "Symbol('a b')", "exp(Symbol('x'))", "(" * 500, "'x'", "1.5", "[1]"],
)
def test_what_is_no_size_is_refused(given: str) -> None:
    with pytest.raises(SizeError):
        size_text(given)
