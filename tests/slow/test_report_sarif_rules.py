"""The description of every rule in SARIF fits into what GitHub takes."""

from lastbit.codes import GENERAL
from lastbit.explaining import explain
from lastbit.registry import load_rules
from lastbit.report.sarif_rules import descriptor


def test_descriptions_of_every_code_respect_githubs_limits() -> None:
    for code in (*load_rules(), *GENERAL):
        rule = descriptor(code)
        assert rule["help"]["text"] == explain(code)
        assert 0 < len(rule["shortDescription"]["text"]) <= 1_024, code
        assert 0 < len(rule["fullDescription"]["text"]) <= 1_024, code
        assert len(rule["properties"]["tags"]) <= 10, code
        assert len(rule.get("name", "")) <= 255, code
