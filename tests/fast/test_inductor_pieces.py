"""A region is cut where a value is stored, and the pass that changes its verdict first is named."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

from lastbit.change import Change
from lastbit.importers.imported import Imported
from lastbit.importers.inductor.building import program_of
from lastbit.importers.inductor.comparing import compare_chain
from lastbit.importers.inductor.fx import Graph, read_graph
from lastbit.importers.inductor.loops import read_fusion
from lastbit.importers.inductor.passes import Chain, Stage
from lastbit.importers.inductor.pieces import groups_of
from lastbit.importers.inductor.stages import (
    UNCHANGED,
    Judgement,
    first_change,
    judged_stages,
    models_of,
    regions_of,
)
from lastbit.importers.onnx.comparing import aligned
from lastbit.importers.verdicts import Verdicts
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import results
from lastbit.interpret.policy import Policy


def _text(inputs: str, lines: dict[str, str], results: str) -> str:
    """Return a graph as torch.fx prints it: bf16[4, 4] everywhere, or what a name's prefix says."""
    arguments = ", ".join(f'{name}: "{_type(name)}"' for name in inputs.split())
    body = [f'        {name}: "{_type(name)}" = torch.ops.{call}' for name, call in lines.items()]
    head = f"class g(torch.nn.Module):\n    def forward(self, {arguments}):"
    return "\n".join([head, *body, f"        return ({results},)"])


def _type(name: str) -> str:
    kinds = {"wide": "f32[4, 4]", "mask": "b8[4, 4]"}
    return kinds.get(name.partition("_")[0], "bf16[4, 4]")


# A residual, of which a norm-like chain and the last sum read the sum before its rounding.
RESIDUAL = _text(
    "x r w",
    {
        "add": "aten.add.Tensor(x, r)",
        "wide_in": "prims.convert_element_type.default(add, torch.float32)",
        "wide_square": "aten.mul.Tensor(wide_in, wide_in)",
        "normed": "prims.convert_element_type.default(wide_square, torch.bfloat16)",
        "mm": "aten.mm.default(normed, w)",
        "out": "aten.add.Tensor(add, mm)",
    },
    "out",
)


def _graph(text: str) -> Graph:
    return read_graph(text, "g.py")


def _pair(text: str, unrounded: Callable[[str, str], bool]) -> tuple[Imported, Imported]:
    graph = _graph(text)
    before = program_of(graph, "g.py")
    return before, aligned(before, program_of(graph, "g.py", unrounded))


def test_two_readers_of_one_value_are_two_pieces() -> None:
    before, after = _pair(RESIDUAL, lambda reader, read: read in ("add", "wide_in"))
    (group,) = groups_of(before, after)
    (region,) = group.regions
    assert "mm" in region.names  # all that lies between the two readers
    assert [piece.results for piece in group.pieces] == [("normed",), ("out",)]
    assert set(group.pieces[0].names) == {"add", "wide_in", "wide_square", "normed"}
    assert set(group.pieces[1].names) == {"add", "out"}
    verdicts = Verdicts(0)
    assert {verdicts.of(piece).change for piece in group.pieces} == {Change.ROUNDING}
    assert regions_of(before, after, verdicts) == group.pieces


def test_a_value_that_is_read_rounded_and_unrounded_is_computed_inside() -> None:
    def unrounded(reader: str, read: str) -> bool:
        return reader == "out" and read == "add"

    before, after = _pair(RESIDUAL, unrounded)
    (group,) = groups_of(before, after)
    for region in group.pieces or group.regions:
        assert region.plan is not None
        inputs = {st.name for st in region.plan.program.statements if st.expr is None}
        assert "add" not in inputs  # one of two names of x + r: no input beside the other


def test_a_wide_value_is_followed_to_where_it_is_stored() -> None:
    lines = {
        "add": "aten.add.Tensor(x, r)",
        "wide_a": "prims.convert_element_type.default(add, torch.float32)",
        "wide_b": "aten.mul.Tensor(wide_a, 3)",
        "wide_c": "aten.add.Tensor(wide_b, 1)",
        "stored": "prims.convert_element_type.default(wide_c, torch.bfloat16)",
    }
    text = _text("x r", lines, "stored")
    before, after = _pair(text, lambda reader, read: read in ("add", "wide_a"))
    (region,) = regions_of(before, after, Verdicts(0))
    assert region.results == ("stored",)


def test_a_choice_is_rounded_with_what_it_chooses() -> None:
    lines = {"add": "aten.add.Tensor(x, r)", "relu": "aten.relu.default(add)"}
    text = _text("x r", lines, "relu")
    before, after = _pair(text, lambda reader, read: (reader, read) == ("relu", "add"))
    assert groups_of(before, after) == []  # the kernel rounds after relu; the bits are the same


