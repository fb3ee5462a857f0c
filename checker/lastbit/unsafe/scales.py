"""What is unsafe about the scales of quantizations: they are 0, of other values, or too small.

A *scale* here is what follows from a largest magnitude by constants, roundings and other scales.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from lastbit.definitions import Definitions
from lastbit.errors import LastbitError
from lastbit.formats import Exact, format_of
from lastbit.graph import (
    Const,
    Input,
    Map,
    Node,
    Reduce,
    Round,
    View,
    apply,
    topological,
)
from lastbit.patterns import is_map, past_views, replace
from lastbit.patterns.quantized import Quantized
from lastbit.rounding import Mode, Rounding, Undecided, round_exact
from lastbit.rule import Edits, MismatchError, Site, Standing
from lastbit.unsafe import behind, called, functions_of, headroom, nodes_of, quantization_at
from lastbit.unsafe.ranges import ranges_of

if TYPE_CHECKING:
    from lastbit.reals import Number

NO_ZERO = "the value divides by a scale that may be 0"
NO_LATER = "the scale comes from values before a rounding that what is quantized has"
NO_CLIPPING = "the scale is a power of two that may be too small"

SCALING = (
    *("mul", "div", "max", "min", "add", "sub", "abs", "select", "clamp"),
    *("log2", "exp2", "floor", "ceil", "equal", "less", "less_equal", "sqrt"),
)


def is_scale(program: Definitions, node: Node) -> bool:
    """Return whether a node follows from largest magnitudes alone, and from one at least."""
    found = False
    stack = [node]
    while stack:
        top = behind(program, stack.pop())
        match top:
            case Const():
                continue
            case Round(x=x):
                stack.append(x)
            case Reduce(op="max", x=x):
                if not _is_magnitude(program, x):
                    return False
                found = True
            case Map(fn=fn, xs=xs) if fn in SCALING:
                stack += xs
            case _:
                return False
    return found


def _is_magnitude(program: Definitions, node: Node) -> bool:
    """Return whether a node is |x|, or a maximum of it."""
    while True:
        match behind(program, node):
            case Map(fn="abs"):
                return True
            case Round(x=x) | Reduce(op="max", x=x):
                node = x
            case _:
                return False


# Scales of zero.


def unguarded(standing: Standing, name: str) -> Iterator[Map]:
    """Yield the quotients in a definition whose divisor is a scale that may be 0."""
    program = standing.program
    root = program.nodes[name]
    if "div" not in functions_of(root):
        return
    for node in nodes_of(root):
        if is_map(node, "div") and not isinstance(node.args[1], Const):
            divisor = node.args[1]
            possible = is_scale(program, divisor) and ranges_of(standing).of(divisor).holds_zero
            if possible and zero_at(standing, divisor) is not None:
                assert isinstance(node, Map)
                yield node


def zero_at(standing: Standing, scale: Node) -> Fraction | None:
    """Return the least largest magnitude at which a scale has no finite value but 0, or None.

    It is evaluated exactly: of zeros, of the least number, and of powers of two up to the
    greatest; of several maxima all are equal, or one alone is 0.
    """
    from lastbit.reals import sign

    found: dict[bytes, Node] = {}
    _in_maxima(standing.program, scale, found)
    own = {key: _magnitudes(standing, node) for key, node in found.items()}
    common = sorted({point for points in own.values() for point in points})
    inputs: dict[bytes, list[Exact]] = {}
    for key, points in own.items():
        equal = [max((p for p in points if p <= point), default=points[0]) for point in common]
        alone = [points[0] if key == other else max(points[0], Fraction(1)) for other in own]
        inputs[key] = [*equal, *(alone if len(own) > 1 else [])]
    leaves: dict[bytes, Node] = {
        key: Input(key.hex(), format_of("f64"), shape=()) for key in inputs
    }
    root = _in_maxima(standing.program, scale, leaves)
    count = len(next(iter(inputs.values())))
    try:
        rows = [{key.hex(): own[i] for key, own in inputs.items()} for i in range(count)]
        numbers = [_evaluated(root, row) for row in rows]
        zeros = [i for i, number in enumerate(numbers) if number != number or sign(number) == 0]
    except (Undecided, LastbitError, ArithmeticError, ValueError):
        zeros = [0]
    least = [min(Fraction(points[i]) for points in inputs.values()) for i in zeros]
    return min(least, default=None)


def _evaluated(root: Node, inputs: Mapping[str, Exact]) -> Number:
    """Return the value of an elementwise formula, exactly."""
    from lastbit.reals import FUNCTIONS, named  # encloses, which listing the rules does not

    values: dict[bytes, Number] = {}
    for node in topological([root]):
        match node:
            case Input(name=name):
                values[node.key] = inputs[name]
            case Const(value=value):
                values[node.key] = named(value) if isinstance(value, str) else value
            case Map(fn=fn, xs=xs):
                values[node.key] = FUNCTIONS[fn](*(values[x.key] for x in xs))
            case Round(x=x, rounding=rounding):
                values[node.key] = round_exact(values[x.key], rounding)
            case View(xs=(x,)):
                values[node.key] = values[x.key]
            case _:
                raise LastbitError("it is no formula of its maxima.")
    return values[root.key]


def _in_maxima(program: Definitions, scale: Node, maxima: dict[bytes, Node]) -> Node:
    """Return a scale as a formula of the maxima behind it, each element by itself.

    Args:
        program: the program.
        scale: a node of which `is_scale` holds.
        maxima: what stands for each maximum, by its key; those that are missing are added.
    """
    built: dict[bytes, Node] = {}
    stack = [scale]
    while stack:
        top = stack[-1]
        node = behind(program, top)
        if isinstance(node, Reduce):
            built[top.key] = maxima.setdefault(node.key, node)
        elif missing := [arg for arg in node.args if arg.key not in built]:
            stack += missing
            continue
        else:
            args = [built[arg.key] for arg in node.args]
            match node:
                case Round(rounding=rounding):
                    built[top.key] = Round(args[0], rounding)
                case Map(fn=fn):
                    built[top.key] = Map(fn=fn, xs=tuple(args))
                case _:
                    built[top.key] = node
        stack.pop()
    return built[scale.key]


def _magnitudes(standing: Standing, maximum: Node) -> list[Fraction]:
    """Return values that a largest magnitude may have, the least first."""
    node = behind(standing.program, maximum)
    while isinstance(node, Reduce) or is_map(node, "abs"):
        node = behind(standing.program, node.args[0])
    fmt = format_of("f64")
    if isinstance(node, Round | Input):
        fmt = node.rounding.format if isinstance(node, Round) else node.format
    bounds, top = ranges_of(standing).of(maximum), float(fmt.max_finite)
    low, high = (Fraction(min(max(end, 0.0), top)) for end in (bounds.low, bounds.high))
    first = Fraction(fmt.min_subnormal)
    powers = [first]
    while powers[-1] * 2 <= high:
        powers.append(powers[-1] * 2)
    return sorted({low, high, *(power for power in powers if low <= power <= high)})


def divided_by_one(site: Site) -> Edits:
    """Return the site dividing by 1 where its scale is 0.

    Raises:
        MismatchError: it divides by no scale that may be 0.
    """
    root = site.node
    quotients = list(unguarded(Standing(site.program), site.name))
    if not quotients:
        raise MismatchError(NO_ZERO)
    for quotient in quotients:
        above, scale = quotient.xs
        guard = apply("select", apply("equal", scale, 0), 1, scale)
        root = replace(root, quotient, apply("div", above, guard))
    return {site.name: root}


def zeros_in_words(standing: Standing, quotient: Map) -> str:
    """Say what a division by a scale of 0 gives, and where."""
    above, scale = quotient.xs
    zeros = "row" if max(scale.shape, default=1) > 1 else "tensor"
    name = called(scale, "")
    start = f"the scale{name and ' '}{name} is"
    rounded = behind(standing.program, scale)
    if isinstance(rounded, Round) and rounded.rounding.format.kind == "scale":
        return f"{start} NaN for a {zeros} of zeros, for e8m0 has no 0, and so is all of it"
    why = ""
    if isinstance(rounded, Round) and not ranges_of(standing).of(rounded.x).holds_zero:
        why = f", for its floor is below the least {rounded.rounding.format.short}"
    least = zero_at(standing, scale)
    if least:  # not 0 for zeros, but for small numbers
        where = f"for a {zeros} whose largest magnitude is {float(least):.2g}"
        return f"{start} 0 {where}, and quotients are infinite there"
    result = "the quotient is infinite" if isinstance(above, Const) else "0 / 0 is NaN"
    return f"{start} 0 for a {zeros} of zeros{why}, and {result} in all of that {zeros}"


# Scales of other values than those that are quantized.


def measured_before(program: Definitions, whole: Quantized) -> Round | None:
    """Return the rounding that is quantized and that the maximum does not see, or None."""
    later = behind(program, whole.numerator)
    measured = _magnitude_of(whole)
    if not isinstance(later, Round) or measured is None:
        return None
    first = behind(program, measured)
    if first.key == later.key or first.key != behind(program, later.x).key:
        return None
    exact = (
        isinstance(first, Round | Input) and _precision(first) <= later.rounding.format.precision
    )
    return None if exact else later


def _precision(node: Round | Input) -> int:
    return (node.rounding.format if isinstance(node, Round) else node.format).precision


def _magnitude_of(whole: Quantized) -> Node | None:
    """Return what the maximum of a quantization measures: x of the largest |x|."""
    inner = past_views(whole.amax.x)
    return inner.args[0] if is_map(inner, "abs") else None


def measured_after(site: Site) -> Edits:
    """Return the definitions with the maximum of what is quantized.

    Raises:
        MismatchError: the maximum at the site is that already.
    """
    whole = quantization_at(site)
    measured = None if whole is None else _magnitude_of(whole)
    if whole is None or measured is None or measured_before(site.program, whole) is None:
        raise MismatchError(NO_LATER)
    return whole.rescaled(whole.scaled_by(replace(whole.amax, measured, whole.numerator)))


# Scales that are too small.


@dataclass(frozen=True, slots=True)
class Clipping:
    """What makes a scale too small.

    Attributes:
        node: what rounds the scale.
        exact: the scale before that.
        how: how it is rounded: `down to a power of two`.
        lost: the largest share of a value that saturation takes.
    """

    node: Node
    exact: Node
    how: str
    lost: float


def clipping(whole: Quantized) -> Clipping | None:
    """Return what clips the largest elements of a quantization, or None."""
    top = float(whole.node.rounding.format.max_finite)
    for node in reversed(nodes_of(whole.formula)):
        match node:
            case Round(x=exact, rounding=rounding) if not _rounds_up(exact, rounding):
                least, how = _shrinks(rounding), _said(rounding)
            case Map(fn="exp2", xs=(Map(fn="sub", xs=(power, Const())),)) if _is_floor(power):
                exact = apply("div", whole.amax, Fraction(top))
                least, how = 0.5, "down to a power of two"
            case _:
                continue
        factor = _per_maximum(whole)
        # The largest quotient: the maximum over the smallest scale that it may get.
        most = math.inf if not factor else 1 / (factor * least)
        if math.isfinite(most) and most > top * headroom(whole.node.rounding):
            return Clipping(node, exact, how, 1 - top / most)
    return None


def _rounds_up(x: Node, rounding: Rounding) -> bool:
    """Return whether a rounding makes nothing smaller: upward, or of a value of that format."""
    held = isinstance(x, Round) and x.rounding.format == rounding.format
    return held or rounding.mode is Mode.UP


def _per_maximum(whole: Quantized) -> float:
    """Return how many times the maximum an unrounded scale is; 0 where that is no constant."""
    found: dict[bytes, float] = {whole.amax.key: 1.0}
    for node in nodes_of(whole.formula):
        factors = [found.get(x.key, 0.0) for x in node.args]
        match node:
            case Const(value=Fraction() as value):
                found[node.key] = float(value)
            case Map(fn="mul"):
                found[node.key] = factors[0] * factors[1]
            case Map(fn="div") if factors[1]:
                found[node.key] = factors[0] / factors[1]
            case Map(fn="exp2", xs=(Map(fn="sub", xs=(power, Const(value=Fraction() as e))),)):
                if _is_floor(power):  # 2^(floor(log2 a) - e)
                    found[node.key] = found.get(power.args[0].args[0].key, 0.0) * 2.0 ** -float(e)
            case Round() | View():
                found.setdefault(node.key, factors[0])
    return found.get(whole.formula.key, 0.0)


def _is_floor(node: Node) -> bool:
    return is_map(node, "floor") and is_map(node.args[0], "log2")


def _said(rounding: Rounding) -> str:
    fmt = rounding.format
    what = "power of two" if fmt.kind == "scale" else f"{fmt.short} value"
    nearest = rounding.mode in (Mode.NEAREST_EVEN, Mode.NEAREST_AWAY)
    return f"to the nearest {what}" if nearest else f"down to a {what}"


def with_scale_rounded_up(site: Site) -> Edits:
    """Return the definitions with the scale rounded up to a power of two.

    Raises:
        MismatchError: nothing clips at the site.
    """
    whole = quantization_at(site)
    found = None if whole is None else clipping(whole)
    if whole is None or found is None:
        raise MismatchError(NO_CLIPPING)
    up = Round(found.exact, Rounding.of("e8m0", Mode.UP))
    return whole.rescaled(replace(whole.formula, found.node, up))


def _shrinks(rounding: Rounding) -> float:
    """Return the least quotient of a rounded number and the number, for normal numbers."""
    nearest = rounding.mode in (Mode.NEAREST_EVEN, Mode.NEAREST_AWAY)
    half = 2.0**-rounding.format.precision
    return 1 / (1 + half) if nearest else 1 / (1 + 2 * half)
