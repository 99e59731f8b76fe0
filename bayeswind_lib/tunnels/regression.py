"""The regression tunnel: hidden weights, and what y they give at the next x.

Nature draws weights w ~ N(0, I_d). The model reads x_1, y_1, x_2, y_2, ..., x_K with
x ~ N(0, I_d) and y = w.x + N(0, noise^2), and has to say, at every x, how y is distributed.
That is a Gaussian, known in closed form: mean and variance are the tunnel's truth, and its
entropy is differential (bits, may be negative), so compare differences and divergences only.

Axes: B episodes, K scored positions (pairs), d dimensions, T = 2K - 1 input vectors of
F = d + 3 features. An x is written [x, 0, 1, 0], a y [0, y, 0, 1]: the last two say which it is.
The design is this book's own; Paper I (arXiv 2512.22471) names the task but not its sizes.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from bayeswind_lib.tunnels.base import Episodes, Interface

LEAST_NOISE = 1e-3  # inputs are float32: with less noise their rounding would count as well


def posterior(x: torch.Tensor, y: torch.Tensor, noise: float) -> torch.Tensor:
    """Exact mean and variance of y at every x, given all earlier pairs.

    With w integrated out, y_1..y_K are jointly Gaussian with covariance G = X X' + noise^2 I.
    The Cholesky factor of G (G = L L') holds every prediction at once: y = L z with z ~ N(0, I),
    so y_k given the earlier ones has mean sum_{j<k} L_kj z_j and variance L_kk^2. One stable
    factorisation, no loop over k, and a variance that cannot be negative. The textbook form,
    mean m.x and variance noise^2 + x'Sx, is the same (Rasmussen and Williams 2006, section 2.1).

    Args:
        x: float64 (B, K, d).
        y: float64 (B, K); the last column does not matter.
        noise: standard deviation of y around w.x.
    Returns:
        float64 (B, K, 2), mean and variance (the noise included).

    >>> x, y = torch.ones(1, 2, 1).double(), torch.tensor([[2.0, 0.0]]).double()
    >>> posterior(x, y, noise=1.0).round(decimals=9).tolist()
    [[[0.0, 2.0], [1.0, 1.5]]]
    """
    covariance = x @ x.mT  # (B, K, K)
    covariance.diagonal(dim1=-2, dim2=-1).add_(noise**2)
    factor = torch.linalg.cholesky(covariance)  # (B, K, K), lower
    z = torch.linalg.solve_triangular(factor, y[..., None], upper=False)  # (B, K, 1)
    mean = (factor.tril(-1) @ z)[..., 0]
    return torch.stack([mean, factor.diagonal(dim1=-2, dim2=-1) ** 2], dim=-1)


def weight_belief(
    x: torch.Tensor, y: torch.Tensor, noise: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """What is known about the weights after 0, 1, ..., K pairs: a Gaussian.

    The precision (inverse covariance) is I + X'X / noise^2 over the pairs seen, the mean is
    S X'y / noise^2 with S the covariance.

    Args:
        x: float64 (B, K, d). y: float64 (B, K). noise: as in `posterior`.
    Returns:
        mean float64 (B, K+1, d) and covariance float64 (B, K+1, d, d).
    """
    outer = (x[..., :, None] * x[..., None, :]).cumsum(1) / noise**2  # (B, K, d, d)
    precision = F.pad(outer, (0, 0, 0, 0, 1, 0)) + torch.eye(
        x.shape[-1], dtype=x.dtype, device=x.device
    )
    moment = F.pad((x * y[..., None]).cumsum(1) / noise**2, (0, 0, 1, 0))  # (B, K+1, d)
    factor = torch.linalg.cholesky(precision)
    mean = torch.cholesky_solve(moment[..., None], factor)[..., 0]
    return mean, torch.cholesky_inverse(factor)


class Regression:
    """A wind tunnel whose truth is Bayesian linear regression, one pair after another.

    Args:
        n_dims: d >= 1, the length of w and of every x.
        n_pairs: K, how many pairs are asked and scored.
        noise: standard deviation of y around w.x, at least 0.001.
    Raises:
        ValueError: if the setting is impossible.
    """

    name = "regression"
    presets = {
        "smoke": {"n_dims": 1, "n_pairs": 4}, "classroom": {"n_dims": 2, "n_pairs": 10},
        "paper": {"n_dims": 8, "n_pairs": 20},
    }

    def __init__(self, n_dims: int = 8, n_pairs: int = 20, noise: float = 0.5):
        if n_dims < 1:
            raise ValueError(f"n_dims is {n_dims}: x needs at least 1 dimension")
        if n_pairs < 1:
            raise ValueError(f"n_pairs is {n_pairs}: at least 1 pair has to be asked")
        if not LEAST_NOISE <= noise < float("inf"):
            raise ValueError(
                f"noise is {noise}: choose a standard deviation of at least {LEAST_NOISE} "
                "(below that the float32 rounding of the inputs counts as noise too)"
            )
        self.n_dims, self.n_pairs, self.noise = n_dims, n_pairs, float(noise)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self.config.items())
        return f"Regression({settings})"

    @property
    def config(self) -> dict:
        """The arguments that build this tunnel again, as JSON types."""
        return {"n_dims": self.n_dims, "n_pairs": self.n_pairs, "noise": self.noise}

    @property
    def interface(self) -> Interface:
        """The sizes from which a network is built."""
        return Interface(
            n_tokens=0,
            n_features=self.n_dims + 3,
            n_positions=2 * self.n_pairs - 1,
            scored=tuple(range(0, 2 * self.n_pairs - 1, 2)),
            n_outputs=2,
            first_output_token=None,
            outcome="gaussian",
        )

    def sample(
        self, batch: int, rng: torch.Generator, device: torch.device | str | None = None
    ) -> Episodes:
        """Draw independent episodes with their exact posterior.

        Args:
            batch: B >= 1.
            rng: the only source of randomness.
            device: where the episodes shall lie; the generator's own device by default.
        Returns:
            Episodes with float32 inputs (B, 2K-1, d+3), float64 targets (B, K), float64 posterior
            (B, K, 2) and float64 latents `weights` (B, d), `x` (B, K, d), `y` (B, K).
        """
        if batch < 1:
            raise ValueError(f"batch is {batch}: ask for at least 1 episode")
        K, d = self.n_pairs, self.n_dims

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=rng, device=rng.device, dtype=torch.float64)

        weights, x = normal(batch, d), _as_read(normal(batch, K, d))
        y = (x * weights[:, None]).sum(-1) + self.noise * normal(batch, K)
        device = rng.device if device is None else device
        return self.episodes(weights.to(device), x.to(device), y.to(device))

    def episodes(self, weights: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> Episodes:
        """Episodes from chosen weights (B, d), x (B, K, d) and y (B, K), all float64.

        x and y are rounded to float32 first: the truth is that of the numbers the model reads.
        """
        x, y = _as_read(x), _as_read(y)
        truth = posterior(x, y, self.noise)
        latents = {"weights": weights, "x": x, "y": y}
        return Episodes(self._write(x, y[:, :-1]), y, truth, latents, "gaussian")

    def _write(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The vectors that spell x (B, k, d) and y (B, k-1): float32 (B, 2k-1, d+3)."""
        batch, k, d = x.shape
        inputs = torch.zeros(batch, 2 * k - 1, d + 3, device=x.device)
        inputs[:, 0::2, :d], inputs[:, 1::2, d] = x.float(), y.float()
        inputs[:, 0::2, d + 1] = inputs[:, 1::2, d + 2] = 1
        return inputs

    def read(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The numbers that a sequence of vectors spells.

        Args:
            inputs: float32 (B, T, d+3), T odd, as short or as long as you like: x, y, ..., x.
        Returns:
            x (B, k, d) and y (B, k-1), both float64, with k = (T+1)/2.
        Raises:
            ValueError: if the vectors are no such sequence.
        """
        if inputs.dtype != torch.float32:
            raise ValueError(f"inputs have dtype {inputs.dtype}: expected vectors, torch.float32")
        d = self.n_dims
        if inputs.ndim != 3 or inputs.shape[1] % 2 == 0 or inputs.shape[2] != d + 3:
            raise ValueError(
                f"inputs have shape {tuple(inputs.shape)}: expected (B, T, {d + 3}) with T odd "
                "(x, y, ..., x)"
            )
        if not bool(inputs.isfinite().all()):
            raise ValueError("inputs hold a number that is not finite")
        x, y = inputs[:, 0::2, :d], inputs[:, 1::2, d]
        if not torch.equal(self._write(x, y), inputs):
            raise ValueError(
                "inputs are no regression episode: even positions must hold [x, 0, 1, 0], "
                "odd positions [0, y, 0, 1]"
            )
        return x.double(), y.double()

    def posterior(self, inputs: torch.Tensor) -> torch.Tensor:
        """Exact predictive mean and variance at every x: float64 (B, k, 2)."""
        x, y = self.read(inputs)
        return posterior(x, F.pad(y, (0, 1)), self.noise)  # the last y is not in the input

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        """The oracle, called as a network is: mean and variance, float64 (B, k, 2)."""
        return self.posterior(inputs)


def _as_read(numbers: torch.Tensor) -> torch.Tensor:
    """Rounded to float32, as a network reads them, and back to float64."""
    return numbers.float().double()
