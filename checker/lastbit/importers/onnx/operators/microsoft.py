"""The fusions of ONNX Runtime, domain `com.microsoft`: the steps of its CPU kernels, in f32.

A fused operator rounds to f16 once, at its end: what the operators that it replaced rounded between
them is gone.

Source: the operator documentation of ONNX Runtime (ContribOperators.md) and its CPU kernels
(contrib_ops/cpu), version 1.32.
"""

from __future__ import annotations

from collections.abc import Sequence

from lastbit.importers.expressions import broadcast_dims, transposed
from lastbit.importers.imported import Value
from lastbit.importers.onnx.call import Call, NotModelledError
from lastbit.importers.onnx.constants import cast, exact, literal
from lastbit.importers.onnx.model import printable
from lastbit.importers.onnx.operators.elementwise import Build, inner
from lastbit.importers.onnx.operators.norms import epsilon_of, last_axes, moments, rms
from lastbit.importers.onnx.operators.sums import product, scaled_sum

_CUBIC, _LINEAR = "round(0.044715 * sqrt(2 / pi), f32)", "round(sqrt(2 / pi), f32)"
KERNELS = "fused operators compute as ONNX Runtime's CPU kernels do: in f32, rounded at the end"


def finish(call: Call, text: str, dims: Sequence[str], dtype: str, number: int = 0) -> None:
    """Give a value that was computed in f32, rounded to its type."""
    wide = inner(dtype)
    call.assume(KERNELS)
    call.give(text if wide == dtype else f"round({text}, {wide})", dims, dtype, number=number)


def simplified_layer_norm(call: Call) -> None:
    """Give x / sqrt(mean(x^2) + eps) * scale, rounded to the type of x once."""
    x = call.x()
    _rms(call, x, call.x(1), last_axes(call, x), x.dtype)


def _rms(call: Call, x: Value, scale: Value, axes: tuple[int, ...], dtype: str) -> None:
    wide = inner(dtype)
    root = rms(call, x, axes, wide, epsilon_of(call))
    finish(call, f"round({x.name} / {root.name}, {wide}) * {scale.name}", x.dims, dtype)


def skip_simplified_layer_norm(call: Call) -> None:
    """Give the norm of input + skip + bias, whose sum stays in f32."""
    total, dtype = _skipped(call, 3), call.x().dtype
    _rms(call, total, call.x(2), (total.rank - 1,), dtype)


def skip_layer_norm(call: Call) -> None:
    """Give the layer norm of input + skip + bias, whose sum stays in f32."""
    dtype, gamma, beta = call.x().dtype, call.x(2), call.maybe(3)
    wide, total = inner(dtype), _skipped(call, 4)
    eps = epsilon_of(call, 1e-12)
    average, root = moments(call, total, (total.rank - 1,), wide, eps)
    text = f"round(round({total.name} - {average.name}, {wide}) / {root.name}, {wide})"
    text = f"{text} * {gamma.name}"
    if beta is not None:
        text = f"round({text}, {wide}) + {beta.name}"
    finish(call, text, total.dims, dtype)


def _skipped(call: Call, bias: int) -> Value:
    """State the sum of input, skip and bias; give it as a result of its own where it is asked for.

    Raises:
        NotModelledError: the statistics are asked for.
    """
    x, skip, third = call.x(0), call.x(1), call.maybe(bias)
    if call.wants(1) or call.wants(2):
        raise NotModelledError("the statistics are asked for")
    wide = inner(x.dtype)
    text = f"{x.name} + {skip.name}"
    if third is not None:
        text = f"round({text}, {wide}) + {third.name}"
    dims = broadcast_dims(x.dims, skip.dims)
    total = call.part("sum", text, dims, wide)
    if call.wants(3):
        call.give(total.name, dims, x.dtype, number=3)
    return Value(total.name, wide, dims)


def fused_matmul(call: Call) -> None:
    """Give alpha * A * B, either of them transposed first."""
    a, b = call.x(0), call.x(1)
    if call.attribute("transBatchA", 0):
        a = _batch_turned(a)
    if call.attribute("transBatchB", 0):
        b = _batch_turned(b)
    if call.attribute("transA", 0):
        order = (*range(a.rank - 2), a.rank - 1, a.rank - 2)
        dims = tuple(a.dims[i] for i in order)
        a = call.part("a", transposed(a, order), dims, a.dtype)
    text, dims = product(call, a, b, bool(call.attribute("transB", 0)))
    call.assume(KERNELS)
    scaled_sum(call, text, dims, call.attribute("alpha", 1.0))


def _batch_turned(x: Value) -> Value:
    """Return a value with its first axis before its last one: that of the rows is the second."""
    if x.rank < 3:
        raise NotModelledError("batch axes of a matrix are transposed")
    order = (*range(1, x.rank - 1), 0, x.rank - 1)
    return Value(transposed(x, order), x.dtype, tuple(x.dims[i] for i in order))


