"""JUnit parses with `junitparser`, and says which steps fail, are accepted, or are not decided."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hostile_results import ONE_LINE, SAMPLE, SHOWN, many, nasty
from junitparser import Failure, JUnitXml, Skipped

from lastbit.report.junit import render
from lastbit.result import Budget, Finding, Location, Region, Result, Step

PLACE = Location("plan.toml", 7, 2)
STEP = Step("t.drop", "`t` is not rounded", PLACE, "rounding", ("t",), "drop", "FUS102")
FOUND = Finding("FUS102", "error", "drop at `t` rounds less", PLACE, "t.drop")


def _suites(result: Result):
    """Return the cases of each suite by its name, as `junitparser` reads them."""
    whole = JUnitXml.fromstring(render(result).encode())
    cases = [case for suite in whole for case in suite]
    assert whole.tests == len(cases)
    assert whole.failures == sum(_is(case, Failure) for case in cases)
    assert whole.skipped == sum(_is(case, Skipped) for case in cases)
    assert whole.errors == 0
    return {suite.name: list(suite) for suite in whole}


def _is(case, kind) -> bool:
    return any(isinstance(outcome, kind) for outcome in case.result)


def test_the_sample_has_a_case_for_each_step():
    suites = _suites(SAMPLE)
    assert {name: [case.name for case in cases] for name, cases in suites.items()} == {
        "plan.toml": ["t.drop-rounding", "g.split-k", "g2.split-k"],
        "after.toml": ["q"],
    }
    dropped, split, again = suites["plan.toml"]
    assert (dropped.classname, dropped.result[0].type) == ("plan.toml.FUS102", "FUS102")
    assert dropped.result[0].message == "`rounding` exceeds the budget `reassociation`"
    assert "witness   g = 0x1.8p-1" in dropped.result[0].text
    assert split.result[0].message == ("allowed: reviewed, within one ulp on the captured prompts")
    assert again.result == []
    assert suites["after.toml"][0].result[0].message == (
        "not decided: the kind of change is unknown"
    )


def test_a_step_that_fails_twice_is_one_case_with_both_messages():
    other = replace(FOUND, message="it brings nan")
    (case,) = _suites(Result.of("lint", [STEP], [FOUND, other], {}))["plan.toml"]
    assert case.result[0].message == "drop at `t` rounds less; it brings nan"
    assert case._elem.attrib["line"] == "7"


def test_a_step_with_a_warning_passes_and_says_so():
    (case,) = _suites(Result.of("lint", [STEP], [replace(FOUND, severity="warning")], {}))[
        "plan.toml"
    ]
    assert case.result == []
    assert "warning   FUS102: drop at `t` rounds less" in case.system_out


def test_a_step_whose_findings_were_not_selected_does_not_pass():
    rejected = replace(STEP, budget=Budget("reassociation"))
    cases = [
        _suites(Result.of("lint", [step], [], {}))["plan.toml"][0]
        for step in (rejected, replace(STEP, change="math"), STEP)
    ]
    why = "more than is allowed, and findings of this code were not selected"
    assert [[one.message for one in case.result] for case in cases] == [[why], [why], []]


def test_findings_that_fail_and_are_about_no_step_are_cases_too():
    region = Region("t.region", Location("plan.toml"), ("t",), ("t.drop", "u.drop"), "rounding")
    loose = Finding("DOM301", "error", "`s` has no floor", PLACE)
    found = [replace(FOUND, step="t.region"), loose, replace(loose, location=Location("p.py", 1))]
    suites = _suites(Result.of("lint", [STEP], [*found, loose], {}, [region]))
    assert [case.name for case in suites["plan.toml"]] == [
        "t.drop", "`s` has no floor", "`s` has no floor (2)", "t.region",
    ]  # fmt: skip
    assert [case.name for case in suites["p.py"]] == ["`s` has no floor"]
    assert "2 transforms together" in suites["plan.toml"][3].result[0].text


def test_a_finding_in_another_file_than_its_step_is_no_case_of_its_own():
    found = replace(FOUND, location=Location("model.py", 50))
    assert list(_suites(Result.of("check", [STEP], [found], {}))) == ["plan.toml"]


def test_what_does_not_fail_and_is_about_no_step_is_output_of_the_suite():
    text = render(SAMPLE)
    assert "<system-out>after.toml:12 DOM301 warning: the scale `s` is divided by without" in text


def test_properties_hold_the_environment_without_the_day():
    text = render(SAMPLE)
    assert '<property name="seed" value="0" />' in text
    assert "2026" not in text


def test_nothing_to_judge_is_no_case():
    assert _suites(Result.of("lint", [], [], {})) == {}


def test_hostile_texts_stay_readable():
    (cases,) = _suites(nasty()).values()
    names = [case.name for case in cases]
    assert names[1:3] == ["kept", ONE_LINE[:200] + names[2][200:]]
    failing = [case.result[0] for case in cases if _is(case, Failure)]
    assert [failure.message for failure in failing] == [ONE_LINE] * 4
    assert failing[0].text.count(SHOWN) == 5
    (kept,) = [case.result[0] for case in cases if _is(case, Skipped)]
    assert kept.message == f"allowed: {ONE_LINE}"


@pytest.mark.parametrize("result", [SAMPLE, nasty(), many(30)])
def test_the_text_holds_no_character_that_xml_forbids(result):
    text = render(result)
    assert all(c in "\t\n" or c >= " " for c in text)
    text.encode()
    assert ElementTree.fromstring(text).tag == "testsuites"


def test_equal_results_give_equal_bytes():
    assert render(nasty()) == render(nasty())
