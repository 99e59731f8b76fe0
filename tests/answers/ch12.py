"""Stored answers to the exercises of chapter 12: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import math

import numpy as np
import torch

# --- my_take_out(writes, how, order) ------------------------------------------------------------


def take_out_by_rows(writes, how, order):
    new = torch.zeros_like(writes)
    for b in range(len(writes)):
        if how == "mean":
            new[b] = writes.sum(0) / len(writes)
        elif how == "resample":
            new[b] = writes[int(order[b])]
    return new


def _out(mean=None, resample=None, zero=torch.zeros_like):
    mean = mean or (lambda w: w.mean(0, keepdim=True).expand_as(w))
    resample = resample or (lambda w, o: w[o])
    return lambda w, how, o: {"zero": lambda: zero(w), "mean": lambda: mean(w), "resample": lambda: resample(w, o)}[how]()


TAKE_OUT_WRONG = [
    (_out(zero=lambda w: 0.1 * w), "still writes something"),
    (_out(mean=lambda w: w.mean((0, 1)).expand_as(w)), "average over places too"),
    (_out(mean=lambda w: w.mean(1, keepdim=True).expand_as(w)), "places of one episode, which"),
    (_out(mean=lambda w: w.mean(0)), "it stands in the place of"),
    (_out(resample=lambda w, o: w), "keeps its own writes"),
    (_out(resample=lambda w, o: w[o.argsort()]), "the inverse order"),
    (_out(resample=lambda w, o: torch.stack([w[o, 0], *[w[o.roll(t), t] for t in (1, 2, 3)]], 1)), "stay together"),
]

# --- my_cost(jacobian, prob, length) ------------------------------------------------------------


def cost_by_rows(jacobian, prob, length):
    """Variance of the logit's slope over outcomes, channel by channel."""
    mean = prob @ jacobian
    variance = prob @ (jacobian - mean) ** 2
    return variance.mean() * length**2 / 2 / math.log(2)


def _cost(J, p, r):
    cov = torch.diag(p) - torch.outer(p, p)
    return float(torch.trace(J.T @ cov @ J)) * r**2 / (2 * J.shape[1] * math.log(2))


COST_WRONG = [
    (lambda J, p, r: _cost(J, p, r) * math.log(2), "in nats"),
    (lambda J, p, r: 2 * _cost(J, p, r), "one half"),
    (lambda J, p, r: _cost(J, p, r) * J.shape[1], "shared by D channels"),
    (lambda J, p, r: _cost(J, p, r) / r, "square of the length"),
    (lambda J, p, r: float(torch.trace(J.T @ torch.diag(p) @ J)) * r**2 / (2 * J.shape[1] * math.log(2)), "second part"),
]

# --- my_tenfold(lengths, errors, before, factor) ------------------------------------------------


def tenfold_by_numpy(lengths, errors, before, factor):
    goal = math.log(factor * before)
    x, y = np.log(lengths), np.log(errors)
    over = np.flatnonzero(y >= goal)
    if not len(over):
        return None
    i = int(over[0])
    return float(np.exp(np.interp(goal, y[i - 1 : i + 1], x[i - 1 : i + 1])))


def _between(rule):
    def answer(lengths, errors, before, factor):
        goal = factor * before
        i = next((i for i, e in enumerate(errors) if e >= goal), None)
        return None if i is None else rule(lengths, errors, goal, i)

    return answer


def _straight(x, y, goal, i):
    return x[i - 1] + (x[i] - x[i - 1]) * (goal - y[i - 1]) / (y[i] - y[i - 1])


def never_none(lengths, errors, before, factor):
    return tenfold_by_numpy(lengths, errors, before, factor) or lengths[-1]


TENFOLD_WRONG = [
    (_between(lambda x, y, goal, i: x[i]), "next length that was tried"),
    (_between(lambda x, y, goal, i: x[i - 1]), "last length below"),
    (_between(_straight), "straight between logarithms"),
    (lambda x, y, before, factor: tenfold_by_numpy(x, y, before, factor + 1), "not its rise"),
    (never_none, "the answer is None"),
]

# --- my_together(cost, parts) -------------------------------------------------------------------


