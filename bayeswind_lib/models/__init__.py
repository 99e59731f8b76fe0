"""Architectures, one file each, all with the same call. They know no tunnel."""

from __future__ import annotations

import torch
from torch import nn

from bayeswind_lib.models.base import SequenceModel
from bayeswind_lib.models.lstm import LSTM, LSTMConfig
from bayeswind_lib.models.mamba import Mamba, MambaConfig
from bayeswind_lib.models.mlp import MLP, MLPConfig
from bayeswind_lib.models.transformer import Transformer, TransformerConfig

ARCHITECTURES = {"transformer": Transformer, "lstm": LSTM, "mlp": MLP, "mamba": Mamba}


def architecture(name: str) -> type[nn.Module]:
    """The class behind an architecture's name; ValueError if there is none."""
    if name not in ARCHITECTURES:
        raise ValueError(
            f"no architecture is called {name!r}: choose one of {', '.join(ARCHITECTURES)}"
        )
    return ARCHITECTURES[name]


def build(name: str, config: dict, rng: torch.Generator | None = None) -> nn.Module:
    """A network of the given architecture and config, in float32.

    Args:
        name: "transformer", "mamba", "lstm" or "mlp".
        config: all fields of the architecture's `Config` that have no default.
        rng: draws the first weights; without it they are whatever PyTorch made them.
    Raises:
        ValueError: for an unknown architecture, or a config that does not fit it.
    """
    kind = architecture(name)
    try:
        with torch.random.fork_rng(devices=[]):  # PyTorch's layers draw weights when they are made
            model = kind(kind.Config(**config))
    except TypeError as problem:
        raise ValueError(f"this config does not fit a {name}: {problem}") from None
    return model.initialise(rng) if rng is not None else model


def count_parameters(model: nn.Module) -> int:
    """Number of trained numbers in a network, counted tensor by tensor."""
    return sum(parameter.numel() for parameter in model.parameters())


__all__ = [
    "ARCHITECTURES",
    "LSTM",
    "MLP",
    "Mamba",
    "LSTMConfig",
    "MLPConfig",
    "MambaConfig",
    "SequenceModel",
    "Transformer",
    "TransformerConfig",
    "architecture",
    "build",
    "count_parameters",
]
