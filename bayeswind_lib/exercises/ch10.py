"""Checks for chapter 10, "Stage two: elimination".

Every check states properties and tries them on random instances. What an answer is compared with
is counted over all cases, run through a network built for it, or looked up token by token.

Axes: B episodes, K questions, T tokens, V values, N tokens of the vocabulary.
"""

from __future__ import annotations

import math
from itertools import permutations

import torch

from bayeswind_lib.exercises.core import Report, grade

# --- the price of not looking ------------------------------------------------------------------


def check_floor(answer) -> Report:
    """Grade `my_floor(n_values, n_shown, n_missed)`: the least mean KL of who misses some values."""

    def nothing_missed():
        for V, k in ((5, 2), (20, 19), (4, 0)):
            got = float(answer(V, k, 0))
            if not abs(got) < 1e-9:
                return f"{V} values, {k} shown, none missed: such a predictor can be exact, you say {got:.4g} bits"
        return None

    def counted():
        for V, k, m in ((4, 2, 1), (5, 3, 2), (5, 4, 4), (6, 3, 1)):
            got, want = float(answer(V, k, m)), _missed(V, k, m)
            if not abs(got - want) < 1e-9:
                return _slip_of_floor(got, want, V, k, m)
        return None

    return grade("my_floor", [nothing_missed, counted])


def _missed(V: int, k: int, m: int) -> float:
    """The divergence of the best predictor that sees k - m values: all ways to go on, one by one."""
    seen = tuple(range(k - m))
    ways = [order for order in permutations(range(V), k + 1) if order[: k - m] == seen]
    chance = [sum(order[k] == v for order in ways) / len(ways) for v in range(V)]  # what it may say at best
    return sum(-math.log2(chance[order[k]]) for order in ways) / len(ways) - math.log2(V - k)


def _slip_of_floor(got, want, V, k, m):
    asked = f"{V} values, {k} shown, {m} missed"
    said = f"{asked}: you say {got:.4f} bits, all cases counted give {want:.4f}"
    if abs(got - want * math.log(2)) < 1e-9:
        return f"{asked}: you say {got:.4f}, which is the right answer in nats: count in powers of 2"
    if abs(got + want) < 1e-9:
        return f"{said}: the sign is turned round, who misses something cannot do better"
    if abs(got - math.log2(V - k + m)) < 1e-9:
        return f"{said}: yours is its loss; take off what the exact posterior loses"
    if m != k and abs(got - math.log2(V / (V - k))) < 1e-9:
        return f"{said}: yours is the price of missing all {k}: it knows the other {k - m}"
    if abs(got - m * math.log2((V - k + 1) / (V - k))) < 1e-9 and m > 1:
        return f"{said}: you pay the first missed value {m} times: with each one more is still possible, and the next costs less"
    if abs(got - m / V) < 1e-9 or (k and abs(got - m / k) < 1e-9):
        return f"{said}: yours is a share, not a divergence"
    return said


# --- values that nobody calls ------------------------------------------------------------------


def check_blind(answer) -> Report:
    """Grade `my_blind(n_values, n_shown, n_blind)`: the least mean KL of who sees some values as blanks."""

    def ends():
        for V, k in ((6, 3), (5, 4)):
            if not abs(got := float(answer(V, k, 0))) < 1e-9:
                return f"{V} values, {k} shown, none blank: such a predictor can be exact, you say {got:.4g} bits"
            if not abs(got := float(answer(V, k, 1))) < 1e-9:
                return (f"{V} values, {k} shown, one blank value: where a blank stands it was shown, so such a "
                        f"predictor can be exact, you say {got:.4g} bits")
            got, want = float(answer(V, k, V)), math.log2(V / (V - k))
            if not abs(got - want) < 1e-9:
                return f"{V} values, {k} shown, all blank: that leaves the uniform guess, {want:.4f} bits, you say {got:.4f}"
        return None

    def counted():
        for V, k, m in ((4, 2, 2), (5, 3, 2), (5, 2, 3), (6, 4, 3)):
            got, want = float(answer(V, k, m)), _blind(V, k, m)
            if not abs(got - want) < 1e-9:
                return _slip_of_blind(got, want, V, k, m)
        return None

    return grade("my_blind", [counted, ends])


