"""Layers beside changes as long, and exchanges: on networks whose answer is known."""

from __future__ import annotations

import math

from _support import rng
import bayeswind_lib as bw
import numpy as np
import pytest
import torch
from bayeswind_lib import probes
from bayeswind_lib.experiments import ablation
from bayeswind_lib.probes import exchange, fixed, layers


def network(tunnel="bijection", seed=0, **sizes):
    small = {"n_layers": 3, "n_heads": 2, "width": 16, "hidden": 24} | sizes
    recipe = bw.training.recipe(tunnel, "transformer", "classroom", model_config=small)
    model = bw.models.build("transformer", bw.training.loop.model_config(recipe), rng(seed)).eval()
    with torch.no_grad():  # large enough weights that parts matter
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.mul_(8)
    return model, bw.tunnels.build(tunnel, recipe.tunnel_config)


@pytest.fixture
def bench():
    model, tunnel = network()
    return probes.Bench(model, tunnel.sample(12, rng(1)), rng(2))


# ---- layers


def test_a_bypass_is_both_writes_taken_out(bench):
    for layer in range(3):
        with probes.ablate(bench.model, f"layer.{layer}"):
            want = bench.model(bench.episodes.inputs)
        assert torch.allclose(layers.layer_logits(bench, layer, "bypass"), want.detach(), atol=1e-4)


def test_without_a_part_is_the_ablation_of_that_part(bench):
    for way, part in (("without attention", "attention.1"), ("without feed-forward", "feed_forward.1")):
        with probes.ablate(bench.model, part):
            want = bench.model(bench.episodes.inputs).detach()
        assert torch.allclose(layers.layer_logits(bench, 1, way), want, atol=1e-4)


def test_noise_is_as_long_as_the_update_and_has_no_direction():
    x = torch.randn(50, 40, 16, generator=rng())
    noise = layers.noise_like(x, rng(1))
    assert torch.allclose(noise.norm(dim=-1), x.norm(dim=-1), rtol=1e-5)
    assert noise.mean((0, 1)).abs().max() < 0.1 * float(x.norm(dim=-1).mean())


def test_every_episode_gets_the_update_of_another_one(bench):
    for n in (2, 5, 12):
        chosen = layers.another(n, rng(n))
        assert sorted(chosen.tolist()) == list(range(n)) and (chosen != torch.arange(n)).all()


def test_double_and_bypass_are_mirror_images(bench):
    ends = bench.known["residual.3"], bench.known["residual.2"]
    doubled = probes.resume(bench.model, 2 * ends[0] - ends[1], 3)
    assert torch.allclose(layers.layer_logits(bench, 2, "double"), doubled, atol=1e-5)


def test_a_swap_leaves_the_network_as_it_was(bench):
    blocks = list(bench.model.blocks)
    changed = layers.layer_effect(bench, 0, "swap")
    assert list(bench.model.blocks) == blocks and changed.kl != 0


def test_ways_that_do_not_exist_are_refused(bench):
    with pytest.raises(ValueError, match="choose one of bypass"):
        layers.layer_logits(bench, 0, "remove")
    with pytest.raises(ValueError, match="give it rng"):
        layers.layer_logits(bench, 0, "noise")


def test_the_chance_to_be_right_of_the_oracle_and_of_a_wrong_one(bench):
    truth = bench.episodes.posterior
    assert layers.chance_to_be_right(bench, truth) == pytest.approx(float(truth.amax(-1).mean()))
    assert layers.chance_to_be_right(bench, -truth) < 0.1  # ranks first what is ruled out, where something is


# ---- exchanges


def pairs(tunnel="bijection"):
    model, built = network(tunnel)
    own = built.sample(6, rng(1))
    donor = exchange.same_chains(built, own, rng(2)) if tunnel == "hmm" else built.sample(6, rng(2))
    return exchange.Pairs(model, own, donor, 4), built


@pytest.mark.parametrize("tunnel", ["bijection", "hmm"])
def test_nothing_and_everything_are_the_ends(tunnel):
    found, _ = pairs(tunnel)
    empty = np.zeros((1, 16))
    for place in exchange.places(found.model):
        assert found.handed_over(place, empty) == pytest.approx(0, abs=1e-4)
        assert torch.allclose(found.margin(place), found.margin(place, np.eye(16)), atol=1e-4)
        assert torch.allclose(found.margin(place, np.eye(16), rest=True), found.none, atol=1e-4)
    assert found.handed_over(exchange.places(found.model)[-1]) == pytest.approx(1, abs=1e-4)


