"""Alternatives of a plan, ranked, with what its budget forbids left out and named."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from costed import MIB, TODAY, transform

from lastbit import cli
from lastbit.cost import device_of
from lastbit.cost.devices import UnknownDeviceError
from lastbit.errors import InputError
from lastbit.exploring import Exploration, explore_plan

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "reports/explore.schema.json").read_text(encoding="utf-8")
)
CHAIN = """schema = 1
[graph]
symbols = { M = { range = [1, 4096], typical = 1024 }, F = 12288 }
text = '''
g: bf16[M, F]
u: bf16[M, F]
t: bf16 = silu(g)
z: bf16 = t * u
q: e4m3fn = z / 1 saturate
'''
"""
PRODUCT = """schema = 1
[graph]
symbols = { M = 64, K = 256, N = 64 }
text = '''
a: bf16[M, K]
w: bf16[K, N]
c: bf16 = matmul(a, w) acc f32 seq
y: bf16 = silu(c)
'''
[target]
device = "a100"
"""


def plan(folder: Path, text: str) -> str:
    path = folder / "p.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def found(folder: Path, text: str, **options: object) -> Exploration:
    return explore_plan(plan(folder, text), today=TODAY, **options)  # type: ignore[arg-type]


def test_partitions_are_ranked_by_traffic(tmp_path: Path) -> None:
    exploration = found(tmp_path, CHAIN)
    assert [item.alternative.bytes // MIB for item in exploration.ranked] == [60, 108, 108, 156]
    assert [item.alternative.launches for item in exploration.ranked] == [1, 2, 2, 3]
    assert (exploration.operators, exploration.sizes) == (3, {"M": 1024})
    assert [item.alternative.bytes // MIB for item in exploration.front] == [60]


def test_what_the_budget_forbids_is_left_out_with_the_reason(tmp_path: Path) -> None:
    text = CHAIN + transform("drop-rounding", "t", "branch = true")
    assert [option.transforms for option in found(tmp_path, text).options] == [
        (),
        ("t.drop-rounding",),
    ]
    exploration = found(tmp_path, text + '[budget]\nchange = "reassociation"\n')
    assert [option.transforms for option in exploration.options] == [()]
    (forbidden,) = exploration.forbidden
    assert (forbidden.transform, forbidden.code, forbidden.reason) == (
        "t.drop-rounding",
        "FUS102",
        "drop-rounding at `t` is a change of `rounding`; the budget allows `reassociation`",
    )


def test_what_is_allowed_is_an_option(tmp_path: Path) -> None:
    text = CHAIN + transform("drop-rounding", "t") + '[budget]\nchange = "bitwise"\n'
    text += '[[allow]]\ncode = "FUS102"\nreason = "reviewed"\n'
    exploration = found(tmp_path, text)
    assert exploration.forbidden == ()
    assert len(exploration.options) == 2


TWO = PRODUCT.replace("y: bf16 = silu(c)", "d: bf16 = matmul(a, w) acc f32 seq")
TWO += '[budget]\nchange = "reassociation"\n'


def test_an_option_builds_on_those_that_stay(tmp_path: Path) -> None:
    text = TWO + transform("split-k", "c", "n = 2") + transform("split-k", "d", "n = 2")
    assert [option.transforms for option in found(tmp_path, text).options] == [
        (),
        ("c.split-k",),
        ("c.split-k", "d.split-k"),
    ]


def test_what_stands_behind_a_forbidden_transform_is_judged_without_it(tmp_path: Path) -> None:
    text = TWO + transform("split-k-bf16-partials", "c", "n = 2")
    text += transform("split-k", "d", "n = 2") + transform("split-k", "c", "n = 2")
    exploration = found(tmp_path, text)
    assert [item.transform for item in exploration.forbidden] == ["c.split-k-bf16-partials"]
    assert [option.transforms for option in exploration.options] == [
        (),
        ("d.split-k",),
        ("d.split-k", "c.split-k"),  # which would be a change of rounding behind the other
    ]


def test_what_cannot_be_applied_is_left_out(tmp_path: Path) -> None:
    text = TWO + transform("drop-rounding", "c") + '[[allow]]\ncode = "FUS"\nreason = "-"\n'
    (forbidden,) = found(tmp_path, text).forbidden
    assert forbidden.reason == (
        "drop-rounding at `c`: requirement `the value is no result of the program` fails"
    )


def test_an_option_is_costed_with_its_transform(tmp_path: Path) -> None:
    exploration = found(tmp_path, PRODUCT + transform("split-k", "c", "n = 2"))
    plain, split = (option.explored.cheapest[0] for option in exploration.options)
    assert split.bytes - plain.bytes == 2 * 2 * 4 * 64 * 64
    assert split.launches - plain.launches == 1


def test_a_placement_is_no_option(tmp_path: Path) -> None:
    text = PRODUCT + transform("tile-output", "c", "rows = 16", "columns = 16")
    text += transform("epilogue", "c")
    assert len(found(tmp_path, text).options) == 1


def test_tiles_fit_the_device(tmp_path: Path) -> None:
    small = found(tmp_path, PRODUCT, device=device_of("rtx-pro-6000"))
    assert small.device is not None
    assert small.device.name == "rtx-pro-6000"
    for item in (*small.ranked, *small.front):
        assert item.alternative.local_bytes <= 99 * 1024


def test_the_kernels_of_the_plan_are_where_it_starts(tmp_path: Path) -> None:
    assert found(tmp_path, PRODUCT).start is None
    kernel = '[[kernel]]\nvalues = ["c", "y"]\nrows = 32\ncolumns = 32\ndepth = 32\n'
    start = found(tmp_path, PRODUCT + kernel).start
    assert start is not None
    assert (start.launches, start.bytes) == (1, 2 * (2 * 64 * 256 * 2) + 2 * 64 * 64)


def test_only_named_values_share_kernels(tmp_path: Path) -> None:
    exploration = found(tmp_path, CHAIN, only=("t", "z"))
    assert [item.alternative.bytes // MIB for item in exploration.ranked] == [108, 156]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("zz", "the graph computes no value 'zz'. Did you mean 'z'?"),
        ("g", "the graph computes no value 'g'. Allowed: q, t, z."),
    ],
)
def test_a_name_that_is_no_value_is_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        found(tmp_path, CHAIN, only=(name,))
    assert str(caught.value) == message


def test_two_graphs_are_not_explored(tmp_path: Path) -> None:
    after = "[after]\ntext = '''\ng: bf16[M, F]\nu: bf16[M, F]\nq: e4m3fn = u saturate\n'''\n"
    with pytest.raises(InputError) as caught:
        found(tmp_path, CHAIN + after)
    assert str(caught.value) == (
        f"{tmp_path / 'p.toml'} compares two graphs, and one is explored. "
        "Take `after` out, or name its graph [graph]."
    )


def test_kernels_of_the_plan_that_do_not_fit_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = PRODUCT.replace("M = 64, K = 256, N = 64", "M = 512, K = 512, N = 512")
    kernel = '[[kernel]]\nvalues = ["c"]\nrows = 256\ncolumns = 512\ndepth = 64\n'
    plan(tmp_path, sizes + kernel + transform("epilogue", "c"))
    assert cli.run(["explore", "p.toml", "--top", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    # 64 terms of 256 rows and 512 columns in 2 bytes, and 256 x 512 running sums of 4.
    assert lines[1:3] == [
        "In the kernels of the plan: 3 MiB, 2 launches, local 608 KiB",
        "  no room: a block of `c` holds 608 KiB (operands 96 KiB, running sums 512 KiB); "
        "a100 gives one block 163 KiB",
    ]
    assert lines[-2:] == [
        "Only places values, and is among these ways where it can be applied",
        "  c.epilogue",
    ]


def test_what_the_kernels_of_the_plan_leave_open_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    more = "d: bf16 = matmul(y, transpose(y)) acc f32 seq"
    text = PRODUCT.replace("y: bf16 = silu(c)", f"y: bf16 = silu(c)\n{more}")
    plan(tmp_path, text + '[[kernel]]\nvalues = ["c", "y"]\nrows = 32\ncolumns = 64\n')
    assert cli.run(["explore", "p.toml", "--top", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[2:4] == [
        "  a block of `y` holds at least 8.2 KiB; its tile has no `depth`",
        "  `d` has no tile, and is counted as if it read each operand once",
    ]


ODD = PRODUCT.replace("M = 64, K = 256, N = 64", "M = 240, K = 256, N = 240")


def test_a_kernel_of_the_plan_is_an_alternative(tmp_path: Path) -> None:
    kernel = '[[kernel]]\nvalues = ["c", "y"]\nrows = 48\ncolumns = 40\ndepth = 8\n'
    exploration = found(tmp_path, ODD + kernel)
    start = exploration.start
    assert start is not None
    rows = [(i.alternative.bytes, i.alternative.local_bytes) for i in exploration.front]
    assert (start.bytes, start.local_bytes) in rows


def test_a_tile_that_a_transform_gives_is_an_alternative(tmp_path: Path) -> None:
    kernel = '[[kernel]]\nvalues = ["c"]\nrows = 16\ncolumns = 16\ndepth = 8\n'
    text = ODD + kernel + transform("tile-output", "c", "rows = 48", "columns = 40")
    text += transform("epilogue", "c", "branch = true")
    exploration = found(tmp_path, text)
    assert exploration.placed == ("c.tile-output", "c.epilogue")
    # Six columns of tiles read A, five rows W.
    tiles = {
        (i.alternative.bytes, c.tile.rows, c.tile.columns, c.tile.depth)
        for i in exploration.front
        for c in i.alternative.choices
    }
    assert (11 * 240 * 256 * 2 + 240 * 240 * 2, 48, 40, 8) in tiles


@pytest.mark.parametrize(("threads", "fits"), [(256, False), (1024, True)])
def test_running_sums_in_registers_must_fit_there(tmp_path: Path, threads: int, fits: bool) -> None:
    # 256 x 256 running sums are 256 registers for each of 256 threads, and 64 for 1024.
    sizes = PRODUCT.replace("M = 64, K = 256, N = 64", "M = 256, K = 256, N = 256")
    kernel = '[[kernel]]\nvalues = ["c", "y"]\nrows = 256\ncolumns = 256\ndepth = 8\n'
    kernel += f'accumulators = "registers"\nthreads = {threads}\n'
    best = found(tmp_path, sizes + kernel).front[0].alternative
    assert (best.bytes == 3 * 256 * 256 * 2) == fits  # all of it at once


def test_a_device_of_the_plan_may_be_named(tmp_path: Path) -> None:
    mine = '[device.mine]\nlike = "a100"\nblock_bytes = 20000\nsource = "me"\n'
    exploration = found(tmp_path, PRODUCT + mine, device="mine")
    assert exploration.device is not None
    assert (exploration.device.name, exploration.device.block_bytes) == ("mine", 20000)
    with pytest.raises(UnknownDeviceError) as caught:
        found(tmp_path, PRODUCT + mine, device="min")
    assert str(caught.value) == "unknown device 'min'. Did you mean 'mine'?"


def test_alternatives_that_a_transform_leaves_as_they_are_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    halves = CHAIN.replace("z / 1", "z / 2")
    plan(tmp_path, halves + transform("multiply-by-exact-reciprocal", "q"))
    exploration = explore_plan("p.toml", today=TODAY)
    assert (exploration.fit, len(exploration.ranked)) == (8, 4)
    assert cli.run(["explore", "p.toml", "--top", "1"]) == 0
    assert (
        "\nLeast traffic, 1 of 4; 4 more cost the same, with transforms that change none of it\n"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize("device", [(), ("--device", "h200")])
def test_the_json_follows_its_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], device: tuple[str, ...]
) -> None:
    kernel = '[[kernel]]\nvalues = ["c"]\nrows = 512\ncolumns = "all"\ndepth = 64\n'
    text = PRODUCT.replace("M = 64", "M = [1, 64]").replace('device = "a100"', "")
    text += kernel + transform("split-k", "c", "n = 2") + transform("epilogue", "c")
    text += transform("drop-rounding", "y")
    assert cli.run(["explore", plan(tmp_path, text), "--format", "json", *device]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, SCHEMA)
    assert document["alternatives"] == {"partitions": 4, "fit": 4, "different": 4}
    assert document["forbidden"]
    document["more"] = 1
    with pytest.raises(jsonschema.ValidationError, match="'more' was unexpected"):
        jsonschema.validate(document, SCHEMA)


EXPECTED = """\
p.toml: 3 operators at M = 1024, 4 partitions; no device is named, and blocks of any size fit

