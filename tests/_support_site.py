"""Checks of a built site that need no browser; each returns a list of problems, in words."""

from __future__ import annotations

import re
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from _support import pages

from bayeswind_figures import numbers_in, words_in

LOADING_RELATIONS = {
    "dns-prefetch", "icon", "manifest", "modulepreload", "preconnect", "prefetch", "preload",
    "stylesheet",
}  # fmt: skip
OUTSIDE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?//", re.I)
CSS_REFERENCE = re.compile(r"""url\(\s*['"]?([^'")]+)['"]?\s*\)|@import\s+['"]([^'"]+)['"]""")
NUMBER = re.compile(r"\d")
# Names of folders under which people's and machines' files lie; no page may point there.
MACHINE_PATH = re.compile(
    r"(?<![\w./:-])/(?:home|root|work|tmp|Users|mnt|opt|srv|private)/[\w.~-]+"
    r"|\bfile:///?\w|(?<![\w])[A-Z]:\\\w\w"  # not a line that ends in "N:\n"
)
MANAGER = re.compile(
    r"html-manager|embed-amd|requirejs?(?:\.min)?\.js|jupyter-widgets|application/vnd\.jupyter\.widget"
)


class Page(HTMLParser):
    """What a page holds: `links`, `loads` (fetched by a browser), `images`, `anchors`, `css`."""

    def __init__(self, text: str):
        super().__init__()
        self.links, self.loads, self.images, self.css = [], [], [], []
        self.anchors = set()
        self._in_style = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        a = {name: value or "" for name, value in attrs}
        self.anchors.update(a[name] for name in ("id", "name") if name in a)
        self.css.append(a.get("style", ""))
        self._in_style = tag == "style"
        if tag in ("a", "area") and "href" in a:
            self.links.append(a["href"])
        if tag == "link" and LOADING_RELATIONS & set(a.get("rel", "").lower().split()):
            self.loads.append(a.get("href", ""))
        if tag == "img":
            self.images.append((a.get("src", ""), a.get("alt")))
        self.loads += [a[name] for name in ("src", "poster", "data") if a.get(name)]
        self.loads += [part.split()[0] for part in a.get("srcset", "").split(",") if part.split()]

    def handle_data(self, data):
        if self._in_style:
            self.css.append(data)

    def handle_endtag(self, tag):
        self._in_style = False


