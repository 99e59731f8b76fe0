"""Notation and glossary: the source, the page made from it, the marks in the chapters and their cards."""

from __future__ import annotations

import ast
import gzip
import importlib
import inspect
import json
import re
import textwrap
from contextlib import suppress
from functools import cache
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from docutils import nodes

from _support import CHAPTERS, ROOT
from _support_browser import OVERFLOW

import bayeswind_terms as bt  # noqa: E402

pytestmark = pytest.mark.xdist_group("browser")

SYMBOLS, TERMS = bt.read(ROOT / "book" / "glossary.toml")
ENTRIES = (*SYMBOLS, *TERMS)
PATTERN, FORMS = bt.pattern_of(TERMS), bt.by_form(TERMS)
NAMES = sorted({name for symbol in SYMBOLS for name in symbol.code})
PAGE = "book/notation.html"
STEMS = [path.stem for kind in ("[0-9][0-9]_*.md", "audit_*.md") for path in sorted(CHAPTERS.glob(kind))]
GOALS = bt.GOALS


# ---- the source ---------------------------------------------------------------------------------


def test_there_are_enough_entries():
    assert len(SYMBOLS) >= 70 and len(TERMS) >= 80


def test_anchors_are_unique_and_entries_sorted():
    anchors = [entry.anchor for entry in ENTRIES]
    assert len(set(anchors)) == len(anchors)
    assert [s.key for s in SYMBOLS] == sorted(s.key for s in SYMBOLS)
    assert [t.name for t in TERMS] == sorted((t.name for t in TERMS), key=str.casefold)


def test_a_form_belongs_to_one_term():
    forms = [form.casefold() for term in TERMS for form in term.all_forms]
    assert sorted(forms) == sorted(set(forms))


def test_definitions_are_short_and_in_sentences():
    for entry in ENTRIES:
        assert entry.means[0].isupper() and entry.means.endswith("."), entry
        sentences = re.findall(r"[.](?:\s|$)", entry.means)
        assert 1 <= len(sentences) <= 3 and len(entry.means) <= 240, entry
        assert set(entry.not_in) | {entry.start or STEMS[0]} <= set(STEMS), entry


def test_cards_hold_no_tex():
    assert not [term.name for term in TERMS if re.search(r"[$\\{}<>]", term.means + term.unit)]


def test_an_unknown_field_is_refused(tmp_path):
    path = tmp_path / "glossary.toml"
    path.write_text('[[term]]\nname = "bit"\nmeans = "A unit."\nunits = "bits"\n')
    with pytest.raises(TypeError, match="units"):
        bt.read(path)


# ---- the names in the code ----------------------------------------------------------------------


def resolve(name: str):
    """What a name of the glossary means in the library; LookupError if there is no such thing.

    A dotted name ends in a function, class, method, field, or an attribute that `__init__` sets;
    brackets name an argument.
    """
    path, _, argument = name.rstrip(")").partition("(")
    found = importlib.import_module("bayeswind_lib")
    for part in path.split("."):
        found = member(found, part, name)
    if argument and argument not in inspect.signature(found).parameters:
        raise LookupError(f"{name}: {path} has no argument {argument!r}")
    return found


def member(owner, part: str, name: str):
    """One step of a dotted name."""
    if inspect.ismodule(owner) and not hasattr(owner, part):
        with suppress(ModuleNotFoundError):
            importlib.import_module(f"{owner.__name__}.{part}")
    if hasattr(owner, part):
        return getattr(owner, part)
    if inspect.isclass(owner) and part in fields_of(owner):
        return fields_of(owner)[part]
    raise LookupError(f"{name}: {owner!r} has no {part!r}")


