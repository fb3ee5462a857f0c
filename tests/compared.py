"""Two functions that differ, and a file of such functions."""

from __future__ import annotations

import lastbit

X = lastbit.f32("M", 64)
IDEA = """import lastbit

def before(x, w):
    g = lastbit.matmul(x, w, acc="f32", schedule="seq").to("bf16")
    return lastbit.silu(g).to("bf16")

def after(x, w):
    print("tracing")
    g = lastbit.matmul(x, w, acc="f32", schedule="split(4)")
    return lastbit.silu(g).to("bf16")

before.inputs = {"x": "bf16[M, 64]", "w": "bf16[64, 16]"}
three = 3
"""


def one(x):
    """Round once."""
    return (x * 3).to("bf16")


def two(x):
    """Round the input too."""
    return (x.to("bf16") * 3).to("bf16")


def wide(x):
    """Round to another format."""
    return (x * 3).to("f32")
