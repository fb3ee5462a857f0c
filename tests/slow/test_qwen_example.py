"""The example plan at full size: every kind of change, and witnesses that show what they claim.

The result follows the schema, every decided step that is not `bitwise` has a witness of its kind,
and replaying a witness from the result file gives the bits that the file holds.
"""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from cores import all_cores

from lastbit.lint import lint_plans
from lastbit.replaying import replay
from lastbit.result import Result, read_result, to_json

ROOT = Path(__file__).parents[2]
PLAN = ROOT / "examples" / "qwen3_8b_ffn.toml"
POLICY_OF = {"reassociation": "BITS", "rounding": "ROUND", "grid": "GRID", "math": "REAL"}
EXPECTED = {
    "g.tile-output": "bitwise",
    "g.split-k": "reassociation",
    "g.split-k-by-batch": "reassociation",
    "g.split-k-atomics": "reassociation",
    "y.split-k-bf16-partials": "rounding",
    "g.epilogue": "bitwise",
    "t.activation-on-partials": "math",
    "t.fuse-elementwise": "bitwise",
    "t.drop-rounding": "rounding",
    "q.quantize-in-column-blocks": "bitwise",
    "q.quantize-by-prefix-maximum": "grid",
    "q.quantize-by-frozen-scale": "math",
    "q.quantize-per-tensor": "grid",
    "q.guard-zero-row": "bitwise",
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    path = tmp_path_factory.mktemp("result") / "result.json"
    with all_cores():
        result = lint_plans([str(PLAN)])
    path.write_text(json.dumps(to_json(result)), encoding="utf-8")
    return path, read_result(str(path))


def test_each_transform_has_its_kind(written: tuple[Path, Result]) -> None:
    _, result = written
    assert {step.id: step.change for step in result.steps} == EXPECTED


def test_the_result_follows_the_schema(written: tuple[Path, Result]) -> None:
    path, _ = written
    schema = json.loads((ROOT / "reports" / "report.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), schema)


def test_every_witness_is_of_its_kind_and_replays_to_its_bits(
    written: tuple[Path, Result],
) -> None:
    path, result = written
    shown = 0
    for step in result.steps:
        if step.change == "bitwise":
            assert step.witness is None
            continue
        witness = step.witness
        assert witness is not None
        assert witness.before != witness.after
        assert (witness.kind, witness.policy) == (step.change, POLICY_OF[step.change])
        again = replay(str(path), step.id)
        assert (again.before, again.after) == (witness.before, witness.after)
        shown += 1
    assert shown == 9


def test_promises_that_break_name_their_cause(written: tuple[Path, Result]) -> None:
    _, result = written
    broken = {
        (step.id, name): promise.cause
        for step in result.steps
        for name, promise in step.promises.items()
        if promise.before and promise.after is False
    }
    assert broken == {
        ("g.split-k-by-batch", "batch_invariant"): "n takes 3 values over M in [1, 8192]",
        ("g.split-k-atomics", "deterministic"): (
            "partial sums are added in the order in which they arrive"
        ),
        ("q.quantize-per-tensor", "batch_invariant"): (
            "a row of `y` depends on other rows of the batch"
        ),
    }


def test_dropping_one_rounding_moves_as_many_elements_as_real_hardware_does(
    written: tuple[Path, Result],
) -> None:
    _, result = written
    step = result.step("t.drop-rounding")
    assert step is not None
    assert step.drift is not None
    assert 0.26 < step.drift.share < 0.28  # 27 % on an NVIDIA H200, eager against compiled
    assert step.drift.max_ulp_at_scale == 1.0


def test_a_step_is_judged_alike_in_one_process_and_in_several(
    written: tuple[Path, Result],
) -> None:
    from datetime import date

    from lastbit.plan import load_plan
    from lastbit.verify.judge import Judge

    plan = load_plan(str(PLAN), date(2026, 1, 1))
    one = [judged for _, judged in Judge(plan, processes=1).run()]
    _, result = written
    assert [str(j.change) for j in one] == [step.change for step in result.steps]
    assert [j.witness for j in one] == [step.witness for step in result.steps]
    assert [j.drift for j in one] == [step.drift for step in result.steps]


def test_each_step_has_its_cost_and_what_it_says_of_it(written: tuple[Path, Result]) -> None:
    _, result = written
    costs = {step.id: step.cost for step in result.steps}
    assert all(cost is not None and cost.at == {"M": 1024} for cost in costs.values())
    mib = {step: tuple(n / 2**20 for n in cost.bytes) for step, cost in costs.items() if cost}
    assert mib["g.tile-output"] == (2328, 1176)
    assert mib["t.fuse-elementwise"] == (1248, 1200)  # 48 MiB less
    before, after = mib["q.quantize-in-column-blocks"]
    assert 908 < before < after < 969
    notes = {f.step: f.message for f in result.findings if f.code == "COST701"}
    assert notes["q.quantize-in-column-blocks"].startswith(
        "quantize-in-column-blocks at `q` moves 968 MiB instead of 908 MiB (+6.61 %)"
    )
    assert {f.step for f in result.findings if f.code == "COST703"} == {
        "g.split-k",
        "g.split-k-atomics",
        "y.split-k-bf16-partials",
    }
    assert {f.severity for f in result.findings if f.code.startswith("COST")} == {"note"}
