"""The networks without attention: what each position may see, bit for bit, and their sizes.

At the end stands a network built by hand: a transformer whose attention is uniform eliminates.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from _support import rng
import bayeswind_lib as bw
from bayeswind_lib import models
from bayeswind_lib.models.mlp import CONTEXTS, Flattened, ResidualBlock, RunningSum
from bayeswind_lib.training.loop import model_config

TUNNELS = {
    "bijection": bw.tunnels.Bijection(6, 5),
    "hmm": bw.tunnels.HMM(n_states=2, n_symbols=3, length=5),
    "regression": bw.tunnels.Regression(n_dims=2, n_pairs=5),
    "recall": bw.tunnels.Recall(n_pairs=3, n_queries=2, n_keys=5, n_values=4, filler=1),
}
each_context = pytest.mark.parametrize("context", CONTEXTS)
each_tunnel = pytest.mark.parametrize("tunnel", TUNNELS.values(), ids=TUNNELS)


def config_for(tunnel, **sizes) -> dict:
    given = {"n_layers": 2, "width": 16, "hidden": 24, "summed": 10}
    wanted = models.MLPConfig.__dataclass_fields__
    return {k: v for k, v in tunnel.interface.to_dict().items() if k in wanted} | given | sizes


def lively(context: str, tunnel=TUNNELS["bijection"], seed: int = 0, **sizes) -> models.MLP:
    """A network with weights so large that whatever can matter does."""
    model = models.build("mlp", config_for(tunnel, context=context, **sizes), rng(seed))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=rng(seed + len(name)))
            parameter.copy_(0.4 * noise + ("norm" in name and name.endswith("weight")))
    return model.eval()


@torch.no_grad()
def channels(model: models.MLP, inputs: torch.Tensor) -> torch.Tensor:
    """What the trunk makes at every position, scored or not: (B, T, D)."""
    return model.trunk(model.embed(inputs))


def changed_at(inputs: torch.Tensor, position: int, n_tokens: int) -> torch.Tensor:
    """The inputs with another token, or another vector, at one position."""
    other = inputs.clone()
    if inputs.is_floating_point():
        other[:, position] += 1.0
    else:
        other[:, position] = (other[:, position] + 1) % n_tokens
    return other


def seen_from(model: models.MLP, inputs: torch.Tensor) -> torch.Tensor:
    """bool (T, T): whether position t (row) changes when the input at s (column) does."""
    before = channels(model, inputs)
    columns = [
        (channels(model, changed_at(inputs, s, model.config.n_tokens)) != before).any(-1).any(0)
        for s in range(inputs.shape[1])
    ]
    return torch.stack(columns, dim=1)


# --- what a position sees ------------------------------------------------------------------------


@each_tunnel
def test_per_token_each_position_sees_itself_alone(tunnel):
    inputs = tunnel.sample(6, rng()).inputs
    seen = seen_from(lively("token", tunnel), inputs)
    assert torch.equal(seen, torch.eye(inputs.shape[1], dtype=torch.bool))


@each_tunnel
@pytest.mark.parametrize("context", ["sum", "flattened"])
def test_with_a_context_each_position_sees_all_that_came_and_nothing_later(context, tunnel):
    inputs = tunnel.sample(6, rng()).inputs
    seen = seen_from(lively(context, tunnel), inputs)
    assert torch.equal(seen, torch.ones_like(seen).tril())


def test_positions_tell_equal_tokens_apart_in_every_context():
    for context in CONTEXTS:
        x = channels(lively(context), torch.zeros(1, 5, dtype=torch.int64))
        assert torch.cdist(x, x)[0].add(torch.eye(5)).min() > 1e-3, context


@torch.no_grad()
def test_without_positions_the_sum_forgets_the_order():
    model = lively("sum")
    inputs = TUNNELS["bijection"].sample(16, rng()).inputs  # (B, 9)
    order = torch.cat([torch.randperm(8, generator=rng(3)), torch.tensor([8])])  # the last stays
    shuffled = inputs[:, order]
    with_places = (channels(model, inputs) - channels(model, shuffled))[:, -1].abs().amax(-1)
    assert with_places.min() > 1e-2  # an item is mapped together with its place
    model.positions.weight.zero_()
    before, after = channels(model, inputs)[:, -1], channels(model, shuffled)[:, -1]
    assert torch.allclose(before, after, atol=2e-5)
    other = changed_at(shuffled, 0, model.config.n_tokens)
    assert (channels(model, other)[:, -1] - before).abs().amax(-1).min() > 1e-3


# --- what the contexts compute -------------------------------------------------------------------


@torch.no_grad()
def test_flattened_is_one_linear_map_of_the_inputs_side_by_side():
    torch.manual_seed(0)
    layer = Flattened(width=6, item=3, n_positions=7)
    layer.places.normal_()
    x = torch.randn(4, 7, 6, dtype=torch.float64)
    layer = layer.double()
    matrix = layer.places.view(7 * 3, 6)  # one row an item's channel, all places in one matrix
    for t in range(7):
        laid_out = torch.zeros(4, 7, 3, dtype=torch.float64)
        laid_out[:, : t + 1] = layer.narrow(x[:, : t + 1])
        expected = x[:, t] + laid_out.flatten(1) @ matrix
        assert torch.allclose(layer(x)[:, t], expected, atol=1e-12)


@torch.no_grad()
def test_the_running_sum_adds_up_what_each_item_was_mapped_to():
    torch.manual_seed(0)
    layer = RunningSum(width=6, summed=4).double()
    x = torch.randn(3, 8, 6, dtype=torch.float64)
    for t in range(8):
        items = [layer.to_sum(layer.item(x[:, s])) for s in range(t + 1)]
        total = torch.stack(items).sum(0)
        both = torch.cat([F.layer_norm(total, (4,)), total / 4], dim=-1)
        expected = x[:, t] + both @ layer.from_sum.weight.T + layer.from_sum.bias
        assert torch.allclose(layer(x)[:, t], expected, atol=1e-10)


@pytest.mark.parametrize("hidden", [0, 5])
@torch.no_grad()
def test_a_block_adds_to_the_stream(hidden):
    torch.manual_seed(0)
    block, x = ResidualBlock(6, hidden).double(), torch.randn(2, 3, 6, dtype=torch.float64)
    y = F.layer_norm(x, (6,))
    y = block.down(F.gelu(block.up(y))) if hidden else F.gelu(block.down(y))
    assert torch.allclose(block(x), x + y, atol=1e-12)


# --- sizes, weights, errors ----------------------------------------------------------------------


def test_the_published_depth_and_width_have_the_published_size():
    """Section 3.3 of Paper I speaks of 18 to 20 layers of 384 to 400: 18 x 384 has 2.67 million."""
    tunnel = bw.tunnels.Bijection(20)
    sizes = {"n_layers": 18, "width": 384, "hidden": 0, "context": "token"}
    model = models.build("mlp", config_for(tunnel, **sizes))
    blocks = sum(p.numel() for p in model.blocks.parameters())
    assert blocks == 2_674_944 == 18 * (384 * 384 + 384 + 2 * 384)
    rest = (40 + 39) * 384 + 2 * 384  # tokens, positions, last norm; the head is tied
    assert models.count_parameters(model) == blocks + rest
    transformer = models.build("transformer", {k: v for k, v in config_for(tunnel).items() if k in {
        "n_tokens", "n_positions", "scored", "n_outputs", "first_output_token"}})
    assert abs(blocks / models.count_parameters(transformer) - 1) < 0.01


def test_the_ladder_is_of_one_size():
    rivals = [("mlp", None), ("mlp", "sum"), ("mlp", "flattened"), ("transformer", "uniform"),
              ("transformer", None)]
    for name in ("bijection", "hmm", "regression"):
        counts = []
        for architecture, variant in rivals:
            recipe = bw.training.recipe(name, architecture, "classroom", variant)
            network = models.build(architecture, model_config(recipe))
            counts.append(models.count_parameters(network))
        assert max(counts) < 1.6 * min(counts) and max(counts) <= 200_000, (name, counts)


@each_tunnel
def test_training_works_out_equal_inputs_once_and_learns_the_same(tunnel):
    model, episodes = lively("token", tunnel).requires_grad_(), tunnel.sample(64, rng(2))
    rows, found = [], []
    model.blocks[0].register_forward_hook(lambda block, x, y: rows.append(x[0].shape[:-1].numel()))
    for training in (True, False):
        logits = model.train(training)(episodes.inputs)
        model.zero_grad()
        logits.square().mean().backward()
        found.append((logits.detach(), torch.cat([p.grad.flatten() for p in model.parameters()])))
    for once, each in zip(*found, strict=True):
        assert torch.allclose(once, each, rtol=1e-4, atol=1e-5 * each.abs().max())
    scored = episodes.inputs[:, model.scored_positions(episodes.inputs.shape[1])].tolist()
    assert rows[0] == len({(place, str(given)) for one in scored for place, given in enumerate(one)}) < rows[1]


@each_tunnel
def test_without_positions_equal_inputs_get_equal_answers_wherever_they_stand(tunnel):
    model = lively("token", tunnel, positions="none")
    inputs = tunnel.sample(3, rng(2)).inputs
    T = inputs.shape[1]
    longer = torch.cat([inputs, inputs.flip(1)], 1)  # more than the config has positions
    found = channels(model, longer)
    torch.testing.assert_close(found[:, :T], channels(model, inputs))
    torch.testing.assert_close(found[:, T:], found[:, :T].flip(1))
    assert not hasattr(model, "positions")
    episodes, rows = tunnel.sample(64, rng(2)), []
    model.blocks[0].register_forward_hook(lambda block, x, y: rows.append(x[0].shape[:-1].numel()))
    with torch.no_grad():
        once, each = (model.train(training)(episodes.inputs) for training in (True, False))
    torch.testing.assert_close(once, each, rtol=1e-4, atol=1e-4)
    scored = episodes.inputs[:, model.scored_positions(T)].tolist()
    assert rows[0] == len({str(given) for one in scored for given in one}) < rows[1]


@each_context
def test_a_fresh_network_is_almost_sure_of_nothing(context):
    """Before training the guess is nearly uniform: a score near the uniform guess proves no failure."""
    tunnel = TUNNELS["bijection"]
    model = models.build("mlp", config_for(tunnel, context=context), rng())
    score = bw.score(model, tunnel, 64, rng=rng(1))
    uniform = bw.baselines.exact_baselines(6, 5)["uniform"]["kl"]
    assert uniform < score.kl < uniform + 0.05


def test_errors_say_what_to_do():
    config = config_for(TUNNELS["bijection"])
    with pytest.raises(ValueError, match="context is 'all': choose one of token, sum, flattened"):
        models.build("mlp", config | {"context": "all"})
    with pytest.raises(ValueError, match="positions is 'none' with context 'sum': choose one of learned, none, and \"none\" only"):
        models.build("mlp", config | {"context": "sum", "positions": "none"})
    model = models.build("mlp", config, rng())
    with pytest.raises(ValueError, match=r"11 tokens.*only 9 learned positions: shorten"):
        model(torch.zeros(1, 11, dtype=torch.int64))
    with pytest.raises(ValueError, match="does not fit a mlp"):
        models.build("mlp", config | {"n_heads": 2})


# --- by hand: uniform attention is enough for elimination ----------------------------------------


def eliminator(tunnel, gain: float, attention: str = "uniform") -> models.Transformer:
    """One layer, one head, no positions: the mean of one-hot tokens, used values marked down."""
    V = tunnel.n_values
    sizes = {"n_layers": 1, "n_heads": 1, "width": V + 1, "hidden": 1, "positions": "none"}
    wanted = models.TransformerConfig.__dataclass_fields__
    given = {k: v for k, v in tunnel.interface.to_dict().items() if k in wanted}
    model = models.build("transformer", given | sizes | {"attention": attention}).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.tokens.weight[:V, V] = 1.0  # all keys look alike
        model.tokens.weight[V:, :V] = torch.eye(V)
        block = model.blocks[0]
        block.norm1.gain.fill_(1.0)
        block.attention.value.weight[:V, :V] = torch.eye(V) / math.sqrt(V + 1)
        block.attention.output.weight.copy_(-torch.eye(V + 1))
        model.norm.gain.fill_(gain)
    return model


def kl_by_formula(n_values: int, gain: float) -> torch.Tensor:
    """log2(1 + k / (V - k) exp(-gain m_k)), m_k the mark of a used value after k pairs."""
    k = torch.arange(n_values, dtype=torch.float64)
    mean_square = (1 + k / (2 * k + 1) ** 2) / (n_values + 1) + 1e-5
    mark = 1 / (2 * k + 1) / mean_square.sqrt() / math.sqrt(1 + 1e-5 * (n_values + 1))
    return (1 + k / (n_values - k) * (-gain * mark).exp()).log2()


@pytest.mark.parametrize("n_values", [2, 10, 20])
def test_a_network_of_uniform_attention_eliminates(n_values):
    tunnel, last = bw.tunnels.Bijection(n_values), math.inf
    for gain in (0.0, 10.0, 30.0, 100.0):
        score = bw.score(eliminator(tunnel, gain), tunnel, 32, rng=rng())
        expected = kl_by_formula(n_values, gain)
        assert torch.allclose(torch.tensor(score.per_position["kl"]), expected, atol=2e-6)
        assert score.kl < last
        last = score.kl
    assert last < 5e-5
    blind = bw.baselines.exact_baselines(n_values)["uniform"]["kl"]
    assert bw.score(eliminator(tunnel, 0.0), tunnel, 4, rng=rng()).kl == pytest.approx(blind)


def test_the_hand_built_network_cannot_bind():
    """Where keys come back it rules out the one value that must follow: the worse the surer it is."""
    tunnel = bw.tunnels.Bijection(10, with_replacement=True)
    kls = [bw.score(eliminator(tunnel, g), tunnel, 64, rng=rng()).kl for g in (10.0, 30.0, 100.0)]
    assert 1 < kls[0] < kls[1] < kls[2]


def test_its_attention_is_uniform_whatever_it_reads():
    tunnel = bw.tunnels.Bijection(6)
    (pattern,) = eliminator(tunnel, 30.0).attention_patterns(tunnel.sample(3, rng()).inputs)
    T = pattern.shape[-1]
    expected = torch.ones(T, T).tril() / torch.arange(1, T + 1)[:, None]
    assert torch.allclose(pattern, expected.expand_as(pattern), atol=1e-6)
    # Softmax attention with queries and keys of zero is the same map: nothing is lost with it.
    inputs = tunnel.sample(5, rng(2)).inputs
    both = [eliminator(tunnel, 30.0, kind).predict(inputs) for kind in ("uniform", "softmax")]
    assert torch.allclose(*both, atol=1e-6)
