"""Where in the stream is the belief, and is it what the answer is made of?

The stream is looked at before and after every write: "residual.2" enters layer 2, "middle.2" stands
between its attention and its feed-forward part. At each place the belief may be *readable* (a linear
map finds it, on sequences that it was not fitted on), and it may be *used*: what lies in a few
directions is taken from another sequence, at one position, and the answer there is compared with
both exact posteriors.

Axes: S sequences, B pairs of sequences, K scored positions, T tokens, D channels, Y outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from bayeswind_lib import scoring
from bayeswind_lib.models.base import as_prediction
from bayeswind_lib.probes.activations import activations, edit, resume
from bayeswind_lib.probes.beliefs import fit_reader
from bayeswind_lib.tunnels import Episodes

KINDS = ("reading", "pattern", "largest")


def places(model: nn.Module) -> list[str]:
    """The stream before and after every write, in the order of a pass."""
    found = [f"{kind}.{layer}" for layer in range(len(model.blocks)) for kind in ("residual", "middle")]
    return [*found, f"residual.{len(model.blocks)}"]


def same_chains(tunnel, episodes: Episodes, rng: torch.Generator) -> Episodes:
    """Episodes of the same hidden chains (same header), with new states and symbols.

    Args:
        tunnel: the HMM tunnel of the episodes.
    """
    transition, emission = episodes.latents["transition"], episodes.latents["emission"]
    B, K = episodes.latents["observations"].shape
    row = torch.arange(B)
    state, states, symbols = torch.randint(tunnel.n_states, (B,), generator=rng), [], []
    for t in range(K):
        if t > 0 or tunnel.transition_first:
            state = torch.multinomial(transition[row, state], 1, generator=rng)[:, 0]
        states.append(state)
        symbols.append(torch.multinomial(emission[row, state], 1, generator=rng)[:, 0])
    return tunnel.episodes(transition, emission, torch.stack(states, 1), torch.stack(symbols, 1))


def directions(x: np.ndarray, belief: np.ndarray, kind: str, rank: int | None = None) -> np.ndarray:
    """Orthonormal directions of the stream that have to do with the belief: (rank, D).

    Args:
        x: (S, K, D), the stream at the scored positions. belief: (S, K, Y).
        kind: "reading": the directions whose coordinates the linear reader adds up. "pattern": the
            directions in which the stream moves when the belief does (regression of the stream on
            the belief, at fixed position). "largest": those in which it moves most, whatever for.
        rank: Y - 1 by default.
    Raises:
        ValueError: for an unknown kind.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}: choose one of {', '.join(KINDS)}")
    rank = belief.shape[-1] - 1 if rank is None else rank
    if kind == "reading":
        return fit_reader(*scaled(x, belief)).subspace(rank)
    inner, about = (part - part.mean(0) for part in (x, belief))
    inner, about = inner.reshape(-1, x.shape[-1]), about.reshape(-1, belief.shape[-1])
    if kind == "pattern":
        inner = about @ np.linalg.lstsq(about, inner, rcond=1e-8)[0]  # what the belief explains of it
    return np.linalg.svd(inner, full_matrices=False)[2][:rank]


def scaled(x: np.ndarray, belief: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the stream and of the belief, the stream divided by its spread at fixed position.

    So that the penalty of a reader means the same for a trained network and for an untrained one,
    whose stream is small.
    """
    size = np.sqrt(np.square(x - x.mean(0)).mean()) or 1.0
    return x.reshape(-1, x.shape[-1]) / size, belief.reshape(-1, belief.shape[-1])


@torch.no_grad()
def go_on(model: nn.Module, place: str, stream: torch.Tensor, known: dict) -> torch.Tensor:
    """Logits of a network whose pass goes on from a changed stream: (B, K, Y).

    Args:
        stream: (B, T, D), what the stream is to be at the place.
        known: the unchanged stream at the place and at the beginning of its layer, by name.
    """
    kind, layer = place.split(".")
    if kind == "residual":
        return resume(model, stream, int(layer))
    difference = stream - known[place]
    with edit(model, {f"attention.{layer}": lambda written: written + difference}):
        return resume(model, known[f"residual.{layer}"], int(layer))


@dataclass
class Pairs:
    """Pairs of sequences, and one position at which they are compared.

    Attributes:
        own, donor: episodes of the same header, or of a task without one.
        at: which of the K scored positions is exchanged and read.
        mine, theirs: the streams up to that position by place: (B, T, D).
        none, all: margins with nothing exchanged, and with everything at all positions: (B,), bits.
    """

    model: nn.Module
    own: Episodes
    donor: Episodes
    at: int

    def __post_init__(self):
        last = int(self.model.scored_positions(self.own.inputs.shape[1])[self.at])
        names = places(self.model)
        self.mine, self.theirs = (
            activations(self.model, e.inputs[:, : last + 1], names) for e in (self.own, self.donor)
        )
        self.none, self.all = (self._margin(go_on(self.model, names[0], known[names[0]], known))
                               for known in (self.mine, self.theirs))

    def margin(self, place: str, basis: np.ndarray | None = None, rest: bool = False) -> torch.Tensor:
        """KL to the own posterior less KL to the donor's, after an exchange at the one position: (B,), bits.

        Args:
            basis: (rank, D), orthonormal: the directions that are exchanged; None for all.
            rest: exchange all directions but these.
        """
        mine = self.mine[place]
        difference = self.theirs[place][:, -1] - mine[:, -1]  # (B, D)
        if basis is not None:
            basis = torch.as_tensor(np.asarray(basis), dtype=difference.dtype, device=difference.device)
            inside = (difference @ basis.T) @ basis
            difference = difference - inside if rest else inside
        stream = torch.cat([mine[:, :-1], (mine[:, -1] + difference)[:, None]], dim=1)
        return self._margin(go_on(self.model, place, stream, self.mine))

    def _margin(self, logits: torch.Tensor) -> torch.Tensor:
        answer = as_prediction(logits[:, -1:], self.model.config.outcome)
        own, donor = (scoring.kl_bits(e.posterior[:, self.at, None], answer) for e in (self.own, self.donor))
        return (own - donor)[:, 0]

    def handed_over(self, place: str, basis: np.ndarray | None = None, rest: bool = False) -> float:
        """How far the answer has gone from the own posterior (0) to the donor's (1), by the mean margin."""
        none, everything = float(self.none.mean()), float(self.all.mean())
        return (float(self.margin(place, basis, rest).mean()) - none) / (everything - none)

    def share(self, place: str, basis: np.ndarray) -> float:
        """Share of the squared difference of the two streams, at the position, that lies in some directions."""
        difference = (self.theirs[place] - self.mine[place])[:, -1].double().cpu().numpy()
        return float(np.square(difference @ np.asarray(basis).T).sum() / np.square(difference).sum())


def random_directions(rank: int, width: int, rng: torch.Generator) -> np.ndarray:
    """Orthonormal directions drawn at random: (rank, width)."""
    return torch.linalg.qr(torch.randn(width, rank, generator=rng, dtype=torch.float64))[0].T.numpy()


def feed_forward_share(rows: list[dict], what: str) -> float:
    """Share of all rises of a readable R^2 that come with feed-forward writes; falls count nothing."""
    rises = np.maximum(np.diff([row[what] for row in rows]), 0)
    return float(rises[1::2].sum() / rises.sum()) if rises.sum() > 0 else 0.0
