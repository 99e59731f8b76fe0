"""Checks for chapter 2, "A tunnel whose truth we know".

Every check states properties and tries them on random instances. What an answer is compared with
is counted over all bijections of a small tunnel, or scored by the evaluator that scores networks.

Axes: B episodes, K scored positions (pairs), T tokens, V values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import permutations, product

import torch

from bayeswind_lib import baselines, scoring, tunnels
from bayeswind_lib.exercises.core import Report, grade


def _number(value) -> float:
    return float(value.detach() if isinstance(value, torch.Tensor) else value)


def _probabilities(got, shape: tuple[int, ...]) -> tuple[torch.Tensor, str | None]:
    """The answer as float64, and a hint if it has another shape or is no set of numbers >= 0."""
    got = torch.as_tensor(got).double()
    if got.shape != shape:
        return got, f"the result has shape {tuple(got.shape)}, expected {shape}"
    if got.isnan().any() or got.min() < 0:
        return got, "a probability is negative or not a number"
    return got, None


def _consistent(keys: list[int], values: list[int], n_values: int) -> list[tuple[int, ...]]:
    """All bijections that agree with the pairs, by going through every one of the V! maps."""
    pairs = list(zip(keys, values, strict=True))
    maps = permutations(range(n_values))
    return [one for one in maps if all(one[key] == value for key, value in pairs)]


def _episode(n_values: int, n_pairs: int, rng: torch.Generator, n_keys: int | None = None):
    """Keys (drawn from the first `n_keys`, with replacement) and their values under a random map."""
    mapping = torch.randperm(n_values, generator=rng)
    keys = torch.randint(n_keys or n_values, (n_pairs,), generator=rng)
    return keys, mapping[keys]


# --- how many bijections are left --------------------------------------------------------------


def check_n_maps(answer) -> Report:
    """Grade `my_n_maps(keys, values, n_values)`: how many bijections agree with the pairs."""

    def agrees(pairs, n_values, hint):
        keys, values = [k for k, _ in pairs], [v for _, v in pairs]
        got, want = _number(answer(list(keys), list(values), n_values)), len(_consistent(keys, values, n_values))
        if got == want:
            return None
        return f"pairs {pairs}, V = {n_values}: you count {got:g}, going through all maps gives {want}. {hint}"

    bijections = (
        "Count how the keys not shown yet can be matched with the values not used yet, "
        "each value once"
    )
    twice = "A pair shown a second time tells nothing new: count distinct keys"
    cases = [
        ([], 3, bijections), ([], 5, bijections), ([(2, 0)], 4, bijections),
        ([(0, 3), (4, 1)], 5, bijections), ([(1, 1), (0, 2), (3, 0)], 6, bijections),
        ([(1, 2), (1, 2)], 4, twice), ([(0, 1), (3, 2), (0, 1)], 5, twice),
        ([(0, 2), (1, 2)], 4, "Two keys share a value, which no bijection does"),
        ([(3, 0), (3, 1)], 5, "One key has two different values, which no map does"),
    ]  # fmt: skip
    return grade("my_n_maps", [partial(agrees, *case) for case in cases])


# --- the posterior with distinct keys ----------------------------------------------------------


def check_posterior(answer) -> Report:
    """Grade `my_posterior(used, n_values)`: float (B, V) from the distinct values used, (B, k)."""
    rng = torch.Generator().manual_seed(21)
    sizes = [(4, 2), (7, 3), (20, 11), (9, 8), (6, 0)]
    cases = [(torch.rand(5, V, generator=rng).argsort(-1)[:, :k], V) for V, k in sizes]

    def each(test):
        def run():
            for used, V in cases:
                got, hint = _probabilities(answer(used.clone(), V), (5, V))
                if hint := hint or test(got, used, V):
                    return f"{hint} (V = {V}, {used.shape[1]} values used)"
            return None

        return run

    return grade("my_posterior", [each(_nothing_on_used), each(_sums_to_one), each(_equal_on_free)])


def _nothing_on_used(got, used, V):
    on_used = got.gather(1, used)
    if not used.numel() or on_used.max() < 1e-12:
        return None
    if torch.allclose(got, torch.full_like(got, 1 / V)):
        return "every value still has the probability it had before any pair was shown: rule the used ones out"
    if on_used[:, -1].max() < 1e-12:
        return "only the last of the used values is ruled out: all of them are gone"
    free = torch.ones_like(got).scatter(1, used, 0.0)
    if (got * free).max() < 1e-12:
        return "all probability lies on the used values: you want the complement"
    return (
        f"a used value keeps probability {on_used.max():.3f}: impossible means exactly 0, which a softmax "
        "of finite numbers never gives; make it 0, then divide by the sum"
    )


def _sums_to_one(got, used, V):
    total = got.sum(-1)
    if (total - 1).abs().max() < 1e-6:
        return None
    return (
        f"a row sums to {total[0]:.4f}: how many values are left after {used.shape[1]} different ones are gone?"
    )


def _equal_on_free(got, used, V):
    free = torch.ones_like(got).scatter(1, used, 0.0).bool()
    lowest, highest = got[free].min(), got[free].max()
    if highest - lowest < 1e-9:
        return None
    return (
        f"two unused values have probabilities {lowest:.4f} and {highest:.4f}, "
        "but no pair shown so far tells them apart"
    )


# --- the posterior when keys come back ---------------------------------------------------------


def check_sawtooth(answer) -> Report:
    """Grade `my_sawtooth(keys, values, n_values)`: float (V,), the value of the last key.

    keys is int64 (k+1,), its last entry the key that is asked; values is int64 (k,).
    """
    rng = torch.Generator().manual_seed(22)
    small = [_episode(4, length, rng, n_keys) for length in (2, 3, 4) for n_keys in (2, 4) for _ in range(6)]
    large = [_episode(20, 30, rng) for _ in range(20)]

    def over(episodes, n_values, test):
        def run():
            for keys, values in episodes:
                shown = answer(keys.clone(), values[:-1].clone(), n_values)
                got, hint = _probabilities(shown, (n_values,))
                if hint := hint or test(got, keys.tolist(), values.tolist(), n_values):
                    return hint
            return None

        return run

    tests = [over(small, 4, test) for test in (_looked_up, _new_key, _as_counted)]
    return grade("my_sawtooth", [*tests, over(large, 20, _looked_up), over(large, 20, _new_key)])


def _pairs(keys, values):
    return "pairs " + ", ".join(f"{k}→{v}" for k, v in zip(keys[:-1], values[:-1], strict=True)) + f", then key {keys[-1]}"


def _looked_up(got, keys, values, n_values):
    """A key that was shown has its own value for certain."""
    if keys[-1] not in keys[:-1] or got[values[-1]] > 1 - 1e-9:
        return None
    where = _pairs(keys, values)
    if got[values[-1]] < 1e-12 and got.max() > 1 - 1e-9 and int(got.argmax()) == values[-2]:
        return f"{where}: you answer with the latest value, {values[-2]}; find the pair with the same key"
    if got[values[-1]] < 1e-12:
        return f"{where}: the key has come back and its value {values[-1]} is eliminated like that of any other pair"
    return f"{where}: the map does not change, so value {values[-1]} is certain; you give it {got[values[-1]]:.3f}"


def _new_key(got, keys, values, n_values):
    """A new key has none of the used values, and the rest share probability 1."""
    used = set(values[:-1])
    if keys[-1] in keys[:-1]:
        return None
    where = _pairs(keys, values)
    if any(got[v] > 1e-12 for v in used):
        return f"{where}: the key is new, so a value that another key has is impossible for it"
    if abs(got.sum() - 1) > 1e-6:
        return (
            f"{where}: the probabilities sum to {got.sum():.3f}; a pair shown twice uses up one value only, "
            f"so {n_values - len(used)} are left"
        )
    return None


def _as_counted(got, keys, values, n_values):
    """Equal to the share of all maps that agree with the pairs."""
    maps = _consistent(keys[:-1], values[:-1], n_values)
    tally = Counter(one[keys[-1]] for one in maps)
    counted = torch.tensor([tally[v] / len(maps) for v in range(n_values)], dtype=torch.float64)
    if torch.allclose(got, counted, atol=1e-9):
        return None
    return (
        f"{_pairs(keys, values)}: of the {len(maps)} maps that agree, value by value, the shares are "
        f"{[round(c, 3) for c in counted.tolist()]}, you say {[round(g, 3) for g in got.tolist()]}"
    )


# --- sampling a bijection ----------------------------------------------------------------------

SHUFFLES, PLACES = 7200, 4  # 300 expected of each of the 24 orders
TOO_UNEVEN = 65.0  # chi-squared with 23 degrees of freedom exceeds it once in 150,000 fair samplers


def check_bijections(answer) -> Report:
    """Grade `my_bijections(batch, n, rng)`: int64 (batch, n), each row a uniform random bijection."""

    def draw(seed, batch=SHUFFLES, n=PLACES):
        return torch.as_tensor(answer(batch, n, torch.Generator().manual_seed(seed)))

    def rows():
        got = draw(1, 50, 6)
        if got.shape != (50, 6):
            return f"the result has shape {tuple(got.shape)}, expected (50, 6)"
        if (got.sort(-1).values != torch.arange(6)).any():
            bad = next(row for row in got.tolist() if sorted(row) != list(range(6)))
            return f"{bad} is no bijection of 0..5: each value has to occur exactly once in a row"
        if (got == got[0]).all():
            return "all episodes have the same map: each row needs random numbers of its own"
        return None

    def randomness():
        torch.manual_seed(5)
        first, again, other = draw(3, 40, 8), draw(3, 40, 8), draw(4, 40, 8)
        if not torch.equal(first, again):
            return "the same seed gives different maps: draw only from `rng`"
        if torch.equal(first, other):
            return "different seeds give the same maps: pass `generator=rng` to what draws the numbers"
        return None

    return grade("my_bijections", [rows, randomness, lambda: _uniform_orders(draw(5))])


def _uniform_orders(got: torch.Tensor) -> str | None:
    orders = list(permutations(range(PLACES)))
    tally = Counter(map(tuple, got.tolist()))
    chi2 = _chi2(tally, {order: 1 / len(orders) for order in orders})
    if chi2 < TOO_UNEVEN:
        return None
    missing = [order for order in orders if not tally[order]]
    if not any(i == v for order in tally for i, v in enumerate(order)):
        return "no map ever leaves a value in its own place: the place to swap with may be the place itself"
    if missing:
        return f"{len(missing)} of the {len(orders)} orders never occur, {missing[0]} for one"
    if _chi2(tally, _swap_with_any()) < TOO_UNEVEN:
        return (
            f"the counts fit a shuffle that swaps each place with any place: its {PLACES}^{PLACES} = "
            f"{PLACES**PLACES} equally likely runs cannot be shared equally by {len(orders)} orders; "
            "swap place k with a place from k on"
        )
    most, least = tally.most_common()[0], tally.most_common()[-1]
    return (
        f"order {most[0]} came {most[1]} times and {least[0]} came {least[1]} times of {SHUFFLES}: "
        f"too uneven for chance (chi-squared {chi2:.0f}, expected 23)"
    )


def _chi2(tally: Counter, law: dict) -> float:
    total = sum(tally.values())
    return sum((tally[order] - total * p) ** 2 / (total * p) for order, p in law.items())


def _swap_with_any() -> dict:
    """The law of the usual biased shuffle, by going through all of its runs."""
    law: Counter = Counter()
    for run in product(range(PLACES), repeat=PLACES):
        deck = list(range(PLACES))
        for here, there in enumerate(run):
            deck[here], deck[there] = deck[there], deck[here]
        law[tuple(deck)] += PLACES**-PLACES
    return law


# --- what the uniform guess scores -------------------------------------------------------------


def _entropy_error(predictor: Callable, n_values: int, n_pairs: int) -> float:
    """Entropy error by the book's evaluator; two episodes suffice where only the position matters."""
    tunnel = tunnels.Bijection(n_values, n_pairs)
    episodes = tunnel.sample(2, torch.Generator().manual_seed(0))
    return scoring.score_episodes(predictor(tunnel), episodes).entropy_mae


