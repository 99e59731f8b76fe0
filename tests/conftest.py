"""Shared fixtures, which tests `make check` and the weekly run take, and what each test costs.

A test belongs to the book, and not to `make check`, if it takes one of the fixtures in `BOOK` or stands in
one of the files in `BOOK_FILES`. One that takes more than some seven processor seconds is marked `slow`,
and stays out of `make check` too; one that is slower yet and rarely breaks is marked `weekly`.
"""

from __future__ import annotations

import os

import pytest

from _support import notebooks, site_folder
from _support_browser import chromium, compressing, served


pytest_plugins = ["pytester"]
BOOK = {"browser", "compressing_home", "home", "notebook", "site"}  # pages, a browser, chapters' notebooks
BOOK_FILES = {
    "test_browser", "test_build_notebooks", "test_canaries", "test_colab", "test_colab_check", "test_execution", "test_explorers",
    "test_explorers_controls", "test_fork", "test_machines", "test_minutes", "test_notebooks", "test_pdf", "test_prose", "test_site", "test_terms",
    "test_weight",
}  # fmt: skip
LIMIT = 60.0  # processor seconds of one test: a budget of 12, and 5 times as much on a slower machine


def processor_seconds() -> float:
    """Of this process and of those that it has started and seen end; other work on the machine costs none."""
    return sum(os.times()[:4])


def pytest_configure(config):
    """What the marks mean."""
    config.addinivalue_line("markers", "book: needs the built book, its notebooks or a browser")
    config.addinivalue_line("markers", "slow: more than some seven processor seconds; in `make test`, not in `make check`")
    config.addinivalue_line("markers", "weekly: slow, and rarely breaks; CONTRIBUTING.md lists these tests")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    """Mark what belongs to the book, and begin with it: the longest files must not come last."""
    for item in items:
        if BOOK & set(item.fixturenames) or item.path.stem in BOOK_FILES:
            item.add_marker("book")
    long = {item.path for item in items if item.get_closest_marker("book")}
    items.sort(key=lambda item: item.path not in long)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    """Note what the fixtures of a test cost."""
    before = processor_seconds()
    yield
    item.user_properties.append(("setup_processor_seconds", round(processor_seconds() - before, 2)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Note what a test costs; over `LIMIT` it fails, a weekly one apart."""
    before = processor_seconds()
    try:
        yield
    finally:
        used = processor_seconds() - before
        item.user_properties.append(("processor_seconds", round(used, 2)))
    if used > LIMIT and not item.get_closest_marker("weekly"):
        pytest.fail(f"{used:.0f} processor seconds; a test that is not weekly may take {LIMIT:.0f}", pytrace=False)


@pytest.fixture(scope="session")
def site():
    """The folder of the built book; an error (never a skip) if `make book` has not run."""
    return site_folder()


@pytest.fixture(scope="module")
def browser():
    """One browser for all tests of a module."""
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def home(site):
    """The address of the built book."""
    with served(site) as address:
        yield address


@pytest.fixture(scope="module")
def compressing_home(site):
    """The address of the built book on a server that compresses what it sends."""
    with compressing(site) as address:
        yield address


@pytest.fixture
def report_seconds(record_property):
    """A function (label, seconds, budget) that puts a measured time into the closing table."""

    def note(label: str, seconds: float, budget: float | None = None) -> None:
        record_property("seconds", (label, round(seconds, 1), budget))

    return note


def pytest_generate_tests(metafunc):
    """Tests with an argument `notebook` run once a chapter."""
    if "notebook" in metafunc.fixturenames:
        metafunc.parametrize("notebook", notebooks(), ids=lambda path: path.stem)


def pytest_terminal_summary(terminalreporter):
    """Print every reported duration beside its budget, also when all tests pass."""
    reports = [r for kind in terminalreporter.stats.values() for r in kind]
    rows = [
        value
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in getattr(report, "user_properties", [])
        if name == "seconds"
    ]
    if rows:
        terminalreporter.section("measured durations")
    for label, seconds, budget in sorted(map(tuple, rows)):
        limit = f"  (budget {budget:g} s)" if budget else ""
        terminalreporter.write_line(f"{seconds:7.1f} s  {label}{limit}")
    costs: dict[str, float] = {}
    for report in reports:
        if getattr(report, "when", "") == "call":
            found = dict(getattr(report, "user_properties", []))
            costs[report.nodeid] = sum(found.get(f"{part}processor_seconds", 0) for part in ("", "setup_"))
    if not costs:
        return
    terminalreporter.section(f"most processor seconds, fixtures included, of {sum(costs.values()):.0f}")
    for name in sorted(costs, key=costs.get, reverse=True)[:12]:
        terminalreporter.write_line(f"{costs[name]:7.1f} s  {name}")
