"""Variants of a program: what it is after some moves, and when two are one computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from lastbit.definitions import Definitions
from lastbit.graph import Node, Reduce, topological, with_args
from lastbit.inference.moves import Move
from lastbit.levels import Seq
from lastbit.schedule import Schedule, tree_hash

MOST_TERMS = 1 << 14  # of a sum whose tree is compared

_TREES: dict[tuple[int, str, int], Schedule] = {}


def _tree_name(schedule: Schedule, length: int, acc: str) -> Schedule:
    """Return the first schedule met that has the tree of one over so many elements."""
    if length > MOST_TERMS:
        return schedule
    return _TREES.setdefault((length, acc, tree_hash(schedule, length, acc)), schedule)


@dataclass(frozen=True)
class Variant:
    """A program after some moves.

    Attributes:
        moves: the moves, in the order in which they are applied.
        program: the program at the sizes that are run.
        base: the program before the first move.
    """

    moves: tuple[Move, ...]
    program: Definitions
    base: Definitions

    @classmethod
    def of(cls, program: Definitions) -> Variant:
        """Return a program as it is written."""
        return cls((), program, program)

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """The results, written out down to the inputs."""
        inputs = [name for name in self.program.nodes if self.program.is_input(name)]
        graph = self.program.closed(self.program.outputs, inputs)
        return {name: graph.values[name] for name in graph.outputs}

    @cached_property
    def key(self) -> tuple[bytes, ...]:
        """What two variants share that are one computation, however its trees are written."""
        return self._keys(_tree_name)

    @cached_property
    def skeleton(self) -> tuple[bytes, ...]:
        """What two variants share that differ in the trees of their sums alone."""
        return self._keys(lambda schedule, length, acc: Seq())

    def _keys(self, written: Callable[[Schedule, int, str], Schedule]) -> tuple[bytes, ...]:
        built: dict[bytes, Node] = {}
        for node in topological(self.nodes.values()):
            new = with_args(node, built)
            if isinstance(new, Reduce) and new.schedule is not None and new.acc is not None:
                schedule = written(new.schedule, new.length, new.acc.format.short)
                new = Reduce(new.op, new.x, new.axis, schedule, new.acc)
            built[node.key] = new
        return tuple(built[node.key].key for node in self.nodes.values())

    def plus(self, move: Move) -> Variant | None:
        """Return the variant with one more move; None where it does not apply.

        Moves are applied by rank; those that come after the new one are applied again.
        """
        if any(move.key == other.key for other in self.moves):
            return None
        if not self.moves or self.moves[-1].rank <= move.rank:
            return self._applied(move)
        before = [m for m in self.moves if m.rank <= move.rank]
        after = [m for m in self.moves if m.rank > move.rank]
        variant: Variant | None = Variant.of(self.base)
        for step in (*before, move, *after):
            variant = None if variant is None else variant._applied(step)
        return variant

    def _applied(self, move: Move) -> Variant | None:
        edits = move.edits(self.program)
        if not edits:
            return None
        return Variant((*self.moves, move), self.program.edited(edits), self.base)
