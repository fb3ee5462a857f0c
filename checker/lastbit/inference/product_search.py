"""Search the space of schedules for those that give the bits of a matrix product.

All schedules are run on a few outputs, on which they share their parts; what gives these, on more,
and so on to all. None is left out because another was found: only a differing output excludes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lastbit.formats import format_of
from lastbit.inference.pieces import Pieces
from lastbit.inference.product import Places, Product, Way, finished, outputs, spread
from lastbit.inference.schedules import Candidate
from lastbit.inference.search import Progress
from lastbit.inference.trees import Trees
from lastbit.round_array import Codes

SHARED: Final = ((2, 2), (2, 8), (8, 64))  # rows and columns, for all schedules at once
LAST_SHARED: Final = (16, 256)  # where many are left
MOST_SHARED: Final = 1 << 12  # outputs; where there are no more, that takes all
MANY: Final = 16
ALONE: Final = (64, 256)  # before all outputs
ENOUGH: Final = 8  # schedules that give all bits, after which only some work is done
MOST_WORK: Final = 1 << 32  # products, after that many are found
RETRIED: Final = 256  # of the nearest, on more outputs
BEST: Final = 24  # of these, on still more
NEAREST: Final = 5


@dataclass
class ProductSearch:
    """One search.

    Attributes:
        product: what was observed.
        candidates: the schedules, the plainest first.
        progress: called while schedules are tried.
        untried: schedules that gave some outputs and were not run on all.
        sampled: how many outputs those gave.
    """

    product: Product
    candidates: Sequence[Candidate]
    progress: Progress | None
    untried: int = 0
    sampled: int = 0
    ways: list[Way] = field(default_factory=list)

    def __post_init__(self) -> None:
        spec = self.product.spec
        exact = all(c.chain.exact for c in self.candidates) and self.product.holds_products
        self.trees = Trees(self.product.a.shape[1], format_of(spec.acc).short, exact)
        ways: dict[int | str, list[Candidate]] = {}
        for candidate in self.candidates:
            ways.setdefault(self.trees.key(candidate.schedule), []).append(candidate)
        for contract in (False, True) if self.product.may_contract else (spec.contract,):
            self.ways += [Way(tree, alike, contract) for tree, alike in ways.items()]

    def run(self) -> list[Way]:
        """Return what gives all bits."""
        left = self.ways
        shape = self.product.seen.shape
        for number, size in enumerate((*SHARED, self._last_shared)):
            if number == len(SHARED) and len(left) < MANY:
                break
            rows, columns = (spread(*pair) for pair in zip(shape, size, strict=True))
            self._show(0, f"{len(left):,} on {rows.size * columns.size:,} outputs")
            self.score(left, rows, columns)
            left = [way for way in left if way.whole]
            if rows.size * columns.size == self.product.seen.size:
                return left
        return self._alone(left)

    @property
    def _last_shared(self) -> tuple[int, int]:
        """Return the rows and columns of the last outputs that schedules run together."""
        seen = self.product.seen
        return (seen.shape[0], seen.shape[1]) if seen.size <= MOST_SHARED else LAST_SHARED

    def _alone(self, left: Sequence[Way]) -> list[Way]:
        """Return what gives all bits, each run on its own."""
        shape = self.product.seen.shape
        rows, columns = (spread(*pair) for pair in zip(shape, ALONE, strict=True))
        found: list[Way] = []
        work = 0
        for number, way in enumerate(left):
            if len(found) >= ENOUGH and work > MOST_WORK:
                rest = left[number:]
                self.untried, self.sampled = sum(len(w.candidates) for w in rest), rest[0].total
                break
            self._show(number / len(left), "alone")
            if rows.size * columns.size < self.product.seen.size:
                self.score_alone(way, rows, columns)
            if way.whole:
                self.on_all(way)
                work += self.product.work
            if way.whole:
                found.append(way)
        return found

    def differ_in_order_only(self, ways: Sequence[Way]) -> bool:
        """Return whether ways add the same parts, and no addition of them is rounded here.

        So the data tells the parts and does not tell in which order they are added. The outputs
        that are looked at are at most those on which all schedules were compared.
        """
        first = ways[0]
        for way in ways:
            if not isinstance(way.tree, int) or way.contract != first.contract:
                return False
        numbers = [int(way.tree) for way in ways]
        if len({self.trees.parts(number) for number in numbers}) > 1:
            return False
        shape = self.product.seen.shape
        rows, columns = (spread(*pair) for pair in zip(shape, self._last_shared, strict=True))
        a, b = self.product.a[rows], np.ascontiguousarray(self.product.b[:, columns])
        pieces = Pieces(a, b, self.product.spec.formats, self.trees.acc, self.trees)
        return pieces.add_exactly(numbers)

    def nearest(self) -> list[tuple[Way, Codes]]:
        """Return the ways that give the most outputs, best first, with all their outputs."""
        shape = self.product.seen.shape
        best = sorted(self.ways, key=lambda way: way.rank)[:RETRIED]
        for size, count in ((SHARED[-1], BEST), ((32, 64), NEAREST)):
            rows, columns = (spread(*pair) for pair in zip(shape, size, strict=True))
            self._show(0, "the nearest")
            self.score(best, rows, columns)
            best = sorted(best, key=lambda way: way.rank)[:count]
        near = [(way, self.on_all(way)) for way in best]
        return sorted(near, key=lambda pair: pair[0].rank)

    def score(self, ways: Sequence[Way], rows: Places, columns: Places) -> None:
        """Run ways on some outputs, together where their schedules share their parts."""
        product, spec = self.product, self.product.spec
        a, b = product.a[rows], np.ascontiguousarray(product.b[:, columns])
        seen = product.seen[np.ix_(rows, columns)]
        shared = [way for way in ways if isinstance(way.tree, int)]
        pieces = Pieces(a, b, spec.formats, self.trees.acc, self.trees)
        done = 0
        for acc in pieces.products([int(way.tree) for way in shared]):
            mine = shared[done : done + len(acc)]
            for contract in {way.contract for way in mine}:
                codes = finished(product, acc, contract, columns)
                counts = (codes == seen).sum((1, 2))
                for way, equal in zip(mine, counts, strict=True):
                    if way.contract == contract:
                        way.equal, way.total = int(equal), seen.size
            done += len(acc)
            self._show(done / len(ways), f"{seen.size:,} outputs each")
        for way in ways:
            if not isinstance(way.tree, int):
                self.score_alone(way, rows, columns)

    def score_alone(self, way: Way, rows: Places, columns: Places) -> None:
        """Run one way on some outputs."""
        codes = outputs(
            self.product, way, self.product.a[rows], self.product.b[:, columns], columns
        )
        seen = self.product.seen[np.ix_(rows, columns)]
        way.equal, way.total = int((codes == seen).sum()), seen.size

    def on_all(self, way: Way) -> Codes:
        """Run one way on all outputs and return them."""
        codes = outputs(self.product, way, self.product.a, self.product.b, None)
        way.equal, way.total = int((codes == self.product.seen).sum()), self.product.seen.size
        return codes

    def _show(self, share: float, text: str) -> None:
        if self.progress is not None:
            total = len(self.ways)
            self.progress(min(int(share * total), total - 1), total, text)
