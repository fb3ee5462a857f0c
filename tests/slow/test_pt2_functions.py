"""`lastbit check F.py:before F.py:after` takes functions of torch in the forms that they have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pt2_models import run  # noqa: E402

FILE = """\
import torch

X = torch.arange(32.0).reshape(4, 8).bfloat16() / 7
W = torch.arange(8.0).bfloat16() / 5


def by_name(x, *, w):
    return x * w + x


def by_name_wide(x, *, w):
    return (x * w.float() + x).to(x.dtype)


by_name.inputs = {"x": X, "w": W}


def of_pair(pair):
    a, b = pair
    return a + b, {"product": a * b}


def of_pair_scaled(pair):
    a, b = pair
    return a + b, {"product": a * b * 3}


of_pair.inputs = ((X, X + 1),)


def keys(x):
    return {"y": x + 1, "z": x * 2}


def other_keys(x):
    return {"z": x * 2, "y": x + 1}


keys.inputs = (X,)


def scaled(by):
    def function(x):
        return x * by

    function.inputs = (X,)
    return function


closed, same, other = scaled(W), scaled(W.clone()), scaled(W + 1)


def bare(x):
    return torch.relu(x)


def branch(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def count(x):
    return x * int(x.sum().item())


def misfit(x):
    y = x + 1
    return y @ x


branch.inputs = count.inputs = misfit.inputs = (X,)


class Layer(torch.nn.Module):
    inputs = (X.float(),)

    def __init__(self, number=0.0):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        with torch.no_grad():
            self.linear.bias[3] = number

    def forward(self, x):
        return self.norm(self.linear(x))


class Evaluated(Layer):
    def __init__(self):
        super().__init__()
        self.eval()


class Shifted(Layer):
    def __init__(self):
        super().__init__(1.0)


class ShiftedEvaluated(Shifted):
    def __init__(self):
        super().__init__()
        self.eval()


def less(a, b):
    return a - b


def less_swapped(b, a):
    return a - b


def less_renamed(p, q):
    return p - q


def less_inside(x, sub):
    return x - sub


less.inputs = (X, X * 3)


def named(a, b):
    return a - b


def named_swapped(b, a):
    return a - b


named.inputs = {"a": X, "b": X * 3}


def flat(x):
    return (x * 2).reshape(-1)


def framed(x):
    return (x * 2)[None]


def doubled(x):
    return x * 2


def double(x):
    return (x * 2).double()


def truth(x):
    return x > 1


def byte(x):
    return (x > 1).to(torch.uint8)


def norm(x):
    return x.norm(2, -1)


def norm_written(x):
    return (x * x).sum(-1).sqrt()


def narrowed(x):
    return x.half()


def narrowed_twice(x):
    return x.float().half()


def norm_of_two(x):
    return x.norm(2, -1)


def norm_dot(x):
    return (x[:, None] @ x[:, :, None]).sqrt()[:, 0, 0]


norm_of_two.inputs = (torch.arange(600.0).reshape(300, 2).sin(),)
norm.inputs = (torch.arange(600.0).reshape(200, 3).sin(),)
narrowed.inputs = (X.double(),)

doubled.inputs = truth.inputs = (X,)
"""


Check = Callable[..., tuple[int, str]]


@pytest.fixture
def check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Check:
    """Return a function that runs `lastbit check` beside the file, with all that it prints."""
    (tmp_path / "f.py").write_text(FILE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: run(capsys, "check", *arguments)


EQUAL = "the two are one program: bitwise"
VERDICTS = {
    "by name only": ("by_name", "by_name_wide", 0, "decided 1 of 1 step; 1 rounding;"),
    "tuples and mappings": ("of_pair", "of_pair_scaled", 1, "decided 1 of 1 step; 1 math;"),
    "equal tensors of closures": ("closed", "same", 0, EQUAL),
    "other tensors of closures": ("closed", "other", 1, "decided 1 of 1 step; 1 math;"),
    "a module in training": ("Layer", "Layer", 0, "aten.batch_norm is known by its name only"),
    "equal weights": ("Evaluated", "Evaluated", 0, EQUAL),
    "other weights": ("Layer", "Shifted", 1, "the weight `linear.bias` differs in 1 of 8 elements"),
    "a norm and its formula": ("norm", "norm_written", 0, "decided 1 of 1 step; 1 rounding;"),
    "a norm of two": ("norm_of_two", "norm_written", 0, "decided 1 of 1 step; 1 rounding;"),
    "a norm and a product": ("norm", "norm_dot", 0, "decided 1 of 1 step; 1 reassociation;"),
    "a norm with itself": ("norm", "norm", 0, EQUAL),
    "a cast by float32": ("narrowed", "narrowed_twice", 0, "decided 1 of 1 step; 1 bitwise;"),
    "swapped names": ("less", "less_swapped", 1, "decided 1 of 1 step; 1 math;"),
    "other names": ("less", "less_renamed", 0, EQUAL),
    "names of values inside": ("less", "less_inside", 0, EQUAL),
    "swapped names, given by name": ("named", "named_swapped", 0, EQUAL),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_a_function_of_any_form_is_checked(case: str, check: Check) -> None:
    first, second, code, text = VERDICTS[case]
    found = check(f"f.py:{first}", f"f.py:{second}")
    assert found[0] == code
    assert text in found[1]


@pytest.mark.parametrize("size", [2, 3])
def test_a_norm_has_other_bits_than_its_formula_in_torch_too(size: int) -> None:
    x = torch.arange(600.0).reshape(-1, size).sin()
    assert not torch.equal(x.norm(2, -1), (x * x).sum(-1).sqrt())


def test_weights_are_left_out_on_demand(check: Check) -> None:
    arguments = ("f.py:Evaluated", "f.py:ShiftedEvaluated", "--no-weights")
    code, text = check(*arguments)
    assert code == 0
    assert "7 weights are not compared; --weights compares them" in text
    assert f"{EQUAL}, with equal weights" in text


def test_a_program_with_operators_known_by_name_is_one_where_they_repeat(check: Check) -> None:
    code, text = check("f.py:Layer", "f.py:Layer")
    assert code == 0
    assert f"{EQUAL}, where operators known by name only give equal results on equal inputs" in text


ERRORS = {
    "no inputs": (
        "bare",
        "bare",
        "f.py:bare has no inputs. Give it an attribute `inputs`, a tuple of tensors, or write "
        '--input "x=bf16[64, 64]".\n',
    ),
    "another shape": (
        "doubled",
        "flat",
        "f.py:flat: the result `reshape` has the shape [32], and [4, 8] in f.py:doubled. "
        "Return the same shapes, or reshape one.\n",
    ),
    "more axes": (
        "doubled",
        "framed",
        "f.py:framed: the result `unsqueeze` has the shape [1, 4, 8], and [4, 8] in f.py:doubled. "
        "Return the same shapes, or reshape one.\n",
    ),
    "another type": (
        "doubled",
        "double",
        "f.py:double: the result `to` is f64, and bf16 in f.py:doubled. "
        "Return the same types, or cast both to one.\n",
    ),
    "another type in one format": (
        "truth",
        "byte",
        "f.py:byte: the result `to` is u8, and bool in f.py:truth. "
        "Return the same types, or cast both to one.\n",
    ),
    "other order of keys": (
        "keys",
        "other_keys",
        "f.py:other_keys returns ['z'], ['y'], and f.py:keys ['y'], ['z']. "
        "Return the same keys in the same order.\n",
    ),
    "a branch on values": (
        "branch",
        "branch",
        "f.py:58: f.py:branch cannot be exported: what runs depends on the values of a tensor: "
        "`if x.sum() > 0:`. Compute both ways and choose with torch.where, or check it with "
        "--compile.\n",
    ),
    "a number of values": (
        "count",
        "count",
        "f.py:64: f.py:count cannot be exported: what runs depends on the values of a tensor: "
        "`return x * int(x.sum().item())`. Compute both ways and choose with torch.where, or "
        "check it with --compile.\n",
    ),
    "shapes that do not fit": (
        "misfit",
        "misfit",
        "f.py:69: f.py:misfit cannot be exported: a and b must have same reduction dim, but got "
        "[4, 8] X [4, 8]. Check it with --compile, or take what torch.export cannot follow out "
        "of it.\n",
    ),
    "training and evaluation": (
        "Layer",
        "Evaluated",
        "f.py:Evaluated: it writes to none of its inputs, and f.py:Layer to `norm.running_mean`, "
        "`norm.running_var`, `norm.num_batches_tracked`. "
        "Give two models that write to the same.\n",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_a_function_that_cannot_be_checked_is_one_error_with_its_line(
    case: str, check: Check
) -> None:
    first, second, text = ERRORS[case]
    assert check(f"f.py:{first}", f"f.py:{second}") == (2, text)


def test_weights_of_modules_are_compared_when_asked_for(check: Check) -> None:
    code, text = check("f.py:Layer", "f.py:Shifted", "--weights")
    assert code == 1
    assert "f.py:Shifted  difference at `p_linear_bias`" in text
    assert "`linear.bias` differs in 1 of 8 elements, first at [3]: 0x00000000 -> 0x3f8000" in text


def test_what_goes_by_name_only_is_not_compiled(check: Check) -> None:
    code, text = check("f.py:by_name", "--compile")
    assert (code, text) == (
        2,
        "f.py:by_name takes `w` by name only. Make it a parameter that can be given by position.\n",
    )


def test_weights_are_for_models_and_functions_of_torch(check: Check, tmp_path: Path) -> None:
    (tmp_path / "g.py").write_text("def f(x):\n    return x\n", encoding="utf-8")
    code, text = check("g.py:f", "g.py:f", "--weights")
    assert code == 2
    assert "--weights is for .pt2 files, and for functions of torch." in " ".join(text.split())
