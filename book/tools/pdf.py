"""The whole book as one PDF: `make pdf` writes `_build/bayesian-wind-tunnel.pdf`.

The built pages are the source, so that paper and page cannot say different things, and no LaTeX is
needed. A headless Chromium opens each page and takes its article (`pdf_page.js`); the articles
become one document, which is printed twice: the first print tells on which page everything stands,
the second one carries those numbers in its contents. pypdf then adds the outline and the metadata
and checks every link. Nothing is asked of the network: a made-up host serves the built folder.
"""

from __future__ import annotations

import asyncio
import html
import mimetypes
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml

from . import ROOT, address, browser

HERE = Path(__file__).resolve().parent
SITE = ROOT / "_build" / "html"
OUTPUT = ROOT / "_build" / "bayesian-wind-tunnel.pdf"

HOME = "http://book.invalid/"  # ".invalid" is a name that no network knows (RFC 2606)
WHOLE = "whole-book.html"
FONTS = "fonts-of-the-book/"
# What may take how long, in seconds, on a slow machine: one page, all formulas, one print.
LIMITS = {"page": 120, "formulas": 600, "print": 900}
OLDEST_CHROMIUM = 131  # the first that prints page numbers asked for in CSS
# A4 less the margins of pdf.css, in CSS px of 1/96 inch.
PAPER = {"width": int((210 - 2 * 19) / 25.4 * 96), "height": int((297 - 20 - 21) / 25.4 * 96)}
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]


class CannotPrint(RuntimeError):
    """Something is missing or went wrong; the text says what to do."""


# --- what the book consists of ---------------------------------------------------------------


@dataclass
class Part:
    """A part of the book: its title ("" for what stands before the first), its pages by name."""

    title: str
    documents: list[str]


def names_in(entries: Sequence[dict]) -> list[str]:
    """The pages of a list of `_toc.yml`, with those below them."""
    return [
        name for e in entries for name in (e.get("file"), *names_in(e.get("sections", []))) if name
    ]


def parts_of(root: Path = ROOT) -> list[Part]:
    """The parts of the book, in the order of `_toc.yml`; the first one holds the landing page."""
    toc = yaml.safe_load((root / "_toc.yml").read_text("utf-8"))
    parts = [Part("", [toc["root"], *names_in(toc.get("chapters", []))])]
    return parts + [
        Part(p.get("caption", ""), names_in(p["chapters"])) for p in toc.get("parts", [])
    ]


def chosen(parts: list[Part], documents: Sequence[str] | None) -> list[Part]:
    """The parts with only some of their pages; all of them for None."""
    if documents is None:
        return parts
    unknown = set(documents) - {name for part in parts for name in part.documents}
    if unknown:
        raise CannotPrint(f"not in _toc.yml: {', '.join(sorted(unknown))}")
    kept = [Part(p.title, [d for d in p.documents if d in documents]) for p in parts]
    return [part for part in kept if part.documents]


def require_pages(parts: list[Part], site: Path) -> None:
    """Raise CannotPrint unless every page of the book is built."""
    if not (site / "searchindex.js").is_file():
        raise CannotPrint(f"{shown(site)} holds no built book: run `make book` first")
    missing = [d for p in parts for d in p.documents if not (site / f"{d}.html").is_file()]
    if missing:
        raise CannotPrint(f"not built: {', '.join(missing)}. Run `make book` again")


def require_chromium() -> str:
    """The path of a Chromium, or CannotPrint with what to do."""
    path = browser.find()
    if path and Path(path).is_file():
        return path
    raise CannotPrint(
        f"no Chromium ({path or 'none found'}): run `python book/tools browser`, install the "
        "package `chromium`, or name one in BAYESWIND_CHROMIUM"
    )


def shown(path: Path) -> str:
    """A path as one types it from the book's folder."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


def slug(document: str) -> str:
    """The id of a page inside the whole; pdf_page.js makes the same."""
    return document.replace("/", "-")


def committed() -> str:
    """The day of the commit that the book is made from, YYYY-MM-DD; "" outside a repository."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%cs"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


