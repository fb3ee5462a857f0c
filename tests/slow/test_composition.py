"""Transforms that meet get one verdict for what they do together, besides one each.

Verdicts and witnesses are held against numpy, which runs the program of the plan by itself.
"""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import ml_dtypes
import numpy as np
import pytest
from meeting import DROP, GRAPH, SPLIT, TODAY

from lastbit.errors import InputError
from lastbit.lint import lint_plans
from lastbit.replaying import replay, script
from lastbit.report.json import render as render_json
from lastbit.report.text import render
from lastbit.result import Region, Result, read_result
from lastbit.verify.compose import MOST_STEPS

pytestmark = pytest.mark.slow

SCHEMA = Path(__file__).parents[2] / "reports/report.schema.json"
AGAIN = '[[transform]]\nid = "again"\nrule = "split-k"\nat = ["y"]\nn = 2\n'
BACK = '[[transform]]\nid = "back"\nrule = "change-schedule"\nat = ["y"]\nschedule = "seq"\n'
WIDEN = '[[transform]]\nid = "widen"\nrule = "change-format"\nat = ["t"]\nformat = "f32"\n'
NARROW = '[[transform]]\nid = "narrow"\nrule = "change-format"\nat = ["t"]\nformat = "bf16"\n'
PLACE = '[[transform]]\nrule = "fuse-elementwise"\nat = ["t"]\n'
BRANCH = "branch = true\n"


def lint(folder: Path, rest: str, graph: str = GRAPH) -> Result:
    path = folder / "plan.toml"
    path.write_text(graph + rest, encoding="utf-8")
    return lint_plans([str(path)], today=TODAY)


def only_region(folder: Path, rest: str, graph: str = GRAPH) -> Region:
    (region,) = lint(folder, rest, graph).regions
    return region


def bf16(x: np.ndarray) -> np.ndarray:
    """Round f64 that holds exact numbers; one rounding, since ml_dtypes rounds from f64."""
    return x.astype(ml_dtypes.bfloat16).astype(np.float64)


def seq(x: np.ndarray) -> np.ndarray:
    """Add the columns from left to right in f32."""
    total = np.zeros(x.shape[0], np.float32)
    for column in x.T:
        total = total + column
    return total


def split(x: np.ndarray, n: int) -> np.ndarray:
    """Add n pieces from left to right, then their sums, in f32."""
    pieces = np.array_split(x, n, axis=1)
    return seq(np.stack([seq(piece) for piece in pieces], axis=1))


def program(inputs: dict[str, np.ndarray], pieces: int = 1, held: str = "bf16") -> np.ndarray:
    """Return z of the plan: with so many pieces of the sum, and `t` held in that format."""
    x, v, b = (inputs[name] for name in ("x", "v", "b"))
    y = (seq(x) if pieces == 1 else split(x, pieces)).astype(np.float64)[:, None]
    t = y * v
    assert held in ("bf16", "f32", "real")
    t = {"bf16": bf16, "f32": lambda a: a.astype(np.float32).astype(np.float64)}.get(
        held, lambda a: a
    )(t)
    return bf16(t + b)


def drawn() -> dict[str, np.ndarray]:
    """Draw inputs (seed 0) whose products and sums f64 holds exactly."""
    random = np.random.default_rng(0)
    x = random.integers(-(2**20), 2**20, (4096, 32)).astype(np.float32) / np.float32(2**14)
    v, b = (bf16(random.integers(-128, 128, (4096, 1)) / 32) for _ in range(2))
    return {"x": x, "v": v, "b": b}


def held_by(region: Region) -> dict[str, np.ndarray]:
    """Return the inputs of a region's witness."""
    assert region.witness is not None
    out = {}
    for name, given in region.witness.inputs.items():
        values = np.array([float.fromhex(text) for text in given.hex]).reshape(given.shape)
        out[name] = values.astype(np.float32) if given.format == "f32" else values
    return out


def bits(value: float) -> str:
    return f"0x{np.float64(value).astype(ml_dtypes.bfloat16).view(np.uint16):04x}"


