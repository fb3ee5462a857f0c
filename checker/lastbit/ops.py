"""What each operator of the text form means, in terms of the five nodes.

An operator is exact: what it computes is a real number, and only the statement that
holds it rounds. Elementwise functions stand for themselves; composites are built here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from lastbit.choices import Choice, Ties
from lastbit.graph import Const, Node, Reduce, ShapeError, apply, broadcast, matmul
from lastbit.graph import concat as concat_nodes
from lastbit.graph import reshape as reshape_node
from lastbit.graph import transpose as transpose_node
from lastbit.rounding import Rounding
from lastbit.schedule import Schedule

NAMED_REALS = ("ln2", "log2e", "pi")
SPECIALS = {"inf": float("inf"), "nan": float("nan")}

# Elementwise functions: number of arguments and meaning.
ELEMENTWISE: dict[str, tuple[int, str]] = {
    "neg": (1, "-x"),
    "abs": (1, "|x|"),
    "add": (2, "x + y"),
    "sub": (2, "x - y"),
    "mul": (2, "x * y"),
    "div": (2, "x / y"),
    "maximum": (2, "the larger of x and y; NaN if one is"),
    "minimum": (2, "the smaller of x and y; NaN if one is"),
    "sqrt": (1, "the square root"),
    "rsqrt": (1, "1 / sqrt(x)"),
    "exp": (1, "e to the x"),
    "exp2": (1, "2 to the x"),
    "expm1": (1, "exp(x) - 1"),
    "log": (1, "the natural logarithm"),
    "log2": (1, "the logarithm to base 2"),
    "log1p": (1, "log(1 + x)"),
    "sigmoid": (1, "1 / (1 + exp(-x))"),
    "silu": (1, "x * sigmoid(x)"),
    "tanh": (1, "the hyperbolic tangent"),
    "softplus": (1, "log(1 + exp(x))"),
    "erf": (1, "the error function"),
    "gelu": (1, "x * (1 + erf(x / sqrt(2))) / 2"),
    "gelu_tanh": (1, "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2"),
    "sin": (1, "the sine"),
    "cos": (1, "the cosine"),
    "relu": (1, "max(x, 0)"),
    "sign": (1, "-1, 0 or 1"),
    "floor": (1, "the largest integer not above x"),
    "ceil": (1, "the smallest integer not below x"),
    "clamp": (3, "x limited to [lo, hi]: clamp(x, lo, hi)"),
    "less": (2, "1 where x < y, else 0"),
    "less_equal": (2, "1 where x <= y, else 0"),
    "equal": (2, "1 where x = y, else 0"),
    "select": (3, "y where x is not 0, else z: select(x, y, z)"),
}

# The function of the reals behind a name of the text form.
FUNCTION = {"maximum": "max", "minimum": "min"}
TEXT_NAME = {fn: name for name, fn in FUNCTION.items()}


@dataclass(frozen=True, slots=True)
class Call:
    """One call in the text form, with its arguments already turned into nodes.

    Attributes:
        xs: positional nodes.
        sizes: positional and keyword integers (`axis`, sizes of a shape, an order of axes).
        nth: the place that `nth=2` asks for, from 1.
        schedule: the tree that the statement gives to its sums, or None for an exact sum.
        acc: the rounding of that tree's additions.
    """

    xs: tuple[Node, ...]
    sizes: tuple[int, ...] = ()
    axis: int = -1
    schedule: Schedule | None = None
    acc: Rounding | None = None
    nth: int = 1

    def sum(self, x: Node) -> Node:
        """Return the sum of `x` along the call's axis, as the statement schedules it."""
        return Reduce("sum", x, self.axis, self.schedule, self.acc)

    @property
    def length(self) -> Fraction:
        """Return the number of elements of the first argument along the axis."""
        return Fraction(self.xs[0].shape[self.axis])


@dataclass(frozen=True, slots=True)
class Composite:
    """An operator that is built from others.

    Attributes:
        arity: number of nodes; None for any number.
        meaning: one line for the list of operators.
        build: makes the node.
        integers: whether plain integers follow the nodes (sizes or axes).
        nth: whether it takes `nth=2`, for the second choice.
    """

    arity: int | None
    meaning: str
    build: Callable[[Call], Node]
    integers: bool = False
    nth: bool = False


def _softmax(call: Call) -> Node:
    (x,) = call.xs
    weight = apply("exp", apply("sub", x, Reduce("max", x, call.axis)))
    return apply("div", weight, call.sum(weight))


def _rms_norm(call: Call) -> Node:
    x, weight, eps = call.xs
    mean = apply("div", call.sum(apply("mul", x, x)), call.length)
    return apply("mul", apply("mul", x, apply("rsqrt", apply("add", mean, eps))), weight)


