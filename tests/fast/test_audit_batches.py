"""The rows of a batch are found in the inputs, made by them or named by the user.

Inputs and options with which nothing could be audited are refused, with what to do instead.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from audited import SMALL, audited, numbers, refusal  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from lastbit.audit.running import audit, sweep_of  # noqa: E402
from lastbit.errors import InputError  # noqa: E402


def test_a_batch_axis_that_is_not_found_is_named_by_the_user() -> None:
    fixed = numbers(4, 8, seed=1)

    def program(x: Tensor) -> Tensor:
        return (x * fixed).view(4, 8)

    assert refusal(program, numbers(4, 8)) == (
        "no axis of the inputs of target was found that counts rows of a batch. Name it with "
        "--batch-axis NAME=AXIS, as in --batch-axis x=0; once for each input."
    )


def test_a_weight_beside_the_rows_is_not_taken_for_rows() -> None:
    found = audited(lambda x, w: x @ w, numbers(8, 8), numbers(8, 8, seed=1))
    assert found.batch.startswith("rows along axis 0 of `x`")


def test_rows_come_from_a_function_of_the_batch_and_smaller_batches_are_its_first_rows() -> None:
    asked: list[int] = []

    def program(x: Tensor) -> Tensor:
        return x.exp().reshape(-1)

    def inputs(batch: int = 3) -> tuple[Tensor]:
        asked.append(batch)
        return (numbers(batch, 2, 5, seed=batch),)  # other numbers for every batch

    program.inputs = inputs
    found = audit("target", program, SMALL)
    assert found.batch == "rows from `inputs(batch=...)`"
    assert asked == [3, 2, 3, 8]
    (eager,) = found.whole
    assert [trial.distinct for trial in eager.trials] == [1, 1]


def test_inputs_that_do_not_follow_the_batch_are_refused() -> None:
    def program(x: Tensor) -> Tensor:
        return x.exp()

    program.inputs = lambda batch=3: (numbers(4, 8),)
    with pytest.raises(InputError) as caught:
        audit("target", program, SMALL)
    assert str(caught.value) == (
        "`inputs(batch=2)` and `inputs(batch=3)` of target do not differ by rows. Let each of its "
        "tensors keep its axes, and one of them count rows."
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_inputs_keep_the_layout_of_their_axes(axis: int) -> None:
    strides: list[tuple[int, ...]] = []

    def program(x: Tensor) -> Tensor:
        strides.append(x.stride())
        return x * 1

    given = numbers(4, 6, 5).permute(1, 2, 0) if axis else numbers(4, 6, 5).transpose(1, 2)
    audited(program, given, options=replace(SMALL, axes=(str(2 * axis),)))
    assert strides[-1] == (given.stride())


def test_wrong_axes_are_refused_with_what_there_is() -> None:
    module = nn.Linear(8, 8)
    inputs = numbers(4, 8)
    assert refusal(module, inputs, options=replace(SMALL, axes=("input=2",))) == (
        "'input=2' names no axis of an input of target. It has `input` with 2 axes."
    )
    assert refusal(module, inputs, options=replace(SMALL, axes=("input",))) == (
        "'input' names no axis. Write NAME=AXIS, as x=0."
    )
    options = replace(SMALL, axes=("x=0", "y=0"))
    sums = refusal(lambda x, y: x.sum() + y.sum(), inputs, numbers(5, 8), options=options)
    assert sums == (
        "the axes that count rows of target have 4, 5 places. Give all of them the same number "
        "of rows."
    )


def test_sweeps_are_powers_of_two() -> None:
    assert sweep_of("cpu") == (1, 2, 4, 8, 16, 32, 64, 128, 256)
    assert sweep_of("cuda")[-1] == 4096


def test_a_program_without_operators_is_refused() -> None:
    assert refusal(lambda x: None, numbers(4, 8)) == (
        "target calls no operator of torch; nothing was checked."
    )


def test_a_gpu_that_is_not_there_is_said() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    message = refusal(nn.Linear(8, 8), numbers(4, 8), options=replace(SMALL, device="cuda"))
    assert message == "torch finds no CUDA device. Leave --device out, or use a GPU host."
