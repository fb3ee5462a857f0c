"""The engines of numpy and torch equal the oracle, and one another, on many more products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matmuls import CHAIN, KINDS, PROMOTED, UNITS, operands, oracle, with_cancelling_sums

import lastbit
from lastbit.formats import BF16, FORMATS, format_of
from lastbit.machines import Unit, unit_of
from lastbit.predicting import draw_codes

pytestmark = pytest.mark.slow
ALIGNED = [unit for unit in UNITS if unit.method == "aligned"]
SCHEDULES = (
    "{step}",
    "split(3, tile=8, inner={step}, outer=pairwise(1))",
    "split(2, tile=8, deal=interleaved, inner={step}, outer=seq, partials=bf16)",
    "promote(48, f32, inner={step})",
    "seq",
)


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_every_unit_equals_the_oracle(unit: Unit, kind: str) -> None:
    rng = np.random.default_rng([UNITS.index(unit), KINDS.index(kind)])
    for short in unit.inputs:
        if short == "f64":
            continue
        fmt = FORMATS[short]
        k = 3 * unit.width + max(1, unit.width // 2)
        schedule = f"fused({unit.width}, {unit})"
        for acc in unit.accumulators:
            if (acc, short) == ("f16", "bf16"):
                continue
            a, b = operands(rng, fmt, (6, k), kind), operands(rng, fmt, (k, 8), kind)
            pairs = [(a, b)]
            if fmt.has_negative_zero:
                pairs.append(with_cancelling_sums(rng, a, b, fmt))
            for x, y in pairs:
                got = lastbit.predict_matmul(x, y, unit.machine, short, schedule, acc=acc)
                want = oracle(x, y, (fmt, fmt), schedule, acc, unit)
                assert got.tolist() == want.tolist(), (short, acc)


@pytest.mark.parametrize("unit", ALIGNED, ids=str)
@pytest.mark.parametrize("draw", ["normal", "wide", "bits"])
def test_torch_equals_numpy(unit: Unit, draw: str) -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng([ALIGNED.index(unit), len(draw)])
    fmt = format_of(unit.inputs[-1])
    a, b = (draw_codes(size, fmt, draw, rng) for size in ((30, 200), (200, 40)))
    for text in SCHEDULES:
        schedule = text.format(step=f"fused({unit.width}, {unit})")
        by_numpy = lastbit.predict_matmul(a, b, unit.machine, fmt.short, schedule)
        by_torch = lastbit.predict_matmul(a, b, unit.machine, fmt.short, schedule, device="cpu")
        assert by_numpy.tobytes() == by_torch.tobytes(), schedule
        assert draw == "bits" or len(np.unique(by_numpy)) > 100


@pytest.mark.parametrize(("fmt", "schedule"), [
    ("bf16", CHAIN),
    ("bf16", "split(3, tile=64, inner=fused(16, hopper), outer=seq)"),
    ("e4m3fn", PROMOTED),
])  # fmt: skip
def test_a_sample_of_a_large_product_equals_the_oracle(fmt: str, schedule: str) -> None:
    rng = np.random.default_rng(11)
    made = format_of(fmt)
    a, b = (draw_codes(size, made, "normal", rng) for size in ((70, 4096), (4096, 5000)))
    got = lastbit.predict_matmul(a, b, "hopper", fmt, schedule)
    rows, columns = rng.integers(0, 70, 3), rng.integers(0, 5000, 4)
    unit = unit_of("hopper/16" if made == BF16 else "hopper/32")
    part: Any = got[np.ix_(rows, columns)]
    want = oracle(a[rows], b[:, columns], (made, made), schedule, "f32", unit)
    assert part.tolist() == want.tolist()