PRODUCT = _text(
    "x r w",
    {"mm": "aten.mm.default(r, w)", "add": "aten.add.Tensor(x, mm)"},
    "add",
)
RENAMED = _text(
    "x r w",
    {"mm_default": "aten.mm.default(r, w)", "add": "aten.add.Tensor(x, mm_default)"},
    "add",
)
JOINED = _text("x r w", {"addmm_default": "aten.addmm.default(x, r, w)"}, "addmm_default")
STAGES = [Stage("the post-grad pass `a`", RENAMED), Stage("the post-grad pass `b`", JOINED)]


def test_the_pass_that_changes_the_verdict_is_named_and_not_one_that_renames() -> None:
    graph = _graph(PRODUCT)
    before = program_of(graph, "g.py")
    judged = judged_stages(before, models_of(graph, STAGES, "g.py"), Verdicts(0))
    assert [max(one.changes.values(), default=None) for one in judged] == [
        Change.BITWISE,
        Change.ROUNDING,
    ]
    said = first_change(judged, ("mm", "add"), Change.ROUNDING)
    assert said == "first changed by the post-grad pass `b` (rounding)"


@pytest.mark.parametrize(
    ("kinds", "last", "text"),
    [
        ([{}, {}], Change.ROUNDING, UNCHANGED),
        (
            [{"v": Change.REASSOCIATION}, {"v": Change.REASSOCIATION}],
            Change.ROUNDING,
            "first changed by p0 (reassociation), then by the kernels: fusion and code generation "
            "(rounding)",
        ),
        (
            [{"v": Change.ROUNDING}, {"v": Change.MATH}],
            Change.MATH,
            "first changed by p0 (rounding), then by p1 (math)",
        ),
        ([{"other": Change.MATH}], Change.ROUNDING, UNCHANGED),
    ],
)
def test_each_change_of_the_verdict_is_told(
    kinds: list[dict[str, Change]], last: Change, text: str
) -> None:
    judged = [Judgement(f"p{number}", kind) for number, kind in enumerate(kinds)]
    assert first_change(judged, ("v",), last) == text


def test_a_graph_that_cannot_be_read_is_said_and_stops_nothing() -> None:
    broken = Stage("the joint pass `c`", "class g:\n def forward(")
    found = compare_chain(Chain("joint", PRODUCT, [broken, *STAGES]), "f.py:f")
    (note,) = [f.message for f in found.findings if f.severity == "note"]
    assert note.startswith("the graph after the joint pass `c` was not compared: ")
    (step,) = found.steps
    assert (step.id, step.change) == ("joint", "rounding")
    assert step.notes[-1] == "first changed by the post-grad pass `b` (rounding)"


def test_a_first_graph_that_cannot_be_read_is_said() -> None:
    found = compare_chain(Chain("pre-grad", "nothing", [STAGES[0]]), "f.py:f")
    assert found.steps == ()
    assert found.findings[0].message.startswith("the graph before pre-grad passes was not read: ")


def test_passes_that_compute_the_same_bits_are_no_step() -> None:
    assert compare_chain(Chain("joint", PRODUCT, [STAGES[0]]), "f.py:f").steps == ()


def test_a_long_chain_of_narrow_values_is_many_small_pieces() -> None:
    lines = {"v0": "aten.add.Tensor(x, r)"}
    names = [f"v{i}" for i in range(24)]
    lines |= {new: f"aten.mul.Tensor({old}, r)" for old, new in pairwise(names)}
    before, after = _pair(_text("x r", lines, names[-1]), lambda reader, read: read == "v3")
    (region,) = regions_of(before, after, Verdicts(0))
    assert set(region.names) == {"v3", "v4"}


def test_a_product_with_a_number_of_f32_is_rounded_twice() -> None:
    text = _text("x", {"mul": "aten.mul.Tensor(x, 0.9)"}, "mul")
    # 0x1.fep-6 * 0.9 lies below a midpoint of bf16, and its f32 on it.
    x = np.array([[float.fromhex("0x1.fep-6"), float.fromhex("0x1.aep-7"), 1.0, 3.0]] * 4)
    program = program_of(_graph(text), "g.py").program
    found = results(program.bind({}), ArrayDomain({"x": x}), Policy.BITS)["mul"]
    want = (x.astype(np.float32) * np.float32(0.9)).astype(ml_dtypes.bfloat16)
    assert values_of(found).astype(ml_dtypes.bfloat16).tobytes() == want.tobytes()
    assert float(want[0, 0]) == float.fromhex("0x1.ccp-6")


def test_an_infinity_in_a_loop_body_is_a_number() -> None:
    body = "op0: SchedulerNode(ComputedBuffer)\nclass op0_loop_body:\n    def body(self, ops):\n"
    body += "        constant = ops.constant(-inf, torch.bfloat16)\n        return constant\n"
    (operation,) = read_fusion(body, "ir.txt").operations
    assert operation.bodies["body"][0].args[0] == float("-inf")
