"""Pages run side by side before they are read: what is stored, what is run again, and what a failure looks like."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from _support import ROOT

CONF = """
import sys; sys.path[:0] = [{ext!r}]
import bayeswind_execute
bayeswind_execute.processors = lambda: {processors}
extensions = ["myst_nb", "bayeswind_execute"]
root_doc, html_theme, nb_execution_mode, nb_execution_timeout = "index", "basic", "cache", 120
nb_execution_show_tb = True
exclude_patterns = ["_build"]
"""
PAGE = """---
kernelspec: {{name: python3, display_name: p}}
jupytext: {{text_representation: {{extension: .md, format_name: myst}}}}
---
# {name}

```{{code-cell}} ipython3
{code}
```
"""
# Each of two pages waits until the other one runs: one after the other, neither ends.
MEET = """import os, pathlib, time
pathlib.Path("{me}.here").touch()
end = time.time() + 60
while not pathlib.Path("{other}.here").exists():
    assert time.time() < end, "the other page does not run"
    time.sleep(0.05)
print("{me} met {other}, threads:", os.environ.get("OMP_NUM_THREADS"))"""


def book(folder, pages: dict[str, str], processors: int = 2):
    """A book of these pages, and a function that builds it."""
    (folder / "conf.py").write_text(CONF.format(ext=str(ROOT / "book/_ext"), processors=processors))
    (folder / "index.md").write_text("# Tiny\n\n```{toctree}\n" + "\n".join(pages) + "\n```\n")
    for name, code in pages.items():
        (folder / f"{name}.md").write_text(PAGE.format(name=name, code=code))

    def build():
        command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-N", ".", "_build/html"]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)

    return build


def test_pages_run_at_the_same_time_and_only_once(tmp_path):
    build = book(tmp_path, {"a": MEET.format(me="a", other="b"), "b": MEET.format(me="b", other="a"), "c": "print(2 + 3)"})
    done = build()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "executing 3 pages, 2 at once" in done.stdout
    assert "Executing notebook" not in done.stdout  # MyST-NB found all of them in the cache
    assert len(re.findall(r"Using cached notebook", done.stdout)) == 3
    assert "a met b, threads: 1" in (tmp_path / "_build/html/a.html").read_text()
    assert ">5\n" in (tmp_path / "_build/html/c.html").read_text()
    (tmp_path / "c.md").write_text(PAGE.format(name="c", code="print(3 + 4)"))
    (tmp_path / "d.md").write_text(PAGE.format(name="d", code="print(30 + 4)"))
    (tmp_path / "a.md").write_text((tmp_path / "a.md").read_text() + "\nMore words, the same cells.\n")
    (tmp_path / "index.md").write_text((tmp_path / "index.md").read_text().replace("c\n", "c\nd\n"))
    again = build()
    assert again.returncode == 0 and "executing 2 pages, 2 at once" in again.stdout, again.stdout + again.stderr
    assert ">7\n" in (tmp_path / "_build/html/c.html").read_text()


def test_a_page_that_fails_stops_the_build_and_says_why(tmp_path):
    build = book(tmp_path, {"good": "print(1)", "bad": 'raise RuntimeError("the tunnel is closed")'})
    done = build()
    assert done.returncode != 0 and "bad.md: failed in" in done.stdout and "good.md: executed in" in done.stdout
    assert "the tunnel is closed" in done.stderr
    assert done.stdout.count("Executing notebook") == 1  # MyST-NB ran the bad page again, and told of it


@pytest.mark.parametrize("processors", [1, 2])
def test_a_single_page_or_processor_is_left_to_myst_nb(tmp_path, processors):
    pages = {"a": "print(1 + 1)"} | ({"b": "print(2 + 2)"} if processors == 1 else {})
    done = book(tmp_path, pages, processors)()
    assert done.returncode == 0 and "at once" not in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("Executed notebook") == len(pages)
