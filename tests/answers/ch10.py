"""Stored answers to the exercises of chapter 10: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import math

import torch

# --- my_floor(n_values, n_shown, n_missed) ------------------------------------------------------


def floor_by_sum(n_values, n_shown, n_missed):
    """One missed value after the other."""
    return sum(math.log2((n_values - n_shown + i + 1) / (n_values - n_shown + i)) for i in range(n_missed))


FLOOR_WRONG = [
    (lambda V, k, m: math.log((V - k + m) / (V - k)), "in nats"),
    (lambda V, k, m: -floor_by_sum(V, k, m), "the sign is turned round"),
    (lambda V, k, m: math.log2(V - k + m), "can be exact"),
    (lambda V, k, m: math.log2(V - k + m) if m else 0.0, "what the exact posterior loses"),
    (lambda V, k, m: math.log2(V / (V - k)) if m else 0.0, "it knows the other"),
    (lambda V, k, m: m * math.log2((V - k + 1) / (V - k)), "the next costs less"),
    (lambda V, k, m: m / V, "a share, not a divergence"),
]

# --- my_blind(n_values, n_shown, n_blind) -------------------------------------------------------


def _blanks(V, k, m):
    """Chance of each number of blanks."""
    return {j: math.comb(m, j) * math.comb(V - m, k - j) / math.comb(V, k) for j in range(min(k, m) + 1)}


def blind_by_entropy(n_values, n_shown, n_blind):
    """The entropy of the best guess less that of the truth, for each number of blanks."""
    V, k, m = n_values, n_shown, n_blind
    price = 0.0
    for j, chance in _blanks(V, k, m).items():
        if chance:
            best = [1 / (V - k)] * (V - m - k + j) + [(m - j) / (V - k) / max(m, 1)] * m
            price += chance * (sum(-p * math.log2(p) for p in best if p) - math.log2(V - k))
    return price


BLIND_WRONG = [
    (lambda V, k, m: blind_by_entropy(V, k, m) * math.log(2), "right in nats"),
    (lambda V, k, m: blind_by_entropy(V, k, m) + math.log2(V - k), "yours is its loss"),
    (lambda V, k, m: math.log2((V - k + m) / (V - k)), "places fixed beforehand"),
    (lambda V, k, m: sum(p * math.log2((V - k + j) / (V - k)) for j, p in _blanks(V, k, m).items()), "it is one of the blank ones"),
    (lambda V, k, m: sum(math.comb(k, j) * (m / V) ** j * (1 - m / V) ** (k - j) * (m - j) / (V - k) * math.log2(m / (m - j))
                         for j in range(min(k, m - 1) + 1)), "is not binomial"),
    (lambda V, k, m: sum(p * math.log2(m / (m - j)) for j, p in _blanks(V, k, m).items() if j < m), "in some cases"),
    (lambda V, k, m: blind_by_entropy(V, k, m) if m > 1 else 0.1 * m, "one blank value: where a blank stands"),
    (lambda V, k, m: blind_by_entropy(V, k, m) if m else 0.1, "none blank"),
    (lambda V, k, m: blind_by_entropy(V, k, m) if m < V else 0.0, "that leaves the uniform guess"),
]

# --- my_roll(n_values, n_shown, score, gain) ----------------------------------------------------


def roll_by_softmax(n_values, n_shown, score, gain):
    """The stream channel by channel."""
    scores = torch.tensor([2 * score, score] + [0.0] * (2 * n_shown - 1), dtype=torch.float64)
    weight = scores.softmax(0)[0]
    stream = torch.zeros(2 * n_values, dtype=torch.float64)
    stream[:n_shown], stream[n_values] = -weight, 1.0
    logits = gain * stream[:n_values] / stream.pow(2).mean().sqrt()
    chance = logits.softmax(0)[n_shown:]
    return float((-math.log2(n_values - n_shown) - chance.log2()).mean())


def _roll(V, k, s, g, w=None, margin=None):
    w = 1 / (1 + math.exp(-s) + (2 * k - 1) * math.exp(-2 * s)) if w is None else w
    m = w * math.sqrt(2 * V / (1 + k * w * w)) if margin is None else margin(w)
    return math.log2(1 + k / (V - k) * math.exp(-g * m))


ROLL_WRONG = [
    (lambda V, k, s, g: _roll(V, k, s, g) * math.log(2) if g else _roll(V, k, s, g), "right in nats"),
    (lambda V, k, s, g: _roll(V, k, s, g, w=1.0), "a weight of 1"),
    (lambda V, k, s, g: _roll(V, k, s, g, w=1 / (1 + (2 * k - 1) * math.exp(-2 * s))), "forgot the first token"),
    (lambda V, k, s, g: _roll(V, k, s, g, w=1 / (1 + math.exp(-s) + 2 * k * math.exp(-2 * s))), "one token too many"),
    (lambda V, k, s, g: _roll(V, k, s, g, margin=lambda w: w), "divides the stream by its root mean square"),
    (lambda V, k, s, g: _roll(V, k, s, g, margin=lambda w: w * math.sqrt(2 * V)), "make the stream longer"),
    (lambda V, k, s, g: _roll(V, k, s, g, margin=lambda w: math.sqrt(V + 1) / math.sqrt((2 * k + 1) ** 2 + k)), "the network that covers"),
    (lambda V, k, s, g: g, "says the uniform guess"),
]

# --- my_names(pattern, inputs, n_values) --------------------------------------------------------


def names_by_value(pattern, inputs, n_values):
    """Value by value, with lists of weights."""
    found = [[] for _ in range(n_values)]
    for weights, tokens in zip(pattern, inputs.tolist(), strict=True):
        for place, token in enumerate(tokens):
            if token >= n_values:
                found[token - n_values] += weights[place:, place][1::2].tolist()
    return torch.tensor([sum(row) / len(row) if row else 0.0 for row in found], dtype=torch.float64)


def _parts(pattern, inputs, V, first=1, step=2):
    total, times, seen = (torch.zeros(V, dtype=torch.float64) for _ in range(3))
    for b, tokens in enumerate(inputs.tolist()):
        for place in range(1, len(tokens), 2):
            weights = pattern[b, place + first :: step, place]
            total[tokens[place] - V] += weights.sum()
            times[tokens[place] - V] += len(weights)
            seen[tokens[place] - V] += 1
    return total, times, seen


def _names_by_place(pattern, inputs, V):
    T = pattern.shape[1]
    found = torch.zeros(V, dtype=torch.float64)
    for i, place in enumerate(range(1, T, 2)):
        found[i] = pattern[:, place + 1 :: 2, place].mean()
    return found


def _of(rule):
    return lambda pattern, inputs, V: rule(*_parts(pattern, inputs, V))


NAMES_WRONG = [
    (_of(lambda total, times, seen: total), "Yours is a sum"),
    (_of(lambda total, times, seen: total / times), "it shall get 0"),
    (_of(lambda total, times, seen: total / seen.clamp(min=1)), "You divide by episodes"),
    (lambda p, x, V: _parts(p, x, V)[0] / (len(x) * (x.shape[1] + 1) // 2), "before the value came"),
    (lambda p, x, V: (lambda t, n, s: t / n.clamp(min=1))(*_parts(p, x, V, first=0, step=1)), "all tokens that can see it"),
    (_names_by_place, "You sort by place"),
    (lambda p, x, V: names_by_value(p, x, V)[:-1], "expected (7,)"),
]

# --- my_list(scores, own, inputs) ---------------------------------------------------------------


def list_by_rows(scores, own, inputs):
    """Powers, episode by episode."""
    rows = []
    for tokens in inputs:
        powers = [1.0, *[math.exp(float(scores[t])) for t in tokens[1:-1]], math.exp(own)]
        rows.append([p / sum(powers) for p in powers])
    return torch.tensor(rows, dtype=torch.float64)


def _list(scores, own, inputs, first=True, last=True):
    wanted = scores[inputs]
    if first:
        wanted[:, 0] = 0
    if last:
        wanted[:, -1] = own
    return wanted


def _spoils(scores, own, inputs):
    found = list_by_rows(scores, own, inputs)
    scores[0] += 1
    return found


LIST_WRONG = [
    (lambda s, o, x: _list(s, o, x), "do not sum to 1"),
    (lambda s, o, x: _list(s, o, x, first=False).softmax(-1), "the first token has the score 0, whatever token"),
    (lambda s, o, x: _list(s, o, x, last=False).softmax(-1), "the question's own token has the score `own`, not"),
    (lambda s, o, x: _list(s, o, x, False, False).softmax(-1), "both ends are special"),
    (lambda s, o, x: torch.full(x.shape, 1 / x.shape[1], dtype=torch.float64), "yours is uniform attention"),
    (_spoils, "changes `scores` itself"),
    (lambda s, o, x: list_by_rows(s, o, x)[0], "expected (4, 2)"),
]

# --- my_leak(before, after, shown, name) --------------------------------------------------------


def leak_by_value(before, after, shown, name):
    """One value at a time."""
    rises = []
    for v in range(before.shape[-1]):
        here = shown[..., v]
        rises.append(max(float((after[..., v][here] - before[..., v][here]).mean()), 0.0) if here.any() else 0.0)
    return rises[name] / sum(rises) if sum(rises) > 0 else 0.0


def _mean_rise(before, after, shown):
    return ((after - before) * shown).sum((0, 1)) / shown.sum((0, 1)).clamp(min=1)


def _ratio(rises, name):
    return float(rises[name] / rises.sum()) if float(rises.sum()) else 0.0


LEAK_WRONG = [
    (lambda b, a, s, n: float(_mean_rise(b, a, s)[n]), "not a share of all that rises"),
    (lambda b, a, s, n: _ratio(_mean_rise(b, a, s), n), "not taken off the rises"),
    (lambda b, a, s, n: _ratio((a - b).mean((0, 1)).clamp(min=0), n), "before the value was shown"),
    (lambda b, a, s, n: _ratio(((a - b).clamp(min=0) * s).sum((0, 1)) / s.sum((0, 1)).clamp(min=1), n), "question by question"),
    (lambda b, a, s, n: _ratio(((a - b) * s).sum((0, 1)).clamp(min=0), n), "yours are sums"),
    (lambda b, a, s, n: _ratio(_mean_rise(a, b, s).clamp(min=0), n), "after less before"),
]


ANSWERS = {
    "check_floor": {
        "alternative": floor_by_sum,
        "shape_stub": lambda n_values, n_shown, n_missed: 0.0,
        "wrong": FLOOR_WRONG,
    },
    "check_blind": {
        "alternative": blind_by_entropy,
        "shape_stub": lambda n_values, n_shown, n_blind: 0.0,
        "wrong": BLIND_WRONG,
    },
    "check_roll": {
        "alternative": roll_by_softmax,
        "shape_stub": lambda n_values, n_shown, score, gain: 0.0,
        "wrong": ROLL_WRONG,
    },
    "check_names": {
        "alternative": names_by_value,
        "shape_stub": lambda pattern, inputs, n_values: torch.zeros(n_values, dtype=torch.float64),
        "wrong": NAMES_WRONG,
    },
    "check_list": {
        "alternative": list_by_rows,
        "shape_stub": lambda scores, own, inputs: torch.zeros(inputs.shape, dtype=torch.float64),
        "wrong": LIST_WRONG,
    },
    "check_leak": {
        "alternative": leak_by_value,
        "shape_stub": lambda before, after, shown, name: 0.5,
        "wrong": LEAK_WRONG,
    },
}
