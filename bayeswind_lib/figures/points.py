"""Predictors as points: a ladder of one measure, and one measure against another."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from bayeswind_lib.figures.frame import (
    Range,
    edge_words,
    is_narrow,
    lay_out,
    row_height,
    set_range,
    value_range,
    wrapped,
)
from bayeswind_lib.figures.plot import Plot, draw
from bayeswind_lib.figures.style import COLOURS, DARK, GREY, GROUND, MARKERS, NULL, ORACLE
from bayeswind_lib.figures.words import (
    largest_gap,
    measure_name,
    number,
    quantity,
    rounded,
    sentence,
    with_unit,
)


def baselines(
    rows: Mapping[str, float],
    measure: str = "entropy_mae",
    highlight: str | Collection[str] = (),
    *,
    log: bool = True,
    title: str = "",
) -> Plot:
    """A ladder of predictors: one row each, the best at the bottom.

    Args:
        rows: the measure by label; a pair is (value, standard error); NaN is left out.
        measure: its name, for the unit.
        highlight: the labels of networks, drawn in blue; all others are reference predictors.
        log: a logarithmic axis, on which 0 has the left edge and infinity the right one.
        title: above the axes.
    """
    words, unit = measure_name(measure)
    highlight = _chosen(highlight, rows)
    order, values, errors = _sorted(rows)
    limits = value_range(values, log)

    def paint(axes):
        set_range(axes.xaxis, limits)
        _paint_baselines(axes, order, values, errors, limits, highlight)
        axes.set(xlabel=with_unit(words, unit), title=title)

    listed = "; ".join(f"{n} {quantity(v, unit)}" for n, v in zip(order, values, strict=True))
    parts = [f"{words} of {len(order)} predictors, smallest first: {listed}"]
    parts.append(largest_gap(values, order, unit, "to the exact posterior:"))
    parts.append(_sideways(edge_words(values, limits, order)))
    alt = " ".join(sentence(part) for part in [title, *parts] if part)
    height = 1.0 + 0.36 * len(order) + (0.25 if title else 0)
    data = {"predictor": np.array(order), measure: values, "standard error": errors}
    heads = {measure: with_unit(words, unit), "standard error": with_unit("standard error", unit)}
    return draw(paint, alt, data, height=height, heads=heads)


def _chosen(highlight: str | Collection[str], rows: Mapping) -> set[str]:
    chosen = {highlight} if isinstance(highlight, str) else set(highlight)
    if not rows:
        raise ValueError("nothing to draw: give at least one predictor, by label")
    if chosen - set(rows):
        unknown = ", ".join(sorted(chosen - set(rows)))
        raise ValueError(f"highlight names {unknown}: the predictors are {', '.join(rows)}")
    return chosen


def _sorted(rows: Mapping) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Labels, values and standard errors, smallest value first, without NaN."""
    pairs = {
        label: v if isinstance(v, tuple | list) else (v, math.nan) for label, v in rows.items()
    }
    pairs = {label: (float(v), float(e)) for label, (v, e) in pairs.items() if not math.isnan(v)}
    if not pairs:
        raise ValueError(f"none of {', '.join(rows)} has a number")
    order = sorted(pairs, key=lambda label: pairs[label][0])
    values, errors = np.array([pairs[label] for label in order]).T
    return order, rounded(values), errors


def _sideways(words: str) -> str:
    return words.replace("top edge", "right edge").replace("lower edge", "left edge")


