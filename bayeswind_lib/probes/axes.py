"""What a direction of the stream is good for: take it out, push as far elsewhere, ask the readout.

That a number can be *read* along a direction does not say that the network reads it there. Three
measurements tell more. What does it cost to hold the coordinate on that axis at its mean, beside a
push as long in a random direction? What does it cost to *erase* the number, so that no linear map
finds it any more? And does the readout see the direction at all, or only feel its length through
the last norm?

Axes: S sequences, K scored positions, D channels, Y outcomes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from bayeswind_lib import scoring
from bayeswind_lib.models.base import as_prediction
from bayeswind_lib.probes.activations import activations, resume
from bayeswind_lib.probes.nulls import Measured
from bayeswind_lib.tunnels import Episodes


@dataclass(frozen=True)
class Reading:
    """A linear reading of one number in points, and what it takes to erase that number.

    Attributes:
        mean: (D,) of the points. weight: (D,), the filter: x -> (x - mean) @ weight reads the number,
            less its mean. pattern: (D,), how the points move when the reading rises by one.
    """

    mean: np.ndarray
    weight: np.ndarray
    pattern: np.ndarray


def fit_reading(points: np.ndarray, numbers: np.ndarray, alpha: float = 1e-6) -> Reading:
    """Least squares for one number, with its filter and its pattern.

    The filter w solves C w = b, with C the covariance of the points and b their covariance with the
    number. The pattern is b / (b . w): what is left after subtracting reading x pattern has
    covariance 0 with the number, so that no linear map reads it (Haufe et al., 2014; Belrose et
    al., 2023).

    Args:
        points: (..., D). numbers: (...), one a point. alpha: ridge, in units of the mean variance.
    Raises:
        ValueError: if the number does not vary.
    """
    flat, h = np.asarray(points, float).reshape(-1, np.shape(points)[-1]), np.asarray(numbers, float).ravel()
    if h.std() < 1e-12:
        raise ValueError("the number does not vary: there is nothing to read")
    mean, centred = flat.mean(0), flat - flat.mean(0)
    covariance, b = centred.T @ centred / len(flat), centred.T @ (h - h.mean()) / len(flat)
    return _reading(mean, covariance, b, alpha)


def _reading(mean: np.ndarray, covariance: np.ndarray, b: np.ndarray, alpha: float) -> Reading:
    size = np.trace(covariance) / len(covariance)
    weight = np.linalg.solve(covariance + alpha * size * np.eye(len(covariance)), b)
    return Reading(mean, weight, b / (b @ weight))


def random_reading(points: np.ndarray, rng: np.random.Generator, alpha: float = 1e-6) -> Reading:
    """A reading of a number drawn at random among all that can be read linearly in the points."""
    flat = np.asarray(points, float).reshape(-1, np.shape(points)[-1])
    covariance = np.cov(flat.T, bias=True)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    return _reading(flat.mean(0), covariance, root @ rng.normal(size=len(root)), alpha)


class AxisBench:
    """Episodes on which directions of the stream that enters one layer are held fixed.

    Changes are made at the scored positions only, where the geometry was measured.

    Args:
        model: a network with blocks. episodes: on which it is scored. layer: 0..L.
    """

    def __init__(self, model: nn.Module, episodes: Episodes, layer: int):
        self.model, self.episodes, self.layer = model, episodes, layer
        self.stream = activations(model, episodes.inputs, f"residual.{layer}")[f"residual.{layer}"]
        self.places = model.scored_positions(self.stream.shape[1])
        self.before = self._measures(self.stream)

    @property
    def points(self) -> np.ndarray:
        """The stream at the scored positions, float64 (S, K, D)."""
        return self.stream[:, self.places].double().numpy()

    def _measures(self, stream: torch.Tensor) -> dict[str, float]:
        logits = resume(self.model, stream, self.layer)
        found = scoring.measure(as_prediction(logits, self.model.config.outcome), self.episodes)
        return {name: float(found[name].mean()) for name in ("kl", "entropy_mae")}

    def cost(self, mean: np.ndarray, read: np.ndarray, write: np.ndarray) -> dict[str, float]:
        """Rise of KL and entropy error (bits) when x becomes x - ((x - mean) . read) write."""
        mean, read, write = (torch.tensor(v, dtype=torch.float64) for v in (mean, read, write))
        stream = self.stream.clone()
        x = stream[:, self.places].double()
        stream[:, self.places] = (x - ((x - mean) @ read)[..., None] * write).to(stream.dtype)
        after = self._measures(stream)
        return {name: after[name] - self.before[name] for name in after}

    def hold(self, axis: np.ndarray, mean: np.ndarray, draws: int, rng: np.random.Generator) -> Measured:
        """Cost in KL of holding the coordinate on a unit axis at its mean, beside pushes as long.

        The null moves every point as far as it was moved, along one random direction a draw.
        """
        value = self.cost(mean, axis, axis)["kl"]
        pushes = [self.cost(mean, axis, unit(rng.normal(size=len(axis))))["kl"] for _ in range(draws)]
        return Measured(value, np.array(pushes), "as long a push in a random direction", "bits")

    def erase(self, reading: Reading, points: np.ndarray, draws: int, rng: np.random.Generator) -> Measured:
        """Cost in KL of erasing a number, beside erasing numbers drawn at random among the readable."""
        value = self.cost(reading.mean, reading.weight, reading.pattern)["kl"]
        others = [random_reading(points, rng) for _ in range(draws)]
        null = [self.cost(other.mean, other.weight, other.pattern)["kl"] for other in others]
        return Measured(value, np.array(null), "another readable number erased", "bits")


def unit(x: np.ndarray) -> np.ndarray:
    """A vector of length 1 in the same direction."""
    return np.asarray(x, float) / np.linalg.norm(x)


def readout(model: nn.Module) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The last norm's gain (D,), and the readout's weights (Y, D) and bias (Y,), float64."""
    first, n = model.config.first_output_token, model.config.n_outputs
    weight = model.head.weight if first is None else model.tokens.weight[first : first + n]
    bias = model.head.bias if first is None else torch.zeros(n)
    return tuple(part.detach().double().numpy() for part in (model.norm.gain, weight, bias))


