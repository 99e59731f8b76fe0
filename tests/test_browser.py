"""The built site in headless Chromium with the network blocked: silent, accessible, alive."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from _support import CHAPTERS, pages, site_folder
from _support_browser import SCHEMES, SIZES, STAND, THEME_RULES, Reader, frames
from _support_explorer import pages_with_explorer
from test_bijection_explorer import agrees_with_library

SENDS_ON = re.compile(r'<meta http-equiv="refresh"', re.I)
VIEWS = [(scheme, size) for scheme in SCHEMES for size in SIZES]
# What axe looks at: structure does not change with the colours, nor colours with the width, and
# comparing colours takes most of its time (how it is kept short: AXE in _support_browser.py). After
# "structure" and "layout" a page's code has lost its colours: they come with the last view of a size.
AXE = {
    ("light", "desktop"): ["colour"],
    ("dark", "desktop"): ["colour", "structure"],
    ("dark", "phone"): ["layout"],
}


def names(folder) -> list[str]:
    """The pages to look at, as addresses; the front door (it only sends on) is tested apart."""
    found = [path for path in pages(folder) if not SENDS_ON.search(path.read_text("utf-8"))]
    return [path.relative_to(folder).as_posix() for path in found]


@pytest.fixture(scope="module")
def visits(browser, home):
    """What happened on each page in each view: {(scheme, size, page): Seen}.

    A page is opened once a size, in the light; then the reader's machine turns dark. On the desktop it
    comes from a server, on the phone from a folder, as from a USB stick. How its formulas stand is seen on a
    narrower phone as well.
    """
    seen = {}
    for size in SIZES:
        reader = Reader(
            browser, {"desktop": home, "phone": site_folder().as_uri()}[size], "light", size
        )
        for name in names(site_folder()):
            reader.open(name)
            seen["light", size, name] = reader.audit(*AXE.get(("light", size), ()))
            stand = reader.seen.stand
            stand[SIZES[size]["width"]] = reader.page.evaluate(STAND)
            if size == "phone":
                reader.page.set_viewport_size({**SIZES[size], "width": 320})
                frames(reader.page, 3)
                stand[320] = reader.page.evaluate(STAND)
                reader.page.set_viewport_size(SIZES[size])
            reader.switch("dark")
            seen["dark", size, name] = reader.audit(*AXE.get(("dark", size), ()))
            reader.page.emulate_media(color_scheme="light")
        reader.close()
    return seen


@pytest.fixture
def reader(browser, home):
    """A fresh window on the served book."""
    window = Reader(browser, home)
    yield window
    window.close()


@pytest.fixture
def stick(browser):
    """A fresh window on the book as files, as from a USB stick."""
    window = Reader(browser, site_folder().as_uri())
    yield window
    window.close()


def collect(visits, attribute: str) -> dict:
    """All views in which something was found."""
    found = {view: getattr(seen, attribute) for view, seen in visits.items()}
    return {view: problems for view, problems in found.items() if problems}


def test_every_page_was_seen_in_every_view(visits, site):
    assert len(names(site)) > len(list(CHAPTERS.glob("[0-9][0-9]_*.md")))
    assert len(visits) == len(names(site)) * len(VIEWS)
    assert {view: seen.theme for view, seen in visits.items() if seen.theme != view[0]} == {}


def test_no_request_leaves_the_site(visits):
    assert collect(visits, "outside") == {}


def test_the_console_is_silent(visits):
    assert collect(visits, "console") == {}


def test_no_script_crashes(visits):
    assert collect(visits, "crashes") == {}


def test_every_request_is_answered(visits):
    assert collect(visits, "failed") == {}


def test_formulas_are_drawn(visits):
    assert collect(visits, "maths") == {}
    chapters = {view: seen for view, seen in visits.items() if view[2].startswith("chapters/")}
    assert chapters and all(seen.formulas for seen in chapters.values())


def test_no_formula_is_cut_or_meets_its_number(visits):
    """At three widths; on phones some numbers stand below their formulas, on a desktop hardly one does."""
    seen, below, wrong = Counter(), Counter(), {}
    for (_, _, name), view in visits.items():
        for width, found in view.stand.items():
            seen[width] += found["seen"]
            below[width] += found["below"]
            wrong |= {(name, width, what): texts for what, texts in found.items() if texts and what not in ("seen", "below")}
    assert wrong == {} and set(seen) == {320, 390, 1280} and min(seen.values()) > 90
    assert min(below[320], below[390]) > 10 and below[1280] < 5


def test_nothing_sticks_out_sideways(visits):
    assert collect(visits, "overflow") == {}


def test_nothing_is_cut_that_looks_whole(visits):
    """Formulas, code, outputs, tables and captions: see CUT in _support_browser.py."""
    assert collect(visits, "cut") == {}


PLANTED = [
    ("phone", ".bw-set { font-size: 2.4rem !important } .bw-wide { mask-image: none !important }", "a formula goes on without a sign"),
    ("phone", ".bw-display { flex-direction: row !important } .bw-display > .eqno { margin-left: -9rem !important; position: relative }", "a formula and its number meet"),
    ("phone", ".bw-whole { display: inline-block; white-space: normal !important; width: 1px }", "a line ends at a formula"),
    ("phone", ".bd-article pre > span { white-space: pre !important }", "a text is cut"),
    ("phone", ".bd-article table > caption { max-width: none !important; position: static !important; width: 40rem }", "a caption is cut"),
    ("desktop", ".bd-article table { display: table !important } .bd-article table > caption { display: block !important }", "a caption stands in a cell"),
    ("desktop", ".bd-article pre { mask-image: linear-gradient(#000, #000) }", "a side fades and nothing goes on"),
    ("desktop", ".bd-article pre { font-size: 17px !important }", "a line is broken"),
    ("phone", ".bd-article table { min-width: 40rem !important }", "a cell is cut"),
    ("phone", ".bd-article div.cell_output pre { font-size: 14px !important }", "columns are broken"),
    ("phone", ".bw-plot svg text { font-size: 24px !important }", "a word of a drawing is cut"),
    ("phone", ".bw-plot svg text { letter-spacing: 2em !important }", "two words of a drawing meet"),
]  # fmt: skip


@pytest.fixture(scope="module")
def open_pages(browser, home):
    """The page on which errors are planted, in a window of each size; one at a time, as a style that goes again."""
    windows = {size: Reader(browser, home, "light", size) for size in SIZES}
    for window in windows.values():
        window.open(f"chapters/{first_chapter()}.html")
    windows["columns"] = Reader(browser, home, "light", "phone")
    windows["columns"].open("chapters/04_hmm.html")
    yield windows
    for window in windows.values():
        window.close()


@pytest.mark.parametrize(("size", "style", "what"), PLANTED)
def test_what_is_cut_is_noticed(open_pages, size, style, what):
    """The errors that readers met, planted again."""
    window = open_pages["columns" if "columns" in what else size]
    tag = window.page.add_style_tag(content=style)
    frames(window.page, 3)
    found = {words.split(":")[0] for words in window.audit().cut}
    tag.evaluate("e => e.remove()")
    frames(window.page, 3)
    assert what in found


def test_a_sign_that_something_goes_on_stays(browser, home):
    """It may not come and go: on a phone, nothing about the marks changes once a page is drawn."""
    window = Reader(browser, home, "light", "phone")
    for name in ("chapters/04_hmm.html", "chapters/14_progress.html"):
        window.open(name)
        window.page.evaluate("document.querySelectorAll('.bw-data').forEach(fold => { fold.open = true; })")  # few other things are as wide
        changes = window.page.evaluate("""async () => {
          await new Promise(done => setTimeout(done, 500));
          let changes = 0;
          const watch = new MutationObserver(seen => { changes += seen.length; });
          watch.observe(document.querySelector('.bd-article'), {subtree: true, attributeFilter: ['class']});
          for (let i = 0; i < 20; i++) await new Promise(requestAnimationFrame);
          return changes;
        }""")
        assert changes == 0 and window.page.locator(".bw-wide").count() > 0
    window.close()


def test_the_end_of_what_scrolls_is_shown_whole(browser, home):
    """The fading edge goes once its last letters are reached, here by keyboard."""
    window = Reader(browser, home, "light", "phone")
    window.page.set_viewport_size({"width": 320, "height": 844})
    window.open("chapters/20_capstone.html")  # few formulas are as wide as that
    formula = window.page.locator(".bw-set.bw-wide").first
    fades = "e => getComputedStyle(e).maskImage !== 'none'"
    assert formula.evaluate(fades)
    formula.focus()
    window.page.keyboard.press("End")
    formula.evaluate("e => { e.scrollLeft = e.scrollWidth }")
    window.page.wait_for_function(
        "document.querySelector('.bw-set.bw-wide').classList.contains('bw-end')"
    )
    assert not formula.evaluate(fades)
    window.close()


def test_code_is_copied_as_it_was_written(reader):
    """Lines that are elements of their own make no lines more, nor fewer."""
    reader.open(f"chapters/{first_chapter()}.html")
    copied = reader.page.evaluate("""() => [...document.querySelectorAll('.cell_input pre')]
      .filter(e => e.checkVisibility() && e.textContent.includes('\\n\\n')).slice(0, 3)
      .map(e => { getSelection().selectAllChildren(e); return [e.textContent.trimEnd(), getSelection().toString().trimEnd()]; })""")
    assert len(copied) == 3 and [written for written, chosen in copied if written != chosen] == []


RING = """() => {
  const e = document.activeElement, s = getComputedStyle(e);
  const outline = s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 && !/, 0\\)$/.test(s.outlineColor);
  return {words: e.id || e.className || e.tagName, formula: e.matches('math, .bw-set'), inside: !!e.closest('article'), ring: outline};
}"""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_keyboards_place_is_seen_outside_the_article(browser, home, scheme):
    """Header, sidebar and their buttons; and formulas that fit are no stops on the way."""
    window = Reader(browser, home, scheme)
    window.open("chapters/02_tunnel.html")
    stops = []
    while len(stops) < 80:
        window.page.keyboard.press("Tab")
        stops.append(window.page.evaluate(RING))
    outside = [stop for stop in stops if not stop["inside"]]
    assert len(outside) > 25 and any("dropdown-toggle" in stop["words"] for stop in outside)
    assert [stop["words"] for stop in outside if not stop["ring"]] == []
    assert [stop for stop in stops if stop["formula"]] == []
    window.close()


@pytest.mark.parametrize("size", SIZES)
def test_no_button_floats_over_a_page(browser, home, size):
    """The theme shows "Back to top" on scrolling up; it would lie on what is read or moved."""
    window = Reader(browser, home, "light", size)
    window.open("chapters/02_tunnel.html")
    button = window.page.locator("#pst-back-to-top")
    window.page.evaluate("scrollTo(0, 6000)")
    window.page.mouse.wheel(0, -400)
    window.page.wait_for_function("document.querySelector('#pst-back-to-top').style.display === 'block'")
    assert not button.is_visible()
    window.close()


@pytest.mark.parametrize("name", ["02_tunnel", "05_filtering"])
def test_a_model_chapter_is_short_and_opens_with_its_figure(reader, name):
    """The pattern that CONTRIBUTING.md describes: what is seen at first, and how much of it there is."""
    reader.open(f"chapters/{name}.html")
    sentences, first, words, cells = reader.page.evaluate("""() => {
      const article = document.querySelector('.bd-article'), seen = e => e.checkVisibility() && e.getBoundingClientRect().height > 20;
      const cells = [...article.querySelectorAll('.cell_input')].filter(seen).filter(e => !e.closest('details:not([open])'));
      const drawing = article.querySelector('.bw-explorer .bw-chart').getBoundingClientRect();
      const sentences = [];
      for (let e = article.querySelector('h1').nextElementSibling; e && !e.querySelector('.bw-explorer') && !e.matches('.bw-explorer'); e = e.nextElementSibling) {
        if (e.matches('p:not(.bw-minutes)')) sentences.push(e.innerText.match(/[.?!](?=\\s|$)/g)?.length ?? 0);
      }
      return [sentences, drawing.bottom / innerHeight, article.innerText.split(/\\s+/).length, cells.length];
    }""")
    assert sentences == [1, 2]  # the question, the finding
    assert first < 1 and words <= 5_000 and 6 <= cells <= 12


def test_every_page_says_what_it_is_about(site):
    """To search engines and previews, each in words of its own."""
    found = {}
    for name in names(site):
        text = (site / name).read_text("utf-8")
        if not any(part in name for part in ("genindex", "search")):
            found[name] = re.findall(
                r'<meta (?:name="description"|property="og:description") content="([^"]*)"', text
            )
    assert {
        name: words
        for name, words in found.items()
        if len(words) != 2 or len(words[0]) < 50 or "\\(" in words[0]
    } == {}
    assert len({words[0] for words in found.values()}) == len(found)


def test_axe_finds_only_the_two_theme_rules(visits):
    beyond = {
        view: [rule for rule in seen.axe if rule["id"] not in THEME_RULES]
        for view, seen in visits.items()
    }
    assert {view: rules for view, rules in beyond.items() if rules} == {}


def test_both_theme_rules_are_needed(visits):
    """A rule that the theme no longer breaks has to leave the list."""
    assert {rule["id"] for seen in visits.values() for rule in seen.axe} >= THEME_RULES


@pytest.mark.parametrize("size", SIZES)
def test_a_first_visit_in_the_dark_is_dark(browser, home, size):
    window = Reader(browser, home, "dark", size)
    seen = window.open(f"chapters/{first_chapter()}.html")
    assert (seen.theme, seen.maths, seen.troubles) == ("dark", "", [])
    window.close()


@pytest.mark.parametrize(
    "what", [".highlight .k, .highlight .kn", ".bd-article p", ".bd-sidebar-primary a"]
)
def test_a_colour_too_pale_is_noticed(reader, what):
    """In code, in the text and around it, although most of a page's code is looked at once only."""
    reader.open(f"chapters/{first_chapter()}.html")
    reader.page.add_style_tag(content=f"{what} {{ color: #c8c8c8 !important; }}")
    assert "color-contrast" in {rule["id"] for rule in reader.audit("colour").axe}


