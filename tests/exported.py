"""Export one torch function, import the file, and evaluate it bit for bit beside torch itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lastbit.formats import format_of
from lastbit.importers.imported import Imported
from lastbit.importers.pt2 import read_pt2
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import evaluate
from lastbit.interpret.policy import Policy
from lastbit.ulp_array import ulp_distance_array

FORMATS = {"torch.bfloat16": "bf16", "torch.float16": "f16", "torch.float32": "f32"}


def imported(folder: Path, function: Any, inputs: tuple[Any, ...], **keywords: Any) -> Imported:
    """Return the graph of a function, by way of a `.pt2` file."""
    import torch

    class Module(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return function(*args)

    module = function if isinstance(function, torch.nn.Module) else Module()
    path = folder / "one.pt2"
    torch.export.save(torch.export.export(module, inputs, **keywords), path)
    return read_pt2(str(path))


def interpreted(model: Imported, given: dict[str, Any]) -> list[Any]:
    """Return the results of an imported graph in the array domain, every rounding carried out."""
    sizes = {name: span.typical for name, span in model.symbols.items()}
    graph = model.program.bind(sizes)
    arrays = {name: np.asarray(value, np.float64) for name, value in given.items()}
    nodes = [graph.values[name] for name in model.results]
    return [values_of(x) for x in evaluate(nodes, ArrayDomain(arrays), Policy.BITS)]


def difference(folder: Path, function: Any, inputs: tuple[Any, ...], **given: Any) -> int:
    """Return the greatest distance between torch and the imported graph, in ulp of the result.

    Args:
        folder: where the file is written.
        function: of tensors.
        inputs: the tensors.
        given: values of inputs that the importer adds: masks and indices.
    """
    import torch

    model = imported(folder, function, inputs)
    assert not model.opaque, model.opaque
    named = {
        name: value.double().numpy() for name, value in zip(user_inputs(model), inputs, strict=True)
    }
    got = interpreted(model, named | given)
    wanted = function(*inputs)
    wanted = wanted if isinstance(wanted, tuple | list) else (wanted,)
    assert len(got) == len(wanted)
    worst = 0
    for ours, theirs in zip(got, wanted, strict=True):
        assert ours.shape == tuple(theirs.shape)
        values = theirs.double().numpy() if isinstance(theirs, torch.Tensor) else theirs
        name = FORMATS.get(str(theirs.dtype))
        if name is None:
            assert np.array_equal(ours, values)
            continue
        found = ulp_distance_array(ours, values, format_of(name))
        odd = found.of_kind("inf") | found.of_kind("nan")
        assert not odd.any()
        worst = max(worst, int(found.ulps.max(initial=0)))
    return worst


def user_inputs(model: Imported) -> list[str]:
    """Return the inputs of the program that the function takes, in order."""
    return [
        st.name
        for st in model.program.statements
        if st.expr is None and st.name in model.origins and st.name not in model.weights
    ]