def _paint_baselines(axes, order, values, errors, limits: Range, highlight) -> None:
    places = limits.place(values)
    for row, (label, value, error) in enumerate(zip(order, values, errors, strict=True)):
        known, place = label in highlight, places[row]
        colour = COLOURS[0] if known else GREY
        axes.plot([limits.low, place], [row, row], "-", color=colour, linewidth=1.2, alpha=0.55)
        if math.isfinite(error) and math.isfinite(value):
            axes.errorbar(place, row, xerr=2 * error, color=colour, capsize=3, linewidth=1.2)
        marker, fill = ("o" if known else "D"), colour
        if math.isinf(value) or limits.too_small(np.array(value)):
            marker, fill = (">" if math.isinf(value) else "<"), GROUND
        axes.plot(
            place,
            row,
            marker,
            color=colour,
            markerfacecolor=fill,
            markeredgewidth=1.4,
            markersize=8 if known or fill != colour else 6.5,
            zorder=4,
        )
        axes.annotate(
            number(value, 3),
            (place, row),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            fontsize=11.5,
            fontweight="bold" if known else "normal",
        )
    axes.set_yticks(range(len(order)), [wrapped(name, axes, 24) for name in order])
    for text, label in zip(axes.get_yticklabels(), order, strict=True):
        text.set(fontsize=11.5, fontweight="bold" if label in highlight else "normal")
        text.set_linespacing(0.95)
    axes.set_ylim(-0.6, len(order) - 0.4)
    axes.grid(axis="y", visible=False)


def beside_edge(axes, place: float) -> str:
    """How a word above a place of the x axis is set: to one side where it would leave a narrow figure."""
    across = (axes.transData + axes.transAxes.inverted()).transform((place, axes.get_ylim()[0]))[0]
    return "center" if not is_narrow(axes) or 0.25 < across < 0.75 else "left" if across < 0.5 else "right"


def dots(
    rows: Mapping[str, Sequence[float]],
    exact: tuple[str, float] | None = None,
    levels: Mapping[str, float] | None = None,
    *,
    x_label: str = "",
    unit: str = "",
    log: bool = False,
    start: float | None = None,
    bars: bool = True,
    title: str = "",
) -> Plot:
    """One row a label: a dot for every run, and a bar at their mean; rows from top to bottom.

    Args:
        rows: the runs' numbers by label, at least one each.
        exact: label and place of the truth, a dashed line. Without it gaps are to the first row.
        levels: label and place of reference predictors, dotted lines.
        x_label: what is measured, with its unit.
        unit: of the numbers, for the text.
        log: a logarithmic axis.
        start: where a plain axis begins; at 0 by default.
        bars: whether the means are drawn; not where runs end far apart and a mean describes none of them.
        title: above the axes.
    Raises:
        ValueError: if there is no row, or one without numbers.
    """
    values = {label: np.asarray(list(row), dtype=float) for label, row in rows.items()}
    if not values or not all(len(row) for row in values.values()):
        raise ValueError("nothing to draw: give at least one row, and a number in each")
    lines = dict(levels or {}) | ({exact[0]: exact[1]} if exact else {})
    limits = value_range(np.concatenate([*values.values(), np.array(list(lines.values()))]), log)
    means = {label: float(row.mean()) for label, row in values.items()}

    def paint(axes):
        set_range(axes.xaxis, limits)
        if start is not None and not log:
            axes.set_xlim(start, limits.high)
        for row, (label, seeds) in enumerate(reversed(values.items())):
            colour = COLOURS[0]
            if bars:
                axes.plot([means[label]] * 2, [row - 0.3, row + 0.3], "-", color=colour, linewidth=2.6, zorder=4)
            axes.plot(limits.place(seeds), np.full(len(seeds), row), "o", color=colour, alpha=0.75,
                      markeredgecolor=GROUND, markeredgewidth=0.6, markersize=7, zorder=5)
        above, lower = 4.0, True  # points; names of neighbours stand at two heights
        for label, place in sorted(lines.items(), key=lambda pair: pair[1]):
            words = textwrap.wrap(label, 14)
            axes.axvline(place, **(ORACLE if exact and label == exact[0] else NULL))
            axes.annotate("\n".join(words), (place, 1), (0, 4.0 if lower else above), ("data", "axes fraction"), "offset points",
                          ha=beside_edge(axes, place), va="bottom", fontsize=11.5, linespacing=0.95, annotation_clip=False)
            above, lower = 6.0 + 14 * len(words), not lower
        axes.set_yticks(range(len(values)), [wrapped(label, axes, 24) for label in reversed(values)])
        axes.set_ylim(-0.6, len(values) - 0.4)
        axes.grid(axis="y", visible=False)
        axes.set(xlabel=x_label, title=title)

    base, place = (exact[0], exact[1]) if exact else next(iter(means.items()))
    listed = "; ".join(f"{label} {quantity(means[label], unit)} (mean of {len(row)}, {number(row.min())} to {number(row.max())})"
                     for label, row in values.items())
    parts = [title, f"{x_label} of {len(values)} ways: {listed}"]
    parts.append(largest_gap(np.array(list(means.values())) - place, list(means), unit, f"to {base}:"))
    parts += [f"{'Dashed' if exact and label == exact[0] else 'Dotted'} line, {label}: {quantity(value, unit)}" for label, value in lines.items()]
    names = np.array([label for label, row in values.items() for _ in row] + list(lines))
    found = np.concatenate([*values.values(), np.array(list(lines.values()), dtype=float)])
    height = 1.2 + 0.42 * len(values) + 0.3 * min(len(lines), 2)
    alt = " ".join(sentence(part) for part in parts if part)
    return draw(paint, alt, {"way": names, "value": found}, height=height, heads={"value": x_label or "value"})


