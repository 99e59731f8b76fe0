"""A finished run's episodes can be drawn again, and with them the contexts that it has read."""

import pytest
import torch

import bayeswind_lib as bw
from bayeswind_lib.training import replay
from bayeswind_lib.training.loop import generator


def make(**changes):
    return bw.training.recipe("bijection", "transformer", "smoke", **changes)


CONFIGS = [{"n_values": 4}, {"n_values": 7, "n_pairs": 5}, {"n_values": 20}]


@pytest.mark.parametrize("config", CONFIGS)
def test_replay_draws_what_the_updates_drew(config):
    recipe = make(tunnel_config=config, data_seed=3)
    tunnel = bw.tunnels.Bijection(**config)
    drawn = [tunnel.sample(recipe.batch_size, generator("cpu", 3, step)) for step in range(2, 6)]
    want = torch.cat([episodes.latents["values"] for episodes in drawn])
    assert torch.equal(replay.values_read(recipe, 2, 6), want)


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
