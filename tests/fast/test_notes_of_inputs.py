"""An input that the file does not have is noted only where something of the file reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastbit.importers import aten
from lastbit.importers.imported import Imported
from lastbit.importers.writer import Out, Writer

MASK = "a causal mask is an input of its own, equal where its sizes are"
ARANGE = "the indices of arange are inputs of their own, equal where their sizes are"
TRIANGLE = "the mask of tril and triu is an input of its own, equal where its sizes are"
DIMS = ("2", "3", "4", "8")


def _attention(causal: bool, returned: str) -> Imported:
    writer = Writer("m.pt2")
    x = writer.input(Out("x", "bf16", DIMS))
    step = writer.step("aten.attention", [Out("y", "bf16", DIMS)])
    target = "torch.ops.aten.scaled_dot_product_attention.default"
    aten.apply(step, target, [x, x, x, None, 0.0, causal], {})
    writer.step("aten.neg", [Out("z", "bf16", DIMS)]).give("-x")
    return writer.imported([returned], {})


@pytest.mark.parametrize(
    ("causal", "returned", "noted"),
    [(True, "y", True), (True, "z", False), (False, "y", False)],
)
def test_a_causal_mask_is_noted_where_it_is_read(causal: bool, returned: str, noted: bool) -> None:
    assert (MASK in _attention(causal, returned).assumed) is noted


@pytest.mark.parametrize("returned", ["kept", "y"])
def test_indices_and_triangles_are_noted_where_they_are_read(returned: str) -> None:
    writer = Writer("m.pt2")
    x = writer.input(Out("x", "bf16", ("4", "4")))
    indices = writer.step("aten.arange", [Out("i", "i64", ("4",))])
    aten.apply(indices, "torch.ops.aten.arange.default", [4], {})
    triangle = writer.step("aten.tril", [Out("t", "bf16", ("4", "4"))])
    aten.apply(triangle, "torch.ops.aten.tril.default", [x], {})
    writer.step("aten.mul", [Out("y", "bf16", ("4", "4"))]).give(f"t * {writer.values['i'].name}")
    writer.step("aten.neg", [Out("kept", "bf16", ("4", "4"))]).give("-x")
    found = writer.imported([returned], {}).assumed
    assert [text for text in found if text in (ARANGE, TRIANGLE)] == (
        [] if returned == "kept" else [ARANGE, TRIANGLE]
    )


def test_what_only_an_opaque_operator_reads_is_noted() -> None:
    writer = Writer("m.pt2")
    step = writer.step("aten.arange", [Out("i", "i64", ("4",))])
    aten.apply(step, "torch.ops.aten.arange.default", [4], {})
    writer.step("aten.sort", [Out("o", "i64", ("4",))]).opaque([writer.values["i"]])
    assert ARANGE in writer.imported(["o"], {}).assumed


def test_a_node_of_onnx_that_turns_out_to_be_opaque_leaves_no_note(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    from onnx_models import model, node, saved

    from lastbit.importers.onnx import read_onnx

    made = node("z = Attention(q, k, k, mask)", is_causal=1)
    given = ["q: f16[1, 4, 6, 8]", "k: f16[1, 2, 6, 8]", "mask: f16[1, 4, 6, 6]"]
    found = read_onnx(saved(tmp_path, model([made], given, ["z: f16[1, 4, 6, 8]"])))
    assert [one.operator for one in found.opaque] == ["Attention"]  # a mask for each head
    assert found.inputs == {}
    assert [text for text in found.assumed if "Attention" not in text] == []