@cache
def fields_of(kind: type) -> dict[str, object]:
    """Annotated fields of a class, and attributes that its own `__init__` sets."""
    found = {name: hint for base in kind.__mro__ for name, hint in vars(base).get("__annotations__", {}).items()}
    source = vars(kind).get("__init__")
    tree = ast.parse(textwrap.dedent(inspect.getsource(source))) if inspect.isfunction(source) and not hasattr(kind, "__dataclass_fields__") else ast.parse("")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and getattr(node.value, "id", "") == "self":
            found[node.attr] = None
    return found


def test_every_name_in_the_code_exists():
    assert all(symbol.code for symbol in SYMBOLS)
    for name in NAMES:
        resolve(name)


@pytest.mark.parametrize(
    "planted",
    [
        "scoring.kl_bitz", "tunnels.HMM(n_state)", "tunnels.HMM.n_stats", "scoring.Score.kl_err",
        "models.transformer.Attention.keys", "probes.progress.Progress.distance(when)",
    ],
)  # fmt: skip
def test_a_planted_unknown_name_is_found(planted):
    with pytest.raises(LookupError, match=re.escape(planted)):
        resolve(planted)


# ---- finding ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "symbol", "there"),
    [
        ("K S^2", "K", True), ("W_K", "K", False), ("K_t", "K", False), ("x^{2K}", "K", False),
        (r"\bar\alpha_t(j)", r"\alpha_t", True), (r"\alpha_{t-1}", r"\alpha_t", False),
        (r"\mathbb{E}\,x", "E", False), (r"E_{jv}", "E", False), (r"S_{ij} = \tfrac{1}{\sqrt{C}}", "C", True),
        (r"T \,=\, 2 K-1", "T = 2K - 1", True), (r"\text{M1} = 0", r"\text{M1}", True),
    ],
)  # fmt: skip
def test_a_symbol_is_found_by_itself_only(formula, symbol, there):
    assert bt.has_symbol(formula, symbol) is there


def some_terms(*names: str):
    """A pattern and the forms of a few terms that stand for all."""
    terms = tuple(bt.Term(name, "A thing.", forms=(name, name + "s")) for name in names)
    return bt.pattern_of(terms), bt.by_form(terms)


def test_the_longest_form_and_whole_words_are_matched():
    pattern, forms = some_terms("entropy", "entropy error", "posterior")
    text = "Cross-entropy, entropy\nerrors and Posteriors; nonposterior."
    found = [bt.term_of(match, forms).name for match in pattern.finditer(text)]
    assert found == ["entropy error", "posterior"]


def test_only_the_first_occurrence_is_marked():
    pattern, forms = some_terms("probe", "null")
    done: set[str] = set()
    one = bt.marked("Probes have nulls; a probe without a null", pattern, forms, done, "n.html")
    assert [part.astext() for part in one if isinstance(part, bt.term_mark)] == ["Probes", "nulls"]
    assert "".join(part.astext() for part in one) == "Probes have nulls; a probe without a null"
    assert [type(part) for part in bt.marked("a null", pattern, forms, done, "n.html")] == [nodes.Text]


@pytest.mark.parametrize(
    ("wrap", "prose", "plain"),
    [
        (lambda t: nodes.paragraph("", "", t), True, True),
        (lambda t: nodes.list_item("", nodes.paragraph("", "", t)), True, True),
        (lambda t: nodes.paragraph("", "", nodes.strong("", "", t)), True, False),
        (lambda t: nodes.paragraph("", "", nodes.reference("", "", t)), True, False),
        (lambda t: nodes.paragraph("", "", nodes.literal("", "", t)), False, True),
        (lambda t: nodes.paragraph("", "", nodes.math("", "", t)), False, True),
        (lambda t: nodes.title("", "", t), False, True),
        (lambda t: nodes.figure("", nodes.caption("", "", t)), False, True),
        (lambda t: nodes.entry("", nodes.table("", nodes.paragraph("", "", t))), False, True),
        (lambda t: nodes.container("", nodes.paragraph("", "", t), classes=["exercise"]), False, True),
        (lambda t: nodes.section("", nodes.title("", GOALS), nodes.paragraph("", "", t)), False, True),
    ],
)
def test_what_is_prose_and_what_may_be_marked(wrap, prose, plain):
    text = nodes.Text("entropy")
    nodes.section("", nodes.title("", "Bits"), wrap(text))
    assert (bt.is_prose(text), bt.may_be_marked(text)) == (prose, plain)


