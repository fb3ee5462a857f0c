"""A reference kernel gives the bits that its program predicts, and keeps its promises.

Kernel and prediction are independent of each other: torch computes the one, lastbit's emulation
the other. Where a function of a library takes part, it is taken from the library, and held against
the correctly rounded value.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from kernel_cases import (  # noqa: E402
    cases,
    integers,
    of_rows,
    outputs,
    refusal,
    refused_sizes,
    rows_keep_their_bits,
)

from lastbit.kernel_runs import (  # noqa: E402
    compare,
    distinct_runs,
    draw_inputs,
    members,
    observe,
    predict,
    schedule_of,
)
from lastbit.kernels import (  # noqa: E402
    KernelFileError,
    Library,
    find_kernel,
)
from lastbit.schedule import parse_schedule  # noqa: E402

TORCH = cases("torch")
SEED = 20261130
WITH_ROWS = [(name, number) for name, number in TORCH if not name.startswith("fma")]


@pytest.mark.parametrize(("name", "number"), TORCH)
def test_a_kernel_gives_the_predicted_bits(name: str, number: int) -> None:
    kernel = find_kernel(name)
    case = kernel.cases[number]
    found = compare(kernel, case, draw_inputs(kernel, case, SEED), "cpu")
    assert found.outputs == outputs(kernel, case)
    assert found.differ == 0
    assert found.distinct >= min(found.outputs * 2 // 3, 150)  # numbers, and not zeros
    assert found.called.keys() == kernel.functions.keys()
    for fn, called in found.called.items():
        assert called.values > 0
        assert called.max_ulp <= kernel.functions[fn].ulp
    assert (found.max_ulp is None) == (not kernel.functions)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("sum_torch_lanes", {"lanes": 16}),
        ("sum_torch_pairwise", {"leaf": 4}),
        ("matmul_torch_split", {"n": 2}),
        ("matmul_torch_epilogue", {"rounded": False}),
        ("rmsnorm_torch_lanes", {"lanes": 4}),
        ("rmsnorm_torch_split", {"n": 64}),
        ("softmax_torch_two_pass", {"lanes": 2}),
        ("softmax_torch_online", {"block": 32}),
        ("swiglu_torch", {"rounded": False}),
        ("quantize_torch", {"scope": "block"}),
        ("fma_torch", {"contracted": False}),
    ],
)
def test_the_program_of_other_parameters_predicts_other_bits(
    name: str, changed: dict[str, object]
) -> None:
    kernel = find_kernel(name)
    case = kernel.cases[0]
    other = replace(case, parameters={**case.parameters, **changed})
    inputs = draw_inputs(kernel, case, SEED)
    seen = observe(kernel, case, inputs, "cpu")
    predicted = predict(kernel, other, inputs, "cpu").codes
    assert not np.array_equal(seen[0], predicted[0])


@pytest.mark.parametrize(("name", "number"), WITH_ROWS)
def test_a_row_depends_on_the_others_only_where_that_is_said(name: str, number: int) -> None:
    kernel = find_kernel(name)
    case = of_rows(kernel, kernel.cases[number], 16)
    inputs = draw_inputs(kernel, case, SEED)
    same = rows_keep_their_bits(kernel, case, inputs, (1, 2, 8))
    promised = kernel.promises(case)["batch_invariant"]
    assert same == promised or (same and not kernel.deterministic)


@pytest.mark.parametrize("name", sorted({name for name, _ in TORCH}))
def test_a_kernel_that_promises_it_gives_the_same_bits_in_every_run(name: str) -> None:
    kernel = find_kernel(name)
    case = kernel.cases[-1]
    inputs = draw_inputs(kernel, case, SEED)
    assert distinct_runs(lambda: observe(kernel, case, inputs, "cpu"), 3) == 1


def test_a_sum_in_any_order_is_one_of_a_set() -> None:
    kernel = find_kernel("sum_torch_atomics")
    case = kernel.cases[0]
    inputs = draw_inputs(kernel, case, SEED)
    possible = [entry[0] for entry in members(kernel, case, inputs)]
    assert len(possible) == 12  # four pieces; the first two of an order commute
    assert len({codes.tobytes() for codes in possible}) > 1
    (seen,) = observe(kernel, case, inputs, "cpu")
    assert seen.tobytes() == possible[0].tobytes()  # a processor adds them as they stand
    assert schedule_of(kernel, case) == parse_schedule("split(4, inner=seq, outer=any_order)")
    assert kernel.promises(case) == {"deterministic": False, "batch_invariant": False}


def test_a_result_outside_of_the_set_is_counted() -> None:
    kernel = find_kernel("sum_torch_atomics")
    case = kernel.cases[0]

    def reversed_in_pieces(x: torch.Tensor, *, n: int) -> torch.Tensor:
        return kernel.run(x.flip(1), n=n)  # pieces in another order, and each from right to left

    wrong = replace(kernel, run=reversed_in_pieces)
    found = compare(wrong, case, draw_inputs(kernel, case, SEED), "cpu")
    assert 0 < found.differ < found.outputs == 200


@pytest.mark.parametrize(
    ("name", "number", "schedule"),
    [
        ("matmul_torch_chain", 0, "seq"),
        ("matmul_torch_split", 0, "split(4, tile=16)"),
        ("matmul_torch_split", 1, "split(2, tile=16)"),  # 8 rows: max(1, 16 // M) is 2
        ("rmsnorm_torch_lanes", 0, "lanes(64, inner=seq, outer=pairwise(1))"),
        ("sum_torch_pairwise", 1, "pairwise(3)"),
    ],
)
def test_the_schedule_is_a_value(name: str, number: int, schedule: str) -> None:
    kernel = find_kernel(name)
    assert schedule_of(kernel, kernel.cases[number]) == parse_schedule(schedule)


def test_a_kernel_without_a_sum_has_no_schedule() -> None:
    kernel = find_kernel("fma_torch")
    assert schedule_of(kernel, kernel.cases[0]) is None


def test_a_library_beyond_its_bound_is_seen() -> None:
    kernel = find_kernel("swiglu_torch")
    case = kernel.cases[0]
    worse = Library(2, lambda x: torch.exp(x) * (1 + 2**-20))  # 8 to 16 ulp away
    inputs = draw_inputs(kernel, case, SEED)
    called = predict(replace(kernel, functions={"exp": worse}), case, inputs, "cpu").called["exp"]
    assert 8 <= called.max_ulp <= 18
    assert called.differ == called.values == 10_000


@pytest.mark.parametrize(
    ("name", "shapes", "parameters", "message"),
    [
        ("sum_torch_pairwise", [(2, 6)], {}, "K is 6; it is to be 1 times a power of 2."),
        *refused_sizes("torch"),
        (
            "attention_torch_online",
            [(2, 16), (96, 16), (96, 16)],
            {"block": 48},
            "block is 48; it is to be a power of 2.",
        ),
        (
            "attention_torch_split",
            [(2, 16), (96, 16), (96, 16)],
            {"n": 5},
            "T is 96, which 5 parts do not divide.",
        ),
    ],
)
def test_sizes_that_a_kernel_does_not_take_are_refused(
    name: str, shapes: list[tuple[int, ...]], parameters: dict[str, int], message: str
) -> None:
    assert refusal(name, shapes, parameters) == message


def test_a_result_of_another_format_is_refused() -> None:
    kernel = find_kernel("sum_torch_sequential")
    case = kernel.cases[0]

    def tenths(x: torch.Tensor) -> torch.Tensor:
        return torch.full((len(x), 1), 0.1, dtype=torch.float64)

    with pytest.raises(KernelFileError) as caught:
        observe(replace(kernel, run=tenths), case, draw_inputs(kernel, case, SEED), "cpu")
    assert str(caught.value) == (
        "kernel file 'sum_torch_sequential': it returns f64 with 0.1 at [0, 0], which is no f32."
    )


def test_small_integers_are_exact_in_every_kernel_of_products() -> None:
    for name in ("matmul_torch_chain", "matmul_torch_split", "matmul_torch_promoted"):
        kernel = find_kernel(name)
        case = kernel.cases[0]
        inputs = integers(kernel, case, SEED)
        (seen,) = observe(kernel, case, inputs, "cpu")
        a, b = (torch.from_numpy(_numbers(inputs[key], case.format)) for key in "ab")
        assert seen.view(np.float32).tobytes() == (a @ b).float().numpy().tobytes()


def _numbers(codes: np.ndarray, fmt: str) -> np.ndarray:
    from lastbit.formats import format_of
    from lastbit.round_array import decode_array

    return decode_array(codes, format_of(fmt))
