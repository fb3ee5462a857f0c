"""`lastbit order` finds the tree of a sum from calls alone, whatever the order, format or unit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ordered import by_merges, random_merges, replayed, schedules, stepped, summed

import lastbit
from lastbit.formats import FORMATS
from lastbit.order.checks import run_tree
from lastbit.order.draw import draw, elements_text
from lastbit.order.recognise import recognise
from lastbit.order.reveal import order_of_schedule
from lastbit.order.tree import OrderTree, nested, tree_of_schedule, tree_of_steps
from lastbit.schedule import Schedule, parse_schedule, tree_hash

SEED = 5

REGULAR = (
    "seq",
    "pairwise(1)",
    "pairwise(8)",
    "lanes(4)",
    "lanes(8, inner=seq, outer=pairwise(1))",
    "lanes(32, inner=split(size=4), outer=lanes(8))",
    "split(3, tile=16)",
    "split(size=32)",
    "split(4, inner=pairwise(1), outer=pairwise(1))",
    "split(size=64, inner=lanes(8, inner=seq, outer=pairwise(1)), outer=pairwise(1))",
)
STEPPED = (
    "fused(16, hopper)",
    "split(3, tile=64, inner=fused(16, hopper), outer=seq)",
    "promote(64, f32, inner=fused(32, hopper/16))",
)


def explicit(schedule: Schedule, n: int) -> OrderTree:
    return tree_of_schedule(schedule, n)


# Every tree is found.


@pytest.mark.parametrize("n", [2, 3, 31, 200])
@pytest.mark.parametrize("text", REGULAR)
def test_the_tree_of_every_schedule_is_found(text: str, n: int) -> None:
    schedule = parse_schedule(text)
    order = lastbit.reveal_order(stepped(schedule, n), n)
    assert order.tree == explicit(schedule, n)
    assert order.accumulator == "f32"


@pytest.mark.parametrize("n", [5, 33, 130, 200])
@pytest.mark.parametrize("text", STEPPED)
def test_steps_of_several_terms_are_found(text: str, n: int) -> None:
    schedule = parse_schedule(text)
    order = lastbit.reveal_order(stepped(schedule, n), n)
    assert order.tree == explicit(schedule, n)
    assert order.step_digits == (25 if not order.tree.binary else None)


def test_a_narrow_accumulator_that_cannot_count_all_elements_is_followed() -> None:
    schedule = parse_schedule("seq")
    order = lastbit.reveal_order(summed(schedule, "bf16"), 260, format="bf16")  # it counts to 256
    assert order.tree == explicit(schedule, 260)
    assert (order.accumulator, order.result) == ("bf16", "bf16")


@pytest.mark.parametrize("fmt", ["e4m3fn", "e5m2"])
def test_a_matrix_unit_of_13_fraction_bits_is_followed_in_8_bit_formats(fmt: str) -> None:
    # 2^17 from the largest e4m3 to the smallest: only three units are both lost and counted.
    schedule = parse_schedule("fused(32, hopper)")
    order = lastbit.reveal_order(stepped(schedule, 70, kept=13, digits=14), 70, format=fmt)
    assert order.tree == explicit(schedule, 70)
    assert str(order.schedule) == "fused(32, hopper)"
    assert order.step_digits == 13


def test_the_exact_step_of_a_machine_is_followed_too() -> None:
    from lastbit.formats import decode, encode
    from lastbit.machines import product, step, unit_of

    unit = unit_of("hopper/16")

    def chain(x: Any) -> float:
        total = decode(0, FORMATS["f32"])
        ones = decode(encode(1.0, FORMATS["bf16"]), FORMATS["bf16"])
        for start in range(0, len(x), 16):
            values = [
                lastbit.decode(int(c), FORMATS["bf16"]) for c in x[start : start + 16].view("u2")
            ]
            total = step(unit, total, [product(v, ones, FORMATS["bf16"]) for v in values])
        return float(total)

    order = lastbit.reveal_order(chain, 20, format="bf16", one_by_one=True)
    assert nested(order.tree) == (tuple(range(16)), 16, 17, 18, 19)
    assert order.step_digits == 25


@settings(max_examples=60, deadline=None, derandomize=True)
@given(schedules(), st.integers(1, 60))
def test_the_tree_of_a_random_schedule_is_found(schedule: Schedule, n: int) -> None:
    order = lastbit.reveal_order(stepped(schedule, n), n)
    assert order.tree == explicit(schedule, n)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(random_merges(), st.sampled_from(["f64", "f32", "f16", "bf16"]))
def test_a_random_explicit_tree_is_found(merges: list[tuple[int, int]], fmt: str) -> None:
    n = len(merges) + 1
    order = lastbit.reveal_order(by_merges(merges), n, format=fmt)
    assert order.tree == tree_of_steps(n, merges)


def test_a_large_irregular_tree_is_found_in_few_calls() -> None:
    rng = np.random.default_rng(SEED)
    nodes, merges = list(range(300)), []
    while len(nodes) > 1:
        a, b = (nodes.pop(int(rng.integers(len(nodes)))) for _ in range(2))
        merges.append((a, b))
        nodes.append(300 + len(merges) - 1)
    order = lastbit.reveal_order(by_merges(merges), 300)
    assert order.tree == tree_of_steps(300, merges)
    assert order.method == "searched"
    assert order.calls < 60


@settings(max_examples=60, deadline=None, derandomize=True)
@given(random_merges(26))
def test_a_small_tree_takes_few_calls_one_by_one(merges: list[tuple[int, int]]) -> None:
    n = len(merges) + 1
    order = lastbit.reveal_order(by_merges(merges), n, one_by_one=True)
    assert order.tree == tree_of_steps(n, merges)
    assert order.checks <= 10
    assert order.calls - order.checks <= n * (n - 1) // 2 + 8


@pytest.mark.parametrize("name", ["numpy.sum", "torch.sum"])
@pytest.mark.parametrize("n", [64, 256, 1024])
def test_a_familiar_order_is_proved_in_few_calls(name: str, n: int) -> None:
    # FPRev (arXiv 2411.00442) asks n - 1 times at least.
    order = lastbit.reveal_order(name, n, one_by_one=True)
    assert order.calls < n - 1
    assert order.tree == lastbit.reveal_order(name, n, seed=1).tree


@pytest.mark.parametrize("n", [32, 64, 100])
def test_a_chain_of_steps_is_guessed_one_by_one(n: int) -> None:
    schedule = parse_schedule("fused(16, hopper)")
    order = lastbit.reveal_order(stepped(schedule, n), n, one_by_one=True)
    assert order.tree == explicit(schedule, n)
    assert (order.method, order.step_digits) == ("guessed and proved", 25)


def test_one_by_one_gives_the_same_tree() -> None:
    schedule = parse_schedule("lanes(8, inner=seq, outer=pairwise(1))")
    many = lastbit.reveal_order(stepped(schedule, 200), 200)
    single = lastbit.reveal_order(stepped(schedule, 200), 200, one_by_one=True)
    assert single.tree == many.tree
    assert many.calls < single.calls


def test_a_sum_from_right_to_left_takes_few_levels_of_search() -> None:
    merges = [(62, 61)] + [(63 + i, 60 - i) for i in range(61)]
    order = lastbit.reveal_order(by_merges(merges), 63)
    assert order.tree == tree_of_steps(63, merges)
    assert order.calls < 60


# The libraries' own bits.


def library_sums() -> list[Any]:
    import torch

    def columns(x: Any) -> Any:  # an array [n, rows]
        return np.add.reduce(x, axis=0)

    def strided(x: Any) -> Any:
        wide = np.zeros((*x.shape, 3), x.dtype)
        wide[..., 1] = x
        return np.sum(wide[..., 1], axis=-1)

    sizes = (8, 37, 128, 1000)
    found = [pytest.param("numpy.sum", n, fmt, {}) for n in sizes for fmt in ("f32", "f64")]
    found += [pytest.param(strided, n, fmt, {}) for n in sizes for fmt in ("f32", "f64")]
    found += [pytest.param("numpy.add.reduce", n, "f32", {}) for n in sizes]
    found += [pytest.param(columns, n, "f32", {"axis": 0, "rows": 8}) for n in sizes]
    found += [pytest.param("numpy.dot", n, "f32", {}) for n in (8, 32, 128, 1024)]
    found += [pytest.param("numpy.matmul", n, "f32", {"rows": 4, "columns": 8}) for n in sizes]
    found += [pytest.param("torch.sum", n, fmt, {}) for n in sizes for fmt in ("f32", "bf16")]
    found += [pytest.param("torch.mm", n, "f32", {"rows": 4, "columns": 8}) for n in sizes]
    found += [pytest.param("torch.dot", n, "f32", {}) for n in (8, 37, 128, 1000)]
    assert torch.__version__
    return found


@pytest.mark.parametrize(("function", "n", "fmt", "options"), library_sums())
def test_a_revealed_tree_gives_the_librarys_own_bits(
    function: str | Callable[..., Any], n: int, fmt: str, options: dict[str, int]
) -> None:
    from lastbit.order.adapters import Layout, Target, named_target, numbers
    from lastbit.round_array import encode_array, round_array
    from lastbit.rounding import Rounding

    order = lastbit.reveal_order(function, n, format=fmt, **options)  # type: ignore[arg-type]
    layout = Layout(columns=options.get("columns", 1), axis=options.get("axis", -1))
    target = (
        named_target(function, layout)
        if isinstance(function, str)
        else Target("f", function, layout)
    )
    rows = options.get("rows", 1)
    drawn = np.random.default_rng(SEED).standard_normal((rows, n))
    x = round_array(drawn, Rounding.of(fmt))
    codes = encode_array(x, FORMATS[fmt])
    own = target.many(codes, FORMATS[fmt]) if rows > 1 else target.one(codes[0], FORMATS[fmt])
    assert order.accumulator is not None
    assert order.result is not None
    schedule = parse_schedule(str(order.schedule))
    sums = replayed(schedule, x, fmt, order.accumulator)
    stored = round_array(sums, Rounding.of(order.result))
    assert np.array_equal(stored.view(np.uint64), numbers(own).reshape(rows).view(np.uint64))


def test_the_tail_of_openblas_in_binary64_is_noticed() -> None:
    # 100 = 3 * 32 + 4: the last four are added in binary64 by some kernels, and noted then.
    order = lastbit.reveal_order("numpy.dot", 100)
    note = "its bits on random vectors are not those of this tree with accumulators of one format"
    assert (order.accumulator is None) == any(text.startswith(note) for text in order.notes)


# What is said about a tree.


def test_equal_trees_have_equal_hashes_and_others_do_not() -> None:
    first = tree_of_steps(4, [(0, 1), (3, 2), (5, 4)])
    second = tree_of_steps(4, [(2, 3), (1, 0), (4, 5)])
    other = tree_of_steps(4, [(0, 1), (2, 4), (3, 5)])
    assert first == second
    assert first.hash == second.hash
    assert first != other
    assert first.hash != other.hash
    assert len({first, second, other}) == 2
    assert nested(first) == ((0, 1), (2, 3))


@pytest.mark.parametrize("n", [64, 200])
@pytest.mark.parametrize("text", REGULAR)
def test_a_tree_is_recognised_as_a_schedule(text: str, n: int) -> None:
    schedule = parse_schedule(text)
    found = recognise(explicit(schedule, n))
    assert found is not None
    assert tree_hash(found, n, "f32", True) == tree_hash(schedule, n, "f32", True)
    assert parse_schedule(str(found)) == found


@pytest.mark.parametrize(
    ("text", "n", "found"),
    [
        ("seq", 100, "seq"),
        ("pairwise(8)", 64, "pairwise(8)"),
        ("pairwise(2)", 64, "pairwise(1)"),
        ("split(3, tile=16)", 200, "split(size=80)"),
        ("split(size=2)", 6, "split(size=2)"),
        ("lanes(32, inner=split(size=4), outer=lanes(8))", 200,
         "lanes(32, inner=split(size=4), outer=lanes(8))"),
        ("lanes(4)", 7, "lanes(4)"),
        ("split(5, inner=split(3), outer=pairwise(1))", 512,
         "split(size=103, inner=split(3), outer=pairwise(1))"),
        ("promote(64, f32, inner=fused(16, hopper))", 256,
         "split(size=64, inner=fused(16, hopper), outer=seq)"),
        ("fused(16, hopper)", 200, "fused(16, hopper)"),
    ],
)  # fmt: skip
def test_the_schedule_is_the_simplest_that_fits(text: str, n: int, found: str) -> None:
    assert str(recognise(explicit(parse_schedule(text), n), "hopper")) == found


@settings(max_examples=40, deadline=None, derandomize=True)
@given(random_merges(24))
def test_a_tree_of_no_known_form_is_exported_pair_by_pair(merges: list[tuple[int, int]]) -> None:
    n = len(merges) + 1
    order = lastbit.reveal_order(by_merges(merges), n)
    assert order.schedule is not None
    assert explicit(parse_schedule(str(order.schedule)), n) == order.tree


def test_every_machine_with_such_a_step_is_named() -> None:
    order = lastbit.reveal_order(stepped(parse_schedule("fused(16, hopper)"), 64), 64)
    assert "hopper" in order.machines
    assert [str(schedule) for schedule in order.schedules()] == [
        f"fused(16, {machine})" for machine in order.machines
    ]


def test_steps_that_no_machine_does_are_no_schedule() -> None:
    order = lastbit.reveal_order(stepped(parse_schedule("fused(7, hopper/16)"), 21, kept=30), 21)
    assert (order.machines, order.schedule, order.schedules()) == ((), None, [])
    assert str(order.form) == "fused(7, ?)"


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("seq", "seq", "seq (first) and seq (second) add in the same order."),
        ("seq", "lanes(4)", "seq adds 0 and 1; lanes(4) adds 0 and 4."),
        ("lanes(4)", "seq", "lanes(4) adds 0 and 4; seq adds 0 and 1."),
        ("seq", "pairwise(8)", "seq adds (0-7) and 8; pairwise(8) adds (0-7) and (8-15)."),
        ("fused(8, ada)", "fused(4, volta)",
         "fused(8, ada) adds 0-7 in one step; fused(4, volta) adds 0-3 in one step."),
        ("fused(16, hopper)", "seq",
         "fused(16, hopper) adds 0-15 in one step; seq adds 0 and 1."),
        ("split(2)", "pairwise(8)",
         "split(2) and pairwise(8) add in the same order."),
    ],
)  # fmt: skip
def test_the_first_difference_is_said_in_words(first: str, second: str, words: str) -> None:
    assert order_of_schedule(first, 16).difference(order_of_schedule(second, 16)) == words


def test_orders_of_other_sizes_are_told_apart() -> None:
    words = order_of_schedule("seq", 4).difference(order_of_schedule("pairwise(1)", 5))
    assert words == "seq adds 4 elements, pairwise(1) adds 5."


@pytest.mark.parametrize(
    ("elements", "words"),
    [
        ([3], "3"),
        ([0, 1, 2, 3], "0-3"),
        ([0, 8, 16, 24], "0, 8 ... 24 (4 elements)"),
        ([0, 1, 5], "0-1, 5"),
        ([0, 2, 3, 7, 9, 14, 17, 30], "0, 2-3, 7, 9, 14 ... 30 (8 elements)"),
    ],
)
def test_sets_of_elements_take_few_words(elements: list[int], words: str) -> None:
    assert elements_text(elements) == words


@pytest.mark.parametrize(
    ("text", "n", "lines"),
    [
        ("seq", 1, ["0"]),
        ("seq", 4, ["0 + 1 + 2 + 3, left to right"]),
        ("split(2)", 12, ["+", "├─ 0 + 1 + ... + 5, left to right",
                          "└─ 6 + 7 + ... + 11, left to right"]),
        ("pairwise(1)", 4, ["+", "├─ +", "│  ├─ 0", "│  └─ 1", "└─ +", "   ├─ 2", "   └─ 3"]),
        ("fused(4, volta)", 6, ["+ one step of 3", "├─ + one step of 4", "│  └─ 0-3", "└─ 4-5"]),
    ],
)  # fmt: skip
def test_a_tree_is_drawn(text: str, n: int, lines: list[str]) -> None:
    assert draw(explicit(parse_schedule(text), n)).splitlines() == lines


def test_a_tree_run_on_vectors_gives_the_bits_of_the_array_domain() -> None:
    x = np.random.default_rng(SEED).standard_normal((4, 50)).astype(np.float32).astype(float)
    for text in ("seq", "pairwise(4)", "lanes(4)"):
        schedule = parse_schedule(text)
        for fmt in ("f32", "f64", "bf16"):
            own = run_tree(explicit(schedule, 50), x, FORMATS[fmt])
            whole = parse_schedule(str(explicit(schedule, 50).explicit()))
            assert np.array_equal(own, replayed(whole, x, "f32", fmt))
