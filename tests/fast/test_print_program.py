"""A program prints as text that parses back to the same program, symbols and all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lastbit.errors import Place
from lastbit.plan import load_plan
from lastbit.printing import print_program
from lastbit.registry import load_rules
from lastbit.text import Program, parse_program

ROOT = Path(__file__).parents[2]


def bare(program: Program) -> Program:
    """Return a program without the places of its lines."""
    statements = tuple(replace(st, place=Place()) for st in program.statements)
    return Program(statements, program.outputs)


def test_every_construct_of_a_statement_comes_back() -> None:
    text = """
        x: bf16[M, 2 * K]
        w: f32[2 * K, N]
        g: bf16 = matmul(x, w) acc f32 split(max(1, 132 // ceil(M / 128)), tile=64)
        q: e4m3fn[M, N] = g / 3 saturate flush
        r: real = -q * '0x1.8p+1'
        z: f16 = r rtz
        return q, z
    """
    program = parse_program(text)
    printed = print_program(program)
    assert bare(parse_program(printed)) == bare(program)
    assert print_program(parse_program(printed)) == printed


def test_the_example_and_the_graph_of_every_rule_come_back() -> None:
    from datetime import date

    plan = load_plan(str(ROOT / "examples" / "qwen3_8b_ffn.toml"), date(2026, 1, 1))
    programs = [plan.program, *(parse_program(rule.graph) for rule in load_rules().values())]
    assert len(programs) > 50
    for program in programs:
        assert bare(parse_program(print_program(program))) == bare(program)


@pytest.mark.parametrize("constant", ["-0.0", "inf", "-inf", "nan", "1 / 3", "1e-6", "ln2"])
def test_a_constant_comes_back(constant: str) -> None:
    from lastbit.printing import print_graph

    graph = parse_program(f"x: f32[2]\ny: f32 = x * {constant}").bind({})
    again = parse_program(print_graph(graph)).bind({})
    assert again.key() == graph.key()
    if constant == "-0.0":
        zero = parse_program("x: f32[2]\ny: f32 = x * 0").bind({})
        assert zero.key() != graph.key()
