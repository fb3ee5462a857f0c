"""Check the examples of a rule: the transform applied to the rule's own graph, on given inputs.

Both graphs are evaluated exactly, so an example is a proof of what it shows: bits that hold,
bits that break and the kind of change that breaks them, or a site that is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from lastbit.change import Change
from lastbit.errors import LastbitError
from lastbit.formats import Exact, Format, bits_text, identical
from lastbit.graph import Graph, Input, native_rounding
from lastbit.interpret.evaluate import results
from lastbit.interpret.exact import ExactDomain, Objects, exact_array, ordinary
from lastbit.interpret.policy import Policy
from lastbit.reals import same
from lastbit.rounding import Rounding, round_exact
from lastbit.rule import Example, RejectedError, Rewrite
from lastbit.staging import nesting, staged
from lastbit.verify.domain import misbehaviours_on
from lastbit.verify.orders import in_order
from lastbit.verify.region import Region

LOOSER = (
    (Policy.BITS, Change.BITWISE),
    (Policy.ROUND, Change.REASSOCIATION),
    (Policy.GRID, Change.ROUNDING),
    (Policy.REAL, Change.GRID),
)


class ExampleError(LastbitError):
    """An example that cannot be evaluated.

    Attributes:
        id: the example.
        reason: what is wrong with it.
    """

    def __init__(self, id: str, reason: str) -> None:  # noqa: A002  the field's name in reports
        self.id, self.reason = id, reason
        super().__init__(f"{id}: {reason}.")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an example showed.

    Attributes:
        id: the example, such as `RED201-breaks-1`.
        passed: whether it shows what it states.
        message: what happened, in one sentence.
        change: the kind of change on these inputs; None for a site that was refused.
        ordinary: whether the runs were ordinary; a difference on others says nothing of `change`.
        before: the bits of each result before, by name, row by row.
        after: the same afterwards.
        shapes: the shape of each result, by name.
    """

    id: str
    passed: bool
    message: str
    change: Change | None = None
    ordinary: bool = True
    before: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def difference(self) -> str:
        """Return the first element that differs, as an example's `shows` has it; or nothing.

        Its index is there where its result has several elements.
        """
        for name, old in self.before.items():
            shape = self.shapes[name]
            for index, x, y in zip(np.ndindex(shape), old, self.after[name], strict=True):
                if x != y:
                    place = f"[{', '.join(map(str, index))}]" if len(old) > 1 else ""
                    return f"{name}{place}: {x} -> {y}"
        return ""


def named_examples(rule: Rewrite) -> Iterator[tuple[str, Example]]:
    """Yield the examples of a rule with their ids, numbered within each kind."""
    count: dict[str, int] = {}
    for example in rule.examples:
        count[example.kind] = count.get(example.kind, 0) + 1
        yield f"{rule.code}-{example.kind}-{count[example.kind]}", example


def check_example(rule: Rewrite, example: Example) -> Outcome:
    """Return what an example shows.

    Raises:
        ExampleError: the inputs do not fit the rule's graph, or are no values of their formats.
    """
    name = next((name for name, other in named_examples(rule) if other is example), rule.code)
    try:
        region = applied(rule, example)
    except RejectedError as error:
        passed = example.kind == "rejects" and error.requirement == example.requirement
        return Outcome(name, passed, str(error))
    if example.kind == "rejects":
        return Outcome(name, False, f"`{example.requirement}` refuses nothing here.")
    values = given(name, region, example.inputs)
    before, usual = bits(region.before, values)
    after, usual_too = bits(region.after, values)
    change = change_on(region, values)
    if change == Change.BITWISE:
        passed, message = example.kind == "holds", "the bits are the same."
    elif usual and usual_too:
        passed = example.kind == "breaks" and change <= rule.claim
        message = f"the bits differ: {change}, where the rule claims {rule.claim}."
    else:
        passed = example.kind == "breaks"
        message = "the bits differ on a run that is not ordinary."
    ran = usual and usual_too
    shapes = dict(zip(region.outputs, (n.shape for n in region.before.results), strict=True))
    outcome = Outcome(name, passed, message, change, ran, before, after, shapes)
    if passed and example.shows and example.shows != outcome.difference:
        message = f"it shows `{outcome.difference}`, where the rule says `{example.shows}`."
        return replace(outcome, passed=False, message=message)
    return outcome


