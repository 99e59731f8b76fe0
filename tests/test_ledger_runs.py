"""Training runs in the ledger: which rows are evidence, when a failure counts, what the page shows.

The rows here are invented, in the shape that a sweep writes; their recipes are those of the plans.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from html.parser import HTMLParser

import pytest
from _support import ROOT

import bayeswind_lib as bw
from bayeswind_lib.experiments import queue
from bayeswind_lib.ledger import architectures, baselines, store, trained
from bayeswind_lib.ledger.claims import load_claims
from bayeswind_lib.ledger.status import Null, controls_suffice, gather, judge
from bayeswind_lib.training.plans import PLANS, plan

FIELDS = ("optimiser", "learning_rate", "matrix_learning_rate", "supervision", "steps", "batch_size")


def row(cell, **changes) -> dict:
    """What a sweep would store of a cell, had it scored so."""
    recipe = cell.recipe
    parts = cell.name.removeprefix(f"{recipe.tunnel}-{recipe.architecture}-classroom").lstrip("-")
    return (
        {"key": cell.key, "name": cell.name, "variant": parts or None, "preset": cell.preset}
        | {"tunnel": recipe.tunnel, "architecture": recipe.architecture, "seed": recipe.seed}
        | {"tunnel_config": bw.tunnels.build(recipe.tunnel, recipe.tunnel_config).config}
        | {"recipe_tag": recipe.tag, "schedule_ended": True, "device": "cpu", "commit": "c" * 40}
        | {"parameters": 150_000, "seconds": 120.0, "episodes": recipe.steps * recipe.batch_size}
        | {name: getattr(recipe, name) for name in FIELDS}
        | {"entropy_mae": 0.01, "entropy_mae_se": 1e-4, "kl": 0.002, "kl_se": 1e-5, "tv": 0.01}
        | {"tv_se": 1e-4, "accuracy": None, "n_episodes": 2000}
        | {"episodes_to": {"0.1": 6400, "0.03": 12_800, "0.01": None}}
        | changes
    )


def cells(plan_name: str, name: str) -> list:
    return [cell for cell in plan(plan_name) if cell.name == name]


def plain(name: str, values=(0.41, 0.41, 0.41), **changes) -> list[dict]:
    """The plain runs of a classroom network, one a seed, with these entropy errors (KL the same)."""
    groups = [g for g in PLANS if g not in trained.CONTROLS]
    found = next((some for some in (cells(g, name) for g in groups) if some), None)
    found = found or [entry.cell for entry in queue.entries() if entry.cell.name == name and entry.plain]
    return [
        row(cell, entropy_mae=value, kl=value, **changes)
        for cell, value in zip(found, values, strict=False)
    ]


def controls(name: str, kl: float, best: float | None = None, doubled: float | None = None) -> list[dict]:
    """Runs at the four other rates (the last with KL `best`) and one of twice the budget.

    Their entropy errors are the same numbers.
    """
    rates = [kl, kl, kl, kl if best is None else best]
    runs = list(zip(cells("rates", name), rates, strict=True))
    runs += [(cell, kl if doubled is None else doubled) for cell in cells("doubled", name)]
    return [row(cell, kl=value, entropy_mae=value) for cell, value in runs]


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A folder of records, the real reference points in it, and a way to store invented runs."""
    for name in baselines.RECORDS.values():
        record = store.read(name)
        if record is not None:
            (tmp_path / f"{name}.json").write_text(json.dumps(record))
    monkeypatch.setenv("BAYESWIND_RECORDS", str(tmp_path))

    def put(rows: list[dict]) -> None:
        (tmp_path / "runs.json").write_text(json.dumps({"runs": rows}))

    return put


# -- the rows, and what they are to their name


def test_without_a_record_there_are_no_runs(stored):
    assert bw.ledger.runs() == [] and bw.ledger.record("runs") == {"runs": []}


def test_runs_are_filtered_by_name_plan_and_fields_and_sorted(stored):
    lstm, mlp = plain("hmm-lstm-classroom"), plain("hmm-mlp-classroom")
    stored([*reversed(lstm), *mlp, *controls("hmm-lstm-classroom", 0.41)])
    assert [r["seed"] for r in bw.ledger.runs("hmm-lstm-classroom", plan="architectures")] == [0, 1, 2]
    assert len(bw.ledger.runs("hmm-lstm-classroom")) == 3 + 5
    assert len(bw.ledger.runs(plan="rates")) == 4 and len(bw.ledger.runs(plan="doubled")) == 1
    assert {r["name"] for r in bw.ledger.runs(seed=1)} == {"hmm-lstm-classroom", "hmm-mlp-classroom"}
    assert bw.ledger.runs(architecture="mlp", plan="rates") == []
    with pytest.raises(ValueError, match="no field colour"):
        bw.ledger.runs(colour="red")
    with pytest.raises(ValueError, match="no plan is called"):
        bw.ledger.runs(plan="nothing")


