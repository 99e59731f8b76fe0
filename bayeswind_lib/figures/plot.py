"""A figure with its words and its numbers, both inside its picture too."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from bayeswind_lib.figures.style import DPI, HEIGHT, PIXELS, STYLE, WIDTH, matplotlib

WORDS, NUMBERS = "Description", "bwData"  # the texts that a picture carries
COLOURS_KEPT = 256  # of a picture; more only where so few would be seen
UNSEEN = 16  # the largest change of a colour, of 255, that nobody sees in a thin edge


class Plot:
    """A drawn figure, the text that says what it shows, and the plotted numbers.

    A notebook shows it as a picture. The text travels inside the picture (the PNG's
    "Description") and beside it (`metadata["image/png"]["alt"]`), so a page can hand it to
    readers who do not see the picture. The numbers travel inside it too (its "bwData"), so a
    page can show them as a table.

    Attributes:
        figure: the matplotlib figure.
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
    ):
        if not alt.strip():
            raise ValueError("alt is empty: say in words what the figure shows, with its numbers")
        self.figure, self.alt = figure, " ".join(alt.split())
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
    def png(self) -> bytes:
        """The picture, two pixels for each of the page's, with the words and the numbers inside."""
        from PIL import Image
        from PIL.PngImagePlugin import PngInfo

        with matplotlib().rc_context(STYLE):
            # Not savefig: it draws everything twice, the first time to find what to cut off.
            self.figure.set_dpi(DPI)
            self.figure.canvas.draw()
        texts, stream = PngInfo(), io.BytesIO()
        texts.add_itxt(WORDS, self.alt)
        texts.add_itxt(NUMBERS, self.to_json(), zip=True)
        drawn = Image.fromarray(np.asarray(self.figure.canvas.buffer_rgba())).convert("RGB")
        few_colours(drawn).save(stream, "PNG", optimize=True, pnginfo=texts)
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
        """Write the picture to a file."""
        with open(path, "wb") as stream:
            stream.write(self.png)


def few_colours(picture):
    """A picture (RGB) with a palette, a third of the size; itself where that would be seen."""
    from PIL import Image, ImageChops

    fewer = picture.quantize(COLOURS_KEPT, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    change = ImageChops.difference(picture, fewer.convert("RGB"))
    return fewer if max(high for _, high in change.getextrema()) <= UNSEEN else picture


def draw(
    paint: Callable,
    alt: str,
    data: Mapping,
    width: float = WIDTH,
    height: float = HEIGHT,
    heads: Mapping[str, str] | None = None,
    shape: tuple[int, int] | None = None,
) -> Plot:
    """A figure of your own in the book's look.

    Args:
        paint: a function of the axes that draws.
        alt: what it shows, from the plotted numbers.
        data: the plotted numbers, columns of one length.
        width, height: inches, 100 page pixels each.
        heads: what a column holds, with its unit, where its name does not say it.
        shape: (R, C) where the rows of `data` are the cells of a table; see `Plot`.
    """
    matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib().rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        figure.get_layout_engine().set(w_pad=0.09, h_pad=0.06)
        paint(figure.add_subplot())
    return Plot(figure, alt, data, heads, shape)


def of_each(labels, measure: str) -> dict[str, str]:
    """Heads of columns that are named after a series: what every one of them holds."""
    return {label: f"{label}: {measure}" for label in labels}
