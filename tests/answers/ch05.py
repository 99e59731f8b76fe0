"""Answers for the checks of chapter 5: other correct ones, and usual mistakes with their hints."""

from __future__ import annotations

import math

import torch

# --- my_forecasts(transition, emission, symbols) ----------------------------------------------------


def forecasts_by_joint(T, E, symbols):
    """Unnormalised forward vectors of one symbol more, divided at the end."""
    joint, rows = torch.full((len(T),), 1 / len(T), dtype=torch.float64), []
    for symbol in symbols.tolist():
        joint = joint * E[:, symbol]
        ahead = (joint @ T)[:, None] * E
        rows.append(ahead.sum(0) / ahead.sum())
        joint = joint @ T
    return torch.stack(rows)


def _before(T, E, symbols):
    belief = _paths(T, E, symbols)
    return torch.cat([torch.full_like(belief[:1], 1 / len(T)), belief[:-1] @ T]) @ E


FORECASTS_WRONG = [
    (lambda T, E, s: _paths(T, E, s), "beliefs about"),
    (lambda T, E, s: torch.zeros(2), "one distribution for each"),
    (lambda T, E, s: _paths(T, E, s) @ E, "then through E"),
    (_before, "before it is seen"),
    (lambda T, E, s: _paths(T, E, s, transposed=True) @ T.mT @ E, "from the left"),
    (lambda T, E, s: _paths(T, E, s, first_move=True) @ T @ E, "no move before it"),
    (lambda T, E, s: _paths(T, E, s, normal=False) @ T @ E, "not to 1"),
    (lambda T, E, s: _paths(T, E, s, moves=False) @ T @ E, "the filter implies"),
]

# --- my_chain() --------------------------------------------------------------------------------------


def _around(stay, show):
    def rows(x):
        return (x - (1 - x) / 2) * torch.eye(3, dtype=torch.float64) + (1 - x) / 2

    return rows(stay), rows(show)


CHAIN_WRONG = [
    (lambda: _around(0.5, 0.7), "let the next state depend more on this one"),
    (lambda: _around(0.9, 0.4), "so little about the states"),
    (lambda: (_around(0.9, 0.7)[0], torch.tensor([[0.9, 0.05, 0.05]] * 2 + [[0.05, 0.05, 0.9]], dtype=torch.float64)), "let the emissions overlap"),
    (lambda: _around(0.98, 0.7), "below 0.05"),
    (lambda: torch.eye(3), "return 2 tensors"),
    (lambda: (torch.full((3, 3), 0.3), torch.full((3, 3), 1 / 3)), "add up to 1"),
    (lambda: (torch.full((2, 2), 0.5), torch.full((3, 3), 1 / 3)), "has shape"),
]

# --- my_blind() --------------------------------------------------------------------------------------

FIRST, SECOND = (torch.tensor(p, dtype=torch.float64) for p in ([0.7, 0.15, 0.15], [0.15, 0.7, 0.15]))


def blind_by_emission():
    """All states emit alike, so no symbol says anything about any of them."""
    return _around(0.9, 0.9)[0], torch.full((3, 3), 1 / 3, dtype=torch.float64), FIRST, SECOND


BLIND_WRONG = [
    (lambda: (*_around(0.9, 0.7), FIRST, SECOND), "the two forecasts differ"),
    (lambda: (*_around(0.9, 0.7), FIRST, FIRST), "at least 0.5"),
    (lambda: (_around(0.9, 0.7)[0][[2, 1, 0]], torch.tensor([[0.6, 0.3, 0.1]] * 2 + [[0.1, 0.3, 0.6]], dtype=torch.float64), FIRST, SECOND), "emits the next"),
    (lambda: (*_around(0.9, 0.7), FIRST), "return 4 tensors"),
]

# --- my_beyond(mean, early, total, trained) --------------------------------------------------------


def beyond_by_shares(mean, early, total, trained):
    share = trained / total
    return (mean - share * early) / (1 - share)


BEYOND_WRONG = [
    (lambda m, e, n, k: m, "average over all positions"),
    (lambda m, e, n, k: m * n / (n - k), "have an error too"),
    (lambda m, e, n, k: m - e, "a difference of two averages"),
    (lambda m, e, n, k: (m * n - e * k) / n, "divide by their number"),
    (lambda m, e, n, k: (m * n - e) / (n - k), "there are `trained` such positions"),
]

# --- my_echo(forecaster, transition, emission, n) ---------------------------------------------------


def _paths(T, E, symbols, first_move=False, transposed=False, moves=True, normal=True):
    rows, b = [], torch.full((len(T),), 1 / len(T), dtype=torch.float64)
    for t, symbol in enumerate(symbols.tolist()):
        if moves and (t or first_move):
            b = T @ b if transposed else b @ T
        b = b * E[:, symbol]
        b = b / b.sum() if normal else b
        rows.append(b)
    return torch.stack(rows)