def test_a_title_counts_as_a_first_use_but_a_goal_does_not():
    title, goal, body = nodes.Text("Bits"), nodes.Text("entropy"), nodes.Text("entropy")
    theorem = nodes.section("", nodes.paragraph("", "", body), ids=["theorem"])  # as sphinx-proof has it
    nodes.section("", nodes.title("", "", title), theorem, ids=["bits"])
    nodes.section("", nodes.title("", GOALS), nodes.paragraph("", "", goal))
    assert bt.is_prose(title, titles=True) and not bt.is_prose(title)
    assert not bt.is_prose(goal, titles=True)
    assert bt.section_of(title) == bt.section_of(body) == ("bits", "Bits")


BOOK = """[[symbol]]
key = "k"
tex = "K"
code = []
means = "Questions."
[[term]]
name = "bit"
means = "A unit."
[[term]]
name = "probe"
means = "A tool."
start = "02_second"
[[term]]
name = "null"
means = "A control."
not_in = ["01_first"]
[[term]]
name = "mask"
means = "It hides."
"""


def page_of(*sections: str) -> nodes.section:
    """A chapter of sections that say something; what stands between dollars is a formula."""
    made = nodes.section("", nodes.title("", "A chapter"))
    for number, words in enumerate(sections, 1):
        parts = [nodes.math("", part) if i % 2 else nodes.Text(part) for i, part in enumerate(words.split("$"))]
        made += nodes.section("", nodes.title("", f"Part {number}"), nodes.paragraph("", "", *parts), ids=[f"part-{number}"])
    return made


def test_the_first_use_is_the_first_chapter_and_section_in_reading_order(tmp_path):
    """Read in another order than the book's, of words that come back, or mean something else before."""
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "glossary.toml").write_text(BOOK)
    order = ["chapters/03_zeroth", "chapters/01_first", "chapters/02_second"]
    env = SimpleNamespace(config=SimpleNamespace(root_doc="intro"), toctree_includes={"intro": order})
    app = SimpleNamespace(env=env, srcdir=tmp_path)
    said = {
        "chapters/01_first": ["A probe.", "A bit; a null; a mask.", "A bit with $K$.", "Of $K$ there are more."],
        "chapters/02_second": ["A null.", "A probe and a bit with $K$.", "A probe and a null."],
        "chapters/03_zeroth": ["A mask."],
    }
    for env.docname, sections in said.items():
        bt.note_uses(app, page_of(*sections))
    symbols, terms = bt.read(tmp_path / "book" / "glossary.toml")
    found = {entry.anchor: bt.first_use(env, entry) for entry in (*symbols, *terms)}
    assert found == {
        "symbol-k": ("chapters/01_first", "part-3", "Part 3"),
        "term-bit": ("chapters/01_first", "part-2", "Part 2"),
        "term-probe": ("chapters/02_second", "part-2", "Part 2"),
        "term-null": ("chapters/02_second", "part-1", "Part 1"),
        "term-mask": ("chapters/03_zeroth", "part-1", "Part 1"),
    }
    bt.forget_uses(app, env, "chapters/01_first")
    assert bt.first_use(env, terms[0]) == ("chapters/02_second", "part-2", "Part 2")
    bt.forget_uses(app, env, "chapters/02_second")
    assert bt.first_use(env, terms[0]) is None


# ---- the built pages ----------------------------------------------------------------------------

VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
HEADINGS = {"h1", "h2", "h3", "h4"}
BOXES = {"exercise", "solution", "cell"}


