"""Guards for the inner loops, with wide margins: other work may run on the same machine.

`make bench` measures against the real floors; here a twentieth of a sampler's and a third of the
training step's is asked, which a quadratic sampler or a bfloat16 emulation misses.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from _support import ROOT, run_python

import bayeswind_lib as bw
from bayeswind_lib.training import loop, performance, recipe


@pytest.fixture(autouse=True)
def one_thread():
    with performance.threads(1):
        yield


@pytest.mark.parametrize(
    ("tunnel", "floor"),
    [(bw.tunnels.Bijection(20), "bijection_episodes_per_second"), (bw.tunnels.HMM(), "hmm_episodes_per_second")],
)
def test_the_samplers_are_fast(tunnel, floor, report_seconds):
    rate = performance.sampler_rate(tunnel, rounds=5)
    report_seconds(f"a million {tunnel.name} episodes with posterior, one thread", 1e6 / rate, 14)
    assert rate > performance.FLOORS[floor] / 20


def test_the_sampler_returns_what_is_paid_for():
    """The rate counts whole episodes: tokens, targets, and the posterior at every position."""
    seen = []
    real = bw.tunnels.Bijection.sample

    def noted(tunnel, batch, rng):
        seen.append(real(tunnel, batch, rng))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bw.tunnels.Bijection, "sample", noted)
        performance.sampler_rate(bw.tunnels.Bijection(20), batch=64, rounds=1)
    assert {tuple(e.posterior.shape) for e in seen} == {(64, 20, 20)}
    assert {tuple(e.inputs.shape) for e in seen} == {(64, 39)}
    assert not torch.equal(seen[0].inputs, seen[1].inputs)


def test_the_plain_generators_make_the_same_kind_of_episode():
    """Otherwise the ratio would compare two tasks."""
    rng = np.random.default_rng(0)
    tokens, _, posterior = performance.plain_bijection(6, rng)
    exact = bw.tunnels.Bijection(6).posterior(torch.tensor(tokens)[None])
    assert np.allclose(posterior, exact[0].numpy())
    transition, emission, symbols, beliefs = performance.plain_hmm(3, 7, rng)
    assert np.allclose(100 * transition, np.round(100 * transition))
    given = [torch.tensor(np.array(part))[None] for part in (transition, emission, symbols)]
    exact = bw.tunnels.hmm.forward_filter(*given)
    assert np.allclose(beliefs, exact[0].numpy())


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
    wanted = recipe(
        "bijection", "transformer", "paper", precision="float32", optimiser=optimiser, batch_size=2
    )
    counted = performance.step_operations(loop.start(wanted))
    assert counted == operations_by_hand(2, optimiser == "muon")


def test_an_lstms_operations_are_not_forgotten():
    """One layer of D units reads D channels: 2 x 4 x 2 D^2 a token forward, three times that in all."""
    wanted = recipe("bijection", "lstm", "classroom", batch_size=2)
    counted = performance.step_operations(loop.start(wanted))
    recurrent = 3 * 16 * 136**2 * 19 * 2
    readout = 3 * 2 * 136 * 10 * 10 * 2
    assert counted == recurrent + readout


def test_forty_gigaflop_is_the_network_alone():
    assert operations_by_hand(64, False) == pytest.approx(41e9, rel=0.05)


def test_a_training_step_uses_the_machine(report_seconds):
    rates = performance.published_step(rounds=3, batch_size=32)
    report_seconds("a training step of 32 episodes at the published size, one thread", rates["seconds"])
    assert rates["training_over_matmul"] > performance.FLOORS["training_over_matmul"] / 3
    assert rates["training_over_matmul"] < 1.5  # more would mean that the yardstick is broken
    assert rates["gflops"] == pytest.approx(rates["gflop"] / rates["seconds"])


@pytest.mark.parametrize("name", sorted(performance.GROWTH))
def test_operations_grow_with_the_expected_power(name):
    """Counted operations: what is linear or quadratic in a size is so at the sizes measured."""
    tunnel, make, sizes, expected = performance.GROWTH[name]
    counts = [
        performance.step_operations(
            loop.start(recipe(tunnel, "transformer", "classroom", optimiser="adamw", batch_size=2, **make(n)))
        )
        for n in sizes[-2:]
    ]
    power = np.log(counts[1] / counts[0]) / np.log(sizes[-1] / sizes[-2])
    assert expected - 0.25 < power < expected + 0.45


def test_the_command_prints_json(monkeypatch, capsys):
    from bayeswind_lib import __main__ as cli

    monkeypatch.setattr(performance, "measure_all", lambda rounds: {"rounds": rounds})
    cli.bench(rounds=3)
    assert json.loads(capsys.readouterr().out) == {"rounds": 3}
    assert "--rounds" in run_python("-m", "bayeswind_lib", "bench", "--help").output


def test_the_page_s_record_is_whole_and_of_an_idle_clean_tree():
    """Every measure of the command is in the stored record, and its aims were held when it was made."""
    record = bw.ledger.record("performance")
    assert set(record["samplers"]) == {"bijection", "hmm", "regression", "recall"}
    assert {(t, a) for t in record["steps"] for a in record["steps"][t]} == {
        (t, a) for t in record["samplers"] for a in ("transformer", "mamba", "lstm", "mlp")
    }
    assert set(record["growth"]) == set(performance.GROWTH)
    assert {k: v["floor"] for k, v in record["floors"].items()} == performance.FLOORS
    assert all(row["held"] == (row["measured"] >= row["floor"]) for row in record["floors"].values())
    assert all(row["held"] for row in record["floors"].values())
    assert not record["commit"].endswith("-dirty") and record["threads"] == 1
    text = (ROOT / "book" / "performance.md").read_text()
    assert all(f'"{name}"' in text or f'record["{name}"]' in text for name in record["floors"])
