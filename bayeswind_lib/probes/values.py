"""Stage three, *precision*: is the geometry of values a curve along which entropy falls?

Any process that accumulates draws a smooth curve when one sequence is projected onto two axes, a
random walk too. So ask for many sequences at once, ask what survives *at fixed position* (where
distinct keys leave nothing of entropy to see), and put untrained networks beside (notes 5.3, 7.5).

Axes: N points, D channels, S sequences, K positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from bayeswind_lib.probes.filtering import held_out
from bayeswind_lib.probes.nulls import Measured, against
from bayeswind_lib.stats import Components, correlation, pca


def at_fixed_position(x: np.ndarray) -> np.ndarray:
    """What differs between sequences at the same position: (S, K, ...) less its mean over S."""
    x = np.asarray(x, dtype=np.float64)
    return x - x.mean(0, keepdims=True)


@dataclass(frozen=True)
class Curve:
    """Whether activations lie along a curve of entropy.

    Attributes:
        first, second: shares of the variance on the first axis and on the second.
        participation: number of axes that take part.
        pearson, spearman: |correlation| of the first coordinate with entropy, all positions together.
        fixed: |correlation| of the first coordinate with entropy after both lost their mean at each
            position; 0 where entropy is a function of the position.
        linear: R^2 of entropy from all channels, by ridge regression on half of the sequences,
            scored on the other half, at fixed position (NaN where entropy does not vary there).
    """

    first: float
    second: float
    participation: float
    pearson: float
    spearman: float
    fixed: float
    linear: float


def entropy_curve(points: np.ndarray, entropy: np.ndarray) -> Curve:
    """Shape of activations beside the entropy of the exact posterior.

    Args:
        points: (S, K, D), at the scored positions of many different sequences.
        entropy: (S, K), bits.
    """
    S, K, D = points.shape
    shape = pca(points.reshape(S * K, D))
    first = shape.project(points.reshape(S * K, D), 1)[:, 0]
    at_place = at_fixed_position(points)
    inner = pca(at_place.reshape(S * K, D)).project(at_place.reshape(S * K, D), 1)[:, 0]
    rest = at_fixed_position(entropy)
    varies = rest.std() > 1e-9
    return Curve(
        float(shape.shares[0]), float(shape.shares[1]), shape.participation,
        correlation(first, entropy.ravel()), correlation(first, entropy.ravel(), ranked=True),
        correlation(inner, rest.ravel()) if varies else 0.0,
        held_out(at_place, rest[..., None], len(at_place) // 2) if varies else float("nan"),
    )


def random_walk_null(n_points: int, n_channels: int, draws: int, rng: torch.Generator) -> np.ndarray:
    """Share of the first axis for one sequence that takes random steps; theory 6 / pi^2: (draws,)."""
    found = []
    for _ in range(draws):
        steps = torch.randn(n_points, n_channels, generator=rng, dtype=torch.float64)
        found.append(pca(steps.cumsum(0).numpy()).shares[0])
    return np.array(found)


def walk_shares(n_points: int) -> np.ndarray:
    """Expected shares of the axes of one random walk in many channels: (n_points - 1,), largest first.

    Share j is proportional to 1 / sin^2(pi j / 2K): the inverse of the Laplacian of a path.

    >>> walk_shares(2).tolist()
    [1.0]
    """
    if n_points < 2:
        raise ValueError(f"a walk of {n_points} points has no axes: at least 2 are needed")
    size = 1 / np.sin(np.pi * np.arange(1, n_points) / (2 * n_points)) ** 2
    return size / size.sum()


def of_kernel(covariance: np.ndarray) -> Components:
    """Principal axes of one sequence of points whose channels are independent and have this covariance.

    Args:
        covariance: (K, K), of one channel between positions, for example min(i, j) of a random walk.
    Returns:
        `Components` whose axes are the coordinates of the K points, of length 1, axis by axis: (K, K).
    """
    K = len(covariance)
    centre = np.eye(K) - 1 / K
    sizes, vectors = np.linalg.eigh(centre @ np.asarray(covariance, float) @ centre)
    sizes = np.maximum(sizes[::-1], 0)
    return Components(sizes / sizes.sum(), vectors.T[::-1], np.zeros(K), np.ones(K))


def by_position(coordinate: np.ndarray) -> float:
    """Share of a coordinate's variance (S, K) that lies between the means of the positions."""
    coordinate = np.asarray(coordinate, dtype=np.float64)
    whole = coordinate.var()
    return float(coordinate.mean(0).var() / whole) if whole > 1e-24 else 0.0


def matched_null(points: np.ndarray, entropy: np.ndarray, draws: int, rng: torch.Generator) -> Measured:
    """Correlation of the first coordinate with entropy, beside Gaussians of the same covariance.

    The Gaussian points know nothing of the sequences: what correlation is left comes by chance.
    """
    S, K, D = points.shape
    flat = points.reshape(S * K, D)
    shape, heights = pca(flat), entropy.ravel()
    value = correlation(shape.project(flat, 1)[:, 0], heights)
    return against(
        value,
        lambda: correlation(torch.randn(S * K, generator=rng, dtype=torch.float64).numpy(), heights),
        draws, "Gaussian of the same covariance",
    )
