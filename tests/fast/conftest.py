"""Fixtures that several files use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest


@pytest.fixture(params=["whole", "in pieces"])
def thresholds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the array domain as it is, and with thresholds that small tensors cross."""
    from lastbit.interpret import folded, slabs, tensors

    if request.param == "in pieces":
        monkeypatch.setattr(slabs, "STORED", 0)
        monkeypatch.setattr(folded, "STORED", 0)
        monkeypatch.setattr(tensors, "CHUNK", 4)


@pytest.fixture
def problems(tmp_path: Path) -> Callable[..., list[str]]:
    """Return a function that loads the text of a plan, and returns its problems."""
    from small_plans import problems_of

    return partial(problems_of, tmp_path)