class Element(NamedTuple):
    """An open element: its tag, its attributes, and a number of its own."""

    tag: str
    attributes: dict
    number: int

    @property
    def classes(self) -> set[str]:
        return set((self.attributes.get("class") or "").split())


class Pieces(HTMLParser):
    """A page as its texts, each with the elements that it stands in, the outermost first."""

    def __init__(self, text: str):
        super().__init__()
        self.pieces: list[tuple[str, tuple[Element, ...]]] = []
        self.stack: list[Element] = []
        self.number = 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.number += 1
            self.stack.append(Element(tag, dict(attrs), self.number))

    def handle_endtag(self, tag):
        while self.stack and any(e.tag == tag for e in self.stack) and self.stack.pop().tag != tag:
            pass

    def handle_data(self, data):
        self.pieces.append((data, tuple(self.stack)))


@pytest.fixture(scope="module")
def pieces(request):
    """The pieces of a built page, read once."""
    folder = request.getfixturevalue("site")
    return cache(lambda name: Pieces((folder / name).read_text("utf-8")).pieces)


@pytest.fixture(scope="module")
def parts(pieces):
    """Anchor -> the pieces of a page that stand in the element with this anchor."""

    def of(name: str) -> dict[str, list]:
        found: dict[str, list] = {}
        for piece in pieces(name):
            for element in piece[1]:
                if element.attributes.get("id"):
                    found.setdefault(element.attributes["id"], []).append(piece)
        return found

    return cache(of)


@pytest.fixture(scope="module")
def first_uses(pieces) -> dict[str, tuple[str, str]]:
    """Anchor of an entry -> (chapter, anchor of the section) that its last link leads to."""
    found, name = {}, ""
    for _, path in pieces(PAGE):
        ids = [e.attributes["id"] for e in path if e.tag in ("tr", "dt") and e.attributes.get("id")]
        name = ids[-1] if ids else name
        links = [e.attributes.get("href", "") for e in path if e.tag == "a"]
        if name and links and any(e.tag in ("tr", "dd") for e in path):
            stem, _, anchor = links[-1].removeprefix("../chapters/").partition(".html#")
            found[name] = (stem, anchor)
    return found


def test_every_entry_has_its_place_and_its_first_use(parts, first_uses):
    for entry in ENTRIES:
        stem, anchor = first_uses[entry.anchor]
        assert stem in STEMS, f"{entry.anchor}: {stem}"
        here = parts(f"chapters/{stem}.html").get(anchor)
        assert here and uses_it(here, entry), f"{entry.anchor} is not in {stem}#{anchor}"


def uses_it(here: list, entry) -> bool:
    """Whether a part of a page has the symbol in a formula, or the term in its text."""
    if isinstance(entry, bt.Term):
        return bool(bt.pattern_of((entry,)).search("".join(text for text, _ in here)))
    boxes = {e.number: e.attributes["data-tex"] for _, path in here for e in path if "math" in e.classes}
    return any(bt.has_symbol(formula, tex) for formula in boxes.values() for tex in entry.find or (entry.tex,))


def prose(pieces) -> str:
    """The paragraphs and titles of a chapter as its page has them: another way than the extension's."""
    blocks: dict[int, list[str]] = {}
    goals = {path[-2].number for text, path in pieces if text.startswith(GOALS) and path[-1].tag == "h2"}
    for text, path in pieces:
        block = next((e for e in reversed(path) if e.tag in {"p", *HEADINGS}), None)
        classes = set().union(*(e.classes for e in path)) if path else set()
        aside = {e.tag for e in path} & {"table", "figure", "figcaption", "code", "aside", "nav"}
        if block is None or aside or classes & {*BOXES, "math", "headerlink", "bw-minutes", "sidebar"}:
            continue
        if any(e.tag == "article" for e in path) and not goals & {e.number for e in path}:
            blocks.setdefault(block.number, []).append(text)
    return "\n".join(" ".join("\x01".join(texts).split()) for texts in blocks.values())


