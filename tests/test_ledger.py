"""The ledger: claims are well formed, statuses follow from evidence, records can be measured again."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import json
import math
import re
import shutil
import statistics
from functools import cache
from pathlib import Path

import pytest
import torch
from _support import CHAPTERS, ROOT

import bayeswind_lib as bw
from bayeswind_lib import checkpoints
from bayeswind_lib import experiments
from bayeswind_lib.checkpoints import store
from bayeswind_lib.ledger import page, trained
from bayeswind_lib.ledger.claims import FILE, Claim, half_unit, load_claims
from bayeswind_lib.experiments import ablation, beliefs, bijection_baselines, diagnostics, facts, gradient, hmm_baselines, progress, queue, recall_baselines, regression_baselines, settling
from bayeswind_lib.ledger.status import MIN_LEARNING_RATES, STATUSES, Evidence, Null, controls_suffice, gather, judge, settled_by
from bayeswind_lib.ledger.trained import PLANS, cells

NAMES = {
    "id", "source", "published", "measured", "standard_error", "seeds", "preset", "null", "null_low",
    "null_high", "draws", "status", "tunnel", "architecture", "variant", "statement", "unit",
    "device", "minutes", "commit",
}


@cache
def rows() -> list[dict]:
    return bw.ledger.rows()


# -- the reference points, derived a second time: by recursion over what was seen, no library code


def staircase(V: int, L: int) -> list[tuple[float, int, bool, float]]:
    """(weight, position, repeated, entropy) of every kind of moment with distinct keys."""
    return [(1 / L, k, False, math.log2(V - k)) for k in range(L)]


def sawtooth(V: int, L: int) -> list[tuple[float, int, bool, float, int]]:
    """The same with replacement, and the number of distinct keys; P(d of k) by inclusion-exclusion."""
    moments = []
    for k in range(L):
        for d in range(min(k, V) + 1):
            onto = sum((-1) ** j * math.comb(d, j) * (d - j) ** k for j in range(d + 1))
            p = math.comb(V, d) * onto / V**k  # exactly d distinct keys in k draws
            if d:
                moments.append((p * d / V / L, k, True, 0.0, d))
            if d < V:
                moments.append((p * (V - d) / V / L, k, False, math.log2(V - d), d))
    return moments


def median(pairs: list[tuple[float, float]]) -> float:
    total, pairs = 0.0, sorted((h, w) for w, h in pairs)
    half = sum(w for _, w in pairs) / 2
    for h, w in pairs:
        total += w
        if total >= half - 1e-12:
            return h
    raise AssertionError("no median")


def mean_gap(moments, said) -> float:
    return sum(m[0] * abs(said(m) - m[3]) for m in moments)


def derive_distinct(V: int, L: int) -> dict[str, float]:
    m = staircase(V, L)
    entropy, mid = sum(w * h for w, _, _, h in m), median([(w, h) for w, _, _, h in m])
    log = math.log2
    found = {
        "constants/mean_entropy": entropy,
        "constants/total_entropy": log(math.factorial(V)) - log(math.factorial(V - L)),
        "constants/bayes_loss_nats": entropy * math.log(2),
        "constants/uniform_loss_nats": math.log(V),
        "constants/best_accuracy": sum(1 / (V - k) for k in range(L)) / L,
        "constants/truth_in_random_set": sum((V - k) / V for k in range(L)) / L,
        "baselines/uniform/entropy_mae": log(V) - entropy,
        "baselines/uniform/kl": log(V) - entropy,
        "baselines/uniform/tv": sum(k / V for k in range(L)) / L,
        "baselines/all_tokens/entropy_mae": log(2 * V) - entropy,
        "baselines/all_tokens/kl": log(2 * V) - entropy,
        "baselines/certain/entropy_mae": entropy,
        "baselines/certain/kl": math.inf,
        "baselines/best_constant/entropy_mae": mean_gap(m, lambda x: mid),
        "baselines/mean_constant/entropy_mae": mean_gap(m, lambda x: entropy),
        "baselines/position_counter/entropy_mae": 0.0,
        "baselines/position_counter/tv": sum(k / V for k in range(L)) / L,
        "baselines/position_counter/kl": math.inf,
        "baselines/no_binding/entropy_mae": 0.0,
        "baselines/no_binding/kl": 0.0,
        "baselines/one_too_few/entropy_mae": mean_gap(m, lambda x: log(min(V, V - x[1] + 1))),
        "baselines/one_too_many/entropy_mae": mean_gap(m, lambda x: log(max(1, V - x[1] - 1))),
    }
    for w in (5, 10, 15, 17, 18):
        found[f"baselines/window_{w}/entropy_mae"] = mean_gap(m, lambda x, w=w: log(V - min(x[1], w)))
    for e in (1e-4, 1e-3, 1e-2):
        found[f"leak/{e:g}/entropy_mae"] = leak_error(V, L, e)
        found[f"leak/{e:g}/kl"] = -(L - 1) / L * log(1 - e)
    return found


def leak_error(V: int, L: int, e: float) -> float:
    """The entropy of a mixture: H(e) + (1-e) log2(free) + e log2(used), beside log2(free)."""
    binary = -e * math.log2(e) - (1 - e) * math.log2(1 - e)
    gaps = [abs(binary + e * math.log2(k / (V - k))) for k in range(1, L)]
    return sum(gaps) / L


def derive_replacement(V: int, L: int) -> dict[str, float]:
    m, log = sawtooth(V, L), math.log2
    by_position = [[(x[0], x[3]) for x in m if x[1] == k] for k in range(L)]
    medians = [median(pairs) for pairs in by_position]
    means = [sum(w * h for w, h in pairs) / sum(w for w, _ in pairs) for pairs in by_position]
    return {
        "constants/mean_entropy": sum(x[0] * x[3] for x in m),
        # Key k+1 is new if none of the k before it was the same.
        "constants/p_key_seen": 1 - sum((1 - 1 / V) ** k for k in range(L)) / L,
        "baselines/uniform/entropy_mae": mean_gap(m, lambda x: log(V)),
        "baselines/certain/entropy_mae": mean_gap(m, lambda x: 0.0),
        "baselines/no_binding/entropy_mae": mean_gap(m, lambda x: log(V - x[4]) if x[4] < V else log(V)),
        "baselines/repeat_aware/entropy_mae": mean_gap(m, lambda x: log(x[4]) if x[2] else x[3]),
        "baselines/binder/entropy_mae": mean_gap(m, lambda x: 0.0 if x[2] else log(V)),
        "baselines/position_counter/entropy_mae": mean_gap(m, lambda x: log(V - x[1])),
        "baselines/position_median/entropy_mae": mean_gap(m, lambda x: medians[x[1]]),
        "baselines/position_mean/entropy_mae": mean_gap(m, lambda x: means[x[1]]),
    }


REFERENCE = [c for c in load_claims() if c.record == "bijection_baselines" and "leak_for" not in c.key]
SAMPLED = [c for c in load_claims() if c.test == "samples"]
OFF_BY_ONE = {"bijection-window-17-l20"}  # printed 0.109; the value is 0.10850


@pytest.mark.parametrize("claim", REFERENCE, ids=lambda claim: claim.id)
def test_reference_points_equal_a_second_derivation(claim):
    _, size, sampling, key = claim.key.split("/", 3)
    V, L = (int(part[1:]) for part in size.split("-"))
    value = {"distinct": derive_distinct, "replacement": derive_replacement}[sampling](V, L)[key]
    row = next(row for row in rows() if row["id"] == claim.id)
    assert float(row["measured"]) == pytest.approx(value * claim.scale, rel=1e-8, abs=1e-10)


def test_leaks_that_explain_an_error_have_that_error():
    for claim in load_claims():
        if claim.key and "leak_for" in claim.key:
            error = float(claim.key.rsplit("/", 1)[1])
            measured = next(row["measured"] for row in rows() if row["id"] == claim.id)
            assert leak_error(20, 19, measured) == pytest.approx(error, rel=1e-6)


def test_reference_points_are_reproduced_to_the_printed_digits():
    found = {row["id"]: row["status"] for row in rows() if row["kind"] == "reference"}
    assert len(found) > 350
    off = {name: status for name, status in found.items() if status != "reproduced"}
    assert off == dict.fromkeys(OFF_BY_ONE, "partly")


def test_every_tunnel_has_reference_points():
    found = {(row["tunnel"], row["kind"]) for row in rows()}
    assert {tunnel for tunnel, kind in found if kind == "reference"} == {"bijection", "hmm", "regression", "recall", "recurrence"}
    assert {("hmm", "paper"), ("hmm", "code"), ("recall", "paper")} <= found


# -- the rows


def test_rows_have_the_pinned_names_and_are_plain_json():
    for row in rows():
        assert row.keys() >= NAMES, row["id"]
        assert row["status"] in STATUSES
        assert row["architecture"] and row["tunnel"] in {*bw.tunnels.TUNNELS, "language"}
    json.dumps(rows(), allow_nan=False)
    assert len({row["id"] for row in rows()}) == len(rows())


def test_every_row_stands_beside_a_null_of_at_least_20_draws():
    bare = [row["id"] for row in rows() if row["null"] is None and row["measured"] is not None]
    assert bare == []
    for row in (row for row in rows() if row["null"] is not None):
        assert row["draws"] >= 20 and row["null_low"] <= row["null"] <= row["null_high"], row["id"]


def test_read_against_names_rows_and_chapters_exist():
    names = {row["id"] for row in rows()}
    assert {row["read_against"] for row in rows()} - {None} <= names
    known = {path.stem for path in CHAPTERS.glob("*.md")} | {"02_tunnel"}
    assert {chapter for row in rows() for chapter in row["chapters"]} <= known


def test_what_was_not_trained_is_not_settled():
    trained = {record["name"] for record in checkpoints.shipped()} | {r["name"] for r in bw.ledger.runs()}
    for claim in load_claims():
        if claim.network and claim.network not in trained:
            row = next(row for row in rows() if row["id"] == claim.id)
            assert row["measured"] is None and row["seeds"] == []
            assert row["status"] == ("not testable" if claim.missing else "not settled")


def test_a_shipped_network_settles_its_claims_with_seeds_device_minutes_and_commit():
    row = bw.ledger.row("bijection-transformer-v3")
    assert row["status"] == "reproduced" and row["measured"] < 0.0075 < row["null_low"]
    assert row["seeds"] == [0] and row["minutes"] > 0 and row["standard_error"] > 0
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", row["commit"]) and row["device"]


def test_an_unknown_row_and_record_are_refused_with_what_there_is():
    with pytest.raises(KeyError, match="bijection-uniform-l19"):
        bw.ledger.row("bijection-uniform")
    with pytest.raises(FileNotFoundError, match="bijection_baselines"):
        bw.ledger.record("nothing")


def test_counts_cover_all_rows():
    assert sum(bw.ledger.counts().values()) == len(rows())
    assert bw.ledger.counts(kinds=("reference",))["partly"] == len(OFF_BY_ONE)


# -- the rules of the status, on made-up evidence


CLAIM = Claim(
    id="made-up", kind="paper", source="s", statement="s", published="0.007", unit="bits", how="h",
    test="reaches", tunnel="bijection", architecture="transformer", null={}, not_testable_if="n",
    band=0.0075, network="bijection-transformer", measure="kl",
)
NULL = Null(1.2, 1.1, 1.3, 20, "untrained")
ENOUGH = {"learning_rates": [1e-3, 2e-3, 4e-3, 8e-3], "kl": 0.10, "kl_doubled": 0.095}


@pytest.mark.parametrize(
    ("value", "changes", "status"),
    [
        (0.0070, {}, "reproduced"),
        (0.0075, {}, "reproduced"),
        (0.0001, {}, "reproduced"),
        (0.0076, {}, "partly"),
        (0.0151, {}, "not settled"),
        (0.0151, {"controls": ENOUGH}, "not reproduced"),
        (0.0151, {"controls": ENOUGH | {"learning_rates": [1e-3, 2e-3, 4e-3]}}, "not settled"),
        (0.0151, {"controls": ENOUGH | {"learning_rates": [1e-3] * 4}}, "not settled"),
        (0.0151, {"controls": ENOUGH | {"kl_doubled": 0.089}}, "not settled"),
        (0.0151, {"controls": ENOUGH | {"kl_doubled": None}}, "not settled"),
        (0.0151, {"controls": ENOUGH | {"kl_both": 0.001}}, "not settled"),
        (0.0151, {"controls": ENOUGH, "finished": False}, "not settled"),
        (0.0070, {"finished": False}, "not settled"),
        (0.0070, {"null": Null(0.0072, 0.0069, 0.008, 20, "untrained")}, "not settled"),
        (0.0070, {"null": Null()}, "not settled"),
        (None, {}, "not settled"),
    ],
)
def test_a_success_is_in_the_band_beyond_the_null_and_finished(value, changes, status):
    evidence = dataclasses.replace(Evidence(value, 1e-4, NULL), **changes)
    assert judge(CLAIM, evidence)[0] == status


@pytest.mark.parametrize(
    ("value", "controls", "status"),
    [
        (1.85, ENOUGH, "reproduced"),
        (1.85, {}, "not settled"),
        (1.107, ENOUGH, "partly"),
        (1.107, ENOUGH | {"kl_doubled": 0.05}, "not settled"),
        (0.01, {}, "not reproduced"),
    ],
)
def test_a_failure_counts_only_with_its_controls(value, controls, status):
    claim = dataclasses.replace(CLAIM, test="fails", band=[1.8, 1.9], fails_above=0.5, published="1.85")
    assert judge(claim, Evidence(value, 1e-4, NULL, controls=controls))[0] == status


MOVED = ENOUGH | {"kl_doubled": 0.05}


@pytest.mark.parametrize(
    ("best", "controls", "status"),
    [
        (0.08, MOVED, "not reproduced"),  # .22 of the gap's 2.59 factors of e
        (0.11, MOVED, "not reproduced"),  # nothing helped
        (0.07, MOVED, "not settled"),  # .36 of them
        (None, MOVED, "not settled"),
        (0.005, MOVED, "partly"),  # another run gets there
        (0.08, MOVED | {"learning_rates": [1e-3, 2e-3, 4e-3]}, "not settled"),
        (0.08, MOVED | {"kl_doubled": None}, "not settled"),
        (0.08, MOVED | {"kl_scan": 0.7}, "not settled"),  # a rate that does better was not run to the end
    ],
)
def test_a_small_error_that_still_moves_counts_if_the_printed_one_is_out_of_reach(best, controls, status):
    found = judge(CLAIM, Evidence(0.1, 1e-4, NULL, controls=controls, rescued=best))
    assert found[0] == status
    assert ("of the gap" in found[1]) == (status == "not reproduced")


@pytest.mark.parametrize(("rescued", "status"), [(None, "reproduced"), (0.51, "reproduced"), (0.49, "not reproduced")])
def test_what_cannot_be_done_is_refuted_by_one_longer_run(rescued, status):
    claim = dataclasses.replace(CLAIM, test="fails", band=[1.8, 1.9], fails_above=0.5, published="1.85")
    found = judge(claim, Evidence(1.85, 1e-4, NULL, controls=ENOUGH, rescued=rescued))
    assert found[0] == status
    assert ("not always: another rate or a larger budget, 0.49" in found[1]) == (status == "not reproduced")


@pytest.mark.parametrize(
    ("shares", "partly", "status"),
    [((1.85, 1.84), None, "reproduced"), ((1.85, 0.02), None, "not reproduced"), ((1.85, 0.4), 0.1, "partly"), ((1.85, 0.02), 0.1, "not reproduced")],
)
def test_one_seed_that_succeeds_refutes_that_it_cannot_be_done(shares, partly, status):
    claim = dataclasses.replace(CLAIM, test="fails", band=[1.8, 1.9], fails_above=0.5, published="1.85", partly=partly)
    runs = tuple({"seed": seed} for seed in range(2))
    assert judge(claim, Evidence(1.85, 1e-4, NULL, runs=runs, shares=shares, controls=ENOUGH))[0] == status


def test_a_small_network_refutes_no_published_success():
    small = dataclasses.replace(CLAIM, preset="classroom")
    status, reason = judge(small, Evidence(0.1, 1e-4, NULL, controls=ENOUGH))
    assert status == "not settled" and "nothing follows for the published network" in reason
    derived = dataclasses.replace(small, kind="derived")  # a claim about that size
    assert judge(derived, Evidence(0.1, 1e-4, NULL, controls=ENOUGH))[0] == "not reproduced"


@pytest.mark.parametrize(
    ("value", "controls", "status"),
    [(0.0092, {}, "reproduced"), (0.001, ENOUGH, "not reproduced"), (0.02, {}, "partly"), (0.1, {}, "not settled"), (0.1, ENOUGH, "not reproduced")],
)
def test_the_level_of_a_network_has_two_sides(value, controls, status):
    """A network without a jump does not reproduce a published jump."""
    claim = dataclasses.replace(CLAIM, test="within", band=[0.008, 0.01], partly=[0.003, 0.03], published="0.0092")
    assert judge(claim, Evidence(value, 1e-4, NULL, controls=controls))[0] == status


def ratio(ours: dict, theirs: dict, **changes) -> tuple[str, str]:
    claim = dataclasses.replace(CLAIM, test="within", band=[1.0, 9.0], published="2.0", over="hmm-mamba", **changes)
    return judge(claim, Evidence(2.0, 0.1, NULL, runs=(ours,), base_runs=(theirs,)))


def test_a_ratio_of_two_networks_needs_equal_sizes_and_budgets():
    ours = {"parameters": 150_000, "episodes": 1000}
    assert ratio(ours, {"parameters": 140_000, "episodes": 1050})[0] == "reproduced"
    status, reason = ratio(ours, {"parameters": 60_000, "episodes": 1000})
    assert status == "not settled" and "parameters 60,000 against 150,000" in reason and "episodes" not in reason
    assert "episodes not stored" in ratio(ours, {"parameters": 150_000, "episodes": None})[1]
    assert "episodes 2,000" in ratio(ours, {"parameters": 150_000, "episodes": 2000})[1]


def test_a_ratio_of_two_networks_has_to_be_the_most_extreme_way_to_deal_out_the_seeds():
    claim = dataclasses.replace(CLAIM, test="at_least", band=1.0, published="2.0", over="hmm-mamba")
    dealt = Null(1.0, 0.5, 2.0, 20, "dealt out")
    run = {"parameters": 150_000, "episodes": 1000}
    known = {"runs": (run,), "base_runs": (run,)}
    assert judge(claim, Evidence(2.0, 0.1, dealt, **known))[0] == "reproduced"
    assert judge(claim, Evidence(1.9, 0.1, dealt, controls=ENOUGH, **known))[0] == "not reproduced"
    assert judge(claim, Evidence(2.0, 0.1, dataclasses.replace(dealt, draws=2), **known))[0] == "not settled"
    smaller = {"runs": (run,), "base_runs": (run | {"parameters": 60_000},)}
    assert "parameters" in judge(claim, Evidence(2.0, 0.1, dealt, **smaller))[1]


@pytest.mark.parametrize(("value", "status"), [(1.05, "not reproduced"), (1.2, "not reproduced"), (1.3, "not reproduced"), (1.31, "reproduced")])
def test_at_least_as_large_has_to_lie_beyond_the_whole_range_of_the_null(value, status):
    """The null runs from 1.1 to 1.3: what lies inside it, or below, is chance, however large the band lets it be."""
    claim = dataclasses.replace(CLAIM, test="at_least", band=1.0, published="1.0", measure="entropy_mae")
    assert judge(claim, Evidence(value, 0.1, NULL, controls=ENOUGH))[0] == status


RECORD_ROW = dataclasses.replace(CLAIM, network=None, measure=None, record="probe_values", key="x", preset="paper", kind="code")
INSIDE = Null(0.0072, 0.0069, 0.008, 20, "noise")


@pytest.mark.parametrize(
    ("changes", "value", "null", "status"),
    [
        ({"test": "within", "band": [0.0, 0.0075]}, 0.0070, INSIDE, "not reproduced"),  # among the draws
        ({"test": "within", "band": [0.0, 0.0075]}, 0.0074, Null(0.004, 0.003, 0.005, 20, "n"), "not reproduced"),  # the null has it better
        ({"test": "within", "band": [0.0, 0.0075]}, 0.0060, INSIDE, "reproduced"),
        ({"test": "within", "band": [0.005, 0.0075]}, 0.0070, Null(0.02, 0.01, 0.03, 20, "n"), "reproduced"),
        ({"test": "within", "band": [0.005, 0.0075]}, 0.0070, INSIDE, "not reproduced"),
        ({"test": "within", "band": [0.006, 0.007], "partly": [0.005, 0.009]}, 0.0055, Null(0.0058, 0.0057, 0.0059, 20, "n"), "not reproduced"),
        ({"test": "at_least"}, 0.0075, INSIDE, "not reproduced"),
        ({"test": "at_least"}, 0.0081, INSIDE, "reproduced"),
        ({"test": "at_least"}, 0.0081, Null(), "not settled"),
        ({"test": "at_least", "of_null": True}, 0.0075, INSIDE, "reproduced"),
        ({"test": "at_least", "null": {"key": "flipped/x"}}, 0.008, INSIDE, "reproduced"),  # the one true deal, the most extreme
        ({"test": "at_least", "null": {"key": "flipped/x"}}, 0.0079, INSIDE, "not reproduced"),
    ],
)
def test_a_record_s_success_lies_beyond_its_null_on_the_claim_s_side(changes, value, null, status):
    claim = dataclasses.replace(RECORD_ROW, kind="derived", **changes)
    assert judge(claim, Evidence(value, None, null, controls=ENOUGH))[0] == status


def test_no_row_is_reproduced_inside_its_null_or_behind_it():
    """Digits and samples aside, which are compared with a print, and what is said of random networks themselves."""
    claims = {claim.id: claim for claim in load_claims()}
    for row in rows():
        claim = claims[row["id"]]
        if row["status"] not in ("reproduced", "partly") or claim.of_null or row["kind"] == "reference" or row["test"] in ("digits", "samples", "fails"):
            continue
        if re.search(r", but (after twice|in a shorter|at the rate)", row["reason"]):  # it is another network that lies beyond its own null
            continue
        if "but so is its null" in row["reason"] or "; its null lies there too" in row["reason"]:  # the printed number is found, and says nothing
            assert row["status"] == "partly" and row["kind"] != "derived", row["id"]
            continue
        low, high = (float(row[name]) for name in ("null_low", "null_high"))
        above = row["test"] == "at_least" or (row["band"][0] != 0 and row["published"] > row["null"])
        dealt = ("the two arms exchanged at random", "the two networks of a seed exchanged", "the same runs, reassigned to the two networks in every way")
        edge = row["null_what"] in dealt or row["base_runs"]
        beyond = (row["measured"] > high or (edge and row["measured"] == high)) if above else row["measured"] < low
        assert beyond, (row["id"], row["measured"], low, high)


def test_what_is_said_of_random_networks_is_said_of_their_null():
    about = [claim for claim in load_claims() if claim.of_null]
    assert len(about) == 3 and all(re.search("random|untrained|not trained", claim.statement.lower()) for claim in about)


@pytest.mark.parametrize(
    ("controls", "preset", "status", "words"),
    [
        (ENOUGH, "paper", "not reproduced", "smaller"),
        ({}, "paper", "not settled", "only 1 learning rate was tried"),
        (ENOUGH | {"kl_doubled": None}, "paper", "not settled", "the budget was not doubled"),
        ({}, "exact", "not reproduced", "smaller"),  # an identity has no training
    ],
)
def test_a_probe_s_failure_needs_the_controls_of_the_network_it_opened(controls, preset, status, words):
    claim = dataclasses.replace(RECORD_ROW, test="at_least", band=None, published="0.9", preset=preset)
    found = judge(claim, Evidence(0.5, None, Null(0.1, 0.1, 0.1, 20, "n"), controls=controls))
    assert found[0] == status and words in found[1]


def test_the_controls_of_an_opened_network_are_read_from_the_runs():
    """Who opened a network says "not reproduced" only with its controls, or where other runs were read as well."""
    opened = [claim for claim in load_claims() if claim.opens]
    assert len(opened) > 30
    for claim in opened:
        found = bw.ledger.row(claim.id)
        if found["status"] == "not reproduced":
            tried = set(found["tried"])  # without other runs only what one success refutes
            enough = all(controls_suffice(trained.controls(name, trained.stored_rows()))[0] for name in claim.opens)
            assert claim.test == "fails" or enough or ("doubled" in tried and len(tried) >= 4), claim.id
        assert found["seeds"] == list(dict.fromkeys(seed for some in claim.opens.values() for seed in some)) or found["measured"] is None


def test_probes_of_trained_networks_name_what_they_opened():
    names = {record["name"] for record in checkpoints.shipped()} | {cell.name for plan in (*PLANS, "queue") for cell in cells(plan)} | {"settling"}
    for claim in load_claims():
        assert set(claim.opens) <= names | {"bijection-transformer-paired"}, claim.id
        if claim.record and claim.needs_controls and claim.kind != "reference" and not (claim.of_null or claim.missing):
            assert claim.opens, claim.id


def test_a_missing_standard_error_is_none_and_a_seed_is_a_network_s():
    for row in rows():
        if row["random_seed"] is not None:
            assert row["random_seed"] not in row["seeds"], row["id"]
        if row["standard_error"] == 0 and not row["network"]:
            assert row["preset"] == "exact", row["id"]
    probe, formula = bw.ledger.row("values-first-axis"), bw.ledger.row("bijection-parameters-paper")
    assert probe["standard_error"] is None and probe["seeds"] == [0] and probe["random_seed"] == experiments.SEED
    assert formula["standard_error"] == 0.0 and formula["seeds"] == []


def test_what_was_picked_after_looking_is_partly_and_networks_that_disagree_settle_nothing():
    null = Null(0.1, 0.1, 0.1, 20, "n")
    claim = dataclasses.replace(RECORD_ROW, test="at_least", band=None, published="0.4", picked="the best of six")
    assert judge(claim, Evidence(0.5, None, null)) == ("partly", "at least as large as published, by a reading that was picked after looking: the best of six")
    plain = dataclasses.replace(claim, picked=None)
    assert judge(plain, Evidence(0.5, None, null, others=(0.6,)))[0] == "reproduced"
    half = dataclasses.replace(plain, but="the sentence says more")
    assert judge(half, Evidence(0.5, None, null)) == ("partly", "at least as large as published, but the sentence says more")
    assert judge(half, Evidence(0.3, None, null, controls=ENOUGH))[0] == "not reproduced"
    status, reason = judge(plain, Evidence(0.5, None, null, others=(0.3,), controls=ENOUGH))
    assert status == "not settled" and reason.endswith("do not agree: 0.5, 0.3")
    undecided = dataclasses.replace(plain, published="0.9", cannot_refute="the base: it is unknown")
    assert judge(undecided, Evidence(0.5, None, null, controls=ENOUGH)) == ("not testable", "missing: the base: it is unknown (smaller than published)")
    assert judge(undecided, Evidence(0.95, None, null))[0] == "reproduced"


def alone(tried: dict[str, float]) -> dict:
    """Readings of other runs without a null of their own."""
    return {run: (value, Null()) for run, value in tried.items()}


SHORT = {"learning_rates": [0.003, 0.001], "kl_scan": 0.95}  # a scan in which no rate does better than the plain one by a tenth
OTHERS = {"rate 0.001": 0.3, "rate 0.002": 0.35, "rate 0.004": 0.2, "doubled": 0.4}


@pytest.mark.parametrize(
    ("tried", "status", "words"),
    [
        (OTHERS, "not reproduced", "and so it is at 3 other learning rates and after twice the updates"),
        (
            {run.replace("04", "04 shorter"): value for run, value in OTHERS.items()}, "not reproduced",
            "and so it is at 3 other learning rates (in runs of 1/4 of the updates) and after twice the updates",
        ),
        (OTHERS | {"rate 0.004": 0.6}, "partly", "smaller than published, but at the rate 0.004 it is 0.6"),
        (OTHERS | {"doubled": 0.5}, "partly", "but after twice the updates it is 0.5"),
        ({run: value for run, value in OTHERS.items() if run != "doubled"}, "not settled", "only 2 learning rates were tried"),
        ({("rate 0.001 doubled" if run == "rate 0.001" else run): value for run, value in OTHERS.items()}, "not settled", "only 2 learning rates were tried"),
        ({run: value for run, value in OTHERS.items() if run != "rate 0.001"}, "not settled", "only 2 learning rates were tried"),
    ],
)
def test_what_a_probe_reads_counts_if_networks_at_other_rates_and_of_twice_the_budget_read_it_too(tried, status, words):
    claim = dataclasses.replace(RECORD_ROW, test="at_least", band=None, published="0.5", preset="paper")
    null = Null(0.1, 0.1, 0.1, 20, "n")
    found = judge(claim, Evidence(0.4, None, null, controls=SHORT, tried=alone(tried)))
    assert found[0] == status and words in found[1]
    assert judge(claim, Evidence(0.6, None, null, tried=alone(tried)))[0] == "reproduced"  # a success needs none of it
    unknown = dataclasses.replace(claim, cannot_refute="the base: it is unknown")
    assert judge(unknown, Evidence(0.4, None, null, tried=alone(tried)))[0] == "not testable"


@pytest.mark.parametrize(("scan", "status"), [(0.95, "not reproduced"), (0.85, "not settled"), (None, "not settled")])
def test_short_runs_count_as_tried_only_if_no_rate_does_better_in_them(scan, status):
    claim = dataclasses.replace(RECORD_ROW, test="at_least", band=None, published="0.5", preset="paper")
    short = alone({run.replace("04", "04 shorter"): value for run, value in OTHERS.items()})
    controls = SHORT | {"kl_scan": scan}
    assert judge(claim, Evidence(0.4, None, Null(0.1, 0.1, 0.1, 20, "n"), controls=controls, tried=short))[0] == status
    whole = judge(claim, Evidence(0.4, None, Null(0.1, 0.1, 0.1, 20, "n"), controls=controls, tried=alone(OTHERS)))
    assert whole[0] == "not reproduced"


@pytest.mark.parametrize(("doubled", "status"), [(1.9, "reproduced"), (0.2, "not settled")])
def test_a_published_failure_holds_if_networks_at_other_rates_and_of_twice_the_budget_fail_too(doubled, status):
    claim = dataclasses.replace(RECORD_ROW, test="fails", band=[1.8, 1.9], fails_above=0.5, published="1.85", preset="paper")
    tried = {"rate 0.001": 1.7, "rate 0.002": 1.8, "rate 0.004": 3.0, "doubled": doubled}
    assert judge(claim, Evidence(1.85, None, NULL, tried=alone(tried)))[0] == status


def test_a_run_that_was_tried_is_read_against_its_own_null():
    claim = dataclasses.replace(RECORD_ROW, kind="derived", test="at_least", band=None, published="0.2", preset="paper")
    plain, own = Null(0.5, 0.4, 0.6, 20, "n"), Null(0.1, 0.05, 0.15, 20, "n")  # large enough, and no larger than its null
    assert judge(claim, Evidence(0.5, None, plain, tried=alone(OTHERS)))[0] == "not reproduced"
    beyond = alone(OTHERS) | {"doubled": (0.4, own)}
    assert judge(claim, Evidence(0.5, None, plain, tried=beyond))[0] == "partly"


def test_other_runs_of_the_network_that_was_opened_are_read_from_their_record():
    claim = dataclasses.replace(RECORD_ROW, record="probe_x", key="trained/share", opens={"one": [0]}, null={"record": "probe_x", "key": "noise/share"})
    draws = {"low": 1.0, "null": 2.0, "high": 3.0, "draws": 20}
    one = {"doubled": {"probe_x": {"trained": {"share": 0.3}, "noise": {"share": draws}}}, "rate 0.1": {"probe_x": {"trained": {}}}}
    records = {
        "probe_x": {"device": "d", "commit": "c", "trained": {"share": 0.4}},
        "probe_tried": {"networks": {"one": one, "two": {"doubled": {"probe_x": {"trained": {"share": 9.0}}}}}},
    }
    found = gather(claim, records).tried
    assert set(found) == {"doubled"} and found["doubled"][0] == 0.3 * claim.scale and found["doubled"][1].high == 3.0
    assert gather(dataclasses.replace(claim, opens={"one": [0], "two": [0]}), records).tried == {}


def test_printed_ranges_count_from_end_to_end():
    claim = dataclasses.replace(RECORD_ROW, test="digits", published="0.034", published_to="0.051", band=None)
    for value, status in ((0.0336, "reproduced"), (0.045, "reproduced"), (0.0514, "reproduced"), (0.08, "not reproduced")):
        assert judge(claim, Evidence(value, 0.0, NULL))[0] == status
    assert bw.ledger.row("language-keys-phi-2")["band"] == pytest.approx([0.0335, 0.0515])


def test_a_measured_value_can_be_told_from_its_threshold():
    row = bw.ledger.row("frame-before-values")
    assert float(page.measured(row)) == pytest.approx(row["measured"], rel=1e-3)  # it was shown as "1"
    near = row | {"measured": 0.999996, "standard_error": None, "runs": []}
    assert page.measured(near) == "0.999996" and page.measured(near | {"measured": 1.0}) == "1"


def test_nobody_published_what_this_book_states():
    printed = {"hmm-no-discontinuity", "hmm-mamba-beats-transformer", "gradient-routing-law", "gradient-value-law", "keys-cosine-paper-posterior"}
    assert {row["kind"] for row in rows() if row["id"] in printed} == {"derived"}
    for kind, heading in (("reference", "This book&#x27;s value"), ("paper", "Published")):
        html = page.LedgerTable([row for row in rows() if row["kind"] == kind])._repr_html_()
        assert heading.replace("&#x27;", "'") in html and (">Published" in html) == (kind == "paper")
    mixed = page.LedgerTable([bw.ledger.row("bijection-uniform-l20"), bw.ledger.row("frame-before-values")])._repr_html_()
    assert ">Published, or ours<" in mixed and "this book&#x27;s value" in mixed and "this book&#x27;s number for a published sentence" in mixed


def test_rows_say_how_the_network_measured_differs_from_the_published_one():
    config = checkpoints.load("hmm-transformer").config
    for row in rows():
        if row["network"] == "hmm-transformer":
            assert f"{len(checkpoints.load('hmm-transformer').blocks)} layers of {config.width} channels" in row["note"], row["id"]
    both = [bw.ledger.row(f"{tunnel}-transformer-{version}")["note"] for tunnel in ("bijection", "hmm") for version in ("v1", "v3")]
    assert all("one document, two numbers" in note for note in both)
    assert both[0].split("(")[0] in page.LedgerTable([bw.ledger.row("bijection-transformer-v1")])._repr_html_()


def test_a_missing_ingredient_makes_it_not_testable_and_is_named():
    claim = dataclasses.replace(CLAIM, missing="the trainer")
    assert judge(claim, Evidence(0.001, 1e-4, NULL)) == ("not testable", "missing: the trainer")


@pytest.mark.parametrize(
    ("printed", "value", "status"),
    [
        ("1.8490", 1.84903709, "reproduced"),
        ("1.8490", 1.84905, "reproduced"),
        ("1.8490", 1.84906, "partly"),
        ("1.8490", 1.8492, "not reproduced"),
        ("0.438", 0.4375, "reproduced"),
        ("1.7e-3", 1.71e-3, "reproduced"),
        ("1.7e-3", 2.0e-3, "not reproduced"),
        ("0", 0.0, "reproduced"),
        ("0", 1e-6, "not reproduced"),
        ("inf", math.inf, "reproduced"),
        ("inf", 12.0, "not reproduced"),
        ("50", 13.67, "not reproduced"),
    ],
)
def test_digits_are_compared_as_printed(printed, value, status):
    claim = dataclasses.replace(CLAIM, test="digits", published=printed)
    assert judge(claim, Evidence(value))[0] == status


@pytest.mark.parametrize(
    ("value", "ours", "theirs", "status"),
    [
        (0.4137, 0.0005, 0.0004, "reproduced"),
        (0.4160, 0.0005, 0.0004, "reproduced"),
        (0.4162, 0.0005, 0.0004, "partly"),
        (0.4163, 0.0005, 0.0004, "not reproduced"),
        (0.41355, 0.0, 0.0, "reproduced"),
        (0.4140, 0.0, 0.0, "not reproduced"),
    ],
)
def test_two_samples_agree_within_both_errors_and_the_rounding(value, ours, theirs, status):
    claim = dataclasses.replace(CLAIM, test="samples", published="0.4135", episodes=40_000)
    assert judge(claim, Evidence(value, ours, published_se=theirs))[0] == status


def test_a_formula_that_sampled_episodes_contradict_is_not_reproduced():
    claim = dataclasses.replace(CLAIM, test="digits", published="1.00")
    assert judge(claim, Evidence(1.0, check=1.04, check_se=0.01))[0] == "reproduced"
    assert judge(claim, Evidence(1.0, check=1.06, check_se=0.01))[0] == "partly"
    assert judge(claim, Evidence(1.0, check=math.inf, check_se=math.nan))[0] == "partly"


@pytest.mark.parametrize(("printed", "half"), [("1.8490", 5e-5), ("13.67", 5e-3), ("6.2e-4", 5e-6), ("618", 0.5)])
def test_half_a_unit_of_the_last_digit(printed, half):
    assert half_unit(printed) == pytest.approx(half)


# -- the claim file


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('test = "guess"', "choose one of digits"),
        ('colour = "red"', "has no entry colour"),
        ('network = "x"', "either a network or a record"),
        ('test = "samples"', "needs the published number of episodes"),
        ('test = "within"', "needs a band"),
    ],
)
def test_a_faulty_claim_is_refused_by_name(tmp_path, entry, words):
    good = (
        '[[claim]]\nid = "a"\nkind = "paper"\nsource = "s"\nstatement = "s"\npublished = "1"\nunit = "u"\n'
        'how = "h"\ntest = "digits"\nrecord = "facts"\nkey = "k"\ntunnel = "bijection"\n'
        'architecture = "mlp"\nnull = {}\nnot_testable_if = "n"\n'
    )
    path = tmp_path / "claims.toml"
    path.write_text(good)
    assert load_claims(path)[0].value == 1.0
    key = entry.split(" ")[0]
    path.write_text(re.sub(rf"^{key} = .*\n", "", good, flags=re.M) + entry + "\n")
    with pytest.raises(ValueError, match=f"claim a.*{words}"):
        load_claims(path)
    path.write_text(good + good)
    with pytest.raises(ValueError, match="occurs twice"):
        load_claims(path)


def test_no_status_and_no_measured_value_is_written_by_hand():
    text = FILE.read_text()
    assert not re.search(r"^\s*(status|measured|standard_error)\s*=", text, re.M)
    assert not {"status", "measured"} & {field.name for field in dataclasses.fields(Claim)}


# -- the stored records


def test_stored_networks_are_the_shipped_ones():
    """Fails when weights were exchanged without `make records`."""
    stored = bw.ledger.record("networks")["networks"]
    shipped = {(r["name"], str(r["seed"])): r["sha256"] for r in checkpoints.shipped()}
    assert {(n, s): e["sha256"] for n, v in stored.items() for s, e in v.items()} == shipped


@pytest.mark.parametrize("record", checkpoints.shipped(), ids=lambda r: f"{r['name']}-{r['seed']}")
def test_a_stored_score_is_found_again_on_other_episodes(record):
    stored = bw.ledger.record("networks")["networks"][record["name"]][str(record["seed"])]["scores"]
    model = bw.load(record["name"], record["seed"])
    tunnel = bw.tunnels.build(record["tunnel"], record["tunnel_config"])
    score = bw.score(model, tunnel, 200, rng=torch.Generator().manual_seed(77))
    for name in ("entropy_mae", "kl", "tv", "support_leak"):
        spread = math.hypot(getattr(score, f"{name}_se"), stored[f"{name}_se"])
        assert abs(getattr(score, name) - stored[name]) <= 5 * spread, name


def test_stored_reference_points_are_found_again():
    """A whole task again from its seeds; on another processor the last digits may differ."""
    stored = bw.ledger.record("bijection_baselines")
    fresh = bijection_baselines.measure(stored["n_episodes"], sizes=((5, 4),))["tasks"]["V5-L4"]
    assert store.same(store.plain(fresh), stored["tasks"]["V5-L4"], tolerance=1e-4)


def test_a_stored_hmm_task_is_found_again():
    stored = bw.ledger.record("hmm_baselines")["tasks"]["S3-V3-K20-grid-fixed0"]
    tasks = ((1, {"n_states": 3, "n_symbols": 3, "fixed": 0}),)
    (fresh,) = hmm_baselines.measure(stored["n_episodes"], tasks=tasks, simple=())["tasks"].values()
    assert store.same(store.plain(fresh), stored, tolerance=1e-4)


@pytest.mark.parametrize("claim", SAMPLED, ids=lambda claim: claim.id)
def test_a_sampled_reference_point_has_an_error_that_could_have_shown_a_difference(claim):
    """A standard error so large that every number would agree proves nothing."""
    row = next(row for row in rows() if row["id"] == claim.id)
    rare = row["measured"] < 5e-3 or "max-above" in claim.id  # a tail: fewer cells tell of it
    assert row["standard_error"] <= (0.15 if rare else 0.03) * abs(row["measured"])


def test_stored_facts_are_found_again():
    stored, fresh = bw.ledger.record("facts"), store.plain(facts.measure())
    assert fresh["parameters"] == stored["parameters"]
    assert store.same(fresh["published"], stored["published"])
    assert fresh["parameters"]["separate"] == bw.models.TransformerConfig(
        n_tokens=40, n_positions=39, scored=tuple(range(0, 39, 2)), n_outputs=20,
        first_output_token=20, width=192,
    ).n_parameters


def test_counts_follow_the_released_formulas():
    """By the formulas of the authors' code; ours are counted tensor by tensor."""
    counts, d = facts.measure()["parameters"], 256
    assert counts["hmm_transformer"] == 105 * d + 1024 * d + 9 * (12 * d * d + 13 * d) + 2 * d + 5 * d + 5
    assert counts["lstm_hmm"] == 9 * (8 * d * d + 8 * d) + 105 * d + 2 * d + 5 * d + 5
    block = 4 * d * d + 10 * d + 66 * d + 4 * d + 16 + 2 * d + 2 * d * d + 4 * d
    assert counts["mamba_hmm"] == 9 * block + 105 * d + 2 * d + 5 * d + 5


