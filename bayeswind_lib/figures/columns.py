"""A table as dots: one row a name, one panel a column, with marks for what is compared.

Axes: R rows.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from bayeswind_lib.figures.frame import (
    Range,
    is_narrow,
    row_height,
    set_range,
    value_range,
    wrapped,
)
from bayeswind_lib.figures.frame import panels as side_by_side
from bayeswind_lib.figures.plot import Plot, draw
from bayeswind_lib.figures.style import GROUND, NULL, line_style
from bayeswind_lib.figures.words import array, largest_gap, number, rounded, sentence

LETTERS = 26  # of a row's name, before it is broken into lines


def dot_columns(
    columns: Mapping[str, Mapping[str, Sequence[float]]],
    rows: Sequence[str],
    *,
    levels: Mapping[str, float] | None = None,
    log: Collection[str] = (),
    title: str = "",
) -> Plot:
    """Numbers of a long table as dots: rows from top to bottom, a panel with its own axis for each column.

    Args:
        columns: for each head (with its unit), (R,) numbers by series; NaN is left out.
        rows: a name for each.
        levels: a threshold of some columns, a dotted line.
        log: heads of columns with a logarithmic axis, on which 0 has the left edge and infinity the right one.
        title: above the panels.
    Raises:
        ValueError: if there is no column, or one has not a number for each row.
    """
    tables = {head: {label: rounded(array(row)) for label, row in found.items()} for head, found in columns.items()}
    series = list(dict.fromkeys(label for found in tables.values() for label in found))
    if not series:
        raise ValueError("columns is empty: give at least one, with one series")
    for head, found in tables.items():
        if wrong := [label for label, row in found.items() if row.shape != (len(rows),)]:
            raise ValueError(f"{head}: {wrong[0]} has shape {found[wrong[0]].shape}: expected ({len(rows)},), a number a row")
    levels, absent = dict(levels or {}), np.full(len(rows), np.nan)
    table = {head: np.concatenate([found.get(label, absent) for label in series]) for head, found in tables.items()}
    limits = {head: value_range(np.append(values[~np.isnan(values)], levels.get(head, [])), head in log) for head, values in table.items()}
    around = 1.0 + 0.3 * (len(series) > 1)
    height, narrow_height = (around + pitch * len(rows) for pitch in (0.3, row_height(rows, LETTERS, 0.3)))

    def paint(axes):
        panes = side_by_side(axes, len(tables), len(tables), height=narrow_height, sharey=True)
        for pane, head in zip(panes, tables, strict=True):
            set_range(pane.xaxis, limits[head])
            for i, label in enumerate(series):
                places = np.arange(len(rows))[::-1] - 0.16 * (i - (len(series) - 1) / 2)
                _paint(pane, tables[head].get(label, absent), places, limits[head], label, line_style(i))
            if head in levels:
                pane.axvline(levels[head], **NULL)
            if not limits[head].log:
                pane.locator_params(axis="x", nbins=3 if len(tables) > 2 or is_narrow(pane) else 4)
            pane.set_xlabel("\n".join(textwrap.wrap(head, 44 // len(tables), break_long_words=False)), fontsize=11.5)
            pane.set_ylim(-0.6, len(rows) - 0.4)
            pane.set_yticks(range(len(rows)), [wrapped(name, pane, LETTERS) for name in reversed(rows)], linespacing=0.95)
        if len(series) > 1:
            lines = panes[0].get_legend_handles_labels()[0]
            panes[0].figure.legend(handles=lines, loc="outside upper left", ncols=2 if is_narrow(panes[0]) else 3, handletextpad=0.3)
        if title:
            panes[0].figure.suptitle(title, fontsize=12.5, x=0.02, ha="left")

    places = [f"{row}, {label}" if len(series) > 1 else row for label in series for row in rows]
    alt = [title, f"{len(tables)} column{'s' if len(tables) > 1 else ''} of {len(rows)} rows, from {rows[0]} to {rows[-1]}"]
    alt += [_told(head, values, places, levels.get(head)) for head, values in table.items()]
    data = {"row": np.tile(np.array(rows), len(series))}
    data |= {"series": np.repeat(np.array(series), len(rows))} if len(series) > 1 else {}
    return draw(paint, " ".join(sentence(part) for part in alt if part), data | table, height=height, narrow_height=narrow_height)


def _paint(pane, values: np.ndarray, places: np.ndarray, limits: Range, label: str, look: Mapping) -> None:
    """The dots of a series, open at the edges where a number has no place on the axis."""
    edge = limits.too_small(values) | np.isposinf(values)
    look = {key: look[key] for key in ("color", "marker", "markeredgecolor", "markeredgewidth", "zorder")} | {"linestyle": "none", "markersize": 7}
    pane.plot(np.where(edge, np.nan, values), places, label=label, **look)
    pane.plot(limits.place(values)[edge], places[edge], **look | {"markerfacecolor": GROUND, "markeredgecolor": look["color"], "markeredgewidth": 1.4})


def _told(head: str, values: np.ndarray, places: list[str], level: float | None) -> str:
    """A column in words: its ends and where they are, and how far it goes from its mean."""
    shown, finite = ~np.isnan(values), values[np.isfinite(values)]
    low, high = (int(end(np.where(shown, values, other))) for end, other in ((np.argmin, np.inf), (np.argmax, -np.inf)))
    gaps = np.where(shown, values - finite.mean() if finite.size else 0.0, 0.0)
    words = f"{head}: {number(values[low])} ({places[low]}) to {number(values[high])} ({places[high]}), {largest_gap(gaps, places, '', 'to the mean at')}"
    return words if level is None else f"{words}; {int((values[shown] > level).sum())} of {int(shown.sum())} are above the dotted line at {number(level)}"
