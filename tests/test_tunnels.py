"""What every tunnel keeps to: one seed is one stream of episodes everywhere, and a config is the whole of a tunnel."""

from __future__ import annotations

import pytest
import torch
from _support import DEVICES, rng

from bayeswind_lib import tunnels

# By tunnel: every setting of its config, none of them the default; some of them in more than one way.
SETTINGS = [
    ("bijection", {"n_values": 7, "n_pairs": 6, "with_replacement": True}), ("bijection", {"n_values": 7, "n_pairs": 6, "with_replacement": False}),
    *(("hmm", {"n_states": 4, "n_symbols": 3, "length": 6, "generator": generator, "header": header, "transition_first": True, "sticky": 1.5,
               "fixed": None, "predicts": "next_symbol"}) for generator, header in (("grid", "rows"), ("grid", "tokens"), ("raw", "rows"))),
    ("hmm", {"n_states": 3, "n_symbols": 4, "length": 6, "generator": "raw", "header": "none", "transition_first": True, "sticky": 2.5,
             "fixed": 7, "predicts": "next_symbol"}),
    ("recall", {"n_pairs": 5, "n_queries": 3, "n_keys": 9, "n_values": 8, "filler": 4}),
    ("regression", {"n_dims": 3, "n_pairs": 7, "noise": 1.0}),
    ("recurrence", {"modulus": 5, "length": 6, "tokens": "opaque", "prefixes": "held_out", "bucket": 1}),
    ("bijection_set", {"n_values": 5, "n_maps": 9, "map_seed": 2, "n_pairs": 4}),
    ("composition", {"n_values": 5, "n_pairs": 6, "which": "train"}),
]  # fmt: skip
each = pytest.mark.parametrize(("name", "config"), SETTINGS, ids=lambda what: what if isinstance(what, str) else "")
DEFAULTS = {
    "bijection": {"n_values": 20, "n_pairs": 20, "with_replacement": False},
    "recall": {"n_pairs": 64, "n_queries": 3, "n_keys": 256, "n_values": 256, "filler": 32},
    "regression": {"n_dims": 8, "n_pairs": 20, "noise": 0.5},
}


@each
def test_a_seed_names_the_same_episodes_on_every_device(name, config):
    tunnel = tunnels.build(name, config)
    first = tunnel.sample(33, rng(5))
    for device in [None, "cpu", torch.device("cpu"), *DEVICES]:
        again = tunnel.sample(33, rng(5), device)
        assert torch.equal(first.inputs, again.inputs.cpu()) and torch.equal(first.targets, again.targets.cpu())
        assert torch.allclose(first.posterior, again.posterior.cpu(), rtol=1e-13, atol=1e-13)
        assert torch.allclose(first.posterior, tunnel.posterior(again.inputs).cpu(), rtol=1e-13, atol=1e-13)
        assert device is None or again.inputs.device.type == torch.device(device).type
    assert not torch.equal(first.inputs, tunnel.sample(33, rng(6)).inputs)


@each
def test_randomness_comes_from_the_generator_alone(name, config):
    torch.manual_seed(1)
    before, source = torch.get_rng_state(), rng(5)
    tunnel = tunnels.build(name, config)
    first = tunnel.sample(8, source)
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(first.inputs, tunnel.sample(8, source).inputs)  # the stream goes on


@each
def test_a_config_builds_the_same_tunnel_again(name, config):
    tunnel = tunnels.build(name, config)
    again = tunnels.build(name, tunnel.config)
    assert again.config == tunnel.config and config.items() <= tunnel.config.items() and tunnel.name == name
    first, second = (one.sample(3, rng()) for one in (tunnel, again))
    assert torch.equal(first.inputs, second.inputs) and torch.equal(first.posterior, second.posterior)
    assert f"{next(iter(config))}={next(iter(config.values()))}" in repr(tunnel)


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_the_published_sizes(name):
    built = tunnels.build(name, {"n_values": 20} if name == "bijection" else {})
    assert built.config == DEFAULTS[name]
