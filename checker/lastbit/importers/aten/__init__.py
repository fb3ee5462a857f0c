"""torch's operators (aten), each with torch's rounding contract.

A row says in the text form what an operator computes and where it rounds; one that has none is
opaque. Add a row to the table of its family; nothing else is edited.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from lastbit.importers.aten.blends import BLENDS
from lastbit.importers.aten.made import MADE
from lastbit.importers.aten.norms import NORMS
from lastbit.importers.aten.operator import NotCoveredError, Operator
from lastbit.importers.aten.pointwise import POINTWISE
from lastbit.importers.aten.pooling import POOLING
from lastbit.importers.aten.products import PRODUCTS
from lastbit.importers.aten.sums import SUMS
from lastbit.importers.aten.views import VIEWS
from lastbit.importers.imported import NO_ARITHMETIC, Value
from lastbit.importers.writer import Step

FAMILIES: Mapping[str, Mapping[str, Operator]] = {
    "pointwise": {**POINTWISE, **BLENDS},
    "sums": SUMS,
    "norms": NORMS,
    "products": PRODUCTS,
    "pooling": POOLING,
    "views": VIEWS,
    "made": MADE,
}

# They compute nothing that a result depends on.
IGNORED = (
    "aten._assert_tensor_metadata",
    "aten._assert_scalar",
    "aten._assert_async",
    "aten.sym_constrain_range",
    "aten.sym_constrain_range_for_size",
)
# Arguments that say where and how a result is stored.
STORAGE = frozenset(
    {"device", "pin_memory", "layout", "memory_format", "non_blocking", "requires_grad", "inplace"}
)
# torch's names of arguments that have others here.
_NAMES = {"self": "x", "input": "x", "step": "step_"}


def base_name(target: str) -> str:
    """Return the name of an operator without its library prefix and its overload.

    `torch.ops.aten.add.Tensor` is `aten.add`.
    """
    parts = target.removeprefix("torch.ops.").split(".")
    return ".".join(parts[:2])


@lru_cache(maxsize=1)
def _rows() -> dict[str, Operator]:
    return {name: row for family in FAMILIES.values() for name, row in family.items()}


def find(target: str) -> Operator | None:
    """Return the row of an operator; None where it is opaque."""
    return _rows().get(base_name(target))


def apply(
    step: Step,
    target: str,
    args: Sequence[object],
    keywords: Mapping[str, object],
    call: str | None = None,
    more: Sequence[Value] = (),
) -> None:
    """State what a node computes; an operator that is not covered is opaque.

    Args:
        step: the node.
        target: the operator, as torch names it.
        args: positional arguments: values, numbers, sizes, lists of these.
        keywords: arguments by torch's names.
        call: everything that tells an opaque call from another, but the values that it reads;
            None: what the arguments say.
        more: values that the node depends on beside its arguments; with any, it is opaque.
    """
    row = find(target)
    given = {_own(name): value for name, value in keywords.items() if name not in STORAGE}
    reads = [*_values([*args, *keywords.values()]), *more]
    dtypes = {x.dtype for x in reads} | {out.dtype for out in step.outs}
    outside = dtypes & NO_ARITHMETIC
    if row is not None and not outside and not more:
        before = step.mark()
        try:
            _signature(row).bind(step, *args, **given)
            row.build(step, *args, **given)
        except (NotCoveredError, TypeError) as error:
            step.back(before)
            reason = getattr(error, "reason", "its arguments are others than the table reads")
            step.assume(f"{base_name(target)} is opaque here: {reason}")
        else:
            return
    if call is None:
        call = f"{target.removeprefix('torch.ops.')}({parameters(args, keywords)})"
    step.opaque(reads, call)


def _own(name: str) -> str:
    return _NAMES.get(name, name)


@lru_cache(maxsize=512)
def _signature(row: Operator) -> inspect.Signature:
    return inspect.signature(row.build)


def _values(given: object) -> Iterator[Value]:
    if isinstance(given, Value):
        yield given
    elif isinstance(given, list | tuple):
        for one in given:
            yield from _values(one)


def parameters(args: Sequence[object], keywords: Mapping[str, object]) -> str:
    """Return the arguments that are no values as a text that tells two calls apart."""
    parts = [_shown(arg) for arg in args]
    parts += [f"{name}={_shown(value)}" for name, value in keywords.items()]
    return ", ".join(parts)


def _shown(value: object) -> str:
    if isinstance(value, Value):
        return "_"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return str(value) if not isinstance(value, str) else repr(str(value))
