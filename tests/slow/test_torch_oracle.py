"""Torch on the CPU is an independent oracle of the array domain, where its functions are exact.

Chains of bf16 and f16 operations, conversions and a residual stream are compared byte for byte on
inputs drawn with a fixed seed; torch computes them eagerly, one rounding at each statement.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lastbit
from lastbit.errors import InputError
from lastbit.formats import format_of
from lastbit.interpret.array import ArrayDomain, values_of
from lastbit.interpret.evaluate import results
from lastbit.interpret.policy import Policy
from lastbit.round_array import decode_array, encode_array
from lastbit.text import parse_program

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow

SEED = 20261129
SIZE = 1 << 16


def drawn(name: str, fmt: str) -> Any:
    """Return values of a 16-bit format of moderate size, as a torch tensor and in float64."""
    words = np.random.default_rng([SEED, ord(name)]).integers(0, 1 << 16, SIZE, np.uint16)
    if fmt == "bf16":
        words = (words & 0x83FF) | 0x3C00  # exponents from -7 to 0
        tensor = torch.from_numpy(words.view(np.int16)).view(torch.bfloat16)
    else:
        words = (words & 0x9FFF) | 0x2000
        tensor = torch.from_numpy(words.view(np.float16))
    return tensor, decode_array(words, format_of(fmt))


def codes(text: str, fmt: str, out: str) -> Any:
    inputs = {name: drawn(name, fmt)[1] for name in "xrw"}
    head = "".join(f"{name}: {fmt}[{SIZE}]\n" for name in "xrw")
    graph = parse_program(head + text).bind({})
    (value,) = results(graph, ArrayDomain(inputs), Policy.BITS).values()
    return encode_array(values_of(value), format_of(out))


def bits(tensor: Any) -> Any:
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.element_size()]
    return tensor.view(width).numpy().view(f"u{tensor.element_size()}")


@pytest.mark.parametrize("fmt", ["bf16", "f16"])
def test_a_residual_stream_has_torchs_bits(fmt: str) -> None:
    x, r, w = (drawn(name, fmt)[0] for name in "xrw")
    ours = codes(f"a: {fmt} = x + r\ny: {fmt} = a + w", fmt, fmt)
    np.testing.assert_array_equal(ours, bits((x + r) + w))


@pytest.mark.parametrize("fmt", ["bf16", "f16"])
@pytest.mark.parametrize("expression", ["x * r + w", "x / r - w", "(x - r) * w", "abs(x) + -w"])
def test_each_operation_rounds_as_torch_does(fmt: str, expression: str) -> None:
    x, r, w = (drawn(name, fmt)[0] for name in "xrw")
    steps = {
        "x * r + w": (f"a: {fmt} = x * r\ny: {fmt} = a + w", x * r + w),
        "x / r - w": (f"a: {fmt} = x / r\ny: {fmt} = a - w", x / r - w),
        "(x - r) * w": (f"a: {fmt} = x - r\ny: {fmt} = a * w", (x - r) * w),
        "abs(x) + -w": (f"y: {fmt} = abs(x) + -w", abs(x) + -w),
    }
    text, theirs = steps[expression]
    np.testing.assert_array_equal(codes(text, fmt, fmt), bits(theirs))


def test_the_square_root_in_f32_is_numpys_where_torch_is_an_ulp_off() -> None:
    x = drawn("x", "bf16")[0].abs().to(torch.float32)
    ours = codes("y: f32 = sqrt(abs(x))", "bf16", "f32")
    np.testing.assert_array_equal(ours, np.sqrt(x.numpy()).view(np.uint32))
    apart = ours.astype(np.int64) - bits(x.sqrt()).astype(np.int64)
    assert np.abs(apart).max() <= 1  # torch's vectorised sqrt is not correctly rounded everywhere


@pytest.mark.parametrize(("short", "name"), [("e4m3fn", "float8_e4m3fn"), ("e5m2", "float8_e5m2")])
def test_a_conversion_to_fp8_is_torchs(short: str, name: str) -> None:
    x = drawn("x", "bf16")[0]
    ours = codes(f"y: {short} = x", "bf16", short)
    np.testing.assert_array_equal(ours, bits(x.to(getattr(torch, name))))


def test_dropping_the_rounding_between_two_operations_is_seen() -> None:
    x, r, w = (drawn(name, "bf16")[0] for name in "xrw")
    kept = codes("a: bf16 = x * r\ny: bf16 = a + w", "bf16", "bf16")
    fused = codes("y: bf16 = x * r + w", "bf16", "bf16")
    wide = x.double() * r.double() + w.double()  # exact: 8 + 8 digits, exponents near
    np.testing.assert_array_equal(kept, bits(x * r + w))
    assert (kept != fused).any()
    np.testing.assert_array_equal(fused, bits(wide.float().to(torch.bfloat16)))


def test_a_function_that_calls_torch_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        lastbit.check(lambda x: x.to("f32"), lambda x: torch.nn.functional.silu(x), x="f32[2, 4]")
    assert (
        "torch.silu works on torch's own arrays, and a Tensor of lastbit is none. "
        "Write lastbit.silu(...)."
    ) in str(caught.value)
