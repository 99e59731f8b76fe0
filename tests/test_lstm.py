"""The LSTM: its size by formula, its recurrence written out, its causality, its initial weights."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from _support import rng
import bayeswind_lib as bw
from bayeswind_lib import models

TUNNEL = bw.tunnels.Bijection(5)


def network(tunnel=TUNNEL, seed: int = 0, **sizes) -> models.LSTM:
    wanted = models.LSTMConfig.__dataclass_fields__
    config = {k: v for k, v in tunnel.interface.to_dict().items() if k in wanted}
    return models.build("lstm", config | {"n_layers": 2, "width": 12} | sizes, rng(seed)).eval()


def written_out(model: models.LSTM, x: torch.Tensor) -> torch.Tensor:
    """The recurrence step by step, from its equations: gates input, forget, cell, output."""
    for layer in range(model.config.n_layers):
        w, u, b, c = (
            getattr(model.layers, f"{name}_l{layer}")
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        hidden = cell = x.new_zeros(x.shape[0], model.config.width)
        outputs = []
        for t in range(x.shape[1]):
            i, f, g, o = (x[:, t] @ w.T + b + hidden @ u.T + c).chunk(4, dim=-1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            outputs.append(hidden)
        x = torch.stack(outputs, dim=1)
    return F.layer_norm(x, x.shape[-1:], model.norm.weight, model.norm.bias)


@pytest.mark.parametrize("tunnel", [TUNNEL, bw.tunnels.Regression(2, 4), bw.tunnels.HMM(3, 3, 5)])
def test_the_recurrence_is_the_textbook_one(tunnel):
    model = network(tunnel)
    inputs = tunnel.sample(4, rng(1)).inputs
    x = model.embed(inputs)
    assert torch.allclose(model.trunk(x), written_out(model, x), atol=1e-5)
    assert models.count_parameters(model) == model.config.n_parameters


def test_a_convolution_adds_the_neighbours_and_sees_nothing_ahead():
    model, inputs = network(convolution=3), TUNNEL.sample(4, rng(1)).inputs
    x, kernel = model.embed(inputs), model.convolution.weight[:, 0]  # (B, T, D), (D, 3)
    padded = F.pad(x, (0, 0, 2, 0))
    seen = x + model.convolution.bias + sum(kernel[:, i] * padded[:, i : i + x.shape[1]] for i in range(3))
    assert torch.allclose(model.trunk(x), written_out(model, seen), atol=1e-5)
    assert models.count_parameters(model) == model.config.n_parameters == network().config.n_parameters + 4 * 12
    with pytest.raises(ValueError, match="convolution is -1: give a number of tokens"):
        network(convolution=-1)


def test_the_published_stack_has_the_published_size():
    """Paper I's bijection LSTM: six layers of 192; the notes print 1.80 million, tied 1,794,048."""
    model = network(bw.tunnels.Bijection(20), n_layers=6, width=192)
    recurrent = sum(p.numel() for p in model.layers.parameters())
    assert recurrent == 6 * (8 * 192**2 + 8 * 192)
    assert model.config.n_parameters == recurrent + 40 * 192 + 2 * 192


def test_a_fresh_network_remembers_and_says_little():
    model = network(width=64)
    D = 64
    for layer in range(2):
        bias = getattr(model.layers, f"bias_ih_l{layer}")
        assert torch.equal(bias[D : 2 * D], torch.ones(D))
        assert torch.equal(bias[:D], torch.zeros(D))
        gates = getattr(model.layers, f"weight_hh_l{layer}").split(D)
        assert all(torch.allclose(g @ g.T, torch.eye(D), atol=1e-4) for g in gates)
    prediction = model.predict(TUNNEL.sample(64, rng()).inputs)
    assert (prediction.exp2() - 1 / 5).abs().mean() < 0.15
