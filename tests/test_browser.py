"""The built site in headless Chromium with the network blocked: silent, accessible, alive."""

from __future__ import annotations

import re

import pytest

from _support import CHAPTERS, pages, site_folder
from _support_browser import SCHEMES, SIZES, THEME_RULES, Reader, chromium, served

pytestmark = pytest.mark.xdist_group("browser")
SENDS_ON = re.compile(r'<meta http-equiv="refresh"', re.I)
VIEWS = [(scheme, size) for scheme in SCHEMES for size in SIZES]


def names(folder) -> list[str]:
    """The pages to look at, as addresses; the front door (it only sends on) is tested apart."""
    found = [path for path in pages(folder) if not SENDS_ON.search(path.read_text("utf-8"))]
    return [path.relative_to(folder).as_posix() for path in found]


@pytest.fixture(scope="module")
def browser():
    """One browser for the whole module."""
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def home():
    """Where the book is served."""
    with served(site_folder()) as address:
        yield address


@pytest.fixture(scope="module")
def visits(browser, home):
    """What happened on each page in each view: {(scheme, size, page): Seen}, visited once."""
    folder, seen = site_folder(), {}
    for scheme, size in VIEWS:
        reader = Reader(browser, home, scheme, size)
        for name in names(folder):
            reader.open(name)
            seen[scheme, size, name] = reader.audit()
        reader.close()
    return seen


@pytest.fixture
def reader(browser, home):
    """A fresh window on the served book."""
    window = Reader(browser, home)
    yield window
    window.close()


@pytest.fixture
def stick(browser):
    """A fresh window on the book as files, as from a USB stick."""
    window = Reader(browser, site_folder().as_uri())
    yield window
    window.close()


def collect(visits, attribute: str) -> dict:
    """All views in which something was found."""
    found = {view: getattr(seen, attribute) for view, seen in visits.items()}
    return {view: problems for view, problems in found.items() if problems}


def test_every_page_was_seen_in_every_view(visits, site):
    assert len(names(site)) > len(list(CHAPTERS.glob("[0-9][0-9]_*.md")))
    assert len(visits) == len(names(site)) * len(VIEWS)
    assert {view: seen.theme for view, seen in visits.items() if seen.theme != view[0]} == {}


def test_no_request_leaves_the_site(visits):
    assert collect(visits, "outside") == {}


def test_the_console_is_silent(visits):
    assert collect(visits, "console") == {}


def test_no_script_crashes(visits):
    assert collect(visits, "crashes") == {}


def test_every_request_is_answered(visits):
    assert collect(visits, "failed") == {}


def test_formulas_are_drawn(visits):
    assert collect(visits, "maths") == {}
    chapters = {view: seen for view, seen in visits.items() if view[2].startswith("chapters/")}
    assert chapters and all(seen.formulas for seen in chapters.values())


def test_nothing_sticks_out_sideways(visits):
    assert collect(visits, "overflow") == {}


def test_axe_finds_only_the_two_theme_rules(visits):
    beyond = {
        view: [rule for rule in seen.axe if rule["id"] not in THEME_RULES]
        for view, seen in visits.items()
    }
    assert {view: rules for view, rules in beyond.items() if rules} == {}


def test_both_theme_rules_are_needed(visits):
    """A rule that the theme no longer breaks has to leave the list."""
    assert {rule["id"] for seen in visits.values() for rule in seen.axe} >= THEME_RULES
