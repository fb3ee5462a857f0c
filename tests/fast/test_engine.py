"""The fast engine gives the bits of an NVIDIA H200, and those of the exact oracle, everywhere."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matmuls import (
    CHAIN,
    H200,
    KINDS,
    UNITS,
    operands,
    oracle,
    recorded,
    with_cancelling_sums,
)

import lastbit
from lastbit.engine import narrow, product, tiles
from lastbit.engine.operands import Block
from lastbit.engine.product import Operand, OperandError, matrix_product
from lastbit.engine.tape import record
from lastbit.errors import LastbitError
from lastbit.formats import BF16, E4M3FN, F16, F32, format_of
from lastbit.machines import unit_of
from lastbit.predicting import draw_codes
from lastbit.schedule import parse_schedule


@pytest.mark.parametrize(("name", "fmt", "result", "schedule"), H200, ids=lambda x: str(x))
def test_every_product_of_an_h200_is_predicted_bit_for_bit(
    name: str, fmt: str, result: str, schedule: str
) -> None:
    a, b, c = recorded(name, result)
    got = lastbit.predict_matmul(a, b, "hopper", fmt, schedule)
    assert got.shape == c.shape == (64, 64)
    assert got.tobytes() == c.tobytes()


def test_the_chain_in_the_order_of_k_is_the_default() -> None:
    for name, fmt, result, schedule in H200[:6]:
        a, b, c = recorded(name, result)
        assert schedule.startswith("fused")
        assert lastbit.predict_matmul(a, b, "hopper", fmt).tobytes() == c.tobytes()


def test_the_other_schedule_gives_other_bits() -> None:
    # Else the tests above could not tell a promotion from a chain.
    a, b, c = recorded("smm_K1024_0", "_c")
    chain = lastbit.predict_matmul(a, b, "hopper", "e4m3fn")
    assert (chain != c).sum() > 4000


SHAPES = (
    "{step}",
    "{step}",
    "split(3, inner={step}, outer=seq)",
    "split(2, tile=4, deal=interleaved, inner={step}, outer=seq)",
    "split(4, inner={step}, outer=pairwise(1), partials=bf16)",
    "split(3, inner={step}, outer=stored(bf16))",
    "promote(20, f32, inner={step})",
    "lanes(2, inner={step}, outer=seq(acc=f16))",
    "seq",
    "pairwise(4)",
    "lanes(3, inner=pairwise(2), outer=seq)",
    "seq(acc=bf16)",
    "split(2, tile=4, deal=interleaved, inner=seq, outer=pairwise(1))",
)


def compare(seed: int, unit_index: int, shape: str, kinds: tuple[str, str], k: int) -> None:
    """Compare the engine with the oracle on drawn operands."""
    rng = np.random.default_rng(seed)
    unit = UNITS[unit_index]
    names = [name for name in unit.inputs if name != "f64"]
    left = format_of(names[seed % len(names)])
    right = format_of(names[seed // 7 % len(names)])
    if unit.width > 1 and max(left.container, right.container) > 8:
        right = left
    accumulators = [x for x in unit.accumulators if not (x == "f16" and left == BF16)]
    acc = accumulators[seed // 3 % len(accumulators)]
    width = (unit.width, max(1, unit.width // 2), max(1, unit.width - 1))[seed % 3]
    schedule = shape.format(step=f"fused({width}, {unit})")
    a, b = operands(rng, left, (2, k), kinds[0]), operands(rng, right, (k, 3), kinds[1])
    if seed % 4 == 0 and right.has_negative_zero:
        a, b = with_cancelling_sums(rng, a, b, right)
    got = lastbit.predict_matmul(
        a, b, unit.machine, (left.short, right.short), schedule, acc=acc, threads=1
    )
    want = oracle(a, b, (left, right), schedule, acc, unit)
    assert got.tolist() == want.tolist(), (unit.name, left, right, acc, schedule)


@settings(max_examples=250, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    unit_index=st.integers(0, len(UNITS) - 1),
    shape=st.sampled_from(SHAPES),
    kinds=st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)),
    k=st.sampled_from((1, 3, 16, 17, 40, 70)),
)
@example(seed=0, unit_index=0, shape="{step}", kinds=("near", "near"), k=40)
@example(seed=0, unit_index=1, shape="{step}", kinds=("bits", "bits"), k=70)
def test_the_engine_equals_the_oracle(
    seed: int, unit_index: int, shape: str, kinds: tuple[str, str], k: int
) -> None:
    compare(seed, unit_index, shape, kinds, k)


def chain_of(codes: Any, fmt: Any, schedule: str = CHAIN) -> tuple[Any, Block, Block]:
    tape = record(parse_schedule(schedule), codes.shape[1], "f32")
    left = Block(np.ascontiguousarray(codes.T), fmt, 0)
    right = Block(np.ascontiguousarray(codes.T), fmt, 1)
    return next(tape.chains()), left, right


def test_ordinary_operands_go_the_fast_way_and_others_do_not() -> None:
    rng = np.random.default_rng(1)

    def goes_fast(codes: Any, fmt: Any, schedule: str = CHAIN) -> bool:
        return narrow.fits(*chain_of(codes, fmt, schedule))

    for fmt in (BF16, F16):
        assert goes_fast(draw_codes((8, 64), fmt, "normal", rng), fmt)
        assert not goes_fast(draw_codes((8, 64), fmt, "bits", rng), fmt)
    assert goes_fast(draw_codes((8, 64), E4M3FN, "normal", rng), E4M3FN, "fused(32, hopper)")
    assert not goes_fast(draw_codes((8, 64), BF16, "wide", rng), BF16)
    assert not goes_fast(draw_codes((8, 64), BF16, "normal", rng), BF16, "fused(8, cdna3)")


@pytest.mark.parametrize(("fmt", "schedule"), [
    ("bf16", CHAIN), ("f16", "fused(8, ampere)"), ("f16", "fused(4, volta)"),
    ("e4m3fn", "fused(32, hopper)"), ("e5m2", "fused(32, blackwell)"),
])  # fmt: skip
def test_the_fast_way_equals_the_wide_one(
    monkeypatch: pytest.MonkeyPatch, fmt: str, schedule: str
) -> None:
    rng = np.random.default_rng(2)
    machine = schedule.partition(", ")[2].rstrip(")")
    a, b = (draw_codes(size, format_of(fmt), "normal", rng) for size in ((40, 300), (300, 50)))
    fast = lastbit.predict_matmul(a, b, machine, fmt, schedule)
    monkeypatch.setattr(narrow, "fits", lambda *given: False)
    wide = lastbit.predict_matmul(a, b, machine, fmt, schedule)
    assert fast.tobytes() == wide.tobytes()
    assert len(np.unique(fast)) > 1000


def test_sums_beyond_32_bits_are_added_in_parts() -> None:
    # An accumulator of 1.9921875 and 16 products of 1.9921875 squared are more than 2^31 times the
    # 2^-25 at which they are cut.
    a = np.full((1, 32), 0x3FFF, np.uint16)
    b = np.where(np.arange(32) < 16, 0, 0x3FFF).astype(np.uint16)[:, None]
    b[0] = 0x3F80
    chain, left, right = chain_of(a, BF16)
    assert narrow.parts_of(chain, left) == [2, 2]
    assert narrow.fits(chain, left, right)
    ones = Block(np.full((32, 1), 0x3F80, np.uint16), BF16, 0)
    assert narrow.parts_of(chain, ones) == [1, 1]
    lanes, _, _ = chain_of(a, BF16, "lanes(2, inner=fused(16, hopper), outer=seq)")
    assert narrow.parts_of(lanes, ones) == [2]  # not contiguous: nothing is known
    got = lastbit.predict_matmul(a, b, "hopper", "bf16")
    want = oracle(a, b, (BF16, BF16), CHAIN, "f32", unit_of("hopper/16"))
    assert got.tolist() == want.tolist() == [[0x4282FC80]]


def test_the_result_depends_on_no_tile_and_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    a, b = draw_codes((37, 130), BF16, "normal", rng), draw_codes((130, 29), BF16, "normal", rng)
    a[3, 7] = 0x7F80  # an infinity, which sends its block the wide way
    schedule = "split(3, tile=16, inner=fused(16, hopper), outer=seq)"
    whole = lastbit.predict_matmul(a, b, "hopper", "bf16", schedule)
    flipped = lastbit.predict_matmul(b.T, a.T, "hopper", "bf16", schedule)
    assert flipped.T.tobytes() == whole.tobytes()
    assert len(np.unique(whole)) > 900
    for name, value in (("ROWS", 4), ("MOST_COLUMNS", 8), ("STEP_PRODUCTS", 300)):
        monkeypatch.setattr(product, name, value)
    for threads in (1, 2, 5):
        seen: list[tuple[int, int]] = []
        pieces = lastbit.predict_matmul(
            a, b, "hopper", "bf16", schedule, threads=threads,
            progress=lambda done, total, seen=seen: seen.append((done, total)),
        )  # fmt: skip
        assert pieces.tobytes() == whole.tobytes()
        assert len(seen) > 20
        assert seen[-1] == (37 * 29, 37 * 29)


def test_a_failure_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(tile: tiles.Tile) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(tiles.Tile, "run", run)
    codes = np.zeros((4, 4), np.uint16)
    with pytest.raises(MemoryError, match=r"^no room$"):
        lastbit.predict_matmul(codes, codes, "hopper", "bf16")


def test_empty_products() -> None:
    empty = np.zeros((3, 0), np.uint16)
    assert lastbit.predict_matmul(empty, empty.T, "hopper", "bf16").tolist() == [[0] * 3] * 3
    none = np.zeros((0, 4), np.uint16)
    assert lastbit.predict_matmul(none, np.zeros((4, 2), np.uint16), "hopper", "bf16").size == 0


def test_nan_has_the_code_of_the_machine() -> None:
    nan, one = np.array([[0x7FC1]], np.uint16), np.array([[0x3F80]], np.uint16)
    for machine, code in (("hopper", 0x7FFFFFFF), ("ieee", 0x7FC00000), ("cdna3", 0x7FC00000)):
        assert lastbit.predict_matmul(nan, one, machine, "bf16").tolist() == [[code]]
    assert lastbit.predict_matmul(nan, one, "hopper", "bf16", out="bf16").tolist() == [[0x7FFF]]
    assert lastbit.predict_matmul(nan, one, "hopper", "bf16", out="e4m3fn").tolist() == [[0x7F]]


def test_contraction_saves_a_rounding() -> None:
    # (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24: the product of two binary32 values rounds to 1 + 2^-11.
    a = np.array([[1.0, 1 + 2**-12]], np.float32)
    b = np.array([[-1 - 2**-11], [1 + 2**-12]], np.float32)
    assert lastbit.predict_matmul(a, b, "ieee", "f32").tolist() == [[0]]
    assert lastbit.predict_matmul(a, b, "ieee_fma", "f32").tolist() == [[0x33800000]]
    assert lastbit.predict_matmul(a, b, "hopper", "f32", "seq").tolist() == [[0x33800000]]


def test_alpha_and_bias_round_once_each_or_together() -> None:
    a, b = np.array([[1 + 2**-12]], np.float32), np.array([[1.0]], np.float32)
    alpha, bias = 1 + 2**-12, np.array([-1 - 2**-11], np.float32)

    def bits(**options: Any) -> list[list[int]]:
        return lastbit.predict_matmul(a, b, "ieee", "f32", alpha=alpha, **options).tolist()

    assert bits() == [[0x3F801000]]
    assert bits(bias=bias) == [[0]]
    assert bits(bias=bias, contract=True) == [[0x33800000]]
    assert bits(out="bf16") == [[0x3F80]]
    assert bits(bias=np.array([1e6], np.float32), out="e4m3fn", saturate=True) == [[0x7E]]
    assert bits(bias=np.array([1e6], np.float32), out="e4m3fn") == [[0x7F]]


def test_a_product_of_bf16_is_stored_twice_in_a_serial_split() -> None:
    # 1 + 2^-8 rounds to 1 in bf16, twice; the sum in f32 would be 1 + 2^-7.
    a = np.array([[0x3F80, 0x3B80, 0x3B80]], np.uint16)
    b = np.full((3, 1), 0x3F80, np.uint16)
    split = "split(3, inner=fused(16, hopper), outer={})"
    for outer, code in (("stored(bf16)", 0x3F800000), ("seq", 0x3F810000)):
        got = lastbit.predict_matmul(a, b, "hopper", "bf16", split.format(outer))
        assert got.tolist() == [[code]]


BF = np.zeros((2, 3), np.uint16)


@pytest.mark.parametrize(("arguments", "options", "message"), [
    ((BF, BF.T, "hoper", "bf16"), {}, "machine 'hoper': it is not known. Did you mean 'hopper'? "),
    ((BF, BF.T, "volta", "bf16"), {}, "machine 'volta': no matrix unit takes bf16. Known: f16."),
    ((BF, BF.T, "hopper", "bf61"), {}, "unknown format 'bf61'. Did you mean 'bf16'?"),
    ((BF, BF, "hopper", "bf16"), {},
     "a is [2, 3] and b is [2, 3]. The second size of a is the first of b."),
    ((BF, BF.T, "hopper", "bf16", "fused(8, ampere)"), {},
     "schedule `fused(8, ampere)` has steps of ampere, and the machine is hopper. "
     "Name hopper in both, or ampere."),
    ((BF, BF.T, "hopper", "bf16", "fused(32, hopper)"), {},
     "matrix unit `hopper/32`: its operands may be e4m3fn or e5m2, not bf16."),
    ((BF, BF.T, "hopper", ("bf16", "f16"), "fused(16, hopper)"), {},
     "matrix unit `hopper/16`: it does not multiply bf16 by f16; both must be the same."),
    ((BF, BF.T, "hopper", "bf16"), {"acc": "f16"},
     "matrix unit `hopper/16`: products of bf16 are accumulated in f32, not f16."),
    ((BF, BF.T, "hopper", "bf16", "any_order"), {},
     "schedule `any_order`: a sum in any order has a set of results, not one. "
     "Name an order, such as seq."),
    ((BF, BF.T, "hopper", "bf16", "split(2, inner=seq, outer=fused(16, hopper))"), {},
     "schedule `split(2, inner=seq, outer=fused(16, hopper))`: a step of `hopper/16` adds products "
     "of operands, not partial sums. Combine them by seq or pairwise."),
    ((BF.astype(np.uint8), BF.T, "hopper", "bf16"), {},
     "`a` holds elements of type uint8, and codes of bf16 have 16 bits. "
     "Give values or codes of bf16."),
    ((BF.astype(np.float64) + 2.0**-9 + 1, BF.T, "hopper", "bf16"), {},
     "`a` holds f64 with 1.001953125 at [0, 0], which is no bf16. Give values or codes of bf16."),
    (([[1]], BF.T, "hopper", "bf16"), {}, "`a` is a list. Give an array of numpy or torch."),
    ((BF[0], BF.T, "hopper", "bf16"), {}, "an operand has the shape [3]. A matrix has two sizes."),
    ((BF, BF.T, "hopper", "bf16"), {"alpha": 0.1},
     "alpha is 0.1, which is no value of f32. The nearest value is 0x1.99999a0000000p-4."),
    ((BF, BF.T, "hopper", "bf16"), {"bias": np.zeros(3, np.float32)},
     "the bias has the shape [3]. It holds 2 values."),
    ((BF, BF.T, "ieee", "bf16"), {"acc": "f64", "contract": True},
     "no fused multiply-add of f64 is computed here. Leave out contract, or accumulate in f32."),
    ((np.zeros((2, 3)), np.zeros((3, 2)), "ieee", "f64"), {},
     "the engine takes no operands of f64. "
     "Allowed: floating-point formats of at most 24 digits."),
    ((BF.astype(np.uint8), BF.T.astype(np.uint8), "hopper_mma", "e5m2"), {},
     "matrix unit `hopper_mma/32`: its step is not modelled: mma.sync adds two interleaved groups "
     "of 16, and the accumulator late; several models fit the published vectors."),
])  # fmt: skip
def test_what_cannot_be_predicted_is_refused(
    arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(LastbitError, match=re.escape(message)):
        lastbit.predict_matmul(*arguments, **options)


def test_a_step_with_no_device_of_torch_is_refused() -> None:
    codes = np.zeros((2, 2), np.uint16)
    with pytest.raises(OperandError, match=r"^torch has no device 'cudda' here "):
        lastbit.predict_matmul(codes, codes, "hopper", "bf16", device="cudda")
    message = "torch does no steps of `cdna3/8` with an accumulator of f32. Leave out the device"
    with pytest.raises(OperandError, match=f"^{re.escape(message)}"):
        lastbit.predict_matmul(codes, codes, "cdna3", "bf16", device="cpu")


def test_operands_of_numpy_and_ml_dtypes_are_read_by_value() -> None:
    import ml_dtypes

    values = np.array([[1.5, -2.0]], np.float32)
    as_bf16 = values.astype(ml_dtypes.bfloat16)
    codes = np.array([[0x3FC0, 0xC000]], np.uint16)
    want = [[0x40C80000]]  # 2.25 + 4
    for a in (values, as_bf16, codes, codes.view(np.int16)):
        assert lastbit.predict_matmul(a, a.T, "hopper", "bf16").tolist() == want


def test_the_whole_matrix_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    out = np.full((9, 5), np.nan, np.float32)
    tape = record(parse_schedule("seq"), 1, "f32")
    monkeypatch.setattr(product, "ROWS", 2)
    ones = np.ones((9, 1), np.float32).view(np.uint32)
    matrix_product(
        Operand(ones, F32), Operand(ones[:5].T, F32), tape, lambda values, columns: values, out
    )
    assert (out == 1).all()
