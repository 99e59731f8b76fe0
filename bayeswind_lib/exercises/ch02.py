"""Checks for chapter 2, "A tunnel with a known answer".

Every check states properties and tries them, first on small instances with a hint for each usual
mistake, then (where the property is exact) on instances drawn with a fresh seed. What an answer is
compared with is counted over all bijections of a small tunnel, or known of a baseline.

Axes: B episodes, K scored positions (pairs), T tokens, V values.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from functools import partial
from itertools import permutations, product

import torch

from bayeswind_lib import baselines, checkpoints, scoring, tunnels
from bayeswind_lib.exercises.core import Report, grade

NETWORK = "bijection-transformer-classroom"


def _fresh() -> torch.Generator:
    """A generator that is another one each time."""
    return torch.Generator().manual_seed(secrets.randbelow(2**31))


def _probabilities(got, shape: tuple[int, ...]) -> tuple[torch.Tensor, str | None]:
    """The answer as float64, and a hint if it has another shape or is no set of numbers >= 0."""
    got = torch.as_tensor(got).double()
    if got.shape != shape:
        return got, f"the result has shape {tuple(got.shape)}, expected {shape}"
    if got.isnan().any() or got.min() < 0:
        return got, "a probability is negative or not a number"
    return got, None


# --- an oracle for pairs that may be wrong -----------------------------------------------------


def check_noisy(answer) -> Report:
    """Grade `my_noisy(keys, values, asked, n_values, epsilon)`: V probabilities of the asked key's true value.

    keys and values are lists; each value shown is wrong with probability epsilon, and then any of
    the V - 1 others.
    """

    def on(pairs, asked, n_values, epsilon, hint):
        keys, values = [k for k, _ in pairs], [v for _, v in pairs]
        got, fault = _probabilities(answer(list(keys), list(values), asked, n_values, epsilon), (n_values,))
        if fault:
            return fault
        where = f"V = {n_values}, epsilon = {epsilon:g}, pairs shown {pairs}, asked for key {asked}"
        if abs(got.sum() - 1) > 1e-5:
            return f"{where}: the probabilities sum to {got.sum():.4f}; divide by the total weight of all maps"
        want = _weighted(pairs, asked, n_values, epsilon)
        if (got - want).abs().max() < 1e-5:
            return None
        return f"{where}: going through all maps gives {_rounded(want)}, you say {_rounded(got)}. {hint(got)}"

    def one_pair(got):
        if got[0] > 1 - 1e-9:
            return "A pair may be wrong, so it does not rule the other maps out: it makes them less probable"
        if abs(got[0] - 0.82) < 1e-6:
            return "You forecast what would be shown, errors included; asked is the true value"
        return "The map with f(0) = 0 has weight 0.9 and the other one 0.1"

    def fresh():
        rng = _fresh()
        for _ in range(12):
            n_values, n_pairs = (int(torch.randint(*ends, (), generator=rng)) for ends in ((3, 6), (0, 6)))
            pairs = torch.randint(n_values, (n_pairs, 2), generator=rng).tolist()
            asked = int(torch.randint(n_values, (), generator=rng))
            epsilon = round(0.05 + 0.5 * float(torch.rand((), generator=rng)), 2)
            if hint := on([tuple(pair) for pair in pairs], asked, n_values, epsilon, lambda got: ""):
                return hint
        return None

    cases = [
        ([], 1, 3, 0.2, lambda got: "Before anything is shown all values are alike"),
        ([(0, 0)], 0, 2, 0.1, one_pair),
        ([(0, 0)], 0, 3, 0.3, lambda got: "A wrong value is one of V - 1, each with probability epsilon / (V - 1)"),
        ([(0, 0)], 1, 3, 0.3, lambda got: "Key 1 was not shown, but what key 0 probably has, key 1 probably has not"),
        ([(0, 1), (0, 1)], 0, 3, 0.3, lambda got: "The errors are independent, so a pair that is shown twice counts twice"),
        ([(0, 1), (1, 1)], 2, 4, 0.2, lambda got: "Two pairs that contradict each other cannot both be right"),
        ([(0, 1), (2, 3)], 1, 4, 0.0, lambda got: "With epsilon = 0 this is the staircase"),
    ]
    return grade("my_noisy", [*(partial(on, *case) for case in cases), fresh])


def _weighted(pairs, asked: int, n_values: int, epsilon: float) -> torch.Tensor:
    """Every map votes for its value of the asked key, with the probability of what was shown."""
    votes = torch.zeros(n_values, dtype=torch.float64)
    for one in permutations(range(n_values)):
        wrong = sum(one[key] != value for key, value in pairs)
        votes[one[asked]] += (1 - epsilon) ** (len(pairs) - wrong) * (epsilon / (n_values - 1)) ** wrong
    return votes / votes.sum()


def _rounded(row: torch.Tensor) -> list[float]:
    return [round(p, 3) for p in row.tolist()]


# --- the step on which a proof rests -----------------------------------------------------------


def check_partner(answer) -> Report:
    """Grade `my_partner(mapping, a, b)`: the map in which keys a and b have each other's value."""

    def on(mapping, a, b):
        got = [int(v) for v in answer(list(mapping), a, b)]
        where = f"the partner of {mapping} for keys {a} and {b} is {got}"
        if sorted(got) != sorted(mapping):
            return f"{where}: that is no bijection, some value occurs twice or not at all"
        if got == list(mapping):
            return f"{where}: the map itself, in which both keys still have their own values"
        moved = [key for key in range(len(mapping)) if key not in (a, b) and got[key] != mapping[key]]
        if moved and got[a] == mapping[a] and got[b] == mapping[b]:
            return f"{where}: keys {a} and {b} keep their values; exchange what they have, not what the others have"
        if moved and got == [{a: b, b: a}.get(value, value) for value in mapping]:
            return f"{where}: you exchange the *values* {a} and {b}; exchange the values that the *keys* {a} and {b} have"
        if moved:
            return f"{where}: key {moved[0]} has another value than before, so the forecast there could change"
        return None

    def twice(mapping, a, b):
        if [int(v) for v in answer([int(v) for v in answer(list(mapping), a, b)], a, b)] != list(mapping):
            return "the partner of the partner is not the map you began with, so maps are not matched in pairs"
        return None

    def fresh():
        rng = _fresh()
        for _ in range(20):
            n = int(torch.randint(3, 8, (), generator=rng))
            mapping = torch.randperm(n, generator=rng).tolist()
            a, b = torch.randperm(n, generator=rng)[:2].tolist()
            if hint := on(mapping, a, b) or twice(mapping, a, b):
                return hint
        return None

    return grade("my_partner", [partial(on, [2, 0, 1, 3], 0, 1), partial(on, [1, 4, 3, 0, 2], 0, 3), fresh])


