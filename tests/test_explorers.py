"""What every explorer of the book's pages keeps to, whatever it shows.

What each of them computes is tested in test_NAME_explorer.py.
"""

from __future__ import annotations

import re

import pytest

from _support_browser import frames
from _support_explorer import WEB, explorer_opener

pytestmark = pytest.mark.xdist_group("browser")
MOUNT = ".bw-explorer"


def full_bijection(page):
    page.get_by_label("Keys and values, V").fill("20")
    page.get_by_label("keys with replacement").check()
    press(page, "next", 6)


def full_hmm(page):
    page.get_by_label("Symbols seen").fill("9")


def full_ladder(page):
    page.get_by_label("Keys and values, V").fill("10")
    page.get_by_label("keys with replacement").check()
    page.get_by_label("how often each token came").check()


def full_hazard(page):
    page.get_by_label("Hazard", exact=True).fill("0.02")
    page.get_by_label("Reliability", exact=True).fill("0.95")


def full_regression(page):
    press(page, "next", 5)


def full_machine(page):
    page.get_by_label("Task").select_option("bijection")
    page.get_by_label("Network", exact=True).select_option("transformer")
    page.wait_for_selector("[data-task=bijection][data-net=transformer]")
    page.get_by_label("contribution").check()
    for more in [*page.get_by_label("plus noise").all(), *page.get_by_text("Choose the pairs").all()]:  # where it has them
        more.click()
    page.get_by_label("Pairs", exact=True).fill("9")
    for part in ("0.3", "1.m"):
        page.locator(f".bw-node[data-part='{part}']").click()


def full_threekeys(page):
    page.get_by_label("Size of the step").fill("3.5")
    page.get_by_label("Score of key 2").fill("3.2")
    press(page, "next", 2)


def full_coin(page):
    page.get_by_label("the likeliest coin alone").check()
    press(page, "heads", 4)
    press(page, "tails", 3)


def full_em(page):
    page.get_by_label("Spread of the values").fill("1.5")
    page.get_by_label("Score of value 2").fill("3")
    page.get_by_label("C", exact=True).check()


def full_sources(page):
    page.get_by_label("Symbols read").fill("24")
    page.get_by_label("show which source speaks").check()


def full_threshold(page):
    page.get_by_label("attention", exact=True).check()
    page.get_by_label("Threshold", exact=True).fill("0.9")


def full_training(page):
    page.get_by_label("Updates", exact=True).fill("3")
    page.get_by_label("Pairs shown").fill("9")


# Every explorer, and how to make it as full as it gets.
FULL = {
    "bijection": full_bijection, "coin": full_coin,
    "em": full_em, "hazard": full_hazard, "hmm": full_hmm, "ladder": full_ladder, "machine": full_machine, "regression": full_regression,
    "sources": full_sources, "threekeys": full_threekeys, "threshold": full_threshold, "training": full_training,
}  # fmt: skip


def press(page, action: str, times: int) -> None:
    for _ in range(times):
        page.locator(f"[data-action={action}]").click()


# Words in drawings that meet each other or stick out of their drawing.
CROWDED = """() => [...document.querySelectorAll('.bw-explorer svg')].flatMap(svg => {
  const room = svg.getBoundingClientRect(), found = [];
  const words = [...svg.querySelectorAll('text')].map(e => [e.textContent, e.getBoundingClientRect()]).filter(([text]) => text.trim());
  words.forEach(([text, a], i) => {
    if (a.left < room.left - 1 || a.right > room.right + 1 || a.top < room.top - 1 || a.bottom > room.bottom + 1) found.push(`${text} sticks out`);
    for (const [other, b] of words.slice(i + 1)) {
      const [x, y] = [Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)];
      if (x > 1 && y > 3) found.push(`${text} meets ${other}`);
    }
  });
  return found;
})"""
WITH = {"machine": "data-map data-ways"}  # what it may have besides
# What an explorer that opens with something to see says at first.
OPENS = {"bijection": "After 3 pairs", "hmm": "After 5 symbols", "regression": "After 3 points", "coin": "After 5 tosses", "sources": "After 6 symbols", "machine": "after 5 pairs"}


@pytest.mark.parametrize("name", sorted(FULL))
def test_its_words_can_be_read_on_a_phone_and_there_is_something_to_see(name, browser, tmp_path):
    """As it opens on a page, and as full as it gets."""
    with explorer_opener(name, browser, tmp_path) as opened:
        page = opened(width=390, opens=None, attributes=WITH.get(name, ""))
        status = page.locator(f"{MOUNT} [role=status]").first.text_content()
        assert OPENS.get(name, "") in status
        assert page.evaluate(CROWDED) == []
        if name == "threekeys":  # no name lies under the handle, wherever that is put
            for across in ("1", "-1", "2.5"):
                page.get_by_label("Error, across").fill(across)
                assert page.evaluate(CROWDED) == [], across
        FULL[name](page)
        assert page.evaluate(CROWDED) == []


@pytest.fixture(params=sorted(FULL))
def name(request):
    return request.param


@pytest.fixture
def open_page(name, browser, tmp_path):
    with explorer_opener(name, browser, tmp_path) as opened:
        yield opened


def test_every_explorer_is_here():
    assert {path.name.split("_explorer")[0] for path in WEB.glob("*_explorer.js")} == {*FULL, "ledger"}  # the ledger's grid is nothing without its page: test_ledger_grid


