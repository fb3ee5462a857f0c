"""`lastbit infer` claims no tree, format or constant that the data did not tell from others.

Kernels are written in plain numpy, or are torch's own.
"""

import math

import numpy as np
import pytest

import lastbit


def single(array):
    return np.asarray(array, np.float32)


def wide(array):
    return np.asarray(array, np.float64)


def total(x):
    return lastbit.sum(x, axis=-1, acc="f32", schedule="seq").to("f32")


def test_torchs_sum_of_rows_is_named():
    torch = pytest.importorskip("torch")
    for k in (96, 512):
        r = lastbit.infer(
            total, lambda x: torch.sum(x, -1, keepdim=True), x=lastbit.f32(16, k), depth=1
        )
        assert r.found, r
        assert r.variants[0].changes[0].parameters["order"] == "torch.sum", r


@pytest.mark.parametrize(
    ("kernel", "name", "given"),
    [
        (lambda x: [[math.fsum(row)] for row in x.tolist()], "sum-exactly", {"format": "f64"}),
        (
            lambda x: np.sum(wide(x), -1, keepdims=True),
            "sum-as",
            {"acc": "f64", "order": "numpy.sum"},
        ),
        (
            lambda x: np.cumsum(wide(x)[:, ::-1], -1)[:, -1:],
            "sum-as",
            {"acc": "f64", "order": "last to first"},
        ),
        (
            lambda x: np.cumsum(wide(x), -1)[:, -1:],
            "sum-by",
            {"acc": "f64", "schedule": "seq"},
        ),
    ],
)
def test_sums_in_binary64_are_told_apart(kernel, name, given):
    r = lastbit.infer(total, lambda x: single(kernel(x)), x=lastbit.f32(16, 44), depth=1)
    assert r.found, r
    (change,) = r.variants[0].changes
    assert change.name == name, r
    assert given.items() <= change.parameters.items()


def test_a_sum_in_a_longer_format_than_any_that_is_tried_is_none_of_them():
    def kernel(x):
        return single(np.cumsum(np.asarray(x, np.longdouble), -1)[:, -1:])

    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("longdouble is binary64 here")
    r = lastbit.infer(total, kernel, x=lastbit.f32(16, 44), depth=1)
    assert r.status == "none", r


# Constants.


def norm(x):
    v = (lastbit.mean(x * x, axis=-1, acc="f32", schedule="seq") + 1e-6).to("f32")
    return (x * lastbit.rsqrt(v)).to("f32")


def norm_with(eps):
    def kernel(x):
        total = np.cumsum(x * x, -1, dtype=np.float32)[:, -1:]
        v = wide(single(wide(total) / 32 + eps))
        return single(wide(x) / np.sqrt(v))

    return kernel


NORM = {"x": lastbit.f32(16, 32)}


def changes_of(result):
    return {(c.name, c.parameters.get("value")) for c in result.variants[0].changes}


def test_a_constant_below_a_root_that_is_left_out_is_named():
    r = lastbit.infer(norm, norm_with(0), **NORM)
    assert r.found, r
    assert ("drop-constant", None) in changes_of(r), r


def test_another_constant_below_a_root_is_named():
    r = lastbit.infer(norm, norm_with(1e-5), **NORM)
    assert r.found, r
    assert ("other-constant", "1e-5") in changes_of(r), r


def test_a_constant_that_is_a_little_off_is_not_found_to_be_the_reference():
    r = lastbit.infer(norm, norm_with(1.01e-6), **NORM, depth=1)
    assert r.status == "none", r


def test_a_norm_of_torch_with_its_own_sum_is_found():
    torch = pytest.importorskip("torch")

    def reference(x, w):
        v = (lastbit.mean(x * x, axis=-1, acc="f32", schedule="seq") + 1e-6).to("f32")
        n = (x * lastbit.rsqrt(v)).to("bf16")
        return (n * w).to("bf16")

    def kernel(x, w):
        h = x.to(torch.float32)
        v = h.pow(2).mean(-1, keepdim=True)
        return w * (h * torch.rsqrt(v + 1e-6)).to(x.dtype)

    r = lastbit.infer(reference, kernel, x=lastbit.bf16(32, 256), w=lastbit.bf16(256))
    assert r.variants, r
    orders = {c.parameters.get("order") for one in r.variants for c in one.changes}
    assert orders - {None} == {"torch.sum"}, r


def test_a_softmax_whose_tree_is_not_tried_is_not_found():
    torch = pytest.importorskip("torch")

    def reference(x):
        e = lastbit.exp(x - lastbit.max(x, axis=-1)).to("f32")
        s = lastbit.sum(e, axis=-1, acc="f32", schedule="seq").to("f32")
        return (e / s).to("bf16")

    r = lastbit.infer(reference, lambda x: torch.softmax(x, -1), x=lastbit.bf16(32, 128), depth=1)
    assert not r.found, r
