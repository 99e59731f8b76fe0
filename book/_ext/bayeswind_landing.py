"""The landing page: its template, the map of the chapters, and paths through the book.

- `{chapter-map}` draws a card for each chapter, part by part, as _toc.yml lists them: a thumbnail, the
  question (a line of the directive's body), minutes, and which chapters it builds on. What a chapter needs is
  read from its own sentence "You need ...", minutes from its own table.
- `{reading-path}` is a list of stops with the minutes that they take together.
- `book/_templates/landing.html` gets the few styles and scripts that the page uses.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

import yaml
from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bayeswind_book import minutes_of
from thumbnails import thumbnail
from tools import address

PAGE = "book/intro"
STYLES = ("book.css", "landing.css", "print.css")
SCRIPTS = (
    "documentation_options.js", "book.js", "explorer.js", "matmul.js", "network.js", "oracles.js",
    "playground_tasks.js", "landing.js",
)  # fmt: skip
NEEDED = re.compile(r"^You need (.+?)(?:\n\n|\Z)", re.M | re.S)


# ---- chapters -----------------------------------------------------------------------------------


def parts_of(root: Path) -> list[tuple[str, list[str]]]:
    """The numbered parts of _toc.yml: caption and chapters, as documents."""
    table = yaml.safe_load((root / "_toc.yml").read_text("utf-8"))
    return [
        (part["caption"], [entry["file"] for entry in part["chapters"]])
        for part in table["parts"]
        if part.get("numbered")
    ]


def title_of(text: str) -> str:
    """A chapter's title, from its first heading."""
    return re.search(r"^# (.+)$", text, re.M)[1]


def needs_of(text: str, homes: dict[str, str]) -> list[str]:
    """The chapters that a chapter's sentence "You need ..." names, in the order of the book.

    Args:
        homes: label -> the chapter that defines it.
    """
    sentence = NEEDED.search(text)
    named = re.findall(r"[<`]([\w/-]+)>?`", sentence[1]) if sentence else []
    found = {homes[name] for name in named if name in homes}
    return sorted(found)


def homes_of(texts: dict[str, str]) -> dict[str, str]:
    """Label (of a section, a theorem, an equation) or file name -> its chapter."""
    found = {}
    for chapter, text in texts.items():
        labels = re.findall(r"^\(([\w-]+)\)=|^:label: ([\w-]+)", text, re.M)
        found |= {first or second: chapter for first, second in labels}
        found[chapter.rpartition("/")[2]] = chapter
    return found


class Book:
    """What the map says of each chapter, read from the chapters themselves."""

    def __init__(self, root: Path):
        self.parts = parts_of(root)
        self.chapters = [chapter for _, part in self.parts for chapter in part]
        self.texts = {chapter: (root / f"{chapter}.md").read_text("utf-8") for chapter in self.chapters}
        homes = homes_of(self.texts)
        self.needs = {c: [n for n in needs_of(text, homes) if n != c] for c, text in self.texts.items()}

    def number(self, chapter: str) -> int:
        return self.chapters.index(chapter) + 1

    def minutes(self, chapter: str) -> tuple[int, int]:
        return minutes_of(self.texts[chapter])

    def named(self, numbers: Sequence[int]) -> list[str]:
        return [self.chapters[n - 1] for n in numbers]


# ---- the map ------------------------------------------------------------------------------------


def link_to(chapter: str) -> str:
    """The address of a chapter's page, from the landing page."""
    return f"../{chapter}.html"


def card(book: Book, chapter: str, question: str) -> str:
    """One chapter on the map."""
    n, (reading, exercises) = book.number(chapter), book.minutes(chapter)
    links = ", ".join(f'<a href="#map-{book.number(c)}">{book.number(c)}</a>' for c in book.needs[chapter])
    needs = f'<span class="bw-needs">builds on {links}</span>' if links else '<span class="bw-needs">start here</span>'
    numbers = " ".join(str(book.number(c)) for c in book.needs[chapter])
    return (
        f'<li class="bw-chapter" id="map-{n}" data-needs="{numbers}">{thumbnail(n)}'
        f'<h4><a href="{link_to(chapter)}"><span class="bw-no">{n}</span> {escape(title_of(book.texts[chapter]))}</a></h4>'
        f'<p>{escape(question)}</p>'
        f'<p class="bw-facts"><span title="minutes to read + for its exercises" class="bw-counted">{reading} + {exercises} min</span>'
        f'{needs}<a class="bw-colab" href="{escape(address.colab(f"{chapter}.ipynb"))}" aria-label="Chapter {n} on Colab">Colab</a></p></li>'
    )


