"""Two traced functions as the graphs of a plan: their inputs, sizes and results put together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lastbit.errors import InputError, Place, Problem, did_you_mean
from lastbit.graph import Node, native_rounding
from lastbit.plan_model import Plan, Span
from lastbit.printing import print_program
from lastbit.statement import MAX_SIZE, STATES_SIZES
from lastbit.text import Program
from lastbit.tracing.calls import SIDES, Side, recorded_inputs, results_of
from lastbit.tracing.op import NOWHERE, Op
from lastbit.tracing.program import Traced, misfits, programs_of
from lastbit.tracing.sizes import Sizes
from lastbit.tracing.spec import Spec

DEFAULT_SIZE = 2000  # the largest of the first symbol that is given no sizes; then one less
LEAST = 32  # sizes below are small enough as they are

SizesOf = int | tuple[int, int]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The two functions as the graphs of a plan.

    Attributes:
        plan: with a symbol for each size that was given as a number, so that it can shrink.
        numbers: the same with the numbers themselves.
        assumed: the symbols whose sizes were not given.
    """

    plan: Plan
    numbers: Plan
    assumed: tuple[str, ...]


def plan_of(
    sides: Sequence[Side],
    specs: Mapping[str, Spec],
    given: Mapping[str, SizesOf],
    batch: str | None,
) -> Comparison:
    """Return two functions as the graphs of a plan.

    Args:
        sides: the functions.
        specs: their inputs.
        given: the sizes of symbols.
        batch: the symbol that counts rows, or None.

    Raises:
        InputError: they cannot be traced, or do not have the same results.
    """
    spans, assumed = _spans(specs, given)
    if batch is not None and batch not in spans:
        raise _error(f"unknown batch symbol {batch!r}", did_you_mean(batch, spans) if spans else "")
    fixed = _fixed(specs, spans)
    table = Sizes(fixed)
    inputs = recorded_inputs(specs, fixed)
    results = _matched(sides, [results_of(side, inputs, table) for side in sides])
    traced = [Traced(tuple(inputs.values()), found) for found in results]
    _check_sizes(traced, table, spans)
    spans |= {name: Span(size, size, size) for name, size in fixed.items()}
    programs = programs_of(traced[0], traced[1], table)
    _check_used(given, specs, programs)
    _check_results(sides, programs, spans)
    plan = Plan(
        file=sides[1].place.file or "after",
        name=" -> ".join(SIDES),
        program=programs[0],
        after=programs[1],
        symbols=spans,
        batch=batch,
        inputs={name: drawn for name, s in specs.items() if (drawn := s.given()) is not None},
    )
    table.pinned.update(fixed.values())
    whole = programs_of(traced[0], traced[1], table)
    numbers = replace(plan, program=whole[0], after=whole[1])
    return Comparison(_used(plan, fixed), _used(numbers, fixed), tuple(assumed))


def _used(plan: Plan, fixed: Mapping[str, int]) -> Plan:
    """Return a plan without the symbols in `fixed` that no statement uses any more."""
    assert plan.after is not None
    text = print_program(plan.program) + print_program(plan.after)
    unused = {name for name in fixed if not re.search(rf"\b{name}\b", text)}
    return replace(plan, symbols={n: s for n, s in plan.symbols.items() if n not in unused})


def _spans(
    specs: Mapping[str, Spec], given: Mapping[str, SizesOf]
) -> tuple[dict[str, Span], list[str]]:
    used = dict.fromkeys(s for spec in specs.values() for s in sorted(spec.symbols))
    spans = {}
    for name, sizes in given.items():
        pair = tuple(sizes) if isinstance(sizes, tuple | list) else (sizes, sizes)
        whole = len(pair) == 2 and all(type(size) is int for size in pair)
        if not str(name).isidentifier() or not whole or not 1 <= pair[0] <= pair[1] <= MAX_SIZE:
            raise _error(
                f"the sizes of the symbol {name!r} are {sizes!r}",
                'Write a number or (smallest, largest): symbols={"M": (1, 8192)}.',
            )
        spans[name] = Span(pair[0], pair[1], pair[1])
    assumed = [name for name in used if name not in spans]
    # No two axes of one size, and no usual one: which axis a sum runs along is told by its size.
    highs = {name: DEFAULT_SIZE - i for i, name in enumerate(assumed)}
    return {**{name: Span(1, high, high) for name, high in highs.items()}, **spans}, assumed


