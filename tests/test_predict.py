"""Predictions: a bet before the answer, told in bits, kept in the browser alone, and never in the way without scripts."""

from __future__ import annotations

import io
import json
import math
import re
import subprocess
import sys

import numpy as np
import pytest
from _support import ROOT, pages
from _support_browser import SIZES, reading
from bs4 import BeautifulSoup
from pypdf import PdfReader

pytestmark = pytest.mark.xdist_group("browser")
PAGE, OTHER = "chapters/02_tunnel.html", "chapters/05_filtering.html"
SPREADS = (0.2, 0.08, 0.025)  # of "a guess", "fairly sure", "very sure"


def price(at: float, spread: float, truth: float, low: float, high: float, step: float) -> float:
    """Bits that a bet pays, as predict.js has it: a bell on the slider's grid and 2 % spread evenly."""
    grid = np.arange(low, high + step / 2, step)
    bell = np.exp(-0.5 * ((grid - at) / (spread * (high - low))) ** 2)
    share = 0.98 * bell / bell.sum() + 0.02 / len(grid)
    return -math.log2(share[int(np.argmin(np.abs(grid - truth)))])


@pytest.fixture
def reader(browser, home):
    with reading(browser, home, PAGE) as opened:
        yield opened


def box(reader, name: str):
    found = reader.page.locator(f"#predict-{name}")
    found.scroll_into_view_if_needed()
    return found


def result(found) -> str:
    return found.locator(".bw-predict-result").inner_text()


@pytest.mark.parametrize("sure", range(3))
def test_a_number_costs_what_the_formula_says(reader, sure):
    found = box(reader, "ch2-half-way")
    found.locator("input[type=range]").fill("70")
    found.locator("input[type=radio]").nth(sure).check()
    found.get_by_role("button", name="Place the bet").click()
    said, truth, paid, evenly = (float(number) for number in re.findall(r"\d+(?:\.\d+)?", result(found)))
    assert said == 70 and truth == 77
    assert paid == pytest.approx(price(70, SPREADS[sure], truth, 0, 100, 1), abs=0.06)
    assert evenly == pytest.approx(math.log2(101), abs=0.06)
    assert found.locator("details").get_attribute("open") is not None


def test_a_choice_names_the_right_one_and_its_cost(reader):
    found = box(reader, "ch2-sawtooth")
    found.get_by_role("button", name="Place the bet").click()
    assert "Choose one first" in result(found)
    for words, share in (("less", 0.75), ("more", 0.125)):
        found.get_by_label(words, exact=True).check()
        found.get_by_role("button", name="Place the bet").click()
        assert result(found).startswith("Right." if words == "less" else "No: less.")
        assert float(re.search(r"cost ([\d.]+) bit", result(found))[1]) == pytest.approx(-math.log2(share), abs=0.06)
        assert "less" in found.locator(".bw-predict-right").inner_text()
        found.get_by_role("button", name="Bet again").click()


def test_a_curve_is_drawn_by_hand_and_by_keys(reader):
    found = box(reader, "ch2-staircase")
    found.get_by_role("button", name="Place the bet").click()
    assert "Draw a curve first" in result(found)
    frame = found.locator("svg").bounding_box()
    along = [(0.1, 0.25), (0.5, 0.4), (0.97, 0.8)]
    places = [(frame["x"] + x * frame["width"], frame["y"] + y * frame["height"]) for x, y in along]
    mouse = reader.page.mouse
    mouse.move(*places[0])
    mouse.down()
    for place in places[1:]:
        mouse.move(*place)  # fast: the points in between follow
    mouse.up()
    points = found.locator("circle")
    heights = [float(point.get_attribute("aria-valuenow")) for point in points.all()]
    assert len(heights) == 20 and len(set(heights)) > 15 and heights == sorted(heights, reverse=True)
    points.nth(19).press("ArrowDown")
    heights[19] = float(points.nth(19).get_attribute("aria-valuenow"))
    found.get_by_role("button", name="Place the bet").click()
    truth = np.log2(np.arange(20, 0, -1))
    off, flat = (float(number) for number in re.findall(r"(\d+(?:\.\d+)?) bits", result(found)))
    assert off == pytest.approx(np.abs(truth - heights).mean(), abs=0.02)
    assert flat == pytest.approx(np.abs(truth - 2.5).mean(), abs=0.02)
    points.nth(0).press("ArrowDown")
    assert float(points.nth(0).get_attribute("aria-valuenow")) == heights[0], "a bet that stands is changed"


