"""A Llama to be read in one sitting: pre-norm, rotary, grouped queries, every intermediate named.

The same parts as the book's own transformer, in the arrangement of Touvron et al. (2023): no biases,
a gated feed-forward layer, keys and values shared by groups of query heads.

Axes: B prompts, T tokens, N tokens of the vocabulary, D channels, H query heads, G key-value heads,
      C channels of one head, M hidden units, L layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from bayeswind_lib.models.base import RMSNorm

Edit = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class LlamaConfig:
    """All that fixes the shape of a `Llama`.

    Attributes:
        n_layers, width, hidden, n_heads, n_groups, n_tokens: L, D, M, H, G and N.
        base: the longest wavelength of rotary positions is about 2 pi times this.
        epsilon: of the norms.
    """

    n_layers: int
    width: int
    hidden: int
    n_heads: int
    n_groups: int
    n_tokens: int
    base: float = 10_000.0
    epsilon: float = 1e-5

    def __post_init__(self):
        if self.width % self.n_heads or self.n_heads % self.n_groups:
            raise ValueError(
                f"width is {self.width}, n_heads {self.n_heads} and n_groups {self.n_groups}: "
                "heads must divide the width, and key-value heads the query heads"
            )


def turn(x: torch.Tensor, base: float, first: int = 0) -> torch.Tensor:
    """Rotary positions on (B, heads, T, C), counted from `first`: channel c is paired with channel c + C / 2."""
    T, C = x.shape[-2:]
    wave = base ** (-torch.arange(0, C, 2, dtype=torch.float32, device=x.device) / C)  # (C / 2,)
    angle = torch.arange(first, first + T, dtype=torch.float32, device=x.device)[:, None] * wave  # (T, C / 2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class Attention(nn.Module):
    """Causal attention; `value` and `pattern` are modules of their own, so that hooks can read them.

    Values can be edited: `edit` takes them, (B, T, G C), and gives others.
    """

    def __init__(self, config: LlamaConfig):
        super().__init__()
        self.config = config
        C = config.width // config.n_heads
        self.query = nn.Linear(config.width, config.n_heads * C, bias=False)
        self.key = nn.Linear(config.width, config.n_groups * C, bias=False)
        self.value = nn.Linear(config.width, config.n_groups * C, bias=False)
        self.output = nn.Linear(config.n_heads * C, config.width, bias=False)
        self.pattern = nn.Identity()

    def forward(self, x: torch.Tensor, edit: Edit | None = None) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        H, G, T = self.config.n_heads, self.config.n_groups, x.shape[1]
        q = turn(heads(self.query(x), H), self.config.base)  # (B, H, T, C)
        k = turn(heads(self.key(x), G), self.config.base).repeat_interleave(H // G, 1)  # (B, H, T, C)
        v = self.value(x) if edit is None else edit(self.value(x))  # (B, T, G C)
        v = heads(v, G).repeat_interleave(H // G, 1)  # (B, H, T, C)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, H, T, T)
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        pattern = self.pattern(scores.masked_fill(future, -math.inf).softmax(-1))  # rows sum to 1
        return self.output((pattern @ v).transpose(1, 2).flatten(2))


def heads(x: torch.Tensor, n: int) -> torch.Tensor:
    """Split the channels: (B, T, n C) -> (B, n, T, C)."""
    return x.unflatten(-1, (n, -1)).transpose(1, 2)


class FeedForward(nn.Module):
    """One map opens or closes what another one makes."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        self.gate = nn.Linear(config.width, config.hidden, bias=False)
        self.up = nn.Linear(config.width, config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        return self.down(F.silu(self.gate(x)) * self.up(x))  # (B, T, M) in between


class Block(nn.Module):
    """One layer."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        self.norm1, self.attention = RMSNorm(config.width, config.epsilon), Attention(config)
        self.norm2, self.feed_forward = RMSNorm(config.width, config.epsilon), FeedForward(config)

    def forward(self, x: torch.Tensor, edit: Edit | None = None) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        x = x + self.attention(self.norm1(x), edit)
        return x + self.feed_forward(self.norm2(x))


class Llama(nn.Module):
    """A causal language model; the embedding is also the map to logits."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.n_tokens, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = RMSNorm(config.width, config.epsilon)

    def forward(self, tokens: torch.Tensor, last: bool = False, at: torch.Tensor | None = None) -> torch.Tensor:
        """Logits of the next token: int64 (B, T) -> (B, T, N), or (B, N) after the last token only.

        Prompts of one call have one length: there is no padding. But no token sees a later one, so
        shorter prompts may be filled up on the right with any tokens, and read at the last one of their own.

        Args:
            last: after the last token only.
            at: int64 (B,), after that token of each prompt only.

        Raises:
            ValueError: if the tokens are not (B, T) whole numbers of the vocabulary.
        """
        if tokens.ndim != 2 or tokens.dtype != torch.int64 or not tokens.shape[1]:
            raise ValueError(f"tokens are {tokens.dtype} of shape {tuple(tokens.shape)}: expected int64 (B, T), T at least 1")
        x = self.tokens(tokens)  # (B, T, D)
        for block in self.blocks:
            x = block(x)
        if last or at is not None:
            x = x[:, -1] if at is None else x[torch.arange(len(x)), at]
        x = self.norm(x)
        return x @ self.tokens.weight.T

    def initialise(self, rng: torch.Generator) -> Llama:
        """Draw all weights anew: normal, standard deviation 0.02, gains 1; the null of what training made."""
        for name, weight in self.named_parameters():
            nn.init.ones_(weight) if name.endswith("gain") else nn.init.normal_(weight, std=0.02, generator=rng)
        return self
