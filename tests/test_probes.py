"""Probes on networks whose answer is known: built by hand, or not trained at all."""

from __future__ import annotations

import json
import math

from _support import rng
import bayeswind_lib as bw
import numpy as np
import pytest
import torch
from bayeswind_lib import probes
from bayeswind_lib.probes import (
    axes,
    beliefs,
    clusters,
    filtering,
    keys,
    nulls,
    progress,
    routing,
    values,
)
from bayeswind_lib.probes.sites import merge_heads


SIZES = {
    "transformer": {"n_layers": 3, "n_heads": 2, "width": 16, "hidden": 24},
    "mamba": {"n_layers": 2, "width": 16, "n_states": 4},
    "lstm": {"n_layers": 3, "width": 12},
    "mlp": {"n_layers": 2, "width": 16, "hidden": 24, "context": "sum"},
}


def network(architecture, tunnel="bijection", seed=0, **sizes):
    recipe = bw.training.recipe(tunnel, architecture, "classroom", model_config=SIZES[architecture] | sizes)
    return bw.models.build(architecture, bw.training.loop.model_config(recipe), rng(seed)).eval()


def episodes(tunnel="bijection", count=8, seed=1, **config):
    recipe = bw.training.recipe(tunnel, "transformer", "classroom")
    return bw.tunnels.build(tunnel, recipe.tunnel_config | config).sample(count, rng(seed))


@pytest.fixture(params=sorted(SIZES))
def any_network(request):
    return network(request.param)


# ---- sites and activations


def test_every_site_has_the_shape_that_its_axes_say(any_network):
    inputs = episodes().inputs
    B, T = inputs.shape
    found = probes.activations(any_network, inputs)
    shapes = probes.shapes(any_network, B, T)
    assert {name: tuple(x.shape) for name, x in found.items()} == shapes
    assert list(found) == list(probes.sites(any_network)) == [row["name"] for row in probes.table(any_network)]
    assert all(site.words for site in probes.sites(any_network).values())
    assert not any(x.requires_grad for x in found.values())


def test_only_what_was_asked_for_is_kept(any_network):
    inputs = episodes().inputs
    whole = probes.activations(any_network, inputs)
    for name in whole:
        part = probes.activations(any_network, inputs, name)
        assert list(part) == [name] and torch.equal(part[name], whole[name])
    assert list(probes.activations(any_network, inputs, ["final", "final"])) == ["final"]


def test_the_stream_is_the_sum_of_what_is_written():
    model, inputs = network("transformer"), episodes().inputs
    a = probes.activations(model, inputs)
    for layer in range(3):
        middle = a[f"residual.{layer}"] + a[f"attention.{layer}"]
        torch.testing.assert_close(a[f"middle.{layer}"], middle)
        torch.testing.assert_close(a[f"residual.{layer + 1}"], middle + a[f"feed_forward.{layer}"])
        torch.testing.assert_close(a[f"head.{layer}"], a[f"pattern.{layer}"] @ a[f"value.{layer}"])
    assert torch.equal(torch.stack(list(probes.activations(model, inputs, "pattern.*").values())),
                       torch.stack(model.attention_patterns(inputs)))


def test_a_stack_of_lstms_is_unrolled_exactly():
    model, inputs = network("lstm"), episodes().inputs
    a = probes.activations(model, inputs)
    torch.testing.assert_close(a["output.2"], model.layers(a["embedded"])[0])
    alone = torch.nn.LSTM(12, 12, batch_first=True)
    alone.load_state_dict({k.replace("_l1", "_l0"): v for k, v in model.layers.state_dict().items() if "_l1" in k})
    torch.testing.assert_close(a["output.1"], alone(a["output.0"])[0])


def test_names_that_do_not_fit_are_refused_with_near_ones():
    model = network("transformer")
    with pytest.raises(ValueError, match="no activation 'residul.1'; the nearest names are residual.1"):
        probes.activations(model, episodes().inputs, "residul.1")
    with pytest.raises(ValueError, match="pattern.1.*switched off"):
        probes.activations(model.switch_attention(1, False), episodes().inputs, "pattern.1")
    with pytest.raises(ValueError, match="can be read but not changed"), probes.edit(network("mamba"), {"state.0": torch.zeros_like}):
        pass


def test_an_edit_changes_the_answer_and_leaves_no_trace(any_network):
    inputs = episodes().inputs
    before, weights = any_network(inputs), {k: v.clone() for k, v in any_network.state_dict().items()}
    with pytest.raises(RuntimeError, match="on purpose"), probes.edit(any_network, {"final": lambda x: 2 * x}):
        assert not torch.allclose(any_network(inputs), before)
        raise RuntimeError("on purpose")
    assert torch.equal(any_network(inputs), before)
    assert all(torch.equal(v, weights[k]) for k, v in any_network.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in any_network.modules())


def test_every_site_that_can_be_written_is_written(any_network):
    inputs = episodes().inputs
    for name, site in probes.sites(any_network).items():
        if site.derive is None:
            seen = probes.activations(any_network, inputs, name)[name]
            with probes.edit(any_network, {name: lambda x: x}):
                torch.testing.assert_close(any_network(inputs), any_network(inputs))
            if site.name.startswith("residual"):  # a change there is what is read there
                with probes.edit(any_network, {name: lambda x: x + 1}):
                    torch.testing.assert_close(probes.activations(any_network, inputs, name)[name], seen + 1)
    with pytest.raises(ValueError, match="returned shape"), probes.edit(any_network, {"final": lambda x: x[:1]}):
        any_network(inputs)


@pytest.mark.parametrize("architecture", ["transformer", "mamba", "mlp"])
def test_a_pass_goes_on_from_any_layer(architecture):
    model, inputs = network(architecture), episodes().inputs
    streams = probes.activations(model, inputs, "residual.*")
    for layer, stream in enumerate(streams.values()):
        torch.testing.assert_close(probes.resume(model, stream, layer), model(inputs))
    with pytest.raises(ValueError, match="there are layers 0.."):
        probes.resume(model, streams["residual.0"], 9)


