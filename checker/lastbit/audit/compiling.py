"""The target compiled by Inductor: other batches, equal runs, and which roundings it drops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lastbit.audit.bits import distance
from lastbit.audit.filling import Program
from lastbit.audit.records import Whole
from lastbit.audit.taking import Axis
from lastbit.audit.text import distance as in_words
from lastbit.audit.trials import Asked, Clock
from lastbit.audit.whole import tensors_of, tried_whole
from lastbit.errors import LastbitError
from lastbit.importers.inductor.capture import silent
from lastbit.importers.inductor.checking import check_compiled
from lastbit.records import Location
from lastbit.result import Finding

MOST_STEPS = 8
REPEATS = 5  # of the whole compiled target
DIFFERS = "DET655"


def tried_compiled(
    label: str,
    target: Any,
    program: Program,
    axes: list[Axis | None],
    asked: Asked,
    clock: Clock,
    seed: int,
) -> tuple[Whole, list[Finding]]:
    """Return what a compiled target does, and where it differs from the one that is not.

    It is compiled anew for every batch size, as torch does when sizes are not marked dynamic.

    Args:
        label: as the user named the target.
        target: as the user's file defines it.
        program: the target with its inputs.
        axes: of its results that count rows.
        asked: sizes and repeats.
        clock: ends it.
        seed: of the draws.
    """
    import torch

    few = replace(asked, repeats=min(REPEATS, asked.repeats))
    size = asked.sizes[-1]
    with silent(), torch._dynamo.config.patch(recompile_limit=len(asked.sizes) + 8):
        torch._dynamo.reset()
        call = torch.compile(program.target.call, dynamic=False)
        found = tried_whole(program, "compiled", axes, few, clock, call)
        a, b = (tensors_of(program.run(size, one)) for one in (None, call))
    apart = distance(a, b)
    if not apart.differing and apart.elements:
        note = f"the same bits as without compiling, on {size:,} rows"
        return replace(found, notes=(*found.notes, note)), []
    notes, why = _dropped(label, target, seed)
    message = f"{label} compiled by Inductor differs from itself on {size:,} rows: "
    message += f"{in_words(apart)}{why}"
    finding = Finding(DIFFERS, "note", message, Location(label))
    return replace(found, notes=(*found.notes, *notes)), [finding]


def _dropped(label: str, target: Any, seed: int) -> tuple[list[str], str]:
    """Return what Inductor does to the roundings of a target, step by step and in a few words."""
    try:
        result = check_compiled(label, target, seed=seed, run=False)
    except LastbitError as error:
        return [f"cause not found: {error}"], ""
    changed = [step for step in result.steps if step.change != "bitwise"]
    notes = [f"{step.location}: {step.title} ({step.change})" for step in changed[:MOST_STEPS]]
    if len(changed) > MOST_STEPS:
        notes.append(f"and {len(changed) - MOST_STEPS} more; see `lastbit check {label} --compile`")
    rounded = sum(step.change == "rounding" for step in changed)
    if rounded:
        return notes, f"; cause: dropped-rounding, {rounded} in its kernels"
    return [*notes, "cause not found: its kernels drop no rounding that was read"], ""
