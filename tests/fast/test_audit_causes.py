"""The audit shows in which orders an operator adds where its results differ.

The operators are planted: by which order they add is written in them (`planted_operators`).
"""

from dataclasses import replace

import pytest
import torch
from planted_operators import (
    ROWS,
    TERMS,
    added,
    in_pieces,
    normal,
    planted,
    product_split_by_batch,
    split_by_batch,
    split_by_place,
    standing,
)

from lastbit.audit.causes import batch_cause, position_cause
from lastbit.audit.taking import Axis
from lastbit.audit.tree_words import in_words
from lastbit.order import tree_of_schedule
from lastbit.order.tree import tree_of_steps
from lastbit.schedule import parse_schedule

ATEN = torch.ops.aten


@pytest.mark.parametrize(
    ("before", "after", "orders"),
    [(1, 2, ("seq", "split(2)")), (2, 3, ("split(2)", "split(3)")), (5, 1, ("split(4)", "seq"))],
)
def test_a_sum_whose_pieces_follow_the_batch_is_shown_with_both_orders(before, after, orders):
    cause = batch_cause(planted(split_by_batch, (normal(6, TERMS),)), before, after)
    assert (cause.kind, cause.before, cause.after) == ("order", *orders)
    assert cause.text == (
        f"48 terms are added in another order in a batch of {before} than in a batch of {after}"
    )


def test_orders_are_written_so_that_they_parse_to_the_trees_of_the_operator():
    cause = batch_cause(planted(split_by_batch, (normal(6, TERMS),)), 3, 4)
    for text, size in ((cause.before, 16), (cause.after, 12)):
        ours = tree_of_schedule(parse_schedule(text), TERMS)
        assert ours == tree_of_schedule(parse_schedule(f"split(size={size}, outer=seq)"), TERMS)


def test_a_product_is_known_by_its_shapes():
    case = planted(product_split_by_batch, (normal(4, TERMS), normal(TERMS, 5)), (ROWS, None))
    cause = batch_cause(case, 1, 3)
    assert (cause.kind, cause.before, cause.after) == ("order", "seq", "split(3)")


def test_a_bias_and_a_factor_do_not_hide_the_order():
    def addmm(bias, x, w, *, alpha):
        return bias + alpha * product_split_by_batch(x, w)

    args = normal(5), normal(4, TERMS), normal(TERMS, 5)
    case = planted(
        standing(ATEN.addmm.default, addmm, args).function,
        args,
        (None, ROWS),
        name="aten.addmm.default",
        kwargs={"alpha": 0.3},
    )
    cause = batch_cause(case, 1, 2)
    assert (cause.kind, cause.before, cause.after) == ("order", "seq", "split(2)")


def test_a_batch_of_matrices_and_several_rows_for_each_row_of_the_batch():
    def bmm(x, w):
        terms = x[:, :, None, :] * w.transpose(1, 2)[:, None]
        return in_pieces(terms, min(x.shape[0], 4))

    args = normal(3, 2, TERMS), normal(3, TERMS, 5)
    case = planted(
        standing(ATEN.bmm.default, bmm, args).function, args, (ROWS, ROWS), name="aten.bmm.default"
    )
    cause = batch_cause(case, 1, 2)
    assert (cause.kind, cause.before, cause.after) == ("order", "seq", "split(2)")


@pytest.mark.parametrize("terms", [TERMS, 64])
def test_a_mean_has_the_order_of_its_sum(terms):
    def total(x):
        return in_pieces(x, 2) if len(x) > 1 else in_pieces(x, 1)

    case = standing(ATEN.mean.dim, lambda x, dim: total(x) / x.shape[1], (normal(3, terms), [1]))
    cause = batch_cause(case, 1, 3)
    if terms == 64:  # a division that is exact
        assert (cause.kind, cause.before, cause.after) == ("order", "seq", "split(2)")
    else:  # the sum of torch is not what this mean divides
        assert cause.text.startswith(
            "cause not found: in a batch of 1, the mean is no sum of torch divided by the number "
            "of terms"
        )


def test_a_running_sum_has_the_order_of_its_first_output_that_differs():
    def running(x, dim):
        columns = x.unbind(-1)
        alone = [added(columns[: k + 1]) for k in range(TERMS)]
        if len(x) == 1:
            return torch.stack(alone, -1)
        rest = [alone[19] + added(columns[20 : k + 1]) for k in range(20, TERMS)]
        return torch.stack([*alone[:20], *rest], -1)

    case = standing(ATEN.cumsum.default, running, (normal(3, TERMS), 1))
    whole = [case.run(size)[0][0] for size in (1, 2)]
    first = int((whole[0] != whole[1]).nonzero()[0]) + 1
    assert 20 < first <= TERMS
    cause = batch_cause(case, 1, 2)
    assert (cause.kind, cause.before) == ("order", "seq")
    assert cause.text.startswith(f"{first} terms are added in another order")
    assert tree_of_schedule(parse_schedule(cause.after), first) == tree_of_schedule(
        parse_schedule("split(size=20, outer=seq)"), first
    )


