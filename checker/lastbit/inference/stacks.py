"""Many calls of the kernel looked at together: its rows one after another, in one evaluation.

What two variants lose rarely shows behind another rounding, so up to a million elements are needed
to tell them apart. The kernel is called at its own sizes; variants are evaluated once for all
calls, along an axis on which nothing runs, and share what they compute alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from lastbit.definitions import Definitions
from lastbit.errors import LastbitError
from lastbit.graph import Input
from lastbit.inference.kernel import Arrays
from lastbit.inference.reference import ROWS, Reference
from lastbit.inference.resized import Resized
from lastbit.inference.running import BLOCK, Data, Runner, cost_of
from lastbit.inference.variants import Variant
from lastbit.interpret.array import Tensor
from lastbit.round_array import Codes, decode_array
from lastbit.verify.sizing import Instance

MOST_CALLS = 1024  # of the kernel in one stack


@dataclass(frozen=True)
class Stack:
    """Calls of the kernel, and where each variant differs from it.

    Attributes:
        kind: what the inputs are.
        inputs: the inputs of each call.
        outputs: the results of each call.
        differs: for each variant and each call, elements that differ.
        ordinary: of these, those where both are ordinary numbers.
    """

    kind: str
    inputs: Sequence[Arrays]
    outputs: Sequence[Arrays]
    differs: NDArray[np.int64]
    ordinary: NDArray[np.int64]

    def data(self, number: int) -> Data:
        """Return one call as data."""
        return Data(self.kind, self.inputs[number], self.outputs[number])

    @property
    def size(self) -> int:
        """Return how many elements a variant is compared on."""
        return sum(codes.size for out in self.outputs for codes in out.values())


@dataclass
class Stacks:
    """Runs variants on many calls at a time.

    Attributes:
        reference: the reference.
        kernel: calls the kernel.
        runner: runs variants.
    """

    reference: Reference
    kernel: Callable[[Arrays], Mapping[str, Codes]]
    runner: Runner
    _axes: dict[str, tuple[str, Mapping[str, int]] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.resized = Resized(self.reference.by_rows)

    def stack(self, variants: Sequence[Variant], kind: str, seed: int) -> Stack:
        """Return a stack of calls on inputs of a kind, and how variants agree there."""
        found = self._axis(variants)
        copies = self._copies(variants) if found is not None else 1
        run = list(variants)
        if found is not None and copies > 1:
            large = [self._enlarged(variant, found[0], copies) for variant in variants]
            if all(one is not None for one in large):
                run = [one for one in large if one is not None]
            else:
                copies = 1  # one of them does not apply at other sizes
        along = found[1] if found is not None and copies > 1 else {}
        calls = list(self._draws(kind, seed, copies, along))
        outputs = [dict(self.kernel(inputs)) for inputs in calls]
        values = self.runner.decoded(_joined(calls, along))
        wanted = _joined(outputs, along)
        known: dict[bytes, Tensor] = {}
        differs = np.zeros((len(variants), copies), np.int64)
        ordinary = np.zeros_like(differs)
        for number, variant in enumerate(run):
            self.runner.tick()
            for name, theirs in wanted.items():
                mine = self.runner.result(variant, name, values, theirs, known)
                apart, plain = self._compared(mine, theirs, name)
                axis = along.get(name, 0)
                differs[number] += _counts(apart, axis, copies)
                ordinary[number] += _counts(apart & plain, axis, copies)
        return Stack(kind, calls, outputs, differs, ordinary)

    def _compared(
        self, mine: Codes | None, theirs: Codes, name: str
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return where a variant differs, and where both are ordinary numbers.

        A variant that could not be run differs everywhere.
        """
        if mine is None:
            everywhere = np.ones(theirs.shape, np.bool_)
            return everywhere, everywhere
        fmt = next(r.format for r in self.reference.results if r.name == name)
        both = np.abs([decode_array(codes, fmt) for codes in (mine, theirs)])
        plain = np.isfinite(both) & (both >= float(fmt.min_normal))
        return mine != theirs, np.asarray(plain.all(axis=0))

    def _draws(
        self, kind: str, seed: int, copies: int, along: Mapping[str, int]
    ) -> Iterator[dict[str, Codes]]:
        """Yield inputs of each call; those without the axis are the same in all."""
        large = [
            replace(node, shape=_longer(node.shape, along[node.name], copies))
            if node.name in along
            else node
            for node in self.reference.inputs
        ]
        codes = self.reference.drawn(seed, kind, large)
        pieces = {
            name: np.split(codes[name], copies, along[name]) if name in along else None
            for name in codes
        }
        for copy in range(copies):
            yield {
                name: codes[name] if piece is None else np.ascontiguousarray(piece[copy])
                for name, piece in pieces.items()
            }

    def _copies(self, variants: Sequence[Variant]) -> int:
        cost = max(cost_of(list(variant.nodes.values())) for variant in variants[:4])
        return max(1, min(MOST_CALLS, BLOCK // cost))

    def _enlarged(self, variant: Variant, axis: str, copies: int) -> Variant | None:
        program = self._program(variant, axis, copies)
        return None if program is None else Variant(variant.moves, program, program)

    def _program(self, variant: Variant, axis: str, copies: int) -> Definitions | None:
        bench, axes = self.resized.bench(variant)
        sizes = {name: a.true for name, a in axes.items()}
        if ROWS in sizes:
            sizes[ROWS] = self.reference.rows or 1
        sizes[axis] *= copies
        instance = Instance(sizes, dict.fromkeys(sizes, Fraction(1)), "true")
        try:
            return bench.before(len(variant.moves), instance)
        except LastbitError:
            return None

    def _axis(self, variants: Sequence[Variant]) -> tuple[str, Mapping[str, int]] | None:
        """Return the axis to stack along, and its place in each input and result that has it.

        It is one along which nothing runs and that every result has; of several, the one of the
        most elements of inputs.
        """
        free = None
        for variant in variants:
            axes = self.resized.bench(variant)[1]
            names = {name for name, axis in axes.items() if not axis.cut}
            free = names if free is None else free & names
        best, most = None, 0
        for name in sorted(free or ()):
            if name not in self._axes:
                self._axes[name] = self._places(name)
            found = self._axes[name]
            if found is not None:
                size = sum(np.prod(n.shape) for n in self.reference.inputs if n.name in found[1])
                best, most = (found, int(size)) if size > most else (best, most)
        return best

    def _places(self, name: str) -> tuple[str, Mapping[str, int]] | None:
        program = self.resized.reference.program
        base = Variant.of(program)
        doubled = self._program(base, name, 2)
        if doubled is None:
            return None
        places = {}
        for node in self.reference.inputs:
            place = _place(node.shape, doubled.nodes[node.name].shape)
            if place is not None:
                places[node.name] = place
        for wanted in self.reference.results:
            place = _place(wanted.shape, doubled.nodes[wanted.name].shape)
            if place is None:
                return None
            places[wanted.name] = place
        if any(_unlike(n, doubled.nodes[n.name].shape, places) for n in self.reference.inputs):
            return None
        return name, places


def _place(small: tuple[int, ...], large: tuple[int, ...]) -> int | None:
    """Return the one axis that doubled, or None."""
    if len(small) != len(large):
        return None
    found = [i for i, (a, b) in enumerate(zip(small, large, strict=True)) if a != b]
    return found[0] if len(found) == 1 and large[found[0]] == 2 * small[found[0]] else None


def _longer(shape: tuple[int, ...], axis: int, copies: int) -> tuple[int, ...]:
    return tuple(n * copies if i == axis else n for i, n in enumerate(shape))


def _unlike(node: Input, large: tuple[int, ...], places: Mapping[str, int]) -> bool:
    """Return whether an input has another shape, and not by one doubled axis."""
    return node.name not in places and node.shape != large


def _joined(calls: Sequence[Arrays], along: Mapping[str, int]) -> dict[str, Codes]:
    if len(calls) == 1:
        return dict(calls[0])
    return {
        name: np.concatenate([call[name] for call in calls], axis=along[name])
        if name in along
        else calls[0][name]
        for name in calls[0]
    }


def _counts(apart: NDArray[np.bool_], axis: int, copies: int) -> NDArray[np.int64]:
    """Return how many elements of each call are marked."""
    if copies == 1:
        return np.array([apart.sum()], np.int64)
    moved = np.moveaxis(apart, axis, 0)
    return np.asarray(moved.reshape(copies, -1).sum(axis=1), np.int64)
