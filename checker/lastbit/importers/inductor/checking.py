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
from lastbit.importers.inductor.comparing import Compared, compare, compare_chain, result_of
from lastbit.importers.inductor.meanings import is_random
from lastbit.importers.inductor.reading import Reading, read_graph_folder
from lastbit.importers.inductor.running import Runs
from lastbit.importers.inductor.selfcheck import differing
from lastbit.importers.torch_calls import resolve
from lastbit.importers.verdicts import step_of
from lastbit.plan_model import Budget
from lastbit.records import Location
from lastbit.result import Finding, Result, Step
from lastbit.tracing.spec import Spec
from lastbit.verify.decide import Judged

MOST_SHOWN = 4
WRONG = "the prediction for"  # begins what is said where a run shows other bits


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
        readings = [read_graph_folder(graph.folder) for graph in found.graphs]
        compared = [*_chains(found, label, seed, budget)]
        for number, (graph, reading) in enumerate(zip(found.graphs, readings, strict=True), 1):
            prefix = f"graph-{number}." if several else ""
            compared.append(_compared(graph, reading, seed, budget, prefix, run))
        compared.append(_unexplained(label, found, readings, compared, budget))
        compared.append(_whole(label, found))
    return result_of(compared, "check", seed, today or date.today())


def _compared(
    graph: CapturedGraph,
    reading: Reading,
    seed: int,
    budget: Budget | None,
    prefix: str,
    run: bool,
) -> Compared:
    if not run:
        return compare(reading, seed, budget, prefix, None, graph.passes)
    runs = Runs(reading, graph)
    found = compare(reading, seed, budget, prefix, runs.observe, graph.passes)
    return replace(
        found, findings=(*found.findings, *_about_run(runs, graph, reading.folder.shown))
    )


def _chains(found: Captured, label: str, seed: int, budget: Budget | None) -> Iterator[Compared]:
    """Yield what the passes changed that ran before a graph was compiled."""
    for number, chain in enumerate(found.chains, 1):
        prefix = f"passes-{number}." if len(found.chains) > 1 else ""
        yield compare_chain(chain, label, seed, budget, prefix)
    if found.missing:
        location = Location(label)
        yield Compared((), tuple(Finding(ASSUMED_CODE, "note", s, location) for s in found.missing))


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
            f"{WRONG} `{one.name}` does not hold: {one.differing:,} of "
            f"{one.elements:,} elements differ from the run"
        )
        yield Finding(DIFFERENCE_CODES[Change.UNKNOWN], "warning", message, location)
    if graph.differs:
        drawn = any(is_random(node) for node in runs.reading.graph.nodes.values())
        why = "they draw random numbers anew" if drawn else "they add in any order"
        message = f"the kernels gave other results when they were run again: {why}"
        yield Finding(ASSUMED_CODE, "warning", message, location)


def _whole(label: str, found: Captured) -> Compared:
    """Return how far the compiled results are from the eager ones."""
    texts = []
    for number, (a, b) in enumerate(zip(found.eager, found.compiled, strict=False)):
        differing = _differing(a, b)
        name = f"result {number}: " if len(found.eager) > 1 else ""
        texts.append(f"{name}{differing:,} of {a.numel():,} elements differ")
    shown = "; ".join(texts[:MOST_SHOWN]) + ("; ..." if len(texts) > MOST_SHOWN else "")
    message = f"eager against compiled, on the inputs given: {shown}"
    return Compared((), (Finding(ASSUMED_CODE, "note", message, Location(label)),))


def _differing(a: Any, b: Any) -> int:
    """Return how many elements have other bits; every NaN counts as the same."""
    return int((((a != b) & ~(a.isnan() & b.isnan())) | _signs(a, b)).sum())


def _signs(a: Any, b: Any) -> Any:
    """Return where one element is 0 and the other -0.0."""
    if not a.is_floating_point() or not b.is_floating_point():
        return a != a
    return (a == b) & (a.double().signbit() != b.double().signbit())


def _unexplained(
    label: str,
    found: Captured,
    readings: Sequence[Reading],
    compared: Sequence[Compared],
    budget: Budget | None,
) -> Compared:
    """Return what is said where results differ and no verdict says that they may.

    A cause that no file tells, as the order of a sum, is named, so that nobody takes "no region
    differs" for "the same bits". Without one, the verdict is `unknown`.
    """
    pairs = list(zip(found.eager, found.compiled, strict=False))
    steps = [step for one in compared for step in one.steps]
    numbers, causes = differing(pairs, readings, steps, _differing)
    wrong = [one for one in compared if _is_wrong(one)] if not _told(steps) else []
    if not numbers and not wrong:
        return Compared((), ())
    message = "eager and compiled results differ, and no rounding is dropped: "
    if numbers and causes and not wrong:
        strict = budget is not None and budget.change == Change.BITWISE
        severity = "error" if strict else "warning"
        code = DIFFERENCE_CODES[Change.REASSOCIATION]
        return Compared(
            (), (Finding(code, severity, message + "; ".join(causes), Location(label)),)
        )
    why = f"{message}the cause is not known"
    if not numbers:
        why = "a prediction does not hold, and no verdict says that anything changes"
    shown = tuple(f"result {number}" for number in numbers) or ("result",)
    judged = Judged("", Change.UNKNOWN, shown, notes=(why,))
    step = step_of(
        judged,
        identity="unexplained",
        title=f"{', '.join(shown)}: a difference that nothing explains",
        location=Location(label),
        at=shown,
        budget=budget,
    )
    code = DIFFERENCE_CODES[Change.UNKNOWN]
    told = Finding(code, "error", why, Location(label), step.id)
    return Compared((step,), (told,))


def _told(steps: Sequence[Step]) -> bool:
    """Return whether a verdict leaves room for other bits."""
    return any(step.domain or step.change != Change.BITWISE for step in steps)


def _is_wrong(one: Compared) -> bool:
    """Return whether a prediction did not hold in a run."""
    return any(f.message.startswith(WRONG) for f in one.findings)
