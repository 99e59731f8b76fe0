"""A number beside what it would be without the thing that it is said to show.

Axes: R draws of a null.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from bayeswind_lib import stats


@dataclass(frozen=True)
class Measured:
    """A measurement and the draws of its null.

    Attributes:
        value: what was measured.
        draws: float64 (R,), the same measurement where the claim cannot hold.
        null: what the draws are of, in words.
        unit: of the value; "" for a pure number.
    """

    value: float
    draws: np.ndarray
    null: str
    unit: str = ""

    @property
    def percentile(self) -> float:
        """Share of the draws below the value, in percent; a tie counts half. NaN without draws."""
        return stats.percentile(self.value, self.draws)

    @property
    def low(self) -> float:
        """The 2.5th percentile of the null."""
        return float(np.quantile(self.draws, 0.025)) if len(self.draws) else math.nan

    @property
    def high(self) -> float:
        """The 97.5th percentile of the null."""
        return float(np.quantile(self.draws, 0.975)) if len(self.draws) else math.nan

    def summary(self) -> dict:
        """`stats.summary` of the draws, with the value: the shape that the ledger reads."""
        return stats.summary(self.draws, self.value)

    def to_dict(self) -> dict:
        """Plain JSON types, for a record: value, null mean and limits, percentile, draws."""
        return {
            "value": self.value, "null": self.null, "null_mean": float(np.mean(self.draws)) if len(self.draws) else None,
            "null_low": self.low, "null_high": self.high, "percentile": self.percentile,
            "draws": len(self.draws), "unit": self.unit,
        }


def against(value: float, draw: Callable[[], float], draws: int, null: str, unit: str = "") -> Measured:
    """A value beside `draws` results of a function that draws from its null.

    Raises:
        ValueError: for no draws at all.
    """
    if draws < 1:
        raise ValueError(f"draws is {draws}: a null needs at least one")
    return Measured(float(value), np.array([float(draw()) for _ in range(draws)]), null, unit)


def normal_like(x: torch.Tensor, rng: torch.Generator, shape: tuple[int, ...] | None = None) -> torch.Tensor:
    """Standard normal numbers with the shape, dtype and device of x; drawn where `rng` is, so that a seed is one draw.

    Args:
        shape: another shape.
    """
    drawn = torch.randn(x.shape if shape is None else shape, generator=rng, dtype=x.dtype, device=rng.device)
    return drawn.to(x.device)


def noise_like(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Gaussian vectors, each of the norm of its counterpart in x over the last axis: (..., D)."""
    random = normal_like(x, rng)
    return random / random.norm(dim=-1, keepdim=True) * x.norm(dim=-1, keepdim=True)


def untrained(model: nn.Module, rng: torch.Generator) -> nn.Module:
    """A network of the same architecture and sizes, on the same device, with first weights drawn from `rng`."""
    with torch.random.fork_rng(devices=[]):
        fresh = type(model)(model.config)
    return fresh.initialise(rng).eval().to(next(model.parameters()).device)
