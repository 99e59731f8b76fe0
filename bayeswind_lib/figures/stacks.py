"""Counts of several kinds in several groups, as bars laid end to end.

Axes: G groups, S kinds.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayeswind_lib.figures.bars import HATCHES
from bayeswind_lib.figures.frame import is_narrow, label_below
from bayeswind_lib.figures.plot import Plot, draw
from bayeswind_lib.figures.style import COLOURS, GREY, GROUND
from bayeswind_lib.figures.words import largest_gap, sentence

# What a verdict is called keeps its colour in every figure: green is never a failure.
VERDICTS = {
    "reproduced": COLOURS[2], "partly": COLOURS[4], "not reproduced": COLOURS[1], "not settled": GREY,
    "needs public weights": COLOURS[5], "not testable": COLOURS[3],
}  # fmt: skip


def stacked(
    groups: Mapping[str, Mapping[str, int]], *, x_label: str = "rows of the ledger", title: str = ""
) -> Plot:
    """One bar a group, cut into kinds, each with its count.

    Args:
        groups: counts by kind, by group; every group has the same kinds in the same order.
        x_label: what is counted.
        title: above the bars.
    Raises:
        ValueError: if there is no group, kinds differ, or a count is negative.
    """
    if not groups:
        raise ValueError("groups is empty: give at least one group")
    kinds = list(next(iter(groups.values())))
    if any(list(counts) != kinds for counts in groups.values()):
        raise ValueError("the groups have different kinds: count the same kinds, in one order, in each")
    table = np.array([[counts[kind] for kind in kinds] for counts in groups.values()])  # (G, S)
    if (table < 0).any():
        raise ValueError("a count is negative")
    names = list(groups)

    def paint(axes):
        _paint(axes, names, kinds, table)
        axes.set(xlabel=x_label)
        axes.set_title(title, pad=7 + 18 * (-(-len(kinds) // 3)))

    listed = [
        f"{name}: {sum(row)} {x_label}, " + ", ".join(f"{n} {kind}" for n, kind in zip(row, kinds, strict=True) if n)
        for name, row in zip(names, table.tolist(), strict=True)
    ]
    share = table / np.maximum(table.sum(1, keepdims=True), 1)
    even = share - table.sum(0) / max(table.sum(), 1)
    places = [f"{kind}, {name}" for name in names for kind in kinds]
    gap = largest_gap(100 * even.ravel(), places, "percent", "to the share of all groups together:")
    alt = " ".join(sentence(part) for part in [title, *listed, gap] if part)
    data = {"group": np.array(names)} | {kind: table[:, i] for i, kind in enumerate(kinds)}
    height = 1.6 + 0.42 * len(names) + 0.2 * (-(-len(kinds) // 3))
    return draw(paint, alt, data, height=height, heads={kind: f"{kind} ({x_label})" for kind in kinds})


def _paint(axes, names, kinds, table) -> None:
    start, places = np.zeros(len(names)), np.arange(len(names))[::-1]
    colours = [*COLOURS, GREY]
    for i, kind in enumerate(kinds):
        colour = VERDICTS.get(kind, colours[i % len(colours)])
        axes.barh(
            places, table[:, i], left=start, height=0.62, label=kind, color=colour,
            hatch=HATCHES[i % len(HATCHES)], edgecolor=GROUND, linewidth=0.6,
        )
        for place, n, left in zip(places, table[:, i], start, strict=True):
            if n >= 0.05 * max(table.sum(1)):
                axes.text(
                    left + n / 2, place, str(n), ha="center", va="center", fontsize=10.5,
                    bbox={"boxstyle": "round,pad=0.15", "facecolor": GROUND, "edgecolor": "none"},
                )
        start = start + table[:, i]
    axes.set_yticks(places, names)
    axes.grid(axis="y", visible=False)
    if is_narrow(axes):
        label_below(axes, axes.get_legend_handles_labels()[0])
        return
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.35, 1.0), ncols=3, borderaxespad=0.2, columnspacing=1.0,
        handlelength=1.4, fontsize=10.5,
    )
