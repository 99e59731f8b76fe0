"""Other runs of networks that a probe opened: which they are, and that each is read as the ledger reads the network itself."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bayeswind_lib import checkpoints, models, training
from bayeswind_lib.checkpoints.store import lookup
from bayeswind_lib.experiments import keys, queue, tried
from bayeswind_lib.ledger.claims import load_claims
from bayeswind_lib.training import plans

from tests._support import rng

PAIRED = "bijection-transformer-paired"


def test_other_rates_and_twice_the_budget_are_planned_for_every_network_that_is_read():
    for name in tried.READ:
        runs = [tried.run_of(cell) for cell in tried.cells() if cell.name == name]
        assert len(set(runs)) == len(runs) and runs.count("doubled") == 1
        assert len({run.split()[1] for run in runs if run.startswith("rate ") and not run.endswith("doubled")}) >= 3


def test_a_run_of_any_other_length_has_no_name():
    plain = queue.plain_recipes()["hmm-transformer"]
    assert plans.run_of(plain, plain.learning_rate, plain.steps // 4) == plans.run_of(plain, plain.learning_rate, plain.steps) == ""
    assert plans.run_of(plain, 0.5, plain.steps // 4) == "rate 0.5 shorter" and plans.run_of(plain, 0.5, 2 * plain.steps) == "rate 0.5 doubled"
    with pytest.raises(ValueError, match="a run of 7 updates: expected one of"):
        plans.run_of(plain, 0.5, 7)


def claims_of(name: str) -> list:
    """What the ledger asks of a network alone, in its records."""
    return [claim for claim in load_claims() if list(claim.opens) == [name] and claim.record in tried.READ[name] and not claim.missing]


def network(name: str):
    """A shipped network; or for the paired layout, of which none ships, a small untrained one."""
    if name != PAIRED:
        return checkpoints.load(name)
    small = {"n_layers": 2, "n_heads": 2, "width": 16, "hidden": 32}
    recipe = training.recipe("bijection", "transformer", "paper", variant="paired", model_config=small)
    model = models.build("transformer", training.loop.model_config(recipe), rng()).eval()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    model.record = {"parameters": parameters, "tunnel_config": recipe.tunnel_config, "sha256": "s"}
    return model


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A measured record: small networks stand in for runs, under the names of published ones."""
    cells = {name: next(cell for cell in tried.cells() if cell.name == name) for name in tried.READ}
    small = {"bijection-transformer": "bijection-transformer-classroom", "hmm-transformer": "hmm-transformer-classroom", PAIRED: PAIRED}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tried, "ended_cells", lambda all_cells, folder: [(cells[name], {"of": small[name]}) for name in small])
        patch.setattr(tried, "weights_of", lambda row, folder: row["of"])
        patch.setattr(tried, "checkpoints", SimpleNamespace(load_file=network))
        patch.setattr(tried.values, "COPIES", 2)
        patch.setattr(tried, "about", lambda row: {"key": "k"})
        return tried.measure(8, 2, tmp_path_factory.mktemp("records"), "a folder")["networks"]


@pytest.mark.parametrize("name", ["bijection-transformer", "hmm-transformer", PAIRED])
def test_what_the_ledger_asks_of_a_network_is_found_in_its_other_runs(runs, name):
    run, = runs[name]
    assert run.startswith("rate ") and len(claims_of(name)) >= (1 if name == PAIRED else 3)
    for claim in claims_of(name):
        entry = runs[name][run]
        assert isinstance(lookup(entry, f"{claim.record}/{claim.key}"), float | int), claim.id
        null = lookup(entry[claim.null["record"]], claim.null["key"])
        assert null is None or null["draws"] > 0, claim.id


def test_without_a_folder_what_is_stored_is_kept(tmp_path):
    kept = {"networks": {"x": {"doubled": {"key": "k"}}}}
    tried.store.write("probe_tried", kept, tmp_path)
    assert tried.measure(8, 2, tmp_path) == kept


def test_keys_of_a_network_of_the_queue_are_read_in_its_folder_and_kept_without_it(tmp_path, monkeypatch):
    monkeypatch.setattr(keys, "transformers", lambda: iter(()))
    monkeypatch.setattr(keys, "embeddings", dict)
    monkeypatch.setattr(keys, "COPIES", 2)
    monkeypatch.setattr(keys, "ended_cells", lambda cells, folder: [(cell, {}) for cell in cells if folder and cell.name == PAIRED])
    monkeypatch.setattr(keys, "weights_of", lambda row, folder: PAIRED)
    monkeypatch.setattr(keys, "checkpoints", SimpleNamespace(load_file=network))
    found = keys.measure(8, 2, tmp_path, "a folder")
    read = found["networks"][PAIRED]["0"]
    assert set(read) == {"sha256", "n_episodes", "heads"}  # one vocabulary: no sets of tokens to compare
    assert found["untrained"][PAIRED]["0"]["heads"]["largest"]["draws"] == 2
    keys.store.write("probe_keys", found, tmp_path)
    stored = keys.store.read("probe_keys", tmp_path)
    assert stored["networks"][PAIRED] and keys.measure(8, 2, tmp_path) == stored
