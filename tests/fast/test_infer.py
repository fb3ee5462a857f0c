"""`lastbit infer` names what a kernel does to a reference, and never more than the bits say.

Kernels are written in plain numpy and ml_dtypes here, so that nothing of lastbit computes them.
"""

import json
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import lastbit
from lastbit.cli import run
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


# What goes wrong.


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda gate, up: 1 / 0, "raised ZeroDivisionError: division by zero. It was given arrays"),
        (lambda gate, up: gate[:3], r"`result` with the shape \[3, 64\], and the reference with"),
        (lambda gate, up: (gate, up), "returns 2 results, and the reference 1. Return the same"),
        (lambda gate, up: "no", "returns a value of type str as `result`. Return an array"),
        (
            lambda gate, up: single(gate) / 3,
            r"returns `result` as f32 with .* at \[0, 1\], which is no bf16; the reference",
        ),
        (lambda gate, up: gate.astype(complex), "as elements of type complex128; the reference"),
        (lambda gate: gate, "takes `gate`, and the reference `gate`, `up`. Take the same inputs"),
        (lambda gate, up, more: gate, "takes `gate`, `up`, `more`, and the reference"),
        (lambda gate, up: {"a": gate, "b": up}, "returns `a`, `b`, and the reference `result`"),
        (lambda gate, up: gate.view(np.uint16).astype(np.uint32), "codes of bf16 have 16 bits"),
    ],
)
def test_a_kernel_that_does_not_fit_is_refused_with_the_reason(kernel, message):
    with pytest.raises(InputError, match=message):
        lastbit.infer(swiglu, kernel, **GATE)


def test_a_result_in_a_wider_type_counts_where_it_holds_the_same_values():
    r = lastbit.infer(swiglu, lambda gate, up: single(fused_swiglu(gate, up)), **GATE, **QUICK)
    assert codes_of(r) == ["FUS102"], r


def test_raw_words_count_as_codes():
    def kernel(gate, up):
        return fused_swiglu(gate, up).view(np.int16)

    r = lastbit.infer(swiglu, kernel, **GATE, **QUICK)
    assert codes_of(r) == ["FUS102"], r


def test_inputs_in_the_order_of_the_reference_will_do():
    r = lastbit.infer(swiglu, lambda a, b: fused_swiglu(a, b), **GATE, **QUICK)
    assert codes_of(r) == ["FUS102"], r


