"""Join the results of an audit's shards; what no shard brought is missing, and said to be."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lastbit.audit.judging import decided
from lastbit.audit.records import Audit, CaseRecord, from_json, in_order
from lastbit.audit.sharding import parse_shard
from lastbit.audit.sources import SOURCE
from lastbit.audit.whole import with_reason
from lastbit.errors import InputError, Place, Problem
from lastbit.result import Finding

SAME = ("target", "device", "batch", "sizes", "repeats", "threads", "known", "calls")
_AGAIN = "Merge the shards of one audit; each is made with --shard i/n --output json=FILE."


def read_audits(paths: Sequence[str]) -> dict[str, Audit]:
    """Return the audits in JSON files, by path.

    Raises:
        InputError: with everything that is wrong, for every file.
    """
    found: dict[str, Audit] = {}
    problems: list[Problem] = []
    for path in paths:
        try:
            if path in found:
                raise InputError([Problem("the file is named twice", place=Place(path))])
            found[path] = from_json(_document(path), path)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return found


def _document(path: str) -> Any:
    try:
        return json.loads(Path(path).read_bytes())
    except OSError as error:
        problem = Problem(f"cannot be read: {error.strerror}", place=Place(path))
        raise InputError([problem]) from error
    except (ValueError, RecursionError) as error:
        raise InputError([Problem("is no JSON", place=Place(path))]) from error


def merge(shards: Mapping[str, Audit]) -> Audit:
    """Return one audit of the cases of all shards.

    A case that no shard brought counts as not decided; a gap says which shards are missing.

    Args:
        shards: by the name to use in messages.

    Raises:
        InputError: they belong to different audits, or say different things of one case.
    """
    if not shards:
        raise InputError([Problem("no result to merge", _AGAIN)])
    (first, model), *rest = shards.items()
    problems = [
        problem for name, other in rest for problem in _differences(first, model, name, other)
    ]
    if problems:
        raise InputError(problems)
    cases = _cases(shards)
    whole = max((one.whole for one in shards.values()), key=len)
    known = {finding: None for one in shards.values() for finding in one.findings}
    gaps = {gap: None for one in shards.values() for gap in one.gaps}
    missing = model.known - len(cases)
    if missing:
        gaps[_missing(shards.values(), missing, model.known)] = None
    elif whole:
        whole = (with_reason(whole[0], cases), *whole[1:])
    from lastbit.audit.running import of_whole

    findings: list[Finding] = [*known]
    findings += [f for f in of_whole(model.target, whole, findings) if f not in known]
    return replace(
        model,
        cases=cases,
        findings=in_order(findings),
        gaps=tuple(gaps),
        whole=whole,
        environment=_environment(shards.values()),
        shard=None,
        decided=(decided(cases)[0], model.known),
    )


def _differences(first: str, model: Audit, name: str, other: Audit) -> Iterable[Problem]:
    for field in SAME:
        here, there = getattr(other, field), getattr(model, field)
        if here != there:
            message = f"is of another audit than {first}: {field} is {here!r} here, {there!r} there"
            yield Problem(message, _AGAIN, Place(name))
            return
    if other.environment.get(SOURCE) != model.environment.get(SOURCE):
        message = f"is of another source than {first}: {model.target} was edited between the two"
        yield Problem(message, "Audit all shards again.", Place(name))


def _cases(shards: Mapping[str, Audit]) -> tuple[CaseRecord, ...]:
    found: dict[str, tuple[str, CaseRecord]] = {}
    for name, one in shards.items():
        for case in one.cases:
            earlier, before = found.setdefault(case.key, (name, case))
            if before != case:
                message = f"says something else of {case.operator}, case {case.number}, than"
                remedy = "Two runs of one shard differ: merge one of them, or audit again."
                raise InputError([Problem(f"{message} {earlier}", remedy, Place(name))])
    return tuple(sorted((case for _, case in found.values()), key=lambda case: case.number))


def _missing(shards: Iterable[Audit], cases: int, of: int) -> str:
    named = [parse_shard(one.shard) for one in shards if one.shard]
    counts = {shard.count for shard in named}
    text = f"{cases} of {of} operators were audited by no shard"
    if len(counts) != 1:
        return text
    here, count = {shard.index for shard in named}, counts.pop()
    lost = ", ".join(f"{n}/{count}" for n in range(1, count + 1) if n not in here)
    return f"{text}; missing: {lost}" if lost else text


def _environment(shards: Iterable[Audit]) -> dict[str, str]:
    """Return the facts of all shards; where they differ, all of them."""
    values: dict[str, dict[str, None]] = {}
    for one in shards:
        for name, value in one.environment.items():
            values.setdefault(name, {})[value] = None
    return {name: " | ".join(found) for name, found in values.items()}
