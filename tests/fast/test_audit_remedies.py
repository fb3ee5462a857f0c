"""What the audit offers as a remedy was tried on the operator's own inputs; what failed is said.

Planted operators break one promise each, in a way that some remedies repair and others do not.
"""

import time

import pytest
import torch
from planted_operators import (
    ROWS,
    in_pieces,
    normal,
    planted,
    split_by_batch,
    split_by_place,
    split_by_threads,
    standing,
)

from lastbit.audit import remedies as module
from lastbit.audit.candidates import Candidate, candidates
from lastbit.audit.records import Audit, Call, CaseRecord, Remedy, Segment, Thresholds
from lastbit.audit.remedies import cost, fixed_batches, remedies, sizes_around
from lastbit.audit.text import render

ATEN = torch.ops.aten
TERMS = 48
SPLIT = Thresholds(
    8, 8, 4, (2, 3, 4),
    (Segment(1, 1, 0), Segment(2, 2, 1), Segment(3, 3, 2), Segment(4, 8, 3)),
    True,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(module, "TIMED", 0.0)


def by_name(found):
    return {one.name: one for one in found}


def test_a_sum_that_follows_the_batch_is_repaired_by_one_schedule_and_by_fixed_batches():
    case = standing(ATEN.sum.dim_IntList, lambda x, dim: split_by_batch(x), (normal(8, TERMS), [1]))
    found = remedies(case, ("batch",), SPLIT)
    verified = {one.name for one in found if one.verified}
    assert verified == {"rows-alone", "fixed-batch", "sum_torch_lanes"}
    assert all(one.ratio > 0 for one in found)


def test_what_does_not_help_is_said_after_what_does():
    found = remedies(planted(split_by_batch, (normal(8, TERMS),)), ("batch",), SPLIT)
    known = by_name(found)
    assert not known["no-onednn"].verified
    assert known["no-onednn"].ratio is None
    assert known["no-onednn"].text == (
        "leave oneDNN out: torch.backends.mkldnn.flags(enabled=False): does not help, 4 different "
        "results in 6 batch sizes"
    )
    assert [one.verified for one in found] == sorted([one.verified for one in found], reverse=True)


def test_what_was_tried_without_success_is_one_line_of_the_report():
    def remedy(name, verified):
        return Remedy(name, "do this", verified, 2.0 if verified else None)

    found = (remedy("rows-alone", True), remedy("no-onednn", False), remedy("cublas", False))
    case = CaseRecord(
        "planted.default(f32[8, 48])", 0, "planted.default", "cpu", 8, (Call(0, "", None),),
        codes=("DET650",), remedies=found,
    )  # fmt: skip
    text = render(
        Audit("model.py:f", "cpu", "", (8,), 3, (1,), {}, (case,), 1, 1, (), decided=(1, 1))
    )
    assert "    remedy    rows-alone: do this (verified, 2 times the time)\n" in text
    assert "    note      tried without success: no-onednn, cublas\n" in text
    assert text.count("remedy") == 1


def test_the_text_of_a_fixed_batch_names_its_rows():
    found = by_name(remedies(planted(split_by_batch, (normal(8, TERMS),)), ("batch",)))
    assert found["fixed-batch"].text == (
        "call it with batches of 8 rows always, the last one padded"
    )


def test_fixed_batches_do_not_help_where_the_place_in_the_batch_counts():
    found = by_name(remedies(planted(split_by_place, (normal(4, TERMS),)), ("position",)))
    assert found["fixed-batch"].text.endswith("does not help, row 0 has other bits at place 3")
    assert found["rows-alone"].verified


def test_fixed_batches_do_not_help_where_the_values_of_other_rows_count():
    case = planted(lambda x: x / x.abs().max(), (normal(4, TERMS),))
    found = by_name(remedies(case, ("others", "batch")))
    assert not found["fixed-batch"].verified
    assert not found["no-onednn"].verified
    assert found["rows-alone"].verified


def test_zeros_in_other_rows_are_tried_too():
    case = planted(lambda x: x + (x[1:] == 0).any(), (normal(4, TERMS),))
    found = by_name(remedies(case, ("others",)))
    assert found["fixed-batch"].text.endswith(
        "does not help, row 0 has other bits with zeros in the other rows"
    )


def test_one_thread_is_verified_with_all_numbers_of_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        case = planted(split_by_threads, (normal(3, TERMS),))
        found = by_name(remedies(case, ("threads",), threads=(1, 2, 4)))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert [*found] == ["one-thread"]
    assert found["one-thread"].verified


def test_a_remedy_that_leaves_the_number_of_threads_says_so():
    def sums(x):
        return in_pieces(x, len(x)) * min(torch.get_num_threads(), 2)

    found = by_name(
        remedies(planted(sums, (normal(3, TERMS),)), ("batch", "threads"), threads=(1, 2))
    )
    assert found["rows-alone"].verified
    assert found["rows-alone"].text == (
        "call it for each row by itself, with one number of threads always"
    )


def test_a_remedy_for_threads_alone_must_give_one_result_with_all_of_them():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        chosen = lambda x: x * (2 if torch._C._get_mkldnn_enabled() else 3)  # noqa: E731
        case = planted(chosen, (normal(3, TERMS),))
        assert by_name(remedies(case, ("threads",), threads=(1, 2)))["one-thread"].verified
        numbered = iter(range(10_000))
        case = planted(lambda x: x + next(numbered), (normal(3, TERMS),))
        assert not by_name(remedies(case, ("threads",), threads=(1, 2)))["one-thread"].verified
    finally:
        torch.set_num_threads(before)


def test_a_library_that_is_left_out_is_put_back():
    def sums(x):
        return split_by_batch(x) if torch._C._get_mkldnn_enabled() else in_pieces(x, 1)

    found = by_name(remedies(planted(sums, (normal(4, TERMS),)), ("batch",)))
    assert found["no-onednn"].verified
    assert torch._C._get_mkldnn_enabled()


def test_a_kernel_that_does_not_take_the_arguments_is_left_out():
    args = normal(5), normal(4, TERMS), normal(TERMS, 5)
    taken, refused = (
        planted(ATEN.addmm.default, args, (None, ROWS), name="aten.addmm.default", kwargs=kwargs)
        for kwargs in ({}, {"alpha": 2})
    )
    assert "matmul_torch_chain" in by_name(remedies(taken, ("batch",)))
    assert "matmul_torch_chain" not in by_name(remedies(refused, ("batch",)))


def test_attention_is_offered_the_backends_of_torch():
    q, k, v = (normal(3, 2, 5, 8, seed=n) for n in range(3))
    operator = ATEN._scaled_dot_product_flash_attention_for_cpu.default
    case = planted(operator, (q, k, v), (ROWS, ROWS, ROWS), (ROWS, ROWS), str(operator))
    found = {one.name: one for one in candidates(case, ("batch",), ())}
    (ours,) = found["attention-math"].run(case)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        theirs = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    assert torch.equal(ours[0], theirs)
    assert by_name(remedies(case, ("batch",)))["attention-math"].verified
    assert not by_name(remedies(case, ("batch",)))["attention-cudnn"].verified


def test_the_time_limit_ends_the_search():
    case = planted(split_by_batch, (normal(8, TERMS),))
    assert remedies(case, ("batch",), SPLIT, seconds=-1.0) == ()


def test_a_batch_is_cut_into_equal_parts_and_the_last_one_is_padded():
    sizes = []

    def sums(x):
        sizes.append(x.shape[0])
        return x.sum(1)

    case = planted(sums, (normal(7, TERMS),))
    fixed = Candidate("fixed-batch", "", batch=3)
    assert len(fixed.run(case)) == 3
    (row,) = fixed.row(case, range(7), 6)
    assert sizes == [3, 3, 3, 3]
    assert torch.equal(row, case.run([6])[0])


def test_sizes_around_thresholds_are_tried():
    assert sizes_around(8, SPLIT) == [1, 2, 3, 4, 5, 8]
    assert sizes_around(8, None) == [1, 2, 8]
    changes = tuple(range(3, 1000, 3))
    many = sizes_around(1000, Thresholds(0, 1000, 2, changes, (), True))
    assert (len(many), many[0], many[-1]) == (24, 1, 1000)


def test_batches_are_fixed_to_sizes_at_which_the_bits_settle():
    assert fixed_batches(planted(split_by_batch, (normal(8, TERMS),)), SPLIT) == (4, 8)
    assert fixed_batches(planted(split_by_batch, (normal(8, TERMS),)), None) == (8,)


def test_a_cost_is_the_ratio_of_medians_of_calls_made_in_turn(monkeypatch):
    now, calls = [0.0], []
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(module, "TIMED", 40.0)

    def took(name, times):
        def call():
            calls.append(name)
            now[0] += times[min(calls.count(name), len(times)) - 1]

        return call

    # The first calls are slow, and one of the others is: neither counts.
    ratio = cost(took("own", [9, 2, 2, 50, 2]), took("other", [1, 6]), lambda: None)
    assert ratio == 3.0
    assert calls == ["own", "other"] * 5
