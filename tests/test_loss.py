"""Posterior targets are the conditional expectation of sampled ones: same gradient, less noise.

First exactly, over all episodes of a small tunnel; then by redrawing outcomes many times.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from _support import rng
import bayeswind_lib as bw
from bayeswind_lib.training.loop import loss_bits
from bayeswind_lib.tunnels import Episodes


def network(tunnel, seed: int = 0):
    """A small network in float64 whose predictions are far from uniform."""
    wanted = bw.models.TransformerConfig.__dataclass_fields__
    config = {k: v for k, v in tunnel.interface.to_dict().items() if k in wanted}
    sizes = {"n_layers": 1, "n_heads": 2, "width": 8, "hidden": 8}
    model = bw.models.build("transformer", config | sizes, rng(seed)).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith("gain"):
                noise = torch.randn(parameter.shape, generator=rng(seed), dtype=torch.float64)
                parameter.copy_(0.5 * noise)
    return model


def gradient(model, episodes: Episodes, supervision: str) -> torch.Tensor:
    """The gradient of the loss in all parameters, one flat float64 vector.

    The readout is float32 by design, hence a tolerance of 1e-6 below.
    """
    loss = loss_bits(model(episodes.inputs), episodes, supervision)
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])


def every_episode(tunnel) -> Episodes:
    """Each equally likely episode once: all key orders with all bijections."""
    maps = list(itertools.permutations(range(tunnel.n_values)))
    keys = (
        itertools.product(range(tunnel.n_values), repeat=tunnel.n_pairs)
        if tunnel.with_replacement
        else itertools.permutations(range(tunnel.n_values), tunnel.n_pairs)
    )
    cases = [(k, [m[key] for key in k]) for k in keys for m in maps]
    return tunnel.episodes(*(torch.tensor(column) for column in zip(*cases, strict=True)))


@pytest.mark.parametrize("with_replacement", [False, True])
def test_over_all_episodes_both_supervisions_have_one_gradient(with_replacement):
    tunnel = bw.tunnels.Bijection(3, 3, with_replacement)
    episodes, model = every_episode(tunnel), network(tunnel)
    sampled = gradient(model, episodes, "sampled")
    exact = gradient(model, episodes, "posterior")
    assert sampled.norm() > 0.1
    assert torch.allclose(sampled, exact, atol=1e-6)
    one = episodes[3:4]  # in a single episode they differ, or the line above would say nothing
    assert not torch.allclose(gradient(model, one, "sampled"), gradient(model, one, "posterior"), atol=1e-2)


@pytest.mark.parametrize("with_replacement", [False, True])
def test_over_all_episodes_both_supervisions_have_one_loss(with_replacement):
    tunnel = bw.tunnels.Bijection(3, 3, with_replacement)
    episodes, model = every_episode(tunnel), network(tunnel)
    logits = model(episodes.inputs)
    sampled, exact = (loss_bits(logits, episodes, kind).item() for kind in ("sampled", "posterior"))
    assert sampled == pytest.approx(exact, abs=1e-6)
    # By hand: the oracle's entropy plus the divergence of the network from it, in bits.
    truth = episodes.posterior
    q = torch.softmax(logits.double(), -1)
    by_hand = -(truth * q.log2()).sum(-1).mean().item()
    assert exact == pytest.approx(by_hand, abs=1e-6)


def redrawn(episodes: Episodes, source: torch.Generator) -> Episodes:
    """The same contexts with every outcome drawn anew from its exact posterior."""
    rows = episodes.posterior.flatten(0, 1)
    targets = torch.multinomial(rows, 1, generator=source).view(episodes.targets.shape)
    return Episodes(episodes.inputs, targets, episodes.posterior)


def test_redrawn_outcomes_average_to_the_posterior_gradient():
    tunnel = bw.tunnels.Bijection(5)
    model, episodes, source = network(tunnel, 1), tunnel.sample(16, rng(2)), rng(3)
    # The gradient is linear in the targets, so draws can be pooled: 300 gradients of 16 episodes.
    draws = torch.stack([gradient(model, redrawn(episodes, source), "sampled") for _ in range(300)])
    exact = gradient(model, episodes, "posterior")
    error = draws.std(0) / math.sqrt(len(draws))
    moving = error > 1e-9
    z = ((draws.mean(0) - exact) / error)[moving]
    assert moving.sum() > 300
    # Coordinates are correlated, so the spread is loose; a wrong expectation is off by far more.
    assert 0.5 < z.pow(2).mean().sqrt() < 1.6
    assert z.abs().max() < 5
    # A single draw is far away: that is the noise which posterior targets remove.
    assert (draws - exact).norm(dim=1).mean() > 3 * (draws.mean(0) - exact).norm()


def test_the_oracle_is_the_minimiser_of_both():
    """At the exact posterior the expected gradient in the logits is zero for both supervisions."""
    tunnel = bw.tunnels.Bijection(4, 6, with_replacement=True)
    episodes = tunnel.sample(2000, rng(4))
    logits = episodes.posterior.clamp(min=1e-9).log().requires_grad_()
    (exact,) = torch.autograd.grad(loss_bits(logits, episodes, "posterior"), logits)
    assert exact.abs().max() < 1e-8
    (sampled,) = torch.autograd.grad(loss_bits(logits, episodes, "sampled"), logits)
    scaled = sampled * 2000 * 6 * math.log(2)  # q - onehot(target) at every position
    assert scaled.abs().max() > 0.5
    assert scaled.mean((0, 1)).abs().max() < 0.02


def test_loss_is_in_bits():
    tunnel = bw.tunnels.Bijection(8)
    episodes = tunnel.sample(4, rng())
    flat = torch.zeros(4, 8, 8)
    assert loss_bits(flat, episodes, "sampled").item() == pytest.approx(3.0, abs=1e-6)
    assert loss_bits(flat, episodes, "posterior").item() == pytest.approx(3.0, abs=1e-6)


def test_gaussian_posterior_targets_are_the_expectation_of_sampled_ones():
    """Redrawing y from the exact predictive, the sampled loss averages to the other."""
    tunnel = bw.tunnels.Regression(2, 4)
    episodes = tunnel.sample(6, rng())
    logits = torch.randn(6, 4, 2, generator=rng(1), dtype=torch.float64)
    expected = loss_bits(logits, episodes, "posterior")
    mean, variance = episodes.posterior.unbind(-1)
    noise = torch.randn(4000, 6, 4, generator=rng(2), dtype=torch.float64)
    drawn = [
        loss_bits(logits, Episodes(episodes.inputs, y, episodes.posterior, {}, "gaussian"), "sampled")
        for y in mean + variance.sqrt() * noise
    ]
    sample = torch.stack(drawn)
    error = sample.std() / len(sample) ** 0.5
    assert abs(sample.mean() - expected) < 5 * error
    assert error < 0.02 * expected


def test_the_gaussian_loss_of_the_truth_is_its_entropy():
    tunnel = bw.tunnels.Regression(2, 4)
    episodes = tunnel.sample(50, rng())
    logits = torch.stack([episodes.posterior[..., 0], episodes.posterior[..., 1].log()], dim=-1)
    entropy = bw.scoring.gaussian_entropy_bits(episodes.posterior).mean()
    assert loss_bits(logits, episodes, "posterior").item() == pytest.approx(entropy.item())
    worse = loss_bits(logits + 0.1, episodes, "posterior")
    assert worse > entropy + 1e-3
