"""Cutting an axis out of values, and what has to stand beside the result (Paper III; notes B6).

That a cut axis carries nothing afterwards is no finding: it is what cutting means. What can be asked
is whether the *rest* still tells the quantity (a decoder fitted anew), whether behaviour changed more
than for other axes that carry as much variance, and how small an effect the data would have shown.

Axes: n prompts, d coordinates, R draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np


def cut(vectors: np.ndarray, axis: np.ndarray, mean: np.ndarray | float = 0.0) -> np.ndarray:
    """Vectors (n, d) without their part along an axis, their mean kept: v - ((v - mean) . u) u."""
    unit = axis / np.linalg.norm(axis)
    return vectors - ((vectors - mean) @ unit)[:, None] * unit


def removed_share(vectors: np.ndarray, axis: np.ndarray) -> float:
    """Share of the variance that a cut takes away."""
    centred = vectors - vectors.mean(0)
    unit = axis / np.linalg.norm(axis)
    return float(np.square(centred @ unit).sum() / np.square(centred).sum())


def random_axis(d: int, rng: np.random.Generator) -> np.ndarray:
    """A direction of unit length, (d,): the published control. It carries about 1 / d of the variance."""
    axis = rng.standard_normal(d)
    return axis / np.linalg.norm(axis)


def matched_axis(vectors: np.ndarray, share: float, rng: np.random.Generator, components: int = 10, within: float = 0.1) -> np.ndarray:
    """A random direction that carries as much variance as asked, (d,).

    Drawn in the span of the first principal components, and then tilted towards the first or the last
    one of them until its share fits.

    Args:
        share: share of the variance to be carried.
        within: relative distance from it that is near enough.
    Raises:
        ValueError: if no direction of that span carries as much, or as little.
    """
    centred = vectors - vectors.mean(0)
    _, size, axes = np.linalg.svd(centred, full_matrices=False)
    part = np.square(size[:components]) / np.square(size).sum()  # (components,)
    if not part[-1] <= share <= part[0]:
        raise ValueError(f"share is {share:.4f}: directions among {components} components carry {part[-1]:.4f} to {part[0]:.4f}")
    weight = np.square(random_axis(len(part), rng))  # of each component, sums to 1
    end = np.eye(len(part))[0 if weight @ part < share else -1]
    low, high = 0.0, 1.0
    while abs(weight @ part - share) > within * share:
        middle = (low + high) / 2
        tilted = (1 - middle) * weight + middle * end
        short = (tilted @ part < share) == (end[0] == 1)
        low, high = (middle, high) if short else (low, middle)
        if abs(tilted @ part - share) <= within * share:
            weight = tilted
    return (rng.choice([-1, 1], len(part)) * np.sqrt(weight)) @ axes[: len(part)]


def decodable(vectors: np.ndarray, target: np.ndarray, folds: int = 5, rng: np.random.Generator | None = None) -> float:
    """R^2 on prompts left out, of a ridge fitted to tell a quantity (n,) from vectors (n, d)."""
    from sklearn.linear_model import RidgeCV
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    split = KFold(folds, shuffle=True, random_state=int((rng or np.random.default_rng(0)).integers(2**31)))
    model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 5, 15)))
    predicted = cross_val_predict(model, vectors, target, cv=split)
    return float(1 - np.square(target - predicted).sum() / np.square(target - target.mean()).sum())


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests: is a mean difference within a margin on both sides?

    Attributes:
        mean, standard_error: of the differences.
        margin: what would be too small to matter, stated beforehand.
        p: the larger of the two one-sided p-values; below 0.05 the effect *is* small. A large p says
            that the data cannot tell, not that there is an effect.
    """

    mean: float
    standard_error: float
    margin: float
    p: float


def equivalence(differences: np.ndarray, margin: float) -> Equivalence:
    """Test that paired differences (n,) are small.

    The law of the mean is taken as normal.

    Raises:
        ValueError: if the margin is not above 0, or there are fewer than 20 differences.
    """
    x = np.asarray(differences, dtype=float)
    if margin <= 0 or len(x) < 20:
        raise ValueError(f"margin is {margin} and there are {len(x)} differences: give a margin above 0 and at least 20 of them")
    mean, error = float(x.mean()), float(x.std(ddof=1) / np.sqrt(len(x)))
    if error == 0:
        return Equivalence(mean, 0.0, margin, 0.0 if abs(mean) < margin else 1.0)
    tails = [NormalDist().cdf(-(margin + side * mean) / error) for side in (1, -1)]
    return Equivalence(mean, error, margin, max(tails))
