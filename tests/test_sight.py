"""What a reader sees of every live figure, on its own page, at the widths of phones, tablets and screens.

Nothing sticks out or is cut, nothing covers a control, and what a control changes can be seen from that control.
"""

from __future__ import annotations

import re

import pytest
from _support import HANGS, pages
from _support_browser import OVERFLOW, SIZES, Reader, frames

pytestmark = pytest.mark.xdist_group("browser")
WIDTHS = (320, 390, 768, 1024, 1180, 1440)
CANARY = "chapters/08_recurrent.html"  # a page with one live figure that keeps still, on which faults are planted
PHONE = {"width": 390, "height": 660}
LIVE = ".bw-explorer, .bw-game"
# What has no live figure in it goes while a page is tried at many widths: laying out all of a chapter is most of the time.
ALONE = f".alone .bd-article section > :not(:has({LIVE}), {LIVE}, section, h1) {{ display: none }}"
READY = "root => root.dataset.mounted !== 'true' || !root.querySelector('progress:not([hidden])')"
WORDS, LINES = 4.5, 1.5  # the least contrast in a drawing, in the dark
# What can be moved: controls, and parts of drawings that take a hand or a key.
CONTROLS = "input, button, select, [role=button], [role=slider], [tabindex='0'][data-key]"
SEEN = "e => e.checkVisibility({visibilityProperty: true}) && e.getBoundingClientRect().width > 1"

# Words of drawings that do not fit into them, and boxes that hide a part of their words.
CUT = """(root, SEEN) => {
  const seen = eval(SEEN), found = [];
  for (const word of root.querySelectorAll('svg text')) {
    if (!seen(word) || !word.textContent.trim()) continue;
    const [a, b] = [word, word.ownerSVGElement].map(e => e.getBoundingClientRect());
    const view = word.closest('[data-zoomed]'); // what is zoomed into goes on outside the window
    if (!view && (a.left < b.left - 2 || a.right > b.right + 2 || a.top < b.top - 3 || a.bottom > b.bottom + 3)) found.push('drawing: ' + word.textContent.trim());
  }
  for (const box of root.querySelectorAll('button, label, legend, output, p, td, th, li, span, h3, summary')) {
    if (!seen(box) || !box.textContent.trim()) continue;
    const style = getComputedStyle(box);
    if (style.overflowX !== 'visible' && style.overflowX !== 'auto' && box.scrollWidth > box.clientWidth + 2 && box.clientWidth > 2) found.push('words: ' + box.textContent.trim().slice(0, 40));
  }
  return found.slice(0, 6);
}"""

# Controls on whose middle something else lies when they have been scrolled to the middle of the window.
COVERED = """(root, [CONTROLS, SEEN]) => {
  const seen = eval(SEEN), found = [];
  for (const e of root.querySelectorAll(CONTROLS)) {
    if (!seen(e) || e.disabled || e.closest('[inert]') || getComputedStyle(e).pointerEvents === 'none' || e.closest('svg')) continue;
    e.scrollIntoView({block: 'center', behavior: 'instant'});
    const {left, top, width, height} = e.getBoundingClientRect();
    const there = document.elementFromPoint(left + width / 2, top + height / 2);
    const own = there && (e.contains(there) || [...(e.labels || [])].some(label => label.contains(there)));
    if (!own) found.push(`${e.dataset.action || e.name || e.id || e.textContent.trim().slice(0, 20)} under ${there?.tagName}.${there?.className?.baseVal ?? there?.className}`);
  }
  return found.slice(0, 6);
}"""