def check_uniform_error(answer) -> Report:
    """Grade `my_uniform_error(n_values, n_pairs)`: the uniform guess's entropy error, bits, in closed form."""

    def by_hand():
        got = _number(answer(2, 2))
        if abs(got - 0.5) < 1e-9:
            return None
        if abs(got - 0.5 * math.log(2)) < 1e-6:
            return "V = 2, two pairs: you find 0.347, which is 0.5 bits written in nats; use log2"
        if abs(got - 1.0) < 1e-9:
            return (
                "V = 2, two pairs: the errors are 0 and 1 bits and their mean is 0.5, you say 1: "
                "an error is averaged over the pairs, the first one too"
            )
        return f"V = 2, two pairs: log2 2 is 0 bits too high at the first and 1 at the second; mean 0.5, you say {got:.3f}"

    def scored():
        for V, K in ((20, 20), (20, 19), (10, 4), (7, 1), (33, 33)):
            got, want = _number(answer(V, K)), _entropy_error(baselines.Uniform, V, K)
            if abs(got - want) > 1e-6:
                return _uniform_slip(got, want, V, K)
        return None

    return grade("my_uniform_error", [by_hand, scored])


def _uniform_slip(got, want, V, K):
    left = torch.arange(V, V - K, -1).double()
    if abs(got - float(math.log2(V) - left.mean().log2())) < 1e-6:
        return "you take the logarithm of the mean number of values left: average the entropies, not the counts"
    full = math.log2(V) - math.lgamma(V + 1) / math.log(2) / K
    if K < V and abs(got - full) < 1e-6:
        return f"with {K} of {V} pairs the staircase stops early: the product is V!/(V - K)!, not V!"
    return f"V = {V}, K = {K}: you say {got:.4f} bits, the evaluator that scores networks measures {want:.4f}"