def scatter_two_measures(
    scores: Mapping[str, object],
    x: str = "entropy_mae",
    y: str = "kl",
    *,
    highlight: str | Collection[str] = (),
    log: bool = True,
    title: str = "",
) -> Plot:
    """Predictors by two measures at once: what looks perfect in one may fail in the other.

    Args:
        scores: a `Score`, or a dict with the two measures, by label.
        x, y: names of the measures.
        highlight: the labels of networks, drawn as large circles with a bold label.
        log: logarithmic axes; zero has the lower edge, infinity the upper one.
        title: above the axes.
    """
    highlight, names = _chosen(highlight, scores), list(scores)
    data = {m: rounded(np.array([_value(scores[n], m) for n in names])) for m in (x, y)}
    limits = {m: value_range(column, log) for m, column in data.items()}
    heads = {m: with_unit(*measure_name(m)) for m in (x, y)}

    def paint(axes):
        set_range(axes.xaxis, limits[x])
        set_range(axes.yaxis, limits[y])
        _paint_points(axes, names, data[x], data[y], limits[x], limits[y], highlight)
        axes.set(xlabel=heads[x], ylabel=heads[y], title=title)

    units = [measure_name(m)[1] for m in (x, y)]
    pairs = zip(names, data[x], data[y], strict=True)
    listed = (f"{n}: {quantity(a, units[0])} and {quantity(b, units[1])}" for n, a, b in pairs)
    across = edge_words(data[x], limits[x], names)
    parts = [title, f"{heads[y]} (vertical) against {heads[x]} (horizontal)"]
    parts.append(largest_gap(data[y], names, units[1], f"to the exact posterior in {measure_name(y)[0]}:"))
    parts.append(largest_gap(data[x], names, units[0], f"to the exact posterior in {measure_name(x)[0]}:"))
    parts += ["; ".join(listed), edge_words(data[y], limits[y], names)]
    parts.append(_sideways(across))
    alt = " ".join(sentence(part) for part in parts if part)
    return draw(paint, alt, {"predictor": np.array(names)} | data, height=4.4, heads=heads)


def two_measures(scores: Mapping[str, object], first: str = "entropy_mae", second: str = "kl", *, title: str = "") -> Plot:
    """One row a predictor, from top to bottom, with a mark for each of two measures of one unit.

    Zero has the left edge of the logarithmic axis and infinity the right one.

    Args:
        scores: a `Score`, or a dict with the two measures, by label.
        first, second: names of the measures.
        title: above the axes.
    Raises:
        ValueError: if there is no predictor, or the measures have different units.
    """
    _chosen((), scores)
    (words, unit), (others, same) = measure_name(first), measure_name(second)
    if unit != same:
        raise ValueError(f"{first} is in {unit or 'no unit'} and {second} in {same or 'no unit'}: they need one axis each")
    names = list(scores)
    data = {m: rounded(np.array([_value(scores[n], m) for n in names])) for m in (first, second)}
    limits = value_range(np.concatenate(list(data.values())), log=True)

    def paint(axes):
        set_range(axes.xaxis, limits)
        _paint_two(axes, names, [data[first], data[second]], [words, others], limits)
        axes.set(xlabel=unit, title=title)

    listed = (f"{n}: {quantity(a, unit)} and {quantity(b, unit)}" for n, a, b in zip(names, *data.values(), strict=True))
    parts = [title, f"{words} and {others} of {len(names)} predictors"]
    parts += ["; ".join(listed), largest_gap(data[second], names, unit, f"to the exact posterior in {others}:")]
    alt = " ".join(sentence(part) for part in parts if part)
    heads = {m: with_unit(*measure_name(m)) for m in data}
    return draw(paint, alt, {"predictor": np.array(names)} | data, height=1.4 + 0.46 * len(names),
                narrow_height=1.4 + row_height(names, 26, 0.46) * len(names), heads=heads)


