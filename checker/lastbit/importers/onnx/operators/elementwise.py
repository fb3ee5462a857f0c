"""Elementwise operators: arithmetic, functions, comparisons, choices, casts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from lastbit.importers.expressions import broadcast_dims
from lastbit.importers.imported import Value, is_float
from lastbit.importers.integers import wrapped
from lastbit.importers.onnx import sizes
from lastbit.importers.onnx.call import Call, NotModelledError
from lastbit.importers.onnx.constants import cast as cast_number
from lastbit.importers.onnx.constants import literal, rounded_literal
from lastbit.importers.onnx.model import TYPES

Build = Callable[[Call], None]
Ends = tuple[int, int]

# Formats all values of which another format holds.
_WITHIN = {
    "bf16": ("f32", "f64"),
    "f16": ("f32", "f64"),
    "f32": ("f64",),
    "e4m3fn": ("f16", "bf16", "f32", "f64"),
    "e5m2": ("f16", "bf16", "f32", "f64"),
    "e4m3fnuz": ("f16", "bf16", "f32", "f64"),
    "e5m2fnuz": ("f16", "bf16", "f32", "f64"),
    "e2m1": ("f16", "bf16", "f32", "f64"),
    "e8m0": ("f32", "f64"),
    "bool": ("f16", "bf16", "f32", "f64", "i8", "u8", "i32", "i64"),
    "u8": ("f16", "bf16", "f32", "f64", "i32", "i64"),
    "i8": ("f16", "bf16", "f32", "f64", "i32", "i64"),
    "i32": ("f64", "i64"),
}
_SMALL = ("f16", "bf16")
_ROUNDED_TO_8_BITS = ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e2m1")


def inner(dtype: str) -> str:
    """Return the format in which an operator of several steps computes."""
    return "f32" if dtype in _SMALL else dtype


def _dims(*xs: Value) -> tuple[str, ...]:
    return broadcast_dims(*(x.dims for x in xs))


def infix(sign: str) -> Build:
    """Return an arithmetic operator of two operands."""

    def build(call: Call) -> None:
        if sizes.arithmetic(call):
            return
        if sign == "%":
            raise NotModelledError("the remainder of values, not of sizes")
        a, b = call.x(0), call.x(1)
        if sign == "/" and not is_float(a.dtype):
            raise NotModelledError("integers are divided")
        text = f"{a.name} {sign} {b.name}"
        if not is_float(a.dtype):
            text = _integer(call, text, _ends(sign, call.limits(a), call.limits(b)), a.dtype)
        call.give(text, _dims(a, b))

    return build


def _integer(call: Call, text: str, ends: Ends | None, dtype: str) -> str:
    """Return an expression of integers in the range of their type, modulo 2**bits.

    Raises:
        NotModelledError: no exact number holds what it may be.
    """
    found = wrapped(text, dtype, ends)
    if found is None:
        raise NotModelledError(f"the product of {dtype} may wrap around")
    return found


def _ends(sign: str, a: Ends | None, b: Ends | None) -> Ends | None:
    """Return the smallest and the largest result of integer arithmetic."""
    if a is None or b is None:
        return None
    if sign == "*":
        products = [one * two for one in a for two in b]
        return min(products), max(products)
    return (a[0] + b[0], a[1] + b[1]) if sign == "+" else (a[0] - b[1], a[1] - b[0])


def signed(word: str) -> Build:
    """Return neg or abs."""

    def build(call: Call) -> None:
        x = call.x()
        ends, text = call.limits(x), f"{word}({x.name})"
        if ends is not None:
            turned = -ends[1], max(-ends[0], ends[1])
            text = _integer(call, text, turned, x.dtype)
        call.give(text, x.dims)

    return build


def function(word: str) -> Build:
    """Return a function of one operand that rounds once."""

    def build(call: Call) -> None:
        x = call.x()
        call.give(f"{word}({x.name})", x.dims)

    return build


def negate(call: Call) -> None:
    """Give -x."""
    if not sizes.negated(call):
        signed("neg")(call)


def reciprocal(call: Call) -> None:
    """Give 1 / x."""
    call.give(f"1 / {call.x().name}", call.x().dims)


def joined(word: str) -> Build:
    """Return a function of two arguments, folded over any number of operands."""

    def build(call: Call) -> None:
        xs = [call.x(i) for i in range(len(call.node.reads))]
        if word == "add" and len(xs) > 2:
            text = xs[0].name
            for number, x in enumerate(xs[1:-1]):
                part = call.part(f"sum_{number}", f"{text} + {x.name}", _dims(*xs), xs[0].dtype)
                text = part.name
            call.give(f"{text} + {xs[-1].name}", _dims(*xs))
            return
        text = xs[0].name
        for x in xs[1:]:
            text = f"{word}({text}, {x.name})"
        call.give(text, _dims(*xs))

    return build


def compared(form: str) -> Build:
    """Return a comparison; its result is 1 or 0."""

    def build(call: Call) -> None:
        if call.node.op == "Equal" and sizes.equal(call):
            return
        a, b = call.x(0), call.x(1)
        call.give(form.format(a=a.name, b=b.name), _dims(a, b), "bool")

    return build


def logical(form: str) -> Build:
    """Return a function of truth values."""

    def build(call: Call) -> None:
        xs = [call.x(i) for i in range(len(call.node.reads))]
        names = {key: x.name for key, x in zip("ab", xs, strict=False)}
        call.give(form.format(**names), _dims(*xs), "bool")

    return build


def where(call: Call) -> None:
    """Give y where x is true, else z."""
    if sizes.chosen(call):
        return
    known = call.operand(0)
    if known is not None and known.numbers is not None and len(known.numbers) == 1:
        chosen = 1 if known.numbers[0] else 2
        operand = call.operand(chosen)
        if operand is not None and operand.sizes is not None:
            call.give_sizes(operand.sizes, (str(len(operand.sizes)),))
            return
    x, y, z = call.x(0), call.x(1), call.x(2)
    call.give(f"select({x.name}, {y.name}, {z.name})", _dims(x, y, z), y.dtype)


def power(call: Call) -> None:
    """Give x to a constant power: a small integer, a half, or their negatives."""
    x, n = call.x(0), call.number(1)
    if n is None or not isinstance(n, Fraction):
        raise NotModelledError("the power is no constant")
    if not is_float(x.dtype):
        if n != 2:
            raise NotModelledError("a power of integers")
        ends = call.limits(x)
        text = _integer(call, f"{x.name} ** 2", _ends("*", ends, ends), x.dtype)
        call.give(text, x.dims)
    elif n == Fraction(1, 2):
        call.give(f"sqrt({x.name})", x.dims)
    elif n == Fraction(-1, 2):
        call.give(f"rsqrt({x.name})", x.dims)
    elif n.denominator == 1 and 1 <= n <= 8:
        call.give(f"{x.name} ** {n}", x.dims)
    elif n.denominator == 1 and -8 <= n <= -1:
        call.give(f"1 / {x.name} ** {-n}", x.dims)
    else:
        raise NotModelledError(f"the power is {float(n):g}")


def clip(call: Call) -> None:
    """Give x limited to a range, whose ends may be left out."""
    x = call.x()
    text = x.name
    for number, name, word in ((1, "min", "maximum"), (2, "max", "minimum")):
        given = call.attribute(name)
        bound = call.maybe(number)
        if given is not None:
            text = f"{word}({text}, {literal(cast_number(float(given), x.dtype))})"
        elif bound is not None:
            text = f"{word}({text}, {bound.name})"
    call.give(text, x.dims)


def cast(call: Call) -> None:
    """Give x in another type: a rounding to a narrower float, nothing to a wider one."""
    to = TYPES.get(call.attribute("to", 0), "")
    _cast(call, to)


def cast_like(call: Call) -> None:
    """Give x in the type of another value."""
    _cast(call, call.x(1).dtype)


def _cast(call: Call, to: str) -> None:
    operand = call.operand(0)
    if operand is not None and operand.sizes is not None and not is_float(to):
        lists = sizes.rank(operand)
        call.give_sizes(operand.sizes, (str(len(operand.sizes)),) if lists else (), to)
        return
    x = call.x()
    if operand is not None and operand.numbers is not None and len(operand.numbers) == 1:
        number = cast_number(operand.numbers[0], to)
        call.give_numbers([number], x.dims, to)
        if is_float(to) and number != operand.numbers[0]:  # the rounding shows where it is dropped
            name = call.node.gives[0]
            value = Value(rounded_literal(operand.numbers[0], to), to, x.dims)
            call.importer.operands[name] = replace(call.importer.operands[name], value=value)
        return
    if to == x.dtype or to in _WITHIN.get(x.dtype, ()):
        call.alias(x, dtype=to)
    elif to == "bool":
        call.give(f"1 - ({x.name} == 0)", x.dims, to)
    elif not is_float(to):
        if not is_float(x.dtype):
            call.give(_integer(call, x.name, call.limits(x), to), x.dims, to)
            return
        cut = f"select({x.name} < 0, ceil({x.name}), floor({x.name}))"
        call.give(cut, x.dims, to)
    elif to in _ROUNDED_TO_8_BITS and call.attribute("saturate", 1):
        call.give(f"round({x.name}, {to}, saturate)", x.dims, to)
    else:
        call.give(x.name, x.dims, to)


def identity(call: Call) -> None:
    """Give x."""
    operand = call.operand(0)
    if operand is not None and (operand.sizes is not None or operand.numbers is not None):
        if operand.value is None and operand.sizes is None:  # a weight under another name
            operand = replace(operand, value=call.x())
        call.importer.operands[call.node.gives[0]] = operand
        return
    call.alias(call.x())


def dropout(call: Call) -> None:
    """Give x: outside of training nothing is dropped."""
    if call.wants(1) or call.number(2) not in (None, 0):
        raise NotModelledError("elements are dropped at random")
    call.alias(call.x())


OPERATORS: dict[str, tuple[Build, str]] = {
    "Add": (infix("+"), "x + y"),
    "Sub": (infix("-"), "x - y"),
    "Mul": (infix("*"), "x * y"),
    "Div": (infix("/"), "x / y; of integers: sizes only"),
    "Mod": (infix("%"), "of sizes only"),
    "Sum": (joined("add"), "x + y + ..., rounded after each"),
    "Max": (joined("maximum"), "the largest; NaN if one is"),
    "Min": (joined("minimum"), "the smallest; NaN if one is"),
    "Neg": (negate, "-x"),
    "Abs": (signed("abs"), "|x|"),
    "Reciprocal": (reciprocal, "1 / x"),
    "Pow": (power, "x to a constant power: -8 to 8, a half"),
    "Clip": (clip, "x limited to [min, max]"),
    "Where": (where, "y where x is true, else z"),
    "Cast": (cast, "one rounding; to a wider format none"),
    "CastLike": (cast_like, "as Cast"),
    "Identity": (identity, "x"),
    "Dropout": (dropout, "x, outside of training"),
    "Equal": (compared("{a} == {b}"), "1 or 0"),
    "Less": (compared("{a} < {b}"), "1 or 0"),
    "LessOrEqual": (compared("{a} <= {b}"), "1 or 0"),
    "Greater": (compared("{b} < {a}"), "1 or 0"),
    "GreaterOrEqual": (compared("{b} <= {a}"), "1 or 0"),
    "And": (logical("{a} * {b}"), "of truth values"),
    "Or": (logical("maximum({a}, {b})"), "of truth values"),
    "Not": (logical("1 - {a}"), "of truth values"),
    "Relu": (function("relu"), "max(x, 0)"),
    **{
        op: (function(word), f"{word}(x), rounded once")
        for op, word in {
            "Ceil": "ceil",
            "Cos": "cos",
            "Erf": "erf",
            "Exp": "exp",
            "Floor": "floor",
            "Log": "log",
            "Sigmoid": "sigmoid",
            "Sign": "sign",
            "Sin": "sin",
            "Sqrt": "sqrt",
            "Tanh": "tanh",
        }.items()
    },
}
