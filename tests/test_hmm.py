"""The HMM tunnel against enumeration of all state paths, a public HMM package and counting.

Nothing below shares code with the library: the enumeration sums over every path of hidden states,
hmmlearn filters the prefixes of a sequence, the grid is made cent by cent in a loop, and the
samplers are held against the distributions that they are to draw from.
"""

from __future__ import annotations

import itertools
import math
import sys
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from _support import rng
import bayeswind_lib as bw
from bayeswind_lib.tunnels import hmm
from bayeswind_lib.tunnels.hmm import forward_filter, on_grid, on_lattice, transport

PROPERTY = settings(deadline=None, database=None, derandomize=True, max_examples=60)
SETTINGS = [("grid", "rows"), ("grid", "tokens"), ("raw", "rows")]  # generator and header


def by_enumeration(transition, emission, symbols, transition_first: bool) -> np.ndarray:
    """P(state now | symbols so far) at every step, summed over all paths: float64 (K, S)."""
    S, rows = len(transition), []
    for k in range(1, len(symbols) + 1):
        weight = np.zeros(S)
        for path in itertools.product(range(S), repeat=k + transition_first):
            moves = [transition[a, b] for a, b in itertools.pairwise(path)]
            shows = [emission[s, o] for s, o in zip(path[transition_first:], symbols[:k], strict=True)]
            weight[path[-1]] += math.prod(moves) * math.prod(shows) / S
        rows.append(weight / weight.sum())
    return np.array(rows)


def by_hmmlearn(transition, emission, symbols, transition_first: bool) -> np.ndarray:
    """The same by a public package: the last row of what it says about each prefix."""
    from hmmlearn.hmm import CategoricalHMM

    machine = CategoricalHMM(len(transition), n_features=emission.shape[1], init_params="", params="")
    start = np.full(len(transition), 1 / len(transition))
    machine.startprob_ = start @ transition if transition_first else start
    machine.transmat_, machine.emissionprob_ = transition, emission
    column = np.array(symbols)[:, None]
    return np.array([machine.predict_proba(column[:k])[-1] for k in range(1, len(symbols) + 1)])


def latents_of(episodes, b: int) -> tuple:
    """Transition and emission as arrays and the symbols as a list, of one episode."""
    latents = episodes.latents
    return (
        latents["transition"][b].numpy(), latents["emission"][b].numpy(),
        latents["observations"][b].tolist(),
    )


# The filter.


@pytest.mark.parametrize("transition_first", [False, True])
@pytest.mark.parametrize("generator", ["grid", "raw"])
@pytest.mark.parametrize(("n_states", "n_symbols", "length"), [(2, 2, 8), (3, 3, 6), (3, 5, 5), (5, 2, 4)])
def test_posterior_equals_the_sum_over_all_paths(
    n_states, n_symbols, length, generator, transition_first
):
    tunnel = bw.tunnels.HMM(
        n_states, n_symbols, length, generator, transition_first=transition_first
    )
    episodes = tunnel.sample(5, rng(n_states))
    expected = [by_enumeration(*latents_of(episodes, b), transition_first) for b in range(5)]
    np.testing.assert_allclose(episodes.posterior.numpy(), expected, rtol=1e-12)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="hmmlearn has no wheel for Python 3.14 yet")
@pytest.mark.parametrize("transition_first", [False, True])
@pytest.mark.parametrize("sticky", [0.0, 20.0])
def test_posterior_equals_a_public_package(sticky, transition_first):
    tunnel = bw.tunnels.HMM(
        length=30, generator="raw", sticky=sticky, transition_first=transition_first
    )
    episodes = tunnel.sample(6, rng(1))
    expected = [by_hmmlearn(*latents_of(episodes, b), transition_first) for b in range(6)]
    np.testing.assert_allclose(episodes.posterior.numpy(), expected, rtol=1e-9, atol=1e-14)


