"""A result is one model: it follows its schema, survives a round trip, and refuses nonsense."""

import copy
import json
import math
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest

from lastbit import result as model
from lastbit.errors import InputError
from lastbit.report.json import render
from lastbit.result import (
    Finding,
    Location,
    Promise,
    Result,
    Step,
    Witness,
    WitnessInput,
    exact_of,
    from_json,
    hex_of,
    read_result,
    to_json,
)

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests/data/lint_sample.json"
SCHEMA = json.loads((ROOT / "reports/report.schema.json").read_text(encoding="utf-8"))


@pytest.fixture
def document():
    return json.loads(SAMPLE.read_text(encoding="utf-8"))


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_sample_follows_the_schema(document):
    jsonschema.Draft202012Validator(SCHEMA).validate(document)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("steps", 0, "change"), "bitwize"),
        (("steps", 0, "witness", "before", 0), "3f43"),
        (("steps", 0, "witness", "inputs", "g", "hex", 0), "1.5"),
        (("steps", 0, "drift", "share"), 1.5),
        (("findings", 0, "severity"), "fatal"),
        (("decided",), [1]),
        (("surprise",), 1),
    ],
)
def test_the_schema_refuses(document, path, value):
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(document)


def test_a_result_survives_the_round_trip_byte_for_byte():
    assert render(read_result(str(SAMPLE))) == SAMPLE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (model.Location, "location"),
        (model.WitnessInput, "input"),
        (model.Program, "program"),
        (model.Witness, "witness"),
        (model.DomainEntry, "domain_entry"),
        (model.Promise, "promise"),
        (model.Bound, "bound"),
        (model.Drift, "drift"),
        (model.Cost, "cost"),
        (model.Fit, "fit"),
        (model.Evidence, "evidence"),
        (model.Budget, "budget"),
        (model.Finding, "finding"),
        (model.Summary, "summary"),
    ],
)
def test_schema_and_model_name_the_same_fields(kind, name):
    assert sorted(SCHEMA["$defs"][name]["required"]) == sorted(field.name for field in fields(kind))


@pytest.mark.parametrize(("kind", "name"), [(Step, "step"), (model.Region, "region")])
def test_schema_and_verdict_name_the_same_fields_and_the_plan(kind, name):
    names = [field.name for field in fields(kind)]
    assert sorted(SCHEMA["$defs"][name]["required"]) == sorted([*names, "plan"])


def test_the_lists_of_allowed_texts_are_those_of_the_schema():
    defs = SCHEMA["$defs"]
    assert defs["change"]["enum"] == list(model.CHANGES)
    assert defs["domain_entry"]["properties"]["kind"]["enum"] == list(model.DOMAIN_KINDS)
    assert defs["evidence"]["properties"]["by"]["enum"] == list(model.EVIDENCE)
    assert defs["witness"]["properties"]["policy"]["enum"] == [*model.POLICIES, None]
    assert list(defs["step"]["properties"]["promises"]["properties"]) == list(model.PROMISES)
    assert defs["finding"]["properties"]["severity"]["enum"] == list(model.SEVERITIES)


def test_numbers_that_json_lacks_are_texts():
    result = read_result(str(SAMPLE))
    assert result.steps[1].drift.p99_ulp == math.inf
    assert to_json(result)["steps"][1]["drift"]["p99_ulp"] == "inf"


def test_witness_values_are_exact_and_keep_the_sign_of_zero():
    one_and_a_half, minus_zero = read_result(str(SAMPLE)).steps[0].witness.inputs["u"].values()
    assert one_and_a_half == Fraction(3, 2)
    assert isinstance(minus_zero, float)
    assert math.copysign(1, minus_zero) == -1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(3, 2), "0x1.8p+0"),
        (1, "0x1.0p+0"),
        (Fraction(0), "0x0.0p+0"),
        (-0.0, "-0x0.0p+0"),
        (Fraction(1, 2**1074), "0x0.0000000000001p-1022"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (math.nan, "nan"),
    ],
)
def test_hexadecimal_text_names_a_value_and_only_that_value(value, text):
    assert hex_of(value) == text
    assert hex_of(exact_of(text)) == text


def test_a_value_that_binary64_lacks_has_no_hexadecimal_text():
    with pytest.raises(ValueError, match="1/3 is no binary64 value"):
        hex_of(Fraction(1, 3))


def _step(identity, change):
    return Step(identity, "a sentence", Location("p.toml", 1), change)


def _finding(severity, line, code="RED201"):
    return Finding(code, severity, "a sentence", Location("p.toml", line))