# Move each control from where a thumb is, in the lower part of a phone's window: something drawn has to change in that
# window. Returns the controls that changed what is drawn, but nothing that could be seen. Where the box is lower than
# the control (a drawing above sticks to the top), this is the drawing.
UNSEEN = """async (root, [CONTROLS, SEEN]) => {
  const seen = eval(SEEN), found = [], wait = n => new Promise(done => { const step = () => n-- ? requestAnimationFrame(step) : done(); step(); });
  const name = e => e.dataset.action || e.dataset.control || e.dataset.chip || e.dataset.head || e.getAttribute('aria-label') || e.name + e.value || e.id;
  const controls = () => [...root.querySelectorAll(CONTROLS)].filter(e => seen(e) && !e.disabled && !e.closest('svg, [hidden], details:not([open])') && e.getAttribute('aria-disabled') !== 'true');
  const marks = () => [...root.querySelectorAll('svg *, .bw-bar, td, canvas, [style*="--"], .bw-status, .bw-told')].filter(e => !e.children.length && seen(e));
  const looks = e => e.outerHTML + JSON.stringify(e.getBoundingClientRect().toJSON());
  const move = e => {
    if (e.type === 'range') { e.value = +e.value === +e.max ? e.min : +e.value + (+e.step || 1); }
    else if (e.tagName === 'SELECT') e.selectedIndex = (e.selectedIndex + 1) % e.options.length;
    else if (e.type === 'number') e.value = +e.value + 1;
    else if (e.getAttribute('role') === 'slider') return e.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));
    else return e.click();
    for (const kind of ['input', 'change']) e.dispatchEvent(new Event(kind, {bubbles: true}));
  };
  const done = new Set();
  for (;;) {
    const e = controls().find(one => !done.has(name(one)));
    if (!e || done.size > 60) break;
    done.add(name(e));
    if ((e.type === 'radio' && e.checked) || /share|tour|copy|reset|load/.test(e.dataset.action || '')) continue;
    const box = e.getBoundingClientRect();
    scrollBy({top: box.bottom - innerHeight + 60, behavior: 'instant'});
    await wait(2);
    const before = marks().map(looks);
    move(e);
    let changed = [];
    for (let i = 0; i < 6 && !changed.length; i++) {
      await wait(1);
      changed = marks().filter((mark, i) => looks(mark) !== before[i]);
    }
    if (!changed.length) continue; // that a control does something is another test's question
    const at = e.getBoundingClientRect(), bar = 56; // in the window as it stands, or in one that holds both
    const visible = changed.some(mark => { const b = mark.getBoundingClientRect();
      const fits = Math.max(b.bottom, at.bottom) - Math.min(b.top, at.top) < innerHeight - bar - 20;
      return (b.width > 0 || b.height > 0) && (fits || b.bottom > bar && b.top < innerHeight); });
    if (!visible) found.push(name(e));
  }
  return found;
}"""

# Controls that look the same with the keyboard's focus on them: nothing in them, or around a field, gets an outline, a
# shadow or another line.
UNMARKED = """(root, SEEN) => {
  const seen = eval(SEEN), found = [];
  const edge = node => { const s = getComputedStyle(node); return [s.outlineStyle === 'none' || s.outlineWidth === '0px' ? '' : s.outline, s.boxShadow, s.stroke, s.strokeWidth].join(); };
  const looks = e => [e, ...e.querySelectorAll('*'), e.closest('label')].map(node => node && edge(node)).join('|');
  for (const e of root.querySelectorAll('a[href], button, input, select, summary, textarea, [tabindex]')) {
    if (e.tabIndex < 0 || !seen(e) || e.disabled || e.closest('[inert]')) continue;
    document.activeElement.blur();
    const before = looks(e), name = e.dataset.action || e.dataset.control || e.getAttribute('aria-label') || e.id || e.textContent.trim() || e.outerHTML.slice(0, 60);
    e.focus({focusVisible: true});
    if (document.activeElement === e && looks(e) === before) found.push(name.slice(0, 60));
  }
  return found;
}"""