def test_the_two_conventions_differ():
    """So that a test above cannot pass by ignoring its argument."""
    plain, moved = (
        forward_filter(*matrices, transition_first=first)
        for first in (False, True)
        for matrices in [[bw.tunnels.HMM().sample(4, rng()).latents[n] for n in ("transition", "emission", "observations")]]
    )
    assert (plain[:, 0] - moved[:, 0]).abs().min() > 1e-4
    assert torch.allclose(plain[:, -1], moved[:, -1], atol=1e-4)  # and the difference is forgotten


def test_a_start_is_the_belief_before_anything_is_seen():
    latents = bw.tunnels.HMM(generator="raw").sample(3, rng(2)).latents
    matrices, symbols = (latents["transition"], latents["emission"]), latents["observations"]
    whole = forward_filter(*matrices, symbols)
    rest = forward_filter(*matrices, symbols[:, 8:], transition_first=True, start=whole[:, 7])
    assert torch.allclose(rest, whole[:, 8:], rtol=1e-12)
    moved = transport(whole[:, 7:8], latents["transition"])[:, 0]
    assert torch.allclose(forward_filter(*matrices, symbols[:, 8:], start=moved), rest, rtol=1e-12)


@pytest.mark.parametrize("transition_first", [False, True])
def test_the_next_symbol_is_predicted_as_enumeration_says(transition_first):
    """P(o_{t+1}, symbols so far) / P(symbols so far), both summed over all paths."""
    tunnel = bw.tunnels.HMM(3, 4, 5, predicts="next_symbol", transition_first=transition_first)
    episodes = tunnel.sample(4, rng(3))

    def evidence(transition, emission, symbols):
        total = 0.0
        for path in itertools.product(range(3), repeat=len(symbols) + transition_first):
            moves = math.prod(transition[a, b] for a, b in itertools.pairwise(path))
            seen = zip(path[transition_first:], symbols, strict=True)
            total += moves / 3 * math.prod(emission[s, o] for s, o in seen)
        return total

    for b in range(4):
        transition, emission, symbols = latents_of(episodes, b)
        for k in range(5):
            seen = symbols[: k + 1]
            joint = np.array([evidence(transition, emission, [*seen, o]) for o in range(4)])
            expected = joint / evidence(transition, emission, seen)
            np.testing.assert_allclose(episodes.posterior[b, k].numpy(), expected, rtol=1e-12)


def test_what_follows_the_last_symbol_is_asked_too():
    tunnel = bw.tunnels.HMM(3, 3, 6, predicts="next_symbol")
    latents = tunnel.sample(50, rng(4)).latents
    assert latents["next_symbols"].shape == latents["states"].shape == (50, 6)
    assert torch.equal(latents["next_symbols"][:, :-1], latents["observations"][:, 1:])
    assert len(latents["next_symbols"][:, -1].unique()) == 3


@st.composite
def drawn(draw):
    """A small tunnel and two of its episodes."""
    generator, header = draw(st.sampled_from(SETTINGS))
    tunnel = bw.tunnels.HMM(
        draw(st.integers(2, 6)), draw(st.integers(2, 6)), draw(st.integers(1, 9)), generator, header,
        draw(st.booleans()), draw(st.sampled_from([0.0, 3.5])),
        predicts=draw(st.sampled_from(["states", "next_symbol"])),
    )
    return tunnel, tunnel.sample(2, rng(draw(st.integers(0, 2**31))))


@PROPERTY
@given(drawn())
def test_posterior_is_a_distribution_over_possible_outcomes(case):
    _, episodes = case
    assert episodes.posterior.dtype == torch.float64
    assert (episodes.posterior > 0).all()
    assert torch.allclose(episodes.posterior.sum(-1), torch.ones((), dtype=torch.float64), atol=1e-14)


@PROPERTY
@given(drawn())
def test_inputs_are_read_back_to_the_last_bit(case):
    tunnel, episodes = case
    transition, emission, symbols = tunnel.read(episodes.inputs)
    assert torch.equal(transition, episodes.latents["transition"])
    assert torch.equal(emission, episodes.latents["emission"])
    assert torch.equal(symbols, episodes.latents["observations"])
    assert torch.equal(tunnel.posterior(episodes.inputs), episodes.posterior)
    assert torch.equal(tunnel.predict(episodes.inputs), episodes.posterior.log2())
    assert torch.equal(tunnel.write(transition, emission, symbols), episodes.inputs)


