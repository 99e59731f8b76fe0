"""What one small step of gradient descent does to attention, to first order (Paper II; notes A4).

A prediction of first order is tested by a ratio: what happened over what was predicted tends to 1
as the step shrinks, and its distance from 1 shrinks in proportion to the step.

Axes: as in `attention`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from bayeswind_lib.dynamics.attention import Gradients, Pass


def routing_gain(found: Gradients, rate: float) -> float:
    """Predicted change of the loss when scores take a step: -rate ||G||^2."""
    return -rate * float(found.scores.square().sum())


def value_gain(found: Gradients, rate: float) -> float:
    """Predicted change of the loss when values take a step: -rate ||alpha' u||^2, never above 0."""
    return -rate * float(found.values.square().sum())


def kinship(done: Pass) -> torch.Tensor:
    """(alpha alpha')_ir, how far queries i and r share what they look at: (B, H, T, T).

    A step of the values moves the context of i by -rate times the sum over r of kinship times u_r:
    queries that look alike learn together.
    """
    return done.pattern @ done.pattern.transpose(-2, -1)


def context_change(done: Pass, upstream: torch.Tensor, rate: float) -> torch.Tensor:
    """How a step of the values moves what each head returns, if heads share no values: (B, H, T, V).

    Raises:
        ValueError: if heads share values; then the steps of the others come in as well.
    """
    if done.weights.serves != 1:
        raise ValueError(f"{done.weights.serves} query heads share each value head: this law is for heads with values of their own")
    return -rate * kinship(done) @ upstream


def compatibility_change(done: Pass, upstream: torch.Tensor, rate: float) -> torch.Tensor:
    """How a step of the values moves u_i . v_j: -rate sum_r alpha_rj u_i . u_r, (B, H, T, T).

    The term r = i is -rate alpha_ij |u_i|^2, never above 0: who already looks at j makes j better
    for itself. Terms of other queries with u_i . u_r below 0 work against it.
    """
    return -rate * (upstream @ upstream.transpose(-2, -1)) @ done.pattern


def ratios(loss: Callable[[float], float], predicted: Callable[[float], float], rates: Sequence[float]) -> np.ndarray:
    """Actual over predicted change of the loss, for each size of step: float64 (len(rates),).

    Args:
        loss: the loss after a step of a given size; `loss(0)` is that before.
        predicted: the change to first order.
    """
    start = loss(0.0)
    return np.array([(loss(rate) - start) / predicted(rate) for rate in rates])


def order(rates: Sequence[float], ratio: np.ndarray) -> float:
    """Slope of log |ratio - 1| against log rate: 1 where only the next order is missing."""
    return float(np.polyfit(np.log(rates), np.log(np.abs(ratio - 1)), 1)[0])
