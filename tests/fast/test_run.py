"""Values that are given to a graph are checked before it runs."""

from fractions import Fraction

import pytest

from lastbit.errors import InputError
from lastbit.run import run_bits
from lastbit.text import parse_program

GRAPH = """
x: bf16[2]
y: bf16 = x * 3
"""


@pytest.mark.parametrize("values", ["12", ["1", "2"], [b"1", 2], [None, 1], [[1, 2j]]])
def test_what_is_no_number_is_refused(values: object) -> None:
    with pytest.raises(InputError, match=r"the input `x` holds .*, which is no number"):
        run_bits(parse_program(GRAPH).bind({}), {"x": values})


@pytest.mark.parametrize("values", [[1, 2], [[1.0], (Fraction(2),)]])
def test_numbers_may_be_nested(values: object) -> None:
    assert run_bits(parse_program(GRAPH).bind({}), {"x": values})["y"] == ("0x4040", "0x40c0")
