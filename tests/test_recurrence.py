"""The recurrence tunnel against an enumeration of all programs, and the observers that know less."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from _support import rng
import bayeswind_lib as bw
from bayeswind_lib.baselines.recurrence import AnyRule, Memoriser
from bayeswind_lib.experiments import recurrence as programs
from bayeswind_lib.tunnels import Recurrence, recurrence


def enumerate_programs(symbols: tuple[int, ...], p: int, allowed=None) -> tuple[int, float, list[float]]:
    """Programs that agree, P(program), and the next symbol, by trying all p^2 programs and all noise.

    With `allowed`, only sequences whose first three symbols it holds exist: everything is then summed
    over all continuations to three symbols.
    """
    agree = [
        (a, b) for a, b in itertools.product(range(p), repeat=2)
        if all((a * x + b) % p == y for x, y in itertools.pairwise(symbols))
    ]
    program, noise = [0.0] * p, [0.0] * p
    for a, b in itertools.product(range(p), repeat=2):
        path = [symbols[0]]
        for _ in range(max(len(symbols), 2)):
            path.append((a * path[-1] + b) % p)
        if tuple(path[: len(symbols)]) == symbols and (allowed is None or allowed[tuple(path[:3])]):
            program[path[len(symbols)]] += p**-3
    for y in range(p):
        rest = itertools.product(range(p), repeat=max(0, 2 - len(symbols)))
        for more in rest:
            whole = (*symbols, y, *more)
            if allowed is None or allowed[whole[:3]]:
                noise[y] += float(p) ** -len(whole)
    total = sum(program) + sum(noise)
    return len(agree), sum(program) / total, [(x + y) / total for x, y in zip(program, noise, strict=True)]


@pytest.mark.parametrize(("p", "length"), [(3, 1), (3, 5), (5, 2), (5, 3), (5, 4), (7, 3)])
def test_the_observer_equals_the_enumeration_of_all_programs(p, length):
    sequences = list(itertools.product(range(p), repeat=length))
    symbols = torch.tensor(sequences)
    counts, weight = recurrence.counts(symbols, p), recurrence.program_probability(symbols, p)
    truth = recurrence.posterior(symbols, p)
    for row in range(0, len(sequences), max(1, len(sequences) // 120)):
        n, share, following = enumerate_programs(sequences[row], p)
        assert int(counts[row, -1]) == n
        assert float(weight[row, -1]) == pytest.approx(share, abs=1e-12)
        assert truth[row, -1].tolist() == pytest.approx(following, abs=1e-12)


@pytest.mark.parametrize("p", [5, 7])
def test_programs_longer_than_a_cycle_and_broken_ones(p):
    g = rng(p)
    for _ in range(40):
        a, b, x = torch.randint(p, (3,), generator=g).tolist()
        path = [x]
        for _ in range(9):
            path.append((a * path[-1] + b) % p)
        if torch.rand((), generator=g) < 0.5:
            path[int(torch.randint(2, 10, (), generator=g))] = int(torch.randint(p, (), generator=g))
        got = recurrence.posterior(torch.tensor([path]), p)[0]
        for k in (2, 3, 6, 10):
            assert got[k - 1].tolist() == pytest.approx(enumerate_programs(tuple(path[:k]), p)[2], abs=1e-12)


@pytest.mark.parametrize("prefixes", ["train", "held_out"])
def test_what_is_held_back_is_conditioned_on(prefixes):
    tunnel = Recurrence(5, 6, prefixes=prefixes)
    for symbols in tunnel.sample(12, rng(1)).latents["symbols"]:
        path = tuple(symbols.tolist())
        got = tunnel.posterior(symbols[None, :5])[0]
        for k in range(1, 6):
            want = enumerate_programs(path[:k], 5, tunnel.allowed)[2]
            assert got[k - 1].tolist() == pytest.approx(want, abs=1e-12), (path, k)


def test_the_numbers_for_17():
    """Computed by Bayes' rule from a Bayes factor of 17^(k - 3), not by the tunnel."""
    symbols = torch.arange(7)[None]
    weight = recurrence.program_probability(symbols, 17)[0].tolist()
    assert weight[:5] == pytest.approx([1 / 2, 1 / 2, 1 / 2, 17 / 18, 289 / 290], abs=1e-15)
    assert [round(w, 4) for w in weight[3:5]] == [0.9444, 0.9966]
    bits = bw.scoring.entropy_bits(recurrence.posterior(symbols, 17).log2())[0].tolist()
    assert bits[:2] == pytest.approx([math.log2(17)] * 2)
    assert [round(x, 4) for x in bits[2:6]] == [2.8799, 0.5052, 0.0445, 0.0034]


