"""SARIF follows the schema of OASIS and GitHub's limits; a fingerprint outlives an edit."""

import gzip
import json
from dataclasses import replace

import pytest
from hostile_results import NASTY, ONE_LINE, SAMPLE, SHOWN, many, nasty
from sarif_kit.validate import validation_errors

from lastbit.explaining import explain
from lastbit.report import sarif
from lastbit.report.escaping import cut
from lastbit.report.sarif import artifact, render
from lastbit.result import Finding, Location, Result, Step

PLACE = Location("plan.toml", 7, 2)
STEP = Step("t.drop", "`t` is not rounded", PLACE, "rounding", ("t",), "drop", "FUS102")
FOUND = Finding("FUS102", "error", "drop at `t` rounds less", PLACE, "t.drop")


def _run(result: Result):
    document = json.loads(render(result))
    assert validation_errors(document) == []
    return document["runs"][0]


def _one(finding: Finding = FOUND, step: Step = STEP, command: str = "lint"):
    return _run(Result.of(command, [step], [finding], {}))["results"][0]


@pytest.mark.parametrize("result", [SAMPLE, nasty(), Result.of("check", [], [], {})])
def test_a_result_follows_the_schema_of_oasis(result):
    assert len(_run(result)["results"]) == len(result.findings)


def test_the_schema_refuses_what_is_no_sarif():
    document = json.loads(render(SAMPLE))
    document["runs"][0]["results"][0]["level"] = "grave"
    assert validation_errors(document) != []


def test_a_finding_has_its_place_its_rule_and_its_step():
    run = _run(Result.of("lint", [STEP], [FOUND], {"lastbit": "0.1.0", "today": "2026-01-31"}))
    found = run["results"][0]
    assert found["message"] == {"text": "drop at `t` rounds less\n`t` is not rounded"}
    assert found["level"] == "error"
    assert found["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "plan.toml", "uriBaseId": "%SRCROOT%"},
                "region": {"startLine": 7, "startColumn": 2},
            },
            "logicalLocations": [{"name": "t", "fullyQualifiedName": "t", "kind": "variable"}],
        }
    ]
    assert run["tool"]["driver"]["rules"][found["ruleIndex"]]["id"] == "FUS102"
    assert run["tool"]["driver"]["version"] == "0.1.0"
    assert "2026" not in json.dumps(run)
    assert run["invocations"][0]["exitCode"] == 1


def test_a_finding_about_a_whole_file_has_no_line():
    found = _one(replace(FOUND, location=Location("plan.toml")))
    assert "region" not in found["locations"][0]["physicalLocation"]


def test_a_rule_has_the_help_that_explain_gives():
    rules = {rule["id"]: rule for rule in _run(SAMPLE)["tool"]["driver"]["rules"]}
    assert list(rules) == ["DOM301", "FUS102", "RED201"]
    rule = rules["FUS102"]
    assert rule["name"] == "drop-rounding"
    assert rule["help"]["text"] == explain("FUS102")
    assert rule["help"]["markdown"] == f"```text\n{explain('FUS102')}```"
    assert rule["shortDescription"]["text"].startswith("an intermediate value is passed on")
    assert rule["fullDescription"]["text"].startswith("a fused kernel keeps the value in a wide")
    assert rule["fullDescription"]["text"].endswith("changes in 18 of 100 elements.")
    assert rule["properties"]["tags"] == ["numerics", "FUS", "claim-rounding"]


def test_a_code_that_no_rule_made_has_help_as_well():
    rules = _run(Result.of("lint", [STEP], [replace(FOUND, code="COST702")], {}))["tool"]["driver"]
    (rule,) = rules["rules"]
    assert rule["help"]["text"] == explain("COST702")
    assert rule["shortDescription"]["text"] == "a block does not fit on the device"
    assert rule["fullDescription"]["text"].startswith("such a kernel does not start")


def test_a_code_of_another_version_has_no_help():
    run = _run(Result.of("lint", [STEP], [replace(FOUND, code="OLD999")], {}))
    assert run["tool"]["driver"]["rules"] == [{"id": "OLD999"}]


def _print(finding: Finding = FOUND, step: Step = STEP) -> str:
    prints = _one(finding, step)["partialFingerprints"]
    assert prints["lastbit/v1"] == prints["primaryLocationLineHash"]
    return prints["lastbit/v1"]


def test_a_fingerprint_is_of_rule_place_and_transform_and_never_of_the_line():
    same = _print()
    moved = Location("plan.toml", 99, 1)
    assert _print(replace(FOUND, location=moved), replace(STEP, location=moved)) == same
    assert _print(replace(FOUND, message="it drifts by 3 ulp"), replace(STEP, title="x")) == same
    assert _print(replace(FOUND, code="FUS106")) != same
    assert _print(step=replace(STEP, at=("u",))) != same
    assert _print(step=replace(STEP, rule="move")) != same


