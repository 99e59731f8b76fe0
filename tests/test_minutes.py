"""The minutes that a chapter promises are counted, not guessed.

A chapter with a table `| section | minutes |` states how it counts: words at 180 a minute, half a
minute a cell or displayed equation, one minute a figure or a prediction; exercises say their own.
"""

from __future__ import annotations

import math
import re

import pytest
from _support import CHAPTERS
from test_exercises import TITLE, blocks

TABLE = re.compile(r"^\| section \| minutes \|\n\| --- \| --- \|\n((?:\|.*\|\n)+)", re.M)
COUNTED = "180 words a minute"  # how such a chapter says it
PATHS = [p for p in sorted(CHAPTERS.glob("[0-9][0-9]_*.md")) if COUNTED in p.read_text()]
MATH = re.compile(r"^```\{math\}\n.*?^```$|\$\$.*?\$\$", re.M | re.S)


def sections(text: str) -> dict[str, str]:
    """The text under each second-level heading; what comes before the first is "The question"."""
    body = text.split("---\n", 2)[2]
    first, *rest = re.split(r"^## (.+)$", body, flags=re.M)
    return {"The question": first, **dict(zip(rest[::2], rest[1::2], strict=True))}


def minutes(section: str) -> float:
    """Reading time of a section, or the exercises' own minutes added up."""
    found = blocks(section)
    exercises = [TITLE.match(b.argument) for b in found if b.kind == "exercise"]
    if exercises:
        return sum(int(title["minutes"]) for title in exercises)
    cells = [b for b in found if b.kind == "code-cell" and "remove-cell" not in b.text]
    figures = sum("\n  figure:\n" in b.text for b in cells)
    predictions = sum(b.kind == "predict" or b.argument.startswith("Predict") for b in found)
    prose = re.sub(r"^```\{code-cell\}.*?^```$", "", section, flags=re.M | re.S)
    equations = len(MATH.findall(prose))
    words = re.sub(r"\$[^$]+\$|\{[\w:]+\}`[^`]*`", "x", MATH.sub("", prose))
    count = len(re.findall(r"[A-Za-z0-9'’]+", words))
    return count / 180 + (len(cells) + equations) / 2 + figures + predictions


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_the_table_of_minutes_is_counted(path):
    text = path.read_text()
    rows = re.findall(r"^\| (.+?) \| (\d+) \|$", TABLE.search(text)[1], re.M)
    counted = {name: math.ceil(minutes(part)) for name, part in sections(text).items()}
    promised = {name: int(value) for name, value in rows}
    assert promised.keys() <= counted.keys(), promised.keys() - counted.keys()
    assert {name: counted[name] for name in promised} == promised
    assert {"The question", "Exercises"} < promised.keys() and len(promised) >= len(counted) - 2


def test_some_chapter_counts_its_minutes():
    assert PATHS


def test_counting():
    cell = "```{code-cell} ipython3\n1\n```\n"
    assert minutes("word " * 90) == 0.5
    assert minutes("word " * 90 + "\n" + cell) == 1.0
    assert minutes("$$ a + b $$\n" + "word " * 90) == 1.0
    assert minutes("```{exercise} A ★☆☆ · 10 min · objective 1\n:label: x\n```\n") == 10
