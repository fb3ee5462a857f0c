"""Put a model beside the one that ONNX Runtime made of it: values match by their names.

ONNX Runtime keeps the names of values. One that it keeps in float32 was imported under its own
name with that format (`renames`), so that the dropped rounding shows at the value; one that is gone
was absorbed by a fused operator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lastbit.errors import InputError, Place, Problem
from lastbit.importers.imported import NOWHERE, Imported, Opaque
from lastbit.statement import Statement

_WORD = re.compile(r"(?<!')\b[A-Za-z_]\w*\b(?!\(|=[^=])")
_PART = "__"
NARROW = ("f16", "bf16")


@dataclass(frozen=True, slots=True)
class Dropped:
    """A value that the second model does not round as the first one does.

    Attributes:
        name: in both programs.
        original: in the file.
        before: the format that the first model rounds it to.
        after: the format that the second keeps it in; None: it has no such value.
        how: what became of it, in words.
        place: where the first model computes it.
    """

    name: str
    original: str
    before: str
    after: str | None
    how: str
    place: Place = NOWHERE

    @property
    def loses(self) -> bool:
        """Return whether a rounding is gone: fused operators compute in f32."""
        return self.after is not None or self.before in NARROW

    def __str__(self) -> str:
        what = f"no longer rounded to {self.before}" if self.loses else "no value any more"
        return f"`{self.original}` is {what}: {self.how}"


def aligned(before: Imported, after: Imported) -> Imported:
    """Return the second model with opaque results of its own where its operators differ.

    Raises:
        InputError: the two have other inputs or other results.
    """
    _check(before, after)
    names = _renames(before, after)
    program = after.program
    statements = tuple(_renamed(st, names) for st in program.statements)
    kept = {st.name for st in statements if st.expr is not None}
    wanted = [name for name in before.program.outputs if name in kept]
    outputs = [names.get(name, name) for name in program.outputs]
    return replace(
        after,
        program=replace(
            program, statements=statements, outputs=tuple(dict.fromkeys([*wanted, *outputs]))
        ),
        weights={names.get(name, name): original for name, original in after.weights.items()},
        contents={names.get(name, name): held for name, held in after.contents.items()},
        results=tuple(names.get(name, name) for name in after.results),
        origins={names.get(name, name): origin for name, origin in after.origins.items()},
        opaque=tuple(_renamed_opaque(one, names) for one in after.opaque),
    )


def _check(before: Imported, after: Imported) -> None:
    first = {st.name: st for st in before.program.statements}
    given = {name for one in after.opaque for name in one.gives}
    problems = []
    for st in after.program.statements:
        if st.expr is not None or st.name in given or st.name in after.inputs:
            continue
        other = first.get(st.name)
        if other is None and st.name in after.weights:
            continue  # one that was computed from others; what reads it is another function
        weight = st.name in after.weights  # one of another type holds other numbers
        same = other is not None and (weight or other.rounding == st.rounding)
        if not same or other is None or other.expr is not None or other.dims != st.dims:
            what = "type and shape" if other is not None and other.dims == st.dims else "shape"
            message = f"{before.file} has no input `{st.name}` of this {what}"
            problems.append(Problem(message, "Both read the same inputs.", Place(after.file)))
    missing = [name for name in before.results if name not in after.results]
    if missing:
        message = f"`{missing[0]}` is no result of the model, and one of {before.file}"
        remedy = "Name the model that ONNX Runtime wrote for the other one."
        problems.append(Problem(message, remedy, Place(after.file)))
    if problems:
        raise InputError(problems)


def _renames(before: Imported, after: Imported) -> dict[str, str]:
    """Return new names for weights and opaque results that are not those of the first model."""
    known = {
        name: (one.operator, one.parameters, one.reads, number)
        for one in before.opaque
        for number, name in enumerate(one.gives)
    }
    first = {st.name for st in before.program.statements}
    names = {name: _fresh(f"{name}_after", first) for name in other_weights(before, after)}
    for one in after.opaque:
        reads = tuple(names.get(name, name) for name in one.reads)
        for number, name in enumerate(one.gives):
            facts = one.operator, one.parameters, reads, number
            if name in first and known.get(name) != facts:
                names[name] = _fresh(f"{name}_after", first)
    return names


def other_weights(before: Imported, after: Imported) -> list[str]:
    """Return the inputs of both programs that the files do not hold the same numbers of.

    Raises:
        InputError: a file cannot be read any more.
    """
    given = {name for one in (*before.opaque, *after.opaque) for name in one.gives}
    first, second = (
        {st.name for st in model.program.statements if st.expr is None} - given
        for model in (before, after)
    )
    return [
        name
        for name in sorted(first & second)
        if _held(before.contents.get(name)) != _held(after.contents.get(name))
    ]


def _held(content: Callable[[], str] | None) -> str:
    return "" if content is None else content()


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _renamed(st: Statement, names: Mapping[str, str]) -> Statement:
    if not names:
        return st
    expr = st.expr
    if expr is not None:
        expr = _WORD.sub(lambda match: names.get(match[0], match[0]), expr)
    return replace(st, name=names.get(st.name, st.name), expr=expr)


def _renamed_opaque(one: Opaque, names: Mapping[str, str]) -> Opaque:
    reads = tuple(names.get(name, name) for name in one.reads)
    return replace(one, reads=reads, gives=tuple(names.get(name, name) for name in one.gives))


def dropped(before: Imported, after: Imported) -> tuple[Dropped, ...]:
    """Return the values that the second model rounds later than the first, or not at all.

    Args:
        before: the model.
        after: the one that ONNX Runtime made of it.
    """
    return tuple(_dropped(before, after))


def _dropped(before: Imported, after: Imported) -> Iterator[Dropped]:
    second = {st.name: st for st in after.program.statements}
    readers = _readers(before)
    for st in before.program.statements:
        if st.expr is None or st.rounding is None or _is_part(st.name, before):
            continue
        origin = before.origins.get(st.name)
        facts = (st.name, origin.original if origin else st.name, st.rounding.format.short)
        other = second.get(st.name)
        if other is None:
            how = _absorbed(st.name, readers, after, second)
            yield Dropped(*facts, None, how, st.place)
        elif other.rounding is not None and (
            other.rounding.format.precision > st.rounding.format.precision
        ):
            wide = other.rounding.format.short
            yield Dropped(*facts, wide, f"it is kept in {wide}", st.place)


def own_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that are not those of steps inside a node, or all where there are none."""
    return tuple(name for name in names if _PART not in name) or tuple(names)


def _is_part(name: str, model: Imported) -> bool:
    head, mark, _ = name.partition(_PART)
    return bool(mark) and head in model.origins


def _readers(model: Imported) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for st in model.program.statements:
        for word in dict.fromkeys(_WORD.findall(st.expr or "")):
            found.setdefault(word, []).append(st.name)
    return found


def _absorbed(
    name: str,
    readers: Mapping[str, list[str]],
    after: Imported,
    second: Mapping[str, Statement],
) -> str:
    """Say which operator of the second model a value went into: the nearest that reads it."""
    seen, stack = {name}, [name]
    while stack:
        for reader in readers.get(stack.pop(0), ()):
            if reader in second and reader in after.origins:
                origin = after.origins.get(reader.partition(_PART)[0]) or after.origins[reader]
                by = f" by {origin.module}" if origin.module else ""
                return f"it went into {origin.operator} of `{origin.original}`{by}"
            if reader not in seen:
                seen.add(reader)
                stack.append(reader)
    return "the value is gone"
