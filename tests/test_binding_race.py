"""The race to bind: what its arms have in common, and that the record says what its runs say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import bayeswind_lib as bw
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import binding_race as race
from bayeswind_lib.training import plans
from bayeswind_lib.training.plans import ARMS, RACE_RATES, RACE_SEEDS, TRIAL_SEED, WAYS, plan, seeds_of
from bayeswind_lib.training.sweep import run_cell

TRIALS, RACE = plan("binding-trials"), plan("binding-race")


def test_the_arms_differ_in_what_their_names_say_and_in_nothing_else():
    fields = {"architecture", "model_config", "curriculum", "optimiser", "learning_rate", "matrix_learning_rate", "seed", "data_seed"}
    base = TRIALS[0].recipe.to_dict()
    for cell in TRIALS + RACE:
        other = cell.recipe.to_dict()
        assert {name for name in base if base[name] != other[name]} <= fields, cell.name
        assert cell.recipe.schedule == "constant"  # a rate that falls would depend on the budget
        assert bool(cell.recipe.curriculum) == cell.name.endswith("staged")
    assert len({cell.key for cell in TRIALS + RACE}) == len(TRIALS + RACE)


def test_the_runs_of_a_seed_read_the_same_episodes_and_another_seed_chose_the_rate():
    for cells, seeds in ((TRIALS, [TRIAL_SEED]), (RACE, RACE_SEEDS)):
        assert {cell.recipe.seed for cell in cells} == set(seeds)
        assert all(cell.recipe.data_seed == cell.recipe.seed for cell in cells)
    assert TRIAL_SEED not in RACE_SEEDS and len(RACE_SEEDS) >= 8


def test_every_arm_runs_at_the_rate_that_was_fastest_in_its_trials():
    record = bw.ledger.record(race.RECORD)
    assert set(itertools.product(tuple(plans.ARMS)[:6], WAYS)) <= set(RACE_RATES)
    for (arm, way), rate in RACE_RATES.items():
        means = record["rates"][f"{arm} {way}"]
        assert len(means) >= 4 and rate == race.fastest(means), (arm, way, means)
        arrives = min(tried["episodes"] for tried in means.values()) < record["task"]["episodes"]
        assert not arrives or min(map(float, means)) < rate < max(map(float, means)), "the fastest lies at an end of the grid"
        assert sorted(row["seed"] for row in race.of(record["runs"], arm, way, rate)) == list(seeds_of(arm))
        assert record["arms"][f"{arm} {way}"]["rate"] == rate


def test_the_record_says_what_its_runs_say():
    record = bw.ledger.record(race.RECORD)
    again = race.measure()
    assert set(again) <= set(record) and all(store.same(record[name], again[name]) for name in again)
    budget = record["task"]["episodes"]
    for row in record["runs"]:
        assert row["arrived"] == (row["episodes"] < budget) or row["episodes"] == budget
        assert row["arm"] in ARMS and row["way"] in WAYS


def test_a_run_in_a_folder_becomes_a_row(tmp_path):
    cell = next(cell for cell in TRIALS if cell.name.endswith("lstm-staged"))
    small = plans.Cell(cell.name, cell.recipe.but(steps=3, warmup_steps=0, eval_every=3, model_config={"n_layers": 1, "width": 8}), cell.preset)
    row = race.row_of(small, run_cell(small, tmp_path, 16))
    assert (row["arm"], row["way"], row["rate"], row["seed"]) == ("lstm", "staged", cell.recipe.learning_rate, TRIAL_SEED)
    assert row["episodes"] == 3 * cell.recipe.batch_size and not row["arrived"] and row["stage_ends"] == []


def made_up(arm: str, way: str, episodes: list[int], arrived: list[bool]) -> list[dict]:
    return [
        {"arm": arm, "way": way, "rate": 1.0, "seed": seed, "episodes": n, "arrived": done, "parameters": 1}
        for seed, (n, done) in enumerate(zip(episodes, arrived, strict=True))
    ]


def test_what_the_ledger_asks_by_hand():
    """Three runs that never arrive against three that do: one way in twenty to deal them out is as extreme."""
    rows = made_up("transformer", "plain", [100] * 3, [False] * 3) + made_up("transformer", "staged", [10, 20, 30], [True] * 3)
    ledger, dealt = race.compared(rows)
    assert ledger == {"stages": pytest.approx(5.0)}
    assert dealt["stages"]["draws"] == 20 and dealt["stages"]["high"] == pytest.approx(5.0) and dealt["stages"]["low"] == pytest.approx(0.2)
    found = race.arms(rows)["transformer staged"]
    assert (found["arrived"], found["n"], found["median"]) == (3, 3, 20.0)
    assert race.arms(rows)["transformer plain"]["median"] is None
    (p,) = race.tests(rows).values()
    assert 0.01 < p < 0.05
    assert np.sort(race.deals([1.0, 2.0], [4.0])).tolist() == pytest.approx([1.5 / 4, 2.5 / 2, 3.0])


def test_of_equal_rates_the_one_with_the_lower_divergence_is_taken():
    tried = {"0.004": {"episodes": 7.0, "kl": 2.0}, "0.001": {"episodes": 7.0, "kl": 3.0}, "0.002": {"episodes": 9.0, "kl": 0.1}}
    assert race.fastest(tried) == 0.004
