"""What a finished run has read: its episodes can be drawn again, from (data_seed, update) alone.

Axes: S updates, B episodes an update, K pairs, V values.
"""

from __future__ import annotations

import torch

from bayeswind_lib.training.loop import generator
from bayeswind_lib.training.recipe import Recipe
from bayeswind_lib.tunnels.bijection import shuffled


def values_read(recipe: Recipe, start: int, stop: int) -> torch.Tensor:
    """The values of all episodes of updates start..stop-1, in the order in which they were shown.

    The same numbers as `Bijection.sample` draws in each update, but shuffled all together.

    Returns:
        int64 ((stop - start) * B, K).
    Raises:
        ValueError: if the run did not ask distinct keys of a bijection.
    """
    n_values, n_pairs = _sizes(recipe)
    draws = []
    for step in range(start, stop):
        rng = generator("cpu", recipe.data_seed, step)
        for _ in ("keys", "values"):  # the keys are drawn first
            latest = torch.rand(n_pairs, recipe.batch_size, generator=rng, dtype=torch.float64)
        draws.append(latest)
    return shuffled(torch.cat(draws, dim=1), n_values)


def set_numbers(values: torch.Tensor) -> torch.Tensor:
    """The set of values shown before each key, as a number whose binary digits say which.

    Args:
        values: int64 (B, K).
    Returns:
        int64 (B, K); bit v is 1 if value v was shown before.

    >>> set_numbers(torch.tensor([[2, 0, 1]])).tolist()
    [[0, 4, 5]]
    """
    bits = 1 << values
    return bits.cumsum(1) - bits


def sets_read(recipe: Recipe, steps: int | None = None, chunk: int = 1000) -> torch.Tensor:
    """Which sets of used values a run has met as a context: bool (2^V,), by `set_numbers`."""
    steps = recipe.steps if steps is None else steps
    met = torch.zeros(2 ** _sizes(recipe)[0], dtype=torch.bool)
    for start in range(0, steps, chunk):
        values = values_read(recipe, start, min(start + chunk, steps))
        met[set_numbers(values).flatten()] = True
    return met


def _sizes(recipe: Recipe) -> tuple[int, int]:
    config = recipe.tunnel_config
    if recipe.tunnel != "bijection" or config.get("with_replacement"):
        raise ValueError(
            f"the run is in the tunnel {recipe.tunnel} with {config}: "
            "only runs in the bijection tunnel with distinct keys can be replayed here"
        )
    return config["n_values"], config.get("n_pairs") or config["n_values"]