# Transformers that end near their plateau, as the chapters say: no choice, or no neighbour handed over.
STUCK = {
    "bijection-transformer-classroom-replacement", "bijection-transformer-classroom-replacement-uniform",
    "regression-transformer-classroom-uniform",
}


def test_the_null_of_a_network_is_worse_than_the_network():
    for name, runs in bw.ledger.record("networks")["networks"].items():
        for entry in runs.values():
            assert entry["null"]["kl"]["draws"] >= 20
            # Training never made it worse than an untrained one, also where it taught nothing.
            assert entry["scores"]["kl"] < 1.05 * entry["null"]["kl"]["high"], name
            learns = name.startswith(("bijection-transformer", "hmm-transformer", "regression-transformer"))
            if learns and name not in STUCK:
                assert entry["scores"]["kl"] < 0.1 * entry["null"]["kl"]["low"], name


@pytest.fixture
def small_records(monkeypatch):
    """`make_records` on one small task, and of the networks on a small one a tunnel: the same code in less time."""
    small = {
        bijection_baselines: {"sizes": ((4, 3),)},
        hmm_baselines: {"tasks": ((1, {"n_states": 2, "n_symbols": 2, "length": 22}),), "simple": ((1, {"length": 50}),)},
        regression_baselines: {"tasks": ({"n_dims": 1, "n_pairs": 3},)},
        recall_baselines: {"tasks": ({"n_pairs": 2, "n_queries": 1, "n_keys": 4, "n_values": 4, "filler": 0},)},
    }
    for module, sizes in small.items():
        monkeypatch.setattr(module, "measure", functools.partial(module.measure, **sizes))
    monkeypatch.setattr(checkpoints, "shipped", list)
    opened = ("bijection-transformer-classroom", "hmm-transformer-classroom")
    monkeypatch.setattr(ablation, "PUBLISHED", ())
    monkeypatch.setattr(ablation, "CLASSROOM", tuple((name, (0,)) for name in opened))
    monkeypatch.setattr(ablation, "COPIES_OF", opened)
    monkeypatch.setattr(diagnostics, "candidates", lambda: [{"name": name, "seed": 0} for name in diagnostics.TRIAL])
    monkeypatch.setattr(gradient, "NAMES", ("hmm-transformer-classroom",))
    monkeypatch.setattr(gradient, "TUNNELS", ("bijection",))
    monkeypatch.setattr(beliefs, "PUBLISHED", ())
    monkeypatch.setattr(beliefs, "COUNTS", (2, 5))
    for name in ("lines", "walks"):  # with one draw in place of three
        whole = getattr(progress, name)
        monkeypatch.setattr(progress, name, lambda *words, whole=whole: whole(*words[:-1], 1))


