"""Scores in bits: hand-computed cases, impossible predictions, and honest standard errors."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from _support import rng
import bayeswind_lib as bw
from bayeswind_lib import scoring
from bayeswind_lib.scoring import MEASURES, entropy_bits, kl_bits, measure, score_episodes
from bayeswind_lib.tunnels import Episodes


def made(posterior: list, targets: list) -> Episodes:
    """Episodes with a chosen truth; the inputs only number them, for `Fixed`."""
    truth = torch.tensor(posterior, dtype=torch.float64)
    return Episodes(torch.arange(len(truth))[:, None], torch.tensor(targets), truth)


class Fixed:
    """Predicts what it was given, row by row."""

    def __init__(self, probabilities):
        self.log2 = torch.as_tensor(probabilities, dtype=torch.float64).log2()

    def predict(self, inputs):
        return self.log2[inputs[:, 0]]


@pytest.mark.parametrize(
    ("prob", "bits"),
    [
        ([1.0, 0.0, 0.0], 0.0),
        ([0.5, 0.5, 0.0], 1.0),
        ([0.5, 0.25, 0.25], 1.5),
        ([0.25] * 4, 2.0),
        ([0.9, 0.1], -0.9 * math.log2(0.9) - 0.1 * math.log2(0.1)),
    ],
)
def test_entropy_by_hand(prob, bits):
    log2_prob = torch.tensor(prob, dtype=torch.float64).log2()
    assert entropy_bits(log2_prob).item() == pytest.approx(bits, abs=1e-14)


@pytest.mark.parametrize(
    ("truth", "prediction", "bits"),
    [
        ([0.5, 0.5], [0.5, 0.5], 0.0),
        ([0.5, 0.5], [0.25, 0.75], 0.5 + 0.5 * math.log2(2 / 3)),
        ([1.0, 0.0], [0.25, 0.75], 2.0),
        ([0.5, 0.5, 0.0], [0.25, 0.25, 0.5], 1.0),
        ([0.0, 1.0], [0.0, 1.0], 0.0),
        ([0.5, 0.5], [1.0, 0.0], math.inf),
    ],
)
def test_divergence_by_hand(truth, prediction, bits):
    truth, prediction = (torch.tensor(p, dtype=torch.float64) for p in (truth, prediction))
    assert kl_bits(truth, prediction.log2()).item() == pytest.approx(bits, abs=1e-14)


def test_every_measure_by_hand():
    episodes = made([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]], [[1, 0]])
    prediction = torch.tensor([[[0.25, 0.25, 0.5], [0.5, 0.25, 0.25]]]).double().log2()
    got = {name: cells[0].tolist() for name, cells in measure(prediction, episodes).items()}
    assert got == {
        "entropy_mae": [0.5, 1.5],  # |1.5 - 1|, |1.5 - 0|
        "kl": [1.0, 1.0],
        "cross_entropy_gap": [1.0, 1.0],  # 2 bits of loss where the oracle has 1; 1 where 0
        "tv": [0.5, 0.5],
        "support_leak": [0.5, 0.5],
    }


def test_cross_entropy_gap_is_of_what_happened_and_may_be_negative():
    truth = [[0.5, 0.5]]
    bold = torch.tensor([[[0.75, 0.25]]]).double().log2()
    lucky = measure(bold, made([truth], [[0]]))["cross_entropy_gap"].item()
    unlucky = measure(bold, made([truth], [[1]]))["cross_entropy_gap"].item()
    assert lucky == pytest.approx(math.log2(0.5 / 0.75))
    assert lucky < 0 < unlucky
    assert unlucky == pytest.approx(1.0)


def test_errors_of_opposite_sign_cancel_in_the_lax_definition_only():
    truth = [[[0.5, 0.5, 0.0, 0.0]], [[0.5, 0.5, 0.0, 0.0]]]
    too_sure_too_vague = Fixed([[[1.0, 0.0, 0.0, 0.0]], [[0.25] * 4]])
    result = score_episodes(too_sure_too_vague, made(truth, [[0], [0]]))
    assert result.entropy_mae == 1.0  # |0 - 1| and |2 - 1|
    assert result.entropy_curve_mae == 0.0  # |mean(0, 2) - 1|
    assert result.entropy.tolist() == result.oracle_entropy.tolist() == [1.0]


def test_the_mean_is_over_positions_and_episodes_and_per_position_keeps_them_apart():
    truth = [[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [0.5, 0.5]]]
    guess = [[[0.75, 0.25], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]]
    result = score_episodes(Fixed(guess), made(truth, [[0, 0], [0, 1]]))
    assert result.per_position["tv"].tolist() == [0.375, 0.0]
    assert result.per_position["support_leak"].tolist() == [0.375, 0.0]
    assert result.tv == 0.1875
    # Episode means are 0.125 and 0.25: deviation 0.0625 sqrt 2, over sqrt 2.
    assert result.tv_se == pytest.approx(0.0625)
    assert result.per_position_se["tv"].tolist() == pytest.approx([0.125, 0.0])
    assert all(result.per_position[name].shape == (2,) for name in MEASURES)


def test_ruling_out_what_can_happen_is_infinitely_bad_and_says_so():
    truth = [[[0.5, 0.5]], [[0.5, 0.5]]]
    guess = Fixed([[[1.0, 0.0]], [[0.5, 0.5]]])
    result = score_episodes(guess, made(truth, [[0], [0]]))
    assert result.kl == math.inf
    assert math.isnan(result.kl_se)
    assert result.tv == 0.25
    assert result.tv_se == pytest.approx(0.25)
    assert result.cross_entropy_gap == -0.5  # the target was 0: finite, and lucky
    stored = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert stored["kl"] == "inf"
    assert stored["kl_se"] is None
    assert stored["per_position"]["kl"] == ["inf"]
    assert stored["n_episodes"] == 2
    unlucky = score_episodes(guess, made(truth, [[1], [0]]))
    assert unlucky.cross_entropy_gap == math.inf
    assert math.isnan(unlucky.cross_entropy_gap_se)


REFUSED = {
    "wrong shape": ([[[0.5, 0.5, 0.0]]] * 2, r"shape \(2, 1, 3\), expected \(2, 1, 2\)"),
    "not normalised": ([[[0.5, 0.4]]] * 2, "do not sum to 1"),
    "more than everything": ([[[0.9, 0.9]]] * 2, "do not sum to 1"),
    "not a number": ([[[math.nan, 0.5]]] * 2, "do not sum to 1"),
    "one bad row": ([[[0.5, 0.5]], [[0.5, 0.501]]], "do not sum to 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_distribution_is_refused(case):
    guess, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        score_episodes(Fixed(guess), made([[[0.5, 0.5]]] * 2, [[0], [0]]))


def test_natural_logarithms_and_logits_are_refused():
    """The usual slip: log_softmax without the change of base."""
    episodes = bw.tunnels.Bijection(4).sample(8, rng())
    nats = torch.log_softmax(torch.randn(8, 4, 4, generator=rng()).double(), -1)
    with pytest.raises(ValueError, match="do not sum to 1"):
        measure(nats, episodes)
    assert measure(nats / math.log(2), episodes)["kl"].shape == (8, 4)


def test_one_episode_has_no_standard_error():
    with pytest.raises(ValueError, match="1 episode: a standard error needs at least 2"):
        score_episodes(Fixed([[[0.5, 0.5]]]), made([[[0.5, 0.5]]], [[0]]))


class Noisy:
    """The oracle with noise that all positions of an episode share: a predictor with real spread."""

    def __init__(self, tunnel):
        self.tunnel = tunnel

    def predict(self, inputs):
        truth = self.tunnel.posterior(inputs)
        uniform = torch.full_like(truth, 1 / truth.shape[-1])
        share = ((inputs * torch.arange(1, inputs.shape[1] + 1)).sum(1) % 17) / 20
        return torch.lerp(truth, uniform, share[:, None, None].double()).log2()


@pytest.mark.parametrize("name", MEASURES)
def test_standard_errors_agree_with_a_bootstrap_over_episodes(name):
    tunnel = bw.tunnels.Bijection(6)
    episodes = tunnel.sample(400, rng(1))
    result = score_episodes(Noisy(tunnel), episodes)
    cells = measure(Noisy(tunnel).predict(episodes.inputs), episodes)[name].numpy()
    draws = np.random.default_rng(0).integers(0, 400, (4000, 400))
    whole = cells.mean(1)[draws].mean(1).std()
    assert getattr(result, f"{name}_se") == pytest.approx(whole, rel=0.06)
    columns = np.array([column[draws].mean(1).std() for column in cells.T])
    np.testing.assert_allclose(result.per_position_se[name], columns, rtol=0.06, atol=1e-12)


def test_standard_errors_cover_the_truth():
    """Over many scorings, (score - long-run score) / se has deviation 1."""
    tunnel = bw.tunnels.Bijection(4)
    predictor = Noisy(tunnel)
    long_run = score_episodes(predictor, tunnel.sample(40_000, rng(99)), batch_size=4000)
    for name in ("entropy_mae", "kl", "cross_entropy_gap"):
        z = []
        for seed in range(200):
            some = bw.score(predictor, tunnel, 60, rng=rng(seed))
            z.append((getattr(some, name) - getattr(long_run, name)) / getattr(some, f"{name}_se"))
        assert 0.85 < np.std(z) < 1.2, name
        assert abs(np.mean(z)) < 0.3, name


def test_cross_entropy_gap_estimates_the_divergence():
    """Two roads to one number: the mean gap on what happened is the KL divergence."""
    tunnel = bw.tunnels.Bijection(6, 8, with_replacement=True)
    result = bw.score(Noisy(tunnel), tunnel, 8000, rng=rng(3))
    spread = math.hypot(result.cross_entropy_gap_se, result.kl_se)
    assert abs(result.cross_entropy_gap - result.kl) < 4 * spread
    assert result.kl > 40 * spread  # so that the line above is no empty statement


@pytest.mark.parametrize("with_replacement", [False, True])
def test_the_oracle_scores_zero(with_replacement):
    tunnel = bw.tunnels.Bijection(7, None, with_replacement)
    result = bw.score(tunnel, tunnel, 50, rng=rng())
    for name in MEASURES:
        assert getattr(result, name) == pytest.approx(0, abs=1e-14), name
        assert getattr(result, f"{name}_se") == pytest.approx(0, abs=1e-14), name


def test_a_seed_gives_the_same_score_in_batches_of_any_size():
    tunnel = bw.tunnels.Bijection(5)
    first = bw.score(Noisy(tunnel), tunnel, 70, rng=rng(4))
    again = bw.score(Noisy(tunnel), tunnel, 70, rng=rng(4))
    small = bw.score(Noisy(tunnel), tunnel, 70, rng=rng(4), batch_size=9)
    other = bw.score(Noisy(tunnel), tunnel, 70, rng=rng(5))
    assert first.to_dict() == again.to_dict()
    for name in MEASURES:
        cells = first.per_position[name]
        np.testing.assert_allclose(small.per_position[name], cells, rtol=1e-12, atol=1e-14)
    assert first.kl != other.kl
    assert first.n_episodes == 70
    for name in MEASURES:
        assert first.per_position[name].mean() == pytest.approx(getattr(first, name))
        assert first.per_position[name].dtype == np.float64


def test_a_network_and_an_oracle_go_through_one_evaluator():
    tunnel = bw.tunnels.Bijection(4)
    config = {k: v for k, v in tunnel.interface.to_dict().items() if k != "n_features"}
    sizes = {"n_layers": 1, "n_heads": 1, "width": 8, "hidden": 8}
    model = bw.models.build("transformer", config | sizes, rng())
    result = bw.score(model, tunnel, 20, rng=rng())
    uniform = bw.score(bw.baselines.Uniform(tunnel), tunnel, 20, rng=rng())
    assert result.kl == pytest.approx(uniform.kl, abs=0.02)  # an untrained network knows nothing
    assert set(result.to_dict()) == set(uniform.to_dict())


def test_score_names_are_the_pinned_ones():
    tunnel = bw.tunnels.Bijection(4)
    result = bw.score(tunnel, tunnel, 4, rng=rng())
    for name in ("entropy_mae", "kl", "cross_entropy_gap", "tv", "support_leak"):
        assert isinstance(getattr(result, name), float)
        assert isinstance(getattr(result, f"{name}_se"), float)
        assert result.per_position[name].shape == (4,)
    assert set(result.per_position) == set(scoring.MEASURES)


# Gaussian outcomes.


def gaussian(mean, variance) -> torch.Tensor:
    return torch.tensor([mean, variance], dtype=torch.float64)


PAIRS = [
    (gaussian(0.0, 1.0), gaussian(0.0, 1.0)),
    (gaussian(0.0, 1.0), gaussian(1.5, 1.0)),
    (gaussian(-1.0, 0.3), gaussian(0.5, 2.0)),
    (gaussian(0.2, 3.0), gaussian(0.1, 0.4)),
    (gaussian(0.0, 1.0), gaussian(0.0, 1.0 + 1e-6)),
    (gaussian(4.0, 0.01), gaussian(-4.0, 0.02)),
]


@pytest.mark.parametrize(("truth", "guess"), PAIRS)
def test_gaussian_measures_agree_with_integration(truth, guess):
    y = torch.linspace(-30, 30, 300_001, dtype=torch.float64)
    step = y[1] - y[0]
    log_p, log_q = (-scoring.gaussian_loss_bits(m.expand(len(y), 2), y) for m in (truth, guess))
    p, q = log_p.exp2(), log_q.exp2()
    assert scoring.gaussian_kl_bits(truth, guess).item() == pytest.approx(
        float((p * (log_p - log_q)).sum() * step), abs=1e-8, rel=1e-8
    )
    assert scoring.gaussian_total_variation(truth, guess).item() == pytest.approx(
        float((p - q).abs().sum() * step / 2), abs=1e-6
    )
    assert scoring.gaussian_entropy_bits(truth).item() == pytest.approx(
        float(-(p * log_p).sum() * step), abs=1e-8
    )


def test_a_gaussian_oracle_scores_zero_and_an_impostor_does_not():
    tunnel = bw.tunnels.Regression(2, 5)
    exact = bw.score(tunnel, tunnel, 200, rng=rng())
    assert (exact.entropy_mae, exact.kl, exact.tv, exact.support_leak) == (0, 0, 0, 0)

    class Impostor:
        """The right variance, no mean."""

        def predict(self, inputs):
            return tunnel.predict(inputs) * torch.tensor([0.0, 1.0])

    wrong = bw.score(Impostor(), tunnel, 200, rng=rng())
    assert wrong.entropy_mae == 0
    assert wrong.kl > 0.2
    assert 0.1 < wrong.tv < 1
    assert wrong.cross_entropy_gap == pytest.approx(wrong.kl, abs=6 * wrong.cross_entropy_gap_se)
    assert exact.to_dict()["entropy_curve_mae"] == 0


def test_a_gaussian_without_variance_is_refused():
    tunnel = bw.tunnels.Regression(2, 5)
    episodes = tunnel.sample(3, rng())
    with pytest.raises(ValueError, match="variance that is not positive"):
        measure(episodes.posterior * torch.tensor([1.0, -1.0]), episodes)


def test_accuracy_counts_ties_by_their_share():
    episodes = made([[[0.5, 0.5, 0.0]], [[1.0, 0.0, 0.0]]], [[1], [0]])
    guess = Fixed([[[0.5, 0.5, 0.0]], [[0.2, 0.7, 0.1]]])
    assert scoring.accuracy(guess, episodes) == (0.25, pytest.approx(0.25))
    with pytest.raises(ValueError, match="gaussian: accuracy needs labels"):
        scoring.accuracy(guess, bw.tunnels.Regression(2, 3).sample(2, rng()))


def test_no_entropy_is_minus_zero():
    sure = torch.eye(4, dtype=torch.float64)
    assert not torch.signbit(entropy_bits(sure.log2())).any()


def test_entropy_is_the_same_from_probabilities_and_from_their_logarithms():
    prob = torch.tensor([[0.5, 0.25, 0.25, 0.0], [1.0, 0, 0, 0], [0.25, 0.25, 0.25, 0.25]])
    assert bw.scoring.entropy(prob).tolist() == pytest.approx([1.5, 0, 2])
    assert bw.scoring.entropy(prob.numpy()).tolist() == pytest.approx(bw.scoring.entropy_bits(prob.log2()).tolist())
    assert bw.scoring.entropy(prob).dtype == torch.float64
