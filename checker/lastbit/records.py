"""The records of a verdict: places, witnesses, drift, promises, evidence and demands.

`lastbit.result` holds the steps and findings that are made of them, and names them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

CHANGES = ("bitwise", "reassociation", "rounding", "grid", "math", "unknown")
DOMAIN_KINDS = ("overflow", "inf", "nan", "saturate", "flush", "signed-zero")
EVIDENCE = ("field", "tree-hash", "law", "exhaustion", "witness", "sampled")
POLICIES = ("BITS", "ROUND", "GRID", "REAL")
PROMISES = ("deterministic", "batch_invariant", "layout_invariant")
SEVERITIES = ("error", "warning", "note")
SIDES = ("before", "after")


def require_one_of(value: str | None, allowed: Sequence[str], what: str) -> None:
    """Refuse a value that is neither None nor one of the allowed texts."""
    if value is not None and value not in allowed:
        raise ValueError(f"{what} is {str(value)!r}; allowed: {', '.join(allowed)}")


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a plan.

    Attributes:
        file: the path as the user wrote it.
        line: counted from 1; null where the whole file is meant.
        column: counted from 1, or null.
    """

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part)


@dataclass(frozen=True, slots=True)
class WitnessInput:
    """The values of one input of a witness.

    Attributes:
        format: short name of the format that holds the values.
        shape: sizes; empty for a scalar.
        hex: the values in row-major order, as `hex_of` writes them.
    """

    format: str
    shape: tuple[int, ...]
    hex: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.hex) != math.prod(self.shape):
            raise ValueError(f"shape {list(self.shape)} does not hold {len(self.hex)} values")
        for text in self.hex:
            exact_of(text)

    def values(self) -> tuple[Fraction | float, ...]:
        """Return the values as exact numbers; a float is one of inf, -inf, nan, -0.0."""
        return tuple(exact_of(text) for text in self.hex)


@dataclass(frozen=True, slots=True)
class Program:
    """The two graphs of a witness in text form, at the witness's own sizes.

    Attributes:
        before: graph text; with `after` and the inputs it is all that a replay needs.
        after: graph text.
    """

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Witness:
    """An input on which the two sides differ, with both results as bits.

    Attributes:
        kind: the kind of change it shows, or for a domain entry its kind.
        inputs: by input name.
        before: bits of the differing elements (`0x3f43`), every rounding done.
        after: the same elements on the other side, as many as `before`.
        format: short name of the format of these bits.
        program: the graphs that give them; null where no text form exists.
        policy: the strictest policy under which the kind shows: BITS for reassociation, ROUND for
            rounding, GRID for grid, REAL for math; null for a domain entry.
        output: name of the value that differs.
        index: one multi-index into the output per element of `before`.
        reachable: whether the whole program can produce these inputs; null: not decided.
    """

    kind: str
    inputs: Mapping[str, WitnessInput]
    before: tuple[str, ...]
    after: tuple[str, ...]
    format: str
    program: Program | None = None
    policy: str | None = None
    output: str | None = None
    index: tuple[tuple[int, ...], ...] = ()
    reachable: bool | None = None

    def __post_init__(self) -> None:
        require_one_of(self.kind, CHANGES + DOMAIN_KINDS, "kind")
        require_one_of(self.policy, POLICIES, "policy")
        if len(self.before) != len(self.after):
            raise ValueError("before and after differ in length")


@dataclass(frozen=True, slots=True)
class DomainEntry:
    """A class of inputs on which one side misbehaves and the other does not.

    Attributes:
        kind: overflow (a finite result is due, an infinity or NaN comes), inf, nan, saturate,
            flush (a nonzero result is lost below the smallest normal), signed-zero.
        side: the side that misbehaves.
        inputs: the class of inputs in the user's words (`a row of zeros`).
        witness: one of them, or null.
    """

    kind: str
    side: str
    inputs: str
    witness: Witness | None = None

    def __post_init__(self) -> None:
        require_one_of(self.kind, DOMAIN_KINDS, "kind")
        require_one_of(self.side, SIDES, "side")

    def __str__(self) -> str:
        return f"{self.kind} only {self.side}: {self.inputs}"

    @property
    def new_non_finite(self) -> bool:
        """Say whether the change brings an infinity or a NaN that was not there."""
        return self.side == "after" and self.kind in ("overflow", "inf", "nan")


