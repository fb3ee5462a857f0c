"""A witness of another rounding mode, or of two roundings for one, lies on or beside a midpoint."""

from collections.abc import Callable

import pytest

import lastbit
from lastbit.run import run_bits
from lastbit.text import parse_program

Function = Callable[..., lastbit.Tensor]
PAIRS: list[tuple[str, Function, Function, str]] = [
    ("f32", lambda x: (x * 16).to("int8"), lambda x: (x * 16).to("int8", mode="rna"), "grid"),
    ("f32", lambda x: x.to("bf16"), lambda x: x.to("bf16", mode="rna"), "rounding"),
    ("f64", lambda x: x.to("bf16"), lambda x: x.to("f32").to("bf16"), "rounding"),
    ("f32", lambda x, y: (x + y).to("bf16"), lambda x, y: (x + y).to("f32").to("bf16"),
     "rounding"),
    ("f32", lambda x, y, z: (x * y + z).to("bf16"),
     lambda x, y, z: ((x * y).to("f32") + z).to("bf16"), "rounding"),
]  # fmt: skip


@pytest.mark.parametrize(("fmt", "before", "after", "kind"), PAIRS)
def test_ties_are_tried(fmt: str, before: Function, after: Function, kind: str) -> None:
    names = before.__code__.co_varnames[: before.__code__.co_argcount]
    found = lastbit.check(before, after, inputs=dict.fromkeys(names, f"{fmt}[4]"))
    assert found.change == kind
    witness = found.witness
    assert witness is not None
    assert witness.program is not None
    inputs = {name: value.values() for name, value in witness.inputs.items()}
    sides = [
        run_bits(parse_program(text).bind({}), inputs)
        for text in (witness.program.before, witness.program.after)
    ]
    (place,) = witness.index or ()
    shown = [(side[witness.output][place[0]],) for side in sides]
    assert shown == [witness.before, witness.after]
    assert shown[0] != shown[1]
