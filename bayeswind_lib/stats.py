"""Statistics: intervals of few numbers, ranks and correlations, what a null comes to, principal components.

scipy is imported where it is needed: training and scoring do without it.

Axes: N points, D channels, n numbers, S simulated experiments.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

# ---- what a null comes to


def summary(draws: Iterable[float | None], value: float | None = None, level: float | None = None) -> dict:
    """A null in JSON types, as the ledger stores it: "null" (the median), "low", "high" and "draws".

    Args:
        draws: what the null gave; None and NaN (a ratio to nothing) are left out.
        value: a measurement to be set beside it: "value", and its "percentile" among the draws, a tie by half.
        level: the share of the draws between "low" and "high"; by default these are the lowest and the highest.
    """
    drawn = np.array([x for x in draws if x is not None and not math.isnan(x)], dtype=float)
    found: dict = {"null": None, "low": None, "high": None, "draws": len(drawn)}
    if len(drawn):
        tail = 0 if level is None else (1 - level) / 2
        low, high = np.quantile(drawn, (tail, 1 - tail)) if tail else (drawn.min(), drawn.max())
        found |= {"null": float(np.median(drawn)), "low": float(low), "high": float(high)}
    if value is not None:
        found |= {"value": float(value), "percentile": percentile(value, drawn) if len(drawn) else None}
    return found


def summaries(rows: Sequence[dict[str, float]], level: float | None = None) -> dict[str, dict]:
    """`summary` of each entry of draws that are dicts with the same names."""
    return {name: summary([row[name] for row in rows], level=level) for name in rows[0]}


def percentile(value: float, draws: np.ndarray) -> float:
    """Share of the draws below a value, in percent; a tie counts half. NaN without draws."""
    drawn = np.asarray(draws)
    return 100 * float(np.mean(drawn < value) + np.mean(drawn == value) / 2) if len(drawn) else math.nan


# ---- few numbers


def standard_error(x: Sequence[float]) -> float:
    """Of the mean of numbers (n,); NaN for a single one."""
    return float(np.std(x, ddof=1) / math.sqrt(len(x))) if len(x) > 1 else math.nan


def share_interval(passed: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Exact interval (Clopper and Pearson, 1934) of a probability of which `passed` of n independent trials tell.

    >>> [round(end, 3) for end in share_interval(0, 10)]
    [0.0, 0.308]
    """
    from scipy.stats import binomtest

    found = binomtest(passed, n).proportion_ci(level, "exact")
    return float(found.low), float(found.high)


def clustered_interval(shares: Sequence[float], rng: np.random.Generator, draws: int = 2000, level: float = 0.95) -> tuple[float, float]:
    """Percentile bootstrap of the mean of shares (n,), each of a cluster: clusters are drawn, not what is in them."""
    x = np.asarray(shares, dtype=float)
    means = x[rng.integers(len(x), size=(draws, len(x)))].mean(1)
    return float(np.quantile(means, (1 - level) / 2)), float(np.quantile(means, (1 + level) / 2))


def passed_for_good(errors: Sequence[float], level: float) -> int | None:
    """The first evaluation from which all errors are at or below a level; None if there is none.

    >>> passed_for_good([0.4, 0.08, 0.3, 0.05], 0.1)
    3
    """
    above = [i for i, error in enumerate(errors) if error > level]
    first = above[-1] + 1 if above else 0
    return first if first < len(errors) else None


def survival(times: Sequence[float], ended: Sequence[bool], level: float = 0.95) -> dict[str, np.ndarray]:
    """Share of runs that have not ended yet, of which some are censored (Kaplan and Meier, 1958).

    Args:
        times: (n,), when a run ended, or when nobody looked any more. ended: (n,), which of the two.
    Returns:
        at (k + 1,): 0 and the times at which runs ended; share, low, high (k + 1,): the estimate from then on, and
        an interval of it (Greenwood's variance on the scale of log(-log), as in `scipy.stats.ecdf`). Once all have
        ended, where that is undefined, it goes from 0 to what it was before.
    """
    from scipy.stats import CensoredData, ecdf

    times, ended = np.asarray(times, dtype=float), np.asarray(ended, dtype=bool)
    found = ecdf(CensoredData(uncensored=times[ended], right=times[~ended])).sf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of the formula, where all have ended
        band = found.confidence_interval(level, method="log-log")
    kept = np.isin(found.quantiles, times[ended])
    parts = {"share": found.probabilities, "low": band.low.probabilities, "high": band.high.probabilities}
    at = np.concatenate([[0.0], found.quantiles[kept]])
    curve = {name: np.concatenate([[1.0], values[kept]]) for name, values in parts.items()}
    if curve["share"][-1] == 0:
        curve["low"][-1], curve["high"][-1] = 0.0, curve["high"][-2]
    return {"at": at} | curve


