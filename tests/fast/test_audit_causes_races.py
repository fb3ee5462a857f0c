"""The audit tells additions in no fixed order, and threads that divide the work, from all else."""

import itertools
from dataclasses import replace

import pytest
import torch
from planted_operators import (
    TERMS,
    InAnyOrder,
    added,
    in_pieces,
    normal,
    planted,
    split_by_batch,
    split_by_threads,
)

from lastbit.audit.causes import batch_cause, repeats_cause, threads_cause
from lastbit.audit.racing import known_to_race
from lastbit.audit.threads import with_threads


def test_several_results_of_equal_calls_are_a_set():
    cause = repeats_cause(planted(InAnyOrder(), (normal(3, 8, TERMS),)), runs=20)
    assert cause.kind == "atomics"
    count = int(cause.text.split()[0])
    assert 2 <= count <= 20
    assert (
        cause.text == f"{count} different results in 20 identical calls: it adds in no fixed order"
    )
    assert cause.before == f"a set of {count} results or more"


@pytest.mark.parametrize(
    "function",
    [
        lambda x, number: x + number,
        lambda x, number: x.sum(1) + number * 2.0**-20,
        lambda x, number: x.sum(1) * (1 + number * 2.0**-20),
    ],
    ids=["added", "added-to-a-sum", "times-a-sum"],
)
def test_a_counter_is_not_called_an_order(function):
    numbers = itertools.count()
    cause = repeats_cause(planted(lambda x: function(x, next(numbers)), (normal(3, TERMS),)))
    assert cause.kind == "unknown"
    assert cause.text == (
        "cause not found: 20 different results in 20 identical calls, and nothing shows that it "
        "adds in no fixed order"
    )


@pytest.mark.parametrize(
    ("name", "device", "kwargs", "races"),
    [
        ("aten.index_add.default", "cuda:0", {}, True),
        ("aten.index_add_.default", "cuda:0", {}, True),
        ("aten.scatter_add.default", "cuda:0", {}, True),
        ("aten.cumsum.default", "cuda:0", {}, True),
        ("aten.bincount.default", "cuda:0", {"weights": torch.ones(2)}, True),
        ("aten.bincount.default", "cuda:0", {"weights": None}, False),
        ("aten._index_put_impl_.default", "cuda:0", {"accumulate": True}, True),
        ("aten.index_put.default", "cpu", {"accumulate": True}, True),
        ("aten.index_put.default", "cuda:0", {"accumulate": False}, False),
        ("aten.index_add.default", "cpu", {}, False),
        ("aten.mm.default", "cuda:0", {}, False),
        ("mine.index_add.default", "cuda:0", {}, False),
    ],
)
def test_operators_that_are_documented_to_race_are_known(name, device, kwargs, races):
    case = planted(torch.neg, (normal(3),), name=name, kwargs=kwargs)
    assert known_to_race(replace(case, device=device)) is races


def test_an_operator_that_is_documented_to_race_has_that_cause():
    numbers = itertools.count()
    case = planted(lambda x: x + next(numbers), (normal(3),), name="aten.index_add.default")
    cause = repeats_cause(replace(case, device="cuda:0"), runs=4)
    assert (cause.kind, cause.before) == ("atomics", "a set of 4 results or more")
    assert cause.text == (
        "4 different results in 4 identical calls: it adds in no fixed order, as atomic additions "
        "do"
    )


def test_a_kernel_that_adds_atomically_is_known_by_its_source():
    def launch(x):
        return x

    case = planted(launch, (normal(3),), name="triton.kernel")
    assert not known_to_race(case)
    launch.kernel_source = "tl.atomic_add(pointer, value)"
    assert known_to_race(case)


def test_equal_calls_with_one_result_have_no_cause():
    cause = repeats_cause(planted(split_by_batch, (normal(3, TERMS),)), runs=4)
    assert cause.text == "cause not found: 4 identical calls gave one result"


def test_a_difference_between_batches_is_told_from_one_between_equal_calls():
    case = planted(InAnyOrder(), (normal(3, 8, TERMS),))
    assert batch_cause(case, 1, 2).kind == "atomics"


def test_threads_that_race_are_told_from_one_thread():
    shuffled = InAnyOrder()

    def sums(x):
        return shuffled(x) if torch.get_num_threads() > 1 else added(x.unbind(-1))

    with with_threads(2):
        cause = repeats_cause(planted(sums, (normal(3, 8, TERMS),)))
    assert cause.kind == "atomics"
    assert cause.text.endswith(
        "and one with one thread: threads add in the order in which they come"
    )
    assert cause.after == "one result"


def test_a_sum_that_threads_divide_is_shown_with_both_orders():
    before = torch.get_num_threads()
    cause = threads_cause(planted(split_by_threads, (normal(3, TERMS),)), (1, 2, 4))
    assert (cause.kind, cause.before, cause.after) == ("threads", "seq", "split(2)")
    assert cause.text == (
        "3 different results with 1 | 2 | 4 threads: 48 terms are added in another order with "
        "1 thread than with 2 threads"
    )
    assert torch.get_num_threads() == before


def test_results_that_follow_the_threads_without_a_sum_are_grouped():
    case = planted(lambda x: x * min(torch.get_num_threads(), 2), (normal(3, TERMS),))
    cause = threads_cause(case, (1, 2, 3))
    assert (cause.kind, cause.text) == ("threads", "2 different results with 1 | 2, 3 threads")
    assert threads_cause(planted(torch.neg, (normal(3),)), (1, 2)).text == (
        "cause not found: one result with 1, 2 threads"
    )


def test_threads_that_divide_the_batch_are_named():
    def sums(x):
        return in_pieces(x.exp(), min(torch.get_num_threads(), len(x)))

    with with_threads(2):
        cause = batch_cause(planted(sums, (normal(3, 8, TERMS),)), 1, 2)
    assert cause.kind == "threads"
    assert cause.text == "threads divide the work by the batch size; one thread gives one result"
