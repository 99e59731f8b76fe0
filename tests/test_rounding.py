"""Weights in eight bits: what a file holds comes back, and the network does what it did before."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
import torch

import bayeswind_lib as bw
from bayeswind_lib import checkpoints, tunnels
from bayeswind_lib.checkpoints import rounding
from bayeswind_lib.training import shipping
from bayeswind_lib.training.loop import start

PACKAGE = Path(bw.__file__).parent
ARCHITECTURES = ("transformer", "lstm", "mamba", "mlp")


def small(architecture: str) -> tuple[torch.nn.Module, tunnels.Bijection, torch.Tensor]:
    recipe = bw.training.recipe("bijection", architecture, "classroom")
    tunnel = tunnels.build(recipe.tunnel, recipe.tunnel_config)
    return start(recipe).model.eval(), tunnel, tunnel.sample(256, torch.Generator().manual_seed(1)).inputs


def error_of(x: torch.Tensor, steps: torch.Tensor, scale: torch.Tensor, read: torch.Tensor) -> float:
    """Mean square by which a rounded map misses what the map made of its inputs."""
    return float(((steps.float() * scale - x) @ read.T).square().mean())


def test_maps_are_rounded_for_the_inputs_they_read():
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(40, 64, generator=rng)
    read = torch.randn(500, 8, generator=rng) @ torch.randn(8, 64, generator=rng)  # of 64 directions 8 are used
    scale = rounding.scale_of(x)
    chosen = rounding.whole_numbers(x, scale, (read.T @ read).double())
    nearest = (x / scale).round()
    assert chosen.dtype == torch.int8 and chosen.shape == x.shape
    assert error_of(x, chosen, scale, read) < error_of(x, nearest, scale, read) / 20
    # Inputs that go everywhere alike leave nothing to gain.
    assert torch.equal(rounding.whole_numbers(x, scale, torch.eye(64, dtype=torch.float64)).float(), nearest)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_eight_bits_hold_the_large_maps_and_leave_the_rest_as_it_is(architecture):
    model, _, inputs = small(architecture)
    stored, before = rounding.smaller(model, inputs), model.state_dict()
    back = rounding.unpacked(stored)
    assert back.keys() == before.keys()
    rounded = {name for name in before if stored[name].dtype == torch.int8}
    assert sum(before[name].numel() for name in rounded) > 0.5 * sum(x.numel() for x in before.values())
    for name, x in before.items():
        assert back[name].dtype == torch.float32
        if name not in rounded:
            assert torch.equal(back[name], x), name
    was = model.predict(inputs)
    model.load_state_dict(back)
    assert (model.predict(inputs).exp2() - was.exp2()).abs().max() < 0.01


def test_every_layer_of_an_lstm_is_seen():
    lstm = torch.nn.LSTM(3, 4, num_layers=3, batch_first=True)
    inputs = torch.randn(2, 5, 3)
    layers = list(rounding._layers(lstm, inputs))
    assert torch.equal(layers[0][0], inputs) and torch.equal(layers[1][0], layers[0][1])
    assert torch.allclose(layers[-1][1], lstm(inputs)[0], atol=1e-6)


def test_a_network_in_eight_bits_is_saved_and_loaded(tmp_path):
    model, tunnel, inputs = small("transformer")
    record = {"architecture": "transformer", "config": model.config.to_dict(), "tunnel": "bijection", "tunnel_config": tunnel.config}
    with pytest.raises(ValueError, match="give inputs"):
        checkpoints.save(model, record, "bijection-transformer-eight", 0, tmp_path, torch.int8)
    path = checkpoints.save(model, record, "bijection-transformer-eight", 0, tmp_path, torch.int8, inputs)
    again = checkpoints.load_file(path)
    assert again.record["dtype"] == "int8"
    for name, x in rounding.unpacked(rounding.smaller(model, inputs)).items():
        assert torch.equal(again.state_dict()[name], x)
    whole = checkpoints.save(model, record, "bijection-transformer-whole", 0, tmp_path)
    assert path.stat().st_size < 0.5 * whole.stat().st_size


@pytest.mark.parametrize(("what", "before", "after", "kept"), [
    ("two percent", 0.1, 0.1019, True), ("more", 0.1, 0.1022, False), ("less", 0.1, 0.0978, False),
    ("half a standard error", 1e-3, 1.4e-3, True), ("beneath what is shown", 1e-9, 2e-8, True),
    ("infinite still", "inf", "inf", True), ("infinite now", 0.1, "inf", False),
])
def test_which_scores_count_as_kept(what, before, after, kept):
    error = 1e-3 if what == "half a standard error" else 1e-9
    assert shipping._is_kept("kl", {"kl": before, "kl_se": error}, {"kl": after}) == kept, what


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A folder that stands for the one that ships, with one network in float16."""
    record = checkpoints.load("bijection-transformer-classroom", 1).record
    recipe = bw.training.Recipe.from_dict(record["recipe"] | {"steps": 60, "warmup_steps": 5})
    model, made = bw.training.train(recipe, progress=False)
    made["scores"] = bw.training.final_score(model, recipe.tunnel, recipe.tunnel_config, 64).to_dict()
    monkeypatch.setenv("BAYESWIND_WEIGHTS", str(tmp_path))
    return checkpoints.save(model, made, "bijection-transformer-classroom", 1, tmp_path, torch.float16)


def test_a_shipped_network_shrinks_only_if_its_score_stays(shipped, monkeypatch):
    name, before = "bijection-transformer-classroom", shipped.read_bytes()
    monkeypatch.setattr(shipping, "_is_kept", lambda key, *scores: False)
    assert bw.training.shrink(name, 1) is None
    assert shipped.read_bytes() == before
    monkeypatch.undo()
    monkeypatch.setenv("BAYESWIND_WEIGHTS", str(shipped.parent))
    moved = bw.training.shrink(name, 1)
    assert 0 < max(map(abs, moved.values())) < 0.05
    assert shipped.stat().st_size < 0.65 * len(before)
    record = checkpoints.load(name, 1).record
    assert record["dtype"] == "int8"
    again = bw.training.final_score(checkpoints.load(name, 1), "bijection", record["tunnel_config"], 64)
    assert record["scores"]["kl"] == pytest.approx(again.kl, rel=1e-6)  # of what is stored
    assert record["rounding"] == pytest.approx(moved)
    assert bw.training.shrink(name, 1) is None


def test_what_colab_installs_is_at_most_26_megabytes():
    """The package as a wheel holds it: every file deflated into one archive."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in sorted(PACKAGE.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                wheel.write(file, file.relative_to(PACKAGE.parent))
    assert archive.tell() <= 26e6, f"{archive.tell() / 1e6:.1f} MB"
