"""Predictions: a bet before the answer, told in bits, kept in the browser alone, and never in the way without scripts."""

from __future__ import annotations

import math
import re
import subprocess
import sys

import numpy as np
import pytest
from _support import ROOT
from _support_browser import reading

pytestmark = pytest.mark.xdist_group("browser")
PAGE = "chapters/02_tunnel.html"
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
    reader.open("chapters/05_filtering.html")
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
