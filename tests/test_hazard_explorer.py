"""The filter of a chain with two states in log odds; the hazard explorer against the library."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
import torch
from _support_explorer import CLEAR, explorer_opener, number

from bayeswind_lib.baselines import switching
from bayeswind_lib.tunnels.hmm import forward_filter

pytestmark = pytest.mark.xdist_group("browser")
STEPS = 40  # of the sequence that is drawn
KEEPS = np.linspace(0, 1, 51)


# ---- the mathematics ----------------------------------------------------------------------------


def matrices(hazard: float, reliability: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The same chain as the HMM tunnel holds it."""
    rows = [[1 - hazard, hazard], [hazard, 1 - hazard]], [[reliability, 1 - reliability], [1 - reliability, reliability]]
    return tuple(torch.tensor([row], dtype=torch.float64) for row in rows)


@pytest.mark.parametrize("hazard, reliability", [(0.01, 0.6), (0.1, 0.9), (0.3, 0.75), (0.5, 0.55)])
def test_log_odds_are_those_of_the_forward_algorithm(hazard, reliability):
    symbols = np.random.default_rng(0).integers(0, 2, 60)
    exact = forward_filter(*matrices(hazard, reliability), torch.tensor(symbols)[None])[0].numpy()
    ours = switching.filtered(switching.evidence(symbols, reliability), hazard)
    np.testing.assert_allclose(ours, np.log(exact[:, 1] / exact[:, 0]), rtol=0, atol=1e-9)


def test_carrying_bends_and_saturates():
    odds = np.linspace(-30, 30, 301)
    for hazard in (0.01, 0.2, 0.45):
        carried = switching.carry(odds, hazard)
        np.testing.assert_allclose(carried, 2 * np.arctanh((1 - 2 * hazard) * np.tanh(odds / 2)), atol=1e-9)
        assert np.abs(carried).max() <= math.log((1 - hazard) / hazard)
        assert switching.carry(1e5, hazard) == pytest.approx(math.log((1 - hazard) / hazard))
        assert switching.carry(1e-6, hazard) == pytest.approx(1e-6 * (1 - 2 * hazard), rel=1e-6)
    np.testing.assert_allclose(switching.carry(odds, 0), odds)
    np.testing.assert_allclose(switching.carry(odds, 0.5), 0, atol=1e-12)


def by_enumeration(hazard: float, reliability: float, keep: float, n_steps: int) -> float:
    """The mean divergence from every sequence, its probability summed over all state paths."""
    T, E = (m[0].numpy() for m in matrices(hazard, reliability))
    total = 0.0
    for symbols in itertools.product((0, 1), repeat=n_steps):
        joint = np.array([0.5, 0.5])
        held = 0.0
        for t, symbol in enumerate(symbols):
            joint = (joint @ T if t else joint) * E[:, symbol]
            held = keep * held + switching.evidence(symbol, reliability)
            p, q = joint / joint.sum(), 1 / (1 + np.exp([held, -held]))
            prefix_counted = 2 ** (n_steps - 1 - t)  # so often does this prefix come again
            total += joint.sum() * (p * np.log2(p / q)).sum() / prefix_counted
    return total / n_steps


@pytest.mark.parametrize("hazard, reliability", [(0.05, 0.7), (0.2, 0.9), (0.4, 0.6)])
def test_the_mean_divergence_is_that_of_all_sequences(hazard, reliability):
    keeps = [0.0, 0.3, 0.8, 1.0]
    ours = switching.expected_kl(hazard, reliability, keeps, n_steps=6)
    wanted = [by_enumeration(hazard, reliability, keep, 6) for keep in keeps]
    np.testing.assert_allclose(ours, wanted, rtol=0, atol=1e-12)


def test_the_mean_divergence_is_that_of_sampled_sequences():
    rng, found = np.random.default_rng(1), []
    for _ in range(3000):
        _, symbols = switching.sample(0.1, 0.8, 12, rng)
        given = switching.evidence(symbols, 0.8)
        found.append(switching.divergence(switching.filtered(given, 0.1), switching.leaky(given, 0.9)).mean())
    error = np.std(found) / math.sqrt(len(found))
    assert abs(np.mean(found) - switching.expected_kl(0.1, 0.8, [0.9])[0]) < 4 * error


def test_samples_have_the_hazard_and_the_reliability():
    states, symbols = switching.sample(0.2, 0.7, 40_000, np.random.default_rng(2))
    assert np.mean(states[1:] != states[:-1]) == pytest.approx(0.2, abs=0.01)
    assert np.mean(states == symbols) == pytest.approx(0.7, abs=0.01)


def test_an_integrator_that_needs_no_leak_is_exact():
    assert switching.expected_kl(0.0, 0.8, [1.0]) == pytest.approx([0], abs=1e-12)
    assert switching.expected_kl(0.5, 0.8, [0.0]) == pytest.approx([0], abs=1e-12)
    assert (switching.expected_kl(0.2, 0.8, KEEPS) > 1e-4).all()


def test_the_best_leak_follows_the_hazard():
    """For weak evidence the slope at even odds, 1 - 2h; for strong evidence less is kept."""
    for hazard in (0.05, 0.1, 0.2, 0.3, 0.4):
        best = {r: KEEPS[switching.expected_kl(hazard, r, KEEPS).argmin()] for r in (0.55, 0.7, 0.9)}
        assert best[0.55] == pytest.approx(1 - 2 * hazard, abs=0.021)
        assert best[0.9] < best[0.7] < best[0.55] + 0.021


