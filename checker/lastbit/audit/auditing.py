"""Audit the operators of a run as they are called, each while its inputs are at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from lastbit.audit import batch
from lastbit.audit.bits import constant, unnumbered
from lastbit.audit.case import Case, Layout
from lastbit.audit.judging import FAILED, judged
from lastbit.audit.leaves import leaves, mapped
from lastbit.audit.mixing import OVERWRITES
from lastbit.audit.recording import Call, short_name
from lastbit.audit.records import Call as CallRecord
from lastbit.audit.records import CaseRecord, Cause, Nearer, Remedy
from lastbit.audit.refusals import REFUSALS, line_of, told
from lastbit.audit.signature import key_of
from lastbit.audit.surveying import Survey, generators, moved, writes
from lastbit.audit.taking import copied
from lastbit.audit.trials import Asked, Clock, Tried, tried

MOST_CONSTANT = 3  # calls with one signature that are tried until one gives more than one number
SHARE = 4  # of the time for one case, in shares of what is left for each


@dataclass(frozen=True, slots=True)
class Explained:
    """What is known of a culprit beyond its trials.

    Attributes:
        cause: why its results differ.
        nearer: which side is nearer the exact value.
        remedies: what would keep the promise.
        notes: further sentences.
    """

    cause: Cause | None = None
    nearer: Nearer | None = None
    remedies: tuple[Remedy, ...] = ()
    notes: tuple[str, ...] = ()


class Explain(Protocol):
    """Explains a culprit while its inputs are at hand."""

    def __call__(self, case: Case, record: CaseRecord, seconds: float | None) -> Explained:
        """Return what is known."""


@dataclass(frozen=True)
class Hooks:
    """What is told of the audit, and what it leaves out.

    Attributes:
        finished: is given each finished case.
        done: cases that are finished, by key; they are not tried again.
        mine: whether the case of a number belongs to this part of the audit.
        progress: is told of cases done, cases in all, and the operator that comes next.
        explain: explains culprits.
    """

    finished: Callable[[CaseRecord], None] = lambda record: None
    done: Mapping[str, CaseRecord] = field(default_factory=dict)
    mine: Callable[[int], bool] = lambda number: True
    progress: Callable[[int, int, str], None] = lambda done, total, name: None
    explain: Explain | None = None


class Auditor:
    """Audits each operator at its first call.

    Attributes:
        records: finished cases by key.
        calls: every call by key.
        numbers: of the cases, in the order in which they were reached.
    """

    def __init__(
        self, large: Survey, small: Survey, asked: Asked, hooks: Hooks, clock: Clock
    ) -> None:
        self.large, self.small, self.asked = large, small, asked
        self.hooks, self.clock = hooks, clock
        self.records: dict[str, CaseRecord] = {}
        self.calls: dict[str, list[CallRecord]] = {}
        self.numbers: dict[str, int] = {}
        self.constant: dict[str, int] = {}
        self.into_rows = {large.key_of.get(pair) for pair in small.mixed.into_rows}
        self.seen = self.graphs = 0
        self.defect: Exception | None = None  # raised inside the user's call it would be theirs

    def called(self, call: Call) -> Any:
        """Make a call; audit it where it is the first of its signature."""
        import torch

        self.seen += 1
        if not any(isinstance(leaf, torch.Tensor) for leaf in batch.leaves_of(call)):
            return call.make()
        key = key_of(call)
        known = key in self.numbers
        if known and key not in self.constant:
            self.calls[key].append(_record(call))
            return call.make()
        kept = _kept(call)
        states = [(g, g.get_state()) for g in generators(call)]
        returned = call.make()
        case = self._case(call, key, kept, returned, moved(states))
        whole = case.results(returned, call.args, call.kwargs)
        if not whole:
            return returned
        self.numbers.setdefault(key, len(self.numbers))
        self.calls.setdefault(key, []).append(_record(call))
        number = self.numbers[key]
        if key in self.hooks.done:
            self.records[key] = self.hooks.done[key]
        elif self.hooks.mine(number) and self.defect is None:
            try:
                self._audit(case, whole, number, call.pair)
            except Exception as error:
                self.defect = error
        return returned

    def compiled(self) -> None:
        """Count a graph that torch.compile made."""
        self.graphs += 1

    def finish(self) -> None:
        """Finish cases that never gave more than one number.

        Raises:
            Exception: what went wrong in the audit itself.
        """
        if self.defect is not None:
            raise self.defect
        for key in [*self.constant]:
            self._finished(self.records[key])

    def _case(
        self, call: Call, key: str, kept: Any, returned: Any, states: tuple[tuple[Any, Any], ...]
    ) -> Case:
        import torch

        args, kwargs = kept
        places = [str(leaf.device) for leaf in batch.leaves_of(call) if hasattr(leaf, "device")]
        device = next((place for place in places if place != "cpu"), "cpu")
        found = Case(
            call.name, key, call.index, call.path, call.place, self.large.size, device,
            call.function, args, kwargs, Layout(), writes(call), call.unset, states,
            torch.is_grad_enabled(),
        )  # fmt: skip
        results = found.results(returned, call.args, call.kwargs)
        return replace(found, layout=self._layout(call, found, results))

    def _layout(self, call: Call, case: Case, results: tuple[Any, ...]) -> Layout:
        if call.name.startswith("triton."):
            return Layout(why_whole=batch.UNKNOWN_WRITES)
        unlike = {str(leaf.layout) for leaf in batch.leaves_of(call) if _unstrided(leaf)}
        if unlike:
            layouts = " and ".join(sorted(one.removeprefix("torch.") for one in unlike))
            return Layout(why_whole=batch.SPARSE.format(layouts))
        large, small = self.large.calls.get(call.pair), self.small.calls.get(call.pair)
        if large is None:
            return Layout(why_whole=batch.ALONE)
        sizes = (self.large.size, self.small.size)
        found = batch.layout(call.name, large, small, sizes, case.draws)
        if found.why_whole is not None or small is None:
            return found
        values = [*batch.leaves_of(call), *results]
        firsts = batch.first_rows(found, values, self.large.size)
        return batch.with_order(found, firsts, small.firsts)

    def _audit(
        self, case: Case, whole: tuple[Any, ...], number: int, pair: tuple[Any, ...]
    ) -> None:
        total = max(len(self.numbers), len(self.large.keys))
        self.hooks.progress(len(self.records), total, short_name(case.name))
        left = self.clock.left()
        share = None if left is None else SHARE * left / max(1, total - len(self.records))
        clock = Clock(None if left is None else min(left, share or 0.0))
        try:
            found = tried(case, whole, self.asked, clock, into_rows=case.key in self.into_rows)
            flat = constant(whole) and not _pointwise(case) and not unnumbered(_leaves(case))
        except REFUSALS as error:
            found, flat = Tried(failed=line_of(error)), False
        large = self.large.calls.get(pair)
        naming = large is not None and batch.names_rows(case.name, large, case.layout.arguments)
        record = judged(case, number, found, naming, flat)
        if {*record.codes} - {FAILED} and self.hooks.explain is not None:
            known = self._explained(case, record, self.hooks.explain)
            record = replace(
                record, cause=known.cause, nearer=known.nearer, remedies=known.remedies,
                notes=(*record.notes, *known.notes),
            )  # fmt: skip
        self.records[case.key] = record
        tries = self.constant.get(case.key, 0) + 1
        if flat and tries < MOST_CONSTANT:
            self.constant[case.key] = tries
            return
        self._finished(record)

    def _explained(self, case: Case, record: CaseRecord, explain: Explain) -> Explained:
        """Return what is known of a culprit; where an operator fails at it, that is said."""
        try:
            return explain(case, record, self.clock.left())
        except REFUSALS as error:
            text = f"cause not found: the search raised {told(error)}"
            return Explained(Cause("unknown", text))

    def _finished(self, record: CaseRecord) -> None:
        self.constant.pop(record.key, None)
        self.hooks.finished(record)


def _record(call: Call) -> CallRecord:
    return CallRecord(call.index, call.path, call.place)


def _leaves(case: Case) -> list[Any]:
    return list(leaves((case.args, dict(case.kwargs))))


def _unstrided(leaf: Any) -> bool:
    import torch

    return isinstance(leaf, torch.Tensor) and leaf.layout != torch.strided


def _pointwise(case: Case) -> bool:
    import torch

    if short_name(case.name) in OVERWRITES:
        return True
    return torch.Tag.pointwise in getattr(case.function, "tags", ())


def _kept(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments as they are before the call; what it may overwrite is copied."""
    import torch

    every = batch.leaves_of(call)
    memory = {_storage(every[number]) for number in writes(call)}
    memory.discard(None)
    copies: dict[int, Any] = {}

    def keep(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or _storage(leaf) not in memory:
            return leaf
        if id(leaf) not in copies:
            copies[id(leaf)] = copied(leaf)
        return copies[id(leaf)]

    if not memory:
        return tuple(call.args), dict(call.kwargs)
    args, kwargs = mapped((tuple(call.args), dict(call.kwargs)), keep)
    return args, kwargs


def _storage(leaf: Any) -> int | None:
    """Return where the memory of a tensor begins; None where it has none."""
    import torch

    if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided:
        return None
    return int(leaf.untyped_storage().data_ptr())