def _paint_two(axes, names: list[str], columns: list[np.ndarray], words: list[str], limits: Range) -> None:
    looks = [{"marker": "o", "color": COLOURS[3], "markersize": 14}, {"marker": "D", "color": COLOURS[1], "markersize": 6.5}]
    rows = np.arange(len(names))[::-1]
    places = [limits.place(column) for column in columns]
    axes.hlines(rows, *places, color=GREY, linewidth=2.2, alpha=0.6)
    for label, place, look in zip(words, places, looks, strict=True):
        axes.plot(place, rows, linestyle="none", label=label, markeredgecolor=GROUND, zorder=4, clip_on=False, **look)
    axes.set_yticks(rows, [wrapped(name, axes, 26) for name in names])
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.grid(axis="y", visible=False)
    axes.figure.legend(loc="outside upper left", ncols=2, columnspacing=1.2, handletextpad=0.3)


def _value(score, measure: str) -> float:
    measure_name(measure)
    value = score[measure] if isinstance(score, Mapping) else getattr(score, measure)
    return float(value)


def _paint_points(axes, names, xs, ys, x_limits: Range, y_limits: Range, highlight) -> None:
    for index, (name, a, b) in enumerate(zip(names, xs, ys, strict=True)):
        known = name in highlight
        marker = "o" if known else (*MARKERS[1:], "X")[index % len(MARKERS)]
        axes.plot(
            x_limits.place(a),
            y_limits.place(b),
            marker,
            markersize=11 if known else 8.5,
            color=COLOURS[index % len(COLOURS)],
            markeredgecolor=DARK,
            markeredgewidth=0.8,
            zorder=4,
            clip_on=False,
        )
    label_points(axes, names, x_limits.place(xs), y_limits.place(ys), highlight)


def label_points(axes, names, xs, ys, bold: Collection[str] = ()) -> None:
    """Write each name beside its point, where it covers neither another name nor a point."""
    figure = axes.figure
    lay_out(figure)  # their final size
    points = axes.transData.transform(np.column_stack([xs, ys])) * 72 / figure.dpi
    frame = axes.get_window_extent().transformed(figure.dpi_scale_trans.inverted())
    left, right = frame.x0 * 72, frame.x1 * 72
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in points]
    for name, (x, y), at in zip(names, points, zip(xs, ys, strict=True), strict=True):
        width, height = 7.4 * len(name), 14.0  # points, at 11.5 point letters
        spots = [(9, -height / 2), (-9 - width, -height / 2)]
        for away in (9, 24, 39):
            spots += [(-width / 2, away), (-width / 2, -away - height)]
            spots += [
                (9, away),
                (9, -away - height),
                (-9 - width, away),
                (-9 - width, -away - height),
            ]
        boxes = [(x + dx, y + dy, x + dx + width, y + dy + height) for dx, dy in spots]
        costs = [
            sum(overlap(box, other) for other in taken)
            + 50 * max(left - box[0], 0)
            + 50 * max(box[2] - right - 4, 0)
            for box in boxes
        ]
        best = int(np.argmin(costs))
        taken.append(boxes[best])
        dx, dy = spots[best]
        axes.annotate(
            name,
            at,
            xytext=(dx, dy + 2),
            textcoords="offset points",
            fontsize=11.5,
            annotation_clip=False,
            fontweight="bold" if name in bold else "normal",
        )


def overlap(one: tuple, other: tuple) -> float:
    """Area that two boxes (left, bottom, right, top) share."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0.0) * max(height, 0.0)
