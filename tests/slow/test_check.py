"""Two functions are compared as what they compute, with a verdict that cannot be misread."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import lastbit
from lastbit import cli
from lastbit.change import Change
from lastbit.errors import InputError, LastbitError
from lastbit.result import DomainEntry, read_result
from lastbit.verify.decide import Judged
from lastbit.verify.worst import Verdicts

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples/check_swiglu.py"
X = lastbit.f32("M", 64)


def verdict(before, after, **given):
    """Return the change, and the kinds of the domain."""
    given = {"x": X, **given}
    v = lastbit.check(before, after, **given)
    return str(v.change), {entry.kind for entry in v.domain}


# Identities and what they are


def summed(schedule, acc="f32"):
    return lambda x: x.sum(acc=acc, schedule=schedule)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("seq", "split(4)", "reassociation"),
        ("seq", "pairwise(8)", "reassociation"),
        ("split(4)", "split(size=16)", "bitwise"),
        ("seq", "any_order", "reassociation"),
    ],
)
def test_a_sum_by_another_tree(before: str, after: str, change: str) -> None:
    assert verdict(summed(before), summed(after))[0] == change


def test_split_k_by_hand_is_split_k() -> None:
    def by_hand(x):
        n = x.shape[-1] // 2
        parts = [half.sum(acc="f32", schedule="seq") for half in (x[:, :n], x[:, n:])]
        return (parts[0] + parts[1]).to("f32")

    assert verdict(summed("split(2)"), by_hand)[0] == "bitwise"
    assert verdict(summed("seq"), by_hand)[0] == "reassociation"


def test_a_loop_is_a_sum_from_left_to_right() -> None:
    def loop(x):
        total = x[:, 0:1]
        for i in range(1, 8):
            total = (total + x[:, i : i + 1]).to("f32")
        return total

    change, domain = verdict(summed("seq"), loop, x=lastbit.f32("M", 8))
    assert (change, domain) == ("bitwise", {"signed-zero"})  # 0 + -0 is 0, and -0 alone is -0
    assert verdict(summed("pairwise"), loop, x=lastbit.f32("M", 8))[0] == "reassociation"


def test_a_wider_accumulator_is_another_rounding() -> None:
    assert verdict(summed("seq", "f16"), lambda x: summed("seq")(x).to("f16"))[0] == "rounding"


def test_a_dropped_rounding() -> None:
    def kept(x):
        return (lastbit.silu(x).to("bf16") * 3).to("bf16")

    def dropped(x):
        return (lastbit.silu(x) * 3).to("bf16")

    v = lastbit.check(kept, dropped, x=lastbit.bf16("M", 64))
    assert v.change == "rounding"
    assert v.drift is not None
    assert v.drift.nearer == "after"
    assert v.witness is not None
    assert v.witness.before != v.witness.after


def test_a_contraction_is_one_rounding_less() -> None:
    def two(x, y):
        return ((x * y).to("f32") + 1).to("f32")

    def fused(x, y):
        return (x * y + 1).to("f32")

    assert verdict(two, fused, y=X)[0] == "rounding"


def test_an_exact_product_may_be_rounded() -> None:
    def plain(x, y):
        return (x * y).to("f32").sum(acc="f32", schedule="seq")

    def exact(x, y):
        return (x * y).sum(acc="f32", schedule="seq")

    narrow = {"x": lastbit.bf16("M", 64), "y": lastbit.bf16("M", 64)}
    assert verdict(plain, exact, **narrow)[0] == "bitwise"  # 8 + 8 digits fit in 24
    assert verdict(plain, exact, y=X)[0] == "rounding"


def online_softmax(x, *, guarded=False):
    """Return softmax by halves, each with its own maximum, and merged."""
    n = x.shape[-1] // 2
    a, b = x[:, :n], x[:, n:]
    ma, mb = a.max(), b.max()
    m = lastbit.maximum(ma, mb)
    sa, sb = lastbit.exp(a - ma).sum(), lastbit.exp(b - mb).sum()
    s = sa * lastbit.exp(ma - m) + sb * lastbit.exp(mb - m)
    return (lastbit.exp(x - m) / s).to("f32")


def test_online_softmax_by_hand_is_softmax_but_for_a_half_of_minus_infinity() -> None:
    def softmax(x):
        return lastbit.softmax(x).to("f32")

    v = lastbit.check(softmax, lambda x: online_softmax(x), x=X)
    assert v.change == "bitwise"
    assert [(entry.kind, entry.side) for entry in v.domain] == [("nan", "after")]
    assert not v.ok  # a NaN that was not there


def test_another_base_of_the_exponential_is_another_function() -> None:
    def natural(x):
        return (lastbit.exp(x) / lastbit.exp(x).sum()).to("f32")

    def binary(x):
        return (lastbit.exp2(x) / lastbit.exp2(x).sum()).to("f32")

    def scaled(x):
        y = x * lastbit.log2e
        return (lastbit.exp2(y) / lastbit.exp2(y).sum()).to("f32")

    v = lastbit.check(natural, binary, x=X)
    assert (str(v.change), v.ok) == ("math", False)
    assert verdict(natural, scaled)[0] == "bitwise"


def quantized(blocks):
    def function(x):
        parts = x.reshape("M", blocks, -1)
        scale = (parts.amax() / 448).to("f32")
        codes = (parts / scale).to("e4m3fn", overflow="saturate")
        return (codes * scale).reshape("M", x.shape[-1]).to("bf16")

    return function


def test_another_scope_of_a_scale_is_another_grid() -> None:
    x = lastbit.bf16("M", 64)
    assert verdict(quantized(1), quantized(1), x=x)[0] == "bitwise"
    v = lastbit.check(quantized(1), quantized(4), x=x)
    assert v.change == "grid"
    assert v.witness is not None


def test_a_mean_by_hand() -> None:
    def mean(x):
        return x.mean().to("f32")

    for by_hand in (
        lambda x: (x.sum() / x.shape[-1]).to("f32"),
        lambda x: (x.sum() / 64).to("f32"),
        lambda x: (x.sum() * (1 / 64)).to("f32"),  # a constant that belongs to the size
    ):
        assert verdict(mean, by_hand)[0] == "bitwise"
    assert verdict(mean, lambda x: (x.sum() / 63).to("f32"))[0] == "math"
    free = lastbit.f32("M", "K")
    assert verdict(mean, lambda x: (x.sum() / x.shape[-1]).to("f32"), x=free)[0] == "bitwise"


def test_a_program_that_cannot_shrink_is_judged_at_its_size() -> None:
    def pieces(x):
        n = x.shape[-1] // 32
        return (x.reshape("M", n, 32) * 3).reshape("M", 128).to("bf16")

    def plain(x):
        return (x * 3).to("bf16")

    x = lastbit.bf16("M", 128)
    assert verdict(plain, pieces, x=x)[0] == "bitwise"


# Schedules that depend on a size


def test_a_tree_that_depends_on_the_batch_is_judged_at_its_worst() -> None:
    by_rows = "split(max(1, 8 // ceil(M / 8)))"  # one piece at the largest M
    given = {"x": lastbit.f32("M", 64), "symbols": {"M": (1, 64)}, "batch": "M"}
    v = lastbit.check(summed("seq"), summed(by_rows), **given)
    assert v.change == "reassociation"
    promise = v.promises["batch_invariant"]
    assert (promise.before, promise.after) == (True, False)
    assert promise.cause == f"{by_rows} takes 4 values over M in [1, 64]"
    assert "this is the verdict on the schedules at M = 1" in v.whole.notes
    v = lastbit.check(summed(by_rows), summed("seq"), **given)
    promise = v.promises["batch_invariant"]
    assert (promise.before, promise.after) == (False, True)


def test_regions_bound_a_whole_that_is_not_decided() -> None:
    nan = DomainEntry("nan", "after", "zeros")
    unknown, sums = Judged("", Change.UNKNOWN), Judged("", Change.REASSOCIATION, domain=(nan,))
    rounding = Judged("", Change.ROUNDING)
    whole = Verdicts((), (unknown, sums, rounding), False).whole
    assert (whole.change, whole.domain) == (Change.ROUNDING, (nan,))
    assert whole.notes == (
        "decided region by region; the worst of them is an upper bound for the whole",
    )
    assert Verdicts((), (unknown, sums, unknown), False).change == Change.UNKNOWN
    assert Verdicts((), (sums, rounding), False).change == Change.REASSOCIATION
    assert Verdicts((), (unknown,), False).change == Change.UNKNOWN


# Names, regions and places


def gated(schedule, wide=False):
    def function(x, w):
        g = lastbit.matmul(x, w, acc="f32", schedule=schedule).to("bf16")
        h = (g + 1).to("bf16")
        t = lastbit.silu(h) if wide else lastbit.silu(h).to("bf16")
        return (t * 3).to("bf16")

    return function


def test_values_of_one_name_are_compared_region_by_region_and_as_a_whole() -> None:
    specs = {"x": lastbit.bf16("M", 64), "w": lastbit.bf16(64, 32)}
    v = lastbit.check(gated("seq"), gated("split(4)", wide=True), **specs)
    whole, *regions = v.result.steps
    assert v.change == whole.change == "rounding"
    assert (whole.id, whole.at) == ("difference", ("result",))
    assert [(step.id, step.at, step.change) for step in regions] == [
        ("difference-1", ("g",), "reassociation"),
        ("difference-2", ("result",), "rounding"),
    ]
    assert v.steps == tuple(regions)
    line = gated("seq").__code__.co_firstlineno
    assert [step.location.line - line for step in (whole, *regions)] == [4, 1, 4]
    assert whole.location.file.endswith("test_check.py")


def test_a_difference_that_is_undone_is_none() -> None:
    def before(x):
        t = (x * 2).to("f32")
        u = (t * 3).to("f32")
        return (u / 2).to("f32")

    def after(x):
        t = (x * 4).to("f32")
        u = (t * 3).to("f32")
        return (u / 4).to("f32")

    v = lastbit.check(before, after, x=X)
    assert v.change == "bitwise"
    assert v.ok
    assert "math" in {step.change for step in v.steps}


def test_a_report_says_what_differs_and_where() -> None:
    def before(x):
        t = (x * 3).to("bf16")
        return (t + 1).to("bf16")

    def after(x):
        return (x * 3 + 1).to("bf16")

    v = lastbit.check(before, after, x=X)
    file, line = v.whole.location.file, before.__code__.co_firstlineno
    assert v.whole.notes == (
        "assumed M in [1, 2000]; give other sizes with --symbol M=1..8192 or symbols=",
        f"before: t: bf16 = x * 3    ({file}:{line + 1}:13)",
        f"before: result: bf16 = t + 1    ({file}:{line + 2}:16)",
        f"after: result: bf16 = x * 3 + 1    ({file}:{line + 5}:16)",
    )
    assert str(v).startswith(f"{file}:{line + 5}:16  difference at `result`")
    assert str(v).endswith("without a budget only math, unknown and new non-finite results fail")


def test_results_have_the_names_of_the_keys_or_variables() -> None:
    def of_dict(x):
        return {"y": x.exp().to("f32"), "z": (x + 1).to("f32")}

    def other_order(x):
        z = (x + 1).to("f32")
        return {"z": z, "y": x.exp().to("bf16").to("f32")}

    v = lastbit.check(of_dict, other_order, x=X)
    assert (str(v.change), v.whole.at) == ("rounding", ("y",))

    def of_tuple(x):
        y = x.exp().to("f32")
        return y, (x + 1).to("f32")

    v = lastbit.check(of_tuple, lambda x: (x.exp().to("f32"), (x + 2).to("f32")), x=X)
    assert (str(v.change), v.whole.at) == ("math", ("result_1",))


def test_an_input_may_be_a_result() -> None:
    assert verdict(lambda x: x, lambda x: (x * 1).to("f32")) == ("bitwise", set())
    assert verdict(lambda x: (x, x), lambda x: (x, (x + 0).to("f32"))) == (
        "bitwise",
        {"signed-zero"},
    )


# The verdict object


def one(x):
    return (x * 3).to("bf16")


def two(x):
    return (x.to("bf16") * 3).to("bf16")


def test_a_change_is_compared_with_a_word() -> None:
    v = lastbit.check(one, two, x=X)
    assert v.change == "rounding"
    assert v.change <= "rounding"
    assert not v.change <= "reassociation"
    with pytest.raises(LastbitError) as caught:
        assert v.change <= "reasociation"
    assert str(caught.value) == (
        "unknown kind of change 'reasociation'. Did you mean 'reassociation'?"
    )
    assert lastbit.Change.UNKNOWN > "math"


def test_a_verdict_is_no_condition() -> None:
    v = lastbit.check(one, two, x=X)
    with pytest.raises(TypeError) as caught:
        assert v
    assert str(caught.value) == (
        "a verdict is neither true nor false. Write "
        'assert v.change <= "reassociation", v, or assert v.ok, v.'
    )
    assert repr(v) == "<rounding: `result` is computed in another way>"


def test_the_same_program_is_bitwise_and_says_so() -> None:
    v = lastbit.check(one, one, x=X)
    assert (str(v.change), v.domain, v.drift, v.witness) == ("bitwise", (), None, None)
    assert v.whole.title == "both functions compute the same program"
    assert "`before` and `after` are the same function" in v.whole.notes
    other = lastbit.check(one, lambda x: (3 * x).to("bf16"), x=X)
    assert other.change == "bitwise"
    assert other.whole.title == "`result` is computed in another way"


def test_a_demand_that_is_not_met_is_a_finding() -> None:
    v = lastbit.check(one, two, x=X, max_change="reassociation", promises=["batch_invariant"])
    assert not v.ok
    assert [(f.code, f.severity, f.message) for f in v.result.findings] == [
        (
            "FUS100",
            "error",
            "`after` in place of `before` is a change of `rounding`; the budget allows "
            "`reassociation`",
        ),
        (
            "FUS100",
            "error",
            "`after` in place of `before` is not known to be batch-invariant: "
            "no batch symbol is given",
        ),
    ]
    assert lastbit.check(one, two, x=X, max_ulp={"bf16": 1}).ok
    assert not lastbit.check(one, two, x=X, max_ulp={"bf16": 0.5}).ok
    assert not lastbit.check(one, two, x=X, max_ulp={"bf16": 0.5}, elementwise=True).ok


def test_equal_calls_give_equal_results() -> None:
    first, second = (lastbit.check(one, two, x=X, seed=3) for _ in range(2))
    assert first == second
    assert first.result.environment["seed"] == "3"


# Inputs


def test_inputs_come_from_the_call_then_the_function() -> None:
    def attribute(x, y):
        return (x + y).to("f32")

    def default(x, y=lastbit.f32("M", 8)):  # noqa: B008
        return (y + x).to("f32")

    def annotated(x: lastbit.f32("M", 8), y):
        return (x + y).to("f32")

    attribute.inputs = ("f32[M, 8]", lastbit.f32("M", 8))
    assert lastbit.check(attribute, default).change == "bitwise"
    assert lastbit.check(annotated, default).change == "bitwise"
    attribute.inputs = lambda: {"x": "f32[M, 4]", "y": "f32[M, 4]"}
    given = {"x": "f32[M, 4]", "y": "f32[M, 4]"}
    assert lastbit.check(attribute, default, inputs=given).change == "bitwise"


def test_a_plain_default_is_left_alone() -> None:
    def scaled(x, factor=3):
        return (x * factor).to("bf16")

    assert lastbit.check(scaled, one, x=X).change == "bitwise"


def test_ranges_and_distributions_are_used() -> None:
    spec = lastbit.f32("M", 64).drawn("uniform(-1, 1)").range(-1, Fraction(1, 2))
    assert str(spec) == "f32[M, 64] uniform(-1, 1) in [-1, 0.5]"
    v = lastbit.check(one, two, x=spec, symbols={"M": 4})
    assert v.drift is not None
    assert v.drift.inputs == "uniform(-1, 1) in [-1, 0.5]"
    text = lastbit.check(one, two, x=str(spec), symbols={"M": 4})
    assert text.drift == v.drift
    alone = lastbit.check(one, two, x=lastbit.f32("M", 64).range(0, 2), symbols={"M": 4})
    assert alone.drift is not None
    assert alone.drift.inputs == "uniform(0, 2) in [0, 2]"


def test_a_symbol_without_sizes_is_said() -> None:
    given = {"x": lastbit.f32("M", "K")}
    v = lastbit.check(one, two, symbols={"M": (1, 8)}, **given)
    note = "assumed K in [1, 2000]; give other sizes with --symbol M=1..8192 or symbols="
    assert note in v.whole.notes
    v = lastbit.check(one, two, symbols={"M": (1, 8), "K": 16}, **given)
    assert not any("assumed" in note for note in v.whole.notes)


def wide(x):
    return (x * 3).to("f32")


def rows(x):
    return (x.sum() * 3).to("bf16")


def three(x):
    return (x[:, :3] * 3).to("bf16")


def named_batch(x):
    return (x.reshape("N", 64) * 3).to("bf16")


def fails(x):
    return one(x) / undefined  # noqa: F821


def hundred(x):
    return (x[:100] * 3).to("bf16")


def with_inputs(x):
    return one(x)


with_inputs.inputs = {"x": "f32[M, 32]"}


def odd_inputs(x):
    return one(x)


odd_inputs.inputs = 3


def misnamed_inputs(x):
    return one(x)


misnamed_inputs.inputs = {"xx": "f32[M, 64]"}


def many_inputs(x):
    return one(x)


many_inputs.inputs = ("f32[M, 64]", "f32[M, 64]")

# The other function, options, and the error without its place.
ERRORS = {
    "missing input": (
        one,
        {"x": None},
        "the input `x` of `before` (`one`) has no format and shape. Give "
        "x=lastbit.bf16(\"M\", 4096) in Python, --input 'x=bf16[M, 4096]' or "
        '`one.inputs = {"x": "bf16[M, 4096]"}` in the file.',
    ),
    "unknown input": (one, {"y": X}, "no function takes the input `y`. Allowed: x."),
    "no text of an input": (
        one,
        {"x": "f32[M"},
        "input `x`: 'f32[M' is no input. "
        "Write bf16[M, 4096], or bf16[M, 4096] normal(0, 1) in [-8, 8].",
    ),
    "unknown format": (
        one,
        {"x": "f23[M]"},
        "input `x`: unknown format 'f23'. Did you mean 'f32'?",
    ),
    "bad range": (
        one,
        {"x": "f32[M] in [a, 2]"},
        "input `x`: the range of 'f32[M] in [a, 2]' holds what is no number. Write [-8, 8].",
    ),
    "falling range": (
        one,
        {"x": "f32[M] in [3, 2]"},
        "input `x`: the range [3, 2] does not rise. Write .range(-8, 8).",
    ),
    "distribution": (
        one,
        {"x": "f32[M] normal(0)"},
        "input `x`: normal takes 2 numbers, given 1. Write normal(0, 1).",
    ),
    "no input": (
        one,
        {"x": 3},
        "input `x` is given as a value of type int. "
        'Write lastbit.bf16("M", 4096), or the text "bf16[M, 4096]".',
    ),
    "inputs differ": (
        with_inputs,
        {"x": None, "first": with_inputs, "second": lambda x=X: one(x)},
        "`x` is f32[M, 32] for `before` and f32[M, 64] for `after`. Both read the same inputs.",
    ),
    "odd inputs": (
        odd_inputs,
        {},
        "`inputs` of `after` (`odd_inputs`) is of type int. "
        'Write {"x": "bf16[M, 4096]"}, or a tuple in the order of the parameters.',
    ),
    "misnamed inputs": (
        misnamed_inputs,
        {},
        "`inputs` of `after` (`misnamed_inputs`) gives `xx`, which no function takes. "
        "Did you mean 'x'?",
    ),
    "too many inputs": (
        many_inputs,
        {},
        "`inputs` of `after` (`many_inputs`) gives 2 inputs, and it takes 1. "
        "Give one for each parameter.",
    ),
    "no inputs at all": (
        lambda: 3,
        {"x": None, "first": lambda: 3},
        "the functions take no inputs, so there is nothing to compare. "
        "Give each input a parameter.",
    ),
    "open parameters": (
        lambda *x: one(x[0]),
        {},
        "`after` takes `*x`, whose number is open. Give every input a parameter of its own.",
    ),
    "no function": (
        3,
        {},
        "`after` is of type int, no function with parameters. Give a function of lastbit's values.",
    ),
    "symbol": (
        one,
        {"symbols": {"M": (5, 1)}},
        "the sizes of the symbol 'M' are (5, 1). "
        'Write a number or (smallest, largest): symbols={"M": (1, 8192)}.',
    ),
    "batch": (one, {"batch": "N"}, "unknown batch symbol 'N'. Allowed: M."),
    "change": (
        one,
        {"max_change": "rounded"},
        "unknown kind of change 'rounded'. Did you mean 'rounding'?",
    ),
    "promise": (
        one,
        {"promises": ["determinstic"]},
        "unknown promise 'determinstic'. Did you mean 'deterministic'?",
    ),
    "ulp": (one, {"max_ulp": {"bf16": "a"}}, "max_ulp of bf16 is 'a'. Allowed: a number of ulp."),
    "exception": (
        fails,
        {},
        "`after` (`fails`) raised NameError: name 'undefined' is not defined.",
    ),
    "nothing": (
        lambda x: None,
        {},
        "`after` returns nothing. Return a value, a tuple of values, or a dict of them.",
    ),
    "a number": (
        lambda x: 3,
        {},
        "`after` returns a value of type int. "
        "Return a value, a tuple of values, or a dict of them.",
    ),
    "a number among results": (
        lambda x: (one(x), 3),
        {},
        "`after` returns a value of type int as result '1'. "
        "Return values that were computed from the inputs.",
    ),
    "more results": (
        lambda x: (one(x), one(x)),
        {},
        "`before` returns 1 result and `after` 2 results. "
        "Return the same results in the same order.",
    ),
    "other keys": (
        lambda x: {"b": one(x)},
        {"first": lambda x: {"a": one(x)}},
        "`after` returns a result 'b', and `before` none of that name. Allowed: a.",
    ),
    "not rounded": (
        lambda x: x * 3,
        {},
        "the result `result` of `after` is not rounded, so it has no bits. "
        'Round it where it is returned: .to("bf16").',
    ),
    "other format": (
        wide,
        {},
        'the result `result` is bf16 before and f32 after. Round both to one format: .to("bf16").',
    ),
    "other shape": (
        rows,
        {},
        "the result `result` has the shape [2000, 64] before and [2000, 1] after at M = 2000. "
        "Return the same shape; a reduction keeps its axis with size 1.",
    ),
    "other fixed shape": (
        three,
        {"x": "f32[2, 64]"},
        "the result `result` has the shape [2, 64] before and [2, 3] after. "
        "Return the same shape; a reduction keeps its axis with size 1.",
    ),
    "unknown symbol": (
        named_batch,
        {},
        "expression 'N': the symbol 'N' has no size. Allowed: M.",
    ),
    "small sizes": (
        hundred,
        {},
        "the slice bound 100 is outside of axis 0 with 1 elements at M = 1. "
        "Declare other sizes of the symbols.",
    ),
    "shapes": (
        lambda x: (x @ x).to("bf16"),
        {"x": "f32[2, 64]"},
        "matmul needs [M, K] and [K, N]; given [2, 64] and [2, 64].",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_an_error_says_what_is_wrong_and_what_to_write(case: str) -> None:
    function, given, expected = ERRORS[case]
    given = {"x": X, **given}
    given = {name: value for name, value in given.items() if value is not None}
    first, second = given.pop("first", one), given.pop("second", function)
    with pytest.raises(InputError) as caught:
        lastbit.check(first, second, **given)
    problem = caught.value.problems[0]
    text = str(problem).split("\n")[0].removeprefix(f"{problem.place}: ")
    assert text == expected
    if problem.place.file:
        assert problem.place.source.strip()


def test_an_exception_of_the_function_shows_its_line() -> None:
    with pytest.raises(InputError) as caught:
        lastbit.check(one, fails, x=X)
    (problem,) = caught.value.problems
    assert problem.place.line == fails.__code__.co_firstlineno + 1
    assert problem.place.source == "    return one(x) / undefined  # noqa: F821"
    assert isinstance(caught.value.__cause__, NameError)


# The command


IDEA = """import lastbit

