"""`check F.py:f --compile` names the pass of Inductor that changes a verdict first, and splits."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lastbit.importers.inductor.capture import captured
from lastbit.importers.inductor.checking import check_compiled
from lastbit.importers.torch_calls import resolve
from lastbit.tracing.targets import load_targets

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")

MODELS = Path(__file__).parents[2] / "examples/models"
FORMAT = {"x": "bf16[32, 32]", "r": "bf16[32, 32]", "w": "bf16[32, 32]"}


def product_and_sum(x: Any, r: Any, w: Any) -> Any:
    return x + r @ w


def three(x: Any, r: Any, w: Any) -> Any:
    return (x + r) + w


def attention(x: Any, r: Any, w: Any) -> Any:
    q, k, v = (one.view(2, 2, 16, 16) for one in (x, r, w))
    return ((q @ k.transpose(-1, -2)) / 4.0).softmax(-1) @ v


def _notes(function: Any) -> list[tuple[str, str]]:
    result = check_compiled("f", function, inputs=FORMAT)
    found = []
    for step in result.steps:
        (note,) = [one for one in step.notes if one.startswith("first changed by")]
        found.append((str(step.change), note))
    return found


def test_the_post_grad_pass_that_drops_a_rounding_is_named() -> None:
    ((change, note),) = _notes(product_and_sum)
    assert change == "rounding"
    assert note.startswith("first changed by the post-grad pass `pass_pattern_")


def test_where_only_fusion_drops_a_rounding_the_kernels_are_named() -> None:
    assert _notes(three) == [
        (
            "rounding",
            "first changed by the kernels: fusion and code generation; Inductor's passes over the "
            "graph change nothing here",
        )
    ]


def test_what_happens_before_the_graph_is_divided_is_a_step_of_its_own() -> None:
    result = check_compiled("f", attention, inputs=FORMAT)
    first = result.steps[0]
    assert first.id == "joint"
    assert first.title.endswith("in another way by a joint pass")
    assert any(
        one.startswith("first changed by the joint pass `pass_pattern_") for one in first.notes
    )
    assert str(first.change) == "rounding"


def _without_a_sum(graph: Any) -> None:
    """Make the first sum a product: a pass that is wrong on purpose."""
    for node in graph.nodes:
        if node.op == "call_function" and "add" in str(node.target):
            aten = "aten" in str(node.target)
            node.target = torch.ops.aten.mul.Tensor if aten else torch.mul
            return


@pytest.mark.parametrize(
    ("option", "kind"), [("joint_custom_post_pass", "joint"), ("pre_grad_custom_pass", "pre-grad")]
)
def test_a_pass_of_the_user_is_named_when_it_computes_something_else(
    option: str, kind: str
) -> None:
    from torch._inductor import config

    with config.patch({option: _without_a_sum}):
        result = check_compiled("f", three, inputs=FORMAT)
    first = result.steps[0]
    assert (first.id, str(first.change)) == (kind, "math")
    assert any(f"the {kind} pass `{option}` (math)" in one for one in first.notes)


def test_a_torch_without_single_passes_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.fx.passes.graph_transform_observer import GraphTransformObserver

    from lastbit.importers.inductor import passes

    monkeypatch.setattr(passes, "METHODS", ("apply_graph_pass", "a_method_that_is_gone"))
    kept = GraphTransformObserver.apply_graph_pass
    result = check_compiled("f", product_and_sum, inputs=FORMAT)
    assert GraphTransformObserver.apply_graph_pass is kept
    said = f"torch {torch.__version__} shows no single passes of Inductor"
    assert said in [finding.message for finding in result.findings]
    (step,) = result.steps
    assert any("Inductor's passes over the graph (rounding)" in one for one in step.notes)


def test_the_observer_is_as_before_when_a_function_was_compiled() -> None:
    from torch.fx.passes.graph_transform_observer import GraphTransformObserver

    kept = GraphTransformObserver.apply_graph_pass
    with captured(resolve("f", three, FORMAT)) as found:
        assert found.graphs[0].passes is not None
    assert GraphTransformObserver.apply_graph_pass is kept


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_block_of_gpt2_is_decided_reader_by_reader(dtype: Any) -> None:
    (build,) = load_targets(f"{MODELS}/gpt2_block.py:build")
    module = build().to(dtype)
    module.inputs = tuple(one.to(dtype) for one in build.inputs())
    result = check_compiled("block", module)
    assert [str(step.change) for step in result.steps] == ["rounding", "rounding"]
    assert result.steps[1].at == ("add_7",)  # the residual, apart from the norm behind it


def test_bits_that_differ_in_f32_are_never_said_to_be_the_same() -> None:
    (build,) = load_targets(f"{MODELS}/gpt2_block.py:build")
    module = build().to(torch.float32)
    module.inputs = tuple(one.to(torch.float32) for one in build.inputs())
    result = check_compiled("block", module, max_change="bitwise")
    assert result.steps == ()
    (found,) = [one for one in result.findings if one.code == "RED200"]
    assert found.severity == "error"
    assert found.message.startswith("eager and compiled results differ, and no rounding is dropped")


def test_a_part_of_a_tensor_is_saved_for_the_backward_with_its_strides() -> None:
    def f(x: Any) -> Any:
        q, k, v = (x @ x)[:, :96].reshape(4, 24, 3, 32).unbind(2)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).float().sum()

    f.inputs = (torch.randn(96, 96).bfloat16().requires_grad_(),)  # type: ignore[attr-defined]
    result = check_compiled("f", f)
    assert all(str(step.change) != "unknown" for step in result.steps)
