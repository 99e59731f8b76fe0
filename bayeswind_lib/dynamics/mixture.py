"""A head for which training *is* expectation maximisation, beside the one that transformers have.

Attention averages values first and makes a forecast of the average. A *mixture head* does it the
other way round: every value makes a forecast p_j, and attention averages the forecasts,

    loss_i = -log sum_j alpha_ij p_j(y_i).

For it the posterior responsibility rho_ij = alpha_ij p_j(y_i) / sum_l alpha_il p_l(y_i) is what
gradients are made of (Fisher's identity); attention's own weights alpha_ij never see y_i (notes A5).

Axes: B sequences, T positions (query i looks at key j), V channels of a value, Y outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Mixture:
    """A mixture head on some sequences, and what follows from the outcomes.

    Attributes:
        pattern: alpha, (B, T, T), the weights before the outcome is seen.
        forecasts: p_j, (B, T, Y), one a value.
        chances: p_j(y_i), (B, T, T), query by key.
        responsibility: rho, (B, T, T), the weights once the outcome is seen; rows sum to 1.
    """

    pattern: torch.Tensor
    forecasts: torch.Tensor
    chances: torch.Tensor
    responsibility: torch.Tensor

    @property
    def loss(self) -> torch.Tensor:
        """Sum over positions of -log sum_j alpha_ij p_j(y_i), in nats."""
        return -(self.pattern * self.chances).sum(-1).log().sum()


def chances_of(forecasts: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """p_j(y_i): forecasts (B, T, Y), targets int64 (B, T) -> (B, T, T), query by key."""
    T = targets.shape[1]
    return forecasts.transpose(1, 2).gather(1, targets[..., None].expand(-1, -1, T))


def mixture(scores: torch.Tensor, values: torch.Tensor, output: torch.Tensor, targets: torch.Tensor) -> Mixture:
    """A mixture head: scores (B, T, T), values (B, T, V), output (V, Y), targets int64 (B, T)."""
    return of_forecasts(scores.softmax(-1), (values @ output).softmax(-1), targets)


def of_forecasts(pattern: torch.Tensor, forecasts: torch.Tensor, targets: torch.Tensor) -> Mixture:
    """A mixture head whose forecasts (B, T, Y) are given as such: the E-step of EM."""
    chances = chances_of(forecasts, targets)
    joint = pattern * chances
    return Mixture(pattern, forecasts, chances, joint / joint.sum(-1, keepdim=True))


def score_gradient(head: Mixture) -> torch.Tensor:
    """At the scores: alpha_ij - rho_ij, (B, T, T). Attention moves towards the posterior."""
    return head.pattern - head.responsibility


def value_gradient(head: Mixture, output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """At the values: sum_i rho_ij W_O (p_j - e_{y_i}), (B, T, V)."""
    mass = head.responsibility.sum(1)  # (B, T), of each key
    happened = torch.nn.functional.one_hot(targets, head.forecasts.shape[-1]).to(output)
    seen = head.responsibility.transpose(1, 2) @ happened  # (B, T, Y), outcomes by who answers for them
    return (mass[..., None] * head.forecasts - seen) @ output.T


def best_forecasts(head: Mixture, targets: torch.Tensor) -> torch.Tensor:
    """The M-step, if forecasts are free: outcomes counted by responsibility, (B, T, Y).

    A key that answers for nothing keeps its forecast.
    """
    happened = torch.nn.functional.one_hot(targets, head.forecasts.shape[-1]).to(head.forecasts)
    counts = head.responsibility.transpose(1, 2) @ happened  # (B, T, Y)
    mass = counts.sum(-1, keepdim=True)
    return torch.where(mass > 0, counts / mass.clamp(min=1e-300), head.forecasts)
