"""Compare and time matrix products on an NVIDIA H200: real kernels, and their prediction.

    python benchmarks/gpu_matmul.py --out reports/h200/matmul.json

1. Products of `tl.dot`, torch.mm and torch._scaled_mm, of each draw of operands, against the
   predicted bits: size x size outputs for each. The prediction is computed on the GPU, and its
   first rows by numpy too. Bits are compared, those of NaN included.
2. The speed of the prediction on the GPU, in trillion multiply-adds a second; 2 are wanted. That
   of the kernel is the median of repeated launches; that of the whole includes the preparation of
   the operands by numpy.

What differs is searched for among splits of the chain, and reported. The report is written after
each entry. Exit code 1: something differs and is not explained, or could not be run.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from gpu_matmuls import bits, on_gpu, scaled_mm, torch_mm, triton_dot

import lastbit
from lastbit.engine.cuda_chain import TILES, Tile, cuda_chain
from lastbit.engine.operands import Block
from lastbit.formats import format_of
from lastbit.machines import machine_of
from lastbit.predicting import DRAWS, draw_codes

BY_NUMPY = 16  # rows of each prediction that numpy computes too
TIMED = (("bf16", True), ("f16", True), ("e4m3fn", True), ("bf16", False), ("e4m3fn", False))


def chain(fmt: str) -> str:
    """Return the chain of Hopper for a format."""
    unit = machine_of("hopper").unit(fmt)
    return f"fused({unit.width}, hopper)"


@dataclass(frozen=True)
class Kernel:
    """A kernel that is compared with its prediction.

    Attributes:
        name: what computes.
        formats: of the left and of the right operand.
        k: the number of products of each output.
        call: computes the product of two tensors.
        schedule: that is predicted.
    """

    name: str
    formats: tuple[str, str]
    k: int
    call: Callable[[Any, Any], Any]
    schedule: str


def kernels() -> Iterator[Kernel]:
    """Yield what is compared."""
    for fmt in ("bf16", "f16", "e4m3fn", "e5m2"):
        for k in (64, 512):
            yield Kernel("tl.dot", (fmt, fmt), k, triton_dot, chain(fmt))
    for fmt in ("bf16", "f16"):
        for k in (64, 1024):
            yield Kernel("torch.mm", (fmt, fmt), k, torch_mm, chain(fmt))
    step = chain("e4m3fn")
    promoted = f"promote(128, f32, inner={step})"
    for left in ("e4m3fn", "e5m2"):
        for k in (128, 1024):
            for name, fast, schedule in (
                ("torch._scaled_mm, fast accumulation", True, step),
                ("torch._scaled_mm", False, promoted),
            ):
                yield Kernel(
                    name, (left, "e4m3fn"), k, lambda a, b, f=fast: scaled_mm(a, b, f), schedule
                )


def others(fmt: str) -> Iterator[str]:
    """Yield schedules that a library may have used instead."""
    step = chain(fmt)
    for n in (2, 3, 4, 5, 6, 8):
        for tile in (32, 64, 128):
            yield f"split({n}, tile={tile}, inner={step}, outer=seq)"
            yield f"split({n}, tile={tile}, deal=interleaved, inner={step}, outer=seq)"


def compared(kernel: Kernel, draw: str, size: int) -> dict[str, Any]:
    """Compare one kernel on one kind of operands with its prediction."""
    rng = np.random.default_rng([kernel.k, DRAWS.index(draw)])
    shapes = (size, kernel.k), (kernel.k, size)
    a, b = (
        draw_codes(shape, format_of(fmt), draw, rng)
        for shape, fmt in zip(shapes, kernel.formats, strict=True)
    )
    seen = bits(kernel.call(*(on_gpu(x, f) for x, f in zip((a, b), kernel.formats, strict=True))))

    def predict(rows: int, schedule: str, device: str | None) -> Any:
        return lastbit.predict_matmul(
            a[:rows], b, "hopper", kernel.formats, schedule, device=device
        )

    predicted = predict(size, kernel.schedule, "cuda")
    by_numpy = predict(BY_NUMPY, kernel.schedule, None)
    values = seen.view(np.float32)
    differ = seen != predicted
    out = {
        "kernel": kernel.name,
        "formats": ",".join(dict.fromkeys(kernel.formats)),
        "k": kernel.k,
        "operands": draw,
        "schedule": kernel.schedule,
        "outputs": int(seen.size),
        "nan": int(np.isnan(values).sum()),
        "infinite": int(np.isinf(values).sum()),
        "distinct": len(np.unique(seen)),
        "differ": int(differ.sum()),
        "by_numpy": int(by_numpy.size),
        "numpy_differs": int((by_numpy != predicted[:BY_NUMPY]).sum()),
    }
    if differ.any():
        place = tuple(int(i) for i in np.argwhere(differ)[0])
        codes = {"seen": seen[place], "predicted": predicted[place]}
        out["first"] = {"at": place, **{key: f"{code:#010x}" for key, code in codes.items()}}
        out["explained_by"] = [
            other
            for other in others(kernel.formats[0])
            if (predict(8, other, "cuda") == seen[:8]).all()
        ]
    return out


@lru_cache(maxsize=1)
def blocks_of(fmt: str, size: int, draw: str) -> tuple[Block, Block]:
    """Return square operands."""
    rng, made = np.random.default_rng(0), format_of(fmt)
    left, right = (draw_codes((size, size), made, draw, rng) for _ in range(2))
    return Block(left, made, 0), Block(right, made, 1)


def timed(fmt: str, size: int, narrow: bool, tile: Tile) -> dict[str, Any]:
    """Return the speed of the kernel on square operands."""
    unit = machine_of("hopper").unit(fmt)
    draw = "normal" if narrow else "finite"
    blocks = blocks_of(fmt, size, draw)
    a, b = (torch.from_numpy(x.scaled if narrow else x.singles).cuda() for x in blocks)

    def run() -> Any:
        return cuda_chain(unit, a, b, blocks, narrow, tile)

    milliseconds = triton.testing.do_bench(run, warmup=50, rep=250, return_mode="median")
    return {
        "what": f"kernel, {'narrow' if narrow else 'wide'} form",
        "format": fmt,
        "operands": draw,
        "size": [size] * 3,
        "tile": str(tile),
        "milliseconds": round(milliseconds, 3),
        "trillion_multiply_adds_a_second": round(size**3 / milliseconds / 1e9, 3),
    }


def whole(fmt: str, size: int) -> dict[str, Any]:
    """Return the speed of `predict_matmul` with a device, from codes to codes."""
    rng = np.random.default_rng(0)
    a, b = (draw_codes((size, size), format_of(fmt), "normal", rng) for _ in range(2))
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        lastbit.predict_matmul(a, b, "hopper", fmt, device="cuda")
        seconds.append(time.perf_counter() - start)
    return {
        "what": "predict_matmul with device",
        "format": fmt,
        "operands": "normal",
        "size": [size] * 3,
        "milliseconds": round(1000 * min(seconds), 1),
        "trillion_multiply_adds_a_second": round(size**3 / min(seconds) / 1e12, 3),
    }


def driver() -> str:
    """Return the version of the NVIDIA driver."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]


