"""Baseline predictors of the HMM tunnel: every way to hold a part of the forward algorithm.

What reads the emissions but carries nothing, what carries but does not look, what forgets after a
few symbols, what has the right certainty about the wrong state. A network's number means something
only between them.

Axes: B episodes, K scored positions (steps), S states, V symbols, Y outcomes. Entropies in bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch

from bayeswind_lib import scoring
from bayeswind_lib.baselines.base import Baseline, Uniform
from bayeswind_lib.stats import standard_error
from bayeswind_lib.tunnels import HMM, Episodes
from bayeswind_lib.tunnels.hmm import MIN_CENTS, forward_filter, on_grid, transport

STARTS = ("stationary", "uniform", "marginal")


def normalised(weights: torch.Tensor) -> torch.Tensor:
    """Weights divided by their sum over the last axis."""
    return weights / weights.sum(-1, keepdim=True)


def stationary(transition: torch.Tensor) -> torch.Tensor:
    """The distribution that the chain keeps: pi T = pi, by a linear solve in float64.

    pi (I - T + 1) = (1, ..., 1), where 1 is the matrix of ones, since pi T = pi and pi sums to 1.

    Args:
        transition: float64 (B, S, S), T[i, j] = P(j | i), every state reachable from every other.
    Returns:
        float64 (B, S).

    >>> stationary(torch.tensor([[[0.75, 0.25], [0.5, 0.5]]], dtype=torch.float64)).mul(3).tolist()
    [[2.0, 1.0]]
    """
    S = transition.shape[-1]
    matrix = torch.eye(S, dtype=transition.dtype, device=transition.device) - transition + 1
    return torch.linalg.solve(matrix.mT, torch.ones_like(transition[..., 0]))


def likelihoods(emission: torch.Tensor, observations: torch.Tensor) -> torch.Tensor:
    """P(o_t | state) at every step: E (B, S, V) and symbols (B, K) give (B, K, S)."""
    rows = observations[..., None].expand(-1, -1, emission.shape[1])
    return emission.mT.gather(1, rows)


class _Belief(Baseline):
    """A reference that holds some belief about the state, (B, K, S); what follows is computed right.

    A subclass says in `belief` what it believes. If the next symbol is asked, the belief is
    carried one step on and through the emissions, as the oracle does with its own.
    """

    def probabilities(
        self, transition: torch.Tensor, emission: torch.Tensor, observations: torch.Tensor
    ) -> torch.Tensor:
        belief = self.belief(transition, emission, observations)
        if self.tunnel.predicts == "states":
            return belief
        return transport(belief, transition) @ emission

    def belief(
        self, transition: torch.Tensor, emission: torch.Tensor, observations: torch.Tensor
    ) -> torch.Tensor:
        """What a subclass believes: float64 (B, K, S)."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it believes")

    def filtered(self, transition, emission, observations) -> torch.Tensor:
        """The exact belief, for those that spoil it afterwards."""
        return forward_filter(transition, emission, observations, self.tunnel.transition_first)

    def before(self, transition) -> torch.Tensor:
        """The distribution of the state at the first symbol, before it is seen: (B, 1, S)."""
        even = torch.full_like(transition[:, :1], 1 / transition.shape[-1])
        return transport(even, transition) if self.tunnel.transition_first else even


class EmissionOnly(_Belief):
    """Looks up which states emit this symbol, and remembers nothing."""

    name = "emission only"

    def belief(
        self, transition: torch.Tensor, emission: torch.Tensor, observations: torch.Tensor
    ) -> torch.Tensor:
        return normalised(likelihoods(emission, observations))


class StationaryOnly(_Belief):
    """The long-run share of every state; looks at no symbol."""

    name = "stationary, no symbol"

    def belief(
        self, transition: torch.Tensor, emission: torch.Tensor, observations: torch.Tensor
    ) -> torch.Tensor:
        share = stationary(transition)[:, None]
        return share.repeat(1, observations.shape[1], 1)


class BlindChain(_Belief):
    """Where the chain is after t - 1 moves from an even start; looks at no symbol."""

    name = "blind chain"

    def belief(
        self, transition: torch.Tensor, emission: torch.Tensor, observations: torch.Tensor
    ) -> torch.Tensor:
        steps = [self.before(transition)]
        for _ in range(observations.shape[1] - 1):
            steps.append(transport(steps[-1], transition))
        return torch.cat(steps, dim=1)


class StationaryEmission(_Belief):
    """The long-run share of every state, corrected by the current symbol: no transport."""

    name = "stationary x emission"

    def belief(
        self, transition: torch.Tensor, emission: torch.Tensor, observations: torch.Tensor
    ) -> torch.Tensor:
        return normalised(stationary(transition)[:, None] * likelihoods(emission, observations))


