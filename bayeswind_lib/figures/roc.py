"""Diagnostics in the ROC plane: what passes of the wrong, and of the right, on two sets of cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayeswind_lib.figures.frame import is_narrow, label_below
from bayeswind_lib.figures.plot import Plot, draw
from bayeswind_lib.figures.style import COLOURS, DARK, GREY, GRID, GROUND, MARKERS, NULL
from bayeswind_lib.figures.words import largest_gap, number, sentence

EDGE, COLUMN, ROW = 1.16, 1.22, 0.064  # where names begin to be led to, where they stand, and how far apart


@dataclass(frozen=True)
class Sign:
    """One diagnostic.

    Attributes:
        group: what it is a number of.
        first, then: share of the wrong and of the right cases that pass, on two sets of cases.
    """

    group: str
    first: tuple[float, float]
    then: tuple[float, float]


def roc_plane(signs: Mapping[str, Sign], *, first: str, then: str, x_label: str, y_label: str) -> Plot:
    """One arrow a diagnostic, from its point on one set of cases (hollow) to that on another (filled).

    Names stand in a column at the right, each led to its filled point; on the dotted diagonal a verdict says nothing.

    Args:
        signs: by name. first, then: the two sets of cases, in words.
    Raises:
        ValueError: without signs, or for more than six groups.
    """
    groups = list(dict.fromkeys(sign.group for sign in signs.values()))
    if not signs or len(groups) > len(COLOURS):
        raise ValueError(f"{len(signs)} signs of {len(groups)} groups: at least one sign and at most {len(COLOURS)} groups are drawn")
    order = sorted(signs, key=lambda name: (-signs[name].then[1], signs[name].then[0]))
    heights = _spread(np.array([signs[name].then[1] for name in order]))

    def paint(axes):
        axes.grid(visible=False)
        for at in np.linspace(0, 1, 6):
            axes.plot([at, at, np.nan, 0, 1], [0, 1, np.nan, at, at], "-", color=GRID, linewidth=0.8, zorder=1)
        (diagonal,) = axes.plot([0, 1], [0, 1], label="a verdict says nothing" if is_narrow(axes) else None, **NULL)
        if not is_narrow(axes):
            axes.annotate("dotted: a verdict says nothing", (0.36, 0.245), fontsize=10.5, color=GREY)
        for name, height in zip(order, heights, strict=True):
            sign = signs[name]
            kind = groups.index(sign.group)
            look = {"color": COLOURS[kind], "markersize": 8, "zorder": 4, "clip_on": False}
            axes.annotate("", sign.then, sign.first, zorder=3, annotation_clip=False,
                          arrowprops={"arrowstyle": "-|>", "color": COLOURS[kind], "alpha": 0.45, "linewidth": 1.4, "shrinkA": 4, "shrinkB": 4})
            axes.plot(*sign.first, MARKERS[kind], markerfacecolor=GROUND, markeredgewidth=1.6, **look)
            axes.plot(*sign.then, MARKERS[kind], markeredgecolor=DARK, markeredgewidth=0.6, **look)
            axes.plot([sign.then[0], EDGE, COLUMN - 0.01], [sign.then[1], height, height], "-", color=GREY, linewidth=0.6, alpha=0.7, clip_on=False, zorder=2)
            axes.annotate(name, (COLUMN, height), va="center", fontsize=11, annotation_clip=False)
        named = [axes.plot([], [], MARKERS[kind], color=COLOURS[kind], label=group)[0] for kind, group in enumerate(groups)]
        ticks = np.linspace(0, 1, 6)
        axes.set(xlim=(-0.03, 1.75), ylim=(-0.05, 1.05), xlabel=x_label, ylabel=y_label, xticks=[0, 0.5, 1] if is_narrow(axes) else ticks, yticks=ticks)
        axes.xaxis.set_label_coords(0.5 / 1.75, -0.1)
        axes.spines["bottom"].set_bounds(0, 1)
        if is_narrow(axes):
            label_below(axes, [*named, diagonal])
            return
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(groups), fontsize=11, handletextpad=0.2, columnspacing=1.2, borderaxespad=0)

    listed = "; ".join(
        f"{name} ({signs[name].group}): {number(a)} and {number(b)}, then {number(c)} and {number(d)}"
        for name in order for (a, b), (c, d) in [(signs[name].first, signs[name].then)]
    )
    lifts = np.array([signs[name].then[1] - signs[name].then[0] for name in order])
    parts = [f"{x_label} (horizontal) and {y_label} (vertical) of {len(order)} diagnostics, on {first}, and then on {then}",
             listed, largest_gap(lifts, order, "", "from the diagonal in the end:")]
    data = {"diagnostic": np.array(order), "group": np.array([signs[name].group for name in order])}
    heads = {}
    for when, words in (("first", first), ("then", then)):
        for axis, label in enumerate((x_label, y_label)):
            key = f"{when} {'xy'[axis]}"
            data[key] = np.array([getattr(signs[name], when)[axis] for name in order])
            heads[key] = f"{label}: {words}"
    return draw(paint, " ".join(sentence(part) for part in parts), data, height=4.9, heads=heads)


def _spread(places: np.ndarray) -> np.ndarray:
    """Heights near the places (falling), at least `ROW` apart, from 1.02 down."""
    found = np.array(places, dtype=float)
    found[0] = min(found[0], 1.02)
    for i in range(1, len(found)):
        found[i] = min(found[i], found[i - 1] - ROW)
    least = -0.02
    for i in range(len(found) - 1, -1, -1):  # and back up, if they ran out at the bottom
        found[i] = max(found[i], least + ROW * (len(found) - 1 - i))
    return found
