"""Schematics: words that fit and do not meet, colours of the page alone, and both layouts measured in a browser."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import pytest

from bayeswind_lib.figures import schematics
from bayeswind_lib.figures.schematics.drawing import PALETTE, Drawing
from bayeswind_lib.figures.schematics.sheet import NARROW, WIDE, Sheet, drawing, index_size, runs, text_width
from _support_browser import chromium
from bayeswind_figures import layouts, numbers_in, words_in

SVG = "{http://www.w3.org/2000/svg}"
LEAST = 12  # pixels of the smallest letter, on a page of 390 pixels
COLUMN = 342  # what a page of 390 pixels leaves for a figure
COLOUR = re.compile(r"(?:^|; )(?:fill|stroke|background): ([^;]+)")
DRAWN = [(name, which) for name in schematics.__all__ for which in ("wide", "narrow")]


def svg_of(name: str, which: str) -> str:
    """One layout of a schematic."""
    return getattr(getattr(schematics, name)(), which)


def tidy(svg: str) -> str:
    """An SVG as a parser writes it."""
    return ElementTree.tostring(ElementTree.fromstring(svg), encoding="unicode")


def words_of(text: ElementTree.Element) -> str:
    """All that a text says."""
    return "".join(text.itertext())


def size_of(element: ElementTree.Element) -> float | None:
    """The size of letters that an element sets."""
    found = re.search(r"font-size: ([\d.]+)px", element.get("style", ""))
    return float(found[1]) if found else None


def estimated(text: ElementTree.Element) -> tuple[float, float, float, float]:
    """Left, top, right, bottom of a text in a wide font."""
    size, x, y = size_of(text), float(text.get("x")), float(text.get("y")) - 0.35 * size_of(text)
    width = text_width(text.text or "", size)
    for part in text:
        width += text_width(part.text or "", size_of(part) or size) + text_width(part.tail or "", size)
    left = x - {"start": 0, "middle": width / 2, "end": width}[text.get("text-anchor")]
    return left, y - size / 2, left + width, y + size / 2


def meet(a, b, room: float = 0.0) -> bool:
    """Whether two boxes (left, top, right, bottom) cover a place together."""
    return a[0] < b[2] - room and b[0] < a[2] - room and a[1] < b[3] - room and b[1] < a[3] - room


@pytest.mark.parametrize("name", schematics.__all__)
def test_what_a_notebook_and_a_page_get(name):
    found = getattr(schematics, name)()
    assert isinstance(found, Drawing) and len(found.title) < 50 and 80 < len(found.alt) < 500
    assert found._repr_mimebundle_() == {"image/svg+xml": found.svg, "text/plain": repr(found)}
    text = found.svg
    assert (words_in(text), numbers_in(text)) == (found.alt, "")
    assert layouts(text) == [tidy(found.wide), tidy(found.narrow)]
    again = getattr(schematics, name)()
    assert (again.svg, again.narrow) == (found.svg, found.narrow)


def test_every_schematic_is_public_and_has_its_own_words():
    made = [getattr(schematics, name)() for name in schematics.__all__]
    assert len(made) >= 16 and len({one.title for one in made}) == len({one.alt for one in made}) == len(made)
    assert all(getattr(schematics, name).__doc__ for name in schematics.__all__)


def test_a_drawing_is_saved_with_both_layouts(tmp_path):
    one = schematics.wind_tunnel()
    one.save(tmp_path / "one.svg")
    assert (tmp_path / "one.svg").read_text("utf-8").strip() == one.svg
    with pytest.raises(ValueError, match="alt is empty"):
        Drawing("title", " ", one.wide, one.narrow)


@pytest.mark.parametrize(("name", "which"), DRAWN)
def test_an_svg_is_an_image_with_words_and_the_pages_colours(name, which):
    root = ElementTree.fromstring(svg_of(name, which))
    width = WIDE if which == "wide" else NARROW
    assert (root.tag, root.get("role"), root.get("class")) == (f"{SVG}svg", "img", "bw-figure bw-schematic")
    assert root.get("aria-label") == getattr(schematics, name)().alt
    assert root.get("viewBox") == f"0 0 {width} {root.get('height')}" and root.get("width") == str(width) <= "640"
    for element in root.iter():
        assert not {"fill", "stroke", "id", "font-family"} & set(element.keys()), element.attrib
        assert set(COLOUR.findall(element.get("style", ""))) <= {*PALETTE.values(), "none"}, element.get("style")


@pytest.mark.parametrize(("name", "which"), DRAWN)
def test_words_are_large_enough_stay_inside_and_do_not_meet(name, which):
    root = ElementTree.fromstring(svg_of(name, which))
    width, height = float(root.get("width")), float(root.get("height"))
    texts = list(root.iter(f"{SVG}text"))
    sizes = [size for text in texts for element in text.iter() if (size := size_of(element))]
    assert texts and min(sizes) * (min(1, COLUMN / width) if which == "narrow" else 1) >= LEAST
    places = {n: estimated(text) for n, text in enumerate(texts)}
    for n, (left, top, right, bottom) in places.items():
        assert left >= 0 and top >= 0 and right <= width and bottom <= height, words_of(texts[n])
    for a, b in itertools.combinations(places, 2):
        assert not meet(places[a], places[b]), (words_of(texts[a]), words_of(texts[b]))


SIZES = {
    "bijection_layout": [2, 3], "hmm_layout": [2], "regression_layout": [1, 4], "hmm_chain": [2, 3], "attention_read": [3, 4],
    "elimination_heads": [4, 5], "coverage": [5], "coverage_staircase": [3, 8], "views_ladder": [5, 7], "activation_patching": [2],
}  # fmt: skip


@pytest.mark.parametrize(("name", "size"), [(name, size) for name, sizes in SIZES.items() for size in sizes])
def test_other_sizes_stay_inside_too(name, size):
    for svg in (getattr(getattr(schematics, name)(size), which) for which in ("wide", "narrow")):
        root = ElementTree.fromstring(svg)
        places = [estimated(text) for text in root.iter(f"{SVG}text")]
        assert all(p[0] >= 0 and p[2] <= float(root.get("width")) for p in places)
        assert not any(meet(a, b) for a, b in itertools.combinations(places, 2))


def test_exact_answers_are_dashed_and_nothing_else_is():
    """The exact posterior's mark: without it a drawing would say something else than the plots do."""
    dashed = {name for name in schematics.__all__ if "stroke-dasharray" in svg_of(name, "wide")}
    assert dashed == {
        "bijection_layout", "coverage_staircase", "elimination_heads", "filter_step", "gaussian_update", "hmm_layout",
        "recall_layout", "regression_layout", "wind_tunnel",
    }  # fmt: skip


