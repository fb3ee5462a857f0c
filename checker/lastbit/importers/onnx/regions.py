"""The regions in which two models differ, each as a small plan of its own that can shrink.

A region holds the statements that differ and read one another. What it reads from outside becomes
its inputs, what is read outside its results. A model states its sizes as numbers; in a region the
larger ones become symbols where the region still fits together at other sizes, so that it can be
judged at small ones. Regions that are the same but for their names are judged once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lastbit.change import Change
from lastbit.errors import LastbitError
from lastbit.expression import parse_expression
from lastbit.graph import View, native_rounding
from lastbit.importers.imported import Imported
from lastbit.importers.onnx import foreigners
from lastbit.importers.onnx.shrinking import shrinkable
from lastbit.importers.renaming import substituted, words_of
from lastbit.plan_model import Plan
from lastbit.statement import Statement
from lastbit.text import Program

__all__ = ["Opener", "Region", "RegionError", "region_of", "regions", "words_of"]

UNREAD = "nothing outside reads any of it, on either side"
MOST_SHARED = 64  # values of a region that grows until both sides read the same
MOST_SEEN = 1024  # values that are looked at for what lies between two inputs of a region
PRIMES = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049)


@dataclass(frozen=True, slots=True)
class Region:
    """A region in which two models differ.

    Attributes:
        names: the values that differ, those of the first model first.
        results: the values among them that are read outside, or are results of the model.
        plan: the region alone; None where it cannot be a plan.
        why: the reason for that; empty where there is a plan.
        key: equal for regions that are the same but for their names.
        opaque: the operator that leaves it undecided, where that is the reason.
    """

    names: tuple[str, ...]
    results: tuple[str, ...]
    plan: Plan | None
    why: str
    key: str
    opaque: str = ""


def regions(before: Imported, after: Imported) -> list[Region]:
    """Return the regions in which two aligned models differ, in the order of the first.

    Raises:
        InputError: a model does not fit together.
    """
    return list(_Pair(before, after).regions())


def region_of(before: Imported, after: Imported, names: Iterable[str]) -> Region:
    """Return some values of two aligned models as one region, whether they differ or not.

    Raises:
        InputError: a model does not fit together.
    """
    return _Pair(before, after).region(set(names))


class Opener:
    """Takes what relates the inputs of a region into it, where it would be judged another function.

    Inputs are drawn apart. Where one is made from another, two sides may agree on all that the
    program can reach, and differ on what is drawn.

    Args:
        before: a model.
        after: the other, aligned.
        change: judges a region.
    """

    def __init__(
        self, before: Imported, after: Imported, change: Callable[[Region], Change]
    ) -> None:
        self.models, self.change = (before, after), change
        self._pair: _Pair | None = None

    def of(self, region: Region) -> Region:
        """Return a region, or the wider one of a better verdict."""
        now = Change.BITWISE if region.plan is None else self.change(region)
        if now < Change.MATH:
            return region
        if self._pair is None:
            self._pair = _Pair(*self.models)
        wider = self._pair.opened(region.names)
        return wider if wider is not None and self.change(wider) < now else region


class _Pair:
    """Two aligned models."""

    def __init__(self, before: Imported, after: Imported) -> None:
        self.models = before, after
        self.tables = tuple({st.name: st for st in m.program.statements} for m in self.models)
        symbols = {**after.symbols, **before.symbols}
        self.symbols = symbols
        self.sizes = {
            name: prime if span.low <= prime <= span.high else span.typical
            for (name, span), prime in zip(symbols.items(), PRIMES * len(symbols), strict=False)
        }
        self.graphs = tuple(model.program.bind(self.sizes) for model in self.models)
        self.reads = tuple(
            {name: _reads(st, table) for name, st in table.items()} for table in self.tables
        )
        opaque = {
            name: one.reads for model in self.models for one in model.opaque for name in one.gives
        }
        self.order = dict.fromkeys((*self.tables[0], *self.tables[1]))
        self.readers: dict[str, set[str]] = {}
        for reads in self.reads:
            for name, read in reads.items():
                for one in read:
                    self.readers.setdefault(one, set()).add(name)
        self.read_by_opaque = {name for reads in opaque.values() for name in reads}

    def regions(self) -> Iterator[Region]:
        """Yield the regions."""
        for names in self._convex(self._groups(self._changed())):
            region = self.region(names)
            if region.why != UNREAD:
                yield region

    def region(self, names: Collection[str]) -> Region:
        """Return the region of some values."""
        return self._region([name for name in self.order if name in names])

    def opened(self, names: Collection[str]) -> Region | None:
        """Return the region of some values and of what makes its inputs from one another."""
        inputs = set(self._outside(names))
        more = self._between(inputs, inputs)
        if not more or len(more) + len(names) > MOST_SHARED:
            return None
        found = self._region([name for name in self.order if name in names], more)
        return None if found.plan is None else found

    def _changed(self) -> dict[str, None]:
        """Return the values that are not stated alike, with what reads other formats of them."""
        first, second = self.tables
        changed = {
            name
            for name in self.order
            if _facts(first.get(name)) != _facts(second.get(name))
            and any(name in t and t[name].expr is not None for t in self.tables)
        }
        while True:
            odd = {name for name in changed if self._format(0, name) != self._format(1, name)}
            more = {user for name in odd for user in self.readers.get(name, ())} - changed
            if not more:
                return {name: None for name in self.order if name in changed}
            changed |= more

    def _format(self, side: int, name: str) -> object:
        st = self.tables[side].get(name)
        if st is None:
            return None
        if st.rounding is not None:
            return st.rounding
        rounding = native_rounding(self.graphs[side].values[name])
        return rounding if rounding is not None else "real"

    def _groups(self, changed: Mapping[str, None]) -> list[list[str]]:
        """Return the changed values, those that read one another together."""
        root = {name: name for name in changed}

        def find(name: str) -> str:
            while root[name] != name:
                root[name] = name = root[root[name]]
            return name

        for reads in self.reads:
            for name in changed:
                for read in reads.get(name, ()):
                    if read in changed:
                        root[find(read)] = find(name)
        groups: dict[str, list[str]] = {}
        for name in changed:
            groups.setdefault(find(name), []).append(name)
        return list(groups.values())

    def _convex(self, groups: list[list[str]]) -> list[set[str]]:
        """Return groups with what lies between their members; groups that then meet are one."""
        found = [set(group) for group in groups]
        while True:
            for group in found:
                after = self._reached(group, lambda name: self.readers.get(name, ()))
                group |= after & self._reached(group, self._read)
            merged: list[set[str]] = []
            for group in found:
                meeting = [other for other in merged if not other.isdisjoint(group)]
                merged = [other for other in merged if other.isdisjoint(group)]
                merged.append(group.union(*meeting))
            if len(merged) == len(found):
                return merged
            found = merged

    def _read(self, name: str) -> Iterable[str]:
        return {read for reads in self.reads for read in reads.get(name, ())}

    def _reached(self, start: Iterable[str], step: Callable[[str], Iterable[str]]) -> set[str]:
        """Return what can be reached by a step, in one or more."""
        seen: set[str] = set()
        stack = list(start)
        while stack:
            for name in step(stack.pop()):
                if name not in seen:
                    seen.add(name)
                    stack.append(name)
        return seen

    def _region(self, names: Sequence[str], held: Iterable[str] = ()) -> Region:
        changed = set(names)
        names = self._with_views(self._with_shared([*names, *held]))
        inside = set(names)
        more = inside - changed
        results = [n for n in names if n not in more and self._is_result(n, inside)]
        shared = tuple(n for n in results if all(n in table for table in self.tables))
        missing = [name for name in results if name not in shared]
        outside = self._outside(names)
        foreign = [name for name in outside if not all(name in table for table in self.tables)]
        why = opaque = ""
        given = [name for name in names if self._given_once(name)]
        if given:
            why = f"`{given[0]}` is given by an opaque operator in one model only"
            opaque = foreigners.operator_of(self.models, given[0])
        elif foreign:
            opaque, why = foreigners.reason(self.models, foreign)
        elif not results:
            why = UNREAD
        elif missing:
            why = f"`{missing[0]}` is not in both models"
        key = self._key(names, outside)
        if why:
            return Region(tuple(names), shared, None, why, key, opaque)
        plan = self._plan(names, outside, shared)
        return Region(tuple(names), shared, plan, "", key)

    def _given_once(self, name: str) -> bool:
        """Return whether a value is computed in one model, and given in the other."""
        return len({table[name].expr is None for table in self.tables if name in table}) > 1

    def _outside(self, names: Iterable[str]) -> list[str]:
        """Return what some values read of others."""
        inside = dict.fromkeys(names)
        found = (read for reads in self.reads for name in inside for read in reads.get(name, ()))
        return list(dict.fromkeys(read for read in found if read not in inside))

    def _with_shared(self, names: Sequence[str]) -> list[str]:
        """Return a region with what makes the values equal that its two sides read.

        Where one side reads a value that the other does not, the two may be related: ONNX Runtime
        computes what is computed twice only once. So such a value is computed inside, from what it
        reads, until both sides have come to the same values, or too much would be computed.
        """
        cones = [{name for name in names if name in table} for table in self.tables]
        while True:
            first, second = (
                {read for name in cone for read in reads.get(name, ())} - cone
                for cone, reads in zip(cones, self.reads, strict=True)
            )
            more = [
                {name for name in alone if self._computed_twice(name)}
                for alone in (first - second, second - first)
            ]
            if not any(more):
                between = self._between(first ^ second, first | second)
                more = [between - cone for cone in cones]
            if not any(more) or len(cones[0] | cones[1] | more[0] | more[1]) > MOST_SHARED:
                inside = cones[0].union(cones[1], names)
                return [name for name in self.order if name in inside]
            cones = [cone | new for cone, new in zip(cones, more, strict=True)]

    def _between(self, alone: set[str], inputs: set[str]) -> set[str]:
        """Return what makes inputs of a region from some of them, if that is not too much.

        One side may read a value, and the other side what a value is made from that both read. As
        inputs they would be drawn apart, although they belong together.
        """
        if not alone:
            return set()
        above, waiting = set(inputs), deque(inputs)
        while waiting and len(above) <= MOST_SEEN:
            name = waiting.popleft()
            if self._computed_twice(name):
                new = set(self._read(name)) - above
                above |= new
                waiting += new
        below: set[str] = set()
        stack = list(alone)
        while stack and len(below) <= MOST_SHARED:
            new = (self.readers.get(stack.pop(), set()) & above) - below
            below |= new
            stack += new
        found = {name for name in below if self._computed_twice(name)}
        return set() if len(below) > MOST_SHARED else found

    def _computed_twice(self, name: str) -> bool:
        return all(self._computed(table, name) for table in self.tables)

    @staticmethod
    def _computed(table: Mapping[str, Statement], name: str) -> bool:
        return name in table and table[name].expr is not None

    def _with_views(self, names: Sequence[str]) -> list[str]:
        """Return a region with what it reads that is not rounded, or a view of what it reads."""
        inside = set(names)
        while True:
            outside = set(self._outside(inside))
            more = {n for n in outside if (of := self._viewed(n)) and of in outside}
            more |= {n for n in outside if self._format(0, n) == "real"}
            if not more:
                return [name for name in self.order if name in inside]
            inside |= more

    def _viewed(self, name: str) -> str | None:
        """Return the value that another one is nothing but a view of; None: it is more."""
        reads = self.reads[0].get(name, ())
        if len(reads) != 1:
            return None
        values = self.graphs[0].values
        node, target = values[name], values[reads[0]]
        while isinstance(node, View) and len(node.xs) == 1 and node.key != target.key:
            node = node.xs[0]
        return reads[0] if node.key == target.key else None

    def _is_result(self, name: str, inside: set[str]) -> bool:
        if name in self.models[0].program.outputs or name in self.read_by_opaque:
            return True
        return not self.readers.get(name, set()) <= inside

    def _key(self, names: Sequence[str], outside: Sequence[str]) -> str:
        """Return the region as a text in which names are numbers."""
        numbers = {name: f"v{i}" for i, name in enumerate((*outside, *names))}
        lines = [
            f"{numbers[name]}: {self._format(0, name)} {self.graphs[0].values[name].shape}"
            for name in outside
            if name in self.graphs[0].values
        ]
        for table in self.tables:
            for st in (table[name] for name in names if name in table):
                facts = f"{st.rounding} {st.acc} {st.schedule}"
                lines.append(f"{numbers[st.name]} = {substituted(st.expr or '', numbers)} {facts}")
        return "\n".join(lines)

    def _plan(self, names: Sequence[str], outside: Sequence[str], results: Sequence[str]) -> Plan:
        inputs = [self._input(name) for name in outside]
        programs = [
            Program(
                (*inputs, *(table[n] for n in table if n in names and table[n].expr is not None)),
                tuple(results),
            )
            for table in self.tables
        ]
        model = self.models[0]
        drawn = {name: one for name, one in model.inputs.items() if name in outside}
        plan = Plan(self.models[1].file, "region", programs[0], programs[1], inputs=drawn)
        return shrinkable(plan, self.symbols, self.sizes, model.batch)

    def _input(self, name: str) -> Statement:
        """Return the statement of an input with the shape that a value has."""
        node = self.graphs[0].values[name]
        rounding = native_rounding(node)
        st = self.tables[0][name]
        if rounding is None:
            raise RegionError(f"`{name}` is not rounded")
        dims = tuple(parse_expression(str(size)) for size in node.shape)
        return Statement(name, rounding, dims, None, None, None, st.place)


class RegionError(LastbitError):
    """A region cannot be a plan of its own."""


def _facts(st: Statement | None) -> tuple[object, ...] | None:
    if st is None:
        return None
    return st.expr, str(st.rounding), str(st.acc), str(st.schedule)


def _reads(st: Statement, table: Mapping[str, Statement]) -> tuple[str, ...]:
    return tuple(name for name in words_of(st.expr or "") if name in table)
