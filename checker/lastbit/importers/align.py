"""Give the values of a second graph the names that they have in the first.

Values match where they are computed alike from values that match, then where name, type, operator
and module are the same. All others get names of their own, so that no two values meet by accident.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

from lastbit.errors import InputError, Place, Problem
from lastbit.expression import parse_expression
from lastbit.importers.imported import Imported, Opaque
from lastbit.importers.onnx.comparing import aligned as aligned_by_name
from lastbit.importers.renaming import WORD, renamed, substituted
from lastbit.importers.results import check_results
from lastbit.statement import Statement

SAME_RESULTS = "Give two models with the same results."


def aligned(before: Imported, after: Imported) -> Imported:
    """Return the second graph in the names of the first; results match by name or by order.

    Two models of ONNX are a model and what ONNX Runtime made of it: all values match by name.

    Raises:
        InputError: the two have other inputs, write to others, or have other results: another
            number of them, other types or other shapes.
    """
    if all(model.file.lower().endswith(".onnx") for model in (before, after)):
        return aligned_by_name(before, after)
    after = _with_symbols(before, after)
    _check_inputs(before, after)
    _check_written(before, after)
    if len(before.results) != len(after.results):
        raise _error(
            after,
            f"it returns {len(after.results)} results, and {before.file} {len(before.results)}",
            SAME_RESULTS,
        )
    check_results(before, after)
    if _given_order(before) != _given_order(after):
        text = "the inputs stand in another order, and are matched by their names"
        after = replace(after, assumed=(*after.assumed, text))
    names = _Names(before, after).names()
    kept = {names.get(st.name, st.name) for st in after.program.statements}
    # The results of opaque operators that only one graph has are inputs that only it reads.
    return renamed(after, names, [name for name in before.program.outputs if name in kept])


class _Names:
    """Finds the first graph's name for every value of the second.

    Args:
        before: the first graph.
        after: the second.
    """

    def __init__(self, before: Imported, after: Imported) -> None:
        self.before, self.after = before, after
        self.first = {st.name: st for st in before.program.statements}
        self.second = {st.name: st for st in after.program.statements}
        self.waiting: list[tuple[str, str]] = []
        self.found: dict[str, str] = {}
        self.taken: set[str] = set()

    def names(self) -> dict[str, str]:
        """Return the new name of each value of the second graph."""
        self._inputs()
        self._results()
        self._computed_alike()
        self._opaque()
        self._read_alike()
        for st in reversed(self.after.program.statements):
            if st.name not in self.found and self._same_kind(st):
                self._take(st.name, st.name)
                self._read_alike()
        for st in self.after.program.statements:
            if st.name not in self.found:
                self._take(st.name, self._fresh(st.name))
        return self.found

    def _take(self, old: str, new: str) -> None:
        if old not in self.found and new not in self.taken:
            self.found[old] = new
            self.taken.add(new)
            self.waiting.append((old, new))

    def _read_alike(self) -> None:
        """Match what matched values read, where they are computed alike from it."""
        while self.waiting:
            old, new = self.waiting.pop()
            if old not in self.second or new not in self.first:
                continue
            first, second = _form(self.first[new]), _form(self.second[old])
            if first is None or second is None or first[0] != second[0]:
                continue
            for ours, theirs in zip(first[1], second[1], strict=True):
                if self._alike(ours, theirs):
                    self._take(theirs, ours)

    def _alike(self, ours: str, theirs: str) -> bool:
        """Return whether two values may be one: both computed, of one type and shape."""
        if ours not in self.first or theirs not in self.second:
            return False
        a, b = self.first[ours], self.second[theirs]
        return (
            a.expr is not None
            and b.expr is not None
            and a.rounding == b.rounding
            and self.before.shapes.get(ours) == self.after.shapes.get(theirs)
        )

    def _fresh(self, name: str) -> str:
        while name in self.first or name in self.taken:
            name = f"{name}_after"
        return name

    def _inputs(self) -> None:
        given = {name for one in self.after.opaque for name in one.gives}
        for st in self.after.program.statements:
            if st.expr is None and st.name not in given:
                self._take(st.name, st.name)

    def _results(self) -> None:
        ours, theirs = self.before.results, self.after.results
        if self.before.by_name and self.after.by_name and set(ours) == set(theirs):
            theirs = ours
        for old, new in zip(theirs, ours, strict=True):
            self._take(old, new)

    def _computed_alike(self) -> None:
        by_key: dict[str, str] = {}
        for name, key in _keys(self.before).items():
            by_key.setdefault(key, name)
        for old, key in _keys(self.after).items():
            if key in by_key:
                self._take(old, by_key[key])

    def _opaque(self) -> None:
        """Match opaque operators whose inputs differ: by operator, parameters and order.

        Every value that one reads must be the value that the other reads, or can be compared
        with it, so that a step says where the two differ.
        """
        left: dict[tuple[object, ...], list[Opaque]] = {}
        for one in self.before.opaque:
            if not self.taken.intersection(one.gives):
                left.setdefault(_identity(self.before, one, self.first), []).append(one)
        for one in self.after.opaque:
            same = left.get(_identity(self.after, one, self.second), [])
            if not same or one.gives[0] in self.found:
                continue
            other = next((it for it in same if self._reads_match(one, it)), None)
            if other is not None:
                same.remove(other)
                for pair in (
                    *zip(one.gives, other.gives, strict=True),
                    *zip(one.reads, other.reads, strict=True),
                ):
                    self._take(*pair)

    def _reads_match(self, one: Opaque, other: Opaque) -> bool:
        new: dict[str, str] = {}
        for theirs, ours in zip(one.reads, other.reads, strict=True):
            known = self.found.get(theirs, new.get(theirs))
            if known is None and ours not in self.taken and ours not in new.values():
                if not self._alike(ours, theirs):
                    return False
                new[theirs] = ours
            elif known != ours:
                return False
        return True

    def _same_kind(self, st: Statement) -> bool:
        """Return whether the first graph has a value of this name from the same place."""
        other, name = self.first.get(st.name), st.name
        a, b = self.before.origins.get(name), self.after.origins.get(name)
        if other is None or a is None or b is None or name in self.taken:
            return False
        return (
            other.expr is not None
            and st.expr is not None
            and other.rounding == st.rounding
            and self.before.shapes.get(name) == self.after.shapes.get(name)
            and (a.operator, a.module) == (b.operator, b.module)
        )


def _form(st: Statement) -> tuple[tuple[str, ...], list[str]] | None:
    """Return how a value is computed, and the words of its expression, values among them."""
    if st.expr is None:
        return None
    form = WORD.sub("_", st.expr), str(st.rounding), str(st.acc), str(st.schedule)
    return form, WORD.findall(st.expr)


def _identity(model: Imported, one: Opaque, known: Mapping[str, Statement]) -> tuple[object, ...]:
    """Return what two opaque operators have in common that give equal results on equal inputs."""
    given = tuple((model.shapes.get(name), str(known[name].rounding)) for name in one.gives)
    return one.operator, one.parameters, len(one.reads), given


def _keys(model: Imported) -> dict[str, str]:
    """Return for every value a digest of what it is computed from, down to the inputs."""
    keys: dict[str, str] = {}
    opaque = {name: one for one in model.opaque for name in one.gives}
    for st in model.program.statements:
        one = opaque.get(st.name)
        if one is not None:
            read = [keys[name] for name in one.reads]
            facts: tuple[object, ...] = (
                "opaque",
                one.operator,
                one.parameters,
                read,
                one.gives.index(st.name),
            )
        elif st.expr is None:
            facts = ("input", st.name)
        else:
            words = substituted(st.expr, keys)
            facts = (words, str(st.rounding), str(st.acc), str(st.schedule))
        keys[st.name] = blake2b(repr(facts).encode(), digest_size=16).hexdigest()
    return keys


def _inputs(model: Imported) -> dict[str, Statement]:
    given = {name for one in model.opaque for name in one.gives} | set(model.inputs)
    return {
        st.name: st for st in model.program.statements if st.expr is None and st.name not in given
    }


def _given_order(model: Imported) -> list[str]:
    """Return the inputs that are given to a model, in order."""
    return [name for name in _inputs(model) if name not in model.weights]


def _with_symbols(before: Imported, after: Imported) -> Imported:
    """Return the second graph with the symbols that its inputs' sizes have in the first."""
    first, second = _inputs(before), _inputs(after)
    new: dict[str, str] = {}
    for name, st in second.items():
        other = first.get(name)
        for a, b in zip(st.dims or (), () if other is None else other.dims or (), strict=False):
            if a.text in after.symbols and b.text in before.symbols:
                new.setdefault(a.text, b.text)
    if all(old == to for old, to in new.items()) or len(set(new.values())) < len(new):
        return after

    def text(expression: str) -> str:
        return substituted(expression, new)

    statements = tuple(
        replace(
            st,
            expr=None if st.expr is None else text(st.expr),
            dims=None
            if st.dims is None
            else tuple(parse_expression(text(d.text)) for d in st.dims),
        )
        for st in after.program.statements
    )
    symbols = {new.get(name, name): span for name, span in after.symbols.items()}
    shapes = {name: tuple(map(text, dims)) for name, dims in after.shapes.items()}
    opaque = tuple(replace(one, parameters=text(one.parameters)) for one in after.opaque)
    after = replace(after, shapes=shapes, opaque=opaque)
    return replace(after, program=replace(after.program, statements=statements), symbols=symbols)