Least traffic, 2 of 4
  traffic  local  launches  kernels [rows x columns x terms of a sum]
   60 MiB      -         1  q (with t, z)
  108 MiB      -         2  z (with t); q

No less traffic with as little local storage
  traffic  local  launches  kernels [rows x columns x terms of a sum]
   60 MiB      -         1  q (with t, z)

Left out: what the plan does not allow
  t.drop-rounding  FUS102: drop-rounding at `t` is a change of `rounding`; \
the budget allows `bitwise`
"""


def test_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    budget = '[budget]\nchange = "bitwise"\n'
    plan(tmp_path, CHAIN + transform("drop-rounding", "t", "branch = true") + budget)
    assert cli.run(["explore", "p.toml", "--top", "2"]) == 0
    assert capsys.readouterr().out == EXPECTED


def test_the_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = plan(tmp_path, PRODUCT)
    assert cli.run(["explore", path, "--format", "json", "--device", "h200", "--top", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["device"]) == ("lastbit.explore/1", "h200")
    assert document["block_bytes"] == 227 * 1024
    (best,) = document["cheapest"]
    assert best == document["front"][0]
    (kernel,) = best["kernels"]
    assert (kernel["values"], kernel["inside"], kernel["rows"]) == (["y"], ["c"], 64)
    assert best["bytes"] == kernel["bytes"] == 2 * (64 * 256 * 2 + 64 * 64)
    assert document["options"] == [{"transforms": [], "partitions": 2, "fit": 2}]


def test_nothing_that_fits_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    device = '[device.tiny]\nlike = "a100"\nblock_bytes = 64\nsource = "none"\n'
    plan(tmp_path, PRODUCT.replace('"a100"', '"tiny"') + device)
    assert cli.run(["explore", "p.toml"]) == 0
    assert capsys.readouterr().out == (
        "p.toml: 2 operators, 2 partitions; 0 fit into blocks of tiny (64 bytes)\n\nNothing fits.\n"
    )


def test_an_unknown_device_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explore", plan(tmp_path, CHAIN), "--device", "h20"]) == 2
    assert capsys.readouterr().err == "unknown device 'h20'. Did you mean 'h200'?\n"
