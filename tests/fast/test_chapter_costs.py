"""The chapter's traffic, storage and residence, found by arithmetic without lastbit.

What comes out is what `tests/data/chapter_oracle.json` states, and what `examples/chapter.py` has
to reach by counting on programs.
"""

from __future__ import annotations

import json
from fractions import Fraction
from math import ceil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENTRIES = json.loads((ROOT / "tests/data/chapter_oracle.json").read_text("utf-8"))["entries"]
STATED = {entry["id"]: entry for entry in ENTRIES if entry["id"][0] in "BC"}
M, K, N = 1024, 4096, 12288
KIB, MIB = 2**10, 2**20
BANDWIDTH, PEAK, SMS = Fraction(3350) * 10**9, Fraction(9894) * 10**11, 132  # of the H100


def traffic(edge: int) -> Fraction:
    """MiB of a product of bf16 matrices in square tiles."""
    return Fraction(2 * M * K * (N // edge) + 2 * K * N * (M // edge) + 2 * M * N, MIB)


def block(edge: int, depth: int, buffers: int = 1) -> Fraction:
    """KiB of a block: two operands in bf16, one accumulator in f32."""
    return Fraction(buffers * 2 * 2 * edge * depth + 4 * edge * edge, KIB)


def intensity(edge: int) -> Fraction:
    return 2 * Fraction(M * K * N) / (traffic(edge) * MIB)


def rows(keys: int) -> int:
    """Rows of Q that fit into 99 KiB beside a block of keys, with a head of 128."""
    return (99 * KIB - 2 * keys * 128) // (2 * 128 + 4 * keys + 4 * 128 + 12)


def passes(keys: int) -> int:
    return ceil(Fraction(8192, rows(keys)))


NEED = BANDWIDTH * 600 / 10**9 / SMS  # bytes under way for an SM, at 600 ns
SLOW = BANDWIDTH * 1000 / 10**9 / SMS
STEP = 2 * 128 * 128 * 64  # FLOP of a step of a block
A, CODES, W, Y = 32, 16, 6, 12  # MiB of example 5-8
FIGURES: dict[str, Fraction | int | str] = {
    # The matrices.
    "B002": Fraction(2 * M * K, MIB),
    "C001": Fraction(2 * K * N, MIB),
    "B004": Fraction(2 * M * N, MIB),
    "C002": Fraction(2 * M * K * N, 10**9),
    "C003": Fraction(2 * (M * K + K * N + M * N), MIB),
    "B006": traffic(64) / 1024,
    "C004": block(64, 32),
    "B008": block(128, 32),
    # A block on an SM of the H100.
    "B010": Fraction(2 * 128 * 64, KIB),
    "B012": Fraction(4 * 128 * 128, KIB),
    "C005": block(128, 64),
    "B014": 2048 // 32,
    "B016": 228 * KIB,
    "B018": Fraction(256 * 128, KIB),
    "B020": block(128, 64) + 1,
    "B022": 32,
    "C006": 2048 // 256,
    "C007": 65536 // (256 * 128),
    "C008": 228 // 97,
    "C009": 2,
    "B024": 2 * 8,
    "C010": Fraction(100 * 2 * 8, 64),
    "B026": 228 - 2 * 97,
    "B028": Fraction(128 * 128, 256),
    "B030": 228 // (16 + 16 + 1),
    "C011": 65536 // (256 * (64 + 64)),
    "C012": "registers",
    "B032": NEED * SMS / 10**6,
    "C019": NEED / 1000,
    "B034": 32 * 16,
    "C020": Fraction(16 * 4 * 512, KIB),
    "B036": 16 * 4 * 512 / NEED,
    "B044": SLOW / 1000,
    "C021": Fraction(16 * 2 * 512, KIB),
    "B046": 16 * 2 * 512 / SLOW,
    "C022": ceil(SLOW / (2 * 512)),
    "B048": ceil(Fraction(ceil(SLOW / (2 * 512)), 8)),
    "B038": 2 * 16 * 8 * 16,
    "B040": STEP,
    "C013": STEP // 4096,
    "B042": (128 // 16) * (128 // 8) // 8,
    "C068": BANDWIDTH / SMS / 10**9,
    "C069": PEAK / SMS / 10**12,
    "C014": 32 * KIB / (BANDWIDTH / SMS) * 10**6,
    "C015": STEP / (PEAK / SMS) * 10**6,
    "C016": 32 * KIB / BANDWIDTH * PEAK / STEP,
    "C017": Fraction(STEP, 32 * KIB),
    "C018": PEAK / BANDWIDTH,
    # Three output tiles.
    "C023": block(32, 32),
    "B050": traffic(32),
    "C024": intensity(32),
    "B052": 100 * intensity(32) * BANDWIDTH / PEAK,
    "C025": block(64, 32),
    "B054": traffic(64),
    "C026": intensity(64),
    "B056": 100 * intensity(64) * BANDWIDTH / PEAK,
    "C027": block(128, 32),
    "B062": traffic(128),
    "C028": intensity(128),
    "B064": 100 * intensity(128) * BANDWIDTH / PEAK,
    "C029": M // 64,
    "B058": N // 64,
    "C030": 8 * (N // 64),
    "B060": 96 * (M // 64),
    "B070": Fraction(4 * 64 * 64, KIB),
    "C031": M // 128,
    "B066": N // 128,
    "C032": 8 * (N // 128),
    "B068": 96 * (M // 128),
    "B072": Fraction(4 * 128 * 128, KIB),
    "B074": 100 // (24 + 1),
    "C033": 100 // (80 + 1),
    "C034": Fraction(1560, 3096),
    "C035": Fraction(1560, 3096) / Fraction(4, 10),
    # RMSNorm: the input, the weight for each row, the result; then partial sums and scales.
    "B084": 8 * 1024,
    "B086": Fraction(4 * 8192, KIB),
    "C036": Fraction(4 * 1024, KIB),
    "B088": 8 + 8 + 8,
    "B090": Fraction(32 + 32 + 4 + 8 * 4, KIB),
    "C037": 32 + Fraction(32 + 32 + 4 + 8 * 4, KIB),
    "C038": 1,
    "B092": 3,
    "C039": Fraction(4 * 4096, KIB),
    "B094": Fraction(4 * 512, KIB),
    # The activation.
    "B096": 24 + 24,
    "C040": 24 + 24 + 24,
    "B098": 48 + 72,
    "C041": 24 + 24 + 24,
    "B100": 24 + 24,
    "C042": Fraction(120, 72),
    "C043": 24 + 12,
    "B102": 48 + 72 + 36,
    "C044": 72 + 36,
    "B104": 24 + 24 + 12,
    "B106": 12,
    "C045": 24 + 24 + 24,
    "B108": 24 + 24 + 12,
    "C046": 156 - 60,
    "B110": 72 - 60,
    # Attention.
    "B118": Fraction(2 * 8192 * 128, MIB),
    "B120": 4 * 2,
    "C047": Fraction(4 * 8192 * 8192, MIB),
    "C048": Fraction(4 * 256, 1024),
    "B122": rows(1),
    "C049": passes(1),
    "B124": 4 * passes(1) + 4,
    "C050": passes(1) * 8192,
    "B126": rows(64),
    "C051": passes(64),
    "B128": 4 * passes(64) + 4,
    "C052": passes(64) * 128,
    "B130": rows(128),
    "C053": passes(128),
    "B132": 4 * passes(128) + 4,
    "C054": passes(128) * 64,
    "B134": 404 - 260,
    "C055": Fraction(524288, 12800),
    "B136": 8192 // 64,
    "B138": 2 + 2,
    # Partitions, the epilogue.
    "C056": 2**2,
    "B142": 2**9,
    "B144": N // 64,
    "B146": Fraction(2 * 64 * 32, KIB),
    "B148": Fraction(4 * 64 * 64, KIB),
    "B150": 24 + 24,
    # Quantization in front of a product, or inside of it.
    "B152": A,
    "C057": CODES,
    "B154": W,
    "C058": Y,
    "B156": 4096 // 128,
    "C059": 1536 // 128,
    "B158": Fraction(2 * 4096, KIB),
    "B160": A + CODES + 12 * CODES,
    "C060": A + 12 * A,
    "B162": 12 * A - 12 * CODES,
    "C061": 32 * W + Y,
    "B164": 240 + 204,
    "C062": 416 + 204,
    "B166": Fraction(100 * (620 - 444), 444),
    "C063": Fraction(4 * 4096 * (1 + 12), KIB),
    "C064": CODES,
    "B168": A,
    "C065": 1536 // 128,
    # Two buffers.
    "B170": block(64, 32, 2),
    "C066": block(128, 32, 2),
    "B172": 100 // (32 + 1),
    "C067": 100 // (96 + 1),
    "B174": 100 // (24 + 1),
    "B176": 32 * 32 // (16 * 16),
}


def test_every_figure_of_these_sections_is_derived_here() -> None:
    assert FIGURES.keys() == STATED.keys()


@pytest.mark.parametrize("entry", STATED)
def test_the_stated_value_is_the_one_derived(entry: str) -> None:
    assert STATED[entry]["exact"] == str(FIGURES[entry])


def test_one_printed_figure_is_cut_off_and_not_rounded() -> None:
    assert [entry for entry, stated in STATED.items() if not stated.get("follows", True)] == [
        "C026"
    ]
    assert round(float(intensity(64)), 2) == 31.75  # printed: 31.7
    for edge, printed in ((32, 15.9), (128, 63.0)):  # its neighbours are rounded
        assert round(float(intensity(edge)), 1) == printed
