"""The records of reference points: predictors that are understood completely, in every tunnel.

Bijection and recall by formula, and on sampled episodes to check the formula; HMM and regression
on sampled episodes alone, with standard errors. Beside each task stand its nulls.

Axes: B episodes, K scored positions, V values.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from bayeswind_lib import baselines, tunnels
from bayeswind_lib.baselines.hmm import hmm_predictors
from bayeswind_lib.baselines.recall import StoredSet, WindowRecall, exact_recall_baselines
from bayeswind_lib.baselines.regression import regression_baselines as sampled_regression_baselines
from bayeswind_lib.ledger.baselines import task_key
from bayeswind_lib.ledger.sampling import (
    DRAW_EPISODES,
    DRAWS,
    draw_of,
    nulls,
    rng_for,
    scores,
    summary,
    with_error,
)
from bayeswind_lib.scoring import accuracy, entropy_bits, gaussian_entropy_bits, score_episodes

SIZES = tuple((v, k) for v in (5, 8, 10, 16, 20) for k in (v - 1, v))
LEAKS = (1e-4, 1e-3, 1e-2)
LEAK_ERRORS = (0.0169, 0.007, 0.003, 0.0008)


def bijection_baselines(n_episodes: int, sizes=SIZES) -> dict:
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
    result = {"constants": constants, "rungs": baselines.exact_baselines(*config)}
    if not tunnel.with_replacement:
        size = config[:2]
        constants["truth_in_random_set"] = 1 - result["rungs"]["position_counter"]["tv"]
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
    rungs = {name: scores(p, episodes) for name, p in predictors(tunnel).items()}
    entropy = entropy_bits(episodes.posterior.log2()).numpy()  # (B, K)
    for name, said in _said_entropies(entropy, tunnel.n_values).items():
        rungs[name] = with_error("entropy_mae", np.abs(said - entropy))
    rungs["all_tokens"] |= with_error("kl", math.log2(2 * tunnel.n_values) - entropy)
    result = {"rungs": rungs, "constants": _sampled_constants(tunnel, episodes, entropy)}
    if not tunnel.with_replacement:
        result["leak"] = {f"{e:g}": scores(baselines.Leaky(tunnel, e), episodes) for e in LEAKS}
    return result


def _said_entropies(entropy: np.ndarray, n_values: int) -> dict[str, np.ndarray | float]:
    """What the rungs say that fix an entropy and no distribution."""
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


# HMM tasks: all rungs of the first, on so many times n_episodes; of the others the simple ones.
HMM_TASKS = (
    (10, {}), (10, {"generator": "raw"}), (2, {"length": 50}),
    (5, {"n_states": 3, "n_symbols": 3}),
    (2, {"n_states": 3, "n_symbols": 3, "length": 30}),
    (2, {"n_states": 3, "n_symbols": 3, "length": 50}),
    (2, {"n_states": 3, "n_symbols": 3, "generator": "raw"}),
    (2, {"n_states": 3, "n_symbols": 3, "generator": "raw", "sticky": 50}),
    (2, {"n_states": 3, "n_symbols": 3, "fixed": 0}),
    (2, {"n_states": 3, "n_symbols": 3, "predicts": "next_symbol"}),
)
SIMPLE_HMM_TASKS = (
    (5, {"length": 15}), (5, {"length": 30}), (5, {"generator": "raw", "length": 15}),
    (5, {"generator": "raw", "length": 30}), (5, {"generator": "raw", "length": 50}),
    (5, {"n_states": 2, "n_symbols": 2}), (5, {"n_states": 4, "n_symbols": 4}),
)
SIMPLE = ("uniform", "emission_only", "stationary", "stationary_emission")
TRAINED_LENGTH = 20  # beyond it a network trained on the published length has seen no position
ENTROPY_AT = (1, 2, 3, 4, 5, 10, 15, 20, 30, 50)


def hmm_baselines(n_episodes: int, tasks=HMM_TASKS, simple=SIMPLE_HMM_TASKS) -> dict:
    """The baselines of the HMM tunnels that the book uses, on sampled episodes."""
    found = {}
    for times, config in (*tasks, *simple):
        tunnel = tunnels.HMM(**config)
        chosen = SIMPLE if (times, config) in simple else None
        found[task_key("hmm", tunnel.config)] = _hmm_task(tunnel, times * n_episodes, chosen)
    return {"tasks": found, "draws": DRAWS, "draw_episodes": DRAW_EPISODES}


def _hmm_task(tunnel: tunnels.HMM, n_episodes: int, chosen: tuple[str, ...] | None) -> dict:
    episodes = tunnel.sample(n_episodes, rng_for(tunnel, 0))
    predictors = hmm_predictors(tunnel, rng_for(tunnel, 1))
    null = nulls(tunnel)
    if tunnel.length > TRAINED_LENGTH:
        null["uniform"] |= summary([_jump(tunnel, draw) for draw in range(DRAWS)])
    return {
        "n_episodes": n_episodes, "constants": _hmm_constants(episodes),
        "rungs": {
            name: _hmm_scores(predictor, episodes)
            for name, predictor in predictors.items() if chosen is None or name in chosen
        },
        "null": null,
    }


def _jump(tunnel: tunnels.HMM, draw: int) -> dict[str, float]:
    """The uniform guess's entropy error at the first step beyond the trained length over that before."""
    episodes = draw_of(tunnel, draw)
    gap = math.log2(episodes.posterior.shape[-1]) - entropy_bits(episodes.posterior.log2()).mean(0)
    return {"jump": float(gap[TRAINED_LENGTH] / gap[TRAINED_LENGTH - 1])}