def _check_written(before: Imported, after: Imported) -> None:
    """Refuse models that write to different inputs: results are compared by their order."""
    if before.written != after.written:
        ours, theirs = (
            ", ".join(f"`{name}`" for name in model.written[:8]) or "none"
            for model in (before, after)
        )
        text = f"it writes to {theirs} of its inputs, and {before.file} to {ours}"
        raise _error(after, text, "Give two models that write to the same.")


def _check_inputs(before: Imported, after: Imported) -> None:
    """Refuse a second graph whose inputs are others."""
    first = _inputs(before)
    problems = []
    for name, st in _inputs(after).items():
        other = first.get(name)
        if other is None:
            message = f"{before.file} has no input `{name}`"
            problems.append(_problem(after, message, "Both read the same inputs."))
        elif (other.rounding, other.dims) != (st.rounding, st.dims):
            message = f"the input `{name}` is {_shown(st)}, and {_shown(other)} in {before.file}"
            problems.append(_problem(after, message, "Both read the same inputs."))
    if problems:
        raise InputError(problems)


def _shown(st: Statement) -> str:
    assert st.rounding is not None
    return f"{st.rounding.format.short}[{', '.join(map(str, st.dims or ()))}]"


def _problem(model: Imported, message: str, remedy: str) -> Problem:
    return Problem(message, remedy, Place(model.file))


def _error(model: Imported, message: str, remedy: str) -> InputError:
    return InputError([_problem(model, message, remedy)])
