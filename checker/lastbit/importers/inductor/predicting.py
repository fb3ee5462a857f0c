"""Predict the values of a run, each from the values before it that were seen.

Products and sums are taken from the run: no file says in which order they add.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from lastbit.errors import LastbitError
from lastbit.expression import parse_expression
from lastbit.formats import Format, format_of
from lastbit.importers.imported import Imported, stored
from lastbit.importers.inductor.reading import Reading
from lastbit.importers.onnx.observing import made_of_sizes
from lastbit.importers.onnx.regions import words_of
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import results
from lastbit.interpret.policy import Policy
from lastbit.rounding import Rounding
from lastbit.statement import Statement
from lastbit.text import Program
from lastbit.ulp_array import gap

Array = NDArray[Any]

# Largest distances of torch's functions in binary32 from the correctly rounded value, in ulp, found
# over 2^20 normal(0, 1) inputs.
ULPS = {
    "exp": 2, "exp2": 2, "expm1": 2, "sigmoid": 3, "silu": 3, "tanh": 2, "log": 1, "log1p": 2,
    "log2": 2, "erf": 1, "sin": 1, "cos": 1, "rsqrt": 1, "softplus": 3, "opaque": 4,
}  # fmt: skip
PREDICTED = "__predicted"
TOTAL = "__total"
OPAQUE = "opaque("

_FUNCTION = re.compile(r"\b([a-z_]\w*)\(")


@dataclass(frozen=True, slots=True)
class Held:
    """A value that was predicted and observed.

    Attributes:
        name: in the program.
        format: whose ulp are meant.
        elements: how many.
        differing: how many have other bits.
        ulp: the greatest distance, in ulp of the format at the largest value.
        functions: library functions that take part, which are not correctly rounded.
    """

    name: str
    format: str
    elements: int
    differing: int
    ulp: float
    functions: tuple[str, ...]

    @property
    def confirmed(self) -> bool:
        """Return whether the prediction holds: bit for bit, or within what functions may do."""
        if not self.differing:
            return True
        if not self.functions:
            return False
        wide = self.format in ("f32", "f64")
        return self.ulp <= (sum(ULPS.get(f, 4) for f in self.functions) + 2 if wide else 1)


def predicted(
    model: Imported,
    seen: Mapping[str, Array],
    taken: Iterable[str],
    totals: Mapping[str, Array],
) -> Iterator[Held]:
    """Predict the values that were seen, each from those before it.

    Args:
        model: the program.
        seen: the values of a run, by name.
        taken: values that are not predicted: sums, whose order is not known.
        totals: for values that are a sum and more, the sum.
    """
    taken = set(taken)
    given: dict[str, Array] = {}
    statements: list[Statement] = []
    wanted: list[str] = []
    functions: dict[str, tuple[str, ...]] = {}
    known: dict[str, tuple[str, ...]] = {}
    unknown: set[str] = set()  # what hangs on a value that was not seen
    for st in model.program.statements:
        value = seen.get(st.name)
        if st.expr is None:
            value = value if value is not None else _made(st)
            if value is None:
                unknown.add(st.name)
                continue
            given[st.name] = value
            statements.append(_input(st, value))
            continue
        expr, acc, schedule = st.expr, st.acc, st.schedule
        if st.name in totals:
            name = f"{st.name}{TOTAL}"
            shape = [int(dim) for dim in model.shapes[st.name]]
            given[name] = totals[st.name].reshape(shape)
            place = replace(st, rounding=Rounding.of(format_of("f32")))
            statements.append(_input(place, given[name], name))
            expr, acc, schedule = _without_sum(expr, name), None, None
        reads = words_of(expr)
        lost = any(one in unknown for one in reads) or (st.name in taken and acc is not None)
        lost = lost or OPAQUE in expr  # a function that is known by its name only
        used = {f for one in reads for f in known.get(one, ())}
        used |= {f for f in _FUNCTION.findall(expr) if f in ULPS}
        cut = value is not None and st.rounding is not None
        if not lost:
            name = f"{st.name}{PREDICTED}" if cut else st.name
            statements.append(replace(st, name=name, expr=expr, acc=acc, schedule=schedule))
            if cut:
                wanted.append(name)
                functions[st.name] = tuple(sorted(used))
            else:
                known[st.name] = tuple(sorted(used))
        if cut:
            assert value is not None
            given[st.name] = value
            statements.append(_input(st, value))
        elif lost:
            unknown.add(st.name)
    if not wanted:
        return
    program = Program(tuple(statements), tuple(wanted))
    found = results(program.bind({}), ArrayDomain(given), Policy.BITS)
    for name in wanted:
        plain = name.removesuffix(PREDICTED)
        st = statements_of(model)[plain]
        assert st.rounding is not None
        yield _compared(
            plain, values_of(found[name]), given[plain], st.rounding.format, functions[plain]
        )


def _compared(name: str, a: Array, b: Array, fmt: Format, functions: tuple[str, ...]) -> Held:
    if a.shape != b.shape:
        raise LastbitError(
            f"`{name}` has the shape {list(a.shape)}, and {list(b.shape)} in the run."
        )
    found = gap(a, b, fmt)
    return Held(name, fmt.short, int(a.size), found.differing, found.scaled, functions)


def _without_sum(expr: str, name: str) -> str:
    """Return an expression with a name in place of the sum that it begins with."""
    depth = 0
    for at, letter in enumerate(expr):
        depth += (letter == "(") - (letter == ")")
        if letter == ")" and not depth:
            return name + expr[at + 1 :]
    return expr


def _input(st: Statement, value: Array, name: str = "") -> Statement:
    dims = tuple(parse_expression(str(size)) for size in value.shape)
    rounding = st.rounding if st.rounding is not None else Rounding.of(format_of(stored("f32")))
    return Statement(name or st.name, rounding, dims, None, None, None, st.place)


def _made(st: Statement) -> Array | None:
    if not st.name.startswith(("causal_mask_", "tril_", "triu_", "arange_")):
        return None
    try:
        shape = [dim.evaluate({}) for dim in st.dims or ()]
    except LastbitError:
        return None
    return made_of_sizes(st.name, shape)


def statements_of(model: Imported) -> dict[str, Statement]:
    """Return the statements of a model by name."""
    return {st.name: st for st in model.program.statements}


def made_differently(
    readings: Iterable[Reading], only: Collection[str] | None = None
) -> tuple[list[str], list[str]]:
    """Return what two runs may compute in different bits by the same rounded operators.

    Args:
        readings: the graphs.
        only: the values that count; None: all.

    Returns:
        the operators that add up, and the library functions.
    """
    sums: dict[str, None] = {}
    functions: dict[str, None] = {}
    for reading in readings:
        model = reading.before
        for st in model.program.statements:
            if only is not None and st.name not in only:
                continue
            functions |= dict.fromkeys(f for f in _FUNCTION.findall(st.expr or "") if f in ULPS)
            if st.schedule is not None and st.name in model.origins:
                sums[model.origins[st.name].operator or st.name] = None
    return list(sums), list(functions)
