"""The bijection explorer against the library."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from _support_explorer import CLEAR, explorer_opener, number

import bayeswind_lib as bw

pytestmark = pytest.mark.xdist_group("browser")
WITH_REPLACEMENT = "keys with replacement"
MOUNT = '.bw-explorer[data-explorer="bijection"]'


# ---- on the page --------------------------------------------------------------------------------


@pytest.fixture
def open_page(browser, tmp_path):
    with explorer_opener("bijection", browser, tmp_path) as opened:
        yield opened


def random_settings(count: int):
    """Random sizes, kinds, keys and values, as the tunnel itself draws them."""
    rng = torch.Generator().manual_seed(0)
    for i in range(count):
        n_values = int(torch.randint(2, 21, (), generator=rng))
        replacement = bool(i % 2)
        n_pairs = int(torch.randint(1, (2 if replacement else 1) * n_values + 1, (), generator=rng))
        tunnel = bw.tunnels.Bijection(n_values, n_pairs, replacement)
        latents = tunnel.sample(1, rng).latents
        yield n_values, latents["keys"], latents["values"]


def test_it_computes_what_the_library_computes(open_page):
    page = open_page()
    settings = list(random_settings(20))
    assert len({n for n, *_ in settings}) > 8
    for n_values, keys, values in settings:
        ours = bw.tunnels.bijection.posterior(keys, values, n_values)[0]
        theirs, bits = page.evaluate(
            "([k, v, n]) => { const p = bwBijection.posterior(k, v, n); return [p, p.map(bwBijection.entropy)]; }",
            [keys[0].tolist(), values[0].tolist(), n_values],
        )
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-12)
        np.testing.assert_allclose(bits, bw.scoring.entropy_bits(ours.log2()), rtol=0, atol=1e-12)


def set_size(page, value: int):
    page.get_by_label("Keys and values, V").fill(str(value))


def pairs_on(page) -> list[tuple[int, int]]:
    """The pairs that the page tells in words."""
    told = page.locator(".bw-pairs").first.text_content()
    return [(int(k), int(v)) for k, v in re.findall(r"(\d+) → (\d+)", told)]


def agrees_with_library(page, n_values: int) -> float:
    """Check bars, words and state of the page against the library; the entropy in bits."""
    pairs, root = pairs_on(page), page.locator(MOUNT).first
    key = int(root.locator(".bw-chip[aria-pressed=true]").text_content())
    keys = torch.tensor([[k for k, _ in pairs] + [key]])
    values = torch.tensor([[v for _, v in pairs] + [0]])
    truth = bw.tunnels.bijection.posterior(keys, values, n_values)[0, -1]
    entropy = abs(float(bw.scoring.entropy_bits(truth.log2())))
    status = root.locator("[role=status]").text_content()
    left = int((truth > 0).sum())
    assert f"{number(entropy)} bit" in status and f"{left} value" in status
    assert float(root.get_attribute("data-entropy")) == pytest.approx(entropy, abs=1e-12)
    heights = root.locator(".bw-bar").evaluate_all("bars => bars.map(b => b.style.visibility === 'hidden' ? 0 : parseFloat(b.style.height))")
    np.testing.assert_allclose(np.array(heights) / sum(heights), truth, atol=1e-3)
    open_chips = root.locator("[data-chip^=value]:not(:disabled)")
    assert [int(t) for t in open_chips.all_text_contents()] == torch.nonzero(truth)[:, 0].tolist()
    return entropy


def test_revealing_all_pairs_walks_down_the_staircase(open_page):
    page = open_page()
    set_size(page, 5)
    reveal, back = (
        page.get_by_role("button", name=name) for name in ("Reveal next pair", "Step back")
    )
    heights = []
    for _ in range(5):
        heights.append(agrees_with_library(page, 5))
        reveal.click()
    assert heights == pytest.approx([math.log2(5 - k) for k in range(5)])
    assert (
        reveal.is_disabled() and "nothing is left" in page.locator("[role=status]").text_content()
    )
    pairs = pairs_on(page)
    assert sorted(k for k, _ in pairs) == sorted(v for _, v in pairs) == list(range(5))
    for k in (4, 3, 2, 1, 0):
        back.click()
        assert agrees_with_library(page, 5) == pytest.approx(math.log2(5 - k))
    assert back.is_disabled() and pairs_on(page) == []


def test_replacement_makes_a_sawtooth_of_one_bijection(open_page):
    page = open_page()
    set_size(page, 4)
    page.get_by_label(WITH_REPLACEMENT).check()
    heights = []
    for _ in range(8):
        heights.append(agrees_with_library(page, 4))
        page.get_by_role("button", name="Reveal next pair").click()
    assert 0 in heights[:-1]
    mapping = dict(pairs_on(page))
    assert set(pairs_on(page)) == set(mapping.items()) and len(set(mapping.values())) == len(
        mapping
    )


def test_the_reader_chooses_key_and_value_by_keyboard(open_page):
    page = open_page()
    set_size(page, 7)
    page.locator("[data-chip='key 6']").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.chip") == "key 6"
    page.locator("[data-chip='value 2']").focus()
    page.keyboard.press("Space")
    assert pairs_on(page) == [(6, 2)]
    assert page.evaluate("document.activeElement.dataset.chip") == "value 3"  # 2 is used up
    page.keyboard.press("Enter")
    assert [v for _, v in pairs_on(page)] == [2, 3]
    assert page.locator("[data-chip='key 6']").is_disabled()
    assert page.locator("[data-chip='value 2']").get_attribute("aria-label") == "value 2, ruled out"
    agrees_with_library(page, 7)
    page.get_by_label(WITH_REPLACEMENT).check()
    for chip in ("key 5", "value 1", "key 5"):
        page.locator(f"[data-chip='{chip}']").click()
    assert "asked before, its value is 1" in page.locator("[role=status]").text_content()
    assert agrees_with_library(page, 7) == 0


def test_bars_can_be_clicked_and_a_new_episode_differs(open_page):
    page = open_page()
    page.locator(".bw-area").nth(8).click()
    assert pairs_on(page)[0][1] == 8
    page.locator(".bw-area").nth(8).click()  # ruled out now
    assert len(pairs_on(page)) == 1
    episodes = []
    for _ in range(2):
        page.get_by_role("button", name="New episode").click()
        for _ in range(4):
            page.get_by_role("button", name="Reveal next pair").click()
        episodes.append(pairs_on(page))
    assert episodes[0] != episodes[1]


def test_what_is_exact_is_dashed_and_motion_can_be_declined(open_page):
    read = "name => getComputedStyle(document.querySelector('.bw-bar'))[name]"
    light = open_page("light")
    assert light.evaluate(read, "strokeDasharray") != "none"
    assert light.evaluate(read, "transitionDuration") == "0.25s, 0.25s"
    still = open_page("light", reduced_motion="reduce")
    assert still.evaluate(read, "transitionDuration") == "0s"


def test_the_staircase_is_a_scrubber(open_page):
    """A mouse drags along it; a tap goes there; the finger may begin to scroll anywhere but at the point of now."""
    page = open_page(opens=3)
    stairs = page.locator(".bw-chart").last
    box = stairs.bounding_box()
    left, wide = box["x"] + 46, box["width"] - 46 - 12  # as frame() leaves room

    def at(pairs):
        return left + wide * (pairs + 0.5) / 10, box["y"] + box["height"] / 2

    page.mouse.move(*at(3))
    page.mouse.down()
    for pairs in (5, 8, 2):
        page.mouse.move(*at(pairs))
        assert page.locator(".bw-explorer").get_attribute("data-pairs") == str(pairs)
    page.mouse.up()
    page.mouse.move(*at(9))
    assert page.locator(".bw-explorer").get_attribute("data-pairs") == "2"
    page.mouse.click(*at(6))
    assert page.locator(".bw-explorer").get_attribute("data-pairs") == "6"
    assert float(page.locator(".bw-explorer").get_attribute("data-entropy")) == pytest.approx(2)
    assert page.evaluate("getSelection().toString()") == ""


def readout(page, chart: int) -> str:
    """What stands beside the pointer in a drawing: it covers no mark that it tells of, and does not leave the drawing."""
    box = page.locator(".bw-chart").nth(chart).locator(".bw-readout-box")
    if not box.count():
        return ""
    assert box.evaluate(CLEAR)
    return ", ".join(box.locator("text").all_text_contents())


def hover(page, chart: int, across: float, act=None):
    """Put the mouse (or another hand) at a share of a drawing's axis, which frame() sets off by 46 and 12 pixels."""
    box = page.locator(".bw-chart").nth(chart).bounding_box()
    (act or page.mouse.move)(box["x"] + 46 + (box["width"] - 58) * across, box["y"] + 60)


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 320)])
def test_values_stand_under_the_pointer(open_page, theme, width):
    page = open_page(theme, width, opens=6)
    taken = {value for _, value in pairs_on(page)}
    for value in range(10):
        hover(page, 0, (value + 0.5) / 10)
        assert readout(page, 0) == f"value {value}, " + ("ruled out" if value in taken else "probability 0.250")
    for k in range(7):
        hover(page, 1, (k + 0.5) / 10)
        assert readout(page, 1) == f"after {k} pair{'s' * (k != 1)}, {math.log2(10 - k):.3f} bits" and not readout(page, 0)
        mark = page.locator(".bw-chart").nth(1).locator("circle").nth(k).bounding_box()
        box = page.locator(".bw-readout-box").bounding_box()
        assert box["x"] > mark["x"] + mark["width"] or box["x"] + box["width"] < mark["x"] or (
            box["y"] > mark["y"] + mark["height"] or box["y"] + box["height"] < mark["y"])
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Step back").press("Enter")  # drawn anew under the pointer
    assert readout(page, 1) == f"after 5 pairs, {math.log2(5):.3f} bits"
    page.mouse.move(1, 1)
    assert not page.locator(".bw-readout-box").count()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_tap_shows_the_values_until_another(open_page):
    page = open_page("light", 390, opens=6, has_touch=True, is_mobile=True)
    hover(page, 1, 0.25, page.touchscreen.tap)
    assert readout(page, 1) == "after 2 pairs, 3.000 bits"
    assert page.locator(".bw-explorer").get_attribute("data-pairs") == "2"
    page.touchscreen.tap(5, 5)
    assert not page.locator(".bw-readout-box").count()
