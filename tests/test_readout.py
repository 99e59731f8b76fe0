"""Values under the pointer: beside every mark of every chart of every live figure stand the numbers that are drawn there.

Numbers are read off the drawing, by its ticks or by how all its marks lie, and compared with the words. What a finger
does, and that the words cover no mark, is tested in test_bijection_explorer.py and test_hmm_explorer.py; the playground's
drawings and the landing page's are tested with them.
"""

from __future__ import annotations

import itertools
import re
from functools import partial

import numpy as np
import pytest
from _support_explorer import WEB, explorer_opener, number
from test_explorers import FULL

pytestmark = pytest.mark.xdist_group("browser")
NEAR = 1.5  # pixels
MARKS = "box => box.marks?.map(({x, ys}) => [x, ...ys])"
# Each shape of a drawing by its sides, its class and its points, and its words by their middle; what is behind (grips, a
# trail) is left out.
SHAPES = """box => {
  const svg = box.querySelector('svg'), room = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('rect, circle, ellipse, path, line, text')].filter(e => !e.closest('defs, .bw-readout-box, .bw-wake')
    && !/bw-(grip|area|handle|here)/.test(e.getAttribute('class'))).map(e => {
      const {left, top, width, height} = e.getBoundingClientRect();
      return {tag: e.tagName, kind: e.getAttribute('class') || '', x: left - room.left, y: top - room.top, width, height, d: e.getAttribute('d') || '',
        words: e.textContent, opacity: +e.getAttribute('fill-opacity')};
    });
}"""


def numbers(words: str) -> list[float]:
    return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", words.replace("\u2212", "-"))]


def words_at(page, box, mark) -> list[str]:
    place = box.bounding_box()
    page.mouse.move(place["x"] + mark[0], place["y"] + mark[1])
    return box.locator(".bw-readout-box text").all_text_contents()


def scales(shapes: list) -> tuple:
    """From a number to its place across and down, by the words at the ticks; None where a side has none."""
    words = [(numbers(s["words"])[0], s["x"] + s["width"] / 2, s["y"] + s["height"] / 2, s["x"] + s["width"]) for s in shapes
             if s["tag"] == "text" and re.fullmatch(r"[\u2212-]?[\d.]+", s["words"])]
    lines = [s["y"] for s in shapes if "bw-grid" in s["kind"] and s["height"] < 0.1]
    down = [(v, y) for v, _, y, right in words if right < 46 and any(abs(line - y) < 5 for line in lines)]
    lowest = max((y for _, _, y, _ in words), default=0)
    across = [(v, x) for v, x, y, right in words if abs(y - lowest) < 3 and right >= 46]
    # A tick stands at its line, not quite at the middle of its word.
    down = [(v, min(lines, key=lambda line: abs(line - y))) for v, y in down]
    upright = [s["x"] for s in shapes if "bw-grid" in s["kind"] and s["width"] < 0.1]
    across = [(v, min(upright, key=lambda line: abs(line - x), default=x)) for v, x in across]
    return tuple(np.polynomial.Polynomial.fit(*zip(*ticks, strict=True), 1) if len(ticks) > 1 else None for ticks in (across, down))


def heights(shapes: list, x: float, reach: float = NEAR) -> list[float]:
    """Where something is drawn in a column: the ends of bars, the middles of marks, and where lines go through it."""
    found = []
    for s in shapes:
        if s["tag"] == "text" or "bw-grid" in s["kind"] or not s["x"] - reach <= x <= s["x"] + s["width"] + reach:
            continue
        found += [s["y"], s["y"] + s["height"], s["y"] + s["height"] / 2]
        steps = re.findall(r"([ML])([\d.e-]+) ([\d.e-]+)|(H)([\d.e-]+)", s["d"])
        points = []
        for _, px, py, flat, to in steps:
            points.append((float(to), points[-1][1]) if flat else (float(px), float(py)))
        found += [y for (a, y), (b, z) in itertools.pairwise(points) if min(a, b) - 0.1 <= x <= max(a, b) + 0.1
                  for y in ({y, z} if abs(a - b) < 0.1 else {y + (z - y) * (x - a) / (b - a)})]
    return found


def by_the_axis(shapes, told, within=(-np.inf, np.inf), reach=NEAR) -> None:
    """Every number is that of something drawn in its column, or at the edge beyond which nothing is drawn."""
    _, down = scales(shapes)
    for mark, (_, *lines) in told:
        there = [*heights(shapes, mark[0], reach), down(0)]  # a bar of nothing is not drawn
        for line in lines:
            value = numbers(line.partition("\u00b1")[0])  # a name may have a number, too
            assert value or line == "ruled out", line
            assert not value or min(abs(np.clip(down(value[-1]), *within) - y) for y in there) < NEAR, (line, mark)


