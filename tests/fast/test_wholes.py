"""Of steps that meet, the whole is judged as one change, or bounded by its steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from meeting import DROP, GRAPH, SPLIT, TODAY

from lastbit.change import Change
from lastbit.plan import Plan, load_plan
from lastbit.records import DomainEntry, Evidence, Promise
from lastbit.verify.decide import Judged
from lastbit.verify.wholes import whole


def judged(change: Change, **facts: object) -> Judged:
    kept = {name: Promise(True, True) for name in ("deterministic", "batch_invariant")}
    return replace(Judged("", change, promises=kept), **facts)  # type: ignore[arg-type]


def plan_of(folder: Path, rest: str) -> Plan:
    path = folder / "plan.toml"
    path.write_text(GRAPH + rest, encoding="utf-8")
    return load_plan(str(path), TODAY)


SAMPLED = (Evidence("sampled", detail="no difference found on 9 inputs"),)


def test_that_steps_cancel_must_be_proven(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SPLIT + DROP)
    steps = {0: judged(Change.REASSOCIATION), 1: judged(Change.ROUNDING)}
    found = whole(plan, (0, 1), steps, judged(Change.REASSOCIATION, evidence=SAMPLED))
    assert (found.judged.change, found.set_by, found.judged.witness) == (Change.ROUNDING, 1, None)
    assert found.judged.notes == ("the most that the steps can do; that they cancel is not shown",)
    assert [evidence.by for evidence in found.judged.evidence] == ["sampled", "law"]


def test_a_sampled_verdict_that_is_that_of_the_worst_step_stands(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SPLIT + DROP)
    steps = {0: judged(Change.REASSOCIATION), 1: judged(Change.ROUNDING)}
    found = whole(plan, (0, 1), steps, judged(Change.ROUNDING, evidence=SAMPLED))
    assert (found.judged.change, found.set_by, found.judged.notes) == (Change.ROUNDING, 1, ())


def test_what_cannot_be_judged_is_no_worse_than_its_steps(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SPLIT + DROP)
    nan, inf = DomainEntry("nan", "after", "zeros"), DomainEntry("inf", "after", "ones")
    broken = {
        "deterministic": Promise(True, False, "atomics"),
        "batch_invariant": Promise(True, None),
    }
    steps = {
        0: judged(Change.REASSOCIATION, domain=(nan,), promises=broken),
        1: judged(Change.ROUNDING, domain=(nan, inf)),
    }
    found = whole(plan, (0, 1), steps, Judged("", Change.UNKNOWN, notes=("it does not fit.",)))
    assert (found.judged.change, found.set_by) == (Change.ROUNDING, 1)
    assert found.judged.domain == (nan, inf)
    assert found.judged.promises["deterministic"] == Promise(True, False, "atomics")
    assert found.judged.promises["batch_invariant"].after is None
    assert found.judged.notes == (
        "the most that the steps can do; not judged as one change: it does not fit",
    )


def test_a_step_that_is_unknown_leaves_the_whole_unknown(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SPLIT + DROP)
    steps = {0: judged(Change.UNKNOWN), 1: judged(Change.ROUNDING)}
    assert whole(plan, (0, 1), steps, judged(Change.UNKNOWN)).judged.change == Change.UNKNOWN


def test_a_whole_that_is_worse_than_its_steps_says_so(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SPLIT + DROP)
    steps = {0: judged(Change.REASSOCIATION), 1: judged(Change.REASSOCIATION)}
    found = whole(plan, (0, 1), steps, judged(Change.ROUNDING))
    assert (found.set_by, found.judged.notes) == (
        None,
        ("together more than each of the steps alone",),
    )


def test_of_steps_that_keep_the_bits_the_one_with_a_domain_sets_the_verdict(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, SPLIT + DROP)
    nan = (DomainEntry("nan", "before", "zeros"),)
    steps = {0: judged(Change.BITWISE), 1: judged(Change.BITWISE, domain=nan)}
    assert whole(plan, (0, 1), steps, judged(Change.BITWISE, domain=nan)).set_by == 1
