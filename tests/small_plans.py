"""A small plan, two small rules for its transforms, and its problems."""

import os
from datetime import date
from pathlib import Path

import pytest

from lastbit.change import Change
from lastbit.errors import InputError
from lastbit.plan import load_plan
from lastbit.rule import Parameter, Rewrite

PLANS = Path(__file__).parent / "data" / "plans"
TODAY = date(2026, 6, 1)
SPLIT = Rewrite(
    code="RED201",
    name="split-k",
    claim=Change.REASSOCIATION,
    prose="RED201 split-k: one long sum becomes several.",
    graph="",
    at=("y",),
    rewrite=lambda site: {},
    parameters=(
        Parameter("n", "count", "the number of pieces"),
        Parameter("tile", "length", "the elements of a tile", default=1),
        Parameter("partials", "format", "the format of the partial sums", default="f32"),
        Parameter("inner", "schedule", "the tree of a piece", default="seq"),
        Parameter("order", "choice", "the order", default="plain", choices=("plain", "reversed")),
    ),
)
DROP = Rewrite(
    code="FUS102",
    name="drop-rounding",
    claim=Change.ROUNDING,
    prose="FUS102 drop-rounding: a rounding disappears.",
    graph="",
    at=("t",),
    rewrite=lambda site: {},
)
RULES = {rule.code: rule for rule in (SPLIT, DROP)}
GRAPH = """schema = 1
[graph]
symbols = { M = [1, 64], K = 32 }
text = '''
x: bf16[M, K]
y: f32 = sum(x) acc f32 seq
'''
"""  # seven lines: what a case adds begins in line 8


def load(path):
    """Load a plan on the day of these tests."""
    return load_plan(path, TODAY, RULES)


def problems_of(folder, text, name="p.toml"):
    """Return the problems of a plan as texts, without the folder."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        load(path)
    return str(caught.value).replace(f"{folder}{os.sep}", "").split("\np.")
