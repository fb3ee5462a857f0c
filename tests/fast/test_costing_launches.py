"""What extremes hold, and what becomes of declared kernels, against sums done by hand."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from costed import KIB, MIB, account, program

from lastbit.cost import Placement, Tile, cost_of_program
from lastbit.cost.search import explore
from lastbit.cost.units import times_of
from lastbit.exploring import explore_plan
from lastbit.report.exploration import render

CHAIN = """schema = 1
[target]
device = "h100-sxm"
[graph]
symbols = { M = 256, K = 2048, N = 512 }
text = '''
a: bf16[M, K]
w: bf16[K, N]
c: SUM
y: bf16 = relu(c)
z: bf16 = y * y
'''
[[kernel]]
values = ["c", "y"]
rows = 128
columns = 128
depth = 32
"""
TILED = (4 + 4) * MIB  # 4 columns of tiles read a, 1 MiB; 2 rows of tiles read w, 2 MiB
Y = MIB // 4  # y and z: 256 x 512 of two bytes
FUSE = '[[transform]]\nrule = "fuse-elementwise"\nat = ["y"]\n'


# Extremes.


@pytest.mark.parametrize(("depth", "local"), [(2048, 512 * KIB), (64, 16 * KIB)])
def test_a_maximum_holds_the_block_that_it_reads(depth: int, local: int) -> None:
    whole = program(
        "z: bf16[M, F]\ns: f32 = amax(z, axis=-1) / 448\nq: e4m3fn = z / s saturate\n",
        M=1024,
        F=12288,
    )
    placement = Placement(
        {"q": Tile(128, 12288, depth)}, together=(frozenset({"s", "q"}),)
    )  # 128 rows of so many terms of two bytes; the terms pass by twice
    found = cost_of_program(whole, placement)
    assert found.local_bytes == 128 * depth * 2 == local
    assert found.bytes == (2 * 24 + 12) * MIB


def test_a_maximum_without_depth_is_not_known(tmp_path: Path) -> None:
    whole = program("z: f32[M, F]\nm: f32 = max(z, axis=-1)\n", M=1024, F=4096)
    (cost,) = cost_of_program(whole, Placement({"m": Tile(128, 1)})).kernels
    assert (cost.local_bytes, cost.least_bytes) == (None, 128 * 4)  # one term a row at least


def test_a_maximum_beside_a_kept_operand_counts_it_once() -> None:
    whole = program(
        "z: bf16[M, F]\ns: f32 = amax(z, axis=-1) / 448\nq: e4m3fn = z / s saturate\n", M=8, F=512
    )
    placement = Placement({"q": Tile(2, 512)}, together=(frozenset({"s", "q"}),))
    assert cost_of_program(whole, placement).local_bytes == 2 * 512 * 2


# Splits.

SOFTMAX = """
x: f32[M, K]
m: f32 = max(x, axis=-1)
p: f32 = exp(x - m)
l: f32 = sum(p) acc f32 split(4)
y: f32 = p / l
"""


def test_no_alternative_adds_pieces_in_the_launch_that_makes_them() -> None:
    whole = program(SOFTMAX, M=64, K=4096)
    found = explore(whole, said=Placement(split=frozenset({"l"})))
    launches = [{*choice.values, *choice.inside} for a in found.cheapest for choice in a.choices]
    assert any("l.partials" in names for names in launches)
    assert not any({"l.partials", "l"} <= names for names in launches)
    # m and p+l.partials read x twice, 2 MiB, y reads p, 1 MiB; p and y are written, 2 MiB.
    assert found.cheapest[0].bytes >= 4 * MIB


@pytest.mark.parametrize("name", ["c", "y"])
def test_a_smaller_tile_of_a_kernel_split_across_blocks_is_a_finding(
    tmp_path: Path, name: str
) -> None:
    text = CHAIN.replace("SUM", "f32 = matmul(a, w) acc f32 split(4)") + 'split = "blocks"\n'
    text += f'[[transform]]\nrule = "tile-output"\nat = ["{name}"]\nrows = 64\ncolumns = 128\n'
    cost, findings = account(tmp_path, text)
    # The pieces are 4 x 256 x 512 f32, 2 MiB; half the rows read w twice as often, 4 MiB more.
    assert cost.bytes == (TILED + 2 * MIB, TILED + 6 * MIB)
    assert [code for code, _ in findings] == ["COST701"]


def test_the_launch_that_adds_pieces_is_told_from_a_kernel_without_tile(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    text = CHAIN.replace("SUM", "f32 = matmul(a, w) acc f32 split(4)") + 'split = "blocks"\n'
    path.write_text(text, encoding="utf-8")
    shown = render(explore_plan(str(path)), 3)
    assert "the launch that adds the partial sums of `c` has no tile" in shown
    assert "`y` has no tile" not in shown


# Fusion into a kernel of the plan.


@pytest.mark.parametrize(
    ("total", "more", "before", "after"),
    [
        ("bf16 = matmul(a, w) acc f32 seq", "", TILED + 3 * Y, TILED + Y),
        ("f32 = matmul(a, w) acc f32 split(4)", 'split = "loop"\n', TILED + 3 * Y, TILED + Y),
        # The merge launch alone differs: it reads the pieces, 2 MiB.
        ("f32 = matmul(a, w) acc f32 split(4)", 'split = "blocks"\n', 2 * MIB + 3 * Y, 2 * MIB + Y),
    ],
)
def test_what_follows_a_kernel_element_by_element_is_fused_into_it(
    tmp_path: Path, total: str, more: str, before: int, after: int
) -> None:
    cost, findings = account(tmp_path, CHAIN.replace("SUM", total) + more + FUSE)
    assert cost.bytes == (before, after)  # y is neither written nor read
    assert cost.launches == (2, 1)
    assert findings == ()


def test_a_value_that_is_returned_too_is_stored_by_the_kernel(tmp_path: Path) -> None:
    text = CHAIN.replace("SUM", "bf16 = matmul(a, w) acc f32 seq")
    cost, _ = account(tmp_path, text.replace("y * y\n", "y * y\nreturn y, z\n") + FUSE)
    assert cost.bytes == (TILED + 3 * Y, TILED + 2 * Y)
    assert cost.launches == (2, 1)


# Times.


def test_two_times_are_written_so_that_they_differ() -> None:
    micro = Fraction(1, 10**6)
    assert times_of(micro * Fraction(2582, 1000), micro * Fraction(2583, 1000)) == (
        "2.582 us -> 2.583 us"
    )
    assert times_of(368 * micro, 488 * micro) == "368 us -> 488 us"
    assert times_of(2 * micro, 2 * micro) == "2 us on both sides"


# What a block that holds a row reads.

NORMS = """
x: bf16[M, K]
g: bf16[1, K]
b: bf16[1, K]
r: f32 = sum(x) acc f32 seq
mu: f32 = r / 1024
d: f32 = x - mu
v: f32 = sum(d * d) acc f32 seq
s: f32 = rsqrt(v / 1024 + 1e-5)
y: bf16 = d * s * g + b
"""


@pytest.mark.parametrize(
    ("tile", "reads_of_x", "local"),
    [
        # A row of four: 8 KiB of x, 16 KiB of d, two sums of four.
        (Tile(4, 1024), 1, 24 * KIB),
        (Tile(4, 256), 4, 24 * KIB),  # four tiles, and each has its columns
        # 256 terms at a time: 2 KiB of x in three passes; d is computed in two of them.
        (Tile(4, 1024, 256), 3, 2 * KIB),
        (Tile(4, 256, 256), 4 + 4 + 1, 2 * KIB),
    ],
)
def test_a_row_that_is_held_is_not_read_again(tile: Tile, reads_of_x: int, local: int) -> None:
    whole = program(NORMS, M=512, K=1024)
    placement = Placement({"y": tile}, together=(frozenset({"r", "mu", "d", "v", "s", "y"}),))
    found = cost_of_program(whole, placement)
    # 128 blocks of rows read g and b, 2 KiB each; y is written.
    assert found.bytes == reads_of_x * MIB + 128 * 4 * KIB + MIB
    assert found.local_bytes is not None
    assert local <= found.local_bytes <= local + 2 * 4 * 4


@pytest.mark.parametrize(("columns", "reads_of_x"), [(4096, 1), (1024, 4)])
def test_a_softmax_that_holds_its_row_reads_it_once_a_tile(columns: int, reads_of_x: int) -> None:
    whole = program(SOFTMAX.replace("split(4)", "seq"), M=64, K=4096)
    placement = Placement({"y": Tile(2, columns)}, together=(frozenset("mply"),))
    found = cost_of_program(whole, placement)
    assert found.bytes == (reads_of_x + 1) * MIB
    assert found.local_bytes == 2 * 4096 * 4 + 2 * 4


@pytest.mark.parametrize(
    ("depth", "reads_of_q", "operands"),
    [
        (64, 1, (96 + 64) * 64 * 2),  # all 64 terms of a query are there, and stay
        (32, 16, (96 + 32) * 32 * 2),  # half of them are: anew for each of 16 blocks of 32 keys
    ],
)
def test_a_query_that_is_held_is_read_once(depth: int, reads_of_q: int, operands: int) -> None:
    text = """
q: bf16[L, D]
k: bf16[S, D]
s: f32 = matmul(q, transpose(k)) acc f32 seq
m: f32 = max(s, axis=-1)
return s, m
"""
    whole = program(text, L=1000, S=500, D=64)
    placement = Placement({"s": Tile(96, 500, depth)}, together=(frozenset("sm"),))
    found = cost_of_program(whole, placement)
    queries, keys = 1000 * 128, 500 * 128
    # 11 blocks of rows read the keys; scores and maxima are f32.
    assert found.bytes == reads_of_q * queries + 11 * keys + 4 * 1000 * 500 + 4 * 1000
    assert found.local_bytes == operands + 96 * depth * 4
