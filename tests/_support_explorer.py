"""Explorers on a page of their own, and the bijection explorer's moved by its own controls."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from _support import HANGS, ROOT, pages

from tools import networks  # noqa: E402

WEB = ROOT / "bayeswind_lib" / "widgets" / "web"  # scripts that the pages share with notebooks
PAGE = """<!DOCTYPE html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>Explorer</title>
<link rel="stylesheet" href="explorer.css"><link rel="stylesheet" href="{name}_explorer.css">
<style>html[data-theme=dark] {{ background: #14181e; color: #eee }} body {{ margin: 12px }}</style>
{head}<script defer src="explorer.js"></script>{scripts}<script defer src="{name}_explorer.js"></script></head>
<body><main><h1>Page</h1><div class="bw-explorer" data-explorer="{name}" {opens}></div></main></body></html>"""

MOUNT = '.bw-explorer[data-explorer="bijection"]'
# Everything that the explorer shows: words, numbers and shapes.
STATE = """root => ({
  status: root.querySelector('[role=status]').textContent,
  pairs: root.querySelector('.bw-pairs').textContent,
  entropy: root.dataset.entropy,
  pressed: root.querySelector('[data-chip][aria-pressed=true]')?.textContent ?? '',
  chances: [...root.querySelectorAll('[data-chip^=value]')].map(e => e.getAttribute('aria-label')),
  pictures: [...root.querySelectorAll('svg')].map(e => e.getAttribute('aria-label')),
  heights: [...root.querySelectorAll('.bw-bar')].map(
    e => e.style.visibility === 'hidden' ? 0 : parseFloat(e.style.height)),
  path: root.querySelector('.bw-stairs').getAttribute('d'),
})"""
CONTROLS = """root => [...root.querySelectorAll('input, button:not([data-chip]), select, a')].map(
  e => e.dataset.action || e.type + (e.type === 'radio' ? ' ' + e.value : ''))"""
# Where the keyboard is, and whether a reader can see that.
FOCUS = """() => {
  const e = document.activeElement, style = getComputedStyle(e);
  return {
    inside: !!e.closest('.bw-explorer'), name: e.dataset.action || e.dataset.chip || e.tagName,
    visible: style.outlineStyle !== 'none' || style.boxShadow !== 'none',
  };
}"""
# Choose a size and a mode, then ask some keys: `asks` holds the place of a key among those open.
PLAY = """(root, {size, replacement, asks}) => {
  const slider = root.querySelector('input[type=range]');
  slider.value = size;
  slider.dispatchEvent(new Event('input', {bubbles: true}));
  const mode = replacement ? 'replacement' : 'distinct';
  root.querySelector(`input[value=${mode}]`).click();
  for (const ask of asks) {
    const open = [...root.querySelectorAll('[data-chip^=key]:not([disabled])')];
    open[ask % open.length].click();
    root.querySelector('[data-action=next]').click();
  }
  return [...root.querySelectorAll('[data-chip^=key]')].length;
}"""


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
    engine = json.loads((WEB / "engine.json").read_text("utf-8")) if weights else ()
    scripts = [f'<script defer src="{file}"></script>' for file in engine]

    def opened(theme="light", width=1280, wait=True, head="", opens=0, **settings):
        """opens: how many pairs, symbols or points are shown at first; None is what a page has."""
        text = PAGE.format(theme=theme, name=name, scripts="".join(scripts), head=head, opens="" if opens is None else f'data-opens="{opens}"')
        (folder / "page.html").write_text(text, "utf-8")
        context = browser.new_context(viewport={"width": width, "height": 900}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(HANGS * 1000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.on("request", lambda request: asked.append(request.url))
        page.goto((folder / "page.html").as_uri())
        if weights and wait and settings.get("java_script_enabled", True):
            page.wait_for_selector(".bw-explorer[data-state=ready]")
        return page

    opened.errors, opened.asked = errors, asked
    yield opened
    for context in contexts:
        context.close()
    assert not errors, errors


def pages_with_explorer(folder) -> list[str]:
    """The pages on which the explorer is mounted."""
    mount = 'data-explorer="bijection"'
    found = (path for path in pages(folder) if mount in path.read_text("utf-8"))
    return [path.relative_to(folder).as_posix() for path in found]


@dataclass(frozen=True)
class Shown:
    """What the explorer shows: keys (the one asked now last), values, probabilities, entropy."""

    keys: list[int]
    values: list[int]
    chances: list[float]
    entropy: float
    heights: list[float]


def state(page) -> dict:
    """Everything that the explorer shows, as it stands on the page."""
    return page.locator(MOUNT).first.evaluate(STATE)


def play(page, **settings) -> Shown:
    """Move the controls as told, then read the page."""
    root = page.locator(MOUNT).first
    root.evaluate(PLAY, settings)
    now = root.evaluate(STATE)
    pairs = [tuple(map(int, pair)) for pair in re.findall(r"(\d+) \u2192 (\d+)", now["pairs"])]
    chances = [re.search(r"probability ([\d.]+)", words) for words in now["chances"]]
    return Shown(
        keys=[key for key, _ in pairs] + [int(now["pressed"])],
        values=[value for _, value in pairs],
        chances=[float(match[1]) if match else 0.0 for match in chances],
        entropy=float(now["entropy"]),
        heights=now["heights"],
    )