def _blind(V: int, k: int, m: int) -> float:
    """The divergence of the best predictor to whom values 0..m-1 are blanks: all episodes, one by one."""
    episodes = list(permutations(range(V), k + 1))
    seen: dict[tuple, list[int]] = {}
    for *shown, next_one in episodes:
        seen.setdefault(tuple(None if v < m else v for v in shown), []).append(next_one)
    loss = sum(-math.log2(nexts.count(v) / len(nexts)) for nexts in seen.values() for v in nexts)
    return loss / len(episodes) - math.log2(V - k)


def _slip_of_blind(got, want, V, k, m):
    said = f"{V} values, {k} shown, {m} blank to it: you say {got:.4f} bits, all cases counted give {want:.4f}"
    ways = {j: math.comb(m, j) * math.comb(V - m, k - j) / math.comb(V, k) for j in range(min(m, k) + 1)}
    drawn = {j: math.comb(k, j) * (m / V) ** j * (1 - m / V) ** (k - j) for j in range(min(m, k) + 1)}

    def price(chances, j_costs):
        return sum(chance * j_costs(j) for j, chance in chances.items())

    def right(j):
        return (m - j) / (V - k) * math.log2(m / (m - j)) if j < m else 0.0

    slips = (
        (want * math.log(2), "that is right in nats: count in powers of 2"),
        (want + math.log2(V - k), "yours is its loss; take off what the exact posterior loses"),
        (math.log2((V - k + m) / (V - k)), f"yours is the price of {m} places fixed beforehand. Here it is {m} values, "
                                           "which may not have come at all"),
        (price(ways, lambda j: math.log2((V - k + j) / (V - k))), "a blank is not just any value: it is one of the blank ones"),
        (price(drawn, right), "the values shown are all different, so the number of blanks is not binomial"),
        (price(ways, lambda j: math.log2(m / (m - j)) if j < m else 0.0), "the answer is one of the blank values in some cases "
                                                                          "only, and else it costs nothing"),
    )
    return next((f"{said}: {words}" for value, words in slips if abs(got - value) < 1e-9), said)


# --- heads that call names ---------------------------------------------------------------------


def check_roll(answer) -> Report:
    """Grade `my_roll(n_values, n_shown, score, gain)`: the KL of the network with a head for each value."""

    def no_gain():
        for V, k in ((6, 3), (10, 9)):
            got, want = float(answer(V, k, 5.0, 0.0)), math.log2(V / (V - k))
            if not abs(got - want) < 1e-9:
                return f"with gain 0 the network says the uniform guess, {want:.4f} bits at {V} values and {k} shown; you say {got:.4f}"
        return None

    def run():
        for V, k, score, gain in ((4, 1, 1.0, 2.0), (5, 3, 2.0, 1.0), (6, 5, 0.5, 3.0), (8, 4, 6.0, 2.0)):
            got, want = float(answer(V, k, score, gain)), _called(V, k, score, gain)
            if not abs(got - want) < 1e-6 * max(want, 1e-3):
                return _slip_of_roll(got, want, V, k, score, gain)
        return None

    return grade("my_roll", [no_gain, run])


def _called(V: int, k: int, score: float, gain: float) -> float:
    """The same, token by token: a softmax for each head, the norm, and the divergence."""
    tokens = ["key", *[x for v in range(k) for x in (v, "key")]]  # key, value, key, ..., key; the first is the sink
    stream = torch.zeros(2 * V, dtype=torch.float64)
    stream[V] = 1.0
    for head in range(V):
        scores = [2 * score if token == head else (score if place == 0 else 0.0) for place, token in enumerate(tokens)]
        weights = torch.tensor(scores, dtype=torch.float64).softmax(0)
        stream[head] -= sum(weights[place] for place, token in enumerate(tokens) if token == head)
    logits = gain * stream[:V] / stream.square().mean().sqrt()
    said = torch.log_softmax(logits, 0) / math.log(2)
    return float(-math.log2(V - k) - said[k:].mean())


