"""What sums in pieces move, hold and launch, against sums done by hand."""

from __future__ import annotations

import pytest
from costed import KIB, MIB, PRODUCT, PROJECTION, cost, fused

from lastbit.cost import ALL, Placement, Tile


@pytest.mark.parametrize(
    ("schedule", "partials", "launches"),
    [
        ("seq", 0, 1),
        ("lanes(4)", 0, 1),
        ("split(1)", 0, 1),
        ("split(4)", 2 * 4 * 4 * 64, 2),  # written and read by a launch that adds them
        ("split(4, tile=8)", 2 * 2 * 4 * 64, 2),  # two tiles of 8: two pieces
        ("split(5, tile=2, deal=interleaved)", 2 * 5 * 4 * 64, 2),  # eight tiles: five pieces
        ("split(size=6)", 2 * 3 * 4 * 64, 2),
        ("split(4, partials=bf16)", 2 * 4 * 2 * 64, 2),
        # Cleared by a launch, then read and written by each piece, then read to be rounded.
        ("split(4, inner=seq, outer=any_order)", (2 * 4 + 2) * 4 * 64, 3),
    ],
)
def test_partial_sums_are_written_and_read(schedule: str, partials: int, launches: int) -> None:
    across = Placement(split=frozenset("c"))
    found = cost(PRODUCT.format(schedule=schedule), across, M=8, K=16, N=8)
    assert (sum(k.partials for k in found.kernels), found.launches) == (partials, launches)
    assert found.bytes == 2 * (8 * 16 + 16 * 8 + 8 * 8) + partials


@pytest.mark.parametrize(
    "schedule", ["split(4)", "split(size=32)", "split(4, inner=seq, outer=any_order)"]
)
def test_a_split_that_is_no_split_across_blocks_is_one_loop(schedule: str) -> None:
    placement = Placement({"c": Tile(64, 64, 32)})
    found = cost(PRODUCT.format(schedule=schedule), placement, **PROJECTION)
    assert (found.bytes, found.launches) == (3096 * MIB, 1)
    assert found.local_bytes == (8 + 2 * 16) * KIB  # one running sum for the piece, one for all


@pytest.mark.parametrize(
    ("schedule", "sums"),
    [
        ("seq", 1),
        ("fused(16, hopper)", 1),
        ("promote(128, f32)", 2),  # one of the unit, one that it is added to
        ("split(4096)", 1 + 1),
        ("split(size=4096)", 1),  # one piece
        ("lanes(4)", 4),  # each lane runs along
        ("split(size=128, inner=lanes(8), outer=seq)", 1 + 8),
        ("pairwise(64)", 1 + 6),  # halves of 64 runs wait, one at each of 6 levels
    ],
)
def test_a_schedule_says_how_many_running_sums_there_are(schedule: str, sums: int) -> None:
    placement = Placement({"c": Tile(64, 64, 32)})
    found = cost(PRODUCT.format(schedule=schedule), placement, **PROJECTION)
    assert found.local_bytes == (8 + sums * 16) * KIB


def test_a_tree_waits_for_its_shorter_halves() -> None:
    text = "x: f32[M, 4]\ny: f32 = sum(x) acc f32 tree({tree})\n"
    for tree, waiting in (("(((0, 1), 2), 3)", 1), ("((0, 1), (2, 3))", 2)):
        found = cost(text.format(tree=tree), Placement({"y": Tile(1, ALL, 1)}), M=2)
        assert found.kernels[0].accumulator_bytes == 4 * waiting


def test_atomics_into_the_result_need_a_launch_that_clears_it() -> None:
    text = """
    x: f32[M, K]
    y: f32 = sum(x, axis=-1) acc f32 split(4, inner=seq, outer=any_order)
    """
    found = cost(text, Placement(split=frozenset("y")), M=64, K=64)
    assert (found.launches, found.by_value["y"]) == (2, (4 * 4 * 64, 4 * 4 * 64 + 4 * 64))
    assert found.bytes == 4 * 64 * 64 + 4 * 64 + 2 * 4 * 4 * 64  # x, cleared, four pieces
    assert found.peak_bytes == 4 * 64 * 64 + 4 * 64


def test_partial_sums_and_operands_are_not_alive_with_the_result() -> None:
    split = cost(
        PRODUCT.format(schedule="split(4)"), Placement(split=frozenset("c")), M=8, K=16, N=8
    )
    operands, partials = 2 * (8 * 16 + 16 * 8), 4 * 4 * 8 * 8
    assert split.peak_bytes == operands + partials  # and 128 bytes of the result once they are gone


def test_a_split_product_reads_each_operand_once_for_each_tile() -> None:
    text = PRODUCT.format(schedule="split(3)") + "y: bf16 = silu(c)\n"
    placement = Placement(
        {"c": Tile(64, 64, 32)}, together=(frozenset("cy"),), split=frozenset("c")
    )
    pieces, merged = cost(text, placement, **PROJECTION).kernels
    # 4096 terms are pieces of 1366, 1366 and 1364: 3 partial sums of 1024 x 12288 in f32.
    assert pieces.read == {"a": 192 * 8 * MIB, "w": 16 * 96 * MIB}
    assert pieces.written == {"c.partials": 3 * 48 * MIB} == merged.read
    assert merged.written == {"y": 24 * MIB}  # the activation follows where the pieces are added
    assert (pieces.local_bytes, pieces.blocks) == (24 * KIB, 3 * 16 * 192)


