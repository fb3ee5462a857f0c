"""Find which optimisation level of ONNX Runtime changes the verdict on a region first.

ONNX Runtime writes the model once for every level that it has. Each is put beside the first model,
and judged in the same regions as the user's second one: the verdict of a level that is not that of
the level before it is what this level did.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lastbit.change import Change
from lastbit.errors import InputError
from lastbit.importers.imported import Imported
from lastbit.importers.onnx import read_onnx
from lastbit.importers.onnx.comparing import aligned, dropped
from lastbit.importers.onnx.reading import read_model
from lastbit.importers.onnx.regions import Opener, Region, regions
from lastbit.importers.onnx.running import known_levels, optimised

NOT_HERE = (
    "no level of ONNX Runtime changes this here: the second model was made by another version, for "
    "another processor, or by something else"
)


@dataclass(frozen=True, slots=True)
class Level:
    """What ONNX Runtime does at one level.

    Attributes:
        name: the level, a word of `running.LEVELS`.
        changes: the values that its model computes in another way, each with the kind of change of
            its region.
        dropped: the values that it rounds later, or that are gone.
        why: the reason where it wrote no model that can be compared; else empty.
    """

    name: str
    changes: Mapping[str, Change]
    dropped: frozenset[str] = frozenset()
    why: str = ""


def levels_of(before: Imported, judge: Callable[[Region], Change]) -> tuple[Level, ...]:
    """Return what ONNX Runtime does to a model at each of its levels, the lowest first.

    Args:
        before: the model; its file is opened again.
        judge: gives the kind of change of a region.

    Raises:
        InputError: ONNX Runtime is not installed.
    """
    model = read_model(before.file)
    found = []
    with tempfile.TemporaryDirectory(prefix="lastbit-levels-") as folder:
        for name in known_levels():
            path = os.path.join(folder, f"{name}.onnx")
            try:
                optimised(model, path, name)
                after = aligned(before, read_onnx(path))
                changes: dict[str, Change] = {}
                opener = Opener(before, after, judge)
                for region in map(opener.of, regions(before, after)):
                    kind = judge(region)
                    for value in region.names:
                        changes[value] = max(kind, changes.get(value, kind))
                gone = frozenset(one.name for one in dropped(before, after))
                found.append(Level(name, changes, gone))
            except InputError as error:
                why = str(error).replace(path, f"the model of level `{name}`")
                found.append(Level(name, {}, why=why))
    return tuple(found)


def history(levels: Sequence[Level], names: Iterable[str]) -> str:
    """Say at which levels the verdict on some values changes, the first one first.

    Args:
        levels: what `levels_of` gives.
        names: the values.
    """
    wanted = set(names)
    before: Change | None = None
    texts = []
    for level in levels:
        if level.why:
            continue
        kinds = [kind for name, kind in level.changes.items() if name in wanted]
        now = max(kinds, default=None)
        if now != before:
            what = "as before" if now is None else str(now)
            texts.append(f"`{level.name}` ({what})")
            before = now
    if not texts:
        return NOT_HERE
    more = f", then at {', '.join(texts[1:])}" if texts[1:] else ""
    return f"first changed by ONNX Runtime's level {texts[0]}{more}"
