"""Integers wrap around and sums add in the type and in the order that torch has, against torch.

Every pair of 8-bit integers is tried, so that a difference of one bit anywhere shows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from exported import difference  # noqa: E402  needs torch

from lastbit.checking import check_models  # noqa: E402  torch decides whether this file runs

pytestmark = pytest.mark.slow

F32, F64 = torch.float32, torch.float64

WRAPPING: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "add number": lambda x, y: x + 100,
    "add twice": lambda x, y: torch.add(x, y, alpha=2),
    "sub": lambda x, y: x - y,
    "number minus": lambda x, y: 100 - x,
    "mul": lambda x, y: x * y,
    "square": lambda x, y: x**2,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "complement": lambda x, y: ~x,
    "signed": lambda x, y: x.to(torch.int8) + y.to(torch.int8),
    "unsigned": lambda x, y: x.to(torch.uint8) + y.to(torch.uint8),
    "wider": lambda x, y: x.to(torch.int32) * y.to(torch.int32),
    "truth": lambda x, y: (x > 0) + (y > 0),
}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", WRAPPING)
def test_integers_wrap_around_as_in_torch(name: str, dtype: str, tmp_path: Path) -> None:
    kind = getattr(torch, dtype)
    every = torch.arange(256).to(kind)
    x, y = every[:, None].expand(256, 256).contiguous(), every[None].expand(256, 256).contiguous()
    assert difference(tmp_path, WRAPPING[name], (x, y)) == 0


def verdict(folder: Path, pair: tuple[Any, Any], inputs: tuple[Any, ...], sizes: Any = None) -> str:
    """Return the kind of change from one function to another."""
    paths = []
    for number, function in enumerate(pair):
        module = type("M", (torch.nn.Module,), {"forward": staticmethod(function)})()
        paths.append(str(folder / f"{number}.pt2"))
        exported = torch.export.export(module, inputs, dynamic_shapes=sizes)
        torch.export.save(exported, paths[-1])
    steps = check_models(*paths).steps
    return steps[0].change if steps else "same"


def equal(pair: tuple[Any, Any], inputs: tuple[Any, ...]) -> bool:
    """Return whether torch computes the same bits."""
    first, second = (function(*inputs).reshape(-1).view(torch.uint8) for function in pair)
    return bool((first == second).all())


def drawn(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(20261130))


# Two functions of x, its shape, and the kind of change.
PAIRS: dict[str, tuple[Any, Any, tuple[int, ...], str]] = {
    "divisor as a number": (lambda x: x.mean(-1), lambda x: x.sum(-1) / 64, (4, 64), "bitwise"),
    "its inverse": (lambda x: x.mean(-1), lambda x: x.sum(-1) * (1 / 64), (4, 64), "bitwise"),
    "rounded inverse": (lambda x: x.mean(-1), lambda x: x.sum(-1) * (1 / 60), (4, 60), "rounding"),
    "divided before": (lambda x: x.mean(-1), lambda x: (x / 64).sum(-1), (4, 64), "bitwise"),
    "two axes": (lambda x: x.mean((0, 1)), lambda x: x.sum((0, 1)) / 240, (4, 60), "bitwise"),
    "a wrong divisor": (lambda x: x.mean(-1), lambda x: x.sum(-1) / 65, (4, 64), "math"),
    "axis by axis": (lambda x: x.sum(), lambda x: x.sum(0).sum(0), (50, 64), "reassociation"),
    "flattened": (lambda x: x.sum((0, 1)), lambda x: x.reshape(-1).sum(), (4, 64), "bitwise"),
    "axes apart": (
        lambda x: x.sum((0, 2)),
        lambda x: x.permute(1, 0, 2).reshape(3, -1).sum(-1),
        (4, 3, 60),
        "reassociation",
    ),
    "written variance": (
        lambda x: x.var(-1, unbiased=False),
        lambda x: ((x - x.mean(-1, keepdim=True)) ** 2).sum(-1) / 64,
        (4, 64),
        "reassociation",
    ),
    "narrow terms": (
        lambda x: x.sum(-1, dtype=torch.bfloat16),
        lambda x: x.sum(-1).to(torch.bfloat16),
        (4, 64),
        "rounding",
    ),
    "cast before": (
        lambda x: x.sum(-1, dtype=torch.bfloat16),
        lambda x: x.to(torch.bfloat16).sum(-1),
        (4, 64),
        "bitwise",
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_sums_that_torch_adds_otherwise_are_never_bitwise(name: str, tmp_path: Path) -> None:
    before, after, shape, kind = PAIRS[name]
    inputs = (drawn(*shape),)
    assert verdict(tmp_path, (before, after), inputs) == kind
    assert equal((before, after), inputs) == (kind == "bitwise")


def test_a_wider_accumulator_is_no_equal_sum(tmp_path: Path) -> None:
    pair = lambda x: x.sum(-1, dtype=F64).float(), lambda x: x.sum(-1)
    assert verdict(tmp_path, pair, (drawn(4, 64),)) in ("reassociation", "rounding")
    assert not equal(pair, (drawn(4, 64),))


def test_open_sizes_are_judged_where_they_are_odd(tmp_path: Path) -> None:
    pair = lambda x: x.mean(0), lambda x: (x / x.shape[0]).sum(0)
    sizes = ({0: torch.export.Dim("b", min=2, max=512)},)
    assert verdict(tmp_path, pair, (drawn(8, 4),), sizes) == "rounding"
    assert equal(pair, (drawn(8, 4),))
    assert not equal(pair, (drawn(3, 4),))


INTEGER_PAIRS: dict[str, tuple[Any, Any, str]] = {
    "int8": (lambda x, y: (x * y).to(F32), lambda x, y: x.to(F32) * y.to(F32), "math"),
    "order": (lambda x, y: (x + y).to(F32), lambda x, y: (y + x).to(F32), "bitwise"),
    "wider": (
        lambda x, y: (x.to(torch.int32) - y.to(torch.int32)).to(F32),
        lambda x, y: x.to(F32) - y.to(F32),
        "bitwise",
    ),
    "int32": (
        lambda x, y: (x.to(torch.int32) * 65536 + y.to(torch.int32) * 2**30).to(F64),
        lambda x, y: x.to(F64) * 65536 + y.to(F64) * 2**30,
        "math",
    ),
}


@pytest.mark.parametrize("name", INTEGER_PAIRS)
def test_integers_that_wrap_are_no_floats(name: str, tmp_path: Path) -> None:
    before, after, kind = INTEGER_PAIRS[name]
    every = torch.arange(-128, 128).to(torch.int8)
    inputs = every[:, None].repeat(1, 256), every[None].repeat(256, 1)
    assert verdict(tmp_path, (before, after), inputs) == kind
    assert equal((before, after), inputs) == (kind == "bitwise")
