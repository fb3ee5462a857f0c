"""Compare `lastbit order` with the published way to reveal a summation order, in one run.

    python benchmarks/order.py                 all functions and sizes, about a minute
    python benchmarks/order.py --most 1024     sizes up to 1024
    python benchmarks/order.py --device cuda   functions of torch on that device alone
    python benchmarks/order.py --output F      write the rows as JSON, too

The published way is FPRev (arXiv 2411.00442), written here from the paper's description: the plain
form asks for every two elements how large the cluster is in which they meet; the fast form asks
that of one pivot and all others, and goes on inside each group that meets the pivot together. Both
call the function with one vector at a time, and check nothing. Trees must be equal. Of the calls of
`lastbit`, those of its checks are shown, too: they make sure that batches and repeated calls give
the same bits, and that the tree gives the function's own bits on random vectors.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from lastbit.order import OrderTree, reveal_order
from lastbit.order.tree import tree_of_steps

Vector = np.ndarray[Any, np.dtype[np.float32]]
M = np.float32(2.0**120)
SIZES = (16, 64, 256, 1000, 1024, 4096, 16384)
PLAIN_MOST = 256  # elements of the largest sum that every two elements are asked of
SLOW_MOST = 1024  # elements for functions that take milliseconds a vector
SHORT, RUNS = 0.3, 3  # seconds of what is timed so many times, for the least
TIMES = 10  # how many times less time is wanted where calls can be batched
SMALL = 64  # elements from which no more calls are wanted


class Asked:
    """How large the cluster is in which two elements meet; counts the calls."""

    def __init__(self, function: Callable[[Vector], Any], n: int) -> None:
        self.function, self.n, self.calls = function, n, 0
        self.vector = np.ones(n, np.float32)

    def size(self, i: int, j: int) -> int:
        """Return the size of the smallest cluster that holds two elements."""
        self.calls += 1
        self.vector[i], self.vector[j] = M, -M
        result = float(self.function(self.vector))
        self.vector[i] = self.vector[j] = 1
        return self.n - int(result)


def plain(asked: Asked) -> list[list[int]]:
    """Return the steps of the tree, asking for every two elements."""
    n = asked.n
    pairs = sorted((asked.size(i, j), i, j) for i in range(n) for j in range(i + 1, n))
    root = list(range(n))  # of each element, so far
    members = {i: [i] for i in range(n)}
    steps: list[list[int]] = []
    at = 0
    while at < len(pairs):
        size, i, j = pairs[at]
        at += 1
        if root[i] == root[j]:
            continue
        # All that meet at this size with the same elements form one step.
        kids = [root[i], root[j]]
        for other_size, a, b in pairs[at:]:
            if other_size != size or sum(len(members[kid]) for kid in kids) == size:
                break
            ends = {root[a], root[b]}
            if ends & set(kids) and not ends <= set(kids):
                kids += [end for end in ends if end not in kids]
        steps.append(kids)
        node = n + len(steps) - 1
        members[node] = [e for kid in kids for e in members.pop(kid)]
        for element in members[node]:
            root[element] = node
    return steps


def fast(asked: Asked) -> list[list[int]]:
    """Return the steps of the tree, asking for one pivot of each group."""
    steps: list[list[int]] = []

    def build(group: list[int]) -> tuple[list[int], int]:
        """Return what a group leaves, and the size of the cluster in which it meets."""
        pivot, *others = group
        met: dict[int, list[int]] = {}
        for other in others:
            met.setdefault(asked.size(pivot, other), []).append(other)
        left, inside, largest = [pivot], 1, 1
        for size in sorted(met):
            part, meets = build(met[size])
            kids = [*left, *part]
            inside += len(met[size])
            largest = max(size, meets)
            if size == inside:
                steps.append(kids)
                left = [asked.n + len(steps) - 1]
            else:
                left = kids  # the step holds elements outside the group
        return left, largest

    build(list(range(asked.n)))
    return steps


def cumulative(x: Vector) -> Any:
    """Add left to right."""
    return np.cumsum(x, axis=-1, dtype=np.float32)[..., -1]


def chain(x: Vector) -> Any:
    """Add as a chain of steps of 16 terms does, each cut to 25 digits below its largest."""
    rows = np.atleast_2d(x).astype(np.float64)
    total = np.zeros((len(rows), 1))
    for start in range(0, rows.shape[1], 16):
        terms = np.concatenate((total, rows[:, start : start + 16]), axis=1)
        exponent = np.frexp(np.abs(terms).max(axis=1, keepdims=True))[1] - 1
        total = np.trunc(np.ldexp(terms, 25 - exponent)).sum(axis=1, keepdims=True)
        digits = np.maximum(np.frexp(np.abs(total))[1] - 24, 0)  # cut to 24 digits
        total = np.ldexp(np.trunc(np.ldexp(total, -digits)), digits + exponent - 25)
    return np.float32(total[0, 0]) if x.ndim == 1 else total[:, 0].astype(np.float32)


def random_tree(n: int) -> Callable[[Vector], Any]:
    """Return a sum in an order without any regularity."""
    rng = np.random.Generator(np.random.PCG64(n))
    nodes = list(range(n))
    merges = []
    while len(nodes) > 1:
        a, b = (nodes.pop(int(rng.integers(len(nodes)))) for _ in range(2))
        merges.append((a, b))
        nodes.append(n + len(merges) - 1)

    def total(x: Vector) -> Any:
        values = list(np.atleast_2d(x).T)
        for a, b in merges:
            values.append(values[a] + values[b])
        return values[-1][0] if x.ndim == 1 else values[-1]

    return total


def _torch_sum(x: Vector) -> Any:
    import torch

    return torch.sum(torch.from_numpy(x), dim=-1).numpy()


def _one(function: Callable[[Vector], Any]) -> Callable[[Vector], Any]:
    """Return a function that takes single vectors only."""

    def single(x: Vector) -> Any:
        if x.ndim != 1:
            raise ValueError("one vector")
        return function(x)

    return single


def on_device(device: str) -> dict[str, tuple[Callable[[int], Callable[[Vector], Any]], int]]:
    """Return functions of torch that are handed vectors of numpy, as the published way does."""
    import torch

    def total(x: Vector) -> Any:
        return torch.sum(torch.from_numpy(x).to(device), dim=-1).cpu().numpy()

    def product(n: int) -> Callable[[Vector], Any]:
        ones = torch.ones((n, 1), device=device)

        def column(x: Vector) -> Any:
            rows = torch.from_numpy(np.atleast_2d(x)).to(device)
            found = torch.mm(rows, ones)[:, 0].cpu().numpy()
            return found[0] if x.ndim == 1 else found

        return column

    return {
        f"torch.sum, {device}": (lambda n: total, SIZES[-1]),
        f"torch.mm, {device}": (product, SIZES[-1]),
    }


def _torch_dot(x: Vector) -> Any:
    import torch

    ones = torch.ones(x.shape[-1])
    return torch.dot(torch.from_numpy(x), ones).item()


FUNCTIONS: dict[str, tuple[Callable[[int], Callable[[Vector], Any]], int]] = {
    "numpy.sum": (lambda n: lambda x: np.sum(x, axis=-1), SIZES[-1]),
    "torch.sum": (lambda n: _torch_sum, SIZES[-1]),
    "numpy.cumsum": (lambda n: cumulative, SIZES[-1]),
    "steps of 16": (lambda n: chain, SLOW_MOST),
    "random tree": (random_tree, SLOW_MOST),
    "numpy.sum, one by one": (lambda n: _one(np.sum), SIZES[-1]),
    "numpy.cumsum, one by one": (lambda n: _one(cumulative), SIZES[-1]),
    "torch.dot, one by one": (lambda n: _one(_torch_dot), SIZES[-1]),
    "steps of 16, one by one": (lambda n: _one(chain), 256),
    "random tree, one by one": (lambda n: _one(random_tree(n)), 256),
}


@dataclass
class Row:
    """What one function and size took.

    Attributes:
        function: its name.
        n: the elements.
        batched: whether it takes several vectors at once.
        calls: of `lastbit`, all of them.
        checks: those of its checks.
        probes: the vectors that answered a question.
        seconds: of `lastbit`.
        fast_calls: of the published fast form.
        fast_seconds: likewise.
        plain_calls: of the published plain form, where it is run.
        plain_seconds: likewise.
        same: whether all trees are equal.
    """

    function: str
    n: int
    batched: bool
    calls: int
    checks: int
    probes: int
    seconds: float
    fast_calls: int
    fast_seconds: float
    plain_calls: int | None
    plain_seconds: float | None
    same: bool

    @property
    def text(self) -> str:
        """The row as a line of the table."""
        line = f"{self.function:24} {self.n:6} {self.calls - self.checks:7} {self.checks:6}"
        line += f" {self.calls:6} {self.probes:7} {self.seconds:8.4f}"
        for calls, seconds in (
            (self.fast_calls, self.fast_seconds),
            (self.plain_calls, self.plain_seconds),
        ):
            if calls is not None and seconds is not None:
                line += f"  {calls:7} {seconds:8.4f} {calls / self.calls:7.1f}"
                line += f" {seconds / self.seconds:7.1f}"
        return line if self.same else f"{line}  OTHER TREE"


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and the least of the seconds it took in some runs."""
    least = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        result = work()
        least = min(least, time.perf_counter() - start)
        if least > SHORT:
            break
    return result, least