def test_means_over_seeds_count_what_has_the_measure():
    rows = plain("hmm-lstm-classroom", (0.2, 0.3, 0.4))
    mean, error, n = bw.ledger.mean_over_seeds(rows, "entropy_mae")
    assert (mean, error, n) == (pytest.approx(0.3), pytest.approx(0.1 / math.sqrt(3)), 3)
    assert bw.ledger.mean_over_seeds(rows[:1], "kl") == (0.2, 1e-5, 1)
    rows[0]["episodes_to"]["0.1"] = None
    assert bw.ledger.mean_over_seeds(rows, "episodes_to/0.1") == (6400, 0.0, 2)
    mean, error, n = bw.ledger.mean_over_seeds(rows, "episodes_to/0.01")
    assert math.isnan(mean) and math.isnan(error) and n == 0
    rows[1]["kl"] = "inf"
    assert bw.ledger.mean_over_seeds(rows, "kl")[0] == math.inf


@pytest.mark.parametrize("group", ["architectures", "rates", "doubled", "longer"])
def test_every_cell_is_recognised_for_what_it_is(group):
    kinds = {"architectures": {"plain"}, "rates": {"rate"}, "doubled": {"doubled", "both"}, "longer": {"longer"}}[group]
    assert {trained.kind_of(row(cell)) for cell in plan(group)} == kinds


def test_a_better_rate_is_doubled_too():
    """What the longer run came to is told with the reason that nothing is settled."""
    name = "hmm-lstm-classroom-deep"
    rows = plain(name, (0.24,) * 3)
    rows += [row(cell, kl=0.24 if cell.recipe.learning_rate < 0.01 else 0.15) for cell in cells("rates", name)]
    rows += [row(cell, kl={"doubled": 0.23, "both": 0.02}[trained.kind_of(row(cell))]) for cell in cells("doubled", name)]
    found = trained.controls(name, rows)
    assert (found["kl_best"], found["kl_doubled"], found["kl_both"]) == (0.15, 0.23, 0.02)
    counts, words = controls_suffice(found)
    assert not counts and words == (
        "another learning rate brings its KL to 0.15, and twice the budget at another rate to 0.02"
    )
    assert trained.mean_over_seeds(trained.plain_rows(name, rows), "kl")[0] == 0.24


def test_rates_may_be_compared_on_shorter_runs():
    """The plain rate must be among them, and a rate that does better there has to be run to the end."""
    cell = cells("architectures", "hmm-lstm-classroom")[0]
    own = cell.recipe

    def run(kl, rate=1.0, budget=0.25):
        recipe = own.but(
            steps=round(budget * own.steps), learning_rate=rate * own.learning_rate, matrix_learning_rate=rate * own.matrix_learning_rate
        )
        return row(dataclasses.replace(cell, recipe=recipe), kl=kl)

    assert [trained.kind_of(run(1.0, rate)) for rate in (1.0, 0.5)] == ["scan", "scan"] and trained.kind_of(run(1.0, 1.0, 0.3)) == "other"
    base = [run(0.4, budget=1), run(0.4, budget=2)]
    worse = [run(0.8, rate) for rate in (0.5, 2.0, 4.0)]
    assert controls_suffice(trained.controls(own_name := cell.name, base + worse)) == (False, "only 1 learning rate was tried, and at least 4 are asked for")
    found = trained.controls(own_name, [*base, run(0.6), *worse])
    assert len(found["learning_rates"]) == 4 and found["kl_scan"] == pytest.approx(0.8 / 0.6) and controls_suffice(found) == (True, "")
    better = [*base, run(0.6), *worse[:2], run(0.3, 4.0)]
    counts, words = controls_suffice(trained.controls(own_name, better))
    assert not counts and words == "in shorter runs another learning rate has 0.5 of the KL, and no whole run has that rate"
    found = trained.controls(own_name, [*better, run(0.4, 4.0, budget=1)])
    assert found["kl_scan"] > 1 and controls_suffice(found) == (True, "")


def test_a_recipe_that_no_plan_has_any_more_is_no_evidence():
    cell = cells("architectures", "hmm-lstm-classroom")[0]
    old = row(dataclasses.replace(cell, recipe=cell.recipe.but(batch_size=32)))
    assert trained.kind_of(old) == "other" and trained.plain_rows("hmm-lstm-classroom", [old]) == []
    unknown = row(cell) | {"name": "hmm-lstm-huge"}
    assert trained.kind_of(unknown) == "unplanned" and trained.plain_rows("hmm-lstm-huge", [unknown]) == [unknown]


