"""A program under a placement, and what becomes of its launches when a little of it changes.

A step of a plan changes a few definitions, or where a few values are computed. Only the launches
around them are costed again; all others, however many there are, stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lastbit.cost.kernels import groups_of, in_order
from lastbit.cost.layout import Laid, laid_out
from lastbit.cost.placement import Placement
from lastbit.cost.stored import is_stored
from lastbit.cost.traffic import Costs, KernelCost, costs_of, peak_of
from lastbit.definitions import Definitions, reads
from lastbit.graph import Input, topological


@dataclass(frozen=True, slots=True)
class Whole:
    """A program under a placement.

    Attributes:
        program: the program at fixed sizes.
        placement: how it runs.
        laid: the program and its placement with every launch's values named.
        home: by value that is computed, the launch that does it.
        users: by value, the values whose launches read it.
        known: costs of launches, to be used again.
    """

    program: Definitions
    placement: Placement
    laid: Laid
    home: Mapping[str, KernelCost]
    users: Mapping[str, frozenset[str]]
    known: Costs

    @classmethod
    def of(cls, program: Definitions, placement: Placement) -> Whole:
        """Return all of a program.

        Raises:
            CycleError: values that are placed together cannot share a kernel.
        """
        laid = laid_out(program, placement)
        whole = cls(program, placement, laid, {}, {}, {})
        return whole.changed(program, placement, laid.program.nodes)[0]

    @property
    def peak_bytes(self) -> int:
        """Return the greatest number of bytes alive at once.

        Raises:
            CycleError: launches wait for each other.
        """
        program = self.laid.program
        kernels = {name: self.home[name].kernel for name in program.nodes if name in self.home}
        order = [self.home[kernel.values[0]] for kernel in in_order(kernels)]
        return peak_of(program, order)

    def launches(self, names: Iterable[str]) -> list[KernelCost]:
        """Return the launches that compute some values, or that compute them inside; each once."""
        found: dict[tuple[str, ...], KernelCost] = {}
        seen: set[str] = set()
        stack = list(names)[::-1]
        program = self.laid.program
        while stack:
            name = stack.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in self.home:
                found.setdefault(self.home[name].kernel.values, self.home[name])
            elif name in program.nodes and not program.is_input(name):
                stack += program.consumers(name)
        return list(found.values())

    def changed(
        self, program: Definitions, placement: Placement, names: Iterable[str]
    ) -> tuple[Whole, frozenset[str]]:
        """Return this whole with some definitions or places changed, and the values around them.

        Args:
            program: the program after the change.
            placement: how it runs then.
            names: the values of which a definition or a place is new.
        """
        laid = laid_out(program, placement)
        given = program
        program = laid.program
        part = _Part(self, laid, {*names, *laid.differences(self.laid)})
        while True:
            home, users, touched = part.costed()
            gone = {n for n in touched if n in home and not users[n] and n not in program.outputs}
            new = {n for n in touched if users[n] and n not in home and not program.is_input(n)}
            more = (gone | new) - part.names
            if not more:
                whole = Whole(given, placement, laid, home, users, self.known)
                return whole, frozenset(part.names)
            part.add(more)


class _Part:
    """The values around a change: those of which the launches may differ."""

    def __init__(self, whole: Whole, laid: Laid, names: Iterable[str]) -> None:
        self.whole, self.program, self.placement = whole, laid.program, laid.placement
        self.old, program = whole.laid.program, laid.program
        self.names: set[str] = set()
        places = (whole.laid.placement, laid.placement)
        self._groups = [groups_of(p.together) for p in places]
        self._inside: dict[str, set[str]] = {}  # by value, what is computed around it or inside
        for pair in places[0].inside | places[1].inside:
            for one, other in (pair, pair[::-1]):
                self._inside.setdefault(one, set()).add(other)
        self.add(names)
        near = set(self.names)
        for name in near:
            for side in (self.old, program):
                if name in side.nodes:
                    self.add(read for read in reads(side.nodes[name]) if read != name)

    def add(self, names: Iterable[str]) -> None:
        """Take in some values, and all that share their launches."""
        stack = list(names)
        while stack:
            name = stack.pop()
            known = name in self.old.nodes or name in self.program.nodes
            if name in self.names or not known or self._is_input(name):
                continue
            self.names.add(name)
            stack += self._inside.get(name, ())
            for side in (self.old, self.program):
                if name in side.nodes and not is_stored(side, name):
                    stack += side.consumers(name)
            for groups in self._groups:
                stack += groups.get(name, ())

    def _is_input(self, name: str) -> bool:
        return name in self.program.nodes and self.program.is_input(name)

    def costed(
        self,
    ) -> tuple[dict[str, KernelCost], dict[str, frozenset[str]], dict[str, None]]:
        """Return the launches of all values, their readers, and which readers are others now.

        The launches of the part are costed anew.
        """
        whole, program, names = self.whole, self.program, self.names
        home, users = dict(whole.home), dict(whole.users)
        touched: dict[str, None] = {}
        for cost in whole.launches(names):
            for name in (*cost.kernel.values, *cost.kernel.reads):
                users[name] = users.get(name, frozenset()) - names
                touched[name] = None
        for name in names:
            home.pop(name, None)
        results = [n for n in names if n in program.outputs or users.get(n)]
        for cost in costs_of(self._alone(results), self.placement, whole.known):
            values = frozenset(cost.kernel.values)
            home.update(dict.fromkeys(values, cost))
            for name in cost.kernel.reads:
                users[name] = users.get(name, frozenset()) | values
                touched[name] = None
        return home, users, touched

    def _alone(self, results: list[str]) -> Definitions:
        """Return the part as a program, in which all other values are inputs."""
        program = self.program
        nodes = {name: program.nodes[name] for name in self.names if name in program.nodes}
        for node in list(nodes.values()):
            for leaf in topological([node]):
                if isinstance(leaf, Input):
                    nodes.setdefault(leaf.name, leaf)
        order = {name: nodes[name] for name in program.nodes if name in nodes}
        return Definitions(order, tuple(name for name in order if name in results))
