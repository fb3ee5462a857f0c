"""The page says what a result holds, escapes it and loads nothing; equal results, equal bytes."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from pages import contrast, read, variables

from lastbit.report.html import render
from lastbit.report.page.escape import escaped, prose
from lastbit.result import (
    Drift,
    Finding,
    Location,
    Program,
    Promise,
    Result,
    Step,
    Witness,
    WitnessInput,
    from_json,
    read_result,
    to_json,
)

SAMPLE = read_result(str(Path(__file__).parents[1] / "data/lint_sample.json"))
PAGE = render(SAMPLE)
ROOT = read(PAGE)
PLAN = Location("plan.toml", 3)
HOSTILE = "<script>alert('x')</script><img src=x onerror=\"y\">&amp;\x00\x1b[31m\u202e`'\"\r\ud800"


def test_the_headline_says_what_was_decided_and_what_fails():
    assert ROOT.one("h1").text == "Decided 3 of 4 steps; 1 fails"
    header = ROOT.one("header").text
    assert "2 reassociation 1 rounding 1 unknown" in header
    assert "3 findings, 1 error" in header


def test_what_fails_is_listed_with_its_step_and_the_reason():
    section = ROOT.one("section", **{"aria-labelledby": "h1"})
    (row,) = section.all("tr")[1:]
    assert row.text == (
        "drop-rounding at t FUS102 rounding rounding exceeds the budget reassociation plan.toml:58"
    )
    assert row.one("a").attributes["href"] == "#s1"


def test_every_step_has_a_row_and_a_card():
    rows = ROOT.one("table", class_="glance").all("tr")[1:]
    assert [row.one("th").text for row in rows] == [
        "drop-rounding at t :58",
        "split-k at g :31",
        "split-k at g2, u2 :40",
        "difference",
    ]
    cards = ROOT.all("article")
    assert [card.attributes["id"] for card in cards] == ["s1", "s2", "s3", "s4", "r1"]
    assert [card.attributes["data-k"] for card in cards[:4]] == [s.change for s in SAMPLE.steps]


def test_a_card_says_all_that_is_known():
    card = ROOT.one("article", id="s1")
    for text in (
        "t = round(silu(g), bf16) no longer happens before z",
        "27.4 % of elements differ, up to 1 ulp of bf16 at scale, 1 ulp of the result",
        "2^20 of 12,582,912 elements",
        "normal(0, 1); seed 0",
        "after; mean error 0.98 \u2192 0.5 ulp at scale",
        "layout-invariant not decided not decided no layout is given",
        "bytes moved 120 \u2192 72 MiB",
        "launches 2 \u2192 1",
        "torch rounds silu once",
        "allows reassociation, 2 ulp of bf16 at scale; demands batch-invariant",
        "error FUS102",
        "t.drop-rounding",
    ):
        assert text in card.text
    other = ROOT.one("article", id="s2").text
    assert "at most 1e-06 times the sum of absolute terms (cancellation)" in other
    assert "n takes 3 values over M in [1, 8192]" in other
    assert "allowed reviewed, within one ulp on the captured prompts" in other
    assert "no difference found on 4,096 inputs" in ROOT.one("article", id="s4").text


def test_only_what_fails_is_open():
    cards = ROOT.all("article")
    open_ = [card.attributes["id"] for card in cards if "open" in card.one("details").attributes]
    assert open_ == ["s1"]


def test_a_repeated_verdict_links_to_the_first():
    card = ROOT.one("article", id="s3")
    assert [a.attributes["href"] for a in card.all("a")] == ["#s2"]
    assert [a.attributes["href"] for a in ROOT.one("article", id="r1").all("a")] == [
        "#s1",
        "#s2",
        "#s3",
        "#s1",
    ]


def test_the_environment_is_told():
    footer = ROOT.one("footer").text
    assert all(f"{name} {value}" in footer for name, value in SAMPLE.environment.items())


def test_equal_results_give_equal_bytes():
    assert render(from_json(to_json(SAMPLE))) == PAGE
    assert PAGE.endswith("</html>\n")


def test_nothing_is_loaded():
    outside = r"https?:|//|url\(|@import|srcset|\bsrc\s*=|<iframe|<object|<embed|fetch|XMLHttp"
    body = PAGE[PAGE.index("<body>") :]
    assert not re.search(outside, re.sub(r"<script>.*?</script>", "", body, flags=re.S))
    assert not re.search(outside, "".join(e.text for e in ROOT.all("style")))
    assert not re.search(outside, ROOT.one("script").text)
    addresses = {e.attributes["href"][:1] for e in ROOT.all() if "href" in e.attributes}
    assert addresses == {"#", "d"}
    assert ROOT.one("link").attributes["href"] == "data:,"
    policy = ROOT.one("meta", **{"http-equiv": "Content-Security-Policy"}).attributes["content"]
    assert policy.startswith("default-src 'none'")


def test_every_link_has_its_anchor_and_no_anchor_is_twice():
    anchors = [e.attributes["id"] for e in ROOT.all() if "id" in e.attributes]
    assert len(anchors) == len(set(anchors))
    links = {e.attributes["href"][1:] for e in ROOT.all("a")}
    assert links <= set(anchors)
    named = [e.attributes.get("aria-labelledby") for e in ROOT.all()]
    labels = {name for name in named if name}
    assert labels <= set(anchors)


def test_the_page_reads_by_landmarks_headings_and_captions():
    assert ROOT.one("html").attributes["lang"] == "en"
    for name in ("header", "main", "footer", "h1", "title"):
        assert ROOT.one(name).text
    levels = [int(e.tag[1]) for e in ROOT.all() if re.fullmatch("h[1-6]", e.tag)]
    assert all(b <= a + 1 for a, b in pairwise(levels))
    assert all(table.one("caption").text for table in ROOT.all("table"))
    assert all("scope" in cell.attributes for cell in ROOT.all("th"))
    assert all(details.children[0].tag == "summary" for details in ROOT.all("details"))
    body = ROOT.one("body")
    for svg in body.all("svg"):
        described = svg.attributes.get("aria-label") or svg.attributes.get("aria-hidden")
        assert described or not svg.all("text")
    for box in ROOT.all(tabindex="0"):
        assert box.attributes["role"] == "group"
        assert box.attributes["aria-label"]


def test_every_text_stands_out_from_every_ground_in_light_and_dark():
    style = ROOT.one("style").children[0]
    texts = [
        "ink",
        "dim",
        "link",
        "bitwise",
        "reassociation",
        "rounding",
        "grid",
        "math",
        "unknown",
    ]
    for colors in variables(style):
        for ground in ("paper", "panel", "wash"):
            for name in texts:
                assert contrast(colors[name], colors[ground]) >= 4.5, (name, ground)
        assert contrast(colors["ink"], colors["mark"]) >= 7
        for name in ("accent", "bar"):
            assert contrast(colors[name], colors["panel"]) >= (3 if name == "accent" else 1.9)


def hostile(text: str = HOSTILE) -> Result:
    """Return a result each of whose texts is hostile."""
    program = Program(f"x: f32[1]\n{text}", text)
    given = WitnessInput(text, (1,), ("0x1.0p+0",))
    witness = Witness("math", {text: given}, (text,), ("0x3f44",), text, program, "REAL", text)
    drift = Drift(text, 0.5, 1.0, 1.0, 0.0, 0.5, (4, 4), text, output=text)
    step = Step(
        text,
        text,
        Location(text, 3),
        "math",
        at=(text,),
        rule=text,
        code=text,
        promises={"deterministic": Promise(True, False, text)},
        drift=drift,
        witness=witness,
        notes=(text,),
        allow_reason=text,
    )
    finding = Finding(text, "error", text, Location(text, 3), text)
    loose = Finding(text, "warning", text, Location(text))
    return Result.of(text, [step], [finding, loose], {text: text})


def test_a_hostile_text_is_no_markup_anywhere():
    page = render(hostile())
    tags = [element.tag for element in read(page).all()]
    harmless = [element.tag for element in read(render(hostile("harmless"))).all()]
    assert [t for t in tags if t != "code"] == [t for t in harmless if t != "code"]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;" in page
    names = {name for element in read(page).all() for name in element.attributes}
    assert not [name for name in names if name.startswith("on")]


def test_no_hidden_character_reaches_the_page_and_each_is_shown():
    page = render(hostile())
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", page)
    assert "\u2400\u241b[31m[U+202E]" in page
    assert "\u240d[U+D800]" in page
    page.encode("utf-8")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
        ("\"'", "&quot;&#39;"),
        ("\x7f\u2066\ufeff", "\u2421[U+2066][U+FEFF]"),
        ("a\n\tb", "a\n\tb"),
        (7, "7"),
    ],
)
def test_a_text_is_escaped(given, shown):
    assert escaped(given) == shown


def test_backticks_become_code_and_arrows_arrows():
    assert prose("`a<b` -> `c`, ` alone") == ("<code>a&lt;b</code> \u2192 <code>c</code>, ` alone")


def test_a_result_without_steps_is_a_page_too():
    root = read(render(Result.of("lint", [], [], {})))
    assert root.one("h1").text == "Decided 0 of no steps; nothing was judged"
    assert root.all("article") == []


def test_what_is_clean_says_so():
    step = Step("g.x", "`g` stays", PLAN, "bitwise", at=("g",), rule="x")
    root = read(render(Result.of("lint", [step], [], {})))
    assert root.one("h1").text == "Decided 1 of 1 step; none fails"
    assert "What fails" not in root.one("main").text
    assert "without a budget only math, unknown and new non-finite results fail" in root.text


def test_findings_outside_of_steps_are_counted_and_listed():
    step = Step("g.x", "`g` stays", PLAN, "bitwise", at=("g",), rule="x")
    finding = Finding("DOM301", "error", "`s` has no floor", PLAN)
    root = read(render(Result.of("lint", [step], [finding], {})))
    assert root.one("h1").text == "Decided 1 of 1 step; 1 error outside of steps"
    assert "s has no floor" in root.one("main").text


def test_a_file_of_another_version_is_drawn_as_far_as_it_is_understood():
    document = json.loads(json.dumps(to_json(SAMPLE)))
    for step in document["steps"]:
        if step["witness"]:
            step["witness"]["program"] = {"before": "no program", "after": "x: f32[2]\n"}
    root = read(render(from_json(document)))
    assert "no program" in {pre.text for pre in root.all("pre")}


def test_sizes_that_would_take_hours_are_not_computed():
    lines = ["x: f32[2]"] + [
        f"a{i}: f32 = {'x' if i == 0 else f'a{i - 1}'} * {'x' if i == 0 else f'a{i - 1}'}"
        for i in range(30)
    ]
    texts = [
        "\n".join([*lines, f"y: f32 = sum(a29, axis=0) acc f32 {schedule}", "return y\n"])
        for schedule in ("seq", "pairwise(1)")
    ]
    given = WitnessInput("f32", (2,), ("0x1.8p+0", "0x1.8p+0"))
    witness = Witness(
        "reassociation", {"x": given}, ("0x00000000",), ("0x00000001",), "f32", Program(*texts)
    )
    step = Step("y.x", "`y`", PLAN, "reassociation", at=("y",), rule="x", witness=witness)
    root = read(render(Result.of("lint", [step], [], {})))
    trees = root.all("svg", class_="tree")
    assert [tree.attributes["aria-label"] for tree in trees] == [
        "Tree before: 2 terms, result not computed",
        "Tree after: 2 terms, result not computed",
    ]
