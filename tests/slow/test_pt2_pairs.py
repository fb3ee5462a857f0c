"""Two exported functions are found to differ wherever torch computes other bits for them.

Every pair differs in what an opaque operator is given beside its tensors, in a write to a storage,
in a constant, in what is returned, or in a type that no row of the table computes with.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from paired import compared, torch_differs, worst  # noqa: E402  needs torch

pytestmark = pytest.mark.slow

F = torch.nn.functional
SEED = 20261130
X, Y, IMAGES = ((4, 4), (4, 4), (3, 8, 8))
BF16 = torch.bfloat16


def drawn(*shapes: tuple[int, ...], dtype: Any = torch.float32) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(SEED)
    return tuple(torch.randn(*shape, generator=generator).to(dtype) for shape in shapes)


def row_zeroed(x: Any, row: int) -> Any:
    y = x * 2
    y[row].zero_()
    return y * 3


def shifted(x: Any, factor: int) -> Any:
    y = x.clone()
    y[:, 1:] = x[:, :-1] * factor
    return y + 1


def put(x: Any, number: float) -> Any:
    y = x.clone()
    y[torch.tensor([0, 2])] = number
    return y + 1


def each_scaled(x: Any, factor: int) -> Any:
    a, b = x * 2, x * 3
    torch._foreach_mul_([a, b], factor)
    return a + b


def branch(x: Any, factor: int) -> Any:
    return torch.cond(x.sum() > 1e9, lambda a: a + 1, lambda a: a * factor, (x,))


def both(x: Any, order: int) -> Any:
    pair = (x * 2, x + 1)
    return pair if order else pair[::-1]


DIFFERENT: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "cumsum": (lambda x: x.cumsum(-1) + 1, lambda x: x.cumsum(0) + 1, drawn(X)),
    "of another": (lambda x, y: x.cumsum(0) + 1, lambda x, y: y.cumsum(0) + 1, drawn(X, Y)),
    "roll": (lambda x: x.roll(1, 0) + 1, lambda x: x.roll(2, 0) + 1, drawn(X)),
    "sort": (
        lambda x: x.sort(-1)[0] + 1,
        lambda x: x.sort(-1, descending=True)[0] + 1,
        drawn(X),
    ),
    "lerp": (lambda x, y: x.lerp(y, 0.1) + 1, lambda x, y: x.lerp(y, 0.2) + 1, drawn(X, Y)),
    "einsum": (
        lambda x, y: torch.einsum("ij,jk->ik", x, y) + 1,
        lambda x, y: torch.einsum("ij,kj->ik", x, y) + 1,
        drawn(X, Y),
    ),
    "average": (
        lambda x: F.avg_pool2d(x, 3, 1, 1) + 1,
        lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False) + 1,
        drawn(IMAGES),
    ),
    "pad": (
        lambda x: F.pad(x, (1, 1), mode="reflect") + 1,
        lambda x: F.pad(x, (1, 1), mode="replicate") + 1,
        drawn(IMAGES),
    ),
    "round": (
        lambda x: torch.round(x, decimals=1),
        lambda x: torch.round(x, decimals=2),
        drawn(X),
    ),
    "cond": (lambda x: branch(x, 2), lambda x: branch(x, 3), drawn(X)),
    "view": (lambda x: row_zeroed(x, 0), lambda x: x * 2 * 3, drawn(X)),
    "another view": (lambda x: row_zeroed(x, 0), lambda x: row_zeroed(x, 1), drawn(X)),
    "slice": (lambda x: shifted(x, 1), lambda x: shifted(x, 2), drawn(X)),
    "put": (lambda x: put(x, 1.0), lambda x: put(x, 2.0), drawn(X)),
    "foreach": (lambda x: each_scaled(x, 2), lambda x: each_scaled(x, 3), drawn(X)),
    "returns opaque": (lambda x: x.cumsum(0), lambda x: x.cumsum(1), drawn(X)),
    "opaque or not": (lambda x: x.cumsum(0), lambda x: x * 2, drawn(X)),
    "returns inputs": (lambda x, y: x, lambda x, y: y, drawn(X, Y)),
    "order of results": (lambda x: both(x, 0), lambda x: both(x, 1), drawn(X)),
    "number": (
        lambda x: x * torch.tensor(0.5, dtype=BF16),
        lambda x: x * torch.tensor(0.25, dtype=BF16),
        drawn(X, dtype=BF16),
    ),
    "numbers": (
        lambda x: x * torch.tensor([1.0, 2, 3, 4]),
        lambda x: x * torch.tensor([1.0, 2, 3, 5]),
        drawn(X),
    ),
    "item": (lambda x, y: y * x.sum().item(), lambda x, y: y * x.max().item(), drawn(X, Y)),
    "count": (
        lambda x, y: y * x.nonzero().shape[0],
        lambda x, y: y * (x > 0).nonzero().shape[0],
        drawn(X, Y),
    ),
    "size": (
        lambda x: x * (x.shape[0] * 0.5),
        lambda x: x * (x.shape[0] * 0.25),
        drawn(X),
    ),
    "complex": (
        lambda x: (x * 2).real + 1,
        lambda x: (x * 3).real + 1,
        drawn(X, dtype=torch.complex64),
    ),
    "to integers": (lambda x: x.to(torch.int32).float(), torch.trunc, drawn(X)),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_torch_tells_apart_is_no_clean_check(name: str, tmp_path: Path) -> None:
    before, after, inputs = DIFFERENT[name]
    assert torch_differs(before, after, inputs)
    assert worst(compared(tmp_path, before, after, inputs)) in ("math", "unknown")


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_function_is_itself(name: str, tmp_path: Path) -> None:
    before, _, inputs = DIFFERENT[name]
    assert worst(compared(tmp_path, before, before, inputs)) == "none"


def in_place(x: Any, y: Any) -> Any:
    z = F.relu(x * y, inplace=True)
    z += y
    return z.mul_(3)


def block(x: Any, inplace: bool) -> Any:
    y = F.relu(F.conv2d(x, torch.ones(3, 3, 3, 3)), inplace=inplace)
    return F.relu(y.add_(1) if inplace else y + 1, inplace=inplace)


EQUAL: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
    "in place": (in_place, lambda x, y: (F.relu(x * y) + y) * 3, drawn(X, Y, dtype=BF16)),
    "block": (lambda x: block(x, True), lambda x: block(x, False), drawn((1, 3, 6, 6))),
    "copy": (
        lambda x, y: torch.zeros_like(x).copy_(y) + x,
        lambda x, y: y + x,
        drawn(X, Y),
    ),
    "same elements": (
        lambda x: (lambda y: (F.relu(y, inplace=True), y * 2)[1])(x.clone()),
        lambda x: F.relu(x) * 2,
        drawn(X),
    ),
    "copy of another type": (
        lambda x: (lambda y: (y.double(), y.zero_())[0] + 1)(x * 2),
        lambda x: (x * 2).double() + 1,
        drawn(X),
    ),
    "silu": (
        lambda x, y: F.silu(x) * y,
        lambda x, y: F.silu(x.float()).to(BF16) * y,
        drawn((64, 64), (64, 64), dtype=BF16),
    ),
    "gelu": (
        F.gelu,
        lambda x: F.gelu(x.float()).to(BF16),
        drawn((64, 64), dtype=BF16),
    ),
    "type of softmax": (
        lambda x: F.softmax(x, -1, dtype=BF16),
        lambda x: F.softmax(x.to(BF16), -1),
        drawn((64, 16)),
    ),
    "type of log softmax": (
        lambda x: F.log_softmax(x, -1, dtype=torch.float64),
        lambda x: F.log_softmax(x.double(), -1),
        drawn((64, 16)),
    ),
    "softmax": (
        lambda x: F.softmax(x, -1),
        lambda x: F.softmax(x, -1, dtype=torch.float32).to(BF16),
        drawn((64, 16), dtype=BF16),
    ),
}


@pytest.mark.parametrize("name", EQUAL)
def test_what_torch_computes_alike_is_found_alike(name: str, tmp_path: Path) -> None:
    before, after, inputs = EQUAL[name]
    assert not torch_differs(before, after, inputs)
    assert worst(compared(tmp_path, before, after, inputs)) in ("none", "bitwise")
