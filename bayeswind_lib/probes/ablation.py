"""Take a part out of a network, and measure in bits what it was good for.

A *part* is named by a string: "head.2.1" (head 1 of layer 2), "attention.2", "feed_forward.2",
"mixer.2", or "layer.2" for all that a layer adds. Taking a part out changes what it writes, never
a weight. Two controls say what a change of that size does anywhere: noise as long as the part's
write, and one random direction as long.

Axes: B episodes, T tokens, D channels, H heads, C channels of one head, K scored positions.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from bayeswind_lib import scoring
from bayeswind_lib.models.base import as_prediction
from bayeswind_lib.probes.activations import activations, edit, resume
from bayeswind_lib.probes.nulls import noise_like, normal_like
from bayeswind_lib.probes.sites import sites
from bayeswind_lib.tunnels import Episodes

HOWS = ("zero", "mean", "resample", "noise", "direction")


def parts(model: nn.Module, kind: str) -> list[str]:
    """All parts of one kind: "head", "layer", "attention", "feed_forward" or "mixer".

    Raises:
        ValueError: if the network has none.
    """
    table = sites(model)
    if kind == "head":
        found = [f"head.{site.name.split('.')[1]}.{h}" for site in table.values()
                 if site.name.startswith("head.") for h in range(site.heads)]
    elif kind == "layer":
        found = [f"layer.{layer}" for layer in range(model.config.n_layers) if writes(table, layer)]
    else:
        found = [name for name in table if name.startswith(f"{kind}.")]
    if not found:
        raise ValueError(f"a {model.architecture} has no part of the kind {kind!r}")
    return found


def writes(table: Mapping, layer: int) -> list[str]:
    """The activations that a layer adds to the stream."""
    return [f"{kind}.{layer}" for kind in ("attention", "feed_forward", "mixer") if f"{kind}.{layer}" in table]


def layer_of(part: str) -> int:
    """The layer that a part belongs to."""
    return int(part.split(".")[1])


def _targets(model: nn.Module, part: str) -> list[tuple[str, int | None]]:
    """The activations that a part writes, each with the head it is about, or None for all."""
    table, (kind, *numbers) = sites(model), part.split(".")
    try:
        layer = int(numbers[0])
        if kind == "head":
            head = int(numbers[1])
            if not 0 <= head < table[f"head.{layer}"].heads:
                raise KeyError(part)
            return [(f"head.{layer}", head)]
        found = writes(table, layer) if kind == "layer" else [part]
        if not found or part not in (f"layer.{layer}", *table):
            raise KeyError(part)
    except (KeyError, IndexError, ValueError):
        raise ValueError(
            f"{part!r} is no part of this {model.architecture}: name one as head.2.1, layer.2, "
            "attention.2, feed_forward.2 or mixer.2"
        ) from None
    return [(name, None) for name in found]


def replacement(
    how: str, reference: torch.Tensor | None, rng: torch.Generator | None
) -> Callable[[torch.Tensor], torch.Tensor]:
    """What is put in the place of a write; see `ablate` for the meaning of `how`."""
    if how not in HOWS:
        raise ValueError(f"how is {how!r}: choose one of {', '.join(HOWS)}")
    if how in ("mean", "resample") and reference is None:
        raise ValueError(f"{how} needs reference inputs: those over which it averages or draws")
    if how in ("resample", "noise", "direction") and rng is None:
        raise ValueError(f"{how} draws at random: give it rng, a torch.Generator")
    if how == "zero":
        return torch.zeros_like
    if how == "mean":
        return lambda x: reference.mean(0, keepdim=True).expand_as(x)
    if how == "resample":
        return lambda x: resampled(reference, rng, len(x))
    if how == "noise":
        return lambda x: x + noise_like(x, rng)
    return lambda x: x + _one_direction(x, rng)


def resampled(x: torch.Tensor, rng: torch.Generator, count: int | None = None) -> torch.Tensor:
    """Rows of x drawn at random with replacement: as many as x has, or `count`."""
    rows = torch.randint(len(x), (len(x) if count is None else count,), generator=rng, device=rng.device)
    return x[rows.to(x.device)]


def _one_direction(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """One random direction for all vectors of x, each of the norm of its counterpart."""
    random = normal_like(x, rng, x.shape[-1:])
    return random / random.norm() * x.norm(dim=-1, keepdim=True)


@contextlib.contextmanager
def ablate(
    model: nn.Module, what: str | Iterable[str], how: str = "zero",
    reference: torch.Tensor | None = None, rng: torch.Generator | None = None,
) -> Iterator[nn.Module]:
    """Take parts out while this context lasts; afterwards the network is as before.

    Args:
        what: one part, or several.
        how: "zero": it writes nothing. "mean": its mean over the reference episodes, at the same
            place. "resample": what it wrote in another episode, drawn at random. Controls, which
            leave the part in: "noise" adds to its write a random vector as long, new for every
            place and episode; "direction" adds one random direction everywhere, as long as the write.
        reference: inputs for "mean" and "resample", of the same length as those to come.
        rng: for "resample", "noise" and "direction".
    Yields:
        the network itself.
    Raises:
        ValueError: for an unknown part or way, or if reference or rng is missing.
    """
    heads = _written(model, what)
    known = activations(model, reference, list(heads)) if reference is not None else {}
    with edit(model, _changes(heads, how, known, rng)):
        yield model


def _written(model: nn.Module, what: str | Iterable[str]) -> dict[str, list[int] | None]:
    """The activations that some parts write; of those that are split, which heads (None: all)."""
    heads: dict[str, list[int] | None] = {}
    for part in [what] if isinstance(what, str) else what:
        for site, head in _targets(model, part):
            heads[site] = None if head is None else [*(heads.get(site) or []), head]
    return heads


def _changes(heads: Mapping, how: str, known: Mapping, rng: torch.Generator | None) -> dict:
    return {
        site: _change(replacement(how, known.get(site), rng), some) for site, some in heads.items()
    }


def _change(instead: Callable, heads: list[int] | None) -> Callable:
    def change(x: torch.Tensor) -> torch.Tensor:
        if heads is None:
            return instead(x)
        x, new = x.clone(), instead(x)  # (B, H, T, C)
        x[:, heads] = new[:, heads]
        return x

    return change


@contextlib.contextmanager
def swap(model: nn.Module, layer: int, other: int) -> Iterator[nn.Module]:
    """Let two layers change places while this context lasts.

    Raises:
        ValueError: if the network has no such layers.
    """
    blocks = getattr(model, "blocks", ())
    if not all(0 <= i < len(blocks) for i in (layer, other)):
        raise ValueError(f"layers {layer} and {other}: this network has layers 0..{len(blocks) - 1}")
    blocks[layer], blocks[other] = blocks[other], blocks[layer]
    try:
        yield model
    finally:
        blocks[layer], blocks[other] = blocks[other], blocks[layer]


@dataclass(frozen=True)
class Effect:
    """What a change costs: the score with it less the score without, on the same episodes.

    Attributes:
        what, how: the part, and the way it was taken out.
        kl, entropy_mae, tv: means of the differences, bits (tv: probability).
        kl_se, entropy_mae_se, tv_se: their standard errors over episodes.
        kl_before: the score without the change.
    """

    what: str
    how: str
    kl: float
    entropy_mae: float
    tv: float
    kl_se: float
    entropy_mae_se: float
    tv_se: float
    kl_before: float


class Bench:
    """Some episodes on which parts of one network are taken out, one after the other.

    The unchanged pass is computed once; a part in layer l needs the layers from l on only.

    Args:
        model: a network with blocks and a stream (a transformer, Mamba, or MLP).
        episodes: on which it is scored; also the reference for "mean" and "resample".
        rng: for the ways that draw at random.
        positions: the scored positions that count, all by default.
    """

    def __init__(self, model: nn.Module, episodes: Episodes, rng: torch.Generator | None = None, positions: slice = slice(None)):
        self.model, self.episodes, self.rng, self.positions = model, episodes, rng, positions
        self.known = activations(model, episodes.inputs, "residual.*")
        self.reference: dict[str, torch.Tensor] = {}  # what parts write, as far as it was needed
        self.before = self.measures(resume(model, self.known[f"residual.{len(model.blocks)}"], len(model.blocks)))

    def measures(self, logits: torch.Tensor) -> dict[str, torch.Tensor]:
        """Every measure of `scoring.measure`, (B, K), of some logits (B, K, Y)."""
        return scoring.measure(as_prediction(logits, self.model.config.outcome), self.episodes)

    def effect(self, what: str | Iterable[str], how: str = "zero") -> Effect:
        """Take parts out as `ablate` does, and score what is left."""
        names = [what] if isinstance(what, str) else list(what)
        first, heads = min(map(layer_of, names)), _written(self.model, names)
        missing = [site for site in heads if site not in self.reference]
        if missing and how in ("mean", "resample"):
            self.reference |= activations(self.model, self.episodes.inputs, missing)
        with edit(self.model, _changes(heads, how, self.reference, self.rng)):
            logits = resume(self.model, self.known[f"residual.{first}"], first)
        return self.compare(logits, "+".join(names), how)

    def compare(self, logits: torch.Tensor, what: str, how: str) -> Effect:
        """The score of changed logits less that of the network as it is."""
        after, found = self.measures(logits), {}
        for name in ("kl", "entropy_mae", "tv"):
            each = (after[name] - self.before[name])[:, self.positions].mean(1)  # (B,)
            found[name] = float(each.mean())
            found[f"{name}_se"] = float(each.std() / math.sqrt(len(each)))
        return Effect(what, how, **found, kl_before=float(self.before["kl"][:, self.positions].mean()))


def concentration(effects: Iterable[Effect], measure: str = "kl") -> dict[str, float]:
    """Whether one part does it all: the largest effect over the second, and how many have half of it.

    Returns:
        ratio, n_half, top (the largest effect), and which part has it.
    """
    ranked = sorted(effects, key=lambda effect: getattr(effect, measure), reverse=True)
    if len(ranked) < 2:
        raise ValueError(f"concentration compares parts: {len(ranked)} given, at least 2 needed")
    values = [getattr(effect, measure) for effect in ranked]
    return {
        "ratio": values[0] / values[1] if values[1] > 0 else math.inf,
        "n_half": sum(value > values[0] / 2 for value in values),
        "top": values[0], "what": ranked[0].what,
    }
