"""Hold the bits of the reference kernels on an NVIDIA GPU against those that are predicted.

    python benchmarks/gpu_reference_kernels.py reports/h200/reference_kernels.json

For each kernel and case: outputs compared and differences, on drawn inputs of several seeds; the
distance from the prediction with correctly rounded functions, and how far the library's functions
are from these; the number of different results in repeated runs; and whether the first row is the
same in batches of other sizes. A sum in any order is held against the set of its results.

A kernel that fails does not stop the others: its error is recorded. Exit code 1: something failed,
differs, or breaks its promise. The report is written after each case.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
import traceback
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from kernel_cases import first_rows, of_rows

from lastbit.errors import LastbitError
from lastbit.kernel_runs import (
    Comparison,
    compare,
    distinct_runs,
    draw_inputs,
    observe,
    schedule_of,
)
from lastbit.kernels import (
    Case,
    Kernel,
    find_kernel,
    kernel_names,
    missing_kernels,
)

MOST_SEEDS = 8
REPEATS = 20
ROWS = (1, 2, 3, 7, 8, 16, 33, 64, 100, 128)  # against the first row of a batch of the most
MOST_ROWS = 256


class Clock:
    """What is left of the time."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return self.end - time.monotonic()


def compared(kernel: Kernel, case: Case, seconds: float) -> dict[str, Any]:
    """Compare results with predictions for one seed after the other, at least one."""
    start = time.monotonic()
    found: list[Comparison] = []
    while not found or (len(found) < MOST_SEEDS and time.monotonic() - start < seconds):
        inputs = draw_inputs(kernel, case, len(found))
        found.append(compare(kernel, case, inputs, "cuda"))
    out: dict[str, Any] = {
        "seeds": len(found),
        "outputs": sum(one.outputs for one in found),
        "differ": sum(one.differ for one in found),
        "distinct_values": max(one.distinct for one in found),
    }
    if kernel.functions:
        out["max_ulp"] = max(one.max_ulp or 0 for one in found)
        out["functions"] = {fn: function(kernel, fn, found) for fn in kernel.functions}
    return out


def function(kernel: Kernel, fn: str, found: list[Comparison]) -> dict[str, int]:
    """Return how far a function of the library was from the correctly rounded values."""
    called = [one.called[fn] for one in found]
    return {
        "declared_ulp": kernel.functions[fn].ulp,
        "values": sum(one.values for one in called),
        "differ": sum(one.differ for one in called),
        "max_ulp": max(one.max_ulp for one in called),
    }


def different_rows(kernel: Kernel, case: Case) -> list[int]:
    """Return the batch sizes at which the first row is not that of the largest batch."""
    case = of_rows(kernel, case, MOST_ROWS)
    inputs = draw_inputs(kernel, case, 0)
    whole = [codes[:1].tobytes() for codes in observe(kernel, case, inputs, "cuda")]
    differ = []
    even = case.parameters.get("by_rows", False)  # pieces of equal size: powers of 2 divide K
    for rows in (rows for rows in ROWS if not even or rows & (rows - 1) == 0):
        few = of_rows(kernel, case, rows)
        seen = observe(kernel, few, first_rows(kernel, case, inputs, rows), "cuda")
        if [codes[:1].tobytes() for codes in seen] != whole:
            differ.append(rows)
    return differ


def measured(kernel: Kernel, case: Case, seconds: float) -> dict[str, Any]:
    """Return all that is measured of a kernel at a case."""
    out = compared(kernel, case, seconds)
    inputs = draw_inputs(kernel, case, 0)
    out["repeats"] = REPEATS
    out["distinct_results"] = distinct_runs(lambda: observe(kernel, case, inputs, "cuda"), REPEATS)
    promises = kernel.promises(case)
    out["promises"] = promises
    kept = not promises["deterministic"] or out["distinct_results"] == 1
    if "M" in case.sizes and kernel.deterministic:
        out["rows_that_change_the_first"] = different_rows(kernel, case)
        kept &= not (promises["batch_invariant"] and out["rows_that_change_the_first"])
    within = all(
        called["max_ulp"] <= called["declared_ulp"] for called in out.get("functions", {}).values()
    )
    out["as_predicted"] = out["differ"] == 0 and within and kept
    return out