class Tables(HTMLParser):
    """`open`: how many rows, heads among them, each table has that stands behind no closed `<details>`."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self._folds, self._shown = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "details":
            self._folds.append("open" not in dict(attrs))
        if tag == "table":
            self._shown = not any(self._folds)
            self.open += [0] if self._shown else []
        if tag == "tr" and self._shown:
            self.open[-1] += 1

    def handle_endtag(self, tag):
        if tag == "details":
            self._folds.pop()


def open_tables(path: Path) -> list[int]:
    """The rows of each table of a page that is open when the page is."""
    return Tables(path.read_text("utf-8")).open


@cache
def page(path: Path) -> Page:
    """A page, read once."""
    return Page(path.read_text("utf-8"))


def target(source: Path, reference: str) -> tuple[Path, str]:
    """The file and the fragment that a relative reference on a page means."""
    parts = urlsplit(reference)
    path = (source.parent / unquote(parts.path)).resolve() if parts.path else source.resolve()
    return (path / "index.html" if path.is_dir() else path), unquote(parts.fragment)


def is_local(reference: str) -> bool:
    """Whether a reference means a file of the site."""
    return not urlsplit(reference).scheme and not reference.startswith("//")


def broken_links(folder: Path) -> list[str]:
    """Links that lead to no file, out of the site, or to an anchor that the page does not have."""
    problems = []
    for source in pages(folder):
        for link in page(source).links:
            if not is_local(link):
                continue
            path, anchor = target(source, link)
            anchor = anchor.partition("?")[0]  # after it stands a state of the page's machine
            where = f"{source.relative_to(folder)} -> {link}"
            if not path.is_file():
                problems.append(f"{where}: no such file")
            elif not path.is_relative_to(folder.resolve()):
                problems.append(f"{where}: outside the site")
            elif anchor and path.suffix == ".html" and anchor not in page(path).anchors:
                problems.append(f"{where}: no such anchor")
    return problems


def css_references(text: str) -> list[str]:
    """Everything that a piece of CSS loads, data addresses apart."""
    found = [a or b for a, b in CSS_REFERENCE.findall(text)]
    return [address.strip() for address in found if not address.startswith(("data:", "#"))]


def loaded(folder: Path) -> list[tuple[Path, str]]:
    """All (file, reference) pairs that a browser would fetch for pages and style sheets."""
    found = []
    for source in pages(folder):
        styles = [r for css in page(source).css for r in css_references(css)]
        found += [(source, reference) for reference in page(source).loads + styles]
    for sheet in sorted(folder.rglob("*.css")):
        found += [(sheet, r) for r in css_references(sheet.read_text("utf-8", errors="replace"))]
    return found


def outside_resources(folder: Path) -> list[str]:
    """Scripts, styles, images, fonts and frames that would come from another host."""
    return [
        f"{source.relative_to(folder)} loads {reference}"
        for source, reference in loaded(folder)
        if OUTSIDE.match(reference)
    ]


def missing_resources(folder: Path) -> list[str]:
    """Local scripts, styles, images and fonts that are not there."""
    return [
        f"{source.relative_to(folder)} loads {reference}: no such file"
        for source, reference in loaded(folder)
        if is_local(reference) and not target(source, reference)[0].is_file()
    ]


DRAWN = re.compile(r'<div class="bw-plot">.*?<svg [^>]*?aria-label="([^"]*)"', re.S)


def figures(folder: Path) -> list[tuple[Path, str]]:
    """All drawings that cells made: (page, what it says)."""
    return [(source, unescape(words)) for source in pages(folder) for words in DRAWN.findall(source.read_text("utf-8"))]


def written_drawings(executed: Path) -> dict[str, list[str]]:
    """What plotting functions wrote: what a drawing says -> the numbers (JSON) of each drawing that says so."""
    found = {}
    for path in executed.glob("*.svg"):
        text = path.read_text("utf-8")
        found.setdefault(words_in(text), []).append(numbers_in(text))
    return found


NUMBERS = re.compile(r'<details class="bw-data">(.*?)</details>', re.S)
FILE_OF = re.compile(r'<a href="([^"]+)" download="[^"]+">')
SHOWN = re.compile(r"<td>([^<]*)</td>")


def numbers_of_figures(folder: Path) -> list[tuple[Path, str, Path | None, list[str]]]:
    """All drawings that cells made: (page, what it says, file of its numbers or None, cells of its table)."""
    found = []
    for source in pages(folder):
        # A piece of the page for each drawing: what stands between it and the next one.
        _, *pieces = DRAWN.split(source.read_text("utf-8"))
        for words, after in zip(pieces[::2], pieces[1::2], strict=True):
            content = (NUMBERS.search(after) or [None, ""])[1]
            link = FILE_OF.search(content)
            file = target(source, link[1])[0] if link else None
            found.append((source, unescape(words), file, SHOWN.findall(content)))
    return found


def images_without_words(folder: Path) -> list[str]:
    """Images of any kind whose alternative text is missing or just a file name."""
    return [
        f"{source.relative_to(folder)}: {address} has alt {alt!r}"
        for source in pages(folder)
        for address, alt in page(source).images
        if not (alt or "").strip() or re.search(r"\.(?:png|svg|jpe?g)$", alt.strip())
    ]


def machine_paths(text: str) -> list[str]:
    """Absolute paths of somebody's machine in a text."""
    return [match[0] for match in MACHINE_PATH.finditer(text)]


def widget_managers(folder: Path) -> list[str]:
    """Pages that carry the ipywidgets manager or a widget's state."""
    return [
        f"{source.relative_to(folder)}: {match[0]}"
        for source in pages(folder)
        if (match := MANAGER.search(source.read_text("utf-8")))
    ]
