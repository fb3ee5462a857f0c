"""A function without one fixed tree is told, with the reason; bad input is refused in words."""

from __future__ import annotations

import math
import re
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from ordered import Array, stepped

import lastbit
from lastbit import NoTreeError
from lastbit.errors import LastbitError
from lastbit.order.adapters import Layout, require_format
from lastbit.order.reveal import order_of_schedule
from lastbit.schedule import parse_schedule

SEED = 11


def last(x: Array) -> Any:
    """Add left to right."""
    return np.cumsum(x, axis=-1)[..., -1]


def kahan(x: Array) -> Any:
    rows = np.atleast_2d(x)
    total, carried = np.zeros(len(rows), rows.dtype), np.zeros(len(rows), rows.dtype)
    for term in rows.T:
        y = term - carried
        t = total + y
        carried = (t - total) - y
        total = t
    return total[0] if x.ndim == 1 else total


def neumaier(x: Array) -> Any:
    total = carried = x.dtype.type(0)
    for term in x:
        t = total + term
        carried += (total - t) + term if abs(total) >= abs(term) else (term - t) + total
        total = t
    return total + carried


def by_value(x: Array) -> Any:
    return last(np.sort(x))


def by_size(x: Array) -> Any:
    return last(x[np.argsort(np.abs(x), kind="stable")])


def largest_first(x: Array) -> Any:
    return last(x[np.argsort(-np.abs(x), kind="stable")])


def without_zeros(x: Array) -> Any:
    kept = x[x != 0]
    return np.sum(kept) if len(kept) else x.dtype.type(0)


def sixteen_digits(x: Array) -> Any:
    """Add left to right with accumulators of 16 digits."""
    total = 0.0
    for term in x.astype(float):
        fraction, exponent = math.frexp(total + term)
        total = math.ldexp(round(math.ldexp(fraction, 16)), exponent - 16)
    return total


