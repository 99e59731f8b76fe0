"""The PDF of the book: a chapter and the references, printed and joined as `make pdf` does with all pages."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

import pytest
from bs4 import BeautifulSoup
from pypdf import PdfReader
from pypdf.generic import DictionaryObject

from _support import ROOT, pages
from _support_browser import browser_path, chromium

from tools import address
from tools import pdf

pytestmark = pytest.mark.xdist_group("browser")
DOCUMENTS = ["chapters/02_tunnel", "book/references"]
FIRST = "chapters-02_tunnel--"
# Sections of the chapter that are not printed here, to save time.
DROPPED = ["elimination-without-binding", "how-this-could-be-wrong", "the-oracle-as-a-program", "predictors-whose-rule-is-known"]


def plain(text: str) -> str:
    """A text without its spaces and quotation marks, which a PDF sets as it likes."""
    return re.sub(r"[\s'’]+", "", text).lower()


@dataclass
class Printed:
    """A printed PDF: its reader, the text of each page, and what book/tools/pdf.py says of it."""

    reader: PdfReader
    text: list[str]
    book: pdf.Book

    def page_with(self, words: str, after: int = 0) -> list[int]:
        """The pages, from 1, whose text holds the words."""
        return [
            n for n, text in enumerate(self.text, 1) if n > after and plain(words) in plain(text)
        ]


@pytest.fixture(scope="module")
def small(tmp_path_factory, site):
    """The built book with only the two pages, the chapter without most of its sections."""
    folder = tmp_path_factory.mktemp("small")
    for name in ("_static", "_images", "searchindex.js"):
        (folder / name).symlink_to(site / name)
    for name in DOCUMENTS:
        page = BeautifulSoup((site / f"{name}.html").read_text("utf-8"), "html.parser")
        for dropped in DROPPED if name == DOCUMENTS[0] else ():
            page.select_one(f"section#{dropped}").decompose()
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.html").write_text(str(page), "utf-8")
    return folder


@pytest.fixture(scope="module")
def printed(tmp_path_factory, small):
    browser_path("chromium")  # skips, or fails in CI, where there is none
    file = tmp_path_factory.mktemp("pdf") / "two.pdf"
    book = pdf.make(file, DOCUMENTS, small, say=lambda words: None)
    assert not list(file.parent.glob("*.part"))
    reader = PdfReader(file)
    return Printed(reader, [page.extract_text() for page in reader.pages], book)


@pytest.fixture(scope="module")
def articles(small):
    """The articles of the two built pages."""
    html = {name: (small / f"{name}.html").read_text("utf-8") for name in DOCUMENTS}
    return {
        name: BeautifulSoup(text, "html.parser").select_one("article")
        for name, text in html.items()
    }


def titles(article) -> list[str]:
    """The first two levels of headings of a built page, without their links."""
    for mark in article.select(".headerlink"):
        mark.extract()
    return [" ".join(heading.get_text().split()) for heading in article.select("h1, h2")]


def outline(reader, entries=None, depth=0) -> list[tuple[int, str, int]]:
    """The outline as (depth, words, page from 1)."""
    found = []
    for entry in reader.outline if entries is None else entries:
        if isinstance(entry, list):
            found += outline(reader, entry, depth + 1)
        else:
            found.append((depth, entry.title, reader.get_destination_page_number(entry) + 1))
    return found


def test_the_outline_holds_every_heading_once_and_leads_to_it(printed, articles):
    lines = outline(printed.reader)
    parts = pdf.chosen(pdf.parts_of(), DOCUMENTS)
    expected = ["Contents"]
    for part in parts:
        expected.append(part.title)
        for name in part.documents:
            expected += titles(articles[name]) + (
                (["Answers to the predictions"] if articles[name].select(".bw-predict") else [])
                + (["Solutions"] if articles[name].select("div.solution") else [])
            )
    assert [words for _, words, _ in lines] == expected
    assert {words: depth for depth, words, _ in lines}[parts[0].title] == 0
    assert {depth for depth, words, _ in lines if words in titles(articles[DOCUMENTS[0]])[1:]} == {
        2
    }
    for _, words, page in lines:
        assert page in printed.page_with(words), f"{words} is not on page {page}"
    assert [page for _, _, page in lines] == sorted(page for _, _, page in lines)


def test_the_contents_name_the_page_of_every_heading(printed, articles):
    contents = plain(printed.text[2])
    for words in titles(articles[DOCUMENTS[0]]) + titles(articles[DOCUMENTS[1]]):
        number = re.search(re.escape(plain(words)) + r"\.*(\d+)", contents)
        assert number, f"the contents do not hold {words}"
        told = next(n for n in (int(number[1][:i]) for i in (3, 2, 1)) if n <= len(printed.text))
        assert told in printed.page_with(words, after=3)


def test_every_page_but_cover_and_part_pages_carries_its_number(printed):
    bare = [n for n, text in enumerate(printed.text, 1) if not re.search(rf"(?m)^\s*{n}\s*$", text)]
    openings = [page for depth, _, page in outline(printed.reader) if depth == 0]
    assert bare == [1, *openings[1:]]


def test_chapters_and_their_solutions_begin_on_a_page_of_their_own(printed, articles):
    places = printed.book.places
    starts = [anchors[0][0] for anchors in printed.book.headings.values()]
    assert len(starts) == len(DOCUMENTS)
    height = float(printed.reader.pages[0].mediabox.height)
    for anchor in [*starts, f"{FIRST}solutions"]:
        assert places[anchor][1] > 0.82 * height, f"{anchor} does not begin its page"
    exercises = articles[DOCUMENTS[0]].select("div.exercise")
    first, behind = places[f"{FIRST}{exercises[0]['id']}"][0], places[f"{FIRST}solutions"][0]
    answers = articles[DOCUMENTS[0]].select("div.solution")
    assert len(answers) == len(exercises) > 5
    assert all(places[f"{FIRST}{answer['id']}"][0] >= behind > first for answer in answers)
    told = re.findall(r"Solution: page\s+(\d+)", "".join(printed.text))
    assert list(map(int, told)) == [places[f"{FIRST}{answer['id']}"][0] for answer in answers]


def test_answers_stand_behind_their_questions(printed, articles):
    """On pages of their own, which the question names."""
    answers = next(page for _, words, page in outline(printed.reader) if words == "Answers to the predictions")
    asked = articles[DOCUMENTS[0]].select(".bw-predict")
    for prediction in asked:
        question, *why = (part.get_text() for part in prediction.select(".bw-predict-question, .bw-predict-answer p"))
        first, last = printed.page_with(question)
        assert first < last == answers and plain(f"Answer: page {answers}") in plain(printed.text[first - 1])
        assert all(answers in printed.page_with(words) for words in why) and first not in printed.page_with(why[-1])
    assert len(asked) == 3 and plain(printed.text[answers - 1]).index(plain("Answers to the predictions")) < 50


def test_links_stay_inside_or_lead_to_the_published_book(printed, articles):
    links = pdf.links_of(printed.reader)
    places = printed.book.places
    outward = {to for _, to in links if not to.startswith("#")}
    assert not {to for to in outward if re.match(r"file:|http://book\.invalid|/|\.", to)}
    assert address.page("chapters/03_training") in {to.split("#")[0] for to in outward}
    lost = [a["href"][1:] for a in articles[DOCUMENTS[0]].select('a[href^="#"]')
            if a["href"] != "#" and not articles[DOCUMENTS[0]].find(id=a["href"][1:])]  # fmt: skip
    assert lost
    assert all(address.page(DOCUMENTS[0], anchor) in outward for anchor in lost)
    cited = articles[DOCUMENTS[0]].select_one('a[href*="references.html#"]')
    anchor = f"book-references--{cited['href'].split('#')[1]}"
    entry = articles[DOCUMENTS[1]].find(id=cited["href"].split("#")[1])
    assert places[anchor][0] in printed.page_with(entry.select_one("p").get_text()[:40])
    assert any(to == f"#{anchor}" for _, to in links)


def test_a_link_into_the_machine_or_nowhere_is_found():
    links = [(3, "file:///home/someone/x"), (4, "#there"), (5, "#gone"), (6, "https://example.org")]
    assert pdf.trouble_with(links, {"there"}) == ["page 3: file:///home/someone/x", "page 5: #gone"]


def structure(reader) -> list[DictionaryObject]:
    """All elements of the file's structure."""
    found, waiting = [], [reader.root_object["/StructTreeRoot"]]
    while waiting:
        kids = [kid.get_object() for kid in pdf.kids_of(waiting.pop())]
        fresh = [kid for kid in kids if isinstance(kid, DictionaryObject) and "/S" in kid]
        found += fresh
        waiting += fresh
    return found