@dataclass(frozen=True, slots=True)
class Promise:
    """Whether a promise holds on each side.

    Attributes:
        before: null: not decided.
        after: null: not decided.
        cause: why it fails or cannot be decided; null where both hold.
    """

    before: bool | None
    after: bool | None
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """A rigorous bound on the difference of the two sides.

    Attributes:
        times_sum_abs: the bound as a multiple of the sum of absolute terms; null if none holds.
        ulp: the bound in ulp of the drift's format; null where cancellation rules it out.
        why: why a figure is null, or where the bound comes from.
    """

    times_sum_abs: float | None = None
    ulp: float | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Drift:
    """How far apart the two sides are, measured on the declared inputs.

    Attributes:
        format: short name of the format whose ulp is meant in this record.
        share: share of compared elements whose bits differ, 0 to 1.
        max_ulp: greatest distance, in ulp of the result.
        max_ulp_at_scale: greatest distance, in ulp at the sum of absolute terms (a reduction) or at
            the largest intermediate (a chain).
        p99_ulp: 99th percentile, in ulp of the result.
        mean_ulp: mean over all compared elements, in ulp of the result.
        codes_changed: share of grid codes (or of choices, for top-k and argmax) that change, 0 to
            1; null where the result is neither.
        worst_index: multi-index of the greatest distance.
        sampled: elements compared, elements there are.
        inputs: the distribution or data (`normal(0, 1)`).
        seed: the seed of the draw; null for data.
        before_error_ulp: mean error of that side against the exact result, in ulp at scale.
        after_error_ulp: mean error of that side against the exact result, in ulp at scale.
        bound: a rigorous bound, or null.
        output: name of the value compared.
    """

    format: str
    share: float
    max_ulp: float | None
    max_ulp_at_scale: float | None
    p99_ulp: float | None
    mean_ulp: float | None
    sampled: tuple[int, int]
    inputs: str
    seed: int | None = None
    codes_changed: float | None = None
    worst_index: tuple[int, ...] | None = None
    before_error_ulp: float | None = None
    after_error_ulp: float | None = None
    bound: Bound | None = None
    output: str | None = None

    @property
    def nearer(self) -> str | None:
        """Name the side nearer the exact result, or `neither`; None where it was not measured."""
        if self.before_error_ulp is None or self.after_error_ulp is None:
            return None
        if f"{self.before_error_ulp:.3g}" == f"{self.after_error_ulp:.3g}":
            return "neither"
        return "before" if self.before_error_ulp < self.after_error_ulp else "after"


@dataclass(frozen=True, slots=True)
class Fit:
    """How the blocks of each side sit on a device, as pairs (before, after).

    Attributes:
        device: its name.
        blocks: blocks that an SM holds at once, of the launch of which it holds the fewest; null
            where its tile is not known.
        admitted: the same by resource, the tightest afterwards first: `threads`, `registers`,
            `shared memory` and `blocks`, as far as the plan says what a block needs.
        occupancy: the share of an SM's warps that they are; null where threads are not known.
        in_flight: bytes that they have under way, over those that the bandwidth needs; null where
            threads, loads or latency are not known.
        ridge: FLOP per byte from which on the device is limited by its matrix units.
    """

    device: str
    blocks: tuple[int | None, int | None]
    admitted: Mapping[str, tuple[int | None, int | None]]
    occupancy: tuple[float | None, float | None]
    in_flight: tuple[float | None, float | None]
    ridge: float | None


@dataclass(frozen=True, slots=True)
class Cost:
    """What the launches that differ move and hold, as pairs (before, after).

    Attributes:
        bytes: bytes across the interface to the next storage level.
        local_bytes: bytes of local storage that a block holds; null where its tile is not known.
        launches: kernels launched.
        peak_bytes: greatest number of bytes of the whole program alive at once.
        flops: additions, multiplications and other operations; null in older results.
        fit: null where the plan names no device, or no tile is known.
        at: the sizes at which it was counted, of the symbols that have a range.
    """

    bytes: tuple[int, int]
    local_bytes: tuple[int | None, int | None]
    launches: tuple[int, int]
    peak_bytes: tuple[int, int]
    flops: tuple[int, int] | None = None
    fit: Fit | None = None
    at: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What decided, and what was taken for granted.

    Attributes:
        by: `field`, `tree-hash`, `law`, `exhaustion`, `witness` or `sampled`.
        sizes: the symbol values at which it was evaluated.
        draws: random draws per size, or inputs tried; null where nothing is drawn.
        assumes: assumptions (`finite`, `no overflow`).
        failure_probability: computed from degree and draws; null where no honest figure exists.
        detail: a sentence more (`no difference found on 4096 inputs`), or null.
    """

    by: str
    sizes: tuple[Mapping[str, int], ...] = ()
    draws: int | None = None
    assumes: tuple[str, ...] = ()
    failure_probability: float | None = None
    detail: str | None = None

    def __post_init__(self) -> None:
        require_one_of(self.by, EVIDENCE, "by")


@dataclass(frozen=True, slots=True)
class Budget:
    """What the plan demands of one step.

    Attributes:
        change: the most that is allowed; null: no demand.
        max_ulp: by short format name, the most that is allowed in ulp.
        elementwise: whether `max_ulp` counts ulp of each result rather than ulp at scale.
        promises: promises that must hold after the step.
    """

    change: str | None = None
    max_ulp: Mapping[str, float] = field(default_factory=dict)
    elementwise: bool = False
    promises: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_one_of(self.change, CHANGES, "change")


def hex_of(value: Fraction | float | int) -> str:
    """Return the shortest hexadecimal text of a value that binary64 holds exactly.

    Raises:
        ValueError: binary64 cannot hold the value.
    """
    number = float(value)
    if math.isfinite(number) and Fraction(number) != value:
        raise ValueError(f"{value} is no binary64 value")
    text = number.hex()
    significand, p, exponent = text.partition("p")
    if not p:
        return text
    whole, _, digits = significand.partition(".")
    return f"{whole}.{digits.rstrip('0') or '0'}p{exponent}"


def exact_of(text: str) -> Fraction | float:
    """Return the exact number of a hexadecimal text; a float is one of inf, -inf, nan, -0.0.

    Raises:
        ValueError: the text is no hexadecimal number.
    """
    try:
        number = float.fromhex(text)
    except OverflowError:
        raise ValueError(f"{text} is beyond binary64") from None
    special = not math.isfinite(number) or (number == 0 and math.copysign(1, number) < 0)
    return number if special else Fraction(number)
