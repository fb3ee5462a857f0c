"""Search the variants of a program for those that have the kernel's bits.

First each change alone, then pairs; every variant is run on a part of the data, and what agrees
there on everything. The nearest pairs are then changed further, as long as that brings them nearer.
How the arithmetic between two roundings is done (every operation rounded, a function computed from
others) is one change, however many operations it touches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from lastbit.inference.moves import FINISH, FORM, Move, moves_of
from lastbit.inference.running import Agreement, Runner
from lastbit.inference.variants import Variant
from lastbit.rule import Rewrite

DEPTH = 3  # changes at a time
EFFORT = 400  # variants of two changes that are tried, and of more
BEAM = 8  # variants that are changed once more
CLIMBS = 4  # variants that are changed as long as that brings them nearer
MOST_CHANGES = 6  # of such a variant
TREES = ("sum-by", "all-reduce-order", "scan-chunks", "recompute-by-other-schedule")
NEAREST = 5  # that are reported where none agrees
MOST_FOUND = 80  # variants that give all bits, after which no more are sought


def is_tree(move: Move) -> bool:
    """Return whether a move changes how a sum is added up."""
    return move.rule.code.startswith("RED") or move.rule.name in TREES


Progress = Callable[[int, int, str], None]
Option = tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Tried:
    """A variant that was run.

    Attributes:
        variant: the variant.
        agreement: how it agrees with the kernel, on a part of the data or on all.
    """

    variant: Variant
    agreement: Agreement

    @property
    def rank(self) -> tuple[float, float, int]:
        """Return a key that sorts the nearest first."""
        return -self.agreement.share, self.agreement.distance, len(self.variant.moves)


@dataclass
class Search:
    """A search over variants.

    Attributes:
        runner: runs variants on the data.
        base: the reference as it is written.
        depth: the most changes at a time; 3 and above: as many as bring a variant nearer.
        effort: the most variants of two changes that are tried, and of more.
        special: whether moves count that change only special values.
        rules: the rules; None: those of the catalogue.
        progress: called with variants tried, variants in all, and what is tried.
        machine: the machine whose matrix unit may add products, or None.
        tried: variants run.
        cut_short: whether there were more variants than were tried.
        base_failed: why the reference cannot be run; empty where it can.
    """

    runner: Runner
    base: Variant
    depth: int = DEPTH
    effort: int = EFFORT
    special: bool = False
    rules: Sequence[Rewrite] | None = None
    progress: Progress | None = None
    machine: str | None = None
    tried: int = 0
    cut_short: bool = False
    base_failed: str = ""
    _left: int = 0
    _start: Tried = field(init=False)
    _ranked: list[Tried] = field(default_factory=list)
    _seen: dict[tuple[bytes, ...], Variant] = field(default_factory=dict)
    _aliases: dict[tuple[bytes, ...], list[Variant]] = field(default_factory=dict)
    _singles: dict[Option, Tried] = field(default_factory=dict)
    _moves: dict[tuple[bytes, ...], list[Move]] = field(default_factory=dict)

    def run(self) -> list[Variant]:
        """Return the variants with the fewest changes that agree on all data."""
        self.runner.start(self.base)
        self._ranked, self._singles = [], {}
        self._seen, self._aliases = {}, {}
        start = self._try(self.base, self.base)
        if start is None:
            self.base_failed = next(iter(self.runner.unable), "it has no value")
            return []
        self._start = start
        found = [self.base] if self._agrees(start) else []
        if self.depth > 0:
            found += self._single()
        if not found and self.depth > 1:
            found = self._pairs()
        if not found and self.depth > 2:
            found = self._climb()
        return found

    def nearest(self) -> list[tuple[Variant, Agreement]]:
        """Return the variants that agree most, each with its agreement on all data."""
        best: dict[tuple[float, float, int | None], Tried] = {}
        for one in sorted(self._ranked, key=lambda one: one.rank):
            failure = one.agreement.failure
            key = (one.agreement.share, one.agreement.distance, failure and failure[2])
            best.setdefault(key, one)
            if len(best) == 2 * NEAREST:
                break
        return self.measured([one.variant for one in best.values()])[:NEAREST]

    def measured(self, variants: Sequence[Variant]) -> list[tuple[Variant, Agreement]]:
        """Return variants with their agreement on all data, the nearest first."""
        found = [
            (variant, agreement)
            for variant in variants[: 2 * NEAREST]
            if (agreement := self.runner.whole(variant)) is not None
        ]
        found.sort(key=lambda pair: (-pair[1].share, pair[1].distance, len(pair[0].moves)))
        return found

    # The three stages.

    def _single(self) -> list[Variant]:
        """Try each change alone."""
        options = list(self._options(self.base))
        found = []
        for number, option in enumerate(options):
            self._show(number, len(options), "each change alone")
            one = self._extended(self.base, option)
            if one is not None:
                self._singles[option] = one
                if self._agrees(one):
                    found.append(one.variant)
        self._show(len(options), len(options), "each change alone")
        return found

    def _pairs(self) -> list[Variant]:
        """Change the nearest variants once more, the likeliest changes first."""
        beam = self._beam([self._start, *self._singles.values()])
        plans = [list(self._options(one.variant)) for one in beam]
        queue = [
            (one, plan[number])
            for number in range(max(map(len, plans), default=0))
            for one, plan in zip(beam, plans, strict=True)
            if number < len(plan) and one is not self._start
        ]
        found: list[Variant] = []
        left = self.effort
        for number, (parent, option) in enumerate(queue):
            if not left or len(found) >= MOST_FOUND:
                self.cut_short = True
                break
            self._show(self.effort - left, min(self.effort, len(queue)), "pairs of changes")
            one = self._extended(parent.variant, option)
            if one is not None:
                left -= 1
                if self._agrees(one):
                    found.append(one.variant)
            if number % len(beam) == 0:
                self.runner.tick()
        self._show(1, 1, "pairs of changes")
        self.runner.forget()
        return found

    def resume(self, failed: Sequence[Variant]) -> list[Variant]:
        """Change variants further that agreed on less data, as long as that brings them nearer."""
        self.runner.start(self.base)
        measured = [self._measured(v) for v in failed[: 4 * CLIMBS]]
        self._ranked = [one for one in measured if one is not None]
        return self._climb() if self.depth > 2 else []

    def _climb(self) -> list[Variant]:
        """Change the nearest variants as long as that brings them nearer."""
        self._left = self.effort
        for one in self._beam(self._ranked)[:CLIMBS]:
            if self._left <= 0:
                break
            found = self._climb_from(one)
            if found:
                self._show(1, 1, "more changes")
                return found
        self._show(1, 1, "more changes")
        return []

    def _climb_from(self, start: Tried) -> list[Variant]:
        floor = self._left // 2  # the rest is for other starts
        current = self._measured(start.variant) if start.agreement.whole else start
        while current is not None and len(current.variant.moves) < MOST_CHANGES:
            better: Tried | None = None
            for option in self._options(current.variant):
                if self._left <= floor:
                    self.cut_short = True
                    return []
                self._show(self.effort - self._left, self.effort, "more changes")
                new = self._extended(current.variant, option)
                if new is None:
                    continue
                self._left -= 1
                if self._agrees(new):
                    return [new.variant]
                if new.agreement.whole:
                    new = self._measured(new.variant) or new
                if new.rank < (better or current).rank:
                    better = new
                    if new.agreement.share > current.agreement.share:
                        break
            self.runner.forget()
            current = better
        return []

    def beside(self, variant: Variant) -> list[Variant]:
        """Return variants that agree too and differ from one in one change at the same place.

        They are what the data does not tell from it: other trees of the same sum, other formats of
        the same rounding.
        """
        found: list[Variant] = []
        for number, move in enumerate(variant.moves):
            if move.rank == FINISH:
                continue
            rest: Variant | None = Variant.of(self.base.program)
            for other in variant.moves:
                if other is not move and rest is not None:
                    rest = rest.plus(other)
            if rest is None:
                continue
            options = [
                other
                for other in self._moves_of(rest)
                if other.rank == move.rank and set(other.at) & set(move.at)
            ]
            for count, option in enumerate(options[: self.effort]):
                text = f"beside change {number + 1}"
                self._show(count, min(len(options), self.effort), text)
                one = self._extended(rest, (option,))
                if one is not None and self._agrees(one):
                    found.append(one.variant)
            self.cut_short = self.cut_short or len(options) > self.effort
            self.runner.forget()
        self._show(1, 1, "")
        return found

    def aliases(self, variant: Variant) -> list[Variant]:
        """Return variants that were met and are the same computation."""
        return self._aliases.get(variant.key, [])

    # One variant.

    def _extended(self, parent: Variant, option: Option) -> Tried | None:
        variant: Variant | None = parent
        for move in option:
            variant = None if variant is None else variant.plus(move)
        return None if variant is None else self._try(variant, parent)

    def _try(self, variant: Variant, parent: Variant) -> Tried | None:
        if variant.key in self._seen:
            known = self._seen[variant.key]
            if len(known.moves) >= len(variant.moves) and {*known.moves} != {*variant.moves}:
                self._aliases.setdefault(variant.key, []).append(variant)
            return None
        self._seen[variant.key] = variant
        agreement = self.runner.first(variant, parent)
        self.tried += 1
        if agreement is None:
            return None
        one = Tried(variant, agreement)
        self._ranked.append(one)
        return one

    def _agrees(self, one: Tried) -> bool:
        if not one.agreement.whole:
            return False
        whole = self.runner.whole(one.variant, stop=True)
        return whole is not None and whole.whole

    def _measured(self, variant: Variant) -> Tried | None:
        """Return a variant with how it agrees on all data."""
        whole = self.runner.whole(variant)
        return None if whole is None else Tried(variant, whole)

    # What is tried next.

    def _options(self, parent: Variant) -> Iterator[Option]:
        """Yield the changes to a variant, the likeliest first.

        Trees of sums come late, and last the changes that alone change nothing.
        """
        finished = any(move.rank == FINISH for move in parent.moves)
        moves = self._moves_of(parent)
        forms = [move for move in moves if move.rank == FORM]
        ends = [] if finished else [move for move in moves if move.rank == FINISH]
        yield from ((form,) for form in forms if finished)
        yield from ((end,) for end in ends)
        yield from ((form, end) for end in ends for form in forms)
        plain: list[Option] = [(m,) for m in moves if m.rank not in (FORM, FINISH)]
        yield from sorted(plain, key=self._order)

    def _order(self, option: Option) -> tuple[bool, bool, tuple[float, float, int]]:
        """Return a key that sorts changes by what they did alone."""
        one = self._singles.get(option)
        if one is None:  # it is new, or the same as an earlier one
            return False, is_tree(option[0]), (-1.0, 0.0, 1)
        return not _differs(one, self._start), is_tree(option[0]), one.rank

    def _moves_of(self, parent: Variant) -> list[Move]:
        """Return the moves that apply to a variant, before every operation was rounded."""
        if any(move.rank == FINISH for move in parent.moves):
            without: Variant | None = Variant.of(self.base.program)
            for move in parent.moves:
                if move.rank != FINISH and without is not None:
                    without = without.plus(move)
            parent = without or self.base
        if parent.key not in self._moves:
            self._moves[parent.key] = moves_of(
                parent.program, self.special, self.rules, self.runner.tick, self.machine
            )
        return self._moves[parent.key]

    def _beam(self, level: Sequence[Tried]) -> list[Tried]:
        """Return the nearest variants, of those that agree alike the first."""
        chosen: dict[tuple[float, float], Tried] = {}
        for one in sorted(level, key=lambda one: one.rank):
            chosen.setdefault((one.agreement.share, one.agreement.distance), one)
            if len(chosen) == BEAM:
                break
        return list(chosen.values())

    def _show(self, done: int, total: int, text: str) -> None:
        if self.progress is not None:
            self.progress(done, total, text)


def _differs(one: Tried, start: Tried) -> bool:
    """Return whether a variant has other bits than the reference on the part that was run."""
    a, b = one.agreement, start.agreement
    return (a.share, a.distance, a.failure) != (b.share, b.distance, b.failure)
