"""`lastbit infer` names the tree and the format of a sum.

Kernels are written in plain numpy, or are numpy's and torch's own.
"""

import ml_dtypes
import numpy as np
import pytest
from numpy_kernels import codes_of, matmul, matmul_in_pieces, single

import lastbit
from lastbit.formats import format_of
from lastbit.graph import Input, Reduce, Round, apply, concat, take
from lastbit.inference import inputs as kinds
from lastbit.inference.exact_sums import add_up_exactly
from lastbit.inference.library_sums import backwards, numpy_sum, schedule_of, torch_sum
from lastbit.inference.sum_names import name_of
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.policy import Policy
from lastbit.round_array import decode_array
from lastbit.rounding import Rounding
from lastbit.schedule import parse_schedule, tree_hash

BF16 = ml_dtypes.bfloat16
LENGTHS = (1, 2, 5, 7, 8, 9, 33, 96, 100, 127, 128, 129, 257, 1000, 1024)


def wide(array):
    return np.asarray(array, np.float64)


def total(x):
    return lastbit.sum(x, axis=-1, acc="f32", schedule="seq").to("f32")


def added(pairs, x):
    """Add the columns of x in binary32 by nested pairs."""
    if pairs == ():
        return np.float32(0)
    return x[:, pairs] if isinstance(pairs, int) else added(pairs[0], x) + added(pairs[1], x)


def rows(k, seed=0):
    return single(np.random.default_rng(seed).standard_normal((64, k)))


# Trees of libraries.


@pytest.mark.parametrize("k", LENGTHS)
def test_the_order_of_numpy_gives_its_bits(k):
    x = rows(k)
    assert added(numpy_sum(k), x).tobytes() == x.sum(-1).tobytes()


@pytest.mark.parametrize("k", LENGTHS)
def test_the_order_of_torch_gives_its_bits(k):
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(rows(k))
    assert added(torch_sum(k), x.numpy()).tobytes() == torch.sum(x, -1).numpy().tobytes()
    narrow = x.bfloat16()
    found = torch.from_numpy(added(torch_sum(k, widened=True), narrow.float().numpy()))
    assert torch.equal(found.bfloat16(), torch.sum(narrow, -1))


def test_familiar_lengths_have_familiar_trees():
    numpys = "split(size=128, inner=lanes(8, inner=seq, outer=pairwise(1)), outer=pairwise(1))"
    torchs = "lanes(8, inner=lanes(4, inner=split(size=16)))"
    for order, text in (("numpy.sum", numpys), ("torch.sum", torchs)):
        for k in (128, 1024, 4096):
            built = tree_hash(schedule_of(order, k), k, "f32")
            assert built == tree_hash(parse_schedule(text), k, "f32")
    assert backwards(3) == ((((), 2), 1), 0)


# Kernels.


@pytest.mark.parametrize(
    ("kernel", "order"),
    [
        (lambda x: np.sum(x, -1, keepdims=True), "numpy.sum"),
        (lambda x: np.cumsum(x[:, ::-1], -1)[:, -1:], "last to first"),
    ],
)
def test_an_order_of_a_length_that_fits_no_schedule_is_named(kernel, order):
    r = lastbit.infer(total, kernel, x=lastbit.f32(16, 100), depth=1)
    assert r.found, r
    (change,) = r.variants[0].changes
    assert (change.name, change.parameters["order"]) == ("sum-as", order), r


def test_an_accumulator_that_begins_with_the_bias_is_named():
    def reference(x, w, b):
        c = lastbit.matmul(x, w, acc="f32", schedule="seq").to("bf16")
        return (c + b).to("bf16")

    def kernel(x, w, b):
        c = np.broadcast_to(single(b), (x.shape[0], w.shape[1])).copy()
        for i in range(x.shape[1]):
            c = c + single(x[:, i : i + 1]) * single(w[i : i + 1])
        return c.astype(BF16)

    specs = {"x": lastbit.bf16(16, 48), "w": lastbit.bf16(48, 16), "b": lastbit.bf16(16)}
    r = lastbit.infer(reference, kernel, **specs, depth=1)
    assert r.found, r
    assert [change.name for change in r.variants[0].changes] == ["begin-with"]


# Names of sums.

X = Input("x", format_of("f32"), shape=(4, 32))


def test_a_chain_that_goes_on_after_each_block_has_the_name_of_the_chain():
    acc = Rounding.of("f32")
    plain = Reduce("sum", X, 1, parse_schedule("seq"), acc)
    first = Reduce("sum", take(X, 1, 0, 16), 1, parse_schedule("seq"), acc)
    terms = concat((Round(first, acc), take(X, 1, 16, 32)), 1)
    second = Reduce("sum", terms, 1, parse_schedule("seq"), acc)
    assert name_of(second) == name_of(plain)
    assert name_of(Reduce("sum", X, 0, parse_schedule("seq"), acc)) != name_of(plain)
    stored = concat((Round(first, Rounding.of("bf16")), take(X, 1, 16, 32)), 1)
    assert name_of(Reduce("sum", stored, 1, parse_schedule("seq"), acc)) != name_of(plain)


def test_two_narrow_partial_sums_are_added_alike_in_a_wide_format():
    """Figueroa: 24 digits are at least 2 * 8 + 2, so the rounding to binary32 does not show."""
    acc, narrow = Rounding.of("f32"), Rounding.of("bf16")
    seq = parse_schedule("seq")
    halves = [Round(Reduce("sum", take(X, 1, i, i + 16), 1, seq, acc), narrow) for i in (0, 16)]
    split = Reduce("sum", X, 1, parse_schedule("split(2, partials=bf16)"), acc)
    assert name_of(Round(apply("add", *halves), narrow)) == name_of(Round(split, narrow))
    assert name_of(Round(apply("add", *halves), acc)) != name_of(Round(split, narrow))


# Exact sums.


@pytest.mark.parametrize(
    "kind", [kinds.DRAWN, kinds.MIDPOINTS, kinds.CANCELLING_WIDE, kinds.ABSORBED]
)
def test_exact_sums_are_those_of_the_array_domain(kind):
    values = decode_array(kinds.drawn([X], {}, 3, kind)["x"], X.format)
    for terms in (X, apply("mul", X, X)):
        for name in ("f32", "f64", "bf16"):
            node = Round(Reduce("sum", terms, 1), Rounding.of(name))
            domain, known = ArrayDomain({"x": values}), {}
            add_up_exactly(node, domain, known)
            (plain,) = evaluate([node], domain, Policy.BITS)
            assert values_of(known[node.key]).tobytes() == values_of(plain).tobytes()


# Products in pieces.


@pytest.mark.parametrize(
    ("partials", "code", "parameter"),
    [(np.float32, "RED201", ("n", 3)), (BF16, "RED203", ("format", "bf16"))],
)
def test_a_split_that_can_be_asked_is_named_with_its_pieces(partials, code, parameter):
    def kernel(x, w):
        return matmul_in_pieces(x, w, 32, partials)

    r = lastbit.infer(matmul, kernel, x=lastbit.bf16(8, 96), w=lastbit.bf16(96, 8), depth=1)
    assert codes_of(r) == [code], r
    assert r.found or partials is BF16, r
    name, value = parameter
    assert r.variants[0].changes[0].parameters[name] == value
