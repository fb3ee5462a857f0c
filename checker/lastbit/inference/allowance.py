"""How far the functions of a kernel's library may be off, where the user says that they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from lastbit.formats import Format
from lastbit.graph import Map, Node, apply, topological, with_args

MOST_BENT = 6  # functions of a program that are moved one by one
OFF = frozenset(("exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tanh", "erf")) | {
    "sigmoid",
    "silu",
    "gelu",
    "gelu_tanh",
    "softplus",
    "rsqrt",
    "pow",
}  # functions that libraries compute within some ulp


@dataclass(frozen=True, slots=True)
class Allowance:
    """How far the functions of a kernel's library may be off; sums, products and roots may not.

    Attributes:
        ulp: of the exact value, one way or the other.
        format: of those ulp; n of them are at most n * 2^(1 - p) of the value, and n times the
            smallest subnormal number.
    """

    ulp: int
    format: Format


def bents(root: Node, allowance: Allowance) -> Iterator[Node]:
    """Yield a program with the results of its functions moved: all up, all down, each alone."""
    functions = [n for n in topological([root]) if isinstance(n, Map) and n.fn in OFF]
    few = functions if 1 < len(functions) <= MOST_BENT else []
    for chosen in ([functions] if functions else []) + [[function] for function in few]:
        keys = {function.key for function in chosen}
        for sign in (1, -1):
            step = Fraction(sign * allowance.ulp, 2 ** (allowance.format.precision - 1))
            least = sign * allowance.ulp * allowance.format.min_subnormal
            built: dict[bytes, Node] = {}
            for node in topological([root]):
                new = with_args(node, built)
                if node.key in keys:
                    new = apply("add", apply("mul", new, 1 + step), least)
                built[node.key] = new
            yield built[root.key]
