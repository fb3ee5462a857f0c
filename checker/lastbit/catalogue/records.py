"""What the check of a rule found: one record a rule, and its JSON.

The JSON follows `reports/rules.schema.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from lastbit.change import Change
from lastbit.records import Witness
from lastbit.rule import Value

SCHEMA = "lastbit.rules/1"


@dataclass(frozen=True, slots=True)
class Shown:
    """A witness, and the instance of the rule that it belongs to.

    Attributes:
        witness: inputs, and the bits before and after.
        at: the site.
        parameters: of the rule.
    """

    witness: Witness
    at: tuple[str, ...]
    parameters: Mapping[str, Value]

    def as_json(self) -> dict[str, Any]:
        """Return the parts that matter without the graphs."""
        witness = self.witness
        return {
            "kind": witness.kind,
            "inputs": {name: asdict(value) for name, value in witness.inputs.items()},
            "before": list(witness.before),
            "after": list(witness.after),
            "format": witness.format,
            "output": witness.output,
            "index": [list(index) for index in witness.index],
            "parameters": dict(self.parameters),
            "at": list(self.at),
        }


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that a rule says and that does not hold.

    Attributes:
        message: one sentence without full stop.
        shown: an input that shows it, or None.
    """

    message: str
    shown: Shown | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """Whether a requirement is needed.

    Attributes:
        text: the requirement.
        needed: whether harm was found without it.
        why: the harm, or what was looked at.
    """

    text: str
    needed: bool
    why: str


@dataclass(frozen=True, slots=True)
class Checked:
    """What the check of a rule found.

    Attributes:
        code: the rule's code.
        name: the rule's name.
        kind: `transform` or `hazard`.
        claim: the change that the rule claims.
        verified: the loosest change that was seen; None: none was decided.
        loses: what the rule says may not survive it.
        lost: what did not survive it in some instance.
        instances: instances that were judged.
        unknown: of these, how many could not be decided.
        sizes: the sizes at which they were judged.
        shown: an input that shows the verified change, or, where that is `bitwise`, what is lost of
            the domain.
        requirements: whether each is needed.
        examples: examples that were run.
        hints: what could be said more sharply.
        failures: what does not hold.
    """

    code: str
    name: str
    kind: str
    claim: Change
    verified: Change | None
    loses: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    instances: int = 0
    unknown: int = 0
    sizes: tuple[Mapping[str, int], ...] = ()
    shown: Shown | None = None
    requirements: tuple[Need, ...] = ()
    examples: int = 0
    hints: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """Return the record as the JSON report writes it."""
        return {
            "code": self.code,
            "name": self.name,
            "kind": self.kind,
            "claim": str(self.claim),
            "verified": None if self.verified is None else str(self.verified),
            "loses": list(self.loses),
            "lost": list(self.lost),
            "instances": self.instances,
            "unknown": self.unknown,
            "sizes": [dict(sizes) for sizes in self.sizes],
            "witness": None if self.shown is None else self.shown.as_json(),
            "requirements": [asdict(need) for need in self.requirements],
            "examples": self.examples,
            "hints": list(self.hints),
            "failures": [
                {
                    "message": failure.message,
                    "witness": None if failure.shown is None else failure.shown.as_json(),
                }
                for failure in self.failures
            ],
        }


def report(checked: Sequence[Checked]) -> dict[str, Any]:
    """Return the JSON report on some rules."""
    return {
        "schema": SCHEMA,
        "rules": [one.as_json() for one in checked],
        "summary": {
            "rules": len(checked),
            "failed": sum(bool(one.failures) for one in checked),
            "failures": sum(len(one.failures) for one in checked),
            "hints": sum(len(one.hints) for one in checked),
            "instances": sum(one.instances for one in checked),
            "unknown": sum(one.unknown for one in checked),
            "examples": sum(one.examples for one in checked),
        },
    }
