"""The reference: a function in lastbit's operators, or a value of a plan, at fixed sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from typing import Any

from lastbit.definitions import Definitions
from lastbit.errors import InputError, Place, Problem, did_you_mean
from lastbit.formats import Format
from lastbit.graph import Input, native_rounding
from lastbit.inference.kernel import Wanted
from lastbit.plan import load_plan
from lastbit.plan_model import Plan
from lastbit.text import Program
from lastbit.tracing.calls import Side, as_spec, inputs_of
from lastbit.tracing.plan import plan_of
from lastbit.tracing.spec import Spec
from lastbit.verify.bench import Bench


@dataclass(frozen=True)
class Reference:
    """What the kernel is meant to compute.

    Attributes:
        plan: its graph, with sizes for the symbols.
        name: what it is called.
    """

    plan: Plan
    name: str

    @cached_property
    def bench(self) -> Bench:
        """The program at any sizes."""
        return Bench(self.plan)

    @cached_property
    def program(self) -> Definitions:
        """The program at the sizes to be run."""
        return self.bench.before(0, self.bench.true)

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs in order."""
        nodes = self.program.nodes
        return tuple(n for name, n in nodes.items() if self.program.is_input(name))  # type: ignore[misc]

    @property
    def formats(self) -> dict[str, Format]:
        """Return the format of each input."""
        return {node.name: node.format for node in self.inputs}

    @cached_property
    def results(self) -> tuple[Wanted, ...]:
        """The results."""
        found = []
        for name in self.program.outputs:
            node = self.program.nodes[name]
            rounding = native_rounding(node)
            if rounding is None:
                message = f"the result `{name}` of the reference is not rounded, so it has no bits"
                raise _error(message, 'Round it where it is returned: .to("bf16").')
            found.append(Wanted(name, rounding.format, node.shape))
        return tuple(found)


def reference_of(
    function: Callable[..., Any],
    specs: Mapping[str, Spec | str],
    sizes: Mapping[str, int],
) -> Reference:
    """Return a function in lastbit's operators as a reference.

    Args:
        function: the function.
        specs: format and shape of inputs; others are those that the function itself states.
        sizes: a number for each size symbol.

    Raises:
        InputError: the function cannot be traced, or a size is missing.
    """
    side = Side("reference", function)
    given = {name: as_spec(name, value) for name, value in specs.items()}
    found = inputs_of((side,), given)
    _require_sizes({s for spec in found.values() for s in spec.symbols}, sizes)
    used = {s for spec in found.values() for s in spec.symbols}
    compared = plan_of((side, side), found, {n: s for n, s in sizes.items() if n in used}, None)
    plan = replace(compared.plan, after=None)
    name = getattr(function, "__name__", "reference")
    return Reference(plan, name)


def reference_in_plan(text: str, sizes: Mapping[str, int]) -> Reference:
    """Return a value of a plan, `PLAN.toml:NAME`, as a reference.

    Raises:
        InputError: the plan cannot be read, or has no such value or size.
    """
    file, _, name = text.rpartition(":")
    if not file:
        raise _error(f"{text!r} names no value of a plan", f"Write {text}:NAME.")
    plan = load_plan(file, date.today())
    names = [st.name for st in plan.program.statements if st.expr is not None]
    if name not in names:
        raise _error(f"the plan has no value {name!r}", did_you_mean(name, names), Place(file))
    for symbol in sizes:
        if symbol not in plan.symbols:
            raise _error(f"the plan has no size {symbol!r}", did_you_mean(symbol, plan.symbols))
    spans = {
        symbol: replace(span, low=size, high=size, typical=size)
        for symbol, span in plan.symbols.items()
        for size in [sizes.get(symbol, span.typical)]
    }
    program = _cut(plan, name)
    return Reference(replace(plan, program=program, after=None, transforms=(), symbols=spans), name)


def _cut(plan: Plan, name: str) -> Program:
    """Return the program with one result, and what that needs."""
    program = replace(plan.program, outputs=(name,))
    whole = Bench(replace(plan, program=program, after=None, transforms=()))
    definitions = whole.before(0, whole.true)
    inputs = [n for n in definitions.nodes if definitions.is_input(n)]
    needed = set(definitions.closed([name], inputs).values)
    return replace(program, statements=tuple(s for s in program.statements if s.name in needed))


def _require_sizes(symbols: set[str], sizes: Mapping[str, int]) -> None:
    problems = [
        Problem(
            f"the size symbol {symbol!r} has no number",
            f"A kernel runs at one size: --symbol {symbol}=64, or sizes={{{symbol!r}: 64}}.",
        )
        for symbol in sorted(symbols)
        if symbol not in sizes
    ]
    problems += [
        Problem(f"no input has the size symbol {name!r}", did_you_mean(name, symbols))
        if symbols
        else Problem(f"no input has the size symbol {name!r}")
        for name in sizes
        if name not in symbols
    ]
    if problems:
        raise InputError(problems)


def _error(message: str, remedy: str = "", place: Place | None = None) -> InputError:
    return InputError([Problem(message, remedy, place or Place())])