def _slip_of_roll(got, want, V, k, score, gain):
    said = f"{V} values, {k} shown, score {score:g}, gain {gain:g}: you say {got:.5f} bits, the network has {want:.5f}"

    def with_weight(w, margin=lambda w: w * math.sqrt(2 * V / (1 + k * w * w))):
        return math.log2(1 + k / (V - k) * math.exp(-gain * margin(w)))

    w = 1 / (1 + math.exp(-score) + (2 * k - 1) * math.exp(-2 * score))
    slips = (
        (want * math.log(2), "that is right in nats"),
        (with_weight(1.0), "you let a head give its name a weight of 1: the first token and the others take some"),
        (with_weight(1 / (1 + (2 * k - 1) * math.exp(-2 * score))), "you forgot the first token, which has a score of its own"),
        (with_weight(1 / (1 + math.exp(-score) + 2 * k * math.exp(-2 * score))), "you count one token too many: 2k + 1 in all, the name and the first among them"),
        (with_weight(w, lambda w: w), "the last norm divides the stream by its root mean square before the gain"),
        (with_weight(w, lambda w: w * math.sqrt(2 * V)), "the names that are written make the stream longer, and the norm divides by that"),
        (with_weight(1 / (2 * k + 1), lambda w: math.sqrt(V + 1) / math.sqrt((2 * k + 1) ** 2 + k)), "that is the network that covers, with uniform attention"),
    )
    return next((f"{said}: {words}" for value, words in slips if abs(got - value) < 1e-9), said)


# --- which name? -------------------------------------------------------------------------------


def check_names(answer) -> Report:
    """Grade `my_names(pattern, inputs, n_values)`: mean weight on each value's token, float64 (V,)."""

    def says(pattern, inputs, V):
        return torch.as_tensor(answer(pattern.clone(), inputs.clone(), V), dtype=torch.float64)

    def shape():
        pattern, inputs, V = _episodes(0)
        got = says(pattern, inputs, V)
        return None if got.shape == (V,) else f"the result has shape {tuple(got.shape)}, expected ({V},)"

    def drawn():
        for seed in range(3):
            pattern, inputs, V = _episodes(seed)
            got, want = says(pattern, inputs, V), _by_hand(pattern, inputs, V)
            if not (got - want).abs().max() < 1e-9:
                return _slip_of_names(got, want, pattern, inputs, V)
        return None

    return grade("my_names", [shape, drawn])


def _episodes(seed: int, B: int = 5, K: int = 4, V: int = 7) -> tuple[torch.Tensor, torch.Tensor, int]:
    """A random causal pattern, and episodes in which some values never come."""
    rng = torch.Generator().manual_seed(seed)
    T = 2 * K - 1
    inputs = torch.stack([torch.randperm(V, generator=rng)[:T] for _ in range(B)])
    inputs[:, 1::2] = V + torch.stack([torch.randperm(V - 1, generator=rng)[: K - 1] for _ in range(B)])
    scores = torch.randn(B, T, T, generator=rng, dtype=torch.float64)
    return scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -torch.inf).softmax(-1), inputs, V


def _by_hand(pattern, inputs, V, asked=2, start=1):
    """The mean, weight by weight; `asked` is the step from one reader to the next."""
    T = inputs.shape[1]
    total, times = torch.zeros(V, dtype=torch.float64), torch.zeros(V, dtype=torch.float64)
    for b in range(len(inputs)):
        for place in range(1, T, 2):
            for reader in range(place + start, T, asked):
                total[inputs[b, place] - V] += pattern[b, reader, place]
                times[inputs[b, place] - V] += 1
    return total / times.clamp(min=1)


