"""Operators that work element by element.

torch computes them in float32 (float64 for itself) and rounds once, at the end. Numbers stand in
float32 beside narrower values; on a CPU `add`, `sub` and comparisons round them to the format of
the value first. Both were found by running torch 2.13. Integers of at most 32 bits wrap around.
"""

from __future__ import annotations

from collections.abc import Callable

from lastbit.importers.aten.blends import by_wide
from lastbit.importers.aten.integral import absolute, add_integers, give_integer, reach, turned
from lastbit.importers.aten.operator import (
    NotCoveredError,
    Operator,
    Scalar,
    Table,
    common,
    inner,
    number,
    operand,
)
from lastbit.importers.expressions import literal
from lastbit.importers.imported import Value, is_float
from lastbit.importers.writer import Step
from lastbit.ops import ELEMENTWISE

_EXACT = frozenset(("neg", "abs", "relu", "sign", "sqrt"))  # or as if rounded once
MOST_POWER = 8  # of a power that is written out as products

ONE = "computed in f32, rounded once"


def _function(name: str) -> Operator:
    """Return an operator that is one function of the text form."""

    def build(step: Step, x: Value) -> None:
        step.give(inside(step, f"{name}({operand(x, step.out.dtype)})", name))

    return Operator(build, f"{ELEMENTWISE[name][1]}; {ONE}")


def inside(step: Step, text: str, name: str) -> str:
    """Return a function as it is rounded to float32 before it is rounded to a narrower format.

    Of a root, as of + - * /, the second rounding gives what one rounding gives (Figueroa 1995).
    """
    wide = inner(step.out.dtype)
    once = name in _EXACT or wide == step.out.dtype or not is_float(step.out.dtype)
    return text if once else f"round({text}, {wide})"


def _formula(text: str, words: str) -> Operator:
    """Return an operator of one value from an expression in which `$` stands for it."""

    def build(step: Step, x: Value, **_: object) -> None:
        step.give(text.replace("$", operand(x, step.out.dtype)))

    return Operator(build, f"{words}; {ONE}")


def _opaque_function(name: str) -> Operator:
    """Return an elementwise operator that is known by its name only."""

    def build(step: Step, x: Value, *others: object, **more: object) -> None:
        if more:  # another function for each value of them
            raise NotCoveredError(f"it is given {', '.join(sorted(more))}")
        dtype = common(x, *others)
        xs = ", ".join(operand(one, dtype) for one in (x, *others) if one is not None)
        step.give(f"opaque('{name}', {xs})")

    return Operator(build, f"an opaque function of each element; {ONE}")


def _scalar_format(step: Step, dtype: str, other: object) -> str | None:
    """Return the format that `add`, `sub` and comparisons round a number to."""
    alone = not isinstance(other, Value) or not other.rank
    return dtype if alone and is_float(dtype) and step.device == "cpu" else None


def _pair(step: Step, x: object, other: object, scalar: str | None = None) -> tuple[str, str]:
    dtype = common(x, other)
    return operand(x, dtype, scalar), operand(other, dtype, scalar)


def add(step: Step, x: Value, other: object, *, alpha: Scalar = 1, sign: str = "+") -> None:
    """State x + alpha * other; with alpha it is one fused multiply-add."""
    scalar = _scalar_format(step, common(x, other), other)
    a, b = _pair(step, x, other, scalar)
    if not is_float(step.out.dtype):
        add_integers(step, (a, b), (x, other), number(alpha) * (1 if sign == "+" else -1))
        return
    _add_scaled(step, a, b, sign, alpha)


def _add_scaled(step: Step, a: str, b: str, sign: str, alpha: Scalar) -> None:
    """State a + alpha * b; on a CPU alpha is rounded to the format of the result first."""
    if alpha == 1:
        step.give(f"{a} {sign} {b}")
        return
    dtype = step.out.dtype
    by = operand(number(alpha), dtype, dtype if step.device == "cpu" else None)
    step.give(by_wide(step, f"{a} {sign} {b} * {by}"))


def sub(step: Step, x: Value, other: object, *, alpha: Scalar = 1) -> None:
    """State x - alpha * other."""
    add(step, x, other, alpha=alpha, sign="-")


