"""What a graph writes to its inputs counts as its results, also where nothing reads or returns it.

A buffer that a module updates, such as the statistics of a norm or a cache of keys, is in the next
call what this call left there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from paired import worst  # noqa: E402  needs torch

from lastbit.errors import InputError  # noqa: E402  after the check for torch
from lastbit.importers.pt2 import read_pt2  # noqa: E402
from lastbit.importers.pt2.checking import check_pt2  # noqa: E402
from lastbit.importers.pt2.storage import written  # noqa: E402

X = torch.arange(16.0).reshape(4, 4)
PLACES = (torch.tensor([0, 1]),)
Write = Callable[[Any, Any], Any]


class Cached(torch.nn.Module):
    """Writes what it is told to a buffer, and returns what does not depend on that."""

    def __init__(self, write: Write, name: str = "c") -> None:
        super().__init__()
        self.register_buffer("c", torch.zeros(4, 4))
        self.register_buffer("d", torch.zeros(4, 4))
        self.write, self.name = write, name

    def forward(self, x: Any) -> Any:
        """Compute the module."""
        self.write(getattr(self, self.name), x)
        return x + 1


def saved(path: Path, module: Any, inputs: tuple[Any, ...] = (X,), plain: bool = False) -> str:
    program = torch.export.export(module, inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch warns of itself
        program = program.run_decompositions() if plain else program
    torch.export.save(program, path)
    return str(path)


DIFFERENT: dict[str, tuple[Write, Write, str, str]] = {  # in place, and decomposed
    "copy": (lambda c, x: c.copy_(x), lambda c, x: c.copy_(x * 2), "math", "math"),
    "add": (lambda c, x: c.copy_(x), lambda c, x: c.add_(x), "math", "math"),
    "slice": (
        lambda c, x: c[1:3].copy_(x[:2]),
        lambda c, x: c[1:3].copy_(x[1:3]),
        "unknown",
        "math",
    ),
    "index": (
        lambda c, x: c.index_put_(PLACES, x[:2]),
        lambda c, x: c.index_put_(PLACES, x[:2], accumulate=True),
        "unknown",
        "unknown",
    ),
}


@pytest.mark.parametrize("plain", [False, True], ids=["in place", "decomposed"])
@pytest.mark.parametrize("name", DIFFERENT)
def test_another_write_to_a_buffer_is_a_difference(name: str, plain: bool, tmp_path: Path) -> None:
    first, second, *changes = DIFFERENT[name]
    before = saved(tmp_path / "a.pt2", Cached(first), plain=plain)
    after = saved(tmp_path / "b.pt2", Cached(second), plain=plain)
    assert read_pt2(before).written == read_pt2(after).written == ("c",)
    assert len(read_pt2(before).results) == 2
    assert worst(check_pt2(before, after)) == changes[plain]
    assert worst(check_pt2(before, before)) == "none"


def test_results_come_before_what_is_written_in_every_form(tmp_path: Path) -> None:
    module = Cached(lambda c, x: c.copy_(x * 2))
    before = saved(tmp_path / "a.pt2", module)
    after = saved(tmp_path / "b.pt2", module, plain=True)
    assert worst(check_pt2(before, after)) == "none"


def test_a_write_to_another_buffer_is_refused(tmp_path: Path) -> None:
    before = saved(tmp_path / "a.pt2", Cached(lambda c, x: c.copy_(x), "c"))
    after = saved(tmp_path / "b.pt2", Cached(lambda c, x: c.copy_(x), "d"))
    with pytest.raises(InputError) as caught:
        check_pt2(before, after)
    assert str(caught.value) == (
        f"{after}: it writes to `d` of its inputs, and {before} to `c`. "
        "Give two models that write to the same."
    )


class Normed(torch.nn.Module):
    """A norm in training, whose statistics are read before or after it took new ones."""

    def __init__(self, early: bool) -> None:
        super().__init__()
        self.norm, self.early = torch.nn.BatchNorm1d(4), early

    def forward(self, x: Any) -> Any:
        """Compute the module."""
        old = self.norm.running_mean * 2
        y = self.norm(x)
        return y + (old if self.early else self.norm.running_mean * 2)


def test_a_norm_in_training_writes_its_statistics(tmp_path: Path) -> None:
    outcomes = [Normed(early)(X) for early in (True, False)]
    assert not torch.equal(*outcomes)
    before = saved(tmp_path / "a.pt2", Normed(True))
    after = saved(tmp_path / "b.pt2", Normed(False))
    model = read_pt2(before)
    assert model.written == ("norm.running_mean", "norm.running_var", "norm.num_batches_tracked")
    assert worst(check_pt2(before, after)) == "math"
    assert worst(check_pt2(before, before)) == "none"


def test_a_norm_that_is_called_twice_writes_twice(tmp_path: Path) -> None:
    class Twice(Normed):
        def forward(self, x: Any) -> Any:
            return self.norm(x) + self.norm(x * 3)

    model = read_pt2(saved(tmp_path / "a.pt2", Twice(True)))
    first, second = (one.gives[1] for one in model.opaque if "batch_norm" in one.operator)
    assert (first, second) == ("b_norm_running_mean_written", "b_norm_running_mean_written_2")
    reads = model.opaque[-1].reads
    assert first in reads


def test_a_norm_in_evaluation_writes_nothing(tmp_path: Path) -> None:
    model = read_pt2(saved(tmp_path / "a.pt2", Normed(True).eval()))
    assert model.written == ()
    assert not model.opaque


@pytest.mark.parametrize(
    ("target", "training", "found"),
    [
        ("torch.ops.aten.batch_norm.default", True, ["m", "v"]),
        ("torch.ops.aten.batch_norm.default", False, []),
        ("torch.ops.aten.instance_norm.default", True, ["m", "v"]),
        ("torch.ops.aten._batch_norm_with_update.default", False, ["m", "v"]),
        ("torch.ops.aten._native_batch_norm_legit_functional.default", True, []),
    ],
)
def test_which_norms_write(target: str, training: bool, found: list[str]) -> None:
    given = [("input", "x"), ("running_mean", "m"), ("running_var", "v")]
    assert written(target, 1, given, training) == found