class OneStepPrediction(_Belief):
    """The exact belief before the current symbol is seen."""

    name = "one-step prediction"

    def belief(
        self, transition: torch.Tensor, emission: torch.Tensor, observations: torch.Tensor
    ) -> torch.Tensor:
        exact = self.filtered(transition, emission, observations)
        return torch.cat([self.before(transition), transport(exact[:, :-1], transition)], dim=1)


class StaleBelief(_Belief):
    """The exact belief about the state before: one step late."""

    name = "stale belief"

    def belief(
        self, transition: torch.Tensor, emission: torch.Tensor, observations: torch.Tensor
    ) -> torch.Tensor:
        exact = self.filtered(transition, emission, observations)
        even = torch.full_like(exact[:, :1], 1 / exact.shape[-1])
        return torch.cat([even, exact[:, :-1]], dim=1)


class NoTransport(_Belief):
    """Multiplies the evidence of all symbols as if the state never moved."""

    name = "accumulates, no transport"

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.tunnel.predicts != "states":
            return super().predict(inputs)
        _, emission, observations = self.tunnel.read(inputs)
        # In logarithms to the end: after 50 symbols a probability can be below 1e-308.
        return self.evidence(emission, observations).log_softmax(-1) / math.log(2)

    def belief(
        self, transition: torch.Tensor, emission: torch.Tensor, observations: torch.Tensor
    ) -> torch.Tensor:
        return self.evidence(emission, observations).softmax(-1)

    @staticmethod
    def evidence(emission, observations) -> torch.Tensor:
        return likelihoods(emission, observations).log().cumsum(1)


class TransposedFilter(_Belief):
    """The filter with T read by columns: rows and columns of the header mixed up."""

    name = "filter with T transposed"

    def belief(
        self, transition: torch.Tensor, emission: torch.Tensor, observations: torch.Tensor
    ) -> torch.Tensor:
        return self.filtered(transition.mT, emission, observations)


class ReversedFilter(_Belief):
    """The exact filter of the chain that runs backwards in time: T[j, i] pi[j] / pi[i], pi the long-run shares.

    It has the same long-run shares and the same pairs of neighbours, in the other order (Norris, 1997, section 1.9).
    """

    name = "filter, time reversed"

    def belief(
        self, transition: torch.Tensor, emission: torch.Tensor, observations: torch.Tensor
    ) -> torch.Tensor:
        share = stationary(transition)
        backwards = transition.mT * share[:, None, :] / share[:, :, None]
        return self.filtered(backwards, emission, observations)


class OtherConvention(_Belief):
    """The exact filter under the other convention about a move before the first symbol."""

    def __init__(self, tunnel: HMM):
        super().__init__(tunnel)
        self.name = f"{'no move' if tunnel.transition_first else 'a move'} before the first symbol"

    def belief(
        self, transition: torch.Tensor, emission: torch.Tensor, observations: torch.Tensor
    ) -> torch.Tensor:
        first = not self.tunnel.transition_first
        return forward_filter(transition, emission, observations, first)


class WindowFilter(_Belief):
    """The exact filter on the last `window` symbols alone.

    Where an episode is no older than that, it is the exact filter. Later it begins anew, before
    the oldest symbol of its window: from the stationary distribution, as an episode begins
    ("uniform"), or from where the chain is by then if nothing was seen ("marginal"). With the last it is
    exact: the belief given these symbols, the matrices and the step, so that no other reading of
    the window has a smaller expected log loss.

    Raises:
        ValueError: if the window is empty or the start has no such name.
    """

    def __init__(self, tunnel: HMM, window: int, start: str = "stationary"):
        super().__init__(tunnel)
        if window < 1:
            raise ValueError(f"window is {window}: at least 1, the current symbol")
        if start not in STARTS:
            raise ValueError(f"start is {start!r}: choose one of {', '.join(STARTS)}")
        self.window, self.start = window, start
        self.name = f"last {window} symbols, {start} start"

    def belief(
        self, transition: torch.Tensor, emission: torch.Tensor, observations: torch.Tensor
    ) -> torch.Tensor:
        exact = self.filtered(transition, emission, observations)
        n = observations.shape[1] - self.window  # positions that no longer see the beginning
        if n < 1:
            return exact
        seen = likelihoods(emission, observations)
        if self.start == "marginal":
            prior = BlindChain(self.tunnel).belief(transition, emission, observations)[:, 1 : 1 + n]
        else:
            prior = self.before(transition) if self.start == "uniform" else stationary(transition)[:, None]
        belief = normalised(prior * seen[:, 1 : 1 + n])  # all windows at once, (B, n, S)
        for step in range(2, self.window + 1):
            belief = normalised(transport(belief, transition) * seen[:, step : step + n])
        return torch.cat([exact[:, : self.window], belief], dim=1)


