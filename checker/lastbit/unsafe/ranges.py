"""How small and how large every value of a program can be, from what a plan declares.

An input without a declared range may hold every finite value of its format. Bounds are those of
finite runs: what overflows is not followed further. They are kept in binary64 and rounded outward.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from lastbit.choices import is_index
from lastbit.graph import Const, Input, Map, Node, Reduce, Round
from lastbit.rounding import Mode, Rounding, round_exact
from lastbit.rule import Standing
from lastbit.unsafe import COMPARISONS, Reading

NAMED = {"ln2": math.log(2), "log2e": math.log2(math.e), "pi": math.pi}
INF = math.inf


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds on every element of a value.

    Attributes:
        low: the least.
        high: the greatest.
        least: the least magnitude of an element that is not 0; 0: not known.
        declared: the inputs whose declared ranges took part.
    """

    low: float
    high: float
    least: float = 0.0
    declared: frozenset[str] = frozenset()

    @property
    def size(self) -> float:
        """Return the greatest magnitude."""
        return max(abs(self.low), abs(self.high))

    @property
    def holds_zero(self) -> bool:
        """Return whether an element may be 0."""
        return self.low <= 0 <= self.high


EVERYTHING = Bounds(-INF, INF)

# The ends of elementwise functions that rise, and the bounds of others.
RISING: dict[str, Callable[[float], float]] = {
    "exp": lambda x: math.exp(x) if x < 709 else INF,
    "exp2": lambda x: 2.0**x if x < 1024 else INF,
    "expm1": lambda x: math.expm1(x) if x < 709 else INF,
    "log": lambda x: math.log(x) if 0 < x < INF else -INF if x <= 0 else INF,
    "log2": lambda x: math.log2(x) if 0 < x < INF else -INF if x <= 0 else INF,
    "log1p": lambda x: math.log1p(x) if -1 < x < INF else -INF if x <= -1 else INF,
    "sqrt": lambda x: math.sqrt(x) if 0 < x < INF else 0.0 if x <= 0 else INF,
    "relu": lambda x: max(x, 0.0),
    "softplus": lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))),
    "floor": lambda x: float(math.floor(x)) if abs(x) < INF else x,
    "ceil": lambda x: float(math.ceil(x)) if abs(x) < INF else x,
}
FIXED = {
    "sigmoid": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "erf": (-1.0, 1.0),
    "sin": (-1.0, 1.0),
    "cos": (-1.0, 1.0),
    "sign": (-1.0, 1.0),
    **dict.fromkeys(COMPARISONS, (0.0, 1.0)),
}
GATED = ("silu", "gelu", "gelu_tanh")  # between -0.3 and 0 below 0, below x above


@lru_cache(maxsize=4)
def ranges_of(standing: Standing) -> Ranges:
    """Return the ranges of a program; hazards share them."""
    return Ranges(standing)


class Ranges(Reading[Bounds]):
    """Bounds on the values of a program."""

    def __init__(self, standing: Standing) -> None:
        super().__init__(standing.program)
        self.declared = standing.ranges

    def said(self, bounds: Bounds) -> str:
        """Return the declared ranges behind bounds, for a message: ` for x in [-8, 8]`, or ``."""
        texts = []
        for name in sorted(bounds.declared):
            low, high = (f"{float(end):g}" for end in self.declared[name])
            texts.append(f"`{name}` in [{low}, {high}]")
        return f" for {', '.join(texts)}" if texts else ""

    def visit(self, node: Node, facts: list[Bounds]) -> Bounds:
        """Return the bounds of a node."""
        match node:
            case Input(name=name):
                inner = facts[0] if facts else _format_bounds(node)
                return self._declared(name, inner)
            case Const(value=value):
                return _constant(value)
            case Round(rounding=rounding):
                return _rounded(facts[0], rounding)
            case Reduce(op="sum", length=n):
                low, high = _outward(facts[0].low * n, facts[0].high * n)
                signed = facts[0].low >= 0 or facts[0].high <= 0
                return replace(facts[0], low=low, high=high, least=facts[0].least * signed)
            case Reduce(op=op, length=n) if is_index(op):
                return Bounds(0.0, max(n - 1.0, 0.0), 1.0)
            case Map(fn=fn):
                bounds = _mapped(fn, node, facts)
                declared = frozenset().union(*(fact.declared for fact in facts))
                return replace(bounds, declared=declared) if declared else bounds
        return _hull(facts)

    def _declared(self, name: str, bounds: Bounds) -> Bounds:
        if name not in self.declared:
            return bounds
        low, high = self.declared[name]
        ends = max(bounds.low, _float(low)), min(bounds.high, _float(high))
        least = max(bounds.least, ends[0], -ends[1])
        return Bounds(*ends, least, frozenset({name}))


def _float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return INF if value > 0 else -INF


def _outward(low: float, high: float) -> tuple[float, float]:
    if math.isnan(low) or math.isnan(high):
        return -INF, INF
    down = low if low == 0 else math.nextafter(low, -INF)
    return down, high if high == 0 else math.nextafter(high, INF)


def _format_bounds(node: Input) -> Bounds:
    fmt = node.format
    return Bounds(float(fmt.min_finite), float(fmt.max_finite), float(fmt.min_subnormal))


