"""The one result model: what every command that judges returns and every renderer reads.

The JSON of a result follows `reports/report.schema.json`; a field has the same name here and there,
every field is always written, and what is not known is null. Formats go by their short names.

    Result
      steps: Step            one transform, or one region in which two graphs differ
        domain: DomainEntry  a class of inputs on which only one side misbehaves
        promises: Promise    by name: deterministic, batch_invariant, layout_invariant
        drift: Drift         how far apart the two sides are on the declared inputs
        cost: Cost           bytes, launches, memory
        witness: Witness     the smallest input found that shows the kind of change
        evidence: Evidence   what decided, and under which assumptions
      regions: Region        several transforms that meet, judged as one change
      findings: Finding      what a reader must act on, or should know
"""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib import metadata
from typing import Any

from lastbit import __version__
from lastbit.codec import CodecError, from_plain, to_plain
from lastbit.errors import InputError, Place, Problem
from lastbit.records import (
    CHANGES,
    DOMAIN_KINDS,
    EVIDENCE,
    POLICIES,
    PROMISES,
    SEVERITIES,
    SIDES,
    Bound,
    Budget,
    Cost,
    DomainEntry,
    Drift,
    Evidence,
    Fit,
    Location,
    Program,
    Promise,
    Witness,
    WitnessInput,
    exact_of,
    hex_of,
    require_one_of,
)

__all__ = [
    "CHANGES",
    "DOMAIN_KINDS",
    "EVIDENCE",
    "POLICIES",
    "PROMISES",
    "SCHEMA",
    "SEVERITIES",
    "SIDES",
    "Bound",
    "Budget",
    "Cost",
    "DomainEntry",
    "Drift",
    "Evidence",
    "Finding",
    "Fit",
    "Location",
    "Program",
    "Promise",
    "Region",
    "Result",
    "Step",
    "Summary",
    "Witness",
    "WitnessInput",
    "environment",
    "exact_of",
    "from_json",
    "hex_of",
    "read_result",
    "to_json",
]

SCHEMA = "lastbit.result/1"
MOST_NAMES = 8  # names of a region that its label lists


@dataclass(frozen=True, slots=True)
class Step:
    """The verdict on one transform, or on one region in which two graphs differ.

    Attributes:
        id: unique in the result; by default `<at>.<rule>`.
        title: one sentence in the user's words
            (`` `t` = round(silu(g), bf16) no longer happens before `z` ``).
        location: the place in the plan that asks for it.
        change: the kind of change, the worst over the range of each symbol.
        at: names of the values that it applies to.
        rule: the rule's name; null for a region of two given graphs.
        code: the rule's code, or null.
        claim: the kind of change that the rule claims, or null.
        branch: whether the transform was judged and then discarded.
        domain: empty when the domain is kept.
        promises: by name, in the order of `PROMISES`.
        drift: null where nothing was measured.
        cost: null where nothing was counted; a note says why.
        witness: null for `bitwise` and `unknown`.
        evidence: what decided.
        budget: what the plan demands here; null where it demands nothing.
        allowed: whether an `[[allow]]` of the plan covers the finding.
        allow_reason: the reason written there.
        notes: further sentences for the reader.
        same_as: id of an earlier step on an equal region, whose verdict this one repeats.
    """

    id: str
    title: str
    location: Location
    change: str
    at: tuple[str, ...] = ()
    rule: str | None = None
    code: str | None = None
    claim: str | None = None
    branch: bool = False
    domain: tuple[DomainEntry, ...] = ()
    promises: Mapping[str, Promise] = field(default_factory=dict)
    drift: Drift | None = None
    cost: Cost | None = None
    witness: Witness | None = None
    evidence: tuple[Evidence, ...] = ()
    budget: Budget | None = None
    allowed: bool = False
    allow_reason: str | None = None
    notes: tuple[str, ...] = ()
    same_as: str | None = None

    def __post_init__(self) -> None:
        require_one_of(self.change, CHANGES, "change")
        require_one_of(self.claim, CHANGES, "claim")

    @property
    def label(self) -> str:
        """Name the step as a reader knows it (`` drop-rounding at `t` ``)."""
        names = ", ".join(f"`{name}`" for name in self.at)
        what = self.rule or "difference"
        return f"{what} at {names}" if names else what


