"""The page of the example in a real browser: it loads whole, asks for nothing, says the figures.

Needs a Chromium, which `apt-get install chromium` brings; LASTBIT_BROWSER names one elsewhere.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from browser import browser, opened

from lastbit.lint import lint_plans
from lastbit.report.html import render
from lastbit.report.words import number, percent

EXAMPLE = Path(__file__).parents[2] / "examples/qwen3_8b_ffn.toml"
LOOKS = [(1280, False), (1280, True), (390, False), (390, True)]

pytestmark = pytest.mark.skipif(browser() is None, reason="no Chromium is installed")


@pytest.fixture(scope="module")
def result():
    return lint_plans([str(EXAMPLE)])


@pytest.fixture(scope="module")
def file(result, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(result), encoding="utf-8")
    return path


@pytest.fixture
def page(file):
    with opened(browser()) as opened_page:
        opened_page.look(1280)
        opened_page.load(file)
        yield opened_page


def texts(page, selector: str) -> list[str]:
    script = f"[...document.querySelectorAll({selector!r})].map(e => e.innerText.trim())"
    return page.value(script)


def test_it_loads_without_a_complaint_and_asks_for_nothing_wide_and_narrow_light_and_dark(
    page, file, tmp_path
):
    # A folder that is named keeps the screenshots, for people.
    folder = Path(os.environ.get("LASTBIT_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    grounds, files = [], []
    for width, dark in LOOKS:
        page.look(width, 900, dark)
        page.load(file)
        wide = page.value("document.documentElement.scrollWidth")
        assert wide == width, "the page is wider than its window"
        ground = page.value("getComputedStyle(document.body).backgroundColor")
        grounds.append(sum(map(int, ground.removeprefix("rgb(").rstrip(")").split(","))))
        files.append(folder / f"page-{width}-{'dark' if dark else 'light'}.png")
        page.shoot(files[-1])
    assert page.complaints == []
    assert set(page.requests) == {file.as_uri()}
    assert [ground > 3 * 128 for ground in grounds] == [True, False, True, False]
    shots = [shot.read_bytes() for shot in files]
    assert len(set(shots)) == len(LOOKS)
    for shot, (width, _) in zip(shots, LOOKS, strict=True):
        assert shot[:8] == b"\x89PNG\r\n\x1a\n"
        assert int.from_bytes(shot[16:20], "big") == width
        assert len(shot) > 20_000, "an empty window takes less"


def test_the_figures_read_back_from_the_page_are_those_of_the_result(page, result):
    decided, total = result.decided
    (headline,) = texts(page, "h1")
    failing = {f.step for f in result.findings if f.severity == "error"}
    assert headline == f"Decided {decided} of {total} steps; {len(failing)} fail"
    rows = texts(page, ".glance tr")[1:]
    for row, step in zip(rows, result.steps, strict=True):
        assert step.change in row
        assert ("fails" in row) == (step.id in failing)
        if step.drift is not None:
            assert percent(step.drift.share) in row
            assert f"{number(step.drift.max_ulp_at_scale)} {step.drift.format}" in row
        if step.cost is not None:
            assert str(step.cost.launches[1]) in row
    cards = texts(page, "article")
    assert len(cards) == len(result.verdicts)
    for card, verdict in zip(cards, result.verdicts, strict=True):
        assert verdict.change in card
    for identity, step in enumerate(result.steps, 1):
        if step.witness is not None and step.id in failing:
            shown = "".join(texts(page, f"#s{identity} .bits"))
            assert step.witness.before[0] in shown
            assert step.witness.after[0] in shown
            bits = "".join(texts(page, f"#s{identity} .bits td.m:nth-of-type(2)")[:1])
            assert int(bits.replace(" ", ""), 2) == int(step.witness.before[0], 16)
    messages = " ".join(texts(page, "main")).split()
    for finding in result.findings:
        if finding.severity == "error":
            *_, last = finding.message.replace("`", "").split()
            assert last in messages


def test_trees_end_in_different_sums_where_the_witness_says_so(page):
    ends = page.value("[...document.querySelectorAll('.tree .v')].map(e => e.textContent)")
    assert ends
    assert len(ends) % 2 == 0
    assert all(a != b for a, b in zip(ends[::2], ends[1::2], strict=True))


def test_steps_can_be_filtered_and_links_open_what_they_point_at(page, result):
    shown = "[...document.querySelectorAll('article:not([hidden])')].length"
    page.value("document.querySelector('[data-s=math]').click()")
    assert page.value(shown) == sum(v.change == "math" for v in result.verdicts)
    page.value("document.querySelector('[data-s=all]').click()")
    assert page.value(shown) == len(result.verdicts)
    opened_now = "document.querySelector('#s1 details').open"
    assert page.value(opened_now) is False
    page.value("document.querySelector('.glance a[href=\"#s1\"]').click()")
    for _ in range(50):
        if page.value(opened_now):
            break
    assert page.value(opened_now) is True


def test_it_can_be_used_by_keyboard(page):
    focused = "document.activeElement.className || document.activeElement.tagName"
    page.press("Tab")
    assert page.value(focused) == "skip"
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.value(outline) == "solid"
    page.value("document.querySelector('#s1 summary').focus()")
    page.press("Enter")
    assert page.value("document.querySelector('#s1 details').open") is True


def test_without_scripts_all_is_there_and_no_dead_button(page, file, result):
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.load(file)
    page.call("Emulation.setScriptExecutionDisabled", value=False)
    assert len(texts(page, "article")) == len(result.verdicts)
    assert page.value("getComputedStyle(document.getElementById('filter')).display") == "none"


def test_on_paper_every_step_is_open(page, result):
    page.look(800, media="print")
    heights = page.value(
        "[...document.querySelectorAll('article .body')].map(e => e.getBoundingClientRect().height)"
    )
    assert len(heights) == len(result.verdicts)
    assert all(height > 0 for height in heights)
