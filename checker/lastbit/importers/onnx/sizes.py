"""Operators on lists of sizes: what exported models do with `Shape` to build new shapes.

A list whose elements depend on sizes only is kept as expressions of symbols, and no statement is
written for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from lastbit.errors import LastbitError
from lastbit.importers.expressions import plain, times
from lastbit.importers.onnx.call import Call, NotModelledError, Operand

MOST_SIZES = 256  # of one list

_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "//", "Mod": "%"}


def shape(call: Call) -> None:
    """Give the sizes of a value, or some of them."""
    dims = call.x().dims
    part = dims[slice(call.attribute("start", 0), call.attribute("end"))]
    call.give_sizes(part, (str(len(part)),))


def count(call: Call) -> None:
    """Give the number of elements; of a list of sizes, its length."""
    found = call.operand(0)
    if found is not None and found.sizes is not None:
        call.give_sizes((str(len(found.sizes)),), ())
        return
    call.give_sizes((times(call.x().dims),), ())


def known(call: Call) -> list[Operand] | None:
    """Return the operands if all are lists of sizes, else None."""
    found = []
    for number in range(len(call.node.reads)):
        operand = call.operand(number)
        if operand is None or operand.sizes is None:
            return None
        found.append(operand)
    return found or None


def rank(operand: Operand) -> int:
    """Return 0 for one size and 1 for a list."""
    return 1 if operand.value is None else operand.value.rank


def arithmetic(call: Call) -> bool:
    """Do arithmetic on lists of sizes; return whether that is what the node does."""
    operands = known(call)
    sign = _SIGNS.get(call.node.op)
    if operands is None or sign is None or len(operands) != 2:
        return False
    left, right = (operand.sizes or () for operand in operands)
    length = max(len(left), len(right))
    if not {len(left), len(right)} <= {1, length}:
        raise NotModelledError("lists of sizes have different lengths")
    pairs = ((left[i % len(left)], right[i % len(right)]) for i in range(length))
    made = [joined(a, sign, b) for a, b in pairs]
    lists = any(rank(operand) for operand in operands)
    call.give_sizes(made, (str(length),) if lists else ())
    return True


def joined(a: str, sign: str, b: str) -> str:
    """Return arithmetic of two sizes; what is the same in all cases is worked out.

    Raises:
        NotModelledError: it has no value.
    """
    if sign == "//" and a == b:
        return "1"
    if sign == "//" and b == "1":
        return a
    if sign == "*" and "1" in (a, b):
        return b if a == "1" else a
    if sign == "+" and "0" in (a, b):
        return b if a == "0" else a
    try:
        return plain(f"({a}) {sign} ({b})")
    except LastbitError as error:
        raise NotModelledError(str(error)) from None


def gather(call: Call) -> bool:
    """Pick sizes from a list; return whether that is what the node does."""
    operands = known(call)
    if operands is None or not rank(operands[0]):
        return False
    indices = call.integers(1)
    listed = operands[0].sizes or ()
    picked = [listed[index] for index in indices]
    call.give_sizes(picked, (str(len(picked)),) if rank(operands[1]) else ())
    return True


def equal(call: Call) -> bool:
    """Compare lists of sizes; return whether that is what the node does, and all can be told."""
    operands = known(call)
    if operands is None or len(operands) != 2 or not any(map(rank, operands)):
        return False
    left, right = (operand.sizes or () for operand in operands)
    length = max(len(left), len(right))
    if not {len(left), len(right)} <= {1, length}:
        raise NotModelledError("lists of sizes have different lengths")
    told = [_equal(left[i % len(left)], right[i % len(right)]) for i in range(length)]
    if any(one is None for one in told):
        return False
    call.give_numbers([Fraction(bool(one)) for one in told], (str(length),), "bool")
    return True


def _equal(a: str, b: str) -> bool | None:
    """Return whether two sizes are equal, or None: a symbol stands for a size of at least 1."""
    if a == b:
        return True
    numbers = [int(text) for text in (a, b) if text.lstrip("-").isdigit()]
    if len(numbers) == 2 or (len(numbers) == 1 and numbers[0] < 1):
        return False
    return None


def chosen(call: Call) -> bool:
    """Choose between lists of sizes; return whether that is what the node does."""
    which, *lists = (call.operand(i) for i in range(3))
    if which is None or which.numbers is None or any(one is None for one in lists):
        return False
    numbers = which.numbers
    given = [one.sizes for one in lists if one is not None and one.sizes is not None]
    if len(given) != 2 or len(numbers) < 2 or any(len(s) not in (1, len(numbers)) for s in given):
        return False
    pairs = [[s[i % len(s)] for s in given] for i in range(len(numbers))]
    made = [pair[0] if number else pair[1] for number, pair in zip(numbers, pairs, strict=True)]
    call.give_sizes(made, (str(len(made)),))
    return True


def concat(call: Call) -> bool:
    """Join lists of sizes; return whether that is what the node does."""
    operands = known(call)
    if operands is None or not all(rank(operand) for operand in operands):
        return False
    made = [size for operand in operands for size in operand.sizes or ()]
    if len(made) > MOST_SIZES:
        return False
    call.give_sizes(made, (str(len(made)),))
    return True


def cut(call: Call) -> bool:
    """Cut a list of sizes; return whether that is what the node does."""
    operands = known(call)
    if operands is None or not rank(operands[0]) or len(call.node.reads) < 3:
        return False
    (start,), (stop,) = call.integers(1), call.integers(2)
    step = call.integers(4)[0] if call.has(4) else 1
    made = (operands[0].sizes or ())[slice(start, stop, step)]
    call.give_sizes(made, (str(len(made)),))
    return True


def moved(call: Call, wanted: int | None) -> bool:
    """Turn one size into a list of it, or back; return whether that is what the node does.

    Args:
        call: the node.
        wanted: the number of axes of the result; None: what the operand has.
    """
    operand = call.operand(0)
    if operand is None or operand.sizes is None:
        return False
    if wanted == 0 and len(operand.sizes) != 1:
        return False
    if (wanted or 0) > 1 or (call.node.op == "Unsqueeze" and rank(operand)):
        return False  # a table is no list
    axes = rank(operand) if wanted is None else wanted
    call.give_sizes(operand.sizes, (str(len(operand.sizes)),) if axes else ())
    return True


def negated(call: Call) -> bool:
    """Negate sizes; return whether that is what the node does."""
    operands = known(call)
    if operands is None:
        return False
    made = [joined("0", "-", size) for size in operands[0].sizes or ()]
    call.give_sizes(made, (str(len(made)),) if rank(operands[0]) else ())
    return True


def folded(call: Call, join: Callable[[Sequence[str]], str]) -> bool:
    """Reduce a list of sizes to one; return whether that is what the node does."""
    operand = call.operand(0)
    if operand is None or operand.sizes is None or not rank(operand):
        return False
    keep = call.attribute("keepdims", 1)
    call.give_sizes((join(operand.sizes),), ("1",) if keep else ())
    return True