class Report:
    """The report, written again with each entry."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failed = False
        self.content: dict[str, Any] = {
            "schema": "lastbit.gpu_matmul/1",
            "command": " ".join(["python", *sys.argv]),
            "device": torch.cuda.get_device_name(),
            "driver": driver(),
            "date": date.today().isoformat(),
            "torch": torch.__version__,
            "triton": triton.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "outputs": 0,
            "nan": 0,
            "differ": 0,
            "by_numpy": 0,
            "numpy_differs": 0,
            "products": [],
            "speed": [],
        }

    def add(self, part: str, entry: dict[str, Any]) -> None:
        """Add an entry, and write."""
        self.content[part].append(entry)
        for key in ("outputs", "nan", "differ", "by_numpy", "numpy_differs"):
            self.content[key] += entry.get(key, 0)
        unexplained = bool(entry.get("differ")) and not entry.get("explained_by")
        self.failed |= unexplained or bool(entry.get("numpy_differs")) or "error" in entry
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8")
        print(json.dumps(entry), flush=True)


def attempt(call: Callable[[], dict[str, Any]], **what: Any) -> dict[str, Any]:
    """Return an entry, or the error instead of it."""
    try:
        return call()
    except Exception as error:
        traceback.print_exc()
        return {**what, "error": repr(error)[:300]}


def read_tile(text: str) -> Tile:
    """Return a tile, given as down,across,rows,columns,blocks."""
    return Tile(*(int(number) for number in text.split(",")))


def main() -> int:
    """Write the report; return 1 when something differs and is not explained."""
    parser = argparse.ArgumentParser(description="Compare and time matrix products.")
    parser.add_argument("--out", required=True, type=Path, help="the report, JSON")
    parser.add_argument("--size", type=int, default=1024, help="rows and columns of each product")
    parser.add_argument("--times", type=int, default=4096, help="size of the products timed")
    parser.add_argument("--skip-products", action="store_true")
    parser.add_argument("--tile", type=read_tile, action="append", default=[], help="timed too")
    given = parser.parse_args()
    report = Report(given.out)
    for kernel in () if given.skip_products else kernels():
        for draw in DRAWS:
            what = {"kernel": kernel.name, "formats": kernel.formats, "k": kernel.k}
            entry = attempt(lambda k=kernel, d=draw: compared(k, d, given.size), **what)
            report.add("products", entry)
    for fmt, narrow in TIMED:
        for tile in (TILES[narrow], *given.tile):
            entry = attempt(
                lambda f=fmt, n=narrow, t=tile: timed(f, given.times, n, t),
                format=fmt,
                tile=str(tile),
            )
            report.add("speed", entry)
    report.add("speed", attempt(lambda: whole("bf16", given.times), format="bf16"))
    content = report.content
    print(f"{content['outputs']:,} outputs, {content['differ']:,} differ; {given.out}")
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
