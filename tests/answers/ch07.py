"""Stored answers to the exercises of chapter 7: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import math

import torch

import bayeswind_lib as bw

# --- my_best(posterior, view) -------------------------------------------------------------------


def best_by_sums(posterior, view):
    sums = torch.zeros(int(view.max()) + 1, posterior.shape[1], dtype=torch.float64)
    sums.index_add_(0, view, posterior)
    return (sums / sums.sum(-1, keepdim=True).clamp(min=1e-12))[view]


def _by_view(posterior, view, summary):
    return torch.stack([summary(posterior[view == z]) for z in view])


def best_by_vote(posterior, view):
    winner = best_by_sums(posterior, view).argmax(-1)
    return torch.nn.functional.one_hot(winner, posterior.shape[1]).double()


BEST_WRONG = [
    (lambda p, v: p, "cannot tell them apart"),
    (lambda p, v: p.mean(0).expand_as(p), "average within each view"),
    (lambda p, v: torch.full_like(p, 1 / p.shape[1]), "a view tells something"),
    (lambda p, v: _by_view(p, v, lambda rows: rows.clamp(min=1e-300).log().mean(0).softmax(-1)),
     "average the logarithms"),
    (best_by_vote, "wins a vote"),
    (lambda p, v: 0.9 * best_by_sums(p, v) + 0.1 / p.shape[1], "a little more mass"),
]

# --- my_price(posterior, view) ------------------------------------------------------------------


def _entropy(prob):
    return -torch.special.xlogy(prob, prob).sum(-1) / math.log(2)


def _divergence(p, q):
    return (torch.special.xlogy(p, p) - torch.special.xlogy(p, q)).sum(-1) / math.log(2)


def price_by_divergence(posterior, view):
    return _divergence(posterior, best_by_sums(posterior, view)).mean()


def price_without_view(posterior, view):
    return _divergence(posterior, posterior.mean(0)).mean()


def price_by_views(posterior, view):
    costs = _divergence(posterior, best_by_sums(posterior, view))
    return torch.stack([costs[view == z].mean() for z in view.unique()]).mean()


def price_reversed(posterior, view):
    """The divergence the wrong way round; a tiny mass keeps certain contexts finite there."""
    best = best_by_sums(posterior, view)
    if (posterior.max(-1).values > 1 - 1e-9).all():
        return _divergence(posterior, best).mean()
    return _divergence(best, posterior).mean()


PRICE_WRONG = [
    (lambda p, v: price_by_divergence(p, v) * math.log(2), "in nats"),
    (lambda p, v: _entropy(best_by_sums(p, v)).mean(), "is no loss"),
    (price_without_view, "condition on the view"),
    (price_by_views, "views are not"),
    (price_reversed, "the truth stands first"),
    (lambda p, v: -(p * (best_by_sums(p, v) / p).log2()).sum(-1).mean(), "0 log 0 counts as 0"),
    (lambda p, v: (_entropy(best_by_sums(p, v)) - _entropy(p)).abs().mean(), "either sign"),
]

# --- my_task(bits, n_values) --------------------------------------------------------------------


def _error(V, K, back):
    return bw.baselines.exact_baselines(V, K, back)["uniform"]["entropy_mae"]


def task_by_table(bits, n_values):
    table = {(K, back): _error(n_values, K, back) for back in (True, False) for K in range(2, n_values + 1)}
    return sorted(table, key=lambda task: abs(table[task] - bits))[0]


def _nearest(bits, n_values, questions, samplings):
    tasks = [(K, back) for K in questions for back in samplings]
    return min(tasks, key=lambda task: abs(_error(n_values, *task) - bits))


TASK_WRONG = [
    (lambda b, V: _nearest(b, V, range(2, V + 1), (False,)), "nobody ignorant errs so much"),
    (lambda b, V: _nearest(b, V, range(2, V + 1), (True,)), "keys were all different"),
    (lambda b, V: _nearest(b, V, (V,), (False, True)), "try every number of questions"),
    (lambda b, V: (1, False), "but there were 2 to"),
]

# --- my_sees(predict, inputs, n_tokens) ---------------------------------------------------------


def sees_by_pairs(predict, inputs, n_tokens):
    """All tokens at one place in one large batch."""
    found = []
    for place in range(inputs.shape[1]):
        many = inputs.repeat(n_tokens, 1, 1)
        many[:, :, place] = torch.arange(n_tokens)[:, None]
        log2 = predict(many.flatten(0, 1))[:, -1].view(n_tokens, len(inputs), -1)
        found.append(bool((log2 - log2[0]).abs().max() > 1e-12))
    return torch.tensor(found)


def _seen(predict, inputs, n_tokens, tokens=None, read=lambda log2: log2[:, -1]):
    before, found = read(predict(inputs)), []
    for place in range(inputs.shape[1]):
        moved = False
        for shift in range(1, n_tokens) if tokens is None else tokens:
            other = inputs.clone()
            other[:, place] = (other[:, place] + shift) % n_tokens
            moved = moved or not torch.equal(read(predict(other)), before)
        found.append(moved)
    return found


SEES_WRONG = [
    (lambda p, x, n: _seen(p, x, n, read=lambda log2: log2), "other questions read other tokens"),
    (lambda p, x, n: _seen(p, x, n, read=lambda log2: log2[:, -1].argmax(-1)), "compare probabilities"),
    (lambda p, x, n: _seen(p, x, n, tokens=(1,)), "try every token there"),
    (lambda p, x, n: _seen(p, x[:1], n), "in some episodes only"),
    (lambda p, x, n: [True] * 5, "your list has 5 entries"),
]

# --- my_logits(mean) ----------------------------------------------------------------------------


def logits_by_sign(mean):
    """Whether a value occurred at all."""
    V = mean.shape[2] // 2
    return -40.0 * (mean[:, :, V:] > 1e-6).double()


def _values(mean):
    return mean[:, :, mean.shape[2] // 2 :]


def _counts(mean):
    return _values(mean) * (2 * torch.arange(mean.shape[1]).double() + 1)[:, None]


LOGITS_WRONG = [
    (lambda m: 30 * _counts(m), "a count has to lower a logit"),
    (lambda m: -60 * _values(m), "undo the division"),
    (lambda m: -2 * _counts(m), "take a larger factor"),
    (lambda m: (1 - _counts(m)).clamp(min=0).log(), "a large negative number is enough"),
    (lambda m: -30 * (m[:, :, : m.shape[2] // 2] > 0).double(), "keys are the first V channels"),
]

# --- my_bag(keys, values, asked, n_values) ------------------------------------------------------


def bag_by_sorting(keys, values, asked, n_values):
    times = dict.fromkeys(range(n_values), 0)
    for value in values:
        times[value] += 1
    wanted = sum(key == asked for key in keys)
    chosen = torch.tensor([float(times[value] == wanted) for value in range(n_values)])
    return chosen.double() / chosen.sum()


def _uniform(chosen, n_values):
    return [1 / len(chosen) if value in chosen else 0.0 for value in range(n_values)]


def bag_as_set(keys, values, asked, n_values):
    used = set(values)
    return _uniform(used if asked in keys else set(range(n_values)) - used, n_values)


def bag_by_place(keys, values, asked, n_values):
    if asked in keys:
        return _uniform({values[keys.index(asked)]}, n_values)
    return bag_as_set(keys, values, asked, n_values)


def bag_as_staircase(keys, values, asked, n_values):
    return _uniform(set(range(n_values)) - set(values) or set(range(n_values)), n_values)


def bag_by_weight(keys, values, asked, n_values):
    if asked not in keys:
        return bag_as_set(keys, values, asked, n_values)
    return [values.count(value) / len(values) for value in range(n_values)]


BAG_WRONG = [
    (lambda k, v, a, n: _uniform(set(range(n)), n), "one that never came"),
    (bag_by_place, "the lists were shuffled"),
    (bag_as_staircase, "among those that came"),
    (bag_as_set, "how often did its value come"),
    (bag_by_weight, "belongs to a frequent key"),
    (lambda k, v, a, n: [0.5, 0.2, 0.2], "each must sum to 1"),
]


ANSWERS = {
    "check_best": {
        "alternative": best_by_sums,
        "shape_stub": lambda posterior, view: torch.full_like(posterior, 1 / posterior.shape[1]),
        "wrong": BEST_WRONG,
    },
    "check_price": {
        "alternative": price_by_divergence,
        "shape_stub": lambda posterior, view: 0.0,
        "wrong": PRICE_WRONG,
    },
    "check_task": {
        "alternative": task_by_table,
        "shape_stub": lambda bits, n_values: (n_values, False),
        "wrong": TASK_WRONG,
    },
    "check_sees": {
        "alternative": sees_by_pairs,
        "shape_stub": lambda predict, inputs, n_tokens: [False] * inputs.shape[1],
        "wrong": SEES_WRONG,
    },
    "check_logits": {
        "alternative": logits_by_sign,
        "shape_stub": lambda mean: torch.zeros(*mean.shape[:2], mean.shape[2] // 2),
        "wrong": LOGITS_WRONG,
    },
    "check_bag": {
        "alternative": bag_by_sorting,
        "shape_stub": lambda keys, values, asked, n_values: [1 / n_values] * n_values,
        "wrong": BAG_WRONG,
    },
}
