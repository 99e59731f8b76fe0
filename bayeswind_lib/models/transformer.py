"""A transformer to be read in one sitting: pre-norm, causal, every intermediate named.

Axes: B episodes, T tokens, K scored positions, Y outcomes,
      D channels (`width`), H heads, C channels of one head (D / H), M hidden units,
      G heads of keys and values (H, or fewer that queries share), X experts.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from bayeswind_lib.models.base import RMSNorm, SequenceModel, convolve, draw_linear
from bayeswind_lib.models.positions import TABLES, rotate, sinusoids
from bayeswind_lib.models.transformer_config import TransformerConfig


class Attention(nn.Module):
    """Causal multi-head attention, written out so that its pattern can be looked at.

    `pattern` does nothing but hand on the attention weights: a hook on it reads them (or
    changes them) without a second implementation.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        D, self.n_heads, self.n_groups = config.width, config.n_heads, config.n_groups
        self.channels, self.window = D // self.n_heads, config.window
        shared = self.n_groups * self.channels  # channels of all keys, D unless heads share them
        self.rotary, self.uniform = config.positions == "rotary", config.attention == "uniform"
        if not self.uniform:
            self.query = nn.Linear(D, D, bias=False)
            self.key = nn.Linear(D, shared, bias=False)
        self.value = nn.Linear(D, shared, bias=False)
        self.output = nn.Linear(D, D, bias=False)
        self.pattern = nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        B, T, D = x.shape
        scores = self.scores(x)  # (B, H, T, T) query by key
        unseen = self.unseen(T, x.device)  # (T, T), keys that are later, or before the window
        scores = scores.masked_fill(unseen, float("-inf"))  # (B, H, T, T)
        pattern = self.pattern(scores.softmax(dim=-1))  # (B, H, T, T), rows sum to 1
        mixed = pattern @ self.shared(self.heads(self.value(x)))  # (B, H, T, C)
        return self.output(mixed.transpose(1, 2).reshape(B, T, D))  # (B, T, D)

    def unseen(self, length: int, device: torch.device | None = None) -> torch.Tensor:
        """Which keys a query may not look at: bool (T, T), later ones and those before the window."""
        every = torch.ones(length, length, dtype=torch.bool, device=device)  # (T, T)
        return every.triu(1) | every.tril(-self.window) if self.window else every.triu(1)  # (T, T)

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """How well each query fits each key: (B, T, D) -> (B, H, T, T)."""
        B, T, _ = x.shape
        if self.uniform:
            return x.new_zeros(B, self.n_heads, T, T)
        q = self.heads(self.query(x))  # (B, H, T, C)
        k = self.heads(self.key(x))  # (B, G, T, C)
        if self.rotary:
            q, k = rotate(q), rotate(k)
        return q @ self.shared(k).transpose(-2, -1) / math.sqrt(q.shape[-1])

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        """Split the channels into heads: (B, T, D) -> (B, H, T, C); (B, T, G C) -> (B, G, T, C)."""
        return x.unflatten(-1, (-1, self.channels)).transpose(1, 2)

    def shared(self, x: torch.Tensor) -> torch.Tensor:
        """Keys or values as each head of queries uses them: (B, G, T, C) -> (B, H, T, C)."""
        repeats = self.n_heads // self.n_groups
        return x if repeats == 1 else x.repeat_interleave(repeats, dim=1)


class FeedForward(nn.Module):
    """Two linear maps with a GELU between them, the same at every position."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.up = nn.Linear(config.width, config.hidden)
        self.down = nn.Linear(config.hidden, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        return self.down(F.gelu(self.up(x)))  # (B, T, M) in between


class Experts(nn.Module):
    """Several feed-forward parts, of which each token takes the two that a router scores highest, weighted.

    All are computed and the others weighted by 0: simple, and no slower at this size.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.router = nn.Linear(config.width, config.n_experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(config) for _ in range(config.n_experts))

    def weights(self, x: torch.Tensor) -> torch.Tensor:
        """How much of each expert a token takes, two of them above 0: (B, T, D) -> (B, T, X), rows sum to 1."""
        scores, chosen = self.router(x).topk(2, dim=-1)  # (B, T, 2)
        return torch.zeros_like(self.router(x)).scatter(-1, chosen, scores.softmax(-1))  # (B, T, X)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        written = torch.stack([expert(x) for expert in self.experts], -1)  # (B, T, D, X)
        return (written @ self.weights(x)[..., None]).squeeze(-1)  # (B, T, D)


class Block(nn.Module):
    """One layer: attention and feed-forward read a normed copy and add to the residual stream."""

    def __init__(self, config: TransformerConfig, attends: bool = True):
        super().__init__()
        self.attends = attends
        if attends:
            self.norm1, self.attention = RMSNorm(config.width), Attention(config)
        self.norm2, self.feed_forward = RMSNorm(config.width), (Experts if config.n_experts else FeedForward)(config)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        if self.attends:
            x = x + self.attention(self.norm1(x))  # (B, T, D)
        return x + self.feed_forward(self.norm2(x))  # (B, T, D)


