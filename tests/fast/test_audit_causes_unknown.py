"""A cause that is not shown is not named, and the audit says why it was not found."""

from dataclasses import replace

import pytest
import torch
from planted_operators import (
    TERMS,
    added,
    normal,
    planted,
    product_split_by_batch,
    split_by_batch,
    standing,
)

from lastbit.audit import sides
from lastbit.audit.causes import Limits, batch_cause, position_cause

ATEN = torch.ops.aten


def test_the_same_order_on_both_sides_is_no_cause():
    def sums(x):
        return added(x.unbind(-1)) if len(x) == 1 else added(x.double().unbind(-1)).float()

    cause = batch_cause(planted(sums, (normal(3, TERMS),)), 1, 2)
    assert cause.kind == "unknown"
    assert cause.text == "cause not found: both add in the same order, seq"


def test_an_operator_that_adds_nothing_has_no_cause():
    case = planted(lambda x: x.exp() if len(x) == 1 else x.exp() + x, (normal(3, TERMS),))
    cause = batch_cause(case, 1, 2)
    assert (cause.kind, cause.before, cause.after) == ("unknown", None, None)
    assert cause.text == "cause not found: no order of this operator is revealed"


def test_what_torch_raises_in_the_search_is_the_reason():
    def sums(x):
        if float(x.abs().max()) > 1e6:
            raise RuntimeError("no memory for this\nand more")
        return split_by_batch(x)

    cause = batch_cause(planted(sums, (normal(6, TERMS),)), 1, 2)
    assert cause.kind == "unknown"
    assert "no memory for this" in cause.text
    assert "and more" not in cause.text


def test_a_search_that_torch_ends_is_no_defect_of_the_audit(monkeypatch):
    def fails(*args):
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate more")

    monkeypatch.setattr(sides, "revealed", fails)
    assert batch_cause(planted(split_by_batch, (normal(6, TERMS),)), 1, 2).text == (
        "cause not found: the search raised OutOfMemoryError: out of memory"
    )


def test_orders_of_operators_that_draw_are_not_revealed():
    generator = torch.Generator()
    case = replace(
        planted(split_by_batch, (normal(6, TERMS),)), states=((generator, generator.get_state()),)
    )
    assert batch_cause(case, 1, 2).text == (
        "cause not found: orders of operators that draw random numbers are not revealed"
    )


def test_equal_bits_have_no_cause():
    cause = batch_cause(planted(split_by_batch, (normal(6, TERMS),)), 4, 5)
    assert cause.text == "cause not found: the bits of row 0 are the same in both batches"


def test_a_search_that_takes_too_long_ends():
    case = planted(split_by_batch, (normal(6, TERMS),))
    cause = batch_cause(case, 1, 2, limits=Limits(seconds=0.0))
    assert cause.text == (
        "cause not found: in a batch of 1, the order was not revealed within 0 s, in 0 calls; "
        "in a batch of 2, the order was not revealed within 0 s, in 0 calls"
    )


def test_other_sums_of_exact_terms_are_another_order_though_it_is_not_revealed():
    args = normal(4, TERMS), normal(TERMS, 5)
    case = standing(ATEN.mm.default, product_split_by_batch, args)
    cause = batch_cause(case, 1, 2, limits=Limits(seconds=0.0))
    assert (cause.kind, cause.before, cause.after) == ("order", None, None)
    assert cause.text == (
        "48 terms have other sums in a batch of 1 than in a batch of 2, though all are exact: "
        "another order, or other accumulators; in a batch of 1, the order was not revealed within "
        "0 s, in 0 calls; in a batch of 2, the order was not revealed within 0 s, in 0 calls"
    )


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        (20.0, "both add in the same order, seq"),
        (0.0, "in a batch of 1, the order was not revealed"),
    ],
)
def test_products_that_are_rounded_on_one_side_are_not_called_another_order(seconds, why):
    def product(x, w):
        acc = torch.zeros(len(x), w.shape[1])
        for k in range(TERMS):
            term = x[:, k, None].double() * w[k].double()
            acc = acc + term.float() if len(x) == 1 else (acc.double() + term).float()
        return acc

    case = standing(ATEN.mm.default, product, (normal(2, TERMS), normal(TERMS, 8)))
    cause = batch_cause(case, 1, 2, limits=Limits(seconds))
    assert cause.kind == "unknown"
    assert cause.text.startswith(f"cause not found: {why}")


def test_sums_of_more_terms_than_are_revealed_are_named():
    def sums(x):
        return x.sum(1) if len(x) == 1 else x[:, :9_000].sum(1) + x[:, 9_000:].sum(1)

    cause = batch_cause(planted(sums, (normal(2, 20_000),)), 1, 2)
    why = "orders of at most 16,384 terms are revealed, not 20,000"
    assert cause.text == (f"cause not found: in a batch of 1, {why}; in a batch of 2, {why}")


def test_integers_that_differ_are_given_as_the_reason():
    case = planted(lambda x: x.int() + (len(x) > 2), (normal(4, TERMS),))
    why = "cause not found: what differs is of int32, and no order of a sum is asked for there"
    assert batch_cause(case, 2, 3).text == why
    case = planted(lambda x: x.int() + torch.arange(len(x)).int()[:, None], (normal(4, TERMS),))
    assert position_cause(case, 3).text == why
