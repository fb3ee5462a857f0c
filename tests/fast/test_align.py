"""Values of two models get common names where they are the same; opaque ones are never guessed."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from lastbit.errors import InputError
from lastbit.importers.align import aligned
from lastbit.importers.imported import Imported, Value
from lastbit.importers.writer import Out, Writer
from lastbit.lint import judged_plans, prepared
from lastbit.plan_imports import common_results
from lastbit.plan_model import Plan, Span
from lastbit.result import Result

DAY = date(2026, 1, 1)


def model(*nodes: tuple[str, str, str], file: str = "m.pt2") -> Imported:
    """Return a model of vectors: (name, operator, expression), `?` for an opaque operator of x."""
    writer = Writer(file)
    x = writer.input(Out("x", "bf16", ("4",)))
    for name, operator, expr in nodes:
        step = writer.step(operator, [Out(name, "bf16", ("4",))])
        if expr.startswith("?"):
            read = writer.values.get(expr[1:], x)
            assert isinstance(read, Value)
            step.opaque([read])
        else:
            step.give(expr)
    return writer.imported([nodes[-1][0]], {})


def compared(before: Imported, after: Imported) -> Result:
    second = aligned(before, after)
    programs = common_results(before.program, second.program)
    plan = Plan("m.pt2", "m", programs[0], programs[1], imports=(before, second))
    return judged_plans([prepared(plan)], "check", DAY, 0)


def test_shifted_names_are_matched_by_what_is_computed() -> None:
    before = model(("mul", "aten.mul", "x * 3"), ("add", "aten.add", "mul + x"))
    after = model(
        ("add", "aten.add", "x + 0.5"),
        ("mul", "aten.mul", "x * 3"),
        ("add_1", "aten.add", "mul + x"),
    )
    found = aligned(before, after)
    assert [st.name for st in found.program.statements] == ["x", "add_after", "mul", "add"]
    (step,) = compared(before, after).steps  # one value more, which nothing reads
    assert (step.at, step.change) == (("add_after",), "bitwise")


def test_what_readers_have_in_common_matches_what_they_read() -> None:
    before = model(("a", "aten.mul", "x * 3"), ("y", "aten.neg", "-a"))
    after = model(("b", "aten.div", "x / 3"), ("z", "aten.neg", "-b"))
    (step,) = compared(before, after).steps
    assert (step.at, step.change) == (("a",), "math")


def test_equal_opaque_operators_give_equal_results() -> None:
    before = model(("o", "aten.sort", "?x"), ("y", "aten.mul", "o * 3"))
    after = model(("p", "aten.sort", "?x"), ("y", "aten.mul", "p * 3"))
    assert not compared(before, after).steps


def test_different_opaque_operators_never_match() -> None:
    before = model(("o", "aten.sort", "?x"), ("y", "aten.mul", "o * 3"))
    after = model(("o", "aten.cumsum", "?x"), ("y", "aten.mul", "o * 3"))
    result = compared(before, after)
    assert {step.change for step in result.steps} == {"unknown"}
    assert any("opaque, in one graph only" in note for step in result.steps for note in step.notes)
    assert result.exit_code == 1
    for step in result.steps:  # the two results were drawn apart, which says nothing of the models
        assert (step.domain, step.drift, step.witness, step.evidence) == ((), None, None, ())
    errors = [one.message for one in result.findings if one.severity == "error"]
    assert errors == ["difference at `y`: the kind of change is unknown"]


def test_an_operator_of_one_model_only_gives_no_figures_of_a_composite() -> None:
    before = model(("o", "aten.lerp", "?x"), ("y", "aten.mul", "o * 2"))
    after = model(
        ("t", "aten.mul", "x * 3"), ("o", "aten.add", "t + x"), ("y", "aten.mul", "o * 2")
    )
    for pair in ((before, after), (after, before)):
        (step,) = compared(*pair).steps
        assert step.change == "unknown"
        assert (step.domain, step.drift, step.witness, step.evidence) == ((), None, None, ())


def test_an_opaque_operator_of_a_value_that_differs_is_unknown() -> None:
    head = ("t", "aten.mul", "x * 3")
    before = model(head, ("o", "aten.sort", "?t"), ("y", "aten.mul", "o * 3"))
    after = model(("t", "aten.mul", "x * 5"), ("o", "aten.sort", "?t"), ("y", "aten.mul", "o * 3"))
    changes = {step.at: step.change for step in compared(before, after).steps}
    assert changes == {("t",): "math", ("o",): "unknown"}


def one_result(dtype: str, *dims: str, expr: str, file: str) -> Imported:
    writer = Writer(file)
    writer.input(Out("x", "bf16", ("M", "4")))
    writer.step("aten.mul", [Out("y", dtype, dims)]).give(expr)
    return writer.imported(["y"], {"M": Span(1, 64, 16)})


TWICE = one_result("bf16", "M", "4", expr="x * 2", file="a.pt2")


@pytest.mark.parametrize(
    ("after", "text"),
    [
        (
            one_result("f64", "M", "4", expr="x * 2", file="b.pt2"),
            "b.pt2: the result `y` is f64, and bf16 in a.pt2. "
            "Return the same types, or cast both to one.",
        ),
        (
            one_result("bf16", "4 * M", expr="reshape(x * 2, 4 * M)", file="b.pt2"),
            "b.pt2: the result `y` has the shape [4 * M], and [M, 4] in a.pt2. "
            "Return the same shapes, or reshape one.",
        ),
        (
            one_result("bf16", "4", "M", expr="transpose(x * 2, 1, 0)", file="b.pt2"),
            "b.pt2: the result `y` has the shape [4, M], and [M, 4] in a.pt2. "
            "Return the same shapes, or reshape one.",
        ),
    ],
)
def test_results_of_another_type_or_shape_are_refused(after: Imported, text: str) -> None:
    with pytest.raises(InputError) as caught:
        aligned(TWICE, after)
    assert str(caught.value) == text


def test_one_shape_may_be_written_in_two_ways() -> None:
    after = one_result("bf16", "2 * M - M", "4", expr="x * 2", file="b.pt2")
    assert aligned(TWICE, after).results == ("y",)


def test_truth_values_are_no_bytes_though_one_format_holds_both() -> None:
    before = one_result("bool", "M", "4", expr="x < 2", file="a.pt2")
    after = one_result("u8", "M", "4", expr="x < 2", file="b.pt2")
    with pytest.raises(InputError, match="the result `y` is u8, and bool in "):
        aligned(before, after)


def test_models_that_write_to_other_inputs_are_refused() -> None:
    before = replace(TWICE, written=("x",))
    with pytest.raises(InputError) as caught:
        aligned(before, replace(TWICE, file="b.pt2"))
    assert str(caught.value) == (
        "b.pt2: it writes to none of its inputs, and a.pt2 to `x`. "
        "Give two models that write to the same."
    )


def test_inputs_in_another_order_are_matched_by_name_and_the_report_says_so() -> None:
    found = []
    for names in (("a", "b"), ("b", "a")):
        writer = Writer("m.pt2")
        for name in names:
            writer.input(Out(name, "bf16", ("4",)))
        writer.step("aten.sub", [Out("y", "bf16", ("4",))]).give("a - b")
        found.append(writer.imported(["y"], {}))
    note = "the inputs stand in another order, and are matched by their names"
    assert note in aligned(*found).assumed
    assert note not in aligned(found[0], found[0]).assumed