def made_twice(names, folder) -> dict[str, bytes]:
    """The files of records; making them again changes no byte."""
    first = experiments.make_records(names, folder, n_episodes=50, report=lambda line: None)
    assert sorted(first) == sorted(names)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert experiments.make_records(names, folder, n_episodes=50, report=lambda line: None) == []
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    return before


@pytest.mark.slow
def test_a_second_make_records_changes_no_byte(small_records, tmp_path):
    names = [name for name in experiments.MADE if not name.startswith("probe_")]
    record = json.loads(made_twice(names, tmp_path)["bijection_baselines.json"])
    assert record["seed"] == experiments.SEED and "commit" in record and record["n_episodes"] == 50


@pytest.mark.weekly
def test_a_second_make_records_changes_no_byte_of_a_probe(small_records, tmp_path):
    made_twice(list(experiments.MADE), tmp_path)


def test_every_file_of_experiments_is_measured_by_the_one_command():
    """But for the queue, and for what records share: references by sampling, the language model, and its parts two at a time."""
    files = {path.stem for path in Path(experiments.__file__).parent.glob("*.py")} - {"__init__", "language", "queue", "sampling", "workers"}
    assert set(experiments.RECORDS.values()) == files
    assert all(callable(importlib.import_module(f"{experiments.__name__}.{name}").measure) for name in files)


