"""Bijections from a set of N maps: both observers and all in between against enumerations, and what the record says of networks."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
import torch
from _support import rng

import bayeswind_lib as bw
from bayeswind_lib.experiments import prior
from bayeswind_lib.scoring import entropy, kl_bits
from bayeswind_lib.tunnels import BijectionSet, bijection
from bayeswind_lib.tunnels.bijection_set import agreeing, every_map, expected_advantage, in_group


def by_listing(hypotheses: list[tuple[tuple[int, ...], Fraction]], keys: list[int], values: list[int], V: int) -> list[list[float]]:
    """The predictions at every key of whoever has a list of maps with prior weights: one map after the other."""
    rows = []
    for k, key in enumerate(keys):
        mass = [Fraction(0)] * V
        for f, weight in hypotheses:
            if all(f[x] == y for x, y in zip(keys[:k], values[:k], strict=True)):
                mass[f[key]] += weight
        rows.append([float(one / sum(mass)) if sum(mass) else math.nan for one in mass])
    return rows


def every_episode(tunnel: BijectionSet, maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """All orders of keys with all of some maps: keys and values (N V!, V)."""
    keys = every_map(tunnel.n_values).repeat(len(maps), 1)
    return keys, maps.repeat_interleave(math.factorial(tunnel.n_values), 0).gather(1, keys)


@pytest.mark.parametrize(("V", "N"), [(3, 1), (3, 4), (4, 5), (5, 20), (6, 64)])
@pytest.mark.parametrize("weight", ["1", "0", "1/8", "511/512"])
def test_the_observers_equal_a_list_of_all_hypotheses(V, N, weight):
    tunnel, w = BijectionSet(V, N, map_seed=3), Fraction(weight)
    known = [tuple(f) for f in tunnel.maps.tolist()]
    everything = list(itertools.permutations(range(V)))
    hypotheses = [(f, w / N) for f in known if w] + [(f, (1 - w) / len(everything)) for f in everything if w < 1]
    parts = [tunnel.draw(6, rng(V), tunnel.maps), tunnel.draw(6, rng(N), tunnel.outside)]
    for keys, values in parts:
        got = tunnel.answers(keys, values, float(w))
        want = [by_listing(hypotheses, x, y, V) for x, y in zip(keys.tolist(), values.tolist(), strict=True)]
        assert got.dtype == torch.float64 and torch.allclose(got, torch.tensor(want, dtype=torch.float64), atol=1e-12, equal_nan=True)


def test_with_all_maps_the_set_is_the_group():
    tunnel = BijectionSet(4, 24)
    keys, values = tunnel.draw(50, rng(1), tunnel.maps)
    assert torch.equal(agreeing(tunnel.maps, keys, values), in_group(keys, values, 4))
    assert torch.allclose(tunnel.answers(keys, values), bijection.posterior(keys, values, 4), atol=1e-15)
    assert len(tunnel.outside) == 0 and torch.equal(tunnel.maps.sort(0).values, every_map(4).sort(0).values)


@pytest.mark.parametrize(("V", "N", "seed"), [(3, 2, 0), (4, 3, 0), (4, 3, 1), (4, 17, 2), (5, 9, 0)])
def test_the_advantage_over_an_episode_is_the_same_for_every_set(V, N, seed):
    tunnel = BijectionSet(V, N, seed)
    keys, values = every_episode(tunnel, tunnel.maps)
    truth = tunnel.answers(keys, values)
    gap = kl_bits(truth, tunnel.answers(keys, values, 0.0).log2()).sum(1).mean()
    assert float(gap) == pytest.approx(math.log2(math.factorial(V) / N), abs=1e-9)
    assert float(entropy(truth).sum(1).mean()) == pytest.approx(math.log2(N), abs=1e-9)


@pytest.mark.parametrize(("V", "N"), [(2, 1), (3, 1), (3, 2), (3, 3), (3, 5), (3, 6), (4, 2)])
def test_the_expected_advantage_is_the_mean_over_all_sets(V, N):
    total, n_sets = torch.zeros(V, dtype=torch.float64), 0
    everything, tunnel = every_map(V), BijectionSet(V, N)
    for chosen in itertools.combinations(range(len(everything)), N):
        tunnel.__dict__["_shuffled"] = everything[list(chosen)]
        keys, values = every_episode(tunnel, tunnel.maps)
        total += kl_bits(tunnel.answers(keys, values), tunnel.answers(keys, values, 0.0).log2()).mean(0)
        n_sets += 1
    assert n_sets == math.comb(len(everything), N)
    assert (total / n_sets).tolist() == pytest.approx(expected_advantage(V, N), abs=1e-9)


@pytest.mark.parametrize("N", [16, 256, 720])
def test_the_expected_advantages_add_up(N):
    assert sum(expected_advantage(6, N)) == pytest.approx(math.log2(720 / N), abs=1e-9)


def test_sets_are_nested_and_what_is_outside_is_not_inside():
    small, large, other = BijectionSet(5, 7, 1), BijectionSet(5, 30, 1), BijectionSet(5, 7, 2)
    assert torch.equal(large.maps[:7], small.maps) and not torch.equal(other.maps, small.maps)
    inside, outside = ({tuple(f) for f in rows.tolist()} for rows in (large.maps, large.outside))
    assert len(inside) == 30 and len(outside) == 90 and not inside & outside
    assert {tuple(y[x.argsort()].tolist()) for x, y in zip(*large.draw(300, rng(2), large.maps), strict=True)} == inside


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"n_values": 9}, "at most 8"), ({"n_maps": 0}, "from 1 to all"), ({"n_values": 3, "n_maps": 7}, "6|bijections"), ({"n_pairs": 7}, "at most 6")],
)
def test_impossible_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        BijectionSet(**settings)


def test_what_no_map_of_the_set_agrees_with_is_refused_and_repeated_keys_too():
    tunnel = BijectionSet(4, 3)
    keys, values = tunnel.draw(1, rng(), tunnel.outside)
    with pytest.raises(ValueError, match="no map of the set"):
        tunnel.posterior(tunnel.tokens(keys, values).repeat(2, 1))
    with pytest.raises(ValueError, match="asked twice"):
        tunnel.posterior(torch.tensor([[0, 4, 0]]))
    with pytest.raises(ValueError, match="at least 1 episode"):
        tunnel.sample(0, rng())


def test_the_tunnel_keeps_what_a_tunnel_promises():
    found = bw.tunnels.check(BijectionSet(4, 5), 1000)
    assert found.ok, found


# ---- who is followed


class Says:
    """A network in the observers' place."""

    def __init__(self, tunnel: BijectionSet, weight: float):
        self.tunnel, self.weight = tunnel, weight

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        keys, values = self.tunnel.read(inputs)
        probability = self.tunnel.answers(keys, torch.cat([values, torch.zeros_like(keys[:, :1])], 1), self.weight)
        return probability.nan_to_num(1 / self.tunnel.n_values).log2()