# --- a browser that sees only the built folder -----------------------------------------------


def fonts() -> dict[str, Path]:
    """The fonts of the PDF, by name: matplotlib brings them, so every machine prints the same."""
    folder = Path(find_spec("matplotlib").origin).parent / "mpl-data/fonts/ttf"
    return {path.name: path for path in folder.glob("*.ttf")}


def file_for(url: str, site: Path) -> Path | None:
    """The file that the made-up host gives for an address; None if there is none."""
    path = unquote(urlsplit(url).path).lstrip("/")
    if path.startswith(FONTS):
        return fonts().get(path.removeprefix(FONTS))
    file = site / path
    return file if file.is_file() and ".." not in file.parts else None


class Press:
    """A browser window as wide as the paper, in light colours, without a network."""

    def __init__(self, page, site: Path):
        self.page, self.site, self.whole = page, site, ""

    async def answer(self, route) -> None:
        """Serve a request from the folder; refuse what leaves it."""
        url = route.request.url
        path = urlsplit(url).path
        if not url.startswith(HOME):
            await route.abort()
        elif path == f"/{WHOLE}":
            await route.fulfill(body=self.whole, content_type="text/html; charset=utf-8")
        elif file := file_for(url, self.site):
            kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            await route.fulfill(body=file.read_bytes(), content_type=kind)
        else:
            await route.fulfill(status=404, body="")

    async def run(self, code: str, *values):
        """Call a function of pdf_page.js in the page."""
        return await self.page.evaluate(code, *values)

    async def open(self, name: str) -> None:
        """Open a page of the made-up host, with pdf_page.js in it."""
        await self.page.goto(HOME + name, wait_until="load")
        await self.page.evaluate((HERE / "pdf_page.js").read_text("utf-8"))


@asynccontextmanager
async def press(site: Path):
    """A Press, closed when the block ends."""
    from playwright.async_api import async_playwright

    path = require_chromium()
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            if int(chromium.version.split(".")[0]) < OLDEST_CHROMIUM:
                raise CannotPrint(
                    f"{path} is Chromium {chromium.version}: page numbers need {OLDEST_CHROMIUM} "
                    "or newer. Run `python -m playwright install chromium`, and name it in "
                    "BAYESWIND_CHROMIUM"
                )
            context = await chromium.new_context(viewport=PAPER, service_workers="block")
            context.set_default_timeout(0)  # `within` sets the limits
            page = await context.new_page()
            await page.emulate_media(media="print", color_scheme="light", reduced_motion="reduce")
            made = Press(page, site)
            await page.route("**/*", made.answer)
            yield made
        finally:
            await chromium.close()


async def within(kind: str, what: str, work: Awaitable):
    """The result of some work of the browser; CannotPrint if it takes too long or fails."""
    from playwright.async_api import Error

    try:
        return await asyncio.wait_for(work, LIMITS[kind])
    except TimeoutError:
        raise CannotPrint(f"{what}: no answer in {LIMITS[kind]} s") from None
    except Error as problem:
        raise CannotPrint(f"{what}: {problem.message.splitlines()[0]}") from problem


# --- taking the pages ------------------------------------------------------------------------


@dataclass
class Article:
    """What a page gives to the whole: its HTML, and the style sheets it wants (address, media)."""

    document: str
    html: str
    styles: list[tuple[str, str]]


async def take(window: Press, document: str, documents: Sequence[str]) -> Article:
    """Open a page, wait for its explorers, and take its article."""
    await window.open(f"{document}.html")
    await window.run("() => bwPdf.wake()")
    settings = {
        "doc": document,
        "documents": list(documents),
        "home": HOME,
        "site": address.site(),
        "address": address.page(document),
    }
    found = await window.run("settings => bwPdf.take(settings)", settings)
    return Article(document, found["html"], [tuple(pair) for pair in found["styles"]])


