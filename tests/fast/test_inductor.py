"""A debug folder of Inductor says which roundings its kernels drop, and what that changes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from inductor_folders import RECORDED, debug_folder

from lastbit.importers.inductor.folder import graph_folders
from lastbit.importers.inductor.loops import read_fusion
from lastbit.importers.inductor.reading import Reading, read_graph_folder
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import results
from lastbit.interpret.policy import Policy
from lastbit.lint import lint_plans
from lastbit.text import Program

SCRIPT = (RECORDED / "record.py").read_text()


def _reading(name: str, folder: Path) -> Reading:
    (one,) = graph_folders(str(debug_folder(name, folder)))
    return read_graph_folder(one)


def _pairs(reading: Reading) -> list[tuple[str, str | None]]:
    return [(one.name, one.reader) for one in reading.dropped]


def _evaluated(program: Program, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    found = results(program.bind({}), ArrayDomain(inputs), Policy.BITS)
    return {name: values_of(x) for name, x in found.items()}


def _bf16(seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(0, 1, (64, 64))
    return drawn.astype(np.float32).astype(ml_dtypes.bfloat16)


def test_a_sum_that_stays_in_a_register_is_read_unrounded(tmp_path: Path) -> None:
    reading = _reading("three", tmp_path)
    assert _pairs(reading) == [("add", "add_1")]
    assert reading.dropped[0].kernels == ("cpp_fused_add_0",)
    assert (reading.dropped[0].place.file, reading.dropped[0].format) == ("record.py", "bf16")


def test_both_programs_of_three_give_the_bits_that_numpy_gives(tmp_path: Path) -> None:
    reading = _reading("three", tmp_path)
    x, r, w = (_bf16(seed) for seed in range(3))
    given = {f"arg{i}_1": v.astype(np.float64) for i, v in enumerate((x, r, w))}
    before = (x + r) + w  # ml_dtypes rounds every sum to bf16
    f32 = [v.astype(np.float32) for v in (x, r, w)]
    after = ((f32[0] + f32[1]) + f32[2]).astype(ml_dtypes.bfloat16)
    assert 500 < (before != after).sum() < 2000
    for program, want in ((reading.before.program, before), (reading.after.program, after)):
        found = _evaluated(program, given)["add_1"].astype(ml_dtypes.bfloat16)
        assert found.tobytes() == want.tobytes()


def test_a_value_that_is_stored_and_passed_on_is_rounded_in_the_store_only(tmp_path: Path) -> None:
    reading = _reading("passed_on", tmp_path)
    assert _pairs(reading) == [("add", "mul")]
    x, r, w = (_bf16(seed) for seed in range(3))
    given = {f"arg{i}_1": v.astype(np.float64) for i, v in enumerate((x, r, w))}
    found = _evaluated(reading.after.program, given)
    total = x.astype(np.float32) + r.astype(np.float32)
    want = (total * w.astype(np.float32)).astype(ml_dtypes.bfloat16)
    assert found["add"].astype(ml_dtypes.bfloat16).tobytes() == (x + r).tobytes()
    assert found["mul"].astype(ml_dtypes.bfloat16).tobytes() == want.tobytes()


def test_a_product_that_a_library_call_adds_is_named(tmp_path: Path) -> None:
    reading = _reading("product_and_sum", tmp_path)
    (merged,) = reading.merged
    assert (merged.name, merged.into, merged.operator) == ("mm", "addmm_default", "aten.addmm")
    result = lint_plans([str(tmp_path / "product_and_sum")])
    assert [step.change for step in result.steps] == ["rounding"]
    assert result.steps[0].notes[-1] == (
        "first changed by Inductor's passes over the graph (rounding); the folder does not say "
        "which of them: `check FILE:NAME --compile` does"
    )
    (found,) = [f for f in result.findings if f.code == "FUS102"]
    assert "`mm` is no longer rounded before it is added" in found.message


def test_a_literal_is_rounded_by_the_operator_and_not_by_the_kernel(tmp_path: Path) -> None:
    debug_folder("literal", tmp_path)
    (step,) = lint_plans([str(tmp_path)]).steps
    assert step.title == "a number beside `add` is no longer rounded first"
    assert step.change == "rounding"
    assert any(note.startswith("first changed by the kernels") for note in step.notes)


def test_the_mean_and_the_variance_of_a_norm_read_an_unrounded_product(tmp_path: Path) -> None:
    assert _pairs(_reading("layer_norm", tmp_path)) == [("mul", "var_mean"), ("mul", "sub")]


def test_every_dropped_rounding_of_a_layer_is_named(tmp_path: Path) -> None:
    reading = _reading("qwen3", tmp_path)
    names = list(dict.fromkeys(one.name for one in reading.dropped))
    # Read by hand from the loop bodies: three norms before their weights, the scaled heads of q
    # and k, their rotation, the residual, the last norm, and silu.
    norms = ["convert_element_type_1", "convert_element_type_5", "convert_element_type_9"]
    heads = ["mul_3", "mul_6", "mul_7", "mul_5", "mul_8", "mul_9"]
    rest = ["add_5", "convert_element_type_15", "convert_element_type_19"]
    assert sorted(names) == sorted([*norms, *heads, *rest])
    assert {one.place.file for one in reading.dropped} == {"qwen3_layer.py"}
    assert not any(one.assumed for one in reading.dropped)
    assert reading.readings is not None
    assert reading.readings.known == reading.readings.computed
    # What is stored before it is joined and read back by another loop stays rounded.
    assert ("cat", "mul_7") not in _pairs(reading)


def test_with_emulated_casts_nothing_is_dropped(tmp_path: Path) -> None:
    result = lint_plans([str(debug_folder("qwen3_emulated", tmp_path))])
    assert (result.steps, [f.severity for f in result.findings]) == ((), ["note"])
    assert "emulate_precision_casts = True" in result.findings[0].message


def test_an_absent_argument_is_a_dropped_rounding(tmp_path: Path) -> None:
    folder = debug_folder("qwen3", tmp_path)
    want = _pairs(read_graph_folder(graph_folders(str(folder))[0]))
    file = folder / "ir_post_fusion.txt"
    text = file.read_text()
    assert ", use_compute_types = True" in text
    file.write_text(text.replace(", use_compute_types = True", ""))  # as torch 2.11 prints it
    assert _pairs(read_graph_folder(graph_folders(str(folder))[0])) == want


@pytest.mark.parametrize(
    ("file", "kept"), [("loop_body_2_13.txt", 0), ("loop_body_emulated_2_13.txt", 6)]
)
def test_a_loop_body_says_which_casts_round(file: str, kept: int) -> None:
    (operation,) = read_fusion((RECORDED / file).read_text(), file).operations
    casts = [c for c in operation.bodies["body"] if c.function == "to_dtype"]
    narrow = [c for c in casts if c.args[1] == "bfloat16"]
    assert sum(c.keywords.get("use_compute_types", True) is False for c in narrow) == kept


def test_without_loop_bodies_the_lists_of_nodes_decide_and_that_is_said(tmp_path: Path) -> None:
    folder = debug_folder("three", tmp_path)
    (folder / "ir_post_fusion.txt").unlink()
    (one,) = graph_folders(str(folder))
    reading = read_graph_folder(one)
    assert [(d.name, d.assumed) for d in reading.dropped] == [("add", True)]
    assert "found in no loop body" in reading.notes[0]


def test_a_triton_graph_is_read_from_its_provenance(tmp_path: Path) -> None:
    folder = tmp_path / "rmsnorm"
    folder.mkdir()
    lines = [
        "class GraphModule(torch.nn.Module):",
        '    def forward(self, x: "bf16[512, 4096][4096, 1]cuda:0", w: "bf16[4096][1]cuda:0"):',
        "        # File: model.py:7 in forward, code: y = x.float()",
        '        convert_element_type: "f32[512, 4096][4096, 1]cuda:0" = '
        "torch.ops.prims.convert_element_type.default(x, torch.float32)",
        '        pow_1: "f32[512, 4096][4096, 1]cuda:0" = '
        "torch.ops.aten.pow.Tensor_Scalar(convert_element_type, 2)",
        '        mean: "f32[512, 1][1, 1]cuda:0" = torch.ops.aten.mean.dim(pow_1, [-1], True)',
        '        add: "f32[512, 1][1, 1]cuda:0" = torch.ops.aten.add.Tensor(mean, 1e-06)',
        '        rsqrt: "f32[512, 1][1, 1]cuda:0" = torch.ops.aten.rsqrt.default(add)',
        '        mul: "f32[512, 4096][4096, 1]cuda:0" = '
        "torch.ops.aten.mul.Tensor(convert_element_type, rsqrt)",
        "        # File: model.py:9 in forward, code: return self.weight * y.to(x.dtype)",
        '        convert_element_type_1: "bf16[512, 4096][4096, 1]cuda:0" = '
        "torch.ops.prims.convert_element_type.default(mul, torch.bfloat16)",
        '        mul_1: "bf16[512, 4096][4096, 1]cuda:0" = '
        "torch.ops.aten.mul.Tensor(convert_element_type_1, w)",
        "        return (mul_1,)",
    ]
    (folder / "fx_graph_readable.py").write_text("\n".join(lines))
    kernels = json.loads((RECORDED / "triton_2_11.json").read_text())["cppCodeToPost"]
    name = "inductor_provenance_tracking_node_mappings.json"
    (folder / name).write_text(json.dumps({"cppCodeToPost": dict([next(iter(kernels.items()))])}))
    (folder / "output_code.py").write_text((RECORDED / "triton_2_11.py.txt").read_text())
    reading = read_graph_folder(graph_folders(str(folder))[0])
    kernel = "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0"
    assert [(d.name, d.reader, d.kernels) for d in reading.dropped] == [
        ("convert_element_type_1", "mul_1", (kernel,))
    ]
    assert reading.dropped[0].place.line == 9
    assert reading.reductions == (f"{kernel} adds up in a loop over blocks",)


def test_lint_reports_by_source_line_without_torch(tmp_path: Path) -> None:
    folder = debug_folder("three", tmp_path)
    code = (
        "import sys; from lastbit.lint import lint_plans; "
        f"r = lint_plans([{str(folder)!r}]); "
        "print([(f.code, f.location.file, f.location.line) for f in r.findings if f.step], "
        "r.decided, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    line = next(i for i, one in enumerate(SCRIPT.splitlines(), 1) if "return (x + r) + w" in one)
    assert done.stdout == f"[('FUS102', 'record.py', {line})] (1, 1) False\n"