class Transformer(SequenceModel):
    """A causal transformer, by default with learned positions.

    The published bijection network is the default size: 6 layers, 6 heads, 192 channels,
    768 hidden units (Paper I, section 3.3).
    """

    architecture = "transformer"
    Config = TransformerConfig

    def __init__(self, config: TransformerConfig):
        super().__init__(config)
        if config.positions in TABLES:
            self.positions = nn.Embedding(config.n_positions, config.width)
        if config.convolution:
            D, c = config.width, config.convolution
            self.convolution = nn.Conv1d(D, D, c, groups=D)
        off = config.without_attention
        self.blocks = nn.ModuleList(Block(config, i not in off) for i in range(config.n_layers))
        self.norm = RMSNorm(config.width)

    def initialise(self, rng: torch.Generator) -> Transformer:
        """Draw all weights from `rng`, normal with mean 0; see `TransformerConfig.init`.

        The maps into the residual stream are divided by sqrt(2 L), so that the stream's size
        does not grow with depth.
        """
        into_stream = ("attention.output.weight", "down.weight")
        for name, parameter in self.named_parameters():
            if name.endswith("gain"):
                nn.init.ones_(parameter)
            elif name.startswith("convolution"):
                draw_linear(parameter, rng, self.config.convolution)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                depth = 2 * self.config.n_layers if name.endswith(into_stream) else 1
                size = self.first_size(name, parameter) / math.sqrt(depth)
                nn.init.normal_(parameter, std=size, generator=rng)
        return self

    def first_size(self, name: str, parameter: torch.Tensor) -> float:
        """Standard deviation of a weight before training, but for depth."""
        if self.config.init == "small":
            return 0.02
        embedding = name in ("tokens.weight", "positions.weight")
        return 0.2 if embedding else parameter.shape[1] ** -0.5

    def place(self, x: torch.Tensor, rng: torch.Generator | None = None) -> torch.Tensor:
        """Add the position code to the embedded inputs: (B, T, D) -> (B, T, D).

        Raises:
            ValueError: if there are more tokens than trained positions.
        """
        T, kind = x.shape[1], self.config.positions
        if kind in TABLES:
            return x + self.positions(self.position_numbers(T, rng, x.device).to(x.device))
        if kind == "sinusoidal":  # scaled to the size of freshly drawn embeddings
            size = 0.02 if self.config.init == "small" else 0.2
            return x + size * math.sqrt(2) * sinusoids(T, x.shape[2], x.device)
        return x

    def position_numbers(
        self, length: int, rng: torch.Generator | None = None, device: torch.device | None = None,
    ) -> torch.Tensor:
        """Which trained positions an input of `length` tokens takes: int64 (T,), on `device` unless `rng` draws them elsewhere."""
        kind, most = self.config.positions, self.config.n_positions
        stride = 2 if kind == "random_subset" and rng is None else 1
        if (length - 1) * stride >= most:
            raise ValueError(
                f"inputs have {length} tokens, but this network has only {most} "
                f"{kind.replace('_', ' ')} positions: shorten the inputs"
            )
        if rng is not None and kind == "random_offset":
            device = rng.device
            offset = torch.randint(most - length + 1, (1,), generator=rng, device=device)
            return torch.arange(length, device=device) + offset
        if rng is not None and kind == "random_subset":
            order = torch.randperm(most, generator=rng, device=rng.device)
            return order[:length].sort().values
        return torch.arange(length, device=device) * stride

    def trunk(self, x: torch.Tensor, rng: torch.Generator | None = None) -> torch.Tensor:
        """Convolution, positions, blocks and the last norm: (B, T, D) -> (B, T, D)."""
        if self.config.convolution:
            x = x + convolve(x, self.convolution)  # (B, T, D)
        x = self.place(x, rng)  # (B, T, D)
        for block in self.blocks:
            x = block(x)  # (B, T, D)
        return self.norm(x)

    def switch_attention(self, layer: int, on: bool) -> Transformer:
        """Let a layer attend or not, after training; returns the network itself.

        Raises:
            ValueError: if there is no such layer, or it was built without attention.
        """
        if not 0 <= layer < len(self.blocks):
            raise ValueError(f"layer is {layer}: there are layers 0..{len(self.blocks) - 1}")
        if layer in self.config.without_attention:
            raise ValueError(f"layer {layer} was built without attention: nothing to switch")
        self.blocks[layer].attends = on
        return self

    @torch.no_grad()
    def attention_patterns(self, inputs: torch.Tensor) -> list[torch.Tensor]:
        """The attention weights of every layer that attends, read off during one forward pass.

        Returns:
            one float32 (B, H, T, T) a layer, query by key, rows sum to 1.
        """
        seen: list[torch.Tensor] = []
        hooks = [
            block.attention.pattern.register_forward_hook(lambda *call: seen.append(call[-1]))
            for block in self.blocks if block.attends
        ]
        try:
            self(inputs)
        finally:
            for hook in hooks:
                hook.remove()
        return seen
