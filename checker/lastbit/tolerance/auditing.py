"""Plant faults in a result, one at a time, and ask the user's comparison about each."""

from __future__ import annotations

from dataclasses import replace

from lastbit.comparing import compare
from lastbit.errors import InputError, Problem
from lastbit.tolerance.comparators import Comparison, verdict
from lastbit.tolerance.faults import Planted, planted
from lastbit.tolerance.legal import few_rows, legal_results
from lastbit.tolerance.limits import Admission, admission
from lastbit.tolerance.operations import Floats, Operation, as_array
from lastbit.tolerance.records import Fault, Legal, Subject, ToleranceAudit


def audit_tolerance(
    comparison: Comparison, subject: Subject, operation: Operation | None = None
) -> ToleranceAudit:
    """Return which faults a comparison lets pass, and the smallest bound that would do.

    Args:
        comparison: the user's.
        subject: what it compares.
        operation: on which inputs; on drawn ones if null.

    Raises:
        InputError: the comparison refuses the right result, so that catching a fault means nothing.
    """
    operation = operation or Operation.of(subject)
    expected = operation.expected()
    _require_sense(comparison, operation, expected)
    bound = admission(operation)
    faults = tuple(
        _judged(comparison, operation, expected, fault, bound)
        for fault in planted(operation, expected)
    )
    misses = tuple(fault.name for fault in faults if fault.misses)
    return ToleranceAudit(
        comparison.label,
        subject,
        faults,
        replace(bound.limit, misses=misses),
        tuple(_legal(comparison, operation, bound)),
    )


def _require_sense(comparison: Comparison, operation: Operation, expected: Floats) -> None:
    copies = as_array(operation, expected), as_array(operation, expected)
    why = verdict(comparison, *copies, told=True)
    if why:
        message = f"`{comparison.label}` refuses the right result too ({why})"
        remedy = "It is called as comparator(actual, expected), with arrays of --library."
        raise InputError([Problem(message, remedy)])


def _judged(
    comparison: Comparison,
    operation: Operation,
    expected: Floats,
    fault: Planted,
    bound: Admission,
) -> Fault:
    if fault.values is None:
        return Fault(fault.name, fault.title, "not-planted", fault.why)
    actual = as_array(operation, fault.values, fault.format)
    right = as_array(operation, expected)
    (one,) = compare(actual, right).tensors
    if one.relation == "bitwise":
        why = "gives the same bits at these sizes"
        return Fault(fault.name, fault.title, "not-planted", why, 0.0, 0)
    alike = one.relation not in ("other-type", "other-shape")
    misses = bound.admits(fault.values, expected) if alike else None
    if not alike and bound.limit.rule:
        misses = False  # values of another type or shape have no distance
    why = verdict(comparison, actual, right)
    return Fault(
        fault.name,
        fault.title,
        "caught" if why else "passed",
        why,
        one.other_bits / one.elements if alike else None,
        one.max_ulp,
        misses,
    )


def _legal(comparison: Comparison, operation: Operation, bound: Admission) -> list[Legal]:
    few = few_rows(operation)
    expected = few.expected()
    admitted = bound.of_rows(few)
    found = []
    for result in legal_results(few):
        actual, right = as_array(few, result.values), as_array(few, expected)
        (one,) = compare(actual, right).tensors
        why = verdict(comparison, actual, right)
        share = admitted.share(result.values, expected)
        found.append(Legal(result.schedule, result.contract, not why, why, one.max_ulp, share))
    return found
