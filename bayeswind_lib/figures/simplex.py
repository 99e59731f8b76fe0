"""Beliefs about three states as points of a triangle: the way that they go, and clouds of them.

Axes: K steps, N points, S = 3 states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayeswind_lib.figures.frame import is_narrow, label_below, panels
from bayeswind_lib.figures.many import dots
from bayeswind_lib.figures.plot import Plot, draw, of_each
from bayeswind_lib.figures.style import COLOURS, DARK, GREY, GRID, GROUND, ORACLE, line_style
from bayeswind_lib.figures.words import array, largest_gap, number, sentence

# Where certainty about each state stands: left, right, top.
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])


def on_simplex(belief: np.ndarray) -> np.ndarray:
    """Points of the plane (..., 2) for beliefs (..., 3): the corners' mean, weighted by them.

    >>> on_simplex(np.array([0.5, 0.5, 0.0])).tolist()
    [0.5, 0.0]
    """
    return np.asarray(belief) @ CORNERS


def simplex_trails(
    trails: Mapping[str, Sequence[Sequence[float]]],
    labels: Sequence[str] = ("state 0", "state 1", "state 2"),
    *,
    exact: str = "exact posterior",
    transition: Sequence[Sequence[float]] | None = None,
    title: str = "",
) -> Plot:
    """Beliefs about three states, step by step, as trails in a triangle.

    A corner is certainty about its state, the middle is the even belief. Each step has its number
    on the exact trail; the first label is the truth if it is called `exact`.

    Args:
        trails: beliefs (K, 3) by label, all of one length K.
        labels: names of the corners: left, right, top.
        exact: the label of the truth: dashed, and what distances are measured from.
        transition: probabilities (3, 3), a row for each state before: the triangle with its rows as
            corners, in which all predictions lie, is shaded.
        title: above the triangle.
    Raises:
        ValueError: if a trail is not a row of distributions over three states, or lengths differ.
    """
    beliefs = {label: array(trail) for label, trail in trails.items()}
    if not beliefs:
        raise ValueError("trails is empty: give at least one")
    for label, rows in beliefs.items():
        if rows.ndim != 2 or rows.shape[1] != 3:
            raise ValueError(f"{label} has shape {rows.shape}: expected (steps, 3)")
        if (rows < 0).any() or np.abs(rows.sum(1) - 1).max(initial=0) > 1e-5:
            raise ValueError(f"rows of {label} are no distributions: they must sum to 1")
    lengths = {label: len(rows) for label, rows in beliefs.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"trails differ in length: {lengths}")

    rows_of = None if transition is None else array(transition)

    def paint(axes):
        _paint_triangle(axes, labels)
        if rows_of is not None:
            axes.fill(*on_simplex(rows_of).T, facecolor=COLOURS[4], alpha=0.25, edgecolor=GREY, zorder=0.5, label="all predictions")
        _paint_trails(axes, beliefs, exact)
        axes.set_title(title)

    sentences = [_in_words(label, rows, beliefs.get(exact), labels) for label, rows in beliefs.items()]
    parts = [title, f"Beliefs about {', '.join(labels)} at {next(iter(lengths.values()))} steps"]
    if rows_of is not None:
        corners = "; ".join(", ".join(number(p) for p in row) for row in rows_of)
        parts.append(f"Shaded, the triangle of all predictions, with corners at {corners}")
    alt = " ".join(sentence(part) for part in [*parts, *sentences] if part)
    return draw(paint, alt, **_numbers("step", beliefs, labels), height=4.6)


def _numbers(row: str, beliefs: Mapping[str, np.ndarray], labels: Sequence[str]) -> dict[str, dict]:
    """A row for each step or point, numbered from 1, and what its columns hold."""
    columns = {f"{label}, {name}": rows[:, i] for label, rows in beliefs.items() for i, name in enumerate(labels)}
    count = len(next(iter(beliefs.values())))
    return {"data": {row: np.arange(1, count + 1)} | columns, "heads": of_each(columns, "probability")}


def _in_words(label: str, rows: np.ndarray, truth: np.ndarray | None, labels: Sequence[str]) -> str:
    last = ", ".join(f"{name} {number(p)}" for name, p in zip(labels, rows[-1], strict=True))
    words = f"{label}: at the end {last}"
    if truth is None or truth is rows:
        moved = np.abs(np.diff(rows, axis=0)).sum(1) / 2
        if not len(moved):
            return words
        return f"{words}; it moves, in total variation, {largest_gap(moved, range(2, len(rows) + 1), '', 'at step')}"
    distance = np.abs(rows - truth).sum(1) / 2
    return f"{words}; total variation, {largest_gap(distance, range(1, len(rows) + 1), '', 'at step')}"


def _paint_triangle(axes, labels: Sequence[str]) -> None:
    edge = np.vstack([CORNERS, CORNERS[:1]])
    axes.plot(*edge.T, color=GREY, linewidth=1.2, zorder=1)
    for share in (0.25, 0.5, 0.75):  # lines of equal probability of one state
        for i in range(3):
            ends = [np.eye(3)[i] * share + np.eye(3)[j] * (1 - share) for j in range(3) if j != i]
            axes.plot(*on_simplex(np.array(ends)).T, color=GRID, linewidth=0.8, zorder=0)
    axes.plot(*on_simplex(np.full(3, 1 / 3)), "+", color=GREY, markersize=11, zorder=2)
    places = zip(labels, CORNERS, [(0, -17), (0, -17), (0, 7)], strict=True)
    for name, corner, offset in places:
        axes.annotate(name, corner, xytext=offset, textcoords="offset points", ha="center")
    axes.set_aspect("equal")
    axes.set(xlim=(-0.12, 1.12), ylim=(-0.1, 0.97))
    axes.axis("off")


def _paint_trails(axes, beliefs: Mapping[str, np.ndarray], exact: str) -> None:
    others = [label for label in beliefs if label != exact]
    for label, rows in beliefs.items():
        look = ORACLE if label == exact else line_style(others.index(label), of=len(others))
        points = on_simplex(rows)
        axes.plot(*points.T, label=label, **look)
        ring = {"markersize": 14, "markerfacecolor": "none"} if label == exact else {"markersize": 8}
        axes.plot(*points[-1], "o", color=look["color"], zorder=6, **ring)
    first = next(iter(beliefs.values())) if exact not in beliefs else beliefs[exact]
    for step, point in enumerate(on_simplex(first), 1):
        axes.annotate(
            str(step), point, xytext=(6, 5), textcoords="offset points", fontsize=11, color=DARK, zorder=7,
        )
    handles = axes.get_legend_handles_labels()[0]
    if len(handles) > 1 and is_narrow(axes):
        label_below(axes, handles)
    elif len(handles) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(-0.02, 1.0))


def simplex_clouds(
    clouds: Mapping[str, Sequence[Sequence[float]]],
    labels: Sequence[str] = ("state 0", "state 1", "state 2"),
    *,
    exact: str = "exact posterior",
    columns: int = 3,
    title: str = "",
) -> Plot:
    """Many beliefs about three states, a triangle for each label, side by side.

    A point has the colour of its *exact* belief in every panel: the colours of the three corners,
    mixed by it. So a panel that has the colours in the right places has the beliefs, whatever its
    outline; points that are not distributions (readings of a linear map) fall outside.

    Args:
        clouds: points (N, 3) by label, rows sum to 1, all of one length N, the same order.
        labels: names of the corners: left, right, top.
        exact: the label of the truth, which must be among the clouds.
        columns: panels in a row.
        title: above all panels.
    Raises:
        ValueError: if the truth is missing, no distribution, or a cloud has another shape.
    """
    points = {label: array(cloud) for label, cloud in clouds.items()}
    if exact not in points:
        raise ValueError(f"exact is {exact!r}, but the clouds are {', '.join(points) or 'none'}")
    for label, rows in points.items():
        if rows.shape != (len(points[exact]), 3):
            raise ValueError(f"{label} has shape {rows.shape}: expected {(len(points[exact]), 3)}")
        if np.abs(rows.sum(1) - 1).max(initial=0) > 1e-4:
            raise ValueError(f"rows of {label} must sum to 1")
    if points[exact].min() < 0:
        raise ValueError(f"rows of {exact} are no distributions")

    def paint(axes):
        figure = axes.figure
        panes = panels(axes, len(points), columns, height=1.9)
        for pane, (label, rows) in zip(panes, points.items(), strict=True):
            _paint_cloud(pane, rows, points[exact], labels)
            pane.set_title(label, fontsize=11.5, loc="center")
        if title:
            figure.suptitle(title, fontsize=12.5, x=0.02, ha="left")

    sentences = [_cloud_in_words(label, rows, points[exact], label == exact) for label, rows in points.items()]
    parts = [title, f"{len(points[exact])} beliefs about {', '.join(labels)} as points of a triangle", *sentences]
    alt = " ".join(sentence(part) for part in parts if part)
    rows_of_panels = -(-len(points) // min(columns, len(points)))
    return draw(paint, alt, **_numbers("point", points, labels), height=0.2 + 2.0 * rows_of_panels)


def _paint_cloud(axes, rows: np.ndarray, truth: np.ndarray, labels: Sequence[str]) -> None:
    edge = np.vstack([CORNERS, CORNERS[:1]])
    axes.plot(*edge.T, color=GREY, linewidth=1.0, zorder=1)
    dots(axes, on_simplex(rows), mixed_colours(truth), size=2.3, alpha=0.8)
    places = zip(labels, CORNERS, [(-4, -12), (4, -12), (0, 4)], strict=True)
    ground = {"facecolor": GROUND, "edgecolor": "none", "alpha": 0.7, "pad": 0.6}  # points may lie there
    for name, corner, offset in places:
        axes.annotate(
            name, corner, xytext=offset, textcoords="offset points", ha="center", fontsize=9.5, bbox=ground, zorder=5,
        )
    axes.set_aspect("equal")
    axes.set(xlim=(-0.14, 1.14), ylim=(-0.23, 1.04))
    axes.axis("off")


def mixed_colours(belief: np.ndarray) -> np.ndarray:
    """Colours of the three corners mixed by beliefs (N, 3), red green blue in 0..1: (N, 3)."""
    corners = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in COLOURS[:3]])
    return np.clip(belief @ corners, 0, 1)


def _cloud_in_words(label: str, rows: np.ndarray, truth: np.ndarray, is_truth: bool) -> str:
    inside = (rows >= -1e-9).all(1).mean()
    spread = np.sqrt(((rows - rows.mean(0)) ** 2).sum(1).mean())
    words = f"{label}: root mean square distance to its mean {number(spread)}"
    if is_truth:
        far = np.abs(rows - 1 / 3).sum(1) / 2
        return f"{words}; total variation to the even belief, {largest_gap(far, range(1, len(rows) + 1), '', 'at point')}"
    distance = np.abs(rows - truth).sum(1) / 2
    gap = largest_gap(distance, range(1, len(rows) + 1), "", "at point")
    return f"{words}; total variation to the truth, mean {number(distance.mean())}, {gap}; share inside the triangle {number(inside)}"