def test_a_record_rests_on_those_of_its_own_folder(tmp_path):
    """Not on the book's: facts take an entropy from hmm_baselines."""
    with pytest.raises(ValueError, match=f"facts rests on the record hmm_baselines, and {tmp_path} holds none"):
        experiments.make_records(["facts"], tmp_path, n_episodes=2)
    stored = store.read("hmm_baselines")
    stored["tasks"]["S5-V5-K50-grid"]["constants"]["entropy_by_position"] = [0.0] * 50
    store.write("hmm_baselines", stored, tmp_path)
    experiments.make_records(["facts"], tmp_path, n_episodes=2, report=lambda line: None)
    (mine, ours) = (store.read("facts", folder)["published"]["late_attention_cap_zero"] for folder in (tmp_path, None))
    assert mine == pytest.approx(20 * 1.57e-3 / 50) and ours > 2 * mine


def test_a_kept_part_is_taken_from_the_same_folder(tmp_path, monkeypatch):
    for name in ("lines", "walks", "untrained_over_trained", "seed_distances_of", "curves"):
        monkeypatch.setattr(progress, name, lambda *words: {})
    monkeypatch.setattr(progress, "claims", lambda found: {})
    store.write("probe_progress", {"frozen": {"mine": 1}}, tmp_path)
    assert progress.measure(2, 1, records=tmp_path)["frozen"] == {"mine": 1}
    store.write("probe_settling", {"runs": {}, "ladder": {"mine": {}}}, tmp_path)
    assert settling.measure(2, 1, records=tmp_path)["ladder"] == {"mine": {}}


