"""How fast the inner loops are here: samplers, training steps, and how cost grows with size.

Speeds mean something only as ratios on one machine: a sampler beside a plain generator that makes
one episode at a time, a training step beside the matrix product that it could be at best. Other
work on the machine disturbs both, so measurements are repeated in turn and the best counts.

Axes: B episodes an update; sizes as in the tunnels (V values, K positions, d dimensions).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from bayeswind_lib import models, tunnels
from bayeswind_lib.training import loop
from bayeswind_lib.training.environment import describe_environment
from bayeswind_lib.training.precision import best_precision
from bayeswind_lib.training.presets import COMPARED, RATES, recipe, tunnel_config

# The product at the heart of a published transformer's step: 64 episodes of 37 tokens, up-projection.
PRODUCT = (2368, 192, 768)
FLOORS = {
    "bijection_episodes_per_second": 200_000,
    "hmm_episodes_per_second": 70_000,
    "training_over_matmul": 0.6,
}


def seconds(work: Callable[[], object], repeats: int = 1) -> float:
    """Wall-clock seconds of one call, averaged over `repeats` of them."""
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - start) / repeats


@contextlib.contextmanager
def threads(number: int) -> Iterator[None]:
    """Let PyTorch use so many threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# Samplers.


def sampler_rate(tunnel, batch: int = 4096, rounds: int = 8) -> float:
    """Episodes a second with inputs, targets and exact posterior, on one thread."""
    rng = torch.Generator().manual_seed(0)
    with threads(1):
        tunnel.sample(batch, rng)  # the first call allocates
        return batch / min(seconds(lambda: tunnel.sample(batch, rng), 2) for _ in range(rounds))


def plain_bijection(n_values: int, rng: np.random.Generator) -> tuple:
    """One bijection episode with its posterior, as one writes it down without batches."""
    keys, values = rng.permutation(n_values), rng.permutation(n_values)
    tokens = np.stack([keys, values + n_values], axis=1).ravel()[:-1]
    posterior = np.zeros((n_values, n_values))
    for k in range(n_values):
        free = np.setdiff1d(np.arange(n_values), values[:k])
        posterior[k, free] = 1 / len(free)
    return tokens, values, posterior


def plain_hmm(n_states: int, length: int, rng: np.random.Generator) -> tuple:
    """One HMM episode on the grid of 0.01 with its filter, one state at a time."""
    transition, emission = (
        np.stack([_grid_row(rng.dirichlet(np.ones(n_states))) for _ in range(n_states)])
        for _ in range(2)
    )
    state, belief = rng.integers(n_states), np.full(n_states, 1 / n_states)
    symbols, beliefs = [], []
    for t in range(length):
        if t:
            state = rng.choice(n_states, p=transition[state])
            belief = belief @ transition
        symbol = rng.choice(n_states, p=emission[state])
        belief = belief * emission[:, symbol]
        belief = belief / belief.sum()
        symbols.append(symbol)
        beliefs.append(belief)
    return transition, emission, symbols, np.stack(beliefs)


def _grid_row(row: np.ndarray) -> np.ndarray:
    """A row of probabilities on the grid: at least 0.05 each, whole hundredths, sum 1."""
    row = np.maximum(row, 0.05)
    cents = np.maximum(np.round(100 * row / row.sum()), 5).astype(int)
    while cents.sum() != 100:
        cents[cents.argmin() if cents.sum() < 100 else cents.argmax()] += np.sign(100 - cents.sum())
    return cents / 100


def samplers(rounds: int = 8) -> dict:
    """Episodes a second of every tunnel at published size, and over a plain generator's."""
    found: dict = {}
    for name in COMPARED:
        config = tunnel_config(name, "paper")
        batch = 512 if name == "recall" else 4096
        found[name] = {"episodes_per_second": sampler_rate(tunnels.build(name, config), batch, rounds)}
    rng = np.random.default_rng(0)
    plain = {"bijection": lambda: plain_bijection(20, rng), "hmm": lambda: plain_hmm(5, 20, rng)}
    for name, work in plain.items():
        rate = 1 / min(seconds(work, 100) for _ in range(3))
        found[name] |= {"plain": rate, "ratio": found[name]["episodes_per_second"] / rate}
    return found


# Training steps.


def matmul_rate(dtype: torch.dtype = torch.float32, rounds: int = 8) -> float:
    """Operations a second of the `PRODUCT`, with as many threads as PyTorch now uses."""
    rows, inner, columns = PRODUCT
    a, b = torch.randn(rows, inner).to(dtype), torch.randn(inner, columns).to(dtype)
    out = torch.empty(rows, columns, dtype=dtype)
    torch.mm(a, b, out=out)
    best = min(seconds(lambda: torch.mm(a, b, out=out), 10) for _ in range(rounds))
    return 2 * rows * inner * columns / best


