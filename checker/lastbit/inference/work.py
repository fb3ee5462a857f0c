"""One inference: data from the kernel, the search, and what it leaves told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from lastbit.errors import InputError, Problem, did_you_mean
from lastbit.formats import Format
from lastbit.graph import Map, topological
from lastbit.inference import inputs as kinds
from lastbit.inference import records
from lastbit.inference.allowance import OFF, Allowance
from lastbit.inference.arrays import codes_of, plain_array
from lastbit.inference.explained import Explainer, best_inputs, plainness
from lastbit.inference.files import tensor_in
from lastbit.inference.kernel import Arrays, Kernel
from lastbit.inference.records import MOST_SHOWN, Inferred
from lastbit.inference.reference import Reference
from lastbit.inference.running import Agreement, Data, Runner
from lastbit.inference.search import Progress, Search
from lastbit.inference.separate import Apart, Group, Separator
from lastbit.inference.variants import Variant
from lastbit.round_array import Codes

GIVEN = "given"
ALMOST = 0.99  # the share of elements from which on a library's functions may be the reason
MOST_SEARCHES = 3  # on more and more data
MORE_ROUNDS = 6  # in which the kernel is called again to tell variants apart
ENOUGH = 1 << 19  # elements; with as many, a round that tells none apart is the last
TREE_ROUNDS = 8  # in which it is called again to tell trees of one sum apart
MOST_CALLS = 20  # of the kernel on inputs that are aimed at two variants
MOST_GROUPED = 40  # variants that are compared with each other


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
    draws: int = 0

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
        survivors, left = search.run(), []
        if search.base_failed:
            raise _error(f"the reference cannot be run: {search.base_failed}")
        for _ in range(MOST_SEARCHES):
            survivors.sort(key=plainness)
            left = self._more_data(survivors)
            if left or not survivors:
                break
            survivors = search.resume(survivors)
        if left:
            left = self._filtered(left, search.beside(left[0]))
        if search.cut_short:
            self.notes.append(
                f"of changes that meet, {self.effort} of each number were tried; more with --effort"
            )
        if not left:
            near = search.nearest()
            return self._result(records.NONE, [], near, search.tried, [])
        survivors = left
        groups = self._groups(separator, survivors, search)
        groups, apart = self._told_apart(separator, groups)
        if not groups:
            near = search.measured(left)
            return self._result(records.NONE, [], near, search.tried, [])
        alone = len(groups) == 1 and len(survivors) <= MOST_GROUPED
        status = records.FOUND if alone else records.AMBIGUOUS
        return self._result(status, groups, [], search.tried, apart)

    def _filtered(self, left: list[Variant], more: list[Variant]) -> list[Variant]:
        """Return variants that agree, and more that do, on more data."""
        if not more:
            return left
        known = {variant.key for variant in left}
        return self._more_data([*left, *(v for v in more if v.key not in known)])

    # Data.

    def _collect(self, data: Any, observed: Any) -> None:
        ref = self.reference
        given = None if data is None else self._given(data)
        if observed is not None:
            inputs = given or kinds.drawn(ref.inputs, ref.plan.inputs, self.seed)
            if isinstance(observed, str):
                self.observed_in = observed
            name = GIVEN if given else kinds.DRAWN
            self.runner.add(Data(name, inputs, self._observed(observed)))
            return
        assert self.kernel is not None
        names = [*kinds.USUAL, kinds.SPECIAL] if self.special else list(kinds.USUAL)
        sets = [(GIVEN, given)] if given else []
        sets += [
            (name, kinds.drawn(ref.inputs, ref.plan.inputs, self.seed, name)) for name in names
        ]
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

    def _given(self, data: Any) -> dict[str, Codes]:
        wanted = {node.name: (node.format, node.shape) for node in self.reference.inputs}
        if isinstance(data, str):
            return {
                name: tensor_in(data, name, fmt, shape, f"the input `{name}`")
                for name, (fmt, shape) in wanted.items()
            }
        return _named_arrays(data, wanted, "input")

    def _observed(self, observed: Any) -> dict[str, Codes]:
        wanted = {r.name: (r.format, r.shape) for r in self.reference.results}
        if isinstance(observed, str):
            return {
                name: tensor_in(observed, name, fmt, shape, f"the result `{name}`")
                for name, (fmt, shape) in wanted.items()
            }
        if not isinstance(observed, Mapping):
            several = isinstance(observed, tuple | list)
            observed = dict(zip(wanted, observed if several else [observed], strict=False))
        return _named_arrays(observed, wanted, "result")

    # Telling variants apart.

    def _more_data(self, survivors: list[Variant]) -> list[Variant]:
        """Call the kernel on more inputs, and keep the variants that agree there too.

        Where none is left on usual inputs, those come first in the next search.
        """
        if self.kernel is None or not survivors:
            return survivors
        ref = self.reference
        for _ in range(MORE_ROUNDS):
            before = len(survivors)
            self.draws += 1
            for kind in (*kinds.USUAL, *kinds.TELLING):
                inputs = kinds.drawn(ref.inputs, ref.plan.inputs, self.seed + self.draws, kind)
                survivors = self._kept(survivors, inputs, kind)
                if not survivors:
                    self.runner.bring_forward()
                    return []
            enough = sum(self.explainer.data().values()) >= ENOUGH
            if len(survivors) == before and (enough or len(survivors) == 1):
                break
        return survivors

    def _kept(self, survivors: list[Variant], inputs: Arrays, name: str) -> list[Variant]:
        """Return the variants that agree on more inputs, which stay among the data.

        Where none does, but the nearest only differs where a result is not ordinary, the inputs are
        taken back, and all variants are kept.
        """
        assert self.kernel is not None
        runner = self.runner
        runner.add(Data(name, inputs, self.kernel(inputs)))
        number = len(runner.data) - 1
        found = [(v, runner.whole(v, stop=True, numbers=[number])) for v in survivors]
        kept = [v for v, agreement in found if agreement is not None and agreement.whole]
        if kept:
            return kept
        counts = [runner.differences(v, number) for v in survivors[:MOST_GROUPED]]
        total = sum(codes.size for codes in runner.data[number].outputs.values())
        differ, ordinary = min(counts, key=lambda pair: (pair[1], pair[0]))
        if ordinary or name in kinds.USUAL:
            return []
        runner.drop_last()
        note = f"inputs {name!r} were not counted: there the nearest differs in "
        if not any(one.startswith(note) for one in self.notes):
            self.notes.append(
                f"{note}{differ:,} of {total:,} elements, each beside infinity, NaN, zero or a "
                "subnormal"
            )
        return survivors

    def _groups(
        self, separator: Separator, survivors: list[Variant], search: Search
    ) -> list[Group]:
        if len(survivors) > MOST_GROUPED:
            self.notes.append(f"{len(survivors) - MOST_GROUPED} more variants give all bits")
        groups = separator.grouped(survivors[:MOST_GROUPED])
        for group in groups:
            alike = [*group.all, *(alias for v in group.all for alias in search.aliases(v))]
            group.first, *group.others = sorted(alike, key=plainness)
        return groups

    def _told_apart(
        self, separator: Separator, groups: list[Group]
    ) -> tuple[list[Group], list[tuple[int, int, Apart]]]:
        """Ask the kernel where two groups differ; return what is left, and inputs for that."""
        groups = self._trees_told_apart(groups)
        tried: set[frozenset[int]] = set()
        for call in range(MOST_CALLS if self.kernel is not None else 0):
            pairs = (pair for pair in combinations(groups, 2) if _pair(*pair) not in tried)
            pair = next(pairs, None)
            if pair is None:
                break
            tried.add(_pair(*pair))
            apart = separator.apart(pair[0].first, pair[1].first, skip=10 * call)
            if apart is None:
                continue
            firsts = [group.first for group in groups]
            kept = self._kept(firsts, apart.inputs, apart.kind)
            groups = [group for group in groups if any(group.first is v for v in kept)]
        found = []
        for number, group in enumerate(groups[1:MOST_SHOWN], 1):
            apart = separator.apart(groups[0].first, group.first)
            if apart is not None:
                found.append((1, number + 1, apart))
        return groups, found

    def _trees_told_apart(self, groups: list[Group]) -> list[Group]:
        """Call the kernel where trees may differ, as long as groups differ in nothing else.

        What trees of one sum lose rarely shows behind another rounding, so many elements are seen.
        """
        ref = self.reference
        for _ in range(TREE_ROUNDS if self.kernel is not None else 0):
            self.draws += 1
            for kind in (kinds.ABSORBED, kinds.FAR, kinds.WIDE):
                if len({group.first.skeleton for group in groups}) == len(groups):
                    return groups
                seed = self.seed + self.draws
                inputs = kinds.drawn(ref.inputs, ref.plan.inputs, seed, kind)
                kept = self._kept([group.first for group in groups], inputs, kind)
                groups = [group for group in groups if any(group.first is v for v in kept)]
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
        if near and self.allowance is None and near[0][1].share > ALMOST:
            nodes = topological(near[0][0].nodes.values())
            off = sorted({node.fn for node in nodes if isinstance(node, Map)} & OFF)
            if off:
                self.notes.append(
                    f"the kernel's library may compute {', '.join(off)} within some ulp only; "
                    "--ulp 2 --as f32 allows for that"
                )
        self.notes += [
            f"{count} variants could not be run: {reason}"
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
        )


def _pair(a: Group, b: Group) -> frozenset[int]:
    return frozenset((id(a), id(b)))


def _named_arrays(
    given: Any, wanted: Mapping[str, tuple[Format, tuple[int, ...]]], what: str
) -> dict[str, Codes]:
    if not isinstance(given, Mapping):
        raise _error(
            f"the {what}s are of type {type(given).__name__}", f"Give arrays by name of the {what}."
        )
    found = {}
    for name, (fmt, shape) in wanted.items():
        if name not in given:
            raise _error(f"the {what} `{name}` has no array", did_you_mean(name, given))
        plain = plain_array(given[name])
        if plain is None:
            raise _error(f"the {what} `{name}` is of type {type(given[name]).__name__}, no array")
        array, held = plain
        if [n for n in array.shape if n != 1] != [n for n in shape if n != 1]:
            raise _error(
                f"the {what} `{name}` has the shape {list(array.shape)}, not {list(shape)}"
            )
        codes = codes_of(array, held, fmt)
        if isinstance(codes, str):
            raise _error(f"the {what} `{name}` holds {codes}")
        found[name] = np.ascontiguousarray(codes.reshape(shape))
    return found


def _error(message: str, remedy: str = "") -> InputError:
    return InputError([Problem(message, remedy)])
