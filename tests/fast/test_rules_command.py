"""`lastbit rules` lists rules, chooses those to check, and refuses what it cannot read."""

import json
import sys
from pathlib import Path

import jsonschema
import pytest

from lastbit import cli
from lastbit.catalogue.check import check_rule
from lastbit.catalogue.records import report
from lastbit.registry import RuleFileError, find_rule, load_rules

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "reports/rules.schema.json").read_text(encoding="utf-8")
)


def test_a_family_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from lastbit.commands.rules import chosen

    codes = [rule.code for rule in chosen(["CVT", "RED201"])]
    assert "CVT402" in codes
    assert codes[-1] == "RED201"
    assert codes == sorted(codes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--check", "CVT4022"], "unknown rule 'CVT4022'. Did you mean 'CVT402'?"),
        (["--check", "split-q"], "unknown rule 'split-q'. Did you mean 'split-k'?"),
        (["RED201"], "'RED201' is given without --check. Write `lastbit rules --check RED201`, "
         "or `lastbit explain RED201`."),
        (["--seed", "1"], "--seed is for --check."),
    ],
)  # fmt: skip
def test_bad_usage_has_the_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["rules", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_the_list_says_what_kind_a_rule_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["rules", "--format", "json"]) == 0
    rows = {row["code"]: row for row in json.loads(capsys.readouterr().out)["rules"]}
    assert rows["RED201"]["kind"] == "transform"
    assert {row["kind"] for row in rows.values()} == {"transform", "hazard"}


def test_the_report_of_a_check_follows_its_schema() -> None:
    found = json.loads(json.dumps(report([check_rule(find_rule("FUS102"))])))
    jsonschema.validate(found, SCHEMA)
    assert found["rules"][0]["witness"] is not None
    del found["rules"][0]["hints"]
    with pytest.raises(jsonschema.ValidationError, match="'hints' is a required property"):
        jsonschema.validate(found, SCHEMA)


def test_a_rule_file_that_exits_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "leaving_rules"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "fus998_leave.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(RuleFileError) as caught:
        load_rules("leaving_rules")
    assert str(caught.value) == (
        "rule file 'leaving_rules/fus998_leave.py' of leaving_rules: it cannot be imported "
        "(it asks Python to exit). See CONTRIBUTING, `add a rule`."
    )
