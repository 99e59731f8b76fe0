"""Networks without attention and without recurrence: a ladder of what they may see.

- "token": each position sees its own input and its place, nothing else. That is the network
  with which attention was compared in print; no training can make it use the context.
- "sum": each position sees the running sum of what every input so far was mapped to
  (a causal "deep set", Zaheer et al., 2017): the context without order.
- "flattened": each position sees all inputs so far, laid side by side, one weight matrix a
  place: the context with order and without sharing.

Beside these stands the transformer with `attention="uniform"`.

Axes: B episodes, T tokens, D channels (`width`), M hidden units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from bayeswind_lib.models.base import Config, RMSNorm, SequenceModel

CONTEXTS = ("token", "sum", "flattened")
POSITIONS = ("learned", "none")


@dataclass(frozen=True, kw_only=True)
class MLPConfig(Config):
    """All that fixes the shape of an `MLP`; see `Config` for what the tunnel fixes.

    Attributes:
        context: what a position sees: "token", "sum" or "flattened".
        positions: "learned": a trained vector a position. "none", for "token" alone: a network that does not
            know where it is, and reads inputs of any length.
        n_layers, width: depth and D.
        hidden: M, units inside a residual block; 0: a block is one linear map of D channels.
        summed: channels of the running sum, or of each flattened input.
    """

    context: str = "token"
    positions: str = "learned"
    n_layers: int = 4
    width: int = 64
    hidden: int = 256
    summed: int = 32

    def __post_init__(self):
        super().__post_init__()
        if self.context not in CONTEXTS:
            raise ValueError(f"context is {self.context!r}: choose one of {', '.join(CONTEXTS)}")
        if self.positions not in POSITIONS or (self.positions == "none" and self.context != "token"):
            raise ValueError(
                f"positions is {self.positions!r} with context {self.context!r}: choose one of {', '.join(POSITIONS)}, "
                'and "none" only with context "token"'
            )


class ResidualBlock(nn.Module):
    """Add to the stream what one or two linear maps make of a normed copy of it."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden) if hidden else None
        self.down = nn.Linear(hidden or width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        y = self.norm(x)  # (B, T, D)
        if self.up is None:
            return x + F.gelu(self.down(y))  # (B, T, D)
        return x + self.down(F.gelu(self.up(y)))  # (B, T, D), M units in between


class RunningSum(nn.Module):
    """Map every input, with its place, through a small network and sum over all so far."""

    def __init__(self, width: int, summed: int):
        super().__init__()
        self.item = nn.Sequential(RMSNorm(width), nn.Linear(width, 2 * width), nn.GELU())
        self.to_sum = nn.Linear(2 * width, summed)
        self.norm = nn.LayerNorm(summed)
        self.from_sum = nn.Linear(2 * summed, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        total = self.to_sum(self.item(x)).cumsum(1)  # (B, T, S)
        # The norm keeps the sum readable as it grows; the bare sum keeps its size readable.
        both = torch.cat([self.norm(total), total / 4], dim=-1)  # (B, T, E), E = 2 S
        return x + self.from_sum(both)  # (B, T, D)


class Flattened(nn.Module):
    """One weight matrix for each place: what a linear map of the whole context so far gives.

    Laying inputs 0..t side by side, with zeros after t, and mapping them linearly is the same
    as mapping each by its own matrix and summing up to t.
    """

    def __init__(self, width: int, item: int, n_positions: int):
        super().__init__()
        self.narrow = nn.Linear(width, item)
        self.places = nn.Parameter(torch.empty(n_positions, item * width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        B, T, D = x.shape
        maps = self.places[:T].view(T, -1, D)  # (T, I, D)
        each = torch.einsum("bti,tid->btd", self.narrow(x), maps)  # (B, T, D)
        return x + each.cumsum(1)  # (B, T, D)


class MLP(SequenceModel):
    """A residual multi-layer perceptron with learned positions, and the context that it may see."""

    architecture = "mlp"
    Config = MLPConfig

    def __init__(self, config: MLPConfig):
        super().__init__(config)
        D = config.width
        if config.positions == "learned":
            self.positions = nn.Embedding(config.n_positions, D)
        if config.context == "sum":
            self.context = RunningSum(D, config.summed)
        elif config.context == "flattened":
            self.context = Flattened(D, config.summed, config.n_positions)
        self.blocks = nn.ModuleList(
            ResidualBlock(D, config.hidden) for _ in range(config.n_layers)
        )
        self.norm = nn.LayerNorm(D)

    def initialise(self, rng: torch.Generator) -> MLP:
        """Draw all weights from `rng`: embeddings N(0, 0.02^2), maps uniform in 1 / sqrt(inputs)."""
        into_stream = 1 / math.sqrt(self.config.n_layers)
        for name, parameter in self.named_parameters():
            norm = "norm" in name or name.startswith("context.item.0")
            if norm and not name.endswith("bias"):
                nn.init.ones_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif name in ("tokens.weight", "positions.weight", "head.weight"):
                nn.init.normal_(parameter, std=0.02, generator=rng)
            else:
                places = name == "context.places"
                inputs = self.config.summed if places else parameter.shape[1]
                bound = (into_stream if name.endswith("down.weight") else 1) / math.sqrt(inputs)
                nn.init.uniform_(parameter, -bound, bound, generator=rng)
        return self

    def forward(
        self, inputs: torch.Tensor, rng: torch.Generator | None = None,
        scored: tuple[int, ...] | None = None,
    ) -> torch.Tensor:
        """As `SequenceModel.forward`; in training a network without context works out equal inputs once.

        What it predicts depends on an input and its place alone, and of these a batch has few
        different ones: 400 among 2,560 for the bijection's 20 keys in 128 episodes.
        """
        if not self.training or self.config.context != "token":
            return super().forward(inputs, rng, scored)  # (B, K, Y)
        self._check_length(inputs.shape[1])
        places = self.scored_positions(inputs.shape[1], scored, inputs.device)  # (K)
        seen = inputs[:, places]  # (B, K) or (B, K, F)
        if self.config.positions == "none":  # all places are one
            places = 0 * places  # (K)
        place = places.repeat(len(inputs)).to(seen.dtype)  # (N), N = B K
        rows = torch.column_stack([seen.flatten(0, 1), place])  # (N, G), an input and its place
        distinct, which = rows.unique(dim=0, return_inverse=True)  # (U, G), (N)
        once = distinct[:, :1] if seen.ndim == 2 else distinct[:, None, :-1]  # (U, T) or (U, T, F), T = 1
        x = self.embed(once)[:, 0]  # (U, D)
        if self.config.positions == "learned":
            x = x + self.positions.weight[distinct[:, -1].long()]  # (U, D)
        return self.read_out(self._stack(x))[which].unflatten(0, (len(inputs), len(places)))  # (B, K, Y)

    def trunk(self, x: torch.Tensor, rng: torch.Generator | None = None) -> torch.Tensor:
        """Positions, context and blocks: (B, T, D) -> (B, T, D).

        Raises:
            ValueError: if there are more tokens than trained positions.
        """
        self._check_length(x.shape[1])
        if self.config.positions == "learned":
            x = x + self.positions.weight[: x.shape[1]]  # (B, T, D)
        if self.config.context != "token":
            x = self.context(x)  # (B, T, D)
        return self._stack(x)

    def _check_length(self, T: int) -> None:
        """Refuse more tokens than there are trained positions."""
        most = self.config.n_positions
        if self.config.positions == "learned" and most < T:
            raise ValueError(
                f"inputs have {T} tokens, but this network has only {most} learned positions: "
                "shorten the inputs"
            )

    def _stack(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        """All blocks, and the norm after the last."""
        for block in self.blocks:
            x = block(x)  # (B, T, D)
        return self.norm(x)