def fused_gemm(call: Call) -> None:
    """Give alpha * A * B + beta * C through an activation."""
    a, b, c = call.x(0), call.x(1), call.maybe(2)
    if call.attribute("transA", 0) or call.attribute("alpha", 1.0) != 1:
        raise NotModelledError("the left side is transposed, or scaled")
    text, dims = product(call, a, b, bool(call.attribute("transB", 0)))
    wide = inner(a.dtype)
    total = call.part("product", text, dims, wide, acc=wide).name
    if c is not None:
        if call.attribute("beta", 1.0) != 1:
            raise NotModelledError("the right side is scaled")
        total = f"round({total} + {c.name}, {wide})"
    finish(call, activated(call, total), dims, a.dtype)


def activated(call: Call, x: str) -> str:
    """Return an expression through the activation that a node names.

    Source: MlasActivation (ONNX Runtime, core/mlas/lib/activate.cpp), version 1.32.

    Raises:
        NotModelledError: the activation is none of those that are known.
    """
    given = call.attribute("activation", b"")
    name = given.decode("utf-8", "replace") if isinstance(given, bytes) else str(given)
    words = {"": "", "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}
    if name in words:
        return f"{words[name]}({x})" if name else x
    numbers = [literal(exact(float(n))) for n in call.attribute("activation_params") or ()]
    if name == "Clip" and len(numbers) == 2:
        return f"minimum(maximum({x}, {numbers[0]}), {numbers[1]})"
    if name == "LeakyRelu" and numbers:
        return f"select({x} < 0, {x} * {numbers[0]}, {x})"
    if name == "HardSigmoid" and len(numbers) == 2:
        wide = inner(call.x().dtype)
        line = f"round({x} * {numbers[0]}, {wide}) + {numbers[1]}"
        return f"minimum(maximum(round({line}, {wide}), 0), 1)"
    raise NotModelledError(f"the activation is {printable(name)}")


def gelu(call: Call) -> None:
    """Give x / 2 * (1 + erf(x / sqrt(2)))."""
    _gelu(call, call.x())


def bias_gelu(call: Call) -> None:
    """Give the same of x + bias."""
    x, bias = call.x(0), call.x(1)
    dims = broadcast_dims(x.dims, bias.dims)
    total = call.part("biased", f"{x.name} + {bias.name}", dims, inner(x.dtype))
    _gelu(call, Value(total.name, x.dtype, dims))


def _gelu(call: Call, x: Value) -> None:
    wide = inner(x.dtype)
    inside = f"round({x.name} * round(rsqrt(2), {wide}), {wide})"
    phi = call.part("erf", f"erf({inside})", x.dims, wide)
    half = f"round(0.5 * {x.name}, {wide})"
    finish(call, f"{half} * round({phi.name} + 1, {wide})", x.dims, x.dtype)


def fast_gelu(call: Call) -> None:
    """Give the tanh form of it, of x + bias where there is one."""
    x, bias = call.x(0), call.maybe(1)
    wide, dims = inner(x.dtype), x.dims
    if bias is not None:
        x = call.part("biased", f"{x.name} + {bias.name}", dims, wide)
    text = f"round(round({_CUBIC} * {x.name}, {wide}) * {x.name}, {wide}) + {_LINEAR}"
    inside = call.part("inside", f"{x.name} * round({text}, {wide})", dims, wide)
    turned = f"round(round(tanh({inside.name}), {wide}) + 1, {wide})"
    finish(call, f"round(0.5 * {x.name}, {wide}) * {turned}", dims, call.x(0).dtype)


def quick_gelu(call: Call) -> None:
    """Give x * sigmoid(alpha * x)."""
    x = call.x()
    wide, alpha = inner(x.dtype), float(call.attribute("alpha", 1.702))
    text = x.name
    if alpha != 1:
        text = f"round({literal(cast(exact(alpha), wide))} * {text}, {wide})"
    gate = call.part("sigmoid", f"sigmoid({text})", x.dims, wide)
    finish(call, f"{x.name} * {gate.name}", x.dims, x.dtype)


OPERATORS: dict[str, tuple[Build, str]] = {
    "SimplifiedLayerNormalization": (simplified_layer_norm, "x / rms * scale, rounded once"),
    "SkipSimplifiedLayerNormalization": (
        skip_simplified_layer_norm,
        "the same of input + skip + bias, whose sum is not rounded to f16",
    ),
    "SkipLayerNormalization": (
        skip_layer_norm,
        "layer norm of input + skip + bias, whose sum is not rounded to f16",
    ),
    "FusedMatMul": (fused_matmul, "alpha * A * B; product and scaling round in f32"),
    "FusedGemm": (fused_gemm, "an activation of A * B + C"),
    "Gelu": (gelu, "x / 2 * (1 + erf(x / sqrt(2))), steps in f32"),
    "BiasGelu": (bias_gelu, "the same of x + bias"),
    "FastGelu": (fast_gelu, "the tanh form, of x + bias; steps in f32"),
    "QuickGelu": (quick_gelu, "x * sigmoid(alpha * x), steps in f32"),
}
