"""The EM explorer: its two steps are those of the library and of automatic differentiation."""

from __future__ import annotations

import json

import pytest
import torch
from _support_browser import middle
from _support_explorer import explorer_opener

from bayeswind_lib.dynamics import mixture

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def page(browser, tmp_path):
    with explorer_opener("em", browser, tmp_path) as opened:
        yield opened()


def is_right(page) -> dict:
    """Compare what the page shows with the library, on three queries alike, and with autograd; what it shows."""
    data = page.locator(".bw-explorer").evaluate("e => ({...e.dataset})")
    shown = {name: json.loads(data[name]) for name in ("values", "scores", "posterior", "after", "apart", "cosine", "outcome", "spread")}
    output = torch.tensor(page.evaluate("bwEm.OUTPUT"), dtype=torch.float64).T
    values = torch.tensor(shown["values"], dtype=torch.float64)[None]
    scores = torch.tensor(shown["scores"], dtype=torch.float64).expand(1, 4, 4)
    targets = torch.full((1, 4), shown["outcome"])
    torch.testing.assert_close(mixture.mixture(scores, values, output, targets).responsibility[0, 0], torch.tensor(shown["posterior"], dtype=torch.float64))
    leaf = scores[0, 0].clone().requires_grad_()
    torch.nn.functional.cross_entropy((leaf.softmax(-1) @ values[0] @ output)[None], targets[0, :1]).backward()
    torch.testing.assert_close(leaf.softmax(-1).detach() - leaf.grad, torch.tensor(shown["after"], dtype=torch.float64))
    cosine, apart = mixture.agreement(scores, values, output, targets)
    assert (shown["cosine"], shown["apart"]) == pytest.approx((cosine, apart))
    return shown


def test_it_computes_what_the_library_computes(page):
    assert is_right(page)["apart"] > 0.2
    for label, value in (("Score of value 1", "-2"), ("Score of value 4", "1.5"), ("Spread of the values", "0.3")):
        page.get_by_label(label).fill(value)
        is_right(page)
    page.get_by_label("B", exact=True).check()
    assert is_right(page)["outcome"] == 1


def test_the_steps_become_one_as_the_values_are_drawn_together(page):
    """Half the spread leaves half the difference: one order is missing."""
    apart = [is_right(page)["apart"]]
    for _ in range(4):
        page.get_by_role("button", name="Draw them together").click()
        apart.append(is_right(page)["apart"])
    assert apart == sorted(apart, reverse=True) and apart[-1] / apart[-2] == pytest.approx(0.5, abs=0.05)


def test_a_value_follows_the_hand(page):
    page.get_by_label("Spread of the values").fill("0.5")
    before = is_right(page)
    x, y = middle(page.locator("[data-value='2']"))
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 40, y - 30, steps=4)
    page.mouse.up()
    after = is_right(page)
    moved = [a != pytest.approx(b) for a, b in zip(after["values"], before["values"], strict=True)]
    assert moved == [False, False, True, False] and after["spread"] == 1
    assert after["values"][2][0] > before["values"][2][0] and after["values"][2][1] > before["values"][2][1]
