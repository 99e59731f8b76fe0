"""A drawn schematic: for a page, which gives it colours and fonts, and for a notebook, which does not.

Its SVG is of the form that plots have (`figures/svg.py`): the page's variables as colours, the words as
`aria-label`, and the layout for phones in the metadata.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import quoteattr

from bayeswind_lib.figures.style import FAMILY
from bayeswind_lib.figures.style import PALETTE as NAMES
from bayeswind_lib.figures.svg import NARROW

# What a schematic may be coloured with: the page's variables, each with its light colour.
PALETTE = {name.removeprefix("fig-"): f"var(--bw-{name}, {colour})" for colour, name in NAMES.items()}
FONTS = {"sans": FAMILY, "serif": "var(--bw-serif, serif)"}


def svg_text(body: str, width: float, height: float, alt: str) -> str:
    """One `<svg>`, as an image with words, around what is drawn in it."""
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="bw-figure bw-schematic" role="img" {size} '
        f'style="background: {PALETTE["ground"]}; font-family: {FONTS["sans"]}" aria-label={quoteattr(alt)}>{body}</svg>'
    )


class Drawing:
    """What a function of `schematics` returns: put it as the last expression of a cell.

    Attributes:
        title: a few words.
        alt: what is shown, for readers who do not see it.
        wide: the SVG for a wide column.
        narrow: the SVG for a column of at most 360 pixels.
    """

    def __init__(self, title: str, alt: str, wide: str, narrow: str):
        if not alt.strip():
            raise ValueError("alt is empty: say in words what the drawing shows")
        self.title, self.alt, self.wide, self.narrow = title, " ".join(alt.split()), wide, narrow

    def __repr__(self) -> str:
        return f"Drawing: {self.title}. {self.alt}"

    @property
    def svg(self) -> str:
        """One SVG file: the wide layout, which carries the narrow one for a page that can choose."""
        head, rest = self.wide.split(">", 1)
        return f'{head}><metadata><g id="{NARROW}">{self.narrow}</g></metadata>{rest}'

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"image/svg+xml": self.svg, "text/plain": repr(self)}

    def save(self, path: str | Path) -> None:
        """Write the SVG to a file."""
        Path(path).write_text(self.svg + "\n", encoding="utf-8")
