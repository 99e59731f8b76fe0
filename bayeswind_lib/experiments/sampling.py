"""What all makers of records share: seeds, standard errors, and nulls with their draws.

Axes: B episodes, K scored positions, Y outcomes.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from bayeswind_lib import baselines, models, stats, tunnels
from bayeswind_lib.baselines.regression import PriorOnly
from bayeswind_lib.probes.fixed import rng_for
from bayeswind_lib.scoring import MEASURES, entropy_bits, gaussian_entropy_bits, score_episodes
from bayeswind_lib.training.presets import SMALL

DRAWS, DRAW_EPISODES = 20, 100


def draw_of(tunnel, draw: int) -> tunnels.Episodes:
    """The episodes of one draw of a null: as many as are read in a moment, at most DRAW_EPISODES."""
    n_episodes = max(10, min(DRAW_EPISODES, 4000 // tunnel.interface.n_positions))
    return tunnel.sample(n_episodes, rng_for(tunnel, 100 + draw))


def with_error(name: str, cells: np.ndarray | torch.Tensor) -> dict[str, float]:
    """The mean of (B, K) cells, and the standard error from the episodes' own means."""
    means = np.asarray(cells, dtype=np.float64).mean(1)
    return {name: float(means.mean()), f"{name}_se": float(means.std(ddof=1) / math.sqrt(len(means)))}


def scores(predictor, episodes: tunnels.Episodes, batch_size: int = 256) -> dict[str, float]:
    """Every measure of a predictor and its standard error."""
    result = score_episodes(predictor, episodes, batch_size)
    names = [name for measure in MEASURES for name in (measure, f"{measure}_se")]
    return {name: getattr(result, name) for name in names}


def nulls(tunnel) -> dict:
    """What has learned nothing, on `DRAWS` independent sets of episodes: a guess, and networks.

    The guess is uniform over the outcomes, or for a Gaussian outcome the prior alone; the networks
    are small transformers before training, another one in every draw.
    """
    gaussian = tunnel.interface.outcome == "gaussian"
    name = "prior_only" if gaussian else "uniform"
    guess = PriorOnly(tunnel) if gaussian else baselines.Uniform(tunnel)
    fixed = models.Transformer.Config.__dataclass_fields__
    config = SMALL | {k: v for k, v in tunnel.interface.to_dict().items() if k in fixed}
    rows: dict[str, list[dict]] = {name: [], "untrained": []}
    for draw in range(DRAWS):
        episodes = draw_of(tunnel, draw)
        untrained = models.build("transformer", config, rng_for(tunnel, 500 + draw)).eval()
        rows[name].append(of_a_guess(guess, episodes))
        rows["untrained"].append(of_a_guess(untrained, episodes))
    return {name: stats.summaries(draws) for name, draws in rows.items()}


def of_a_guess(predictor, episodes: tunnels.Episodes) -> dict[str, float]:
    """All that a null is asked for, of a predictor that knows nothing."""
    found = {name: value for name, value in scores(predictor, episodes).items() if name in MEASURES}
    prediction = predictor.predict(episodes.inputs)
    if episodes.outcome == "gaussian":
        entropy = float(gaussian_entropy_bits(prediction.double()).mean())
        error = (prediction[..., 0] - episodes.targets).double()
        return found | {"mean_entropy": entropy, "rmse": float(error.square().mean().sqrt())}
    happened = prediction.gather(-1, episodes.targets[..., None])[..., 0]
    entropy, loss = float(entropy_bits(prediction).mean()), float(-happened.mean()) * math.log(2)
    likeliest = prediction.amax(-1).exp2()
    return found | {
        "mean_entropy": entropy,
        "total_entropy": entropy * prediction.shape[1],
        "bayes_loss_nats": loss,
        "uniform_loss_nats": loss,
        "best_accuracy": float(happened.exp2().mean()),
        "truth_in_random_set": float((happened > -math.inf).double().mean()),
        "p_key_seen": 0.0,  # with distinct keys no key comes back
        "mean_max": float(likeliest.mean()),
        "max_above_0.5": float((likeliest > 0.5).double().mean()),
        "max_above_0.9": float((likeliest > 0.9).double().mean()),
        "entropy_sd": float(entropy_bits(prediction).std()),
    }
