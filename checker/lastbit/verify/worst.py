"""Judge the change from one graph to another for every tree that schedules give over the sizes.

A schedule may depend on a size: `split(max(1, 8 // ceil(M / 8)))` is one piece at the typical size
and eight at another. Of the trees over the ranges of the symbols the worst verdict counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lastbit.change import Change
from lastbit.definitions import Definitions
from lastbit.graph import native_rounding
from lastbit.plan_model import Plan, Transform
from lastbit.rule import Edits, Rewrite, Site
from lastbit.schedule import bind, symbols
from lastbit.text import Program
from lastbit.verify.bench import Bench
from lastbit.verify.decide import Judged
from lastbit.verify.difference import groups
from lastbit.verify.judge import Judge

WHOLE = "difference"
BOUNDED = "decided region by region; the worst of them is an upper bound for the whole"
MOST_VARIANTS = 6  # trees that schedules give over the ranges of sizes
MOST_SIZES = 2048  # sizes of a range at which schedules are compared

Variant = tuple[dict[str, int], Plan]  # a plan with the trees at some sizes


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What was judged of a plan: the whole first, then single regions."""

    transforms: tuple[Transform, ...]
    judged: tuple[Judged, ...]
    same: bool
    results: tuple[str, ...] = ()

    @property
    def whole(self) -> Judged:
        """Return the verdict on the whole; where it is unknown, its regions bound it.

        Agreement under a policy is an equivalence, so that the whole is no worse than its parts.
        That an intermediate value is another function bounds nothing: the results may be the same.
        What is said of a value that is no result is not said of the whole.
        """
        whole, parts = self.judged[0], self.judged[1:]
        worst = max(parts, key=lambda one: one.change, default=whole)
        if whole.change != Change.UNKNOWN or worst.change >= Change.MATH:
            return whole
        domain = {(entry.kind, entry.side): entry for entry in whole.domain}
        for entry in (entry for one in parts for entry in one.domain):
            if entry.witness is None or entry.witness.output in self.results:
                domain.setdefault((entry.kind, entry.side), entry)
        shown = worst.witness is not None and worst.witness.output in self.results
        return replace(
            whole,
            change=worst.change,
            domain=tuple(domain.values()),
            witness=worst.witness if shown else None,
            notes=(*whole.notes, BOUNDED),
        )

    @property
    def change(self) -> Change:
        """Return the change of the whole."""
        return self.whole.change


def judge_worst(plan: Plan, seed: int) -> tuple[Verdicts, list[str]]:
    """Judge a plan for every tree that its schedules give over the ranges of sizes.

    Returns:
        the worst of the verdicts, with the promises of all, and notes.
    """
    found = _judge(plan, seed)
    variants = _variants(plan)
    promises = {t.at: one.promises for t, one in zip(found.transforms, found.judged, strict=True)}
    chosen = _some(variants)
    worst, notes = found, []
    for sizes, variant in chosen:
        one = _judge(variant, seed)
        if one.change > worst.change:
            worst, notes = one, [_said(sizes)]
    if len(chosen) < len(variants):
        notes.append(f"judged for {len(chosen) + 1} of {len(variants) + 1} trees")
    judged = (
        replace(one, promises=promises.get(transform.at, one.promises))
        for transform, one in zip(worst.transforms, worst.judged, strict=True)
    )
    return replace(worst, judged=tuple(judged)), notes


def run_worst(judge: Judge) -> Iterator[tuple[Transform, Judged]]:
    """Yield each difference of two graphs with the worst verdict; other transforms as judged."""
    if judge.plan.after is None or not (chosen := _some(_variants(judge.plan))):
        yield from judge.run()
        return
    runs = [(sizes, Judge(plan, judge.seed).run()) for sizes, plan in chosen]
    for transform, judged in judge.run():
        worst = judged
        for sizes, run in runs:
            _, one = next(run)
            if one.change > worst.change:
                worst = replace(one, promises=judged.promises, notes=(*one.notes, _said(sizes)))
        yield transform, worst


