"""From the report of colab_check.py to what people see: an issue's text, and a badge.

    python3 book/tools colab-report report.json --issue issue.md --badge colab.json --run ADDRESS

The last line it prints is `passed` or `failed`. A report that is missing or empty counts as failed:
then the run itself broke off. `--badge` is read first, if it is there: a failure keeps the date of
the last pass. Only the standard library.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path

TITLE = "Notebooks fail on Colab"
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
FENCE = "`" * 10  # longer than any that an error message may hold


def read(path: Path) -> dict:
    """A report; one without notebooks if there is none to read."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        found = {}
    return found if isinstance(found, dict) else {}


def failures(report: dict) -> list[dict]:
    """The notebooks that did not pass."""
    return [notebook for notebook in report.get("notebooks", []) if not notebook["passed"]]


def passed(report: dict) -> bool:
    """Whether there was a run, and all of its notebooks passed."""
    return bool(report.get("notebooks")) and not failures(report)


def issue(report: dict, run: str) -> str:
    """The text of the issue: which notebooks failed, where, with which words, in which versions."""
    if not report.get("notebooks"):
        return f"The weekly run broke off before a notebook ran: [its log]({run}).\n"
    failed, count = failures(report), len(report["notebooks"])
    parts = [
        f"{len(failed)} of {count} notebooks fail in Colab's public image, at the tag "
        f"`{report['tag']}`: {', '.join(notebook['name'] for notebook in failed)}.",
        f"Run: {run}, finished {report['finished']}. The text below is replaced by the next run; "
        "when all notebooks pass again, the run closes this issue. What to do stands in "
        "`book/colab.md`.",
        *map(section, failed),
        "### Versions",
        "\n".join(f"- {name} {version}" for name, version in report["surroundings"].items()),
    ]
    return "\n\n".join(parts) + "\n"


def section(notebook: dict) -> str:
    """One failed notebook: its name, the cell, and the end of the error."""
    where = "it did not run"
    if notebook["failed"] is not None:
        where = f"code cell {notebook['failed']} of {notebook['cells']}"
    error = notebook["error"].replace(FENCE, "'" * len(FENCE))
    return f"### {notebook['name']}: {where}\n\n{FENCE}text\n{error}\n{FENCE}"


def badge(report: dict, before: dict) -> dict:
    """What shields.io draws: the date of the last run in which every notebook passed.

    A date, not only a colour: where the schedule has stopped, the badge grows old in plain sight.
    """
    if passed(report):
        message, colour = DATE.match(report["finished"])[0], "brightgreen"
    else:
        last = DATE.search(str(before.get("message", "")))
        message = f"failing, last pass {last[0]}" if last else "failing, no pass yet"
        colour = "red"
    return {"schemaVersion": 1, "label": "runs on Colab", "message": message, "color": colour}


def main(words: Sequence[str] | None = None) -> int:
    """The command line; see the module's first lines."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("report", type=Path, help="what colab-check wrote")
    parser.add_argument("--issue", type=Path, required=True, help="the issue's text, to be written")
    parser.add_argument("--badge", type=Path, required=True, help="the badge, brought up to date")
    parser.add_argument("--run", required=True, help="the address of the run's log")
    given = parser.parse_args(words)
    report = read(given.report)
    given.issue.write_text(issue(report, given.run), "utf-8")
    made = badge(report, read(given.badge))
    given.badge.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    print("passed" if passed(report) else "failed")
    return 0
