"""Attention patterns, and other tables of numbers, as pictures.

Axes: T tokens; R rows and C columns of a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayeswind_lib.figures.frame import is_narrow
from bayeswind_lib.figures.frame import panels as side_by_side
from bayeswind_lib.figures.many import cells
from bayeswind_lib.figures.plot import Plot, draw, of_each
from bayeswind_lib.figures.style import COLOURS
from bayeswind_lib.figures.words import array, largest_gap, number, sentence


def attention_map(
    pattern: Sequence[Sequence[float]], tokens: Sequence[str] | None = None, *, title: str = ""
) -> Plot:
    """Which token (row) reads from which earlier token (column), as one head's weights.

    Args:
        pattern: (T, T), rows sum to 1, zero above the diagonal.
        tokens: a name for each position.
        title: above the axes.
    Raises:
        ValueError: if the pattern is not square, its rows do not sum to 1, or names are missing.
    """
    weights = array(pattern)
    size = len(weights)
    if weights.shape != (size, size):
        raise ValueError(f"pattern has shape {weights.shape}: expected (T, T)")
    if not np.allclose(weights.sum(1), 1, atol=1e-4):
        raise ValueError("rows of pattern do not sum to 1: give the weights after the softmax")
    names = [str(t) for t in (range(size) if tokens is None else tokens)]
    if len(names) != size:
        raise ValueError(f"{len(names)} tokens for a pattern of {size}")

    def paint(axes):
        seen = np.ma.masked_where(~np.tri(size, dtype=bool), weights)
        image = cells(axes, seen)
        most = 15 if is_narrow(axes) else 26
        step, letters = max(1, -(-size // most)), 10 if size <= 20 else 9
        axes.set_xticks(range(0, size, step), names[::step], rotation=_turn(names), fontsize=letters)
        axes.set_yticks(range(0, size, step), names[::step], fontsize=letters)
        axes.grid(visible=False)
        axes.set(xlabel="token that is read", ylabel="token that reads", title=title)
        axes.figure.colorbar(image, ax=axes, shrink=0.85, label="attention weight")

    column, row = np.meshgrid(np.arange(size), np.arange(size))
    data = {
        "reads": np.array(names)[row.ravel()],
        "is_read": np.array(names)[column.ravel()],
        "weight": weights.ravel(),
    }
    heads = {"reads": "token that reads", "is_read": "token that is read", "weight": "attention weight"}
    alt = (sentence(title) + " " if title else "") + _words(weights, names)
    return draw(paint, alt, data, height=4.9, narrow_height=3.9, heads=heads, shape=weights.shape)


def _turn(names) -> int:
    """By how many degrees the names below columns are turned: those of one letter stand upright."""
    return 90 if max(len(str(name)) for name in names) > 1 else 0


def _words(weights: np.ndarray, names: list[str]) -> str:
    size = len(names)
    even = np.tri(size) / np.arange(1, size + 1)[:, None]  # every visible token read alike
    row, column = np.unravel_index(np.argmax(np.abs(weights - even)), weights.shape)
    own = float(np.diag(weights)[1:].mean()) if size > 1 else 1.0
    before = float(np.diag(weights, -1).mean()) if size > 1 else 0.0
    gap, weight = number(abs(weights - even)[row, column]), number(weights[row, column])
    return (
        f"Attention weights of {size} tokens, a row reads from columns, 0 to "
        f"{number(weights.max())}. "
        f"Largest gap to even attention {gap} where {names[row]} (token {row}) reads "
        f"{names[column]} (token {column}) with weight {weight} instead of "
        f"{number(even[row, column])}. Mean weight on the token itself {number(own)}, "
        f"on the token before {number(before)}."
    )


def heatmaps(
    panels: Mapping[str, Sequence[Sequence[float]]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    marked: Sequence[int] | None = None,
    x_label: str = "",
    y_label: str = "",
    value: str = "weight",
    title: str = "",
    height: float | None = None,
    every: int = 1,
) -> Plot:
    """Tables of numbers between 0 and 1 side by side, on one scale of colours.

    Args:
        panels: (R, C) by label.
        rows, columns: a name for each.
        marked: the number of one column for each row, framed in every panel.
        x_label, y_label: what columns and rows are.
        value: what a colour stands for.
        title: above the panels.
        height: of the figure, inches; by default what suits the number of panels.
        every: write only every so many names beside the panels.
    Raises:
        ValueError: if shapes or names do not fit, or a number is not between 0 and 1.
    """
    tables = {label: array(panel) for label, panel in panels.items()}
    shape = (len(rows), len(columns))
    for label, table in tables.items():
        if table.shape != shape:
            raise ValueError(f"{label} has shape {table.shape}: expected {shape}, a number for each row and column")
        if table.min() < -1e-9 or table.max() > 1 + 1e-6:
            raise ValueError(f"{label} has numbers from {table.min():g} to {table.max():g}: expected 0 to 1")

    def paint(axes):
        figure = axes.figure
        names_below = 0.07 * max(len(str(name)) for name in columns[::every])
        panes = side_by_side(axes, len(tables), len(tables), height=1.5 * shape[0] / shape[1] + 1.1 + names_below, sharey=True)
        for pane, (label, table) in zip(panes, tables.items(), strict=True):
            image = cells(pane, table)
            pane.set_xticks(range(0, shape[1], every), columns[::every], rotation=_turn(columns), fontsize=9.5)
            pane.set_yticks(range(0, shape[0], every), rows[::every], fontsize=10)
            pane.grid(visible=False)
            pane.set_xlabel(x_label)
            pane.set_title(label, fontsize=11.5)
            for row, column in enumerate([] if marked is None else marked):
                pane.add_patch(_frame(row, int(column)))
        panes[0].set_ylabel(y_label)
        room = len(tables) < (2 if is_narrow(pane) else 3)  # for a bar beside them
        beside = {"location": "right", "shrink": 0.8} if room else {"location": "bottom", "shrink": 0.5}
        figure.colorbar(image, ax=list(panes), label=value, **beside)
        if title:
            figure.suptitle(title, fontsize=12.5, x=0.02, ha="left")

    names = [f"{row}, {column}" for row in rows for column in columns]
    alt = [title, f"{value.capitalize()} of {shape[0]} rows ({y_label}) and {shape[1]} columns ({x_label})"]
    for label, table in tables.items():
        listed = f"{label}: {largest_gap((table - table.mean()).ravel(), names, '', 'to its mean at')}"
        if marked is not None:
            listed += f", mean in the framed cells {number(_at(table, marked).mean())}, in all {number(table.mean())}"
        alt.append(listed)
    data = {"row": np.repeat(np.array(rows), shape[1]), "column": np.tile(np.array(columns), shape[0])}
    data |= {label: table.ravel() for label, table in tables.items()}
    heads = {"row": y_label or "row", "column": x_label or "column"} | of_each(tables, value)
    if marked is not None:
        framed = np.eye(shape[1], dtype=bool)[[int(column) for column in marked]]
        data["framed"] = np.where(framed, "yes", "no").ravel()
    if len(tables) < 3:
        height = height or 3.6
    else:  # square cells in panels as wide as the figure allows, names of columns, bar and its label
        names_below = 0.07 * max(len(str(name)) for name in columns[::every])
        height = height or min(3.8, 5.2 / len(tables) * shape[0] / shape[1] + names_below + 1.4)
    words = " ".join(sentence(part) for part in alt if part)
    return draw(paint, words, data, height=height, heads=heads, shape=shape)


def _frame(row: int, column: int):
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=COLOURS[1], linewidth=2)


def _at(table: np.ndarray, marked: Sequence[int]) -> np.ndarray:
    return table[np.arange(len(table)), np.asarray([int(column) for column in marked])]
