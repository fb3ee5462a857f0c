"""A text that is wrong, or made to do harm, gives problems with lines and never anything else."""

import time
import warnings

import pytest

from lastbit.errors import InputError, Place, Problem, did_you_mean
from lastbit.expression import ExpressionError, parse_expression
from lastbit.text import parse_program, read_program

X = "x: f32[4]\n"


def refused(text, sizes=None):
    with pytest.raises(InputError) as caught:
        parse_program(X + text).bind(sizes or {})
    (problem,) = caught.value.problems
    return str(problem).split("\n")[0]


CASES = {
    "a long sum": (
        "y: f32 = " + "+".join("x" * 1500),
        "2:10: the expression is nested too deeply. At most 250 levels are read; name parts of it.",
    ),
    "many signs": (
        "y: f32 = " + "-" * 3000 + "x",
        "2:10: the expression is nested too deeply. At most 250 levels are read; name parts of it.",
    ),
    "a long number": (
        "y: f32 = x * " + "9" * 5000,
        "2:14: a word has 5000 characters. At most 400 are read.",
    ),
    "a long name": (
        "y" * 401 + ": f32 = x",
        "2:1: a name has 401 characters. At most 400 are read.",
    ),
    "a long line": (
        "y: f32 = x" + " + x" * 3000,
        "2:1: the line has 12010 characters. At most 10000 are read.",
    ),
    "spaces that a pattern could try in many ways": (
        "y: " + " " * 9000 + "==",
        "2:1: not a statement. "
        "Write `name: format[shape]` for an input or `name: format = expression`.",
    ),
    "a number below every float": (
        "y: f32 = x * 1e-5000",
        "2:14: 1e-5000 is not a number. Write 3, 0.5, 1e-6 or '0x1.8p+3'.",
    ),
    "a NUL": (
        "y: f32 = x\0",
        "2:1: the line holds the character U+0000. Only printable ones may stand.",
    ),
    "a character that turns the text around": (
        "y: f32 = x\u202e",
        "2:1: the line holds the character U+202E. Only printable ones may stand.",
    ),
    "a word of Python": (
        "lambda: f32 = x",
        "2:1: 'lambda' cannot name a value. It is a word of the language.",
    ),
    "a negative size": (
        "y: f32 = reshape(x, -2, -2)",
        "2:10: reshape is given -2. Give each number.",
    ),
    "a size beyond reason": (
        "y: f32 = broadcast(x, 2**60, 4)",
        "2:23: 1152921504606846976 is too large. At most 281474976710656.",
    ),
    "a shape beyond reason": (
        "y: f32[2**60]",
        "2:1: the size 2 ** 60 cannot be. A size is from 0 to 281474976710656.",
    ),
    "a misspelt tail": (
        "y: f32 = x sturate",
        "2:12: cannot read the expression: invalid syntax. Did you mean 'saturate'?",
    ),
    "an overflow that the format cannot": (
        "y: int8 = x to_inf",
        "2:13: int8 holds no inf; its overflow may be `saturate`.",
    ),
    "a cycle of many": (
        "".join(f"y{i}: f32 = y{(i + 1) % 50}\n" for i in range(50)),
        "51:12: `y0` depends on itself: y0 -> y1 -> y2 -> y3 -> y4 -> ... -> "
        "y46 -> y47 -> y48 -> y49 -> y0. A value may only read values that do not need it.",
    ),
    "a value that reads itself twice": (
        "y: f32 = y + y",
        "2:10: `y` depends on itself: y -> y. A value may only read values that do not need it.",
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_a_text_is_refused_at_once(text, expected):
    started = time.process_time()
    assert refused(text) == expected
    assert time.process_time() - started < 0.5


def test_what_python_warns_of_is_no_matter():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert refused(r"y: f32 = opaque('\d', x)").startswith("2:10: opaque needs a name")
        assert refused("y: f32 = x if 1else x").startswith("2:10: `x if 1else x` is not part")


def test_what_is_sound_is_kept_beside_the_problems():
    reading = read_program(X + "w: f33[4]\ny: f32 = x + w\nz: f32 = x[0:9]\nu: f32 = x * 2\n", "f")
    assert [str(problem).split("\n")[0] for problem in reading.problems] == [
        "f:2:4: unknown format 'f33'. Did you mean 'f32'?"
    ]
    assert [s.name for s in reading.program.statements] == ["x", "y", "z", "u"]
    assert reading.names == {"x", "w", "y", "z", "u"}
    (misfit,) = reading.program.problems({})
    assert (misfit.place.line, misfit.message) == (
        4,
        "the slice bound 9 is outside of axis 0 with 4 elements",
    )


def test_lines_may_be_given():
    reading = read_program("x: f32[4]\ny: f32 = z\nz: f32 = a", "f", lines=(7, 7, 9))
    assert [str(problem.place) for problem in reading.problems] == ["f:9:10"]
    assert reading.program.place("y").line == 7


def test_the_problems_of_a_text_end():
    text = "?\n" * 1000
    problems = read_program(text).problems
    assert len(problems) == 201
    assert problems[-1].message == "more than 200 problems"
    undefined = "".join(f"y{i}: f32 = z{i}\n" for i in range(1000))
    assert len(read_program(undefined).problems) == 200


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("-" * 490 + "1", "it is nested too deeply"),
        ("+".join("1" * 240), "it is nested too deeply"),
        ("(" * 240 + "1" + ")" * 240, "this is no expression"),
    ],
)
def test_a_deep_expression_is_refused(text, reason):
    with pytest.raises(ExpressionError) as caught:
        parse_expression(text)
    assert caught.value.reason == reason


def test_a_line_is_shown_around_its_column_without_control_characters():
    place = Place("f", 3, 500, "a" * 499 + "\x1b" + "b" * 499)
    assert place.shown() == "..." + "a" * 99 + "\\x1b" + "b" * 100 + "..."
    assert Place("f", 1, 1, "  \x1b[31m\té").shown() == "\\x1b[31m\té"
    assert str(Problem("really?", "No.", Place("f", 1))) == "f:1: really? No."


def test_hints_stay_short_and_quick():
    names = [f"n{i}" for i in range(100_000)]
    started = time.process_time()
    assert did_you_mean("n0x", names) == "Did you mean 'n0'?"
    hint = did_you_mean("zzz", names)
    assert time.process_time() - started < 1
    assert hint.startswith("Allowed: n0, n1, n10, ")
    assert hint.endswith(" and 99960 more.")
