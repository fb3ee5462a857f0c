"""A tolerance audit as text: the faults, then the bound and its derivation."""

from __future__ import annotations

from collections.abc import Iterator

from lastbit.report.words import number, percent, plural
from lastbit.tolerance.records import Fault, Legal, Limit, Subject, ToleranceAudit

_COLORS = {"passed": "31", "caught": "32", "not-planted": "2"}
_SHOWN = {"passed": "passes", "caught": "caught", "not-planted": "left out"}


def render(found: ToleranceAudit, *, color: bool = False) -> str:
    """Return the report; equal audits give equal bytes."""
    lines = [f"`{found.comparison}` on {_subject(found.subject)}", ""]
    lines += [_fault(fault, color) for fault in found.faults]
    lines += ["", *_limit(found.subject, found.limit, found.faults)]
    if found.legal:
        lines += ["", *_legal(found.legal)]
    return "\n".join([*lines, "", last_line(found)]) + "\n"


def last_line(found: ToleranceAudit) -> str:
    """Return the totals."""
    total = len(found.planted)
    text = f"planted {plural(total, 'fault')}: {total - len(found.passed)} caught"
    if found.passed:
        names = ", ".join(fault.name for fault in found.passed)
        return f"{text}, {len(found.passed)} passed: {names}"
    return text


def _subject(subject: Subject) -> str:
    shape = f"{subject.format}[{', '.join(map(str, subject.shape))}]"
    drawn = f"normal(0, 1), seed {subject.seed}, {subject.library}"
    return f"{subject.op} {shape}, sums in {subject.acc}, budget `{subject.budget}` ({drawn})"


def _fault(fault: Fault, color: bool) -> str:
    shown = f"{_SHOWN[fault.outcome]:<8}"
    if color:
        shown = f"\x1b[{_COLORS[fault.outcome]}m{shown}\x1b[0m"
    text = f"    {shown}  {fault.name:<11}  {fault.title}"
    notes = list(_notes(fault))
    return f"{text} ({'; '.join(notes)})" if notes else text


def _notes(fault: Fault) -> Iterator[str]:
    if fault.outcome != "not-planted" and fault.differing is not None:
        ulps = "" if fault.max_ulp is None else f", up to {fault.max_ulp:,} ulp"
        yield f"{percent(fault.differing)} of elements differ{ulps}"
    if fault.why not in ("", "returned False", "raised AssertionError"):
        yield fault.why


def _limit(subject: Subject, limit: Limit, faults: tuple[Fault, ...]) -> Iterator[str]:
    if not limit.rule:
        yield f"bound     none admits all that `{subject.budget}` allows"
    else:
        rule = "equality of bits" if limit.max_ulp == 0 else limit.rule
        yield f"bound     {rule} admits all that `{subject.budget}` allows"
    yield from (f"    {line}" for line in limit.derivation)
    if not limit.rule:
        return
    if limit.max_ulp is None:
        assert limit.rtol is not None
        assert limit.atol is not None
        rule = f"rtol={limit.rtol:.3g}, atol={limit.atol:.3g}"
        yield f"    with S at most {number(limit.sum_abs)}, as for these inputs: {rule}"
    elif limit.max_ulp:
        call = f"max_ulp={limit.max_ulp}, format={subject.format!r}"
        yield f"    lastbit.assert_ulp(actual, expected, {call}); rtol={limit.rtol:.3g}, atol=0"
    else:
        yield "    lastbit.assert_bitwise(actual, expected)"
    titles = [fault.title for fault in faults if fault.misses]
    yield f"    even that misses: {'; '.join(titles) or 'none of these faults'}"


def _legal(legal: tuple[Legal, ...]) -> Iterator[str]:
    refused = [one for one in legal if not one.passed]
    yield f"legal     {len(legal) - len(refused)} of {plural(len(legal), 'legal result')} passed"
    for one in legal:
        order = one.schedule or "in one order"
        ulps = "" if one.max_ulp is None else f", up to {one.max_ulp:,} ulp"
        share = (
            "" if one.share_of_bound is None else f", {percent(one.share_of_bound)} of the bound"
        )
        told = "passed" if one.passed else f"refused: {one.why}"
        yield f"    {order}, {one.contract}{ulps}{share}: {told}"
