"""Is there a low-dimensional *value manifold*? Principal components of a batch of vectors, with their nulls.

Paper III takes more than 30 % of the variance in one or two components as a sign. How much is a
component's due if nothing is there? It depends on the number of prompts n far more than on the number
of dimensions: for noise the first share is about (1 + sqrt(n / d))^2 / n (notes B2).

Axes: n prompts, d coordinates, R draws of a null.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spectrum:
    """Principal components of n vectors in d dimensions.

    Attributes:
        shares: float64 (min(n, d),), each component's share of the variance, largest first; they sum to 1.
        axes: (min(n, d), d), the components, as rows; none, (0, d), if they were not asked for.
        coordinates: (n, min(n, d)), of each vector; else (n, 0).
        mean, scale: (d,), what was subtracted, and what was then divided by (1 if not standardised).
    """

    shares: np.ndarray
    axes: np.ndarray
    coordinates: np.ndarray
    mean: np.ndarray
    scale: np.ndarray

    @property
    def pc1(self) -> float:
        """Share of the first component."""
        return float(self.shares[0])

    @property
    def pc12(self) -> float:
        """Share of the first two."""
        return float(self.shares[:2].sum())

    @property
    def participation(self) -> float:
        """(sum of the variances)^2 over the sum of their squares: how many components share evenly."""
        return float(1 / np.square(self.shares).sum())

    def raw_axis(self, component: int = 0) -> np.ndarray:
        """The direction of unit length along which the *raw* vectors are read by a component, (d,).

        A coordinate is axis . (v - mean) / scale, so the raw vectors are read by axis / scale.
        """
        axis = self.axes[component] / self.scale
        return axis / np.linalg.norm(axis)


def spectrum(vectors: np.ndarray, standardise: bool = True, axes: bool = True) -> Spectrum:
    """Principal components of vectors (n, d), each coordinate centred, and divided by its deviation if wished.

    A coordinate that never changes counts for nothing.

    Args:
        axes: find the components themselves; their shares alone take a third of the time.
    Raises:
        ValueError: for fewer than 3 vectors, or if all are the same.
    """
    x = np.asarray(vectors, dtype=float)
    if x.ndim != 2 or len(x) < 3:
        raise ValueError(f"vectors have shape {x.shape}: give at least 3 of them, (n, d)")
    mean, scale = x.mean(0), np.ones(x.shape[1])
    if standardise:
        spread = x.std(0)
        scale = np.where(spread > 1e-12 * max(1.0, float(spread.max())), spread, 1.0)
    z = (x - mean) / scale
    if axes:
        left, size, found = np.linalg.svd(z, full_matrices=False)
    else:
        left, size, found = np.empty((len(z), 0)), np.linalg.svd(z, compute_uv=False), np.empty((0, z.shape[1]))
    if not size[0] > 0:
        raise ValueError("all vectors are the same: there are no components")
    return Spectrum(size**2 / np.square(size).sum(), found, left * size if axes else left, mean, scale)


MEASURES: dict[str, Callable[[Spectrum], float]] = {
    "pc1": lambda s: s.pc1, "pc12": lambda s: s.pc12, "participation": lambda s: s.participation,
}


def shares(vectors: np.ndarray, standardise: bool = True) -> dict[str, float]:
    """The three figures of a spectrum, by name."""
    return figures(spectrum(vectors, standardise, axes=False))


def figures(found: Spectrum) -> dict[str, float]:
    """The three figures of a spectrum at hand, by name."""
    return {name: measure(found) for name, measure in MEASURES.items()}


def without_each(vectors: np.ndarray, standardise: bool = True) -> list[dict[str, float]]:
    """The figures without each vector in turn, n of them."""
    x = np.asarray(vectors, dtype=float)
    return [shares(np.delete(x, i, 0), standardise) for i in range(len(x))]


def jackknife(vectors: np.ndarray, standardise: bool = True, parts: list[dict[str, float]] | None = None) -> dict[str, tuple[float, float]]:
    """Each figure and its standard error, from leaving out one vector at a time.

    The percentile bootstrap, which Paper III uses, is biased upwards here: a vector drawn twice is a
    direction shared by two (see `bootstrap`).

    Args:
        parts: what `without_each` gave, if that is known already.
    """
    parts = without_each(vectors, standardise) if parts is None else parts
    whole = shares(vectors, standardise)
    spread = {name: np.std([part[name] for part in parts]) for name in MEASURES}
    return {name: (whole[name], float(np.sqrt(len(parts) - 1) * spread[name])) for name in MEASURES}


def bootstrap(vectors: np.ndarray, measure: str, draws: int, rng: np.random.Generator, standardise: bool = True) -> np.ndarray:
    """A figure on vectors drawn with replacement, float64 (R,): the biased one, to be looked at."""
    x = np.asarray(vectors, dtype=float)
    rows = rng.integers(len(x), size=(draws, len(x)))
    return np.array([shares(x[row], standardise)[measure] for row in rows])


def expected_share(n: int, d: int) -> float:
    """About the first share of noise, n vectors in d dimensions: (1 + sqrt(n / d))^2 / n (Marchenko and Pastur)."""
    return (1 + (n / d) ** 0.5) ** 2 / n


def noise(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """The null in which there is nothing: independent normal coordinates, (n, d)."""
    return rng.standard_normal((n, d))


def shuffled(vectors: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The null in which coordinates keep their values and lose each other: each one permuted, (n, d)."""
    return rng.permuted(np.asarray(vectors, dtype=float), axis=0)


def ranked(vectors: np.ndarray) -> np.ndarray:
    """Ranks within each coordinate, (n, d): no single prompt can then own a component."""
    return np.asarray(vectors).argsort(0).argsort(0).astype(float)


# ---- keys


def mean_cosine(columns: np.ndarray) -> float:
    """Mean absolute cosine between different columns of a matrix (D, C): 0 if they are orthogonal."""
    unit = columns / np.linalg.norm(columns, axis=0)
    cosines = np.abs(unit.T @ unit)
    n = cosines.shape[0]
    return float((cosines.sum() - np.trace(cosines)) / (n * (n - 1)))


def expected_cosine(dimension: int) -> float:
    """About the same for random directions: sqrt(2 / (pi d)), d the dimension that they *live in*."""
    return float(np.sqrt(2 / (np.pi * dimension)))
