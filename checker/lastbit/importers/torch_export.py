"""Compare two functions or modules of torch: both are exported, and the graphs are compared."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import lastbit
from lastbit.errors import InputError, Place, Problem
from lastbit.importers.export_frames import all_frames
from lastbit.importers.torch_calls import Target, load_torch, resolve
from lastbit.records import Location
from lastbit.result import Result
from lastbit.tracing.source import shown_file
from lastbit.tracing.spec import Spec


@dataclass(frozen=True, slots=True)
class Exported:
    """What the inputs and the results of a graph are called that was written.

    Attributes:
        inputs: in the order of the arguments.
        results: as keys and indices of what the function returns.
    """

    inputs: tuple[str, ...]
    results: tuple[str, ...]


def export(target: Target, path: str, names: Sequence[str] = ()) -> Exported:
    """Write the graph of a function or module as a `.pt2` file.

    Args:
        target: the function and its inputs, whose sizes the graph has.
        path: the file.
        names: what the first inputs are called; others are called as the parameters are.

    Raises:
        InputError: torch.export cannot export it.
    """
    torch = load_torch()
    module = target.call
    if not isinstance(module, torch.nn.Module):
        module = type("Exported", (torch.nn.Module,), {"forward": staticmethod(module)})()
    try:
        with torch.no_grad(), warnings.catch_warnings(), _quiet(), all_frames(torch):
            warnings.simplefilter("ignore")
            program = torch.export.export(module, target.args, dict(target.keywords))
            inputs = renamed_inputs(program, names)
            torch.export.save(program, path)
            spec = program.call_spec.out_spec
            results = torch.utils._pytree.tree_unflatten(range(spec.num_leaves), spec)
            named, _ = torch.utils._pytree.tree_flatten_with_path(results)
    except Exception as error:
        raise _not_exported(target.label, error) from error
    return Exported(inputs, tuple(torch.utils._pytree.keystr(keys) for keys, _ in named))


def renamed_inputs(program: Any, names: Sequence[str]) -> tuple[str, ...]:
    """Give the inputs of an exported program names by their order; return what all are called.

    Args:
        program: of torch.export, changed in place.
        names: of the first inputs. A value inside the graph that has one of them gets another.
    """
    signature = program.graph_signature
    given = [s for s in signature.input_specs if s.kind.name == "USER_INPUT"]
    new = {s.arg.name: name for s, name in zip(given, names, strict=False)}
    if any(old != name for old, name in new.items()):
        taken = {*new.values(), *(node.name for node in program.graph.nodes)}
        for node in program.graph.nodes:
            if node.name not in new and node.name in new.values():
                new[node.name] = next(
                    free for n in count(1) if (free := f"{node.name}_{n}") not in taken
                )
                taken.add(new[node.name])
        for node in program.graph.nodes:
            node.name = new.get(node.name, node.name)
            if node.op == "placeholder":
                node.target = node.name
        for spec in (*signature.input_specs, *signature.output_specs):
            if hasattr(spec.arg, "name"):
                spec.arg.name = new.get(spec.arg.name, spec.arg.name)
        for spec in signature.output_specs:
            if spec.kind.name == "USER_INPUT_MUTATION":
                spec.target = new.get(spec.target, spec.target)
    return tuple(spec.arg.name for spec in given)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what torch prints and logs about a failed export from the user's terminal."""
    before, silent = logging.root.manager.disable, io.StringIO()
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
            yield
    finally:
        logging.disable(before)


def _not_exported(label: str, error: Exception) -> InputError:
    """Return the error about what torch.export cannot follow, at the line where it stops."""
    own = tuple(str(Path(str(m.__file__)).parent) + os.sep for m in (load_torch(), lastbit))
    called = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((*own, "<"))
    ]
    place = Place(shown_file(called[-1].filename), called[-1].lineno or 0) if called else Place()
    text = str(error).strip().partition("\n")[0] or type(error).__name__
    cause = f"{label} cannot be exported: {text[:300].rstrip('.')}"
    remedy = "Check it with --compile, or take what torch.export cannot follow out of it."
    if "DataDependent" in type(error).__name__:
        line = f": `{called[-1].line}`" if called and called[-1].line else ""
        cause = f"{label} cannot be exported: what runs depends on the values of a tensor{line}"
        remedy = "Compute both ways and choose with torch.where, or check it with --compile."
    return InputError([Problem(cause, remedy, place)])


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
        paths, results = [], []
        first: tuple[str, ...] | None = None
        for side, label, target in zip(("before", "after"), labels, targets, strict=True):
            called = resolve(label, target, inputs, seed, given, keywords=True)
            paths.append(str(Path(folder) / f"{side}.pt2"))
            # What is given in order goes by order, whatever the parameters are called.
            exported = export(called, paths[-1], () if called.by_name else first or ())
            first = exported.inputs if first is None and not called.by_name else first
            results.append(exported.results)
        if results[0] != results[1] and set(results[0]) == set(results[1]):
            ours, theirs = (", ".join(names) for names in results)
            problem = Problem(
                f"{labels[1]} returns {theirs}, and {labels[0]} {ours}",
                "Return the same keys in the same order.",
            )
            raise InputError([problem])
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
