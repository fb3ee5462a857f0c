"""Let torch.export keep the user's lines.

Tracing keeps the frames of methods called `forward`, so that an exported function, and whatever a
module calls, has no line or that of its caller. While this is entered, every frame is kept that
lies behind the call of torch.export and in neither torch nor lastbit.
"""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lastbit

METHOD = "_filter_traceback_frames"


@contextlib.contextmanager
def all_frames(torch: Any) -> Iterator[None]:
    """Keep all frames of the user; a torch that filters in another way stays as it is."""
    from torch.fx.proxy import TracerBase

    kept = getattr(TracerBase, METHOD, None)
    if kept is None:
        yield
        return
    own, library = (str(Path(str(m.__file__)).parent) + os.sep for m in (lastbit, torch))

    def filtered(_: Any, found: traceback.StackSummary) -> traceback.StackSummary:
        last = max((i for i, one in enumerate(found) if one.filename.startswith(own)), default=-1)
        return traceback.StackSummary.from_list(
            [one for one in found[last + 1 :] if not one.filename.startswith((library, "<"))]
        )

    setattr(TracerBase, METHOD, filtered)
    try:
        yield
    finally:
        setattr(TracerBase, METHOD, kept)
