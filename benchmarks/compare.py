"""Time `lastbit.compare` on binary32 arrays against the comparisons that people use, in one run.

    python benchmarks/compare.py [ELEMENTS] [RECORD.json]

Each comparison is a process of its own that loads both arrays, then compares; the time is that of
the comparison, the best of some runs, and the memory is what it adds to the two arrays at its peak.
`lastbit compare FILE FILE` reads the files itself; its memory is that of the whole process. The
peers answer less: numpy the greatest distance in ulp, torch whether a bound holds, ulpwise the
greatest distance (it wants `pip install ulpwise`, and takes a hundredth of the elements).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

RUNS = 3
CASES = ("one in a thousand differs", "every second differs")
ULPWISE_SHARE = 100
NAMES = (
    "lastbit",
    "lastbit of files",
    "numpy.testing.assert_array_max_ulp",
    "torch.testing.assert_close",
    "ulpwise.max_ulp",
)


def call_of(name: str, paths: list[str]) -> tuple[Callable[[], object], int]:
    """Return what a comparison calls, and how many elements it takes."""
    if name == "lastbit of files":
        from lastbit.comparing import compare_files

        return lambda: compare_files(*paths), np.load(paths[0], mmap_mode="r").size
    a, b = (np.load(path) for path in paths)
    if name == "lastbit":
        from lastbit.comparing import compare

        return lambda: compare(a, b), a.size
    if name.startswith("numpy"):
        return lambda: np.testing.assert_array_max_ulp(a, b, 2**32), a.size
    if name.startswith("torch"):
        import torch

        x, y = torch.from_numpy(a), torch.from_numpy(b)
        # Bounds that hold, so that it does not stop to write an error.
        return lambda: torch.testing.assert_close(x, y, rtol=1, atol=1e30), a.size  # noqa: TID251
    import ulpwise

    part = a[: len(a) // ULPWISE_SHARE], b[: len(b) // ULPWISE_SHARE]
    return lambda: ulpwise.max_ulp(*part, dtype="f32"), part[0].size


def measure(name: str, paths: list[str]) -> None:
    """Run one comparison in this process and print its seconds, elements and bytes as JSON."""
    call, elements = call_of(name, paths)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew (Linux, proc(5))
    before = 0 if name == "lastbit of files" else _memory("VmRSS")
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    print(
        json.dumps(
            {"seconds": min(seconds), "elements": elements, "bytes": _memory("VmHWM") - before}
        )
    )


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def write_arrays(folder: Path, elements: int, every: int) -> list[str]:
    """Write two arrays of which one element in `every` differs by some ulp."""
    rng = np.random.default_rng(0)  # seed 0
    a = rng.standard_normal(elements, np.float32)
    b = a.copy()
    b.view(np.uint32)[::every] += rng.integers(1, 100, len(b[::every]), np.uint32)
    paths = [str(folder / "a.npy"), str(folder / "b.npy")]
    for path, array in zip(paths, (a, b), strict=True):
        np.save(path, array)
    return paths


def main(elements: int, record: str | None) -> None:
    """Print a line for each comparison, with its time over that of lastbit."""
    lines = []
    for case, every in zip(CASES, (1000, 2), strict=True):
        print(f"{elements:,} elements, {case}")
        with tempfile.TemporaryDirectory() as folder:
            paths = write_arrays(Path(folder), elements, every)
            ours = 0.0
            for name in NAMES:
                command = [sys.executable, __file__, "--one", name, *paths]
                ran = subprocess.run(command, capture_output=True, text=True, check=False)
                if ran.returncode:
                    print(f"  {name:36}  {ran.stderr.strip().splitlines()[-1]}")
                    continue
                found = json.loads(ran.stdout)
                each = found["seconds"] / found["elements"]
                ours = ours or each
                found |= {"case": case, "name": name, "ratio": each / ours}
                lines.append(found)
                print(
                    f"  {name:36}  {each * 1e9:8.2f} ns an element, {each / ours:7.2f} times "
                    f"lastbit, {found['bytes'] / 2**20:8.0f} MiB",
                    flush=True,
                )
    if record:
        head = {"command": f"python benchmarks/compare.py {elements} {record}"}
        head |= {"cores": os.cpu_count(), "numpy": np.__version__, "elements": elements}
        Path(record).write_text(json.dumps(head | {"runs": lines}, indent=2) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        measure(sys.argv[2], sys.argv[3:])
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 10**8, sys.argv[2] if sys.argv[2:] else None)
