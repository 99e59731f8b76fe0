"""How much memory a score is worth, and what a table of a network's answers hands to the HMM explorer."""

from __future__ import annotations

import pytest
import torch

import bayeswind_lib as bw
from bayeswind_lib.references import hmm as references


def rungs(tunnel, episodes, windows):
    return {
        w: bw.scoring.score_episodes(references.WindowFilter(tunnel, w), episodes).kl for w in windows
    }


def test_a_window_filter_is_worth_its_own_window():
    tunnel = bw.tunnels.HMM(3, 3)
    episodes = tunnel.sample(64, torch.Generator().manual_seed(1))
    ladder = rungs(tunnel, episodes, range(1, 7))
    for window, kl in ladder.items():
        assert references.effective_window(kl, ladder) == window
        assert references.effective_window(kl * 1.001, ladder) == window
        assert references.effective_window(kl * 0.999, ladder) == (window + 1 if window < 6 else None)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
def test_the_order_of_the_rungs_does_not_matter(order):
    heights = {1: 0.3, 2: 0.04, 3: 0.005}
    assert references.effective_window(0.04, {w: heights[w] for w in order}) == 2
    assert references.effective_window(1.0, {w: heights[w] for w in order}) == 1
    assert references.effective_window(0.0, {w: heights[w] for w in order}) is None
