"""The composition tunnel: its forward algorithm against every map and every path of states, and its parts against what they are."""

from __future__ import annotations

import itertools

import pytest
import torch
from _support import rng

import bayeswind_lib as bw
from bayeswind_lib import scoring, tunnels
from bayeswind_lib.experiments import composition as experiment
from bayeswind_lib.tunnels.composition import CHAINS, COMBINATIONS, GROUPS, HELD_OUT, Composition
from bayeswind_lib.tunnels.hmm import forward_filter

EXCHANGED = {0: {}, 1: {0: 1, 1: 0}, 2: {2: 3, 3: 2}}  # what each state does to a value


def by_enumeration(stay: float, shown: list[int] | None, keys: list[int], values: list[int], V: int = 4) -> list[float]:
    """The distribution of the next value, by adding up every map and every path: plain Python, no tensor."""
    weights = [0.0] * V
    for chosen in [tuple(shown)] if shown else itertools.permutations(range(V)):
        for path in itertools.product(range(3), repeat=len(keys)):
            weight = 1.0
            for before, after in itertools.pairwise(path):
                weight *= stay if before == after else (1 - stay) / 2
            says = [EXCHANGED[state].get(chosen[key], chosen[key]) for state, key in zip(path, keys, strict=True)]
            if says[:-1] == values:
                weights[says[-1]] += weight
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize("which", COMBINATIONS)
def test_the_posterior_is_that_of_every_map_and_path(which):
    tunnel = Composition(n_pairs=5, which=which)
    episodes = tunnel.sample(6, rng(3))
    maps = tunnel.outcomes[episodes.latents["map"], 0].tolist()  # state 0 leaves the map as it is
    kind, chain = which.split("-")
    for row in range(6):
        keys, values = (episodes.latents[name][row].tolist() for name in ("keys", "values"))
        for k in range(5):
            wanted = by_enumeration(CHAINS[chain], maps[row] if kind == "shown" else None, keys[: k + 1], values[:k])
            assert episodes.posterior[row, k].tolist() == pytest.approx(wanted, abs=1e-12)


def test_a_hidden_map_of_a_still_chain_is_elimination():
    """Three exchanges of one map are three maps: a key seen before is certain, a new one has the values that are left."""
    episodes = Composition(n_values=5, n_pairs=8, which="hidden-still").sample(50, rng(4))
    for keys, values, truth in zip(*(episodes.latents[n].tolist() for n in ("keys", "values")), episodes.posterior, strict=True):
        known: dict[int, int] = {}
        for k, (key, value) in enumerate(zip(keys, values, strict=True)):
            left = [known[key]] if key in known else [v for v in range(5) if v not in known.values()]
            assert truth[k].tolist() == pytest.approx([(v in left) / len(left) for v in range(5)], abs=1e-12)
            known[key] = value


def test_a_shown_map_is_a_filter_of_the_hidden_chain():
    """With one key throughout the emission matrix is fixed, and the HMM's filter gives the same forecasts."""
    tunnel = Composition(n_pairs=7)
    B, one = 40, rng(5)
    maps, states = torch.randint(24, (B,), generator=one), torch.randint(3, (B, 7), generator=one)
    keys = torch.randint(4, (B, 1), generator=one).expand(-1, 7)
    episodes = tunnel.episodes(torch.full((B,), 2), torch.zeros(B, dtype=torch.long), maps, states, keys)
    stay = CHAINS["fast"]
    T = (torch.eye(3, dtype=torch.float64) * (stay - (1 - stay) / 2) + (1 - stay) / 2).expand(B, 3, 3)
    E = torch.nn.functional.one_hot(tunnel.outcomes[maps, :, keys[:, 0]], 4).double()  # (B, S, V)
    belief = forward_filter(T, E, episodes.latents["values"])
    ahead = belief @ T @ E
    assert torch.allclose(episodes.posterior[:, 1:], ahead[:, :-1], atol=1e-12)


def test_the_posterior_predicts_what_happens():
    tunnel = Composition()
    episodes = tunnel.sample(4000, rng(6))
    surprise = -episodes.posterior.gather(2, episodes.targets[..., None]).log2().mean((0, 2))  # (K,)
    entropy = scoring.entropy_bits(episodes.posterior.log2()).mean(0)
    assert (surprise - entropy).abs().max() < 0.06


def test_what_is_held_out_has_both_of_its_parts_in_training():
    assert set(GROUPS["train"]) | set(HELD_OUT) == set(COMBINATIONS) and not set(GROUPS["train"]) & set(HELD_OUT)
    for which in HELD_OUT:
        kind, chain = which.split("-")
        assert any(name.startswith(kind) for name in GROUPS["train"]) and any(name.endswith(chain) for name in GROUPS["train"])
    seen = Composition(which="train").sample(3000, rng(7)).latents
    names = [f"{('shown', 'hidden')[h]}-{list(CHAINS)[c]}" for h, c in zip(seen["hidden"].tolist(), seen["chain"].tolist(), strict=True)]
    assert set(names) == set(GROUPS["train"])