def _broadcast(call: Call) -> Node:
    return broadcast(call.xs[0], call.sizes)


def _transpose(call: Call) -> Node:
    order = call.sizes or tuple(reversed(range(len(call.xs[0].shape))))
    if sorted(order) != list(range(len(call.xs[0].shape))):
        raise ShapeError(f"transpose needs each axis of {list(call.xs[0].shape)} once.")
    return transpose_node(call.xs[0], order)


def _size(call: Call) -> Node:
    if len(call.sizes) != 1:
        raise ShapeError("size needs one number: size(K).")
    return Const(Fraction(call.sizes[0]))


def _chosen(ties: Ties | None) -> Callable[[Call], Node]:
    """Return what makes one choice along the axis."""
    return lambda call: _choice(call, ties, call.nth)


def _choices(ties: Ties | None) -> Callable[[Call], Node]:
    """Return what makes the first k choices along the axis, one after the other."""

    def build(call: Call) -> Node:
        if len(call.sizes) != 1:
            raise ShapeError("the number of choices is missing: topk(x, 8).")
        if call.sizes[0] < 1:
            raise ShapeError(f"the number of choices is {call.sizes[0]}; at least 1 is made.")
        parts = (_choice(call, ties, nth) for nth in range(1, call.sizes[0] + 1))
        return concat_nodes(parts, call.axis)

    return build


def _choice(call: Call, ties: Ties | None, nth: int) -> Node:
    count = call.xs[0].shape[call.axis]
    if not 1 <= nth <= count:
        raise ShapeError(f"of {count} elements along an axis none is in place {nth}.")
    return Reduce(Choice(ties, nth).op, call.xs[0], call.axis)


COMPOSITES: dict[str, Composite] = {
    "sum": Composite(1, "the sum along axis, by the statement's schedule", lambda c: c.sum(*c.xs)),
    "mean": Composite(
        1,
        "sum / n along axis",
        lambda c: apply("div", c.sum(*c.xs), c.length),
    ),
    "amax": Composite(
        1,
        "the largest magnitude along axis",
        lambda c: Reduce("max", apply("abs", *c.xs), c.axis),
    ),
    "max": Composite(
        1,
        "the maximum along axis; with nth=2 the second largest",
        lambda c: Reduce("max", c.xs[0], c.axis) if c.nth == 1 else _choice(c, None, c.nth),
        nth=True,
    ),
    "min": Composite(1, "the minimum along axis", lambda c: Reduce("min", c.xs[0], c.axis)),
    "matmul": Composite(
        2,
        "the product of [M, K] and [K, N], by the statement's schedule",
        lambda c: matmul(c.xs[0], c.xs[1], c.schedule, c.acc),
    ),
    "argmax": Composite(
        1,
        "the index of the maximum along axis, of equal elements that of any; also with nth=2",
        _chosen("any"),
        nth=True,
    ),
    "argmax_first": Composite(
        1, "the index along axis, of equal elements the lowest", _chosen("first"), nth=True
    ),
    "argmax_last": Composite(
        1, "the index along axis, of equal elements the highest", _chosen("last"), nth=True
    ),
    "topk": Composite(
        1, "the k largest along axis, in order: topk(x, 8)", _choices(None), integers=True
    ),
    "topk_indices": Composite(
        1,
        "their indices along axis, of equal elements in any order",
        _choices("any"),
        integers=True,
    ),
    "topk_indices_first": Composite(
        1,
        "their indices along axis, of equal elements from the lowest up",
        _choices("first"),
        integers=True,
    ),
    "softmax": Composite(1, "exp(x - max x) / sum of these, along axis", _softmax),
    "rms_norm": Composite(3, "x * rsqrt(mean(x^2) + eps) * weight, along axis", _rms_norm),
    "reshape": Composite(
        1,
        "the same elements in another shape: reshape(x, 2, 8)",
        lambda c: reshape_node(c.xs[0], c.sizes),
        integers=True,
    ),
    "broadcast": Composite(1, "repeated to a shape: broadcast(0, 2, 8)", _broadcast, integers=True),
    "transpose": Composite(
        1, "axes in another order: transpose(x, 1, 0)", _transpose, integers=True
    ),
    "concat": Composite(
        None, "one after the other along axis", lambda c: concat_nodes(c.xs, c.axis)
    ),
    "size": Composite(0, "a size as a number: sum(x) / size(K)", _size, integers=True),
}

OPERATORS = tuple(sorted((*ELEMENTWISE, *COMPOSITES, "round")))


def leaf_constant(name: str) -> Const | None:
    """Return the constant that a bare name stands for, or None."""
    if name in NAMED_REALS:
        return Const(name)
    if name in SPECIALS:
        return Const(SPECIALS[name])
    return None
