"""A plan is read as it is written."""

import json
import subprocess
import sys
import time
import tomllib
from datetime import date
from fractions import Fraction

import pytest
from small_plans import DROP, GRAPH, PLANS, RULES, SPLIT, TODAY, load

from lastbit.change import Change
from lastbit.errors import LastbitError
from lastbit.expression import Expression
from lastbit.plan import Budget, DataFile, Distribution, Span, load_plan
from lastbit.registry import NoRulesError
from lastbit.schedule import Table


def test_every_field_is_read():
    path = PLANS / "every_field.toml"
    plan = load(path)
    assert (plan.file, plan.name, plan.batch) == (str(path), "qwen3-8b-ffn", "M")
    assert plan.machine == "hopper"
    assert plan.after is None
    assert plan.symbols == {
        "M": Span(1, 8192, 8192),
        "H": Span(4096, 4096, 4096),
        "F": Span(64, 12288, 1024),
    }
    assert [str(span) for span in plan.symbols.values()] == ["[1, 8192]", "4096", "[64, 12288]"]
    assert plan.sizes() == {"M": 8192, "H": 4096, "F": 1024}
    assert plan.sizes("low") == {"M": 1, "H": 4096, "F": 64}
    assert [s.name for s in plan.program.statements] == ["x", "w_gate", "g", "t", "s", "q"]
    assert plan.program.place("q").line == 13
    assert plan.program.outputs == ("q",)
    assert plan.inputs == {
        "x": Distribution("normal", (Fraction(0), Fraction(1, 2)), (Fraction(-8), Fraction(8))),
        "w_gate": DataFile(PLANS / "w_gate.npy", "w_gate.npy"),
    }
    assert [str(given) for given in plan.inputs.values()] == [
        "normal(0, 0.5) in [-8, 8]",
        "w_gate.npy",
    ]
    budget = plan.budget
    assert (budget.change, budget.max_ulp) == (Change.REASSOCIATION, {"bf16": Fraction(3, 2)})
    assert (budget.elementwise, budget.place.line) == (False, 48)
    assert budget.promises == ("deterministic", "batch_invariant")
    assert plan.node_budgets == {
        "q": Budget(Change.ROUNDING, elementwise=True, place=plan.node_budgets["q"].place)
    }
    assert plan.node_budgets["q"].place.line == 52


def test_the_transforms_are_read_in_order():
    first, second, third, last = load(PLANS / "every_field.toml").transforms
    defaults = {"tile": 1, "partials": "f32", "inner": "seq", "order": "plain"}
    assert (first.id, first.rule, first.at) == ("g.split-k", SPLIT, ("g",))
    assert first.parameters == {"n": Table("M", ((1, 16), (64, 4), (512, 1))), **defaults}
    assert [first.bound({"M": size})["n"] for size in (1, 63, 64, 512)] == [16, 16, 4, 1]
    assert (first.branch, first.place.line) == (False, 20)
    assert (second.id, second.rule, second.branch) == ("g.split-k-2", SPLIT, True)
    assert second.parameters == {
        "n": Expression("max(1, 132 // ceil(M / 128))"),
        "tile": 64,
        "partials": "bf16",
        "inner": "fused(16, hopper)",
        "order": "plain",
    }
    assert (third.id, third.rule, third.at) == ("mine", DROP, ("t", "g"))
    assert (last.id, last.parameters) == ("g.split-k-3", {**defaults, "n": 8, "order": "reversed"})


def test_an_expired_allow_is_kept_and_covers_nothing():
    path = PLANS / "every_field.toml"
    first, second = load(path).allows
    assert (first.code, first.at, first.until) == ("RED201", "g", date(2027, 6, 30))
    assert (first.reason, first.expired) == ("reviewed,\nwithin one ulp", False)
    assert (second.code, second.at, second.expired) == ("RED", None, True)
    assert first.covers("RED201", ("u", "g"))
    assert not first.covers("RED201", ("u",))
    assert not first.covers("RED202", ("g",))
    assert not second.covers("RED201", ("g",))
    # The last day still counts.
    assert not load_plan(path, date(2027, 6, 30), RULES).allows[0].expired
    assert load_plan(path, date(2027, 7, 1), RULES).allows[0].expired


