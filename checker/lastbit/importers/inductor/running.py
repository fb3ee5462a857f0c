"""Hold the predictions for both graphs against a run: operator by operator, and by kernel.

Before, every node is predicted from the values that the nodes it reads had when the graph was run
operator by operator. After, every buffer that a kernel wrote is predicted from the buffers that the
kernel read, through all that it computes in between. So equal bits say that exactly the roundings
that were reported are gone. Products and sums are taken from the run: no file says in which order
they add.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from lastbit.importers.imported import Imported
from lastbit.importers.inductor.capture import CapturedGraph
from lastbit.importers.inductor.fx import TORCH_DTYPES
from lastbit.importers.inductor.meanings import is_cast, is_move
from lastbit.importers.inductor.predicting import Array, Held, predicted, statements_of
from lastbit.importers.inductor.reading import Reading
from lastbit.importers.onnx.regions import Region
from lastbit.statement import Statement

MOST_SHOWN = 4


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
        yield from predicted(model, seen, taken, {})

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
        yield from predicted(model, seen, taken | self._parts(model), by_total)

    def _statement(self, meaning: int, value: Array, dtype: str) -> str | None:
        """Return the value of the program that a buffer holds."""
        reading, model = self.reading, self.reading.after
        if reading.numbers.facts(meaning)[0] == "number":
            return None  # filled first, so that a library call can scatter into it
        shape = tuple(map(str, value.shape))
        originals = {origin.original: name for name, origin in model.origins.items()}
        nodes = [
            node
            for node in reading.graph.nodes.values()
            if reading.meanings[node.name] == meaning and node.dims == shape
        ]
        # Parts of one library call share a meaning, and what is computed from them alike: no
        # buffer says which of them it holds.
        made = [n for n in nodes if n.target == "getitem" or not (is_move(n) or is_cast(n))]
        if len(made) > 1:
            return None
        for node in nodes:
            name = originals.get(node.name)
            name = name or next((n for n, o in originals.items() if o and n == node.name), None)
            if name is None and node.name in reading.graph.results:
                at = reading.graph.results.index(node.name)
                name = model.results[at] if at < len(model.results) else None
            st = None if name is None else statements_of(model).get(name)
            if st is not None and st.rounding is not None:
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


def _adds(st: Statement) -> bool:
    return st.schedule is not None


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
