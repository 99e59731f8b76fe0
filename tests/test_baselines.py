"""Baseline predictors and their closed-form scores, three ways.

The printed figures of a survey of the paper (its section 5.1); the average over every episode of a
small tunnel; and the predictors themselves on thousands of fresh episodes at V = 20.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from _support import rng
import bayeswind_lib as bw
from bayeswind_lib import baselines
from bayeswind_lib.scoring import measure


# Section 5.1: entropy error in bits for V = 20, as printed for L = 19 and L = 20 pairs.
PRINTED = {
    "uniform": ("1.1073", "1.2681"),
    "all_tokens": ("2.1073", "2.2681"),
    "certain": ("3.2146", "3.0539"),
    "best_constant": ("0.7387", "0.8748"),
    "mean_constant": ("0.7629", "0.9132"),
    "position_counter": ("0", "0"),
    "no_binding": ("0", "0"),
    "one_too_few": ("0.175", "0.216"),
    "one_too_many": ("0.227", "0.216"),
    "window_5": ("0.760", "0.918"),
    "window_10": ("0.427", "0.571"),
    "window_15": ("0.125", "0.235"),
    "window_17": ("0.031", "0.108"),  # (log2 3/2 + log2 3) / 20 = 0.108496; the survey has 0.109
    "window_18": ("0", "0.050"),
}
PRINTED_SAWTOOTH = {
    "uniform": ("1.8490", "1.9172"),
    "no_binding": ("1.1763", "1.2065"),
    "repeat_aware": ("1.0520", "1.1130"),
    "binder": ("0.360", "0.368"),
    "position_median": ("1.1099", "1.1099"),
    "position_mean": ("1.3589", "1.3601"),
    "certain": ("2.473", "2.405"),
}


def printed(value: float, text: str) -> bool:
    """Whether a value rounds to the printed digits."""
    digits = len(text.partition(".")[2])
    return f"{value:.{digits}f}" == text if digits else abs(value) < 5e-4


@pytest.mark.parametrize("column", [0, 1], ids=["L=19", "L=20"])
@pytest.mark.parametrize(
    ("table", "with_replacement"),
    [(PRINTED, False), (PRINTED_SAWTOOTH, True)],
    ids=["distinct", "sawtooth"],
)
def test_baselines_to_the_printed_digits(table, with_replacement, column):
    exact = baselines.exact_baselines(20, 19 + column, with_replacement)
    wrong = {
        name: (exact[name]["entropy_mae"], figures[column])
        for name, figures in table.items()
        if not printed(exact[name]["entropy_mae"], figures[column])
    }
    assert not wrong


@pytest.mark.parametrize(
    ("pairs", "tv", "kl"), [(19, "0.45", "1.1073"), (20, "0.475", "1.2681")]
)
def test_what_entropy_error_cannot_see(pairs, tv, kl):
    """Entropy error 0 beside a total variation of 0.45: the position-counting impostor."""
    exact = baselines.exact_baselines(20, pairs)
    assert exact["position_counter"]["entropy_mae"] == 0
    assert printed(exact["position_counter"]["tv"], tv)
    assert exact["position_counter"]["kl"] == math.inf
    assert printed(exact["uniform"]["tv"], tv)
    assert printed(exact["uniform"]["kl"], kl)
    assert exact["all_tokens"]["kl"] == pytest.approx(exact["uniform"]["kl"] + 1)


def test_task_constants_to_the_printed_digits():
    distinct = {pairs: baselines.task_constants(20, pairs) for pairs in (19, 20)}
    assert printed(distinct[19]["mean_entropy"], "3.2146")
    assert printed(distinct[20]["mean_entropy"], "3.0539")
    assert printed(distinct[19]["bayes_loss_nats"], "2.228")
    assert printed(distinct[19]["uniform_loss_nats"], "2.996")
    assert printed(100 * distinct[19]["best_accuracy"], "13.67")
    assert printed(100 * distinct[20]["best_accuracy"], "17.99")
    assert distinct[20]["mean_entropy"] == pytest.approx(math.log2(math.factorial(20)) / 20)
    sawtooth = {pairs: baselines.task_constants(20, pairs, True) for pairs in (19, 20)}
    assert printed(sawtooth[19]["mean_entropy"], "2.4729")
    assert printed(sawtooth[20]["mean_entropy"], "2.4047")
    assert printed(sawtooth[19]["p_key_seen"], "0.3446")
    assert printed(sawtooth[20]["p_key_seen"], "0.3585")


def test_leaks_to_the_printed_digits():
    for epsilon, text in {1e-4: "0.00137", 1e-3: "0.0106", 1e-2: "0.074"}.items():
        assert printed(baselines.exact_leak(epsilon, 20, 19)["entropy_mae"], text), epsilon
    assert printed(baselines.exact_leak(1e-3, 20, 19)["kl"], "0.0014")
    for error, epsilon in {0.0169: 1.7e-3, 0.007: 6.2e-4, 0.003: 2.4e-4, 0.0008: 5.5e-5}.items():
        found = baselines.leak_for_entropy_error(error, 20, 19)
        assert f"{found:.1e}" == f"{epsilon:.1e}"
        assert baselines.exact_leak(found, 20, 19)["entropy_mae"] == pytest.approx(error, rel=1e-9)
    for wrong in (5.0, -0.1, math.nan):
        with pytest.raises(ValueError, match="entropy_mae is"):
            baselines.leak_for_entropy_error(wrong, 20)


# Which predictor a baseline belongs to.

DISTINCT = {
    "uniform": baselines.Uniform,
    "certain": baselines.Certain,
    "position_counter": lambda tunnel: baselines.PositionCounter(tunnel, rng(7)),
    "no_binding": baselines.Eliminator,
    "one_too_few": baselines.OneTooFew,
    "one_too_many": baselines.OneTooMany,
    "window_1": lambda tunnel: baselines.Eliminator(tunnel, 1),
    "window_2": lambda tunnel: baselines.Eliminator(tunnel, 2),
}
SAWTOOTH = {
    "uniform": baselines.Uniform,
    "certain": baselines.Certain,
    "no_binding": baselines.Eliminator,
    "repeat_aware": baselines.RepeatAware,
    "binder": baselines.Binder,
}
CASES = [(name, False) for name in DISTINCT] + [(name, True) for name in SAWTOOTH]


def every_episode(tunnel) -> bw.tunnels.Episodes:
    """Each equally likely episode once: all key orders with all bijections."""
    V, K = tunnel.n_values, tunnel.n_pairs
    maps = list(itertools.permutations(range(V)))
    orders = (
        itertools.product(range(V), repeat=K)
        if tunnel.with_replacement
        else itertools.permutations(range(V), K)
    )
    cases = [(k, [m[key] for key in k]) for k in orders for m in maps]
    return tunnel.episodes(*(torch.tensor(column) for column in zip(*cases, strict=True)))


@pytest.mark.parametrize(("name", "with_replacement"), CASES)
def test_formulas_equal_the_average_over_every_episode(name, with_replacement):
    tunnel = bw.tunnels.Bijection(3, 5, True) if with_replacement else bw.tunnels.Bijection(4)
    episodes = every_episode(tunnel)
    predictor = (SAWTOOTH if with_replacement else DISTINCT)[name](tunnel)
    cells = measure(predictor.predict(episodes.inputs), episodes)
    exact = baselines.exact_baselines(**tunnel.config)[name]
    assert cells["entropy_mae"].mean().item() == pytest.approx(exact["entropy_mae"], abs=1e-12)
    assert cells["kl"].mean().item() == pytest.approx(exact["kl"], abs=1e-12)
    if name == "position_counter":  # it is random itself
        spread = cells["tv"].std() / math.sqrt(cells["tv"].numel())
        assert abs(cells["tv"].mean() - exact["tv"]) < 4 * spread
    else:
        assert cells["tv"].mean().item() == pytest.approx(exact["tv"], abs=1e-12)


@pytest.mark.parametrize(("name", "with_replacement"), CASES)
def test_predictors_score_their_baseline_on_fresh_episodes(name, with_replacement):
    tunnel = bw.tunnels.Bijection(20, 19, with_replacement)
    predictor = (SAWTOOTH if with_replacement else DISTINCT)[name](tunnel)
    result = bw.score(predictor, tunnel, 1500, rng=rng(8))
    exact = baselines.exact_baselines(**tunnel.config)[name]
    for measure_name in ("entropy_mae", "tv"):
        error = abs(getattr(result, measure_name) - exact[measure_name])
        assert error <= 4.5 * getattr(result, f"{measure_name}_se") + 1e-12, measure_name
    if math.isinf(exact["kl"]):
        assert math.isinf(result.kl)
    else:
        assert abs(result.kl - exact["kl"]) <= 4.5 * result.kl_se + 1e-12


def test_entropy_baselines_are_the_best_constants():
    """By brute force: no constant entropy does better than `best_constant`."""
    for with_replacement in (False, True):
        moments = baselines.situations(20, 19, with_replacement)
        assert sum(s.weight for s in moments) == pytest.approx(1)
        grid = [c / 1000 for c in range(4400)]
        errors = [sum(s.weight * abs(c - s.entropy) for s in moments) for c in grid]
        exact = baselines.exact_baselines(20, 19, with_replacement)
        assert min(errors) == pytest.approx(exact["best_constant"]["entropy_mae"], abs=1e-3)
        assert exact["best_constant"]["entropy_mae"] <= exact["mean_constant"]["entropy_mae"]
        median, mean = (exact[f"position_{n}"]["entropy_mae"] for n in ("median", "mean"))
        assert median <= mean + 1e-12
        assert math.isnan(exact["best_constant"]["kl"])


def test_situations_occur_as_often_as_counted():
    """The Markov chain of distinct keys against every key sequence of a small tunnel."""
    V, K = 3, 5
    moments = baselines.situations(V, K, True)
    counted = dict.fromkeys(((s.k, s.d, s.repeated) for s in moments), 0.0)
    for keys in itertools.product(range(V), repeat=K):
        for k in range(K):
            shown = set(keys[:k])
            counted[k, len(shown), keys[k] in shown] += 1 / (V**K * K)
    for s in moments:
        assert counted[s.k, s.d, s.repeated] == pytest.approx(s.weight)


@pytest.mark.parametrize("with_replacement", [False, True])
def test_the_relabelled_oracle_has_the_right_entropy_and_the_wrong_support(with_replacement):
    tunnel = bw.tunnels.Bijection(6, 6, with_replacement)
    result = bw.score(baselines.RelabelledOracle(tunnel, 2), tunnel, 400, rng=rng(1))
    assert result.entropy_mae == pytest.approx(0, abs=1e-12)
    assert result.kl == math.inf
    assert result.tv > 0.3
    assert result.support_leak > 0.3


@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.05])
def test_a_leak_scores_as_the_formula_says(epsilon):
    tunnel = bw.tunnels.Bijection(20, 19)
    result = bw.score(baselines.Leaky(tunnel, epsilon), tunnel, 20, rng=rng(2))
    exact = baselines.exact_leak(epsilon, 20, 19)
    for name in ("entropy_mae", "kl", "tv"):
        assert getattr(result, name) == pytest.approx(exact[name], abs=1e-12), name
    assert result.support_leak == pytest.approx(epsilon * 18 / 19)  # nothing leaks at the first key


def test_binding_is_not_needed_with_distinct_keys_and_is_with_repeated_ones():
    distinct = bw.tunnels.Bijection(8)
    inputs = distinct.sample(50, rng(3)).inputs
    assert torch.allclose(
        baselines.Eliminator(distinct).predict(inputs).exp2(), distinct.posterior(inputs)
    )
    assert baselines.exact_baselines(8, 8, True)["no_binding"]["entropy_mae"] > 0.5


def test_the_counter_takes_its_randomness_from_its_generator():
    tunnel = bw.tunnels.Bijection(6)
    inputs = tunnel.sample(5, rng(4)).inputs
    first, again, other = (
        baselines.PositionCounter(tunnel, rng(seed)).predict(inputs) for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: baselines.RelabelledOracle(t, 0), "shift is 0"),
        (lambda t: baselines.RelabelledOracle(t, 12), "shift is 12"),
        (lambda t: baselines.Eliminator(t, -1), "window is -1"),
        (lambda t: baselines.Leaky(t, 1.0), "epsilon is 1.0"),
        (lambda t: baselines.Leaky(t, -0.1), "epsilon is -0.1"),
    ],
)
def test_impossible_references_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call(bw.tunnels.Bijection(6))


def test_every_reference_has_a_name_of_its_own_for_figures():
    tunnel = bw.tunnels.Bijection(6, 6, True)
    built = [make(tunnel) for make in {**DISTINCT, **SAWTOOTH}.values()]
    names = [predictor.name for predictor in built]
    assert len(set(names)) == len(names)
    assert all(name in repr(p) for name, p in zip(names, built, strict=True))
