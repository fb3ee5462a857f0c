"""Schedules are compared by their trees at the true sizes, and the rest of a graph at all sizes."""

import pytest

from lastbit.text import parse_program
from lastbit.verify.region import Region
from lastbit.verify.trees import same_trees

TEXT = "x: f32[M, K]\nw: f32[M, K]\ny: f32 = sum({}) acc f32 {}"


def region(before: str, after: str, k: int, m: int = 1, terms: str = "x * w") -> Region:
    sides = (TEXT.format("x * w", before), TEXT.format(terms, after))
    return Region(*(parse_program(side).bind({"M": m, "K": k}) for side in sides))


@pytest.mark.parametrize(
    ("before", "after", "equal"),
    [
        ("split(8)", "split(size=512)", True),
        ("split(8)", "split(8, tile=64)", True),
        ("seq", "split(1)", True),
        ("split(8)", "split(4)", False),
        ("seq", "pairwise(8)", False),
        ("split(8)", "split(8, outer=pairwise)", False),
        ("split(8)", "split(8, partials=bf16)", False),
    ],
)
def test_schedules_are_equal_where_their_trees_are(before: str, after: str, equal: bool) -> None:
    small = [region(before, after, 12, 2)]  # 8 pieces of 12 terms, 1 piece of at most 512
    assert same_trees(region(before, after, 4096), small) is equal


def test_seq_and_pairwise_are_one_tree_over_eight_terms_and_two_over_nine() -> None:
    assert same_trees(region("seq", "pairwise(8)", 8), [])
    assert not same_trees(region("seq", "pairwise(8)", 9), [])


def test_what_is_added_has_to_be_equal_at_every_size() -> None:
    other = region("split(8)", "split(size=512)", 12, terms="w * w")
    assert not same_trees(region("split(8)", "split(size=512)", 4096, terms="w * w"), [])
    assert not same_trees(region("split(8)", "split(size=512)", 4096), [other])
