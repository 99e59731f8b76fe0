"""Position codes and switched attention: what each code lets a transformer tell apart.

Every code is probed on a network with large random weights, so that a property either holds
for all inputs or fails visibly.
"""

from __future__ import annotations

import math

import pytest
import torch

from _support import rng
import bayeswind_lib as bw
from bayeswind_lib import models
from bayeswind_lib.models.positions import POSITIONS, TABLES, rotate, sinusoids

T, F = 9, 5
SIZES = {"n_layers": 2, "n_heads": 2, "width": 16, "hidden": 24}
ENDS = {"n_features": F, "n_positions": 40, "scored": tuple(range(3, T)), "n_outputs": 4}


def lively(seed: int = 0, **options) -> models.Transformer:
    """A network whose attention is far from uniform, with some of the options."""
    model = models.build("transformer", ENDS | SIZES | options, rng(seed))
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=rng(100 * seed + i)))
    return model.eval()


def vectors(length: int = T, batch: int = 3, seed: int = 7) -> torch.Tensor:
    return torch.randn(batch, length, F, generator=rng(seed))


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("attention", ["softmax", "uniform"])
def test_formula_and_count_agree_for_every_option(positions, attention):
    for off in ((), (1,)):
        model = lively(positions=positions, attention=attention, without_attention=off)
        assert models.count_parameters(model) == model.config.n_parameters


@pytest.mark.parametrize("positions", [p for p in POSITIONS if p != "none"])
def test_order_matters_to_one_layer_with_a_code(positions):
    model, x = lively(positions=positions, n_layers=1), vectors()
    swapped = x[:, [1, 0, *range(2, T)]]
    assert (model(x) - model(swapped))[:, -1].abs().max() > 1e-3


def test_order_is_invisible_to_one_layer_without_a_code():
    """One causal layer without positions reads a set; a second one can count what the first saw."""
    x = vectors()
    swapped = x[:, [1, 0, *range(2, T)]]
    one, two = lively(positions="none", n_layers=1), lively(positions="none")
    assert torch.allclose(one(x), one(swapped), atol=1e-5)
    assert (two(x) - two(swapped)).abs().max() > 1e-3


def test_rotary_scores_depend_on_distances_only():
    attention = lively(positions="rotary").blocks[0].attention
    x = vectors(1, 1).expand(1, 12, F)  # the same vector everywhere
    scores = attention.scores(lively(positions="rotary").embed(x))[0, 0]
    for distance in range(4):
        diagonal = scores.diagonal(-distance)
        assert torch.allclose(diagonal, diagonal[0].expand_as(diagonal), atol=1e-4)
    assert (scores[5, 5] - scores[5, 2]).abs() > 1e-3
    assert not torch.allclose(lively().blocks[0].attention.scores(x @ torch.randn(F, 16, generator=rng()))[0, 0, 5, 5], scores[5, 2])


def test_rotation_keeps_lengths_and_leaves_the_first_place():
    x = torch.randn(2, 3, 8, 6, generator=rng())
    turned = rotate(x)
    assert torch.allclose(turned.norm(dim=-1), x.norm(dim=-1), atol=1e-5)
    assert torch.allclose(turned[..., 0, :], x[..., 0, :])
    assert (turned[..., 3, :] - x[..., 3, :]).abs().max() > 0.1


def test_sinusoids_are_the_published_ones():
    table = sinusoids(50, 16)
    for place, channel in ((0, 0), (7, 3), (49, 5)):
        angle = place / 10_000 ** (2 * channel / 16)
        assert table[place, 2 * channel].item() == pytest.approx(math.sin(angle), abs=1e-5)
        assert table[place, 2 * channel + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)


def test_random_offset_and_subset_train_every_position():
    offset = lively(positions="random_offset")
    draws = [offset.position_numbers(T, rng(i)) for i in range(400)]
    assert all((d.diff() == 1).all() for d in draws)
    assert {int(d[0]) for d in draws} == set(range(40 - T + 1))
    subset = lively(positions="random_subset")
    draws = [subset.position_numbers(T, rng(i)) for i in range(400)]
    assert all((d.diff() > 0).all() for d in draws)
    assert set(torch.cat(draws).tolist()) == set(range(40))
    assert offset.position_numbers(4).tolist() == [0, 1, 2, 3]
    assert subset.position_numbers(4).tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("positions", POSITIONS)
