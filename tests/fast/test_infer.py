"""`lastbit infer` names what a kernel does to a reference, and never more than the bits say.

Kernels are written in plain numpy and ml_dtypes here, so that nothing of lastbit computes them.
"""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from numpy_kernels import (
    BF16,
    GATE,
    QUICK,
    codes_of,
    fused_swiglu,
    matmul,
    matmul_in_pieces,
    single,
    swiglu,
    swiglu_in_numpy,
    to_bf16,
)

import lastbit


def add_three(x, y, z):
    h = (x + y).to("bf16")
    return (h + z).to("bf16")


def add_three_in_one(x, y, z):
    """Add in binary64, where sums of three like these are exact, and round once."""
    return to_bf16(sum(v.astype(np.float64) for v in (x, y, z)))


THREE = {name: lastbit.bf16(16, 64) for name in "xyz"}


def test_the_reference_itself_is_found_where_the_kernel_rounds_alike():
    r = lastbit.infer(swiglu, swiglu_in_numpy, **GATE, **QUICK)
    assert r.found, r
    assert r.variants[0].changes == ()
    assert r.exit_code == 0
    assert "the reference as it is written" in str(r)
    assert "the same:" not in str(r)  # nothing else is listed


def test_a_rounding_that_a_fused_kernel_lost_is_named():
    r = lastbit.infer(swiglu, fused_swiglu, **GATE, **QUICK)
    assert codes_of(r) == ["FUS102"], r
    assert r.variants[0].changes[0].at == ("t",)
    assert "`t` is no longer rounded to bf16" in str(r)


def test_a_residual_that_is_added_before_the_rounding_is_named():
    r = lastbit.infer(add_three, add_three_in_one, **THREE, **QUICK)
    assert r.found, r
    assert codes_of(r) == ["FUS102"]


def test_a_rounding_that_a_kernel_adds_is_named():
    def reference(x, y, z):
        return (x + y + z).to("bf16")

    def kernel(x, y, z):
        h = to_bf16(x.astype(np.float64) + y.astype(np.float64))
        return to_bf16(h.astype(np.float64) + z.astype(np.float64))

    r = lastbit.infer(reference, kernel, **THREE, **QUICK)
    assert r.found, r
    assert r.variants[0].changes[0].name == "add-rounding"
    assert "`(x + y)` inside `result` is rounded to bf16" in str(r)


def test_a_reciprocal_in_place_of_a_division_is_named():
    def reference(x, s):
        return (x / s).to("f32")

    def kernel(x, s):
        return x * (np.float32(1) / s)

    specs = {"x": lastbit.f32(16, 64), "s": lastbit.f32(16, 1).range(0.5, 4)}
    r = lastbit.infer(reference, kernel, **specs, **QUICK)
    assert codes_of(r) == ["FUS108"], r


def test_a_contraction_is_named():
    def reference(a, b, c):
        p = (a * b).to("f32")
        return (p + c).to("f32")

    def kernel(a, b, c):
        """Add exactly: the sum of a product of 48 digits fits longdouble only now and then."""
        out = [
            float(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)))
            for x, y, z in zip(a.ravel(), b.ravel(), c.ravel(), strict=True)
        ]
        return single(np.array(out).reshape(a.shape))

    specs = {name: lastbit.f32(4, 32) for name in "abc"}
    r = lastbit.infer(reference, kernel, **specs, **QUICK)
    found = {code for one in r.variants for change in one.changes for code in [change.code]}
    same = {c.code for one in r.variants for changes in one.same for c in changes}
    assert "FUS107" in found | same, r


def test_a_maximum_taken_before_the_rounding_is_named():
    def reference(x):
        t = x.to("bf16")
        s = (lastbit.amax(t, axis=-1) / 4).to("f32")
        return (t / s).to("e4m3fn", overflow="saturate")

    def kernel(x):
        t = single(x.astype(BF16))
        s = np.abs(x).max(axis=-1, keepdims=True) / np.float32(4)
        ratio = t.astype(np.float64) / s.astype(np.float64)
        return np.clip(ratio, -448, 448).astype(ml_dtypes.float8_e4m3fn)

    r = lastbit.infer(reference, kernel, x=lastbit.f32(32, 64), depth=1)
    assert codes_of(r) == ["QNT308"], r