def _fixed(specs: Mapping[str, Spec], spans: Mapping[str, Span]) -> dict[str, int]:
    """Return a symbol for each size that is given as a number and worth shrinking."""
    numbers = {dim.evaluate({}) for spec in specs.values() for dim in spec.dims if not dim.symbols}
    fixed = {}
    for number in sorted(number for number in numbers if number >= LEAST):
        name = f"size_{number}"
        while name in spans:
            name += "_"
        fixed[name] = number
    return fixed


def _matched(sides: Sequence[Side], found: Sequence[Mapping[str, Op]]) -> list[dict[str, Op]]:
    """Return the results of both functions under common names."""
    first, second = found
    if len(first) != len(second):
        raise sides[1].error(
            f"`before` returns {_count(first)} and `after` {_count(second)}",
            "Return the same results in the same order.",
        )
    if set(first) != set(second):
        odd = next(name for name in second if name not in first)
        raise sides[1].error(
            f"`after` returns a result {odd!r}, and `before` none of that name",
            did_you_mean(odd, first),
        )
    inputs = {name for side in sides for name in side.parameters()}
    names: dict[str, str] = {}
    for key, op in first.items():
        plain = "result" if len(first) == 1 else f"result_{key}"
        wanted = key if key.isidentifier() else op.label or plain
        taken = inputs.union(names.values())
        names[key] = wanted if wanted not in taken else plain
    return [{names[key]: side[key] for key in first} for side in found]


def _count(results: Mapping[str, Op]) -> str:
    return f"{len(results)} result{'s' * (len(results) != 1)}"


def _check_sizes(traced: Sequence[Traced], table: Sizes, spans: Mapping[str, Span]) -> None:
    """Refuse what does not fit together at the largest sizes, or at the smallest."""
    problems: list[Problem] = []
    for one in traced:
        high = list(misfits(one, table, {name: span.high for name, span in spans.items()}))
        seen = {problem.place for problem in high}
        ranges = {name: span.low for name, span in spans.items() if not span.fixed}
        low = {name: span.low for name, span in spans.items()}
        at = ", ".join(f"{name} = {size}" for name, size in ranges.items())
        problems += high
        for problem in misfits(one, table, low) if ranges else ():
            if problem.place not in seen:
                message = problem.message.rstrip(".")
                if not STATES_SIZES.search(message):  # an expression says its sizes itself
                    message = f"{message} at {at}"
                remedy = problem.remedy or "Declare other sizes of the symbols."
                problems.append(replace(problem, message=message, remedy=remedy))
    if problems:
        raise InputError(dict.fromkeys(problems))


def _check_used(
    given: Mapping[str, SizesOf], specs: Mapping[str, Spec], programs: Sequence[Program]
) -> None:
    """Refuse sizes of a symbol that neither an input nor an operation has."""
    text = "".join(print_program(program) for program in programs)
    used = {symbol for spec in specs.values() for symbol in spec.symbols}
    for name in given:
        if name not in used and not re.search(rf"\b{name}\b", text):
            remedy = did_you_mean(name, used) if used else "All sizes are numbers."
            raise _error(f"no size has the symbol {name!r}", remedy)


def _check_results(
    sides: Sequence[Side], programs: Sequence[Program], spans: Mapping[str, Span]
) -> None:
    """Refuse results that are not rounded, or differ in shape or format."""
    high = {name: span.high for name, span in spans.items()}
    graphs = [program.bind(high) for program in programs]
    for name in programs[0].outputs:
        places = [program.place(name) for program in programs]
        nodes = [graph.values[name] for graph in graphs]
        formats = [_format(node) for node in nodes]
        for side, fmt, place in zip(sides, formats, places, strict=True):
            if fmt is None:
                raise _error(
                    f"the result `{name}` of `{side.side}` is not rounded, so it has no bits",
                    'Round it where it is returned: .to("bf16").',
                    place,
                )
        if formats[0] != formats[1]:
            raise _error(
                f"the result `{name}` is {formats[0]} before and {formats[1]} after",
                f'Round both to one format: .to("{formats[0]}").',
                places[1],
            )
        shapes = [str(list(node.shape)) for node in nodes]
        if shapes[0] != shapes[1]:
            ranged = [f"{n} = {span.high}" for n, span in spans.items() if not span.fixed]
            at = f" at {', '.join(ranged)}" if ranged else ""
            raise _error(
                f"the result `{name}` has the shape {shapes[0]} before and {shapes[1]} after{at}",
                "Return the same shape; a reduction keeps its axis with size 1.",
                places[1],
            )


def _format(node: Node) -> str | None:
    rounding = native_rounding(node)
    return None if rounding is None else rounding.format.short


def _error(message: str, remedy: str = "", place: Place = NOWHERE) -> InputError:
    return InputError([Problem(message, remedy, place)])
