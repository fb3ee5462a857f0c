"""What to write in place of the words of other libraries."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from lastbit.errors import did_you_mean
from lastbit.ops import OPERATORS

# numpy's names for the operators by which a numpy scalar meets a Tensor.
UFUNCS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "power": operator.pow,
}

OTHER_WORDS = {
    "float": 'Write x.to("f32").',
    "half": 'Write x.to("f16").',
    "bfloat16": 'Write x.to("bf16").',
    "astype": 'Write x.to("bf16").',
    "type": 'Write x.to("bf16").',
    "view": 'Write x.reshape("M", 8, -1).',
    "size": "Write x.shape[-1].",
    "permute": "Write x.transpose(1, 0).",
    "t": "Write x.T.",
    "where": "Write lastbit.select(condition, a, b).",
    "concatenate": "Write lastbit.concat(a, b, axis=0).",
    "cat": "Write lastbit.concat(a, b, axis=0).",
    "dot": "Write lastbit.matmul(a, b).",
    "mm": "Write lastbit.matmul(a, b).",
    "einsum": "Write lastbit.matmul(a, b), or (a * b).sum(axis=-1).",
    "unsqueeze": "Write x.reshape(...) with the size 1.",
    "expand": 'Write lastbit.broadcast(x, "M", 8).',
    "expand_dims": "Write x.reshape(...) with the size 1.",
    "item": "A Tensor holds no number while a function is traced.",
}


def instead_of(name: str) -> str:
    """Return what to write in place of a function of another library."""
    if name in OTHER_WORDS:
        return OTHER_WORDS[name]
    if name in OPERATORS:
        return f"Write lastbit.{name}(...)."
    near = did_you_mean(name, OPERATORS)
    if near.startswith("Did"):
        return f"Write lastbit.{near.split(chr(39))[1]}(...)."
    return "Write it with the operators of lastbit; the README lists them."


def instead_of_attribute(name: str) -> str:
    """Return what to write in place of an attribute that a Tensor does not have."""
    return OTHER_WORDS.get(name) or did_you_mean(name, (*OPERATORS, "to", "shape", "named"))
