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
        responsibility: rho, (B, T, T), the weights once the outcome is seen; rows sum to 1, but for
            what `rest` answers for.
        rest: (B, T), the joint chance of y_i and of a source that is no value; 0 if there is none.
    """

    pattern: torch.Tensor
    forecasts: torch.Tensor
    chances: torch.Tensor
    responsibility: torch.Tensor
    rest: torch.Tensor | float = 0.0

    @property
    def loss(self) -> torch.Tensor:
        """Sum over positions of -log sum_j alpha_ij p_j(y_i), in nats."""
        return -((self.pattern * self.chances).sum(-1) + self.rest).log().sum()


def chances_of(forecasts: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """p_j(y_i): forecasts (B, T, Y), targets int64 (B, T) -> (B, T, T), query by key."""
    T = targets.shape[1]
    return forecasts.transpose(1, 2).gather(1, targets[..., None].expand(-1, -1, T))


def mixture(scores: torch.Tensor, values: torch.Tensor, output: torch.Tensor, targets: torch.Tensor) -> Mixture:
    """A mixture head: scores (B, T, T), values (B, T, V), output (V, Y), targets int64 (B, T)."""
    return of_forecasts(scores.softmax(-1), (values @ output).softmax(-1), targets)


def of_forecasts(pattern: torch.Tensor, forecasts: torch.Tensor, targets: torch.Tensor, rest: torch.Tensor | None = None) -> Mixture:
    """A mixture head whose forecasts (B, T, Y) are given as such: the E-step of EM.

    `rest` (B, T) is what one more source, which is no value, adds to the chance of the outcome.
    """
    chances = chances_of(forecasts, targets)
    joint = pattern * chances
    rest = joint.new_zeros(joint.shape[:-1]) if rest is None else rest
    return Mixture(pattern, forecasts, chances, joint / (joint.sum(-1) + rest)[..., None], rest)


def score_gradient(head: Mixture) -> torch.Tensor:
    """At the scores: alpha_ij - rho_ij, (B, T, T). Attention moves towards the posterior."""
    return head.pattern - head.responsibility


def value_gradient(head: Mixture, output: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """At the values: sum_i rho_ij W_O (p_j - e_{y_i}), (B, T, V)."""
    return logit_gradient(head, targets) @ output.T


def logit_gradient(head: Mixture, targets: torch.Tensor) -> torch.Tensor:
    """At the logits of each value's forecast: sum_i rho_ij (p_j - e_{y_i}), (B, T, Y)."""
    seen = answered(head, targets)
    return seen.sum(-1, keepdim=True) * head.forecasts - seen


def answered(head: Mixture, targets: torch.Tensor) -> torch.Tensor:
    """Outcomes by who answers for them, sum_i rho_ij e_{y_i}: (B, T, Y)."""
    happened = torch.nn.functional.one_hot(targets, head.forecasts.shape[-1]).to(head.forecasts)
    return head.responsibility.transpose(1, 2) @ happened


def best_forecasts(head: Mixture, targets: torch.Tensor) -> torch.Tensor:
    """The M-step, if forecasts are free: outcomes counted by responsibility, (B, T, Y).

    A key that answers for nothing keeps its forecast.
    """
    counts = answered(head, targets)
    mass = counts.sum(-1, keepdim=True)
    return torch.where(mass > 0, counts / mass.clamp(min=1e-300), head.forecasts)


# ---- beside it, attention as it is: the average first, the softmax after


def average(scores: torch.Tensor, values: torch.Tensor, output: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of attention with the same parts, and its gradient at the scores, in closed form.

    softmax(sum_j alpha_ij v_j W_O) is the *geometric* mean of the values' forecasts, made to sum to 1;
    the mixture is the arithmetic mean.

    Returns:
        the sum over positions of -log q_i(y_i) in nats, and G_ij = alpha_ij (b_ij - mean of b), (B, T, T).
    """
    pattern = scores.softmax(-1)
    forecast = (pattern @ values @ output).softmax(-1)  # (B, T, Y)
    happened = torch.nn.functional.one_hot(targets, forecast.shape[-1]).to(forecast)
    b = (forecast - happened) @ output.T @ values.transpose(1, 2)  # (B, T, T)
    loss = -(forecast * happened).sum(-1).log().sum()
    return loss, pattern * (b - (pattern * b).sum(-1, keepdim=True))


def agreement(scores: torch.Tensor, values: torch.Tensor, output: torch.Tensor, targets: torch.Tensor) -> tuple[float, float]:
    """How far the step that attention takes, -G, is the step towards the posterior, rho - alpha.

    Returns:
        the cosine of the two (over all queries and keys), and |rho - alpha + G| / |rho - alpha|: 0 if
        they are the same, 1 as far off as no step at all.
    """
    step = -average(scores, values, output, targets)[1]
    towards = -score_gradient(mixture(scores, values, output, targets))
    cosine = (step * towards).sum() / (step.norm() * towards.norm())
    return float(cosine), float((towards - step).norm() / towards.norm())


def drawn_together(values: torch.Tensor, share: float) -> torch.Tensor:
    """Values (B, T, V) moved towards the mean of their sequence: their spread is `share` of what it was."""
    mean = values.mean(1, keepdim=True)
    return mean + share * (values - mean)
