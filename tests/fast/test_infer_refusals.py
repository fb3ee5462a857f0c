"""`lastbit infer` refuses what it cannot ask, with the reason, and its command uses files.

Kernels are written in plain numpy and ml_dtypes here, so that nothing of lastbit computes them.
"""

import json

import ml_dtypes
import numpy as np
import pytest

import lastbit
from lastbit.cli import run
from lastbit.errors import InputError, LastbitError

BF16 = ml_dtypes.bfloat16
GATE = {"gate": lastbit.bf16(16, 64), "up": lastbit.bf16(16, 64)}
QUICK = {"depth": 1}


def single(array):
    return np.asarray(array, np.float32)


def swiglu(gate, up):
    t = lastbit.silu(gate).to("bf16")
    return (t * up).to("bf16")


def fused_swiglu(gate, up):
    """Keep the activation in a register; binary64 is wide enough for these inputs."""
    g = gate.astype(np.float64)
    x = g / (1 + np.exp(-g)) * up.astype(np.float64)
    quantum = 2.0 ** (np.frexp(x)[1] - 8.0)
    return (np.rint(x / quantum) * quantum).astype(np.float32).astype(BF16)


def codes_of(result):
    return [change.code for change in result.variants[0].changes]


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


def test_a_size_of_zero_is_refused():
    none = dict.fromkeys(GATE, "bf16[0, 64]")
    with pytest.raises(InputError, match=r"`gate` has 0 elements\. Choose sizes for 1 to"):
        lastbit.infer(swiglu, fused_swiglu, inputs=none)
    large = {name: lastbit.bf16(10**5, 10**6) for name in GATE}
    with pytest.raises(InputError, match="`gate` has 100,000,000,000 elements"):
        lastbit.infer(swiglu, fused_swiglu, **large)
    symbolic = {name: lastbit.bf16("M", 64) for name in GATE}
    with pytest.raises(InputError, match=r"the size 'M' is 0\. Write 1 or more: --symbol M=64"):
        lastbit.infer(swiglu, fused_swiglu, sizes={"M": 0}, **symbolic)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"machine": "foo"}, "machine 'foo': it is not known"),
        ({"device": "cuda:9"}, "numpy's arrays do not lie on 'cuda:9'. Only torch's do"),
    ],
)
def test_an_option_that_changes_nothing_is_refused(given, message):
    with pytest.raises(LastbitError, match=message):
        lastbit.infer(swiglu, fused_swiglu, **GATE, **QUICK, **given)


def test_a_machine_without_a_product_is_noted():
    r = lastbit.infer(swiglu, fused_swiglu, machine="hopper", **GATE, **QUICK)
    assert "the reference has no product that `hopper` could add" in str(r)


def test_a_device_that_torch_lacks_is_refused():
    pytest.importorskip("torch")
    with pytest.raises(InputError, match="no array can lie on 'cuda:99': "):
        lastbit.infer(swiglu, fused_swiglu, arrays="torch", device="cuda:99", **GATE)


def test_keyword_only_inputs_will_do():
    def kernel(*, up, gate):
        return fused_swiglu(gate, up)

    r = lastbit.infer(swiglu, kernel, **GATE, **QUICK)
    assert codes_of(r) == ["FUS102"], r


def test_a_kernel_that_names_no_library_gets_the_arrays_of_its_file(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.py").write_text(
        "import torch, numpy, lastbit\n"
        "def reference(x):\n    return lastbit.relu(x).to('bf16')\n"
        "reference.inputs = {'x': 'bf16[4, 8]'}\n"
        "def torches(x):\n    return x.clamp(min=0)\n"
        "def numpys(x):\n    return numpy.maximum(x, x.dtype.type(0))\n"
    )
    for kernel in ("torches", "numpys"):
        assert run(["infer", "k.py:reference", f"k.py:{kernel}", "--depth", "0", "-q"]) == 0


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


def test_a_file_of_inputs_has_each_of_them_by_its_name(file, capsys):
    assert run(["infer", "k.py:reference", "--write-inputs", "in.npz"]) == 0
    with np.load("in.npz") as data:
        found = dict(data)
    np.savez("less.npz", gate=found["gate"])
    np.savez("more.npz", other=found["gate"], **found)
    capsys.readouterr()
    command = ["infer", "k.py:reference", "k.py:kernel", "--depth", "1", "--data"]
    assert run([*command, "less.npz"]) == 2
    expected = "less.npz: has no tensor `up`. It has gate; each input is read by its name.\n"
    assert capsys.readouterr().err == expected
    assert run([*command, "more.npz"]) == 0
    assert "more.npz has `other`, which is no input" in capsys.readouterr().out


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
