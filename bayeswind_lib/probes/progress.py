"""The frame before the precision? How far attention, values and belief are from their end, over training.

Three distances of a snapshot from the end of its run, each on the same episodes, each divided by
its own start, so that 0 is untrained and 1 is done (notes 7.6). A schedule that ends at rate zero
brings every distance to zero at the end; what counts is which comes first, and with which null.

Axes: C snapshots, L layers, B episodes, H heads, T tokens, D channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from bayeswind_lib import scoring
from bayeswind_lib.probes.activations import activations
from bayeswind_lib.tunnels import Episodes


def pattern_distance(p: torch.Tensor, q: torch.Tensor) -> float:
    """Mean total variation between attention patterns (B, H, T, T), over heads and queries: 0 to 1.

    The first query has nothing to choose and is left out.
    """
    return float((p - q).abs()[:, :, 1:].sum(-1).mean() / 2)


def linear_cka(x: torch.Tensor, y: torch.Tensor) -> float:
    """Linear centred kernel alignment of two sets of vectors (N, D), (N, E): 0 to 1.

    ||Y'X||^2 / (||X'X|| ||Y'Y||) with both centred (Kornblith et al., 2019): blind to rotations
    and to the overall size.
    """
    x, y = (part.double() - part.double().mean(0) for part in (x, y))
    size = torch.linalg.matrix_norm(x.T @ x) * torch.linalg.matrix_norm(y.T @ y)
    return float(torch.linalg.matrix_norm(y.T @ x) ** 2 / size) if size > 0 else 0.0


@dataclass(frozen=True)
class Progress:
    """Distances from the end of a run, at its snapshots.

    Attributes:
        steps: (C,), updates done; the first is the start, the last the end.
        attention: (C, L), mean total variation of the patterns.
        values: (C, L), 1 - CKA of what attention adds to the stream.
        kl: (C,), divergence from the exact posterior, bits.
    """

    steps: np.ndarray
    attention: np.ndarray
    values: np.ndarray
    kl: np.ndarray

    def share(self, what: str) -> np.ndarray:
        """Progress 1 - distance / first distance, mean over layers: (C,). For KL towards its end."""
        distance = getattr(self, what)
        distance = distance - distance[-1] if what == "kl" else distance.mean(1)
        return 1 - distance / distance[0]

    def steps_to(self, what: str, share: float) -> float:
        """Updates until the progress stays at a share or above, between snapshots by its logarithm."""
        done = self.share(what)
        below = np.flatnonzero(done < share)
        if not len(below):
            return float(self.steps[0])
        last = below[-1]
        if last + 1 == len(done):
            return float("nan")
        a, b = np.log1p(self.steps[[last, last + 1]].astype(float))
        weight = (share - done[last]) / (done[last + 1] - done[last])
        return float(np.expm1(a + weight * (b - a)))


def progress(model: nn.Module, snapshots: Mapping[int, Mapping], episodes: Episodes) -> Progress:
    """Load every snapshot in turn and measure how far it is from the last.

    Args:
        model: any network of the run; it is used as a shell and left as it was.
        snapshots: weights by step, in order; the first ought to be step 0.
        episodes: on which patterns, values and KL are compared.
    Raises:
        ValueError: for fewer than two snapshots.
    """
    if len(snapshots) < 2:
        raise ValueError(f"{len(snapshots)} snapshots show no progress: at least 2 are needed")
    kept = {name: part.clone() for name, part in model.state_dict().items()}
    try:
        seen = [_look(model, weights, episodes) for weights in snapshots.values()]
    finally:
        model.load_state_dict(kept)
    patterns, values, kl = zip(*seen, strict=True)
    return Progress(
        np.array(list(snapshots)),
        np.array([_layers(pattern_distance, p, patterns[-1]) for p in patterns]),
        np.array([_layers(lambda x, y: 1 - linear_cka(x, y), v, values[-1]) for v in values]),
        np.array(kl),
    )


def _look(model: nn.Module, weights: Mapping, episodes: Episodes) -> tuple[list, list, float]:
    model.load_state_dict(weights)
    model.eval()
    found = activations(model, episodes.inputs, ["pattern.*", "attention.*"])
    patterns = [x for name, x in found.items() if name.startswith("pattern")]
    values = [x.flatten(0, 1) for name, x in found.items() if name.startswith("attention")]
    return patterns, values, scoring.score_episodes(model, episodes).kl


def _layers(distance, here: Sequence, end: Sequence) -> list[float]:
    return [distance(x, y) for x, y in zip(here, end, strict=True)]
