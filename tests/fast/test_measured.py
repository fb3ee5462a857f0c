"""What the table of machines calls measured is what the committed report of a run shows."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lastbit.machines import UNITS, Unit

REPORT = Path(__file__).parents[2] / "reports" / "h200" / "matmul.json"
MEASURED = [unit for unit in UNITS if unit.measurement is not None]


@pytest.fixture(scope="module")
def report() -> Any:
    return json.loads(REPORT.read_text(encoding="utf-8"))


@pytest.mark.parametrize("unit", MEASURED, ids=str)
def test_a_measurement_is_that_of_the_report(unit: Unit, report: Any) -> None:
    found = unit.measurement
    assert found is not None
    assert (found.device, found.driver) == (report["device"], report["driver"])
    assert found.date == report["date"]
    assert found.software == f"torch {report['torch']}, triton {report['triton']}"
    outputs: Counter[str] = Counter()
    for entry in report["products"]:
        if entry["formats"] in unit.inputs:
            outputs[entry["formats"]] += entry["outputs"]
    assert dict(found.outputs) == outputs


def test_the_report_shows_no_difference(report: Any) -> None:
    products = report["products"]
    assert all(entry["differ"] == entry["numpy_differs"] == 0 for entry in products)
    assert report["outputs"] == sum(entry["outputs"] for entry in products) >= 10_000_000
    assert report["differ"] == report["numpy_differs"] == 0
    drawn = {(entry["formats"], entry["operands"]) for entry in products}
    for fmt in ("bf16", "f16", "e4m3fn", "e5m2"):
        assert {draw for name, draw in drawn if name == fmt} == {"normal", "wide", "finite", "bits"}
    # Outputs of random bits are mostly NaN or infinite; the others must tell schedules apart.
    assert all(entry["distinct"] > 1000 for entry in products if entry["operands"] != "bits")


def test_the_report_shows_the_speed(report: Any) -> None:
    speeds = [
        entry["trillion_multiply_adds_a_second"]
        for entry in report["speed"]
        if entry["format"] == "bf16" and entry["what"] == "kernel, narrow form"
    ]
    assert max(speeds) >= 2
