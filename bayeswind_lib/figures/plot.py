"""A figure with its words and its numbers."""

from __future__ import annotations

import base64
import csv
import html
import io
from collections.abc import Callable
from functools import cached_property

import numpy as np

from bayeswind_lib.figures.style import DPI, HEIGHT, PIXELS, STYLE, WIDTH, matplotlib


class Plot:
    """A drawn figure, the text that says what it shows, and the plotted numbers.

    A notebook shows it as a picture. The text travels inside the picture (the PNG's
    "Description") and beside it (`metadata["image/png"]["alt"]`), so a page can hand it to
    readers who do not see the picture.

    Attributes:
        figure: the matplotlib figure.
        alt: the text, made from `data`.
        data: columns by name, arrays of one length.
    """

    def __init__(self, figure, alt: str, data: dict[str, np.ndarray]):
        if not alt.strip():
            raise ValueError("alt is empty: say in words what the figure shows, with its numbers")
        self.figure, self.alt = figure, " ".join(alt.split())
        self.data = {name: np.asarray(column) for name, column in data.items()}
        lengths = {name: len(column) for name, column in self.data.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns differ in length: {lengths}")

    def __repr__(self) -> str:
        return f"Plot: {self.alt}"

    @cached_property
    def png(self) -> bytes:
        """The picture, two pixels for each of the page's, with the text inside."""
        stream = io.BytesIO()
        with matplotlib().rc_context(STYLE):
            # Not savefig: it draws everything twice, the first time to find what to cut off.
            self.figure.set_dpi(DPI)
            self.figure.canvas.print_png(
                stream, metadata={"Description": self.alt, "Software": None}
            )
        return stream.getvalue()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height on a page, in its pixels."""
        width, height = self.figure.get_size_inches()
        return round(width * PIXELS), round(height * PIXELS)

    def _repr_mimebundle_(self, include=None, exclude=None):
        # No height: a phone shrinks the picture, and a fixed height would stretch it.
        facts = {"alt": self.alt, "width": self.size[0]}
        return {"image/png": self.png, "text/plain": repr(self)}, {"image/png": facts}

    def to_html(self) -> str:
        """An `<img>` that needs no file: the picture as base64, with its text."""
        width, height = self.size
        code = base64.b64encode(self.png).decode()
        return (
            f'<img src="data:image/png;base64,{code}" alt="{html.escape(self.alt)}" '
            f'width="{width}" height="{height}" style="max-width:100%;height:auto">'
        )

    def to_csv(self) -> str:
        """The plotted numbers as comma-separated text with a header, every digit kept."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(self.data)
        writer.writerows(zip(*(column.tolist() for column in self.data.values()), strict=True))
        return stream.getvalue()

    def to_table(self, caption: str = ""):
        """The plotted numbers as a table for a page."""
        from bayeswind_lib.figures.tables import table

        columns = [column.tolist() for column in self.data.values()]
        return table(
            [dict(zip(self.data, row, strict=True)) for row in zip(*columns, strict=True)], caption
        )

    def save(self, path) -> None:
        """Write the picture to a file."""
        with open(path, "wb") as stream:
            stream.write(self.png)


def draw(
    paint: Callable, alt: str, data: dict, width: float = WIDTH, height: float = HEIGHT
) -> Plot:
    """A figure of your own in the book's look.

    Args:
        paint: a function of the axes that draws.
        alt: what it shows, from the plotted numbers.
        data: the plotted numbers, columns of one length.
        width, height: inches, 100 page pixels each.
    """
    matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib().rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        figure.get_layout_engine().set(w_pad=0.09, h_pad=0.06)
        paint(figure.add_subplot())
    return Plot(figure, alt, data)
