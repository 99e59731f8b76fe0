"""Predictors for the regression tunnel that know part of what can be known, and their scores.

Entropy error alone ranks them wrongly: the right variance around a mean of 0 has none, and the
weights themselves, which no input shows, have more than 1 bit. So each predictor has its
divergence too.

Axes: B episodes, K scored positions (pairs), d dimensions. Entropies and divergences in bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from bayeswind_lib.baselines.base import Baseline
from bayeswind_lib.scoring import gaussian_entropy_bits, score_episodes
from bayeswind_lib.tunnels import Episodes, Regression
from bayeswind_lib.tunnels.regression import posterior, weight_belief


class GaussianBaseline(Baseline):
    """A predictor of mean and variance, built without training.

    A subclass says in `moments(x, y)` what it predicts from x (B, K, d) and the y before them
    (B, K-1): the mean and the variance, float64 (B, K) each.
    """

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        """Mean and variance, float64 (B, K, 2)."""
        return torch.stack(self.moments(*self.tunnel.read(inputs)), dim=-1)


class PriorOnly(GaussianBaseline):
    """Ignores every pair shown: mean 0, and all that x can do under the prior of the weights."""

    name = "prior only"

    def moments(self, x, y):
        squares = (x**2).sum(-1)
        return torch.zeros_like(squares), self.tunnel.noise**2 + squares


class PlugIn(GaussianBaseline):
    """The posterior's mean, and no doubt about the weights: only the noise is left as variance."""

    name = "noise floor, no doubt about the weights"

    def moments(self, x, y):
        mean = posterior(x, F.pad(y, (0, 1)), self.tunnel.noise)[..., 0]
        return mean, torch.full_like(mean, self.tunnel.noise**2)


class RightVariance(GaussianBaseline):
    """The exact variance around a mean of 0: right entropy everywhere, and no prediction.

    The variance depends on x alone, so this predictor never looks at a y.
    """

    name = "right variance, mean 0"

    def moments(self, x, y):
        variance = posterior(x, torch.zeros_like(x[..., 0]), self.tunnel.noise)[..., 1]
        return torch.zeros_like(variance), variance


class EntropyByPosition(GaussianBaseline):
    """Mean 0 and one entropy for each position, looking at no input at all.

    Args:
        tunnel: the regression tunnel.
        entropy: float64 (n,), bits; positions after the nth get the last one. With n = 1 it is
            the same everywhere.
    """

    def __init__(self, tunnel: Regression, entropy: torch.Tensor):
        super().__init__(tunnel)
        if entropy.ndim != 1 or len(entropy) == 0:
            raise ValueError(f"entropy has shape {tuple(entropy.shape)}: expected (positions,)")
        self.variance = (2 * entropy).exp2() / (2 * math.pi * math.e)
        self.name = "one constant" if len(entropy) == 1 else "a constant for each position"

    def moments(self, x, y):
        variance = _at_positions(self.variance, x).expand(x.shape[:2])
        return torch.zeros_like(variance), variance


class KnowsLength(GaussianBaseline):
    """Knows how many pairs were shown and how long x is, not in which directions the pairs lay.

    Variance noise^2 + |x|^2 times a share: the mean over episodes of what is left of the
    weights' variance, per dimension, after k pairs. The mean is 0.

    Args:
        tunnel: the regression tunnel.
        share: float64 (n,), 1 before the first pair; later positions get the last one.
    """

    name = "knows k and |x|, no directions"

    def __init__(self, tunnel: Regression, share: torch.Tensor):
        super().__init__(tunnel)
        if share.ndim != 1 or len(share) == 0:
            raise ValueError(f"share has shape {tuple(share.shape)}: expected (positions,)")
        self.share = share

    def moments(self, x, y):
        squares = (x**2).sum(-1)
        variance = self.tunnel.noise**2 + squares * _at_positions(self.share, x)
        return torch.zeros_like(variance), variance


class WindowPosterior(GaussianBaseline):
    """The exact posterior of the last `window` pairs; what came before is forgotten."""

    def __init__(self, tunnel: Regression, window: int):
        super().__init__(tunnel)
        if window < 0:
            raise ValueError(f"window is {window}: it must be 0 or more")
        self.window, self.name = window, "posterior of the last pair" if window == 1 else f"posterior of the last {window} pairs"

    def moments(self, x, y):
        y = F.pad(y, (0, 1))
        columns = []
        for k in range(x.shape[1]):
            seen = slice(max(k - self.window, 0), k + 1)
            columns.append(posterior(x[:, seen], y[:, seen], self.tunnel.noise)[:, -1])
        return torch.stack(columns, dim=1).unbind(-1)


