"""A rule is explained from its own file, in a terminal and in the docs, with bits as proof."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from lastbit import cli
from lastbit.change import Change
from lastbit.errors import InputError
from lastbit.explaining import COMMAND, FAMILIES, anchor, document, explain, parts
from lastbit.graph import Round
from lastbit.registry import load_rules
from lastbit.rule import (
    Danger,
    Edits,
    Parameter,
    Require,
    Rewrite,
    Site,
    Standing,
    breaks,
    holds,
    rejects,
)

ROOT = Path(__file__).parents[2]
RULES = load_rules()


def unrounded(site: Site) -> Edits:
    node = site.node
    assert isinstance(node, Round)
    return {site.name: node.x}


RULE = Rewrite(
    code="FUS199",
    name="pass-on",
    claim=Change.ROUNDING,
    prose="""FUS199 pass-on: a value is passed on without `its` rounding.

Why it matters: x * y becomes another number.
Error: one rounding.
Source: a book, p. 1.
""",
    graph="""
        x: f32[N]
        t: bf16 = x * 3
        z: bf16 = t * 5
    """,
    at=("t",),
    rewrite=unrounded,
    sizes={"N": 2},
    parameters=(
        Parameter("n", "count", "how many"),
        Parameter("tile", "length", "how long", 4),
        Parameter("inner", "schedule", "as it is where not given", ""),
        Parameter("mode", "choice", "`up` or `down`", "up", ("up", "down")),
        Parameter("side", "choice", "where", "left", ("left", "right")),
    ),
    requires=(Require("n < 3", lambda site: site.integer("n") < 3),),
    examples=(
        holds({"n": 1}, x=1),
        breaks({"n": 2}, x=[0.5, "0x1.03p+0"], shows="z[1]: 0x4172 -> 0x4173"),
        rejects("n < 3", {"n": 5}, x=(2**24, float("inf"))),
    ),
    loses=("domain", "batch_invariant"),
)

EXPLAINED = """\
FUS199 pass-on: a value is passed on without `its` rounding.

Why it matters: x * y becomes another number.
Error: one rounding.
Source: a book, p. 1.

Claim: rounding on ordinary runs
May lose: domain, batch-invariant
Keeps: deterministic, layout-invariant

Parameters:
  n: how many (required)
  tile: how long (default 4)
  inner: as it is where not given (optional)
  mode: `up` or `down` (default up)
  side: where: left, right (default left)

Requires:
  n < 3

Before, at t:
  x: f32[N]
  t: bf16 = x * 3
  z: bf16 = t * 5

After, at t, with n = 2, N = 2:
  t: real = x * 3

Examples:
  holds: n = 1, x = 1
  breaks: n = 2, x = [0.5, 0x1.03p+0]; z[1]: 0x4172 -> 0x4173
  rejects `n < 3`: n = 5, x = [2^24, inf]

Witness:
  n = 2, x = [0.5, 0x1.03p+0]
  z[1]: 0x4172 -> 0x4173
"""


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the rule of this file be found."""
    monkeypatch.setattr("lastbit.explaining.find_rule", lambda name: RULE)


@pytest.mark.usefixtures("own")
def test_all_that_a_rule_says_is_shown() -> None:
    assert explain("FUS199") == EXPLAINED


def test_the_witness_is_computed_where_the_file_does_not_say_it() -> None:
    silent = breaks({"n": 2}, x=[0.5, "0x1.03p+0"])
    (witness,) = (p for p in parts(replace(RULE, examples=(silent,))) if p.title == "Witness")
    # 3 x = 3.03515625 is 3.03125 in bf16: times 5, 15.15625 becomes 15.125, not 15.1875.
    assert witness.lines == ("n = 2, x = [0.5, 0x1.03p+0]", "z[1]: 0x4172 -> 0x4173")


def test_an_example_that_cannot_be_evaluated_says_why() -> None:
    lacking = breaks({"n": 2})
    (witness,) = (p for p in parts(replace(RULE, examples=(lacking,))) if p.title == "Witness")
    assert witness.lines[1] == "cannot be evaluated: FUS199-breaks-1: the input `x` is missing"


