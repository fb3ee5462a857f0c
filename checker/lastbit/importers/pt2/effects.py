"""What nodes do beside giving values: numbers that later sizes depend on, and writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lastbit.expression import parse_expression
from lastbit.importers import aten
from lastbit.importers.pt2.arguments import NONE, Arguments
from lastbit.importers.pt2.storage import MOST_ALIASES, Write, functional
from lastbit.importers.writer import Out, Step


def symbols_of(size: str) -> list[str]:
    """Return the symbols of a size."""
    return sorted(parse_expression(size).symbols)


class Effects(Arguments):
    """Follows numbers that are computed from values, and writes to storages."""

    # Numbers that are computed from values.

    def _numbers(self, node: Any) -> Iterator[tuple[str, str]]:
        """Yield the type and the name of each number that a node gives and sizes do not."""
        for output in self.member(node, "outputs", list):
            tag, held = self.union(output)
            if tag in ("as_sym_float", "as_sym_bool", "as_sym_int"):
                kind, name = self.union(held)
                known = kind != "as_name" or (tag == "as_sym_int" and not self._free(str(name)))
                if not known:
                    yield "f64" if tag == "as_sym_float" else "i64", str(name)

    def _free(self, name: str) -> list[str]:
        """Return the symbols of a size that neither inputs nor earlier nodes give."""
        size = str(self._symbolic({"as_name": name}))
        return [s for s in symbols_of(size) if s not in self.backed and s not in self.made]

    def _computed_numbers(
        self, step: Step, numbers: list[tuple[str, str]], call: str, given: list[tuple[str, str]]
    ) -> None:
        """State numbers as opaque values, which later nodes depend on."""
        outs = (*step.outs, *(Out(name, dtype, ()) for dtype, name in numbers))
        reads = [*(self._value(name) for _, name in given), *self.more]
        replace(step, outs=outs).opaque(reads, call)
        for _, name in numbers:
            value = self.writer.values[name]
            for key in (name, *self._symbols_of(name)):
                self.made.setdefault(key, value)

    def _symbols_of(self, name: str) -> list[str]:
        for table in self.tables:
            if name in self.member(table, "sym_int_values", dict):
                return self._free(name)
        return []

    def _symbol_text(self, held: Any) -> str:
        """Return what a number stands for; note the values that it is computed from."""
        tag, name = self.union(held)
        if tag != "as_name" or not isinstance(name, str):
            return str(name)
        ints = any(name in self.member(t, "sym_int_values", dict) for t in self.tables)
        text = str(self._symbolic(held)) if ints else name
        made = [
            self.made[key] for key in (symbols_of(text) if ints else [text]) if key in self.made
        ]
        self.more += made
        return text if ints or not made else "number"

    # Writes to storages.

    def _write(
        self,
        step: Step,
        target: str,
        changed: list[str],
        given: list[tuple[str, str]],
        arguments: tuple[list[object], dict[str, object], str],
    ) -> None:
        """State what a node writes to values that exist, and what their aliases hold then."""
        args, keywords, call = arguments
        reads = tuple(self._value(name) for _, name in given)
        old = [self.writer.values[name] for name in changed]
        outs = [out for out in step.outs if out is not NONE]
        single = len(changed) == 1 and len(outs) < 2 and changed[0] == given[0][1]
        if not (single and outs):
            taken = {out.original for out in outs}
            for name, value in zip(changed, old, strict=True):
                new = f"{name}_written"
                while new in self.writer.values or new in taken:
                    new += "_"
                taken.add(new)
                outs.append(Out(new, value.dtype, value.dims))
        step = replace(step, outs=tuple(outs))
        if single:
            aten.apply(step, functional(target), args, keywords, call, self.more)
        else:
            step.opaque([*reads, *self.more], call)
        for name, out in zip(changed, outs[-len(changed) :], strict=True):
            value = self.writer.values[out.original]
            if self.storages.crowded(name):
                self.fail(f"more than {MOST_ALIASES} values share a storage")
            path = self.storages.path.get(name, ())
            write = Write(step.operator, call, path, (*reads, *self.more), step.place, step.module)
            if self.storages.number.get(name, 0) in self.fixed:
                self.fail("an inner graph writes to a value of the outer one")
            for same in self.storages.wrote(name, write):
                self.writer.values[same] = value
        for out in outs:
            if single:
                self.storages.view(out.original, changed[0])
            else:
                self.storages.new(out.original)