class WrongNoise(GaussianBaseline):
    """The exact posterior of a reader who takes the noise to be `factor` times what it is.

    Its mean is ridge regression with the wrong penalty, (factor x noise)^2.
    """

    def __init__(self, tunnel: Regression, factor: float):
        super().__init__(tunnel)
        if not factor > 0:
            raise ValueError(f"factor is {factor}: a standard deviation is multiplied, so > 0")
        self.factor, self.name = factor, f"noise taken to be {factor:g} times as large"

    def moments(self, x, y):
        return posterior(x, F.pad(y, (0, 1)), self.factor * self.tunnel.noise).unbind(-1)


class KnownWeights(GaussianBaseline):
    """Is told the weights, which no input shows: no honest predictor has so small a loss.

    It beats the oracle on what happened (its `cross_entropy_gap` is negative) and is far from the
    posterior all the same: that is how cheating, or a leak of the answer, looks in the scores.

    Args:
        tunnel: the regression tunnel.
        episodes: those it knows the weights of, found again by their first x.
    """

    name = "told the weights"

    def __init__(self, tunnel: Regression, episodes: Episodes):
        super().__init__(tunnel)
        first = episodes.latents["x"][:, 0].tolist()
        self.known = dict(zip(map(tuple, first), episodes.latents["weights"], strict=True))

    def moments(self, x, y):
        known = [self.known.get(tuple(first)) for first in x[:, 0].tolist()]
        missing = sum(weights is None for weights in known)
        if missing:
            raise ValueError(f"the weights of {missing} of {len(x)} episodes were not told")
        weights = torch.stack(known)  # (B, d)
        mean = (x * weights[:, None]).sum(-1)
        return mean, torch.full_like(mean, self.tunnel.noise**2)


def _at_positions(table: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The entries of a table (n,) at the K positions of x (B, K, d), the last one going on: (K,)."""
    places = torch.arange(x.shape[1], device=x.device).clamp(max=len(table) - 1)
    return table.to(x.device)[places]


@dataclass(frozen=True)
class Typical:
    """What is typical of a regression tunnel, estimated from episodes.

    Attributes:
        entropy_median: of the exact posterior, over episodes and positions, bits.
        entropy_by_position: its mean at each position, float64 (K,), bits.
        share: of the weights' prior variance, what is left before each position, float64 (K,).
    """

    entropy_median: float
    entropy_by_position: torch.Tensor
    share: torch.Tensor


def typical(episodes: Episodes, noise: float) -> Typical:
    """The constants that `EntropyByPosition` and `KnowsLength` need, from episodes of a tunnel."""
    entropy = gaussian_entropy_bits(episodes.posterior)  # (B, K)
    _, covariance = weight_belief(episodes.latents["x"], episodes.latents["y"], noise)
    left = covariance[:, :-1].diagonal(dim1=-2, dim2=-1).mean(-1)  # (B, K)
    return Typical(entropy.median().item(), entropy.mean(0), left.mean(0))


def regression_baselines(
    tunnel: Regression,
    n_episodes: int,
    rng: torch.Generator,
    windows: tuple[int, ...] = (1, 2, 4, 8, 16),
    factors: tuple[float, ...] = (0.5, 2.0),
) -> dict[str, dict[str, float]]:
    """Scores of the predictors above: {name: {entropy_mae, kl, tv, each with _se}}, by Monte Carlo.

    Args:
        tunnel: the regression tunnel.
        n_episodes: how many are scored; as many others give the constants of three predictors.
        rng: the only source of randomness.
        windows: of `WindowPosterior`; those that forget nothing are left out.
        factors: of `WrongNoise`.
    """
    usual = typical(tunnel.sample(n_episodes, rng), tunnel.noise)
    episodes = tunnel.sample(n_episodes, rng)
    median = torch.tensor([usual.entropy_median], dtype=torch.float64)
    predictors = {
        "prior_only": PriorOnly(tunnel),
        "noise_floor": PlugIn(tunnel),
        "best_constant": EntropyByPosition(tunnel, median),
        "position_mean": EntropyByPosition(tunnel, usual.entropy_by_position),
        "knows_length": KnowsLength(tunnel, usual.share),
        "right_variance": RightVariance(tunnel),
        "known_weights": KnownWeights(tunnel, episodes),
    }
    predictors |= {f"window_{w}": WindowPosterior(tunnel, w) for w in windows if w < tunnel.n_pairs - 1}
    predictors |= {f"noise_x{factor:g}": WrongNoise(tunnel, factor) for factor in factors}
    names = [f"{name}{end}" for name in ("entropy_mae", "kl", "tv") for end in ("", "_se")]
    scores = {name: score_episodes(predictor, episodes, 2048) for name, predictor in predictors.items()}
    return {name: {m: getattr(score, m) for m in names} for name, score in scores.items()}
