"""Read one graph of a debug folder: the program before, that after, and what was dropped between.

The graph before is the one that Inductor was given. The graph after is the one that its own passes
made of it, in which a value is read unrounded where the kernels read it so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lastbit.errors import LastbitError, Place
from lastbit.importers.imported import Imported, ImportedFileError
from lastbit.importers.inductor.building import program_of, result_names
from lastbit.importers.inductor.folder import (
    FUSED,
    HOW,
    OUTPUT,
    READABLE,
    RUNNABLE,
    TRANSFORMED,
    GraphFolder,
)
from lastbit.importers.inductor.fx import Graph, read_graph
from lastbit.importers.inductor.loops import Fusion, read_fusion
from lastbit.importers.inductor.matching import Readings, readings_of
from lastbit.importers.inductor.meanings import (
    Meanings,
    is_cast,
    is_choice,
    is_move,
    meanings_of,
)
from lastbit.importers.inductor.unrounded import Unrounded, is_library, parts_of, roundings

_FLAG = re.compile(r"^torch\._inductor\.config\.([\w.]{1,100}) = (\S{1,100})$", re.MULTILINE)
_NUMBERED = re.compile(r":\d+$")
_TRITON = re.compile(r"\b(triton_(?:red|per)_\w+)", re.ASCII)
_BLOCK = re.compile(r"'R0_BLOCK': (\d+)")
# Flags on which roundings depend.
FLAGS = (
    "emulate_precision_casts",
    "emulate_division_rounding",
    "use_fast_math",
    "split_reductions",
)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A rounding of the graph before that a kernel does not do.

    Attributes:
        name: the value that is no longer rounded, as the graph before names it.
        reader: the node that reads it unrounded; None: it is returned so.
        format: what it was rounded to.
        kernels: where.
        place: the line of the user's source that computes it.
        assumed: whether this follows from the kernel's list of nodes only.
    """

    name: str
    reader: str | None
    format: str
    kernels: tuple[str, ...]
    place: Place
    assumed: bool = False


@dataclass(frozen=True, slots=True)
class Merged:
    """A rounding that is gone since one library call computes what two operators did.

    Attributes:
        name: the value of the graph before that is gone.
        into: the node that took its place.
        operator: of that node.
        place: the line of the user's source.
    """

    name: str
    into: str
    operator: str
    place: Place


@dataclass(frozen=True, slots=True)
class Reading:
    """One graph of a debug folder.

    Attributes:
        folder: where it was read.
        before: the program before Inductor.
        middle: the program after Inductor's own passes over the graph, every value rounded.
        after: what the kernels compute.
        dropped: roundings that kernels do not do, in the order of the graph.
        merged: values that a library call swallowed.
        kernels: each with the nodes in it, in the order of launches.
        flags: those on which roundings depend, as texts.
        reductions: how the kernels reduce, a sentence each.
        notes: what could not be read, and was assumed.
        first: the graph before Inductor's own passes.
        graph: that after them.
        fusion: the operations; None where the folder does not hold them.
        readings: how they read values.
        meanings: of the nodes.
        numbers: says what a meaning is.
    """

    folder: GraphFolder
    before: Imported
    middle: Imported
    after: Imported
    dropped: tuple[Dropped, ...]
    merged: tuple[Merged, ...]
    kernels: dict[str, list[str]]
    flags: dict[str, str]
    reductions: tuple[str, ...]
    notes: tuple[str, ...]
    first: Graph
    graph: Graph
    fusion: Fusion | None
    readings: Readings | None
    meanings: dict[str, int]
    numbers: Meanings

    def inside(self, meaning: int) -> Iterator[int]:
        """Yield what a meaning is put together of, itself first, down to inputs and calls."""
        yield from parts_of(self.numbers, [meaning], set())


def read_graph_folder(folder: GraphFolder) -> Reading:
    """Return what a folder of one graph says.

    Raises:
        ImportedFileError: a file of it cannot be read.
    """
    try:
        return _Reader(folder).reading()
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        if isinstance(error, LastbitError):
            raise
        what = f"{type(error).__name__}: {str(error)[:100]}"
        cause = f"its files do not fit together ({what})"
        raise ImportedFileError(folder.shown, cause, HOW) from error