def test_the_front_door_leads_to_the_book(reader):
    reader.page.goto(f"{reader.home}index.html")
    reader.page.wait_for_url("**/book/intro.html")
    assert reader.page.locator("article h1").count() == 1
    assert reader.seen.troubles == []


@pytest.mark.parametrize("where", ["served", "file"])
def test_search_finds_a_word(where, request):
    """From a chapter: open the search box by keyboard, type, and follow the first result."""
    window = request.getfixturevalue({"served": "reader", "file": "stick"}[where])
    window.open(f"chapters/{first_chapter()}.html")
    window.page.keyboard.press("Control+k")
    window.page.keyboard.type("posterior")
    window.page.keyboard.press("Enter")
    results = window.page.locator("#search-results ul.search li a")
    results.first.wait_for()
    assert results.count() >= 2
    results.first.click()
    window.page.wait_for_load_state()
    assert "posterior" in window.page.locator("main").inner_text().lower()
    assert window.seen.troubles == []


@pytest.mark.parametrize("where", ["served", "file"])
def test_search_leads_to_the_chapter(where, request):
    """A word that one chapter is about is found there first, with the network blocked and from a folder."""
    window = request.getfixturevalue({"served": "reader", "file": "stick"}[where])
    window.page.goto(f"{window.home}search.html?q=simplex")
    results = window.page.locator("#search-results ul.search li a")
    results.first.wait_for()
    found = [link.get_attribute("href").split("?")[0].split("#")[0] for link in results.all()]
    assert any("chapters/13_beliefs.html" in link for link in found[:5]), found
    assert not any("chapters/01_bayesian.html" in link for link in found), found
    assert window.seen.outside == []


