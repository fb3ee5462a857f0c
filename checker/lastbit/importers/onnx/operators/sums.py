"""Matrix products, reductions and softmax."""

from __future__ import annotations

from collections.abc import Sequence

from lastbit.importers.expressions import (
    broadcast_dims,
    kept,
    plain,
    product_text,
    reduced,
    reshaped,
    summed,
    times,
    transposed,
)
from lastbit.importers.imported import Value, is_float
from lastbit.importers.integers import wraps
from lastbit.importers.onnx import sizes
from lastbit.importers.onnx.call import Call, NotModelledError
from lastbit.importers.onnx.constants import exact, rounded_literal
from lastbit.importers.onnx.operators.elementwise import Build, inner

ACCUMULATED = "ONNX names no accumulator: products and sums of f16 and bf16 add in f32"


def accumulator(call: Call, dtype: str) -> str | None:
    """Return the format in which sums of a type are added; None for integers, which are exact."""
    if not is_float(dtype):
        return None
    if inner(dtype) != dtype:
        call.assume(ACCUMULATED)
    return inner(dtype)


def matmul(call: Call) -> None:
    """Give the matrix product, as numpy.matmul does."""
    a, b = call.x(0), call.x(1)
    text, dims = product(call, a, b)
    call.give(text, dims, acc=accumulator(call, a.dtype))


def product(call: Call, a: Value, b: Value, swapped: bool = False) -> tuple[str, tuple[str, ...]]:
    """Return a matrix product and its sizes; a vector is a row on the left, a column on the right.

    Raises:
        NotModelledError: an operand has no axes.
    """
    if not a.rank or not b.rank:
        raise NotModelledError("an operand has no axes")
    left, right = a, b
    if a.rank == 1:
        left = call.part("row", reshaped(a, ("1", *a.dims)), ("1", *a.dims), a.dtype)
    if b.rank == 1:
        right = call.part("column", reshaped(b, (*b.dims, "1")), (*b.dims, "1"), b.dtype)
    if right.rank > 2 and left.rank < right.rank:
        wide = (*["1"] * (right.rank - left.rank), *left.dims)
        left = call.part("wide", reshaped(left, wide), wide, left.dtype)
    text, dims = product_text(left, right, swapped)
    out = list(dims)
    if b.rank == 1:
        del out[-1]
    if a.rank == 1:
        del out[-2 if b.rank > 1 else -1]
    return (text if tuple(out) == dims else reshaped(text, out)), tuple(out)


def gemm(call: Call) -> None:
    """Give alpha * A * B + beta * C: the product, its scaling and the sum round in f32 each."""
    a, b, c = call.x(0), call.x(1), call.maybe(2)
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)
    if call.attribute("transA", 0):
        dims = tuple(reversed(a.dims))
        a = call.part("a", transposed(a, (1, 0)), dims, a.dtype)
    text, dims = product(call, a, b, bool(call.attribute("transB", 0)))
    scaled_sum(call, text, dims, alpha, None if beta == 0 else c, beta)


def scaled_sum(
    call: Call,
    text: str,
    dims: Sequence[str],
    alpha: float = 1.0,
    c: Value | None = None,
    beta: float = 1.0,
    dtype: str | None = None,
) -> None:
    """Give alpha times a product, and perhaps beta * c added; each step rounds in f32."""
    dtype = dtype or call.x().dtype
    wide = inner(dtype)
    acc = accumulator(call, dtype)
    if c is None and alpha == 1:
        call.give(text, dims, dtype, acc=acc)
        return
    product_ = call.part("product", text, dims, wide, acc=acc)
    out = scaled(product_.name, alpha, wide)
    if c is None:
        call.give(out, dims, dtype)
        return
    if alpha != 1:
        out = f"round({out}, {wide})"
    added = scaled(c.name, beta, wide)
    if beta != 1:
        added = f"round({added}, {wide})"
    total = f"{out} + {added}"
    call.give(total if wide == dtype else f"round({total}, {wide})", dims, dtype)


def scaled(text: str, factor: float, dtype: str) -> str:
    """Return a value times an attribute of the file."""
    if factor == 1:
        return text
    return f"{text} * {rounded_literal(exact(float(factor)), dtype)}"


def axes_of(call: Call, x: Value) -> tuple[int, ...] | None:
    """Return the axes of a reduction; None: nothing is reduced."""
    given = call.attribute("axes")
    if given is None and call.has(1):
        given = call.integers(1)
    if not given:
        if call.attribute("noop_with_empty_axes", 0):
            return None
        return tuple(range(x.rank))
    return tuple(sorted({axis % x.rank for axis in given}))


def reduction(word: str, before: str = "{x}", after: str = "{x}") -> Build:
    """Return a reduction: of a function of x, and with another one behind it.

    Args:
        word: sum, max or min.
        before: what is reduced.
        after: what becomes of it; `{n}` is the number of terms.
    """

    def build(call: Call) -> None:
        if word == "sum" and sizes.folded(call, lambda listed: plain(" + ".join(listed))):
            return
        x = call.x()
        axes = axes_of(call, x)
        if axes is None:
            call.alias(x)
            return
        dims = kept(x.dims, axes)
        if word == "sum" and (wraps(x.dtype) or (not is_float(x.dtype) and after != "{x}")):
            raise NotModelledError(f"a sum in {x.dtype} may wrap around, or is divided")
        taken = before.format(x=x.name)
        text = summed(taken, x.dims, axes) if word == "sum" else reduced(word, taken, axes)
        count = times(x.dims[axis] for axis in axes)
        text = after.format(x=text, n=f"size({count})")
        if not call.attribute("keepdims", 1):
            dims = tuple(size for i, size in enumerate(x.dims) if i not in axes)
            text = reshaped(text, dims)
        acc = accumulator(call, x.dtype) if word == "sum" and axes else None
        call.give(text, dims, acc=acc)

    return build


