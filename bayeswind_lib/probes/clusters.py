"""Five clusters or a filled simplex? Unlabelled clustering beside the exact belief's own shape.

Colouring points by the most probable state separates any linear readout into as many patches as
there are states. Whether there are *clusters* has to be asked without labels (notes 7.7).

Axes: N points, D channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayeswind_lib.probes.filtering import flat
from bayeswind_lib.stats import pca

POINTS = 500  # of a cloud that is clustered


@dataclass(frozen=True)
class Clusters:
    """What unlabelled clustering finds.

    Attributes:
        counts: numbers of clusters tried, k = 1, 2, ...
        bic: of a Gaussian mixture with k components, per point, nats; lower is better.
        silhouette: of k-means with k clusters, NaN at k = 1.
        labelled: silhouette of the labels given (the most probable state).
    """

    counts: np.ndarray
    bic: np.ndarray
    silhouette: np.ndarray
    labelled: float

    @property
    def best(self) -> int:
        """The number of clusters with the lowest BIC."""
        return int(self.counts[self.bic.argmin()])


def clusters(points: np.ndarray, labels: np.ndarray, most: int = 10, dims: int | None = 8, seed: int = 0) -> Clusters:
    """Gaussian mixtures and k-means for 1 to `most` clusters.

    Args:
        points: (N, D), at scored positions of many sequences.
        labels: (N,), for the labelled silhouette.
        dims: principal axes that are kept first, since a mixture in many channels needs more
            points than there are; None keeps all.
        seed: of both clusterings.
    Raises:
        ValueError: for fewer than 10 points a cluster.
    """
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.metrics import silhouette_score
    from sklearn.mixture import GaussianMixture

    points = np.asarray(points, dtype=np.float64)
    if len(points) < 10 * most:
        raise ValueError(f"{len(points)} points are too few for {most} clusters: give at least {10 * most}")
    if dims is not None and dims < points.shape[1]:
        points = PCA(dims, svd_solver="full").fit_transform(points)
    counts, bic, shapes = np.arange(1, most + 1), [], []
    for k in counts:
        bic.append(GaussianMixture(k, random_state=seed, reg_covar=1e-9).fit(points).bic(points) / len(points))
        found = KMeans(k, n_init=4, random_state=seed).fit_predict(points)
        shapes.append(silhouette_score(points, found, sample_size=2000, random_state=seed) if k > 1 else np.nan)
    labelled = silhouette_score(points, labels, sample_size=2000, random_state=seed)
    return Clusters(counts, np.array(bic), np.array(shapes), float(labelled))


def silhouettes(points: np.ndarray, counts, seed: int = 0, starts: int = 6) -> np.ndarray:
    """Mean silhouette of k-means for each number of clusters, at least 2: (len(counts),).

    The best of `starts` runs of k-means counts: fewer are quicker, and miss clusters where there are many.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    found = [KMeans(k, n_init=starts, random_state=seed).fit_predict(points) for k in counts]
    return np.array([silhouette_score(points, labels) for labels in found])


def leading(points: np.ndarray, dims: int = 8) -> np.ndarray:
    """Coordinates on the principal axes, at most `dims` and none without variance: (N, D) -> (N, dims)."""
    found = pca(points)
    return found.project(points, min(dims, int((found.shares > 1e-12 * found.shares[0]).sum())))


def cloud(x: np.ndarray, seed: int = 0) -> np.ndarray:
    """Some rows of activations (B, K, D), drawn from all episodes and steps: (POINTS, D) at most."""
    rows = flat(x)
    return rows[np.random.default_rng(seed).permutation(len(rows))[:POINTS]]
