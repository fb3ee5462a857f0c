"""The check of the rules catches what a rule says and does not do, and says it in words.

Each mistake is planted in one of a few small rules that are sound as they stand.
"""

import dataclasses
import json
import re
from collections.abc import Iterable
from fractions import Fraction

import pytest

from lastbit import cli
from lastbit.catalogue import check
from lastbit.catalogue.check import check_rule
from lastbit.catalogue.pool import check_rules
from lastbit.catalogue.records import Checked, report
from lastbit.catalogue.text import render
from lastbit.catalogue.trials import settings_of, trials_of
from lastbit.catalogue.workshop import Workshop
from lastbit.change import Change
from lastbit.graph import Map, Round, amax, apply, const
from lastbit.patterns import ONE_FORMAT, find, outer_rounding, replace, sum_of, unrounded
from lastbit.rounding import Rounding
from lastbit.rule import (
    Danger,
    Edits,
    Example,
    MismatchError,
    Parameter,
    Require,
    Rewrite,
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


def _drop(site: Site) -> Edits:
    return {site.name: unrounded(site.node)}


NO_GRID = Require(
    "the value is on no grid",
    lambda site: not outer_rounding(site.node).rounding.format.is_grid,
)
INNER = Require("the value is no result", lambda site: site.name not in site.program.outputs)
DROP = Rewrite(
    code="FUS901",
    name="drop",
    claim=Change.ROUNDING,
    prose="FUS901 drop: a rounding is dropped.",
    graph="""
        x: bf16[N]
        t: bf16 = x * 3
        y: bf16 = t * x
        q: e4m3fn = x / 2 saturate
        z: bf16 = q * x
    """,
    at=("t",),
    sizes={"N": 1},
    rewrite=_drop,
    requires=(NO_GRID, INNER),
    examples=(
        # 3 * 0x1.82 = 0x4.86 lies between two bf16 values, and so does its product with x
        breaks(x="0x1.82p+0", shows="y: 0x40db -> 0x40da"),
        holds(x=2),
        rejects("the value is on no grid", x=1, at=("q",)),
        rejects("the value is no result", x=1, at=("z",)),
    ),
)
SPLIT = Rewrite(
    code="RED901",
    name="split",
    claim=Change.REASSOCIATION,
    prose="RED901 split: a sum is split.",
    graph="""
        x: f32[K]
        y: f32 = sum(x) acc f32 seq
        h: f32 = sum(x) acc f32 split(2, partials=bf16)
    """,
    at=("y",),
    sizes={"K": 4},
    requires=(ONE_FORMAT,),
    parameters=(Parameter("n", "count", "the number of pieces"),),
    rewrite=lambda site: {site.name: sum_of(site).scheduled(Split(site.integer("n")))},
    examples=(
        breaks({"n": 2}, x=(2**24, 1, 1, 1)),
        holds({"n": 2}, x=1),
        rejects(ONE_FORMAT.text, {"n": 2}, x=1, at=("h",)),
    ),
)


def _folded(site: Site) -> Edits:
    if not find(site.node, Map, lambda node: node.fn == "sub"):
        raise MismatchError("the value is a difference")
    return {
        site.name: Round(apply("mul", const(0), site.ref("x")), outer_rounding(site.node).rounding)
    }


FOLD = Rewrite(
    code="DOM901",
    name="fold",
    claim=Change.BITWISE,
    prose="DOM901 fold: x - x becomes 0 x.",
    graph="x: f32[N]\ny: f32 = x - x\nz: f32 = x * x",
    at=("y",),
    sizes={"N": 1},
    rewrite=_folded,
    examples=(holds(x=3), breaks(x=-3), rejects("the value is a difference", x=3, at=("z",))),
    loses=("domain",),
)


def _divisions(standing: Standing) -> Iterable[Danger]:
    for name, node in standing.program.nodes.items():
        for quotient in find(node, Map, lambda n: n.fn == "div"):
            if not find(quotient.xs[1], Map, lambda n: n.fn == "max"):
                yield Danger((name,), "the divisor may be 0")


def _guarded(site: Site) -> Edits:
    (quotient,) = find(site.node, Map, lambda n: n.fn == "div")
    floor = apply("max", quotient.xs[1], const(Fraction(1, 2**100)))
    return {site.name: replace(site.node, quotient, apply("div", quotient.xs[0], floor))}


HAZARD = Rewrite(
    code="DOM902",
    name="divide-by-zero",
    claim=Change.MATH,
    prose="DOM902 divide-by-zero: a divisor may be 0.",
    graph="""
        x: f32[N]
        s: f32[N]
        y: f32 = x / s
        w: f32 = x / maximum(s, 1)
    """,
    at=("y",),
    sizes={"N": 1},
    rewrite=_guarded,
    finds=_divisions,
    examples=(breaks(x=1, s="0x1p-110"), holds(x=1, s=2)),
    loses=("domain",),
)
SOUND = [DROP, SPLIT, FOLD, HAZARD]


def counted(message: str) -> str:
    """Return a message with `n` for the number of instances, of which there may once be more."""
    return re.sub(r"\d+(?= (instances|of them|more\)))", "n", message)


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
    assert said == ["turns the result `y` from bf16[12] into f32[12] at `y` (and in n more)"]


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


# The instances, and the reports.


def test_instances_are_at_several_sizes_and_in_several_formats() -> None:
    settings = settings_of(SPLIT)
    assert [(s.purpose, dict(s.sizes)) for s in settings[:5]] == [
        ("large", {"K": 24}),
        ("example", {"K": 4}),
        ("odd", {"K": 25}),
        ("formats", {"K": 24}),
        ("formats", {"K": 4}),
    ]
    inputs = {str(setting.program.statements[0].rounding) for setting in settings}
    assert inputs == {"f32", "bf16", "f16"}
    schedules = {str(setting.program.statements[1].schedule) for setting in settings}
    assert schedules == {"seq", "pairwise(1)", "split(3, partials=bf16)"}
    assert {trial.parameters["n"] for trial in trials_of(SPLIT, settings[0])} >= {1, 2, 3, 4, 5, 6}


def test_equal_arguments_give_equal_reports() -> None:
    first, second = (json.dumps(report([check_rule(SPLIT, seed=3)])) for _ in range(2))
    assert first == second


def test_several_processes_find_what_one_does() -> None:
    seen: list[tuple[int, int, str]] = []
    one = report(check_rules(SOUND, processes=1))
    two = report(check_rules(SOUND, processes=2, progress=lambda *step: seen.append(step)))
    assert one == two
    assert seen == [(1, 4, "RED901"), (2, 4, "DOM901"), (3, 4, "DOM902"), (4, 4, "")]


def _failing() -> list[Checked]:
    return [check_rule(SPLIT), check_rule(dataclasses.replace(FOLD, loses=()))]


def test_the_text_has_a_line_for_each_rule_and_the_totals() -> None:
    assert [counted(line) for line in render(_failing()).splitlines()] == [
        "RED901  split  transform  reassociation  reassociation  n instances  ok",
        "DOM901  fold   transform  bitwise        bitwise        n instances   FAIL",
        "    claims to keep the domain, but at `y` there is signed-zero after it and not before, "
        "on negative zeros in `x` (and in n more)",
        "        x = -0x0.0p+0: 0x00000000 -> 0x80000000 (f32 `y`)",
        "checked 2 rules; n instances; 0 unknown; 6 examples; no hints; 1 rule failed",
    ]


def test_the_json_lists_what_was_found() -> None:
    found = report([check_rule(DROP), *_failing()])
    assert found["schema"] == "lastbit.rules/1"
    assert found["summary"] == {
        "rules": 3,
        "failed": 1,
        "failures": 1,
        "hints": 0,
        "instances": sum(rule["instances"] for rule in found["rules"]),
        "unknown": 0,
        "examples": 10,
    }
    drop, split, fold = found["rules"]
    assert (drop["code"], drop["name"], drop["kind"]) == ("FUS901", "drop", "transform")
    assert (drop["claim"], drop["verified"], drop["loses"]) == ("rounding", "rounding", [])
    assert drop["requirements"] == [
        {
            "text": "the value is on no grid",
            "needed": True,
            "why": "without it, at `q` it is a change of `grid`",
        },
        {
            "text": "the value is no result",
            "needed": True,
            "why": "without it, turns the result `z` from bf16[1] into real[1] at `z`",
        },
    ]
    assert {"K": 4} in split["sizes"]
    assert split["witness"]["parameters"] == {"n": 2}
    assert split["witness"]["at"] == ["y"]
    assert set(split["witness"]["inputs"]["x"]) == {"format", "shape", "hex"}
    assert split["witness"]["before"] != split["witness"]["after"]
    (failure,) = fold["failures"]
    assert failure["witness"]["kind"] == "signed-zero"
    json.dumps(found)


# The command.


def test_the_command_checks_the_named_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["rules", "--check", "cvt402", "subtract-self-folded"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["CVT402", "DOM505", "checked"]
    assert lines[0].endswith("ok")


def test_a_family_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from lastbit.commands.rules import chosen

    codes = [rule.code for rule in chosen(["CVT", "RED201"])]
    assert "CVT402" in codes
    assert codes[-1] == "RED201"
    assert codes == sorted(codes)


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["rules", "--check", "CVT402", "--format", "json", "--seed", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [rule["code"] for rule in found["rules"]] == ["CVT402"]


def test_a_rule_that_fails_makes_the_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = dataclasses.replace(FOLD, loses=())
    monkeypatch.setattr("lastbit.registry.load_rules", lambda: {"DOM901": bad})
    assert cli.run(["rules", "--check"]) == 1
    assert "1 rule failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--check", "RED2011"], "unknown rule 'RED2011'. Did you mean 'RED201'?"),
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


def test_progress_goes_to_stderr_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["rules", "--check", "CVT402", "DOM505"]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert cli.run(["rules", "--check", "CVT402", "DOM505"]) == 0
    assert capsys.readouterr().err == "\r\x1b[K1 of 2  DOM505\r\x1b[K"
