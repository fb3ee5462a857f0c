"""What kernels of attention share: a state carried over blocks of keys, and its statements."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, sqrt

import torch
from torch.nn.functional import pad

from lastbit.kernels import Case
from lastbit.reference_kernels._arguments import is_float
from lastbit.reference_kernels._chain import chain
from lastbit.reference_kernels._exponential import EXP
from lastbit.reference_kernels._lanes import halves
from lastbit.reference_kernels._pieces import pieces

BLOCK = 64  # of keys, where torch's operator is stood for


def is_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> bool:
    """Return whether heads can be attended: [B, H, M, D] over [B, H, T, D], square if causal."""
    same = is_float(q, k, v) and k.shape == v.shape and q.shape[:2] == k.shape[:2]
    return same and q.shape[3] == k.shape[3] and (not causal or q.shape[2] == k.shape[2])


@dataclass
class State:
    """What is carried from block to block, for each row."""

    top: torch.Tensor
    total: torch.Tensor
    acc: torch.Tensor


def scale_of(d: int, scale: float | None = None) -> float:
    """Return what the products are multiplied with, a number of f32: 1 / sqrt(D) if not given."""
    return torch.tensor(1 / sqrt(d) if scale is None else scale).item()


def check_block(block: int) -> None:
    """Refuse blocks whose sums by halves would not be those of a full tree."""
    if block & (block - 1):
        raise ValueError(f"block is {block}; it is to be a power of 2.")


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block: int,
    scale: float | None = None,
    causal: bool = False,
) -> State:
    """Return the state after the keys and values of all blocks."""
    check_block(block)
    (m, d), t = q.shape, k.shape[0]
    top = torch.full((m, 1), -inf, dtype=torch.float32, device=q.device)
    state = State(top, torch.zeros_like(top), top.new_zeros(m, d))
    rows = torch.arange(m, device=q.device)[:, None]
    for start in range(0, t, block):
        keys, values = k[start : start + block], v[start : start + block]
        s = chain(q, keys.t()) * scale_of(d, scale)
        if causal:
            at = torch.arange(start, start + len(keys), device=q.device)
            s = s.masked_fill(at > rows, -inf)
        higher = torch.maximum(state.top, s.amax(1, keepdim=True))
        shrink = EXP.call(state.top - higher)
        p = EXP.call(s - higher)
        state.total = state.total * shrink + halves(pad(p, (0, block - len(keys))))
        state.acc = state.acc * shrink + chain(p.to(v.dtype), values)
        state.top = higher
    return state


def blocks_text(
    case: Case, first: int, last: int, tag: str, schedule: str = "seq", fused: bool = False
) -> list[str]:
    """Return the statements for a range of keys; the last state is `m..., l..., c...`.

    Args:
        case: sizes and parameters.
        first: the first key.
        last: the key behind the last.
        tag: what the names of the values end in, before the number of the block.
        schedule: of the products.
        fused: whether sums are scaled and added to with one rounding.
    """
    between, fmt = "real" if fused else "f32", case.format
    scale = scale_of(case["D"]).hex()
    lines = [
        f"m{tag}0: f32 = broadcast(-inf, M, 1)",
        f"l{tag}0: f32 = broadcast(0, M, 1)",
        f"c{tag}0: f32 = broadcast(0, M, D)",
    ]
    for i, start in enumerate(range(first, last, case["block"])):
        old, new, end = f"{tag}{i}", f"{tag}{i + 1}", min(start + case["block"], last)
        span, lacking = f"{start}:{end}", start + case["block"] - end
        padded = f"concat(p{new}, broadcast(0, M, {lacking}), axis=1)" if lacking else f"p{new}"
        lines += [
            f"k{new}: {fmt} = k[{span}, :]",
            f"v{new}: {fmt} = v[{span}, :]",
            f"u{new}: f32 = matmul(q, transpose(k{new})) acc f32 {schedule}",
            f"s{new}: f32 = u{new} * '{scale}'",
            f"m{new}: f32 = maximum(m{old}, max(s{new}, axis=1))",
            f"f{new}: f32 = m{old} - m{new}",
            f"a{new}: f32 = exp(f{new})",
            f"d{new}: f32 = s{new} - m{new}",
            f"p{new}: f32 = exp(d{new})",
            f"r{new}: f32 = sum({padded}, axis=1) acc f32 pairwise(1)",
            f"g{new}: {between} = l{old} * a{new}",
            f"l{new}: f32 = g{new} + r{new}",
            f"b{new}: {fmt} = p{new}",
            f"w{new}: f32 = matmul(b{new}, v{new}) acc f32 {schedule}",
            f"h{new}: {between} = c{old} * a{new}",
            f"c{new}: f32 = h{new} + w{new}",
        ]
    return lines


def inputs_text(case: Case) -> list[str]:
    """Return the statements of the inputs."""
    return [f"q: {case.format}[M, D]", f"k: {case.format}[T, D]", f"v: {case.format}[T, D]"]


def online_text(case: Case, schedule: str = "seq", fused: bool = False) -> str:
    """Return the program of attention that is online over all keys."""
    count = ceil(case["T"] / case["block"])
    lines = [*inputs_text(case), *blocks_text(case, 0, case["T"], "_", schedule, fused)]
    return "\n".join([*lines, f"z: f32 = c_{count} / l_{count}", f"y: {case.format} = z"])


def split_text(case: Case, schedule: str = "seq", fused: bool = False) -> str:
    """Return the program of attention in parts that are merged."""
    count = pieces(case["n"], case["M"], case["by_rows"])
    size = case["T"] // count
    between = "real" if fused else "f32"
    lines, ends = inputs_text(case), []
    for i in range(count):
        lines += blocks_text(case, i * size, (i + 1) * size, f"_{i}_", schedule, fused)
        ends.append(f"_{i}_{ceil(size / case['block'])}")
    lines.append(f"high0: f32 = m{ends[0]}")
    for i, end in enumerate(ends[1:], 1):
        lines.append(f"high{i}: f32 = maximum(high{i - 1}, m{end})")
    lines += ["all0: f32 = broadcast(0, M, 1)", "sum0: f32 = broadcast(0, M, D)"]
    for i, end in enumerate(ends):
        lines += [
            f"below{i}: f32 = m{end} - high{count - 1}",
            f"weight{i}: f32 = exp(below{i})",
            f"one{i}: {between} = l{end} * weight{i}",
            f"all{i + 1}: f32 = all{i} + one{i}",
            f"many{i}: {between} = c{end} * weight{i}",
            f"sum{i + 1}: f32 = sum{i} + many{i}",
        ]
    lines += [f"z: f32 = sum{count} / all{count}", f"y: {case.format} = z"]
    return "\n".join(lines)
