"""The record of races: what is run again, what is refused, and how a best rate is chosen."""

from __future__ import annotations

import json
import math
from functools import partial

import numpy as np
import pytest
from bayeswind_lib.dynamics import race
from bayeswind_lib.experiments import races
from bayeswind_lib.training import cluster
from bayeswind_lib.training.cluster import run_missing


def small(group="rates", arm=race.PUBLISHED[0], seed=42, **changes):
    return races.Cell(group, arm, seed, **({"length": 40, "steps": 20, "every": 10} | changes))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("races")
    arms = [*race.PUBLISHED, race.Arm("SGD", rate=0.3)]
    cells = [small(group, arm, seed) for arm in arms[:2] for seed in (42, 7) for group in ("published", "rates")]
    cells += [small("rates", arms[2], seed) for seed in (42, 7)]
    said: list[str] = []
    run_missing(partial(races.run, folder), cells, partial(races.path_of, folder), 2, said.append)
    return folder, cells, said


def test_the_plan_holds_every_arm_and_rate_once():
    cells = races.plan()
    assert len({cell.key for cell in cells}) == len(cells)
    published = {(cell.arm.name, cell.seed) for cell in cells if cell.group == "published"}
    assert len(published) == (len(race.PUBLISHED) + len(race.CONTROLS)) * 5
    for family in races.FAMILIES.values():
        rates = {cell.arm.rate for cell in cells if cell.group == "rates" and cell.arm.name == family.name}
        assert len(rates) >= 6


def test_what_is_finished_is_not_run_again(finished):
    folder, cells, said = finished
    assert len(said) == len(cells) == len(list(folder.iterdir()))
    path = folder / f"{cells[0].key}.json"
    before, more = path.read_bytes(), []
    path.unlink()
    run_missing(partial(races.run, folder), cells, partial(races.path_of, folder), report=more.append)
    assert more == [f"1 of 1: {cells[0].key}"]
    assert json.loads(path.read_bytes()) == json.loads(before)


@pytest.mark.parametrize("installed", [True, False], ids=["Dask", "no Dask"])
def test_what_fails_is_named_when_the_others_have_ended(installed, tmp_path, monkeypatch):
    """On two workers, or one after the other here; `race` refuses 0 steps."""
    monkeypatch.setattr(cluster, "is_installed", lambda: installed)
    cells, said = [small(steps=0), small(seed=7)], []
    with pytest.raises(RuntimeError, match=f"{cells[0].key} failed: ValueError: steps is 0"):
        cluster.run_missing(partial(races.run, tmp_path), cells, partial(races.path_of, tmp_path), 2, said.append)
    assert [path.stem for path in tmp_path.iterdir()] == [cells[1].key] and len(said) == 2


def test_a_run_keeps_what_the_race_gave(finished):
    folder, cells, _ = finished
    curve = race.race(cells[0].arm, race.task(42, 40), 42, 20, 10)
    told = races.read_cell(cells[0], folder)
    assert told["loss"] == pytest.approx(curve.loss[::10]) and told["final"] == pytest.approx(curve.loss[-1])
    assert told["measures"]["kl"] == pytest.approx(curve.measures["kl"])


def test_damaged_and_foreign_runs_are_named(finished, tmp_path):
    cell = small()
    (tmp_path / f"{cell.key}.json").write_text("{")
    with pytest.raises(ValueError, match=rf"{cell.key}\.json: not a readable run"):
        races.read_cell(cell, tmp_path)
    folder, cells, _ = finished
    with pytest.raises(ValueError, match="a run with other settings"):
        races.read_cell(small("published", steps=30), folder)
    with pytest.raises(ValueError, match="workers is 0"):
        run_missing(races.run, [], races.path_of, workers=0)


def test_the_record_weighs_what_is_there(finished):
    folder, cells, _ = finished
    record = races.record_of(folder, [*cells, small(seed=99)])  # one is not finished
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


def test_the_published_figures_are_those_of_the_curves(finished):
    """From the whole curves, run again, in the words of the paper: first step at or below the level."""
    folder, cells, _ = finished
    curves = {(cell.arm.name, cell.seed): race.race(cell.arm, race.task(cell.seed, 40), cell.seed, 20, 10)
              for cell in cells if cell.group == "published"}
    record = races.record_of(folder, cells)
    level = np.mean([curves["SGD", seed].loss[-1] for seed in (42, 7)])
    for seed in (42, 7):
        curve, kept = curves["values x 10", seed], record["published"]["arms"]["values x 10"][str(seed)]
        first = int(np.flatnonzero(curve.loss <= level)[0])
        assert abs(kept["steps_to_level"] - first) <= 1.5  # the stored curve is thinned
        assert kept["steps_to_own"] == pytest.approx(race.steps_to(curve, curves["SGD", seed].loss[-1]), abs=0.5)
    claims, taken = record["claims"], [record["published"]["arms"]["values x 10"][s]["steps_to_level"] for s in ("42", "7")]
    assert claims["steps"] == pytest.approx(np.mean(taken)) and claims["speed_up"] == pytest.approx(races.STEPS / np.mean(taken))
    assert claims["gap"] == pytest.approx(np.mean([curves["SGD", s].loss[-1] - curves["values x 10", s].loss[-1] for s in (42, 7)]))
    assert record["tenfold"] == {} and record["cells"]["published"] == {"done": 4, "planned": 4}