@PROPERTY
@given(drawn(), st.integers(0, 2**31))
def test_renaming_states_renames_the_belief(case, seed):
    tunnel, episodes = case
    order = torch.randperm(tunnel.n_states, generator=rng(seed))
    latents = episodes.latents
    renamed = forward_filter(
        latents["transition"][:, order][:, :, order], latents["emission"][:, order],
        latents["observations"], tunnel.transition_first,
    )
    plain = forward_filter(
        latents["transition"], latents["emission"], latents["observations"], tunnel.transition_first
    )
    assert torch.allclose(renamed, plain[..., order], rtol=1e-12)


@PROPERTY
@given(drawn(), st.integers(0, 2**31))
def test_renaming_symbols_everywhere_changes_no_belief(case, seed):
    tunnel, episodes = case
    order = torch.randperm(tunnel.n_symbols, generator=rng(seed))
    latents = episodes.latents
    arguments = (latents["transition"], latents["emission"][:, :, order])
    renamed = forward_filter(*arguments, order.argsort()[latents["observations"]])
    plain = forward_filter(latents["transition"], latents["emission"], latents["observations"])
    assert torch.equal(renamed, plain)


@PROPERTY
@given(drawn(), st.integers(0, 2**31))
def test_the_future_does_not_change_the_belief(case, seed):
    tunnel, episodes = case
    k = seed % tunnel.length
    symbols = episodes.latents["observations"].clone()
    symbols[:, k + 1 :] = (symbols[:, k + 1 :] + 1) % tunnel.n_symbols
    matrices = (episodes.latents["transition"], episodes.latents["emission"])
    changed = tunnel.posterior(tunnel.write(*matrices, symbols))
    assert torch.equal(changed[:, : k + 1], episodes.posterior[:, : k + 1])


@pytest.mark.parametrize(("generator", "header"), SETTINGS)
def test_any_number_of_symbols_is_read(generator, header):
    short, long = (bw.tunnels.HMM(3, 3, K, generator, header) for K in (4, 50))
    episodes = long.sample(3, rng(5))
    assert torch.equal(short.posterior(episodes.inputs), episodes.posterior)
    step = 2 if header == "tokens" else 1
    for k in (1, 3, 20):
        part = episodes.inputs[:, : long.header_length + step * k]
        assert torch.equal(short.posterior(part), episodes.posterior[:, :k])
        assert short.read(part)[2].shape == (3, k)


def test_matrices_off_the_lattice_lose_less_than_a_millionth_of_a_bit():
    """Chosen matrices need not fit float32: what the header costs, measured."""
    tunnel = bw.tunnels.HMM(length=50, generator="raw")
    latents = tunnel.sample(2000, rng(6)).latents
    noise = torch.rand(2, 2000, 5, 5, generator=rng(7), dtype=torch.float64)
    matrices = [
        m * (1 + 1e-3 * n) / (m * (1 + 1e-3 * n)).sum(-1, keepdim=True)
        for m, n in zip((latents["transition"], latents["emission"]), noise, strict=True)
    ]
    episodes = tunnel.episodes(*matrices, latents["states"], latents["observations"])
    cells = bw.scoring.measure(tunnel.predict(episodes.inputs), episodes)
    assert 0 < cells["entropy_mae"].max() < 1e-6
    assert cells["kl"].max() < 1e-12


# The inputs.


def one_episode(header: str) -> bw.tunnels.Episodes:
    """Two states, three symbols, seen: 2, 0."""
    tunnel = bw.tunnels.HMM(2, 3, 2, header=header)
    matrices = [[[0.9, 0.1], [0.25, 0.75]]], [[[0.2, 0.3, 0.5], [0.05, 0.9, 0.05]]]
    matrices = (torch.tensor(m, dtype=torch.float64) for m in matrices)
    return tunnel.episodes(*matrices, torch.tensor([[0, 1]]), torch.tensor([[2, 0]]))