@pytest.mark.parametrize("call, words", [
    (lambda: switching.evidence([1], 1.0), "reliability is 1.0: choose 0.5 or more"),
    (lambda: switching.evidence([1], 0.3), "reliability is 0.3: choose 0.5 or more"),
    (lambda: switching.carry(0.0, 0.7), "hazard is 0.7: choose 0"),
])
def test_impossible_chains_are_refused(call, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        call()


# ---- on the page --------------------------------------------------------------------------------


@pytest.fixture
def open_page(browser, tmp_path):
    with explorer_opener("hazard", browser, tmp_path) as opened:
        yield opened


def test_it_computes_what_the_library_computes(open_page):
    page, rng = open_page(), np.random.default_rng(3)
    for _ in range(20):
        hazard, reliability, keep = rng.uniform(0.01, 0.5), rng.uniform(0.51, 0.99), rng.uniform()
        _, symbols = switching.sample(hazard, reliability, 30, rng)
        given = switching.evidence(symbols, reliability)
        theirs = page.evaluate(
            """([h, r, k, s]) => { const e = bwHazard.evidence(s, r);
               return [e, bwHazard.filtered(e, h), bwHazard.leaky(e, k)]; }""",
            [hazard, reliability, keep, symbols.tolist()],
        )
        ours = given, switching.filtered(given, hazard), switching.leaky(given, keep)
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-9)
        keeps = [0.0, keep, 1.0]
        theirs = page.evaluate("([h, r, k]) => bwHazard.expectedKl(h, r, k)", [hazard, reliability, keeps])
        np.testing.assert_allclose(theirs, switching.expected_kl(hazard, reliability, keeps), rtol=0, atol=1e-10)


def test_controls_move_the_page_as_the_library_says(open_page):
    page = open_page()
    root, status = page.locator(".bw-explorer"), page.locator("[role=status]")
    for hazard, reliability, keep in ((0.05, 0.7, 0.9), (0.3, 0.9, 0.0), (0.5, 0.55, 1.0), (0.01, 0.95, 0.98)):
        for label, value in (("Hazard", hazard), ("Reliability", reliability), ("Kept each step", keep)):
            page.get_by_label(label, exact=True).fill(str(value))
        wanted = switching.expected_kl(hazard, reliability, KEEPS)
        here = wanted[round(50 * keep)]
        assert float(root.get_attribute("data-here")) == pytest.approx(here, abs=1e-10)
        assert float(root.get_attribute("data-least")) == pytest.approx(wanted.min(), abs=1e-10)
        assert f"keeps {keep:.2f} is {number(here)} bits" in status.text_content()
        page.get_by_role("button", name="Best leak").click()
        assert float(page.get_by_label("Kept each step", exact=True).input_value()) == pytest.approx(KEEPS[wanted.argmin()])
        assert float(root.get_attribute("data-here")) == pytest.approx(wanted.min(), abs=1e-10)


def test_the_sequence_drawn_is_of_the_chain(open_page):
    page = open_page()
    drawn = page.evaluate("[...Array(300).keys()].map(seed => bwHazard.sequence(0.2, 0.7, seed))")
    states = np.array([one["states"] for one in drawn])
    symbols = np.array([one["symbols"] for one in drawn])
    assert states.shape == (300, STEPS)
    assert np.mean(states[:, 1:] != states[:, :-1]) == pytest.approx(0.2, abs=0.02)
    assert np.mean(states == symbols) == pytest.approx(0.7, abs=0.02)
    assert np.mean(states[:, 0]) == pytest.approx(0.5, abs=0.1)


def test_a_new_sequence_differs_and_keeps_the_mean(open_page):
    page = open_page()
    before = page.locator("svg").first.get_attribute("aria-label")
    mean = page.locator(".bw-explorer").get_attribute("data-here")
    page.get_by_role("button", name="New sequence").click()
    assert page.locator("svg").first.get_attribute("aria-label") != before
    assert page.locator(".bw-explorer").get_attribute("data-here") == mean


def test_values_stand_under_the_pointer(open_page):
    """Log odds at every eighth step, and the mean divergence of a leak: those of the drawings' words."""
    page = open_page("dark", 390)
    odds, leaks = page.locator(".bw-chart").all()
    readout = page.locator(".bw-readout-box")

    def words_at(chart, share):
        chart.scroll_into_view_if_needed()
        box = chart.bounding_box()
        page.mouse.move(box["x"] + 46 + (box["width"] - 58) * share, box["y"] + 120)
        assert readout.evaluate(CLEAR)
        return [line.replace("\u2212", "-") for line in readout.locator("text").all_text_contents()]

    told = re.findall(r"-?\d+(?:\.\d+)?", odds.locator("svg").get_attribute("aria-label").partition(": ")[2].replace("\u2212", "-"))
    for i in range(5):
        step, *rows = words_at(odds, (8 * i + 7.5) / STEPS)
        assert step == f"step {8 * i + 8}"
        assert [float(row.split()[-1]) for row in rows] == [float(told[i + 5 * k]) for k in range(3)]
    wanted = switching.expected_kl(*(float(page.get_by_label(name, exact=True).input_value()) for name in ("Hazard", "Reliability")), KEEPS)
    assert words_at(leaks, 0.3) == ["kept 0.30", f"{number(wanted[15])} bits"]
