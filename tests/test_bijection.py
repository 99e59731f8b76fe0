"""The bijection tunnel against enumeration of every map, and its sampler against counting.

The enumeration below shares nothing with the library: it lists all V! bijections, keeps those
that agree with the pairs shown, and counts.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from _support import rng
import bayeswind_lib as bw
from bayeswind_lib.tunnels.bijection import permutations, posterior

PROPERTY = settings(deadline=None, database=None, derandomize=True, max_examples=60)


def by_enumeration(keys: list[int], values: list[int], n_values: int) -> np.ndarray:
    """Predictive distribution at each key: share of all agreeing bijections, float64 (K, V)."""
    maps = np.array(list(itertools.permutations(range(n_values))))  # (V!, V)
    agrees = np.ones(len(maps), dtype=bool)
    rows = []
    for key, value in zip(keys, values, strict=True):
        answers = np.bincount(maps[agrees, key], minlength=n_values)
        rows.append(answers / agrees.sum())
        agrees &= maps[:, key] == value
    return np.array(rows)


def all_episodes(n_values: int, n_pairs: int, with_replacement: bool):
    """Every key order with every bijection: int64 keys and values, (B, K) each."""
    orders = (
        itertools.product(range(n_values), repeat=n_pairs)
        if with_replacement
        else itertools.permutations(range(n_values), n_pairs)
    )
    maps = list(itertools.permutations(range(n_values)))
    cases = [(order, [m[key] for key in order]) for order in orders for m in maps]
    keys, values = zip(*cases, strict=True)
    return torch.tensor(keys), torch.tensor(values)


@pytest.mark.parametrize(
    ("n_values", "n_pairs", "with_replacement"),
    [(2, 2, False), (3, 3, False), (4, 4, False), (4, 2, False), (2, 5, True), (3, 5, True)],
)
def test_posterior_is_the_share_of_agreeing_maps_in_every_episode(
    n_values, n_pairs, with_replacement
):
    keys, values = all_episodes(n_values, n_pairs, with_replacement)
    got = posterior(keys, values, n_values)
    expected = [by_enumeration(k, v, n_values) for k, v in zip(keys.tolist(), values.tolist(), strict=True)]
    assert got.dtype == torch.float64
    assert torch.equal(got, torch.tensor(np.array(expected)))


@pytest.mark.parametrize("with_replacement", [False, True])
@pytest.mark.parametrize("n_values", [2, 3, 4, 5, 6])
def test_oracle_equals_enumeration_at_prefixes_of_every_length(n_values, with_replacement):
    n_pairs = n_values + 3 if with_replacement else n_values
    tunnel = bw.tunnels.Bijection(n_values, n_pairs, with_replacement)
    episodes = tunnel.sample(40, rng(n_values))
    keys, values = (episodes.latents[name].tolist() for name in ("keys", "values"))
    expected = torch.tensor(
        np.array([by_enumeration(k, v, n_values) for k, v in zip(keys, values, strict=True)])
    )
    assert torch.equal(episodes.posterior, expected)
    for k in range(1, n_pairs + 1):
        prefix = episodes.inputs[:, : 2 * k - 1]
        assert torch.equal(tunnel.posterior(prefix), expected[:, :k]), f"after {k} keys"
        assert torch.equal(tunnel.predict(prefix), expected[:, :k].log2())


@st.composite
def drawn(draw, with_replacement: bool | None = None):
    """A tunnel and some of its episodes."""
    n_values = draw(st.integers(2, 13))
    repeats = draw(st.booleans()) if with_replacement is None else with_replacement
    n_pairs = draw(st.integers(1, 2 * n_values if repeats else n_values))
    tunnel = bw.tunnels.Bijection(n_values, n_pairs, repeats)
    return tunnel, tunnel.sample(draw(st.integers(1, 7)), rng(draw(st.integers(0, 2**31))))


@PROPERTY
@given(drawn())
def test_rows_are_distributions_that_allow_what_happened(case):
    _, episodes = case
    truth = episodes.posterior
    assert (truth >= 0).all()
    assert torch.allclose(truth.sum(-1), torch.ones((), dtype=torch.float64), atol=1e-14)
    assert (truth.gather(-1, episodes.targets[..., None]) > 0).all()


@PROPERTY
@given(drawn(), st.integers(0, 2**31))
def test_renaming_values_and_keys_renames_the_posterior(case, seed):
    tunnel, episodes = case
    V = tunnel.n_values
    rename_keys, rename_values = permutations(2, V, V, rng(seed))
    keys, values = episodes.latents["keys"], episodes.latents["values"]
    renamed = posterior(rename_keys[keys], rename_values[values], V)
    assert torch.equal(renamed[..., rename_values], episodes.posterior)


@PROPERTY
@given(drawn())
def test_a_new_key_never_gets_a_used_value_and_an_old_key_gets_its_own(case):
    tunnel, episodes = case
    for b in range(len(episodes)):
        shown = {}
        for k, (key, value) in enumerate(
            zip(*(episodes.latents[n][b].tolist() for n in ("keys", "values")), strict=True)
        ):
            row = episodes.posterior[b, k]
            if key in shown:
                delta = torch.zeros(tunnel.n_values, dtype=torch.float64)
                delta[shown[key]] = 1
                assert torch.equal(row, delta)
            else:
                free = [v for v in range(tunnel.n_values) if v not in shown.values()]
                assert (row[list(shown.values())] == 0).all()
                assert torch.equal(row[free], torch.full_like(row[free], 1 / len(free)))
            shown[key] = value


@PROPERTY
@given(drawn(), st.integers(0, 2**31))
def test_the_future_does_not_change_the_posterior(case, seed):
    tunnel, episodes = case
    k = seed % tunnel.n_pairs
    later = tunnel.sample(len(episodes), rng(seed))
    keys, values = (
        torch.cat([episodes.latents[n][:, : k + 1], later.latents[n][:, k + 1 :]], 1)
        for n in ("keys", "values")
    )
    values[:, k] = later.latents["values"][:, k]  # the answer itself is the future too
    changed = posterior(keys, values, tunnel.n_values)
    assert torch.equal(changed[:, : k + 1], episodes.posterior[:, : k + 1])


def test_tokens_spell_the_pairs():
    tunnel = bw.tunnels.Bijection(4, 3)
    episodes = tunnel.episodes(torch.tensor([[2, 0, 3]]), torch.tensor([[1, 3, 0]]))
    assert episodes.inputs.tolist() == [[2, 4 + 1, 0, 4 + 3, 3]]
    assert episodes.inputs.dtype == episodes.targets.dtype == torch.int64
    assert episodes.targets.tolist() == [[1, 3, 0]]
    assert [t.tolist() for t in tunnel.read(episodes.inputs)] == [[[2, 0, 3]], [[1, 3]]]
    assert tunnel.interface.scored == (0, 2, 4)
    assert (tunnel.interface.n_tokens, tunnel.interface.n_positions) == (8, 5)


def test_the_paired_layout_spells_both_by_one_vocabulary_and_asks_again():
    tunnel = bw.tunnels.Bijection(5, 4, shared=True, query=True)
    episodes = tunnel.sample(300, rng(4))
    keys, values = episodes.latents["keys"], episodes.latents["values"]
    assert episodes.inputs.shape == (300, 9) and episodes.inputs.max() == 4 and tunnel.interface.scored == (0, 2, 4, 6, 8)
    assert torch.equal(episodes.inputs[:, 0::2], keys) and torch.equal(episodes.inputs[:, 1::2], values[:, :4])
    assert bool((keys[:, :4].sort(1).values.diff(dim=1) > 0).all()) and bool((keys[:, 4:] == keys[:, :4]).any(1).all())
    asked = (keys[:, 4:] == keys[:, :4]).long().argmax(1)
    assert stats.chisquare(torch.bincount(asked, minlength=4).numpy()).pvalue > 1e-4
    for k, v, truth in zip(keys[:20].tolist(), values[:20].tolist(), episodes.posterior[:20], strict=True):
        np.testing.assert_allclose(truth.numpy(), by_enumeration(k, v, 5), atol=1e-12)
    assert bw.scoring.entropy_bits(episodes.posterior.log2())[:, -1].abs().max() == 0  # who binds is sure
    assert torch.equal(tunnel.posterior(episodes.inputs), episodes.posterior) and not bw.tunnels.check(tunnel, 400).problems
    assert bw.tunnels.Bijection(**tunnel.config).config == tunnel.config and "shared" not in bw.tunnels.Bijection(5).config
    model = bw.training.loop.start(bw.training.recipe("bijection", "transformer", "smoke", "paired", tunnel_config={"n_values": 4, "n_pairs": 3})).model
    assert model(bw.tunnels.Bijection(4, 3, shared=True, query=True).sample(2, rng(1)).inputs).shape == (2, 4, 4)


def test_entropy_descends_a_staircase_with_distinct_keys():
    episodes = bw.tunnels.Bijection(20).sample(16, rng())
    entropy = -(episodes.posterior * episodes.posterior.clamp(min=1e-300).log2()).sum(-1)
    stairs = torch.tensor([math.log2(20 - k) for k in range(20)], dtype=torch.float64)
    assert torch.allclose(entropy, stairs.expand(16, 20), atol=1e-12)


def occupancy(n_values: int, n_pairs: int) -> list[float]:
    """P(key k was asked before) with keys drawn with replacement: 1 - (1 - 1/V)^k."""
    return [1 - (1 - 1 / n_values) ** k for k in range(n_pairs)]


def test_keys_come_back_as_often_as_chance_says():
    episodes = bw.tunnels.Bijection(20, 19, True).sample(20_000, rng(3))
    certain = (episodes.posterior.max(-1).values == 1).double().mean(0)
    chance = torch.tensor(occupancy(20, 19), dtype=torch.float64)
    error = (chance * (1 - chance) / 20_000).sqrt() + 1e-12
    assert ((certain - chance).abs() / error).max() < 4.5


# The sampler. Seeds are fixed, so these tests are deterministic; a fair sampler passes a given
# one with probability 0.9999, an unfair one does not pass at these sample sizes.


def p_uniform(codes: np.ndarray, n_cells: int) -> float:
    counts = np.bincount(codes, minlength=n_cells)
    assert len(counts) == n_cells
    return stats.chisquare(counts).pvalue


def code(rows: torch.Tensor, base: int) -> np.ndarray:
    """Each row (B, K) as one number in base `base`."""
    return (rows * base ** torch.arange(rows.shape[1])).sum(1).numpy()


def rank(rows: torch.Tensor, n: int) -> np.ndarray:
    """The number of each partial permutation (B, K) in a list of all of them."""
    listed = {p: i for i, p in enumerate(itertools.permutations(range(n), rows.shape[1]))}
    return np.array([listed[tuple(row)] for row in rows.tolist()])


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_all_permutations_are_equally_likely(length):
    rows = permutations(24_000, 4, length, rng(length))
    assert rows.shape == (24_000, length)
    assert p_uniform(rank(rows, 4), math.perm(4, length)) > 1e-4


def test_key_order_and_values_are_uniform_and_independent():
    latents = bw.tunnels.Bijection(4).sample(60_000, rng(11)).latents
    joint = rank(latents["keys"], 4) * 24 + rank(latents["values"], 4)
    assert p_uniform(joint, 576) > 1e-4


def test_with_replacement_keys_are_uniform_and_independent_of_the_map():
    latents = bw.tunnels.Bijection(3, 3, True).sample(60_000, rng(12)).latents
    keys, values = latents["keys"], latents["values"]
    assert p_uniform(code(keys, 3), 27) > 1e-4
    every_key = keys.sort(1).values.eq(torch.arange(3)).all(1)  # the whole map can be read off
    maps = torch.empty(int(every_key.sum()), 3, dtype=torch.long)
    maps.scatter_(1, keys[every_key], values[every_key])
    joint = rank(keys[every_key], 3) * 6 + rank(maps, 3)
    assert p_uniform(joint, 36) > 1e-4


def test_outcomes_are_drawn_from_the_posterior():
    """The tunnel is calibrated: values of a new key spread evenly over the free ones."""
    episodes = bw.tunnels.Bijection(6, 9, True).sample(20_000, rng(13))
    cdf = episodes.posterior.cumsum(-1)
    hit = cdf.gather(-1, episodes.targets[..., None])[..., 0]
    uncertain = episodes.posterior.max(-1).values < 1
    n_free = (episodes.posterior > 0).sum(-1)
    for free in range(2, 7):
        place = (hit * free).round().long() - 1  # which of the free values it was
        chosen = place[uncertain & (n_free == free)].numpy()
        assert p_uniform(chosen, free) > 1e-4


@pytest.mark.parametrize("batch", [1, 2, 65])
@pytest.mark.parametrize("n_pairs", [1, 4, 5])
def test_shapes(batch, n_pairs):
    episodes = bw.tunnels.Bijection(5, n_pairs).sample(batch, rng())
    assert len(episodes) == batch
    assert episodes.inputs.shape == (batch, 2 * n_pairs - 1)
    assert episodes.targets.shape == (batch, n_pairs)
    assert episodes.posterior.shape == (batch, n_pairs, 5)
    assert {k: v.shape for k, v in episodes.latents.items()} == {
        "keys": (batch, n_pairs), "values": (batch, n_pairs),
    }


def test_episodes_can_be_sliced_and_moved():
    episodes = bw.tunnels.Bijection(5).sample(6, rng())
    some = episodes[2:4]
    assert len(some) == 2
    assert torch.equal(some.latents["keys"], episodes.latents["keys"][2:4])
    assert torch.equal(episodes[torch.tensor([3])].posterior, episodes.posterior[3:4])
    assert episodes.to("cpu").inputs.device.type == "cpu"


REFUSED = {
    "one value": (lambda: bw.tunnels.Bijection(1), "n_values is 1: a bijection needs at least 2"),
    "no pair": (lambda: bw.tunnels.Bijection(20, 0), "n_pairs is 0: at least 1"),
    "21 distinct of 20": (
        lambda: bw.tunnels.Bijection(20, 21),
        "n_pairs is 21 but only 20 distinct keys exist.*with_replacement=True",
    ),
    "no episode": (lambda: bw.tunnels.Bijection(4).sample(0, rng()), "batch is 0: .*at least 1"),
    "a longer arrangement than there are cards": (
        lambda: permutations(2, 3, 4, rng()), "length is 4.*only 3",
    ),
    "unknown tunnel": (lambda: bw.tunnels.build("sausage"), "'sausage': choose one of bijection"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_settings_are_refused(case):
    call, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        call()


BAD_INPUTS = {
    "even length": ([[0, 5]], r"shape \(1, 2\).*T odd"),
    "too long": ([[0, 4, 1, 5, 2, 6, 3, 7, 0]], r"shape \(1, 9\).*at most 7"),
    "one axis": ([0, 4, 1], r"shape \(3,\)"),
    "value where a key belongs": ([[4]], r"even positions must hold keys 0\.\.3"),
    "negative key": ([[-1]], "even positions"),
    "key where a value belongs": ([[0, 1, 2]], r"odd positions must hold values 4\.\.7"),
    "token beyond the vocabulary": ([[0, 8, 2]], "odd positions"),
    "features": ([[0.0, 4.0, 1.0]], "float32.*int64"),
    "one value for two keys": ([[0, 4, 1, 4, 2]], "no bijection"),
    "two values for one key": ([[0, 4, 0, 5, 0]], "no bijection"),
}


@pytest.mark.parametrize("case", BAD_INPUTS)
@pytest.mark.parametrize("call", ["read", "posterior", "predict"])
def test_sequences_that_no_bijection_spells_are_refused(case, call):
    tokens, words = BAD_INPUTS[case]
    with pytest.raises(ValueError, match=words):
        getattr(bw.tunnels.Bijection(4, 4, with_replacement=True), call)(torch.tensor(tokens))
