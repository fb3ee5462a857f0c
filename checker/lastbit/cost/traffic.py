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

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from lastbit.cost.apart import is_partial, one_piece
from lastbit.cost.counting import place, total, uncovered
from lastbit.cost.holding import Held, held
from lastbit.cost.kernels import Kernel, kernels_of
from lastbit.cost.layout import laid_out
from lastbit.cost.placement import Placement, Spill
from lastbit.cost.reading import Need
from lastbit.cost.stored import bytes_of, size_of
from lastbit.definitions import Definitions
from lastbit.formats import format_of
from lastbit.graph import Input


@dataclass(frozen=True, slots=True)
class KernelCost:
    """What one launch moves and holds.

    Attributes:
        kernel: the launch.
        read: bytes read, by value; a value read again counts again.
        written: bytes written, by value.
        partials: of these, the bytes of partial sums, to which blocks may add as they come.
        spilled: bytes of running sums that are stored in between and read again.
        launches: 1, and 1 more where a value is cleared before blocks add to it.
        held: what a block holds.
    """

    kernel: Kernel
    read: Mapping[str, int]
    written: Mapping[str, int]
    partials: int
    spilled: int
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
        return sum(self.read.values()) + sum(self.written.values()) + self.spilled

    @property
    def local_bytes(self) -> int | None:
        """Return the bytes that a block holds; None where its tile is not said."""
        return self.held.bytes

    @property
    def least_bytes(self) -> int:
        """Return the bytes that a block holds at least, whatever its tile leaves open."""
        return self.held.least

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
            for name in dict.fromkeys((*cost.read, *cost.written)):
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
    laid = laid_out(program, placement)
    costs = costs_of(laid.program, laid.placement, {})
    return ProgramCost(costs, peak_of(laid.program, costs))


def costs_of(program: Definitions, placement: Placement, known: Costs) -> tuple[KernelCost, ...]:
    """Return what the launches of a program cost.

    Args:
        program: the program at fixed sizes, laid out.
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
        elements = total(place(need, kernel.tile) for need in uncovered(needs, kernel.tile))
        if not kernel.tile.cuts:
            elements = min(elements, prod(leaf.shape))  # where needs take in too many
        read[name] = bytes_of(elements, leaf.format)
    written = {name: size_of(program, name) for name in kernel.values if name in needed}
    partials = {name for name in (*read, *written) if is_partial(name)}
    moved = sum(read.get(name, 0) + written.get(name, 0) for name in partials)
    for name in kernel.adding & written.keys():  # cleared, then read and written by each piece
        added = kernel.nodes[name].shape[0] * written[name]
        read[name], written[name] = added, written[name] + added
        moved += 2 * added
    return KernelCost(
        kernel,
        read,
        written,
        moved,
        sum(_spilled(size, spill) for size, spill in kernel.spills.values()),
        1 + len(kernel.adding & written.keys()),
        held([one_piece(node) for node in kernel.roots], kernel.tile),
    )


def _spilled(elements: int, spill: Spill) -> int:
    return 2 * spill.times * bytes_of(elements, format_of(spill.format))


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
        alive += sum(size_of(program, name) for name in cost.written)
        peak = max(peak, alive + _buffers(program, cost))
        alive -= gone
    return peak


def _buffers(program: Definitions, cost: KernelCost) -> int:
    """Return what running sums that are stored in between take beside the place of the results."""
    kept = sum(bytes_of(n, format_of(spill.format)) for n, spill in cost.kernel.spills.values())
    return max(0, kept - sum(size_of(program, name) for name in cost.written))
