"""A value is told by its own line, its module, and the line that calls its own."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from lastbit.errors import Place
from lastbit.importers.imported import Origin
from lastbit.importers.inductor.callers import caller_note, callers_of, place_of
from lastbit.importers.inductor.comparing import compare_chain
from lastbit.importers.inductor.passes import Chain, Stage
from lastbit.report.text import render
from lastbit.result import Location, Result, Step

TRACE = (
    '  File "/m/site-packages/torch/nn/modules/module.py", line 1, in __call__\n    f()\n'
    '  File "layer.py", line 22, in forward\n    a = self.q_norm(q)\n'
    '  File "norm.py", line 10, in forward\n    y = x * x\n'
)


def _module(**metas: dict[str, Any]) -> Any:
    nodes = [SimpleNamespace(name=name, meta=meta) for name, meta in metas.items()]
    return SimpleNamespace(graph=SimpleNamespace(nodes=nodes))


def test_a_node_is_told_by_its_module_and_what_calls_its_line() -> None:
    norm = {"1": ("L['self'].layers.3", object), "2": ("L['self'].layers.3.q_norm", object)}
    found = callers_of(
        _module(
            both={"nn_module_stack": norm, "stack_trace": TRACE},
            backward={"fwd_nn_module_stack": norm},
            function={"stack_trace": TRACE},
            root={"nn_module_stack": {"1": ("L['self']", object)}},
            own={"stack_trace": '  File "layer.py", line 24, in forward\n    a @ b\n'},
            nothing={},
        )
    )
    assert found == {
        "both": "in `layers.3.q_norm`, called at layer.py:22",
        "backward": "in `layers.3.q_norm`",
        "function": "called at layer.py:22",
    }


def test_a_note_lists_each_caller_once_and_not_too_many() -> None:
    callers = {f"v{i}": f"in `layers.{i}`" for i in range(5)} | {"w": "in `layers.0`"}
    assert caller_note(["x"], callers) == ()
    assert caller_note(["v0", "w"], callers) == ("in `layers.0`",)
    assert caller_note(callers, callers) == (
        "in `layers.0`; in `layers.1`; in `layers.2`; and 2 more",
    )


def test_the_line_is_that_of_the_first_value_that_has_one() -> None:
    origins = {"a": Origin("a"), "b": Origin("b", place=Place("f.py", 52))}
    assert place_of(("none", "a", "b"), origins) == Place("f.py", 52)
    assert place_of(("a",), origins) == Place()


def _graph(literal: str) -> str:
    return f"""class g(torch.nn.Module):
    def forward(self, x: "bf16[4, 4]"):
        # File: norm.py:10 in forward, code: y = x * 3
        mul: "bf16[4, 4]" = torch.ops.aten.mul.Tensor(x, {literal})
        # File: norm.py:12 in forward, code: return y + x
        add: "bf16[4, 4]" = torch.ops.aten.add.Tensor(mul, x)
        return (add,)
"""


def test_the_head_of_a_step_has_the_line_of_the_value_it_is_named_after() -> None:
    wide = _graph("3").replace("aten.add.Tensor(mul, x)", "aten.add.Tensor(x, x, alpha = 2.0)")
    callers = {"add": "in `q_norm`", "mul": "in `k_norm`"}
    chain = Chain("joint", _graph("3"), [Stage("the joint pass `a`", wide)], callers)
    (step,) = compare_chain(chain, "f.py:f").steps
    assert step.at == ("add",)
    assert (step.location.file, step.location.line) == ("norm.py", 12)
    assert step.notes[-2] == "in `q_norm`"


def test_a_step_that_is_the_same_says_what_is_its_own() -> None:
    first = Step("a", "t", Location("n.py", 1), "rounding", at=("x",), notes=("n", "in `q`"))
    second = replace(first, id="b", same_as="a", notes=("n", "in `k`"))
    shown = render(Result.of("check", [first, second], [], {}))
    assert shown.endswith("    same as a\n    note      in `k`\n\n" + shown.splitlines()[-1] + "\n")
