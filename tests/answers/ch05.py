"""Answers for the checks of chapter 5: other correct ones, and usual mistakes with their hints."""

from __future__ import annotations

import math

import torch

# --- my_passed(errors, level) ----------------------------------------------------------------------


def passed_from_the_end(errors, level):
    """Walk back from the last evaluation while the curve stays low."""
    place = len(errors)
    while place > 0 and errors[place - 1] <= level:
        place -= 1
    return place if place < len(errors) else None


def _above(errors, level):
    return [i for i, e in enumerate(errors) if e > level]


PASSED_WRONG = [
    (lambda e, level: next((i for i, x in enumerate(e) if x <= level), None), "what stays passed"),
    (lambda e, level: max(_above(e, level), default=-1), "is itself still above"),
    (lambda e, level: max(_above(e, level), default=-1) + 1, "was passed for good; return None"),
    (lambda e, level: (lambda i: i if i < len(e) else None)(max((k for k, x in enumerate(e) if x >= level), default=-1) + 1), "equal to the level"),
    (lambda e, level: min(e), "asked is the number of the evaluation"),
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

# --- my_noise(posterior) -----------------------------------------------------------------------------


def noise_by_outcomes(posterior):
    """The variance of each outcome's indicator, added up."""
    return (posterior * (1 - posterior)).sum(-1)


def _entropy(p):
    return -(p * p.log()).sum(-1)


NOISE_WRONG = [
    (lambda p: noise_by_outcomes(p) / p.shape[-1], "mean over the logits"),
    (lambda p: noise_by_outcomes(p) / math.log(2) ** 2, "in nats here"),
    (lambda p: torch.where(p.amax(-1) == 0.5, 0.5, 1 - p.amax(-1)), "the likeliest outcome"),
    (_entropy, "entropy grows"),
    (lambda p: _entropy(p) / math.log(2), "entropy in bits"),
    (lambda p: torch.where(p.amax(-1) == 0.5, 0.5, p.square().sum(-1)), "for a certain p"),
    (lambda p: noise_by_outcomes(p).sqrt(), "that is the root"),
]

# --- my_gap(seen, fresh) -----------------------------------------------------------------------------


def gap_by_numpy(seen, fresh):
    means = [part.mean(1).numpy() for part in (seen, fresh)]
    squares = [m.var(ddof=1) / len(m) for m in means]
    return means[1].mean() - means[0].mean(), math.sqrt(sum(squares))


def _gap(seen, fresh):
    return fresh.mean() - seen.mean()


def _errors(seen, fresh):
    return [part.mean(1).std() / math.sqrt(len(part)) for part in (seen, fresh)]


GAP_WRONG = [
    (lambda s, f: (-_gap(s, f), sum(_errors(s, f))), "positive where memory helps"),
    (lambda s, f: _gap(s, f), "return two numbers"),
    (lambda s, f: (_gap(s, f), (s.var() / s.numel() + f.var() / f.numel()).sqrt()), "an episode counts once"),
    (lambda s, f: (_gap(s, f), f.mean(1).std()), "sqrt(N) less"),
    (lambda s, f: (_gap(s, f), sum(_errors(s, f))), "not the errors"),
    (lambda s, f: (_gap(s, f), _errors(s, f)[0]), "both means have an error"),
]


ANSWERS = {
    "check_passed": {
        "alternative": passed_from_the_end,
        "shape_stub": lambda errors, level: 0,
        "wrong": PASSED_WRONG,
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
    "check_noise": {
        "alternative": noise_by_outcomes,
        "shape_stub": lambda posterior: torch.zeros(posterior.shape[:-1]),
        "wrong": NOISE_WRONG,
    },
    "check_gap": {
        "alternative": gap_by_numpy,
        "shape_stub": lambda seen, fresh: (0.0, 0.0),
        "wrong": GAP_WRONG,
    },
}
