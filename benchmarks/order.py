"""Compare `lastbit order` with the published way to reveal a summation order, in one run.

    python benchmarks/order.py                 all functions and sizes, a few minutes
    python benchmarks/order.py --most 1024     sizes up to 1024
    python benchmarks/order.py --device cuda   functions of torch on that device alone

The published way is FPRev (arXiv 2411.00442), written here from the paper's description: the plain
form asks for every two elements how large the cluster is in which they meet; the fast form asks
that of one pivot and all others, and goes on inside each group that meets the pivot together. Both
call the function with one vector at a time. Trees must be equal. `lastbit` also repeats calls, runs
the tree on random vectors and compares other probes with it; all its calls are counted.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lastbit.order import OrderTree, reveal_order
from lastbit.order.tree import tree_of_steps

Vector = np.ndarray[Any, np.dtype[np.float32]]
M = np.float32(2.0**120)
SIZES = (16, 64, 256, 1024, 4096, 16384)
PLAIN_MOST = 256  # elements of the largest sum that every two elements are asked of
SLOW_MOST = 1024  # elements for functions that take milliseconds a vector


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


FUNCTIONS: dict[str, tuple[Callable[[int], Callable[[Vector], Any]], int]] = {
    "numpy.sum": (lambda n: lambda x: np.sum(x, axis=-1), SIZES[-1]),
    "torch.sum": (lambda n: _torch_sum, SIZES[-1]),
    "numpy.cumsum": (lambda n: cumulative, SIZES[-1]),
    "steps of 16": (lambda n: chain, SLOW_MOST),
    "random tree": (random_tree, SLOW_MOST),
    "numpy.sum, one by one": (lambda n: _one(np.sum), SIZES[-1]),
    "numpy.cumsum, one by one": (lambda n: _one(cumulative), SIZES[-1]),
    "random tree, one by one": (lambda n: _one(random_tree(n)), 256),
}


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and the seconds it took."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def compare(name: str, function: Callable[[Vector], Any], n: int) -> bool:
    """Print one line, and say whether the trees are equal."""
    forms = [fast] + ([plain] if n <= PLAIN_MOST else [])
    reveal_order(function, n)  # what a first call builds is not timed
    order, seconds = timed(lambda: reveal_order(function, n))
    line = f"{name:25} {n:6}  {order.calls:6} {order.probes:7} {seconds:8.3f}"
    same = True
    for form in forms:
        asked = Asked(function, n)
        steps, spent = timed(lambda form=form, asked=asked: form(asked))  # type: ignore[misc]
        tree: OrderTree = tree_of_steps(n, steps)
        same &= tree == order.tree
        line += f"  {asked.calls:7} {spent:8.3f} {asked.calls / order.calls:7.1f}"
        line += f" {spent / seconds:7.1f}"
    print(f"{line}{'' if same else '  OTHER TREE'}", flush=True)
    return same


def main() -> None:
    """Print a line for each function and size; exit with 1 where trees differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=SIZES[-1], help="the largest size")
    parser.add_argument("--device", help="a device of torch")
    parser.add_argument("--only", default="", help="functions whose name holds this")
    given = parser.parse_args()
    sys.setrecursionlimit(10_000)
    print(f"{'':32}  lastbit{'':17}FPRev, fast{'':21}FPRev, plain")
    columns = "  calls seconds  calls x  time x"
    print(f"{'':32}  calls  probes  seconds{columns} {columns}")
    same = True
    functions = on_device(given.device) if given.device else FUNCTIONS
    for name, (made, most) in functions.items():
        for n in SIZES:
            if n <= min(most, given.most) and given.only in name:
                same &= compare(name, made(n), n)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