def _slip_of_names(got, want, pattern, inputs, V):
    at = int((got - want).abs().argmax())
    said = f"value {at}: you say {float(got[at]):.4f}, the mean over the questions after it is {float(want[at]):.4f}"
    B, T = inputs.shape
    seen = torch.stack([(inputs[:, 1::2] - V == v).any(1).sum() for v in range(V)]).double()
    total = _by_hand(pattern, inputs, V) * _times(inputs, V)
    if not got.isfinite().all():
        return "a value that never came before a question gives no number: it shall get 0"
    if (got - total).abs().max() < 1e-9:
        return f"{said}. Yours is a sum: divide by the number of questions after it"
    if (got - total / (B * (T + 1) // 2)).abs().max() < 1e-9:
        return f"{said}. You divide by all questions, also those before the value came"
    if (got - total / seen.clamp(min=1)).abs().max() < 1e-9:
        return f"{said}. You divide by episodes: an early value has more questions after it than a late one"
    if (got - _by_hand(pattern, inputs, V, asked=1, start=0)).abs().max() < 1e-9:
        return f"{said}. You average over all tokens that can see it: questions stand at even places"
    if (got - _by_place(pattern, V)).abs().max() < 1e-9:
        return f"{said}. You sort by place: which value stands there differs from episode to episode"
    return said


def _times(inputs, V):
    """How many questions come after each value, over all episodes."""
    ones = torch.ones(len(inputs), inputs.shape[1], inputs.shape[1], dtype=torch.float64)
    total = torch.zeros(V, dtype=torch.float64)
    for place in range(1, inputs.shape[1], 2):
        for b in range(len(inputs)):
            total[inputs[b, place] - V] += ones[b, place + 1 :: 2, place].sum()
    return total


def _by_place(pattern, V):
    """The mean weight on the places of values, in their order, filled up with 0."""
    T = pattern.shape[1]
    means = [pattern[:, place + 1 :: 2, place].mean() for place in range(1, T, 2)]
    return torch.stack([*means, *[torch.zeros((), dtype=torch.float64)] * (V - len(means))])


# --- attention by a list -----------------------------------------------------------------------


def check_list(answer) -> Report:
    """Grade `my_list(scores, own, inputs)`: attention (B, T) from the last token, by fixed scores."""
    rng = torch.Generator().manual_seed(4)

    def case(T: int):
        scores = 3 * torch.randn(9, generator=rng, dtype=torch.float64)
        return scores, float(torch.randn((), generator=rng)), torch.randint(9, (4, T), generator=rng)

    cases = [case(T) for T in (2, 3, 7)]

    def weights():
        for scores, own, inputs in cases:
            got = torch.as_tensor(answer(scores.clone(), own, inputs.clone()), dtype=torch.float64)
            if got.shape != inputs.shape:
                return f"the result has shape {tuple(got.shape)}, expected {tuple(inputs.shape)}"
            want = _listed(scores, own, inputs)
            if not (got - want).abs().max() < 1e-9:
                return _slip_of_list(got, scores, own, inputs)
        return None

    def untouched():
        scores, own, inputs = cases[2]
        given = scores.clone()
        answer(given, own, inputs)
        return None if torch.equal(given, scores) else "your answer changes `scores` itself: other episodes will be given a spoilt list"

    return grade("my_list", [weights, untouched])


def _listed(scores, own, inputs, first=0.0, itself=True):
    """The softmax, token by token; other ends make the usual mistakes."""
    rows = []
    for tokens in inputs.tolist():
        row = [float(scores[token]) for token in tokens]
        row[0] = row[0] if first is None else first
        row[-1] = own if itself else row[-1]
        powers = [math.exp(x) for x in row]
        rows.append([p / sum(powers) for p in powers])
    return torch.tensor(rows, dtype=torch.float64)


def _slip_of_list(got, scores, own, inputs):
    if not (got.sum(-1) - 1).abs().max() < 1e-9:
        return "the weights of an episode do not sum to 1: apply the softmax over its tokens"
    slips = (
        (_listed(scores, own, inputs, first=None), "the first token has the score 0, whatever token it is"),
        (_listed(scores, own, inputs, itself=False), "the question's own token has the score `own`, not that of its place in the list"),
        (_listed(scores, own, inputs, first=None, itself=False), "both ends are special: the first token has the score 0, the last one `own`"),
        (_listed(scores, own, inputs).flip(-1), "the weights stand in the reverse order of the tokens"),
        (_listed(scores / math.sqrt(len(scores)), own, inputs), "the scores are not to be divided: they are what the softmax gets"),
        (torch.full_like(got, 1 / got.shape[1]), "yours is uniform attention: look each token up in `scores`"),
    )
    for wrong, words in slips:
        if (got - wrong).abs().max() < 1e-9:
            return f"not quite: {words}"
    if (got[:, -1] == 0).all():
        return "a question sees its own token too"
    want = _listed(scores, own, inputs)
    return f"the weights are off by up to {float((got - want).abs().max()):.3g}: a softmax over the scores of the tokens"


# --- what leaks? -------------------------------------------------------------------------------


def check_leak(answer) -> Report:
    """Grade `my_leak(before, after, shown, name)`: the share of one value in all that rises."""
    cases = [_leak_case(seed) for seed in range(3)]

    def drawn():
        for before, after, shown in cases:
            for name in range(before.shape[-1]):
                got = float(answer(before.clone(), after.clone(), shown.clone(), name))
                want = _share(before, after, shown, name)
                if not abs(got - want) < 1e-9:
                    return _slip_of_leak(got, want, before, after, shown, name)
        return None

    def nothing_rises():
        before, _, shown = cases[0]
        got = float(answer(before.clone(), before.clone(), shown, 1))
        return None if got == 0 else f"nothing changed, so the share is 0, you say {got}"

    return grade("my_leak", [drawn, nothing_rises])


def _leak_case(seed: int, B: int = 6, K: int = 5, V: int = 6):
    rng = torch.Generator().manual_seed(seed)
    before, after = (torch.randn(B, K, V, generator=rng, dtype=torch.float64).softmax(-1) for _ in range(2))
    values = torch.stack([torch.randperm(V, generator=rng)[:K] for _ in range(B)])
    shown = torch.zeros(B, K, V, dtype=torch.bool)
    for k in range(1, K):
        shown[:, k] = shown[:, k - 1].scatter(1, values[:, k - 1 : k], True)
    return before, after, shown


def _rises(before, after, shown) -> list[float]:
    """Mean rise of each value where it was shown, value by value."""
    return [float((after - before)[..., v][shown[..., v]].mean()) if shown[..., v].any() else 0.0
            for v in range(before.shape[-1])]


def _share(before, after, shown, name) -> float:
    rises = [max(x, 0.0) for x in _rises(before, after, shown)]
    return rises[name] / sum(rises) if sum(rises) else 0.0


def _slip_of_leak(got, want, before, after, shown, name):
    said = f"value {name}: you say {got:.4f}, its share of what rises is {want:.4f}"
    if math.isnan(got):
        return f"value {name}: no number comes out. A value that was never shown has no mean: count 0"
    means, change = torch.tensor(_rises(before, after, shown), dtype=torch.float64), after - before
    everywhere = change.mean((0, 1)).clamp(min=0)
    cut = (change.clamp(min=0) * shown).sum((0, 1)) / shown.sum((0, 1)).clamp(min=1)
    summed = (change * shown).sum((0, 1)).clamp(min=0)
    down = (-means).clamp(min=0)
    slips = (
        (float(means[name]), "yours is the rise itself, not a share of all that rises"),
        (float(means[name] / means.sum()), "falls count 0, they are not taken off the rises"),
        (float(means[name] / means.abs().sum()), "falls count 0, they do not count as rises"),
        (float(everywhere[name] / everywhere.sum()), "you average over all questions, also those before the value was shown"),
        (float(cut[name] / cut.sum()), "you cut at 0 question by question: take a value's mean first"),
        (float(summed[name] / summed.sum()), "yours are sums: a value that was shown early counts more often, so take its mean"),
        (float(down[name] / down.sum()), "you take what falls: after less before is the rise"),
    )
    return next((f"{said}: {words}" for value, words in slips if abs(got - value) < 1e-9), said)
