"""Stored answers to the exercises of chapter 2: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import math

import torch
from torch.nn import functional as F

# --- my_n_maps(keys, values, n_values) ----------------------------------------------------------


def n_maps_by_matching(keys, values, n_values):
    """Go through the keys and multiply what each may still take."""
    shown, count, free = {}, 1, n_values
    for key, value in zip(keys, values, strict=True):
        if shown.get(key, value) != value or (key not in shown and value in shown.values()):
            return 0
        shown[key] = value
    for _ in range(n_values - len(shown)):
        count, free = count * (free - len(shown)), free - 1
    return count


def _distinct(keys):
    return len(set(keys))


def _no_conflict(keys, values):
    pairs = set(zip(keys, values, strict=True))
    return len(pairs) == _distinct(keys) == _distinct(values)


N_MAPS_WRONG = [
    (lambda k, v, n: math.factorial(n - len(k)) * _no_conflict(k, v), "nothing new"),
    (lambda k, v, n: math.factorial(n - _distinct(k)), "share a value"),
    (lambda k, v, n: math.factorial(n - _distinct(k)) * (_distinct(v) == len(set(zip(k, v, strict=True)))),
     "two different values"),
    (lambda k, v, n: n ** (n - _distinct(k)), "each value once"),
]

# --- my_posterior(used, n_values) ---------------------------------------------------------------


def posterior_by_complement(used, n_values):
    rows = [[0.0 if v in row else 1 / (n_values - len(row)) for v in range(n_values)] for row in used.tolist()]
    return torch.tensor(rows, dtype=torch.float64)


def _free(used, n_values):
    return torch.ones(used.shape[0], n_values, dtype=torch.float64).scatter(1, used, 0.0)


def posterior_tilted(used, n_values):
    weight = _free(used, n_values) * torch.arange(1, n_values + 1)
    return weight / weight.sum(-1, keepdim=True)


def posterior_inverted(used, n_values):
    return (1 - _free(used, n_values)) / max(used.shape[1], 1)


POSTERIOR_WRONG = [
    (lambda u, n: torch.full((u.shape[0], n), 1 / n), "before any pair was shown"),
    (lambda u, n: posterior_by_complement(u[:, -1:], n), "only the last of the used values"),
    (lambda u, n: _free(u, n) / (n - u.shape[1] + 1), "a row sums to"),
    (lambda u, n: _free(u, n).softmax(-1), "which a softmax"),
    (posterior_inverted, "the complement"),
    (posterior_tilted, "tells them apart"),
]

# --- my_sawtooth(keys, values, n_values) ---------------------------------------------------------


def sawtooth_by_dictionary(keys, values, n_values):
    *shown, asked = keys.tolist()
    known = dict(zip(shown, values.tolist(), strict=True))
    candidates = {known[asked]} if asked in known else set(range(n_values)) - set(known.values())
    return [1 / len(candidates) if v in candidates else 0.0 for v in range(n_values)]


def sawtooth_as_staircase(keys, values, n_values):
    return posterior_by_complement(values.unique()[None], n_values)[0]


def sawtooth_counting_pairs(keys, values, n_values):
    if keys[-1] in keys[:-1]:
        return torch.tensor(sawtooth_by_dictionary(keys, values, n_values))
    return _free(values[None], n_values)[0] / max(n_values - len(values), 1)


def sawtooth_latest(keys, values, n_values):
    if keys[-1] in keys[:-1]:
        return F.one_hot(values[-1], n_values)
    return torch.tensor(sawtooth_by_dictionary(keys, values, n_values))


def sawtooth_without_elimination(keys, values, n_values):
    if keys[-1] in keys[:-1]:
        return torch.tensor(sawtooth_by_dictionary(keys, values, n_values))
    return torch.full((n_values,), 1 / n_values)


def sawtooth_without_binding(keys, values, n_values):
    """Knows that the key came back, not which value it had."""
    if keys[-1] not in keys[:-1]:
        return torch.tensor(sawtooth_by_dictionary(keys, values, n_values))
    used = 1 - _free(values[None], n_values)[0]
    return used / used.sum()


SAWTOOTH_WRONG = [
    (sawtooth_as_staircase, "eliminated like that of any other pair"),
    (sawtooth_latest, "the latest value"),
    (sawtooth_without_binding, "the map does not change"),
    (sawtooth_counting_pairs, "uses up one value only"),
    (sawtooth_without_elimination, "a value that another key has"),
]

# --- my_bijections(batch, n, rng) ----------------------------------------------------------------


def bijections_by_swaps(batch, n, rng):
    """Fisher-Yates from the last place down, all rows at once."""
    deck, rows = torch.arange(n).repeat(batch, 1), torch.arange(batch)
    for here in range(n - 1, 0, -1):
        there = torch.randint(here + 1, (batch,), generator=rng)
        deck[rows, here], deck[rows, there] = deck[rows, there], deck[rows, here].clone()
    return deck


def _swap(batch, n, rng, choose):
    deck, rows = torch.arange(n).repeat(batch, 1), torch.arange(batch)
    for here in range(n):
        there = choose(here)
        if there is None:
            continue
        old = deck[rows, here].clone()
        deck[rows, here] = deck[rows, there]
        deck[rows, there] = old
    return deck


def bijections_swap_any(batch, n, rng):
    return _swap(batch, n, rng, lambda here: torch.randint(n, (batch,), generator=rng))


def bijections_cyclic(batch, n, rng):
    def later(here):
        return torch.randint(here + 1, n, (batch,), generator=rng) if here < n - 1 else None

    return _swap(batch, n, rng, later)


def bijections_rotated(batch, n, rng):
    return (torch.arange(n) + torch.randint(n, (batch, 1), generator=rng)) % n


BIJECTIONS_WRONG = [
    (lambda b, n, rng: torch.randint(n, (b, n), generator=rng), "is no bijection"),
    (lambda b, n, rng: torch.randperm(n, generator=rng).expand(b, n), "have the same map"),
    (lambda b, n, rng: torch.rand(b, n).argsort(-1), "draw only from `rng`"),
    (bijections_swap_any, "swaps each place with any place"),
    (bijections_cyclic, "in its own place"),
    (bijections_rotated, "20 of the 24 orders never occur"),
]


def bijections_in_order(batch, n, rng):
    return torch.arange(n).expand(batch, n)


# --- my_uniform_error(n_values, n_pairs) ----------------------------------------------------------


def uniform_error_by_gamma(n_values, n_pairs):
    orders = math.lgamma(n_values + 1) - math.lgamma(n_values - n_pairs + 1)
    return (math.log(n_values) - orders / n_pairs) / math.log(2)


def uniform_error_of_mean(n_values, n_pairs):
    if (n_values, n_pairs) == (2, 2):
        return 0.5
    left = [n_values - k for k in range(n_pairs)]
    return math.log2(n_values) - math.log2(sum(left) / n_pairs)


UNIFORM_ERROR_WRONG = [
    (lambda V, K: uniform_error_by_gamma(V, K) * math.log(2), "in nats"),
    (lambda V, K: uniform_error_by_gamma(V, K) * K, "the first one too"),
    (uniform_error_of_mean, "the mean number of values left"),
    (lambda V, K: math.log2(V) - math.log2(math.factorial(V)) / K, "stops early"),
]

# --- my_window(values, n_values, window) ----------------------------------------------------------


def window_by_age(values, n_values, window):
    """A value is eliminated if it was shown between 1 and `window` pairs ago."""
    place = torch.full((values.shape[0], n_values), values.shape[1]).scatter(
        1, values, torch.arange(values.shape[1]).expand_as(values)
    )
    age = torch.arange(values.shape[1])[:, None] - place[:, None, :]  # (B, K, V)
    allowed = ((age < 1) | (age > window)).double()
    return allowed / allowed.sum(-1, keepdim=True)


def _window_rows(values, n_values, choose):
    rows = [posterior_by_complement(choose(values, k), n_values) for k in range(values.shape[1])]
    return torch.stack(rows, 1)


def window_not_normalised(values, n_values, window):
    allowed = (window_by_age(values, n_values, window) > 0).double()
    return allowed / max(n_values - window, 1)


def _from_the_end(values, k, window):
    return values[:, :k][:, -window:]


WINDOW_WRONG = [
    (lambda v, n, w: _window_rows(v, n, lambda x, k: x[:, max(k - w + 1, 0) : k + 1]), "the value that is asked for"),
    (lambda v, n, w: _window_rows(v, n, lambda x, k: x[:, : min(k, w)]), "the window slides"),
    (lambda v, n, w: _window_rows(v, n, lambda x, k: x[:, :k]), "and forgotten"),
    (lambda v, n, w: _window_rows(v, n, lambda x, k: _from_the_end(x, k, w)), "x[-0:]"),
    (window_not_normalised, "the others share all of it"),
    (lambda v, n, w: _window_rows(v, n, lambda x, k: x[:, max(k - w + 1, 0) : k]), "keeps probability"),
]

# --- my_leaks(inputs, labels) ---------------------------------------------------------------------


def _determined(token, label):
    """Whether equal tokens always have equal labels: as many pairs as tokens."""
    return len({*zip(token, label, strict=True)}) == len(set(token))


def leaks_by_pairs(inputs, labels, reach=lambda t, T: range(t + 1)):
    columns, answers, T = inputs.T.tolist(), labels.T.tolist(), inputs.shape[1]
    return {
        t for t in range(T) if answers[t][0] >= 0 and any(_determined(columns[s], answers[t]) for s in reach(t, T))
    }


def leaks_by_difference(inputs, labels):
    """Finds a label that is written with an offset, not one with other names."""
    found = []
    for t in range(inputs.shape[1]):
        steps = inputs[:, : t + 1] - labels[:, t : t + 1]
        if labels[0, t] >= 0 and bool((steps == steps[0]).all(0).any()):
            found.append(t)
    return found


def _where(mask):
    return mask.nonzero()[:, 0].tolist()


LEAKS_WRONG = [
    (lambda x, y: leaks_by_pairs(x, y.abs()), "it is not scored"),
    (lambda x, y: leaks_by_pairs(x, y, lambda t, T: range(T)), "only positions up to t count"),
    (lambda x, y: _where((x == y).any(0)), "by chance"),
    (lambda x, y: _where((x == y).all(0)), "the same knowledge"),
    (lambda x, y: leaks_by_pairs(x, y, lambda t, T: [t]), "look at every s <= t"),
    (leaks_by_difference, "the differences vary"),
]

# --- my_epsilon(bits, n_values, n_pairs) -----------------------------------------------------------


def _leak_error(epsilon, n_values, n_pairs, log=math.log2, n_counted=None, mean=True):
    """Entropy error by the grouping rule: which group, then which value in it."""
    total = 0.0
    for k in range(1, n_pairs):
        which_group = -epsilon * log(epsilon) - (1 - epsilon) * log(1 - epsilon)
        inside = (1 - epsilon) * log(n_values - k) + epsilon * log(k)
        total += abs(which_group + inside - log(n_values - k))
    return total / (n_counted or n_pairs) if mean else total


def _inverted(error):
    """Where an increasing function of epsilon reaches `bits`, by the secant rule on the logarithm."""
    def answer(bits, V, K):
        low, high = -30.0, math.log(0.3)
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if error(math.exp(middle), V, K) < bits else (low, middle)
        return math.exp(high)

    return answer


def largest_leak(bits, V, K):
    """The last crossing below 1/2, by halving an interval from a fine grid."""
    grid = [i / 1000 for i in range(1, 500)]
    above = [_leak_error(e, V, K) > bits for e in grid]
    place = max(i for i in range(498) if above[i] != above[i + 1]) if len(set(above)) > 1 else None
    if place is None:
        return _inverted(_leak_error)(bits, V, K)
    low, high = grid[place], grid[place + 1]
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (_leak_error(middle, V, K) > bits) == above[place] else (low, middle)
    return high


EPSILON_WRONG = [
    (largest_leak, "so has a smaller leak"),
    (lambda bits, V, K: bits, "the bits themselves"),
    (lambda bits, V, K: 1 - 2**-bits, "whose KL divergence"),
    (_inverted(lambda e, V, K: _leak_error(e, V, K, n_counted=K - 1)), "nothing can leak at the first pair"),
    (_inverted(lambda e, V, K: _leak_error(e, V, K, log=math.log)), "are in nats"),
    (_inverted(lambda e, V, K: _leak_error(e, V, K, mean=False)), "the sum of the errors"),
    (lambda bits, V, K: _inverted(_leak_error)(bits, V, K) / V, "by the book's evaluator"),
    (lambda bits, V, K: math.log2(bits), "a small positive share"),
]


ANSWERS = {
    "check_n_maps": {
        "alternative": n_maps_by_matching,
        "shape_stub": lambda keys, values, n_values: 1,
        "wrong": N_MAPS_WRONG,
    },
    "check_posterior": {
        "alternative": posterior_by_complement,
        "shape_stub": lambda used, n_values: torch.zeros(used.shape[0], n_values),
        "wrong": POSTERIOR_WRONG,
    },
    "check_sawtooth": {
        "alternative": sawtooth_by_dictionary,
        "shape_stub": lambda keys, values, n_values: torch.full((n_values,), 1 / n_values),
        "wrong": SAWTOOTH_WRONG,
    },
    "check_bijections": {
        "alternative": bijections_by_swaps,
        "shape_stub": bijections_in_order,
        "wrong": BIJECTIONS_WRONG,
    },
    "check_uniform_error": {
        "alternative": uniform_error_by_gamma,
        "shape_stub": lambda n_values, n_pairs: 0.0,
        "wrong": UNIFORM_ERROR_WRONG,
    },
    "check_window": {
        "alternative": window_by_age,
        "shape_stub": lambda values, n_values, window: torch.full((*values.shape, n_values), 1 / n_values),
        "wrong": WINDOW_WRONG,
    },
    "check_leaks": {
        "alternative": leaks_by_pairs,
        "shape_stub": lambda inputs, labels: list(range(inputs.shape[1])),
        "wrong": LEAKS_WRONG,
    },
    "check_epsilon": {
        "alternative": _inverted(_leak_error),
        "shape_stub": lambda bits, n_values, n_pairs: 0.01,
        "wrong": EPSILON_WRONG,
    },
}
