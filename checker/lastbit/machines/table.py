"""The matrix units that lastbit knows: data, each with its source and status.

`measured`: outputs of the hardware were compared bit by bit, as the unit's `measurement` says.
`published`: read in papers and in public models, not checked on hardware here. What the sources
leave open is `not_modelled`, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

Method = Literal["aligned", "late", "late halves", "flushed", "rounded", "contracted"]

MMA_SIM: Final = "MMA-Sim 2.1.1 (Xie et al., arXiv 2511.10909)"
KHATTAK: Final = "Khattak and Mikaitis, arXiv 2512.07004"
FASI: Final = "Fasi et al., PeerJ Comput. Sci. 7:e330 (2021)"
PAPERS: Final = f"{MMA_SIM}; {KHATTAK}"
IEEE: Final = "IEEE 754-2019, clauses 4.3 and 5.4.1"


@dataclass(frozen=True, slots=True)
class Measurement:
    """A comparison with hardware, in which every output had the predicted bits.

    Attributes:
        device: what computed the outputs.
        driver: its driver.
        software: the libraries that were called.
        date: the day it was run.
        outputs: for each format of the operands, the outputs that were compared.
    """

    device: str
    driver: str
    software: str
    date: str
    outputs: Mapping[str, int]

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} of {fmt}" for fmt, count in self.outputs.items())
        return (
            f"{self.device}, driver {self.driver}, {self.software}, date {self.date}: "
            f"{counts} outputs compared, none differs"
        )


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
        method: how the terms are added; `lastbit.machines.step` defines each.
        result_bits: fraction bits of a binary32 result of the method `aligned`.
        floor: for binary32 and binary16 accumulators, the exponent that a zero term counts with.
        accumulators: the formats of the accumulator.
        nan: the code of a NaN result: `ones`, all bits but the sign, or `quiet`, the leading bit.
        measurement: what was compared with hardware; None where nothing was.
        not_modelled: why the step cannot be computed; empty when it can.
    """

    machine: str
    inputs: tuple[str, ...]
    width: int
    fraction_bits: int
    status: Literal["measured", "published"]
    source: str
    method: Method = "aligned"
    result_bits: int = 23
    floor: tuple[int, int] = (-133, -21)
    accumulators: tuple[str, ...] = ("f32", "f16")
    nan: Literal["ones", "quiet"] = "ones"
    measurement: Measurement | None = field(default=None, hash=False, compare=False)
    not_modelled: str = ""

    @property
    def name(self) -> str:
        """The name that schedules use, such as `hopper/16`."""
        return f"{self.machine}/{self.width}"

    @property
    def is_odd(self) -> bool:
        """Whether negated terms give the negated result."""
        return not self.method.startswith("late")

    @property
    def cuts(self) -> bool:
        """Whether a binary32 result is cut toward zero; else it is the nearest, ties to even."""
        return self.method == "aligned"

    def least_exponent(self, acc: str) -> int:
        """Return the exponent that a zero term counts with, for a format of the accumulator."""
        return self.floor[self.accumulators.index(acc)]

    def __str__(self) -> str:
        return self.name


F16_BF16: Final = ("f16", "bf16")
FP8: Final = ("e4m3fn", "e5m2")
FNUZ: Final = ("e4m3fnuz", "e5m2fnuz")
FLOATS: Final = ("f64", "f32", "tf32", *F16_BF16, *FP8, *FNUZ, "e3m2", "e2m3", "e2m1")
IEEE_ACCUMULATORS: Final = ("f32", "f64", "f16", "bf16")
BEFORE_HOPPER: Final = (-132, -20)

# The run of benchmarks/gpu_matmul.py in reports/h200/matmul.json: its products of each format.
_H200: Final = {
    "device": "NVIDIA H200",
    "driver": "580.159.04",
    "software": "torch 2.11.0+cu130, triton 3.6.0",
    "date": "2026-11-30",
}
H200_HALF: Final = Measurement(
    **_H200, outputs=MappingProxyType({"bf16": 16_777_216, "f16": 16_777_216})
)
H200_FP8: Final = Measurement(
    **_H200, outputs=MappingProxyType({"e4m3fn": 25_165_824, "e5m2": 8_388_608})
)