def test_a_network_of_the_queue_alone_has_the_recipe_of_its_first_cell():
    """Its other rates and budgets are then told apart, so that a failure at the published size can be one."""
    first = next(cell for cell in trained.cells("queue") if cell.name == "bijection-mlp")
    base = row(first)
    others = [
        first.recipe.but(learning_rate=0.1 * first.recipe.learning_rate, matrix_learning_rate=0.1 * first.recipe.matrix_learning_rate),
        first.recipe.but(steps=2 * first.recipe.steps),
        first.recipe.but(precision="bfloat16"),  # a machine's choice
    ]
    kinds = [trained.kind_of(row(dataclasses.replace(first, recipe=recipe))) for recipe in others]
    assert [trained.kind_of(base), *kinds] == ["plain", "rate", "doubled", "plain"]


def test_other_rates_and_budgets_do_not_enter_a_mean(stored):
    stored(plain("hmm-lstm-classroom", (0.01, 0.02, 0.03)) + controls("hmm-lstm-classroom", 0.4))
    found = bw.ledger.row("transport-lstm")
    assert found["seeds"] == [0, 1, 2] and [r["measured"] for r in found["runs"]] == [0.01, 0.02, 0.03]


# -- when a failure counts


@pytest.mark.parametrize(
    ("changes", "counts", "words"),
    [
        ({}, True, ""),
        ({"rates": 3}, True, ""),
        ({"rates": 2}, False, "only 3 learning rates were tried"),
        ({"rates": 0}, False, "only 1 learning rate was tried"),
        ({"best": 0.37}, True, ""),
        ({"best": 0.36}, False, "another learning rate brings its KL to 0.36"),
        ({"doubled": 0.37}, True, ""),
        ({"doubled": 0.36}, False, "doubling the budget"),
        ({"doubled": 0.46}, False, "doubling the budget"),
        ({"doubled": None}, False, "was not doubled"),
    ],
)
def test_the_rule_for_failures_is_computed_from_the_plans_rates_and_doubled(changes, counts, words):
    name = "hmm-mlp-classroom"
    more = controls(name, 0.41, changes.get("best"), changes.get("doubled"))
    rates, twice = more[:4], more[4:]
    rates = rates[len(rates) - changes.get("rates", 4) :]
    twice = [] if "doubled" in changes and changes["doubled"] is None else twice
    found = controls_suffice(trained.controls(name, plain(name) + rates + twice))
    assert found[0] == counts and words in found[1]


@pytest.mark.parametrize(("kl", "counts"), [(2.99, True), (2.5, False)])
def test_a_run_longer_still_can_take_a_failure_back(kl, counts):
    name = "recall-transformer-classroom"
    rows = plain(name, (3.0,) * 3) + controls(name, 3.0)
    (long,) = cells("longer", name)
    found = controls_suffice(trained.controls(name, rows + [row(long, kl=kl)]))
    assert found[0] == counts and ("a longer run brings its KL to 2.5" in found[1]) == (not counts)


def test_a_ledger_row_finds_the_run_that_refutes_it(stored):
    """In the unit of the claim: a share of what the uniform guess has."""
    name = "hmm-lstm-classroom-deep"
    rows = plain(name, (0.37,) * 3) + [row(cell, kl=0.3, entropy_mae=0.36) for cell in cells("rates", name)]
    stored(rows + [row(cell, kl=0.3, entropy_mae=0.35) for cell in cells("doubled", name)])
    assert bw.ledger.row("transport-lstm-deep")["status"] != "not reproduced"
    (both,) = [cell for cell in cells("doubled", name) if trained.kind_of(row(cell)) == "both"]
    stored(rows + [row(both, kl=0.01, entropy_mae=0.02)])
    found = bw.ledger.row("transport-lstm-deep")
    assert found["status"] == "not reproduced" and "with the plain recipe it fails" in found["reason"]
    stored(rows + [row(both, kl=0.01, entropy_mae=0.02, schedule_ended=False)])
    assert bw.ledger.row("transport-lstm-deep")["status"] != "not reproduced"


def test_a_control_that_had_not_ended_does_not_count():
    name = "hmm-mlp-classroom"
    rows = plain(name) + [r | {"schedule_ended": False} for r in controls(name, 0.41)]
    assert trained.controls(name, rows)["learning_rates"] == [rows[0]["learning_rate"]]


def test_controls_of_another_seed_or_name_do_not_count():
    name = "hmm-mlp-classroom"
    others = [r | {"seed": 1} for r in controls(name, 0.41)] + controls("hmm-lstm-classroom", 0.41)
    assert len(trained.controls(name, plain(name) + others)["learning_rates"]) == 1
    assert trained.controls(name, others) == {}


