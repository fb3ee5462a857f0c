"""Sums, means, extremes and choices along axes.

Sums of narrow formats accumulate in float32 and round once; those of float32 accumulate in it. The
order is not part of torch's contract: `seq` is assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lastbit.importers.aten.operator import NotCoveredError, Operator, Table, inner, operand
from lastbit.importers.expressions import kept, literal, reduced, reshaped, shaped, summed, times
from lastbit.importers.imported import Value, is_float
from lastbit.importers.integers import wraps
from lastbit.importers.writer import Step

Axes = Sequence[int] | int | None

MOMENTS = "lanes(3)"  # the order of the sums of a variance
MOMENTS_ASSUMED = f"the sums of a variance add in an order of their own (`{MOMENTS}`)"
NORM = "lanes(2)"  # the order of the sum of a norm
NORM_ASSUMED = f"the squares of a norm add in fused steps, in an order of their own (`{NORM}`)"
MOST_CHOICES = 16  # k of a top-k that is written as k choices


def axes_of(x: Value, dim: Axes) -> list[int]:
    """Return the axes of a reduction in order; none given means all."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(x.rank))
    return sorted({x.axis(axis) for axis in ([dim] if isinstance(dim, int) else dim)})


def _terms(step: Step, x: Value) -> tuple[str, str | None]:
    """Return the terms of a sum, and the format that they are added up in.

    torch brings them to the type of the result (`dtype=`) before it adds.
    """
    dtype = step.out.dtype
    if not is_float(dtype):
        if is_float(x.dtype):
            raise NotCoveredError(f"{x.dtype} becomes {dtype} before the sum")
        if wraps(dtype):
            raise NotCoveredError(f"a sum in {dtype} may wrap around")
        return x.name, None
    return operand(x, dtype), inner(dtype)


def total(
    step: Step, x: Value, dim: Axes = None, keepdim: bool = False, *, dtype: object = None
) -> None:
    """State the sum along axes, of terms in the type of the result."""
    axes = axes_of(x, dim)
    terms, acc = _terms(step, x)
    text = shaped(summed(terms, x.dims, axes), kept(x.dims, axes), step.out.dims)
    step.give(text, acc if axes else None)


def mean(
    step: Step, x: Value, dim: Axes = None, keepdim: bool = False, *, dtype: object = None
) -> None:
    """State the sum over the number of elements, both in float32, or float64 for itself."""
    axes = axes_of(x, dim)
    terms, acc = _terms(step, x)
    count = times(x.dims[axis] for axis in axes)
    quotient = f"{summed(terms, x.dims, axes)} / size({count})"
    wide = inner(step.out.dtype)
    if step.out.dtype != wide:
        quotient = f"round({quotient}, {wide})"
    text = shaped(quotient, kept(x.dims, axes), step.out.dims)
    step.give(text, acc if axes else None)


def moments(step: Step, x: Value, axes: Sequence[int], unbiased: float = 0) -> tuple[Value, Value]:
    """State mean and variance in float32, in two passes, axes kept with size 1.

    torch updates both with every element (Welford). The sums stand here in an order of their own,
    so that a variance that a program writes out has other bits, as it has in torch.
    """
    step.assume(MOMENTS_ASSUMED)
    wide = inner(x.dtype)
    dims, count = kept(x.dims, axes), times(x.dims[axis] for axis in axes)
    mean = f"{summed(x.name, x.dims, axes)} / size({count})"
    middle = step.part("mean", mean, wide, dims, wide, MOMENTS)
    away = step.part("away", f"{x.name} - {middle.name}", wide, x.dims)
    divisor = f"size({count})" if unbiased == 0 else f"(size({count}) - {literal(unbiased)})"
    square = f"round({away.name} * {away.name}, {wide})"
    spread = f"{summed(square, x.dims, axes)} / {divisor}"
    return middle, step.part("variance", spread, wide, dims, wide, MOMENTS)


def _correction(correction: float | None, unbiased: bool | None) -> float:
    if unbiased is not None:
        return float(unbiased)
    return 1.0 if correction is None else correction


