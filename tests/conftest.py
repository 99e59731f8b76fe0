"""Shared fixtures, and a closing table of the durations that tests report."""

from __future__ import annotations

import pytest

from _support import notebooks, site_folder
from _support_browser import chromium, compressing, served


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
