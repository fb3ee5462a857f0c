"""Check a hazard: it finds the unsafe values of its graph and no others, and the remedy helps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from lastbit.catalogue.records import Failure
from lastbit.catalogue.workshop import named
from lastbit.hazards import standing_of
from lastbit.rule import Rewrite, Site, Standing
from lastbit.verify.bench import defaults


def hazard_failures(rule: Rewrite) -> list[Failure]:
    """Return what a hazard finds too much or too little, and where its remedy does not help."""
    try:
        return list(_failures(rule))
    except Exception as error:  # the rule is somebody's code, and it is on trial
        return [Failure(f"raises {named(error)}, on its own graph")]


def _failures(rule: Rewrite) -> Iterator[Failure]:
    standing = standing_of(rule)
    found = _found(rule, standing)
    for name in rule.at:
        if name not in found:
            yield Failure(f"does not find `{name}` in its graph")
    for name, times in found.items():
        if name not in rule.at:
            yield Failure(f"finds `{name}` in its graph, which is not in `at`")
        elif times > 1:
            yield Failure(f"finds `{name}` in its graph {times} times")
    for name in rule.at:
        site = Site(standing.program, (name,), defaults(rule))
        edits = rule.apply(site)
        cured = replace(
            standing,
            program=standing.program.edited(edits),
            stated=standing.stated | edits.keys(),  # a remedy says what overflow gives
        )
        if name in found and name in _found(rule, cured):
            yield Failure(f"finds `{name}` again where the remedy is applied")


def _found(rule: Rewrite, standing: Standing) -> Counter[str]:
    assert rule.finds is not None
    return Counter(danger.at[0] for danger in rule.finds(standing))
