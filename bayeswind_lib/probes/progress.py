"""The frame before the precision? How far attention, values and belief are from their end, over training.

Distances of a snapshot from the end of its run, each on the same episodes (notes 7.6). Two things
that are measured in different ways cannot be compared by the size of their numbers; so there are
also `line` and `walk` (what the distances are if nothing comes first), `equivalent_share` (blind
to the scale of a distance) and `transplants` (both in bits).

Axes: C snapshots, L layers, B episodes, H heads, T tokens, D channels, S shares of a way.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from bayeswind_lib import scoring
from bayeswind_lib.probes.activations import activations, edit
from bayeswind_lib.probes.nulls import normal_like
from bayeswind_lib.training.recipe import Recipe
from bayeswind_lib.tunnels import Episodes

Weights = Mapping[str, torch.Tensor]


# ---- distances


def pattern_distance(p: torch.Tensor, q: torch.Tensor) -> float:
    """Mean total variation between attention patterns (B, H, T, T), over heads and queries: 0 to 1.

    The first query has nothing to choose and is left out.
    """
    return float((p - q).abs()[:, :, 1:].sum(-1).mean() / 2)


def row_centred_scores(pattern: torch.Tensor) -> torch.Tensor:
    """The scores behind attention patterns (B, H, T, T), less the mean of each row's visible keys.

    A softmax forgets what all keys of a query have in common, so this is all that there is to know
    of scores. Zero at later keys, and for the first query. Weights below 1e-30 count as that, since float32
    does not tell much smaller ones apart; `scores_of` has the scores themselves.
    """
    return _row_centred(pattern.clamp(min=1e-30).log())


def _row_centred(scores: torch.Tensor) -> torch.Tensor:
    visible = torch.ones_like(scores[0, 0]).tril()  # (T, T)
    seen = scores * visible
    return (seen - seen.sum(-1, keepdim=True) / visible.sum(-1, keepdim=True)) * visible


def scores_of(model: nn.Module, inputs: torch.Tensor) -> list[torch.Tensor]:
    """The row-centred scores of every layer that attends, from queries and keys, in nats: (B, H, T, T) each, zero at later keys."""
    read = activations(model, inputs, ["normed.*"])
    return [_row_centred(model.blocks[int(name.split(".")[1])].attention.scores(x)) for name, x in read.items()]


def score_distance(p: torch.Tensor, q: torch.Tensor) -> float:
    """Root mean square of the difference of two patterns' row-centred scores, over that of the second's."""
    here, there = row_centred_scores(p), row_centred_scores(q)
    size = float(there.norm())
    return float((here - there).norm()) / size if size > 0 else math.nan


def linear_cka(x: torch.Tensor, y: torch.Tensor) -> float:
    """Linear centred kernel alignment of two sets of vectors (N, D), (N, E): 0 to 1.

    ||Y'X||^2 / (||X'X|| ||Y'Y||) with both centred (Kornblith et al., 2019): blind to rotations
    and to the overall size. It is the cosine of the angle between the two centred Gram matrices.
    """
    x, y = (part.double() - part.double().mean(0) for part in (x, y))
    size = torch.linalg.matrix_norm(x.T @ x) * torch.linalg.matrix_norm(y.T @ y)
    return float(torch.linalg.matrix_norm(y.T @ x) ** 2 / size) if size > 0 else 0.0


def gram_distance(cka: np.ndarray | float) -> np.ndarray | float:
    """Length of the difference of the two Gram matrices, each of length 1: sqrt(2 - 2 CKA), 0 to sqrt 2."""
    return np.sqrt(np.maximum(2 - 2 * np.asarray(cka, dtype=float), 0))


# ---- what a snapshot does


@dataclass(frozen=True)
class Observation:
    """What a network does on some episodes.

    Attributes:
        patterns: one (B, H, T, T) a layer.
        values: what attention adds to the stream, one (B T, D) a layer.
        kl, entropy_mae: divergence from the exact posterior, entropy error, bits.
    """

    patterns: list[torch.Tensor]
    values: list[torch.Tensor]
    kl: float
    entropy_mae: float


DISTANCES: dict[str, Callable[[Observation, Observation], list[float]]] = {  # by layer, from the second
    "attention": lambda a, b: [pattern_distance(x, y) for x, y in zip(a.patterns, b.patterns, strict=True)],
    "scores": lambda a, b: [score_distance(x, y) for x, y in zip(a.patterns, b.patterns, strict=True)],
    "values": lambda a, b: [1 - linear_cka(x, y) for x, y in zip(a.values, b.values, strict=True)],
}


def observe(model: nn.Module, episodes: Episodes) -> Observation:
    """Patterns, values and score of a network."""
    found = activations(model, episodes.inputs, ["pattern.*", "attention.*"])
    score = scoring.score_episodes(model, episodes)
    return Observation(
        [x for name, x in found.items() if name.startswith("pattern")],
        [x.flatten(0, 1) for name, x in found.items() if name.startswith("attention")],
        score.kl, score.entropy_mae,
    )


def observe_snapshots(model: nn.Module, snapshots: Mapping[float, Weights], episodes: Episodes) -> dict[float, Observation]:
    """`observe` at every snapshot in turn, by step; the network is a shell and left as it was."""
    kept = {name: part.clone() for name, part in model.state_dict().items()}
    found = {}
    try:
        for step, weights in snapshots.items():
            model.load_state_dict(weights)
            found[step] = observe(model.eval(), episodes)
    finally:
        model.load_state_dict(kept)
    return found


# ---- progress


@dataclass(frozen=True)
class Progress:
    """Distances from the end of a run, at its snapshots.

    Attributes:
        steps: (C,), updates done; the first is the start, the last the end.
        attention: (C, L), mean total variation of the patterns.
        values: (C, L), 1 - CKA of what attention adds to the stream.
        kl: (C,), divergence from the exact posterior, bits.
        scores: (C, L), relative distance of the row-centred scores.
        entropy_mae: (C,), entropy error, bits.
        between: by measure, distance of each snapshot from the one before, mean over layers: (C - 1,).
    """

    steps: np.ndarray
    attention: np.ndarray
    values: np.ndarray
    kl: np.ndarray
    scores: np.ndarray
    entropy_mae: np.ndarray
    between: dict[str, np.ndarray]

    def distance(self, what: str) -> np.ndarray:
        """Distance from the end, mean over layers, (C,); of the KL what it lacks of its end."""
        distance = getattr(self, what)
        return distance - distance[-1] if distance.ndim == 1 else distance.mean(1)

    def share(self, what: str) -> np.ndarray:
        """Progress 1 - distance / first distance: (C,). For KL towards its end."""
        distance = self.distance(what)
        return 1 - distance / distance[0]

    def steps_to(self, what: str, share: float) -> float:
        """Updates until the progress stays at a share or above; see `steps_to`."""
        return steps_to(self.steps, self.share(what), share)


def steps_to(steps: Sequence[float], done: Sequence[float], share: float) -> float:
    """Updates until a progress curve (C,) stays at a share or above, between snapshots by their logarithm.

    Straight in log(1 + step), so that step 0 has a place. NaN if the curve ends below.
    """
    steps, done = np.asarray(steps, dtype=float), np.asarray(done, dtype=float)
    below = np.flatnonzero(done < share)
    if not len(below):
        return float(steps[0])
    last = below[-1]
    if last + 1 == len(done):
        return math.nan
    a, b = np.log1p(steps[[last, last + 1]])
    weight = (share - done[last]) / (done[last + 1] - done[last])
    return float(np.expm1(a + weight * (b - a)))


def progress(model: nn.Module, snapshots: Mapping[float, Weights], episodes: Episodes) -> Progress:
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
    return progress_of(observe_snapshots(model, snapshots, episodes))


def progress_of(seen: Mapping[float, Observation]) -> Progress:
    """The distances between looks that were taken before, by step."""
    every = list(seen.values())
    far = {name: np.array([d(one, every[-1]) for one in every]) for name, d in DISTANCES.items()}
    between = {
        name: np.array([np.mean(d(a, b)) for a, b in zip(every, every[1:], strict=False)])
        for name, d in DISTANCES.items()
    }
    return Progress(
        steps=np.array(list(seen)), kl=np.array([one.kl for one in every]),
        entropy_mae=np.array([one.entropy_mae for one in every]), between=between, **far,
    )


# ---- what the distances are if nothing comes first


def line(start: Weights, end: Weights, shares: Sequence[float]) -> dict[float, dict[str, torch.Tensor]]:
    """Weights on the straight way from start to end, by share of the way: all parts move in step."""
    return {share: {name: torch.lerp(x, end[name], share) for name, x in start.items()} for share in shares}


def walk(
    start: Weights, end: Weights, shares: Sequence[float], rng: torch.Generator
) -> dict[float, dict[str, torch.Tensor]]:
    """Weights on a random walk from the start, by share of its variance: random features that drift.

    Each tensor gets as far, in the root mean square, as it got in the run; nothing is learned.
    """
    found, now, before = {}, {name: x.clone() for name, x in start.items()}, 0.0
    size = {name: float((end[name] - x).square().mean().sqrt()) for name, x in start.items()}
    for share in shares:
        step = math.sqrt(max(share - before, 0.0))
        now = {name: x + step * size[name] * normal_like(x, rng) for name, x in now.items()}
        found[share], before = now, share
    return found


def equivalent_share(distance: Sequence[float], way: Sequence[float], shares: Sequence[float]) -> np.ndarray:
    """Where on a reference way the distance from the end is the same: (C,), share of the way.

    A strictly increasing change of the distance changes both curves alike, and this not at all.

    Args:
        distance: (C,), of a run's snapshots from its end.
        way: (S,), the same distance on the reference way. shares: (S,), rising, of that way.
    """
    falling = np.minimum.accumulate(np.asarray(way, dtype=float))
    return np.interp(-np.asarray(distance, dtype=float), -falling, np.asarray(shares, dtype=float))


# ---- in one unit


def transplants(model: nn.Module, snapshots: Mapping[float, Weights], episodes: Episodes) -> dict[str, np.ndarray]:
    """KL (bits) of networks that look where one snapshot looks and do the rest as another: (C,) each.

    "old frame": the end of the run, with the attention patterns of the snapshot. "old rest": the
    snapshot, with the patterns of the end.
    """
    seen, end = observe_snapshots(model, snapshots, episodes), list(snapshots)[-1]
    kept = {name: part.clone() for name, part in model.state_dict().items()}
    found: dict[str, list[float]] = {"old frame": [], "old rest": []}
    try:
        for step in snapshots:
            for what, frame, rest in (("old frame", step, end), ("old rest", end, step)):
                model.load_state_dict(snapshots[rest])
                with edit(model, _hand_out(seen[frame].patterns)):
                    found[what].append(scoring.score_episodes(model, episodes, len(episodes)).kl)
    finally:
        model.load_state_dict(kept)
    return {what: np.array(values) for what, values in found.items()}


def _hand_out(patterns: Sequence[torch.Tensor]) -> dict[str, Callable]:
    return {f"pattern.{i}": (lambda own, given=given: given) for i, given in enumerate(patterns)}


# ---- two seeds


def match_heads(p: torch.Tensor, q: torch.Tensor) -> list[int]:
    """For each head of q the head of p that is paired with it, so that patterns differ least (B, H, T, T).

    All pairings are tried: meant for few heads.
    """
    H = p.shape[1]
    costs = np.array([[pattern_distance(p[:, [i]], q[:, [j]]) for i in range(H)] for j in range(H)])
    return list(min(itertools.permutations(range(H)), key=lambda order: costs[range(H), order].sum()))


def seed_distances(one: Observation, other: Observation) -> dict[str, list[float]]:
    """Distances by layer between two runs: heads as numbered, "attention", and paired, "attention, paired"."""
    found = {name: DISTANCES[name](one, other) for name in ("attention", "values")}
    pairs = zip(one.patterns, other.patterns, strict=True)
    return found | {"attention, paired": [pattern_distance(p[:, match_heads(p, q)], q) for p, q in pairs]}


# ---- when one thing settles before another

SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0)
MEASURES = ("attention", "values", "scores")
RATIOS = (("attention", "kl"), ("attention", "log kl"), ("attention", "values"), ("attention", "gram"), ("scores", "attention"))


def gram_share(values: np.ndarray) -> np.ndarray:
    """Distance of the Gram matrices, mean over layers, as a share of its start; values: (C, L) of 1 - CKA."""
    far = gram_distance(1 - np.asarray(values)).mean(1)
    return far / far[0]


def way_done(recipe: Recipe, steps, power: int = 1) -> np.ndarray:
    """Share of the sum of all learning rates (to a power) that was spent before each of some steps."""
    spent = np.cumsum([0.0] + [recipe.rate(step) ** power for step in range(recipe.steps)])
    return spent[np.asarray(steps, dtype=int)] / spent[-1]


def ratios(when: dict, level: float = 0.9) -> dict[str, float]:
    """How many times later one thing settles than another."""
    return {f"{a} over {b}": when[a][f"{level:g}"] / max(when[b][f"{level:g}"], 1e-9) for a, b in RATIOS}


def left(steps, distance, share: float = 2 / 3) -> float:
    """What a distance still is at the snapshot nearest to a share of the run, over its start."""
    late = int(np.abs(np.asarray(steps) - share * steps[-1]).argmin())
    return float(distance[late] / distance[0])


def gain(steps, error, share: float = 0.05) -> float:
    """By what factor an error still falls after the snapshot nearest to a share of the run."""
    early = int(np.abs(np.asarray(steps) - share * steps[-1]).argmin())
    return float(error[early] / error[-1])
