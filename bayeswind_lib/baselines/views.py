"""The best that a restricted view of a bijection episode allows, exactly.

A *view* is what a position may see of the pairs before it, whatever the network: its own token
only, the last w pairs, which tokens came, how often each came, or everything in order. The best
prediction from a view is the mean of the posterior over all episodes that look the same in it,
and what it costs is a conditional mutual information.

Axes: K questions, V values. Entropies in bits.
"""

from __future__ import annotations

import math

import numpy as np

VIEWS = {
    "token": "its own token",
    "window": "the last w pairs",
    "set": "which tokens came",
    "bag": "how often each token came",
    "order": "everything, in order",
}


def best(view: str, keys: list[int], values: list[int], n_values: int, window: int = 1) -> list[float]:
    """The best prediction of the value of the last key, from a view of the pairs before it.

    Args:
        view: one of VIEWS.
        keys: whole numbers, of the pairs shown and then the key asked (k + 1 of them).
        values: of the pairs shown (k of them).
        n_values: V.
        window: w, for the view "window".
    Returns:
        V probabilities.
    Raises:
        ValueError: if there is no such view, or the numbers of keys and values do not fit.

    >>> best("bag", [0, 1, 0, 0], [2, 1, 2], 3)
    [0.0, 0.0, 1.0]
    """
    if view not in VIEWS:
        raise ValueError(f"view is {view!r}: choose one of {', '.join(VIEWS)}")
    if len(keys) != len(values) + 1:
        raise ValueError(f"{len(keys)} keys and {len(values)} values: the last key has no value yet")
    *shown, asked = keys
    if view == "window":
        first = max(len(shown) - window, 0)
        shown, values = shown[first:], values[first:]
    met, used = shown.count(asked), set(values)
    if view == "token":
        possible = set(range(n_values))
    elif not met:
        possible = set(range(n_values)) - used
    elif view == "set":
        possible = used
    elif view == "bag":  # the value came exactly as often as its key
        possible = {value for value in used if values.count(value) == met}
    else:
        possible = {values[shown.index(asked)]}
    return [1 / len(possible) if value in possible else 0.0 for value in range(n_values)]


def entropies(
    n_values: int, n_pairs: int | None = None, with_replacement: bool = False, window: int = 1
) -> dict[str, np.ndarray]:
    """Mean entropy of the best prediction from every view, at every question: {view: float64 (K,)}.

    The entropy of the best prediction is on average H(Y | view), so "order" has that of the exact
    posterior, and no other view has less.
    """
    V, K = n_values, n_values if n_pairs is None else n_pairs
    log = [math.log2(n) if n else 0.0 for n in range(V + 1)]
    if not with_replacement:
        free = [log[V - k] for k in range(K)]
        close = [log[V - min(k, window)] for k in range(K)]
        rows = {"token": [log[V]] * K, "window": close, "set": free, "bag": free, "order": free}
    else:
        rows = {"token": [log[V]] * K, "window": [], "set": [], "bag": [], "order": []}
        for k in range(K):
            few = min(k, window)
            rows["window"].append((1 - 1 / V) ** few * _mean_log(V - 1, few, lambda d: log[V - d]))
            new = (1 - 1 / V) ** k * _mean_log(V - 1, k, lambda d: log[V - d])
            rows["order"].append(new)
            met = _mean_log(V, k, lambda d: d / V * log[d])  # a share d / V of keys has come
            rows["set"].append(new + met)
            rows["bag"].append(new + _mean_alike(V, k))
    return {view: np.array(rows[view]) for view in VIEWS}


def floors(
    n_values: int, n_pairs: int | None = None, with_replacement: bool = False, window: int = 1
) -> dict[str, np.ndarray]:
    """The least possible error of every view at every question, bits: {view: float64 (K,)}.

    It is the least mean KL divergence, H(Y | view) - H(Y | everything), and here the entropy
    error of that same prediction too: every view is unsure among a set that holds the truth's.
    """
    rows = entropies(n_values, n_pairs, with_replacement, window)
    return {view: np.maximum(row - rows["order"], 0.0) for view, row in rows.items()}


def _mean_log(n_keys: int, n_draws: int, value) -> float:
    """Mean of value(number of different keys) over independent draws of one of n_keys keys."""
    chance = {0: 1.0}
    for _ in range(n_draws):
        grown: dict[int, float] = {}
        for d, p in chance.items():
            grown[d] = grown.get(d, 0.0) + p * d / n_keys
            if d < n_keys:
                grown[d + 1] = grown.get(d + 1, 0.0) + p * (n_keys - d) / n_keys
        chance = grown
    return sum(p * value(d) for d, p in chance.items())


def _mean_alike(n_values: int, k: int) -> float:
    """Mean of log2(how many keys came exactly as often as the one asked), 0 where that is new."""
    V, total = n_values, 0.0
    for n in range(1, k + 1):
        met = math.comb(k, n) * (1 / V) ** n * (1 - 1 / V) ** (k - n)  # the asked key came n times
        for others, chance in enumerate(_how_many_came(V - 1, k - n, n)):
            total += met * chance * math.log2(others + 1)
    return total


def _how_many_came(n_keys: int, n_draws: int, n: int) -> np.ndarray:
    """Chance that 0, 1, 2, ... of n_keys keys come exactly n times in n_draws draws.

    Key by key: a table over (draws spent, keys with n draws), weights 1 / (draws of a key)!.
    """
    if n_keys == 0:
        return np.array([1.0])  # V = 1: nobody else is there
    table = np.zeros((n_draws + 1, n_draws // n + 1))
    table[0, 0] = 1.0
    for _ in range(n_keys):
        grown = np.zeros_like(table)
        for own in range(n_draws + 1):
            rest = table[: n_draws + 1 - own] / math.factorial(own)
            if own == n:
                grown[own:, 1:] += rest[:, :-1]
            else:
                grown[own:] += rest
        table = grown
    return table[n_draws] * math.factorial(n_draws) / float(n_keys) ** n_draws
