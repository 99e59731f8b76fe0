"""What makes a page light enough for a phone on a train.

- The theme brings a script with all icons of Font Awesome; here a font of those that it uses.
- Its style sheet names every icon; here those that it uses.
- Scripts wait until the page is there.

What is left is measured by book/tools/weights.py. The template beside this (book/_templates) is the
theme's own list of scripts and styles without the icons.
"""

from __future__ import annotations

import base64
import io
import json
import re
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

THEMES = ("pydata_sphinx_theme", "sphinx_book_theme")
STATIC = "theme/pydata_sphinx_theme/static"
SHEET = "styles/pydata-sphinx-theme.css"
FONTS = {
    "Font Awesome 6 Free": ("fa-solid-900", 900),
    "Font Awesome 6 Brands": ("fa-brands-400", 400),
}
LICENCE = """\
/* Icons: a part of Font Awesome Free 6.5.2 by Fonticons, https://fontawesome.com, renamed.
   Fonts under the SIL Open Font License 1.1, icons under CC BY 4.0. */
"""
# The theme's sizes are meant for the pictures that its script puts in the place of these.
SIZES = """\
.bd-header-article .btn i { text-align: center; width: 1.3rem; }
.bd-header-article .btn i:not(.theme-switch) { display: inline-block; }
.bd-header-article .theme-switch.fa-lg { font-size: 1em; line-height: 1; vertical-align: 0; }
.page-toc i { margin-right: -0.5rem; }
"""
AT_ONCE = "documentation_options.js"  # 0.3 kB that a line in the page itself completes
# A rule of the theme's style sheet that gives icons their place in the font.
PLACE = re.compile(r'((?:\.fa-[\w-]+:{1,2}before,?)+)\{content:"\\([0-9a-f]+)"\}')
# The same where a style sheet puts an icon somewhere by itself: as a number, or as the character.
BY_STYLE = re.compile(r'(?:--pst-[\w-]+:|content:)"(?:\\(f[0-9a-f]{3})|([\uf000-\uf8ff]))"')


def theme(name: str) -> Path:
    """The folder of an installed package."""
    return Path(find_spec(name).submodule_search_locations[0])


def names_in(text: str) -> set[str]:
    """The names of icons in a text."""
    return set(re.findall(r"\bfa-[a-z0-9-]+", text))


def used_names() -> set[str]:
    """The icons that the templates, the buttons and the scripts of the themes name."""
    kinds = (".html", ".py", ".js")
    files = [f for name in THEMES for f in theme(name).rglob("*") if f.suffix in kinds]
    read = (f.read_text("utf-8", "replace") for f in files if "fontawesome" not in f.name)
    return {"fa-github"}.union(*map(names_in, read))


def places(sheet: str) -> dict[str, int]:
    """Icon -> its place in the font, from the theme's style sheet."""
    rules = PLACE.findall(sheet)
    return {name: int(code, 16) for names, code in rules for name in names_in(names)}


def fewer_rules(sheet: str, names: set[str]) -> str:
    """The style sheet without the places of icons that are not among the names."""
    return PLACE.sub(lambda rule: rule[0] if names & names_in(rule[1]) else "", sheet)


def small_font(file: Path, codes: set[int]) -> bytes:
    """A font of those characters that the file has, under a name of its own, as WOFF."""
    from fontTools.subset import Options, Subsetter
    from fontTools.ttLib import TTFont

    font = TTFont(file, recalcTimestamp=False)
    subsetter = Subsetter(Options(layout_features=[], hinting=False))
    subsetter.populate(unicodes=codes)
    subsetter.subset(font)
    for entry in font["name"].names:  # the licence reserves the name for the whole font
        if entry.nameID in (1, 3, 4, 6, 16):
            entry.string = "BayeswindIcons"
    font.flavor, stream = "woff", io.BytesIO()
    font.save(stream)
    return stream.getvalue()


def icons_sheet() -> str:
    """A style sheet that brings the icons in use; others still come from the theme's own fonts."""
    static = theme(THEMES[0]) / STATIC
    book = theme(THEMES[1]) / "theme/sphinx_book_theme/static/styles/sphinx-book-theme.css"
    sheet = (static / SHEET).read_text("utf-8")
    by_style = BY_STYLE.findall(PLACE.sub("", sheet) + book.read_text("utf-8"))
    known = places(sheet)
    codes = {known[name] for name in used_names() & known.keys()}
    codes |= {int(code, 16) if code else ord(sign) for code, sign in by_style}
    parts = [LICENCE]
    for family, (file, weight) in FONTS.items():
        font = small_font(static / "vendor/fontawesome/webfonts" / f"{file}.ttf", codes)
        source = f"data:font/woff;base64,{base64.b64encode(font).decode()}"
        parts.append(
            f'@font-face {{ font-family: "{family}"; font-weight: {weight}; font-style: normal;\n'
            f'  font-display: block; src: url("{source}") format("woff"); }}\n'
        )
    return "".join([*parts, SIZES])


