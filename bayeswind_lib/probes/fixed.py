"""Fixed episodes of a tunnel or a network: those that the stored records were measured on, for pages that measure a few again.

Axes: B episodes, S sequences, K scored positions, D channels, Y outcomes.
"""

from __future__ import annotations

import zlib

import numpy as np
import torch

from bayeswind_lib import tunnels
from bayeswind_lib.probes import exchange
from bayeswind_lib.probes.ablation import Bench
from bayeswind_lib.probes.activations import activations
from bayeswind_lib.training.loop import generator
from bayeswind_lib.training.recipe import Recipe

SEED = 20260107  # of all episodes below; not one of these was seen in training


def rng_for(tunnel, stream: int) -> torch.Generator:
    """A generator of its own for each tunnel and purpose."""
    return generator("cpu", SEED, stream, *(_as_number(x) for x in tunnel.config.values()))


def _as_number(value) -> int:
    return int(value) if isinstance(value, int) else zlib.crc32(repr(value).encode())


def tunnel_of(model):
    """The tunnel that a loaded network was trained in."""
    return tunnels.build(model.record["tunnel"], model.record["tunnel_config"])


def bench_of(model, n: int) -> Bench:
    """The bench of a network on n fixed episodes."""
    tunnel = tunnel_of(model)
    return Bench(model, tunnel.sample(n, rng_for(tunnel, 410)), rng_for(tunnel, 412))


def last_stream(model) -> str:
    """The name of the stream that leaves the last layer."""
    return f"residual.{len(model.blocks)}"


def stream_episodes(tunnel, n: int):
    """The n fixed episodes on which streams are read."""
    return tunnel.sample(n, rng_for(tunnel, 414))


def streams(model, tunnel, n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The streams at the scored positions of n fixed episodes (`stream_episodes`) by place, (S, K, D), and beliefs (S, K, Y)."""
    episodes = stream_episodes(tunnel, n)
    scored = model.scored_positions(episodes.inputs.shape[1])
    found = activations(model, episodes.inputs, exchange.places(model))
    return {name: x[:, scored].double().numpy() for name, x in found.items()}, episodes.posterior.numpy()


def pairs_of(model, tunnel, n: int) -> exchange.Pairs:
    """n fixed pairs of episodes, compared at the middle scored position; HMM pairs share their header."""
    own = tunnel.sample(n, rng_for(tunnel, 415))
    rng = rng_for(tunnel, 416)
    donor = exchange.same_chains(tunnel, own, rng) if tunnel.name == "hmm" else tunnel.sample(n, rng)
    return exchange.Pairs(model, own, donor, own.posterior.shape[1] // 2)


def episodes_of(recipe: Recipe, n: int, deal: int = 0):
    """n fixed episodes of a recipe's tunnel; each deal is another set."""
    tunnel = tunnels.build(recipe.tunnel, recipe.tunnel_config)
    return tunnel.sample(n, rng_for(tunnel, 440 + 1000 * deal))
