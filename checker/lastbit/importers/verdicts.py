"""From verdicts on regions of two models to the steps and findings of a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lastbit.change import Change
from lastbit.codes import DIFFERENCE_CODES, OPAQUE_CODE
from lastbit.demands import budget_record, violations
from lastbit.importers.imported import Opaque
from lastbit.importers.onnx.regions import Region
from lastbit.plan_model import Budget
from lastbit.records import Location
from lastbit.result import Finding, Step
from lastbit.verify.decide import Judged
from lastbit.verify.worst import judge_worst

MOST_NAMES = 6  # that a title or a message lists


def judged_region(region: Region, seed: int) -> Judged:
    """Return the verdict on a region alone, the worst over its sizes."""
    if region.plan is None:
        return Judged("", Change.UNKNOWN, region.results, notes=(region.why,))
    verdicts, notes = judge_worst(region.plan, seed)
    whole = verdicts.whole
    return replace(whole, notes=(*whole.notes, *notes))


@dataclass(slots=True)
class Verdicts:
    """Judges regions; those that are the same but for their names are judged once.

    Attributes:
        seed: selects every draw.
        judge: gives the verdict on a region, for a seed.
        known: by the key of a region, its verdict, and the step that it was given for.
    """

    seed: int
    judge: Callable[[Region, int], Judged] = judged_region
    known: dict[str, tuple[Judged, str | None]] = field(default_factory=dict)

    def of(self, region: Region) -> Judged:
        """Return the verdict on a region that is no step of a result."""
        if region.key not in self.known:
            self.known[region.key] = self.judge(region, self.seed), None
        return self.known[region.key][0]

    def step(self, region: Region, identity: str) -> tuple[Judged, str | None]:
        """Return the verdict on a region, and the step before it that is the same.

        Args:
            region: the region.
            identity: of the step that it becomes.
        """
        judged = self.of(region)
        first = self.known[region.key][1]
        if first is None:
            self.known[region.key] = judged, identity
        return judged, first


def step_of(
    judged: Judged,
    *,
    identity: str,
    title: str,
    location: Location,
    at: tuple[str, ...],
    budget: Budget | None = None,
    notes: Sequence[str] = (),
    same_as: str | None = None,
) -> Step:
    """Return a verdict as a step of a result.

    Args:
        judged: the verdict.
        identity: of the step.
        title: what was done, in one line.
        location: where the user's source states it.
        at: the values that it is about.
        budget: what is demanded of it.
        notes: said after those of the verdict.
        same_as: the step before it whose verdict it shares.
    """
    return Step(
        id=identity,
        title=title,
        location=location,
        change=str(judged.change),
        at=at,
        domain=judged.domain,
        promises=judged.promises,
        drift=judged.drift,
        witness=judged.witness,
        evidence=judged.evidence,
        budget=budget_record(budget),
        notes=(*judged.notes, *notes),
        same_as=same_as,
    )


def unmet(step: Step, judged: Judged, budget: Budget | None, opaque: str = "") -> Iterator[Finding]:
    """Yield a finding for each demand that a step does not meet.

    Args:
        step: a region.
        judged: the verdict on it.
        budget: what is demanded.
        opaque: the operator that leaves it undecided; empty where none does.
    """
    for _, sentence in violations(f"the region of {listed(step.at)}", judged, budget):
        code = DIFFERENCE_CODES[judged.change]
        if opaque and judged.change == Change.UNKNOWN:  # its first word: see `operator_of`
            code, sentence = OPAQUE_CODE, f"{opaque} is known by its name only; {sentence}"
        yield Finding(code, "error", sentence, step.location, step.id)


def undecided(one: Opaque, read: Sequence[str], number: int, file: str) -> Step:
    """Return the step of an opaque operator that reads values which differ.

    Args:
        one: the operator.
        read: the values.
        number: of such steps so far, this one included.
        file: where it stands, if the operator does not say.
    """
    names = ", ".join(f"`{name}`" for name in read)
    differ = "differs" if len(read) == 1 else "differ"
    return Step(
        id=f"opaque-{number}",
        title=f"{one.operator} reads {names}, which {differ}, and is known by its name only",
        location=Location(one.place.file or file, one.place.line or None),
        change=str(Change.UNKNOWN),
        at=one.gives,
    )


def operator_of(finding: Finding) -> str | None:
    """Return the operator that a finding is about: the first word, where its code is FUS190."""
    return finding.message.partition(" ")[0] if finding.code == OPAQUE_CODE else None


def listed(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Return names for a sentence, the first ones if there are many."""
    text = ", ".join(f"`{name}`" for name in names[:most])
    return text + (f" and {len(names) - most} more" if len(names) > most else "")


def verb(names: Sequence[str]) -> str:
    """Return the verb of a sentence about names."""
    return "is" if len(names) == 1 else "are"
