"""A schedule is one tree per output element; its text parses back; equal trees hash alike."""

import dataclasses
import re
from typing import Any

import pytest

from lastbit.expression import parse_expression
from lastbit.schedule import (
    AnyOrder,
    Fused,
    Lanes,
    Pairwise,
    Promote,
    Schedule,
    ScheduleError,
    Seq,
    Split,
    Table,
    bind,
    deterministic,
    formats,
    parse_schedule,
    scaled,
    symbols,
    tree_hash,
    tree_of,
    tree_of_pairs,
)

GRAMMAR = (
    "Allowed: seq, pairwise(leaf), lanes(n), split(n), split(size=n), fused(k, machine), "
    "promote(every, format), stored(format), tree(pairs), any_order."
)


def elements(tree: Any) -> list[int]:
    """The elements of a tree, left to right."""
    if isinstance(tree, tuple):
        return [i for part in tree for i in elements(part)]
    return [tree] if isinstance(tree, int) else []


@pytest.mark.parametrize(
    "text",
    [
        "seq",
        "seq(acc=bf16)",
        "pairwise(8)",
        "lanes(4)",
        "lanes(32, inner=seq, outer=pairwise(1))",
        "split(3, tile=64, inner=fused(16, hopper), outer=seq)",
        "split(size=32)",
        "split(4, inner=seq(acc=bf16), outer=seq)",
        "split(4, partials=bf16)",
        "split(4, tile=64, deal=interleaved)",
        "split(4, inner=fused(16, hopper), outer=stored(bf16))",
        "stored(bf16, acc=f32)",
        "split(4, inner=split(2), outer=any_order, acc=f32)",
        "split(max(1, 132 // ceil(M / 128)))",
        "split(table(M, (1, 16), (64, 4), (512, 1)), tile=64)",
        "promote(128, f32, inner=fused(32, hopper))",
        "promote(128, f32)",
        "fused(1, hopper/16)",
        "tree(((0, 1), (2, 3)))",
        "tree((((), 0), 1), acc=f16)",
        "tree(())",
        "tree(0)",
        "any_order",
        "any_order(acc=f16)",
    ],
)
def test_the_canonical_text_parses_and_prints_back(text: str) -> None:
    schedule = parse_schedule(text)
    assert str(schedule) == text
    assert parse_schedule(str(schedule)) == schedule


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("split(n=3)", Split(3)),
        ("split(2*4)", Split(8)),
        ('split("max(1, M//4)")', Split(parse_expression("max(1, M // 4)"))),
        ("pairwise", Pairwise(1)),
        ("seq()", Seq()),
        ("any_order()", AnyOrder()),
        ("seq(acc=bfloat16)", Seq(acc="bf16")),
        ("promote(every=128, format=binary32)", Promote(128, "f32")),
        ("tree( ((0,1),2) )", tree_of_pairs(((0, 1), 2))),
        ("split(2, inner=tree((0, 1)), outer=tree((1, 0)))",
         Split(2, inner=tree_of_pairs((0, 1)), outer=tree_of_pairs((1, 0)))),
    ],
)  # fmt: skip
def test_other_spellings_are_read(text: str, schedule: Schedule) -> None:
    assert parse_schedule(text) == schedule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("splt(3)", "schedule `splt(3)`: 'splt' is no schedule. Did you mean 'split'?"),
        ("split(3", f"schedule `split(3`: this is no schedule. {GRAMMAR}"),
        ("3", f"schedule `3`: '3' is no schedule. {GRAMMAR}"),
        ("split(3, 4)", "schedule `split(3, 4)`: argument '4' of split has no name. "
         "Name it: size=, tile=, deal=, inner=, outer=, partials=, acc=."),
        ("split(3, title=4)", "schedule `split(3, title=4)`: split has no parameter 'title'. "
         "Did you mean 'tile'?"),
        ("split(3, n=4)", "schedule `split(3, n=4)`: split is given 'n' twice. Give it once."),
        ("fused(16)", f"schedule `fused(16)`: fused lacks machine. {GRAMMAR}"),
        ("split(tile=4)", "schedule `split(tile=4)`: one of n and size is needed. Write split(4)."),
        ("split(3, size=4)",
         "schedule `split(3, size=4)`: one of n and size is needed. Write split(4)."),
        ("split(size=4, tile=2)",
         "schedule `split(size=4, tile=2)`: size is in elements. Leave out tile."),
        ("split(2, deal=round)",
         "schedule `split(2, deal=round)`: 'round' is no way to deal tiles. "
         "Allowed: contiguous, interleaved."),
        ("split(size=4, deal=interleaved)", "schedule `split(size=4, deal=interleaved)`: "
         "pieces of a size are contiguous. Give n."),
        ("stored", f"schedule `stored`: stored lacks format. {GRAMMAR}"),
        ("split(0)", "schedule `split(0)`: n is 0. Allowed: 1 and above."),
        ('split(__import__("os"))', "expression \"__import__('os')\": a call of '__import__' is "
         "not allowed. Allowed: integers, symbols, + - * / // % **, min, max, ceil and floor."),
        ("seq(acc=bf61)", "unknown format 'bf61'. Did you mean 'bf16'?"),
        ("seq(acc=3+4)",
         "schedule `seq(acc=3+4)`: '3 + 4' is no name. Write a name, such as bf16."),
        ("split(table(4))",
         "schedule `split(table(4))`: this is no table. Write table(M, (1, 16), (64, 4))."),
        ("split(table(M, 4))",
         "schedule `split(table(M, 4))`: '4' is no row of a table. "
         "Write table(M, (1, 16), (64, 4))."),
        ("split(table(M, (4, 1), (1, 2)))", "schedule `table(M, (4, 1), (1, 2))`: "
         "the bounds do not rise. Write (1, 16), (64, 4), ..."),
        ("tree(x)", "schedule `tree(x)`: these are no pairs. "
         "Write tree(((0, 1), 2)), or () for zero."),
        ("tree", "schedule `tree`: tree lacks its pairs. Write tree(((0, 1), 2))."),
        ("tree((0, 1, 2))", "schedule `tree`: '(0, 1, 2)' is no pair. Write tree(((0, 1), 2))."),
        ("tree((0, 0))", "schedule `tree`: it is no tree over elements 0 to 1. "
         "Use each element once, as in tree(((0, 1), 2))."),
        ("tree((0, 2))", "schedule `tree`: it is no tree over elements 0 to 1. "
         "Use each element once, as in tree(((0, 1), 2))."),
    ],
)  # fmt: skip
def test_what_is_no_schedule_is_refused(text: str, message: str) -> None:
    with pytest.raises(Exception, match=f"^{re.escape(message)}$"):
        parse_schedule(text)


