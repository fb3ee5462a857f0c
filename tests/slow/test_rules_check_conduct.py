"""The check of the rules catches rules that raise, change what they read, or find too much.

Each mistake is planted in one of a few small rules that are sound as they stand.
"""

import dataclasses
import re
from collections.abc import Iterable

import pytest
from small_rules import (
    FOLD,
    HAZARD,
    _divisions,
    planted,
)

from lastbit.graph import Map, Round, apply, const
from lastbit.patterns import find, outer_rounding, replace
from lastbit.rule import (
    Danger,
    Edits,
    Example,
    Parameter,
    RuleError,
    Site,
    Standing,
    breaks,
)

pytestmark = pytest.mark.slow


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
