"""Two functions are compared as what they compute, with a verdict that cannot be misread."""

from __future__ import annotations

import pytest
from compared import X, one, two

import lastbit
from lastbit.change import Change
from lastbit.errors import LastbitError
from lastbit.result import DomainEntry
from lastbit.verify.decide import Judged
from lastbit.verify.worst import Verdicts

pytestmark = pytest.mark.slow


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
    other = Judged("", Change.MATH)  # of a value between, which may leave the results as they are
    assert Verdicts((), (unknown, sums, other), False).change == Change.UNKNOWN
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
