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
    (lambda: _around(0.5, 0.7), "let states last longer"),
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

# --- my_cap(entropy, n_states, early, trained) ------------------------------------------------------


def cap_by_distance_from_the_middle(entropy, n_states, early, trained):
    """The farther end of 0..top is half of it plus the distance from the middle."""
    half = math.log2(n_states) / 2
    worst = half + (entropy - half).abs()
    worst[:, :trained] = early
    return worst.mean()


def _diluted(late, entropy, early, trained):
    K = entropy.shape[1]
    return (early * trained + float(late) * (K - trained)) / K


CAP_WRONG = [
    (lambda H, S, e, k: _diluted(math.log2(S), H, e, k), "no answer is log2 S away"),
    (lambda H, S, e, k: _diluted(H[:, k:].mean(), H, e, k), "too unsure"),
    (lambda H, S, e, k: _diluted(math.log2(S) - H[:, k:].mean(), H, e, k), "too sure"),
    (lambda H, S, e, k: torch.maximum(H, math.log2(S) - H)[:, k:].mean(), "the mean is over all"),
    (lambda H, S, e, k: _diluted(max(H[:, k:].mean(), math.log2(S) - H[:, k:].mean()), H, e, k), "choose for each"),
    (lambda H, S, e, k: _diluted(torch.maximum(H, math.log(S) - H)[:, k:].mean(), H, e, k), "not ln S"),
]

# --- my_influence(transition, emission, first, second) ---------------------------------------------


def _paths(T, E, symbols, first_move=False, transposed=False, moves=True, normal=True):
    rows, b = [], torch.full((len(T),), 1 / len(T), dtype=torch.float64)
    for t, symbol in enumerate(symbols.tolist()):
        if moves and (t or first_move):
            b = T @ b if transposed else b @ T
        b = b * E[:, symbol]
        b = b / b.sum() if normal else b
        rows.append(b)
    return torch.stack(rows)


def _tv(T, E, one, two, factor=0.5, **how):
    return factor * (_paths(T, E, one, **how) - _paths(T, E, two, **how)).abs().sum(-1)


def influence_by_positive_part(T, E, one, two):
    gap = _paths(T, E, one) - _paths(T, E, two)
    return gap.clamp(min=0).sum(-1)


INFLUENCE_WRONG = [
    (lambda T, E, a, b: _tv(T, E, a, b, 1.0), "half the sum"),
    (lambda T, E, a, b: _tv(T, E, a, b, transposed=True), "from the left"),
    (lambda T, E, a, b: _tv(T, E, a, b, first_move=True), "no move before it"),
    (lambda T, E, a, b: _tv(T, E, a, b, moves=False), "carry the belief through T"),
    (lambda T, E, a, b: (_paths(T, E, a) - _paths(T, E, b)).sum(-1) - 0.1, "outside 0..1"),
    (lambda T, E, a, b: _tv(T, E, a, b, normal=False), "two runs of the exact filter"),
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
    "check_cap": {
        "alternative": cap_by_distance_from_the_middle,
        "shape_stub": lambda entropy, n_states, early, trained: 1.0,
        "wrong": CAP_WRONG,
    },
    "check_influence": {
        "alternative": influence_by_positive_part,
        "shape_stub": lambda T, E, first, second: torch.zeros(len(first)),
        "wrong": INFLUENCE_WRONG,
    },
}
