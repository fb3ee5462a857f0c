"""An audit blames the operators that break a promise, and no other."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from audited import SMALL, SPLITS_FROM, audited, codes, gaps, in_order, numbers, split_sum  # noqa: E402
from torch import Tensor  # noqa: E402

COUNT = itertools.count()


@torch.library.custom_op("audited::other_each_time", mutates_args=())
def other_each_time(x: Tensor) -> Tensor:
    """Return another number of ulp more each time."""
    return x * (1 + 2**-20 * next(COUNT))


@torch.library.custom_op("audited::over_batch", mutates_args=())
def over_batch(x: Tensor) -> Tensor:
    """Scale by the greatest number of all rows, as a tensor-wide scale does."""
    return x / x.abs().amax()


@torch.library.custom_op("audited::by_place", mutates_args=())
def by_place(x: Tensor) -> Tensor:
    """Add rows at odd places from the end."""
    odd = (torch.arange(x.shape[0]) % 2 == 1)[:, None]
    return in_order(torch.where(odd, x.flip(1), x))


def test_only_the_operator_whose_split_depends_on_the_batch_is_blamed() -> None:
    def program(x: Tensor) -> Tensor:
        y = (x * 3).softmax(-1).log() + x.sin()
        return split_sum(y) / y.amax(-1)

    found = audited(program, numbers(3, 64))
    assert codes(found) == {"audited.split_sum.default": ("DET650",)}
    (culprit,) = found.culprits
    assert culprit.thresholds is not None
    assert culprit.thresholds.changes == (SPLITS_FROM,)
    assert (culprit.thresholds.distinct, culprit.thresholds.complete) == (2, True)
    assert culprit.calls[0].place.startswith("tests/fast/test_audit.py:")
    assert found.exit_code == 1
    assert found.decided == (len(found.cases), len(found.cases))


def test_a_program_of_row_wise_operators_is_clean() -> None:
    found = audited(lambda x: (x.exp() * 2).relu().sum(-1), numbers(3, 16))
    assert (codes(found), gaps(found), found.exit_code) == ({}, {}, 0)
    assert {one.operator for one in found.cases} == {
        "aten.exp.default", "aten.mul.Tensor", "aten.relu.default", "aten.sum.dim_IntList",
    }  # fmt: skip


def test_a_split_of_plain_operators_is_found_for_the_program_as_a_whole() -> None:
    def program(x: Tensor) -> Tensor:
        if x.shape[0] < SPLITS_FROM:
            return in_order(x)
        return in_order(torch.stack([in_order(part) for part in x.chunk(4, 1)], 1))

    found = audited(program, numbers(3, 16))
    assert codes(found) == {}
    (finding,) = found.findings
    assert finding.code == "DET650"
    assert finding.message == (
        "target, as a whole, is not batch-invariant: 2 different results in 4 batch sizes"
    )
    assert any("with 8 rows the program makes" in gap for gap in found.gaps)


@pytest.mark.parametrize("depth", [64, 1000])
def test_the_sizes_of_a_product_of_the_library_are_those_found_by_hand(depth: int) -> None:
    x, w = numbers(32, depth), numbers(depth, 48, seed=1)
    rows = [(x[:size].clone() @ w)[0].numpy().tobytes() for size in range(1, 33)]
    changes = tuple(n + 2 for n, (a, b) in enumerate(itertools.pairwise(rows)) if a != b)
    found = audited(lambda x: x @ w, x, options=replace(SMALL, sizes=(1, 32)))
    (case,) = found.cases
    assert case.thresholds is not None
    assert case.thresholds.changes == changes
    assert case.thresholds.distinct == len(set(rows))
    assert bool(changes) <= ("DET650" in case.codes)


def test_other_results_of_equal_calls_are_named_and_batches_then_say_nothing() -> None:
    found = audited(lambda x: other_each_time(x) + 1, numbers(3, 16))
    name = "audited.other_each_time.default"
    assert codes(found) == {name: ("DET651",)}
    assert gaps(found)[name] == (
        "not compared across batches: equal calls already give other bits",
    )
    (culprit,) = found.culprits
    assert culprit.trials[0].distinct == SMALL.repeats


def test_a_scale_of_the_whole_batch_makes_rows_depend_on_each_other() -> None:
    found = audited(lambda x: over_batch(x), numbers(3, 16))
    assert codes(found) == {"audited.over_batch.default": ("DET654",)}
    assert "zeros in the other rows" in found.findings[0].message


def test_an_order_by_place_is_found_by_moving_a_row() -> None:
    found = audited(lambda x: by_place(x), numbers(3, 64))
    assert "DET653" in codes(found)["audited.by_place.default"]


def test_an_operator_that_reads_a_blamed_result_is_not_blamed() -> None:
    found = audited(lambda x: split_sum(x).exp().sin(), numbers(3, 64))
    assert set(codes(found)) == {"audited.split_sum.default"}
