"""Time matrix products of a Hopper GPU on this processor, against other emulators, in one run.

    python benchmarks/matmul.py [--seconds 3]

Prints million multiply-adds a second and how many times lastbit is faster. `mmasim` and `mmaemu`
are timed where they can be imported; `naive` is the step written down with whole arrays of numpy.
All must give the same bits. On 2 cores the bf16 chain is to reach 500 million, the goal is 1,000.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import lastbit
from lastbit.formats import format_of
from lastbit.predicting import draw_codes
from lastbit.round_array import decode_array

RUNS = 5
F = {"bf16": 25, "f16": 25, "e4m3fn": 13}
WIDTH = {"bf16": 16, "f16": 16, "e4m3fn": 32}
BITS = {"bf16": 23, "f16": 23, "e4m3fn": 13}
EMIN = {"bf16": -126, "f16": -14, "e4m3fn": -6}


def naive(a: Any, b: Any, fmt: str) -> Any:
    """Return the products, each step done with arrays of all its terms."""
    values = [decode_array(x, format_of(fmt)) for x in (a, b)]
    exponents = [np.maximum(np.frexp(x)[1] - 1, EMIN[fmt]) - (x == 0) * 10_000 for x in values]
    c = np.zeros((a.shape[0], b.shape[1]))
    for k in range(0, a.shape[1], WIDTH[fmt]):
        step = slice(k, k + WIDTH[fmt])
        terms = values[0][:, step, None] * values[1][None, step, :]
        top = (exponents[0][:, step, None] + exponents[1][None, step, :]).max(axis=1)
        own = np.where(c == 0, -133, np.maximum(np.frexp(c)[1] - 1, -126))
        e = np.maximum(np.maximum(top, own), -133) - F[fmt]
        total = np.trunc(np.ldexp(terms, -e[:, None, :])).sum(axis=1) + np.trunc(np.ldexp(c, -e))
        total = np.ldexp(total, e)
        unit = np.maximum(np.frexp(total)[1] - 1, -126) - BITS[fmt]
        c = np.ldexp(np.trunc(np.ldexp(total, -unit)), unit)
    return c.astype(np.float32).view(np.uint32)


def _tensor(codes: Any, fmt: str) -> Any:
    torch = importlib.import_module("torch")
    kind = {"bf16": torch.bfloat16, "f16": torch.float16, "e4m3fn": torch.float8_e4m3fn}[fmt]
    return torch.from_numpy(codes.view(f"i{codes.itemsize}").copy()).view(kind)


def _bits(tensor: Any) -> Any:
    return tensor.contiguous().numpy().view(np.uint32)


def mmasim(a: Any, b: Any, fmt: str) -> Any:
    """Return the products by MMA-Sim's wgmma."""
    torch = importlib.import_module("torch")
    kind = {"bf16": "k16.f32.bf16.bf16", "f16": "k16.f32.f16.f16", "e4m3fn": "k32.f32.e4m3.e4m3"}
    unit = importlib.import_module("mmasim.nv_ptx").WGMMA("Hopper", f"m64n8{kind[fmt]}")
    zero = torch.zeros(a.shape[0], b.shape[1])
    return _bits(unit(_tensor(a, fmt), _tensor(b, fmt), zero))


def mmaemu(a: Any, b: Any, fmt: str) -> Any:
    """Return the products by mmaemu, which has 8-bit formats."""
    emulator = importlib.import_module("mmaemu")
    columns = _tensor(np.ascontiguousarray(b.T), fmt)
    return _bits(emulator.accumulate(_tensor(a, fmt), columns, use_fast_accum=True))


def ours(a: Any, b: Any, fmt: str) -> Any:
    """Return the products by lastbit."""
    return lastbit.predict_matmul(a, b, "hopper", fmt)


def best(run: Callable[[], Any], seconds: float) -> tuple[float, Any]:
    """Return the shortest time of several runs, and the result."""
    times: list[float] = []
    while len(times) < RUNS and sum(times) < seconds:
        start = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - start)
    return min(times), result


def main() -> int:
    """Print the table; return 1 when bits differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each entry, about")
    seconds = parser.parse_args().seconds
    rng = np.random.default_rng(0)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"million multiply-adds a second, the best of {RUNS} runs, {cores} cores")
    wrong = 0
    for fmt in ("bf16", "f16", "e4m3fn"):
        others = {"naive": naive, "mmasim": mmasim, "mmaemu": mmaemu if WIDTH[fmt] == 32 else None}
        large = (512, 4096, 4096)
        m, k, n = large
        a, b = (draw_codes(size, format_of(fmt), "normal", rng) for size in ((m, k), (k, n)))
        fastest, everything = best(lambda a=a, b=b, fmt=fmt: ours(a, b, fmt), seconds)
        speed = m * k * n / fastest / 1e6
        print(f"{fmt:7} lastbit  {m:4} x {k} x {n}  {speed:9.1f}")
        for name, function in others.items():
            if function is None:
                continue
            if name != "naive" and importlib.util.find_spec(name) is None:
                print(f"{fmt:7} {name:8} is not installed")
                continue
            rows, columns = (64, 64) if name == "mmasim" else (64, 256)
            part_a, part_b = a[:rows], np.ascontiguousarray(b[:, :columns])
            taken, result = best(
                lambda f=function, x=part_a, y=part_b, fmt=fmt: f(x, y, fmt), seconds
            )
            other = rows * k * columns / taken / 1e6
            differ = int((result != everything[:rows, :columns]).sum())
            wrong += differ
            print(
                f"{fmt:7} {name:8} {rows:4} x {k} x {columns:4}  {other:9.1f}"
                f"   lastbit is {speed / other:7.1f} times as fast, {differ} outputs differ"
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
