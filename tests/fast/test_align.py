"""Values of two models get common names where they are the same; opaque ones are never guessed."""

from __future__ import annotations

from datetime import date

from lastbit.importers.align import aligned
from lastbit.importers.imported import Imported, Value
from lastbit.importers.writer import Out, Writer
from lastbit.lint import judged_plans, prepared
from lastbit.plan_imports import common_results
from lastbit.plan_model import Plan
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


def test_an_opaque_operator_of_a_value_that_differs_is_unknown() -> None:
    head = ("t", "aten.mul", "x * 3")
    before = model(head, ("o", "aten.sort", "?t"), ("y", "aten.mul", "o * 3"))
    after = model(("t", "aten.mul", "x * 5"), ("o", "aten.sort", "?t"), ("y", "aten.mul", "o * 3"))
    changes = {step.at: step.change for step in compared(before, after).steps}
    assert changes == {("t",): "math", ("o",): "unknown"}