@pytest.mark.parametrize("where", ["served", "file"])
def test_results_are_sections_with_readable_excerpts(where, request):
    """The sections that are about it come first, each once, with their words around what was asked."""
    window = request.getfixturevalue({"served": "reader", "file": "stick"}[where])
    window.page.goto(f"{window.home}search.html?q=KL%20divergence")
    window.page.locator("#search-results li a").first.wait_for()
    links = [link.get_attribute("href") for link in window.page.locator("#search-results li a").all()]
    assert 8 < len(links) == len(set(links)) <= 30 and sum("#" in link for link in links) > len(links) / 2
    texts = window.page.locator("#search-results p.context").all_text_contents()
    assert len(texts) == len(links) and [text for text in texts if re.search(r"\\[([a-zA-Z]", text)] == []
    assert all(20 < len(text) < 260 for text in texts)
    assert sum("KL" in text or "divergence" in text for text in texts) > len(texts) * 0.8
    window.page.locator("#search-results li a[href*='#']").first.click()
    window.page.wait_for_load_state()
    assert window.page.evaluate("!!document.getElementById(decodeURIComponent(location.hash.slice(1)))")
    assert window.seen.troubles == []


def test_results_follow_what_is_typed(reader):
    reader.page.goto(f"{reader.home}search.html")
    reader.page.locator(".bd-search-container input").fill("simplex")
    first = reader.page.locator("#search-results li").first
    first.wait_for()
    assert "simplex" in first.text_content().lower()
    reader.page.locator(".bd-search-container input").fill("")
    assert reader.page.locator("#search-results li").count() == 0


