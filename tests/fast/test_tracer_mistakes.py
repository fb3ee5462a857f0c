"""A mistake in a function is named with its line and column, and with what to write instead."""

from __future__ import annotations

import math

import numpy as np
import pytest
from recorded import program

import lastbit
from lastbit.errors import InputError

NO_NUMBER = "and a Tensor holds none while a function is traced"
MISTAKES = {
    "np.exp": (
        lambda x: np.exp(x),
        "numpy.exp works on numpy's own arrays, and a Tensor of lastbit is none. "
        "Write lastbit.exp(...).",
    ),
    "np.where": (
        lambda x: np.where(x, x, 0),
        "numpy.where works on numpy's own arrays, and a Tensor of lastbit is none. "
        "Write lastbit.select(condition, a, b).",
    ),
    "np.add.reduce": (
        lambda x: np.add.reduce(x),
        "numpy.add.reduce works on numpy's own arrays, and a Tensor of lastbit is none. "
        "Write it with the operators of lastbit; the README lists them.",
    ),
    "np.asarray": (
        lambda x: np.asarray(x),
        "numpy asks for the numbers of a Tensor. Write lastbit's own operators.",
    ),
    "array": (
        lambda x: x * np.ones((2, 4)),
        "an array of shape [2, 4] takes part. "
        "Give it as an input: lastbit.check(..., w=lastbit.f32(2, 4)).",
    ),
    "math.exp": (
        lambda x: math.exp(x),
        f"float(x) needs a number, {NO_NUMBER}. "
        'Write lastbit.exp(x) in place of math.exp(x), and x.to("f32") to round.',
    ),
    "int": (
        lambda x: int(x),
        f"int(x) needs a number, {NO_NUMBER}. "
        'Write lastbit.exp(x) in place of math.exp(x), and x.to("f32") to round.',
    ),
    "range": (
        lambda x: range(x),
        f"an integer needs a number, {NO_NUMBER}. "
        'Write lastbit.exp(x) in place of math.exp(x), and x.to("f32") to round.',
    ),
    "complex": (
        lambda x: complex(x),
        f"complex(x) needs a number, {NO_NUMBER}. "
        'Write lastbit.exp(x) in place of math.exp(x), and x.to("f32") to round.',
    ),
    "if": (
        lambda x: x if x > 0 else -x,
        f"a condition needs a number, {NO_NUMBER}. Write lastbit.select(x > 0, a, b) for both "
        "cases, or decide by a plain Python value.",
    ),
    "for": (
        lambda x: list(x),
        "a Tensor is iterated over. Write operators on whole axes, or slices: x[i : i + 1] in a "
        "loop over numbers.",
    ),
    "in": (lambda x: 1 in x, "`in` needs numbers. Write lastbit.equal(x, y).max(axis=-1)."),
    "set": (
        lambda x: x.__setitem__(0, 1),
        "an element of a Tensor is assigned, and values do not change. "
        "Write lastbit.concat(a, b, axis=0), or lastbit.select(condition, a, b).",
    ),
    "index": (
        lambda x: x[0],
        "an axis is indexed by 0. Write a slice, x[i : i + 1]; the axis stays.",
    ),
    "mask": (
        lambda x: x[x > 0],
        "a Tensor is an index. Write lastbit.select(condition, a, b).",
    ),
    "None": (
        lambda x: x[:, None],
        "an axis is added by None. Write x.reshape(...) with the size 1.",
    ),
    "bound": (
        lambda x: x[:1.5],
        '1.5 is no integer. Write a number, a size x.shape[-1], or a text "M // 2".',
    ),
    "bad size": (
        lambda x: x[:"M +"],
        "expression 'M +': this is no expression. "
        "Allowed: integers, symbols, + - * / // % **, min, max, ceil and floor.",
    ),
    ".float()": (
        lambda x: x.float(),
        "a Tensor has no attribute 'float'. Write x.to(\"f32\").",
    ),
    ".silo()": (
        lambda x: x.silo(),
        "a Tensor has no attribute 'silo'. Did you mean 'silu'?",
    ),
    "arity": (lambda x: lastbit.exp(x, x), "exp takes 1 value, given 2."),
    "no values": (lambda x: lastbit.concat(), "concat takes at least 1 value, given 0."),
    "keepdims": (
        lambda x: x.sum(keepdims=True),
        "sum has no argument 'keepdims'. A reduction keeps its axis, with size 1; leave it out.",
    ),
    "keyword": (
        lambda x: x.sum(axes=1),
        "sum has no argument 'axes'. Did you mean 'axis'?",
    ),
    "no keyword": (
        lambda x: x.exp(axis=1),
        "exp has no argument 'axis'. It takes none.",
    ),
    "acc alone": (
        lambda x: x.sum(acc="f32"),
        '`acc` needs a schedule beside it. Write acc="f32", schedule="seq".',
    ),
    "schedule alone": (
        lambda x: x.sum(schedule="seq"),
        '`schedule` needs an `acc` beside it. Write acc="f32", schedule="seq".',
    ),
    "acc": (
        lambda x: x.sum(acc="f31", schedule="seq"),
        "unknown format 'f31'. Did you mean 'f32'?",
    ),
    "schedule": (
        lambda x: x.sum(acc="f32", schedule="sek"),
        "schedule `sek`: 'sek' is no schedule. Did you mean 'seq'?",
    ),
    "format": (lambda x: x.to("bf61"), "unknown format 'bf61'. Did you mean 'bf16'?"),
    "overflow": (
        lambda x: x.to("e4m3fn", overflow="inf"),
        "float8_e4m3fn holds no inf; its overflow may be `nan` or `saturate`.",
    ),
    "mode": (lambda x: x.to("f16", mode="up"), "unknown mode 'up'. Did you mean 'rup'?"),
    "root": (lambda x: x**0.5, "a value is raised to the power 0.5. Write lastbit.sqrt(x)."),
    "inverse root": (
        lambda x: x**-0.5,
        "a value is raised to the power -0.5. Write lastbit.rsqrt(x).",
    ),
    "power": (
        lambda x: x**9,
        "a value is raised to the power 9. Allowed: 1 to 8; else write "
        "lastbit.exp(y * lastbit.log(x)).",
    ),
    "base": (
        lambda x: 3**x,
        "3 is raised to a power. Write lastbit.exp2(x), or lastbit.exp(x).",
    ),
    "floor": (lambda x: x // 2, "`//` is no operator of lastbit. Write lastbit.floor(x / y)."),
    "mod": (
        lambda x: x % 2,
        "`%` is no operator of lastbit. Write x - y * lastbit.floor(x / y).",
    ),
    "round": (
        lambda x: round(x),
        'round(x) means decimal digits. Write x.to("bf16"), or lastbit.floor(x + 0.5).',
    ),
    "text": (
        lambda x: x * "2",
        "a str takes part in arithmetic with a Tensor. "
        "Only Tensors and numbers can; give other arrays as inputs.",
    ),
    "bool": (lambda x: x * True, "True is no number. Write 1 or 0."),
    "huge": (lambda x: x * 10**400, "a number has more than 1000 bits. Use smaller numbers."),
    "name": (lambda x: x.named("2x"), "'2x' cannot name a value. Write a word such as \"t\"."),
    "no tensor": (
        lambda x: lastbit.named(2, "t"),
        '2 is no Tensor. Write lastbit.named(x, "t").',
    ),
    "opaque": (
        lambda x: lastbit.opaque("a b", x),
        'opaque needs a name and values. Write lastbit.opaque("name", x).',
    ),
    "symbol": (
        lambda k: range(k.shape[0]),
        "an integer needs a number, and the size `M` has none while a function is traced. "
        "Give the axis a number, or use the size in slices, shapes and arithmetic only.",
    ),
    "symbol > 1": (
        lambda k: k.shape[0] > 1,
        "a comparison needs a number, and the size `M` has none while a function is traced. "
        "Give the axis a number, or use the size in slices, shapes and arithmetic only.",
    ),
    "size > text": (
        lambda k: k.shape[1] > "a",
        "a size is compared with 'a'. Compare it with a number.",
    ),
    "round without format": (
        lambda x: lastbit.round(x),
        'a rounding needs a format. Write x.to("bf16"), or lastbit.round(x, "bf16").',
    ),
    "to without format": (
        lambda x: x.to(),
        'a rounding needs a format. Write x.to("bf16"), or lastbit.round(x, "bf16").',
    ),
    "-1 twice": (lambda x: x.reshape(-1, -1), "reshape is given -1 twice. Leave one size open."),
    "unknown shape": (
        lambda x, k: (x * k).shape,
        "mul of the shapes [2, 4] and [M, 64] has no known shape. Give equal sizes one name.",
    ),
    "strided shape": (
        lambda x: x[::2].shape,
        "the shape of this slice cannot be told. Do without its shape.",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named_with_its_line_and_what_to_write(case: str) -> None:
    function, expected = MISTAKES[case]
    with pytest.raises(InputError) as caught:
        program(function)
    (problem,) = caught.value.problems
    first, line = str(problem).split("\n")
    assert first.partition(": ")[2] == expected
    assert problem.place.file.endswith("test_tracer_mistakes.py")
    assert problem.place.column > 1
    assert line.strip() == problem.place.source.strip()
    assert problem.place.line - function.__code__.co_firstlineno in (0, 1)


def test_a_name_that_is_no_word_of_the_language_is_no_attribute_of_the_package() -> None:
    with pytest.raises(AttributeError, match=r"^module 'lastbit' has no attribute 'bf61'$"):
        lastbit.bf61  # noqa: B018
