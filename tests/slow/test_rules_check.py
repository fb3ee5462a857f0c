"""The check of the rules catches what a rule says and does not do, and says it in words.

Each mistake is planted in one of a few small rules that are sound as they stand.
"""

import dataclasses
import re
from collections.abc import Iterable

import pytest
from small_rules import DROP, FOLD, HAZARD, INNER, NO_GRID, SOUND, SPLIT, _divisions, counted

from lastbit.catalogue import check
from lastbit.catalogue.check import check_rule
from lastbit.catalogue.workshop import Workshop
from lastbit.change import Change
from lastbit.graph import Map, Round, amax, apply, const
from lastbit.patterns import find, outer_rounding, replace, sum_of, unrounded
from lastbit.rounding import Rounding
from lastbit.rule import (
    Danger,
    Edits,
    Example,
    Parameter,
    Require,
    Rewrite,
    RuleError,
    Site,
    Standing,
    breaks,
    holds,
    rejects,
)
from lastbit.run import run_bits
from lastbit.schedule import AnyOrder, Seq, Split
from lastbit.text import parse_program

pytestmark = pytest.mark.slow


def messages(rule: Rewrite) -> list[str]:
    """Return what the check of a rule says against it."""
    return [counted(failure.message) for failure in check_rule(rule).failures]


def planted(rule: Rewrite, **fields: object) -> list[str]:
    """Return what the check says of a rule with a mistake planted in it."""
    return messages(dataclasses.replace(rule, **fields))


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


def test_a_rule_that_raises_instead_of_refusing_is_caught() -> None:
    def careless(site: Site) -> Edits:
        return {site.name: Round(site.node.args[7], outer_rounding(site.node).rounding)}

    said = planted(FOLD, rewrite=careless, examples=())
    assert said[0] == (
        "raises IndexError: tuple index out of range, at `y`; a rule refuses instead "
        "(and in n more)"
    )


def test_a_graph_that_cannot_be_used_is_caught() -> None:
    assert planted(FOLD, graph="x: f32[N]\ny f32 = x") == [
        "its graph cannot be read: 2:1: not a statement. Write `name: format[shape]` for an input "
        "or `name: format = expression`"
    ]
    assert planted(FOLD, graph="x: f32[N]\ny: f32 = x + x[0:9, 0:9]") == [
        "its graph does not bind at the sizes that the rule states"
    ]


def test_a_rule_that_gives_other_definitions_the_second_time_is_caught() -> None:
    turns = iter(range(10**6))

    def moody(site: Site) -> Edits:
        return FOLD.rewrite(site) if next(turns) % 2 else {site.name: site.node}

    assert planted(FOLD, rewrite=moody) == [
        "gives other definitions when it is applied again, at `y`"
    ]


def test_a_rule_that_changes_the_graph_it_reads_is_caught() -> None:
    def forced(site: Site) -> Edits:
        object.__setattr__(site.node, "x", const(1))
        return FOLD.rewrite(site)

    def kept(site: Site) -> Edits:
        edits = FOLD.rewrite(site)
        site.program.nodes.update(edits)  # type: ignore[attr-defined]
        return edits

    message = "changes the graph that it reads, at `y`; a rule returns new definitions"
    # Other sizes, for the nodes of a graph are shared.
    graph = "x: f32[M]\ny: f32 = x - x\nz: f32 = x * x"
    assert planted(FOLD, graph=graph, sizes={"M": 3}, rewrite=forced) == [message]
    assert planted(FOLD, graph=graph, sizes={"M": 5}, rewrite=kept) == [message]


def test_a_hazard_that_finds_other_dangers_the_second_time_is_caught() -> None:
    turns = iter(range(10**6))
    assert planted(HAZARD, finds=lambda s: list(_divisions(s)) if next(turns) % 2 else []) == [
        "finds other dangers in the same graph the second time"
    ]


def test_a_hazard_that_changes_the_graph_is_caught() -> None:
    def forced(standing: Standing) -> list[Danger]:
        object.__setattr__(standing.program.nodes["y"], "x", const(1))
        return []

    graph = HAZARD.graph.replace("N", "M")
    assert planted(HAZARD, graph=graph, sizes={"M": 3}, finds=forced) == [
        "changes the graph in which it finds dangers; a rule changes nothing"
    ]


@pytest.mark.parametrize("prose", ["", " \n"])
def test_a_rule_without_prose_is_caught(prose: str) -> None:
    assert planted(FOLD, prose=prose) == [
        "has no prose: what happens, why it matters, error and source"
    ]


def test_a_graph_with_too_many_elements_is_caught() -> None:
    said = "100,000 are the most that are tried: state smaller sizes"
    assert planted(FOLD, sizes={"N": 10**8}) == [
        f"`x` has 100,000,000 elements at N=100000000, and {said}"
    ]
    assert planted(FOLD, graph=FOLD.graph.replace("N", "100001"), sizes={}) == [
        f"`x` has 100,001 elements, and {said}"
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"loses": ("domains",)},
         "the rule DOM901 has the loses 'domains'. Allowed: 'domain', 'deterministic', "
         "'batch_invariant', 'layout_invariant'."),
        ({"loses": "domain"},
         "the rule DOM901 has the loses, which is no tuple, 'domain'. Allowed: 'domain', "
         "'deterministic', 'batch_invariant', 'layout_invariant'."),
        ({"parameters": (Parameter("n", "counts", ""),)},  # type: ignore[arg-type]
         "the rule DOM901 has the kind of parameter 'counts'. Allowed: 'count', 'length', "
         "'format', 'choice', 'schedule'."),
        ({"parameters": (Parameter("n", "count", "", counts="row"),)},  # type: ignore[arg-type]
         "the rule DOM901 has the counts of a parameter 'row'. Allowed: '', 'devices', 'rows'."),
        ({"examples": (Example("hold", {}, {}),)},  # type: ignore[arg-type]
         "the rule DOM901 has the kind of example 'hold'. Allowed: 'holds', 'breaks', 'rejects'."),
    ],
)  # fmt: skip
def test_a_misspelt_word_of_a_rule_is_an_error(fields: dict[str, object], message: str) -> None:
    with pytest.raises(RuleError, match=f"^{re.escape(message)}$"):
        dataclasses.replace(FOLD, **fields)