def test_the_file_is_tagged_and_every_figure_has_its_words(printed, articles):
    elements = structure(printed.reader)
    told = [plain(str(e.get("/Alt", ""))) for e in elements if e["/S"] == "/Figure"]
    drawings = articles[DOCUMENTS[0]].select(".bw-wide-layout > svg")
    assert len(drawings) > 1
    for drawing in drawings:
        assert plain(drawing["aria-label"]) in told
    kinds = {element["/S"] for element in elements}
    assert {"/P", "/Link", "/Table", "/TH", "/TD", "/H1", "/H2", "/LI"} <= kinds
    assert "/NonStruct" not in kinds


def test_every_piece_of_content_belongs_to_the_element_that_holds_it(printed):
    """book/tools/pdf.py takes elements out of the structure: both ways through it must still agree."""
    holds, tree = {}, printed.reader.root_object["/StructTreeRoot"]
    for element in structure(printed.reader):
        for kid in pdf.kids_of(element):
            kid = kid.get_object()
            if isinstance(kid, int):
                holds[element.raw_get("/Pg").idnum, kid] = element
            elif "/MCID" in kid:
                page = kid.raw_get("/Pg") if "/Pg" in kid else element.raw_get("/Pg")
                holds[page.idnum, kid["/MCID"]] = element
    rows = {}

    def read(node):
        for kid in node.get("/Kids", []):
            read(kid.get_object())
        numbers = node.get("/Nums", [])
        rows.update(zip(numbers[::2], numbers[1::2], strict=True))

    read(tree["/ParentTree"])
    checked = 0
    for page in printed.reader.pages:
        row = rows[page["/StructParents"]].get_object() if "/StructParents" in page else []
        for number, element in enumerate(row):
            owner = holds.get((page.indirect_reference.idnum, number))
            if owner is not None:
                assert element.get_object() is owner
                checked += 1
    assert checked > 1000


