"""Blocks along an axis, cut where the values come from: before they are transposed or reshaped."""

from __future__ import annotations

from lastbit.graph import Node, View, reshape, take, transpose

Block = tuple[int, int]


def blocks_of(length: int, size: int) -> tuple[Block, ...]:
    """Return contiguous blocks of `size` elements that cover `length`, the last one shorter."""
    return tuple((start, min(start + size, length)) for start in range(0, length, size))


def block_of(node: Node, axis: int, block: Block) -> Node:
    """Return one block of a node.

    Args:
        node: the node.
        axis: the axis, counted from the last one: -1, -2 ...
        block: the first element of the block, and the one behind its last.
    """
    if isinstance(node, View) and node.kind == "transpose":
        order, inner = _order(node), node.xs[0]
        return transpose(block_of(inner, order[axis] - len(inner.shape), block), order)
    if _keeps(node, axis):
        part = block_of(node.args[0], axis, block)
        shape = list(node.shape)
        shape[axis] = part.shape[axis]
        return reshape(part, tuple(shape))
    return take(node, axis, *block)


def whole_of(node: Node, axis: int) -> Node:
    """Return the node of which `node` is one block along an axis, or `node` itself."""
    if isinstance(node, View) and node.kind == "slice":
        return node.xs[0]
    if isinstance(node, View) and node.kind == "transpose":
        order, inner = _order(node), node.xs[0]
        return transpose(whole_of(inner, order[axis] - len(inner.shape)), order)
    if _keeps(node, axis):
        whole = whole_of(node.args[0], axis)
        shape = list(node.shape)
        shape[axis] = whole.shape[axis]
        return reshape(whole, tuple(shape))
    return node


def _order(node: View) -> tuple[int, ...]:
    return tuple(int(str(axis)) for axis in node.params)


def _keeps(node: Node, axis: int) -> bool:
    """Return whether a reshape leaves `axis` and what follows it as they are."""
    if not (isinstance(node, View) and node.kind == "reshape"):
        return False
    inner = node.xs[0].shape
    return len(inner) >= -axis and node.shape[axis:] == inner[axis:]
