"""The matrix units that lastbit knows: data, each with its source and status.

`measured`: outputs of the hardware were compared bit by bit. `published`: read in papers and in
public models (MMA-Sim; Khattak and Mikaitis, arXiv 2512.07004), not checked on hardware.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

PAPERS = "MMA-Sim; Khattak and Mikaitis, arXiv 2512.07004"
H200 = "NVIDIA H200, driver 580, torch 2.11.0+cu130, triton 3.6.0"


@dataclass(frozen=True, slots=True)
class Unit:
    """A matrix unit: how one step adds `width` exact products and the accumulator.

    Attributes:
        machine: the machine's name; `machine/width` names the unit.
        inputs: the formats of the operands.
        width: L, the products that one step takes.
        fraction_bits: F; each term becomes a multiple of 2^(E - F), E the largest exponent.
        status: `measured` or `published`.
        source: where the parameters are from.
        align: how a term becomes a multiple: cut toward zero (sign and magnitude), or rounded down.
        result: how the sum becomes binary32: cut toward zero to `result_bits`, or nearest even.
        result_bits: fraction bits of a binary32 result.
        floor: for each format of the accumulator, the exponent that a zero term counts with.
        not_modelled: why the step cannot be computed; empty when it can.
    """

    machine: str
    inputs: tuple[str, ...]
    width: int
    fraction_bits: int
    status: Literal["measured", "published"]
    source: str
    align: Literal["truncate", "down"] = "truncate"
    result: Literal["truncate", "nearest-even"] = "truncate"
    result_bits: int = 23
    floor: Mapping[str, int] = field(
        default_factory=lambda: {"f32": -133, "f16": -21}, hash=False, compare=False
    )
    not_modelled: str = ""

    @property
    def name(self) -> str:
        """The name that schedules use, such as `hopper/16`."""
        return f"{self.machine}/{self.width}"

    def __str__(self) -> str:
        return self.name


F16_BF16 = ("f16", "bf16")
FP8 = ("e4m3fn", "e5m2")

UNITS = (
    Unit("hopper", F16_BF16, 16, 25, "measured", f"wgmma on {H200}"),
    Unit("hopper", FP8, 32, 13, "measured", f"wgmma on {H200}", result_bits=13),
    Unit("hopper", ("tf32",), 8, 25, "published", PAPERS),
    Unit(
        "hopper_mma",
        FP8,
        32,
        25,
        "published",
        PAPERS,
        not_modelled="mma.sync adds two interleaved groups of 16, and the accumulator late",
    ),
    Unit("ampere", F16_BF16, 8, 24, "published", PAPERS),
    Unit("ampere", ("tf32",), 4, 24, "published", PAPERS),
    Unit("ada", F16_BF16, 8, 24, "published", PAPERS),
    Unit("ada", ("tf32",), 4, 24, "published", PAPERS),
    Unit("ada", FP8, 16, 13, "published", PAPERS, result_bits=13),
    Unit("volta", ("f16",), 4, 23, "published", PAPERS),
    Unit("blackwell", F16_BF16, 16, 25, "published", PAPERS),
    Unit("blackwell", FP8, 32, 25, "published", PAPERS),
    Unit(
        "blackwell",
        ("e2m1",),
        64,
        35,
        "published",
        PAPERS,
        not_modelled="NVFP4 and MXFP4 add exact groups of 16 with their scales, then the groups",
    ),
    Unit("cdna3", F16_BF16, 8, 24, "published", PAPERS, align="down", result="nearest-even"),
)
