"""The diagnostics of Paper III on data whose answer is known, and SULA against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from bayeswind_lib.language import axes, manifold, sula


def rng(seed=0):
    return np.random.default_rng(seed)


# ---- the value manifold


def test_a_spectrum_of_known_variances():
    left = np.linalg.qr(rng().standard_normal((60, 4)) - 0)[0]
    left = np.linalg.qr(left - left.mean(0))[0]
    axes_ = np.linalg.qr(rng(1).standard_normal((7, 4)))[0].T
    x = left * [4, 2, 1, 1] @ axes_ + 5
    found = manifold.spectrum(x, standardise=False)
    assert np.allclose(found.shares[:4], np.array([16, 4, 1, 1]) / 22)
    assert found.pc1 == pytest.approx(16 / 22) and found.pc12 == pytest.approx(20 / 22)
    assert found.participation == pytest.approx(22**2 / (16**2 + 4**2 + 2))
    assert abs(found.axes[0] @ axes_[0]) == pytest.approx(1)
    assert abs(found.raw_axis() @ axes_[0]) == pytest.approx(1)


def test_a_standardised_axis_reads_raw_vectors():
    x = rng().standard_normal((50, 6)) * [1, 2, 3, 4, 5, 60] + 7
    found = manifold.spectrum(x)
    reading = (x - found.mean) @ found.raw_axis()
    assert abs(np.corrcoef(reading, found.project(x, 1)[:, 0])[0, 1]) == pytest.approx(1)
    assert abs(np.corrcoef(x @ found.axes[0], found.project(x, 1)[:, 0])[0, 1]) < 0.99  # the mistake that is easily made


@pytest.mark.parametrize(("n", "d", "pc1", "pc12"), [(75, 1024, 0.021, 0.042), (75, 192, 0.034, None), (13, 1024, 0.098, 0.194), (40, 192, 0.053, 0.098)])
def test_what_noise_scores(n, d, pc1, pc12):
    draws = [manifold.spectrum(manifold.noise(n, d, rng(i))) for i in range(12)]
    assert np.mean([one.pc1 for one in draws]) == pytest.approx(pc1, rel=0.05)
    if pc12:
        assert np.mean([one.pc12 for one in draws]) == pytest.approx(pc12, rel=0.05)
    assert manifold.expected_share(n, d) == pytest.approx(pc1, rel=0.1)


def test_the_bootstrap_is_biased_and_the_jackknife_is_not():
    """On noise the percentile interval lies wholly above what was measured."""
    x = manifold.noise(40, 192, rng(3))
    point = manifold.shares(x)["pc12"]
    draws = manifold.bootstrap(x, "pc12", 200, rng(4))
    assert np.quantile(draws, 0.025) > point
    value, error = manifold.jackknife(x)["pc12"]
    many = [manifold.shares(manifold.noise(40, 192, rng(100 + i)))["pc12"] for i in range(40)]
    assert value == point and 0.3 * np.std(many) < error < 5 * np.std(many)
    assert abs(np.mean(many) - value) < 4 * error


def test_shuffled_coordinates_keep_their_values_and_lose_each_other():
    x = rng().standard_normal((80, 1)) * np.ones(30) + 0.3 * rng(1).standard_normal((80, 30))
    y = manifold.shuffled(x, rng(2))
    assert np.allclose(np.sort(x, 0), np.sort(y, 0))
    assert manifold.shares(x)["pc1"] > 0.8 and manifold.shares(y)["pc1"] < 0.15


def test_one_prompt_can_own_a_component_but_not_its_ranks():
    x = rng().standard_normal((60, 40))
    x[0] += 100
    assert manifold.shares(x)["pc1"] > 0.8 and manifold.shares(manifold.ranked(x))["pc1"] < 0.15


def test_a_coordinate_that_never_changes_counts_for_nothing():
    x = rng().standard_normal((20, 5))
    x[:, 2] = 3.0
    found = manifold.spectrum(x)
    assert np.isfinite(found.shares).all() and np.allclose(found.axes[:4, 2], 0)


def test_cosines_of_columns():
    assert manifold.mean_cosine(np.diag([1.0, 5.0, 0.1])) == 0
    assert manifold.mean_cosine(np.ones((4, 3))) == pytest.approx(1)
    for D, C in ((1024, 64), (576, 64), (64, 16)):
        found = np.mean([manifold.mean_cosine(rng(i).standard_normal((D, C))) for i in range(10)])
        assert found == pytest.approx(manifold.expected_cosine(D), rel=0.05)
    assert manifold.expected_cosine(1024) == pytest.approx(0.0249, abs=1e-4)


@pytest.mark.parametrize("call", [lambda: manifold.spectrum(np.ones((2, 4))), lambda: manifold.spectrum(np.ones((5, 4)))])
def test_too_little_for_a_spectrum(call):
    with pytest.raises(ValueError, match=r"at least 3|all points are the same"):
        call()


# ---- SULA


def test_the_posterior_by_bayes_theorem():
    """All hidden labels, all sequences of six examples."""
    for shown in itertools.product((0, 1), repeat=6):
        chance = [0.5 * math.prod(0.9 if label == y else 0.1 for label in shown) for y in (0, 1)]
        m = 6 - 2 * sum(shown)
        assert float(sula.posterior(m)) == pytest.approx(chance[0] / sum(chance), abs=1e-12)


def test_published_entropies():
    want = [1.0, 0.468996, 0.095017, 0.015005, 0.002152, 0.000293, 3.9e-5, 5e-6, 1e-6]
    assert np.allclose(sula.entropy(np.arange(9)), want, atol=6e-7)
    assert np.allclose(sula.entropy(-np.arange(9)), sula.entropy(np.arange(9)))


def test_the_law_of_counts_by_enumeration():
    for k in sula.COUNTS:
        law = dict.fromkeys(sula.law(k), 0.0)
        for right in itertools.product((True, False), repeat=k):
            law[abs(2 * sum(right) - k)] += math.prod(0.9 if r else 0.1 for r in right)
        assert law == pytest.approx(sula.law(k))
    assert sula.law(4) == pytest.approx({0: 0.0486, 2: 0.2952, 4: 0.6562})


def test_expected_entropies_and_the_best_constant():
    assert [round(sula.expected_entropy(k), 4) for k in sula.COUNTS] == [1.0, 0.4690, 0.2579, 0.0781, 0.0081]
    guess, error = sula.constant_over_counts()
    assert guess == pytest.approx(0.095, abs=1e-3) and error == pytest.approx(0.3284, abs=5e-4)
    # Labels that are coin flips still move one who believes in 0.9: flat at 1 bit is the wrong target.
    assert [sula.expected_entropy(k, 0.5) for k in sula.COUNTS] == pytest.approx([1.0, 0.469, 0.548, 0.423, 0.316], abs=6e-4)


def test_a_constant_on_a_sample_is_the_best_one():
    h = sula.entropy(rng().integers(0, 6, 101))
    guess, error = sula.best_constant(h)
    assert all(error <= np.abs(h - other).mean() + 1e-12 for other in np.linspace(0, 1, 41))


WORDS = [f"w{i}" for i in range(30)]


def test_published_prompts_confound_evidence_with_length():
    from scipy.stats import spearmanr

    rows = sula.as_published(rng(), 400)
    found = sula.prompts(rows, WORDS, ("bip", "tor"), rng(1))
    assert sorted(set(found.k)) == [0, 1, 2, 4, 8] and len(found) == 2000
    assert spearmanr(sula.entropy(found.m), found.k)[0] == pytest.approx(-0.917, abs=0.02)
    assert np.mean([(row == 0).mean() for row in rows if len(row) == 8]) == pytest.approx(0.5, abs=0.06)
    for k in (2, 8):
        sizes = np.abs(found.m[found.k == k])
        assert (sizes == k).mean() == pytest.approx(sula.law(k)[k], abs=0.08)


def test_length_matched_prompts_do_not():
    found = sula.prompts(sula.length_matched(rng(), 20), WORDS, ("bip", "tor"), rng(1))
    assert set(found.k) == {8} and {m: int((found.m == m).sum()) for m in range(-8, 9, 2)} == dict.fromkeys(range(-8, 9, 2), 20)
    assert len({text.count(" ") for text in found.texts}) == 1


def test_a_prompt_shows_its_labels_in_order():
    (text,) = sula.prompts([np.array([0, 1, 1])], WORDS, ("bip", "tor"), rng()).texts
    parts = [part.split(": ") for part in text.rsplit(". ", 1)[0].split(", ")]
    assert [label for _, label in parts] == ["bip", "tor", "tor"]
    assert len({word for word, _ in parts} | {text.rsplit(". ", 1)[1][:-1]}) == 4
    assert sula.write(["cloud"], []) == "cloud:"


@pytest.mark.parametrize(("call", "says"), [
    (lambda: sula.law(-1), "k is -1"),
    (lambda: sula.prompts([np.zeros(3, int)], ["a", "b", "c"], ("x", "y"), rng()), "at least 4 words"),
    (lambda: sula.prompts([np.zeros(3, int)], WORDS, ("x", "x"), rng()), "two different labels"),
])  # fmt: skip
def test_bad_prompts_are_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_simple_minded_readers():
    assert sula.copies(np.array([])) == 0.5 == sula.repeats(np.array([]))
    assert sula.copies(np.array([0, 0, 1])) == pytest.approx(3 / 5)
    assert sula.repeats(np.array([0, 1])) == pytest.approx(0.1) and sula.repeats(np.array([1, 0])) == 0.9


# ---- cutting an axis


def test_a_cut_axis_is_gone_and_the_rest_is_not():
    x, u = rng().standard_normal((50, 12)) + 4, axes.random_axis(12, rng(1))
    after = axes.cut(x, 3 * u, x.mean(0))
    assert np.abs((after - x.mean(0)) @ u).max() < 1e-12 and np.allclose(after.mean(0), x.mean(0))
    other = np.linalg.qr(np.c_[u, rng(2).standard_normal((12, 11))])[0][:, 1:]
    assert np.allclose(after @ other, x @ other)
    assert np.abs(axes.cut(x, u) @ u).max() < 1e-12
    assert axes.removed_share(x, u) == pytest.approx(1 - np.square(after - after.mean(0)).sum() / np.square(x - x.mean(0)).sum())


@pytest.mark.parametrize("share", [0.05, 0.1, 0.14])
def test_matched_axes_carry_as_much_and_point_elsewhere(share):
    x = rng().standard_normal((300, 40)) * np.geomspace(8, 0.5, 40)
    drawn = np.array([axes.matched_axis(x, share, rng(i)) for i in range(20)])
    assert np.allclose(np.linalg.norm(drawn, axis=1), 1)
    assert all(axes.removed_share(x, u) == pytest.approx(share, rel=0.11) for u in drawn)
    assert np.abs(drawn @ drawn.T)[~np.eye(20, dtype=bool)].mean() < 0.9
    assert axes.removed_share(x, axes.random_axis(40, rng(9))) < 0.06


def test_a_share_that_no_direction_carries_is_refused():
    with pytest.raises(ValueError, match=r"share is 0\.9"):
        axes.matched_axis(rng().standard_normal((50, 20)), 0.9, rng())


def test_what_was_cut_can_be_decoded_again_from_copies():
    """The published reading: the axis' own reading is gone. The quantity is not, where it is written twice."""
    source = rng(5)
    y = source.standard_normal(200)
    x = source.standard_normal((200, 20))
    x[:, 0] += 3 * y
    once = axes.cut(x, np.eye(20)[0], x.mean(0))
    assert axes.decodable(x, y) > 0.8 and axes.decodable(once, y) < 0.1
    x[:, 1] += 3 * y
    twice = axes.cut(x, np.eye(20)[0], x.mean(0))
    assert axes.decodable(twice, y) > 0.8


