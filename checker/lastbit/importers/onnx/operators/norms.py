"""Norms and activations that ONNX defines by function bodies, written out with their names."""

from __future__ import annotations

from lastbit.importers.expressions import kept, reshaped, summed, times
from lastbit.importers.imported import Value
from lastbit.importers.onnx.call import Call, NotModelledError
from lastbit.importers.onnx.constants import cast, exact, literal, rounded_literal
from lastbit.importers.onnx.model import TYPES
from lastbit.importers.onnx.operators.elementwise import Build, inner
from lastbit.importers.onnx.operators.sums import accumulator


def epsilon_of(call: Call, default: float = 1e-5, dtype: str = "f32") -> str:
    """Return the attribute epsilon, which is a binary32 number."""
    return rounded_literal(exact(float(call.attribute("epsilon", default))), dtype)


def stash_type(call: Call, x: Value) -> str:
    """Return the type in which a norm computes, before its result takes the type of x."""
    return TYPES.get(call.attribute("stash_type", 1), "f32")


def mean(call: Call, word: str, text: str, x: Value, axes: tuple[int, ...], wide: str) -> Value:
    """State the mean of an expression over some axes, rounded to a type."""
    total = f"{summed(text, x.dims, axes)} / size({times(x.dims[a] for a in axes)})"
    return call.part(word, total, kept(x.dims, axes), wide, acc=accumulator(call, wide))


def last_axes(call: Call, x: Value) -> tuple[int, ...]:
    """Return the axes from the attribute `axis` to the last."""
    return tuple(range(call.attribute("axis", -1) % x.rank, x.rank))


def rms_norm(call: Call) -> None:
    """Give x / sqrt(mean(x^2) + eps) * scale: in f32 until the division has rounded."""
    x, scale = call.x(0), call.x(1)
    wide = stash_type(call, x)
    root = rms(call, x, last_axes(call, x), wide, epsilon_of(call))
    normal = call.part("normal", f"round({x.name} / {root.name}, {wide})", x.dims, x.dtype)
    call.give(f"{normal.name} * {scale.name}", x.dims)


def rms(call: Call, x: Value, axes: tuple[int, ...], wide: str, eps: str) -> Value:
    """State sqrt(mean(x^2) + eps); every step rounds."""
    square = call.part("square", f"{x.name} * {x.name}", x.dims, wide)
    average = mean(call, "mean_square", square.name, x, axes, wide)
    return call.part("rms", f"sqrt(round({average.name} + {eps}, {wide}))", average.dims, wide)


def layer_norm(call: Call) -> None:
    """Give (x - mean) / sqrt(variance + eps) * scale + bias, the variance in one pass."""
    x, scale, bias = call.x(0), call.x(1), call.maybe(2)
    wide = stash_type(call, x)
    average, root = moments(call, x, last_axes(call, x), wide, epsilon_of(call))
    normal = normalised(call, x, average, root, wide)
    text = f"{normal.name} * {scale.name}"
    if bias is not None:
        text = f"round({text}, {x.dtype}) + {bias.name}"
    call.give(text, x.dims)
    if call.wants(1):
        call.give(average.name, average.dims, wide, number=1)
    if call.wants(2):
        call.give(f"1 / {root.name}", root.dims, wide, number=2)


def moments(
    call: Call, x: Value, axes: tuple[int, ...], wide: str, eps: str
) -> tuple[Value, Value]:
    """State the mean and the standard deviation, as ONNX's function body has them."""
    average = mean(call, "mean", x.name, x, axes, wide)
    square = call.part("square", f"{x.name} * {x.name}", x.dims, wide)
    squares = mean(call, "mean_square", square.name, x, axes, wide)
    variance = call.part(
        "variance",
        f"{squares.name} - round({average.name} * {average.name}, {wide})",
        average.dims,
        wide,
    )
    root = f"sqrt(round({variance.name} + {eps}, {wide}))"
    return average, call.part("deviation", root, average.dims, wide)


