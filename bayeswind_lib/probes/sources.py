"""Which of several known sources speaks, and in which state it is: a network held against the exact mixture.

Axes: B episodes, K scored positions, M sources (HMMs), S states, V symbols, D channels.
"""

from __future__ import annotations

import numpy as np
import torch

from bayeswind_lib.baselines import mixture
from bayeswind_lib.models.base import as_prediction
from bayeswind_lib.probes import activations, beliefs, resume
from bayeswind_lib.probes.fixed import SEED
from bayeswind_lib.scoring import kl_bits

NETWORK = "hmm_list-transformer-classroom"
RANDOM = 10  # subspaces of the same rank
LEAST = 1e-3  # probabilities of models are read as logarithms, none below this


def divergence(truth: torch.Tensor, log2_prob: torch.Tensor) -> float:
    """Mean KL(truth || prediction), bits; both (B, K, V)."""
    return float(kl_bits(truth, log2_prob).mean())


def compare(model, tunnel, episodes) -> dict[str, dict]:
    """{observer: kl (from the exact answer, bits), from_network (of the network's answer from it), curve (kl by position)}.

    The row "network" is the network's own.
    """
    move, emit = tunnel.matrices()
    said = mixture.observers(move, emit, episodes.inputs, episodes.latents["which"])
    network = model.predict(episodes.inputs)
    rows = {}
    for name, prediction in ({"network": network.exp2()} | said).items():
        log = network if name == "network" else prediction.log2()
        cells = kl_bits(episodes.posterior, log)
        rows[name] = {
            "kl": float(cells.mean()), "kl_se": float(cells.mean(1).std() / len(cells) ** 0.5),
            "from_network": divergence(prediction, network), "curve": cells.mean(0).tolist(),
        }
    return rows


def targets(tunnel, episodes) -> tuple[np.ndarray, np.ndarray]:
    """Centred log2 P(model | symbols) (B, K, M), and P(state | symbols, the model that speaks) (B, K, S)."""
    joint = tunnel.beliefs(episodes.inputs)
    weight = joint.sum(-1)
    logs = weight.clamp(min=LEAST).log2()
    rows = torch.arange(len(joint))
    own = joint[rows, :, episodes.latents["which"]]
    state = own / own.sum(-1, keepdim=True).clamp(min=1e-300)
    return (logs - logs.mean(-1, keepdim=True)).numpy(), state.numpy()


def read_which(x: np.ndarray, logs: np.ndarray) -> tuple[float, float]:
    """R^2 of the models' log probabilities from activations (B, K, D), and with episodes shuffled."""
    found = beliefs.readable(x, logs)
    return found.r2, found.shuffled_r2


def read_state(x: np.ndarray, state: np.ndarray, which: np.ndarray) -> tuple[float, float]:
    """The same of the state's belief: a reader for each model (its states have names of their own), mean over models."""
    found = [beliefs.readable(x[which == m], state[which == m]) for m in np.unique(which)]
    return float(np.mean([f.r2 for f in found])), float(np.mean([f.shuffled_r2 for f in found]))


def readable(model, tunnel, episodes) -> dict[str, dict]:
    """R^2 by layer of the network, and of simple functions of the symbols."""
    logs, state = targets(tunnel, episodes)
    which, V = episodes.latents["which"].numpy(), tunnel.n_symbols
    seen = activations(model, episodes.inputs, [f"residual.{i}" for i in range(model.config.n_layers + 1)])
    one_hot = torch.nn.functional.one_hot(episodes.inputs, V).double()
    plain = {"counts": one_hot.cumsum(1).numpy(), "last symbol": one_hot.numpy()}
    rows = {}
    for name, x in ({k: v.double().numpy() for k, v in seen.items()} | plain).items():
        (w, w0), (s, s0) = read_which(x, logs), read_state(x, state, which)
        rows[name] = {"which": w, "which_shuffled": w0, "state": s, "state_shuffled": s0}
    return {"network": {name: rows[name] for name in seen}, "plain": {name: rows[name] for name in plain}}


def hybrid(tunnel, own, donor) -> torch.Tensor:
    """The exact answer that has the donor's weights of the models, and the own belief about each one's state."""
    move, emit = tunnel.matrices()
    mine, theirs = (tunnel.beliefs(e.inputs) for e in (own, donor))
    each = mixture.next_symbol(move, emit, mine / mine.sum(-1, keepdim=True).clamp(min=1e-300))
    return (theirs.sum(-1)[..., None] * each).sum(2)


def directions(x: np.ndarray, logs: np.ndarray) -> dict[str, np.ndarray]:
    """Orthonormal directions of the stream, (M - 1, D) each: from which the models' probabilities are
    *read*, along which the stream *moves* with them, and, moving most of all, its *main* axes.

    Args:
        x: (N, D). logs: (N, M).
    """
    rank = logs.shape[1] - 1
    centred, about = x - x.mean(0), logs - logs.mean(0)
    moves = np.linalg.lstsq(about, centred, rcond=None)[0]  # (M, D): the stream from the logarithms
    return {
        "read": beliefs.fit_reader(x, logs).subspace(rank),
        "moves": np.linalg.svd(moves, full_matrices=False)[2][:rank],
        "main": np.linalg.svd(centred, full_matrices=False)[2][:rank],
    }


@torch.no_grad()
def exchange(model, tunnel, own, donor) -> dict[str, dict]:
    """By layer: divergence (bits) of the answer from own, donor and hybrid posterior, when what lies in some
    directions (`directions`; or random ones, nothing, the whole) is taken from another episode, at all positions."""
    logs, _ = targets(tunnel, own)
    aims = {"own": own.posterior, "donor": donor.posterior, "hybrid": hybrid(tunnel, own, donor)}
    rows = {}
    for layer in range(1, model.config.n_layers + 1):
        name = f"residual.{layer}"
        mine, theirs = (activations(model, e.inputs, name)[name] for e in (own, donor))
        D = mine.shape[-1]
        found = directions(mine.double().numpy().reshape(-1, D), logs.reshape(-1, logs.shape[-1]))
        rng, rank = torch.Generator().manual_seed(SEED + layer), logs.shape[-1] - 1

        def answer(basis, mine=mine, theirs=theirs, layer=layer):
            mixed = mine + ((theirs - mine) @ basis.T) @ basis
            prediction = as_prediction(resume(model, mixed, layer), model.config.outcome)
            return {aim: divergence(truth, prediction) for aim, truth in aims.items()}

        bases = {kind: torch.tensor(basis, dtype=mine.dtype) for kind, basis in found.items()}
        bases |= {"nothing": torch.zeros(1, D), "whole": torch.eye(D)}
        drawn = [answer(torch.linalg.qr(torch.randn(D, rank, generator=rng))[0].T) for _ in range(RANDOM)]
        rows[name] = {kind: answer(basis) for kind, basis in bases.items()}
        rows[name] |= {"random": {aim: [d[aim] for d in drawn] for aim in aims}, "rank": rank}
    return rows