def rsub(step: Step, x: Value, other: object, alpha: Scalar = 1) -> None:
    """State other - alpha * x; with alpha it is one fused multiply-add."""
    b, a = _pair(step, x, other, _scalar_format(step, common(x, other), other))
    if not is_float(step.out.dtype):
        add_integers(step, (a, b), (other, x), -number(alpha))
        return
    _add_scaled(step, a, b, "-", alpha)


def mul(step: Step, x: Value, other: object) -> None:
    """State x * other."""
    a, b = _pair(step, x, other)
    if is_float(step.out.dtype):
        step.give(_through(step, f"{a} * {b}", x, other))
        return
    products = [one * two for one in reach(step, x) for two in reach(step, other)]
    give_integer(step, f"{a} * {b}", (min(products), max(products)), "mul", a, b)


def div(step: Step, x: object, other: object, *, rounding_mode: str | None = None) -> None:
    """State x / other."""
    dtype = common(x, other)
    if rounding_mode == "floor":
        _floored("floor({a} / {b})")(step, x, other)
        return
    if rounding_mode is not None:
        _opaque_pair(f"div_{rounding_mode}")(step, x, other)
        return
    if not is_float(dtype):
        dtype = step.out.dtype
    step.give(_through(step, f"{operand(x, dtype)} / {operand(other, dtype)}", x, other))


def _through(step: Step, expr: str, *xs: object) -> str:
    """Return an expression as torch rounds it that computes in a wider format.

    Between values of a narrow format the first rounding changes nothing. With a number that only
    the wider one holds, 0.9 in f32, it does: on 4 of 32 products of bf16, say.
    """
    dtype = step.out.dtype
    wide = inner(dtype)
    numbers = (x for x in xs if isinstance(x, int | float) and not isinstance(x, bool))
    held = all(literal(x, wide) == literal(x, dtype) for x in numbers)
    return expr if held else f"round({expr}, {wide})"


def _opaque_pair(name: str) -> Callable[..., None]:
    def build(step: Step, x: object, other: object) -> None:
        a, b = _pair(step, x, other)
        step.give(f"opaque('{name}', {a}, {b})")

    return build


def _floored(form: str) -> Callable[..., None]:
    def build(step: Step, x: object, other: object) -> None:
        a, b = _pair(step, x, other)
        step.give(form.format(a=a, b=b))

    return build


def power(step: Step, x: object, exponent: object) -> None:
    """State x to a power: products for small integers, roots for halves, else opaque."""
    if not isinstance(x, Value) or isinstance(exponent, Value):
        _opaque_pair("pow")(step, x, exponent)
        return
    a = operand(x, common(x, exponent))
    e = float(number(exponent))
    if not is_float(step.out.dtype):
        ends = [end**2 for end in reach(step, x)]
        if e not in (1, 2):
            raise NotCoveredError("a power of integers")
        give_integer(step, a if e == 1 else f"{a} ** 2", (-max(ends), max(ends)), "pow_2", a)
        return
    if e in (0.5, -0.5):
        step.give(f"{'sqrt' if e > 0 else 'rsqrt'}({a})")
    elif e == 3 and step.out.dtype in ("f32", "f64", "bf16", "f16"):
        once = step.out.dtype == "f16" and step.device == "cpu"  # found by running torch 2.13
        square = step.part("square", f"{a} * {a}", "f32" if once else step.out.dtype, x.dims)
        step.give(f"{square.name} * {a}")
    elif e in (1, 2):
        step.give(f"{a} ** {int(e)}" if e == 2 else a)
    elif e in (-1, -2):
        step.give(f"1 / {a}" if e == -1 else f"1 / ({a} * {a})")
    elif e.is_integer() and 4 <= e <= MOST_POWER:
        step.give(f"{a} ** {int(e)}")
    else:
        step.give(f"opaque('pow', {a}, {literal(number(exponent), inner(x.dtype))})")


def _compare(form: str) -> Operator:
    """Return a comparison; in `form`, `a` and `b` stand for the two sides."""

    def build(step: Step, x: Value, other: object) -> None:
        dtype = common(x, other)
        scalar = _scalar_format(step, dtype, other)
        a, b = operand(x, dtype, scalar), operand(other, dtype, scalar)
        step.give(form.format(a=a, b=b))

    return Operator(build, f"{form.format(a='x', b='y')}; exact")


def _pairwise(name: str) -> Operator:
    def build(step: Step, x: Value, other: object) -> None:
        a, b = _pair(step, x, other)
        step.give(f"{name}({a}, {b})")

    return Operator(build, f"{ELEMENTWISE[name][1]}; exact")