# --- a head that eliminates --------------------------------------------------------------------

FAR = 1e-3  # bits, what a head may miss


def check_head(answer) -> Report:
    """Grade `my_head(n_values)`: the four matrices (W_Q, W_K, W_V, W_O) of a head that eliminates.

    A head reads k one-hot value tokens and the question token, (k+1, V+1), and returns V logits.
    """

    def shapes():
        got = [tuple(torch.as_tensor(part).shape) for part in answer(5)]
        if len(got) != 4:
            return f"the result has {len(got)} parts, expected four matrices: W_Q, W_K, W_V, W_O"
        query, key, value, output = got
        fits = all(len(shape) == 2 for shape in got) and query == key and query[0] == value[0] == 6
        fits = fits and value[1] == output[0] and output[1] == 5
        return None if fits else f"for V = 5 the matrices have shapes {got}, expected (6, d), (6, d), (6, m), (m, 5)"

    def on(n_values, rng):
        parts = [torch.as_tensor(part).double() for part in answer(n_values)]
        for k in range(n_values):
            used = torch.randperm(n_values, generator=rng)[:k]
            weights, logits = _head(parts, used, n_values)
            if hint := _head_slip(weights, logits.softmax(-1), used, n_values):
                return f"V = {n_values}, {k} values shown: {hint}"
        return None

    fixed = [partial(on, n, torch.Generator().manual_seed(7)) for n in (5, 10, 20)]
    return grade("my_head", [shapes, *fixed, lambda: on(3 + secrets.randbelow(18), _fresh())])