def together_by_loops(cost, parts):
    found, base = {}, cost([])
    rise = {part: cost([part]) - base for part in parts}
    for n, a in enumerate(parts):
        for b in parts[n + 1 :]:
            found[a, b] = (cost([a, b]) - base) - (rise[a] + rise[b])
    return found


def _pairs(rule, all_pairs=False):
    def answer(cost, parts):
        return {
            (a, b): rule(cost, a, b) for i, a in enumerate(parts) for j, b in enumerate(parts) if all_pairs or i < j
        }

    return answer


TOGETHER_WRONG = [
    (_pairs(lambda c, a, b: c([a]) + c([b]) - c([a, b]) - c([])), "sign is turned round"),
    (_pairs(lambda c, a, b: c([a, b]) - c([a]) - c([b])), "once too often"),
    (_pairs(lambda c, a, b: c([a, b])), "joint cost alone"),
    (_pairs(lambda c, a, b: c([a, b]) - c([])), "take the single rises off"),
    (_pairs(lambda c, a, b: c([a, b]) - c([a]) - c([b]) + c([]), all_pairs=True), "six entries"),
]

# --- my_exchange(mine, theirs, span) ------------------------------------------------------------


def exchange_by_pinv(mine, theirs, span):
    projector = torch.linalg.pinv(span) @ span
    return mine @ (torch.eye(len(projector), dtype=mine.dtype) - projector) + theirs @ projector


def _projected(x, span):
    q = torch.linalg.qr(span.T)[0]
    return x @ q @ q.T


EXCHANGE_WRONG = [
    (lambda m, t, s: t, "everything was exchanged"),
    (lambda m, t, s: m, "nothing was exchanged"),
    (lambda m, t, s: t + _projected(m - t, s), "you exchanged the rest"),
    (lambda m, t, s: m + (t - m) @ s.T @ s, "orthonormalise them"),
    (lambda m, t, s: m - _projected(t - m, s), "theirs less mine"),
    (lambda m, t, s: _projected(t, s), "at right angles"),
]

# --- my_pattern(x, belief) ----------------------------------------------------------------------


def pattern_with_a_constant(x, belief):
    rows = np.concatenate([belief, np.ones((len(belief), 1))], axis=1)
    return np.linalg.lstsq(rows, x, rcond=None)[0][:-1]


def _centred(x, y):
    return x - x.mean(0), y - y.mean(0)


def _weights(x, y):
    x, y = _centred(x, y)
    return (np.linalg.pinv(x) @ y).T


def _one_by_one(x, y):
    x, y = _centred(x, y)
    return y.T @ x / np.square(y).sum(0)[:, None]


PATTERN_WRONG = [
    (_weights, "the belief is read from"),
    (lambda x, y: np.linalg.lstsq(y, x, rcond=None)[0], "through the origin"),
    (lambda x, y: pattern_with_a_constant(x, y).T, "turn it round"),
    (_one_by_one, "in one regression"),
    (lambda x, y: 2 * pattern_with_a_constant(x, y), "another pattern"),
]

ANSWERS = {
    "check_take_out": {
        "alternative": take_out_by_rows,
        "shape_stub": lambda writes, how, order: torch.ones_like(writes),
        "wrong": TAKE_OUT_WRONG,
    },
    "check_cost": {
        "alternative": cost_by_rows,
        "shape_stub": lambda jacobian, prob, length: 0.0,
        "wrong": COST_WRONG,
    },
    "check_tenfold": {
        "alternative": tenfold_by_numpy,
        "shape_stub": lambda lengths, errors, before, factor: 1.0,
        "wrong": TENFOLD_WRONG,
    },
    "check_together": {
        "alternative": together_by_loops,
        "shape_stub": lambda cost, parts: {(a, b): 0.0 for i, a in enumerate(parts) for b in parts[i + 1 :]},
        "wrong": TOGETHER_WRONG,
    },
    "check_exchange": {
        "alternative": exchange_by_pinv,
        "shape_stub": lambda mine, theirs, span: torch.zeros_like(mine),
        "wrong": EXCHANGE_WRONG,
    },
    "check_pattern": {
        "alternative": pattern_with_a_constant,
        "shape_stub": lambda x, belief: np.zeros((belief.shape[1], x.shape[1])),
        "wrong": PATTERN_WRONG,
    },
}
