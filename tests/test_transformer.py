"""The transformer: its size by formula, its causality bit for bit, and a second implementation."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from _support import rng
import bayeswind_lib as bw
from bayeswind_lib import models

TUNNEL = bw.tunnels.Bijection(6, 5)
SIZES = {"n_layers": 3, "n_heads": 2, "width": 16, "hidden": 40}


def config_for(tunnel, **sizes) -> dict:
    wanted = models.TransformerConfig.__dataclass_fields__
    given = {k: v for k, v in tunnel.interface.to_dict().items() if k in wanted}
    return given | sizes


def lively(seed: int = 0, tunnel=TUNNEL, **changes) -> models.Transformer:
    """A network whose weights are large enough that attention is far from uniform."""
    model = bw.models.build("transformer", config_for(tunnel, **SIZES | changes), rng(seed))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=rng(seed + len(name)))
            parameter.copy_(1 + 0.3 * noise if name.endswith("gain") else 0.4 * noise)
    return model.eval()


def inputs(batch: int = 4, seed: int = 1) -> torch.Tensor:
    return TUNNEL.sample(batch, rng(seed)).inputs


# Size.


def test_the_published_network_has_the_published_size():
    config = models.TransformerConfig(**config_for(bw.tunnels.Bijection(20)))
    assert (config.n_layers, config.n_heads, config.width, config.hidden) == (6, 6, 192, 768)
    assert config.n_parameters == 2_677_632
    assert bw.models.count_parameters(models.Transformer(config)) == 2_677_632
    # Spelt out: tokens, positions, six blocks (attention, up, its bias, down, its bias, two norms), norm.
    by_hand = 40 * 192 + 39 * 192 + 6 * (4 * 192**2 + 192 * 768 + 768 + 768 * 192 + 192 + 2 * 192)
    assert by_hand + 192 == 2_677_632


# A second implementation, from PyTorch's own layers, with the same weights.


class Second(nn.Module):
    """`nn.MultiheadAttention`, `nn.LayerNorm`-free blocks assembled by hand, one position at a time."""

    def __init__(self, model: models.Transformer):
        super().__init__()
        self.config, self.given = model.config, dict(model.named_parameters())
        c = model.config
        self.attention = nn.ModuleList(
            nn.MultiheadAttention(c.width, c.n_heads, bias=False, batch_first=True)
            for _ in range(c.n_layers)
        )
        for i, layer in enumerate(self.attention):
            stack = [self.given[f"blocks.{i}.attention.{n}.weight"] for n in ("query", "key", "value")]
            layer.in_proj_weight.data = torch.cat(stack)
            layer.out_proj.weight.data = self.given[f"blocks.{i}.attention.output.weight"].data

    def normed(self, x, name):
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * self.given[f"{name}.gain"]

    def forward(self, tokens):
        length = tokens.shape[1]
        hide = torch.full((length, length), float("-inf")).triu(1)
        x = self.given["tokens.weight"][tokens] + self.given["positions.weight"][None, :length]
        patterns = []
        for i, layer in enumerate(self.attention):
            n = self.normed(x, f"blocks.{i}.norm1")
            mixed, pattern = layer(n, n, n, attn_mask=hide, average_attn_weights=False)
            patterns.append(pattern)
            x = x + mixed
            n = self.normed(x, f"blocks.{i}.norm2")
            up, down = (f"blocks.{i}.feed_forward.{part}" for part in ("up", "down"))
            hidden = n @ self.given[f"{up}.weight"].T + self.given[f"{up}.bias"]
            hidden = hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2
            x = x + hidden @ self.given[f"{down}.weight"].T + self.given[f"{down}.bias"]
        x = self.normed(x, "norm")
        logits = x @ self.given["tokens.weight"].T  # over all tokens, at all positions
        first, count = self.config.first_output_token, self.config.n_outputs
        return logits[:, ::2, first : first + count], patterns


@pytest.mark.parametrize("seed", [0, 1, 2])
@torch.no_grad()
def test_a_second_implementation_agrees(seed):
    model = lively(seed)
    logits, patterns = Second(model)(inputs())
    assert (model(inputs()) - logits).abs().max() < 1e-5 * max(1, logits.abs().max())
    for own, other in zip(model.attention_patterns(inputs()), patterns, strict=True):
        assert torch.allclose(own, other, atol=1e-5)


@torch.no_grad()
def test_a_convolution_adds_weighted_neighbours_before_the_first_layer():
    """By hand: token t gets sum over i of w[:, c - 1 - i] * x[t - i], plus a bias; then all as before."""
    model = lively(convolution=3)
    weight, bias = model.convolution.weight[:, 0], model.convolution.bias  # (D, 3), (D,)
    x = model.embed(inputs())
    by_hand = x + bias
    for i in range(3):
        by_hand[:, i:] += weight[:, 2 - i] * x[:, : x.shape[1] - i]
    model.config = dataclasses.replace(model.config, convolution=0)
    expected = model.read_out(model.trunk(by_hand)[:, model.scored_positions(x.shape[1])])
    assert torch.allclose(lively(convolution=3)(inputs()), expected, atol=1e-5)


def test_a_convolution_is_counted_and_causal():
    config = models.TransformerConfig(**config_for(TUNNEL, **SIZES), convolution=4)
    model = models.Transformer(config).initialise(torch.Generator().manual_seed(0))
    assert bw.models.count_parameters(model) == config.n_parameters
    assert 0.2 < model.convolution.weight.std() < 0.4  # uniform within 1 / sqrt(4)
    changed = inputs().clone()
    changed[:, -1] = (changed[:, -1] + 1) % 6
    before, after = model(inputs()), model(changed)
    assert torch.equal(before[:, :-1], after[:, :-1]) and not torch.equal(before[:, -1], after[:, -1])
    with pytest.raises(ValueError, match="convolution is -1: give a number of tokens, or 0"):
        models.TransformerConfig(**config_for(TUNNEL, **SIZES), convolution=-1)


# Causality.


def test_gradients_do_not_flow_backwards_in_time():
    model = lively()
    embedded = model.tokens(inputs()).detach().requires_grad_()
    x = embedded + model.positions.weight[: embedded.shape[1]]
    for block in model.blocks:
        x = block(x)
    (gradient,) = torch.autograd.grad(x[:, 4].sum(), embedded)
    assert (gradient[:, 5:] == 0).all()
    assert (gradient[:, :5].abs().sum((0, 2)) > 0).all()


# Attention patterns.


@torch.no_grad()
def test_attention_rows_are_causal_distributions():
    patterns = lively().attention_patterns(inputs())
    assert len(patterns) == 3
    for pattern in patterns:
        assert pattern.shape == (4, 2, 9, 9)
        assert torch.allclose(pattern.sum(-1), torch.ones(()), atol=1e-6)
        assert (pattern.triu(1) == 0).all()
        assert (pattern.tril() >= 0).all()
        assert (pattern[..., 0, 0] == 1).all()
        uniform = torch.ones(9, 9).tril() / torch.arange(1, 10)[:, None]
        assert (pattern - uniform).abs().max() > 0.2  # a lively network: the test has power


@torch.no_grad()
def test_attention_patterns_equal_an_einsum_of_queries_and_keys():
    model, seen = lively(), []
    hooks = [b.norm1.register_forward_hook(lambda m, i, out: seen.append(out)) for b in model.blocks]
    patterns = model.attention_patterns(inputs())
    for hook in hooks:
        hook.remove()
    for block, stream, pattern in zip(model.blocks, seen, patterns, strict=True):
        query, key = (
            getattr(block.attention, n).weight.double().view(2, 8, 16) for n in ("query", "key")
        )
        scores = torch.einsum("btd,hcd,hce,bse->bhts", stream.double(), query, key, stream.double())
        scores = scores / math.sqrt(8)
        visible = torch.exp(scores) * torch.ones(9, 9).tril()
        expected = visible / visible.sum(-1, keepdim=True)
        assert torch.allclose(pattern.double(), expected, atol=1e-6)


@torch.no_grad()
def test_looking_at_attention_changes_nothing_and_leaves_no_hook():
    model = lively()
    before = model(inputs())
    model.attention_patterns(inputs())
    assert torch.equal(model(inputs()), before)
    assert not any(block.attention.pattern._forward_hooks for block in model.blocks)
    with pytest.raises(ValueError, match="positions"):
        model.attention_patterns(torch.zeros(1, 10, dtype=torch.long))
    assert not any(block.attention.pattern._forward_hooks for block in model.blocks)


@torch.no_grad()
def test_a_hook_on_the_pattern_changes_what_the_network_does():
    """The one place to look is also the one place to intervene."""
    model, before = lively(), lively()(inputs())
    frozen = torch.ones(9, 9).tril() / torch.arange(1, 10)[:, None]
    model.blocks[0].attention.pattern.register_forward_hook(lambda m, i, out: frozen.expand_as(out))
    assert not torch.allclose(model(inputs()), before, atol=1e-3)


# Predictions, initial weights, refusals.


def test_initial_weights_have_the_stated_sizes():
    config = config_for(bw.tunnels.Bijection(20), n_layers=2)
    weights = bw.models.build("transformer", config, rng()).state_dict()
    for name, tensor in weights.items():
        if name.endswith("gain"):
            assert (tensor == 1).all(), name
        elif name.endswith("bias"):
            assert (tensor == 0).all(), name
        else:
            into_stream = name.endswith(("attention.output.weight", "feed_forward.down.weight"))
            expected = 0.02 / math.sqrt(4) if into_stream else 0.02
            assert tensor.std().item() == pytest.approx(expected, rel=0.05), name
            assert abs(tensor.mean().item()) < 5 * expected / math.sqrt(tensor.numel()), name


def test_an_untrained_network_is_nearly_uniform():
    model = bw.models.build("transformer", config_for(bw.tunnels.Bijection(20)), rng())
    log2_prob = model.predict(bw.tunnels.Bijection(20).sample(16, rng()).inputs)
    entropy = bw.scoring.entropy_bits(log2_prob)
    assert (entropy - math.log2(20)).abs().max() < 0.3


REFUSED = {
    "too long": (lambda: lively()(torch.zeros(1, 10, dtype=torch.long)), "10 tokens.*only 9 learned"),
    "uneven heads": (
        lambda: models.TransformerConfig(**config_for(TUNNEL, width=16, n_heads=3)),
        "width is 16 and n_heads is 3",
    ),
    "scored beyond the end": (
        lambda: models.TransformerConfig(**config_for(TUNNEL) | {"n_positions": 8}),
        "position 8 is to be scored, but n_positions is 8",
    ),
    "unknown architecture": (lambda: bw.models.build("perceptron", {}), "'perceptron': choose one"),
    "unknown size": (
        lambda: bw.models.build("transformer", config_for(TUNNEL, depth=3)), "transformer: .*depth",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_networks_are_refused(case):
    call, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        call()


# Readable in one sitting.

FORWARD = ("forward", "heads")
NO_TENSOR = ("first", "T", "B, T, D")  # left-hand sides that hold plain numbers


def tensor_lines(path: Path) -> list[str]:
    """Lines of forward passes that make a tensor: assignments and returns.

    A function of one line may give its shapes beside its name or in its docstring instead.
    """
    lines, found = path.read_text().splitlines(), []
    tree = ast.parse(path.read_text())
    # The two passes of a hand-written derivative are tested against autograd instead.
    written = [c for c in ast.walk(tree) if isinstance(c, ast.ClassDef) and any("Function" in ast.unparse(base) for base in c.bases)]
    inside = {id(node) for cls in written for node in ast.walk(cls)}
    for node in ast.walk(tree):
        if id(node) in inside or not (isinstance(node, ast.FunctionDef) and node.name in FORWARD):
            continue
        heading = lines[node.lineno - 1] + (ast.get_docstring(node) or "")
        body = [line for line in node.body if not isinstance(line, ast.Expr)]
        for statement in ast.walk(node):
            if isinstance(statement, ast.Assign):
                if ast.unparse(statement.targets[0]).strip("()") in NO_TENSOR:
                    continue
            elif not isinstance(statement, ast.Return):
                continue
            line = lines[statement.end_lineno - 1].strip()
            found.append(line + (heading if len(body) == 1 else ""))
    return found


@pytest.mark.parametrize("name", sorted(models.ARCHITECTURES))
def test_every_tensor_line_says_its_shape(name):
    path = Path(inspect.getfile(models.ARCHITECTURES[name]))
    lines = tensor_lines(path)
    assert len(lines) >= {"transformer": 10}.get(name, 0)
    assert not [line for line in lines if not re.search(r"\([A-Z](, [A-Z])*\)", line)]


def test_the_transformer_is_readable_in_one_sitting():
    source = Path(inspect.getfile(models.Transformer)).read_text()
    assert len(source.splitlines()) <= 300
    assert "scaled_dot_product_attention" not in source  # no second way to compute attention


def test_functional_attention_of_pytorch_agrees_with_one_layer():
    """A third opinion on a single layer: the fused kernel that the book does not use."""
    layer = lively().blocks[0].attention
    x = torch.randn(3, 9, 16, generator=rng(7))
    q, k, v = (layer.heads(part(x)) for part in (layer.query, layer.key, layer.value))
    fused = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    expected = layer.output(fused.transpose(1, 2).flatten(2))
    assert torch.allclose(layer(x), expected, atol=1e-5)