def test_no_chapter_before_the_first_use_has_the_term(pieces, first_uses):
    said = {stem: terms_in(prose(pieces(f"chapters/{stem}.html"))) for stem in STEMS}
    late = []
    for term in TERMS:
        first, last = STEMS.index(term.start or STEMS[0]), STEMS.index(first_uses[term.anchor][0])
        earlier = [s for s in STEMS[first:last] if s not in term.not_in]
        late += [(term.name, s) for s in earlier if term.anchor in said[s]]
        assert term.anchor in said[STEMS[last]], term.name
    assert late == []


def terms_in(text: str) -> set[str]:
    """The anchors of the terms that a text has a form of."""
    return {bt.term_of(match, FORMS).anchor for match in PATTERN.finditer(text)}


def cards_of(text: str) -> dict:
    """What the build handed to a page."""
    return json.loads(re.search(r"<script>var bwTerms = (\{.*?\});</script>", text, re.S)[1])


@pytest.mark.parametrize("stem", STEMS)
def test_marks_stand_in_prose_once_each_with_their_definitions(pieces, site, stem):
    paths = [path for _, path in pieces(f"chapters/{stem}.html") if any("bw-term" in e.classes for e in path)]
    links = [next(e for e in path if "bw-term" in e.classes) for path in paths]
    anchors = [link.attributes["href"].removeprefix("../book/notation.html#") for link in links]
    assert 10 <= len(anchors) == len(set(anchors)) <= 60
    cards = cards_of((site / f"chapters/{stem}.html").read_text("utf-8"))
    assert set(anchors) == set(cards) <= {term.anchor for term in TERMS}
    forbidden = {*HEADINGS, "code", "pre", "figcaption", "figure", "table", "dt", "em", "strong"}
    for path in paths:
        tags = [e.tag for e in path]
        assert "p" in tags and tags.count("a") == 1 and not forbidden & set(tags), path[-1]
        assert not any({*BOXES, "math"} & e.classes for e in path), path[-1]


@pytest.mark.parametrize("stem", STEMS)
def test_marks_and_cards_weigh_little(site, stem):
    """What terms add to a page, compressed; and their script and style, which all pages share."""
    text = (site / f"chapters/{stem}.html").read_text("utf-8")
    bare = re.sub(r"<script>var bwTerms = .*?</script>", "", text, flags=re.S)
    bare = re.sub(r'<a class="bw-term"[^>]*>(.*?)</a>', r"\1", bare, flags=re.S)
    assert "bwTerms" not in bare and "bw-term" not in bare
    assert len(gzip.compress(text.encode())) - len(gzip.compress(bare.encode())) <= 5_000
    shared = b"".join((site / "_static" / name).read_bytes() for name in ("terms.js", "terms.css"))
    assert len(gzip.compress(shared)) <= 5_000


def test_the_page_of_the_glossary_and_the_others_have_no_marks(site):
    for name in (PAGE, "book/ledger.html", "index.html"):
        assert "bw-term" not in (site / name).read_text("utf-8").replace("bw-terms", "")


def test_the_notebooks_know_the_terms():
    labels = json.loads((ROOT / "_build" / "labels.json").read_text("utf-8"))["labels"]
    for term in TERMS:
        entry = labels[f"term:{term.name}"]
        assert (entry["doc"], entry["anchor"]) == (bt.PAGE, term.anchor)
    assert {entry.source for entry in ENTRIES if entry.source} <= set(labels)


# ---- the cards in a browser ---------------------------------------------------------------------

CARD = ".bw-card"
# Colours of the card alone; what axe waits for does not depend on the clock, which stands still.
COLOURS = """() => axe.run('.bw-card', {preload: false, runOnly: ['color-contrast', 'link-in-text-block']})
  .then(found => found.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' ')))"""
