"""A model that is four times as long takes four times the work, and not sixteen times."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("onnx")

from onnx_models import model, node, saved

from lastbit.checking import check_models
from lastbit.lint import lint_plans

SHORT, LONG = 400, 1600


def _chain(folder: Path, length: int, operators: dict[int, str]) -> str:
    names = ["x", *(f"v{i}" for i in range(1, length)), "z"]
    nodes = [
        node(f"{new} = {operators.get(i, 'Add')}({old}, b)")
        for i, (old, new) in enumerate(pairwise(names))
    ]
    folder.mkdir()
    return saved(folder, model(nodes, ["x: f32[4, 4]", "b: f32[4, 4]"], ["z: f32[4, 4]"]))


def _calls(work: Callable[[], object]) -> int:
    """Return how many functions a piece of work calls, which no clock has a part in."""
    profile = cProfile.Profile()
    profile.enable()
    work()
    profile.disable()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_lint_of_a_chain_is_linear(tmp_path: Path) -> None:
    paths = [_chain(tmp_path / str(n), n, {}) for n in (SHORT, SHORT + 1, LONG)]
    lint_plans([paths[0]])  # what is imported and kept is no part of the work
    short, long = (_calls(lambda path=path: lint_plans([path])) for path in paths[1:])
    assert long < 4.4 * short


def test_a_pair_of_chains_with_one_difference_is_linear(tmp_path: Path) -> None:
    pairs = [
        [_chain(tmp_path / f"{n}{word}", n, ops) for word, ops in (("a", {}), ("b", {200: "Sub"}))]
        for n in (SHORT, SHORT + 1, LONG)
    ]
    check_models(*pairs[0])
    short, long = (_calls(lambda pair=pair: check_models(*pair)) for pair in pairs[1:])
    assert long < 4.4 * short
