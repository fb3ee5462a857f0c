"""The check of the rules catches requirements that are not needed, and examples that are stale.

Each mistake is planted in one of a few small rules that are sound as they stand.
"""

import dataclasses

import pytest
from small_rules import (
    DROP,
    FOLD,
    INNER,
    NO_GRID,
    SPLIT,
    planted,
)

from lastbit.catalogue.check import check_rule
from lastbit.patterns import sum_of
from lastbit.rule import (
    Edits,
    Example,
    Require,
    Site,
    breaks,
    holds,
    rejects,
)
from lastbit.schedule import Split

pytestmark = pytest.mark.slow


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
