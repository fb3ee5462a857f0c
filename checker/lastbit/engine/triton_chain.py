"""A chain of a matrix unit on an NVIDIA GPU: one kernel of Triton for all its steps.

    for each tile of outputs, in parallel:
        c: f32 = 0
        for each step of K:
            E = the exponent of c
            for i in the step:  E = max(E, ea[i] + eb[i])
            s = 2^(F - E)
            for i in the step:  sum: int32 += int(a[i] * b[i] * s)      toward zero
            c = cut(sum + int(c * s)) / s

The narrow form works in binary32 on scaled operands, as `lastbit.engine.narrow` does and for its
reasons exactly; the wide one in binary64 on the operands themselves, with NaN and infinities.
Integers are added in two parts, whose sum is exact in binary64.
"""

# mypy: ignore-errors
# The kernel is no Python: Triton compiles it, and is not installed where types are checked.

from __future__ import annotations

from typing import Any, Final

import torch
import triton
import triton.language as tl

from lastbit.formats import F32
from lastbit.machines import Unit

Tensor = Any

# Rows and columns of a tile, and warps that share it, by the width of a step. Triton 3.6.0
# exchanges rows of results for steps of 32 in some tiles (64 x 64 with 8 warps, 32 x 64 with 4),
# held against numpy and the hardware on an H200; in the one named here none differed.
TILES: Final = {32: (64, 64, 4)}
TILE: Final = (64, 64, 8)


def triton_chain(
    unit: Unit,
    a: Tensor,
    ea: Tensor,
    b: Tensor,
    eb: Tensor,
    narrow: bool,
    tile: tuple[int, int, int] | None = None,
) -> Tensor:
    """Return the accumulators after a chain, f32[M, N], at the scale of the operands.

    Args:
        unit: the matrix unit, of the method `aligned`.
        a: the left operand, `[K, M]`, K a multiple of the unit's width; f32 and scaled if narrow,
            else f64.
        ea: its exponents, `i32[K, M]`; bytes if narrow.
        b: the right operand, `[K, N]`.
        eb: its exponents, `i32[K, N]`.
        narrow: whether the operands fit the narrow form.
        tile: rows and columns of a tile, and warps that share it; None: as the width asks.
    """
    k, m = a.shape
    n = b.shape[1]
    out = torch.empty((m, n), dtype=torch.float32, device=a.device)
    if not out.numel():
        return out
    if not k:
        return out.zero_()
    rows, columns, warps = tile or TILES.get(unit.width, TILE)
    grid = (triton.cdiv(m, rows), triton.cdiv(n, columns))
    a, ea, b, eb = (x.contiguous() for x in (a, ea, b, eb))
    _chain[grid](
        a,
        ea,
        b,
        eb,
        out,
        m,
        n,
        k,
        WIDTH=unit.width,
        F=unit.fraction_bits,
        BITS=unit.result_bits,
        FLOOR=unit.least_exponent("f32"),
        LEAST=F32.emin,
        NARROW=narrow,
        ROWS=rows,
        COLUMNS=columns,
        num_warps=warps,
    )
    return out


@triton.jit
def _chain(
    a_ptr,
    ea_ptr,
    b_ptr,
    eb_ptr,
    out_ptr,
    m,
    n,
    k,
    WIDTH: tl.constexpr,  # noqa: N803  constants of Triton are in capitals
    F: tl.constexpr,  # noqa: N803
    BITS: tl.constexpr,  # noqa: N803
    FLOOR: tl.constexpr,  # noqa: N803
    LEAST: tl.constexpr,  # noqa: N803
    NARROW: tl.constexpr,  # noqa: N803
    ROWS: tl.constexpr,  # noqa: N803
    COLUMNS: tl.constexpr,  # noqa: N803
):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    columns = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    # Rows and columns past the end repeat the last one; they are not stored.
    a_at = tl.minimum(rows, m - 1)
    b_at = tl.minimum(columns, n - 1)
    a_ptr, ea_ptr = a_ptr + a_at, ea_ptr + a_at
    b_ptr, eb_ptr = b_ptr + b_at, eb_ptr + b_at
    acc = tl.zeros([ROWS, COLUMNS], tl.float32)
    for _ in range(0, k, WIDTH):
        word = acc.to(tl.int32, bitcast=True)
        field = (word >> 23) & 255
        if NARROW:
            largest = tl.maximum(field, 65)
        else:
            own = tl.maximum(field - 127, LEAST)
            largest = tl.maximum(tl.where(acc == 0.0, FLOOR, own), FLOOR)
        for i in tl.static_range(WIDTH):
            ea = tl.load(ea_ptr + i * m)
            eb = tl.load(eb_ptr + i * n)
            largest = tl.maximum(largest, ea + eb)
        if NARROW:
            up = ((254 + F - largest) << 23).to(tl.float32, bitcast=True)
            scaled = acc * up
        else:
            largest = tl.minimum(largest, 256)
            up = ((1023 + F - largest).to(tl.int64) << 52).to(tl.float64, bitcast=True)
            scaled = acc.to(tl.float64) * up
            special = acc.to(tl.float64)
        first = scaled.to(tl.int32)
        second = tl.zeros([ROWS, COLUMNS], tl.int32)
        for i in tl.static_range(WIDTH):
            a = tl.load(a_ptr + i * m)
            b = tl.load(b_ptr + i * n)
            product = a * b
            term = (product * up).to(tl.int32)
            if i % 2 == 0:
                first += term
            else:
                second += term
            if not NARROW:
                special += product
        total = first.to(tl.float64) + second.to(tl.float64)
        if NARROW:
            bits = total.to(tl.int64, bitcast=True) & (-(1 << (52 - BITS)))
            down = ((largest - F) << 23).to(tl.float32, bitcast=True)
            acc = bits.to(tl.float64, bitcast=True).to(tl.float32) * down
        else:
            down = ((1023 - F + largest).to(tl.int64) << 52).to(tl.float64, bitcast=True)
            value = total * down
            bits = value.to(tl.int64, bitcast=True) & (-(1 << (52 - BITS)))
            cut = bits.to(tl.float64, bitcast=True)
            # Below the normal range of binary32: multiples of 2^(LEAST - BITS), toward zero. The
            # scaled value is below 2^BITS.
            up_low = tl.full([1, 1], 1023 - LEAST + BITS, tl.int64) << 52
            down_low = tl.full([1, 1], 1023 + LEAST - BITS, tl.int64) << 52
            low = (value * up_low.to(tl.float64, bitcast=True)).to(tl.int32).to(tl.float64)
            low = low * down_low.to(tl.float64, bitcast=True)
            normal = ((bits >> 52) & 0x7FF) >= 1023 + LEAST
            finite = ((special.to(tl.int64, bitcast=True) >> 52) & 0x7FF) != 0x7FF
            acc = tl.where(finite, tl.where(normal, cut, low), special).to(tl.float32)
        a_ptr += WIDTH * m
        ea_ptr += WIDTH * m
        b_ptr += WIDTH * n
        eb_ptr += WIDTH * n
    at = rows.to(tl.int64) * n + columns
    tl.store(out_ptr + at, acc, mask=(rows < m) & (columns < n))
