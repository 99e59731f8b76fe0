"""Stored answers to the exercises of chapter 2: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import math
from itertools import permutations

import torch
from torch.nn import functional as F

import bayeswind_lib as bw

# --- my_noisy(keys, values, asked, n_values, epsilon) --------------------------------------------


def _maps(n_values):
    return torch.tensor(list(permutations(range(n_values))))  # (V!, V)


def noisy_by_logarithms(keys, values, asked, n_values, epsilon, wrong=None, bag=lambda pairs: pairs):
    """All maps at once, their weights as logarithms."""
    maps, pairs = _maps(n_values), bag(list(zip(keys, values, strict=True)))
    log = torch.zeros(len(maps), dtype=torch.float64)
    for key, value in pairs:
        miss = epsilon / (n_values - 1) if wrong is None else wrong
        log += torch.where(maps[:, key] == value, 1 - epsilon, miss).double().log()
    weight = log.softmax(0)
    return torch.stack([weight[maps[:, asked] == v].sum() for v in range(n_values)])


def noisy_undivided(keys, values, asked, n_values, epsilon):
    return noisy_by_logarithms(keys, values, asked, n_values, epsilon, wrong=epsilon)


def noisy_as_if_right(keys, values, asked, n_values, epsilon):
    clean = dict(zip(keys, values, strict=True))
    if len(set(clean.values())) < len(clean):
        return torch.full((n_values,), 1 / n_values)
    return noisy_by_logarithms(list(clean), list(clean.values()), asked, n_values, 0.0)


def noisy_as_shown(keys, values, asked, n_values, epsilon):
    true = noisy_by_logarithms(keys, values, asked, n_values, epsilon)
    return (1 - epsilon) * true + epsilon * (1 - true) / (n_values - 1)


def noisy_key_by_key(keys, values, asked, n_values, epsilon):
    """Forgets that no two keys have one value."""
    row = torch.ones(n_values, dtype=torch.float64)
    for key, value in zip(keys, values, strict=True):
        if key == asked:
            hit = F.one_hot(torch.tensor(value), n_values).bool()
            row *= torch.where(hit, 1 - epsilon, epsilon / (n_values - 1))
    return row / row.sum()


def noisy_pairs_once(keys, values, asked, n_values, epsilon):
    return noisy_by_logarithms(keys, values, asked, n_values, epsilon, bag=set)


def noisy_votes(keys, values, asked, n_values, epsilon):
    """The posterior, not divided by its sum."""
    maps = _maps(n_values)
    weight = torch.ones(len(maps), dtype=torch.float64)
    for key, value in zip(keys, values, strict=True):
        weight *= torch.where(maps[:, key] == value, 1 - epsilon, epsilon / (n_values - 1))
    return torch.stack([weight[maps[:, asked] == v].sum() for v in range(n_values)])


NOISY_WRONG = [
    (noisy_undivided, "one of V - 1"),
    (noisy_as_if_right, "does not rule the other maps out"),
    (noisy_as_shown, "asked is the true value"),
    (noisy_key_by_key, "key 1 probably has not"),
    (noisy_pairs_once, "shown twice counts twice"),
    (noisy_votes, "divide by the total weight"),
]

# --- my_partner(mapping, a, b) -------------------------------------------------------------------


def partner_by_renaming_keys(mapping, a, b):
    return [mapping[{a: b, b: a}.get(key, key)] for key in range(len(mapping))]


def partner_of_values(mapping, a, b):
    return [{a: b, b: a}.get(value, value) for value in mapping]


def partner_overwritten(mapping, a, b):
    mapping[a] = mapping[b]
    mapping[b] = mapping[a]
    return mapping


def partner_rotated(mapping, a, b):
    return mapping[1:] + mapping[:1]


def partner_of_the_others(mapping, a, b):
    rest = [key for key in range(len(mapping)) if key not in (a, b)]
    out = list(mapping)
    for key, other in zip(rest, rest[::-1], strict=True):
        out[key] = mapping[other]
    return out


PARTNER_WRONG = [
    (partner_of_values, "exchange the values that the *keys*"),
    (partner_overwritten, "that is no bijection"),
    (partner_rotated, "the forecast there could change"),
    (partner_of_the_others, "exchange what they have"),
    (lambda mapping, a, b: mapping, "the map itself"),
]

# --- my_head(n_values) ---------------------------------------------------------------------------


def head_with_wide_vectors(n_values, push=-1e4, key=0.0, query=1.0, bias=0.0, drop=0):
    """Value vectors that push themselves, and an output map that copies; attention of 3 channels."""
    value = push * torch.eye(n_values + 1, n_values)
    value[-1, 0] = bias
    value[:drop] = 0
    W_K = torch.zeros(n_values + 1, 3)
    W_K[:n_values, 0] = key * torch.arange(n_values)
    return torch.full((n_values + 1, 3), query), W_K, value, torch.eye(n_values)


def head_of_the_wrong_shape(n_values):
    return torch.zeros(n_values, 1), torch.zeros(n_values, 1), torch.eye(n_values), -torch.eye(n_values)


HEAD_WRONG = [
    (lambda n: head_with_wide_vectors(n, push=1e4), "mind the sign"),
    (lambda n: head_with_wide_vectors(n, push=-5.0), "push harder"),
    (lambda n: head_with_wide_vectors(n, push=-300.0, key=12.0), "hardly read"),
    (lambda n: head_with_wide_vectors(n, bias=50.0), "the question token passes on"),
    (head_of_the_wrong_shape, "the matrices have shapes"),
]

# --- my_bits(predict, n_values, n_episodes, rng) -------------------------------------------------


def _both(predict, n_values, n_episodes, rng):
    tunnel = bw.tunnels.Bijection(n_values)
    episodes = tunnel.sample(n_episodes, rng)
    return episodes.posterior, predict(episodes.inputs).double()


def bits_by_masks(predict, n_values, n_episodes, rng, log=torch.log2, reduce=torch.sum):
    truth, said = _both(predict, n_values, n_episodes, rng)
    some = truth > 0
    parts = torch.zeros_like(truth)
    base = log(torch.tensor(2.0))
    parts[some] = truth[some] * (log(truth[some]) - said[some] * base)
    return reduce(parts, -1).mean(0)


def bits_reversed(predict, n_values, n_episodes, rng):
    truth, said = _both(predict, n_values, n_episodes, rng)
    prob = said.exp2()
    return torch.where(prob > 0, prob * (said - truth.log2()), 0.0).sum(-1).mean(0)


def bits_of_entropies(predict, n_values, n_episodes, rng):
    truth, said = _both(predict, n_values, n_episodes, rng)
    return (bw.scoring.entropy_bits(said) - bw.scoring.entropy_bits(truth.log2())).abs().mean(0)


def bits_with_zeros(predict, n_values, n_episodes, rng):
    truth, said = _both(predict, n_values, n_episodes, rng)
    return (truth * (truth.log2() - said)).sum(-1).mean(0)


def bits_crossed(predict, n_values, n_episodes, rng):
    truth, said = _both(predict, n_values, n_episodes, rng)
    return -torch.where(truth > 0, truth * said, 0.0).sum(-1).mean(0)


BITS_WRONG = [
    (bits_reversed, "not over the prediction"),
    (bits_of_entropies, "entropies alone do not tell"),
    (bits_with_zeros, "0 times the logarithm of 0"),
    (bits_crossed, "a divergence from itself is 0"),
    (lambda *a: bits_by_masks(*a, log=torch.log), "the same in nats"),
    (lambda *a: bits_by_masks(*a, reduce=torch.mean), "KL is a sum over them"),
    (lambda *a: bits_by_masks(*a).mean(), "one number a question"),
]

# --- my_control(predict, n_values, rng) ----------------------------------------------------------


def _answers(predict, n_values, rng, keys=None, values=None):
    """Values shown (B, V) and what is predicted (B, V, V), on 64 random episodes."""
    keys = torch.rand(64, n_values, generator=rng).argsort(-1) if keys is None else keys
    values = torch.rand(64, n_values, generator=rng).argsort(-1) if values is None else values
    tokens = torch.stack([keys, values + n_values], -1).flatten(1)[:, :-1]
    return values, predict(tokens).exp2().double()


def _on_shown(values, prob, last=None):
    """The largest mean mass on what was shown before (its last few), over questions."""
    masses = []
    for k in range(1, values.shape[1]):
        seen = values[:, 0 if last is None else max(k - last, 0) : k]
        masses.append(float(prob[:, k].gather(1, seen).sum(-1).mean()))
    return max(masses)


def _keeps_the_rest(values, prob):
    low = [float(prob[:, k].gather(1, values[:, k:]).min(1).values.mean() * (values.shape[1] - k)) for k in range(values.shape[1])]
    return min(low) > 0.5


def control_by_intervention(predict, n_values, rng):
    """Show one value or another in the same place; mass has to leave the one and come to the other."""
    keys = torch.rand(200, n_values, generator=rng).argsort(-1)
    values = torch.rand(200, n_values, generator=rng).argsort(-1)
    rows = torch.arange(200)
    for k in range(1, n_values):
        place = torch.randint(k, (200,), generator=rng)
        other = values.clone()
        one, two = values[rows, place].clone(), values[:, k].clone()
        other[rows, place], other[:, k] = two, one
        _, before = _answers(predict, n_values, rng, keys, values)
        _, after = _answers(predict, n_values, rng, keys, other)
        fair = 1 / (n_values - k)
        for free, prob in ((two, before), (one, after)):
            gone = one if prob is before else two
            if prob[rows, k, free].quantile(0.1) < fair / 2 or prob[rows, k, gone].mean() > fair / 5:
                return False
    return True


def control_by_entropy(predict, n_values, rng):
    _, prob = _answers(predict, n_values, rng)
    entropy = -torch.xlogy(prob, prob).sum(-1) / math.log(2)
    stairs = torch.arange(n_values, 0, -1).double().log2()
    return bool((entropy.mean(0) - stairs).abs().max() < 0.1)


def control_by_sensitivity(predict, n_values, rng):
    """Whether an answer changes with the value shown just before it, in a predictor that repeats itself."""
    values, prob = _answers(predict, n_values, rng)
    keys = torch.arange(n_values).expand(64, -1)
    _, first = _answers(predict, n_values, rng, keys, values)
    _, again = _answers(predict, n_values, rng, keys, values)
    _, moved = _answers(predict, n_values, rng, keys, values.roll(1, 1))
    return bool(torch.equal(first, again) and (first[:, -1] - moved[:, -1]).abs().max() > 0.1)


def control_of_the_latest(predict, n_values, rng):
    values, prob = _answers(predict, n_values, rng)
    return _on_shown(values, prob, last=1) < 0.05


def control_with_one_map(predict, n_values, rng):
    keys = torch.rand(64, n_values, generator=rng).argsort(-1)
    values, prob = _answers(predict, n_values, rng, keys, keys)
    return _on_shown(values, prob) < 0.1 and _keeps_the_rest(values, prob)


def control_of_the_shown(predict, n_values, rng):
    values, prob = _answers(predict, n_values, rng)
    return _on_shown(values, prob) < 0.1


def control_without_tolerance(predict, n_values, rng):
    values, prob = _answers(predict, n_values, rng)
    return _on_shown(values, prob) < 1e-9 and _keeps_the_rest(values, prob)


def control_with_little_tolerance(predict, n_values, rng):
    """Gets the leaky oracle through by its mean, and stumbles over a network's worst case."""
    values, prob = _answers(predict, n_values, rng)
    largest = [float(prob[:, k].gather(1, values[:, k:]).amax() * (n_values - k)) for k in range(n_values)]
    return _on_shown(values, prob) < 0.0101 and _keeps_the_rest(values, prob) and max(largest) < 1.0001


