"""The target with a batch of any size: which axes of its inputs count rows, and inputs of n rows.

Inputs come from `inputs(batch=n)` where the target's `inputs` takes such a number: it is called for
the largest batch, whose first rows the others are. Otherwise the tensors given are one batch: its
first rows are taken, and beyond them they are given again.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lastbit.audit.ending import ended
from lastbit.audit.input_axes import (
    PROBES,
    Shapes,
    axes_by_shape,
    candidate_axes,
    named_axes,
    parameter_names,
    rows_of_inputs,
)
from lastbit.audit.leaves import leaves, mapped
from lastbit.audit.settings import Settings
from lastbit.audit.taking import Axis
from lastbit.errors import InputError, Problem
from lastbit.importers.torch_calls import Target
from lastbit.report.words import plural
from lastbit.tracing.calls import Side

NAMED = "Name it with --batch-axis NAME=AXIS, as in --batch-axis x=0; once for each input."


@dataclass
class Program:
    """A target that can be run with any number of rows.

    Attributes:
        target: what is called.
        seed: what torch's generators start from.
        device: where it runs.
        axes: the leaves of its inputs that count rows.
        made: gives the inputs of so many rows; null: those given are all.
        rows: how many rows were given; of `made`, how many it is asked for.
        seconds: that one run may take; null: as long as it takes.
        settings: what of torch's own the target changes, and what is put back after each run.
    """

    target: Target
    seed: int
    device: str
    axes: Mapping[int, Axis] = field(default_factory=dict)
    made: Callable[[int], tuple[Any, ...]] | None = None
    rows: int = 1
    seconds: float | None = None
    settings: Settings = field(default_factory=Settings)
    _buffers: dict[str, Any] = field(default_factory=dict)
    _largest: tuple[int, tuple[Any, ...]] = (0, ())

    def __post_init__(self) -> None:
        module = self.target.call
        if hasattr(module, "named_buffers"):
            self._buffers = {name: one.detach().clone() for name, one in module.named_buffers()}

    @property
    def filled(self) -> str:
        """Say what counts rows, and where further ones come from."""
        if self.made is not None:
            return "rows from `inputs(batch=...)`"
        names = parameter_names(self.target)
        numbers = ", ".join(f"axis {one.axis} of {names(n)}" for n, one in self.axes.items())
        return f"rows along {numbers}; beyond the {self.rows:,} given they are given again"

    def inputs(self, size: int | None) -> tuple[Any, ...]:
        """Return inputs of so many rows; None: those given."""
        import torch

        given = self.target.args if size is None else self._given(size)
        numbers = iter(range(sum(1 for _ in leaves(given))))

        def change(leaf: Any) -> Any:
            number = next(numbers)
            if not isinstance(leaf, torch.Tensor):
                return leaf
            axis = self.axes.get(number)
            if size is not None and axis is not None:
                leaf = _repeated(leaf, axis, size)
            moved = leaf.detach().to(self.device)
            moved = moved.clone() if moved.data_ptr() == leaf.data_ptr() else moved
            return moved.requires_grad_(leaf.requires_grad)

        found: tuple[Any, ...] = mapped(given, change)
        return found

    def _given(self, size: int) -> tuple[Any, ...]:
        """Return inputs with at least so many rows, or those that are given again."""
        if self.made is None:
            return self.target.args
        if self._largest[0] < size:
            self._largest = max(size, self.rows), self.made(max(size, self.rows))
        return self._largest[1]

    def run(
        self,
        size: int | None = None,
        call: Callable[..., Any] | None = None,
        watched: contextlib.AbstractContextManager[None] | None = None,
    ) -> Any:
        """Run the target on so many rows, and return what it returns.

        Args:
            size: how many rows; None: the inputs as they were given.
            call: what is called in place of the target.
            watched: what is entered around the call alone.

        Raises:
            InputError: it raises an exception, with its line, or does not end.
        """
        import torch

        what = "" if size is None else f" on {plural(size, 'row')}"
        late = ended(self.target.label, self.seconds, what, watched=watched is not None)
        with late, self.settings.kept():
            inputs = self.inputs(size)
            torch.manual_seed(self.seed)
            self._restore()
            trains = self.target.grad or not isinstance(self.target.call, torch.nn.Module)
            with torch.set_grad_enabled(trains), watched or contextlib.nullcontext():
                chosen = self.target.call if call is None else call
                return Side(self.target.label, chosen).run(lambda: chosen(*inputs))

    def _restore(self) -> None:
        """Give the module the buffers it had: running statistics, caches."""
        import torch

        if self._buffers:
            with torch.no_grad():
                for name, one in self.target.call.named_buffers():  # type: ignore[attr-defined]
                    kept = self._buffers.get(name)
                    if kept is not None and kept.shape == one.shape:
                        one.copy_(kept)


def program(
    target: Target,
    given: Any,
    seed: int,
    device: str,
    named: Sequence[str] = (),
    seconds: float | None = None,
) -> Program:
    """Return a target that can be run with any number of rows.

    Args:
        target: the target with its inputs.
        given: its attribute `inputs`.
        seed: what torch's generators start from.
        device: where it runs.
        named: the axes that count rows, as the user writes them; empty: they are found.
        seconds: that one run may take; null: as long as it takes.

    Raises:
        InputError: the target does not run, or no axis counts rows.
    """
    if hasattr(target.call, "to") and hasattr(target.call, "named_buffers"):
        target.call.to(device)
    found = Program(target, seed, device, seconds=seconds)
    found.run()
    if named:
        found.axes = named_axes(target, named)
        found.rows = rows_of_inputs(target, found.axes)
        return found
    if callable(given) and "batch" in inspect.signature(given).parameters:

        def made(size: int) -> tuple[Any, ...]:
            inputs = Side(f"{target.label}.inputs", given).run(given, batch=size)
            return inputs if isinstance(inputs, tuple) else tuple(inputs)

        found.made = made
        found.axes = _axes_of_made(target, made)
        return found
    tried = list(_that_run(found))
    for wanted in (_grow, _stay):  # a loss and its gradients have no rows
        for one, shapes in tried:
            if wanted(*shapes):
                return one
    message = f"no axis of the inputs of {target.label} was found that counts rows of a batch"
    raise InputError([Problem(message, NAMED)])


def _repeated(leaf: Any, axis: Axis, size: int) -> Any:
    """Return so many rows of a tensor, laid out alike; its own again where it has fewer."""
    import torch

    order = sorted(range(leaf.dim()), key=lambda number: -leaf.stride(number))
    places = torch.arange(size * axis.each, device=leaf.device) % leaf.shape[axis.axis]
    dense = leaf.detach().permute(order).index_select(order.index(axis.axis), places)
    back = [order.index(number) for number in range(leaf.dim())]
    return dense.permute(back).requires_grad_(leaf.requires_grad)


def _axes_of_made(target: Target, made: Callable[[int], tuple[Any, ...]]) -> dict[int, Axis]:
    """Return what counts rows in inputs that are made for any number of them."""
    small, large = ([*leaves(made(size))] for size in PROBES)
    shapes = [[tuple(getattr(one, "shape", ())) for one in side] for side in (small, large)]
    found = axes_by_shape(shapes[0], shapes[1])
    axes = {number: axis for number, axis in enumerate(found) if axis is not None}
    kept = [number for number, (a, b) in enumerate(zip(*shapes, strict=False)) if a != b]
    if len(small) != len(large) or sorted(axes) != kept or not axes:
        message = f"`inputs(batch=2)` and `inputs(batch=3)` of {target.label} do not differ by rows"
        remedy = "Let each of its tensors keep its axes, and one of them count rows."
        raise InputError([Problem(message, remedy)])
    return axes


def _that_run(found: Program) -> Iterator[tuple[Program, tuple[Shapes, Shapes]]]:
    """Yield the target with axes with which it runs, and the shapes of results of two sizes."""
    for axes in candidate_axes(found.target):
        tried = Program(found.target, found.seed, found.device, axes, None)
        tried.seconds, tried.settings = found.seconds, found.settings
        tried.rows = rows_of_inputs(found.target, axes)
        with _quiet():
            try:
                small, large = (_shapes(tried.run(size)) for size in PROBES)
            except InputError:
                continue
        yield tried, (small, large)


def _shapes(result: Any) -> Shapes:
    return [tuple(one.shape) for one in leaves(result) if hasattr(one, "shape")]


def _grow(small: Shapes, large: Shapes) -> bool:
    """Return whether results have one axis that grows with the rows."""
    if len(small) != len(large):
        return False
    grown = 0
    for a, b in zip(small, large, strict=True):
        if len(a) != len(b):
            return False
        other = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
        if len(other) > 1 or any(x * PROBES[1] != y * PROBES[0] for x, y in other):
            return False
        grown += len(other)
    return grown > 0


def _stay(small: Shapes, large: Shapes) -> bool:
    """Return whether results have the same shapes whatever the rows."""
    return small == large


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what a wrong guess prints, and warns of, to itself."""
    disabled = logging.root.manager.disable
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(disabled)