def test_rows_spell_the_matrices_and_the_symbols():
    episodes = one_episode("rows")
    expected = torch.tensor([[
        # row of T, row of E, whose row, symbol
        [0.9, 0.1, 0, 0, 0, 1, 0, 0, 0, 0],
        [0.25, 0.75, 0, 0, 0, 0, 1, 0, 0, 0],
        [0, 0, 0.2, 0.3, 0.5, 1, 0, 0, 0, 0],
        [0, 0, 0.05, 0.9, 0.05, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 0, 0, 0, 1, 0, 0],
    ]])
    assert torch.equal(episodes.inputs, expected)
    assert episodes.inputs.dtype == torch.float32
    first = torch.tensor([0.5, 0.05], dtype=torch.float64) / 0.55
    assert torch.allclose(episodes.posterior[0, 0], first)
    assert episodes.targets.tolist() == [[0, 1]]


def test_tokens_spell_the_published_layout():
    episodes = one_episode("tokens")
    moves, shows = [85, 5, 20, 70], [15, 25, 45, 0, 85, 0]  # cents - 5
    assert episodes.inputs.tolist() == [[96, *moves, 97, *shows, 98, 99, 102, 99, 100]]
    assert episodes.inputs.dtype == torch.int64
    assert torch.equal(episodes.posterior, one_episode("rows").posterior)


@pytest.mark.parametrize("length", [15, 20, 30, 50])
def test_the_published_lengths(length):
    """Science: a header of 53 tokens, 53 + 2K in all, 105 tokens, read out at 54 + 2t."""
    tunnel = bw.tunnels.HMM(length=length, header="tokens")
    interface = tunnel.interface
    assert interface.n_positions == 53 + 2 * length == tunnel.sample(1, rng()).inputs.shape[1]
    assert interface.scored == tuple(54 + 2 * t for t in range(length))
    assert (interface.n_tokens, interface.n_features, interface.n_outputs) == (105, 0, 5)
    assert interface.first_output_token is None


@pytest.mark.parametrize("header", ["rows", "tokens", "none"])
@pytest.mark.parametrize("predicts", ["states", "next_symbol"])
@pytest.mark.parametrize(("n_states", "n_symbols"), [(3, 3), (2, 4), (5, 5)])
def test_interface_fits_the_episodes(header, predicts, n_states, n_symbols):
    tunnel = bw.tunnels.HMM(n_states, n_symbols, 7, header=header, fixed=1, predicts=predicts)
    episodes, interface = tunnel.sample(9, rng()), tunnel.interface
    shape = (9, interface.n_positions) + ((interface.n_features,) if interface.n_features else ())
    assert episodes.inputs.shape == shape
    assert episodes.posterior.shape == (9, 7, interface.n_outputs)
    assert episodes.targets.shape == (9, 7) == (9, len(interface.scored))
    assert episodes.targets.max() < interface.n_outputs
    assert max(interface.scored) == interface.n_positions - 1
    assert interface.n_outputs == (n_states if predicts == "states" else n_symbols)
    if header == "tokens":  # a prediction is read out at the symbol itself
        shown = episodes.inputs[:, list(interface.scored)] - 100
    else:
        shown = episodes.inputs[:, list(interface.scored)][..., -n_symbols:].argmax(-1)
    assert torch.equal(shown, episodes.latents["observations"])
    sizes = {"transition": (n_states, n_states), "emission": (n_states, n_symbols)}
    for name, size in sizes.items():
        assert episodes.latents[name].shape == (9, *size)
        assert episodes.latents[name].dtype == torch.float64
    for name in ("states", "observations"):
        assert episodes.latents[name].shape == (9, 7)
        assert episodes.latents[name].dtype == torch.int64


def test_fixed_matrices_are_the_same_in_every_episode_and_another_seed_changes_them():
    first, again, other = (
        bw.tunnels.HMM(header="none", fixed=seed).sample(3, rng(9)).latents["transition"]
        for seed in (4, 4, 5)
    )
    assert torch.equal(first, again)
    assert torch.equal(first, first[:1].expand(3, -1, -1))
    assert not torch.equal(first, other)


# The generators.


