"""Say a verdict again in the names of an equal region."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from lastbit.records import DomainEntry, Program, Witness

_QUOTED = re.compile(r"`(\w+)`")
_VALUE = re.compile(r"\b([A-Za-z_]\w*)\b(?!\s*\()")


def rename_text(text: str | None, names: Mapping[str, str]) -> str | None:
    """Return a sentence with the names between backticks replaced."""
    if text is None:
        return None
    return _QUOTED.sub(lambda match: f"`{names.get(match[1], match[1])}`", text)


def rename_witness(witness: Witness, names: Mapping[str, str]) -> Witness:
    """Return a witness whose inputs, output and programs have other names."""
    program = witness.program
    if program is not None:
        program = Program(_program(program.before, names), _program(program.after, names))
    return replace(
        witness,
        inputs={names.get(name, name): given for name, given in witness.inputs.items()},
        output=None if witness.output is None else names.get(witness.output, witness.output),
        program=program,
    )


def rename_entry(entry: DomainEntry, names: Mapping[str, str]) -> DomainEntry:
    """Return a domain entry in other names."""
    witness = None if entry.witness is None else rename_witness(entry.witness, names)
    return replace(entry, inputs=str(rename_text(entry.inputs, names)), witness=witness)


def _program(text: str, names: Mapping[str, str]) -> str:
    """Return the text of a graph in other names; a word before a parenthesis is an operator."""
    return _VALUE.sub(lambda match: names.get(match[1], match[1]), text)