# --- the whole book as one page --------------------------------------------------------------


def style_links(articles: list[Article]) -> str:
    """Every style sheet that some page loads, once, in the order in which pages load them."""
    seen = dict.fromkeys(pair for article in articles for pair in article.styles)
    seen = sorted(seen, key=lambda pair: pair[1] == "print")  # what is for paper has the last word
    return "\n".join(
        f'<link rel="stylesheet" href="{html.escape(url)}" media="{media}">' for url, media in seen
    )


def running_heads(titles: dict[str, str]) -> str:
    """CSS: on the pages of each chapter its title stands at the top."""
    rules = []
    for document, title in titles.items():
        words = title.replace("\\", "\\\\").replace('"', '\\"')
        rules.append(
            f"[data-document='{document}'] {{ page: {slug(document)}; }}\n"
            f'@page {slug(document)} {{ @top-left {{ content: "{words}"; }} }}'
        )
    return "\n".join(rules)


def line_of_contents(anchor: str, words: str, kind: str) -> str:
    """A line of the contents: the words, and the page that is filled in later."""
    page = f'<a class="bw-page-of" data-page-of="{anchor}" href="#{anchor}"></a>'
    link = f'<a href="#{anchor}">{html.escape(words)}</a>'
    return f'<li class="{kind}">{link}<i></i>{page}</li>'


def table_of_contents(parts: list[Part], headings: dict[str, list]) -> str:
    """The contents: parts, chapters, sections."""
    # Chromium makes a place of the file out of what some link names, be it hidden.
    lines, number = ['<a href="#contents" hidden></a>'], 0
    for part in parts:
        if part.title:
            number += 1
            words = html.escape(part.title)
            lines.append(f'<h2><a href="#part-{number}">Part {number}: {words}</a></h2>')
        lines.append("<ul>")
        for document in part.documents:
            for anchor, words, level in headings[document]:
                kind = "bw-chapter-line" if level == 1 else "bw-section-line"
                lines.append(line_of_contents(anchor, words, kind))
        lines.append("</ul>")
    return "\n".join(lines)


def cover(settings: dict) -> str:
    """The title page."""
    made = committed()
    lines = [f"Version {address.version()}" + (f", {made}" if made else "")]
    site = address.site()
    return f"""<section class="bw-cover">
<img src="{HOME}_static/{Path(settings["logo"]).name}" alt="">
<h1>{html.escape(settings["title"])}</h1>
<p class="bw-authors">{html.escape(settings["author"])}</p>
<p class="bw-edition">{lines[0]}</p>
<p class="bw-address"><a href="{site}">{site}</a></p>
</section>"""


def colophon() -> str:
    """What a reader of the PDF has to know about it."""
    site, repository = address.site(), address.repository()
    return f"""<section class="bw-colophon">
<h2>About this PDF</h2>
<p>It was made from the pages of the book at <a href="{site}">{site}</a>. Every number in it was
computed by the run that made the pages.</p>
<ul>
<li>What moves on a page stands here as it looks at the start. The line below it says where it
moves.</li>
<li>The solutions of a chapter stand at its end, on pages of their own, so that the chapter can be
handed out without them.</li>
<li>Code that a page hides behind a click is left out. What it printed or drew is here, and the
code is on the page and in the notebook.</li>
<li>Each chapter is a notebook: the sources are at <a href="{repository}">{repository}</a>.</li>
</ul>
<p>Code is under the MIT licence, text and figures under
<a href="https://creativecommons.org/licenses/by/4.0/">CC BY 4.0</a>.</p>
</section>"""


def opening(number: int, part: Part) -> str:
    """The page that opens a part of the book."""
    if not part.title:
        return ""
    return (
        f'<section class="bw-part" id="part-{number}"><p>Part {number}</p>'
        f"<h1>{html.escape(part.title)}</h1></section>"
    )


