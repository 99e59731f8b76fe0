"""Progress over training: distances, reference ways, transplants and the record, on cases whose answer is known."""

from __future__ import annotations

import math
import shutil

from _support import rng
import bayeswind_lib as bw
import numpy as np
import pytest
import torch
from bayeswind_lib import ledger
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import progress as measured
from bayeswind_lib.probes import progress


def network(seed=0):
    small = {"n_layers": 2, "n_heads": 2, "width": 16, "hidden": 24}
    recipe = bw.training.recipe("bijection", "transformer", "classroom", model_config=small)
    return bw.models.build("transformer", bw.training.loop.model_config(recipe), rng(seed)).eval()


@pytest.fixture(scope="module")
def data():
    return bw.tunnels.Bijection(10).sample(12, rng(1))


def weights(model):
    return {name: x.clone() for name, x in model.state_dict().items()}


# ---- distances


def test_scores_come_back_from_patterns_but_for_what_a_row_has_in_common():
    scores = torch.randn(2, 3, 5, 5, generator=rng(), dtype=torch.float64)
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    pattern = scores.masked_fill(future, -math.inf).softmax(-1)
    found = progress.row_centred_scores(pattern)
    for q in range(5):
        row = scores[..., q, : q + 1]
        assert torch.allclose(found[..., q, : q + 1], row - row.mean(-1, keepdim=True))
        assert not found[..., q, q + 1 :].any()
    assert progress.score_distance(pattern, pattern) == 0
    flat = torch.ones(5, 5, dtype=torch.float64).tril()
    flat = (flat / flat.sum(-1, keepdim=True)).expand_as(pattern)
    assert progress.score_distance(flat, pattern) == pytest.approx(1)
    assert math.isnan(progress.score_distance(pattern, flat))


def test_scores_are_read_before_the_softmax_saturates():
    model = bw.models.build("transformer", {"n_layers": 2, "n_heads": 2, "width": 8, "hidden": 8, "n_tokens": 5, "n_positions": 6, "n_outputs": 3, "scored": [5]}, rng())
    inputs = torch.randint(5, (3, 6), generator=rng())
    patterns = bw.probes.activations(model, inputs, ["pattern.*"])
    for found, pattern in zip(progress.scores_of(model, inputs), patterns.values(), strict=True):
        assert torch.allclose(found, progress.row_centred_scores(pattern), atol=1e-5)
    with torch.no_grad():
        model.blocks[0].attention.query.weight *= 1e6  # nearly all weights are now 0 in float32
    sharp, before = progress.scores_of(model, inputs)[0], found
    pattern = bw.probes.activations(model, inputs, ["pattern.0"])["pattern.0"]
    assert sharp.abs().max() > 2 * progress.row_centred_scores(pattern).abs().max() > 0 and before.shape == sharp.shape


def test_a_saturated_pattern_stands_still_while_scores_move():
    scores = torch.zeros(1, 1, 3, 3, dtype=torch.float64)
    scores[..., 0] = 30
    future = torch.ones(3, 3, dtype=torch.bool).triu(1)
    p, q = (s.masked_fill(future, -math.inf).softmax(-1) for s in (scores, 2 * scores))
    assert progress.pattern_distance(p, q) < 1e-9 and progress.score_distance(p, q) > 0.4


def test_total_variation_is_straight_and_cka_is_square_near_the_end(data):
    """Half of a small way: half the first distance, a quarter of the second, half of the Gram distance."""
    start, end = weights(network(0)), weights(network(3))
    for each in (start, end):  # large enough that patterns are not even
        for name, x in each.items():
            each[name] = 6 * x if x.ndim == 2 else x
    way = progress.progress(network(), progress.line(start, end, [0.0, 0.99, 0.995, 1.0]), data)
    for distance, want in ((way.attention, 2), (way.values, 4), (progress.gram_distance(1 - way.values), 2)):
        assert distance[1].mean() / distance[2].mean() == pytest.approx(want, rel=0.12)


# ---- when


def test_settled_means_for_good_and_between_snapshots():
    steps = [0, 1, 3, 7, 15]
    assert progress.steps_to(steps, [0, 0.25, 0.75, 1, 1], 0.5) == pytest.approx(math.sqrt(8) - 1)
    assert progress.steps_to(steps, [0, 0.9, 0.25, 0.75, 1], 0.5) == pytest.approx(math.sqrt(32) - 1)
    assert progress.steps_to(steps, [1, 1, 1, 1, 1], 0.5) == 0
    assert math.isnan(progress.steps_to(steps, [0, 0, 0, 0, 0.4], 0.5))


@pytest.mark.parametrize("schedule, power, want", [("linear", 1, 0.684), ("linear", 2, 0.438), ("constant", 1, 0.9), ("constant", 2, 0.684)])
def test_what_goes_in_step_with_the_rate_settles_when_the_chapter_says(schedule, power, want):
    recipe = bw.training.recipe("bijection", "transformer", "classroom", schedule=schedule, steps=1000, warmup_steps=0)
    left = 1 - progress.way_done(recipe, range(1001))
    assert np.flatnonzero(1 - left**power >= 0.9)[0] / 1000 == pytest.approx(want, abs=0.003)


