"""The record `hmm_baselines`: predictors of the HMM tunnels that hold a part of the filter, on sampled episodes.

Beside each task stand its nulls.

Axes: B episodes, K scored positions.
"""

from __future__ import annotations

import math

from bayeswind_lib import stats, tunnels
from bayeswind_lib.baselines.hmm import hmm_predictors, posterior_constants
from bayeswind_lib.checkpoints.keys import task_key
from bayeswind_lib.experiments.sampling import (
    DRAW_EPISODES,
    DRAWS,
    draw_of,
    nulls,
    with_error,
)
from bayeswind_lib.probes.fixed import rng_for
from bayeswind_lib.scoring import entropy_bits, score_episodes

# HMM tasks: all baselines of the first, on so many times n_episodes; of the others the simple ones.
TASKS = (
    (10, {}), (10, {"generator": "raw"}), (2, {"length": 50}),
    (5, {"n_states": 3, "n_symbols": 3}),
    (2, {"n_states": 3, "n_symbols": 3, "length": 30}),
    (2, {"n_states": 3, "n_symbols": 3, "length": 50}),
    (2, {"n_states": 3, "n_symbols": 3, "generator": "raw"}),
    (2, {"n_states": 3, "n_symbols": 3, "generator": "raw", "sticky": 50}),
    (2, {"n_states": 3, "n_symbols": 3, "fixed": 0}),
    (2, {"n_states": 3, "n_symbols": 3, "predicts": "next_symbol"}),
)
SIMPLE_TASKS = (
    (5, {"length": 15}), (5, {"length": 30}), (5, {"generator": "raw", "length": 15}),
    (5, {"generator": "raw", "length": 30}), (5, {"generator": "raw", "length": 50}),
    (5, {"n_states": 2, "n_symbols": 2}), (5, {"n_states": 4, "n_symbols": 4}),
)
SIMPLE = ("uniform", "emission_only", "stationary", "stationary_emission")
TRAINED_LENGTH = 20  # beyond it a network trained on the published length has seen no position
ENTROPY_AT = (1, 2, 3, 4, 5, 10, 15, 20, 30, 50)


def measure(n_episodes: int, tasks=TASKS, simple=SIMPLE_TASKS) -> dict:
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
        null["uniform"] |= stats.summaries([_jump(tunnel, draw) for draw in range(DRAWS)])
    return {
        "n_episodes": n_episodes, "constants": _hmm_constants(episodes),
        "baselines": {
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
    """`posterior_constants` by the names of the record, with the errors that it leaves out, and entropy at single steps."""
    found = posterior_constants(episodes)
    shares, n = found.pop("p_max_above"), found.pop("n_episodes")
    entropy = entropy_bits(episodes.posterior.log2()).numpy()  # (B, K)
    likeliest = episodes.posterior.amax(-1).numpy()
    result = found | with_error("mean_max", likeliest) | {"entropy_sd_se": found["entropy_sd"] / math.sqrt(2 * n)}
    for level in map(float, shares):
        result |= with_error(f"max_above_{level}", likeliest > level)
    for t in ENTROPY_AT:
        if t <= entropy.shape[1]:
            result |= with_error(f"entropy_at_{t}", entropy[:, t - 1 : t])
    return result
