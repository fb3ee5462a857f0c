"""Each step of a plan shows what it moves, holds and launches, and what a reader should know."""

from __future__ import annotations

from pathlib import Path

import pytest
from costed import KIB, MIB, ON_H100, QUANTIZED, TODAY, account, accounts, transform

from lastbit.cost import cost_of_program
from lastbit.lint import lint_plans
from lastbit.patterns import split_across_blocks, stored_between_blocks
from lastbit.records import Cost
from lastbit.registry import load_rules
from lastbit.result import Result, Step
from lastbit.rule import Rewrite
from lastbit.staging import staged

ACTIVATION = """schema = 1
[graph]
symbols = { M = 1024, F = 12288 }
text = '''
g: bf16[M, F]
u: bf16[M, F]
t: bf16 = silu(g)
z: bf16 = t * u
'''
"""
PRODUCT = """schema = 1
[graph]
symbols = { M = { range = [1, 1024], typical = 1024 }, K = 4096, N = 12288 }
text = '''
a: bf16[M, K]
w: bf16[K, N]
c: bf16 = matmul(a, w) acc f32 seq
z: bf16 = silu(c)
'''
"""
IN_KERNELS = """schema = 1
[graph]
symbols = SIZES
text = '''TEXT'''
[[kernel]]
values = ["s", "q"]
rows = 1
columns = "all"
[[kernel]]
values = ["y"]
rows = 128
columns = 128
depth = 64
""".replace("TEXT", QUANTIZED)
TILED = """[[kernel]]
values = ["c"]
rows = 64
columns = 64
depth = 32
"""


def costs(folder: Path, text: str) -> list[Cost]:
    found = [step.cost for step in accounts(folder, text)]
    assert None not in found
    return [cost for cost in found if cost is not None]


def lint(folder: Path, text: str) -> Result:
    path = folder / "p.toml"
    path.write_text(text, encoding="utf-8")
    return lint_plans([str(path)], today=TODAY)


@pytest.mark.parametrize("rule", ["fuse-elementwise", "drop-rounding"])
def test_a_fused_value_is_not_stored(tmp_path: Path, rule: str) -> None:
    (cost,) = costs(tmp_path, ACTIVATION + transform(rule, "t"))
    assert (cost.bytes, cost.launches) == ((120 * MIB, 72 * MIB), (2, 1))
    assert (cost.local_bytes, cost.peak_bytes) == ((None, None), (72 * MIB, 72 * MIB))
    assert (cost.fit, cost.at) == (None, {})


def test_a_branch_leaves_no_trace_and_a_placement_does(tmp_path: Path) -> None:
    branch = transform("fuse-elementwise", "t", "branch = true")
    steps = ACTIVATION + branch + branch + transform("fuse-elementwise", "t")
    assert [cost.bytes[0] for cost in costs(tmp_path, steps)] == [120 * MIB] * 3
    steps = ACTIVATION + transform("fuse-elementwise", "t") + transform("drop-rounding", "t")
    assert [cost.bytes for cost in costs(tmp_path, steps)] == [
        (120 * MIB, 72 * MIB),
        (72 * MIB, 72 * MIB),  # z is already one kernel with t inside of it
    ]


def test_tiles_add_up_over_steps(tmp_path: Path) -> None:
    text = PRODUCT + transform("tile-output", "c", "rows = 128", "columns = 128")
    text += transform("block-k", "c", "block = 32") + transform("epilogue", "c")
    text += transform("epilogue-before-rounding", "c", "branch = true")
    tile, depth, epilogue, unrounded = costs(tmp_path, text)
    once, tiled, c = (8 + 96 + 24) * MIB, 1560 * MIB, 24 * MIB
    assert (tile.bytes, tile.local_bytes) == ((once, tiled), (None, None))
    assert (depth.bytes, depth.local_bytes) == ((tiled, tiled), (None, 80 * KIB))
    z = 24 * MIB
    assert epilogue.bytes == (tiled + c + z, tiled - c + z)
    assert epilogue.local_bytes == (80 * KIB, 80 * KIB)  # z works in the tile of its sum
    assert unrounded.bytes == (tiled - c + z,) * 2
    assert epilogue.at == {"M": 1024}


def test_a_value_that_takes_another_s_place_works_in_its_tile(tmp_path: Path) -> None:
    text = PRODUCT + TILED + transform("epilogue-before-rounding", "c")
    (cost,) = costs(tmp_path, text)
    tiled = (1536 + 1536) * MIB
    assert cost.bytes == (tiled + 3 * 24 * MIB, tiled + 24 * MIB)
    assert cost.local_bytes == (24 * KIB, 24 * KIB)


def test_a_larger_tile_is_no_finding(tmp_path: Path) -> None:
    text = PRODUCT + TILED + transform("tile-output", "c", "rows = 128", "columns = 128")
    cost, findings = account(tmp_path, text)
    assert cost.bytes == (3096 * MIB, 1560 * MIB)
    assert findings == ()


