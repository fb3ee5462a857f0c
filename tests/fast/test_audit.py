"""An audit blames the operators that break a promise, and no other."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

torch = pytest.importorskip("torch")

from audited import SMALL, SPLITS_FROM, audited, codes, gaps, in_order, numbers, split_sum  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from lastbit.audit.auditing import Hooks  # noqa: E402
from lastbit.audit.records import CaseRecord, from_json, to_json  # noqa: E402
from lastbit.audit.running import audit, sweep_of  # noqa: E402
from lastbit.audit.text import last_line, render  # noqa: E402
from lastbit.errors import InputError  # noqa: E402

SCHEMA = json.loads((Path(__file__).parents[2] / "reports/audit.schema.json").read_text())
COUNT = itertools.count()


@torch.library.custom_op("audited::other_each_time", mutates_args=())
def other_each_time(x: Tensor) -> Tensor:
    """Return another number of ulp more each time."""
    return x * (1 + 2**-20 * next(COUNT))


@torch.library.custom_op("audited::over_batch", mutates_args=())
def over_batch(x: Tensor) -> Tensor:
    """Scale by the greatest number of all rows, as a tensor-wide scale does."""
    return x / x.abs().amax()


@torch.library.custom_op("audited::by_place", mutates_args=())
def by_place(x: Tensor) -> Tensor:
    """Add rows at odd places from the end."""
    odd = (torch.arange(x.shape[0]) % 2 == 1)[:, None]
    return in_order(torch.where(odd, x.flip(1), x))


@torch.library.custom_op("audited::refuses_few", mutates_args=())
def refuses_few(x: Tensor) -> Tensor:
    """Refuse one row."""
    if x.shape[0] == 1:
        raise RuntimeError("at least two rows, please")
    return x * 2


def test_only_the_operator_whose_split_depends_on_the_batch_is_blamed() -> None:
    def program(x: Tensor) -> Tensor:
        y = (x * 3).softmax(-1).log() + x.sin()
        return split_sum(y) / y.amax(-1)

    found = audited(program, numbers(3, 64))
    assert codes(found) == {"audited.split_sum.default": ("DET650",)}
    (culprit,) = found.culprits
    assert culprit.thresholds is not None
    assert culprit.thresholds.changes == (SPLITS_FROM,)
    assert (culprit.thresholds.distinct, culprit.thresholds.complete) == (2, True)
    assert culprit.calls[0].place.startswith("tests/fast/test_audit.py:")
    assert found.exit_code == 1
    assert found.decided == (len(found.cases), len(found.cases))


def test_a_program_of_row_wise_operators_is_clean() -> None:
    found = audited(lambda x: (x.exp() * 2).relu().sum(-1), numbers(3, 16))
    assert (codes(found), gaps(found), found.exit_code) == ({}, {}, 0)
    assert {one.operator for one in found.cases} == {
        "aten.exp.default", "aten.mul.Tensor", "aten.relu.default", "aten.sum.dim_IntList",
    }  # fmt: skip


def test_a_split_of_plain_operators_is_found_for_the_program_as_a_whole() -> None:
    def program(x: Tensor) -> Tensor:
        if x.shape[0] < SPLITS_FROM:
            return in_order(x)
        return in_order(torch.stack([in_order(part) for part in x.chunk(4, 1)], 1))

    found = audited(program, numbers(3, 16))
    assert codes(found) == {}
    (finding,) = found.findings
    assert finding.code == "DET650"
    assert finding.message == (
        "target, as a whole, is not batch-invariant: 2 different results in 4 batch sizes"
    )
    assert any("with 8 rows the program makes" in gap for gap in found.gaps)


@pytest.mark.parametrize("depth", [64, 1000])
def test_the_sizes_of_a_product_of_the_library_are_those_found_by_hand(depth: int) -> None:
    x, w = numbers(32, depth), numbers(depth, 48, seed=1)
    rows = [(x[:size].clone() @ w)[0].numpy().tobytes() for size in range(1, 33)]
    changes = tuple(n + 2 for n, (a, b) in enumerate(itertools.pairwise(rows)) if a != b)
    found = audited(lambda x: x @ w, x, options=replace(SMALL, sizes=(1, 32)))
    (case,) = found.cases
    assert case.thresholds is not None
    assert case.thresholds.changes == changes
    assert case.thresholds.distinct == len(set(rows))
    assert bool(changes) <= ("DET650" in case.codes)


def test_other_results_of_equal_calls_are_named_and_batches_then_say_nothing() -> None:
    found = audited(lambda x: other_each_time(x) + 1, numbers(3, 16))
    name = "audited.other_each_time.default"
    assert codes(found) == {name: ("DET651",)}
    assert gaps(found)[name] == (
        "not compared across batches: equal calls already give other bits",
    )
    (culprit,) = found.culprits
    assert culprit.trials[0].distinct == SMALL.repeats


def test_a_scale_of_the_whole_batch_makes_rows_depend_on_each_other() -> None:
    found = audited(lambda x: over_batch(x), numbers(3, 16))
    assert codes(found) == {"audited.over_batch.default": ("DET654",)}
    assert "zeros in the other rows" in found.findings[0].message


def test_an_order_by_place_is_found_by_moving_a_row() -> None:
    found = audited(lambda x: by_place(x), numbers(3, 64))
    assert "DET653" in codes(found)["audited.by_place.default"]


def test_an_operator_that_reads_a_blamed_result_is_not_blamed() -> None:
    found = audited(lambda x: split_sum(x).exp().sin(), numbers(3, 64))
    assert set(codes(found)) == {"audited.split_sum.default"}


def test_the_run_gives_the_same_bits_as_without_the_audit() -> None:
    given: list[bytes] = []

    def program(x: Tensor) -> Tensor:
        y = x.clone()
        y[:, 0].add_(1).mul_(y[:, 1])
        y = torch.nn.functional.dropout(y, 0.5).cumsum(-1)
        given.append(y.numpy().tobytes())
        return y

    audited(program, numbers(8, 16))
    whole = [one for one in given if len(one) == 8 * 16 * 4]
    assert len(whole) > 3
    assert len(set(whole)) == 1
    assert any(whole[0])


def test_what_draws_random_numbers_draws_them_again_and_is_named() -> None:
    found = audited(lambda x: nn.functional.dropout(x, 0.5), numbers(4, 64))
    drawing = next(case for case in found.cases if case.gaps)
    assert drawing.codes == ()
    assert drawing.trial("repeats").distinct == 1
    assert drawing.gaps == (
        "not compared across batches: it draws random numbers, and other rows draw others",
    )
    assert not drawing.decided


def test_operators_that_write_their_arguments_are_run_on_what_they_had() -> None:
    def program(x: Tensor) -> Tensor:
        y = x * 1
        y[:, 2:4].add_(y[:, 0:2]).mul_(3)
        y[:, 1].copy_(y[:, 5])
        torch.add(y, 1, out=y)
        return y

    found = audited(program, numbers(4, 8))
    assert (codes(found), gaps(found)) == ({}, {})
    assert {"aten.add_.Tensor", "aten.mul_.Tensor", "aten.copy_.default", "aten.add.out"} <= {
        case.operator for case in found.cases
    }


def test_lists_integers_several_results_and_missing_tensors_are_seen() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        values, places = x.topk(2, dim=-1)
        joined = torch.cat([x, values, x.argmax(-1, keepdim=True)], -1)
        return nn.functional.layer_norm(joined, (11,)), places, x.clamp(min=None, max=1.0)

    found = audited(program, numbers(4, 8))
    assert (codes(found), gaps(found)) == ({}, {})
    assert {"aten.topk.default", "aten.cat.default", "aten.native_layer_norm.default"} <= {
        case.operator for case in found.cases
    }


def test_a_sum_over_the_batch_has_no_rows_to_compare() -> None:
    found = audited(lambda x: (x * 2, (x * 2).sum(0)), numbers(4, 8))
    total = next(case for case in found.cases if case.operator == "aten.sum.dim_IntList")
    assert total.notes == (
        "not compared across batches: none of its results has an axis that counts rows of the "
        "batch",
    )
    assert [trial.kind for trial in total.trials] == ["repeats"]
    assert total.decided


def test_rows_that_run_fastest_are_taken_apart() -> None:
    """[T, B, H] as [T * B, H]: row b has the places b, B + b, 2 B + b ..."""
    options = replace(SMALL, axes=("1",))
    found = audited(
        lambda x: x.reshape(-1, 8).softmax(-1).reshape(x.shape), numbers(3, 4, 8), options=options
    )
    (case,) = found.cases
    assert (case.codes, case.gaps) == ((), ())
    assert case.trial("alone").values == (0, 1, 2, 3, 4, 5, 6, 7)


def test_integers_that_name_rows_are_not_blamed() -> None:
    def program(x: Tensor) -> Tensor:
        return x[torch.arange(x.shape[0] - 1, -1, -1)]

    found = audited(program, numbers(4, 8))
    assert codes(found) == {}
    assert gaps(found)["aten.index.Tensor"] == (
        "not compared across batches: integers among its arguments may name rows of the batch, "
        "so that its rows cannot be taken apart",
    )


def test_results_of_one_number_decide_nothing() -> None:
    found = audited(lambda x: (x * 0).softmax(-1), numbers(4, 8))
    assert gaps(found) == {
        "aten._softmax.default": (
            "not decided: every result is one number everywhere, so that nothing could differ",
        )
    }


def test_an_operator_that_refuses_a_batch_is_a_gap_with_its_reason() -> None:
    found = audited(lambda x: refuses_few(x), numbers(4, 8))
    assert gaps(found)["audited.refuses_few.default"][0] == (
        "not tried to the end: it raised RuntimeError: at least two rows, please"
    )
    assert found.exit_code == 1


def test_a_sparse_result_is_a_gap_and_the_operator_is_named() -> None:
    found = audited(lambda x: x.to_sparse().to_dense() * 2, numbers(4, 8))
    message = next(f.message for f in found.findings if f.code == "DET690")
    assert message.startswith("`_to_sparse` could not be run again by itself")


def test_calls_with_equal_signatures_are_one_case() -> None:
    found = audited(lambda x: x.sin().sin().sin(), numbers(4, 8))
    (case,) = found.cases
    assert len(case.calls) == 3
    assert (found.calls, found.known) == (3, 1)


def test_modules_name_their_operators_and_buffers_start_anew() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.ReLU(), nn.Hardtanh())
            self.register_buffer("runs", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.runs += 1
            return self.inner(x) + self.runs

    found = audited(Counting(), numbers(4, 8))
    assert {case.operator: case.calls[0].path for case in found.cases} == {
        "aten.add_.Tensor": "",
        "aten.relu.default": "inner.0",
        "aten.hardtanh.default": "inner.1",
        "aten.add.Tensor": "",
    }
    assert codes(found) == {}


def test_a_training_step_is_audited_with_its_backward_pass() -> None:
    weight = numbers(8, 4, seed=1).requires_grad_()

    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        out = (x @ weight).tanh()
        (grad,) = torch.autograd.grad(out.sum(), weight)
        return out, grad

    found = audited(step, numbers(4, 8))
    assert "aten.tanh_backward.default" in {case.operator for case in found.cases}


def test_a_number_that_follows_the_batch_is_an_input_and_no_size() -> None:
    """A mean over the batch divides its gradient by the number of rows."""
    found = audited(lambda x: (x * (1 / x.shape[0]), x / x.shape[0]), numbers(4, 8))
    assert {case.operator for case in found.cases} == {"aten.mul.Tensor", "aten.div.Tensor"}
    assert codes(found) == {}
    assert all(case.trial("alone") is not None for case in found.cases)


def test_what_torch_compile_made_runs_as_without_the_audit_and_is_named() -> None:
    inner = torch.compile(lambda x: x.sin() * 2, backend="eager")
    found = audited(lambda x: inner(x).cos(), numbers(4, 8))
    assert "aten.cos.default" in {case.operator for case in found.cases}
    assert found.gaps == ()


def test_a_program_without_operators_is_refused() -> None:
    assert _message(lambda x: None, numbers(4, 8)) == (
        "target calls no operator of torch; nothing was checked."
    )


def test_hooks_are_told_of_each_case_once_and_skip_what_is_done() -> None:
    told: list[CaseRecord] = []
    inputs = numbers(4, 8)

    def program(x: Tensor) -> Tensor:
        return x.sin().cos().exp()

    whole = audited(program, inputs, hooks=Hooks(finished=told.append))
    assert [one.operator for one in told] == [case.operator for case in whole.cases]
    done = {told[0].key: replace(told[0], notes=("from a journal",))}
    again: list[CaseRecord] = []
    part = audited(
        program, inputs, hooks=Hooks(finished=again.append, done=done, mine=lambda n: n != 1)
    )
    assert [case.number for case in part.cases] == [0, 2]
    assert [one.number for one in again] == [2]
    assert part.cases[0].notes == ("from a journal",)
    assert part.known == 3


def test_equal_audits_give_equal_documents_that_follow_the_schema() -> None:
    documents = [to_json(audited(lambda x: split_sum(x), numbers(3, 32))) for _ in range(2)]
    assert json.dumps(documents[0]) == json.dumps(documents[1])
    jsonschema.validate(documents[0], SCHEMA)
    assert to_json(from_json(documents[0])) == documents[0]


def test_the_text_names_operator_sizes_drift_and_totals() -> None:
    found = audited(lambda x: split_sum(x), numbers(3, 32))
    text = render(found)
    assert "DET650 `split_sum`" in text
    assert "sizes     2 different results of row 0 in 8 batch sizes up to 8" in text
    assert "the bits change at 6" in text
    assert "ulp of f32" in text
    assert text.endswith(last_line(found) + "\n")
    assert last_line(found) == (
        "decided 1 of 1 operator; 1 culprit (1 not batch-invariant); batches of 1, 2, 5, 8, "
        "3 equal runs"
    )


def _message(*arguments: Any, **named: Any) -> str:
    with pytest.raises(InputError) as caught:
        audited(*arguments, **named)
    return str(caught.value)


def test_a_batch_axis_that_is_not_found_is_named_by_the_user() -> None:
    fixed = numbers(4, 8, seed=1)

    def program(x: Tensor) -> Tensor:
        return (x * fixed).view(4, 8)

    assert _message(program, numbers(4, 8)) == (
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
    assert _message(module, inputs, options=replace(SMALL, axes=("input=2",))) == (
        "'input=2' names no axis of an input of target. It has `input` with 2 axes."
    )
    assert _message(module, inputs, options=replace(SMALL, axes=("input",))) == (
        "'input' names no axis. Write NAME=AXIS, as x=0."
    )
    options = replace(SMALL, axes=("x=0", "y=0"))
    sums = _message(lambda x, y: x.sum() + y.sum(), inputs, numbers(5, 8), options=options)
    assert sums == (
        "the axes that count rows of target have 4, 5 places. Give all of them the same number "
        "of rows."
    )


def test_what_is_not_tried_in_time_is_named() -> None:
    options = replace(SMALL, seconds=1e-9, repeats=20, sizes=(1, 2, 4096))
    found = audited(lambda x: x.exp(), numbers(4, 8), options=options)
    (case,) = found.cases
    assert case.gaps == (
        "3 of 20 equal calls were made in the time",
        "3 batch sizes were run in the time",
    )
    assert case.thresholds.cut
    assert found.exit_code == 1


def test_sweeps_are_powers_of_two() -> None:
    assert sweep_of("cpu") == (1, 2, 4, 8, 16, 32, 64, 128, 256)
    assert sweep_of("cuda")[-1] == 4096


def test_a_gpu_that_is_not_there_is_said() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    message = _message(nn.Linear(8, 8), numbers(4, 8), options=replace(SMALL, device="cuda"))
    assert message == "torch finds no CUDA device. Leave --device out, or use a GPU host."