def test_a_fingerprint_of_a_hazard_is_of_the_values_that_it_names():
    hazard = Finding("QNT351", "warning", "`s` is 0 in 3 rows of `q`", PLACE)
    same = _print(hazard)
    assert _print(replace(hazard, location=Location("plan.toml", 8))) == same
    assert _print(replace(hazard, message="`s` is 0 in 4 rows of `q`")) == same
    assert _print(replace(hazard, message="`s` is 0 in 3 rows of `r`")) != same


def test_findings_alike_are_numbered_in_each_file():
    other = [replace(f, location=Location("z.toml", 1)) for f in (FOUND, FOUND)]
    run = _run(Result.of("lint", [STEP], [FOUND, replace(FOUND, message="x"), *other], {}))
    prints = [found["partialFingerprints"]["lastbit/v1"][-2:] for found in run["results"]]
    assert prints == [":1", ":2", ":1", ":2"]


def test_an_accepted_finding_is_suppressed_with_its_reason():
    step = replace(STEP, allowed=True, allow_reason="reviewed; allowed: by two")
    message = "drifts by 3 ulp of bf16; allowed: 2; allowed: reviewed; allowed: by two"
    found = _one(replace(FOUND, severity="note", message=message), step)
    assert found["suppressions"] == [
        {"kind": "inSource", "status": "accepted", "justification": "reviewed; allowed: by two"}
    ]
    cost = replace(FOUND, severity="note", message="it costs more; allowed: once", step=None)
    assert _one(cost, command="check")["suppressions"] == [
        {"kind": "external", "status": "accepted", "justification": "once"}
    ]


def test_a_finding_that_fails_is_not_suppressed():
    found = replace(FOUND, message="drifts by 3 ulp of bf16; allowed: 2")
    assert "suppressions" not in _one(found)
    note = replace(FOUND, severity="note", message="a remark")
    assert "suppressions" not in _one(note, replace(STEP, allowed=True, allow_reason="x"))


@pytest.mark.parametrize(
    ("file", "uri", "relative"),
    [
        ("./plans/a b#1.toml", "plans/a%20b%231.toml", True),
        ("c:d?.toml", "c%3Ad%3F.toml", True),
        ("ä/100%.toml", "%C3%A4/100%25.toml", True),
        ("/tmp/x y.toml", "file:///tmp/x%20y.toml", False),
    ],
)
def test_a_path_is_a_relative_uri_where_it_is_relative(file, uri, relative):
    assert artifact(file) == ({"uri": uri} | ({"uriBaseId": "%SRCROOT%"} if relative else {}))


def test_hostile_texts_stay_readable():
    run = _run(nasty())
    texts = [found["message"]["text"] for found in run["results"]]
    literal = SHOWN.replace("{0}", "{{0}}").replace("](", "\\](")
    assert all(text.startswith(literal) for text in texts)
    assert ONE_LINE in {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    (suppression,) = [s for found in run["results"] for s in found.get("suppressions", ())]
    assert suppression["justification"] == SHOWN
    assert NASTY not in render(nasty())


def test_results_beyond_githubs_limit_are_left_out_gravest_last_and_it_is_said(monkeypatch):
    monkeypatch.setattr(sarif, "MOST_RESULTS", 3)
    findings = [
        replace(FOUND, severity=severity, location=Location("plan.toml", line))
        for line, severity in enumerate(("note", "error", "warning", "note", "error"), 1)
    ]
    run = _run(Result.of("lint", [STEP], findings, {}))
    assert [found["level"] for found in run["results"]] == ["error", "warning", "error"]
    (told,) = run["invocations"][0]["toolExecutionNotifications"]
    assert told["message"]["text"] == (
        "3 of 5 findings are written, since GitHub refuses more; left out: 2 of severity note. "
        "`--output json=FILE` writes all."
    )


def test_the_limit_is_githubs_and_what_github_does_not_show_is_said():
    assert sarif.MOST_RESULTS == 25_000
    document = sarif.document(many(5_001))
    (told,) = document["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert told["message"]["text"] == "GitHub shows the gravest 5,000 of 5,001 results."


def test_a_file_that_github_would_refuse_for_its_size_is_halved(monkeypatch):
    result = many(40)
    whole = render(result)
    monkeypatch.setattr(sarif, "MOST_BYTES", len(gzip.compress(whole.encode(), 6, mtime=0)) - 1)
    run = _run(result)
    assert len(run["results"]) == 20
    told = run["invocations"][0]["toolExecutionNotifications"]
    assert told[0]["message"]["text"].startswith("20 of 40 findings are written")


def test_a_long_message_says_how_much_is_cut():
    message = "x" * 9_000
    text = _one(replace(FOUND, message=message, step=None))["message"]["text"]
    assert text == f"{'x' * 8_000} [1,000 characters cut]"
    assert cut("abc", 3) == "abc"


def test_equal_results_give_equal_bytes():
    assert render(nasty()) == render(nasty())