def test_the_first_place_of_a_curve_may_be_another_than_zero(reader):
    reader.open(OTHER)
    points = box(reader, "ch5-memory").locator("circle")
    assert points.count() == 8
    assert points.first.get_attribute("aria-label").endswith(" 1") and points.last.get_attribute("aria-label").endswith(" 8")
    assert box(reader, "ch5-memory").locator("text").all_text_contents().count("8") == 1


def test_a_bet_is_kept_in_the_browser_until_it_is_taken_back(reader):
    found = box(reader, "ch2-half-way")
    found.locator("input[type=range]").fill("31")
    found.get_by_role("button", name="Place the bet").click()
    told = result(found)
    reader.page.reload()
    found = box(reader, "ch2-half-way")
    assert result(found) == told and found.locator("input[type=range]").input_value() == "31"
    found.get_by_role("button", name="Bet again").click()
    reader.page.reload()
    assert result(box(reader, "ch2-half-way")) == ""
    assert reader.page.evaluate("localStorage.length") == reader.page.evaluate("Object.keys(localStorage).filter(k => !k.startsWith('bw-predict')).length")


def test_the_answer_is_hidden_before_the_bet_and_there_without_a_script(browser, home):
    for script in (True, False):
        page = browser.new_context(java_script_enabled=script).new_page()
        page.goto(f"{home}/{PAGE}")
        found = page.locator("#predict-ch2-half-way")
        answer = found.locator("details")
        assert answer.is_visible() != script
        if not script:
            answer.locator("summary").click()
            assert "77 %" in answer.inner_text()
            assert not found.locator("button").count()
        page.context.close()


@pytest.mark.parametrize("size", ["desktop", "phone"])
@pytest.mark.parametrize("page", [PAGE, OTHER])
def test_the_mark_of_the_truth_stands_where_the_thumb_does(browser, home, page, size):
    """A click where the mark is brings the thumb there: it then has the value of the truth."""
    with reading(browser, home, page) as reader:
        reader.page.set_viewport_size(SIZES[size])
        sliders = reader.page.locator(".bw-predict[data-kind=number]").all()
        assert sliders
        for found in sliders:
            found.get_by_role("button", name="Place the bet").click()
            truth = float(re.search(r"it is (\d+)", result(found))[1])
            mark = found.locator(".bw-predict-mark").bounding_box()
            found.get_by_role("button", name="Bet again").click()
            assert not found.locator(".bw-predict-mark").count()
            slider = found.locator("input[type=range]")
            slider.evaluate("slider => { slider.step = 'any'; slider.scrollIntoView({block: 'center', behavior: 'instant'}); }")
            track = slider.bounding_box()
            at = mark["x"] + mark["width"] / 2
            reader.page.mouse.click(at, track["y"] + track["height"] / 2)
            value, low, high = slider.evaluate("slider => [slider.valueAsNumber, +slider.min, +slider.max]")
            assert abs(value - truth) * track["width"] / (high - low) < 2, f"{value} for {truth}"


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_the_numbers_beside_a_sketch_keep_clear_of_its_points(browser, home, size):
    with reading(browser, home, PAGE) as reader:
        for page in (PAGE, OTHER):
            reader.page.set_viewport_size(SIZES[size])
            reader.open(page)
            for sketch in reader.page.locator(".bw-predict svg").all():
                meet = sketch.evaluate("""svg => {
                  const [words, points] = ["text", "circle"].map(kind => [...svg.querySelectorAll(kind)].map(e => e.getBoundingClientRect()));
                  return words.filter(a => points.some(b => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)).length;
                }""")
                assert meet == 0