def test_what_does_not_vary_with_the_terms_is_read_again_by_each_piece() -> None:
    text = """
    x: f32[M, K]
    s: f32[M, 1]
    y: f32 = sum(x * s) acc f32 split(4)
    """
    found = cost(text, Placement({"y": Tile(1, ALL, 8)}, split=frozenset("y")), M=16, K=64)
    assert found.by_value["x"] == (4 * 16 * 64, 0)
    assert found.by_value["s"] == (4 * 4 * 16, 0)  # 4 pieces of 16 rows


RMS_NORM = """
x: bf16[M, K]
gamma: bf16[1, K]
total: f32 = sum(x * x) acc f32 {schedule}
scale: f32 = rsqrt(total / 4096 + 1e-6)
z: bf16 = x * scale * gamma
"""
ROWS = {"M": 1024, "K": 4096}


def test_rms_norm_in_one_piece_and_in_eight() -> None:
    one = cost(
        RMS_NORM.format(schedule="seq"),
        Placement({"z": Tile(1, ALL, ALL)}, fused("total", "scale", "z")),
        **ROWS,
    )
    tiles = {"scale": Tile(1, ALL, 512), "z": Tile(1, 512)}
    placement = Placement(tiles, fused("total", "scale"), split=frozenset({"total"}))
    three = cost(RMS_NORM.format(schedule="split(8)"), placement, **ROWS)
    assert (one.bytes, one.launches) == (24 * MIB, 1)
    assert (three.bytes, three.launches) == (32 * MIB + 100 * KIB, 3)


SPLIT_NORM = RMS_NORM.format(schedule="split(8)")


@pytest.mark.parametrize(
    "placement",
    [
        Placement(inside=fused("total", "scale", "z")),
        Placement(together=(frozenset({"total", "scale", "z"}),)),
        Placement(inside=fused("total", "scale"), together=(frozenset({"scale", "z"}),)),
    ],
)
def test_a_split_inside_of_a_kernel_cuts_it(placement: Placement) -> None:
    said = Placement({"z": Tile(1, ALL)}, split=frozenset({"total"}))
    found = cost(SPLIT_NORM, said.then(placement), **ROWS)
    # x for the pieces, 8 x 1024 partial sums twice, 1024 scales twice; x, gamma for each row, z.
    assert found.bytes == 8 * MIB + 2 * 32 * KIB + 2 * 4 * KIB + 3 * 8 * MIB
    assert found.launches == 3


def test_a_split_in_the_middle_of_a_definition_cuts_it_too() -> None:
    text = """
    x: f32[M, K]
    y: f32 = x / sum(x * x) acc f32 split(4)
    """
    found = cost(text, Placement({"y": Tile(1, ALL)}, split=frozenset("y")), M=64, K=64)
    once, row = 4 * 64 * 64, 4 * 64
    assert found.by_value == {
        "x": (2 * once, 0),
        "y.partials": (4 * row, 4 * row),
        "y.sum": (row, row),
        "y": (0, once),
    }
    assert found.launches == 3


def test_a_value_of_the_first_part_that_the_rest_reads_is_stored() -> None:
    text = """
    x: f32[M, K]
    e: f32 = x * x
    l: f32 = sum(e) acc f32 split(4)
    y: f32 = e / l
    """
    placement = Placement({"y": Tile(1, ALL)}, together=(frozenset("ely"),), split=frozenset("l"))
    found = cost(text, placement, M=64, K=64)
    once, row = 4 * 64 * 64, 4 * 64
    assert found.by_value == {
        "x": (once, 0),
        "e": (once, once),
        "l.partials": (4 * row, 4 * row),
        "l": (row, row),
        "y": (0, once),
    }
    assert [kernel.kernel.values for kernel in found.kernels] == [
        ("e", "l.partials"),
        ("l",),
        ("y",),
    ]


def test_sums_one_after_the_other_hold_two_accumulators() -> None:
    parts = " + ".join(f"sum(x[:, {i}:{i + 4}], axis=-1)" for i in range(0, 64, 4))
    text = f"x: f32[M, 64]\ny: f32 = {parts} acc f32 seq\n"
    (kernel,) = cost(text, Placement({"y": Tile(8, ALL, 2)}), M=64).kernels
    assert kernel.accumulator_bytes == 2 * 4 * 8  # what is added up so far, and the next sum
    assert kernel.held.operands == 4 * 8 * 2  # the block of one sum at a time
    assert kernel.read == {"x": 4 * 64 * 64}


def test_a_sum_of_partial_sums_takes_in_each_as_it_comes() -> None:
    parts = ", ".join(f"sum(x[:, {i}:{i + 4}], axis=-1)" for i in range(0, 64, 4))
    text = f"x: f32[M, 64]\ny: f32 = sum(concat({parts}, axis=1), axis=-1) acc f32 seq\n"
    (kernel,) = cost(text, Placement({"y": Tile(8, ALL, 2)}), M=64).kernels
    assert kernel.accumulator_bytes == 2 * 4 * 8
