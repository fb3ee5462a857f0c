"""Sums by a matrix unit, computed by the engine before a graph is evaluated in the array domain."""

from __future__ import annotations

from collections.abc import MutableMapping

import numpy as np

from lastbit.engine.product import Operand, matrix_product
from lastbit.engine.tape import record
from lastbit.errors import LastbitError
from lastbit.formats import F32, Format
from lastbit.graph import Map, Node, Reduce, native_rounding, topological
from lastbit.interpret.array import ArrayDomain, Tensor, values_of
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.policy import Policy
from lastbit.interpret.tensors import Held
from lastbit.machines import check_operands
from lastbit.round_array import encode_array
from lastbit.rounding import Rounding
from lastbit.schedule import Fused, levels


def add_up_products(root: Node, domain: ArrayDomain, known: MutableMapping[bytes, Tensor]) -> None:
    """Compute the matrix products of a graph that a matrix unit adds; keep them in `known`.

    Sums of another form are left to the domain.
    """
    for node in topological([root]):
        if isinstance(node, Reduce) and node.key not in known and _is_product(node):
            try:
                known[node.key] = _product(node, domain, known)
            except LastbitError:
                continue


def takes_steps(node: Reduce) -> bool:
    """Return whether a matrix unit adds a sum."""
    found = () if node.schedule is None else levels(node.schedule)
    return any(isinstance(level, Fused) for level in found)


def operands_of(node: Reduce) -> tuple[Format, Format] | None:
    """Return the formats of the operands of a matrix product, [M, 1, K] and [1, N, K], or None."""
    x = node.x
    if node.op != "sum" or not isinstance(x, Map) or x.fn != "mul" or node.axis != 2:
        return None
    if [len(arg.shape) for arg in x.xs] != [3, 3]:
        return None
    (a, b), (m, n, k) = x.xs, x.shape
    if a.shape != (m, 1, k) or b.shape != (1, n, k):
        return None
    formats = [native_rounding(arg) for arg in x.xs]
    if formats[0] is None or formats[1] is None:
        return None
    left, right = formats[0].format, formats[1].format
    wide = any(fmt.kind != "float" or fmt.precision > F32.precision for fmt in (left, right))
    return None if wide else (left, right)


def _is_product(node: Reduce) -> bool:
    plain = node.acc is not None and node.acc == Rounding.of(node.acc.format)
    return plain and takes_steps(node) and operands_of(node) is not None


def _product(node: Reduce, domain: ArrayDomain, known: MutableMapping[bytes, Tensor]) -> Held:
    formats, acc, schedule = operands_of(node), node.acc, node.schedule
    assert formats is not None
    assert acc is not None
    assert schedule is not None
    assert isinstance(node.x, Map)
    m, n, k = node.x.shape
    tape = record(schedule, k, acc.format.short)
    for chain in tape.chains():
        check_operands(chain.unit, formats[0].short, formats[1].short, chain.format)
    tensors = evaluate(node.x.xs, domain, Policy.BITS, known)
    arrays = [
        np.ascontiguousarray(np.broadcast_to(values_of(t), arg.shape))
        for t, arg in zip(tensors, node.x.xs, strict=True)
    ]
    a = encode_array(arrays[0].reshape(m, k), formats[0])
    b = encode_array(np.ascontiguousarray(arrays[1].reshape(n, k).T), formats[1])
    out = np.empty((m, n), np.float64)
    left, right = Operand(a, formats[0]), Operand(b, formats[1])
    matrix_product(left, right, tape, lambda part, columns: part.astype(np.float64), out)
    return Held(out.reshape(m, n, 1), acc.format)