def variance(
    step: Step,
    x: Value,
    dim: Axes | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    root: bool = False,
) -> None:
    """State the variance, or its root."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    _, spread = moments(step, x, axes_of(x, dim), _correction(correction, unbiased))
    text = reshaped(spread, step.out.dims)
    step.give(f"sqrt({text})" if root else text)


def deviation(step: Step, x: Value, *args: object, **keywords: object) -> None:
    """State the standard deviation."""
    variance(step, x, *args, **keywords, root=True)  # type: ignore[arg-type]


def var_mean(
    step: Step,
    x: Value,
    dim: Axes = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> None:
    """State the variance and the mean."""
    middle, spread = moments(step, x, axes_of(x, dim), _correction(correction, unbiased))
    step.give(reshaped(spread, step.outs[0].dims))
    step.give(reshaped(middle, step.outs[1].dims), number=1)


def _extreme(word: str) -> Callable[..., None]:
    def build(step: Step, x: Value, dim: Axes | Value = None, keepdim: bool = False) -> None:
        if isinstance(dim, Value):
            step.give(f"{word}imum({x.name}, {dim.name})")
            return
        axes = axes_of(x, dim)
        dims = kept(x.dims, axes)
        step.give(shaped(reduced(word, x.name, axes), dims, step.out.dims))
        if len(step.outs) > 1:
            sign = "" if word == "max" else "-"
            text = f"argmax({sign}{x.name}, axis={axes[0]})"
            step.give(shaped(text, dims, step.outs[1].dims), number=1)

    return build


def choice(step: Step, x: Value, dim: int | None = None, keepdim: bool = False) -> None:
    """State the index of the largest element."""
    if dim is None:
        flat = step.part("flat", reshaped(x, (times(x.dims),)), x.dtype, (times(x.dims),))
        step.give(reshaped(f"argmax({flat.name}, axis=0)", step.out.dims))
        return
    axis = x.axis(dim)
    text = f"argmax({x.name}, axis={axis})"
    step.give(shaped(text, kept(x.dims, [axis]), step.out.dims))


def choices(
    step: Step,
    x: Value,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,  # noqa: A002
) -> None:
    """State the k largest elements and their indices."""
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= MOST_CHOICES:
        raise NotCoveredError(f"k is {k!r}")
    if not largest:
        raise NotCoveredError("the smallest are chosen")
    axis = x.axis(dim)
    step.give(f"topk({x.name}, {k}, axis={axis})")
    step.give(f"topk_indices({x.name}, {k}, axis={axis})", number=1)


def norm(step: Step, x: Value, ord: object = 2, dim: Axes = None, *_: object, **__: object) -> None:  # noqa: A002
    """State the root of the sum of squares.

    torch adds the squares in an order of its own and rounds only some of them before: of 200 rows
    of 3 elements in float32, 18 differ from `(x * x).sum(-1).sqrt()`, and 1 from fused steps.
    """
    if ord not in (2, None):
        raise NotCoveredError(f"the norm of order {ord}")
    x = replace(x, name=operand(x, step.out.dtype))
    axes, wide = axes_of(x, dim), inner(step.out.dtype)
    step.assume(NORM_ASSUMED)
    dims = kept(x.dims, axes)
    square = summed(f"{x.name} * {x.name}", x.dims, axes)
    # Two lanes of one square each would round both, which torch does not.
    order = "seq" if times(x.dims[axis] for axis in axes) == "2" else NORM
    squares = step.part("squares", square, wide, dims, wide, order)
    step.give(reshaped(f"sqrt({squares.name})", step.out.dims))


def any_of(step: Step, x: Value, dim: Axes = None, *_: object, **__: object) -> None:
    """State whether one element is not 0."""
    truth = x.name if x.dtype == "bool" else f"(1 - ({x.name} == 0))"
    step.give(reshaped(reduced("max", truth, axes_of(x, dim)), step.out.dims))


_NORM = "the root of a sum of squares in f32 (order assumed), rounded once"
_SUM = "accumulated in f32 (order assumed), rounded once"

SUMS: Table = {
    "aten.sum": Operator(total, _SUM),
    "aten.mean": Operator(mean, f"{_SUM}; divided in f32 before"),
    "aten.var": Operator(variance, "two passes in f32 (order assumed), rounded once"),
    "aten.std": Operator(deviation, "two passes in f32 (order assumed), rounded once"),
    "aten.var_mean": Operator(var_mean, "two passes in f32 (order assumed), each rounded once"),
    "aten.linalg_vector_norm": Operator(
        norm, "the root of a sum of squares in f32 (order assumed), rounded once"
    ),
    "aten.norm": Operator(
        norm, "the root of a sum of squares in f32 (order assumed), rounded once"
    ),
    "aten.amax": Operator(_extreme("max"), "the maximum; exact"),
    "aten.amin": Operator(_extreme("min"), "the minimum; exact"),
    "aten.max": Operator(_extreme("max"), "the maximum, and an index that gives it; exact"),
    "aten.min": Operator(_extreme("min"), "the minimum, and an index that gives it; exact"),
    "aten.any": Operator(any_of, "exact"),
    "aten.argmax": Operator(choice, "an index of the maximum, of equal elements any"),
    "aten.topk": Operator(choices, "choices; of equal elements any; beyond k = 16 opaque"),
}