def of_the_plane(shapes, told) -> None:
    """Two numbers of every mark are its coordinates, whatever the scale; something is drawn at each. They stand in brackets, or one on a line."""
    shown = [numbers(found[0])[:2] if (found := re.search(r"\(.*\)", " ".join(lines))) else [numbers(line)[-1] for line in lines[1:3]] for _, lines in told]
    places = np.array([mark[:2] for mark, _ in told])
    known = np.c_[shown, np.ones(len(shown))]
    fit, _, rank, _ = np.linalg.lstsq(known, places, rcond=None)
    assert rank == 3 < len(told) and np.abs(known @ fit - places).max() < NEAR
    middles = np.array([[s["x"] + s["width"] / 2, s["y"] + s["height"] / 2] for s in shapes])
    assert all(np.hypot(*(middles - place).T).min() < 2.5 for place in places)


def of_the_line(shapes, told) -> None:
    across, down = scales(shapes)
    for mark, (_, intercept, slope) in told:
        assert [across(numbers(intercept)[0]), down(numbers(slope)[0])] == pytest.approx(mark, abs=NEAR)
        assert any(s["tag"] == "ellipse" and np.hypot(s["x"] + s["width"] / 2 - mark[0], s["y"] + s["height"] / 2 - mark[1]) < NEAR for s in shapes)


def of_cells(shapes, told) -> None:
    cells = [s for s in shapes if "bw-cell" in s["kind"]]
    for (x, y), (_, value) in told:
        cell = next(s for s in cells if s["x"] <= x <= s["x"] + s["width"] and s["y"] <= y <= s["y"] + s["height"])
        assert numbers(value)[0] == pytest.approx(cell["opacity"], abs=1e-3)


def of_dots(shapes, told) -> None:
    """On one line of numbers, with ticks below."""
    across, _ = scales(shapes)
    for (x, y), (_, value) in told:
        assert across(numbers(value)[-1]) == pytest.approx(x, abs=NEAR) or x < 12  # left of the picture
        assert any(abs(s["x"] + s["width"] / 2 - x) < 1 and abs(s["y"] + s["height"] / 2 - y) < 1 for s in shapes)


def of_shares(shapes, told) -> None:
    bars = [s for s in shapes if s["tag"] == "rect"]
    for i, (_, (_, *parts)) in enumerate(told):
        row = bars[2 * i : 2 * i + 2]
        assert [numbers(part)[-1] for part in parts] == pytest.approx([s["width"] / sum(b["width"] for b in row) for s in row], abs=2e-3)


def of_the_answer(shapes, told) -> None:
    """Bars on a floor without ticks: all are as high as their numbers, by one measure."""
    floor = next(s["y"] for s in shapes if "bw-floor" in s["kind"])
    bars = [[s for s in shapes if kind in s["kind"] and s["x"] <= mark[0] <= s["x"] + s["width"]] for kind in ("bw-first", "bw-exact") for mark, _ in told]
    shown = [numbers(next(line for line in lines if line.startswith(who)))[-1] for who in ("network", "exact") for _, lines in told]
    high = [floor - bar[0]["y"] if bar else 0 for bar in bars]
    assert np.array(shown) * max(high) / max(shown) == pytest.approx(high, abs=NEAR)


def of_the_course(shapes, told) -> None:
    """Dots of the network on a floor without ticks, the exact line among them."""
    shown = np.array([numbers(line)[-2:] for _, (line,) in told])
    dots = np.array([mark[1:] for mark, _ in told])
    floor = next(s["y"] for s in shapes if "bw-floor" in s["kind"])
    assert (floor - dots) * shown.max() / (floor - dots).max() == pytest.approx(shown, abs=0.1)
    for mark, _ in told:
        assert all(min(abs(y - there) for there in heights(shapes, mark[0])) < NEAR for y in mark[1:])


# Charts without an axis of numbers beside their marks: how their words are compared, by figure and place in it.
OTHERWISE = {
    ("coin", 1): of_shares, ("em", 0): partial(by_the_axis, reach=12), ("em", 1): of_the_plane, ("hazard", 0): partial(by_the_axis, within=(28, 210)), ("hmm", 0): of_the_plane, ("regression", 1): of_the_line, ("threshold", 0): of_dots,
    ("training", 2): of_cells, ("threekeys", 0): of_the_plane, ("machine", 0): of_the_answer, ("machine", 1): of_the_course,
}  # fmt: skip


