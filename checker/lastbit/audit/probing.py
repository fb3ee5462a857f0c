"""Reveal the order in which an operator adds up one of its outputs, in a batch of a given size.

The operator is called with its own arguments: shapes, strides and alignment are those of the
program, only the numbers are others. Probes take the place of some rows of the left operand,
the right operand holds ones, and what is added besides holds zeros.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from lastbit.audit.calling import Call
from lastbit.audit.case import Case
from lastbit.audit.contraction import Contraction, Operand
from lastbit.audit.refusals import line_of
from lastbit.audit.taking import Rows, copied
from lastbit.audit.tensor_values import as_integers, codes_of_tensor, format_of_tensor
from lastbit.audit.tree_words import in_words
from lastbit.errors import LastbitError
from lastbit.levels import Pairwise, Schedule, Seq, Split
from lastbit.order import NoTreeError, Order, OrderTree, reveal_order, tree_of_schedule
from lastbit.order.findings import RANDOM
from lastbit.order.reveal import MOST

Tensor: TypeAlias = Any  # of torch, which is imported when it is needed
Place: TypeAlias = tuple[int, int, int]

VECTORS: Final = 16  # of random terms
MOST_ROWS: Final = 64  # probes in one call
MOST_PIECES: Final = 32  # that are counted rather than measured
WRITTEN: Final = 160  # characters of a schedule that are shown


class NotRevealedError(Exception):
    """No order was revealed.

    Attributes:
        why: the reason.
        unordered: whether identical calls gave different results.
    """

    def __init__(self, why: str, unordered: bool = False) -> None:
        self.why, self.unordered = why, unordered
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class Revealed:
    """The order of one output.

    Attributes:
        order: as it was revealed.
        of: what it is the order of, where that is not the operator itself, or empty.
    """

    order: Order
    of: str = ""

    @property
    def text(self) -> str:
        """Return the schedule in words that parse, or what is known of a tree of no known form."""
        schedule, tree = self.order.form, self.order.tree
        if schedule is not None:
            schedule = by_number(schedule, tree)
        if schedule is not None and len(str(schedule)) <= WRITTEN:
            return str(schedule)
        return in_words(tree)


def by_number(schedule: Schedule, tree: OrderTree) -> Schedule:
    """Return a schedule of few pieces written with their number, which may follow the batch."""
    match schedule:
        case Pairwise(leaf=int(leaf)):
            number = 1
            while -(-tree.leaves // number) > leaf:
                number *= 2
        case Split(n=None, size=int(size)):
            number = -(-tree.leaves // size)
        case _:
            return schedule
    if not 1 < number <= MOST_PIECES:
        return schedule
    inner = schedule.inner if isinstance(schedule, Split) else Seq()
    outers = [schedule.outer] if isinstance(schedule, Split) else [Seq(), Pairwise()]
    for outer in outers:
        split = Split(number, inner=inner, outer=outer)
        if tree_of_schedule(split, tree.leaves) == tree:
            return split
    return schedule


def revealed(
    case: Case,
    form: Contraction,
    rows: Rows | None,
    place: Place,
    seconds: float,
    number: int = 0,
) -> Revealed:
    """Reveal the order in which an operator adds up one output.

    Args:
        case: the operator.
        form: what it adds up for these rows.
        rows: of the batch, as in `Case.arguments`.
        place: of the output, as `Contraction.place` gives it.
        seconds: after which no further call is made.
        number: of the result among those of the operator.

    Raises:
        NotRevealedError: there is no tree, it was not found in time, or it is no such operator.
    """
    terms = form.terms_at(place)
    if terms > MOST:
        raise NotRevealedError(f"orders of at most {MOST:,} terms are revealed, not {terms:,}")
    call = Call.of(case, rows)
    function, of = None, ""
    if form.right is None and not is_power_of_two(form.alpha.denominator):
        function, of = _as_sum(case, call, form)
    operator = Prepared(case, form, call, place, function, seconds, number)
    fmt = format_of_tensor(operator.left)
    assert fmt is not None
    try:
        order = reveal_order(
            operator,
            terms,
            format=fmt.short,
            rows=len(operator.rows),
            library="torch",
            device=case.device,
        )
    except NoTreeError as error:
        raise NotRevealedError(error.reason, error.kind == RANDOM) from None
    except LastbitError as error:
        if operator.late:
            why = f"the order was not revealed within {seconds:.3g} s, in {operator.calls:,} calls"
            raise NotRevealedError(why) from None
        raise NotRevealedError(f"the order was not revealed: {line_of(error)}") from None
    return Revealed(order, of)


def is_power_of_two(number: int) -> bool:
    """Return whether a positive integer is a power of two."""
    return number & (number - 1) == 0


def _as_sum(case: Case, call: Call, form: Contraction) -> tuple[Callable[..., Any], str]:
    """Return the sum that a mean divides, where the mean has the bits of that.

    Raises:
        NotRevealedError: it does not have them.
    """
    import torch

    given = call.named
    names = ("dim", "keepdim", "dtype")
    options = {name: given[name] for name in names if given.get(name) is not None}

    def total(*args: Any, **kwargs: Any) -> Any:
        named = Call(case, args, kwargs).named
        return torch.sum(named[form.left.name], **options)

    mean, whole = call.run()[0], total(*call.args, **call.kwargs)
    for divided in (whole / form.terms, whole * (1 / form.terms)):
        if (codes_of_tensor(divided) == codes_of_tensor(mean)).all():
            return total, "of the sum that is divided"
    raise NotRevealedError("the mean is no sum of torch divided by the number of terms")


def sums_alike(
    case: Case,
    forms: Sequence[Contraction],
    rows: Sequence[Rows | None],
    places: Sequence[Place],
    number: int = 0,
) -> bool:
    """Return whether an operator gives the same terms the same sums on two sides.

    The terms are exact: numbers times one. So other sums come of another order, or of accumulators
    of another format.
    """
    import torch

    found = []
    for form, batch, place in zip(forms, rows, places, strict=True):
        operator = Prepared(case, form, Call.of(case, batch), place, None, math.inf, number)
        draw = torch.Generator().manual_seed(0)
        sums = []
        for _ in range(VECTORS):
            vector = torch.randn(operator.terms, generator=draw).to(operator.left.dtype)
            block = torch.zeros(len(operator.rows), operator.terms).to(operator.left.dtype)
            as_integers(block)[0] = as_integers(vector)
            sums.append(operator(block.to(operator.left.device))[0].item())
        found.append(sums)
    return found[0] == found[1]


class _LateError(Exception):
    """The time is over."""


class Prepared:
    """An operator as a function of vectors.

    Attributes:
        left: the operand that holds the vectors.
        rows: rows of the output whose vectors are given, the one that is asked for first.
        calls: how many were made.
        late: whether the time ended the calls.
        terms: of each vector.
    """

    __name__ = "the operator"

    def __init__(
        self,
        case: Case,
        form: Contraction,
        call: Call,
        place: Place,
        function: Callable[..., Any] | None,
        seconds: float,
        number: int,
    ) -> None:
        import torch

        given = call.named
        self.form, self.function, self.number = form, function, number
        self.left = own(given[form.left.name])
        as_integers(self.left).zero_()
        new: dict[str, Any] = {form.left.name: self.left}
        if form.right is not None:
            new[form.right.name] = filled(given[form.right.name], 1.0)
        self.call = call.with_arguments(new | blank(form, given))
        self.factor = form.terms if form.right is None and form.alpha != 1 and not function else 1
        z, m, self.column = place
        self.terms = form.terms_at(place)
        first = z * form.size[1] + m
        others = [row for row in range(form.size[0] * form.size[1]) if row != first]
        self.rows = [first, *others[: MOST_ROWS - 1]]
        places = torch.tensor(self.rows, device=self.left.device)
        self.z, self.m = places // form.size[1], places % form.size[1]
        self.direct = _shared(form.left, self.left)
        self.end = time.monotonic() + seconds
        self.seconds, self.calls, self.late = seconds, 0, False

    def __call__(self, vectors: Tensor) -> Tensor:
        """Return the sum of each vector."""
        import torch

        if time.monotonic() > self.end:
            self.late = True
            raise _LateError
        self.calls += 1
        target = as_integers(self.left)
        matrices = self.form.left.read(target)
        given = as_integers(vectors.reshape(len(self.rows), -1))
        matrices[self.z, self.m, : self.terms] = given
        if not self.direct:
            self.form.left.write(target, matrices)
        if self.function is None:
            result = self.call.run()[self.number]
        else:
            with torch.no_grad():
                result = self.function(*self.call.args, **self.call.kwargs)
        sums = self.form.output(result)[self.z, self.m, self.column]
        return sums.double() * self.factor


def blank(form: Contraction, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with which an operator does nothing to its sums: no factor, no addend."""
    new: dict[str, Any] = {name: filled(given[name], 1.0) for name in form.scales}
    if form.addend is not None:
        new[form.addend] = filled(given[form.addend], 0.0)
    if form.right is not None and "alpha" in given:
        new["alpha"] = 1
    return new


def _shared(operand: Operand, tensor: Tensor) -> bool:
    """Return whether what is read shares the memory of the argument."""
    return bool(operand.read(tensor).data_ptr() == tensor.data_ptr())


def own(tensor: Tensor) -> Tensor:
    """Return a copy in memory of its own, laid out alike; no element stands for several."""
    result = copied(tensor)
    return result.contiguous() if 0 in result.stride() else result


def filled(tensor: Tensor, value: float) -> Tensor:
    """Return a tensor of the same layout that holds one number, of any format."""
    import torch

    result = own(tensor)
    code = as_integers(torch.full((), value).to(result.dtype).to(result.device))
    as_integers(result).copy_(code.expand(result.shape))
    return result
