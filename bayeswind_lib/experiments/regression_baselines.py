"""The record `regression_baselines`: predictors of the regression tunnels, on sampled episodes.

Beside each task stand its nulls.

Axes: B episodes, K scored positions.
"""

from __future__ import annotations

import math

from bayeswind_lib import tunnels
from bayeswind_lib.baselines.regression import regression_baselines
from bayeswind_lib.checkpoints.keys import task_key
from bayeswind_lib.experiments.sampling import DRAW_EPISODES, DRAWS, nulls, with_error
from bayeswind_lib.probes.fixed import rng_for
from bayeswind_lib.scoring import gaussian_entropy_bits

ENTROPY_AT = (1, 2, 3, 4, 5, 10, 15, 20)
TASKS = (
    {"n_dims": 8, "n_pairs": 20}, {"n_dims": 2, "n_pairs": 20}, {"n_dims": 2, "n_pairs": 10},
)


def measure(n_episodes: int, tasks=TASKS) -> dict:
    """Every baseline of the regression tunnels that the book uses, on sampled episodes."""
    found = {}
    for config in tasks:
        tunnel = tunnels.Regression(**config)
        n = 10 * n_episodes
        found[task_key("regression", tunnel.config)] = {
            "n_episodes": n, "constants": _regression_constants(tunnel, n),
            "baselines": regression_baselines(tunnel, n, rng_for(tunnel, 1)), "null": nulls(tunnel),
        }
    return {"tasks": found, "draws": DRAWS, "draw_episodes": DRAW_EPISODES}


def _regression_constants(tunnel: tunnels.Regression, n_episodes: int) -> dict:
    """Entropy of the exact answer, and how far its mean is from what happened."""
    episodes = tunnel.sample(n_episodes, rng_for(tunnel, 0))
    entropy = gaussian_entropy_bits(episodes.posterior).numpy()  # (B, K)
    squares = (episodes.posterior[..., 0] - episodes.targets).square().numpy()
    result = with_error("mean_entropy", entropy) | _root(with_error("rmse", squares), "rmse")
    for k in ENTROPY_AT:
        if k <= tunnel.n_pairs:
            result |= with_error(f"entropy_at_{k}", entropy[:, k - 1 : k])
    return result | _root(with_error("rmse_last", squares[:, -1:]), "rmse_last")


def _root(found: dict[str, float], name: str) -> dict[str, float]:
    """The root of a mean, its error by the derivative."""
    root = math.sqrt(found[name])
    return {name: root, f"{name}_se": found[f"{name}_se"] / (2 * root)}
