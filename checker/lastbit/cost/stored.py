"""Which values are stored, and in how many bytes.

Along an axis on which nothing that it is made from depends, a value is the same, and stored once.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from lastbit.cost.reading import needs_of
from lastbit.definitions import Definitions
from lastbit.formats import Format
from lastbit.graph import Input, Node, Round, View, native_rounding


def size_of(program: Definitions, name: str) -> int:
    """Return the bytes of a value; 0 for one that is never stored."""
    return _bytes(program.nodes[name])


def is_stored(program: Definitions, name: str) -> bool:
    """Return whether a value has a format; one without is written out in its readers."""
    node = program.nodes[name]
    return isinstance(node, Input | Round) or program.is_input(name) or _format(node) is not None


@lru_cache(maxsize=1 << 16)
def _bytes(node: Node) -> int:
    fmt = _format(node)
    return 0 if fmt is None else bytes_of(_different(node), fmt)


def _different(node: Node) -> int:
    """Return how many elements of a value may differ."""
    axes: set[int] = set()
    needs = [need for need in needs_of(node) if isinstance(need.node, Input)]
    for need in needs:
        axes.update(loop.place for loop in need.loops if loop.place < 0)
        axes.update(limit[0].loop.place for limit in need.limits)
    if not needs:
        return prod(node.shape)
    sizes = enumerate(node.shape, -len(node.shape))
    return prod(size for axis, size in sizes if axis in axes or not size)


def _format(node: Node) -> Format | None:
    """Return the format in which a value is stored; None where it has none and never is."""
    if isinstance(node, View) and node.kind == "concat":
        formats = {_format(part) for part in node.xs}
        return formats.pop() if len(formats) == 1 else None
    if isinstance(node, View):
        return _format(node.xs[0])
    rounding = native_rounding(node)
    return None if rounding is None else rounding.format


def bytes_of(elements: int, fmt: Format) -> int:
    """Return the bytes of so many elements, packed where a format is narrower than a byte."""
    bits = fmt.bits if fmt.bits < 8 else fmt.container
    return -(-elements * bits // 8)