def compare(name: str, function: Callable[[Vector], Any], n: int) -> Row:
    """Reveal the order of one function in all ways."""
    reveal_order(function, n)  # what a first call builds is not timed
    order, seconds = timed(lambda: reveal_order(function, n))
    same = True
    found: list[tuple[int, float]] = []
    for form in [fast] + ([plain] if n <= PLAIN_MOST else []):

        def counted(
            form: Callable[[Asked], list[list[int]]] = form,
        ) -> tuple[Asked, list[list[int]]]:
            asked = Asked(function, n)
            return asked, form(asked)

        (asked, steps), spent = timed(counted)
        tree: OrderTree = tree_of_steps(n, steps)
        same &= tree == order.tree
        found.append((asked.calls, spent))
    plain_calls, plain_seconds = found[1] if len(found) > 1 else (None, None)
    batched = not name.endswith("one by one")
    counts = (order.calls, order.checks, order.probes, seconds)
    return Row(name, n, batched, *counts, *found[0], plain_calls, plain_seconds, same)


def verdict(rows: list[Row]) -> dict[str, Any]:
    """Say where no more calls are made, and where ten times less time is taken."""
    more = [f"{r.function} {r.n}: {r.calls} to {r.fast_calls}" for r in rows if _more(r)]
    batched = [row for row in rows if row.batched]
    slower = [row for row in batched if TIMES * row.seconds > row.fast_seconds]
    return {
        "rows": len(rows),
        "other_trees": [f"{r.function} {r.n}" for r in rows if not r.same],
        "more_calls_than_fast": more,
        "more_calls_from_64_elements": [
            f"{r.function} {r.n}" for r in rows if _more(r) and r.n >= SMALL
        ],
        "batched_rows": len(batched),
        "less_than_10_times_faster_than_fast": [
            f"{r.function} {r.n}: {r.fast_seconds / r.seconds:.1f}" for r in slower
        ],
        "longest_published_time_of_those": max((r.fast_seconds for r in slower), default=0.0),
    }