def test_who_takes_fast_chains_for_slow_ones_pays():
    tunnel = Composition(which="hidden-fast")
    episodes = tunnel.sample(300, rng(8))
    slow = tunnel.posterior(episodes.inputs, torch.full((300,), CHAINS["slow"], dtype=torch.float64))
    assert scoring.kl_bits(episodes.posterior, slow.log2()).mean() > 0.1
    own = tunnel.posterior(episodes.inputs, torch.full((300,), CHAINS["fast"], dtype=torch.float64))
    assert torch.equal(own, episodes.posterior)


@pytest.mark.parametrize(("config", "words"), [
    ({"n_values": 3}, "n_values is 3"), ({"n_pairs": 0}, "at least 1 key"), ({"which": "hidden"}, "choose one of all, train"),
])
def test_impossible_settings_are_refused(config, words):
    with pytest.raises(ValueError, match=words):
        tunnels.build("composition", config)


def test_tokens_that_spell_no_episode_are_refused():
    """An odd length, no integers, no chain of that number, a map that names a value twice, a chain where a key should stand."""
    tunnel = Composition(n_pairs=3, which="shown-slow")
    inputs = tunnel.sample(4, rng(9)).inputs
    wrong = [inputs[:, :-1], inputs.float(), inputs.clone(), inputs.clone(), inputs.clone()]
    wrong[2][0, 0], wrong[3][0, 1], wrong[4][0, 5] = 3, inputs[0, 2], 0
    for given in wrong:
        with pytest.raises(ValueError, match="expected"):
            tunnel.posterior(given)


def test_values_that_cannot_have_happened_are_refused():
    """In a still chain one key has one value."""
    tunnel = Composition(n_pairs=3, which="hidden-still")
    inputs = tunnel.sample(1, rng(1)).inputs
    key, value = inputs[0, 5].clone(), inputs[0, 6].clone()
    inputs[0, 7], inputs[0, 8] = key, value - 1 if value > 8 else value + 1
    with pytest.raises(ValueError, match="cannot have happened"):
        tunnel.posterior(inputs)


class Taking(torch.nn.Module):
    """A network's stand-in: exact, but for the chain's rate, which it takes for another."""

    def __init__(self, stay: float | None):
        super().__init__()
        self.stay = stay

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        stay = None if self.stay is None else torch.full((len(inputs),), self.stay, dtype=torch.float64)
        return Composition().posterior(inputs, stay).clamp(min=1e-9).log2()


@pytest.fixture(scope="module")
def bench():
    return experiment.Bench(200)


@pytest.mark.parametrize("stay", [0.95, 0.7, 0.55])
def test_the_rate_that_an_observer_acts_upon_is_found(bench, stay):
    found = bench.of_network(Taking(stay))
    assert found["acts_as"] == stay and found["nearest"] < 1e-6
    assert (found["kl"]["hidden-fast"] < 1e-6) is (stay == 0.7)


def test_an_exact_network_costs_nothing_in_any_combination(bench):
    found = bench.of_network(Taking(None))
    assert max(found["kl"].values()) < 1e-6 and found["parts"] < 1e-6 and len(found["by_step"]) == 20
    assert found["acts_as"] == 0.7


def test_observers_cost_nothing_where_their_rate_is_right(bench):
    in_slow, in_fast = bench.observers("hidden-slow"), bench.observers("hidden-fast")
    assert max(in_slow["slow"]) < 1e-12 < max(in_slow["fast"]) and max(in_fast["fast"]) < 1e-12 < max(in_fast["slow"])


def test_the_queue_has_rates_seeds_and_twice_the_updates():
    cells = experiment.cells()
    held = [cell.recipe for cell in cells if cell.name.endswith("train-convolution")]
    assert len({recipe.learning_rate for recipe in held}) == 4 and {recipe.seed for recipe in held} == {0, 1, 2}
    assert {recipe.steps for recipe in held} == {4000, 8000}
    assert all(recipe.tunnel_config["which"] == "train" for recipe in held)


def test_shares_are_those_of_all_pairs_and_of_the_late_ones():
    found = experiment.over([1.0] * 8 + [0.1] * 12, [0.5] * 20)
    assert found == pytest.approx({"held_out": (8 + 1.2) / 20 / 0.5, "late": 0.2})
    assert experiment.means([found]) == found and experiment.means([]) == {}
    assert experiment.means([found, found])["late_se"] == 0


def test_the_stored_shares_are_those_of_the_runs():
    record = bw.ledger.record("probe_composition")
    runs, slow = record["runs"][experiment.PLAIN].values(), record["observers"]["hidden-fast"]["slow"]
    wanted = experiment.means([experiment.over(run["by_step"], slow) for run in runs])
    assert record["ledger"] == pytest.approx(wanted, rel=1e-4)
    assert all(one["draws"] >= 20 for one in record["untrained"].values())
