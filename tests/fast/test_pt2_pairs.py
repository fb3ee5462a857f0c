"""Exported pairs in which an opaque operator, a write or a constant differs are no clean checks.

`tests/slow/test_pt2_pairs.py` holds more of them, each beside what torch computes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from paired import compared, saved, worst  # noqa: E402  needs torch

from lastbit.importers.pt2 import read_pt2  # noqa: E402  after the check for torch
from lastbit.importers.pt2.storage import functional, written  # noqa: E402
from lastbit.plan_imports import notes_of, plan_of_model  # noqa: E402

X = torch.ones(2, 2)


def test_an_opaque_operator_is_another_with_other_arguments(tmp_path: Path) -> None:
    result = compared(tmp_path, lambda x: x.cumsum(-1) + 1, lambda x: x.cumsum(0) + 1, (X,))
    assert worst(result) == "unknown"


def test_a_write_through_a_view_changes_what_is_read(tmp_path: Path) -> None:
    def zeroed(x: Any) -> Any:
        y = x * 2
        y[0].zero_()
        return y * 3

    assert worst(compared(tmp_path, zeroed, lambda x: x * 2 * 3, (X,))) == "unknown"


def test_operators_in_place_are_read_as_what_they_compute(tmp_path: Path) -> None:
    model = read_pt2(saved(tmp_path / "a.pt2", lambda x: (x * 2).relu_().add_(x), (X,)))
    assert not model.opaque
    assert [st.expr for st in model.program.statements[1:]] == [
        "args_0 * 2",
        "relu(mul)",
        "relu + args_0",
    ]


def test_results_that_are_opaque_or_inputs_are_results(tmp_path: Path) -> None:
    model = read_pt2(saved(tmp_path / "a.pt2", lambda x: (x, x.cumsum(0)), (X,)))
    assert model.results == ("args_0_result", "cumsum_result")
    notes = list(notes_of(plan_of_model(str(tmp_path / "a.pt2"))))
    assert notes[0].message == "aten.cumsum is known by its name only: `cumsum`"


def test_a_constant_of_one_element_is_a_number(tmp_path: Path) -> None:
    constant = torch.tensor(0.1, dtype=torch.bfloat16)
    model = read_pt2(saved(tmp_path / "a.pt2", lambda x: x * constant.clone(), (X.bfloat16(),)))
    assert "'0x1.9a00000000000p-4'" in [st.expr for st in model.program.statements]  # 0x3dcd


def test_complex_values_are_opaque(tmp_path: Path) -> None:
    model = read_pt2(saved(tmp_path / "a.pt2", lambda x: x * 2, (X.to(torch.complex64),)))
    assert [one.operator for one in model.opaque] == ["aten.mul"]


@pytest.mark.parametrize(
    ("target", "outs", "found"),
    [
        ("torch.ops.aten.add_.Tensor", 1, ["a"]),
        ("torch.ops.aten.add.Tensor", 1, []),
        ("torch.ops.aten.add.out", 1, ["c"]),
        ("torch.ops.aten.__iand__.Tensor", 1, ["a"]),
        ("torch.ops.aten.__and__.Tensor", 1, []),
        ("torch.ops.aten.detach_.default", 1, []),
        ("torch.ops.mylib.write.default", 0, ["a", "b", "c"]),
        ("torch.ops.aten._foreach_mul_.Scalar", 3, ["a", "b", "c"]),
    ],
)
def test_what_an_operator_writes_to(target: str, outs: int, found: list[str]) -> None:
    assert written(target, outs, [("self", "a"), ("other", "b"), ("out", "c")]) == found


def test_an_operator_in_place_has_a_functional_form() -> None:
    assert functional("torch.ops.aten.add_.Tensor") == "torch.ops.aten.add.Tensor"
    assert functional("torch.ops.aten.__iand__.Tensor") == "torch.ops.aten.__and__.Tensor"
