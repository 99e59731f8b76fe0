"""Two parts of a measurement at a time: the same digits, in order, and what they cost."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from bayeswind_lib.experiments import workers
from bayeswind_lib.training import performance


def product(seed: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(60, 200, generator=draw) @ torch.randn(200, 70, generator=draw)


def test_each_gives_what_a_loop_gives_digit_for_digit():
    with performance.threads(1):
        alone = [product(seed) for seed in range(12)]
    together = workers.each(product, range(12))
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


def test_two_run_at_once_each_on_one_thread():
    meet = threading.Barrier(workers.WORKERS)

    def waits(item: int) -> int:
        meet.wait(20)  # for the other one: breaks if they run one after the other
        return torch.get_num_threads()

    before = torch.get_num_threads()
    assert workers.each(waits, range(2 * workers.WORKERS)) == [1] * 2 * workers.WORKERS
    assert torch.get_num_threads() == before


def test_a_failure_is_not_swallowed():
    with pytest.raises(ZeroDivisionError):
        workers.each(lambda x: 1 / x, [1, 0])


def busy(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_shared_seconds_count_half_on_two_free_cores():
    cost = workers.Cost()
    busy(0.3)
    workers.each(busy, [0.3, 0.3])
    found = cost.so_far()
    assert found["shared_seconds"] == pytest.approx(0.6, abs=0.15) and found["processor_seconds"] == pytest.approx(0.9, abs=0.2)
    assert found["two_core_seconds"] == pytest.approx(found["processor_seconds"] - found["shared_seconds"] / 2, abs=0.11)
    assert found["seconds"] > 0.5