def test_only_whole_seeds_are_compared(finished):
    folder, cells, _ = finished
    third = small(arm=race.Arm("SGD", rate=1.0), seed=7)  # of seed 7 one rate is not finished
    record = races.record_of(folder, [*cells, third])
    best, found = record["best"]["SGD"], record["rates"]["SGD"]
    assert record["whole"] == best["chosen_on"] == ["42"]
    assert best["rate"] == float(min(found, key=lambda rate: found[rate]["42"]["at_best"]["validation"]))
    assert best["seeds"] == ["42", "7"] and len(best["held_out"]["values"]) == 2  # both have a run at that rate
    assert races.record_of(folder, [])["best"] == {} and races.record_of(folder, [])["claims"] == {}


def test_a_seed_that_is_not_whole_has_no_say_in_the_choice_of_a_rate(finished, tmp_path):
    """Validation by hand: seed 42 prefers 0.01 by a little, seed 7, of which a rate is missing, 0.3 by much."""
    folder, cells, _ = finished
    level = {(42, 0.01): 1.0, (42, 0.3): 1.1, (7, 0.01): 3.0, (7, 0.3): 0.5}
    for cell in cells:
        told = json.loads(races.path_of(folder, cell).read_text())
        if (cell.group, cell.arm.name) == ("rates", "SGD"):
            told["measures"]["validation"] = [level[cell.seed, cell.arm.rate]] * len(told["steps"])
        races.path_of(tmp_path, cell).write_text(json.dumps(told))
    whole = races.record_of(tmp_path, cells)["best"]["SGD"]
    assert whole["rate"] == 0.3 and whole["chosen_on"] == ["42", "7"]
    found = races.record_of(tmp_path, [*cells, small(arm=race.Arm("SGD", rate=1.0), seed=7)])["best"]["SGD"]
    assert found["rate"] == 0.01 and found["chosen_on"] == ["42"]
    assert found["validation"]["values"] == [1.0, 3.0]  # held out: of both seeds, at that rate


def test_the_null_counts_a_run_that_never_arrives_with_all_steps():
    def run(steps, final):
        return {"steps_to_level": steps, "final": final}

    arms = {races.TENFOLD: {"1": run(100.0, 1.0), "2": run(math.inf, 1.9)}, races.PLAIN: {"1": run(0, 2.0), "2": run(0, 2.0)}}
    found = races._null_of(arms)
    assert found["speed_up"]["low"] == 1.0 and found["speed_up"]["high"] == 10.0 and found["steps"]["null"] == 550
    assert found["speed_up"]["draws"] >= 20 and races._null_of({}) == {}


def test_what_em_would_need_by_hand():
    def entry(steps, held_out):
        return {"steps_to_plain": steps, "at_best": dict.fromkeys(race.MEASURES, held_out) | {"held_out": held_out, "step": 0}}

    rates = {
        "one rate": {"0.01": {"1": entry(1000.0, 2.0), "2": entry(1000.0, 1.9)}},
        "values x 10": {"0.01": {"1": entry(500.0, 1.9), "2": entry(300.0, 1.9)}},
        "queries and keys x 10": {"0.01": {"1": entry(100.0, 1.8), "2": entry(300.0, 1.8)}},
    }
    found = races._readings(rates, ["1", "2"], ["1", "2"])
    assert found == pytest.approx({"values over routing": 0.5, "best gain": 0.05})
    drawn = races._readings(rates, ["1", "2"], ["1", "2"], np.random.default_rng(1))
    assert drawn["best gain"]["low"] == pytest.approx(-0.05) and drawn["best gain"]["high"] == pytest.approx(0.05)
    assert drawn["values over routing"]["low"] == pytest.approx(0.5) and drawn["values over routing"]["high"] == pytest.approx(2)
    assert races._readings(rates, [], []) == {}


def test_a_penalty_of_the_m_step_is_chosen_on_validation(tmp_path):
    assert races._penalties_of(tmp_path) == {}
    for penalty, seed in [(0.001, 42), (0.1, 42), (0.1, 2024)]:
        races.run_penalty(tmp_path, races.Penalty(penalty, seed, length=40, rounds=3))
    found = races._penalties_of(tmp_path)
    assert found["seeds"] == ["42"] and set(found["runs"]) == {"0.001", "0.1"} and set(found["runs"]["0.1"]) == {"42", "2024"}
    arm = race.Arm("alternating", rate=races.RATES["em"][-1], optimiser="em")
    curve = race.race(arm, race.task(42, 40), 42, 3, 1, penalty=0.1)
    i = int(curve.measures["validation"].argmin())
    assert found["runs"]["0.1"]["42"]["held_out"] == pytest.approx(curve.measures["held_out"][i])
    assert found["runs"]["0.1"]["42"]["step"] == curve.steps[i]
    lowest = min(found["runs"], key=lambda name: found["runs"][name]["42"]["validation"])
    assert found["best"] == lowest
