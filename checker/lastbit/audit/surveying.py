"""Run the target with two batch sizes and keep what each call tells of its shapes."""

from __future__ import annotations

from typing import Any

from lastbit.audit.batch import (
    Seen,
    Tensor,
    first_rows,
    layout,
    leaves_before,
    leaves_of,
    seen,
)
from lastbit.audit.case import results_of
from lastbit.audit.filling import Program
from lastbit.audit.mixing import Mixed
from lastbit.audit.recording import Call, watching
from lastbit.audit.signature import key_of


def writes(call: Call) -> frozenset[int]:
    """Return the leaves that a call writes; where nobody knows, every tensor."""
    import torch

    if call.written is not None:
        return call.written
    pairs = enumerate(leaves_of(call))
    return frozenset(n for n, leaf in pairs if isinstance(leaf, torch.Tensor))


def generators(call: Call) -> list[Any]:
    """Return the generators that a call may draw from."""
    import torch

    custom = not call.name.startswith(("aten.", "prims.", "triton."))
    if not call.drawing and not custom:  # of torch's own operators it is known which draw
        return []
    given = leaves_of(call)
    found = [one for one in given if isinstance(one, torch.Generator)]
    places = {one.device for one in given if isinstance(one, torch.Tensor)}
    places |= {torch.device(one) for one in given if isinstance(one, torch.device)}
    for device in sorted(places, key=str):
        if device.type == "cuda":
            index = torch.cuda.current_device() if device.index is None else device.index
            found.append(torch.cuda.default_generators[index])
    if custom and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        found += torch.cuda.default_generators
    found = list({id(one): one for one in [*found, torch.default_generator]}.values())
    return found


def moved(states: list[tuple[Any, Any]]) -> tuple[tuple[Any, Any], ...]:
    """Return the generators whose state is another now, with the state they had."""
    import torch

    return tuple((g, old) for g, old in states if not torch.equal(g.get_state(), old))


class Survey:
    """Keeps what the calls of a run tell.

    Args:
        size: the rows of this run.
        other: a survey of a run with another number of rows; its layouts say of which tensors the
            first row is sampled.
    """

    def __init__(self, size: int, other: Survey | None = None) -> None:
        self.size, self.other = size, other
        self.calls: dict[tuple[Any, ...], Seen] = {}
        self.keys: set[str] = set()
        self.key_of: dict[tuple[Any, ...], str] = {}
        self.graphs = 0
        self.mixed = Mixed()

    def compiled(self) -> None:
        """Count a graph that torch.compile made."""
        self.graphs += 1

    def called(self, call: Call) -> Any:
        """Make a call and keep its shapes."""
        key = key_of(call)
        before = leaves_before(call)
        states = [(g, g.get_state()) for g in generators(call)]
        returned = call.make()
        results = results_of(returned, call.args, call.kwargs, writes(call), call.unset)
        found = seen(call, before, results)
        self.calls[call.pair] = found
        self.key_of[call.pair] = key
        if results and any(isinstance(one, Tensor) for one in before):
            self.keys.add(key)
        if self.other is not None and call.pair in self.other.calls:
            large = self.other.calls[call.pair]
            sizes = (self.other.size, self.size)
            axes = layout(call.name, large, found, sizes, bool(moved(states)))
            pairs = zip(large.results, found.results, strict=False)
            grown = [a.shape != b.shape for a, b in pairs]
            self.mixed.follow(
                call.name, call.pair, axes.mixing, leaves_of(call), writes(call), results, grown
            )
            if axes.why_whole is None:
                found.firsts = first_rows(axes, [*leaves_of(call), *results], self.size)
        return returned


def surveyed(program: Program, size: int, other: Survey | None = None) -> tuple[Survey, Any]:
    """Return what a run with so many rows tells, and what it returns."""
    survey = Survey(size, other)
    watched = watching(survey, program.target.call, program.seconds)
    returned = program.run(size, watched=watched)
    return survey, returned
