"""Shared key heads and windows: the library's attention against PyTorch's own, and everything that opens it."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from torch.nn import functional as F

from _support import rng
import bayeswind_lib as bw
from bayeswind_lib import models, probes
from bayeswind_lib.dynamics import attention as closed
from bayeswind_lib.dynamics import checks
from bayeswind_lib.language import diagnose, layouts
from bayeswind_lib.probes.sites import for_each_query, shapes

CASES = [(4, 0), (2, 0), (1, 0), (4, 3), (2, 5), (1, 1), (2, 99)]  # key heads, window
TUNNEL = bw.tunnels.Bijection(6)


def network(n_key_heads=None, window=0, **changes) -> models.Transformer:
    """A small one with weights that are far from 0."""
    sizes = {"n_layers": 2, "n_heads": 4, "width": 16, "hidden": 24, "init": "fan_in"}
    config = sizes | {"n_key_heads": n_key_heads, "window": window} | changes
    wanted = models.TransformerConfig.__dataclass_fields__
    config |= {name: x for name, x in dataclasses.asdict(TUNNEL.interface).items() if name in wanted}
    return models.build("transformer", config, rng(1)).requires_grad_(False).eval()


def by_torch(layer, x: torch.Tensor, window: int) -> torch.Tensor:
    """The same layer by PyTorch's attention, with an explicit mask: query i sees j if i - window < j <= i."""
    B, T, D = x.shape
    C = D // layer.n_heads
    q, k, v = (part(x).view(B, T, -1, C).transpose(1, 2) for part in (layer.query, layer.key, layer.value))
    seen = torch.tensor([[j <= i and (not window or j > i - window) for j in range(T)] for i in range(T)])
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
    return layer.output(mixed.transpose(1, 2).reshape(B, T, D))


@pytest.mark.parametrize(("n_key_heads", "window"), CASES)
def test_attention_is_that_of_torch(n_key_heads, window):
    layer, x = network(n_key_heads, window).blocks[0].attention.double(), torch.randn(3, 9, 16, generator=rng(), dtype=torch.float64)
    torch.testing.assert_close(layer(x), by_torch(layer, x, window), atol=1e-12, rtol=0)
    if window and window < 9:  # it can fail: another window is another answer
        assert (layer(x) - by_torch(layer, x, window + 1)).abs().max() > 1e-3