# ---- ablation


def test_zero_is_the_same_as_weights_that_are_zero():
    model, data = network("transformer"), episodes(count=32)
    other = network("transformer")
    with torch.no_grad():
        other.blocks[1].attention.output.weight.view(16, 2, 8)[:, 1] = 0  # head 1 of layer 1
    with probes.ablate(model, "head.1.1"):
        torch.testing.assert_close(model(data.inputs), other(data.inputs))
    with torch.no_grad():
        other.blocks[1].attention.output.weight[:] = 0
    for what in ("attention.1", ["head.1.0", "head.1.1"]):
        with probes.ablate(model, what):
            torch.testing.assert_close(model(data.inputs), other(data.inputs))
    with probes.ablate(model, "layer.1"):
        a = probes.activations(model, data.inputs, "residual.*")
        torch.testing.assert_close(a["residual.1"], a["residual.2"])


def test_mean_and_resample_write_what_other_episodes_have():
    model, data = network("transformer"), episodes(count=16)
    written = probes.activations(model, data.inputs, "head.1")["head.1"]
    with probes.ablate(model, "head.1.0", "mean", data.inputs):
        now = probes.activations(model, data.inputs, "attention.1")["attention.1"]
    mixed = written.clone()
    mixed[:, 0] = written[:, 0].mean(0)
    by_hand = model.blocks[1].attention.output(merge_heads(mixed))
    torch.testing.assert_close(now, by_hand.detach())
    same = data.inputs[:1].expand(6, -1)  # all episodes alike: another one is the same one
    with probes.ablate(model, "layer.2", "resample", same, rng()):
        torch.testing.assert_close(model(same), network("transformer")(same))


def test_controls_are_as_long_as_what_is_written():
    model, data = network("transformer"), episodes(count=16)
    written = probes.activations(model, data.inputs, "attention.0")["attention.0"]
    for how in ("noise", "direction"):
        with probes.ablate(model, "attention.0", how, rng=rng()):
            moved = probes.activations(model, data.inputs, "middle.0")["middle.0"]
        stream = probes.activations(model, data.inputs, "middle.0")["middle.0"]
        added = moved - stream
        torch.testing.assert_close(added.norm(dim=-1), written.norm(dim=-1), rtol=1e-3, atol=1e-6)
        ways = added / added.norm(dim=-1, keepdim=True)
        one = float((ways @ ways[0, 0]).min())
        assert (one > 0.999) == (how == "direction")


def test_what_is_asked_for_must_be_given():
    model, data = network("transformer"), episodes()
    for what, how, words in (
        ("head.9.0", "zero", "no part"), ("head.0.7", "zero", "no part"), ("heads", "zero", "no part"),
        ("layer.0", "none", "choose one of zero"), ("layer.0", "mean", "needs reference inputs"),
        ("layer.0", "noise", "give it rng"),
    ):
        with pytest.raises(ValueError, match=words), probes.ablate(model, what, how):
            model(data.inputs)


def test_the_bench_agrees_with_a_whole_pass():
    model, data = network("transformer", seed=3), episodes(count=32)
    bench = probes.Bench(model, data, rng())
    plain = bw.scoring.score_episodes(model, data)
    assert float(bench.before["kl"].mean()) == pytest.approx(plain.kl, rel=1e-6)
    for what in (*probes.parts(model, "head"), *probes.parts(model, "layer"), ["head.0.1", "feed_forward.2"]):
        for how in ("zero", "mean"):
            with probes.ablate(model, what, how, data.inputs):
                changed = bw.scoring.score_episodes(model, data)
            found = bench.effect(what, how)
            assert found.kl == pytest.approx(changed.kl - plain.kl, abs=1e-6)
            assert found.tv == pytest.approx(changed.tv - plain.tv, abs=1e-6)


def test_swapped_layers_come_back():
    model, inputs = network("transformer"), episodes().inputs
    before, first = model(inputs), model.blocks[0]
    with pytest.raises(KeyError), probes.swap(model, 0, 1):
        assert model.blocks[1] is first and not torch.allclose(model(inputs), before)
        raise KeyError
    assert model.blocks[0] is first and torch.equal(model(inputs), before)


def test_concentration_of_one_part_and_of_many():
    def effect(kl):
        return probes.Effect("x", "zero", kl, kl, kl, 0, 0, 0, 0)

    assert probes.concentration(map(effect, (0.1, 4, 0.1)))["ratio"] == pytest.approx(40)
    assert probes.concentration(map(effect, (1, 0.9, 0.8)))["n_half"] == 3


# ---- keys


def planted(orthogonal: bool):
    """A transformer of 20 keys whose layer-0 keys are orthogonal, or all the same."""
    recipe = bw.training.recipe("bijection", "transformer", "classroom",
                                tunnel_config={"n_values": 8}, model_config={"n_layers": 1, "n_heads": 1, "width": 16})
    model = bw.models.build("transformer", bw.training.loop.model_config(recipe), rng())
    with torch.no_grad():
        model.tokens.weight[:8] = torch.eye(16)[:8] if orthogonal else 1.0
        model.blocks[0].attention.key.weight[:] = torch.eye(16)
    return model


def test_planted_keys_are_found_and_stand_out_of_every_null():
    tokens = torch.arange(8)
    frame = keys.orthogonality(planted(True), tokens, draws=60, rng=rng())
    alike = keys.orthogonality(planted(False), tokens, draws=60, rng=rng())
    assert set(frame) == set(keys.NULLS)
    for name in ("isotropic", "untrained", "matched"):
        assert frame[name].value == pytest.approx(0, abs=1e-6) and frame[name].percentile == 0
    for name in ("isotropic", "untrained"):
        assert alike[name].value == pytest.approx(1) and alike[name].percentile == 100


