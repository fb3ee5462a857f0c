"""The bound of a tolerance audit admits every legal result, and follows from counted roundings."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.policy import Policy
from lastbit.machines import machine_of
from lastbit.tolerance.contracts import contracts, graph_of
from lastbit.tolerance.legal import few_rows, legal_results
from lastbit.tolerance.limits import admission
from lastbit.tolerance.operations import Operation
from lastbit.tolerance.records import BUDGETS, FORMATS, OPS, Subject

SHAPES = {"matmul": (6, 5, 96)}


def of(op: str, fmt: str, budget: str, seed: int = 0, acc: str = "f32") -> Operation:
    shape = SHAPES.get(op, (8, 96))
    return Operation.of(Subject(op, shape, fmt, acc=acc, budget=budget, seed=seed))


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(("acc", "fmt"), [*itertools.product(["f32"], FORMATS), ("f16", "f16")])
@pytest.mark.parametrize("op", OPS)
def test_every_legal_result_is_within_the_bound_of_every_other(op, acc, fmt, budget):
    for seed in (0, 1):
        operation = few_rows(of(op, fmt, budget, seed, acc))
        bound = admission(operation)
        results = [operation.expected(), *(r.values for r in legal_results(operation))]
        assert bound.limit.rule
        if budget == "rounding":  # results of different contracts may stand side by side
            pairs = list(itertools.product(results, repeat=2))
        else:
            pairs = list(itertools.product(results[1:], repeat=2))
        for actual, expected in pairs:
            assert bound.admits(actual, expected), bound.share(actual, expected)


def test_only_equal_bits_are_within_a_budget_that_allows_no_change():
    operation = of("matmul", "f32", "bitwise")
    bound = admission(operation)
    expected = operation.expected()
    assert bound.limit.rule == "the same bits"
    assert bound.limit.derivation == ("the budget `bitwise` allows no other result",)
    assert bound.admits(expected, expected.copy())
    assert not bound.admits(operation.rounded(expected * (1 + 2.0**-23)), expected)


def test_a_step_without_sums_has_one_legal_result():
    limit = admission(of("elementwise", "bf16", "reassociation")).limit
    assert (limit.rule, limit.max_ulp) == ("the same bits", 0)
    assert limit.derivation == (
        "`reassociation` lets only the order of sums change, and nothing is added up",
    )
    assert admission(of("elementwise", "bf16", "rounding")).limit.max_ulp == 2


@pytest.mark.parametrize("terms", [1, 2, 100, 4096])
def test_a_sum_has_the_bound_of_the_book(terms: int):
    # Higham, sec. 4.2: each side is off by gamma(n) of the sum of absolute terms at most.
    limit = admission(Operation.of(Subject("sum", (2, terms), "f32"))).limit
    nu = Fraction(terms, 2**24)
    gamma = nu / (1 - nu)
    assert limit.times_sum_abs is not None
    assert 2 * gamma <= Fraction(limit.times_sum_abs) <= 2 * gamma * Fraction(10001, 10000)
    assert limit.rtol == 0
    assert limit.atol == limit.times_sum_abs * limit.sum_abs


def test_a_narrow_result_adds_its_last_rounding():
    operation = Operation.of(Subject("matmul", (2, 2, 4096), "bf16"))
    limit = admission(operation).limit
    u = 2.0**-8
    assert limit.rtol == 2 * u / (1 - u)
    assert limit.sum_abs == float((np.abs(operation.x) @ np.abs(operation.w)).max())
    assert limit.atol is not None
    assert limit.times_sum_abs is not None
    at_least = Fraction(limit.times_sum_abs) * Fraction(limit.sum_abs)
    assert at_least <= Fraction(limit.atol) <= at_least * Fraction(257, 256) * Fraction(1001, 1000)


def test_a_norm_may_move_by_one_ulp_of_bf16_and_no_less():
    operation = Operation.of(Subject("norm", (64, 4096), "bf16"))
    bound = admission(operation)
    assert bound.limit.max_ulp == 1
    expected = few_rows(operation).expected()
    moved = [bound.of_rows(few_rows(operation)).share(result.values, expected)
             for result in legal_results(few_rows(operation))]  # fmt: skip
    assert max(moved) == 1.0  # a smaller bound would refuse a legal result


def test_an_order_that_is_worse_than_all_that_were_tried_is_within_the_bound():
    # Large terms that cancel late: ulp of the result are absurd, and the bound is not.
    x = np.array([[1.0, 2.0**30, 3.0, -(2.0**30), 2.0**-20, 5.0, -7.0, 2.0**10]])
    for seed in range(8):
        order = np.random.default_rng(seed).permutation(8)
        operation = Operation(Subject("sum", (1, 8), "f32"), x[:, order], None)
        graph = graph_of(
            operation.subject, contracts(operation.subject)[0], "seq", "f32", (1, 8, 1)
        )
        found = evaluate([graph.values["y"]], ArrayDomain({"x": operation.x}), Policy.BITS)
        actual = values_of(found[0]).reshape(1)
        assert admission(operation).admits(actual, operation.expected())


def test_too_many_roundings_leave_no_bound():
    for terms in (96, 4096):  # 96 leave a bound to each side, and none to both together
        operation = Operation.of(Subject("sum", (2, terms), "bf16", acc="bf16"))
        bound = admission(operation)
        assert bound.limit.rule == ""
        assert bound.limit.derivation[-1] == (
            "so there is no bound: so many roundings may lose every digit"
        )
        assert bound.admits(operation.expected(), operation.expected()) is None


@pytest.mark.parametrize(("machine", "width"), [("hopper", 16), ("ampere", 8), ("cdna2", 4)])
def test_a_matrix_unit_that_cuts_more_than_additions_round_widens_the_bound(machine, width):
    # Higham counts roundings; a step of a unit cuts each of its terms at its least digit instead.
    shape = (2, 2, 64 * width)
    plain = admission(Operation.of(Subject("matmul", shape, "bf16"))).limit
    operation = Operation.of(Subject("matmul", shape, "bf16", machine=machine))
    bound = admission(operation)
    unit = machine_of(machine).unit("bf16")
    each = 64 * ((unit.width + 1) * Fraction(1, 2**unit.fraction_bits) + Fraction(1, 2**23))
    expected = max(Fraction(plain.times_sum_abs or 0), 2 * each / (1 - each))
    assert bound.limit.times_sum_abs is not None
    assert expected <= Fraction(bound.limit.times_sum_abs) <= expected * Fraction(1001, 1000)
    assert (f"fused({unit.width}, {machine}) adds" in str(bound.limit)) == (
        2 * each / (1 - each) > Fraction(plain.times_sum_abs or 0)
    )
    results = list(legal_results(operation))
    assert results[-1].schedule == f"fused({unit.width}, {machine})"
    assert all(bound.admits(result.values, operation.expected()) for result in results)


def test_a_unit_of_one_product_is_an_order_of_additions():
    subject = Subject("matmul", (2, 2, 40), "f32", machine="ieee_fma")
    limit = admission(Operation.of(subject)).limit
    assert limit == admission(Operation.of(replace(subject, machine=""))).limit


def test_nan_and_infinity_are_never_within_the_bound():
    for op in ("norm", "matmul"):
        operation = of(op, "bf16", "reassociation")
        expected = operation.expected()
        for special in (np.nan, np.inf):
            actual = expected.copy()
            actual.flat[3] = special
            assert not admission(operation).admits(actual, expected)


def test_a_wider_budget_has_a_wider_bound():
    for op in OPS:
        widths = [admission(of(op, "bf16", budget)).limit.times_sum_abs for budget in BUDGETS]
        assert widths == sorted(widths)
        assert widths[0] == 0 < widths[2]
