"""Traffic, storage, launches, peak and operations of programs, against sums done by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lastbit.cost import ALL, Attention, Placement, ProgramCost, Tile, cost_of_program
from lastbit.cost.kernels import CycleError, kernels_of
from lastbit.cost.stored import bytes_of
from lastbit.definitions import Definitions, reference
from lastbit.formats import format_of
from lastbit.text import parse_program

KIB, MIB = 2**10, 2**20
PRODUCT = """
a: bf16[M, K]
w: bf16[K, N]
c: bf16 = matmul(a, w) acc f32 {schedule}
"""
PROJECTION = {"M": 1024, "K": 4096, "N": 12288}
CHAIN = """
g: bf16[M, F]
u: bf16[M, F]
t: bf16 = silu(g)
z: bf16 = t * u
q: e4m3fn = z / 1 saturate
"""
QUANTIZED = """
a: f16[M, K]
w: e4m3fn[K, N]
s: f32 = amax(a, axis=-1) / 448
q: e4m3fn = a / s saturate
y: f16 = matmul(q, w) * s acc f32 seq
"""


def program(text: str, **sizes: int) -> Definitions:
    parsed = parse_program(text)
    return Definitions(parsed.nodes(sizes, reference), parsed.outputs)


def cost(text: str, placement: Placement = Placement(), **sizes: int) -> ProgramCost:  # noqa: B008  a frozen value
    return cost_of_program(program(text, **sizes), placement)


def fused(*names: str) -> frozenset[tuple[str, str]]:
    return frozenset(pairwise(names))


# Tiles.


@pytest.mark.parametrize(("edge", "mib", "kib"), [(32, 6168, 8), (64, 3096, 24), (128, 1560, 80)])
def test_a_larger_tile_reads_less_and_holds_more(edge: int, mib: int, kib: int) -> None:
    text = PRODUCT.format(schedule="seq")
    found = cost(text, Placement({"c": Tile(edge, edge, 32)}), **PROJECTION)
    assert (found.bytes, found.local_bytes) == (mib * MIB, kib * KIB)
    assert found.flops == 2 * 1024 * 4096 * 12288
    assert (found.launches, found.peak_bytes) == (1, (8 + 96 + 24) * MIB)


def test_the_last_tiles_are_smaller() -> None:
    text = PRODUCT.format(schedule="seq")
    (kernel,) = cost(text, Placement({"c": Tile(64, 64, 64)}), M=100, K=70, N=130).kernels
    assert kernel.read == {"a": 2 * 100 * 70 * 3, "w": 2 * 70 * 130 * 2}
    assert kernel.local_bytes == 2 * (64 * 64 + 64 * 64) + 4 * 64 * 64


def test_a_second_buffer_doubles_the_operands_and_not_the_accumulators() -> None:
    text = PRODUCT.format(schedule="seq")
    (kernel,) = cost(text, Placement({"c": Tile(64, 64, 32, buffers=2)}), **PROJECTION).kernels
    assert (kernel.held.operands, kernel.accumulator_bytes) == (16 * KIB, 16 * KIB)


@pytest.mark.parametrize("tile", [Tile(), Tile(128), Tile(128, 256), Tile(depth=64)])
def test_what_a_block_holds_is_not_known_before_the_tile_is(tile: Tile) -> None:
    found = cost(PRODUCT.format(schedule="seq"), Placement({"c": tile}), **PROJECTION)
    assert found.local_bytes is None


def test_rows_alone_cut_the_reads_of_one_operand() -> None:
    found = cost(PRODUCT.format(schedule="seq"), Placement({"c": Tile(rows=128)}), **PROJECTION)
    assert found.by_value == {"a": (8 * MIB, 0), "w": (8 * 96 * MIB, 0), "c": (0, 24 * MIB)}


def test_two_products_in_one_kernel_share_a_block_of_their_operand() -> None:
    text = """
    x: bf16[M, K]
    w1: bf16[K, N]
    w2: bf16[K, N]
    g: bf16 = matmul(x, w1) acc f32 seq
    u: bf16 = matmul(x, w2) acc f32 seq
    z: bf16 = g * u
    """
    inside = frozenset({("g", "z"), ("u", "z")})
    (kernel,) = cost(text, Placement({"z": Tile(64, 64, 32)}, inside), **PROJECTION).kernels
    assert kernel.read == {"x": 192 * 8 * MIB, "w1": 16 * 96 * MIB, "w2": 16 * 96 * MIB}
    assert kernel.held.operands == 3 * 4 * KIB  # one block of x for both
    assert kernel.accumulator_bytes == 2 * 16 * KIB  # both sums wait for each other


def test_a_sum_inside_of_a_sum_is_run_again_by_each_column_of_tiles() -> None:
    text = """
    x: f32[M, K]
    w1: f32[K, F]
    w2: f32[F, N]
    y: f32 = matmul(x, w1) acc f32 seq
    z: f32 = matmul(y, w2) acc f32 seq
    """
    sizes = {"M": 8, "K": 8, "F": 8, "N": 8}
    (kernel,) = cost(text, Placement({"z": Tile(4, 4, 2)}, fused("y", "z")), **sizes).kernels
    tiles, steps = 4, 4
    assert kernel.read["x"] == 4 * tiles * steps * (4 * 8)  # all of K for each step along F
    assert kernel.read["w1"] == 4 * tiles * 8 * 8
    assert kernel.read["w2"] == 4 * 2 * 8 * 8
    assert kernel.flops == 2 * (2 * 8 * 8 * 8) + 2 * 8 * 8 * 8
    assert kernel.accumulator_bytes == 4 * (4 * 4 + 4 * 2)
    assert kernel.held.operands == 4 * (4 * 2 + 2 * 2 + 2 * 4)


# Fusion and memory.


@pytest.mark.parametrize(
    ("names", "mib", "peak", "launches"),
    [((), 156, 72, 3), (("t", "z"), 108, 72, 2), (("t", "z", "q"), 60, 60, 1)],
)
def test_fusion_saves_what_is_no_longer_stored(
    names: tuple[str, ...], mib: int, peak: int, launches: int
) -> None:
    found = cost(CHAIN, Placement(inside=fused(*names)), M=1024, F=12288)
    assert (found.bytes, found.peak_bytes) == (mib * MIB, peak * MIB)
    assert (found.launches, found.local_bytes) == (launches, None)


def test_quantizing_in_the_product_reads_more() -> None:
    rows = Tile(1, ALL, ALL)
    tiles = {"y": Tile(128, 128, 64), "q": rows, "s": rows}
    sizes = {"M": 4096, "K": 4096, "N": 1536}
    apart = cost(QUANTIZED, Placement(tiles, together=(frozenset("sq"),)), **sizes)
    inside = cost(QUANTIZED, Placement(tiles, fused("q", "y")), **sizes)
    scales = 4 * 4096 + 12 * 4 * 4096
    assert (apart.bytes, inside.bytes) == (444 * MIB + scales, 620 * MIB + scales)
    assert apart.kernels[0].local_bytes == 8 * KIB  # a row, held from the maximum to the codes
    assert (apart.launches, inside.launches) == (2, 2)
    assert inside.flops - apart.flops == 11 * 4096 * 4096  # the division, in each column of tiles


def test_a_value_is_written_only_where_it_is_read_again() -> None:
    text = """
    x: f32[M]
    a: f32 = x * 2
    b: f32 = a + 1
    dead: f32 = a * 3
    return b, a
    """
    found = cost(text, Placement(inside=fused("a", "b")), M=256)
    assert [kernel.kernel.values for kernel in found.kernels] == [("a", "b")]
    assert found.by_value == {"x": (KIB, 0), "a": (0, KIB), "b": (0, KIB)}
    assert found.peak_bytes == 3 * KIB


def test_a_result_that_is_an_input_costs_nothing() -> None:
    found = cost("x: f32[M]\nreturn x", M=256)
    assert (found.bytes, found.launches, found.peak_bytes) == (0, 0, KIB)


def test_a_program_over_no_rows_moves_nothing() -> None:
    found = cost(PRODUCT.format(schedule="seq"), Placement({"c": Tile(64, 64, 32)}), M=0, K=8, N=8)
    assert (found.bytes, found.flops, found.kernels[0].intensity) == (0, 0, 0)


def test_a_sum_over_nothing_writes_its_zeros() -> None:
    found = cost(PRODUCT.format(schedule="split(4)"), M=8, K=0, N=8)
    assert (found.bytes, found.launches) == (2 * 8 * 8, 1)


def test_formats_below_a_byte_are_packed() -> None:
    text = """
    x: f32[M]
    q: e2m1 = x saturate
    y: f32 = q * 2
    """
    found = cost(text, M=5)
    assert found.by_value["q"] == (3, 3)
    assert [bytes_of(3, format_of(name)) for name in ("e2m1", "e3m2", "e4m3fn", "tf32")] == [
        2,
        3,
        3,
        12,
    ]


def test_a_value_without_a_format_is_never_stored() -> None:
    text = """
    x: f32[M]
    r: real = x * x
    y: f32 = r + 1
    z: f32 = r + 2
    """
    found = cost(text, M=256)
    assert found.by_value == {"x": (2 * KIB, 0), "y": (0, KIB), "z": (0, KIB)}


def test_values_of_one_kernel_read_their_operand_once() -> None:
    text = """
    x: f32[M, K]
    m: f32 = max(x, axis=-1)
    e: f32 = exp(x - m)
    """
    apart = cost(text, M=64, K=64)
    both = cost(text, Placement({"e": Tile(1, ALL, ALL)}, together=(frozenset("me"),)), M=64, K=64)
    assert apart.by_value["x"][0] == 2 * both.by_value["x"][0] == 2 * 16 * KIB
    assert both.kernels[0].written == {"e": 16 * KIB}  # nothing else reads the maximum
    assert both.local_bytes == 64 * 4


def test_a_value_that_only_its_own_kernel_reads_is_computed_inside() -> None:
    names = "spo"
    together = Placement({name: Tile(1024, 128) for name in names}, together=(frozenset(names),))
    (kernel,) = cost(HEAD, together, L=8192, D=128).kernels
    assert kernel.kernel.values == ("o",)  # tiles of 128 columns do not cut the scores
    assert kernel.bytes == (2 * 8 + 2) * 2 * MIB


def test_a_kernel_without_a_tile_works_in_that_of_its_sum() -> None:
    text = PRODUCT.format(schedule="seq") + "y: bf16 = silu(c)\n"
    placement = Placement({"c": Tile(64, 64, 32)}, fused("c", "y"))
    (kernel,) = cost(text, placement, **PROJECTION).kernels
    assert (kernel.kernel.tile, kernel.bytes) == (Tile(64, 64, 32), 3096 * MIB)
    own = Placement({"c": Tile(64, 64, 32), "y": Tile(128, 128)}, fused("c", "y"))
    assert cost(text, own, **PROJECTION).bytes == 1560 * MIB


def test_a_kernel_runs_after_what_all_of_its_values_read() -> None:
    text = """
    x: f32[M]
    a: f32 = x * 2
    b: f32 = x + 1
    c: f32 = b * 3
    return a, c
    """
    found = cost(text, Placement(together=(frozenset("ac"),)), M=8)
    assert [kernel.kernel.values for kernel in found.kernels] == [("b",), ("a", "c")]


def test_groups_that_share_a_value_are_one_kernel() -> None:
    text = """
    x: f32[M]
    a: f32 = x * 2
    b: f32 = x + 1
    c: f32 = x * 3
    """
    together = (frozenset("ab"), frozenset("bc"))
    (kernel,) = kernels_of(program(text, M=8), Placement(together=together))
    assert kernel.values == ("a", "b", "c")


def test_values_cannot_share_a_kernel_across_another() -> None:
    text = """
    x: f32[M]
    a: f32 = x * 2
    b: f32 = a + 1
    c: f32 = b * a
    return a, c
    """
    with pytest.raises(CycleError) as caught:
        cost(text, Placement(together=(frozenset("ac"),)), M=8)
    assert str(caught.value) == (
        "`a`, `c` cannot share a kernel: `b` reads one of them and is read by another. "
        "Add `b` to the kernel, or split it."
    )


# Split sums.


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


# Sizes.


def test_very_long_axes_are_counted_at_once() -> None:
    text = """
    x: f32[M, 4]
    v: f32[1, 2, 2]
    y: f32 = reshape(reshape(x, M, 2, 2) * v, M * 4)
    """
    (kernel,) = cost(text, Placement({"y": Tile(columns=512)}), M=2**40).kernels
    assert kernel.read["x"] == 4 * 2**42
    assert kernel.read["v"] == 4 * 4 * 2**33


# Attention.

HEAD = """
q: bf16[L, D]
k: bf16[L, D]
v: bf16[L, D]
s: f32 = matmul(q, transpose(k)) acc f32 seq
p: f32 = softmax(s)
o: bf16 = matmul(p, v) acc f32 seq
"""


def test_attention_with_stored_scores_moves_a_gibibyte_more() -> None:
    found = cost(HEAD, L=8192, D=128)
    assert {name: sum(moved) for name, moved in found.by_value.items()} == {
        **dict.fromkeys("qkvo", 2 * MIB),
        **dict.fromkeys("sp", 512 * MIB),
    }


@pytest.mark.parametrize(
    ("block", "rows", "passes", "mib", "updates"),
    [(1, 128, 64, 260, 524288), (64, 82, 100, 404, 12800), (128, 53, 155, 624, 9920)],
)
def test_blocks_of_keys(block: int, rows: int, passes: int, mib: int, updates: int) -> None:
    run = Attention(8192, 128, block, 99 * KIB)
    assert (run.rows, run.passes, run.bytes, run.updates) == (rows, passes, mib * MIB, updates)
    assert run.local_bytes(rows) <= 99 * KIB < run.local_bytes(rows + 1)


@pytest.mark.parametrize("rows", [53, 82, 128, 8192])
def test_the_formula_of_attention_is_that_of_the_program_in_one_kernel(rows: int) -> None:
    placement = Placement({"o": Tile(rows)}, fused("s", "p", "o"))
    passes = -(-8192 // rows)
    assert cost(HEAD, placement, L=8192, D=128).bytes == (2 * passes + 2) * 2 * MIB


def test_a_prefetched_block_takes_rows_away() -> None:
    run = Attention(8192, 128, 64, 99 * KIB, prefetch=1)
    assert (run.rows, run.passes, run.bytes) == (66, 125, 504 * MIB)


def test_attention_that_does_not_fit_says_so() -> None:
    run = Attention(8192, 128, 512, 99 * KIB)
    assert run.rows == 0
    with pytest.raises(ValueError, match=r"^no row of Q fits into 101376 bytes$"):
        _ = run.passes
