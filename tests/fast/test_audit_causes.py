"""The audit shows why the results of an operator differ, where that can be shown.

The operators are planted: by which order, schedule or number of threads they add is written in
them (`planted_operators`), or they are predicted products of a matrix unit.
"""

import itertools
from dataclasses import replace

import pytest
import torch
from planted_operators import (
    ROWS,
    InAnyOrder,
    added,
    in_pieces,
    normal,
    planted,
    product_split_by_batch,
    split_by_batch,
    split_by_place,
    split_by_threads,
    standing,
)

from lastbit.audit import sides
from lastbit.audit.causes import (
    Limits,
    batch_cause,
    position_cause,
    repeats_cause,
    threads_cause,
)
from lastbit.audit.racing import known_to_race
from lastbit.audit.taking import Axis
from lastbit.audit.tensor_values import codes_of_tensor
from lastbit.audit.threads import with_threads
from lastbit.audit.tree_words import in_words
from lastbit.formats import F32
from lastbit.inference.arrays import native
from lastbit.order import tree_of_schedule
from lastbit.order.tree import tree_of_steps
from lastbit.predicting import predict_matmul
from lastbit.schedule import parse_schedule

ATEN = torch.ops.aten
TERMS = 48


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
        "cause not found: the search raised OutOfMemoryError: CUDA out of memory."
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


def test_integers_that_differ_are_given_as_the_reason():
    case = planted(lambda x: x.int() + (len(x) > 2), (normal(4, TERMS),))
    why = "cause not found: what differs is of int32, and no order of a sum is asked for there"
    assert batch_cause(case, 2, 3).text == why
    case = planted(lambda x: x.int() + torch.arange(len(x)).int()[:, None], (normal(4, TERMS),))
    assert position_cause(case, 3).text == why


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


def test_equal_calls_with_one_result_have_no_cause():
    cause = repeats_cause(planted(split_by_batch, (normal(3, TERMS),)), runs=4)
    assert cause.text == "cause not found: 4 identical calls gave one result"


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


def test_the_order_at_another_place_of_the_batch_is_shown():
    case = planted(split_by_place, (normal(4, TERMS),))
    cause = position_cause(case, 3)
    assert (cause.kind, cause.before, cause.after) == ("order", "seq", "split(2)")
    assert cause.text == "48 terms are added in another order at place 0 than at place 3"
    assert position_cause(planted(split_by_batch, (normal(4, TERMS),)), 2).text == (
        "cause not found: the bits of row 0 are the same at place 2"
    )


def on_hopper(many):
    """Return a product of bf16 as Hopper's matrix unit adds it: one chain for one row."""

    def product(x, w):
        schedule = "fused(16, hopper)" if len(x) == 1 else many
        codes = predict_matmul(codes_of_tensor(x), codes_of_tensor(w), "hopper", "bf16", schedule)
        return native(codes, F32, "torch")

    return product


def test_the_schedules_of_a_product_of_a_matrix_unit_are_inferred():
    many = "split(2, tile=64, inner=fused(16, hopper), outer=seq)"
    x, w = normal(2, 128).abs().bfloat16(), normal(128, 96, seed=1).abs().bfloat16()
    case = standing(ATEN.mm.default, on_hopper(many), (x, w))
    cause = batch_cause(case, 1, 2, limits=Limits(machine="hopper"))
    assert (cause.kind, cause.before, cause.after) == ("schedule", "fused(16, hopper)", many)
    assert cause.text.startswith(
        "hopper sums by another schedule in a batch of 1 than in a batch of 2; the schedules give "
        "all of the "
    )


def test_scales_of_a_product_of_8_bits_are_left_out_of_its_order_and_part_of_its_schedule():
    def product(a, b, scale_a, scale_b, *, out_dtype):
        every = 64 if len(a) > 1 else 128
        codes = predict_matmul(
            codes_of_tensor(a),
            codes_of_tensor(b),
            "hopper",
            "e4m3fn",
            f"promote({every}, f32, inner=fused(32, hopper))",
            alpha=float(scale_a * scale_b),
        )
        return native(codes, F32, "torch")

    a, b = (
        normal(*shape, seed=n).abs().to(torch.float8_e4m3fn)
        for n, shape in enumerate([(2, 256), (96, 256)])
    )
    args = a, b.t(), torch.tensor(0.5), torch.tensor([0.375])
    case = standing(ATEN._scaled_mm.default, product, args, {"out_dtype": torch.float32})
    cause = batch_cause(case, 1, 2, limits=Limits(machine="hopper"))
    assert (cause.kind, cause.before, cause.after) == (
        "schedule",
        "promote(128, f32, inner=fused(32, hopper))",
        "promote(64, f32, inner=fused(32, hopper))",
    )


def test_a_product_that_no_schedule_gives_has_its_order_revealed():
    def product(x, w):
        return product_split_by_batch(x.float(), w.float())

    powers = 2.0 ** torch.linspace(-12, 12, TERMS)  # so that no sum is exact
    args = (normal(2, TERMS) * powers).bfloat16(), normal(TERMS, 8).bfloat16()
    case = standing(ATEN.mm.default, product, args)
    cause = batch_cause(case, 1, 2, limits=Limits(machine="hopper"))
    assert (cause.kind, cause.before, cause.after) == ("order", "seq", "split(2)")


def test_the_library_of_this_processor_changes_the_order_with_the_batch():
    # Which sizes differ is the library's choice; what is claimed of them is checked.
    case = standing(ATEN.mm.default, ATEN.mm.default, (normal(4, 64), normal(64, 64)))
    for before, after in ((1, 2), (2, 4)):
        cause = batch_cause(case, before, after)
        assert cause.kind in ("order", "unknown")
        if cause.kind == "order":
            assert cause.before != cause.after