def test_no_icon_lies_on_what_is_typed(reader):
    reader.page.goto(f"{reader.home}search.html?q=divergence")
    room = reader.page.locator(".bd-search").first.evaluate("""form => {
      const [icon, box] = ['svg, i', 'input'].map(what => form.querySelector(what));
      return [icon.getBoundingClientRect().right, box.getBoundingClientRect().left + parseFloat(getComputedStyle(box).paddingLeft)];
    }""")
    assert room[0] <= room[1], room


def test_only_the_search_page_loads_the_list(site):
    for page in pages(site):
        text = page.read_text("utf-8")
        assert ("sections.js" in text) == (page.name == "search.html") and "searchindex.js" not in text, page.name


# -- how much code a page shows

CODE = """() => {
  const seen = e => e.checkVisibility() && e.getBoundingClientRect().height > 1, all = what => [...document.querySelectorAll(what)];
  const open = all('.cell_input pre').filter(e => seen(e) && !e.closest('details:not([open])'));
  return {code: open.length, words: all('.bw-code > summary, .bw-unfold').filter(seen).length, cells: all('.cell_input').length};
}"""


@pytest.mark.parametrize("where", ["served", "file"])
def test_the_switch_says_how_much_code_is_shown_and_is_remembered(where, request):
    window = request.getfixturevalue({"served": "reader", "file": "stick"}[where])
    window.open("chapters/05_filtering.html")
    usual = window.page.evaluate(CODE)
    assert 0 < usual["code"] < usual["cells"] and 0 < usual["words"] < usual["cells"] - usual["code"]
    window.page.locator("#bw-code").select_option("all")
    assert window.page.evaluate(CODE)["code"] == usual["cells"]
    window.open("chapters/02_tunnel.html")  # another page, and at once
    everything = window.page.evaluate(CODE)
    assert everything["code"] == everything["cells"] and window.page.locator("#bw-code").input_value() == "all"
    window.page.locator("#bw-code").select_option("folded")
    folded = window.page.evaluate(CODE)
    assert folded["code"] == 0 and folded["words"] > usual["words"] / 2
    assert window.seen.troubles == []