def test_parameters_are_bound_to_sizes() -> None:
    schedule = parse_schedule("split(max(1, 132 // ceil(M/128)), inner=pairwise(K // 8))")
    assert symbols(schedule) == {"M", "K"}
    bound = bind(schedule, {"M": 129, "K": 64})
    assert bound == Split(66, inner=Pairwise(8))
    assert symbols(bound) == frozenset()
    assert bind(Seq(), {}) == Seq()


def test_a_table_gives_the_row_at_or_below_a_size() -> None:
    schedule = Split(Table("M", ((1, 16), (64, 4), (512, 1))))
    taken = [bind(schedule, {"M": m}) for m in (1, 63, 64, 511, 512, 10**6)]
    assert taken == [Split(n) for n in (16, 16, 4, 4, 1, 1)]


def test_a_parameter_without_a_value_says_why() -> None:
    def refused(schedule: Schedule, sizes: dict[str, int]) -> str:
        with pytest.raises(ScheduleError) as caught:
            bind(schedule, sizes)
        return str(caught.value)

    assert refused(parse_schedule("split(M // 128)"), {"M": 64}) == (
        "schedule `split(M // 128)`: n = M // 128 is 0 at M=64. Guard it with max(1, ...)."
    )
    table = Split(Table("M", ((8, 4),)))
    assert refused(table, {"M": 4}) == (
        "schedule `table(M, (8, 4))`: no row covers M=4. Begin with a row for 4 or less."
    )
    assert refused(table, {"K": 4}) == (
        "schedule `table(M, (8, 4))`: the symbol 'M' has no size. Known: K."
    )


def test_an_unbound_parameter_has_no_tree() -> None:
    message = "schedule `split(M)`: n = M is not bound. Bind it to sizes."
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        tree_of(parse_schedule("split(M)"), 4)


