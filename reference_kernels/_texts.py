"""Programs that a kernel of torch and one of Triton execute alike, but for their schedules."""

from __future__ import annotations

from lastbit.kernels import Case

BLOCK = 128  # of K, for scales


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
