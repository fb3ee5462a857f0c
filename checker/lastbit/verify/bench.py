"""A plan's program at many sizes, with its transforms applied one after the other.

Each set of sizes keeps its own definitions and catches up with the transforms only when it is
asked for, so that equal regions cost no more than finding out that they are equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from lastbit.definitions import Definitions, reference
from lastbit.expression import Expression
from lastbit.graph import Node, Reduce, topological
from lastbit.plan_model import Plan, Transform
from lastbit.rule import Edits, MismatchError, Parameter, RejectedError, Rewrite, Site, Value
from lastbit.schedule import Schedule, Table, bind, levels, parse_schedule, scaled
from lastbit.text import Program
from lastbit.verify.promises import Varying
from lastbit.verify.sizing import Axis, Instance

MOST_PIECES = 4  # pieces that a count asks for at small sizes
MOST_SIZES = 10_000  # sizes of a range at which a parameter is evaluated
EXTENTS = ("size", "tile", "leaf", "every", "k")


@dataclass
class Bench:
    """The program of a plan at any sizes, after any number of its transforms.

    Attributes:
        plan: the plan.
        axes: what is known of each size symbol.
        true: the sizes at which the plan is meant.
        literals: the sizes that the program writes as numbers.
    """

    plan: Plan
    axes: dict[str, Axis] = field(init=False)
    true: Instance = field(init=False)
    literals: frozenset[int] = field(init=False)
    # At each set of sizes the definitions before the first transform, the second, and so on.
    _states: dict[tuple[object, ...], list[Definitions]] = field(init=False, default_factory=dict)
    _numbers: dict[str, int] = field(init=False, default_factory=dict)
    _rejected: set[int] = field(init=False, default_factory=set)
    _others: dict[tuple[object, ...], Definitions] = field(init=False, default_factory=dict)
    _lengths: dict[tuple[object, ...], int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        sizes = {name: span.typical for name, span in self.plan.symbols.items()}
        self.true = Instance(sizes, dict.fromkeys(sizes, Fraction(1)), "true")
        self.axes = {
            name: Axis(span.typical, ends=() if span.fixed else (span.low, span.high))
            for name, span in self.plan.symbols.items()
        }
        self.literals = frozenset(
            dim.evaluate({})
            for st in self.plan.program.statements
            for dim in st.dims or ()
            if not dim.symbols
        )
        self._numbers.update((t.id, i) for i, t in enumerate(self.plan.transforms))
        program = self._base(self.true)
        for node in program.nodes.values():
            learn(self.axes, node_reductions(node))
        self._states[_key(self.true)] = [program]
        after = self.other(self.true)
        for node in () if after is None else after.nodes.values():
            learn(self.axes, node_reductions(node))

    def _axis(self, transform: Transform, parameter: Parameter, site: Site) -> int:
        """Return the length of the axis that a parameter divides; 0 where it divides none.

        Args:
            transform: the transform.
            parameter: of its rule.
            site: the transform's, at the plan's sizes.
        """
        if parameter.axis is None:
            return 0
        key = (transform.id, parameter.name, *sorted(site.parameters.items()))
        if key not in self._lengths:
            try:
                self._lengths[key] = parameter.axis(site)
            except MismatchError:
                self._lengths[key] = 0
        return self._lengths[key]

    def _factor(self, length: int, instance: Instance) -> Fraction:
        """Return what lengths along an axis of a true length are divided by."""
        factors = [
            instance.factors[name] for name, axis in self.axes.items() if axis.true == length
        ]
        return max(factors, default=Fraction(1))

    def _base(self, instance: Instance) -> Definitions:
        """Return the program before any transform."""
        true = self._states.get(_key(self.true))
        nodes = {} if true is None else true[0].nodes
        return self._bound(self.plan.program, instance, nodes)

    def _bound(self, program: Program, instance: Instance, true: Mapping[str, Node]) -> Definitions:
        """Return a program at some sizes; `true` holds its values at the plan's sizes."""

        def scheduled(name: str, schedule: Schedule) -> Schedule:
            bound = bind(schedule, self.true.sizes)
            if instance is self.true or name not in true:
                return bound
            lengths = [reduce.length for reduce in node_reductions(true[name])]
            factor = max((self._factor(n, instance) for n in lengths), default=Fraction(1))
            return bound if factor == 1 else scaled(bound, math.ceil(factor), MOST_PIECES)

        nodes = program.nodes(instance.sizes, reference, scheduled)
        return Definitions(nodes, program.outputs)

    def other(self, instance: Instance) -> Definitions | None:
        """Return the plan's second graph at some sizes, where it compares two."""
        if self.plan.after is None:
            return None
        key = _key(instance)
        if key not in self._others:
            true = self._others.get(_key(self.true))
            nodes = {} if true is None else true.nodes
            self._others[key] = self._bound(self.plan.after, instance, nodes)
        return self._others[key]

    def before(self, number: int, instance: Instance) -> Definitions:
        """Return the definitions that transform `number` is applied to.

        Raises:
            InputError: the program does not bind at these sizes.
            RejectedError: an earlier transform cannot be applied at these sizes.
        """
        key = _key(instance)
        if key not in self._states:
            self._states[key] = [self._base(instance)]
        history = self._states[key]
        while len(history) <= number:
            applied, program = len(history) - 1, history[-1]
            transform = self.plan.transforms[applied]
            if not transform.branch and not transform.rule.placement:
                try:
                    program = program.edited(self.edits(applied, instance, program))
                except RejectedError:
                    if instance is self.true:  # it is reported, and left out at every size
                        self._rejected.add(applied)
                    elif applied not in self._rejected:
                        raise
            history.append(program)
        return history[number]

    def edits(
        self,
        number: int,
        instance: Instance,
        program: Definitions,
        parameters: Mapping[str, Value] | None = None,
    ) -> Edits:
        """Return what transform `number` does to a program at the given sizes.

        Raises:
            RejectedError: the rule cannot be applied.
        """
        transform = self.plan.transforms[number]
        return transform.rule.apply(self.site(transform, instance, program, parameters))

    def site(
        self,
        transform: Transform,
        instance: Instance,
        program: Definitions,
        parameters: Mapping[str, Value] | None = None,
    ) -> Site:
        """Return the site of a transform, with lengths scaled to the sizes."""
        given = self.parameters(transform) if parameters is None else parameters
        site = Site(program, transform.at, given, self.other(instance))
        if instance.purpose == "true" and all(factor == 1 for factor in instance.factors.values()):
            return site
        true = self.before(self._numbers[transform.id], self.true)
        whole = Site(true, transform.at, given)
        small = {
            parameter.name: self._scaled(transform, parameter, whole, instance)
            for parameter in transform.rule.parameters
            if parameter.name in given
        }
        return replace(site, parameters=small)

    def _scaled(
        self, transform: Transform, parameter: Parameter, whole: Site, instance: Instance
    ) -> Value:
        value = whole.parameters[parameter.name]
        if parameter.kind == "count" and isinstance(value, int) and instance.purpose != "true":
            return min(value, MOST_PIECES)
        if parameter.kind not in ("length", "schedule"):
            return value
        length = self._axis(transform, parameter, whole)
        if parameter.kind == "length" and value == length:  # the whole axis, at any size
            sizes = {instance.sizes[n] for n, axis in self.axes.items() if axis.true == length}
            if len(sizes) == 1:
                return sizes.pop()
        factor = self._factor(length, instance)
        if factor == 1:
            return value
        if parameter.kind == "schedule":
            return str(scaled(parse_schedule(str(value)), math.ceil(factor), MOST_PIECES))
        return max(1, -int(-int(value) // factor))

    def parameters(
        self, transform: Transform, sizes: Mapping[str, int] | None = None
    ) -> dict[str, Value]:
        """Return the parameters of a transform as numbers and words, at the plan's sizes."""
        at = {**self.true.sizes, **(sizes or {})}
        out = defaults(transform.rule)
        for name, value in transform.parameters.items():
            out[name] = value.evaluate(at) if isinstance(value, Expression | Table) else value
        return out

    def variants(self, transform: Transform) -> tuple[list[dict[str, Value]], list[Varying]]:
        """Return the parameters over the ranges of the symbols, and which of them vary."""
        varying = []
        found: list[dict[str, Value]] = [self.parameters(transform)]
        for name, value in transform.parameters.items():
            if not isinstance(value, Expression | Table):
                continue
            for symbol in sorted(value.symbols):
                span = self.plan.symbols[symbol]
                seen: dict[Value, None] = {}
                for size in sampled_sizes(span.low, span.high, value):
                    given = self.parameters(transform, {symbol: size})
                    seen.setdefault(given[name])
                    if given not in found:
                        found.append(given)
                varying.append(Varying(name, symbol, len(seen), span.low, span.high))
        return found, [*varying, *self._declared(transform, found[0])]

    def _declared(self, transform: Transform, given: Mapping[str, Value]) -> Iterator[Varying]:
        """Yield the parameters of which their rule says that a promise depends on them."""
        batch = self.plan.batch
        for parameter in transform.rule.parameters:
            name, value = parameter.name, given.get(parameter.name)
            if not isinstance(value, int):
                continue
            if parameter.counts == "devices":
                cause = f"the result depends on the number of devices, `{name}`"
                yield Varying(name, "devices", 2, value, value + 1, cause)
            if parameter.counts == "rows" and batch is not None:
                span = self.plan.symbols[batch]
                if span.low < value <= span.high:
                    cause = f"{batch} in [{span.low}, {span.high}] may be below {value} or not"
                    yield Varying(name, batch, 2, span.low, span.high, cause)

    def axes_of(self, transform: Transform, site: Site, edits: Edits) -> dict[str, Axis]:
        """Return the axes as a transform cuts them, besides what the program does.

        A transform that stays in the program cuts them for all later ones too.
        """
        axes = {name: axis.copy() for name, axis in self.axes.items()}
        if not transform.branch and not transform.rule.placement:
            self._cut(self.axes, site, transform, edits)
            for name, axis in self.axes.items():
                axis.own = False
                axis.kept[0].update(axis.lengths - axes[name].lengths)
                axis.kept[1].update(axis.counts - axes[name].counts)
        self._cut(axes, site, transform, edits)
        return axes

    def axes_cut_by(self, steps: Iterable[tuple[Transform, Site, Edits]]) -> dict[str, Axis]:
        """Return the axes as several transforms cut them together, besides what the program does.

        Args:
            steps: each transform with its site at the plan's sizes, and what it does there.
        """
        axes = {name: axis.copy() for name, axis in self.axes.items()}
        for transform, site, edits in steps:
            self._cut(axes, site, transform, edits)
        return axes

    def _cut(
        self, axes: Mapping[str, Axis], site: Site, transform: Transform, edits: Edits
    ) -> None:
        lengths = {r.length for node in edits.values() for r in node_reductions(node)}
        for parameter in transform.rule.parameters:
            value = site.parameters.get(parameter.name)
            if parameter.kind == "length" and isinstance(value, int):
                for axis in along(axes, self._axis(transform, parameter, site)):
                    if 1 < value < axis.true:
                        axis.lengths.add(value)
                        axis.own = True
            if parameter.kind == "count" and isinstance(value, int):
                for axis in axes.values():
                    if axis.true in lengths:
                        axis.counts.add(min(value, MOST_PIECES))
        for node in edits.values():
            learn(axes, node_reductions(node))


def along(axes: Mapping[str, Axis], length: int) -> list[Axis]:
    """Return the axes of a true length."""
    return [axis for axis in axes.values() if axis.true == length]


def learn(axes: Mapping[str, Axis], reductions: list[Reduce]) -> None:
    """Note along which axes reductions run, and how their schedules cut them."""
    for reduce in reductions:
        for axis in along(axes, reduce.length):
            axis.reduced = True
            for level in () if reduce.schedule is None else levels(reduce.schedule):
                for name in EXTENTS:
                    extent = getattr(level, name, None)
                    if isinstance(extent, int) and 1 < extent < reduce.length:
                        axis.lengths.add(extent)


def defaults(rule: Rewrite) -> dict[str, Value]:
    """Return the parameters of a rule that have a default."""
    return {p.name: p.default for p in rule.parameters if p.default is not None}


def node_reductions(node: object) -> list[Reduce]:
    """Return the reductions in a definition."""
    return [n for n in topological([node]) if isinstance(n, Reduce)]  # type: ignore[list-item]


def sampled_sizes(low: int, high: int, value: Expression | Table) -> list[int]:
    """Return sizes of a range at which a parameter may change: all, or a dense choice."""
    if isinstance(value, Table):
        bounds = [bound for bound, _ in value.rows if low <= bound <= high]
        return sorted({low, high, *bounds})
    if high - low < MOST_SIZES:
        return list(range(low, high + 1))
    step = (high - low) / MOST_SIZES
    near = {low + round(i * step) for i in range(MOST_SIZES)}
    powers = {2**i + d for i in range(high.bit_length() + 1) for d in (-1, 0, 1)}
    return sorted(size for size in near | powers | {high} if low <= size <= high)


def _key(instance: Instance) -> tuple[object, ...]:
    return (instance.purpose == "true", *sorted(instance.sizes.items()))
