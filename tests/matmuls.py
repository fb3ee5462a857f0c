"""Matrix products by the oracle, in exact rationals, and draws of operands for them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from lastbit.formats import Exact, Format, decode
from lastbit.machines import MACHINES, Product, Unit, product, result_code, step, unit_of
from lastbit.reals import FUNCTIONS
from lastbit.rounding import Rounding, round_exact
from lastbit.schedule import fold, parse_schedule

RECORDED = Path(__file__).parent / "data" / "h200_matmul.npz"
CHAIN, CHAIN_FP8 = "fused(16, hopper)", "fused(32, hopper)"
PROMOTED = "promote(128, f32, inner=fused(32, hopper))"
# name of the products, format, the name of the results, the schedule that gives their bits
H200 = (
    ("bf16_K64_n", "bf16", "_c", CHAIN),
    ("fp16_K128_n", "f16", "_c", CHAIN),
    ("e4m3_K64_n", "e4m3fn", "_c", CHAIN_FP8),
    ("e5m2_K64_n", "e5m2", "_c", CHAIN_FP8),
    ("cublas_bf16_K1024", "bf16", "_c32", CHAIN),
    ("smm_K1024_1", "e4m3fn", "_c", CHAIN_FP8),
    ("smm_K1024_0", "e4m3fn", "_c", PROMOTED),
)
KINDS = ("bits", "near", "apart", "far apart", "subnormal")
UNITS = [unit for machine in MACHINES.values() for unit in machine.units if not unit.not_modelled]


def recorded(name: str, result: str) -> tuple[Any, Any, Any]:
    """Return operands and results of an NVIDIA H200 as codes: [M, K], [K, N] and [M, N]."""
    with np.load(RECORDED) as arrays:
        a = arrays[f"{name}_a"]
        b = arrays[f"{name}_b"] if f"{name}_b" in arrays else arrays[f"{name}_bT"].T
        return a, b, arrays[f"{name}{result}"]


class Emulation:
    """The elements are products; sums are steps of matrix units, or rounded to nearest even."""

    def __init__(self, products: list[Product]) -> None:
        self.products = products

    def zero(self, fmt: str) -> Exact:  # noqa: D102  an algebra
        return Fraction(0)

    def leaf(self, i: int) -> Product:  # noqa: D102  an algebra
        return self.products[i]

    def add(self, a: Any, b: Any, fmt: str) -> Exact:  # noqa: D102  an algebra
        return round_exact(FUNCTIONS["add"](_value(a), _value(b)), Rounding.of(fmt))

    def convert(self, value: Any, fmt: str) -> Exact:  # noqa: D102  an algebra
        return round_exact(_value(value), Rounding.of(fmt))

    def fused(  # noqa: D102  an algebra
        self, acc: Exact, terms: list[Product], machine: str, fmt: str
    ) -> Exact:
        return step(unit_of(machine), acc, terms, fmt)


def _value(x: Any) -> Exact:
    return x.value if isinstance(x, Product) else x


def oracle(
    a: Any, b: Any, formats: tuple[Format, Format], schedule: str, acc: str, unit: Unit
) -> Any:
    """Return the codes of a matrix product, each output summed in exact rationals."""
    left, right = formats
    rows = [[decode(int(code), left) for code in row] for row in a]
    columns = [[decode(int(code), right) for code in column] for column in b.T]
    tree = parse_schedule(schedule)
    out = [
        [
            result_code(
                fold(tree, len(row), acc, Emulation(_products(row, column, left, right))), acc, unit
            )
            for column in columns
        ]
        for row in rows
    ]
    return np.array(out, np.uint64).reshape(len(rows), len(columns))


def _products(
    row: Sequence[Exact], column: Sequence[Exact], left: Format, right: Format
) -> list[Product]:
    return [product(x, y, left, right) for x, y in zip(row, column, strict=True)]


def operands(rng: np.random.Generator, fmt: Format, shape: tuple[int, int], kind: str) -> Any:
    """Return codes: random bits, or with exponents near one another, apart or at the lower end."""
    codes = rng.integers(0, 1 << fmt.bits, shape, np.uint64)
    if kind != "bits":
        digits = fmt.precision - 1
        top = (1 << (fmt.bits - fmt.precision)) - 2
        span = {"near": 3, "apart": 12, "far apart": 40, "subnormal": 0}[kind]
        low, high = max(0, top // 2 - span), min(top, top // 2 + span)
        low, high = (0, min(3, top)) if kind == "subnormal" else (low, high)
        fields = rng.integers(low, high + 1, shape).astype(np.uint64)
        kept = ((1 << digits) - 1) | (1 << (fmt.bits - 1))
        codes = (codes & np.uint64(kept)) | (fields << np.uint64(digits))
        codes[rng.random(shape) < 0.1] = 0
    return (codes << np.uint64(fmt.padding)).astype(f"u{max(1, fmt.container // 8)}")


def with_cancelling_sums(rng: np.random.Generator, a: Any, b: Any, fmt: Format) -> tuple[Any, Any]:
    """Repeat the first half of K with the other sign, so that sums cancel."""
    half = a.shape[1] // 2
    a, b = a.copy(), b.copy()
    a[:, half : 2 * half] = a[:, :half]
    b[half : 2 * half] = b[:half] ^ b.dtype.type(1 << (fmt.container - 1))
    return a, b
