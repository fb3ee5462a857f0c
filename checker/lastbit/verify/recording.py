"""Verdicts, witnesses and classes of inputs as records of a result."""

from __future__ import annotations

from collections.abc import Mapping

from lastbit.change import Change
from lastbit.formats import bits_text
from lastbit.graph import native_rounding
from lastbit.plan_model import Plan
from lastbit.printing import print_graph
from lastbit.records import DomainEntry, Evidence, Program, Witness, WitnessInput, hex_of
from lastbit.verify.classify import ASSUMES, Verdict
from lastbit.verify.domain import Misbehaviour
from lastbit.verify.region import Region
from lastbit.verify.witness import Found


def witness_of(plan: Plan, found: Found, change: Change) -> Witness:
    """Return the record of a witness."""
    return _record(
        plan,
        found.region,
        str(change),
        found.policy.name,
        found.inputs,
        (found.output, found.index, found.before, found.after),
    )


def entry_of(plan: Plan, m: Misbehaviour) -> DomainEntry:
    """Return the record of a class of inputs on which one side misbehaves."""
    place = (m.output, m.index, m.before, m.after)
    witness = _record(plan, m.region, m.kind, None, m.values, place)
    return DomainEntry(m.kind, m.side, m.inputs, witness)


def _record(
    plan: Plan,
    region: Region,
    kind: str,
    policy: str | None,
    inputs: Mapping[str, object],
    place: tuple[str, tuple[int, ...], object, object],
) -> Witness:
    output, index, before, after = place
    formats = [native_rounding(graph.values[output]) for graph in (region.before, region.after)]
    fmt, other = (f.format if f is not None else None for f in formats)
    reachable = all(
        plan.program.place(node.name) and _is_input(plan, node.name) for node in region.inputs
    )
    shown = fmt or other
    assert shown is not None
    return Witness(
        kind,
        {
            node.name: WitnessInput(
                node.format.short,
                node.shape,
                tuple(hex_of(v) for v in inputs[node.name].flat),  # type: ignore[attr-defined]
            )
            for node in region.inputs
        },
        (bits_text(before, shown),),  # type: ignore[arg-type]
        (bits_text(after, other or shown),),  # type: ignore[arg-type]
        shown.short,
        Program(print_graph(region.before), print_graph(region.after)),
        policy,
        output,
        (index,),
        True if reachable else None,
    )


def _is_input(plan: Plan, name: str) -> bool:
    return any(st.name == name and st.expr is None for st in plan.program.statements)


def evidence_of(verdict: Verdict) -> Evidence:
    """Return the record of what decided."""
    return Evidence(
        verdict.by,
        verdict.sizes,
        verdict.draws,
        ASSUMES if verdict.by in ("field", "sampled") else (),
        None,
        verdict.detail,
    )