def normalised(call: Call, x: Value, average: Value, root: Value, wide: str) -> Value:
    """State (x - mean) / deviation, rounded to the type of x at the end."""
    text = f"round(round({x.name} - {average.name}, {wide}) / {root.name}, {wide})"
    return call.part("normal", text, x.dims, x.dtype)


def batch_norm(call: Call) -> None:
    """Give (x - mean) / sqrt(variance + eps) * scale + bias with given statistics."""
    if call.attribute("training_mode", 0) or call.wants(1):
        raise NotModelledError("it runs in training mode")
    x, wide = call.x(0), inner(call.x(0).dtype)
    shape = (*x.dims[1:2], *["1"] * (x.rank - 2))
    scale, bias, average, variance = (reshaped(call.x(i), shape) for i in range(1, 5))
    root = f"round(sqrt(round({variance} + {epsilon_of(call)}, {wide})), {wide})"
    deviation = call.part("deviation", root, shape, wide)
    text = f"round(round({x.name} - {average}, {wide}) / {deviation.name}, {wide})"
    text = f"round({text} * {scale}, {wide}) + {bias}"
    call.assume("a batch norm rounds after each step of its formula")
    call.give(text if wide == x.dtype else f"round({text}, {wide})", x.dims)


def gelu(call: Call) -> None:
    """Give the Gaussian error linear unit; the tanh form rounds as in ONNX's function body.

    ONNX Runtime's kernel multiplies by 1 / sqrt(2), in f32, where the body divides by sqrt(2): of
    20,000 elements in f32, 2,034 of the latter have other bits, and none of the former.
    """
    x = call.x()
    form = call.attribute("approximate", b"none")
    dtype = x.dtype
    if form not in (b"tanh", "tanh"):
        wide = inner(dtype)
        inside = f"round({x.name} * round(rsqrt(2), {wide}), {wide})"
        phi = call.part("erf", f"erf({inside})", x.dims, wide).name
        text = f"round(0.5 * {x.name}, {wide}) * round({phi} + 1, {wide})"
        call.give(text if wide == dtype else f"round({text}, {wide})", x.dims)
        return
    half = call.part("half", f"0.5 * {x.name}", x.dims, dtype)
    ratio = literal(cast(exact(0.6366197466850281), dtype))
    cubic = literal(cast(exact(0.04471499845385551), dtype))
    cube = call.part("cube", f"round({x.name} ** 3, {dtype}) * {cubic}", x.dims, dtype)
    bent = call.part("bent", f"{x.name} + {cube.name}", x.dims, dtype)
    root = f"round(sqrt({ratio}), {dtype})"
    phi = f"tanh(round({root} * {bent.name}, {dtype}))"
    turned = call.part("phi", f"1 + round({phi}, {dtype})", x.dims, dtype)
    call.give(f"{half.name} * {turned.name}", x.dims)


def swish(call: Call) -> None:
    """Give x * sigmoid(alpha * x); every step rounds, as in ONNX's function body."""
    x = call.x()
    alpha = float(call.attribute("alpha", 1.0))
    text = x.name
    if alpha != 1:
        text = f"round({rounded_literal(exact(alpha), x.dtype)} * {text}, {x.dtype})"
    gate = call.part("sigmoid", f"sigmoid({text})", x.dims, x.dtype)
    call.give(f"{x.name} * {gate.name}", x.dims)


def softplus(call: Call) -> None:
    """Give log(1 + exp(x)); every step rounds, as in ONNX's function body."""
    x = call.x()
    text = f"log(round(round(exp({x.name}), {x.dtype}) + 1, {x.dtype}))"
    call.give(text, x.dims)


OPERATORS: dict[str, tuple[Build, str]] = {
    "RMSNormalization": (rms_norm, "in f32 until the division has rounded (function body)"),
    "LayerNormalization": (layer_norm, "the same, variance in one pass (function body)"),
    "BatchNormalization": (batch_norm, "each step of the formula rounds in f32"),
    "Gelu": (gelu, "x / 2 * (1 + erf(x / sqrt(2))), steps in f32; tanh form: every step rounds"),
    "Swish": (swish, "every step rounds (function body)"),
    "Softplus": (softplus, "every step rounds (function body)"),
}
