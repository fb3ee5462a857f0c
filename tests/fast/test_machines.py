"""The step of a matrix unit reproduces the products of an NVIDIA H200 and each published fact."""

import json
import math
import re
from fractions import Fraction
from pathlib import Path

import pytest

from lastbit.formats import BF16, E4M3FN, F16, ZERO, Exact, Format, decode, format_of, identical
from lastbit.machines import (
    MACHINES,
    MachineError,
    Product,
    StepError,
    machine_of,
    product,
    result_code,
    step,
    unit_of,
)
from lastbit.machines.table import UNITS
from lastbit.rounding import Rounding, round_exact
from lastbit.schedule import fold, parse_schedule

DATA = json.loads((Path(__file__).parents[1] / "data" / "h200_products.json").read_text())
HOPPER = unit_of("hopper/16")
HOPPER_FP8 = unit_of("hopper/32")
ONE = Fraction(1)


def two(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


def bf16(a: Exact, b: Exact = ONE) -> Product:
    return product(a, b, BF16)


class Emulation:
    """The elements are products; sums are matrix-unit steps, or binary32 sums to nearest even."""

    def __init__(self, products: list[Product]) -> None:
        self.products = products

    def zero(self, fmt: str) -> Exact:  # noqa: D102  an algebra
        return Fraction(0)

    def leaf(self, i: int) -> Product:  # noqa: D102  an algebra
        return self.products[i]

    def add(self, a: Fraction, b: Fraction, fmt: str) -> Exact:  # noqa: D102  an algebra
        return round_exact(a + b, Rounding.of(fmt))

    def fused(  # noqa: D102  an algebra
        self, acc: Exact, terms: list[Product], machine: str, fmt: str
    ) -> Exact:
        return step(unit_of(machine), acc, terms, fmt)


def codes(text: str, digits: int) -> list[int]:
    return [int(text[i : i + digits], 16) for i in range(0, len(text), digits)]


def operands(text: str, fmt: Format) -> list[Exact]:
    return [decode(code, fmt) for code in codes(text, fmt.bits // 4)]


@pytest.mark.parametrize("entry", DATA["products"], ids=lambda entry: entry["name"])
def test_the_products_of_an_h200_are_reproduced_bit_for_bit(entry: dict[str, object]) -> None:
    fmt = format_of(entry["format"])
    schedule = parse_schedule(entry["schedule"])
    columns = [operands(column, fmt) for column in entry["b_columns"]]
    got = []
    for text in entry["a"]:
        row = operands(text, fmt)
        for column in columns:
            products = [product(a, b, fmt) for a, b in zip(row, column, strict=True)]
            got.append(result_code(fold(schedule, entry["k"], "f32", Emulation(products))))
    want = [code for text in entry["c"] for code in codes(text, 8)]
    assert len(want) >= 4
    assert got == want


def test_a_product_is_not_normalised() -> None:
    assert bf16(Fraction(3, 2), Fraction(3, 2)) == Product(Fraction(9, 4), 0)
    # With exponent 1 for 9/4, the unit of the cut would be 2^-24, and 2^-25 would be lost.
    big = bf16(Fraction(3, 2), Fraction(3, 2))
    small = bf16(two(-25))
    assert step(HOPPER, Fraction(-9, 4), [big, small]) == 0  # c is normalised
    assert step(HOPPER, Fraction(0), [big, small, bf16(-Fraction(3, 2), Fraction(3, 2))]) == two(
        -25
    )


def test_a_subnormal_operand_keeps_the_smallest_exponent() -> None:
    assert bf16(two(-133), ONE) == Product(two(-133), -126)
    assert product(two(-24), two(-24), F16) == Product(two(-48), -28)
    assert product(Fraction(3, 512), Fraction(2), E4M3FN) == Product(Fraction(3, 256), -5)


def test_terms_below_the_cut_vanish_one_by_one() -> None:
    # Eight times 2^-26 is 2^-23, an ulp of 1; each lies below 2^(0 - 25).
    small = [bf16(two(-26))] * 8
    assert step(HOPPER, ONE, small) == 1
    assert step(HOPPER, Fraction(0), small) == two(-23)  # c takes part in the alignment
    assert step(HOPPER, ONE, [bf16(two(-25))] * 4) == 1 + two(-23)
    assert step(HOPPER, two(25), [bf16(ONE), bf16(-two(25))]) == 1
    assert step(HOPPER, two(26), [bf16(ONE), bf16(-two(26))]) == 0


def test_a_term_is_cut_toward_zero() -> None:
    # -2^-26 goes to 0; rounded down to a multiple of 2^-25 it would give 1 - 2^-24.
    assert step(HOPPER, ONE, [bf16(-two(-26))]) == 1


def test_cdna3_adds_the_accumulator_late_and_rounds_down() -> None:
    unit = unit_of("cdna3/8")
    assert step(unit, -two(-60), [bf16(ONE)]) == 1 - two(-24)  # the accumulator, down
    assert step(unit, two(-60), [bf16(ONE)]) == 1
    assert step(unit, Fraction(0), [bf16(ONE), bf16(-two(-25))]) == 1  # a product, toward zero
    # Products are not aligned to the accumulator but down to 8 bits more: 2^-25 counts as a tie.
    assert step(unit, 1 + two(-23), [bf16(two(-24))]) == 1 + two(-22)
    assert step(unit, ONE, [bf16(two(-24))]) == 1
    assert step(unit, ONE, [bf16(two(-24)), bf16(two(-30))]) == 1 + two(-23)
    assert step(unit, ONE, [bf16(two(-24)), bf16(two(-33))]) == 1  # below the 32nd bit
    top = bf16(two(127), Fraction(2))
    assert math.isnan(step(unit, Fraction(0), [top, bf16(-two(127), Fraction(2))]))  # inf - inf
    assert step(unit, Fraction(0), [top]) == math.inf
    assert identical(step(unit, ONE, [bf16(-ONE)]), Fraction(0))


def test_cdna3_adds_8_bit_operands_in_halves() -> None:
    unit = unit_of("cdna3/16")

    def fp8(a: Fraction, b: Fraction = ONE) -> Product:
        return product(a, b, format_of("e5m2fnuz"))

    assert step(unit, -two(-26), [fp8(ONE)]) == 1  # so small an accumulator counts as zero
    assert step(unit, -two(-25), [fp8(ONE)]) == 1 - two(-24)
    # Odd places: cut at 2^(-1 - 24), then rounded down to 2^-24. Beside the 1 it would be cut off.
    odd = [fp8(ONE), fp8(-two(-13), two(-12))]
    assert step(unit, Fraction(0), odd) == 1 - two(-24)
    assert step(unit, Fraction(0), [odd[0], fp8(Fraction(0)), odd[1]]) == 1


def test_cdna2_flushes_and_rounds_pairs() -> None:
    four, two_at_once = unit_of("cdna2/4"), unit_of("cdna2/2")
    assert step(four, ONE, [bf16(two(-127), two(127))]) == 1  # a subnormal operand is zero
    assert math.isnan(step(four, ONE, [bf16(two(-127), math.inf)]))
    assert step(four, two(-127), [bf16(two(-126), ONE)]) == two(-126)  # and an accumulator
    assert step(four, Fraction(0), [bf16(two(-64), two(-63))]) == 0  # and a product
    big = [bf16(two(12), two(12)), bf16(ONE)]
    assert step(four, Fraction(0), [*big, *big]) == two(25)  # each pair rounds to 2^24
    assert step(four, Fraction(0), [big[0], big[0], big[1], big[1]]) == two(25)
    assert step(two_at_once, ONE, [bf16(two(-24)), bf16(two(-24))]) == 1 + two(-23)
    assert step(two_at_once, step(two_at_once, ONE, [bf16(two(-24))]), [bf16(two(-24))]) == 1


def test_plain_arithmetic_rounds_each_operation_or_contracts() -> None:
    one_and_more = 1 + two(-12)
    f32 = format_of("f32")
    square = product(one_and_more, one_and_more, f32)
    assert step(unit_of("ieee/1"), -1 - two(-11), [square]) == 0
    assert step(unit_of("ieee_fma/1"), -1 - two(-11), [square]) == two(-24)
    tiny = product(-two(-100), two(-100), f32)
    assert identical(step(unit_of("ieee_fma/1"), -0.0, [tiny]), -0.0)  # zeros keep their signs
    assert identical(step(unit_of("ieee_fma/1"), -0.0, [product(Fraction(0), ONE, f32)]), ZERO)
    assert result_code(math.nan, unit=unit_of("ieee/1")) == 0x7FC00000


def test_the_floor_of_zeros_is_that_of_the_machine() -> None:
    # Two products of exponent e at the floor -133: the smaller is cut where the floor counts.
    for name, floor in (("volta/4", -131), ("ampere/8", -132), ("hopper_mma/16", -133)):
        assert unit_of(name).floor[0] == floor
    tie, more = product(two(-12), two(-13), F16), product(two(-24), two(-22), F16)
    # 2^-25 and 2^-46: a binary16 tie and a little more, which is lost where the cut is above it.
    assert step(unit_of("hopper/16"), ZERO, [tie, more], "f16") == two(-24)
    assert step(unit_of("ampere/8"), ZERO, [tie, more], "f16") == 0


def test_a_zero_counts_with_the_floor_exponent() -> None:
    # 2^-149 in three pieces of at most 8 digits. The second loses its tail at 2^(-133 - 25); with
    # the exponent -150 of the first nothing would be lost.
    pieces = [
        bf16(255 * two(-83), two(-74)),
        bf16(255 * two(-83), two(-82)),
        bf16(two(-83), two(-82)),
    ]
    assert [p.exponent for p in pieces] == [-150, -158, -165]
    assert sum((p.value for p in pieces), Fraction(0)) == two(-149)
    assert step(HOPPER, Fraction(0), pieces) == 0
    assert step(HOPPER, Fraction(0), [bf16(two(-75), two(-74))]) == two(-149)


def test_the_floor_of_a_binary16_result_is_higher() -> None:
    # A tie and a little more, which is cut at 2^(-21 - 25); with the exponent -25 it would count.
    tie, more = product(two(-12), two(-13), F16), product(two(-24), two(-23), F16)
    assert (tie.exponent, more.exponent) == (-25, -28)
    assert step(HOPPER, Fraction(0), [tie, more], "f16") == 0
    assert step(HOPPER, Fraction(0), [tie, product(two(-23), two(-23), F16)], "f16") == two(-24)


def test_the_result_is_cut_to_its_fraction_bits() -> None:
    assert step(HOPPER, ONE, [bf16(two(-23)), bf16(two(-24))]) == 1 + two(-23)
    assert step(HOPPER, -ONE, [bf16(-two(-23)), bf16(-two(-24))]) == -1 - two(-23)
    assert step(HOPPER_FP8, ONE, [bf16(two(-13)), bf16(two(-13))]) == 1 + two(-12)
    assert step(HOPPER_FP8, ONE, [bf16(ONE), bf16(two(-13))]) == 2  # 13 bits at exponent 1
    assert step(HOPPER, Fraction(0), [bf16(two(-75), two(-74))]) == two(-149)
    assert step(HOPPER, Fraction(0), [bf16(two(-75), two(-75))]) == 0


def test_a_binary16_result_rounds_to_nearest_even() -> None:
    assert step(HOPPER, ONE, [Product(two(-11), -11)], "f16") == 1
    assert step(HOPPER, ONE + two(-10), [Product(two(-11), -11)], "f16") == 1 + two(-9)


def test_a_zero_result_has_no_sign() -> None:
    for products in ([bf16(-0.0)], [bf16(Fraction(0), -ONE)], [bf16(ONE), bf16(-ONE)], []):
        assert identical(step(HOPPER, -0.0, products), Fraction(0))
    assert result_code(Fraction(0)) == 0


def test_special_values() -> None:
    inf = math.inf
    assert step(HOPPER, ONE, [bf16(inf)]) == inf
    assert step(HOPPER, ONE, [bf16(inf, -ONE), bf16(ONE)]) == -inf
    for products in ([bf16(inf, Fraction(0))], [bf16(inf), bf16(-inf)], [bf16(math.nan)]):
        assert result_code(step(HOPPER, ONE, products)) == 0x7FFFFFFF
        assert result_code(step(HOPPER, ONE, products, "f16"), "f16") == 0x7FFF
    assert result_code(step(HOPPER, -inf, [bf16(inf)])) == 0x7FFFFFFF
    assert bf16(-0.0, inf).value != bf16(-0.0, inf).value
    assert identical(bf16(-0.0, ONE).value, -0.0)
    assert identical(bf16(-0.0, -ONE).value, Fraction(0))


def test_overflow_gives_infinity_although_the_result_is_cut() -> None:
    top = bf16(two(127))
    assert step(HOPPER, Fraction(0), [top]) == two(127)
    assert step(HOPPER, Fraction(0), [top, top]) == math.inf
    assert step(HOPPER, Fraction(0), [bf16(-two(127), Fraction(2))]) == -math.inf
    assert result_code(step(HOPPER, Fraction(0), [top, top])) == 0x7F800000


def test_a_step_does_not_depend_on_the_order_of_its_terms() -> None:
    products = [bf16(two(-i) * (-1) ** i, Fraction(3, 2)) for i in range(16)]
    results = {step(HOPPER, ONE, products[i:] + products[:i]) for i in range(16)}
    assert len(results) == 1


def test_the_table_says_what_was_measured() -> None:
    measured = {(unit.name, inputs) for unit in UNITS if unit.status == "measured"
                for inputs in unit.inputs}  # fmt: skip
    assert measured == {
        ("hopper/16", "f16"),
        ("hopper/16", "bf16"),
        ("hopper/32", "e4m3fn"),
        ("hopper/32", "e5m2"),
    }
    assert all(unit.source for unit in UNITS)
    assert all((unit.status == "measured") == (unit.measurement is not None) for unit in UNITS)
    for unit in UNITS:
        if unit.measurement is not None:
            assert unit.measurement.outputs.keys() == set(unit.inputs)
    text = str(HOPPER.measurement)
    assert text.startswith("NVIDIA H200, driver 580.159.04, torch 2.11.0+cu130, triton 3.6.0, ")
    assert text.endswith(" outputs compared, none differs")
    assert len({unit.name for unit in UNITS}) == len(UNITS)  # a width names one unit


def test_units_are_found_by_operand_and_by_width() -> None:
    hopper = machine_of("hopper")
    assert hopper.unit("bfloat16") == hopper.unit("f16") == unit_of("hopper/16")
    assert hopper.unit("e4m3fn") == unit_of("hopper/32")
    assert (HOPPER_FP8.width, HOPPER_FP8.fraction_bits, HOPPER_FP8.result_bits) == (32, 13, 13)


KNOWN = "Known: " + ", ".join(sorted(MACHINES)) + "."


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hoper/16", f"machine 'hoper': it is not known. Did you mean 'hopper'? {KNOWN}"),
        ("tpu/16", f"machine 'tpu': it is not known. {KNOWN}"),
        ("hopper/17", "machine 'hopper': no step takes 17 products. "
         "Known: 16 (f16, bf16), 32 (e4m3fn, e5m2), 8 (tf32)."),
        ("hopper", "machine 'hopper': it names no unit. Write machine/width, such as hopper/16."),
    ],
)  # fmt: skip
def test_an_unknown_unit_lists_the_known_ones(name: str, message: str) -> None:
    with pytest.raises(MachineError, match=f"^{re.escape(message)}$"):
        unit_of(name)


def test_an_operand_that_no_unit_takes_is_refused() -> None:
    message = "machine 'volta': no matrix unit takes bf16. Known: f16."
    with pytest.raises(MachineError, match=f"^{re.escape(message)}$"):
        machine_of("volta").unit("bf16")


def test_a_step_that_is_not_known_is_refused() -> None:
    def refused(name: str, count: int, fmt: str = "f32") -> str:
        with pytest.raises(StepError) as caught:
            step(unit_of(name), Fraction(0), [bf16(ONE)] * count, fmt)
        return str(caught.value)

    assert refused("hopper_mma/32", 32) == (
        "matrix unit `hopper_mma/32`: its step is not modelled: "
        "mma.sync adds two interleaved groups of 16, and the accumulator late; "
        "several models fit the published vectors."
    )
    assert refused("hopper/16", 17) == (
        "matrix unit `hopper/16`: a step takes 16 products, 17 were given."
    )
    assert refused("hopper/16", 1, "bf16") == (
        "matrix unit `hopper/16`: its accumulator may be f32 or f16, not bf16."
    )