def test_a_rounding_dropped_and_added_back_is_no_change(tmp_path: Path) -> None:
    result = lint(tmp_path, WIDEN + NARROW)
    assert [step.change for step in result.steps] == ["rounding", "rounding"]
    (region,) = result.regions
    assert (region.change, region.set_by, region.witness) == ("bitwise", None, None)
    assert region.steps == ("widen", "narrow")
    assert region.notes == ("together less than `widen` and `narrow` alone: changes that cancel",)
    inputs = drawn()
    before = program(inputs)
    assert np.count_nonzero(program(inputs, held="f32") != before) > 100  # each step changes bits
    assert np.array_equal(program(inputs, held="bf16"), before)


def test_a_tree_changed_and_changed_back_is_no_change(tmp_path: Path) -> None:
    result = lint(tmp_path, SPLIT + BACK)
    assert [step.change for step in result.steps] == ["reassociation", "reassociation"]
    assert [(r.change, r.set_by) for r in result.regions] == [("bitwise", None)]


def test_changes_compose_and_the_first_of_the_worst_sets_the_verdict(tmp_path: Path) -> None:
    region = only_region(tmp_path, SPLIT + AGAIN)
    assert (region.change, region.set_by) == ("reassociation", "y.split-k")
    x = held_by(region)["x"]
    assert x.shape == (1, 4)  # each of the 2 pieces is summed in pieces of one element
    witness = region.witness
    assert witness is not None
    assert witness.before == (f"0x{seq(x)[0].view(np.uint32):08x}",)
    assert witness.after == (f"0x{split(x, 2)[0].view(np.uint32):08x}",)
    assert witness.before != witness.after


def test_the_last_step_can_set_the_verdict(tmp_path: Path) -> None:
    region = only_region(tmp_path, SPLIT + DROP)
    assert (region.change, region.set_by) == ("rounding", "t.drop-rounding")
    assert region.at == ("y", "t")
    witness = region.witness
    assert witness is not None
    assert (witness.kind, witness.output, witness.format) == ("rounding", "z", "bf16")
    inputs = held_by(region)
    assert witness.before == (bits(program(inputs)[witness.index[0]]),)
    pieces = min(4, inputs["x"].shape[1])
    assert witness.after == (bits(program(inputs, pieces, "real")[witness.index[0]]),)


def test_the_order_of_the_steps_is_that_of_the_plan(tmp_path: Path) -> None:
    region = only_region(tmp_path, DROP + SPLIT)
    assert (region.steps, region.set_by) == (("t.drop-rounding", "y.split-k"), "t.drop-rounding")


def test_a_branch_is_never_part_of_a_region(tmp_path: Path) -> None:
    assert lint(tmp_path, SPLIT + DROP + BRANCH).regions == ()
    region = only_region(tmp_path, SPLIT + WIDEN + BRANCH + DROP)
    assert region.steps == ("y.split-k", "t.drop-rounding")


def test_a_step_that_is_refused_is_no_part_of_a_region(tmp_path: Path) -> None:
    result = lint(tmp_path, SPLIT + DROP.replace('"t"', '"o"'))
    assert [step.change for step in result.steps] == ["reassociation", "unknown"]
    assert result.regions == ()


def test_steps_apart_do_not_meet(tmp_path: Path) -> None:
    # `z` lies between: it is neither changed nor reads what is no longer rounded.
    other = GRAPH.replace("o: bf16 = z * 3", "o: bf16 = z * 3\np: bf16 = o * 5")
    apart = DROP.replace('"t"', '"o"')
    assert lint(tmp_path, SPLIT + apart, other).regions == ()


def test_one_step_among_those_that_keep_everything_is_not_judged_again(tmp_path: Path) -> None:
    result = lint(tmp_path, PLACE + DROP)
    (region,) = result.regions
    assert region.steps == ("t.fuse-elementwise", "t.drop-rounding")
    assert (region.change, region.set_by) == ("rounding", "t.drop-rounding")
    assert region.same_as == "t.drop-rounding"
    assert region.witness == result.steps[1].witness
    assert region.evidence[-1].by == "law"


def test_steps_that_keep_everything_keep_it_together(tmp_path: Path) -> None:
    region = only_region(tmp_path, PLACE + PLACE.replace("at =", 'id = "more"\nat ='))
    assert (region.change, region.set_by, region.domain) == ("bitwise", None, ())
    assert [evidence.by for evidence in region.evidence] == ["law"]
    assert region.promises["deterministic"].after is True