def test_a_split_of_a_sum_is_named_with_its_pieces():
    rng = np.random.default_rng(0)
    shapes = {"x": (8, 96), "w": (96, 8)}
    data = {name: rng.standard_normal(shape).astype(BF16) for name, shape in shapes.items()}
    specs = {name: lastbit.bf16(*shape) for name, shape in shapes.items()}
    seen = matmul_in_pieces(**data, size=32)
    r = lastbit.infer(matmul, observed=seen, data=data, **specs, **QUICK)
    assert r.found, r
    assert codes_of(r) == ["RED201"]
    assert r.variants[0].changes[0].parameters["n"] == 3


def test_two_changes_together_are_found():
    def kernel(gate, up):
        """Round to binary32 on the way."""
        g = gate.astype(np.float64)
        return single(g / (1 + np.exp(-g)) * up.astype(np.float64)).astype(BF16)

    r = lastbit.infer(swiglu, kernel, gate=lastbit.bf16(32, 256), up=lastbit.bf16(32, 256))
    labels = {change.label for change in r.variants[0].changes}
    assert "FUS102 drop-rounding at `t`" in labels, r
    assert "CVT403 round-through at `result` (format=f32)" in labels


def test_arithmetic_in_steps_is_told_from_exact_arithmetic():
    def reference(x, y):
        return (x * y + 3).to("f32")

    def kernel(x, y):
        return single(single(x * y) + np.float32(3))

    r = lastbit.infer(reference, kernel, x=lastbit.f32(16, 64), y=lastbit.f32(16, 64), depth=1)
    names = {c.name for one in r.variants for c in one.changes}
    assert r.found, r
    assert names <= {"step-by-step", "add-rounding"}


def test_torch_computes_silu_in_steps():
    torch = pytest.importorskip("torch")

    def reference(x):
        return lastbit.silu(x).to("bf16")

    r = lastbit.infer(reference, torch.nn.functional.silu, x=lastbit.bf16(64, 256))
    assert not r.nearest.failure, r
    assert {"other-form", "step-by-step"} == {c.name for c in r.variants[0].changes}


# Constants.


def changes_of(result):
    return {(c.name, c.parameters.get("value")) for c in result.variants[0].changes}


def test_a_guard_that_is_left_out_is_named():
    def reference(x):
        s = (lastbit.maximum(lastbit.amax(x, axis=-1), 1e-12) / 448).to("f32")
        return (x / s).to("f32")

    def kernel(x):
        return x / (np.abs(x).max(-1, keepdims=True) / np.float32(448))

    r = lastbit.infer(reference, kernel, x=lastbit.f32(32, 64), depth=1)
    assert r.found, r
    assert changes_of(r) == {("drop-constant", None)}


# Forms across values.


def quantized(x):
    s = (lastbit.amax(x, axis=-1) / 448).to("f32")
    return (x / s).to("e4m3fn", overflow="saturate")


def test_a_scale_that_multiplies_is_named():
    def kernel(x):
        x = single(x)
        y = x * (np.float32(448) / np.abs(x).max(-1, keepdims=True))
        return np.clip(y, -448, 448).astype(ml_dtypes.float8_e4m3fn)

    r = lastbit.infer(quantized, kernel, x=lastbit.bf16(32, 64))
    assert r.found, r
    assert "`(x / s)` inside `result` is computed as `x * (b / a)`" in str(r)


def test_a_reciprocal_before_a_narrow_format_is_named():
    def reference(x, s):
        return (x / s).to("e4m3fn", overflow="saturate")

    def kernel(x, s):
        y = single(x) * (np.float32(1) / s)
        return np.clip(y, -448, 448).astype(ml_dtypes.float8_e4m3fn)

    specs = {"x": lastbit.bf16(32, 256), "s": lastbit.f32(32, 1).range(0.5, 4)}
    r = lastbit.infer(reference, kernel, **specs)
    assert r.found, r
    assert {"FUS108", "QNT310"} & set(codes_of(r)), r


def test_a_root_that_divides_is_named_where_the_reference_names_its_reciprocal():
    def reference(x, v):
        r = lastbit.rsqrt(v).to("f32")
        return (x * r).to("f32")

    specs = {"x": lastbit.f32(16, 64), "v": lastbit.f32(16, 1).range(0.5, 4)}
    r = lastbit.infer(reference, lambda x, v: x / np.sqrt(v), **specs)
    assert r.found, r
    assert "`(x * r)` inside `result` is computed as `x / sqrt(v)`" in str(r)
