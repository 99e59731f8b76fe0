"""Checks for chapter 13, "Belief geometry".

What an answer is compared with is sampled and counted, enumerated over all paths of states, or
follows from what the answer must satisfy (the conditions of the nearest point).

Axes: D channels, K steps, N points, S states, V symbols.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from bayeswind_lib.exercises.core import Report, grade

# --- the shares of an image ----------------------------------------------------------------------


def check_shares(answer) -> Report:
    """Grade `my_shares(A)`: shares of the variance of A alpha + c for a symmetric belief alpha."""
    rng = np.random.default_rng(0)
    maps = [rng.normal(size=(D, S)) + shift for D, S, shift in ((6, 3, 0.0), (4, 5, 0.0), (8, 4, 5.0))]

    def itself():
        for S in (3, 5):
            got = _said(answer, np.eye(S))
            if len(got) < S - 1:
                return f"for {S} states you give {len(got)} shares, at least {S - 1} were asked for"
            if abs(got[:S] - 1 / S).max() < 1e-6 and len(got) >= S:
                return f"for A = I you say that all {S} axes are equal: beliefs sum to 1, so one of them has no variance"
            if not abs(got[: S - 1] - 1 / (S - 1)).max() < 1e-6:
                return f"for A = I and {S} states there are {S - 1} equal axes, you say {np.round(got, 3).tolist()}"
        return None

    def sums():
        got = _said(answer, maps[0])
        if not abs(got.sum() - 1) < 1e-6:
            return f"shares sum to 1, yours to {got.sum():.4g}"
        return None if (np.diff(got) <= 1e-9).all() else "give the largest share first"

    def any_map():
        for A in maps:
            got, want = _said(answer, A), sampled_shares(A)
            S = A.shape[1]
            if not abs(got[: S - 1] - want[: S - 1]).max() < 0.02 or abs(got[S - 1 :]).sum() > 1e-6:
                return _slip_of_shares(got, want, A)
        return None

    return grade("my_shares", [itself, sums, any_map])


def _said(answer, *given) -> np.ndarray:
    return np.asarray(answer(*(np.array(x) for x in given)), dtype=np.float64)


def sampled_shares(A: np.ndarray, n: int = 60_000) -> np.ndarray:
    """The shares, from many beliefs drawn from a flat Dirichlet, which is symmetric."""
    x = np.random.default_rng(1).dirichlet(np.ones(A.shape[1]), n) @ A.T
    variance = np.linalg.eigvalsh(np.cov(x.T))[::-1]
    shares = np.maximum(variance, 0) / variance.sum()
    return np.append(shares, np.zeros(max(A.shape[1] - len(shares), 0)))


def _slip_of_shares(got, want, A):
    S = A.shape[1]

    def near(squares):
        shares = np.sort(squares)[::-1] / squares.sum()
        n = min(len(shares), len(got))
        return abs(got[:n] - shares[:n]).max() < 1e-6

    inner = np.linalg.svd(A - A.mean(1, keepdims=True), compute_uv=False)
    if near(np.linalg.svd(A, compute_uv=False) ** 2):
        return "you take the singular values of A itself: the direction in which all beliefs rise together has no variance"
    if near(inner):
        return "shares of the *variance* are squares of singular values"
    if near(np.linalg.svd(A - A.mean(0), compute_uv=False) ** 2):
        return "you take the mean of each column away: it is states, the columns, over which each row has to be centred"
    said = np.round(got[: S - 1], 3).tolist()
    return f"for a map to {len(A)} channels, {len(want)} shares sampled from beliefs are {np.round(want[: S - 1], 3).tolist()}, you say {said}"


# --- the memory in a belief ----------------------------------------------------------------------


def check_memory(answer) -> Report:
    """Grade `my_memory(T, E, symbols)`: log ratios of the belief less those of stationary x emission, (K, S)."""
    cases = [_chain(seed, S, V, K) for seed, S, V, K in ((0, 3, 3, 6), (1, 2, 4, 5), (2, 4, 2, 5))]

    def shape():
        T, E, symbols = cases[0]
        got = _said(answer, T, E, symbols)
        return None if got.shape == (6, 3) else f"6 symbols and 3 states give (6, 3), yours has shape {got.shape}"

    def nothing_to_remember():
        T = np.full((3, 3), 1 / 3)
        got = _said(answer, T, cases[0][1], cases[0][2])
        return None if abs(got).max() < 1e-9 else (
            f"if every state follows every other one alike, there is nothing to remember: 0, you say up to {abs(got).max():.3g}"
        )

    def sums():
        got = _said(answer, *cases[1])
        return None if abs(got.sum(-1)).max() < 1e-9 else "log ratios have mean 0 over states, yours have not: take the mean away"

    def all_paths():
        for T, E, symbols in cases:
            got, want = _said(answer, T, E, symbols), memory_by_paths(T, E, symbols)
            if not abs(got - want).max() < 1e-8:
                return _slip_of_memory(got, want, T, E, symbols)
        return None

    return grade("my_memory", [shape, nothing_to_remember, sums, all_paths])


def _chain(seed: int, S: int, V: int, K: int):
    rng = np.random.default_rng(seed)
    T, E = (rng.dirichlet(np.ones(n), S) * 0.8 + 0.2 / n for n in (S, V))
    return T, E, rng.integers(V, size=K)


def share_of(T: np.ndarray) -> np.ndarray:
    """Long-run shares: how often a chain is where, on average over very many moves."""
    return np.linalg.matrix_power(T, 10_000).mean(0)


def belief_by_paths(T, E, symbols, moved_first=False) -> np.ndarray:
    """The exact belief at every step, as a share of all paths of states: (K, S)."""
    S, rows = len(T), []
    first = T.mean(0) if moved_first else np.full(S, 1 / S)
    for k in range(1, len(symbols) + 1):
        weight = np.zeros(S)
        for path in product(range(S), repeat=k):
            p = first[path[0]] * E[path[0], symbols[0]]
            for t in range(1, k):
                p *= T[path[t - 1], path[t]] * E[path[t], symbols[t]]
            weight[path[-1]] += p
        rows.append(weight / weight.sum())
    return np.array(rows)


def _alone(prior, E, symbols) -> np.ndarray:
    weight = prior * E.T[symbols]
    return weight / weight.sum(-1, keepdims=True)


def memory_by_paths(T, E, symbols) -> np.ndarray:
    """Belief by enumeration, less the long-run shares corrected by each symbol, in log ratios: (K, S)."""
    return ratios(belief_by_paths(T, E, symbols)) - ratios(_alone(share_of(T), E, symbols))


def ratios(p: np.ndarray) -> np.ndarray:
    """Log ratios, natural logarithms: (..., S) -> (..., S)."""
    return np.log(p) - np.log(p).mean(-1, keepdims=True)


def _slip_of_memory(got, want, T, E, symbols):
    S, exact, share = len(T), belief_by_paths(T, E, symbols), share_of(T)
    even = np.full(S, 1 / S)
    alone, columns = _alone(share, E, symbols), np.array(_columns_of(T, E, symbols))
    tried = (
        (ratios(exact), "these are the log ratios of the belief itself: take away what the symbol says alone"),
        (exact - alone, "this is a difference of probabilities: take log ratios"),
        (-want, "the sign is turned round: the carried belief over the long-run shares"),
        (want / np.log(2), "natural logarithms were asked for, yours are to base 2"),
        (ratios(exact) - ratios(share), "the current symbol is still in it: it is the *carried* belief that is compared with the shares"),
        (ratios(exact) - ratios(_alone(even, E, symbols)), "you divide by even shares: the long-run shares are those that T keeps"),
        (ratios(belief_by_paths(T, E, symbols, True)) - ratios(alone), "your chain moves before the first symbol"),
        (ratios(columns) - ratios(alone), "you use T by columns: T[i, j] goes from i to j"),
    )
    for wrong, words in tried:
        if abs(got - wrong).max() < 1e-6:
            return words
    at = np.unravel_index(abs(got - want).argmax(), want.shape)
    return f"step {at[0] + 1}, state {at[1]}: counted over all paths it is {want[at]:.4f}, you say {got[at]:.4f}"


def _columns_of(T, E, symbols):
    belief, rows = np.full(len(T), 1 / len(T)), []
    for t, o in enumerate(symbols):
        belief = (T @ belief if t else belief) * E[:, o]
        belief = belief / belief.sum()
        rows.append(belief)
    return rows


# --- onto the simplex ----------------------------------------------------------------------------


def check_nearest(answer) -> Report:
    """Grade `my_nearest(x)`: the distribution nearest to x (S,) in Euclidean distance."""
    rng = np.random.default_rng(3)
    tried = [rng.normal(size=S) * size for S, size in ((3, 0.5), (3, 2.0), (5, 1.0), (8, 0.3))]

    def a_distribution():
        for x in tried:
            got = _said(answer, x)
            if got.shape != x.shape:
                return f"the result has shape {got.shape}, expected {x.shape}"
            if got.min() < -1e-9 or not abs(got.sum() - 1) < 1e-6:
                return f"from {np.round(x, 2).tolist()} you get {np.round(got, 3).tolist()}, which is no distribution"
        return None

    def stays():
        p = rng.dirichlet(np.ones(4))
        return None if abs(_said(answer, p) - p).max() < 1e-6 else "a distribution is its own nearest one, yours moves it"

    def nearest():
        for x in tried:
            got = _said(answer, x)
            if not _is_nearest(x, got):
                return _slip_of_nearest(x, got)
        return None

    return grade("my_nearest", [a_distribution, stays, nearest])


def _is_nearest(x: np.ndarray, p: np.ndarray) -> bool:
    """The conditions of the minimum: the same gap where p is positive, no larger one where it is 0."""
    gap = x - p
    held = gap[p > 1e-7]
    return bool(np.ptp(held) < 1e-5 and (gap <= held.max() + 1e-5).all())


def _slip_of_nearest(x, got):
    cut = np.maximum(x, 0)
    if cut.sum() > 0 and abs(got - cut / cut.sum()).max() < 1e-6:
        return "you cut off what is negative and divide by the sum: that is a distribution, and not the nearest one"
    soft = np.exp(x - x.max())
    if abs(got - soft / soft.sum()).max() < 1e-6:
        return "this is a softmax: it moves even a distribution, and rounds every corner"
    once = np.maximum(x - (x.sum() - 1) / len(x), 0)
    if abs(got - once / once.sum()).max() < 1e-6:
        return "you move along (1, ..., 1) once and divide by the sum: what becomes negative must stay at 0, the others move on"
    if abs(got - np.eye(len(x))[x.argmax()]).max() < 1e-6:
        return "a corner is nearest only if x lies far out beyond it"
    return (
        f"from {np.round(x, 2).tolist()} you get {np.round(got, 3).tolist()}: where the nearest point is positive, "
        "x is above it by one and the same number"
    )


# --- silhouettes ---------------------------------------------------------------------------------


def check_silhouette(answer) -> Report:
    """Grade `my_silhouette(points, labels)`: the mean silhouette of points (N, D)."""
    rng = np.random.default_rng(4)
    cases = []
    for sizes, D in (((5, 9, 7), 2), ((4, 12), 3), ((6, 6, 6, 10), 2)):
        labels = np.repeat(np.arange(len(sizes)), sizes)
        cases.append((rng.normal(size=(len(labels), D)) + 1.5 * rng.normal(size=(len(sizes), D))[labels], labels))

    def far_apart():
        points = np.array([[0.0, 0], [0, 0.001], [9, 0], [9, 0.001]])
        got = float(answer(points, np.array([0, 0, 1, 1])))
        if abs(got + 1) < 0.01:
            return "two pairs far apart score 1, you say -1: it is b - a, the other cluster's distance less one's own"
        return None if abs(got - 1) < 0.01 else f"two pairs far apart score about 1, you say {got:.3f}"

    def any_points():
        from sklearn.metrics import silhouette_score

        for points, labels in cases:
            got, want = float(answer(points.copy(), labels.copy())), float(silhouette_score(points, labels))
            if not abs(got - want) < 1e-6:
                return _slip_of_silhouette(got, want, points, labels)
        return None

    def other_names():
        points, labels = cases[0]
        one, other = float(answer(points.copy(), labels.copy())), float(answer(points.copy(), 7 - 3 * labels))
        return None if abs(one - other) < 1e-9 else "clusters may have any numbers as names: yours depends on them"

    return grade("my_silhouette", [far_apart, any_points, other_names])


def silhouette_like(points, labels, own_too=False, pick=np.min, squares=False, by_cluster=False, plain=False):
    """The mean silhouette, or one with a usual mistake in it."""
    labels = np.asarray(labels)
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    distance = distance**2 if squares else distance
    scores = []
    for i, own in enumerate(labels):
        n = (labels == own).sum()
        a = distance[i, labels == own].sum() / (n if own_too else n - 1)
        b = pick([distance[i, labels == c].mean() for c in np.unique(labels) if c != own])
        scores.append(b - a if plain else (b - a) / max(a, b))
    scores = np.array(scores)
    return float(np.mean([scores[labels == c].mean() for c in np.unique(labels)]) if by_cluster else scores.mean())


def _slip_of_silhouette(got, want, points, labels):
    tried = (
        ({"own_too": True}, "you count the point itself among its cluster: a is the mean over the *others*"),
        ({"pick": np.mean}, "b is the distance to the nearest other cluster, you take the mean over all of them"),
        ({"pick": np.max}, "b is the distance to the nearest other cluster, you take the farthest"),
        ({"squares": True}, "you use squared distances"),
        ({"by_cluster": True}, "it is the mean over points: you take the mean over clusters of their means"),
        ({"plain": True}, "divide b - a by the larger of the two"),
    )
    for change, words in tried:
        if abs(got - silhouette_like(points, labels, **change)) < 1e-9:
            return words
    return f"{len(points)} points in {len(np.unique(labels))} clusters score {want:.4f}, you say {got:.4f}"


# --- the error of a reading in bits --------------------------------------------------------------


def check_bits(answer) -> Report:
    """Grade `my_bits(belief, ratios)`: mean KL, bits, of beliefs (N, S) from readings (N, S) of their log ratios."""
    rng = np.random.default_rng(5)
    belief = rng.dirichlet(np.ones(4), 40)
    ratios = np.log(belief) - np.log(belief).mean(-1, keepdims=True)
    off = ratios + 0.4 * rng.normal(size=ratios.shape)

    def says(p, x):
        return float(answer(p.copy(), x.copy()))

    def a_perfect_reading():
        got = says(belief, ratios)
        return None if abs(got) < 1e-9 else f"readings that are exact have no error, you say {got:.4g} bits"

    def an_even_reading():
        got = says(belief, np.zeros_like(ratios))
        want = 2 + float((belief * np.log2(belief)).sum(-1).mean())  # log2 4 less the mean entropy
        if abs(got - want) < 1e-9:
            return None
        return _slip_of_bits(got, belief, np.zeros_like(ratios)) or f"readings of 0 are even beliefs, {want:.4f} bits off; you say {got:.4f}"

    def any_reading():
        got, want = says(belief, off), bits_of(belief, off)
        if abs(got - want) < 1e-9:
            return None
        return _slip_of_bits(got, belief, off) or f"{len(belief)} readings are {want:.4f} bits off on average, you say {got:.4f}"

    def a_constant():
        one, other = says(belief, off), says(belief, off + 3 * rng.normal(size=(len(off), 1)))
        return None if abs(one - other) < 1e-9 else "a constant added to all log ratios of a row changes no belief, but your answer"

    def far_out():
        got = says(np.array([[1.0, 0, 0]]), np.array([[2000.0, 0, -2000]]))
        return None if abs(got) < 1e-9 else (
            f"a certain belief, read as certain, is 0 bits off, you say {got}: take the largest log ratio of a row "
            "away first, and count 0 log 0 as 0"
        )

    return grade("my_bits", [a_perfect_reading, an_even_reading, any_reading, a_constant, far_out])


def softmax(x: np.ndarray) -> np.ndarray:
    """Distributions from log ratios, row by row."""
    weight = np.exp(x - x.max(-1, keepdims=True))
    return weight / weight.sum(-1, keepdims=True)


def bits_of(p: np.ndarray, x: np.ndarray) -> float:
    """Mean over rows of sum_i p_i log2(p_i / q_i), for p without zeros."""
    return float((p * np.log2(p / softmax(x))).sum(-1).mean())


def _slip_of_bits(got, p, x):
    q = softmax(x)
    tried = (
        (bits_of(p, x) * np.log(2), "this is the error in nats: use logarithms to base 2"),
        (bits_of(p, x) * len(p), "you sum over rows: it is a mean"),
        (float((q * np.log2(q / p)).sum(-1).mean()), "the weights are the exact beliefs': you weigh by the reading"),
        (float(-(p * np.log2(q)).sum(-1).mean()), "this is a cross-entropy: the entropy of the exact beliefs is still in it"),
        (bits_of(p, x * np.log(2)), "log ratios are natural logarithms here: you raise 2 to them"),
    )
    return next((words for value, words in tried if abs(got - value) < 1e-9), None)


# --- a lump of the same covariance ---------------------------------------------------------------


def check_lump(answer) -> Report:
    """Grade `my_lump(points, rng)`: a Gaussian cloud with the mean and covariance of points (N, D)."""
    draw = np.random.default_rng(6)
    points = draw.normal(size=(6000, 3)) * np.array([1.5, 0.3, 0.3]) + np.array([7.0, 0, -2])
    points[:, 1] += 3 * draw.integers(2, size=len(points)) + 0.8 * points[:, 0]  # two blobs, and slanted

    def made(seed=0):
        return np.asarray(answer(points.copy(), np.random.default_rng(seed)), dtype=np.float64)

    def shape():
        got = made()
        return None if got.shape == points.shape else f"as many points were asked for: shape {points.shape}, yours is {got.shape}"

    def fresh():
        got = made()
        if np.isin(got[:, 0].round(9), points[:, 0].round(9)).mean() > 0.5:
            return "your points are the old ones in another order: draw new ones"
        return None if not np.allclose(got, made(1)) else "another generator gives the same points: draw from `rng`"

    def moments():
        got = made()
        if abs(got.mean(0) - points.mean(0)).max() > 0.15:
            return f"the mean should be {np.round(points.mean(0), 2).tolist()}, yours is {np.round(got.mean(0), 2).tolist()}"
        have, want = np.cov(got.T), np.cov(points.T)
        if abs(have - want).max() > 0.06 * want.max():
            return _slip_of_lump(have, want)
        return None

    def one_lump():
        got = made()
        along = (got[:, 1] - got[:, 1].mean()) / got[:, 1].std()
        near = float((abs(along) < 0.5).mean())  # 0.38 for a Gaussian
        return None if abs(near - 0.383) < 0.05 else (
            f"mean and covariance are right, but it is no Gaussian: {100 * near:.0f} of 100 points lie within half a "
            "standard deviation of the mean, 38 would"
        )

    return grade("my_lump", [shape, fresh, moments, one_lump])


def _slip_of_lump(have, want):
    if abs(have - np.diag(np.diag(want))).max() < 0.06 * want.max():
        return "the variances are right and the covariances are 0: your cloud does not slant as the points do"
    if abs(have - want @ want).max() < 0.06 * (want @ want).max():
        return "you multiply by the covariance matrix itself: it takes a square root of it"
    if abs(have - np.eye(len(want))).max() < 0.1:
        return "your points have variance 1 in every direction"
    if abs(have - np.eye(len(want)) * np.trace(want) / len(want)).max() < 0.06 * want.max():
        return "the variance is right in sum, and the same in all directions: shape it"
    return f"the covariance should be {np.round(want, 2).tolist()}, yours is {np.round(have, 2).tolist()}"
