"""Write the tree of a sum as Python, for `lastbit.script_lines`.

`lastbit.schedule.fold` gives the tree. Additions that follow each other in one accumulator become
`running(terms, f32)`, every other addition `f32(add(a, b))`, a step of a matrix unit a call of a
function named after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lastbit.errors import InputError, Problem
from lastbit.formats import Format, format_of
from lastbit.graph import Reduce
from lastbit.machines import Unit, unit_of
from lastbit.rounding import Rounding
from lastbit.schedule import Fused, fold, levels

LONG = 60  # characters of an expression that stands inside another
MOST_TERMS = 10_000  # of a sum whose additions are written out


def unsupported(what: str) -> InputError:
    """Return the error for what no script can express."""
    return InputError(
        [Problem(f"a script cannot express {what}", "Run `lastbit replay` without `--script`.")]
    )


def has_step(unit: Unit, count: int, fmt: str) -> bool:
    """Return whether a script can express a step of a matrix unit over so many products."""
    known = unit.method in ("aligned", "late") and not unit.not_modelled
    return known and count <= unit.width and fmt in unit.accumulators


class Writer(Protocol):
    """What the tree of a sum needs of the lines around it."""

    lines: list[str]

    def fresh(self, stem: str) -> str:
        """Return a name that is not in use."""

    def assign(self, stem: str, text: str) -> str:
        """Give an expression a name of its own and return the name."""

    def rounding(self, rounding: Rounding) -> str:
        """Return the name of the function for a rounding."""

    def step(self, unit: Unit, fmt: Format) -> str:
        """Return the name of the function for a step of a matrix unit."""


def fused(node: Reduce) -> bool:
    """Return whether a matrix unit takes part in a sum."""
    if node.schedule is None or node.acc is None:
        return False
    return any(isinstance(level, Fused) for level in levels(node.schedule))


@dataclass(slots=True)
class _Part:
    """A partial sum: a finished expression, an element, or a running sum that may go on.

    Attributes:
        text: the expression; empty for an element or a running sum.
        leaf: the number of the element, or -1.
        terms: the terms of a running sum from zero.
        rounding: the function that rounds a running sum.
    """

    text: str = ""
    leaf: int = -1
    terms: list[_Part] = field(default_factory=list)
    rounding: str = ""


def sum_text(lines: Writer, node: Reduce, terms: str) -> str:
    """Return the expression of a sum by its schedule; write the partial sums that it needs.

    Args:
        lines: where partial sums go.
        node: the sum.
        terms: the expression of the list of its terms.
    """
    assert node.schedule is not None
    assert node.acc is not None
    if node.length > MOST_TERMS:
        raise unsupported(f"a sum of {node.length} terms")
    start = len(lines.lines)
    tree = _Tree(lines, node.acc, node.length, fused(node))
    whole = fold(node.schedule, node.length, node.acc.format.short, tree)
    text = tree.read(whole)
    if len(lines.lines) == start and text == f"running({tree.name}, {whole.rounding})":
        return f"running({terms}, {whole.rounding})"
    lines.lines.insert(start, f"{tree.name} = {terms}")
    return text


class _Tree:
    """The algebra that writes the tree of a sum."""

    def __init__(self, lines: Writer, acc: Rounding, length: int, is_fused: bool) -> None:
        self.lines, self.acc, self.length, self.is_fused = lines, acc, length, is_fused
        self.name = lines.fresh("terms")

    def _round(self, fmt: str) -> str:
        own = fmt == self.acc.format.short
        return self.lines.rounding(self.acc if own else Rounding.of(fmt))

    def read(self, part: _Part) -> str:
        """Return the expression of a partial sum."""
        if part.text:
            return part.text
        if part.leaf >= 0:
            if self.is_fused:
                raise unsupported("a sum that adds some products within a matrix unit, some not")
            return f"{self.name}[{part.leaf}]"
        return (
            f"running({self._list(part.terms)}, {part.rounding})" if part.terms else "Fraction(0)"
        )

    def _list(self, parts: Sequence[_Part]) -> str:
        leaves = [part.leaf for part in parts if part.leaf >= 0]
        if len(leaves) < len(parts):
            return f"[{', '.join(self.read(part) for part in parts)}]"
        first, last = leaves[0], leaves[-1]
        step = leaves[1] - first if len(leaves) > 1 else 1
        if leaves == list(range(self.length)):
            return self.name
        if step > 0 and leaves == list(range(first, last + 1, step)):
            return f"{self.name}[{first}:{last + 1}" + (f":{step}]" if step > 1 else "]")
        return f"[{', '.join(f'{self.name}[{leaf}]' for leaf in leaves)}]"

    def _short(self, part: _Part, most: int = LONG) -> str:
        text = self.read(part)
        return text if len(text) <= most else self.lines.assign("part", text)

    def zero(self, fmt: str) -> _Part:
        """Return the beginning of a running sum."""
        return _Part(rounding=self._round(fmt))

    def leaf(self, i: int) -> _Part:
        """Return an element."""
        return _Part(leaf=i)

    def add(self, a: _Part, b: _Part, fmt: str) -> _Part:
        """Go on with a running sum, or write one addition."""
        rounding = self._round(fmt)
        alike = not a.terms or (a.terms[0].leaf < 0) == (b.leaf < 0)
        if a.rounding == rounding and alike and not (self.is_fused and b.leaf >= 0):
            a.terms.append(b if b.leaf >= 0 else _Part(self._short(b, 24)))
            return a
        return _Part(f"{rounding}(add({self._short(a)}, {self._short(b)}))")

    def convert(self, value: _Part, fmt: str) -> _Part:
        """Round to the format of another level."""
        return _Part(f"{self._round(fmt)}({self._short(value)})")

    def fused(self, acc: _Part, terms: list[_Part], machine: str, fmt: str) -> _Part:
        """Write one step of a matrix unit."""
        unit = unit_of(machine)
        if not has_step(unit, len(terms), fmt):
            raise unsupported(f"this step of the matrix unit `{unit}`")
        if any(term.leaf < 0 for term in terms):
            raise unsupported("a step of a matrix unit over terms that are no products")
        step = self.lines.step(unit, format_of(fmt))
        return _Part(f"{step}({self._short(acc, 24)}, {self._list(terms)})")

    def any_order(self, values: list[_Part], fmt: str) -> _Part:
        """Refuse: the result is a set.

        Raises:
            InputError: always.
        """
        raise unsupported("a sum in any order, which has a set of results")