def test_settling_is_trained_and_measured_again(tmp_path, monkeypatch):
    """At its full size the record comes from runs; those that are finished are not run again."""
    trained: list = []

    def train(folder, schedule, seed):
        path = settling.path_of(folder, schedule, seed)
        trained.append((schedule, seed))
        path.write_text("")
        return path

    monkeypatch.setattr(settling, "train", train)
    monkeypatch.setattr(settling, "measure_folder", lambda folder: {"runs": {}, "ladder": {"from": {}}} | {"folder": str(folder)})
    for _ in range(2):
        found = settling.measure(512, 200, runs=tmp_path, report=lambda line: None)
        assert found["folder"] == str(tmp_path) and trained == settling.cells()


def test_a_real_change_is_written_and_a_rounding_is_not(tmp_path):
    assert store.write("a", {"x": 1.0, "commit": "one"}, tmp_path)
    assert not store.write("a", {"x": 1.0 + 1e-9, "commit": "two"}, tmp_path)
    assert store.read("a", tmp_path)["commit"] == "one"
    assert store.write("a", {"x": 1.001, "commit": "two"}, tmp_path)
    assert store.read("a", tmp_path) == {"x": 1.001, "commit": "two"}


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / "facts.json").write_text("{")
    with pytest.raises(ValueError, match=r"facts\.json.*make records"):
        bw.ledger.rows(tmp_path)


