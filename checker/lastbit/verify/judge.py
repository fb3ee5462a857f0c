"""Judge each transform of a plan: kind of change, domain, promises, drift and a witness."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from lastbit.change import Change
from lastbit.errors import InputError, LastbitError
from lastbit.formats import bits_text
from lastbit.graph import Input, Node, Reduce, native_rounding, substitute, topological
from lastbit.plan_model import Plan, Transform
from lastbit.printing import print_graph
from lastbit.records import (
    DomainEntry,
    Drift,
    Evidence,
    Program,
    Promise,
    Witness,
    WitnessInput,
    hex_of,
)
from lastbit.rule import Edits, RejectedError, Site, Value
from lastbit.schedule import symbols
from lastbit.verify.bench import Bench
from lastbit.verify.classify import ASSUMES, Case, Verdict, classify
from lastbit.verify.domain import Misbehaviour, misbehaviours
from lastbit.verify.drift import measure
from lastbit.verify.promises import Varying, promises_of
from lastbit.verify.region import Region, region_of
from lastbit.verify.rename import rename_entry, rename_text, rename_witness
from lastbit.verify.sizing import Axis, Instance, instances, witness_instances
from lastbit.verify.witness import Found

MOST_VARIANTS = 8  # parameter values over a symbol's range that are judged
MOST_FOLLOWED = 3  # steps by which a region is followed further into the program
MOST_NODES = 4000  # nodes of a region that is judged at a true size
SMALL_OUTPUTS = 1 << 12  # sampled outputs of a region with a scheduled sum
MANY_OUTPUTS = 1 << 18  # sampled outputs of an elementwise region
MOST_INPUTS = 1 << 23  # elements of the inputs of a region in which drift is measured


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found out about one transform.

    Attributes:
        transform: the transform.
        title: one sentence in the user's words.
        change: the kind of change.
        outputs: the names of the region's results.
        domain: classes of inputs on which one side misbehaves.
        promises: each promise before and after.
        drift: how far apart, or None.
        witness: an input that shows the kind, or None.
        evidence: what decided.
        notes: further sentences.
        rejected: why the rule cannot be applied; empty where it can.
        same_as: the number of an earlier transform on an equal region.
    """

    transform: Transform
    title: str
    change: Change
    outputs: tuple[str, ...] = ()
    domain: tuple[DomainEntry, ...] = ()
    promises: Mapping[str, Promise] = field(default_factory=dict)
    drift: Drift | None = None
    witness: Witness | None = None
    evidence: tuple[Evidence, ...] = ()
    notes: tuple[str, ...] = ()
    rejected: str = ""
    same_as: int | None = None


