"""Time what a person types to look around, against Python's own start with click.

    python benchmarks/start_up.py

The commands import neither numpy nor torch; each is to answer in less than 0.2 s.
"""

from __future__ import annotations

import subprocess
import sys
import time

RUNS = 9
COMMANDS = {
    "python, with click": ["-c", "import click"],
    "lastbit --help": ["-m", "lastbit", "--help"],
    "lastbit rules": ["-m", "lastbit", "rules"],
    "lastbit explain RED201": ["-m", "lastbit", "explain", "RED201"],
}


def best(arguments: list[str]) -> float:
    """Return the shortest of several runs of a whole process, in seconds."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print the best time of each command, and its ratio to the bare start."""
    bare = 0.0
    for name, arguments in COMMANDS.items():
        seconds = best(arguments)
        bare = bare or seconds
        print(f"{name:24}  {seconds:6.3f} s  {seconds / bare:5.2f} times the bare start")


if __name__ == "__main__":
    main()
