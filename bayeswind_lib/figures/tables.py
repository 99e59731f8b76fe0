"""Small result tables, and numbers for the prose."""

from __future__ import annotations

import html
import numbers
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bayeswind_lib.figures.words import number


class Table:
    """Rows of a result as a real HTML table, and as aligned text.

    Attributes:
        rows: dicts by column; the first column names the row.
        caption: one sentence above the table.
    """

    def __init__(self, rows: Sequence[Mapping], caption: str = "", digits: int = 3):
        if not rows:
            raise ValueError("rows is empty: a table needs at least one row")
        self.columns = list(dict.fromkeys(name for row in rows for name in row))
        self.rows, self.caption = [dict(row) for row in rows], caption
        self.cells = [[cell(row.get(name), digits) for name in self.columns] for row in self.rows]

    def __str__(self) -> str:
        table = [self.columns, *self.cells]
        widths = [max(len(str(row[i])) for row in table) for i in range(len(self.columns))]
        body = [
            "  ".join(
                str(text).ljust(width) for text, width in zip(row, widths, strict=True)
            ).rstrip()
            for row in table
        ]
        body.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join(filter(None, [self.caption, *body]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *rows = map("".join, zip(*map(self._column, range(len(self.columns))), strict=True))
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        caption = f"<caption>{html.escape(self.caption)}</caption>" if self.caption else ""
        label = html.escape(self.caption or "Results, scrolls sideways")
        return (
            f'<div class="bw-table" role="region" tabindex="0" aria-label="{label}" '
            f'style="overflow-x:auto"><table class="table">{caption}'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def _column(self, i: int) -> list[str]:
        """The elements of a column, its head first. Decimal points stand below one another: `ch` is
        the width of a digit, and a point is half as wide."""
        name, texts = html.escape(str(self.columns[i])), [html.escape(row[i]) for row in self.cells]
        if not i:
            return [f'<th scope="col">{name}</th>', *(f'<th scope="row">{t}</th>' for t in texts)]
        values = [row.get(self.columns[i]) for row in self.rows]
        numeric = [_is_number(value) for value in values]
        whole = all(is_number or value in (None, "–") for is_number, value in zip(numeric, values, strict=True))
        behind = [len(text.partition(".")[2]) + 0.5 * ("." in text) for text in texts]
        most = max((b for b, is_number in zip(behind, numeric, strict=True) if is_number), default=0)
        right = ' style="text-align:right"'
        elements = [f'<th scope="col"{right * whole}>{name}</th>']
        for text, is_number, b in zip(texts, numeric, behind, strict=True):
            if is_number and b < most and text[-1].isdigit():  # not "infinite"
                text = f'<span style="margin-right:{most - b:g}ch">{text}</span>'
            elements.append(f"<td{right * (whole or is_number)}>{text}</td>")
        return elements


def _is_number(value) -> bool:
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value.item()
    return isinstance(value, numbers.Number | np.generic) and not isinstance(value, bool | np.bool_)


def cell(value, digits: int = 3) -> str:
    """The text of a cell: numbers as in the figures, None as a dash."""
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value.item()  # a number that numpy left in an array
    if value is None:
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, numbers.Integral):
        return f"{int(value):,}" if abs(int(value)) >= 10_000 else str(int(value))
    return number(float(value), digits) if _is_number(value) else str(value)


def table(rows: Sequence[Mapping], caption: str = "", digits: int = 3) -> Table:
    """Rows of a result, ready to be shown by a cell.

    Args:
        rows: dicts; the first column names the row. Numbers keep `digits` significant digits.
        caption: one sentence, without a measured number.
    """
    return Table(rows, caption, digits)


def glue(name: str, value: object) -> None:
    """Store a number, a text or a figure under a name, for `{glue:text}` in the prose.

    The same wire format as `myst_nb.glue`, with no need of that package. Does nothing outside
    a notebook.

    Raises:
        TypeError: for a tensor or array of more than one number.
    """
    value = plain(value)
    shell = notebook_shell()
    if shell is None:
        return
    from IPython.display import display

    bundle, metadata = shell.display_formatter.format(value)
    prefix = "application/papermill.record/"
    metadata["scrapbook"] = {"name": name, "mime_prefix": prefix}
    display({prefix + kind: data for kind, data in bundle.items()}, raw=True, metadata=metadata)


def gluer(page: str) -> Callable[[str, object], None]:
    """`glue` for one page: the names of all that it stores begin with `page` and an underscore."""

    def glue_here(name: str, value: object) -> None:
        glue(f"{page}_{name}", value)

    return glue_here


def notebook_shell():
    """The running IPython shell, or None outside a notebook (also where IPython is missing)."""
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def plain(value):
    """Python's own number for one of numpy or torch, whose text says nothing but the number."""
    if not (hasattr(value, "item") and hasattr(value, "shape")):
        return value
    if int(np.prod(tuple(value.shape))) != 1:
        raise TypeError(
            f"a value of shape {tuple(value.shape)} cannot stand in a sentence: glue one number"
        )
    return value.item()
