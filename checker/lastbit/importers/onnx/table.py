"""The operators that are modelled, by domain and name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lastbit.importers.onnx.call import Call
from lastbit.importers.onnx.operators import (
    attention,
    einsum,
    elementwise,
    images,
    microsoft,
    norms,
    sums,
    views,
)

MICROSOFT, BLOCKED = "com.microsoft", "com.microsoft.nchwc"


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator that is modelled.

    Attributes:
        domain: "" is that of ONNX itself.
        name: of the operator.
        build: states the results of a node.
        meaning: one line, with its rounding contract.
    """

    domain: str
    name: str
    build: Callable[[Call], None]
    meaning: str

    @property
    def label(self) -> str:
        """Return the name with the domain."""
        return f"{self.domain}.{self.name}" if self.domain else self.name


def _operators() -> Iterator[Operator]:
    for module in (elementwise, views, sums, norms, images, attention, einsum):
        for name, (build, meaning) in module.OPERATORS.items():
            yield Operator("", name, build, meaning)
    for name, (build, meaning) in {**microsoft.OPERATORS, **images.MICROSOFT}.items():
        yield Operator(MICROSOFT, name, build, meaning)
    for name, (build, meaning) in images.BLOCKED.items():
        yield Operator(BLOCKED, name, build, meaning)
    for name in ("SimplifiedLayerNormalization",):  # ONNX Runtime writes it without a domain, too
        build, meaning = microsoft.OPERATORS[name]
        yield Operator("", name, build, meaning)


OPERATORS: Mapping[tuple[str, str], Operator] = {
    (operator.domain, operator.name): operator for operator in _operators()
}


def find(domain: str, name: str) -> Operator | None:
    """Return an operator, or None where it is not modelled."""
    return OPERATORS.get((domain, name))
