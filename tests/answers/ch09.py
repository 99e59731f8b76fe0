"""Stored answers to the exercises of chapter 9: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import math

import numpy as np
import torch

# --- my_isotropic(n_channels) -------------------------------------------------------------------


def isotropic_by_products(n_channels):
    """From 1 and 2 channels upwards: f(d + 2) = f(d) d / (d + 1)."""
    value, d = (1.0, 1) if n_channels % 2 else (2 / math.pi, 2)
    while d < n_channels:
        value, d = value * d / (d + 1), d + 2
    return value


ISOTROPIC_WRONG = [
    (lambda d: math.sqrt(2 / (math.pi * d)), "the approximation for many channels"),
    (lambda d: 1 / math.sqrt(d), "the root mean square"),
    (lambda d: 0.0, "the mean with its sign"),
    (lambda d: math.exp(math.lgamma(d / 2) - math.lgamma((d + 1) / 2)), "square root of pi is missing"),
    (lambda d: math.gamma(d / 2) / (math.sqrt(math.pi) * math.gamma((d + 1) / 2)), "your code raises OverflowError"),
    (lambda d: {2: 2 / math.pi, 3: 0.5}.get(d, math.sqrt(2 / (math.pi * d))), "multiply to"),
]

# --- my_mean_cosine(x, centred) -----------------------------------------------------------------


def cosine_by_loops(x, centred):
    x = (x - x.mean(0)).numpy() if centred else x.numpy()
    pairs = [(i, j) for i in range(len(x)) for j in range(i)]
    return np.mean([abs(x[i] @ x[j]) / np.linalg.norm(x[i]) / np.linalg.norm(x[j]) for i, j in pairs])


def _cosines(x):
    unit = x / x.norm(dim=1, keepdim=True)
    return unit @ unit.T


def _off(c):
    n = len(c)
    return (c.sum() - c.trace()) / (n * (n - 1))


def _centre(x, centred):
    return x - x.mean(0) if centred else x


COSINE_WRONG = [
    (lambda x, c: _cosines(_centre(x, c)).abs().mean(), "the cosine of a vector with itself"),
    (lambda x, c: _off(_cosines(_centre(x, c))), "count by their size"),
    (lambda x, c: (_cosines(_centre(x, c)).abs().sum() - len(x)) / len(x) ** 2, "not n squared"),
    (lambda x, c: _off(_cosines(x).abs()), "Nothing is centred"),
    (lambda x, c: _off(_cosines(_centre(x / x.norm(dim=1, keepdim=True), c)).abs()), "normalise then"),
    (lambda x, c: _off(_cosines(x - x.mean(1, keepdim=True) if c else x).abs()), "not over channels"),
]

# --- my_percentile(value, draws) ----------------------------------------------------------------


def percentile_by_sign(value, draws):
    return float(50 * (1 + np.sign(value - np.asarray(draws)).mean()))


PERCENTILE_WRONG = [
    (lambda v, d: percentile_by_sign(v, d) / 100, "in percent, please"),
    (lambda v, d: 100 * np.mean(d > v), "not those above"),
    (lambda v, d: float(np.sum(d < v)), "not what share"),
    (lambda v, d: 100 * np.mean(d < v), "you leave draws out"),
    (lambda v, d: 100 * np.mean(d <= v), "in full"),
]

# --- my_map(keys) -------------------------------------------------------------------------------


def map_by_basis(keys):
    """Completes the keys to a basis, and sends the basis to the unit vectors."""
    n, C = keys.shape
    rest = torch.linalg.svd(keys, full_matrices=True)[2][n:]
    return torch.linalg.inv(torch.cat([keys, rest]).T)


MAP_WRONG = [
    (lambda k: torch.linalg.pinv(k).T, "the map has shape"),
    (lambda k: map_by_basis(k).T, "it is A k that is asked"),
    (lambda k: torch.eye(k.shape[1], dtype=k.dtype), "dot products up to"),
    (lambda k: 3 * map_by_basis(k), "make them 1"),
    (lambda k: torch.eye(k.shape[1], len(k), dtype=k.dtype) @ torch.linalg.pinv(k).T, "cannot be undone"),
]

# --- my_parts(scores) ---------------------------------------------------------------------------


def parts_by_projection(scores):
    m, n = scores.shape
    P, Q = (torch.eye(k, dtype=scores.dtype) - 1 / k for k in (m, n))
    return float((scores.mean(0) @ Q).norm() / math.sqrt(n)), float((P @ scores @ Q).norm() / math.sqrt(m * n))


def _rest(scores):
    return scores - scores.mean(0) - scores.mean(1, keepdim=True) + scores.mean()


def _std(x):
    return float(x.std(correction=0))


PARTS_WRONG = [
    (lambda s: (_std(s.mean(0)), _std(s)), "nothing is bound"),
    (lambda s: (_std(s.mean(0)), _std(s - s.mean(0))), "changes no attention"),
    (lambda s: (_std(s.mean(1)), _std(_rest(s))), "rows are questions"),
    (lambda s: (float(s.mean(0).std()), _std(_rest(s))), "divide by n"),
    (lambda s: (_std(s.mean(0)) ** 2, _std(_rest(s)) ** 2), "take the root"),
    (lambda s: (_std(s.mean(0)), _std(_rest(s)) ** 2), "you give a variance"),
    (lambda s: (_std(s), _std(_rest(s))), "changes your preference"),
]

# --- my_concentration(effects) ------------------------------------------------------------------


def concentration_by_numpy(effects):
    second, first = np.partition(np.asarray(effects, dtype=float), -2)[-2:]
    return first / second, int((2 * np.asarray(effects) > first).sum())


def _sorted(effects):
    return sorted(effects, reverse=True)


def _half(effects):
    return sum(e > max(effects) / 2 for e in effects)


CONCENTRATION_WRONG = [
    (lambda e: (e[0] / e[1], _half(e)), "heads are not sorted"),
    (lambda e: (_sorted(e)[1] / _sorted(e)[0], _half(e)), "the other way round"),
    (lambda e: (_sorted(map(abs, e))[0] / _sorted(map(abs, e))[1], _half(e)), "it is not important by its size"),
    (lambda e: (max(e) / np.mean(e), _half(e)), "not the mean"),
    (lambda e: (_sorted(e)[0] / _sorted(e)[1], _half(e) - 1), "is one of them, too"),
    (lambda e: (_sorted(e)[0] / _sorted(e)[1], sum(x >= max(e) / 2 for x in e)), "exactly half is not more"),
]

ANSWERS = {
    "check_isotropic": {"alternative": isotropic_by_products, "shape_stub": lambda d: 0.1, "wrong": ISOTROPIC_WRONG},
    "check_mean_cosine": {"alternative": cosine_by_loops, "shape_stub": lambda x, c: 0.5, "wrong": COSINE_WRONG},
    "check_percentile": {"alternative": percentile_by_sign, "shape_stub": lambda v, d: 50.0, "wrong": PERCENTILE_WRONG},
    "check_map": {
        "alternative": map_by_basis, "shape_stub": lambda k: torch.zeros(k.shape[1], k.shape[1], dtype=k.dtype),
        "wrong": MAP_WRONG,
    },
    "check_parts": {"alternative": parts_by_projection, "shape_stub": lambda s: (0.0, 0.0), "wrong": PARTS_WRONG},
    "check_concentration": {
        "alternative": concentration_by_numpy, "shape_stub": lambda e: (1.0, 1), "wrong": CONCENTRATION_WRONG,
    },
}
