"""How many blocks an SM holds at once, and whether their loads keep the memory busy.

Resident blocks are the least of what each resource admits. Bytes in flight follow from Little's
law: a bandwidth is reached only while bandwidth times latency bytes are under way. Sources:
NVIDIA, "CUDA C++ Best Practices Guide", section "Occupancy"; Little, "A Proof for the Queuing
Formula L = lambda W" (Operations Research 9, 1961).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from lastbit.cost.devices import Device


@dataclass(frozen=True, slots=True)
class Block:
    """What one block of threads needs.

    Attributes:
        threads: its threads.
        registers: registers of each thread.
        shared_bytes: its shared memory, without the reserve of the system.
    """

    threads: int
    registers: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What an SM holds.

    Attributes:
        device: the device.
        block: what a block needs.
        admitted: blocks that each resource admits: `threads`, `registers`, `shared memory` and
            `blocks`; 0 where a block needs more of it than one may have.
    """

    device: Device
    block: Block
    admitted: Mapping[str, int]

    @property
    def resident(self) -> int:
        """Return the blocks that an SM holds."""
        return min(self.admitted.values())

    @property
    def tightest(self) -> tuple[str, ...]:
        """Return the resources that admit the fewest blocks."""
        return tuple(name for name, count in self.admitted.items() if count == self.resident)

    @property
    def warps(self) -> int:
        """Return the resident warps."""
        return self.resident * ceil(self.block.threads / self.device.warp)

    @property
    def share(self) -> Fraction:
        """Return resident warps over the warps that an SM can hold."""
        return Fraction(self.warps, self.device.warps)

    def in_flight(self, loads: int, load_bytes: int = 16) -> int:
        """Return the bytes that the resident warps keep under way.

        Args:
            loads: loads of a warp that are under way at once.
            load_bytes: bytes that a thread fetches with one load.
        """
        return self.warps * loads * self.device.warp * load_bytes

    def coverage(self, latency_ns: int, loads: int, load_bytes: int = 16) -> Fraction:
        """Return the bytes under way over those that the bandwidth needs; below 1 is too few."""
        return self.in_flight(loads, load_bytes) / needed_in_flight(self.device, latency_ns)


def occupancy(device: Device, block: Block) -> Occupancy:
    """Return how many blocks an SM holds, by resource."""
    warps = ceil(block.threads / device.warp)
    unit = device.register_unit
    registers = ceil(block.registers * device.warp / unit) * unit * warps
    shared = block.shared_bytes + device.reserve_bytes
    fits = {
        "threads": block.threads <= device.block_threads,
        "registers": block.registers <= device.thread_registers,
        "shared memory": block.shared_bytes <= device.block_bytes,
    }
    admitted = {
        "threads": device.warps // max(1, warps),
        "registers": device.registers // max(1, registers),
        "shared memory": device.shared_bytes // max(1, shared),
        "blocks": device.blocks,
    }
    admitted = {name: count if fits.get(name, True) else 0 for name, count in admitted.items()}
    return Occupancy(device, block, admitted)


def needed_in_flight(device: Device, latency_ns: int) -> Fraction:
    """Return the bytes that an SM must have under way to use its share of the bandwidth."""
    return Fraction(device.bandwidth * latency_ns, 10**9 * device.sms)


def blocks_needed(device: Device, block: Block, latency_ns: int, loads: int) -> int:
    """Return the blocks that an SM must hold to use its share of the bandwidth, with 16-byte loads.

    Whole warps are counted first, then whole blocks.
    """
    warps = ceil(needed_in_flight(device, latency_ns) / (loads * device.warp * 16))
    return ceil(Fraction(warps, ceil(block.threads / device.warp)))
