"""The book's own small networks under the diagnostics of a language model: prompts, attention, keys and values.

Axes: n prompts, L layers, H heads, T tokens, d coordinates of a value (G C).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from bayeswind_lib import models, stats, tunnels
from bayeswind_lib.language import diagnose, manifold
from bayeswind_lib.probes import nulls
from bayeswind_lib.probes.activations import activations
from bayeswind_lib.scoring import entropy, entropy_bits
from bayeswind_lib.training import plans

SEED = 17  # of the prompts, which are the same for all networks of a tunnel


def prompts_of(network, n: int, rng: torch.Generator) -> tuple[list[torch.Tensor], np.ndarray]:
    """Episodes cut off after a question drawn at random, and the entropy of the exact answer to it, bits (n,)."""
    tunnel = tunnels.build(network.record["tunnel"], network.record["tunnel_config"])
    episodes = tunnel.sample(n, rng)
    scored = network.scored_positions(episodes.inputs.shape[1])
    asked = [k for k, place in enumerate(scored.tolist()) if place >= 2]
    chosen = torch.tensor(asked)[torch.randint(len(asked), (n,), generator=rng)]
    exact = entropy_bits(episodes.posterior[torch.arange(n), chosen].log2())
    return [x[: place + 1] for x, place in zip(episodes.inputs, scored[chosen].tolist(), strict=True)], exact.numpy()


def given_to(network: nn.Module, n: int) -> list[torch.Tensor]:
    """Prompts: the same for all networks of a tunnel."""
    return prompts_of(network, n, torch.Generator().manual_seed(SEED))[0]


def figures(network: nn.Module, given: Sequence[torch.Tensor]) -> dict:
    """The three diagnostics of chapter 17 for one network, by the same functions; `cosine` is None without keys."""
    looks = diagnose.observe(network, given) if network.config.attention == "softmax" else None
    values = looks.values[:, -1] if looks else values_of(network, given)
    found = manifold.shares(values.astype(float))
    cosine = float(diagnose.key_cosines(network).mean()) if looks else None
    return {"pc12": found["pc12"], "participation": found["participation"], "cosine": cosine} | attention_figures(network, given)


@torch.no_grad()
def values_of(network: nn.Module, given: Sequence[torch.Tensor]) -> np.ndarray:
    """Values of the last layer at the last token, (n, d), also of a network without keys."""
    kept: list[torch.Tensor] = []
    hook = network.blocks[-1].attention.value.register_forward_hook(lambda module, inputs, output: kept.append(output[0, -1]))
    try:
        for prompt in given:
            network(prompt[None])
    finally:
        hook.remove()
    return torch.stack(kept).numpy()


@torch.no_grad()
def last_rows(network: nn.Module, tokens: torch.Tensor, window: int = 0) -> torch.Tensor:
    """Attention of the last token, (n, T) tokens -> float64 (L, n, H, T), rows sum to 1.

    Args:
        window: how many tokens it sees; 0: as many as the network lets it.
    """
    if not window:
        return torch.stack(network.attention_patterns(tokens))[:, :, :, -1].double()
    layers = zip(network.blocks, activations(network, tokens, "normed.*").values(), strict=True)
    scores = torch.stack([block.attention.scores(x)[:, :, -1] for block, x in layers]).double()
    gone = torch.arange(tokens.shape[1]) < tokens.shape[1] - window
    return scores.masked_fill(gone, -math.inf).softmax(-1)


def attention_figures(network: nn.Module, given: Sequence[torch.Tensor], window: int = 0) -> dict:
    """How attention's entropy falls from the first layer to the last, at the last token of each prompt.

    Args:
        window: the same scores under this mask, layer by layer, with the stream as it was: what a
            window alone does to the same attention.
    Returns:
        fall: the share by which it falls, entropies over log2 of all tokens (the chapter's definition).
        fall_seen: the same over log2 of the tokens that the mask shows. fall_bits: in bits.
        first, last: mean entropy over log2 of all tokens; first_seen: over the tokens shown.
        ceiling: mean over prompts of the largest entropy that the mask allows, over log2 of all tokens.
    """
    own = network.config.window
    seen, bits, lengths = [], [], []
    for length in sorted({len(prompt) for prompt in given}):
        some = torch.stack([prompt for prompt in given if len(prompt) == length])  # (n, T)
        rows = last_rows(network, some, window)  # (L, n, H, T)
        bits.append(entropy(rows).mean(-1).T)  # (n, L)
        shown = min(length, window or length, own or length)
        lengths += [length] * len(some)
        seen += [shown] * len(some)
    found = torch.cat(bits).numpy()
    whole, shown = np.log2(lengths)[:, None], np.log2(seen)[:, None]
    fall, fall_seen = diagnose.reduction(found / whole), diagnose.reduction(found / shown)
    by_layer = (found / whole).mean(0)
    return {
        "fall": fall, "fall_seen": fall_seen, "fall_bits": float(found[:, 0].mean() - found[:, -1].mean()),
        "first": float(by_layer[0]), "last": float(by_layer[-1]), "layers": by_layer.tolist(),
        "first_seen": float((found / shown)[:, 0].mean()), "ceiling": float((shown / whole).mean()),
    }


def untrained_figures(config, given: Sequence[torch.Tensor], draw: int) -> dict:
    """`figures` of a network of this shape with fresh weights."""
    rng = torch.Generator().manual_seed(1000 + draw)
    wanted = models.TransformerConfig(**config) if isinstance(config, dict) else config
    return figures(nulls.untrained(models.Transformer(wanted), rng), given)


def prompts_for(tunnel: str, config: dict, n: int) -> list[torch.Tensor]:
    """The prompts behind the record: for a tunnel of the plan, and a network's stored configuration."""
    network = models.Transformer(models.TransformerConfig(**config))
    cell = next(cell for cell in plans.plan("variants") if cell.recipe.tunnel == tunnel)
    network.record = {"tunnel": tunnel, "tunnel_config": cell.recipe.tunnel_config}
    return given_to(network, n)


def paired(these: dict, those: dict, key: str) -> dict | None:
    """Mean over seeds of the difference, these less those, with its 95 % interval (Student's t), and the sign's count.

    Two runs of one seed read the same episodes, so what they share is not counted as error.

    >>> paired({"0": {"x": 2.0}, "1": {"x": 2.0}}, {"0": {"x": 1.0}, "1": {"x": 1.0}}, "x")["value"]
    1.0
    """
    both = [(these[seed][key], those[seed][key]) for seed in these if seed in those]
    if not both or any(None in pair for pair in both):
        return None
    apart = np.array([a - b for a, b in both])
    low, high = stats.t_interval(apart) if len(apart) > 1 else (math.nan, math.nan)
    return {"value": float(apart.mean()), "low": low, "high": high, "seeds": len(apart), "above": int((apart > 0).sum())}
