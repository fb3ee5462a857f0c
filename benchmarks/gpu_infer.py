"""Infer by which schedule torch.mm sums, for many shapes, and write the table as JSON.

    python benchmarks/gpu_infer.py reports/h200/torch_mm_schedules.json
    python benchmarks/gpu_infer.py out.json --formats bf16 --rows 1,64,4096 --k 4096

For each K, format and number of rows M, the product of normal numbers is computed on the GPU with
binary32 output. The schedule is inferred from a few outputs, spread over all tiles; then all are
predicted on the GPU and compared. Where one schedule does not give all of the few outputs, the best
ones are listed with the share that each gives, and the share that none gives: a kernel that sums in
another way in some tiles, or in a way that is not among those searched.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lastbit.formats import format_of
from lastbit.inference.pieces import Pieces
from lastbit.inference.products import infer_matmul
from lastbit.inference.schedules import candidates, chains_of
from lastbit.predicting import draw_codes, predict_matmul

SHAPES = {4096: 12288, 12288: 4096}  # N for each K
ROWS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 2048, 4096)
SAMPLE = (4, 128)  # rows and columns of the outputs from which a schedule is inferred
PLAIN = 2  # the last tier of schedules of which several together are looked at
LEAST_SHARE = 0.2  # of outputs, below which an agreement is chance
KINDS = {"bf16": torch.bfloat16, "f16": torch.float16}


def tensor(codes: np.ndarray[Any, Any], fmt: str, device: str) -> torch.Tensor:
    """Return codes as a tensor."""
    return torch.from_numpy(codes.view(np.int16)).view(KINDS[fmt]).to(device)


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the product in binary32, as torch.mm sums it."""
    if a.is_cuda:
        return torch.mm(a, b, out_dtype=torch.float32)
    return torch.mm(a.float(), b.float())  # to try this script without a GPU


def spread(size: int, count: int) -> np.ndarray[Any, Any]:
    """Return so many places, spread evenly."""
    return np.unique(np.linspace(0, size - 1, min(count, size)).round().astype(np.intp))


def explained_by_several(
    a: Any, b: Any, seen: np.ndarray[Any, Any], fmt: str, machine: str
) -> tuple[list[dict[str, object]], float]:
    """Return schedules that together give the most outputs, with their shares; and the rest."""
    chains = [c for c in chains_of(fmt, fmt, "f32", [machine]) if c.machine == machine]
    shared = Pieces(a, b, (format_of(fmt), format_of(fmt)))
    left = np.ones(seen.shape, np.bool_)
    found: list[dict[str, object]] = []
    gives = []
    for candidate in candidates(a.shape[1], chains, [fmt]):
        if candidate.tier > PLAIN:
            break
        values = shared.product(candidate.schedule)
        if values is not None:
            gives.append((str(candidate.schedule), values.view(np.uint32) == seen))
    while gives:
        text, mask = max(gives, key=lambda pair: int((pair[1] & left).sum()))
        share = float((mask & left).mean())
        if share < LEAST_SHARE and found:
            break
        found.append({"schedule": text, "share": float(mask.mean()), "adds": share})
        left &= ~mask
        if share < LEAST_SHARE or not left.any() or len(found) == 4:
            break
    return found, float(left.mean())


def one(
    a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], fmt: str, device: str, machine: str
) -> dict[str, object]:
    """Return how one product was summed."""
    start = time.perf_counter()
    on_device = tensor(a, fmt, device), tensor(b, fmt, device)
    runs = [product(*on_device) for _ in range(2)]
    same = bool((runs[0].view(torch.int32) == runs[1].view(torch.int32)).all())
    seen = runs[0].cpu().numpy().view(np.uint32)
    rows, columns = spread(a.shape[0], SAMPLE[0]), spread(b.shape[1], SAMPLE[1])
    part = a[rows], np.ascontiguousarray(b[:, columns]), seen[np.ix_(rows, columns)]
    found = infer_matmul(*part, fmt, machine=machine, units_only=True)
    record: dict[str, object] = {
        "format": fmt,
        "M": a.shape[0],
        "K": a.shape[1],
        "N": b.shape[1],
        "status": found.status,
        "same_in_two_runs": same,
        "schedules": [{"schedule": v.schedule, "alike": list(v.alike)} for v in found.variants],
    }
    if found.variants:
        schedule = found.variants[0].schedule
        where = device if device != "cpu" else None
        mine = predict_matmul(a, b, machine, fmt, schedule, device=where)
        record["outputs"] = int(seen.size)
        record["differing"] = int((mine != seen).sum())
    else:
        several, rest = explained_by_several(*part, fmt, machine)
        record["outputs"] = int(part[2].size)
        record["nearest"], record["unexplained"] = several, rest
    record["seconds"] = round(time.perf_counter() - start, 2)
    return record


def table(arguments: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Yield the record of each shape; each is printed too."""
    start = time.perf_counter()
    for fmt in arguments.formats:
        for k in arguments.k:
            n = arguments.n or SHAPES.get(k, 4096)
            rng = np.random.Generator(np.random.PCG64([arguments.seed, k]))
            most = max(arguments.rows)
            a = draw_codes((most, k), format_of(fmt), "normal", rng)
            b = draw_codes((k, n), format_of(fmt), "normal", rng)
            for m in arguments.rows:
                if time.perf_counter() - start > arguments.most_seconds:
                    print(f"no time for {fmt} M={m} K={k}", flush=True)
                    continue
                record = one(a[:m], b, fmt, arguments.device, arguments.machine)
                print(json.dumps(record), flush=True)
                yield record


def driver() -> str:
    """Return the version of the NVIDIA driver."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return ""


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description="Infer the schedules of torch.mm.")
    parser.add_argument("path", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--machine", default="hopper")
    parser.add_argument("--formats", type=lambda text: text.split(","), default=["bf16", "f16"])
    numbers = lambda text: [int(number) for number in text.split(",")]  # noqa: E731
    parser.add_argument("--rows", type=numbers, default=list(ROWS))
    parser.add_argument("--k", type=numbers, default=list(SHAPES))
    parser.add_argument("--n", type=int, default=0)
    parser.add_argument("--most-seconds", type=float, default=500.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    records = []
    cuda = arguments.device != "cpu"
    document = {
        "schema": "lastbit.schedules/1",
        "command": shlex.join(["python", "benchmarks/gpu_infer.py", *sys.argv[1:]]),
        "what": "torch.mm with binary32 output, normal numbers",
        "machine": arguments.machine,
        "seed": arguments.seed,
        "date": date.today().isoformat(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if cuda else platform.processor(),
        "driver": driver() if cuda else "",
        "shapes": records,
    }
    for record in table(arguments):
        records.append(record)
        arguments.path.parent.mkdir(parents=True, exist_ok=True)
        arguments.path.write_text(json.dumps(document, indent=1) + "\n")
    unexplained = [r for r in records if r["status"] != "found" or r.get("differing")]
    print(f"{len(records)} shapes, {len(unexplained)} not explained by one schedule")


if __name__ == "__main__":
    main()
