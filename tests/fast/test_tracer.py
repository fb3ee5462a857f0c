"""A function of recording values means what its text form would; nothing rounds by itself."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import lastbit
from lastbit.errors import InputError
from lastbit.formats import FORMATS
from lastbit.graph import Const, Map, Node
from lastbit.ops import COMPOSITES, ELEMENTWISE, NAMED_REALS, OPERATORS
from lastbit.printing import print_program
from lastbit.text import Program, parse_program
from lastbit.tracing.calls import Side, as_spec, recorded_inputs, results_of
from lastbit.tracing.op import keywords_of
from lastbit.tracing.program import Traced, programs_of
from lastbit.tracing.sizes import Sizes

SPECS = {"x": "bf16[2, 4]", "w": "f32[4, 3]", "s": "f16[2, 1]", "k": "f32[M, 64]"}
HEAD = "".join(f"{name}: {spec}\n" for name, spec in SPECS.items())
SIZES = {"M": 5}


def program(function, fixed=None) -> Program:
    """Return the program that a function of some of x, w, s and k records."""
    specs = {name: as_spec(name, given) for name, given in SPECS.items()}
    table = Sizes(fixed or {})
    side = Side("before", function)
    inputs = recorded_inputs(specs, table.fixed)
    (result,) = results_of(side, inputs, table).values()
    traced = Traced(tuple(inputs.values()), {"y": result})
    return programs_of(traced, traced, table)[0]


def node(function) -> Node:
    return program(function).bind(SIZES).values["y"]


def text(line: str) -> Node:
    """Return the node of `y` in a program in text form."""
    return parse_program(f"{HEAD}{line}\n").bind(SIZES).values["y"]


def statements(function) -> list[str]:
    lines = print_program(program(function)).splitlines()
    return lines[len(SPECS) : -1]


# Operators: every row of the table, as a function and as a method

ARGUMENTS = {
    "matmul": ("x", "w"),
    "rms_norm": ("x", "s", "1"),
    "reshape": ("x", "8", "1"),
    "broadcast": ("s", "3", "2", "4"),
    "transpose": ("x", "1", "0"),
    "concat": ("x", "s", "x"),
    "size": ("3",),
    "round": ("x", "e4m3fn"),
}


def arguments(name: str) -> tuple[str, ...]:
    """Return arguments for an operator; one that is not listed takes x, s, x ..."""
    if name in ARGUMENTS:
        return ARGUMENTS[name]
    arity = ELEMENTWISE[name][0] if name in ELEMENTWISE else COMPOSITES[name].arity
    given = ("x", "s", "x", "s", "s")[: arity or 1]
    return (*given, "2") if name in COMPOSITES and COMPOSITES[name].integers else given


def called(name: str, keywords=None, method=False):
    """Return a function that calls an operator on what `arguments` names."""

    def function(x, w, s, k):
        values = {"x": x, "w": w, "s": s}
        given = [values.get(arg, arg) for arg in arguments(name)]
        given = [int(arg) if str(arg).isdigit() else arg for arg in given]
        if method:
            return getattr(given[0], name)(*given[1:], **(keywords or {}))
        return getattr(lastbit, name)(*given, **(keywords or {}))

    return function


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_that_of_the_text_form(name: str) -> None:
    line = f"y: real = {name}({', '.join(arguments(name))})"
    assert node(called(name)).key == text(line).key
    assert getattr(lastbit, name).__doc__
    assert name in dir(lastbit)


@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "size"])
def test_an_operator_is_a_method_too(name: str) -> None:
    assert node(called(name, method=True)).key == node(called(name)).key


@pytest.mark.parametrize(
    ("name", "word"),
    [(n, w) for n in COMPOSITES for w in keywords_of(n) if w not in ("acc", "schedule")],
)
def test_a_keyword_of_an_operator_is_that_of_the_text_form(name: str, word: str) -> None:
    line = f"y: real = {name}({', '.join(arguments(name))}, {word}=1)"
    made = node(called(name, {word: 1}))
    assert made.key == text(line).key


@pytest.mark.parametrize("name", [n for n in COMPOSITES if "acc" in keywords_of(n)])
def test_a_sum_takes_an_accumulator_and_a_tree(name: str) -> None:
    made = node(called(name, {"acc": "f16", "schedule": "split(2)"}))
    line = f"y: real = {name}({', '.join(arguments(name))})"
    assert made.key == text(f"{line} acc f16 split(2)").key
    assert made.key != text(line).key


def test_the_operators_with_a_sum_are_found_in_the_table() -> None:
    found = {name for name in COMPOSITES if "acc" in keywords_of(name)}
    assert {"sum", "mean", "matmul", "softmax", "rms_norm"} <= found
    assert not found & {"max", "min", "amax", "reshape", "concat", "topk"}


@pytest.mark.parametrize("short", FORMATS)
def test_every_format_makes_inputs_and_rounds(short: str) -> None:
    made = getattr(lastbit, short)("M", 64)
    assert str(made) == f"{short}[M, 64]"
    assert getattr(lastbit, FORMATS[short].name)("M", 64) == made
    assert node(lambda x: x.to(short)).key == text(f"y: {short} = x").key
    assert node(lambda x: x.to(getattr(lastbit, short))).key == text(f"y: {short} = x").key


@pytest.mark.parametrize("name", NAMED_REALS)
def test_a_named_real_is_a_value(name: str) -> None:
    assert node(lambda x: x * getattr(lastbit, name)).key == text(f"y: real = x * {name}").key


EXPRESSIONS = {
    "x + s": lambda x, s: x + s,
    "x - s * x": lambda x, s: x - s * x,
    "(x - s) * x": lambda x, s: (x - s) * x,
    "x - (s - x)": lambda x, s: x - (s - x),
    "x / (s / x)": lambda x, s: x / (s / x),
    "-(x + s)": lambda x, s: -(x + s),
    "-x": lambda x: -x,
    "x ": lambda x: +x,
    "abs(x)": lambda x: abs(x),
    "x ** 3": lambda x: x**3,
    "(-x) ** 2": lambda x: (-x) ** 2,
    "exp2(x)": lambda x: 2**x,
    "x < s": lambda x, s: x < s,
    "s < x": lambda x, s: x > s,
    "x <= s": lambda x, s: x <= s,
    "s <= x": lambda x, s: x >= s,
    "x == s": lambda x, s: x == s,
    "1 - (x == s)": lambda x, s: x != s,
    "3 < x": lambda x: x > 3,
    "1 - x": lambda x: 1 - x,
    "2 / x": lambda x: 2 / x,
    "x * -3": lambda x: x * -3,
    "x * 0.1": lambda x: x * Fraction(1, 10),
    "x * 0.10": lambda x: x * Decimal("0.1"),
    "x * (1 / 3)": lambda x: x * Fraction(1, 3),
    "x + inf": lambda x: x + math.inf,
    "x + -0.0": lambda x: x + -0.0,
    "matmul(x, w)": lambda x, w: x @ w,
    "transpose(x)": lambda x: x.T,
    "x[0:1]": lambda x: x[0:1],
    "x[:, 1:]": lambda x: x[:, 1:],
    "x[:, 1:] ": lambda x: x[..., 1:],
    "x[1:, ::2]": lambda x: x[1:, ::2],
    "x[:, -3:-1]": lambda x: x[:, -3:-1],
    "x[:, ::-1]": lambda x: x[:, ::-1],
    "reshape(x, 8, 1)": lambda x: x.reshape((8, 1)),
    "reshape(x, 2, 2, 2)": lambda x: x.reshape(2, -1, 2),
    "reshape(k, M, 4, 16)": lambda k: k.reshape("M", 4, -1),
    "reshape(k, M * 64)": lambda k: k.reshape(-1),
    "k[:, 0:32]": lambda k: k[:, : k.shape[-1] // 2],
    "k[:, M:2*M]": lambda k: k[:, "M":"2*M"],
    "sum(k) / 64": lambda k: k.sum() / k.shape[-1],
    "sum(k, axis=0) / size(M)": lambda k: k.sum(axis=0) / k.shape[0],
    "k * (2 / size(M + 1))": lambda k: k * (2.0 / (k.shape[0] + 1)),
    "concat(x, s, axis=1)": lambda x, s: lastbit.concat([x, s], axis=1),
    "opaque('gather', x, s)": lambda x, s: lastbit.opaque("gather", x, s),
    "select(x < 0, s, x)": lambda x, s: lastbit.select(x < 0, s, x),
}


@pytest.mark.parametrize(("line", "function"), EXPRESSIONS.items(), ids=EXPRESSIONS)
def test_python_means(line: str, function) -> None:
    assert node(function).key == text(f"y: real = {line}").key


def test_a_float_literal_is_its_exact_binary_value() -> None:
    made = node(lambda x: x * 0.1)
    assert isinstance(made, Map)
    constant = made.xs[1]
    assert isinstance(constant, Const)
    assert constant.value == Fraction(0.1)
    assert constant.value != Fraction(1, 10)
    assert made.key == text("y: real = x * '0x1.999999999999ap-4'").key


@pytest.mark.parametrize(
    ("number", "exact"),
    [
        (np.float32(0.1), Fraction(13421773, 2**27)),
        (np.float16(0.1), Fraction(1638, 2**14)),
        (ml_dtypes.bfloat16(0.1), Fraction(205, 2**11)),
        (np.longdouble(1) + np.longdouble(2) ** -60, 1 + Fraction(1, 2**60)),
        (np.int8(-3), Fraction(-3)),
        (np.array(0.5), Fraction(1, 2)),
        (2**70 + 1, Fraction(2**70 + 1)),
    ],
    ids=["float32", "float16", "bfloat16", "longdouble", "int8", "0-d", "int"],
)
def test_a_number_stands_for_exactly_itself_on_either_side(number, exact: Fraction) -> None:
    if isinstance(number, np.longdouble) and Fraction(*number.as_integer_ratio()) == 1:
        pytest.skip("this longdouble is no wider than a double")
    for function in (lambda x: x * number, lambda x: number * x):
        made = node(function)
        assert isinstance(made, Map)
        assert [c.value for c in made.xs if isinstance(c, Const)] == [exact]


def test_only_to_rounds_and_says_how() -> None:
    made = node(lambda x: (x * x).to("e4m3fn", overflow="saturate", mode="rtz"))
    assert made.key == text("y: e4m3fn = x * x saturate rtz").key
    flushed = node(lambda x: x.to("f16", subnormals="flush"))
    assert flushed.key == text("y: f16 = x flush").key
    assert node(lambda x: lastbit.round(x * x, "f16")).key == text("y: f16 = x * x").key


# Names and statements


def test_a_value_has_the_name_of_its_variable() -> None:
    def function(x, s):
        t = lastbit.silu(x).to("bf16")
        t += s
        a, b = t * 2, (c := t * 3)
        d: object = (
            (a + b)
            .exp()
            .to("f32")
        )  # fmt: skip
        return (d + c).to("f32")

    assert statements(function) == [
        "t: bf16 = silu(x)",
        "t_2: real = t + s",
        "a: real = t_2 * 2",
        "c: real = t_2 * 3",
        "d: f32 = exp(a + c)",
        "y: f32 = d + c",
    ]


def test_a_value_without_a_variable_has_the_name_of_its_operator_where_it_needs_one() -> None:
    def function(x, s):
        return [lastbit.silu((x + s).to("bf16")), (x + s).to("bf16").exp()][0].to("f16")

    assert statements(function) == ["add: bf16 = x + s", "y: f16 = silu(add)"]


def test_a_name_can_be_given() -> None:
    def function(x):
        return (lastbit.named(x * 2, "twice") + x.exp().named("e")).to("f32")

    assert statements(function) == ["twice: real = x * 2", "e: real = exp(x)", "y: f32 = twice + e"]


def test_words_of_the_language_name_no_value() -> None:
    def function(x):
        acc = x.exp()
        return acc.to("f32")

    assert statements(function) == ["acc_: real = exp(x)", "y: f32 = acc_"]


def test_a_statement_has_one_tree() -> None:
    def function(x):
        return (
            x.sum(acc="f32", schedule="seq") + x.sum(acc="f32", schedule="split(2)") + x.sum()
        ).to("bf16")

    made = statements(function)
    assert (
        made
        == [
            "sum: real = sum(x) acc f32 seq",
            "sum_2: real = sum(x) acc f32 split(2)",
            "add: real = sum + sum_2",
            "y: bf16 = add + sum(x)",
        ]
        or len({line.partition(" acc ")[2] for line in made}) == 3
    )


def test_long_expressions_are_cut() -> None:
    def function(x):
        for _ in range(3000):
            x = x + 1
        return x.to("f32")

    assert sys.getrecursionlimit() < 3000
    assert node(function).shape == (2, 4)

    def nested(x):
        return eval("(" * 60 + "x" + " + 1)" * 60, {"x": x}).to("f32")

    assert max(line.count("+") for line in statements(nested)) < 45
    assert len(statements(nested)) > 1


def test_an_operation_knows_its_line_and_column() -> None:
    def function(x):
        return lastbit.exp(
            x * 2).to("f32")  # fmt: skip

    place = program(function).place("y")
    assert place.file.endswith("test_tracer.py")
    assert place.source.strip() in ("return lastbit.exp(", 'x * 2).to("f32")  # fmt: skip')
    assert place.line == function.__code__.co_firstlineno + (1 if "return" in place.source else 2)


# Shapes


def test_a_shape_is_made_of_sizes() -> None:
    seen = {}

    def function(x, w, s, k):
        seen["sum"] = k.sum(axis=0).shape
        seen["matmul"] = (x @ w).shape
        seen["add"] = (x + s).shape
        seen["slice"] = k[:, 3:].shape
        seen["half"] = k[: k.shape[0] // 2].shape
        seen["concat"] = lastbit.concat(k, k, axis=0).shape
        seen["T"] = k.T.shape
        seen["topk"] = x.topk(2).shape
        assert k.ndim == 2
        assert k.shape[-1] == 64
        assert k.shape[1] > 63
        assert k.shape[0] != k.shape[1]
        assert len(x) == 2
        assert [i for i in range(0, k.shape[1], 32)] == [0, 32]  # noqa: C416
        return k.to("f16")

    program(function)
    assert {name: str(list(shape)) for name, shape in seen.items()} == {
        "sum": "[1, 64]",
        "matmul": "[2, 3]",
        "add": "[2, 4]",
        "slice": "[M, 61]",
        "half": "[M // 2, 64]",
        "concat": "[M + M, 64]",
        "T": "[64, M]",
        "topk": "[2, 2]",
    }


def test_a_size_that_is_a_number_shrinks_unless_it_is_used_as_one() -> None:
    fixed = {"size_64": 64}
    free = program(lambda k: k[:, : k.shape[-1] // 2].to("f32"), fixed)
    assert "k: f32[M, size_64]\n" in print_program(free)
    assert "k[:, :size_64 // 2]" in print_program(free)
    for pinned in (
        lambda k: k[:, :64].to("f16"),
        lambda k: (k / 64).to("f16"),
        lambda k: k[:, : int(k.shape[-1]) - 1].to("f16"),
    ):
        assert "k: f32[M, 64]\n" in print_program(program(pinned, fixed))


def test_hasattr_asks_without_harm() -> None:
    def function(x):
        assert not hasattr(x, "foo")
        assert hasattr(x, "exp")
        assert not hasattr(x, "__dlpack__")
        return x.to("f32")

    program(function)


# Mistakes, each with what to write instead

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
    assert problem.place.file.endswith("test_tracer.py")
    assert problem.place.column > 1
    assert line.strip() == problem.place.source.strip()
    assert problem.place.line - function.__code__.co_firstlineno in (0, 1)


def test_a_function_that_calls_torch_is_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError) as caught:
        program(lambda x: torch.nn.functional.silu(x))
    assert (
        "torch.silu works on torch's own arrays, and a Tensor of lastbit is none. "
        "Write lastbit.silu(...)."
    ) in str(caught.value)


def test_a_name_that_is_no_word_of_the_language_is_no_attribute_of_the_package() -> None:
    with pytest.raises(AttributeError, match=r"^module 'lastbit' has no attribute 'bf61'$"):
        lastbit.bf61  # noqa: B018
