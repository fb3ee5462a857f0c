"""What the nodes of a graph and the statements of loop bodies compute, apart from roundings.

A meaning is a number that is equal for two values that are the same function of the inputs when
casts between floating-point formats and moves of elements count as nothing. Inductor's loop bodies
and the graph before fusion are put side by side by it: names of nodes are in the graph only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from lastbit.formats import as_exact, format_of
from lastbit.importers.imported import is_float
from lastbit.importers.inductor.fx import Graph, Node, Ref
from lastbit.rounding import Rounding, round_exact

MOVES = frozenset(
    {
        "view", "reshape", "_unsafe_view", "permute", "transpose", "t", "slice", "select", "expand",
        "squeeze", "unsqueeze", "clone", "alias", "detach", "contiguous", "lift_fresh_copy",
        "repeat", "flip", "as_strided", "split", "split_with_sizes", "unbind", "getitem", "copy",
        "copy_", "diagonal", "unfold", "view_copy", "constant_pad_nd", "slice_copy",
    }
)  # fmt: skip
CASTS = frozenset({"convert_element_type", "_to_copy", "to"})
COMMUTE = frozenset({"add", "mul", "maximum", "minimum", "eq", "ne", "logical_and", "logical_or"})
REDUCED = {"sum": "sum", "amax": "max", "amin": "min", "max": "max", "min": "min", "prod": "prod"}
POINTWISE = frozenset(
    {
        *COMMUTE, "sub", "div", "true_divide", "neg", "abs", "exp", "exp2", "expm1", "log", "log2",
        "log1p", "sqrt", "rsqrt", "reciprocal", "sigmoid", "tanh", "erf", "sin", "cos", "relu",
        "pow", "where", "gt", "lt", "ge", "le", "floor", "ceil", "trunc", "round", "sign", "square",
        "bitwise_and", "logical_not", "isnan", "isinf", "fma", "silu", "gelu", "remainder",
    }
)  # fmt: skip
FILLED = {"full": 1, "full_like": 1, "scalar_tensor": 0}  # the argument that fills
CHOICES = frozenset({"where", "maximum", "minimum", "relu", "neg", "abs"})
COUNTED = frozenset({"iota", "arange"})  # indices, which a loop body gives by its own variables
# Names that a loop body uses for operators of the graph.
SAME = {"div": "truediv", "true_divide": "truediv", "abs": "abs_", "bitwise_and": "logical_and"}


GATHERS = frozenset({"index", "embedding", "gather", "index_select", "take"})
RANDOM = ("rand", "seed", "bernoulli", "dropout", "normal", "multinomial", "exponential")


class Meanings:
    """Gives equal numbers to equal meanings."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._facts: list[tuple[Any, ...]] = []

    def of(self, word: str, *parts: Any) -> int:
        """Return the number of a function of meanings, simplified as Inductor lowers it."""
        if word in ("square",) and len(parts) == 1:
            word, parts = "mul", (parts[0], parts[0])
        if word == "reciprocal":
            word, parts = "truediv", (self.constant(1), *parts)
        if word in ("abs", "abs_"):
            word = "abs"
        if word == "reduce" and self.facts(parts[1])[:2] == ("reduce", parts[0]):
            return int(parts[1])  # a reduction in two stages
        if word in COMMUTE:
            parts = tuple(sorted(parts, key=str))
        facts = (word, *parts)
        if facts not in self._numbers:
            self._numbers[facts] = len(self._facts)
            self._facts.append(facts)
        return self._numbers[facts]

    def constant(self, value: object) -> int:
        """Return the number of a constant."""
        try:
            return self.of("number", repr(float(value)))  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            return self.of("number", str(value)[:100])

    def facts(self, number: int) -> tuple[Any, ...]:
        """Return what a number stands for: a word, and the numbers that it is a function of."""
        return self._facts[number]

    @property
    def index(self) -> int:
        """Return the number of whatever depends on indices only."""
        return self.of("index")

    def joined(self, parts: Iterable[int]) -> int:
        """Return values one beside the other, in whatever order."""
        found = sorted(set(parts))
        return found[0] if len(found) == 1 else self.of("joined", *found)


def base_word(target: str) -> str:
    """Return `add` for `aten.add.Tensor`."""
    parts = target.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def is_move(node: Node) -> bool:
    """Return whether a node moves elements only."""
    return base_word(node.target) in MOVES and node.target != ""


def is_cast(node: Node) -> bool:
    """Return whether a node is a cast to a float; one between bf16 and f16 counts as computed."""
    if base_word(node.target) not in CASTS or node.recast:
        return False
    return node.dtype is not None and is_float(node.dtype)


def is_random(node: Node) -> bool:
    """Return whether a node draws random numbers."""
    word = base_word(node.target)
    return node.target != "" and any(one in word for one in RANDOM)


def is_held_number(node: Node) -> bool:
    """Return whether a node is filled with one number that its narrow format holds."""
    word = base_word(node.target)
    if word not in FILLED or len(node.args) <= FILLED[word] or node.dtype not in ("bf16", "f16"):
        return False
    return is_held(node.args[FILLED[word]], (node.dtype,))