def cent_by_cent(weights: list[float]) -> list[int]:
    """One distribution on the grid, in a loop over entries and cents."""
    clipped = [max(w / sum(weights), 0.05) for w in weights]
    cents = [max(round(100 * c / sum(clipped)), 5) for c in clipped]
    order = sorted(range(len(cents)), key=lambda i: (cents[i], i))
    missing, turn = 100 - sum(cents), 0
    if missing < 0:
        order.reverse()
    while missing:
        i = order[turn % len(order)]
        turn += 1
        if missing > 0:
            cents[i] += 1
            missing -= 1
        elif cents[i] > 5:
            cents[i] -= 1
            missing += 1
    return cents


@pytest.mark.parametrize("n", [2, 3, 5, 8, 13, 18, 20])
def test_the_grid_is_made_cent_by_cent(n):
    weights = torch.rand(400, n, generator=rng(n), dtype=torch.float64).log_().neg_()
    weights[:20] = weights[:20] ** 6  # extreme ones too
    expected = [cent_by_cent(row) for row in weights.tolist()]
    got = on_grid(weights.T[:, None])[:, 0].T
    assert got.tolist() == expected
    assert set(got.sum(1).tolist()) == {100}
    repaired = sum(sum(max(round(100 * w / sum(r)), 5) for w in r) != 100 for r in weights.tolist())
    assert repaired > 20  # repair is part of what was compared


@pytest.mark.parametrize("n", [2, 5, 9])
def test_the_lattice_holds_what_float32_holds(n):
    weights = torch.rand(500, n, generator=rng(n), dtype=torch.float64).log_().neg_()
    weights[0, 0] = 0.0
    units = on_lattice(weights.T).T
    assert (units >= 1).all()
    assert torch.equal(units.sum(1), torch.full((500,), 2.0**24, dtype=torch.float64))
    probability = units / 2**24
    assert torch.equal(probability, probability.float().double())
    exact = weights / weights.sum(1, keepdim=True)
    assert (probability - exact).abs().max() < 2e-7


@pytest.mark.parametrize(("n_states", "n_symbols"), [(5, 5), (3, 3), (20, 7)])
def test_grid_matrices_are_on_the_grid(n_states, n_symbols):
    batch = 20_000 if n_states < 20 else 500
    latents = bw.tunnels.HMM(n_states, n_symbols, 2).sample(batch, rng(8)).latents
    for name, n in (("transition", n_states), ("emission", n_symbols)):
        cents = 100 * latents[name]
        assert torch.equal(latents[name], cents.round() / 100)
        assert (cents.round().sum(-1) == 100).all()
        assert cents.round().min() == 5
        cap = 100 - 5 * (n - 1)
        assert cents.round().max() == cap if n <= 5 else cents.round().max() <= cap


@pytest.mark.parametrize("sticky", [0.0, 0.5, 8.0])
def test_raw_rows_are_dirichlet(sticky):
    """Each entry of a Dirichlet is Beta: its own parameter against the sum of the others'."""
    tunnel = bw.tunnels.HMM(4, 6, 1, "raw", sticky=sticky)
    latents = tunnel.sample(20_000, rng(10)).latents
    total = 4 + sticky
    for i, j in itertools.product(range(4), range(4)):
        own = 1 + sticky * (i == j)
        entries = latents["transition"][:, i, j].numpy()
        assert stats.kstest(entries, stats.beta(own, total - own).cdf).pvalue > 1e-4, (i, j)
    for s, o in itertools.product(range(4), range(6)):
        entries = latents["emission"][:, s, o].numpy()
        assert stats.kstest(entries, stats.beta(1, 5).cdf).pvalue > 1e-4, (s, o)


def test_rows_are_independent():
    latents = bw.tunnels.HMM(3, 3, 1, "raw", sticky=2.0).sample(20_000, rng(11)).latents
    rows = torch.cat([latents["transition"], latents["emission"]], 1)[..., :2]  # (B, 6, 2)
    correlation = np.corrcoef(rows.flatten(1).numpy().T)
    between = correlation[np.kron(1 - np.eye(6), np.ones((2, 2))).astype(bool)]
    assert np.abs(between).max() < 4.5 / math.sqrt(20_000)


