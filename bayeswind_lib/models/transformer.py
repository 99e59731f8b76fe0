"""A transformer to be read in one sitting: pre-norm, causal, every intermediate named.

Axes: B episodes, T tokens, K scored positions, Y outcomes,
      D channels (`width`), H heads, C channels of one head (D / H), M hidden units.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class TransformerConfig:
    """All that fixes the shape of a `Transformer`; JSON types only.

    Attributes:
        n_tokens: size of the input vocabulary.
        n_positions: T, the longest input.
        scored: the input positions at which a prediction is read out.
        n_outputs: Y, the number of outcomes.
        first_output_token: outcome y is token `first_output_token + y`; the readout is the
            embedding of those tokens (a tied head).
        n_layers, n_heads, width, hidden: depth, H, D and M.
    """

    n_tokens: int
    n_positions: int
    scored: tuple[int, ...]
    n_outputs: int
    first_output_token: int
    n_layers: int = 6
    n_heads: int = 6
    width: int = 192
    hidden: int = 768

    def __post_init__(self):
        object.__setattr__(self, "scored", tuple(self.scored))
        if self.width % self.n_heads:
            raise ValueError(
                f"width is {self.width} and n_heads is {self.n_heads}: "
                "the heads must divide the width evenly"
            )
        if max(self.scored) >= self.n_positions:
            raise ValueError(
                f"position {max(self.scored)} is to be scored, "
                f"but n_positions is {self.n_positions}"
            )

    def to_dict(self) -> dict:
        """Plain JSON types, for a record."""
        return asdict(self) | {"scored": list(self.scored)}

    @property
    def n_parameters(self) -> int:
        """The parameter count by formula: V D + T D + L (4 D^2 + 2 D M + M + 3 D) + D.

        With M = 4 D this is V D + T D + L (12 D^2 + 7 D) + D: tied head, no bias in the
        attention, a bias in the feed-forward layer, one gain per norm.
        """
        D, M = self.width, self.hidden
        block = 4 * D * D + 2 * D * M + M + 3 * D
        return self.n_tokens * D + self.n_positions * D + self.n_layers * block + D


class RMSNorm(nn.Module):
    """Divide by the root mean square over channels, then scale each channel by a learned gain."""

    def __init__(self, width: int, eps: float = 1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        return F.rms_norm(x, self.gain.shape, self.gain, self.eps)


class Attention(nn.Module):
    """Causal multi-head attention, written out so that its pattern can be looked at.

    `pattern` does nothing but hand on the attention weights: a hook on it reads them (or
    changes them) without a second implementation.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        D, self.n_heads = config.width, config.n_heads
        self.query = nn.Linear(D, D, bias=False)
        self.key = nn.Linear(D, D, bias=False)
        self.value = nn.Linear(D, D, bias=False)
        self.output = nn.Linear(D, D, bias=False)
        self.pattern = nn.Identity()
        future = torch.ones(config.n_positions, config.n_positions, dtype=torch.bool).triu(1)
        self.register_buffer("future", future, persistent=False)  # (T, T), True where key is later

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        B, T, D = x.shape
        q = self.heads(self.query(x))  # (B, H, T, C)
        k = self.heads(self.key(x))  # (B, H, T, C)
        v = self.heads(self.value(x))  # (B, H, T, C)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, H, T, T) query by key
        scores = scores.masked_fill(self.future[:T, :T], float("-inf"))  # (B, H, T, T)
        pattern = self.pattern(scores.softmax(dim=-1))  # (B, H, T, T), rows sum to 1
        mixed = pattern @ v  # (B, H, T, C)
        return self.output(mixed.transpose(1, 2).reshape(B, T, D))  # (B, T, D)

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        """Split the channels into heads: (B, T, D) -> (B, H, T, C)."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    """Two linear maps with a GELU between them, the same at every position."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.up = nn.Linear(config.width, config.hidden)
        self.down = nn.Linear(config.hidden, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        return self.down(F.gelu(self.up(x)))  # (B, T, M) in between


class Block(nn.Module):
    """One layer: attention and feed-forward read a normed copy and add to the residual stream."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.norm1, self.attention = RMSNorm(config.width), Attention(config)
        self.norm2, self.feed_forward = RMSNorm(config.width), FeedForward(config)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        x = x + self.attention(self.norm1(x))  # (B, T, D)
        return x + self.feed_forward(self.norm2(x))  # (B, T, D)


class Transformer(nn.Module):
    """A causal transformer with learned positions and a tied readout of the outcomes.

    The published bijection network is the default size: 6 layers, 6 heads, 192 channels,
    768 hidden units (Paper I, section 3.3).
    """

    architecture = "transformer"
    Config = TransformerConfig

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.n_tokens, config.width)
        self.positions = nn.Embedding(config.n_positions, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = RMSNorm(config.width)
        scored = torch.tensor(config.scored)
        self.register_buffer("scored", scored, persistent=False)  # (K,)

    def initialise(self, rng: torch.Generator) -> Transformer:
        """Draw all weights from `rng`: N(0, 0.02^2), the maps into the residual stream smaller.

        Those are divided by sqrt(2 L), so that the stream's size does not grow with depth.
        """
        into_stream = ("attention.output.weight", "feed_forward.down.weight")
        for name, parameter in self.named_parameters():
            if name.endswith("gain"):
                nn.init.ones_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                depth = 2 * self.config.n_layers if name.endswith(into_stream) else 1
                nn.init.normal_(parameter, std=0.02 / math.sqrt(depth), generator=rng)
        return self

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Logits of the outcomes at every scored position that `inputs` reaches.

        Args:
            inputs: int64 (B, T), T at most `n_positions`.
        Returns:
            float32 (B, K, Y).
        """
        T = inputs.shape[1]
        if T > self.config.n_positions:
            raise ValueError(
                f"inputs have {T} tokens, but this network has only "
                f"{self.config.n_positions} learned positions: shorten the inputs"
            )
        x = self.tokens(inputs) + self.positions.weight[:T]  # (B, T, D)
        for block in self.blocks:
            x = block(x)  # (B, T, D)
        x = self.norm(x[:, self.scored[self.scored < T]])  # (B, K, D)
        first = self.config.first_output_token
        outcomes = self.tokens.weight[first : first + self.config.n_outputs]  # (Y, D)
        with torch.autocast(x.device.type, enabled=False):  # small, and the loss needs it precise
            return x.float() @ outcomes.float().T  # (B, K, Y)

    @torch.no_grad()
    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        """Log2-probabilities of the outcomes: float64 (B, K, Y), the same call as an oracle's."""
        return F.log_softmax(self(inputs).double(), dim=-1) / math.log(2)

    @torch.no_grad()
    def attention_patterns(self, inputs: torch.Tensor) -> list[torch.Tensor]:
        """The attention weights of every layer, read off during one forward pass.

        Returns:
            one float32 (B, H, T, T) a layer, query by key, rows sum to 1.
        """
        seen: list[torch.Tensor] = []
        hooks = [
            block.attention.pattern.register_forward_hook(lambda *call: seen.append(call[-1]))
            for block in self.blocks
        ]
        try:
            self(inputs)
        finally:
            for hook in hooks:
                hook.remove()
        return seen