def shows_loss(rule: Rewrite, example: Example) -> bool:
    """Return whether an example shows an input on which one side misbehaves and the other not.

    Raises:
        LastbitError: the example cannot be evaluated.
    """
    region = applied(rule, example)
    values = given(rule.code, region, example.inputs)
    special = {str(x) for array in values.values() for x in array.flat if isinstance(x, float)}
    words = " ".join(special).replace("nan", "NaN")
    return any(misbehaviours_on(region, words, values, rule.claim))


def applied(rule: Rewrite, example: Example) -> Region:
    """Return the rule's graph before and after the transform, with the example's parameters.

    Sums in any order run forwards before and backwards after.

    Raises:
        RejectedError: a requirement fails.
    """
    site = staged(rule, example)
    old, new = site.program, site.program.edited(rule.apply(site))
    inputs = [name for name in old.nodes if old.is_input(name)]
    return in_order(Region(old.closed(old.outputs, inputs), new.closed(old.outputs, inputs)))


def given(name: str, region: Region, inputs: Mapping[str, object]) -> dict[str, Objects]:
    """Return the values of the inputs of a region, as exact numbers.

    Raises:
        ExampleError: a value is missing, has another shape, or is none of the input's format.
    """
    out: dict[str, Objects] = {}
    for node in region.inputs:
        if node.name not in inputs:
            raise ExampleError(name, f"the input `{node.name}` is missing")
        size = math.prod(node.shape)
        values = [_value(name, v, node) for v in _flat(inputs[node.name])]
        if not nesting(inputs[node.name]):
            values *= size
        if len(values) != size:
            reason = f"`{node.name}` has {len(values)} values for {list(node.shape)}"
            raise ExampleError(name, reason)
        out[node.name] = exact_array(values, node.shape)
    return out


def change_on(region: Region, values: Mapping[str, Objects]) -> Change:
    """Return the change that inputs show: named by the first policy under which both agree."""
    for policy, change in LOOSER:
        before, after = (
            results(graph, ExactDomain(values), policy) for graph in (region.before, region.after)
        )
        if all(
            same(x, y) is not False
            for output in region.outputs
            for x, y in zip(before[output].array.flat, after[output].array.flat, strict=True)
        ):
            return change
    return Change.MATH


def bits(graph: Graph, values: Mapping[str, Objects]) -> tuple[dict[str, tuple[str, ...]], bool]:
    """Return the bits of each result of a graph, row by row, and whether the run is ordinary."""
    domain = ExactDomain(values)
    found = results(graph, domain, Policy.BITS)
    out: dict[str, tuple[str, ...]] = {}
    for name, node in zip(graph.outputs, graph.results, strict=True):
        rounding = native_rounding(node)
        fmt = None if rounding is None else rounding.format
        out[name] = tuple(_text(value, fmt) for value in found[name].array.flat)
    plain = all(ordinary(values[node.name], node.format) for node in graph.inputs)
    return out, plain and domain.ordinary


def _flat(value: object) -> Iterator[object]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        for part in value:
            yield from _flat(part)
    else:
        yield value


def _value(name: str, given: object, node: Input) -> Exact:
    number = given
    if isinstance(given, str):
        try:
            number = float.fromhex(given)
        except (ValueError, OverflowError):
            raise ExampleError(name, f"{given!r} is no number") from None
    if isinstance(number, float) and (not math.isfinite(number) or str(number) == "-0.0"):
        exact: Exact = number
    elif isinstance(number, int | float | Fraction):
        exact = Fraction(number)
    else:
        raise ExampleError(name, f"{given!r} is no number")
    if not identical(round_exact(exact, Rounding.of(node.format)), exact):
        raise ExampleError(name, f"{given!r} is no value of {node.format.short}")
    return exact


def _text(value: object, fmt: Format | None) -> str:
    if fmt is not None and isinstance(value, Fraction | float):
        return bits_text(value, fmt)
    return str(value)
