"""Weights kept on the way: what comes back from the file is what was put in, within its rounding."""

from __future__ import annotations

import json

import pytest
import torch

import bayeswind_lib as bw
from bayeswind_lib.checkpoints import CheckpointError, rounding, snapshots
from bayeswind_lib.training import plans, sweep
from bayeswind_lib.training import ship_snapshots


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A finished run with snapshots: its row and the folder of its sweep."""
    folder = tmp_path_factory.mktemp("sweep")
    cell = plans.cell("bijection", "transformer", preset="smoke", n_snapshots=4)
    (row,) = sweep([cell], folder, None, 0, 1, lambda words: None, 16, "cpu")
    return row, folder


def test_a_file_holds_every_snapshot_and_the_start(kept, tmp_path):
    row, folder = kept
    path = ship_snapshots(row, folder, tmp_path, n_episodes=20)
    assert path == tmp_path / "snapshots" / "bijection-transformer-smoke-seed0.safetensors"
    found = bw.checkpoints.load_snapshots("bijection-transformer-smoke", 0, tmp_path)
    assert found.steps == [0, 1, 2, 4, 8]
    recipe = bw.training.Recipe.from_dict(found.note["recipe"])
    first = bw.training.loop.start(recipe).model
    for name, x in first.state_dict().items():
        step = x.abs().amax(-1, keepdim=True) / 127 if x.ndim > 1 else 1e-3 * x.abs()
        assert ((found.weights[0][name] - x).abs() <= step / 2 + 1e-7).all(), name
    last = bw.checkpoints.load_file(sweep_weights(row, folder))
    ours, theirs = found.network(8), last
    inputs = bw.tunnels.Bijection(4).sample(20, torch.Generator().manual_seed(0)).inputs
    assert (ours.predict(inputs) - theirs.predict(inputs)).abs().max() < 0.05
    assert found.network(4).record["step"] == 4 and not any(p.requires_grad for p in ours.parameters())


def test_snapshots_come_back_in_the_order_of_their_steps(tmp_path):
    """Not in that of the file's names, where 100 stands before 20."""
    note = dict.fromkeys(snapshots.NOTED, 0) | {"name": "mine"}
    snapshots.save_snapshots({step: {"gain": torch.ones(2)} for step in (100, 3, 0, 20)}, note, tmp_path)
    assert snapshots.load_snapshots("mine", 0, tmp_path).steps == [0, 3, 20, 100]


def sweep_weights(row, folder):
    return bw.checkpoints.path_of(row["name"], row["seed"], folder / "weights" / row["key"])


def test_the_note_says_what_rounding_costs(kept, tmp_path):
    row, folder = kept
    ship_snapshots(row, folder, tmp_path, n_episodes=20)
    note = bw.checkpoints.load_snapshots(row["name"], 0, tmp_path).note
    assert list(note["kl"]) == list(note["kl_stored"]) == ["0", "1", "2", "4", "8"]
    model = bw.checkpoints.load_snapshots(row["name"], 0, tmp_path).network(8)
    again = bw.training.final_score(model, "bijection", {"n_values": 4}, 20).kl
    assert again == pytest.approx(note["kl_stored"]["8"], abs=1e-6)
    assert note["kl"]["8"] == pytest.approx(note["kl_stored"]["8"], abs=0.02)
    assert json.loads(json.dumps(note)) == note


def test_some_of_the_snapshots_are_enough_and_the_ends_always_go_in(kept, tmp_path):
    row, folder = kept
    path = ship_snapshots(row, folder, tmp_path, n_episodes=4, steps=[2])
    found = bw.checkpoints.load_snapshots(row["name"], 0, path.parents[1])
    assert found.steps == [0, 2, 8] and list(found.note["kl"]) == ["0", "2", "8"]
    with pytest.raises(ValueError, match="kept no snapshot of step 3, 5"):
        ship_snapshots(row, folder, tmp_path, steps=[2, 3, 5])


def test_rounding_is_at_most_half_a_step_of_each_row():
    x = {"map": torch.randn(7, 5, generator=torch.Generator().manual_seed(0)), "gain": torch.ones(3), "zero": torch.zeros(2, 2)}
    back = rounding.unpacked(rounding.packed(x))
    assert (back["map"] - x["map"]).abs().max() <= x["map"].abs().amax(-1).max() / 254 + 1e-7
    assert torch.equal(back["gain"], x["gain"]) and torch.equal(back["zero"], x["zero"])
    assert {name: y.dtype for name, y in back.items()} == dict.fromkeys(x, torch.float32)


def test_what_is_missing_or_foreign_is_refused(kept, tmp_path):
    row, folder = kept
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        bw.checkpoints.load_snapshots("nobody", 0, tmp_path)
    model = bw.checkpoints.load_file(sweep_weights(row, folder))
    snapshots.path_of_snapshots("plain", 0, tmp_path).parent.mkdir(parents=True)
    snapshots.write_tensors(snapshots.path_of_snapshots("plain", 0, tmp_path), model.state_dict())
    with pytest.raises(CheckpointError, match="not a file of snapshots"):
        bw.checkpoints.load_snapshots("plain", 0, tmp_path)
    with pytest.raises(ValueError, match="lack seed, architecture"):
        bw.checkpoints.save_snapshots({0: model.state_dict()}, {"name": "x"}, tmp_path)
    found = bw.checkpoints.load_snapshots(row["name"], 0, ship_snapshots(row, folder, tmp_path, 4).parents[1])
    with pytest.raises(ValueError, match="no snapshot of step 3: choose one of 0, 1, 2, 4, 8"):
        found.network(3)


def test_a_run_without_snapshots_is_told(tmp_path):
    cell = plans.cell("bijection", "transformer", preset="smoke")
    (row,) = sweep([cell], tmp_path, None, 0, 1, lambda words: None, 16, "cpu")
    with pytest.raises(ValueError, match="kept no snapshots"):
        ship_snapshots(row, tmp_path, tmp_path)


def test_the_plan_keeps_twenty_of_each_run():
    cells = plans.plan("snapshots")
    assert len(cells) == 12 and {cell.recipe.schedule for cell in cells} == {"linear", "constant"}
    assert all(len(cell.recipe.snapshot_steps) >= 20 for cell in cells)
    assert len({cell.name for cell in cells}) == 4
