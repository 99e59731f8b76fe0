"""The coin explorer: eleven coins, Bayes' rule and wrong predictors, against sums in Python and the library's scores."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from _support_explorer import explorer_opener

from bayeswind_lib import scoring

pytestmark = pytest.mark.xdist_group("browser")
COINS = np.arange(11) / 10


def posterior(prior: np.ndarray, tosses: str) -> np.ndarray:
    weight = prior * np.prod([COINS if toss == "1" else 1 - COINS for toss in tosses], axis=0)
    return weight / weight.sum()


@pytest.fixture
def page(browser, tmp_path):
    with explorer_opener("coin", browser, tmp_path) as opened:
        yield opened(opens=None)


def shown(page) -> dict:
    data = page.locator(".bw-explorer").evaluate("e => ({...e.dataset})")
    return {"tosses": data["tosses"], "prior": np.array(json.loads(data["prior"]))} | {name: float(data[name]) for name in ("heads", "other", "entropy", "kl")}


def is_right(page) -> dict:
    """What is shown follows from the prior and the tosses, scored as the library scores."""
    now = shown(page)
    belief = posterior(now["prior"], now["tosses"])
    heads = float(belief @ COINS)
    assert now["prior"].sum() == pytest.approx(1, abs=1e-9)
    assert now["heads"] == pytest.approx(heads, abs=1e-12)
    truth, guess = (torch.tensor([p, 1 - p], dtype=torch.float64) for p in (heads, now["other"]))
    assert now["entropy"] == pytest.approx(float(scoring.entropy_bits(truth.log2())), abs=1e-9)
    assert now["kl"] == pytest.approx(float(scoring.kl_bits(truth, guess.log2())), abs=1e-9)
    return now | {"belief": belief}


def test_scripts_agree_with_a_sum_over_all_coins(page):
    rng = np.random.default_rng(0)
    for _ in range(20):
        prior, tosses = rng.dirichlet(np.full(11, 0.5)), rng.integers(0, 2, rng.integers(0, 12)).tolist()
        ours = posterior(prior, "".join(map(str, tosses)))
        np.testing.assert_allclose(page.evaluate("([p, t]) => bwCoin.posterior(p, t)", [prior.tolist(), tosses]), ours, atol=1e-12)
        said = page.evaluate("([b, p]) => Object.fromEntries(Object.entries(bwCoin.others).map(([n, f]) => [n, f(b, p)]))", [ours.tolist(), prior.tolist()])
        assert said == pytest.approx({"mirror": 1 - ours @ COINS, "likeliest": COINS[ours.argmax()], "prior": prior @ COINS}, abs=1e-12)


def test_controls_move_the_page_as_bayes_rule_says(page):
    before = is_right(page)
    assert len(before["tosses"]) == 5 and before["other"] == pytest.approx(1 - before["heads"]) and before["kl"] > 0.1
    for name, ending in (("Heads", "1"), ("Tails", "0")):
        page.get_by_role("button", name=name, exact=True).click()
        assert is_right(page)["tosses"].endswith(ending)
    page.locator("[data-chip='toss 0']").click()
    assert is_right(page)["tosses"][0] != before["tosses"][0]
    page.get_by_label("Coin, chance of heads").fill("0.3")
    page.get_by_label("Its prior").fill("0.5")
    raised = is_right(page)
    assert raised["prior"][3] == pytest.approx(0.5)
    np.testing.assert_allclose(np.delete(raised["prior"], 3), 0.05, atol=1e-9)  # the others share what is left as before
    for words in ("the likeliest coin alone", "no memory: the prior"):
        page.get_by_label(words).check()
        is_right(page)
    page.get_by_role("button", name="Even prior").click()
    np.testing.assert_allclose(is_right(page)["prior"], 1 / 11)


def test_a_coin_that_is_taken_for_certain_can_cost_infinitely_much(page):
    while page.get_by_role("button", name="Remove last").is_enabled():
        page.get_by_role("button", name="Remove last").click()
    page.get_by_role("button", name="Heads", exact=True).click()
    page.get_by_label("the likeliest coin alone").check()
    assert shown(page)["kl"] == math.inf
    assert "KL divergence is infinitely many bits" in page.locator("[role=status]").text_content()


def test_the_prior_is_dragged_with_the_hand(page):
    bar = page.locator("[data-coin='2']").bounding_box()
    x, y = bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 20, steps=4)
    page.mouse.up()
    now = is_right(page)
    assert now["prior"].argmax() == 2 and now["prior"][2] > 0.12


def test_tosses_that_no_coin_can_have_shown_leave_no_belief(page):
    """And the reader is told what to do."""
    page.get_by_label("Coin, chance of heads").fill("1")
    page.get_by_label("Its prior").fill("1")  # a tail was seen
    assert "there is no belief" in page.locator("[role=status]").text_content()
    page.get_by_label("Its prior").fill("0.5")
    is_right(page)
