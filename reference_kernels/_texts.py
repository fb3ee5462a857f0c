"""Programs and cases of kernels of torch and of Triton, alike but for schedules and sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lastbit.kernels import Case, Value
from lastbit.reference_kernels._lanes import lanes_text

BLOCK = 128  # of K, for scales and for chains that begin anew
BOTH = (True, False)


def each(
    sizes: Mapping[str, int], fmt: str, parameter: str, values: Iterable[Value]
) -> tuple[Case, ...]:
    """Return a case for each value of the only parameter."""
    return tuple(Case(sizes, fmt, {parameter: value}) for value in values)


def multiply_add(case: Case) -> str:
    """Return the program of a product and a sum, with one rounding or with two."""
    return f"""
        a: f32[N]
        b: f32[N]
        c: f32[N]
        p: {"real" if case["contracted"] else "f32"} = a * b
        y: f32 = p + c
    """


def swiglu(case: Case) -> str:
    """Return the program of silu(g) * u."""
    return f"""
        g: bf16[M, N]
        u: bf16[M, N]
        o: f32 = -g
        e: f32 = exp(o)
        d: f32 = 1 + e
        t: f32 = g / d
        r: {"bf16" if case["rounded"] else "f32"} = t
        z: f32 = r * u
        y: bf16 = z
    """


def quantized(case: Case) -> str:
    """Return the program of quantization to FP8, and of its scales."""
    shape = {
        "tensor": "1, 1, M * K",
        "row": "M, 1, K",
        "block": f"M, K // {BLOCK}, {BLOCK}",
    }[case["scope"]]
    return f"""
        x: {case.format}[M, K]
        g: {case.format} = reshape(x, {shape})
        s: f32 = maximum(amax(g, axis=2), '0x1p-20') / 448
        d: f32 = g / s
        c: e4m3fn = d saturate
        q: e4m3fn = reshape(c, M, K)
        t: f32 = reshape(s, {shape.rpartition(",")[0]})
        return q, t
    """


def quantized_cases(m: int, k: int) -> tuple[Case, ...]:
    """Return cases of quantization of [M, K]."""
    kinds = (("bf16", "row"), ("bf16", "block"), ("f32", "tensor"), ("f32", "block"))
    return tuple(Case({"M": m, "K": k}, fmt, {"scope": scope}) for fmt, scope in kinds)


def scale_is_of_row(case: Case) -> bool:
    """Return whether a scale does not depend on other rows."""
    return bool(case["scope"] != "tensor")


def row_sum(case: Case, schedule: str = "seq") -> str:
    """Return the program of the sum of each row in binary32."""
    return f"x: {case.format}[M, K]\ns: f32 = sum(x, axis=1) acc f32 {schedule}"


def row_sum_of_pieces(case: Case) -> str:
    """Return the program of the sum of each row, its pieces in any order."""
    return row_sum(case, f"split({case['n']}, inner=seq, outer=any_order)")


def row_sum_in_lanes(case: Case) -> str:
    """Return the program of the sum of each row in lanes, from left to right at the end."""
    return f"""
        x: {case.format}[M, K]
        s: {case["out"]} = sum(x, axis=1) acc f32 lanes({case["lanes"]})
    """


def two_pass_softmax(case: Case) -> str:
    """Return the program of softmax in two passes, its sum in lanes."""
    return f"""
        x: {case.format}[M, K]
        top: f32 = max(x, axis=1)
        d: f32 = x - top
        e: f32 = exp(d)
        s: f32 = sum(e, axis=1) acc f32 {lanes_text(case["lanes"], case["K"])}
        z: f32 = e / s
        y: {case.format} = z
    """


def online_softmax(case: Case, fused: bool = False) -> str:
    """Return the program of softmax online over blocks of a row.

    Args:
        case: sizes and parameters.
        fused: whether the sum is scaled and added to with one rounding.
    """
    fmt, block = case.format, case["block"]
    lines = [f"x: {fmt}[M, K]", "m0: f32 = broadcast(-inf, M, 1)", "l0: f32 = broadcast(0, M, 1)"]
    count = case["K"] // block
    for i, j in zip(range(count), range(1, count + 1), strict=True):
        lines += [
            f"x{j}: {fmt} = x[:, {i * block}:{j * block}]",
            f"m{j}: f32 = maximum(m{i}, max(x{j}, axis=1))",
            f"f{j}: f32 = m{i} - m{j}",
            f"a{j}: f32 = exp(f{j})",
            f"d{j}: f32 = x{j} - m{j}",
            f"e{j}: f32 = exp(d{j})",
            f"s{j}: f32 = sum(e{j}, axis=1) acc f32 pairwise(1)",
            f"b{j}: {'real' if fused else 'f32'} = l{i} * a{j}",
            f"l{j}: f32 = b{j} + s{j}",
        ]
    lines += [
        f"d: f32 = x - m{count}",
        "e: f32 = exp(d)",
        f"z: f32 = e / l{count}",
        f"y: {fmt} = z",
    ]
    return "\n".join(lines)


def product(case: Case, schedule: str, out: str = "f32") -> str:
    """Return the program of a product with a schedule."""
    return f"""
        a: {case.format}[M, K]
        b: {case.format}[K, N]
        c: {out} = matmul(a, b) acc f32 {schedule}
    """


def promoted_product(case: Case, inner: str = "") -> str:
    """Return the program of a product whose chain begins anew every 128 of K.

    Args:
        case: sizes and parameters.
        inner: how the schedule of the chains is said, where they are not sequential.
    """
    fmt, schedule = case.format, f"promote({BLOCK}, f32{inner})"
    return f"a: {fmt}[M, K]\nb: {fmt}[K, N]\nc: f32 = matmul(a, b) acc f32 {schedule}"


def biased_product(case: Case, schedule: str = "seq") -> str:
    """Return the program of a product and a bias, with the rounding between them or without."""
    return f"""
        a: bf16[M, K]
        b: bf16[K, N]
        bias: bf16[N]
        g: {"bf16" if case["rounded"] else "f32"} = matmul(a, b) acc f32 {schedule}
        h: f32 = g + bias
        y: bf16 = h
    """


def scaled_product(case: Case, schedule: str = "seq", fused: bool = False) -> str:
    """Return the program of a product with scales.

    Args:
        case: sizes and parameters.
        schedule: of the product, or of each block of it.
        fused: whether parts are scaled and added with one rounding.
    """
    lines = [f"a: {case.format}[M, K]", f"b: {case.format}[K, N]"]
    if case["scope"] == "row":
        lines += [
            "sa: f32[M, 1]",
            "sb: f32[1, N]",
            f"p: f32 = matmul(a, b) acc f32 {schedule}",
            "w: f32 = sa * sb",
            "z: f32 = p * w",
            "c: bf16 = z",
        ]
        return "\n".join(lines)
    count = case["K"] // BLOCK
    lines += [f"sa: f32[M, {count}]", f"sb: f32[{count}, N]", "c0: f32 = broadcast(0, M, N)"]
    for i, j in zip(range(count), range(1, count + 1), strict=True):
        span = f"{i * BLOCK}:{j * BLOCK}"
        lines += [
            f"p{j}: f32 = matmul(a[:, {span}], b[{span}, :]) acc f32 {schedule}",
            f"w{j}: f32 = sa[:, {i}:{j}] * sb[{i}:{j}, :]",
            f"z{j}: {'real' if fused else 'f32'} = p{j} * w{j}",
            f"c{j}: f32 = c{i} + z{j}",
        ]
    return "\n".join([*lines, f"c: bf16 = c{count}"])