def described(kernel: Kernel, case: Case) -> dict[str, Any]:
    """Return what is measured, in words."""
    schedule = schedule_of(kernel, case)
    return {
        "kernel": kernel.name,
        "computes": kernel.computes,
        "format": case.format,
        "sizes": dict(case.sizes),
        "parameters": dict(case.parameters),
        "schedule": None if schedule is None else str(schedule),
    }


def entries(name: str, clock: Clock, cases_left: int) -> list[dict[str, Any]]:
    """Return the entries of all cases of a kernel, or of its file where that cannot be read."""
    try:
        kernel = find_kernel(name)
    except LastbitError as error:
        return [{"kernel": name, "error": str(error), "as_predicted": False}]
    found = []
    for case in kernel.cases:
        entry: dict[str, Any] = {"kernel": name, "case": str(case)}
        start = time.monotonic()
        try:
            entry = described(kernel, case)
            entry |= measured(kernel, case, max(0.0, clock.left / max(cases_left, 1)) / 2)
        except Exception as error:  # whatever a kernel or its compiler raises
            traceback.print_exc()
            entry |= {"error": f"{type(error).__name__}: {error}"[:500], "as_predicted": False}
        cases_left -= 1
        entry["seconds"] = round(time.monotonic() - start, 2)
        found.append(entry)
        print(json.dumps(entry), flush=True)
    return found


def number_of_cases(name: str) -> int:
    """Return how many cases a kernel has; 1 where its file cannot be read."""
    try:
        return len(find_kernel(name).cases)
    except LastbitError:
        return 1


def environment() -> dict[str, Any]:
    """Return where this runs, and by what."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    triton = "not installed"
    if "triton" not in missing_kernels().values():
        import triton as module

        triton = module.__version__
    return {
        "device": torch.cuda.get_device_name(),
        "driver": (done.stdout.split() or ["unknown"])[0],
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": triton,
        "numpy": np.__version__,
    }


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sums over all entries."""
    return {
        "kernels": len({entry["kernel"] for entry in found}),
        "cases": len(found),
        "outputs": sum(entry.get("outputs", 0) for entry in found),
        "differ": sum(entry.get("differ", 0) for entry in found),
        "errors": sum("error" in entry for entry in found),
        "not_as_predicted": [
            f"{entry['kernel']}: {entry.get('sizes', '')} {entry.get('parameters', '')}"
            for entry in found
            if not entry["as_predicted"]
        ],
    }


def main() -> int:
    """Write the report; return 1 when something is not as predicted."""
    parser = argparse.ArgumentParser(description="Compare reference kernels with predictions.")
    parser.add_argument("path", type=Path, help="the report, JSON")
    parser.add_argument("--seconds", type=float, default=200, help="for all kernels together")
    parser.add_argument("--only", default="", help="a part of the names of kernels")
    given = parser.parse_args()
    names = [name for name in kernel_names() if given.only in name]
    clock = Clock(given.seconds)
    left = sum(number_of_cases(name) for name in names)
    content: dict[str, Any] = {
        "schema": "lastbit.gpu_reference_kernels/1",
        "command": " ".join(["python", *sys.argv]),
        "date": date.today().isoformat(),
        **environment(),
    }
    found: list[dict[str, Any]] = []
    given.path.parent.mkdir(parents=True, exist_ok=True)
    for name in names:
        found += entries(name, clock, left)
        left -= number_of_cases(name)
        content |= {"summary": summary(found), "entries": found}
        given.path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for called, value in summary(found).items():
        print(f"{called}: {value}")
    return int(not found or any(not entry["as_predicted"] for entry in found))


if __name__ == "__main__":
    sys.exit(main())
