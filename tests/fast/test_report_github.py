"""Annotations are escaped as GitHub's toolkit does, and nothing else begins a command."""

import re
from dataclasses import replace

import pytest
from hostile_results import SAMPLE, SHOWN, many, nasty

from lastbit.report.github import render
from lastbit.report.text import last_line
from lastbit.result import Finding, Location, Result

_COMMAND = re.compile(r"::(error|warning|notice) ([^:]*)::(.*)")


def _read(line: str) -> tuple[str, dict[str, str], str]:
    """Return level, properties and message of a command, as the runner reads them."""
    match = _COMMAND.fullmatch(line)
    assert match is not None, line
    pairs = dict(pair.split("=", 1) for pair in match[2].split(","))
    return match[1], {k: _plain(v) for k, v in pairs.items()}, _plain(match[3])


def _plain(text: str) -> str:
    for code, character in (("%3A", ":"), ("%2C", ","), ("%0A", "\n"), ("%0D", "\r")):
        text = text.replace(code, character)
    return text.replace("%25", "%")


def test_the_sample():
    assert render(SAMPLE) == (
        "::warning file=after.toml,line=12,title=DOM301::the scale `s` is divided by without a "
        "floor\n"
        "::notice file=plan.toml,line=31,title=RED201 split-k::allowed until 2027-06-30%0A"
        "the sum over H of `g` is cut into n pieces\n"
        "::error file=plan.toml,line=58,title=FUS102 drop-rounding::"
        "`rounding` exceeds the budget `reassociation`%0A"
        "`t` = round(silu(g), bf16) no longer happens before `z`\n"
        f"{last_line(SAMPLE)}\n"
    )


@pytest.mark.parametrize(
    ("place", "properties"),
    [
        (Location("a,b:c%.toml", 3, 4), "file=a%2Cb%3Ac%25.toml,line=3,col=4,title=FUS102"),
        (Location("a.toml", 3), "file=a.toml,line=3,title=FUS102"),
        (Location("a.toml"), "file=a.toml,title=FUS102"),
    ],
)
def test_properties_are_escaped_and_left_out_where_nothing_is_known(place, properties):
    found = Finding("FUS102", "error", "100 %: a, b\r\nc", place)
    line = render(Result.of("lint", [], [found], {})).splitlines()[0]
    assert line == f"::error {properties}::100 %25: a, b%0Ac"


def test_hostile_texts_come_back_as_they_were():
    result = nasty()
    lines = render(result).split("\n")
    assert len(lines) == len(result.findings) + 2
    for finding, line in zip(result.findings, lines[: len(result.findings)], strict=True):
        level, properties, message = _read(line)
        assert level == {"error": "error", "warning": "warning", "note": "notice"}[finding.severity]
        assert properties["file"] == f"{SHOWN}.toml"
        assert message.startswith(SHOWN)
    assert all(c == "\n" or c >= " " for c in render(result).replace("\t", " "))


def test_what_github_does_not_show_is_said():
    said = "GitHub shows 10 of these 11 errors; this log lists all.\n"
    assert render(many(11)).endswith(said)
    assert "GitHub" not in render(many(10))
    assert "11 notices" in render(many(11, "note"))


def test_a_long_message_says_how_much_is_cut():
    line = render(many(1, message="x" * 15_010)).splitlines()[0]
    assert line.endswith("x [21 characters cut]")  # with its step's sentence


def test_a_run_without_findings_gives_the_totals_only():
    result = replace(SAMPLE, findings=())
    assert render(result) == f"{last_line(result)}\n"


def test_equal_results_give_equal_bytes():
    assert render(nasty()) == render(nasty())
