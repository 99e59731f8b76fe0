"""The record `probe_capstone`: a network among a known list of HMMs, nobody saying which one speaks.

observers: what each lesser observer (baselines.mixture) is off the exact mixture, bits, and how far the
network's answer is from it; by position under `curves`. untrained: networks with fresh weights of the same shape.
readable: R^2 of the log probabilities of the models, and of the belief about the state of the model
that speaks, read linearly from the stream, by layer; beside untrained copies, shuffled episodes, and what
counts of symbols, or the last symbol, give. exchange: the part of the stream that tells which, taken
from another episode.

Axes: B episodes, K symbols read, M models, S states.
"""

from __future__ import annotations

import torch

from bayeswind_lib import checkpoints, tunnels
from bayeswind_lib.probes import untrained
from bayeswind_lib.probes.fixed import SEED
from bayeswind_lib.probes.sources import NETWORK, compare, divergence, exchange, readable

COPIES = 3


def measure(n_episodes: int, draws: int) -> dict:
    """The record; `draws` is not used: copies and subspaces are few and each is a network's pass."""
    model = checkpoints.load(NETWORK)
    tunnel = tunnels.build(model.record["tunnel"], model.record["tunnel_config"])
    rng = torch.Generator().manual_seed(SEED)
    episodes = tunnel.sample(max(n_episodes, 48), rng)
    copies = [untrained(model, torch.Generator().manual_seed(SEED + 1 + i)) for i in range(COPIES)]
    return {
        "observers": compare(model, tunnel, episodes),
        "untrained": [divergence(episodes.posterior, copy.predict(episodes.inputs)) for copy in copies],
        "readable": readable(model, tunnel, episodes) | {"untrained": [readable(t, tunnel, episodes)["network"] for t in copies]},
        "exchange": exchange(model, tunnel, episodes, tunnel.sample(len(episodes), rng)),
    }