@dataclass(frozen=True, slots=True)
class Region:
    """The verdict on several transforms that meet, taken as one change.

    Attributes:
        id: unique in the result; by default `<first of at>.region`.
        location: the plan.
        at: names of the values that the transforms apply to.
        steps: ids of the transforms, in the order of the plan.
        change: the kind of change from the program before all of them to that after all.
        set_by: id of the first step whose own change is that of the whole, of those that later
            ones neither undo nor overwrite; null where the steps cancel, or nothing changes.
        domain: empty when the domain is kept.
        promises: by name, in the order of `PROMISES`.
        drift: null where nothing was measured.
        witness: null for `bitwise` and `unknown`.
        evidence: what decided.
        budget: the loosest of what the plan demands of the steps; null where it demands nothing.
        allowed: whether an `[[allow]]` of the plan covers the finding.
        allow_reason: the reason written there.
        notes: further sentences for the reader.
        same_as: id of a step, or of an earlier equal region, whose verdict this one repeats.
    """

    id: str
    location: Location
    at: tuple[str, ...]
    steps: tuple[str, ...]
    change: str
    set_by: str | None = None
    domain: tuple[DomainEntry, ...] = ()
    promises: Mapping[str, Promise] = field(default_factory=dict)
    drift: Drift | None = None
    witness: Witness | None = None
    evidence: tuple[Evidence, ...] = ()
    budget: Budget | None = None
    allowed: bool = False
    allow_reason: str | None = None
    notes: tuple[str, ...] = ()
    same_as: str | None = None

    def __post_init__(self) -> None:
        require_one_of(self.change, CHANGES, "change")

    @property
    def title(self) -> str:
        """Say which steps are meant."""
        return f"{', '.join(f'`{step}`' for step in self.steps)} as one change"

    @property
    def label(self) -> str:
        """Name the region as a reader knows it (`` region of `g`: 2 transforms together ``)."""
        names = ", ".join(f"`{name}`" for name in self.at[:MOST_NAMES])
        if len(self.at) > MOST_NAMES:
            names += f" and {len(self.at) - MOST_NAMES} more"
        return f"region of {names}: {len(self.steps)} transforms together"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a reader must act on, or should know.

    Attributes:
        code: code of the rule or hazard.
        severity: `error` fails the run; `warning` and `note` do not.
        message: one sentence.
        location: the place in the plan.
        step: id of the step or region it is about; null for a hazard of the graph as it stands.
    """

    code: str
    severity: str
    message: str
    location: Location
    step: str | None = None

    def __post_init__(self) -> None:
        require_one_of(self.severity, SEVERITIES, "severity")


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals, derived from steps and findings.

    Attributes:
        steps: number of steps.
        findings: number of findings, of any severity; the last line of a text counts notes apart.
        errors: number of findings that fail the run.
        changes: steps by kind of change, kinds that occur only.
    """

    steps: int
    findings: int
    errors: int
    changes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Result:
    """What a run found; the JSON document.

    Attributes:
        command: the command that made it (`lint`).
        steps: in the order of the plans and their files.
        findings: in the order of file, line and code.
        decided: steps decided, steps there are; `unknown` is not decided.
        environment: facts that the result depends on, as texts.
        regions: transforms that meet, each with one verdict; they are not counted as steps.
    """

    command: str
    steps: tuple[Step, ...]
    findings: tuple[Finding, ...]
    decided: tuple[int, int]
    environment: Mapping[str, str] = field(default_factory=dict)
    regions: tuple[Region, ...] = ()

    @classmethod
    def of(
        cls,
        command: str,
        steps: Sequence[Step],
        findings: Sequence[Finding],
        environment: Mapping[str, str],
        regions: Sequence[Region] = (),
    ) -> Result:
        """Return a result with its findings sorted and its decided steps counted."""
        decided = sum(step.change != "unknown" for step in steps)
        order = sorted(
            findings,
            key=lambda f: (f.location.file, f.location.line or 0, f.code, f.step or "", f.message),
        )
        return cls(
            command,
            tuple(steps),
            tuple(order),
            (decided, len(steps)),
            dict(environment),
            tuple(regions),
        )

    @property
    def summary(self) -> Summary:
        """Count steps and findings."""
        counts = Counter(step.change for step in self.steps)
        changes = {kind: counts[kind] for kind in CHANGES if counts[kind]}
        errors = sum(finding.severity == "error" for finding in self.findings)
        return Summary(len(self.steps), len(self.findings), errors, changes)

    @property
    def exit_code(self) -> int:
        """Return 1 when a finding fails the run, else 0."""
        return 1 if self.summary.errors else 0

    def step(self, identity: str) -> Step | None:
        """Return the step with this id, or None."""
        return next((step for step in self.steps if step.id == identity), None)

    @property
    def verdicts(self) -> tuple[Step | Region, ...]:
        """Return the steps, then the regions."""
        return (*self.steps, *self.regions)

    def verdict(self, identity: str) -> Step | Region | None:
        """Return the step or the region with this id, or None."""
        return next((verdict for verdict in self.verdicts if verdict.id == identity), None)


def environment(seed: int, today: date) -> dict[str, str]:
    """Return the facts that a result depends on: versions, seed and date."""
    versions = {name: metadata.version(name) for name in ("ml_dtypes", "mpmath", "numpy")}
    python = {"lastbit": __version__, "python": platform.python_version()}
    return python | versions | {"seed": str(seed), "today": today.isoformat()}


def to_json(result: Result) -> dict[str, Any]:
    """Return the JSON document of a result; equal results give equal documents."""
    plain = to_plain(result)
    for verdict in (*plain["steps"], *plain["regions"]):
        verdict["plan"] = verdict["location"]["file"]
    head = {
        key: plain.pop(key) for key in ("command", "environment", "decided", "steps", "regions")
    }
    return {"schema": SCHEMA, **head, **plain, "summary": to_plain(result.summary)}


def from_json(document: Any, file: str = "") -> Result:
    """Return the result that a JSON document holds.

    Raises:
        InputError: the document is no result of this schema; the text says where and why.
    """
    given = document.get("schema") if isinstance(document, dict) else None
    try:
        if given != SCHEMA:
            raise CodecError("schema", f"must be {SCHEMA!r}, not {given!r}")
        return from_plain(Result, document)
    except CodecError as error:
        raise InputError([_problem(str(error), file)]) from error


def read_result(path: str) -> Result:
    """Return the result that a file holds.

    Raises:
        InputError: the file cannot be read or holds no result.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            document = json.load(stream)
    except OSError as error:
        raise InputError([_problem(f"cannot be read: {error.strerror}", path)]) from error
    except RecursionError as error:
        raise InputError([_problem("is nested too deeply", path)]) from error
    except ValueError as error:
        raise InputError([_problem(f"is no JSON: {error}", path)]) from error
    return from_json(document, path)


def _problem(message: str, file: str) -> Problem:
    remedy = "Make one with `lastbit lint PLAN --output json=FILE`."
    return Problem(message, remedy, Place(file))
