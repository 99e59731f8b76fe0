"""When does a quantity settle, and what do five seeds say about it?

`settling` reads one time off one curve. `readings` takes the quantities of a run's snapshots, the
controls among them. What few seeds say about ratios of such times is in `stats`.

Axes: C snapshots, L layers, N vectors, D channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from bayeswind_lib import scoring
from bayeswind_lib.probes import progress
from bayeswind_lib.probes.activations import activations
from bayeswind_lib.stats import correlation, pca
from bayeswind_lib.tunnels import Episodes

KEY_AXES = 4  # principal axes of the token keys of layer 0 whose span is compared


# ---- one curve


@dataclass(frozen=True)
class Settled:
    """When a curve settled.

    Attributes:
        step: updates. between: the two snapshots around it.
        at_end: whether only the last snapshot is near the end, which it always is: then a longer run
            might have moved on, and the time says little.
    """

    step: float
    between: tuple[float, float]
    at_end: bool


def settling(steps: Sequence[float], q: Sequence[float], within: float = 0.1) -> Settled:
    """The first update after which a quantity stays within a share of its total change of its end, on either side.

    Between two snapshots straight in log(1 + step), as in `progress.steps_to`.

    Args:
        steps: (C,), rising. q: (C,), any quantity: a distance from the end, a divergence.
    Raises:
        ValueError: if the first and the last value are the same: then there is no change to take a share of.
    """
    steps, q = np.asarray(steps, dtype=float), np.asarray(q, dtype=float)
    total = abs(q[0] - q[-1])
    if total == 0:
        raise ValueError("the quantity ends where it began: a settling time needs a change")
    far = np.abs(q - q[-1]) / total
    outside = np.flatnonzero(far > within)  # never empty: the first is 1
    last = int(outside[-1])
    return Settled(
        progress.steps_to(steps, 1 - far, 1 - within), (steps[last], steps[last + 1]), last + 2 == len(steps)
    )


# ---- quantities


def overlap(x: torch.Tensor, y: torch.Tensor, axes: int = KEY_AXES) -> float:
    """How much of the span of x's first principal axes lies in that of y's: (N, D) each; 0 to 1.

    The mean squared cosine of the principal angles. Two random spans have about axes / D.
    """
    spans = [torch.linalg.svd(part.double() - part.double().mean(0), full_matrices=False)[2][:axes] for part in (x, y)]
    return float((spans[0] @ spans[1].T).square().sum() / axes)


def main_axis(x: torch.Tensor, entropy: torch.Tensor) -> dict[str, float]:
    """Share of the variance on the first principal axis of (N, D), and |rank correlation| with entropy (N,)."""
    shape = pca(x.numpy())
    first = shape.project(x.numpy(), 1)[:, 0]
    return {"axis share": float(shape.shares[0]), "axis rank": float(correlation(first, entropy.numpy(), ranked=True))}


def readings(model: nn.Module, snapshots: Mapping[float, Mapping], episodes: Episodes) -> dict[str, np.ndarray]:
    """The quantities of a run, (C,) each; distances are from the last snapshot, mean over layers.

    Returns:
        "patterns" (TV), "scores" (row-centred), "keys" (1 - overlap of the spans of layer 0's keys),
        "values" (1 - CKA of what attention adds) and "gram" (their straight distance), "hidden" and
        "hidden gram" (the same of a fixed random subset of hidden units, as many as channels: the
        control), "axis share" and "axis rank" (of the last layer's attention outputs at scored
        positions), "kl", "entropy_mae" and "sure kl" (in the quarter of positions with least entropy), bits.
    """
    names = ["pattern.*", "attention.*", "hidden.*", "key.0"]
    scored = list(model.config.scored)
    exact = scoring.entropy_bits(episodes.posterior).flatten()  # (B K,)
    sure = exact <= exact.quantile(0.25)
    kept = {name: part.clone() for name, part in model.state_dict().items()}
    seen = []
    try:
        for weights in snapshots.values():
            model.load_state_dict(weights)
            found = activations(model.eval(), episodes.inputs, names)
            divergence = scoring.kl_bits(episodes.posterior, model.predict(episodes.inputs)).flatten()
            score = scoring.score_episodes(model, episodes)
            row = {"kl": score.kl, "entropy_mae": score.entropy_mae, "sure kl": float(divergence[sure].mean())}
            values = [x for name, x in found.items() if name.startswith("attention")]
            row |= main_axis(values[-1][:, scored].flatten(0, 1), exact)
            row["parts"] = {
                "patterns": [x for name, x in found.items() if name.startswith("pattern")],
                "values": [x.flatten(0, 1) for x in values],
                "hidden": [_subset(x.flatten(0, 1), values[0].shape[-1]) for name, x in found.items() if name.startswith("hidden")],
                "keys": found["key.0"].transpose(1, 2).flatten(2).flatten(0, 1),
            }
            seen.append(row)
    finally:
        model.load_state_dict(kept)
    end, result = seen[-1]["parts"], {}
    for what in ("kl", "entropy_mae", "sure kl", "axis share", "axis rank"):
        result[what] = np.array([row[what] for row in seen])
    result["patterns"] = _mean(seen, end, "patterns", progress.pattern_distance)
    result["scores"] = _mean(seen, end, "patterns", progress.score_distance)
    result["keys"] = np.array([1 - overlap(row["parts"]["keys"], end["keys"]) for row in seen])
    for what, straight in (("values", "gram"), ("hidden", "hidden gram")):
        result[what] = _mean(seen, end, what, lambda x, y: 1 - progress.linear_cka(x, y))
        result[straight] = _mean(seen, end, what, lambda x, y: float(progress.gram_distance(progress.linear_cka(x, y))))
    return result


def _mean(seen: list, end: dict, what: str, distance) -> np.ndarray:
    return np.array([np.mean([distance(x, y) for x, y in zip(row["parts"][what], end[what], strict=True)]) for row in seen])


def _subset(x: torch.Tensor, count: int) -> torch.Tensor:
    """The same random columns every time: (N, M) -> (N, count)."""
    return x[:, torch.randperm(x.shape[1], generator=torch.Generator().manual_seed(0))[:count]]