def _head(parts, used: torch.Tensor, n_values: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of the question to all tokens (k+1,), and the logits (V,)."""
    query, key, value, output = parts
    rows = torch.eye(n_values + 1, dtype=torch.float64)[[*used.tolist(), n_values]]
    scores = (rows @ key) @ (rows[-1] @ query) / math.sqrt(query.shape[1])
    weights = scores.softmax(-1)
    return weights, weights @ rows @ value @ output


def _head_slip(weights, prob, used, n_values) -> str | None:
    free = torch.ones(n_values, dtype=torch.bool)
    free[used] = False
    if not prob.isfinite().all():
        return "a probability is not finite"
    if not len(used) and prob.max() - prob.min() > 1e-6:
        return "the values differ before any was shown: what the question token passes on should not reach the logits"
    far = math.inf if (prob[free] == 0).any() else float(-(prob[free] * (n_values - len(used))).log2().mean())
    if far < FAR:
        return None
    on_used, even = prob[used], (prob.max() - prob.min()) < 1e-9
    if even:
        return "all values are equally probable: nothing that was shown reaches the logits"
    if on_used.min() > prob[free].max():
        return "the values that were shown have become the most probable: mind the sign"
    read = weights[:-1]
    if len(used) > 1 and read.max() > 2 * read.min() + 1e-9:
        return (
            f"attention to the value tokens goes from {read.min():.3f} to {read.max():.3f}; "
            "a value that is hardly read is hardly eliminated"
        )
    return (
        f"the values that were shown keep probability {float(on_used.sum()):.3f} between them, KL {far:.3f} bits: "
        "an average divides each push by the number of tokens, so push harder"
    )


# --- two predictors in bits --------------------------------------------------------------------


def check_bits(answer) -> Report:
    """Grade `my_bits(predict, n_values, n_episodes, rng)`: mean KL (bits) at each question of the staircase, (V,)."""

    def score(predictor, n_values, n_episodes=8):
        got = torch.as_tensor(answer(predictor.predict, n_values, n_episodes, torch.Generator().manual_seed(8))).double()
        if got.shape != (n_values,):
            return got, f"the result has shape {tuple(got.shape)}, expected ({n_values},): one number a question"
        if got.isnan().any():
            return got, "the result is not a number: 0 times the logarithm of 0; what cannot happen adds nothing"
        return got, None

    def oracle():
        tunnel = tunnels.Bijection(6)
        got, fault = score(tunnel, 6)
        if fault or got.abs().max() < 1e-6:
            return fault
        return f"the exact posterior itself is {_rounded(got)} bits away: a divergence from itself is 0"

    def uniform():
        got, fault = score(baselines.Uniform(tunnels.Bijection(6)), 6)
        want = torch.tensor([math.log2(6 / (6 - k)) for k in range(6)], dtype=torch.float64)
        if fault or (got - want).abs().max() < 1e-6:
            return fault
        if got.isinf().any():
            return "the uniform guess rules nothing out, yet you find infinity: average over the exact posterior, not over the prediction"
        if (got - want * math.log(2)).abs().max() < 1e-6:
            return "the uniform guess is log2 V - log2(V - k) bits away; you find the same in nats"
        if (got * 6 - want).abs().max() < 1e-6:
            return "you average over the values; KL is a sum over them"
        return f"the uniform guess is {_rounded(want)} bits away, you say {_rounded(got)}"

    def renamed():
        got, fault = score(baselines.RelabelledOracle(tunnels.Bijection(6)), 6, 64)
        if fault or (got[0] < 1e-6 and got[1:].isinf().all()):
            return fault
        return (
            f"a predictor with all names of values exchanged rules out what can happen, and you give it {_rounded(got)} bits: "
            "its entropies are right, so entropies alone do not tell"
        )

    def leaky():
        got, fault = score(baselines.Leaky(tunnels.Bijection(9), 0.25), 9)
        want = -math.log2(0.75)
        if fault or (got[1:] - want).abs().max() < 1e-6:
            return fault
        return f"an oracle that leaks a quarter of its mass is {want:.3f} bits away at every question but the first, you say {_rounded(got)}"

    def network():
        model, tunnel = checkpoints.load(NETWORK), tunnels.Bijection(10)
        got, fault = score(model, 10, 256)
        found = scoring.score_episodes(model, tunnel.sample(1024, torch.Generator().manual_seed(9)))
        want, error = (torch.as_tensor(part["kl"]) for part in (found.per_position, found.per_position_se))
        if fault or ((got - want).abs() < 15 * error + 1e-3 * want + 1e-9).all():
            return fault
        return f"the trained network is {_rounded(want)} bits away on other episodes, you say {_rounded(got)}"

    return grade("my_bits", [oracle, uniform, renamed, leaky, network])


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


# --- a control that impostors fail -------------------------------------------------------------


class _KeyEliminator(baselines.Baseline):
    """Rules out the values that bear the numbers of the *keys* shown."""

    name = "rules out the numbers of the keys"

    def probabilities(self, keys, values):
        return baselines.bijection.uniform_over(~baselines.bijection.shown_before(keys[:, :-1], self.n_outputs))


class _Sure(baselines.Baseline):
    """Certain of the first value that has not been shown."""

    name = "certain of one unused value"

    def probabilities(self, keys, values):
        used = baselines.bijection.shown_before(values, self.n_outputs)
        return torch.nn.functional.one_hot(used.long().argmin(-1), self.n_outputs).double()


def check_control(answer) -> Report:
    """Grade `my_control(predict, n_values, rng)`: True for predictors that eliminate, False for impostors."""
    tunnel, R = tunnels.Bijection(10), baselines

    def on(predictor, want, hint):
        def run():
            made = predictor()
            got = answer(made.predict, 10, torch.Generator().manual_seed(10))
            if bool(got) == want and got is not None:
                return None
            return hint if got is not None else "the result is None: does your function end with `return`?"

        return run

    counter = partial(R.PositionCounter, tunnel, torch.Generator().manual_seed(11))
    zoo = [
        (lambda: tunnel, True, "it rejects the exact posterior"),
        (partial(R.Uniform, tunnel), False, "it accepts the uniform guess, which eliminates nothing"),
        (counter, False, "it accepts a predictor that counts positions and looks at no value"),
        (partial(R.RelabelledOracle, tunnel), False,
         "it accepts a predictor that answers to what is shown but rules out another value: look at which one loses its probability"),
        (partial(R.Eliminator, tunnel, 3), False, "it accepts a predictor that remembers the last three values: look at all that were shown"),
        (partial(_KeyEliminator, tunnel), False,
         "it accepts a predictor that rules out the numbers of the keys: in your episodes a key and its value should differ"),
        (partial(_Sure, tunnel), False,
         "it accepts a predictor that is certain of one unused value: those that may still follow must keep their share"),
        (partial(R.Leaky, tunnel, 0.01), True, "it rejects an oracle that leaks one hundredth: leave room for small errors"),
        (partial(checkpoints.load, NETWORK), True, "it rejects the trained network, whose answers are nearly exact: its tolerance is too small"),
    ]  # fmt: skip
    return grade("my_control", [on(*case) for case in zoo])
