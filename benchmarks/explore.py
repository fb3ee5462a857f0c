"""Time the search for the best partition and tiles: ten operators have 512 partitions.

    python benchmarks/explore.py

Each program is explored in a process of its own, with nothing remembered, for blocks of 227 KiB;
the time is that of the search alone. To compare: costing each partition's cheapest program once.
"""

from __future__ import annotations

import subprocess
import sys
import time

from lastbit.cost import Placement, cost_of_program, explore
from lastbit.definitions import Definitions, reference
from lastbit.text import parse_program

RUNS = 5
CAPACITY = 227 * 1024
CHAIN = "v0: bf16[M, F]\n" + "\n".join(f"v{i}: bf16 = v{i - 1} * {i}" for i in range(1, 11))
PRODUCTS = """
x: bf16[M, H]
gamma: bf16[1, H]
w_up: bf16[H, F]
w_down: bf16[F, H]
n: bf16 = rms_norm(x, gamma, 1e-6) acc f32 seq
g: bf16 = matmul(n, w_up) acc f32 seq
t: bf16 = silu(g)
a: bf16 = t * 2
b: bf16 = a + 1
c: bf16 = b * b
d: bf16 = tanh(c)
e: bf16 = d * 3
y: bf16 = matmul(e, w_down) acc f32 seq
z: bf16 = y * 2
"""
FFN = """
x: bf16[M, H]
w_gate: bf16[H, F]
w_up: bf16[H, F]
w_down: e4m3fn[F, H]
g: bf16 = matmul(x, w_gate) acc f32 seq
u: bf16 = matmul(x, w_up) acc f32 seq
t: bf16 = silu(g)
z: bf16 = t * u
s: f32 = amax(z, axis=-1) / 448
q: e4m3fn = z / s saturate
y: bf16 = matmul(q, w_down) * s acc f32 seq
"""
PROGRAMS = {"ten in a chain": CHAIN, "ten with two products": PRODUCTS, "feed-forward": FFN}
SIZES = {"M": 1024, "H": 4096, "F": 12288}


def once(name: str) -> None:
    """Explore one program and print what it took."""
    parsed = parse_program(PROGRAMS[name])
    program = Definitions(parsed.nodes(SIZES, reference), parsed.outputs)
    start = time.perf_counter()
    found = explore(program, CAPACITY)
    spent = time.perf_counter() - start
    start = time.perf_counter()
    for alternative in found.cheapest:
        together = tuple(frozenset((*c.inside, *c.values)) for c in alternative.choices)
        tiles = {choice.values[0]: choice.tile for choice in alternative.choices}
        cost_of_program(program, Placement(tiles, together=together))
    whole = time.perf_counter() - start
    print(found.partitions, len(found.cheapest), len(found.front), spent, whole)


def main() -> None:
    """Print the best of several runs for each program."""
    if len(sys.argv) > 1:
        once(sys.argv[1])
        return
    print(f"{'':24} {'partitions':>10} {'that fit':>9} {'front':>6} {'seconds':>8} {'one each':>9}")
    for name in PROGRAMS:
        rows = []
        for _ in range(RUNS):
            done = subprocess.run(
                [sys.executable, __file__, name], check=True, capture_output=True, text=True
            )
            rows.append(done.stdout.split())
        partitions, fit, front, *_ = rows[0]
        spent, whole = (min(float(row[column]) for row in rows) for column in (3, 4))
        print(f"{name:24} {partitions:>10} {fit:>9} {front:>6} {spent:8.3f} {whole:9.3f}")


if __name__ == "__main__":
    main()
