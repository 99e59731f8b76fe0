"""Records of opened networks: one file a subject, each with `measure(n_episodes, draws) -> dict`.

The record of `probed/keys.py` is called "probe_keys", and so on. What a chapter measures again on a
few episodes is measured here on many, with as many draws of each null as a percentile needs.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable

N_EPISODES = 512  # held-out ones, of each network
DRAWS = 200  # of each null

RECORDS = tuple(sorted(f"probe_{module.name}" for module in pkgutil.iter_modules(__path__)))


def makers() -> dict[str, Callable[[int], dict]]:
    """What makes each record, given a number of episodes: fewer than usual means few draws too."""
    return {name: functools.partial(_make, name.removeprefix("probe_")) for name in RECORDS}


def _make(subject: str, n_episodes: int) -> dict:
    measure = importlib.import_module(f"{__name__}.{subject}").measure
    draws = DRAWS if n_episodes >= N_EPISODES else 3
    n_episodes = min(n_episodes, N_EPISODES)
    return {"n_episodes": n_episodes, "n_draws": draws} | measure(n_episodes, draws)
