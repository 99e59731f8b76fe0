"""One recipe is one stream of episodes: the same on every device, and apart from all other randomness."""

from __future__ import annotations

import pytest
import torch

import bayeswind_lib as bw
from bayeswind_lib import training
from bayeswind_lib.training import loop, replay

ELSEWHERE = torch.device("meta")  # a device of which any machine has one


def smoke(**changes) -> training.Recipe:
    return training.recipe("bijection", "transformer", "smoke", **changes)


@pytest.fixture
def sent(monkeypatch):
    """What is sent to a device, as it was before."""
    seen = []
    send = bw.tunnels.Episodes.to
    monkeypatch.setattr(bw.tunnels.Episodes, "to", lambda self, device: seen.append(self) or send(self, device))
    return seen


@pytest.mark.parametrize("tunnel", ["bijection", "hmm", "recall", "regression"])
def test_another_device_is_sent_the_same_episodes(tunnel, sent):
    recipe = training.recipe(tunnel, "transformer", "smoke", data_seed=4)
    here, there = loop.start(recipe), loop.start(recipe)
    there.device = ELSEWHERE
    for step in range(3):
        here.step = there.step = step
        wanted = loop.draw(here)
        assert loop.draw(there).inputs.device == ELSEWHERE
        assert torch.equal(sent[-1].inputs, wanted.inputs) and torch.equal(sent[-1].targets, wanted.targets)


def test_a_pools_rows_are_the_same_on_another_device(monkeypatch):
    run = loop.start(smoke(pool=5))
    drawn = []
    make = loop.generator
    monkeypatch.setattr(loop, "generator", lambda device, *seeds: drawn.append(str(device)) or make(device, *seeds))
    run.device = ELSEWHERE
    run.pool = run.pool.to(ELSEWHERE)
    loop.draw(run)
    assert drawn == ["cpu"]


def test_a_replay_is_what_the_updates_drew():
    recipe = smoke(data_seed=3, tunnel_config={"n_values": 7, "n_pairs": 5})
    run, values = loop.start(recipe), []
    for run.step in range(2, 6):
        values.append(loop.draw(run).latents["values"])
    assert torch.equal(replay.values_read(recipe, 2, 6), torch.cat(values))


def test_what_a_network_randomises_is_another_stream_than_the_episodes():
    """The generator that the network is given never draws what drew an update's episodes."""
    run, states = loop.start(smoke(steps=5)), []

    def forward(inputs, rng):
        states.append(rng.get_state())
        return run.model(inputs, rng)

    for _ in range(5):
        loop.update(run, forward)
    of_data = [loop.generator("cpu", 0, step).get_state() for step in range(5)]
    every = [bytes(state.tolist()) for state in states + of_data]
    assert len(set(every)) == 10


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_reads_the_episodes_of_the_cpu():
    recipe = smoke(data_seed=4)
    here, there = loop.start(recipe), loop.start(recipe, "cuda")
    assert torch.equal(loop.draw(here).inputs, loop.draw(there).inputs.cpu())