def _two(forecaster, T, E, n, blank=-1):
    V = E.shape[1]
    rest = torch.full((n,), blank % V)
    return [forecaster(T, E, torch.cat([torch.tensor([first]), rest])) for first in (0, 1)]


def _tv(one, other, factor=0.5):
    return factor * (one - other).abs().sum(-1)


def _exactly(T, E, observations):
    return _paths(T, E, observations) @ T @ E


def echo_by_overlap(forecaster, T, E, n):
    """One less what the two distributions share."""
    return 1 - torch.minimum(*_two(forecaster, T, E, n)).sum(-1)


ECHO_WRONG = [
    (lambda f, T, E, n: _tv(*_two(f, T, E, n))[:-1], "after each of"),
    (lambda f, T, E, n: _tv(*_two(f, T, E, n), 1.0), "half the sum of absolute"),
    (lambda f, T, E, n: (lambda a, b: (a - b).abs().amax(-1))(*_two(f, T, E, n)), "what the others add"),
    (lambda f, T, E, n: _tv(*_two(f, T, E, n, blank=0)), "number V - 1"),
    (lambda f, T, E, n: _tv(*_two(_paths, T, E, n)), "those are beliefs"),
    (lambda f, T, E, n: _tv(*_two(_exactly, T, E, n)), "not to an exact filter"),
    (lambda f, T, E, n: _tv(*_two(f, T, E, n)).flip(0), "the forecasts for the two histories"),
]

# --- my_hidden(transition, emission, alpha, q) -------------------------------------------------------


def hidden_by_joint(T, E, alpha, q):
    """Of the joint distribution of state and observation, less that of the observation alone."""
    one, two = (p[:, None] * (T @ E) for p in (alpha, q))
    return (one * (one / two).log2()).sum() - (one.sum(0) * (one.sum(0) / two.sum(0)).log2()).sum()


def _kl(p, q):
    return (p * (p / q).log2()).sum()


def _mean_after(T, E, alpha, q, weights, moved=False):
    M = E if moved else T @ E
    p, r = (alpha @ T, q @ T) if moved else (alpha, q)
    joint, other = (x[:, None] * M for x in (p, r))
    each = [_kl(a / a.sum(), b / b.sum()) for a, b in zip(joint.T, other.T, strict=True)]
    return sum(w * x for w, x in zip(weights, each, strict=True))


HIDDEN_WRONG = [
    (lambda T, E, a, q: _kl(a, q), "the divergence of the beliefs"),
    (lambda T, E, a, q: _kl(a @ T @ E, q @ T @ E), "the divergence of the forecasts"),
    (lambda T, E, a, q: _mean_after(T, E, a, q, [1 / E.shape[1]] * E.shape[1]), "weigh each by its probability"),
    (lambda T, E, a, q: _mean_after(T, E, a, q, q @ T @ E), "not those of q"),
    (lambda T, E, a, q: _mean_after(T, E, a, q, a @ T @ E, moved=True), "before it moves"),
    (lambda T, E, a, q: hidden_by_joint(T, E, a, q) * math.log(2), "in nats"),
    (lambda T, E, a, q: hidden_by_joint(T, E, q, a), "from beliefs to forecasts"),
]


ANSWERS = {
    "check_forecasts": {
        "alternative": forecasts_by_joint,
        "shape_stub": lambda T, E, symbols: torch.zeros(len(symbols), E.shape[1]),
        "wrong": FORECASTS_WRONG,
    },
    "check_chain": {
        "alternative": lambda: _around(0.9, 0.8),
        "shape_stub": lambda: (torch.full((3, 3), 1 / 3, dtype=torch.float64),) * 2,
        "wrong": CHAIN_WRONG,
    },
    "check_blind": {
        "alternative": blind_by_emission,
        "shape_stub": lambda: (torch.full((3, 3), 1 / 3),) * 2 + (torch.full((3,), 1 / 3),) * 2,
        "wrong": BLIND_WRONG,
    },
    "check_beyond": {
        "alternative": beyond_by_shares,
        "shape_stub": lambda mean, early, total, trained: 0.0,
        "wrong": BEYOND_WRONG,
    },
    "check_echo": {
        "alternative": echo_by_overlap,
        "shape_stub": lambda forecaster, T, E, n: torch.zeros(n + 1),
        "wrong": ECHO_WRONG,
    },
    "check_hidden": {
        "alternative": hidden_by_joint,
        "shape_stub": lambda T, E, alpha, q: 0.0,
        "wrong": HIDDEN_WRONG,
    },
}
