"""Explorers on a page of their own."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from _support import ROOT, STUCK, pages

from bayeswind_lib.widgets import explorers

from tools import networks  # noqa: E402

WEB = ROOT / "bayeswind_lib" / "widgets" / "web"  # scripts that the pages share with notebooks
PAGE = """<!DOCTYPE html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>Explorer</title>
<link rel="stylesheet" href="explorer.css"><link rel="stylesheet" href="{name}_explorer.css">
<style>html[data-theme=dark] {{ background: #14181e; color: #eee }} body {{ margin: 12px; font: 16px/1.5 Arial, "DejaVu Sans Condensed", sans-serif }}</style>
{head}<script defer src="explorer.js"></script>{scripts}<script defer src="{name}_explorer.js"></script></head>
<body><main><h1>Page</h1><div class="bw-explorer" data-explorer="{name}" {opens}></div></main></body></html>"""

# Where the keyboard is, and whether a reader can see that.
FOCUS = """() => {
  const e = document.activeElement, style = getComputedStyle(e);
  return {
    inside: !!e.closest('.bw-explorer'), name: e.dataset.action || e.dataset.chip || e.tagName,
    visible: style.outlineStyle !== 'none' || style.boxShadow !== 'none',
  };
}"""

# Whether the words beside the pointer stay in their drawing, are heard by nobody and cover no point that they tell of.
CLEAR = """box => {
  const drawing = box.closest("svg").getBoundingClientRect(), own = box.getBoundingClientRect(), chart = box.closest(".bw-chart");
  const told = [...box.querySelectorAll("text")].map(line => line.textContent).join();
  const mark = chart.marks.find(one => one.lines.join() === told), x = drawing.left + mark.x;
  return own.left >= drawing.left && own.right <= drawing.right && own.top >= drawing.top && own.bottom <= drawing.bottom
    && mark.ys.every(y => x < own.left || x > own.right || drawing.top + y < own.top || drawing.top + y > own.bottom)
    && box.ariaHidden === "true" && !box.closest("[aria-live]");
}"""


def number(value: float) -> str:
    """A number as the figures write it: `number` of explorer.js."""
    size = abs(value)
    if size <= 1e-12:
        return "0"
    if size < 1e-6:
        return "<0.000001"
    digits = 1 - math.floor(math.log10(size)) if size < 0.00995 else 3
    return ("\u2212" if value < 0 else "") + f"{size:.{digits}f}"


@contextlib.contextmanager
def explorer_opener(name: str, browser, folder: Path) -> Iterator[Callable]:
    """A function that opens the explorer from a folder; any error on the page fails the test.

    Its lists `errors` and `asked` hold what the pages complained of, and the addresses of their requests.
    """
    contexts, errors, asked = [], [], []
    shutil.copytree(WEB, folder, dirs_exist_ok=True)
    weights = networks.files_of((folder / f"{name}_explorer.js").read_text("utf-8"))
    for file in weights:
        networks.write(folder, file)
    engine = json.loads((WEB / "engine.json").read_text("utf-8")) if weights else []
    scripts = [f'<script defer src="{file}"></script>' for file in [*engine, *explorers.more_scripts(name)]]

    def opened(theme="light", width=1280, wait=True, head="", opens=0, attributes="", **settings):
        """opens: how many pairs, symbols or points are shown at first; None is what a page has, with these attributes."""
        text = PAGE.format(theme=theme, name=name, scripts="".join(scripts), head=head, opens=attributes if opens is None else f'data-opens="{opens}"')
        (folder / "page.html").write_text(text, "utf-8")
        context = browser.new_context(viewport={"width": width, "height": 900}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(STUCK * 1000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.on("request", lambda request: asked.append(request.url))
        page.goto((folder / "page.html").as_uri())
        if weights and wait and settings.get("java_script_enabled", True):
            page.wait_for_selector(".bw-explorer[data-state=ready]")
        return page

    opened.errors, opened.asked, opened.folder = errors, asked, folder
    yield opened
    for context in contexts:
        context.close()
    assert not errors, errors


def pages_with_explorer(folder) -> list[str]:
    """The pages on which the explorer is mounted."""
    mount = 'data-explorer="bijection"'
    found = (path for path in pages(folder) if mount in path.read_text("utf-8"))
    return [path.relative_to(folder).as_posix() for path in found]
