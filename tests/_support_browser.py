"""A headless Chromium that sees only the built book, and what it noticed on each page."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from _support import STUCK, in_ci

from tools import browser
from tools.serving import compressing, served, slow_line  # noqa: F401 - tests take them from here

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # there is no other machine
]  # fmt: skip
SIZES = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
SCHEMES = ("light", "dark")
# The theme's own defects, none of them ours to mend: the name of its search and colour-mode
# buttons does not contain their visible label, and its header stands outside any landmark.
THEME_RULES = {"label-content-name-mismatch", "region"}

RENDERED = """async () => {
  if (document.fonts) await document.fonts.ready;
  const maths = [...document.querySelectorAll('.math')];
  const raw = maths.filter(m => !m.querySelector('math'));
  if (raw.length) return raw.length + ' formulas stayed TeX: ' + raw[0].textContent.slice(0, 80);
  if (maths.length && !document.fonts.check('16px "Bayeswind Math"')) return 'the font of the formulas did not come';
  if (maths.length && ![...document.fonts].some(f => /Bayeswind Math/.test(f.family) && f.status === 'loaded')) return 'no formula is in its font';
  return '';
}"""
# The landing page's story begins a moment after its game: `audit` takes parts of the page out while axe looks.
ALIVE = "() => !document.querySelector('.bw-scenes') || document.querySelector('.bw-alive .bw-scenes')"
FORMULAS = "() => document.querySelectorAll('.math').length"
# An element that sticks out is fine only inside something that the reader can scroll sideways.
OVERFLOW = """() => {
  const width = document.documentElement.clientWidth, found = [];
  const page = document.documentElement.scrollWidth;
  if (page > width) found.push('the page is ' + page + ' px wide');
  const scrolls = e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX);
  for (const e of document.querySelectorAll('.bd-article *, main table, main pre')) {
    const box = e.getBoundingClientRect();
    if (box.width < 2 || box.height < 2 || box.right <= width + 1) continue;
    let up = e, inside = false;
    while ((up = up.parentElement) && up !== document.body) inside = inside || scrolls(up);
    if (!inside) found.push(e.tagName + '.' + e.className + ' ends at ' + Math.round(box.right));
  }
  return found.slice(0, 8);
}"""
# What a reader takes for whole although it goes on: formulas, code, outputs, tables and their captions. What
# scrolls has to fade at its edge and to say so; a formula may not run beneath its number, nor a line begin
# with the full stop behind one; a line of code
# that fits the house's 72 columns is not broken on a desktop, and no line of code is cut anywhere.
CUT = """() => {
  const found = [], page = document.documentElement.clientWidth, desktop = page >= 1200;
  const seen = e => e.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true}) && e.getBoundingClientRect().width > 1;
  const all = what => [...document.querySelectorAll('.bd-article ' + what)].filter(seen);
  const goesOn = e => getComputedStyle(e).overflowX !== 'visible' && e.scrollWidth > e.clientWidth + 3;
  const cue = (e, sign) => getComputedStyle(e).maskImage !== 'none' && /scroll/.test(getComputedStyle(sign, '::after').content);
  const say = (what, e) => found.push(`${what}: ${e.textContent.trim().slice(0, 50)}`);
  for (const box of all('div.math')) {
    const formula = box.querySelector('.bw-set'), number = box.querySelector('.eqno');
    if (!formula) continue;
    const {left, right} = formula.getBoundingClientRect(), line = formula.parentElement;
    const out = [...formula.querySelectorAll('math')].map(m => m.getBoundingClientRect()).some(m => m.left < left - 2 || m.right > right + 2);
    if (goesOn(box) || ((out || goesOn(formula)) && !cue(formula, line))) say('a formula goes on without a sign', box);
    if (!number) continue;
    const [a, b] = [formula, number].map(e => e.getBoundingClientRect());
    if (b.left < 0 || b.right > page + 1) say('a number of a formula is cut', box);
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1) say('a formula and its number meet', box);
    if (goesOn(formula) && b.bottom > a.top + 1 && a.bottom > b.top + 1) say('a formula is cut for its number', box);
  }
  for (const word of all('.bw-plot svg text')) {
    const [a, b] = [word, word.closest('svg')].map(e => e.getBoundingClientRect());
    if (a.left < b.left - 2 || a.right > b.right + 2) say('a word of a drawing is cut', word);
  }
  for (const drawing of all('.bw-plot svg')) {
    const words = [...drawing.querySelectorAll('text')].map(e => [e, e.getBoundingClientRect()]).filter(([e, b]) => b.width && e.textContent.trim() && Math.abs(e.getCTM().b) < 0.1);
    const onOneLine = (a, b) => Math.abs(a.top - b.top) < 2 && Math.abs(a.bottom - b.bottom) < 2;
    words.forEach(([word, a], i) => words.slice(i + 1).forEach(([, b]) => {
      if (onOneLine(a, b) && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2) say('two words of a drawing meet', word);
    }));
  }
  // A formula is a box of its own: a line could end before the comma behind it, or behind a bracket before it.
  for (const span of all('span.math')) {
    const boxes = [...span.querySelectorAll('math')].map(m => m.getBoundingClientRect());
    for (const [side, at] of [['nextSibling', 0], ['previousSibling', -1]]) {
      const words = span[side]?.nodeType === Node.TEXT_NODE ? span[side].data : '';
      if (!/[^\\s\\u2010-\\u2015-]/.test(words.at(at) ?? ' ')) continue;
      const letter = document.createRange(), first = at ? words.length - 1 : 0;
      letter.setStart(span[side], first);
      letter.setEnd(span[side], first + 1);
      const there = letter.getBoundingClientRect();
      const here = boxes.at(at ? 0 : -1);
      const beside = at ? there.left < here.right - 1 && there.bottom > here.top + 2 : there.right > here.left + 1 && there.top < here.bottom - 2;
      if (!beside) say('a line ends at a formula', span.parentElement);
    }
  }
  for (const box of all('pre')) {
    const lines = [...box.querySelectorAll(':scope > span[id^="line-"]')];
    if (lines.length || box.closest('.cell_output') ? goesOn(box) : goesOn(box) && !cue(box, box.parentElement)) say('a text is cut', box);
    const high = Math.min(...lines.map(line => line.getBoundingClientRect().height));
    for (const line of desktop ? lines : []) {
      if (line.textContent.trimEnd().length <= 72 && line.getBoundingClientRect().height > 1.5 * high) say('a line is broken', line);
    }
    for (const line of box.closest('.cell_output') ? lines : []) {  // words go on below, columns would not be read
      if (line.textContent.trim().split(/ {2,}/).length > 2 && line.getBoundingClientRect().height > 1.5 * parseFloat(getComputedStyle(line).lineHeight)) say('columns are broken', line);
    }
  }
  for (const cell of all(':is(td, th)')) {  // a table that does not fit is told row by row
    const box = cell.closest('.bw-table, div.bw-ledger, table'), room = Math.min(page, box.getBoundingClientRect().right) + 2;
    if (!cell.closest('.bw-stacked thead, .bw-data') && cell.getBoundingClientRect().right > room) say('a cell is cut', cell);
  }
  for (const box of all('table, .bw-table, .bw-set, pre')) {
    if (getComputedStyle(box).maskImage !== 'none' && box.scrollWidth <= box.clientWidth + 3) say('a side fades and nothing goes on', box);
  }
  for (const caption of all('caption')) {
    const [own, table] = [caption, caption.parentElement].map(e => getComputedStyle(e).display);
    if (table === 'table' && own !== 'table-caption') say('a caption stands in a cell', caption);
    const {left, right} = caption.getBoundingClientRect();
    let room = page, up = caption;
    while ((up = up.parentElement)) if (getComputedStyle(up).overflowX !== 'visible') room = Math.min(room, up.getBoundingClientRect().right);
    if (left < -1 || right > room + 1 || caption.scrollWidth > caption.clientWidth + 1) say('a caption is cut', caption);
  }
  return [...new Set(found)].slice(0, 200);
}"""
# How a page's displayed formulas stand: which go on beyond their box, meet their number, are too small.
STAND = """() => {
  const page = document.documentElement.clientWidth, found = {seen: 0, goesOn: [], meets: [], small: [], below: 0};
  for (const box of document.querySelectorAll('.bd-article div.math')) {
    if (!box.checkVisibility() || box.getBoundingClientRect().width < 1) continue;
    const rows = box.querySelector('.bw-set'), number = box.querySelector('.eqno'), around = box.getBoundingClientRect();
    found.seen += 1;
    const marks = [...rows.querySelectorAll('math')].map(m => m.getBoundingClientRect());
    const right = Math.max(...marks.map(m => m.right)), left = Math.min(...marks.map(m => m.left));
    const signed = getComputedStyle(rows).maskImage !== 'none' && /scroll/.test(getComputedStyle(rows.parentElement, '::after').content);
    if ((right > around.right + 2 || left < around.left - 2 || rows.scrollWidth > rows.clientWidth + 3) && !signed) found.goesOn.push(box.dataset.tex);
    if (parseFloat(getComputedStyle(rows).fontSize) < 10.9) found.small.push(box.dataset.tex);
    if (!number) continue;
    const n = number.getBoundingClientRect();
    if (n.right > page || marks.some(m => m.right > n.left && m.left < n.right && m.bottom > n.top + 1 && m.top < n.bottom - 1)) found.meets.push(box.dataset.tex);
    found.below += n.top > Math.max(...marks.map(m => m.bottom)) - 8;
  }
  const out = [...document.querySelectorAll('.bd-article span.math math')].filter(m => m.getBoundingClientRect().right > page)
    .filter(m => !m.closest('table, .bw-table, .bw-set'));
  found.out = out.map(m => m.textContent);
  return found;
}"""
# All rules that axe runs by itself, and the experimental ones that suit a page of text. Without
# `preload: false` axe asks for style sheets itself, and at a wrong address.
# On another width the page has the same elements, shown or hidden: "layout" is what depends on that.
# Comparing colours takes most of the time. Contrast depends on an element's colours, on those that lie
# under it, and on size and weight of its letters: elements that agree in all of this look alike, and of
# each look one is compared (`kinds` are the looks known from other pages). Formulas have the colour of
# the text around them and are left out.
# What stands around the article is the same on all pages: `frame` says whether to look at it too.
# axe first takes in the whole page, whatever it is asked to look at. So what holds no new look is taken out for as long as
# colours are compared. Nine of ten elements of a chapter are the coloured words of its code and the signs of its
# formulas, which have no structure: once colours were compared, code becomes plain text, and formulas that need
# not be scrolled become empty (so "structure" and "layout" come last on a page).
AXE = """async ({structure, layout, colour, frame, kinds}) => {
  const more = ['label-content-name-mismatch', 'p-as-heading', 'table-fake-caption', 'td-has-header'
  ];
  const colours = ['color-contrast', 'link-in-text-block'], found = [], seen = new Set(kinds);
  const why = node => [...node.any, ...node.all, ...node.none].map(c => c.message).join('; ');
  const say = node => [node.target.join(' '), node.html.slice(0, 120), why(node)].join(' :: ');
  const run = async (context, settings) => {
    const told = await axe.run(context, {preload: false, resultTypes: ['violations'], ...settings});
    found.push(...told.violations.map(v => ({
      id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 4).map(say),
    })));
  };
  if (colour) {
    const grounds = new Map();
    const ground = e => {  // all that is drawn under an element, from the page up
      if (!e) return '';
      if (!grounds.has(e)) {
        const s = getComputedStyle(e), clear = s.backgroundColor === 'rgba(0, 0, 0, 0)' && s.backgroundImage === 'none';
        const lifted = s.position === 'static' || s.position === 'relative' ? '' : `${s.position} ${e.className}`;
        const own = [clear ? '' : s.backgroundColor + s.backgroundImage, s.opacity === '1' ? '' : s.opacity, lifted].join('');
        grounds.set(e, ground(e.parentElement) + (own && `|${own}`));
      }
      return grounds.get(e);
    };
    const letters = e => {
      const s = getComputedStyle(e);
      return [s.color, s.fontSize, s.fontWeight, s.visibility, s.textDecorationLine, s.textShadow].join(' ');
    };
    const look = e => [
      letters(e), ground(e), e.matches('a[href]') ? `link in ${letters(e.parentElement)}` : '',
      e.closest(':disabled, [aria-disabled=true]') ? 'disabled' : '',
    ].join('; ');
    const says = e => e.matches('input, select, textarea') || [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    const place = frame ? document.body : document.querySelector('.bd-article') || document.body;
    for (const e of place.querySelectorAll('*')) {
      if (e.closest('math, svg, script, style') || !says(e) || !e.getClientRects().length) continue;
      if (seen.has(look(e))) continue;
      seen.add(look(e));
      e.dataset.look = 'new';
    }
    const chosen = {include: [['[data-look=new]']], exclude: [['math']]};
    const holds = e => e.matches('[data-look=new], .bw-explorer') || e.querySelector('[data-look=new], .bw-explorer, section');
    const known = [...document.querySelectorAll('.bd-article section > *')].filter(e => !holds(e)).map(e => [e, document.createComment('')]);
    for (const [e, hole] of known) e.replaceWith(hole);
    if (document.querySelector('[data-look=new]')) await run(chosen, {runOnly: colours});
    for (const [e, hole] of known) hole.replaceWith(e);
    for (const e of document.querySelectorAll('[data-look=new]')) delete e.dataset.look;
  }
  if (structure || layout) {
    const lines = '.highlight pre > span[id], .highlight pre:not(:has(> span[id]))'; // a line stays an element
    for (const code of document.querySelectorAll(lines)) code.textContent = code.textContent;
    for (const math of document.querySelectorAll('math')) if (!math.closest('.bw-wide')) math.replaceChildren();
  }
  if (structure) {
    const rules = Object.fromEntries(more.map(id => [id, {enabled: true}]));
    for (const id of colours) rules[id] = {enabled: false};
    await run(document, {rules});
  }
  if (layout) await run(document, {runOnly: [
    'aria-hidden-focus', 'button-name', 'input-button-name', 'label', 'link-name', 'nested-interactive',
    'scrollable-region-focusable', 'select-name',
  ]});
  return {found, kinds: [...seen]};
}"""


FRAMES = "n => new Promise(done => { const step = () => n-- ? requestAnimationFrame(step) : done(); step(); })"


def frames(page, number: int) -> None:
    """Wait until a page has been drawn so many times more: on a busy machine that takes longer."""
    page.evaluate(FRAMES, number)


def swipe(page, start: tuple[float, float], by: tuple[float, float]) -> None:
    """A finger put down at a place of the window, and moved: as a browser sees it, scrolling included."""
    finger = page.context.new_cdp_session(page)
    for step in range(9):
        place = {axis: s + d * step / 8 for axis, s, d in zip("xy", start, by, strict=True)}
        kind = "touchMove" if step else "touchStart"
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [place]})
        frames(page, 2)
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    frames(page, 2)


def middle(locator) -> tuple[float, float]:
    """The middle of an element, in the window."""
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@contextmanager
def reading(browser, home: str, path: str):
    """A reader of one page, whose console was silent in the end."""
    reader = Reader(browser, home)
    reader.open(path)
    yield reader
    assert not reader.seen.troubles
    reader.close()


def browser_path(name: str) -> str:
    """The browser that book/tools/browser.py finds, or a skip with the reason; in CI a failure."""
    path = browser.find(name)
    if path and Path(path).is_file():
        return path
    reason = (
        f"no {name.title()} ({path or 'none found'}), so no page was opened: run `python "
        f"book/tools browser`, install the package `{browser.PACKAGES[name]}`, or name one in BAYESWIND_{name.upper()}"
    )
    if in_ci():
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@contextmanager
def chromium():
    """A running browser, closed when the block ends."""
    from playwright.sync_api import sync_playwright

    path = browser_path("chromium")
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
    cut: list[str] = field(default_factory=list)
    stand: dict[int, dict] = field(default_factory=dict)  # what STAND found, by the window's width
    axe: list[dict] = field(default_factory=list)
    theme: str = ""
    address: str = ""  # of the page

    @property
    def troubles(self) -> list[str]:
        """Everything that a silent page would not have."""
        return self.outside + self.console + self.crashes + self.failed


class Reader:
    """A reader's window: a colour scheme, a size, and one site beyond which nothing should be asked for."""

    def __init__(self, browser, home: str, scheme: str = "light", size: str = "desktop"):
        self.home = home.rstrip("/") + "/"
        self.context = browser.new_context(
            viewport=SIZES[size], color_scheme=scheme, service_workers="block"
        )
        self.context.set_default_timeout(STUCK * 1000)
        self.seen, self.kinds = Seen(), {}  # and, by theme, the looks whose colours were compared
        self.page = self.context.new_page()
        self.page.on("request", self._on_request)  # a route would make each file wait for this process
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda e: self.seen.crashes.append(str(e)[:300]))
        self.page.on("response", self._on_response)
        self.page.on("requestfailed", self._on_failure)
        self.page.on("websocket", lambda s: self.seen.outside.append(s.url))

    def _on_request(self, request):
        if not request.url.startswith((self.home, "data:", "blob:")):
            self.seen.outside.append(request.url)

    def _on_console(self, message):
        if message.type == "error" and not message.location.get("url", "").endswith("/favicon.ico"):
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
        self.page.wait_for_function(ALIVE)
        return self.look()

    def switch(self, scheme: str) -> Seen:
        """Turn the reader's machine dark or light while the page is open, and start a new account."""
        self.seen = Seen()
        self.page.emulate_media(color_scheme=scheme)
        self.page.wait_for_function("s => document.documentElement.dataset.theme === s", arg=scheme)
        self.page.evaluate("() => document.getAnimations().forEach(a => a.finish())")
        return self.look()

    def look(self) -> Seen:
        """Note the state of the formulas and the theme of the open page."""
        self.seen.address = self.page.url
        self.seen.maths = self.page.evaluate(RENDERED)
        self.seen.formulas = self.page.evaluate(FORMULAS)
        self.seen.theme = self.page.evaluate("() => document.documentElement.dataset.theme || ''")
        return self.seen

    def audit(self, *rules: str) -> Seen:
        """Measure what is cut on the open page, and run axe on it: its rules on "structure", "layout", "colour"."""
        from axe_playwright_python.base import AXE_SCRIPT

        self.seen.overflow = self.page.evaluate(OVERFLOW)
        self.seen.cut = self.page.evaluate(CUT)
        if rules:
            if not self.page.evaluate("() => 'axe' in window"):
                self.page.evaluate(AXE_SCRIPT)
            kinds = self.kinds.setdefault(self.seen.theme, [])
            plan = {rule: rule in rules for rule in ("structure", "layout", "colour")}
            told = self.page.evaluate(AXE, plan | {"frame": not kinds, "kinds": kinds})
            self.seen.axe = told["found"]
            if "colour" in rules:
                self.kinds[self.seen.theme] = [*told["kinds"], "the frame of the page"]
        return self.seen

    def close(self):
        """Close the window."""
        self.context.close()
