"""Every explorer stands on a page and opens in a notebook, and each of its controls does something.

The network is blocked. Each control of each explorer is moved, on a page of its own: what is drawn or
told has to change, and nothing may be thrown.
"""

from __future__ import annotations

import pytest
from _support import CHAPTERS, ROOT
from _support_explorer import explorer_opener
from test_explorers import FULL

pytestmark = pytest.mark.xdist_group("browser")
# Move every control that was not yet seen to change anything; returns {control: whether it did}.
# A control that is closed now, or a choice already made, stays out: it is tried again later. The
# words beside a control do not count as a change, and a number that waits for a button gets it pressed.
MOVE = """async seen => {
  const root = document.querySelector('.bw-explorer');
  const controls = () => [...root.querySelectorAll('input, button, select, textarea, [role=button]')];
  const name = e => {
    const own = e.dataset.action || e.dataset.chip || e.dataset.head || (e.id || e.name).replace(/^bw-\\w+?-\\d+-/, '');
    return [e.type || e.tagName, own, e.type === 'radio' ? e.value : ''].filter(Boolean).join(' ');
  };
  const drawn = () => {
    const copy = root.cloneNode(true);
    for (const e of copy.querySelectorAll('output, label, legend, button:not([data-chip])')) e.remove();
    const pictures = [...copy.querySelectorAll('svg, canvas, table, .bw-bar')].map(e => e.outerHTML);
    return pictures.join('') + copy.textContent;
  };
  const moves = {
    range: e => { e.value = +e.value === +e.max ? e.min : +e.value + (+e.step || 1); },
    number: e => { e.value = +e.value + 1; e.closest('.bw-field, fieldset, form, div').querySelector('button')?.click(); },
    text: e => { e.value = e.value.split(/\\s+/).reverse().join(' '); },
    'select-one': e => { e.selectedIndex = (e.selectedIndex + 1) % e.options.length; },
  };
  const move = e => {
    if (!moves[e.type]) return e.dispatchEvent(new MouseEvent('click', {bubbles: true}));  // parts of a drawing have no click()
    moves[e.type](e);
    for (const kind of ['input', 'change']) e.dispatchEvent(new Event(kind, {bubbles: true}));
  };
  const changes = async before => {
    for (let i = 0; i < 20; i++) {
      if (drawn() !== before) return true;
      await new Promise(done => setTimeout(done, 15));
    }
    return false;
  };
  const moveAll = async () => {
    for (const key of controls().map(name)) {
      const e = controls().find(other => name(other) === key);  // drawn anew since
      if (!e || seen[key] || e.disabled || (e.type === 'radio' && e.checked)) continue;
      const before = drawn();
      move(e);
      seen[key] = await changes(before);
    }
  };
  await moveAll();
  // What is left may belong to a choice that was not made.
  for (const choice of root.querySelectorAll('input[type=radio]')) {
    if (controls().every(e => seen[name(e)])) break;
    choice.click();
    await moveAll();
  }
  for (const key of controls().map(name)) seen[key] ??= false;
  return seen;
}"""


def all_moved(page, name: str) -> dict[str, bool]:
    """Move every control, first as the page opens, then with the explorer as full as it gets."""
    page.context.route("**/*", lambda route: route.continue_() if route.request.url.startswith("file:") else route.abort())
    seen = page.evaluate(MOVE, {})
    if all(seen.values()):
        return seen
    FULL[name](page)
    return page.evaluate(MOVE, seen)


@pytest.mark.parametrize("name", sorted(FULL))
def test_it_stands_on_a_page(name):
    pages = [*CHAPTERS.glob("*.md"), *(ROOT / "book").glob("*.md")]
    assert [page for page in pages if f'data-explorer="{name}"' in page.read_text("utf-8")], "no page shows it"


@pytest.mark.parametrize("name", sorted(FULL))
def test_every_control_changes_what_is_seen(name, browser, tmp_path):
    with explorer_opener(name, browser, tmp_path) as opened:
        seen = all_moved(opened(), name)
    assert [control for control, moved in seen.items() if not moved] == []
    assert len(seen) >= 4


def test_a_dead_control_is_noticed(browser, tmp_path):
    with explorer_opener("hazard", browser, tmp_path) as opened:
        page = opened()
        page.evaluate("document.addEventListener('input', e => e.stopImmediatePropagation(), true)")
        seen = page.evaluate(MOVE, {})
    assert {control.split()[0] for control, moved in seen.items() if not moved} == {"range"}


