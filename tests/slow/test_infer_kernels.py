"""`lastbit infer` on whole kernels: norms, products with an epilogue, and functions of torch.

The kernels are in plain numpy, or torch's own; products of matrix units are predicted ones.
"""

import importlib.util
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import lastbit
from lastbit.predicting import predict_matmul

BF16 = ml_dtypes.bfloat16
EXAMPLE = Path(__file__).parents[2] / "examples/infer_norm.py"


def single(array):
    return np.asarray(array, np.float32)


def labels(explained):
    return {change.label for change in explained.changes}


def common(result):
    """Return what every variant that gives all bits has."""
    return set.intersection(*(labels(one) for one in result.variants))


def test_the_example_names_the_rounding_that_the_fused_norm_lost():
    spec = importlib.util.spec_from_file_location("infer_norm", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    r = lastbit.infer(example.reference, example.kernel)
    assert r.found, r
    numpys = "split(size=128, inner=lanes(8, inner=seq, outer=pairwise(1)), outer=pairwise(1))"
    assert common(r) == {
        "other-form at `n`",
        "FUS102 drop-rounding at `h`",
        f"RED209 change-schedule at `v` (schedule={numpys})",  # 8 lanes of 128 terms, then halves
        "step-by-step",
    }, r


def norm(x, w):
    """Round the normalised row before it meets the weight, as Llama does."""
    v = lastbit.mean(x * x, axis=-1, acc="f32", schedule="seq").to("f32")
    n = (x * lastbit.rsqrt(v)).to("bf16")
    return (n * w).to("bf16")


def norm_in_one(x, w):
    """Weight first and round once, as Gemma does; the sum left to right, the rest in binary64."""
    v = np.zeros((x.shape[0], 1), np.float32)
    for i in range(x.shape[1]):
        v = v + single(x[:, i : i + 1]) * single(x[:, i : i + 1])
    v = (v / np.float32(x.shape[1])).astype(np.float64)
    y = x.astype(np.float64) / np.sqrt(v) * w.astype(np.float64)
    quantum = 2.0 ** (np.frexp(y)[1] - 8.0)
    return single(np.rint(y / quantum) * quantum).astype(BF16)


def test_the_two_orders_of_a_norm_are_told_apart():
    r = lastbit.infer(norm, norm_in_one, x=lastbit.bf16(32, 64), w=lastbit.bf16(64), depth=1)
    first = r.variants[0]
    assert labels(first) == {"FUS102 drop-rounding at `n`"}, r
    same = {change.label for changes in first.same for change in changes}
    assert "FUS114 move-norm-weight at `result`" in same
    # What else gives all bits holds the row in binary32, which these elements do not show.
    others = {change.code for one in r.variants[1:] for change in one.changes}
    assert others <= {"FUS116"}, r


def linear(x, w, r):
    g = lastbit.matmul(x, w, acc="f32", schedule="fused(16, hopper)").to("bf16")
    return (g + r).to("bf16")


def hopper_linear(schedule):
    def kernel(x, w, r):
        acc = predict_matmul(x, w, "hopper", "bf16", schedule).view(np.float32)
        return single(acc + single(r)).astype(BF16)

    return kernel


LINEAR = {"x": lastbit.bf16(16, 256), "w": lastbit.bf16(256, 64), "r": lastbit.bf16(16, 64)}


def test_a_residual_in_the_epilogue_of_a_matrix_unit_is_named():
    r = lastbit.infer(linear, hopper_linear("fused(16, hopper)"), **LINEAR)
    assert r.variants, r
    assert all(
        {"FUS102", "FUS106", "FUS116", "FUS124"} & {c.code for c in one.changes}
        for one in r.variants
    ), r


def product(x, w):
    return lastbit.matmul(x, w, acc="f32", schedule="seq").to("f32")


def test_the_schedule_of_a_matrix_unit_is_found_where_a_machine_is_named():
    schedule = "split(2, tile=64, inner=fused(16, hopper), outer=seq)"

    def kernel(x, w):
        return predict_matmul(x, w, "hopper", "bf16", schedule)

    specs = {"x": lastbit.bf16(8, 320), "w": lastbit.bf16(320, 32)}  # pieces of 192 and 128
    r = lastbit.infer(product, kernel, machine="hopper", depth=1, **specs)
    assert r.found, r
    ways = [r.variants[0].changes, *r.variants[0].same]
    # The first of its two pieces has 192 terms, so a promotion every 192 is the same tree.
    assert schedule in {change.parameters["schedule"] for (change,) in ways}


def test_torch_rounds_a_norm_once():
    torch = pytest.importorskip("torch")

    def reference(x, w):
        v = (lastbit.mean(x * x, axis=-1, acc="f32", schedule="seq") + 1e-6).to("f32")
        n = (x * lastbit.rsqrt(v)).to("bf16")
        return (n * w).to("bf16")

    def kernel(x, w):
        return torch.nn.functional.rms_norm(x, (x.shape[-1],), w, eps=1e-6)

    r = lastbit.infer(reference, kernel, x=lastbit.bf16(32, 512), w=lastbit.bf16(512))
    assert "FUS102 drop-rounding at `n`" in labels(r.nearest), r
    assert r.nearest.share > 0.999
