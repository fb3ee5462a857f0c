"""What becomes of kernels when a step fuses, tiles, splits or spills, against sums done by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from costed import KIB, MIB, ON_H100, account, transform

PRODUCT = """schema = 1
[graph]
symbols = { M = 1024, K = 4096, N = 12288 }
text = '''
a: bf16[M, K]
w: bf16[K, N]
c: bf16 = matmul(a, w) acc f32 seq
z: bf16 = silu(c)
'''
[[kernel]]
values = ["c"]
rows = 64
columns = 64
depth = 32
"""
TILED = (1536 + 1536) * MIB  # 192 columns of tiles read a, 8 MiB; 16 rows of tiles read w, 96 MiB
C = 24 * MIB


# Tiles.

SMALL = PRODUCT.replace("M = 1024, K = 4096, N = 12288", "M = 128, K = 4096, N = 1536")


@pytest.mark.parametrize("name", ["c", "z"])
def test_a_tile_of_any_value_of_a_kernel_is_that_of_the_kernel(tmp_path: Path, name: str) -> None:
    text = PRODUCT.replace('"c"', '"c", "z"')
    text += transform("tile-output", name, "rows = 128", "columns = 128")
    cost, _ = account(tmp_path, text)
    assert cost.bytes == (TILED + C, TILED // 2 + C)
    assert cost.local_bytes == (24 * KIB, 80 * KIB)


def test_a_smaller_tile_is_a_finding(tmp_path: Path) -> None:
    text = SMALL + transform("tile-output", "c", "rows = 32", "columns = 32")
    cost, findings = account(tmp_path, text)
    tiled, c = (24 + 24) * MIB, 384 * KIB  # 24 columns of tiles read a, 1 MiB; 2 rows w, 12 MiB
    assert cost.bytes == (tiled + c, 2 * tiled + c)
    assert findings == (
        (
            "COST701",
            "tile-output at `c` moves 96.4 MiB instead of 48.4 MiB (+99.2 %), most of it for reads "
            "of `w`: 24 MiB -> 48 MiB",
        ),
    )


def test_the_first_tile_of_a_kernel_is_no_finding(tmp_path: Path) -> None:
    text = SMALL[: SMALL.index("[[kernel]]")]
    cost, findings = account(
        tmp_path, text + transform("tile-output", "c", "rows = 64", "columns = 64")
    )
    c = 384 * KIB
    assert cost.bytes == (1 * MIB + 12 * MIB + c, (24 + 24) * MIB + c)
    assert findings == ()  # before, nothing was said that it could be compared with


# What is stored.


def test_an_epilogue_stores_a_sum_that_is_a_result_too(tmp_path: Path) -> None:
    text = PRODUCT.replace("silu(c)\n", "silu(c)\nreturn c, z\n") + transform("epilogue", "c")
    cost, findings = account(tmp_path, text)
    assert cost.bytes == (TILED + C + 2 * C, TILED + 2 * C)
    assert (cost.launches, findings) == ((2, 1), ())


def test_a_sum_with_two_readers_is_added_up_once(tmp_path: Path) -> None:
    text = PRODUCT.replace("z: bf16", "n: bf16 = -c\nz: bf16")
    text = text.replace("silu(c)\n", "silu(c)\nreturn n, z\n") + transform("epilogue", "c")
    cost, _ = account(tmp_path, text)
    assert cost.bytes == (TILED + C + 4 * C, TILED + 2 * C)
    assert (cost.launches, cost.local_bytes) == ((3, 1), (24 * KIB, 24 * KIB))


def test_a_reader_that_waits_for_another_kernel_reads_the_stored_sum(tmp_path: Path) -> None:
    text = PRODUCT.replace("z: bf16 = silu(c)", "n: bf16 = -c\nm: bf16 = amax(n)\nz: bf16 = c / m")
    cost, _ = account(tmp_path, text + transform("epilogue", "c"))
    # c and c -> n become one kernel; n -> m and c, m -> z stay as they were.
    assert cost.bytes == (TILED + C + 2 * C, TILED + 2 * C)
    assert cost.launches == (2, 1)


def test_an_elementwise_value_that_is_a_result_too_is_stored_by_its_reader(tmp_path: Path) -> None:
    text = """schema = 1
