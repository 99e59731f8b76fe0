"""The record `bijection_baselines`: predictors of the bijection tunnel that are understood completely.

By formula, and on sampled episodes to check the formula. Beside each task stand its nulls.

Axes: B episodes, K scored positions, V values.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from bayeswind_lib import baselines, tunnels
from bayeswind_lib.experiments.sampling import DRAW_EPISODES, DRAWS, nulls, scores, with_error
from bayeswind_lib.probes.fixed import rng_for
from bayeswind_lib.scoring import entropy_bits

SIZES = tuple((v, k) for v in (5, 8, 10, 16, 20) for k in (v - 1, v))
LEAKS = (1e-4, 1e-3, 1e-2)
LEAK_ERRORS = (0.0169, 0.007, 0.003, 0.0008)


def measure(n_episodes: int, sizes=SIZES) -> dict:
    """Every baseline of the bijection tunnel: by formula, on sampled episodes, and the nulls."""
    tasks: dict = {}
    for n_values, n_pairs in sizes:
        tasks[f"V{n_values}-L{n_pairs}"] = {
            "distinct": _task(tunnels.Bijection(n_values, n_pairs), n_episodes),
            "replacement": _task(tunnels.Bijection(n_values, n_pairs, True), n_episodes),
        }
    return {"tasks": tasks, "draws": DRAWS, "draw_episodes": DRAW_EPISODES}


def _task(tunnel: tunnels.Bijection, n_episodes: int) -> dict:
    config = tuple(tunnel.config.values())
    constants = baselines.task_constants(*config)
    constants["total_entropy"] = constants["mean_entropy"] * tunnel.n_pairs
    result = {"constants": constants, "baselines": baselines.exact_baselines(*config)}
    if not tunnel.with_replacement:
        size = config[:2]
        constants["truth_in_random_set"] = 1 - result["baselines"]["position_counter"]["tv"]
        result["leak"] = {f"{e:g}": baselines.exact_leak(e, *size) for e in LEAKS}
        reach = baselines.exact_leak(0.1, *size)["entropy_mae"]
        result["leak_for"] = {
            f"{error:g}": baselines.leak_for_entropy_error(error, *size)
            for error in LEAK_ERRORS if error < reach
        }
    return result | {"sampled": sampled(tunnel, n_episodes), "null": nulls(tunnel)}


def predictors(tunnel: tunnels.Bijection) -> dict[str, baselines.Baseline]:
    """The baselines that are predictors, by the names that `exact_baselines` gives them."""
    chosen = {
        "uniform": baselines.Uniform(tunnel),
        "certain": baselines.Certain(tunnel),
        "position_counter": baselines.PositionCounter(tunnel, rng_for(tunnel, 1)),
        "no_binding": baselines.Eliminator(tunnel),
    }
    if tunnel.with_replacement:
        return chosen | {
            "repeat_aware": baselines.RepeatAware(tunnel), "binder": baselines.Binder(tunnel),
        }
    windows = [w for w in (5, 10, 15, 17, 18) if w < tunnel.n_values]
    return chosen | {
        "one_too_few": baselines.OneTooFew(tunnel), "one_too_many": baselines.OneTooMany(tunnel),
    } | {f"window_{w}": baselines.Eliminator(tunnel, w) for w in windows}


def sampled(tunnel: tunnels.Bijection, n_episodes: int) -> dict:
    """The same numbers from sampled episodes, each with its standard error."""
    episodes = tunnel.sample(n_episodes, rng_for(tunnel, 0))
    found = {name: scores(p, episodes) for name, p in predictors(tunnel).items()}
    entropy = entropy_bits(episodes.posterior.log2()).numpy()  # (B, K)
    for name, said in _said_entropies(entropy, tunnel.n_values).items():
        found[name] = with_error("entropy_mae", np.abs(said - entropy))
    found["all_tokens"] |= with_error("kl", math.log2(2 * tunnel.n_values) - entropy)
    result = {"baselines": found, "constants": _sampled_constants(tunnel, episodes, entropy)}
    if not tunnel.with_replacement:
        result["leak"] = {f"{e:g}": scores(baselines.Leaky(tunnel, e), episodes) for e in LEAKS}
    return result


def _said_entropies(entropy: np.ndarray, n_values: int) -> dict[str, np.ndarray | float]:
    """What the baselines say that fix an entropy and no distribution."""
    return {
        "all_tokens": math.log2(2 * n_values),
        "best_constant": float(np.median(entropy)),
        "mean_constant": float(entropy.mean()),
        "position_median": np.median(entropy, axis=0),
        "position_mean": entropy.mean(0),
    }


def _sampled_constants(tunnel, episodes: tunnels.Episodes, entropy: np.ndarray) -> dict:
    happened = episodes.posterior.gather(-1, episodes.targets[..., None])[..., 0].numpy()
    counter = baselines.PositionCounter(tunnel, rng_for(tunnel, 2)).predict(episodes.inputs)
    hits = counter.gather(-1, episodes.targets[..., None])[..., 0] > -math.inf
    # The best guess is any value of the largest probability: right as often as that says.
    best = episodes.posterior.argmax(-1) == episodes.targets
    return {
        **with_error("mean_entropy", entropy),
        **with_error("total_entropy", entropy * tunnel.n_pairs),
        **with_error("bayes_loss_nats", -np.log(happened)),
        **with_error("uniform_loss_nats", np.full_like(entropy, math.log(tunnel.n_values))),
        **with_error("best_accuracy", best.double().numpy()),
        **with_error("p_key_seen", _came_back(episodes.latents["keys"])),
        **with_error("truth_in_random_set", hits.double().numpy()),
    }


def _came_back(keys: torch.Tensor) -> np.ndarray:
    """1 where a key was asked before, else 0: float64 (B, K)."""
    equal = keys[:, :, None] == keys[:, None, :]  # (B, K, K)
    return equal.tril(-1).any(-1).double().numpy()
