"""The record `recall_baselines`: predictors of the recall tunnels, by formula and on sampled episodes.

Beside each task stand its nulls.

Axes: B episodes, K scored positions, V values.
"""

from __future__ import annotations

from bayeswind_lib import baselines, tunnels
from bayeswind_lib.baselines.recall import StoredSet, WindowRecall, exact_recall_baselines
from bayeswind_lib.checkpoints.keys import task_key
from bayeswind_lib.experiments.sampling import DRAW_EPISODES, DRAWS, nulls, scores
from bayeswind_lib.probes.fixed import rng_for
from bayeswind_lib.scoring import accuracy

TASKS = (
    {}, {"n_pairs": 16, "filler": 16}, {"n_pairs": 2, "n_queries": 2, "n_keys": 32, "n_values": 32, "filler": 0},
    {"n_pairs": 4, "n_queries": 4, "n_keys": 32, "n_values": 32, "filler": 0},
    {"n_pairs": 8, "n_queries": 8, "n_keys": 32, "n_values": 32, "filler": 0},
    {"n_pairs": 16, "n_queries": 8, "n_keys": 32, "n_values": 32, "filler": 0},
)


def measure(n_episodes: int, tasks=TASKS) -> dict:
    """Every baseline of the recall tunnels that the book uses, by formula and on sampled episodes."""
    found = {}
    for config in tasks:
        tunnel = tunnels.Recall(**config)
        found[task_key("recall", tunnel.config)] = {
            "baselines": exact_recall_baselines(**tunnel.config), "null": _recall_nulls(tunnel),
            "sampled": {"baselines": _sampled_recall(tunnel, min(n_episodes, 1000))},
        }
    return {"tasks": found, "draws": DRAWS, "draw_episodes": DRAW_EPISODES}


def _sampled_recall(tunnel: tunnels.Recall, n_episodes: int) -> dict:
    episodes = tunnel.sample(n_episodes, rng_for(tunnel, 0))
    predictors: dict[str, baselines.Baseline] = {
        "uniform": baselines.Uniform(tunnel), "stored_set": StoredSet(tunnel),
    }
    predictors |= {f"window_{w}": WindowRecall(tunnel, w) for w in (1, 4) if w < tunnel.n_pairs}
    found = {}
    for name, predictor in predictors.items():
        right, error = accuracy(predictor, episodes)
        found[name] = scores(predictor, episodes) | {"accuracy": right, "accuracy_se": error}
    return found


def _recall_nulls(tunnel: tunnels.Recall) -> dict:
    """As `nulls`, with the accuracy."""
    found = nulls(tunnel)
    for rows in found.values():
        rows["accuracy"] = rows["best_accuracy"]
    return found
