"""A size that a program reads as a number: the verdict is about the sizes that there are.

Division by a power of two is exact, 0.125 is 1/sqrt(64), and log(4096) has one binary32 rounding:
small sizes, which stand in for true ones where they only count elements, know nothing of that.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from lastbit.lint import lint_plans
from lastbit.result import Step
from lastbit.text import parse_program
from lastbit.verify.exhaust import exhausted
from lastbit.verify.folding import folded
from lastbit.verify.region import Region

PLAN = """schema = 1
[graph]
name = "sizes"
symbols = {{ M = [1, 8], N = {n} }}
batch = "M"
text = '''
a: {given}
{before}
return y
'''
[after]
text = '''
a: {given}
{after}
return y
'''
"""
ROW = "f32[M, N]"
LOG_4096 = "8.31776618957519531250"  # the binary32 number next to 12 ln 2, 8.3177661667...


def judged(folder: Path, n: str, before: str, after: str, given: str = ROW) -> Step:
    path = folder / "plan.toml"
    path.write_text(PLAN.format(n=n, given=given, before=before, after=after), encoding="utf-8")
    (step,) = lint_plans([str(path)]).steps
    return step


DIVIDED = "y: f32 = a / size(N)"
MULTIPLIED = "i: f32 = 1 / size(N)\ny: f32 = a * i"


@pytest.mark.parametrize(
    ("n", "change"),
    [
        ("[1, 64]", "rounding"), ("[3, 4096]", "rounding"), ("7", "rounding"),
        ("96", "rounding"), ("64", "bitwise"), ("4096", "bitwise"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("given", [ROW, "f32[M]"])
def test_a_division_by_a_size_is_a_product_where_it_is_a_power_of_two(
    tmp_path: Path, n: str, change: str, given: str
) -> None:
    step = judged(tmp_path, n, DIVIDED, MULTIPLIED, given)
    assert step.change == change
    if change == "bitwise":
        return
    assert step.witness is not None
    assert step.witness.program is not None
    (place,) = step.witness.index or ()
    flat = place[-1] if given == ROW else place[0]
    x = np.float32(float.fromhex(step.witness.inputs["a"].hex[flat]))
    count = int(step.witness.program.before.split("a / ")[1].split()[0].rstrip(")"))
    divided, multiplied = x / np.float32(count), x * (np.float32(1) / np.float32(count))
    expected = [f"0x{int(v.view(np.uint32)):08x}" for v in (divided, multiplied)]
    assert [step.witness.before[0], step.witness.after[0]] == expected
    assert expected[0] != expected[1]


@pytest.mark.parametrize(
    ("n", "before", "after"),
    [
        ("64", "y: f32 = a / sqrt(size(N))", "y: f32 = a * 0.125"),
        ("64", "y: f32 = a * rsqrt(size(N))", "y: f32 = a / 8"),
        ("64", "y: f32 = a * rsqrt(64)", "y: f32 = a * 0.125"),
        ("7", "y: f32 = a * rsqrt(9/64)", "y: f32 = a * 8 / 3"),
        ("4096", "l: f32 = log(size(N))\ny: f32 = a * l", f"y: f32 = a * {LOG_4096}"),
        ("4096", "l: f32 = log(size(N))\ny: f32 = a * l",
         f"l: f32 = {LOG_4096}\ny: f32 = a * l"),
        ("7", "y: f32 = a * 8.317766189575195", "z: f32 = 8.317766189575195 * a\ny: f32 = z"),
    ],
)  # fmt: skip
def test_a_number_computed_ahead_of_time_is_the_same_number(
    tmp_path: Path, n: str, before: str, after: str
) -> None:
    assert judged(tmp_path, n, before, after).change == "bitwise"


@pytest.mark.parametrize(
    ("n", "before", "after"),
    [
        ("64", "y: f32 = a * rsqrt(size(N))", "y: f32 = a * 0.25"),
        ("[1, 64]", "y: f32 = a * rsqrt(size(N))", "y: f32 = a * 0.125"),
        ("32", "y: f32 = a * log(size(N))", "y: f32 = a * log(size(N) - 1)"),
    ],
)
def test_another_number_is_another_function(
    tmp_path: Path, n: str, before: str, after: str
) -> None:
    step = judged(tmp_path, n, before, after)
    assert step.change == "math"
    assert step.witness is not None


def test_a_mean_is_of_as_many_elements_as_there_are(tmp_path: Path) -> None:
    mean = "m: f32 = sum(a, axis=-1) / 32\n"
    step = judged(
        tmp_path,
        "32",
        f"{mean}y: f32 = sum((a - m) * (a - m), axis=-1) / 32",
        f"{mean}y: f32 = sum(a * a, axis=-1) / 32 - m * m",
    )
    assert step.change == "rounding"


def graph(text: str) -> Region:
    one = parse_program(text).bind({})
    return Region(one, one)


def test_a_rounded_constant_is_folded_to_the_number_it_is() -> None:
    text = "a: f32[2]\nl: f32 = log(4096)\ny: f32 = a * l\nreturn y\n"
    given = f"a: f32[2]\ny: f32 = a * {LOG_4096}\nreturn y\n"
    assert Fraction(LOG_4096) == Fraction(float(np.float32(np.log(4096.0))))
    assert folded(graph(text).before).key() == graph(given).before.key()


def test_what_reads_an_input_is_not_folded() -> None:
    text = "a: f32[2]\nl: f32 = a * 0 + 3\ny: f32 = a * l\nreturn y\n"
    assert folded(graph(text).before).key() == graph(text).before.key()


def test_every_size_must_be_exhausted_where_the_size_is_a_number() -> None:
    def region(n: int) -> Region:
        before = f"a: e5m2[1]\ny: e5m2 = a / {n}\nreturn y\n"
        after = f"a: e5m2[1]\ni: e5m2 = 1 / {n}\ny: e5m2 = a * i\nreturn y\n"
        return Region(parse_program(before).bind({}), parse_program(after).bind({}))

    assert exhausted([region(4)]) is not None
    assert exhausted([region(4), region(3)]) is None
