"""A mistake in a text gives its place and its remedy."""

import subprocess
import sys

import pytest
from sites import HEAD

from lastbit.errors import InputError
from lastbit.text import parse_program, read_program

LANGUAGE = (
    " is not part of the language. Use names, numbers, + - * /, comparisons, slices and"
    " operators such as `silu(x)`."
)
WORDS = "Allowed: acc, flush, rdn, rna, rne, rto, rtz, rup, saturate, sr, to_inf, to_nan."
NUMBERS = " is not a number. Write 3, 0.5, 1e-6 or '0x1.8p+3'."
INTEGERS = "Allowed: integers, symbols, + - * / // % **, min, max, ceil and floor."
MISTAKES = {
    # lines
    "hello": "4:1: not a statement. Write `name: format[shape]` for an input or"
    " `name: format = expression`.",
    "y: f32 == x": "4:1: not a statement. Write `name: format[shape]` for an input or"
    " `name: format = expression`.",
    "acc: f32 = x": "4:1: 'acc' cannot name a value. It is a word of the language.",
    "pi: f32[2]": "4:1: 'pi' cannot name a value. It is a word of the language.",
    "y: f32": "4:4: the input `y` has no shape. Write `x: bf16[M, K]`.",
    "y: f33 = x": "4:4: unknown format 'f33'. Did you mean 'f32'?",
    "y: f32[a b] = x": f"4:8: expression 'a b': this is no expression. {INTEGERS}",
    # tails
    "y: f32 = sum(x) acc": "4:20: `acc` needs a format. Write `acc f32 seq`.",
    "y: f32 = sum(x) acc f33 seq": "4:21: unknown format 'f33'. Did you mean 'f32'?",
    "y: f32 = sum(x) acc f32": "4:24: `acc` needs a schedule. Write `acc f32 seq`.",
    "y: f32 = sum(x) acc f32 sek": "4:25: schedule `sek`: 'sek' is no schedule."
    " Did you mean 'seq'?",
    "y: f32 = sum(x) acc f32 split(2": "4:30: the schedule's parenthesis is not closed.",
    "y: f32 = sum(x) acc f32 seq, saturate": "4:28: unexpected ', saturate'.",
    "y: f32 = x saturate fluch": "4:21: unexpected 'fluch' behind the expression."
    " Did you mean 'flush'?",
    "y: f32 = 2 - log(sum(x) acc f32 seq)": "4:25: `acc` stands inside an expression."
    " It belongs at the end of a statement; give this part a statement of its own.",
    "y: f32 = (x saturate) * 2": "4:13: `saturate` stands inside an expression."
    " It belongs at the end of a statement; give this part a statement of its own.",
    "y: f32 = topk(x, 0)": "4:10: the number of choices is 0; at least 1 is made.",
    "y: f32 = x saturate x": f"4:21: unexpected 'x' behind the expression. {WORDS}",
    "y: int8 = x to_nan": "4:13: int8 holds no nan; its overflow may be `saturate`.",
    # expressions
    "y: f32 =": "4:9: cannot read the expression: invalid syntax.",
    "y: f32 = (x": "4:10: cannot read the expression: '(' was never closed.",
    "y: f32 = x @ x": f"4:10: `x @ x`{LANGUAGE}",
    "y: f32 = 2 * x.T": f"4:14: `x.T`{LANGUAGE}",
    "y: f32 = x ** 9": f"4:10: `x ** 9`{LANGUAGE}",
    "y: f32 = x > x": f"4:10: `x > x`{LANGUAGE}",
    "y: f32 = x < x < x": f"4:10: `x < x < x`{LANGUAGE}",
    "y: f32 = x, x": f"4:10: `x, x`{LANGUAGE}",
    "y: f32 = sum(*x)": f"4:14: `*x`{LANGUAGE}",
    "y: f32 = x * True": f"4:14: True{NUMBERS}",
    "y: f32 = x * 'half'": f"4:14: 'half'{NUMBERS}",
    "y: f32 = x * 1j": f"4:14: 1j{NUMBERS}",
    "y: f32 = x * 1e400": f"4:14: 1e400{NUMBERS}",
    "y: f32 = x * (1 / 0)": "4:15: a constant is divided by 0.",
    "y: f32 = x[0]": "4:10: an axis is indexed by a single number. Write a slice `i:j`.",
    "y: f32 = x[:, :, :]": "4:10: 3 slices for 2 axes.",
    "y: f32 = x[::0]": "4:12: a slice has step 0.",
    "y: f32 = x[:, 0:5]": "4:10: the slice bound 5 is outside of axis 1 with 4 elements.",
    "y: f32 = x[1.5:]": f"4:10: expression '1.5': '1.5' is not allowed. {INTEGERS}",
    "y: f32 = sum(x, dim=1)": "4:10: sum has no argument 'dim'.",
    "y: f32 = sum(x, axis=2)": "4:10: axis 2 does not exist in [2, 4].",
    "y: f32 = sum(2)": "4:10: axis -1 does not exist in [].",
    "y: f32 = add(x)": "4:10: add takes 2 values, given 1.",
    "y: f32 = matmul(x, w, x)": "4:10: matmul takes 2 values, given 3.",
    "y: f32 = concat()": "4:10: concat takes at least 1 values, given 0.",
    "y: f32 = round(x)": "4:10: round needs a format. Write `round(x, bf16)`.",
    "y: f32 = round(x, 16)": "4:10: round needs a format. Write `round(x, bf16)`.",
    "y: f32 = 2 * round(x, bf17)": "4:14: unknown format 'bf17'. Did you mean 'bf16'?",
    "y: f32 = round(x, int8, to_inf)": "4:10: int8 holds no inf; its overflow may be `saturate`.",
    "y: f32 = round(sum(x), bf16, acc, f32, seq)": "4:10: round takes no `acc`."
    " Write `acc f32 seq` behind the expression.",
    "y: f32 = opaque('f')": "4:10: opaque needs a name and values. Write `opaque('name', x)`.",
    "y: f32 = opaque('a b', x)": "4:10: opaque needs a name and values. Write `opaque('name', x)`.",
    # names
    "y: f32 = u + x": "4:10: `u` is not defined. Allowed: s, w, x, y.",
    "y: f32 = x + matmol(x, w)": "4:14: unknown operator 'matmol'. Did you mean 'matmul'?",
    "return y": "4:1: `y` is not defined. Allowed: s, w, x.",
    "x: f32[2]": "4:1: `x` is defined twice. Line 1 defines it already.",
    "y: f32 = z\nz: f32 = -y": "5:10: `y` depends on itself: y -> z -> y."
    " A value may only read values that do not need it.",
    # shapes
    "y: f32[3, 4] = x": "4:16: the shape is [2, 4], not the stated [3, 4].",
    "z: f32[-1]": "4:1: the size -1 cannot be. A size is from 0 to 281474976710656.",
    "y: f32 = x + w": "4:10: the shapes [2, 4] and [4, 3] do not broadcast.",
    "y: f32 = matmul(x, x)": "4:10: matmul needs [M, K] and [K, N]; given [2, 4] and [2, 4].",
    "y: f32 = reshape(x, 3, 3)": "4:10: [2, 4] cannot become [3, 3]: other number of elements.",
    "y: f32 = broadcast(x, 2, 1)": "4:10: [2, 4] does not broadcast to [2, 1].",
    "y: f32 = transpose(x, 0, 0)": "4:10: transpose needs each axis of [2, 4] once.",
    "y: f32 = concat(x, w)": "4:10: concat along axis 1 needs equal other sizes.",
    "y: f32 = sum(x) acc f32 split(K // 2)": "4:10: schedule `split(K // 2)`: n = K // 2 is 0"
    " at K=1. Guard it with max(1, ...).",
    "y: f32 = x[N:]": "4:10: expression 'N': the symbol 'N' has no size. Allowed: K.",
}


