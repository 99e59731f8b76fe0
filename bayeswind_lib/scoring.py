"""How far a predictor is from the exact posterior, in bits; and predictors of known score.

A predictor is anything with `predict(inputs) -> log2-probabilities`: a network, the oracle, or one
of the reference predictors in `bayeswind_lib.baselines`. All go through the same evaluator.
Where outcomes are real numbers, `predict` gives the mean and the variance of a Gaussian instead.

Axes: B episodes, K scored positions, Y outcomes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch

from bayeswind_lib.tunnels import AnyTunnel, Episodes


class Predictor(Protocol):
    """What can be scored: a network, an oracle, a reference predictor."""

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        """Log2-probabilities (B, K, Y); of a Gaussian outcome mean and variance (B, K, 2)."""


MEASURES = ("entropy_mae", "kl", "cross_entropy_gap", "tv", "support_leak")


NATS = math.log(2)  # in a bit


def entropy(prob: torch.Tensor | np.ndarray) -> torch.Tensor:
    """Shannon entropy in bits of probabilities (..., Y): float64 (...); 0 log 0 counts as 0.

    >>> entropy(np.array([0.5, 0.25, 0.25, 0.0])).item()
    1.5
    """
    return torch.special.entr(torch.as_tensor(prob).double()).sum(-1) / NATS


def entropy_bits(log2_prob: torch.Tensor) -> torch.Tensor:
    """Shannon entropy in bits of log2-probabilities (..., Y): float64 (...); 0 log 0 counts as 0.

    >>> entropy_bits(torch.tensor([0.5, 0.25, 0.25, 0.0]).log2()).item()
    1.5
    """
    log2_prob = log2_prob.double()
    return 0.0 - (log2_prob.exp2() * log2_prob.clamp(min=-1e300)).sum(-1)  # never -0.0


def kl_bits(prob: torch.Tensor, log2_prob: torch.Tensor) -> torch.Tensor:
    """Kullback-Leibler divergence in bits of a prediction from the truth: float64 (...).

    Args:
        prob: (..., Y), the truth. log2_prob: (..., Y), the prediction's log2-probabilities.

    Infinite where the prediction rules out something that can happen.
    """
    prob, log2_prob = prob.double(), log2_prob.double()
    surprise = torch.where(prob > 0, prob * (prob.log2() - log2_prob), 0.0)
    return surprise.sum(-1).clamp(min=0.0)  # rounding can leave -1e-17


def measure(prediction: torch.Tensor, episodes: Episodes) -> dict[str, torch.Tensor]:
    """Every measure at every episode and position: float64 (B, K) by name.

    `entropy_mae`: |H(prediction) - H(posterior)| in bits, per episode *before* any averaging
    (Paper I, Eq. 8, read as a mean over sequences too); errors of opposite sign do not cancel.
    `kl`: KL(posterior || prediction), bits. `cross_entropy_gap`: log2-loss on what happened
    minus the oracle's, bits; may be negative in one episode. `tv`: half the absolute
    difference, 0..1. `support_leak`: probability given to outcomes that are impossible (none
    is for a Gaussian).

    Args:
        prediction: what `predict` gave: log2-probabilities, or means and variances; (B, K, Y).
        episodes: the truth.
    Raises:
        ValueError: if the shapes differ or the prediction is not a distribution.
    """
    if prediction.shape != episodes.posterior.shape:
        raise ValueError(
            f"predict returned shape {tuple(prediction.shape)}, expected "
            f"{tuple(episodes.posterior.shape)} (episodes, positions, outcomes)"
        )
    if episodes.outcome == "gaussian":
        return _measure_gaussian(prediction.double(), episodes)
    return _measure_categorical(prediction.double(), episodes)


def _measure_categorical(log2_prob: torch.Tensor, episodes: Episodes) -> dict[str, torch.Tensor]:
    truth, prob = episodes.posterior, log2_prob.exp2()
    if not torch.allclose(prob.sum(-1), torch.ones((), dtype=torch.float64), atol=1e-6):
        raise ValueError(
            "predict returned rows that do not sum to 1: it must return normalised log2-probabilities"
        )
    happened = episodes.targets[..., None]
    loss = -log2_prob.gather(-1, happened)[..., 0]
    oracle_loss = -truth.gather(-1, happened)[..., 0].log2()
    return {
        "entropy_mae": (entropy_bits(log2_prob) - entropy_bits(truth.log2())).abs(),
        "kl": kl_bits(truth, log2_prob),
        "cross_entropy_gap": loss - oracle_loss,
        "tv": (prob - truth).abs().sum(-1) / 2,
        "support_leak": torch.where(truth > 0, 0.0, prob).sum(-1),
    }


def _measure_gaussian(moments: torch.Tensor, episodes: Episodes) -> dict[str, torch.Tensor]:
    truth = episodes.posterior
    if not bool((moments[..., 1] > 0).all()):
        raise ValueError("predict returned a variance that is not positive: a Gaussian needs one")
    gap = gaussian_entropy_bits(moments) - gaussian_entropy_bits(truth)
    loss = gaussian_loss_bits(moments, episodes.targets)
    return {
        "entropy_mae": gap.abs(),
        "kl": gaussian_kl_bits(truth, moments),
        "cross_entropy_gap": loss - gaussian_loss_bits(truth, episodes.targets),
        "tv": gaussian_total_variation(truth, moments),
        "support_leak": torch.zeros_like(gap),
    }


def gaussian_entropy_bits(moments: torch.Tensor) -> torch.Tensor:
    """Differential entropy of Gaussians, in bits; may be negative, so compare differences only.

    Args:
        moments: float (..., 2), mean and variance.
    """
    return 0.5 * (2 * math.pi * math.e * moments[..., 1]).log2()


def gaussian_loss_bits(moments: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """-log2 of the Gaussian density of `moments` (..., 2) at `targets` (...)."""
    mean, variance = moments.unbind(-1)
    nats = 0.5 * (2 * math.pi * variance).log() + (targets - mean) ** 2 / (2 * variance)
    return nats / math.log(2)


def gaussian_kl_bits(truth: torch.Tensor, moments: torch.Tensor) -> torch.Tensor:
    """KL(truth || prediction) of two Gaussians in bits; both (..., 2), mean and variance.

    >>> gaussian_kl_bits(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 1.0])).item()
    0.0
    """
    ratio = truth[..., 1] / moments[..., 1]
    shift = (truth[..., 0] - moments[..., 0]) ** 2 / moments[..., 1]
    return (0.5 * (ratio + shift - 1 - ratio.log()) / math.log(2)).clamp(min=0.0)


def gaussian_total_variation(truth: torch.Tensor, moments: torch.Tensor) -> torch.Tensor:
    """Total variation distance of two Gaussians, 0..1; both (..., 2), mean and variance.

    The densities cross where a quadratic vanishes, so the distance is a difference of normal
    distribution functions at its roots. Equal variances have one crossing, half-way.
    """
    # In units of the truth: N(0, 1) against N(m, s^2).
    m = (moments[..., 0] - truth[..., 0]) / truth[..., 1].sqrt()
    s2 = moments[..., 1] / truth[..., 1]
    same = (s2 - 1).abs() < 1e-9
    s2_safe = torch.where(same, torch.full_like(s2, 2.0), s2)
    # x^2 (1 - 1/s^2) + 2 x m / s^2 - m^2 / s^2 - log s^2 = 0
    a, b = 1 - 1 / s2_safe, m / s2_safe
    root = (b * b + a * (m * m / s2_safe + s2_safe.log())).clamp(min=0.0).sqrt()
    low, high = (-b - root) / a, (-b + root) / a
    scale = s2_safe.sqrt()
    normal = torch.special.ndtr
    between = (normal(high) - normal(low)) - (normal((high - m) / scale) - normal((low - m) / scale))
    return torch.where(same, 2 * normal(m.abs() / 2) - 1, between.abs())


def accuracy(predictor: Predictor, episodes: Episodes, batch_size: int = 256) -> tuple[float, float]:
    """How often the most probable outcome happened, and the standard error; 0..1 both.

    Ties count by their share, so that a uniform guess among n outcomes is right 1 time in n.

    Raises:
        ValueError: if outcomes are real numbers.
    """
    if episodes.outcome != "categorical":
        raise ValueError(f"outcomes are {episodes.outcome}: accuracy needs labels")
    parts = []
    for start in range(0, len(episodes), batch_size):
        some = episodes[start : start + batch_size]
        log2_prob = predictor.predict(some.inputs)
        best = log2_prob >= log2_prob.amax(-1, keepdim=True) - 1e-9
        right = best.gather(-1, some.targets[..., None])[..., 0].double() / best.sum(-1)
        parts.append(right.mean(1))
    means = torch.cat(parts).cpu().numpy()
    return float(means.mean()), _standard_error(means)


@dataclass(frozen=True)
class Score:
    """The measures averaged over episodes and positions, with standard errors.

    A standard error is the deviation of the episodes' own means over sqrt(n_episodes), since
    positions of one episode are not independent; it is NaN where the mean is infinite.
    `per_position` and `per_position_se` hold the same names, float64 arrays of length K.
    `entropy`, `oracle_entropy`: mean entropy at each position, bits, length K.
    `entropy_curve_mae`: the difference of those two curves, a laxer definition that some
    published code uses: errors that differ in sign between episodes cancel in it.
    """

    entropy_mae: float
    kl: float
    cross_entropy_gap: float
    tv: float
    support_leak: float
    entropy_mae_se: float
    kl_se: float
    cross_entropy_gap_se: float
    tv_se: float
    support_leak_se: float
    entropy_curve_mae: float
    n_episodes: int
    per_position: dict[str, np.ndarray] = field(repr=False)
    per_position_se: dict[str, np.ndarray] = field(repr=False)
    entropy: np.ndarray = field(repr=False)
    oracle_entropy: np.ndarray = field(repr=False)

    def to_dict(self) -> dict:
        """Plain JSON types; an infinite value becomes the string "inf", NaN becomes None."""
        scalars = {k: v for k, v in vars(self).items() if isinstance(v, int | float)}
        rows = {k: v.tolist() for k, v in self.per_position.items()}
        return _plain(scalars | {"per_position": rows, "entropy": self.entropy.tolist(),
                                 "oracle_entropy": self.oracle_entropy.tolist()})


def _plain(value):
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


@torch.no_grad()
def score_episodes(predictor: Predictor, episodes: Episodes, batch_size: int = 256) -> Score:
    """Score a predictor on given episodes.

    Args:
        predictor: anything with `predict(inputs) -> (B, K, Y)`.
        episodes: at least 2 of them, so that there is a standard error.
        batch_size: how many are predicted at once.
    Returns:
        means over episodes and positions with their standard errors, bits (tv and support_leak: 0..1).
    Raises:
        ValueError: for fewer than 2 episodes, or a prediction of another shape than the posterior's.
    """
    if len(episodes) < 2:
        raise ValueError(f"{len(episodes)} episode: a standard error needs at least 2")
    parts, curves = [], []
    for start in range(0, len(episodes), batch_size):
        some = episodes[start : start + batch_size]
        prediction = predictor.predict(some.inputs)
        parts.append(measure(prediction, some))
        curves.append(torch.stack(_entropies(prediction, some)))
    cells = {name: torch.cat([part[name] for part in parts]).cpu().numpy() for name in MEASURES}
    entropy, oracle = torch.cat(curves, dim=1).mean(1).cpu().numpy()
    result: dict = {}
    for name, cell in cells.items():
        result[name] = float(cell.mean())
        result[f"{name}_se"] = _standard_error(cell.mean(1))
    return Score(
        **result,
        entropy_curve_mae=float(np.abs(entropy - oracle).mean()),
        n_episodes=len(episodes),
        per_position={name: cell.mean(0) for name, cell in cells.items()},
        per_position_se={
            name: np.array([_standard_error(column) for column in cell.T])
            for name, cell in cells.items()
        },
        entropy=entropy,
        oracle_entropy=oracle,
    )


def _entropies(prediction: torch.Tensor, episodes: Episodes) -> list[torch.Tensor]:
    """Entropy of the prediction and of the truth, bits, float64 (B, K) each."""
    if episodes.outcome == "gaussian":
        return [gaussian_entropy_bits(m.double()) for m in (prediction, episodes.posterior)]
    return [entropy_bits(prediction), entropy_bits(episodes.posterior.log2())]


def _standard_error(values: np.ndarray) -> float:
    if not np.isfinite(values).all():
        return math.nan
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def score(
    predictor: Predictor, tunnel: AnyTunnel, n_episodes: int = 2000, *, rng: torch.Generator, batch_size: int = 256
) -> Score:
    """Score a predictor on fresh episodes of a tunnel.

    Args:
        predictor: a network, an oracle or a reference predictor.
        tunnel: where the episodes come from.
        n_episodes: how many, at least 2.
        rng: the only source of randomness; the episodes are drawn on the network's device.
        batch_size: how many episodes are predicted at once.
    Returns:
        means over episodes and positions with their standard errors, bits (tv and support_leak: 0..1).
    Raises:
        ValueError: for fewer than 2 episodes, or a prediction of another shape than the posterior's.
    """
    device = next((p.device for p in predictor.parameters()), None) if isinstance(
        predictor, torch.nn.Module
    ) else None
    return score_episodes(predictor, tunnel.sample(n_episodes, rng, device), batch_size)
