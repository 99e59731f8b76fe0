"""The record of chapter 18: what it keeps says what it claims, and the machinery on a small random network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from bayeswind_lib import ledger
from bayeswind_lib.language import manifold, sula
from bayeswind_lib.language.llama import Llama, LlamaConfig
from bayeswind_lib.experiments import language_sula as measured
from bayeswind_lib.language.stored import Answers, median_effect
from bayeswind_lib.checkpoints import store


class Words:
    """A tokenizer of whole words and marks, for tests."""

    def __init__(self):
        self.known: dict[str, int] = {}

    def encode(self, text: str):
        import re

        parts = re.findall(r"\s?\w+|[^\w\s]", text)
        ids = [self.known.setdefault(part.strip(), len(self.known)) for part in parts]
        return type("Encoding", (), {"ids": ids})()


@pytest.fixture(scope="module")
def small():
    """The whole measurement, few prompts, a network of three layers."""
    changes = {
        "PER_COUNT": 6, "PER_EVIDENCE": 5, "FEW": 5, "SHOWN": (1, 2), "CUT": (1, 2), "MANY": (1, 2), "STREAM": (2,),
        "DRAWS": 3, "PUSHES": 3, "MIDDLE_DRAWS": 2,
    }
    patch = pytest.MonkeyPatch()
    for name, value in changes.items():
        patch.setattr(measured, name, value)
    config = LlamaConfig(n_layers=3, width=48, hidden=32, n_heads=6, n_groups=2, n_tokens=80)
    model = Llama(config).initialise(torch.Generator().manual_seed(1)).eval()
    for weight in model.parameters():
        weight.data.mul_(6) if weight.ndim > 1 else None
    said: list[str] = []
    record = store.plain(measured.measure(model, Words(), said.append))
    patch.undo()
    return record, said


def test_the_whole_measurement_runs_on_a_small_network(small):
    record, said = small
    assert said and set(record["prompts"]) == {
        "published", "shuffled", "other published", "matched", "plain", "swapped", "bare", "other matched",
        "untrained published", "untrained matched",
    }
    assert len(record["prompts"]["matched"]["shown"]) == 45 and len(record["prompts"]["published"]["shown"]) == 30
    for entry in record["cuts"]["1"]["as large as true"]:
        assert entry["kl"] >= 0 and 0 <= entry["moved"] <= 1
    assert record["stream"]["2"]["logit"][2] == pytest.approx(np.mean(record["stream"]["2"]["logit"]), abs=30)


def test_a_cut_leaves_nothing_along_its_axis_and_rounding_looks_like_something(small):
    found = small[0]["tautology"]["2"]
    assert found["float64"]["spread"] < 1e-12 < found["float32"]["spread"] < found["bfloat16"]["spread"] < 0.1 * found["before"]["spread"]


# ---- the shipped record


@pytest.fixture(scope="module")
def record():
    return ledger.record("language_sula")


def test_the_record_is_small_and_says_how_it_was_made(record):
    assert (store.records_folder() / "language_sula.json").stat().st_size < 400_000
    assert record["cost"]["processor_seconds"] > 0 and record["n_draws"] >= 50 and record["seed"] == measured.SEED


def test_the_ledgers_numbers_follow_from_what_is_kept(record):
    again = store.plain(measured.claims(record))
    for name, value in again.items():
        assert store.same(value, record[name], 1e-6), name


def test_prompts_of_the_record_are_the_designs(record):
    told = {name: Answers.of(kept) for name, kept in record["prompts"].items()}
    rows = sula.as_published(np.random.default_rng([measured.SEED, 0]), measured.PER_COUNT)
    assert ["".join(map(str, row)) for row in rows] == list(told["published"].shown)
    same = told["matched"]
    assert set(same.k) == {8} and {m: int((same.m == m).sum()) for m in range(-8, 9, 2)} == dict.fromkeys(range(-8, 9, 2), measured.PER_EVIDENCE)
    assert told["plain"].shown == told["swapped"].shown == told["bare"].shown
    assert all(((one.mass > 0) & (one.mass < 1)).all() for one in told.values())


def test_correlations_by_layer_are_those_of_the_coordinates_kept(record):
    for name in ("published", "matched", "untrained published"):
        one = Answers.of(record["prompts"][name])
        for layer in measured.SHOWN:
            stored = record["layers"][name]["H"][layer - 1]
            assert abs(sula.rank_correlation(one.pc1[str(layer)], one.exact)) == pytest.approx(abs(stored), abs=2e-3)


def test_axes_drawn_carry_as_much_as_the_one_that_was_cut(record):
    cut = record["cuts"][str(measured.CUT[-1])]
    shares = [one["share"] for one in cut["as large as true"]]
    assert np.allclose(shares, cut["true"]["share"], rtol=0.2)  # the tenth component already carries a little more
    there = cut["published"]
    assert np.allclose([one["share"] for one in there["as large as true"]], there["true"]["share"], rtol=0.11)
    assert max(abs(one["m"]) for one in cut["others"]) < 0.6 * abs(cut["evidence"]["m"])
    assert cut["true"]["share"] > 3 * np.median([one["share"] for one in cut["random"]])


def test_reachable_shares_are_those_of_components():
    v = np.random.default_rng(0).standard_normal((200, 20)) * np.geomspace(4, 0.5, 20)
    part = manifold.spectrum(v, standardise=False).shares
    assert measured.reachable(v, 1.0) == pytest.approx(part[0]) and measured.reachable(v, 0.0) == pytest.approx(part[9])


def test_a_line_on_many_edits_has_their_medians():
    one = {"share": 0.2, "mae_before": 0.3, "mae": 0.35, "kl": 0.1, "moved": 0.02, "slope_before": 2.0, "slope": 1.0}
    assert median_effect(one) == pytest.approx({"variance": 0.2, "rise of the error": 0.05, "KL": 0.1, "change of P": 0.02, "slope left": 0.5})
    assert median_effect([one, one | {"kl": 0.3}, one | {"kl": 0.5}])["KL"] == 0.3
    assert median_effect({k: v for k, v in one.items() if k != "share"})["variance"] is None


def test_others_are_orthogonal_and_large():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((300, 40)) * np.geomspace(6, 0.3, 40)
    axis = rng.standard_normal(40)
    drawn = np.array(measured.others_than(x, axis, rng, 15))
    assert np.allclose(np.linalg.norm(drawn, axis=1), 1) and np.abs(drawn @ axis).max() < 1e-9
    assert np.square(x @ drawn.T).sum(0).min() > np.square(x).sum() / 40


def test_slopes_are_least_squares():
    rng = np.random.default_rng(1)
    y, direction = rng.standard_normal(300), rng.standard_normal(6)
    found = measured.slopes(np.outer(y, direction) + 0.01 * rng.standard_normal((300, 6)), y)
    assert abs(found @ direction / np.linalg.norm(direction)) > 0.999
    assert measured.slope_on(y, 3 * y + 1) == pytest.approx(3)
