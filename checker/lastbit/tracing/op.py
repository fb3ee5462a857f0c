"""One recorded operation, and its arguments: numbers, integers, formats and trees of sums."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from lastbit.errors import LastbitError, Place
from lastbit.expression import parse_expression
from lastbit.formats import FORMATS, Format, format_of
from lastbit.graph import Input, Reduce, topological
from lastbit.ops import COMPOSITES, Call
from lastbit.rounding import Rounding
from lastbit.schedule import Schedule, parse_schedule
from lastbit.tracing.sizes import Size, TraceError, fail

NOWHERE = Place()
MAX_BITS = 1000  # of a number


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One recorded operation.

    Attributes:
        name: an operator of the text form, or `input`, `const`, `size`, `slice`, `power`,
            `to` or `opaque NAME`.
        args: the operations whose results it reads.
        words: integer expressions: sizes, an order of axes, slices, a power.
        keywords: keywords with integer expressions, such as axis.
        rounding: of `to`; for an input its format.
        acc: the rounding of the additions of its sum.
        schedule: the tree of its sum.
        value: of `const`; for an input its name.
        place: where it stands in the user's file.
        label: the name that the user gave it: the variable it is assigned to, or `named`.
        key: equal keys mean the same computation.
    """

    name: str
    args: tuple[Op, ...] = ()
    words: tuple[str, ...] = ()
    keywords: tuple[tuple[str, str], ...] = ()
    rounding: Rounding | None = None
    acc: Rounding | None = None
    schedule: Schedule | None = None
    value: Fraction | float | str | None = None
    place: Place = NOWHERE
    label: str | None = None
    key: bytes = field(init=False, repr=False, default=b"")

    def __post_init__(self) -> None:
        facts = (self.name, self.words, self.keywords, repr(self.value))
        sums = (str(self.rounding), str(self.acc), str(self.schedule))
        digest = blake2b(repr((facts, sums)).encode(), digest_size=16)
        for arg in self.args:
            digest.update(arg.key)
        object.__setattr__(self, "key", digest.digest())


def exact_number(value: Any) -> Fraction | float:
    """Return the exact number that a Python or numpy number is.

    Raises:
        TraceError: it is none.
    """
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    shape = getattr(value, "shape", ())
    if kind is not None and shape != ():
        size = ", ".join(map(str, shape))
        fail(
            f"an array of shape [{size}] takes part",
            f"Give it as an input: lastbit.check(..., w=lastbit.f32({size})).",
        )
    if isinstance(value, bool) or kind == "b":
        fail(f"{value!r} is no number", "Write 1 or 0.")
    exact: Fraction | float | None = None
    try:
        if isinstance(value, int | Fraction) or kind in ("i", "u"):
            exact = Fraction(value) if isinstance(value, int | Fraction) else Fraction(int(value))
        elif isinstance(value, float | Decimal) or kind in ("f", "V"):
            number = float(value)
            special = number != number or abs(number) == float("inf")
            if special or (number == 0 and str(number).startswith("-")):
                exact = number
            else:
                ratio = getattr(value, "as_integer_ratio", None)
                exact = Fraction(*ratio()) if ratio else Fraction(number)
    except (TypeError, ValueError, OverflowError):
        exact = None
    if exact is None:
        what = f"a {type(value).__module__}.{type(value).__qualname__}"
        fail(
            f"{what.replace('builtins.', '')} takes part in arithmetic with a Tensor",
            "Only Tensors and numbers can; give other arrays as inputs.",
        )
    if isinstance(exact, Fraction) and not _fits(exact):
        fail(f"a number has more than {MAX_BITS} bits", "Use smaller numbers.")
    return exact


def _fits(value: Fraction) -> bool:
    return max(value.numerator.bit_length(), value.denominator.bit_length()) <= MAX_BITS


def integer(value: object) -> str:
    """Return an integer, a size or an expression of symbols as a text.

    Raises:
        TraceError: it is none of these.
    """
    if isinstance(value, Size):
        return value.text
    if isinstance(value, str):
        try:
            return parse_expression(value).text
        except LastbitError as error:
            fail(str(error).rstrip("."))
    try:
        if isinstance(value, bool):
            raise TypeError
        return str(operator.index(value))  # type: ignore[arg-type]
    except TypeError:
        fail(f"{value!r} is no integer", 'Write a number, a size x.shape[-1], or a text "M // 2".')


@lru_cache(maxsize=256)
def keywords_of(name: str) -> tuple[str, ...]:
    """Return the keywords that an operator takes, as its row in the table says."""
    op = COMPOSITES.get(name)
    if op is None:
        return ()
    words = [word for word in ("axis",) if word in op.meaning]
    words += ["nth"] if op.nth else []
    return (*words, "acc", "schedule") if _has_sum(name) else tuple(words)


def _has_sum(name: str) -> bool:
    """Return whether an operator holds a sum, whose tree can be given."""
    op = COMPOSITES[name]
    if op.integers:
        return False
    x = Input("x", FORMATS["f32"], shape=(2, 2))
    call = Call((x,) * (op.arity or 1), schedule=parse_schedule("seq"), acc=Rounding.of("f32"))
    nodes = topological([op.build(call)])
    return any(isinstance(node, Reduce) and node.acc is not None for node in nodes)


def tree_of(keywords: Mapping[str, object]) -> tuple[Rounding | None, Schedule | None]:
    """Return the accumulator and the tree that `acc` and `schedule` ask for.

    Raises:
        TraceError: one lacks the other, or cannot be.
    """
    given = [word for word in ("acc", "schedule") if keywords.get(word) is not None]
    if not given:
        return None, None
    if len(given) == 1:
        lacks = "a schedule" if given == ["acc"] else "an `acc`"
        fail(f"`{given[0]}` needs {lacks} beside it", 'Write acc="f32", schedule="seq".')
    from lastbit.plan_values import check_machines

    try:
        acc = Rounding.of(format_given(keywords["acc"]))
        schedule = parse_schedule(str(keywords["schedule"]))
        check_machines(schedule)
    except LastbitError as error:
        if isinstance(error, TraceError):
            raise
        fail(str(error).rstrip("."))
    return acc, schedule


def format_given(given: object) -> Format:
    """Return the format that a name, a format or `lastbit.bf16` stands for.

    Raises:
        TraceError: there is none.
    """
    if isinstance(given, Format):
        return given
    name = getattr(given, "__name__", None) if callable(given) else None
    try:
        return format_of(name or str(given))
    except LastbitError as error:
        fail(str(error).rstrip("."))


def slice_word(part: object) -> str:
    """Return a slice as the text form writes it.

    Raises:
        TraceError: an index is no slice.
    """
    if not isinstance(part, slice):
        if part is None:
            fail("an axis is added by None", "Write x.reshape(...) with the size 1.")
        if hasattr(part, "_op"):
            fail("a Tensor is an index", "Write lastbit.select(condition, a, b).")
        fail(f"an axis is indexed by {part!r}", "Write a slice, x[i : i + 1]; the axis stays.")
    ends = ["" if end is None else integer(end) for end in (part.start, part.stop)]
    return ":".join(ends) + ("" if part.step is None else f":{integer(part.step)}")
