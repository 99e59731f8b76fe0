"""How much memory a score is worth, and what a table of a network's answers hands to the HMM explorer."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from _support_browser import chromium
from _support_explorer import WEB

import bayeswind_lib as bw
from bayeswind_lib.baselines import hmm as baselines
from bayeswind_lib.widgets import filtering
from bayeswind_lib.widgets import hmm as widget


def ladder_of(tunnel, episodes, windows):
    return {
        w: bw.scoring.score_episodes(baselines.WindowFilter(tunnel, w), episodes).kl for w in windows
    }


def test_a_window_filter_is_worth_its_own_window():
    tunnel = bw.tunnels.HMM(3, 3)
    episodes = tunnel.sample(64, torch.Generator().manual_seed(1))
    ladder = ladder_of(tunnel, episodes, range(1, 7))
    for window, kl in ladder.items():
        assert baselines.effective_window(kl, ladder) == window
        assert baselines.effective_window(kl * 1.001, ladder) == window
        assert baselines.effective_window(kl * 0.999, ladder) == (window + 1 if window < 6 else None)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
def test_the_order_of_the_baselines_does_not_matter(order):
    heights = {1: 0.3, 2: 0.04, 3: 0.005}
    assert baselines.effective_window(0.04, {w: heights[w] for w in order}) == 2
    assert baselines.effective_window(1.0, {w: heights[w] for w in order}) == 1
    assert baselines.effective_window(0.0, {w: heights[w] for w in order}) is None


# ---- the network in the explorer ----------------------------------------------------------------

PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Explorer</title>
<script defer src="explorer.js"></script><script defer src="hmm_explorer.js"></script></head><body>{answers}
<div class="bw-explorer" data-explorer="hmm"></div></body></html>"""
ASK = """([seed, chain, seen]) => {
  const episode = new bwHmm.Episode(seed, chain);
  episode.seen = seen;
  const found = episode.rows(["network"]).find((one) => one.name === "network");
  return found ? found.rows.slice(1) : null;
}"""
FAST, SLOW = widget.CHAINS


class Late:
    """Answers with the belief of the step before: right to be told from every other predictor."""

    def predict(self, inputs):
        return baselines.StaleBelief(bw.tunnels.HMM(3, 3, widget.LENGTH)).predict(inputs)


def expected(seed, chain, seen):
    """The same answers without a table: probabilities, (seen, 3)."""
    drawn = widget.draw_chain(seed, *widget.CHAINS[{"fast": FAST, "slow": SLOW}[chain]])
    T, E = (torch.tensor([drawn[n]], dtype=torch.float64) / 100 for n in ("transition", "emission"))
    inputs = bw.tunnels.HMM(3, 3, widget.LENGTH).write(T, E, torch.tensor([drawn["symbols"]]))
    return Late().predict(inputs)[0, :seen].exp2().numpy()


def test_the_table_holds_every_step_of_every_chain():
    table = filtering.answer_table(Late(), seeds=(1, 5))
    assert len(table) == 2 * 2 * widget.LENGTH
    np.testing.assert_allclose([sum(row) for row in table.values()], 1, atol=3e-6)
    for name in ("1 fast ", "5 slow "):
        assert len([key for key in table if key.startswith(name)]) == widget.LENGTH


@pytest.mark.xdist_group("browser")
def test_the_page_shows_what_the_network_says(tmp_path):
    """At 20 random settings the page's network is the notebook's; elsewhere it is silent."""
    for path in (WEB / "explorer.js", WEB / "hmm_explorer.js"):
        shutil.copy(path, tmp_path)
    answers = bw.widgets.hmm_answers(Late(), "a </script> of a name")
    assert "80 answers" not in repr(answers) and "320 answers" in repr(answers)
    (tmp_path / "page.html").write_text(PAGE.format(answers=answers._repr_html_()), "utf-8")
    rng, errors = np.random.default_rng(3), []
    with chromium() as browser:
        page = browser.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((tmp_path / "page.html").as_uri())
        for _ in range(20):
            setting = [int(rng.integers(1, 9)), str(rng.choice(["fast", "slow"])), int(rng.integers(1, 21))]
            np.testing.assert_allclose(page.evaluate(ASK, setting), expected(*setting), atol=2e-6)
        assert page.evaluate(ASK, [9, "fast", 3]) is None
        legend = page.locator(".bw-legend").inner_text()
    assert errors == [] and "a </script> of a name" not in answers._repr_html_().split("<script>")[1]
    assert legend.count("\n") >= 2
