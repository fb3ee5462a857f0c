"""`lastbit infer` says what it did not find, what it did not count, and what may be off.

Kernels are written in plain numpy and ml_dtypes here, so that nothing of lastbit computes them.
"""

from fractions import Fraction

import numpy as np
import pytest
from numpy_kernels import (
    BF16,
    GATE,
    QUICK,
    codes_of,
    fused_swiglu,
    single,
    swiglu,
    swiglu_in_numpy,
    to_bf16,
)

import lastbit
from lastbit.errors import InputError
from lastbit.inference.records import NoTruthError

X = {"x": lastbit.f32(16, 64)}

# What is not found.


def test_a_kernel_that_is_no_variant_gets_the_nearest_with_its_share_and_the_input():
    def kernel(gate, up):
        out = fused_swiglu(gate, up)
        out[3, 5] = 77
        return out

    r = lastbit.infer(swiglu, kernel, **GATE, **QUICK)
    assert r.status == "none"
    assert r.exit_code == 1
    assert r.variants == ()
    assert r.nearest.changes[0].code == "FUS102"
    assert (r.nearest.equal, r.nearest.total) == (3 * 1023, 3 * 1024)
    failure = r.nearest.failure
    assert failure.index == (3, 5)
    assert failure.kernel == "0x429a"
    gate = float.fromhex(failure.inputs["gate"])
    up = float.fromhex(failure.inputs["up"])
    value = to_bf16(np.array([gate / (1 + np.exp(-gate)) * up]))
    assert failure.variant == f"0x{int(value.view(np.uint16)[0]):04x}"
    assert "3,069 of 3,072 elements (99.9 %)" in str(r)


def test_what_data_does_not_tell_apart_is_ambiguous_and_an_input_is_offered(tmp_path):
    def reference(x, r):
        h = (x + r).to("bf16")
        return (h * 3).to("bf16")

    def kernel(x, r):
        return single(single(single(x) + single(r)) * np.float32(3)).astype(BF16)

    specs = {"x": lastbit.bf16(16, 256), "r": lastbit.bf16(16, 256)}
    rng = np.random.default_rng(0)
    data = {n: single(rng.standard_normal((16, 256))).astype(BF16) for n in specs}
    r = lastbit.infer(reference, observed=kernel(**data), data=data, **specs, **QUICK)
    assert r.ambiguous, r
    assert r.exit_code == 1
    assert len(r.variants) == 2
    apart = r.apart[0]
    assert apart.bits[0] != apart.bits[1]
    # The offered inputs tell the two apart: one is the exact sum, the other that in binary32.
    x, s = (r.inputs[name].view(BF16)[apart.index] for name in ("x", "r"))
    exact = (Fraction(float(x)) + Fraction(float(s))) * 3
    wide = Fraction(float(single(x) + single(s))) * 3
    assert exact != wide
    # Asked there, the kernel says which of them it is.
    told = lastbit.infer(reference, kernel, **specs, **QUICK)
    assert told.found, told


def test_a_result_is_neither_true_nor_false():
    r = lastbit.infer(swiglu, fused_swiglu, **GATE, depth=0)
    with pytest.raises(NoTruthError, match=r"Write assert r.found, r"):
        bool(r)


def test_a_kernel_that_is_not_deterministic_is_said_to_be():
    calls = []

    def kernel(gate, up):
        calls.append(1)
        out = fused_swiglu(gate, up)
        out[0, 0] = len(calls)
        return out

    r = lastbit.infer(swiglu, kernel, **GATE, **QUICK)
    assert r.status == "none"
    assert "the kernel is not deterministic: 1 of 1,024 elements of `result` differ" in str(r)


# Functions that are off.


def exp_in_steps(x):
    return lastbit.exp(x).to("f32")


def exp_off_by_one(x):
    out = np.exp(x.astype(np.float64)).astype(np.float32)
    out[::3] = np.nextafter(out[::3], np.float32(np.inf))
    return out


def test_functions_have_no_allowance_unless_it_is_asked_for():
    r = lastbit.infer(exp_in_steps, exp_off_by_one, **X, depth=0)
    assert r.status == "none"
    assert 0.6 < r.nearest.share < 0.7


def test_an_allowance_counts_what_lies_within_it_and_says_how_many():
    r = lastbit.infer(exp_in_steps, exp_off_by_one, **X, depth=0, ulp=1, ulp_format="f32")
    assert r.found, r
    assert r.variants[0].within > 1000
    assert "by the allowance alone" in str(r)


def test_an_allowance_does_not_excuse_what_is_no_function():
    def kernel(x):
        return np.nextafter(x, np.float32(np.inf))

    r = lastbit.infer(lambda x: (x * 1).to("f32"), kernel, **X, depth=0, ulp=4, ulp_format="f32")
    assert r.status == "none"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ulp": 1}, "an allowance has a number of ulp and their format"),
        ({"ulp_format": "f32"}, "an allowance has a number of ulp and their format"),
        ({"ulp": 0, "ulp_format": "f32"}, "an allowance of 0 ulp. Allowed: 1 and above"),
    ],
)
def test_half_an_allowance_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        lastbit.infer(exp_in_steps, exp_off_by_one, **X, **given)


# Special values.


def test_flushed_subnormals_show_only_where_special_values_are_asked_for():
    def reference(x, y):
        return (x * y).to("f32")

    def kernel(x, y):
        out = single(x * y)
        out[np.abs(out) < np.float32(2.0**-126)] *= np.float32(0)
        return out

    specs = {"x": lastbit.f32(32, 64), "y": lastbit.f32(32, 64)}
    plain = lastbit.infer(reference, kernel, **specs, **QUICK)
    assert plain.variants[0].changes == (), plain
    special = lastbit.infer(reference, kernel, special=True, **specs, **QUICK)
    assert codes_of(special) == ["DOM503"], special


# What a report says.


def test_what_was_not_counted_is_said_beside_what_was_found():
    def reference(g, u):
        return swiglu(g, u)

    def kernel(g, u):
        out = single(swiglu_in_numpy(g, u))
        return np.where(np.abs(out) < 2.0**-126, out * 0, out).astype(BF16)

    r = lastbit.infer(reference, kernel, g=lastbit.bf16(8, 256), u=lastbit.bf16(8, 256), **QUICK)
    assert r.found, r
    assert r.uncounted == ("far apart",)
    assert str(r).splitlines()[-1].startswith("found on ordinary values only; ")
    assert "--special looks for the reason" in str(r)


def test_no_hint_of_inexact_functions_is_given_where_elements_are_far_off():
    def kernel(gate, up):
        out = single(swiglu_in_numpy(gate, up))
        return np.where(np.abs(out) > 4, np.float32(100), out).astype(BF16)

    r = lastbit.infer(swiglu, kernel, **GATE, **QUICK)
    assert r.status == "none"
    assert "within some ulp" not in str(r)
