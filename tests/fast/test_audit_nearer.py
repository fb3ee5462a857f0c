"""Of the results of an operator at two batch sizes, the audit says which is nearer the exact one.

The oracles are rationals of the standard library, and operators whose errors are counted by hand.
"""

from fractions import Fraction

import numpy as np
import pytest
import torch
from planted_operators import normal, planted, split_by_batch, standing

from lastbit.audit.calling import Call
from lastbit.audit.contraction import contraction_of
from lastbit.audit.convolution import patches_of
from lastbit.audit.exact_dots import exact_dots
from lastbit.audit.nearer import exact_values, nearness

ATEN = torch.ops.aten


def rational_dots(left, right):
    pairs = zip(left.tolist(), right.tolist(), strict=True)
    return [
        sum((Fraction(a) * Fraction(b) for a, b in zip(x, y, strict=True)), Fraction(0))
        for x, y in pairs
    ]


@pytest.mark.parametrize("spread", [0, 30, 400])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_dot_products_are_those_of_rationals(spread, kind):
    rng = np.random.default_rng(5)
    span = min(spread, 60) if kind is np.float32 else spread
    size = (3, 41)
    left, right = (
        (rng.standard_normal(size) * 2.0 ** rng.integers(-span, span + 1, size))
        .astype(kind)
        .astype(np.float64)
        for _ in range(2)
    )
    assert exact_dots(left, right) == rational_dots(left, right)
    assert exact_dots(left, None) == rational_dots(left, np.ones(size))


def test_dot_products_of_extremes_are_exact():
    least, most = 5e-324, 1.7976931348623157e308
    x = np.array([[least, most, -most, -least, 2.0, 0.0]])
    assert exact_dots(x, x[:, ::-1].copy()) == rational_dots(x, x[:, ::-1])


def test_dot_products_of_more_terms_than_are_added_at_once_are_exact():
    largest = 2.0**24 - 1
    x = np.full((1, 70_001), largest)
    assert exact_dots(x, -x) == [-70_001 * Fraction(2**24 - 1) ** 2]


def test_a_dot_product_of_nothing_is_zero():
    assert exact_dots(np.zeros((2, 0)), None) == [0, 0]