def whole_book(parts: list[Part], articles: dict[str, Article]) -> str:
    """All articles as one HTML document; the contents are filled in by the browser."""
    settings, body, number = address.settings(), [], 0
    for part in parts:
        number += bool(part.title)
        body.append(opening(number, part))
        for document in part.documents:
            body.append(
                f'<article class="bd-article" id="{slug(document)}" data-document="{document}">'
                f"{articles[document].html}</article>"
            )
    title = html.escape(settings["title"])
    return f"""<!DOCTYPE html>
<html lang="en" data-theme="light" data-mode="light" class="bw-pdf"><head><meta charset="utf-8">
<title>{title}</title>
{style_links(list(articles.values()))}
<style>{(HERE / "pdf.css").read_text("utf-8").replace("FONTS/", HOME + FONTS)}</style>
<style id="bw-running-heads"></style>
</head>
<body>{cover(settings)}{colophon()}<nav class="bw-contents"><h1 id="contents">Contents</h1>
<div></div></nav>
<main class="bd-main"><div class="bd-content">
{"".join(body)}
</div></main></body></html>"""


# --- printing --------------------------------------------------------------------------------


async def printed(window: Press, tagged: bool) -> bytes:
    """The open page as PDF, with its structure (which takes a while) or without."""
    return await window.page.pdf(prefer_css_page_size=True, print_background=True, tagged=tagged)


def places(data: bytes) -> tuple[dict[str, tuple[int, float]], int]:
    """Anchor -> (page from 1, height on it in pt); and the number of pages."""
    from pypdf import PdfReader

    reader = PdfReader(BytesIO(data))
    index = {page.indirect_reference.idnum: n for n, page in enumerate(reader.pages, 1)}
    found = {}
    for name, target in reader.named_destinations.items():
        number = index.get(getattr(target.raw_get("/Page"), "idnum", None))
        if number:
            found[unquote(name.lstrip("/"))] = (number, float(target.top or 0))
    return found, len(reader.pages)


@dataclass
class Book:
    """A printed book: its bytes, where everything stands, and its headings by page."""

    data: bytes
    places: dict[str, tuple[int, float]]
    headings: dict[str, list]
    notes: list[str] = field(default_factory=list)


async def print_book(parts: list[Part], site: Path, say=print) -> Book:
    """Take all pages, join them, print them; `say` is told how far it is."""
    documents = [name for part in parts for name in part.documents]
    async with press(site) as window:
        articles = {}
        for name in documents:
            articles[name] = await within("page", name, take(window, name, documents))
        say(f"{len(articles)} pages taken")
        window.whole = whole_book(parts, articles)
        await within("page", "the joined pages", window.open(WHOLE))
        problems = await within("formulas", "the formulas", window.run("() => bwPdf.ready()"))
        if problems:
            raise CannotPrint("; ".join(problems[:5]))
        headings = await window.run("() => bwPdf.headings()")
        await window.run(
            "([contents, heads]) => bwPdf.frontMatter(contents, heads)",
            [table_of_contents(parts, headings), running_heads(titles_of(headings))],
        )
        notes = await within("formulas", "fitting the pages", window.run("() => bwPdf.fit()"))
        if dead := await window.run("() => bwPdf.mendLinks()"):
            raise CannotPrint(f"links that lead nowhere: {', '.join(dead[:5])}")
        say("formulas set")
        data, where = await number_pages(window, say)
    return Book(data, where, headings, notes)


def titles_of(headings: dict[str, list]) -> dict[str, str]:
    """Page of the book -> the words of its first heading."""
    return {document: found[0][1] for document, found in headings.items()}


async def number_pages(window: Press, say) -> tuple[bytes, dict[str, tuple[int, float]]]:
    """Print until the numbers in the contents are those of the pages; twice suffices."""
    told: dict[str, int] = {}
    for attempt in range(1, 4):
        work = printed(window, tagged=attempt > 1)
        data = await within("print", f"print no. {attempt}", work)
        where, count = places(data)
        say(f"print no. {attempt}: {count} pages")
        pages = {anchor: page for anchor, (page, _) in where.items()}
        if told == pages:
            return data, where
        await window.run("pages => bwPdf.fillNumbers(pages)", pages)
        told = pages
    raise CannotPrint("the page numbers did not settle after three prints")


