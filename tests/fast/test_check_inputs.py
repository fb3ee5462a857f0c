"""Two functions are compared on inputs that are given, and what is missing or wrong is said."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest
from compared import X, one, two, wide
from recorded import program

import lastbit
from lastbit.errors import InputError


def test_inputs_come_from_the_call_then_the_function() -> None:
    def attribute(x, y):
        return (x + y).to("f32")

    def default(x, y=lastbit.f32("M", 8)):  # noqa: B008
        return (y + x).to("f32")

    def annotated(x: lastbit.f32("M", 8), y):
        return (x + y).to("f32")

    attribute.inputs = ("f32[M, 8]", lastbit.f32("M", 8))
    assert lastbit.check(attribute, default).change == "bitwise"
    assert lastbit.check(annotated, default).change == "bitwise"
    attribute.inputs = lambda: {"x": "f32[M, 4]", "y": "f32[M, 4]"}
    given = {"x": "f32[M, 4]", "y": "f32[M, 4]"}
    assert lastbit.check(attribute, default, inputs=given).change == "bitwise"


def test_a_plain_default_is_left_alone() -> None:
    def scaled(x, factor=3):
        return (x * factor).to("bf16")

    assert lastbit.check(scaled, one, x=X).change == "bitwise"


def test_ranges_and_distributions_are_used() -> None:
    spec = lastbit.f32("M", 64).drawn("uniform(-1, 1)").range(-1, Fraction(1, 2))
    assert str(spec) == "f32[M, 64] uniform(-1, 1) in [-1, 0.5]"
    v = lastbit.check(one, two, x=spec, symbols={"M": 4})
    assert v.drift is not None
    assert v.drift.inputs == "uniform(-1, 1) in [-1, 0.5]"
    text = lastbit.check(one, two, x=str(spec), symbols={"M": 4})
    assert text.drift == v.drift
    alone = lastbit.check(one, two, x=lastbit.f32("M", 64).range(0, 2), symbols={"M": 4})
    assert alone.drift is not None
    assert alone.drift.inputs == "uniform(0, 2) in [0, 2]"


def test_a_symbol_without_sizes_is_said() -> None:
    given = {"x": lastbit.f32("M", "K")}
    v = lastbit.check(one, two, symbols={"M": (1, 8)}, **given)
    note = "assumed K in [1, 2000]; give other sizes with --symbol M=1..8192 or symbols="
    assert note in v.whole.notes
    v = lastbit.check(one, two, symbols={"M": (1, 8), "K": 16}, **given)
    assert not any("assumed" in note for note in v.whole.notes)


def rows(x):
    return (x.sum() * 3).to("bf16")


def three(x):
    return (x[:, :3] * 3).to("bf16")


def named_batch(x):
    return (x.reshape("N", 64) * 3).to("bf16")


def fails(x):
    return one(x) / undefined  # noqa: F821


def exits(x):
    raise SystemExit(5)


async def waits(x):
    return one(x)


def hundred(x):
    return (x[:100] * 3).to("bf16")


def with_inputs(x):
    return one(x)


with_inputs.inputs = {"x": "f32[M, 32]"}


def odd_inputs(x):
    return one(x)


odd_inputs.inputs = 3


def misnamed_inputs(x):
    return one(x)


misnamed_inputs.inputs = {"xx": "f32[M, 64]"}


def many_inputs(x):
    return one(x)


many_inputs.inputs = ("f32[M, 64]", "f32[M, 64]")
# The other function, options, and the error without its place.
ERRORS = {
    "missing input": (
        one,
        {"x": None},
        "the input `x` of `before` (`one`) has no format and shape. Give "
        "x=lastbit.bf16(\"M\", 4096) in Python, --input 'x=bf16[M, 4096]' or "
        '`one.inputs = {"x": "bf16[M, 4096]"}` in the file.',
    ),
    "unknown input": (one, {"y": X}, "no function takes the input `y`. Allowed: x."),
    "no text of an input": (
        one,
        {"x": "f32[M"},
        "input `x`: 'f32[M' is no input. "
        "Write bf16[M, 4096], or bf16[M, 4096] normal(0, 1) in [-8, 8].",
    ),
    "unknown format": (
        one,
        {"x": "f23[M]"},
        "input `x`: unknown format 'f23'. Did you mean 'f32'?",
    ),
    "bad range": (
        one,
        {"x": "f32[M] in [a, 2]"},
        "input `x`: the range of 'f32[M] in [a, 2]' holds what is no number. Write [-8, 8].",
    ),
    "falling range": (
        one,
        {"x": "f32[M] in [3, 2]"},
        "input `x`: the range [3, 2] does not rise. Write .range(-8, 8).",
    ),
    "distribution": (
        one,
        {"x": "f32[M] normal(0)"},
        "input `x`: normal takes 2 numbers, given 1. Write normal(0, 1).",
    ),
    "no input": (
        one,
        {"x": 3},
        "input `x` is given as a value of type int. "
        'Write lastbit.bf16("M", 4096), or the text "bf16[M, 4096]".',
    ),
    "inputs differ": (
        with_inputs,
        {"x": None, "first": with_inputs, "second": lambda x=X: one(x)},
        "`x` is f32[M, 32] for `before` and f32[M, 64] for `after`. Both read the same inputs.",
    ),
    "odd inputs": (
        odd_inputs,
        {},
        "`inputs` of `after` (`odd_inputs`) is of type int. "
        'Write {"x": "bf16[M, 4096]"}, or a tuple in the order of the parameters.',
    ),
    "misnamed inputs": (
        misnamed_inputs,
        {},
        "`inputs` of `after` (`misnamed_inputs`) gives `xx`, which no function takes. "
        "Did you mean 'x'?",
    ),
    "too many inputs": (
        many_inputs,
        {},
        "`inputs` of `after` (`many_inputs`) gives 2 inputs, and it takes 1. "
        "Give one for each parameter.",
    ),
    "no inputs at all": (
        lambda: 3,
        {"x": None, "first": lambda: 3},
        "the functions take no inputs, so there is nothing to compare. "
        "Give each input a parameter.",
    ),
    "open parameters": (
        lambda *x: one(x[0]),
        {},
        "`after` takes `*x`, whose number is open. Give every input a parameter of its own.",
    ),
    "no function": (
        3,
        {},
        "`after` is of type int, no function with parameters. Give a function of lastbit's values.",
    ),
    "symbol": (
        one,
        {"symbols": {"M": (5, 1)}},
        "the sizes of the symbol 'M' are (5, 1). "
        'Write a number or (smallest, largest): symbols={"M": (1, 8192)}.',
    ),
    "batch": (one, {"batch": "N"}, "unknown batch symbol 'N'. Allowed: M."),
    "change": (
        one,
        {"max_change": "rounded"},
        "unknown kind of change 'rounded'. Did you mean 'rounding'?",
    ),
    "promise": (
        one,
        {"promises": ["determinstic"]},
        "unknown promise 'determinstic'. Did you mean 'deterministic'?",
    ),
    "ulp": (
        one,
        {"max_ulp": {"bf16": "a"}},
        "max_ulp of bf16 is 'a'. Allowed: a number of ulp, at least 0.",
    ),
    "ulp below 0": (
        one,
        {"max_ulp": {"bf16": -1}},
        "max_ulp of bf16 is -1. Allowed: a number of ulp, at least 0.",
    ),
    "elementwise as a word": (
        one,
        {"elementwise": "no"},
        "elementwise is 'no'. Write elementwise=True.",
    ),
    "all ulp": (one, {"max_ulp": 3}, 'max_ulp is 3. Write max_ulp={"bf16": 1}.'),
    "inputs as a list": (
        one,
        {"inputs": [1]},
        'inputs is [1]. Write inputs={"x": "bf16[M, 4096]"}.',
    ),
    "symbols as a list": (
        one,
        {"symbols": [1]},
        'symbols is [1]. Write symbols={"M": (1, 8192)}.',
    ),
    "half a size": (
        one,
        {"symbols": {"M": 2.5}},
        "the sizes of the symbol 'M' are 2.5. "
        'Write a number or (smallest, largest): symbols={"M": (1, 8192)}.',
    ),
    "symbol without name": (
        one,
        {"symbols": {1: 2}},
        "the sizes of the symbol 1 are 2. "
        'Write a number or (smallest, largest): symbols={"M": (1, 8192)}.',
    ),
    "no such symbol": (one, {"symbols": {"Q": 1}}, "no size has the symbol 'Q'. Allowed: M."),
    "no symbol at all": (
        one,
        {"x": "f32[2, 64]", "symbols": {"Q": 1}},
        "no size has the symbol 'Q'. All sizes are numbers.",
    ),
    "batch as a number": (
        one,
        {"batch": 3},
        'batch is 3. Write the name of a symbol: batch="M".',
    ),
    "seed as a word": (one, {"seed": "a"}, "seed is 'a'. Allowed: a whole number, 0 or more."),
    "seed below 0": (one, {"seed": -1}, "seed is -1. Allowed: a whole number, 0 or more."),
    "day as a text": (
        one,
        {"today": "2025-01-01"},
        "today is '2025-01-01'. Write datetime.date(2026, 1, 31).",
    ),
    "promises as a word": (
        one,
        {"promises": "deterministic"},
        "promises is 'deterministic'. Write promises=[\"deterministic\"].",
    ),
    "promise without name": (
        one,
        {"promises": [3]},
        "unknown promise 3. Allowed: batch_invariant, deterministic, layout_invariant.",
    ),
    "exits": (
        exits,
        {},
        "`after` (`exits`) asks Python to exit, and nothing was decided. Leave it out.",
    ),
    "async": (
        waits,
        {},
        "`after` (`waits`) is an async function. Write `def` alone.",
    ),
    "negative size": (
        one,
        {"x": "f32[M - 2, 64]"},
        "the size M - 2 is -1 at M = 1. A size is from 0 to 281474976710656.",
    ),
    "no whole size": (
        one,
        {"x": "f32[M / 2, 64]"},
        "expression 'M / 2': the value 1/2 is no integer at M=1. Use //, ceil or floor.",
    ),
    "exception": (
        fails,
        {},
        "`after` (`fails`) raised NameError: name 'undefined' is not defined.",
    ),
    "nothing": (
        lambda x: None,
        {},
        "`after` returns nothing. Return a value, a tuple of values, or a dict of them.",
    ),
    "a number": (
        lambda x: 3,
        {},
        "`after` returns a value of type int. "
        "Return a value, a tuple of values, or a dict of them.",
    ),
    "a number among results": (
        lambda x: (one(x), 3),
        {},
        "`after` returns a value of type int as result '1'. "
        "Return values that were computed from the inputs.",
    ),
    "more results": (
        lambda x: (one(x), one(x)),
        {},
        "`before` returns 1 result and `after` 2 results. "
        "Return the same results in the same order.",
    ),
    "other keys": (
        lambda x: {"b": one(x)},
        {"first": lambda x: {"a": one(x)}},
        "`after` returns a result 'b', and `before` none of that name. Allowed: a.",
    ),
    "not rounded": (
        lambda x: x * 3,
        {},
        "the result `result` of `after` is not rounded, so it has no bits. "
        'Round it where it is returned: .to("bf16").',
    ),
    "other format": (
        wide,
        {},
        'the result `result` is bf16 before and f32 after. Round both to one format: .to("bf16").',
    ),
    "other shape": (
        rows,
        {},
        "the result `result` has the shape [2000, 64] before and [2000, 1] after at M = 2000. "
        "Return the same shape; a reduction keeps its axis with size 1.",
    ),
    "other fixed shape": (
        three,
        {"x": "f32[2, 64]"},
        "the result `result` has the shape [2, 64] before and [2, 3] after. "
        "Return the same shape; a reduction keeps its axis with size 1.",
    ),
    "unknown symbol": (
        named_batch,
        {},
        "expression 'N': the symbol 'N' has no size. Allowed: M.",
    ),
    "small sizes": (
        hundred,
        {},
        "the slice bound 100 is outside of axis 0 with 1 elements at M = 1. "
        "Declare other sizes of the symbols.",
    ),
    "shapes": (
        lambda x: (x @ x).to("bf16"),
        {"x": "f32[2, 64]"},
        "matmul needs [M, K] and [K, N]; given [2, 64] and [2, 64].",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_an_error_says_what_is_wrong_and_what_to_write(case: str) -> None:
    function, given, expected = ERRORS[case]
    given = {"x": X, **given}
    given = {name: value for name, value in given.items() if value is not None}
    first, second = given.pop("first", one), given.pop("second", function)
    with pytest.raises(InputError) as caught:
        lastbit.check(first, second, **given)
    problem = caught.value.problems[0]
    text = str(problem).split("\n")[0].removeprefix(f"{problem.place}: ")
    assert text == expected
    if problem.place.file:
        assert problem.place.source.strip()


def test_an_exception_of_the_function_shows_its_line() -> None:
    with pytest.raises(InputError) as caught:
        lastbit.check(one, fails, x=X)
    (problem,) = caught.value.problems
    assert problem.place.line == fails.__code__.co_firstlineno + 1
    assert problem.place.source == "    return one(x) / undefined  # noqa: F821"
    assert isinstance(caught.value.__cause__, NameError)


def test_a_loop_of_thousands_of_steps_is_checked() -> None:
    def loop(x):
        for _ in range(500):
            x = x + 1
        return x.to("bf16")

    v = lastbit.check(loop, lambda x: (x + 500).to("bf16"), x="bf16[2, 4]")
    assert v.change == "bitwise"
    assert len(program(loop).statements) < 40


def test_the_readme_shows_the_line_that_its_example_gives(tmp_path, monkeypatch) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    code, shown = re.findall(
        r"```python\n(import lastbit\n.*?)```\s+```text\n(.*?)\n", readme, re.S
    )[0]
    monkeypatch.chdir(tmp_path)
    Path("idea.py").write_text(code, encoding="utf-8")
    printed: list[str] = []
    scope = {"print": lambda v: printed.append(str(v)), "__name__": "idea"}
    exec(compile(code, "idea.py", "exec"), scope)
    assert printed[0].split("\n")[0].split() == shown.split()