def test_the_closed_form_is_the_mean_of_draws():
    for d, expected in ((32, 0.1422), (64, 0.1001), (192, 0.0577)):
        assert keys.isotropic_cosine(d) == pytest.approx(expected, abs=1e-4)
        drawn = np.mean([keys.mean_cosine(torch.randn(40, d, generator=rng(i))).item() for i in range(30)])
        assert drawn == pytest.approx(keys.isotropic_cosine(d), rel=0.02)
    assert keys.welch_bound(20, 192) == 0 < keys.welch_bound(20, 10)


def test_a_shared_direction_is_removed_by_centring():
    x = torch.randn(20, 64, generator=rng()) + 10
    assert keys.mean_cosine(x) > 0.98 and keys.mean_cosine(x, centred=True) < 0.2


def test_a_matched_gaussian_has_the_covariance():
    x = torch.randn(6, 3, generator=rng()).double() * torch.tensor([1.0, 2.0, 5.0]) + 1
    drawn = torch.stack([keys.matched_gaussian(x, rng(i)) for i in range(4000)]).flatten(0, 1)
    np.testing.assert_allclose(drawn.T.cov(), x.T.cov(), rtol=0.1, atol=0.3)


def test_alike_keys_lose_what_tells_tokens_apart_and_nothing_else():
    x = torch.randn(200, 2, 6, 4, generator=rng())
    mean = keys.token_ablation("mean", keys.SHOWN)(x)
    assert torch.equal(mean[:, :, ::2], x[:, :, ::2])
    assert mean[:, :, 1::2].std(0).abs().max() < 1e-6 and torch.allclose(mean.mean(0), x.mean(0), atol=1e-6)
    other = keys.token_ablation("resample", keys.ASKED, rng(1))(x)
    assert torch.equal(other[:, :, 1::2], x[:, :, 1::2])
    rows = {tuple(row) for row in x[:, 0, 0].tolist()}
    assert {tuple(row) for row in other[:, 0, 0].tolist()} < rows and not torch.equal(other, x)
    noisy = keys.token_ablation("noise", keys.SHOWN, rng(2))(x)
    torch.testing.assert_close((noisy - x)[:, :, 1::2].norm(dim=-1), (x - x.mean(0))[:, :, 1::2].norm(dim=-1))
    with pytest.raises(ValueError, match="how is 'median'"):
        keys.token_ablation("median", keys.SHOWN)


def test_making_keys_alike_costs_nothing_where_no_query_looks():
    model, data = network("transformer", width=16), episodes(count=16)
    with torch.no_grad():
        for block in model.blocks:
            block.attention.query.weight.zero_()  # even attention, whatever the keys
            block.attention.value.weight.normal_(generator=rng(3))
            block.attention.output.weight.normal_(generator=rng(4))
    bench = probes.Bench(model, data, rng(5))
    assert abs(keys.token_ablation_cost(bench, "key.0", keys.SHOWN, "mean").kl) < 1e-6
    assert abs(keys.token_ablation_cost(bench, "key.1", keys.SHOWN, "resample").kl) < 1e-6
    assert abs(keys.token_ablation_cost(bench, "value.0", keys.SHOWN, "resample").kl) > 1e-4


def test_scores_are_split_into_preference_and_binding():
    planted_scores = torch.tensor([[5.0, 0.0, 1.0], [0.0, 5.0, 1.0], [0.0, 0.0, 6.0]])  # column 3 is liked
    q, k = planted_scores[None], 3**0.5 * torch.eye(3)[None]
    parts = keys.score_parts(q, k)
    assert parts["margin"].item() == pytest.approx(16 / 3 - 2 / 6, rel=1e-6)
    assert parts["preference"].item() == pytest.approx(np.std([5 / 3, 5 / 3, 8 / 3]), rel=1e-6)
    same = keys.score_parts(torch.ones(1, 4, 3), torch.randn(1, 5, 3, generator=rng()))
    assert same["binding"].item() == pytest.approx(0, abs=1e-6) and same["preference"] > 0
    assert same["margin"].isnan().all()
    turn = torch.linalg.qr(torch.randn(3, 3, generator=rng(1)))[0] @ torch.diag(torch.tensor([1.0, 10.0, 0.1]))
    moved = keys.score_parts(q @ torch.linalg.inv(turn), k @ turn.T)  # the same scores from other keys
    for name, value in parts.items():
        torch.testing.assert_close(moved[name], value, rtol=1e-4, atol=1e-5)


def test_means_by_token_are_means():
    x, tokens = torch.randn(30, 2, 5, 3, generator=rng()), torch.randint(4, (30, 5), generator=rng(1))
    means = keys.token_means(x, tokens, 4)
    torch.testing.assert_close(means[:, 2], x.transpose(1, 2)[tokens == 2].mean(0))
    with pytest.raises(ValueError, match="only 4 of 9 tokens occur"):
        keys.token_means(x, tokens, 9)


def test_the_stored_cosines_are_those_of_the_probe():
    from bayeswind_lib.experiments import keys as record

    model = network("transformer", width=16)
    model.record = {"tunnel": "bijection", "tunnel_config": {"n_values": 10}}
    found, nulls = record.cosines_of(model, draws=6)
    own = keys.orthogonality(model, torch.arange(10, 20), centred=True, draws=2, rng=rng())["isotropic"]
    assert found["values"]["centred"]["full"]["value"] == pytest.approx(own.value, rel=1e-6)
    assert set(found) == set(nulls["cosines"]) == {"keys", "values", "both"}
    for sides in found.values():
        for side in sides.values():
            assert len(side["by_head"]) == 2 and np.mean(side["by_head"]) == pytest.approx(side["mean_head"]["value"])
            for null in keys.NULLS:
                assert side["full"][null]["draws"] == 6 and 0 <= side["full"][null]["percentile"] <= 100
    told = nulls["cosines"]["keys"]["raw"]["full"]
    assert told["low"] <= told["null"] <= told["high"] and told["draws"] == 6
    json.dumps([found, nulls], allow_nan=False)