INKS = """['svg[role=img] text', '.bw-exact', '.bw-bar'].map(name => document.querySelector(name)).filter(e => e).map(getComputedStyle)
  .map(style => style.stroke === 'none' ? style.fill : style.stroke)"""  # of words, and of what is exact
NARROWER = "w => document.querySelector('svg[role=img]:last-of-type').clientWidth < w"


def is_accessible_and_fits(page, width: int) -> None:
    """axe says nothing, buttons are large enough, drawings have words with numbers, nothing sticks out."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    rules = page.evaluate(
        "axe.run(document, {preload: false}).then(r => r.violations.map(v => v.id + ' ' + v.nodes[0].html))"
    )
    assert rules == []
    for button in page.locator("button:visible").all():
        box = button.bounding_box()
        assert min(box["width"], box["height"]) >= 24  # WCAG 2.5.8
    labels = page.eval_on_selector_all("svg[role=img]", "all => all.map(s => s.getAttribute('aria-label'))")
    assert len(labels) >= 2 and all(re.search(r"\d", label) for label in labels)


def test_it_is_accessible_wide_and_narrow_light_and_dark(open_page, name):
    """As full as it gets, a live region having told so in words; it follows the page's width and colours."""
    from axe_playwright_python.base import AXE_SCRIPT

    page = open_page("light", 1280)
    assert page.locator(MOUNT).get_attribute("role") == "group"
    assert page.locator(MOUNT).get_attribute("aria-label").endswith("explorer")
    status = page.locator("[role=status][aria-live=polite]")
    before = status.text_content()
    FULL[name](page)
    assert re.search(r"\d", before) and status.text_content() != before
    page.evaluate(AXE_SCRIPT)
    wide = page.locator("svg[role=img]").last.bounding_box()["width"]
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 900})
        if width < 1280:
            page.wait_for_function(NARROWER, arg=wide)
        inks = []
        for theme in ("light", "dark"):
            page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
            frames(page, 3)
            is_accessible_and_fits(page, width)
            inks.append(page.evaluate(INKS))
        assert all(light != dark for light, dark in zip(*inks, strict=True)), "dark and light look alike"


def test_the_keyboard_reaches_and_moves_every_control(open_page):
    """With Tab alone, and the one that has the focus can be seen; a group of radios is one stop."""
    page = open_page()
    stops = page.locator(MOUNT).evaluate("""root => [...root.querySelectorAll('input, button, select, [role=button][tabindex="0"]')]
      .filter(e => !e.disabled && (e.type !== 'radio' || e.checked)).map((e, i) => e.dataset.stop = String(i))""")
    page.locator("[data-stop='0']").focus()
    for stop in stops:
        assert page.evaluate("document.activeElement.dataset.stop") == stop
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("Tab")
    assert len(stops) >= 4
    arrow_keys_move_every_slider(page)


def arrow_keys_move_every_slider(page) -> None:
    """And the number beside it and the live region tell."""
    sliders = page.locator("input[type=range]:enabled").all()
    for slider in sliders:
        page.evaluate("e => e.scrollIntoView()", slider.element_handle())
        slider.focus()
        status, value = page.locator("[role=status]").text_content(), slider.input_value()
        page.keyboard.press("ArrowRight")
        if slider.input_value() == value:  # it stood at its end
            page.keyboard.press("ArrowLeft")
        assert slider.input_value() != value
        told = page.locator("[role=status]").text_content()
        shown = slider.evaluate("e => e.parentElement.querySelector('output').textContent")
        # A slider whose places are not the numbers they stand for says the number in words.
        stands_for = (slider.get_attribute("aria-valuetext") or slider.input_value()).split()[0]
        assert float(shown.split()[0].replace("\u2212", "-")) == float(stands_for.replace("\u2212", "-"))
        assert told and (told != status or "window" in slider.get_attribute("id"))  # nothing seen yet
    assert sliders


def test_without_javascript_a_sentence_stands_there(open_page, name):
    page = open_page(java_script_enabled=False)
    assert page.locator(MOUNT).bounding_box()["height"] > 40
    assert "It needs JavaScript" in (WEB / f"{name}_explorer.css").read_text("utf-8")


def test_a_failure_is_told_on_the_page(browser, tmp_path):
    """An explorer that cannot start says so where it stands, and the error is not swallowed."""
    script = (WEB / "hazard_explorer.js").read_text("utf-8")
    assert script.count("function mount(root, id) {") == 1
    with pytest.raises(AssertionError, match="no ruler"), explorer_opener("hazard", browser, tmp_path) as opened:
        broken = script.replace("function mount(root, id) {", 'function mount(root, id) { throw new Error("no ruler");')
        (tmp_path / "hazard_explorer.js").write_text(broken, "utf-8")
        words = opened().locator(MOUNT).text_content()
    assert words == "The explorer could not start: no ruler"


@pytest.mark.parametrize("file", sorted(path.name for path in WEB.glob("*explorer.*")))
def test_it_asks_for_nothing_outside_itself(file):
    text = (WEB / file).read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    text = re.sub(r"url\(#\$\{clip\}\)", "", re.sub(r"//[^\n]*", "", text))
    assert not re.search(r"https?:|//\w|\bimport\b|\bfetch\b|url\(", text)
