"""A figure with its words and its numbers, both inside its drawing too."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from bayeswind_lib.figures import svg
from bayeswind_lib.figures.frame import lay_out, wrap_labels
from bayeswind_lib.figures.style import DPI, HEIGHT, NARROW, STYLE, WIDTH, matplotlib


class Plot:
    """A drawn figure, the text that says what it shows, and the plotted numbers.

    A notebook shows it as SVG. The text travels inside the drawing, for readers who do not see it; so do
    the numbers, which a page shows as a table, and a narrow layout, which a page shows on a phone.

    Attributes:
        figure: the matplotlib figure, as wide as a column.
        narrow: the same for a phone; None if there is no other.
        alt: the text, made from `data`.
        data: columns by name, arrays of one length.
        heads: for each column, what it holds, with its unit; for a page and the CSV.
        shape: (R, C) where the rows of `data` are the cells of a table of R rows and C columns,
            row by row, and its first two columns their names; None otherwise.
    """

    def __init__(
        self,
        figure,
        alt: str,
        data: Mapping[str, np.ndarray],
        heads: Mapping[str, str] | None = None,
        shape: tuple[int, int] | None = None,
        narrow=None,
    ):
        if not alt.strip():
            raise ValueError("alt is empty: say in words what the figure shows, with its numbers")
        self.figure, self.narrow, self.alt = figure, narrow, " ".join(alt.split())
        self.data = {name: np.asarray(column) for name, column in data.items()}
        lengths = {name: len(column) for name, column in self.data.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns differ in length: {lengths}")
        if unknown := set(heads or {}) - set(self.data):
            raise ValueError(f"heads has {sorted(unknown)}, but the columns are {list(self.data)}")
        if shape is not None and {shape[0] * shape[1]} != set(lengths.values()):
            raise ValueError(f"shape is {shape}, but the columns have {set(lengths.values())} cells")
        self.heads = {name: (heads or {}).get(name, name) for name in self.data}
        self.shape = shape

    def __repr__(self) -> str:
        return f"Plot: {self.alt}"

    @cached_property
    def svg(self) -> str:
        """The drawing, its narrow layout, its words and its numbers, as the text of one SVG file."""
        return svg.render(self.figure, self.alt, self.to_json(), self.narrow)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"image/svg+xml": self.svg, "text/plain": repr(self)}

    def to_csv(self) -> str:
        """The plotted numbers as comma-separated text with a header, every digit kept."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(self.heads.values())
        writer.writerows(zip(*(column.tolist() for column in self.data.values()), strict=True))
        return stream.getvalue()

    def to_json(self) -> str:
        """The plotted numbers as one JSON text: `heads`, `columns` and `shape`, every digit kept.

        As Python writes it: with `NaN` and `Infinity`, which other readers of JSON may refuse.
        """
        columns = [column.tolist() for column in self.data.values()]
        content = {"heads": list(self.heads.values()), "columns": columns, "shape": self.shape}
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    def save(self, path) -> None:
        """Write the drawing to a file: as SVG, or in another format of matplotlib, after the path's ending."""
        if str(path).endswith(".svg"):
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(self.svg)
        else:
            with matplotlib().rc_context(STYLE):
                self.figure.savefig(path, dpi=DPI)


def draw(
    paint: Callable,
    alt: str,
    data: Mapping,
    width: float = WIDTH,
    height: float = HEIGHT,
    narrow_height: float | None = None,
    heads: Mapping[str, str] | None = None,
    shape: tuple[int, int] | None = None,
) -> Plot:
    """A figure of your own in the book's look.

    Args:
        paint: a function of the axes that draws.
        alt: what it shows, from the plotted numbers.
        data: the plotted numbers, columns of one length.
        width, height: inches, 100 page pixels each.
        narrow_height: inches, of the layout for phones; by default `height`.
        heads: what a column holds, with its unit, where its name does not say it.
        shape: (R, C) where the rows of `data` are the cells of a table; see `Plot`.
    """
    wide, narrow = (_painted(paint, *size) for size in ((width, height), (NARROW, narrow_height or height)))
    return Plot(wide, alt, data, heads, shape, narrow)


def _painted(paint: Callable, width: float, height: float):
    """A matplotlib figure of a size, in the book's look."""
    matplotlib()
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib().rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)
        figure.get_layout_engine().set(w_pad=0.09, h_pad=0.06)
        paint(figure.add_subplot())
        if width < WIDTH:
            lay_out(figure)  # where the axes stand
            wrap_labels(figure)
    return figure


def of_each(labels, measure: str) -> dict[str, str]:
    """Heads of columns that are named after a series: what every one of them holds."""
    return {label: f"{label}: {measure}" for label in labels}
