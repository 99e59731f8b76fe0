"""The look of every figure: sizes, colours, line styles.

Colours are those of Okabe and Ito, chosen so that readers with any common colour vision tell them
apart; every line has a marker of its own as well. A dark page has a lighter one for each (`svg`).
"""

from __future__ import annotations

import logging
from contextlib import contextmanager

# Blue, vermilion, green, purple, orange, sky.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
DARK = "#1A1A1A"
GREY = "#5F6368"
GRID = "#E3E5E8"
GROUND = "#FFFFFF"
# On a page each is a variable of the page's style (book/_static/book.css), which has a light and a dark colour for it.
NAMES = ("blue", "vermilion", "green", "purple", "orange", "sky")
PALETTE = {colour.lower(): name for colour, name in zip(COLOURS, NAMES, strict=True)} | {
    DARK.lower(): "fig-ink", GREY.lower(): "fig-quiet", GRID.lower(): "fig-grid", GROUND.lower(): "fig-ground",
}  # fmt: skip
# A colour that comes back is a darker one of its kind (lighter on a dark page): a family of references, such as filters that remember more and more.
SHADES = {COLOURS[1]: ("#B03A14", "#7F2418", "#4F1712")}
PALETTE |= {shade.lower(): f"{PALETTE[colour.lower()]}-{i}" for colour, shades in SHADES.items() for i, shade in enumerate(shades, 2)}
RAMP = (COLOURS[0], COLOURS[3], COLOURS[4])  # from a small number to a large one, to be seen on every ground
FAMILY = "var(--bw-sans, sans-serif)"  # of a drawing on a page; laid out with DejaVu Sans, which is wider
# The exact posterior, wherever it is drawn. No other line is dashed.
ORACLE = {"color": DARK, "linestyle": (0, (4.5, 2.2)), "linewidth": 2.0, "zorder": 5}
NULL = {"color": GREY, "linestyle": ":", "linewidth": 1.5}

WIDTH = 6.0  # inches; at 100 pixels an inch a page shows 600 pixels
NARROW = 3.9  # of the layout for phones, which show about 360 pixels
HEIGHT = 3.7
PIXELS = 100  # of the page, per inch
DPI = 2 * PIXELS

STYLE = {
    "figure.facecolor": GROUND,
    "axes.facecolor": "none",
    "savefig.facecolor": GROUND,
    "figure.dpi": PIXELS,
    "savefig.dpi": DPI,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 12,
    "axes.titlesize": 12.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 12,
    "xtick.labelsize": 11.5,
    "ytick.labelsize": 11.5,
    "legend.fontsize": 11.5,
    "text.color": DARK,
    "axes.labelcolor": DARK,
    "axes.edgecolor": GREY,
    "xtick.color": DARK,
    "ytick.color": DARK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "lines.linewidth": 2.0,
    "lines.markersize": 5.5,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "axes.formatter.useoffset": False,
}


def matplotlib():
    """The package, imported when the first figure needs it; no note on building a font cache."""
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    import matplotlib

    return matplotlib


@contextmanager
def style():
    """The book's look inside a `with` block; matplotlib's own settings return after it.

    Example:
        with bw.figures.style():
            figure, axes = plt.subplots()
    """
    with matplotlib().rc_context(STYLE):
        yield


def line_style(index: int, dotted: bool = False, of: int = 1) -> dict:
    """Colour and marker of the line number `index` of `of`, solid unless it is a reference.

    Earlier lines are wider, so that a line that lies on another does not hide it.
    """
    colour = COLOURS[index % len(COLOURS)]
    again = index // len(COLOURS)  # a colour that comes back brings another marker, and has another shade
    shades = (colour, *SHADES.get(colour, ()))
    colour = shades[min(again, len(shades) - 1)]
    return {
        "color": colour,
        "marker": MARKERS[(index + again) % len(MARKERS)],
        "markeredgecolor": GROUND,
        "markeredgewidth": 0.6,
        "linestyle": ":" if dotted else "-",
        "linewidth": 2.0 if dotted else 2.0 + 0.8 * min(max(of - 1 - index, 0), 3),
        "zorder": 3,
    }
