"""The playground where readers meet it: its poster, the pages that have it, and a notebook.

What it computes and how it is moved is tested in test_playground_engine.py and test_playground.py, how
soon its poster comes in test_weight.py.
"""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
import torch
from _support import ROOT
from _support_browser import Reader, frames
from _support_front_end import front_end, kernel
from test_minutes import minutes, sections

import bayeswind_lib as bw
from bayeswind_lib.widgets import notebook, play, poster

from tools import address

pytestmark = pytest.mark.xdist_group("browser")
PAGE = "book/playground.html"
MOUNT = '.bw-explorer[data-explorer="playground"]'
MODEL = "bijection-transformer-classroom"
FILE = f"{MODEL}-seed0"
LIGHT = 1_000_000  # bytes: what may be fetched before the reader asks for more
TOLERANCE = 2e-5  # single precision there, double here


@pytest.fixture(scope="module")
def first():
    """The poster as pages show it, and the example in it."""
    return poster.poster(), poster.example()


# ---- the poster ---------------------------------------------------------------------------------


def library_answers(keys, values):
    """Exact and network's probabilities at every question of an episode, straight from the library."""
    tunnel = bw.tunnels.Bijection(10)
    episode = tunnel.episodes(torch.tensor([keys]), torch.tensor([values]))
    return episode.posterior[0], bw.load(MODEL).predict(episode.inputs)[0]


def heights(drawing: str, kind: str, top: float) -> list[float]:
    """What the bars of a kind stand for, in a drawing whose axis ends at `top`."""
    found = re.findall(rf'<rect [^>]*height="([\d.]+)" class="{kind}" ', drawing)
    return [float(pixels) / (poster.BOTTOM - poster.TOP) * top for pixels in found]


