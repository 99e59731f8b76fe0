"""What every wind tunnel hands out: episodes, and the sizes that a network must know.

Outcomes are of one of two kinds. *Categorical*: one of Y labels, the truth is a row of Y
probabilities. *Gaussian*: a real number, the truth is a mean and a variance.

Axes: B episodes, K scored positions, T tokens, F features, Y outcomes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Protocol

import torch

OUTCOMES = ("categorical", "gaussian")


@dataclass(frozen=True)
class Episodes:
    """A batch of problems together with the truth about each of them.

    Attributes:
        inputs: what a model reads: int64 (B, T) tokens or float32 (B, T, F) features.
        targets: what happened: int64 (B, K) labels, or float64 (B, K) real numbers.
        posterior: the exact predictive distribution: float64 (B, K, Y), rows sum to 1; or
            float64 (B, K, 2), mean and variance.
        latents: what nature drew, by name; every tensor starts with the axis B.
        outcome: "categorical" or "gaussian".
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    posterior: torch.Tensor
    latents: dict[str, torch.Tensor] = field(default_factory=dict)
    outcome: str = "categorical"

    def __len__(self) -> int:
        return self.inputs.shape[0]

    def __getitem__(self, index: slice | torch.Tensor) -> Episodes:
        """The chosen episodes (a slice, a mask or a list of row numbers)."""
        return self._map(lambda tensor: tensor[index])

    def to(self, device: torch.device | str) -> Episodes:
        """The same episodes with every tensor on `device`; a CUDA GPU takes them when it comes to them, and nobody waits."""
        if torch.device(device).type != "cuda":
            return self._map(lambda tensor: tensor.to(device))
        return self._map(lambda tensor: (tensor if tensor.is_cuda else tensor.pin_memory()).to(device, non_blocking=True))

    def _map(self, change) -> Episodes:
        latents = {name: change(tensor) for name, tensor in self.latents.items()}
        truth = change(self.posterior)
        return Episodes(change(self.inputs), change(self.targets), truth, latents, self.outcome)


@dataclass(frozen=True)
class Interface:
    """The sizes of a tunnel that a network is built from; it tells nothing about the task.

    Attributes:
        n_tokens: size of the input vocabulary (0 if the inputs are features).
        n_features: width of an input vector (0 if the inputs are tokens).
        n_positions: T, the longest input.
        scored: the K input positions at which a prediction is read out.
        n_outputs: Y, the number of outcomes; 2 for a Gaussian (mean, log variance).
        first_output_token: the token that stands for outcome 0 (outcome y is token
            `first_output_token + y`), or None if outcomes are no tokens.
        outcome: "categorical" or "gaussian".
    """

    n_tokens: int
    n_features: int
    n_positions: int
    scored: tuple[int, ...]
    n_outputs: int
    first_output_token: int | None
    outcome: str = "categorical"

    def to_dict(self) -> dict:
        """Plain JSON types, for a record."""
        return asdict(self) | {"scored": list(self.scored)}


class AnyTunnel(Protocol):
    """What everything that takes a tunnel asks of it: the class need not be one of the book's own."""

    @property
    def interface(self) -> Interface:
        """The sizes that a network is built from."""

    @property
    def config(self) -> dict:
        """The arguments that build the tunnel again, JSON types."""

    def sample(self, batch: int, rng: torch.Generator, device: torch.device | str | None = None) -> Episodes:
        """Fresh episodes; `rng` is the only source of randomness."""


class Tunnel:
    """What follows from the rest of a tunnel: a base for tunnels written as a dataclass.

    The subclass has `interface` and `sample`, and where the truth can be had from the inputs alone
    `posterior(inputs)`: float64 (B, K, Y), or (B, K, 2) for a Gaussian outcome.
    """

    presets: dict[str, dict] = {}
    supervision = "sampled"
    variants: dict[str, dict] = {}

    @property
    def config(self) -> dict:
        """The arguments that build this tunnel again: the dataclass's fields."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    def episodes(self, symbols: torch.Tensor, latents: dict | None = None) -> Episodes:
        """Episodes of which every symbol but the first is predicted from those before: int64 (B, K + 1)."""
        inputs = symbols[:, :-1].contiguous()
        return Episodes(inputs, symbols[:, 1:].contiguous(), self.posterior(inputs), latents or {})

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        """The oracle, called as a network is: log2-probabilities (B, K, Y), or mean and variance (B, K, 2)."""
        truth = self.posterior(inputs)
        return truth.log2() if self.interface.outcome == "categorical" else truth


def sequence(n_symbols: int, length: int) -> Interface:
    """The interface of a task that reads `length` symbols and predicts the next one after each.

    >>> sequence(4, 3).scored
    (0, 1, 2)
    """
    return Interface(n_symbols, 0, length, tuple(range(length)), n_symbols, 0)
