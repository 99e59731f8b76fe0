"""The landing page: its template, the map of the chapters, and paths through the book.

- `{chapter-map}` draws a card for each chapter, part by part, as _toc.yml lists them: a thumbnail,
  the question (a line of the directive's body), minutes, and which chapters it builds on. What a
  chapter needs is read from its own sentence "You need ...", minutes from its own table.
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
from docutils.parsers.rst import directives
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bayeswind_book import minutes_of
from thumbnails import thumbnail
from tools import address, networks

PAGE = "book/intro"
STYLES = ("fonts.css", "book.css", "landing.css", "print.css")
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
        self.texts = {
            chapter: (root / f"{chapter}.md").read_text("utf-8") for chapter in self.chapters
        }
        homes = homes_of(self.texts)
        self.needs = {
            c: [n for n in needs_of(text, homes) if n != c] for c, text in self.texts.items()
        }

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


def chip(book: Book, chapter: str) -> str:
    """A chapter's number, as a link to its card."""
    n = book.number(chapter)
    title = escape(title_of(book.texts[chapter]))
    return f'<a class="bw-chip" href="#map-{n}" title="{title}">{n}</a>'


def named(book: Book, chapter: str) -> str:
    """A chapter's number and title, as a link to its page."""
    number, title = book.number(chapter), escape(title_of(book.texts[chapter]))
    return f'<a href="{link_to(chapter)}"><span class="bw-no">{number}</span> {title}</a>'


def card(book: Book, chapter: str, question: str, strip: str) -> str:
    """One chapter on the map, under its strip in the colour of its part."""
    n, needs = book.number(chapter), book.needs[chapter]
    reading, exercises = book.minutes(chapter)
    after = f"after {' '.join(chip(book, c) for c in needs)}" if needs else "start here"
    numbers = " ".join(str(book.number(c)) for c in needs)
    colab = escape(address.colab(f"{chapter}.ipynb"))
    return (
        f'<li class="bw-chapter" id="map-{n}" data-needs="{numbers}">{strip}{thumbnail(n)}'
        f'<div class="bw-words"><h4>{named(book, chapter)}</h4><p>{escape(question)}</p></div>'
        f'<p class="bw-facts"><span class="bw-counted">{reading} + {exercises} min</span>'
        f'<span class="bw-needs">{after}</span>'
        f'<a class="bw-colab" href="{colab}" aria-label="Colab: chapter {n}">Colab</a></p></li>'
    )


def part(book: Book, caption: str, chapters: Sequence[str], questions: dict[int, str]) -> str:
    """The cards of one part, without a break to those of the next: its name stands in the first."""
    strips = [
        f'<h3 class="bw-strip">{escape(caption)}</h3>',
        *['<span class="bw-strip"></span>'] * (len(chapters) - 1),
    ]
    both = zip(chapters, strips, strict=True)
    cards = (card(book, c, questions[book.number(c)], strip) for c, strip in both)
    return f'<ol class="bw-map-part">{"".join(cards)}</ol>'


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
            raise self.error(
                f"the map needs one question for each of {len(book.chapters)} chapters"
            )
        parts = "".join(
            part(book, caption, chapters, questions) for caption, chapters in book.parts
        )
        return [nodes.raw("", f'<div class="bw-map">{parts}</div>', format="html")]


# ---- paths --------------------------------------------------------------------------------------


def hours(minutes: int) -> str:
    """Minutes in words: to the half hour from 90 on, to the hour from ten hours on."""
    half = round(minutes / 30) / 2
    return (
        f"{minutes} minutes"
        if minutes < 90
        else f"about {half if half < 10 else round(half):g} hours"
    )


class ReadingPath(SphinxDirective):
    """`{reading-path} title`: what the path is for. Its chapters are the option `chapters`, as
    numbers or "all"; `exercises` counts the minutes of these too."""

    has_content = True
    required_arguments, final_argument_whitespace = 1, True
    option_spec = {"chapters": str, "exercises": directives.flag}

    def run(self):
        book = Book(Path(self.env.srcdir))
        words = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, words)
        box = nodes.container(
            "",
            nodes.raw("", f"<h3>{escape(self.arguments[0])}</h3>", format="html"),
            *words.children,
            classes=["bw-path"],
        )
        box += nodes.raw("", self.stops(book) + self.time(book), format="html")
        return [box]

    def chapters(self, book: Book) -> list[str]:
        asked = self.options.get("chapters", "")
        return (
            book.chapters
            if asked == "all"
            else book.named([int(n) for n in re.findall(r"\d+", asked)])
        )

    def stops(self, book: Book) -> str:
        """The chapters by name, or all of them by number."""
        chapters = self.chapters(book)
        if len(chapters) == len(book.chapters):
            return f'<p class="bw-chips">{" ".join(chip(book, c) for c in chapters)}</p>'
        stops = "".join(f"<li>{named(book, c)}</li>" for c in chapters)
        return f"<ol>{stops}</ol>" if chapters else ""

    def time(self, book: Book) -> str:
        spent = [book.minutes(chapter) for chapter in self.chapters(book)]
        if not spent:
            return ""
        with_exercises = "exercises" in self.options
        total = sum(reading + exercises * with_exercises for reading, exercises in spent)
        what = ", the exercises included" if with_exercises else " to read"
        return f'<p class="bw-facts">{hours(total)}{what}</p>'


# ---- the page -----------------------------------------------------------------------------------


def chosen(files: Sequence, names: Sequence[str]) -> list:
    """The files of these names, in this order."""
    found = {str(getattr(file, "filename", file) or "").rpartition("/")[2]: file for file in files}
    missing = set(names) - found.keys()
    if missing:
        raise ExtensionError(f"the landing page misses {', '.join(sorted(missing))}")
    return [found[name] for name in names]


def tasks(root: Path) -> str:
    """The script that says which networks the game and the playground fetch."""
    return (root / "bayeswind_lib/widgets/web/playground_tasks.js").read_text("utf-8")


def game_network(root: Path) -> str:
    """The file of the network that the game plays with, without its suffix."""
    return re.search(r'"game": \{"file": "([\w-]+)"', tasks(root))[1]


def add_files(app, pagename, templatename, context, doctree):
    """The page's own style and script, in a list from which the page takes what it needs."""
    if pagename != PAGE:
        return
    for file in networks.files_of(tasks(Path(app.srcdir))):  # the page asks for two of them
        networks.write(Path(app.outdir) / "_static", file)
    app.add_css_file("landing.css")
    for name in SCRIPTS:
        if name not in ("documentation_options.js", "book.js"):
            app.add_js_file(name, loading_method="defer", fetchpriority="high")  # before fonts


def choose_template(app, pagename, templatename, context, doctree):
    """A template of its own for the landing page, with what it needs of the styles and scripts."""
    if pagename != PAGE:
        return None
    context["landing_css"] = chosen(context["css_files"], STYLES)
    context["landing_js"] = chosen(context["script_files"], SCRIPTS)
    context["landing_network"] = f"_static/networks/{game_network(Path(app.srcdir))}.safetensors"
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
