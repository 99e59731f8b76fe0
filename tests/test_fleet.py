"""A fleet is many runs at once: each must be what `train` makes of its recipe."""

from __future__ import annotations

import pytest
import torch
from bayeswind_lib.training import fleet, loop, plans


@pytest.fixture(scope="module")
def recipe():
    return plans.ladder()[0].recipe.but(steps=8, batch_size=8)


def test_each_run_is_what_training_alone_gives(recipe):
    recipes = [
        recipe, recipe.but(frozen=plans.FROZEN["looks"], frozen_from=3),
        recipe.but(frozen=("*.gain",), frozen_from=2),  # what AdamW trains
    ]
    together = fleet.assemble(recipes)
    losses = [fleet.update(together) for _ in range(8)]
    for i, one in enumerate(recipes):
        alone = loop.start(one)
        own = [float(loop.update(alone, alone.model)) for _ in range(8)]
        assert [float(x[i]) for x in losses] == pytest.approx(own, rel=1e-5)
        for name, x in fleet.weights_of(together, i).items():
            assert torch.allclose(x, alone.model.state_dict()[name], atol=1e-5), (i, name)


def test_what_is_frozen_stays_and_without_looks_it_is_uniform(recipe):
    looks = plans.FROZEN["looks"]
    together = fleet.assemble([recipe, recipe.but(frozen=looks), recipe], [0, 0, 1e-7])
    fleet.freeze_at_start(together, 2, looks, 0)
    begun = fleet.weights_of(together, 1)
    for _ in range(8):
        fleet.update(together)
    frozen, uniform = fleet.weights_of(together, 1), fleet.weights_of(together, 2)
    for name, x in frozen.items():
        still = name.endswith(("query.weight", "key.weight"))
        assert torch.equal(x, begun[name]) == still, name
    assert all(not uniform[name].any() for name in uniform if name.endswith(("query.weight", "key.weight")))
    model = together.run.model
    model.load_state_dict(uniform)
    episodes = loop.draw(together.run)
    for pattern in model.attention_patterns(episodes.inputs):
        T = pattern.shape[-1]
        assert torch.allclose(pattern, torch.ones(T, T).tril() / torch.arange(1, T + 1)[:, None], atol=1e-6)


def test_a_held_frame_is_the_frame_of_that_moment_and_the_rest_is_trained(recipe):
    """Against training by hand: patterns of a frozen copy handed to a network through `edit`."""
    from bayeswind_lib.probes import activations, edit

    recipe = recipe.but(steps=6)
    together = fleet.assemble([recipe, recipe, recipe])
    fleet.hold_site(together, 0, "attention.pattern", 3)
    fleet.hold_site(together, 1, "attention.value", 3, ["*.attention.output.weight"])
    for _ in range(6):
        fleet.update(together)
    for i, (site, frozen) in enumerate([("pattern", ()), ("value", ("*.attention.output.weight",)), (None, ())]):
        alone = loop.start(recipe.but(frozen=frozen, frozen_from=3))
        for step in range(6):
            if step == 3:
                copy = loop.start(recipe).model
                copy.load_state_dict(alone.model.state_dict())
            if step < 3 or site is None:
                loop.update(alone, alone.model)
                continue
            given = activations(copy, loop.draw(alone).inputs, [f"{site}.*"])
            with edit(alone.model, {name: (lambda own, x=x: x) for name, x in given.items()}):
                loop.update(alone, alone.model)
        found = fleet.weights_of(together, i)
        for name, x in alone.model.state_dict().items():
            if site and name.endswith(("query.weight", "key.weight", "value.weight")):
                continue  # what nothing depends on any more drifts on by its momentum
            assert torch.allclose(found[name], x, atol=2e-5), (site, name)


def test_a_frame_of_another_network_is_handed_on_from_the_start(recipe):
    from bayeswind_lib.probes import activations, edit

    recipe = recipe.but(steps=4)
    stranger = loop.start(recipe.but(seed=9)).model
    together = fleet.assemble([recipe, recipe])
    fleet.hold_site(together, 1, "attention.pattern", 3, copy={name: p.detach() for name, p in stranger.named_parameters()})
    for _ in range(4):
        fleet.update(together)
    alone, free = loop.start(recipe), loop.start(recipe)
    for _ in range(4):
        given = activations(stranger, loop.draw(alone).inputs, ["pattern.*"])
        with edit(alone.model, {name: (lambda own, x=x: x) for name, x in given.items()}):
            loop.update(alone, alone.model)
        loop.update(free, free.model)
    for i, by_hand in enumerate((free, alone)):
        for name, x in by_hand.model.state_dict().items():
            if not name.endswith(("query.weight", "key.weight")):
                assert torch.allclose(fleet.weights_of(together, i)[name], x, atol=2e-5), (i, name)


def test_a_nudge_is_a_rounding(recipe):
    together = fleet.assemble([recipe, recipe], [0, 1e-7])
    gaps = [(fleet.weights_of(together, 0)[name] - x).abs().max() / x.abs().max() for name, x in fleet.weights_of(together, 1).items()]
    assert 0 < max(map(float, gaps)) < 1e-6


def test_runs_of_a_fleet_differ_only_in_what_is_frozen(recipe):
    with pytest.raises(ValueError, match="only in what is frozen"):
        fleet.assemble([recipe, recipe.but(seed=1)])
    with pytest.raises(ValueError, match="Muon"):
        fleet.assemble([recipe.but(optimiser="adamw")])
    with pytest.raises(ValueError, match="fits|called so"):
        fleet.assemble([recipe.but(frozen=("nothing",))])


def test_the_ladder_has_every_arm_for_every_seed():
    names = [(cell.recipe.schedule, cell.recipe.seed, cell.recipe.frozen, cell.recipe.frozen_from) for cell in plans.ladder()]
    assert len(set(names)) == len(names) == 5 * (1 + 2 * 6) + 5 * (1 + 2 * 2)
