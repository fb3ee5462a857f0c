"""Results that the budget allows, computed bit by bit in several orders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.policy import Policy
from lastbit.tolerance.contracts import SUMS, contracts, graph_of, matrix_unit
from lastbit.tolerance.operations import Floats, Operation

SCHEDULES: Final = ("seq", "pairwise(1)", "lanes(32)", "split(4)")
MOST: Final = 1 << 22  # terms that are added up for one result


@dataclass(frozen=True, slots=True)
class LegalResult:
    """A result that the budget allows.

    Attributes:
        schedule: how it was added up; empty where nothing is.
        contract: what was rounded on the way.
        values: the result.
    """

    schedule: str
    contract: str
    values: Floats


def few_rows(operation: Operation) -> Operation:
    """Return an operation on as many rows as legal results are computed for."""
    subject, terms = operation.subject, operation.x.shape[-1]
    columns = subject.shape[1] if subject.op == "matmul" else 1
    return operation.first_rows(max(1, min(operation.x.size // terms, MOST // (terms * columns))))


def legal_results(operation: Operation) -> Iterator[LegalResult]:
    """Yield results of an operation that the budget allows, in several orders and contracts."""
    subject = operation.subject
    if subject.budget == "bitwise":
        return
    inputs = {"x": operation.x}
    columns = 1
    if operation.w is not None:
        inputs["w"] = operation.w
        columns = operation.w.shape[-1]
    rows, terms = operation.x.shape
    shape = operation.result().shape
    unit = matrix_unit(subject)
    schedules = (*SCHEDULES, *([unit] if unit else [])) if subject.op in SUMS else ("",)
    for contract in contracts(subject):
        for schedule in schedules:
            graph = graph_of(subject, contract, schedule, subject.format, (rows, terms, columns))
            found = evaluate([graph.values["y"]], ArrayDomain(dict(inputs)), Policy.BITS)
            yield LegalResult(schedule, str(contract), values_of(found[0]).reshape(shape))