def test_the_ends_are_the_network_on_either_sequence():
    found, _ = pairs()
    for data, margin in ((found.own, found.none), (found.donor, found.all)):
        answer = found.model.predict(data.inputs)[:, 4]
        own, donor = (bw.scoring.kl_bits(e.posterior[:, 4], answer) for e in (found.own, found.donor))
        assert torch.allclose(margin, own - donor, atol=1e-3)


def test_only_attention_changes_what_a_whole_stream_hands_over():
    found, _ = pairs()
    for layer in range(3):
        assert torch.allclose(found.margin(f"middle.{layer}"), found.margin(f"residual.{layer + 1}"), atol=1e-3)
    assert not torch.allclose(found.margin("residual.1"), found.margin("middle.1"), atol=1e-3)


def test_donors_have_the_same_header_and_other_symbols():
    found, built = pairs("hmm")
    for name in ("transition", "emission"):
        assert torch.equal(found.own.latents[name], found.donor.latents[name])
    head = built.header_length
    assert torch.equal(found.own.inputs[:, :head], found.donor.inputs[:, :head])
    assert not torch.equal(found.own.latents["observations"], found.donor.latents["observations"])


def planted(seed=0):
    """Streams that hold a belief in one direction, and its noisy copy, much longer, in another."""
    made = np.random.default_rng(seed)
    belief = made.random((80, 5, 1))
    belief = np.concatenate([belief, 1 - belief], axis=-1)
    x = np.zeros((80, 5, 4))
    x[..., 0] = 0.01 * belief[..., 0]
    x[..., 1] = 10 * belief[..., 0] + made.normal(size=(80, 5))
    x[..., 2] = 0.1 * made.normal(size=(80, 5))
    return x, belief


def test_a_reader_reads_where_it_is_clean_and_the_pattern_is_where_it_moves():
    x, belief = planted()
    reading, pattern, largest = (exchange.directions(x, belief, kind)[0] for kind in exchange.KINDS)
    fitted = bw.probes.beliefs.fit_reader(*exchange.scaled(x, belief), alpha=1e-12).subspace()[0]
    assert abs(fitted[0]) > 0.99 and abs(pattern[1]) > 0.99 and abs(largest[1]) > 0.99
    assert reading.shape == pattern.shape == (4,) and math.isclose(float(reading @ reading), 1, rel_tol=1e-6)


def test_where_the_stream_is_its_token_the_token_s_pattern_hands_over_what_the_whole_stream_does():
    model = bw.checkpoints.load("hmm-transformer-classroom")
    first = ablation.flow_rows(model, fixed.tunnel_of(model), 64, 3)[0]
    assert first["place"] == "residual.0" and first["whole"] > 0.5
    assert first["token"] == pytest.approx(first["whole"], abs=1e-3) == first["evidence"] and first["random"]["null"] < 0.5 * first["token"]
    assert first["dealt"]["draws"] == 3


def test_tokens_are_one_hot_whatever_a_network_reads():
    for name in ("hmm-transformer-classroom", "bijection-transformer-classroom"):
        model = bw.checkpoints.load(name)
        found = ablation.tokens(model, fixed.stream_episodes(fixed.tunnel_of(model), 6).inputs)
        assert found.shape[:2] == fixed.streams(model, fixed.tunnel_of(model), 6)[1].shape[:2]
        assert (found.sum(-1) == 1).all() and set(np.unique(found)) == {0.0, 1.0}


def test_random_directions_are_orthonormal():
    basis = exchange.random_directions(3, 10, rng())
    assert np.allclose(basis @ basis.T, np.eye(3))


# ---- rules of the record


def test_the_tenfold_length_is_found_between_two():
    row = {"by_length": {"kl": [1e-3 * (2.0 * r) ** 2 for r in layers.LENGTHS]}}
    entry = {"before": {"kl": 1e-4}, "layers": [row]}
    assert layers.tenfold_length(entry, 0) == pytest.approx(0.5)
    assert layers.tenfold_length({"before": {"kl": 1.0}, "layers": [row]}, 0) == math.inf


def test_the_share_of_feed_forward_writes():
    rows = [{"r2": value} for value in (0.0, 0.3, 0.4, 0.6, 0.5)]  # +.3 and +.2 attention, +.1 feed-forward
    assert exchange.feed_forward_share(rows, "r2") == pytest.approx(0.1 / 0.6)
    assert exchange.feed_forward_share(rows[:1], "r2") == 0
