"""The reference: a function in lastbit's operators, or a value of a plan, at fixed sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any

from lastbit.definitions import Definitions
from lastbit.errors import InputError, LastbitError, Place, Problem, did_you_mean
from lastbit.expression import parse_expression
from lastbit.formats import Format
from lastbit.graph import Input, Node, Reduce, native_rounding, topological
from lastbit.inference import inputs as kinds
from lastbit.inference.constant_forms import magnitudes
from lastbit.inference.kernel import Wanted
from lastbit.plan import load_plan
from lastbit.plan_model import Plan
from lastbit.round_array import Codes
from lastbit.text import Program
from lastbit.tracing.calls import Side, as_spec, inputs_of
from lastbit.tracing.plan import plan_of
from lastbit.tracing.spec import Spec
from lastbit.verify.bench import Bench

ROWS, ROWS_SIZE = "rows_", 1999  # a size that no other axis has, since axes are told by sizes
MOST_ELEMENTS = 1 << 28  # of an array
WIDE = 100  # the largest exponent of formats in which 2^24 has a square


def is_sum(node: Node) -> bool:
    """Return whether a node is a sum that rounds."""
    return isinstance(node, Reduce) and node.op == "sum" and node.acc is not None


@dataclass(frozen=True)
class Reference:
    """What the kernel is meant to compute.

    Attributes:
        plan: its graph, with sizes for the symbols.
        name: what it is called.
        retraced: traces it again with other inputs, or None.
    """

    plan: Plan
    name: str
    retraced: Callable[[Sequence[str]], Reference] | None = field(default=None, repr=False)

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

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """The sizes of the constants that are added or compared."""
        return magnitudes(self.program)

    @property
    def usual(self) -> tuple[str, ...]:
        """Return the kinds of inputs on which a kernel is looked at first."""
        return (*kinds.USUAL, kinds.NEAR) if self.scales else kinds.USUAL

    @property
    def first(self) -> tuple[str, ...]:
        """Return the kinds of inputs that the search begins with.

        Trees of sums rarely show behind another rounding; where no value can become infinite, there
        are inputs among them that show what a sum loses.
        """
        sums = any(is_sum(node) for node in topological(self.program.nodes.values()))
        wide = all(node.format.emax >= WIDE for node in self.inputs)
        return (*self.usual, kinds.ABSORBED) if sums and wide else self.usual

    def drawn(
        self, seed: int, kind: str = kinds.DRAWN, inputs: Sequence[Input] | None = None
    ) -> dict[str, Codes]:
        """Return codes of inputs of a kind.

        Args:
            seed: selects the values.
            kind: what they are.
            inputs: the inputs, at other sizes; None: as they are.
        """
        given = self.inputs if inputs is None else inputs
        return kinds.drawn(given, self.plan.inputs, seed, kind, self.scales)

    @cached_property
    def by_rows(self) -> Reference:
        """The reference with a size symbol of its own for the first axis of its inputs.

        Where all inputs that are as long along their first axis cannot have one, the first of them
        has it alone; where that cannot be either, this is the reference itself.
        """
        if self.retraced is None or self.rows is None:
            return self
        first = max(self.inputs, key=lambda node: len(node.shape))
        alike = [n.name for n in self.inputs if n.shape[:1] == (self.rows,) and len(n.shape) > 1]
        for names in (alike, [first.name]):
            try:
                return self.retraced(names)
            except LastbitError:
                continue
        return self

    @property
    def rows(self) -> int | None:
        """Return how many rows the inputs have."""
        first = max(self.inputs, key=lambda node: len(node.shape), default=None)
        return None if first is None or len(first.shape) < 2 else first.shape[0]


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
    for symbol, size in sizes.items():
        if type(size) is not int or size < 1:
            remedy = f"Write 1 or more: --symbol {symbol}=64."
            raise _error(f"the size {symbol!r} is {size!r}", remedy)
    used = {s for spec in found.values() for s in spec.symbols}
    held = {n: s for n, s in sizes.items() if n in used}
    compared = plan_of((side, side), found, held, None)
    plan = replace(compared.plan, after=None)
    name = getattr(function, "__name__", "reference")

    def retraced(names: Sequence[str]) -> Reference:
        """Return the reference with a symbol for the first axis of some inputs."""
        rows = parse_expression(ROWS)
        new = {
            n: replace(spec, dims=(rows, *spec.dims[1:])) if n in names else spec
            for n, spec in found.items()
        }
        again = plan_of((side, side), new, {**held, ROWS: ROWS_SIZE}, None)
        return Reference(replace(again.plan, after=None), name)

    return _of_a_size(Reference(plan, name, retraced))


def _of_a_size(reference: Reference) -> Reference:
    """Return a reference whose arrays have elements, and not too many."""
    shapes = {node.name: node.shape for node in reference.inputs}
    for name, shape in {**shapes, **{r.name: r.shape for r in reference.results}}.items():
        size = math.prod(shape)
        if not 0 < size <= MOST_ELEMENTS:
            message = f"`{name}` has {size:,} elements"
            raise _error(message, f"Choose sizes for 1 to {MOST_ELEMENTS:,} of them.")
    return reference


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
    plan = replace(plan, program=program, after=None, transforms=(), symbols=spans)
    return _of_a_size(Reference(plan, name))


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