def logrank(times: Sequence[float], ended: Sequence[bool], others: Sequence[float], others_ended: Sequence[bool]) -> float:
    """p of the two-sided log-rank test that two groups of runs end at the same rates (Mantel, 1966); arguments as in `survival`.

    If no run of either has ended, nothing tells them apart: 1.
    """
    from scipy import stats

    if not any(ended) and not any(others_ended):
        return 1.0

    groups = []
    for when, done in ((times, ended), (others, others_ended)):
        when, done = np.asarray(when, dtype=float), np.asarray(done, dtype=bool)
        groups.append(stats.CensoredData(uncensored=when[done], right=when[~done]))
    return float(stats.logrank(*groups).pvalue)


def roc_area(right: Sequence[float], wrong: Sequence[float]) -> float:
    """Area under the ROC curve: how often a right one has the larger number than a wrong one, ties by half.

    >>> roc_area([2, 3], [1, 2])
    0.875
    """
    from scipy.stats import rankdata

    a, b = (np.asarray(x, dtype=float) for x in (right, wrong))
    up = rankdata(np.concatenate([a, b]))[: len(a)].sum()
    return float((up - len(a) * (len(a) + 1) / 2) / (len(a) * len(b)))


def t_interval(x: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Student's interval of the mean of few numbers (n,), n at least 2."""
    low, high = _student(np.asarray(x, dtype=float)[None], level)
    return float(low[0]), float(high[0])


def _student(x: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The same for many experiments at once, (S, n) -> (S,) twice."""
    from scipy.stats import t

    n = x.shape[1]
    half = float(t.ppf((1 + level) / 2, n - 1)) * x.std(1, ddof=1) / math.sqrt(n)
    return x.mean(1) - half, x.mean(1) + half


@cache
def resamples(n: int) -> tuple[np.ndarray, np.ndarray]:
    """All ways to draw n of n with replacement: how often each is drawn (ways, n), and the probability (ways,).

    >>> len(resamples(5)[0])
    126
    """
    if not 1 <= n <= 8:
        raise ValueError(f"n is {n}: all resamples of 1 to 8 numbers are taken, of more draw some")
    drawn = np.array(list(itertools.combinations_with_replacement(range(n), n)))  # (ways, n)
    counts = (drawn[:, :, None] == np.arange(n)).sum(1)  # (ways, n)
    ways = [math.factorial(n) / math.prod(map(math.factorial, c)) for c in counts.tolist()]
    return counts, np.array(ways) / float(n) ** n


def bootstrap_interval(x: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of few numbers (n,), with all resamples: nothing is drawn."""
    low, high = _bootstrap(np.asarray(x, dtype=float)[None], level)
    return float(low[0]), float(high[0])


def _bootstrap(x: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The same for many experiments at once, (S, n) -> (S,) twice."""
    counts, weight = resamples(x.shape[1])
    means = x @ counts.T / x.shape[1]  # (S, ways)
    order = means.argsort(1)
    up = weight[order].cumsum(1)
    ends = []
    for q in ((1 - level) / 2, (1 + level) / 2):
        place = (up >= q - 1e-12).argmax(1)
        ends.append(np.take_along_axis(np.take_along_axis(means, order, 1), place[:, None], 1)[:, 0])
    return ends[0], ends[1]


def coverage(n: int, draws: int, rng: np.random.Generator, level: float = 0.95) -> dict[str, float]:
    """How often intervals from n normal numbers hold the true mean, in `draws` simulated experiments.

    Returns:
        the share of the experiments, 0 to 1, by kind of interval: "bootstrap", "Student" and "range".
    """
    x = rng.standard_normal((draws, n))
    ends = {"bootstrap": _bootstrap(x, level), "Student": _student(x, level), "range": (x.min(1), x.max(1))}
    return {name: float(((low <= 0) & (high >= 0)).mean()) for name, (low, high) in ends.items()}


def ratio_interval(a: Sequence[float], b: Sequence[float], level: float = 0.95) -> dict:
    """The geometric mean of the ratios of two paired sets of positive numbers (n,), and what is known of it.

    Returns:
        "each" (n), "mean", and the intervals "bootstrap" and "Student" (on the logarithms) and "range".
    """
    logs = np.log(np.asarray(a, dtype=float) / np.asarray(b, dtype=float))
    ends = {"bootstrap": bootstrap_interval(logs, level), "Student": t_interval(logs, level), "range": (logs.min(), logs.max())}
    return {"each": np.exp(logs).tolist(), "mean": float(np.exp(logs.mean()))} | {
        name: [float(math.exp(x)) for x in pair] for name, pair in ends.items()
    }


# ---- ranks and correlations


def ranks(x: np.ndarray, axis: int | None = None) -> np.ndarray:
    """Ranks of numbers from 1 on, equal ones at their mean rank; along an axis, or of all.

    >>> ranks([5, 7, 5, 9]).tolist()
    [1.5, 3.0, 1.5, 4.0]
    """
    from scipy.stats import rankdata

    return rankdata(x, axis=axis)


def unit_ranks(x: np.ndarray) -> np.ndarray:
    """Ranks, centred and of length 1, so that products are rank correlations: (n,); zeros if all are the same."""
    centred = ranks(x) - (len(x) + 1) / 2
    return centred / (np.linalg.norm(centred) or 1)


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Rank correlation of numbers (n,) and (n,), -1 to 1; 0 if one of them never changes."""
    return float(unit_ranks(x) @ unit_ranks(y))


def correlation(x: np.ndarray, y: np.ndarray, ranked: bool = False) -> float:
    """|Pearson's correlation| of numbers (n,), or |Spearman's| if `ranked`; 0 where one of the two does not vary."""
    x, y = (ranks(part) if ranked else np.asarray(part, dtype=np.float64) for part in (x, y))
    parts = []
    for part in (x, y):
        size = np.linalg.norm(part)
        apart = part - part.mean()
        length = np.linalg.norm(apart)
        if length <= 1e-12 * size or size == 0:  # what rounding leaves of equal numbers
            return 0.0
        parts.append(apart / length)
    return float(abs(parts[0] @ parts[1]))


# ---- points in many dimensions


@dataclass(frozen=True)
class Components:
    """Principal components of points.

    Attributes:
        shares: float64 (min(N, D),), each component's share of the variance, largest first; they sum to 1.
        axes: (min(N, D), D), the components, as rows of length 1; the largest entry of each is positive,
            for the sign of a component is arbitrary. None, (0, D), if they were not asked for.
        mean, scale: (D,), what was subtracted, and what was then divided by (1 if not standardised).
    """

    shares: np.ndarray
    axes: np.ndarray
    mean: np.ndarray
    scale: np.ndarray

    @property
    def participation(self) -> float:
        """(sum of the variances)^2 over the sum of their squares: about how many components take part."""
        return float(1 / np.square(self.shares).sum())

    @property
    def pc1(self) -> float:
        """Share of the first component."""
        return float(self.shares[0])

    @property
    def pc12(self) -> float:
        """Share of the first two."""
        return float(self.shares[:2].sum())

    def project(self, points: np.ndarray, n: int | None = 2) -> np.ndarray:
        """Coordinates on the first n components, on all for None: (N, D) -> (N, n)."""
        return (np.asarray(points, dtype=np.float64) - self.mean) / self.scale @ self.axes[:n].T

    def raw_axis(self, component: int = 0) -> np.ndarray:
        """The direction of unit length along which the *raw* points are read by a component, (D,).

        A coordinate is axis . (x - mean) / scale, so the raw points are read by axis / scale.
        """
        axis = self.axes[component] / self.scale
        return axis / np.linalg.norm(axis)


def pca(points: np.ndarray, standardise: bool = False, axes: bool = True) -> Components:
    """Principal components of points (N, D), each channel centred.

    Args:
        standardise: divide each channel by its standard deviation; one that never changes counts for nothing.
        axes: find the components themselves; their shares alone take a third of the time.
    Raises:
        ValueError: for fewer than 3 points, or if all are the same.
    """
    x = np.asarray(points, dtype=np.float64)
    if x.ndim != 2 or len(x) < 3:
        raise ValueError(f"points have shape {x.shape}: at least 3 are needed, (N, D)")
    mean, scale = x.mean(0), np.ones(x.shape[1])
    if standardise:
        spread = x.std(0)
        scale = np.where(spread > 1e-12 * max(1.0, float(spread.max())), spread, 1.0)
    sizes, found = _axes((x - mean) / scale, axes)
    if not sizes[0] > 0:
        raise ValueError("all points are the same: there are no components")
    largest = np.take_along_axis(found, np.abs(found).argmax(1)[:, None], 1) if len(found) else np.ones((0, 1))
    return Components(sizes / sizes.sum(), found * np.sign(largest), mean, scale)


def _axes(centred: np.ndarray, axes: bool) -> tuple[np.ndarray, np.ndarray]:
    """Sums of squares on the principal axes, largest first, and the axes (none if not asked for)."""
    if len(centred) > centred.shape[1]:  # then the covariance is the smaller matrix, and far quicker
        if not axes:
            return np.maximum(np.linalg.eigvalsh(centred.T @ centred)[::-1], 0), centred[:0]
        sizes, found = np.linalg.eigh(centred.T @ centred)
        return np.maximum(sizes[::-1], 0), found.T[::-1]
    if not axes:
        return np.square(np.linalg.svd(centred, compute_uv=False)), centred[:0]
    _, lengths, found = np.linalg.svd(centred, full_matrices=False)
    return np.square(lengths), found


def matched_gaussian(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """As many points of a Gaussian with the mean and the covariance of points (N, D): a cloud of one lump."""
    centred = points - points.mean(0)
    _, lengths, axes = np.linalg.svd(centred, full_matrices=False)
    return points.mean(0) + rng.normal(size=(len(points), len(axes))) * lengths / np.sqrt(len(points) - 1) @ axes