def test_formulas_figures_and_explorer_are_on_the_paper(printed, articles):
    text = "".join(printed.text)
    for caption in articles[DOCUMENTS[0]].select("figcaption .caption-text"):
        if not caption.select(".math"):
            assert plain(caption.get_text()) in plain(text)
    assert "\\(" not in text
    assert "\\[" not in text
    assert len(re.findall(r"\\sum|\\log|\\frac", text)) == 0
    assert "∑" in text  # the staircase's area is a sum
    live = [page for page, to in pdf.links_of(printed.reader) if to == address.page(DOCUMENTS[0])]
    explorer = printed.page_with("Move it on the page")
    assert len(explorer) == 1
    assert explorer[0] in live
    assert "exact posterior (probability)" in printed.text[explorer[0] - 1]
    assert "New episode" not in text  # its buttons are gone


def test_the_file_says_what_it_is(printed):
    settings, about, root = address.settings(), printed.reader.metadata, printed.reader.root_object
    assert (about.title, about.author) == (settings["title"], settings["author"])
    assert address.site() in about.subject
    assert address.version() in printed.text[0]
    assert root["/Lang"] == "en"
    assert root["/MarkInfo"]["/Marked"]
    assert root["/ViewerPreferences"]["/DisplayDocTitle"]
    box = printed.reader.pages[0].mediabox
    assert (round(float(box.width) / 72 * 25.4), round(float(box.height) / 72 * 25.4)) == (210, 297)


def test_every_font_is_inside(printed):
    seen = {}
    for page in printed.reader.pages:
        for font in page["/Resources"].get("/Font", {}).values():
            font = font.get_object()
            inner = font["/DescendantFonts"][0].get_object() if "/DescendantFonts" in font else font
            held = inner.get("/FontDescriptor", {})
            inside = font["/Subtype"] == "/Type3" or {
                "/FontFile",
                "/FontFile2",
                "/FontFile3",
            } & set(held)
            seen[str(font.get("/BaseFont", "Type3"))] = bool(inside)
    assert all(seen.values()), seen
    assert any("STIXGeneral" in name for name in seen)


