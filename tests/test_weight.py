"""What each page weighs, and how soon it shows its first figure, in a browser that has nothing stored.

The page on checks shows the record that book/tools/weights.py wrote; here the built book is weighed again.
"""

from __future__ import annotations

import json
import re

import pytest

from _support import site_folder

from tools import weights  # noqa: E402

pytestmark = pytest.mark.xdist_group("browser")
# How far the record may be from the built book: a figure more, not a script more.
TOLERANCE = 0.15


@pytest.fixture(scope="module")
def record():
    return json.loads(weights.FILE.read_text("utf-8"))


@pytest.fixture(scope="module")
def weighed(browser, compressing_home):
    """Every page, weighed once: {name: row}."""
    return {name: weights.weigh(browser, compressing_home, name) for name in weights.page_names(site_folder())}


def test_every_page_is_light(weighed):
    heavy = {name: row["compressed"] for name, row in weighed.items() if row["compressed"] > 1_500_000}
    assert not heavy and weights.LIMIT == 1_500_000


def test_the_record_is_that_of_the_built_book(weighed, record):
    """`make weights` was run after the last change that matters."""
    stored = {row["page"]: row for row in record["pages"]}
    assert stored.keys() == weighed.keys()
    for name, row in weighed.items():
        for key in ("compressed", "raw", "requests"):
            assert row[key] == pytest.approx(stored[name][key], rel=TOLERANCE), f"{name}: {key}; run `make weights`"


def test_a_page_weighs_what_its_files_weigh(weighed):
    """The scales count at least what the page names itself: a sum of file sizes made another way."""
    site = site_folder()
    text = (site / "chapters/03_training.html").read_text("utf-8")
    names = set(re.findall(r'(?:src|href)="\.\./(_(?:static|images)/[^"?#]+\.(?:png|js|css))', text))
    raw = sum((site / name).stat().st_size for name in names) + len(text.encode())
    assert raw <= weighed["chapters/03_training"]["raw"] < 1.4 * raw  # the rest: MathJax's fonts


def test_formulas_cost_only_where_they_are(weighed):
    assert max(weighed[name]["compressed"] for name in ("search", "genindex", "book/references")) < 300_000


@pytest.mark.parametrize("page", weights.TIMED)
def test_the_first_figure_comes_soon(browser, compressing_home, page, report_seconds):
    """1.6 Mbit/s, answers after 150 ms, nothing stored."""
    assert (weights.SLOW["bits"], weights.SLOW["delay"]) == (1.6e6, 0.150)
    seconds = weights.first_figure(browser, compressing_home, page)
    report_seconds(f"first figure of {page}, slow line", seconds, weights.FIRST_FIGURE)
    assert 0.3 < seconds <= 4.0  # less than two answers of 150 ms: the line was not slow


def test_the_page_on_checks_shows_the_record(record):
    """The table's numbers are those of the stored record, page by page."""
    text = (site_folder() / "book/checked.html").read_text("utf-8")
    for row in record["pages"]:
        assert f"<p>{row['compressed'] / 1000:,.0f}</p>" in text, row["page"]
