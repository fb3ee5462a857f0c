"""Compare two functions or modules of torch: both are exported, and the graphs are compared."""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lastbit.errors import InputError, Problem
from lastbit.importers.torch_calls import Target, load_torch, resolve
from lastbit.records import Location
from lastbit.result import Result
from lastbit.tracing.spec import Spec


def export(target: Target, path: str) -> None:
    """Write the graph of a function or module as a `.pt2` file.

    Args:
        target: the function and its inputs, whose sizes the graph has.
        path: the file.

    Raises:
        InputError: torch.export cannot export it.
    """
    torch = load_torch()
    module = target.call
    if not isinstance(module, torch.nn.Module):
        module = type("Exported", (torch.nn.Module,), {"forward": staticmethod(module)})()
    quiet = contextlib.redirect_stdout(io.StringIO())
    try:
        with torch.no_grad(), warnings.catch_warnings(), quiet:
            warnings.simplefilter("ignore")
            torch.export.save(torch.export.export(module, target.args), path)
    except Exception as error:
        text = str(error).strip().partition("\n")[0] or type(error).__name__
        problem = Problem(
            f"{target.label} cannot be exported: {text[:300]}",
            "Check it with --compile, or take what torch.export cannot follow out of it.",
        )
        raise InputError([problem]) from error


def check_exported(
    labels: tuple[str, str],
    targets: tuple[Callable[..., Any], Callable[..., Any]],
    check_models: Callable[..., Result],
    inputs: Mapping[str, Spec | str] | None = None,
    seed: int = 0,
    **demands: Any,
) -> Result:
    """Say what kind of change it is from one function of torch to another.

    Args:
        labels: as the user named them.
        targets: functions, modules, or functions that build one.
        check_models: compares two `.pt2` files, with `demands`.
        inputs: format and shape of parameters by name; else those of the first function that has
            an attribute `inputs`.
        seed: selects every draw.
        demands: see `lastbit.checking.check_models`.

    Raises:
        InputError: a function cannot be run or exported, or the two cannot be compared.
    """
    given = next((t.inputs for t in targets if hasattr(t, "inputs")), None)
    with tempfile.TemporaryDirectory(prefix="lastbit-export-") as folder:
        paths = []
        for side, label, target in zip(("before", "after"), labels, targets, strict=True):
            called = resolve(label, target, inputs, seed, given)
            paths.append(str(Path(folder) / f"{side}.pt2"))
            export(called, paths[-1])
        try:
            result = check_models(*paths, seed=seed, **demands)
        except InputError as error:
            raise InputError([_named(one, paths, labels) for one in error.problems]) from None
    return _relabelled(result, dict(zip(paths, labels, strict=True)))


def _named(problem: Problem, paths: list[str], labels: tuple[str, str]) -> Problem:
    """Return a problem in the names that the user gave."""
    message, remedy, place = problem.message, problem.remedy, problem.place
    for path, label in zip(paths, labels, strict=True):
        message, remedy = message.replace(path, label), remedy.replace(path, label)
        if place.file == path:
            place = replace(place, file=label)
    return Problem(message, remedy, place)


def _relabelled(result: Result, labels: Mapping[str, str]) -> Result:
    """Return a result that names functions where it named the files they were exported to."""

    def moved(location: Location) -> Location:
        return replace(location, file=labels.get(location.file, location.file))

    steps = tuple(replace(one, location=moved(one.location)) for one in result.steps)
    findings = tuple(replace(one, location=moved(one.location)) for one in result.findings)
    regions = tuple(replace(one, location=moved(one.location)) for one in result.regions)
    return replace(result, steps=steps, findings=findings, regions=regions)