def test_without_records_nothing_is_settled_but_what_is_not_testable(tmp_path):
    assert {row["status"] for row in bw.ledger.rows(tmp_path)} == {"not settled", "not testable", "needs public weights"}


def test_an_unfinished_run_is_not_settled(tmp_path):
    folder = tmp_path / "records"
    shutil.copytree(store.records_folder(), folder)
    record = store.read("networks", folder)
    record["networks"]["bijection-transformer"]["0"]["schedule_ended"] = False
    (folder / "networks.json").write_text(json.dumps(record))
    row = bw.ledger.row("bijection-transformer-v3", folder)
    assert (row["status"], row["reason"]) == ("not settled", "the run's schedule had not ended")


def test_several_seeds_give_a_mean_and_the_spread_between_them_beside_the_error_of_the_episodes(tmp_path):
    folder = tmp_path / "records"
    shutil.copytree(store.records_folder(), folder)
    record = store.read("networks", folder)
    runs = record["networks"]["bijection-transformer"]
    for seed, error in (("0", 0.002), ("1", 0.003), ("2", 0.004)):
        recipe = trained.plain_recipes()["bijection-transformer"].but(seed=int(seed), data_seed=int(seed))
        runs[seed] = json.loads(json.dumps(runs["0"])) | {"seed": int(seed), "recipe_tag": recipe.tag}
        runs[seed]["scores"]["entropy_mae"] = error
    (folder / "networks.json").write_text(json.dumps(record))
    row = bw.ledger.row("bijection-transformer-v3", folder)
    assert row["seeds"] == [0, 1, 2] and row["measured"] == pytest.approx(0.003)
    of_episodes = runs["0"]["scores"]["entropy_mae_se"]  # which the seeds share
    assert row["standard_error"] == pytest.approx(math.hypot(0.001 / math.sqrt(3), of_episodes), rel=1e-6)
    assert [run["measured"] for run in row["runs"]] == [0.002, 0.003, 0.004]


