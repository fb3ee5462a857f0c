"""SARIF 2.1.0: one result for each finding, and the rules that made them with their help.

A result's fingerprint is made of the rule, the place in the graph and the transform, never of the
line, so that an edit elsewhere in the file does not bring it up again. Accepted findings are
suppressed, with the reason. GitHub refuses a file beyond its limits, so the least grave results
are left out there, which a notification of the run says. There are no times in it, so that equal
results give equal bytes.

Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0", and GitHub,
"SARIF support for code scanning", for the limits.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from lastbit import __version__
from lastbit.report.escaping import cut, one_line, visible
from lastbit.report.parts import reason_of, verdicts
from lastbit.report.sarif_rules import descriptor
from lastbit.result import SEVERITIES, Finding, Location, Region, Result, Step

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
ROOT = "%SRCROOT%"
FINGERPRINT = "lastbit/v1"
GITHUB_FINGERPRINT = "primaryLocationLineHash"  # the only one by which GitHub tells alerts apart
MOST_RESULTS = 25_000
MOST_SHOWN = 5_000  # of these, GitHub keeps the gravest
MOST_BYTES = 10_000_000  # of a file that is compressed by gzip
MOST_MESSAGE = 8_000
MOST_VALUES = 100  # logical locations of one result
_NAME = re.compile(r"`([^`]+)`")


def render(result: Result) -> str:
    """Return the document, indented; equal results give equal bytes."""
    most = MOST_RESULTS
    while True:
        text = json.dumps(document(result, most), indent=2, ensure_ascii=False) + "\n"
        size = len(text.encode())
        if size <= MOST_BYTES or len(gzip.compress(text.encode(), 6, mtime=0)) <= MOST_BYTES:
            return text
        most = min(most, len(result.findings)) // 2


def document(result: Result, most: int = MOST_RESULTS) -> dict[str, Any]:
    """Return the document with at most so many results, of which errors come first."""
    kept = _gravest(result.findings, most)
    codes = sorted({finding.code for finding in kept})
    version = one_line(result.environment.get("lastbit", __version__))
    facts = {one_line(k): one_line(v) for k, v in result.environment.items() if k != "today"}
    run = {
        "tool": {
            "driver": {
                "name": "lastbit",
                "version": version,
                "rules": [descriptor(code) for code in codes],
            }
        },
        "automationDetails": {"id": f"lastbit/{quote(one_line(result.command))}/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {
            ROOT: {"description": {"text": "the folder in which lastbit was called"}}
        },
        "invocations": [
            {
                "executionSuccessful": True,
                "exitCode": result.exit_code,
                "toolExecutionNotifications": list(_left_out(result, kept)),
            }
        ],
        "results": list(_results(result, kept, codes)),
        "properties": {"decided": list(result.decided), "environment": facts},
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _gravest(findings: Sequence[Finding], most: int) -> Sequence[Finding]:
    """Return so many findings, in their order; where some go, those that matter least."""
    if len(findings) <= most:
        return findings
    places = range(len(findings))
    gravest = sorted(places, key=lambda n: (SEVERITIES.index(findings[n].severity), n))[:most]
    return [findings[n] for n in sorted(gravest)]


def _left_out(result: Result, kept: Sequence[Finding]) -> Iterator[dict[str, Any]]:
    """Yield what a reader must know of results that are not here, or will not be shown."""
    missing = Counter(f.severity for f in result.findings) - Counter(f.severity for f in kept)
    if missing:
        parts = ", ".join(
            f"{missing[one]:,} of severity {one}" for one in SEVERITIES if missing[one]
        )
        text = (
            f"{len(kept):,} of {len(result.findings):,} findings are written, since GitHub refuses "
            f"more; left out: {parts}. `--output json=FILE` writes all."
        )
        yield {"level": "warning", "message": {"text": text}}
    if len(kept) > MOST_SHOWN:
        text = f"GitHub shows the gravest {MOST_SHOWN:,} of {len(kept):,} results."
        yield {"level": "note", "message": {"text": text}}


def _results(
    result: Result, kept: Sequence[Finding], codes: Sequence[str]
) -> Iterator[dict[str, Any]]:
    known = verdicts(result)
    index = {code: place for place, code in enumerate(codes)}
    seen: Counter[tuple[str, str]] = Counter()
    in_source = result.command == "lint"  # an [[allow]] stands in the plan, --allow does not
    for finding in kept:
        verdict = known.get(finding.step)
        identity = _fingerprint(finding, verdict)
        seen[finding.location.file, identity] += 1
        fingerprint = f"{identity}:{seen[finding.location.file, identity]}"
        found: dict[str, Any] = {
            "ruleId": one_line(finding.code),
            "ruleIndex": index[finding.code],
            "kind": "fail",
            "level": finding.severity,
            "message": {"text": _message(finding, verdict)},
            "locations": [_place(finding.location, verdict)],
            "partialFingerprints": {GITHUB_FINGERPRINT: fingerprint, FINGERPRINT: fingerprint},
        }
        reason = reason_of(finding, verdict)
        if reason is not None:
            kind = "inSource" if in_source else "external"
            justification = cut(visible(reason), MOST_MESSAGE)
            found["suppressions"] = [
                {"kind": kind, "status": "accepted", "justification": justification}
            ]
        if verdict is not None:
            found["properties"] = {"step": visible(verdict.id), "change": verdict.change}
        yield found


def _fingerprint(finding: Finding, verdict: Step | Region | None) -> str:
    """Return a hash of the rule, the place in the graph and the transform.

    A hazard of the graph as it stands names its place in its message, in backticks.
    """
    if verdict is None:
        at, transform = tuple(dict.fromkeys(_NAME.findall(finding.message))), ""
    elif isinstance(verdict, Step):
        at, transform = verdict.at or (verdict.id,), verdict.rule or "difference"
    else:
        at, transform = verdict.at, "region"
    identity = json.dumps([finding.code, at, transform])
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _message(finding: Finding, verdict: Step | Region | None) -> str:
    text = finding.message if verdict is None else f"{finding.message}\n{verdict.title}"
    return _literal(cut(visible(text), MOST_MESSAGE))


def _literal(text: str) -> str:
    """Return a text that reads as it is: SARIF knows placeholders in braces, and links."""
    return text.replace("{", "{{").replace("}", "}}").replace("](", "\\](")


def _place(location: Location, verdict: Step | Region | None) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": artifact(location.file)}
    if location.line is not None:
        place["region"] = {"startLine": location.line}
        if location.column is not None:
            place["region"]["startColumn"] = location.column
    found: dict[str, Any] = {"physicalLocation": place}
    names = () if verdict is None else verdict.at
    if names:
        found["logicalLocations"] = [_value(name) for name in names[:MOST_VALUES]]
    return found


def _value(name: str) -> Mapping[str, str]:
    return {"name": visible(name), "fullyQualifiedName": visible(name), "kind": "variable"}


def artifact(file: str) -> dict[str, str]:
    """Return a file as a URI, relative to the folder of the call where its name is."""
    path = file.replace(os.sep, "/")
    if os.path.isabs(file):
        slash = "" if path.startswith("/") else "/"  # as before a drive of Windows
        return {"uri": f"file://{slash}{quote(path, safe='/:', errors='surrogatepass')}"}
    uri = quote(path.removeprefix("./"), errors="surrogatepass")
    return {"uri": uri, "uriBaseId": ROOT}
