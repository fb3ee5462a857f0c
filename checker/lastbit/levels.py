"""The levels of a schedule: value objects with parameters, formats and a text form.

Every level may name the format of its accumulator (`acc`); without one it takes that of the level
around it, and the outermost takes that of the `Reduce`. A level whose format differs converts its
result. What the levels compute is defined by `lastbit.schedule.fold`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from lastbit.errors import InputError, Problem
from lastbit.expression import Expression
from lastbit.formats import format_of

COUNTS = frozenset({"n"})  # parameters that count pieces
EXTENTS = frozenset({"leaf", "size", "tile", "every", "k"})  # parameters that count elements
PARAMETERS = COUNTS | EXTENTS
FORMATS = frozenset({"acc", "partials", "format"})
DEALS = ("contiguous", "interleaved")


class ScheduleError(InputError):
    """A schedule that cannot be used.

    Attributes:
        schedule: its text.
        reason: what is wrong with it.
        remedy: what is allowed, or what to do.
    """

    def __init__(self, schedule: str, reason: str, remedy: str) -> None:
        self.schedule, self.reason, self.remedy = schedule, reason, remedy
        super().__init__([Problem(f"schedule `{schedule}`: {reason}", remedy)])


@dataclass(frozen=True, slots=True)
class Table:
    """A parameter that is looked up: the value of the last row whose bound is not above a size.

    Attributes:
        by: the symbol whose size is looked up.
        rows: (bound, value) pairs with rising bounds.
    """

    by: str
    rows: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        bounds = [bound for bound, _ in self.rows]
        if not bounds or bounds != sorted(set(bounds)):
            raise ScheduleError(str(self), "the bounds do not rise", "Write (1, 16), (64, 4), ...")

    @property
    def symbols(self) -> frozenset[str]:
        """The symbol whose size is looked up."""
        return frozenset({self.by})

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """Return the value at the given sizes."""
        size = sizes.get(self.by)
        if size is None:
            have = ", ".join(sorted(sizes)) or "none"
            raise ScheduleError(str(self), f"the symbol {self.by!r} has no size", f"Known: {have}.")
        found = [value for bound, value in self.rows if bound <= size]
        if not found:
            reason = f"no row covers {self.by}={size}"
            raise ScheduleError(str(self), reason, f"Begin with a row for {size} or less.")
        return found[-1]

    def __str__(self) -> str:
        return f"table({self.by}, {', '.join(str(row) for row in self.rows)})"


Parameter = int | Expression | Table


@dataclass(frozen=True, kw_only=True)
class Level:
    """One level of a schedule; `acc` is the format of its accumulator, or None to inherit it."""

    word: ClassVar[str] = "level"
    acc: str | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in PARAMETERS and isinstance(value, int) and value < 1:
                raise ScheduleError(str(self), f"{field.name} is {value}", "Allowed: 1 and above.")
            if field.name in FORMATS and value is not None:
                object.__setattr__(self, field.name, format_of(value).short)

    def _arguments(self) -> list[str]:
        return []

    def __str__(self) -> str:
        arguments = self._arguments()
        arguments += [f"acc={self.acc}"] if self.acc else []
        return f"{self.word}({', '.join(arguments)})" if arguments else self.word


@dataclass(frozen=True)
class Seq(Level):
    """Left to right with one running accumulator; the first step is Round(0 + leaf)."""

    word: ClassVar[str] = "seq"


@dataclass(frozen=True)
class Stored(Level):
    """Left to right, as `Seq`; after each addition the running sum is stored in `format`.

    So a split that is combined in place rounds twice per piece: the sum to the accumulator, and
    then to the format of the output it is kept in.
    """

    word: ClassVar[str] = "stored"
    format: str

    def _arguments(self) -> list[str]:
        return [self.format]


@dataclass(frozen=True)
class Pairwise(Level):
    """Balanced halves, the left one longer by at most 1, down to runs of at most `leaf` elements.

    A run is added left to right, as in `Seq`.
    """

    word: ClassVar[str] = "pairwise"
    leaf: Parameter = 1

    def _arguments(self) -> list[str]:
        return [str(self.leaf)]


@dataclass(frozen=True)
class Lanes(Level):
    """Lane i takes elements i, i + n, i + 2n ...; then the lanes are combined by `outer`.

    Lanes without elements do not take part. A lane's result is converted to `partials` where that
    is given, before it is combined.
    """

    word: ClassVar[str] = "lanes"
    n: Parameter
    inner: Level = Seq()
    outer: Level = Seq()
    partials: str | None = None

    def _arguments(self) -> list[str]:
        return [str(self.n), *_parts(self.inner, self.outer, self.partials)]


@dataclass(frozen=True)
class Split(Level):
    """Pieces of whole tiles, each reduced by `inner`, then combined by `outer`: split-K.

    With `n`, the tiles are dealt out in contiguous pieces of ceil(tiles / n), and the last piece
    takes what is left (64 tiles by 3: 22, 22, 20). With `deal=interleaved`, piece i takes the
    tiles i, i + n, i + 2n ... instead. With `size`, pieces hold that many elements, the last one
    the rest. Pieces without elements do not take part. A piece's result is converted to
    `partials` where that is given, before it is combined.
    """

    word: ClassVar[str] = "split"
    n: Parameter | None = None
    size: Parameter | None = None
    tile: Parameter = 1
    inner: Level = Seq()
    outer: Level = Seq()
    partials: str | None = None
    deal: str = "contiguous"

    def __post_init__(self) -> None:
        if self.deal not in DEALS:
            allowed = f"Allowed: {', '.join(DEALS)}."
            raise ScheduleError(str(self), f"{self.deal!r} is no way to deal tiles", allowed)
        if self.size is not None and self.deal != "contiguous":
            raise ScheduleError(str(self), "pieces of a size are contiguous", "Give n.")
        if (self.n is None) == (self.size is None):
            raise ScheduleError(str(self), "one of n and size is needed", "Write split(4).")
        if self.size is not None and self.tile != 1:
            raise ScheduleError(str(self), "size is in elements", "Leave out tile.")
        Level.__post_init__(self)

    def _arguments(self) -> list[str]:
        head = [] if self.n is None else [str(self.n)]
        head += [] if self.size is None else [f"size={self.size}"]
        head += [] if self.tile == 1 else [f"tile={self.tile}"]
        head += [] if self.deal == "contiguous" else [f"deal={self.deal}"]
        return [*head, *_parts(self.inner, self.outer, self.partials)]


@dataclass(frozen=True)
class Fused(Level):
    """A matrix unit adds `k` exact products and the accumulator in one step, in the order of K.

    The accumulator starts at zero. `machine` names a machine, and k chooses its unit; a name such
    as `hopper/16` says both, and then k may be anything.
    """

    word: ClassVar[str] = "fused"
    k: Parameter
    machine: str

    @property
    def unit(self) -> str:
        """The matrix unit, such as `hopper/16`."""
        return self.machine if "/" in self.machine else f"{self.machine}/{self.k}"

    def _arguments(self) -> list[str]:
        return [str(self.k), self.machine]


@dataclass(frozen=True)
class Promote(Level):
    """Every `every` elements, the result of `inner` is added to an accumulator of `format`.

    Both accumulators start at zero; `inner` inherits from around the level, not from `format`.
    """

    word: ClassVar[str] = "promote"
    every: Parameter
    format: str
    inner: Level = Seq()

    def _arguments(self) -> list[str]:
        inner = [] if self.inner == Seq() else [f"inner={self.inner}"]
        return [str(self.every), self.format, *inner]


@dataclass(frozen=True)
class AnyOrder(Level):
    """Any order, as atomic additions give: a set of possible results."""

    word: ClassVar[str] = "any_order"


Schedule = Level


def _parts(inner: Level, outer: Level, partials: str | None) -> list[str]:
    """Return the arguments that `Lanes` and `Split` share."""
    both = [] if inner == outer == Seq() else [f"inner={inner}", f"outer={outer}"]
    return both + ([f"partials={partials}"] if partials else [])


def levels(schedule: Schedule) -> Iterator[Schedule]:
    """Yield a schedule and all levels inside it, outermost first."""
    yield schedule
    for field in dataclasses.fields(schedule):
        value = getattr(schedule, field.name)
        if isinstance(value, Level):
            yield from levels(value)


def symbols(schedule: Schedule) -> frozenset[str]:
    """Return the symbols that the parameters of a schedule depend on."""
    found: set[str] = set()
    for level in levels(schedule):
        for name in PARAMETERS:
            value = getattr(level, name, None)
            if isinstance(value, (Expression, Table)):
                found |= value.symbols
    return frozenset(found)


def deterministic(schedule: Schedule) -> bool:
    """Say whether the schedule gives the same bits in every run."""
    return not any(isinstance(level, AnyOrder) for level in levels(schedule))


def formats(schedule: Schedule, acc: str) -> frozenset[str]:
    """Return the formats that the schedule rounds to, in a `Reduce` with accumulator `acc`."""
    acc = schedule.acc or acc
    match schedule:
        case (
            Split(inner=inner, outer=outer, partials=partials)
            | Lanes(inner=inner, outer=outer, partials=partials)
        ):
            stored = frozenset({partials}) if partials else frozenset[str]()
            return frozenset({acc}) | stored | formats(inner, acc) | formats(outer, acc)
        case Promote(format=wide, inner=inner):
            return frozenset({wide, acc}) | formats(inner, acc)
        case Stored(format=stored_in):
            return frozenset({stored_in, acc})
    return frozenset({acc})


def bind(schedule: Schedule, sizes: Mapping[str, int]) -> Schedule:
    """Return the schedule with every parameter a plain integer.

    Args:
        schedule: any schedule.
        sizes: a size for each of its symbols; others are ignored.

    Raises:
        ScheduleError: a parameter is below 1 at these sizes, or no row of a table covers them.
        ExpressionError: an expression has no integer value at these sizes.
    """

    def bound(name: str, value: Expression | Table) -> int:
        result = value.evaluate(sizes)
        if result < 1:
            at = ", ".join(f"{symbol}={sizes[symbol]}" for symbol in sorted(value.symbols))
            reason = f"{name} = {value} is {result} at {at}"
            raise ScheduleError(str(schedule), reason, "Guard it with max(1, ...).")
        return result

    return _changed(
        schedule, lambda name, value: value if isinstance(value, int) else bound(name, value)
    )


def scaled(schedule: Schedule, factor: int, most: int = 4) -> Schedule:
    """Return a bound schedule for sizes that are smaller by a factor.

    Extents (`leaf`, `size`, `tile`, `every`, `k`) are divided by the factor, rounded up, so that
    small sizes still have several pieces; `n` is capped. Explicit trees stay as they are.

    Args:
        schedule: a bound schedule.
        factor: by how much the extents shrink.
        most: the largest `n` that is kept.
    """

    def smaller(name: str, value: Parameter) -> Parameter:
        number = plain(schedule, name, value)
        return min(number, most) if name in COUNTS else -(-number // factor)

    return _changed(schedule, smaller)


def _changed(schedule: Schedule, change: Callable[[str, Parameter], Parameter]) -> Schedule:
    """Return a schedule with every parameter replaced."""
    new: dict[str, Any] = {}
    for field in dataclasses.fields(schedule):
        value = getattr(schedule, field.name)
        if isinstance(value, Level):
            new[field.name] = _changed(value, change)
        elif field.name in PARAMETERS and value is not None:
            new[field.name] = change(field.name, value)
    if isinstance(schedule, Fused):  # the unit stays the same when k changes
        k = new["k"]
        if isinstance(schedule.k, int) and k != schedule.k:
            new["machine"] = schedule.unit
    return dataclasses.replace(schedule, **new) if new else schedule


def plain(schedule: Schedule, name: str, value: Parameter | None) -> int:
    """Return a parameter of a bound schedule."""
    if isinstance(value, int):
        return value
    raise ScheduleError(str(schedule), f"{name} = {value} is not bound", "Bind it to sizes.")
