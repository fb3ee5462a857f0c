"""Check a function against what Inductor makes of it: `lastbit check F.py:f --compile`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from lastbit.change import Change
from lastbit.checking import budget_of
from lastbit.codes import ASSUMED_CODE, DIFFERENCE_CODES
from lastbit.importers.inductor.capture import Captured, CapturedGraph, captured
from lastbit.importers.inductor.comparing import Compared, compare, result_of
from lastbit.importers.inductor.reading import read_graph_folder
from lastbit.importers.inductor.running import Runs
from lastbit.importers.torch_calls import resolve
from lastbit.plan_model import Budget
from lastbit.records import Location
from lastbit.result import Finding, Result
from lastbit.tracing.spec import Spec

MOST_SHOWN = 4


def check_compiled(
    label: str,
    target: Callable[..., Any],
    *,
    inputs: Mapping[str, Spec | str] | None = None,
    max_change: str | None = None,
    max_ulp: Mapping[str, float] | None = None,
    elementwise: bool = False,
    promises: Sequence[str] = (),
    seed: int = 0,
    today: date | None = None,
    run: bool = True,
    emulate: bool | None = None,
) -> Result:
    """Say which roundings Inductor drops in a function, and what kind of change that is.

    Args:
        label: as the user named the function.
        target: a function of tensors, a module, or a function that builds one.
        inputs: format and shape of parameters by name; else those of its attribute `inputs`.
        max_change: the most that is allowed; None: anything that is the same function.
        max_ulp: the most that is allowed in ulp, by format.
        elementwise: whether `max_ulp` counts ulp of each result rather than ulp at scale.
        promises: the promises that the kernels must keep.
        seed: selects every draw.
        today: the day that the result names.
        run: whether the predictions are held against the two runs.
        emulate: sets Inductor's `emulate_precision_casts`; None: as it is configured.

    Raises:
        InputError: the function cannot be run or compiled, or what Inductor wrote cannot be read.
    """
    budget = budget_of(max_change, max_ulp, elementwise, promises)
    called = resolve(label, target, inputs, seed)
    with captured(called, emulate) as found:
        several = len(found.graphs) > 1
        compared = [
            _compared(graph, seed, budget, f"graph-{number}." if several else "", run)
            for number, graph in enumerate(found.graphs, 1)
        ]
        compared.append(_whole(label, found, compared[-1]))
    return result_of(compared, "check", seed, today or date.today())


def _compared(
    graph: CapturedGraph, seed: int, budget: Budget | None, prefix: str, run: bool
) -> Compared:
    reading = read_graph_folder(graph.folder)
    if not run:
        return compare(reading, seed, budget, prefix)
    runs = Runs(reading, graph)
    found = compare(reading, seed, budget, prefix, runs.observe)
    return replace(
        found, findings=(*found.findings, *_about_run(runs, graph, reading.folder.shown))
    )


def _about_run(runs: Runs, graph: CapturedGraph, shown: str) -> Iterator[Finding]:
    location = Location(shown)
    for word, side in (("operator by operator", runs.before), ("compiled", runs.after)):
        exact = sum(not one.differing for one in side.values())
        message = f"run {word}: {exact} of {len(side)} values that were predicted, bit for bit"
        within = sum(one.confirmed and one.differing > 0 for one in side.values())
        if within:
            message += f", {within} within the ulp of library functions"
        yield Finding(ASSUMED_CODE, "note", message, location)
    for one in runs.unconfirmed():
        message = (
            f"the prediction for `{one.name}` does not hold: {one.differing:,} of "
            f"{one.elements:,} elements differ from the run"
        )
        yield Finding(DIFFERENCE_CODES[Change.UNKNOWN], "warning", message, location)
    if graph.differs:
        message = "the kernels gave other results when they were run again: they add in any order"
        yield Finding(ASSUMED_CODE, "warning", message, location)


def _whole(label: str, found: Captured, last: Compared) -> Compared:
    """Return how far the compiled results are from the eager ones."""
    texts = []
    for number, (a, b) in enumerate(zip(found.eager, found.compiled, strict=False)):
        differing = int(((a != b) & ~(a.isnan() & b.isnan())).sum())
        name = f"result {number}: " if len(found.eager) > 1 else ""
        texts.append(f"{name}{differing:,} of {a.numel():,} elements differ")
    shown = "; ".join(texts[:MOST_SHOWN]) + ("; ..." if len(texts) > MOST_SHOWN else "")
    message = f"eager against compiled, on the inputs given: {shown}"
    return Compared(last.reading, (), (Finding(ASSUMED_CODE, "note", message, Location(label)),))