# --- the finished file -----------------------------------------------------------------------


def is_idle(element) -> bool:
    """Whether an element of the file's structure says nothing: a <span>, a letter of a formula."""
    said = {"/ID", "/Alt", "/ActualText", "/E", "/T"}
    return element.get("/S") in ("/NonStruct", "/Div", "/Span") and not said & set(element)


def kids_of(element) -> list:
    """What an element of the structure holds: elements, numbers of content, or records of them."""
    kids = element.get("/K", [])
    return list(kids) if isinstance(kids, list) else [element.raw_get("/K")]


def flatten_structure(reader) -> int:
    """Take out the elements that say nothing, each replaced by what it holds; returns how many.

    Chromium writes one for every coloured word of a program: four of five objects of the file.
    """
    from pypdf.generic import ArrayObject, DictionaryObject, NameObject

    tree = reader.root_object.get("/StructTreeRoot")
    if tree is None:
        return 0
    heirs = {}  # number of an element that goes -> reference of the one that takes its content

    def record(kid, owner):
        """A number of content together with its page, which the element that goes would say."""
        if not isinstance(kid, int) or "/Pg" not in owner:
            return kid
        entry = {"/Type": NameObject("/MCR"), "/Pg": owner.raw_get("/Pg"), "/MCID": kid}
        return DictionaryObject({NameObject(key): value for key, value in entry.items()})

    # A stack and not a recursion: formulas nest deeply. An entry is (reference, element).
    stack = kids_of(tree)
    while stack:
        owner = stack.pop()
        element, kept = owner.get_object(), ArrayObject()
        waiting = [(kid, element) for kid in reversed(kids_of(element))]
        while waiting:
            kid, source = waiting.pop()
            child = kid.get_object()
            if not isinstance(child, DictionaryObject) or "/S" not in child:
                kept.append(kid if source is element else record(kid, source))
            elif is_idle(child):
                heirs[kid.idnum] = owner
                waiting.extend((inner, child) for inner in reversed(kids_of(child)))
            else:
                child[NameObject("/P")] = owner
                kept.append(kid)
                stack.append(kid)
        element[NameObject("/K")] = kept
    redirect(tree["/ParentTree"], heirs)
    return len(heirs)


def redirect(node, heirs: dict) -> None:
    """In the tree from content to elements, put the heirs in the place of those that went."""
    for kid in node.get("/Kids", []):
        redirect(kid.get_object(), heirs)
    numbers = node.get("/Nums", [])
    for place in range(1, len(numbers), 2):
        entry = numbers[place]
        row = entry.get_object()
        if isinstance(row, list):
            for i in range(len(row)):
                old = list.__getitem__(row, i)
                row[i] = heirs.get(getattr(old, "idnum", None), old)
        else:
            old = list.__getitem__(numbers, place)
            numbers[place] = heirs.get(getattr(old, "idnum", None), old)


def outline_of(parts: list[Part], book: Book) -> list[tuple[int, str, str]]:
    """The outline as (depth, words, anchor): parts, chapters, sections."""
    lines, number = [(0, "Contents", "contents")], 0
    for part in parts:
        depth = 0
        if part.title:
            number, depth = number + 1, 1
            lines.append((0, part.title, f"part-{number}"))
        for document in part.documents:
            for anchor, words, level in book.headings[document]:
                lines.append((depth + level - 1, words, anchor))
    return lines


def add_outline(writer, parts: list[Part], book: Book) -> None:
    """Put the outline into the file; closed below the parts' chapters."""
    from pypdf.generic import Fit

    parents: list = [None]
    for depth, words, anchor in outline_of(parts, book):
        page, top = book.places[anchor]
        fit = Fit.xyz(left=None, top=top + 6, zoom=None)
        made = writer.add_outline_item(
            title=words, page_number=page - 1, parent=parents[depth], fit=fit, is_open=depth == 0
        )
        parents[depth + 1 :] = [made]


