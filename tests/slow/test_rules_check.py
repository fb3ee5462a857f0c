"""The check of the rules catches what a rule claims and does not do, and says it in words.

Each mistake is planted in one of a few small rules that are sound as they stand.
"""

import dataclasses

import pytest
from small_rules import (
    DROP,
    FOLD,
    SOUND,
    SPLIT,
    counted,
    messages,
    planted,
)

from lastbit.catalogue import check
from lastbit.catalogue.check import check_rule
from lastbit.catalogue.workshop import Workshop
from lastbit.change import Change
from lastbit.graph import Round, amax, apply
from lastbit.patterns import outer_rounding, sum_of, unrounded
from lastbit.rounding import Rounding
from lastbit.rule import (
    Edits,
    Rewrite,
    Site,
    breaks,
    holds,
)
from lastbit.run import run_bits
from lastbit.schedule import AnyOrder, Seq, Split
from lastbit.text import parse_program

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("rule", SOUND, ids=lambda rule: rule.code)
def test_a_sound_rule_passes(rule: Rewrite) -> None:
    found = check_rule(rule)
    assert found.failures == ()
    assert found.verified == rule.claim
    assert found.lost == rule.loses
    assert found.instances >= 2
    assert found.unknown == 0
    assert all(need.needed for need in found.requirements)
    assert len(found.requirements) == len(rule.requires)
    assert found.shown is not None
    assert found.shown.witness.before != found.shown.witness.after


# What a rule claims.


def test_an_over_claim_is_caught_with_its_witness() -> None:
    found = check_rule(dataclasses.replace(DROP, claim=Change.BITWISE))
    assert [counted(failure.message) for failure in found.failures] == [
        "FUS901-breaks-1: the bits differ: rounding, where the rule claims bitwise",
        "claims `bitwise`, but at `t` it is a change of `rounding` (and in n more)",
    ]
    shown = found.failures[1].shown
    assert shown is not None
    assert (shown.at, shown.witness.kind, shown.witness.output) == (("t",), "rounding", "y")
    program, inputs = shown.witness.program, shown.witness.inputs
    assert program is not None
    values = {name: value.values() for name, value in inputs.items()}
    sides = [
        run_bits(parse_program(text).bind({}), values)["y"]
        for text in (program.before, program.after)
    ]
    assert sides == [shown.witness.before, shown.witness.after]
    assert sides[0] != sides[1]


def test_an_over_claim_at_a_value_that_the_rule_accepts_and_names_nowhere_is_caught() -> None:
    # 0 x is x - x, and it is not x - x / 3.
    graph = f"{FOLD.graph}\nw: f32 = x - x / 3"
    found = check_rule(dataclasses.replace(FOLD, graph=graph))
    (failure,) = found.failures
    assert failure.message == "claims `bitwise`, but at `w` it is a change of `math`"
    assert failure.shown is not None
    assert failure.shown.at == ("w",)


def test_each_name_of_a_site_may_be_another_value() -> None:
    def exchanged(site: Site) -> Edits:
        return dict.fromkeys(site.at, site.node)

    graph = "x: f32[N]\na: f32 = x * 2\nb: f32 = x + x\nc: f32 = x * 3"
    rule = dataclasses.replace(
        FOLD, graph=graph, at=("a", "b"), rewrite=exchanged, examples=(holds(x=3),), loses=()
    )
    messages_of = [counted(failure.message) for failure in check_rule(rule).failures]
    assert messages_of == [
        "claims `bitwise`, but at `c`, `b` it is a change of `math` (and in n more)"
    ]


def test_an_over_claim_that_takes_a_parameter_names_it() -> None:
    assert planted(SPLIT, claim=Change.BITWISE, examples=()) == [
        "claims `bitwise`, but at `y` with n=2 it is a change of `reassociation` (and in n more)"
    ]


def test_a_domain_that_is_lost_unsaid_is_caught() -> None:
    found = check_rule(dataclasses.replace(FOLD, loses=()))
    (failure,) = found.failures
    assert counted(failure.message) == (
        "claims to keep the domain, but at `y` there is signed-zero after it and not before, "
        "on negative zeros in `x` (and in n more)"
    )
    assert failure.shown is not None
    assert failure.shown.witness.before + failure.shown.witness.after == (
        "0x00000000",
        "0x80000000",
    )


def test_a_promise_that_is_lost_unsaid_is_caught() -> None:
    def atomics(site: Site) -> Edits:
        schedule = Split(site.integer("n"), inner=Seq(), outer=AnyOrder())
        return {site.name: sum_of(site).scheduled(schedule)}

    (message,) = planted(SPLIT, rewrite=atomics)
    assert message.startswith(
        "claims to keep determinism, but at `y` with n=2 partial sums are added in the order in "
        "which they arrive (and in "
    )


