"""Run variants of a program bit for bit on the inputs that the kernel was given."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lastbit.errors import LastbitError
from lastbit.formats import Format
from lastbit.graph import Map, Node, Reduce, topological
from lastbit.inference.agreement import Agreement, compared
from lastbit.inference.allowance import Allowance, bents
from lastbit.inference.arrays import canonical_codes
from lastbit.inference.exact_sums import add_up_exactly
from lastbit.inference.kernel import Arrays, Wanted
from lastbit.inference.units import add_up_products, takes_steps
from lastbit.inference.variants import Variant
from lastbit.interpret.array import ArrayDomain, Tensor, values_of
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.intervals import Floats
from lastbit.interpret.policy import Policy
from lastbit.patterns.windows import Bounds, window
from lastbit.round_array import Codes, decode_array, encode_array

FUNCTION = 12  # elements that one element of a function costs
UNIT = 4  # of one product in a matrix unit
FIRST = 1 << 19  # cost of the part on which every variant is run
BLOCK = 1 << 22  # cost of a part when all is run

Part = tuple[str, Bounds]


@dataclass(frozen=True)
class Data:
    """Inputs, and what the kernel made of them.

    Attributes:
        name: what the inputs are, for reports.
        inputs: codes by name.
        outputs: codes by name of the result.
    """

    name: str
    inputs: Arrays
    outputs: Arrays


def cost_of(nodes: Sequence[Node]) -> int:
    """Return about how many elements one run evaluates."""
    total = 0
    for node in topological(nodes):
        size = math.prod(node.x.shape if isinstance(node, Reduce) else node.shape)
        if isinstance(node, Map) and node.fn not in ("add", "sub", "mul", "neg", "abs", "max"):
            size *= FUNCTION
        if isinstance(node, Reduce) and takes_steps(node):
            size *= UNIT
        total += size
    return total


class Runner:
    """Runs variants on parts of the data.

    Args:
        results: what the reference returns.
        formats: the format of each input.
        seed: chooses among equal elements where a program promises nothing.
        allowance: how far functions may be off; None: not at all.
        tick: called before each variant; may raise to stop.
    """

    def __init__(
        self,
        results: Sequence[Wanted],
        formats: Mapping[str, Format],
        seed: int = 0,
        allowance: Allowance | None = None,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self.results, self.formats, self.seed, self.tick = results, formats, seed, tick
        self.allowance = allowance
        self.data: list[Data] = []
        self.seen: dict[str, int] = {}  # elements by kind that were compared and not kept
        self.values: list[Mapping[str, Floats]] = []
        self.runs = 0
        self.unable: dict[str, int] = {}
        self._known: dict[tuple[tuple[bytes, ...], int, Part], dict[bytes, Tensor]] = {}
        self._base: Variant | None = None
        self._parts: dict[int, list[Part]] = {}

    def add(self, data: Data) -> None:
        """Take more data."""
        self.data.append(data)
        self.values.append(self.decoded(data.inputs))

    def take(self, data: Data) -> None:
        """Take data on which no variant was right, before all others."""
        self.add(data)
        self.bring_forward()

    @property
    def elements(self) -> int:
        """Return how many elements of results are among the data."""
        return sum(codes.size for data in self.data for codes in data.outputs.values())

    def decoded(self, inputs: Arrays) -> dict[str, Floats]:
        """Return the values of inputs."""
        return {name: decode_array(codes, self.formats[name]) for name, codes in inputs.items()}

    def drop_last(self) -> None:
        """Forget the data that was taken last."""
        self.data.pop()
        self.values.pop()

    def bring_forward(self) -> None:
        """Put the data that was taken last first: variants are ranked by it."""
        self.data.insert(0, self.data.pop())
        self.values.insert(0, self.values.pop())

    def start(self, base: Variant) -> None:
        """Name the variant whose cost decides how much of the data is run at a time."""
        self._base = base
        self._parts.clear()
        self.forget()

    def forget(self) -> None:
        """Give up the values that variants shared."""
        self._known.clear()

    def parts(self, cost: int) -> list[Part]:
        """Return one part of each result, which costs about as much as asked."""
        assert self._base is not None
        if cost not in self._parts:
            each = max(cost // len(self.results), 1)
            self._parts[cost] = [
                (name, _shrunk(node, each)) for name, node in self._base.nodes.items()
            ]
        return self._parts[cost]

    def first(
        self, variant: Variant, parent: Variant, last_first: bool = False
    ) -> Agreement | None:
        """Return how a variant agrees on a part of the data; None where it cannot be run.

        The first data set counts alone as long as something differs there.

        Args:
            variant: the variant.
            parent: another one; what both compute is computed once.
            last_first: whether to begin with the data that was taken last.
        """
        found = Agreement(0, 0, 0.0)
        numbers = range(len(self.data))
        for number in reversed(numbers) if last_first else numbers:
            for part in self.parts(FIRST):
                one = self._agreement(variant, number, part, parent)
                if one is None:
                    return None
                found += one
            if not found.whole:
                break
        return found

    def whole(
        self,
        variant: Variant,
        stop: bool = False,
        numbers: Sequence[int] | None = None,
        most: int | None = None,
    ) -> Agreement | None:
        """Return how a variant agrees on all data; None where it cannot be run.

        Args:
            variant: the variant.
            stop: whether the first part with a difference ends it.
            numbers: the data sets; None: all.
            most: differing elements after which it ends; None: it does not.
        """
        found = Agreement(0, 0, 0.0)
        for number in range(len(self.data)) if numbers is None else numbers:
            for name, node in variant.nodes.items():
                for bounds in blocks(node, BLOCK):
                    one = self._agreement(variant, number, (name, bounds))
                    if one is None:
                        return None
                    found += one
                    if (stop and not found.whole) or (most is not None and found.differing > most):
                        return found
        return found

    def differences(self, variant: Variant, number: int) -> tuple[int, int]:
        """Return how many elements differ in a data set, and how many where both are ordinary."""
        differ = ordinary = 0
        for name, node in variant.nodes.items():
            fmt = self._format(name)
            for bounds in blocks(node, BLOCK):
                pair = self._pair(variant, number, (name, bounds))
                if pair is None:
                    size = self.data[number].outputs[name].size
                    return size, size
                apart = pair[0] != pair[1]
                differ += int(apart.sum())
                for codes in pair[:2]:
                    values = np.abs(decode_array(codes, fmt))
                    apart &= np.isfinite(values) & (values >= float(fmt.min_normal))
                ordinary += int(apart.sum())
        return differ, ordinary

    def codes(self, variant: Variant, values: Mapping[str, Floats], part: Part) -> Codes | None:
        """Return codes of a part of a result on some inputs; None where it cannot be run."""
        name, bounds = part
        node = window(variant.nodes[name], bounds)
        return self._run(node, values, self._format(name), {})

    def result(
        self,
        variant: Variant,
        name: str,
        values: Mapping[str, Floats],
        theirs: Codes,
        known: dict[bytes, Tensor],
    ) -> Codes | None:
        """Return codes of a whole result on some inputs; None where it cannot be run.

        What lies within the allowance gets the kernel's codes.

        Args:
            variant: the variant.
            name: the result.
            values: the inputs.
            theirs: the kernel's codes.
            known: values of nodes on these inputs by key, extended.
        """
        node, fmt = variant.nodes[name], self._format(name)
        mine = self._run(node, values, fmt, known)
        if mine is None or self.allowance is None or (mine == theirs).all():
            return mine
        return np.where(self._near(node, values, fmt, mine, theirs), theirs, mine)

    def _format(self, name: str) -> Format:
        return next(r.format for r in self.results if r.name == name)

    def _agreement(
        self, variant: Variant, number: int, part: Part, parent: Variant | None = None
    ) -> Agreement | None:
        self.tick()
        name, bounds = part
        known = {} if parent is None else dict(self._shared(parent, number, part))
        pair = self._pair(variant, number, part, known)
        if pair is None:
            return None
        mine, theirs, within = pair
        fmt = self._format(name)
        found = compared(mine, theirs, fmt, (number, name, bounds, self._shape(name)))
        return replace(found, within=within)

    def _pair(
        self,
        variant: Variant,
        number: int,
        part: Part,
        known: dict[bytes, Tensor] | None = None,
    ) -> tuple[Codes, Codes, int] | None:
        """Return the codes of a variant and of the kernel, and how many are within the allowance.

        Those within it count as the kernel's.
        """
        name, bounds = part
        node, fmt = window(variant.nodes[name], bounds), self._format(name)
        mine = self._run(node, self.values[number], fmt, {} if known is None else known)
        if mine is None:
            return None
        theirs = self.data[number].outputs[name][tuple(slice(a, b) for a, b in bounds)]
        if self.allowance is None or (mine == theirs).all():
            return mine, theirs, 0
        near = self._near(node, self.values[number], fmt, mine, theirs)
        within = int((near & (mine != theirs)).sum())
        return np.where(near, theirs, mine), theirs, within

    def _near(
        self, node: Node, values: Mapping[str, Floats], fmt: Format, mine: Codes, theirs: Codes
    ) -> NDArray[np.bool_]:
        """Return where the kernel lies among the results with functions moved as far as allowed."""
        assert self.allowance is not None
        low = high = decode_array(mine, fmt)
        for bent in bents(node, self.allowance):
            codes = self._run(bent, values, fmt, {})
            if codes is not None:
                found = decode_array(codes, fmt)
                low, high = np.fmin(low, found), np.fmax(high, found)
        seen = decode_array(theirs, fmt)
        return np.asarray((low <= seen) & (seen <= high))

    def _shape(self, name: str) -> tuple[int, ...]:
        return next(r.shape for r in self.results if r.name == name)

    def _shared(self, parent: Variant, number: int, part: Part) -> Mapping[bytes, Tensor]:
        """Return what a variant computes for a part."""
        key = (parent.key, number, part)
        if key not in self._known:
            known: dict[bytes, Tensor] = {}
            node = window(parent.nodes[part[0]], part[1])
            self._run(node, self.values[number], self._format(part[0]), known)
            self._known[key] = known
        return self._known[key]

    def _run(
        self, node: Node, values: Mapping[str, Floats], fmt: Format, known: dict[bytes, Tensor]
    ) -> Codes | None:
        self.runs += 1
        domain = ArrayDomain(values, self.seed)
        try:
            with np.errstate(all="ignore"):
                add_up_products(node, domain, known)
                add_up_exactly(node, domain, known)
                (found,) = evaluate([node], domain, Policy.BITS, known)
                array = np.broadcast_to(values_of(found), node.shape)
            return canonical_codes(encode_array(np.ascontiguousarray(array), fmt), fmt)
        except LastbitError as error:
            reason = str(error).rstrip(".")
            self.unable[reason] = self.unable.get(reason, 0) + 1
            return None


def _shrunk(node: Node, cost: int) -> Bounds:
    """Return a part of a node from the start of each axis, at about some cost."""
    sizes = list(node.shape)
    while True:
        bounds = tuple((0, n) for n in sizes)
        if not any(n > 1 for n in sizes):
            return bounds
        now = cost_of([window(node, bounds)])
        if now <= cost:
            return bounds
        best = None
        for axis in sorted(range(len(sizes)), key=lambda a: -sizes[a]):
            if sizes[axis] > 1:
                smaller = [*sizes]
                smaller[axis] = -(-sizes[axis] // 2)
                if cost_of([window(node, tuple((0, n) for n in smaller))]) < 0.9 * now:
                    best = smaller
                    break
        if best is None:
            return bounds
        sizes = best


def blocks(node: Node, cost: int) -> Iterator[Bounds]:
    """Yield parts that cover a node, each at about some cost."""
    first = _shrunk(node, cost)
    steps = [stop for _, stop in first]
    for corner in np.ndindex(*(-(-n // s) for n, s in zip(node.shape, steps, strict=True))):
        yield tuple(
            (i * s, min((i + 1) * s, n)) for i, s, n in zip(corner, steps, node.shape, strict=True)
        )
