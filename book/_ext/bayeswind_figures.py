"""Drawings that cells made stand in the page itself, so that its colours and fonts are theirs.

A cell's SVG (`bayeswind_lib.figures.Plot`) carries what it shows in words, the plotted numbers, and
a narrow layout for phones (`bayeswind_lib/figures/svg.py`). Here its layouts are put in the place
of the picture; the style of the page shows the one that fits. `bayeswind_data` shows the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.util import logging

from bayeswind_lib.figures import svg

LOGGER = logging.getLogger(__name__)
MUTE = "a cell made a picture without words: return a bayeswind_lib.figures.Plot"


def drawings(app, doctree) -> Iterator[tuple[nodes.image, str]]:
    """Each picture that a cell made, with the text of its file, or "" if that has no words."""
    for bundle in doctree.findall(nodes.container):
        if bundle.get("nb_element") != "mime_bundle":
            continue
        for image in list(bundle.findall(nodes.image)):
            path = Path(app.srcdir) / image["uri"].lstrip("/")
            text = path.read_text("utf-8") if path.suffix == ".svg" and path.is_file() else ""
            yield image, text if text and svg.words_in(text) else ""


def inline(app, doctree):
    """Put every drawing into the page, wide and narrow; a picture without words is a warning."""
    for image, text in list(drawings(app, doctree)):
        if not text:
            LOGGER.warning(MUTE, location=image)
            continue
        wide, *narrow = svg.layouts(text)
        names = ("bw-wide-layout", "bw-narrow-layout") if narrow else ("bw-only-layout",)
        layouts = zip(names, (wide, *narrow), strict=True)
        content = "".join(f'<div class="{name}">{layout}</div>' for name, layout in layouts)
        image.replace_self(nodes.raw("", f'<div class="bw-plot">{content}</div>', format="html"))


def setup(app):
    """Connect everything above."""
    # After the numbers were read, and before Sphinx collects the pictures.
    app.connect("doctree-read", inline, priority=460)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
