"""Laws that keep the bits of ordinary runs, each as one small function with its proof.

On an ordinary run nothing overflows and no nonzero result lies below the smallest normal number, so
`Round` acts as if exponents had no limits: it picks a neighbour among the numbers m * 2^e whose m
has p digits. `lastbit.verify.canonicalise` applies the laws to whole graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate
from math import isqrt

from lastbit.formats import Format, scale2
from lastbit.graph import Const, Input, Map, Node, Reduce, Round, View, native_rounding
from lastbit.interpret.digits import Digits
from lastbit.machines import unit_of
from lastbit.rounding import Mode, Rounding
from lastbit.schedule import Fused, formats, levels

MIRRORED = {Mode.UP: Mode.DOWN, Mode.DOWN: Mode.UP}
NEAREST = (Mode.NEAREST_EVEN, Mode.NEAREST_AWAY)

# Digits that a rounding in the middle needs, for q digits of operands and result.
HARMLESS: dict[str, Callable[[int], int]] = {
    "add": lambda q: 2 * q + 1,
    "sub": lambda q: 2 * q + 1,
    "mul": lambda q: 2 * q,
    "div": lambda q: 2 * q,
    "sqrt": lambda q: 2 * q + 2,
}

# A function and its inverse: fn(inverse(x)) = x wherever both are finite.
INVERSE = {
    "exp": "log",
    "log": "exp",
    "exp2": "log2",
    "log2": "exp2",
    "expm1": "log1p",
    "log1p": "expm1",
}


# Powers of two.


def power_of_two(value: Fraction) -> Fraction:
    """Return the f = +-2^k for which value / f is positive, with odd numerator and denominator.

    A zero gives 1.
    """
    if not value:
        return Fraction(1)
    n, d = abs(value.numerator), value.denominator
    factor = scale2(1, _trailing_zeros(n) - _trailing_zeros(d))
    return -factor if value < 0 else factor


def square_part(factor: Fraction) -> Fraction:
    """Return the largest 2^j whose square divides a positive power of two, leaving 1 or 2."""
    return scale2(1, (factor.numerator.bit_length() - factor.denominator.bit_length()) // 2)


def _trailing_zeros(n: int) -> int:
    return (n & -n).bit_length() - 1


def scaled_rounding(rounding: Rounding, factor: Fraction) -> Rounding | None:
    """Return the R' with Round(f * x) = f * R'(x) for f = +-2^k, or None.

    Multiplying by 2^k maps the numbers of p digits onto themselves, with their order, midpoints and
    the parity of m. Multiplying by -1 does so too where the format is symmetric, and turns the
    order around, so that rounding up becomes rounding down. A stochastic rounding draws by the
    value. Where an overflow saturates, the limit is part of the program's meaning and stays where
    it is. An integer format has a fixed last digit.
    """
    if factor == 1:
        return rounding
    fmt = rounding.format
    if fmt.kind == "integer" or rounding.mode == Mode.STOCHASTIC:
        return None
    if rounding.overflow == "saturate" or (factor < 0 and not fmt.signed):
        return None
    if factor > 0 or rounding.mode not in MIRRORED:
        return rounding
    mode = MIRRORED[rounding.mode]
    return Rounding(fmt, mode, rounding.overflow, rounding.subnormals, rounding.seed)


def scaled_sum(node: Reduce, factor: Fraction) -> Rounding | None:
    """Return the accumulator's rounding A' with sum(f * x) = f * sum(x) in A', or None.

    By induction over the tree: each node of it is Round(a + b), and Round(f*a + f*b) =
    f * R'(a + b). A step of a matrix unit cuts its terms at a place that moves with the largest
    term; cutting toward zero also keeps a change of all signs. Exact sums: see `is_exact`.
    """
    assert node.acc is not None
    assert node.schedule is not None
    for short in formats(node.schedule, node.acc.format.short):
        level = node.acc if short == node.acc.format.short else Rounding.of(short)
        if scaled_rounding(level, factor) is None:
            return None
    for part in levels(node.schedule):
        if factor < 0 and isinstance(part, Fused) and not unit_of(part.unit).is_odd:
            return None
    return scaled_rounding(node.acc, factor)


def is_exact(node: Reduce) -> bool:
    """Return whether a sum is exact, so that any factor leaves it."""
    return node.acc is None or node.schedule is None


# Double rounding.


def without_double_rounding(x: Node, rounding: Rounding, known: dict[bytes, int | None]) -> Node:
    """Return the y with Round(x) = Round(y), where x rounds one operation harmlessly before.

    A first rounding to p digits harms only where it moves the exact result onto a midpoint of q
    digits, which lies within half a unit of p digits then. For q-digit operands of one add, sub,
    mul, div or sqrt, and p as in `HARMLESS`, the result is such a midpoint itself or further away
    (Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30(3), 1995). Both round to
    nearest even. Sums of more terms and fused multiply-adds have no such bound: one of their
    operands is no number of q digits, and the law does not match.

    Args:
        x: what `rounding` rounds; views may stand before its own rounding.
        rounding: the last rounding.
        known: digits of nodes by key, extended; see `digits`.
    """
    first = past_views(x)
    if not isinstance(first, Round) or not isinstance(first.x, Map):
        return x
    need = HARMLESS.get(first.x.fn)
    count = rounding.format.precision
    if need is None or not contains(first.rounding, rounding):
        return x
    if first.rounding.format.precision < need(count):
        return x
    for operand in first.x.xs:
        found = digits(operand, known)
        if found is None or found > count:
            return x
    return under_views(x, first.x)


def without_root_of_square(x: Node, rounding: Rounding, known: dict[bytes, int | None]) -> Node:
    """Return |a| for x = sqrt(Square(a * a)), where Round(x) = |a|, or x itself.

    Let 1 < a < 2 have p digits, and let Square round to the nearest of p digits or more: it gives
    a^2 (1 + d) with |d| <= u = 2^-p. The root is off by at most a (|d| + d^2) / 2 <=
    (2 - 2u) (u + u^2) / 2 < u, half the distance to the next number of p digits, so that Round
    takes it back to a. For a = 1 nothing is rounded.

    Args:
        x: what `rounding` rounds.
        rounding: the last rounding.
        known: digits of nodes by key, extended; see `digits`.
    """
    if not isinstance(x, Map) or x.fn != "sqrt" or rounding.mode not in NEAREST:
        return x
    square = x.xs[0]
    if not isinstance(square, Round) or square.rounding.mode not in NEAREST:
        return x
    if square.rounding.format.kind != "float" or square.rounding.overflow == "saturate":
        return x
    product = square.x
    if not isinstance(product, Map) or product.fn != "mul" or rounding.format.kind != "float":
        return x
    (a, b), precision = product.xs, rounding.format.precision
    count = digits(a, known)
    if a.key != b.key or count is None or count > precision:
        return x
    return x if square.rounding.format.precision < precision else Map("abs", (a,))


def contains(first: Rounding, last: Rounding) -> bool:
    """Return whether both are to nearest even, and the first one's exponents contain the last's."""
    wide, narrow = first.format, last.format
    if {wide.kind, narrow.kind} != {"float"}:
        return False
    if not first.mode == last.mode == Mode.NEAREST_EVEN:
        return False
    if first.overflow == "saturate":  # its limit is part of the program's meaning
        return False
    return wide.emin <= narrow.emin and wide.max_finite >= narrow.max_finite


def digits(node: Node, known: dict[bytes, int | None]) -> int | None:
    """Return how many digits the values of a node have at most, or None where that is open.

    Powers of two do not count: 2^k * x has the digits of x. Infinities have none.
    """
    if node.key not in known:
        known[node.key] = _digits(node, known)
    return known[node.key]


def _digits(node: Node, known: dict[bytes, int | None]) -> int | None:
    match node:
        case Input(format=fmt) | Round(rounding=Rounding(format=fmt)):
            return _digits_of(fmt)
        case Const(value=Fraction() as value):
            written = Digits.of_number(value)
            return None if written is None else written.count
        case Const(value=float()):
            return 0
        case Reduce(op="sum", acc=Rounding(format=fmt)) if not is_exact(node):
            return _digits_of(fmt)
        case Reduce(op="max" | "min") | View() | Map(fn="neg" | "abs" | "max" | "min"):
            return _most([digits(x, known) for x in node.args])
        case Map(fn="select", xs=(_, x, y)):
            return _most([digits(x, known), digits(y, known)])
        case Map(fn="mul", xs=(x, y)):
            a, b = digits(x, known), digits(y, known)
            if a is None or b is None:
                return None
            return max(a, b) if min(a, b) <= 1 else a + b  # one digit: a power of two
    return None


def _digits_of(fmt: Format) -> int:
    return Digits.of_format(fmt).count


def _most(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return max(known) if known and len(known) == len(counts) else None


# Views.


def past_views(node: Node) -> Node:
    """Return what a node views; a concatenation is not looked into."""
    while isinstance(node, View) and len(node.xs) == 1:
        node = node.xs[0]
    return node


def under_views(node: Node, new: Node) -> Node:
    """Return the views of `node` on another node of the same shape."""
    if isinstance(node, View) and len(node.xs) == 1:
        return View(node.kind, (under_views(node.xs[0], new),), node.params)
    return new


def merged_view(kind: str, x: Node, params: tuple[object, ...]) -> Node:
    """Return a view, without those that undo each other.

    A reshape keeps the order of the elements, so only the last of several counts, and likewise the
    last broadcast; two permutations are one. A slice inside one piece of a concatenation is a slice
    of that piece.
    """
    view = View(kind, (x,), params)
    if view.shape == x.shape and (
        kind in ("reshape", "broadcast", "concat")
        or (kind == "transpose" and params == tuple(range(len(x.shape))))
        or (kind == "slice" and all(step == 1 for *_, step in view.bounds))
    ):
        return x
    if not isinstance(x, View):
        return view
    if x.kind == kind and kind in ("reshape", "broadcast"):
        return merged_view(kind, x.xs[0], params)
    if x.kind == kind == "transpose":
        return merged_view(kind, x.xs[0], tuple(x.params[int(str(axis))] for axis in params))
    if kind == "slice" and x.kind == "concat":
        return _slice_of_piece(view, x)
    return view


def _slice_of_piece(view: View, joined: View) -> Node:
    axis = int(str(joined.params[0]))
    start, stop, step = view.bounds[axis]
    rows = range(start, stop, step)
    if step < 0 or not rows:
        return view
    offsets = accumulate((part.shape[axis] for part in joined.xs), initial=0)
    for part, offset in zip(joined.xs, offsets, strict=False):
        if offset <= rows[0] and rows[-1] < offset + part.shape[axis]:
            bounds = list(view.bounds)
            bounds[axis] = (start - offset, rows[-1] + 1 - offset, step)
            return merged_view("slice", part, tuple(bounds))
    return view


# Constants.


def never_below(node: Node, bound: Fraction) -> bool:
    """Return whether finite values of a node are at least `bound`, by their format."""
    base = past_views(node)
    while isinstance(base, Reduce) and base.op == "max":
        if not base.length:
            return False  # the maximum of nothing is -inf
        base = past_views(base.x)
    rounding = native_rounding(base)
    return rounding is not None and rounding.format.min_finite >= bound


def constant(node: Node) -> Fraction | float | None:
    """Return the number that a node is, seen through views; None for others and named reals."""
    base = past_views(node)
    return base.value if isinstance(base, Const) and not isinstance(base.value, str) else None


def root_constant(fn: str, node: Node) -> Node | None:
    """Return the `sqrt` or `rsqrt` of a constant, seen through views, that is a square; else None.

    The field's root is the one that is itself a square, and is -8 of 64 where 8 is none.
    """
    value = constant(node)
    if not isinstance(value, Fraction) or value <= 0:
        return None
    root = Fraction(isqrt(value.numerator), isqrt(value.denominator))
    if root**2 != value:
        return None
    base = past_views(node)
    return under_views(node, Const(root if fn == "sqrt" else 1 / root, shape=base.shape))


def scaled_constant(node: Node, factor: Fraction) -> Node:
    """Return a constant, seen through views, times +-2^k."""
    base = past_views(node)
    assert isinstance(base, Const)
    value = base.value
    assert not isinstance(value, str)
    if isinstance(value, Fraction):
        value *= factor
    elif factor < 0:
        value = -value
    return under_views(node, Const(value, shape=base.shape))