def p_drawn(counts: np.ndarray, probability: np.ndarray) -> float:
    return stats.chisquare(counts, counts.sum() * probability).pvalue


@pytest.mark.parametrize("transition_first", [False, True])
@pytest.mark.parametrize("generator", ["grid", "raw"])
def test_paths_follow_the_matrices(generator, transition_first):
    tunnel = bw.tunnels.HMM(
        4, 3, 6, generator, fixed=3, header="none", transition_first=transition_first
    )
    latents = tunnel.sample(30_000, rng(12)).latents
    transition, emission = (latents[n][0].numpy() for n in ("transition", "emission"))
    states, symbols = (latents[n].numpy() for n in ("states", "observations"))
    first = np.full(4, 0.25) @ transition if transition_first else np.full(4, 0.25)
    assert p_drawn(np.bincount(states[:, 0], minlength=4), first) > 1e-4
    for i in range(4):
        for t in (0, 4):
            followers = states[states[:, t] == i, t + 1]
            assert p_drawn(np.bincount(followers, minlength=4), transition[i]) > 1e-4, (i, t)
        for t in (0, 5):
            shown = symbols[states[:, t] == i, t]
            assert p_drawn(np.bincount(shown, minlength=3), emission[i]) > 1e-4, (i, t)


CALIBRATED = [
    {}, {"transition_first": True}, {"generator": "raw"}, {"generator": "raw", "sticky": 12.0},
    {"predicts": "next_symbol"}, {"header": "none", "fixed": 2}, {"n_states": 3, "n_symbols": 3},
    {"predicts": "next_symbol", "generator": "raw", "transition_first": True},
]


@pytest.mark.parametrize("changes", CALIBRATED, ids=str)
def test_outcomes_are_drawn_from_the_posterior(changes):
    """Among all cells given a probability near p, a share p happens; positions are one episode's."""
    episodes = bw.tunnels.HMM(**changes).sample(20_000, rng(13))
    happened = torch.nn.functional.one_hot(episodes.targets, episodes.posterior.shape[-1])
    surplus = happened - episodes.posterior
    for low, high in itertools.pairwise([0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0]):
        here = (episodes.posterior > low) & (episodes.posterior <= high)
        if here.sum() < 500:
            continue
        sums = (surplus * here).sum((1, 2))
        assert abs(sums.mean() / (sums.std() / math.sqrt(len(sums)))) < 4.5, (low, high)


# Seeds, devices, chunks.


@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
def test_a_generator_draws_on_its_own_device(device):
    tunnel = bw.tunnels.HMM(sticky=2.0, generator="raw")
    episodes = tunnel.sample(5000, torch.Generator(device).manual_seed(0))
    assert episodes.inputs.device.type == episodes.posterior.device.type == device
    assert torch.equal(tunnel.posterior(episodes.inputs), episodes.posterior)
    moved = episodes.to("cpu")
    assert torch.allclose(tunnel.posterior(moved.inputs), moved.posterior, rtol=1e-13)


@pytest.mark.parametrize("changes", CALIBRATED, ids=str)
@pytest.mark.parametrize("size", [1, 7, 50])
def test_chunks_change_nothing(changes, size, monkeypatch):
    tunnel = bw.tunnels.HMM(**changes)
    whole = tunnel.sample(50, rng(14))
    monkeypatch.setattr(hmm, "CHUNK", size)
    parts = tunnel.sample(50, rng(14))
    assert torch.equal(whole.inputs, parts.inputs)
    assert torch.equal(whole.targets, parts.targets)
    assert torch.allclose(whole.posterior, parts.posterior, rtol=1e-13)


def test_more_episodes_than_a_chunk():
    tunnel = bw.tunnels.HMM(3, 3, 4)
    episodes = tunnel.sample(2 * hmm.CHUNK + 3, rng(15))
    assert len(episodes) == len(episodes.posterior) == 2 * hmm.CHUNK + 3
    assert torch.equal(tunnel.posterior(episodes.inputs[-5:]), episodes.posterior[-5:])
    assert len(episodes.inputs.flatten(1).unique(dim=0)) == len(episodes)