def test_words_too_long_for_a_box_are_refused():
    with pytest.raises(ValueError, match="make it wider"):
        Sheet(NARROW).box(0, 0, 40, 20, "much too long")


def test_markup():
    assert runs("*a*_{ij} b^{T}") == [("*", "a"), ("_", "ij"), ("", " b"), ("^", "T")]
    assert text_width("*a*_{i}", 15) == pytest.approx(0.62 * 15 + 0.28 * index_size(15))
    sheet = Sheet(WIDE)
    sheet.text((50, 50), "*x*_{1} <")
    assert "&lt;" in sheet.parts[0] and "italic" in sheet.parts[0]
    shifts = [float(dy) for dy in re.findall(r'dy="([-\d.]+)"', sheet.parts[0])]
    assert len(shifts) == 2 and sum(shifts) == 0


def test_a_sheet_grows_with_what_is_drawn():
    seen = []
    found = drawing("a box", "a box", lambda s: seen.append(s.narrow) or s.box(20, 20, 60, 40, "box"))
    assert seen == [False, True] and 'height="72"' in found.wide and 'viewBox="0 0 340 72"' in found.narrow


# --- in a browser --------------------------------------------------------------------------------

MEASURE = """() => [...document.querySelectorAll('svg')].map(svg => {
  const box = e => { const b = e.getBBox(); return [b.x, b.y, b.x + b.width, b.y + b.height]; };
  const drawn = [...svg.querySelectorAll('path, rect, circle')].map(box);
  const rects = [...svg.querySelectorAll('rect')].map(box);
  const texts = [...svg.querySelectorAll('text')].map(e => ({words: e.textContent, box: box(e)}));
  const size = [svg.viewBox.baseVal.width, svg.viewBox.baseVal.height];
  return {name: svg.parentElement.id, size, drawn, rects, texts, shown: svg.getBoundingClientRect().width};
})"""


@pytest.fixture(scope="module")
def measured():
    """What a browser makes of all schematics, the narrow ones in a phone's column."""
    drawn = "".join(
        f'<div id="{name} {which}" style="width: {COLUMN if which == "narrow" else 700}px">{svg_of(name, which)}</div>' for name, which in DRAWN
    )
    with chromium() as running:
        page = running.new_page()
        page.set_content(f"<!doctype html>{drawn}")
        found = {one["name"]: one for one in page.evaluate(MEASURE)}
        page.close()
    return found


@pytest.mark.book  # as every test that needs a browser
@pytest.mark.parametrize(("name", "which"), DRAWN)
def test_a_browser_finds_everything_in_its_place(measured, name, which):
    one = measured[f"{name} {which}"]
    width, height = one["size"]
    assert one["shown"] >= (NARROW if which == "narrow" else WIDE), "it is shown smaller than drawn"
    for box in [*one["drawn"], *(text["box"] for text in one["texts"])]:
        assert box[0] >= -0.5 and box[1] >= -1 and box[2] <= width + 0.5 and box[3] <= height + 0.5, box
    for a, b in itertools.combinations(one["texts"], 2):
        # A line's box is higher than its letters: a fifth of it may be shared.
        assert not meet(a["box"], b["box"], 4), (a["words"], b["words"])
    for text in one["texts"]:
        left, top, right, bottom = text["box"]
        x, y = (left + right) / 2, (top + bottom) / 2
        around = [r for r in one["rects"] if r[0] < x < r[2] and r[1] < y < r[3]]
        assert all(r[0] <= left and right <= r[2] for r in around), f"{text['words']} leaves its box"