CONTROL_WRONG = [
    (control_by_entropy, "counts positions"),
    (control_by_sensitivity, "rules out another value"),
    (control_of_the_latest, "the last three values"),
    (control_with_one_map, "the numbers of the keys"),
    (control_of_the_shown, "certain of one unused value"),
    (control_without_tolerance, "leave room for small errors"),
    (control_with_little_tolerance, "its tolerance is too small"),
    (lambda *a: True, "eliminates nothing"),
    (lambda *a: False, "rejects the exact posterior"),
]

# --- my_window(values, n_values, window) ----------------------------------------------------------


def posterior_by_complement(used, n_values):
    rows = [[0.0 if v in row else 1 / (n_values - len(row)) for v in range(n_values)] for row in used.tolist()]
    return torch.tensor(rows, dtype=torch.float64)



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

ANSWERS = {
    "check_noisy": {
        "alternative": noisy_by_logarithms,
        "shape_stub": lambda keys, values, asked, n_values, epsilon: torch.full((n_values,), 1 / n_values),
        "wrong": NOISY_WRONG,
    },
    "check_partner": {
        "alternative": partner_by_renaming_keys,
        "shape_stub": lambda mapping, a, b: sorted(mapping),
        "wrong": PARTNER_WRONG,
    },
    "check_head": {
        "alternative": head_with_wide_vectors,
        "shape_stub": lambda n: head_with_wide_vectors(n, push=0.0),
        "wrong": HEAD_WRONG,
    },
    "check_bits": {
        "alternative": bits_by_masks,
        "shape_stub": lambda predict, n_values, n_episodes, rng: torch.zeros(n_values),
        "wrong": BITS_WRONG,
    },
    "check_window": {
        "alternative": window_by_age,
        "shape_stub": lambda values, n_values, window: torch.full((*values.shape, n_values), 1 / n_values),
        "wrong": WINDOW_WRONG,
    },
    "check_bijections": {
        "alternative": bijections_by_swaps,
        "shape_stub": bijections_in_order,
        "wrong": BIJECTIONS_WRONG,
    },
    "check_control": {
        "alternative": control_by_intervention,
        "shape_stub": lambda predict, n_values, rng: True,
        "wrong": CONTROL_WRONG,
    },
}
