"""Points in a plane, panel by panel, coloured by one number: projections of high-dimensional points.

Axes: N points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayeswind_lib.figures.frame import panels as side_by_side
from bayeswind_lib.figures.many import dots
from bayeswind_lib.figures.plot import Plot, draw
from bayeswind_lib.figures.style import GREY, RAMP
from bayeswind_lib.figures.words import array, largest_gap, number, sentence


def planes(
    panels: Mapping[str, Sequence[Sequence[float]]],
    values: Mapping[str, Sequence[float]],
    *,
    joined: bool = False,
    value: str = "entropy (bits)",
    x_label: str = "first axis",
    y_label: str = "second axis",
    title: str = "",
) -> Plot:
    """Points on two axes in panels side by side, each panel with its own scale, one scale of colours.

    Args:
        panels: (N, 2) coordinates by label.
        values: (N,) the number that colours the points, by the same labels.
        joined: draw a line from each point to the next (one path a panel).
        value: what a colour stands for, with its unit.
        x_label, y_label: words under and beside the panels.
        title: above all.
    Raises:
        ValueError: if there is no panel, or shapes or labels do not fit.
    """
    points = {label: array(rows) for label, rows in panels.items()}
    shades = {label: array(row) for label, row in values.items()}
    if not points:
        raise ValueError("panels is empty: give at least one")
    if points.keys() != shades.keys():
        raise ValueError(f"panels are {', '.join(points)}, but values are of {', '.join(shades)}")
    for label, rows in points.items():
        if rows.ndim != 2 or rows.shape[1] != 2 or shades[label].shape != (len(rows),):
            raise ValueError(
                f"{label} has points of shape {rows.shape} and values of shape {shades[label].shape}: "
                "expected (N, 2) and (N,)"
            )
    low, high = (float(end(np.concatenate(list(shades.values())))) for end in (np.min, np.max))

    def paint(axes):
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import LinearSegmentedColormap

        figure, scale = axes.figure, ScalarMappable(cmap=LinearSegmentedColormap.from_list("ramp", RAMP))
        scale.set_clim(low, high)
        panes = side_by_side(axes, len(points), len(points), height=2.1)
        for pane, (label, rows) in zip(panes, points.items(), strict=True):
            if joined:
                pane.plot(*rows.T, "-", color=GREY, linewidth=1.2, zorder=1)
            dots(pane, rows, scale.to_rgba(shades[label]), size=6 if joined else 2.7)
            pane.set_title(label, fontsize=11.5)
            pane.set_xlabel(x_label, fontsize=11)
            pane.tick_params(labelsize=9)
            pane.locator_params(axis="x", nbins=3)
            pane.locator_params(axis="y", nbins=4)
        panes[0].set_ylabel(y_label, fontsize=11)
        figure.colorbar(scale, ax=list(panes), label=value, location="bottom", shrink=0.6, aspect=30)
        if title:
            figure.suptitle(title, fontsize=12.5, x=0.02, ha="left")

    parts = [title, f"Points on the {x_label} and the {y_label}, coloured by {value}, {number(low)} to {number(high)}"]
    parts += [_told(label, rows, shades[label], joined, value) for label, rows in points.items()]
    names = np.repeat(np.array(list(points)), [len(rows) for rows in points.values()])
    every = np.concatenate(list(points.values()))
    data = {"panel": names, x_label: every[:, 0], y_label: every[:, 1], value: np.concatenate(list(shades.values()))}
    return draw(paint, " ".join(sentence(part) for part in parts if part), data, height=3.6)


def _told(label: str, rows: np.ndarray, shade: np.ndarray, joined: bool, value: str) -> str:
    """One panel in words: its extent, how the first coordinate goes with the number, and a gap."""
    ends = [f"{number(rows[:, i].min())} to {number(rows[:, i].max())}" for i in (0, 1)]
    words = f"{label}: {len(rows)} points, {ends[0]} across, {ends[1]} upwards"
    if rows[:, 0].std() > 0 and shade.std() > 0:
        r = abs(float(np.corrcoef(rows[:, 0], shade)[0, 1]))
        words += f"; correlation of the first coordinate with {value}, in size, {number(r)}"
    if joined:
        steps = np.linalg.norm(np.diff(rows, axis=0), axis=1)
        return f"{words}; {largest_gap(steps, range(2, len(rows) + 1), '', 'between neighbours, before point')}"
    order = np.sort(rows[:, 0])
    return f"{words}; {largest_gap(np.diff(order), [number(x) for x in order[1:]], '', 'in the first coordinate, before')}"
