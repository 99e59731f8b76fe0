"""The feedback loop of routing and values, made small enough to be drawn (Paper II; notes A4).

Two queries, two values. Each query wants its own answer, +1 and -1, and pays half the squared
error. By symmetry two numbers are left: d, by how much a query prefers its own value's score, and
v, what its own value holds (the other one holds -v). With f = tanh(d / 2), the difference of the two
attention weights, the answer is f v, and gradient descent in continuous time is

    d' = routing rate x (1 - f^2) v (1 - f v),      v' = value rate x f (1 - f v).

Whoever looks at a value improves it, and what is better is looked at more. At d = v = 0 nothing
moves: a saddle. Attention settles for either of two reasons: the error is gone (f v = 1), or it is
saturated (f^2 near 1).

Axes: N points, S steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bayeswind_lib.figures.portrait import Flow


def velocity(d: np.ndarray, v: np.ndarray, routing: float = 1.0, value: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """(d', v') at preferences d and values v, of any one shape."""
    f = np.tanh(np.asarray(d) / 2)
    error = 1 - f * v
    return routing * (1 - f**2) * v * error, value * f * error


def conserved(d: np.ndarray, v: np.ndarray, routing: float = 1.0, value: float = 1.0) -> np.ndarray:
    """value rate x cosh(d) / 2 - routing rate x v^2 / 2, the same all along a path.

    From d' / v' = routing (1 - f^2) v / (value f) and f / (1 - f^2) = sinh(d) / 2.
    """
    return value * np.cosh(d) / 2 - routing * np.square(v) / 2


def watershed(d: np.ndarray, routing: float = 1.0, value: float = 1.0) -> np.ndarray:
    """The v below which a start at preference d ends with the two values exchanged.

    It is the path into the saddle, v = -sqrt(2 value / routing) sinh(d / 2): the level
    cosh(d) - 1 = 2 sinh(d / 2)^2 of what is conserved.
    """
    return -math.sqrt(2 * value / routing) * np.sinh(np.asarray(d) / 2)


def loss(d: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Half the squared error of one query, (1 - f v)^2 / 2."""
    return (1 - np.tanh(np.asarray(d) / 2) * v) ** 2 / 2


def path(d: float, v: float, *, routing: float = 1.0, value: float = 1.0, until: float = 20.0, steps: int = 400) -> np.ndarray:
    """Times, d and v from a start, by Runge and Kutta's fourth-order rule: float64 (steps + 1, 3).

    Raises:
        ValueError: if `until` or `steps` is not above 0.
    """
    if until <= 0 or steps < 1:
        raise ValueError(f"until is {until} and steps is {steps}: both must be above 0")
    h, here, found = until / steps, np.array([d, v], dtype=float), [(0.0, d, v)]
    def slope(x: np.ndarray) -> np.ndarray:
        return np.array(velocity(*x, routing, value))
    for i in range(steps):
        k1 = slope(here)
        k2 = slope(here + h / 2 * k1)
        k3 = slope(here + h / 2 * k2)
        k4 = slope(here + h * k3)
        here = here + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        found.append(((i + 1) * h, *here))
    return np.array(found)


def flow(
    starts: Sequence[tuple[float, float]], *, routing: float = 1.0, value: float = 1.0, until: float = 30.0, reach: float = 3.0
) -> Flow:
    """Paths from some starts, and the watershed between their two ends.

    Args:
        starts: (d, v): preferences and values.
        routing, value: the two rates.
        until: how long each path runs; see `path`.
        reach: the largest |d| of the watershed.
    Raises:
        ValueError: if there is no start.
    """
    if not starts:
        raise ValueError("starts is empty: give at least one pair of preference and value")
    paths = [path(d, v, routing=routing, value=value, until=until, steps=300) for d, v in starts]
    grid = np.linspace(-reach, reach, 241)
    at_starts = watershed(np.array([d for d, _ in starts], dtype=float), routing, value)
    drift = np.array([np.ptp(conserved(p[:, 1], p[:, 2], routing, value)) for p in paths])
    return Flow(paths, grid, watershed(grid, routing, value), at_starts, drift, reach)
