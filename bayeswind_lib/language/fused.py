"""One layer of attention whose queries, keys and values come out of one map, as in GPT-NeoX (Pythia): small, and random.

Made to be misread: see `layouts.misread`.

Axes: B prompts, T tokens, N tokens of the vocabulary, D channels, H heads, C channels of one head.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import torch
from torch import nn

from bayeswind_lib.language import layouts

LAYOUT = layouts.Layout("layers", "attention", "dense", fused="query_key_value", order="H3C")
PARTS = ("queries", "keys", "values")


class FusedAttention(nn.Module):
    """Causal attention without positions; outputs of the fused map go head by head: query, key, value."""

    def __init__(self, width: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.dense = nn.Linear(width, width, bias=False)
        self.pattern = nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        T = x.shape[1]
        q, k, v = layouts.unfuse(self.query_key_value(x), "H3C", self.n_heads)  # (B, H, T, C)
        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(future, -math.inf)
        return self.dense((self.pattern(scores.softmax(-1)) @ v).transpose(1, 2).flatten(2))


class TinyFused(nn.Module):
    """Embedding, one layer of fused attention, and the embedding again as the readout; weights at random.

    Args:
        rng: draws the weights.
    """

    def __init__(self, rng: torch.Generator, n_heads: int = 16, width: int = 1024, n_tokens: int = 50):
        super().__init__()
        self.config = SimpleNamespace(n_heads=n_heads)
        self.tokens = nn.Embedding(n_tokens, width)
        self.layers = nn.ModuleList([nn.ModuleDict({"attention": FusedAttention(width, n_heads)})])
        for weight in self.parameters():
            nn.init.normal_(weight, std=1 / math.sqrt(width) if weight is not self.tokens.weight else 1.0, generator=rng)
        self.requires_grad_(False).eval()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:  # (B, T) -> (B, T, N)
        x = self.tokens(tokens)
        return (x + self.layers[0]["attention"](x)) @ self.tokens.weight.T


def mixture(n_heads: int, channels: int, order: str = "3HC", true: str = "H3C") -> dict[str, dict[int, int]]:
    """What stands in the "values" that one order names while the other one is true.

    Args:
        n_heads, channels: H and C.
        order: as it is read.
        true: as it is written.
    Returns:
        for queries, keys and values the number of channels of each head among them.

    >>> mixture(2, 4)
    {'queries': {}, 'keys': {1: 4}, 'values': {1: 4}}
    """
    H, C = n_heads, channels
    part, head = torch.arange(3)[:, None, None].expand(3, H, C), torch.arange(H)[None, :, None].expand(3, H, C)
    axes = {"3HC": (0, 1, 2), "H3C": (1, 0, 2)}[true]
    written = [x.permute(axes).flatten()[None, None] for x in (part, head)]  # as the map's outputs lie
    parts, heads = (layouts.unfuse(x, order, H)[2].flatten().tolist() for x in written)
    found: dict[str, dict[int, int]] = {name: {} for name in PARTS}
    for p, h in zip(parts, heads, strict=True):
        found[PARTS[p]][h] = found[PARTS[p]].get(h, 0) + 1
    return found
