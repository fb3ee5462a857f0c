"""Elementwise operators of three values: multiply or divide and add, and the way between two.

torch computes them in float32 (float64 for itself) with one fused multiply-add, and rounds that to
the narrower format. Which step is the fused one was found by running torch 2.13 on a CPU, where no
element of 20,000 differs, of float32, bfloat16 and float16.
"""

from __future__ import annotations

from fractions import Fraction

from lastbit.formats import format_of
from lastbit.importers.aten.operator import (
    NotCoveredError,
    Operator,
    Scalar,
    Table,
    common,
    inner,
    number,
    operand,
)
from lastbit.importers.expressions import literal
from lastbit.importers.imported import Value, is_float
from lastbit.importers.writer import Step
from lastbit.rounding import Rounding, round_exact


def _floats(step: Step, *xs: object) -> list[str]:
    """Return the arguments as they take part, all of the type of the result."""
    if not is_float(step.out.dtype):
        raise NotCoveredError("the values are integers")
    return [operand(x, common(*xs)) for x in xs]


def by_wide(step: Step, text: str) -> str:
    """Return an expression that is rounded to the format that torch computes in before all else."""
    dtype = step.out.dtype
    return text if inner(dtype) == dtype else f"round({text}, {inner(dtype)})"


def _scaled(step: Step, x: str, value: Scalar) -> str:
    """Return value * x, which torch rounds before it goes on."""
    if value == 1:
        return x
    if step.device != "cpu":
        raise NotCoveredError("the order of its steps on a GPU is not known")
    wide = inner(step.out.dtype)
    return f"round({x} * {literal(number(value), wide)}, {wide})"


def addcmul(step: Step, x: Value, tensor1: Value, tensor2: Value, *, value: Scalar = 1) -> None:
    """State x + (value * tensor1) * tensor2; the last product and the sum are one fused step."""
    a, b, c = _floats(step, x, tensor1, tensor2)
    step.give(by_wide(step, f"{a} + {_scaled(step, b, value)} * {c}"))


def addcdiv(step: Step, x: Value, tensor1: Value, tensor2: Value, *, value: Scalar = 1) -> None:
    """State x + (value * tensor1) / tensor2; the quotient is rounded."""
    a, b, c = _floats(step, x, tensor1, tensor2)
    wide = inner(step.out.dtype)
    step.give(by_wide(step, f"{a} + round({_scaled(step, b, value)} / {c}, {wide})"))


def lerp(step: Step, x: Value, end: Value, weight: object) -> None:
    """State x + weight * (end - x), or from a half on end - (end - x) * (1 - weight)."""
    if isinstance(weight, Value):
        a, b, w = _floats(step, x, end, weight)
    else:
        a, b = _floats(step, x, end)
    wide, dims = inner(step.out.dtype), step.out.dims
    way = step.part("way", f"{b} - {a}", wide, dims).name
    if isinstance(weight, Value):
        rest = step.part("rest", f"1 - {w}", wide, weight.dims).name
        near = step.part("near", f"{a} + {w} * {way}", wide, dims).name
        far = step.part("far", f"{b} - {way} * {rest}", wide, dims).name
        step.give(f"select(abs({w}) < 0.5, {near}, {far})")
        return
    rounding = Rounding.of(format_of(wide))
    share = Fraction(round_exact(Fraction(number(weight)), rounding))
    if abs(share) < Fraction(1, 2):
        text = f"{a} + {way} * {literal(share, wide)}"
    else:
        text = f"{b} - {way} * {literal(1 - share, wide)}"
    step.give(by_wide(step, text))


_FUSED = "f32 inside with one fused step, rounded once"

BLENDS: Table = {
    "aten.addcmul": Operator(addcmul, f"x + (value * a) * b; {_FUSED}"),
    "aten.addcdiv": Operator(addcdiv, f"x + (value * a) / b; {_FUSED}"),
    "aten.lerp": Operator(lerp, f"x + w (y - x), from w = 0.5 on y - (y - x)(1 - w); {_FUSED}"),
}