def _hmm_scores(predictor, episodes: tunnels.Episodes) -> dict:
    """Scores over all positions; curves of two measures; "late": beyond the trained length."""
    result = score_episodes(predictor, episodes, batch_size=2048)
    measures = ("entropy_mae", "kl", "tv")
    found: dict = {key: getattr(result, key) for m in measures for key in (m, f"{m}_se")}
    found["per_position"] = {m: result.per_position[m].tolist() for m in measures[:2]}
    if len(result.entropy) > TRAINED_LENGTH:
        for m in measures:
            late, errors = (x[m][TRAINED_LENGTH:] for x in (result.per_position, result.per_position_se))
            found |= {f"late_{m}": float(late.mean()), f"late_{m}_se": float(errors.mean())}
    return found


def _hmm_constants(episodes: tunnels.Episodes) -> dict:
    """Entropy of the exact answer and how sure it is; errors of guesses that only say an entropy."""
    entropy = entropy_bits(episodes.posterior.log2()).numpy()  # (B, K)
    likeliest = episodes.posterior.amax(-1).numpy()
    middle, by_position = float(np.median(entropy)), np.median(entropy, axis=0)
    by_episode = np.median(entropy, axis=1, keepdims=True)  # of an oracle
    result = with_error("mean_entropy", entropy) | with_error("mean_max", likeliest)
    for level in (0.5, 0.9):
        result |= with_error(f"max_above_{level}", likeliest > level)
    for name, said in (
        ("best_constant", middle), ("mean_constant", entropy.mean()),
        ("position_median", by_position), ("episode_median", by_episode),
    ):
        result |= with_error(f"{name}_mae", np.abs(entropy - said))
    for t in ENTROPY_AT:
        if t <= entropy.shape[1]:
            result |= with_error(f"entropy_at_{t}", entropy[:, t - 1 : t])
    spread = entropy.std()
    return result | {
        "best_constant": middle, "entropy_sd": float(spread),
        "entropy_sd_se": float(spread / math.sqrt(2 * len(entropy))),
        "entropy_by_position": entropy.mean(0).tolist(),
    }


REGRESSION_TASKS = (
    {"n_dims": 8, "n_pairs": 20}, {"n_dims": 2, "n_pairs": 20}, {"n_dims": 2, "n_pairs": 10},
)


def regression_baselines(n_episodes: int, tasks=REGRESSION_TASKS) -> dict:
    """Every baseline of the regression tunnels that the book uses, on sampled episodes."""
    found = {}
    for config in tasks:
        tunnel = tunnels.Regression(**config)
        n = 10 * n_episodes
        found[task_key("regression", tunnel.config)] = {
            "n_episodes": n, "constants": _regression_constants(tunnel, n),
            "rungs": sampled_regression_baselines(tunnel, n, rng_for(tunnel, 1)), "null": nulls(tunnel),
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


RECALL_TASKS = (
    {}, {"n_pairs": 16, "filler": 16}, {"n_pairs": 2, "n_queries": 2, "n_keys": 32, "n_values": 32, "filler": 0},
    {"n_pairs": 4, "n_queries": 4, "n_keys": 32, "n_values": 32, "filler": 0},
    {"n_pairs": 8, "n_queries": 8, "n_keys": 32, "n_values": 32, "filler": 0},
    {"n_pairs": 16, "n_queries": 8, "n_keys": 32, "n_values": 32, "filler": 0},
)


def recall_baselines(n_episodes: int, tasks=RECALL_TASKS) -> dict:
    """Every baseline of the recall tunnels that the book uses, by formula and on sampled episodes."""
    found = {}
    for config in tasks:
        tunnel = tunnels.Recall(**config)
        found[task_key("recall", tunnel.config)] = {
            "rungs": exact_recall_baselines(**tunnel.config), "null": _recall_nulls(tunnel),
            "sampled": {"rungs": _sampled_recall(tunnel, min(n_episodes, 1000))},
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
