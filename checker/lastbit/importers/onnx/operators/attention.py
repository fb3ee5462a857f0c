"""Attention: the steps of ONNX's function body, which round to the type of the values each."""

from __future__ import annotations

from fractions import Fraction

from lastbit.importers.expressions import over, product_text, reshaped, transposed
from lastbit.importers.imported import Value
from lastbit.importers.onnx.call import Call, NotModelledError
from lastbit.importers.onnx.constants import cast, exact, literal
from lastbit.importers.onnx.model import TYPES
from lastbit.importers.onnx.operators.elementwise import Build
from lastbit.importers.onnx.operators.sums import accumulator
from lastbit.plan_model import Distribution

CAUSAL = "a causal mask is an input of its own, equal where its sizes are"


def attention(call: Call) -> None:
    """Give softmax(scaled q @ scaled k.T + mask) @ v; queries may share heads of keys.

    Raises:
        NotModelledError: it keeps keys of earlier calls, caps scores or gives them.
    """
    if any(call.has(i) for i in (4, 5, 6)) or any(call.wants(i) for i in (1, 2, 3)):
        raise NotModelledError("keys of earlier calls take part, or scores are asked for")
    if call.attribute("softcap", 0.0):
        raise NotModelledError("the scores are capped")
    q, k, v = (_heads(call, i) for i in range(3))
    dtype = q.dtype
    factor = _factor(call, q.dims[-1], dtype)
    q = call.part("q_scaled", f"{q.name} * {factor}", q.dims, dtype)
    k = call.part("k_scaled", f"{k.name} * {factor}", k.dims, k.dtype)
    if k.dims[1] != q.dims[1]:
        q, k, v = _grouped(q, k, v)
    text, dims = product_text(q, k, swapped=True)
    scores = call.part("scores", text, dims, dtype, acc=accumulator(call, dtype))
    weights = _softmax(call, _masked(call, scores), dtype)
    text, dims = product_text(weights, v)
    _give(call, text, dims)


def _heads(call: Call, number: int) -> Value:
    """Return an operand with an axis of heads, f[B, heads, rows, depth]."""
    x = call.x(number)
    if x.rank == 4:
        return x
    count = call.attribute("q_num_heads" if number == 0 else "kv_num_heads")
    if x.rank != 3 or not count:
        raise NotModelledError("the heads are not given")
    rows, width = x.dims[1], x.dims[2]
    apart = (x.dims[0], rows, str(count), over(width, str(count)))
    dims = tuple(apart[i] for i in (0, 2, 1, 3))
    text = transposed(reshaped(x.name, apart), (0, 2, 1, 3))
    return call.part("qkv"[number], text, dims, x.dtype)


def _factor(call: Call, depth: str, dtype: str) -> str:
    """Return the square root of the scale, by which queries and keys are multiplied each."""
    scale = call.attribute("scale")
    if scale is not None:
        root = f"sqrt({literal(cast(exact(float(scale)), 'f32'))})"
    else:
        root = f"sqrt(round(1 / round(sqrt(size({depth})), f32), f32))"
    return f"round(round({root}, f32), {dtype})"


def _grouped(q: Value, k: Value, v: Value) -> tuple[Value, Value, Value]:
    """Return queries beside the head of keys and values that they share."""
    batch, heads, rows, depth = q.dims
    shared = k.dims[1]
    dims = (batch, shared, over(heads, shared), rows, depth)
    q = Value(reshaped(q.name, dims), q.dtype, dims)
    wide = [(*x.dims[:2], "1", *x.dims[2:]) for x in (k, v)]
    k, v = (
        Value(reshaped(x.name, shape), x.dtype, shape)
        for x, shape in zip((k, v), wide, strict=True)
    )
    return q, k, v


def _masked(call: Call, scores: Value) -> Value:
    """State the scores with what is masked at -inf."""
    rows, columns = scores.dims[-2:]
    text = scores.name
    if call.attribute("is_causal", 0):
        drawn = Distribution("constant", (Fraction(1),))
        name = f"causal_mask_{rows}_{columns}"
        mask = call.importer.writer.given(name, "bool", (rows, columns), drawn, CAUSAL)
        text = f"select({mask.name}, {text}, -inf)"
        scores = call.part("causal", text, scores.dims, scores.dtype)
    given = call.maybe(3)
    if given is None:
        return scores
    name = given.name
    if scores.rank == 5 and given.rank == 4:
        if given.dims[1] != "1":
            raise NotModelledError("the mask differs between grouped heads")
        name = reshaped(given.name, (*given.dims[:2], "1", *given.dims[2:]))
    if given.dtype == "bool":
        text = f"select({name}, {scores.name}, -inf)"
    else:
        text = f"{scores.name} + {name}"
    return call.part("masked", text, scores.dims, scores.dtype)


def _softmax(call: Call, x: Value, dtype: str) -> Value:
    """State the weights; each step rounds to the type in which the softmax runs."""
    wide = TYPES.get(call.attribute("softmax_precision", 0), dtype)
    shifted = call.part("shifted", f"{x.name} - max({x.name}, axis=-1)", x.dims, wide)
    power = call.part("exp", f"exp({shifted.name})", x.dims, wide)
    dims = (*x.dims[:-1], "1")
    text = f"sum({power.name}, axis=-1)"
    total = call.part("total", text, dims, wide, acc=accumulator(call, wide))
    quotient = f"{power.name} / {total.name}"
    if wide != dtype:
        quotient = f"round({quotient}, {wide})"
    return call.part("weights", quotient, x.dims, dtype)


def _give(call: Call, text: str, dims: tuple[str, ...]) -> None:
    """Give the product in the shape that the queries have."""
    q = call.x(0)
    acc = accumulator(call, q.dtype)
    if q.rank == 4:
        shape = (*q.dims[:3], dims[-1])
        call.give(text if shape == dims else reshaped(text, shape), shape, acc=acc)
        return
    count = str(call.attribute("q_num_heads"))
    heads = (q.dims[0], count, q.dims[1], dims[-1])
    if heads != dims:
        text = reshaped(text, heads)
    width = str(int(count) * int(dims[-1])) if dims[-1].isdigit() else f"{count} * ({dims[-1]})"
    shape = (q.dims[0], q.dims[1], width)
    call.give(reshaped(transposed(text, (0, 2, 1, 3)), shape), shape, acc=acc)


OPERATORS: dict[str, tuple[Build, str]] = {
    "Attention": (attention, "every step rounds (function body); no keys of earlier calls"),
}
