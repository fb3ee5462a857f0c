"""Rules as SARIF describes them: name, summary, why it matters, and what `explain` says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from lastbit.codes import GENERAL
from lastbit.errors import InputError
from lastbit.explaining import HEADINGS, explain
from lastbit.registry import find_rule
from lastbit.report.escaping import cut, one_line, visible

MOST_DESCRIPTION = 900  # characters; GitHub takes 1,024
MOST_HELP = 30_000
MOST_TAGS = 10
_WHY = "Why it matters"
_TICKS = re.compile("`{3,}")


def descriptor(code: str) -> dict[str, Any]:
    """Return the description of a code; one that this version does not know has no help."""
    found: dict[str, Any] = {"id": one_line(code)}
    if code in GENERAL:
        summary, *rest = GENERAL[code].splitlines()
        tags: list[str] = []
    else:
        try:
            rule = find_rule(code)
        except InputError:
            return found
        found["name"] = rule.name
        summary, rest = rule.summary, rule.prose.splitlines()
        tags = [f"claim-{rule.claim}"]
    text = cut(visible(_help(code)), MOST_HELP)
    found["shortDescription"] = {"text": cut(summary, MOST_DESCRIPTION)}
    found["fullDescription"] = {"text": cut(" ".join(_why(rest)) or summary, MOST_DESCRIPTION)}
    found["help"] = {"text": text, "markdown": fenced(text)}
    family = code.rstrip("0123456789")
    found["properties"] = {"tags": ["numerics", family, *tags][:MOST_TAGS]}
    return found


@cache
def _help(code: str) -> str:
    return explain(code)  # evaluates the examples of a hazard, which takes up to a second


def fenced(text: str) -> str:
    """Return a text as a block of Markdown that shows it as it is."""
    ticks = max((len(run) for run in _TICKS.findall(text)), default=2) + 1
    return f"{'`' * ticks}text\n{text.rstrip()}\n{'`' * ticks}"


def _why(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the paragraph that says why it matters."""
    inside = False
    for line in lines:
        label, colon, rest = line.partition(":")
        if colon and label in HEADINGS:
            inside = label == _WHY
            line = rest
        if inside and line.strip():
            yield line.strip()