def test_nothing_is_wider_than_the_paper(printed):
    assert printed.book.notes == []


def test_all_pages_of_the_toc_are_printed():
    toc = {"chapters": [{"file": "a", "sections": [{"file": "b"}, {"url": "x"}]}, {"file": "c"}]}
    assert pdf.names_in(toc["chapters"]) == ["a", "b", "c"]
    named = re.findall(r"(?:file|root): (\S+)", (ROOT / "_toc.yml").read_text("utf-8"))
    assert [name for part in pdf.parts_of() for name in part.documents] == named


def test_what_is_missing_is_said_and_an_old_pdf_stays(tmp_path, monkeypatch, site):
    old = tmp_path / "book.pdf"
    old.write_bytes(b"old")
    with pytest.raises(pdf.CannotPrint, match="make book"):
        pdf.make(old, site=tmp_path)
    with pytest.raises(pdf.CannotPrint, match="chapters/99"):
        pdf.make(old, ["chapters/99"], site)
    monkeypatch.setenv("BAYESWIND_CHROMIUM", str(tmp_path / "nowhere"))
    with pytest.raises(pdf.CannotPrint, match="nowhere.*python book/tools browser"):
        pdf.make(old, DOCUMENTS, site)
    assert old.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["book.pdf"]


def test_a_page_that_does_not_answer_is_named(monkeypatch):
    pytest.importorskip("playwright")
    monkeypatch.setitem(pdf.LIMITS, "page", 0.01)
    with pytest.raises(pdf.CannotPrint, match=r"chapters/03_training: no answer in 0\.01 s"):
        asyncio.run(pdf.within("page", "chapters/03_training", asyncio.sleep(30)))


# --- a page that a reader prints -------------------------------------------------------------


def test_every_page_has_the_style_for_paper_after_the_others(site):
    for path in pages(site):
        if path.name in ("index.html", "genindex.html", "search.html"):
            continue
        head = path.read_text("utf-8").partition("</head>")[0]
        links = [link for link in re.findall(r"<link\b[^>]*>", head) if 'rel="stylesheet"' in link]
        names = [re.search(r"([\w.-]+\.css)", link)[1] for link in links]
        place = names.index("print.css")
        assert 'media="print"' in links[place]
        theme = {"pydata-sphinx-theme.css", "sphinx-book-theme.css"}
        before = {"book.css"} | ({"landing.css"} if path.name == "intro.html" else theme)
        assert before <= set(names[:place]), f"{path.name}: {names}"


PAPER = """() => {
  const shown = [...document.querySelectorAll('body *')].filter(e => e.checkVisibility());
  const kinds = ['.bd-sidebar-primary', '.bd-sidebar-secondary', '.bd-header-article', '.prev-next-area',
    '.copybtn', '.headerlink', 'button:not(.bw-chip)', 'input'];
  const width = document.documentElement.clientWidth;
  return {
    clutter: kinds.filter(kind => shown.some(e => e.matches(kind))),
    title: document.querySelector('article h1').checkVisibility(),
    wide: shown.filter(e => e.closest('article') && !e.closest('math') &&
      e.getBoundingClientRect().right > width + 1).slice(0, 5).map(e => e.tagName + '.' + e.className),
    ground: getComputedStyle(document.body).backgroundColor,
    ink: getComputedStyle(document.querySelector('article p:not([class])')).color,
    theme: document.documentElement.dataset.theme,
  };
}"""


def test_a_printed_page_is_its_article_in_dark_on_white(site):
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 680, "height": 960}, color_scheme="dark")
        page = context.new_page()
        page.goto((site / f"{DOCUMENTS[0]}.html").as_uri())
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        seen = page.evaluate(PAPER)
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        back = page.evaluate("document.documentElement.dataset.theme")
        context.close()
    assert seen["clutter"] == []
    assert seen["title"]
    assert seen["wide"] == []
    assert (seen["ground"], seen["ink"]) == ("rgb(255, 255, 255)", "rgb(0, 0, 0)")
    assert (seen["theme"], back) == ("light", "dark")
