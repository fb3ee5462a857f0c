"""Matrix products, convolutions and attention.

Products accumulate in float32 in an order that is not part of torch's contract (`seq` is assumed),
a bias is added before the one rounding of the output.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from lastbit.importers.aten.images import framed_by
from lastbit.importers.aten.operator import NotCoveredError, Operator, Scalar, Table, inner
from lastbit.importers.expressions import (
    literal,
    over,
    plain,
    product_text,
    reshaped,
    transposed,
)
from lastbit.importers.imported import Size, Value
from lastbit.importers.writer import Step
from lastbit.plan_model import Distribution


def _cast(step: Step, *xs: Value | None) -> list[Value]:
    """Return arguments as autocast hands them over: in the type of the result, if it is narrower.

    No product gives a narrower type than its arguments have, unless autocast rounds these first.
    """
    found = []
    for x in xs:
        if x is None:
            continue
        narrower = step.out.dtype in ("bf16", "f16") and x.dtype == "f32"
        found.append(step.part(f"cast_{x.name}", x.name, step.out.dtype, x.dims) if narrower else x)
    return found


def linear(step: Step, x: Value, weight: Value, bias: Value | None = None) -> None:
    """State x @ weight.T + bias."""
    if weight.rank != 2 or x.rank < 1:
        raise NotCoveredError("the weight is no matrix")
    x, weight, *rest = _cast(step, x, weight, bias)
    bias = rest[0] if rest else None
    left = x if x.rank > 1 else _shaped(step, x, ("1", *x.dims))
    text, dims = product_text(left, weight, swapped=True)
    text = text if x.rank > 1 else reshaped(text, dims[1:])
    step.give(text if bias is None else f"{text} + {bias.name}", inner(x.dtype))


def _shaped(step: Step, x: Value, dims: Sequence[str]) -> Value:
    return replace(x, name=reshaped(x, dims), dims=tuple(dims))


def matmul(step: Step, x: Value, other: Value) -> None:
    """State x @ other, of any ranks."""
    if not (x.rank and other.rank):
        raise NotCoveredError("an argument has no axis")
    x, other = _cast(step, x, other)
    left = x if x.rank > 1 else _shaped(step, x, ("1", *x.dims))
    right = other if other.rank > 1 else _shaped(step, other, (*other.dims, "1"))
    text, dims = product_text(left, right)
    if dims != step.out.dims:
        text = reshaped(text, step.out.dims)
    step.give(text, inner(x.dtype))


def addmm(
    step: Step, x: Value, mat1: Value, mat2: Value, *, beta: Scalar = 1, alpha: Scalar = 1
) -> None:
    """State beta * x + alpha * (mat1 @ mat2)."""
    text, _ = product_text(mat1, mat2)
    wide = inner(x.dtype)
    if isinstance(alpha, Size) or isinstance(beta, Size):
        raise NotCoveredError("a factor depends on a size")
    x, mat1, mat2 = _cast(step, x, mat1, mat2)
    if alpha != 1:
        text = f"{text} * {literal(alpha, wide)}"
    if beta != 0:
        text += f" + {x.name}" if beta == 1 else f" + {x.name} * {literal(beta, wide)}"
    step.give(text, wide)


def _sides(pair: Sequence[int] | int) -> tuple[int, int]:
    values = [pair] if isinstance(pair, int) else list(pair)
    if any(isinstance(value, Size) for value in values) or not values:
        raise NotCoveredError("a parameter depends on a size")
    return values[0], values[-1]


def conv2d(
    step: Step,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sequence[int] | int = 1,
    padding: Sequence[int] | int = 0,
    dilation: Sequence[int] | int = 1,
    groups: int = 1,
) -> None:
    """State a convolution as one sum over the channels and places of the kernel."""
    if x.rank != 4 or weight.rank != 4 or groups != 1 or isinstance(padding, str):
        raise NotCoveredError("only a plain convolution in two dimensions is written out")
    x, weight, *rest = _cast(step, x, weight, bias)
    bias = rest[0] if rest else None
    strides, edges, gaps = _sides(stride), _sides(padding), _sides(dilation)
    channels, *kernel = weight.dims[1:]
    if not all(size.isdigit() for size in kernel):
        raise NotCoveredError("the kernel has no fixed size")
    rows, out_channels, height, width = step.out.dims
    framed = framed_by(step, x, edges, "0")
    shifted = []
    for i in range(int(kernel[0])):
        for j in range(int(kernel[1])):
            words = [":", ":"]
            for at, gap, jump, size in (
                (i, gaps[0], strides[0], height),
                (j, gaps[1], strides[1], width),
            ):
                start = at * gap
                stop = plain(f"{start} + (({size}) - 1) * {jump} + 1")
                words.append(f"{start}:{stop}" + (f":{jump}" if jump != 1 else ""))
            cut = f"{framed.name}[{', '.join(words)}]"
            shifted.append(reshaped(cut, (rows, channels, "1", height, width)))
    places = len(shifted)
    windows = f"concat({', '.join(shifted)}, axis=2)" if places > 1 else shifted[0]
    terms = plain(f"({channels}) * {places}")
    flat = step.part(
        "windows",
        transposed(reshaped(windows, (rows, terms, height, width)), (0, 2, 3, 1)),
        x.dtype,
        (rows, height, width, terms),
    )
    kernels = replace(
        weight, name=reshaped(weight, (out_channels, terms)), dims=(out_channels, terms)
    )
    text, _ = product_text(flat, kernels, swapped=True)
    text = transposed(text, (0, 3, 1, 2))
    if bias is not None:
        text += f" + {reshaped(bias, (out_channels, '1', '1'))}"
    step.give(text, inner(x.dtype))


def convolution(
    step: Step,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> None:
    """State a convolution in its general form."""
    if transposed:
        raise NotCoveredError("the convolution is transposed")
    conv2d(step, x, weight, bias, stride, padding, dilation, groups)


def attention(
    step: Step,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> None:
    """State attention as the fused kernels compute it, with all keys in one block.

    Scores and weights stay in float32 for their sums; the weights are rounded to the type of the
    values before the second product, and the division comes last.
    """
    if dropout_p:
        raise NotCoveredError("it drops elements at random")
    query, key, value = _cast(step, query, key, value)
    wide = inner(query.dtype)
    q, k, v = _grouped(query, key, value) if enable_gqa else (query, key, value)
    depth = query.dims[-1]
    text, dims = product_text(q, k, swapped=True)
    products = step.part("products", text, wide, dims, wide)
    if scale is not None:
        factor = literal(scale, wide)
    elif depth.isdigit():
        factor = literal(1 / math.sqrt(int(depth)), wide)
    else:
        factor = f"rsqrt(size({depth}))"
    scores = f"{products.name} * {factor}"
    if is_causal:
        mask = _causal(step, *dims[-2:])
        scores = f"select({mask.name}, {scores}, -inf)"
    elif attn_mask is not None:
        mask_text = _mask_text(attn_mask, q.rank)
        if attn_mask.dtype == "bool":
            scores = f"select({mask_text}, {scores}, -inf)"
        else:
            scores = f"round({scores}, {wide}) + {mask_text}"
    scored = step.part("scores", scores, wide, dims)
    masked = is_causal or attn_mask is not None
    largest = f"max({scored.name}, axis=-1)"
    if masked:  # a row without scores has the weights 0 and the result 0
        largest = f"select({largest} == -inf, 0, {largest})"
    weights = step.part("weights", f"exp({scored.name} - {largest})", wide, dims)
    total = step.part("total", f"sum({weights.name}, axis=-1)", wide, (*dims[:-1], "1"), wide)
    divisor = f"select({total.name} == 0, 1, {total.name})" if masked else total.name
    narrow = weights
    if value.dtype != wide:
        narrow = step.part("rounded", weights.name, value.dtype, dims)
    text, dims = product_text(narrow, v)
    mixed = step.part("mixed", text, wide, dims, wide)
    text = f"{mixed.name} / {divisor}"
    step.give(text if dims == step.out.dims else reshaped(text, step.out.dims))
    if len(step.outs) > 1:
        step.give(reshaped(f"log({divisor}) + {largest}", step.outs[1].dims), number=1)
    step.assume("attention is computed as by a fused kernel with all keys in one block")


def _grouped(query: Value, key: Value, value: Value) -> tuple[Value, Value, Value]:
    """Return the heads of queries beside the head of keys and values that they share."""
    *batch, heads, rows, depth = query.dims
    shared = key.dims[-3]
    if shared == heads:
        return query, key, value
    group = over(heads, shared)
    dims = (*batch, shared, group, rows, depth)
    q = replace(query, name=reshaped(query, dims), dims=dims)
    k, v = (
        replace(x, name=reshaped(x, wide), dims=wide)
        for x in (key, value)
        for wide in [(*x.dims[:-2], "1", *x.dims[-2:])]
    )
    return q, k, v


def _mask_text(mask: Value, rank: int) -> str:
    """Return a mask beside grouped heads, where it has an axis of heads."""
    if rank == 5 and mask.rank == 4:
        if mask.dims[1] != "1":
            raise NotCoveredError("the mask differs between grouped heads")
        return reshaped(mask, (*mask.dims[:2], "1", *mask.dims[2:]))
    return mask.name


def _causal(step: Step, rows: str, columns: str) -> Value:
    drawn = Distribution("constant", (Fraction(1),))
    why = "a causal mask is an input of its own, equal where its sizes are"
    name = f"causal_mask_{rows}_{columns}"
    return step.writer.given(name, "bool", (rows, columns), drawn, why)


def baddbmm(
    step: Step, x: Value, batch1: Value, batch2: Value, *, beta: Scalar = 1, alpha: Scalar = 1
) -> None:
    """State beta * x + alpha * (batch1 @ batch2)."""
    addmm(step, x, batch1, batch2, beta=beta, alpha=alpha)


def flash(
    step: Step,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> None:
    """State attention as the kernel for CPUs, with its logarithms of sums of exponentials."""
    shared = query.rank == 4  # heads of queries may share a head of keys without a flag
    attention(
        step, query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=shared
    )


def efficient(
    step: Step,
    query: Value,
    key: Value,
    value: Value,
    attn_bias: Value | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> None:
    """State attention as a kernel for GPUs gives it; seeds of its dropout are no results here."""
    attention(step, query, key, value, attn_bias, dropout_p, is_causal, scale=scale)


_ATTENTION = "scores, softmax and products in f32 (order assumed), weights rounded between"
_PRODUCT = "accumulated in f32 (order assumed), rounded once"

PRODUCTS: Table = {
    "aten.linear": Operator(linear, f"x @ weight.T + bias; {_PRODUCT}, the bias inside"),
    "aten.matmul": Operator(matmul, f"x @ y; {_PRODUCT}"),
    "aten.mm": Operator(matmul, f"x @ y; {_PRODUCT}"),
    "aten.bmm": Operator(matmul, f"x @ y, for each of a batch; {_PRODUCT}"),
    "aten.mv": Operator(matmul, f"x @ y; {_PRODUCT}"),
    "aten.dot": Operator(matmul, f"x @ y; {_PRODUCT}"),
    "aten.addmm": Operator(addmm, f"beta * x + alpha * (a @ b); {_PRODUCT}, the bias inside"),
    "aten.baddbmm": Operator(baddbmm, f"beta * x + alpha * (a @ b); {_PRODUCT}, the bias inside"),
    "aten.conv2d": Operator(conv2d, f"{_PRODUCT}, the bias inside; grouped ones are opaque"),
    "aten.convolution": Operator(convolution, f"{_PRODUCT}, the bias inside; in 2 dimensions"),
    "aten.scaled_dot_product_attention": Operator(attention, _ATTENTION),
    "aten._scaled_dot_product_flash_attention_for_cpu": Operator(flash, _ATTENTION),
    "aten._scaled_dot_product_flash_attention": Operator(flash, _ATTENTION),
    "aten._scaled_dot_product_efficient_attention": Operator(efficient, _ATTENTION),
}