INSIDE = """() => {
  const box = document.querySelector('.bw-card').getBoundingClientRect();
  return box.left >= 0 && box.right <= document.documentElement.clientWidth && box.top >= 0
    && box.bottom <= innerHeight && document.documentElement.scrollWidth <= innerWidth;
}"""


def opened(browser, address: str, **settings):
    """A page whose clock only moves when it is told to."""
    page = browser.new_context(**settings).new_page()
    page.clock.install()
    page.goto(address, wait_until="domcontentloaded")
    page.wait_for_function("document.querySelector('a.bw-term[aria-describedby]') || document.querySelector('#bw-filter')")
    return page


@pytest.fixture(scope="module")
def desk(browser, home):
    """A chapter at a desk, with a mouse and a keyboard."""
    page = opened(browser, f"{home}/chapters/01_bayesian.html", viewport={"width": 1280, "height": 900})
    yield page
    page.context.close()


@pytest.fixture(scope="module")
def phone(browser, home):
    """The same chapter on a narrow phone, with a finger."""
    page = opened(browser, f"{home}/chapters/01_bayesian.html", viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    yield page
    page.context.close()


@pytest.fixture
def clear(desk):
    """The desk with no card open, nothing focused and the pointer away."""
    desk.mouse.move(2, 2)
    desk.keyboard.press("Escape")
    desk.evaluate("document.activeElement.blur()")
    desk.clock.run_for(2000)
    assert desk.locator(CARD).count() == 0
    return desk


def term_at(page, n: int):
    """The n-th mark, in view."""
    link = page.locator("a.bw-term").nth(n)
    link.scroll_into_view_if_needed()
    return link


def test_the_pointer_opens_a_card_that_it_may_enter(clear):
    link = term_at(clear, 3)
    link.hover()
    assert clear.locator(CARD).count() == 0  # not at once: a pointer that passes opens nothing
    clear.clock.run_for(400)
    card = clear.locator(CARD)
    assert link.get_attribute("href").split("#")[1] in clear.evaluate("Object.keys(bwTerms)")
    card.hover()
    clear.clock.run_for(5000)
    assert card.is_visible()  # hoverable and persistent
    clear.mouse.move(2, 2)
    clear.clock.run_for(1000)
    assert card.count() == 0


def test_a_pointer_that_passes_opens_nothing(clear):
    term_at(clear, 2).hover()
    clear.clock.run_for(100)
    clear.mouse.move(2, 2)
    clear.clock.run_for(3000)
    assert clear.locator(CARD).count() == 0


def test_escape_closes_a_card_without_moving_the_pointer(clear):
    term_at(clear, 4).hover()
    clear.clock.run_for(400)
    assert clear.locator(CARD).is_visible()
    clear.keyboard.press("Escape")
    clear.clock.run_for(3000)
    assert clear.locator(CARD).count() == 0


def test_focus_opens_a_card_and_tab_goes_through_its_link(clear):
    link = term_at(clear, 5)
    clear.keyboard.press("Tab")
    link.focus()
    card = clear.locator(CARD)
    assert card.is_visible()
    clear.keyboard.press("Tab")
    assert clear.evaluate("document.activeElement.textContent") == "All notation"
    clear.keyboard.press("Escape")
    assert card.count() == 0
    assert link.evaluate("link => link === document.activeElement")  # it gets the focus back
    clear.keyboard.press("Tab")
    assert not link.evaluate("link => !!link.nextElementSibling && link.nextElementSibling.matches('.bw-card')")


def test_each_mark_points_at_its_words(clear):
    wrong = clear.evaluate("""() => [...document.querySelectorAll('a.bw-term')].filter(link => {
      const words = document.getElementById(link.getAttribute('aria-describedby'));
      return !words || words.textContent.length < 20;
    }).length""")
    assert wrong == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_card_can_be_read_in_both_themes(clear, theme):
    from axe_playwright_python.base import AXE_SCRIPT

    clear.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
    term_at(clear, 6).hover()
    clear.clock.run_for(1000)
    clear.evaluate(AXE_SCRIPT)
    assert clear.evaluate("document.querySelector('.bw-card').checkVisibility()")
    clear.clock.resume()
    assert clear.evaluate(COLOURS) == []


def test_a_tap_opens_a_card_inside_the_window_and_another_closes_it(phone):
    address, n = phone.url, phone.locator("a.bw-term").count()
    for i in (0, n // 3, n // 2, n - 1):
        term_at(phone, i).tap()
        assert phone.locator(CARD).count() == 1 and phone.evaluate(INSIDE)
    term_at(phone, n - 1).tap()
    assert phone.locator(CARD).count() == 0
    assert phone.url == address
    term_at(phone, 0).tap()
    phone.touchscreen.tap(180, 700)
    assert phone.locator(CARD).count() == 0


def test_every_card_fits_a_narrow_window(phone):
    outside = phone.evaluate("""() => [...document.querySelectorAll('a.bw-term')].filter(link => {
      link.scrollIntoView({ block: 'center', behavior: 'instant' });
      link.dispatchEvent(new PointerEvent('pointerdown', { pointerType: 'touch', bubbles: true }));
      link.click();
      const box = document.querySelector('.bw-card').getBoundingClientRect();
      return box.left < 0 || box.right > 360 || box.top < 0 || box.bottom > innerHeight;
    }).map(link => link.textContent)""")
    assert outside == []


def test_the_glossary_can_be_filtered_and_fits_a_phone(browser, home):
    page = opened(browser, f"{home}/{PAGE}", viewport={"width": 360, "height": 740})
    assert page.evaluate(OVERFLOW) == []
    apart = """() => [...document.querySelectorAll('.bw-symbols tbody tr')].filter(row => {
      const [code, used] = [row.cells[2], row.cells[3]].map(cell => cell.getBoundingClientRect());
      return code.bottom > used.top + 1 && code.right > used.left + 1;
    }).length"""
    assert page.evaluate(apart) == 0
    narrow = """() => [...document.querySelectorAll('.bw-symbols tbody :is(th, td)')]
      .filter(cell => cell.clientWidth < cell.parentNode.clientWidth - 4).length"""
    assert page.evaluate(narrow) == 0  # on a phone each cell has the whole width: no formula is cut
    page.set_viewport_size({"width": 1000, "height": 740})
    assert page.evaluate(OVERFLOW) == [] and page.evaluate(apart) == 0
    too_wide = """() => [...document.querySelectorAll('.bw-name')].filter(name => [...name.getClientRects()].some(
      box => box.right > name.closest('td').getBoundingClientRect().right + 1)).map(name => name.textContent)"""
    assert page.evaluate(too_wide) == []
    page.locator("#bw-filter").fill("kl_bits")
    shown = page.locator(".bw-symbols tbody tr:visible, .bw-terms > dt:visible")
    assert 1 <= shown.count() < 10
    assert page.locator(".bw-filter [role=status]").inner_text().startswith(f"{shown.count()} of {len(ENTRIES)}")
    page.locator("#bw-filter").fill("")
    assert shown.count() == len(ENTRIES)
    page.context.close()


def test_without_a_script_the_terms_are_links_and_nothing_is_hidden(browser, home):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{home}/chapters/01_bayesian.html", wait_until="domcontentloaded")
    link = page.locator("a.bw-term").first
    anchor = link.get_attribute("href").split("#")[1]
    link.click(no_wait_after=True)
    page.wait_for_url(f"**/notation.html#{anchor}")
    assert page.locator(f"#{anchor}").is_visible() and page.locator("#bw-filter").count() == 0
    context.close()


def test_a_card_opens_on_a_page_from_a_folder(browser, site):
    page = opened(browser, (site / "chapters/02_tunnel.html").as_uri())
    term_at(page, 0).hover()
    page.clock.run_for(400)
    assert page.locator(CARD).is_visible()
    page.context.close()
