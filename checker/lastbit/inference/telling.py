"""Ask the kernel on more inputs, until one variant is left or enough was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from lastbit.graph import topological
from lastbit.inference import inputs as kinds
from lastbit.inference.kernel import Arrays, Kernel
from lastbit.inference.records import MOST_SHOWN
from lastbit.inference.reference import Reference, is_sum
from lastbit.inference.running import Data, Runner
from lastbit.inference.separate import Apart, Group, Separator
from lastbit.inference.stacks import Stack, Stacks
from lastbit.inference.variants import Variant

MORE_ROUNDS = 6  # in which the kernel is called again to tell variants apart
ENOUGH = 1 << 19  # elements; with as many, a round that tells none apart is the last
MOST_SEEN = 1 << 22  # elements after which variants are no longer told apart in stacks
VERIFIED = 1 << 20  # elements on which the last variant is run, where it holds a sum
ALONE = 8  # stacks at most on which it is
MOST_CALLS = 20  # of the kernel on inputs that are aimed at two variants
MOST_GROUPED = 40  # variants that are compared with each other
MANY = (kinds.DRAWN, kinds.ABSORBED, kinds.WIDE, kinds.FAR, *kinds.DEEP, kinds.SHORT, kinds.BELOW)
"""What is seen in stacks."""
OFTEN = (kinds.DRAWN, kinds.WIDE, kinds.FAR)
"""What is seen again and again, with what told variants apart before."""


@dataclass
class Teller:
    """Tells variants of one reference apart.

    Attributes:
        reference: the reference.
        kernel: the kernel, or None where its results were given.
        runner: runs variants, and holds the data.
        separator: proves variants equal, and finds inputs where they differ.
        seed: selects every draw.
        effort: bounds the work, in blocks of data that a variant is run on.
        notes: what a reader must know.
        uncounted: kinds of inputs that do not count, since even the nearest variant differs there
            beside special values.
    """

    reference: Reference
    kernel: Kernel | None
    runner: Runner
    separator: Separator
    seed: int
    effort: int
    notes: list[str]
    uncounted: set[str] = field(default_factory=set)
    draws: int = 0

    def more_data(self, survivors: list[Variant]) -> list[Variant]:
        """Call the kernel on more inputs, and keep the variants that agree there too.

        Where none is left on usual inputs, those come first in the next search.
        """
        if self.kernel is None or not survivors:
            return survivors
        ref = self.reference
        for _ in range(MORE_ROUNDS):
            before = len(survivors)
            self.draws += 1
            for kind in (*ref.usual, *kinds.TELLING):
                inputs = ref.drawn(self.seed + self.draws, kind)
                survivors = self._kept(survivors, inputs, kind)
                if not survivors:
                    self.runner.bring_forward()
                    return []
            enough = self.runner.elements >= ENOUGH
            if len(survivors) == before and (enough or len(survivors) == 1):
                break
        return survivors

    def _kept(self, survivors: list[Variant], inputs: Arrays, name: str) -> list[Variant]:
        """Return the variants that agree on more inputs, which stay among the data.

        Where none does, but some only differ where a result is not ordinary, the inputs are taken
        back, and these variants are kept.
        """
        assert self.kernel is not None
        runner = self.runner
        runner.add(Data(name, inputs, self.kernel(inputs)))
        number = len(runner.data) - 1
        found = [(v, runner.whole(v, stop=True, numbers=[number])) for v in survivors]
        kept = [v for v, agreement in found if agreement is not None and agreement.whole]
        if kept:
            return kept
        counts = [runner.differences(v, number) for v in survivors]
        total = sum(codes.size for codes in runner.data[number].outputs.values())
        differ, ordinary = min(counts, key=lambda pair: (pair[1], pair[0]))
        if ordinary or name in kinds.USUAL:
            return []
        runner.drop_last()
        self._not_counted(name, differ, total)
        return [v for v, pair in zip(survivors, counts, strict=True) if not pair[1]]

    def _not_counted(self, kind: str, differ: int, total: int) -> None:
        if kind in self.uncounted:
            return
        self.uncounted.add(kind)
        self.notes.append(
            f"inputs {kind!r} were not counted: there the nearest differs in {differ:,} of "
            f"{total:,} elements, each beside infinity, NaN, zero or a subnormal; --special looks "
            "for the reason"
        )

    def seen_more(self, variants: list[Variant]) -> list[Variant]:
        """Return the variants that agree on up to four million more elements.

        It ends when one is left, and its work is bounded by the effort. One that holds a sum is run
        on a million all the same, since another tree rarely shows behind another rounding.
        """
        sums = any(is_sum(node) for v in variants for node in topological(v.nodes.values()))
        least = VERIFIED if sums else 0
        if self.kernel is None or (len(variants) < 2 and not least):
            return variants
        stacks = Stacks(self.reference, self.kernel, self.runner)
        blocks, seen = self.effort, 0
        near = (kinds.NEAR,) if self.reference.scales else ()
        todo, again = [*MANY, *near], [*OFTEN, *near]
        while blocks > 0 and seen < (MOST_SEEN if len(variants) > 1 else least):
            if not todo:
                todo = list(again)
            kind = todo.pop(0)
            self.draws += 1
            stack = stacks.stack(variants, kind, self.seed + self.draws)
            seen += stack.size
            blocks -= len(variants)
            kept = self._kept_of(variants, stack)
            if len(kept) < len(variants) and kind not in again:
                again.append(kind)
            variants = kept
            if not variants:
                break
            if len(variants) == 1:
                blocks = min(blocks, ALONE)
        return variants

    def _kept_of(self, variants: list[Variant], stack: Stack) -> list[Variant]:
        """Return the variants that agree on each call of a stack, as `_kept` does on one."""
        alive = stack.differs[:, 0] >= 0
        for call in range(stack.differs.shape[1]):
            differ, ordinary = stack.differs[:, call], stack.ordinary[:, call]
            if not differ[alive].any():
                continue
            clean = alive & (differ == 0)
            if not clean.any():
                clean = alive & (ordinary == 0)
                if not clean.any():
                    self.runner.take(stack.data(call))
                    return []
                total = sum(codes.size for codes in stack.outputs[call].values())
                self._not_counted(stack.kind, int(differ[clean].min()), total)
            alive = clean
        self.runner.seen[stack.kind] = self.runner.seen.get(stack.kind, 0) + stack.size
        return [v for v, kept in zip(variants, alive, strict=True) if kept]

    def told_apart(self, groups: list[Group]) -> tuple[list[Group], list[tuple[int, int, Apart]]]:
        """Ask the kernel where groups differ; return what is left, and inputs for that."""
        groups = _of(groups, self.seen_more([group.first for group in groups]))
        tried: set[frozenset[int]] = set()
        for call in range(MOST_CALLS if self.kernel is not None else 0):
            pairs = (pair for pair in combinations(groups, 2) if _pair(*pair) not in tried)
            pair = next(pairs, None)
            if pair is None:
                break
            tried.add(_pair(*pair))
            apart = self.separator.apart(pair[0].first, pair[1].first, skip=10 * call)
            if apart is None:
                continue
            firsts = [group.first for group in groups]
            groups = _of(groups, self._kept(firsts, apart.inputs, apart.kind))
        found = []
        for number, group in enumerate(groups[1:MOST_SHOWN], 1):
            apart = self.separator.apart(groups[0].first, group.first)
            if apart is not None:
                found.append((1, number + 1, apart))
        return groups, found


def _of(groups: Sequence[Group], kept: Sequence[Variant]) -> list[Group]:
    return [group for group in groups if any(group.first is v for v in kept)]


def _pair(a: Group, b: Group) -> frozenset[int]:
    return frozenset((id(a), id(b)))