def test_the_sampler_is_fast(report_seconds):
    """In processor seconds, and a fifth of the rate that a core reaches: other work may run on the machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        tunnel, source, best = bw.tunnels.HMM(), rng(), math.inf
        tunnel.sample(1024, source)
        for _ in range(12):
            start = time.process_time()
            tunnel.sample(1024, source)
            best = min(best, time.process_time() - start)
    finally:
        torch.set_num_threads(threads)
    report_seconds("a million HMM episodes with posterior, S = V = 5, K = 20, one thread", 1e6 * best / 1024, 20)
    assert 1024 / best > 70_000 / 5


# What is refused.

REFUSED = {
    "one state": (lambda: bw.tunnels.HMM(1), "n_states is 1: .*at least 2"),
    "one symbol": (lambda: bw.tunnels.HMM(5, 1), "n_symbols is 1: at least 2"),
    "no symbol shown": (lambda: bw.tunnels.HMM(length=0), "length is 0: at least 1"),
    "unknown generator": (lambda: bw.tunnels.HMM(generator="fine"), "generator is 'fine': choose one of grid, raw"),
    "unknown header": (lambda: bw.tunnels.HMM(header="x"), "header is 'x': choose one of rows, tokens, none"),
    "unknown outcome": (lambda: bw.tunnels.HMM(predicts="x"), "predicts is 'x': choose one of states, next_symbol"),
    "21 states on the grid": (lambda: bw.tunnels.HMM(21, 5), "n_states is 21.*generator='raw'"),
    "tokens for raw matrices": (lambda: bw.tunnels.HMM(generator="raw", header="tokens"), "choose generator='grid', or header='rows'"),
    "no header, new matrices": (lambda: bw.tunnels.HMM(header="none"), "set fixed to a seed"),
    "unsticky": (lambda: bw.tunnels.HMM(sticky=-1.0), "sticky is -1.0.*>= 0"),
    "sticky is nan": (lambda: bw.tunnels.HMM(sticky=math.nan), "sticky is nan"),
    "no episode": (lambda: bw.tunnels.HMM().sample(0, rng()), "batch is 0: .*at least 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_settings_are_refused(case):
    call, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        call()


def setting(index, value):
    def change(inputs):
        inputs[index] = value
        return inputs
    return change


BAD_ROWS = {
    "tokens": (lambda x: x.long(), "int64: expected vectors"),
    "two axes": (lambda x: x[0], r"shape \(6, 10\): expected \(B, T, 10\)"),
    "too narrow": (lambda x: x[..., :9], r"shape \(1, 6, 9\)"),
    "header alone": (lambda x: x[:, :4], "at least 1"),
    "a row of T that does not sum to 1": (setting((0, 0, 0), 0.8), "row of the transition matrix.*sum to 1"),
    "a negative entry": (setting((0, 2, slice(2, 4)), torch.tensor([-0.1, 0.6])), "row of the emission matrix"),
    "not a number": (setting((0, 0, 0), math.nan), "row of the transition matrix"),
    "two symbols at once": (setting((0, 4, 7), 1.0), "one-hot"),
    "no symbol": (setting((0, 4), 0.0), "one-hot"),
    "a symbol in the header": (setting((0, 0, 7), 1.0), "the rest must be zero"),
    "rows of other states": (setting((0, 1, slice(5, 7)), torch.tensor([1.0, 0.0])), "one-hot of its state"),
}
BAD_TOKENS = {
    "vectors": (lambda x: x.float(), "float32: expected tokens"),
    "one axis": (lambda x: x[0], r"shape \(17,\): expected \(B, 13 \+ 2k\)"),
    "half a pair": (lambda x: x[:, :-1], r"shape \(1, 16\)"),
    "header alone": (lambda x: x[:, :13], r"shape \(1, 13\)"),
    "no TRANS": (setting((0, 0), 97), "markers are not in their places"),
    "no OBS": (setting((0, 15), 98), "99 before every symbol"),
    "a marker as probability": (setting((0, 2), 97), "transition token is no probability"),
    "a negative probability": (setting((0, 7), -1), "emission token is no probability"),
    "a row of E that does not sum to 1": (setting((0, 7), 20), "row of the emission matrix do not sum to 1"),
    "an unknown symbol": (setting((0, 14), 103), r"symbols are tokens 100\.\.102"),
    "a probability as symbol": (setting((0, 14), 5), r"symbols are tokens 100\.\.102"),
}


@pytest.mark.parametrize("case", [("rows", name) for name in BAD_ROWS] + [("tokens", name) for name in BAD_TOKENS])
@pytest.mark.parametrize("call", ["read", "posterior", "predict"])
def test_inputs_that_no_episode_has_are_refused(case, call):
    header, name = case
    change, words = (BAD_ROWS if header == "rows" else BAD_TOKENS)[name]
    inputs = change(one_episode(header).inputs.clone())
    with pytest.raises(ValueError, match=words):
        getattr(bw.tunnels.HMM(2, 3, 2, header=header), call)(inputs)


def test_bad_symbols_without_a_header_are_refused():
    tunnel = bw.tunnels.HMM(2, 3, 2, header="none", fixed=0)
    inputs = tunnel.sample(2, rng()).inputs
    assert inputs.shape == (2, 2, 3)
    with pytest.raises(ValueError, match="every symbol must be a one-hot vector, and the rest"):
        tunnel.read(inputs * 0.5)


def chosen(**changes):
    latents = bw.tunnels.HMM(2, 3, 4, "raw").sample(2, rng()).latents | changes
    names = ("transition", "emission", "states", "observations")
    return [latents[name] for name in names]


def test_chosen_latents_have_to_fit():
    tunnel = bw.tunnels.HMM(2, 3, 4, "raw")
    assert len(tunnel.episodes(*chosen())) == 2
    half = torch.full((2, 2, 3), 1 / 3)
    never = torch.tensor([[1.0, 0, 0], [1, 0, 0]], dtype=torch.float64).expand(2, -1, -1)
    ones = torch.ones(2, 4, dtype=torch.int64)
    for changes, words in (
        ({"emission": half}, "emission has .*float32: expected .*float64"),
        ({"transition": half.double()}, r"transition has shape \(2, 2, 3\)"),
        ({"states": ones[:, :3]}, "expected the same"),
        ({"states": ones[:, :0], "observations": ones[:, :0]}, "at least 1"),
        ({"emission": never, "observations": ones}, "probability 0"),
    ):
        with pytest.raises(ValueError, match=words):
            tunnel.episodes(*chosen(**changes))
    with pytest.raises(ValueError, match="whole cents from 0.05.*on_grid"):
        bw.tunnels.HMM(2, 3, 4, header="tokens").episodes(*chosen())
    sure = torch.eye(2, dtype=torch.float64).expand(2, -1, -1)
    with pytest.raises(ValueError, match="whole cents from 0.05"):
        bw.tunnels.HMM(2, 3, 4, header="tokens").episodes(*chosen(transition=sure))


@pytest.mark.parametrize("transition_first", [False, True])
def test_the_filter_holds_over_two_thousand_symbols(transition_first):
    """Without a normalisation at every step the probability of so many symbols is below what float64 can hold."""
    tunnel = bw.tunnels.HMM(3, 5, 2000, generator="raw", transition_first=transition_first, header="none", fixed=1)
    latents = tunnel.sample(2, torch.Generator().manual_seed(0)).latents
    T, E, symbols = (latents[name] for name in ("transition", "emission", "observations"))
    found = forward_filter(T, E, symbols, transition_first).numpy()
    np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-12)
    log_T, log_E = T.log().numpy(), E.log().numpy()
    for b in range(2):
        log_alpha = np.full(3, -math.log(3))
        for t, symbol in enumerate(symbols[b].tolist()):
            if t or transition_first:
                log_alpha = special.logsumexp(log_alpha[:, None] + log_T[b], axis=0)
            log_alpha = log_alpha + log_E[b, :, symbol]
            np.testing.assert_allclose(found[b, t], special.softmax(log_alpha), rtol=1e-8, atol=1e-300)
    assert special.logsumexp(log_alpha) < -2000  # nats: exp of it is 0 in float64