@pytest.mark.parametrize("prefixes", recurrence.PREFIXES)
@pytest.mark.parametrize("tokens", recurrence.TOKENS)
def test_episodes_are_whole_and_the_oracle_scores_nothing(tokens, prefixes):
    tunnel = Recurrence(7, 8, tokens, prefixes)
    episodes = tunnel.sample(200, rng())
    assert episodes.inputs.shape == (200, tunnel.interface.n_positions)
    assert tunnel.interface.scored == tuple(range(tunnel.header, tunnel.header + 7))
    assert torch.allclose(episodes.posterior.sum(-1), torch.ones(200, 7, dtype=torch.float64))
    assert bw.scoring.score_episodes(tunnel, episodes).kl == 0
    again = tunnel.sample(200, rng())
    assert torch.equal(again.inputs, episodes.inputs)
    symbols, _ = tunnel.read(episodes.inputs)
    assert torch.equal(symbols, episodes.latents["symbols"][:, :-1])
    assert bool(tunnel.allowed[tuple(symbols[:, :3].T)].all())
    assert bw.tunnels.build("recurrence", tunnel.config).config == tunnel.config


def test_the_posterior_is_calibrated_on_sampled_episodes():
    """What happened costs as much as the posterior's entropy, within four standard errors."""
    for prefixes in recurrence.PREFIXES:
        episodes = Recurrence(5, 7, prefixes=prefixes).sample(20_000, rng(3))
        cost = -episodes.posterior.gather(-1, episodes.targets[..., None])[..., 0].log2()
        gap = cost - bw.scoring.entropy_bits(episodes.posterior.log2())
        assert (gap.mean(0).abs() < 4 * gap.std(0) / math.sqrt(20_000) + 1e-9).all(), prefixes


def test_renaming_symbols_renames_the_answer():
    plain, opaque = Recurrence(7, 6), Recurrence(7, 6, "opaque")
    episodes = opaque.sample(50, rng(4))
    names, symbols = episodes.latents["names"], episodes.latents["symbols"]
    truth = plain.posterior(symbols[:, :-1].contiguous())
    for s in range(7):
        told = episodes.posterior.gather(-1, names[:, s][:, None, None].expand(50, 5, 1))[..., 0]
        assert torch.allclose(told, truth[..., s])


@pytest.mark.parametrize("tokens", ["integer", "opaque"])
def test_within_a_horizon_the_first_symbols_are_read_and_no_others(tokens):
    whole, part = Recurrence(7, 8, tokens), Recurrence(7, 8, tokens, horizon=3)
    all_of, some = whole.sample(20, rng(8)), part.sample(20, rng(8))
    assert torch.equal(all_of.inputs[:, : whole.header + 3], some.inputs)
    assert torch.equal(all_of.targets[:, :3], some.targets) and torch.equal(all_of.posterior[:, :3], some.posterior)
    assert part.interface.scored == whole.interface.scored[:3] and "horizon" not in whole.config
    assert part.interface.n_positions == whole.interface.n_positions  # a network has positions for all symbols
    assert not bw.tunnels.check(part, 200).problems
    for kind in (bw.baselines.Uniform, AnyRule, Memoriser):
        assert torch.equal(kind(part).predict(some.inputs), kind(whole).predict(all_of.inputs)[:, :3])
    assert Recurrence(**part.config).config == part.config


def test_half_of_the_episodes_are_programs_and_follow_them():
    latents = Recurrence(11, 9).sample(4000, rng(5)).latents
    assert abs(float(latents["is_program"].float().mean()) - 0.5) < 0.04
    symbols, program = latents["symbols"], latents["program"]
    follows = ((program[:, :1] * symbols[:, :-1] + program[:, 1:] - symbols[:, 1:]) % 11 == 0).all(1)
    assert bool(follows[latents["is_program"]].all())
    assert float(follows[~latents["is_program"]].float().mean()) < 0.01


def test_buckets_are_about_equal_and_stay_as_they_are():
    bucket = recurrence.buckets(17)
    sizes = torch.bincount(bucket.flatten(), minlength=5)
    assert sizes.sum() == 17**3 and (sizes - 17**3 / 5).abs().max() < 120
    assert bucket[0, 1, 2] == 1 and bucket.float().mean() == pytest.approx(2, abs=0.06)


def test_composing_is_doing_one_after_the_other():
    g = rng(6)
    first, then = torch.randint(13, (2, 50, 2), generator=g)
    both, x = recurrence.compose(first, then, 13), torch.arange(13)
    step = (first[:, :1] * x + first[:, 1:]) % 13
    assert torch.equal((both[:, :1] * x + both[:, 1:]) % 13, (then[:, :1] * step + then[:, 1:]) % 13)