# Words and lines of drawings that are nearly the colour of what lies under them: [kind, words, contrast]. Under a word lies what was
# drawn before it and holds its middle, and then the page; a line is held against the page, its colour alone: how faint an arc is says how little flows.
PALE = """(root, [SEEN, LEAST]) => {
  const seen = eval(SEEN), found = [], pen = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const known = new Map();
  const rgba = css => {
    if (!known.has(css)) { pen.clearRect(0, 0, 1, 1); pen.fillStyle = css; pen.fillRect(0, 0, 1, 1); known.set(css, [...pen.getImageData(0, 0, 1, 1).data].map(v => v / 255)); }
    return known.get(css);
  };
  const over = ([r, g, b, a], below, more = 1) => [r, g, b].map((v, i) => a * more * v + (1 - a * more) * below[i]);
  const light = c => c.slice(0, 3).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a, b) => { const [low, high] = [light(a), light(b)].sort((x, y) => x - y); return (high + 0.05) / (low + 0.05); };
  const faint = (e, end) => { let all = 1; for (; e && e !== end; e = e.parentElement) all *= +getComputedStyle(e).opacity; return all; };
  const page = e => e ? over(rgba(getComputedStyle(e).backgroundColor), page(e.parentElement)) : [1, 1, 1];
  for (const svg of root.querySelectorAll('svg')) {
    if (!seen(svg) || svg.parentElement.closest('svg')) continue;
    const ground = page(svg), drawn = [...svg.querySelectorAll('rect, circle, ellipse, path, line, polyline, polygon, text')].filter(e => seen(e) || e.matches('line, path'));
    const shapes = [];
    for (const e of drawn) {
      if (e.closest('defs, .bw-wake')) continue;
      const style = getComputedStyle(e), box = e.getBoundingClientRect();
      if (style.visibility !== 'visible' || style.display === 'none') continue;
      if (e.tagName !== 'text') {
        if (style.fill !== 'none' && !style.fill.startsWith('url')) shapes.push([e, box, over.bind(null, rgba(style.fill)), +style.fillOpacity * faint(e, svg)]);
        if (style.fill !== 'none' || style.stroke === 'none' || style.stroke.startsWith('url') || !(box.width + box.height)) continue;
        const ratio = contrast(over(rgba(style.stroke), ground), ground);
        if (ratio < LEAST[1]) found.push(['line', e.getAttribute('class') || e.outerHTML.slice(0, 60), +ratio.toFixed(2)]);
        continue;
      }
      if (!e.textContent.trim()) continue;
      const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
      let under = ground;
      for (const [shape, b, paint, more] of shapes) {
        if (x < b.left || x > b.right || y < b.top || y > b.bottom) continue;
        const point = new DOMPoint(x, y).matrixTransform(shape.getScreenCTM().inverse());
        if (shape.isPointInFill(point)) under = paint(under, more);
      }
      if (style.paintOrder.startsWith('stroke') && style.stroke !== 'none') under = over(rgba(style.stroke), under);
      const ratio = contrast(over(rgba(style.fill), under, +style.fillOpacity * faint(e, svg)), under);
      if (ratio < LEAST[0]) found.push(['word', e.textContent.trim(), +ratio.toFixed(2)]);
    }
  }
  return found;
}"""


# Names that two elements have, once all figures are there; those of theorems and exercises are their extensions'.
TWICE = """() => { const names = [...document.querySelectorAll('[id]')].map(e => e.id).filter(name => !/^proof$|^(proof|exercise|solution)-content$/.test(name));
  return names.filter((name, i) => names.indexOf(name) !== i); }"""


def live_pages(site) -> list[str]:
    """Pages of the book with a live figure."""
    texts = {page.relative_to(site).as_posix(): page.read_text("utf-8") for page in pages(site)}
    return sorted(name for name, text in texts.items() if re.search(r'class="bw-(explorer|game)\b', text))


def figures(window: Reader) -> list:
    """The live figures of the open page, each mounted and its network here."""
    found = []
    for figure in window.page.locator(LIVE).all():
        if not figure.is_visible():
            continue
        figure.scroll_into_view_if_needed()
        handle = figure.element_handle()
        window.page.wait_for_function(READY, arg=handle, timeout=HANGS * 1000)
        found.append(handle)
    return found


def name_of(figure) -> str:
    return figure.evaluate("root => root.dataset.explorer || root.className.split(' ')[0]")


@pytest.fixture
def window(browser, compressing_home):
    """A window in the dark, in front of a keyboard."""
    window = Reader(browser, compressing_home, "dark", "desktop")
    window.page.emulate_media(reduced_motion="reduce")
    yield window
    window.close()


@pytest.fixture(scope="module")
def looked(browser, compressing_home, site):
    """{page: (what at_night, troubles, unseen and TWICE found)}: a page is opened once, and looked at in this order."""
    window, found = Reader(browser, compressing_home, "dark", "desktop"), {}
    window.page.emulate_media(reduced_motion="reduce")
    for name in live_pages(site):
        shown = opened(window, name)
        found[name] = at_night(window, shown), troubles(window, shown), unseen(window, shown), window.page.evaluate(TWICE)
        assert not window.seen.troubles, (name, window.seen.troubles)
    window.close()
    return found


def collect(looked: dict, part: int) -> dict:
    """What was found in one part of the visits, by page."""
    return {name: parts[part] for name, parts in looked.items() if parts[part]}


