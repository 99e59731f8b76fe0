"""The helper library of the book: wind tunnels with known posteriors, networks, scores in bits.

A *tunnel* knows the truth. A *model* is scored against it. A *probe* opens the model up.

>>> import torch, bayeswind_lib as bw
>>> tunnel = bw.tunnels.Bijection(n_values=4)
>>> round(bw.score(tunnel, tunnel, 8, rng=torch.Generator().manual_seed(0)).kl, 6)
0.0
"""

from __future__ import annotations

import importlib

from bayeswind_lib import baselines, checkpoints, models, scoring, stats, training, tunnels
from bayeswind_lib.checkpoints import CheckpointError, load
from bayeswind_lib.scoring import score

__version__ = "0.1.0"

# Rooms that need matplotlib, anywidget or stored records are opened when they are first used.
_LAZY = ("dynamics", "exercises", "experiments", "figures", "language", "ledger", "probes", "widgets")


def __getattr__(name: str):
    if name in _LAZY:
        return importlib.import_module(f"bayeswind_lib.{name}")
    raise AttributeError(f"bayeswind_lib has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__all__ = [
    "CheckpointError",
    "checkpoints",
    "load",
    "models",
    "baselines",
    "score",
    "scoring",
    "stats",
    "training",
    "tunnels",
]