def test_randomness_is_an_argument(positions):
    model, x = lively(positions=positions), vectors()
    torch.manual_seed(0)
    first = model(x)
    torch.manual_seed(1)
    assert torch.equal(model(x), first)
    assert torch.equal(model(x, rng(3)), model(x, rng(3)))
    differs = any((model(x, rng(i)) - first).abs().max() > 1e-4 for i in range(3))
    assert differs == positions.startswith("random")


@pytest.mark.parametrize("positions", POSITIONS)
def test_readouts_go_on_beyond_the_trained_length(positions):
    model = lively(positions=positions, n_positions=40)
    length = 19 if positions in TABLES else 60
    assert model(vectors(length)).shape[1] == length - 3
    if positions in TABLES:
        too_long = 41 if positions != "random_subset" else 21
        with pytest.raises(ValueError, match=f"have {too_long} tokens.*only 40"):
            model(vectors(too_long))


def test_readouts_go_on_with_the_spacing_of_the_last_two():
    model = lively(scored=(1, 3, 5), n_positions=40)
    assert model.scored_positions(12).tolist() == [1, 3, 5, 7, 9, 11]
    assert model.scored_positions(4).tolist() == [1, 3]
    assert lively(scored=(2,)).scored_positions(20).tolist() == [2]


# Attention switched off.


def test_uniform_attention_averages_all_so_far():
    model, x = lively(attention="uniform"), vectors()
    for pattern in model.attention_patterns(x):
        expected = torch.ones(T, T).tril() / torch.arange(1, T + 1)[:, None]
        assert torch.allclose(pattern, expected.expand_as(pattern), atol=1e-6)
    assert not any("query" in name or "key" in name for name, _ in model.named_parameters())


def test_a_layer_without_attention_keeps_positions_apart():
    """With attention off everywhere, each position is a function of its own input."""
    for model in (
        lively(without_attention=(0, 1)),
        lively().switch_attention(0, False).switch_attention(1, False),
    ):
        x = vectors()
        changed = x.clone()
        changed[:, 4] += 1.0
        same = torch.tensor([3, 5, 6, 7, 8]) - 3
        assert torch.equal(model(x)[:, same], model(changed)[:, same])
        assert (model(x)[:, 1] - model(changed)[:, 1]).abs().max() > 1e-3


def test_switching_off_is_the_same_before_and_after_training():
    """A network built without a layer's attention equals one that has it switched off."""
    full, x = lively(), vectors()
    built = models.build("transformer", ENDS | SIZES | {"without_attention": (1,)})
    kept = built.state_dict().keys()
    built.load_state_dict({k: v for k, v in full.state_dict().items() if k in kept})
    before = full(x)
    assert torch.equal(full.switch_attention(1, False)(x), built.eval()(x))
    assert len(full.attention_patterns(x)) == 1
    assert torch.equal(full.switch_attention(1, True)(x), before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"positions": "alphabetical"}, "'alphabetical'.*learned"),
        ({"attention": "divided"}, "'divided'.*uniform"),
        ({"without_attention": (2,)}, r"layers \(2,\).*0\.\.1"),
        ({"positions": "rotary", "width": 18, "n_heads": 6}, "3 channels.*even"),
        ({"n_tokens": 5}, "n_tokens is 5 and n_features is 5"),
        ({"outcome": "poisson"}, "'poisson'.*gaussian"),
        ({"outcome": "gaussian"}, "n_outputs is 4"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        models.build("transformer", ENDS | SIZES | options)


def test_switches_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match=r"layer is 5.*0\.\.1"):
        lively().switch_attention(5, False)
    with pytest.raises(ValueError, match="layer 1 was built without"):
        lively(without_attention=(1,)).switch_attention(1, True)


def test_vectors_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"\(3, 9, 4\).*positions, 5"):
        lively()(torch.zeros(3, T, 4))


def test_a_hmm_transformer_reads_longer_episodes_than_it_trains_on():
    recipe = bw.training.recipe("hmm", "transformer", "smoke")
    model = bw.training.loop.start(recipe).model
    longer = bw.tunnels.build("hmm", recipe.tunnel_config | {"length": 50})
    episodes = longer.sample(2, rng())
    assert model.predict(episodes.inputs).shape == episodes.posterior.shape