def trouble_with(links: list[tuple[int, str]], names: set[str]) -> list[str]:
    """Links of the file that lead into a machine, or to a place that is not in it."""
    inside = [f"page {page}: {to}" for page, to in links if to.startswith(("file:", HOME))]
    nowhere = [f"page {p}: {to}" for p, to in links if to[0] == "#" and to[1:] not in names]
    return inside + nowhere


def links_of(reader) -> list[tuple[int, str]]:
    """All links as (page from 1, address); "#name" for one inside the file."""
    found = []
    for number, page in enumerate(reader.pages, 1):
        for note in page.get("/Annots") or []:
            note = note.get_object()
            action = (note.get("/A") or {}).get_object() if note.get("/A") else {}
            if action.get("/S") == "/URI":
                found.append((number, str(action["/URI"])))
            elif target := note.get("/Dest") or action.get("/D"):
                found.append((number, "#" + str(target).lstrip("/")))
    return found


def finish(parts: list[Part], book: Book) -> bytes:
    """Add outline and metadata, and check the links.

    Raises:
        CannotPrint: if a link leads to a file of this machine, or nowhere.
    """
    from pypdf import PdfReader, PdfWriter
    from pypdf.generic import BooleanObject, DictionaryObject, NameObject, TextStringObject

    reader, settings = PdfReader(BytesIO(book.data)), address.settings()
    bad = trouble_with(links_of(reader), {n.lstrip("/") for n in reader.named_destinations})
    if bad:
        raise CannotPrint("links that lead nowhere: " + "; ".join(bad[:5]))
    flatten_structure(reader)
    writer = PdfWriter(clone_from=reader)
    add_outline(writer, parts, book)
    about = {"/Title": settings["title"], "/Author": settings["author"]}
    about["/Subject"] = f"Version {address.version()}, {address.site()}"
    if day := committed().replace("-", ""):
        about["/CreationDate"] = about["/ModDate"] = f"D:{day}000000Z"
    writer.metadata = {**about, "/Creator": "book/tools/pdf.py"}
    root = writer.root_object
    root[NameObject("/Lang")] = TextStringObject("en")
    root[NameObject("/PageMode")] = NameObject("/UseOutlines")
    shows_title = {NameObject("/DisplayDocTitle"): BooleanObject(True)}
    root[NameObject("/ViewerPreferences")] = DictionaryObject(shows_title)
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


def make(
    output: Path = OUTPUT, documents: Sequence[str] | None = None, site: Path = SITE, say=print
) -> Book:
    """Print the book, or some of its pages, into `output`; nothing is left there on a failure.

    Raises:
        CannotPrint: if the book is not built, no Chromium is found, or a page cannot be printed.
    """
    parts = chosen(parts_of(), documents)
    require_pages(parts, site)
    book = asyncio.run(print_book(parts, site, say))
    data = finish(parts, book)
    half = output.with_suffix(".part")
    half.parent.mkdir(parents=True, exist_ok=True)
    half.write_bytes(data)
    os.replace(half, output)
    return book


def main(documents: Sequence[str] = ()) -> int:
    """`python book/tools pdf [chapters/03_training ...]`: all pages, or those that are named."""
    start = time.perf_counter()
    try:
        book = make(documents=documents or None)
    except CannotPrint as problem:
        print(f"no PDF: {problem}", file=sys.stderr)
        return 1
    for note in book.notes:
        print(f"wider than the paper: {note}")
    size = OUTPUT.stat().st_size / 1e6
    last = max(page for page, _ in book.places.values())
    print(f"{shown(OUTPUT)}: {last} pages, {size:.1f} MB, {time.perf_counter() - start:.0f} s")
    return 0
