"""Stored answers to the exercises of chapter 3: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import math

import torch
from torch.nn import functional as F

# --- my_pattern(scores) -------------------------------------------------------------------------


def pattern_by_hand(scores):
    weight = (scores - scores.amax(-1, keepdim=True)).exp().tril()
    return weight / weight.sum(-1, keepdim=True)


def pattern_uniform(scores):
    allowed = torch.ones_like(scores).tril()
    return allowed / allowed.sum(-1, keepdim=True)


def _masked(scores, mask):
    return scores.masked_fill(mask, float("-inf"))


def _future(scores, diagonal=1):
    return torch.ones(scores.shape[-2:], dtype=torch.bool).triu(diagonal)


def pattern_last_row_only(scores):
    pattern = pattern_uniform(scores)
    pattern[..., -1, :] = scores[..., -1, :].softmax(-1)
    return pattern


def pattern_of_last_scores(scores):
    return _masked(scores[..., -1:, :].expand_as(scores), _future(scores)).softmax(-1)


PATTERN_WRONG = [
    (lambda s: s.softmax(-1).tril(), "before the softmax"),
    (lambda s: _masked(s, _future(s, 0)).softmax(-1), "the diagonal has to stay"),
    (lambda s: _masked(s, _future(s).T).softmax(-1), "which comes later"),
    (lambda s: _masked(s, _future(s)).softmax(-2), "the last axis"),
    (pattern_last_row_only, "not the softmax of its scores"),
    (pattern_of_last_scores, "by the last row of scores"),
    (lambda s: torch.eye(s.shape[-1], dtype=s.dtype).expand_as(s), "exp(score) is positive"),
]

# --- my_n_parameters(config) ----------------------------------------------------------------------


def n_parameters_by_shapes(c):
    D, M = c.width, c.hidden
    attention = [(D, D)] * 4
    feed_forward = [(D, M), (M, 1), (M, D), (D, 1)]
    norms = [(D, 1)] * 2
    tables = [(c.n_tokens, D), (c.n_positions, D), (D, 1)]
    shapes = tables + (attention + feed_forward + norms) * c.n_layers
    return sum(rows * columns for rows, columns in shapes)


N_PARAMETERS_WRONG = [
    (lambda c: n_parameters_by_shapes(c) + c.n_outputs * c.width, "tied"),
    (lambda c: n_parameters_by_shapes(c) - c.n_positions * c.width, "learned vector"),
    (lambda c: n_parameters_by_shapes(c) - c.n_layers * (c.hidden + c.width), "have biases"),
    (lambda c: n_parameters_by_shapes(c) - c.n_layers * c.width**2, "four square matrices"),
    (lambda c: n_parameters_by_shapes(c) - (2 * c.n_layers + 1) * c.width, "learn a gain"),
]

# --- my_loss(logits, tokens) ------------------------------------------------------------------


def loss_by_gather(logits, tokens):
    log2_prob = logits.float().log_softmax(-1)[:, ::2] / math.log(2)
    return -log2_prob.gather(-1, tokens[:, 1::2, None]).mean()


def _cross_entropy_bits(logits, labels):
    return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten()) / math.log(2)


LOSS_WRONG = [
    (lambda g, t: _cross_entropy_bits(g, t), "the label is in the input"),
    (lambda g, t: _cross_entropy_bits(g, t) * math.log(2), "in nats"),
    (lambda g, t: _cross_entropy_bits(g[:, :-1], t[:, 1:]), "score the key positions"),
    (lambda g, t: loss_by_gather(g, t) * t.shape[0], "the mean over all episodes"),
    (lambda g, t: math.log2(10) - g[:, ::2].gather(-1, t[:, 1::2, None]).mean(),
     "by a softmax first"),
]

# --- my_rate(step, steps, warmup) -------------------------------------------------------------


def rate_as_minimum(step, steps, warmup):
    return min((step + 1) / (warmup + 1), (steps - step) / (steps - warmup))


def _cosine(step, steps, warmup):
    if step < warmup:
        return (step + 1) / (warmup + 1)
    return 0.5 + 0.5 * math.cos(math.pi * (step - warmup) / (steps - warmup))


RATE_WRONG = [
    (lambda n, steps, warmup: min(n / max(warmup, 1), 1 - (n - warmup) / (steps - warmup)),
     "the first update has rate 0"),
    (lambda n, steps, warmup: min((n + 1) / (warmup + 1), 1) * (1 - n / steps),
     "already run during the warm-up"),
    (lambda n, steps, warmup: min((n + 1) / (warmup + 1), (steps - 1 - n) / (steps - 1 - warmup)),
     "the last update has rate 0"),
    (_cosine, "the descent is curved"),
    (lambda n, steps, warmup: min((n + 1) / (warmup + 1), 1.0), "stays where it is"),
]

# --- my_soft_loss(logits, posterior) ----------------------------------------------------------


def soft_loss_built_in(logits, posterior):
    nats = F.cross_entropy(logits.flatten(0, 1), posterior.to(logits.dtype).flatten(0, 1))
    return nats / math.log(2)


def _log2_softmax(logits):
    return logits.log_softmax(-1) / math.log(2)


SOFT_LOSS_WRONG = [
    (lambda g, p: (p * (p.log2() - _log2_softmax(g))).sum(-1).mean(), "the KL divergence"),
    (lambda g, p: -(p * g.log_softmax(-1)).sum(-1).mean(), "in nats"),
    (lambda g, p: -(g.softmax(-1) * p.log2()).sum(-1).mean(), "roles are swapped"),
    (lambda g, p: -(p * _log2_softmax(g)).mean(), "also runs over the outcomes"),
    (lambda g, p: -_log2_softmax(g).gather(-1, p.argmax(-1, keepdim=True)).mean(),
     "each with its own probability"),
    (lambda g, p: soft_loss_built_in(g, p).detach(), "it has no gradient"),
]

# --- my_leak(log2_prob, values) ---------------------------------------------------------------


def leak_by_loop(log2_prob, values):
    prob, total = 2.0**log2_prob, 0.0
    B, K, _ = prob.shape
    for k in range(1, K):
        total += prob[:, k].gather(1, values[:, :k]).sum()
    return total / (B * (K - 1))


def _used(values, n, own=False):
    counts = F.one_hot(values, n).cumsum(1)
    return counts > 0 if own else F.pad(counts, (0, 0, 1, 0))[:, :-1] > 0


def _leak_mean_over_used(log2_prob, values):
    used = _used(values, log2_prob.shape[-1])[:, 1:]
    return (2.0 ** log2_prob[:, 1:] * used).sum(-1).div(used.sum(-1)).mean()


LEAK_WRONG = [
    (lambda q, v: (2.0**q * _used(v, q.shape[-1])).sum(-1).mean(), "position 1 is in your mean"),
    (lambda q, v: torch.where(_used(v, q.shape[-1]), q, 0.0)[:, 1:].sum(-1).mean(),
     "undo the logarithm"),
    (lambda q, v: (2.0**q * _used(v, q.shape[-1], own=True))[:, 1:].sum(-1).mean(), "not used yet"),
    (_leak_mean_over_used, "before you average"),
]

# --- my_flops(config, batch) ------------------------------------------------------------------


def flops_by_products(c, batch):
    """Every matrix product as (rows, inner, columns), counted one by one."""
    T, D, M = c.n_positions, c.width, c.hidden
    head = D // c.n_heads
    products = [(T, D, D)] * 4 + [(T, head, T), (T, T, head)] * c.n_heads + [(T, D, M), (T, M, D)]
    products = products * c.n_layers + [(len(c.scored), D, c.n_outputs)]
    return 3 * batch * sum(2 * rows * inner * columns for rows, inner, columns in products)


FLOPS_WRONG = [
    (lambda c, b: flops_by_products(c, b) // 3, "the forward pass alone"),
    (lambda c, b: flops_by_products(c, b) // 2, "are two operations"),
    (lambda c, b: flops_by_products(c, b) - 12 * b * c.n_layers * c.n_positions**2 * c.width,
     "attention itself is missing"),
    (lambda c, b: flops_by_products(c, b) - 6 * b * len(c.scored) * c.n_outputs * c.width,
     "the readout is missing"),
]

# --- my_reach(n_values, k, episodes) ----------------------------------------------------------


def reach_by_perm(n_values, k, episodes):
    number = math.perm(n_values, k)
    return 1.0 if number == 1 else -math.expm1(episodes * math.log1p(-1 / number))


REACH_WRONG = [
    (lambda v, k, n: -math.expm1(n * math.log1p(-1 / v**k)) if k else 1.0,
     "no value is used twice"),
    (lambda v, k, n: n / math.perm(v, k), "do not simply add up"),
    (lambda v, k, n: -math.expm1(n * math.log1p(-1 / math.factorial(v))),
     "the whole bijection again"),
    (lambda v, k, n: 1 - (1 - 1 / math.perm(v, k)) ** n, "loses all digits"),
]

ANSWERS = {
    "check_pattern": {
        "alternative": pattern_by_hand, "shape_stub": pattern_uniform, "wrong": PATTERN_WRONG,
    },
    "check_n_parameters": {
        "alternative": n_parameters_by_shapes, "shape_stub": lambda config: 0,
        "wrong": N_PARAMETERS_WRONG,
    },
    "check_loss": {
        "alternative": loss_by_gather, "shape_stub": lambda logits, tokens: logits.mean() * 0.0,
        "wrong": LOSS_WRONG,
    },
    "check_rate": {
        "alternative": rate_as_minimum, "shape_stub": lambda step, steps, warmup: 1.0,
        "wrong": RATE_WRONG,
    },
    "check_soft_loss": {
        "alternative": soft_loss_built_in,
        "shape_stub": lambda logits, posterior: logits.mean() * 0.0,
        "wrong": SOFT_LOSS_WRONG,
    },
    "check_leak": {
        "alternative": leak_by_loop, "shape_stub": lambda log2_prob, values: 0.0,
        "wrong": LEAK_WRONG,
    },
    "check_flops": {
        "alternative": flops_by_products, "shape_stub": lambda config, batch: 0,
        "wrong": FLOPS_WRONG,
    },
    "check_reach": {
        "alternative": reach_by_perm, "shape_stub": lambda n_values, k, episodes: 0.5,
        "wrong": REACH_WRONG,
    },
}
