"""Four small rules that are sound, and what the check says of one with a mistake in it."""

import dataclasses
import re
from collections.abc import Iterable
from fractions import Fraction

from lastbit.catalogue.check import check_rule
from lastbit.change import Change
from lastbit.graph import Map, Round, apply, const
from lastbit.patterns import ONE_FORMAT, find, outer_rounding, replace, sum_of, unrounded
from lastbit.rule import (
    Danger,
    Edits,
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
from lastbit.schedule import Split


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