def compared(page, name: str) -> int:
    """Point at marks of each chart of a figure, 14 at most; returns how many charts there are."""
    boxes = page.locator(".bw-chart:has(svg)").all()
    for i, box in enumerate(boxes):
        box.scroll_into_view_if_needed()
        marks = box.evaluate(MARKS)
        assert marks, f"chart {i} says no values"
        told = [(mark, words_at(page, box, mark)) for mark in marks[:: -(-len(marks) // 14)]]
        assert all(len(lines) > (name != "machine" or i == 0) for _, lines in told), f"chart {i}"
        OTHERWISE.get((name, i), by_the_axis)(box.evaluate(SHAPES), told)
    return len(boxes)


@pytest.mark.parametrize("name", sorted(FULL))
def test_values_under_the_pointer_are_those_drawn(name, browser, tmp_path):
    with explorer_opener(name, browser, tmp_path) as opened:
        assert compared(opened(opens=5, reduced_motion="reduce"), name) >= 2




@pytest.mark.parametrize(("name", "place"), [("coin", 0), ("ladder", 1), ("threshold", 0)])
def test_a_tap_shows_them_also_where_it_moves_something(name, place, browser, tmp_path):
    """What is tapped is drawn anew under the finger; a tap elsewhere ends it."""
    with explorer_opener(name, browser, tmp_path) as opened:
        page = opened(width=390, opens=5, has_touch=True, is_mobile=True)
        box = page.locator(".bw-chart:has(svg)").nth(place)
        box.scroll_into_view_if_needed()
        (x, y, *_), there = box.evaluate(MARKS)[4], box.bounding_box()
        page.touchscreen.tap(there["x"] + x, there["y"] + y)
        assert numbers(" ".join(box.locator(".bw-readout-box text").all_text_contents()))
        page.touchscreen.tap(there["x"] + 2, there["y"] - 3)
        assert not box.locator(".bw-readout-box").count()


# Curves over steps, by figure and place in it, and the slider that they move. Those of the bijection and the hidden chain have tests of their own.
SCRUBBED = {
    "hazard": (1, "Kept each step"), "ladder": (1, "Pairs shown"), "machine": (1, "Pairs"),
    "sources": (2, "Symbols read"), "threshold": (1, "Threshold"), "training": (0, "Updates"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(SCRUBBED))
def test_a_hand_moves_along_a_curve_over_steps(name, browser, tmp_path):
    """What is held follows the pointer, and the slider says what the words beside it say."""
    place, label = SCRUBBED[name]
    with explorer_opener(name, browser, tmp_path) as opened:
        page = opened(opens=5, reduced_motion="reduce")
        box, slider = page.locator(".bw-chart:has(svg)").nth(place), page.get_by_label(label, exact=True)
        box.scroll_into_view_if_needed()
        marks, seen = box.evaluate(MARKS), []
        for mark in (marks[1], marks[-1], marks[len(marks) // 2]):
            words_at(page, box, mark)
            page.mouse.down()  # nothing, where it is held already
            words = words_at(page, box, mark)
            seen.append(float((slider.get_attribute("aria-valuetext") or slider.input_value()).split()[0]))
            assert numbers(words[0])[0] == seen[-1]
        page.mouse.up()
        words_at(page, box, marks[1])
        assert len(set(seen)) == 3 and float((slider.get_attribute("aria-valuetext") or slider.input_value()).split()[0]) == seen[-1]


def test_only_a_zero_is_written_as_one(browser, tmp_path):
    """Every figure writes numbers with the one function, in which a small one has two digits."""
    values = [0, 3e-16, 4e-9, 2.6e-6, 1.9e-4, 0.0031, 0.0099, 0.031, 0.25, -0.0004, -3]
    with explorer_opener("coin", browser, tmp_path) as opened:
        page = opened()
        said = page.evaluate("values => values.map((value) => bwExplorer.number(value))", values)
        assert page.evaluate("[[Infinity], [-0.04, 1], [0.5, 2]].map((given) => bwExplorer.number(...given))") == ["infinite", "0.0", "0.50"]
    assert said == [number(value) for value in values]
    assert said == ["0", "0", "<0.000001", "0.0000026", "0.00019", "0.0031", "0.0099", "0.031", "0.250", "\u22120.00040", "\u22123.000"]
    assert not [path.name for path in WEB.glob("*.js") if "toExponential" in path.read_text("utf-8") and path.name != "page.js"]
