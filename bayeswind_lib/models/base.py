"""What all architectures share: how inputs enter the network, and how predictions leave it.

An architecture says in `trunk` what happens between the two. Everything else (the call, the
readout at the scored positions, the tied head) is the same for all of them, so that a
comparison between architectures compares their trunks.

Axes: B episodes, T tokens, F features, K scored positions, Y outcomes, D channels (`width`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True, kw_only=True)
class Config:
    """The sizes that a tunnel fixes, for every architecture; JSON types only.

    Attributes:
        n_tokens: size of the input vocabulary, 0 if the inputs are vectors.
        n_features: length of an input vector, 0 if the inputs are tokens.
        n_positions: T, the longest input (of architectures that number their positions).
        scored: the input positions at which a prediction is read out. In inputs longer than
            these reach, readouts go on with the spacing of the last two.
        n_outputs: Y, the number of outcomes; 2 for a Gaussian.
        first_output_token: outcome y is token `first_output_token + y`, and the readout is
            the embedding of those tokens (a tied head). None: the head is a linear map.
        outcome: "categorical", or "gaussian" (the outputs are a mean and a log variance).
        width: D, channels between the layers.
    """

    n_tokens: int = 0
    n_features: int = 0
    n_positions: int
    scored: tuple[int, ...]
    n_outputs: int
    first_output_token: int | None = None
    outcome: str = "categorical"
    width: int = 64

    def __post_init__(self):
        object.__setattr__(self, "scored", tuple(self.scored))
        if (self.n_tokens > 0) == (self.n_features > 0):
            raise ValueError(
                f"n_tokens is {self.n_tokens} and n_features is {self.n_features}: "
                "inputs are either tokens or vectors, so exactly one of them is positive"
            )
        if self.outcome not in ("categorical", "gaussian"):
            raise ValueError(f"outcome is {self.outcome!r}: choose categorical or gaussian")
        if self.outcome == "gaussian" and self.n_outputs != 2:
            raise ValueError(
                f"n_outputs is {self.n_outputs}: a Gaussian has 2 outputs, mean and log variance"
            )
        if max(self.scored) >= self.n_positions:
            raise ValueError(
                f"position {max(self.scored)} is to be scored, "
                f"but n_positions is {self.n_positions}"
            )

    def to_dict(self) -> dict:
        """Plain JSON types, for a record."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


