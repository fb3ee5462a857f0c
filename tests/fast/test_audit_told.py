"""An audit tells each case once, what it left out, and the same of equal runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

torch = pytest.importorskip("torch")

from audited import SMALL, audited, numbers, split_sum  # noqa: E402
from torch import Tensor  # noqa: E402

from lastbit.audit.auditing import Hooks  # noqa: E402
from lastbit.audit.records import CaseRecord, from_json, to_json  # noqa: E402
from lastbit.audit.text import last_line, render  # noqa: E402

SCHEMA = json.loads((Path(__file__).parents[2] / "reports/audit.schema.json").read_text())


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
