"""What a block holds, also where its tile does not say all, against sums done by hand."""

from __future__ import annotations

import pytest
from costed import ATTENTION, KIB, MIB, program

from lastbit.cost import ALL, Attention, Placement, ProgramCost, Tile, cost_of_program
from lastbit.cost.attention import blockwise as blocks_of
from lastbit.definitions import Definitions
from lastbit.graph import Node, substitute
from lastbit.registry import load_rules
from lastbit.rule import Site

NAMES = frozenset("smpluo")
NORM = """
x: bf16[M, K]
gamma: bf16[1, K]
r: f32 = sum(x * x) acc f32 seq
y: bf16 = x * rsqrt(r / 4096) * gamma
"""
PRODUCT = """
a: f32[M, K]
w: f32[K, N]
c: f32 = matmul(a, w) acc f32 seq
"""


def blockwise(block: int, **sizes: int) -> Definitions:
    """Return attention whose scores pass by in blocks of keys."""
    whole = program(ATTENTION, **sizes)
    rule = load_rules()["RED251"]
    return whole.edited(rule.apply(Site(whole, ("o",), {"block": block})))


def run(whole: Definitions, tile: Tile, names: frozenset[str] = NAMES) -> ProgramCost:
    inside = Placement(dict.fromkeys(whole.outputs, tile), together=(names,))
    return cost_of_program(whole, inside)


def test_blockwise_attention_holds_what_the_formula_says() -> None:
    found = run(blockwise(64, L=328, S=8192, D=128), Tile(82, 128))
    # Q 82 x 256, a slot of K or V 64 x 256, and 82 rows of f32: 64 scores, 128 sums, 3 numbers.
    assert found.local_bytes == 20992 + 16384 + 4 * 82 * (64 + 128 + 3) == 101336
    assert found.local_bytes == Attention(8192, 128, 64, 99 * KIB).local_bytes(82)
    assert found.bytes == 4 * 4 * MIB + 2 * 328 * 256  # four passes over K and V; Q and O


def test_a_second_buffer_is_one_more_block_of_keys() -> None:
    whole = blockwise(64, L=132, S=1024, D=128)
    held = [run(whole, Tile(66, 128, buffers=n)).local_bytes for n in (1, 2)]
    assert held[1] == Attention(1024, 128, 64, 99 * KIB, prefetch=1).local_bytes(66) == 101144
    assert (held[1] or 0) - (held[0] or 0) == 64 * 256


@pytest.mark.parametrize(("block", "local"), [(64, 91648), (128, 132608)])
@pytest.mark.parametrize("depth", [64, None])
def test_a_block_of_keys_is_read_once_whatever_its_size(
    block: int, local: int, depth: int | None
) -> None:
    found = run(blockwise(block, L=2048, S=1024, D=64), Tile(128, depth=depth))
    assert found.bytes == 16 * 2 * 128 * KIB + 2 * 256 * KIB  # 4.5 MiB
    # With 64 keys: Q 16 KiB, a slot 8 KiB, 128 rows of f32 with 64 + 64 + 3 numbers.
    assert found.local_bytes == local


@pytest.mark.parametrize("depth", [64, None])
def test_scores_of_a_whole_row_are_held_and_computed_once(depth: int | None) -> None:
    (kernel,) = run(program(ATTENTION, L=82, S=8192, D=128), Tile(82, depth=depth)).kernels
    assert kernel.bytes == 4 * MIB + 2 * 82 * 256  # one pass; not one more for the weights
    scores, weighted = 4 * 82 * 8192, 4 * 82 * 128
    assert kernel.local_bytes is None
    assert kernel.accumulator_bytes == scores + weighted + 4 * 82
    terms = depth or 1  # of a query and of all keys
    assert kernel.least_bytes == kernel.accumulator_bytes + 2 * terms * (82 + 8192)
    assert kernel.flops < 2 * 2 * 82 * 8192 * 128 * 1.1  # both products, and little else


def test_a_row_that_is_read_again_is_held_where_no_depth_is_said() -> None:
    found = run(program(NORM, M=8, K=4096), Tile(1, ALL), frozenset("ry"))
    assert found.bytes == 3 * 8 * 8 * KIB  # x, gamma for each row, y
    assert found.local_bytes == 8 * KIB + 4


def test_a_product_without_a_depth_holds_one_term_at_least() -> None:
    tile = Tile(512, 4096)
    (kernel,) = run(program(PRODUCT, M=512, K=4096, N=4096), tile, frozenset("c")).kernels
    assert kernel.local_bytes is None
    assert kernel.least_bytes == 8 * MIB + 4 * (512 + 4096)


def test_nothing_is_known_of_a_kernel_without_a_tile() -> None:
    (kernel,) = run(program(PRODUCT, M=64, K=64, N=64), Tile(), frozenset("c")).kernels
    assert (kernel.local_bytes, kernel.least_bytes) == (None, 0)


def test_scales_of_blocks_of_columns_are_no_attention() -> None:
    text = """
    z: bf16[M, 64]
    a: f32 = max(z[:, 0:32], axis=-1)
    b: f32 = max(z[:, 32:64], axis=-1)
    r: f32 = sum(z / (a + b)) acc f32 seq
    """
    found = program(text, M=4)
    inner = {name: found.nodes[name] for name in "ab"}
    leaves = {found.ref(name).key: node for name, node in inner.items()}
    root = substitute([found.nodes["r"]], leaves)[found.nodes["r"].key]
    assert blocks_of([root]) is None
    blocks = blocks_of([_written_out(blockwise(8, L=4, S=32, D=8))])
    assert blocks is not None
    assert blocks.block == 8


def _written_out(whole: Definitions) -> Node:
    (kernel,) = run(whole, Tile(4)).kernels
    return kernel.kernel.nodes["o"]