def _constant(value: Fraction | float | str) -> Bounds:
    if isinstance(value, str):
        number = NAMED.get(value)
        return EVERYTHING if number is None else Bounds(*_outward(number, number), number / 2)
    if value != value:
        return EVERYTHING
    number = _float(Fraction(value)) if math.isfinite(value) else float(value)
    exact = number == value
    ends = (number, number) if exact else _outward(number, number)
    return Bounds(*ends, abs(number) if exact else abs(number) / 2)


def _rounded(x: Bounds, rounding: Rounding) -> Bounds:
    """Return the bounds of a rounding; a scale that is NaN for 0 counts as 0."""
    fmt = rounding.format
    if fmt.kind == "scale" and x.low <= 0 and rounding.overflow == "nan":
        return replace(x, low=0.0, high=max(_end(x.high, rounding), 0.0))
    low, high = _end(x.low, rounding, Mode.DOWN), _end(x.high, rounding, Mode.UP)
    least = max(abs(_end(x.least, rounding, Mode.DOWN)), float(fmt.min_subnormal))
    return replace(x, low=low, high=high, least=least)


def _end(value: float, rounding: Rounding, mode: Mode = Mode.UP) -> float:
    fmt = rounding.format
    if abs(value) < INF:
        if rounding.mode is Mode.STOCHASTIC:
            rounding = Rounding(fmt, mode, rounding.overflow, rounding.subnormals)
        value = float(round_exact(Fraction(value), rounding))
    return min(max(value, float(fmt.min_finite)), float(fmt.max_finite))


def _hull(facts: list[Bounds]) -> Bounds:
    if len(facts) == 1:
        return facts[0]
    return Bounds(
        min(fact.low for fact in facts),
        max(fact.high for fact in facts),
        min(fact.least for fact in facts),
        frozenset().union(*(fact.declared for fact in facts)),
    )


def _mapped(fn: str, node: Map, facts: list[Bounds]) -> Bounds:
    if fn in FIXED:
        return Bounds(*FIXED[fn])
    if fn in RISING:
        x, rising = facts[0], RISING[fn]
        return Bounds(*_outward(rising(x.low), rising(x.high)))
    if fn in GATED:
        return Bounds(max(facts[0].low, -0.3), max(facts[0].high, 0.0))
    if fn == "select":
        return _selected(node, facts)
    known = _ARITHMETIC.get(fn)
    return EVERYTHING if known is None else known(node, facts)


def _abs(node: Map, facts: list[Bounds]) -> Bounds:
    (x,) = facts
    low = 0.0 if x.holds_zero else min(abs(x.low), abs(x.high))
    return Bounds(low, x.size, x.least)


def _mul(node: Map, facts: list[Bounds]) -> Bounds:
    x, y = facts
    ends = [_product(a, b) for a in (x.low, x.high) for b in (y.low, y.high)]
    low, high = _outward(min(ends), max(ends))
    least = _product(x.least, y.least)
    if node.xs[0].key == node.xs[1].key:
        return Bounds(max(low, 0.0), high, least)
    return Bounds(low, high, least)


def _product(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _div(node: Map, facts: list[Bounds]) -> Bounds:
    x, y = facts
    least = x.least / y.size if 0 < y.size < INF else 0.0
    if y.low < 0 < y.high or y.low == y.high == 0:
        return replace(EVERYTHING, least=least)
    ends = [_quotient(a, b, y) for a in (x.low, x.high) for b in (y.low, y.high)]
    return Bounds(*_outward(min(ends), max(ends)), least)


def _quotient(a: float, b: float, y: Bounds) -> float:
    """Return an end of a quotient; a divisor of 0 stands for numbers next to it."""
    if a == 0 or abs(b) == INF:
        return 0.0
    if b == 0:
        return math.copysign(INF, a) * (1 if y.high > 0 else -1)
    return a / b


def _selected(node: Map, facts: list[Bounds]) -> Bounds:
    """Return the bounds of a choice; `select(x == 0, 1, x)` and `select(0 < x, x, 1)` are not 0."""
    condition, first, second = node.xs
    chosen, rest = facts[1], facts[2]
    match condition:
        case Map(fn="equal", xs=(x, Const(value=0))) if x.key == second.key and rest.low >= 0:
            rest = replace(rest, low=max(rest.low, rest.least))
        case Map(fn="less", xs=(Const(value=0), x)) if x.key == first.key:
            chosen = replace(chosen, low=max(chosen.low, chosen.least))
    return _hull([chosen, rest])


_ARITHMETIC: dict[str, Callable[[Map, list[Bounds]], Bounds]] = {
    "abs": _abs,
    "mul": _mul,
    "div": _div,
    "neg": lambda node, f: Bounds(-f[0].high, -f[0].low, f[0].least),
    "add": lambda node, f: Bounds(*_outward(f[0].low + f[1].low, f[0].high + f[1].high)),
    "sub": lambda node, f: Bounds(*_outward(f[0].low - f[1].high, f[0].high - f[1].low)),
    "max": lambda node, f: Bounds(
        max(f[0].low, f[1].low), max(f[0].high, f[1].high), min(f[0].least, f[1].least)
    ),
    "min": lambda node, f: Bounds(
        min(f[0].low, f[1].low), min(f[0].high, f[1].high), min(f[0].least, f[1].least)
    ),
    "clamp": lambda node, f: Bounds(
        min(max(f[0].low, f[1].low), f[2].high), min(max(f[0].high, f[1].low), f[2].high)
    ),
}