def test_a_tree_of_another_size_is_refused() -> None:
    message = "schedule `tree`: it has 2 leaves, and there are 3 elements. Use a tree of that size."
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        tree_of(tree_of_pairs((0, 1)), 3)


@pytest.mark.parametrize(
    ("text", "k", "tree"),
    [
        ("seq", 3, ((((), 0), 1), 2)),
        ("pairwise(1)", 2, (((), 0), ((), 1))),
        ("pairwise(2)", 5, (((((), 0), 1), ((), 2)), (((), 3), 4))),
        ("lanes(2)", 4, (((), (((), 0), 2)), (((), 1), 3))),
        ("lanes(8)", 2, (((), ((), 0)), ((), 1))),
        ("split(2)", 3, (((), (((), 0), 1)), ((), 2))),
        ("split(size=2, inner=seq, outer=pairwise(2))", 3, (((), (((), 0), 1)), ((), 2))),
        ("fused(2, hopper)", 3, ("hopper/2", ("hopper/2", (), 0, 1), 2)),
        ("fused(2, hopper/16)", 2, ("hopper/16", (), 0, 1)),
        ("promote(2, f32, inner=fused(2, hopper))", 3,
         (((), ("hopper/2", (), 0, 1)), ("hopper/2", (), 2))),
        ("tree(((0, ()), (2, 1)))", 3, ((0, ()), (2, 1))),
        ("tree(0)", 1, ("convert", "f32", 0)),
        ("any_order", 2, ("any_order", 0, 1)),
        ("seq(acc=bf16)", 1, ("convert", "f32", ("bf16", (), 0))),
        ("split(1, inner=seq(acc=bf16), outer=seq)", 1,
         ((), ("convert", "f32", ("bf16", (), 0)))),
        ("split(1, inner=seq, outer=seq(acc=bf16))", 1,
         ("convert", "f32", ("bf16", (), ((), 0)))),
        ("split(1, acc=bf16)", 1, ("convert", "f32", ("bf16", (), ("bf16", (), 0)))),
        ("split(1, partials=bf16)", 1,
         ((), ("convert", "f32", ("convert", "bf16", ((), 0))))),
        ("split(2, tile=2, deal=interleaved, inner=fused(2, hopper), outer=seq)", 7,
         (((), ("hopper/2", ("hopper/2", (), 0, 1), 4, 5)),
          ("hopper/2", ("hopper/2", (), 2, 3), 6))),
        ("stored(bf16)", 2,
         ("convert", "f32", ("convert", "bf16",
          (("convert", "f32", ("convert", "bf16", ((), 0))), 1)))),
        ("promote(1, f64)", 1, ("convert", "f32", ("f64", (), ("convert", "f64", ((), 0))))),
    ],
)  # fmt: skip
def test_the_tree_of_each_level(text: str, k: int, tree: object) -> None:
    assert tree_of(parse_schedule(text), k, "f32") == tree


@pytest.mark.parametrize(
    ("schedule", "k", "sizes"),
    [
        (Split(3, tile=64), 4096, [22 * 64, 22 * 64, 20 * 64]),  # seen on an NVIDIA H200
        (Split(3), 10, [4, 4, 2]),
        (Split(4), 9, [3, 3, 3]),  # ceil(9 / 4) leaves nothing for a fourth piece
        (Split(3, tile=4), 10, [4, 4, 2]),  # the last tile is not whole
        (Split(8), 3, [1, 1, 1]),
        (Split(size=4), 10, [4, 4, 2]),
        (Split(size=4), 3, [3]),
        (Split(8, deal="interleaved"), 3, [1, 1, 1]),
    ],
)
def test_the_pieces_of_a_split(schedule: Split, k: int, sizes: list[int]) -> None:
    flat = dataclasses.replace(schedule, inner=AnyOrder(), outer=AnyOrder())
    _, *pieces = tree_of(flat, k)
    assert [i for piece in pieces for i in elements(piece)] == list(range(k))
    assert [len(elements(piece)) for piece in pieces] == sizes


def test_an_empty_sum_is_zero() -> None:
    for text in ("seq", "split(4)", "any_order", "fused(16, hopper)", "pairwise(8)", "lanes(4)"):
        assert tree_of(parse_schedule(text), 0) == ()


