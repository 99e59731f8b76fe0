"""Drawings that cells made stand in the page itself, so that its colours and fonts are theirs.

A cell's SVG (`bayeswind_lib.figures.Plot`) carries what it shows in words, the plotted numbers, and
a narrow layout for phones (`bayeswind_lib/figures/svg.py`). Here its layouts are put in the place
of the picture; the style of the page shows the one that fits. `bayeswind_data` shows the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from docutils import nodes
from sphinx.util import logging

SVG = "http://www.w3.org/2000/svg"
NARROW, NUMBERS = "bw-narrow", "bw-numbers"  # what an SVG carries in its metadata, by these ids
ElementTree.register_namespace("", SVG)
LOGGER = logging.getLogger(__name__)
MUTE = "a cell made a picture without words: return a bayeswind_lib.figures.Plot"


def layouts(text: str) -> list[str]:
    """The wide and, where there is one, the narrow layout of a file, without what it carries."""
    root = ElementTree.fromstring(text)
    carried, found = root.find(f"{{{SVG}}}metadata"), [root]
    if carried is not None:
        root.remove(carried)
        found += carried.findall(f"*[@id='{NARROW}']/*")
    return [ElementTree.tostring(one, encoding="unicode") for one in found]


def numbers_in(text: str) -> str:
    """The numbers that a file carries, as JSON; "" if it has none."""
    return ElementTree.fromstring(text).findtext(f"*/*[@id='{NUMBERS}']", "")


def words_in(text: str) -> str:
    """What a file shows, in words; "" if it does not say so."""
    return ElementTree.fromstring(text).get("aria-label", "").strip()


def drawings(app, doctree) -> Iterator[tuple[nodes.image, str]]:
    """Each picture that a cell made, with the text of its file, or "" if that has no words."""
    for bundle in doctree.findall(nodes.container):
        if bundle.get("nb_element") != "mime_bundle":
            continue
        for image in list(bundle.findall(nodes.image)):
            path = Path(app.srcdir) / image["uri"].lstrip("/")
            text = path.read_text("utf-8") if path.suffix == ".svg" and path.is_file() else ""
            yield image, text if text and words_in(text) else ""


def inline(app, doctree):
    """Put every drawing into the page, wide and narrow; a picture without words is a warning."""
    for image, text in list(drawings(app, doctree)):
        if not text:
            LOGGER.warning(MUTE, location=image)
            continue
        wide, *narrow = layouts(text)
        names = ("bw-wide-layout", "bw-narrow-layout") if narrow else ("bw-only-layout",)
        named = zip(names, (wide, *narrow), strict=True)
        content = "".join(f'<div class="{name}">{layout}</div>' for name, layout in named)
        # A schematic has no numbers that a table below it could hold.
        kind = "bw-plot bw-schematic" if "bw-schematic" in wide.partition(">")[0] else "bw-plot"
        image.replace_self(nodes.raw("", f'<div class="{kind}">{content}</div>', format="html"))


def setup(app):
    """Connect everything above."""
    # After the numbers were read, and before Sphinx collects the pictures.
    app.connect("doctree-read", inline, priority=460)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
