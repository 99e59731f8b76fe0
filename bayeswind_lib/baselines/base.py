"""What every reference predictor is: something without training that stands where a network stands.

Axes: B episodes, K scored positions, Y outcomes.
"""

from __future__ import annotations

import torch

from bayeswind_lib.scoring import Predictor
from bayeswind_lib.tunnels import AnyTunnel


class Baseline:
    """A predictor for a tunnel, built without training.

    A subclass says in `probabilities` what it predicts from what `tunnel.read(inputs)` gives:
    float64 (B, K, Y), rows sum to 1. Or it defines `predict` itself. `name` is for figures.
    """

    name = "reference"

    def __init__(self, tunnel: AnyTunnel):
        self.tunnel, self.n_outputs = tunnel, tunnel.interface.n_outputs

    def probabilities(self, *read: torch.Tensor) -> torch.Tensor:
        """What it predicts from what `tunnel.read(inputs)` gives: float64 (B, K, Y), rows sum to 1."""
        raise NotImplementedError(f"{type(self).__name__} says neither `probabilities` nor `predict`")

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        """Log2-probabilities, float64 (B, K, Y); -inf where an outcome is ruled out."""
        return self.probabilities(*self.tunnel.read(inputs)).log2()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class Uniform(Baseline):
    """Every outcome is equally likely, always: what cross-entropy leaves a network that knows nothing.

    Raises:
        ValueError: if the outcomes of the tunnel are real numbers.
    """

    name = "uniform"

    def __init__(self, tunnel: AnyTunnel):
        super().__init__(tunnel)
        if tunnel.interface.outcome != "categorical":
            raise ValueError(
                f"{tunnel!r} has {tunnel.interface.outcome} outcomes: "
                "only labels can all be equally likely"
            )

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        if hasattr(self.tunnel, "posterior"):  # inputs of any length that the tunnel reads
            return torch.full_like(self.tunnel.posterior(inputs), 1 / self.n_outputs).log2()
        shape = (len(inputs), len(self.tunnel.interface.scored), self.n_outputs)
        return torch.full(shape, 1 / self.n_outputs, dtype=torch.float64, device=inputs.device).log2()


class ByPosition(Baseline):
    """The best that the position alone allows: the mean posterior at each, from sampled episodes.

    Of a Gaussian outcome mean and variance of the mixture. This needs nothing but `sample`.
    """

    name = "position only"

    def __init__(self, tunnel: AnyTunnel, rng: torch.Generator, n_episodes: int = 2000):
        super().__init__(tunnel)
        truth = tunnel.sample(n_episodes, rng).posterior
        self.rows = truth.mean(0)  # (K, Y)
        if tunnel.interface.outcome == "gaussian":
            self.rows[:, 1] += truth[..., 0].var(0, unbiased=False)

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        rows = self.rows if self.tunnel.interface.outcome == "gaussian" else self.rows.log2()
        return rows.to(inputs.device).expand(len(inputs), -1, -1)


class RelabelledOracle(Baseline):
    """The exact posterior with its outcomes renamed: right entropy everywhere, wrong support.

    Args:
        tunnel: whose posterior; any with labels as outcomes.
        shift: outcome y is called y + shift, modulo their number.
    Raises:
        ValueError: for a shift that renames nothing.
    """

    name = "oracle, values renamed"

    def __init__(self, tunnel: AnyTunnel, shift: int = 1):
        super().__init__(tunnel)
        if shift % self.n_outputs == 0:
            raise ValueError(f"shift is {shift}: that renames nothing, choose 1..{self.n_outputs - 1}")
        self.shift = shift

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.tunnel.predict(inputs).roll(self.shift, dims=-1)


def reference_points(tunnel: AnyTunnel, rng: torch.Generator) -> dict[str, Predictor]:
    """Predictors that every tunnel has, by name: "uniform", "position only", "exact".

    "uniform" is left out where outcomes are real numbers, "exact" where the tunnel cannot tell its
    posterior from the inputs alone.
    """
    found: dict = {}
    if tunnel.interface.outcome == "categorical":
        found["uniform"] = Uniform(tunnel)
    found["position only"] = ByPosition(tunnel, rng)
    if hasattr(tunnel, "predict") and hasattr(tunnel, "posterior"):
        found["exact"] = tunnel
    return found
