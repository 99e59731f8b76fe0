"""What a layer is worth: taken out, taken out by halves, and disturbed by as much.

The *update* of a layer is what it adds to the stream. To bypass the layer is to move the stream by
minus this vector. Controls move it as far in other ways: by noise, by the update once more, by the
update of another episode. What a control costs says nothing about the layer.

Axes: B episodes, T tokens, D channels, K scored positions, Y outcomes.
"""

from __future__ import annotations

import numpy as np
import torch

from bayeswind_lib.models.base import as_prediction
from bayeswind_lib.probes.ablation import Bench, Effect, swap
from bayeswind_lib.probes.activations import edit, resume
from bayeswind_lib.probes.nulls import noise_like

WAYS = ("bypass", "without attention", "without feed-forward", "noise", "double", "other", "swap")
LENGTHS = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)  # of noise, in lengths of the update


def update(bench: Bench, layer: int) -> torch.Tensor:
    """What a layer adds to the stream on the bench's episodes: (B, T, D)."""
    return bench.known[f"residual.{layer + 1}"] - bench.known[f"residual.{layer}"]


@torch.no_grad()
def layer_logits(
    bench: Bench, layer: int, way: str, rng: torch.Generator | None = None, length: float = 1.0
) -> torch.Tensor:
    """Logits of the network with one layer changed: (B, K, Y).

    Args:
        way: "bypass": the layer adds nothing. "without attention", "without feed-forward": one of
            its two writes is zero. "noise": the layer works, and noise is added to the stream
            behind it at every place. "double": its update is added twice. "other": the update of
            another episode takes its place. "swap": it changes places with the next layer.
        rng: for "noise" and "other".
        length: of the noise, in lengths of the update.
    Raises:
        ValueError: for an unknown way, a missing rng, or a last layer that has no next one.
    """
    if way not in WAYS:
        raise ValueError(f"way is {way!r}: choose one of {', '.join(WAYS)}")
    if way in ("noise", "other") and rng is None:
        raise ValueError(f"{way} draws at random: give it rng, a torch.Generator")
    model, before = bench.model, bench.known[f"residual.{layer}"]
    if way.startswith("without"):
        part = {"without attention": "attention", "without feed-forward": "feed_forward"}[way]
        with edit(model, {f"{part}.{layer}": torch.zeros_like}):
            return resume(model, before, layer)
    if way == "swap":
        with swap(model, layer, layer + 1):
            return resume(model, before, layer)
    moved = update(bench, layer)
    behind = {
        "bypass": lambda: before,
        "noise": lambda: before + moved + length * noise_like(moved, rng),
        "double": lambda: before + 2 * moved,
        "other": lambda: before + moved[another(len(moved), rng)],
    }[way]()
    return resume(model, behind, layer + 1)


def another(n: int, rng: torch.Generator) -> torch.Tensor:
    """For each of n episodes the number of another one, every one once: int64 (n,)."""
    order = torch.randperm(n, generator=rng, device=rng.device)
    numbers = torch.empty_like(order)
    numbers[order] = order.roll(1)
    return numbers


def layer_effect(bench: Bench, layer: int, way: str, rng: torch.Generator | None = None) -> Effect:
    """What a change of one layer costs; see `layer_logits`."""
    return bench.compare(layer_logits(bench, layer, way, rng), f"layer.{layer}", way)


def chance_to_be_right(bench: Bench, logits: torch.Tensor) -> float:
    """Probability, by the exact posterior, of the outcome that some logits rank first, 0 to 1.

    The accuracy without the noise of sampled outcomes; mean over episodes and positions.
    """
    best = as_prediction(logits, bench.model.config.outcome).argmax(-1, keepdim=True)
    return float(bench.episodes.posterior.gather(-1, best).mean())


def tenfold_length(entry: dict, layer: int, factor: float = 10.0, measure: str = "kl") -> float:
    """Length of noise, in lengths of the layer's update, that multiplies a measure by a factor; inf if none did.

    Between two lengths by a power law; the first of `LENGTHS` if that is too long already.
    """
    goal, found = np.log(factor * entry["before"][measure]), np.log(entry["layers"][layer]["by_length"][measure])
    over = np.flatnonzero(found >= goal)
    if not len(over):
        return float("inf")
    some = slice(max(over[0] - 1, 0), over[0] + 1)
    return float(np.exp(np.interp(goal, found[some], np.log(LENGTHS[some]))))