[graph]
symbols = { M = 1024, F = 12288 }
text = '''
g: bf16[M, F]
u: bf16[M, F]
t: bf16 = silu(g)
z: bf16 = t * u
return t, z
'''
"""
    cost, _ = account(tmp_path, text + transform("fuse-elementwise", "t"))
    assert cost.bytes == (5 * C, 4 * C)  # g -> t and t, u -> z; then g, u -> t, z
    assert cost.launches == (2, 1)


# Sums in pieces.

NORM = """schema = 1
[graph]
symbols = { M = 1024, K = 4096 }
text = '''
x: bf16[M, K]
gamma: bf16[1, K]
r: f32 = sum(x * x) acc f32 seq
s: f32 = rsqrt(r / 4096 + 1e-6)
y: bf16 = x * s * gamma
'''
[[kernel]]
values = ["r", "s", "y"]
rows = 1
columns = "all"
"""


def test_a_split_inside_of_a_norm_reads_the_row_again(tmp_path: Path) -> None:
    text = NORM + ON_H100 + transform("split-k", "r", "n = 8")
    cost, findings = account(tmp_path, text)
    # x; 8 partial sums of 1024 rows and 1024 scales, twice each; x, gamma for each row, and y.
    assert cost.bytes == (24 * MIB, 32 * MIB + 2 * 32 * KIB + 2 * 4 * KIB)
    assert cost.launches == (1, 3)
    ((code, message),) = findings
    assert code == "COST703"
    assert "its partial sums and what is read again add 8.1 MiB and 2 launches" in message


SQUARE = """schema = 1
[graph]
symbols = { M = 512, K = 4096, N = 512 }
text = '''
a: f32[M, K]
w: f32[K, N]
c: f32 = matmul(a, w) acc f32 seq
y: f32 = relu(c)
'''
[[kernel]]
values = ["c", "y"]
rows = 128
columns = 128
depth = 16
"""


@pytest.mark.parametrize(
    ("rule", "more", "mib", "launches", "peak", "kib"),
    [
        # a and w for 4 tiles each are 64 MiB; c and y are 1 MiB each. The operands, 8 MiB each, are
        # freed once the 8 partial sums are there.
        ("split-k", "n = 8", 64 + 8 + 8 + 1, 2, 16 + 8, 80),
        ("split-k-bf16-partials", "n = 8", 64 + 4 + 4 + 1, 2, 16 + 4, 80),
        # A launch clears c, 8 pieces each read and write it, and y is made from it.
        ("split-k-atomics", "n = 8", 64 + 1 + 8 + 8 + 1 + 1, 3, 16 + 1, 80),
        # One loop: a second running sum of 128 x 128 in f32.
        ("block-partials", "block = 16", 64 + 1, 1, 17, 80 + 64),
        ("change-schedule", 'schedule = "split(size=16)"', 64 + 1, 1, 17, 80 + 64),
        # 127 times, c is stored in bf16, 0.5 MiB, and read again, where y will be.
        ("running-spill", "block = 32", 64 + 1 + 127, 1, 17, None),
        ("accumulate-into-output", "block = 32", 64 + 1 + 127, 1, 17, None),
    ],
)
def test_a_sum_in_pieces(
    tmp_path: Path, rule: str, more: str, mib: int, launches: int, peak: int, kib: int | None
) -> None:
    cost, findings = account(tmp_path, SQUARE + transform(rule, "c", more, "branch = true"))
    assert cost.bytes == (65 * MIB, mib * MIB)
    assert cost.launches == (1, launches)
    assert cost.peak_bytes == (17 * MIB, peak * MIB)
    assert kib is None or cost.local_bytes == (80 * KIB, kib * KIB)
    assert any("running sums: 0 bytes -> 127 MiB" in text for _, text in findings) == (mib == 192)


def test_a_kernel_says_that_a_split_of_the_graph_is_across_blocks(tmp_path: Path) -> None:
    text = SQUARE.replace("acc f32 seq", "acc f32 split(8)")
    step = transform("change-schedule", "c", 'schedule = "seq"')
    loop, blocks = (
        account(tmp_path, text + f'split = "{how}"\n' + step)[0] for how in ("loop", "blocks")
    )
    assert (loop.bytes, loop.launches) == ((65 * MIB, 65 * MIB), (1, 1))
    assert (blocks.bytes, blocks.launches) == ((81 * MIB, 65 * MIB), (2, 1))


# Rows.

SOFTMAX = """schema = 1
[graph]
symbols = { M = 8, K = 4096 }
text = '''
x: f32[M, K]
m: f32 = max(x, axis=-1)
p: f32 = exp(x - m)
l: f32 = sum(p) acc f32 seq
y: f32 = p / l
'''
[[kernel]]
values = ["m", "p", "l", "y"]
rows = 1
columns = "all"
"""


def test_a_row_is_read_once_if_it_is_held_and_in_each_pass_if_not(tmp_path: Path) -> None:
    step = transform("tile-output", "y", "rows = 1", "columns = 4096")
    held, _ = account(tmp_path, SOFTMAX + step)
    streamed, _ = account(tmp_path, SOFTMAX + "depth = 512\n" + step)
    rows = 128 * KIB  # all 8 of them
    assert held.bytes == (2 * rows, 2 * rows)
    assert held.local_bytes == (16 * KIB + 4, 16 * KIB + 4)  # the row, and its running sum
    # The maximum, the sum and the quotient each read 512 terms at a time.
    assert streamed.bytes == (4 * rows, 4 * rows)
    assert streamed.local_bytes == (2 * KIB + 4, 2 * KIB + 4)


PER_ROW = """schema = 1
[graph]
symbols = { M = 200, K = 1000, N = 300 }
text = '''
x: f16[M, K]
w: e4m3fn[K, N]
s: f32 = amax(x, axis=-1) / 448
q: e4m3fn = x / s saturate
y: f16 = matmul(q, w) * s acc f32 seq
'''
[[kernel]]
values = ["s", "q"]
rows = 1
columns = "all"
"""


@pytest.mark.parametrize(("depth", "again"), [("", 0), ("depth = 500\n", 400_000)])
def test_what_is_stored_on_the_way_is_not_computed_for_that_again(
    tmp_path: Path, depth: str, again: int
) -> None:
    text = PER_ROW + depth + transform("tile-output", "q", "rows = 1", "columns = 100")
    cost, _ = account(tmp_path, text)
    # Ten tiles read the row for its maximum; its part for the codes is there, unless half of the
    # row has gone by; scales and codes.
    written = 800 + 200_000
    assert cost.bytes == (400_000 + again + written, 10 * 400_000 + again + written)


def test_a_maximum_over_all_tiles_has_a_launch_of_its_own(tmp_path: Path) -> None:
    text = PER_ROW + transform("quantize-per-tensor", "q", "branch = true")
    cost, _ = account(tmp_path, text)
    # x for the scale, which is one number; then x, the scale for each row's tile, and the codes.
    assert cost.bytes == (600_800, 400_000 + 4 + 400_000 + 4 * 200 + 200_000)
    assert cost.launches == (1, 2)
