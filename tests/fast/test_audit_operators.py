"""Operators of every form run again as they ran in the program; what cannot be is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from audited import SMALL, audited, codes, gaps, numbers  # noqa: E402
from torch import Tensor, nn  # noqa: E402


@torch.library.custom_op("audited::refuses_few", mutates_args=())
def refuses_few(x: Tensor) -> Tensor:
    """Refuse one row."""
    if x.shape[0] == 1:
        raise RuntimeError("at least two rows, please")
    return x * 2


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