# --- a predictor with a short memory -----------------------------------------------------------


def check_window(answer) -> Report:
    """Grade `my_window(values, n_values, window)`: float (B, K, V), uniform off the last `window` values.

    values is int64 (B, K), distinct in a row; the prediction at pair k may read values[:, :k] only.
    """
    rng = torch.Generator().manual_seed(25)
    sizes = [(6, 6, 2), (9, 7, 3), (12, 12, 5), (6, 5, 0), (8, 8, 20)]
    cases = [(torch.rand(4, V, generator=rng).argsort(-1)[:, :K], V, w) for V, K, w in sizes]

    def each(test):
        def run():
            for values, V, window in cases:
                got, hint = _probabilities(answer(values.clone(), V, window), (*values.shape, V))
                if hint := hint or test(got, values, V, window):
                    return f"{hint} (V = {V}, {values.shape[1]} pairs, window {window})"
            return None

        return run

    return grade("my_window", [each(_window_blind), each(_window_forgets), each(_window_eliminates), each(_window_sums)])


def _window_blind(got, values, V, window):
    """The value that is asked for cannot be known."""
    asked = got.gather(2, values[..., None])[..., 0]
    if window and (asked < 1e-12).all():
        return "the value that is asked for is eliminated at every pair: at pair k, look at the pairs before k"
    return None