UNITS: Final = (
    Unit("hopper", F16_BF16, 16, 25, "measured", f"wgmma; {PAPERS}", measurement=H200_HALF),
    Unit(
        "hopper",
        FP8,
        32,
        13,
        "measured",
        f"wgmma; {PAPERS}",
        result_bits=13,
        measurement=H200_FP8,
    ),
    Unit("hopper", ("tf32",), 8, 25, "published", f"wgmma; {PAPERS}", accumulators=("f32",)),
    Unit("hopper_mma", F16_BF16, 16, 25, "published", f"mma.sync; {PAPERS}"),
    Unit("hopper_mma", ("tf32",), 8, 25, "published", f"mma.sync; {PAPERS}", accumulators=("f32",)),
    Unit(
        "hopper_mma",
        FP8,
        32,
        25,
        "published",
        f"mma.sync; {KHATTAK}",
        not_modelled="mma.sync adds two interleaved groups of 16, and the accumulator late; "
        "several models fit the published vectors",
    ),
    Unit("ampere", F16_BF16, 8, 24, "published", f"{PAPERS}; {FASI}", floor=BEFORE_HOPPER),
    Unit(
        "ampere",
        ("tf32",),
        4,
        24,
        "published",
        f"{PAPERS}; {FASI}",
        floor=BEFORE_HOPPER,
        accumulators=("f32",),
    ),
    Unit("ada", F16_BF16, 8, 24, "published", PAPERS, floor=BEFORE_HOPPER),
    Unit("ada", ("tf32",), 4, 24, "published", PAPERS, floor=BEFORE_HOPPER, accumulators=("f32",)),
    Unit("ada", FP8, 16, 13, "published", PAPERS, result_bits=13, floor=BEFORE_HOPPER),
    Unit("turing", ("f16",), 8, 24, "published", f"{MMA_SIM}; {FASI}", floor=BEFORE_HOPPER),
    Unit("volta", ("f16",), 4, 23, "published", f"{PAPERS}; {FASI}", floor=(-131, -19)),
    Unit("blackwell", F16_BF16, 16, 25, "published", f"tcgen05; {PAPERS}"),
    Unit("blackwell", ("tf32",), 8, 25, "published", f"tcgen05; {MMA_SIM}", accumulators=("f32",)),
    Unit("blackwell", (*FP8, "e3m2", "e2m3", "e2m1"), 32, 25, "published", f"tcgen05; {PAPERS}"),
    Unit(
        "blackwell",
        ("nvfp4", "mxfp4"),
        64,
        35,
        "published",
        f"tcgen05; {MMA_SIM}",
        accumulators=("f32",),
        not_modelled="NVFP4 and MXFP4 add exact groups of 16 with their scales, then the groups; "
        "operands have no scales here",
    ),
    Unit(
        "cdna3",
        F16_BF16,
        8,
        24,
        "published",
        MMA_SIM,
        method="late",
        accumulators=("f32",),
        nan="quiet",
    ),
    Unit(
        "cdna3",
        ("tf32",),
        4,
        24,
        "published",
        MMA_SIM,
        method="late",
        accumulators=("f32",),
        nan="quiet",
    ),
    Unit(
        "cdna3",
        FNUZ,
        16,
        24,
        "published",
        MMA_SIM,
        method="late halves",
        accumulators=("f32",),
        nan="quiet",
    ),
    Unit(
        "cdna2",
        F16_BF16,
        4,
        23,
        "published",
        f"{MMA_SIM}; bf16 with the suffix _1k",
        method="flushed",
        accumulators=("f32",),
        nan="quiet",
    ),
    Unit(
        "cdna2",
        ("bf16",),
        2,
        23,
        "published",
        f"{MMA_SIM}; bf16 without the suffix _1k",
        method="flushed",
        accumulators=("f32",),
        nan="quiet",
    ),
    Unit(
        "ieee",
        FLOATS,
        1,
        0,
        "published",
        f"{IEEE}; products are rounded to the accumulator's format",
        method="rounded",
        accumulators=IEEE_ACCUMULATORS,
        nan="quiet",
    ),
    Unit(
        "ieee_fma",
        FLOATS,
        1,
        0,
        "published",
        f"{IEEE}; each step is one fused multiply-add",
        method="contracted",
        accumulators=IEEE_ACCUMULATORS,
        nan="quiet",
    ),
)
