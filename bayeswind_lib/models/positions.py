"""Position codes of a transformer: their names, and those that need no training."""

from __future__ import annotations

import math

import torch

POSITIONS = ("learned", "sinusoidal", "rotary", "none", "random_offset", "random_subset")
TABLES = ("learned", "random_offset", "random_subset")  # those with a trained vector a position


def sinusoids(length: int, width: int, device: torch.device | None = None) -> torch.Tensor:
    """Sines and cosines of geometric wavelengths: float32 (T, D), mean square 1 / 2."""
    place = torch.arange(length, device=device, dtype=torch.float32)[:, None]
    channel = torch.arange(0, width, 2, device=device, dtype=torch.float32)
    angle = place * torch.exp(-math.log(10_000.0) * channel / width)  # (T, D / 2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :width]


def rotate(x: torch.Tensor) -> torch.Tensor:
    """Turn each pair of channels by an angle proportional to the place: (B, H, T, C), same shape."""
    return _turned(x, 1)


def rotate_back(x: torch.Tensor) -> torch.Tensor:
    """Undo `rotate`, (B, H, T, C): the transposed turn, by which gradients go back through it."""
    return _turned(x, -1)


def _turned(x: torch.Tensor, sense: int) -> torch.Tensor:
    waves = sinusoids(x.shape[-2], x.shape[-1], x.device).to(x.dtype)  # (T, C), sin and cos in turn
    sin, cos = sense * waves[:, 0::2], waves[:, 1::2]  # (T, C / 2)
    even, odd = x[..., 0::2], x[..., 1::2]  # (B, H, T, C / 2)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
