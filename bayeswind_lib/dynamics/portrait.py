"""A picture of the two-query loop: paths in the plane of preference and value, and what parts them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayeswind_lib.dynamics import loop
from bayeswind_lib.figures import COLOURS, ORACLE, Plot, draw, number
from bayeswind_lib.figures.style import GREY
from bayeswind_lib.figures.words import largest_gap

REACH = 3.0  # of the picture, both ways


def portrait(starts: Sequence[tuple[float, float]], *, routing: float = 1.0, value: float = 1.0, until: float = 30.0) -> Plot:
    """Paths of the loop from some starts, with the watershed dashed, and the curves without error dotted.

    Args:
        starts: (d, v): preferences and values.
        routing, value: the two rates.
        until: how long each path runs; see `loop.path`.
    Raises:
        ValueError: if there is no start.
    """
    if not starts:
        raise ValueError("starts is empty: give at least one pair of preference and value")
    paths = [loop.path(d, v, routing=routing, value=value, until=until, steps=300) for d, v in starts]
    grid = np.linspace(-REACH, REACH, 241)
    parting = loop.watershed(grid, routing, value)

    def paint(axes):
        for sign in (-1, 1):
            d = sign * np.linspace(0.5, REACH, 120)
            axes.plot(d, 1 / np.tanh(d / 2), ":", color=GREY, label="no error" if sign == 1 else None)
        for path in paths:
            colour = COLOURS[0] if path[-1, 1] > 0 else COLOURS[1]
            axes.plot(path[:, 1], path[:, 2], color=colour, linewidth=1.5)
            axes.plot(*path[0, 1:], "o", color=colour, markersize=4)
            axes.plot(*path[-1, 1:], "s", color=colour, markersize=5)
        axes.plot(grid, parting, label="watershed", **ORACLE)
        axes.plot(0, 0, "x", color="#1A1A1A", markersize=8)
        axes.set(
            xlim=(-REACH, REACH), ylim=(-REACH, REACH), xlabel="preference d for the own value (score)",
            ylabel="own value v",
        )
        axes.legend(fontsize=9.5, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)

    first = sum(path[-1, 1] > 0 for path in paths)
    drift = [np.ptp(loop.conserved(p[:, 1], p[:, 2], routing, value)) for p in paths]
    names = [f"{number(d)} across and {number(v)} up" for d, v in starts]
    alt = (
        f"Paths of the two-query loop, preference across and own value upwards. {len(paths)} starts: {first} end with each "
        f"query on its own value, {len(paths) - first} with the two exchanged. The watershed (dashed) falls from "
        f"{number(parting[0])} at d = {number(-REACH)} to {number(parting[-1])} at d = {number(REACH)}. Of what is conserved, "
        f"{largest_gap(np.array(drift), names, '', 'on the path from')}."
    )
    data = {
        "start d": np.array([d for d, _ in starts], dtype=float), "start v": np.array([v for _, v in starts], dtype=float),
        "end d": np.array([p[-1, 1] for p in paths]), "end v": np.array([p[-1, 2] for p in paths]),
        "watershed at start d": loop.watershed(np.array([d for d, _ in starts], dtype=float), routing, value),
    }
    return draw(paint, alt, data, height=4.2)
