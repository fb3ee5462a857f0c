"""Devices as data: what an SM holds, and what the device moves and computes in a second.

Limits of an SM follow from the compute capability: NVIDIA, "CUDA C++ Programming Guide", table
"Technical Specifications per Compute Capability"; the unit in which a warp gets registers is that
of the occupancy calculator of Nsight Compute. Bandwidth, peak and the number of SMs are those of a
product; each entry names its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from lastbit.errors import LastbitError, did_you_mean

KIB = 1024


@dataclass(frozen=True, slots=True)
class Device:
    """A device.

    Attributes:
        name: what a plan calls it.
        sms: streaming multiprocessors.
        shared_bytes: shared memory of an SM.
        block_bytes: the most shared memory that one block may use.
        reserve_bytes: shared memory that the system takes for each block.
        registers: 32-bit registers of an SM.
        threads: thread slots of an SM.
        blocks: the most blocks that an SM holds.
        bandwidth: bytes per second between the SMs and the device's memory.
        peak: dense bf16 operations per second of the matrix units; None where not known.
        source: where the numbers come from.
        warp: threads of a warp.
        block_threads: the most threads of a block.
        thread_registers: the most registers of a thread.
        register_unit: registers are given to a warp in multiples of so many.
    """

    name: str
    sms: int
    shared_bytes: int
    block_bytes: int
    reserve_bytes: int
    registers: int
    threads: int
    blocks: int
    bandwidth: int
    peak: int | None
    source: str
    warp: int = 32
    block_threads: int = 1024
    thread_registers: int = 255
    register_unit: int = 256

    @property
    def warps(self) -> int:
        """Return the warps that an SM holds."""
        return self.threads // self.warp

    @property
    def ridge(self) -> Fraction | None:
        """Return the FLOP per byte above which the matrix units are the bottleneck."""
        return None if self.peak is None else Fraction(self.peak, self.bandwidth)


class UnknownDeviceError(LastbitError):
    """A device of which nothing is known.

    Attributes:
        name: as it was given.
        known: the names of those that are known.
    """

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name, self.known = name, tuple(known)
        longer = [other for other in self.known if other.startswith(name)]
        super().__init__(f"unknown device {name!r}. {did_you_mean(name, longer or self.known)}")


def device_of(name: str, devices: Mapping[str, Device] | None = None) -> Device:
    """Return the device of a name.

    Args:
        name: the name.
        devices: devices by name; None: those that are known.

    Raises:
        UnknownDeviceError: there is none; the text names the nearest.
    """
    devices = DEVICES if devices is None else devices
    if name not in devices:
        raise UnknownDeviceError(name, devices)
    return devices[name]


DEVICES = {
    device.name: device
    for device in (
        Device(
            "a100",
            sms=108,
            shared_bytes=164 * KIB,
            block_bytes=163 * KIB,
            reserve_bytes=KIB,
            registers=64 * KIB,
            threads=2048,
            blocks=32,
            bandwidth=2_039_000_000_000,
            peak=312_000_000_000_000,
            source="NVIDIA A100 80GB SXM data sheet; compute capability 8.0",
        ),
        Device(
            "h100-sxm",
            sms=132,
            shared_bytes=228 * KIB,
            block_bytes=227 * KIB,
            reserve_bytes=KIB,
            registers=64 * KIB,
            threads=2048,
            blocks=32,
            bandwidth=3_350_000_000_000,
            peak=989_400_000_000_000,
            source="NVIDIA H100 Tensor Core GPU architecture white paper, SXM5; capability 9.0",
        ),
        Device(
            "h200",
            sms=132,
            shared_bytes=228 * KIB,
            block_bytes=227 * KIB,
            reserve_bytes=KIB,
            registers=64 * KIB,
            threads=2048,
            blocks=32,
            bandwidth=4_800_000_000_000,
            peak=989_400_000_000_000,
            source="NVIDIA H200 data sheet, SXM; compute capability 9.0",
        ),
        Device(
            "rtx-pro-6000",
            sms=188,
            shared_bytes=100 * KIB,
            block_bytes=99 * KIB,
            reserve_bytes=KIB,
            registers=64 * KIB,
            threads=1536,
            blocks=24,
            bandwidth=1_792_000_000_000,
            peak=503_800_000_000_000,
            source="NVIDIA RTX PRO 6000 Blackwell data sheet; compute capability 12.0",
        ),
    )
}