def test_any_rule_equals_the_enumeration_of_all_functions():
    p, tunnel = 3, Recurrence(3, 6)
    rules = list(itertools.product(range(p), repeat=p))
    episodes = tunnel.sample(40, rng(7))
    got = AnyRule(tunnel).predict(episodes.inputs).exp2()
    for path, rows in zip(episodes.latents["symbols"].tolist(), got, strict=True):
        for k in range(1, 6):
            prob = [p ** -(k + 1.0)] * p
            for rule in rules:
                if all(rule[x] == y for x, y in itertools.pairwise(path[:k])):
                    prob[rule[path[k - 1]]] += 1 / p / len(rules)
            assert rows[k - 1].tolist() == pytest.approx([x / sum(prob) for x in prob], abs=1e-12)


def test_the_memoriser_is_exact_where_it_was_trained_and_blind_elsewhere():
    for tokens in recurrence.TOKENS:
        known, other = (Recurrence(7, 8, tokens, part) for part in ("train", "held_out"))
        assert bw.scoring.score_episodes(Memoriser(known), known.sample(100, rng())).kl == pytest.approx(0, abs=1e-12)
        episodes = other.sample(100, rng())
        got = Memoriser(other).predict(episodes.inputs).exp2()
        assert torch.allclose(got[:, 2:], torch.full_like(got[:, 2:], 1 / 7))
        assert torch.allclose(got[:, :2], episodes.posterior[:, :2])
    third = Recurrence(7, 8, prefixes="train", bucket=2)
    assert bw.scoring.score_episodes(Memoriser(third), third.sample(100, rng())).kl == pytest.approx(0, abs=1e-12)
    assert not bool((third.allowed & Recurrence(7, 8, prefixes="held_out", bucket=2).allowed).any())
    short = Recurrence(7, 8)
    assert Memoriser(short).predict(torch.tensor([[1, 2]])).shape == (1, 2, 7)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"modulus": 9}, "modulus is 9: it must be a prime"), ({"modulus": 2}, "a prime from 3 on"),
        ({"length": 2}, "length is 2"), ({"tokens": "words"}, "tokens is 'words'"), ({"prefixes": "test"}, "choose one of all"),
        ({"bucket": 5}, "bucket is 5: choose one of 0..4"),
    ],
)
def test_impossible_settings_are_refused(settings, told):
    with pytest.raises(ValueError, match=told):
        Recurrence(**settings)


def test_other_sequences_are_refused():
    tunnel, opaque = Recurrence(5, 6), Recurrence(5, 6, "opaque")
    with pytest.raises(ValueError, match="batch is 0"):
        tunnel.sample(0, rng())
    with pytest.raises(ValueError, match="torch.int64"):
        tunnel.read(torch.zeros(1, 3))
    with pytest.raises(ValueError, match=r"T from 1 to 5"):
        tunnel.read(torch.zeros(1, 6, dtype=torch.long))
    with pytest.raises(ValueError, match="symbols are 0..4"):
        tunnel.read(torch.tensor([[0, 5]]))
    with pytest.raises(ValueError, match="the header is none"):
        opaque.read(torch.tensor([[5, 0, 1, 2, 3, 3, 6, 0]]))
    back = tuple((~Recurrence(5, 6, prefixes="train").allowed).nonzero()[0].tolist())
    with pytest.raises(ValueError, match="never occurs with prefixes='train'"):
        Recurrence(5, 6, prefixes="train").read(torch.tensor([back]))


# ---- trained networks, on small ones


@pytest.fixture(scope="module")
def near():
    """A small network within a horizon of five, and its tunnel's arguments."""
    config = {"modulus": 5, "length": 9, "horizon": 5}
    recipe = bw.training.recipe(
        "recurrence", "transformer", "smoke", tunnel_config=config, supervision="posterior", steps=60, batch_size=32,
        model_config={"width": 32, "hidden": 64}, eval_every=60,
    )
    return bw.training.train(recipe, progress=False)[0], config


def test_programs_that_move_write_what_they_say():
    program, symbols = programs.sequences(7, 50, 6, rng(1))
    assert torch.equal((program[:, :1] * symbols[:, :-1] + program[:, 1:]) % 7, symbols[:, 1:])
    assert bool((symbols[:, 0] != symbols[:, 1]).all())


def test_inside_and_outside_of_the_horizon_are_all_positions(near):
    model, config = near
    found = programs.opened(model, config, 40, 2)
    assert found["inside"] == pytest.approx(sum(found["by_position"][:5]) / 5, rel=1e-3)
    assert found["outside"] == pytest.approx(sum(found["by_position"][5:]) / 3, rel=1e-3)
    assert set(found["rescue"]) == {"block_1", "none", "other", "dealt"} and found["rescue"]["dealt"]["draws"] == 2
    ablation = found["ablated"]
    assert 0 < ablation["rank"] <= 8 and ablation["low"] <= ablation["random"] <= ablation["high"] and ablation["draws"] == 2


