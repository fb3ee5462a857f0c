"""Run the witness of a step or a region again, from nothing but the result file.

Where the bits of ordinary runs are kept and only the domain is not, the witness is that of the
first class of inputs on which one side misbehaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lastbit.errors import InputError, LastbitError, Place, Problem, did_you_mean
from lastbit.formats import bits_text, format_of
from lastbit.graph import Graph, native_rounding
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.exact import ExactDomain, Objects, exact_array
from lastbit.interpret.policy import Policy
from lastbit.result import DomainEntry, Region, Step, Witness, read_result
from lastbit.text import parse_program


@dataclass(frozen=True, slots=True)
class Replayed:
    """A witness, run again.

    Attributes:
        step: the step, or the region.
        witness: its witness.
        before: bits of the differing elements, as they come out now.
        after: the same on the other side.
    """

    step: Step | Region
    witness: Witness
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """Return whether the bits are those of the result."""
        return (self.before, self.after) == (self.witness.before, self.witness.after)

    def __str__(self) -> str:
        w = self.witness
        lines = [f"{self.step.label}: {self.step.change}{' + domain' if self.step.domain else ''}"]
        entry = domain_of(self.step, w)
        if entry is not None:
            lines.append(f"  {entry}")
        for name, given in w.inputs.items():
            shape = ", ".join(map(str, given.shape))
            lines.append(f"  {name}: {given.format}[{shape}] = {', '.join(given.hex)}")
        for index, old, new in zip(w.index, self.before, self.after, strict=True):
            place = ", ".join(map(str, index))
            lines.append(f"  {w.output}[{place}] as {w.format}: {old} -> {new}")
        if not self.agrees:
            given_bits = f"{', '.join(w.before)} -> {', '.join(w.after)}"
            lines.append(
                f"  the result says {given_bits}; it was made by another version, or edited"
            )
        return "\n".join(lines)


def replay(path: str, identity: str) -> Replayed:
    """Run the witness of a step again, in the exact domain.

    Raises:
        InputError: the file, the step or its witness cannot be used.
    """
    step, witness = find_witness(path, identity)
    assert witness.program is not None
    sides = []
    for text in (witness.program.before, witness.program.after):
        try:
            graph = parse_program(text, path).bind({})
            sides.append(_bits(graph, witness))
        except InputError:
            raise
        except (LastbitError, KeyError, IndexError, ValueError) as error:
            message = f"the witness of {identity!r} cannot be run: {str(error).rstrip('.')}"
            raise InputError([Problem(message, "", Place(path))]) from error
    return Replayed(step, witness, sides[0], sides[1])


def find_witness(path: str, identity: str) -> tuple[Step | Region, Witness]:
    """Return a step or a region of a result file and its witness, or that of its domain.

    Raises:
        InputError: there is no such step, or it has no witness with a program.
    """
    result = read_result(path)
    step = result.verdict(identity)
    if step is None:
        names = [verdict.id for verdict in result.verdicts]
        remedy = did_you_mean(identity, names) if names else ""
        raise InputError([Problem(f"there is no step {identity!r}", remedy, Place(path))])
    witnesses = (step.witness, *(entry.witness for entry in step.domain))
    shown = next((w for w in witnesses if w is not None and w.program is not None), None)
    if shown is None:
        what = "step" if isinstance(step, Step) else "region"
        message = f"the {what} {identity!r} has no witness"
        reason = f"Its change is `{step.change}`; a witness shows a change that was decided."
        raise InputError([Problem(message, reason, Place(path))])
    return step, shown


def domain_of(step: Step | Region, witness: Witness) -> DomainEntry | None:
    """Return the class of inputs that a witness is one of; None if it shows the kind of change."""
    return next((entry for entry in step.domain if entry.witness is witness), None)


def witness_inputs(witness: Witness) -> Mapping[str, Objects]:
    """Return the inputs of a witness as exact arrays."""
    return {
        name: exact_array(given.values(), given.shape) for name, given in witness.inputs.items()
    }


def _bits(graph: Graph, witness: Witness) -> tuple[str, ...]:
    assert witness.output is not None
    node = graph.values[witness.output]
    for leaf in graph.inputs:
        given = witness.inputs[leaf.name]
        if given.shape != leaf.shape or format_of(given.format) != leaf.format:
            raise ValueError(f"input {leaf.name!r} has another shape or format than the program")
    (value,) = evaluate([node], ExactDomain(witness_inputs(witness)), Policy.BITS)
    rounding = native_rounding(node)
    fmt = format_of(witness.format) if rounding is None else rounding.format
    array = np.broadcast_to(value.array, node.shape)
    return tuple(bits_text(array[index], fmt) for index in witness.index)


def script(path: str, identity: str) -> str:
    """Return a self-contained script that shows the witness of a step.

    Raises:
        InputError: the file, the step or its witness cannot be used.
    """
    from lastbit.script import write_script

    step, witness = find_witness(path, identity)
    return write_script(step, witness)
