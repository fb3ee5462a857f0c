"""The kernels of Triton give the predicted bits in Triton's interpreter.

The interpreter has no matrix unit. Products of matrices are tested with small integers, whose sums
are exact in every order: tiles, masks and indices are tested, and the order of a chain is not.
Attention has sums that are not exact; there its chains are predicted as exact sums, rounded once,
which is what the interpreter computes here. All else is compared as it is.

`tests/slow/test_reference_kernels_triton.py` runs this file in a process of its own: one that has
imported Triton already can no longer turn its interpreter on.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import triton_interpreter  # noqa: F401  before the kernels are imported
from kernel_cases import (
    cases,
    integers,
    of_rows,
    outputs,
    refusal,
    refused_sizes,
    rows_keep_their_bits,
)

from lastbit.kernel_runs import compare, draw_inputs, members, observe, predict
from lastbit.kernels import Case, Kernel, find_kernel

SEED = 20261130
TRITON = cases("triton")
PRODUCTS = ("matmul", "scaled_mm")
MOST = {"M": 5, "N": 72}  # the interpreter is slow


def small(kernel: Kernel, number: int) -> Case:
    """Return a case with few rows and columns, but the same sums."""
    case = kernel.cases[number]
    most = {} if case.parameters.get("by_rows") or "M" not in case.sizes else MOST
    sizes = {name: min(size, most.get(name, size)) for name, size in case.sizes.items()}
    return replace(case, sizes=sizes)


def with_exact_chains(kernel: Kernel) -> Kernel:
    """Return a kernel whose program sums each chain of a matrix unit exactly."""
    return replace(
        kernel, program=lambda case: kernel.program(case).replace("acc f32 fused(16, hopper)", "")
    )


@pytest.mark.parametrize(("name", "number"), TRITON)
def test_a_kernel_gives_the_predicted_bits(name: str, number: int) -> None:
    kernel = find_kernel(name)
    case = small(kernel, number)
    draw = integers if name.startswith(PRODUCTS) else draw_inputs
    inputs = draw(kernel, case, SEED)
    if name.startswith("attention"):
        kernel = with_exact_chains(kernel)
    found = compare(kernel, case, inputs, "cpu")
    assert found.outputs == outputs(kernel, case)
    assert found.differ == 0
    assert found.distinct >= min(found.outputs * 2 // 3, 50)
    assert found.called.keys() == kernel.functions.keys()


@pytest.mark.parametrize(("name", "number"), [case for case in TRITON if case[0] != "fma_triton"])
def test_a_row_depends_on_the_others_only_where_that_is_said(name: str, number: int) -> None:
    kernel = find_kernel(name)
    case = of_rows(kernel, small(kernel, number), 16)
    inputs = draw_inputs(kernel, case, SEED)
    same = rows_keep_their_bits(kernel, case, inputs, (2,))
    assert same or not kernel.promises(case)["batch_invariant"]


@pytest.mark.parametrize("name", ["sum_triton_atomics", "matmul_triton_atomics"])
def test_a_sum_in_any_order_is_one_of_a_set(name: str) -> None:
    kernel = find_kernel(name)
    case = small(kernel, 0)
    inputs = integers(kernel, case, SEED)
    possible = members(kernel, case, inputs)
    assert len(possible) == 12
    assert np.array_equal(observe(kernel, case, inputs, "cpu")[0], possible[-1][0])


@pytest.mark.parametrize(
    ("name", "shapes", "parameters", "message"),
    [
        ("sum_triton_pairwise", [(2, 6)], {}, "K is 6; it is to be a power of 2."),
        *refused_sizes("triton"),
        (
            "attention_triton_online",
            [(2, 24), (64, 24), (64, 24)],
            {"block": 64},
            "D is 24; it is to be a power of 2, 16 or more.",
        ),
        (
            "attention_triton_online",
            [(2, 32), (64, 32), (64, 32)],
            {"block": 48},
            "block is 48; it is to be a power of 2.",
        ),
        (
            "attention_triton_split",
            [(2, 16), (64, 16), (64, 16)],
            {"n": 3},
            "T is 64, which 3 parts do not divide.",
        ),
    ],
)
def test_sizes_that_a_kernel_does_not_take_are_refused(
    name: str, shapes: list[tuple[int, ...]], parameters: dict[str, int], message: str
) -> None:
    assert refusal(name, shapes, parameters) == message


A = (torch.arange(120).reshape(5, 24) % 7 - 3).half()
B = (torch.arange(168).reshape(24, 7) % 5 - 2).half()
A2, B2 = A[None].repeat(2, 1, 1), B[None].repeat(2, 1, 1)
TWOS = torch.full((2, 3, 8), 2.0)
EXACT = [
    ("matmul_triton_chain", "aten.mm.default", (A, B)),
    ("matmul_triton_chain", "aten.addmm.default", (B[0], A, B)),
    ("matmul_triton_chain", "aten.bmm.default", (A2, B2)),
    ("matmul_triton_fma", "aten.mm.default", (A.float(), B.float().t().contiguous().t())),
    ("matmul_triton_fma", "aten.addmm.default", (B[0].float(), A.float(), B.float())),
    ("matmul_triton_fma", "aten.bmm.default", (A2.float(), B2.float())),
    ("sum_triton_lanes", "aten.sum.dim_IntList", (A, [0], True)),
    ("cumsum_triton_blocks", "aten.cumsum.default", (A.repeat(3, 60), 1)),
    ("sum_triton_lanes", "aten.mean.dim", (A.reshape(3, 8, 5), [1])),
    ("rmsnorm_triton_lanes", "aten._fused_rms_norm.default", (TWOS, [3, 8], None, 0.0)),
    ("softmax_triton_two_pass", "aten._softmax.default", (TWOS, 2, False)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "operator", "args"), EXACT)
def test_where_all_sums_are_exact_a_kernel_gives_what_the_operator_gives(
    name: str, operator: str, args: tuple[object, ...]
) -> None:
    _, word, overload = operator.split(".")
    wanted = getattr(getattr(torch.ops.aten, word), overload)(*args)
    given = find_kernel(name).replaces[operator](*args)
    pairs = zip(wanted, given, strict=True) if isinstance(wanted, tuple) else [(wanted, given)]
    for right, mine in pairs:
        assert mine.dtype == right.dtype
        assert torch.equal(mine, right)
        assert mine.count_nonzero() > 0


def test_every_replacement_is_tried_above() -> None:
    have = {(name, key) for name, _ in TRITON for key in find_kernel(name).replaces}
    tried = {(name, operator) for name, operator, _ in EXACT}
    assert have == tried | {(ATTENTION, operator) for operator in OPERATORS}


ATTENTION = "attention_triton_online"
OPERATORS = {
    "aten._scaled_dot_product_flash_attention.default": (),
    "aten._scaled_dot_product_efficient_attention.default": (None, False),
    "aten._scaled_dot_product_cudnn_attention.default": (None, False),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("operator", OPERATORS)
def test_attention_of_equal_weights_is_exact(operator: str, causal: bool) -> None:
    # Zeros as queries give each key that is seen the same weight; 1, 3, 5 have means 1, 2, 3.
    values = torch.arange(64) * 2 + 1
    v = values[:, None].expand(2, 3, 64, 16).half()
    q = torch.zeros_like(v)
    result = find_kernel(ATTENTION).replaces[operator](q, v, v, *OPERATORS[operator], 0.0, causal)
    wanted = torch.arange(1, 65) if causal else torch.full((64,), 64)
    assert torch.equal(result[0], wanted[:, None].expand_as(v).half())
    _, word, overload = operator.split(".")
    schema = getattr(getattr(torch.ops.aten, word), overload)._schema
    assert len(result) == len(schema.returns)


def test_the_scale_of_a_row_is_that_of_the_row() -> None:
    kernel = find_kernel("quantize_triton")
    case = Case({"M": 3, "K": 256}, "f32", {"scope": "row"})
    inputs = draw_inputs(kernel, case, SEED)
    _, scales = observe(kernel, case, inputs, "cpu")
    top = np.abs(inputs["x"].view(np.float32)).max(axis=1, keepdims=True)
    assert scales.view(np.float32).tobytes() == (top / np.float32(448)).tobytes()
    assert predict(kernel, case, inputs).codes[1].tobytes() == scales.tobytes()
