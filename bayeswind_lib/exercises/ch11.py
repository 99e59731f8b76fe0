"""Checks for chapter 11, "Stage three: precision".

Every check states properties and tries them on random instances. What an answer is compared with
is a spectrum worked out numerically, a list of all subsets, or built so that it is known.

Axes: N points, D channels, S sequences, K positions.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from bayeswind_lib.exercises.core import Report, grade

# --- the first axis of a walk ------------------------------------------------------------------


def check_first_share(answer) -> Report:
    """Grade `my_first_share(n_points)`: the expected share of a walk's first axis."""

    def spectrum():
        for K in (3, 5, 10, 19, 64):
            got, sizes = float(answer(K)), _sizes(np.minimum, K)
            want = sizes[0] / sizes.sum()
            if not abs(got - want) < 1e-9:
                return _slip_of_share(got, sizes, K)
        return None

    def two_points():
        got = float(answer(2))
        return None if abs(got - 1) < 1e-9 else f"two points lie on a line: their share is 1, you say {got:.4g}"

    def far():
        got = float(answer(5000))
        return None if abs(got - 6 / math.pi**2) < 1e-3 else f"5000 points are close to the limit, you say {got:.4g}"

    return grade("my_first_share", [spectrum, two_points, far])


def _sizes(kernel, K: int, centred: bool = True) -> np.ndarray:
    """Eigenvalues, largest first, of the points of one sequence with such a covariance."""
    places = np.arange(1.0, K + 1)
    covariance = kernel.outer(places, places)
    centre = np.eye(K) - centred / K
    return np.sort(np.linalg.eigvalsh(centre @ covariance @ centre))[::-1]


def _slip_of_share(got: float, sizes: np.ndarray, K: int) -> str:
    said = f"{K} points: you say {got:.5f}, the first eigenvalue has {sizes[0] / sizes.sum():.5f} of their sum"
    whole = _sizes(np.minimum, K, centred=False)
    if abs(got - 6 / math.pi**2) < 1e-9:
        return f"{said}: yours is the limit of very many points"
    if abs(got - whole[0] / whole.sum()) < 1e-9:
        return f"{said}: you left the mean in: principal axes are those of the points less their mean"
    if K > 3 and abs(got - sizes[1] / sizes.sum()) < 1e-9:
        return f"{said}: yours is the second axis"
    if abs(got - sizes[0]) < 1e-9:
        return f"{said}: yours is the eigenvalue itself, a share is divided by the sum of all"
    if abs(got - math.sqrt(sizes[0]) / np.sqrt(np.maximum(sizes, 0)).sum()) < 1e-6:
        return f"{said}: you add standard deviations, a share is one of variances: the sine is squared"
    return said


# --- an average --------------------------------------------------------------------------------


def check_average(answer) -> Report:
    """Grade `my_average(n_points)`: covariance (K, K) of running means of independent vectors."""

    def sampled():
        for K in (2, 4, 7):
            got = np.asarray(answer(K), dtype=float)
            if got.shape != (K, K):
                return f"{K} points have a covariance of shape {(K, K)}, yours has {got.shape}"
            places = np.arange(1.0, K + 1)
            weights = np.tril(np.ones((K, K))) / places[:, None]  # row k: the weights of the k-th mean
            want = weights @ weights.T
            if not np.abs(got - want).max() < 1e-9:
                return _slip_of_average(got, want, places)
        return None

    return grade("my_average", [sampled])


def _slip_of_average(got: np.ndarray, want: np.ndarray, places: np.ndarray) -> str:
    K = len(places)
    said = f"{K} points: between the first mean and the last the covariance is {want[0, -1]:.4f}, you say {got[0, -1]:.4f}"
    low = np.minimum.outer(places, places)
    if np.abs(got - low).max() < 1e-9:
        return f"{said}: yours is that of sums: divide each by how many vectors are in it"
    if np.abs(got - 1 / low).max() < 1e-9:
        return f"{said}: the two means share the vectors of the *shorter* one, and both lengths divide"
    if np.abs(got - np.diag(1 / places)).max() < 1e-9:
        return f"{said}: means of overlapping vectors are not independent"
    centre = np.eye(K) - 1 / K
    if np.abs(got - centre @ want @ centre).max() < 1e-9:
        return f"{said}: you took the mean over positions off already: give the covariance as it is"
    return said


