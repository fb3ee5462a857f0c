"""A script holds what it needs and no more, and refuses what it cannot express."""

import ast
import dataclasses
import itertools

import pytest
from scripts import check, make_witness, step_of

from lastbit.errors import InputError
from lastbit.result import Program, Witness, WitnessInput
from lastbit.script import write_script


def test_names_that_python_or_the_script_uses_are_changed(run_scripts):
    names = ["exp", "np", "Fraction", "bf16", "f32_bits", "terms1", "part1", "print", "match", "_"]
    names += ["before", "INPUTS", "hopper_16_f32", "type", "π", "fi", "exp_", "x", "__debug__"]
    lines = [f"{name}: bf16[2, 2]" for name in names[:3]]
    for old, name in itertools.pairwise(names[2:]):
        lines.append(f"{name}: bf16 = exp({old} / 8) + np * exp  # of `{old}`")
    before = "\n".join([*lines, "ﬁ: f32 = matmul(__debug__, Fraction) acc f32 fused(16, hopper)"])
    after = before.replace("fused(16, hopper)", "pairwise(1)")
    scripts = check(run_scripts, {"names": make_witness(before, after, output="ﬁ")})
    assert "# bf16: bf16 = exp(Fraction / 8) + np * exp\n" in scripts["names"]
    assert (
        "    bf16_ = bf16(add(exp(div(Fraction_, Fraction(8))), mul(np_, exp_)))"
        in (scripts["names"])
    )


def test_texts_of_the_result_stay_texts(run_scripts):
    line = 'y: bf16 = x / 3  # \rimport os\x0c""" \\'
    witness = make_witness(f"x: bf16[1]\n{line}\n", "x: bf16[1]\ny: bf16 = x * (1 / 3)\n")
    title = 'quotes """ and \'\'\', \\N{oops} \\ and\nnew\r lines, \x00, \udc80 and {braces}"'
    script = write_script(step_of(witness, title), witness)
    assert ast.get_docstring(ast.parse(script)).split("\n")[2].startswith('quotes """ and')
    assert run_scripts({"texts": script})["texts"][0] == 0
    assert "import os" not in script


def test_other_bits_than_those_of_the_witness_end_with_1(run_scripts):
    text = "x: bf16[1]\ny: bf16 = x / 3\n"
    witness = make_witness(text, text)
    edited = dataclasses.replace(witness, before=("0x3e80",), after=("0x3e81",))
    assert run_scripts({"edited": write_script(step_of(edited), edited)}) == {
        "edited": [
            1,
            "y[0] as bf16: 0x3e80 -> 0x3e80\nThe witness says 0x3e80 -> 0x3e81.\n",
        ]
    }


def test_a_script_holds_what_it_needs_and_no_more():
    text = "x: f32[4]\ny: f32 = sum(x, axis=0) acc f32 seq\n"
    witness = make_witness(text, text.replace("seq", "pairwise(2)"))
    script = write_script(step_of(witness), witness)
    assert script == write_script(step_of(witness), witness)
    tree = ast.parse(script)
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert defined <= read
    assert defined == {
        *("before", "after", "elementwise", "exact", "numbers", "floor_log2", "rounded", "add"),
        *("float_bits", "along", "running", "f32_bits", "f32", "bits", "main"),
    }
    assert "Decimal" not in script
    assert max(map(len, script.splitlines())) <= 100


REFUSED = {
    "opaque('topk', x)": "the opaque function 'topk'",
    "round(x, bf16, sr)": "stochastic rounding",
    "sum(x, axis=0) acc f32 any_order": "a sum in any order, which has a set of results",
    "argmax(x, axis=0)": "the index of any of several equal elements",
    "sum(x, axis=0) acc f32 fused(16, hopper)": (
        "a step of a matrix unit over terms that are no products"
    ),
    "sum(x * x, axis=0) acc f32 fused(32, hopper_mma)": (
        "this step of the matrix unit `hopper_mma/32`"
    ),
    "sum(x * abs(x), axis=0) acc f32 fused(16, hopper)": (
        "a step of a matrix unit over operands of no format"
    ),
    "sum(x * x, axis=0) acc f32 split(2, inner=seq, outer=fused(16, hopper))": (
        "a sum that adds some products within a matrix unit, some not"
    ),
    "sum(broadcast(x[0:1], 20000), axis=0) acc f32 seq": "a sum of 20000 terms",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_what_a_script_cannot_express_is_refused(expression):
    text = f"x: bf16[4]\ny: f32 = {expression}\n"
    inputs = {"x": WitnessInput("bf16", (4,), ("0x1p0",) * 4)}
    program = Program("x: bf16[4]\ny: f32 = x\n", text)
    witness = Witness("rounding", inputs, ("0x0",), ("0x1",), "f32", program, "BITS", "y", ((0,),))
    with pytest.raises(InputError) as caught:
        write_script(step_of(witness), witness)
    assert str(caught.value) == (
        f"a script cannot express {REFUSED[expression]}. Run `lastbit replay` without `--script`."
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"program": None}, "it has no program"),
        ({"output": "z"}, "its program 'before' has no value 'z'"),
        ({"index": ((1,),)}, "[1] is no index into 'y' with the shape [1]"),
        ({"index": ((0, 0),)}, "[0, 0] is no index into 'y' with the shape [1]"),
        ({"inputs": {}}, "it has no input 'x'"),
        (
            {"inputs": {"x": WitnessInput("f32", (1,), ("0x1p0",))}},
            "input 'x' has another shape or format than the program",
        ),
    ],
)
def test_a_witness_that_does_not_fit_its_program_is_refused(changes, reason):
    text = "x: bf16[1]\ny: bf16 = x / 3\n"
    witness = dataclasses.replace(make_witness(text, text), **changes)
    with pytest.raises(InputError) as caught:
        write_script(step_of(witness), witness)
    assert str(caught.value) == f"the witness cannot be used: {reason}."
