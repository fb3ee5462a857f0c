"""How a program runs is read as it is written, or refused with the place and what is allowed."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pytest

from lastbit.cost import ALL, DEVICES, Tile
from lastbit.errors import InputError
from lastbit.plan import Plan, load_plan

TODAY = date(2026, 6, 1)
GRAPH = """schema = 1
[graph]
symbols = { M = [1, 64], K = 32 }
text = '''
x: bf16[M, K]
w: bf16[K, K]
y: bf16 = matmul(x, w) acc f32 seq
t: bf16 = silu(y)
z: bf16 = t * y
'''
"""  # ten lines: what a case adds begins in line 11


def load(folder: Path, text: str) -> Plan:
    path = folder / "p.toml"
    path.write_text(GRAPH + text, encoding="utf-8")
    return load_plan(path, TODAY)


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        load(folder, text)
    return str(caught.value).replace(f"{folder}{os.sep}p.toml:", "").splitlines()[::2]


def test_kernels_and_their_tiles(tmp_path: Path) -> None:
    plan = load(
        tmp_path,
        """[[kernel]]
values = ["y"]
rows = 16
columns = "all"
depth = 8
buffers = 2
threads = 128
registers = 64
loads = 4
accumulators = "registers"

[[kernel]]
values = ["t", "z"]
""",
    )
    first, second = plan.launches
    assert first.values == ("y",)
    assert first.tile == Tile(16, ALL, 8, 2, 128, 64, 4, in_registers=True)
    assert (second.values, second.tile) == (("t", "z"), Tile())
    assert (first.place.line, second.place.line) == (11, 22)


def test_a_known_device_and_a_latency(tmp_path: Path) -> None:
    plan = load(tmp_path, '[target]\nmachine = "hopper"\ndevice = "h200"\nlatency_ns = 600\n')
    assert (plan.device, plan.latency_ns, plan.machine) == (DEVICES["h200"], 600, "hopper")


def test_a_plan_says_nothing_of_a_device(tmp_path: Path) -> None:
    plan = load(tmp_path, "")
    assert (plan.device, plan.latency_ns, plan.launches) == (None, None, ())


def test_a_device_like_another(tmp_path: Path) -> None:
    plan = load(
        tmp_path,
        """[target]
device = "h100-pcie"
[device.h100-pcie]
like = "h100-sxm"
sms = 114
bandwidth = 2.0e12
peak = 7.56e14
source = "NVIDIA H100 PCIe data sheet"
""",
    )
    device, sxm = plan.device, DEVICES["h100-sxm"]
    assert device is not None
    assert (device.name, device.sms, device.bandwidth) == ("h100-pcie", 114, 2 * 10**12)
    assert (device.shared_bytes, device.peak) == (sxm.shared_bytes, 756 * 10**12)
    assert device.ridge == 378  # 756 TFLOP/s over 2 TB/s
    assert device.source == "NVIDIA H100 PCIe data sheet"


@pytest.mark.parametrize(
    ("more", "known"),
    [("sms = 114", False), ("bandwidth = 2.0e12", False), ("reserve_bytes = 2048", True)],
)
def test_another_product_has_no_peak_of_the_one_that_it_is_like(
    tmp_path: Path, more: str, known: bool
) -> None:
    mine = f'[device.mine]\nlike = "h100-sxm"\nsource = "me"\n{more}\n'
    device = load(tmp_path, f'[target]\ndevice = "mine"\n{mine}').device
    assert device is not None
    assert device.peak == (DEVICES["h100-sxm"].peak if known else None)


def test_a_device_of_its_own(tmp_path: Path) -> None:
    plan = load(
        tmp_path,
        """[target]