def _window_forgets(got, values, V, window):
    for k in range(window + 1, values.shape[1]):
        if got[:, k].gather(1, values[:, : k - window]).min() > 1e-12:
            continue
        if window == 0:
            return "a window of 0 eliminates nothing, but yours eliminates everything: `x[-0:]` is the whole of x"
        if got[:, k].gather(1, values[:, k - 1 : k]).min() > 1e-12:
            return f"at pair {k} the latest value is possible and the first is not: the window slides along"
        return f"at pair {k} the value of pair 0 is eliminated too: it is {k} pairs back and forgotten"
    return None


def _window_eliminates(got, values, V, window):
    for k in range(values.shape[1]):
        on_last = got[:, k].gather(1, values[:, max(k - window, 0) : k])
        if on_last.numel() and on_last.max() > 1e-12:
            return f"at pair {k} one of the last {min(k, window)} values keeps probability {on_last.max():.3f}, expected 0"
    return None


def _window_sums(got, values, V, window):
    total = got.sum(-1)
    if (total - 1).abs().max() > 1e-6:
        k = int((total - 1).abs().amax(0).argmax())
        return (
            f"at pair {k} the probabilities sum to {total[0, k]:.3f}: "
            f"only {min(k, window)} values are eliminated there, the others share all of it"
        )
    for k in range(values.shape[1]):
        rest = torch.ones(values.shape[0], V).scatter(1, values[:, max(k - window, 0) : k], 0.0).bool()
        if got[:, k][rest].max() - got[:, k][rest].min() > 1e-9:
            return f"at pair {k} the values outside the window do not share equally"
    return None