FORMS = {
    "mm": (ATEN.mm.default, (normal(3, 5), normal(5, 4)), {}),
    "mm of a transposed matrix": (ATEN.mm.default, (normal(3, 5), normal(4, 5).t()), {}),
    "addmm": (
        ATEN.addmm.default,
        (normal(4), normal(3, 5), normal(5, 4)),
        {"beta": 0.5, "alpha": 2},
    ),
    "addmm of a matrix": (ATEN.addmm.default, (normal(3, 4), normal(3, 5), normal(5, 4)), {}),
    "bmm": (ATEN.bmm.default, (normal(2, 3, 5), normal(2, 5, 4)), {}),
    "baddbmm": (
        ATEN.baddbmm.default,
        (normal(1, 3, 4), normal(2, 3, 5), normal(2, 5, 4)),
        {"beta": 3},
    ),
    "linear": (ATEN.linear.default, (normal(2, 3, 5), normal(4, 5), normal(4)), {}),
    "matmul": (ATEN.matmul.default, (normal(2, 3, 5), normal(5, 4)), {}),
    "matmul of batches": (ATEN.matmul.default, (normal(2, 2, 3, 5), normal(2, 2, 5, 4)), {}),
    "matmul with a vector": (ATEN.matmul.default, (normal(3, 5), normal(5)), {}),
    "dot": (ATEN.dot.default, (normal(5), normal(5, seed=1)), {}),
    "mv": (ATEN.mv.default, (normal(3, 5), normal(5)), {}),
    "addmv": (ATEN.addmv.default, (normal(3), normal(3, 5), normal(5)), {"alpha": 0.25}),
    "sum": (ATEN.sum.default, (normal(3, 5),), {}),
    "sum along axes": (ATEN.sum.dim_IntList, (normal(3, 5, 4), [0, -1]), {}),
    "sum that keeps axes": (ATEN.sum.dim_IntList, (normal(3, 5, 4), [1], True), {}),
    "cumsum": (ATEN.cumsum.default, (normal(3, 5), 1), {}),
    "mean": (ATEN.mean.default, (normal(3, 5),), {}),
    "mean along an axis": (ATEN.mean.dim, (normal(3, 5, 4), [0]), {}),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_exact_value_of_every_output_is_that_in_rationals(name):
    function, args, kwargs = FORMS[name]
    case = planted(function, args, [None], name=str(function), kwargs=kwargs)
    call = Call.of(case, None)
    form = contraction_of(case.name, call.named)
    result = call.run()[0]
    exact, scales = exact_values(form, call.named, range(result.numel()))

    def objects(value):
        if not isinstance(value, torch.Tensor):
            return value
        flat = [Fraction(x) for x in value.reshape(-1).tolist()]
        return np.array(flat, object).reshape(value.shape)

    ours = REFERENCES[name.partition(" ")[0]](*map(objects, args), **kwargs)
    assert exact == np.ravel(ours).tolist()
    rounded = torch.tensor([float(x) for x in exact]).reshape(result.shape)
    assert bool((rounded - result).abs().max() <= 2**-20)  # the operator is the one that is meant
    assert all(abs(x) <= y for x, y in zip(exact, scales, strict=True))


def _along(x, axes=None, keepdims=False):
    return x.sum(tuple(axes) if axes else None, keepdims=keepdims)


def _mean(x, axes=None):
    total = _along(x, axes)
    return total * Fraction(np.size(total), x.size)


REFERENCES = {
    "mm": lambda a, b: a @ b,
    "addmm": lambda c, a, b, beta=1, alpha=1: Fraction(beta) * c + Fraction(alpha) * (a @ b),
    "bmm": lambda a, b: a @ b,
    "baddbmm": lambda c, a, b, beta=1: Fraction(beta) * c + a @ b,
    "linear": lambda x, w, b: x @ w.T + b,
    "matmul": lambda a, b: a @ b,
    "dot": lambda a, b: a @ b,
    "mv": lambda a, b: a @ b,
    "addmv": lambda c, a, b, alpha: c + Fraction(alpha) * (a @ b),
    "sum": _along,
    "cumsum": np.cumsum,
    "mean": _mean,
}


CONVOLUTIONS = {
    "plain": (torch.nn.Conv2d(3, 4, 3), (2, 3, 6, 7)),
    "stride, padding, dilation": (
        torch.nn.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2), bias=False),
        (2, 3, 6, 7),
    ),
    "of one axis": (torch.nn.Conv1d(3, 4, 3, stride=2, padding=1), (2, 3, 9)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_the_exact_value_of_a_convolution_is_that_of_integers(name):
    layer, shape = CONVOLUTIONS[name]
    layer = layer.double().requires_grad_(False)
    for value in layer.parameters():
        value.copy_((value * 64).round())
    x = (normal(*shape) * 64).round()
    form, given = patches_of(
        {
            "input": x,
            "weight": layer.weight,
            "bias": layer.bias,
            "stride": layer.stride,
            "padding": layer.padding,
            "dilation": layer.dilation,
            "transposed": False,
            "groups": 1,
        }
    )
    expected = layer(x.double())  # every sum is exact
    exact, scales = exact_values(form, given, range(expected.numel()))
    assert exact == expected.reshape(-1).tolist()
    assert all(abs(x) <= y for x, y in zip(exact, scales, strict=True))


def test_a_convolution_has_a_nearer_side():
    layer = torch.nn.Conv2d(3, 4, 3).requires_grad_(False)

    def sides(x, *rest):
        y = ATEN.convolution.default(x, *rest)
        return y if len(x) == 1 else y * 1.125

    args = (normal(2, 3, 6, 6), layer.weight, layer.bias, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    found = nearness(standing(ATEN.convolution.default, sides, args), 1, 2, row=0)
    assert found.nearer.side == "before"
    assert found.nearer.before_error_ulp < 4
    grouped = (normal(2, 3, 6, 6), layer.weight[:3, :1], None, *args[3:8], 3)
    found = nearness(standing(ATEN.convolution.default, sides, grouped), 1, 2)
    assert found.nearer.why.startswith("the exact value of this operator is not computed")


def large_and_small(rows=2):
    """Return rows of 2^24, 1 and 1, whose sum from left to right loses both ones."""
    return torch.tensor([[2.0**24, 1.0, 1.0]]).expand(rows, 3).clone()


def right_to_left_when_alone(x, axes):
    columns = x.unbind(-1)
    if len(x) == 1:
        return (columns[2] + columns[1]) + columns[0]
    return (columns[0] + columns[1]) + columns[2]


def test_the_side_that_loses_nothing_is_nearer():
    case = standing(ATEN.sum.dim_IntList, right_to_left_when_alone, (large_and_small(), [1]))
    found = nearness(case, 1, 2)
    assert (found.nearer.side, found.nearer.before_error_ulp) == ("before", 0.0)
    # 2^24 + 2 is the exact sum and the other side has 2^24; an ulp of binary32 is 2 there.
    assert found.nearer.after_error_ulp == 1.0
    assert (found.distance.format, found.distance.elements, found.distance.differing) == (
        "f32", 1, 1,
    )  # fmt: skip
    assert (found.distance.max_ulp, found.distance.max_ulp_at_scale) == (1, 1.0)
    assert nearness(case, 2, 1).nearer.side == "after"


def test_cancellation_makes_ulp_of_the_result_large_and_not_ulp_at_scale():
    def sides(x, axes):
        a, b, c = x.unbind(-1)
        return (a + b) + c if len(x) == 1 else (a + c) + b

    x = torch.tensor([[2.0**24, 1.0, -(2.0**24)]]).expand(2, 3).clone()
    case = standing(ATEN.sum.dim_IntList, sides, (x, [1]))
    found = nearness(case, 1, 2)
    # 0 before, 1 after: all binary32 values from 0 to 1 lie between; an ulp at 2^25 + 1 is 4.
    assert found.distance.max_ulp == 0x3F800000
    assert found.distance.max_ulp_at_scale == 0.25
    assert (found.nearer.side, found.nearer.before_error_ulp) == ("after", 0.25)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_operands_of_other_formats_are_read(dtype):
    def sides(x, w):
        y = x @ w
        return y if len(x) == 1 else torch.nextafter(y.double(), y.double() + 1).to(dtype) + y / 4

    case = standing(ATEN.mm.default, sides, (normal(2, 8).to(dtype), normal(8, 3).to(dtype)))
    found = nearness(case, 1, 2)
    assert found.nearer.side == "before"
    assert found.nearer.rows == found.distance.differing == 3


def test_a_sum_into_a_wider_format_is_exact_in_the_narrow_one():
    x = large_and_small().bfloat16()

    def sides(x, dim, *, dtype):
        return right_to_left_when_alone(x.to(dtype), dim)

    wide, narrow = (
        standing(ATEN.sum.dim_IntList, sides, (one, [1]), {"dtype": torch.float32})
        for one in (x, x.double())
    )
    assert nearness(wide, 1, 2).nearer.side == "before"
    assert nearness(narrow, 1, 2).nearer.side is None  # the terms are rounded first


def test_equal_results_have_no_nearer_side():
    case = standing(ATEN.sum.dim_IntList, ATEN.sum.dim_IntList, (normal(4, 8), [1]))
    found = nearness(case, 1, 4)
    assert found.nearer.side is None
    assert found.nearer.why == "the bits are the same at both sizes"
    assert found.distance.differing == 0


def test_the_exact_value_of_other_operators_is_null_with_the_reason():
    found = nearness(planted(split_by_batch, (normal(4, 48),)), 1, 2)
    assert found.nearer.side is None
    assert found.nearer.why == (
        "the exact value of this operator is not computed, only that of sums and products"
    )
    assert found.distance.differing == 1
    assert found.distance.max_ulp_at_scale is None


def test_infinite_operands_have_no_exact_value():
    x = large_and_small()
    x[:, 2] = float("inf")

    def sides(x, axes):
        return x.sum(1) * (1 if len(x) == 1 else -1)

    found = nearness(standing(ATEN.sum.dim_IntList, sides, (x, [1])), 1, 2)
    assert found.nearer.why == "the operands hold infinities or NaN"
    assert found.distance.max_ulp is None


def test_an_infinite_result_of_finite_operands_is_said():
    def sides(x, axes):
        return x.sum(1) if len(x) == 1 else x.sum(1) * float("inf")

    case = standing(ATEN.sum.dim_IntList, sides, (large_and_small(), [1]))
    assert nearness(case, 1, 2).nearer.why == (
        "a result is infinite or NaN, and the exact value is finite"
    )


def test_integers_have_no_nearer_side():
    case = planted(lambda x: x.sum(1).long(), (normal(2, 3),))
    found = nearness(case, 1, 2)
    assert found.distance is None
    assert found.nearer.why == "no result holds floating-point numbers for each row"


def test_another_row_than_the_first_is_compared():
    def sides(x, axes):
        y = x.sum(1)
        return y if len(x) < 4 else y + torch.arange(len(x)) * y

    case = standing(ATEN.sum.dim_IntList, sides, (normal(4, 8), [1]))
    assert nearness(case, 3, 4).distance.differing == 0
    assert nearness(case, 3, 4, row=2).distance.differing == 1