device = "mine"
[device.mine]
sms = 4
shared_bytes = 65536
block_bytes = 49152
reserve_bytes = 1024
registers = 65536
threads = 1024
blocks = 16
bandwidth = 100000000000
source = "measured"
""",
    )
    device = plan.device
    assert device is not None
    assert (device.peak, device.ridge, device.warp, device.warps) == (None, None, 32, 32)


def test_what_cost_demands(tmp_path: Path) -> None:
    plan = load(tmp_path, '[budget]\ncost = "error"\n[budget.node.y]\ncost = "warning"\n')
    assert plan.budget is not None
    assert (plan.budget.cost, plan.node_budgets["y"].cost) == ("error", "warning")


def test_findings_about_cost_are_allowed_by_their_codes(tmp_path: Path) -> None:
    text = "".join(
        f'[[allow]]\ncode = "{code}"\nreason = "known"\n' for code in ("COST", "COST701", "COST702")
    )
    assert [allow.code for allow in load(tmp_path, text).allows] == ["COST", "COST701", "COST702"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '[[kernel]]\nvalues = ["q", "x"]\n',
            [
                "12:11: the graph has no value 'q'. Allowed: t, w, x, y, z.",
                "12:16: `x` is an input, which no kernel computes. "
                "Name values that the graph defines.",
            ],
        ),
        (
            '[[kernel]]\nvalues = ["y"]\n[[kernel]]\nvalues = ["t", "y"]\n',
            ["14:16: `y` is in two kernels. Line 11 names it already."],
        ),
        (
            "[[kernel]]\nrows = 4\n",
            [
                "11:1: [[kernel]] has no `values`. "
                'Name the values that it computes: values = ["t", "z"].'
            ],
        ),
        (
            "[[kernel]]\nvalues = []\n",
            ["12:10: `values` is []. Allowed: at least one name of a value."],
        ),
        (
            '[[kernel]]\nvalues = ["y"]\nrows = 0\ncolumns = "some"\nbuffers = 1.5\nrow = 3\n',
            [
                '13:8: `rows` is 0. Allowed: 1 to 281474976710656, or "all".',
                "14:11: `columns` is 'some'. Allowed: 1 to 281474976710656, or \"all\".",
                "15:11: `buffers` is 1.5. Allowed: a whole number from 1 to 64.",
                "16:1: unknown field 'row' of [[kernel]]. Did you mean 'rows'?",
            ],
        ),
        (
            '[[kernel]]\nvalues = ["y"]\naccumulators = "l2"\n',
            ["13:16: unknown place of the running sums 'l2'. Allowed: registers, shared."],
        ),
        (
            '[[kernel]]\nvalues = ["y", "z"]\n',
            [
                "12:10: `y`, `z` cannot share a kernel: `t` reads one of them and is read by "
                "another. Add `t` to the kernel, or split it."
            ],
        ),
        (
            '[target]\ndevice = "h100"\n',
            ["12:10: unknown device 'h100'. Did you mean 'h100-sxm'?"],
        ),
        (
            '[target]\ndevices = "h200"\nlatency_ns = "long"\n',
            [
                "12:1: unknown field 'devices' of [target]. Did you mean 'device'?",
                "13:14: `latency_ns` is 'long'. "
                "Allowed: a whole number from 1 to 1000000000000000000.",
            ],
        ),
        (
            '[device.h200]\nsource = "me"\n',
            ["11:1: the device 'h200' is known already. Take another name."],
        ),
        (
            '[target]\ndevice = "mine"\n[device.mine]\nsms = 4\n',
            [
                "13:1: [device.mine] has no `source`. Say where the numbers come from.",
                "13:1: [device.mine] has no `shared_bytes`, `block_bytes`, `reserve_bytes`, "
                "`registers`, `threads`, `blocks`, `bandwidth`. "
                'Give them, or a device to start from: like = "h100-sxm".',
            ],
        ),
        (
            '[device.mine]\nlike = "h300"\nsource = "me"\nsms = -1\n',
            [
                "12:8: unknown device 'h300'. Did you mean 'h200'?",
                "14:7: `sms` is -1. Allowed: a whole number from 1 to 1000000000000000000.",
            ],
        ),
        (
            '[budget]\ncost = "fail"\n',
            ["12:8: unknown severity 'fail'. Allowed: error, warning."],
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert problems(tmp_path, text) == expected
