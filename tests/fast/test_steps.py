"""The graphs on both sides of a step of a plan can be run at any sizes."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

import lastbit
from lastbit.errors import InputError
from lastbit.rule import RejectedError

PLAN = """
schema = 1

[graph]
symbols = { M = [1, 1024], K = 4096, B = 64 }
text = \"\"\"
x: f32[M, K]
y: f32 = sum(x, axis=1) acc f32 seq
z: f32 = y / 3
r: bf16 = z
\"\"\"

[[transform]]
rule = "block-partials"
at = ["y"]
block = "B"

[[transform]]
rule = "drop-rounding"
at = ["z"]
"""


@pytest.fixture
def plan(tmp_path: Path) -> str:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN, "utf-8")
    return str(path)


def test_a_step_is_applied_at_the_sizes_given(plan: str) -> None:
    before, after = lastbit.step_graphs(plan, "y.block-partials", {"M": 1, "K": 4, "B": 2})
    x = [1, 2**-8, 2**-24, 2**-24]  # the last two count only where they are added first
    assert lastbit.run_bits(before, {"x": x}, ["y"]) == {"y": ("0x3f808000",)}
    assert lastbit.run_bits(after, {"x": x}, ["y"]) == {"y": ("0x3f808001",)}
    _, one = lastbit.step_graphs(plan, "y.block-partials", {"M": 1, "K": 4, "B": 2}, block=4)
    assert lastbit.run_bits(one, {"x": x}, ["y"]) == {"y": ("0x3f808000",)}


def test_earlier_steps_that_stay_are_applied_first(plan: str) -> None:
    before, after = lastbit.step_graphs(plan, "z.drop-rounding", {"M": 1, "K": 4, "B": 2})
    x = [1, 2**-8, 2**-24, 2**-24]
    assert lastbit.run_bits(before, {"x": x}, ["y"]) == {"y": ("0x3f808001",)}
    assert lastbit.run_graph(after, {"x": x}, ["y"])["y"].item() == Fraction(0x808001, 2**23)


@pytest.mark.parametrize(
    ("step", "sizes", "parameters", "message"),
    [
        ("y.split-k", {}, {}, "unknown step 'y.split-k'. "
         "Allowed: y.block-partials, z.drop-rounding."),
        ("y.block-partials", {"N": 1}, {}, "unknown symbol 'N'. Allowed: B, K, M."),
        ("y.block-partials", {}, {"blok": 1},
         "unknown parameter of block-partials 'blok'. Did you mean 'block'?"),
    ],
)  # fmt: skip
def test_what_the_plan_does_not_have_is_refused(
    plan: str, step: str, sizes: dict[str, int], parameters: dict[str, int], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(f"plan.toml: {message}")):
        lastbit.step_graphs(plan, step, sizes, **parameters)


def test_a_rule_that_does_not_apply_at_these_sizes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.replace('rule = "block-partials"', 'rule = "drop-tail"')
                    .replace('block = "B"', "block = 2"), "utf-8")  # fmt: skip
    message = "requirement `block does not divide K` fails for K=4, block=2"
    with pytest.raises(RejectedError, match=message):
        lastbit.step_graphs(str(path), "y.drop-tail", {"M": 1, "K": 4})


def test_what_has_no_bits_is_refused() -> None:
    graph = lastbit.parse_program("x: f32[1]\ny: real = x / 3\nz: f32 = y").bind({})
    with pytest.raises(InputError) as caught:
        lastbit.run_bits(graph, {"x": 1}, ["y"])
    assert str(caught.value) == (
        "the value `y` is not rounded, so it has no bits. Take its number, with `run_graph`."
    )
    with pytest.raises(InputError) as caught:
        lastbit.run_bits(graph, {"x": 1}, ["w"])
    assert str(caught.value) == "the graph has no value 'w'. Allowed: x, y, z."
    assert lastbit.run_bits(graph, {"x": 1}) == {"z": ("0x3eaaaaab",)}
