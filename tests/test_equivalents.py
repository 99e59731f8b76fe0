"""Copies with the same answer and another geometry, the papers' diagnostics on them, and what their record adds up to."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch
from _support import rng
from scipy.stats import beta
import bayeswind_lib as bw
from bayeswind_lib import experiments, scoring, stats
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import diagnostics
from bayeswind_lib.language import papers
from bayeswind_lib.probes import activations, equivalents
from bayeswind_lib.probes.keys import key_vectors, mean_cosine


def network(tunnel="bijection", seed=0, **sizes):
    small = {"n_layers": 2, "n_heads": 2, "width": 32, "hidden": 24} | sizes
    recipe = bw.training.recipe(tunnel, "transformer", "classroom", model_config=small)
    model = bw.models.build("transformer", bw.training.loop.model_config(recipe), rng(seed)).eval()
    with torch.no_grad():  # large enough weights that attention looks
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.mul_(8)
    model.record = {"tunnel": tunnel, "tunnel_config": recipe.tunnel_config}
    return model, bw.tunnels.build(tunnel, recipe.tunnel_config)


@pytest.fixture(scope="module", params=["bijection", "hmm"])
def opened(request):
    model, tunnel = network(request.param)
    episodes, others = tunnel.sample(24, rng(1)), tunnel.sample(24, rng(2))
    return model, episodes, others, scoring.entropy_bits(others.posterior.log2())


# ---- the same answer


@pytest.mark.parametrize("kind", list(equivalents.EQUIVALENTS))
def test_an_equivalent_gives_the_same_answer(opened, kind):
    model, episodes, others, numbers = opened
    before = copy.deepcopy(model.state_dict())
    equivalent = equivalents.EQUIVALENTS[kind](model, others.inputs, numbers)
    assert equivalents.difference(model, equivalent, episodes.inputs) < 1e-6
    assert not equivalent.training and equivalent.record is model.record
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    assert any(name not in before or not torch.equal(x, before[name]) for name, x in equivalent.state_dict().items())


@pytest.mark.parametrize(("kept", "site"), [("query", "key apart"), ("output", "values along entropy")])
def test_a_turn_that_is_not_turned_back_is_seen(opened, kept, site):
    """The same tolerance refuses half of an equivalent, so that it can fail."""
    model, episodes, others, numbers = opened
    equivalent = equivalents.EQUIVALENTS["keys apart" if "key" in site else site](model, others.inputs, numbers)
    layer = len(model.blocks) - 1
    getattr(equivalent.blocks[layer].attention, kept).weight.data.copy_(getattr(model.blocks[layer].attention, kept).weight.data)
    assert equivalents.difference(model, equivalent, episodes.inputs) > 1e-4


def test_the_geometry_of_equivalents_is_what_their_names_say(opened):
    model, _, others, numbers = opened
    made = {kind: make(model, others.inputs, numbers) for kind, make in equivalents.EQUIVALENTS.items()}
    rows = {kind: equivalent.blocks[-1].attention.key.weight.unflatten(0, (2, -1)) for kind, equivalent in made.items()}
    assert mean_cosine(rows["keys apart"]).max() < 1e-5 and mean_cosine(rows["keys alike"]).min() > 0.9
    if model.config.n_tokens:
        V = model.config.n_outputs
        keys = {kind: key_vectors(made[kind], torch.arange(V, 2 * V)) for kind in ("keys apart", "keys alike")}
        assert mean_cosine(keys["keys apart"]).max() < 1e-4 and mean_cosine(keys["keys alike"]).min() > 0.9
    share = {}
    for kind in ("values along entropy", "values all ways"):
        found = activations(made[kind], others.inputs, "value.1")["value.1"][:, 0, model.scored_positions(others.inputs.shape[1])]
        share[kind] = stats.pca(found.flatten(0, 1).double().numpy()).pc1
    assert share["values along entropy"] > 0.9 and share["values all ways"] < 1.01 / 16 + 0.01
    patterns = {kind: made[kind].attention_patterns(others.inputs)[-1] for kind in equivalents.EQUIVALENTS if "silent" in kind}
    bits = {kind: float(scoring.entropy(x.double()).mean()) for kind, x in patterns.items()}
    assert bits["silent layer, sharp"] < 0.3 < 2 < bits["silent layer, even"]


def test_outcomes_renamed_keep_every_entropy_and_all_that_is_inside(opened):
    model, episodes, *_ = opened
    other = equivalents.readout_renamed(model)
    mine, theirs = model.predict(episodes.inputs), other.predict(episodes.inputs)
    assert torch.allclose(theirs, mine.roll(1, -1), atol=1e-5) and equivalents.difference(model, other, episodes.inputs) > 0.1
    for name in ("residual.2", "pattern.1", "key.0"):
        assert torch.equal(*(activations(x, episodes.inputs, name)[name] for x in (model, other)))
    with pytest.raises(ValueError, match="renames nothing"):
        equivalents.readout_renamed(model, model.config.n_outputs)


@pytest.mark.parametrize("sizes", [{"n_key_heads": 1}, {"positions": "rotary"}])
def test_coordinates_that_are_not_free_are_refused(sizes):
    model, _ = network(**sizes)
    with pytest.raises(ValueError, match="have not all these coordinates free"):
        equivalents.turn_keys(model, 0, torch.eye(16, dtype=torch.float64).expand(2, -1, -1))


# ---- rates


def test_an_exact_interval_is_that_of_the_beta_distribution():
    low, high = stats.share_interval(3, 11)
    assert low == pytest.approx(beta.ppf(0.025, 3, 9)) and high == pytest.approx(beta.ppf(0.975, 4, 8))
    assert stats.share_interval(5, 5)[1] == 1 and stats.share_interval(0, 5)[0] == 0


def test_the_area_counts_pairs():
    g = np.random.default_rng(0)
    a, b = g.integers(4, size=9), g.integers(5, size=7)
    assert stats.roc_area(a, b) == pytest.approx(np.mean([[(x > y) + (x == y) / 2 for y in b] for x in a]))
    assert stats.roc_area([1, 2], [-np.inf]) == 1 and stats.roc_area([0.0], [0.0]) == 0.5


def test_clusters_are_drawn_whole():
    low, high = stats.clustered_interval([0.0] * 5 + [1.0] * 5, np.random.default_rng(0))
    assert 0.1 < low < 0.3 and 0.7 < high < 0.9
    assert stats.clustered_interval([0.5] * 4, np.random.default_rng(0)) == (0.5, 0.5)


def rows_of(numbers):
    """Rows of a panel in which every diagnostic has these numbers, by kind and family."""
    names = [one.name for one in papers.DIAGNOSTICS]
    return [
        {"kind": kind, "family": str(family), "numbers": dict.fromkeys(names, x),
         "passed": {one.name: one.passed(x) for one in papers.DIAGNOSTICS}}
        for kind, xs in numbers.items() for family, x in enumerate(xs)
    ]


def test_a_broken_diagnostic_moves_its_point(monkeypatch):
    """Numbers that tell right from wrong give the corner; a threshold that all pass, or a sign turned round, does not."""
    numbers = {"trained": [200.0] * 4, "untrained": [0.0] * 4, "renamed": [0.0] * 4} | {kind: [200.0] * 4 for kind in equivalents.EQUIVALENTS}
    rows, one = rows_of(numbers), papers.BY_NAME["every layer"]
    shares = [diagnostics.passing(rows, one.name, [kind])["share"] for kind in ("trained", "untrained", "renamed")]
    assert shares == [1, 0, 0] and diagnostics.area(rows, one, ["trained"], ["untrained"]) == 1
    assert diagnostics.of_equivalents(rows, one.name, np.random.default_rng(0))["kept"] == 1
    lax = dataclasses.replace(one, threshold=-1.0)
    monkeypatch.setattr(papers, "DIAGNOSTICS", (lax,))
    assert diagnostics.passing(rows_of(numbers), one.name, ["untrained"])["share"] == 1
    assert diagnostics.area(rows, dataclasses.replace(one, low=True), ["trained"], ["untrained"]) == 0


def test_a_number_that_is_not_there_passes_nothing_and_ranks_last():
    for one in papers.DIAGNOSTICS:
        assert not one.passed(float("nan")) and one.sign(float("nan")) == -np.inf
        assert one.passed(one.threshold)


# ---- the record


def test_the_record_is_what_its_networks_give():
    """Three networks of one family again, blind, and all counts from the stored numbers."""
    record = store.read("probe_diagnostics")
    name, seed = "bijection-transformer-classroom-posterior", 0
    stored = {row["kind"]: row for row in record["networks"] if row["family"] == f"{name}/{seed}"}
    model = bw.load(name, seed=seed)
    _, others, *_ = diagnostics.looked_at(model, diagnostics.EPISODES)
    numbers = scoring.entropy_bits(others.posterior.log2())
    cheap = ("token keys", "sharpening", "entropy order", "entropy error", "key maps", "focusing", "value shares", "value axis", "log loss")
    for kind, other in {
        "trained": model, "values along entropy": equivalents.EQUIVALENTS["values along entropy"](model, others.inputs, numbers),
        "renamed": equivalents.readout_renamed(model),
    }.items():
        episodes, _, prompts, entropy = diagnostics.looked_at(other, diagnostics.EPISODES)
        look = papers.Look(other, episodes, prompts, entropy)
        known = dict(zip(record["order"], stored[kind]["numbers"], strict=True))
        for what in cheap:
            assert look.number(what) == pytest.approx(known[what], rel=0.02, abs=2e-3), (kind, what)
        assert stored[kind]["right"] == (look.score.kl < record["right_below"]) == (kind != "renamed")


def test_the_records_counts_are_those_of_its_rows():
    record = store.read("probe_diagnostics")
    assert set(record["order"]) == set(record["diagnostics"]) == set(papers.BY_NAME)
    assert all(row["right"] == (row["kind"] in ("trained", *equivalents.EQUIVALENTS)) for row in record["networks"])
    assert max(row["apart"] for row in record["networks"] if "apart" in row) < 1e-6
    for i, name in enumerate(record["order"]):
        one, found = papers.BY_NAME[name], record["diagnostics"][name]
        assert one.threshold == pytest.approx(found["threshold"]) and one.low == found["low_is_sign"]
        for kind, counted in found["kinds"].items():
            some = [row["numbers"][i] for row in record["networks"] if row["kind"] == kind and row["numbers"][i] is not None]
            assert counted["n"] == len(some)
            near = sum(abs(x - one.threshold) < 1e-3 * abs(one.threshold) for x in some)  # stored with four digits
            assert abs(counted["passed"] - sum(map(one.passed, some))) <= near


def test_a_trial_has_all_parts_of_the_record():
    assert "probe_diagnostics" in experiments.MADE
    stored = store.read("probe_diagnostics")
    families = {row["family"] for row in stored["networks"] if row["kind"] == "trained"}
    assert {f"{one['name']}/{one['seed']}" for one in diagnostics.candidates()} == families
