"""Cut regions where a value is stored in a narrow format, so that each reader is judged alone.

Where a value is read unrounded in two places, `regions` finds one region of both and of all that
lies between them, a whole feed-forward part behind a residual. Inductor's kernels meet in buffers
only: what is stored in bf16 or f16 on both sides is the end of one piece and an input of the next.
A piece holds all that a value is computed from, down to such values, on either side.

The pieces bound the whole: the kernels follow from the graph by changing one piece after another,
and inside a piece both sides read the same inputs, whatever these are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lastbit.expression import parse_expression
from lastbit.importers.imported import Imported
from lastbit.importers.inductor.matching import NARROW
from lastbit.importers.onnx.regions import UNREAD, Region, region_of, regions
from lastbit.importers.renaming import words_of
from lastbit.statement import Statement
from lastbit.text import Program

UNROUNDED = "__unrounded"  # ends the name of a value that is stated before its rounding, too
MOST_PIECES = 64  # of one region
MOST_BEHIND = 80  # values between a wide one and where it is stored

_MOVED = re.compile(r"(reshape|transpose|broadcast)\(\w+\b|\w+\[|\w+$", re.ASCII)
_VIEW = re.compile(r"(reshape|transpose|broadcast)\(\w+\b|\w+\[", re.ASCII)

Table = dict[str, Statement]


@dataclass(slots=True)
class Group:
    """Regions that hang together, and their pieces.

    Attributes:
        regions: as `regions` finds them.
        pieces: the same changes, each with what it is stored as; none where that is nothing else.
    """

    regions: list[Region]
    pieces: list[Region]


def groups_of(before: Imported, after: Imported) -> list[Group]:
    """Return the regions in which two aligned models differ, with their pieces.

    Args:
        before: the graph.
        after: what the kernels do.
    """
    splitter = _Splitter(before, after)
    found: list[tuple[list[Region], dict[str, None]]] = []
    for region in regions(before, after):
        ends = splitter.ends(region)
        meeting = [one for one in found if not one[1].keys().isdisjoint(ends)]
        found = [one for one in found if one not in meeting]
        together = [one for held, _ in meeting for one in held]
        all_ends = {end: None for _, others in meeting for end in others} | dict.fromkeys(ends)
        found.append(([*together, region], all_ends))
    return [Group(held, splitter.pieces(held, list(ends))) for held, ends in found]


class _Splitter:
    def __init__(self, before: Imported, after: Imported) -> None:
        self.models = before, after
        self.tables: tuple[Table, ...] = tuple(
            {st.name: st for st in model.program.statements} for model in self.models
        )
        self.reads = tuple(
            {name: [r for r in words_of(st.expr or "") if r in table] for name, st in table.items()}
            for table in self.tables
        )
        originals = {origin.original: name for name, origin in before.origins.items()}
        self.rounded = {  # by a value that is not rounded, the same value rounded
            name: originals[origin.original.removesuffix(UNROUNDED)]
            for name, origin in after.origins.items()
            if origin.original.endswith(UNROUNDED)
            and origin.original.removesuffix(UNROUNDED) in originals
        }
        self.readers: dict[str, set[str]] = {}
        for reads in self.reads:
            for name, read in reads.items():
                for one in read:
                    self.readers.setdefault(one, set()).add(name)
        self.touched = self._touched()

    def ends(self, region: Region) -> list[str]:
        """Return the values of a region, or behind it, that are stored."""
        found: dict[str, None] = {}
        for name in region.names:
            if name not in self.touched or not self._in_both(name):
                continue
            if self._is_stored(name):
                found[name] = None
            elif name in region.results:
                found |= dict.fromkeys(self._behind(name) or (name,))
        return list(found)

    def _behind(self, name: str) -> list[str] | None:
        """Return the stored values that hang on a wide one; None where that is too far to say."""
        seen, stack, ends = {name}, [name], []
        while stack:
            for reader in self.readers.get(stack.pop(), ()):
                if reader in seen:
                    continue
                seen.add(reader)
                if self._in_both(reader) and self._is_stored(reader):
                    ends.append(reader)
                else:
                    stack.append(reader)
            if len(seen) > MOST_BEHIND:
                return None
        order = [one for one in self.tables[0] if one in ends]
        return [name, *order] if self._is_result(name) else order

    def pieces(self, held: Sequence[Region], ends: Sequence[str]) -> list[Region]:
        """Return the pieces that end in some values; none where a region is one piece."""
        if any(region.plan is None and "not in both" in region.why for region in held):
            return []
        found = {end: self._inside(end) for end in ends}
        swallowed = {n for end, inside in found.items() for n in inside if n != end}
        alone = [end for end in found if end not in swallowed]
        if not alone or len(alone) > MOST_PIECES:
            return []
        if len(held) == 1 and held[0].results == tuple(alone):
            return []
        pieces = (self._piece(end, found[end]) for end in alone)
        return [piece for piece in pieces if piece.why != UNREAD]

    def _in_both(self, name: str) -> bool:
        return all(name in table for table in self.tables)

    def _is_result(self, name: str) -> bool:
        return name in self.models[0].program.outputs

    def _is_stored(self, name: str) -> bool:
        """Return whether a value is in a narrow format on both sides, or a result."""
        first, second = (table[name].rounding for table in self.tables)
        return self._narrow(name) or (self._is_result(name) and first == second)

    def _narrow(self, name: str) -> bool:
        """Return whether both models hold a value in the same narrow format."""
        first, second = (table.get(name) for table in self.tables)
        if first is None or second is None or first.rounding is None:
            return False
        return first.rounding == second.rounding and first.rounding.format.short in NARROW

    def _same(self, name: str) -> bool:
        first, second = (table.get(name) for table in self.tables)
        return _facts(first) == _facts(second)

    def _touched(self) -> set[str]:
        """Return what differs, and what reads that before it is rounded to a narrow format."""
        found = {name for table in self.tables for name in table if not self._same(name)}
        stack = list(found)
        while stack:
            name = stack.pop()
            if self._narrow(name):
                continue
            for reader in self.readers.get(name, set()) - found:
                found.add(reader)
                stack.append(reader)
        return found

    def _is_cut(self, name: str) -> bool:
        """Return whether a value is an input of the pieces that read it."""
        if not self._in_both(name) or any(_is_exact(table[name]) for table in self.tables):
            return False
        return self._narrow(name) or name not in self.touched

    def _inside(self, end: str) -> set[str]:
        """Return the narrow values inside the piece of a value.

        What one side reads unrounded, and the other rounded, is no input: it is computed inside,
        from what it is computed from.
        """
        inside = {end}
        while True:
            cones = self._cones(end, inside)
            inputs = [self._inputs(side, cone) for side, cone in enumerate(cones)]
            first, second = (cone | given for cone, given in zip(cones, inputs, strict=True))
            odd = first ^ second
            rounded = {self.rounded[n] for cone in cones for n in cone if n in self.rounded}
            more = {
                name
                for name in inputs[0] | inputs[1]
                if name in rounded
                or (name in odd and not odd.isdisjoint(self._read(name)))
                or not odd.isdisjoint(self._moved(name))
            }
            more = {name for name in more if self._is_computed(name)} - inside
            if not more:
                return inside
            inside |= more

    def _inputs(self, side: int, cone: Iterable[str]) -> set[str]:
        read = {one for name in cone for one in self.reads[side].get(name, ())}
        return read - set(cone)

    def _read(self, name: str) -> set[str]:
        return {one for reads in self.reads for one in reads.get(name, ())}

    def _moved(self, name: str) -> set[str]:
        """Return what a value is, but for casts and moves of elements."""
        found: set[str] = set()
        stack = [name]
        while stack:
            one = stack.pop()
            expr = self.tables[0][one].expr if one in self.tables[0] else None
            if expr is not None and _MOVED.match(expr):
                more = set(self.reads[0][one]) - found
                found |= more
                stack += more
        return found

    def _is_computed(self, name: str) -> bool:
        return self._in_both(name) and all(t[name].expr is not None for t in self.tables)

    def _cones(self, end: str, inside: Iterable[str]) -> tuple[set[str], set[str]]:
        """Return what a value is computed from on both sides, down to inputs of the piece."""
        return self._cone(0, end, inside), self._cone(1, end, inside)

    def _cone(self, side: int, end: str, inside: Iterable[str]) -> set[str]:
        opened = set(inside)
        found, stack = {end}, [end]
        while stack:
            for read in self.reads[side].get(stack.pop(), ()):
                if read not in found and (read in opened or not self._is_cut(read)):
                    found.add(read)
                    stack.append(read)
        return found

    def _piece(self, end: str, inside: set[str]) -> Region:
        cones = self._cones(end, inside)
        ends = [n for n in self.tables[0] if n == end or (n in inside and not self._same(n))]
        first, second = (self._alone(side, cone, ends) for side, cone in enumerate(cones))
        names = {
            name
            for side, cone in enumerate(cones)
            for name in cone
            if self.tables[side][name].expr is not None  # what is given is an input of the piece
        }
        return region_of(first, second, names)

    def _alone(self, side: int, cone: set[str], ends: list[str]) -> Imported:
        """Return the part of a model that a piece is, with views of what it reads."""
        model, table = self.models[side], self.tables[side]
        held = {name for name in (*cone, *ends) if name in table}
        stack = list(held)
        given: set[str] = set()
        while stack:
            for read in self.reads[side].get(stack.pop(), ()):
                if read in held:
                    continue
                if self._is_view(read) or _is_exact(table[read]):
                    held.add(read)
                    stack.append(read)
                else:
                    given.add(read)
        statements = [
            st if name in held else self._given(model, st)
            for name, st in table.items()
            if name in held or name in given
        ]
        program = Program(tuple(statements), tuple(ends))
        return replace(model, program=program, results=tuple(ends))

    def _is_view(self, name: str) -> bool:
        """Return whether a value only moves elements of others, the same ones on both sides."""
        if name in self.touched or not all(map(self._is_cut, self.reads[0].get(name, ()))):
            return False
        return _VIEW.match(self.tables[0][name].expr or "") is not None

    def _given(self, model: Imported, st: Statement) -> Statement:
        if st.expr is None:
            return st
        dims = tuple(map(parse_expression, model.shapes[st.name]))
        return Statement(st.name, st.rounding, dims, None, None, None, st.place)


def _is_exact(st: Statement) -> bool:
    """Return whether a value is computed and never rounded, as integers are: no format holds it."""
    return st.rounding is None and st.expr is not None


def _facts(st: Statement | None) -> tuple[object, ...]:
    return () if st is None else (st.expr, st.rounding, str(st.acc), str(st.schedule))
