"""A phase portrait of the two-query loop: paths in the plane of preference and value, and what parts them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeswind_lib.figures.plot import Plot, draw
from bayeswind_lib.figures.style import COLOURS, DARK, GREY, ORACLE
from bayeswind_lib.figures.words import largest_gap, number


@dataclass(frozen=True)
class Flow:
    """Paths of the loop from some starts, as `dynamics.loop.flow` finds them.

    Attributes:
        paths: float64 (steps + 1, 3) each: times, d and v.
        grid, parting: (n,), preferences d, and the value v of the watershed there.
        at_starts: (paths,), the watershed at the preference of each start.
        drift: (paths,), by how much what is conserved changes along each path.
        reach: of the grid, both ways.
    """

    paths: list[np.ndarray]
    grid: np.ndarray
    parting: np.ndarray
    at_starts: np.ndarray
    drift: np.ndarray
    reach: float


def phase_portrait(flow: Flow) -> Plot:
    """Paths of the loop from some starts, with the watershed dashed, and the curves without error dotted.

    Args:
        flow: what `dynamics.loop.flow` gives.
    """
    paths, reach = flow.paths, flow.reach

    def paint(axes):
        for sign in (-1, 1):
            d = sign * np.linspace(0.5, reach, 120)
            axes.plot(d, 1 / np.tanh(d / 2), ":", color=GREY, label="no error" if sign == 1 else None)
        for path in paths:
            colour = COLOURS[0] if path[-1, 1] > 0 else COLOURS[1]
            axes.plot(path[:, 1], path[:, 2], color=colour, linewidth=1.5)
            axes.plot(*path[0, 1:], "o", color=colour, markersize=4)
            axes.plot(*path[-1, 1:], "s", color=colour, markersize=5)
        axes.plot(flow.grid, flow.parting, label="watershed", **ORACLE)
        axes.plot(0, 0, "x", color=DARK, markersize=8)
        axes.set(
            xlim=(-reach, reach), ylim=(-reach, reach), xlabel="preference d for the own value (score)",
            ylabel="own value v",
        )
        axes.legend(fontsize=9.5, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)

    first = sum(path[-1, 1] > 0 for path in paths)
    starts, ends = (np.array([path[i, 1:] for path in paths]) for i in (0, -1))
    names = [f"{number(d)} across and {number(v)} up" for d, v in starts]
    alt = (
        f"Paths of the two-query loop, preference across and own value upwards. {len(paths)} starts: {first} end with each "
        f"query on its own value, {len(paths) - first} with the two exchanged. The watershed (dashed) falls from "
        f"{number(flow.parting[0])} at d = {number(-reach)} to {number(flow.parting[-1])} at d = {number(reach)}. "
        f"Of what is conserved, {largest_gap(flow.drift, names, '', 'on the path from')}."
    )
    data = {
        "start d": starts[:, 0], "start v": starts[:, 1], "end d": ends[:, 0], "end v": ends[:, 1],
        "watershed at start d": flow.at_starts,
    }
    return draw(paint, alt, data, height=4.2)
