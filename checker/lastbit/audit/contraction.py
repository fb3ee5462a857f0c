"""What an operator adds up: sums, means and products as one form, read off its arguments.

    out[z, m, n] = (sum over k of left[z, m, k] * right[z, k, n]) * alpha + beta * addend[z, m, n]

A sum has no right operand and one column; a running sum has one for each term. Operands keep the
shapes and strides in which the operator was given them: a library chooses its kernel by these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeAlias

Tensor: TypeAlias = Any  # of torch, which is imported when it is needed
Arguments: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Operand:
    """An argument read as a batch of matrices.

    Attributes:
        name: of the argument.
        order: its axes in the order in which they are read.
        shape: of the batch of matrices, `[Z, rows, columns]`.
    """

    name: str
    order: tuple[int, ...]
    shape: tuple[int, int, int]

    def read(self, tensor: Tensor) -> Tensor:
        """Return the batch of matrices, which may share memory with the argument or not."""
        return tensor.permute(self.order).reshape(self.shape)

    def write(self, tensor: Tensor, matrices: Tensor) -> None:
        """Write a batch of matrices into an argument."""
        moved = tensor.permute(self.order)
        moved.copy_(matrices.reshape(moved.shape))


@dataclass(frozen=True, slots=True)
class Contraction:
    """What one call of an operator adds up.

    Attributes:
        left: the operand with a row for each row of the output.
        right: the other operand; None for a sum.
        size: of the output, `[Z, M, N]`.
        terms: how many are added for each output.
        alpha: what each sum is multiplied by.
        addend: the name of an argument that is added, broadcast to the output; or None.
        beta: what the addend is multiplied by.
        scales: names of arguments, tensors of one element, by which each sum is multiplied too.
        running: whether the output has a column for each term, which adds those up to it.
    """

    left: Operand
    right: Operand | None
    size: tuple[int, int, int]
    terms: int
    alpha: Fraction = Fraction(1)
    addend: str | None = None
    beta: Fraction = Fraction(1)
    scales: tuple[str, ...] = ()
    running: bool = False

    def terms_at(self, place: tuple[int, int, int]) -> int:
        """Return how many terms are added for an output."""
        return place[2] + 1 if self.running else self.terms

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all arguments that hold values."""
        right = () if self.right is None else (self.right.name,)
        addend = () if self.addend is None else (self.addend,)
        return (self.left.name, *right, *addend, *self.scales)

    def place(self, flat: int) -> tuple[int, int, int]:
        """Return z, m and n of an element of the result, counted in the order of its axes."""
        rest, n = divmod(flat, self.size[2])
        z, m = divmod(rest, self.size[1])
        return z, m, n

    def output(self, result: Tensor) -> Tensor:
        """Return a result as a batch of matrices."""
        return result.reshape(self.size)

    def addend_of(self, arguments: Arguments) -> Tensor | None:
        """Return the addend, broadcast to the output, or None."""
        if self.addend is None:
            return None
        addend, shape = arguments[self.addend], self.size
        if self.right is not None and len(self.right.order) == 1:  # one column: [M], not [N]
            return addend.expand(shape[1]).reshape(shape)
        return addend.expand(shape)


def contraction_of(name: str, arguments: Arguments) -> Contraction | None:
    """Return what an operator adds up, or None where it is no sum, mean or product.

    Args:
        name: of the operator and overload, such as `aten.mm.default`.
        arguments: of one call, by name.
    """
    read = _READERS.get(name)
    return None if read is None else read(arguments)


def _matrices(name: str, tensor: Tensor) -> Operand:
    """Return a matrix, or a batch of matrices, as it is."""
    shape = tuple(tensor.shape)
    return Operand(name, tuple(range(tensor.ndim)), (math.prod(shape[:-2]), *shape[-2:]))


def _product(left: str, right: str, alpha: str | None = None, addend: str | None = None) -> Reader:
    def read(arguments: Arguments) -> Contraction | None:
        a, b = _matrices(left, arguments[left]), _matrices(right, arguments[right])
        z, m, k = a.shape
        factor = Fraction(1) if alpha is None else _number(arguments.get(alpha, 1))
        beta = _number(arguments.get("beta", 1))
        if factor is None or beta is None:
            return None
        size = (z, m, b.shape[2])
        return Contraction(a, b, size, k, factor, addend if beta else None, beta)

    return read


def _vectors(left: str, right: str, addend: str | None = None) -> Reader:
    """Read products of a matrix or vector with a vector."""

    def read(arguments: Arguments) -> Contraction | None:
        a, b = arguments[left], arguments[right]
        k = b.shape[0]
        alpha, beta = (_number(arguments.get(name, 1)) for name in ("alpha", "beta"))
        if alpha is None or beta is None:
            return None
        rows = a.shape[0] if a.ndim == 2 else 1
        first = Operand(left, tuple(range(a.ndim)), (1, rows, k))
        second = Operand(right, (0,), (1, k, 1))
        named = addend if beta else None
        return Contraction(first, second, (1, rows, 1), k, alpha, named, beta)

    return read