def opened(window: Reader, name: str, style: str = "") -> list:
    """A page, opened in the dark on a desktop, and its figures."""
    window.page.set_viewport_size(SIZES["desktop"])
    window.page.emulate_media(color_scheme="dark")
    window.open(name)
    shown = figures(window)
    window.page.add_style_tag(content=f"* {{ transition: none !important }} {ALONE} {style}")
    return shown


def troubles(window: Reader, shown: list, widths=WIDTHS) -> dict:
    """{width: what sticks out, is cut or covered} of the open page, whole at the first width, its figures at all of them."""
    window.switch("light")
    found, alone = {}, "on => document.documentElement.classList.toggle('alone', on)"
    for width in widths:
        window.page.evaluate(alone, width != widths[0])
        window.page.set_viewport_size({"width": width, "height": 800})
        frames(window.page, 4)
        words = window.page.evaluate(OVERFLOW)
        for figure in shown:
            words += [f"{name_of(figure)}: {w}" for w in [*figure.evaluate(CUT, SEEN), *figure.evaluate(COVERED, [CONTROLS, SEEN])]]
        if words:
            found[width] = words
    window.page.evaluate(alone, False)
    return found


def test_nothing_sticks_out_is_cut_or_covered_at_any_width(looked):
    assert (found := collect(looked, 1)) == {}, found


@pytest.mark.parametrize(("style", "what"), [
    (".bw-explorer { min-width: 500px }", "wide"),
    (".bw-explorer svg text { font-size: 40px !important }", "drawing: "),
    (".bw-explorer button { overflow: hidden; width: 2rem; white-space: nowrap }", "words: "),
    (".bw-explorer::after { content: ''; position: fixed; inset: 0; z-index: 99 }", " under "),
])  # fmt: skip
def test_what_sticks_out_is_cut_or_covered_is_noticed(window, style, what):
    found = troubles(window, opened(window, CANARY, style), [390])
    assert any(what in words for words in found[390]), found


def unseen(window: Reader, shown: list) -> dict:
    """{figure: controls whose effect is out of sight} of the open page on a phone."""
    window.page.set_viewport_size(PHONE)
    frames(window.page, 6)
    found = {name_of(figure): figure.evaluate(UNSEEN, [CONTROLS, SEEN]) for figure in shown}
    return {figure: controls for figure, controls in found.items() if controls}


def test_what_a_control_changes_is_seen_from_it(looked):
    assert (found := collect(looked, 2)) == {}, found


def test_an_effect_a_screen_away_is_noticed(window):
    """The drawings below their controls and not sticking to the window, as they once were, and some space between."""
    away = ".bw-explorer > .bw-chart { order: 9 !important; position: static !important; margin-top: 40rem !important }"
    assert unseen(window, opened(window, CANARY, away + " .bw-explorer > .bw-status { order: 9 !important; }"))["hazard"]


def at_night(window: Reader, shown: list) -> list:
    """Controls of the open page's figures without a mark of the focus, and what is too pale in their drawings."""
    window.page.keyboard.press("Tab")
    pale = [[name_of(f), *told] for f in shown for told in f.evaluate(PALE, [SEEN, [WORDS, LINES]])]
    unmarked = [[name_of(f), "unmarked", told] for f in shown for told in f.evaluate(UNMARKED, SEEN)]
    window.page.evaluate("document.activeElement.blur()")
    return pale + unmarked


def test_the_focus_is_marked_and_drawings_are_read_in_the_dark(looked):
    assert (found := collect(looked, 0)) == {}, found


@pytest.mark.parametrize(("style", "what"), [
    (".bw-explorer :focus-visible { outline: none !important; box-shadow: none !important }", "unmarked"),
    (".bw-explorer svg text { fill: #20262e !important }", "word"),
    (".bw-explorer svg path { stroke: #20262e !important }", "line"),
])  # fmt: skip
def test_a_focus_without_a_mark_and_pale_drawings_are_noticed(window, style, what):
    assert what in {told[1] for told in at_night(window, opened(window, CANARY, style))}


def test_no_two_elements_have_one_name(looked):
    assert (found := collect(looked, 3)) == {}, found


def test_a_name_that_two_have_is_noticed(window):
    opened(window, CANARY)
    window.page.evaluate("document.querySelector('h1').parentElement.before(document.querySelector('h1').parentElement.cloneNode())")
    assert len(window.page.evaluate(TWICE)) == 1


def test_every_page_with_a_live_figure_was_looked_at(looked, site):
    assert len(looked) == len(live_pages(site)) > 20
