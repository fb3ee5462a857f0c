"""An audit looks at every row of the batch, and follows what is computed from all of them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

torch = pytest.importorskip("torch")

from audited import audited, codes, gaps, numbers  # noqa: E402
from torch import Tensor  # noqa: E402

from lastbit.audit.auditing import Hooks  # noqa: E402
from lastbit.audit.explaining import explained, explained_with_remedies  # noqa: E402
from lastbit.audit.records import CaseRecord, to_json  # noqa: E402
from lastbit.audit.text import render  # noqa: E402

SCHEMA = json.loads((Path(__file__).parents[2] / "reports/audit.schema.json").read_text())
EXPLAINED = Hooks(explain=explained)


def _planted(name: str, function: object) -> object:
    return torch.library.custom_op(f"all_rows::{name}", function, mutates_args=())


def _at_place_3(x: Tensor) -> Tensor:
    y = x.clone()
    y[3:4] *= 1.5
    return y


def _last_place(x: Tensor) -> Tensor:
    y = x.clone()
    if len(x) > 1:
        y[-1] += 1
    return y


def _from_row_before(x: Tensor) -> Tensor:
    y = x.clone()
    y[1:] += x[:-1] * 2**-10
    return y


def _some_rows_when_many(x: Tensor) -> Tensor:
    return torch.where((x[:, :1] < 0) & (x.shape[0] > 5), x * 1.5, x)


def _counts_when_many(x: Tensor) -> Tensor:
    return (x > 0).to(torch.int32) + int(x.shape[0] > 5)


def _draws(x: Tensor) -> Tensor:
    return x + torch.randn(1)


at_place_3 = _planted("at_place_3", _at_place_3)
last_place = _planted("last_place", _last_place)
from_row_before = _planted("from_row_before", _from_row_before)
some_rows_when_many = _planted("some_rows_when_many", _some_rows_when_many)
counts_when_many = _planted("counts_when_many", _counts_when_many)
draws = _planted("draws", _draws)


def _culprit(function: object, *inputs: Tensor, hooks: Hooks = EXPLAINED) -> CaseRecord:
    found = audited(function, *(inputs or (numbers(8, 4),)), hooks=hooks)
    jsonschema.validate(to_json(found), SCHEMA)
    (culprit,) = found.culprits
    return culprit


def test_one_place_that_is_unlike_the_others_is_found_though_row_0_is_never_there() -> None:
    culprit = _culprit(lambda x: at_place_3(x) + 1)
    assert culprit.codes == ("DET653",)
    # Row 0 goes to place 4, and rows 1 to 4 one place to the front; then to place 7.
    assert culprit.trial("position").note == "rows 3, 4 have other bits at another place"


def test_a_row_of_a_smaller_batch_with_other_bits_is_found() -> None:
    found = audited(lambda x: last_place(x) + 1, numbers(8, 4), hooks=EXPLAINED)
    (culprit,) = found.culprits
    assert culprit.codes == ("DET650", "DET653")
    rows = culprit.trial("rows")
    assert rows.note == "row 1 has other bits in a batch of 2 than in the whole one"
    # In a batch of 1 nothing is added; that of 8 is the whole one.
    assert dict(zip(rows.values, rows.results, strict=True)) == {
        1: 0, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1, 8: 0,
    }  # fmt: skip
    assert "rows      row 1 has other bits in a batch of 2" in render(found)


@pytest.mark.parametrize("function", [lambda x: from_row_before(x), lambda x: x.cumsum(0)])
def test_rows_that_read_those_before_them_are_found_by_the_last_row(function: object) -> None:
    culprit = _culprit(function)
    assert culprit.codes == ("DET654",)
    assert culprit.trial("others").note == (
        "row 7 has other bits with zeros in the other rows, NaN in the other rows"
    )
    assert culprit.cause.text == "its result for a row is computed from the values of other rows"


def test_sizes_are_sought_with_a_row_that_differs_moved_to_place_0() -> None:
    x = numbers(8, 4).abs()
    x[5, 0] = -1.0
    culprit = _culprit(lambda x: some_rows_when_many(x), x)
    assert culprit.codes == ("DET650",)
    assert (culprit.thresholds.row, culprit.thresholds.changes) == (5, (6,))
    text = render(audited(lambda x: some_rows_when_many(x), x))
    assert "2 different results of row 5, moved to place 0, in 8 batch sizes up to 8" in text


def test_the_reason_for_no_cause_is_that_results_are_integers() -> None:
    culprit = _culprit(lambda x: counts_when_many(x))
    assert culprit.cause.text == (
        "cause not found: the results that differ hold integers, and orders are sought in "
        "floating-point numbers"
    )


def test_remedies_are_not_tried_on_a_row_that_does_not_change() -> None:
    culprit = _culprit(lambda x: at_place_3(x), hooks=Hooks(explain=explained_with_remedies))
    assert culprit.remedies == ()
    assert culprit.notes == (
        "remedies were not tried: they are tried on row 0, whose bits do not change",
    )


def _scaled(x: Tensor) -> Tensor:
    scale = x.abs().amax() / 127
    return (x / scale).round() * scale


def _written(x: Tensor) -> Tensor:
    out = torch.zeros(len(x), 5)
    out[:, :4] = x
    out[:, 4] = x.sum()
    return out


def _added(x: Tensor) -> Tensor:
    return torch.zeros(1, 4).index_add(0, torch.zeros(len(x), dtype=torch.long), x) + x


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (_scaled, "aten.amax.default"),
        (lambda x: x - x.mean(0, keepdim=True), "aten.mean.dim"),
        (_written, "aten.sum.default"),
        (_added, "aten.index_add.default"),
    ],
)
def test_what_is_computed_from_all_rows_and_goes_into_each_is_named(
    function: object, name: str
) -> None:
    found = audited(function, numbers(8, 4), hooks=EXPLAINED)
    assert codes(found) == {name: ("DET654",)}
    assert gaps(found) == {}
    (finding,) = found.findings
    assert "its result has no rows, goes into results that have rows" in finding.message


def test_integers_are_mixed_too() -> None:
    x = torch.arange(8)[:, None] + torch.arange(3)
    assert _culprit(lambda x: x - x.amax(), x).operator == "aten.amax.default"


def test_memory_that_is_overwritten_holds_no_more_of_the_other_rows() -> None:
    def program(x: Tensor) -> Tensor:
        total = x.sum()
        total.fill_(2.0)
        return x * total

    assert codes(audited(program, numbers(8, 4))) == {}


def test_the_sum_that_is_used_is_blamed_for_an_equal_one_that_is_not() -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.sum(), x / x.sum()

    assert codes(audited(program, numbers(8, 4))) == {"aten.sum.default": ("DET654",)}


@pytest.mark.parametrize(
    "function", [lambda x: x / len(x), lambda x: x * torch.full((len(x), 1), len(x))]
)
def test_a_number_that_follows_the_batch_is_said_of_the_program(function: object) -> None:
    found = audited(function, numbers(8, 4))
    assert codes(found) == {}
    assert found.whole[0].notes == (
        "no operator does it by itself: a number or shape in the program follows the batch",
    )


def test_a_number_that_is_read_from_all_rows_names_its_operator() -> None:
    found = audited(lambda x: x / float(x.amax()), numbers(8, 4))
    (note,) = found.whole[0].notes
    assert note.startswith("no operator does it by itself: a number or shape in the program")
    assert "; `amax` at tests/fast/test_audit_all_rows.py:" in note


def test_an_operator_that_is_not_decided_may_explain_the_whole() -> None:
    def program(x: Tensor) -> Tensor:
        return torch.zeros_like(x).index_add(0, torch.arange(len(x)) % 2, x)

    found = audited(program, numbers(8, 4))
    (note,) = found.whole[0].notes
    assert note == (
        "an operator that is not decided (`index_add`) does it, or a number or shape in the "
        "program follows the batch"
    )


def test_an_operator_of_a_library_that_draws_is_run_with_the_same_numbers() -> None:
    found = audited(lambda x: draws(x), numbers(8, 4))
    (case,) = found.cases
    assert (case.codes, case.trial("repeats").distinct) == ((), 1)
    assert case.gaps == (
        "not compared across batches: it draws random numbers, and other rows draw others",
    )


def test_sparse_arguments_are_a_gap_with_explanations_on() -> None:
    found = audited(
        lambda x: torch.sparse.mm(x.to_sparse(), torch.ones(4, 2)),
        numbers(8, 4),
        hooks=Hooks(explain=explained_with_remedies),
    )
    assert found.culprits == ()
    assert gaps(found)["aten._sparse_addmm.default"] == (
        "not compared across batches: a tensor among its arguments is sparse_coo, whose rows are "
        "not taken apart",
    )


def test_a_sum_of_nothing_is_decided() -> None:
    found = audited(lambda x: (x[:, :0].sum(-1), x[:, :0].exp()), numbers(8, 4))
    assert (gaps(found), found.exit_code) == ({}, 0)


def test_clean_operators_of_many_kinds_are_not_blamed() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        table = torch.arange(12.0).reshape(6, 2)
        cache = torch.zeros(len(x), 3, 4)
        cache.index_copy_(1, torch.tensor([1]), x[:, None] + 1)
        wave = torch.view_as_real(torch.fft.fft(torch.complex(x, x)))
        small = x.to(torch.float8_e4m3fn).to(torch.float32)
        missing = (x / 0 - x / 0) * 2 + torch.log(-x.abs())
        places = x.argsort(1)
        rows = torch.arange(len(x))[:, None] + x
        return (
            torch.nn.functional.embedding(places % 6, table), cache, wave, small, missing,
            x.gather(1, places[:, :3]), rows,
        )  # fmt: skip

    found = audited(program, numbers(8, 4), hooks=EXPLAINED)
    assert (codes(found), gaps(found)) == ({}, {})
