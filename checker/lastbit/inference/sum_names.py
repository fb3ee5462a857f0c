"""Names for sums: two sums share one where they add the same terms by the same tree.

What a transform writes as several nodes (a chain cut into blocks, the first of which begins the
next; partial sums that are added as values) is followed through slices, concatenations, roundings
and additions of values down to the terms. So sums that are one computation get one name, however
they are written. Adding a value of a format to zero in that format changes nothing, and where two
values of p digits are added, a first rounding to 2p + 2 digits or more does not show (Figueroa,
"When is double rounding innocuous?", SIGNUM Newsletter 30(3), 1995). Both hold on ordinary runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache

from lastbit.formats import format_of
from lastbit.graph import Input, Map, Node, Reduce, Round, View, native_rounding
from lastbit.rounding import Rounding
from lastbit.schedule import fold

MOST_TERMS = 1 << 14  # of a sum that is named

Named = tuple[bytes, str]
"""A digest, and the format of the value; `exact` where nothing rounded it."""


class _Names:
    """The algebra of a schedule on names.

    Attributes:
        term: returns the name of a term.
    """

    def __init__(self, term: Callable[[int], Named]) -> None:
        self.term = term

    def zero(self, fmt: str) -> Named:
        return b"", fmt

    def leaf(self, i: int) -> Named:
        return self.term(i)

    def add(self, a: Named, b: Named, fmt: str) -> Named:
        return added(a, b, fmt)

    def fused(self, acc: Named, terms: list[Named], machine: str, fmt: str) -> Named:
        parts = [f"{machine},{fmt}".encode(), acc[0], *sorted(name for name, _ in terms)]
        return _digest(*parts), fmt

    def convert(self, value: Named, fmt: str) -> Named:
        return converted(value, fmt)

    def any_order(self, values: list[Named], fmt: str) -> Named:
        return _digest(b"any", fmt.encode(), *sorted(name for name, _ in values)), fmt


def _digest(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"|".join(parts), digest_size=16).hexdigest().encode()


_SUMS: dict[bytes, tuple[Named, Named]] = {}  # narrow values that were added, by name
_KNOWN: dict[bytes, Named | None] = {}  # names by key of the node
PREFIX = "sum "


def added(a: Named, b: Named, fmt: str) -> Named:
    """Return the name of Round(a + b)."""
    if not a[0]:
        return converted(b, fmt)
    if not b[0]:
        return converted(a, fmt)
    first, second = sorted((a, b))
    name = _digest(b"add", fmt.encode(), first[0], second[0])
    if first[1] == second[1] not in (fmt, "exact"):
        _SUMS[name] = first, second
    return name, fmt


def converted(value: Named, fmt: str) -> Named:
    """Return the name of Round(value)."""
    name, held = value
    if not name:
        return b"", fmt
    if held != "exact" and _holds(fmt, held):
        return value
    terms = _SUMS.get(name)
    if held != "exact" and terms is not None and _harmless(terms, held, fmt):
        return added(*terms, fmt)
    return _digest(b"round", fmt.encode(), name), fmt


@lru_cache(maxsize=256)
def _holds(wide: str, narrow: str) -> bool:
    """Return whether a format holds every value of another."""
    large, small = format_of(wide), format_of(narrow)
    if large == small:
        return True
    plain = large.kind == small.kind == "float" and large.has_inf
    deep = large.quantum(large.emin) <= small.quantum(small.emin)
    return plain and deep and large.precision >= small.precision and large.emax >= small.emax


def _harmless(terms: tuple[Named, Named], wide: str, narrow: str) -> bool:
    """Return whether a rounding to a wide format before one to a narrow format does not show."""
    small = format_of(narrow)
    if any(held != narrow for _, held in terms) or small.kind != "float" or small.is_grid:
        return False
    large = format_of(wide)
    return large.precision >= 2 * small.precision + 2 and large.emin <= small.emin


def name_of(node: Node) -> Named | None:
    """Return the name of a sum, or of what is made of sums by roundings and additions.

    None for any other node, and for sums that are too long or round in another way than to nearest.
    """
    if node.key not in _KNOWN:
        _KNOWN[node.key] = _named(node)
    return _KNOWN[node.key]


def _named(node: Node) -> Named | None:
    match node:
        case Input(name=name, format=fmt) if name.startswith(PREFIX):
            return name.removeprefix(PREFIX).encode(), fmt.short
        case View(kind="reshape", xs=(x,)):
            return name_of(x)  # the same elements in the same order
        case Reduce(op="sum", acc=acc, schedule=schedule):
            if acc is None or schedule is None or node.length > MOST_TERMS or not _plain(acc):
                return None
            terms = _terms(node.x, node.axis)
            return fold(schedule, node.length, acc.format.short, _Names(terms.__getitem__))
        case Round(x=x, rounding=rounding) if _plain(rounding):
            short = rounding.format.short
            if isinstance(x, Map) and x.fn == "add" and all(n.shape == x.shape for n in x.xs):
                a, b = (_value(part) for part in x.xs)
                return added(a, b, short)
            inner = name_of(x)
            return None if inner is None else converted(inner, short)
    return None


def _plain(rounding: Rounding) -> bool:
    return rounding.format.kind == "float" and rounding == Rounding.of(rounding.format)


def _value(node: Node) -> Named:
    """Return the name of a sum, or one that stands for any other value."""
    found = name_of(node)
    if found is not None:
        return found
    rounding = native_rounding(node)
    return node.key, rounding.format.short if rounding is not None else "exact"


def _terms(x: Node, axis: int) -> list[Named]:
    """Return the name of each term along an axis."""
    length = x.shape[axis]
    match x:
        case View(kind="concat", xs=xs, params=(along, *_)) if along == axis:
            return [term for part in xs for term in _terms(part, axis)]
        case View(kind="slice", xs=(whole,), bounds=bounds):
            others = all(
                b == (0, n, 1)
                for i, (b, n) in enumerate(zip(bounds, whole.shape, strict=True))
                if i != axis
            )
            if others:
                start, stop, step = bounds[axis]
                return _terms(whole, axis)[start:stop:step]
    if length == 1:
        return [_value(x)]
    rounding = native_rounding(x)
    held = rounding.format.short if rounding is not None else "exact"
    return [(_digest(x.key, b"%d %d" % (axis, i)), held) for i in range(length)]


def placeholder(node: Node) -> Node | None:
    """Return an input that stands for a sum, the same for all that have its name; or None."""
    if not isinstance(node, Reduce | Round):
        return None
    found = name_of(node)
    if found is None or not found[0]:
        return None
    name, fmt = found
    return Input(f"{PREFIX}{name.decode()}", format_of(fmt), shape=node.shape)
