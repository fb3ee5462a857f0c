"""`check F.py:f --compile` explains bit for bit what Inductor makes of a function here."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from lastbit import cli
from lastbit.errors import InputError
from lastbit.importers.inductor.capture import captured
from lastbit.importers.inductor.checking import check_compiled
from lastbit.importers.inductor.reading import read_graph_folder
from lastbit.importers.inductor.running import Runs
from lastbit.importers.torch_calls import resolve
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import results
from lastbit.interpret.policy import Policy
from lastbit.tracing.targets import load_targets

torch = pytest.importorskip("torch")
compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")

LAYER = Path(__file__).parents[2] / "examples/models/qwen3_layer.py"
FUNCTIONS = """
import torch

def three(x, r, w):
    return (x + r) + w

three.inputs = {"x": "bf16[1024, 1024]", "r": "bf16[1024, 1024]", "w": "bf16[1024, 1024]"}

def exact(x, r, w):
    s = (x + r).sqrt() / w
    return s, (s * r - x).to(torch.float16)

exact.inputs = {
    "x": "bf16[256, 64] uniform(0, 1)", "r": "bf16[256, 64] uniform(0, 1)",
    "w": "bf16[256, 64] uniform(1, 2)",
}

def trained(x, w):
    return (torch.nn.functional.silu(x) * w + x) * w

trained.inputs = (torch.randn(64, 64).bfloat16().requires_grad_(), torch.randn(64, 64).bfloat16())

def rounded(x, r, w):
    return torch.nn.functional.silu(x * r) * w

def unrounded(x, r, w):
    return (torch.nn.functional.silu((x * r).float()) * w.float()).to(torch.bfloat16)

rounded.inputs = {"x": "bf16[8, 64]", "r": "bf16[8, 64]", "w": "bf16[8, 64]"}

def alone(x):
    return x + x

def failing(x):
    raise ValueError("not today")

failing.inputs = {"x": "bf16[8]"}
"""


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    """Return a file of functions of torch."""
    file = tmp_path / "functions.py"
    file.write_text(FUNCTIONS)
    return file


@compiler
def test_a_million_sums_are_predicted_for_both_runs(functions: Path) -> None:
    (three,) = load_targets(f"{functions}:three")
    target = resolve("three", three)
    with captured(target) as found:
        reading = read_graph_folder(found.graphs[0].folder)
        given = {f"arg{i}_1": found.graphs[0].eager[f"arg{i}_1"].double().numpy() for i in range(3)}
        programs = (reading.before.program, reading.after.program)
        for program, run in zip(programs, (found.eager, found.compiled), strict=True):
            result = results(program.bind({}), ArrayDomain(given), Policy.BITS)["add_1"]
            want = run[0].double().numpy()
            assert values_of(result).tobytes() == want.tobytes()
        # By hand, in torch: with the rounding of the first sum, and without.
        x, r, w = target.args
        assert torch.equal(found.compiled[0], ((x.float() + r.float()) + w.float()).bfloat16())
        differing = int((found.eager[0] != found.compiled[0]).sum())
    assert 200_000 < differing < 260_000  # 22 %


@compiler
def test_exact_functions_are_predicted_bit_for_bit(functions: Path) -> None:
    (exact,) = load_targets(f"{functions}:exact")
    with captured(resolve("exact", exact)) as found:
        graph = found.graphs[0]
        runs = Runs(read_graph_folder(graph.folder), graph)
    assert len(runs.before) == 6
    assert len(runs.after) == 2
    for held in (*runs.before.values(), *runs.after.values()):
        assert (held.differing, held.functions) == (0, ())


@compiler
def test_a_layer_is_explained_kernel_by_kernel_and_emulation_leaves_nothing() -> None:
    (build,) = load_targets(f"{LAYER}:build")
    result = check_compiled("layer", build)
    assert {step.change for step in result.steps} == {"rounding"}
    names = {f.message.split("`")[1] for f in result.findings if f.code == "FUS102"}
    assert len(names) == 12
    assert {f.severity for f in result.findings} == {"warning", "note"}
    texts = [f.message for f in result.findings if f.message.startswith("run compiled")]
    assert texts == ["run compiled: 8 of 8 values that were predicted, bit for bit"]
    emulated = check_compiled("layer", build, emulate=True)
    assert emulated.steps == ()
    texts = [f.message for f in emulated.findings if f.message.startswith("eager against")]
    assert texts == ["eager against compiled, on the inputs given: 0 of 1,024 elements differ"]


@compiler
def test_the_backward_graph_is_checked_where_gradients_are_wanted(functions: Path) -> None:
    (trained,) = load_targets(f"{functions}:trained")
    with captured(resolve("trained", trained)) as found:
        assert len(found.graphs) == 2
        for graph in found.graphs:
            runs = Runs(read_graph_folder(graph.folder), graph)
            assert runs.before
            assert runs.unconfirmed() == []
        assert len(found.compiled) == 2  # the result, and the gradient of x
    result = check_compiled("trained", trained)
    assert any(step.id.startswith("graph-2.") for step in result.steps)


@compiler
def test_the_command_names_the_line_and_fails_a_budget(
    functions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["check", f"{functions}:three", "--compile", "--max-change", "bitwise"]
    assert cli.run(arguments) == 1
    shown = capsys.readouterr().out
    line = FUNCTIONS.splitlines().index("    return (x + r) + w") + 1
    assert f"functions.py:{line}" in shown
    assert "`add` is no longer rounded to bf16 before `add_1`, in cpp_fused_add_0" in shown
    assert "1 of 1 values bit for bit (1,048,576 elements)" in shown


@compiler
def test_the_backend_reports_and_gives_what_inductor_gives(
    capfd: pytest.CaptureFixture[str],
) -> None:
    from lastbit.importers.inductor.backend import compile_and_report

    def both(x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        return (x + r) * r

    inputs = [torch.randn(32, 32).bfloat16() for _ in range(2)]
    found = torch.compile(both, backend=compile_and_report)(*inputs)
    torch._dynamo.reset()
    assert torch.equal(found, torch.compile(both)(*inputs))
    assert "FUS102: `add` is no longer rounded to bf16 before `mul`" in capfd.readouterr().err


def test_two_functions_of_torch_are_exported_and_compared(
    functions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["check", f"{functions}:rounded", f"{functions}:unrounded"]) == 0
    shown = capsys.readouterr().out
    assert "rounding" in shown.splitlines()[0]
    assert ".pt2" not in shown


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("alone", "has no inputs. Give it an attribute `inputs`"),
        ("failing", "not today"),
    ],
)
def test_what_cannot_be_called_is_said(
    functions: Path, name: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["check", f"{functions}:{name}", "--compile"]) == 2
    shown = capsys.readouterr().err
    assert text in shown
    assert "Traceback" not in shown


def test_a_missing_compiler_is_said(functions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    (three,) = load_targets(f"{functions}:three")
    with pytest.raises(InputError, match="no C\\+\\+ compiler is found"):
        check_compiled("three", three)


def test_inputs_are_drawn_from_the_seed(functions: Path) -> None:
    (three,) = load_targets(f"{functions}:three")
    first, again, other = (resolve("three", three, seed=seed).args for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    assert np.isfinite(first[0].float().numpy()).all()
