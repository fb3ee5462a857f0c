"""The numbers of the chapter's exercises 5-1 to 5-4 that no plan shows on its own.

    python examples/chapter_exercises.py

The plans `examples/chapter/exercise_*.toml` show the rest; `reports/chapter/exercises.md` puts the
answers together.
"""

from fractions import Fraction
from math import floor

from chapter_costs import ACTIVATION, KIB, MIB, PROJECTION, RTX, SIZES, fused, program

import lastbit
from lastbit.cost import Attention, Placement, Tile, cost_of_program, occupancy
from lastbit.cost.residence import Block

OVERHEAD = Fraction(5, 10**6)  # seconds that the fused kernel takes in addition
ONLINE = """
k: f32[3]                                            # 0, 1, 2: the scores are k ln 2
v: f32[3]                                            # the values 1, 3, 5
s: real = k * ln2
m1: real = s[0:1]
l1: real = exp(s[0:1] - m1)
u1: real = l1 * v[0:1]
m2: real = maximum(m1, s[1:2])
r2: real = exp(m1 - m2)
p2: real = exp(s[1:2] - m2)
l2: real = r2 * l1 + p2
u2: real = r2 * u1 + p2 * v[1:2]
m3: real = maximum(m2, s[2:3])
r3: real = exp(m2 - m3)
p3: real = exp(s[2:3] - m3)
l3: real = r3 * l2 + p3
u3: real = r3 * u2 + p3 * v[2:3]
online: real = u3 / l3
whole: real = sum(softmax(s) * v)
"""


def tile_of_64_x_128() -> None:
    """Print what Experiment 5-1 asks for."""
    whole = program(PROJECTION, **SIZES)
    once = cost_of_program(whole).kernels[0].read
    square, wide = (
        cost_of_program(whole, Placement({"c": Tile(64, columns, 32)})).kernels[0]
        for columns in (64, 128)
    )
    print("Experiment 5-1: a tile of 64 x 128, steps of 32")
    print(f"  local storage       {Fraction(wide.local_bytes or 0, KIB)} KiB")
    print(f"  A is read           {wide.read['x'] // once['x']} times")
    print(f"  W is read           {wide.read['w'] // once['w']} times")
    print(
        f"  traffic             {Fraction(wide.bytes, MIB)} MiB, {square.bytes // MIB} in 64 x 64"
    )
    ratio = Fraction(wide.bytes, square.bytes)
    print(f"  faster, where its bandwidth is above {float(ratio):.4f} of the other's")
    for name, kernel in (("64 x 64", square), ("64 x 128", wide)):
        found = occupancy(RTX, Block(0, 0, kernel.local_bytes or 0)).admitted["shared memory"]
        print(f"  {name:8} blocks on an SM of {RTX.name}: {found}")


def rows_that_pay() -> None:
    """Print what Experiment 5-2 asks for."""
    row = program(ACTIVATION, M=1, N=12288)
    apart = cost_of_program(row).bytes
    together = cost_of_program(row, Placement(inside=fused("t", "z", "q"))).bytes
    saved = apart - together
    least = OVERHEAD * RTX.bandwidth / saved
    rows = floor(least) + 1
    print("Experiment 5-2: the activation chain in one kernel")
    print(f"  saved for each row  {saved} bytes")
    print(f"  5 us at {RTX.bandwidth // 10**9} GB/s  {int(OVERHEAD * RTX.bandwidth)} bytes")
    print(f"  pays from           {rows} rows ({float(least):.2f})")


def online_softmax_and_prefetch() -> None:
    """Print what Experiment 5-3 asks for."""
    graph = lastbit.parse_program(ONLINE).bind({})
    names = ("r3", "l3", "u3", "online", "whole")
    values = lastbit.run_graph(graph, {"k": [0, 1, 2], "v": [1, 3, 5]}, names)
    shown = {name: next(iter(value.flat)) for name, value in values.items()}
    assert shown["online"] == shown["whole"]
    print("Experiment 5-3: a third element with the score ln 4 and the value 5")
    print("  m                   ln 4")
    for name, meaning in (("r3", "factor"), ("l3", "l"), ("u3", "u"), ("online", "u / l")):
        print(f"  {meaning:18}  {shown[name]}")
    print(f"  all three at once   {shown['whole']}")
    for prefetch in (0, 1):
        run = Attention(8192, 128, 64, RTX.block_bytes, prefetch=prefetch)
        print(
            f"  {prefetch} prefetched: {run.rows} rows of Q, {run.passes} passes, "
            f"{run.bytes // MIB} MiB, {run.local_bytes(run.rows)} of {RTX.block_bytes} bytes"
        )


def main() -> None:
    """Print the numbers of all exercises."""
    tile_of_64_x_128()
    print()
    rows_that_pay()
    print()
    online_softmax_and_prefetch()


if __name__ == "__main__":
    main()