@pytest.mark.parametrize(("text", "problem"), MISTAKES.items(), ids=MISTAKES)
def test_a_mistake_gives_its_place_and_its_remedy(text, problem):
    with pytest.raises(InputError) as caught:
        parse_program(HEAD + text).bind({"K": 1})
    (found,) = caught.value.problems
    assert str(found).split("\n")[0] == problem


def test_an_empty_text_has_no_graph():
    for text in ("", "\n# nothing\n"):
        (problem,) = read_program(text, "f", first_line=3).problems
        assert (
            str(problem)
            == "f:3: the graph is empty. Write one value a line, such as `x: bf16[M, K]`."
        )


@pytest.mark.parametrize(
    ("symbols", "remedy"),
    [({"KK", "M"}, "Did you mean 'KK'?"), ((), "Add it to `symbols`.")],
)
def test_a_symbol_is_declared(symbols, remedy):
    (problem,) = read_program("x: f32[2, KKK]", symbols=symbols).problems
    assert str(problem).split("\n")[0] == f"1:1: the size symbol 'KKK' is not declared. {remedy}"


def test_a_broken_line_is_reported_once_and_its_readers_are_passed_over():
    reading = read_program("x: f32[4]\nt: f32 = x[0]\ny: f32 = exp(t)\nz: f32 = log(y")
    assert [problem.place.line for problem in reading.problems] == [4]
    assert reading.names == {"x", "t", "y", "z"}
    assert [problem.place.line for problem in reading.program.problems({})] == [2]
    reading = read_program("x: f32[4]\ny: f32 = frob(x)\nz: f32 = y")
    assert len(reading.problems) == 1
    assert reading.program.problems({}) == []


def test_the_line_is_shown_below_its_problem():
    with pytest.raises(InputError) as caught:
        parse_program("x: f32[4]\n  y: f32 = x + u", "plan.toml", 7)
    assert str(caught.value) == (
        "plan.toml:8:16: `u` is not defined. Allowed: x, y.\n    y: f32 = x + u"
    )


def test_rules_do_not_import_the_text_form():
    code = "import sys; from lastbit.registry import load_rules; load_rules();print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    imported = set(done.stdout.split())
    assert "lastbit.graph" in imported
    parts = ("text", "statement", "tail", "syntax", "building", "dependencies")
    assert not imported.intersection(f"lastbit.{part}" for part in parts)
