"""How fast the two inner loops are: `python tests/bench.py` prints JSON.

- Sampler: bijection episodes with their exact posterior a second, V = 20, one thread.
- Training step: the floating-point operations of its matrix products, optimiser included, a second,
  over what this machine's float32 matrix product reaches with as many threads.

Other work on the machine disturbs both, so measurements are repeated in turn and the best counts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

from bayeswind_lib import training, tunnels
from bayeswind_lib.training import loop

FLOORS = {"sampler_episodes_per_second": 200_000, "training_over_matmul": 0.5}


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Wall-clock seconds of one call, averaged over `repeats` of them."""
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - start) / repeats


def sampler_rate(batch: int = 4096, rounds: int = 8) -> float:
    """Episodes a second with inputs, targets and exact posterior, V = K = 20, on one thread."""
    tunnel, rng = tunnels.Bijection(20), torch.Generator().manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        tunnel.sample(batch, rng)  # the first call allocates
        return batch / min(seconds(lambda: tunnel.sample(batch, rng), 2) for _ in range(rounds))
    finally:
        torch.set_num_threads(threads)


def published_run(optimiser: str = "muon", batch_size: int = 64) -> loop.Run:
    """A run of the published network in float32, ready for its first update."""
    recipe = training.recipe(
        "bijection", "transformer", "paper", precision="float32", optimiser=optimiser,
        batch_size=batch_size,
    )
    return loop.start(recipe)


def step_operations(run: loop.Run) -> int:
    """Floating-point operations of one update's matrix products, counted while it runs."""
    with FlopCounterMode(display=False) as counter:
        loop.update(run, run.model)
    return counter.get_total_flops()


def matmul_work(size: int = 1024) -> tuple[Callable[[], object], int]:
    """A large float32 matrix product and its number of operations."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    out = torch.empty(size, size)
    return lambda: torch.mm(a, b, out=out), 2 * size**3


def training_rates(
    rounds: int = 6, optimiser: str = "muon", batch_size: int = 64
) -> dict[str, float]:
    """GFLOP/s of the training step and of a bare matrix product, measured in turn."""
    run = published_run(optimiser, batch_size)
    loop.update(run, run.model)  # the optimisers allocate their state
    operations = step_operations(run)
    product, product_operations = matmul_work()
    product()
    step_times, product_times = [], []
    for _ in range(rounds):
        product_times.append(seconds(product, 10))
        step_times.append(seconds(lambda: loop.update(run, run.model), 1))
    achieved = operations / min(step_times) / 1e9
    machine = product_operations / min(product_times) / 1e9
    return {
        "step_gflop": operations / 1e9,
        "step_seconds": min(step_times),
        "training_gflops": achieved,
        "matmul_gflops": machine,
        "training_over_matmul": achieved / machine,
    }


def main() -> None:
    """Measure both, print JSON, and say whether the floors are held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="repetitions; the best counts")
    parser.add_argument("--threads", type=int, default=1, help="of the training step")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    result = {
        "sampler_episodes_per_second": sampler_rate(rounds=options.rounds),
        **training_rates(options.rounds),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    result["floors"] = {
        name: {"floor": floor, "held": result[name] >= floor} for name, floor in FLOORS.items()
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