def clamp(step: Step, x: Value, min: object = None, max: object = None) -> None:  # noqa: A002
    """State x limited from below, from above, or both."""
    text = operand(x, step.out.dtype)
    for word, bound in (("maximum", min), ("minimum", max)):
        if bound is not None:
            text = f"{word}({text}, {operand(bound, step.out.dtype, step.out.dtype)})"
    step.give(text)


def where(step: Step, condition: Value, x: object = None, other: object = None) -> None:
    """State x where the condition holds, else other."""
    if x is None or other is None:
        raise NotCoveredError("where with a condition alone gives indices")
    dtype = step.out.dtype
    a, b = operand(x, dtype, dtype), operand(other, dtype, dtype)
    step.give(f"select({condition.name}, {a}, {b})")


def masked_fill(step: Step, x: Value, mask: Value, value: object) -> None:
    """State x, and a number where the mask holds."""
    dtype = step.out.dtype
    step.give(f"select({mask.name}, {operand(value, dtype, dtype)}, {x.name})")


def gelu(step: Step, x: Value, *, approximate: str = "none") -> None:
    """State gelu, by erf or by tanh."""
    name = "gelu_tanh" if approximate == "tanh" else "gelu"
    step.give(inside(step, f"{name}({operand(x, step.out.dtype)})", name))


def clamp_max(step: Step, x: Value, max: object) -> None:  # noqa: A002  torch's name
    """State x limited from above."""
    clamp(step, x, None, max)


def leaky_relu(step: Step, x: Value, negative_slope: Scalar = 0.01) -> None:
    """State x, and slope * x below 0."""
    slope = literal(number(negative_slope), inner(x.dtype))
    step.give(f"select(0 < {x.name}, {x.name}, {x.name} * {slope})")


def softplus(step: Step, x: Value, beta: Scalar = 1, threshold: Scalar = 20) -> None:
    """State log(1 + exp(x)), and x above the threshold."""
    if beta != 1:
        raise NotCoveredError("beta is not 1")
    limit = literal(number(threshold), inner(x.dtype))
    step.give(f"select({limit} < {x.name}, {x.name}, softplus({x.name}))")


def logical_not(step: Step, x: Value) -> None:
    """State 1 where x is 0, else 0."""
    step.give(f"{x.name} == 0")


def bitwise_not(step: Step, x: Value) -> None:
    """State the complement, of truth values or integers."""
    most = 2 ** int(x.dtype[1:]) - 1 if x.dtype[0] == "u" else -1
    step.give(f"{x.name} == 0" if x.dtype == "bool" else f"{most} - {x.name}")


def square(step: Step, x: Value) -> None:
    """State x * x."""
    mul(step, x, x)


def _truth(form: str) -> Callable[..., None]:
    def build(step: Step, x: Value, other: object) -> None:
        if any(isinstance(v, Value) and v.dtype != "bool" for v in (x, other)):
            raise NotCoveredError("the arguments are no truth values")
        step.give(form.format(a=operand(x, "bool"), b=operand(other, "bool")))

    return build


def fma(step: Step, x: Value, factor: object, other: object) -> None:
    """State x * factor + other: rounded once, but on a CPU, where torch runs both apart."""
    dtype = common(x, factor, other)
    if not is_float(dtype):
        raise NotCoveredError("the values are integers")
    a, b, c = (operand(one, dtype) for one in (x, factor, other))
    if step.device == "cpu":
        a = step.part("product", f"{a} * {b}", step.out.dtype, step.out.dims).name
        step.give(f"{a} + {c}")
        return
    step.give(f"{a} * {b} + {c}")


_COMPARISONS = {
    "eq": "{a} == {b}",
    "lt": "{a} < {b}",
    "le": "{a} <= {b}",
    "gt": "{b} < {a}",
    "ge": "{b} <= {a}",
    "ne": "1 - ({a} == {b})",
}
_NUMBERS = "numbers stand in f32; on a CPU they are rounded to the value's format first"