def before(x, w):
    g = lastbit.matmul(x, w, acc="f32", schedule="seq").to("bf16")
    return lastbit.silu(g).to("bf16")

def after(x, w):
    print("tracing")
    g = lastbit.matmul(x, w, acc="f32", schedule="split(4)")
    return lastbit.silu(g).to("bf16")

before.inputs = {"x": "bf16[M, 64]", "w": "bf16[64, 16]"}
three = 3
"""


@pytest.fixture
def idea(tmp_path, monkeypatch):
    """Write a file of two functions, and return what runs the command beside it."""
    (tmp_path / "idea.py").write_text(IDEA, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(*arguments):
        return cli.run(["check", *arguments])

    return run


def test_the_command_prints_the_report(idea, capsys) -> None:
    assert idea("idea.py:before", "idea.py:after", "--symbol", "M=1..64", "--batch=M") == 0
    out, err = capsys.readouterr()
    head, title, *rest, last = out.splitlines()
    assert head.split() == ["idea.py:10:12", "difference", "at", "`result`", "rounding"]
    assert title == "    `result` is computed in another way"
    assert any(line.startswith("    witness   x: bf16[") for line in rest)
    assert "    promises  deterministic, batch-invariant, layout-invariant" in rest
    assert last.startswith("decided 1 of 1 step; 1 rounding; no findings")
    assert err == "tracing\n"  # what the function prints does not mix with the report


def test_a_demand_that_is_not_met_gives_the_exit_code(idea, capsys) -> None:
    arguments = ("idea.py:before", "idea.py:after", "-q", "--max-change")
    assert idea(*arguments, "rounding") == 0
    assert idea(*arguments, "reassociation") == 1
    assert "1 finding (1 error)" in capsys.readouterr().out


def test_inputs_and_symbols_of_the_command_count_first(idea, capsys) -> None:
    given = ("--input", "x=bf16[N, 8] uniform(-1, 1)", "--input", "w = bf16[8,4]")
    assert idea("idea.py:before", "idea.py:after", *given, "--symbol=N=4", "--format=json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["command"] == "check"
    assert document["steps"][0]["drift"]["inputs"] == "w: normal(0, 1), x: uniform(-1, 1)"
    assert not any("assumed" in note for note in document["steps"][0]["notes"])


def test_a_witness_of_the_command_runs_again(idea, capsys) -> None:
    assert idea("idea.py:before", "idea.py:after", "--output", "json=r.json") == 0
    assert "lastbit replay r.json#difference" in capsys.readouterr().out
    result = read_result("r.json")
    witness = result.steps[0].witness
    assert witness is not None
    Path("idea.py").unlink()  # the result holds everything
    assert cli.run(["replay", "r.json#difference"]) == 0
    assert f"{witness.before[0]} -> {witness.after[0]}" in capsys.readouterr().out
    assert cli.run(["replay", "r.json#difference", "--script"]) == 0
    script = capsys.readouterr().out
    done = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True)
    assert (done.returncode, "These are the bits of the witness." in done.stdout) == (0, True)


def test_the_json_follows_the_schema(idea, capsys) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((EXAMPLE.parents[1] / "reports/report.schema.json").read_text())
    idea("idea.py:before", "idea.py:after", "--format", "json")
    jsonschema.validate(json.loads(capsys.readouterr().out), schema)


TARGETS = {
    "missing file": (
        "nothing.py:before",
        "nothing.py: cannot be read: No such file or directory. Name a Python file.",
    ),
    "missing function": (
        "idea.py:befor",
        "idea.py: there is no function 'befor'. Did you mean 'before'?",
    ),
    "no function": (
        "idea.py:three",
        "idea.py: `three` is of type int, no function. Name a function.",
    ),
    "no name": ("idea.py", "'idea.py' names no function. Write idea.py:before."),
    "plan": ("a.toml", "'a.toml' names no function. It is a plan: write `lastbit lint a.toml`."),
}


@pytest.mark.parametrize("case", TARGETS)
def test_a_target_that_cannot_be_used_is_an_error(case: str, idea, capsys) -> None:
    target, expected = TARGETS[case]
    assert idea(target, "idea.py:after") == 2
    assert capsys.readouterr().err == f"{expected}\n"


FILES = {
    "syntax": (
        "def before(x:\n    pass\n",
        "bad.py:1:11: this is no Python: '(' was never closed.\n    def before(x:\n",
    ),
    "raises": (
        "import lastbit\n\nvalue = 1 / 0\n",
        "bad.py:3: the file raised ZeroDivisionError: division by zero.\n    value = 1 / 0\n",
    ),
    "exits": (
        "import sys\nsys.exit(3)\n",
        "bad.py:2: the file exits while it is loaded. Put what runs it under "
        '`if __name__ == "__main__":`.\n    sys.exit(3)\n',
    ),
    "empty": ("", "bad.py: there is no function 'before'. It defines no function.\n"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_cannot_be_loaded_is_an_error_with_its_line(case: str, idea, capsys) -> None:
    text, expected = FILES[case]
    Path("bad.py").write_text(text, encoding="utf-8")
    assert idea("bad.py:before", "idea.py:after") == 2
    assert capsys.readouterr().err == expected


def test_a_file_may_import_its_neighbours(idea, capsys) -> None:
    Path("helper_of_idea.py").write_text("SCHEDULE = 'split(4)'\n", encoding="utf-8")
    text = IDEA.replace("import lastbit\n", "import lastbit\nfrom helper_of_idea import SCHEDULE\n")
    Path("idea.py").write_text(text.replace('"split(4)"', "SCHEDULE"), encoding="utf-8")
    assert idea("idea.py:before", "idea.py:after", "-q") == 0
    sys.modules.pop("helper_of_idea")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--input", "x"), "'x' is no input; write 'x=bf16[M, 4096]'."),
        (("--symbol", "M=big"), "'M=big' gives no sizes; write M=1..8192 or M=64."),
        (("--max-ulp", "bf16"), "'bf16' gives no ulp; write bf16=1."),
    ],
)
def test_an_option_that_cannot_be_read_is_bad_usage(arguments, expected, idea, capsys) -> None:
    assert idea("idea.py:before", "idea.py:after", *arguments) == 2
    assert expected in capsys.readouterr().err


def test_the_example_is_what_it_says(capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    symbol = ("--symbol", "M=1..64")
    target = f"{EXAMPLE}:before"
    assert cli.run(["check", target, f"{EXAMPLE}:fused", *symbol, "-q"]) == 0
    assert "1 rounding" in capsys.readouterr().out
    assert cli.run(["check", target, f"{EXAMPLE}:rounded", *symbol, "-q"]) == 0
    assert "1 bitwise" in capsys.readouterr().out


def test_help_teaches_and_loads_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "lastbit", "check", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "lastbit check idea.py:before idea.py:after" in done.stdout
    assert "before.inputs = " in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "lastbit.cli" in imported
    assert not {"numpy", "torch", "mpmath", "ml_dtypes"} & imported


def test_a_function_is_written_without_numpy() -> None:
    code = (
        "import sys, lastbit\n"
        "x = lastbit.bf16('M', 64).range(-1, 1), lastbit.exp, lastbit.pi * 2, lastbit.Spec\n"
        "print(sorted({'numpy', 'torch', 'mpmath'} & sys.modules.keys()))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