def test_folded_code_opens_by_keyboard_and_says_so(reader):
    reader.open("chapters/05_filtering.html")
    word = reader.page.locator(".bw-code:not([inert] *) > summary:visible").first
    word.focus()
    reader.page.keyboard.press("Enter")
    assert word.evaluate("e => e.parentElement.open && e.parentElement.querySelector('pre').checkVisibility()")
    reader.page.locator("#bw-code").select_option("folded")
    button = reader.page.locator(".bw-unfold:visible").first
    assert button.get_attribute("aria-expanded") == "false"
    button.focus()
    reader.page.keyboard.press("Space")
    assert button.get_attribute("aria-expanded") == "true"
    assert button.evaluate("e => e.parentElement.querySelector('pre').checkVisibility()")
    assert [rule for rule in reader.audit("structure").axe if rule["id"] not in THEME_RULES] == []


def test_long_tables_are_open_on_paper_and_closed_after(reader):
    reader.open(f"chapters/{first_chapter()}.html")
    closed = "document.querySelectorAll('details.bw-long:not([open])').length"
    before = reader.page.evaluate(closed)
    assert before > 0
    reader.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert reader.page.evaluate(closed) == 0
    reader.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert reader.page.evaluate(closed) == before


def test_headings_are_ordered_and_lines_are_of_a_good_length(reader):
    """A chapter's title is larger than a section's, that larger than its parts', and those larger than the text."""
    reader.open("chapters/05_filtering.html")
    sizes, letters = reader.page.evaluate("""() => {
      const size = what => parseFloat(getComputedStyle(document.querySelector(`.bd-article ${what}`)).fontSize);
      const range = document.createRange(), found = [];
      for (const p of document.querySelectorAll('.bd-article section > p')) {
        range.selectNodeContents(p);
        const lines = new Set([...range.getClientRects()].map(box => Math.round(box.bottom / 8))).size;
        if (lines > 4) found.push(p.textContent.length / (p.getBoundingClientRect().height / parseFloat(getComputedStyle(p).lineHeight)));
      }
      return [['h1', 'h2', 'h3', 'section > p:not(.bw-minutes)'].map(size), found];
    }""")
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 4
    assert len(letters) > 5 and 60 <= sum(letters) / len(letters) <= 76