def test_equivalence_needs_data_not_only_a_small_mean():
    small, few = rng().normal(0, 1, 4000), rng().normal(0, 1, 25)
    assert axes.equivalence(small, 0.1).p < 0.01
    assert axes.equivalence(few, 0.1).p > 0.05  # no effect seen, and none excluded
    assert axes.equivalence(small + 0.5, 0.1).p > 0.99
    with pytest.raises(ValueError, match="margin is 0"):
        axes.equivalence(small, 0)


# ---- what answers follow


def test_a_partial_rank_correlation_is_the_textbook_formula():
    from scipy.stats import spearmanr

    z = rng().integers(0, 5, 200)
    x, y = z + rng(1).standard_normal(200), -z + rng(2).standard_normal(200)
    xy, xz, yz = (spearmanr(a, b)[0] for a, b in ((x, y), (x, z), (y, z)))
    assert sula.rank_correlation(x, y) == pytest.approx(xy)
    want = (xy - xz * yz) / math.sqrt((1 - xz**2) * (1 - yz**2))
    assert sula.rank_correlation(x, y, z) == pytest.approx(want) and abs(want) < 0.3 < abs(xy)
    assert sula.rank_correlation(x, np.ones(200)) == 0


def test_the_weights_of_places_are_found_again():
    labels = rng().integers(0, 2, (400, 4))
    weights, noise = np.array([0.1, 0.5, 1.0, 2.0]), rng(1).standard_normal(400)
    found = sula.by_place(labels, 0.7 + (1 - 2 * labels) @ weights + 0.3 * noise)
    assert found.bias == pytest.approx(0.7, abs=0.06) and np.allclose(found.weights, weights, atol=0.06)
    assert np.allclose(found.errors, 0.3 / 20, rtol=0.2)
    with pytest.raises(ValueError, match="at least 7"):
        sula.by_place(labels[:6], np.zeros(6))


def test_an_exact_observer_is_calibrated():
    m = np.arange(-8, 9, 2)
    logit = np.log(sula.posterior(m)) - np.log(1 - sula.posterior(m))
    assert sula.calibration(m, logit) == pytest.approx((0, 1), abs=1e-6)
    assert sula.calibration(m, 1.5 + logit / 2) == pytest.approx((1.5, 0.5), abs=1e-6)
    assert np.allclose(sula.chance(logit), sula.posterior(m))
