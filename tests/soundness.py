"""The property behind the soundness tests, and the pairs of graphs that it is checked on.

Random graphs are paired with a version of themselves in which something changed: a schedule, a
rounding, the order of operands, a law of the reals applied. `bitwise` must hold on random ordinary
inputs in the exact domain; a difference must come with a witness under the policy that it names.
"""

from __future__ import annotations

from hypothesis import strategies as st
from strategies import graphs, inputs_of

from lastbit.change import Change
from lastbit.formats import identical
from lastbit.graph import Graph, Map, Node, Reduce, Round, apply, substitute, topological
from lastbit.interpret.policy import Policy
from lastbit.rounding import Rounding
from lastbit.schedule import parse_schedule
from lastbit.verify.classify import Case, classify
from lastbit.verify.region import Region
from lastbit.verify.runs import not_apart, run

POLICY_OF = {
    Change.REASSOCIATION: Policy.BITS,
    Change.ROUNDING: Policy.ROUND,
    Change.GRID: Policy.GRID,
    Change.MATH: Policy.REAL,
}


@st.composite
def pairs(draw: st.DrawFn) -> Region:
    """A graph, and the same graph with one to three of its nodes changed."""
    before = draw(graphs())
    nodes = list(topological(before.results))
    new: dict[bytes, Node] = {}
    for _ in range(draw(st.integers(1, 3))):
        node = draw(st.sampled_from(nodes))
        changed = _changed(draw, node)
        if changed is not None and changed.shape == node.shape:
            new[node.key] = changed
    rebuilt = substitute(before.values.values(), new)
    values = {name: rebuilt[node.key] for name, node in before.values.items()}
    return Region(before, Graph(values, before.outputs))


def _changed(draw: st.DrawFn, node: Node) -> Node | None:
    kinds = {
        Reduce: ("schedule", "zero", "double"),
        Round: ("drop", "format", "again", "zero", "double"),
        Map: ("swap", "zero", "double", "again", "distribute"),
    }.get(type(node), ("zero", "double"))
    kind = draw(st.sampled_from(kinds))
    match kind, node:
        case "schedule", Reduce(op="sum", acc=acc) if acc is not None:
            text = draw(
                st.sampled_from(("seq", "pairwise(1)", "lanes(2)", "split(2)", "any_order"))
            )
            return Reduce("sum", node.x, node.axis, parse_schedule(text), acc)
        case "drop", Round():
            return node.x
        case "format", Round():
            name = draw(st.sampled_from(("bf16", "f32", "e4m3fn")))
            return Round(node.x, Rounding.of(name))
        case "again", _:
            return Round(node, Rounding.of(draw(st.sampled_from(("bf16", "f32")))))
        case "swap", Map(fn="add" | "mul" | "max" | "min" as fn):
            return apply(fn, *reversed(node.xs))
        case "distribute", Map(fn="mul", xs=(Map(fn="add", xs=(a, b)), c)):
            return apply("add", apply("mul", a, c), apply("mul", b, c))
        case "zero", _:
            return apply("add", node, 0)
        case "double", _:
            return apply("div", apply("mul", node, 2), 2)
    return None


def check(region: Region, data: st.DataObject) -> None:
    """Fail where a verdict is not what evaluation shows."""
    case = Case({}, region)
    verdict = classify([case], [case], effort=4_000)
    if verdict.change == Change.BITWISE:
        for _ in range(3):
            both = run(region, data.draw(inputs_of(region.before)), Policy.BITS)
            if both.ordinary:
                assert both.difference(identical) is None
        return
    if verdict.change == Change.UNKNOWN:
        assert verdict.witness is None
        return
    found = verdict.witness
    assert found is not None
    bits = run(found.region, found.inputs, Policy.BITS)
    assert bits.ordinary
    assert bits.difference(identical) is not None
    kind = run(found.region, found.inputs, POLICY_OF[verdict.change])
    if verdict.change != Change.REASSOCIATION:
        assert kind.difference(not_apart) is not None
