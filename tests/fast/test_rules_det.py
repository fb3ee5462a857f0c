"""Rules about order and choice: what they break repeats, depends on the batch or on the layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastbit.change import Change
from lastbit.definitions import Definitions, reference
from lastbit.examples import check_example, named_examples
from lastbit.graph import Reduce
from lastbit.lint import lint_plans
from lastbit.registry import load_rules
from lastbit.result import Step
from lastbit.rule import Site, Standing, Value
from lastbit.schedule import tree_of
from lastbit.text import parse_program

RULES = {code: rule for code, rule in load_rules().items() if code.startswith("DET")}
EXAMPLES = {name: (rule, ex) for rule in RULES.values() for name, ex in named_examples(rule)}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_shows_what_it_states(name: str) -> None:
    rule, example = EXAMPLES[name]
    outcome = check_example(rule, example)
    assert outcome.id == name
    assert outcome.passed, outcome.message


@pytest.mark.parametrize("code", RULES)
def test_a_rule_shows_its_claim_on_an_ordinary_run(code: str) -> None:
    rule = RULES[code]
    shown = {
        outcome.change
        for _, example in named_examples(rule)
        if (outcome := check_example(rule, example)).ordinary
    }
    assert {rule.claim, Change.BITWISE} <= shown


def lint(folder: Path, graph: str, symbols: str, *transforms: str) -> list[Step]:
    path = folder / "plan.toml"
    listed = "".join(f"[[transform]]\n{given}\nbranch = true\n" for given in transforms)
    path.write_text(
        f'schema = 1\n[graph]\nname = "g"\nsymbols = {{ {symbols} }}\nbatch = "M"\n'
        f"text = '''\n{graph}\n'''\n{listed}",
        encoding="utf-8",
    )
    return list(lint_plans([str(path)]).steps)


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
    steps = lint(tmp_path, graph, "M = [4, 16], K = 64", *rules)
    assert [kept(s)["batch_invariant"] for s in steps] == [True, False, True, False]
    assert all(kept(s) | {"batch_invariant": True} == ALL for s in steps)
    assert steps[1].promises["batch_invariant"].cause == "M in [4, 16] may be below 16 or not"
    assert steps[2].change == "reassociation"  # always below


def test_a_collective_depends_on_the_number_of_devices(tmp_path: Path) -> None:
    graph = "x: bf16[M, K]\nw: bf16[K, N]\ny: f32 = matmul(x, w) acc f32 seq"
    steps = lint(
        tmp_path,
        graph,
        "M = [1, 8], K = 64, N = 32",
        'rule = "all-reduce-order"\nat = ["y"]\ndevices = 4',
        'rule = "all-reduce-order"\nat = ["y"]\ndevices = 4\nalgorithm = "tree"',
    )
    for step in steps:
        assert step.change == "reassociation"
        assert kept(step) == {**ALL, "layout_invariant": False}
        assert step.promises["layout_invariant"].cause == (
            "the result depends on the number of devices, `devices`"
        )
    assert steps[0].title == "4 devices sum parts of `y`, which a ring adds"


def edited(code: str, graph: str, at: str, **parameters: Value) -> list[Reduce]:
    """Return the sums of a value after a rule."""
    rule = RULES[code]
    program = parse_program(graph)
    old = Definitions(program.nodes({}, reference), program.outputs)
    usual = {p.name: p.default for p in rule.parameters if p.default is not None}
    node = rule.apply(Site(old, (at,), {**usual, **parameters}))[at]
    stack, found = [node], []
    while stack:
        node = stack.pop()
        found += [node] if isinstance(node, Reduce) else []
        stack += node.args
    return found


def test_each_slice_of_a_ring_begins_at_the_next_device() -> None:
    graph = "x: f32[1, 3]\nw: f32[3, 6]\ny: f32 = matmul(x, w) acc f32 seq"
    sums = edited("DET602", graph, "y", devices=3)
    trees = [tree_of(total.schedule, 3) for total in sums if total.schedule is not None]
    first = {str(tree).replace("'", "") for tree in trees}
    assert len(sums) == len(first) == 3
    for order in ("120", "201", "012"):
        assert any("".join(c for c in text if c.isdigit()) == order for text in first)
    alone = edited("DET602", "x: f32[3]\ny: f32 = sum(x) acc f32 seq", "y", devices=2)
    assert len(alone) == 1


def test_devices_without_a_term_add_nothing() -> None:
    (total,) = edited("DET602", "x: f32[2]\ny: f32 = sum(x) acc f32 seq", "y", devices=4)
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
    (step,) = lint(tmp_path, graph, symbols, f'rule = "{rule}"\nat = ["{at}"]')
    assert step.change == str(next(r.claim for r in RULES.values() if r.name == rule))
    assert kept(step)["deterministic"] is False
    assert kept(step)["layout_invariant"] is True
    assert step.witness is not None


def test_weights_may_be_multiplied_and_stored_before_they_are_summed(tmp_path: Path) -> None:
    graph = (
        "w: f32[M, E, 1]\no: bf16[M, E, N]\nt: bf16 = w * o\ny: bf16 = sum(t, axis=1) acc f32 seq"
    )
    rule = 'rule = "combine-experts-as-they-arrive"\nat = ["y"]'
    (step,) = lint(tmp_path, graph, "M = [1, 8], E = 4, N = 8", rule)
    assert (step.change, kept(step)["deterministic"]) == ("reassociation", False)


def test_the_last_of_equal_elements_wins_over_any_and_over_the_first(tmp_path: Path) -> None:
    graph = "x: bf16[M, E]\ni: int32 = argmax(x)\nj: int32 = topk_indices_first(x, 2)"
    rules = [f'rule = "last-of-equal"\nat = ["{name}"]' for name in "ij"]
    loose, first = lint(tmp_path, graph, "M = [1, 8], E = 8", *rules)
    assert loose.change == first.change == "math"
    assert (loose.promises["deterministic"].before, loose.promises["deterministic"].after) == (
        False,
        True,
    )
    assert kept(first) == ALL


def test_every_choice_without_a_rule_is_found_and_no_other() -> None:
    rule = RULES["DET631"]
    assert rule.finds is not None
    program = parse_program(
        "x: f32[2, 4]\ni: int32 = argmax(x)\nv: f32 = topk(x, 2)\nl: int32 = argmax_last(x)\n"
        "k: int32 = argmax(x, nth=3) + argmax_first(x)"
    )
    found = list(rule.finds(Standing(Definitions(program.nodes({}, reference), program.outputs))))
    assert [danger.at for danger in found] == [("i",), ("k",)]
    assert found[0].message == (
        "`i` takes the index of a largest element; of equal ones any may be taken"
    )
