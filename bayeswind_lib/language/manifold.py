"""Is there a low-dimensional *value manifold*? Principal components of a batch of vectors, with their nulls.

Paper III takes more than 30 % of the variance in one or two components as a sign. How much is a
component's due if nothing is there? It depends on the number of prompts n far more than on the number
of dimensions: for noise the first share is about (1 + sqrt(n / d))^2 / n (notes B2).

Axes: n prompts, d coordinates, R draws of a null.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bayeswind_lib.stats import Components, pca, ranks


def spectrum(vectors: np.ndarray, standardise: bool = True, axes: bool = True) -> Components:
    """`stats.pca` of vectors (n, d), as Paper III takes it: each coordinate is also divided by its deviation."""
    return pca(vectors, standardise, axes)


MEASURES: dict[str, Callable[[Components], float]] = {
    "pc1": lambda s: s.pc1, "pc12": lambda s: s.pc12, "participation": lambda s: s.participation,
}


def shares(vectors: np.ndarray, standardise: bool = True) -> dict[str, float]:
    """The three figures of a spectrum, by name."""
    return figures(spectrum(vectors, standardise, axes=False))


def figures(found: Components) -> dict[str, float]:
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
    return ranks(vectors, axis=0)


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
