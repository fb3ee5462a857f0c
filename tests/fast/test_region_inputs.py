"""The inputs of a region are drawn apart only where nothing relates them."""

from __future__ import annotations

import pytest

from lastbit.importers.inductor.comparing import compare_chain
from lastbit.importers.inductor.passes import Chain, Stage

TYPES = {"wide": "f32[8, 8]", "row": "f32[8, 1]", "yes": "b8[8, 8]", "all": "b8[8, 1]"}


def _graph(lines: dict[str, str], result: str) -> str:
    """Return a graph of `x` in bf16 as torch.fx prints it; a name's prefix says the type."""

    def typed(name: str) -> str:
        return f'{name}: "{TYPES.get(name.partition("_")[0], "bf16[8, 8]")}"'

    body = [f"        {typed(name)} = torch.ops.{call}" for name, call in lines.items()]
    head = f"class g(torch.nn.Module):\n    def forward(self, {typed('x')}):"
    return "\n".join([head, *body, f"        return ({result},)"])


def _softmax(by: str) -> str:
    lines = {
        "mul": f"aten.mul.Tensor(x, {by})",
        "wide_mul": "prims.convert_element_type.default(mul, torch.float32)",
        "row_max": "aten.amax.default(wide_mul, [-1], True)",
        "wide_sub": "aten.sub.Tensor(wide_mul, row_max)",
        "wide_exp": "aten.exp.default(wide_sub)",
    }
    return _graph(lines, "wide_exp")


def _scaled_late(by: str, real: str) -> str:
    """Return what Inductor's pass for a scaled softmax makes of it, or another scale."""
    lines = {
        "mul": f"aten.mul.Tensor(x, {by})",
        "wide_mul": "prims.convert_element_type.default(mul, torch.float32)",
        "wide_x": "prims.convert_element_type.default(x, torch.float32)",
        "row_x": "aten.amax.default(wide_x, [-1], True)",
        "wide_less": "aten.sub.Tensor(wide_x, row_x)",
        "wide_late": f"aten.mul.Tensor(wide_less, {real})",
        "row_max": "aten.amax.default(wide_mul, [-1], True)",
        "wide_sub": "aten.sub.Tensor(wide_mul, row_max)",
        "wide_abs": "aten.abs.default(wide_mul)",
        "yes_finite": "aten.ne.Scalar(wide_abs, inf)",
        "yes_number": "aten.eq.Tensor(wide_mul, wide_mul)",
        "yes_both": "aten.mul.Tensor(yes_number, yes_finite)",
        "yes_bad": "aten.logical_not.default(yes_both)",
        "all_bad": "aten.any.dims(yes_bad, [-1], True)",
        "all_good": "aten.logical_not.default(all_bad)",
        "wide_where": "aten.where.self(all_good, wide_late, wide_sub)",
        "wide_exp": "aten.exp.default(wide_where)",
    }
    return _graph(lines, "wide_exp")


@pytest.mark.parametrize(
    ("by", "real", "change"),
    [
        ("0.25", "0.25", None),  # a power of two is exact wherever it stands: no step
        ("0.3", "0.3", "rounding"),
        ("0.25", "0.5", "math"),  # another function, not one that looks like it
    ],
)
def test_a_scale_behind_the_maximum_is_the_same_function(
    by: str, real: str, change: str | None
) -> None:
    stage = Stage("the joint pass `a`", _scaled_late(by, real))
    found = compare_chain(Chain("joint", _softmax(by), [stage]), "f.py:f")
    assert [step.change for step in found.steps] == ([] if change is None else [change])
    for step in found.steps:
        assert step.witness is not None
        assert list(step.witness.inputs) == ["x"]  # what the user gives, nothing in between
        assert step.domain == ()


@pytest.mark.parametrize(
    ("other", "change"), [("wide_add, 3", "rounding"), ("wide_add, 4", "math")]
)
def test_a_value_and_what_is_made_of_it_are_no_two_inputs(other: str, change: str) -> None:
    made = {
        "wide_x": "prims.convert_element_type.default(x, torch.float32)",
        "wide_two": "aten.mul.Tensor(wide_x, 2)",
    }
    # Both sides read both values, and only 2 x - x = (x + 2 x) / 3 makes them one function.
    before = made | {"wide_out": "aten.sub.Tensor(wide_two, wide_x)"}
    after = made | {"wide_add": "aten.add.Tensor(wide_x, wide_two)"}
    after |= {"wide_out": f"aten.div.Tensor({other})"}
    stage = Stage("the joint pass `a`", _graph(after, "wide_out"))
    (step,) = compare_chain(Chain("joint", _graph(before, "wide_out"), [stage]), "f.py:f").steps
    assert step.change == change
