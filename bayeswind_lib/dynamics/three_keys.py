"""One query, a few keys, values in a plane: the two laws of Paper II at a size that can be drawn.

The query looks at the keys with weights softmax(scores) and returns the mean g of the values. It
wants to be at a target y and pays half the squared distance, |g - y|^2 / 2. So the upstream gradient
is u = g - y: an arrow that is chosen freely chooses the target. A step of gradient descent moves
the scores, the values, or both.

Axes: J keys, 2 coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

MOVES = ("scores", "values", "both")


@dataclass(frozen=True)
class Step:
    """A step, before and after; float64.

    Attributes:
        scores, values: (J,) and (J, 2), before. pattern: (J,) attention. context: (2,).
        error: u, (2,), the gradient at the context. target: (2,).
        compatibility: b_j = u . v_j. baseline: its mean under the attention. advantage: baseline - b_j.
        score_gradient, value_gradient: alpha_j (b_j - baseline), and alpha_j u.
        new_scores, new_values, new_pattern, new_context: after the step.
        loss, new_loss: before and after. predicted: the change of the loss to first order.
    """

    scores: np.ndarray
    values: np.ndarray
    pattern: np.ndarray
    context: np.ndarray
    error: np.ndarray
    target: np.ndarray
    compatibility: np.ndarray
    baseline: float
    advantage: np.ndarray
    score_gradient: np.ndarray
    value_gradient: np.ndarray
    new_scores: np.ndarray
    new_values: np.ndarray
    new_pattern: np.ndarray
    new_context: np.ndarray
    loss: float
    new_loss: float
    predicted: float

    @property
    def actual(self) -> float:
        """The change of the loss that the step made."""
        return self.new_loss - self.loss


def softmax(scores: np.ndarray) -> np.ndarray:
    """Attention weights of scores, (J,) -> (J,)."""
    high = np.exp(scores - np.max(scores))
    return high / high.sum()


def step(scores, values, error, rate: float, moves: str = "both") -> Step:
    """One step of gradient descent.

    Args:
        scores: (J,). values: (J, 2). error: u (2,), the gradient at the context.
        rate: size of the step, 0 or more.
        moves: what takes it: "scores", "values" or "both".
    Raises:
        ValueError: for other moves, a negative rate, or shapes that do not fit.

    >>> now = step([0, 0], [[1, 0], [-1, 0]], [1, 0], rate=0.1, moves="scores")
    >>> now.advantage.tolist(), float(now.new_pattern[1]) > 0.5
    ([-1.0, 1.0], True)
    """
    s, v, u = (np.asarray(x, dtype=float) for x in (scores, values, error))
    if v.shape != (*s.shape, 2) or u.shape != (2,):
        raise ValueError(f"scores, values and error have shapes {s.shape}, {v.shape}, {u.shape}: expected (J,), (J, 2), (2,)")
    if moves not in MOVES:
        raise ValueError(f"moves is {moves!r}: choose one of {', '.join(MOVES)}")
    if rate < 0:
        raise ValueError(f"rate is {rate}: descent needs 0 or more")
    alpha = softmax(s)
    context = alpha @ v
    target = context - u
    b = v @ u
    baseline = float(alpha @ b)
    G, V = alpha * (b - baseline), alpha[:, None] * u
    scored, valued = moves != "values", moves != "scores"
    new_s, new_v = s - rate * scored * G, v - rate * valued * V
    new_alpha = softmax(new_s)
    new_context = new_alpha @ new_v
    predicted = -rate * float(scored * (G**2).sum() + valued * (V**2).sum())
    far = new_context - target
    return Step(
        s, v, alpha, context, u, target, b, baseline, baseline - b, G, V,
        new_s, new_v, new_alpha, new_context, float(u @ u) / 2, float(far @ far) / 2, predicted,
    )
