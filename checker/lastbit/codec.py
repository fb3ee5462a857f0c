"""Turn frozen dataclasses into JSON values and back, driven by their field types alone.

A field type is a scalar, another dataclass, `X | None`, `tuple[X, ...]`, `tuple[X, Y]` or
`Mapping[str, X]`. Numbers that JSON cannot hold are the texts `inf`, `-inf` and `nan`.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

_T = TypeVar("_T")

_NON_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class CodecError(ValueError):
    """A JSON value that does not fit the field it is meant for.

    Attributes:
        path: where in the document, as `steps[0].change`; empty for the document itself.
        message: what is wrong there.
    """

    def __init__(self, path: str, message: str) -> None:
        self.path, self.message = path, message
        super().__init__(f"`{path or 'the document'}` {message}")


def _mismatch(path: str, wanted: str, given: object) -> CodecError:
    shown = repr(given)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return CodecError(path, f"must be {wanted}, not {shown}")


def to_plain(value: Any) -> Any:
    """Return the JSON value of a dataclass, container or scalar; every field is written."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, str):
        return str(value)
    return value


def from_plain(kind: type[_T], value: Any, path: str = "") -> _T:
    """Return the dataclass that a JSON value stands for; unknown keys are ignored.

    Raises:
        CodecError: a field is missing or holds another kind of value, or the class refuses it.
    """
    result: _T = _decode(kind, value, path)
    return result


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode(kind: Any, value: Any, path: str) -> Any:
    if is_dataclass(kind) and isinstance(kind, type):
        return _decode_dataclass(kind, value, path)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return _decode_union(arguments, value, path)
    if origin is tuple:
        return _decode_tuple(arguments, value, path)
    if origin is Mapping:
        if not isinstance(value, dict):
            raise _mismatch(path, "an object", value)
        item = arguments[1]
        return {key: _decode(item, entry, f"{path}.{key}") for key, entry in value.items()}
    return _decode_scalar(kind, value, path)


def _decode_dataclass(kind: type, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise _mismatch(path, "an object", value)
    known = {}
    for field in fields(kind):
        where = f"{path}.{field.name}" if path else field.name
        if field.name in value:
            known[field.name] = _decode(_hints(kind)[field.name], value[field.name], where)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise CodecError(where, "must be given")
    try:
        return kind(**known)
    except CodecError:
        raise
    except ValueError as error:
        raise CodecError(path, f"cannot be used: {error}") from error


def _decode_union(arguments: tuple[Any, ...], value: Any, path: str) -> Any:
    if value is None and type(None) in arguments:
        return None
    choices = [argument for argument in arguments if argument is not type(None)]
    for choice in choices[:-1]:
        try:
            return _decode(choice, value, path)
        except CodecError:
            continue
    return _decode(choices[-1], value, path)


def _decode_tuple(arguments: tuple[Any, ...], value: Any, path: str) -> Any:
    if not isinstance(value, list):
        raise _mismatch(path, "a list", value)
    if arguments[-1] is Ellipsis:
        return tuple(_decode(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if len(value) != len(arguments):
        raise _mismatch(path, f"a list of {len(arguments)}", value)
    pairs = zip(arguments, value, strict=True)
    return tuple(_decode(kind, item, f"{path}[{i}]") for i, (kind, item) in enumerate(pairs))


def _decode_scalar(kind: Any, value: Any, path: str) -> Any:
    if kind is float:
        if isinstance(value, str) and value in _NON_FINITE:
            return _NON_FINITE[value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        raise _mismatch(path, "a number", value)
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind in (str, bool) and isinstance(value, kind):
        return value
    wanted = {int: "an integer", str: "a text", bool: "true or false"}
    raise _mismatch(path, wanted.get(kind, str(kind)), value)