class ChapterMap(SphinxDirective):
    """`{chapter-map}`: a line `NN: question` for each chapter."""

    has_content = True

    def run(self):
        root = Path(self.env.srcdir)
        book = Book(root)
        for chapter in book.chapters:
            self.env.note_dependency(f"{chapter}.md")
        lines = (line.partition(":") for line in self.content if line.strip())
        questions = {int(n): question.strip() for n, _, question in lines}
        if sorted(questions) != list(range(1, len(book.chapters) + 1)):
            raise self.error(f"the map needs one question for each of {len(book.chapters)} chapters")
        parts = "".join(
            f'<section class="bw-part"><h3>{escape(caption)}</h3><ol>'
            + "".join(card(book, c, questions[book.number(c)]) for c in chapters)
            + "</ol></section>"
            for caption, chapters in book.parts
        )
        return [nodes.raw("", f'<div class="bw-map">{parts}</div>', format="html")]


# ---- paths --------------------------------------------------------------------------------------


def hours(minutes: int) -> str:
    """Minutes in words, to the half hour where there are many."""
    return f"{minutes} minutes" if minutes < 90 else f"{round(minutes / 30) / 2:g} hours"


class ReadingPath(SphinxDirective):
    """`{reading-path} title`: what the path is for; its chapters are the option `chapters`, as numbers."""

    has_content = True
    required_arguments, final_argument_whitespace = 1, True
    option_spec = {"chapters": str, "exercises": str, "start": str}

    def run(self):
        book = Book(Path(self.env.srcdir))
        numbers = [int(n) for n in re.findall(r"\d+", self.options.get("chapters", ""))]
        spent = [book.minutes(chapter) for chapter in book.named(numbers)]
        total = sum(reading + (exercises if "exercises" in self.options else 0) for reading, exercises in spent)
        stops = "".join(
            f'<li><a href="{link_to(c)}"><span class="bw-no">{book.number(c)}</span> {escape(title_of(book.texts[c]))}</a></li>'
            for c in book.named(numbers)
        )
        kind = "the exercises included" if "exercises" in self.options else "reading"
        body = nodes.container(classes=["bw-path"])
        body += nodes.raw("", f"<h3>{escape(self.arguments[0])}</h3>", format="html")
        words = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, words)
        body += words.children
        body += nodes.raw("", f'<ol>{stops}</ol><p class="bw-facts">{hours(total)}, {kind}</p>', format="html")
        return [body]


# ---- the page -----------------------------------------------------------------------------------


def chosen(files: Sequence, names: Sequence[str]) -> list:
    """The files of these names, in this order."""
    found = {str(getattr(file, "filename", file) or "").rpartition("/")[2]: file for file in files}
    missing = set(names) - found.keys()
    if missing:
        raise ExtensionError(f"the landing page misses {', '.join(sorted(missing))}")
    return [found[name] for name in names]


def add_files(app, pagename, templatename, context, doctree):
    """The page's own style and script, in a list from which the page takes what it needs."""
    if pagename != PAGE:
        return
    app.add_css_file("landing.css")
    for name in SCRIPTS:
        if name not in ("documentation_options.js", "book.js"):
            app.add_js_file(name, loading_method="defer")


def choose_template(app, pagename, templatename, context, doctree):
    """A template of its own for the landing page, with what it needs of the styles and scripts."""
    if pagename != PAGE:
        return None
    context["landing_css"] = chosen(context["css_files"], STYLES)
    context["landing_js"] = chosen(context["script_files"], SCRIPTS)
    context["repository"] = address.repository()
    context["copyright_line"] = f"© {app.config.copyright} {app.config.author}"
    return "landing.html"


def setup(app):
    """Connect everything above."""
    app.add_directive("chapter-map", ChapterMap)
    app.add_directive("reading-path", ReadingPath)
    app.connect("html-page-context", add_files, priority=400)
    app.connect("html-page-context", choose_template, priority=950)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