def test_what_only_places_values_is_named_where_it_is_left_out(tmp_path: Path) -> None:
    region = only_region(tmp_path, PLACE + SPLIT + DROP)
    assert region.steps == ("t.fuse-elementwise", "y.split-k", "t.drop-rounding")
    assert region.notes == (
        "judged without `t.fuse-elementwise`, which only places values and keeps every bit",
    )


def test_regions_are_not_counted_as_steps(tmp_path: Path) -> None:
    result = lint(tmp_path, SPLIT + DROP)
    assert (result.decided, result.summary.steps) == ((2, 2), 2)
    assert result.summary.changes == {"reassociation": 1, "rounding": 1}


def test_a_region_is_shown_after_the_steps(tmp_path: Path) -> None:
    blocks = render(lint(tmp_path, SPLIT + DROP)).split("\n\n")
    assert len(blocks) == 4
    head, title, *_ = blocks[2].splitlines()
    assert head.startswith(f"{tmp_path / 'plan.toml'}  region of `y`, `t`: 2 transforms together  ")
    assert head.endswith("  rounding, set by t.drop-rounding")
    assert title == "    `y.split-k`, `t.drop-rounding` as one change"


def test_a_region_that_repeats_a_step_says_which(tmp_path: Path) -> None:
    block = render(lint(tmp_path, PLACE + DROP)).split("\n\n")[2]
    assert block.splitlines()[1:] == [
        "    same as t.drop-rounding",
        "    steps     t.fuse-elementwise, t.drop-rounding",
    ]


def test_the_json_of_a_region_follows_the_schema_and_comes_back(tmp_path: Path) -> None:
    result = lint(tmp_path, SPLIT + DROP + '[budget]\nchange = "rounding"\n')
    path = tmp_path / "result.json"
    path.write_text(render_json(result), encoding="utf-8")
    document = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert document["regions"][0]["plan"] == str(tmp_path / "plan.toml")
    assert read_result(str(path)) == result


