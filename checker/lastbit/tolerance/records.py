"""The result of a tolerance audit, `lastbit.tolerance/1`."""

from __future__ import annotations

from dataclasses import dataclass

from lastbit.records import require_one_of

SCHEMA = "lastbit.tolerance/1"
OPS = ("elementwise", "sum", "mean", "norm", "matmul")
FORMATS = ("f32", "f16", "bf16")
BUDGETS = ("bitwise", "reassociation", "rounding")
LIBRARIES = ("numpy", "torch")
OUTCOMES = ("passed", "caught", "not-planted")


@dataclass(frozen=True, slots=True)
class Subject:
    """What is compared.

    Attributes:
        op: the operation.
        shape: its sizes: of a matmul M, N and K, else those of the input, whose last axis is
            reduced.
        format: of the inputs and the result.
        acc: the format in which sums are added up, and steps are computed.
        budget: the kind of change that is legal.
        library: whose arrays the comparison gets.
        machine: whose matrix unit may compute a matmul; none if empty.
        seed: of every draw.
    """

    op: str
    shape: tuple[int, ...]
    format: str
    acc: str = "f32"
    budget: str = "reassociation"
    library: str = "numpy"
    machine: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        require_one_of(self.op, OPS, "op")
        require_one_of(self.format, FORMATS, "format")
        require_one_of(self.acc, FORMATS, "acc")
        require_one_of(self.budget, BUDGETS, "budget")
        require_one_of(self.library, LIBRARIES, "library")


@dataclass(frozen=True, slots=True)
class Fault:
    """A wrong result, and what became of it.

    Attributes:
        name: short, as `zeros`.
        title: what is wrong, at these sizes.
        outcome: `passed`: the comparison let it pass; `caught`; `not-planted`.
        why: how it was caught, or why it was not planted.
        differing: the share of elements with other bits; null where shapes or types differ.
        max_ulp: the greatest distance from the right result; null where there is none.
        misses: whether the smallest bound lets it pass too; null where there is no bound.
    """

    name: str
    title: str
    outcome: str
    why: str = ""
    differing: float | None = None
    max_ulp: int | None = None
    misses: bool | None = None

    def __post_init__(self) -> None:
        require_one_of(self.outcome, OUTCOMES, "outcome")


@dataclass(frozen=True, slots=True)
class Legal:
    """A result that the budget allows, and what the comparison said of it.

    Attributes:
        schedule: the order in which it was added up.
        contract: what was rounded on the way.
        passed: whether the comparison let it pass.
        why: how it was refused; empty where it passed.
        max_ulp: the greatest distance from the expected result.
        share_of_bound: the greatest distance as a share of what the bound allows there; null
            without a bound.
    """

    schedule: str
    contract: str
    passed: bool
    why: str
    max_ulp: int | None
    share_of_bound: float | None


@dataclass(frozen=True, slots=True)
class Limit:
    """The smallest bound that every legal result keeps to.

    Attributes:
        rule: the bound in one line; empty where none can be derived.
        max_ulp: as a distance in ulp of the format; null where terms may cancel.
        times_sum_abs: the part of the bound that grows with the sum of absolute terms.
        rtol: the relative part of a rule |actual - expected| <= atol + rtol * |expected|.
        atol: its absolute part, for these inputs.
        sum_abs: the greatest sum of absolute terms of these inputs.
        derivation: one step a line.
        misses: the names of the planted faults that it lets pass.
    """

    rule: str
    max_ulp: int | None
    times_sum_abs: float | None
    rtol: float | None
    atol: float | None
    sum_abs: float
    derivation: tuple[str, ...]
    misses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToleranceAudit:
    """What a comparison lets pass.

    Attributes:
        comparison: the user's name for it, or its rtol and atol.
        subject: what it compared.
        faults: every fault that is known.
        limit: the smallest bound.
        legal: results that the budget allows.
    """

    comparison: str
    subject: Subject
    faults: tuple[Fault, ...]
    limit: Limit
    legal: tuple[Legal, ...]
    schema: str = SCHEMA

    @property
    def planted(self) -> tuple[Fault, ...]:
        """The faults that were given to the comparison."""
        return tuple(fault for fault in self.faults if fault.outcome != "not-planted")

    @property
    def passed(self) -> tuple[Fault, ...]:
        """Those that it let pass."""
        return tuple(fault for fault in self.faults if fault.outcome == "passed")

    @property
    def passes(self) -> bool:
        """Whether it caught every fault."""
        return not self.passed

    def __str__(self) -> str:
        from lastbit.tolerance.text import render

        return render(self)
