"""The bijection explorer's page, moved by its own controls and read by its own words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from _support import pages

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