def test_the_witness_of_a_region_runs_again(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(render_json(lint(tmp_path, SPLIT + DROP)), encoding="utf-8")
    replayed = replay(str(path), "y.region")
    assert replayed.agrees
    first, *_ = str(replayed).splitlines()
    assert first == "region of `y`, `t`: 2 transforms together: rounding"
    assert "region of `y`, `t`: 2 transforms together" in script(str(path), "y.region")


def test_a_region_without_a_witness_cannot_be_replayed(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(render_json(lint(tmp_path, WIDEN + NARROW)), encoding="utf-8")
    with pytest.raises(InputError, match=r"the region 't\.region' has no witness"):
        replay(str(path), "t.region")


def test_the_id_of_a_region_is_free(tmp_path: Path) -> None:
    region = only_region(tmp_path, SPLIT.replace("at =", 'id = "y.region"\nat =') + DROP)
    assert region.id == "y.region-2"


def messages(result: Result) -> list[tuple[str, str, str | None, str]]:
    return [(f.code, f.severity, f.step, f.message) for f in result.findings]


def test_what_only_the_whole_exceeds_is_a_finding_of_the_region(tmp_path: Path) -> None:
    # Each split moves the sum by 1 ulp at scale; together they move it by 2.
    result = lint(tmp_path, SPLIT + AGAIN + "[budget]\nmax_ulp = { f32 = 1 }\n")
    assert messages(result) == [
        (
            "RED200",
            "error",
            "y.region",
            "`y.split-k`, `again` together drifts by 2 ulp at scale of f32; allowed: 1",
        )
    ]
    assert result.exit_code == 1


def test_a_finding_of_a_region_can_be_allowed(tmp_path: Path) -> None:
    allow = '[[allow]]\ncode = "RED200"\nat = "y"\nreason = "reviewed"\n'
    result = lint(tmp_path, SPLIT + AGAIN + "[budget]\nmax_ulp = { f32 = 1 }\n" + allow)
    assert [severity for _, severity, _, _ in messages(result)] == ["note"]
    assert (result.regions[0].allowed, result.regions[0].allow_reason) == (True, "reviewed")
    assert result.exit_code == 0


@pytest.mark.parametrize(
    "budget", ['change = "reassociation"', "max_ulp = { bf16 = 0 }", 'promises = ["deterministic"]']
)
def test_what_a_step_exceeds_is_not_said_again_of_the_region(tmp_path: Path, budget: str) -> None:
    atomics = SPLIT.replace("split-k", "split-k-atomics")
    result = lint(tmp_path, atomics + DROP + f"[budget]\n{budget}\n")
    steps = {step.id for step in result.steps}
    assert result.findings
    assert {finding.step for finding in result.findings} <= steps
    assert len(result.regions) == 1


def test_a_region_is_held_to_the_loosest_budget_of_its_steps(tmp_path: Path) -> None:
    rest = '[budget]\nchange = "reassociation"\n[budget.node.t]\nchange = "rounding"\n'
    result = lint(tmp_path, SPLIT + DROP + rest)
    assert (messages(result), result.exit_code) == ([], 0)
    budget = result.regions[0].budget
    assert budget is not None
    assert budget.change == "rounding"


def test_promises_are_judged_for_the_whole(tmp_path: Path) -> None:
    atomics = SPLIT.replace("split-k", "split-k-atomics")
    region = only_region(tmp_path, atomics + BACK)
    assert region.change == "bitwise"
    assert (region.promises["deterministic"].before, region.promises["deterministic"].after) == (
        True,
        True,
    )


def test_a_parameter_that_varies_is_judged_over_its_range(tmp_path: Path) -> None:
    by_batch = SPLIT.replace("n = 4", 'n = { by = "M", table = [[1, 1], [16, 4]] }')
    region = only_region(tmp_path, by_batch + BACK.replace("seq", "pairwise(32)"))
    promise = region.promises["batch_invariant"]
    assert (promise.before, promise.after) == (True, False)
    assert promise.cause == "n takes 2 values over M in [1, 64]"


def test_equal_regions_are_judged_once(tmp_path: Path) -> None:
    body = GRAPH.split("'''")[1]
    second = """X: f32[M, K]
V: bf16[M, 1]
B: bf16[M, 1]
Y: f32 = sum(X, axis=1) acc f32 seq
T: bf16 = Y * V
Z: bf16 = T + B
O: bf16 = Z * 3
"""
    graph = GRAPH.replace(body, body + second)
    more = (SPLIT + DROP).replace('"y"', '"Y"').replace('"t"', '"T"')
    one, two = lint(tmp_path, SPLIT + DROP + more, graph).regions
    assert (one.same_as, two.same_as) == (None, "y.region")
    assert two.set_by == "T.drop-rounding"
    assert two.witness is not None
    assert one.witness is not None
    assert (two.witness.output, set(two.witness.inputs)) == ("Z", {"X", "V", "B"})
    assert two.witness.before == one.witness.before


def test_the_two_graphs_of_a_comparison_have_no_regions(tmp_path: Path) -> None:
    body = GRAPH.split("'''")[1]
    after = body.replace("t: bf16", "t: f32").replace("seq", "split(4)")
    result = lint(tmp_path, f"[after]\ntext = '''{after}'''\n")
    assert result.steps
    assert result.regions == ()


def test_equal_input_gives_equal_regions(tmp_path: Path) -> None:
    assert lint(tmp_path, SPLIT + DROP).regions == lint(tmp_path, SPLIT + DROP).regions


def test_more_steps_than_are_judged_as_one_change_are_bounded(tmp_path: Path) -> None:
    rest = "".join(SPLIT.replace("at =", f'id = "s{i}"\nat =') for i in range(MOST_STEPS + 1))
    (region,) = lint(tmp_path, rest.replace("n = 4", "n = 1") + DROP).regions
    # One piece is the sum itself: these steps keep everything, and leave the verdict to the last.
    assert (region.change, region.set_by) == ("rounding", "t.drop-rounding")
    two = "".join(
        f'[[transform]]\nid = "c{i}"\nrule = "change-schedule"\nat = ["y"]\n'
        f'schedule = "{"pairwise" if i % 2 else "lanes(4)"}"\n'
        for i in range(MOST_STEPS + 1)
    )
    (region,) = lint(tmp_path, two).regions
    assert (region.change, region.set_by) == ("reassociation", "c0")
    assert region.notes == (
        f"the most that the steps can do; not judged as one change: "
        f"there are more than {MOST_STEPS} steps",
    )
