"""Predictors for the recall tunnel that remember less than everything, and their exact scores.

The baselines to read an accuracy against: `Uniform` (base) knows nothing, 1 / V. `StoredSet` knows which
values were stored but with no key, 1 / N; a network below that has not even learned to look at
the stored values. `WindowRecall` binds the last w pairs only, as a memory of w places would.

Axes: B episodes, N stored pairs, M queries (scored positions), V values. Divergences in bits.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F

from bayeswind_lib.baselines.base import Baseline
from bayeswind_lib.tunnels import Recall


class StoredSet(Baseline):
    """Uniform on the N stored values, whichever key is asked: memory without binding."""

    name = "stored values, no binding"

    def probabilities(self, keys, values, queries):
        share = F.one_hot(values, self.tunnel.n_values).sum(1).double() / self.tunnel.n_pairs
        return share[:, None].repeat(1, queries.shape[1], 1)


class WindowRecall(Baseline):
    """Knows the last `window` pairs exactly, and does with the rest what is best.

    If the key asked is not among those pairs, nor is its value; of the others all are equally
    likely that it can still tell apart: the values stored earlier if `knows_set`, else every
    value that the window does not hold.
    """

    def __init__(self, tunnel: Recall, window: int, knows_set: bool = True):
        super().__init__(tunnel)
        if not 0 <= window <= tunnel.n_pairs:
            raise ValueError(
                f"window is {window}: {tunnel.n_pairs} pairs are stored, choose 0..{tunnel.n_pairs}"
            )
        self.window, self.knows_set = window, knows_set
        self.name = f"binds the last {window}" + (", knows all values" if knows_set else "")

    def probabilities(self, keys, values, queries):
        early = self.tunnel.n_pairs - self.window
        bound = (queries[:, :, None] == keys[:, None, early:]).double()  # (B, M, w)
        marks = F.one_hot(values, self.tunnel.n_values).double()  # (B, N, V)
        known = bound @ marks[:, early:]  # (B, M, V), the answer where it is in the window
        other = marks[:, :early].sum(1) if self.knows_set else 1 - marks[:, early:].sum(1)
        guess = other / other.sum(-1, keepdim=True).clamp(min=1)  # (B, V)
        return torch.where(bound.any(-1, keepdim=True), known, guess[:, None])


def exact_recall_baselines(
    n_pairs: int = 64, n_values: int = 256, **_
) -> dict[str, dict[str, float]]:
    """Scores of the predictors above by formula: {name: {entropy_mae, kl, tv, accuracy}}.

    The truth is certain, so a predictor's entropy is its entropy error, -log2 of what it gives to
    the right value its divergence, and one minus that its total variation distance. Takes a
    tunnel's whole config: `exact_recall_baselines(**tunnel.config)`; keys, queries and filler change
    nothing.
    """
    N, V = n_pairs, n_values
    found = {
        "uniform": _guess(0, N, V),
        "stored_set": _guess(0, N, N),
        "last_stored": {
            "entropy_mae": 0.0, "kl": math.inf if N > 1 else 0.0, "tv": 1 - 1 / N, "accuracy": 1 / N,
        },
    }
    for window in range(1, N + 1):
        found[f"window_{window}"] = _guess(window, N, N - window)
        found[f"window_{window}_alone"] = _guess(window, N, V - window)
    return found


def _guess(window: int, n_pairs: int, n_left: int) -> dict[str, float]:
    """Scores of knowing `window` of the pairs, with a uniform guess among `n_left` for the rest."""
    missed = 1 - window / n_pairs  # how often the key asked is not in the window
    hit = 1 / max(n_left, 1)
    bits = missed * math.log2(max(n_left, 1))
    accuracy = 1 - missed + missed * hit
    return {"entropy_mae": bits, "kl": bits, "tv": 1 - accuracy, "accuracy": accuracy}
