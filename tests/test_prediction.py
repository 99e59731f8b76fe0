"""The record on prediction alone: beliefs from forecasts, windows, echoes, and what is stored.

The oracles here are the exact filter itself, a belief that is known, and Bayes' rule by enumeration.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import bayeswind_lib as bw
from bayeswind_lib.experiments import prediction
from bayeswind_lib.probes import filtering
from bayeswind_lib.training.loop import start

CELLS = prediction.cells()
BY_TASK = {prediction.task_of(cell): cell for cell in CELLS}


def test_the_queue_asks_fast_and_slow_chains_at_four_rates_and_five_seeds():
    assert set(BY_TASK) == {f"{kind}{size}next-sampled" for kind in ("", "sticky-") for size in ("", "five-")}
    for task in BY_TASK:
        recipes = [cell.recipe for cell in CELLS if prediction.task_of(cell) == task]
        assert all(recipe.supervision == "sampled" and recipe.tunnel_config["predicts"] == "next_symbol" for recipe in recipes)
        assert len({recipe.learning_rate for recipe in recipes if recipe.steps == 12_000}) == 4
        by_rate = {rate: sorted(recipe.seed for recipe in recipes if (recipe.steps, recipe.learning_rate) == (30_000, rate))
                   for rate in {recipe.learning_rate for recipe in recipes if recipe.steps == 30_000}}
        assert list(range(5)) in by_rate.values() and all(seeds in (list(range(5)), [0]) for seeds in by_rate.values())


def test_a_forecast_implies_the_belief_that_it_was_made_from():
    rng = torch.Generator().manual_seed(0)
    belief = torch.rand(6, 4, 3, generator=rng, dtype=torch.float64)
    belief /= belief.sum(-1, keepdim=True)
    to_forecast = torch.eye(3, dtype=torch.float64) * 0.7 + 0.1  # rows sum to 1, and no two are near
    assert torch.allclose(prediction.implied(belief @ to_forecast, to_forecast.expand(6, 3, 3)), belief)
    wild = prediction.implied(torch.tensor([[[1.0, 0.0, 0.0]]], dtype=torch.float64), to_forecast[None])  # no belief forecasts so
    assert torch.allclose(wild, torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64))


def test_windows_are_what_bayes_rule_says_of_the_last_symbols():
    """A window of two in one chain, by enumeration of the two states that it sees."""
    bench = prediction.Bench(BY_TASK["sticky-next-sampled"], 3)
    states = bw.tunnels.build("hmm", bench.tunnel.config | {"predicts": "states"})
    T, E, symbols = (bench.episodes.latents[name][0] for name in ("transition", "emission", "observations"))
    share = torch.linalg.matrix_power(T, 4096)[0]
    said = bw.baselines.hmm.WindowFilter(states, 2).predict(bench.episodes.inputs).exp2()[0, 9]
    weight = torch.zeros(3, dtype=torch.float64)
    for before, now in itertools.product(range(3), repeat=2):
        weight[now] += share[before] * E[before, symbols[8]] * T[before, now] * E[now, symbols[9]]
    assert torch.allclose(said, weight / weight.sum(), atol=1e-9)
    found = [row["kl"] for row in prediction.Bench(BY_TASK["sticky-next-sampled"], 200).windows().values()]
    assert found == sorted(found, reverse=True) and found[-1] > 0


def test_the_exact_forecaster_scores_nothing_and_echoes_in_full():
    """Put in the place of a network: the exact filter, read by the tunnel itself."""
    bench = prediction.Bench(BY_TASK["next-sampled"], 200)
    exact = bench.episodes.posterior
    assert torch.allclose((bench.belief[..., None, :] @ bench.to_forecast[:, None])[..., 0, :], exact)
    assert bench.cost(bench.belief) < 1e-3 < 0.1 < bench.cost(torch.full_like(bench.belief, 1 / 3))
    states = bw.tunnels.build("hmm", bench.tunnel.config | {"predicts": "states"})
    law = (1 - 3 / 20) ** torch.arange(20, dtype=torch.float64)
    for tunnel in (states, bench.tunnel):
        heard = filtering.echo(tunnel, tunnel)
        assert torch.allclose(heard, heard[0] * law) and heard[0] > 0
    short = filtering.echo(bw.baselines.hmm.WindowFilter(states, 4), states)
    assert short[3] > 0.1 and short[4:].max() < 1e-12


def test_a_network_without_training_is_far_from_a_filter():
    cell = BY_TASK["sticky-next-sampled"]
    found = prediction.Bench(cell, 64).measure(start(cell.recipe).model.eval())
    assert found["kl"] == pytest.approx(np.mean(found["kl_by_step"]), rel=1e-3)
    assert found["kl"] > 0.1 and found["implied"] > 1 and found["r2"] < 0.3 and len(found["memory"]) == 4 and len(found["echo"]) == 20


def test_what_is_stored_was_finished_and_its_windows_are_found_again():
    stored = bw.ledger.record("probe_prediction")
    rows = {row["key"]: row for row in bw.ledger.runs(plan="queue")}
    for label, seeds in stored["runs"].items():
        for seed, run in seeds.items():
            row = rows[run["key"]]
            assert str(row["seed"]) == seed and row["schedule_ended"], label
            assert run["kl"] == pytest.approx(row["kl"], abs=6 * (run["kl_se"] + row["kl_se"])), label
    for task, rows in stored["windows"].items():
        fresh = prediction.Bench(BY_TASK[task], stored["n_episodes"]).windows()
        for w, row in rows.items():
            assert fresh[w]["kl"] == pytest.approx(row["kl"], rel=1e-4)
            assert fresh[w]["best"] == pytest.approx(row["best"], rel=1e-4)
            assert row["best"] < row["kl"] or "sticky" not in task  # in fast chains both are noise: best is so on average
    assert prediction.measure(16, 2)["runs"] == stored["runs"]  # without a folder nothing is lost
