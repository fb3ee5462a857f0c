"""The words of the text form as names of the package, for functions that are traced.

`lastbit.exp` is the operator, `lastbit.bf16("M", 4096)` an input of that format, `lastbit.pi` the
real number. None of them is listed here: they come from the tables of operators and formats.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lastbit.formats import FORMATS
from lastbit.ops import NAMED_REALS, OPERATORS

_FORMATS = tuple(name for fmt in FORMATS.values() for name in (fmt.short, fmt.name))
WORDS = tuple(dict.fromkeys((*OPERATORS, *_FORMATS, *NAMED_REALS)))


def word(name: str) -> Any:
    """Return what a word of the text form is in Python; None where there is no such word."""
    if name not in WORDS:
        return None
    if name in _FORMATS:
        return import_module("lastbit.tracing.spec").spec_of(name)
    tracer = import_module("lastbit.tracing.tensor")
    return tracer.constant_named(name) if name in NAMED_REALS else tracer.operator_named(name)