class RelabelledStates(Baseline):
    """The exact answer with its labels shuffled in every episode: right entropy, wrong belief."""

    name = "oracle, labels shuffled"

    def __init__(self, tunnel: HMM, rng: torch.Generator):
        super().__init__(tunnel)
        self.rng = rng

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        exact = self.tunnel.predict(inputs)
        order = torch.rand(len(exact), self.n_outputs, generator=self.rng, device=self.rng.device)
        order = order.argsort(-1).to(exact.device)[:, None].expand_as(exact)
        return exact.gather(-1, order)


class Tempered(Baseline):
    """The exact answer to a power, normalised: right order, too sharp (> 1) or too flat (< 1)."""

    def __init__(self, tunnel: HMM, power: float):
        super().__init__(tunnel)
        if not 0 <= power < math.inf:
            raise ValueError(f"power is {power}: a finite number, 0 or more")
        self.power, self.name = power, f"oracle to the power {power:g}"

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        return _log2_normalised(self.tunnel.predict(inputs) * self.power)


class NoisyLogits(Baseline):
    """The exact answer with independent normal noise of this deviation (nats) on every logit."""

    def __init__(self, tunnel: HMM, sd: float, rng: torch.Generator):
        super().__init__(tunnel)
        if not 0 <= sd < math.inf:
            raise ValueError(f"sd is {sd}: a finite number, 0 or more")
        self.sd, self.rng, self.name = sd, rng, f"oracle, logit noise {sd:g}"

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        exact = self.tunnel.predict(inputs)
        noise = torch.randn(
            exact.shape, generator=self.rng, device=self.rng.device, dtype=torch.float64
        )
        return _log2_normalised(exact + noise.to(exact.device) * (self.sd / math.log(2)))


class LowPrecision(Baseline):
    """The exact answer, its probabilities stored in a smaller floating-point type."""

    def __init__(self, tunnel: HMM, dtype: torch.dtype):
        super().__init__(tunnel)
        self.dtype, self.name = dtype, f"oracle in {str(dtype).removeprefix('torch.')}"

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        return normalised(self.tunnel.posterior(inputs).to(self.dtype).double()).log2()


class RoundedMatrices(_Belief):
    """The exact filter, but on matrices known less well than the truth.

    Args:
        to: "decimals" rounds every entry to so many decimals, what is then 0 counts as `floor`;
            "grid" puts every row on Paper I's grid, none below 0.05.
        least: what the smallest entry of the grid, 0.05, is read as; anything below it may have been raised to it.
        decimals: how many.
    """

    def __init__(self, tunnel: HMM, to: str = "decimals", floor: float = 1e-6, least: float = 0.05, decimals: int = 2):
        super().__init__(tunnel)
        if to not in ("decimals", "grid"):
            raise ValueError(f"to is {to!r}: choose one of decimals, grid")
        self.to, self.floor, self.least, self.decimals = to, floor, least, decimals
        self.name = f"filter, matrices to {decimals} decimals" if to == "decimals" else "filter, matrices on the grid"

    def rounded(self, matrix: torch.Tensor) -> torch.Tensor:
        """The matrix (B, S, V) as this predictor knows it."""
        if self.to == "grid":
            cents = on_grid(matrix.permute(2, 1, 0)).permute(2, 1, 0)
            return normalised(torch.where(cents == MIN_CENTS, 100 * self.least, cents))
        return normalised(matrix.round(decimals=self.decimals).clamp(min=self.floor))

    def belief(
        self, transition: torch.Tensor, emission: torch.Tensor, observations: torch.Tensor
    ) -> torch.Tensor:
        return self.filtered(self.rounded(transition), self.rounded(emission), observations)


def _log2_normalised(logits: torch.Tensor) -> torch.Tensor:
    """Base-2 logits to log2-probabilities over the last axis."""
    return logits - torch.logsumexp(logits * math.log(2), -1, keepdim=True) / math.log(2)


def effective_window(kl: float, window_kl: Mapping[int, float]) -> int | None:
    """How many symbols of memory suffice for a score: the smallest window with at most this KL.

    A bound on what the score shows, not a finding about the predictor: it may remember more and
    spend its error elsewhere.

    Args:
        kl: of the predictor, in bits.
        window_kl: the KL in bits of `WindowFilter(tunnel, w)` on the same episodes, by w.
    Returns:
        the window, or None if every one in `window_kl` is worse.

    >>> effective_window(0.02, {1: 0.3, 2: 0.04, 3: 0.005})
    3
    """
    good = [window for window, predictor in window_kl.items() if predictor <= kl]
    return min(good, default=None)


