"""Hundreds of equal marks, drawn as one path a colour: a page of small size, not an element a mark."""

from __future__ import annotations

import numpy as np

from bayeswind_lib.figures.style import COLOURS
from bayeswind_lib.figures.svg import CELLS

SHADES = 33  # of the one colour of a table


def dots(axes, places: np.ndarray, colours: np.ndarray, size: float, alpha: float = 1.0) -> None:
    """Round points in many colours.

    Args:
        places: (N, 2), where they stand.
        colours: (N, 3), red green blue in 0..1; those that nobody tells apart become one.
        size: their diameter, points.
        alpha: how much each covers.
    """
    kinds, which = np.unique(np.round(np.asarray(colours)[:, :3] * 15) / 15, axis=0, return_inverse=True)
    for kind, colour in enumerate(kinds):
        at = np.repeat(places[which.ravel() == kind], 2, axis=0)  # a line without length has two round ends
        _path(axes, at, (1, 2), facecolor="none", edgecolor=tuple(colour), linewidth=size, alpha=alpha, capstyle="round", zorder=2)
    axes.autoscale_view()


def cells(axes, table: np.ndarray):
    """Numbers between 0 and 1 as the cells of a table: the more, the more the one colour covers the ground.

    Args:
        table: (R, C); what is masked is left out.
    Returns:
        what a bar of colours shows.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, to_rgb

    shades = ListedColormap([(*to_rgb(COLOURS[0]), step / (SHADES - 1)) for step in range(SHADES)])
    levels = np.ma.filled(np.round(table * (SHADES - 1)), 0).astype(int)
    corner = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5], [-0.5, -0.5]])
    for level in np.unique(levels[levels > 0]):
        centres = np.argwhere(levels == level)[:, None, ::-1]
        _path(axes, (centres + corner).reshape(-1, 2), (1, 2, 2, 2, 79), facecolor=COLOURS[0], alpha=level / (SHADES - 1), linewidth=0, gid=CELLS)
    rows, columns = table.shape
    axes.set(aspect="equal", xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
    mappable = ScalarMappable(cmap=shades)
    mappable.set_clim(0, 1)
    return mappable


def _path(axes, vertices: np.ndarray, codes: tuple[int, ...], **look) -> None:
    """One patch of a shape that comes again and again."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    path = Path(vertices, np.tile(codes, len(vertices) // len(codes)))
    path.should_simplify = False  # it would drop what has no length
    axes.add_patch(PathPatch(path, **look))