# -- what is shown


def test_the_text_table_has_a_line_for_every_row():
    lines = bw.ledger.main_table().splitlines()
    assert [line.split()[0] for line in lines[1 : len(rows()) + 1]] == [row["id"] for row in rows()]
    assert "reproduced" in lines[-1]


def test_the_html_table_names_status_in_words_and_has_one_anchor_a_row():
    html = page.LedgerTable(rows(), anchors=True)._repr_html_()
    assert html.count("<tr") == len(rows()) + 1
    for row in rows():
        assert html.count(f'id="{page.anchor_of(row["id"])}"') == 1
    for status in {row["status"] for row in rows()}:
        assert f" {status}</span>" in html
    links = set(re.findall(r'href="#(ledger-[^"]+)"', html))
    assert links and links <= set(re.findall(r'id="(ledger-[^"]+)"', html))
    assert "id=" not in page.LedgerTable(rows())._repr_html_().split("</style>")[1]


def test_a_network_s_row_says_what_counts_and_shows_the_reference_point_with_its_value():
    beside = bw.ledger.row("hmm-window-2-uniform-late")["measured"]
    for anchors in (True, False):
        html = page.LedgerTable([bw.ledger.row("hmm-jump-k50-t21")], anchors=anchors)._repr_html_()
        assert "counts from 0.00486 to 0.01012, partly from 0.00162 to 0.03036" in html
        assert "read against: " in html and f"{beside:.4g} bits" in html
        assert ("how it is measured" in html) == anchors
    rules = {claim.test: claim.rule for claim in load_claims()}
    assert rules["digits"].startswith("counts if every") and "two samples" in rules["samples"]
    for row in rows():
        if row["network"] and row["measured"] is not None:
            assert row["rule"] and (row["beside"] or row["read_against"] is None), row["id"]


def test_seeds_that_ended_far_apart_are_shown_one_by_one():
    near, far = ([{"measured": v} for v in values] for values in ((12.0, 12.5), (100.0, 88.5, 12.3)))
    row = bw.ledger.row("hmm-jump-k50-t21") | {"base_runs": [], "seeds": [0, 1, 2]}
    assert "seed by seed: 100, 88.5, 12.3" in page.LedgerTable([row | {"runs": far}])._repr_html_()
    assert "seed by seed" not in page.LedgerTable([row | {"runs": near}])._repr_html_()


def test_the_json_file_in_the_page_holds_all_rows():
    import base64

    html = page.JsonFile(rows())._repr_html_()
    content = re.search(r"base64,([^\"]+)", html).group(1)
    assert json.loads(base64.b64decode(content)) == rows()


def test_a_formula_beside_a_printed_range_has_its_digits():
    row = bw.ledger.row("hmm-window-2-uniform-late") | {"status": "reproduced", "measured": 0.15366, "standard_error": None}
    assert page.measured(row | {"published_text": "0.132 to 0.165"}) == "0.154"


def test_a_chapter_shows_the_rows_it_takes_up():
    shown = bw.ledger.chapter_table("02_tunnel")
    assert len(shown) > 20 and all("02_tunnel" in row["chapters"] for row in shown.rows)


def test_the_rows_of_a_chapter_are_squares_by_status_above_a_folded_table():
    shown = bw.ledger.chapter_table("17_language")
    html = shown._repr_html_().partition("</style>")[2]
    board, fold, table = html.partition("<details")
    assert fold and table.count('<tr role="row"') == len(shown) + 1 and "<table" not in board
    for line in re.findall("<dt>.*?</dd>", board):
        (status,) = {row["status"] for row in shown.rows if f"{page.MARKS[row['status']]} {row['status']}<" in line}
        rows = [row for row in shown.rows if row["status"] == status]
        assert re.findall('href="([^"]*)"', line) == [f"../book/ledger.html#{page.anchor_of(row['id'])}" for row in rows]
        assert f"</span> {len(rows)}<" in line
    assert board.count("<a ") == len(shown)
    plain = bw.ledger.table("hmm-lstm-v3")._repr_html_()
    assert "<details" not in plain and "<dl" not in plain and "<details" in bw.ledger.table("hmm-lstm-v3", fold=True)._repr_html_()


def test_the_book_s_page_types_no_row():
    for name in ("ledger", "architectures"):
        text = (ROOT / "book" / f"{name}.md").read_text()
        assert "Table(" in text and not re.search(r"\|.*bits.*\|", text)


# -- what a null, a range, a missing model and shared episodes take from a success


def claimed(**changes) -> Claim:
    return dataclasses.replace(CLAIM, **changes)


def test_a_printed_number_that_its_null_has_too_is_found_and_says_nothing():
    """Within the band and within the null: "partly" if no network with the printed number could do better, else not reproduced."""
    inside = Null(1.15, 1.0, 1.8, 20, "an untrained network")
    claim = claimed(kind="code", test="within", published="1.13", band=[1.0, 1.5], network=None, record="probe_keys", key="x", preset="exact")
    status, reason = judge(claim, Evidence(1.14, null=inside))
    assert status == "partly" and reason == "inside the band, but so is its null: an untrained network"
    apart = Null(0.2, 0.1, 1.12, 20, "an untrained network")  # 1.13 itself lies beyond it
    assert judge(claim, Evidence(1.05, null=apart))[0] == "not reproduced"
    assert judge(claim, Evidence(1.14, null=apart))[0] == "reproduced"
    assert judge(dataclasses.replace(claim, kind="derived"), Evidence(1.14, null=inside))[0] == "not reproduced"


def test_a_printed_number_whose_sign_is_a_choice_is_compared_by_its_size():
    changes = {"kind": "paper", "test": "within", "published": "-0.32", "unsigned": True, "network": None, "record": "language_models", "key": "x", "preset": "exact"}
    null = Null(0.1, 0.001, 0.25, 20, "noise")
    for band in ([0.1, 0.51], [0.0, 0.51]):
        claim = claimed(band=band, **changes)
        assert judge(claim, Evidence(0.32, null=null))[0] == "reproduced"
        assert judge(claim, Evidence(0.2, null=null))[0] == "not reproduced"
        wide = Null(0.1, 0.001, 0.45, 20, "noise")  # -0.32 itself would be among its draws
        assert judge(claim, Evidence(0.32, null=wide))[0] == "partly"


