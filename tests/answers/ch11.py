"""Stored answers to the exercises of chapter 11: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import math

import numpy as np

# --- my_first_share(n_points) -------------------------------------------------------------------


def share_by_sum(n_points):
    sines = [math.sin(math.pi * j / (2 * n_points)) ** -2 for j in range(1, n_points)]
    return sines[0] / sum(sines)


def _eigen(K, centred=True):
    places = np.arange(1.0, K + 1)
    centre = np.eye(K) - centred / K
    return np.linalg.eigvalsh(centre @ np.minimum.outer(places, places) @ centre)[::-1]


SHARE_WRONG = [
    (lambda K: 6 / math.pi**2, "the limit of very many points"),
    (lambda K: _eigen(K, False)[0] / _eigen(K, False).sum(), "you left the mean in"),
    (lambda K: _eigen(K)[0], "the eigenvalue itself"),
    (lambda K: math.sin(math.pi / (2 * K)) ** -1 / sum(1 / math.sin(math.pi * j / (2 * K)) for j in range(1, K)),
     "the sine is squared"),
]

# --- my_average(n_points) -----------------------------------------------------------------------


def average_by_loops(n_points):
    found = np.empty((n_points, n_points))
    for i in range(n_points):
        for j in range(n_points):
            found[i, j] = min(1 / (i + 1), 1 / (j + 1))
    return found


def _places(K):
    return np.arange(1.0, K + 1)


def _centred(K):
    centre = np.eye(K) - 1 / K
    return centre @ average_by_loops(K) @ centre


AVERAGE_WRONG = [
    (lambda K: np.minimum.outer(_places(K), _places(K)), "yours is that of sums"),
    (lambda K: 1 / np.minimum.outer(_places(K), _places(K)), "of the *shorter* one"),
    (lambda K: np.diag(1 / _places(K)), "are not independent"),
    (_centred, "give the covariance as it is"),
    (lambda K: average_by_loops(K)[0], "have a covariance of shape"),
]

# --- my_count_share(n_values, n_pairs) ----------------------------------------------------------


def _parts(V, K, ddof=0):
    k = np.arange(K)
    return np.var(k, ddof=ddof), np.mean(k * (V - k)) / V


def count_by_closed_form(n_values, n_pairs):
    between = (n_pairs**2 - 1) / (12 * n_values)
    within = (n_pairs - 1) / 2 - (n_pairs - 1) * (2 * n_pairs - 1) / (6 * n_values)
    return between / (between + within)


def _count(rule):
    return lambda V, K: rule(V, *_parts(V, K))


COUNT_WRONG = [
    (lambda V, K: 1 / 3, "a third is right if all values are shown"),
    (_count(lambda V, b, w: (b / V) / w), "you divide by the variance within positions"),
    (_count(lambda V, b, w: b / (b + w)), "the direction of ones has length 1"),
    (_count(lambda V, b, w: w / (b / V + w)), "yours is the rest"),
    (lambda V, K: (lambda b, w: (b / V) / (b / V + w))(*_parts(V, K, 1)), "the variance of k over all positions"),
]

# --- my_fixed(x, h) -----------------------------------------------------------------------------


def fixed_by_columns(x, h):
    top = bottom_x = bottom_h = 0.0
    for k in range(x.shape[1]):
        a, b = x[:, k] - x[:, k].mean(), h[:, k] - h[:, k].mean()
        top, bottom_x, bottom_h = top + a @ b, bottom_x + a @ a, bottom_h + b @ b
    return abs(top) / math.sqrt(bottom_x * bottom_h)


def _r(x, h):
    return np.corrcoef(x.ravel(), h.ravel())[0, 1]


FIXED_WRONG = [
    (lambda x, h: abs(_r(x, h)), "take the means at each position off first"),
    (lambda x, h: _r(x - x.mean(0), h - h.mean(0)), "an axis has no sign"),
    (lambda x, h: abs(_r(x - x.mean(0), h)), "h, too, loses its means"),
    (lambda x, h: abs(_r(x - x.mean(1, keepdims=True), h - h.mean(1, keepdims=True))), "a position is a column"),
    (lambda x, h: _r(x - x.mean(0), h - h.mean(0)) ** 2, "the square of it"),
]

# --- my_erase(x, h) -----------------------------------------------------------------------------


def erase_by_lstsq(x, h):
    centred = x - x.mean(0)
    w = np.linalg.lstsq(centred, h - h.mean(), rcond=None)[0]
    read = centred @ w
    return w, centred.T @ read / (read @ read)


def _moments(x, h):
    centred, number = x - x.mean(0), h - h.mean()
    C, b = centred.T @ centred / len(x), centred.T @ number / len(x)
    return C, b, np.linalg.solve(C, b)


def _filter_only(x, h):
    w = _moments(x, h)[2]
    return (w / np.linalg.norm(w),) * 2


def _along_b(x, h):
    b = _moments(x, h)[1]
    return (b / np.linalg.norm(b),) * 2


def _with_means(x, h):
    w = np.linalg.solve(x.T @ x / len(x), x.T @ h / len(x))
    b = x.T @ h / len(x)
    return w, b / (b @ w)


ERASE_WRONG = [
    (_filter_only, "you take out the direction that reads"),
    (_along_b, "h is erased, but the points move"),
    (lambda x, h: (_moments(x, h)[2], 2 * _moments(x, h)[1]), "has to have none"),
    (lambda x, h: erase_by_lstsq(x, h)[0], "return two vectors"),
    (_with_means, "before covariances are formed"),
]

# --- my_margin(n_possible, n_values, bits) ------------------------------------------------------


def margin_by_halving(n_possible, n_values, bits):
    low, high = -50.0, 50.0
    for _ in range(100):
        middle = (low + high) / 2
        kl = math.log2(1 + (n_values - n_possible) / n_possible * math.exp(-middle))
        low, high = (middle, high) if kl > bits else (low, middle)
    return middle


def _margin(n, V, bits):
    return math.log((V - n) / n) - math.log(2**bits - 1)


MARGIN_WRONG = [
    (lambda n, V, e: _margin(n, V, e) / math.log(2), "logits are in nats"),
    (lambda n, V, e: math.log((V - n) / n) - math.log(e), "is bits times ln 2"),
    (lambda n, V, e: math.log(V / n) - math.log(2**e - 1), "not all of them"),
    (lambda n, V, e: -_margin(n, V, e), "have the higher logit"),
]


ANSWERS = {
    "check_first_share": {
        "alternative": share_by_sum, "shape_stub": lambda n_points: 0.5, "wrong": SHARE_WRONG,
    },
    "check_average": {
        "alternative": average_by_loops, "shape_stub": lambda n_points: np.eye(n_points), "wrong": AVERAGE_WRONG,
    },
    "check_count_share": {
        "alternative": count_by_closed_form, "shape_stub": lambda n_values, n_pairs: 0.5, "wrong": COUNT_WRONG,
    },
    "check_fixed": {
        "alternative": fixed_by_columns, "shape_stub": lambda x, h: 0.0, "wrong": FIXED_WRONG,
    },
    "check_erase": {
        "alternative": erase_by_lstsq, "shape_stub": lambda x, h: (np.zeros(x.shape[1]), np.zeros(x.shape[1])),
        "wrong": ERASE_WRONG,
    },
    "check_margin": {
        "alternative": margin_by_halving, "shape_stub": lambda n_possible, n_values, bits: 1.0, "wrong": MARGIN_WRONG,
    },
}
