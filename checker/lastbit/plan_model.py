"""What a plan says, once it is read: frozen records with places.

`lastbit.plan.load_plan` makes them; every name in them exists and every value is allowed.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING

from lastbit.change import Change
from lastbit.cost.devices import DEVICES, Device
from lastbit.cost.placement import Tile
from lastbit.errors import Place
from lastbit.expression import Expression
from lastbit.rule import Rewrite
from lastbit.schedule import Table
from lastbit.text import Program

if TYPE_CHECKING:
    from lastbit.importers.imported import Imported

Value = int | str | bool | Expression | Table
NOWHERE = Place()


@dataclass(frozen=True, slots=True)
class Span:
    """The sizes that a symbol takes.

    Attributes:
        low: the smallest.
        high: the largest.
        typical: the one at which drift and cost are measured.
    """

    low: int
    high: int
    typical: int

    @property
    def fixed(self) -> bool:
        """Return whether there is one size only."""
        return self.low == self.high

    def __str__(self) -> str:
        return str(self.low) if self.fixed else f"[{self.low}, {self.high}]"


@dataclass(frozen=True, slots=True)
class Distribution:
    """How the values of an input are drawn, independently.

    Attributes:
        kind: `normal` (mean, standard deviation), `uniform` (low, high), `constant` (value) or
            `integers` (low, high; both included).
        parameters: as many as the kind takes.
        range: the values are limited to this closed range, or None.
    """

    kind: str
    parameters: tuple[Fraction, ...]
    range: tuple[Fraction, Fraction] | None = None

    def __str__(self) -> str:
        text = f"{self.kind}({', '.join(_number(value) for value in self.parameters)})"
        if self.range is None:
            return text
        return f"{text} in [{_number(self.range[0])}, {_number(self.range[1])}]"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that holds the values of an input.

    Attributes:
        path: the file, inside the folder of the plan; `.safetensors` or `.npy`.
        text: as the plan writes it.
    """

    path: pathlib.Path
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Transform:
    """One step: a rule, where it is applied, and with which parameters.

    Attributes:
        id: unique in the plan.
        rule: the rule.
        at: the names of the site.
        parameters: every parameter of the rule that the plan or the rule gives. A number that
            depends on sizes is an `Expression` or a `Table`; a format has its short name, a
            schedule its canonical text.
        branch: whether the step is judged, then discarded.
        place: where the plan states it.
    """

    id: str
    rule: Rewrite
    at: tuple[str, ...]
    parameters: Mapping[str, Value] = field(default_factory=dict)
    branch: bool = False
    place: Place = NOWHERE

    def bound(self, sizes: Mapping[str, int]) -> dict[str, int | str | bool]:
        """Return the parameters at the given sizes.

        Raises:
            InputError: a parameter has no value at these sizes.
        """
        return {
            name: value.evaluate(sizes) if isinstance(value, Expression | Table) else value
            for name, value in self.parameters.items()
        }


@dataclass(frozen=True, slots=True)
class Budget:
    """What the user demands of every step, or of one value.

    Attributes:
        change: the most that is allowed; None: no demand.
        max_ulp: the most that is allowed in ulp, by the short name of a format.
        elementwise: whether `max_ulp` counts ulp of each result rather than ulp at scale.
        promises: the promises that must hold afterwards.
        hazards: what a hazard of the graph as it stands is: `error` or `warning`; None: no demand.
        cost: what a finding about cost is: `error` or `warning`; None: no demand.
        place: where the plan states it.
    """

    change: Change | None = None
    max_ulp: Mapping[str, Fraction] = field(default_factory=dict)
    elementwise: bool = False
    promises: tuple[str, ...] = ()
    hazards: str | None = None
    cost: str | None = None
    place: Place = NOWHERE


@dataclass(frozen=True, slots=True)
class Allow:
    """A finding that is accepted.

    Attributes:
        code: a code, or the beginning of codes (`RED`).
        at: the value at which it is accepted; None: everywhere.
        reason: why.
        until: the last day on which it counts; None: for ever.
        expired: whether that day has passed.
        place: where the plan states it.
    """

    code: str
    at: str | None
    reason: str
    until: date | None = None
    expired: bool = False
    place: Place = NOWHERE

    def covers(self, code: str, at: tuple[str, ...]) -> bool:
        """Return whether it accepts a finding of `code` at a site, on the day of the run."""
        return not self.expired and code.startswith(self.code) and self.at in (None, *at)


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel as the plan describes it.

    Attributes:
        values: what it computes; it stores those that other kernels read, and results.
        tile: the part that one block computes at a time, and what the block is.
        place: where the plan states it.
        split: whether a sum whose schedule is a split is split across blocks.
    """

    values: tuple[str, ...]
    tile: Tile
    place: Place = NOWHERE
    split: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan.

    Attributes:
        file: as the user wrote it.
        name: of the graph.
        program: the graph.
        after: a second graph that is compared with the first, or None.
        symbols: the sizes of each symbol of the shapes.
        batch: the symbol that counts rows, or None.
        inputs: what is known of the values, by name; not only inputs of the graph may be given.
        transforms: in the order in which they apply.
        machine: the name of the target machine, or None.
        budget: what is demanded of every step; None: nothing is.
        node_budgets: what is demanded at a value, by its name; it counts there before `budget`.
        allows: the accepted findings, expired ones included.
        device: the device that kernels run on, or None.
        devices: by name, the devices that are known and those that the plan adds.
        latency_ns: how long a load takes there, or None.
        launches: the kernels that the plan describes; every other value is one of its own.
        imports: the model files that its graphs come from.
    """

    file: str
    name: str
    program: Program
    after: Program | None = None
    symbols: Mapping[str, Span] = field(default_factory=dict)
    batch: str | None = None
    inputs: Mapping[str, Distribution | DataFile] = field(default_factory=dict)
    transforms: tuple[Transform, ...] = ()
    machine: str | None = None
    budget: Budget | None = None
    node_budgets: Mapping[str, Budget] = field(default_factory=dict)
    allows: tuple[Allow, ...] = ()
    device: Device | None = None
    devices: Mapping[str, Device] = field(default_factory=lambda: DEVICES)
    latency_ns: int | None = None
    launches: tuple[Launch, ...] = ()
    imports: tuple[Imported, ...] = ()

    def sizes(self, at: str = "typical") -> dict[str, int]:
        """Return a size for each symbol: its `low`, `high` or `typical` one."""
        return {name: int(getattr(span, at)) for name, span in self.symbols.items()}


def _number(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else repr(float(value))