def test_a_lookup_network_binds_and_others_do_not():
    data = episodes(count=64)
    parts = keys.scores_in_place(network("transformer", width=16), data)
    assert set(parts) == {"keys", "values", "pairs"}
    assert all(value.shape == (2,) and value.isfinite().all() for part in parts.values() for value in part.values())
    model = network("transformer", width=32)
    with torch.no_grad():  # keys and queries alike: a token is most like itself
        attention = model.blocks[0].attention
        attention.query.weight.copy_(30 * torch.eye(32))
        attention.key.weight.copy_(30 * torch.eye(32))
        model.positions.weight.zero_()
    bound = keys.scores_in_place(model, data)
    assert (bound["keys"]["margin"] > 5 * bound["values"]["margin"].abs()).all()


# ---- routing


def with_pattern(model, weights):
    """Edits that make every layer attend by fixed weights (T, T)."""
    return {name: (lambda x: weights.expand_as(x)) for name in probes.sites(model) if name.startswith("pattern.")}


def test_even_attention_on_values_is_full_coverage():
    model, data = network("transformer"), episodes(count=4)
    T = data.inputs.shape[1]
    weights = torch.zeros(T, T)
    for t in range(T):
        seen = list(range(1, t, 2))
        weights[t, seen or [t]] = 1 / max(len(seen), 1)
    with probes.edit(model, with_pattern(model, weights)):
        found = routing.coverage(routing.patterns(model, data.inputs))
    np.testing.assert_allclose(found.mass, 1, atol=1e-6)
    np.testing.assert_allclose(found.evenness, 1, atol=1e-6)


def test_a_lookup_is_found_and_its_null_is_not():
    data = episodes(count=16, with_replacement=True)
    asked = data.latents["keys"]
    place, known = routing.matches(asked)
    for b, k in zip(*torch.nonzero(known, as_tuple=True), strict=True):
        assert asked[b, place[b, k]] == asked[b, k] and asked[b, k] not in asked[b, place[b, k] + 1 : k]
    T = data.inputs.shape[1]
    weights = torch.zeros(len(data), 1, T, T)
    for b in range(len(data)):
        for k in range(asked.shape[1]):
            weights[b, 0, 2 * k, 2 * place[b, k] + 1 if known[b, k] else 2 * k] = 1
    weights[:, :, 1::2, 0] = 1
    model = network("transformer")
    with probes.edit(model, with_pattern(model, weights)):
        attention = routing.patterns(model, data.inputs)
        found = routing.lookup(attention, asked)
        other = (place + 1) % torch.arange(asked.shape[1]).clamp(min=1)
        wrong = routing.lookup(attention, asked, other)
    np.testing.assert_allclose(found.mass, 1)
    np.testing.assert_allclose(found.bits, 0, atol=1e-6)
    assert wrong.mass.max() < 0.6


def roll_call(data, V=10, score=12.0):
    """Weights by which head v of layer 0 looks for value v, or else at the first token: (B, V, T, T)."""
    wanted = torch.where((data.inputs[:, None] == V + torch.arange(V)[:, None]), 2 * score, 0.0)  # (B, V, T)
    wanted[:, :, 0] = score
    T = data.inputs.shape[1]
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    return wanted[:, :, None].expand(-1, -1, T, -1).masked_fill(future, -torch.inf).softmax(-1)


def test_a_head_is_found_by_the_name_it_looks_for():
    data = episodes(count=16)
    attention = roll_call(data).double()[None]
    found = routing.attention_by_value(attention, data.inputs, 10)
    torch.testing.assert_close(found[0], torch.eye(10).double(), atol=1e-3, rtol=0)
    even = torch.ones(19, 19).double().tril() / torch.arange(1, 20)[:, None]
    assert routing.attention_by_value(even.expand(1, 16, 1, 19, 19), data.inputs, 10).max() < 0.35


def test_a_lookup_s_null_never_takes_a_pair_of_the_same_key(monkeypatch):
    """Of a head that looks at all earlier pairs of the key, the null is what it gives to others, even where a key was shown twice."""
    keys = torch.tensor([[0, 1, 0, 1, 0, 1]])
    B, K = keys.shape
    attention = torch.zeros(1, B, 1, 2 * K - 1, 2 * K - 1, dtype=torch.float64)
    for k in range(K):
        same = [j for j in range(k) if keys[0, j] == keys[0, k]]
        attention[0, 0, 0, 2 * k, [2 * j + 1 for j in same] or [0]] = 1 / max(1, len(same))
    monkeypatch.setattr(routing, "patterns", lambda model, inputs: attention)
    monkeypatch.setattr(routing, "untrained", lambda model, rng: model)
    found = routing.lookup_nulls(None, torch.zeros(B, 2 * K - 1, dtype=torch.int64), keys, 20, rng())["shuffled"]
    assert found.value > 0.5 and found.draws.max() == 0


def test_a_list_stands_for_heads_that_call_names_and_for_no_lookup():
    data, fresh = episodes(count=32), episodes(count=8, seed=3)
    scores = routing.token_scores(roll_call(data).double()[None], data.inputs, 20)
    assert scores.shape == (1, 10, 21)
    change = routing.by_token(scores, fresh.inputs)["pattern.0"]
    want = roll_call(fresh)
    got = change(torch.zeros_like(want))
    torch.testing.assert_close(got[:, :, 2::2], want[:, :, 2::2], atol=1e-4, rtol=0)
    assert not got[:, :, 1::2].any() and not got[:, :, 0].any()  # only questions attend by the list
    other = episodes(count=32, with_replacement=True)
    lookup = torch.full((1, 32, 1, 19, 19), 1e-12).double().tril()
    place, known = routing.matches(other.latents["keys"])
    for b, k in zip(*torch.nonzero(known, as_tuple=True), strict=True):
        lookup[0, b, 0, 2 * k, 2 * place[b, k] + 1] = 1
    lookup[..., 0] += 1e-3
    lookup = lookup / lookup.sum(-1, keepdim=True)
    scores = routing.token_scores(lookup, other.inputs, 20)
    listed = routing.by_token(scores, other.inputs)["pattern.0"](lookup[0])
    mass = routing.lookup(listed[None], other.latents["keys"]).mass
    assert routing.lookup(lookup, other.latents["keys"]).mass > 0.9 > 0.5 > mass


