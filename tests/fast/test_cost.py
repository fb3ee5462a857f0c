"""Traffic, storage, launches, peak and operations of programs, against sums done by hand."""

from __future__ import annotations

import pytest
from costed import KIB, MIB, PRODUCT, PROJECTION, QUANTIZED, cost, fused, program

from lastbit.cost import ALL, Placement, Tile
from lastbit.cost.kernels import CycleError, kernels_of
from lastbit.cost.stored import bytes_of
from lastbit.formats import format_of

CHAIN = """
g: bf16[M, F]
u: bf16[M, F]
t: bf16 = silu(g)
z: bf16 = t * u
q: e4m3fn = z / 1 saturate
"""


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
