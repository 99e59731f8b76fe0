"""Baseline predictors of the bijection tunnel, and their scores in closed form.

What counts positions only, what eliminates without remembering which key had which value.

Axes: B episodes, K scored positions (pairs), V values. Entropies and divergences in bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from bayeswind_lib.baselines.base import Baseline
from bayeswind_lib.tunnels import Bijection
from bayeswind_lib.tunnels.bijection import permutations


def shown_before(values: torch.Tensor, n_values: int, window: int | None = None) -> torch.Tensor:
    """Which values appeared before each key, among the last `window` values (None: all).

    Args:
        values: int64 (B, K-1), the value after each key but the last.
    Returns:
        bool (B, K, V).
    """
    marks = F.one_hot(values, n_values)  # (B, K-1, V)
    counts = F.pad(marks.cumsum(1), (0, 0, 1, 0))  # (B, K, V), how often before key k
    if window is not None:
        counts = counts - F.pad(counts, (0, 0, window, 0))[:, : counts.shape[1]]
    return counts > 0


def uniform_over(allowed: torch.Tensor) -> torch.Tensor:
    """Equal probability on the True entries of the last axis: float64, same shape."""
    return allowed.double() / allowed.sum(-1, keepdim=True)


class Certain(Baseline):
    """All probability on value 0: entropy zero, and wrong nearly always."""

    name = "always certain"

    def probabilities(self, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return F.one_hot(torch.zeros_like(keys), self.n_outputs).double()


class PositionCounter(Baseline):
    """The impostor: after k pairs, uniform on a *random* set of V - k values.

    It looks at no token. Its entropy is exactly right with distinct keys.
    """

    name = "counts positions only"

    def __init__(self, tunnel: Bijection, rng: torch.Generator):
        super().__init__(tunnel)
        self.rng = rng

    def probabilities(self, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        batch, length = keys.shape
        order = permutations(batch * length, self.n_outputs, self.n_outputs, self.rng)
        place = order.argsort(-1).view(batch, length, self.n_outputs)
        size = (self.n_outputs - torch.arange(length)).clamp(min=1)
        return uniform_over((place < size[:, None]).to(keys.device))


class Eliminator(Baseline):
    """Uniform on the values not shown among the last `window` (None: all), blind to keys.

    Raises:
        ValueError: for a window below 0.
    """

    def __init__(self, tunnel: Bijection, window: int | None = None):
        super().__init__(tunnel)
        if window is not None and window < 0:
            raise ValueError(f"window is {window}: it must be 0 or more")
        self.window = window
        self.name = "eliminates, no binding" if window is None else f"eliminates the last {window}"

    def probabilities(self, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        used = shown_before(values, self.n_outputs, self.window)
        used &= ~used.all(-1, keepdim=True)  # all used (with repeated keys): nothing to eliminate
        return uniform_over(~used)


class OneTooFew(Baseline):
    """Eliminates every value shown but the first: one elimination too few."""

    name = "one elimination too few"

    def probabilities(self, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        used = shown_before(values, self.n_outputs)
        used[:, 1:].scatter_(2, values[:, :1, None].expand(-1, values.shape[1], 1), False)
        return uniform_over(~used)


class OneTooMany(Baseline):
    """Eliminates the values shown and one more that is still free (never the last one)."""

    name = "one elimination too many"

    def probabilities(self, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        free = ~shown_before(values, self.n_outputs)
        first_free = F.one_hot(free.long().argmax(-1), self.n_outputs).bool()
        return uniform_over(torch.where(free.sum(-1, keepdim=True) > 1, free & ~first_free, free))


class Leaky(Baseline):
    """The oracle, but a share `epsilon` of its mass lies, evenly, on the eliminated values.

    Raises:
        ValueError: unless 0 <= epsilon < 1.
    """

    def __init__(self, tunnel: Bijection, epsilon: float):
        super().__init__(tunnel)
        if not 0 <= epsilon < 1:
            raise ValueError(f"epsilon is {epsilon}: it is a share of probability, 0 <= epsilon < 1")
        self.epsilon, self.name = epsilon, f"oracle with leak {epsilon:g}"

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        truth = self.tunnel.posterior(inputs)
        ruled_out = truth == 0
        leak = ruled_out.double() / ruled_out.sum(-1, keepdim=True).clamp(min=1)
        share = self.epsilon * ruled_out.any(-1, keepdim=True).double()
        return ((1 - share) * truth + share * leak).log2()


class RepeatAware(Baseline):
    """Knows whether the key was asked before and which values are used, not which goes with which."""

    name = "knows repeats and used values, no binding"

    def probabilities(self, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        used = shown_before(values, self.n_outputs)
        repeated = shown_before(keys[:, :-1], self.n_outputs).gather(2, keys[..., None])
        return uniform_over(torch.where(repeated, used, ~used))


class Binder(Baseline):
    """Remembers the value of every key shown, and eliminates nothing for a new key."""

    name = "binding, no elimination"

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        keys, _ = self.tunnel.read(inputs)
        repeated = shown_before(keys[:, :-1], self.n_outputs).gather(2, keys[..., None])
        return torch.where(repeated, self.tunnel.posterior(inputs), 1 / self.n_outputs).log2()


@dataclass(frozen=True)
class Situation:
    """One kind of moment in an episode, and how often it occurs.

    Attributes:
        weight: share of all scored positions, sums to 1 over situations.
        k: pairs shown before. d: distinct keys among them. repeated: the key is one of those.
        entropy: of the exact posterior, bits.
    """

    weight: float
    k: int
    d: int
    repeated: bool
    entropy: float


def situations(
    n_values: int, n_pairs: int | None = None, with_replacement: bool = False
) -> list[Situation]:
    """All kinds of moments in a bijection episode with their exact probabilities.

    With distinct keys there is one a position. With replacement the number d of distinct keys
    is a Markov chain: it grows by one with probability (V - d) / V.
    """
    V, K = n_values, n_values if n_pairs is None else n_pairs
    if not with_replacement:
        return [Situation(1 / K, k, k, False, math.log2(V - k)) for k in range(K)]
    result, chance = [], np.zeros(V + 2)
    chance[0] = 1.0
    for k in range(K):
        for d in range(min(k, V) + 1):
            if chance[d] == 0:
                continue
            result.append(Situation(float(chance[d]) * d / V / K, k, d, True, 0.0))
            if d < V:
                result.append(Situation(float(chance[d]) * (V - d) / V / K, k, d, False, math.log2(V - d)))
        d = np.arange(V + 2)
        chance = chance * d / V + np.roll(chance * (V - d).clip(0) / V, 1)
    return [s for s in result if s.weight > 0]


def task_constants(
    n_values: int, n_pairs: int | None = None, with_replacement: bool = False
) -> dict[str, float]:
    """What the task itself fixes, as means over positions.

    Returns:
        mean_entropy (bits), bayes_loss_nats (the lowest loss there is), uniform_loss_nats, best_accuracy and
        p_key_seen, how often the key was asked before (probabilities).
    """
    moments = situations(n_values, n_pairs, with_replacement)
    entropy = sum(s.weight * s.entropy for s in moments)
    return {
        "mean_entropy": entropy,
        "bayes_loss_nats": entropy * math.log(2),
        "uniform_loss_nats": math.log(n_values),
        "best_accuracy": sum(s.weight * 2**-s.entropy for s in moments),
        "p_key_seen": sum(s.weight for s in moments if s.repeated),
    }


def exact_baselines(
    n_values: int, n_pairs: int | None = None, with_replacement: bool = False
) -> dict[str, dict[str, float]]:
    """Scores of the reference predictors by formula: {name: {entropy_mae, kl, tv}}.

    kl and tv are NaN where a baseline fixes an entropy but no distribution.
    """
    V = n_values
    moments = situations(n_values, n_pairs, with_replacement)

    def mean(value: Callable[[Situation], float]) -> float:
        return sum(s.weight * value(s) for s in moments)

    def of_entropy(entropy: Callable[[Situation], float]) -> dict[str, float]:
        return {"entropy_mae": mean(lambda s: abs(entropy(s) - s.entropy)), "kl": math.nan, "tv": math.nan}

    def of_sets(size: Callable[[Situation], int], kept: Callable[[Situation], float]) -> dict[str, float]:
        """Uniform on `size` values, a share `kept` of the truth's support among them."""
        inside = mean(lambda s: kept(s) * min(2**-s.entropy, 1 / size(s)) * 2**s.entropy)
        sure = all(kept(s) > 1 - 1e-12 for s in moments)
        kl = mean(lambda s: math.log2(size(s)) - s.entropy) if sure else math.inf
        error = mean(lambda s: abs(math.log2(size(s)) - s.entropy))
        return {"entropy_mae": error, "kl": max(kl, 0.0), "tv": max(1 - inside, 0.0)}

    found = {
        "uniform": of_sets(lambda s: V, lambda s: 1.0),
        "all_tokens": of_sets(lambda s: 2 * V, lambda s: 1.0),
        "certain": of_sets(lambda s: 1, lambda s: 1 / V),
        "best_constant": of_entropy(_constant(moments, _weighted_median)),
        "mean_constant": of_entropy(_constant(moments, _weighted_mean)),
        "position_median": of_entropy(_by_position(moments, _weighted_median)),
        "position_mean": of_entropy(_by_position(moments, _weighted_mean)),
        "position_counter": of_sets(lambda s: max(V - s.k, 1), lambda s: max(V - s.k, 1) / V),
    }
    if with_replacement:
        found["no_binding"] = of_sets(
            lambda s: V - s.d if s.d < V else V, lambda s: float(not s.repeated or s.d == V)
        )
        found["repeat_aware"] = of_sets(lambda s: s.d if s.repeated else V - s.d, lambda s: 1.0)
        found["binder"] = of_sets(lambda s: 1 if s.repeated else V, lambda s: 1.0)
    else:
        found["no_binding"] = of_sets(lambda s: V - s.k, lambda s: 1.0)
        found["one_too_few"] = of_sets(lambda s: V - s.k + (s.k > 0), lambda s: 1.0)
        found["one_too_many"] = of_sets(
            lambda s: max(V - s.k - 1, 1), lambda s: max(V - s.k - 1, 1) / (V - s.k)
        )
        for window in range(1, V):
            found[f"window_{window}"] = of_sets(
                lambda s, w=window: V - min(s.k, w), lambda s: 1.0
            )
    return found


