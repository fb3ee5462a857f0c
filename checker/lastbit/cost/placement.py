"""Where and in which pieces the values of a program are computed.

A program says what is computed; a placement says how it runs: which values share a kernel, in which
tiles a kernel computes what it returns, and which sums are split across blocks of threads. Without
one, every named value is a kernel of its own that reads each operand once, as if all of its working
set fitted on the chip, and every sum is one loop, whatever its schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ALL = 1 << 62  # rows, columns or terms: as many as there are


@dataclass(frozen=True, slots=True)
class Tile:
    """The part of a value that one block of threads computes at a time, and what the block is.

    Of axes before the last two, a block takes one index at a time. What is None is not said; a size
    then counts as all of its axis, and what a block holds is not known.

    Attributes:
        rows: rows of the result.
        columns: columns of the result.
        depth: terms of a sum or an extreme that are loaded at a time.
        buffers: copies of each operand's block (2: one is filled while the other is used).
        threads: threads of a block.
        registers: registers of a thread, running sums aside.
        loads: loads of 16 bytes a thread that a warp has under way at once.
        in_registers: whether running sums lie in registers, not in shared memory.
    """

    rows: int | None = None
    columns: int | None = None
    depth: int | None = None
    buffers: int = 1
    threads: int | None = None
    registers: int | None = None
    loads: int | None = None
    in_registers: bool = False

    @property
    def cuts(self) -> bool:
        """Return whether any size is said."""
        return (self.rows, self.columns, self.depth) != (None, None, None)

    def over(self, other: Tile) -> Tile:
        """Return this tile, with what it leaves open taken from another."""
        return Tile(
            rows=_first(self.rows, other.rows),
            columns=_first(self.columns, other.columns),
            depth=_first(self.depth, other.depth),
            buffers=max(self.buffers, other.buffers),
            threads=_first(self.threads, other.threads),
            registers=_first(self.registers, other.registers),
            loads=_first(self.loads, other.loads),
            in_registers=self.in_registers or other.in_registers,
        )


def _first(own: int | None, theirs: int | None) -> int | None:
    return theirs if own is None else own


@dataclass(frozen=True, slots=True)
class Spill:
    """A running sum that is written to memory and read again while it is added up.

    Attributes:
        times: how often.
        format: short name of the format in which it is stored.
    """

    times: int
    format: str


@dataclass(frozen=True, slots=True)
class Placement:
    """How a program runs.

    Attributes:
        tiles: by value, the tiles in which the kernel that returns it works; of two that one kernel
            has, the later one counts.
        inside: pairs (value, reader): the value is computed in the kernel of the reader, which
            does not read it.
        together: groups of values that one kernel returns.
        split: values whose sum, if its schedule is a split, is split across blocks of threads: the
            pieces are stored, and another launch adds them.
        spills: by value, how its running sum is stored in between.
        adding: values to which blocks add their pieces as they come. It follows from `split`.
    """

    tiles: Mapping[str, Tile] = field(default_factory=dict)
    inside: frozenset[tuple[str, str]] = frozenset()
    together: tuple[frozenset[str], ...] = ()
    split: frozenset[str] = frozenset()
    spills: Mapping[str, Spill] = field(default_factory=dict)
    adding: frozenset[str] = frozenset()

    def then(self, other: Placement) -> Placement:
        """Return both placements, the later one first where they disagree."""
        tiles = dict(self.tiles)
        for name, tile in other.tiles.items():
            tiles[name] = tile.over(tiles.pop(name, Tile()))
        return Placement(
            tiles,
            self.inside | other.inside,
            (*self.together, *other.together),
            self.split | other.split,
            {**self.spills, **other.spills},
            self.adding | other.adding,
        )
