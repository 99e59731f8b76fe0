"""A finished run's episodes can be drawn again, and with them the contexts that it has read."""

import pytest
import torch

import bayeswind_lib as bw
from bayeswind_lib.training import loop, replay


def make(**changes):
    return bw.training.recipe("bijection", "transformer", "smoke", **changes)


CONFIGS = [{"n_values": 4}, {"n_values": 7, "n_pairs": 5}, {"n_values": 20}]


@pytest.mark.parametrize("config", CONFIGS)
def test_replay_draws_what_the_updates_drew(config):
    """By the loop itself: what an update hands to the network is caught there."""
    recipe = make(tunnel_config=config, data_seed=3, batch_size=5, steps=6, warmup_steps=0)
    run, inputs = loop.start(recipe), []

    def forward(given, rng):
        inputs.append(given)
        return run.model(given, rng)

    for _ in range(6):
        loop.update(run, forward)
    K = config.get("n_pairs", config["n_values"])
    last = torch.cat([row[:, 1::2] - config["n_values"] for row in inputs[2:]])  # values shown: all but the last one
    found = replay.values_read(recipe, 2, 6)
    assert found.shape == (4 * 5, K) and torch.equal(found[:, :-1], last)
    assert not torch.equal(replay.values_read(recipe, 1, 5)[:, :-1], last)


def test_sets_read_are_the_contexts_of_the_run():
    recipe = make(steps=3, batch_size=4, tunnel_config={"n_values": 6})
    contexts = set()
    for row in replay.values_read(recipe, 0, 3).tolist():
        contexts |= {sum(1 << v for v in row[:k]) for k in range(6)}
    met = replay.sets_read(recipe, chunk=2)
    assert set(met.nonzero().flatten().tolist()) == contexts
    assert not met[0b111111] and met[0]


def test_fewer_steps_meet_fewer_sets():
    recipe = make(steps=6, tunnel_config={"n_values": 8})
    some, all_ = replay.sets_read(recipe, 2), replay.sets_read(recipe)
    assert 0 < some.sum() < all_.sum() and bool((all_ | ~some).all())


def test_other_tunnels_are_refused():
    with pytest.raises(ValueError, match="distinct keys"):
        replay.sets_read(make(tunnel_config={"n_values": 4, "with_replacement": True}))
