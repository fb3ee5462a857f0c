"""Einstein sums of one or two operands, as one sum of products."""

from __future__ import annotations

from collections.abc import Mapping

from lastbit.importers.expressions import broadcast_dims, reshaped, summed, transposed
from lastbit.importers.imported import Value
from lastbit.importers.onnx.call import Call, NotModelledError
from lastbit.importers.onnx.operators.elementwise import Build
from lastbit.importers.onnx.operators.sums import accumulator


def einsum(call: Call) -> None:
    """Give the sum over the labels that the result lacks; f16 and bf16 add in f32.

    Raises:
        NotModelledError: there are more operands, repeated labels or an ellipsis.
    """
    equation = call.attribute("equation", b"")
    text = equation.decode() if isinstance(equation, bytes) else str(equation)
    left, arrow, out = text.replace(" ", "").partition("->")
    labels = left.split(",")
    xs = [call.x(i) for i in range(len(call.node.reads))]
    plain = all(label.isalpha() and len(set(label)) == len(label) for label in labels)
    known = set("".join(labels))
    if not arrow or not plain or len(xs) > 2 or len(labels) != len(xs) or not set(out) <= known:
        raise NotModelledError(f"its equation is {text!r:.60}")
    if any(len(label) != x.rank for label, x in zip(labels, xs, strict=True)):
        raise NotModelledError("its equation has other axes than its operands")
    if len(set(out)) != len(out):
        raise NotModelledError("a label of its result is repeated")
    contracted = [label for label in dict.fromkeys("".join(labels)) if label not in out]
    order = [*out, *contracted]
    sizes: dict[str, str] = {}
    for label, x in zip(labels, xs, strict=True):
        sizes.update(zip(label, x.dims, strict=True))
    parts = [_placed(x, label, order) for label, x in zip(labels, xs, strict=True)]
    product = " * ".join(parts)
    dims = tuple(sizes[label] for label in out)
    if not contracted:
        call.give(product, broadcast_dims(dims))
        return
    total = summed(product, [sizes[label] for label in order], range(len(out), len(order)))
    call.give(reshaped(total, dims), dims, acc=accumulator(call, xs[0].dtype))


def _placed(x: Value, labels: str, order: list[str]) -> str:
    """Return an operand with its axes where `order` has them, and axes of size 1 between."""
    place: Mapping[str, int] = {label: i for i, label in enumerate(labels)}
    own = [place[label] for label in order if label in place]
    dims = [x.dims[place[label]] if label in place else "1" for label in order]
    return reshaped(transposed(x, own), dims)


OPERATORS: dict[str, tuple[Build, str]] = {
    "Einsum": (einsum, "the sum of products; two operands at most"),
}
