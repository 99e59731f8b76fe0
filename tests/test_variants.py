"""The record `attention_variants`: what it measures, and that it is what its parts say (chapter 17)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

import bayeswind_lib as bw
from bayeswind_lib.language import diagnose, manifold
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import attention_variants as variants
from bayeswind_lib.language import own_networks, stored
from bayeswind_lib.training import plans

RECORD = store.read("attention_variants")
PAIRS = [(tunnel, name) for tunnel, entries in RECORD["tunnels"].items() for name in entries]


@pytest.fixture(scope="module")
def network():
    return bw.load("bijection-transformer-classroom")


@pytest.fixture(scope="module")
def given(network):
    return own_networks.prompts_of(network, 12, torch.Generator().manual_seed(3))[0]


def test_the_figures_are_those_of_the_chapter(network, given):
    """Against `diagnose`, which takes one prompt at a time and a layout."""
    looks, found = diagnose.observe(network, given), own_networks.figures(network, given)
    assert found["fall"] == pytest.approx(diagnose.reduction(looks.focus), rel=1e-6)
    assert found["pc12"] == pytest.approx(manifold.shares(looks.values[:, -1])["pc12"], rel=1e-5)
    assert found["cosine"] == pytest.approx(diagnose.key_cosines(network).mean())
    assert found["fall_seen"] == found["fall"] and found["ceiling"] == 1
    np.testing.assert_allclose(own_networks.values_of(network, given), looks.values[:, -1], rtol=1e-5, atol=1e-5)


def test_a_mask_over_the_same_scores(network, given):
    """By hand for one prompt: the pattern within the window, made to sum to 1, wherever it has mass there."""
    tokens = next(prompt for prompt in given if len(prompt) > 6)[None]
    full, masked = own_networks.last_rows(network, tokens), own_networks.last_rows(network, tokens, 4)
    assert masked[..., :-4].abs().max() == 0
    torch.testing.assert_close(masked.sum(-1), torch.ones(masked.shape[:-1], dtype=torch.float64))
    inside = full[..., -4:]
    mass = inside.sum(-1, keepdim=True)
    enough = (mass > 1e-3).expand_as(inside)
    torch.testing.assert_close((inside / mass)[enough], masked[..., -4:][enough], atol=1e-4, rtol=1e-3)
    wide = own_networks.attention_figures(network, given, 99)
    assert wide["fall"] == pytest.approx(own_networks.attention_figures(network, given)["fall"], rel=1e-6)
    narrow = own_networks.attention_figures(network, given, 4)
    lengths = np.array([len(prompt) for prompt in given])
    assert narrow["ceiling"] == pytest.approx(np.mean(np.log(np.minimum(lengths, 4)) / np.log(lengths)))
    assert narrow["first"] <= narrow["first_seen"] <= 1


def test_pairs_of_seeds():
    """Student's interval is scipy's; and the exchange of pairs has all ways."""
    rng = np.random.default_rng(0)
    these, those = ({str(i): {"x": float(v)} for i, v in enumerate(rng.normal(size=5))} for _ in range(2))
    apart = [these[s]["x"] - those[s]["x"] for s in these]
    found = own_networks.paired(these, those, "x")
    low, high = stats.t.interval(0.95, 4, np.mean(apart), stats.sem(apart))
    assert (found["low"], found["high"]) == pytest.approx((low, high), rel=1e-4)
    assert found["above"] == sum(x > 0 for x in apart)
    null = variants.exchanged(these, those, "x")
    assert null["draws"] == 32 and null["null"] == pytest.approx(0, abs=1e-12) and null["high"] >= abs(np.mean(apart))
    assert own_networks.paired({"0": {"x": None}}, {"0": {"x": 1.0}}, "x") is None


# ---- the plan -----------------------------------------------------------------------------------


def test_one_part_is_exchanged_and_nothing_else():
    cells = plans.plan("variants")
    assert len({cell.key for cell in cells}) == len(cells) == 96
    plain = {(c.recipe.tunnel, c.recipe.seed): c for c in cells if variants.is_plain(c) and variants.name_of(c)[1] == variants.PLAIN}
    for cell in cells:
        tunnel, name = variants.name_of(cell)
        like = plain[tunnel, cell.recipe.seed].recipe
        changes = {"learning_rate": like.learning_rate, "matrix_learning_rate": like.matrix_learning_rate}
        assert cell.recipe.but(model_config=like.model_config, **changes) == like
        apart = {k: v for k, v in cell.recipe.model_config.items() if like.model_config.get(k) != v}
        assert apart == {k: v for k, v in plans.ATTENTION[name].items() if like.model_config.get(k) != v}
        assert (2 if cell.recipe.seed == 0 else 1) == sum(
            variants.name_of(c) == (tunnel, name) and c.recipe.seed == cell.recipe.seed for c in cells)  # fmt: skip


def test_wide_networks_have_the_parameters_of_the_plain_one():
    count = {name: one["parameters"] for name, one in RECORD["tunnels"]["bijection"].items()}
    for name in ("grouped-wide", "multiquery-wide"):
        assert count[name] == pytest.approx(count["multihead"], rel=0.005)
        assert count[name] > 1.1 * count[name.removesuffix("-wide")]
    assert count["window4"] == count["window8"] == count["multihead"]


def test_what_is_stored_is_not_trained_again_and_what_is_missing_is(monkeypatch):
    cells = plans.plan("variants")
    known = {tunnel: {name: one for name, one in entries.items() if name != "window8"} for tunnel, entries in RECORD["tunnels"].items()}
    monkeypatch.setattr(store, "read", lambda name, folder=None: {"tunnels": known})
    given = []
    monkeypatch.setattr(variants, "_measure", lambda cells, *rest: given.extend(cells))
    variants.measure(variants.EPISODES, runs="no such folder")
    assert given == [cell for cell in cells if variants.name_of(cell)[1] == "window8"] and len(given) == 12


def test_what_is_known_stays_and_what_is_new_is_set_beside_it(tmp_path):
    few = variants.short(plans.plan("variants"))
    first = variants._measure(few[:4], tmp_path, 16, 3, 12, {})
    both = variants._measure(few[4:], tmp_path, 16, 3, 12, first["tunnels"])
    whole = variants._measure(few, tmp_path, 16, 3, 12, {})
    assert store.same(both["tunnels"], whole["tunnels"]) and store.same(both["ledger"], whole["ledger"])


def test_its_rows_lie_in_a_record_of_their_own():
    assert not bw.ledger.runs(plan="variants")


# ---- the record ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("tunnel", "name"), PAIRS)
def test_the_record_is_what_its_parts_say(tunnel, name):
    one, plain = RECORD["tunnels"][tunnel][name], RECORD["tunnels"][tunnel][variants.PLAIN]
    assert sorted(one["seeds"]) == list("01234") and list(one["half"]) == ["0"]
    vectors = stored.unpack(one["vectors"], RECORD["prompts"])
    assert vectors.shape[1] == one["n_values"]
    assert manifold.shares(vectors)["pc12"] == pytest.approx(one["seeds"]["0"]["pc12"], abs=5e-3)
    for key in variants.FIGURES:
        assert store.same(one["mean"][key], variants.mean_of(one["seeds"], key))
        if name != variants.PLAIN:
            assert store.same(one["less_plain"][key], own_networks.paired(one["seeds"], plain["seeds"], key))
    for seed in one["seeds"].values():
        assert 0 <= seed["kl"] and math.isfinite(seed["kl"]) and 0 < seed["first"] <= seed["ceiling"] + 1e-6 <= 1 + 1e-5
        if name == "uniform":
            assert abs(seed["fall"]) < 1e-6 and seed["cosine"] is None


@pytest.mark.parametrize(("tunnel", "name"), [("bijection", "multiquery"), ("hmm", "window8")])
def test_untrained_copies_are_measured_again(tunnel, name):
    one = RECORD["tunnels"][tunnel][name]
    given = own_networks.prompts_for(tunnel, one["config"], RECORD["prompts"])
    found = [own_networks.untrained_figures(one["config"], given, draw) for draw in range(2)]
    for key in ("pc12", "cosine", "fall", "first"):
        kept = one["untrained"][key]
        assert all(kept["low"] - 1e-3 <= copy[key] <= kept["high"] + 1e-3 for copy in found), key


def test_the_ledger_s_numbers_are_the_record_s():
    again = variants.ledger_values(RECORD["tunnels"])
    assert all(store.same(again[key], RECORD[key]) for key in again)
    rows = {row["id"]: row for row in bw.ledger.rows() if row["id"].startswith("language-variants-")}
    assert len(rows) == 8 and all(row["measured"] is not None and row["draws"] for row in rows.values())