@pytest.mark.parametrize("n_key_heads", [1, 2])
@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_shared_heads_are_heads_of_their_own_with_tied_weights(n_key_heads, positions):
    """Whole networks: keys and values of a group copied for each of its heads of queries."""
    shared, own = network(n_key_heads, 4, positions=positions), network(None, 4, positions=positions)
    weights = shared.state_dict()
    for name in weights:
        if name.endswith(("key.weight", "value.weight")):
            weights[name] = weights[name].view(n_key_heads, 4, 16).repeat_interleave(4 // n_key_heads, 0).flatten(0, 1)
    own.load_state_dict(weights)
    tokens = TUNNEL.sample(5, rng()).inputs
    torch.testing.assert_close(shared(tokens), own(tokens))


@pytest.mark.parametrize("attention", ["softmax", "uniform"])
@pytest.mark.parametrize("n_key_heads", [None, 4, 2, 1])
def test_the_formula_counts_the_parameters(n_key_heads, attention):
    model = network(n_key_heads, 3, attention=attention, without_attention=(1,))
    assert model.config.n_parameters == sum(p.numel() for p in model.parameters())


def test_a_window_costs_no_parameter_and_sharing_saves_three_quarters_of_two_maps():
    full, few = network().config, network(1).config
    assert network(None, 3).config.n_parameters == full.n_parameters
    assert full.n_parameters - few.n_parameters == 2 * 2 * 16 * 12  # layers, maps, width, channels


@pytest.mark.parametrize(("n_key_heads", "window"), CASES)
def test_what_comes_later_or_lies_before_all_windows_changes_nothing(n_key_heads, window):
    """Causal; and the last token of L layers reaches L (window - 1) tokens back and no farther."""
    model, tokens = network(n_key_heads, window), TUNNEL.sample(1, rng(3)).inputs
    T = tokens.shape[1]
    x = model.embed(tokens)
    whole = model.trunk(x)
    cut = model.trunk(x[:, :7])
    torch.testing.assert_close(whole[:, :7], cut)  # what is cached of a beginning stays true
    reach = 2 * (window - 1) if window else T
    for place in range(T):
        other = x.clone()
        other[:, place] += 1.0
        moved = (model.trunk(other) - whole)[0].abs().amax(-1) > 1e-7  # (T,)
        may = torch.tensor([place <= t <= place + reach for t in range(T)])
        assert not (moved & ~may).any() and moved[place]


def test_a_pattern_shows_the_window_and_uniform_attention_is_even_in_it():
    pattern = network(2, 3, attention="uniform").attention_patterns(TUNNEL.sample(1, rng()).inputs)[0][0]  # (H, T, T)
    assert pattern.shape[0] == 4
    torch.testing.assert_close(pattern[0, 5], torch.tensor([0, 0, 0, 1, 1, 1] + [0] * (pattern.shape[-1] - 6)) / 3)
    torch.testing.assert_close(pattern[0, 1, :2], torch.tensor([0.5, 0.5]))


@pytest.mark.parametrize(("changes", "words"), [
    ({"n_key_heads": 3}, "n_key_heads is 3 and n_heads is 4"), ({"n_key_heads": 0}, "n_key_heads is 0"),
    ({"n_key_heads": 8}, "must divide"), ({"window": -1}, "window is -1"), ({"n_experts": 1}, "n_experts is 1: give 0 for none, or at least 2"),
])  # fmt: skip
def test_what_cannot_be_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        network(**changes)


# ---- experts ------------------------------------------------------------------------------------


def test_each_token_takes_two_experts_and_the_others_say_nothing():
    model, tokens = network(n_experts=4), TUNNEL.sample(5, rng()).inputs
    assert models.count_parameters(model) == model.config.n_parameters
    part = model.blocks[1].feed_forward
    x = torch.randn(2, 3, 16, generator=rng(2))
    weights = part.weights(x)
    assert torch.equal((weights > 0).sum(-1), torch.full((2, 3), 2)) and torch.allclose(weights.sum(-1), torch.ones(2, 3))
    scores = part.router(x)
    for b, t in ((0, 0), (1, 2)):
        best, second = scores[b, t].argsort(descending=True)[:2].tolist()
        share = torch.sigmoid(scores[b, t, best] - scores[b, t, second])
        by_hand = share * part.experts[best](x[b, t]) + (1 - share) * part.experts[second](x[b, t])
        assert torch.allclose(part(x)[b, t], by_hand, atol=1e-6)
    found = probes.activations(model, tokens)
    assert {name: tuple(one.shape) for name, one in found.items()} == shapes(model, 5, tokens.shape[1])
    assert "hidden.0" not in found and "feed_forward.0" in found


def test_experts_that_are_all_alike_are_one_feed_forward_part():
    many, one = network(n_experts=3), network()
    weights = one.state_dict()
    given = {name: weights[name.replace("experts.0.", "").replace("experts.1.", "").replace("experts.2.", "")]
             for name in many.state_dict() if "router" not in name}
    many.load_state_dict(given, strict=False)
    tokens = TUNNEL.sample(4, rng()).inputs
    torch.testing.assert_close(many(tokens), one(tokens))


# ---- networks of before -------------------------------------------------------------------------


def test_a_config_without_the_new_fields_is_the_network_it_was():
    """Shipped configurations know neither field; as many key heads as heads, written out, is the same."""
    path = bw.checkpoints.path_of("bijection-transformer-classroom")
    model = bw.load("bijection-transformer-classroom")
    known = bw.checkpoints.read_record(path)["config"]
    assert "n_key_heads" not in known and "window" not in known
    assert model.config.n_groups == model.config.n_heads == model.blocks[0].attention.key.weight.shape[0] // 16
    again = models.Transformer(dataclasses.replace(model.config, n_key_heads=4, window=99))
    again.load_state_dict(model.state_dict())
    tokens = bw.tunnels.Bijection(10).sample(4, rng()).inputs
    assert torch.equal(again.eval()(tokens), model(tokens))


def test_first_weights_with_all_heads_are_those_of_before():
    """Naming the number of heads draws the same numbers, so that old runs are repeated exactly."""
    assert all(torch.equal(a, b) for a, b in zip(network().parameters(), network(4).parameters(), strict=True))


def test_it_is_saved_and_loaded(tmp_path):
    model = network(2, 3)
    record = {"tunnel": "bijection", "tunnel_config": TUNNEL.config, "architecture": "transformer", "config": model.config.to_dict()}
    path = bw.checkpoints.save(model, record, "bijection-transformer-tried", 0, tmp_path)
    again = bw.checkpoints.load_file(path)
    assert (again.config.n_groups, again.config.window) == (2, 3)
    assert json.loads(json.dumps(model.config.to_dict()))["n_key_heads"] == 2
    tokens = TUNNEL.sample(2, rng()).inputs
    torch.testing.assert_close(again(tokens), model(tokens))


# ---- what opens a network -----------------------------------------------------------------------


@pytest.mark.parametrize("n_key_heads", [4, 2, 1])
def test_every_activation_has_the_shape_that_the_table_says(n_key_heads):
    model, tokens = network(n_key_heads, 3), TUNNEL.sample(3, rng()).inputs
    found = probes.activations(model, tokens)
    assert {name: tuple(x.shape) for name, x in found.items()} == shapes(model, 3, tokens.shape[1])
    assert found["key.0"].shape[1] == found["value.1"].shape[1] == n_key_heads
    values = for_each_query(found["value.1"], 4)
    torch.testing.assert_close(found["pattern.1"] @ values, found["head.1"])
    with probes.edit(model, {"value.0": torch.zeros_like}):
        assert probes.activations(model, tokens, "head.0")["head.0"].abs().max() == 0


def test_a_head_of_queries_is_taken_out_alone():
    model, episodes = network(2), TUNNEL.sample(8, rng())
    assert len(probes.parts(model, "head")) == 8
    with probes.ablate(model, "head.0.1"):
        heads = probes.activations(model, episodes.inputs, "head.0")["head.0"]
    assert heads[:, 1].abs().max() == 0 and heads[:, 0].abs().max() > 0


def test_keys_and_margins_of_shared_heads():
    """As those of the network whose tied heads are written out."""
    tunnel = bw.tunnels.Bijection(6, with_replacement=True)
    model, episodes = network(2), tunnel.sample(6, rng())
    own = network()
    weights = model.state_dict()
    for name in weights:
        if name.endswith(("key.weight", "value.weight")):
            weights[name] = weights[name].view(2, 4, 16).repeat_interleave(2, 0).flatten(0, 1)
    own.load_state_dict(weights)
    assert probes.keys.key_vectors(model, torch.arange(6)).shape == (2, 6, 4)
    assert probes.keys.shuffled_keys(model, torch.arange(6), 0, rng()).shape == (2, 6, 4)
    for look in (
        lambda net: probes.routing.margins(net, episodes.inputs, episodes.latents["keys"]),
        lambda net: probes.routing.cosine_gap(net, episodes.inputs),
        lambda net: probes.keys.scores_in_place(net, tunnel.sample(64, rng()), 1)["keys"]["binding"],
    ):
        torch.testing.assert_close(look(model), look(own))


def test_the_diagnostics_of_language_models_read_shared_heads():
    """The values that attention's output is built from are those of the key heads, each once."""
    model, tokens = network(2, 4), TUNNEL.sample(2, rng()).inputs
    assert max(layouts.rebuilding_error(model, tokens)) < 1e-5
    looks = diagnose.observe(model, list(tokens))
    assert looks.values.shape == (2, 2, 8)  # prompts, layers, 2 heads of 4 channels
    assert diagnose.key_cosines(model).shape == (2,)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize(("n_key_heads", "window"), [(2, 0), (1, 4), (4, 3)])
def test_closed_gradients_are_autograd_s(n_key_heads, window, positions):
    model, episodes = network(n_key_heads, window, positions=positions).double(), TUNNEL.sample(4, rng())
    done, upstream, truth = checks.opened(model, 1, episodes.inputs, episodes.posterior)
    assert len(done.weights.key) == n_key_heads
    found = checks.agreement(closed.gradients(done, upstream), truth)
    assert {"pattern", "query", "key", "value"} <= set(found) and max(found.values()) < 1e-12
    assert max(float(x.abs().max()) for x in truth.values()) > 1e-4