# --- a label that is in the input --------------------------------------------------------------


def check_leaks(answer) -> Report:
    """Grade `my_leaks(inputs, labels)`: the scored positions whose label one visible token gives away.

    inputs is int64 (B, T); labels is int64 (B, T), -1 where nothing is scored. Position t leaks if
    there is a position s <= t whose token determines the label in all episodes.
    """

    def on(layout):
        def run():
            inputs, labels, leaks, about = layout(torch.Generator().manual_seed(26))
            got = {int(t) for t in answer(inputs.clone(), labels.clone())}
            return None if got == leaks else _leak_slip(got, leaks, labels, about)

        return run

    layouts = (_answers_follow, _copies, _copies_with_offset, _shows_the_last_answer, _renamed)
    return grade("my_leaks", [on(layout) for layout in layouts])


def _leak_slip(got, leaks, labels, about):
    scored = set((labels[0] >= 0).nonzero()[:, 0].tolist())
    if extra := sorted(got - scored):
        return f"position {extra[0]} has label -1, it is not scored and cannot leak"
    if got > leaks and not leaks:
        last = max(scored)
        if got == scored - {last}:
            return (
                "you report every key but the last in a layout without a leak: its answer stands one token later, "
                "and a causal model has not read that yet; only positions up to t count"
            )
        return (
            f"you report {sorted(got)} in a layout without a leak: a label that equals a token by chance "
            "in some episodes is no leak, it has to be determined in all of them"
        )
    return f"{about}: the leaks are at {sorted(leaks)}, you report {sorted(got)}"


LEAK_V, LEAK_L, LEAK_B = 6, 5, 300


def _leak_pairs(rng):
    keys = torch.rand(LEAK_B, LEAK_V, generator=rng).argsort(-1)[:, :LEAK_L]
    return keys, torch.rand(LEAK_B, LEAK_V, generator=rng).argsort(-1)[:, :LEAK_L]


def _leak_layout(rng, offset: int):
    """Tokens key, value + offset, ..., key of random pairs, and labels that score nothing yet."""
    keys, values = _leak_pairs(rng)
    inputs = torch.stack([keys, values + offset], -1).flatten(1)[:, :-1].contiguous()
    return inputs, torch.full_like(inputs, -1), values


def _answers_follow(rng):
    """One vocabulary, the label at a key is the value after it: nothing leaks."""
    inputs, labels, values = _leak_layout(rng, 0)
    labels[:, 0::2] = values
    return inputs, labels, set(), ""


def _copies(rng):
    """The label at a value is that same token: the released layout."""
    inputs, labels, values = _leak_layout(rng, 0)
    labels[:, 1::2] = values[:, :-1]
    labels[:, -1] = values[:, -1]
    odd = set(range(1, inputs.shape[1], 2))
    return inputs, labels, odd, "the label at a value is the very token that stands there"


