"""A node that reads values before their rounding is computed from them, and rounds as a store does.

The right values are computed in numpy in float32, rounded to bfloat16 by ml_dtypes at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from inductor_folders import debug_folder

from lastbit import cli
from lastbit.change import Change
from lastbit.importers.inductor.building import program_of
from lastbit.importers.inductor.comparing import compare
from lastbit.importers.inductor.folder import FUSED, PROVENANCE, READABLE, graph_folders
from lastbit.importers.inductor.fx import read_graph
from lastbit.importers.inductor.loops import read_fusion
from lastbit.importers.inductor.meanings import is_held_number
from lastbit.importers.inductor.reading import Reading, read_graph_folder
from lastbit.importers.inductor.selfcheck import checked, differing, needed_by_results
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import results
from lastbit.interpret.policy import Policy
from lastbit.verify.decide import Judged

HEAD = """class <lambda>(torch.nn.Module):
    def forward(self, x: "bf16[8, 8]", y: "bf16[8, 8]"):
"""
PRODUCT = '        mul: "bf16[8, 8]" = torch.ops.aten.mul.Tensor(x, y)\n'
F32 = np.float32
BF16 = ml_dtypes.bfloat16


def _drawn(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 1, (8, 8)).astype(F32).astype(BF16)


def _evaluated(line: str, name: str) -> np.ndarray:
    """Return a value of a graph in which every reading is of an unrounded value."""
    text = f"{HEAD}{PRODUCT}        {line}\n        return ({name},)\n"
    model = program_of(read_graph(text, "graph.py"), "graph.py", lambda reader, read: reader != "")
    given = {"x": _drawn(0).astype(np.float64), "y": _drawn(1).astype(np.float64)}
    found = results(model.program.bind({}), ArrayDomain(given), Policy.BITS)
    return values_of(found[model.program.outputs[0]]).astype(BF16)


def _in_order(terms: np.ndarray) -> np.ndarray:
    total = terms[:, 0]
    for i in range(1, terms.shape[1]):
        total = total + terms[:, i]
    return total


@pytest.mark.parametrize(
    ("line", "name", "right"),
    [
        (
            'sum_1: "bf16[8]" = torch.ops.aten.sum.dim_IntList(mul, [-1])',
            "sum_1",
            _in_order,
        ),
        (
            'mean: "bf16[8]" = torch.ops.aten.mean.dim(mul, [-1])',
            "mean",
            lambda terms: _in_order(terms) / F32(8),
        ),
        (
            'amax: "bf16[8]" = torch.ops.aten.amax.default(mul, [-1])',
            "amax",
            lambda terms: terms.max(axis=1),
        ),
        (
            'add: "bf16[8, 8]" = torch.ops.aten.add.Tensor(mul, 0.3)',
            "add",
            lambda terms: terms + F32(0.3),
        ),
        (
            'add: "bf16[8, 8]" = torch.ops.aten.add.Tensor(mul, x)',
            "add",
            lambda terms: terms + _drawn(0).astype(F32),
        ),
        (
            'sqrt: "bf16[8, 8]" = torch.ops.aten.square.default(mul)',
            "sqrt",
            lambda terms: terms * terms,
        ),
    ],
)
def test_a_reader_of_unrounded_products_gives_the_bits_of_float32(
    line: str, name: str, right: Callable[[np.ndarray], np.ndarray]
) -> None:
    terms = _drawn(0).astype(F32) * _drawn(1).astype(F32)
    want = right(terms).astype(BF16)
    assert _evaluated(line, name).tobytes() == want.tobytes()
    narrow = right(terms.astype(BF16).astype(F32)).astype(BF16)
    # The rounding matters for these inputs, but before a maximum, which is the same one after.
    assert (narrow.tobytes() == want.tobytes()) == (name == "amax")


def test_a_sum_of_products_rounds_to_float32_and_then_to_bfloat16() -> None:
    factor = 2.0**-8 + 2.0**-28  # 1 and this is above a tie of bf16; in f32 it is the tie, to even
    text = (
        f"{HEAD}"
        f'        mul: "bf16[8, 8]" = torch.ops.aten.mul.Tensor(x, {factor!r})\n'
        '        add: "bf16[8, 8]" = torch.ops.aten.add.Tensor(mul, 1)\n'
        "        return (add,)\n"
    )
    model = program_of(read_graph(text, "graph.py"), "graph.py", lambda reader, read: reader != "")
    given = {"x": np.ones((8, 8)), "y": np.ones((8, 8))}
    found = results(model.program.bind({}), ArrayDomain(given), Policy.BITS)["add"]
    want = (np.ones((8, 8), F32) * F32(factor) + F32(1)).astype(BF16)
    assert want[0, 0] == 1
    assert values_of(found).astype(BF16).tobytes() == want.tobytes()


def _reading(name: str, folder: Path) -> Reading:
    (one,) = graph_folders(str(debug_folder(name, folder)))
    return read_graph_folder(one)


def test_a_dropped_rounding_that_the_judged_program_keeps_is_unknown(tmp_path: Path) -> None:
    reading = _reading("three", tmp_path)
    kept = compare(replace(reading, after=reading.middle))
    assert [step.change for step in kept.steps] == ["unknown"]
    assert "the program of the kernels rounds there" in kept.steps[0].notes[0]
    assert any(finding.severity == "error" for finding in kept.findings)
    assert any(finding.code == "FUS102" for finding in kept.findings)


def test_bitwise_beside_a_dropped_rounding_is_unknown(tmp_path: Path) -> None:
    reading = _reading("three", tmp_path)
    same = Judged("", Change.BITWISE, ("add_1",))
    assert checked(same, reading.dropped, reading) == same  # the judged program drops it, too
    denied = checked(same, reading.dropped, replace(reading, after=reading.middle))
    assert denied.change == Change.UNKNOWN
    assert denied.notes == ("`add` is no longer rounded, and the judged program rounds there",)
    other = replace(same, change=Change.ROUNDING)
    assert checked(other, reading.dropped, replace(reading, after=reading.middle)) == other


def test_results_that_differ_without_a_verdict_or_a_cause_are_found(tmp_path: Path) -> None:
    reading = _reading("three", tmp_path)

    def differs(a: int, b: int) -> int:
        return int(a != b)

    assert differing([(1, 2)], [reading], [], differs) == ([0], [])
    assert differing([(1, 1)], [reading], [], differs) == ([], [])
    told = compare(reading).steps
    assert [step.change for step in told] == ["rounding"]
    assert differing([(1, 2)], [reading], told, differs) == ([], [])


def test_a_number_that_its_format_holds_drops_no_rounding() -> None:
    line = '        full: "bf16[]" = torch.ops.aten.full.default([], {}, dtype = torch.bfloat16)\n'
    for number, held in ((0, True), (1.5, True), (0.3, False), (65536.0, True)):
        text = f"{HEAD}{line.format(number)}        return (full,)\n"
        node = read_graph(text, "graph.py").nodes["full"]
        assert is_held_number(node) is held


def test_a_graph_without_kernels_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (READABLE, "fx_graph_transformed.py"):
        (tmp_path / name).write_text(f"{HEAD}        return (x,)\n")
    (tmp_path / FUSED).write_text("\n")
    (tmp_path / PROVENANCE).write_text('{"cppCodeToPost": {}}')
    assert cli.run(["lint", str(tmp_path)]) == 0
    assert "decided 0 of no steps" in capsys.readouterr().out


def test_what_no_result_hangs_on_is_known_and_comes_last(tmp_path: Path) -> None:
    dead = '        add: "bf16[8, 8]" = torch.ops.aten.add.Tensor(mul, x)\n'
    (tmp_path / READABLE).write_text(f"{HEAD}{PRODUCT}{dead}        return (mul,)\n")
    (tmp_path / FUSED).write_text("\n")
    (folder,) = graph_folders(str(tmp_path))
    assert needed_by_results(read_graph_folder(folder)) == {"x", "y", "mul"}


def test_what_is_written_into_in_the_same_kernel_is_known() -> None:
    text = (
        "op0: SchedulerNode(ComputedBuffer)\n"
        "op0.outputs = [\n"
        "    buf1: ComputedBuffer\n"
        "    buf1.layout = FixedLayout('cpu', torch.bfloat16, size=[8], stride=[1])\n"
        "    buf1.mutations = ['buf0']\n"
        "]\n"
    )
    (operation,) = read_fusion(text, "ir.txt").operations
    assert operation.mutates == ["buf0"]
