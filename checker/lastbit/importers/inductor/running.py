"""Hold the predictions for both graphs against a run: operator by operator, and by kernel.

Before, every node is predicted from the values that the nodes it reads had when the graph was run
operator by operator. After, every buffer that a kernel wrote is predicted from the buffers that the
kernel read, through all that it computes in between. So equal bits say that exactly the roundings
that were reported are gone. Products and sums are taken from the run: no file says in which order
they add.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lastbit.errors import LastbitError
from lastbit.expression import parse_expression
from lastbit.formats import Format, as_exact, format_of
from lastbit.importers.imported import Imported, stored
from lastbit.importers.inductor.capture import CapturedGraph
from lastbit.importers.inductor.fx import TORCH_DTYPES
from lastbit.importers.inductor.reading import Reading
from lastbit.importers.onnx.observing import made_of_sizes
from lastbit.importers.onnx.regions import Region, words_of
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import results
from lastbit.interpret.policy import Policy
from lastbit.rounding import Rounding
from lastbit.statement import Statement
from lastbit.text import Program
from lastbit.ulp_array import ulp_distance_array
from lastbit.ulps import ulp

Array = NDArray[Any]

# Largest distances of torch's functions in binary32 from the correctly rounded value, in ulp, found
# over 2^20 normal(0, 1) inputs.
ULPS = {
    "exp": 2, "exp2": 2, "expm1": 2, "sigmoid": 3, "silu": 3, "tanh": 2, "log": 1, "log1p": 2,
    "log2": 2, "erf": 1, "sin": 1, "cos": 1, "rsqrt": 1, "softplus": 3, "opaque": 4,
}  # fmt: skip
PREDICTED = "__predicted"
TOTAL = "__total"
MOST_SHOWN = 4

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


class Runs:
    """What a run says of one graph.

    Args:
        reading: the graph.
        graph: what was captured.
    """

    def __init__(self, reading: Reading, graph: CapturedGraph) -> None:
        self.reading = reading
        self.eager = {name: _array(value) for name, value in graph.eager.items()}
        self.formats = {
            name: TORCH_DTYPES.get(str(value.dtype).removeprefix("torch."), "")
            for name, value in graph.buffers.items()
        }
        self.buffers = {name: _array(value) for name, value in graph.buffers.items()}
        self.before = {one.name: one for one in self._before()}
        self.after = {one.name: one for one in self._after()}

    def observe(self, _: Reading, region: Region) -> Iterator[str]:
        """Yield what the run says of a region."""
        names = set(region.names)
        kept = [one for name, one in self.before.items() if name in names]
        dropped = [one for name, one in self.after.items() if name in names]
        if kept:
            yield f"run: operator by operator, with the roundings kept: {_summary(kept)}"
        if dropped:
            yield f"run: compiled, with them dropped: {_summary(dropped)}"
        if not dropped:
            yield (
                "run: of the compiled code nothing here was predicted: no buffer holds such a "
                "value, or it is a sum, whose order no file says"
            )

    def unconfirmed(self) -> list[Held]:
        """Return the values whose prediction does not hold."""
        return [
            one for side in (self.before, self.after) for one in side.values() if not one.confirmed
        ]

    # Before: every node from the nodes that it reads.

    def _before(self) -> Iterator[Held]:
        model = self.reading.before
        seen: dict[str, Array] = {}
        for name, origin in model.origins.items():
            value = self.eager.get(origin.original)
            if value is not None and list(map(str, value.shape)) == list(
                model.shapes.get(name, ())
            ):
                seen[name] = value
        taken = {st.name for st in model.program.statements if _adds(st)} | self._parts(model)
        yield from _held(model, seen, taken, {})

    def _parts(self, model: Imported) -> set[str]:
        """Return values of nodes that are stated in several steps, sums among them."""
        sums = {st.name.partition("__")[0] for st in model.program.statements if _adds(st)}
        return {st.name for st in model.program.statements if st.name in sums}

    # After: every buffer from the buffers that the kernel reads.

    def _after(self) -> Iterator[Held]:
        reading, model = self.reading, self.reading.after
        if reading.readings is None:
            return
        seen: dict[str, Array] = {}
        totals: dict[int, Array] = {}
        taken: set[str] = set()
        for buffer, meaning in reading.readings.buffers.items():
            value = self.buffers.get(buffer)
            if value is None:
                continue
            totals[meaning] = value
            name = self._statement(meaning, value, self.formats[buffer])
            if name is not None:
                seen.setdefault(name, value)
        for name, origin in model.origins.items():
            if origin.operator is None and origin.original in self.eager:
                seen[name] = self.eager[origin.original]
        by_total: dict[str, Array] = {}
        for st in model.program.statements:
            if not _adds(st):
                continue
            taken.add(st.name)
            total = self._total(st, totals)
            if st.name not in seen and total is not None:
                by_total[st.name] = total
        yield from _held(model, seen, taken | self._parts(model), by_total)

    def _statement(self, meaning: int, value: Array, dtype: str) -> str | None:
        """Return the value of the program that a buffer holds."""
        reading, model = self.reading, self.reading.after
        shape = tuple(map(str, value.shape))
        originals = {origin.original: name for name, origin in model.origins.items()}
        for node in reading.graph.nodes.values():
            same = reading.meanings[node.name] == meaning and node.dims == shape
            name = originals.get(node.name)
            name = name or next((n for n, o in originals.items() if o and n == node.name), None)
            if name is None and node.name in reading.graph.results:
                at = reading.graph.results.index(node.name)
                name = model.results[at] if at < len(model.results) else None
            st = None if name is None else _statements(model).get(name)
            if same and st is not None and st.rounding is not None:
                narrow = st.rounding.format.short
                if narrow == node.dtype == dtype:
                    return name
        return None

    def _total(self, st: Statement, totals: Mapping[int, Array]) -> Array | None:
        """Return the sum inside a statement, where a buffer holds it."""
        origin = self.reading.after.origins.get(st.name)
        if origin is None or "__" in origin.original or not (st.expr or "").startswith("sum("):
            return None
        meaning = self.reading.meanings.get(origin.original.partition("__")[0])
        if meaning is None:
            return None
        dims = self.reading.after.shapes[st.name]
        sizes = [int(dim) for dim in dims if dim.isdigit()]
        for number in self.reading.inside(meaning):
            if self.reading.numbers.facts(number)[0] == "reduce":
                total = totals.get(number)  # of the outermost sum
                if total is None or len(sizes) < len(dims) or math.prod(sizes) != total.size:
                    return None
                return total
        return None


def _statements(model: Imported) -> dict[str, Statement]:
    return {st.name: st for st in model.program.statements}


def _adds(st: Statement) -> bool:
    return st.schedule is not None


def _held(
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
        st = _statements(model)[plain]
        assert st.rounding is not None
        yield _compared(
            plain, values_of(found[name]), given[plain], st.rounding.format, functions[plain]
        )


def _compared(name: str, a: Array, b: Array, fmt: Format, functions: tuple[str, ...]) -> Held:
    if a.shape != b.shape:
        raise LastbitError(
            f"`{name}` has the shape {list(a.shape)}, and {list(b.shape)} in the run."
        )
    found = ulp_distance_array(a, b, fmt)
    differing = int((found.kinds != 0).sum())
    finite = np.isfinite(a) & np.isfinite(b)
    largest = float(np.abs(b[finite]).max(initial=0.0))
    unit = float(ulp(as_exact(largest), fmt))
    scaled = float(np.abs(a[finite] - b[finite]).max(initial=0.0)) / unit
    return Held(name, fmt.short, int(a.size), differing, scaled, functions)


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


def _array(tensor: Any) -> Array:
    """Return the values of a tensor as float64, which holds those of every narrower format."""
    found: Array = tensor.detach().to("cpu").double().numpy()
    return found


def _summary(held: list[Held]) -> str:
    exact = [one for one in held if not one.differing]
    elements = sum(one.elements for one in held)
    text = f"{len(exact)} of {len(held)} values bit for bit ({elements:,} elements)"
    rest = [one for one in held if one.differing]
    for one in rest[:MOST_SHOWN]:
        by = f", with {', '.join(one.functions)}" if one.functions else ""
        text += (
            f"; `{one.name}` differs on {one.differing:,} of {one.elements:,}, by up to "
            f"{one.ulp:.2g} ulp of {one.format} at the largest value{by}"
        )
    if len(rest) > MOST_SHOWN:
        text += f"; and {len(rest) - MOST_SHOWN} more"
    return text
