"""Drift on a sample of outputs: reduced axes at their true sizes, others cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from lastbit.errors import LastbitError
from lastbit.graph import Reduce, topological
from lastbit.records import Drift
from lastbit.verify.bench import Bench
from lastbit.verify.drift import measure
from lastbit.verify.region import Region
from lastbit.verify.sizing import Instance

MANY_NODES = 200  # nodes of a region of which fewer outputs are sampled
FEW_OUTPUTS = 1 << 8  # sampled outputs of a region with very long sums
MOST_TERMS = 1 << 24  # terms of scheduled sums that are added for one sample
SMALL_OUTPUTS = 1 << 12  # sampled outputs of a region with a scheduled sum
MANY_OUTPUTS = 1 << 18  # sampled outputs of an elementwise region
MOST_INPUTS = 1 << 21  # elements of the inputs of a region in which drift is measured


def sampled_drift(
    bench: Bench, whole: Region, region_at: Callable[[Instance], Region | None], seed: int
) -> tuple[Drift | None, str]:
    """Measure drift on sampled outputs.

    Args:
        bench: the plan's program at any sizes.
        whole: the region at the plan's sizes.
        region_at: the region at some sizes, where it applies there.
        seed: selects the draws.

    Returns:
        the drift, or None and why it was not measured.
    """
    sizes, parallel = _sampled_sizes(bench, whole)
    while True:
        region = region_at(replace(bench.true, sizes=sizes))
        if region is None:
            return None, "drift not measured: the transform does not apply at sampled sizes"
        if sum(prod(node.shape) for node in region.inputs) <= MOST_INPUTS:
            break
        longest = max(parallel, key=sizes.__getitem__, default=None)
        if longest is None or sizes[longest] == 1:
            return None, "drift not measured: the region reads more than fits"
        sizes[longest] //= 2
    total = sum(prod(node.shape) for node in whole.before.results)
    specs = {
        node.name: bench.plan.inputs[node.name]
        for node in region.inputs
        if node.name in bench.plan.inputs
    }
    try:
        return measure(region.before, region.after, specs, seed, total), ""
    except LastbitError as error:
        return None, f"drift not measured: {str(error).rstrip('.')}"


def _sampled_sizes(bench: Bench, whole: Region) -> tuple[dict[str, int], list[str]]:
    """Return the true sizes, with axes along which nothing is reduced cut to a sample.

    Returns:
        the sizes, and the symbols that may be cut further: these, and that of the batch.
    """
    nodes = list(topological([*whole.before.results, *whole.after.results]))
    lengths = {n.length for n in nodes if isinstance(n, Reduce)}
    scheduled = any(isinstance(n, Reduce) and n.acc is not None for n in nodes)
    present = {size for node in whole.inputs for size in node.shape}
    axes = bench.axes
    parallel = [
        name for name, axis in axes.items() if axis.true in present and not axis.reduced_in(lengths)
    ]
    budget = MANY_OUTPUTS
    if scheduled:
        budget = max(FEW_OUTPUTS, min(SMALL_OUTPUTS, MOST_TERMS // max(lengths)))
    if len(nodes) > MANY_NODES:
        budget //= 4
    if lengths and not scheduled:
        budget = max(1, budget // max(lengths))
    sizes = dict(bench.true.sizes)
    for i, name in enumerate(parallel):
        share = round(budget ** (1 / (len(parallel) - i)))
        sizes[name] = max(1, min(axes[name].true, share))
        budget = max(1, budget // sizes[name])
    batch = [] if bench.plan.batch is None else [bench.plan.batch]
    return sizes, [*parallel, *(name for name in batch if name not in parallel)]