@pytest.mark.parametrize(
    ("rows", "status", "reason"),
    [
        ([], "not settled", "no such network"),
        (plain("hmm-mlp-classroom"), "not settled", "it fails here too, but only 1"),
        (plain("hmm-mlp-classroom") + controls("hmm-mlp-classroom", 0.41), "partly", "a different value"),
        (plain("hmm-mlp-classroom", (0.379,) * 3) + controls("hmm-mlp-classroom", 0.379), "reproduced", ""),
        (plain("hmm-mlp-classroom", (0.01, 0.01, 0.01)), "not reproduced", "does not fail"),
        (plain("hmm-mlp-classroom", schedule_ended=False), "not settled", "had not ended"),
    ],
)
def test_a_published_failure_settles_by_itself_as_runs_arrive(stored, rows, status, reason):
    stored(rows)
    found = bw.ledger.row("transport-mlp")
    assert found["status"] == status and reason in found["reason"]


def test_a_published_success_settles_and_its_failure_needs_controls(stored):
    stored(plain("hmm-mamba-classroom", (0.02, 0.02, 0.02)))
    assert bw.ledger.row("transport-mamba")["status"] == "reproduced"
    stored(plain("hmm-mamba-classroom", (0.3, 0.3, 0.3)))
    assert bw.ledger.row("transport-mamba")["status"] == "not settled"
    stored(plain("hmm-mamba-classroom", (0.3,) * 3) + controls("hmm-mamba-classroom", 0.3))
    assert bw.ledger.row("transport-mamba")["status"] == "not reproduced"


CURRICULUM = "recall-transformer-classroom-curriculum-rotary"
STAGED_MAMBA = "recall-mamba-classroom-curriculum"


def test_accuracies_count_upwards(stored):
    stored(plain(STAGED_MAMBA, accuracy=0.99) + plain("recall-lstm-classroom", accuracy=0.99))
    found = bw.ledger.row("recall-mamba-v3")
    assert (found["status"], found["measured"]) == ("reproduced", pytest.approx(99.0))
    assert bw.ledger.row("recall-lstm-tuned")["status"] == "not reproduced"
    stored(plain(STAGED_MAMBA, accuracy=0.03) + plain("recall-lstm-classroom", accuracy=0.03))
    assert "no better than" in bw.ledger.row("recall-mamba-v3")["reason"]
    assert bw.ledger.row("recall-lstm-tuned")["status"] == "not settled"


def in_queue(tmp_path, **changes) -> None:
    """The queue's record with the runs of one network, one a seed, as if they had ended so."""
    found = [row(cell, **{"accuracy": 1.0, "kl": 1e-6} | changes) for cell in trained.cells("queue") if cell.name == CURRICULUM]
    (tmp_path / "queue.json").write_text(json.dumps({"runs": found}))


def test_the_queue_decides_whether_the_transformer_binds(stored, tmp_path):
    stored(plain("recall-transformer-classroom", (3.0,) * 3, accuracy=0.125))
    before = bw.ledger.row("recall-transformer-v3")
    assert before["status"] == "not settled" and before["measured"] is None
    in_queue(tmp_path)
    found = bw.ledger.row("recall-transformer-v3")
    assert (found["status"], found["measured"]) == ("reproduced", 100.0) and len(found["seeds"]) >= 3
    for spoilt in ({"accuracy": 0.125}, {"schedule_ended": False}):
        in_queue(tmp_path, **spoilt)
        assert bw.ledger.row("recall-transformer-v3")["status"] == "not settled"


def test_the_grid_tells_a_plateau_from_what_a_curriculum_finds(stored, tmp_path):
    def state() -> tuple[str, str]:
        found = architectures.results("architectures", architectures.load_records(tmp_path))
        return {result.name: result for result in found}["recall-transformer-classroom"].state

    stored(plain("recall-transformer-classroom", (4.9,) * 3) + controls("recall-transformer-classroom", 4.9))
    assert state()[0] == "fails"
    in_queue(tmp_path)
    assert state()[0] == "partly" and "through a curriculum, in" in state()[1]
    in_queue(tmp_path, kl=4.9)
    assert state()[0] == "fails"


def test_the_queue_s_table_leaves_out_tunnels_that_the_page_does_not_compare(monkeypatch):
    records, recall = architectures.load_records(), [cell for cell in trained.cells("queue") if cell.name == CURRICULUM]
    odd = dataclasses.replace(recall[0], name="odd-transformer", recipe=dataclasses.replace(recall[0].recipe, tunnel="odd"))
    monkeypatch.setattr(trained, "cells", lambda plan: (odd, *recall))
    assert [result.name for result in architectures.results("queue", records)] == [CURRICULUM]
    monkeypatch.undo()
    assert CURRICULUM in repr(architectures.VariantTable("queue", "", records))


def test_a_run_that_is_in_two_records_counts_once(stored, tmp_path):
    in_queue(tmp_path)
    stored(json.loads((tmp_path / "queue.json").read_text())["runs"])
    both = bw.ledger.runs(CURRICULUM, plan="queue")
    assert len({run["recipe_tag"] for run in both}) == len(both) >= 3


