"""Scales and zero points that leave a sum, and quantizations that move past what precedes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

from lastbit.graph import (
    Input,
    Map,
    Node,
    Reduce,
    Round,
    View,
    apply,
    broadcast,
    concat,
    native_rounding,
    reshape,
    substitute,
    take,
)
from lastbit.patterns import (
    Sum,
    find,
    is_map,
    past_views,
    replace,
    same_format,
    written_out,
)
from lastbit.patterns.quantized import quantized_at
from lastbit.rule import Edits, MismatchError, Site

NO_FACTOR = "an operand of the sum is multiplied by a scale that is constant along the sum"
NO_OFFSET = "an operand of the sum subtracts a zero point that is constant along the sum"
NO_SCALED_SUMS = "the value adds sums, each multiplied by a scale of its own"
NO_PRODUCT = "every reader multiplies the quantized values by their scale, element by element"


@dataclass(frozen=True, slots=True)
class Hoisted:
    """The terms of a sum without the scales that are constant along it.

    Attributes:
        terms: what remains of the terms.
        scales: the scales, each with size 1 along the sum.
    """

    terms: Node
    scales: tuple[Node, ...]


def hoisted(site: Site, total: Sum) -> Hoisted:
    """Return the terms of a sum of products without their constant scales.

    A dequantized operand may be a named value of its own: it is written out, unrounded.

    Raises:
        MismatchError: no operand is multiplied by such a scale.
    """
    if not is_map(total.terms, "mul"):
        raise MismatchError(NO_FACTOR)
    operands: list[Node] = []
    scales: list[Node] = []
    for operand in total.terms.args:
        axis = total.axis - len(total.terms.shape)
        base, along = source_of(operand, axis)
        kept: list[Node] = []
        for factor in factors(_dequantized(site, base)):
            if along is None or _size(factor, along) != 1 or _size(base, along) == 1:
                kept.append(factor)
                continue
            whole = substitute([operand], {base.key: broadcast(factor, base.shape)})
            scales.append(take(whole[operand.key], axis, 0, 1))
        rest = multiplied(kept)
        new = substitute([operand], {base.key: broadcast(rest, base.shape)})[operand.key]
        operands.append(operand if len(kept) == 1 and rest.key == base.key else new)
    if not scales:
        raise MismatchError(NO_FACTOR)
    return Hoisted(apply("mul", *operands), tuple(scales))


def offset_operand(total: Sum) -> tuple[Node, Map, Node]:
    """Return the operand that subtracts a zero point, the difference behind it, and the other.

    Raises:
        MismatchError: there is none.
    """
    operands = total.terms.args if is_map(total.terms, "mul") else ()
    for operand, other in zip(operands, reversed(operands), strict=True):
        base, axis = source_of(operand, total.axis - len(total.terms.shape))
        if isinstance(base, Map) and base.fn == "sub" and axis is not None:
            zero = base.xs[1]
            if len(zero.shape) < -axis or zero.shape[axis] == 1:
                return operand, base, other
    raise MismatchError(NO_OFFSET)


def largest_offset_sum(total: Sum) -> Fraction:
    """Return the most that sums of codes, and of zero points, times the other operand may reach.

    Raises:
        MismatchError: no operand subtracts a zero point, or one has no format.
    """
    _, difference, other = offset_operand(total)
    code, zero, weight = (_magnitude(x) for x in (*difference.xs, other))
    return total.length * (code + zero) * weight


def _magnitude(node: Node) -> Fraction:
    rounding = native_rounding(past_views(node))
    if rounding is None:
        raise MismatchError(NO_OFFSET)
    return max(rounding.format.max_finite, -rounding.format.min_finite)


def source_of(node: Node, axis: int) -> tuple[Node, int | None]:
    """Return what a node views, and which axis of that `axis` is, both counted from the last one.

    None stands for an axis that the views add, or that they do not keep whole.
    """
    found: int | None = axis
    while isinstance(node, View) and len(node.xs) == 1:
        inner = node.xs[0]
        if found is not None:
            found = _inner_axis(node, inner, found)
        node = inner
    return node, found


def _inner_axis(view: View, inner: Node, axis: int) -> int | None:
    rank = len(inner.shape)
    if view.kind == "transpose":
        return int(str(view.params[axis])) - rank
    if view.kind != "reshape":
        return axis if -axis <= rank else None
    behind, size = math.prod(view.shape[axis:][1:]), view.shape[axis]
    for i in range(-rank, 0):
        if inner.shape[i] == size and math.prod(inner.shape[i:][1:]) == behind:
            return i
    return None


def _dequantized(site: Site, base: Node) -> Node:
    """Return the product behind an operand, without the rounding that follows it."""
    node = written_out(site, base)
    if isinstance(node, Round) and not node.rounding.format.is_grid and is_map(node.x, "mul"):
        node = node.x
    return node if is_map(node, "mul") and node.shape == base.shape else base


def factors(node: Node) -> Iterator[Node]:
    """Yield the factors of a product, however it is nested."""
    if isinstance(node, Map) and node.fn == "mul":
        for x in node.xs:
            yield from factors(x)
    else:
        yield node


def multiplied(nodes: Iterable[Node]) -> Node:
    """Return the product of nodes, from the left."""
    return reduce(lambda x, y: apply("mul", x, y), nodes)


def _size(node: Node, axis: int) -> int:
    return node.shape[axis] if -axis <= len(node.shape) else 1


def scaled_sums(site: Site, node: Node) -> list[tuple[Node, Node]]:
    """Return the sums that a node adds, each with its scale.

    Raises:
        MismatchError: it adds something else, or only one sum.
    """
    pairs = list(_scaled_sums(site, node))
    if len(pairs) < 2:
        raise MismatchError(NO_SCALED_SUMS)
    return pairs


def _scaled_sums(site: Site, node: Node) -> Iterator[tuple[Node, Node]]:
    if isinstance(node, Round):
        yield from _scaled_sums(site, node.x)
    elif isinstance(node, Map) and node.fn == "add":
        for x in node.xs:
            yield from _scaled_sums(site, x)
    elif isinstance(node, Map) and node.fn == "mul":
        sums = [x for x in node.xs if _is_sum(written_out(site, x))]
        if len(sums) != 1:
            raise MismatchError(NO_SCALED_SUMS)
        yield sums[0], next(x for x in node.xs if x is not sums[0])
    else:
        raise MismatchError(NO_SCALED_SUMS)


def _is_sum(node: Node) -> bool:
    inner = past_views(node.x) if isinstance(node, Round) else node
    return isinstance(inner, Reduce) and inner.op == "sum"


def quantized_earlier(site: Site, fn: str, need: str) -> Edits:
    """Return the definitions with a quantization moved in front of an operation of two values.

    The first operand is quantized, by a scale that follows from its own maximum; the second one
    enters where the codes are multiplied by their scale again.

    Args:
        site: where the quantization is.
        fn: the operation, `add` or `mul`.
        need: what is needed, where what is quantized is no such operation.

    Raises:
        MismatchError: the site has another form.
    """
    whole = quantized_at(site)
    node = written_out(site, whole.numerator)
    node = node.x if isinstance(node, Round) else node
    if not (is_map(node, fn) and node.args[0].shape == node.shape):
        raise MismatchError(need)
    first, second = node.args
    formula = whole.scaled_by(Reduce("max", apply("abs", first), whole.amax.axis))
    scale = whole.scale if isinstance(whole.scale, Input) else formula
    new = {
        whole.scale.key: scale,
        whole.node.key: Round(apply("div", first, scale), whole.node.rounding),
    }
    edits = dict(whole.rescaled(formula))
    wanted = {whole.codes.key, whole.scale.key}
    for name in {whole.name: None, **dict.fromkeys(whole.readers)}:
        root = site.definition(name)
        if name in whole.readers:
            products = find(root, Map, lambda n: n.fn == "mul" and {x.key for x in n.xs} == wanted)
            if not products:
                raise MismatchError(NO_PRODUCT)
            restored = products[0]
            root = same_format(root, replace(root, restored, apply(fn, restored, second)))
        edits[name] = substitute([root], new)[root.key]
    return edits


def hadamard(x: Node, axis: int, stages: int) -> Node:
    """Return x H along an axis, H the Hadamard matrix of blocks of 2^stages: sums, differences."""
    axis %= len(x.shape)
    before, length, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    for stage in range(stages):
        half = 2**stage
        pairs = reshape(x, (*before, length // (2 * half), 2, half, *after))
        first, second = (take(pairs, axis + 1, i, i + 1) for i in (0, 1))
        both = concat((apply("add", first, second), apply("sub", first, second)), axis + 1)
        x = reshape(both, (*before, length, *after))
    return x
