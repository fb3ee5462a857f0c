"""One inference: data from the kernel, the search, and what it leaves told apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lastbit.errors import InputError, Problem
from lastbit.graph import Map, Reduce, topological
from lastbit.inference import inputs as kinds
from lastbit.inference import records
from lastbit.inference.agreement import Agreement
from lastbit.inference.allowance import OFF, Allowance
from lastbit.inference.explained import Explainer, best_inputs, plainness
from lastbit.inference.given import given_inputs, names_in, observed_results
from lastbit.inference.kernel import Arrays, Kernel
from lastbit.inference.records import MOST_SHOWN, Inferred
from lastbit.inference.reference import Reference
from lastbit.inference.running import Data, Runner
from lastbit.inference.search import Progress, Search
from lastbit.inference.separate import Apart, Group, Separator
from lastbit.inference.telling import MOST_GROUPED, Teller
from lastbit.inference.units import operands_of
from lastbit.inference.variants import Variant
from lastbit.report.words import plural

GIVEN = "given"
ALMOST = 0.99  # the share of elements from which on a library's functions may be the reason
MOST_SEARCHES = 2  # on more and more data
NEARBY = 8  # codes between two results of an inexact function


@dataclass
class Inference:
    """One inference.

    Attributes:
        reference: the reference.
        kernel: the kernel, or None where its results were given.
        seed: selects every draw.
        depth: the most changes at a time.
        effort: variants of two and of three changes that are tried.
        machine: the machine whose matrix unit may add products, or None.
        special: whether special values are among the inputs.
        allowance: how far functions may be off, or None.
        progress: called while variants are tried.
    """

    reference: Reference
    kernel: Kernel | None
    seed: int
    depth: int
    effort: int
    machine: str | None
    special: bool
    allowance: Allowance | None
    progress: Progress | None
    notes: list[str] = field(default_factory=list)
    runner: Runner = field(init=False)
    explainer: Explainer = field(init=False)
    observed_in: str = "the observed results"
    teller: Teller = field(init=False)

    def run(self, data: Any, observed: Any) -> Inferred:
        """Return what gives the bits."""
        ref = self.reference
        self.runner = Runner(ref.results, ref.formats, self.seed, self.allowance)
        self.explainer = Explainer(ref, self.runner)
        self._collect(data, observed)
        base = Variant.of(ref.program)
        search = Search(
            self.runner,
            base,
            self.depth,
            self.effort,
            self.special,
            None,
            self.progress,
            self.machine,
        )
        separator = Separator(ref, self.runner, self.seed)
        self.teller = Teller(
            ref, self.kernel, self.runner, separator, self.seed, self.effort, self.notes
        )
        found = search.run()
        if search.base_failed:
            raise _error(f"the reference cannot be run: {search.base_failed}")
        groups: list[Group] = []
        apart: list[tuple[int, int, Apart]] = []
        for turn in range(MOST_SEARCHES + 1):
            failed = found
            left = self._left(found, search)
            if left:
                groups, apart = self.teller.told_apart(self._groups(separator, left, search))
                failed = left
            if groups or not failed or turn == MOST_SEARCHES:
                break
            found = search.resume(failed)
        if search.cut_short:
            self.notes.append(
                f"of changes that meet, {self.effort} of each number were tried; more with --effort"
            )
        if not groups:
            return self._result(records.NONE, [], search.nearest(), search.tried, [])
        alone = len(groups) == 1 and len(left) <= MOST_GROUPED
        status = records.FOUND if alone else records.AMBIGUOUS
        return self._result(status, groups, [], search.tried, apart)

    def _left(self, found: list[Variant], search: Search) -> list[Variant]:
        """Return the variants that agree on more data, and those beside them that do."""
        left = self.teller.more_data(sorted(found, key=plainness))
        more = search.beside(left[0]) if left else []
        if more:
            known = {variant.key for variant in left}
            left = self.teller.more_data([*left, *(v for v in more if v.key not in known)])
            left = [v for v in self.teller.seen_more(left) if v.key in known or self._agrees(v)]
        return self.teller.seen_more(left) if len(left) > MOST_GROUPED else left

    def _agrees(self, variant: Variant) -> bool:
        whole = self.runner.whole(variant, stop=True)
        return whole is not None and whole.whole

    # Data.

    def _collect(self, data: Any, observed: Any) -> None:
        ref = self.reference
        given = None if data is None else given_inputs(ref, data)
        names = names_in(data) if isinstance(data, str) else []
        inputs_of = {node.name for node in ref.inputs}
        if len(names) > 1:
            unread = [name for name in names if name not in inputs_of]
            self.notes += [f"{data} has `{name}`, which is no input" for name in unread]
        if self.machine is not None and not _has_product(ref):
            self.notes.append(f"the reference has no product that `{self.machine}` could add")
        if observed is not None:
            inputs = given or ref.drawn(self.seed)
            if isinstance(observed, str):
                self.observed_in = observed
            name = GIVEN if given else kinds.DRAWN
            self.runner.add(Data(name, inputs, observed_results(ref, observed)))
            return
        assert self.kernel is not None
        chosen = [*ref.first, kinds.SPECIAL] if self.special else list(ref.first)
        sets = [(GIVEN, given)] if given else []
        sets += [(name, ref.drawn(self.seed, name)) for name in chosen]
        for name, inputs in sets:
            assert inputs is not None
            self.runner.add(Data(name, inputs, self.kernel(inputs)))
        self._check_repeats(self.runner.data[0])

    def _check_repeats(self, data: Data) -> None:
        """Note where the kernel gives other bits in a second run."""
        assert self.kernel is not None
        again = self.kernel(data.inputs)
        for wanted in self.reference.results:
            differs = int((again[wanted.name] != data.outputs[wanted.name]).sum())
            if differs:
                self.notes.append(
                    f"the kernel is not deterministic: {differs:,} of {again[wanted.name].size:,} "
                    f"elements of `{wanted.name}` differ in a second run on the same inputs, so no "
                    "variant can have all its bits"
                )

    # Telling variants apart.

    def _groups(
        self, separator: Separator, survivors: list[Variant], search: Search
    ) -> list[Group]:
        if len(survivors) > MOST_GROUPED:
            more = plural(len(survivors) - MOST_GROUPED, "more variant")
            self.notes.append(f"{more} agreed, and nothing tells them apart")
        groups = separator.grouped(survivors[:MOST_GROUPED])
        for group in groups:
            alike = [*group.all, *(alias for v in group.all for alias in search.aliases(v))]
            group.first, *group.others = sorted(alike, key=plainness)
        return groups

    # The result.

    def _result(
        self,
        status: str,
        groups: Sequence[Group],
        near: Sequence[tuple[Variant, Agreement]],
        tried: int,
        apart: Sequence[tuple[int, int, Apart]],
    ) -> Inferred:
        inputs: Arrays = {}
        if apart:
            inputs = best_inputs(apart, groups, self.runner)
        elif near and near[0][1].failure is not None:
            inputs = self.runner.data[near[0][1].failure[0]].inputs
        told = {second for _, second, _ in apart}
        alike = [str(n) for n in range(2, min(len(groups), MOST_SHOWN) + 1) if n not in told]
        if alike:
            self.notes.append(
                f"no input was found on which 1 differs from {', '.join(alike)}, and they are not "
                "proven equal"
            )
        if near and self.allowance is None and near[0][1].share > ALMOST and _beside(near[0][1]):
            nodes = topological(near[0][0].nodes.values())
            off = sorted({node.fn for node in nodes if isinstance(node, Map)} & OFF)
            if off:
                self.notes.append(
                    f"the kernel's library may compute {', '.join(off)} within some ulp only; "
                    "--ulp 2 --as f32 allows for that"
                )
        self.notes += [
            f"{plural(count, 'variant')} could not be run: {reason}"
            for reason, count in sorted(self.runner.unable.items())
        ]
        explainer = self.explainer
        kernel = self.observed_in if self.kernel is None else f"`{self.kernel.name}`"
        return Inferred(
            status=status,
            reference=f"`{self.reference.name}`",
            kernel=kernel,
            variants=tuple(explainer.explained(group) for group in groups),
            near=tuple(explainer.near(variant, agreement) for variant, agreement in near),
            data=explainer.data(),
            seed=self.seed,
            tried=tried,
            notes=tuple(self.notes),
            apart=tuple(explainer.apart(*one) for one in apart),
            inputs=inputs,
            formats=self.reference.formats,
            uncounted=tuple(sorted(self.teller.uncounted)),
        )


def _has_product(reference: Reference) -> bool:
    nodes = topological(reference.program.nodes.values())
    return any(isinstance(node, Reduce) and operands_of(node) is not None for node in nodes)


def _beside(agreement: Agreement) -> bool:
    """Return whether elements that differ do so by a few codes, as those of inexact functions."""
    return agreement.distance <= (1 - agreement.share) * math.log2(1 + NEARBY)


def _error(message: str, remedy: str = "") -> InputError:
    return InputError([Problem(message, remedy)])
