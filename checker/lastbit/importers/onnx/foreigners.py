"""Say why a value that a region reads, and only one of two models has, is none of the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lastbit.importers.imported import Imported
from lastbit.importers.onnx.contents import EXTERNAL
from lastbit.statement import Statement

_WHICH = ("first", "second")


def operator_of(models: Sequence[Imported], name: str) -> str:
    """Return the opaque operator that gives a value; empty where none does."""
    opaque = (one for model in models for one in model.opaque if name in one.gives)
    return next((one.operator for one in opaque), "")


def reason(models: Sequence[Imported], names: Sequence[str]) -> tuple[str, str]:
    """Return why values of one model are not values of the other.

    Args:
        models: both, aligned.
        names: of the values, at least one; the one is told that says most.

    Returns:
        the opaque operator that it comes from, or an empty text; and a sentence.
    """
    name = next((name for name in names if _worked_out(models, name)), names[0])
    operator = operator_of(models, name)
    return operator, _sentence(models, name, operator)


def _statements(model: Imported) -> Mapping[str, Statement]:
    return {st.name: st for st in model.program.statements}


def _worked_out(models: Sequence[Imported], name: str) -> bool:
    """Return whether a constant of the second model is a value that the first computes."""
    origin = models[1].origins.get(name) if name in _statements(models[1]) else None
    if origin is None:
        return False
    first = _statements(models[0])
    same = (n for n, one in models[0].origins.items() if one.original == origin.original)
    return any(other in first and first[other].expr is not None for other in same)


def _sentence(models: Sequence[Imported], name: str, operator: str) -> str:
    tables = [_statements(model) for model in models]
    side = next(i for i, table in enumerate(tables) if name in table)
    if operator:
        return (
            f"`{name}`, in the {_WHICH[side]} model, is given by {operator}, which is known by its "
            "name only; the other model has none with the same attributes and operands"
        )
    origin = models[side].origins.get(name)
    original = origin.original if origin is not None else name
    others = {o.original: n for n, o in models[1 - side].origins.items()}
    other = tables[1 - side].get(others.get(original, ""))
    held = models[side].contents.get(name)
    theirs = None if other is None else models[1 - side].contents.get(other.name)
    if other is not None and other.expr is not None:
        here, there = _WHICH[side], _WHICH[1 - side]
        return f"`{original}` is computed in the {there} model, and a constant of the {here}"
    if other is None or (held is None and theirs is None):
        return f"`{original}` is given in one model only"
    if held is None or theirs is None:
        return f"`{original}` is a constant in one model and an input in the other"
    if EXTERNAL in held() or EXTERNAL in theirs():
        return f"`{original}` may hold other numbers: it lies in another file, not opened here"
    return f"`{original}` holds other numbers in the two models"
