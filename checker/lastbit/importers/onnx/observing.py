"""Hold the prediction for each region against what ONNX Runtime computes.

The first model is run node by node, the second whole, on the same drawn inputs. Each side of a
region is then evaluated on the values that its own run gave the region, so that what went before
explains nothing: equal bits say that the roundings of the region are those that were imported.
The predicted drift is that of the region alone, on the values of the first run; the observed one
has all that went before in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lastbit.errors import LastbitError
from lastbit.formats import Format, format_of
from lastbit.graph import native_rounding
from lastbit.importers.imported import Imported
from lastbit.importers.onnx.model import Model
from lastbit.importers.onnx.reading import read_model
from lastbit.importers.onnx.regions import Region
from lastbit.importers.onnx.renames import CONVERTED, KEPT
from lastbit.importers.onnx.running import Array, Values, draw_inputs, run_nodes, run_whole
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import results
from lastbit.interpret.policy import Policy
from lastbit.text import Program
from lastbit.ulp_array import gap


@dataclass(frozen=True, slots=True)
class Distance:
    """How far apart two arrays are.

    Attributes:
        differing: elements with other bits.
        elements: elements compared.
        ulp: the greatest distance, in ulp of the result.
        scaled: the same in ulp of the largest value.
    """

    differing: int
    elements: int
    ulp: int
    scaled: float

    @property
    def share(self) -> float:
        """Return the share of elements that differ, in percent."""
        return 100 * self.differing / max(self.elements, 1)

    def __str__(self) -> str:
        if not self.differing:
            return f"all {self.elements:,} elements as predicted"
        same = self.elements - self.differing
        return (
            f"{same:,} of {self.elements:,} elements as predicted, the others within "
            f"{self.ulp:,} ulp ({self.scaled:.2g} ulp of the largest value)"
        )


@dataclass(frozen=True, slots=True)
class Observed:
    """What a run says of one result of a region.

    Attributes:
        name: the result.
        format: whose ulp are meant.
        predicted: for each side, the prediction against what the run gave.
        drift: the predicted distance of the two sides on the values of the first run.
        seen: the distance of the two runs at this value, with all that went before.
    """

    name: str
    format: str
    predicted: tuple[Distance, Distance]
    drift: Distance
    seen: Distance

    def __str__(self) -> str:
        sides = zip(("node by node", "whole"), self.predicted, strict=True)
        held = "; ".join(f"{run}: {found}" for run, found in sides)
        return (
            f"run: `{self.name}` ({self.format}): {held}; drift predicted for this region "
            f"{self.drift.share:.3g} %, observed with all before it {self.seen.share:.3g} %"
        )


class Runs:
    """Both runs of a pair of models on the same inputs.

    Args:
        before: the first model as imported; its file is opened again.
        after: the second.
        sizes: a size for each symbol of the first model's file; others are 4.
        seed: selects the inputs.

    Attributes:
        differs: results on which the first model, run whole now, differs from the second.

    Raises:
        InputError: a model cannot be run.
    """

    def __init__(
        self, before: Imported, after: Imported, sizes: Mapping[str, int], seed: int
    ) -> None:
        self.models = before, after
        self.files: tuple[Model, Model] = read_model(before.file), read_model(after.file)
        self.inputs = draw_inputs(self.files[0], sizes, seed)
        first = run_nodes(self.files[0], self.inputs)
        computed = [name for node in self.files[1].nodes for name in node.gives if name]
        second = run_whole(self.files[1], self.inputs, "disabled", computed)
        self.values: tuple[Values, Values] = first, {**self.inputs, **second}
        self.differs = self._fresh(second)

    def _fresh(self, second: Values) -> tuple[str, ...]:
        """Return the results on which the first model, run whole now, differs from the second."""
        whole = run_whole(self.files[0], self.inputs)
        return tuple(
            name
            for name, array in whole.items()
            if name not in second or array.tobytes() != second[name].tobytes()
        )

    def other_bits(self) -> tuple[str, ...]:
        """Return the results on which the two models differ, both run whole as they stand."""
        first = run_whole(self.files[0], self.inputs, "disabled")
        second = self.values[1]
        return tuple(
            name
            for name, array in first.items()
            if name not in second or array.tobytes() != second[name].tobytes()
        )

    def observe(self, region: Region) -> list[Observed]:
        """Return what the runs say of a region; nothing where a value was not seen.

        Raises:
            LastbitError: the region cannot be evaluated.
        """
        if region.plan is None or region.plan.after is None:
            return []
        programs = region.plan.program, region.plan.after
        typical = region.plan.sizes()
        given = [self._given(programs[0], side, typical) for side in (0, 1)]
        if any(one is None for one in given):
            return []
        sizes = {**typical, **_sizes(programs[0], given[0] or {})}
        found = [_evaluated(p, g or {}, sizes) for p, g in zip(programs, given, strict=True)]
        crossed = _evaluated(programs[1], given[0] or {}, sizes)
        graph = programs[0].bind(sizes)
        out = []
        for name in region.results:
            rounding = native_rounding(graph.values[name])
            runs = [self._value(side, name) for side in (0, 1)]
            if rounding is None or any(run is None for run in runs):
                continue
            fmt = _widest(rounding.format, [run for run in runs if run is not None])
            pair = [np.asarray(run, np.float64) for run in runs]
            first, second = (_distance(found[i][name], pair[i], fmt) for i in (0, 1))
            drift = _distance(found[0][name], crossed[name], fmt)
            seen = _distance(pair[0], pair[1], fmt)
            out.append(Observed(name, fmt.short, (first, second), drift, seen))
        return out

    def _given(
        self, program: Program, side: int, sizes: Mapping[str, int]
    ) -> dict[str, Array] | None:
        """Return the values of a region's inputs in one run, or None where one was not seen."""
        found: dict[str, Array] = {}
        for st in program.statements:
            if st.expr is None:
                array = self._value(side, st.name)
                if array is None:
                    shape = [dim.evaluate(sizes) for dim in st.dims or ()]
                    array = made_of_sizes(st.name, shape)
                if array is None:
                    return None
                found[st.name] = np.asarray(array, np.float64)
        return found

    def _value(self, side: int, name: str) -> Array | None:
        """Return a value of a run, by its name in the program; weights are those of the first."""
        model, values = self.models[side], self.values[side]
        origin = model.origins.get(name)
        names = [origin.original] if origin is not None else []
        names += [model.weights[name]] if name in model.weights else []
        for one in names:
            for key in (one, *(f"{prefix}{one}" for prefix in (KEPT, *CONVERTED))):
                if key in values:
                    return values[key]
        return self._value(0, name) if side else None


