"""Recorded statements have the names, lines, columns and sizes of the function."""

from __future__ import annotations

import sys

from recorded import SPECS, node, program

import lastbit
from lastbit.printing import print_program


def statements(function) -> list[str]:
    lines = print_program(program(function)).splitlines()
    return lines[len(SPECS) : -1]


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
        for _ in range(1500):
            x = x + 1
        return x.to("f32")

    assert sys.getrecursionlimit() < 1500
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
    assert place.file.endswith("test_tracer_names.py")
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