def test_behind_the_last_block_the_recipient_says_what_the_donor_says(near):
    """Nothing is read from other places any more, so that the donor decides alone."""
    model, config = near
    _, symbols = programs.sequences(5, 200, 9, programs.rng_for(Recurrence(**config), 484))
    right = [float((programs.answers_at(model, symbols[:, k - 4 : k + 1], 4) == symbols[:, k + 1]).double().mean()) for k in (5, 6, 7)]
    last = len(model.blocks)
    assert programs.rescued(model, config, 200, last) == pytest.approx(sum(right) / 3)
    own = programs.rescued(model, config, 200, last, lambda given: given.roll(1, 0))
    assert own < sum(right) / 3 - 0.2  # the donor of another program knows nothing of this one
    plain = [float((programs.answers_at(model, symbols[:, :-1], k) == symbols[:, k + 1]).double().mean()) for k in (5, 6, 7)]
    assert programs.rescue_controls(model, config, 200, 2)["none"] == pytest.approx(sum(plain) / 3)


def test_the_authors_interventions_are_theirs(near):
    """Their error, their places: entropy errors, the last stream, donors from within the horizon at the places that they name."""
    model, config = near
    found = programs.as_published(model, config, 60, 3)
    assert set(found) == {"inside", "outside", "before", "read", "random", "low", "high"}  # none of their pairs fits nine symbols
    assert 0 < found["inside"] < 2.4 and found["low"] <= found["random"] <= found["high"] and found["read"] != found["before"]
    _, symbols = programs.sequences(5, 300, 9, programs.rng_for(Recurrence(**config), 484))
    symbols = symbols[symbols[:, 4] != symbols[:, 5]]
    right = float((programs.answers_at(model, symbols[:, 4:7], 2) == symbols[:, 7]).double().mean())
    assert programs.rescued(model, config, 300, len(model.blocks), pairs=[(2, 6)]) == pytest.approx(right)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs, "PAIRS", ((2, 6),))
        again = programs.as_published(model, config, 300, 2)
    assert again["dealt"]["draws"] == 2 and programs.dealt_of({"published": again}) is again["dealt"]
    assert again["block_1"] == pytest.approx(programs.rescued(model, config, 300, 1, pairs=[(2, 6)]))


def test_what_is_held_out_is_scored_beside_those_who_copy_and_who_know_by_heart(near):
    model, _ = near
    recipe = bw.training.recipe("recurrence", "transformer", "smoke", "train", steps=2, warmup_steps=0, eval_every=2)
    network = bw.training.train(recipe, progress=False)[0]
    found = programs.split(network, recipe.tunnel_config, 30)
    assert abs(found["by_heart_train"]) < 1e-9 < found["by_heart_held_out"]
    assert found["train"] > 0 and len(found["train_by_position"]) == 4
    assert set(programs.split(network, recipe.tunnel_config | {"prefixes": "all"}, 30)) == {
        f"{who}all{what}" for who in ("", "copier_", "by_heart_") for what in ("", "_by_position")
    }


def test_the_ledger_asks_for_the_mean_of_the_seeds():
    runs = {"train": {"0": {"train": 0.1, "held_out": 0.5}, "1": {"train": 0.3, "held_out": 0.7}}, "horizon": {"0": {"inside": 0.02, "ablated": {"read": 1.0}, "published": {"read": 2.0, "block_2": 0.5}}}}
    found = programs.asked(runs)
    assert found["p17"] == {"train": pytest.approx(0.2), "train_se": pytest.approx(0.1), "held_out": pytest.approx(0.6), "held_out_se": pytest.approx(0.1)}
    assert found["ablated"]["read"] == 1.0 and found["p31"] == {} and found["published"] == {"read": 2.0, "block_2": 0.5}


def test_a_trial_at_another_rate_takes_no_network_s_place_and_the_longest_run_comes_last():
    queued = [entry.cell for entry in programs.queue.entries()]
    for name, twice in (("recurrence-transformer-train", True), ("recurrence-transformer-horizon", False)):
        named, cells = ([cell for cell in some if cell.name == name] for some in (queued, programs.plain_cells()))
        assert len({cell.recipe.learning_rate for cell in named}) >= 4 and len({cell.recipe.learning_rate for cell in cells}) == 1
        steps = [cell.recipe.steps for cell in cells]
        assert steps == sorted(steps) and (steps[-1] == 2 * steps[0]) == twice  # what is opened is one network of one budget
    assert cells[0].recipe.learning_rate == pytest.approx(0.0025)  # of several rates the one that was best