def test_batch_invariance_that_is_lost_unsaid_is_caught() -> None:
    rule = dataclasses.replace(
        SPLIT,
        code="RED902",
        graph="x: f32[M, K]\ny: f32 = x / max(abs(x), axis=1)",
        sizes={"M": 2, "K": 2},
        parameters=(),
        requires=(),
        claim=Change.MATH,
        rewrite=_by_whole,
        examples=(breaks(x=[[1, 1], [2, 2]]),),
        loses=("domain",),
    )
    assert messages(rule) == [
        "claims to keep batch invariance, but at `y` a row of `y` depends on other rows of the "
        "batch (and in n more)"
    ]


def _by_whole(site: Site) -> Edits:
    x = site.ref("x")
    quotient = apply("div", x, amax(amax(x, 1), 0))
    return {site.name: Round(quotient, outer_rounding(site.node).rounding)}


def test_a_result_that_takes_another_format_is_caught() -> None:
    def widened(site: Site) -> Edits:
        return {site.name: Round(unrounded(site.node), Rounding.of("f32"))}

    example = breaks(x="0x1.82p+0")
    said = planted(
        DROP, rewrite=widened, requires=(), at=("y",), examples=(example,), loses=("domain",)
    )
    assert said == [
        "turns the result `y` from bf16[12] into f32[12] at `y` (and in n more)",
        "claims `rounding`, but at `q` it is a change of `grid`",
    ]


def test_a_vacuous_rule_is_caught() -> None:
    assert planted(DROP, rewrite=lambda site: {site.name: site.node}, requires=(), examples=()) == [
        "leaves every definition as it was in each of n instances: vacuous"
    ]


def test_a_claim_that_nothing_shows_is_caught() -> None:
    said = planted(FOLD, claim=Change.ROUNDING, examples=(holds(x=3),))
    assert said == [
        "claims `rounding`, and no example breaks",
        "claims `rounding`, and none of n instances changes a bit on an ordinary run",
    ]


def test_a_claim_that_is_wider_than_anything_seen_is_a_hint() -> None:
    found = check_rule(dataclasses.replace(SPLIT, claim=Change.MATH, loses=("deterministic",)))
    assert found.failures == ()
    assert found.hints == (
        "claims `math`; no instance is worse than `reassociation`",
        "says that it may lose determinism; no instance does",
    )


OVERFLOWS = breaks({"n": 2}, x=("0x1p+127", 0, "0x1p+127", "-0x1.8p+127"))


def test_a_domain_that_an_example_loses_is_lost() -> None:
    # The sum of the first three terms overflows, and no class of special inputs does that.
    lossy = dataclasses.replace(SPLIT, loses=("domain",))
    assert check_rule(lossy).hints == ("says that it may lose the domain; no instance does",)
    shown = check_rule(dataclasses.replace(lossy, examples=(*SPLIT.examples, OVERFLOWS)))
    assert (shown.failures, shown.hints, shown.lost) == ((), (), ("domain",))


def test_a_domain_that_an_example_loses_and_the_rule_claims_to_keep_is_caught() -> None:
    assert planted(SPLIT, examples=(*SPLIT.examples, OVERFLOWS)) == [
        "RED901-breaks-2: loses the domain, which the rule claims to keep"
    ]


def test_a_claim_that_no_instance_decides_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = Workshop.judged

    def undecided(shop: Workshop, number: int) -> object:
        return dataclasses.replace(judged(shop, number), change=Change.UNKNOWN)

    monkeypatch.setattr(Workshop, "at_most", lambda shop, number, change: None)
    monkeypatch.setattr(Workshop, "judged", undecided)
    monkeypatch.setattr(check, "DOUBTED", 3)
    found = check_rule(dataclasses.replace(FOLD, requires=()))
    assert [failure.message for failure in found.failures] == [
        "the claim is never verified: 3 instances are unknown"
    ]
    assert (found.instances, found.unknown) == (3, 3)


def test_some_unknown_instances_are_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    at_most, judged = Workshop.at_most, Workshop.judged
    monkeypatch.setattr(
        Workshop,
        "at_most",
        lambda shop, n, c: at_most(shop, n, c) if shop.setting.sizes["N"] != 1 else None,
    )
    monkeypatch.setattr(
        Workshop,
        "judged",
        lambda shop, n: dataclasses.replace(judged(shop, n), change=Change.UNKNOWN),
    )
    found = check_rule(FOLD)
    assert found.failures == ()
    assert 0 < found.unknown < found.instances
    assert found.hints == (f"{found.unknown} of {found.instances} instances are unknown",)
