"""Long short-term memory: a stack of recurrent layers (Hochreiter & Schmidhuber, 1997).

Two shapes matter in this book. *Wide and shallow*, one or two layers, is what usually trains
well. *Deep*, six or nine layers without residual connections, is what the published tables used.

Axes: B episodes, T tokens, D channels (`width`), which are also the units of a layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from bayeswind_lib.models.base import Config, SequenceModel, convolve, draw_linear


@dataclass(frozen=True, kw_only=True)
class LSTMConfig(Config):
    """All that fixes the shape of an `LSTM`; see `Config` for what the tunnel fixes.

    Attributes:
        n_layers: depth of the stack.
        width: units of a layer, and channels of the embedding.
        forget_bias: initial bias of the forget gates; above 0 a unit remembers from the start
            (Jozefowicz et al., 2015).
        convolution: before the first layer, add to every token a causal convolution over so many
            tokens, itself included, a weight a channel and place (as Mamba has). 0: none.
    """

    n_layers: int = 1
    width: int = 136
    forget_bias: float = 1.0
    convolution: int = 0

    def __post_init__(self):
        super().__post_init__()
        if self.convolution < 0:
            raise ValueError(f"convolution is {self.convolution}: give a number of tokens, or 0")

    @property
    def n_parameters(self) -> int:
        """The parameter count by formula: L (8 D^2 + 8 D), the ends and the last norm (2 D); a convolution over c tokens (c + 1) D."""
        D = self.width
        count = self.n_layers * (8 * D * D + 8 * D) + 2 * D
        count += (self.convolution + 1) * D if self.convolution else 0
        count += self.n_tokens * D if self.n_tokens else (self.n_features + 1) * D
        return count + ((D + 1) * self.n_outputs if self.first_output_token is None else 0)


class LSTM(SequenceModel):
    """A stack of LSTM layers with a layer norm on top; no position code, no residual connection."""

    architecture = "lstm"
    Config = LSTMConfig

    def __init__(self, config: LSTMConfig):
        super().__init__(config)
        if config.convolution:
            self.convolution = nn.Conv1d(config.width, config.width, config.convolution, groups=config.width)
        self.layers = nn.LSTM(config.width, config.width, config.n_layers, batch_first=True)
        self.norm = nn.LayerNorm(config.width)

    def initialise(self, rng: torch.Generator) -> LSTM:
        """Draw all weights from `rng`.

        Recurrent weights are orthogonal a gate and the others uniform within 1 / sqrt(D);
        biases are zero but for the forget gates'. Embeddings have unit variance, because no
        norm follows them; a tied readout divides by sqrt(D), see `read_out`.
        """
        D = self.config.width
        for name, parameter in self.named_parameters():
            if "weight_hh" in name:
                for gate in parameter.split(D):
                    nn.init.orthogonal_(gate, generator=rng)
            elif name.startswith("convolution"):
                draw_linear(parameter, rng, self.config.convolution)
            elif name == "tokens.weight":
                nn.init.normal_(parameter, generator=rng)
            elif name == "norm.weight":
                nn.init.ones_(parameter)
            elif name == "head.weight":
                nn.init.normal_(parameter, std=0.02, generator=rng)
            elif "bias" in name:
                nn.init.zeros_(parameter)
                if "bias_ih" in name:  # gates lie in the order input, forget, cell, output
                    nn.init.constant_(parameter[D : 2 * D], self.config.forget_bias)
            else:
                bound = 1 / math.sqrt(parameter.shape[1])
                nn.init.uniform_(parameter, -bound, bound, generator=rng)
        return self

    def trunk(self, x: torch.Tensor, rng: torch.Generator | None = None) -> torch.Tensor:
        """Convolution, recurrence and norm: (B, T, D) -> (B, T, D)."""
        if self.config.convolution:
            x = x + convolve(x, self.convolution)  # (B, T, D)
        return self.norm(self.layers(x)[0])

    def read_out(self, x: torch.Tensor) -> torch.Tensor:
        """As in `SequenceModel`; with a tied head the logits are divided by sqrt(D)."""
        logits = super().read_out(x)
        tied = self.config.first_output_token is not None
        return logits / math.sqrt(self.config.width) if tied else logits
