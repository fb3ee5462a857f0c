"""On a GPU, causes and remedies are shown on the operators of torch themselves.

Which batch sizes differ is the library's choice; what is said of those that do is checked, and
schedules by the bits that they give.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

from planted_operators import ROWS, planted  # noqa: E402

from lastbit.audit.calling import Call  # noqa: E402
from lastbit.audit.causes import Limits, batch_cause, repeats_cause  # noqa: E402
from lastbit.audit.contraction import contraction_of  # noqa: E402
from lastbit.audit.nearer import exact_values, nearness  # noqa: E402
from lastbit.audit.remedies import remedies  # noqa: E402

ATEN = torch.ops.aten
SIZES = (1, 2, 8, 16, 32, 64, 128, 256, 512)


def normal(*shape, seed=0, dtype=torch.bfloat16):
    draw = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(*shape, generator=draw, device="cuda").to(dtype)


def differing(case, sizes=SIZES):
    """Return the first two sizes at which row 0 has other bits, or None."""
    rows = [case.rows_of(case.run(size), [0])[0] for size in sizes if size <= case.size]
    for i in range(1, len(rows)):
        if not torch.equal(rows[i - 1], rows[i]):
            return sizes[i - 1], sizes[i]
    return None


def on_gpu(operator, args, axes=(ROWS,), **kwargs):
    case = planted(operator, args, axes, name=str(operator), **kwargs)
    return replace(case, device="cuda:0")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_the_schedules_of_a_long_product_are_named(dtype):
    args = normal(512, 12288, dtype=dtype), normal(12288, 4096, seed=1, dtype=dtype)
    case = on_gpu(ATEN.mm.default, args)
    sizes = differing(case)
    if sizes is None:
        return
    cause = batch_cause(case, *sizes, limits=Limits(seconds=90))
    assert cause.kind in ("schedule", "order")
    assert cause.before != cause.after
    found = nearness(case, *sizes)
    assert found.nearer.side is not None
    assert found.distance.max_ulp_at_scale > 0


def test_the_order_of_a_long_sum_is_named():
    case = on_gpu(ATEN.sum.dim_IntList, (normal(512, 4096, dtype=torch.float32), [1]))
    sizes = differing(case)
    if sizes is None:
        return
    cause = batch_cause(case, *sizes)
    assert cause.kind == "order"
    assert cause.before != cause.after


def test_a_product_of_binary32_has_its_order_named():
    args = normal(512, 1024, dtype=torch.float32), normal(1024, 1024, seed=1, dtype=torch.float32)
    case = on_gpu(ATEN.mm.default, args)
    sizes = differing(case)
    if sizes is None:
        return
    cause = batch_cause(case, *sizes)
    assert cause.kind == "order"


def test_atomic_additions_are_a_set_and_deterministic_algorithms_repair_them():
    index = torch.randint(0, 100, (1 << 20,), device="cuda")
    args = torch.zeros(100, device="cuda"), 0, index, normal(1 << 20, dtype=torch.float32)
    case = on_gpu(ATEN.index_add.default, args, (None,), results=(None,))
    cause = repeats_cause(case)
    assert cause.kind == "atomics"
    assert cause.text.endswith("it adds in no fixed order, as atomic additions do")
    found = {one.name: one for one in remedies(case, ("repeats",))}
    assert found["deterministic-algorithms"].verified
    assert found["deterministic-algorithms"].ratio > 0


def test_the_reference_kernel_of_a_matrix_unit_keeps_rows_apart():
    args = normal(256, 12288), normal(12288, 4096, seed=1)
    found = {one.name: one for one in remedies(on_gpu(ATEN.mm.default, args), ("batch",))}
    assert found["matmul_triton_chain"].verified
    assert found["rows-alone"].verified


def test_scaled_products_of_8_bits_are_read():
    a = normal(64, 512, dtype=torch.float32).to(torch.float8_e4m3fn)
    b = normal(256, 512, seed=1, dtype=torch.float32).to(torch.float8_e4m3fn).t()
    scales = torch.tensor(0.5, device="cuda"), torch.tensor(0.375, device="cuda")
    case = on_gpu(ATEN._scaled_mm.default, (a, b, *scales), kwargs={"out_dtype": torch.bfloat16})
    call = Call.of(case, None)
    form = contraction_of(case.name, call.named)
    exact, _ = exact_values(form, call.named, [0, 257])
    expected = a[:2].double() @ b.double() * 0.1875
    assert [float(x) for x in exact] == [float(expected[0, 0]), float(expected[1, 1])]