class Judge:
    """Judges the transforms of one plan, in order.

    Args:
        plan: the plan.
        seed: selects every draw.
        tick: called while evaluating; may raise to stop.
    """

    def __init__(self, plan: Plan, seed: int = 0, tick: Callable[[], None] | None = None) -> None:
        self.plan, self.seed, self.tick = plan, seed, tick
        self.bench = Bench(plan)
        self._edits: list[Edits | RejectedError] = []
        self._titles: list[str] = []
        self._axes: dict[int, dict[str, Axis]] = {}
        self._regions_of: dict[tuple[object, ...], Region | None] = {}
        self._varying: dict[str, tuple[Varying, ...]] = self._text_varying()
        self._seen: dict[object, tuple[int, Judged, Region]] = {}

    def run(self) -> Iterator[Judged]:
        """Yield a verdict for each transform."""
        self._survey()
        for number, transform in enumerate(self.plan.transforms):
            yield self._step(number, transform)

    def _text_varying(self) -> dict[str, tuple[Varying, ...]]:
        out = {}
        for st in self.plan.program.statements:
            if st.schedule is None:
                continue
            found = []
            for symbol in sorted(symbols(st.schedule)):
                span = self.plan.symbols[symbol]
                if span.low != span.high:
                    count = span.high - span.low + 1
                    found.append(Varying(str(st.schedule), symbol, count, span.low, span.high))
            out[st.name] = tuple(found)
        return out

    def _survey(self) -> None:
        """Apply every transform at the plan's sizes, and learn how they cut the axes."""
        bench = self.bench
        for number, transform in enumerate(self.plan.transforms):
            program = bench.before(number, bench.true)
            site = bench.site(transform, bench.true, program)
            try:
                edits = transform.rule.apply(site)
            except RejectedError as error:
                self._edits.append(error)
                self._titles.append(transform.rule.summary)
                continue
            self._edits.append(edits)
            self._titles.append(self._title(transform, site))
            self._axes[number] = bench.axes_of(transform, site, edits)

    def _title(self, transform: Transform, site: Site) -> str:
        """Return the rule's sentence; of a parameter that varies, the largest value speaks."""
        if transform.rule.title is None:
            return transform.rule.summary
        variants, varying = self.bench.variants(transform)
        if not varying:
            return transform.rule.title(site)
        names = {parameter.parameter for parameter in varying}
        largest = max(variants, key=lambda given: sum(int(given[name]) for name in names))
        title = transform.rule.title(replace(site, parameters=largest))
        return f"{title} ({'; '.join(map(str, varying))})"

    def _step(self, number: int, transform: Transform) -> Judged:
        edits, title = self._edits[number], self._titles[number]
        if isinstance(edits, RejectedError):
            return Judged(transform, title, Change.UNKNOWN, rejected=str(edits))
        old = self.bench.before(number, self.bench.true)
        whole = region_of(old, old.edited(edits), edits)
        variants, varying = self.bench.variants(transform)
        if not transform.branch and not transform.rule.placement:
            for name in edits:
                self._varying[name] = (*self._varying.get(name, ()), *varying)
        if whole is None:
            note = "nothing that the program returns depends on it"
            return Judged(transform, title, Change.BITWISE, notes=(note,))
        key = (*_renamed_key(whole), tuple(map(repr, variants)), self._specs(whole))
        if key in self._seen:
            return self._again(number, transform, title, whole, key)
        judged = self._decide(number, transform, title, whole, edits, variants, varying)
        self._seen[key] = number, judged, whole
        return judged

    def _specs(self, region: Region) -> tuple[str, ...]:
        return tuple(repr(self.plan.inputs.get(node.name)) for node in region.inputs)

    def _again(
        self, number: int, transform: Transform, title: str, region: Region, key: object
    ) -> Judged:
        """Return the verdict of an equal region, in this region's names."""
        first, judged, known = self._seen[key]
        names: dict[str, str] = {}
        for old, new in ((known.before, region.before), (known.after, region.after)):
            names |= dict(zip(old.values, new.values, strict=True))
        return replace(
            judged,
            transform=transform,
            title=title,
            outputs=region.outputs,
            domain=tuple(rename_entry(entry, names) for entry in judged.domain),
            promises={
                name: replace(promise, cause=rename_text(promise.cause, names))
                for name, promise in judged.promises.items()
            },
            witness=None if judged.witness is None else rename_witness(judged.witness, names),
            drift=None
            if judged.drift is None
            else replace(judged.drift, output=names.get(str(judged.drift.output))),
            same_as=first,
        )

    def _decide(
        self,
        number: int,
        transform: Transform,
        title: str,
        whole: Region,
        edits: Edits,
        variants: list[dict[str, Value]],
        varying: list[Varying],
    ) -> Judged:
        self._regions_of = {(True, *self.bench.true.sizes.values(), "None", 0): whole}
        worst: Verdict | None = None
        chosen = _spread(variants, MOST_VARIANTS)
        extend = 0
        for parameters in chosen:
            verdict, reach = self._classify(number, whole, parameters)
            if worst is None or verdict.change > worst.change:
                worst, extend = verdict, reach
        assert worst is not None
        self._choose_sizes(number, whole, extend)
        notes = []
        if len(chosen) < len(variants):
            notes.append(f"judged for {len(chosen)} of {len(variants)} parameter values")
        small = self._region(number, self.small[0], None, extend)
        domain = misbehaviours(
            self._regions(number, self.witnesses[:3], None, extend), worst.change
        )
        drift = None
        if worst.change != Change.BITWISE:
            drift, note = self._drift(number, whole, extend)
            notes += [note] if note else []
        true = self._region(number, self.bench.true, None, extend) or whole
        return Judged(
            transform,
            title,
            worst.change,
            true.outputs,
            tuple(self._entry(m) for m in domain),
            self._promises(small, edits, varying),
            drift,
            None if worst.witness is None else self._witness(worst.witness, worst.change),
            (_evidence(worst),),
            tuple(notes),
        )

    def _region(
        self,
        number: int,
        instance: Instance,
        parameters: Mapping[str, Value] | None,
        extend: int = 0,
    ) -> Region | None:
        """Return the region of a transform at some sizes; None where it does not apply there."""
        key = (instance.purpose == "true", *instance.sizes.values(), repr(parameters), extend)
        if key not in self._regions_of:
            self._regions_of[key] = self._new_region(number, instance, parameters, extend)
        return self._regions_of[key]

    def _new_region(
        self,
        number: int,
        instance: Instance,
        parameters: Mapping[str, Value] | None,
        extend: int,
    ) -> Region | None:
        try:
            old = self.bench.before(number, instance)
            edits = self.bench.edits(number, instance, old, parameters)
            return region_of(old, old.edited(edits), edits, extend)
        except (RejectedError, InputError):
            return None

    def _regions(
        self,
        number: int,
        sizes: list[Instance],
        parameters: Mapping[str, Value] | None,
        extend: int,
    ) -> Iterator[Region]:
        for instance in sizes:
            region = self._region(number, instance, parameters, extend)
            if region is not None:
                yield region

    def _choose_sizes(self, number: int, whole: Region, extend: int) -> None:
        """Choose the sizes for a region: only what it reduces, or the rule cuts, is long."""
        region = self._region(number, self.bench.true, None, extend) if extend else whole
        lengths = {n.length for n in _nodes(region or whole) if isinstance(n, Reduce)}
        axes = {name: axis.within(lengths) for name, axis in self._axes[number].items()}
        self.small = instances(axes)
        self.witnesses = witness_instances(axes)

    def _classify(
        self, number: int, whole: Region, parameters: Mapping[str, Value]
    ) -> tuple[Verdict, int]:
        """Classify a transform; follow a change of the function until it is none, if it is none.

        A scale that is taken elsewhere changes the codes and itself, but not their product.
        """
        first: Verdict | None = None
        for extend in range(MOST_FOLLOWED + 1):
            self._choose_sizes(number, whole, extend)
            cases = self._cases(number, parameters, extend)
            if not cases:
                break
            sizes = tuple(self.witnesses)
            witnesses = (
                Case(dict(instance.sizes), region)
                for instance in sizes
                if (region := self._region(number, instance, parameters, extend)) is not None
            )
            verdict = classify(cases, witnesses, self.seed, tick=self.tick)
            if first is None:
                first = verdict
            if verdict.change not in (Change.MATH, Change.UNKNOWN):
                return verdict, extend
            if verdict.change == Change.UNKNOWN and extend == 0:
                return verdict, 0
        if first is None:
            detail = "no small size meets the rule's requirements"
            return Verdict(Change.UNKNOWN, "sampled", (), 0, None, detail), 0
        return first, 0

    def _cases(
        self,
        number: int,
        parameters: Mapping[str, Value],
        extend: int,
    ) -> list[Case]:
        cases = []
        for instance in self.small:
            region = self._region(number, instance, parameters, extend)
            if region is None:
                continue
            true = instance.purpose == "true"
            if true and _count(region) > MOST_NODES:
                continue
            cases.append(Case(dict(instance.sizes), region, true))
        if all(case.true for case in cases):
            return [replace(case, true=False) for case in cases]
        return cases

    def _promises(
        self, region: Region | None, edits: Edits, varying: list[Varying]
    ) -> dict[str, Promise]:
        if region is None:
            return {}
        batch = self.plan.batch
        rows = None if batch is None else self.small[0].sizes[batch]
        old = [v for name in region.before.values for v in self._varying.get(name, ())]
        new = [v for name in region.after.values for v in self._varying.get(name, ())]
        found = promises_of(region.before, region.after, rows, (old, [*new, *varying]), batch)
        return {
            name: Promise(before[0], after[0], after[1] or before[1])
            for name, (before, after) in found.items()
        }

    def _drift(self, number: int, whole: Region, extend: int) -> tuple[Drift | None, str]:
        """Measure drift on sampled outputs: reduced axes at their true sizes."""
        whole = self._region(number, self.bench.true, None, extend) or whole
        lengths = {n.length for n in _nodes(whole) if isinstance(n, Reduce)}
        scheduled = any(isinstance(n, Reduce) and n.acc is not None for n in _nodes(whole))
        axes = self.bench.axes
        parallel = [name for name, axis in axes.items() if axis.true not in lengths]
        present = {size for node in whole.inputs for size in node.shape}
        parallel = [name for name in parallel if axes[name].true in present]
        budget = SMALL_OUTPUTS if scheduled else MANY_OUTPUTS
        if lengths and not scheduled:
            budget = max(1, budget // max(lengths))
        sizes = dict(self.bench.true.sizes)
        for i, name in enumerate(parallel):
            share = round(budget ** (1 / (len(parallel) - i)))
            sizes[name] = max(1, min(axes[name].true, share))
            budget = max(1, budget // sizes[name])
        instance = replace(self.bench.true, sizes=sizes)
        region = self._region(number, instance, None, extend)
        if region is None:
            return None, "drift not measured: the transform does not apply at sampled sizes"
        if sum(prod(node.shape) for node in region.inputs) > MOST_INPUTS:
            return None, "drift not measured: the region reads more than fits"
        total = sum(prod(node.shape) for node in whole.before.results)
        specs = {
            node.name: self.plan.inputs[node.name]
            for node in region.inputs
            if node.name in self.plan.inputs
        }
        try:
            return measure(region.before, region.after, specs, self.seed, total), ""
        except LastbitError as error:
            return None, f"drift not measured: {str(error).rstrip('.')}"

    def _witness(self, found: Found, change: Change) -> Witness:
        return self._record(
            found.region,
            str(change),
            found.policy.name,
            found.inputs,
            (found.output, found.index, found.before, found.after),
        )

    def _entry(self, m: Misbehaviour) -> DomainEntry:
        place = (m.output, m.index, m.before, m.after)
        witness = self._record(m.region, m.kind, None, m.values, place)
        return DomainEntry(m.kind, m.side, m.inputs, witness)

    def _record(
        self,
        region: Region,
        kind: str,
        policy: str | None,
        inputs: Mapping[str, object],
        place: tuple[str, tuple[int, ...], object, object],
    ) -> Witness:
        output, index, before, after = place
        formats = [native_rounding(graph.values[output]) for graph in (region.before, region.after)]
        fmt, other = (f.format if f is not None else None for f in formats)
        reachable = all(
            self.plan.program.place(node.name) and self._is_input(node.name)
            for node in region.inputs
        )
        shown = fmt or other
        assert shown is not None
        return Witness(
            kind,
            {
                node.name: WitnessInput(
                    node.format.short,
                    node.shape,
                    tuple(hex_of(v) for v in inputs[node.name].flat),  # type: ignore[attr-defined]
                )
                for node in region.inputs
            },
            (bits_text(before, shown),),  # type: ignore[arg-type]
            (bits_text(after, other or shown),),  # type: ignore[arg-type]
            shown.short,
            Program(print_graph(region.before), print_graph(region.after)),
            policy,
            output,
            (index,),
            True if reachable else None,
        )

    def _is_input(self, name: str) -> bool:
        return any(st.name == name and st.expr is None for st in self.plan.program.statements)


def _evidence(verdict: Verdict) -> Evidence:
    return Evidence(
        verdict.by,
        verdict.sizes,
        verdict.draws,
        ASSUMES if verdict.by in ("field", "sampled") else (),
        None,
        verdict.detail,
    )


def _nodes(region: Region) -> list[Node]:
    return list(topological([*region.before.results, *region.after.results]))


def _count(region: Region) -> int:
    return len(_nodes(region))


def _spread(variants: list[dict[str, Value]], most: int) -> list[dict[str, Value]]:
    """Return at most so many of the variants: the first, the last, and some between."""
    if len(variants) <= most:
        return variants
    return [variants[round(i * (len(variants) - 1) / (most - 1))] for i in range(most)]


def _renamed_key(region: Region) -> tuple[object, ...]:
    """Return a key that two regions share if only the names of their inputs differ."""
    new: dict[bytes, Node] = {
        node.key: Input(f"input {i}", node.format, shape=node.shape)
        for i, node in enumerate(region.inputs)
    }
    roots = [*region.before.results, *region.after.results]
    nodes = substitute(roots, new)
    return tuple(nodes[root.key].key for root in roots)