def test_every_seed_of_the_curriculum_that_ended_binds():
    """Beyond doubt: without binding an accuracy is 1 in 8."""
    found = [run["accuracy"] for run in bw.ledger.runs(CURRICULUM, schedule_ended=True)]
    assert len(found) >= 5 and min(found) > 0.95
    mean = sum(found) / len(found)
    assert bw.ledger.row("recall-transformer-v3")["status"] == ("reproduced" if mean >= 0.995 else "partly")


def test_efforts_are_compared_and_their_null_deals_the_runs_out_again(stored):
    slow = [r | {"episodes_to": {"0.1": n}} for r, n in zip(plain(STAGED_MAMBA), (20, 25, 30), strict=True)]
    fast = [r | {"episodes_to": {"0.1": 10}} for r in plain(CURRICULUM)]
    stored(slow + fast)
    found = bw.ledger.row("recall-mamba-effort")
    assert (found["measured"], found["status"], found["draws"]) == (2.5, "reproduced", 20)
    assert found["null_high"] == 2.5 and found["null_low"] == pytest.approx(0.4)


def test_a_run_that_does_not_get_there_counts_with_all_its_episodes(stored):
    slow = [r | {"episodes": 70, "episodes_to": {"0.1": n}} for r, n in zip(plain(STAGED_MAMBA), (20, 30, None), strict=True)]
    fast = [r | {"episodes_to": {"0.1": 10}} for r in plain(CURRICULUM)]
    stored(slow + fast)
    assert bw.ledger.row("recall-mamba-effort")["measured"] == pytest.approx((20 + 30 + 70) / 30)
    slow[2]["schedule_ended"] = False
    stored(slow + fast)
    assert bw.ledger.row("recall-mamba-effort")["measured"] == pytest.approx(2.5)


def test_two_networks_are_compared(stored):
    both = plain("hmm-transformer-classroom", (0.02,) * 3) + plain("hmm-mamba-classroom", (0.04,) * 3)
    stored(both)
    found = bw.ledger.row("hmm-mamba-beats-transformer-small")
    assert found["status"] == "not settled" and "episodes 128,000 against 192,000" in found["reason"]
    stored([r | {"episodes": 192_000} for r in both])
    found = bw.ledger.row("hmm-mamba-beats-transformer-small")
    assert (found["measured"], found["status"]) == (0.5, "not reproduced")
    assert len(found["runs"]) == len(found["base_runs"]) == 3 and found["draws"] == 20
    assert found["null_low"] == 0.5 and found["null_high"] == 2.0


def test_the_classroom_size_is_quoted_while_the_published_one_is_lacking(stored):
    stored(plain("hmm-lstm-classroom-deep", (0.27, 0.27, 0.27)))
    found = bw.ledger.row("hmm-lstm-v3")
    assert found["measured"] is None and found["status"] == "not settled"
    assert found["smaller"]["measured"] == pytest.approx(0.27) and "3 seeds: 0.27" in found["reason"]


def test_steps_of_longer_inputs_come_from_shipped_networks():
    scores = {"per_position": {"entropy_mae": [1e-4] * 20 + [0.005] * 30}}
    scores["per_position_se"] = {"entropy_mae": [1e-6] * 50}
    entry = {"seed": 0, "tunnel_config": {"length": 20}, "schedule_ended": True}
    entry["scores"] = {"longer": {"50": scores | {"entropy_mae": 0.003, "entropy_mae_se": 1e-4}}}
    records = {"networks": {"networks": {"hmm-transformer": {"0": entry}}}}
    claims = {claim.id: claim for claim in load_claims()}
    evidence = gather(dataclasses.replace(claims["hmm-no-discontinuity"], network="x"), records)
    assert evidence.value is None
    records["networks"]["networks"]["x"] = records["networks"]["networks"]["hmm-transformer"]
    evidence = gather(dataclasses.replace(claims["hmm-no-discontinuity"], network="x"), records)
    assert evidence.value == pytest.approx(50)
    assert judge(claims["hmm-no-discontinuity"], evidence)[0] == "not reproduced"
    whole = gather(dataclasses.replace(claims["hmm-transformer-k50"], network="x"), records)
    assert whole.value == 0.003
    last = gather(dataclasses.replace(claims["hmm-jump-k50-plateau"], network="x"), records)
    assert last.value == pytest.approx(0.005)


def test_a_null_scores_the_same_part_as_its_row():
    """Fewer pairs, other lengths, single steps: an untrained copy that was scored on all positions is no null for them."""
    row = bw.ledger.row("bijection-transformer-production")
    assert row["null_what"] == "the uniform guess" and row["null"] == pytest.approx(bw.ledger.row(row["read_against"])["measured"])
    whole = bw.ledger.row("bijection-transformer-v3")
    assert whole["null_what"] == "the same network before training" and whole["null"] > row["null"] * 1.05
    parts = [claim for claim in load_claims() if claim.network and (claim.pairs or claim.length or claim.steps)]
    assert len(parts) > 10 and not any(bw.ledger.row(claim.id)["null_what"] == "the same network before training" for claim in parts)


