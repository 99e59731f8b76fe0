"""A headless Chromium that sees only the built book, and what it noticed on each page."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from _support import ROOT, in_ci

sys.path.insert(0, str(ROOT / "book"))
from serving import compressing, served, slow_line  # noqa: F401 - tests take them from here

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
]  # fmt: skip
SIZES = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
SCHEMES = ("light", "dark")
# The theme's own defects, none of them ours to mend: the name of its search and colour-mode
# buttons does not contain their visible label, and its header stands outside any landmark.
THEME_RULES = {"label-content-name-mismatch", "region"}

RENDERED = """async () => {
  if (document.fonts) await document.fonts.ready;
  const maths = [...document.querySelectorAll('.math')];
  if (maths.length && !(window.MathJax && MathJax.startup)) return 'MathJax did not load';
  if (maths.length) await MathJax.startup.promise;
  const raw = maths.filter(m => !m.querySelector('mjx-container'));
  const bad = document.querySelectorAll('mjx-merror, [data-mjx-error]');
  if (raw.length) return raw.length + ' formulas stayed TeX: ' + raw[0].textContent.slice(0, 80);
  if (bad.length) return bad.length + ' formulas with errors: ' + bad[0].textContent.slice(0, 80);
  return '';
}"""
FORMULAS = "() => document.querySelectorAll('mjx-container').length"
# An element that sticks out is fine only inside something that the reader can scroll sideways.
OVERFLOW = """() => {
  const width = document.documentElement.clientWidth, found = [];
  const page = document.documentElement.scrollWidth;
  if (page > width) found.push('the page is ' + page + ' px wide');
  const scrolls = e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX);
  for (const e of document.querySelectorAll('.bd-article *, main table, main pre')) {
    const box = e.getBoundingClientRect();
    if (box.width < 2 || box.height < 2 || box.right <= width + 1) continue;
    if (e.closest('mjx-assistive-mml')) continue;
    let up = e, inside = false;
    while ((up = up.parentElement) && up !== document.body) inside = inside || scrolls(up);
    if (!inside) found.push(e.tagName + '.' + e.className + ' ends at ' + Math.round(box.right));
  }
  return found.slice(0, 8);
}"""
# All rules that axe runs by itself, and the experimental ones that suit a page of text. Without
# `preload: false` axe asks for style sheets itself, and at a wrong address. The drawn glyphs of
# formulas are left out (they are hidden from screen readers, which get the MathML beside them).
AXE = """which => {
  const more = ['label-content-name-mismatch', 'p-as-heading', 'table-fake-caption', 'td-has-header'
  ];
  const rules = Object.fromEntries(more.map(id => [id, {enabled: true}]));
  const why = node => [...node.any, ...node.all, ...node.none].map(c => c.message).join('; ');
  const say = node => [node.target.join(' '), node.html.slice(0, 120), why(node)].join(' :: ');
  const context = {exclude: [['mjx-math']]}, colour = ['color-contrast', 'link-in-text-block'];
  if (which === 'structure') for (const id of colour) rules[id] = {enabled: false};
  const run = {rules, preload: false, resultTypes: ['violations']};
  if (which === 'colour') Object.assign(run, {runOnly: colour, rules: {}});
  return axe.run(context, run).then(
    found => found.violations.map(v => ({
      id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 4).map(say),
    })));
}"""


def chromium_path() -> str:
    """The Chromium that book/browser.py finds, or a skip with the reason; in CI a failure."""
    place = ROOT / "book" / "browser.py"
    spec = importlib.util.spec_from_file_location("bayeswind_book_browser", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = module.find()
    if path and Path(path).is_file():
        return path
    reason = (
        f"no Chromium ({path or 'none found'}), so no page was opened: run `python "
        "book/browser.py`, install the package `chromium`, or name one in BAYESWIND_CHROMIUM"
    )
    if in_ci():
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@contextmanager
def chromium():
    """A running browser, closed when the block ends."""
    from playwright.sync_api import sync_playwright

    path = chromium_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS, headless=True)
        yield browser
        browser.close()


@dataclass
class Seen:
    """What happened while a page was open."""

    outside: list[str] = field(default_factory=list)  # requests that would leave the site
    console: list[str] = field(default_factory=list)  # errors on the console
    crashes: list[str] = field(default_factory=list)  # uncaught exceptions
    failed: list[str] = field(default_factory=list)  # requests to the site without a good answer
    maths: str = ""
    formulas: int = 0
    overflow: list[str] = field(default_factory=list)
    axe: list[dict] = field(default_factory=list)
    theme: str = ""

    @property
    def troubles(self) -> list[str]:
        """Everything that a silent page would not have."""
        return self.outside + self.console + self.crashes + self.failed


class Reader:
    """A reader's window: a colour scheme, a size, and one site beyond which nothing is reached."""

    def __init__(self, browser, home: str, scheme: str = "light", size: str = "desktop"):
        self.home = home.rstrip("/") + "/"
        self.context = browser.new_context(
            viewport=SIZES[size], color_scheme=scheme, service_workers="block"
        )
        self.context.set_default_timeout(90_000)
        self.seen = Seen()
        self.context.route("**/*", self._gate)
        self.page = self.context.new_page()
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda e: self.seen.crashes.append(str(e)[:300]))
        self.page.on("response", self._on_response)
        self.page.on("requestfailed", self._on_failure)
        self.page.on("websocket", lambda s: self.seen.outside.append(s.url))

    def _gate(self, route):
        url = route.request.url
        if url.startswith((self.home, "data:", "blob:")):
            route.continue_()
        else:
            self.seen.outside.append(url)
            route.abort()

    def _on_console(self, message):
        if message.type == "error":
            self.seen.console.append(f"{message.text[:300]} ({message.location.get('url', '')})")

    def _on_response(self, response):
        if response.status >= 400 and not response.url.endswith("/favicon.ico"):
            self.seen.failed.append(f"{response.status} {response.url}")

    def _on_failure(self, request):
        if request.url.startswith(self.home) and request.failure != "net::ERR_ABORTED":
            self.seen.failed.append(f"{request.failure} {request.url}")

    def open(self, path: str) -> Seen:
        """Open a page of the site, wait until it is drawn, and start a new account of it."""
        self.seen = Seen()
        self.page.goto(self.home + path, wait_until="load")
        self.seen.maths = self.page.evaluate(RENDERED)
        self.seen.formulas = self.page.evaluate(FORMULAS)
        self.seen.theme = self.page.evaluate("() => document.documentElement.dataset.theme || ''")
        return self.seen

    def audit(self, rules: str = "all") -> Seen:
        """Measure the open page's width and run axe on it: all its rules, those on "structure", on "colour", or "none"."""
        from axe_playwright_python.base import AXE_SCRIPT

        self.seen.overflow = self.page.evaluate(OVERFLOW)
        if rules != "none":
            self.page.evaluate(AXE_SCRIPT)
            self.seen.axe = self.page.evaluate(AXE, rules)
        return self.seen

    def close(self):
        """Close the window."""
        self.context.close()
