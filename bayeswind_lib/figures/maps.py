"""Attention patterns as pictures.

Axes: T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayeswind_lib.figures.plot import Plot, draw
from bayeswind_lib.figures.words import array, number, sentence


def attention_map(
    pattern: Sequence[Sequence[float]], tokens: Sequence[str] | None = None, *, title: str = ""
) -> Plot:
    """Which token (row) reads from which earlier token (column), as one head's weights.

    Args:
        pattern: (T, T), rows sum to 1, zero above the diagonal.
        tokens: a name for each position.
        title: above the axes.
    Raises:
        ValueError: if the pattern is not square, its rows do not sum to 1, or names are missing.
    """
    weights = array(pattern)
    size = len(weights)
    if weights.shape != (size, size):
        raise ValueError(f"pattern has shape {weights.shape}: expected (T, T)")
    if not np.allclose(weights.sum(1), 1, atol=1e-4):
        raise ValueError("rows of pattern do not sum to 1: give the weights after the softmax")
    names = [str(t) for t in (range(size) if tokens is None else tokens)]
    if len(names) != size:
        raise ValueError(f"{len(names)} tokens for a pattern of {size}")

    def paint(axes):
        seen = np.ma.masked_where(~np.tri(size, dtype=bool), weights)
        image = axes.imshow(seen, vmin=0, vmax=1, interpolation="nearest")
        step, letters = max(1, -(-size // 26)), 10 if size <= 20 else 9
        axes.set_xticks(range(0, size, step), names[::step], rotation=90, fontsize=letters)
        axes.set_yticks(range(0, size, step), names[::step], fontsize=letters)
        axes.grid(visible=False)
        axes.set(xlabel="token that is read", ylabel="token that reads", title=title)
        axes.figure.colorbar(image, ax=axes, shrink=0.85, label="attention weight")

    column, row = np.meshgrid(np.arange(size), np.arange(size))
    data = {
        "reads": np.array(names)[row.ravel()],
        "is_read": np.array(names)[column.ravel()],
        "weight": weights.ravel(),
    }
    return draw(
        paint, (sentence(title) + " " if title else "") + _words(weights, names), data, height=4.9
    )


def _words(weights: np.ndarray, names: list[str]) -> str:
    size = len(names)
    even = np.tri(size) / np.arange(1, size + 1)[:, None]  # every visible token read alike
    row, column = np.unravel_index(np.argmax(np.abs(weights - even)), weights.shape)
    own = float(np.diag(weights)[1:].mean()) if size > 1 else 1.0
    before = float(np.diag(weights, -1).mean()) if size > 1 else 0.0
    gap, weight = number(abs(weights - even)[row, column]), number(weights[row, column])
    return (
        f"Attention weights of {size} tokens, a row reads from columns, 0 to "
        f"{number(weights.max())}. "
        f"Largest gap to even attention {gap} where {names[row]} (token {row}) reads "
        f"{names[column]} (token {column}) with weight {weight} instead of "
        f"{number(even[row, column])}. Mean weight on the token itself {number(own)}, "
        f"on the token before {number(before)}."
    )