class Shuffled:
    """A sum in another order each time."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(SEED)

    def __call__(self, x: Array) -> Any:
        """Add in another order."""
        return last(self.rng.permutation(x, axis=-1))


class Sometimes:
    """A sum that is off by an ulp in one call, and right in all others."""

    def __init__(self, call: int) -> None:
        self.call, self.calls = call, 0

    def __call__(self, x: Array) -> Any:
        """Add, and count the call."""
        self.calls += 1
        total = np.sum(x, axis=-1)
        off = self.calls == self.call
        return np.nextafter(total, np.float32(np.inf)) if off else total


EXACTLY = (
    "no term is lost beside M, wherever it stands: the sum is exact, or compensated, and its order "
    "cannot matter here"
)
PERMUTED = "its bits do not change when the elements change places, yet it rounds"
ONE_STEP = (
    "elements 0, 1 and 2 meet in one step, yet what is lost there depends on how many terms it "
    "has: the order follows the data"
)


@pytest.mark.parametrize(
    ("function", "n", "kind", "reason"),
    [
        ("math.fsum", 50, "exact", EXACTLY),
        (neumaier, 50, "exact", EXACTLY),
        (kahan, 100, "compensated", "15 of 16 random vectors of positive numbers have their exact "
         "sum, rounded once, which no tree of 100 elements gives"),
        (by_value, 20, "depends on the data", ONE_STEP),
        (by_value, 100, "depends on the data", ONE_STEP),
        (by_size, 20, "depends on the data", ONE_STEP),
        (largest_first, 50, "depends on the data", PERMUTED),
    ],
)  # fmt: skip
def test_a_sum_without_a_tree_is_told(function: Any, n: int, kind: str, reason: str) -> None:
    with pytest.raises(NoTreeError) as caught:
        lastbit.reveal_order(function, n)
    label = function if isinstance(function, str) else function.__name__
    assert (caught.value.kind, caught.value.reason) == (kind, reason)
    assert str(caught.value) == f"`{label}` has no fixed tree: {reason}."


def test_a_sum_that_leaves_out_zeros_has_clusters_that_fit_no_tree() -> None:
    with pytest.raises(NoTreeError) as caught:
        lastbit.reveal_order(without_zeros, 60)
    assert caught.value.kind == "no tree"
    pattern = (
        r"where elements \d+ and \d+ meet, \d+ of the others are left out, but in a tree it would "
        r"be \d+"
    )
    assert re.fullmatch(pattern, caught.value.reason)


@pytest.mark.parametrize(
    ("function", "one_by_one", "reason"),
    [
        (Shuffled(), False, "the same vector gave other bits in a second call"),
        # The first runs are calls 1 to 4, and the second run is call 5.
        (Sometimes(5), True, "run 2 of the same call gave other bits than the first"),
        (Sometimes(12), False,
         "a vector that had the same bits before has others in a later call"),
    ],
)  # fmt: skip
def test_other_bits_for_the_same_call_are_told(
    function: Any, one_by_one: bool, reason: str
) -> None:
    with pytest.raises(NoTreeError) as caught:
        lastbit.reveal_order(function, 200, one_by_one=one_by_one)
    assert (caught.value.kind, caught.value.reason) == ("not deterministic", reason)


def test_one_wrong_result_never_gives_another_tree() -> None:
    right = lastbit.reveal_order("numpy.sum", 40).tree
    caught = 0
    for call in range(1, 30):
        try:
            assert lastbit.reveal_order(Sometimes(call), 40, one_by_one=True).tree == right
        except LastbitError:
            caught += 1
    assert caught


def test_a_function_that_branches_on_signs_is_told() -> None:
    def turned(x: Array) -> Any:
        return last(x[::-1]) if x[0] < 0 else last(x)

    with pytest.raises(NoTreeError) as caught:
        lastbit.reveal_order(turned, 40)
    assert caught.value.kind == "depends on the data"
    reason = "the sum of the negated elements has other bits than the sum, negated"
    assert caught.value.reason == reason


# Shapes of calls.


def test_a_batch_with_other_bits_is_noticed_and_left() -> None:
    def by_shape(x: Array) -> Any:
        return last(x) if x.ndim == 1 else np.sum(x, axis=-1)

    order = lastbit.reveal_order(by_shape, 200)
    assert str(order.schedule) == "seq"
    assert re.fullmatch(
        r"one by one: [2-8] of 8 vectors have other bits in a batch of 8 than alone, so the "
        r"library takes another way for a batch; name its rows to see that one",
        order.notes[0],
    )
    whole = lastbit.reveal_order(by_shape, 200, rows=16)
    assert whole.tree == lastbit.reveal_order("numpy.sum", 200).tree
    assert whole.notes == ()


def test_a_larger_batch_with_other_bits_is_noticed_when_it_is_first_used() -> None:
    def by_rows(x: Array) -> Any:
        return np.sum(x, axis=-1) if x.ndim == 2 and len(x) > 8 else last(x)

    order = lastbit.reveal_order(by_rows, 200)
    assert str(order.schedule) == "seq"
    assert order.notes[0].startswith("one by one: ")


def test_rows_that_add_in_another_order_are_left_out() -> None:
    def tiled(x: Array) -> Any:  # the last three rows go another way
        return np.concatenate([np.sum(x[:-3], axis=-1), last(x[-3:])])

    order = lastbit.reveal_order(tiled, 100, rows=11)
    assert order.tree == lastbit.reveal_order("numpy.sum", 100).tree
    note = "3 of 11 rows have other bits than row 0 for the same vector; the tree is that of row 0"
    assert order.notes == (note,)


def test_a_function_of_single_vectors_is_called_one_by_one() -> None:
    def refuses(x: Array) -> Any:
        if x.ndim != 1:
            raise ValueError("one vector")
        return last(x)

    order = lastbit.reveal_order(refuses, 20)
    assert order.notes == ("one by one: for 8 vectors at once it raised ValueError",)
    order = lastbit.reveal_order(lambda x: np.sum(x), 20)
    assert order.notes == ("one by one: for 8 vectors at once it gave shape (), not (8,)",)


def test_levels_of_different_formats_are_noted() -> None:
    def mixed(x: Array) -> Any:
        halves = np.stack([last(x[..., :20]), last(x[..., 20:])], -1)
        return last(halves.astype(ml_dtypes.bfloat16).astype(np.float32))

    order = lastbit.reveal_order(mixed, 40)
    assert str(order.schedule) == "pairwise(32)"  # halves of 20, which are runs
    assert order.accumulator is None
    assert order.notes == (
        "its bits on random vectors are not those of this tree with accumulators of one format: "
        "levels of different formats, or wider ones inside, may be at work",
    )


def test_a_step_of_very_many_terms_is_said_to_be_sampled() -> None:
    schedule = parse_schedule("fused(90, hopper/16)")
    order = lastbit.reveal_order(stepped(schedule, 90), 90)
    assert order.tree.widths == {90: 1}
    assert order.notes == ("a step of very many terms was tried on some of its terms only",)


# Input that cannot be used.


def raising(error: Exception) -> Any:
    def function(x: Array) -> Any:
        raise error

    return function


@pytest.mark.parametrize(
    ("function", "options", "text"),
    [
        (raising(ValueError("no")), {}, "`function` raised ValueError for a vector f32[20]: no. "
         "It is to take one and to return its sum."),
        (raising(ValueError("no")), {"rows": 4}, "`function` raised ValueError for an array "
         "f32[4, 20]: no. It is to take one and to return its sum."),
        (lambda x: x, {}, "`<lambda>` gave shape (20,) for a vector f32[20], not one number. "
         "It is to add over one axis."),
        (lambda x: x, {"rows": 4}, "`<lambda>` gave shape (4, 20) for an array f32[4, 20], not "
         "shape (4,). It is to add over one axis."),
        (lambda x: np.float32("nan"), {}, "`<lambda>` gave nan for finite numbers. A sum of them "
         "is finite."),
        (lambda x: x.mean(), {}, "`<lambda>` gave 4.76837e-08 for 9.53674e-07 among zeros. "
         "Name a function that returns the plain sum."),
        (lambda x: None, {}, "`<lambda>` gave None. It is to return a real number for each "
         "vector."),
        (lambda x: complex(x.sum(), 1), {}, "`<lambda>` gave complex numbers. It is to return a "
         "real number for each vector."),
        (lambda x: x.sum(axis=1), {}, "`<lambda>` raised AxisError for a vector f32[20]: axis 1 is "
         "out of bounds for array of dimension 1. It took 8 vectors at once; where it takes no "
         "other, name its rows."),
        ("numpy.sum", {"columns": 3}, "columns is 3, but numpy.sum multiplies no matrices. "
         "Products of matrices are numpy.matmul, torch.mm, torch.matmul."),
        ("numpy.matmul", {"columns": 0}, "columns is 0. Allowed: 1 and above."),
        (last, {"device": "cuda"}, "device is 'cuda', but arrays of numpy lie on the CPU. Take a "
         "function of torch, or `library` torch."),
        (last, {"rows": 10**9}, "rows is 1000000000. Allowed for 20 elements: 1 to 13421772."),
        ("sums.py", {}, "'sums.py' names no function. Write sums.py:NAME."),
        ("numpy.smu", {}, "'numpy.smu' names no function. Did you mean 'numpy.sum'? "
         "Or write FILE.py:NAME."),
        (last, {"format": "e8m0"}, "no array holds vectors of e8m0. Allowed: f64, f32, f16, tf32, "
         "bf16, e4m3fn, e5m2, e4m3fnuz, e5m2fnuz."),
        (last, {"library": "jaxx"}, "unknown library 'jaxx'. Allowed: numpy, torch."),
        (last, {"rows": 0, "axis": 3},
         "rows is 0. Allowed: 1 and above.\naxis is 3. Allowed: -1 and 0."),
    ],
)  # fmt: skip
def test_bad_input_is_refused(function: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(LastbitError, match=f"^{re.escape(text)}$"):
        lastbit.reveal_order(function, 20, **options)


@pytest.mark.parametrize("n", [0, 16385])
def test_sizes_have_limits(n: int) -> None:
    with pytest.raises(LastbitError, match=f"^n is {n}. Allowed: 1 to 16384.$"):
        lastbit.reveal_order(last, n)


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    text = "torch is not installed. Install it: pip install 'lastbit[torch]'."
    for act in (
        lambda: require_format(lastbit.format_of("f32"), Layout("torch")),
        lambda: lastbit.reveal_order("torch.sum", 8),
    ):
        with pytest.raises(LastbitError, match=f"^{re.escape(text)}$"):
            act()


def test_a_format_too_narrow_for_the_accumulator_is_told() -> None:
    # Of e4m3fn the largest is 2^17 above the smallest, and binary32 keeps 24 digits.
    with pytest.raises(NoTreeError) as caught:
        lastbit.reveal_order(lambda x: last(x.astype(np.float32)), 20, format="e4m3fn")
    assert caught.value.reason == (
        "no term is lost beside M, and e4m3fn reaches only 2^17 apart: the sum is exact or "
        "compensated, or its accumulator has more digits; try a wider format"
    )


def test_a_format_that_leaves_no_unit_to_count_is_told() -> None:
    with pytest.raises(NoTreeError) as caught:
        lastbit.reveal_order(lambda x: sixteen_digits(x[::-1]), 20, format="e4m3fn")
    reason = "no unit of e4m3fn is both lost beside M and counted; try a wider format"
    assert caught.value.reason == reason


def test_a_familiar_order_is_proved_where_no_unit_is_left_to_count() -> None:
    order = lastbit.reveal_order(sixteen_digits, 20, format="e4m3fn")
    assert order.tree == order_of_schedule("seq", 20).tree
    assert order.method == "guessed and proved"


@pytest.mark.parametrize("fmt", ["e4m3fn", "e5m2", "f16"])
def test_narrow_accumulators_that_could_overflow_are_named(fmt: str) -> None:
    def plain(x: Array) -> Any:
        total = x[..., 0]
        for i in range(1, x.shape[-1]):
            total = total + x[..., i]
        return total

    order = lastbit.reveal_order(plain, 40, format=fmt)
    assert order.tree == order_of_schedule("seq", 40).tree
    assert (order.accumulator, order.result) == (fmt, fmt)


@pytest.mark.parametrize("n", [3, 4, 5, 20, 200])
def test_an_exact_sum_is_told_one_by_one(n: int) -> None:
    with pytest.raises(NoTreeError) as caught:
        lastbit.reveal_order(math.fsum, n, one_by_one=True)
    assert caught.value.kind == "exact"


def test_results_that_count_nothing_are_told() -> None:
    # Where M is, a later unit is rounded up to the next number: 2^97, and not lost.
    def upward(x: Array) -> Any:
        total = np.float32(0)
        for term in x:
            exact = float(total) + float(term)
            total = np.float32(exact)
            if float(total) < exact or (abs(exact) > 2**100 and 0 < abs(term) < 1):
                total = np.nextafter(total, np.float32(np.inf))
        return total

    with pytest.raises(NoTreeError) as caught:
        lastbit.reveal_order(upward, 20)
    assert caught.value.kind in ("no tree", "depends on the data")


def test_any_order_is_no_order() -> None:
    text = "schedule `any_order`: it adds in any order, so it has no tree. Name one order."
    with pytest.raises(LastbitError, match=f"^{re.escape(text)}$"):
        order_of_schedule("any_order", 8)
