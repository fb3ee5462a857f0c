"""Reveal the order of a sum: guess and prove where the tree is regular, else search.

All of it rests on calls alone. What is found is the tree for this number of elements, this format
and this shape of call; a library may choose another for others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np

from lastbit.errors import InputError, Problem
from lastbit.formats import Format, format_of
from lastbit.machines import UNITS
from lastbit.order.adapters import Layout, Target, named_target, require_format
from lastbit.order.checks import (
    accumulator,
    deterministic,
    seen_in_vectors,
    stands_up,
    step_digits,
    without_tree,
)
from lastbit.order.draw import difference_text
from lastbit.order.familiar import familiar
from lastbit.order.findings import EXACT, NO_TREE, MisfitError, NoTreeError
from lastbit.order.guess import Guess
from lastbit.order.members import small_tree
from lastbit.order.probe import Prober
from lastbit.order.proof import Proof
from lastbit.order.recognise import recognise, renamed
from lastbit.order.search import Search
from lastbit.order.tree import OrderTree, difference, tree_of_schedule, tree_of_steps
from lastbit.order.units import Units
from lastbit.round_array import decode_array
from lastbit.schedule import Schedule, ScheduleError, parse_schedule
from lastbit.schedule import deterministic as deterministic_schedule

GUESSED: Final = 96  # elements from which a guess saves calls
SMALL: Final = 26  # elements of which one result can name every one
MOST: Final = 16_384
LARGEST: Final = 1 << 28  # elements of one call
ROOMS: Final = (10, 7, 3)  # digits to count with, where more were too many


@dataclass(frozen=True, eq=False)
class Order:
    """The order in which a function adds.

    Attributes:
        label: the function's name.
        tree: its summation tree.
        format: the format of the elements.
        rows: the rows of every call, or None for a vector alone.
        method: `guessed and proved`, or `searched`.
        calls: how often the function was called.
        checks: how many of these calls did not look for the tree: they made sure that batches and
            repeated calls give the same bits, and that the tree gives the function's own.
        probes: how many vectors it was given that answered a question.
        accumulator: the format with which the tree gives the function's bits on random vectors;
            None where no format does, or where steps have several terms.
        result: the format of the results.
        step_digits: how many digits below its largest term a step of several terms keeps.
        notes: what a reader must know.
    """

    label: str
    tree: OrderTree
    format: Format
    rows: int | None = None
    method: str = ""
    calls: int = 0
    checks: int = 0
    probes: int = 0
    accumulator: str | None = None
    result: str | None = None
    step_digits: int | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def hash(self) -> str:
        """A hash of the tree: equal trees have equal hashes."""
        return self.tree.hash

    @cached_property
    def machines(self) -> tuple[str, ...]:
        """The machines that have such a step of several terms."""
        width = max(self.tree.widths, default=0) - 1
        found = [
            unit.machine
            for unit in UNITS
            if unit.width in (width, width + 1) and unit.fraction_bits == self.step_digits
        ]
        return tuple(dict.fromkeys(found))

    @cached_property
    def form(self) -> Schedule | None:
        """The schedule of one of the known forms, where the tree has one.

        Steps of several terms whose machine is not known have the machine `?`.
        """
        return recognise(self.tree, self.machines[0] if self.machines else "?")

    @property
    def schedule(self) -> Schedule | None:
        """The tree as a schedule: a known form, else the explicit tree.

        None for steps of several terms that are no chain, or that no known machine does.
        """
        if self.form is not None and (self.tree.binary or self.machines):
            return self.form
        return self.tree.explicit() if self.tree.binary else None

    def schedules(self) -> list[Schedule]:
        """Return the schedule for each machine that could be meant."""
        if self.schedule is None or self.tree.binary:
            return [self.schedule] if self.schedule is not None else []
        return [renamed(self.schedule, machine) for machine in self.machines]

    def difference(self, other: Order) -> str:
        """Say in words where the order of another function first differs."""
        if self.tree.leaves != other.tree.leaves:
            return f"{self.label} adds {self.tree.leaves} elements, {other.label} adds " + (
                f"{other.tree.leaves}."
            )
        first, second = difference(self.tree, other.tree)
        names = (self.label, other.label)
        if names[0] == names[1]:
            names = (f"{names[0]} (first)", f"{names[1]} (second)")
        return difference_text(first, second, names)


def reveal_order(
    function: str | Callable[..., Any],
    n: int,
    *,
    format: str = "f32",  # noqa: A002 - the word of the command line and of plans
    rows: int | None = None,
    library: str = "numpy",
    device: str = "cpu",
    axis: int = -1,
    columns: int = 1,
    one_by_one: bool = False,
    repeats: int = 3,
    seed: int = 0,
) -> Order:
    """Reveal the order in which a function adds up n elements.

    Args:
        function: takes a vector of n elements and returns their sum, and may take `[rows, n]` and
            return `[rows]`; or a name, such as `numpy.sum`, `torch.mm` or `file.py:name`.
        n: the number of elements.
        format: their format.
        rows: the rows of every call, where the order for such a call is wanted; without it the
            order for one vector is revealed.
        library: whose arrays the function takes, `numpy` or `torch`.
        device: the device of torch tensors.
        axis: the axis that is added up, -1, or 0 for arrays `[n, rows]`.
        columns: for products, the columns of the other factor, which is all ones.
        one_by_one: whether to give the function one vector at a time in any case.
        repeats: how often the same call must give the same bits.
        seed: of all draws.

    Raises:
        InputError: the function cannot be called so, or does not add.
        NoTreeError: it adds, but not by one fixed tree of rounded steps.
    """
    fmt = format_of(format)
    _require(n, rows, axis)
    layout = Layout(library, device, axis, columns)
    if isinstance(function, str):
        target = named_target(function, layout)
    else:
        target = Target(getattr(function, "__name__", str(function)), function, layout)
    require_format(fmt, target.layout)
    if axis == 0 and rows is None:
        rows = 1
    prober = Prober(target, n, fmt, rows, seed, one_by_one)
    if n == 1:
        return Order(target.label, tree_of_steps(1, []), fmt, rows, "one element")
    with np.errstate(all="ignore"):
        return _revealed(prober, repeats)


def order_of_schedule(text: str, n: int, format: str = "f32") -> Order:  # noqa: A002
    """Return the order that a schedule describes for n elements.

    Raises:
        ScheduleError: the text is no schedule, has symbols, or adds in any order.
        InputError: n is out of range.
    """
    _require(n, None, -1)
    schedule = parse_schedule(text)
    if not deterministic_schedule(schedule):
        raise ScheduleError(text, "it adds in any order, so it has no tree", "Name one order.")
    tree = tree_of_schedule(schedule, n)
    return Order(text, tree, format_of(format), method="a schedule")


def _require(n: int, rows: int | None, axis: int) -> None:
    problems = []
    if not 1 <= n <= MOST:
        problems.append(Problem(f"n is {n}", f"Allowed: 1 to {MOST}."))
    if rows is not None and rows < 1:
        problems.append(Problem(f"rows is {rows}", "Allowed: 1 and above."))
    elif rows is not None and 1 <= n <= MOST and rows * n > LARGEST:
        allowed = f"Allowed for {n} elements: 1 to {LARGEST // n}."
        problems.append(Problem(f"rows is {rows}", allowed))
    if axis not in (-1, 0):
        problems.append(Problem(f"axis is {axis}", "Allowed: -1 and 0."))
    if problems:
        raise InputError(problems)


def _revealed(prober: Prober, repeats: int) -> Order:
    fmt = prober.format
    units: Units | None = None
    prober.start()
    vectors, sums = deterministic(prober, repeats)
    started = prober.calls
    try:
        units = Units(prober)
        tree, method = _found(prober, units)
        revealed = prober.calls
        acc, result = accumulator(tree, decode_array(vectors, fmt), fmt, sums)
        digits = None
        if acc is None:
            # No sum was foretold yet, so the tree has to stand up in other ways.
            units.check()
            stands_up(prober, units, tree)
            digits = step_digits(prober, units, tree)
    except MisfitError as misfit:
        raise _without_tree(prober, units, misfit.reason) from None
    except NoTreeError as error:
        raise _seen(prober, error) from None
    if tree.binary and acc is None and tree.leaves > 2:
        found = without_tree(prober, "")
        if found.kind != NO_TREE:
            raise found
        prober.notes.append(
            "its bits on random vectors are not those of this tree with accumulators of one format:"
            " levels of different formats, or wider ones inside, may be at work"
        )
    return Order(
        prober.target.label,
        tree,
        fmt,
        prober.rows,
        method,
        prober.calls,
        prober.calls - (revealed - started),
        prober.probes,
        acc,
        result,
        digits,
        tuple(prober.notes),
    )


def _without_tree(prober: Prober, units: Units | None, reason: str) -> NoTreeError:
    """Return why a function has no tree, whose sizes fit none.

    Raises:
        InputError: the function does not add.
    """
    if units is not None:
        try:
            units.check()
        except MisfitError as misfit:
            reason = misfit.reason
        except NoTreeError as error:
            return _seen(prober, error)
    return without_tree(prober, reason)


def _seen(prober: Prober, error: NoTreeError) -> NoTreeError:
    """Return why nothing is lost beside M, where random vectors say more about that."""
    if error.kind == EXACT:
        for kind, seen in seen_in_vectors(prober):
            if kind != EXACT:
                return NoTreeError(error.label, kind, seen)
            break
    return error


def _guesses(prober: Prober, search: Search) -> Iterator[Callable[[], OrderTree | None]]:
    """Yield ways to guess the tree that cost fewer calls than a search, the cheapest first."""
    if prober.n >= GUESSED or not prober.batched:
        codes, sums = prober.canaries, prober.alone
        yield lambda: familiar(decode_array(codes, prober.format), sums)
    if prober.n >= GUESSED:
        yield Guess(search).tree
    if not prober.batched and prober.n > SMALL:
        yield search.flat


def _found(prober: Prober, units: Units) -> tuple[OrderTree, str]:
    """Return the tree and how it was found.

    Raises:
        MisfitError: there is none.
    """
    search = Search(prober, units)
    for guess in _guesses(prober, search):
        try:
            tree = guess()
            if tree is not None and Proof(prober, units).holds(tree):
                return tree, "guessed and proved"
        except MisfitError:
            pass
    if not prober.batched and prober.n <= SMALL and units.wide:
        tree = small_tree(prober, units)
        if tree is not None:
            return tree, "searched"
    rooms: Sequence[int] = [units.room, *(room for room in ROOMS if room < units.room)]
    for room in rooms:
        try:
            search = search if room == units.room else Search(prober, units, room)
            tree = search.tree()
            if search.sampled:
                prober.notes.append("a step of very many terms was tried on some of its terms only")
            return tree, "searched"
        except MisfitError as error:
            misfit = error
    raise misfit