def test_quantizing_in_the_product_is_reported_with_what_it_reads(tmp_path: Path) -> None:
    text = IN_KERNELS.replace("SIZES", "{ M = 4096, K = 4096, N = 1536 }")
    text += transform("quantize-in-column-blocks", "q", "block = 128")
    cost, findings = account(tmp_path, text)
    scales = 4 * 4096 * 13
    assert cost.bytes == (444 * MIB + scales, 620 * MIB + scales)
    assert cost.launches == (2, 2)
    assert findings == (
        (
            "COST701",
            "quantize-in-column-blocks at `q` moves 620.2 MiB instead of 444.2 MiB (+39.6 %), "
            "most of it for reads of `a`: 32 MiB -> 416 MiB",
        ),
    )


def test_a_fusion_that_saves_is_no_finding(tmp_path: Path) -> None:
    for rule in ("fuse-elementwise", "drop-rounding"):
        _, findings = account(tmp_path, ACTIVATION + ON_H100 + transform(rule, "t"))
        assert findings == ()


def test_a_block_that_does_not_fit(tmp_path: Path) -> None:
    text = PRODUCT + TILED + ON_H100
    text += transform("tile-output", "c", "rows = 256", "columns = 256")
    cost, findings = account(tmp_path, text)
    assert cost.fit is not None
    assert (cost.fit.blocks, cost.fit.admitted) == (
        (9, 0),
        {"shared memory": (9, 0), "blocks": (32, 32)},
    )
    assert findings == (
        (
            "COST702",
            "tile-output at `c`: a block of `c` holds 288 KiB (operands 32 KiB, running sums "
            "256 KiB); h100-sxm gives one block 227 KiB",
        ),
    )


def test_a_block_with_too_many_registers(tmp_path: Path) -> None:
    text = PRODUCT + TILED + 'threads = 256\nregisters = 64\naccumulators = "registers"\n' + ON_H100
    text += transform("tile-output", "c", "rows = 256", "columns = 256")
    cost, findings = account(tmp_path, text)
    assert cost.fit is not None
    assert (cost.fit.blocks, cost.fit.admitted["registers"]) == ((3, 0), (3, 0))
    assert findings == (
        (
            "COST702",
            "tile-output at `c`: a block of `c` has 256 threads with 320 registers each; "
            "h100-sxm holds no such block",
        ),
    )


def test_how_blocks_sit_on_a_device(tmp_path: Path) -> None:
    kernel = '[[kernel]]\nvalues = ["c"]\nrows = 128\ncolumns = 128\ndepth = 64\n'
    kernel += "threads = 256\nregisters = 128\nloads = 4\n"
    target = '[target]\ndevice = "h100-sxm"\nlatency_ns = 600\n'
    product = PRODUCT.replace("N = 12288", "N = 1536")
    text = product + kernel + target + transform("tile-output", "c", "rows = 64", "columns = 64")
    (cost,) = costs(tmp_path, text)
    fit = cost.fit
    assert fit is not None
    assert (fit.device, fit.blocks) == ("h100-sxm", (2, 2))
    assert list(fit.admitted.items()) == [
        ("registers", (2, 2)),
        ("shared memory", (2, 6)),
        ("threads", (8, 8)),
        ("blocks", (32, 32)),
    ]
    assert fit.occupancy == (0.25, 0.25)
    assert [round(share or 0, 2) for share in fit.in_flight] == [2.15, 2.15]
    assert round(fit.ridge or 0, 1) == 295.3


def test_a_split_of_a_product_that_fills_the_device_loses(tmp_path: Path) -> None:
    text = PRODUCT + TILED + ON_H100 + transform("split-k", "c", "n = 4")
    cost, findings = account(tmp_path, text)
    assert (cost.bytes[1] - cost.bytes[0], cost.launches) == (8 * 48 * MIB, (1, 2))
    assert findings == (
        (
            "COST703",
            "split-k at `c`: 3072 blocks keep the 132 SMs of h100-sxm busy without it; its "
            "partial sums add 384 MiB and 1 launch: 969 us -> 1089 us",
        ),
    )


ROW = """schema = 1
[graph]
symbols = {{ M = {rows}, K = {terms} }}
text = '''
x: bf16[M, K]
y: f32 = sum(x * x) acc f32 seq
'''
[[kernel]]
values = ["y"]
rows = 1
depth = 512
"""


def test_a_split_of_few_long_rows_pays(tmp_path: Path) -> None:
    text = ROW.format(rows=1, terms=2**20) + ON_H100 + transform("split-k", "y", "n = 8")
    cost, findings = account(tmp_path, text)
    assert cost.bytes[1] > cost.bytes[0]
    assert findings == ()