def _more(row: Row) -> bool:
    return row.calls > row.fast_calls


def verdict_text(found: dict[str, Any]) -> str:
    """Write what `verdict` gives in words."""
    rows, batched = found["rows"], found["batched_rows"]
    more, slower = found["more_calls_than_fast"], found["less_than_10_times_faster_than_fast"]
    text = f"no more calls than FPRev's fast form: {rows - len(more)} of {rows} rows"
    text += f" (more: {', '.join(more)})" if more else ""
    text += f"; at least {TIMES} times less time where calls can be batched: "
    text += f"{batched - len(slower)} of {batched} rows"
    if slower:
        most = found["longest_published_time_of_those"]
        text += f" (less: {', '.join(slower)}; there the fast form takes {most:.3f} s at most)"
    return text


def main() -> None:
    """Print a line for each function and size; exit with 1 where trees differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=SIZES[-1], help="the largest size")
    parser.add_argument("--device", help="a device of torch")
    parser.add_argument("--only", default="", help="functions whose name holds this")
    parser.add_argument("--output", type=Path, help="a file for the rows, as JSON")
    given = parser.parse_args()
    sys.setrecursionlimit(10_000)
    print(f"{'':31}  lastbit{'':31}  FPRev, fast{'':21}  FPRev, plain")
    columns = "    calls  seconds calls x  time x"
    print(f"{'':32} reveal checks  calls  probes  seconds{columns}{columns}")
    rows: list[Row] = []
    functions = on_device(given.device) if given.device else FUNCTIONS
    for name, (made, most) in functions.items():
        for n in SIZES:
            if n <= min(most, given.most) and given.only in name:
                rows.append(compare(name, made(n), n))
                print(rows[-1].text, flush=True)
    found = verdict(rows)
    if given.output is not None:
        packages = ("lastbit", "numpy", "torch", "ml_dtypes")
        whole = {
            "schema": "lastbit.benchmark.order/1",
            "command": " ".join(["python", "benchmarks/order.py", *sys.argv[1:]]),
            "versions": {"python": platform.python_version()}
            | {name: version(name) for name in packages},
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, one thread",
            "rows": [asdict(row) for row in rows],
            "verdict": found,
        }
        text = json.dumps(whole, indent=1, ensure_ascii=False)
        given.output.write_text(f"{text}\n", encoding="utf-8")
    print(verdict_text(found))
    sys.exit(0 if all(row.same for row in rows) else 1)


if __name__ == "__main__":
    main()
