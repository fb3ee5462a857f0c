"""What ONNX Runtime does to a model is named, and a run shows that it explains every bit."""

from __future__ import annotations

import importlib.util
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
from onnx_models import model, node, normals, saved

from lastbit.errors import InputError
from lastbit.importers.onnx import read_onnx
from lastbit.importers.onnx.checking import check_onnx
from lastbit.importers.onnx.comparing import aligned, dropped
from lastbit.importers.onnx.reading import read_model
from lastbit.importers.onnx.running import (
    LEVELS,
    draw_inputs,
    optimised,
    run_nodes,
    run_whole,
)

EXAMPLE = Path(__file__).parents[2] / "examples" / "models" / "onnx_layer.py"
HALVES = ["by_cos", "neg", "cat", "by_sin"]
TAIL = ["projected", "residual", "normed_2", "gate", "silu", "up", "gated", "down"]


@lru_cache(maxsize=1)
def example() -> Any:
    """Return the example that builds a Qwen3-like layer."""
    spec = importlib.util.spec_from_file_location("onnx_layer", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["onnx_layer"] = made
    spec.loader.exec_module(made)
    return made


def layer(folder: Path, level: str = "all", kind: str = "f16") -> tuple[str, str]:
    """Write the layer, and what ONNX Runtime makes of it; return both paths."""
    before, after = folder / "before.onnx", folder / "after.onnx"
    onnx.save(example().layer(kind), before)
    example().optimise(before, after, level)
    return str(before), str(after)


@pytest.mark.parametrize("level", LEVELS)
def test_sixteen_values_of_the_layer_are_no_longer_rounded(tmp_path: Path, level: str) -> None:
    before, after = layer(tmp_path, level)
    first = read_onnx(before)
    found = dropped(first, aligned(first, read_onnx(after)))
    kept = {one.name for one in found if one.after == "f32"}
    absorbed = {one.name: one.how for one in found if one.after is None}
    wanted = {f"{name}_{side}" for name in HALVES for side in "qk"} | set(TAIL)
    assert len(read_model(before).nodes) == 39
    assert len(wanted) == 16
    if level != "all":  # the gate is not fused yet
        assert kept == wanted | {"sigmoid"}
        assert not absorbed
    else:
        assert kept == wanted
        how = "it went into com.microsoft.QuickGelu of `silu` by QuickGeluFusion"
        assert absorbed == {"sigmoid": how}


def test_the_layer_differs_by_its_roundings_and_a_run_explains_every_bit(tmp_path: Path) -> None:
    result = check_onnx(*layer(tmp_path), run=True)
    assert result.decided == (3, 3)
    assert [(step.at, step.change) for step in result.steps] == [
        (("rope_q",), "rounding"),
        (("rope_k",), "rounding"),
        (("y",), "rounding"),
    ]
    assert all(step.witness is not None for step in result.steps)
    runs = [note for step in result.steps for note in step.notes if note.startswith("run: ")]
    elements = {"rope_q": "1,024", "rope_k": "512", "y": "1,024"}
    for note, (name, count) in zip(runs, elements.items(), strict=True):
        held = f"all {count} elements as predicted"
        assert note.startswith(f"run: `{name}` (f16): node by node: {held}; whole: {held}; ")
    codes = [finding.code for finding in result.findings]
    assert codes.count("FUS102") == 17
    assert result.exit_code == 0


def test_the_whole_differs_from_node_by_node_alike_at_every_level(tmp_path: Path) -> None:
    before, _ = layer(tmp_path)
    read = read_model(before)
    given = draw_inputs(read, {}, seed=0)
    alone = run_nodes(read, given, wanted=())["y"]
    counts = {
        int((run_whole(read, given, level)["y"].view(np.uint16) != alone.view(np.uint16)).sum())
        for level in LEVELS
    }
    assert len(counts) == 1
    assert 300 < counts.pop() < 900  # of 1024; how many depends on the weights


def test_a_layer_in_f32_keeps_every_bit(tmp_path: Path) -> None:
    result = check_onnx(*layer(tmp_path, kind="f32"))
    assert [(step.at, step.change) for step in result.steps] == [(("silu",), "bitwise")]
    assert [f.code for f in result.findings if f.step] == ["FUS101"]


def block(folder: Path, kind: str) -> tuple[str, str]:
    """Write a residual layer norm, a GELU and scaled scores, and what ONNX Runtime fuses there."""
    dtype = {"f32": np.float32, "f16": np.float16}[kind]
    nodes = [
        node("a = Add(x, r)"),
        node("ln = LayerNormalization(a, g, b)"),
        node("mm = MatMul(ln, w)"),
        node("mb = Add(mm, wb)"),
        node("d = Div(mb, root)"),
        node("e = Erf(d)"),
        node("e1 = Add(e, one)"),
        node("m1 = Mul(mb, e1)"),
        node("y = Mul(m1, half)"),
        node("t = Transpose(ln)", perm=[0, 2, 1]),
        node("qk = MatMul(ln, t)"),
        node("s = Mul(qk, scale)"),
    ]
    weights = {
        "g": normals((64,), dtype, 1),
        "b": normals((64,), dtype, 2),
        "w": normals((64, 32), dtype, 3) / 8,
        "wb": normals((32,), dtype, 4),
        "root": np.array(2**0.5, dtype),
        "one": np.array(1, dtype),
        "half": np.array(0.5, dtype),
        "scale": np.array(0.125, dtype),
    }
    ends = [f"x: {kind}[B, S, 64]", f"r: {kind}[B, S, 64]"]
    made = model(nodes, ends, [f"y: {kind}[B, S, 32]", f"s: {kind}[B, S, S]"], weights)
    before, after = saved(folder, made, "before.onnx"), str(folder / "after.onnx")
    optimised(read_model(before), after)
    return before, after


def test_fusions_are_named_and_judged(tmp_path: Path) -> None:
    before, after = block(tmp_path, "f32")
    fused = {one.op for one in read_model(after).nodes if one.domain == "com.microsoft"}
    assert fused == {"SkipLayerNormalization", "BiasGelu", "FusedMatMul"}
    result = check_onnx(before, after)
    assert [(step.at, step.change) for step in result.steps] == [
        (("ln", "s"), "bitwise"),
        (("y",), "rounding"),
    ]
    texts = [finding.message for finding in result.findings]
    norm = "it went into com.microsoft.SkipLayerNormalization of `ln`"
    assert f"`a` is no value any more: {norm}" in texts
    product = "com.microsoft.FusedMatMul of `s` by MatmulTransposeFusion and MatMulScaleFusion"
    assert f"`t` is no value any more: it went into {product}" in texts


def test_a_model_with_other_weights_results_or_inputs_is_refused(tmp_path: Path) -> None:
    one = model([node("y = Relu(x)")], ["x: f16[M, 4]"], ["y: f16[M, 4]"])
    other = model([node("z = Relu(x)")], ["x: f16[M, 4]"], ["z: f16[M, 4]"])
    third = model([node("y = Relu(q)")], ["q: f16[M, 4]"], ["y: f16[M, 4]"])
    paths = [saved(tmp_path, m, f"{i}.onnx") for i, m in enumerate((one, other, third))]
    with pytest.raises(InputError, match="`y` is no result of the model, and one of"):
        check_onnx(paths[0], paths[1])
    with pytest.raises(InputError, match="has no input `q` of this shape"):
        check_onnx(paths[0], paths[2])


def test_another_function_fails(tmp_path: Path) -> None:
    ends = ["x: f16[M, 4]"], ["y: f16[M, 4]"]
    before = saved(tmp_path, model([node("t = Add(x, x)"), node("y = Relu(t)")], *ends), "a.onnx")
    after = saved(tmp_path, model([node("t = Add(x, x)"), node("y = Neg(t)")], *ends), "b.onnx")
    result = check_onnx(before, after)
    assert [step.change for step in result.steps] == ["math"]
    assert result.exit_code == 1


def test_an_opaque_operator_that_reads_what_differs_is_undecided(tmp_path: Path) -> None:
    def made(first: str, name: str) -> str:
        nodes = [node(f"t = {first}"), node("u = my::Strange(t)"), node("y = Relu(u)")]
        proto = model(nodes, ["x: f16[M, 4]"], ["y: f16[M, 4]"], domains=["my"])
        proto.graph.value_info.append(onnx.helper.make_tensor_value_info("u", 10, ["M", 4]))
        return saved(tmp_path, proto, name)

    same = check_onnx(made("Add(x, x)", "a.onnx"), made("Add(x, x)", "b.onnx"))
    assert same.decided == (0, 0)
    assert same.exit_code == 0
    result = check_onnx(made("Add(x, x)", "a.onnx"), made("Mul(x, x)", "b.onnx"))
    (step,) = [step for step in result.steps if step.change == "unknown"]
    assert step.title == "my.Strange reads `t`, which differs, and is known by its name only"


def test_bf16_cannot_be_run_on_the_cpu(tmp_path: Path) -> None:
    made = model([node("y = Relu(x)")], ["x: bf16[M, 4]"], ["y: bf16[M, 4]"])
    path = saved(tmp_path, made)
    with pytest.raises(InputError, match="ONNX Runtime has no CPU kernels for bf16"):
        check_onnx(path, path, run=True)


def test_the_sizes_of_symbols_and_the_batch_can_be_given(tmp_path: Path) -> None:
    before, after = block(tmp_path, "f32")
    result = check_onnx(before, after, symbols={"B": (1, 8), "S": (4, 4)}, batch="B")
    assert result.steps[1].promises["batch_invariant"].after is True
    with pytest.raises(InputError, match="no size has the symbol 'Z'"):
        check_onnx(before, after, symbols={"Z": (1, 8)})


def test_a_region_too_large_for_inputs_is_bounded_by_a_law(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lastbit.importers.onnx.checking.MOST_JUDGED", 0)
    result = check_onnx(*layer(tmp_path))
    assert [step.change for step in result.steps] == ["rounding"] * 3
    assert {step.evidence[0].by for step in result.steps} == {"law"}
    ends = ["x: f16[M, 4]"], ["y: f16[M, 4]"]
    before = saved(tmp_path, model([node("y = Relu(x)")], *ends), "a.onnx")
    after = saved(tmp_path, model([node("y = Neg(x)")], *ends), "b.onnx")
    assert [step.change for step in check_onnx(before, after).steps] == ["unknown"]
