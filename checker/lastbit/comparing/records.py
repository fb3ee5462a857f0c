"""The result of a comparison, `lastbit.compare/1`: one record for each pair of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lastbit.records import require_one_of

SCHEMA = "lastbit.compare/1"
RELATIONS = ("bitwise", "equal", "within", "differs", "other-shape", "other-type", "missing")


@dataclass(frozen=True, slots=True)
class Worst:
    """Two elements that are among the farthest apart.

    Attributes:
        index: one number for each axis.
        a: the bits of the first, in hexadecimal.
        b: those of the second.
        values: both as numbers.
        ulps: steps between them; null beside NaN and infinities.
    """

    index: tuple[int, ...]
    a: str
    b: str
    values: tuple[float, float]
    ulps: int | None


@dataclass(frozen=True, slots=True)
class AtScale:
    """Distances in units of the format's ulp at a scale, not at the elements themselves.

    Attributes:
        scale: what it is: `tensor`, `row`, `column` (their largest magnitudes), or a name.
        max: the greatest.
        p50: half of the elements are at most so far apart.
        p99: the same for 99 %.
        p999: the same for 99.9 %.
    """

    scale: str
    max: float
    p50: float
    p99: float
    p999: float


@dataclass(frozen=True, slots=True)
class Places:
    """Along which rows or columns the elements with other bits lie.

    Attributes:
        touched: how many rows (or columns) have any.
        of: how many there are.
        most: those with the most, each with its count.
        size: elements of each.
    """

    touched: int
    of: int
    most: tuple[tuple[int, int], ...]
    size: int


@dataclass(frozen=True, slots=True)
class Compared:
    """What was found about one pair of tensors.

    Attributes:
        name: in both files; empty where they hold one tensor without a name.
        relation: `bitwise`: the same bits; `equal`: the same numbers (zeros of either sign, any
            NaN); `within`: as near as allowed; `differs`; `other-shape` and `other-type`: not
            comparable; `missing`: on one side only.
        format: short name of the type of elements; null where the two differ.
        shapes: of both; null for one that is missing.
        elements: of each.
        other_bits: elements with other bits.
        signed_zeros: +0 against -0.
        nan_payloads: NaN against NaN with other bits.
        nan_only: NaN on the first side only, and on the second side only.
        infinite: an infinity on one side, or two of different sign.
        apart: pairs of different finite numbers.
        max_ulp: the greatest distance of two finite numbers.
        p50: half of the elements are at most so far apart, in ulp; likewise the next two.
        p99: of 99 %.
        p999: of 99.9 %.
        histogram: how many are apart by 0, 1, 2 to 3, 4 to 7, 8 to 15 ... ulp.
        worst: the farthest, the farthest first.
        first: index of the first element with other bits.
        rows: where along the rows, the axes but the last together; null for one row.
        columns: where along the last axis; null for one column.
        at_scale: null unless a scale was asked for.
        message: why nothing could be compared; empty otherwise.
    """

    name: str
    relation: str
    format: str | None
    shapes: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
    elements: int = 0
    other_bits: int = 0
    signed_zeros: int = 0
    nan_payloads: int = 0
    nan_only: tuple[int, int] = (0, 0)
    infinite: int = 0
    apart: int = 0
    max_ulp: int | None = None
    p50: int | None = None
    p99: int | None = None
    p999: int | None = None
    histogram: tuple[int, ...] = ()
    worst: tuple[Worst, ...] = ()
    first: tuple[int, ...] | None = None
    rows: Places | None = None
    columns: Places | None = None
    at_scale: AtScale | None = None
    message: str = ""

    def __post_init__(self) -> None:
        require_one_of(self.relation, RELATIONS, "relation")

    @property
    def passes(self) -> bool:
        """Whether the bits are equal, or within what is allowed."""
        return self.relation in ("bitwise", "within")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two sets of tensors.

    Attributes:
        sides: the files, or `a` and `b`.
        allowed: the greatest distance that passes, by format.
        tensors: one record for each name.
    """

    sides: tuple[str, str]
    allowed: Mapping[str, float]
    tensors: tuple[Compared, ...] = field(default_factory=tuple)
    schema: str = SCHEMA

    @property
    def equal(self) -> bool:
        """Whether every bit is equal."""
        return all(found.relation == "bitwise" for found in self.tensors)

    @property
    def passes(self) -> bool:
        """Whether every pair passes, and there is one."""
        return bool(self.tensors) and all(found.passes for found in self.tensors)

    def __bool__(self) -> bool:
        return self.passes

    def __str__(self) -> str:
        from lastbit.comparing.text import render

        return render(self)
