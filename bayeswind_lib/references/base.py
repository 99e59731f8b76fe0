"""What every reference predictor is: something without training that stands where a network stands.

Axes: B episodes, K scored positions, Y outcomes.
"""

from __future__ import annotations

import torch


class Reference:
    """A predictor for a tunnel, built without training.

    A subclass says in `probabilities` what it predicts from what `tunnel.read(inputs)` gives:
    float64 (B, K, Y), rows sum to 1. Or it defines `predict` itself. `name` is for figures.
    """

    name = "reference"

    def __init__(self, tunnel):
        self.tunnel, self.n_outputs = tunnel, tunnel.interface.n_outputs

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        """Log2-probabilities, float64 (B, K, Y); -inf where an outcome is ruled out."""
        return self.probabilities(*self.tunnel.read(inputs)).log2()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class Uniform(Reference):
    """Every outcome is equally likely, always: what cross-entropy leaves a network that knows nothing.

    Raises:
        ValueError: if the outcomes of the tunnel are real numbers.
    """

    name = "uniform"

    def __init__(self, tunnel):
        super().__init__(tunnel)
        if tunnel.interface.outcome != "categorical":
            raise ValueError(
                f"{tunnel!r} has {tunnel.interface.outcome} outcomes: "
                "only labels can all be equally likely"
            )

    def predict(self, inputs):
        return torch.full_like(self.tunnel.posterior(inputs), 1 / self.n_outputs).log2()