def test_search_says_so_when_there_is_nothing(reader):
    reader.page.goto(f"{reader.home}search.html?q=zyzzyva")
    reader.page.locator("#search-results p.search-summary").wait_for()
    assert reader.page.locator("#search-results ul.search li").count() == 0


def test_the_book_opens_from_a_folder(visits, site):
    """Without a server every page loads silently, formulas drawn: the views on the phone came from a folder."""
    found = {
        name: seen
        for (scheme, size, name), seen in visits.items()
        if (scheme, size) == ("light", "phone")
    }
    assert {seen.address.split(":")[0] for seen in found.values()} == {"file"} and sorted(
        found
    ) == sorted(names(site))
    assert {
        name: seen.troubles for name, seen in found.items() if seen.troubles or seen.maths
    } == {}


def test_the_numbers_of_a_figure_can_be_read_and_kept(stick, site):
    """From a folder too: the table opens, axe has nothing to say of it, and the file is the stored one."""
    stick.open(f"chapters/{first_chapter()}.html")
    numbers = stick.page.locator("details.bw-data").first
    numbers.locator("summary").click()
    assert numbers.locator("table td").count() > 3
    with stick.page.expect_download() as started:
        numbers.locator("a[download]").click()
    kept = started.value
    assert (
        Path(kept.path()).read_bytes()
        == (site / "_static/data" / kept.suggested_filename).read_bytes()
    )
    assert [rule for rule in stick.audit("structure").axe if rule["id"] not in THEME_RULES] == []
    assert stick.seen.troubles == []


def first_chapter() -> str:
    """The name of the first chapter."""
    return min(path.stem for path in CHAPTERS.glob("[0-9][0-9]_*.md"))


@pytest.mark.parametrize("where", ["served", "file"])
def test_an_explorer_of_the_built_page_says_what_the_library_says(where, request, site):
    """Its controls, keys and numbers are tried on a page of its own: test_explorers*.py, test_bijection_explorer.py."""
    window = request.getfixturevalue({"served": "reader", "file": "stick"}[where])
    window.open(pages_with_explorer(site)[0])
    for _ in range(3):
        window.page.locator("[data-action=next]").first.click()
        agrees_with_library(window.page, 10)
    assert window.seen.troubles == []
