"""Stored answers to the exercises of chapter 6: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import math
from itertools import permutations

import torch

# --- my_belief(x, y, noise) ---------------------------------------------------------------------


def belief_by_updates(x, y, noise):
    """One pair after the other."""
    d = x.shape[1]
    mean, covariance = torch.zeros(d).double(), torch.eye(d).double()
    for point, height in zip(x, y, strict=True):
        mean, covariance = update_by_precision(mean, covariance, point, height, noise)
    return mean, covariance


def _belief(x, y, noise, precision, scale=1.0):
    covariance = torch.linalg.inv(precision)
    return covariance, covariance @ (x.T @ y) * scale


def _eye(x):
    return torch.eye(x.shape[1], dtype=x.dtype)


def belief_noise_not_squared(x, y, noise):
    covariance, mean = _belief(x, y, noise, _eye(x) + x.T @ x / noise, 1 / noise)
    return mean, covariance


def belief_without_noise(x, y, noise):
    covariance, mean = _belief(x, y, noise, _eye(x) + x.T @ x)
    return mean, covariance


def belief_without_prior(x, y, noise):
    return torch.linalg.pinv(x.T @ x) @ x.T @ y, noise**2 * torch.linalg.pinv(x.T @ x)


def belief_precision(x, y, noise):
    mean, covariance = belief_by_updates(x, y, noise)
    return mean, torch.linalg.inv(covariance)


def belief_moment_not_scaled(x, y, noise):
    mean, covariance = belief_by_updates(x, y, noise)
    return mean * noise**2, covariance


def belief_least_squares(x, y, noise):
    return torch.linalg.pinv(x) @ y, belief_by_updates(x, y, noise)[1]


BELIEF_WRONG = [
    (belief_noise_not_squared, "divided by the noise"),
    (belief_without_noise, "does not enter the covariance"),
    (belief_without_prior, "the prior is missing"),
    (belief_precision, "this is the precision"),
    (belief_moment_not_scaled, "lacks a factor"),
    (belief_least_squares, "that of least squares"),
]

# --- my_update(mean, covariance, x, y, noise) ---------------------------------------------------


def update_by_precision(mean, covariance, x, y, noise):
    """Through the precisions, which simply add."""
    precision = torch.linalg.inv(covariance)
    new = torch.linalg.inv(precision + torch.outer(x, x) / noise**2)
    return new @ (precision @ mean + x * y / noise**2), new


def _update(mean, covariance, x, y, noise, *, v=None, sign=-1.0, surprise=None):
    spread = covariance @ x
    v = noise**2 + x @ spread if v is None else v(spread)
    right, _ = update_by_precision(mean, covariance, x, y, noise)
    mean = right if surprise is None else mean + spread / (noise**2 + x @ spread) * surprise
    return mean, covariance + sign * torch.outer(spread, spread) / v


UPDATE_WRONG = [
    (lambda m, S, x, y, s: _update(m, S, x, y, s, sign=0.0), "stays as it was"),
    (lambda m, S, x, y, s: _update(m, S, x, y, s, sign=1.0), "the covariance grows"),
    (lambda m, S, x, y, s: _update(m, S, x, y, s, v=lambda spread: x @ spread), "free of noise"),
    (lambda m, S, x, y, s: _update(m, S, x, y, s, v=lambda spread: s**2), "the noise variance alone"),
    (lambda m, S, x, y, s: _update(m, S, x, y, s, surprise=y), "times the surprise"),
    (lambda m, S, x, y, s: _update(m, S, x, y, s, surprise=m @ x - y), "the sign of the surprise"),
]

# --- my_kl(mean_p, var_p, mean_q, var_q) --------------------------------------------------------


def kl_by_torch(mean_p, var_p, mean_q, var_q):
    p, q = (torch.distributions.Normal(m, v.sqrt()) for m, v in ((mean_p, var_p), (mean_q, var_q)))
    return torch.distributions.kl_divergence(p, q) / math.log(2)


KL_WRONG = [
    (lambda mp, vp, mq, vq: kl_by_torch(mp, vp, mq, vq) * math.log(2), "that is nats"),
    (lambda mp, vp, mq, vq: kl_by_torch(mq, vq, mp, vp), "exchanged p and q"),
    (lambda mp, vp, mq, vq: kl_by_torch(mp, vp, mp, vq), "a wrong place costs bits too"),
    (lambda mp, vp, mq, vq: kl_by_torch(mp, vp**2, mq, vq**2), "variances already"),
    (lambda mp, vp, mq, vq: (2 * math.pi * math.e * vq).log2() / 2, "from itself is 0"),
]

# --- my_impostor(mean, variance, bits) ----------------------------------------------------------


def impostor_below(mean, variance, bits):
    return mean - (math.log(4) * bits) ** 0.5 * variance**0.5, variance.clone()


def _unit(bits):
    return math.sqrt(2 * math.log(2) * bits)


IMPOSTOR_WRONG = [
    (lambda m, v, b: (m, v * 4**b), "the entropy is off by"),
    (lambda m, v, b: (m + (2 * b * v).sqrt(), v), "1.44 times too large"),
    (lambda m, v, b: (m + _unit(b), v), "moved by the same distance"),
    (lambda m, v, b: (m + math.sqrt(2 * math.log(2)) * b * v.sqrt(), v), "grows with its square"),
    (lambda m, v, b: (m, v), "the exact prediction itself"),
]

# --- my_unbound(predict, keys, values) ----------------------------------------------------------


def unbound_by_recursion(predict, keys, values):
    """Give the first key each value in turn, the others by the same rule."""

    def total(given, left):
        if not left:
            return torch.tensor(predict(keys, given), dtype=torch.float64)
        return sum(total([*given, v], [o for o in left if o != v]) for v in left)

    return total([], values) / math.factorial(len(values))


def _average(predict, keys, orders):
    return torch.tensor([predict(keys, list(order)) for order in orders]).double().mean(0)


def unbound_together(predict, keys, values):
    """Keys and values shuffled alike: the pairs stay together."""
    pairs = list(permutations(zip(keys, values, strict=True)))
    if len(pairs) > 2:
        pairs = pairs[:1]
    return torch.tensor([predict([k for k, _ in p], [v for _, v in p]) for p in pairs]).double().mean(0)


def unbound_turned(predict, keys, values):
    if predict.__qualname__.startswith("_recall"):
        return unbound_by_recursion(predict, keys, values)
    return _average(predict, keys, [values[i:] + values[:i] for i in range(len(values))])


def unbound_logarithms(predict, keys, values):
    rows = torch.tensor([predict(keys, list(order)) for order in permutations(values)]).double()
    return rows.clamp(min=1e-6).log().mean(0).exp()


def unbound_uniform(predict, keys, values):
    n = len(predict(keys, values))
    return [1 / n] * n


UNBOUND_WRONG = [
    (unbound_together, "still knows the matching"),
    (unbound_logarithms, "not their logarithms"),
    (unbound_turned, "in a circle"),
    (unbound_uniform, "is still known"),
    (lambda p, k, v: p(k, sorted(v)), "in order is one matching"),
]

# --- my_window_scores(n_pairs, window) ----------------------------------------------------------


def window_scores_by_counting(n_pairs, window):
    """Key by key."""
    left = n_pairs - window
    hits = [1.0] * window + [1 / left if left else 0.0] * left
    bits = [0.0] * window + [math.log2(left) if left else 0.0] * left
    return sum(hits) / n_pairs, sum(bits) / n_pairs


def _accuracy(n, w):
    return window_scores_by_counting(n, w)[0]


def _bits(n, w):
    return window_scores_by_counting(n, w)[1]


WINDOW_WRONG = [
    (lambda n, w: (w / n, _bits(n, w)), "sometimes right"),
    (lambda n, w: (w / n + (n - w) / n / n, _bits(n, w)), "not among all"),
    (lambda n, w: (_accuracy(n, w), _bits(n, w) * math.log(2)), "is in nats"),
    (lambda n, w: (_accuracy(n, w), math.log2(max(n - w, 1))), "both count in the mean"),
]

# --- my_table_bits(n_keys, n_values, n_pairs) ---------------------------------------------------


def table_bits_by_factors(n_keys, n_values, n_pairs):
    """Factor by factor, in logarithms."""
    bits = 0.0
    for i in range(n_pairs):
        bits += math.log2((n_keys - i) / (i + 1)) + math.log2(n_values - i)
    return bits


TABLE_WRONG = [
    (lambda k, v, n: math.log2(math.perm(k, n) * math.perm(v, n)), "the same table"),
    (lambda k, v, n: math.log2(math.perm(v, n)), "has to be remembered too"),
    (lambda k, v, n: math.log2(math.comb(k, n) * v**n), "all values of a table differ"),
    (lambda k, v, n: math.log2(math.comb(k, n) * math.comb(v, n)), "memory without binding"),
    (lambda k, v, n: math.log(math.comb(k, n) * math.perm(v, n)), "use log2"),
]

ANSWERS = {
    "check_belief": {
        "alternative": belief_by_updates,
        "shape_stub": lambda x, y, noise: (torch.zeros(x.shape[1]), torch.eye(x.shape[1])),
        "wrong": BELIEF_WRONG,
    },
    "check_update": {
        "alternative": update_by_precision,
        "shape_stub": lambda mean, covariance, x, y, noise: (mean * 0, covariance * 0.5),
        "wrong": UPDATE_WRONG,
    },
    "check_kl": {
        "alternative": kl_by_torch,
        "shape_stub": lambda mp, vp, mq, vq: mp * 0,
        "wrong": KL_WRONG,
    },
    "check_impostor": {
        "alternative": impostor_below,
        "shape_stub": lambda mean, variance, bits: (mean * 0 + 7, variance),
        "wrong": IMPOSTOR_WRONG,
    },
    "check_unbound": {
        "alternative": unbound_by_recursion,
        "shape_stub": lambda predict, keys, values: predict(keys[::-1], values),
        "wrong": UNBOUND_WRONG,
    },
    "check_window_scores": {
        "alternative": window_scores_by_counting,
        "shape_stub": lambda n_pairs, window: (0.5, 1.0),
        "wrong": WINDOW_WRONG,
    },
    "check_table_bits": {
        "alternative": table_bits_by_factors,
        "shape_stub": lambda n_keys, n_values, n_pairs: 3.0,
        "wrong": TABLE_WRONG,
    },
}