def test_steps_of_longer_inputs_come_from_rows_too(monkeypatch):
    """Of a network that does not ship: its row has the scores, and a shipped one of that seed comes first."""
    curves = {"per_position": {"entropy_mae": [0.0] * 20 + [0.02] * 30}, "per_position_se": {"entropy_mae": [1e-6] * 50}}
    row = {
        "name": "x", "seed": 3, "recipe_tag": "t", "schedule_ended": True, "tunnel_config": {"length": 20}, "entropy_mae": 0.1,
        "kl": 0.1, "learning_rate": 1.0, "matrix_learning_rate": 1.0, "steps": 1,
        "scores": curves | {"longer": {"50": curves | {"entropy_mae": 0.03, "entropy_mae_se": 1e-4}}},
    }
    monkeypatch.setattr(trained, "plain_rows", lambda name, rows: [row] if name == "x" else [])
    claims = {claim.id: claim for claim in load_claims()}
    longer, own = (dataclasses.replace(claims[name], network="x") for name in ("hmm-transformer-k50", "hmm-transformer-v1"))
    assert gather(longer, {}).value == 0.03 and [run["seed"] for run in gather(longer, {}).runs] == [3]
    assert gather(dataclasses.replace(longer, length=20), {}).value == 0.1  # its own length: the row's own number
    assert gather(own, {}).value == pytest.approx(0.1)
    assert gather(dataclasses.replace(longer, length=40), {}).value == pytest.approx(20 * 0.02 / 40)  # the first 40 of 50
    assert gather(dataclasses.replace(longer, length=60), {}).value is None
    row.pop("scores")
    assert gather(longer, {}).value is None


def test_a_score_beyond_the_trained_length_counts_if_other_rates_and_twice_the_budget_have_it_too():
    claims = {claim.id: claim for claim in load_claims()}
    queued = [cell for cell in trained.cells("queue") if cell.name == "hmm-transformer" and cell.recipe.seed == 0]
    plain_cell = dataclasses.replace(queued[0], recipe=trained.plain_recipes()["hmm-transformer"])
    long = {"per_position": {}, "per_position_se": {}, "longer": {"30": {"entropy_mae": 0.04, "entropy_mae_se": 1e-4}}}
    rows = [row(cell, scores=long, **{name: getattr(cell.recipe, name) for name in FIELDS}) for cell in (plain_cell, *queued)]
    rows[-1]["kl"] = 0.5 * rows[0]["kl"]  # so that the divergence alone settles nothing

    def status(rows: list[dict], id: str = "hmm-transformer-guide-k30") -> tuple[str, str]:
        claim = dataclasses.replace(claims[id], cannot_refute=None)  # the rules themselves
        records = {name: store.read(name) for name in baselines.RECORDS.values()} | {"queue": {"runs": rows}}
        found = gather(claim, records)
        return judge(claim, dataclasses.replace(found, null=Null(1.0, 0.9, 1.1, 20, "n")))

    assert status(rows)[0] == "not reproduced" and "other learning rates (in runs of 1/4 of the updates) and after twice the updates" in status(rows)[1]
    assert status([one for one in rows if one["steps"] == rows[0]["steps"]])[0] == "not settled"
    good = [one | {"scores": long | {"longer": {"30": {"entropy_mae": 0.001, "entropy_mae_se": 1e-4}}}} for one in rows]
    assert status([*rows[:-1], good[-1]])[0] == "partly" and "after twice the updates it is 0.001" in status([*rows[:-1], good[-1]])[1]
    short = "hmm-transformer-guide-k20"  # what training lowers
    assert status(rows, short)[0] == "not reproduced" and "close 0% of the gap" in status(rows, short)[1]
    nearer = [*rows[:-1], rows[-1] | {"entropy_mae": 0.5 * rows[-1]["entropy_mae"]}]
    assert status(nearer, short)[0] == "not settled"  # a longer run may get there


@pytest.mark.parametrize(("doubled", "status"), [(39.0, "not reproduced"), (90.0, "partly")])
def test_a_shape_of_the_last_layer_counts_if_other_rates_and_twice_the_budget_have_it_too(doubled, status):
    claim = next(claim for claim in load_claims() if claim.id == "belief-lstm-pc1")
    queued = [cell for cell in trained.cells("queue") if cell.name == "hmm-lstm" and cell.recipe.seed == 0]
    assert len(queued) == 5
    rows = [row(cell, kl=0.3, pc1_percent=25.0, **{name: getattr(cell.recipe, name) for name in FIELDS}) for cell in queued]
    twice, = (one for one in rows if trained.kind_of(one) == "doubled")
    twice |= {"kl": 0.1, "pc1_percent": doubled}
    found = gather(claim, {"queue": {"runs": rows}})
    assert set(found.tried) == {"rate 0.003", "rate 0.0015", "rate 0.00075", "doubled"}
    assert judge(claim, dataclasses.replace(found, null=Null(1.0, 0.9, 1.1, 20, "n")))[0] == status


