"""Is the exact belief in the stream?

*Readable*: a linear map from activations to the posterior, fitted on some sequences and scored on
others, beside what the inputs alone allow (notes 7.8). Whether it is used: see `exchange`.

Axes: S sequences, K positions, D channels, Y outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from bayeswind_lib import scoring


@dataclass(frozen=True)
class Reader:
    """A linear map from channels to beliefs.

    Attributes:
        weight: float64 (Y, D). bias: float64 (Y,).
    """

    weight: np.ndarray
    bias: np.ndarray

    def read(self, x: np.ndarray) -> np.ndarray:
        """Channels to beliefs, not yet on the simplex: (..., D) -> (..., Y)."""
        return x @ self.weight.T + self.bias

    def subspace(self, rank: int | None = None) -> np.ndarray:
        """Orthonormal directions that the map reads, strongest first: (rank, D).

        Rows of beliefs sum to 1, so Y - 1 directions hold all of it: the default rank.
        """
        rank = len(self.weight) - 1 if rank is None else rank
        return np.linalg.svd(self.weight - self.weight.mean(0), full_matrices=False)[2][:rank]


def fit_reader(x: np.ndarray, belief: np.ndarray, alpha: float = 1e-3) -> Reader:
    """Ridge regression of beliefs on channels.

    Args:
        x: float (N, D), channels. belief: float (N, Y), rows sum to 1.
        alpha: strength of the penalty, a pure number.

    The penalty is alpha N times the mean variance of a channel, so that a stream twice as long is
    read as well: an untrained network's is short.
    """
    from sklearn.linear_model import Ridge

    found = Ridge(alpha * len(x) * max(float(x.var(0).mean()), 1e-30)).fit(x, belief)
    return Reader(found.coef_, found.intercept_)


def onto_simplex(x: np.ndarray) -> np.ndarray:
    """The nearest distribution to each row, in Euclidean distance: (..., Y) -> (..., Y).

    Duchi et al. (2008), by sorting.

    >>> onto_simplex(np.array([0.5, 0.7, -0.2])).round(3).tolist()
    [0.4, 0.6, 0.0]
    """
    x = np.asarray(x, dtype=np.float64)
    ranked = -np.sort(-x, axis=-1)
    excess = (ranked.cumsum(-1) - 1) / np.arange(1, x.shape[-1] + 1)
    count = (ranked > excess).sum(-1, keepdims=True)
    return np.maximum(x - np.take_along_axis(excess, count - 1, -1), 0)


@dataclass(frozen=True)
class Readout:
    """How well beliefs can be read from activations, on sequences that the fit never saw.

    Attributes:
        r2: share of the belief's variance that is read, mean over outcomes.
        kl: of the exact belief from the reading, put onto the simplex and mixed with a thousandth
            of the even belief, bits.
        shuffled_r2: as r2, for activations of other sequences at the same positions.
    """

    r2: float
    kl: float
    shuffled_r2: float


def readable(
    x: np.ndarray, belief: np.ndarray, train: int | None = None, alpha: float = 1e-3,
    rng: np.random.Generator | None = None,
) -> Readout:
    """Fit a linear reader on the first sequences, score it on the others.

    Args:
        x: (S, K, D). belief: (S, K, Y), the exact posterior.
        train: how many sequences to fit on; two thirds of them by default.
    Raises:
        ValueError: if nothing would be left to score on.
    """
    rng = rng or np.random.default_rng(0)
    S = len(x)
    train = 2 * S // 3 if train is None else train
    if not 0 < train < S:
        raise ValueError(f"train is {train} of {S} sequences: leave some to fit on and some to score")
    flat = [part.reshape(-1, part.shape[-1]) for part in (x[:train], belief[:train])]
    reading = fit_reader(*flat, alpha).read(x[train:])
    other = fit_reader(x[rng.permutation(train)].reshape(flat[0].shape), flat[1], alpha).read(x[train:])
    close = 0.999 * onto_simplex(reading) + 0.001 / belief.shape[-1]
    kl = scoring.kl_bits(torch.tensor(belief[train:]), torch.tensor(close).log2())
    return Readout(r2(belief[train:], reading), float(kl.mean()), r2(belief[train:], other))


def r2(truth: np.ndarray, guess: np.ndarray) -> float:
    """Share of the variance of `truth` (..., Y) that `guess` (..., Y) explains, over all outcomes; below 0 for worse than the mean."""
    Y = truth.shape[-1]
    truth, guess = truth.reshape(-1, Y), guess.reshape(-1, Y)
    return float(1 - ((truth - guess) ** 2).sum() / ((truth - truth.mean(0)) ** 2).sum())
