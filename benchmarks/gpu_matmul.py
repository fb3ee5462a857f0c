"""Compare and time matrix products on an NVIDIA H200: real kernels, and their prediction.

    python benchmarks/gpu_matmul.py --out report.json [--size 1024] [--skip-times]

1. Products of `tl.dot`, torch.mm and torch._scaled_mm, of random bits, normal numbers and numbers
   of very different size, against the predicted bits: size x size outputs for each; 1024 gives
   more than ten million in all. The prediction is computed on the GPU, and a part of it by numpy.
2. The speed of the prediction on the GPU, for several tiles of the kernel, in trillion
   multiply-adds a second; 2 are wanted.

What differs is searched for among splits of the chain, and reported.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from gpu_matmuls import bits, on_gpu, scaled_mm, torch_mm, triton_dot

import lastbit
from lastbit.engine.operands import Block
from lastbit.engine.triton_chain import triton_chain
from lastbit.formats import format_of
from lastbit.machines import machine_of
from lastbit.predicting import DRAWS, draw_codes

TILES = (
    (64, 64, 8), (64, 64, 4), (32, 64, 4), (32, 128, 4), (64, 128, 8), (128, 64, 8),
    (32, 128, 8), (16, 128, 4), (32, 32, 2),
)  # fmt: skip
BY_NUMPY = 64  # rows of each prediction that numpy computes too


def chain(fmt: str) -> str:
    """Return the chain of Hopper for a format."""
    unit = machine_of("hopper").unit(fmt)
    return f"fused({unit.width}, hopper)"


def kernels() -> Iterator[tuple[str, str, int, Callable[[Any, Any], Any], str]]:
    """Yield what is compared: name, format, K, the call, and the schedule that is predicted."""
    for fmt in ("bf16", "f16", "e4m3fn", "e5m2"):
        for k in (64, 512):
            yield "tl.dot", fmt, k, triton_dot, chain(fmt)
    for fmt in ("bf16", "f16"):
        for k in (64, 1024):
            yield "torch.mm", fmt, k, torch_mm, chain(fmt)
    for k in (128, 1024):
        yield "_scaled_mm fast", "e4m3fn", k, lambda a, b: scaled_mm(a, b, True), chain("e4m3fn")
        promoted = f"promote(128, f32, inner={chain('e4m3fn')})"
        yield "_scaled_mm", "e4m3fn", k, lambda a, b: scaled_mm(a, b, False), promoted


def others(fmt: str) -> Iterator[str]:
    """Yield schedules that a library may have used instead."""
    step = chain(fmt)
    for n in (2, 3, 4, 5, 6, 8):
        for tile in (32, 64, 128):
            yield f"split({n}, tile={tile}, inner={step}, outer=seq)"
            yield f"split({n}, tile={tile}, deal=interleaved, inner={step}, outer=seq)"


def compared(
    name: str,
    fmt: str,
    k: int,
    call: Callable[[Any, Any], Any],
    schedule: str,
    draw: str,
    size: int,
) -> dict[str, Any]:
    """Compare one kernel on one kind of operands with its prediction."""
    rng = np.random.default_rng([k, DRAWS.index(draw)])
    a, b = (draw_codes(shape, format_of(fmt), draw, rng) for shape in ((size, k), (k, size)))
    seen = bits(call(on_gpu(a, fmt), on_gpu(b, fmt)))
    predicted = lastbit.predict_matmul(a, b, "hopper", fmt, schedule, device="cuda")
    by_numpy = lastbit.predict_matmul(a[:BY_NUMPY], b, "hopper", fmt, schedule)
    differ = seen != predicted
    nan = np.isnan(seen.view(np.float32))
    out = {
        "kernel": name, "format": fmt, "k": k, "operands": draw, "schedule": schedule,
        "outputs": int(seen.size), "nan": int(nan.sum()), "differ": int(differ.sum()),
        "numpy_differs": int((by_numpy != predicted[:BY_NUMPY]).sum()),
    }  # fmt: skip
    if differ.any():
        place = tuple(int(i) for i in np.argwhere(differ)[0])
        out["first"] = {
            "at": place, "seen": f"{seen[place]:#010x}", "predicted": f"{predicted[place]:#010x}"
        }  # fmt: skip
        out["explained_by"] = [
            other
            for other in others(fmt)
            if (lastbit.predict_matmul(a[:8], b, "hopper", fmt, other) == seen[:8]).all()
        ]
    return out


def timed(fmt: str, size: int, tile: tuple[int, int, int], narrow: bool) -> float:
    """Return trillion multiply-adds a second of the kernel on square operands."""
    rng = np.random.default_rng(0)
    unit = machine_of("hopper").unit(fmt)
    operands = []
    for side in (0, 1):
        block = Block(draw_codes((size, size), format_of(fmt), "normal", rng), format_of(fmt), side)
        values = block.scaled if narrow else block.values
        exponents = block.bytes if narrow else block.exponents
        operands += [torch.from_numpy(values).cuda()]
        operands += [torch.from_numpy(exponents.astype(np.int32)).cuda()]

    def run() -> Any:
        return triton_chain(unit, *operands, narrow, tile)

    milliseconds = triton.testing.do_bench(run, warmup=100, rep=500, return_mode="median")
    return size**3 / milliseconds / 1e9


def main() -> int:
    """Write the report; return 1 when something differs and is not explained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="the report, JSON")
    parser.add_argument("--size", type=int, default=1024, help="rows and columns of each product")
    parser.add_argument("--times", type=int, default=4096, help="size of the products timed")
    parser.add_argument("--skip-times", action="store_true")
    given = parser.parse_args()
    report: dict[str, Any] = {
        "device": torch.cuda.get_device_name(), "date": date.today().isoformat(),
        "torch": torch.__version__, "triton": triton.__version__, "numpy": np.__version__,
        "python": platform.python_version(), "products": [], "speed": [],
    }  # fmt: skip
    failed = False
    for name, fmt, k, call, schedule in kernels():
        for draw in DRAWS:
            start = time.perf_counter()
            try:
                entry = compared(name, fmt, k, call, schedule, draw, given.size)
            except Exception as error:
                traceback.print_exc()
                entry = {"kernel": name, "format": fmt, "k": k, "operands": draw,
                         "error": repr(error)[:300]}  # fmt: skip
            report["products"].append(entry)
            explained = not entry.get("differ", 1) or bool(entry.get("explained_by"))
            failed |= not explained or bool(entry.get("numpy_differs"))
            print(f"{time.perf_counter() - start:6.1f} s  {entry}", flush=True)
    for fmt, narrow in (
        () if given.skip_times else (("bf16", True), ("e4m3fn", True), ("bf16", False))
    ):
        for tile in TILES:
            try:
                speed: Any = round(timed(fmt, given.times, tile, narrow), 3)
            except Exception as error:
                speed = repr(error)[:200]
            entry = {"format": fmt, "narrow": narrow, "tile": tile, "tera_mac_s": speed}
            report["speed"].append(entry)
            print(entry, flush=True)
    total = sum(entry.get("outputs", 0) for entry in report["products"])
    differ = sum(entry.get("differ", 0) for entry in report["products"])
    report["outputs"], report["differ"] = total, differ
    Path(given.out).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"{total:,} outputs compared, {differ:,} differ; written to {given.out}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
