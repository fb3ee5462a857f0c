"""An example that does not show what it states says why, and one that cannot be run is an error."""

import dataclasses

import pytest

from lastbit.change import Change
from lastbit.examples import ExampleError, check_example
from lastbit.registry import find_rule
from lastbit.rule import Example, breaks, holds


def test_an_example_that_states_the_wrong_thing_does_not_pass() -> None:
    split = find_rule("RED201")
    same = check_example(split, breaks({"n": 2}, x=(1, 2, 3, 4)))
    assert (same.passed, same.message) == (False, "the bits are the same.")
    other = check_example(split, holds({"n": 2}, x=(2**24, 1, 1, 1)))
    assert not other.passed
    assert other.message == "the bits differ: reassociation, where the rule claims reassociation."
    tail = find_rule("RED215")
    refused = check_example(tail, holds({"block": 3}, x=1))
    assert not refused.passed
    assert refused.message == (
        "RED215 drop-tail at `y`: requirement `block does not divide K` fails for K=3, block=3."
    )
    kept = check_example(
        tail, Example("rejects", {"x": 1}, {"block": 2}, "block does not divide K")
    )
    assert (kept.passed, kept.message) == (False, "`block does not divide K` refuses nothing here.")


def test_a_claim_that_is_too_strict_does_not_pass() -> None:
    rule = dataclasses.replace(find_rule("RED215"), claim=Change.ROUNDING)
    outcome = check_example(rule, breaks({"block": 2}, x=1))
    assert not outcome.passed
    assert outcome.message == "the bits differ: math, where the rule claims rounding."


def test_a_difference_on_a_run_that_is_not_ordinary_says_so() -> None:
    # 2^127 + 2^127 overflows before -2^127 arrives; the other half cancels first.
    outcome = check_example(
        find_rule("RED201"), breaks({"n": 2}, x=("0x1p127", "0x1p127", "-0x1p127", "-0x1p127"))
    )
    assert not outcome.ordinary


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({}, "the input `x` is missing"),
        ({"x": (1, 2, "one")}, "'one' is no number"),
        ({"x": (1, 2, None)}, "None is no number"),
        ({"x": 0.1}, "0.1 is no value of f32"),
        ({"x": ((1, 2), (3, 4), (5, 6))}, "`x` has 6 values for [4]"),
    ],
)
def test_an_example_that_does_not_fit_is_an_error(inputs: dict[str, object], reason: str) -> None:
    with pytest.raises(ExampleError) as error:
        check_example(find_rule("RED201"), Example("holds", inputs, {"n": 2}))
    assert str(error.value) == f"RED201: {reason}."