def test_every_level_takes_each_element_once() -> None:
    text = "split(3, tile=4, inner=lanes(3, inner=pairwise(2), outer=seq), outer=pairwise(1))"
    for k in range(1, 60):
        assert sorted(elements(tree_of(parse_schedule(text), k))) == list(range(k))


@pytest.mark.parametrize(
    ("first", "second", "k", "representable", "same"),
    [
        ("seq", "pairwise(8)", 8, False, True),
        ("seq", "pairwise(8)", 9, False, False),
        ("seq", "split(1)", 9, False, True),  # 0 + partial is the partial
        ("seq", "split(3)", 9, False, False),
        ("split(3)", "split(size=3)", 9, False, True),
        ("split(3)", "split(size=3)", 10, False, False),
        ("split(2, inner=seq, outer=seq)", "split(2, inner=seq, outer=pairwise(1))", 9, False,
         True),
        ("tree((0, 1))", "tree((1, 0))", 2, False, True),  # addition is commutative
        ("tree(((0, 1), 2))", "tree((0, (1, 2)))", 3, False, False),
        ("seq", "tree((0, 1))", 2, False, False),  # Round(0 + leaf) may round
        ("seq", "tree((0, 1))", 2, True, True),
        ("seq", "seq(acc=f32)", 9, False, True),
        ("seq", "seq(acc=bf16)", 9, False, False),
        ("seq(acc=bf16)", "seq(acc=f16)", 9, False, False),
        ("seq", "any_order", 9, False, False),
        ("fused(16, hopper)", "fused(16, ampere)", 64, False, False),
        ("fused(16, hopper)", "fused(8, hopper)", 64, False, False),
        ("split(2, inner=fused(16, hopper), outer=seq)", "fused(16, hopper)", 64, False, False),
        ("split(2)", "split(2, partials=bf16)", 9, False, False),
        ("split(2)", "split(2, partials=f32)", 9, False, True),
        ("promote(4, f32)", "split(size=4)", 9, False, True),
    ],
)  # fmt: skip
def test_equal_trees_hash_alike(
    first: str, second: str, k: int, representable: bool, same: bool
) -> None:
    hashes = [tree_hash(parse_schedule(s), k, "f32", representable) for s in (first, second)]
    assert (hashes[0] == hashes[1]) is same


def test_a_hash_is_the_same_in_every_process() -> None:
    assert tree_hash(Seq(), 12288, "f32") == 0xA4C24AA0ADDF2C0B5F8F7D357A99BC87


def test_a_deep_tree_neither_parses_nor_prints_recursively() -> None:
    nested: object = 0
    for i in range(1, 5000):  # deeper than the call stack
        nested = (nested, i)
    tree = tree_of_pairs(nested)
    assert parse_schedule(str(tree)) == tree
    assert tree_hash(tree, 5000, "f32", True) == tree_hash(Seq(), 5000, "f32", True)


def test_any_order_anywhere_is_not_deterministic() -> None:
    assert deterministic(parse_schedule("split(4, inner=lanes(4), outer=seq)"))
    assert not deterministic(parse_schedule("split(4, inner=seq, outer=any_order)"))
    assert not deterministic(parse_schedule("promote(8, f32, inner=any_order)"))


def test_the_formats_of_all_levels() -> None:
    assert formats(Seq(), "f32") == {"f32"}
    assert formats(Seq(acc="bf16"), "f32") == {"bf16"}
    assert formats(parse_schedule("split(4, partials=bf16)"), "f32") == {"f32", "bf16"}
    assert formats(parse_schedule("lanes(4, inner=seq(acc=f16), outer=seq)"), "f32") == {
        "f32",
        "f16",
    }
    assert formats(Promote(128, "f32", Fused(32, "hopper")), "f16") == {"f16", "f32"}


def test_scaling_keeps_several_pieces_at_small_sizes() -> None:
    text = (
        "split(size=1024, inner=fused(16, hopper), outer=lanes(8, inner=pairwise(100), outer=seq))"
    )
    assert scaled(parse_schedule(text), 64) == Split(
        size=16, inner=Fused(1, "hopper/16"), outer=Lanes(4, Pairwise(2))
    )
    assert scaled(Promote(128, "f32"), 100) == Promote(2, "f32")
    assert scaled(Split(2, tile=64), 32) == Split(2, tile=2)
    assert scaled(Fused(16, "hopper"), 1) == Fused(16, "hopper")