def _some(variants: Sequence[Variant]) -> Sequence[Variant]:
    return variants[:: max(1, -(-len(variants) // MOST_VARIANTS))]


def _said(sizes: Mapping[str, int]) -> str:
    at = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    return f"this is the verdict on the schedules at {at}"


def _variants(plan: Plan) -> list[Variant]:
    """Return the plan with other trees that its schedules give over the ranges of sizes."""
    assert plan.after is not None
    programs = plan.program, plan.after
    used = {
        name
        for program in programs
        for st in program.statements
        if st.schedule is not None
        for name in symbols(st.schedule)
    }
    typical = plan.sizes()
    seen = {_trees(programs, typical)}
    found = []
    for name in sorted(used):
        span = plan.symbols[name]
        step = max(1, (span.high - span.low) // MOST_SIZES)
        for size in sorted({*range(span.low, span.high + 1, step), span.high}):
            sizes = {**typical, name: size}
            trees = _trees(programs, sizes)
            if trees not in seen:
                seen.add(trees)
                before, after = (_with_trees(program, sizes) for program in programs)
                found.append(({name: size}, replace(plan, program=before, after=after)))
    return found


def _trees(programs: Sequence[Program], sizes: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(
        str(bind(st.schedule, sizes))
        for program in programs
        for st in program.statements
        if st.schedule is not None
    )


def _with_trees(program: Program, sizes: Mapping[str, int]) -> Program:
    """Return a program whose schedules are those at some sizes."""
    bound = (
        st if st.schedule is None else replace(st, schedule=bind(st.schedule, sizes))
        for st in program.statements
    )
    return replace(program, statements=tuple(bound))


def _judge(plan: Plan, seed: int) -> Verdicts:
    bench = Bench(plan)
    assert plan.after is not None
    before, after = bench.before(0, bench.true), bench.other(bench.true)
    assert after is not None
    whole = _whole_names(before, after)
    parts = [n for n in _parts(before, after) if set(n) != _read(whole, after)]
    gone = before.nodes.keys() - after.nodes.keys()
    named = [sorted(whole) or list(plan.program.outputs), *parts]
    transforms = [
        _transform(f"{WHOLE}-{number}" if number else WHOLE, plan, names, before, gone)
        for number, names in enumerate(named)
    ]
    transforms[0] = replace(transforms[0], branch=True)  # judged, then the regions one by one
    judged = [
        _of_call(one) for _, one in Judge(replace(plan, transforms=tuple(transforms)), seed).run()
    ]
    return Verdicts(tuple(transforms), tuple(judged), not whole, plan.program.outputs)


def _whole_names(before: Definitions, after: Definitions) -> set[str]:
    """Return the values of `after` that are not computed from the inputs as in `before`."""
    keys = []
    for program in (before, after):
        inputs = [name for name in program.nodes if program.is_input(name)]
        graph = program.closed(program.nodes, inputs)
        keys.append({name: node.key for name, node in graph.values.items()})
    return {name for name, key in keys[1].items() if keys[0].get(name) != key}


def _parts(before: Definitions, after: Definitions) -> Iterator[tuple[str, ...]]:
    """Yield the regions that differ, without values that other statements only write out."""
    for names in groups(before, after):
        read = _read(names, after)
        if read:
            yield tuple(name for name in names if name in read)


def _read(names: Iterable[str], program: Definitions) -> set[str]:
    """Return the names by which a value is read; one that is not rounded is written out."""
    return {
        name
        for name in names
        if native_rounding(program.nodes[name]) is not None or name in program.outputs
    }


def _transform(
    identity: str, plan: Plan, names: Sequence[str], before: Definitions, gone: Collection[str]
) -> Transform:
    def rewrite(site: Site) -> Edits:
        assert site.other is not None
        edits = {name: site.other.nodes[name] for name in names}
        if identity == WHOLE:  # what only the first graph has is no reader of the whole's values
            edits |= {name: site.program.nodes[name] for name in sorted(gone)}
        return edits

    assert plan.after is not None
    rule = Rewrite(
        code="",
        name=WHOLE,
        claim=Change.UNKNOWN,
        prose=f"{identity}: another graph.",
        graph="",
        at=tuple(names),
        rewrite=rewrite,
    )
    known = plan.program.outputs if identity == WHOLE else before.nodes
    at = tuple(name for name in known if name in names) or tuple(names)
    return Transform(identity, rule, at, place=plan.after.place(at[0]))


def _of_call(judged: Judged) -> Judged:
    """Return a verdict whose promises speak of a call, where they speak of a plan."""
    promises = {
        name: replace(promise, cause="no batch symbol is given")
        if promise.cause == "the plan names no batch symbol"
        else promise
        for name, promise in judged.promises.items()
    }
    return replace(judged, promises=promises)
