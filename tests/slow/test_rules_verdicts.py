"""In a plan, a rule is the change that it claims, and loses what it says."""

from pathlib import Path

import pytest
from plans import steps_of

from lastbit.change import Change
from lastbit.registry import find_rule
from lastbit.rule import Value
from lastbit.text import parse_program

pytestmark = pytest.mark.slow

NAN, INF = "nan", "inf"
VERDICTS = [
    ("RED216", "y", {}, "reassociation", set()),
    ("RED216", "z", {}, "rounding", set()),
    ("RED217", "y", {"every": 32}, "reassociation", set()),
    ("RED219", "y", {"block": 3}, "rounding", set()),
    ("RED259", "y", {}, "rounding", {("overflow", "before")}),
    ("RED260", "o", {"block": 1}, "math", {(NAN, "after")}),
    ("RED261", "w", {}, "bitwise", {(NAN, "after")}),
    ("RED262", "o", {"block": 1}, "rounding", {(NAN, "after")}),
    ("RED265", "y", {"n": 2}, "rounding", set()),
    ("RED266", "y", {"block": 2}, "rounding", set()),
    ("DOM508", "y", {}, "bitwise", {(NAN, "before")}),
    ("DOM509", "y", {}, "rounding", {(NAN, "before"), ("signed-zero", "after")}),
    ("DOM509", "e", {}, "bitwise", {(NAN, "before"), ("signed-zero", "after")}),
    ("DOM510", "y", {}, "bitwise", {("overflow", "before"), ("flush", "before")}),
    ("DOM510", "n", {}, "rounding", {("overflow", "before"), ("flush", "before")}),
    ("DOM511", "y", {}, "bitwise", {(NAN, "before")}),
    ("DOM511", "r", {}, "bitwise", {(NAN, "before")}),
    ("DOM512", "y", {}, "bitwise", {(INF, "before")}),
    ("DOM512", "w", {}, "bitwise", {(NAN, "before")}),
    ("DOM513", "o", {}, "math", {(NAN, "before")}),
    ("DOM513", "o", {"magnitude": 50000}, "math", {(NAN, "before")}),
    ("DOM514", "y", {}, "math", set()),
    ("DOM515", "y", {}, "bitwise", {("flush", "after")}),
    ("DOM515", "c", {}, "bitwise", {("flush", "after")}),
    ("DOM516", "y", {}, "math", set()),
    ("DOM517", "y", {}, "rounding", {("overflow", "after")}),
    ("DOM518", "y", {}, "bitwise", {("signed-zero", "before")}),
]


@pytest.mark.parametrize(("code", "at", "parameters", "change", "domain"), VERDICTS)
def test_a_rule_is_the_change_and_loses_the_domain_that_it_says(
    tmp_path: Path,
    code: str,
    at: str,
    parameters: dict[str, Value],
    change: str,
    domain: set[tuple[str, str]],
) -> None:
    rule = find_rule(code)
    least = 64 if code == "RED217" else 6
    names = sorted(parse_program(rule.graph).symbols)
    sizes = ", ".join(f"{name} = {least + i}" for i, name in enumerate(names))
    given = "".join(f"\n{name} = {value}" for name, value in parameters.items())
    transform = f'rule = "{rule.name}"\nat = ["{at}"]{given}'
    (step,) = steps_of(tmp_path, rule.graph, sizes, transform)
    assert step.change == change
    assert {(entry.kind, entry.side) for entry in step.domain} == domain
    assert not domain or "domain" in rule.loses
    assert f"`{at}`" in step.title


QUICK = {
    "QNT315": "at = ['y']",
    "QNT316": "at = ['e']",
    "QNT317": "at = ['y']",
    "QNT322": "at = ['q']",
    "QNT325": "at = ['q']\nseed = 7",
    "QNT327": "at = ['q']",
    "QNT330": "at = ['q']",
    "QNT331": "at = ['q']",
    "QNT333": "at = ['y']",
}


@pytest.mark.parametrize("code", QUICK)
def test_the_verdict_on_a_plan_is_the_claim_of_the_rule(code: str, tmp_path: Path) -> None:
    rule = find_rule(code)
    symbols = sorted(parse_program(rule.graph).symbols)
    spans = ", ".join(f"{s} = [1, 64]" if s == "M" else f"{s} = 64" for s in symbols)
    transform = f'rule = "{rule.name}"\n{QUICK[code]}'
    (step,) = steps_of(tmp_path, rule.graph, spans, transform)
    assert step.change == rule.claim


def test_a_number_of_devices_that_varies_breaks_layout_invariance(tmp_path: Path) -> None:
    graph = "t: f32[M, K]\ns: f32 = amax(t) / 448\nq: e4m3fn = t / s saturate\ny: f32 = q * s"
    transform = 'rule = "quantize-by-shard-maximum"\nat = ["q"]\nn = "D"'
    (step,) = steps_of(tmp_path, graph, "M = [1, 64], D = [1, 4], K = 8", transform)
    promise = step.promises["layout_invariant"]
    assert (promise.before, promise.after) == (True, False)
    assert promise.cause == "n takes 4 values over D in [1, 4]"
    assert step.change == "grid"


def test_padding_of_a_choice_appends_what_is_never_chosen(tmp_path: Path) -> None:
    graph = "x: bf16[M, E]\ni: int32 = argmax_first(x)"
    transform = 'rule = "pad-with-mask"\nat = ["i"]\npad = 3'
    (step,) = steps_of(tmp_path, graph, "M = [1, 64], E = 16", transform)
    assert step.change == Change.UNKNOWN  # the field does not know it, and no sample differs
    assert step.evidence[0].detail is not None
    assert step.evidence[0].detail.startswith("no difference found on")
