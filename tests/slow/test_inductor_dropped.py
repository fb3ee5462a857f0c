"""No rounding that a run shows to be gone passes as the same bits.

Every function is compiled by torch here, and both runs are torch's own.
"""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest

from lastbit import cli
from lastbit.importers.inductor.checking import check_compiled
from lastbit.result import Result
from lastbit.tracing.targets import load_targets

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")

FUNCTIONS = """
import torch

def drawn(*shape, seed=0, dtype=torch.bfloat16):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)

def two(dtype=torch.bfloat16, shape=(64, 3)):
    return lambda: (drawn(*shape, dtype=dtype), drawn(*shape, seed=1, dtype=dtype))

def product(x, y): return (x * y).sum(-1)
product.inputs = two()

def summed(x, y): return (x + y).sum(-1)
summed.inputs = two(shape=(8, 64))

def averaged(x, y): return (x * y).mean(-1)
averaged.inputs = two(shape=(8, 64))

def half(x, y): return (x * y).sum(-1)
half.inputs = two(torch.float16, (8, 64))

def largest(x, y): return (x * y).amax(-1)
largest.inputs = two(shape=(8, 64))

def eight(x): return (x * 3).to(torch.float8_e4m3fn).to(torch.bfloat16) * 0.3
eight.inputs = lambda: (drawn(64, 64),)

def literals(x): return x * 1.3 + 2
literals.inputs = lambda: (drawn(64, 64),)

def chosen(x, i): return (x * 1.1)[i] + 1
chosen.inputs = lambda: (drawn(64, 64), torch.tensor([1, 2, 3]))

def casts(x): return (x * 1.1).half().bfloat16()
casts.inputs = lambda: (drawn(64, 64, dtype=torch.float32),)

def numbers(x): return torch.nan_to_num(x * 1.1) + 1
numbers.inputs = lambda: (drawn(8, 64),)

def zeros(x): return x + torch.zeros(8, 8)
zeros.inputs = lambda: (-torch.zeros(8, 8),)

def turned(x): return x.t()
turned.inputs = lambda: (drawn(8, 8),)

def dropout(x): return torch.nn.functional.dropout(x * 1.1, 0.5) + 1
dropout.inputs = lambda: (drawn(64, 64),)

def scattered(x, i):
    y = torch.zeros(32, 8, dtype=torch.bfloat16)
    y[i] = x * 1.1 + 1
    return y * 2
scattered.inputs = lambda: (drawn(4, 8), torch.tensor([1, 5, 7, 9]))
"""


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of functions of torch."""
    file = tmp_path_factory.mktemp("functions") / "functions.py"
    file.write_text(FUNCTIONS)
    return file


def _result(functions: Path, name: str) -> Result:
    (target,) = load_targets(f"{functions}:{name}")
    return check_compiled(name, target)


def _said(result: Result, start: str) -> list[str]:
    return [f.message for f in result.findings if f.message.startswith(start)]


def _dropped(result: Result) -> list[str]:
    return sorted({f.message.split("`")[1] for f in result.findings if f.code == "FUS102"})


@pytest.mark.parametrize(
    ("name", "dropped", "of"),
    [
        ("product", ["mul"], 64),
        ("summed", ["add"], 8),
        ("averaged", ["mul"], 8),
        ("half", ["mul"], 8),
        ("eight", ["mul"], 4096),
        ("literals", ["mul"], 4096),
        ("chosen", ["index", "mul"], 192),
        ("casts", ["convert_element_type"], 4096),
    ],
)
def test_a_rounding_that_is_gone_is_named_and_changes_the_rounding(
    functions: Path, name: str, dropped: list[str], of: int
) -> None:
    (target,) = load_targets(f"{functions}:{name}")
    args = target.inputs()
    with warnings.catch_warnings():  # torch warns of itself when it is loaded
        warnings.simplefilter("ignore")
        torch._dynamo.reset()
        eager, compiled = target(*args), torch.compile(target)(*args)
        torch._dynamo.reset()
    differing = int((eager != compiled).sum())
    assert eager.numel() == of
    assert differing > 0
    result = _result(functions, name)
    assert {step.change for step in result.steps} == {"rounding"}
    assert _dropped(result) == dropped
    assert _said(result, "eager against compiled") == [
        f"eager against compiled, on the inputs given: {differing:,} of {of:,} elements differ"
    ]
    assert _said(result, "the prediction for") == []


@pytest.mark.parametrize("name", ["eight", "literals"])
def test_two_roundings_of_a_store_are_predicted_bit_for_bit(functions: Path, name: str) -> None:
    result = _result(functions, name)
    assert _said(result, "run compiled") == [
        "run compiled: 1 of 1 values that were predicted, bit for bit"
    ]


def test_a_maximum_takes_no_other_bits_from_what_is_not_rounded(functions: Path) -> None:
    result = _result(functions, "largest")
    assert [step.change for step in result.steps] == ["bitwise"]
    assert _dropped(result) == ["mul"]
    assert "0 of 8 elements differ" in _said(result, "eager against compiled")[0]


def test_what_tests_for_nan_is_left_out_of_the_prediction(functions: Path) -> None:
    result = _result(functions, "numbers")
    assert _dropped(result) == ["mul"]  # not the numbers that take the place of infinities
    assert _said(result, "run operator by operator")


def test_a_graph_that_only_moves_elements_is_compared(functions: Path) -> None:
    assert _result(functions, "turned").steps == ()
    result = _result(functions, "zeros")  # -0.0 + 0.0 is 0.0, and Inductor takes x
    (step,) = result.steps
    assert step.change == "bitwise"
    assert [entry.kind for entry in step.domain] == ["signed-zero"]
    assert "64 of 64 elements differ" in _said(result, "eager against compiled")[0]


def test_random_numbers_are_the_reason_for_other_results_of_a_second_run(functions: Path) -> None:
    texts = _said(_result(functions, "dropout"), "the kernels gave other results")
    assert texts == [
        "the kernels gave other results when they were run again: they draw random numbers anew"
    ]


def test_what_is_scattered_in_place_is_not_held_against_what_was_there(functions: Path) -> None:
    assert _said(_result(functions, "scattered"), "the prediction for") == []


def test_a_difference_that_nothing_explains_fails(
    functions: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from lastbit.importers.inductor import reading

    class Nothing:
        """Takes every value for rounded: what a defect of the reader would come to."""

        def __init__(self, *_: object) -> None:
            self.assumed: set[tuple[str, str]] = set()

        def __call__(self, reader: str, read: str) -> bool:
            return False

    monkeypatch.setattr(reading, "Unrounded", Nothing)
    assert cli.run(["check", f"{functions}:literals", "--compile"]) == 1
    shown = capsys.readouterr().out
    assert "a difference that nothing explains" in shown
    assert "differ, and no rounding is dropped: the cause is not known" in shown
