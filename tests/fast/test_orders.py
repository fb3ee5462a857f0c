"""The subset search finds what enumerating every order or tree in exact rationals finds."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from lastbit.formats import Exact, as_exact, bits_text, decode
from lastbit.orders import MergeOrders, OrdersError, Shape, merge_orders
from lastbit.rounding import Rounding, round_exact

F32 = Rounding.of("f32")
U = Fraction(1, 2**24)  # unit roundoff of binary32


def added(a: Exact, b: Exact, rounding: Rounding) -> Exact:
    """Round(a + b), where floats stand for infinities, NaN and -0."""
    both = as_exact(float(a) + float(b)) if isinstance(a, float) and isinstance(b, float) else None
    if both is None:
        both = a if isinstance(a, float) and a else b if isinstance(b, float) and b else None
    if both is None:
        both = Fraction(a) + Fraction(b)
    return round_exact(both, rounding)


def trees(items: tuple[Exact, ...], rounding: Rounding) -> Iterator[Exact]:
    """The result of every unordered binary tree."""
    if len(items) == 1:
        yield items[0]
    for chosen in itertools.product((False, True), repeat=len(items) - 1):
        left = items[:1] + tuple(x for x, c in zip(items[1:], chosen, strict=True) if c)
        right = tuple(x for x, c in zip(items[1:], chosen, strict=True) if not c)
        if right:
            for a in trees(left, rounding):
                for b in trees(right, rounding):
                    yield added(a, b, rounding)


def orders(items: tuple[Exact, ...], rounding: Rounding) -> Iterator[Exact]:
    """The result of every order, added left to right."""
    for order in itertools.permutations(items):
        value = order[0]
        for x in order[1:]:
            value = added(value, x, rounding)
        yield value


def enumerated(items: tuple[Exact, ...], rounding: Rounding, shape: Shape) -> dict[str, int]:
    every = orders(items, rounding) if shape == "orders" else trees(items, rounding)
    return Counter(bits_text(value, rounding.format) for value in every)


def counts(found: MergeOrders) -> dict[str, int | None]:
    return {result.bits: result.count for result in found.results}


CASES = [
    ("f32", {}, (1, U, U)),
    ("f32", {}, (1, U, U, -U, Fraction(3, 2), -1)),
    ("f32", {}, (2**24, 1, 1, 1, -(2**24), 3)),
    ("f32", {}, (Fraction(2) ** 127, Fraction(2) ** 127, -(Fraction(2) ** 127), 1, -1)),
    ("f32", {}, (math.inf, -math.inf, 1, 2)),
    ("f32", {}, (-0.0, -0.0)),
    ("f32", {}, (-0.0, 1, -1, -0.0)),
    ("f32", {"mode": "rtz"}, (1, U, U, U, 3 * U)),
    # Directed modes see 2^-149 beside 1, which binary64 does not hold together.
    ("f32", {"mode": "rup"}, (1, U, -U, Fraction(2) ** -149, 2)),
    ("f32", {"subnormals": "flush"}, (1, U, Fraction(2) ** -126, Fraction(-3) / 2**127, -1)),
    ("f32", {"mode": "rdn"}, (Fraction(2) ** -149, 1, -1, Fraction(2) ** -149)),
    ("bf16", {}, (1, Fraction(1, 256), Fraction(1, 256), Fraction(1, 512), 3)),
    ("bf16", {"mode": "rto"}, (1, Fraction(1, 256), Fraction(1, 2**60), -3, 7)),
    ("f16", {"overflow": "saturate"}, (65504, 65504, -65504, 32, 16)),
    ("e4m3fn", {}, (448, 448, -448, 1, 3)),
    ("e4m3fn", {"overflow": "saturate"}, (448, 32, -448, 1, 3)),
    ("f64", {}, (1, Fraction(1, 2**53), Fraction(1, 2**53), -1, 3)),
]


@pytest.mark.parametrize("shape", ["orders", "trees"])
@pytest.mark.parametrize(("fmt", "options", "partials"), CASES)
def test_enumeration_agrees(
    fmt: str, options: dict[str, str], partials: tuple[Exact, ...], shape: Shape
) -> None:
    rounding = Rounding.of(fmt, **options)
    items = tuple(as_exact(x) for x in partials)
    found = merge_orders(items, rounding, shape)
    assert found.complete
    assert counts(found) == enumerated(items, rounding, shape)


def test_three_partial_sums_of_the_chapter() -> None:
    found = merge_orders((Fraction(1), U, U), F32)
    assert counts(found) == {"0x3f800000": 4, "0x3f800001": 2}
    assert [result.value for result in found.results] == [1, 1 + 2 * U]
    assert str(found) == "2 results over 6 orders"
    assert counts(merge_orders((Fraction(1), U, U), F32, "trees")) == {
        "0x3f800000": 2,
        "0x3f800001": 1,
    }


def partial_sums() -> list[Exact]:
    """The sums of squares of 8 segments of 512 of the chapter's row, each in order."""
    row = np.sin(np.arange(1, 4097, dtype=np.float64)).astype(np.float32)
    row = (row.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)  # bf16 by truncation
    sums = [np.add.accumulate(segment)[-1] for segment in (row * row).reshape(8, 512)]
    return [as_exact(float(x)) for x in sums]


