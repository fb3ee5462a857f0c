"""Results of two models that belong together have one type and one shape."""

from __future__ import annotations

from collections.abc import Iterator

from lastbit.errors import InputError, Place, Problem
from lastbit.expression import parse_expression
from lastbit.importers.imported import Imported


def check_results(before: Imported, after: Imported) -> None:
    """Refuse results of other types or shapes: no bits of them can be the same.

    Raises:
        InputError: with every such result.
    """
    problems, place = [], Place(after.file)
    for ours, theirs in _paired_results(before, after):
        types = before.types.get(ours), after.types.get(theirs)
        if types[0] != types[1] and None not in types:
            text = f"{_result(after, theirs)} is {types[1]}, and {types[0]} in {before.file}"
            problems.append(Problem(text, "Return the same types, or cast both to one.", place))
            continue
        shapes = before.shapes.get(ours), after.shapes.get(theirs)
        if not _same_shape(before, after, *shapes):
            one, other = (f"[{', '.join(shape or ())}]" for shape in shapes)
            text = f"{_result(after, theirs)} has the shape {other}, and {one} in {before.file}"
            problems.append(Problem(text, "Return the same shapes, or reshape one.", place))
    if problems:
        raise InputError(problems)


def _paired_results(before: Imported, after: Imported) -> Iterator[tuple[str, str]]:
    """Yield the results that belong together: by their names in the files, or by order."""
    if not (before.by_name and after.by_name):
        yield from zip(before.results, after.results, strict=False)
        return
    given = {_original(after, name): name for name in after.results}
    for name in before.results:
        other = given.get(_original(before, name))
        if other is not None:
            yield name, other


def _original(model: Imported, name: str) -> str:
    origin = model.origins.get(name)
    return name if origin is None else origin.original


def _result(model: Imported, name: str) -> str:
    return f"the result `{_original(model, name)}`"


def _same_shape(
    before: Imported,
    after: Imported,
    ours: tuple[str, ...] | None,
    theirs: tuple[str, ...] | None,
) -> bool:
    """Return whether two shapes are one at several sizes of their symbols."""
    if ours is None or theirs is None or ours == theirs:
        return True
    if len(ours) != len(theirs):
        return False
    spans = {name: span for name, span in before.symbols.items() if name in after.symbols}
    for pick in ("low", "typical", "high"):
        sizes = {name: int(getattr(span, pick)) for name, span in spans.items()}
        for a, b in zip(ours, theirs, strict=True):
            one, other = parse_expression(a), parse_expression(b)
            if not {*one.symbols, *other.symbols} <= sizes.keys():
                continue
            if one.evaluate(sizes) != other.evaluate(sizes):
                return False
    return True
