"""`lastbit infer` names what a kernel does to a reference, and never more than the bits say.

Kernels are written in plain numpy and ml_dtypes here, so that nothing of lastbit computes them.
"""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import lastbit
from lastbit.errors import InputError
from lastbit.inference.records import NoTruthError

BF16 = ml_dtypes.bfloat16
GATE = {"gate": lastbit.bf16(16, 64), "up": lastbit.bf16(16, 64)}
X = {"x": lastbit.f32(16, 64)}
QUICK = {"depth": 1}


def single(array):
    return np.asarray(array, np.float32)


def to_bf16(x):
    """Round binary64 to bfloat16 once; ml_dtypes goes through binary32, which rounds twice."""
    quantum = 2.0 ** (np.frexp(x)[1] - 8.0)
    return (np.rint(x / quantum) * quantum).astype(np.float32).astype(BF16)


def swiglu(gate, up):
    t = lastbit.silu(gate).to("bf16")
    return (t * up).to("bf16")


def swiglu_in_numpy(gate, up):
    """Round where the reference rounds; binary64 is wide enough for these inputs."""
    g = gate.astype(np.float64)
    t = to_bf16(g / (1 + np.exp(-g)))
    return (single(t) * single(up)).astype(BF16)  # binary32 holds the product


def fused_swiglu(gate, up):
    """Keep the activation in a register."""
    g = gate.astype(np.float64)
    return to_bf16(g / (1 + np.exp(-g)) * up.astype(np.float64))


def add_three(x, y, z):
    h = (x + y).to("bf16")
    return (h + z).to("bf16")


def add_three_in_one(x, y, z):
    """Add in binary64, where sums of three like these are exact, and round once."""
    return to_bf16(sum(v.astype(np.float64) for v in (x, y, z)))


THREE = {name: lastbit.bf16(16, 64) for name in "xyz"}


def codes_of(result):
    return [change.code for change in result.variants[0].changes]


# What is found.


def test_the_reference_itself_is_found_where_the_kernel_rounds_alike():
    r = lastbit.infer(swiglu, swiglu_in_numpy, **GATE, **QUICK)
    assert r.found, r
    assert r.variants[0].changes == ()
    assert r.exit_code == 0
    assert "the reference as it is written" in str(r)


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


def seq_matmul(x, w, size, partials=np.float32):
    """Sum left to right in pieces of a size, each stored in a format."""
    x, w = single(x), single(w)
    total = np.zeros((x.shape[0], w.shape[1]), np.float32)
    for start in range(0, x.shape[1], size):
        part = np.zeros_like(total)
        for i in range(start, min(start + size, x.shape[1])):
            part = part + x[:, i : i + 1] * w[i : i + 1]
        total = total + single(part.astype(partials))
    return total


def matmul(x, w):
    return lastbit.matmul(x, w, acc="f32", schedule="seq").to("f32")


MATMUL = {"x": lastbit.bf16(8, 96), "w": lastbit.bf16(96, 8)}


def test_a_split_of_a_sum_is_named_with_its_pieces():
    r = lastbit.infer(matmul, lambda x, w: seq_matmul(x, w, 32), **MATMUL, **QUICK)
    assert r.found, r
    assert codes_of(r) == ["RED201"]
    assert r.variants[0].changes[0].parameters["n"] == 3


def test_partial_sums_in_a_narrow_format_are_named():
    r = lastbit.infer(matmul, lambda x, w: seq_matmul(x, w, 32, BF16), **MATMUL, **QUICK)
    assert codes_of(r) == ["RED203"], r
    assert r.variants[0].changes[0].parameters["format"] == "bf16"


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


# What is not.


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


def test_the_reference_itself_lists_nothing_else():
    r = lastbit.infer(swiglu, swiglu_in_numpy, **GATE, **QUICK)
    assert "the same:" not in str(r)
