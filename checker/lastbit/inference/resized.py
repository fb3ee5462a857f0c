"""Variants of one program at other sizes than those that are run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from lastbit.definitions import Definitions
from lastbit.errors import LastbitError
from lastbit.inference.reference import Reference
from lastbit.inference.variants import Variant
from lastbit.plan_model import Plan, Transform
from lastbit.verify.bench import Bench
from lastbit.verify.classify import Case
from lastbit.verify.decide import MOST_ELEMENTS
from lastbit.verify.region import Region, region_of
from lastbit.verify.sizing import Axis, Instance, instances, witness_instances
from lastbit.verify.witness import EFFORT, Kept, Sized, cost_of

MOST_AT_ONCE = 1 << 16  # elements of a region that is compared at its true sizes


class Resized:
    """Programs of variants at any sizes.

    Args:
        reference: the reference.
    """

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self._benches: dict[tuple[tuple[str, ...], ...], tuple[Bench, dict[str, Axis]]] = {}

    def bench(self, variant: Variant) -> tuple[Bench, dict[str, Axis]]:
        """Return the program with the moves of a variant, and how they cut its axes."""
        key = tuple(move.key for move in variant.moves)
        if key not in self._benches:
            steps = tuple(
                Transform(f"move-{i}", move.rule, move.at, dict(move.parameters))
                for i, move in enumerate(variant.moves)
            )
            plan: Plan = replace(self.reference.plan, transforms=steps)
            bench = Bench(plan)
            sited = []
            for number, step in enumerate(steps):
                program = bench.before(number, bench.true)
                site = bench.site(step, bench.true, program)
                sited.append((step, site, step.rule.apply(site)))
            self._benches[key] = bench, bench.axes_cut_by(sited)
        return self._benches[key]

    def _axes(self, a: Variant, b: Variant) -> dict[str, Axis]:
        first, second = self.bench(a)[1], self.bench(b)[1]
        merged = {}
        for name, axis in first.items():
            other = second[name]
            merged[name] = replace(
                axis,
                reduced=axis.reduced or other.reduced,
                lengths=axis.lengths | other.lengths,
                counts=axis.counts | other.counts,
                own=axis.own or other.own,
            )
        return merged

    def programs(
        self, a: Variant, b: Variant, instance: Instance
    ) -> tuple[Definitions, Definitions] | None:
        """Return both programs at some sizes; None where a move does not apply there."""
        try:
            first, second = (
                self.bench(variant)[0].before(len(variant.moves), instance) for variant in (a, b)
            )
        except LastbitError:
            return None
        return first, second

    def few_rows(self, a: Variant, b: Variant) -> Instance:
        """Return sizes of which those along reduced axes are true, and others small."""
        axes = self._axes(a, b).items()
        sizes = {n: x.true if x.cut else min(x.true, 2 + i) for i, (n, x) in enumerate(axes)}
        return Instance(sizes, dict.fromkeys(sizes, Fraction(1)), "true")

    def region(
        self, a: Variant, b: Variant, instance: Instance, whole: bool = False
    ) -> Region | None:
        """Return what differs of two programs at some sizes, or all of both."""
        programs = self.programs(a, b, instance)
        if programs is None:
            return None
        first, second = programs
        if not whole:
            return region_of(first, second, changed(first, second))
        inputs = [name for name in first.nodes if first.is_input(name)]
        return Region(*(p.closed(p.outputs, inputs) for p in programs))

    def cases(self, a: Variant, b: Variant) -> Iterator[Case]:
        """Yield both variants with the reduced axes at their true sizes, and few rows.

        Where that is too much, at small sizes and at the true size of one axis at a time.
        """
        whole = self.few_rows(a, b)
        region = self.region(a, b, whole)
        if region is not None and cost_of(region) <= MOST_AT_ONCE:
            yield Case(dict(whole.sizes), region)
            return
        for instance in instances(self._axes(a, b), self.bench(a)[0].literals):
            region = self.region(a, b, instance)
            if region is not None and cost_of(region) <= MOST_ELEMENTS:
                yield Case(dict(instance.sizes), region, instance.purpose == "true")

    def for_witnesses(self, a: Variant, b: Variant) -> Kept[Sized]:
        """Return both whole programs at sizes for witnesses, from the smallest upwards."""
        return Kept(
            (dict(instance.sizes), region)
            for instance in witness_instances(self._axes(a, b))
            if (region := self.region(a, b, instance, whole=True)) is not None
            and cost_of(region) <= EFFORT
        )


def changed(a: Definitions, b: Definitions) -> list[str]:
    """Return the values whose definitions differ, in order."""
    return [
        name
        for name in {**a.nodes, **b.nodes}
        if name not in a.nodes or name not in b.nodes or a.nodes[name].key != b.nodes[name].key
    ]