def test_what_is_left_late_and_what_is_gained_after_the_start():
    steps = [0, 50, 600, 700, 1000]
    assert progress.left(steps, np.array([4.0, 3, 2, 1, 0])) == 0.25
    assert progress.gain(steps, [9.0, 6, 3, 2, 0.5]) == 12


# ---- reference ways


def test_the_line_and_the_walk_end_where_they_should():
    a, b = {"x": torch.zeros(200, 50)}, {"x": 3 * torch.ones(200, 50)}
    line = progress.line(a, b, [0.0, 0.25, 1.0])
    assert [float(w["x"].mean()) for w in line.values()] == [0, 0.75, 3]
    walk = progress.walk(a, b, [0.0, 0.25, 1.0], rng(5))
    assert [float(w["x"].std()) for w in walk.values()] == pytest.approx([0, 1.5, 3], rel=0.03)
    first, second = walk[0.25]["x"], walk[1.0]["x"] - walk[0.25]["x"]
    assert abs(float((first * second).mean())) < 0.1  # independent steps


def test_the_equivalent_share_is_blind_to_the_ruler():
    shares, way = [0.0, 0.3, 0.6, 1.0], np.array([2.0, 1.5, 0.4, 0.0])
    assert progress.equivalent_share(way, way, shares) == pytest.approx(shares)
    assert progress.equivalent_share([3.0, 0.95], way, shares) == pytest.approx([0, 0.45])
    some = way[[1, 2]]
    for g in (np.square, np.sqrt, np.expm1):
        assert progress.equivalent_share(g(some), g(way), shares) == pytest.approx(shares[1:3])


# ---- transplants


def test_a_frame_that_is_the_only_difference_is_all_that_a_transplant_mends(data):
    end = {name: 8 * x if x.ndim == 2 else x for name, x in weights(network(3)).items()}
    other = weights(network(5))
    queries = {name: 20 * other[name] if "query" in name else x for name, x in end.items()}
    model = network()
    before = weights(model)
    found = progress.transplants(model, {0: queries, 10: end}, data)
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    seen = progress.observe_snapshots(model, {0: queries, 10: end}, data)
    assert found["old rest"] == pytest.approx([seen[10].kl, seen[10].kl], abs=1e-6)  # the finished patterns mend it
    assert found["old frame"][0] == pytest.approx(seen[0].kl, abs=1e-6)  # and its own ones spoil the end
    assert abs(seen[0].kl - seen[10].kl) > 1e-4


def test_heads_are_paired_whatever_their_numbers(data):
    p = progress.observe(network(3), data).patterns[0]
    p = torch.stack([p[:, 0], p[:, 1], p.flip(0)[:, 0]], 1)
    assert progress.match_heads(p[:, [2, 0, 1]], p) == [1, 2, 0]
    one, other = progress.observe(network(3), data), progress.observe(network(4), data)
    apart = progress.seed_distances(one, other)
    assert all(a <= b + 1e-9 for a, b in zip(apart["attention, paired"], apart["attention"], strict=True))


# ---- the record


def test_the_record_is_small_and_says_where_each_curve_comes_from():
    record = ledger.record("probe_progress")
    assert (store.records_folder() / "probe_progress.json").stat().st_size < 200_000
    for seeds in record["runs"].values():
        for run in seeds.values():
            assert run["key"] and run["commit"] and run["device"]
            assert len(run["steps"]) == len(run["kl"]) == len(run["attention"]) >= 20
            assert len(run["between"]["values"]) == len(run["steps"]) - 1
    assert store.same(record["claims"], store.plain(measured.claims(record)))
    assert set(record["shipped"]) == set(measured.TUNNELS)


def test_measuring_again_keeps_what_only_the_folder_of_a_sweep_gives(tmp_path, monkeypatch):
    shutil.copy(store.records_folder() / "probe_progress.json", tmp_path)
    before = ledger.record("probe_progress")
    monkeypatch.setenv("BAYESWIND_RECORDS", str(tmp_path))
    monkeypatch.setattr(measured, "TUNNELS", ("bijection",))
    monkeypatch.setattr(measured, "lines", lambda ways, n, draws: {})
    found = measured.measure(4, 1)
    assert all(found[key] == before[key] for key in measured.KEPT)
    assert found["shipped"]["bijection"]["steps"] == before["shipped"]["bijection"]["steps"]


def test_a_sweep_is_measured_as_far_as_it_got(tmp_path, monkeypatch):
    from bayeswind_lib.training import plans, sweep

    small = {"steps": 8, "eval_every": 4, "eval_episodes": 8, "batch_size": 8}
    plain = plans.cell("bijection", "transformer", label="snapshots", n_snapshots=4, **small)
    still = plans.cell("bijection", "transformer", label="frozen-looks", frozen=("*.query.weight",), **small)
    sweep([plain, still], tmp_path, None, 0, 1, lambda words: None, 16, "cpu")
    cells = {"snapshots": [plain, plans.cell("hmm", "transformer", label="snapshots", n_snapshots=4)], "frozen": [still]}
    monkeypatch.setattr(measured, "plan", cells.get)
    found = measured.measure_folder(tmp_path, 8)
    (run,), (entry,) = found["runs"].values(), found["frozen"].values()
    assert run["0"]["key"] == plain.key and run["0"]["steps"] == [0, 1, 2, 4, 8]
    assert entry["0"]["kl over free"] > 0 and len(entry["0"]["moved"]["attention"]) == 3
    assert found["apart"] == {}
