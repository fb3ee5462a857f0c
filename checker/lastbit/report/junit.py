"""JUnit: a test case for each step, and one for each finding that fails and is about no step.

A step fails with its findings that fail, and passes with those that do not. One that is accepted
by an `[[allow]]` counts as skipped, with the reason, and so does one that is not decided, or whose
findings were not selected: none of these was shown to be right. What else a reader should know is
the output of its file's suite. There are no times in it, so that equal results give equal bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from xml.etree import ElementTree as Xml

from lastbit.report.escaping import cut, one_line, visible
from lastbit.report.parts import block, by_verdict, files, outcome, verdicts
from lastbit.result import Finding, Location, Result, Step

MOST_NAME = 200
MOST_MESSAGE = 4_000
SKIPPED = {
    "undecided": "not decided: the kind of change is unknown",
    "ignored": "more than is allowed, and findings of this code were not selected",
}
HEAD = '<?xml version="1.0" encoding="utf-8"?>\n'


def render(result: Result) -> str:
    """Return the document, indented; equal results give equal bytes."""
    found, known = by_verdict(result), verdicts(result)
    steps = {step.id for step in result.steps}
    cases: dict[str, list[Xml.Element]] = {file: [] for file in files(result)}
    remarks: dict[str, list[str]] = {file: [] for file in files(result)}
    for step in result.steps:
        findings = found.get(step.id, [])
        text = block(result, step, findings)
        cases[step.location.file].append(_of_step(step, findings, text))
    for finding in result.findings:
        if finding.step in steps:
            continue
        if finding.severity != "error":
            remarks[finding.location.file].append(visible(_line(finding)))
            continue
        verdict = known.get(finding.step)
        text = _line(finding) if verdict is None else block(result, verdict, [finding])
        name = finding.message if verdict is None else verdict.id
        case = _case(finding.location, finding.code, name)
        _fail(case, [finding], visible(text))
        cases[finding.location.file].append(case)
    suites = [
        _suite(file, cases[file], remarks[file], result.environment)
        for file in cases
        if cases[file] or remarks[file]
    ]
    root = Xml.Element("testsuites", {"name": f"lastbit {one_line(result.command)}"})
    root.attrib.update(_counted([case for listed in cases.values() for case in listed]))
    root.extend(suites)
    Xml.indent(root)
    return HEAD + Xml.tostring(root, encoding="unicode") + "\n"


def _suite(
    file: str, cases: list[Xml.Element], remarks: list[str], environment: Mapping[str, str]
) -> Xml.Element:
    """Return the suite of one file: its properties, its cases, and what else was found."""
    suite = Xml.Element("testsuite", {"name": one_line(file)} | _counted(cases))
    facts = {name: value for name, value in environment.items() if name != "today"}
    if facts:
        properties = Xml.SubElement(suite, "properties")
        for name, value in facts.items():
            pair = {"name": one_line(name), "value": one_line(value)}
            Xml.SubElement(properties, "property", pair)
    _number_equal(cases)
    suite.extend(cases)
    if remarks:
        Xml.SubElement(suite, "system-out").text = "\n".join(remarks)
    return suite


def _of_step(step: Step, findings: Sequence[Finding], text: str) -> Xml.Element:
    case = _case(step.location, step.code, step.id)
    failing = [finding for finding in findings if finding.severity == "error"]
    if failing:
        _fail(case, failing, text)
        return case
    why = SKIPPED.get(outcome(step, findings))
    if step.allowed:
        why = f"allowed: {step.allow_reason or 'by the plan'}"
    if why is not None:
        Xml.SubElement(case, "skipped", {"message": _short(why)})
    Xml.SubElement(case, "system-out").text = text
    return case


def _case(location: Location, code: str | None, name: str) -> Xml.Element:
    group = location.file if code is None else f"{location.file}.{code}"
    place = {"classname": one_line(group), "name": cut(one_line(name), MOST_NAME)}
    place["file"] = one_line(location.file)
    if location.line is not None:
        place["line"] = str(location.line)
    return Xml.Element("testcase", place)


def _fail(case: Xml.Element, findings: list[Finding], text: str) -> None:
    message = _short("; ".join(finding.message for finding in findings))
    failure = {"type": one_line(findings[0].code), "message": message}
    Xml.SubElement(case, "failure", failure).text = text


def _short(text: str) -> str:
    return cut(one_line(text), MOST_MESSAGE)


def _line(finding: Finding) -> str:
    return f"{finding.location} {finding.code} {finding.severity}: {finding.message}"


def _number_equal(cases: Iterable[Xml.Element]) -> None:
    """Tell cases of one name apart, which a reader of the file would otherwise take for one."""
    seen: Counter[tuple[str, str]] = Counter()
    for case in cases:
        key = case.attrib["classname"], case.attrib["name"]
        seen[key] += 1
        if seen[key] > 1:
            case.attrib["name"] += f" ({seen[key]})"


def _counted(cases: Sequence[Xml.Element]) -> dict[str, str]:
    failures = sum(case.find("failure") is not None for case in cases)
    skipped = sum(case.find("skipped") is not None for case in cases)
    counts = {"tests": len(cases), "failures": failures, "errors": 0, "skipped": skipped}
    return {name: str(count) for name, count in counts.items()}
