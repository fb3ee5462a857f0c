"""Every rule does what its examples say, shows its claim, and tells what a reader needs.

`lastbit rules --check` draws instances of every rule beyond its examples: `slow/test_catalogue.py`.
"""

import re
from dataclasses import replace
from functools import cache

import pytest

from lastbit.change import Change
from lastbit.examples import LOOSER, Outcome, applied, check_example, named_examples
from lastbit.explaining import HEADINGS
from lastbit.hazards import standing_of
from lastbit.registry import load_rules
from lastbit.rule import Rewrite, Site
from lastbit.staging import staged
from lastbit.verify.agree import agree

RULES = load_rules()
EXAMPLES = {name: (rule, ex) for rule in RULES.values() for name, ex in named_examples(rule)}
CHANGES = [code for code, rule in RULES.items() if rule.claim > Change.BITWISE]
HAZARDS = [rule for rule in RULES.values() if rule.finds]


@cache
def outcome_of(name: str) -> Outcome:
    """Return what an example shows; it is evaluated once."""
    return check_example(*EXAMPLES[name])


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_shows_what_it_states(name: str) -> None:
    outcome = outcome_of(name)
    assert outcome.id == name
    assert outcome.passed, outcome.message


@pytest.mark.parametrize("code", RULES)
def test_a_rule_shows_its_claim_and_kept_bits_on_ordinary_runs(code: str) -> None:
    rule = RULES[code]
    outcomes = [outcome_of(name) for name, _ in named_examples(rule)]
    assert {rule.claim, Change.BITWISE} <= {o.change for o in outcomes if o.ordinary}


@pytest.mark.parametrize("code", CHANGES)
def test_the_field_does_not_take_for_equal_what_exact_evaluation_tells_apart(code: str) -> None:
    told = 0
    for name, example in named_examples(RULES[code]):
        outcome = outcome_of(name)
        # the field does not speak of what is beyond the range of a format
        if example.kind == "breaks" and outcome.ordinary:
            stricter = [policy for policy, change in LOOSER if change < outcome.change]
            region = applied(RULES[code], example)
            assert not agree(region.before, region.after, stricter[-1], draws=1).equal, name
            told += 1
    assert told


@pytest.mark.parametrize("code", RULES)
def test_a_rule_rejects_something_and_each_requirement_does(code: str) -> None:
    rule = RULES[code]
    rejected = {example.requirement for example in rule.examples if example.kind == "rejects"}
    assert rejected
    assert {require.text for require in rule.requires} <= rejected


@pytest.mark.parametrize("code", RULES)
def test_a_rule_tells_why_it_matters_when_it_is_legal_the_error_and_the_source(code: str) -> None:
    rule = RULES[code]
    assert rule.prose.startswith(f"{code} {rule.name}: ")
    headings = re.findall(r"^([A-Z][a-z ]+): ", rule.prose, re.MULTILINE)
    assert {"Why it matters", "Legal", "Error", "Source"} <= set(headings)
    assert headings == [heading for heading in HEADINGS if heading in headings]


def test_rules_refer_to_rules_that_exist() -> None:
    named = {code: re.findall(r"\b[A-Z]{3}\d{3}\b", rule.prose) for code, rule in RULES.items()}
    assert {code: unknown for code, n in named.items() if (unknown := set(n) - RULES.keys())} == {}


@pytest.mark.parametrize("code", RULES)
def test_a_title_is_one_sentence_that_names_the_site(code: str) -> None:
    rule = RULES[code]
    example = next(example for example in rule.examples if example.kind != "rejects")
    site = staged(rule, example)
    assert rule.title is not None
    title = rule.title(site)
    assert all(f"`{name}`" in title for name in site.at)
    assert not title.endswith(".")


# Hazards


@pytest.mark.parametrize("rule", HAZARDS, ids=lambda rule: rule.code)
def test_a_hazard_finds_the_unsafe_values_of_its_graph_and_no_others(rule: Rewrite) -> None:
    assert rule.finds is not None
    assert [danger.at for danger in rule.finds(standing_of(rule))] == [(name,) for name in rule.at]


@pytest.mark.parametrize("rule", HAZARDS, ids=lambda rule: rule.code)
def test_a_hazard_does_not_find_what_its_remedy_has_changed(rule: Rewrite) -> None:
    stands = standing_of(rule)
    assert rule.finds is not None
    for name in rule.at:
        edits = rule.apply(Site(stands.program, (name,)))
        program = stands.program.edited(edits)
        cured = replace(stands, program=program, stated=stands.stated | edits.keys())
        assert (name,) not in [danger.at for danger in rule.finds(cured)]


def test_there_are_rules_of_every_family_and_hazards() -> None:
    families = {"CVT", "DET", "DOM", "FUS", "QNT", "RED"}
    assert {code[:3] for code in RULES} == families
    assert {rule.code[:3] for rule in HAZARDS} == families
