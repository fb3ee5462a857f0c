"""Normalisations and softmax: computed in float32 inside, one rounding at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lastbit.importers.aten.operator import NotCoveredError, Operator, Table, inner, operand
from lastbit.importers.aten.sums import moments
from lastbit.importers.expressions import kept, literal, plain, reshaped, summed, times
from lastbit.importers.imported import Size, Value
from lastbit.importers.writer import Step

F32_STEP = 2.0**-23  # the default eps of rms_norm: the distance from 1 to the next float32


def rms_norm(
    step: Step,
    x: Value,
    normalized_shape: Sequence[int | Size],
    weight: Value | None = None,
    eps: float | None = None,
) -> None:
    """State x * rsqrt(mean(x^2) + eps) * weight."""
    wide = inner(x.dtype)
    axes = list(range(x.rank - len(normalized_shape), x.rank))
    square = step.part("square", f"{x.name} * {x.name}", wide, x.dims)
    count = times(x.dims[axis] for axis in axes)
    mean = f"{summed(square.name, x.dims, axes)} / size({count})"
    power = step.part("mean", mean, wide, kept(x.dims, axes), wide)
    number = literal(F32_STEP if eps is None else eps, wide)
    scale = step.part("scale", f"rsqrt(round({power.name} + {number}, {wide}))", wide, power.dims)
    text = f"{x.name} * {scale.name}"
    step.give(text if weight is None else f"round({text}, {wide}) * {weight.name}")


def _normalised(
    step: Step, x: Value, middle: str, spread: str, eps: float, weight: str | None, bias: str | None
) -> str:
    """Return (x - mean) / sqrt(variance + eps) * weight + bias."""
    wide = inner(x.dtype)
    text = f"({x.name} - {middle}) * rsqrt({spread} + {literal(eps, wide)})"
    text = text if weight is None else f"{text} * {weight}"
    return text if bias is None else f"{text} + {bias}"


def layer_norm(
    step: Step,
    x: Value,
    normalized_shape: Sequence[int | Size],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> None:
    """State the layer norm; with three results also the mean and 1 / deviation."""
    axes = list(range(x.rank - len(normalized_shape), x.rank))
    middle, spread = moments(step, x, axes)
    names = [None if one is None else one.name for one in (weight, bias)]
    step.give(_normalised(step, x, middle.name, spread.name, eps, *names))
    if len(step.outs) == 3:
        step.give(middle.name, number=1)
        number = literal(eps, inner(x.dtype))
        step.give(f"rsqrt({spread.name} + {number})", number=2)


def group_norm(
    step: Step,
    x: Value,
    num_groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> None:
    """State the norm over groups of channels."""
    rows, channels, *rest = x.dims
    each = plain(f"({channels}) // {num_groups}")
    dims = (rows, str(num_groups), each, *rest)
    apart = step.part("groups", reshaped(x, dims), x.dtype, dims)
    middle, spread = moments(step, apart, list(range(2, len(dims))))
    shape = (channels, *("1" for _ in rest))
    number = literal(eps, inner(x.dtype))
    text = f"({apart.name} - {middle.name}) * rsqrt({spread.name} + {number})"
    text = reshaped(text, x.dims)
    text = text if weight is None else f"{text} * {reshaped(weight, shape)}"
    step.give(text if bias is None else f"{text} + {reshaped(bias, shape)}")


def batch_norm(
    step: Step,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> None:
    """State the norm by the running statistics."""
    if training or running_mean is None or running_var is None:
        raise NotCoveredError("the norm is in training, by the statistics of the batch")
    shape = (x.dims[1], *("1" for _ in x.dims[2:]))
    names = [None if v is None else reshaped(v, shape) for v in (weight, bias)]
    given = (reshaped(running_mean, shape), reshaped(running_var, shape))
    step.give(_normalised(step, x, *given, eps, *names))


def batch_norm_functional(
    step: Step,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> None:
    """State the norm by the running statistics, as the form without training writes it."""
    if len(step.outs) > 1 and any(out.dims != ("0",) for out in step.outs[1:]):
        raise NotCoveredError("its statistics are results")
    batch_norm(step, x, weight, bias, running_mean, running_var, False, momentum, eps)
    for number in range(1, len(step.outs)):
        step.give("broadcast(0, 0)", number=number)


def _converted(step: Step, x: Value) -> Value:
    """Return a value in the type of the result, which it is brought to before all else."""
    if operand(x, step.out.dtype) == x.name:  # every value of its type is one of the result's
        return replace(x, dtype=step.out.dtype)
    return step.part("cast", x.name, step.out.dtype, x.dims)


def softmax(step: Step, x: Value, dim: int, *_: object, **__: object) -> None:
    """State exp(x - max) / sum of these."""
    x = _converted(step, x)
    axis, wide = x.axis(dim), inner(x.dtype)
    weight = step.part("weights", f"exp({x.name} - max({x.name}, axis={axis}))", wide, x.dims)
    text = f"{weight.name} / sum({weight.name}, axis={axis})"
    step.give(text if step.out.dtype == wide else f"round({text}, {wide})", wide)


def log_softmax(step: Step, x: Value, dim: int, *_: object, **__: object) -> None:
    """State x - max - log(sum exp(x - max))."""
    x = _converted(step, x)
    axis, wide = x.axis(dim), inner(x.dtype)
    away = step.part("away", f"{x.name} - max({x.name}, axis={axis})", wide, x.dims)
    weight = f"round(exp({away.name}), {wide})"
    step.give(f"{away.name} - log(sum({weight}, axis={axis}))", wide)


def logsumexp(step: Step, x: Value, dim: Sequence[int], keepdim: bool = False) -> None:
    """State max + log(sum exp(x - max))."""
    if len(dim) != 1:
        raise NotCoveredError("several axes are given")
    axis, wide = x.axis(dim[0]), inner(x.dtype)
    weight = f"round(exp({x.name} - max({x.name}, axis={axis})), {wide})"
    text = f"log(sum({weight}, axis={axis})) + max({x.name}, axis={axis})"
    step.give(reshaped(text, step.out.dims), wide)


_INSIDE = "f32 inside (sums in an assumed order), rounded once"

NORMS: Table = {
    "aten.rms_norm": Operator(rms_norm, f"x * rsqrt(mean(x^2) + eps) * weight; {_INSIDE}"),
    "aten._fused_rms_norm": Operator(rms_norm, f"x * rsqrt(mean(x^2) + eps) * weight; {_INSIDE}"),
    "aten.layer_norm": Operator(layer_norm, f"two passes; {_INSIDE}"),
    "aten.native_layer_norm": Operator(layer_norm, f"two passes; {_INSIDE}"),
    "aten.group_norm": Operator(group_norm, f"two passes; {_INSIDE}"),
    "aten.batch_norm": Operator(batch_norm, f"in evaluation; {_INSIDE}"),
    "aten._native_batch_norm_legit_no_training": Operator(
        batch_norm_functional, f"in evaluation; {_INSIDE}"
    ),
    "aten.softmax": Operator(softmax, f"exp(x - max) / sum; {_INSIDE}"),
    "aten._softmax": Operator(softmax, f"exp(x - max) / sum; {_INSIDE}"),
    "aten._safe_softmax": Operator(softmax, f"exp(x - max) / sum; {_INSIDE}"),
    "aten.log_softmax": Operator(log_softmax, f"x - max - log(sum exp); {_INSIDE}"),
    "aten._log_softmax": Operator(log_softmax, f"x - max - log(sum exp); {_INSIDE}"),
    "aten.logsumexp": Operator(logsumexp, f"max + log(sum exp); {_INSIDE}"),
}
