"""Plans of imported models: the plan of one or two files, and what opaque operators leave open.

The results of an opaque operator are inputs of a program, and the values that it reads are results.
So where these are the same bits, everything after it is judged as if it were known. Where one is
not, what the operator makes of that is unknown, and a step says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lastbit.codes import ASSUMED_CODE, OPAQUE_CODE
from lastbit.errors import Place, Problem, did_you_mean
from lastbit.importers.imported import Imported, Opaque
from lastbit.importers.verdicts import undecided
from lastbit.plan_model import Allow, Plan
from lastbit.records import Location
from lastbit.result import Finding, Step
from lastbit.text import Program

MOST_LISTED = 4  # values of an operator that a finding lists

_WORD = re.compile(r"[A-Za-z_]\w*")


def plan_of_model(path: str) -> Plan:
    """Return the plan of a model as it stands: no transforms.

    Raises:
        InputError: the file cannot be imported.
    """
    from lastbit.importers.load import load_model

    return _plan(load_model(path))


def plan_of_models(before: str, after: str) -> Plan:
    """Return the plan that compares two models.

    Raises:
        InputError: a file cannot be imported, or the two have other inputs or results.
    """
    from lastbit.importers.align import aligned
    from lastbit.importers.load import load_model

    first = load_model(before)
    second = aligned(first, load_model(after))
    plan = _plan(first)
    symbols = {**second.symbols, **first.symbols}
    programs = common_results(first.program, second.program)
    return replace(
        plan,
        file=after,
        name=f"{Path(before).stem} -> {Path(after).stem}",
        program=programs[0],
        after=programs[1],
        symbols=symbols,
        inputs={**second.inputs, **first.inputs},
        imports=(first, second),
    )


def _plan(model: Imported) -> Plan:
    return Plan(
        file=model.file,
        name=Path(model.file).stem,
        program=model.program,
        symbols=model.symbols,
        batch=model.batch,
        inputs=model.inputs,
        imports=(model,),
    )


def common_results(before: Program, after: Program) -> tuple[Program, Program]:
    """Return two programs with the results that both have, and with the inputs of either.

    An opaque operator may be in one only; what it gives is an input, and what it reads a result.

    Args:
        before: the first.
        after: the second, in the names of the first.
    """
    first, second = ({st.name: st for st in program.statements} for program in (before, after))
    outputs = tuple(name for name in before.outputs if name in second)
    more = tuple(st for name, st in second.items() if st.expr is None and name not in first)
    less = tuple(st for name, st in first.items() if st.expr is None and name not in second)
    return (
        Program((*more, *before.statements), outputs),
        Program((*less, *after.statements), outputs),
    )


def sides(plan: Plan, names: Iterable[str]) -> str | None:
    """Return a note on where both models compute some values, by the names that each has there.

    Returns:
        None where the plan does not compare two models, or both are one line with one name.
    """
    if plan.after is None or len(plan.imports) < 2:
        return None
    wanted = tuple(names)
    texts = []
    for model, program in zip(plan.imports, (plan.program, plan.after), strict=True):
        places = {st.name: st.place for st in program.statements}
        found: dict[str, list[str]] = {}
        for name in wanted:
            if name in places:
                origin, place = model.origins.get(name), places[name]
                where = f"{place.file}:{place.line}" if place.file and place.line else ""
                if origin is not None and origin.module:
                    where = f"`{origin.module}`, {where}" if where else f"`{origin.module}`"
                found.setdefault(where, []).append(origin.original if origin else name)
        listed = [
            f"{', '.join(f'`{n}`' for n in here[:MOST_LISTED])}"
            f"{f' and {len(here) - MOST_LISTED} more' if len(here) > MOST_LISTED else ''}"
            f"{f' ({where})' if where else ''}"
            for where, here in list(found.items())[:MOST_LISTED]
        ]
        texts.append(", ".join(listed) or "none of them")
    return None if texts[0] == texts[1] else f"before: {texts[0]}; after: {texts[1]}"


def unknown_symbol(plan: Plan, name: str) -> Problem:
    """Return the problem that no size of two models has a symbol, with those that there are."""
    known = list(plan.symbols)
    remedy = did_you_mean(name, known) if known else "All sizes are numbers."
    axes: dict[str, str] = {}
    for model in plan.imports[:1]:
        for st in model.program.statements:
            if st.expr is None:
                for axis, dim in enumerate(st.dims or ()):
                    axes.setdefault(dim.text, f"`{dim.text}` is axis {axis} of `{st.name}`")
    found = [axes[symbol] for symbol in known if symbol in axes][:MOST_LISTED]
    if found:
        remedy += f" A .pt2 file does not keep the names of Dims: {', '.join(found)}."
    return Problem(f"no size has the symbol {name!r}", remedy)


def notes_of(plan: Plan) -> Iterator[Finding]:
    """Yield what a reader should know of the models: opaque operators, and what was assumed."""
    for model in plan.imports:
        total = sum(origin.operator is not None for origin in model.origins.values())
        by_operator: dict[str, list[Opaque]] = {}
        for one in model.opaque:
            by_operator.setdefault(one.operator, []).append(one)
        for operator, group in sorted(by_operator.items()):
            names = [name for one in group for name in one.gives]
            allow = _allow(plan, OPAQUE_CODE, names)
            listed = ", ".join(f"`{name}`" for name in names[:MOST_LISTED])
            more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
            message = f"{operator} is known by its name only: {listed}{more}"
            if allow is not None:
                message += f"; allowed: {allow.reason}"
            yield Finding(OPAQUE_CODE, "note", message, _location(model.file, group[0].place))
        opaque = sum(len(one.gives) for one in model.opaque)
        message = f"{total - opaque} of {total} values are read"
        message = "; ".join((message, *model.assumed))
        yield Finding(ASSUMED_CODE, "note", message, Location(model.file))


def opaque_steps(plan: Plan, steps: Sequence[Step]) -> Iterator[Step]:
    """Yield an undecided step for each opaque operator that reads a value which differs."""
    program = plan.program if plan.after is None else plan.after
    models = plan.imports[-1:]
    changed = {name for step in steps if step.change != "bitwise" for name in step.at}
    if not changed or not models:
        return
    opaque = {one.gives[0]: one for model in models for one in model.opaque}
    number = 0
    for st in program.statements:
        if st.name in opaque:
            one = opaque[st.name]
            read = [name for name in one.reads if name in changed]
            if read:
                number += 1
                step = undecided(one, read, number, plan.file)
                allow = _allow(plan, OPAQUE_CODE, (*one.gives, one.operator))
                reason = None if allow is None else allow.reason
                yield replace(step, allowed=allow is not None, allow_reason=reason)
                changed |= set(one.gives)
        elif st.expr is not None and not changed.isdisjoint(_WORD.findall(st.expr)):
            changed.add(st.name)


def foreign(plan: Plan, names: Iterable[str]) -> str | None:
    """Return a note on what an opaque operator that only one model has gives to some values."""
    if plan.after is None or len(plan.imports) < 2:
        return None
    gives = [{n: one for one in model.opaque for n in one.gives} for model in plan.imports]
    alone = {n: one for a, b in (gives, gives[::-1]) for n, one in a.items() if n not in b}
    if not alone:
        return None
    wanted = set(names)
    for program in (plan.program, plan.after):
        for st in program.statements:
            if st.name in wanted:
                read = alone.keys() & {st.name, *_WORD.findall(st.expr or "")}
                if read:
                    name = min(read)
                    return f"`{name}` is given by {alone[name].operator}, opaque, in one graph only"
    return None


def finding_of(step: Step) -> Finding:
    """Return the finding about an undecided step of an opaque operator."""
    severity = "note" if step.allowed else "error"
    reason = f"; allowed: {step.allow_reason}" if step.allowed else ""
    return Finding(OPAQUE_CODE, severity, f"{step.title}{reason}", step.location, step.id)


def _allow(plan: Plan, code: str, names: Iterable[str]) -> Allow | None:
    at = tuple(names)
    return next((allow for allow in plan.allows if allow.covers(code, at)), None)


def _location(file: str, place: Place) -> Location:
    return Location(place.file or file, place.line or None)