def test_a_batch_in_the_middle_of_the_axes_is_found():
    def sums(x, dim):
        moved = x.movedim(1, 0)
        return split_by_batch(moved.reshape(len(moved), -1, TERMS)).t()

    case = standing(ATEN.sum.dim_IntList, sums, (normal(2, 4, TERMS), [2]))
    layout = type(case.layout)((Axis(1), None), (Axis(1),))
    cause = batch_cause(replace(case, size=4, layout=layout), 1, 2)
    assert (cause.kind, cause.before, cause.after) == ("order", "seq", "split(2)")


def test_another_row_than_the_first_is_asked():
    def sums(x):
        if len(x) < 4:
            return in_pieces(x, 1)
        return torch.cat([in_pieces(x[:2], 1), in_pieces(x[2:], 3)])

    cause = batch_cause(planted(sums, (normal(4, TERMS),)), 3, 4, row=2)
    assert (cause.kind, cause.before, cause.after) == ("order", "seq", "split(3)")


def test_a_row_that_differs_alone_is_put_first_to_find_its_cause():
    # Only terms of the order of 1 have sums that follow the pieces: row 0 keeps its bits.
    x = normal(6, TERMS)
    x[0] = 1.0
    cause = batch_cause(planted(lambda x: in_pieces(x, 1 + (len(x) > 3)), (x,)), 5, 6, row=4)
    assert (cause.kind, cause.before, cause.after) == ("order", "seq", "split(2)")
    assert cause.text == (
        "48 terms are added in another order in a batch of 3 with row 4 first than in a batch of 4 "
        "with row 4 first"
    )


def test_a_row_that_differs_by_its_place_alone_is_compared_there():
    def sums(x):
        return torch.cat([in_pieces(x[:2], 1), in_pieces(x[2:], 2)]) if len(x) > 2 else x.sum(1)

    def alone(x):
        return in_pieces(x, 1) if len(x) == 1 else sums(x)

    cause = batch_cause(planted(alone, (normal(6, TERMS),)), 5, 6, row=4)
    assert (cause.kind, cause.before, cause.after) == ("order", "seq", "split(2)")
    assert cause.text.endswith("another order alone than at place 4 of 6")


def test_the_order_at_another_place_of_the_batch_is_shown():
    case = planted(split_by_place, (normal(4, TERMS),))
    cause = position_cause(case, 3)
    assert (cause.kind, cause.before, cause.after) == ("order", "seq", "split(2)")
    assert cause.text == "48 terms are added in another order at place 0 than at place 3"
    assert position_cause(planted(split_by_batch, (normal(4, TERMS),)), 2).text == (
        "cause not found: the bits of row 0 are the same at place 2"
    )


def test_a_tree_of_no_known_form_is_written_down():
    small = tree_of_steps(4, [[0, 2], [1, 3, 4]])
    assert in_words(small) == "(0 + 2) + 1 + 3 of its terms by number"
    steps = [[2 * n, 2 * n + 1] for n in range(7)] + [[14, 16, 18], [15, 17, 19]]
    steps += [[*range(20, 25), 27, 28], [25, 26], [29, 30]]
    assert in_words(tree_of_steps(20, steps)) == (
        "a tree 3 steps deep, at its root (0..1 + 2..3 + 4..5 + 6..7 + 3 more) + (10..11 + "
        "12..13) of its terms by number"
    )
    assert in_words(tree_of_steps(20, [[*range(0, 20, 2)], [*range(1, 20, 2)], [20, 21]])) == (
        "a tree 2 steps deep, at its root (0 + 2 + 4 + 6 + 6 more) + (1 + 3 + 5 + 7 + 6 more) of "
        "its terms by number"
    )
    steps = [[0, 2, 4], [1, 3, 7], [20, 21], [5, 6, *range(8, 20)], [22, 23]]
    assert in_words(tree_of_steps(20, steps)) == (
        "a tree 3 steps deep, at its root ((0..4 by 2) + (3 terms in 1..7)) + (5 + 6 + 8 + 9 + 10 "
        "more) of its terms by number"
    )


def test_the_library_of_this_processor_changes_the_order_with_the_batch():
    # Which sizes differ is the library's choice; what is claimed of them is checked.
    case = standing(ATEN.mm.default, ATEN.mm.default, (normal(4, 64), normal(64, 64)))
    for before, after in ((1, 2), (2, 4)):
        cause = batch_cause(case, before, after)
        assert cause.kind in ("order", "unknown")
        if cause.kind == "order":
            assert cause.before != cause.after