def test_eight_partial_sums_of_the_chapter_reach_three_results() -> None:
    found = merge_orders(partial_sums(), F32)
    assert counts(found) == {"0x44fec415": 15804, "0x44fec416": 24012, "0x44fec417": 504}
    assert str(found) == "3 results over 40,320 orders"
    over_trees = merge_orders(partial_sums(), F32, "trees")
    assert counts(over_trees) == {"0x44fec415": 25716, "0x44fec416": 101772, "0x44fec417": 7647}


def spread(n: int) -> list[Exact]:
    """Values of 24 digits (multiples of an odd number, modulo 2^24) over 8 binades."""
    significands = [(2**23 + i * 7654321 % 2**23) * (-1) ** i for i in range(n)]
    return [Fraction(m) * Fraction(2) ** (i * 3 % 8 - 23) for i, m in enumerate(significands)]


@pytest.mark.parametrize(
    ("shape", "n", "total"),
    [("orders", 1, 1), ("trees", 1, 1), ("orders", 13, math.factorial(13)),
     ("trees", 11, 3 * 5 * 7 * 9 * 11 * 13 * 15 * 17 * 19)],
)  # fmt: skip
def test_every_order_is_counted(shape: Shape, n: int, total: int) -> None:
    found = merge_orders(spread(n), F32, shape)
    assert found.complete
    assert found.total == total
    assert sum(result.count or 0 for result in found.results) == total


def test_sixteen_partial_sums() -> None:
    found = merge_orders(spread(16), F32)
    assert found.complete
    assert len(found.results) > 1
    assert sum(result.count or 0 for result in found.results) == math.factorial(16)


@pytest.mark.parametrize("shape", ["orders", "trees"])
@pytest.mark.parametrize("limit", [{"most": 100}, {"seconds": 0.0}])
def test_a_search_that_is_stopped_says_at_least(shape: Shape, limit: dict[str, float]) -> None:
    whole = counts(merge_orders(spread(9), F32, shape))
    part = merge_orders(spread(9), F32, shape, **limit)
    assert not part.complete
    assert str(part).startswith(f"at least {len(part.results)} results over ")
    assert len(part.results) > 1
    assert counts(part).keys() <= whole.keys()
    assert {result.count for result in part.results} == {None}
    assert part == merge_orders(spread(9), F32, shape, **limit)


@pytest.mark.parametrize("shape", ["orders", "trees"])
def test_more_partial_sums_than_can_be_searched(shape: Shape) -> None:
    found = merge_orders(spread(64), F32, shape)
    assert not found.complete
    assert len(found.results) > 1


def test_results_are_values_in_order() -> None:
    found = merge_orders(spread(8), F32)
    values = [result.value for result in found.results]
    assert values == sorted(values)
    assert [decode(int(result.bits, 16), F32.format) for result in found.results] == values


@pytest.mark.parametrize(
    ("partials", "rounding", "message"),
    [
        ((), F32, "merge orders: there are no partial sums. Give at least one."),
        ((1 + U,), F32,
         "merge orders: 16777217/16777216 is no value of binary32. Round it first."),
        ((1, 2), Rounding.of("f32", mode="sr"), "merge orders: sums in `f32 sr` have no array "
         "form. Use a float format of at most 24 digits, or f64 to nearest even."),
        ((1, 2), Rounding.of("f64", mode="rtz"), "merge orders: sums in `f64 rtz` have no array "
         "form. Use a float format of at most 24 digits, or f64 to nearest even."),
        ((1, 2), Rounding.of("int8"), "merge orders: sums in `int8` have no array "
         "form. Use a float format of at most 24 digits, or f64 to nearest even."),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_refused(
    partials: tuple[Exact, ...], rounding: Rounding, message: str
) -> None:
    with pytest.raises(OrdersError, match=f"^{re.escape(message)}$"):
        merge_orders(partials, rounding)
