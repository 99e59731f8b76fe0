"""Guards for the two inner loops, with wide margins: other work may run on the same machine.

`python tests/bench.py` measures against the real floors; here a twentieth of the sampler's and a
third of the training step's is asked, which a quadratic sampler or a bfloat16 emulation misses.
"""

from __future__ import annotations

import json

import bench
import pytest
import torch
from _support import ROOT, run_python

import bayeswind_lib as bw


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_sampler_is_fast(report_seconds):
    rate = bench.sampler_rate(batch=4096, rounds=5)
    report_seconds("a million bijection episodes with posterior, V = 20, one thread", 1e6 / rate, 5)
    assert rate > bench.FLOORS["sampler_episodes_per_second"] / 20


def test_the_sampler_returns_what_is_paid_for():
    """The rate counts whole episodes: tokens, targets, and the posterior at every position."""
    seen = []
    real = bw.tunnels.Bijection.sample

    def noted(tunnel, batch, rng):
        seen.append(real(tunnel, batch, rng))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bw.tunnels.Bijection, "sample", noted)
        bench.sampler_rate(batch=64, rounds=1)
    assert {tuple(e.posterior.shape) for e in seen} == {(64, 20, 20)}
    assert {tuple(e.inputs.shape) for e in seen} == {(64, 39)}
    assert not torch.equal(seen[0].inputs, seen[1].inputs)


def operations_by_hand(batch: int, muon: bool) -> int:
    """Multiply-adds of a training step at the published size, times two, from the formulas."""
    L, D, M, V, T, K = 6, 192, 768, 20, 39, 20
    H, C = 6, 32
    maps = L * (4 * D * D + 2 * D * M) * T  # queries, keys, values, output, up, down
    attention = L * H * 2 * T * T * C  # scores and mixture
    readout = K * D * V
    # Forward once, backward twice: with respect to the inputs and to the weights.
    network = 2 * 3 * batch * (maps + attention + readout)
    gram = lambda r, s: 2 * r * r * s + 2 * r**3 + 2 * r * r * s  # noqa: E731
    optimiser = 5 * L * (4 * gram(D, D) + 2 * gram(D, M))
    return network + (optimiser if muon else 0)


@pytest.mark.parametrize("optimiser", ["muon", "adamw"])
def test_operations_are_counted_as_the_formulas_say(optimiser):
    run = bench.published_run(optimiser, batch_size=2)
    assert bench.step_operations(run) == operations_by_hand(2, optimiser == "muon")


def test_forty_gigaflop_is_the_network_alone():
    assert operations_by_hand(64, False) == pytest.approx(41e9, rel=0.05)


def test_a_training_step_uses_the_machine(report_seconds):
    rates = bench.training_rates(rounds=3, batch_size=32)
    label = "a training step of 32 episodes at the published size, one thread"
    report_seconds(label, rates["step_seconds"])
    assert rates["training_over_matmul"] > bench.FLOORS["training_over_matmul"] / 3
    assert rates["training_over_matmul"] < 1.5  # more would mean that the yardstick is broken
    assert rates["training_gflops"] == pytest.approx(rates["step_gflop"] / rates["step_seconds"])


def test_the_script_prints_json():
    done = run_python(ROOT / "tests" / "bench.py", "--rounds", "1")
    assert done.code == 0, done.tail()
    result = json.loads(done.output)
    assert result["sampler_episodes_per_second"] > 0
    assert set(result["floors"]) == set(bench.FLOORS)
    for name, floor in result["floors"].items():
        assert floor["held"] == (result[name] >= floor["floor"])
