"""The record `networks`: every shipped network on fresh episodes, beside the scores of its untrained copies.

Axes: B episodes, K scored positions.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import torch

from bayeswind_lib import checkpoints, models, stats, tunnels
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments.sampling import DRAW_EPISODES, DRAWS, draw_of, scores
from bayeswind_lib.probes.fixed import rng_for
from bayeswind_lib.scoring import MEASURES, accuracy, score_episodes
from bayeswind_lib.training.sweep import reached

LENGTHS = (30, 50)  # on which an HMM network is scored as well, if it can read as much


class Replay:
    """A predictor that gives predictions made before, so that they can be scored twice."""

    def __init__(self, prediction: torch.Tensor):
        self.prediction = prediction

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.prediction


def measure(n_episodes: int, records: str | Path | None = None, keep: bool = False) -> dict:
    """Every shipped network on fresh episodes, beside the scores of its untrained copies.

    With `keep`, entries of the stored record stay whose weights are still the same.
    """
    known = store.read("networks", records) if keep else None
    found: dict = {}
    same_size = known is not None and known["n_episodes"] == n_episodes
    for listed in checkpoints.shipped():
        name, seed = listed["name"], listed["seed"]
        old = store.lookup(known, f"networks/{name}/{seed}") if same_size else None
        if old is not None and old["sha256"] == listed["sha256"]:
            found.setdefault(name, {})[str(seed)] = old
            continue
        found.setdefault(name, {})[str(seed)] = network_entry(checkpoints.load(name, seed), n_episodes)
    return {"networks": found, "draws": DRAWS, "draw_episodes": DRAW_EPISODES}


def network_entry(model, n_episodes: int) -> dict:
    """What the record `networks` holds of one loaded network: facts, scores, and its untrained copies'."""
    record = model.record  # of the very file that was loaded
    tunnel = tunnels.build(record["tunnel"], record["tunnel_config"])
    entry = {key: record.get(key) for key in FACTS_OF_A_RUN}
    entry |= {key: record["recipe"][key] for key in FACTS_OF_A_RECIPE}
    entry["episodes_to"] = reached(record["curve"])
    entry["scores"] = network_scores(model, tunnel, n_episodes)
    sizes = json.dumps([record["config"], tunnel.config], sort_keys=True)
    entry["null"] = _untrained_scores_of_shape(record["architecture"], tunnel.name, sizes)
    return entry


FACTS_OF_A_RUN = (
    "tunnel", "tunnel_config", "architecture", "preset", "variant", "seed", "parameters", "steps",
    "episodes", "schedule_ended", "seconds", "device", "commit", "interruptions", "sha256", "recipe_tag",
)


FACTS_OF_A_RECIPE = ("supervision", "batch_size", "optimiser", "learning_rate", "matrix_learning_rate")


def network_scores(model, tunnel, n_episodes: int) -> dict:
    """Scores over all positions, and of tasks that the network can do besides.

    "one_less": a bijection without its last pair, that is the task with K - 1 pairs. "longer": an
    HMM with more symbols than were trained on, on a quarter of the episodes.
    """
    episodes = tunnel.sample(n_episodes, rng_for(tunnel, 0))
    predicted = Replay(_predict(model, episodes.inputs))
    full = score_episodes(predicted, episodes, batch_size=n_episodes)
    found = full.to_dict() | {"per_position_se": _lists(full.per_position_se)}
    if episodes.outcome == "categorical":
        found["accuracy"], found["accuracy_se"] = accuracy(predicted, episodes, n_episodes)
    if tunnel.name == "bijection" and tunnel.n_pairs > 1:
        found["one_less"] = _one_less(predicted, tunnel, episodes)
    if tunnel.name == "hmm" and tunnel.length < min(LENGTHS):
        found["longer"] = _longer(model, tunnel, max(2, n_episodes // 4))
    return found


def row_scores(model, tunnel, n_episodes: int) -> dict:
    """Of `network_scores` what the ledger asks for beside the means, to five digits: of a run whose network does not ship."""
    full = network_scores(model, tunnel, n_episodes)
    kept = {name: {m: full[name][m] for m in ("entropy_mae", "kl")} for name in ("per_position", "per_position_se")}
    kept |= {name: full[name] for name in ("one_less", "longer") if full.get(name)}
    return json.loads(json.dumps(kept), parse_float=lambda text: float(f"{float(text):.5g}"))


def _predict(model, inputs: torch.Tensor, batch_size: int = 256) -> torch.Tensor:
    return torch.cat([model.predict(some) for some in inputs.split(batch_size)])


def _lists(rows: dict[str, np.ndarray]) -> dict[str, list]:
    return {name: value.tolist() for name, value in rows.items()}


def _one_less(predicted: Replay, tunnel: tunnels.Bijection, episodes: tunnels.Episodes) -> dict:
    shorter = tunnels.Bijection(tunnel.n_values, tunnel.n_pairs - 1, tunnel.with_replacement)
    keys, values = episodes.latents["keys"][:, :-1], episodes.latents["values"][:, :-1]
    first = Replay(predicted.prediction[:, :-1])
    return scores(first, shorter.episodes(keys, values), len(episodes))


def _longer(model, tunnel: tunnels.HMM, n_episodes: int) -> dict:
    """Scores on longer inputs by length; a length that the network has no positions for is left out."""
    found = {}
    for length in LENGTHS:
        longer = tunnels.HMM(**tunnel.config | {"length": length})
        episodes = longer.sample(n_episodes, rng_for(longer, 0))
        try:
            predicted = Replay(_predict(model, episodes.inputs))
        except ValueError:
            continue
        full = score_episodes(predicted, episodes, batch_size=n_episodes)
        scalars = {name: getattr(full, name) for m in MEASURES for name in (m, f"{m}_se")}
        curves = {"per_position": full.per_position, "per_position_se": full.per_position_se}
        kept = {k: _lists({m: v[m] for m in ("entropy_mae", "kl")}) for k, v in curves.items()}
        found[str(length)] = scalars | kept
    return found


@functools.lru_cache(maxsize=1000)
def _untrained_scores_of_shape(architecture: str, tunnel: str, sizes: str) -> dict:
    """`untrained_scores` from JSON, so that networks of one shape share them."""
    config, tunnel_config = json.loads(sizes)
    return untrained_scores(architecture, config, tunnels.build(tunnel, tunnel_config))


def untrained_scores(architecture: str, config: dict, tunnel) -> dict:
    """The same network before any training, `DRAWS` times: the null of every claim about it."""
    draws = []
    for draw in range(DRAWS):
        episodes = draw_of(tunnel, draw)
        copy = models.build(architecture, config, rng_for(tunnel, 900 + draw)).eval()
        predicted = Replay(copy.predict(episodes.inputs))
        found = scores(predicted, episodes, DRAW_EPISODES)
        draws.append({name: found[name] for name in MEASURES})
        if episodes.outcome == "categorical":
            draws[-1]["accuracy"] = accuracy(predicted, episodes, DRAW_EPISODES)[0]
    return stats.summaries(draws)
