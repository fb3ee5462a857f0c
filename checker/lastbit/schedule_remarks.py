"""What a schedule does at given sizes that its text does not show."""

from __future__ import annotations

from collections.abc import Iterator

from lastbit.levels import Fused, Lanes, Level, Promote, Split
from lastbit.machines import unit_of
from lastbit.patterns import pieces_of
from lastbit.report.words import plural


def remarks(schedule: Level, k: int) -> list[str]:
    """Return, for a bound schedule over k terms, where it has fewer pieces, and shorter steps.

    A split or lanes may have fewer pieces than their number; a promotion may never happen; and
    pieces that are no multiple of a matrix unit's width end in a step that takes fewer products.
    """
    return list(dict.fromkeys(_remarks(schedule, k)))


def _remarks(level: Level, k: int) -> Iterator[str]:
    if isinstance(level, Split | Lanes):
        pieces = pieces_of(level, k)
        name = f"{level.word}({level.n})"
        if isinstance(level.n, int) and len(pieces) < level.n:
            yield f"`{name}` of {plural(k, 'term')} has {plural(len(pieces), 'piece')}"
        yield from _short_steps(level.inner, len(pieces[0]))
        yield from _remarks(level.inner, len(pieces[0]))
    if isinstance(level, Promote) and isinstance(level.every, int):
        if level.every >= k:
            yield f"`promote({level.every})` of {plural(k, 'term')} adds one part"
        else:
            yield from _short_steps(level.inner, level.every)
        yield from _remarks(level.inner, min(level.every, k))


def _short_steps(inner: Level, length: int) -> Iterator[str]:
    if isinstance(inner, Fused):
        width = unit_of(inner.unit).width
        rest = length % width
        if rest:
            yield f"each {length} products end in a step that takes {rest} of {width}"