# What a reader finds at each block that a question covers: does it lie under a veil, can it be reached, how tall is it?
COVERED = """id => {
  const found = [];
  for (let block = document.getElementById(id); (block = block.nextElementSibling) && block.localName !== 'section';) {
    if (block.matches('.bw-predict, span, script')) continue;
    const veil = getComputedStyle(block, '::after');
    const whole = parseFloat(veil.width) >= block.clientWidth - 1 && parseFloat(veil.height) >= block.clientHeight - 1;
    const opaque = /^rgb\\(/.test(veil.backgroundColor) && veil.opacity === '1';
    const hides = block.checkVisibility() ? whole && opaque : true; // code is shown on demand
    found.push({covered: veil.content.includes('Covered') && hides, closed: block.inert});
  }
  return found;
}"""
PLACES = """() => {
  const article = document.querySelector('.bd-article'), top = article.getBoundingClientRect().top;
  return [article, ...article.querySelectorAll('section > *')].filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect()).map(r => [r.top - top, r.height].map(Math.round));
}"""


def covered(page, name: str) -> int:
    """How many blocks after a question are covered; the first ones, wholly, and out of reach."""
    found = page.evaluate(COVERED, f"predict-{name}")
    count = sum(block["covered"] for block in found)
    assert [block["covered"] for block in found] == [block["closed"] for block in found] == [i < count for i in range(len(found))]
    return count


@pytest.mark.parametrize("size", ["desktop", "phone"])
@pytest.mark.parametrize("page", [PAGE, OTHER])
def test_what_gives_an_answer_away_is_covered_and_keeps_its_place(browser, home, page, size):
    with reading(browser, home, page) as reader:
        reader.page.set_viewport_size(SIZES[size])
        boxes = reader.page.locator(".bw-predict[data-covers]").all()
        assert len(boxes) >= 3
        for found in boxes:
            asked = int(found.get_attribute("data-covers"))
            assert asked <= covered(reader.page, found.get_attribute("id").removeprefix("predict-")) <= 8
        before, words = reader.page.evaluate(PLACES), reader.page.locator(".bd-article").inner_text()
        for found in boxes:
            button = found.get_by_role("button", name="Show without a bet")
            if button.is_visible():  # it shows what two questions cover
                button.click()
        assert not reader.page.locator("[inert], .bw-covered").count()
        assert reader.page.evaluate(PLACES) == before
        assert words.replace("Show without a bet", "").split() == reader.page.locator(".bd-article").inner_text().split()


