"""Figures with one look, and words made from the plotted numbers.

Every function returns a `Plot`: put it as the last expression of a cell. The oracle is always
the dark dashed line; a dash means nothing else. matplotlib is imported when the first figure is
drawn, and no global setting of it is changed.
"""

from __future__ import annotations

from bayeswind_lib.figures import schematics
from bayeswind_lib.figures.bars import distributions
from bayeswind_lib.figures.columns import dot_columns
from bayeswind_lib.figures.curves import (
    entropy_by_position,
    gap_by_position,
    learning_curves,
    lines,
    survival,
)
from bayeswind_lib.figures.gaussians import bands, ellipses
from bayeswind_lib.figures.maps import attention_map, heatmaps
from bayeswind_lib.figures.planes import planes
from bayeswind_lib.figures.plot import Plot, draw
from bayeswind_lib.figures.points import baselines, dots, scatter_two_measures, two_measures
from bayeswind_lib.figures.portrait import phase_portrait
from bayeswind_lib.figures.roc import Sign, roc_plane
from bayeswind_lib.figures.simplex import on_simplex, simplex_clouds, simplex_trails
from bayeswind_lib.figures.stacks import stacked
from bayeswind_lib.figures.style import COLOURS, ORACLE, STYLE, style
from bayeswind_lib.figures.tables import Table, glue, gluer, table
from bayeswind_lib.figures.words import number, quantity

__all__ = [
    "COLOURS",
    "ORACLE",
    "STYLE",
    "Plot",
    "Sign",
    "Table",
    "attention_map",
    "bands",
    "baselines",
    "distributions",
    "dot_columns",
    "dots",
    "draw",
    "ellipses",
    "entropy_by_position",
    "gap_by_position",
    "glue",
    "gluer",
    "heatmaps",
    "learning_curves",
    "lines",
    "number",
    "on_simplex",
    "phase_portrait",
    "planes",
    "quantity",
    "roc_plane",
    "scatter_two_measures",
    "schematics",
    "simplex_clouds",
    "simplex_trails",
    "stacked",
    "style",
    "survival",
    "table",
    "two_measures",
]