def test_of_counts_the_median_of_the_seeds_is_judged():
    """5, 10 and 2 clusters are not five on average, and 2, 5 and 8 are not either."""
    claim = next(claim for claim in load_claims() if claim.id == "belief-mamba-clusters")
    recipe = trained.plain_recipes()["hmm-mamba"]
    plain = [cell for cell in trained.cells("queue") if cell.name == "hmm-mamba" and cell.recipe.but(seed=0, data_seed=0) == recipe]
    assert len(plain) == 3
    for seeds, median in (((5, 10, 2), 5), ((2, 2, 11), 2)):
        rows = [row(cell, clusters=count) for cell, count in zip(plain, seeds, strict=True)]
        found = gather(claim, {"queue": {"runs": rows}})
        assert (found.value, found.standard_error, found.shares) == (median, None, tuple(map(float, seeds)))


def test_shares_are_the_published_numbers_over_their_own_reference_points():
    """The one place where a published value is divided by hand."""
    for claim in load_claims():
        parts = re.search(r"\(([\d.]+) over ([\d.]+)", claim.source)
        if claim.over_key:
            share = float(parts[1]) / float(parts[2])
            assert claim.value == pytest.approx(share, abs=0.6 * 10 ** -len(claim.published.split(".")[1])), claim.id


# -- reference points of the other tunnels


def test_a_task_has_one_name():
    tunnel = bw.tunnels.HMM(3, 3, 20, generator="raw", sticky=50)
    assert baselines.task_key("hmm", tunnel.config) == "S3-V3-K20-raw-sticky50"
    assert baselines.task_key("hmm", bw.tunnels.HMM(header="tokens").config) == "S5-V5-K20-grid"
    assert baselines.task_key("recall", bw.tunnels.Recall().config) == "N64-V256"
    assert baselines.task_key("regression", bw.tunnels.Regression(noise=1.0).config) == "d8-K20-noise1"
    assert baselines.task_key("bijection", bw.tunnels.Bijection(5, 4, True).config) == "V5-L4/replacement"


@pytest.mark.parametrize("group", ["architectures", "slow", "fixed", "binding", "late-attention"])
def test_every_classroom_task_has_its_reference_points(group):
    records = architectures.load_records()
    for cell in plan(group):
        config = bw.tunnels.build(cell.recipe.tunnel, cell.recipe.tunnel_config).config
        known = baselines.baselines_of(cell.recipe.tunnel, config, records)
        assert baselines.value(known, baselines.KNOWS_NOTHING[cell.recipe.tunnel]) > 0, cell.name


def test_the_next_baseline_is_the_best_that_is_beaten():
    tasks = {"S3-V3-K20-grid": {"baselines": {"uniform": {"kl": 0.4}, "window_2": {"kl": 0.005}, "window_3": {"kl": 0.001}}}}
    records = {"hmm_baselines": {"tasks": tasks}}
    config = {"n_states": 3, "n_symbols": 3}
    assert baselines.next_baseline(0.002, "hmm", config, records) == ("last 2 symbols", 0.005)
    assert baselines.next_baseline(0.5, "hmm", config, records) is None
    assert baselines.next_baseline(0.395, "hmm", config, records) is None  # as good as knowing nothing
    assert baselines.left_to_learn(0.1, "hmm", config, records) == pytest.approx(0.25)
    assert baselines.left_to_learn(0.1, "hmm", config | {"length": 7}, records) is None


# -- the page