# --- a list of marks ---------------------------------------------------------------------------


def check_count_share(answer) -> Report:
    """Grade `my_count_share(n_values, n_pairs)`: the part of the marks' variance along the ones."""

    def enumerated():
        for V, K in ((5, 5), (6, 4), (7, 2)):
            got, (along, whole) = float(answer(V, K)), _marks(V, K)
            if not abs(got - along / whole) < 1e-9:
                return _slip_of_count(got, along, whole, V, K)
        return None

    def published():
        got = float(answer(20, 20))
        return None if abs(got - 1 / 3) < 1e-9 else f"20 values, 20 pairs: the theorem says a third, you say {got:.4f}"

    return grade("my_count_share", [enumerated, published])


def _marks(V: int, K: int) -> tuple[float, float]:
    """Variance along the ones, and in all, over all sets of k used values, k = 0 .. K - 1."""
    rows, weights = [], []
    for k in range(K):
        sets = list(combinations(range(V), k))
        for chosen in sets:
            rows.append(np.isin(np.arange(V), chosen).astype(float))
            weights.append(1 / K / len(sets))
    marks, weight = np.array(rows), np.array(weights)
    centred = marks - weight @ marks
    along = weight @ (centred.sum(1) / math.sqrt(V)) ** 2
    return float(along), float(weight @ (centred**2).sum(1))


def _slip_of_count(got: float, along: float, whole: float, V: int, K: int) -> str:
    said = f"{V} values, {K} pairs, all sets counted: {along / whole:.5f} of the variance, you say {got:.5f}"
    if abs(got - 1 / 3) < 1e-9:
        return f"{said}: a third is right if all values are shown: here {K} of {V} are"
    if abs(got - along / (whole - along)) < 1e-9:
        return f"{said}: you divide by the variance within positions, a share is one of the sum"
    if abs(got - V * along / (V * along + whole - along)) < 1e-9:
        return f"{said}: the direction of ones has length 1, so the coordinate is k over the root of V"
    if abs(got - (1 - along / whole)) < 1e-9:
        return f"{said}: yours is the rest, within positions"
    one = V * along * K / (K - 1) / V
    if abs(got - one / (one + whole - along)) < 1e-9:
        return f"{said}: the variance of k over all positions is divided by {K}, not by {K - 1}"
    return said


# --- at fixed position -------------------------------------------------------------------------


def check_fixed(answer) -> Report:
    """Grade `my_fixed(x, h)`: |correlation| of (S, K) numbers after their means at each position."""
    rng = np.random.default_rng(3)

    def known():
        for sign in (1, -1):
            h = np.arange(8.0) + rng.normal(size=(50, 8))
            x = sign * h + 2 * rng.normal(size=(50, 8)) - 7 * np.arange(8.0) + 3 * rng.normal(size=(50, 1))
            hint = _slip_of_fixed(float(answer(x.copy(), h.copy())), x, h)
            if hint:
                return hint
        return None

    return grade("my_fixed", [known])


def _slip_of_fixed(got: float, x: np.ndarray, h: np.ndarray):
    rest = [part - part.mean(0) for part in (x, h)]
    signed = np.corrcoef(rest[0].ravel(), rest[1].ravel())[0, 1]
    if abs(got - abs(signed)) < 1e-9:
        return None
    said = f"you say {got:.4f}, after the means at each position it is {abs(signed):.4f}"
    if abs(got - signed) < 1e-9:
        return f"{said}: an axis has no sign: give the size"
    if abs(got - abs(np.corrcoef(x.ravel(), h.ravel())[0, 1])) < 1e-9:
        return f"{said}: two clocks go together whatever else they do: take the means at each position off first"
    half = abs(np.corrcoef(rest[0].ravel(), h.ravel())[0, 1])
    if abs(got - half) < 1e-9:
        return f"{said}: h, too, loses its means, or the clock stays in its variance"
    across = [part - part.mean(1, keepdims=True) for part in (x, h)]
    if abs(got - abs(np.corrcoef(across[0].ravel(), across[1].ravel())[0, 1])) < 1e-9:
        return f"{said}: you took the mean of each sequence; a position is a column"
    if abs(got - signed**2) < 1e-9:
        return f"{said}: yours is the square of it"
    return said


# --- erasing a number --------------------------------------------------------------------------


