"""Two runs of an operator whose results differ: by which orders or schedules they add."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lastbit.audit.calling import Call
from lastbit.audit.case import Case
from lastbit.audit.contraction import Contraction, contraction_of
from lastbit.audit.guessing import guesses
from lastbit.audit.inferring import Schedules, inferred, machine_of_device
from lastbit.audit.probing import NotRevealedError, Revealed, is_power_of_two, revealed, sums_alike
from lastbit.audit.records import Cause
from lastbit.audit.refusals import told
from lastbit.audit.row_results import Places
from lastbit.audit.taking import Rows
from lastbit.audit.tensor_values import format_of_tensor
from lastbit.audit.threads import with_threads
from lastbit.report.words import plural

SECONDS: Final = 20.0  # for the order at one size
RUNS: Final = 20  # identical calls
NARROW: Final = ("bf16", "f16", "e4m3fn", "e5m2")  # what matrix units multiply
NO_FORM: Final = "no order of this operator is revealed"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is done to find a cause.

    Attributes:
        seconds: for the order or the schedule of one side.
        runs: identical calls that are compared.
        machine: whose matrix unit multiplies; null: that of the device.
    """

    seconds: float = SECONDS
    runs: int = RUNS
    machine: str | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """One of two runs.

    Attributes:
        words: what sets it apart (`in a batch of 2`).
        rows: of the batch, as in `Case.arguments`.
        flat: places in the result, counted along its axes; the bits at the first one differ.
        threads: with how many it runs; null: as it is.
    """

    words: str
    rows: Rows | None
    flat: Places
    threads: int | None = None

    def prepared(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which the operator runs as on this side."""
        return contextlib.nullcontext() if self.threads is None else with_threads(self.threads)


class Sides:
    """The search for what sets two runs apart.

    Args:
        case: the operator.
        sides: the runs.
        number: of the result whose bits differ.
        limits: of the search.

    Attributes:
        reasons: why no cause was found, as far as it is known.
        unordered: whether a probe gave different results in identical calls.
        guessed: whether what is added is judged by shapes alone.
    """

    def __init__(self, case: Case, sides: tuple[Side, Side], number: int, limits: Limits) -> None:
        self.case, self.sides, self.number, self.limits = case, sides, number, limits
        self.calls = [Call.of(case, side.rows) for side in sides]
        self.reasons: list[str] = []
        self.unordered = False
        self.guessed = False

    def cause(self) -> Cause | None:
        """Return the schedules or orders by which the sides add, or None where none are shown."""
        if self.case.draws:
            self.reasons.append("orders of operators that draw random numbers are not revealed")
            return None
        try:
            return self._by_schedules() or self._by_orders()
        except RuntimeError as error:  # of torch: no memory, say
            self.reasons.append(f"the search raised {told(error)}")
            return None

    def _forms(self) -> Iterator[tuple[Contraction, Contraction]]:
        """Yield what the operator may add up, on both sides."""
        if self.number == 0:
            first, second = (contraction_of(self.case.name, call.named) for call in self.calls)
            if first is not None and second is not None:
                self.guessed = False
                yield first, second
                return
        self.guessed = True
        shapes = [call.run()[self.number].shape for call in self.calls]
        first_guesses, second_guesses = (
            guesses(call.named, shape, call.written)
            for call, shape in zip(self.calls, shapes, strict=True)
        )
        yield from zip(first_guesses, second_guesses, strict=False)

    def _by_schedules(self) -> Cause | None:
        """Infer the schedules of a product of narrow formats on a machine that is known."""
        machine = self.limits.machine or machine_of_device(self.case.device)
        if machine is None:
            return None
        for forms in self._forms():
            fmt = format_of_tensor(self.calls[0].named[forms[0].left.name])
            if forms[0].right is None or fmt is None or fmt.short not in NARROW:
                continue
            found = []
            for form, side in zip(forms, self.sides, strict=True):
                with side.prepared():
                    found.append(
                        inferred(
                            self.case,
                            form,
                            side.rows,
                            side.flat,
                            machine,
                            self.limits.seconds,
                            self.number,
                        )
                    )
            return self._of_schedules(found, machine)
        return None

    def _of_schedules(self, found: Sequence[Schedules | str], machine: str) -> Cause | None:
        first, second = found
        if isinstance(first, str) or isinstance(second, str):
            self.reasons.append(first if isinstance(first, str) else str(second))
        elif not first.found or not second.found:
            self.reasons.append("no schedule that is searched gives the bits of both")
        elif first.text == second.text:
            self.reasons.append(f"one schedule gives the bits of both, {first.text}")
        else:
            text = (
                f"{machine} sums by another schedule {self.sides[0].words} than "
                f"{self.sides[1].words}; the schedules give all of the {first.total:,} and "
                f"{second.total:,} values tried"
            )
            return Cause("schedule", text, first.text, second.text)
        return None

    def _by_orders(self) -> Cause | None:
        before = len(self.reasons)
        for forms in self._forms():
            found = [
                self._revealed(form, side) for form, side in zip(forms, self.sides, strict=True)
            ]
            first, second = found
            if isinstance(first, str) or isinstance(second, str):
                words = zip(self.sides, found, strict=True)
                reasons = [
                    f"{side.words}, {one if isinstance(one, str) else one.text}"
                    for side, one in words
                ]
                shown = self._of_sums(forms, found, reasons)
                if shown is not None:
                    return shown
                self.reasons += reasons
                continue
            if first.order.tree == second.order.tree:
                self.reasons.append(f"both add in the same order, {first.text}")
                continue
            of = f" {first.of}" if first.of else ""
            text = (
                f"{plural(first.order.tree.leaves, 'term')}{of} are added in another order "
                f"{self.sides[0].words} than {self.sides[1].words}"
            )
            return Cause("order", text, first.text, second.text)
        if len(self.reasons) == before:
            self.reasons.append(NO_FORM)
        return None

    def _of_sums(
        self,
        forms: tuple[Contraction, Contraction],
        found: Sequence[Revealed | str],
        reasons: Sequence[str],
    ) -> Cause | None:
        """Return a cause where terms that are exact have other sums, though no order is known."""
        if self.unordered or self.guessed or not is_power_of_two(forms[0].alpha.denominator):
            return None
        places = [
            form.place(int(side.flat[0])) for form, side in zip(forms, self.sides, strict=True)
        ]
        if any(side.threads is not None for side in self.sides):
            return None
        rows = [side.rows for side in self.sides]
        if sums_alike(self.case, forms, rows, places, self.number):
            return None
        terms = plural(forms[0].terms_at(places[0]), "term")
        text = (
            f"{terms} have other sums {self.sides[0].words} than {self.sides[1].words}, though all "
            "are exact: another order, or other accumulators; "
        )
        known = [None if isinstance(one, str) else one.text for one in found]
        return Cause("order", text + "; ".join(reasons), *known)

    def _revealed(self, form: Contraction, side: Side) -> Revealed | str:
        place = form.place(int(side.flat[0]))
        try:
            with side.prepared():
                return revealed(self.case, form, side.rows, place, self.limits.seconds, self.number)
        except NotRevealedError as error:
            self.unordered |= error.unordered
            return error.why
