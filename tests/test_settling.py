"""Settling times and what few seeds say: against curves made by hand, brute force and SciPy."""

from __future__ import annotations

import itertools
import math

import bayeswind_lib as bw
import numpy as np
import pytest
import scipy.stats
import torch
from bayeswind_lib import ledger, stats
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import settling as measured
from bayeswind_lib.probes import progress, settling
from bayeswind_lib.training import loop, plans

# ---- one curve


def test_settled_is_the_last_coming_within_a_tenth_on_either_side():
    steps = [0, 1, 3, 7, 15, 31]
    assert settling.settling(steps, [8.0, 8, 8, 0, 0, 0]).between == (3, 7)
    late = settling.settling(steps, [8.0, 0, 0, 0, 4, 0])  # an excursion shortly before the end
    assert late.between == (15, 31) and late.at_end
    below = settling.settling(steps, [8.0, 4, 2, 0, 4, 4])  # past its end, and back
    assert below.between == (7, 15) and not below.at_end
    assert progress.steps_to(steps, 1 - np.array([4.0, 0, -2, -4, 0, 0]) / 4, 0.9) < 1  # one side only: settled at once
    rising = settling.settling(steps, [0.0, 0, 0, 0, 1, 1])
    assert rising == settling.settling(steps, [1.0, 1, 1, 1, 0, 0])


def test_between_snapshots_the_logarithm_of_updates_counts():
    # from 1 to 0 between 3 and 15 updates (log2 of 1 + step: 2 and 4); a tenth is left at 2 + 0.9 * 2
    assert settling.settling([0, 3, 15, 31], [1.0, 1, 0, 0]).step == pytest.approx(2**3.8 - 1)


def test_a_curve_that_goes_on_to_its_end_is_censored():
    steps = np.arange(11)
    one = settling.settling(steps, 10.0 - steps)  # a straight fall: within a tenth at 9 exactly
    assert not one.at_end and one.step == pytest.approx(9, rel=1e-6)
    assert settling.settling(steps[::2], 10.0 - steps[::2]).at_end
    with pytest.raises(ValueError, match="ends where it began"):
        settling.settling(steps, np.ones(11))


# ---- quantities


def test_the_overlap_of_spans_is_one_for_turned_axes_and_axes_over_channels_by_chance():
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.standard_normal((400, 3)) @ rng.standard_normal((3, 12)))
    same = x @ torch.eye(12, dtype=torch.float64) * 5 + 2
    assert settling.overlap(x, same, 3) == pytest.approx(1)
    chance = [
        settling.overlap(*(torch.tensor(rng.standard_normal((400, 3)) @ rng.standard_normal((3, 12))) for _ in "ab"), 3)
        for _ in range(60)
    ]
    assert np.mean(chance) == pytest.approx(3 / 12, abs=0.04)
    basis = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    a, b = (torch.tensor(rng.standard_normal((400, 3)) @ basis[:, part].T) for part in (slice(0, 3), slice(2, 5)))
    assert settling.overlap(a, b, 3) == pytest.approx(1 / 3)