def visible(model: nn.Module, directions: np.ndarray) -> np.ndarray:
    """How far a unit step moves the logits, less their common shift, before the last norm divides.

    Args:
        directions: (..., D), of length 1.
    Returns:
        (...), length of the change over the Y outcomes; 0 for what no softmax can see.
    """
    gain, weight, _ = readout(model)
    change = (np.asarray(directions) * gain) @ weight.T
    return np.linalg.norm(change - change.mean(-1, keepdims=True), axis=-1)


def two_ways(model: nn.Module, points: np.ndarray, axis: np.ndarray, episodes: Episodes) -> dict:
    """Cost in KL of holding an axis of the last stream at its mean: what is read, and what is length.

    Args:
        points: (S, K, D), the stream that leaves the last layer. axis: (D,), of length 1.
    Returns:
        both: the whole cost. direct: the points are changed and divided by their old length.
        length: the old points divided by the new length. before: the KL with nothing changed.
        by_position: of `both`, a list of K. Bits.
    """
    held = points - ((points - points.mean((0, 1))) @ axis)[..., None] * axis
    gain, weight, bias = readout(model)

    def kl(x: np.ndarray, like: np.ndarray) -> np.ndarray:  # (K,)
        rms = np.sqrt((like**2).mean(-1, keepdims=True) + model.norm.eps)
        logits = torch.tensor((x / rms * gain) @ weight.T + bias)
        return scoring.measure(as_prediction(logits, model.config.outcome), episodes)["kl"].mean(0).numpy()

    before, both = kl(points, points), kl(held, held)
    return {
        "before": float(before.mean()), "both": float((both - before).mean()),
        "direct": float((kl(held, points) - before).mean()),
        "length": float((kl(points, held) - before).mean()), "by_position": (both - before).tolist(),
    }


@dataclass(frozen=True)
class Precision:
    """The two ways in which an answer that is even over a set can be off (bits), and its margins.

    Attributes:
        kl: the whole divergence. leak: the part from probability outside of the set.
        uneven: the part from unequal probabilities inside.
        margin: (K,), mean log-odds (nats) of one possible value against one impossible value.
        entropy: (K,), mean entropy of the answer, bits.
    """

    kl: float
    leak: float
    uneven: float
    margin: np.ndarray
    entropy: np.ndarray


def precision(log2_prob: np.ndarray, posterior: np.ndarray) -> Precision:
    """Split the divergence from a posterior that is even over the values left.

    KL(p || q) = -log2 q(set) + KL(p || q given the set), by the chain rule.

    Args:
        log2_prob, posterior: (S, K, Y).
    """
    possible = posterior > 0
    n, Y = possible.sum(-1), posterior.shape[-1]
    inside = np.where(possible, np.exp2(log2_prob), 0).sum(-1)
    kl = scoring.kl_bits(torch.as_tensor(posterior), torch.as_tensor(log2_prob)).numpy()
    leak = -np.log2(inside)
    nats = math.log(2) * log2_prob
    some = (n < Y) & (n > 0)
    inner = np.where(possible, nats, 0).sum(-1) / n
    outer = np.where(possible, 0, nats).sum(-1) / np.maximum(Y - n, 1)
    margin = np.where(some, inner - outer, np.nan)
    shown = [np.nan if not some[:, k].any() else np.nanmean(margin[:, k]) for k in range(margin.shape[1])]
    entropy = -(np.exp2(log2_prob) * log2_prob).sum(-1).mean(0)
    return Precision(float(kl.mean()), float(leak.mean()), float((kl - leak).mean()), np.array(shown), entropy)
