"""Results whose names and messages hold what could break a format, and many findings."""

from pathlib import Path

from lastbit.result import Finding, Location, Region, Result, Step, read_result

SAMPLE_PATH = str(Path(__file__).parent / "data/lint_sample.json")
SAMPLE = read_result(SAMPLE_PATH)

# What ends a line, a cell, a span, a command, a property, a section of XML or a terminal's command;
# what HTML, Markdown, SARIF and GitHub would take for their own; other scripts; half a pair.
NASTY = (
    "a|b `c`` ]]> </details> <script> &amp; %0A ::error:: x,y:z \\| \n# h\r\n\t* {0} [l](http://x) "
    "@team \x00\x1b[31m\x7f\x85 \u2028 \u202e ä 中 😀 \ud800 \ufffe end"
)
# The same where each unsafe character is its number.
SHOWN = (
    "a|b `c`` ]]> </details> <script> &amp; %0A ::error:: x,y:z \\| \n# h\n\t* {0} [l](http://x) "
    "@team \\x00\\x1b[31m\\x7f\\x85 \\u2028 \\u202e ä 中 😀 \\ud800 \\ufffe end"
)
ONE_LINE = " ".join(SHOWN.split())


def nasty() -> Result:
    """Return a result in which every text is hostile."""
    place = Location(f"{NASTY}.toml", 3, 4)
    steps = [
        Step(NASTY, NASTY, place, "rounding", at=(NASTY,), rule=NASTY, code="FUS102"),
        Step("kept", NASTY, place, "grid", allowed=True, allow_reason=NASTY, notes=(NASTY,)),
    ]
    regions = [Region("region", place, (NASTY,), (NASTY, "kept"), "math")]
    findings = [
        Finding("FUS102", "error", NASTY, place, step=NASTY),
        Finding("QNT303", "note", f"{NASTY}; allowed: {NASTY}", place, step="kept"),
        Finding("FUS100", "error", NASTY, place, step="region"),
        Finding("DOM301", "error", NASTY, Location(place.file)),
        Finding("DOM301", "warning", NASTY, place),
        Finding(NASTY, "error", NASTY, place),
    ]
    return Result.of("lint", steps, findings, {"lastbit": "0.1.0", NASTY: NASTY}, regions)


def many(count: int, severity: str = "error", message: str = "it is so") -> Result:
    """Return a result with a number of steps, each with one finding."""
    steps, findings = [], []
    for n in range(count):
        place = Location("p.toml", n + 1)
        steps.append(Step(f"v{n}.drop", "a sentence", place, "rounding", (f"v{n}",), "drop"))
        findings.append(Finding("FUS102", severity, message, place, f"v{n}.drop"))
    return Result.of("lint", steps, findings, {})
