"""Standard errors against what they promise: how far a mean scatters when the whole measurement is repeated.

Every one is computed from one sample, here for 400 samples, and compared with the standard deviation of the
400 means, which knows no formula. The samples are skewed, as divergences are.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bayeswind_lib.baselines import hmm
from bayeswind_lib.dynamics import race
from bayeswind_lib.experiments import races, sampling
from bayeswind_lib.ledger import trained
from bayeswind_lib.probes.ablation import Bench

REPEATS = 400
MEASURES = ("kl", "entropy_mae", "tv")


def bench(n: int, draw: np.random.Generator) -> list[tuple[float, float]]:
    """Of an ablation: n episodes of three positions, which share their episode's level."""
    cost = draw.exponential(size=(n, 1)) + 0.1 * draw.normal(size=(n, 3))
    some = object.__new__(Bench)
    some.positions, some.before = slice(None), {name: torch.zeros(n, 3) for name in MEASURES}
    some.measures = lambda logits: dict.fromkeys(MEASURES, logits)
    effect = some.compare(torch.tensor(cost), "layer.0", "zero")
    return [(getattr(effect, name), getattr(effect, f"{name}_se")) for name in MEASURES]


def raced(n: int, draw: np.random.Generator) -> list[tuple[float, float]]:
    """Of a race: n seeds at the one rate of a family."""
    values = draw.exponential(size=n)
    seeds = {str(seed): {"at_best": dict.fromkeys(race.MEASURES, float(x)) | {"step": 0}} for seed, x in enumerate(values)}
    found = races.best({"0.1": seeds}, list(seeds))["held_out"]
    return [(found["mean"], found["se"])]


def of_claims(n: int, draw: np.random.Generator) -> list[tuple[float, float]]:
    """Of races again: the gap that the ledger reads, over pairs of seeds."""
    arms = {name: {str(seed): {"steps_to_level": 500.0, "steps_to_own": 500.0, "final": float(x)} for seed, x in enumerate(draw.exponential(size=n))}
            for name in (races.PLAIN, races.VALUES)}
    found = races._claims_of(arms, races.PLAIN, races.VALUES)
    return [(found["gap"], found["gap_se"])]


def seeds(n: int, draw: np.random.Generator) -> list[tuple[float, float]]:
    """Of a network's score over training seeds."""
    rows = [{"kl": float(x), "kl_se": 1.0} for x in draw.exponential(size=n)]
    return [trained.mean_over_seeds(rows, "kl")[:2]]


def sampled(n: int, draw: np.random.Generator) -> list[tuple[float, float]]:
    """Of a sampled reference point: n episodes of three positions."""
    found = sampling.with_error("x", torch.tensor(draw.exponential(size=(n, 1)) + 0.1 * draw.normal(size=(n, 3))))
    return [(found["x"], found["x_se"])]


def constants(n: int, draw: np.random.Generator) -> list[tuple[float, float]]:
    """Of what an HMM task fixes: n episodes of three posteriors over two states, which share their episode's belief."""
    p = torch.tensor(np.clip(draw.beta(1, 3, size=(n, 1)) + 0.01 * draw.normal(size=(n, 3)), 1e-3, 1 - 1e-3))
    found = hmm.posterior_constants(SimpleNamespace(posterior=torch.stack([p, 1 - p], -1)))
    return [(found["mean_entropy"], found["mean_entropy_se"])]


@pytest.mark.parametrize(("measure", "n"), [(bench, 48), (raced, 12), (of_claims, 12), (seeds, 12), (sampled, 48), (constants, 48)])
def test_a_standard_error_is_the_scatter_of_repeated_measurements(measure, n):
    draw = np.random.default_rng(5)
    found = np.array([measure(n, draw) for _ in range(REPEATS)])  # (repeats, measures, 2)
    scatter, promised = found[..., 0].std(0, ddof=1), np.sqrt((found[..., 1] ** 2).mean(0))
    # The scatter of 400 means is known to 1 / sqrt(800), 4 %, and skewness adds a little.
    np.testing.assert_allclose(promised, scatter, rtol=5 / math.sqrt(2 * REPEATS))
