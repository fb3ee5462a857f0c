"""Search the variants of a program for those that have the kernel's bits.

First each change alone, then pairs; every variant is run on a part of the data, and what agrees
there on everything. The nearest pairs are then changed further, as long as that brings them nearer.
How the arithmetic between two roundings is done (every operation rounded, a function computed from
others) is one change, however many operations it touches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from lastbit.inference.agreement import Agreement
from lastbit.inference.moves import FINISH, FORM, ONE_CONSTANT, ONE_TREE, Move, moves_of
from lastbit.inference.running import Runner
from lastbit.inference.tried import GENERAL, Rank, Tried, rank_of
from lastbit.inference.variants import Variant
from lastbit.rule import Rewrite

DEPTH = 3  # changes at a time
EFFORT = 400  # variants of two changes that are tried, and of more
BEAM = 8  # variants that are changed once more
CLIMBS = 4  # variants that are changed as long as that brings them nearer
MOST_CHANGES = 6  # of such a variant
MOST_CONSTANTS = 2  # changes of constants that are changed once more
NEAREST = 5  # that are reported where none agrees
MOST_FOUND = 80  # variants that give all bits, after which no more are sought


Progress = Callable[[int, int, str], None]
Option = tuple[Move, ...]


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
            found = self._climb(self._starts(self._ranked))
        return found

    def nearest(self) -> list[tuple[Variant, Agreement]]:
        """Return the variants that agree most, each with its agreement on all data.

        Of those that change the same values by the same rules one is named, and none that is no
        nearer than one with fewer changes.
        """
        best: dict[frozenset[tuple[object, ...]], Tried] = {}
        for one in sorted(self._ranked, key=lambda one: one.rank):
            key = frozenset((move.rule.code, move.rule.name, move.at) for move in one.variant.moves)
            best.setdefault(key, one)
            if len(best) == 4 * NEAREST:
                break
        if (start := getattr(self, "_start", None)) is not None:
            best.setdefault(frozenset(), start)
        near: list[tuple[Variant, Agreement]] = []
        found = self.measured([one.variant for one in best.values()])
        for variant, agreement in found:
            fewer = [a for v, a in found if len(v.moves) < len(variant.moves)]
            if all(a.share < agreement.share for a in fewer):
                near.append((variant, agreement))
        return near[:NEAREST]

    def measured(self, variants: Sequence[Variant]) -> list[tuple[Variant, Agreement]]:
        """Return variants with their agreement on all data, the nearest first."""
        found = [
            (variant, agreement)
            for variant in variants
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
        beam += [one for one in self._without_guards() if one not in beam]
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

    def _without_guards(self) -> list[Tried]:
        """Return changes of constants that bring more elements on all data.

        They only show on some inputs, and beside another change not in the part that is run first.
        """
        changed = [one for o, one in self._singles.items() if o[0].rule.name in ONE_CONSTANT]
        whole = self._measured(self._start.variant)
        if not changed or whole is None:
            return []
        found = self._measured_all([one.variant for one in changed])
        better = [one for one in found if one.agreement.equal > whole.agreement.equal]
        return better[:MOST_CONSTANTS]

    def resume(self, failed: Sequence[Variant]) -> list[Variant]:
        """Change variants further that agreed on less data, as long as that brings them nearer."""
        self.runner.start(self.base)
        tried, self._seen = self._ranked, {}
        if self.depth > 2:
            found = self._climb(self._measured_all(failed[: 4 * CLIMBS])[:CLIMBS])
            found = found or self._climb(self._starts(tried))
            if found:
                return found
        if min(len(v.moves) for v in failed) > 1:
            return []
        return self.run()  # what failed was plain, so little else was tried

    def _climb(self, starts: Sequence[Tried]) -> list[Variant]:
        """Change variants as long as that brings them nearer."""
        self._left = self.effort
        for one in starts:
            if self._left <= 0:
                break
            found = self._climb_from(one)
            if found:
                self._show(1, 1, "more changes")
                return found
        self._show(1, 1, "more changes")
        return []

    def _starts(self, tried: Sequence[Tried]) -> list[Tried]:
        """Return those of the nearest variants that are nearest on all data."""
        return self._measured_all([one.variant for one in self._beam(tried)])[:CLIMBS]

    def _measured_all(self, variants: Sequence[Variant]) -> list[Tried]:
        """Return variants with how they agree on all data, the nearest first."""
        measured = [self._measured(variant) for variant in variants]
        return sorted((one for one in measured if one is not None), key=rank_of)

    def _climb_from(self, start: Tried) -> list[Variant]:
        """Change a variant further, by what it agrees with on all data."""
        floor = self._left // 2  # the rest is for other starts
        current: Tried | None = start
        while current is not None and len(current.variant.moves) < MOST_CHANGES:
            better: Tried | None = None
            part = self.runner.first(current.variant, current.variant)
            for parent, option in self._neighbours(current.variant):
                if self._left <= floor:
                    self.cut_short = True
                    return []
                self._show(self.effort - self._left, self.effort, "more changes")
                new = self._extended(parent, option)
                if new is None:
                    continue
                self._left -= 1
                if part is not None and new.agreement.share < part.share:
                    continue
                best = better or current
                whole = self.runner.whole(new.variant, most=best.agreement.differing)
                if whole is not None and whole.whole:
                    return [new.variant]
                if whole is not None and rank_of(Tried(new.variant, whole)) < rank_of(best):
                    better = Tried(new.variant, whole)
                    if whole.equal > current.agreement.equal and not option[-1].is_tree:
                        break  # of trees the best is taken
            self.runner.forget()
            current = better
        return []

    def _neighbours(self, variant: Variant) -> Iterator[tuple[Variant, Option]]:
        """Yield what makes a variant with one change more, or with one in place of another."""
        yield from ((variant, option) for option in self._options(variant))
        for rest, moves in self._replaced(variant):
            yield from ((rest, (move,)) for move in moves)

    def _replaced(self, variant: Variant) -> Iterator[tuple[Variant, list[Move]]]:
        """Yield a variant without one of its changes, and others at the same place.

        All that changes the tree of one sum counts as one change, and so do the forms of a value.
        """
        for move in variant.moves:
            gone = [move]
            if move.is_tree or move.rank == FORM:
                kind = move.is_tree, move.rank, move.at
                gone = [o for o in variant.moves if (o.is_tree, o.rank, o.at) == kind]
            if move.rank == FINISH or move is not gone[0]:
                continue
            rest = Variant.of(self.base.program).after([m for m in variant.moves if m not in gone])
            if rest is not None:
                moves = self._moves_of(rest)
                yield rest, [m for m in moves if _alike(m, move) and {*m.at} & {*move.at}]

    def _trees(self, variant: Variant) -> Iterator[tuple[Variant, list[Move]]]:
        """Yield a variant and all other trees of its sums."""
        yield variant, [move for move in self._moves_of(variant) if move.rule.name in ONE_TREE]

    def beside(self, variant: Variant) -> list[Variant]:
        """Return variants that may agree too and differ from one in one change at the same place.

        They are what the data does not tell from it: other trees of the same sum, other formats of
        the same rounding. They agree on a part of each data set.
        """
        found: list[Variant] = []
        both = chain(self._replaced(variant), self._trees(variant))
        for number, (rest, moves) in enumerate(both):
            for count, move in enumerate(moves[: self.effort]):
                text = f"beside change {number + 1}"
                self._show(count, min(len(moves), self.effort), text)
                one = self._extended(rest, (move,), last_first=True)
                if one is not None and one.agreement.whole:
                    found.append(one.variant)
            self.cut_short = self.cut_short or len(moves) > self.effort
            self.runner.forget()
        self._show(1, 1, "")
        return found

    def aliases(self, variant: Variant) -> list[Variant]:
        """Return variants that were met and are the same computation."""
        return self._aliases.get(variant.key, [])

    # One variant.

    def _extended(self, parent: Variant, option: Option, last_first: bool = False) -> Tried | None:
        variant: Variant | None = parent
        for move in option:
            variant = None if variant is None else variant.plus(move)
        return None if variant is None else self._try(variant, parent, last_first)

    def _try(self, variant: Variant, parent: Variant, last_first: bool = False) -> Tried | None:
        if variant.key in self._seen:
            known = self._seen[variant.key]
            if len(known.moves) >= len(variant.moves) and {*known.moves} != {*variant.moves}:
                self._aliases.setdefault(variant.key, []).append(variant)
            return None
        self._seen[variant.key] = variant
        agreement = self.runner.first(variant, parent, last_first)
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

    def _order(self, option: Option) -> tuple[bool, bool, bool, Rank]:
        """Return a key that sorts changes by what they did alone."""
        one = self._singles.get(option)
        if one is None:  # it is new, or the same as an earlier one
            return False, option[0].is_tree, True, (-1.0, 0.0, 1, 0)
        general = option[0].rule.code in GENERAL
        return not _differs(one, self._start), option[0].is_tree, general, one.rank

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


def _alike(a: Move, b: Move) -> bool:
    """Return whether one move may stand in place of another."""
    return a.rank == b.rank or (a.is_tree and b.is_tree)


def _differs(one: Tried, start: Tried) -> bool:
    """Return whether a variant has other bits than the reference on the part that was run."""
    a, b = one.agreement, start.agreement
    return (a.share, a.distance, a.failure) != (b.share, b.distance, b.failure)