def test_unknown_is_not_decided_and_findings_are_sorted():
    steps = [_step("a", "bitwise"), _step("b", "unknown"), _step("c", "math")]
    findings = [_finding("note", 9), _finding("error", 2, "RED202"), _finding("error", 2)]
    result = Result.of("lint", steps, findings, {})
    assert result.decided == (2, 3)
    assert [(f.location.line, f.code) for f in result.findings] == [
        (2, "RED201"),
        (2, "RED202"),
        (9, "RED201"),
    ]
    assert result.summary == model.Summary(3, 3, 2, {"bitwise": 1, "math": 1, "unknown": 1})


@pytest.mark.parametrize(("severity", "code"), [("error", 1), ("warning", 0), ("note", 0)])
def test_only_an_error_fails_the_run(severity, code):
    assert Result.of("lint", [], [_finding(severity, 1)], {}).exit_code == code


def test_a_step_is_found_by_its_id():
    result = read_result(str(SAMPLE))
    assert result.step("g.split-k") is result.steps[1]
    assert result.step("g.splitk") is None
    assert result.verdict("g.split-k") is result.steps[1]
    assert result.verdict("g.region") is result.regions[0]


@pytest.mark.parametrize(
    ("kind", "side", "new"),
    [
        ("overflow", "after", True),
        ("nan", "after", True),
        ("inf", "after", True),
        ("nan", "before", False),
        ("saturate", "after", False),
        ("signed-zero", "after", False),
    ],
)
def test_a_new_non_finite_result_is_one_that_only_the_change_brings(kind, side, new):
    assert model.DomainEntry(kind, side, "zero rows").new_non_finite is new


@pytest.mark.parametrize(
    ("before", "after", "nearer"),
    [(0.5, 1.0, "before"), (1.0, 0.5, "after"), (0.5, 0.5, "neither"), (None, 0.5, None)],
)
def test_the_nearer_side_has_the_smaller_error(before, after, nearer):
    drift = model.Drift(
        format="f32",
        share=0.5,
        max_ulp=1,
        max_ulp_at_scale=1,
        p99_ulp=1,
        mean_ulp=0.5,
        sampled=(2, 2),
        inputs="normal(0, 1)",
        before_error_ulp=before,
        after_error_ulp=after,
    )
    assert drift.nearer == nearer


def test_a_kind_of_change_must_be_one_of_six():
    allowed = "bitwise, reassociation, rounding, grid, math, unknown"
    with pytest.raises(ValueError, match=f"^change is 'same'; allowed: {allowed}$"):
        _step("a", "same")


def test_an_input_holds_as_many_values_as_its_shape_says():
    with pytest.raises(ValueError, match=r"^shape \[2, 2\] does not hold 3 values$"):
        WitnessInput("f32", (2, 2), ("0x1.0p+0",) * 3)


def test_a_witness_has_as_many_bits_after_as_before():
    with pytest.raises(ValueError, match=r"^before and after differ in length$"):
        Witness("math", {}, ("0x00", "0x01"), ("0x00",), "e4m3fn")


def test_records_are_values():
    assert Promise(True, False, "atomics") == Promise(True, False, "atomics")
    assert read_result(str(SAMPLE)) == read_result(str(SAMPLE))


REMEDY = "Make one with `lastbit lint PLAN --output json=FILE`."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d.update(schema="lastbit.result/9"),
            "`schema` must be 'lastbit.result/1', not 'lastbit.result/9'",
        ),
        (
            lambda d: d["steps"][0].pop("title"),
            "`steps[0].title` must be given",
        ),
        (
            lambda d: d["steps"][0].update(branch=1),
            "`steps[0].branch` must be true or false, not 1",
        ),
        (
            lambda d: d["steps"][0]["drift"].update(share="much"),
            "`steps[0].drift.share` must be a number, not 'much'",
        ),
        (
            lambda d: d.update(decided=[1]),
            "`decided` must be a list of 2, not [1]",
        ),
        (
            lambda d: d["steps"][0]["witness"]["inputs"].update(g=3),
            "`steps[0].witness.inputs.g` must be an object, not 3",
        ),
        (
            lambda d: d["findings"][0].update(severity="fatal"),
            "`findings[0]` cannot be used: severity is 'fatal'; allowed: error, warning, note",
        ),
    ],
)
def test_a_bad_document_is_refused_with_the_place(document, change, message):
    damaged = copy.deepcopy(document)
    change(damaged)
    with pytest.raises(InputError) as caught:
        from_json(damaged, "r.json")
    assert str(caught.value) == f"r.json: {message}. {REMEDY}"


def test_a_document_that_is_no_object_is_refused():
    with pytest.raises(InputError, match=r"^`schema` must be 'lastbit.result/1', not None"):
        from_json([])


def test_a_file_that_is_missing_or_no_json_is_refused(tmp_path):
    missing = tmp_path / "none.json"
    with pytest.raises(InputError) as caught:
        read_result(str(missing))
    assert str(caught.value) == f"{missing}: cannot be read: No such file or directory. {REMEDY}"
    broken = tmp_path / "broken.json"
    broken.write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="is no JSON: Expecting property name"):
        read_result(str(broken))
