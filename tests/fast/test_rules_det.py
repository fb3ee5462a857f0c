"""Rules about order and choice: what they break repeats, depends on the batch or on the layout."""

from __future__ import annotations

from pathlib import Path

import pytest
from plans import steps_of
from sites import site_of, transformed, written

from lastbit.graph import Reduce, topological
from lastbit.registry import find_rule
from lastbit.result import Step
from lastbit.rule import Standing, Value
from lastbit.schedule import tree_of


def kept(step: Step) -> dict[str, bool | None]:
    """Return which promises hold afterwards; all of them did before."""
    assert all(promise.before is True for promise in step.promises.values())
    return {name: promise.after for name, promise in step.promises.items()}


ALL = {"deterministic": True, "batch_invariant": True, "layout_invariant": True}


def test_a_limit_on_rows_breaks_batch_invariance_only_inside_the_range(tmp_path: Path) -> None:
    graph = "x: f32[M, K]\ny: f32 = sum(x) acc f32 seq"
    rules = [
        f'rule = "schedule-by-rows"\nat = ["y"]\nrows = {rows}\nfew = "pairwise"'
        for rows in (4, 16, 17, 5)
    ]
    steps = steps_of(tmp_path, graph, "M = [4, 16], K = 64", *rules, branch=True)
    assert [kept(s)["batch_invariant"] for s in steps] == [True, False, True, False]
    assert all(kept(s) | {"batch_invariant": True} == ALL for s in steps)
    assert steps[1].promises["batch_invariant"].cause == "M in [4, 16] may be below 16 or not"
    assert steps[2].change == "reassociation"  # always below


def test_a_collective_depends_on_the_number_of_devices(tmp_path: Path) -> None:
    graph = "x: bf16[M, K]\nw: bf16[K, N]\ny: f32 = matmul(x, w) acc f32 seq"
    steps = steps_of(
        tmp_path,
        graph,
        "M = [1, 8], K = 64, N = 32",
        'rule = "all-reduce-order"\nat = ["y"]\ndevices = 4',
        'rule = "all-reduce-order"\nat = ["y"]\ndevices = 4\nalgorithm = "tree"',
        branch=True,
    )
    for step in steps:
        assert step.change == "reassociation"
        assert kept(step) == {**ALL, "layout_invariant": False}
        assert step.promises["layout_invariant"].cause == (
            "the result depends on the number of devices, `devices`"
        )
    assert steps[0].title == "4 devices sum parts of `y`, which a ring adds"


def sums_after(code: str, graph: str, at: str, **parameters: Value) -> list[Reduce]:
    """Return the sums of a value after a rule."""
    node = transformed(code, site_of(graph, at, **parameters)).nodes[at]
    return [part for part in topological([node]) if isinstance(part, Reduce)]


def test_each_slice_of_a_ring_begins_at_the_next_device() -> None:
    graph = "x: f32[1, 3]\nw: f32[3, 6]\ny: f32 = matmul(x, w) acc f32 seq"
    sums = sums_after("DET602", graph, "y", devices=3)
    trees = [tree_of(total.schedule, 3) for total in sums if total.schedule is not None]
    first = {str(tree).replace("'", "") for tree in trees}
    assert len(sums) == len(first) == 3
    for order in ("120", "201", "012"):
        assert any("".join(c for c in text if c.isdigit()) == order for text in first)
    alone = sums_after("DET602", "x: f32[3]\ny: f32 = sum(x) acc f32 seq", "y", devices=2)
    assert len(alone) == 1


def test_devices_without_a_term_add_nothing() -> None:
    (total,) = sums_after("DET602", "x: f32[2]\ny: f32 = sum(x) acc f32 seq", "y", devices=4)
    assert total.schedule is not None
    assert "2" not in str(tree_of(total.schedule, 2))


ATOMICS = {
    "scatter-add-atomics": (
        "x: f32[T, 1]\ni: int32[T, 1]\nrow: int32[1, M]\n"
        "y: f32 = sum(select(i == row, x, 0), axis=0) acc f32 seq",
        "M = [1, 8], T = 16",
        "y",
    ),
    "combine-experts-as-they-arrive": (
        "w: f32[M, E, 1]\no: bf16[M, E, N]\ny: bf16 = sum(w * o, axis=1) acc f32 seq",
        "M = [1, 8], E = 4, N = 8",
        "y",
    ),
    "fuse-all-reduce-norm": (
        "p: f32[D, M, N]\nw: bf16[N]\nh: bf16 = sum(p, axis=0) acc f32 seq\n"
        "y: bf16 = rms_norm(h, w, 1e-6) acc f32 seq",
        "M = [1, 8], D = 3, N = 16",
        "h",
    ),
}


@pytest.mark.parametrize("rule", ATOMICS)
def test_what_is_added_as_it_arrives_does_not_repeat(rule: str, tmp_path: Path) -> None:
    graph, symbols, at = ATOMICS[rule]
    (step,) = steps_of(tmp_path, graph, symbols, f'rule = "{rule}"\nat = ["{at}"]')
    assert step.change == str(find_rule(rule).claim)
    assert kept(step)["deterministic"] is False
    assert kept(step)["layout_invariant"] is True
    assert step.witness is not None


def test_weights_may_be_multiplied_and_stored_before_they_are_summed(tmp_path: Path) -> None:
    graph = (
        "w: f32[M, E, 1]\no: bf16[M, E, N]\nt: bf16 = w * o\ny: bf16 = sum(t, axis=1) acc f32 seq"
    )
    rule = 'rule = "combine-experts-as-they-arrive"\nat = ["y"]'
    (step,) = steps_of(tmp_path, graph, "M = [1, 8], E = 4, N = 8", rule)
    assert (step.change, kept(step)["deterministic"]) == ("reassociation", False)


def test_the_last_of_equal_elements_wins_over_any_and_over_the_first(tmp_path: Path) -> None:
    graph = "x: bf16[M, E]\ni: int32 = argmax(x)\nj: int32 = topk_indices_first(x, 2)"
    rules = [f'rule = "last-of-equal"\nat = ["{name}"]' for name in "ij"]
    loose, first = steps_of(tmp_path, graph, "M = [1, 8], E = 8", *rules, branch=True)
    assert loose.change == first.change == "math"
    assert (loose.promises["deterministic"].before, loose.promises["deterministic"].after) == (
        False,
        True,
    )
    assert kept(first) == ALL


def test_every_choice_without_a_rule_is_found_and_no_other() -> None:
    rule = find_rule("DET631")
    assert rule.finds is not None
    program = written(
        "x: f32[2, 4]\ni: int32 = argmax(x)\nv: f32 = topk(x, 2)\nl: int32 = argmax_last(x)\n"
        "k: int32 = argmax(x, nth=3) + argmax_first(x)"
    )
    found = list(rule.finds(Standing(program)))
    assert [danger.at for danger in found] == [("i",), ("k",)]
    assert found[0].message == (
        "`i` takes the index of a largest element; of equal ones any may be taken"
    )