class _Reader:
    def __init__(self, folder: GraphFolder) -> None:
        self.folder = folder
        text = folder.text(READABLE)
        if text is None:
            raise ImportedFileError(folder.shown, f"it holds no {READABLE}", HOW)
        self.first = read_graph(text, f"{folder.shown}/{READABLE}")
        text = folder.text(TRANSFORMED)
        self.second = self.first
        if text is not None:
            self.second = read_graph(text, f"{folder.shown}/{TRANSFORMED}")
        self.kernels = folder.kernels()
        self.in_kernels: dict[str, list[str]] = {}
        for kernel, names in self.kernels.items():
            for name in names:
                self.in_kernels.setdefault(name, []).append(kernel)
        self.flags = self._flags()
        self.notes: list[str] = []
        self.numbers = Meanings()
        self.meanings = meanings_of(self.second, self.numbers)
        text = folder.text(FUSED)
        self.fusion = self.readings = None
        if text is not None:
            self.fusion = read_fusion(text, f"{folder.shown}/{FUSED}")
            looped = "triton_red_" in (folder.text(OUTPUT) or "")
            self.readings = readings_of(
                self.fusion, self.second, self.meanings, self.numbers, looped
            )
        elif not self.kernels:
            cause = f"it holds neither {FUSED} nor which nodes fused into which kernel"
            raise ImportedFileError(folder.shown, cause, HOW)
        self.unrounded = Unrounded(
            self.second,
            self.meanings,
            self.numbers,
            self.readings,
            self.in_kernels,
            self.flags.get("emulate_precision_casts") == "True",
        )

    def _flags(self) -> dict[str, str]:
        text = self.folder.text(RUNNABLE)
        found = dict(_FLAG.findall(text or ""))
        return {name: found[name] for name in FLAGS if name in found}

    def reading(self) -> Reading:
        before = program_of(self.first, self.folder.shown)
        renamed = result_names(self.first, self.second, self.folder.shown)
        middle = program_of(self.second, self.folder.shown, None, renamed)
        after = program_of(self.second, self.folder.shown, self.unrounded, renamed)
        dropped = tuple(self._dropped())
        if any("cuda" in node.device for node in self.second.nodes.values()):
            self.notes.append("a product and a sum may be one fused multiply-add in Triton")
        assumed = self.unrounded.assumed
        if assumed:
            pairs = sorted({read for _, read in assumed})[:4]
            names = ", ".join(f"`{name}`" for name in pairs)
            self.notes.append(
                f"{len(assumed)} readings ({names} ...) were found in no loop body: taken "
                "as unrounded, for reader and value are in one kernel"
            )
        return Reading(
            self.folder,
            before,
            middle,
            after,
            dropped,
            tuple(self._merged()),
            self.kernels,
            self.flags,
            tuple(self._reductions()),
            tuple(self.notes),
            self.first,
            self.second,
            self.fusion,
            self.readings,
            self.meanings,
            self.numbers,
        )

    def _dropped(self) -> Iterator[Dropped]:
        seen: set[object] = set()
        for node in self.second.nodes.values():
            if is_move(node) or is_cast(node) or is_choice(node, self.second):
                continue
            for read in dict.fromkeys(node.reads):
                if self.unrounded(node.name, read):
                    yield from self._found(node.name, read, seen)
        for name in self.second.results:
            if self.unrounded("", name):
                yield from self._found(None, name, seen)

    def _found(self, reader: str | None, read: str, seen: set[object]) -> Iterator[Dropped]:
        for node in roundings(self.second, read, self.unrounded):
            if (node.name, reader) not in seen:
                seen.add((node.name, reader))
                kernels = self._where(reader or read, node.name)
                yield Dropped(
                    node.name,
                    reader,
                    str(node.dtype),
                    kernels,
                    node.place,
                    (reader or "", read) in self.unrounded.assumed,
                )

    def _where(self, reader: str, read: str) -> tuple[str, ...]:
        own = [k for k in self.in_kernels.get(reader, ()) if not is_library(k)]
        both = [k for k in own if k in self.in_kernels.get(read, ())] or own
        if both:
            return tuple(_NUMBERED.sub("", kernel) for kernel in both)
        if self.readings is not None and self.fusion is not None:
            found = self.readings.edges.get((self.meanings[reader], self.meanings[read]), {})
            groups = [self.fusion.kernel[name] for name in found.get(False, ())]
            return tuple(dict.fromkeys(groups))
        return ()

    def _merged(self) -> Iterator[Merged]:
        """Yield products that a library call adds to something without a rounding between."""
        after = {n.name for n in self.second.nodes.values()}
        for node in self.second.nodes.values():
            word = node.target.split(".")[1:2]
            if word not in (["addmm"], ["baddbmm"]) or node.name in self.first.nodes:
                continue
            factors = set(node.reads[1:])
            for old in self.first.nodes.values():
                same = old.target.split(".")[1:2] in (["mm"], ["bmm"], ["linear"])
                if same and old.name not in after and factors == set(old.reads):
                    yield Merged(
                        old.name, node.name, ".".join(node.target.split(".")[:2]), old.place
                    )

    def _reductions(self) -> Iterator[str]:
        text = self.folder.text(OUTPUT)
        if text is None:
            return
        blocks = _BLOCK.search(text)
        for name in dict.fromkeys(_TRITON.findall(text)):
            if name.startswith("triton_per"):
                yield f"{name} holds all elements of a sum in one block"
            else:
                size = f" of {blocks[1]}" if blocks else ""
                yield f"{name} adds up in a loop over blocks{size}"