def made_of_sizes(name: str, shape: Sequence[int]) -> Array | None:
    """Return an input that depends on its sizes only, by its name; None where it is none."""
    word, *_, last = name.split("_")
    if name.startswith("causal_mask_"):
        return np.tril(np.ones(shape))
    if word in ("tril", "triu") and last.isdigit():
        diagonal = -int(last) if name.endswith(f"__{last}") else int(last)
        triangle = np.tril if word == "tril" else np.triu
        return triangle(np.ones(shape), diagonal)
    if word == "arange":
        return float(name.split("_")[1]) + np.arange(shape[0])
    return None


def _sizes(program: Program, given: Mapping[str, Array]) -> dict[str, int]:
    """Return the sizes of symbols, from the shapes of the values."""
    sizes: dict[str, int] = {}
    for st in program.statements:
        if st.expr is None:
            for dim, size in zip(st.dims or (), given[st.name].shape, strict=True):
                if dim.text in dim.symbols:
                    sizes[dim.text] = size
    return sizes


def _evaluated(
    program: Program, given: Mapping[str, Array], sizes: Mapping[str, int]
) -> dict[str, Array]:
    found = results(program.bind(sizes), ArrayDomain(given), Policy.BITS)
    return {name: values_of(x) for name, x in found.items()}


def _widest(fmt: Format, runs: Sequence[Array]) -> Format:
    """Return a format that holds the values of all runs: one may keep what another rounds."""
    kinds = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}
    given = (format_of(kinds[run.dtype]) for run in runs if run.dtype in kinds)
    return max((fmt, *given), key=lambda one: one.precision) if not fmt.is_grid else fmt


def _distance(a: Array, b: Array, fmt: Format) -> Distance:
    if a.shape != b.shape:
        raise LastbitError(f"the shapes {list(a.shape)} and {list(b.shape)} differ.")
    found = gap(a, b, fmt)
    return Distance(found.differing, int(a.size), found.ulps, found.scaled)
