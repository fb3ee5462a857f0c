"""Compare two graphs of a plan: align them by name, and judge each region that differs."""

from __future__ import annotations

from dataclasses import replace

from lastbit.change import Change
from lastbit.definitions import Definitions, reads, reference
from lastbit.errors import InputError
from lastbit.graph import native_rounding
from lastbit.plan_model import Plan, Transform
from lastbit.rule import Edits, Rewrite, Site
from lastbit.verify.bench import Bench


def with_differences(plan: Plan) -> Plan:
    """Return a plan whose transforms turn its first graph into its second, region by region.

    The two graphs have the same inputs and results; `load_plan` has seen to that.
    """
    if plan.after is None:
        return plan
    bench = Bench(plan)
    before = bench.before(0, bench.true)
    after = bench.other(bench.true)
    assert after is not None
    transforms = []
    for number, names in enumerate(groups(before, after), 1):
        at = tuple(name for name in names if name in before.nodes) or names
        identity = "difference" if number == 1 else f"difference-{number}"
        place = plan.after.place(at[0])
        transforms.append(Transform(identity, _rule(names), at, place=place))
    return replace(plan, transforms=tuple(transforms))


def with_bits(plan: Plan) -> Plan:
    """Return a plan, all results of which are values of a format.

    Raises:
        InputError: a result is a real number, which has no bits to compare.
    """
    problems = []
    for program in (plan.program, plan.after):
        results = program.outputs if program is not None and plan.transforms else ()
        exact = [st for st in program.statements if st.rounding is None] if program else []
        for statement in exact:
            if statement.name not in results or program is None:
                continue
            node = program.nodes(plan.sizes(), reference)[statement.name]
            if native_rounding(node) is None:
                message = f"the result `{statement.name}` is not rounded, so it has no bits"
                problems.append(statement.problem(message, "Give it a format in place of `real`."))
    if problems:
        raise InputError(problems)
    return plan


def _rule(names: tuple[str, ...]) -> Rewrite:
    def rewrite(site: Site) -> Edits:
        assert site.other is not None
        return {name: site.other.nodes[name] for name in names}

    quoted = ", ".join(f"`{name}`" for name in names)
    verb = "is" if len(names) == 1 else "are"
    return Rewrite(
        code="",
        name="difference",
        claim=Change.UNKNOWN,
        prose="",
        graph="",
        at=names,
        rewrite=rewrite,
        title=lambda site: f"{quoted} {verb} computed in another way",
    )


def groups(before: Definitions, after: Definitions) -> list[tuple[str, ...]]:
    """Return the names whose definitions differ, those that read one another together."""
    changed = {
        name: None
        for name, node in after.nodes.items()
        if name not in before.nodes or before.nodes[name].key != node.key
    }
    root = {name: name for name in changed}

    def find(name: str) -> str:
        while root[name] != name:
            name = root[name]
        return name

    for program in (before, after):
        for name in changed:
            if name in program.nodes:
                for read in reads(program.nodes[name]):
                    if read in changed:
                        root[find(read)] = find(name)
    groups: dict[str, list[str]] = {}
    for name in changed:
        groups.setdefault(find(name), []).append(name)
    return [tuple(names) for names in groups.values()]
