"""The regression tunnel against a public Gaussian-process regressor, integration and exact fractions.

Four roads to one posterior that share nothing with the library: scikit-learn's Gaussian process with
a dot-product kernel, sums over a grid of weights, the Kalman recursion in exact fractions, and
the outcomes themselves.
"""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import DotProduct, WhiteKernel

from _support import rng
import bayeswind_lib as bw
from bayeswind_lib.baselines import regression as baselines
from bayeswind_lib.scoring import gaussian_entropy_bits, score_episodes
from bayeswind_lib.tunnels.regression import posterior, weight_belief

PROPERTY = settings(deadline=None, database=None, derandomize=True, max_examples=60)


def by_gaussian_process(x: np.ndarray, y: np.ndarray, noise: float) -> np.ndarray:
    """Mean and variance at every x (K, d) given the pairs before, by scikit-learn: (K, 2)."""
    rows = []
    for k in range(len(x)):
        kernel = DotProduct(sigma_0=0.0) + WhiteKernel(noise**2)
        machine = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None)
        if k:
            machine.fit(x[:k], y[:k])
        mean, deviation = machine.predict(x[k : k + 1], return_std=True)
        rows.append([mean.item(), deviation.item() ** 2])
    return np.array(rows)


@pytest.mark.parametrize(
    ("n_dims", "n_pairs", "noise"), [(1, 6, 0.5), (2, 10, 0.5), (8, 20, 0.5), (5, 12, 0.05), (3, 9, 3.0)]
)
def test_oracle_equals_a_public_gaussian_process(n_dims, n_pairs, noise):
    tunnel = bw.tunnels.Regression(n_dims, n_pairs, noise)
    episodes = tunnel.sample(6, rng(n_dims))
    x, y = (episodes.latents[name].numpy() for name in ("x", "y"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that some variances are within rounding of zero
        expected = np.stack([by_gaussian_process(*pair, noise) for pair in zip(x, y, strict=True)])
    np.testing.assert_allclose(episodes.posterior.numpy(), expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(tunnel.predict(episodes.inputs).numpy(), expected, rtol=1e-8, atol=1e-10)


def by_grid(x: np.ndarray, y: np.ndarray, noise: float, points: int = 801) -> np.ndarray:
    """Mean and variance at every x (K, d) by summing over a grid of weights, d = 1 or 2: (K, 2)."""
    axis = np.linspace(-7, 7, points)
    w = np.stack(np.meshgrid(*[axis] * x.shape[1], indexing="ij"), -1).reshape(-1, x.shape[1])
    log_belief = -(w**2).sum(-1) / 2
    rows = []
    for x_k, y_k in zip(x, y, strict=True):
        belief = np.exp(log_belief - log_belief.max())
        belief /= belief.sum()
        means = w @ x_k  # what each w predicts
        mean = belief @ means
        rows.append([mean, belief @ (means - mean) ** 2 + noise**2])
        log_belief = log_belief - (y_k - means) ** 2 / (2 * noise**2)
    return np.array(rows)


@pytest.mark.parametrize(("n_dims", "n_pairs", "noise"), [(1, 8, 0.5), (1, 5, 1.5), (2, 6, 0.5)])
def test_oracle_equals_integration_over_the_weights(n_dims, n_pairs, noise):
    episodes = bw.tunnels.Regression(n_dims, n_pairs, noise).sample(5, rng(20 + n_dims))
    x, y = (episodes.latents[name].numpy() for name in ("x", "y"))
    expected = np.stack([by_grid(*pair, noise) for pair in zip(x, y, strict=True)])
    np.testing.assert_allclose(episodes.posterior.numpy(), expected, rtol=1e-8, atol=1e-8)


def by_fractions(x: list[list[float]], y: list[float], noise: float) -> list[list[float]]:
    """Mean and variance at every x by the Kalman recursion, without rounding: K times 2."""
    d = len(x[0])
    mean = [Fraction(0)] * d
    covariance = [[Fraction(i == j) for j in range(d)] for i in range(d)]
    rows = []
    for x_k, y_k in zip([[Fraction(v) for v in row] for row in x], map(Fraction, y), strict=True):
        spread = [sum(c * v for c, v in zip(row, x_k, strict=True)) for row in covariance]
        variance = Fraction(noise) ** 2 + sum(s * v for s, v in zip(spread, x_k, strict=True))
        predicted = sum(m * v for m, v in zip(mean, x_k, strict=True))
        rows.append([float(predicted), float(variance)])
        gain = [s / variance for s in spread]
        mean = [m + g * (y_k - predicted) for m, g in zip(mean, gain, strict=True)]
        covariance = [
            [c - g * s for c, s in zip(row, spread, strict=True)]
            for row, g in zip(covariance, gain, strict=True)
        ]
    return rows


@pytest.mark.parametrize(("noise", "tolerance"), [(0.5, 1e-12), (1e-3, 1e-8), (1e3, 1e-12)])
def test_rounding_stays_small_at_the_least_and_at_huge_noise(noise, tolerance):
    episodes = bw.tunnels.Regression(3, 12, noise).sample(4, rng(3))
    x, y = (episodes.latents[name].tolist() for name in ("x", "y"))
    expected = np.array([by_fractions(*pair, noise) for pair in zip(x, y, strict=True)])
    got = episodes.posterior.numpy()
    np.testing.assert_allclose(got[..., 1], expected[..., 1], rtol=tolerance)
    deviation = np.sqrt(expected[..., 1])
    assert (np.abs(got[..., 0] - expected[..., 0]) / deviation).max() < tolerance


@st.composite
def drawn(draw):
    """A tunnel and some of its episodes."""
    tunnel = bw.tunnels.Regression(
        draw(st.integers(1, 6)), draw(st.integers(1, 12)), draw(st.sampled_from([0.1, 0.5, 2.0]))
    )
    return tunnel, tunnel.sample(draw(st.integers(1, 7)), rng(draw(st.integers(0, 2**31))))


def close(got: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.allclose(got, expected, rtol=1e-9, atol=1e-10)


@PROPERTY
@given(drawn())
def test_variance_falls_with_every_pair_but_never_below_the_noise(case):
    """At one and the same x; and before any pair it is noise^2 + |x|^2."""
    tunnel, episodes = case
    x, y = episodes.latents["x"], episodes.latents["y"]
    probe = x[:, -1:]
    variance = torch.stack(
        [
            posterior(torch.cat([x[:, :k], probe], 1), y[:, : k + 1], tunnel.noise)[:, -1, 1]
            for k in range(tunnel.n_pairs)
        ],
        dim=1,
    )
    assert torch.allclose(variance[:, 0], tunnel.noise**2 + (probe[:, 0] ** 2).sum(-1))
    assert (variance.diff(dim=1) <= 1e-10).all()
    assert (variance >= tunnel.noise**2 * (1 - 1e-9)).all()


@PROPERTY
@given(drawn(), st.integers(0, 2**31))
def test_the_order_of_earlier_pairs_does_not_matter(case, seed):
    tunnel, episodes = case
    x, y = episodes.latents["x"], episodes.latents["y"]
    order = torch.randperm(tunnel.n_pairs - 1, generator=rng(seed)).tolist() + [tunnel.n_pairs - 1]
    shuffled = posterior(x[:, order], y[:, order], tunnel.noise)
    assert close(shuffled[:, -1], episodes.posterior[:, -1])


@PROPERTY
@given(drawn(), st.integers(0, 2**31))
def test_turning_every_x_changes_nothing_and_flipping_every_y_flips_the_mean(case, seed):
    tunnel, episodes = case
    d = tunnel.n_dims
    turn = torch.linalg.qr(torch.randn(d, d, generator=rng(seed), dtype=torch.float64)).Q
    x, y = episodes.latents["x"], episodes.latents["y"]
    assert close(posterior(x @ turn, y, tunnel.noise), episodes.posterior)
    flipped = posterior(x, -y, tunnel.noise)
    assert close(flipped, episodes.posterior * torch.tensor([-1.0, 1.0]).double())


@PROPERTY
@given(drawn(), st.integers(0, 2**31))
def test_the_future_does_not_change_the_posterior(case, seed):
    tunnel, episodes = case
    k = seed % tunnel.n_pairs
    x, y = (episodes.latents[name].clone() for name in ("x", "y"))
    y[:, k:] += 5.0  # the answer itself is the future too
    x[:, k + 1 :] *= -3.0
    changed = posterior(x, y, tunnel.noise)
    assert close(changed[:, : k + 1], episodes.posterior[:, : k + 1])


@PROPERTY
@given(drawn())
def test_beliefs_about_the_weights_give_the_same_predictions(case):
    tunnel, episodes = case
    x, y = episodes.latents["x"], episodes.latents["y"]
    mean, covariance = weight_belief(x, y, tunnel.noise)
    assert mean.shape == (len(x), tunnel.n_pairs + 1, tunnel.n_dims)
    assert (mean[:, 0] == 0).all()
    assert close(covariance[:, 0], torch.eye(tunnel.n_dims).double().expand_as(covariance[:, 0]))
    predicted = (mean[:, :-1] * x).sum(-1)
    variance = (x[..., None, :] @ covariance[:, :-1] @ x[..., None])[..., 0, 0] + tunnel.noise**2
    assert close(torch.stack([predicted, variance], -1), episodes.posterior)


def test_weights_are_where_the_belief_says():
    """The squared distance of the true weights, in units of the belief, is chi-squared with d degrees."""
    tunnel = bw.tunnels.Regression(3, 6)
    latents = tunnel.sample(20_000, rng(4)).latents
    mean, covariance = weight_belief(latents["x"], latents["y"], tunnel.noise)
    for k in (0, 1, 3, 6):
        gap = (latents["weights"] - mean[:, k])[..., None]
        distance = (gap.mT @ torch.linalg.solve(covariance[:, k], gap)).flatten().numpy()
        assert stats.kstest(distance, stats.chi2(3).cdf).pvalue > 1e-4, k


def test_outcomes_are_drawn_from_the_posterior():
    """The tunnel is calibrated: in units of the prediction, outcomes are independent and standard."""
    episodes = bw.tunnels.Regression(4, 8).sample(20_000, rng(13))
    z = (episodes.targets - episodes.posterior[..., 0]) / episodes.posterior[..., 1].sqrt()
    for k in range(8):
        assert stats.kstest(z[:, k].numpy(), "norm").pvalue > 1e-4, k
    correlation = np.corrcoef(z.numpy().T) - np.eye(8)
    assert np.abs(correlation).max() < 4.5 / math.sqrt(20_000)


def test_vectors_spell_the_pairs():
    tunnel = bw.tunnels.Regression(2, 3)
    x = torch.tensor([[[1.0, 2.0], [-3.0, 4.0], [0.5, 0.0]]]).double()
    y = torch.tensor([[7.0, -8.0, 9.0]]).double()
    episodes = tunnel.episodes(torch.zeros(1, 2).double(), x, y)
    assert episodes.inputs.tolist() == [[
        [1, 2, 0, 1, 0],
        [0, 0, 7, 0, 1],
        [-3, 4, 0, 1, 0],
        [0, 0, -8, 0, 1],
        [0.5, 0, 0, 1, 0],
    ]]  # fmt: skip
    assert episodes.inputs.dtype == torch.float32
    assert episodes.outcome == tunnel.interface.outcome == "gaussian"
    assert episodes.targets.tolist() == [[7, -8, 9]]
    assert [t.tolist() for t in tunnel.read(episodes.inputs)] == [x.tolist(), [[7, -8]]]
    face = tunnel.interface
    assert (face.n_tokens, face.n_features, face.n_positions, face.n_outputs) == (0, 5, 5, 2)
    assert (face.scored, face.first_output_token) == ((0, 2, 4), None)


def test_two_predictions_by_hand():
    """w ~ N(0, 1), noise 1: after y = 2 at x = 1 the weight is N(1, 1/2)."""
    tunnel = bw.tunnels.Regression(1, 2, 1.0)
    x, y = torch.tensor([[[1.0], [3.0]]]).double(), torch.tensor([[2.0, 0.0]]).double()
    truth = tunnel.episodes(torch.zeros(1, 1).double(), x, y).posterior[0]
    assert truth[0].tolist() == pytest.approx([0.0, 1 + 1])
    assert truth[1].tolist() == pytest.approx([3 * 1.0, 1 + 9 / 2])


def test_the_truth_is_that_of_the_numbers_the_model_reads():
    """Latents are float64 but hold float32 numbers, so that reading loses nothing."""
    tunnel = bw.tunnels.Regression()
    episodes = tunnel.sample(50, rng(5))
    x, y = tunnel.read(episodes.inputs)
    assert x.dtype == y.dtype == episodes.targets.dtype == episodes.posterior.dtype == torch.float64
    assert torch.equal(x, episodes.latents["x"])
    assert torch.equal(y, episodes.latents["y"][:, :-1])
    assert torch.equal(episodes.targets, episodes.latents["y"])
    assert torch.equal(tunnel.posterior(episodes.inputs), episodes.posterior)
    third = torch.full((1, 2, 1), 1 / 3, dtype=torch.float64)  # no float32 number
    small = bw.tunnels.Regression(1, 2)
    made = small.episodes(third[:, 0], third, third[..., 0])
    assert torch.equal(small.posterior(made.inputs), made.posterior)
    assert made.targets[0, 0].item() == float(np.float32(1 / 3))


def test_sequences_of_any_length_are_read():
    long = bw.tunnels.Regression(3, 30)
    episodes = long.sample(20, rng(6))
    short = bw.tunnels.Regression(3, 4)
    for k in (1, 2, 4, 5, 30):
        prefix = episodes.inputs[:, : 2 * k - 1]
        assert close(short.posterior(prefix), episodes.posterior[:, :k])


# The sampler. Seeds are fixed: a fair one passes a given test with probability 0.9999.


def test_weights_inputs_and_noise_are_independent_normals():
    tunnel = bw.tunnels.Regression(3, 4, 0.7)
    latents = tunnel.sample(20_000, rng(7)).latents
    w, x, y = (latents[name] for name in ("weights", "x", "y"))
    noise = (y - (x * w[:, None]).sum(-1)) / 0.7
    columns = torch.cat([w, x.flatten(1), noise], dim=1).numpy()
    assert columns.shape == (20_000, 3 + 12 + 4)
    for column in columns.T:
        assert stats.kstest(column, "norm").pvalue > 1e-4
    off = np.corrcoef(columns.T) - np.eye(19)
    assert np.abs(off).max() < 4.5 / math.sqrt(20_000)
    # Weights reported a hundredth too large would leave a part of w.x in the noise.
    pooled = np.corrcoef(noise.flatten(), (x * w[:, None]).sum(-1).flatten())[0, 1]
    assert abs(pooled) < 4.5 / math.sqrt(80_000)


@pytest.mark.parametrize("batch", [1, 2, 65])
@pytest.mark.parametrize(("d", "K"), [(1, 1), (2, 10), (8, 3)])
def test_shapes(batch, d, K):
    episodes = bw.tunnels.Regression(d, K).sample(batch, rng())
    assert len(episodes) == batch
    assert episodes.inputs.shape == (batch, 2 * K - 1, d + 3)
    assert episodes.targets.shape == (batch, K)
    assert episodes.posterior.shape == (batch, K, 2)
    assert {k: tuple(v.shape) for k, v in episodes.latents.items()} == {
        "weights": (batch, d), "x": (batch, K, d), "y": (batch, K),
    }


def test_a_network_and_the_oracle_go_through_one_evaluator():
    tunnel = bw.tunnels.Regression(2, 10)
    sizes = {"n_layers": 1, "n_heads": 1, "width": 8, "hidden": 8}
    model = bw.models.build("transformer", tunnel.interface.to_dict() | sizes, rng())
    episodes = tunnel.sample(64, rng(8))
    truth, network = (score_episodes(p, episodes) for p in (tunnel, model))
    for name in ("entropy_mae", "kl", "cross_entropy_gap", "tv"):
        assert getattr(truth, name) == pytest.approx(0, abs=1e-12), name
    assert network.kl > 0.5
    assert set(truth.to_dict()) == set(network.to_dict())


REFUSED = {
    "no dimension": (lambda: bw.tunnels.Regression(0), "n_dims is 0: x needs at least 1"),
    "no pair": (lambda: bw.tunnels.Regression(2, 0), "n_pairs is 0: at least 1"),
    "no noise": (lambda: bw.tunnels.Regression(noise=0.0), r"noise is 0\.0: .*at least 0\.001"),
    "negative noise": (lambda: bw.tunnels.Regression(noise=-0.5), r"noise is -0\.5"),
    "noise below rounding": (lambda: bw.tunnels.Regression(noise=1e-4), "float32 rounding"),
    "infinite noise": (lambda: bw.tunnels.Regression(noise=math.inf), "noise is inf"),
    "noise that is no number": (lambda: bw.tunnels.Regression(noise=math.nan), "noise is nan"),
    "no episode": (lambda: bw.tunnels.Regression().sample(0, rng()), "batch is 0: .*at least 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_settings_are_refused(case):
    call, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        call()


X, Y = [2.0, 0.0, 1.0, 0.0], [0.0, 3.0, 0.0, 1.0]  # of one dimension
BAD_INPUTS = {
    "even length": ([[X, Y]], r"shape \(1, 2, 4\): expected \(B, T, 4\) with T odd"),
    "nothing": ([[]], r"shape \(1, 0\)"),
    "one axis missing": ([X, Y, X], r"shape \(3, 4\)"),
    "too many features": ([[[*X, 0.0]]], r"shape \(1, 1, 5\)"),
    "y first": ([[Y, X, Y]], "even positions must hold"),
    "x where a y belongs": ([[X, X, X]], "no regression episode"),
    "no flag": ([[[2.0, 0.0, 0.0, 0.0]]], "no regression episode"),
    "both flags": ([[[2.0, 0.0, 1.0, 1.0]]], "no regression episode"),
    "the answer beside its x": ([[[2.0, 3.0, 1.0, 0.0]]], "no regression episode"),
    "an x beside the y": ([[X, [2.0, 3.0, 0.0, 1.0], X]], "no regression episode"),
    "not finite": ([[[math.nan, 0.0, 1.0, 0.0]]], "not finite"),
}


@pytest.mark.parametrize("case", BAD_INPUTS)
@pytest.mark.parametrize("call", ["read", "posterior", "predict"])
def test_vectors_of_another_layout_are_refused(case, call):
    vectors, words = BAD_INPUTS[case]
    with pytest.raises(ValueError, match=words):
        getattr(bw.tunnels.Regression(1, 4), call)(torch.tensor(vectors))


def test_other_number_types_are_refused():
    tunnel = bw.tunnels.Regression(1, 2)
    assert tunnel.posterior(torch.tensor([[X, Y, X]])).shape == (1, 2, 2)
    for dtype in (torch.float64, torch.int64, torch.float16):
        with pytest.raises(ValueError, match="expected vectors, torch.float32"):
            tunnel.read(torch.tensor([[X, Y, X]]).to(dtype))


# Rungs. The survey of the paper gives, in its section 1.3, these figures from 20,000 episodes.

N, N_PRINTED = 6000, 20_000
PRINTED = {
    8: {"prior_only": 1.241, "noise_floor": 1.194, "best_constant": 0.680, "position_mean": 0.294,
        "knows_length": 0.199},
    2: {"prior_only": 1.015, "noise_floor": 0.311, "best_constant": 0.256, "knows_length": 0.086},
}  # fmt: skip


@pytest.fixture(scope="module")
def scored() -> dict[int, dict[str, dict[str, float]]]:
    """All baselines at K = 20 for both sizes."""
    return {d: baselines.regression_baselines(bw.tunnels.Regression(d), N, rng(d)) for d in PRINTED}


def within(value: float, se: float, printed: float) -> bool:
    """Two Monte-Carlo figures agree; the printed one has three decimals."""
    return abs(value - printed) < 4 * math.sqrt(1 + N / N_PRINTED) * se + 5e-4


@pytest.mark.parametrize(("d", "name"), [(d, name) for d in PRINTED for name in PRINTED[d]])
def test_entropy_errors_of_the_survey(scored, d, name):
    row = scored[d][name]
    assert within(row["entropy_mae"], row["entropy_mae_se"], PRINTED[d][name])
    assert row["entropy_mae_se"] < 0.01  # so that the line above says something


def test_right_variance_around_zero_has_no_entropy_error_and_a_large_divergence(scored):
    row = scored[8]["right_variance"]
    assert row["entropy_mae"] == pytest.approx(0, abs=1e-12)
    assert within(row["kl"], row["kl_se"], 5.68)
    assert row["kl_se"] < 0.1
    assert row["tv"] > 0.4


def test_who_forgets_pairs_but_reasons_rightly_loses_the_information_in_them(scored):
    """The divergence of a posterior on fewer pairs is its excess of entropy, in expectation."""
    for table in scored.values():
        for name in ("prior_only", "window_1", "window_4", "window_16"):
            row = table[name]
            spread = math.hypot(row["kl_se"], row["entropy_mae_se"])
            assert abs(row["kl"] - row["entropy_mae"]) < 4 * spread, name
        # Who is wrong about what he knows has no such luck.
        assert table["noise_floor"]["kl"] > 1.3 * table["noise_floor"]["entropy_mae"]


def test_entropies_and_errors_of_the_oracle_in_the_survey():
    episodes = bw.tunnels.Regression().sample(N, rng(9))
    entropy = gaussian_entropy_bits(episodes.posterior)
    for k, printed in {1: 3.48, 5: 2.99, 10: 2.09, 20: 1.43}.items():
        column = entropy[:, k - 1]
        assert abs(column.mean() - printed) < 4 * math.sqrt(1 / N + 1 / N_PRINTED) * column.std() + 5e-3
    means = entropy.mean(1)
    assert within(means.mean().item(), (means.std() / math.sqrt(N)).item(), 2.241)
    squares = (episodes.targets - episodes.posterior[..., 0]) ** 2
    for some, printed in ((squares.mean(1), 1.579), (squares[:, -1], 0.661)):
        root = some.mean().sqrt()
        assert within(root.item(), (some.std() / math.sqrt(N) / (2 * root)).item(), printed)


def test_baselines_are_in_order(scored):
    """Whoever knows more is closer to the posterior."""
    for table in scored.values():
        kl = {name: row["kl"] for name, row in table.items()}
        windows = [kl[f"window_{w}"] for w in (1, 2, 4, 8, 16)]
        assert kl["prior_only"] > windows[0]
        assert all(a > b for a, b in zip(windows, windows[1:], strict=False))
        assert 0 < min(kl["noise_x0.5"], kl["noise_x2"])
        names = ("best_constant", "position_mean", "knows_length", "right_variance")
        errors = [table[name]["entropy_mae"] for name in names]
        assert all(a > b for a, b in zip(errors, errors[1:], strict=False))


def test_whoever_is_told_the_weights_beats_the_oracle_and_is_far_from_it():
    tunnel = bw.tunnels.Regression(8)
    episodes = tunnel.sample(2000, rng(10))
    cheat = score_episodes(baselines.KnownWeights(tunnel, episodes), episodes)
    plug_in = score_episodes(baselines.PlugIn(tunnel), episodes)
    assert cheat.cross_entropy_gap < -4 * cheat.cross_entropy_gap_se
    assert plug_in.cross_entropy_gap > 4 * plug_in.cross_entropy_gap_se
    assert cheat.entropy_mae == pytest.approx(plug_in.entropy_mae)  # both have the noise alone
    assert cheat.kl > plug_in.kl > 1
    # What it gains on the outcomes is the difference of the entropies: it knows all but the noise.
    gain = -cheat.cross_entropy_gap
    assert abs(gain - cheat.entropy_mae) < 4 * cheat.cross_entropy_gap_se


def test_no_honest_baseline_beats_the_oracle():
    tunnel = bw.tunnels.Regression(3, 8)
    usual = baselines.typical(tunnel.sample(4000, rng(11)), tunnel.noise)
    episodes = tunnel.sample(4000, rng(12))
    for predictor in honest(tunnel, usual):
        result = score_episodes(predictor, episodes)
        spread = math.hypot(result.kl_se, result.cross_entropy_gap_se)
        # In expectation the gap on what happened is the divergence.
        assert abs(result.cross_entropy_gap - result.kl) < 4 * spread, predictor
        assert result.kl > 1e-3, predictor


def honest(tunnel, usual) -> list[baselines.GaussianBaseline]:
    """One of each kind that is told nothing it could not know."""
    return [
        baselines.PriorOnly(tunnel), baselines.PlugIn(tunnel), baselines.RightVariance(tunnel),
        baselines.EntropyByPosition(tunnel, usual.entropy_by_position),
        baselines.EntropyByPosition(tunnel, torch.tensor([usual.entropy_median]).double()),
        baselines.KnowsLength(tunnel, usual.share),
        baselines.WindowPosterior(tunnel, 2), baselines.WrongNoise(tunnel, 2.0),
    ]


def test_windows_of_no_pair_and_of_all_pairs():
    tunnel = bw.tunnels.Regression(3, 6)
    inputs = tunnel.sample(30, rng(13)).inputs
    for window in (5, 6, 50):
        assert close(baselines.WindowPosterior(tunnel, window).predict(inputs), tunnel.predict(inputs))
    none = baselines.WindowPosterior(tunnel, 0).predict(inputs)
    assert close(none, baselines.PriorOnly(tunnel).predict(inputs))
    one = baselines.WindowPosterior(tunnel, 1).predict(inputs)
    last_two = torch.cat([inputs[:, -3:-1], inputs[:, -1:]], dim=1)  # x, y, x
    assert close(one[:, -1], tunnel.predict(last_two)[:, -1])


def test_wrong_noise_is_ridge_regression_with_the_wrong_penalty():
    tunnel = bw.tunnels.Regression(3, 9)
    episodes = tunnel.sample(5, rng(14))
    assert close(baselines.WrongNoise(tunnel, 1.0).predict(episodes.inputs), episodes.posterior)
    got = baselines.WrongNoise(tunnel, 3.0).predict(episodes.inputs)[:, -1, 0]
    x, y = episodes.latents["x"], episodes.latents["y"]
    for b in range(5):
        seen, penalty = x[b, :-1], (3 * tunnel.noise) ** 2 * torch.eye(3).double()
        weights = torch.linalg.solve(seen.T @ seen + penalty, seen.T @ y[b, :-1])
        assert got[b].item() == pytest.approx((weights @ x[b, -1]).item())


def test_references_read_longer_sequences():
    tunnel = bw.tunnels.Regression(3, 4)
    usual = baselines.typical(tunnel.sample(500, rng(15)), tunnel.noise)
    inputs = bw.tunnels.Regression(3, 7).sample(5, rng(16)).inputs
    for predictor in honest(tunnel, usual):
        assert predictor.predict(inputs).shape == (5, 7, 2), predictor


def test_baseline_scores_come_from_the_generator_alone():
    tunnel = bw.tunnels.Regression(2, 4)
    first, again, other = (baselines.regression_baselines(tunnel, 50, rng(s)) for s in (0, 0, 1))
    assert first == again != other
    assert not any(name.startswith("window_4") for name in first)  # it would forget nothing
    assert {"entropy_mae", "entropy_mae_se", "kl", "kl_se", "tv", "tv_se"} == set(first["prior_only"])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: baselines.WindowPosterior(t, -1), "window is -1"),
        (lambda t: baselines.WrongNoise(t, 0.0), r"factor is 0\.0"),
        (lambda t: baselines.WrongNoise(t, math.nan), "factor is nan"),
        (lambda t: baselines.EntropyByPosition(t, torch.tensor(1.0)), r"entropy has shape \(\)"),
        (lambda t: baselines.KnowsLength(t, torch.ones(0)), r"share has shape \(0,\)"),
        (
            lambda t: baselines.KnownWeights(t, t.sample(3, rng(1))).predict(t.sample(2, rng(2)).inputs),
            "weights of 2 of 2 episodes were not told",
        ),
    ],
)
def test_impossible_references_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call(bw.tunnels.Regression(2, 4))


def test_every_reference_has_a_name_of_its_own():
    tunnel = bw.tunnels.Regression(2, 4)
    episodes = tunnel.sample(50, rng(17))
    built = [*honest(tunnel, baselines.typical(episodes, 0.5)), baselines.KnownWeights(tunnel, episodes)]
    assert len({predictor.name for predictor in built}) == len(built)
    assert all(predictor.name in repr(predictor) for predictor in built)
