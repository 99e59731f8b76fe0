"""Opening a trained network: activations, ablation, keys, routing, values, beliefs, clusters, filters.

Every probe returns its number together with its null. Probes know networks and tunnels; a network
is never changed by one.
"""

from bayeswind_lib.probes import (
    ablation,
    axes,
    beliefs,
    clusters,
    equivalents,
    exchange,
    filtering,
    keys,
    layers,
    nulls,
    progress,
    routing,
    settling,
    values,
)
from bayeswind_lib.probes.ablation import Bench, Effect, ablate, concentration, parts, swap
from bayeswind_lib.probes.activations import activations, edit, resume
from bayeswind_lib.probes.nulls import Measured, untrained
from bayeswind_lib.probes.report import report
from bayeswind_lib.probes.sites import Site, shapes, sites, table

__all__ = [
    "Bench", "Effect", "Measured", "Site", "ablate", "ablation", "activations", "axes", "beliefs",
    "clusters", "concentration", "edit", "equivalents", "exchange", "filtering", "keys", "layers", "nulls", "parts",
    "progress", "report", "resume", "routing", "settling",
    "shapes", "sites", "swap", "table", "untrained", "values",
]
