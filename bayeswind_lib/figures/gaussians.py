"""Gaussian predictions as bands and Gaussian beliefs as ellipses, the exact ones dashed.

Axes: N points of the x axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayeswind_lib.figures.curves import EXACT, POSITION, whole_numbers
from bayeswind_lib.figures.frame import is_narrow, label_below, label_ends
from bayeswind_lib.figures.plot import Plot, draw
from bayeswind_lib.figures.style import COLOURS, DARK, ORACLE, line_style
from bayeswind_lib.figures.words import array, largest_gap, number, sentence, span

WIDE = 2.0  # standard deviations to both sides


def bands(
    predictions: Mapping[str, Sequence],
    x: Sequence[float] | None = None,
    *,
    exact: str = EXACT,
    points: tuple[Sequence[float], Sequence[float]] | None = None,
    x_label: str = POSITION,
    y_label: str = "y",
    title: str = "",
) -> Plot:
    """Mean and two standard deviations to both sides, over a common x axis.

    Args:
        predictions: (N, 2), mean and variance, by label; the exact one among them.
        x: 0, 1, 2, ... by default.
        exact: the label of the truth: dashed lines. The others are a line with a shaded band.
        points: x and y of what happened, drawn as crosses.
        x_label, y_label: words under and beside the axes, with the unit if there is one.
        title: above the axes.
    Raises:
        ValueError: if a shape does not fit, a variance is not positive, or the truth is missing.
    """
    moments = {label: array(rows) for label, rows in predictions.items()}
    if exact not in moments:
        raise ValueError(f"exact is {exact!r}, but the predictions are {', '.join(moments)}")
    x = np.arange(len(moments[exact])) if x is None else array(x)
    for label, rows in moments.items():
        if rows.shape != (len(x), 2) or not (rows[:, 1] > 0).all():
            raise ValueError(
                f"{label} has shape {rows.shape}: expected ({len(x)}, 2), a mean and a positive variance"
            )
    happened = None if points is None else [array(part) for part in points]

    def paint(axes):
        drawn, ends = [], []
        others = [label for label in moments if label != exact]
        for index, label in enumerate(others):
            mean, wide = _edges(moments[label])
            look = line_style(index, of=len(others)) | {"markersize": 0}
            drawn += axes.plot(x, mean, label=label, **look)
            axes.fill_between(x, mean - wide, mean + wide, color=look["color"], alpha=0.2, linewidth=0)
            ends.append(mean[-1])
        mean, wide = _edges(moments[exact])
        drawn += axes.plot(x, mean, label=exact, **ORACLE)
        for side in (-1, 1):
            axes.plot(x, mean + side * wide, **ORACLE | {"linewidth": 1.2})
        ends.append(mean[-1])
        if happened is not None:
            drawn += axes.plot(
                *happened, "x", color=DARK, markersize=7, markeredgewidth=1.8, label="what happened", zorder=6
            )
            ends.append(happened[1][-1] if len(happened[1]) else 0.0)
        axes.set(xlabel=x_label, ylabel=y_label, title=title)
        whole_numbers(axes, x)
        label_ends(axes, drawn, ends)

    data = _band_numbers(x, moments, happened)
    alt = _band_words(moments, x, exact, x_label, y_label, title)
    return draw(paint, alt, data, heads={"x": x_label})


def _band_numbers(x: np.ndarray, moments: Mapping, happened: list | None) -> dict[str, np.ndarray]:
    """Means and variances over x; then a row for each thing that happened."""
    more = 0 if happened is None else len(happened[0])
    data = {"x": x if happened is None else np.concatenate([x, happened[0]])}
    for label, rows in moments.items():
        padded = np.concatenate([rows, np.full((more, 2), np.nan)])
        data |= {f"{label}, mean": padded[:, 0], f"{label}, variance": padded[:, 1]}
    if happened is not None:
        data["what happened"] = np.concatenate([np.full(len(x), np.nan), happened[1]])
    return data


def _edges(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return rows[:, 0], WIDE * np.sqrt(rows[:, 1])


def _band_words(moments, x, exact, x_label, y_label, title) -> str:
    places = [number(value) for value in x]
    parts = [title] if title else []
    parts.append(f"{y_label} over {x_label}, {places[0]} to {places[-1]}: mean and 2 standard deviations to both sides")
    truth = moments[exact]
    spread = np.sqrt(truth[:, 1])
    parts.append(f"{exact} (dashed): mean {span(truth[:, 0], '')}, standard deviation {span(spread, '')}")
    for label, rows in moments.items():
        if label != exact:
            in_mean = largest_gap(rows[:, 0] - truth[:, 0], places, "", f"to {exact} in the mean at")
            wider = largest_gap(np.sqrt(rows[:, 1]) - spread, places, "", "in the standard deviation at")
            parts.append(f"{label}: {in_mean}, {wider}")
    return " ".join(sentence(part) for part in parts)


def ellipses(
    beliefs: Mapping[str, tuple[Sequence[float], Sequence[Sequence[float]]]],
    *,
    point: Sequence[float] | None = None,
    point_label: str = "the truth",
    x_label: str = "first weight",
    y_label: str = "second weight",
    title: str = "",
) -> Plot:
    """Gaussian beliefs about two numbers, each as the curve two standard deviations from its mean.

    Args:
        beliefs: mean (2,) and covariance (2, 2) by label. All are exact, so all are dashed.
        point: the true pair of numbers, drawn as a cross.
        point_label: what the cross is.
        x_label, y_label, title: words around the axes.
    Raises:
        ValueError: if a shape does not fit or a covariance is not positive definite.
    """
    known = {label: (array(mean), array(cov)) for label, (mean, cov) in beliefs.items()}
    for label, (mean, cov) in known.items():
        if mean.shape != (2,) or cov.shape != (2, 2):
            raise ValueError(f"{label} has shapes {mean.shape} and {cov.shape}: expected (2,) and (2, 2)")
        if not (np.linalg.eigvalsh(cov) > 0).all():
            raise ValueError(f"the covariance of {label} is not positive definite")
    angle = np.linspace(0, 2 * np.pi, 181)
    circle = WIDE * np.stack([np.cos(angle), np.sin(angle)])  # (2, 181)

    def paint(axes):
        for index, (label, (mean, cov)) in enumerate(known.items()):
            edge = mean[:, None] + np.linalg.cholesky(cov) @ circle
            colour = COLOURS[index % len(COLOURS)]
            axes.fill(*edge, color=colour, alpha=0.1, linewidth=0)
            axes.plot(*edge, color=colour, linestyle=ORACLE["linestyle"], linewidth=2, label=label)
            axes.plot(*mean, "o", color=colour, markersize=5)
        if point is not None:
            axes.plot(*array(point), "x", color=DARK, markersize=10, markeredgewidth=2.4, label=point_label, zorder=6)
        axes.set(xlabel=x_label, ylabel=y_label, title=title)
        axes.set_aspect("equal", adjustable="datalim")
        if is_narrow(axes):
            label_below(axes, axes.get_legend_handles_labels()[0])
        else:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=2.2)

    areas = np.array([np.pi * WIDE**2 * np.sqrt(np.linalg.det(cov)) for _, cov in known.values()])
    means = np.stack([mean for mean, _ in known.values()])
    parts = [title] if title else []
    parts.append(f"Beliefs about {x_label} (across) and {y_label} (up) as ellipses 2 standard deviations wide")
    parts += [
        f"{label}: centre {number(mean[0])} and {number(mean[1])}, area {number(area)}"
        for label, mean, area in zip(known, means, areas, strict=True)
    ]
    parts.append(largest_gap(areas, list(known), "", "to a certain belief in area:"))
    if point is not None:
        parts.append(f"{point_label}: {' and '.join(number(v) for v in array(point))} (cross)")
    data = {"belief": np.array(list(known)), x_label: means[:, 0], y_label: means[:, 1], "area": areas}
    heads = {x_label: f"{x_label}, mean", y_label: f"{y_label}, mean", "area": "area within 2 standard deviations"}
    for words, (i, j) in {f"{x_label}, variance": (0, 0), f"{y_label}, variance": (1, 1), "covariance": (0, 1)}.items():
        data[words] = np.array([cov[i, j] for _, cov in known.values()])
    if point is not None:  # certain: no area and no spread
        row = [point_label, *array(point), 0.0, 0.0, 0.0, 0.0]
        data = {name: np.append(column, value) for (name, column), value in zip(data.items(), row, strict=True)}
    return draw(paint, " ".join(sentence(part) for part in parts), data, height=4.0, heads=heads)
