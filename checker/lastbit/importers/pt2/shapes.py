"""Hold the sizes that a `.pt2` file states against those that its operators give.

Rows of the table take the shape of a view, say, from the file; a file in which one shape is stated
in two ways is damaged, and what it computes is not known.
"""

from __future__ import annotations

from collections.abc import Sequence

from lastbit.definitions import reference
from lastbit.errors import LastbitError
from lastbit.expression import parse_expression
from lastbit.importers.imported import Imported

# Operators whose result has the sizes of an argument, by the names of that argument.
SIZES = ("size", "shape")
_SIZED = frozenset(
    f"aten.{name}"
    for name in [
        "view",
        "view_copy",
        "_unsafe_view",
        "reshape",
        "reshape_copy",
        "expand",
        "expand_copy",
        "broadcast_to",
        "full",
        "zeros",
        "ones",
        "new_full",
        "new_zeros",
        "new_ones",
    ]
)


def misstated(operator: str, given: object, dims: Sequence[str]) -> str | None:
    """Return what is wrong with the sizes that an operator is given; None: nothing is.

    Args:
        operator: without its overload.
        given: the argument; -1 stands for any size, and what is no number is not compared.
        dims: the sizes of the result, as the file states them.
    """
    if operator not in _SIZED or not isinstance(given, list):
        return None
    numbers = [str(one) if type(one) is int and one != -1 else None for one in given]
    fits = len(numbers) == len(dims) and all(
        one is None or one == dim or not dim.isdigit()
        for one, dim in zip(numbers, dims, strict=True)
    )
    if fits:
        return None
    shown = ", ".join("-1" if type(one) is int and one == -1 else str(one)[:40] for one in given)
    return f"it gives the sizes [{shown}], and its result is stated as [{', '.join(dims)}]"


def wrong_shape(model: Imported) -> str | None:
    """Return what is wrong with the first value whose shape is not the one stated.

    Args:
        model: whose symbols have the sizes that they had when it was exported.

    Returns:
        None where all fit, or where shapes do not fit each other, which is found where they meet.
    """
    sizes = {name: span.typical for name, span in model.symbols.items()}
    try:
        nodes = model.program.nodes(sizes, reference)
    except LastbitError:
        return None
    for name, node in nodes.items():
        dims = model.shapes.get(name)
        if dims is None:
            continue
        stated = [parse_expression(dim) for dim in dims]
        if any(not set(dim.symbols) <= sizes.keys() for dim in stated):
            continue
        found = tuple(int(dim.evaluate(sizes)) for dim in stated)
        if found != tuple(node.shape):
            origin = model.origins.get(name)
            shown = name if origin is None else origin.original
            return f"`{shown}` is stated as {list(found)}, and computed as {list(node.shape)}"
    return None
