"""Find what each loop body of Inductor reads rounded, and what it reads unrounded.

Inductor computes a kernel in float32. A value that one kernel writes and another one reads is
rounded in between; one that stays inside a loop is not, unless a `to_dtype` with
`use_compute_types=False` rounds it. A `to_dtype` to a narrow format in which this argument is true,
or absent, rounds nothing. A value that is stored, and loaded again by the same loop, is passed on
as it was before the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lastbit.importers.imported import is_float
from lastbit.importers.inductor.fx import EIGHT, TORCH_DTYPES, Graph
from lastbit.importers.inductor.loops import Call, Fusion, Operation, Ref
from lastbit.importers.inductor.meanings import (
    CHOICES,
    POINTWISE,
    Meanings,
    base_word,
    called,
    is_held,
    moments_of,
)

NARROW = ("bf16", "f16")  # formats in whose place Inductor computes in float32
REDUCTIONS = {"sum": "sum", "max": "max", "min": "min", "prod": "prod"}
CALLED = {"bias_addmm": "addmm"}  # how the wrapper names a library function


@dataclass(frozen=True, slots=True)
class Held:
    """A value in a loop body: what it means, and whether it is a value of a narrow format."""

    meaning: int
    rounded: bool


@dataclass(slots=True)
class Readings:
    """How the loop bodies read values.

    Attributes:
        edges: for (reader, read), two meanings, the operations by whether what they read is
            rounded.
        stored: for a meaning and the format of a buffer, whether what is stored is unrounded, and
            the operation.
        known: meanings that are in the graph, of all that the loop bodies compute.
        computed: all that they compute.
        dropped: casts to a narrow format that round nothing, as (operation, statement).
        kept: casts to one that round.
        reductions: the operations that reduce.
        calls: the library functions that are called, by operation.
        buffers: the meaning of what each buffer holds; not of pieces of others.
    """

    edges: dict[tuple[int, int], dict[bool, list[str]]] = field(default_factory=dict)
    stored: dict[tuple[int, str], dict[bool, list[str]]] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)
    computed: set[int] = field(default_factory=set)
    dropped: list[tuple[str, str]] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)
    reductions: list[str] = field(default_factory=list)
    calls: dict[str, str] = field(default_factory=dict)
    buffers: dict[str, int] = field(default_factory=dict)


def readings_of(
    fusion: Fusion,
    graph: Graph,
    of_nodes: Mapping[str, int],
    meanings: Meanings,
    looped: bool = False,
) -> Readings:
    """Return how the loop bodies read the values of a graph.

    Args:
        fusion: the operations.
        graph: the graph before fusion, which they compute.
        of_nodes: the meaning of each node.
        meanings: gives numbers.
        looped: whether a reduction is a loop over blocks (Triton), after which what was stored
            before is loaded again.
    """
    return _Matcher(fusion, graph, of_nodes, meanings, looped).readings()


class _Matcher:
    def __init__(
        self,
        fusion: Fusion,
        graph: Graph,
        of_nodes: Mapping[str, int],
        meanings: Meanings,
        looped: bool,
    ) -> None:
        self.looped = looped
        self.fusion, self.graph, self.meanings = fusion, graph, meanings
        self.in_graph = set(of_nodes.values())
        self.waiting: dict[str, list[int]] = {}  # meanings by operator, for what matches none
        for node in graph.nodes.values():
            word = base_word(node.target)
            if node.target and word not in POINTWISE:
                self.waiting.setdefault(word, []).append(of_nodes[node.name])
        self.inputs = {n.name: of_nodes[n.name] for n in graph.nodes.values() if not n.target}
        self.buffers: dict[str, Held] = {}
        self.formats: dict[str, str] = {}
        self.before_store: dict[str, tuple[str, Held]] = {}
        self.found = Readings()
        self.moments = moments_of(graph, of_nodes, meanings)

    def readings(self) -> Readings:
        made: dict[str, str] = {}
        for operation in self.fusion.operations:
            for name, dtype in operation.gives.items():
                self.formats[name] = TORCH_DTYPES.get(dtype, dtype)
            if "body" in operation.bodies:
                self._body(operation)
            else:
                self._call(operation)
            for name in operation.gives:
                if name in self.buffers and name not in operation.aliases:
                    self.found.buffers[name] = self.buffers[name].meaning
                    made[name] = self.fusion.kernel.get(operation.name, operation.name)
            kernel = self.fusion.kernel.get(operation.name, operation.name)
            for name in operation.mutates:  # seen after the launch only, when both have written
                if made.get(name) == kernel:
                    self.found.buffers.pop(name, None)
        return self.found

    # Library calls and buffers.

    def _buffer(self, name: str) -> Held:
        if name in self.inputs:
            narrow = self.graph.nodes[name].dtype in NARROW
            return Held(self.inputs[name], narrow)
        if name in self.buffers:
            return self.buffers[name]
        return Held(self.meanings.of("buffer", name), self.formats.get(name) in NARROW)

    def _call(self, operation: Operation) -> None:
        reads = [self._buffer(name).meaning for name in dict.fromkeys(operation.reads)]
        if "Concat" in operation.kind:
            meaning = self.meanings.joined(reads)
            for name in dict.fromkeys(operation.reads):
                self._edge(operation, meaning, self._buffer(name))
        elif operation.kind == "MultiOutput" and reads:
            meaning = self.meanings.of("item", reads[0])
        else:
            word = operation.kernel.removeprefix("extern_kernels.").removeprefix("torch.ops.")
            word = base_word(word) if "." in word else word
            word = CALLED.get(word, word)
            self.found.calls[operation.name] = word
            meaning = called(self.meanings, word, reads)
            if meaning not in self.in_graph:
                meaning = self._eliminated(word, meaning)
            elif meaning in self.waiting.get(word, ()):
                self.waiting[word].remove(meaning)
        for name in operation.gives:
            self.buffers[name] = Held(meaning, self.formats[name] in NARROW)
            if "Template" in operation.kind:
                nest = self.fusion.together.get(operation.name)
                if nest is not None:
                    self.before_store[name] = (nest, Held(meaning, False))

    def _eliminated(self, word: str, meaning: int) -> int:
        """Return the only meaning left for an operator that matches none by its operands."""
        left = self.waiting.get(word, [])
        return left.pop() if len(set(left)) == 1 else meaning

    # Loop bodies.

    def _body(self, operation: Operation) -> None:
        values: dict[str, Held] = {}
        for call in operation.bodies["body"]:
            self._statement(operation, call, values)

    def _statement(self, operation: Operation, call: Call, values: dict[str, Held]) -> None:
        word, args = call.function, call.args
        held = [values[a.name] if isinstance(a, Ref) and a.name in values else None for a in args]
        found: Held | None = None
        if word == "load" and args and isinstance(args[0], str):
            found = self._loaded(operation, args[0])
        elif word == "constant" and args:
            found = Held(self.meanings.constant(args[0]), is_held(args[0]))
        elif word in ("store", "store_reduction") and len(args) > 2 and isinstance(args[0], str):
            if held[2] is not None:
                self._stored(operation, args[0], held[2], word == "store_reduction")
        elif word == "to_dtype" and held and held[0] is not None:
            found = self._cast(operation, call, held[0])
        elif word == "reduction" and len(args) > 3 and held[3] is not None:
            found = self._reduction(operation, str(args[2]), held[3])
        elif word == "getitem" and held[0] is not None:
            found = self._part(held[0], args[1])
        elif word.startswith("masked_subblock") and word in operation.bodies:
            found = self._masked(operation, word)
        elif word == "where" and held[1:] and all(h is not None for h in held[1:]):
            found = self._where(operation, held)
        elif word == "identity" and held and held[0] is not None:
            found = held[0]
        elif word not in ("get_index", "index_expr", "return"):
            known = [h for h in held if h is not None]
            if known and len(known) == sum(isinstance(a, Ref) for a in args):
                found = self._computed(operation, word, known)
        if found is not None and call.name:
            values[call.name] = found

    def _loaded(self, operation: Operation, name: str) -> Held:
        nest, held = self.before_store.get(name, ("", None))
        if held is not None and nest and nest == self.fusion.together.get(operation.name):
            return held
        return self._buffer(name)

    def _stored(self, operation: Operation, name: str, held: Held, reduced: bool) -> None:
        narrow = self.formats.get(name) in NARROW
        where = self.found.stored.setdefault((held.meaning, self.formats.get(name, "")), {})
        where.setdefault(held.rounded, []).append(operation.name)
        self.buffers[name] = Held(held.meaning, narrow or held.rounded)
        nest = self.fusion.together.get(operation.name)
        if nest is not None and not reduced:
            self.before_store[name] = (nest, held)

    def _cast(self, operation: Operation, call: Call, held: Held) -> Held:
        dtype = TORCH_DTYPES.get(str(call.args[1]), "") if len(call.args) > 1 else ""
        if dtype in NARROW:
            source = TORCH_DTYPES.get(str(call.keywords.get("src_dtype")), "")
            if source in NARROW and source != dtype:
                meaning = self.meanings.of("cast", dtype, held.meaning)
                self._edge(operation, meaning, held)
                held = Held(meaning, False)
            if call.keywords.get("use_compute_types", True) is False:
                self.found.kept.append((operation.name, call.name))
                return Held(held.meaning, True)
            if not held.rounded:
                self.found.dropped.append((operation.name, call.name))
            return held
        if dtype in EIGHT:
            meaning = self.meanings.of("cast", dtype, held.meaning)
            self._edge(operation, meaning, held)
            return Held(meaning, True)
        if dtype and is_float(dtype):
            return held if dtype in ("f32", "f64") else Held(held.meaning, True)
        return Held(self.meanings.of("cast", dtype, held.meaning), True)

    def _reduction(self, operation: Operation, kind: str, held: Held) -> Held:
        self.found.reductions.append(operation.name)
        if kind in REDUCTIONS:
            meaning = self.meanings.of("reduce", REDUCTIONS[kind], held.meaning)
        else:
            meaning = self.meanings.of("reduction", kind, held.meaning)
            for moment in self.moments.get(held.meaning, ()):
                self._edge(operation, moment, held)
        self._edge(operation, meaning, held)
        if self.looped and operation.device != "cpu":
            nest = self.fusion.together.get(operation.name)
            for name in [n for n, one in self.before_store.items() if one[0] == nest]:
                del self.before_store[name]
        return Held(meaning, False)

    def _part(self, held: Held, number: object) -> Held:
        """Return a part of a Welford reduction: the mean, or the sum of squares around it."""
        facts = self.meanings.facts(held.meaning)
        if facts[0] == "reduction" and str(facts[1]).startswith("welford"):
            mean, squares = self.moments.get(facts[2], (held.meaning, held.meaning))
            return Held(mean if number == 0 else squares, False)
        return Held(self.meanings.of("item", held.meaning), False)

    def _masked(self, operation: Operation, word: str) -> Held | None:
        values: dict[str, Held] = {}
        for call in operation.bodies[word]:
            self._statement(operation, call, values)
        last = operation.bodies[word][-1:]
        ref = last[0].args[0] if last and last[0].function == "return" else None
        return values.get(ref.name) if isinstance(ref, Ref) else None

    def _where(self, operation: Operation, held: list[Held | None]) -> Held:
        """Return a choice; one between parts of a joined value is that value."""
        arms = [h for h in held[1:] if h is not None]
        condition = held[0]
        if condition is None:
            parts: list[int] = []
            for arm in arms:
                facts = self.meanings.facts(arm.meaning)
                parts += facts[1:] if facts[0] == "joined" else (arm.meaning,)
            meaning = self.meanings.joined(parts)
            for arm in arms:
                self._edge(operation, meaning, arm)
            return Held(meaning, all(arm.rounded for arm in arms))
        return self._computed(operation, "where", [condition, *arms])

    def _computed(self, operation: Operation, word: str, held: list[Held]) -> Held:
        meaning = self.meanings.of(word, *(one.meaning for one in held))
        self.found.computed.add(meaning)
        if meaning in self.in_graph:
            self.found.known.add(meaning)
        for one in held:
            self._edge(operation, meaning, one)
        values = held[1:] if word == "where" else held
        chosen = word in CHOICES or word == "abs_"  # nothing to round where these are rounded
        return Held(meaning, chosen and all(one.rounded for one in values))

    def _edge(self, operation: Operation, meaning: int, held: Held) -> None:
        kinds = self.found.edges.setdefault((meaning, held.meaning), {})
        names = kinds.setdefault(held.rounded, [])
        if operation.name not in names:
            names.append(operation.name)