def exact_leak(
    epsilon: float, n_values: int, n_pairs: int | None = None
) -> dict[str, float]:
    """Score of the oracle with mass `epsilon` spread evenly on eliminated values (distinct keys)."""
    error = kl = tv = 0.0
    for s in situations(n_values, n_pairs):
        if s.k == 0:
            continue  # nothing is eliminated yet, so nothing leaks
        free, used = n_values - s.k, s.k
        entropy = -(1 - epsilon) * math.log2((1 - epsilon) / free)
        entropy -= epsilon * math.log2(epsilon / used) if epsilon else 0.0
        error += s.weight * abs(entropy - s.entropy)
        kl -= s.weight * math.log2(1 - epsilon)
        tv += s.weight * epsilon
    return {"entropy_mae": error, "kl": kl, "tv": tv}


def leak_for_entropy_error(
    entropy_mae: float, n_values: int, n_pairs: int | None = None
) -> float:
    """The leak epsilon at which `exact_leak` has this entropy error (bits), by bisection.

    Raises:
        ValueError: for an error that no leak below 0.1 has.
    """
    low, high = 0.0, 0.1
    if not 0 <= entropy_mae <= exact_leak(high, n_values, n_pairs)["entropy_mae"]:
        raise ValueError(f"entropy_mae is {entropy_mae}: no leak between 0 and {high} gives that")
    for _ in range(60):
        middle = (low + high) / 2
        if exact_leak(middle, n_values, n_pairs)["entropy_mae"] < entropy_mae:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _weighted_mean(values: list[float], weights: list[float]) -> float:
    return float(np.average(values, weights=weights))


def _weighted_median(values: list[float], weights: list[float]) -> float:
    order = np.argsort(values)
    total = np.cumsum(np.array(weights)[order])
    return float(np.array(values)[order][np.searchsorted(total, total[-1] / 2 - 1e-12)])


def _constant(moments: list[Situation], summary) -> Callable[[Situation], float]:
    value = summary([s.entropy for s in moments], [s.weight for s in moments])
    return lambda s: value


def _by_position(moments: list[Situation], summary) -> Callable[[Situation], float]:
    value = {}
    for k in {s.k for s in moments}:
        here = [s for s in moments if s.k == k]
        value[k] = summary([s.entropy for s in here], [s.weight for s in here])
    return lambda s: value[s.k]
