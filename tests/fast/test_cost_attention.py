"""Attention with its scores stored, in one kernel and block by block, against sums done by hand."""

from __future__ import annotations

import pytest
from costed import KIB, MIB, cost, fused

from lastbit.cost import Attention, Placement, Tile

HEAD = """
q: bf16[L, D]
k: bf16[L, D]
v: bf16[L, D]
s: f32 = matmul(q, transpose(k)) acc f32 seq
p: f32 = softmax(s)
o: bf16 = matmul(p, v) acc f32 seq
"""


def test_a_value_that_only_its_own_kernel_reads_is_computed_inside() -> None:
    names = "spo"
    together = Placement({name: Tile(1024, 128) for name in names}, together=(frozenset(names),))
    (kernel,) = cost(HEAD, together, L=8192, D=128).kernels
    assert kernel.kernel.values == ("o",)  # tiles of 128 columns do not cut the scores
    assert kernel.bytes == (2 * 8 + 2) * 2 * MIB


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