POINTWISE: Table = {
    "aten.add": Operator(add, f"x + alpha * y; {ONE}; {_NUMBERS}"),
    "aten.sub": Operator(sub, f"x - alpha * y; {ONE}; {_NUMBERS}"),
    "aten.rsub": Operator(rsub, f"y - alpha * x; {ONE}; {_NUMBERS}"),
    "aten.mul": Operator(mul, f"x * y; {ONE}; numbers stand in f32"),
    "aten.div": Operator(div, f"x / y; {ONE}; truncated opaque"),
    "aten.true_divide": Operator(div, f"x / y; {ONE}"),
    "aten.floor_divide": Operator(_floored("floor({a} / {b})"), f"floor(x / y); {ONE}"),
    "aten.remainder": Operator(
        _floored("{a} - {b} * floor({a} / {b})"), f"x - y floor(x / y); {ONE}"
    ),
    "aten.floor": _formula("floor($)", "the floor"),
    "aten.ceil": _formula("-floor(-$)", "the ceiling"),
    "aten.trunc": _formula("select($ < 0, -floor(-$), floor($))", "the integer towards 0"),
    "aten.fmod": Operator(_opaque_pair("fmod"), f"opaque, by element; {ONE}"),
    "aten.pow": Operator(power, "squares round once, cubes twice; roots; other powers opaque"),
    "aten.square": Operator(square, f"x * x; {ONE}"),
    "aten.neg": Operator(turned, "-x; exact, integers modulo 2**bits"),
    "aten.abs": Operator(absolute, "|x|; exact, integers modulo 2**bits"),
    "aten.reciprocal": _formula("1 / $", "1 / x"),
    "prims.fma": Operator(fma, f"x * y + z; {ONE}; on a CPU the product is rounded first"),
    "aten.hardswish": _formula(
        "$ * minimum(maximum($ + 3, 0), 6) / 6", "x * min(max(x + 3, 0), 6) / 6"
    ),
    "aten.hardsigmoid": _formula("minimum(maximum($ + 3, 0), 6) / 6", "min(max(x + 3, 0), 6) / 6"),
    "aten.relu6": _formula("minimum(maximum($, 0), 6)", "min(max(x, 0), 6)"),
    "aten.leaky_relu": Operator(leaky_relu, f"slope * x below 0; {ONE}"),
    "aten.softplus": Operator(softplus, f"log(1 + exp(x)); {ONE}"),
    "aten.gelu": Operator(gelu, f"x * (1 + erf(x / sqrt(2))) / 2, or its tanh form; {ONE}"),
    "aten.clamp": Operator(clamp, "x limited; exact"),
    "aten.clamp_min": Operator(clamp, "limited below; exact"),
    "aten.clamp_max": Operator(clamp_max, "limited above; exact"),
    "aten.where": Operator(where, "x where the condition holds, else y; exact"),
    "aten.masked_fill": Operator(masked_fill, "a number where the mask holds; exact"),
    "aten.logical_not": Operator(logical_not, "1 where x is 0; exact"),
    "aten.bitwise_not": Operator(bitwise_not, "the complement; exact"),
    "aten.logical_and": Operator(_truth("{a} * {b}"), "both; exact"),
    "aten.bitwise_and": Operator(_truth("{a} * {b}"), "both, of truth values; exact"),
    "aten.__and__": Operator(_truth("{a} * {b}"), "both, of truth values; exact"),
    "aten.logical_or": Operator(_truth("maximum({a}, {b})"), "either; exact"),
    "aten.bitwise_or": Operator(_truth("maximum({a}, {b})"), "either, of truth values; exact"),
    "aten.__or__": Operator(_truth("maximum({a}, {b})"), "either, of truth values; exact"),
    **{f"aten.{name}": _compare(form) for name, form in _COMPARISONS.items()},
    **{
        f"aten.{name}": _function(name)
        for name in [
            "sqrt",
            "rsqrt",
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log1p",
            "sigmoid",
            "silu",
            "tanh",
            "erf",
            "sin",
            "cos",
            "relu",
        ]
    },
    "aten.sgn": _function("sign"),
    "aten.sign": _function("sign"),
    "aten.maximum": _pairwise("maximum"),
    "aten.minimum": _pairwise("minimum"),
    **{
        f"aten.{name}": _opaque_function(name)
        for name in [
            "round",
            "tan",
            "atan",
            "asin",
            "acos",
            "sinh",
            "cosh",
            "log10",
            "erfc",
            "erfinv",
            "lgamma",
            "digamma",
            "atan2",
            "isnan",
            "isinf",
            "logical_xor",
            "elu",
            "selu",
            "celu",
            "mish",
            "hardtanh",
        ]
    },
}