def test_a_control_that_throws_is_noticed(browser, tmp_path):
    """An error in a handler fails the test of the page that it happens on, also if the drawing changes."""
    with pytest.raises(AssertionError, match="no such belief"), explorer_opener("hazard", browser, tmp_path) as opened:
        script = (tmp_path / "explorer.js").read_text("utf-8")
        assert script.count("oninput: () => move(+input.value),") == 1
        broken = script.replace("move(+input.value),", '{ move(+input.value); throw new Error("no such belief"); },')
        (tmp_path / "explorer.js").write_text(broken, "utf-8")
        opened().evaluate(MOVE, {})


# What shows how far each has come, of those that can be played, and what else can be moved in it.
PLAYED = {
    "bijection": ("pairs", "Keys and values, V"), "coin": ("tosses", "Its prior"), "em": ("spread", "Score of value 1"), "hmm": ("seen", "Window"), "regression": ("points", "Asked at t"),
    "threekeys": ("state", "Error, across"), "training": ("step", "Pairs shown"),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(PLAYED))
def test_play_goes_on_to_the_end_and_begins_again_and_stops_when_something_else_is_moved(name, browser, tmp_path):
    progress, other = PLAYED[name]
    with explorer_opener(name, browser, tmp_path) as opened:
        page = opened()
        page.clock.install()
        root, play = page.locator(".bw-explorer"), page.locator("[data-action=play]")

        def press():
            play.click()
            return [root.get_attribute(f"data-{progress}")]

        seen = press()
        if name == "training":  # opens at its end
            assert seen == ["0"]
        while play.text_content() == "Pause" and len(seen) < 99:
            page.clock.run_for(900 if name != "training" else 450)
            seen.append(root.get_attribute(f"data-{progress}"))
        assert 5 <= len(seen) < 99 and len(set(seen)) == len(seen)
        again = press()  # from the beginning
        assert again[0] not in seen[-3:] and play.text_content() == "Pause"
        page.clock.run_for(900)
        page.get_by_label(other).first.press("ArrowRight")
        assert play.text_content() == "Play"
        stands = root.get_attribute(f"data-{progress}")
        page.clock.run_for(5000)
        assert root.get_attribute(f"data-{progress}") == stands


# Marks that leave a trail, a key or button that takes a step, and what begins another story.
TRAILS = {
    "bijection": (".bw-bar", "next", "new"), "coin": (".bw-posterior", "next", "new"),
    "em": (".bw-dot", "next", "again"), "hmm": ("rect.bw-look-0", "next", "new"), "machine": (".bw-first", "Pairs", "new"),
    "regression": ("path.bw-exact", "next", "new"), "threekeys": (".bw-tip", "next", "again"), "training": (".bw-first", "Updates", "new"),
}  # fmt: skip
PLACES = """kinds => [...document.querySelectorAll(kinds)].map(e =>
  ['x', 'y', 'width', 'height', 'cx', 'cy', 'r', 'd', 'transform', 'style'].map(name => e.getAttribute(name)).join(' '))"""


@pytest.mark.parametrize("name", sorted(TRAILS))
def test_what_moves_leaves_a_trail_until_another_story_begins(name, browser, tmp_path):
    marks, step, anew = TRAILS[name]
    trail = ".bw-wake > g:last-child > .bw-was-here"
    with explorer_opener(name, browser, tmp_path) as opened:
        page = opened(opens=5)
        assert page.evaluate(PLACES, trail) == []
        for _ in range(2):
            before = page.evaluate(PLACES, marks)
            if step == "next":
                page.locator("[data-action=next]").click()
            else:
                page.get_by_label(step, exact=True).first.press("ArrowLeft")
            assert page.evaluate(PLACES, trail) == before != page.evaluate(PLACES, marks)
        assert page.locator(".bw-wake[aria-hidden=true]").count() == page.locator(".bw-wake").count()
        page.set_viewport_size({"width": 700, "height": 900})  # another size: nothing of the old one may stay
        page.wait_for_function("() => !document.querySelector('.bw-was-here')")
        page.locator(f"[data-action={anew}]").click()
        assert page.evaluate(PLACES, trail) == []