@pytest.mark.parametrize(("seed", "shown"), [(poster.SEED, poster.SHOWN), (7, 2), (3, 9)])
def test_the_poster_shows_what_the_library_says(seed, shown):
    now, text = poster.example(seed, shown), poster.poster(seed, shown)
    told = {int(k): int(v) for k, v in re.findall(r"(\d) → (\d)", text)}
    assert list(told.items()) == list(zip(now.keys, now.values, strict=True))[:shown]
    assert sorted(now.keys) == sorted(now.values) == list(range(10))
    exact, said = library_answers(now.keys, now.values)
    bits, kl = bw.scoring.entropy_bits, float(bw.scoring.kl_bits(exact, said)[shown])
    assert f"{abs(float(bits(exact.log2())[shown])):.3f} bits of entropy" in text
    assert f"holds {float(bits(said)[shown]):.3f} bits, and is {bw.figures.quantity(kl)} (KL)" in text
    bars, stairs = re.findall(r"<svg.*?</svg>", text, re.S)
    top = max(float(tick) for tick in re.findall(r'text-anchor="end">([\d.]+)<', bars))
    np.testing.assert_allclose(heights(bars, "bw-first", top), said[shown].exp2(), atol=0.002)
    np.testing.assert_allclose(heights(bars, "bw-exact", top), exact[shown][exact[shown] > 0], atol=0.002)
    for path, answer in zip(re.findall(r'<path d="([^"]*V?H[^"]*)"', stairs)[-2:], (said, exact.log2()), strict=True):
        ys = np.array([float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)H", path)])
        np.testing.assert_allclose((poster.BOTTOM - ys) / (poster.BOTTOM - poster.TOP) * 4, bits(answer), atol=0.002)


def test_the_poster_tells_its_numbers_to_those_who_do_not_see_it(first):
    drawings = re.findall(r'role="img" aria-label="([^"]*)"', first[0])
    assert len(drawings) == 2 and all(re.search(r"largest gap [\d.e-]+ ", words) for words in drawings)
    assert drawings != re.findall(r'role="img" aria-label="([^"]*)"', poster.poster(1, 4))
    assert " id=" not in first[0]  # two posters may stand on one page
    with pytest.raises(ValueError, match="show 1 to 9 pairs"):
        poster.example(shown=10)


def test_the_poster_is_in_the_page_before_any_script(site, first):
    text = (site / PAGE).read_text("utf-8")
    assert first[0] in re.sub(r'<span class="bw-whole">(.*?)</span>', r"\1", text)  # a number and its unit on one line
    where = {script: text.find(f"_static/{script}") for script in play.scripts()}
    assert -1 not in where.values() and list(where.values()) == sorted(where.values())
    tags = re.findall(rf'<script[^>]*_static/(?:{"|".join(map(re.escape, where))})[^>]*>', text)
    assert len(tags) == len(where) and all("defer" in tag for tag in tags)
    others = [page for page in site.rglob("*.html") if "_static/playground.js" in page.read_text("utf-8")]
    assert {page.relative_to(site).as_posix() for page in others} == {PAGE}


def assert_shows(root, example):
    """That a playground stands at the poster's question, with its numbers."""
    now, entropies = root.evaluate("root => ({...root.dataset})"), example.entropies()
    wanted = {
        "shown": example.shown, "kl": example.divergence(), "tv": example.total_variation(),
        "exact": entropies[poster.EXACT][example.shown], "network": entropies[poster.MODEL][example.shown],
    }  # fmt: skip
    assert {name: float(now[name]) for name in wanted} == pytest.approx(wanted, abs=TOLERANCE)


# ---- in the page --------------------------------------------------------------------------------


def test_it_starts_where_the_poster_stands_and_fetches_little(browser, compressing_home, first):
    reader, sizes = Reader(browser, compressing_home), {}
    reader.page.on("response", lambda answer: sizes.update({answer.url: int(answer.headers.get("content-length", 0))}))
    seen = reader.open(PAGE)
    root = reader.page.locator(MOUNT)
    assert root.count() == 1
    tall = root.bounding_box()["height"]
    root.scroll_into_view_if_needed()
    root.locator('[data-action="next"]').wait_for()
    assert_shows(root, first[1])
    assert root.locator(".bw-poster").count() == 0 and root.bounding_box()["height"] >= tall - 1
    assert [url for url, size in sizes.items() if size > LIGHT] == []
    assert [url.split("/")[-1] for url in sizes if "/networks/" in url] == [f"{FILE}.safetensors"]
    root.locator('[data-action="next"]').click()
    assert int(root.evaluate("root => root.dataset.shown")) == poster.SHOWN + 1
    assert not seen.troubles
    reader.close()


# Of what a reader is to read or press, whether the place where its middle stands shows it, and nothing else.
SEEN = """card => {
  const parts = [...card.querySelectorAll('.bw-tour-title, p, button')].filter(e => e.textContent);
  const box = card.getBoundingClientRect(), away = [];
  if (box.top < 0 || box.left < 0 || box.bottom > innerHeight || box.right > document.documentElement.clientWidth) {
    away.push(`the card, at ${Math.round(box.top)} to ${Math.round(box.bottom)} of ${innerHeight}`);
  }
  for (const part of parts) {
    for (const {left, top, width, height} of part.getClientRects()) {
      for (const [x, y] of [[0.02, 0.1], [0.5, 0.5], [0.02, 0.9]]) {
        const there = document.elementFromPoint(left + x * width, top + y * height);
        if (!card.contains(there)) away.push(`${part.textContent.slice(0, 40)} (${there && there.className})`);
      }
    }
  }
  const lit = document.querySelector('.bw-part.bw-lit').getBoundingClientRect();
  if (Math.min(lit.bottom, innerHeight) - Math.max(lit.top, 0) < 60) away.push('the part with the ring');
  return away;
}"""
# A step's state is set, and what it fetches is here.
ARRIVED = """(i) => { const root = document.querySelector('.bw-play'), words = root.querySelector('.bw-tour p').textContent;
  return root.dataset.tour === String(i) && !words.includes('on their way') && !root.querySelector('progress'); }"""


# Of the step at hand: what is wrong with where its card stands, or with what its words are about.
BESIDE = """() => {
  const root = document.querySelector('.bw-play'), step = root.playground.tour.steps[+root.dataset.tour], wrong = [];
  const part = root.querySelector(`[data-part=${step.part}]`), about = part.querySelector(step.about);
  if (!about) return [`nothing is ${step.about}`];
  const card = root.querySelector('.bw-tour').getBoundingClientRect(), seen = about.getBoundingClientRect();
  const header = document.querySelector('.bd-header-article').getBoundingClientRect().bottom;
  if (card.top < header || card.bottom > innerHeight + 1) wrong.push(`the card at ${card.top} to ${card.bottom}`);
  if (seen.top < header || seen.bottom > innerHeight || seen.height < 10) wrong.push(`${step.about} at ${seen.top} to ${seen.bottom}`);
  const apart = card.right <= seen.left || card.left >= seen.right || card.bottom <= seen.top || card.top >= seen.bottom;
  if (!apart) wrong.push('the card lies over it');
  return wrong;
}"""


def wrong_on_the_tour(page, *checks: str, mount=MOUNT) -> dict[int, list[str]]:
    """Walk through the guided tour; by step, what of its card a reader does not see, and what `checks` of the page find."""
    root, found = page.locator(mount).first, {}
    card = root.locator(".bw-tour")
    root.locator("[data-action=tour]").click()
    steps = root.evaluate("root => root.playground.tour.steps.length")
    for i in range(steps):
        page.wait_for_function(ARRIVED, arg=i)
        frames(page, 8)  # what was fetched has changed heights
        away = sum((page.evaluate(check) for check in checks), card.evaluate(SEEN))
        found |= {i: away} if away else {}
        root.locator("[data-action=tour-next]").click()
    assert steps == 10 and card.is_hidden()
    return found


# Of the page: where the card stands, if it should be beside the figure or a sheet below it.
DOCKED = """() => { const [card, answer] = ['.bw-tour', '[data-part=answer]'].map(name => document.querySelector('.bw-play ' + name).getBoundingClientRect());
  return (card.left >= answer.right) === innerWidth > 1000 ? [] : [`the card at ${card.left}, the answer to ${answer.right}`]; }"""


@pytest.mark.parametrize("size", [(390, 660), (390, 844), (1024, 768), (1440, 900)])
def test_every_step_of_the_tour_can_be_read_and_covers_nothing_it_is_about(browser, compressing_home, size):
    """Docked beside the figure, or a sheet below it: the card and what its words are about are both in view, and nothing covers
    or cuts its words; with the box around it scrolling, as it did when they were off the screen, this is noticed."""
    window = Reader(browser, compressing_home)
    window.page.set_viewport_size({"width": size[0], "height": size[1]})
    window.page.emulate_media(reduced_motion="reduce")  # a step arrives at once
    window.open(PAGE)
    root = window.page.locator(MOUNT)
    root.scroll_into_view_if_needed()
    root.locator('[data-action="next"]').wait_for()
    assert wrong_on_the_tour(window.page, BESIDE, DOCKED) == {}
    if size == (390, 844):
        window.page.add_style_tag(content=".bd-article div.cell_output .output { overflow: auto !important }")
        assert len(wrong_on_the_tour(window.page)) >= 5
    assert not window.seen.troubles
    window.close()


def test_no_width_of_a_window_cuts_it(browser, compressing_home):
    """From a phone to a large screen, and with the theme's own rule for wide cells this is noticed."""
    window = Reader(browser, compressing_home)
    window.open(PAGE)
    root = window.page.locator(MOUNT)
    root.scroll_into_view_if_needed()
    root.locator('[data-action="next"]').wait_for()

    def cut(width):
        window.page.set_viewport_size({"width": width, "height": 900})
        frames(window.page, 10)  # drawings follow their box
        return window.audit().overflow

    assert {width: cut(width) for width in (320, 390, 768, 991, 992, 1024, 1180, 1199, 1200, 1300, 1920) if cut(width)} == {}
    window.page.add_style_tag(content=".bd-article div.cell.tag_full-width { max-width: 136% !important; width: 136% !important }")
    assert all(cut(width) for width in (992, 1024, 1180, 1199))
    window.close()


def test_without_scripts_the_poster_stays(browser, compressing_home):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{compressing_home}/{PAGE}")
    assert page.locator(".bw-poster svg").count() == 2
    assert page.locator(".bw-poster svg").first.bounding_box()["height"] > 100
    context.close()


def test_the_landing_page_tells_every_chapters_minutes(site):
    text = (site / "book/intro.html").read_text("utf-8")
    told = re.findall(r'<span class="bw-counted">(\d+) \+ (\d+) min</span>', text)
    counted = []
    chapters = [document for document in address.documents() if "/audit_" not in document]  # which promise no minutes
    for document in chapters:
        parts = sections((ROOT / f"{document}.md").read_text("utf-8"))
        exercises = minutes(parts.pop("Exercises"))
        counted.append((sum(map(minutes, parts.values())), exercises))
    assert len(told) == len(counted) >= 14
    for document, (reading, exercises), (total, sums) in zip(chapters, told, counted, strict=True):
        page = (site / f"{document}.html").read_text("utf-8")
        assert f"{reading} minutes to read, {exercises} for the exercises" in page
        # Each section is rounded up, and what a chapter's table leaves out is a page's last lines.
        assert int(exercises) == sums and total - 12 <= int(reading) <= total + len(parts) + 12, document


# ---- in a notebook ------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def notebook_page(browser):
    with front_end(browser, [bw.widgets.playground()] * 2) as page:
        yield page


def test_two_playgrounds_of_a_notebook_share_scripts_and_weights(notebook_page, first):
    page, roots = notebook_page, notebook_page.locator(MOUNT)
    for i in range(2):
        roots.nth(i).locator('[data-action="next"]').wait_for()
        assert_shows(roots.nth(i), first[1])
    assert page.evaluate("sent") == [FILE]
    roots.nth(1).locator('[data-action="next"]').click()
    assert [root.evaluate("root => +root.dataset.shown") for root in roots.all()] == [poster.SHOWN, poster.SHOWN + 1]
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_every_task_runs_in_a_notebook(browser):
    """Weights come from the kernel, for a network beside the first too; there is no address that could be shared."""
    with front_end(browser, [bw.widgets.playground()] * 2) as page:
        root = page.locator(MOUNT).first
        root.locator('[data-action="next"]').wait_for()
        for task in ("hmm", "recall", "regression"):
            kl = root.evaluate("async (root, task) => { await root.playground.choose(task); await root.playground.putBeside(root.playground.rivals[1]); return +root.dataset.beside; }", task)
            assert kl > 0 and root.locator("[data-part=curve] .bw-line").count() == 2
        assert root.locator("[data-action=share]").count() == 0 and "#" not in page.url


def test_the_tour_can_be_read_in_a_notebook(browser):
    """Where an output is a box of its own that may scroll, to which nothing can stick."""
    with front_end(browser, [bw.widgets.playground()] * 2) as page:
        page.add_style_tag(content=".cell { overflow: auto }")
        page.emulate_media(reduced_motion="reduce")
        page.locator('[data-action="next"]').nth(1).wait_for()
        page.locator(".cell").nth(1).evaluate("e => e.remove()")
        assert wrong_on_the_tour(page) == {}


def test_a_notebook_playground_is_dark_where_the_notebook_is(notebook_page):
    root, grounds = notebook_page.locator(MOUNT).first, []
    for ink in ("#111", "#eee", "#222"):
        notebook_page.evaluate("ink => new Promise(done => { document.body.style.color = ink; setTimeout(done); })", ink)
        ground = root.evaluate("root => getComputedStyle(root).backgroundColor")
        grounds.append(sum(map(int, re.findall(r"\d+", ground)[:3])) / 3)
    assert grounds[0] > 240 and grounds[1] < 40 and grounds[2] == grounds[0]


def test_a_playground_that_leaves_is_asked_for_nothing(notebook_page):
    count = "bwNotebook.models.length"
    assert [notebook_page.evaluate(words) for words in (count, f"leave.forEach(f => f()), {count}")] == [2, 0]
    told = notebook_page.evaluate("bwNetwork.provider('some file').catch(problem => problem.message)")
    assert told == "some file: no kernel to ask. Run its cell again."


def test_a_notebook_says_what_a_kernel_could_not_send_and_asks_again(browser):
    asked = []

    def poor(message, _):
        asked.append(message["file"])
        return kernel(message) if len(asked) > 2 else kernel({**message, "file": "nothing"})

    with front_end(browser, [bw.widgets.playground()] * 2, poor) as page:
        alerts = page.get_by_role("alert")
        alerts.first.wait_for()
        assert "no file of weights 'nothing' is shipped" in alerts.first.text_content()
        assert page.locator(".bw-poster").count() == 2
        for _ in range(alerts.count()):
            page.get_by_role("button", name="Try again").first.click()
        page.locator('[data-action="next"]').first.wait_for()


def test_the_widget_answers_with_the_files_bytes_and_stays_small():
    widget, sent = bw.widgets.playground(small=True), []
    widget.send = lambda message, buffers=None: sent.append((message, buffers))
    widget._handle_custom_msg({"kind": "weights", "file": FILE, "request": "7"}, [])
    widget._handle_custom_msg({"kind": "something else"}, [])
    [(message, [content])] = sent
    assert message == {"kind": "weights", "file": FILE, "request": "7"}
    assert content == bw.checkpoints.path_of(MODEL).read_bytes()
    assert "small" in widget.data and sum(len(str(value)) for value in widget.get_state().values()) < 500_000


def test_files_of_weights_are_those_that_ship(monkeypatch, tmp_path):
    asked = re.findall(r'"file": "([^"]+)"', (play.WEB / "playground_tasks.js").read_text("utf-8"))
    sizes = re.findall(r'"bytes": (\d+)', (play.WEB / "playground_tasks.js").read_text("utf-8"))
    assert FILE in asked and [len(bw.checkpoints.content(file)) for file in asked] == [int(size) for size in sizes]
    for file in ("nothing", "../weights/" + FILE, f"{FILE}.json", ""):
        with pytest.raises(bw.CheckpointError, match=re.escape(f"{file!r} is shipped; there are: bijection-lstm")):
            bw.checkpoints.content(file)


def test_without_anywidget_the_reader_is_told_what_to_install(monkeypatch, first):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    notebook._widget_class.cache_clear()
    with pytest.raises(ModuleNotFoundError, match="pip install anywidget"):
        bw.widgets.playground()
    monkeypatch.undo()
    assert bw.widgets.playground().poster == first[0]


# ---- links from elsewhere -----------------------------------------------------------------------

GAP = """() => { const top = document.querySelector('.bd-header-article').getBoundingClientRect().bottom, box = (s, side) => document.querySelector(s)?.getBoundingClientRect()[side] - top;
  return {machine: box('#machine .bw-m-hint', 'bottom'), playground: box('[data-explorer=playground]', 'top')}; }"""  # the answer, which sticks, follows the hint
SETTLED = """kind => { const gap = (GAP)()[kind], state = [gap, scrollY, document.documentElement.scrollHeight].join();
  window.calm = window.was === state ? (window.calm || 0) + 1 : 0; window.was = state; return window.calm > 30; }""".replace("GAP", GAP)

# Something arrives late above the figure, in a browser that does not anchor what is read.
GROWN = "document.documentElement.style.overflowAnchor = 'none'; document.querySelector('.bd-article h1').style.paddingTop = '700px'"


ADDRESSES = [
    ("task=bijection&pairs=7&off=0.3", "machine", {"task": "bijection", "pairs": "7", "off": "0.3"}),
    ("machine?task=hmm&net=mamba&pairs=9", "machine", {"task": "hmm", "net": "mamba", "pairs": "9"}),
    ("machine?task=bijection&net=lstm&pairs=6&off=t3", "machine", {"net": "lstm", "pairs": "6", "off": "t3"}),
    ("task=returning&pairs=5&seed=7", "machine", {"task": "bijection", "net": "transformer", "pairs": "5"}),
    ("playground?task=regression", "playground", {"task": "regression", "shown": "5"}),
    ("task=recall&pairs=3", "machine", {"task": "recall", "pairs": "3"}),
    ("playground?task=bijection&shown=4&off=1.2_2&head=0.3&at=machine", "machine", {"pairs": "4", "off": "1.2 2.0 2.1 2.2 2.3 2.m", "head": "0.3"}),
]  # fmt: skip
VIEWS = [(390, 844, *one) for one in ADDRESSES] + [(1440, 900, *one) for one in ADDRESSES[::3]]


@pytest.mark.parametrize(("width", "height", "address_", "kind", "says"), VIEWS)
def test_an_address_brings_its_figure_to_the_top(browser, site, width, height, address_, kind, says):
    """Once everything has arrived that moves the page: fonts, the playground above the machine, networks."""
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto(f"{(site / PAGE).as_uri()}#{address_}")
    page.wait_for_selector("[data-explorer=playground].bw-play")
    where = "#machine" if kind == "machine" else "[data-explorer=playground]"
    page.wait_for_selector(where + "".join(f"[data-{name}='{value}']" for name, value in says.items()))
    page.wait_for_function(SETTLED, arg=kind, polling="raf")
    assert -2 <= page.evaluate(GAP)[kind] <= 24
    assert page.evaluate("(({play, machine}) => !machine.play || machine.play === play)(document.querySelector('[data-explorer=playground]').playground)")
    page.evaluate(GROWN)
    page.wait_for_function(SETTLED, arg=kind, polling="raf")
    assert -2 <= page.evaluate(GAP)[kind] <= 24
    assert page.get_by_role("alert").count() == 0
    page.close()


def test_a_reader_who_scrolls_is_left_alone(browser, site):
    for quits in ("wheel", "script"):
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{(site / PAGE).as_uri()}#task=bijection&pairs=7")
        page.wait_for_selector("#machine[data-pairs='7']")
        page.wait_for_function(SETTLED, arg="machine", polling="raf")
        there = page.evaluate("scrollY")
        page.mouse.move(700, 400)
        page.mouse.wheel(0, 300) if quits == "wheel" else page.evaluate("scrollBy({top: 300, behavior: 'instant'})")
        page.wait_for_function("there => scrollY > there + 250", arg=there)
        page.wait_for_function(SETTLED, arg="machine", polling="raf")
        page.evaluate(GROWN)
        page.wait_for_function(SETTLED, arg="machine", polling="raf")
        assert abs(page.evaluate(GAP)["machine"]) > 200, quits
        page.close()


def test_values_stand_below_their_keys(browser, site):
    """On a phone, and where the docked tour leaves little room."""
    rows = """kind => [...document.querySelectorAll(`[data-chip^=${kind}]`)].map(e => { const {left, width, top} = e.getBoundingClientRect(); return [Math.round(left), Math.round(width), Math.round(top)]; })"""
    for where, width in (("chapters/02_tunnel.html", 390), ("chapters/02_tunnel.html", 320), (PAGE, 390), (PAGE, 1440)):
        page = browser.new_page(viewport={"width": width, "height": 844})
        page.goto((site / where).as_uri())
        page.wait_for_selector("[data-chip^=key]")
        if width == 1440:
            page.locator("[data-action=tour]").click()
        keys, values = page.evaluate(rows, "key"), page.evaluate(rows, "value")
        assert [key[:2] for key in keys] == [value[:2] for value in values], (where, width)
        lines = {top for *_, top in keys}
        assert len(lines) == (2 if width == 320 else 1) and min(wide for _, wide, _ in keys) >= 24, (where, width, keys)
        page.close()
