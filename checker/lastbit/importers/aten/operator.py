"""What a row of the table is: an operator of torch, and what it states of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from lastbit.importers.expressions import literal
from lastbit.importers.imported import Size, Value, is_float

Build: TypeAlias = Callable[..., object]
Scalar: TypeAlias = int | float | Size


class NotCoveredError(Exception):
    """An operator is used in a way that the table does not hold; it stays opaque.

    Attributes:
        reason: in words.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator.

    Attributes:
        build: states the results of a step, from the arguments by torch's names; the first one,
            `self` or `input` there, is `x` here.
        contract: where torch rounds, in words.
    """

    build: Build
    contract: str


Table: TypeAlias = Mapping[str, Operator]

# Widths of floating-point types: which one a mixed operation is computed in.
_WIDE = {"f64": 3, "f32": 2}


def inner(dtype: str) -> str:
    """Return the format that torch computes in for a type: `f64` for itself, else `f32`."""
    return dtype if dtype == "f64" or not is_float(dtype) else "f32"


def common(*xs: object) -> str:
    """Return the type that torch brings the arguments of a pointwise operator to.

    A type with axes goes before one without, of one kind; Python numbers weigh least.
    Source: the tensor attributes page of torch's documentation, type promotion.
    """
    values = [x for x in xs if isinstance(x, Value)]
    for kind in (_float_kind, _integer_kind):
        of_kind = [x for x in values if kind(x.dtype)]
        number = any(isinstance(x, float) for x in xs) and kind is _float_kind
        if of_kind:
            ranked = [x for x in of_kind if x.rank] or of_kind
            dtypes = list(dict.fromkeys(x.dtype for x in ranked))
            return dtypes[0] if len(dtypes) == 1 else _joined(dtypes)
        if number:
            return "f32"
    if any(isinstance(x, int) and not isinstance(x, bool) for x in xs):
        return "i64"
    return "bool"


def _joined(dtypes: list[str]) -> str:
    if is_float(dtypes[0]):
        return max(("f32", *dtypes), key=lambda dtype: _WIDE.get(dtype, 0))
    return max(dtypes, key=lambda dtype: int(dtype[1:]))


def _float_kind(dtype: str) -> bool:
    return is_float(dtype)


def _integer_kind(dtype: str) -> bool:
    return not is_float(dtype) and dtype != "bool"


def number(value: object) -> int | float:
    """Return an argument that is a number.

    Raises:
        NotCoveredError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotCoveredError(f"{value!r} is no number")
    return value


def operand(x: object, dtype: str, scalar: str | None = None) -> str:
    """Return an argument as it takes part in arithmetic of a type.

    Args:
        x: a value, or a number of the file.
        dtype: the type that arguments are brought to.
        scalar: the format that a number is rounded to; None: the one that torch computes in.
    """
    if isinstance(x, Value):
        narrow = is_float(dtype) and x.dtype not in (dtype, "bool") and not _holds(dtype, x.dtype)
        return f"round({by_float(x, dtype)}, {dtype})" if narrow else x.name
    if isinstance(x, Size):
        return f"size({x})"
    if isinstance(x, bool):
        return str(int(x))
    if isinstance(x, int | float):
        wide = literal(x, inner(dtype))
        same = scalar is None or literal(x, scalar) == wide
        return wide if same else f"round({wide}, {scalar})"
    raise NotCoveredError(f"an argument of type {type(x).__name__} takes part")


def by_float(x: Value, to: str) -> str:
    """Return a value as a cast to a narrow format finds it: torch goes by float32.

    So a cast of float64 or of a wide integer rounds twice; found by running torch 2.13.
    """
    wide = x.dtype in ("f64", "i32", "i64") and is_float(to) and to not in ("f32", "f64")
    return f"round({x.name}, f32)" if wide else x.name


def _holds(wide: str, narrow: str) -> bool:
    """Return whether every value of one format is a value of another."""
    if wide == "f64":
        return narrow != "i64"
    return wide == "f32" and narrow in ("bf16", "f16", "e4m3fn", "e5m2", "u8", "i8")


def checked(value: Any, kind: type | tuple[type, ...], what: str) -> Any:
    """Return an argument if it is of the kind that the table reads.

    Raises:
        NotCoveredError: it is not.
    """
    if not isinstance(value, kind):
        raise NotCoveredError(f"{what} is {value!r}")
    return value