def _copies_with_offset(rng):
    inputs, labels, values = _leak_layout(rng, LEAK_V)
    labels[:, 1::2] = values[:, :-1]
    odd = set(range(1, inputs.shape[1], 2))
    return inputs, labels, odd, (
        "value v is written as token v + V and its label as v: other numbers, the same knowledge"
    )


def _shows_the_last_answer(rng):
    """At a key the label is the value of the pair before: one token back."""
    inputs, labels, values = _leak_layout(rng, LEAK_V)
    labels[:, 2::2] = values[:, :-1]
    labels[:, 0] = values[:, 0]
    even = set(range(2, inputs.shape[1], 2))
    return inputs, labels, even, "the label at a key is the value of the pair before, one token back: look at every s <= t"


def _renamed(rng):
    """Two of the keys are labelled with their own names in another order; the others are honest."""
    inputs, labels, values = _leak_layout(rng, LEAK_V)
    labels[:, 0::2] = values
    names = torch.randperm(LEAK_V, generator=rng)
    for t in (2, 6):
        labels[:, t] = names[inputs[:, t]]
    return inputs, labels, {2, 6}, "at two keys the label is the key under another name, and the differences vary"


# --- how much leaks ----------------------------------------------------------------------------


EPSILON_SETTINGS = ((0.007, 20, 19), (0.0169, 20, 19), (0.001, 20, 20), (0.03, 8, 8), (0.004, 12, 3))
SEVERAL_ROOTS = (0.15, 8, 3)  # three leaks below 1/2 have this error


def check_epsilon(answer) -> Report:
    """Grade `my_epsilon(bits, n_values, n_pairs)`: the smallest leak that has this entropy error.

    The exact posterior of the bijection tunnel (distinct keys) is multiplied by 1 - epsilon and
    epsilon is spread evenly over the used values, where there are any.
    """

    def settings():
        for bits, V, K in (*EPSILON_SETTINGS, SEVERAL_ROOTS):
            epsilon = _number(answer(bits, V, K))
            if not 0 < epsilon < 0.5:
                return f"{bits} bits, V = {V}, K = {K}: you say {epsilon:.4g}, a leak is a small positive share"
            got = _entropy_error(partial(baselines.Leaky, epsilon=epsilon), V, K)
            if abs(got / bits - 1) > 2e-3:
                return _epsilon_slip(epsilon, got, bits, V, K)
            if epsilon > 1 / V:  # below that the error only grows, and reaches `bits`
                return f"{bits} bits, V = {V}, K = {K}: {epsilon:.4g} has this error, but so has a smaller leak"
        return None

    return grade("my_epsilon", [settings])


def _epsilon_slip(epsilon, got, bits, V, K):
    what = f"{bits} bits, V = {V}, K = {K}"
    if abs(epsilon / bits - 1) < 1e-6:
        return f"{what}: you return the bits themselves; how large a share of probability leaks is another quantity"
    as_kl = -math.log2(1 - epsilon)
    if any(abs(as_kl * share / bits - 1) < 2e-3 for share in (1.0, (K - 1) / K)):
        return f"{what}: {epsilon:.4g} is the leak whose KL divergence is {bits} bits; the entropy grows much faster"
    for factor, hint in EPSILON_SLIPS:
        if abs(got / bits / factor(K) - 1) < 2e-3:
            return f"{what}: {hint}"
    return f"{what}: a leak of {epsilon:.4g} has entropy error {got:.5f} bits by the book's evaluator"


EPSILON_SLIPS = (
    (lambda K: (K - 1) / K,
     "nothing can leak at the first pair, so its error is 0, but it is one of the K in the mean"),
    (lambda K: 1 / math.log(2), "your entropies are in nats: 1 bit is 0.693 nats"),
    (lambda K: 1 / K, "you matched the sum of the errors: the entropy error is their mean over the pairs"),
)  # fmt: skip
