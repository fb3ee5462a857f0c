"""Time `lastbit lint` on plans of many equal layers: time must grow no faster than the steps.

    python benchmarks/many_layers.py                 times 9, 18 and 36 layers, and one layer
    python benchmarks/many_layers.py --plan 36       prints the plan of 36 layers

A layer is the feed-forward block of Qwen3-8B with twelve transforms. The peer is lastbit itself on
one layer: equal regions are decided once, so 36 layers cost little more than reading them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HEAD = """schema = 1

[graph]
name = "qwen3-8b-ffn-x{layers}"
symbols = {{ M = {{ range = [1, 8192], typical = 1024 }}, H = 4096, F = 12288 }}
batch = "M"
text = \"\"\"
h0: bf16[M, H]
"""

LAYER = """wg{i}: bf16[H, F]
wu{i}: bf16[H, F]
wd{i}: e4m3fn[F, H]
g{i}: bf16 = matmul(h{i}, wg{i}) acc f32 seq
u{i}: bf16 = matmul(h{i}, wu{i}) acc f32 seq
t{i}: bf16 = silu(g{i})
z{i}: bf16 = t{i} * u{i}
s{i}: f32 = amax(z{i}, axis=-1) / 448
q{i}: e4m3fn = z{i} / s{i} saturate
y{i}: bf16 = matmul(q{i}, wd{i}) * s{i} acc f32 seq
h{j}: bf16 = h{i} + y{i}
"""

TRANSFORMS = (
    ("split-k", "g", "n = 4\ntile = 64"),
    ("split-k", "u", 'n = { by = "M", table = [[1, 16], [64, 4], [512, 1]] }\ntile = 64'),
    ("split-k-atomics", "g", "n = 4"),
    ("split-k-bf16-partials", "y", "n = 4"),
    ("block-partials", "u", "block = 1024"),
    ("epilogue", "g", ""),
    ("fuse-elementwise", "t", ""),
    ("drop-rounding", "t", ""),
    ("activation-on-partials", "t", "block = 2048"),
    ("change-layout", "z", ""),
    ("interchange-loops", "g", ""),
    ("change-schedule", "y", 'schedule = "lanes(4)"'),
)


def plan(layers: int) -> str:
    """Return the plan of so many layers with twelve transforms each, all of them branches."""
    text = HEAD.format(layers=layers)
    text += "".join(LAYER.format(i=i, j=i + 1) for i in range(layers)) + '"""\n'
    for i in range(layers):
        for rule, at, rest in TRANSFORMS:
            body = f'rule = "{rule}"\nat = ["{at}{i}"]\n{rest}\nbranch = true\n'
            text += f"\n[[transform]]\n{body}"
    return text


def seconds(layers: int, folder: Path) -> tuple[float, str]:
    """Return the time of one whole run, and the last line of its report."""
    path = folder / f"layers{layers}.toml"
    path.write_text(plan(layers), encoding="utf-8")
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "lastbit", "lint", str(path), "--quiet"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode > 1:
        raise SystemExit(done.stderr)
    return time.perf_counter() - start, done.stdout.strip().splitlines()[-1]


def main() -> None:
    """Print the plan, or time several sizes and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plan", type=int, metavar="LAYERS", help="print the plan and stop")
    given = parser.parse_args()
    if given.plan:
        sys.stdout.write(plan(given.plan))
        return
    with tempfile.TemporaryDirectory() as folder:
        one, _ = seconds(1, Path(folder))
        print("layers  steps  seconds  of one layer  a step more")
        last = (1, one)
        for layers in (1, 9, 18, 36):
            spent, line = seconds(layers, Path(folder))
            steps = layers * len(TRANSFORMS)
            more = (spent - last[1]) / max(1, (layers - last[0]) * len(TRANSFORMS))
            print(f"{layers:6}  {steps:5}  {spent:7.2f}  {spent / one:12.2f}  {more * 1e3:8.2f} ms")
            last = (layers, spent)
        print(line)


if __name__ == "__main__":
    main()