def test_an_example_that_breaks_nothing_says_so() -> None:
    quiet = breaks({"n": 2}, x=1)
    (witness,) = (p for p in parts(replace(RULE, examples=(quiet,))) if p.title == "Witness")
    assert witness.lines[1] == "no bit differs: the example is wrong"


def test_a_rule_that_no_example_applies_says_so() -> None:
    refused = replace(RULE, examples=(rejects("n < 3", {"n": 5}, x=1),))
    (after,) = (part for part in parts(refused) if part.title == "After")
    assert after.lines == ("no example applies the rule",)


def test_many_values_are_cut_short() -> None:
    rule = replace(RULE, examples=(holds(x=[list(range(20))]), holds(x=[[7, 7]] * 3)))
    (examples,) = (part for part in parts(rule) if part.title == "Examples")
    assert examples.lines == (
        "holds: x = [0, 1, 2, 3, 4, 5, ...] (1 x 20 values)",
        "holds: x = 3 x 2 values of 7",
    )


def test_a_hazard_shows_what_is_found_and_the_remedy() -> None:
    def finds(standing: Standing) -> list[Danger]:
        return [Danger(("t",), f"one of {len(standing.program.nodes)} values")]

    shown = {part.title: part.lines for part in parts(replace(RULE, finds=finds))}
    assert shown["The remedy changes"] == ("rounding on ordinary runs",)
    assert "Unsafe at t" in shown
    assert shown["Found"] == ("t: one of 3 values",)
    assert shown["Remedy, at t, with n = 2, N = 2"] == ("t: real = x * 3",)


def test_a_name_and_a_code_in_small_letters_are_explained_alike() -> None:
    assert explain("split-k") == explain("red201") == explain("RED201")


def test_a_code_that_no_rule_made_is_explained() -> None:
    assert explain("red200") == "RED200: the same, where only the trees of sums differ\n"


def test_an_unknown_rule_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"^unknown rule 'split-q'\. Did you mean 'split-k'\?$"):
        explain("split-q")


def test_the_command_prints_the_explanation(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["explain", "split-k"]) == 0
    assert capsys.readouterr().out == explain("RED201")


def test_every_rule_is_explained_without_numpy() -> None:
    script = (
        "import sys; from lastbit.registry import load_rules\n"
        "from lastbit.explaining import explain\n"
        "heavy = {'numpy', 'torch', 'ml_dtypes'}\n"
        "for code in load_rules():\n"
        "    explain(code)\n"
        "    if heavy & {name.split('.')[0] for name in sys.modules}:\n"
        "        sys.exit(f'{code} does not say the bits of its first `breaks` (shows=...)')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("code", RULES)
def test_every_rule_shows_both_graphs_and_an_example(code: str) -> None:
    rule = RULES[code]
    titles = [part.title.split(",")[0] for part in parts(rule)]
    kind = ["Before", "After"] if rule.finds is None else ["Unsafe", "Remedy"]
    shown = [title.split(" at ")[0] for title in titles]
    assert [title for title in shown if title in kind] == kind
    assert "Examples" in titles
    assert rule.finds is None or "Found" in titles


@cache
def whole_document() -> str:
    """Return the document of all rules; it is written once."""
    return document(RULES)


def test_the_document_has_each_rule_once_under_its_anchor() -> None:
    text = whole_document()
    headings = re.findall(r"^### (.+)$", text, re.MULTILINE)
    assert headings == [f"{rule.code} {rule.name}" for rule in RULES.values()]
    links = re.findall(r"^\| \[.+?\]\(#(.+?)\)", text, re.MULTILINE)
    assert sorted(links) == sorted(anchor(rule) for rule in RULES.values())
    assert "red201-split-k" in links
    for family in FAMILIES:
        assert f"({family})**" in text


def test_markup_in_prose_is_escaped_outside_of_backticks() -> None:
    text = document({"FUS199": RULE})
    assert "A value is passed on without `its` rounding." in text
    assert "**Why it matters:** x \\* y becomes another number." in text


def test_docs_rules_md_is_fresh() -> None:
    written = (ROOT / "docs/rules.md").read_text(encoding="utf-8")
    assert written == whole_document(), f"docs/rules.md is not what the rules say; run `{COMMAND}`"