def test_patterns_that_know_less_keep_their_sums():
    model, data = network("transformer"), episodes(count=6)
    own = routing.patterns(model, data.inputs)
    names = [routing.by_place(own), routing.by_another(own), routing.evenly(3),
             routing.unnamed(data.inputs, 0, 1, 12), routing.forbid(torch.eye(19, dtype=torch.bool)[:, [1] * 19].tril(-1), [0])]
    for changes in names:
        for name, change in changes.items():
            rows = change(own[int(name[-1])]).sum(-1)
            torch.testing.assert_close(rows, torch.ones_like(rows))
    with probes.edit(model, routing.evenly(3)):
        found = routing.coverage(routing.patterns(model, data.inputs))
    before = routing.coverage(own)
    np.testing.assert_allclose(found.evenness, 1, atol=1e-5)
    np.testing.assert_allclose(found.mass[0], before.mass[0], atol=1e-5)


def test_a_value_without_its_head_leaks_and_no_other_does():
    recipe = bw.training.recipe("bijection", "transformer", "classroom", model_config={
        "n_layers": 1, "n_heads": 10, "width": 20, "hidden": 1})
    model = bw.models.build("transformer", bw.training.loop.model_config(recipe)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        eye, block, v = torch.eye(20), model.blocks[0], torch.arange(10)
        block.norm1.gain.fill_(1)
        model.norm.gain.fill_(20)
        model.tokens.weight[:10, 10], model.tokens.weight[10:] = 1, eye[:10]
        block.attention.value.weight[2 * v, v] = 1
        block.attention.output.weight[v, 2 * v] = -1
    data = episodes(count=12)
    change = {"pattern.0": lambda p: roll_call(data)}
    with probes.edit(model, change):
        assert bw.scoring.score_episodes(model, data).kl < 1e-3
        before = model.predict(data.inputs)
    taken = routing.unnamed(data.inputs, 0, 3, 13)["pattern.0"]
    leak = routing.leaks(model, data, {"pattern.0": lambda p: taken(roll_call(data))}, before)
    assert leak[3] > 0.1 and leak[[v for v in range(10) if v != 3]].abs().max() < 1e-3


def test_patching_effect_goes_from_the_value_to_the_question():
    model, data = network("transformer"), episodes(count=8)
    values_ = data.latents["values"].clone()
    values_[:, [1, -1]] = values_[:, [-1, 1]]
    donor = bw.tunnels.Bijection(10).episodes(data.latents["keys"], values_)
    places = {"value": [3], "question": [10], "later": [11, 12], "all": list(range(19))}
    found = routing.patching_effect(model, data.inputs, donor.inputs, places, 5)
    assert found["value"].shape == (4,)
    np.testing.assert_allclose(found["all"], 1, atol=1e-4)
    np.testing.assert_allclose(found["later"], 0, atol=1e-4)
    np.testing.assert_allclose([found["value"][0], found["value"][-1]], [1, 0], atol=1e-4)
    np.testing.assert_allclose([found["question"][0], found["question"][-1]], [0, 1], atol=1e-4)


def test_groups_of_a_chain_cover_all_that_a_symbol_sees_once():
    model, data = network("transformer", "hmm"), episodes("hmm", count=4)
    T = data.inputs.shape[1]
    groups = routing.chain_groups(T, 3)
    assert torch.equal(sum(g.int() for g in groups.values())[6:].tril(6), torch.ones(T, T).int().tril()[6:])
    attention = routing.patterns(model, data.inputs)
    masses = routing.towards(attention, {n: g & torch.ones(T, T, dtype=torch.bool).tril() for n, g in groups.items()}, 6)
    np.testing.assert_allclose(sum(masses.values()), 1, atol=1e-6)
    back = torch.zeros(1, 2, 1, T, T).double()
    for t in range(1, T):
        back[..., t, t - 1] = 1
    np.testing.assert_allclose(routing.fixed_age(back, 6)[0, 0], [0, 1, 0, 0])
    gap = routing.cosine_gap(network("transformer"), episodes(count=4).inputs)
    assert gap.shape == (3, 2) and (gap > 0).all() and (gap < 2).all()


# ---- values


def test_a_random_walk_makes_a_smooth_curve_of_one_sequence():
    share = values.random_walk_null(200, 192, 20, rng()).mean()
    assert share == pytest.approx(6 / math.pi**2, abs=0.03)


def test_entropy_along_a_line_survives_at_fixed_position_only_if_it_varies_there():
    draw = np.random.default_rng(0)
    H = draw.normal(size=(200, 10)) + np.arange(10)
    direction = draw.normal(size=16)
    points = H[..., None] * direction + 0.01 * draw.normal(size=(200, 10, 16))
    curve = values.entropy_curve(points, H)
    assert min(curve.first, curve.pearson, curve.fixed, curve.linear) > 0.99
    short = values.entropy_curve(1e-4 * points, H)  # an untrained network's activations are: the readings are the same
    assert [short.pearson, short.fixed, short.linear] == pytest.approx([curve.pearson, curve.fixed, curve.linear])
    clock = np.broadcast_to(np.arange(10.0), (200, 10))
    points = clock[..., None] * direction + 0.01 * draw.normal(size=(200, 10, 16))
    curve = values.entropy_curve(points, clock)
    assert curve.first > 0.99 < curve.pearson and curve.fixed == 0 and math.isnan(curve.linear)


def test_participation_counts_axes():
    x = np.random.default_rng(0).normal(size=(5000, 6)) * [1, 1, 1, 0, 0, 0]
    assert bw.stats.pca(x).participation == pytest.approx(3, rel=0.01)


def test_shares_of_a_walk_by_formula_by_its_kernel_and_by_sampling():
    K = 19
    shares = values.walk_shares(K)
    kernel = values.of_kernel(np.minimum.outer(np.arange(1.0, K + 1), np.arange(1.0, K + 1)))
    np.testing.assert_allclose(kernel.shares[:-1], shares, atol=1e-12)
    assert shares[0] == pytest.approx(3 / (2 * (K**2 - 1) * math.sin(math.pi / (2 * K)) ** 2))
    assert values.random_walk_null(K, 2000, 10, rng()).mean() == pytest.approx(shares[0], abs=0.02)
    assert (np.diff(kernel.axes[0]) > 0).all() or (np.diff(kernel.axes[0]) < 0).all()
    assert values.walk_shares(4000)[0] == pytest.approx(6 / math.pi**2, abs=1e-3)


def test_position_explains_a_clock_and_not_noise():
    clock = np.broadcast_to(np.arange(10.0), (50, 10))
    noise = np.random.default_rng(0).normal(size=(5000, 10))
    assert values.by_position(clock) == pytest.approx(1) and values.by_position(noise) < 0.01


# ---- axes


def test_what_is_erased_cannot_be_read_and_taking_out_the_filter_leaves_it():
    draw = np.random.default_rng(0)
    h = draw.normal(size=4000)
    points = np.outer(h, [10.0, 0.1, 0, 0]) + draw.normal(size=(4000, 4)) @ np.diag([10, 0.01, 1, 1])
    reading = axes.fit_reading(points, h)

    def r2(x):
        return np.corrcoef(axes.fit_reading(x, h).weight @ (x - x.mean(0)).T, h)[0, 1] ** 2

    coordinate = (points - reading.mean) @ reading.weight
    assert r2(points) > 0.98 and abs(reading.weight @ reading.pattern - 1) < 1e-6
    assert r2(points - np.outer(coordinate, reading.pattern)) < 1e-6
    along = axes.unit(reading.weight)
    without = points - np.outer((points - reading.mean) @ along, along)
    assert without.var(0).sum() > 0.99 * points.var(0).sum()  # the filter has next to no variance
    with pytest.raises(ValueError, match="nothing to read"):
        axes.fit_reading(points, np.ones(4000))


def test_an_unread_axis_costs_by_its_length_only():
    model, data = network("transformer"), episodes(count=12)
    last = model.config.n_layers
    first = model.config.first_output_token
    weight = model.tokens.weight[first : first + model.config.n_outputs].detach().double().numpy()
    unread = np.linalg.svd(weight - weight.mean(0))[2][-1]  # no softmax over the outcomes sees it
    assert axes.visible(model, unread) < 1e-9 < axes.visible(model, np.linalg.svd(weight)[2][0])
    bench = axes.AxisBench(model, data, last)
    found = axes.two_ways(model, bench.points, unread, data)
    assert found["direct"] == pytest.approx(0, abs=1e-9)
    assert found["both"] == pytest.approx(found["length"], abs=1e-9)
    whole = bench.cost(bench.points.mean((0, 1)), unread, unread)["kl"]
    assert whole == pytest.approx(found["both"], abs=1e-4)
    held = bench.hold(unread, bench.points.mean((0, 1)), 5, np.random.default_rng(0))
    assert len(held.draws) == 5 and held.value == pytest.approx(whole)


def test_precision_adds_up_and_knows_a_planted_margin():
    posterior = episodes(count=6).posterior.numpy()
    odds = np.where(posterior > 0, 5.0, 0.0)  # every possible value e^5 times as likely
    log2_prob = (odds - np.log(np.exp(odds).sum(-1, keepdims=True))) / math.log(2)
    found = axes.precision(log2_prob, posterior)
    assert found.kl == pytest.approx(found.leak) and found.uneven == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(found.margin[1:], 5)
    tilted = odds + np.where(posterior > 0, np.arange(posterior.shape[-1]) * 0.1, 0)
    log2_prob = (tilted - np.log(np.exp(tilted).sum(-1, keepdims=True))) / math.log(2)
    found = axes.precision(log2_prob, posterior)
    assert found.uneven > 1e-3 and found.kl == pytest.approx(found.leak + found.uneven)


# ---- beliefs


def simplex_points(count, steps, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(3), (count, steps))


def test_a_belief_that_is_in_the_stream_is_read_and_one_that_is_not_is_not():
    belief = simplex_points(60, 10)
    mixed = belief @ np.random.default_rng(1).normal(size=(3, 12))
    found = beliefs.readable(mixed, belief, alpha=1e-9)
    assert found.r2 > 0.999 and found.kl < 1e-3 and found.shuffled_r2 < 0.2
    noise = np.random.default_rng(2).normal(size=(60, 10, 12))
    assert beliefs.readable(noise, belief).r2 < 0.05
    with pytest.raises(ValueError, match="leave some"):
        beliefs.readable(mixed, belief, train=60)


def test_the_simplex_projection_is_the_nearest_point():
    for x in np.random.default_rng(0).normal(size=(20, 4)):
        near = beliefs.onto_simplex(x)
        assert near.min() >= 0 and near.sum() == pytest.approx(1)
        others = np.random.default_rng(1).dirichlet(np.ones(4), 500)
        assert ((x - near) ** 2).sum() <= ((x - others) ** 2).sum(-1).min() + 1e-12


def carrier(tunnel):
    """A transformer of no layers to speak of whose stream is set by hand: it says what it is given."""
    recipe = bw.training.recipe("hmm", "transformer", "classroom",
                                model_config={"n_layers": 1, "n_heads": 1, "width": 8, "hidden": 8})
    model = bw.models.build("transformer", bw.training.loop.model_config(recipe), rng())
    with torch.no_grad():
        model.blocks[0].attention.output.weight.zero_()
        model.blocks[0].feed_forward.down.weight.zero_()
    return model


# ---- clusters


def test_blobs_are_counted_and_a_filled_simplex_has_no_count():
    draw = np.random.default_rng(0)
    centres = 8 * draw.normal(size=(5, 4))
    labels = np.repeat(np.arange(5), 200)
    blobs = clusters.clusters(centres[labels] + draw.normal(size=(1000, 4)), labels, most=8)
    assert blobs.best == 5 and blobs.labelled > 0.5
    filled = simplex_points(1000, 1)[:, 0]
    found = clusters.clusters(filled[:, :2], filled.argmax(-1), most=8)
    assert found.labelled < 0.5 and found.labelled < blobs.labelled


def test_silhouettes_know_blobs_from_a_lump_of_their_covariance():
    draw = np.random.default_rng(3)
    points = 9 * np.eye(4)[:3][np.repeat(np.arange(3), 60)] + draw.normal(size=(180, 4))
    found = clusters.silhouettes(points, [2, 3, 4])
    lump = bw.stats.matched_gaussian(points, draw)
    assert found.argmax() == 1 and found[1] > 0.7 > 0.5 > clusters.silhouettes(lump, [3])[0]
    assert np.allclose(np.cov(bw.stats.matched_gaussian(np.tile(points, (60, 1)), draw).T), np.cov(points.T), atol=0.6)
    axes = clusters.leading(np.concatenate([points, points], 1), 8)  # every channel twice: 4 axes, not 8
    assert axes.shape == (180, 4) and np.allclose(clusters.silhouettes(axes, [3]), found[1])


def test_sharp_chains_keep_to_the_grid_and_name_their_states():
    from bayeswind_lib.probes.filtering import sharp_episodes

    tunnel = bw.tunnels.HMM(n_states=3, n_symbols=3, length=30)
    data = sharp_episodes(tunnel, 200, rng(5))
    E, states, symbols = (data.latents[name] for name in ("emission", "states", "observations"))
    assert torch.allclose(E.sort(-1).values, torch.tensor([0.05, 0.05, 0.9], dtype=torch.float64).expand_as(E))
    assert (E.argmax(-1).sort(-1).values == torch.arange(3)).all()
    named = E.argmax(-1).gather(1, states) == symbols
    assert 0.88 < float(named.double().mean()) < 0.92
    moves = data.latents["transition"][torch.arange(200)[:, None], states[:, :-1]].gather(-1, states[:, 1:, None])
    assert float(moves.mean()) > 0.36  # the chain follows its matrix: a chain that does not has a third
    assert np.allclose(tunnel.posterior(data.inputs), data.posterior)


# ---- parts of a filter


def test_the_parts_of_a_filter_fit_together():
    tunnel = bw.tunnels.HMM(n_states=3, n_symbols=4, length=6)
    data = tunnel.sample(20, rng(3))
    found = filtering.goals(tunnel, data)
    assert np.allclose(found["belief"], data.posterior) and found["entropy"].shape == (20, 6, 1)
    assert np.allclose(found["belief"] - found["memory"], filtering.partial_filters(tunnel, data.inputs)["stationary × emission"])
    T, share = data.latents["transition"].numpy(), found["memoryless"]
    steps = found["next"][:, :-1] - found["predicted"][:, 1:]  # alpha_t T is the prediction of the next step
    assert np.allclose(steps, 0) and np.allclose(found["log belief"].sum(-1), 0)
    pi = found["belief"] @ T - found["next"]
    assert np.allclose(pi @ T, pi) and np.allclose(pi.sum(-1), 1) and share.shape == pi.shape
    assert np.allclose(found["previous"][:, 1:] + pi[:, 1:], found["belief"][:, :-1])


def test_memory_is_read_where_it_is_and_not_from_what_has_none():
    tunnel = bw.tunnels.HMM(n_states=3, n_symbols=3, length=8)
    data = tunnel.sample(90, rng(4))
    goal, said = filtering.goals(tunnel, data), filtering.partial_filters(tunnel, data.inputs)
    assert filtering.held_out(goal["memory"], goal["memory"], alpha=1e-9) > 0.999
    assert abs(filtering.held_out(said["stationary × emission"], goal["memory"])) < 0.1
    assert filtering.held_out(said["stationary × emission"], goal["belief"]) > 0.7  # and yet the belief seems to be there
    assert filtering.memory_share(goal["log belief"], goal, 1e-9) > 0.999  # the exact belief has all of it
    assert abs(filtering.memory_share(said["inputs"], goal)) < 0.3
    assert filtering.memory_share(filtering.log_ratios(said["last 2 symbols"]), goal, 1e-6) > 0.6
    draws = filtering.shuffled(said["stationary × emission"], goal["belief"], 20, np.random.default_rng(0))
    assert draws.shape == (20,) and draws.mean() < 0.1 and draws.max() < 0.5
    assert filtering.bits(goal["log belief"], goal["belief"], 1e-9) < 1e-6 < filtering.bits(said["inputs"], goal["belief"])


# ---- nulls


def test_a_percentile_counts_ties_half():
    found = nulls.Measured(1.0, np.array([0.0, 1.0, 1.0, 2.0]), "four draws")
    assert found.percentile == 50 and found.to_dict()["draws"] == 4
    with pytest.raises(ValueError, match="at least one"):
        nulls.against(1.0, lambda: 0.0, 0, "none")


def test_an_untrained_copy_has_the_sizes_and_other_weights():
    model = network("transformer")
    copy = probes.untrained(model, rng(9))
    assert copy.config == model.config and not torch.equal(copy.tokens.weight, model.tokens.weight)


# ---- progress


def test_distances_know_their_ends():
    x = torch.randn(50, 6, generator=rng())
    turn = torch.linalg.qr(torch.randn(6, 6, generator=rng(1)))[0]
    assert progress.linear_cka(x, 3 * x @ turn + 1) == pytest.approx(1)
    assert progress.linear_cka(x, torch.randn(50, 6, generator=rng(2))) < 0.3
    one, two = torch.eye(4).expand(1, 1, 4, 4), torch.eye(4).roll(1, 1).expand(1, 1, 4, 4)
    assert progress.pattern_distance(one, one) == 0 and progress.pattern_distance(one, two) == 1


def test_progress_runs_from_none_to_all_and_tells_what_came_first():
    start, end, data = network("transformer", seed=0), network("transformer", seed=5), episodes(count=16)
    w0, w1 = ({k: v.clone() for k, v in m.state_dict().items()} for m in (start, end))
    late = {k: (w1 if "query" in k or "key" in k or "tokens" in k or "positions" in k or "norm" in k else w0)[k] for k in w0}
    model = network("transformer", seed=9)
    before = model(data.inputs)
    found = progress.progress(model, {0: w0, 10: late, 100: w1}, data)
    assert torch.equal(model(data.inputs), before)
    for what in ("attention", "values"):
        done = found.share(what)
        assert done[0] == pytest.approx(0) and done[-1] == pytest.approx(1)
    first = found.attention[1, 0]  # layer 0 attends by the final weights already
    assert first < 1e-6 < found.values[1, 0]
    assert found.steps_to("attention", 0.3) < found.steps_to("values", 0.9)
    with pytest.raises(ValueError, match="at least 2"):
        progress.progress(model, {0: w0}, data)


# ---- reports and records


def loaded(tunnel="bijection", architecture="transformer", **config):
    """An untrained network with the record that a loaded one has."""
    recipe = bw.training.recipe(tunnel, architecture, "smoke")
    model = bw.models.build(architecture, bw.training.loop.model_config(recipe), rng(0)).eval()
    model.record = {"tunnel": tunnel, "tunnel_config": bw.tunnels.build(tunnel, recipe.tunnel_config).config}
    return model


@pytest.mark.parametrize(
    ("what", "rows"), [("activations", 26), ("keys", 3 * 3 * 2), ("attention", 4), ("heads", 4), ("layers", 6), ("beliefs", 3)]
)
def test_a_report_has_a_row_for_everything(what, rows):
    found = probes.report(loaded(), what, n_episodes=12, draws=2)
    assert len(found) == rows
    assert json.loads(json.dumps(found)) == found


def test_a_report_is_the_probe_itself():
    model = loaded()
    fresh = bw.probes.report(model, "heads", n_episodes=12, seed=3)
    bench_rng = rng(3)
    bench = probes.Bench(model, bw.tunnels.build("bijection", model.record["tunnel_config"]).sample(12, bench_rng), bench_rng)
    assert fresh[1]["zero"] == bench.effect("head.0.1").kl


@pytest.mark.parametrize(
    ("tunnel", "architecture", "what", "words"),
    [
        ("bijection", "transformer", "souls", "choose one of activations"),
        ("hmm", "transformer", "keys", "of the tunnel hmm"),
        ("hmm", "transformer", "attention", "of the tunnel hmm"),
        ("regression", "transformer", "beliefs", "a mean and a variance"),
        ("hmm", "lstm", "heads", "no part of the kind"),
    ],
)
def test_a_report_says_what_it_cannot_do(tunnel, architecture, what, words):
    with pytest.raises(ValueError, match=words):
        probes.report(loaded(tunnel, architecture), what, n_episodes=4, draws=1)


# ---- devices


@pytest.mark.parametrize("name", [
    "noise", "direction", "resample", "noise_like", "token_ablation noise", "token_ablation resample", "matched", "shuffled", "nulls of keys",
    "another episode", "matches",
])
def test_controls_work_where_the_network_is_and_draw_where_the_generator_is(name):
    """PyTorch's device "meta" refuses to be mixed with the CPU, as a GPU does."""
    from bayeswind_lib.probes import ablation, layers

    model, x, dice = network("transformer").to("meta"), torch.empty(4, 2, 19, 8, device="meta"), rng()
    tokens = torch.arange(10, device="meta")
    found = {
        "noise": lambda: ablation.replacement("noise", None, dice)(x),
        "direction": lambda: ablation.replacement("direction", None, dice)(x),
        "resample": lambda: ablation.replacement("resample", x, dice)(x),
        "noise_like": lambda: layers.noise_like(x, dice),
        "token_ablation noise": lambda: keys.token_ablation("noise", keys.ASKED, dice)(x),
        "token_ablation resample": lambda: keys.token_ablation("resample", keys.SHOWN, dice)(x),
        "matched": lambda: keys.matched_gaussian(x[0, 0], dice),
        "shuffled": lambda: keys.shuffled_keys(model, tokens, 0, dice),
        "nulls of keys": lambda: keys.drawn_keys(model, tokens, 0, 2, dice)["untrained"],
        "another episode": lambda: x[layers.another(len(x), dice)],
        "matches": lambda: routing.matches(tokens[None].expand(2, -1))[0],
    }[name]()
    assert found.device.type == "meta"


# ---- what varies within a cluster


def test_within_clusters_only_distances_from_the_mean_count():
    """Three far clusters: a goal that lies within them is read in full, one that names the cluster not at all."""
    draw = np.random.default_rng(0)
    which, x = draw.integers(3, size=(90, 4)), draw.normal(size=(90, 4, 6))
    far = 100 * np.eye(6)[which] + x  # (B, K, D)
    inside, noise = x[..., :1] @ np.ones((1, 1)), draw.normal(size=(90, 4, 1))
    assert filtering.within_clusters(far, 50 * which[..., None] + inside, 3) > 0.99
    assert filtering.within_clusters(far, 50 * which[..., None] + noise, 3) < 0.05
    assert filtering.held_out(far, 50 * which[..., None] + noise) > 0.99  # a reader that sees the clusters names them


def test_the_record_says_what_varies_within_mambas_clusters():
    from bayeswind_lib.experiments import beliefs

    record = bw.ledger.record("probe_beliefs")
    inside, copies = beliefs.within(2)
    assert inside["r2"] == pytest.approx(record["within"][beliefs.CLUSTERED]["r2"], rel=1e-3)
    stored = record["untrained"][beliefs.CLUSTERED]["within clusters"]
    assert stored["draws"] == 20 and stored["low"] - 0.01 <= copies["null"] <= stored["high"] + 0.01
