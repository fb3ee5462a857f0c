"""Markdown for a pull request: short, folded, and no name breaks a table or calls anybody."""

import re
from dataclasses import replace

import pytest
from hostile_results import NASTY, ONE_LINE, SAMPLE, SHOWN, many, nasty

from lastbit.report.markdown import MOST, render
from lastbit.report.prose import code, html, markdown
from lastbit.report.sarif_rules import fenced
from lastbit.result import Finding, Location, Result, Step

TABLE = """\
| step | place | change | drift | bytes moved | promises | verdict |
| --- | --- | --- | --- | --- | --- | --- |
| FUS102 drop-rounding at `t` | `plan.toml:58` | rounding | 27.4 %, 1 ulp of bf16 at scale | \
120 -> 72 MiB |  | **error** |
| RED201 split-k at `g` | `plan.toml:31:1` | reassociation + domain | \
&gt; 99.9 %, 2.25 ulp of f32 at scale |  | now deterministic, no longer batch-invariant | \
allowed: reviewed, within one ulp on the captured prompts |
| RED201 split-k at `g2`, `u2` | `plan.toml:40` | reassociation | as `g.split-k` |  |  | passes |
| difference | `after.toml` | unknown |  |  |  | undecided |
"""


def test_the_sample():
    report = render(SAMPLE)
    assert report.startswith(
        "### lastbit lint: 1 error\n\n"
        "decided 3 of 4 steps; 2 reassociation, 1 rounding, 1 unknown; "
        "2 findings (1 error, 1 note).\n\n"
        "- **FUS102** `plan.toml:58`: `rounding` exceeds the budget `reassociation`\n\n" + TABLE
    )
    assert (
        "- **DOM301** `after.toml:12`: the scale `s` is divided by without a floor (warning)\n"
        in report
    )
    folded = report[report.index("<details>") :]
    assert folded.startswith(
        "<details><summary>drop-rounding at <code>t</code>: rounding</summary>\n\n```text\n"
        "plan.toml:58  FUS102 drop-rounding at `t` (branch)  rounding\n"
        "    `t` = round(silu(g), bf16) no longer happens before `z`\n"
    )
    assert folded.count("<details>") == folded.count("\n</details>\n") == 5


def test_a_run_that_is_clean_is_a_few_lines():
    step = Step("a.b", "the same", Location("p.toml", 1), "bitwise", at=("a",), rule="b")
    assert render(Result.of("lint", [step], [], {})).splitlines() == [
        "### lastbit lint: nothing fails",
        "",
        "decided 1 of 1 step; 1 bitwise; no findings; "
        "without a budget only math, unknown and new non-finite results fail.",
        "",
        *TABLE.splitlines()[:2],
        "| b at `a` | `p.toml:1` | bitwise |  |  |  | passes |",
    ]


def test_a_cost_that_is_accepted_says_why():
    step = Step("a.b", "the same", Location("p.toml", 1), "bitwise", at=("a",), rule="b")
    found = Finding("COST701", "note", "moves more; allowed: once", step.location, "a.b")
    report = render(Result.of("lint", [step], [found], {}))
    assert report.startswith("### lastbit lint: nothing fails, 1 finding allowed\n")
    assert "| allowed: once |" in report


def test_a_step_whose_findings_were_not_selected_does_not_pass():
    step = replace(SAMPLE.steps[0], location=Location("p.toml", 1))
    assert "| ignored |" in render(Result.of("lint", [step], [], {}))
    assert "| **error** |" in render(replace(SAMPLE, steps=(step,)))


def _cells(row: str) -> list[str]:
    """Return the cells of a row of a table: a bar ends one, unless a backslash stands before it."""
    return re.split(r"(?<!\\)\|", row)[1:-1]


def test_hostile_texts_break_no_row_and_no_fold():
    report = render(nasty())
    lines = report.split("\n")
    head = lines.index(TABLE.splitlines()[0])
    rows = lines[head : head + 4]
    assert [len(_cells(row)) for row in rows] == [7] * 4
    assert lines[head + 4] == ""
    outside = re.sub(r"(?ms)^(`{3,})text$.*?^\1$", "", report)
    assert outside.count("<details>") == outside.count("</details>") == 3
    assert "<script>" not in outside
    assert not re.search(r"@\w", outside)
    spoken = re.sub(r"(?m)^<details>.*$", "", outside)  # Markdown is not read in these lines
    assert "](http" not in spoken.replace("\\](", "")
    assert SHOWN in report
    assert NASTY not in report
    assert all(c in "\t\n" or c >= " " for c in report)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("`a` is b_c", "`a` is b\\_c"),
        ("x | y < z & w", "x &#124; y &lt; z &amp; w"),
        ("*a* #1 [l](u) ~b~ $c$ !d", "\\*a\\* \\#1 \\[l\\](u) \\~b\\~ \\$c\\$ \\!d"),
        ("a ` b", "a \\` b"),
        ("`a|b`", "<code>a&#124;b</code>"),
        ("`a\\`", "<code>a&#92;</code>"),
        ("ask @team, a@ b", "ask @<!-- -->team, a@ b"),
        ("one\r\ntwo\tthree", "one two three"),
        ("中 ä", "中 ä"),
    ],
)
def test_text_is_shown_as_it_is(text, written):
    assert markdown(text) == written


def test_a_summary_is_html():
    assert html("`a<b` & *c*|d @e") == "<code>a&lt;b</code> &amp; *c*|d @<!-- -->e"
    assert code("x`y @z") == "<code>x&#96;y &#64;z</code>"


def test_a_fence_is_longer_than_any_inside():
    assert fenced("a\n````\nb\n") == "`````text\na\n````\nb\n`````"


def test_many_steps_are_a_short_table_that_says_what_is_left_out():
    result = many(60)
    others = [replace(step, id=f"{step.id}2", change="bitwise") for step in result.steps[:7]]
    report = render(Result.of("lint", [*others, *result.steps], result.findings, {}))
    rows = [line for line in report.splitlines() if line.startswith("| drop at")]
    assert len(rows) == 50
    assert all(row.endswith("| **error** |") for row in rows)
    assert "\n17 more steps (7 bitwise, 10 rounding); `--output json=FILE` writes all.\n" in report
    assert "\n- and 40 more that fail; `--output json=FILE` writes all\n" in report


@pytest.mark.parametrize("message", ["it is so", "|@`" * 5_000, ONE_LINE * 100])
def test_a_report_fits_into_a_comment_and_says_what_does_not(message):
    report = render(many(400, message=message))
    assert len(report) <= MOST + 200 < 65_536
    assert re.search(r"\n\d+ details left out, for which there is no room; `--output", report)


def test_long_names_fit_as_well():
    long = "|`@" * 2_000
    result = many(60, message=long)
    steps = [replace(s, at=(long,), rule=long, allow_reason=long) for s in result.steps]
    report = render(Result.of("lint", steps, result.findings, {}))
    assert len(report) < 65_536
    assert "more steps (" in report


def test_equal_results_give_equal_bytes():
    assert render(nasty()) == render(nasty())
