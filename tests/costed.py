"""Programs and plans whose costs are known by hand, and what lastbit says they cost."""

from __future__ import annotations

from datetime import date
from itertools import pairwise
from pathlib import Path

from lastbit.cost import Placement, ProgramCost, cost_of_program
from lastbit.costing import Account, Ledger
from lastbit.definitions import Definitions, reference
from lastbit.plan import load_plan
from lastbit.records import Cost
from lastbit.text import parse_program
from lastbit.verify.bench import Bench

KIB, MIB = 2**10, 2**20
TODAY = date(2026, 6, 1)
ON_H100 = '[target]\ndevice = "h100-sxm"\n'
PRODUCT = """
a: bf16[M, K]
w: bf16[K, N]
c: bf16 = matmul(a, w) acc f32 {schedule}
"""
PROJECTION = {"M": 1024, "K": 4096, "N": 12288}
QUANTIZED = """
a: f16[M, K]
w: e4m3fn[K, N]
s: f32 = amax(a, axis=-1) / 448
q: e4m3fn = a / s saturate
y: f16 = matmul(q, w) * s acc f32 seq
"""
ATTENTION = """
q: bf16[L, D]
k: bf16[S, D]
v: bf16[S, D]
s: f32 = matmul(q, transpose(k)) acc f32 seq
m: f32 = max(s, axis=-1)
p: f32 = exp(s - m)
l: f32 = sum(p) acc f32 seq
u: f32 = matmul(p, v) acc f32 seq
o: bf16 = u / l
"""


def program(text: str, **sizes: int) -> Definitions:
    """Return a program of the text form at some sizes."""
    parsed = parse_program(text)
    return Definitions(parsed.nodes(sizes, reference), parsed.outputs)


def cost(text: str, placement: Placement = Placement(), **sizes: int) -> ProgramCost:  # noqa: B008  a frozen value
    """Return what a program of the text form costs."""
    return cost_of_program(program(text, **sizes), placement)


def fused(*names: str) -> frozenset[tuple[str, str]]:
    """Return that each value is computed inside the next."""
    return frozenset(pairwise(names))


def transform(rule: str, at: str, *more: str) -> str:
    """Return the lines of a plan that apply a rule at a value."""
    return "\n".join(["[[transform]]", f'rule = "{rule}"', f'at = ["{at}"]', *more, ""])


def accounts(folder: Path, text: str) -> list[Account]:
    """Return what each step of a plan costs, without verdicts."""
    path = folder / "p.toml"
    path.write_text(text, encoding="utf-8")
    plan = load_plan(path, TODAY)
    ledger = Ledger(plan, Bench(plan))
    return [ledger.step(number, step) for number, step in enumerate(plan.transforms)]


def account(folder: Path, text: str) -> tuple[Cost, tuple[tuple[str, str], ...]]:
    """Return cost and findings of the last step of a plan."""
    last = accounts(folder, text)[-1]
    assert last.cost is not None, last.why
    return last.cost, last.findings