# What it requires.


def test_a_superfluous_requirement_is_caught() -> None:
    even = Require("N is even", lambda site: site.node.shape[0] % 2 == 0)
    assert planted(FOLD, requires=(even,), sizes={"N": 2}) == [
        "requirement `N is even` is superfluous: without it, 1 instance did no harm"
    ]


def test_a_requirement_that_is_never_false_is_caught() -> None:
    named = Require("the value has a name", lambda site: site.name != "")
    assert planted(FOLD, requires=(named,)) == [
        "requirement `the value has a name` is never false in n instances"
    ]


def test_a_requirement_that_repeats_another_is_caught() -> None:
    again = Require("the grid is none", NO_GRID.test)
    said = planted(DROP, requires=(NO_GRID, INNER, again))
    refused = "is superfluous: the n instances that it refuses are refused without it too"
    assert said == [
        f"requirement `the value is on no grid` {refused}",
        f"requirement `the grid is none` {refused}",
    ]


def test_a_requirement_against_a_step_that_does_nothing_is_needed() -> None:
    several = Require("1 < n", lambda site: site.integer("n") > 1)
    found = check_rule(dataclasses.replace(SPLIT, requires=(several,)))
    assert [(need.needed, need.why) for need in found.requirements] == [
        (True, "without it, no bit is changed at `y` with n=1")
    ]
    assert found.hints == ("no example is rejected by the requirement `1 < n`",)


def test_a_requirement_against_an_error_is_needed() -> None:
    def rewrite(site: Site) -> Edits:
        return {site.name: sum_of(site).scheduled(Split(12 // (site.integer("n") - 3)))}

    more = Require("3 < n", lambda site: site.integer("n") > 3)
    found = check_rule(dataclasses.replace(SPLIT, requires=(more,), rewrite=rewrite, examples=()))
    (need,) = found.requirements
    assert need.needed
    assert need.why == (
        "without it, the rewrite at `y` with n=2 raises ScheduleError: schedule `split(-12)`: "
        "n is -12. Allowed: 1 and above"
    )


def test_requirements_that_cannot_be_met_are_caught() -> None:
    never = Require("x is small", lambda site: False)
    said = planted(FOLD, requires=(never,), examples=())
    assert said == ["applies to none of n instances: in n of them `x is small` fails"]


def test_a_form_that_is_nowhere_is_caught() -> None:
    said = planted(FOLD, at=("z",), examples=())
    assert said == ["applies to none of n instances: in n of them the site has another form"]


# Its examples.


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (breaks(x=2), "FUS901-breaks-2: the bits are the same"),
        (holds(x="0x1.82p+0"),
         "FUS901-holds-2: the bits differ: rounding, where the rule claims rounding"),
        (breaks(x="0x1.82p+0", shows="y: 0x40db -> 0x40dc"),
         "FUS901-breaks-2: it shows `y: 0x40db -> 0x40da`, where the rule says "
         "`y: 0x40db -> 0x40dc`"),
        (rejects("the value is on no grid", x=1),
         "FUS901-rejects-3: `the value is on no grid` refuses nothing here"),
        (rejects("the value is on no grid", x=1, at=("z",)),
         "FUS901-rejects-3: FUS901 drop at `z`: requirement `the value is no result` fails"),
        (holds(y=1), "FUS901-holds-2: FUS901-holds-2: the input `x` is missing"),
        (holds(x=1, at=("u",)), "FUS901-holds-2: KeyError: 'u'"),
    ],
)  # fmt: skip
def test_a_stale_example_is_caught(example: Example, message: str) -> None:
    assert planted(DROP, examples=(*DROP.examples, example))[0] == message


# Hazards.


def _all_divisions(standing: Standing) -> Iterable[Danger]:
    for name, node in standing.program.nodes.items():
        if find(node, Map, lambda n: n.fn == "div"):
            yield Danger((name,), "the divisor may be 0")


def test_a_hazard_that_finds_too_much_is_caught() -> None:
    assert planted(HAZARD, finds=_all_divisions) == [
        "finds `w` in its graph, which is not in `at`",
        "finds `y` again where the remedy is applied",
    ]


def test_a_hazard_that_finds_too_little_is_caught() -> None:
    assert planted(HAZARD, finds=lambda standing: ()) == ["does not find `y` in its graph"]


def test_a_hazard_that_finds_a_value_twice_is_caught() -> None:
    twice = lambda standing: [*_divisions(standing), *_divisions(standing)]  # noqa: E731
    assert planted(HAZARD, finds=twice) == ["finds `y` in its graph 2 times"]


def test_a_remedy_that_does_not_help_is_caught() -> None:
    def doubled(site: Site) -> Edits:
        (quotient,) = find(site.node, Map, lambda n: n.fn == "div")
        return {site.name: replace(site.node, quotient, apply("mul", quotient, const(2)))}

    said = planted(HAZARD, rewrite=doubled, examples=(breaks(x=1, s=1),))
    assert said[0] == "finds `y` again where the remedy is applied"


def test_a_hazard_that_raises_is_caught() -> None:
    said = planted(HAZARD, finds=lambda standing: standing.program.nodes["none"])
    assert said == ["raises KeyError: 'none', on its own graph"]