def _linear(arguments: Arguments) -> Contraction:
    x, w = arguments["input"], arguments["weight"]
    k, rows = x.shape[-1], math.prod(x.shape[:-1])
    columns = w.shape[0] if w.ndim == 2 else 1
    left = Operand("input", tuple(range(x.ndim)), (1, rows, k))
    right = Operand("weight", (1, 0) if w.ndim == 2 else (0,), (1, k, columns))
    addend = "bias" if arguments.get("bias") is not None else None
    return Contraction(left, right, (1, rows, columns), k, addend=addend)


def _matmul(arguments: Arguments) -> Contraction | None:
    a, b = arguments["self"], arguments["other"]
    if a.ndim >= 2 and b.ndim == 2:
        k, rows = a.shape[-1], math.prod(a.shape[:-1])
        left = Operand("self", tuple(range(a.ndim)), (1, rows, k))
        return Contraction(left, _matrices("other", b), (1, rows, b.shape[1]), k)
    if a.ndim == b.ndim >= 3 and a.shape[:-2] == b.shape[:-2]:
        return _product("self", "other")(arguments)
    if a.ndim <= 2 and b.ndim == 1:
        return _vectors("self", "other")(arguments)
    return None


def _scaled(arguments: Arguments) -> Contraction | None:
    found = _product("self", "mat2")(arguments)
    scales = [name for name in ("scale_a", "scale_b") if arguments.get(name) is not None]
    if found is None or any(arguments[name].numel() != 1 for name in scales):
        return None
    if arguments.get("scale_result") is not None:
        return None
    addend = "bias" if arguments.get("bias") is not None else None
    return Contraction(
        found.left, found.right, found.size, found.terms, addend=addend, scales=tuple(scales)
    )


def _sum(arguments: Arguments) -> Contraction | None:
    return _reduction(arguments)


def _mean(arguments: Arguments) -> Contraction | None:
    found = _reduction(arguments)
    if found is None or not found.terms:
        return None
    return Contraction(found.left, None, found.size, found.terms, Fraction(1, found.terms))


def _reduction(arguments: Arguments) -> Contraction | None:
    x = arguments["self"]
    if not x.is_floating_point() or not _is_held(x.dtype, arguments.get("dtype")):
        return None  # it rounds first
    dims = arguments.get("dim")
    if isinstance(dims, int):
        dims = [dims]
    reduced = sorted(d % x.ndim for d in dims) if dims else list(range(x.ndim))
    kept = [d for d in range(x.ndim) if d not in reduced]
    rows, terms = _count(x, kept), _count(x, reduced)
    return Contraction(
        Operand("self", (*kept, *reduced), (1, rows, terms)), None, (1, rows, 1), terms
    )


def _is_held(given: Any, wanted: Any) -> bool:
    """Return whether a type of torch holds all values of another one; null: the same type."""
    if wanted is None or wanted == given:
        return True
    import torch

    if not wanted.is_floating_point:
        return False
    return given.is_floating_point and torch.finfo(wanted).bits > torch.finfo(given).bits


def _running(arguments: Arguments) -> Contraction | None:
    x = arguments["self"]
    if not x.ndim or arguments["dim"] % x.ndim != x.ndim - 1:
        return None
    if not x.is_floating_point() or not _is_held(x.dtype, arguments.get("dtype")):
        return None
    terms, rows = x.shape[-1], math.prod(x.shape[:-1])
    left = Operand("self", tuple(range(x.ndim)), (1, rows, terms))
    return Contraction(left, None, (1, rows, terms), terms, running=True)


def _count(x: Tensor, dims: Sequence[int]) -> int:
    return math.prod(x.shape[d] for d in dims)


def _number(value: Any) -> Fraction | None:
    """Return a finite factor, exactly."""
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return Fraction(value)
    return None


Reader: TypeAlias = Callable[[Arguments], Contraction | None]

_READERS: Final[Mapping[str, Reader]] = {
    "aten.mm.default": _product("self", "mat2"),
    "aten.bmm.default": _product("self", "mat2"),
    "aten.addmm.default": _product("mat1", "mat2", "alpha", "self"),
    "aten.baddbmm.default": _product("batch1", "batch2", "alpha", "self"),
    "aten.linear.default": _linear,
    "aten.matmul.default": _matmul,
    "aten.dot.default": _vectors("self", "tensor"),
    "aten.vdot.default": _vectors("self", "other"),
    "aten.mv.default": _vectors("self", "vec"),
    "aten.addmv.default": _vectors("mat", "vec", "self"),
    "aten._scaled_mm.default": _scaled,
    "aten.sum.default": _sum,
    "aten.sum.dim_IntList": _sum,
    "aten.mean.default": _mean,
    "aten.mean.dim": _mean,
    "aten.cumsum.default": _running,
}
