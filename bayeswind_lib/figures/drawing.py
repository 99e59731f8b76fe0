"""A drawing in vectors: for a page, which gives it colours and fonts, and for a notebook, which does not.

Colours are the page's custom properties with a light fallback, so that one SVG is right on a light page, on
a dark one, and alone. A drawing may have a second layout, for columns as narrow as a phone's.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import quoteattr

# What a drawing may be coloured with: the names of the page, and what they are where there is no page.
PALETTE = {
    "ink": "var(--bw-fig-ink, #1a1a1a)",
    "quiet": "var(--bw-fig-quiet, #5f6368)",
    "grid": "var(--bw-fig-grid, #e3e5e8)",
    "ground": "var(--bw-fig-ground, #fff)",
    "blue": "var(--bw-blue, #0072b2)",
    "vermilion": "var(--bw-vermilion, #d55e00)",
    "green": "var(--bw-green, #009e73)",
    "purple": "var(--bw-purple, #cc79a7)",
    "orange": "var(--bw-orange, #e69f00)",
    "sky": "var(--bw-sky, #56b4e9)",
}
FONTS = {"sans": "var(--bw-sans, sans-serif)", "serif": "var(--bw-serif, serif)"}


def svg_text(body: str, width: float, height: float, alt: str) -> str:
    """One inline `<svg>`, as an image with words, around what is drawn in it."""
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    style = (
        f"background: {PALETTE['ground']}; font-family: {FONTS['sans']}; height: auto; max-width: 100%"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="bw-figure" role="img" {size} '
        f'style="{style}" aria-label={quoteattr(alt)}>{body}</svg>'
    )


class Drawing:
    """A drawn schematic: an SVG for wide columns, one for narrow ones, and what both show in words.

    A notebook shows the wide one. The narrow one travels in the metadata, for a page that can choose.

    Attributes:
        title: a few words.
        alt: what is shown, for readers who do not see it.
        svg: the SVG for a wide column.
        narrow: the SVG for a column of at most 360 pixels; None where the wide one is no wider.
    """

    def __init__(self, title: str, alt: str, svg: str, narrow: str | None = None):
        if not alt.strip():
            raise ValueError("alt is empty: say in words what the drawing shows")
        self.title, self.alt, self.svg, self.narrow = title, " ".join(alt.split()), svg, narrow

    def __repr__(self) -> str:
        return f"Drawing: {self.title}. {self.alt}"

    def _repr_mimebundle_(self, include=None, exclude=None):
        facts = {"alt": self.alt} | ({"narrow": self.narrow} if self.narrow else {})
        return {"image/svg+xml": self.svg, "text/plain": self.alt}, {"image/svg+xml": facts}

    def save(self, path: str | Path) -> None:
        """Write the wide SVG to a file."""
        Path(path).write_text(self.svg + "\n", encoding="utf-8")