def check_erase(answer) -> Report:
    """Grade `my_erase(x, h)`: filter and pattern, (D,) each, that erase h from points (N, D)."""

    def run():
        for seed in range(2):
            x, h = _points(seed)
            out = answer(x.copy(), h.copy())
            if not isinstance(out, tuple | list) or len(out) != 2:
                return "return two vectors: the filter (what to multiply with) and the pattern (what to subtract)"
            w, a = (np.asarray(part, dtype=float) for part in out)
            if w.shape != (x.shape[1],) or a.shape != (x.shape[1],):
                return f"filter and pattern have shapes {w.shape} and {a.shape}, expected {(x.shape[1],)} each"
            hint = _slip_of_erase(w, a, x, h)
            if hint:
                return hint
        return None

    return grade("my_erase", [run])


def _points(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    h = rng.normal(size=500) + 4
    mix = rng.normal(size=(5, 5)) * [3, 1, 0.5, 2, 0.1]
    return np.outer(h, rng.normal(size=5)) + rng.normal(size=(500, 5)) @ mix + 10, h


def _slip_of_erase(w: np.ndarray, a: np.ndarray, x: np.ndarray, h: np.ndarray):
    centred, number = x - x.mean(0), h - h.mean()
    C, b = centred.T @ centred / len(x), centred.T @ number / len(x)
    best = np.linalg.solve(C, b)
    least = float(b @ b / (b @ best))  # mean squared distance that the smallest erasure moves
    after = centred - np.outer(centred @ w, a)
    left = np.abs(after.T @ number / len(x)).max() / np.abs(b).max()
    moved = float((np.outer(centred @ w, a) ** 2).sum(1).mean())
    if left < 1e-6 and moved < 1.0001 * least:
        return None
    said = f"of the covariance with h {100 * left:.3g} % is left (at most, over the channels)"
    if left < 1e-6:
        return (
            f"h is erased, but the points move by {moved:.4g} (mean square) where {least:.4g} is enough: "
            "read with the filter of least squares, which sees less of everything else"
        )
    if np.abs(w - a).max() < 1e-9 and abs(w @ best) > 0.999 * np.linalg.norm(w) * np.linalg.norm(best):
        return f"{said}: you take out the direction that reads; subtract the pattern, how the points move with h"
    if np.abs(a - b).max() < 1e-6 * np.abs(b).max() and np.abs(w - best).max() < 1e-6 * np.abs(best).max():
        return f"{said}: the directions are right; the pattern has to be divided by b . w"
    raw = np.linalg.solve(x.T @ x / len(x), x.T @ h / len(x))
    if w.any() and abs(w @ raw) > (1 - 1e-9) * np.linalg.norm(w) * np.linalg.norm(raw):
        return f"{said}: take the means off before covariances are formed"
    return f"{said}: x - ((x - mean) @ filter) pattern has to have none"


# --- the margin --------------------------------------------------------------------------------


def check_margin(answer) -> Report:
    """Grade `my_margin(n_possible, n_values, bits)`: nats between possible and impossible logits."""

    def back():
        for n, V, bits in ((10, 20, 0.01), (1, 20, 0.001), (19, 20, 0.001), (3, 5, 1.0)):
            got = float(answer(n, V, bits))
            reached = math.log2(1 + (V - n) / n * math.exp(min(-got, 700)))
            if not abs(reached / bits - 1) < 1e-6:
                return _slip_of_margin(got, n, V, bits, reached)
        return None

    return grade("my_margin", [back])


def _slip_of_margin(got: float, n: int, V: int, bits: float, reached: float) -> str:
    want = math.log((V - n) / n) - math.log(2**bits - 1)
    said = f"{n} of {V} possible, {bits} bits: your margin {got:.4f} has {reached:.4g} bits"
    tried = (
        (want / math.log(2), "you counted it in bits: logits are in nats"),
        (-math.log(2**bits - 1), "how many impossible values share the leak, and how many the rest?"),
        (math.log(n / (V - n)) - math.log(2**bits - 1), "possible and impossible are exchanged"),
        (math.log((V - n) / n) - math.log(bits), "for small divergences 2^bits - 1 is bits times ln 2, not bits"),
        (math.log(V / n) - math.log(2**bits - 1), "only the impossible values leak, not all of them"),
        (-want, "the sign: possible values have the higher logit"),
    )
    for value, words in tried:
        if abs(got - value) < 1e-9:
            return f"{said}: {words}"
    return said
