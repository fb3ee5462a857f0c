"""What is asked of the engine, a transform at its region, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lastbit.change import Change
from lastbit.plan_model import Transform
from lastbit.records import DomainEntry, Drift, Evidence, Promise, Witness
from lastbit.rule import Value
from lastbit.verify.promises import Varying
from lastbit.verify.region import Region
from lastbit.verify.sizing import Axis


@dataclass(frozen=True, slots=True)
class Task:
    """A transform that can be applied, and the region that it changes.

    Attributes:
        number: its place in the plan.
        transform: the transform.
        title: one sentence in the user's words.
        region: the region at the plan's sizes.
        axes: the size symbols as the transform and the program cut them.
        variants: the parameters over the ranges of the symbols.
        varying: the parameters of schedules that depend on a size, before and after.
    """

    number: int
    transform: Transform
    title: str
    region: Region
    axes: Mapping[str, Axis]
    variants: list[dict[str, Value]]
    varying: tuple[tuple[Varying, ...], tuple[Varying, ...]]


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found out about a transform.

    Attributes:
        title: one sentence in the user's words.
        change: the kind of change.
        outputs: the names of the region's results.
        domain: classes of inputs on which one side misbehaves.
        promises: each promise before and after.
        drift: how far apart, or None.
        witness: an input that shows the kind, or None.
        evidence: what decided.
        notes: further sentences.
        rejected: why the rule cannot be applied; empty where it can.
        same_as: the number of an earlier transform on an equal region.
    """

    title: str
    change: Change
    outputs: tuple[str, ...] = ()
    domain: tuple[DomainEntry, ...] = ()
    promises: Mapping[str, Promise] = field(default_factory=dict)
    drift: Drift | None = None
    witness: Witness | None = None
    evidence: tuple[Evidence, ...] = ()
    notes: tuple[str, ...] = ()
    rejected: str = ""
    same_as: int | None = None