def heard(page) -> str:
    """What the browser tells those who hear the page."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")
    return " ".join(node.get("name", {}).get("value", "") for node in tree["nodes"] if not node["ignored"])


def test_a_bet_or_a_button_uncovers_and_the_browser_remembers(reader):
    reader.open(OTHER)
    found = box(reader, "ch5-border")
    assert covered(reader.page, "ch5-border") == 3 and "the divergence jumps from" not in heard(reader.page)
    found.get_by_role("radio").nth(1).check()
    found.get_by_role("button", name="Place the bet").click()
    assert covered(reader.page, "ch5-border") == 0 and covered(reader.page, "ch5-echo") == 3
    assert "the divergence jumps from" in heard(reader.page)
    box(reader, "ch5-echo").get_by_role("button", name="Show without a bet").click()
    reader.page.reload()
    assert covered(reader.page, "ch5-border") == covered(reader.page, "ch5-echo") == 0 < covered(reader.page, "ch5-memory")
    found = box(reader, "ch5-echo")
    assert result(found) == "" and found.get_by_role("button", name="Place the bet").is_visible()
    box(reader, "ch5-border").get_by_role("button", name="Bet again").click()
    assert covered(reader.page, "ch5-border") == 3


def test_what_two_questions_cover_waits_for_both(reader):
    assert covered(reader.page, "ch2-half-way") == covered(reader.page, "ch2-staircase") == 8
    box(reader, "ch2-half-way").get_by_role("button", name="Place the bet").click()
    assert covered(reader.page, "ch2-staircase") == 8
    box(reader, "ch2-half-way").get_by_role("button", name="Bet again").click()
    box(reader, "ch2-half-way").get_by_role("button", name="Show without a bet").click()
    assert covered(reader.page, "ch2-staircase") == 0


def test_a_link_to_what_is_covered_uncovers_it(reader):
    assert covered(reader.page, "ch2-staircase") == 8
    reader.page.evaluate("location.hash = 'thm-staircase'")
    reader.page.wait_for_function("() => !document.querySelector('#thm-staircase').inert")
    assert covered(reader.page, "ch2-staircase") == 0 < covered(reader.page, "ch2-sawtooth")
    reader.open(f"{OTHER}#fig-ch5-share")
    assert covered(reader.page, "ch5-echo") == 0 < covered(reader.page, "ch5-border")


def test_nothing_is_covered_without_a_script_or_on_paper(browser, home):
    for script in (True, False):
        page = browser.new_context(java_script_enabled=script).new_page()
        page.goto(f"{home}/{OTHER}")
        if script:
            page.emulate_media(media="print")
        else:
            assert not page.locator("[inert]").count()
        veils = [block["covered"] for block in page.evaluate(COVERED, "predict-ch5-border")]
        assert len(veils) > 3 and not any(veils)
        page.context.close()


def plain(text: str) -> str:
    """A text without its spaces and quotation marks, which a PDF sets as it likes."""
    return re.sub(r"[\s'\u2019\u2060-\u2064]+", "", text).lower()


def test_on_paper_every_answer_stands_on_a_sheet_behind_its_question(reader, site):
    reader.open(OTHER)
    sheets = [plain(sheet.extract_text()) for sheet in PdfReader(io.BytesIO(reader.page.pdf())).pages]
    first = next(i for i, sheet in enumerate(sheets) if plain("Answers to the predictions") in sheet)
    answers = "".join(sheets[first:])
    asked = BeautifulSoup((site / OTHER).read_text("utf-8"), "html.parser").select(".bw-predict")
    assert len(asked) == 4 and sheets[first].index(plain("Answers to the predictions")) < 20
    for prediction in asked:
        question = plain(prediction.select_one(".bw-predict-question").get_text())
        paragraphs = [plain(paragraph.get_text()) for paragraph in prediction.select(".bw-predict-answer p")]
        page = next(sheet for sheet in sheets if question in sheet)
        assert page not in sheets[first:] and plain("Answer: on the last page of the chapter") in page
        assert question + "".join(paragraphs) in answers
        assert not any(paragraph in page for paragraph in paragraphs if len(paragraph) > 20)


def test_a_search_does_not_give_answers_away(site):
    data = json.loads((site / "_static/sections.js").read_text("utf-8").removeprefix("var bwSections = ").rstrip(";\n"))
    told = " ".join(row[-1] for row in data["sections"])
    found = 0
    for path in pages(site):
        text = path.read_text("utf-8")
        for prediction in BeautifulSoup(text, "html.parser").select(".bw-predict") if "bw-predict-question" in text else []:
            question, why = (" ".join(prediction.select(kind)[-1].get_text().split()[:5]) for kind in (".bw-predict-question p", ".bw-predict-answer p"))
            assert question in told and why not in told
            found += 1
    assert found >= 7


@pytest.mark.parametrize("missing", ["name", "range", "answer", "kind"])
def test_a_prediction_that_lacks_something_stops_the_build(tmp_path, missing):
    options = {"name": "a", "kind": "number", "range": "0 1 0.1", "answer": "0.5"}
    options = options | {"kind": "guess"} if missing == "kind" else {name: value for name, value in options.items() if name != missing}
    (tmp_path / "conf.py").write_text(
        f"import sys; sys.path[:0] = [{str(ROOT / 'book/_ext')!r}]\nextensions = ['myst_parser', 'bayeswind_predict']\nhtml_theme = 'basic'\n"
    )
    lines = "\n".join(f":{name}: {value}" for name, value in options.items())
    (tmp_path / "index.md").write_text(f"# Tiny\n\n```{{predict}} How much?\n{lines}\n\nWhy.\n```\n")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", ".", "_build"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode and ("is none of" if missing == "kind" else f"needs {missing}") in done.stderr
