"""What tests may not do: depend on the clock or on the machine; and which of them run once a week."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from _support import ROOT
from tools import steps as tool_steps

OTHERS = sorted(path for path in (ROOT / "tests").glob("*.py") if path.name != Path(__file__).name)
# A limit in seconds of the clock, or a wait that is long enough on an idle machine only. `HANGS` is no such limit.
CLOCK = re.compile(r"timeout=\d|timeout\(\d|timeout: \w+ = \d|perf_counter\(\)|time\.time\(\)|monotonic\(\)(?! \+ HANGS| < end)")
REPORTED = {"_support.py": 2}  # lines that only report how long a command took


def limits(text: str) -> list[str]:
    """The lines of a test that look at the clock."""
    return [line.strip() for line in text.splitlines() if CLOCK.search(line)]


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_no_test_has_a_limit_by_the_clock(path):
    """Other work on the machine is no fault: count work, or processor seconds with a margin of 5."""
    assert len(limits(path.read_text("utf-8"))) == REPORTED.get(path.name, 0), limits(path.read_text("utf-8"))


def test_a_limit_by_the_clock_is_seen():
    clocks = ["page.wait_for_timeout(300)", "run(timeout=60)", "def f(timeout: float = 9)", "time.perf_counter() < 3"]
    assert limits("\n".join(clocks)) == clocks
    assert limits("run(timeout=HANGS)\nend = time.monotonic() + HANGS\nassert time.monotonic() < end\ntime.process_time()") == []


def test_weekly_tests_are_listed_with_their_reason():
    """In CONTRIBUTING.md; a test that is not marked is not listed."""
    marked = set()
    for path in OTHERS:
        marked |= set(re.findall(r"^@pytest\.mark\.weekly.*\n(?:@.*\n)*def (test_\w+)", path.read_text("utf-8"), re.M))
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Weekly tests")[2].partition("\n## ")[0]
    listed = dict(re.findall(r"^\| `(test_\w+)` \| (.+?) \|", section, re.M))
    assert marked == listed.keys() and all(len(reason.split()) > 5 for reason in listed.values())


COST = """
import os, time, pytest

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

def test_sleeps(): time.sleep(0.5)
def test_works(): burn(0.5)
def test_has_it_done():
    child = os.fork()
    if not child:
        burn(0.5)
        os._exit(0)
    os.waitpid(child, 0)
@pytest.mark.weekly
def test_works_once_a_week(): burn(0.5)
@pytest.mark.slow
def test_is_left_to_make_test(): pass
def test_takes_the_site(site): pass
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_test_over_the_limit_fails_whatever_the_clock_says(pytester, monkeypatch):
    """Processor seconds count, those of a process that the test started too; a weekly test may take longer."""
    import conftest

    told = []
    monkeypatch.setattr(tool_steps, "lint", lambda: 0)
    monkeypatch.setattr(tool_steps, "pytest", lambda words, marks: told.append(marks) or 0)
    assert tool_steps.check() == 0
    (quick,) = told
    monkeypatch.setattr(conftest, "LIMIT", 0.3)
    monkeypatch.setattr(conftest, "site_folder", lambda: "")
    pytester.makepyfile(COST)
    pytester.makeini("[pytest]\naddopts = --strict-markers")
    result = pytester.inline_run("-p", "no:cacheprovider", plugins=[conftest])
    chosen = pytester.inline_run("-p", "no:cacheprovider", "-m", quick, plugins=[conftest])
    monkeypatch.undo()  # or this test, too, would be over the limit
    passed, _, failed = result.listoutcomes()
    assert [r.nodeid.partition("::")[2] for r in failed] == ["test_works", "test_has_it_done"]
    assert "processor seconds; a test that is not weekly may take" in str(failed[0].longrepr)
    assert len(passed) == 4
    assert [len(kind) for kind in chosen.listoutcomes()] == [1, 0, 2]  # not the site's, the slow, the weekly one
