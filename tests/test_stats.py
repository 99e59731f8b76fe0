"""Statistics: against scipy and scikit-learn, and on numbers whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from bayeswind_lib import stats
from sklearn.decomposition import PCA


@pytest.mark.parametrize("shape", [(40, 6), (6, 40), (20, 20)])
def test_components_are_those_of_scikit_learn(shape):
    """Many points in few dimensions go another way than few in many."""
    x = np.random.default_rng(0).standard_normal(shape) * np.arange(1, shape[1] + 1) + 5
    found, want = stats.pca(x), PCA().fit(x)
    assert found.shares == pytest.approx(want.explained_variance_ratio_, abs=1e-12)
    assert found.shares.sum() == pytest.approx(1)
    n = min(shape) - 1  # centred: the last axis of few points carries nothing
    assert np.abs((found.axes[:n] * want.components_[:n]).sum(1)) == pytest.approx(np.ones(n))
    assert np.abs(found.project(x, n)) == pytest.approx(np.abs(want.transform(x)[:, :n]))
    assert stats.pca(x, axes=False).shares == pytest.approx(found.shares, abs=1e-12)


def test_the_sign_of_a_component_does_not_depend_on_the_way_it_was_found():
    x = np.random.default_rng(1).standard_normal((9, 8)) * np.arange(1, 9)
    wide = np.concatenate([x, np.zeros((9, 8))], 1)  # more channels than points: the other way
    assert stats.pca(wide).axes[:7, :8] == pytest.approx(stats.pca(x).axes[:7], abs=1e-9)


def test_standardised_channels_count_alike_and_a_constant_one_for_nothing():
    x = np.random.default_rng(2).standard_normal((500, 3)) * (1, 1000, 0)
    found = stats.pca(x, standardise=True)
    assert found.shares[:2] == pytest.approx([0.5, 0.5], abs=0.05) and found.shares[2] == pytest.approx(0)
    assert stats.pca(x).pc1 > 0.999
    assert np.corrcoef(x @ found.raw_axis(), found.project(x, 1)[:, 0])[0, 1] == pytest.approx(1)


@pytest.mark.parametrize("points", [np.ones((2, 4)), np.ones(5), np.ones((5, 4))])
def test_points_without_a_shape_are_refused(points):
    with pytest.raises(ValueError, match="at least 3 are needed|all points are the same"):
        stats.pca(points)


@pytest.mark.parametrize("n", [2, 5, 8])
def test_student_s_interval_is_that_of_scipy(n):
    x = np.random.default_rng(n).standard_normal(n)
    want = scipy.stats.ttest_1samp(x, 0).confidence_interval(0.95)
    assert stats.t_interval(x) == pytest.approx((want.low, want.high))
    assert stats.standard_error(x) == pytest.approx(scipy.stats.sem(x))
    assert math.isnan(stats.standard_error([1.0]))


def test_a_null_in_short():
    assert stats.summary([3.0, None, 1.0, math.nan, 2.0]) == {"null": 2.0, "low": 1.0, "high": 3.0, "draws": 3}
    draws = np.arange(101.0)
    assert stats.summary(draws, level=0.9) == {"null": 50, "low": pytest.approx(5), "high": pytest.approx(95), "draws": 101}
    assert stats.summary(draws, 50)["percentile"] == pytest.approx(50)
    assert stats.summary([1.0, 1.0], 1.0)["percentile"] == 50  # ties count half
    assert stats.summary([1.0, 2.0, 3.0, 4.0], 1.5)["percentile"] == 25  # the share below, not above
    assert stats.summary([None], 2.0) == {"null": None, "low": None, "high": None, "draws": 0, "value": 2.0, "percentile": None}
    assert stats.summary([1.0, math.inf, math.inf])["high"] == math.inf
    assert stats.summaries([{"a": 1, "b": 2}, {"a": 3, "b": 2}])["a"]["null"] == 2


def test_a_gaussian_with_the_same_mean_and_covariance():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((30, 4)) @ rng.standard_normal((4, 4)) + 7
    drawn = np.concatenate([stats.matched_gaussian(x, rng) for _ in range(3000)])
    assert drawn.mean(0) == pytest.approx(x.mean(0), abs=0.05)
    assert np.cov(drawn.T) == pytest.approx(np.cov(x.T), rel=0.05, abs=0.1)


def test_survival_by_hand():
    """Six runs: one ends at 1; of five left one ends at 3, when another is lost; of three left one ends at 5."""
    found = stats.survival([5, 1, 3, 3, 5, 5], [True, True, True, False, False, False])
    assert found["at"].tolist() == [0, 1, 3, 5]
    assert found["share"] == pytest.approx([1, 5 / 6, 5 / 6 * 4 / 5, 5 / 6 * 4 / 5 * 2 / 3])
    variance = 1 / (6 * 5) + 1 / (5 * 4)  # Greenwood's sum after the second end
    share, spread = 2 / 3, 1.959964 * math.sqrt(variance) / abs(math.log(2 / 3))
    assert found["low"][2] == pytest.approx(share ** math.exp(spread), rel=1e-4)
    assert found["high"][2] == pytest.approx(share ** math.exp(-spread), rel=1e-4)


def test_survival_of_all_and_of_none():
    every, none = stats.survival([1, 2], [True, True]), stats.survival([7, 7], [False, False])
    assert every["share"].tolist() == [1, 0.5, 0] and every["low"][-1] == 0 and np.isfinite(every["high"]).all()
    assert none["at"].tolist() == [0] and none["share"].tolist() == [1]


def test_the_log_rank_test_by_hand():
    """Two groups of three, all of the first ending before the second: four terms of a hypergeometric."""
    p = stats.logrank([1, 2, 3], [True] * 3, [4, 5, 6], [True, True, False])
    observed = 3 - (3 / 6 + 2 / 5 + 1 / 4)
    variance = sum(a * b / (a + b) ** 2 for a, b in ((3, 3), (2, 3), (1, 3)))
    assert p == pytest.approx(scipy.stats.chi2.sf(observed**2 / variance, 1), rel=1e-9)
    assert stats.logrank([9] * 4, [False] * 4, [9] * 4, [False] * 4) == 1.0
    assert stats.logrank([1, 2, 3], [True] * 3, [1, 2, 3], [True] * 3) == pytest.approx(1.0)


def test_a_correlation_does_not_depend_on_the_unit_and_is_0_of_equal_numbers():
    x, y = np.random.default_rng(0).normal(size=(2, 50))
    for unit in (1e-12, 1e-6, 1e6):
        assert stats.correlation(unit * x, y / unit) == pytest.approx(stats.correlation(x, y))
    assert stats.correlation(np.full(50, 0.1), y) == stats.correlation(y, np.zeros(50)) == 0