WINDOWS = (1, 2, 3, 4, 5, 6, 8, 10)


def hmm_predictors(tunnel: HMM, rng: torch.Generator) -> dict[str, Baseline]:
    """Every predictor of this tunnel, by the name that `hmm_baselines` gives it.

    Two know the matrices less well than the header shows them and exist for the raw generator only.
    """
    predictors: dict[str, Baseline] = {
        "uniform": Uniform(tunnel),
        "emission_only": EmissionOnly(tunnel),
        "stationary": StationaryOnly(tunnel),
        "blind_chain": BlindChain(tunnel),
        "stationary_emission": StationaryEmission(tunnel),
        "one_step_prediction": OneStepPrediction(tunnel),
        "stale_belief": StaleBelief(tunnel),
        "no_transport": NoTransport(tunnel),
        "transposed": TransposedFilter(tunnel),
        "relabelled": RelabelledStates(tunnel, rng),
        "other_convention": OtherConvention(tunnel),
    }
    predictors |= {f"window_{w}": WindowFilter(tunnel, w) for w in WINDOWS}
    predictors |= {f"window_{w}_uniform": WindowFilter(tunnel, w, "uniform") for w in WINDOWS}
    predictors |= {f"power_{power:g}": Tempered(tunnel, power) for power in (0.9, 1.1, 2.0)}
    predictors |= {f"noise_{sd:g}": NoisyLogits(tunnel, sd, rng) for sd in (0.001, 0.01, 0.1)}
    predictors |= {"float32": LowPrecision(tunnel, torch.float32), "bfloat16": LowPrecision(tunnel, torch.bfloat16)}
    if tunnel.generator == "raw":
        predictors |= {"two_decimals": RoundedMatrices(tunnel), "gridded": RoundedMatrices(tunnel, "grid")}
    return predictors


def hmm_baselines(
    tunnel: HMM, n_episodes: int, rng: torch.Generator, per_position: bool = False
) -> dict[str, dict]:
    """Scores of every predictor on the same fresh episodes: a Monte-Carlo table.

    Returns:
        {name: {entropy_mae, entropy_mae_se, kl, kl_se, tv, tv_se}}, bits and 0..1. With
        `per_position` also {"per_position": {entropy_mae, kl, tv: lists of length K}}.
    """
    episodes = tunnel.sample(n_episodes, rng)
    result = {}
    for name, predictor in hmm_predictors(tunnel, rng).items():
        score = scoring.score_episodes(predictor, episodes, batch_size=2048)
        measures = ("entropy_mae", "kl", "tv")
        predictor = {key: getattr(score, key) for m in measures for key in (m, f"{m}_se")}
        if per_position:
            predictor["per_position"] = {m: score.per_position[m].tolist() for m in measures}
        result[name] = predictor
    return result


def posterior_constants(episodes: Episodes) -> dict:
    """What the task itself fixes, from its episodes; JSON types, entropies in bits.

    `entropy_by_position` lists the mean entropy of the exact answer at each position, `entropy_sd`
    its spread over all episodes and positions, `p_max_above` how often the likeliest outcome has
    more than that probability. The `_mae` entries are entropy errors of guesses that are no
    distributions: one number for all positions (the best is the median), one a position, and one
    an episode (which needs the oracle).
    """
    entropy = scoring.entropy_bits(episodes.posterior.log2()).numpy()  # (B, K)
    likeliest = episodes.posterior.amax(-1)
    middle, mean = float(np.median(entropy)), float(entropy.mean())
    errors = {
        "best_constant_mae": entropy - middle,
        "mean_constant_mae": entropy - mean,
        "position_median_mae": entropy - np.median(entropy, axis=0),
        "episode_median_mae": entropy - np.median(entropy, axis=1, keepdims=True),
    }
    result = {
        "n_episodes": len(entropy),
        "mean_entropy": mean,
        "mean_entropy_se": standard_error(entropy.mean(1)),
        "entropy_by_position": entropy.mean(0).tolist(),
        "entropy_sd": float(entropy.std()),
        "mean_max": float(likeliest.mean()),
        "p_max_above": {str(p): float((likeliest > p).double().mean()) for p in (0.5, 0.9)},
        "best_constant": middle,
    }
    for name, error in errors.items():  # positions of one episode are not independent
        result |= {name: float(np.abs(error).mean()), f"{name}_se": standard_error(np.abs(error).mean(1))}
    return result