def argmax(call: Call) -> None:
    """Give the index of the largest element along an axis."""
    x = call.x()
    axis = call.attribute("axis", 0) % x.rank
    word = "argmax_last" if call.attribute("select_last_index", 0) else "argmax_first"
    text, dims = f"{word}({x.name}, axis={axis})", kept(x.dims, (axis,))
    if not call.attribute("keepdims", 1):
        dims = tuple(size for i, size in enumerate(x.dims) if i != axis)
        text = reshaped(text, dims)
    call.give(text, dims, "i64")


def topk(call: Call) -> None:
    """Give the k largest elements along an axis, in order, and their indices."""
    x = call.x()
    axis = call.attribute("axis", -1) % x.rank
    (k,) = call.sizes(1)
    if not call.attribute("largest", 1) or not call.attribute("sorted", 1) or not k.isdigit():
        raise NotModelledError("not the largest elements in order")
    if int(k) > 64 or not x.dims[axis].isdigit():
        raise NotModelledError("too many elements are chosen")
    dims = (*x.dims[:axis], k, *x.dims[axis + 1 :])
    call.give(f"topk({x.name}, {k}, axis={axis})", dims)
    text = f"topk_indices_first({x.name}, {k}, axis={axis})"
    call.give(text, dims, "i64", number=1)


def _softmax_axis(call: Call, x: Value) -> int:
    if call.version >= 13:
        return int(call.attribute("axis", -1)) % x.rank
    axis = int(call.attribute("axis", 1)) % x.rank
    if axis != x.rank - 1:
        raise NotModelledError("softmax runs over several axes")
    return axis


def _shifted(call: Call, x: Value, axis: int) -> tuple[Value, Value, Value]:
    """State x - max(x), its exponential, and the sum of these, each rounded to the type of x."""
    acc = accumulator(call, x.dtype)
    shifted = call.part("shifted", f"{x.name} - max({x.name}, axis={axis})", x.dims, x.dtype)
    power = call.part("exp", f"exp({shifted.name})", x.dims, x.dtype)
    text = f"sum({power.name}, axis={axis})"
    return shifted, power, call.part("sum", text, kept(x.dims, (axis,)), x.dtype, acc=acc)


def softmax(call: Call) -> None:
    """Give exp(x - max x) / sum of these; every step rounds, as in ONNX's function body."""
    x = call.x()
    _, power, total = _shifted(call, x, _softmax_axis(call, x))
    call.give(f"{power.name} / {total.name}", x.dims)


def log_softmax(call: Call) -> None:
    """Give x - max x - log(sum exp(x - max x)); every step rounds, as in ONNX's function body."""
    x = call.x()
    shifted, _, total = _shifted(call, x, _softmax_axis(call, x))
    log = call.part("log", f"log({total.name})", total.dims, x.dtype)
    call.give(f"{shifted.name} - {log.name}", x.dims)


def global_average(call: Call) -> None:
    """Give the mean over all axes behind the channels."""
    x = call.x()
    axes = tuple(range(2, x.rank))
    text = summed(x.name, x.dims, axes)
    count = times(x.dims[2:])
    dims = kept(x.dims, axes)
    call.give(f"{text} / size({count})", dims, acc=accumulator(call, x.dtype))


def prelu(call: Call) -> None:
    """Give x, or slope * x where x is negative."""
    x, slope = call.x(0), call.x(1)
    dims = broadcast_dims(x.dims, slope.dims)
    call.give(f"select({x.name} < 0, {slope.name} * {x.name}, {x.name})", dims)


def leaky_relu(call: Call) -> None:
    """Give x, or alpha * x where x is negative."""
    x = call.x()
    alpha = rounded_literal(exact(float(call.attribute("alpha", 0.01))), x.dtype)
    call.give(f"select({x.name} < 0, {alpha} * {x.name}, {x.name})", x.dims)


OPERATORS: dict[str, tuple[Build, str]] = {
    "MatMul": (matmul, "the matrix product; f16 and bf16 add in f32"),
    "Gemm": (gemm, "alpha * A * B + beta * C; product, scaling and sum round in f32"),
    "ReduceSum": (reduction("sum"), "the sum; f16 and bf16 add in f32"),
    "ReduceMean": (reduction("sum", after="{x} / {n}"), "sum / n"),
    "ReduceMax": (reduction("max"), "the maximum"),
    "ReduceMin": (reduction("min"), "the minimum"),
    "ArgMax": (argmax, "the index of the maximum"),
    "TopK": (topk, "the k largest in order, k at most 64"),
    "Softmax": (softmax, "exp(x - max x) / sum of these; every step rounds (function body)"),
    "LogSoftmax": (log_softmax, "every step rounds (function body)"),
    "GlobalAveragePool": (global_average, "sum / n"),
    "PRelu": (prelu, "x, or slope * x where x < 0"),
    "LeakyRelu": (leaky_relu, "x, or alpha * x where x < 0"),
}