def write_icons(app):
    """Write the icons' style sheet into the site, before pages ask for it."""
    if app.builder.format == "html":
        target = Path(app.outdir) / "_static/icons.css"
        target.parent.mkdir(parents=True, exist_ok=True)
        text = icons_sheet()
        if not target.is_file() or target.read_text("utf-8") != text:
            target.write_text(text, "utf-8")


def drop_what_no_page_loads(app, problem):
    """Take the script of all icons out of the site, and their places out of the style sheet."""
    static = Path(app.outdir) / "_static"
    if problem or app.builder.format != "html":
        return
    for file in static.glob("scripts/fontawesome.js*"):
        file.unlink()
    for file in static.rglob("*.js.map"):  # 2 MB that only the theme's makers read
        file.unlink()
    sheet = static / SHEET
    if sheet.is_file():
        sheet.write_text(fewer_rules(sheet.read_text("utf-8"), used_names()), "utf-8")


def wait_for_the_page(app, pagename, templatename, context, doctree):
    """Let scripts wait until the page is read."""
    if pagename == "search":  # its own scripts, in the theme's template, do not wait for these
        return
    context["script_files"] = [deferred(script) for script in context.get("script_files", [])]


def deferred(script):
    """A script that waits for the page; itself if it must not. The pages share the given one."""
    attributes = getattr(script, "attributes", None)
    if attributes is None or not name_of(script) or AT_ONCE in name_of(script):
        return script
    waiting = {**attributes, "defer": "defer"}
    return type(script)(script.filename, priority=script.priority, **waiting)


def name_of(script) -> str:
    """The file of a script, "" if it stands in the page itself."""
    return str(getattr(script, "filename", script) or "")


class PageWeights(SphinxDirective):
    """{page-weights}: the record of book/tools/weights.py, in three sentences and a table."""

    def run(self):
        """The record as Markdown, read as if it stood on the page."""
        file = Path(self.env.srcdir) / "book/weights.json"
        self.env.note_dependency(str(file))
        record = json.loads(file.read_text("utf-8"))
        known = self.env.found_docs
        lines = [words_of(record), "", *table_of(record["pages"], known)]
        box = nodes.container(classes=["bw-weights"])
        self.state.nested_parse(StringList("\n".join(lines).splitlines(), str(file)), 0, box)
        return box.children


def words_of(record: dict) -> str:
    """The heaviest page, and when the first figures are there."""
    size, page = max((row["compressed"] + row["networks"], row["page"]) for row in record["pages"])
    line, limits = record["line"], record["limits"]
    times = record["first_figure"].items()
    first = record["first_answer"]
    figures = " and ".join(f"{s:.1f} s on {{doc}}`/{name}`" for name, s in times)
    return (
        f"The heaviest page is {{doc}}`/{page}`: {kilo(size)} kB with its networks;"
        f" the limit is {kilo(limits['bytes'])} kB. Over a line of {line['bits'] / 1e6:g} Mbit/s"
        f" whose answers come after {1000 * line['delay']:.0f} ms, the first figure is there after"
        f" {figures}; the limit is {limits['seconds']:g} s. On a processor that is slowed"
        f" {limits['processor']} times besides, {{doc}}`/book/intro` is painted after"
        f" {first['paint']:.1f} s, and its network has answered after {first['answer']:.1f} s;"
        f" the limit is {limits['answer']:g} s."
    )


def table_of(rows: list[dict], known: set[str]) -> list[str]:
    """A line of a Markdown table for each page."""
    heads = ["page", "kB compressed", "kB unpacked", "requests", "networks, kB"]
    lines = [heads, [":--", *["--:"] * 4]]
    for row in rows:
        name = f"{{doc}}`/{row['page']}`" if row["page"] in known else row["page"]
        sizes = [kilo(row["compressed"]), kilo(row["raw"])]
        lines.append([name, *sizes, str(row["requests"]), kilo(row["networks"])])
    return [f"| {' | '.join(line)} |" for line in lines]


def kilo(count: int) -> str:
    """Bytes in thousands."""
    return f"{count / 1000:,.0f}"


def setup(app):
    """Connect everything above."""
    app.connect("builder-inited", write_icons)
    app.connect("html-page-context", wait_for_the_page, priority=950)
    app.connect("build-finished", drop_what_no_page_loads)
    app.add_css_file("icons.css")
    app.add_directive("page-weights", PageWeights)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
