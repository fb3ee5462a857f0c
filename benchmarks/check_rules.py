"""Time the check of all rules, against the check of one.

    python benchmarks/check_rules.py

On two cores the whole catalogue is to take less than five minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time


def timed(*codes: str) -> tuple[float, str]:
    """Return the seconds of `lastbit rules --check`, and its last line."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "lastbit", "rules", "--check", *codes]
    done = subprocess.run(command, capture_output=True, text=True)
    return time.perf_counter() - start, done.stdout.splitlines()[-1]


def main() -> None:
    """Print both times and their ratio."""
    one, _ = timed("RED201")
    everything, last = timed()
    cores = len(os.sched_getaffinity(0))
    print(f"RED201     {one:7.1f} s")
    print(f"all rules  {everything:7.1f} s on {cores} cores, {everything / one:.1f} times as long")
    print(last)


if __name__ == "__main__":
    main()
