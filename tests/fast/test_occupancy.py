"""What an SM holds, and whether its loads keep the memory busy, against the makers' tables."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import pytest

from lastbit.cost import DEVICES, Block, blocks_needed, device_of, needed_in_flight, occupancy
from lastbit.cost.devices import KIB, UnknownDeviceError

H100, RTX = device_of("h100-sxm"), device_of("rtx-pro-6000")
BLOCK = Block(threads=256, registers=128, shared_bytes=96 * KIB)


@pytest.mark.parametrize(
    ("name", "sms", "shared", "one_block", "threads", "blocks", "gb", "tflop"),
    [
        ("a100", 108, 164, 163, 2048, 32, 2039, "312"),
        ("h100-sxm", 132, 228, 227, 2048, 32, 3350, "989.4"),
        ("h200", 132, 228, 227, 2048, 32, 4800, "989.4"),
        ("rtx-pro-6000", 188, 100, 99, 1536, 24, 1792, "503.8"),
    ],
)
def test_devices_are_those_of_the_data_sheets(
    name: str,
    sms: int,
    shared: int,
    one_block: int,
    threads: int,
    blocks: int,
    gb: int,
    tflop: str,
) -> None:
    device = device_of(name)
    assert (device.sms, device.threads, device.blocks) == (sms, threads, blocks)
    assert (device.shared_bytes, device.block_bytes) == (shared * KIB, one_block * KIB)
    assert device.shared_bytes - device.block_bytes == device.reserve_bytes
    assert device.bandwidth == gb * 10**9
    assert device.peak == Fraction(tflop) * 10**12
    assert re.fullmatch(r"NVIDIA .*; (compute )?capability \d+\.\d", device.source)


def test_every_device_is_listed_by_its_name() -> None:
    assert DEVICES.keys() == {"a100", "h100-sxm", "h200", "rtx-pro-6000"}
    assert all(device.name == name for name, device in DEVICES.items())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("h100", "unknown device 'h100'. Did you mean 'h100-sxm'?"),
        ("a10", "unknown device 'a10'. Did you mean 'a100'?"),
        ("h20", "unknown device 'h20'. Did you mean 'h200'?"),
        ("tpu", "unknown device 'tpu'. Allowed: a100, h100-sxm, h200, rtx-pro-6000."),
    ],
)
def test_an_unknown_device_is_refused_with_the_nearest(name: str, message: str) -> None:
    with pytest.raises(UnknownDeviceError) as caught:
        device_of(name)
    assert str(caught.value) == message


def test_the_tightest_resource_limits_the_blocks() -> None:
    held = occupancy(H100, BLOCK)
    assert held.admitted == {"threads": 8, "registers": 2, "shared memory": 2, "blocks": 32}
    assert (held.resident, held.tightest) == (2, ("registers", "shared memory"))
    assert (held.warps, held.share) == (16, Fraction(1, 4))


@pytest.mark.parametrize(
    ("registers", "blocks", "share"), [(128, 2, Fraction(1, 4)), (64, 4, Fraction(1, 2))]
)
def test_a_block_of_64_x_64_is_limited_by_registers(
    registers: int, blocks: int, share: Fraction
) -> None:
    held = occupancy(H100, Block(256, registers, 32 * KIB))
    assert held.admitted["shared memory"] == 228 // 33 == 6
    assert (held.resident, held.tightest, held.share) == (blocks, ("registers",), share)


@pytest.mark.parametrize(
    ("block", "resource"),
    [
        (Block(1025, 32, 0), "threads"),
        (Block(32, 256, 0), "registers"),
        (Block(1024, 128, 0), "registers"),  # 128 K of 64 K
        (Block(32, 32, 227 * KIB + 1), "shared memory"),
    ],
)
def test_a_block_that_needs_more_than_there_is_does_not_run(block: Block, resource: str) -> None:
    held = occupancy(H100, block)
    assert held.admitted[resource] == held.resident == held.share == 0
    assert resource in held.tightest


def test_a_warp_gets_registers_in_multiples_of_256() -> None:
    # 33 registers for each of 32 threads are 1056, and 1280 are set aside: 51 warps, not 62.
    assert occupancy(H100, Block(32, 33, 0)).admitted["registers"] == 51


def test_a_block_that_asks_for_nothing_is_limited_by_the_slots() -> None:
    assert occupancy(H100, Block(32, 0, 0)).tightest == ("blocks",)
    assert occupancy(replace(H100, blocks=999), Block(32, 0, 0)).tightest == ("threads",)


@pytest.mark.parametrize(
    ("latency", "loads", "kb", "kib", "percent"), [(600, 4, 15, 32, 215), (1000, 2, 25, 16, 65)]
)
def test_bytes_under_way(latency: int, loads: int, kb: int, kib: int, percent: int) -> None:
    held = occupancy(H100, BLOCK)
    assert round(needed_in_flight(H100, latency) / 1000) == kb
    assert held.in_flight(loads) == kib * KIB
    assert round(held.coverage(latency, loads) * 100) == percent


def test_blocks_needed_follow_from_whole_warps() -> None:
    assert blocks_needed(H100, Block(32, 0, 0), 1000, 2) == 25
    assert blocks_needed(H100, BLOCK, 1000, 2) == 4
    assert blocks_needed(H100, BLOCK, 600, 4) == 1


def test_the_ridge_is_peak_over_bandwidth() -> None:
    assert H100.ridge == Fraction(9894, 33500) * 1000
    assert replace(H100, peak=None).ridge is None
    assert round(RTX.ridge or 0) == 281