@pytest.fixture(scope="module")
def bench():
    tunnel = BijectionSet(5, 12, 4)
    return tunnel, prior.Bench(tunnel, 200)


def test_each_observer_is_recognised(bench):
    tunnel, made = bench
    knows_set, nearly, knows_group = (made.compare(Says(tunnel, weight)) for weight in (1.0, 1 - 2.0**-20, 0.0))
    assert knows_set["set"] < 1e-9 and knows_set["outside"] == math.inf
    assert nearly["set"] < 1e-4 and nearly["odds"] == max(prior.LOG_ODDS) and 1 < nearly["outside"] < math.inf
    assert knows_group["group"] < 1e-9 and knows_group["outside"] < 1e-9 and knows_group["odds"] == min(prior.LOG_ODDS)
    assert knows_group["set"] == pytest.approx(made.advantage, abs=0.03)  # sampled episodes beside all of them
    assert prior.follows(knows_set, made.advantage) == "set" and prior.follows(knows_group, made.advantage) == "group"


@pytest.mark.parametrize("odds", [-3, 0, 5])
def test_the_prior_in_between_is_found(bench, odds):
    tunnel, made = bench
    found = made.compare(Says(tunnel, 1 / (1 + 2.0**-odds)))
    assert found["odds"] == odds and found["off"] < 1e-9 and found["off outside"] < 1e-9


class Nothing:
    """The uniform guess."""

    def __init__(self, n_values: int):
        self.n_values = n_values

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.full((len(inputs), (inputs.shape[1] + 1) // 2, self.n_values), 1 / self.n_values, dtype=torch.float64).log2()


def test_knowing_nothing_follows_nobody(bench):
    tunnel, made = bench
    assert prior.follows(made.compare(Nothing(5)), made.advantage) == "neither"
    assert prior.follows({"set": 0.001, "outside": 0.001}, 0.0) == "both" and prior.follows({"set": 1.0, "outside": 1.0}, 0.0) == "neither"


# ---- the record


def test_the_record_says_what_its_runs_say():
    record = bw.ledger.record("probe_prior")
    assert record["claims"] == pytest.approx(prior.claims(record["runs"]))
    for seeds in record["runs"].values():
        for run in seeds.values():
            assert run["schedule_ended"] and len({len(run[name]) for name in ("steps", "set", "group", "outside", "odds", "off", "off outside")}) == 1
            advantage = math.log2(720 / run["n_maps"]) / 6
            assert run["follows"] == prior.follows({"set": run["set"][-1], "outside": run["outside"][-1]}, advantage)
    for size, expected in record["advantage"].items():
        assert expected == pytest.approx(expected_advantage(6, int(size)))


def test_without_a_folder_the_runs_stay_and_with_one_they_are_measured(tmp_path):
    from bayeswind_lib.training.plans import cell
    from bayeswind_lib.training.sweep import run_cell

    small = cell(
        "bijection_set", "transformer", label="x", steps=6, n_snapshots=3, tunnel_config={"n_values": 3, "n_maps": 2}, batch_size=8,
        eval_episodes=8, eval_every=6, model_config={"n_layers": 1, "n_heads": 1, "width": 8, "hidden": 8},
    )
    row = run_cell(small, tmp_path, 16)
    found = prior.entry(small, row, tmp_path, 20)
    assert found["steps"] == [0, *small.recipe.snapshot_steps] and len(found["set"]) == len(found["steps"])
    assert len(found["by set"]) == 3 and found["n_maps"] == 2 and found["follows"] in ("set", "group", "neither")
    assert prior.label_of(small) == "n2-w8-s6"
    assert prior.measure(16, 2)["runs"] == bw.ledger.record("probe_prior")["runs"]
