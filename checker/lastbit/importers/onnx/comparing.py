"""Put a model beside the one that ONNX Runtime made of it: values match by their names.

ONNX Runtime keeps the names of values. One that it keeps in float32 was imported under its own
name with that format (`renames`), so that the dropped rounding shows at the value; one that is gone
was absorbed by a fused operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lastbit.errors import InputError, Place, Problem
from lastbit.importers.imported import NOWHERE, Imported
from lastbit.importers.onnx.blocked import unblocked
from lastbit.importers.renaming import renamed, words_of
from lastbit.importers.results import check_results
from lastbit.statement import Statement

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
    check_results(before, after)
    after = renamed(after, _by_original(before, after))
    _check(before, after)
    after = _with_weights_of(before, after)
    names = _renames(before, after)
    computed = (st.name for st in after.program.statements if st.expr is not None)
    kept = {names.get(name, name) for name in computed}
    return renamed(after, names, [name for name in before.program.outputs if name in kept])


def _check(before: Imported, after: Imported) -> None:
    first = {st.name: st for st in before.program.statements}
    given = {name for one in after.opaque for name in one.gives}
    problems = []
    for st in after.program.statements:
        if st.expr is not None or st.name in given or st.name in after.inputs:
            continue
        other = first.get(st.name)
        if st.name in after.weights:
            continue  # one that was computed, or has another shape, is not that of the first
        same = other is not None and other.rounding == st.rounding
        if not same or other is None or other.expr is not None or other.dims != st.dims:
            what = "type and shape" if other is not None and other.dims == st.dims else "shape"
            message = f"{before.file} has no input `{st.name}` of this {what}"
            problems.append(Problem(message, "Both read the same inputs.", Place(after.file)))
    missing = [name for name in before.results if name not in after.results]
    if missing:
        origin = before.origins.get(missing[0])
        shown = origin.original if origin is not None else missing[0]
        message = f"`{shown}` is no result of the model, and one of {before.file}"
        remedy = "Name the model that ONNX Runtime wrote for the other one."
        problems.append(Problem(message, remedy, Place(after.file)))
    if problems:
        raise InputError(problems)


def _by_original(before: Imported, after: Imported) -> dict[str, str]:
    """Return new names for values that have another name in the first program than in the second.

    A name of a file may be that of a value in one program only if no other value there has a name
    that looks like it.
    """
    found = {origin.original: name for name, origin in before.origins.items()}
    first = {st.name for st in before.program.statements}
    results = {before.origins[n].original: n for n in before.results if n in before.origins}
    names: dict[str, str] = {}
    for name in after.results:
        origin = after.origins.get(name)
        target = results.get(origin.original) if origin is not None else None
        if target not in (None, name):
            names[name] = str(target)
    for st in after.program.statements:
        if st.name in names:
            continue
        origin, own = after.origins.get(st.name), before.origins.get(st.name)
        if origin is None or (own is not None and own.original == origin.original):
            continue
        target = found.get(origin.original)
        if target is None and st.name in first:
            target = _fresh(f"{st.name}_after", first)
        if target is not None:
            names[st.name] = target
    return names


def _with_weights_of(before: Imported, after: Imported) -> Imported:
    """Return a model with the first one's weights where it holds the same numbers as others.

    ONNX Runtime works out what depends on weights only, keeps one of several that are equal, and
    moves the channels of convolutions into blocks.
    """
    others = set(other_weights(before, after))
    first = {st.name: st for st in before.program.statements}
    loose = [name for name in after.weights if name in others or name not in first]
    if not loose:
        return after
    held = {_held(before.contents.get(name)): name for name in before.weights}
    blocked = unblocked(before, after)
    names = {}
    for name in loose:
        same = held.get(_held(after.contents.get(name))) or blocked.get(name)
        if same is not None:
            names[name] = same
    own = set(names.values())
    taken = {*first, *(st.name for st in after.program.statements)}
    names |= {n: _fresh(f"{n}_after", taken) for n in loose if n in own and n not in names}
    moved = renamed(after, names)
    statements = (first[st.name] if st.name in own else st for st in moved.program.statements)
    contents = {name: before.contents[name] for name in own if name in before.contents}
    return replace(
        moved,
        program=replace(moved.program, statements=tuple(statements)),
        contents={**moved.contents, **contents},
    )


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
    """Return the inputs of the second program that are not those of the first.

    The files do not hold the same numbers of them, in the same shape.

    Raises:
        InputError: a file cannot be read any more.
    """
    given = {name for one in (*before.opaque, *after.opaque) for name in one.gives}
    first = {st.name: st for st in before.program.statements}
    names = []
    for st in after.program.statements:
        other = first.get(st.name)
        if other is None or st.expr is not None or st.name in given:
            continue
        reshaped = st.name in after.weights and other.dims != st.dims
        computed = other.expr is not None or other.name in given
        held = [_held(model.contents.get(st.name)) for model in (before, after)]
        if reshaped or computed or held[0] != held[1]:
            names.append(st.name)
    return sorted(names)


def _held(content: Callable[[], str] | None) -> str:
    return "" if content is None else content()


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


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
        for word in words_of(st.expr or ""):
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
