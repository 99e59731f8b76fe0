"""Predictors as points: a ladder of one measure, and one measure against another."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Mapping

import numpy as np

from bayeswind_lib.figures.frame import edge_words, mark_edges, set_range, spread, value_range
from bayeswind_lib.figures.plot import Plot, draw
from bayeswind_lib.figures.style import COLOURS, DARK, GREY, WIDTH, line_style
from bayeswind_lib.figures.words import largest_gap, measure_name, number, quantity, sentence


def rungs(
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
    highlight = {highlight} if isinstance(highlight, str) else set(highlight)
    unknown = highlight - set(rows)
    if unknown:
        raise ValueError(f"highlight names {', '.join(sorted(unknown))}, which rows does not hold")
    pairs = {label: v if isinstance(v, tuple) else (v, math.nan) for label, v in rows.items()}
    pairs = {label: (float(v), float(e)) for label, (v, e) in pairs.items() if not math.isnan(v)}
    if not pairs:
        raise ValueError("rows is empty: give at least one value, by label")
    order = sorted(pairs, key=lambda label: pairs[label][0])
    values, errors = np.array([pairs[label] for label in order]).T
    limits = value_range(values, log)

    def paint(axes):
        set_range(axes.xaxis, limits)
        _paint_rungs(axes, order, values, errors, limits, highlight)
        axes.set(xlabel=f"{words} ({unit})" if unit else words, title=title)

    told = "; ".join(f"{label} {quantity(v, unit)}" for label, v in zip(order, values, strict=True))
    gap = largest_gap(values, order, unit, "to the exact posterior:")
    edges = edge_words(values, limits, order).replace("top edge", "right edge").replace("lower edge", "left edge")
    alt = f"{words} of {len(order)} predictors, smallest first: {told}. {sentence(gap)}"
    alt += f" {sentence(edges)}" if edges else ""
    height = 1.0 + 0.36 * len(order) + (0.25 if title else 0)
    data = {"predictor": np.array(order), measure: values, "standard error": errors}
    return draw(paint, (sentence(title) + " " if title else "") + sentence(alt), data, height=height)


def _paint_rungs(axes, order, values, errors, limits, highlight) -> None:
    places = limits.place(values)
    for row, (label, value, place, error) in enumerate(zip(order, values, places, errors, strict=True)):
        colour = COLOURS[0] if label in highlight else GREY
        axes.plot([limits.low, place], [row, row], "-", color=colour, linewidth=1.2, alpha=0.55)
        if math.isfinite(error) and math.isfinite(value):
            axes.errorbar(place, row, xerr=2 * error, color=colour, capsize=3, linewidth=1.2)
        plain = math.isfinite(value) and not limits.too_small(np.array(value))
        if plain:
            axes.plot(place, row, "o" if label in highlight else "D", color=colour,
                      markersize=8 if label in highlight else 6.5)
        else:
            axes.plot(place, row, ">" if math.isinf(value) else "<", color=colour,
                      markerfacecolor="#FFFFFF", markeredgewidth=1.4, markersize=8)
        axes.annotate(number(value, 3), (place, row), xytext=(9, 0), textcoords="offset points",
                      va="center", fontsize=11.5, fontweight="bold" if label in highlight else "normal",
                      bbox={"facecolor": "#FFFFFF", "edgecolor": "none", "pad": 0.8}, zorder=4)
    axes.set_yticks(range(len(order)), ["\n".join(textwrap.wrap(label, 24)) for label in order])
    for text, label in zip(axes.get_yticklabels(), order, strict=True):
        text.set(fontsize=11, fontweight="bold" if label in highlight else "normal", linespacing=0.95)
    axes.set_ylim(-0.6, len(order) - 0.4)
    axes.grid(axis="y", visible=False)


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
        highlight: the labels of networks, drawn as filled circles.
        log: logarithmic axes; zero has the lower edge, infinity the upper one.
    """
    highlight = {highlight} if isinstance(highlight, str) else set(highlight)
    names = list(scores)
    if not names:
        raise ValueError("scores is empty: give at least one, by label")
    data = {m: np.array([_value(scores[n], m) for n in names]) for m in (x, y)}
    limits = {m: value_range(column, log) for m, column in data.items()}
    titles = {m: " ".join(filter(None, [measure_name(m)[0], f"({measure_name(m)[1]})" if measure_name(m)[1] else ""]))
              for m in (x, y)}

    def paint(axes):
        set_range(axes.xaxis, limits[x])
        set_range(axes.yaxis, limits[y])
        _paint_points(axes, names, limits[x].place(data[x]), limits[y].place(data[y]),
                      data[y], limits[y], highlight)
        axes.set(xlabel=titles[x], ylabel=titles[y], title=title)

    told = "; ".join(f"{n}: {quantity(a, measure_name(x)[1])} and {quantity(b, measure_name(y)[1])}"
                     for n, a, b in zip(names, data[x], data[y], strict=True))
    gap = largest_gap(data[y], names, measure_name(y)[1], "to the exact posterior on the vertical axis:")
    gap_x = largest_gap(data[x], names, measure_name(x)[1], "on the horizontal axis:")
    alt = f"{titles[y]} against {titles[x]}. {sentence(told)} {sentence(gap)} {sentence(gap_x)}"
    return draw(paint, (sentence(title) + " " if title else "") + alt,
                {"predictor": np.array(names)} | data, height=4.4)


def _value(score, measure: str) -> float:
    value = score[measure] if isinstance(score, Mapping) else getattr(score, measure)
    return float(value)


def _paint_points(axes, names, xs, ys, raw, limits, highlight) -> None:
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = [float(to_axes.transform((a, b))[1]) for a, b in zip(xs, ys, strict=True)]
    for index, (name, a, b) in enumerate(zip(names, xs, ys, strict=True)):
        look = line_style(index)
        marker = "o" if name in highlight else look["marker"]
        axes.plot(a, b, marker, color=look["color"], markersize=10 if name in highlight else 8,
                  markeredgecolor=DARK, markeredgewidth=0.8, zorder=4)
    mark_edges(axes, np.asarray(xs), raw, limits, DARK)
    texts = ["\n".join(textwrap.wrap(name, 17)) for name in names]
    sizes = [0.058 * (text.count("\n") + 1) + 0.02 for text in texts]
    for text, a, b, middle in zip(texts, xs, ys, spread(heights, sizes), strict=True):
        axes.annotate(text, (a, b), xytext=(1.05, middle), textcoords="axes fraction", va="center",
                      fontsize=11, linespacing=1.0, annotation_clip=False,
                      arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.8, "shrinkB": 4})


__all__ = ["WIDTH", "rungs", "scatter_two_measures"]
