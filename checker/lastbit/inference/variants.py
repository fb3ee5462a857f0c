"""Variants of a program: what it is after some moves, and when two are one computation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from lastbit.definitions import Definitions
from lastbit.errors import LastbitError
from lastbit.graph import Node, Reduce, topological, with_args
from lastbit.inference.moves import Move
from lastbit.inference.sum_names import placeholder
from lastbit.levels import Seq


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
        """What two variants share that are one computation, however its sums are written."""
        return self._keys(placeholder)

    @cached_property
    def fits(self) -> bool:
        """Whether every schedule fits the number of terms that it adds up."""
        try:
            return bool(self.key)
        except LastbitError:
            return False

    @cached_property
    def skeleton(self) -> tuple[bytes, ...]:
        """What two variants share that differ in the trees of their sums alone."""
        return self._keys(_without_tree)

    def _keys(self, standing: Callable[[Node], Node | None]) -> tuple[bytes, ...]:
        built: dict[bytes, Node] = {}
        for node in topological(self.nodes.values()):
            new = with_args(node, built)
            built[node.key] = standing(new) or new
        return tuple(built[node.key].key for node in self.nodes.values())

    def plus(self, move: Move) -> Variant | None:
        """Return the variant with one more move, in place of those that it overrides.

        Moves are applied by rank; those that come after the new one are applied again.

        Returns:
            The variant; None where the move does not apply, or leaves nothing of another one.
        """
        if any(move.key == other.key for other in self.moves):
            return None
        kept = [other for other in self.moves if not move.overrides(other)]
        if len(kept) < len(self.moves):
            rest = Variant.of(self.base).after(kept)
            return None if rest is None else rest.plus(move)
        new = self._with(move)
        if new is None:
            return None
        for other in self.moves:
            if other.at == move.at and other.rank == move.rank:
                rest = Variant.of(self.base).after([m for m in self.moves if m is not other])
                alone = None if rest is None else rest._with(move)
                if alone is not None and alone.key == new.key:
                    return None
        return new

    def after(self, moves: Iterable[Move]) -> Variant | None:
        """Return the variant after more moves in this order; None where one does not apply."""
        variant: Variant | None = self
        for move in moves:
            variant = None if variant is None else variant._applied(move)
        return variant

    def _with(self, move: Move) -> Variant | None:
        if not self.moves or self.moves[-1].rank <= move.rank:
            return self._applied(move)
        before = [m for m in self.moves if m.rank <= move.rank]
        after = [m for m in self.moves if m.rank > move.rank]
        return Variant.of(self.base).after([*before, move, *after])

    def _applied(self, move: Move) -> Variant | None:
        edits = move.edits(self.program)
        if not edits:
            return None
        new = Variant((*self.moves, move), self.program.edited(edits), self.base)
        return new if new.fits else None


def _without_tree(node: Node) -> Node | None:
    if isinstance(node, Reduce) and node.schedule is not None:
        return Reduce(node.op, node.x, node.axis, Seq(), node.acc)
    return None
