"""One recorded operator with its inputs: run again on all rows, on some, or by another function.

A case lives only while its inputs are at hand: inside the call that was recorded. What the operator
writes is copied for every run, what it only reads is not; some rows are copied into memory of their
own (`lastbit.audit.taking`). An operator that draws random numbers draws the same ones every time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lastbit.audit.bits import plain, same
from lastbit.audit.leaves import leaves, mapped
from lastbit.audit.taking import Axis, Rows, copied, selected, taken

# Results that hold no values of the program: states of generators, and what a kernel leaves unset.
NO_VALUES = {"rng_state", "unused", "philox_seed", "philox_offset", "debug_attn_mask"}


class NotSeparableError(ValueError):
    """Rows of an operator are wanted whose arguments cannot be restricted to rows.

    Attributes:
        why: the reason, as in `Case.why_whole`.
    """

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"the rows of this operator cannot be taken apart: {why}")


@dataclass(frozen=True, slots=True)
class Layout:
    """Which axes of an operator count rows.

    Attributes:
        arguments: for each leaf of the arguments its axis, or null. For an integer only `each`
            counts: the integer is that many times the number of rows.
        results: the same for each tensor of the results, in the order of `Case.run`.
        why_whole: why the rows cannot be taken apart; null where they can.
        outside: whether that is so because the operator has nothing to do with the batch.
        left_out: why results are not compared by rows, though others are.
    """

    arguments: tuple[Axis | None, ...] = ()
    results: tuple[Axis | None, ...] = ()
    why_whole: str | None = None
    outside: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def mixing(self) -> bool:
        """Return whether arguments have rows and no result has, as of a sum over the batch."""
        return self.outside and bool(self.arguments) and any(self.arguments)


@dataclass(frozen=True, slots=True)
class Case:
    """One call of an operator.

    Attributes:
        name: of the operator (`aten.mm.default`).
        key: equal for calls with equal signature: formats, shapes, strides, numbers.
        index: the number of the call in the run.
        path: of the module that calls it (`layers.0.mlp.down_proj`), or empty.
        place: `file:line` of the user's source, or null.
        size: the rows of the batch, B.
        device: where its tensors are (`cpu`, `cuda:0`).
        function: the operator.
        args: its positional arguments.
        kwargs: its named arguments.
        layout: which axes count rows.
        written: the leaves that the operator writes, by number.
        ignored: results without values of the program, by number among what it returns.
        states: for each generator that it draws from, the state it had; see `draws`.
        grad: whether gradients were on, which some operators ask for.
    """

    name: str
    key: str
    index: int
    path: str
    place: str | None
    size: int
    device: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    layout: Layout
    written: frozenset[int] = frozenset()
    ignored: frozenset[int] = frozenset()
    states: tuple[tuple[Any, Any], ...] = ()
    grad: bool = False

    @property
    def separable(self) -> bool:
        """Return whether it can be run on some rows of the batch."""
        return self.layout.why_whole is None

    @property
    def why_whole(self) -> str | None:
        """Return why it cannot be run on some rows; None where it can."""
        return self.layout.why_whole

    @property
    def draws(self) -> bool:
        """Return whether it draws random numbers."""
        return bool(self.states)

    def turned(self, row: int) -> Case:
        """Return the same call with one row moved to the front, the others in their order."""
        args, kwargs = self.arguments([row, *range(row), *range(row + 1, self.size)])
        return replace(self, args=args, kwargs=kwargs)

    def arguments(
        self,
        rows: Rows | None = None,
        *,
        others: str | None = None,
        keep: Sequence[int] = (0,),
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments and named arguments to call the operator with.

        Args:
            rows: rows of the batch in the order wanted, or how many of the first; None: all, in
                the memory that they had.
            others: what every row but those kept holds instead of its floating-point numbers:
                `zeros` or `nan`.
            keep: places of rows that keep their numbers where others are replaced.

        Raises:
            NotSeparableError: rows are named, or others replaced, and the operator has none.
        """
        whole = self.why_whole is None or self.layout.mixing
        if (rows is not None or others is not None) and not whole:
            raise NotSeparableError(self.why_whole or "")
        given = (tuple(self.args), dict(self.kwargs))
        axes = iter(self.layout.arguments)
        numbers = iter(range(len(self.layout.arguments) or _count(given)))
        known: dict[int, Any] = {}  # one tensor given twice stays one

        def change(leaf: Any) -> Any:
            number, axis = next(numbers), next(axes, None)
            if not _is_tensor(leaf):
                return leaf if axis is None or rows is None else axis.each * _number(rows)
            if id(leaf) not in known:
                known[id(leaf)] = self._argument(leaf, axis, number in written, rows, others, keep)
            return known[id(leaf)]

        written = self._written_with_twins(given)
        args, kwargs = mapped(given, change)
        return args, kwargs

    def _written_with_twins(self, given: Any) -> frozenset[int]:
        if not self.written:
            return self.written
        every = list(leaves(given))
        twins = {id(every[number]) for number in self.written}
        return frozenset(number for number, leaf in enumerate(every) if id(leaf) in twins)

    def _argument(
        self,
        tensor: Any,
        axis: Axis | None,
        written: bool,
        rows: Rows | None,
        others: str | None,
        keep: Sequence[int],
    ) -> Any:
        if axis is not None and (rows is not None or others is not None):
            found = taken(tensor, axis, self.size if rows is None else rows, self.size)
            if others is not None and found.is_floating_point() and tensor.stride(axis.axis):
                _fill(found, axis, others, keep)
            return found
        return copied(tensor) if written else tensor

    def run(
        self,
        rows: Rows | None = None,
        function: Callable[..., Any] | None = None,
        *,
        others: str | None = None,
        keep: Sequence[int] = (0,),
    ) -> tuple[Any, ...]:
        """Run the operator by itself, and return its tensors: what it returns, then what it writes.

        Args:
            rows: as in `arguments`.
            function: what is called in place of the operator, with the same arguments.
            others: as in `arguments`.
            keep: as in `arguments`.

        Raises:
            NotSeparableError: as `arguments` does.
            Exception: what the operator itself raises for these rows.
        """
        import torch

        with torch.no_grad():
            args, kwargs = self.arguments(rows, others=others, keep=keep)
            with _drawing_again(self.states), torch.set_grad_enabled(self.grad):
                returned = (function or self.function)(*args, **kwargs)
            return self.results(returned, args, kwargs)

    def results(
        self, returned: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """Return the tensors that a call gave: what it returned, then what else it wrote."""
        return results_of(returned, args, kwargs, self.written, self.ignored)

    def rows_of(self, results: tuple[Any, ...], rows: Rows) -> tuple[Any, ...]:
        """Return the part of some results that belongs to rows, each a contiguous tensor.

        Results without an axis that counts rows are left out.

        Args:
            results: of `run`, for any rows.
            rows: places among the rows that the results are for, or how many of the first.
        """
        found = []
        for one, axis in zip(results, self.layout.results, strict=True):
            if axis is not None:
                part = selected(one, axis, rows, one.shape[axis.axis] // axis.each)
                found.append(part.contiguous())
        return tuple(found)

    def rows_apart(self, first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[int, ...]:
        """Return the places of rows that have other bits in the one part than in the other.

        Args:
            first: of `rows_of`.
            second: of `rows_of` for as many rows.
        """
        if same(first, second):
            return ()
        found: set[int] = set()
        axes = [axis for axis in self.layout.results if axis is not None]
        for a, b, axis in zip(first, second, axes, strict=True):
            size = a.shape[axis.axis] // axis.each
            if a.shape != b.shape or a.dtype != b.dtype:
                return tuple(range(size))
            if a.numel():
                found.update(_places_apart(a, b, axis, size))
        return tuple(sorted(found))


def results_of(
    returned: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    written: frozenset[int],
    ignored: frozenset[int],
) -> tuple[Any, ...]:
    """Return the tensors that a call gave: what it returned, then what else it wrote."""
    values = enumerate(leaves(returned))
    found = [one for n, one in values if _is_tensor(one) and n not in ignored]
    known = {id(one) for one in found}
    given = list(leaves((args, dict(kwargs)))) if written else []
    for number in sorted(written):
        if _is_tensor(given[number]) and id(given[number]) not in known:
            known.add(id(given[number]))
            found.append(given[number])
    return tuple(found)


def _count(given: Any) -> int:
    return sum(1 for _ in leaves(given))


def _number(rows: Rows) -> int:
    return rows if isinstance(rows, int) else len(rows)


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _places_apart(a: Any, b: Any, axis: Axis, size: int) -> list[int]:
    length = a.shape[axis.axis]
    flat = [plain(one.movedim(axis.axis, 0)).reshape(length, -1) for one in (a, b)]
    other = (flat[0] != flat[1]).any(1)
    rows = other.reshape(axis.each, size).any(0) if axis.inner else other.reshape(size, -1).any(1)
    return [int(row) for row in rows.nonzero().reshape(-1)]


def _fill(tensor: Any, axis: Axis, others: str, keep: Sequence[int]) -> None:
    """Overwrite every row but those kept."""
    size = tensor.shape[axis.axis] // axis.each
    for number, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[number] > 1:  # one element stands for all
            tensor = tensor.narrow(number, 0, 1)
    kept = taken(tensor, axis, keep, size)
    tensor.fill_({"zeros": 0.0, "nan": float("nan")}[others])
    for number, place in enumerate(axis.places(keep, size)):
        tensor.select(axis.axis, place).copy_(kept.select(axis.axis, number))


@contextlib.contextmanager
def _drawing_again(states: tuple[tuple[Any, Any], ...]) -> Iterator[None]:
    """Give generators an earlier state for a while."""
    kept = [generator.get_state() for generator, _ in states]
    for generator, state in states:
        generator.set_state(state)
    try:
        yield
    finally:
        for (generator, _), state in zip(states, kept, strict=True):
            generator.set_state(state)