class Tables(HTMLParser):
    """Cells of every table: (tag, scope) by row."""

    def __init__(self, html: str):
        super().__init__()
        self.rows: list[list[tuple[str, str | None]]] = []
        self.ids, self.links = [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append((tag, found.get("scope")))
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if "href" in found else []


def records_of(rows: list[dict]) -> dict:
    return architectures.load_records() | {"runs": {"runs": rows}, "networks": None}


def in_the_grid() -> list:
    """The results of the grid's cells, row by row."""
    grid = architectures.ArchitectureTable(records_of([]))
    labels = ["-".join(part for part in pair if part) for pair in architectures.RIVALS]
    return [grid.results[tunnel, label] for label in labels for tunnel in trained.COMPARED]


def page_of(rows: list[dict]) -> str:
    records = records_of(rows)
    return architectures.ArchitectureTable(records)._repr_html_() + architectures.RunRecords(
        ["architectures"], records
    )._repr_html_()


def test_without_runs_every_cell_says_so():
    html = page_of([])
    assert html.count("not run yet</i>") == 32 and "No run has been stored yet" in html


def test_the_grid_is_a_table_with_scopes_and_links_to_its_records():
    rows = plain("hmm-lstm-classroom", (0.007, 0.008, 0.009)) + plain("recall-mlp-classroom-sum", accuracy=0.5)
    rows[0]["curve"] = [{"episodes": 64, "kl": 0.123456}]
    stored = Tables(architectures.RunRecords(["architectures"], records_of(rows))._repr_html_())
    assert [len(cells) for cells in stored.rows] == [len(architectures.FACTS)] * (1 + 3 + 1 + 3)  # two tables of three seeds
    assert sorted(stored.ids) == ["run-hmm-lstm-classroom", "run-recall-mlp-classroom-sum"]
    found = Tables(architectures.ArchitectureTable(records_of(rows))._repr_html_())
    heads = [cells for cells in found.rows if cells[0] == ("th", "col")]
    assert heads == [[("th", "col")] * 5] * 2  # the grid, and the reference points below it
    assert all(cells == [("th", "row")] + [("td", None)] * 4 for cells in found.rows if cells not in heads)
    assert len(found.rows) == 1 + 8 + 1 + 2
    assert found.links == [f"#architectures-{cell.name}" for cell in in_the_grid()]
    html = page_of(rows) + architectures.VariantTable("architectures", "", records_of(rows))._repr_html_()
    assert all(f'<tr id="{link[1:]}">' in html for link in found.links)
    assert "0.123456" not in html  # a curve is no fact to read
    assert "0.00800 ± 0.00058" in html and "accuracy 50.0 %" in html and "3 seeds" in html


@pytest.mark.parametrize(
    ("values", "more", "state"),
    [
        ((0.004,) * 3, [], "solved"),
        ((0.37,) * 3, [], "not settled"),
        ((0.37,) * 3, controls("hmm-lstm-classroom", 0.37), "fails"),
        ((0.1,) * 3, controls("hmm-lstm-classroom", 0.1), "partly"),
        ((0.1,) * 3, controls("hmm-lstm-classroom", 0.1, doubled=0.01), "not settled"),
        ((0.0055,) * 3, [], "close"),
        ((0.004, 0.004, 0.3), [], "partly"),
        ((0.0001, 0.0001, 0.021), [], "close"),  # one seed at 5.5 %, the mean at 1.8 %
    ],
)
def test_a_cell_s_state_follows_from_runs_and_controls(values, more, state):
    runs = {"runs": plain("hmm-lstm-classroom", values) + more}
    records = architectures.load_records() | {"runs": runs, "networks": None}
    found = {r.name: r for r in architectures.results("architectures", records)}["hmm-lstm-classroom"]
    assert found.state[0] == state and len(found.others) == len(more)


def test_variants_show_longer_inputs_where_a_network_ships():
    name = "hmm-transformer-classroom-none"
    curve = {"per_position": {"entropy_mae": [0.01] * 20 + [0.03] * 10}, "entropy_mae": 0.0167}
    rows = plain(name)
    shipped = {"networks": {name: {"0": rows[0] | {"scores": {"longer": {"30": curve}}}}}}
    records = architectures.load_records() | {"runs": {"runs": rows}, "networks": shipped}
    html = architectures.VariantTable("positions", "Position codes", records, longer=True)._repr_html_()
    assert "2.0 min a run" in html and "0.1 bits after 6,400 episodes" in html
    assert "Error at K = 30" in html and "step 21: 3 times step 20 (1 of 3 seeds)" in html
    widths = {len(cells) for cells in Tables(html).rows}
    assert widths == {6}


# Plans whose results lie in a record of their own, not among the runs; that of "small" is its network's.
OWN_RECORD = {"variants", "prior", "prior-doubled", "binding-trials", "binding-race", "small"}


def test_every_stored_run_of_a_network_is_shown_and_longer_inputs_are_a_mean_over_its_seeds():
    records = architectures.load_records()
    found = {r.name: r for plan_name in ("published", "supervision", "slow") for r in architectures.results(plan_name, records)}
    for name, result in found.items():
        assert len(result.rows) + len(result.others) == sum(row["name"] == name for row in trained.all_rows(records)), name
    shown = architectures._longer(found["hmm-transformer"], 50)
    jump = bw.ledger.row("hmm-no-discontinuity")["measured"]
    assert len(found["hmm-transformer"].longer) == 3 and f"step 21: {jump:.3g} times step 20" in shown and "seeds" not in shown
    alone = dataclasses.replace(found["hmm-transformer"], longer=found["hmm-transformer"].longer[:1])
    assert "(1 of 3 seeds)" in architectures._longer(alone, 50)


def test_every_plan_of_networks_has_a_table_on_the_page():
    text = (ROOT / "book" / "architectures.md").read_text()
    for name in set(PLANS) - set(trained.CONTROLS) - OWN_RECORD:
        assert f'"{name}"' in text, name