def test_readings_are_those_of_the_probes_and_end_at_zero():
    recipe = plans.ladder()[0].recipe
    model = loop.start(recipe).model
    snapshots = {0: loop.start(recipe).model.state_dict(), 5: loop.start(recipe.but(seed=7)).model.state_dict()}
    snapshots = {step: {name: 4 * x for name, x in one.items()} for step, one in snapshots.items()}
    episodes = bw.tunnels.build(recipe.tunnel, recipe.tunnel_config).sample(24, torch.Generator().manual_seed(1))
    found, known = settling.readings(model, snapshots, episodes), progress.progress(model, snapshots, episodes)
    for what, other in (("patterns", "attention"), ("scores", "scores"), ("values", "values")):
        assert found[what] == pytest.approx(known.distance(other), abs=1e-9)
    assert found["kl"] == pytest.approx(known.kl) and found["entropy_mae"] == pytest.approx(known.entropy_mae)
    for what in ("patterns", "scores", "keys", "values", "gram", "hidden", "hidden gram"):
        assert found[what][-1] == pytest.approx(0, abs=1e-6) and found[what][0] > 1e-4, what
    assert all(torch.equal(x, model.state_dict()[name]) for name, x in loop.start(recipe).model.state_dict().items())
    whole = bw.scoring.score_episodes(model, episodes).kl
    exact = bw.scoring.entropy_bits(episodes.posterior).flatten()
    each = bw.scoring.kl_bits(episodes.posterior, model.predict(episodes.inputs)).flatten()
    assert float(each.mean()) == pytest.approx(whole, rel=1e-5)
    model.load_state_dict(snapshots[5])
    each = bw.scoring.kl_bits(episodes.posterior, model.predict(episodes.inputs)).flatten()
    assert found["sure kl"][1] == pytest.approx(float(each[exact.argsort()[: len(exact) // 4]].mean()), rel=0.02)


# ---- few seeds


@pytest.mark.parametrize("n", [2, 3, 5])
def test_all_resamples_are_all_resamples(n):
    counts, weight = stats.resamples(n)
    brute: dict = {}
    for draw in itertools.product(range(n), repeat=n):
        key = tuple(draw.count(i) for i in range(n))
        brute[key] = brute.get(key, 0) + n**-n
    assert {tuple(c): w for c, w in zip(counts.tolist(), weight, strict=True)} == pytest.approx(brute)


def test_the_bootstrap_is_that_of_scipy():
    x = np.array([0.3, -1.2, 0.7, 2.4, 0.1])
    want = scipy.stats.bootstrap((x,), np.mean, n_resamples=40_000, method="percentile", rng=np.random.default_rng(0))
    assert stats.bootstrap_interval(x) == pytest.approx(tuple(want.confidence_interval), abs=0.04)
    brute = np.sort([np.mean(draw) for draw in itertools.product(x, repeat=5)])  # all 3,125
    low, high = stats.bootstrap_interval(x)
    assert low == pytest.approx(brute[math.ceil(0.025 * 3125) - 1]) and high == pytest.approx(brute[math.ceil(0.975 * 3125) - 1])


def test_intervals_hold_the_truth_as_often_as_is_known():
    found = stats.coverage(5, 4000, np.random.default_rng(0))
    assert found["Student"] == pytest.approx(0.95, abs=0.015)
    assert found["range"] == pytest.approx(1 - 2 * 0.5**5, abs=0.015)
    assert 0.78 < found["bootstrap"] < 0.88
    x = np.random.default_rng(0).standard_normal((200, 5))
    brute = [stats.bootstrap_interval(row) for row in x]
    assert stats.coverage(5, 200, np.random.default_rng(0))["bootstrap"] == np.mean([a <= 0 <= b for a, b in brute])


def test_ratios_are_paired():
    found = stats.ratio_interval([2.0, 20, 200], [1.0, 10, 100])
    assert found["each"] == pytest.approx([2, 2, 2]) and found["bootstrap"] == pytest.approx([2, 2])
    found = stats.ratio_interval([1.0, 2, 4], [1.0, 1, 1])
    assert found["mean"] == pytest.approx(2) and found["range"] == pytest.approx([1, 4])
    want = scipy.stats.t.interval(0.95, 2, math.log(2), scipy.stats.sem(np.log([1, 2, 4])))
    assert np.log(found["Student"]) == pytest.approx(want, rel=1e-4)
    assert found["range"][0] <= found["bootstrap"][0] <= found["bootstrap"][1] <= found["range"][1]


# ---- the record


def test_the_record_follows_from_its_own_runs_and_says_where_they_come_from():
    record = ledger.record("probe_settling")
    assert (store.records_folder() / "probe_settling.json").stat().st_size < 250_000
    for rate in ("falling", "constant"):
        assert sorted(record["runs"][rate]) == list("01234")
        for run in record["runs"][rate].values():
            assert run["commit"] and run["device"] and run["cpu_seconds"] > 0 and len(run["steps"]) == len(run["curves"]["kl"])
            for what, q in run["curves"].items():
                assert settling.settling(run["steps"], q).step == pytest.approx(run["settled"][what]["step"], rel=0.01), what
    again = measured.summed_up({key: record[key] for key in measured.KEPT})
    assert all(store.same(store.plain(again[key]), record[key]) for key in again)
    assert set(record["ladder"]["falling"]) == {
        *plans.ladder_recipes("linear", 0), *(f"{what}-{step}" for what in measured.SITES for step in measured.LATER), "looks-large", "carries-large",
        *(f"frame-{step}-stranger{k}" for step in measured.LATER for k in range(measured.N_STRANGERS)),
    }
    assert all(found["draws"] == 20 for found in record["strangers"].values()) and set(record["strangers"]) == {str(step) for step in measured.LATER}
    each = record["frozen_over_free"]["falling"]["frame-60"]["each"]
    held, free = (record["ladder"]["falling"][label]["3"]["kl"] for label in ("frame-60", "free"))
    assert each[3] == pytest.approx(held / free, rel=1e-4)


def test_a_stranger_s_attention_is_as_sharp_as_wanted_in_every_layer():
    recipe = plans.ladder_recipes("linear", 0)["free"]
    first = {name: p.detach() for name, p in measured.start(recipe).model.named_parameters()}
    even = [measured.attention_bits(recipe, first, layer) for layer in range(2)]
    found = measured.sharpened(recipe, [even[0] - 0.5, even[1] + 1])
    assert measured.attention_bits(recipe, found, 0) == pytest.approx(even[0] - 0.5, abs=0.01)
    changed = {name for name, x in found.items() if not torch.equal(x, first[name])}
    assert changed == {"blocks.0.attention.query.weight", "blocks.0.attention.key.weight"}  # layer 1 is more even than wanted
    T = start_tokens(recipe)
    assert even[0] == pytest.approx(float(np.mean(np.log2(np.arange(1, T + 1)))), abs=0.01)  # small first maps look anywhere


def start_tokens(recipe) -> int:
    return measured.episodes_of(recipe, 1).inputs.shape[1]


def test_a_folder_is_measured_as_far_as_it_got(tmp_path, monkeypatch):
    monkeypatch.setitem(plans.LADDER, "steps", 20)
    monkeypatch.setitem(plans.LADDER, "n_snapshots", 4)
    monkeypatch.setattr(measured, "LATER", (3,))
    monkeypatch.setattr(plans, "FREEZE_AT", {"linear": (0, 18), "constant": ()})
    for schedule in ("linear", measured.FRAMES, measured.STRANGERS):
        path = measured.train(tmp_path, schedule, 0)
        assert measured.train(tmp_path, schedule, 0) == path  # there already
    found = measured.summed_up(measured.measure_folder(tmp_path, 8, 8))
    labels = found["ladder"]["falling"]
    assert set(labels) == {"free", "looks-0", "looks-18", "carries-0", "carries-18", "nudged", "uniform", "frame-3", "values-3", "looks-large", "carries-large",
                           *(f"frame-3-stranger{k}" for k in range(measured.N_STRANGERS))}
    assert found["strangers"]["3"]["draws"] == measured.N_STRANGERS
    assert all(math.isfinite(one["0"]["kl"]) and one["0"]["kl"] > 0 for one in labels.values())
    assert found["runs"]["falling"]["0"]["frames"]["cpu_seconds"] > 0
    assert set(found["runs"]["falling"]["0"]["moved"]) == {"free", "looks-0"}  # update 18 is no snapshot of so short a run
