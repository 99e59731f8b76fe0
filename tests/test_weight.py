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
PLAIN = ("genindex", "book/references")  # without formulas, and without the list that is searched


@pytest.fixture(scope="module")
def record():
    return json.loads(weights.FILE.read_text("utf-8"))


def weigh(browser, home, names) -> dict[str, dict]:
    """Pages, opened in the browser: {name: row}."""
    return {name: weights.weigh(browser, home, name) for name in sorted(names)}


@pytest.fixture(scope="module")
def weighed(browser, compressing_home, record):
    """The pages whose first figure is timed, those with few files of their own, and the heaviest."""
    heaviest = max(record["pages"], key=weights.whole)["page"]
    return weigh(browser, compressing_home, {*weights.TIMED, *PLAIN, heaviest})


def files_weigh(name: str) -> int:
    """What a page, the pictures, scripts and styles that it names and the letters of its text weigh as files."""
    site, up = site_folder(), "../" * name.count("/")
    text = (site / f"{name}.html").read_text("utf-8")
    names = set(re.findall(rf'(?:src|href)="{re.escape(up)}(_(?:static|images)/[^"?#]+\.(?:png|js|css))', text))
    names |= {f"_static/fonts/{font}-normal.woff2" for font in ("source-serif-4", "source-sans-3")}
    return sum((site / name).stat().st_size for name in names) + len(text.encode())


def is_that_of_the_record(weighed, record) -> None:
    """Each page is light, and about as heavy as the record says."""
    stored = {row["page"]: row for row in record["pages"]}
    for name, row in weighed.items():
        assert weights.whole(row) <= 900_000 == weights.LIMIT == record["limits"]["bytes"], name
        for key in ("compressed", "raw", "requests"):
            assert row[key] == pytest.approx(stored[name][key], rel=TOLERANCE), f"{name}: {key}; run `make weights`"


def test_pages_are_light_and_the_record_is_theirs(weighed, record):
    is_that_of_the_record(weighed, record)


@pytest.mark.weekly
def test_every_page_is_light_and_the_record_is_its(browser, compressing_home, record):
    """All pages in the browser; every day their files are weighed, in the next test."""
    is_that_of_the_record(weigh(browser, compressing_home, weights.page_names(site_folder())), record)


def test_a_page_weighs_what_its_files_weigh(record, site):
    """Every page: a sum of file sizes, made another way. The rest is what scripts and styles ask for."""
    stored = {row["page"]: row for row in record["pages"]}
    assert stored.keys() == set(weights.page_names(site)) and max(map(weights.whole, stored.values())) <= weights.LIMIT
    for name, row in stored.items():
        if name != "search":  # loads the index by a script
            assert row["raw"] == pytest.approx(1.07 * files_weigh(name), rel=TOLERANCE), f"{name}; run `make weights`"


def test_formulas_cost_only_where_they_are(weighed):
    assert max(weighed[name]["compressed"] for name in PLAIN) < 300_000


@pytest.mark.parametrize("page", weights.TIMED)
def test_the_first_figure_comes_soon(browser, compressing_home, page, report_seconds):
    """1.6 Mbit/s, answers after 150 ms, nothing stored: what the line takes, which no busy machine makes longer."""
    assert (weights.SLOW["bits"], weights.SLOW["delay"]) == (1.6e6, 0.150)
    clock, line = weights.first_figure(browser, compressing_home, page)
    report_seconds(f"first figure of {page}, slow line", line, weights.FIRST_FIGURE)
    assert 2 * weights.SLOW["delay"] < line <= 4.0 == weights.FIRST_FIGURE
    assert clock > 0.3  # two answers of 150 ms, or the line was not slow
    assert json.loads(weights.FILE.read_text("utf-8"))["first_figure"][page] <= 4.0  # by the clock, on an idle machine


def test_the_network_of_the_landing_page_answers_soon(browser, compressing_home, report_seconds):
    """The same line, and a processor slowed four times; by the clock on an idle machine, as the record has it."""
    told = weights.first_answer(browser, compressing_home)
    report_seconds("first answer of the landing page's network, slow line", told["line"], weights.FIRST_ANSWER)
    assert 3 * weights.SLOW["delay"] < told["line"] <= 1.5 == weights.FIRST_ANSWER and weights.SLOW_PROCESSOR == 4
    assert 0.3 < told["paint"] <= told["answer"]
    stored = json.loads(weights.FILE.read_text("utf-8"))["first_answer"]
    assert max(stored.values()) <= 1.5 and stored["line"] == pytest.approx(told["line"], abs=0.1)


def test_the_page_on_checks_shows_the_record(record):
    """The table's numbers are those of the stored record, page by page."""
    text = (site_folder() / "book/checked.html").read_text("utf-8")
    for row in record["pages"]:
        assert f"<p>{row['compressed'] / 1000:,.0f}</p>" in text, row["page"]