def test_a_kernel_cannot_change_the_inputs_of_the_reference():
    def kernel(gate, up):
        out = fused_swiglu(gate, up)
        gate[...] = 0
        return out

    r = lastbit.infer(swiglu, kernel, **GATE, **QUICK)
    assert codes_of(r) == ["FUS102"], r


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lastbit.infer(swiglu, **GATE), "one of a kernel and observed results is needed"),
        (
            lambda: lastbit.infer(swiglu, fused_swiglu, observed=1, **GATE),
            "one of a kernel and observed results is needed. Give either",
        ),
        (
            lambda: lastbit.infer(
                swiglu, fused_swiglu, gate=lastbit.bf16("M", 64), up=lastbit.bf16("M", 64)
            ),
            r"the size symbol 'M' has no number. A kernel runs at one size: --symbol M=64",
        ),
        (
            lambda: lastbit.infer(swiglu, fused_swiglu, sizes={"N": 3}, **GATE),
            "no input has the size symbol 'N'",
        ),
        (
            lambda: lastbit.infer(lambda gate, up: gate * up, fused_swiglu, **GATE),
            "is not rounded, so it has no bits",
        ),
        (
            lambda: lastbit.infer(swiglu, fused_swiglu, arrays="jax", **GATE),
            "unknown arrays 'jax'. Allowed: numpy, torch",
        ),
        (
            lambda: lastbit.infer(swiglu, observed=np.zeros((2, 2), BF16), **GATE),
            r"the result `result` has the shape \[2, 2\], not \[16, 64\]",
        ),
        (
            lambda: lastbit.infer(swiglu, observed={"other": 1}, **GATE),
            "the result `result` has no array",
        ),
        (
            lambda: lastbit.infer(swiglu, observed="nowhere.npy", **GATE),
            "nowhere.npy: cannot be read: No such file or directory",
        ),
        (
            lambda: lastbit.infer(swiglu, fused_swiglu, data=[1], **GATE),
            "the inputs are of type list. Give arrays by name of the input",
        ),
        (
            lambda: lastbit.infer("plan.toml:x", fused_swiglu, **GATE),
            "a plan states its own inputs",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


# Plans.

PLAN = """
schema = 1
[graph]
name = "gate"
symbols = { M = [1, 64], F = 64 }
text = \"\"\"
g: bf16[M, F]
u: bf16[M, F]
t: bf16 = silu(g)
z: bf16 = t * u
w: bf16 = z * 3
\"\"\"
"""


def test_a_value_of_a_plan_is_a_reference(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    r = lastbit.infer(f"{path}:z", lambda g, u: fused_swiglu(g, u), sizes={"M": 16}, **QUICK)
    assert codes_of(r) == ["FUS102"], r
    for text, message in (
        (f"{path}:q", "the plan has no value 'q'"),
        ("plan", "'plan' names no value of a plan. Write plan:NAME"),
    ):
        with pytest.raises(InputError, match=message):
            lastbit.infer(text, fused_swiglu)
    with pytest.raises(InputError, match="the plan has no size 'K'"):
        lastbit.infer(f"{path}:z", fused_swiglu, sizes={"K": 1})


# The command line.

FILE = """
import lastbit, ml_dtypes, numpy as np
def reference(gate, up):
    t = lastbit.silu(gate).to("bf16")
    return (t * up).to("bf16")
def kernel(gate, up):
    g = gate.astype(np.float64)
    x = g / (1 + np.exp(-g)) * up.astype(np.float64)
    quantum = 2.0 ** (np.frexp(x)[1] - 8.0)
    return (np.rint(x / quantum) * quantum).astype(np.float32).astype(ml_dtypes.bfloat16)
def other(gate, up):
    return gate
reference.inputs = {"gate": "bf16[16, 64]", "up": "bf16[16, 64]"}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.py").write_text(FILE)
    return tmp_path


def test_the_command_prints_what_was_found(file, capsys):
    assert run(["infer", "k.py:reference", "k.py:kernel", "--depth", "1"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("`kernel` against `reference`: ")
    assert "found     FUS102 drop-rounding at `t`: all " in text
    assert text.splitlines()[-1].startswith("found; ")
    assert run(["infer", "k.py:reference", "k.py:kernel", "--depth", "1"]) == 0
    assert capsys.readouterr().out == text


def test_the_command_prints_json(file, capsys):
    assert run(["infer", "k.py:reference", "k.py:other", "--depth", "0", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "lastbit.infer/1"
    assert document["status"] == "none"
    assert document["nearest"][0]["share"] < 0.1


def test_inputs_are_written_and_read_and_observed_results_compared(file, capsys):
    assert run(["infer", "k.py:reference", "--write-inputs", "in.npz"]) == 0
    assert capsys.readouterr().out == "in.npz: gate: bf16[16, 64], up: bf16[16, 64]\n"
    with np.load("in.npz") as data:
        out = fused_swiglu(*(data[name].view(BF16) for name in ("gate", "up")))
    out.view(np.uint16).tofile("out.raw")
    np.save("out.npy", out.view(np.uint16))
    for observed in ("out.raw", "out.npy"):
        command = ["infer", "k.py:reference", "--data", "in.npz", "--observed", observed]
        assert run([*command, "--depth", "1", "-q"]) in (0, 1)
        assert "variants tried, seed 0" in capsys.readouterr().out
    out.view(np.uint16)[:8].tofile("half.raw")
    assert run(["infer", "k.py:reference", "--observed", "half.raw"]) == 2
    assert "half.raw: holds 1024 bytes, and the result `result` takes 2048" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["k.py:reference"], "give KERNEL, or --observed FILE, or --write-inputs"),
        (["k.py:reference", "k.py:kernel", "--observed", "a"], "exclude each other"),
        (["k.py:reference", "k.py:kernel", "--symbol", "M"], "'M' gives no size; write M=64"),
        (["k.py:reference", "k.py:nothing"], "there is no function 'nothing'"),
        (["k.py:reference", "--write-inputs", "a.txt"], "a.txt: is no .npz file"),
        (["k.py:reference", "k.py:kernel", "--bogus"], "No such option"),
    ],
)
def test_bad_usage_is_exit_code_2(file, arguments, message, capsys):
    assert run(["infer", *arguments]) == 2
    assert message in capsys.readouterr().err
