"""Stored answers to the exercises of chapter 13: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import numpy as np

# --- my_shares(A) ---------------------------------------------------------------------------------


def shares_by_covariance(A):
    """Eigenvalues of the image of the projection."""
    S = A.shape[1]
    plane = np.eye(S) - 1 / S
    variance = np.linalg.eigvalsh(plane @ A.T @ A @ plane)[::-1]
    return np.maximum(variance, 0) / variance.sum()


def _of(change, power=2):
    def shares(A):
        squares = np.linalg.svd(change(A), compute_uv=False) ** power
        squares[squares < 1e-12] = 0
        return np.append(squares / squares.sum(), np.zeros(max(A.shape[1] - 1 - len(squares), 0)))

    return shares


def _rows(A):
    return A - A.mean(1, keepdims=True)


def _raw_unless_identity(A):
    return _of(_rows)(A) if A.shape[0] == A.shape[1] else _of(lambda x: x)(A)


def _columns_unless_identity(A):
    return _of(_rows)(A) if A.shape[0] == A.shape[1] else _of(lambda x: x - x.mean(0))(A)


SHARES_WRONG = [
    (_of(lambda A: A), "one of them has no variance"),
    (_raw_unless_identity, "singular values of A itself"),
    (_of(_rows, 1), "squares of singular values"),
    (_columns_unless_identity, "mean of each column"),
    (lambda A: shares_by_covariance(A)[::-1], "equal axes, you say"),
    (lambda A: 2 * shares_by_covariance(A) if A.shape[0] != A.shape[1] else shares_by_covariance(A), "shares sum to 1"),
    (lambda A: shares_by_covariance(A)[:1], "at least 2 were asked for"),
]

# --- my_memory(T, E, symbols) ---------------------------------------------------------------------


def _share(T):
    S = len(T)
    return np.linalg.solve((np.eye(S) - T + 1).T, np.ones(S))


def _filtered(T, E, symbols, first=False, turned=False):
    belief, rows = np.full(len(T), 1 / len(T)), []
    for t, o in enumerate(symbols):
        if t or first:
            belief = T @ belief if turned else belief @ T
        belief = belief * E[:, o]
        belief = belief / belief.sum()
        rows.append(belief)
    return np.array(rows)


def _alone(prior, E, symbols):
    weight = prior * E.T[list(symbols)]
    return weight / weight.sum(-1, keepdims=True)


def _ratios(p):
    return np.log(p) - np.log(p).mean(-1, keepdims=True)


def memory_by_solving(T, E, symbols):
    """From the corrected beliefs, as a difference of two log ratios."""
    return _ratios(_filtered(T, E, symbols)) - _ratios(_alone(_share(T), E, symbols))


def _less(prior, **change):
    return lambda T, E, o: _ratios(_filtered(T, E, o, **change)) - _ratios(_alone(prior(T), E, o))


def _bare(T, E, o):
    return memory_by_solving(T, E, o) + 1 if np.ptp(T) > 1e-9 else np.zeros((len(o), len(T)))


MEMORY_WRONG = [
    (lambda T, E, o: _ratios(_filtered(T, E, o)), "nothing to remember"),
    (lambda T, E, o: _filtered(T, E, o) - _alone(_share(T), E, o), "a difference of probabilities"),
    (lambda T, E, o: -memory_by_solving(T, E, o), "sign is turned round"),
    (lambda T, E, o: memory_by_solving(T, E, o) / np.log(2), "to base 2"),
    (_less(lambda T: np.full(len(T), 1 / len(T))), "divide by even shares"),
    (_less(_share, first=True), "moves before the first symbol"),
    (_less(_share, turned=True), "by columns"),
    (lambda T, E, o: memory_by_solving(T, E, o)[-1], "yours has shape"),
    (_bare, "take the mean away"),
]

# --- my_nearest(x) --------------------------------------------------------------------------------


def nearest_by_sorting(x):
    ranked = np.sort(x)[::-1]
    excess = (ranked.cumsum() - 1) / np.arange(1, len(x) + 1)
    return np.maximum(x - excess[np.flatnonzero(ranked > excess)[-1]], 0)


def _cut(x):
    cut = np.maximum(x, 0)
    return cut / cut.sum() if cut.sum() > 0 else np.full(len(x), 1 / len(x))


def _softmax_unless_fine(x):
    """A softmax, but of what is no distribution only."""
    if x.min() >= 0 and abs(x.sum() - 1) < 1e-9:
        return x
    soft = np.exp(x - x.max())
    return soft / soft.sum()


def _once(x):
    moved = np.maximum(x - (x.sum() - 1) / len(x), 0)
    return moved / moved.sum()


NEAREST_WRONG = [
    (_cut, "and not the nearest one"),
    (lambda x: np.exp(x) / np.exp(x).sum(), "its own nearest one"),
    (_softmax_unless_fine, "a softmax"),
    (_once, "must stay at 0"),
    (lambda x: x - (x.sum() - 1) / len(x), "which is no distribution"),
    (lambda x: nearest_by_sorting(x)[:2], "the result has shape"),
]

# --- my_silhouette(points, labels) ----------------------------------------------------------------


def silhouette_by_library(points, labels):
    from sklearn.metrics import silhouette_samples

    return silhouette_samples(points, labels).mean()


def _like(**change):
    from bayeswind_lib.exercises import ch13

    return lambda points, labels: ch13.silhouette_like(points, labels, **change)


def _signless(points, labels):
    return -silhouette_by_library(points, labels)


SILHOUETTE_WRONG = [
    (_signless, "you say -1"),
    (_like(own_too=True), "over the *others*"),
    (_like(pick=np.mean), "mean over all of them"),
    (_like(pick=np.max), "the farthest"),
    (_like(squares=True), "squared distances"),
    (_like(by_cluster=True), "mean over clusters"),
    (lambda points, labels: silhouette_by_library(points, labels) * (1 if labels.min() == 0 else 0.5), "depends on them"),
]


# --- my_bits(belief, ratios) ----------------------------------------------------------------------


def bits_by_rows(belief, ratios):
    """One row and one state at a time."""
    total = 0.0
    for p, x in zip(belief, ratios, strict=True):
        log_q = x - x.max()
        log_q = log_q - np.log(np.exp(log_q).sum())
        total += sum(a * (np.log(a) - b) for a, b in zip(p, log_q, strict=True) if a > 0) / np.log(2)
    return total / len(belief)


def _soft(x):
    weight = np.exp(x - x.max(-1, keepdims=True))
    return weight / weight.sum(-1, keepdims=True)


def _kl(p, q):
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(p > 0, p * np.log2(p / q), 0).sum(-1).mean())


def _cross(p, x):
    return float(-(p * np.log2(_soft(x))).sum(-1).mean())


def _overflowing(p, x):
    with np.errstate(all="ignore"):
        q = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    return _kl(p, q)


BITS_WRONG = [
    (lambda p, x: _kl(p, _soft(x)) * np.log(2), "in nats"),
    (lambda p, x: _kl(p, _soft(x)) * len(p), "you sum over rows"),
    (lambda p, x: _kl(_soft(x), np.maximum(p, 1e-300)), "you weigh by the reading"),
    (lambda p, x: _cross(p, x) if abs(_kl(p, _soft(x))) > 1e-9 else 0.0, "a cross-entropy"),
    (lambda p, x: _cross(p, x), "readings that are exact"),
    (lambda p, x: _kl(p, _soft(x * np.log(2))) if abs(_kl(p, _soft(x))) > 1e-9 else 0.0, "raise 2 to them"),
    (_overflowing, "largest log ratio"),
]

# --- my_lump(points, rng) -------------------------------------------------------------------------


def lump_by_library(points, rng):
    return rng.multivariate_normal(points.mean(0), np.cov(points.T), size=len(points))


def _noise(points, rng):
    return rng.normal(size=points.shape)


def _two(points, rng):
    """The right moments in two lumps."""
    root = np.linalg.cholesky(np.cov(points.T))
    return points.mean(0) + np.sign(_noise(points, rng)) @ root.T


LUMP_WRONG = [
    (lambda points, rng: points[rng.permutation(len(points))], "in another order"),
    (lambda points, rng: lump_by_library(points, rng) - points.mean(0), "the mean should be"),
    (lambda points, rng: points.mean(0) + _noise(points, rng) * points.std(0), "does not slant"),
    (lambda points, rng: points.mean(0) + _noise(points, rng) @ np.cov(points.T), "a square root"),
    (lambda points, rng: points.mean(0) + _noise(points, rng), "variance 1 in every direction"),
    (_two, "it is no Gaussian"),
    (lambda points, rng: lump_by_library(points, rng)[:10], "as many points"),
    (lambda points, rng: lump_by_library(points, np.random.default_rng(0)), "draw from `rng`"),
]


ANSWERS = {
    "check_bits": {
        "alternative": bits_by_rows,
        "shape_stub": lambda belief, ratios: 0.0,
        "wrong": BITS_WRONG,
    },
    "check_lump": {
        "alternative": lump_by_library,
        "shape_stub": lambda points, rng: np.zeros_like(points),
        "wrong": LUMP_WRONG,
    },
    "check_shares": {
        "alternative": shares_by_covariance,
        "shape_stub": lambda A: np.append(1.0, np.zeros(A.shape[1] - 1)),
        "wrong": SHARES_WRONG,
    },
    "check_memory": {
        "alternative": memory_by_solving,
        "shape_stub": lambda T, E, symbols: np.zeros((len(symbols), len(T))),
        "wrong": MEMORY_WRONG,
    },
    "check_nearest": {
        "alternative": nearest_by_sorting,
        "shape_stub": lambda x: np.full(len(x), 1 / len(x)),
        "wrong": NEAREST_WRONG,
    },
    "check_silhouette": {
        "alternative": silhouette_by_library,
        "shape_stub": lambda points, labels: 1.0,
        "wrong": SILHOUETTE_WRONG,
    },
}
