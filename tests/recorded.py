"""Programs that functions record."""

from __future__ import annotations

from lastbit.graph import Node
from lastbit.text import Program
from lastbit.tracing.calls import Side, as_spec, recorded_inputs, results_of
from lastbit.tracing.program import Traced, programs_of
from lastbit.tracing.sizes import Sizes

SPECS = {"x": "bf16[2, 4]", "w": "f32[4, 3]", "s": "f16[2, 1]", "k": "f32[M, 64]"}
SIZES = {"M": 5}


def program(function, fixed=None) -> Program:
    """Return the program that a function of some of x, w, s and k records."""
    specs = {name: as_spec(name, given) for name, given in SPECS.items()}
    table = Sizes(fixed or {})
    side = Side("before", function)
    inputs = recorded_inputs(specs, table.fixed)
    (result,) = results_of(side, inputs, table).values()
    traced = Traced(tuple(inputs.values()), {"y": result})
    return programs_of(traced, traced, table)[0]


def node(function) -> Node:
    """Return the node of the result of a function."""
    return program(function).bind(SIZES).values["y"]