def test_a_split_of_few_short_rows_loses(tmp_path: Path) -> None:
    text = ROW.format(rows=100, terms=8) + ON_H100 + transform("split-k", "y", "n = 8")
    _, findings = account(tmp_path, text)
    assert findings == (
        (
            "COST703",
            "split-k at `y`: 800 blocks instead of 100 on the 132 SMs of h100-sxm save less than "
            "its partial sums cost, 6.2 KiB and 1 launch: 0.000788 us -> 0.00251 us",
        ),
    )


def test_without_device_or_tile_a_split_is_not_weighed(tmp_path: Path) -> None:
    split = transform("split-k", "c", "n = 4")
    for text in (PRODUCT + TILED + split, PRODUCT + ON_H100 + split):
        assert account(tmp_path, text)[1] == ()


def test_a_rejected_transform_costs_nothing_that_can_be_counted(tmp_path: Path) -> None:
    result = lint(tmp_path, ACTIVATION + transform("split-k", "t", "n = 4"))
    assert result.steps[0].cost is None
    assert result.steps[0].notes == (
        "RED201 split-k at `t`: requirement `the value holds one sum` fails.",
    )


def test_kernels_that_wait_for_each_other_are_not_counted(tmp_path: Path) -> None:
    text = """schema = 1
[graph]
text = '''
x: f32[64]
p: f32 = x * 2
y: f32 = sum(p) acc f32 split(4)
'''
[[kernel]]
values = ["p", "y"]
"""
    result = lint(tmp_path, text + transform("fixed-order-merge", "y"))
    assert result.steps[0].cost is None
    assert result.steps[0].notes == (
        "cost not counted: `p`, `y` cannot share a kernel: `y_partials` reads one of them and is "
        "read by another. Add `y_partials` to the kernel, or split it.",
    )


def severities(result: Result) -> list[tuple[str, str]]:
    return [(f.code, f.severity) for f in result.findings if f.code.startswith("COST")]


def test_cost_fails_only_where_the_budget_says_so(tmp_path: Path) -> None:
    text = IN_KERNELS.replace("SIZES", "{ M = 256, K = 256, N = 768 }")
    text += transform("quantize-in-column-blocks", "q", "block = 128")
    result = lint(tmp_path, text)
    assert (severities(result), result.exit_code) == ([("COST701", "note")], 0)
    demanding = text + '[budget]\ncost = "error"\n'
    result = lint(tmp_path, demanding)
    assert (severities(result), result.exit_code) == ([("COST701", "error")], 1)
    allowed = demanding + '[[allow]]\ncode = "COST701"\nat = "q"\nreason = "one launch less"\n'
    result = lint(tmp_path, allowed)
    assert severities(result) == [("COST701", "note")]
    (finding,) = (f for f in result.findings if f.code == "COST701")
    assert finding.message.endswith("128 KiB -> 896 KiB; allowed: one launch less")


PLACING = [rule for rule in load_rules().values() if rule.places is not None]


@pytest.mark.parametrize("rule", PLACING, ids=lambda rule: rule.code)
def test_a_rule_places_values_of_its_own_graph(rule: Rewrite) -> None:
    assert rule.placement or rule.places in (split_across_blocks, stored_between_blocks)
    examples = [example for example in rule.examples if example.kind == "holds"]
    for example in examples:
        site = staged(rule, example)
        assert rule.places is not None
        placement = rule.places(site)
        named = {*placement.tiles, *(name for pair in placement.inside for name in pair)}
        named |= {name for group in placement.together for name in group}
        named |= {*placement.split, *placement.spills}
        assert named
        assert named <= {n for n in site.program.nodes if not site.program.is_input(n)}
        for value, reader in placement.inside:
            assert reader in site.program.consumers(value)
        before, after = cost_of_program(site.program), cost_of_program(site.program, placement)
        assert after.launches <= before.launches
    assert examples


def test_rules_that_place_are_those_that_fuse_tile_block_split_or_store() -> None:
    assert {rule.code for rule in PLACING} == {
        "FUS101",
        "FUS103",
        "FUS110",
        "FUS113",
        "FUS115",
        "FUS127",
        "QNT305",
        "QNT306",
        "RED201",
        "RED203",
        "RED204",
        "RED205",
        "RED212",
        "RED265",
        "RED266",
    }


def step_of(folder: Path, text: str) -> Step:
    return lint(folder, text).steps[0]


def test_a_region_of_two_graphs_has_a_cost(tmp_path: Path) -> None:
    after = "[after]\ntext = '''\ng: bf16[M, F]\nu: bf16[M, F]\nz: bf16 = silu(g) * u\n'''\n"
    cost = step_of(tmp_path, ACTIVATION + after).cost
    assert cost is not None
    assert (cost.bytes, cost.launches) == ((120 * MIB, 72 * MIB), (2, 1))


def test_what_nothing_depends_on_costs_the_same(tmp_path: Path) -> None:
    text = ACTIVATION.replace("'''\n\"\"\"", "") + transform("change-layout", "t")
    cost = step_of(tmp_path, text).cost
    assert cost is not None
    assert cost.bytes == (120 * MIB, 120 * MIB)  # stored and read in another order
