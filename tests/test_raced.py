"""The record of races: what is run again, what is refused, and how a best rate is chosen."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from bayeswind_lib.dynamics import race
from bayeswind_lib.ledger import raced


def small(group="rates", arm=race.PUBLISHED[0], seed=42, **changes):
    return raced.Cell(group, arm, seed, **({"length": 40, "steps": 20, "every": 10} | changes))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("races")
    arms = [*race.PUBLISHED, race.Arm("SGD", rate=0.3)]
    cells = [small(group, arm, seed) for arm in arms[:2] for seed in (42, 7) for group in ("published", "rates")]
    cells += [small("rates", arms[2], seed) for seed in (42, 7)]
    said: list[str] = []
    raced.run_all(cells, folder, workers=2, report=said.append)
    return folder, cells, said


def test_the_plan_holds_every_arm_and_rate_once():
    cells = raced.plan()
    assert len({cell.key for cell in cells}) == len(cells)
    published = {(cell.arm.name, cell.seed) for cell in cells if cell.group == "published"}
    assert len(published) == (len(race.PUBLISHED) + len(race.CONTROLS)) * 5
    for family in raced.FAMILIES.values():
        rates = {cell.arm.rate for cell in cells if cell.group == "rates" and cell.arm.name == family.name}
        assert len(rates) >= 6


def test_what_is_finished_is_not_run_again(finished):
    folder, cells, said = finished
    assert len(said) == len(cells) == len(list(folder.iterdir()))
    path = folder / f"{cells[0].key}.json"
    before, more = path.read_bytes(), []
    path.unlink()
    raced.run_all(cells, folder, report=more.append)
    assert more == [f"1 of 1: {cells[0].key}"]
    assert json.loads(path.read_bytes()) == json.loads(before)


def test_a_run_keeps_what_the_race_gave(finished):
    folder, cells, _ = finished
    curve = race.race(cells[0].arm, race.task(42, 40), 42, 20, 10)
    told = raced.read_cell(cells[0], folder)
    assert told["loss"] == pytest.approx(curve.loss[::10]) and told["final"] == pytest.approx(curve.loss[-1])
    assert told["measures"]["kl"] == pytest.approx(curve.measures["kl"])


def test_damaged_and_foreign_runs_are_named(finished, tmp_path):
    cell = small()
    (tmp_path / f"{cell.key}.json").write_text("{")
    with pytest.raises(ValueError, match=rf"{cell.key}\.json: not a readable run"):
        raced.read_cell(cell, tmp_path)
    folder, cells, _ = finished
    with pytest.raises(ValueError, match="a run with other settings"):
        raced.read_cell(small("published", steps=30), folder)
    with pytest.raises(ValueError, match="workers is 0"):
        raced.run_all([], tmp_path, workers=0)


def test_the_record_weighs_what_is_there(finished):
    folder, cells, _ = finished
    record = raced.measure(folder, [*cells, small(seed=99)])  # one is not finished
    arms = record["published"]["arms"]
    assert set(arms) == {"SGD", "values x 10"} and set(arms["SGD"]) == {"42", "7"}
    finals = [arms["SGD"][seed]["final"] for seed in ("42", "7")]
    assert record["published"]["level"] == pytest.approx(np.mean(finals))
    assert {rate: set(seeds) for rate, seeds in record["rates"]["SGD"].items()} == {"0.01": {"42", "7"}, "0.3": {"42", "7"}}
    best = record["best"]["SGD"]
    means = {rate: np.mean([e["at_best"]["validation"] for e in seeds.values()]) for rate, seeds in record["rates"]["SGD"].items()}
    assert best["rate"] == float(min(means, key=means.get)) and best["at_the_edge"]
    told = [record["rates"]["SGD"][f"{best['rate']:g}"][seed]["at_best"]["held_out"] for seed in ("42", "7")]
    assert sorted(best["held_out"]["values"]) == pytest.approx(sorted(told)) and best["held_out"]["mean"] == pytest.approx(np.mean(told))
    known = record["known"]["40"]["42"]
    assert known["exact"] < known["chance"] and known["exact_kl"] < known["per_token_kl"]


def test_steps_between_two_points_are_on_the_line():
    assert raced.reached([2.0, 1.5, 1.0], 1.5) == 10.0
    assert raced.reached([2.0, 1.5, 1.0], 1.25) == 15.0
    assert raced.reached([2.0, 1.5], 2.5) == 0.0 and raced.reached([2.0, 1.5], 1.0) == math.inf
