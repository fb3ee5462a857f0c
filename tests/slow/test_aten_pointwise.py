"""The table of torch's pointwise operators, against torch on the CPU.

Where every function is exact the bits are equal; where a library function takes part they lie
within the ulp that is stated beside the case.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from exported import difference  # noqa: E402  needs torch

pytestmark = pytest.mark.slow

F = torch.nn.functional
SEED = 20261130
SIZE = 20_000


def drawn(dtype: Any, *shape: int, offset: int = 0) -> Any:
    generator = torch.Generator().manual_seed(SEED + offset)
    return torch.randn(*(shape or (SIZE,)), generator=generator).to(dtype)


EXACT: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "add number": lambda x, y: x + 0.3001,
    "number minus": lambda x, y: 0.3001 - x,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "mul number": lambda x, y: x * 0.3001,
    "div": lambda x, y: x / y,
    "div number": lambda x, y: x / 3,
    "reciprocal": lambda x, y: 1 / x,
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "square": lambda x, y: x**2,
    "cube": lambda x, y: x**3,
    "relu": lambda x, y: F.relu(x),
    "maximum": lambda x, y: torch.maximum(x, y),
    "minimum": lambda x, y: torch.minimum(x, y),
    "clamp": lambda x, y: x.clamp(-0.3001, 1),
    "clamp below": lambda x, y: x.clamp_min(0.3001),
    "where": lambda x, y: torch.where(x > y, x, y),
    "where number": lambda x, y: torch.where(x > 0.3001, x, 0.3001),
    "masked fill": lambda x, y: x.masked_fill(x <= y, 0.3001),
    "compare": lambda x, y: (x < y, x <= 0.3001, x == y, x != y, x >= y, x > 0.5),
    "logic": lambda x, y: (x < y) & (x > 0) | ~(y > 1),
    "cast to f16": lambda x, y: (-x).to(torch.float16),
    "cast to f32": lambda x, y: x.float() * 3,
    "floor": lambda x, y: torch.floor(x * 10),
    "ceil": lambda x, y: torch.ceil(x * 10),
    "trunc": lambda x, y: torch.trunc(x * 10),
    "leaky": lambda x, y: F.leaky_relu(x, 0.01),
    "sign": lambda x, y: torch.sign(x),
    "mixed": lambda x, y: x.float() + y,
    "add scaled": lambda x, y: torch.add(x, y, alpha=0.3001),
    "sub scaled": lambda x, y: torch.sub(x, y, alpha=-1.7),
    "rsub": lambda x, y: torch.rsub(x, y),
    "rsub scaled": lambda x, y: torch.rsub(x, y, alpha=0.3001),
    "rsub number": lambda x, y: torch.rsub(x, 2.3001),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3001),
    "lerp from a half on": lambda x, y: torch.lerp(x, y, 0.5),
    "lerp above a half": lambda x, y: torch.lerp(x, y, 0.7001),
    "lerp below zero": lambda x, y: torch.lerp(x, y, -0.7001),
    "lerp by a tensor": lambda x, y: torch.lerp(x, y, x.abs()),
    "addcmul": lambda x, y: torch.addcmul(x, y, y),
    "addcmul scaled": lambda x, y: torch.addcmul(x, y, x, value=0.3001),
    "addcdiv": lambda x, y: torch.addcdiv(x, y, x),
    "addcdiv scaled": lambda x, y: torch.addcdiv(x, x, y, value=0.3001),
    "roll": lambda x, y: (x.roll(3), x.reshape(100, 200).roll((-3, 205), (0, 1)), x.roll(0, 0)),
    "roll of all": lambda x, y: y.reshape(100, 200).roll(-1),
    "like": lambda x, y: torch.full_like(x, 0.3001) + torch.zeros_like(x) + torch.ones_like(y),
}
# The greatest distance in ulp of bf16, and of f32, that torch's own vector functions have.
LIBRARY: dict[str, tuple[Callable[..., Any], int, int]] = {
    "sqrt": (lambda x, y: x.abs().sqrt(), 0, 1),
    "exp": (lambda x, y: torch.exp(x), 0, 1),
    "exp2": (lambda x, y: torch.exp2(x), 0, 1),
    "log": (lambda x, y: torch.log(x.abs()), 0, 2),
    "log1p": (lambda x, y: torch.log1p(x.abs()), 0, 2),
    "expm1": (lambda x, y: torch.expm1(x), 0, 2),
    "sin": (lambda x, y: torch.sin(x), 0, 1),
    "cos": (lambda x, y: torch.cos(x), 0, 1),
    "tanh": (lambda x, y: torch.tanh(x), 0, 1),
    "sigmoid": (lambda x, y: torch.sigmoid(x), 0, 3),
    "silu": (lambda x, y: F.silu(x), 0, 3),
    "softplus": (lambda x, y: F.softplus(x), 0, 2),
    "rsqrt": (lambda x, y: torch.rsqrt(x.abs()), 0, 1),
    "inverse root": (lambda x, y: x.abs() ** -0.5, 1, 1),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_exact_operators_give_torchs_bits(name: str, dtype: Any, tmp_path: Path) -> None:
    inputs = drawn(dtype), drawn(dtype, offset=1)
    assert difference(tmp_path, EXACT[name], inputs) == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", LIBRARY)
def test_library_functions_lie_within_their_ulp(name: str, dtype: Any, tmp_path: Path) -> None:
    function, narrow, wide = LIBRARY[name]
    inputs = drawn(dtype), drawn(dtype, offset=1)
    allowed = narrow if dtype == torch.bfloat16 else wide
    assert difference(tmp_path, function, inputs) <= allowed


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_of_bf16_lies_within_one_ulp_where_it_does_not_cancel(
    approximate: str, tmp_path: Path
) -> None:
    x = drawn(torch.bfloat16).abs()  # for negative numbers 1 + erf cancels in torch's float32
    assert difference(tmp_path, lambda x: F.gelu(x, approximate=approximate), (x,)) <= 1


def test_integers_are_exact(tmp_path: Path) -> None:
    n = torch.arange(-50, 50)
    functions = (lambda n: (n // 7, n % 7, n * 3 - 4, -n, n.to(torch.float32) / 7, n < 3),)
    for function in functions:
        assert difference(tmp_path, function, (n,)) == 0


@pytest.mark.parametrize("to", [torch.bfloat16, torch.float16], ids=str)
def test_a_cast_of_float64_goes_by_float32(to: Any, tmp_path: Path) -> None:
    # Just above and below the middle of two neighbours: float32 holds only the middle.
    every = torch.arange(2**14, dtype=torch.int32).to(torch.uint16).view(to).double()
    middle = (every[1:] + every[:-1]) / 2
    x = torch.cat([middle * (1 + 2.0**-40), middle * (1 - 2.0**-40)])
    assert not torch.equal(x.to(to), torch.cat([every[1:], every[:-1]]).to(to))
    assert difference(tmp_path, lambda x: x.to(to), (x,)) == 0
    assert difference(tmp_path, lambda x: torch.cat([x.to(to), x.float().to(to)]), (x,)) == 0


def test_a_cast_of_long_integers_goes_by_float32(tmp_path: Path) -> None:
    n = torch.tensor([2**30 + 2**22 + 1, 2**30 + 3 * 2**22 - 1])  # beside middles of bf16
    assert difference(tmp_path, lambda n: n.to(torch.bfloat16), (n,)) == 0
