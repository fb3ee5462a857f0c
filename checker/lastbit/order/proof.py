"""Show that a function has a given tree, with far fewer probes than it takes to find one.

Every step v that goes on into a step u gets M and -M at elements a and b of two of its children,
and a unit at an element c of each other child of u. The unit stays in the sum if and only if c is
added after a and b have met. A step of more than two children also gets, for every two of them,
M and -M there and units at all others, which must vanish. Elements stand for subtrees: that of a
step is the one of its first or of its smallest child. A tree in which all of this holds is the
given one: for two children each, the places where the a and b meet lie in it as the steps do in
the given tree, so there are as many and no others (compare M. Steel, J. Classif. 9, 1992, on the
triples that define a rooted tree); units that vanish leave steps of several children no other way.

One probe asks many such questions. *Side by side*: in subtrees that lie apart, M has random digits
in each, so that M of one place and -M of another do not cancel; all steps of one height are asked
for in a few probes. *One above the other*: the M of a lower step is larger, so that a higher step
leaves the units of lower ones as they are, each in digits of its own; for trees as deep as a
running sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lastbit.interpret.intervals import Floats
from lastbit.order.findings import MisfitError
from lastbit.order.probe import Prober
from lastbit.order.tree import Ints, OrderTree
from lastbit.order.units import Units
from lastbit.round_array import Codes, encode_array

CERTAIN: Final = 40  # binary digits of chance that side by side must have in all
CHEAP: Final = 256  # probes in a batch that cost less than to look for fewer
MOST_TERMS: Final = 64  # children of one step that are told apart
LEAST_RATIO: Final = 16  # binary digits between M and a unit, beyond what is lost, side by side


@dataclass(frozen=True)
class Questions:
    """Questions to ask, ordered by step; a question is a row of every array.

    Attributes:
        plus: the element with M.
        minus: the element with -M.
        units: the elements with units, filled up with -1.
        keeps: whether the units stay in the sum, else they vanish.
        layer: questions of one layer lie in subtrees that are apart.
        meet: the step where the two elements meet.
    """

    plus: Ints
    minus: Ints
    units: Ints
    keeps: NDArray[np.bool_]
    layer: Ints
    meet: Ints

    def __len__(self) -> int:
        return len(self.plus)


class Proof:
    """Asks a function whether it has a tree.

    Args:
        prober: hands probes to the function.
        units: the numbers that probes are made of.
    """

    def __init__(self, prober: Prober, units: Units) -> None:
        self.prober, self.units = prober, units

    def holds(self, tree: OrderTree) -> bool:
        """Say whether all results are those that the tree gives.

        Raises:
            MisfitError: the format is too narrow to ask, or a step has too many children.
        """
        if max(tree.widths, default=0) > MOST_TERMS:
            raise MisfitError("a step has too many children to ask for every two")
        if len(tree) < 2 and tree.binary:
            return True
        layers = _count_layers(tree)
        asked = len(tree) + sum(w * (w - 1) // 2 * c for w, c in tree.widths.items() if w > 2)
        stacked = self._levels(tree)
        times = -(-CERTAIN // max(1, self._digits - 1))
        few = max(asked / max(1, stacked), CHEAP if self.prober.batched else 0)
        if self._fits_side_by_side and layers * times <= few:
            questions = _questions(tree, smallest=False)
            return all(self._side_by_side(questions) for _ in range(times))
        if stacked < 1:
            raise MisfitError("the format is too narrow for a proof")
        return self._stacked(tree, _questions(tree, smallest=True), stacked)

    @property
    def _digits(self) -> int:
        """The digits of a random M: as many as every level is known to keep."""
        return min(self.units.bits, self.prober.format.precision)

    @property
    def _fits_side_by_side(self) -> bool:
        lost = self.units.sharp
        return self.units.ratio >= 2 * lost + LEAST_RATIO and self._digits > 2

    def _side_by_side(self, questions: Questions) -> bool:
        """Ask the questions of each layer in one probe."""
        order = np.argsort(questions.layer, kind="stable")
        layer = questions.layer[order]
        units = (questions.units >= 0).sum(1)[order]
        # A new probe for each layer, and where the units would be too many to count.
        cut = np.diff(layer, prepend=-1) != 0
        most = (1 << self.units.room) - 1
        if np.bincount(np.cumsum(cut), units).max() > most:
            total = 0
            for i, (new, count) in enumerate(zip(cut.tolist(), units.tolist(), strict=True)):
                cut[i] = new or total + count > most
                total = count if cut[i] else total + count
        row = np.cumsum(cut) - 1
        plus = 2.0**self.units.top * self._significands(len(order))
        ask = Ask(questions, order, row, plus, np.full(len(order), 2.0**self.units.low))
        return self._agree(ask)

    def _significands(self, count: int) -> Floats:
        """Return random numbers in [1, 2), below the largest of the format."""
        digits = self._digits
        drawn = self.prober.random.integers(0, 1 << (digits - 1), count)
        fmt = self.prober.format
        most = 2.0 if self.units.wide else float(fmt.max_finite / 2**fmt.emax)
        found: Floats = np.minimum(1 + drawn * 2.0 ** (1 - digits), most)
        return found

    def _shifts(self, tree: OrderTree) -> tuple[int, int]:
        """Return by how much units lie below their M, and by how much the next M lies lower.

        M and what came before it are 2^(1 - bits) M apart from the next number; -M and what came
        before it half of that. So M may be nearer to its units where -M always comes first.
        """
        many = max(0, max(tree.widths) - 2).bit_length()
        below = self.units.sharp + many
        return below, max(1, below - (self.units.bits - 1) - _is_caterpillar(tree)) + many

    def _levels(self, tree: OrderTree) -> int:
        """Return how many questions one probe can ask one above the other."""
        width = max(tree.widths)
        below, apart = self._shifts(tree)
        many = max(0, width - 2).bit_length()
        kept = (self.units.bits - 1 - many) // apart + 1
        held = (self.units.ratio - below) // apart + 1 if self.units.ratio >= below else 0
        return max(0, min(kept, held))

    def _stacked(self, tree: OrderTree, questions: Questions, levels: int) -> bool:
        """Ask questions one above the other, far apart in the tree, lower ones with larger M."""
        below, apart = self._shifts(tree)
        low, high, place = _intervals(tree)
        todo = np.arange(len(questions))
        rows_used = 0
        order: list[Ints] = []
        row: list[Ints] = []
        level: list[Ints] = []
        while len(todo):
            rows = -(-len(todo) // levels)
            at = np.arange(len(todo))
            chosen = _compatible(
                questions, todo, at % rows, at // rows, rows, levels, low, high, place
            )
            order.append(todo[chosen])
            row.append(rows_used + (at % rows)[chosen])
            level.append((at // rows)[chosen])
            rows_used += rows
            todo = todo[~chosen]
        step = np.concatenate(level)
        plus: Floats = 2.0 ** (self.units.top - apart * step).astype(np.float64)
        by_row = np.argsort(np.concatenate(row), kind="stable")
        ask = Ask(
            questions,
            np.concatenate(order)[by_row],
            np.concatenate(row)[by_row],
            plus[by_row],
            (plus * 2.0**-below)[by_row],
        )
        return self._agree(ask)

    def _agree(self, ask: Ask) -> bool:
        """Say whether every probe gives the sum of the units that are to stay in it."""
        fmt = self.prober.format
        questions = ask.questions
        plus, minus = encode_array(ask.plus, fmt), encode_array(-ask.plus, fmt)
        units = encode_array(ask.unit, fmt)
        places = questions.units[ask.order]
        count = int(ask.row[-1]) + 1
        starts = np.searchsorted(ask.row, np.arange(count + 1))

        def fill(block: Codes, start: int, stop: int) -> None:
            part = slice(int(starts[start]), int(starts[stop]))
            rows = ask.row[part] - start
            block[rows, questions.plus[ask.order[part]]] = plus[part]
            block[rows, questions.minus[ask.order[part]]] = minus[part]
            for column in places[part].T:
                there = column >= 0
                block[rows[there], column[there]] = units[part][there]

        kept = np.where(questions.keeps[ask.order], (places >= 0).sum(1), 0) * ask.unit
        wanted = np.bincount(ask.row, kept, count)
        return bool((self.prober.run(count, fill) == wanted).all())


@dataclass(frozen=True)
class Ask:
    """Questions put into probes.

    Attributes:
        questions: all questions.
        order: those that are asked, ordered by probe.
        row: the probe of each.
        plus: the M of each.
        unit: the unit of each.
    """

    questions: Questions
    order: Ints
    row: Ints
    plus: Floats
    unit: Floats


def _is_caterpillar(tree: OrderTree) -> bool:
    """Say whether every step adds two values, one of which at least is an element."""
    return tree.binary and bool((tree.kids.reshape(-1, 2).min(1) < tree.leaves).all())


def _count_layers(tree: OrderTree) -> int:
    widest = max(tree.widths)
    pairs = widest * (widest - 1) // 2 if widest > 2 else 0
    return tree.depth * (widest + pairs)


def _stand_ins(tree: OrderTree, smallest: bool) -> list[int]:
    """Return the element that stands for each node: that of its first or its smallest child."""
    found = list(range(tree.leaves))
    if tree.binary and not smallest:
        for a in tree.pairs[0]:
            found.append(found[a])
        return found
    sizes = tree.sizes
    if tree.binary:
        for a, b in zip(*tree.pairs, strict=True):
            found.append(found[a if sizes[a] <= sizes[b] else b])
        return found
    for step in tree.steps:
        found.append(found[min(step, key=sizes.__getitem__) if smallest else step[0]])
    return found


def _questions(tree: OrderTree, smallest: bool) -> Questions:
    """Return the questions that prove a tree, ordered by the step where elements meet."""
    n, widest = tree.leaves, max(tree.widths)
    stand = np.array(_stand_ins(tree, smallest))
    heights = np.array(tree.heights)
    starts = np.concatenate(([0], tree.ends))
    columns: list[tuple[Ints, Ints, Ints, bool, Ints, Ints]] = []
    for width in tree.widths:
        steps = np.flatnonzero(np.diff(starts) == width)
        kids = tree.kids[starts[steps][:, None] + np.arange(width)]
        pairs = width * (width - 1) // 2 if width > 2 else 0
        layer = heights[n + steps] * (widest + widest * (widest - 1) // 2)
        for k in range(width):
            inner = kids[:, k] >= n
            v = kids[inner, k] - n
            others = stand[np.delete(kids[inner], k, 1)]
            a, b = stand[tree.kids[starts[v]]], stand[tree.kids[starts[v] + 1]]
            if smallest and tree.binary:  # -M where more comes before it
                turned = tree.kids[starts[v]] >= n
                a, b = np.where(turned, b, a), np.where(turned, a, b)
            columns.append((a, b, others, True, layer[inner] + k, v))
        for k, (i, j) in enumerate(zip(*np.triu_indices(width, 1), strict=True)):
            if k >= pairs:
                break
            others = stand[np.delete(kids, (i, j), 1)]
            layers = layer + widest + k
            columns.append((stand[kids[:, i]], stand[kids[:, j]], others, False, layers, steps))
    filled = [
        np.pad(c[2], ((0, 0), (0, widest - 1 - c[2].shape[1])), constant_values=-1) for c in columns
    ]
    meet = np.concatenate([c[5] for c in columns])
    order = np.argsort(meet, kind="stable")
    return Questions(
        np.concatenate([c[0] for c in columns])[order],
        np.concatenate([c[1] for c in columns])[order],
        np.concatenate(filled)[order],
        np.concatenate([np.full(len(c[0]), c[3]) for c in columns])[order],
        np.concatenate([c[4] for c in columns])[order],
        meet[order],
    )


def _intervals(tree: OrderTree) -> tuple[Ints, Ints, Ints]:
    """Return for each step the places of its elements, first and end, and the place of each."""
    n, sizes = tree.leaves, tree.sizes
    first = [0] * (n + len(tree))
    if tree.binary:
        for at, a, b in zip(range(len(first) - 1, n - 1, -1), *tree.turned_pairs, strict=True):
            first[a] = start = first[at]
            first[b] = start + sizes[a]
    else:
        for position, step in zip(range(len(tree) - 1, -1, -1), reversed(tree.steps), strict=True):
            start = first[n + position]
            for kid in step:
                first[kid] = start
                start += sizes[kid]
    low = np.array(first[n:])
    return low, low + np.array(sizes[n:]), np.array(first[:n])


def _compatible(
    questions: Questions,
    todo: Ints,
    row: Ints,
    level: Ints,
    rows: int,
    levels: int,
    low: Ints,
    high: Ints,
    place: Ints,
) -> NDArray[np.bool_]:
    """Say which questions may stay in their probe beside the earlier ones of it.

    They must not share an element, and the units of a later one must not lie where the larger M
    of an earlier one would take them away.
    """
    table = np.full((levels, rows), -1)
    table[level, row] = todo
    there = table >= 0
    fine = np.zeros((levels, rows), bool)
    units = np.where(there[:, :, None], questions.units[table], -1)
    ends = np.stack([questions.plus[table], questions.minus[table]], 2)
    own = np.concatenate([ends, units], 2)
    at = np.where(units >= 0, place[units], -1)
    begin, end = low[questions.meet[table]], high[questions.meet[table]]
    for i in range(levels):
        bad = np.zeros(rows, bool)
        for j in range(own.shape[2]):
            mine = own[i, :, j]
            shared = ((own[:i] == mine[:, None]).any(2) & (mine >= 0)) & fine[:i]
            bad |= shared.any(0)
        for j in range(units.shape[2]):
            taken = (at[i, :, j] >= begin[:i]) & (at[i, :, j] < end[:i]) & fine[:i]
            bad |= taken.any(0)
        fine[i] = there[i] & ~bad
    return fine[level, row]