def test_a_claim_that_nothing_changes_is_not_refuted_by_a_null_that_changes_nothing_either():
    claim = claimed(kind="paper", test="within", published="1", bound="<", band=[-1.0, 1.0], network=None, record="probe_values", key="x", preset="exact")
    as_little, more = Null(0.0, -0.5, 0.5, 20, "axes as large"), Null(5.0, 2.0, 9.0, 20, "axes as large")
    assert judge(claim, Evidence(0.3, null=as_little)) == ("partly", "inside the band, but so is its null: axes as large")
    assert judge(claim, Evidence(0.3, null=more))[0] == judge(claim, Evidence(-0.3, null=more))[0] == "reproduced"
    assert judge(claim, Evidence(3.0, null=as_little))[0] == "not reproduced"


def test_a_printed_range_is_off_by_one_of_its_last_digit_and_not_by_its_width():
    claim = claimed(kind="paper", test="digits", published="0.05", published_to="0.10", network=None, record="facts", key="x", band=None, preset="exact")
    null = Null(0.0, 0.0, 0.0, 20, "")
    found = {value: judge(claim, Evidence(value, null=null))[0] for value in (0.02, 0.041, 0.05, 0.104, 0.109, 0.12)}
    assert found == {0.02: "not reproduced", 0.041: "partly", 0.05: "reproduced", 0.104: "reproduced", 0.109: "partly", 0.12: "not reproduced"}


def test_a_row_that_waits_says_for_what():
    claim = claimed(waits="two of five runs had not arrived")
    assert judge(claim, Evidence(0.001, 1e-4, NULL, controls=ENOUGH)) == ("not settled", "two of five runs had not arrived")


def test_of_three_models_all_have_to_be_there():
    claim = next(claim for claim in load_claims() if claim.id == "sula-rho-entropy")
    null = Null(0.3, 0.2, 0.5, 200, "an untrained network")
    status, reason = judge(claim, Evidence(0.7, null=null, others=(0.7,)))
    assert status == "needs public weights" and [line.split()[4] for line in reason.splitlines()] == [claim.weights, *claim.also_weights]
    assert "licence is accepted" in reason.splitlines()[-1]
    assert judge(claim, Evidence(0.7, null=null, others=(0.7, 0.66)))[0] == "reproduced"


def test_the_episodes_that_seeds_share_stay_in_the_error_of_their_mean():
    row = bw.ledger.row("hmm-mlp-k50")
    assert row["standard_error"] >= 0.9 * statistics.mean(run["standard_error"] for run in row["runs"])
    row = bw.ledger.row("hmm-mamba-v3")
    spread = statistics.stdev(run["measured"] for run in row["runs"]) / math.sqrt(len(row["runs"]))
    assert row["standard_error"] > spread > 0


def test_an_error_that_another_budget_brings_down_to_the_band_counts_in_part():
    found = judge(CLAIM, Evidence(0.5, 1e-4, NULL, controls=ENOUGH, rescued=CLAIM.bounds[1]))
    assert found[0] == "partly" and "at another rate or with a larger budget" in found[1]


def test_no_steps_that_a_network_was_trained_on_are_scored_as_if_they_lay_beyond():
    """Training lowers those, so that failing at other rates and budgets says nothing of them; the trained length has rows of its own."""
    for claim in load_claims():
        if claim.network and claim.steps and claim.over_steps is None:
            assert claim.steps[0] > trained.plain_recipes()[claim.network].tunnel_config["length"], claim.id


# -- what would settle an open row


def test_an_open_row_names_the_runs_that_the_queue_still_owes_and_the_record_that_reads_them():
    done = {row["key"] for row in store.read("queue")["runs"]}
    planned = [entry.cell.key for entry in queue.entries()]
    owed = [key for key in planned if key not in done]
    words = {"no such network", "no record holds", "at classroom size", "are asked for", "the budget was not doubled"}
    words |= {"still moved its KL", "brings its KL", "no whole run has that rate"}
    for row in rows():
        assert not row["settled_by"] or row["status"] in ("not settled", "needs public weights"), row["id"]
        if row["status"] != "not settled" or row["kind"] not in ("paper", "code"):
            continue
        commands = row["settled_by"].splitlines()
        assert commands and any(text in row["reason"] for text in words), row["id"]
        for command in commands:
            if found := re.search(r" queue --only (\S+)(.*)", command):  # with a record of its own all runs are made anew
                assert found[2] in ("", " --folder runs/again --record runs/again/queue.json"), row["id"]
                assert any(found[1] in key for key in (planned if found[2] else owed)), row["id"]
            else:
                record = command.split()[4]
                measure = importlib.import_module(f"bayeswind_lib.experiments.{experiments.RECORDS[record]}").measure
                assert "runs" in inspect.signature(measure).parameters, row["id"]
                if record == "probe_tried":
                    opened = next(claim for claim in load_claims() if claim.id == row["id"]).opens
                    assert set(opened) <= set(importlib.import_module("bayeswind_lib.experiments.tried").READ), row["id"]


def test_the_runs_that_an_open_row_names_are_all_that_its_failure_needs():
    plain, rates, budgets = queue.plain_recipes(), {}, {}
    for cell in (entry.cell for entry in queue.entries() if entry.cell.name in queue.plain_recipes()):
        own = plain[cell.name]
        rates.setdefault(cell.name, set()).add(cell.recipe.learning_rate / own.learning_rate)
        budgets.setdefault(cell.name, set()).add(cell.recipe.steps / own.steps)
    asked = set()
    for row in rows():
        if row["status"] == "not settled" and row["kind"] in ("paper", "code") and "no such network" not in row["reason"]:
            asked |= set(re.findall(r"--only (\S+)-seed", row["settled_by"], re.M))
            assert row["hours"] > 0, row["id"]
    assert asked
    for name in asked:
        assert len(rates[name]) >= MIN_LEARNING_RATES and 2 in budgets[name], name


def test_hours_are_those_of_the_fastest_run_of_the_same_network():
    cell = next(cell for cell in cells("queue") if cell.name == "hmm-mamba")
    row = {"name": "x", "tunnel": "hmm", "architecture": "mamba", "preset": "paper", "key": "x", "seconds": 7200.0, "steps": cell.recipe.steps}
    row["device"] = "cpu (a processor)"
    assert trained.hours(cell.key, {}) is None and trained.hours("no such run", {"queue": {"runs": [row]}}) is None
    assert trained.hours(cell.key, {"queue": {"runs": [row]}}) == pytest.approx(2)  # of its architecture
    own = row | {"name": "hmm-mamba", "key": "y", "seconds": 3600.0}
    slower, on_a_gpu = own | {"key": "z", "seconds": 9999.0}, own | {"key": "g", "seconds": 9.0, "device": "cuda (a GPU)"}
    assert trained.hours(cell.key, {"queue": {"runs": [row, own, slower, on_a_gpu]}}) == pytest.approx(1)
    assert trained.hours(cell.key, {"queue": {"runs": [own | {"key": cell.key}]}}) is None  # done
    assert trained.hours(cell.key, {"queue": {"runs": [own | {"key": cell.key}]}}, again=True) == pytest.approx(1)


def test_no_number_of_a_trained_network_is_held_to_the_rule_for_formulas():
    assert not [claim.id for claim in load_claims() if claim.network and claim.test in ("digits", "samples")]


def test_the_command_of_a_classroom_row_keeps_the_network_s_label():
    claim = dataclasses.replace(next(claim for claim in load_claims() if claim.id == "recall-mamba-effort"), cannot_refute=None)
    assert settled_by(claim, Evidence(1.0), "not settled", {}).endswith("--only recall-mamba-curriculum")
    assert bw.ledger.row("frame-later-gain")["settled_by"] == ""  # no network of the published size settles it


def test_a_row_whose_runs_are_all_there_names_no_command():
    claim = next(claim for claim in load_claims() if claim.id == "hmm-transformer-v1")
    records = {"queue": {"runs": [{"key": cell.key} for cell in cells("queue")]}}
    assert settled_by(claim, Evidence(1.0), "not settled", {}) == "python -m bayeswind_lib queue --only hmm-transformer-seed"
    assert settled_by(claim, Evidence(1.0), "not settled", records) == "" == settled_by(claim, Evidence(1.0), "reproduced", {})
