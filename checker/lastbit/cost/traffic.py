"""Bytes, launches and memory of a program under a placement.

Counted is the interface at which the working set of a block meets the next storage level; reuse
between blocks by a cache is not counted. A kernel computes its result in tiles. Each tile loads, of
each operand, the block that it needs; an operand without an axis of the result is loaded again by
every tile along it. For a matrix product of A[M, K] and W[K, N] in tiles of m x n that gives

    MK N/n + KN M/m + MN    elements,

the formula of Lam, Rothberg and Wolf, "The cache performance and optimizations of blocked
algorithms" (ASPLOS 1991), section 3, without the terms for what a cache keeps.

A block holds the operands of the sums that it adds up, their running sums, and what it needs in a
second pass; all else streams by.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from lastbit.cost.counting import place, total
from lastbit.cost.holding import Held, held
from lastbit.cost.kernels import Kernel, kernels_of, pieces_of
from lastbit.cost.placement import Placement
from lastbit.cost.reading import Need, needs_of
from lastbit.cost.stored import bytes_of, size_of
from lastbit.definitions import Definitions
from lastbit.formats import format_of
from lastbit.graph import Input, Node, Reduce, Round, View
from lastbit.schedule import AnyOrder, Split


@dataclass(frozen=True, slots=True)
class KernelCost:
    """What one launch moves and holds.

    Attributes:
        kernel: the launch.
        read: bytes read, by value; a value read again counts again.
        written: bytes written, by value.
        partials: bytes of partial sums that leave the kernel and are read again to be combined.
        scratch: bytes of the buffers for them.
        launches: 1, and 1 more for partial sums that are combined in a launch of their own.
        held: what a block holds.
    """

    kernel: Kernel
    read: Mapping[str, int]
    written: Mapping[str, int]
    partials: int
    scratch: int
    launches: int
    held: Held

    @property
    def key(self) -> tuple[object, ...]:
        """Return what two launches share that do the same work and store the same values."""
        return self.kernel.key, tuple(self.written)

    @property
    def blocks(self) -> int | None:
        """Return the number of blocks of threads; None where the tile does not say."""
        return self.kernel.blocks

    @property
    def bytes(self) -> int:
        """Return all bytes across the interface."""
        return sum(self.read.values()) + sum(self.written.values()) + self.partials

    @property
    def local_bytes(self) -> int | None:
        """Return the bytes that a block holds; None where its tile is not said."""
        return self.held.bytes

    @property
    def accumulator_bytes(self) -> int:
        """Return the bytes of its running sums, which may lie in registers."""
        return self.held.accumulators

    @property
    def flops(self) -> int:
        """Return its operations."""
        return self.kernel.flops

    @property
    def intensity(self) -> Fraction:
        """Return FLOP per byte."""
        return Fraction(self.flops, self.bytes) if self.bytes else Fraction(0)


@dataclass(frozen=True, slots=True)
class ProgramCost:
    """What a program moves, holds and launches.

    Attributes:
        kernels: in the order in which they run.
        peak_bytes: greatest number of bytes alive at once, where each launch allocates what it
            returns and then frees what nothing reads any more.
    """

    kernels: tuple[KernelCost, ...]
    peak_bytes: int

    @property
    def by_value(self) -> dict[str, tuple[int, int]]:
        """Return by value the bytes read and the bytes written."""
        moved: dict[str, tuple[int, int]] = {}
        for cost in self.kernels:
            for name in (*cost.read, *cost.written):
                read, written = moved.get(name, (0, 0))
                moved[name] = (read + cost.read.get(name, 0), written + cost.written.get(name, 0))
        return moved

    @property
    def bytes(self) -> int:
        """Return all bytes across the interface."""
        return sum(cost.bytes for cost in self.kernels)

    @property
    def launches(self) -> int:
        """Return the number of launches."""
        return sum(cost.launches for cost in self.kernels)

    @property
    def flops(self) -> int:
        """Return all operations."""
        return sum(cost.flops for cost in self.kernels)

    @property
    def local_bytes(self) -> int | None:
        """Return the most that a block of any kernel holds; None where that is not said."""
        return max((c.local_bytes for c in self.kernels if c.local_bytes is not None), default=None)


Costs = dict[tuple[object, ...], KernelCost]


def cost_of_program(
    program: Definitions,
    placement: Placement = Placement(),  # noqa: B008  a frozen value
) -> ProgramCost:
    """Return what a program costs under a placement.

    Raises:
        CycleError: values that are placed together cannot share a kernel.
    """
    costs = costs_of(program, placement, {})
    return ProgramCost(costs, peak_of(program, costs))


def costs_of(program: Definitions, placement: Placement, known: Costs) -> tuple[KernelCost, ...]:
    """Return what the launches of a program cost.

    Args:
        program: the program at fixed sizes.
        placement: how it runs.
        known: costs of launches, to be used again and added to.

    Raises:
        CycleError: values that are placed together cannot share a kernel.
    """
    kernels = kernels_of(program, placement)
    last = last_readers(kernels, program.outputs)
    costs = []
    for kernel in kernels:
        key = (kernel.key, tuple(name in last for name in kernel.values))
        if key not in known:
            known[key] = kernel_cost(program, kernel, last)
        costs.append(known[key])
    return tuple(costs)


def last_readers(kernels: Iterable[Kernel], results: Iterable[str]) -> dict[str, int]:
    """Return by value the last launch that reads it; results are read after all."""
    out: dict[str, int] = {}
    number = -1
    for number, kernel in enumerate(kernels):
        out.update(dict.fromkeys(kernel.reads, number))
    return out | dict.fromkeys(results, number + 1)


def kernel_cost(program: Definitions, kernel: Kernel, needed: Container[str]) -> KernelCost:
    """Return what one launch costs; of its values, only those that are `needed` are written."""
    found: dict[str, list[Need]] = {}
    for need in kernel.needs:
        if isinstance(need.node, Input):
            found.setdefault(need.node.name, []).append(need)
    read = {}
    for name, needs in found.items():
        leaf = needs[0].node
        assert isinstance(leaf, Input)
        elements = total(place(need, kernel.tile) for need in needs)
        if not kernel.tile.cuts:
            elements = min(elements, prod(leaf.shape))  # where needs take in too many
        read[name] = bytes_of(elements, leaf.format)
    written = {name: size_of(program, name) for name in kernel.values if name in needed}
    combined = [_combined(node, need) for node, need in _sums(kernel)]
    return KernelCost(
        kernel,
        read,
        written,
        sum(moved for moved, _, _ in combined),
        sum(buffer for _, buffer, _ in combined),
        1 + sum(launches for _, _, launches in combined),
        held(kernel.nodes.values(), kernel.tile),
    )


def _sums(kernel: Kernel) -> Iterator[tuple[Node, Reduce]]:
    """Yield each sum of a kernel with an accumulator once, with the definition it stands in."""
    seen = set()
    for node in kernel.nodes.values():
        for need in needs_of(node):
            inner = need.node
            if isinstance(inner, Reduce) and inner.acc is not None and inner.key not in seen:
                seen.add(inner.key)
                yield node, inner


def _combined(root: Node, node: Reduce) -> tuple[int, int, int]:
    """Return what combines the pieces of a split: bytes moved, bytes of buffers, launches.

    Partial sums are written, and a further launch reads them. Pieces that are added as they come
    each read and write the sum; where the sum is not itself the result, it lies in a buffer that is
    cleared before and read by a further launch.
    """
    pieces = pieces_of(node)
    if pieces < 2:
        return 0, 0, 0
    assert isinstance(node.schedule, Split)
    assert node.acc is not None
    fmt = format_of(node.schedule.partials) if node.schedule.partials else node.acc.format
    size = bytes_of(prod(node.shape), fmt)
    if not isinstance(node.schedule.outer, AnyOrder):
        return 2 * pieces * size, pieces * size, 1
    while isinstance(root, View | Round) and root.args and root.key != node.key:
        if isinstance(root, Round) and root.rounding != node.acc:
            break
        root = root.args[0]
    if root.key == node.key:
        return 2 * pieces * size, 0, 0
    return (2 * pieces + 2) * size, size, 1


def peak_of(program: Definitions, costs: Sequence[KernelCost]) -> int:
    """Return the greatest number of bytes alive at once, launch after launch."""
    last = last_readers((cost.kernel for cost in costs), program.outputs)
    freed = [0] * (len(costs) + 1)  # by the last launch that reads it
    alive = 0
    for name, number in last.items():
        size = size_of(program, name)
        freed[number] += size
        alive += size if program.is_input(name) else 0
    peak = alive
    for cost, gone in zip(costs, freed, strict=False):
        alive += sum(cost.written.values())
        peak = max(peak, alive + cost.scratch)
        alive -= gone
    return peak
