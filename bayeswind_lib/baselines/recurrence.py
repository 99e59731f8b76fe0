"""Predictors for the recurrence tunnel that know less than the rule, and what they score.

`Uniform` (base) knows nothing. `AnyRule` knows that there may be a rule and not that it is affine:
it copies what followed the same symbol before, as an induction head does. `Memoriser` is exact on
the beginnings it was trained on and takes any other sequence for noise: what learning by heart gives.

Axes: B episodes, T symbols read (scored positions), p symbols.
"""

from __future__ import annotations

import torch

from bayeswind_lib.baselines.base import Baseline
from bayeswind_lib.tunnels import recurrence


class AnyRule(Baseline):
    """Exact for another nature: with probability 1/2 a rule x_{t+1} = f(x_t), f any of the p^p functions."""

    name = "copies what followed before"

    def probabilities(self, symbols, names=None):
        batch, length = symbols.shape
        p = self.tunnel.modulus
        rule = symbols.new_full((batch, p), -1)  # what followed each symbol, -1 while unknown
        repeats = torch.zeros(batch, dtype=torch.float64, device=symbols.device)
        agrees, rows = torch.ones_like(repeats), []
        for t in range(length):
            said = rule.gather(1, symbols[:, t : t + 1])[:, 0]
            factor = agrees * float(p) ** repeats
            weight = (factor / (1 + factor))[:, None]
            known = torch.nn.functional.one_hot(said.clamp(min=0), p).double()
            rows.append(weight * torch.where((said < 0)[:, None], 1 / p, known) + (1 - weight) / p)
            if t + 1 < length:
                after = symbols[:, t + 1]
                agrees = agrees * ((said < 0) | (said == after))
                repeats = repeats + (said >= 0)
                rule.scatter_(1, symbols[:, t : t + 1], after[:, None])
        return _in_tokens(torch.stack(rows, 1), names)


class Memoriser(Baseline):
    """Exact where the first three symbols are in the trained buckets; elsewhere everything is noise."""

    name = "learned by heart"

    def probabilities(self, symbols, names=None):
        truth = self.tunnel.posterior(self.tunnel._write(symbols, names))
        if symbols.shape[1] < 3:
            return truth
        bucket = recurrence.buckets(self.tunnel.modulus).to(symbols.device)[tuple(symbols[:, :3].T)]
        truth[bucket == self.tunnel.bucket, 2:] = 1 / self.tunnel.modulus
        return truth


def _in_tokens(prob: torch.Tensor, names: torch.Tensor | None) -> torch.Tensor:
    """Probabilities of symbols (B, T, p) as those of the tokens that name them."""
    return prob if names is None else prob.gather(-1, names.argsort(1)[:, None].expand_as(prob))


def ruled(score) -> float:
    """Mean divergence (bits) from the third symbol on: before it no rule shows, and what is held out
    shows itself, since only some beginnings occur."""
    return float(score.per_position["kl"][2:].mean())