def test_a_json_plan_says_the_same(tmp_path):
    values = tomllib.loads((PLANS / "every_field.toml").read_text())
    values["inputs"].pop("w_gate")
    for allow in values["allow"]:
        allow["until"] = allow["until"].isoformat()
    values["transform"][0]["branch"] = None  # null: not given
    path = tmp_path / "p.json"
    path.write_text(json.dumps(values, indent=1))
    plan, twin = load(path), load(PLANS / "every_field.toml")
    assert [t.parameters for t in plan.transforms] == [t.parameters for t in twin.transforms]
    assert [t.id for t in plan.transforms] == [t.id for t in twin.transforms]
    assert plan.program.bind(plan.sizes()).key() == twin.program.bind(twin.sizes()).key()
    assert (plan.symbols, plan.budget.max_ulp) == (twin.symbols, twin.budget.max_ulp)
    assert [a.until for a in plan.allows] == [a.until for a in twin.allows]
    lines = path.read_text().splitlines()
    assert [lines[t.place.line - 1].strip()[:1] for t in plan.transforms] == ["{"] * 4


def test_an_after_graph_gives_the_results_of_the_first(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text(
        GRAPH + "[after]\ntext = '''\nx: bf16[M, K]\ny: f32 = sum(x) acc f32 pairwise(1)\n"
        "unread: f32 = y + 1\n'''"
    )
    plan = load(path)
    assert plan.after.outputs == plan.program.outputs == ("y",)
    assert plan.after.place("y").line == 11
    assert plan.budget is None
    assert plan.name == "p"


def test_made_ids_avoid_given_ones(tmp_path):
    step = "[[transform]]\nrule = 'drop-rounding'\nat = ['x', 'y']\n"
    path = tmp_path / "p.toml"
    path.write_text(GRAPH + step * 3 + "id = 'x+y.drop-rounding-2'\n")
    assert [t.id for t in load(path).transforms] == [
        "x+y.drop-rounding",
        "x+y.drop-rounding-3",
        "x+y.drop-rounding-2",
    ]


@pytest.mark.parametrize(
    ("text", "kind", "parameters"),
    [
        ("normal(-1, 0.5)", "normal", (Fraction(-1), Fraction(1, 2))),
        ("uniform(-1e-3, 1)", "uniform", (Fraction(-1, 1000), Fraction(1))),
        (" constant( 0.1 ) ", "constant", (Fraction(1, 10),)),  # exact, not the nearest float
        ("integers(-8, 8)", "integers", (Fraction(-8), Fraction(8))),
    ],
)
def test_distributions_are_exact(tmp_path, text, kind, parameters):
    path = tmp_path / "p.toml"
    path.write_text(GRAPH + f"[inputs.x]\ndistribution = '{text}'")
    assert load(path).inputs["x"] == Distribution(kind, parameters)


def test_without_rules_nothing_is_loaded(monkeypatch):
    def none():
        raise NoRulesError

    monkeypatch.setattr("lastbit.plan.load_rules", none)
    with pytest.raises(LastbitError, match="no rules found; the installation is broken"):
        load_plan(PLANS / "every_field.toml", TODAY)


def _layer(i):
    return f"""
w{i}: bf16[H, F]
u{i}: bf16[H, F]
d{i}: bf16[F, H]
g{i}: bf16 = matmul(x{i}, w{i}) acc f32 seq
h{i}: bf16 = matmul(x{i}, u{i}) acc f32 split(3, tile=64)
t{i}: bf16 = silu(g{i})
z{i}: bf16 = t{i} * h{i}
s{i}: f32 = amax(z{i}, axis=-1) / 448
q{i}: e4m3fn = z{i} / s{i} saturate
y{i}: f32 = matmul(q{i}, d{i}) acc f32 seq
v{i}: bf16 = y{i} * s{i}
x{i + 1}: bf16 = x{i} + v{i}"""


def test_432_transforms_load_in_a_third_of_a_second(tmp_path):
    steps = [
        f"[[transform]]\nrule = '{rule}'\nat = ['{name}{i}']\n{more}\n"
        for i in range(36)
        for rule, name, more in (
            ("split-k", "g", "n = { by = 'M', table = [[1, 16], [64, 4]] }"),
            ("split-k", "h", "n = 'max(1, 132 // ceil(M/128))'\ninner = 'fused(16, hopper)'"),
            ("drop-rounding", "t", "branch = true"),
        ) * 4
    ]  # fmt: skip
    text = "x0: bf16[M, H]" + "".join(map(_layer, range(36)))
    head = "schema = 1\n[graph]\nsymbols = { M = [1, 8192], H = 4096, F = 12288 }\n"
    path = tmp_path / "p.toml"
    path.write_text(f"{head}text = '''\n{text}\n'''\n{''.join(steps)}")
    taken = []
    for _ in range(5):
        started = time.process_time()
        plan = load(path)
        taken.append(time.process_time() - started)
    assert (len(plan.program.statements), len(plan.transforms)) == (433, 432)
    assert len({t.id for t in plan.transforms}) == 432
    assert min(taken) < 0.3


def test_loading_needs_no_arrays():
    code = (
        "import sys, lastbit.plan; "
        "print(sorted({'numpy', 'torch', 'ml_dtypes', 'mpmath'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")