def step_operations(run: loop.Run) -> int:
    """Floating-point operations of one update's matrix products.

    Counted while it runs; PyTorch's counter does not see inside an LSTM, whose products are
    added by formula: 16 D^2 a token and layer forward, twice that backward.
    """
    with FlopCounterMode(display=False) as counter:
        loop.update(run, run.model)
    total = counter.get_total_flops()
    if isinstance(run.model, models.LSTM):
        D, L = run.model.config.width, run.model.config.n_layers
        length = loop.draw(run).inputs.shape[1]
        total += 3 * 16 * D * D * L * length * run.recipe.batch_size
    return total


def step_rate(wanted, rounds: int = 6) -> dict:
    """One update of a recipe: its operations, its best seconds, and both over each other."""
    run = loop.start(wanted)
    loop.update(run, run.model)  # the optimisers allocate their state
    operations = step_operations(run)
    best = min(seconds(lambda: loop.update(run, run.model)) for _ in range(rounds))
    return {
        "gflop": operations / 1e9, "seconds": best, "gflops": operations / best / 1e9,
        "parameters": models.count_parameters(run.model),
        "episodes_per_second": wanted.batch_size / best,
    }


def published_step(rounds: int = 6, precision: str = "float32", batch_size: int = 64) -> dict:
    """The published bijection transformer's update beside the product at its heart."""
    wanted = recipe("bijection", "transformer", "paper", precision=precision, batch_size=batch_size)
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    before = matmul_rate(dtype)
    found = step_rate(wanted, rounds)
    machine = max(before, matmul_rate(dtype)) / 1e9
    return found | {"matmul_gflops": machine, "training_over_matmul": found["gflops"] / machine}


def steps(rounds: int = 6) -> dict:
    """Updates of every architecture in every tunnel at classroom size."""
    machine = matmul_rate() / 1e9
    found: dict = {}
    for tunnel in COMPARED:
        found[tunnel] = {}
        for architecture in RATES:
            row = step_rate(recipe(tunnel, architecture, "classroom"), rounds)
            found[tunnel][architecture] = row | {"training_over_matmul": row["gflops"] / machine}
    return found


# How cost grows.

GROWTH = {
    # what grows: (name, how a recipe is made from a size, sizes, expected power at large sizes)
    "V": ("bijection", lambda n: {"tunnel_config": {"n_values": n}}, (10, 20, 40, 80), 1.0),
    "K": ("hmm", lambda n: {"tunnel_config": {"length": n}}, (20, 40, 80, 160), 1.0),
    "d": ("regression", lambda n: {"tunnel_config": {"n_dims": n}}, (2, 8, 32, 128), 0.0),
    "depth": ("bijection", lambda n: {"model_config": {"n_layers": n}}, (2, 4, 8, 16), 1.0),
    "width": (
        "bijection",
        lambda n: {"model_config": {"width": n, "hidden": 4 * n, "n_heads": n // 16}},
        (32, 64, 128, 256), 2.0,
    ),
}


def growth(rounds: int = 4, architecture: str = "transformer") -> dict:
    """Seconds of an update as one size doubles, and the power between the last two sizes."""
    found: dict = {}
    for name, (tunnel, make, sizes, expected) in GROWTH.items():
        rows = [step_rate(recipe(tunnel, architecture, "classroom", **make(n)), rounds) for n in sizes]
        times, operations = [row["seconds"] for row in rows], [row["gflop"] for row in rows]
        found[name] = {
            "sizes": list(sizes), "seconds": times, "gflop": operations, "expected": expected,
            "power": _last_power(sizes, times), "power_operations": _last_power(sizes, operations),
        }
    return found


def _last_power(sizes: tuple, costs: list[float]) -> float:
    """p in cost ~ size^p, from the last two sizes."""
    return math.log(costs[-1] / costs[-2]) / math.log(sizes[-1] / sizes[-2])


def measure_all(rounds: int = 8) -> dict:
    """Everything above, on one thread, with the machine's name and whether the floors are held."""
    with threads(1):
        found = {
            "samplers": samplers(rounds), "published": published_step(rounds),
            "steps": steps(rounds), "growth": growth(rounds), "product": list(PRODUCT),
        }
        if best_precision("cpu") == "bfloat16":
            found["published_bfloat16"] = published_step(rounds, "bfloat16")
        measured = {
            "bijection_episodes_per_second": found["samplers"]["bijection"]["episodes_per_second"],
            "hmm_episodes_per_second": found["samplers"]["hmm"]["episodes_per_second"],
            "training_over_matmul": found["published"]["training_over_matmul"],
        }
        found["floors"] = {
            name: {"floor": floor, "measured": measured[name], "held": measured[name] >= floor}
            for name, floor in FLOORS.items()
        }
        return found | {"seed": 0} | describe_environment(torch.device("cpu"))
