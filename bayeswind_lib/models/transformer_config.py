"""The shape of a transformer: its sizes, and what of it may be exchanged.

Axes: D channels (`width`), H heads, C channels of one head (D / H), G heads of keys and values,
      M hidden units, X experts, T positions, V tokens, F features, Y outcomes, L layers.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayeswind_lib.models.base import Config
from bayeswind_lib.models.positions import POSITIONS, TABLES

CHOICES = {
    "positions": POSITIONS, "attention": ("softmax", "uniform"), "init": ("small", "fan_in"),
}


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Config):
    """All that fixes the shape of a `Transformer`; see `Config` for what the tunnel fixes.

    Attributes:
        n_layers, n_heads, width, hidden: depth, H, D and M.
        n_key_heads: G, heads of keys and values. None: as many as heads (multi-head attention,
            as published). Fewer: each serves H / G heads of queries in a row (grouped-query
            attention; Ainslie et al., 2023); 1: all of them (multi-query; Shazeer, 2019).
        window: a token sees itself and the window - 1 tokens before it (sliding window; Beltagy
            et al., 2020). 0: all before it, as published.
        positions: how a token's place enters.
            "learned": a trained vector a position, `n_positions` of them.
            "sinusoidal": fixed waves of geometric wavelengths (Vaswani et al., 2017).
            "rotary": queries and keys are turned by an angle that grows with the place, so
                that scores depend on distances (Su et al., 2021).
            "none": nothing; the causal mask alone tells earlier from later.
            "random_offset": trained vectors; in training the sequence starts at a random one
                (Kiyono et al., 2021), so that all `n_positions` are trained.
            "random_subset": trained vectors; in training T of them, in order, drawn at random
                (Ruoss et al., 2023); afterwards every second one.
        attention: "softmax", or "uniform": every position averages all it may see, with equal
            weights that nothing can train. What is left is a causal mean.
        without_attention: numbers of the layers that have no attention at all.
        n_experts: X, feed-forward parts of a layer, of which a router picks two for each token (mixture of
            experts; Shazeer et al., 2017, two as in Mixtral). 0: one part for all tokens, as published.
        convolution: before the first layer, add to every token a causal convolution over so many
            tokens, itself included, a weight a channel and place (as Mamba has; Arora et al.,
            2023, add one to attention). 0: none, as published.
        init: size of the first weights. "small": standard deviation 0.02 everywhere, made for
            wide networks. "fan_in": 1 / sqrt(inputs) for maps and 0.2 for embeddings. In a
            narrow network the small one starts with all but uniform attention, and learning to
            look something up then takes many times longer.
    """

    n_layers: int = 6
    n_heads: int = 6
    width: int = 192
    hidden: int = 768
    n_key_heads: int | None = None
    window: int = 0
    positions: str = "learned"
    attention: str = "softmax"
    without_attention: tuple[int, ...] = ()
    n_experts: int = 0
    convolution: int = 0
    init: str = "small"

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "without_attention", tuple(self.without_attention))
        if self.width % self.n_heads:
            raise ValueError(
                f"width is {self.width} and n_heads is {self.n_heads}: "
                "the heads must divide the width evenly"
            )
        if self.n_groups < 1 or self.n_heads % self.n_groups:
            raise ValueError(
                f"n_key_heads is {self.n_key_heads} and n_heads is {self.n_heads}: every head of "
                "keys serves as many heads of queries, so it must divide their number"
            )
        if self.window < 0:
            raise ValueError(f"window is {self.window}: give a number of tokens, or 0 for all")
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}: choose one of {', '.join(allowed)}"
                )
        if self.positions == "rotary" and self.width // self.n_heads % 2:
            raise ValueError(
                f"a head has {self.width // self.n_heads} channels: rotary positions turn "
                "pairs of channels, so their number must be even"
            )
        if self.n_experts < 0 or self.n_experts == 1:
            raise ValueError(f"n_experts is {self.n_experts}: give 0 for none, or at least 2, of which each token takes two")
        if self.convolution < 0:
            raise ValueError(f"convolution is {self.convolution}: give a number of tokens, or 0")
        if any(not 0 <= layer < self.n_layers for layer in self.without_attention):
            raise ValueError(
                f"without_attention names layers {self.without_attention}: "
                f"there are layers 0..{self.n_layers - 1}"
            )

    @property
    def n_groups(self) -> int:
        """G, how many heads of keys and values there are."""
        return self.n_heads if self.n_key_heads is None else self.n_key_heads

    @property
    def n_parameters(self) -> int:
        """The parameter count by formula: V D + T D + L (4 D^2 + 2 D M + M + 3 D) + D.

        With M = 4 D this is V D + T D + L (12 D^2 + 7 D) + D: tied head, no bias in the
        attention, a bias in the feed-forward layer, one gain per norm. Features in place of
        tokens cost (F + 1) D, an untied head (D + 1) Y; T D is due for trained positions only;
        a convolution over c tokens has (c + 1) D. With G heads of keys, 2 D^2 of the 4 D^2 (the
        keys and the values) shrink by the factor G / H. A window costs nothing and saves nothing.
        With X experts the 2 D M + M + D of the feed-forward part come X times, and the router has X D.
        """
        D, M, off = self.width, self.hidden, len(self.without_attention)
        shared = D * D * self.n_groups // self.n_heads  # a map of keys, or one of values
        maps = 2 * (D * D + shared) if self.attention == "softmax" else D * D + shared
        one, X = 2 * D * M + M + D, self.n_experts
        block = (X * (one + D) if X else one) + D
        count = self.n_layers * block + (self.n_layers - off) * (maps + D) + D
        count += self.n_tokens * D if self.n_tokens else (self.n_features + 1) * D
        count += self.n_positions * D if self.positions in TABLES else 0
        count += (D + 1) * self.n_outputs if self.first_output_token is None else 0
        count += (self.convolution + 1) * D if self.convolution else 0
        return count
