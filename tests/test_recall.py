"""The recall tunnel token by token, its sampler by counting, and what lesser memories score.

The sequence expected below is written by hand; the answers are looked up in a Python dict.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch.nn import functional as F

from _support import rng
import bayeswind_lib as bw
from bayeswind_lib import scoring
from bayeswind_lib.baselines import recall as baselines
from bayeswind_lib.baselines.base import Baseline, Uniform
from bayeswind_lib.scoring import measure
from bayeswind_lib.tunnels.recall import FILLER, PAD, QUERY, SEP, STORE, answers

PROPERTY = settings(deadline=None, database=None, derandomize=True, max_examples=60)
SMALL = {"n_pairs": 2, "n_queries": 2, "n_keys": 3, "n_values": 4, "filler": 2}


def by_hand() -> tuple[bw.tunnels.Recall, bw.tunnels.Episodes]:
    """Key 2 goes with value 3, key 0 with value 1; first key 0 is asked, then key 2."""
    tunnel = bw.tunnels.Recall(**SMALL)
    return tunnel, tunnel.episodes(*(torch.tensor([row]) for row in ([2, 0], [3, 1], [0, 2])))


def test_tokens_spell_the_episode():
    tunnel, episodes = by_hand()
    assert (PAD, STORE, FILLER, QUERY, SEP) == (0, 1, 2, 3, 4)
    assert episodes.inputs.tolist() == [[
        1, 10 + 2, 4, 13 + 3,  # STORE key SEP value: keys are 10..12, values 13..16
        1, 10 + 0, 4, 13 + 1,
        2, 2,  # filler
        3, 10 + 0, 0,  # QUERY key PAD
        2,  # half the filler
        3, 10 + 2, 0,
    ]]  # fmt: skip
    assert episodes.inputs.dtype == episodes.targets.dtype == torch.int64
    assert episodes.targets.tolist() == [[1, 3]]
    assert episodes.posterior.tolist() == [[[0, 1, 0, 0], [0, 0, 0, 1]]]
    assert episodes.posterior.dtype == torch.float64
    assert {k: v.tolist() for k, v in episodes.latents.items()} == {
        "keys": [[2, 0]], "values": [[3, 1]], "queries": [[0, 2]],
    }
    assert [t.tolist() for t in tunnel.read(episodes.inputs)] == [[[2, 0]], [[3, 1]], [[0, 2]]]


def test_the_interface_counts_what_is_written():
    tunnel, episodes = by_hand()
    face = tunnel.interface
    assert (face.n_tokens, face.n_features, face.n_positions) == (17, 0, 17)
    assert (face.n_outputs, face.first_output_token, face.outcome) == (4, 13, "categorical")
    assert face.scored == (12, 16)
    assert episodes.inputs[0, list(face.scored)].tolist() == [PAD, PAD]


@pytest.mark.parametrize(
    ("settings", "length", "n_tokens"),
    [({}, 329, 522), ({"n_pairs": 16, "filler": 16}, 105, 522),
     ({"n_pairs": 8, "n_queries": 8, "n_keys": 32, "n_values": 32, "filler": 0}, 56, 74)],
)
def test_published_sizes(settings, length, n_tokens):
    tunnel = bw.tunnels.Recall(**settings)
    assert tunnel.interface.n_positions == length
    assert tunnel.interface.n_tokens == n_tokens
    assert tunnel.sample(3, rng()).inputs.shape == (3, length)


@st.composite
def drawn(draw):
    """A tunnel and some of its episodes."""
    n_pairs = draw(st.integers(1, 9))
    tunnel = bw.tunnels.Recall(
        n_pairs, draw(st.integers(1, n_pairs)), n_pairs + draw(st.integers(0, 5)),
        max(n_pairs, 2) + draw(st.integers(0, 5)), draw(st.integers(0, 7)),
    )
    return tunnel, tunnel.sample(draw(st.integers(1, 7)), rng(draw(st.integers(0, 2**31))))


@PROPERTY
@given(drawn())
def test_the_oracle_looks_up_what_the_tokens_say(case):
    """Read with a dict and plain loops from the tokens alone, as a person would."""
    tunnel, episodes = case
    for b, row in enumerate(episodes.inputs.tolist()):
        stored, place = {}, 0
        while row[place] == STORE:
            assert row[place + 2] == SEP
            stored[row[place + 1]] = row[place + 3] - tunnel.interface.first_output_token
            place += 4
        assert len(stored) == len(set(stored.values())) == tunnel.n_pairs
        assert row[place : place + tunnel.filler] == [FILLER] * tunnel.filler
        asked = [t for t, mark in enumerate(row) if mark == QUERY]
        assert asked[0] == place + tunnel.filler
        assert [t + 2 for t in asked] == list(tunnel.interface.scored)
        found = [stored[row[t + 1]] for t in asked]
        assert len({row[t + 1] for t in asked}) == tunnel.n_queries
        assert episodes.targets[b].tolist() == found
        assert episodes.posterior[b].argmax(-1).tolist() == found
        between = [row[t + 3 : u] for t, u in zip(asked, asked[1:], strict=False)]
        assert between == [[FILLER] * (tunnel.filler // 2)] * (tunnel.n_queries - 1)
        assert all(row[t + 2] == PAD for t in asked)
        assert len(row) == asked[-1] + 3


@PROPERTY
@given(drawn())
def test_reading_gives_back_what_was_written(case):
    tunnel, episodes = case
    for name, found in zip(("keys", "values", "queries"), tunnel.read(episodes.inputs), strict=True):
        assert torch.equal(found, episodes.latents[name])
    assert torch.equal(tunnel.posterior(episodes.inputs), episodes.posterior)
    assert torch.equal(tunnel.predict(episodes.inputs), episodes.posterior.log2())
    assert torch.equal(episodes.posterior.sum(-1), torch.ones(episodes.targets.shape).double())
    first = episodes.inputs[:, : tunnel.interface.scored[0] + 1]  # one query only
    assert torch.equal(tunnel.posterior(first), episodes.posterior[:, :1])


def test_more_queries_than_the_tunnel_draws_can_be_asked():
    many = bw.tunnels.Recall(5, 5, 9, 9, 3)
    few = bw.tunnels.Recall(5, 2, 9, 9, 3)
    episodes = many.sample(20, rng())
    assert torch.equal(few.posterior(episodes.inputs), episodes.posterior)


def test_the_oracle_is_never_wrong():
    for tunnel in (bw.tunnels.Recall(), bw.tunnels.Recall(8, 8, 32, 32, 0)):
        episodes = tunnel.sample(50, rng())
        assert scoring.accuracy(tunnel, episodes) == (1.0, 0.0)
        result = scoring.score_episodes(tunnel, episodes)
        assert result.kl == result.entropy_mae == result.tv == result.support_leak == 0


# The sampler. Seeds are fixed: a fair one passes a given test with probability 0.9999.


def p_uniform(codes: torch.Tensor, n_cells: int) -> float:
    counts = np.bincount(codes.flatten().numpy(), minlength=n_cells)
    assert len(counts) == n_cells
    return stats.chisquare(counts).pvalue


def test_keys_values_and_queries_are_uniform_and_independent():
    latents = bw.tunnels.Recall(2, 1, 3, 3, 0).sample(60_000, rng(1)).latents
    keys, values, queries = (latents[name] for name in ("keys", "values", "queries"))
    pair = {(0, 1): 0, (0, 2): 1, (1, 0): 2, (1, 2): 3, (2, 0): 4, (2, 1): 5}
    number = torch.full((3, 3), -1)
    for (a, b), i in pair.items():
        number[a, b] = i
    k, v = number[keys[:, 0], keys[:, 1]], number[values[:, 0], values[:, 1]]
    assert k.min() == v.min() == 0  # never the same twice
    second = (queries[:, 0] == keys[:, 1]).long()
    assert p_uniform((k * 6 + v) * 2 + second, 72) > 1e-4


def test_every_key_value_and_place_is_drawn_in_the_default_sizes():
    tunnel = bw.tunnels.Recall()
    latents = tunnel.sample(4000, rng(2)).latents
    place = (latents["queries"][:, :, None] == latents["keys"][:, None]).long().argmax(-1)
    for m in range(3):
        assert p_uniform(place[:, m], 64) > 1e-4
    for column in (0, 31, 63):
        assert p_uniform(latents["keys"][:, column], 256) > 1e-4
        assert p_uniform(latents["values"][:, column], 256) > 1e-4


REFUSED = {
    "nothing stored": (lambda: bw.tunnels.Recall(0), "n_pairs is 0: at least 1"),
    "nothing asked": (lambda: bw.tunnels.Recall(4, 0), r"n_queries is 0: .*choose 1\.\.4"),
    "more asked than stored": (lambda: bw.tunnels.Recall(4, 5), r"n_queries is 5: .*1\.\.4"),
    "too few keys": (lambda: bw.tunnels.Recall(4, 1, 3), "n_keys is 3: 4 pairs need"),
    "too few values": (lambda: bw.tunnels.Recall(4, 1, 4, 3), "n_values is 3: 4 pairs need"),
    "one value": (lambda: bw.tunnels.Recall(1, 1, 4, 1), "n_values is 1: .*at least 2"),
    "negative filler": (lambda: bw.tunnels.Recall(filler=-1), "filler is -1: choose 0"),
    "no episode": (lambda: bw.tunnels.Recall().sample(0, rng()), "batch is 0: .*at least 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_settings_are_refused(case):
    call, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        call()


GOOD = [1, 12, 4, 16, 1, 10, 4, 14, 2, 2, 3, 10, 0, 2, 3, 12, 0]  # as in `by_hand`


def changed(place: int, token: int) -> list[int]:
    return [*GOOD[:place], token, *GOOD[place + 1 :]]


BAD_INPUTS = {
    "cut inside a query": (GOOD[:-1], r"shape \(1, 16\).*T = 13 for one query and 4 more"),
    "filler at the end": ([*GOOD, 2], r"shape \(1, 18\)"),
    "no query": (GOOD[:10], r"shape \(1, 10\)"),
    "pairs only": (GOOD[:8], r"shape \(1, 8\)"),
    "features": ([float(token) for token in GOOD], "float32.*int64"),
    "value where a key belongs": (changed(1, 13), r"key's place.*keys are 10\.\.12"),
    "mark where a key belongs": (changed(5, 9), "key's place"),
    "key where a value belongs": (changed(3, 12), r"value's place.*values are 13\.\.16"),
    "token beyond the vocabulary": (changed(7, 17), "value's place"),
    "a key twice": (changed(5, 12), "a key is stored twice"),
    "a value twice": (changed(7, 16), "a value is stored twice"),
    "a key asked twice": (changed(15, 10), "a key is asked twice"),
    "a key asked that is not stored": (changed(15, 11), "not stored"),
    "a value asked": (changed(15, 16), "not stored"),
    "no STORE": (changed(4, 3), "position 4 holds another mark"),
    "no SEP": (changed(2, 0), "position 2 holds another mark"),
    "no filler": (changed(9, 0), "position 9 holds another mark"),
    "no QUERY": (changed(10, 1), "position 10 holds another mark"),
    "no filler between queries": (changed(13, 0), "position 13 holds another mark"),
    "the answer is shown": (changed(12, 14), "position 12 holds another mark"),
    "the last answer is shown": (changed(16, 16), "position 16 holds another mark"),
}


def test_the_sequence_that_the_bad_ones_are_made_of_is_good():
    tunnel, episodes = by_hand()
    assert episodes.inputs.tolist() == [GOOD]
    assert tunnel.posterior(torch.tensor([GOOD])).shape == (1, 2, 4)


@pytest.mark.parametrize("case", BAD_INPUTS)
@pytest.mark.parametrize("call", ["read", "posterior", "predict"])
def test_sequences_of_another_layout_are_refused(case, call):
    tokens, words = BAD_INPUTS[case]
    with pytest.raises(ValueError, match=words):
        getattr(bw.tunnels.Recall(**SMALL), call)(torch.tensor([tokens]))


def test_one_bad_episode_among_good_ones_is_found():
    tokens = torch.tensor([GOOD, changed(13, 0), GOOD])
    with pytest.raises(ValueError, match="position 13"):
        bw.tunnels.Recall(**SMALL).read(tokens)
    with pytest.raises(ValueError, match=r"shape \(17,\)"):
        bw.tunnels.Recall(**SMALL).read(torch.tensor(GOOD))


def test_answers_take_keys_in_any_order():
    keys, values = torch.tensor([[5, 1, 3], [1, 3, 5]]), torch.tensor([[0, 1, 2], [0, 1, 2]])
    asked = torch.tensor([[1, 5], [1, 5]])
    assert answers(keys, values, asked).tolist() == [[1, 0], [0, 2]]


# Lesser memories, and their scores by formula.

TUNNEL = {"n_pairs": 6, "n_queries": 3, "n_keys": 9, "n_values": 11, "filler": 2}


class LastStored(Baseline):
    """Certain of the value that was stored last, always: a position, not a key."""

    def probabilities(self, keys, values, queries):
        return F.one_hot(values[:, -1:].expand(queries.shape), self.tunnel.n_values).double()


PREDICTORS = {
    "uniform": Uniform,
    "stored_set": baselines.StoredSet,
    "last_stored": LastStored,
    **{f"window_{w}": lambda t, w=w: baselines.WindowRecall(t, w) for w in range(1, 7)},
    **{f"window_{w}_alone": lambda t, w=w: baselines.WindowRecall(t, w, False) for w in range(1, 7)},
}


def every_place_asked(tunnel) -> bw.tunnels.Episodes:
    """One episode for each ordered choice of queries, so that averages over places are exact."""
    n, m = tunnel.n_pairs, tunnel.n_queries
    places = torch.cartesian_prod(*[torch.arange(n)] * m).view(-1, m)
    places = places[(places.sort(1).values.diff(dim=1) > 0).all(1)]
    keys, values = torch.arange(n).flip(0) + 2, torch.arange(n) + 1
    some = [row.expand(len(places), n).contiguous() for row in (keys, values)]
    return tunnel.episodes(*some, keys[places])


@pytest.mark.parametrize("name", PREDICTORS)
def test_formulas_equal_the_average_over_every_choice_of_queries(name):
    tunnel = bw.tunnels.Recall(**TUNNEL)
    episodes = every_place_asked(tunnel)
    assert len(episodes) == 6 * 5 * 4
    predictor = PREDICTORS[name](tunnel)
    exact = baselines.exact_recall_baselines(**tunnel.config)[name]
    cells = measure(predictor.predict(episodes.inputs), episodes)
    for score in ("entropy_mae", "kl", "tv"):
        assert cells[score].mean().item() == pytest.approx(exact[score], abs=1e-12), score
    assert scoring.accuracy(predictor, episodes)[0] == pytest.approx(exact["accuracy"], abs=1e-12)


@pytest.mark.parametrize("name", ["uniform", "stored_set", "last_stored", "window_2_alone"])
def test_accuracy_on_fresh_episodes_is_the_formula_s(name):
    tunnel = bw.tunnels.Recall(n_pairs=8, n_queries=8, n_keys=32, n_values=32, filler=0)
    value, error = scoring.accuracy(PREDICTORS[name](tunnel), tunnel.sample(2000, rng(3)))
    exact = baselines.exact_recall_baselines(**tunnel.config)[name]["accuracy"]
    # All 8 keys are asked, so a fixed set of guesses can hit equally often in every episode.
    assert abs(value - exact) <= 4.5 * error + 1e-12


def test_published_chance_levels():
    default, small = (baselines.exact_recall_baselines(n, 256) for n in (64, 16))
    assert f"{100 * default['uniform']['accuracy']:.2f}" == "0.39"
    assert f"{100 * default['stored_set']['accuracy']:.2f}" == "1.56"
    assert f"{100 * small['stored_set']['accuracy']:.2f}" == "6.25"
    assert (default["uniform"]["kl"], default["stored_set"]["kl"]) == (8, 6)
    assert small["stored_set"]["kl"] == 4


def test_a_window_of_all_pairs_is_the_oracle_and_of_none_the_stored_set():
    tunnel = bw.tunnels.Recall(**TUNNEL)
    inputs = tunnel.sample(40, rng(4)).inputs
    for window in (5, 6):  # five pairs and all the values: the sixth pair follows
        predicted = baselines.WindowRecall(tunnel, window).predict(inputs)
        assert torch.equal(predicted, tunnel.predict(inputs))
    none = baselines.WindowRecall(tunnel, 0).predict(inputs)
    assert torch.allclose(none.exp2(), baselines.StoredSet(tunnel).predict(inputs).exp2())
    assert baselines.exact_recall_baselines(6, 11)["window_5"]["accuracy"] == 1
    assert baselines.exact_recall_baselines(6, 11)["window_5_alone"]["accuracy"] < 1


def test_baselines_are_in_order():
    """Whoever binds more pairs, or knows the set of values too, is right more often."""
    exact = baselines.exact_recall_baselines()
    for tail in ("", "_alone"):
        steps = [exact[f"window_{w}{tail}"]["accuracy"] for w in range(1, 65)]
        assert all(a < b or b == 1 for a, b in zip(steps, steps[1:], strict=False))
    for w in range(1, 63):
        assert exact[f"window_{w}"]["accuracy"] > exact[f"window_{w}_alone"]["accuracy"]
    assert exact["last_stored"]["kl"] == math.inf


@pytest.mark.parametrize("window", [-1, 7])
def test_impossible_windows_are_refused(window):
    with pytest.raises(ValueError, match=rf"window is {window}: 6 pairs.*0\.\.6"):
        baselines.WindowRecall(bw.tunnels.Recall(**TUNNEL), window)


def test_every_reference_has_a_name_of_its_own():
    tunnel = bw.tunnels.Recall(**TUNNEL)
    names = [make(tunnel).name for make in PREDICTORS.values()]
    assert len(set(names)) == len(names)
