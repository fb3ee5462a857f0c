"""On an NVIDIA GPU every reference kernel gives the predicted bits, and keeps its promises.

The kernels of torch run on any GPU; those with steps of a matrix unit are those of Hopper.
`benchmarks/gpu_reference_kernels.py` compares more outputs, and writes what it finds.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

from kernel_cases import cases, first_rows, of_rows, outputs  # noqa: E402

from lastbit.errors import InputError  # noqa: E402
from lastbit.kernel_runs import compare, distinct_runs, draw_inputs, observe  # noqa: E402
from lastbit.kernels import find_kernel, replaceable, replacement  # noqa: E402

SEED = 20261130
HOPPER = torch.cuda.get_device_capability() == (9, 0)
ALL = cases("")


@pytest.mark.parametrize(("name", "number"), ALL)
def test_a_kernel_gives_the_predicted_bits(name: str, number: int) -> None:
    kernel = find_kernel(name)
    case = kernel.cases[number]
    if "hopper" in kernel.program(case) and not HOPPER:
        pytest.skip("needs a GPU of the Hopper family")
    found = compare(kernel, case, draw_inputs(kernel, case, SEED), "cuda")
    assert found.outputs == outputs(kernel, case)
    assert found.differ == 0
    assert found.distinct >= min(found.outputs * 2 // 3, 150)
    assert found.called.keys() == kernel.functions.keys()
    for fn, called in found.called.items():
        assert called.values > 0
        assert called.max_ulp <= kernel.functions[fn].ulp


@pytest.mark.parametrize(
    ("name", "number"), [case for case in ALL if not case[0].startswith("fma")]
)
def test_a_row_depends_on_the_others_only_where_that_is_said(name: str, number: int) -> None:
    kernel = find_kernel(name)
    case = of_rows(kernel, kernel.cases[number], 256)
    inputs = draw_inputs(kernel, case, SEED)
    whole = observe(kernel, case, inputs, "cuda")
    same = True
    for rows in (1, 2, 8, 128):
        part = first_rows(kernel, case, inputs, rows)
        few = observe(kernel, of_rows(kernel, case, rows), part, "cuda")
        same &= all(a[: len(b)].tobytes() == b.tobytes() for a, b in zip(whole, few, strict=True))
    assert same or not kernel.promises(case)["batch_invariant"]


@pytest.mark.parametrize("name", sorted({name for name, _ in ALL}))
def test_a_kernel_that_promises_it_gives_the_same_bits_in_every_run(name: str) -> None:
    kernel = find_kernel(name)
    case = kernel.cases[0]
    inputs = draw_inputs(kernel, case, SEED)
    distinct = distinct_runs(lambda: observe(kernel, case, inputs, "cuda"), 5)
    assert distinct == 1 or not kernel.deterministic


SDPA = "aten._scaled_dot_product_"
ONLY_16_BITS = tuple(f"{SDPA}{kind}_attention." for kind in ("flash", "efficient", "cudnn"))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("operator", replaceable())
def test_a_replacement_keeps_a_row_whatever_the_batch(operator: str, dtype: torch.dtype) -> None:
    found = replacement(operator)
    assert found is not None
    generator = torch.Generator("cuda").manual_seed(SEED)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, device="cuda").to(dtype)

    x, w, other = drawn(300, 256), drawn(256, 72), drawn(300, 256, 40)
    q, k, v = (drawn(20, 2, 100, 64) for _ in range(3))

    def heads(rows: int, *rest: object) -> torch.Tensor:
        return found(q[:rows], k[:rows], v[:rows], *rest)[0]

    calls = {
        "aten.mm.default": lambda rows: found(x[:rows], w),
        "aten.addmm.default": lambda rows: found(w[0], x[:rows], w),
        "aten.bmm.default": lambda rows: found(x[:rows, None], other[:rows]),
        "aten.sum.dim_IntList": lambda rows: found(x[:rows], [1]),
        "aten.cumsum.default": lambda rows: found(x[:rows], 1),
        "aten.mean.dim": lambda rows: found(x[:rows], [-1], True),
        "aten._fused_rms_norm.default": lambda rows: found(x[:rows], [256], None, 1e-6)[0],
        "aten._softmax.default": lambda rows: found(x[:rows], -1, False),
        "aten._log_softmax.default": lambda rows: found(x[:rows], -1, False),
        f"{SDPA}flash_attention_for_cpu.default": lambda rows: heads(rows, 0.0, True),
        f"{SDPA}flash_attention.default": lambda rows: heads(rows, 0.0, True),
        f"{SDPA}efficient_attention.default": lambda rows: heads(rows, None, False),
        f"{SDPA}cudnn_attention.default": lambda rows: heads(rows, None, False),
    }
    if dtype == torch.float32 and operator.startswith(ONLY_16_BITS):
        with pytest.raises(InputError, match="with these arguments"):
            calls[operator](1)
        return
    most = 20 if "attention" in operator else 300
    whole = calls[operator](most)
    assert whole.dtype == dtype
    assert whole.unique().numel() > 100
    for rows in (1, 2, 16, 128, 257):
        if rows < most:
            assert torch.equal(calls[operator](rows), whole[:rows])


def test_arguments_that_no_kernel_takes_are_refused() -> None:
    mm = replacement("aten.mm.default")
    assert mm is not None
    ones = torch.ones(2, 2, dtype=torch.float64, device="cuda")
    with pytest.raises(InputError, match=r"stands for aten\.mm\.default on cuda"):
        mm(ones, ones)
