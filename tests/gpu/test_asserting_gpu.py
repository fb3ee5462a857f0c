"""Assertions take tensors where they lie: promises of kernels on a GPU are held to its bits."""

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

from lastbit import (  # noqa: E402
    RefusedComparisonError,
    assert_batch_invariant,
    assert_bitwise,
    assert_deterministic,
    assert_ulp,
)


def normal(*shape, seed=0, dtype=torch.float32):
    draw = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(*shape, generator=draw, device="cuda").to(dtype)


def test_elementwise_kernels_keep_both_promises():
    x = normal(64, 4096, dtype=torch.bfloat16)
    assert_batch_invariant(torch.nn.functional.silu, x)
    assert_deterministic(torch.nn.functional.silu, x)


def test_sums_by_atomics_are_not_deterministic():
    index = torch.zeros(1 << 20, dtype=torch.int64, device="cuda")

    def added(x):
        return torch.zeros(2, device="cuda").index_add_(0, index + (x > 0), x)

    with pytest.raises(AssertionError, match=r"runs differ \(assert_deterministic\)"):
        assert_deterministic(added, normal(1 << 20))


def test_a_scale_of_the_whole_batch_is_seen():
    with pytest.raises(AssertionError, match="rows depend on the batch"):
        assert_batch_invariant(lambda x: x / x.abs().amax(), normal(64, 256))


def test_a_tensor_beside_itself_or_its_copy_on_the_host():
    x = normal(64, 256)
    with pytest.raises(RefusedComparisonError, match="both sides are the same memory"):
        assert_bitwise(x, x.view(64, 256))
    assert_bitwise(x, x.cpu())
    assert_ulp(x, torch.nextafter(x, torch.full_like(x, 9.0)), max_ulp=1, format="f32")