def is_held(value: object, names: Iterable[str] = ("bf16", "f16")) -> bool:
    """Return whether a number is one of some formats, so that rounding changes nothing."""
    if not isinstance(value, int | float) or not isfinite(value):
        return not isinstance(value, Ref)
    formats = [format_of(name) for name in names]
    exact = as_exact(value)
    return all(round_exact(exact, Rounding.of(fmt)) == exact for fmt in formats)


def is_choice(node: Node, graph: Graph) -> bool:
    """Return whether a node gives one of its operands, or its negative, all of one narrow format.

    Rounding before it or after it is the same.
    """
    if base_word(node.target) not in CHOICES or node.dtype not in ("bf16", "f16"):
        return False
    read = {graph.nodes[name].dtype for name in node.reads}
    return {one for one in read if one is not None and is_float(one)} == {node.dtype}


def meanings_of(graph: Graph, meanings: Meanings) -> dict[str, int]:
    """Return the meaning of each node."""
    found: dict[str, int] = {}
    for node in graph.nodes.values():
        found[node.name] = _meaning(node, graph, found, meanings)
    return found


def _meaning(node: Node, graph: Graph, known: dict[str, int], meanings: Meanings) -> int:
    word = base_word(node.target)

    def part(value: Any) -> int:
        if isinstance(value, Ref):
            return known[value.name]
        return meanings.constant(value)

    reads = [known[name] for name in node.reads]
    if not node.target:
        return meanings.of("input", node.name)
    if word == "getitem":
        return _item(node, graph, known, meanings)
    if (word in MOVES or is_cast(node)) and reads:
        return reads[0]
    if word in ("cat", "slice_scatter"):
        return meanings.joined(reads)
    if word in FILLED and len(node.args) > FILLED[word]:
        return part(node.args[FILLED[word]])
    if word in COUNTED or _counts(node, reads, meanings):
        return meanings.index
    if word == "where" and len(node.args) == 3 and reads[0] == meanings.index:
        return meanings.joined(map(part, node.args[1:]))  # as a loop body states it
    if word == "pow" and node.args[1:] == (2,):
        return meanings.of("mul", reads[0], reads[0])
    if word == "pow" and node.args[1:] == (3,):
        return meanings.of("mul", meanings.of("mul", reads[0], reads[0]), reads[0])
    if word == "mean":
        total = meanings.of("reduce", "sum", reads[0])
        return meanings.of("truediv", total, meanings.constant(_count(node, graph)))
    if word in REDUCED and len(reads) == 1:
        return meanings.of("reduce", REDUCED[word], reads[0])
    if word in CASTS and reads:
        return meanings.of("cast", node.dtype, reads[0])
    plain = [one for one in node.args if isinstance(one, int | float | Ref)]
    if word not in POINTWISE or len(plain) != len(node.args) or node.keywords:
        return called(meanings, word, reads)
    return meanings.of(SAME.get(word, word), *map(part, node.args))


def _counts(node: Node, reads: list[int], meanings: Meanings) -> bool:
    """Return whether a node computes with indices and integers only."""
    whole = node.dtype is not None and not is_float(node.dtype)
    return whole and bool(reads) and set(reads) == {meanings.index}


def called(meanings: Meanings, word: str, reads: Iterable[int]) -> int:
    """Return the meaning of a library call: the order of its operands does not count."""
    return meanings.of("call", word, *sorted(set(reads)))


def _item(node: Node, graph: Graph, known: dict[str, int], meanings: Meanings) -> int:
    source = node.args[0]
    if not isinstance(source, Ref):
        return meanings.of("node", node.name)
    maker = graph.nodes[source.name]
    if base_word(maker.target) == "var_mean" and maker.reads:
        x, count = known[maker.reads[0]], meanings.constant(_count(node, graph, maker))
        mean, squares = _moments(x, count, meanings)
        return mean if node.args[1] == 1 else meanings.of("truediv", squares, count)
    if base_word(maker.target) in MOVES:
        return known[source.name]
    return meanings.of("item", known[source.name])


def _count(node: Node, graph: Graph, maker: Node | None = None) -> object:
    """Return how many elements go into each of the node's, if that is a number."""
    maker = maker or node
    (have, want) = graph.nodes[maker.reads[0]].dims, node.dims
    sizes = [int(dim) for dim in (*have, *want) if dim.isdigit()]
    if len(sizes) != len(have) + len(want):
        return "elements"
    above = below = 1
    for dim in have:
        above *= int(dim)
    for dim in want:
        below *= int(dim)
    return above // max(below, 1)


def _moments(x: int, count: int, meanings: Meanings) -> tuple[int, int]:
    """Return the mean, and the sum of squares around it."""
    mean = meanings.of("truediv", meanings.of("reduce", "sum", x), count)
    away = meanings.of("sub", x, mean)
    return mean, meanings.of("reduce", "sum", meanings.of("mul", away, away))


def moments_of(
    graph: Graph, of_nodes: Mapping[str, int], meanings: Meanings
) -> dict[int, tuple[int, int]]:
    """Return for what the graph takes the variance of its mean and the sum of squares around it."""
    found = {}
    for node in graph.nodes.values():
        source = node.args[0] if node.target == "getitem" and node.args else None
        maker = graph.nodes[source.name] if isinstance(source, Ref) else None
        if maker is not None and base_word(maker.target) == "var_mean" and maker.reads:
            x = of_nodes[maker.reads[0]]
            count = meanings.constant(_count(node, graph, maker))
            found[x] = _moments(x, count, meanings)
    return found
