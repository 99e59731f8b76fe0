"""Stored answers to the exercises of chapter 1: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import itertools
import math

import torch

# --- my_predictive(pairs, query, n_values) ---------------------------------------------------------


def predictive_by_elimination(pairs, query, n_values):
    shown = dict(pairs)
    if query in shown:
        return [float(v == shown[query]) for v in range(n_values)]
    free = [v not in shown.values() for v in range(n_values)]
    return [f / sum(free) for f in free]


def _eliminates_always(pairs, query, n_values):
    used = {value for _, value in pairs}
    row = [float(v not in used) for v in range(n_values)]
    return [r / max(sum(row), 1) for r in row]


def _binds_without_eliminating(pairs, query, n_values):
    if query in dict(pairs):
        return predictive_by_elimination(pairs, query, n_values)
    return [1 / n_values] * n_values


def _first_survivor(pairs, query, n_values):
    for mapping in itertools.permutations(range(n_values)):
        if all(mapping[key] == value for key, value in pairs):
            return [float(v == mapping[query]) for v in range(n_values)]


def _counts(pairs, query, n_values):
    every = itertools.permutations(range(n_values))
    alive = [m for m in every if all(m[k] == v for k, v in pairs)]
    return [sum(m[query] == v for m in alive) for v in range(n_values)]


PREDICTIVE_WRONG = [
    (_counts, "divide by their sum"),
    (_eliminates_always, "has to be certain"),
    (_binds_without_eliminating, "gives no value to two keys"),
    (_first_survivor, "every surviving map counts the same"),
]

# --- my_bayes(prior, likelihood, seen) -------------------------------------------------------------


def bayes_by_chaining(prior, likelihood, seen):
    weight = prior.clone()
    for outcome in seen:
        weight = weight * likelihood[:, outcome]
        weight = weight / weight.sum()
    return weight @ likelihood


def _weights(prior, likelihood, seen):
    return prior * likelihood[:, seen].prod(1)


def _bayes_last_only(prior, likelihood, seen):
    return bayes_by_chaining(prior, likelihood, seen[-1:])


def _bayes_flat(prior, likelihood, seen):
    if not seen:
        return prior @ likelihood
    weight = likelihood[:, seen].prod(1)
    return weight @ likelihood / weight.sum()


def _bayes_plug_in_later(prior, likelihood, seen):
    if not seen:
        return prior @ likelihood
    return likelihood[_weights(prior, likelihood, seen).argmax()]


BAYES_WRONG = [
    (lambda p, f, s: p @ f, "update the weights first"),
    (lambda p, f, s: _weights(p, f, s) @ f, "divide by their sum"),
    (lambda p, f, s: f[_weights(p, f, s).argmax()], "the one most probable hypothesis"),
    (_bayes_plug_in_later, "the others still count"),
    (_bayes_flat, "the prior is gone"),
    (_bayes_last_only, "only the last outcome counts"),
    (lambda p, f, s: bayes_by_chaining(torch.ones_like(p) / len(p), f, s), "weigh them by the prior"),
]

# --- my_entropy(prob) --------------------------------------------------------------------------------


def entropy_by_categorical(prob):
    return torch.special.entr(prob).sum(-1) / math.log(2)


ENTROPY_WRONG = [
    (lambda p: -(p * p.log2()).sum(-1), "NaN or infinity"),
    (lambda p: torch.special.entr(p).sum(-1), "those are nats"),
    (lambda p: torch.special.entr(p).mean(-1) / math.log(2), "sum over the outcomes"),
    (lambda p: -((p + 1e-3) * (p + 1e-3).log2()).sum(-1), "four equal outcomes have 2 bits, you give"),
    (lambda p: -(p * (p + 1e-4).log2()).sum(-1) + math.log2(1 + 4e-4), "do not shift"),
    (lambda p: torch.special.entr(p).sum() / math.log(2), "the result has shape"),
    (lambda p: (p * p.clamp(min=1e-9).log2()).sum(-1), "needs a minus sign"),
]

# --- my_kl(truth, prediction) ------------------------------------------------------------------------


def kl_by_xlogy(truth, prediction):
    log_ratio = truth.clamp(min=1e-300).log2() - prediction.log2()
    return torch.where(truth == 0, 0.0, truth * log_ratio).sum(-1)


def _kl_with_floor(p, q):
    return (p * (p.clamp(min=1e-12).log2() - q.clamp(min=1e-12).log2())).sum(-1)


KL_WRONG = [
    (lambda p, q: kl_by_xlogy(q, p), "changed places"),
    (lambda p, q: (p * (p.log2() - q.log2())).sum(-1), "makes NaN"),
    (_kl_with_floor, "the divergence is infinite"),
    (lambda p, q: -(p * q.log2()).sum(-1), "own entropy is not subtracted"),
    (lambda p, q: kl_by_xlogy(p, q) * math.log(2), "these are nats"),
    (lambda p, q: kl_by_xlogy(p, q).mean(), "the result has shape"),
]

# --- my_blind(weights, posteriors) -------------------------------------------------------------------


def blind_by_counting(weights, posteriors):
    return [sum(float(w) * float(row[y]) for w, row in zip(weights, posteriors, strict=True))
            for y in range(posteriors.shape[1])]


def _geometric(weights, posteriors):
    row = (weights[:, None] * posteriors.clamp(min=1e-30).log()).sum(0).exp()
    return row / row.sum()


BLIND_WRONG = [
    (lambda w, p: p.mean(0), "count the same"),
    (_geometric, "averaged logarithms"),
    (lambda w, p: p[w.argmax()], "the most frequent context"),
    (lambda w, p: w @ p * len(w), "divide by their sum"),
    (lambda w, p: (w**2) @ p / (w**2).sum(), "lowers that to"),
]

# --- my_noise(truth, prediction) ---------------------------------------------------------------------


def noise_by_moments(truth, prediction):
    gradients = prediction - torch.eye(len(truth), dtype=truth.dtype)
    mean = truth @ gradients
    return truth @ (gradients**2).sum(-1) - (mean**2).sum()


NOISE_WRONG = [
    (lambda p, q: 1 - (q**2).sum(), "under the prediction"),
    (lambda p, q: noise_by_moments(p, q) / len(p), "mean variance of one logit"),
    (lambda p, q: 0.0, "posterior targets"),
    (lambda p, q: noise_by_moments(p, q) + ((q - p) ** 2).sum(), "the square of the mean gradient"),
]

# --- my_two_errors(entropy, oracle) --------------------------------------------------------------------


def two_errors_by_loops(entropy, oracle):
    B, K = entropy.shape
    gap = (entropy - oracle).tolist()
    strict = sum(abs(gap[b][k]) for b in range(B) for k in range(K)) / (B * K)
    lax = sum(abs(sum(gap[b][k] for b in range(B)) / B) for k in range(K)) / K
    return strict, lax


def _two(strict, lax):
    return lambda e, o: (strict(e - o), lax(e - o))


def _strict(d):
    return d.abs().mean()


def _lax(d):
    return d.mean(0).abs().mean()


TWO_ERRORS_WRONG = [
    (_two(_lax, _strict), "changed places"),
    (_two(_lax, _lax), "before any mean"),
    (_two(_strict, _strict), "average over episodes first"),
    (_two(_strict, lambda d: d.mean().abs()), "then positions"),
    (_two(lambda d: 2 * (d**2).mean(), lambda d: 2 * (d.mean(0) ** 2).mean()), "no squares"),
]

# --- my_impostor(posterior) ----------------------------------------------------------------------------


def impostor_by_swapping_ranks(posterior):
    order = posterior.argsort(-1)
    return torch.zeros_like(posterior).scatter(-1, order, posterior.sort(-1, descending=True)[0])


IMPOSTOR_WRONG = [
    (lambda p: p, "the truth itself"),
    (lambda p: torch.full_like(p, 1 / p.shape[-1]), "which changes of a distribution"),
    (lambda p: p.flip(1), "not the positions"),
    (lambda p: 1 - p, "divide by their sum"),
    (lambda p: torch.cat([p[:, :-3], p[:, -3:].roll(1, -1)], 1), "too few of the predictions"),
]


def _uniform_like(rows):
    return torch.full_like(rows, 1 / rows.shape[-1])


ANSWERS = {
    "check_predictive": {
        "alternative": predictive_by_elimination,
        "shape_stub": lambda pairs, query, n_values: [1 / n_values] * n_values,
        "wrong": PREDICTIVE_WRONG,
    },
    "check_bayes": {
        "alternative": bayes_by_chaining,
        "shape_stub": lambda prior, likelihood, seen: _uniform_like(likelihood[0]),
        "wrong": BAYES_WRONG,
    },
    "check_entropy": {
        "alternative": entropy_by_categorical,
        "shape_stub": lambda prob: torch.zeros(prob.shape[:-1]),
        "wrong": ENTROPY_WRONG,
    },
    "check_kl": {
        "alternative": kl_by_xlogy,
        "shape_stub": lambda truth, prediction: torch.zeros(truth.shape[:-1]),
        "wrong": KL_WRONG,
    },
    "check_blind": {
        "alternative": blind_by_counting,
        "shape_stub": lambda weights, posteriors: _uniform_like(posteriors[0]),
        "wrong": BLIND_WRONG,
    },
    "check_noise": {
        "alternative": noise_by_moments,
        "shape_stub": lambda truth, prediction: 1.0,
        "wrong": NOISE_WRONG,
    },
    "check_two_errors": {
        "alternative": two_errors_by_loops,
        "shape_stub": lambda entropy, oracle: (0.0, 0.0),
        "wrong": TWO_ERRORS_WRONG,
    },
    "check_impostor": {
        "alternative": impostor_by_swapping_ranks,
        "shape_stub": torch.zeros_like,
        "wrong": IMPOSTOR_WRONG,
    },
}