class RMSNorm(nn.Module):
    """Divide by the root mean square over channels, then scale each channel by a learned gain."""

    def __init__(self, width: int, eps: float = 1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        return F.rms_norm(x, self.gain.shape, self.gain, self.eps)


class SequenceModel(nn.Module):
    """A causal network: inputs -> channels -> `trunk` -> outcomes at the scored positions.

    A subclass sets `architecture` and `Config`, builds its layers after `super().__init__`, and
    defines `trunk` and `initialise`.
    """

    architecture = "none"
    Config = Config

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        if config.n_tokens:
            self.tokens = nn.Embedding(config.n_tokens, config.width)
        else:
            self.features = nn.Linear(config.n_features, config.width)
        if config.first_output_token is None:
            self.head = nn.Linear(config.width, config.n_outputs)

    def initialise(self, rng: torch.Generator) -> SequenceModel:
        """Draw all weights from `rng`; every architecture has its own way."""
        raise NotImplementedError(f"{type(self).__name__} does not say how its weights are drawn")

    def trunk(self, x: torch.Tensor, rng: torch.Generator | None = None) -> torch.Tensor:
        """What the architecture does: (B, T, D) -> (B, T, D), normed, causal."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its trunk does")

    def embed(self, inputs: torch.Tensor) -> torch.Tensor:
        """Inputs to channels: int64 (B, T) or float (B, T, F) -> (B, T, D)."""
        if self.config.n_tokens:
            return self.tokens(inputs)
        if inputs.ndim != 3 or inputs.shape[-1] != self.config.n_features:
            raise ValueError(
                f"inputs have shape {tuple(inputs.shape)}: this network reads vectors, "
                f"(episodes, positions, {self.config.n_features})"
            )
        return self.features(inputs.to(self.features.weight.dtype))

    def scored_positions(
        self, length: int, scored: Sequence[int] | None = None, device: torch.device | str = "cpu",
    ) -> torch.Tensor:
        """Where predictions are read out in an input of `length` tokens: int64 (K,), on `device`.

        `scored` replaces the positions of the config.
        """
        scored = list(self.config.scored if scored is None else scored)
        step = scored[-1] - scored[-2] if len(scored) > 1 else length
        scored += range(scored[-1] + step, length, step)
        found = [position for position in scored if position < length]
        even = range(found[0], found[-1] + 1, step) if found else []
        if found == list(even):  # a GPU counts for itself, and waits for no copy
            return torch.arange(found[0], found[-1] + 1, step, device=device)
        return torch.tensor(found, dtype=torch.long, device=device)

    def read_out(self, x: torch.Tensor) -> torch.Tensor:
        """Channels at scored positions to logits, in float32: (B, K, D) -> (B, K, Y)."""
        first = self.config.first_output_token
        with torch.autocast(x.device.type, enabled=False):  # small, and the loss needs it precise
            if first is None:
                return F.linear(x.float(), self.head.weight.float(), self.head.bias.float())
            outcomes = self.tokens.weight[first : first + self.config.n_outputs]  # (Y, D)
            return x.float() @ outcomes.float().T

    def forward(
        self, inputs: torch.Tensor, rng: torch.Generator | None = None,
        scored: tuple[int, ...] | None = None,
    ) -> torch.Tensor:
        """Logits of the outcomes (or mean and log variance) at every scored position.

        Args:
            inputs: int64 (B, T) tokens or float (B, T, F) vectors.
            rng: draws what an architecture randomises in training (random positions);
                without it the network is a function of its inputs alone.
            scored: positions at which to predict, instead of the config's: of episodes that are
                laid out otherwise than those which the network is made for.
        Returns:
            float32 (B, K, Y).
        """
        x = self.trunk(self.embed(inputs), rng)  # (B, T, D)
        return self.read_out(x[:, self.scored_positions(inputs.shape[1], scored, x.device)])

    @torch.no_grad()
    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        """The prediction, called as an oracle's: float64 (B, K, Y).

        Log2-probabilities of the outcomes; for a Gaussian outcome the mean and the variance.
        """
        return as_prediction(self(inputs), self.config.outcome)


def as_prediction(logits: torch.Tensor, outcome: str) -> torch.Tensor:
    """Logits (..., Y) as `predict` gives them: log2-probabilities, or means and variances; float64."""
    logits = logits.double()
    if outcome == "gaussian":
        return torch.stack([logits[..., 0], logits[..., 1].exp()], dim=-1)
    return F.log_softmax(logits, dim=-1) / math.log(2)


def draw_linear(parameter: nn.Parameter, rng: torch.Generator, fan_in: int) -> None:
    """PyTorch's own default for a linear map, from `rng`: uniform within 1 / sqrt(fan_in)."""
    bound = 1 / math.sqrt(fan_in)
    nn.init.uniform_(parameter, -bound, bound, generator=rng)


def convolve(x: torch.Tensor, conv: nn.Conv1d) -> torch.Tensor:
    """Every channel with its own few weights, over a token and those before: (B, T, E), same.

    Done as an image of T x 1 pixels: PyTorch's 2d convolution is four times as fast as its
    1d one when the channels of a pixel lie side by side in memory, as they do here.
    """
    x = F.pad(x, (0, 0, conv.kernel_size[0] - 1, 0))  # zeros before the first token
    x = x.unsqueeze(2).permute(0, 3, 1, 2)  # (B, E, conv - 1 + T, 1)
    x = F.conv2d(x, conv.weight.unsqueeze(-1), conv.bias, groups=conv.groups)  # (B, E, T, 1)
    return x.squeeze(3).transpose(1, 2)
